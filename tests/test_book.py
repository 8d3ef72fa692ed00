"""The book as a book: notebooks, modules, README and rendered pages agree, and stay readable."""

import ast
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import privglasso

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import docstrings  # noqa: E402
import process  # noqa: E402
import readme  # noqa: E402

CHAPTERS = sorted((ROOT / "nbs").glob("[0-9]_*/[0-9][0-9]_*.ipynb"))
NOTEBOOKS = sorted((ROOT / "nbs").rglob("[!.]*.ipynb"))
MODULES = sorted(
    path for path in (ROOT / "privglasso").glob("*.py") if not path.name.startswith("_")
)
HEAVY = {"pandas", "sklearn", "matplotlib", "seaborn", "numba", "networkx"}
KILOBYTE = 1000
ABSOLUTE_PATH = re.compile(
    r"""(?:^|[\s"'(=])(/(?:[\w.+-]+/)+[\w.+-]+|[A-Z]:\\\w+)""", re.MULTILINE
)


def read(path):
    "A notebook."
    return nbformat.read(path, as_version=4)


def name_of(path):
    "How a parametrized test calls a file."
    return path.stem


def contents(folder):
    "{relative path: bytes} of a folder's files, without what Python leaves behind."
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def changed(before, after):
    "Names of the files that are not the same in both."
    return sorted(
        name for name in before | after if before.get(name) != after.get(name)
    )


