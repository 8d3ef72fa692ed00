"""A Sphinx extension: the sidebar folded by part, and only the MathJax that is needed.

Furo asks Sphinx for the whole table of contents on every page, which takes longer than
everything else together. `docs/build.py` leaves the parts in `source/parts.json`, and
the sidebar is written from there.
"""

import json
import re
import shutil
from html import escape
from importlib.util import find_spec
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

# MathJax in pieces: the usual bundle weighs twice as much, mostly for menus and speech
MATHJAX = ("startup.js", "core.js", "input/tex-base.js", "output/chtml.js")
MATHJAX += ("output/chtml/fonts/tex.js", "input/tex/extensions/ams.js")
# MathJax's font of rare signs, and what the book takes from it: the letters of
# \mathbb and geometric shapes; `book.css` says where a page finds the other signs
RARE, REST = "MathJax_AMS-Regular.woff", "MathJax_AMS-Rest.woff"
NOT_RARE = {*range(0x80), *range(0x25A0, 0x2600)}
UNCOLOURED = re.compile(r'<span class="(?:n|p|w|o|mi|mf|bp|nb|si)">([^<]*)</span>')
KEYWORD = re.compile(r'<span class="(?:ow|kc|kn)">')
# neighbours of one colour, and what stays coloured
NEIGHBOURS = re.compile(
    r'<span class="(\w+)">[^<]*</span>(?:\s*<span class="\1">[^<]*</span>)+'
)
COLOURED = re.compile(r'<span class="([a-z]\w?)">([^<]*)</span>')
# what a fold says when it is closed and when it is open, and the name of a parameter
FOLD = re.compile(
    r'<p class="collapsed (admonition-title">(.*?)</p>)\s*'
    r'<p class="expanded admonition-title">\2</p>'
)
PARAMETER = re.compile(
    r'(<em class="sig-param">)<span class="n"><span class="pre">(\w+)</span></span>'
)
ARROW = '<span class="icon"><svg><use href="#svg-arrow-right"></use></svg></span>'


def entry(title, link, level, kind=""):
    """The opening of a list item with its link, in few letters: every page lists all
    others, and only the first level has a style."""
    kind = " ".join(["toctree-l1"] * (level == 1) + kind.split())
    named = f' class="{kind}"' if kind else ""
    return f'<li{named}><a href="{escape(link)}">{escape(title)}</a>'


def is_inside(part, page):
    "Whether a page belongs to a part or to one of its own parts."
    return page == part["page"] or any(is_inside(x, page) for x in part["pages"])


def sidebar(parts, page, uri, level=1, number=""):
    """The pages of all parts as a folded list; the part of `page` is open.

    Parts within a part (the packages of the reference) are listed where the reader is
    in that part."""
    items = []
    for k, part in enumerate(parts):
        inside, key = is_inside(part, page), f"{number}-{k}"
        kind = "current" if inside else ""
        shown = part["pages"] if level == 1 or inside else []
        if part["page"] == page:
            kind += " current-page"
        if not shown:
            items.append(
                entry(part["title"], uri(part["page"]), level, kind) + "</li>"
            )
            continue
        items.append(
            entry(
                part["title"],
                uri(part["page"]),
                level,
                f"{kind} has-children",
            )
            + f'<input{" checked" if inside else ""} class="toctree-checkbox"'
            f' id="part{key}" name="part{key}" role="switch" type="checkbox"'
            f' aria-label="Show the pages of {escape(part["title"])}">'
            f'<label for="part{key}">{ARROW}</label>'
            + sidebar(shown, page, uri, level + 1, key)
            + "</li>"
        )
    return f"<ul>{''.join(items)}</ul>"


def no_contents(app, page, template, context, doctree):
    "Before furo: nothing to be computed."
    context["toctree"] = lambda **options: ""


