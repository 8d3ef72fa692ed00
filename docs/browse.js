// What docs/browse.py asks of every page; it runs in the browser.
const pause = ms => new Promise(done => setTimeout(done, ms));
const until = async (test, ms) => { for (let t = 0; t < ms && !test(); t += 50) await pause(50); return test(); };

async function open(address, width) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 2000; frame.src = address;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  return frame;
}

function rawFormulas(page) {
  const walker = page.createTreeWalker(page.querySelector("article") || page.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const hidden = walker.currentNode.parentElement.closest("pre, code, script, style, mjx-container");
    if (!hidden && /\$\$|\\\(|\\\[|\\begin\{|\$(?=[^$]*[\\^_{])[^$\s][^$]*\$/.test(walker.currentNode.data))
      found.push(walker.currentNode.data.trim().slice(0, 80));
  }
  return found;
}

const say = e => e.tagName.toLowerCase() + (e.className && e.className.split ? "." + e.className.split(" ").join(".") : "") + ": " + e.textContent.trim().slice(0, 50);

// what may be wider than its box, and is scrolled: code and tables
const mayScroll = e => e.matches("pre, div.highlight, table, .table-wrapper, .text_html, .scroll, .formula-scroll, code, dt.sig, .frames");

function cutOff(w, page) {
  const found = [], article = page.querySelector("article");
  if (!article) return found;
  const edge = Math.min(article.getBoundingClientRect().right + 9, w.innerWidth);  // furo's titles have a margin of 8
  for (const e of article.querySelectorAll("*")) {
    if (e.closest("svg, mjx-container > *, details:not([open])") || !e.getClientRects().length) continue;
    const style = w.getComputedStyle(e), box = e.getBoundingClientRect();
    if (style.position === "absolute" || style.display === "contents") continue;
    if (style.overflowX !== "visible" && style.display !== "inline") {
      if (e.scrollWidth > e.clientWidth + 1 && !mayScroll(e)) found.push("hides " + (e.scrollWidth - e.clientWidth) + "px of " + say(e));
      continue;
    }
    let outer = e.parentElement, inScroll = false;
    for (; outer && outer !== article; outer = outer.parentElement)
      if (w.getComputedStyle(outer).overflowX !== "visible") { inScroll = true; break; }
    if (!inScroll && box.right > edge) found.push("sticks out " + Math.round(box.right - edge) + "px: " + say(e));
  }
  if (w.innerWidth > 1000)
    for (const e of article.querySelectorAll("div.cell_input pre, div.math"))
      if (e.clientWidth && e.scrollWidth > e.clientWidth + 1) found.push("scrolls at full width: " + say(e));
  return [...new Set(found)].slice(0, 6);
}

// words broken in their middle, in titles and in tables
function broken(w, page) {
  const found = [], range = page.createRange();
  for (const e of page.querySelectorAll("article :is(h1, h2, h3, td, th)")) {
    if (e.closest("details:not([open]), .genindextable")) continue;
    const walker = page.createTreeWalker(e, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.parentElement.closest("code, mjx-container, pre, script")) continue;
      for (const word of node.data.matchAll(/[\p{L}\p{N}]{3,}/gu)) {
        range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
        if (lines.size > 1) found.push(word[0] + " in " + say(e));
      }
    }
  }
  return [...new Set(found)].slice(0, 6);
}

const light = c => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(x => (x /= 255) <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };

// text that hardly differs from its ground
function pale(w, page) {
  const found = [];
  for (const e of page.querySelectorAll("article :is(p, li, td, th, h1, h2, h3, figcaption, summary, code, span, a, pre)")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.closest("svg, .copybtn, .headerlink, details:not([open])") || e.matches(".headerlink")) continue;
    let ground = e, colour = "rgba(0, 0, 0, 0)";
    while (ground && /, 0\)$|transparent/.test(colour)) { colour = w.getComputedStyle(ground).backgroundColor; ground = ground.parentElement; }
    const style = w.getComputedStyle(e), a = light(style.color), b = light(colour);
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 2.9 && style.visibility !== "hidden" && style.opacity > .5) found.push(contrast.toFixed(1) + " " + style.color + " on " + colour + " " + say(e));
  }
  return [...new Set(found)].slice(0, 4);
}

