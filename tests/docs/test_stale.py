"""A saved output that no longer comes out is noticed."""

import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "docs"))

import process  # noqa: E402
import readme  # noqa: E402
import stale  # noqa: E402


def printed(text, source="print(6 * 7)"):
    "A cell with what it is said to print."
    cell = new_code_cell(source, outputs=[new_output("stream", text=text)])
    cell.id = "answer"
    return cell


def figure(text, place="10.0"):
    "A cell with a figure that says something somewhere."
    svg = f'<svg><path d="M{place} 3"/><text style="font: 8px x">{text}</text></svg>'
    data = {"image/svg+xml": svg, "text/plain": "<Figure size 99x99>"}
    return new_code_cell("draw()", outputs=[new_output("display_data", data=data)])


def table(text):
    "A cell with a DataFrame, which text abbreviates and HTML does not."
    data = {"text/html": f"<td>{text}</td>", "text/plain": "0 ... 1"}
    return new_code_cell("frame", outputs=[new_output("execute_result", data=data)])


def found(saved, fresh):
    "What is stale of a notebook with one cell."
    return list(stale.stale(*(new_notebook(cells=[cell]) for cell in (saved, fresh))))


def write(folder, name, *cells):
    "A chapter."
    nbformat.write(new_notebook(cells=list(cells)), folder / "nbs" / name)


def outcome(folder, *words):
    "The exit code for a book, and what is said of it."
    said = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(stale, "ROOT", folder)
        return stale.main(words), said.getvalue()


@pytest.fixture
def book(tmp_path):
    "The folder of an empty book."
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    (tmp_path / "nbs").mkdir()
    return tmp_path


# what a chapter sets, what the next one reads, and what it should find
SETTINGS = {
    "pandas": (
        "import pandas as pd\npd.set_option('display.max_colwidth', 140)",
        "import pandas as pd\nprint(pd.get_option('display.max_colwidth'))",
        "50",
    ),
    "matplotlib": (
        "import matplotlib as mpl\nmpl.rcParams['font.size'] = 31",
        "import matplotlib as mpl\nprint(mpl.rcParams['font.size'] == 31)",
        "False",
    ),
    "warnings": (
        "import warnings\nwarnings.simplefilter('error', SyntaxWarning)",
        "import warnings\nprint(warnings.filters[0][2] is SyntaxWarning)",
        "False",
    ),
}


@pytest.mark.long
def test_a_book_without_a_fault_passes(book):
    """Its numbers come out; each chapter is run once, and what is set in one is not
    seen in the next; what is not here is said and not compared."""
    log = book / "log"
    write(book, "01_it.ipynb", printed("42\n"))
    note = f"with open({str(log)!r}, 'a') as file:\n    file.write('x')"
    write(book, "02_once.ipynb", printed("", note))
    for name, (sets, reads, usual) in SETTINGS.items():
        write(book, f"03_{name}_1.ipynb", printed("", sets))
        write(book, f"03_{name}_2.ipynb", printed(f"{usual}\n", reads))
    absent = printed("42 rows\n", 'print("skipped: there is no file")')
    write(book, "04_absent.ipynb", absent)
    exit_code, said = outcome(book)
    assert exit_code == 0 and "stale" not in said, said
    assert log.read_text() == "x"
    assert "04_absent.ipynb: not compared: skipped: there is no" in said


@pytest.mark.long
def test_numbers_altered_by_hand_are_noticed(book):
    "Each of them, in whichever chapter, and no others."
    write(book, "01_it.ipynb", printed("43\n"))
    for name, (_, reads, usual) in SETTINGS.items():
        write(book, f"02_{name}.ipynb", printed(f"{usual}?\n", reads))
    write(book, "03_right.ipynb", printed("42\n"))
    exit_code, said = outcome(book)
    assert exit_code == 1 and "nbs/01_it.ipynb, cell answer:" in said
    assert all(f"nbs/02_{name}.ipynb, cell answer:" in said for name in SETTINGS)
    assert "4 stale outputs" in said and "03_right" not in said


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--long",)])
def test_what_takes_long_has_a_command_of_its_own(book, words):
    write(book, "01_long.ipynb", printed("43\n", "#| long\nprint(6 * 7)"))
    write(book, "02_short.ipynb", printed("43\n"))
    exit_code, said = outcome(book, *words)
    assert exit_code == 1 and "1 stale outputs" in said
    assert ("01_long" in said, "02_short" in said) == (bool(words), not words)
    named = [f"{book}/nbs/{name}.ipynb" for name in ("01_long", "02_short")]
    assert f"{1 + len(words)} stale outputs" in outcome(book, *words, *named)[1]