def lighter(body):
    """A page in fewer letters: names, numbers and signs in code need no colour,
    keywords have one, and words of one colour are coloured together. A fold says its
    words once, and a parameter is one element. Figures are loaded when they come into
    view. The title of a module may break after its package."""
    body = UNCOLOURED.sub(r"\1", body).replace("<img ", '<img loading="lazy" ')
    body = KEYWORD.sub('<span class="k">', body)
    body = FOLD.sub(r'<p class="\1', PARAMETER.sub(r"\1\2", body))
    body = NEIGHBOURS.sub(
        lambda run: re.sub(rf'</span>(\s*)<span class="{run[1]}">', r"\1", run[0]), body
    )
    body = COLOURED.sub(r"<i class=\1>\2</i>", body)
    return re.sub(
        r"<h1>(privglasso\.(?:\w+\.)?)", r'<h1><span class="package">\1</span>', body
    )


def own_contents(app, page, template, context, doctree):
    "After furo: the sidebar; and figures are loaded when they come into view."
    parts = json.loads((Path(app.srcdir) / "parts.json").read_text(encoding="utf-8"))
    context["furo_navigation_tree"] = sidebar(
        parts, page, lambda name: app.builder.get_relative_uri(page, name)
    )
    if "body" in context:
        context["body"] = lighter(context["body"])
    # the description in the page's head
    subtitle = re.search(
        r'<blockquote class="subtitle">\s*(?:<div>)?\s*<p>(.*?)</p>',
        context.get("body", ""),
        re.DOTALL,
    )
    if subtitle:
        words = escape(" ".join(re.sub(r"<[^>]+>", "", subtitle[1]).split()))
        context["metatags"] = (
            context.get("metatags", "") + f'<meta name="description" content="{words}">'
        )


HELPERS = re.compile(
    r"this&&this\.(__(?:assign|extends|read|spreadArray|values|createBinding"
    r"|setModuleDefault|importStar|importDefault))\|\|"
)


def end_of_function(script, at):
    "Where an expression ends that is a function, or in brackets."
    depth = 0
    for token in re.compile(r'"[^"]*"|[(){}]').finditer(script, at):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(token[0], 0)
        closed = ")" if script[at] == "(" else "}"
        if depth == 0 and token[0] == closed:
            return token.end()
    raise ValueError("an expression without an end")


def helped(script):
    """A script of MathJax that finds in one place what each of its modules brings with
    it; that is a sixth of the letters."""
    kept, at = [], 0
    for found in HELPERS.finditer(script):
        if found.end() > at:
            kept += [script[at : found.end()], found[1]]
            at = end_of_function(script, found.end())
    return "".join([*kept, script[at:]])


def split_font(path, rest):
    "Leave in a font what is not rare, a fifth of it; a second file holds the rest."
    with TTFont(path) as font:
        characters = set(font.getBestCmap())
    for target, kept in ((rest, characters - NOT_RARE), (path, characters & NOT_RARE)):
        with TTFont(path) as font:
            thinner = Subsetter(Options(drop_tables=["FFTM"]))
            thinner.populate(unicodes=kept)
            thinner.subset(font)
            font.save(target)


def copy_mathjax(app, fault):
    "The parts of MathJax that the pages load."
    if fault is not None:
        return
    package = find_spec("sphinx-mathjax-offline").submodule_search_locations[0]
    source, target = (
        Path(package) / "static/mathjax",
        Path(app.outdir) / "_static/mathjax",
    )
    # the extension's own copy has all of it
    shutil.rmtree(target, ignore_errors=True)
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        script = helped((source / name).read_text(encoding="utf-8"))
        if name == MATHJAX[0]:
            helpers = Path(__file__).with_name("mathjax.js")
            script = helpers.read_text(encoding="utf-8") + script
        (target / name).write_text(script, encoding="utf-8")
    fonts = Path("output/chtml/fonts/woff-v2")
    shutil.copytree(source / fonts, target / fonts)
    split_font(target / fonts / RARE, target / fonts / REST)


