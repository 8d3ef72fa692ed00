"""Render the book: nbs/ → _docs/source (processed notebooks, API pages) → _docs/html.

Run as `python docs/build.py`. Any warning of Sphinx is an error.
"""

import copy
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import course
import nbformat
import pages
from process import module_of, process

ROOT = Path(__file__).resolve().parent.parent
WAYS_IN = ("routes", "gallery", "claims", "results")  # composed by pages.py
LOOK_AROUND = """
Each door has a [route with times](routes.md). Or look around: the
[gallery](gallery.md) of all figures, [every claim](claims.md) with the cell that
decides it, the [results](results.md) with the commands that make them, the
[API](api/index.md).
"""


def chapters(nbs):
    "The chapters in the order to read them: by part, then by number; reference last."
    return sorted(nbs.glob("*/[0-9][0-9]_*.ipynb"))


def part_of(path):
    "A chapter's part, as the sidebar calls it: 2_publish is Publish."
    return path.parent.name.lstrip("0123456789_").capitalize()


def link_target(path, nbs, source):
    """How links of the notebook `path` are carried over.

    A link to another notebook stays as it is; any other file of the repository is
    copied beside the rendered pages; a link to a folder, which a web page cannot show,
    becomes plain text."""

    def target(link):
        file = (path.parent / link).resolve()
        if file.is_relative_to(nbs) or not file.is_relative_to(ROOT):
            return link
        if not file.is_file():
            return None
        if file == ROOT / "CONTRIBUTING.md":
            return "contributing.md"
        copy = source / "files" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        return Path(
            os.path.relpath(copy, source / path.relative_to(nbs).parent)
        ).as_posix()

    return target


def toctree(caption, entries):
    "A toctree for the sidebar alone, as MyST."
    return (
        f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n"
        + "\n".join(entries)
        + "\n```\n"
    )


def contents(paths, nbs):
    """The toctrees of the whole book, one for each part, which decide what is next; the
    pages that are composed come first, the reference last."""
    parts = {"Ways in": list(WAYS_IN)}
    parts |= {
        part: [path.relative_to(nbs).with_suffix("").as_posix() for path in group]
        for part, group in groupby(paths, part_of)
    }
    parts["Reference"] = [*parts.get("Reference", []), "api/index", "contributing"]
    return "\n".join(toctree(part, entries) for part, entries in parts.items())


def sidebar_parts(paths, nbs, titles, packages):
    """What `theme.py` makes the sidebar of: a part is opened by its first page.

    Parameters
    ----------
    paths : list of Path
        The chapters in the order of the book.
    nbs : Path
    titles : dict
        Page -> title.
    packages : dict
        Package -> modules."""
    leaf = lambda page, title=None: {
        "title": title or titles[page],
        "page": page,
        "pages": [],
    }
    ways = [leaf(page) for page in WAYS_IN]
    parts = [leaf("index", "The book")]
    parts.append(leaf(WAYS_IN[0], "Ways in") | {"pages": ways})
    for part, group in groupby(paths, part_of):
        pages = [path.relative_to(nbs).with_suffix("").as_posix() for path in group]
        first, inside = pages[0], pages if "00_" not in pages[0] else pages[1:]
        inside = [leaf(page) for page in inside]
        if part == "Reference":
            inside.append(leaf("contributing", "Contributing"))
        parts.append(leaf(first, part) | {"pages": inside})
    inside = [
        leaf(f"api/{name}", name)
        | {"pages": [leaf(f"api/{x}", x.partition(".")[2]) for x in modules]}
        for name, modules in packages.items()
        if name not in modules
    ]
    inside += [leaf(f"api/{name}", name) for name, x in packages.items() if name in x]
    return [*parts, leaf("api/index", "API") | {"pages": inside}]


def handed_on(title):
    "What a module offers but another defines: it is described there."
    module = importlib.import_module(title)
    return [
        name
        for name in module.__all__
        if getattr(getattr(module, name), "__module__", title) != title
    ]


def foreign_bases(title):
    """The bases of a module's classes that are not ours: the methods that come from
    them are not listed."""
    module = importlib.import_module(title)
    kinds = filter(inspect.isclass, (getattr(module, name) for name in module.__all__))
    return sorted(
        {
            base.__name__
            for kind in kinds
            for base in kind.__mro__
            if "privglasso" not in base.__module__
        }
    )


def read_book(nbs):
    "{page: notebook} as they stand in nbs, in the order of the book."
    return {
        path.relative_to(nbs).with_suffix("").as_posix(): nbformat.read(
            path, as_version=4
        )
        for path in [nbs / "index.ipynb", *chapters(nbs)]
    }


def timed(notebook, page, needed):
    """Below the subtitle stands how long a chapter takes, which notebook it is and, of
    a lecture, where its sheet and its slides are."""
    cell, name = notebook.cells[0], Path(page).name[3:]
    line = f"\n\n{{.minutes}}\n{needed} min · `nbs/{page}.ipynb`"
    if page in {f"8_course/{path.stem}" for path in course.lectures()}:
        line += (
            f' · <a href="../course/release/{name}/{name}.ipynb" download>the sheet,'
            " without solutions</a>"
            f' · <a href="../course/slides/{name}.html">slides</a>'
        )
    cell.source = re.sub(
        r"\A(# .+\n+\{\.subtitle\}\n> .+(?:\n> .+)*)",
        lambda found: f"{found[1]}{line}\n",
        cell.source,
    )