@pytest.fixture
def clone(tmp_path):
    "A copy of what nbdev reads and writes, so that no test can change the book."
    for name in ("nbs", "privglasso"):
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )
    for name in ("pyproject.toml", "settings.ini", "README.md"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def run_tool(name, folder):
    "Run one of nbdev's commands in `folder`."
    tool = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    subprocess.run([tool], cwd=folder, check=True, capture_output=True)


# in sync


def test_modules_are_what_the_notebooks_export(clone):
    before = contents(clone / "privglasso")
    run_tool("nbdev-export", clone)
    assert changed(before, contents(clone / "privglasso")) == [], "run nbdev-export"


def test_an_edited_module_is_noticed(clone):
    module = clone / "privglasso/validation.py"
    module.write_text(
        module.read_text(encoding="utf-8") + "\nEDITED = True\n", encoding="utf-8"
    )
    before = contents(clone / "privglasso")
    run_tool("nbdev-export", clone)
    assert changed(before, contents(clone / "privglasso")) == ["validation.py"]


def test_notebooks_are_clean(clone):
    before = contents(clone / "nbs")
    run_tool("nbdev-clean", clone)
    assert changed(before, contents(clone / "nbs")) == [], "run nbdev-clean"


def test_readme_is_the_index():
    files = readme.render(read(ROOT / "nbs/index.ipynb"))
    assert readme.stale(files, ROOT) == [], "run python docs/readme.py"


# imports


def python(code, folder, **environment):
    "What a fresh interpreter prints, run in `folder`."
    run = [sys.executable, "-c", code]
    result = subprocess.run(
        run,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_is_light():
    loaded = python("import sys, privglasso; print(*sys.modules)", ROOT).split()
    assert HEAVY.isdisjoint(loaded)


def test_every_public_name_resolves_and_is_listed():
    missing = [name for name in privglasso.__all__ if not hasattr(privglasso, name)]
    assert missing == []
    assert set(privglasso.__all__) <= set(dir(privglasso))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = privglasso.no_such_name


def imported_modules(source):
    "The package's own modules a source imports, wherever in it."
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = (
                "privglasso" + ("." + node.module if node.module else "")
                if node.level
                else node.module
            )
            names = [f"{home}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (
            name.split(".")[1] for name in names if name.startswith("privglasso.")
        )


def backward_imports(module, source, order):
    "What `module` imports from itself, from later in the book, or by way of the package's lazy names."
    allowed = {*order[: order.index(module)], "__version__"}
    return sorted(set(imported_modules(source)) - allowed)


ORDER = [name for path in CHAPTERS if (name := process.module_of(read(path)))]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way_through_the_book(path):
    assert backward_imports(path.stem, path.read_text(encoding="utf-8"), ORDER) == []


@pytest.mark.parametrize(
    ("source", "backward"),
    [
        ("from privglasso.one import x", []),
        ("from privglasso import one, __version__", []),
        ("import privglasso", []),
        ("def late():\n    import privglasso.three", ["three"]),
        ("from .two import x", ["two"]),
        ("from . import three", ["three"]),
        ("from privglasso import SomeName", ["SomeName"]),
    ],
)
def test_a_backward_import_is_noticed(source, backward):
    assert backward_imports("two", source, ["one", "two", "three"]) == backward


def test_every_module_has_a_chapter():
    assert sorted(ORDER) == sorted(path.stem for path in MODULES)


# docstrings


def undocumented(source):
    "Public functions, classes and methods without a docstring."
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef

    def visit(body, prefix):
        for node in body:
            if not isinstance(node, kinds) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from visit(node.body, f"{node.name}.")

    return list(visit(ast.parse(source).body, ""))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_have_docstrings(path):
    assert undocumented(path.read_text(encoding="utf-8")) == []


def test_a_missing_docstring_is_noticed():
    source = (
        'class A:\n    "Yes."\n    def fit(self): pass\n    def _f(self): pass\ndef'
        " g(): pass"
    )
    assert undocumented(source) == ["A.fit", "g"]


# compiled kernels

OURS = "from privglasso.kernels import kernel as compiled"
NUMBAS = "import numba\ncompiled = numba.njit(cache=True)"


def answers_before_and_after_an_edit(folder, decorator):
    "What a kernel answers before and after a constant of the other file it calls is edited."
    package = folder / "privglasso"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copyfile(ROOT / "privglasso/kernels.py", package / "kernels.py")
    (package / "caller.py").write_text(
        f"{decorator}\nfrom privglasso.called import called\n\n@compiled\ndef"
        " caller():\n    return called()\n"
    )
    answers = []
    for constant in (1, 20):
        (package / "called.py").write_text(
            f"{decorator}\n\nC = {constant}\n\n@compiled\ndef called():\n    return C\n"
        )
        environment = {
            "NUMBA_CACHE_DIR": str(folder / "cache"),
            "NUMBA_DISABLE_JIT": "0",
        }
        code = "from privglasso.caller import caller; print(caller())"
        answers.append(
            int(python(code, folder, PYTHONDONTWRITEBYTECODE="1", **environment))
        )
    assert any(
        (folder / "cache").rglob("*.nbc")
    ), "nothing was cached, so nothing was tested"
    return answers


def test_no_stale_kernel_survives_an_edit(tmp_path):
    assert answers_before_and_after_an_edit(tmp_path, OURS) == [1, 20]


def test_numbas_own_cache_would_answer_stale(tmp_path):
    answers = answers_before_and_after_an_edit(tmp_path, NUMBAS)
    if answers == [1, 20]:
        pytest.skip(
            "this numba notices an edit in the other file: our own cache folder is no"
            " longer needed"
        )
    assert answers == [1, 1]


# notebooks


def faults(notebook):
    "What a reader would stumble over in a notebook."
    found = []
    if not re.match(r"# \S.*\n\n?> \S.*(\n\n|\n?\Z)", notebook.cells[0].source):
        found.append("does not begin with a title and a one-line > subtitle")
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            if output.output_type == "error":
                found.append(f"cell {number} holds an error: {output.ename}")
            if process.is_progress_bar(output):
                found.append(f"cell {number} holds a progress bar")
            found += [
                f"cell {number} shows a path of one machine: {path}"
                for path in ABSOLUTE_PATH.findall(text)
            ]
            if " at 0x" in text:
                found.append(f"cell {number} shows a memory address")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebook_reads_well(path):
    assert faults(read(path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebook_is_small(path):
    size = path.stat().st_size / KILOBYTE
    assert size < 250, "fewer or simpler figures"
    if size > 100:
        warnings.warn(
            f"{path.name} has {size:.0f} KB; a chapter should stay under 100",
            stacklevel=1,
        )


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        (
            new_code_cell(
                outputs=[
                    new_output("error", ename="ValueError", evalue="", traceback=[])
                ]
            ),
            "ValueError",
        ),
        (
            new_code_cell(
                outputs=[new_output("stream", name="stderr", text=" 50%|##  | 1/2")]
            ),
            "progress bar",
        ),
        (
            new_code_cell(outputs=[new_output("stream", text="in /home/me/file.py")]),
            "/home/me/file.py",
        ),
        (
            new_code_cell(
                outputs=[
                    new_output("execute_result", data={"text/plain": "<f at 0x7f>"})
                ]
            ),
            "address",
        ),
        (
            new_code_cell(
                outputs=[
                    new_output(
                        "execute_result", data={"text/plain": "n/p, 1/2 and a/b/c"}
                    )
                ]
            ),
            None,
        ),
    ],
)
def test_faults_are_noticed(cell, fault):
    found = faults(
        new_notebook(cells=[new_markdown_cell("# Title\n> Subtitle\n\nText"), cell])
    )
    assert found == [] if fault is None else fault in found[0]


@pytest.mark.parametrize(
    "start", ["Title\n> Subtitle", "# Title\n\nText", "# Title\n> two\n> lines"]
)
def test_a_missing_subtitle_is_noticed(start):
    assert len(faults(new_notebook(cells=[new_markdown_cell(start)]))) == 1


def broken_links(text, folder):
    "Relative links that lead nowhere."
    return [
        link for link in process.relative_links(text) if not (folder / link).exists()
    ]


@pytest.mark.parametrize("path", [*NOTEBOOKS, ROOT / "README.md"], ids=name_of)
def test_relative_links_lead_somewhere(path):
    texts = [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        texts = [
            cell.source for cell in read(path).cells if cell.cell_type == "markdown"
        ]
    assert [link for text in texts for link in broken_links(text, path.parent)] == []


def test_a_broken_link_is_noticed():
    text = (
        "[a](README.md) [b](none.md#top) [c](https://example.org) [d](#here)"
        " ![e](none.svg) $f[g](h)$ `[i](j)`"
    )
    assert broken_links(text, ROOT) == ["none.md", "none.svg"]


# rendered pages

SYMBOLS = {
    "privglasso.one": {
        "privglasso.one.f": 0,
        "privglasso.one.shared": 0,
        "privglasso.one.K.fit": 0,
    },
    "privglasso.two": {"privglasso.two.shared": 0, "privglasso.two._hidden": 0},
}
SVG = new_output(
    "display_data", data={"image/svg+xml": "<svg/>", "text/plain": "<Figure>"}
)


def rendered(*cells):
    "The cells a chapter exporting to module `one` is rendered as, without its title."
    head = [
        new_markdown_cell("# Title\n> Subtitle\n\nText"),
        new_code_cell("#| default_exp one"),
    ]
    notebook = process.process(
        new_notebook(cells=[*head, *cells]), SYMBOLS, lambda link: link
    )
    nbformat.validate(notebook)
    return notebook.cells[1:]


@pytest.mark.parametrize(
    "source",
    [
        "#| hide\nx = 1",
        "#| include: false\nx = 1",
        "#| slow\nx = 1",
        "#| default_exp one",
        "#| export\n\n",
    ],
)
def test_cells_a_reader_needs_not_see(source):
    assert rendered(new_code_cell(source)) == []


@pytest.mark.parametrize(
    ("source", "tag"),
    [
        ("#| echo: false\nx", "remove-input"),
        ("#| output: false\nx", "remove-output"),
        ("#| code-fold: true\nx", "hide-input"),
        ("import os\nfrom pathlib import Path", "hide-input"),
        ("#| slow\nx", "slow"),
    ],
)
def test_directives_become_tags(source, tag):
    (cell,) = rendered(new_code_cell(source, outputs=[SVG]))
    assert cell.metadata.tags == [tag]
    assert "#|" not in cell.source


def test_code_fold_false_is_not_folded():
    (cell,) = rendered(new_code_cell("#| code-fold: false\nx"))
    assert cell.metadata.tags == []


@pytest.mark.parametrize(
    ("source", "alt"),
    [
        ('#| fig-alt: "What is seen"\nplt.title("no")', "What is seen"),
        ('ax.set_title("Noise\\nhides")', "Noise hides"),
        ('plot_roc(curves, title=f"AUC {x:.2f} of {y}")', "AUC … of …"),
        ("plt.plot(x)", "Figure: Results"),
        ("%magic\nplt.plot(x)", "Figure: Results"),
    ],
)
def test_figures_have_alternative_text(source, alt):
    _, cell = rendered(
        new_markdown_cell("## Results"), new_code_cell(source, outputs=[SVG])
    )
    assert cell.metadata.mystnb["image"]["alt"] == alt


def test_short_exported_source_stays_open_below_a_link():
    link, cell = rendered(new_code_cell('#| export\ndef f():\n    "Do."'))
    assert "{py:obj}`f <privglasso.one.f>`" in link.source
    assert cell.source == 'def f():\n    "Do."'
    assert cell.metadata.tags == ["exported"]


def test_long_exported_source_is_folded_below_its_docstring():
    body = "\n".join(f"    x = {i}" for i in range(20))
    documented, cell = rendered(
        new_code_cell(f"#| export\nclass K:\n{body}\n\ndef f(): pass\n\ndef _g(): pass")
    )
    assert ".. autoclass:: privglasso.one.K\n" in documented.source
    assert ".. autofunction:: privglasso.one.f\n" in documented.source
    assert "_g" not in documented.source
    assert cell.metadata.tags == ["exported", "hide-input"]
    assert cell.metadata.mystnb["code_prompt_show"] == "Source of K, f, _g"


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("`f`", "{py:obj}`f <privglasso.one.f>`"),
        ("`f(x, y)`", "{py:obj}`f(x, y) <privglasso.one.f>`"),
        ("`one.f`", "{py:obj}`one.f <privglasso.one.f>`"),
        ("`K.fit`", "{py:obj}`K.fit <privglasso.one.K.fit>`"),
        ("`shared`", "{py:obj}`shared <privglasso.one.shared>`"),
        ("`two.shared`", "{py:obj}`two.shared <privglasso.two.shared>`"),
    ],
)
def test_names_become_links(text, link):
    assert rendered(new_markdown_cell(f"See {text}."))[0].source == f"See {link}."


@pytest.mark.parametrize(
    "text",
    [
        "`g`",
        "`_hidden`",
        "``f``",
        "```\n`f`\n```",
        "[`f`](x.md)",
        "## The `f`",
        "$`f`$",
        "`f < 1`",
        "{code}`f`",
    ],
)
def test_what_is_no_name_stays_as_it_is(text):
    assert rendered(new_markdown_cell(text))[0].source == text


def test_blockquotes_get_their_style():
    notebook = process.process(
        new_notebook(
            cells=[
                new_markdown_cell("# T\n> S\n\nText\n\n> **Result.** True.\n\n> Other.")
            ]
        ),
        {},
        str,
    )
    assert (
        notebook.cells[0].source
        == "# T\n\n{.subtitle}\n> S\n\nText\n\n\n{.result}\n> **Result.** True.\n\n>"
        " Other."
    )


def test_relative_links_pass_through_the_target():
    text = (
        "[a](../x.csv) [b](folder/) [c](y.ipynb#top) [d](https://example.org/z)"
        " [e](#here)"
    )
    new = process.relink(
        text, lambda link: None if link.endswith("/") else f"files/{Path(link).name}"
    )
    assert (
        new
        == "[a](files/x.csv) b [c](files/y.ipynb#top) [d](https://example.org/z)"
        " [e](#here)"
    )


def documented_by_comments(
    x, y=1  # (n, p) table  # a number: |y| > 0
):  # the answer: a float
    "Combine."


FIELDS = (
    ":param x: (n, p) table\n:param y: a number: |y| > 0\n:returns: the answer: a float"
)


@pytest.mark.parametrize(
    ("docstring", "documented"),
    [
        ("Combine.", f"Combine.\n\n{FIELDS}\n"),
        (
            "Combine.\n\n:raises ValueError: If so.",
            f"Combine.\n\n\n{FIELDS}\n\n:raises ValueError: If so.",
        ),
        (
            "Combine.\n\n.. rubric:: Notes",
            f"Combine.\n\n\n{FIELDS}\n\n.. rubric:: Notes",
        ),
        ("Combine.\n\n:param x: table", "Combine.\n\n:param x: table"),
    ],
)
def test_comments_beside_arguments_become_fields(docstring, documented):
    lines = docstring.splitlines()
    docstrings.add_docments(None, "function", "", documented_by_comments, None, lines)
    assert "\n".join(lines) == documented


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("the largest |entry| of coef_", r"the largest \|entry\| of coef\_"),
        ("`alpha_` and ``|x|``", "`alpha_` and ``|x|``"),
        (":param alpha_: is |x|", r":param alpha\_: is \|x\|"),
        ("at $|x|_1$", "at :math:`|x|_1`"),
        (":type table: array of shape (n, p)", ":type table: *array of shape (n, p)*"),
        (">>> a | b", ">>> a | b"),
    ],
)
def test_prose_is_safe_for_restructuredtext(line, safe):
    lines = [line]
    docstrings.escape_prose(None, "function", "", None, None, lines)
    assert lines == [safe]


