"""The built site: links and anchors resolve, nothing is remote, figures have words, and a browser sees a book.

The book is built once. The browser tests load every page in one headless Chromium, without a network, and ask it what
it sees; they are skipped where there is no Chromium.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

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


# what stands in the files


class Page(HTMLParser):
    "Links, anchors, images and everything loaded by one page."

    VOID = {"img", "link", "meta", "input", "br", "hr"}

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.images, self.loaded = [], {""}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        "Sort a tag's addresses by what they do."
        attrs = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := attrs.get(name))}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag == "img":
            self.images.append(attrs)
        if tag in {
            "script",
            "img",
            "iframe",
            "source",
            "video",
            "audio",
            "embed",
        } and attrs.get("src"):
            self.loaded.append(attrs["src"])
        if tag == "link" and attrs.get("rel") not in {
            "canonical",
            "next",
            "prev",
            "search",
            "index",
        }:
            self.loaded.append(attrs["href"])


@pytest.fixture(scope="module")
def pages(site):
    "{address from the top: Page} of the whole site."
    files = sorted(site.rglob("*.html"))
    return {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in files
    }


REMOTE_STYLE = re.compile(r"""(url\(|@import)\s*["']?(https?:)?//""")


def is_remote(address):
    "Whether an address leaves the site."
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme not in {
        "",
        "data",
        "mailto",
    }


def dead_links(pages, files):
    "Links that lead to no file, or to an anchor that the page they lead to does not have."
    dead = []
    for name, page in pages.items():
        for link in filter(
            lambda link: not is_remote(link)
            and not link.startswith(("data:", "mailto:")),
            page.links,
        ):
            path, anchor = urldefrag(link)
            path = urlsplit(path).path
            target = (
                os.path.normpath(Path(name).parent / unquote(path)) if path else name
            )
            known = target in files and (
                target not in pages or unquote(anchor) in pages[target].anchors
            )
            dead += [] if known else [f"{name} -> {link}"]
    return dead


def test_links_and_anchors_lead_somewhere(site, pages):
    files = {
        path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()
    }
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert dead_links(pages, files) == []


def test_a_dead_link_is_noticed():
    text = (
        '<a id="x" href="#x"></a><a href="#y"><a href="b.html"><a'
        ' href="a.html?q=1#x"><a href="https://e.org/">'
    )
    assert dead_links({"a.html": Page(text)}, {"a.html"}) == [
        "a.html -> #y",
        "a.html -> b.html",
    ]


def test_nothing_is_loaded_from_elsewhere(site, pages):
    remote = [
        f"{name} <- {address}"
        for name, page in pages.items()
        for address in page.loaded
        if is_remote(address)
    ]
    styles = {
        path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.css")
    }
    assert remote == []
    assert [name for name, text in styles.items() if REMOTE_STYLE.search(text)] == []


def test_a_remote_script_is_noticed():
    page = Page(
        '<script src="//cdn.org/x.js"></script><img src="a/b.svg"><link'
        ' rel="stylesheet" href="https://c.org/s">'
    )
    assert [is_remote(address) for address in page.loaded] == [True, False, True]
    assert REMOTE_STYLE.search(
        "@import url('https://fonts.org/a.css')"
    ) and not REMOTE_STYLE.search("url(data:x)")


def test_every_image_has_words(pages):
    silent = [
        f"{name}: {image.get('src')}"
        for name, page in pages.items()
        for image in page.images
        if not image.get("alt", "").strip() or image["alt"] == image.get("src")
    ]
    assert silent == []
    assert sum(len(page.images) for page in pages.values()) > 20


# chapters with a figure that has neither a title the build can read nor a `#| fig-alt:`
PENDING = {}


def test_figures_have_words_of_their_own(pages):
    "A figure's text says what is seen; the heading above it is only the last resort of the build."
    wordless = {
        name
        for name, page in pages.items()
        for image in page.images
        if image["alt"].startswith("Figure: ")
    }
    chapters = {Path(name).stem[3:] for name in wordless}
    assert (
        chapters - PENDING.keys() == set()
    ), "give the figure a title or a #| fig-alt:"
    assert PENDING.keys() - chapters == set(), "strike it from PENDING"


@pytest.mark.parametrize("page", PAGES)
def test_every_chapter_is_in_the_sidebar(pages, page):
    assert f"{page}.html" in pages
    assert page == "index" or f"{page}.html" in pages["index.html"].links


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_its_reference_and_sources(pages, module):
    page = pages[f"api/{module}.html"]
    sources = [
        link
        for link in page.links
        if link.startswith(f"../_modules/privglasso/{module}.html#")
    ]
    assert sources or not any(
        anchor.startswith(f"privglasso.{module}.") for anchor in page.anchors
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
    "clipped": "release",
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
    "Files as they are; pages with a script before all others that notes what goes wrong."

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
        "Note what was asked for and is not there; a browser asks for the icon on its own."
        if str(int(code)) == "404" and self.path != "/favicon.ico":
            self.server.missing.append(self.path)

    def log_message(self, format, *args):
        "Nothing: a test is quiet."


def run_browser(address, profile, done):
    "Open an address without a network, and close the browser when `done` is set or time is up."
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
@pytest.mark.parametrize(
    "page",
    [f"{page}.html" for page in PAGES] + [f"api/{module}.html" for module in MODULES],
)
def test_a_page_is_what_it_should_be(seen, page):
    looked = seen["pages"][page]
    assert looked["faults"] == [], "the console complains"
    assert looked["elsewhere"] == [], "the page loads something from elsewhere"
    assert looked["raw"] == [], "mathematics stands unrendered"
    assert (
        looked["rendered"] == looked["formulas"] and looked["failed"] == 0
    ), "mathematics could not be rendered"
    assert looked["blank"] == [], "figures are not visible"
    assert not looked["wide"], "the page is wider than its window"


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
