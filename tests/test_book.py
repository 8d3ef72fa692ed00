"""Notebooks, modules and README agree, and chapters keep their form."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import privglasso

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import process  # noqa: E402
import readme  # noqa: E402

NOTEBOOKS = sorted((ROOT / "nbs").rglob("[!.]*.ipynb"))
MODULES = sorted((ROOT / "privglasso").rglob("[!_]*.py"))
THEORY = {"1_privacy", "2_publish", "3_recover", "4_networks"}
ABSOLUTE_PATH = re.compile(
    r"""(?:^|[\s"'(=])(/(?:[\w.+-]+/)+[\w.+-]+|[A-Z]:\\\w+)""", re.MULTILINE
)


def read(path):
    "A notebook."
    return nbformat.read(path, as_version=4)


def module_name(path):
    "publish.table of privglasso/publish/table.py."
    return ".".join(path.relative_to(ROOT / "privglasso").with_suffix("").parts)


def contents(folder):
    "{relative path: bytes} of a folder's files, without what Python leaves behind."
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def python(code, folder=ROOT, **environment):
    "What a fresh interpreter prints, run in a folder."
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


# in sync


@pytest.mark.parametrize("tool", ["nbdev-export", "nbdev-clean"])
def test_nothing_is_out_of_step(tool, tmp_path):
    for name in ("nbs", "privglasso"):
        skipped = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
    for name in ("pyproject.toml", "settings.ini", "README.md"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    before = contents(tmp_path)
    command = shutil.which(tool, path=Path(sys.executable).parent)
    subprocess.run([command], cwd=tmp_path, check=True, capture_output=True)
    after = contents(tmp_path)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    assert changed == [], f"run {tool}"


def test_readme_is_the_index():
    files = readme.render(read(ROOT / "nbs/index.ipynb"))
    assert readme.stale(files, ROOT) == [], "run python docs/readme.py"


# names


def test_every_part_begins_with_a_list_of_all_its_chapters():
    for first in (ROOT / "nbs").glob("*/00_introduction.ipynb"):
        text = "".join(cell["source"] for cell in read(first)["cells"])
        chapters = {path.name for path in first.parent.glob("*.ipynb")} - {first.name}
        assert sorted(name for name in chapters if f"({name})" not in text) == [], first


def test_a_chapter_a_module_and_a_page_have_one_name():
    "nbs/2_publish/01_table exports privglasso/publish/table; part 9 is called base."
    exported = {}
    for path in NOTEBOOKS:
        if module := process.module_of(read(path)):
            exported[module] = path
    assert sorted(exported) == sorted(module_name(path) for path in MODULES)
    packages = {"9_workshop": ("base", "cli"), "7_data": ("data_sets",)}
    packages["2_publish"] = ("publish", "desk")
    for module, path in exported.items():
        part = path.parent.name
        homes = packages.get(part, (part.partition("_")[2],))
        assert path.stem[3:] == module.rpartition(".")[2]
        assert module.partition(".")[0] in homes, module


def test_the_public_namespace_is_a_users():
    assert sorted([*privglasso.__all__, "__version__"]) == dir(privglasso)
    assert 45 <= len(privglasso.__all__) <= 80
    for name in privglasso.__all__:
        assert callable(getattr(privglasso, name)), name
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = privglasso.no_such_name


# imports

HEAVY = ("matplotlib", "seaborn", "networkx")
RESEARCH = ("privglasso.papers", "privglasso.experiments")


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("__version__", ("numpy", "pandas", "numba", "sklearn", *HEAVY, *RESEARCH)),
        ("CovarianceMechanism", ("sklearn", *HEAVY, *RESEARCH)),
        ("plan", ("sklearn", *HEAVY, *RESEARCH)),
        ("audit", ("sklearn", *HEAVY, *RESEARCH)),
        ("PrivateGraphicalLasso", ("sklearn", *HEAVY, *RESEARCH)),
        ("FDR", ("sklearn", *HEAVY, *RESEARCH)),
        ("DPThresholding", (*HEAVY, "privglasso.experiments")),
    ],
)
def test_a_name_loads_no_more_than_it_needs(name, absent):
    code = f"import sys, privglasso as pg; pg.{name}; print(*sys.modules)"
    assert set(python(code).split()) & set(absent) == set()


