"""What a browser sees of the built site: one headless Chromium loads every page.

`python docs/browse.py` looks at _docs/html, light and dark, 1400 and 390 pixels wide,
and exits with 1 if there are faults; without a Chromium it says so and exits with 0.
Nothing leaves the machine: the browser is told that no other address exists.
"""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAVIEST = 1_000_000  # bytes of a page, unpacked, lazily loaded figures aside
WIDTHS = (1400, 390)
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
SECONDS = 900  # until the browser is given up
FLAGS = [
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
]
# a term, and the module whose chapter must be among what the search finds
TERMS = {
    "Neyman": "gdp",
    "Poisson": "discrete_gaussian",
    "clipped": "table",
    "witness": "feasibility",
}

EARLY = """<script>
window.faults = [];
addEventListener("error", e => faults.push(
  e.message || "cannot load " + (e.target.src || e.target.href)), true);
addEventListener("unhandledrejection", e => faults.push(String(e.reason)));
console.error = (...words) => faults.push(words.join(" "));
</script>"""

DRIVER = Path(__file__).with_name("browse.js")


class Server(ThreadingHTTPServer):
    "Serves the site to one browser, and keeps what the browser reports."

    daemon_threads = True

    def __init__(self, folder, asked, driver):
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.asked, self.driver = asked, driver
        self.seen, self.missing, self.served = None, [], []
        self.done = threading.Event()

    def handle_error(self, request, client_address):
        "A page that is left while it loads closes its connections: nothing to tell."


class Handler(SimpleHTTPRequestHandler):
    """Files as they are; pages with a script before all others that notes what goes
    wrong."""

    def do_GET(self):
        "Serve the driver, its questions, a page, or a file."
        path = Path(self.translate_path(self.path))
        if self.path == "/driver.html":
            script = self.server.driver.read_text(encoding="utf-8")
            self._send(
                f"<!doctype html><body><script>{script}</script></body>", "text/html"
            )
        elif self.path == "/asked.json":
            self._send(json.dumps(self.server.asked), "application/json")
        elif path.suffix == ".html" and path.is_file():
            text = path.read_text(encoding="utf-8")
            self._send(text.replace("<head>", "<head>" + EARLY, 1), "text/html")
        elif path.suffix in {".js", ".css", ".svg"} and path.is_file():
            kinds = {".js": "text/javascript", ".css": "text/css"}
            self._send(
                path.read_text(encoding="utf-8"),
                kinds.get(path.suffix, "image/svg+xml"),
            )
        else:
            super().do_GET()

    def do_POST(self):
        "Keep the browser's report."
        length = int(self.headers["Content-Length"])
        self.server.seen = json.loads(self.rfile.read(length))
        self._send("{}", "application/json")
        self.server.done.set()

    def _send(self, text, kind):
        content = gzip.compress(text.encode(), 5)  # as web servers do
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code="-", size="-"):
        """Note what was asked for, and what of it is not there; a browser asks for the
        icon on its own."""
        self.server.served.append(self.path)
        if str(int(code)) == "404" and self.path != "/favicon.ico":
            self.server.missing.append(self.path)

    def log_message(self, format, *args):
        "Nothing: the report is what counts."


def run_browser(address, profile, done):
    """Open an address without a network, and close the browser when `done` is set or
    time is up."""
    browser = subprocess.Popen(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return done.wait(SECONDS)
    finally:
        # the group holds the browser's own processes and nothing else
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


def pages_of(site):
    "The pages that a reader meets: all but listed source code and slides."
    found = (path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    others = ("_modules", "files/", "course/")
    return sorted(page for page in found if not page.startswith(others))


def see(site, pages=None):
    "The browser's report on the pages of a site: {pages, search, colours, missing}."
    pages = pages_of(site) if pages is None else pages
    gone = [page for page in pages if not (site / page).is_file()]
    if gone:
        raise FileNotFoundError(
            f"{site} has no pages {', '.join(gone)}: name pages as they are there"
        )
    return ask(site, {"pages": pages, "terms": list(TERMS), "widths": WIDTHS})


def ask(folder, asked, driver=DRIVER):
    """What a script says of the pages of a folder in a browser, and what was asked for
    meanwhile: {…, missing, served}."""
    server = Server(folder, asked, driver)
    with server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/driver.html"
        try:
            if not run_browser(address, profile, server.done):
                raise TimeoutError("the browser said nothing")
        finally:
            server.shutdown()
        return server.seen | {"missing": server.missing, "served": server.served}


def page_faults(looked):
    "What is wrong with one page, as {kind: what}."
    wrong = {
        kind: looked[kind]
        for kind in ("faults", "elsewhere", "raw", "failed", "blank", "wide", "cut")
        if looked[kind]
    }
    wrong |= {kind: looked[kind] for kind in ("broken", "pale") if looked[kind]}
    if looked["rendered"] != looked["formulas"]:
        wrong["formulas"] = f"{looked['rendered']} of {looked['formulas']} rendered"
    if looked["unpacked"] > HEAVIEST:
        wrong["weight"] = looked["unpacked"]
    if looked["eager"]:
        wrong["figures loaded at once"] = looked["eager"]
    return wrong


def faults(seen):
    "Everything that is wrong with the site, a line each."
    if "driver" in seen:
        yield seen["driver"]
    for page, looked in seen["pages"].items():
        for kind, what in page_faults(looked).items():
            yield f"{page}: {kind}: {what}"
    for term, result in seen["search"].items():
        if result["faults"] or result["tex"]:
            yield f"search for {term}: {result['faults']} {result['tex'][:3]}"
    yield from (f"not there: {path}" for path in dict.fromkeys(seen["missing"]))


def main(site=ROOT / "_docs/html", pages=None):
    "Look, and say what is wrong; the number of faults."
    if BROWSER is None:
        print("no Chromium on this machine to look at the pages with: not looked")
        return 0
    seen = see(site, pages)
    found = list(faults(seen))
    print("\n".join(found))
    looked = seen["pages"].values()
    heavy = max(seen["pages"], key=lambda page: seen["pages"][page]["unpacked"])
    print(
        f"{len(looked)} pages, {sum(page['rendered'] for page in looked)} formulas,"
        f" {sum(page['images'] for page in looked)} figures; a page has at most"
        f" {seen['pages'][heavy]['unpacked'] / 1e6:.2f} MB ({heavy}), of which"
        f" {seen['pages'][heavy]['bytes'] / 1e6:.2f} MB are sent;"
        f" {len(found)} faults"
    )
    return len(found)


if __name__ == "__main__":
    sys.exit(bool(main(pages=sys.argv[1:] or None)))
