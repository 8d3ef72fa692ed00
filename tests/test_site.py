"""What a browser sees of the built site, and that `docs/check.py` finds faults.

`make docs` builds the book and looks at its files. Here one headless Chromium loads every
page without a network and is asked what it sees; without a Chromium this is skipped.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import check  # noqa: E402
import process  # noqa: E402

SPEC = importlib.util.spec_from_file_location(
    "build_book", ROOT / "docs/build.py"
)  # "build" is somebody else's name
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)

pytestmark = pytest.mark.xdist_group(
    "site"
)  # with --dist loadgroup, one worker builds for all
NBS = ROOT / "nbs"
PAGES = [
    "index",
    *(path.relative_to(NBS).with_suffix("").as_posix() for path in build.chapters(NBS)),
]
MODULES = [
    module
    for path in build.chapters(NBS)
    if (module := process.module_of(nbformat.read(path, as_version=4)))
]
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine to look at the pages with"
)
SECONDS = 180  # until the browser is given up


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    "The folder of the book built anew, which must succeed without a warning."
    out = tmp_path_factory.mktemp("book")
    assert build.build(NBS, out) == 0
    return out / "html"


def test_faults_of_a_site_are_noticed(tmp_path):
    text = (
        '<a id="x" href="#x"></a><a href="#y"><a href="b.html"><a'
        ' href="a.html?q=1#x"><a href="https://e.org/">'
        '<script src="//cdn.org/x.js"></script><img src="p.svg">'
    )
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "s.css").write_text("@import url('https://fonts.org/a.css')")
    found = list(check.faults(tmp_path))
    expected = ["#y leads", "b.html leads", "loads //cdn", "p.svg", "s.css", "only 1"]
    assert len(found) == 6 and all(
        any(words in fault for fault in found) for words in expected
    )


# what a browser sees

EARLY = """<script>
window.faults = [];
addEventListener("error", e => faults.push(e.message || "cannot load " + (e.target.src || e.target.href)), true);
addEventListener("unhandledrejection", e => faults.push(String(e.reason)));
console.error = (...words) => faults.push(words.join(" "));
</script>"""

DRIVER = """<!doctype html><body><script>
const pause = ms => new Promise(done => setTimeout(done, ms));
const until = async (test, ms) => { for (let t = 0; t < ms && !test(); t += 50) await pause(50); return test(); };

async function open(address) {
  const frame = document.createElement("iframe");
  frame.width = 1300; frame.height = 2000; frame.src = address;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  return frame;
}

