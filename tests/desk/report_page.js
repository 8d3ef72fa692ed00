// What test_report_page.py asks of the pages of reports; docs/browse.py runs it in a browser.
const pause = ms => new Promise(done => setTimeout(done, ms));

async function open(address, width) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 900; frame.src = address;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  return frame;
}

const light = colour => {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number);
  return (.2126 * r + .7152 * g + .0722 * b) / 255;
};

const type = (page, id, text) => {
  const box = page.getElementById(id);
  box.value = text;
  box.dispatchEvent(new Event("input"));
};

const shown = page => ({
  rows: [...page.querySelectorAll("tbody tr")].filter(row => !row.hidden)
    .map(row => [...row.cells].slice(0, 2).map(cell => cell.textContent)),
  lines: [...page.querySelectorAll("#graph line")].filter(line => !line.classList.contains("off")).length,
  count: page.getElementById("count").textContent,
});

function sorted(page) {
  const found = {};
  for (const button of page.querySelectorAll("th button")) {
    const k = button.parentNode.cellIndex, column = () => [...page.querySelectorAll("tbody tr")].map(row => row.cells[k].dataset.value);
    button.click();
    const up = column();
    button.click();
    found[button.textContent] = [up, column()];
  }
  return found;
}

function theme(w, page) {
  const colours = () => { const style = w.getComputedStyle(page.body); return [light(style.backgroundColor), light(style.color)]; };
  const button = page.getElementById("theme"), seen = {[button.textContent]: null}, first = colours();
  button.click();
  const second = colours();
  button.click();
  return {first, second, again: colours()};
}

async function drag(w, page) {
  const dot = page.querySelector("#graph circle"), at = () => dot.getBoundingClientRect();
  const before = at(), x = before.left + 3, y = before.top + 3;
  const send = (target, kind, dx) => target.dispatchEvent(new w.MouseEvent(kind, {bubbles: true, cancelable: true, view: w, clientX: x + dx, clientY: y}));
  send(dot, "mousedown", 0); send(w, "mousemove", 60); send(w, "mouseup", 60);
  await pause(600);
  const moved = at().left - before.left, wide = page.querySelector("#graph > g").getBoundingClientRect().width;
  page.getElementById("graph").dispatchEvent(new w.WheelEvent("wheel", {bubbles: true, cancelable: true, view: w, deltaY: -300, clientX: 300, clientY: 500}));
  await pause(100);
  const nearer = page.querySelector("#graph > g").getBoundingClientRect().width / wide;
  return {moved, nearer};
}

async function look(address) {
  const frame = await open(address, 1000), w = frame.contentWindow, page = frame.contentDocument;
  const seen = {title: page.title, images: page.images.length, scripts: page.scripts.length, says: page.body.innerText};
  seen.theme = theme(w, page);
  if (page.getElementById("graph")) {
    seen.labels = [...page.querySelectorAll("#graph g g title")].map(e => e.textContent);
    seen.all = shown(page);
    type(page, "words", "  B "); seen.named = shown(page); type(page, "words", "");
    if (page.getElementById("least")) { type(page, "least", ".3"); seen.strong = shown(page); type(page, "least", "0"); }
    page.querySelector("#graph g g").dispatchEvent(new w.MouseEvent("click", {bubbles: true, view: w}));
    seen.chosen = shown(page);
    page.getElementById("again").click(); seen.again = shown(page);
    seen.sorted = sorted(page);
    seen.drag = await drag(w, page);
    seen.files = await Promise.all([...page.querySelectorAll(".file")].map(async link => [link.download, await (await fetch(link.href)).text()]));
  }
  frame.width = 360;
  await pause(50);
  seen.wide = page.documentElement.scrollWidth - w.innerWidth;
  seen.loaded = w.performance.getEntriesByType("resource").map(entry => entry.name);
  seen.faults = w.faults; seen.hacked = w.hacked === undefined ? null : String(w.hacked);
  frame.remove();
  return seen;
}

(async () => {
  const asked = await (await fetch("/asked.json")).json(), seen = {};
  try {
    for (const name of asked) seen[name] = await look(name);
  } catch (fault) { seen.driver = String(fault.stack || fault); }
  await fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
})();
