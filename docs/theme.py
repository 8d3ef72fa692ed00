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

# MathJax in pieces: the usual bundle weighs twice as much, mostly for menus and speech
MATHJAX = ("startup.js", "core.js", "input/tex.js", "output/chtml.js")
MATHJAX_FOLDERS = ("output/chtml/fonts", "input/tex/extensions")
UNCOLOURED = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
ARROW = '<span class="icon"><svg><use href="#svg-arrow-right"></use></svg></span>'


def entry(title, link, level, kind=""):
    "The opening of a list item with its link."
    kind = f" {kind}" if kind else ""
    return (
        f'<li class="toctree-l{level}{kind}"><a class="reference internal"'
        f' href="{escape(link)}">{escape(title)}</a>'
    )


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
                entry(part["title"], uri(part["page"]), level, kind.strip()) + "</li>"
            )
            continue
        items.append(
            entry(
                part["title"],
                uri(part["page"]),
                level,
                f"{kind} has-children".strip(),
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
    """A page in fewer letters: names, brackets and spaces in code need no colour, and
    figures are loaded when they come into view. The title of a module may break after
    its package."""
    body = UNCOLOURED.sub(r"\1", body).replace("<img ", '<img loading="lazy" ')
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


def copy_mathjax(app, fault):
    "The parts of MathJax that the pages load."
    if fault is not None:
        return
    package = find_spec("sphinx-mathjax-offline").submodule_search_locations[0]
    source, target = (
        Path(package) / "static/mathjax",
        Path(app.outdir) / "_static/mathjax",
    )
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    for name in MATHJAX_FOLDERS:
        shutil.copytree(source / name, target / name, dirs_exist_ok=True)


def setup(app):
    "Furo computes at priority 500."
    app.connect("html-page-context", no_contents, priority=400)
    app.connect("html-page-context", own_contents, priority=900)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