function rawFormulas(page) {
  const walker = page.createTreeWalker(page.querySelector("article") || page.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const hidden = walker.currentNode.parentElement.closest("pre, code, script, style, mjx-container");
    if (!hidden && /\\$\\$|\\\\\\(|\\\\\\[|\\\\begin\\{/.test(walker.currentNode.data))
      found.push(walker.currentNode.data.trim().slice(0, 80));
  }
  return found;
}

async function look(address) {
  const frame = await open(address), w = frame.contentWindow, page = frame.contentDocument;
  if (w.MathJax && w.MathJax.startup) await w.MathJax.startup.promise;
  const images = [...page.images].filter(image => !image.closest("noscript"));
  images.forEach(image => image.loading = "eager");
  await Promise.all(images.map(image => image.decode().catch(() => null)));
  const seen = {
    formulas: page.querySelectorAll(".math").length,
    rendered: page.querySelectorAll(".math mjx-container").length,
    failed: page.querySelectorAll("mjx-merror").length,
    raw: rawFormulas(page),
    images: images.length,
    blank: images.filter(image => image.naturalWidth === 0).map(image => image.src),
    elsewhere: w.performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin)),
    wide: page.documentElement.scrollWidth > w.innerWidth + 1,
    faults: w.faults,
  };
  frame.remove();
  return seen;
}

async function search(term) {
  const frame = await open("search.html?q=" + encodeURIComponent(term)), page = frame.contentDocument;
  await until(() => /finished|did not match/.test(page.querySelector("#search-results").textContent), 20000);
  const found = [...page.querySelectorAll("#search-results li a")].map(a => a.getAttribute("href"));
  const faults = frame.contentWindow.faults;
  frame.remove();
  return {found, faults};
}

async function colours(address) {
  const frame = await open(address), w = frame.contentWindow, page = frame.contentDocument, seen = {};
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
    for (const name of asked.pages) seen.pages[name] = await look(name);
    for (const term of asked.terms) seen.search[term] = await search(term);
    seen.colours = await colours("index.html");
  } catch (fault) { seen.driver = String(fault.stack || fault); }
  await fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
})();
</script></body>"""

# a term, and the module whose chapter must be among what the search finds
TERMS = {
    "Neyman": "gdp",
    "Poisson": "discrete_gaussian",
    "clipped": "table",
    "witness": "feasibility",
}


class Server(ThreadingHTTPServer):
    "Serves the site to one browser, and keeps what the browser reports."

    daemon_threads = True

    def __init__(self, folder, asked):
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.asked, self.seen, self.missing, self.done = (
            asked,
            None,
            [],
            threading.Event(),
        )


class Handler(SimpleHTTPRequestHandler):
    """Files as they are; pages with a script before all others that notes what goes
    wrong."""

    def do_GET(self):
        "Serve the driver, its questions, a page, or a file."
        path = Path(self.translate_path(self.path))
        if self.path == "/driver.html":
            self._send(DRIVER, "text/html")
        elif self.path == "/asked.json":
            self._send(json.dumps(self.server.asked), "application/json")
        elif path.suffix == ".html" and path.is_file():
            self._send(
                path.read_text(encoding="utf-8").replace("<head>", "<head>" + EARLY, 1),
                "text/html",
            )
        else:
            super().do_GET()

    def do_POST(self):
        "Keep the browser's report."
        self.server.seen = json.loads(
            self.rfile.read(int(self.headers["Content-Length"]))
        )
        self._send("{}", "application/json")
        self.server.done.set()

    def _send(self, text, kind):
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code="-", size="-"):
        """Note what was asked for and is not there; a browser asks for the icon on its
        own."""
        if str(int(code)) == "404" and self.path != "/favicon.ico":
            self.server.missing.append(self.path)

    def log_message(self, format, *args):
        "Nothing: a test is quiet."


def run_browser(address, profile, done):
    """Open an address without a network, and close the browser when `done` is set or
    time is up."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
    ]
    browser = subprocess.Popen(
        [BROWSER, *flags, address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return done.wait(SECONDS)
    finally:
        os.killpg(
            browser.pid, signal.SIGKILL
        )  # the group holds the browser's own processes and nothing else
        browser.wait()


@pytest.fixture(scope="module")
def seen(site, tmp_path_factory):
    "What the browser reports of all pages."
    if BROWSER is None:
        pytest.skip("no Chromium on this machine to look at the pages with")
    asked = {
        "pages": (
            [f"{page}.html" for page in PAGES] + [f"api/{m}.html" for m in MODULES]
        ),
        "terms": list(TERMS),
    }
    with Server(site, asked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/driver.html"
        try:
            assert run_browser(
                address, tmp_path_factory.mktemp("profile"), server.done
            ), "the browser said nothing"
        finally:
            server.shutdown()
        assert "driver" not in server.seen, server.seen["driver"]
        return server.seen | {"missing": server.missing}


@needs_browser
def test_pages_are_what_they_should_be(seen):
    wrong = {
        page: looked
        for page, looked in seen["pages"].items()
        if looked["faults"]
        or looked["elsewhere"]
        or looked["raw"]
        or looked["rendered"] != looked["formulas"]
        or looked["failed"]
        or looked["blank"]
        or looked["wide"]
    }
    assert wrong == {}


@needs_browser
def test_there_was_something_to_see(seen):
    assert sum(looked["formulas"] for looked in seen["pages"].values()) > 500
    assert sum(looked["images"] for looked in seen["pages"].values()) > 20
    assert seen["missing"] == []


@needs_browser
@pytest.mark.parametrize(("term", "module"), TERMS.items())
def test_search_finds_a_chapter(seen, term, module):
    found = [
        link
        for link in seen["search"][term]["found"]
        if module in Path(urlsplit(link).path).stem
    ]
    assert any(not link.startswith(("api/", "_modules/")) for link in found), seen[
        "search"
    ][term]["found"]
    assert seen["search"][term]["faults"] == []


def luminance(colour):
    "Lightness of a colour written as rgb(…), from 0 to 255."
    red, green, blue = (
        float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@needs_browser
def test_the_switch_turns_the_page_dark(seen):
    light, dark = seen["colours"]["light"], seen["colours"]["dark"]
    assert luminance(light["ground"]) > 200 > 100 > luminance(light["text"])
    assert luminance(dark["ground"]) < 60 < 150 < luminance(dark["text"])
    assert light["figure"] == "none" and "invert" in dark["figure"]