def rules(css):
    "(selector, declarations) of a style sheet in order; declarations may be rules."
    css, at = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL), 0
    for opened in re.finditer(r"\{", css):
        if opened.start() < at:
            continue
        depth, end = 1, opened.end()
        while depth:
            brace = re.compile(r"[{}]").search(css, end)
            depth, end = depth + (1 if brace[0] == "{" else -1), brace.end()
        yield css[at : opened.start()].strip(), css[opened.end() : end - 1]
        at = end


def pruned(css, used):
    "A style sheet without rules for classes that nothing has."
    kept = []
    for selector, inside in rules(css):
        if selector.startswith(("@media", "@supports")):
            inside = pruned(inside, used)
        elif not selector.startswith("@"):
            each = re.split(r",(?![^()]*\))", selector)
            selector = ",".join(x.strip() for x in each if is_met(x, used))
        if selector and inside.strip():
            kept.append(f"{selector}{{{' '.join(inside.split())}}}")
    return "".join(kept)


def unnamed_links(css):
    "The sidebar's style for its links, which have no class: it holds no others."
    return re.sub(r"(\.sidebar-tree[^{},]*)\.reference\b", r"\1a", css)


def is_met(selector, used):
    "Whether all classes that a selector asks for are used; what is in brackets is not."
    outside = re.sub(r":(?:is|not|where|has)\([^()]*\)", "", selector)
    return all(name in used for name in re.findall(r"\.(-?[A-Za-z_][\w-]*)", outside))


def prune_styles(app, fault):
    """Of each style sheet the rules that some page needs: two thirds of them are for
    widgets that the book does not have. A script may add any class that it names."""
    if fault is not None:
        return
    used, out = set(), Path(app.outdir)
    for path in out.rglob("*.html"):
        for words in re.findall(r"""\bclass=["']?([^"'>]*)""", path.read_text("utf-8")):
            used.update(words.split())
    for path in (out / "_static").rglob("*.js"):
        if "mathjax" not in path.parts:
            used.update(re.findall(r"[\w-]+", path.read_text("utf-8")))
    for path in (out / "_static").rglob("*.css"):
        if "@import" not in (css := path.read_text("utf-8")):
            path.write_text(pruned(unnamed_links(css), used), "utf-8")


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
UNPACK = """(index => {
  for (const [word, pages] of Object.entries(index.terms)) {
    if (typeof pages !== "string") continue;
    let page = 0;
    index.terms[word] = [...pages.matchAll(/\\.(..)|./g)].map(
      step => page += parseInt(step[1] ?? step[0], 36));
  }
  return index;
})"""


def packed(pages):
    """The numbers of the pages that have a word, as the steps from one to the next: a
    digit of base 36, or two after a point; as they are if one is longer."""
    if not isinstance(pages, list):
        return pages
    pages = sorted(pages)
    steps = [b - a for a, b in zip([0, *pages], pages, strict=False)]
    if max(steps) >= 36**2:
        return pages
    digits = lambda step: DIGITS[step // 36] + DIGITS[step % 36]
    return "".join(DIGITS[x] if x < 36 else "." + digits(x) for x in steps)


def words_looked_for(script):
    """The search's words without what begins with a digit, such as the numbers of a
    table, and without the entries of the index: the objects say the same. Where a word
    stands is packed, and the browser unpacks it."""
    call, _, words = script.partition("(")
    found = json.loads(words.rstrip().removesuffix(";").removesuffix(")"))
    terms = {k: packed(v) for k, v in found["terms"].items() if not k[0].isdigit()}
    kept = found | {"indexentries": {}, "terms": terms}
    return f"{call}({UNPACK}({json.dumps(kept, separators=(',', ':'))}))"


def prune_search(app, fault):
    "The search loads what it looks for words in, and nothing else."
    if fault is None:
        path = Path(app.outdir) / "searchindex.js"
        path.write_text(words_looked_for(path.read_text("utf-8")), "utf-8")


def setup(app):
    "Furo computes at priority 500."
    app.connect("html-page-context", no_contents, priority=400)
    app.connect("html-page-context", own_contents, priority=900)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", prune_styles, priority=900)  # after all are written
    app.connect("build-finished", prune_search, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
