"""What a rendered book must be: no dead links, nothing remote, words for every image.

`python docs/check.py` looks at _docs/html and exits with 1 if there are faults.
"""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

ROOT = Path(__file__).resolve().parent.parent
REMOTE_STYLE = re.compile(r"""(url\(|@import)\s*["']?(https?:)?//""")
SOURCES = {"script", "img", "iframe", "source", "video", "audio", "embed"}
LINKED_ONLY = {"canonical", "next", "prev", "search", "index"}


class Page(HTMLParser):
    "Links, anchors, images and everything loaded by one page."

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
        if tag in SOURCES and attrs.get("src"):
            self.loaded.append(attrs["src"])
        if tag == "link" and attrs.get("rel") not in LINKED_ONLY:
            self.loaded.append(attrs["href"])


def is_remote(address):
    "Whether an address leaves the site."
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in {"", "data", "mailto"}


def dead_links(pages, files):
    "Links to no file, or to an anchor that the page they lead to does not have."
    for name, page in pages.items():
        for link in page.links:
            if is_remote(link) or link.startswith(("data:", "mailto:")):
                continue
            path, anchor = urldefrag(link)
            path = unquote(urlsplit(path).path)
            target = os.path.normpath(Path(name).parent / path) if path else name
            page_there = pages.get(target)
            if target not in files or (
                page_there and not {anchor, unquote(anchor)} & page_there.anchors
            ):
                yield f"{name}: {link} leads nowhere"


def faults(site):
    "Everything that is wrong with the site in a folder."
    files = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    pages = {
        name: Page((site / name).read_text(encoding="utf-8"))
        for name in sorted(files)
        if name.endswith(".html")
    }
    yield from dead_links(pages, files)
    for name, page in pages.items():
        yield from (f"{name}: loads {a}" for a in page.loaded if is_remote(a))
        yield from (
            f"{name}: the image {image.get('src')} has no words of its own"
            for image in page.images
            if not image.get("alt", "").strip()
            or image["alt"].startswith("Figure: ")
            or image["alt"] == image.get("src")
        )
    for name in files:
        if name.endswith(".css"):
            if REMOTE_STYLE.search((site / name).read_text(encoding="utf-8")):
                yield f"{name}: loads something from elsewhere"
    if len(pages) < 100 or sum(len(page.images) for page in pages.values()) < 20:
        yield f"only {len(pages)} pages, or hardly an image: is this the book?"


if __name__ == "__main__":
    found = list(faults(ROOT / "_docs/html"))
    print("\n".join(found) or "links, images and sources of the site are in order")
    sys.exit(bool(found))