@pytest.mark.long
def test_a_chapter_that_fails_fails(book):
    write(book, "01_it.ipynb", printed("42\n", "print(42)\nassert False"))
    assert outcome(book)[0] == 1


@pytest.mark.long
def test_the_command_runs_chapters_that_share_a_process(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "nbs").mkdir()
    for name in ("docs/run.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    chapters = [tmp_path / f"nbs/0{k}_it.ipynb" for k in (1, 2, 3)]
    for path in chapters:
        nbformat.write(new_notebook(cells=[printed("?\n")]), path)
    command = [sys.executable, tmp_path / "docs/run.py"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    for path in chapters:
        assert nbformat.read(path, 4).cells[0].outputs[0].text == "42\n"


@pytest.mark.long
def test_a_chapter_without_an_end_is_named(tmp_path, capfd):
    "And so is the line where it waits; those before it are done."
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    codes = "print(42)", "import time\ntime.sleep(600)", "print(42)"
    chapters = [tmp_path / f"0{k}_it.ipynb" for k in range(len(codes))]
    for path, code in zip(chapters, codes, strict=True):
        nbformat.write(new_notebook(cells=[printed("?\n", code)]), path)
    assert not stale.run(chapters, patience=2)
    said = capfd.readouterr()
    assert "01_it.ipynb" in said.out and "00_it" not in said.out
    assert "no end in 2 seconds" in said.out and "Timeout" in said.err
    assert nbformat.read(chapters[0], 4).cells[0].outputs[0].text == "42\n"


@pytest.mark.parametrize(
    ("saved", "fresh"),
    [
        ("0.9412345", "0.9412346"),
        ("1e-16", "-3.1e-17"),
        ("a   0.50\nb  10.00", "a 0.50\nb 10.00"),
        ("-0.0", "0.0"),
    ],
)
def test_rounding_and_spaces_are_not_stale(saved, fresh):
    assert found(printed(saved), printed(fresh)) == []


@pytest.mark.parametrize(
    ("saved", "fresh"),
    [
        ("272 of 378", "260 of 378"),
        ("0.94", "0.95"),
        ("1000000", "1000001"),
        ("3.4e-10", "8.1e-10"),
        ("all found", "none found"),
        ("all", "all 3"),
        ("-5", "5"),
        ("x1", "x2"),
        ("2026-11-23", "2026-11-24"),
        ("7", ""),
    ],
)
def test_other_numbers_and_words_are(saved, fresh):
    assert len(found(printed(saved), printed(fresh))) == 1
    assert len(found(table(saved), table(fresh))) == 1
    assert len(found(figure(saved), figure(fresh))) == 1


def test_a_figure_may_move():
    assert found(figure("19 edges"), figure("19 edges", "10.7")) == []


def test_a_cell_that_varies_is_not_compared_and_no_reader_sees_the_word():
    old, new = (
        printed(text, "#| varies: fresh noise\nprint(noise())") for text in "12"
    )
    assert found(old, new) == []
    (shown,) = process.show_code(old, None, "")
    assert shown.source == "print(noise())"
    blocks = readme.show_cell(printed("1", "#| varies: seconds\nprint(t)"), {})
    assert "varies" not in "".join(blocks)


def test_where_an_object_lies_in_memory_is_not_compared():
    def shown(text):
        output = new_output("execute_result", data={"text/plain": text})
        return new_code_cell("legend", outputs=[output])

    saved = shown("<Legend>")
    assert found(saved, shown("<Legend at 0x7f2869f4fb90>")) == []
    assert found(saved, shown("<Table at 0x7f2869f4fb90>"))