def test_imports_run_downward():
    "The contracts stand in pyproject.toml."
    command = shutil.which("lint-imports", path=Path(sys.executable).parent)
    result = subprocess.run(
        [command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_no_private_name_crosses_a_module(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    private = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.level or node.module.startswith("privglasso"))
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert private == []


# compiled kernels

KERNEL = """from privglasso.base.kernels import kernel
from privglasso.called import called

@kernel
def caller():
    return called()
"""
CALLED = """from privglasso.base.kernels import kernel

C = {}

@kernel
def called():
    return C
"""


def test_no_stale_kernel_survives_an_edit_of_another_module(tmp_path):
    package = tmp_path / "privglasso"
    (package / "base").mkdir(parents=True)
    shutil.copyfile(ROOT / "privglasso/base/kernels.py", package / "base/kernels.py")
    for folder in (package, package / "base"):
        (folder / "__init__.py").touch()
    (package / "caller.py").write_text(KERNEL)
    answers = []
    for constant in (1, 20):
        (package / "called.py").write_text(CALLED.format(constant))
        code = "from privglasso.caller import caller; print(caller())"
        environment = {
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "NUMBA_DISABLE_JIT": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        answers.append(int(python(code, tmp_path, **environment)))
    assert any((tmp_path / "cache").rglob("*.nbc")), "nothing was cached"
    assert answers == [1, 20]


# the form of a chapter


def code_cells(notebook):
    "(directives, code, cell) of the code cells."
    for cell in notebook.cells:
        if cell.cell_type == "code":
            yield *process.split_directives(cell.source), cell


def is_one_class(code):
    "Whether a cell is a single class, which cannot be split."
    body = process.statements(code)
    return len(body) == 1 and isinstance(body[0], ast.ClassDef)


def code_length(code):
    "Lines of a cell, without its docstrings."
    told = [
        ast.get_docstring(node, clean=False) or ""
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    return len(code.splitlines()) - sum(len(text.splitlines()) for text in told)


def shape_faults(notebook):
    "What is too long in a notebook."
    if len(notebook.cells) > 70:
        yield f"{len(notebook.cells)} cells: split the chapter"
    for directives, code, _ in code_cells(notebook):
        lines = code.splitlines()
        yield from (f"a line of {len(x)}: {x.strip()}" for x in lines if len(x) > 88)
        exported = process.EXPORTING & directives.keys()
        if exported and code_length(code) > 40 and not is_one_class(code):
            yield (
                f"an exported cell of {len(lines)} lines: {process.defined_names(code)}"
            )


def output_faults(notebook):
    "What should not stand in the outputs."
    for directives, code, cell in code_cells(notebook):
        if directives.get("varies") == "":
            yield f"an output varies, and nobody says why: {code[:40]}"
        for output in cell.outputs:
            text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            if output.output_type == "error" or process.is_progress_bar(output):
                yield f"an error or a progress bar: {code[:40]}"
            if " at 0x" in text or ABSOLUTE_PATH.search(text):
                yield f"an address or a path of one machine: {text[:60]}"


def prose(notebook):
    "The Markdown of a notebook."
    cells = (cell for cell in notebook.cells if cell.cell_type == "markdown")
    return "\n\n".join(cell.source for cell in cells)


def has_picture(cell):
    "Whether a reader sees a picture in a cell."
    if cell.cell_type == "markdown":
        return "![" in cell.source
    return process.has_figure(cell)


def theory_faults(notebook):
    "What a theory chapter must have."
    text = prose(notebook)
    for part in ("> **Result", "## What this does not say", "## Remember"):
        if part not in text:
            yield f"no {part}"
    remember = text.partition("## Remember")[2].partition("\n#")[0]
    if len(re.findall(r"^[*-] ", remember, re.MULTILINE)) != 3:
        yield "Remember is not three lines"
    shown = [cell for cell in notebook.cells if process.is_shown(cell)]
    if not any(has_picture(cell) for cell in shown[:10]):
        yield "no picture among the first ten cells"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_keeps_its_form(path):
    notebook = read(path)
    found = [*shape_faults(notebook), *output_faults(notebook)]
    if not re.match(r"# \S.*\n\n?> \S.*(\n\n|\n?\Z)", notebook.cells[0].source):
        found.append("it does not begin with a title and a one-line > subtitle")
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("JupyterLab asks for a kernel: open it there and save it once")
    if path.parent.name in THEORY and not path.stem.startswith("00_"):
        found += theory_faults(notebook)
    assert found == []
    assert path.stat().st_size < 250_000, "fewer or simpler figures"


@pytest.mark.parametrize(
    "path",
    [*NOTEBOOKS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"],
    ids=lambda path: path.stem,
)
def test_relative_links_lead_somewhere(path):
    is_notebook = path.suffix == ".ipynb"
    text = prose(read(path)) if is_notebook else path.read_text(encoding="utf-8")
    links = process.relative_links(text)
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_faults_are_noticed():
    long = "#| export\n" + "x = 1\n" * 41 + "y" * 89
    told = nbformat.v4.new_output("stream", text="in /home/me/file.py")
    cells = [
        cell
        for _ in range(24)
        for cell in (
            nbformat.v4.new_markdown_cell("# Title\n> Subtitle"),
            nbformat.v4.new_code_cell(long),
            nbformat.v4.new_code_cell(outputs=[told]),
        )
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    assert len(list(shape_faults(notebook))) == 1 + 2 * 24
    assert len(list(output_faults(notebook))) == 24
    notebook.cells.append(nbformat.v4.new_code_cell("#| varies\ntime()"))
    assert len(list(output_faults(notebook))) == 25
    assert len(list(theory_faults(notebook))) == 5
