"""The course's sheets and slides, made from its lectures.

A lecture in `nbs/8_course` is the one source: with its solutions it is a chapter of the
book; without them, and without what is written for the teacher, it is the students'
sheet; cut at its headings it is a deck of slides. nbgrader takes the solutions away and
grades, nbconvert cuts the slides.
"""

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbconvert.preprocessors import TagRemovePreprocessor
from nbgrader.apps import NbGraderAPI
from process import figure_title, split_directives
from traitlets.config import Config, PyFileConfigLoader

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "nbs/8_course"
CHAPTER = re.compile(r"\[([^\]]+)\]\((?:\.\./)?([\w/]+)\.ipynb(?:#[^)]*)?\)")
SETTINGS = """c = get_config()
c.CourseDirectory.course_id = "privglasso"
c.ClearSolutions.code_stub = {"python": "# put your answer in the place of the dots"}
"""


def lectures(folder=COURSE):
    "The notebooks with exercises: those that ask nbgrader for points."
    return [path for path in sorted(folder.glob("*.ipynb")) if has_points(read(path))]


def read(path):
    "A notebook."
    return nbformat.read(path, as_version=4)


def has_points(notebook):
    "Whether a notebook has a cell that is graded."
    marks = (cell.metadata.get("nbgrader", {}) for cell in notebook.cells)
    return any(mark.get("grade") for mark in marks)


def on_its_own(notebook):
    """A notebook that leaves the book: its code says nothing to the book's tools, and
    the chapters it refers to are named."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = split_directives(cell.source)[1]
        else:
            cell.source = CHAPTER.sub(r"\1 (chapter \2)", cell.source)
    return notebook


def assignment(path):
    "A lecture as nbgrader takes it: solutions in place, nothing of the teacher's."
    remover = TagRemovePreprocessor(remove_cell_tags={"instructor"})
    notebook, _ = remover.preprocess(read(path), {})
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "language": "python",
        "display_name": "Python 3",
    }
    return on_its_own(notebook)


def grader(folder):
    "nbgrader at work in a folder that `write_assignments` made."
    # it calls a command that was installed beside Python
    beside, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if beside not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([beside, path])
    loaded = PyFileConfigLoader("nbgrader_config.py", str(folder)).load_config()
    loaded.CourseDirectory.root = str(folder.resolve())
    return NbGraderAPI(config=loaded)


def write_assignments(paths, folder):
    """Write nbgrader's folder: the assignments with solutions in `source`, the
    students' sheets in `release`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nbgrader_config.py").write_text(SETTINGS, encoding="utf-8")
    teacher = grader(folder)
    for path in paths:
        name = path.stem[3:]
        (folder / "source" / name).mkdir(parents=True, exist_ok=True)
        nbformat.write(assignment(path), folder / "source" / name / f"{name}.ipynb")
        done = teacher.generate_assignment(name)
        if not done["success"]:
            raise RuntimeError(f"{path.name}: {done.get('error') or done['log']}")


def told(cell):
    """A code cell as slides show it: hidden if the book hides or exports it, its
    figures described in words."""
    directives, code = split_directives(cell.source)
    if {"hide", "export", "default_exp"} & directives.keys():
        cell.metadata["slideshow"] = {"slide_type": "skip"}
    for output in cell.outputs:
        if "data" in output:
            output.metadata["alt"] = directives.get("fig-alt") or figure_title(code)


def slides(path):
    "A lecture's slides as one page of HTML."
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            told(cell)
    basedirs = [str(ROOT / "docs")]
    exporter = SlidesExporter(
        config=Config(SlidesExporter={"reveal_theme": "white"}),
        template_name="slides",
        extra_template_basedirs=basedirs,
    )
    exporter.reveal_url_prefix = "reveal.js"
    notebook.metadata["title"] = path.stem[3:]
    return exporter.from_notebook_node(on_its_own(notebook))[0]


def package_folder(name):
    "Where an installed package lies."
    return Path(importlib.util.find_spec(name).origin).parent


def not_loaded(folder, names):
    "What no slide loads: maps, modules, and themes that fetch letters from elsewhere."
    is_theme = Path(folder).name == "theme"
    themes = {x for x in names if is_theme and x.endswith(".css") and x != "white.css"}
    return themes | {x for x in names if x.endswith((".map", ".esm.js"))}


def write_slides(paths, folder):
    "Write the slides of all lectures, with what they need to run without a network."
    reveal = package_folder("sphinx_revealjs") / "_static/revealjs"
    mathjax = package_folder("sphinx-mathjax-offline") / "static/mathjax"
    for part in ("dist", "plugin/notes", "plugin/math"):
        shutil.copytree(
            reveal / part,
            folder / "reveal.js" / part,
            dirs_exist_ok=True,
            ignore=not_loaded,
        )
    (folder / "mathjax").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(mathjax / "tex-svg.js", folder / "mathjax/tex-svg.js")
    for path in paths:
        (folder / f"{path.stem[3:]}.html").write_text(slides(path), encoding="utf-8")


def main(out=ROOT / "_docs/course"):
    "Make sheets and slides of all lectures anew."
    shutil.rmtree(out, ignore_errors=True)
    paths = lectures()
    write_assignments(paths, out)
    write_slides(paths, out / "slides")
    print(f"{len(paths)} sheets are in {out / 'release'}, slides in {out / 'slides'}")


if __name__ == "__main__":
    main()
