"""The built site: its files, its composed pages, and what a browser sees of them.

`make docs` builds the book, looks at every page and then runs these tests on what it
built; where there is a Chromium they look at some pages of each kind.
"""

import importlib.util
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import browse  # noqa: E402
import check  # noqa: E402

SPEC = importlib.util.spec_from_file_location(
    "build_book", ROOT / "docs/build.py"
)  # "build" is somebody else's name
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)

from privglasso.papers.claims import CLAIMS  # noqa: E402

BROWSER = browse.BROWSER
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine to look at the pages with"
)
# pages of each kind; make docs looks at all
LOOKED_AT = [
    "index.html",
    *(f"{name}.html" for name in build.WAYS_IN),
    "0_start/01_story.html",
    "0_start/04_demonstration.html",
    "0_start/07_officer.html",
    "1_privacy/01_gdp.html",
    "2_publish/03_covariance.html",
    "5_papers/08_claims.html",
    "6_experiments/04_frontier.html",
    "api/index.html",
    "api/recover.html",
    "api/recover.graph_models.html",
]


@pytest.fixture(scope="module")
def site():
    "The folder of the book that was built."
    html = ROOT / "_docs/html"
    if not (html / "course/slides").exists():
        pytest.skip("`make docs` builds the site, and runs these tests then")
    return html


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


# what stands on the composed pages


def words(path):
    "A page as text."
    return path.read_text(encoding="utf-8")


def test_every_verdict_leads_to_a_cell(site):
    links = re.findall(
        r"class='verdict \w+' href='([^#']+)#([^']+)'", words(site / "claims.html")
    )
    assert len(links) == len(CLAIMS) > 100
    for page, place in links:
        assert f'id="{place}"' in words(site / page), (page, place)


def test_the_gallery_has_every_figure_of_the_chapters(site):
    drawn = {
        image["src"].rpartition("/")[2]
        for path in site.glob("[0-9]*/*.html")
        for image in check.Page(words(path)).images
        if "_images/" in image["src"]
    }
    shown = {
        image["src"].rpartition("/")[2]
        for image in check.Page(words(site / "gallery.html")).images
    }
    assert len(drawn) > 150 and drawn <= shown


def test_a_chapter_is_read_in_less_than_half_an_hour(site):
    needed = {
        path.relative_to(site).as_posix(): int(told[1])
        for path in site.glob("*/*.html")
        if (told := re.search(r"(\d+) min · <code", words(path)))
    }
    assert len(needed) > 190
    del needed["reference/02_bibliography.html"]  # a list to look things up in
    assert not {page for page, minutes in needed.items() if minutes > 25}


def test_a_part_is_open_where_the_reader_is(site):
    side = re.search(
        r'<div class="sidebar-tree">(.*?)</div>',
        words(site / "1_privacy/01_gdp.html"),
        re.DOTALL,
    )[1]
    assert side.count("checked") == 1
    opened = side[side.index("checked") :]
    assert "02_tradeoff_proofs" in opened[: opened.index("has-children")]


# what a browser sees


def test_pages_that_are_looked_at_are_chapters():
    chapters = [Path(page) for page in LOOKED_AT if page[0].isdigit()]
    gone = [
        page
        for page in chapters
        if not (ROOT / "nbs" / page.with_suffix(".ipynb")).exists()
    ]
    assert len(chapters) > 5 and not gone


def test_a_page_that_is_not_there_is_named(tmp_path):
    (tmp_path / "a.html").write_text("<p>here</p>")
    with pytest.raises(FileNotFoundError, match=r"b\.html"):
        browse.see(tmp_path, ["a.html", "b.html"])


@pytest.fixture(scope="module")
def seen(site):
    "What the browser reports of some pages."
    if BROWSER is None:
        pytest.skip("no Chromium on this machine to look at the pages with")
    seen = browse.see(site, LOOKED_AT)
    assert "driver" not in seen, seen["driver"]
    return seen


@needs_browser
def test_pages_are_what_they_should_be(seen):
    assert list(browse.faults(seen)) == []


@needs_browser
def test_there_was_something_to_see(seen):
    assert sum(looked["formulas"] for looked in seen["pages"].values()) > 100
    assert sum(looked["images"] for looked in seen["pages"].values()) > 20


@needs_browser
@pytest.mark.parametrize(("term", "module"), browse.TERMS.items())
def test_search_finds_a_chapter(seen, term, module):
    found = [
        link
        for link in seen["search"][term]["found"]
        if module in Path(urlsplit(link).path).stem
    ]
    assert any(not link.startswith(("api/", "_modules/")) for link in found), seen[
        "search"
    ][term]["found"]


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
