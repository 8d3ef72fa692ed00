"""Render the book: nbs/ → _docs/source (processed notebooks, API pages) → _docs/html.

Run as `python docs/build.py`. Any warning of Sphinx is an error.
"""

import importlib
import inspect
import os
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import nbformat
from process import module_of, process

ROOT = Path(__file__).resolve().parent.parent


def chapters(nbs):
    "The chapters in the order to read them: by part, then by number; reference last."
    return sorted(nbs.glob("*/[0-9][0-9]_*.ipynb"))


def part_of(path):
    "A chapter's part, as the sidebar calls it: 2_publish is Publish."
    return path.parent.name.lstrip("0123456789_").capitalize()


def exported_symbols():
    "nbdev's index of exported names."
    return importlib.import_module("privglasso._modidx").d["syms"]


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
    """The toctrees of the whole book, one for each part; the API stands with the
    reference, last."""
    parts = {
        part: [path.relative_to(nbs).with_suffix("").as_posix() for path in group]
        for part, group in groupby(paths, part_of)
    }
    parts["Reference"] = [*parts.get("Reference", []), "api/index", "contributing"]
    return "\n".join(toctree(part, entries) for part, entries in parts.items())


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


def api_page(module, chapter):
    "One module's reference page, as reStructuredText."
    title = f"privglasso.{module}"
    excluded, foreign = ", ".join(handed_on(title)), ", ".join(foreign_bases(title))
    return (
        f"{title}\n{'=' * len(title)}\n\nDerived, tested and drawn in the chapter"
        f" :doc:`/{chapter}`.\n\n.. automodule:: {title}\n   :members:\n  "
        f" :inherited-members: {foreign}\n   :exclude-members: {excluded}\n  "
        " :member-order: bysource\n"
    )


def api_index(rows):
    "The list of modules with the chapter each comes from, as reStructuredText."
    table = "".join(
        f"   * - :doc:`{module}`\n     - :doc:`/{chapter}`\n"
        for module, chapter in rows
    )
    tree = "".join(f"   {module}\n" for module, _ in rows)
    return (
        "API reference\n=============\n\nA module and the chapter it is exported from"
        " have the same name.\n\n.. list-table::\n   :header-rows: 1\n\n   * -"
        f" Module\n     - Chapter\n{table}\n.. toctree::\n   :hidden:\n\n{tree}"
    )


def write_source(nbs, source):
    "Everything Sphinx reads."
    symbols, paths, reference = exported_symbols(), chapters(nbs), []
    for path in [nbs / "index.ipynb", *paths]:
        notebook = nbformat.read(path, as_version=4)
        name = path.relative_to(nbs)
        if module := module_of(notebook):
            reference.append((module, name.with_suffix("").as_posix()))
        notebook = process(notebook, symbols, link_target(path, nbs, source))
        if path.name == "index.ipynb":
            notebook.cells.append(
                nbformat.v4.new_markdown_cell(contents(paths, nbs), id="contents")
            )
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, source / name)
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (source / "contributing.md").write_text(
        contributing.replace("](nbs/", "]("), encoding="utf-8"
    )
    (source / "api").mkdir()
    (source / "api/index.rst").write_text(api_index(reference), encoding="utf-8")
    for module, chapter in reference:
        (source / f"api/{module}.rst").write_text(
            api_page(module, chapter), encoding="utf-8"
        )


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
    write_source(nbs, out / "source")
    code = run_sphinx(out)
    print(
        f"the book is in {out / 'html/index.html'}"
        if code == 0
        else "the book has the faults named above"
    )
    return code


if __name__ == "__main__":
    sys.exit(build(ROOT / "nbs", ROOT / "_docs"))