def write_api(source, homes, notebooks, titles):
    "The pages of the reference; homes is {module: chapter's page}."
    folder, packages = source / "api", pages.read_packages(homes)
    folder.mkdir()
    package = importlib.import_module("privglasso")
    table = pages.public_table(package, titles, notebooks)
    texts = {"index": pages.api_index(packages, table)}
    for name, modules in packages.items():
        if name not in modules:
            texts[name] = pages.package_page(name, modules)
    for module, page in homes.items():
        title = f"privglasso.{module}"
        texts[module] = pages.module_page(
            module, (page, titles[page]), handed_on(title), foreign_bases(title)
        )
    hidden = "\n".join(name for name in texts if name != "index")
    texts["index"] += f"\n```{{toctree}}\n:hidden:\n\n{hidden}\n```\n"
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return packages


def write_ways_in(source, raw, processed, notebooks, claims, places):
    "The composed pages."
    read = {
        page: (
            pages.title_of(raw[page]),
            pages.subtitle_of(raw[page]),
            pages.minutes(notebook),
        )
        for page, notebook in processed.items()
    }
    results = source / "files/data/results"
    results.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "data/results", results, dirs_exist_ok=True)
    texts = {
        "routes": pages.routes_page(read),
        "gallery": pages.GALLERY,
        "claims": pages.claims_page(claims, places),
        "results": pages.results_page(
            ROOT / "data/results", pages.study_modules(), notebooks
        ),
    }
    for name, text in texts.items():
        (source / f"{name}.md").write_text(text, encoding="utf-8")


def write_source(nbs, source):
    "Everything Sphinx reads."
    symbols, raw, processed = pages.exported_symbols(), read_book(nbs), {}
    homes = {m: page for page, book in raw.items() if (m := module_of(book))}
    titles = {page: pages.title_of(book) for page, book in raw.items()}
    titles |= {"routes": "Routes", "gallery": "Gallery"}
    titles |= {"claims": "Claims and verdicts", "results": "Results"}
    notebooks = {module: (page, raw[page]) for module, page in homes.items()}
    claims = importlib.import_module("privglasso.papers.claims").CLAIMS
    places = pages.decided_in(claims, notebooks)
    for page, notebook in raw.items():
        path = nbs / f"{page}.ipynb"
        anchors = {cell for where, cell in places.values() if where == page}
        processed[page] = process(
            copy.deepcopy(notebook), symbols, link_target(path, nbs, source), anchors
        )
    source.mkdir(parents=True, exist_ok=True)
    write_ways_in(source, raw, processed, notebooks, claims, places)
    packages = write_api(source, homes, processed, titles)
    paths = chapters(nbs)
    for page, notebook in processed.items():
        if page == "index":
            doors = next(cell for cell in notebook.cells if "{.doors}" in cell.source)
            before, heading, after = doors.source.partition("\n## Two commands")
            doors.source = before + LOOK_AROUND + heading + after
            notebook.cells.append(
                nbformat.v4.new_markdown_cell(contents(paths, nbs), id="contents")
            )
        else:
            timed(notebook, page, pages.minutes(notebook))
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, source / f"{page}.ipynb")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (source / "contributing.md").write_text(
        contributing.replace("](nbs/", "]("), encoding="utf-8"
    )
    parts = sidebar_parts(paths, nbs, titles, packages)
    (source / "parts.json").write_text(json.dumps(parts), encoding="utf-8")
    return parts


def run_sphinx(out):
    "Render `out`/source into `out`/html; the exit code is Sphinx's."
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-W",
        "--keep-going",
        "-q",
        "-E",
        "-j",
        str(min(2, os.cpu_count() or 1)),
    ]
    folders = [
        "-c",
        ROOT / "docs",
        "-d",
        out / "doctrees",
        out / "source",
        out / "html",
    ]
    return subprocess.run([*command, *folders], check=False).returncode


def build(nbs, out):
    """Build the book of `nbs` anew in `out`; return 0 if there was nothing to complain
    about."""
    shutil.rmtree(out, ignore_errors=True)
    parts = write_source(nbs, out / "source")
    code = run_sphinx(out)
    course.main(out / "course")
    for part in ("release", "slides"):  # what students get; solutions stay behind
        shutil.copytree(out / "course" / part, out / "html/course" / part)
    if (out / "html/gallery.html").exists():
        pages.fill_gallery(
            out / "html",
            [
                (part["title"], [part["page"], *(x["page"] for x in part["pages"])])
                for part in parts
                if not part["page"].startswith(("api/", *WAYS_IN))
            ],
        )
    print(
        f"the book is in {out / 'html/index.html'}"
        if code == 0
        else "the book has the faults named above"
    )
    return code


if __name__ == "__main__":
    sys.exit(build(ROOT / "nbs", ROOT / "_docs"))