const weight = (w, kind) => {
  const all = [...w.performance.getEntriesByType("navigation"), ...w.performance.getEntriesByType("resource")];
  return all.filter(e => !/_images\//.test(e.name)).reduce((sum, e) => sum + e[kind], 0);
};

async function look(address, widths) {
  const frame = await open(address, widths[0]), w = frame.contentWindow, page = frame.contentDocument;
  if (w.MathJax && w.MathJax.startup) await w.MathJax.startup.promise;
  const images = [...page.images].filter(image => !image.closest("noscript"));
  const eager = images.filter(image => image.loading !== "lazy").length;
  images.forEach(image => image.loading = "eager");
  await Promise.all(images.map(image => image.decode().catch(() => null)));
  await page.fonts.ready;  // fonts are asked for when the first formula is drawn: weighed before, they are not there
  const seen = {
    formulas: page.querySelectorAll(".math").length,
    rendered: page.querySelectorAll(".math mjx-container").length,
    failed: page.querySelectorAll("mjx-merror").length,
    raw: rawFormulas(page),
    images: images.length, eager, bytes: weight(w, "encodedBodySize"), unpacked: weight(w, "decodedBodySize"),
    blank: images.filter(image => image.naturalWidth === 0).map(image => image.src),
    elsewhere: w.performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin)),
    wide: [], cut: [], broken: [], pale: [],
  };
  for (const width of widths) {
    frame.width = width;
    await pause(30);
    if (w.fitFormulas) w.fitFormulas();
    if (page.documentElement.scrollWidth > w.innerWidth + 1) seen.wide.push(width);
    seen.cut.push(...cutOff(w, page).map(x => width + ": " + x));
    seen.broken.push(...broken(w, page).map(x => width + ": " + x));
  }
  for (const theme of ["light", "dark"]) {
    page.body.dataset.theme = theme;
    seen.pale.push(...pale(w, page).map(x => theme + ": " + x));
  }
  seen.faults = w.faults;
  frame.remove();
  return seen;
}

async function search(term) {
  const frame = await open("search.html?q=" + encodeURIComponent(term), 1300), page = frame.contentDocument;
  await until(() => /finished|did not match/.test(page.querySelector("#search-results").textContent), 20000);
  await until(() => page.querySelectorAll("#search-results li p.context").length > 2, 5000);
  await pause(300);
  const found = [...page.querySelectorAll("#search-results li a")].map(a => a.getAttribute("href"));
  const tex = [...page.querySelectorAll("#search-results li")].map(e => e.textContent).filter(t => /\\[a-zA-Z(]|\$\$/.test(t)).map(t => t.match(/.{0,30}(\\[a-zA-Z(]|\$\$).{0,30}/)[0]);
  const faults = frame.contentWindow.faults;
  frame.remove();
  return {found, tex, faults};
}

async function colours(address) {
  const frame = await open(address, 1300), w = frame.contentWindow, page = frame.contentDocument, seen = {};
  const button = page.querySelector("button.theme-toggle");
  for (let clicks = 0; clicks < 3; clicks++) {
    button.click();
    await pause(300);
    const figure = page.querySelector("div.cell_output img");
    seen[page.body.dataset.theme] = {
      ground: w.getComputedStyle(page.body).backgroundColor,
      text: w.getComputedStyle(page.body).color,
      figure: figure && w.getComputedStyle(figure).filter,
    };
  }
  frame.remove();
  return seen;
}

(async () => {
  const asked = await (await fetch("/asked.json")).json(), seen = {pages: {}, search: {}};
  try {
    for (const name of asked.pages) seen.pages[name] = await look(name, asked.widths);
    for (const term of asked.terms) seen.search[term] = await search(term);
    seen.colours = await colours("index.html");
  } catch (fault) { seen.driver = String(fault.stack || fault); }
  await fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
})();
