"""Sheets and slides of the course: what is left out, and how a sheet is graded."""

import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))

import course  # noqa: E402

ADDRESS = re.compile(r"""(?:src|href)=["']\s*(?:https?:)?//""")
LECTURES = course.lectures()


def graded(name, **flags):
    "nbgrader's metadata of a cell."
    told = dict(grade=False, solution=False, locked=False, task=False) | flags
    return {"nbgrader": told | {"grade_id": name, "schema_version": 3}}


@pytest.fixture(scope="module")
def lecture(tmp_path_factory):
    "A lecture of one exercise."
    head = new_markdown_cell("# Sums\nSee [tables](../2_publish/01_table.ipynb#how).")
    notes = new_markdown_cell("Ask them.", metadata={"tags": ["instructor"]})
    head.metadata["slideshow"] = {"slide_type": "slide"}
    notes.metadata["slideshow"] = {"slide_type": "notes"}
    code = [
        "#| hide\nfrom privglasso.course.exercise import Exercise, Number, Sheet",
        'check = Sheet("sums", Exercise(Number(), answer=5)).check',
    ]
    answer = "answer_1 = ...\n### BEGIN SOLUTION\nanswer_1 = 4 + 1\n### END SOLUTION"
    cells = [
        head,
        notes,
        *map(new_code_cell, code),
        new_code_cell(answer, metadata=graded("sums-1", solution=True)),
        new_code_cell(
            "check(1, answer_1)",
            metadata=graded("sums-1-check", grade=True, locked=True, points=2),
        ),
    ]
    path = tmp_path_factory.mktemp("lectures") / "01_sums.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def graders_folder(lecture, tmp_path_factory):
    "nbgrader's folder with that lecture's sheet."
    folder = tmp_path_factory.mktemp("course")
    course.write_assignments([lecture], folder)
    return folder


def sheet(folder):
    "The text of the students' sheet."
    notebook = course.read(folder / "release/sums/sums.ipynb")
    return "\n".join(cell.source for cell in notebook.cells)


@pytest.mark.long
def test_a_sheet_has_neither_solutions_nor_notes(graders_folder):
    text = sheet(graders_folder)
    assert "answer_1 = ...\n# put your answer" in text
    assert "check(1, answer_1)" in text
    assert "(chapter 2_publish/01_table)" in text
    for secret in ("4 + 1", "SOLUTION", "Ask them", "#|"):
        assert secret not in text


@pytest.mark.long
@pytest.mark.parametrize(("answer", "points"), [("2 + 3", 2), ("6", 0), ("...", 0)])
def test_nbgrader_gives_points_for_right_answers_only(graders_folder, answer, points):
    handed_in = graders_folder / "submitted/ada/sums/sums.ipynb"
    handed_in.parent.mkdir(parents=True, exist_ok=True)
    notebook = course.read(graders_folder / "release/sums/sums.ipynb")
    for cell in notebook.cells:
        cell.source = cell.source.replace("answer_1 = ...", f"answer_1 = {answer}")
    nbformat.write(notebook, handed_in)
    teacher = course.grader(graders_folder)
    result = teacher.autograde("sums", "ada", force=True)
    assert result["success"], result
    with teacher.gradebook as book:
        found = book.find_submission("sums", "ada")
        assert (found.score, found.max_score) == (points, 2)
    shutil.rmtree(graders_folder / "submitted")


def test_slides_ask_the_network_for_nothing(lecture, tmp_path):
    course.write_slides([lecture], tmp_path)
    page = (tmp_path / "sums.html").read_text(encoding="utf-8")
    assert not ADDRESS.search(page)
    assert ADDRESS.search('<script src="https://elsewhere"></script>')
    assert "Ask them" in page.partition('<aside class="notes">')[2]
    assert "import Exercise" not in page
    for name in ("reveal.js/dist/reveal.js", "mathjax/tex-svg.js"):
        assert name in page
        assert (tmp_path / name).stat().st_size > 50_000


@pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.stem)
def test_every_exercise_of_a_lecture_can_be_handed_out(path):
    "A solution cell with the dots in place is Python, and is followed by its check."
    notebook = course.assignment(path)
    cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    names = [cell.metadata["nbgrader"]["grade_id"] for cell in cells]
    assert len(names) == len(set(names))
    for cell in cells:
        if cell.metadata["nbgrader"]["solution"] and cell.cell_type == "code":
            assert cell.source.count("### BEGIN SOLUTION") == 1
            kept = re.sub(
                r"[ \t]*### BEGIN SOLUTION.*?### END SOLUTION",
                "",
                cell.source,
                flags=re.DOTALL,
            )
            compile(kept, path.name, "exec")