def test_attributes_described_together_become_a_field_each():
    lines = [
        "Fit.",
        "",
        ":ivar a_, b_: One",
        "    and two.",
        ":vartype a_, b_: arrays",
        ":ivar c_: alone, but",
        "",
    ]
    docstrings.split_attributes(None, "class", "", None, None, lines)
    both = [":ivar a_: One", "    and two.", ":ivar b_: One", "    and two."]
    types = [":vartype a_: arrays", ":vartype b_: arrays"]
    assert lines == ["Fit.", "", *both, *types, ":ivar c_: alone, but", ""]


# README


INDEX = new_notebook(
    cells=[
        new_markdown_cell("# T\n> S\n\n[a](0_ground/00_a.ipynb) [b](../settings.ini)"),
        new_code_cell("#| hide\nimport os"),
        new_code_cell("print(1)", outputs=[new_output("stream", text="1\n")]),
        new_code_cell('plt.title("Rises")', outputs=[SVG]),
    ]
)


def test_readme_shows_what_the_index_shows():
    files = readme.render(INDEX)
    assert files["docs/images/index_1.svg"] == b"<svg/>"
    assert (
        files["README.md"].decode()
        == "# T\n> S\n\n[a](nbs/0_ground/00_a.ipynb)"
        " [b](settings.ini)\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n"
        '```python\nplt.title("Rises")\n```\n\n![Rises](docs/images/index_1.svg)\n'
    )


def test_a_stale_readme_is_noticed(tmp_path):
    files = readme.render(INDEX)
    assert readme.stale(files, tmp_path) == ["README.md", "docs/images/index_1.svg"]
    readme.write(files, tmp_path)
    assert readme.stale(files, tmp_path) == []
    (tmp_path / "docs/images/index_2.svg").touch()
    assert readme.stale(files, tmp_path) == ["docs/images/index_2.svg"]
    readme.write(files, tmp_path)
    assert readme.stale(files, tmp_path) == []
