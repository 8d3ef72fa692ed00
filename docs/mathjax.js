// What each of MathJax's modules carries with it for browsers of 2010, once for all.
window.__assign = Object.assign;
window.__extends = function (child, parent) {
  Object.setPrototypeOf(child, parent);
  child.prototype = Object.create(parent.prototype, {
    constructor: { value: child, writable: true, configurable: true },
  });
};
window.__values = function (list) {
  return list[Symbol.iterator] ? list[Symbol.iterator]() : Array.from(list).values();
};
window.__read = function (list, most) {
  if (!list[Symbol.iterator]) return list;
  if (most === undefined) return Array.from(list);
  const steps = list[Symbol.iterator](), read = [];
  for (let step; most-- > 0 && !(step = steps.next()).done; ) read.push(step.value);
  return read;
};
window.__spreadArray = (list, more) => list.concat(Array.from(more));
window.__createBinding = (into, from, name, as = name) =>
  Object.defineProperty(into, as, { enumerable: true, get: () => from[name] });
window.__setModuleDefault = (into, value) =>
  Object.defineProperty(into, "default", { enumerable: true, value });
window.__importDefault = module => (module && module.__esModule ? module : { default: module });
window.__importStar = function (module) {
  if (module && module.__esModule) return module;
  const all = {};
  for (const name of Object.keys(module || {}))
    if (name !== "default") __createBinding(all, module, name);
  __setModuleDefault(all, module);
  return all;
};
