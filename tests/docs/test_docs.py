"""What makes the site and README of the notebooks."""

import re
import shutil
import sys
from itertools import accumulate
from importlib.util import find_spec
from pathlib import Path

import nbformat
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "docs"))

import docstrings  # noqa: E402
import pages  # noqa: E402
import process  # noqa: E402
import readme  # noqa: E402
import theme  # noqa: E402

from privglasso.papers.claims import CLAIMS  # noqa: E402

NBS = ROOT / "nbs"

# rendered pages

SYMBOLS = {
    "privglasso.one": {
        "privglasso.one.f": 0,
        "privglasso.one.shared": 0,
        "privglasso.one.K.fit": 0,
    },
    "privglasso.two": {"privglasso.two.shared": 0, "privglasso.two._hidden": 0},
}
STEP = re.compile(r"\.(..)|(.)")  # two digits after a point, or one
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


@pytest.mark.parametrize("lines", [1, 40])
def test_code_fold_false_is_not_folded(lines):
    (cell,) = rendered(new_code_cell("#| code-fold: false" + "\nx = 1" * lines))
    assert cell.metadata.tags == []


@pytest.mark.parametrize(
    ("lines", "last", "told"),
    [(14, "y = x", None), (15, "y = x", "Code"), (15, "assert x == 1", "The check")],
)
def test_code_that_no_glance_takes_in_is_folded(lines, last, told):
    (cell,) = rendered(new_code_cell("x = 1\n" * lines + last))
    assert ("hide-input" in cell.metadata.tags) == (told is not None)
    assert cell.metadata.mystnb["code_prompt_show"] == told or told is None


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


def test_a_method_of_a_private_base_is_linked_as_one_of_its_class():
    index = process.name_index(pages.exported_symbols())
    for name, module in {
        "Guarantee.tradeoff": "privacy.guarantee",
        "Schema.read": "publish.schema",
        "CovarianceMechanism.noise_std": "publish.covariance",
        "CovarianceRelease.matrix": "publish.covariance",
    }.items():
        assert index[name] == {f"privglasso.{module}.{name}"}
    assert not any("._" in name for name in index)


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
        new == "[a](files/x.csv) b [c](files/y.ipynb#top) [d](https://example.org/z)"
        " [e](#here)"
    )


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


def test_attributes_described_together_stay_together():
    lines = [":ivar a_, b_: One", "    and two.", ":vartype a_, b_: arrays"]
    docstrings.join_attributes(None, "class", "", None, None, lines)
    kept = [":ivar a_,b_: One", "    and two.", ":vartype a_,b_: arrays"]
    assert lines == kept


def test_a_formula_over_two_lines_is_one():
    lines = ["The curve $a +", "    b$ and", "``$`` alone", "is left"]
    assert docstrings.whole_formulas(lines) == ["The curve $a + b$ and", *lines[2:]]


def test_a_caption_says_what_the_figure_says():
    "The title as drawn, where it was computed; the axes for those who do not see it."
    code = 'ax.set(title=f"AUC {x} of {y}", xlabel="ε", ylabel="AUC")'
    for svg in (
        '<text style="font: 11px x">AUC .95 of 7</text>',
        '<svg style="font-size:11px"><text x="1">AUC .95 of 7</text>',
        '<svg style="font-size:9px"><text>1</text>'
        '<text style="fill:#fff;font-size:11px">AUC .95 of 7</text>',
    ):
        drawn = new_output("display_data", data={"image/svg+xml": svg})
        (cell,) = rendered(new_code_cell(code, outputs=[drawn]))
        assert cell.metadata.mystnb["figure"]["caption"] == "AUC .95 of 7"
        alt = "AUC .95 of 7 (across: ε, up: AUC)"
        assert cell.metadata.mystnb["image"]["alt"] == alt
    stated = "#| fig-cap: Said\n#| fig-alt: Seen\n" + code
    (cell,) = rendered(new_code_cell(stated, outputs=[drawn]))
    assert cell.metadata.mystnb["figure"]["caption"] == "Said"
    assert cell.metadata.mystnb["image"]["alt"] == "Seen"


def test_printed_columns_are_not_broken():
    table = new_output("stream", text="a   b\n1   2\n3   4\n")
    (cell,) = rendered(new_code_cell("print(t)", outputs=[table]))
    assert cell.metadata.tags == ["columns"]
    (cell,) = rendered(new_code_cell("x", outputs=[new_output("stream", text="a b c")]))
    assert cell.metadata.tags == []


def test_formulas_in_a_table_are_marked():
    html = "<table><td>the $\\delta(x)$, for $5 or $6</td></table>"
    table = new_output("display_data", data={"text/html": html})
    (cell,) = rendered(new_code_cell("x", outputs=[table]))
    shown = cell.outputs[0]["data"]["text/html"]
    assert r'"math notranslate nohighlight">\(\delta(x)\)</span>, for $5 or $6' in shown


def test_a_cell_that_others_lead_to_has_a_place():
    cell = new_code_cell("x = 1", id="abc12345")
    found = process.process(new_notebook(cells=[cell]), {}, str, {"abc12345"}).cells
    assert 'id="at-abc12345"' in found[0].source and found[1].source == "x = 1"


# composed pages


def test_times_are_counted():
    book = process.process(
        new_notebook(
            cells=[
                new_markdown_cell("word " * 2 * pages.WORDS),
                new_code_cell("x = 1\n" * pages.LINES, outputs=[SVG]),
                new_code_cell("#| code-fold: true\n" + "y = 1\n" * 900),
            ]
        ),
        {},
        str,
    )
    assert pages.minutes(book) == 4  # two, one, and a third for the figure
    assert [pages.hours(x) for x in (45, 60, 100)] == [
        "45 minutes",
        "1 hour",
        "1 ¾ hours",
    ]


def test_routes_lead_through_chapters_that_exist():
    for _, _, route in pages.ROUTES.values():
        assert [page for page in route if not (NBS / f"{page}.ipynb").is_file()] == []
    page = pages.routes_page({"0_start/01_story": ("Story", "S", 7)})
    assert "## The publisher: 7 minutes" in page and "7 min: S" in page


def test_every_claim_is_decided_by_a_cell_and_every_result_has_a_command():
    books = {
        process.module_of(book): (path.stem, book)
        for path in NBS.glob("*/*.ipynb")
        if process.module_of(book := nbformat.read(path, as_version=4))
    }
    assert len(pages.decided_in(CLAIMS, books)) == len(CLAIMS)
    folder = ROOT / "data/results"
    text = pages.results_page(folder, pages.study_modules(), books)
    for path in folder.glob("*.csv"):
        bench = path.stem.startswith("benchmark_")
        command = "make bench" if bench else f"make reproduce ONLY={path.stem}"
        assert command in text.partition(f"## {path.stem}\n")[2].partition("## ")[0]


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
        files["README.md"].decode() == "# T\n> S\n\n[a](nbs/0_ground/00_a.ipynb)"
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


# the course


def test_solutions_and_notes_are_folded():
    solution = new_code_cell("x = ...\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION")
    solution.metadata["nbgrader"] = {"solution": True}
    notes = new_markdown_cell("Ask *them*.")
    notes.metadata["slideshow"] = {"slide_type": "notes"}
    notes, solution = rendered(notes, solution)[-2:]
    assert solution.source == "x = ...\nx = 1\n"
    assert solution.metadata.tags == ["hide-cell"]
    assert solution.metadata.mystnb["code_prompt_show"] == "Solution"
    assert notes.source.startswith("<details>") and "\n\nAsk *them*." in notes.source


# what a page weighs


def test_code_is_coloured_in_few_letters():
    body = (
        '<span class="n">x</span> <span class="o">=</span> <span class="mi">1</span>'
        '<span class="k">if</span>'
        '<span class="sd">"a</span>\n\n  <span class="sd">b"</span>'
        '<span class="pre">kept</span>'
    )
    assert theme.lighter(body) == (
        'x = 1<i class=k>if</i><i class=sd>"a\n\n  b"</i><span class="pre">kept</span>'
    )
    text = '<span class="ow">not</span> <span class="kc">True</span>'
    assert theme.lighter(text) == "<i class=k>not True</i>"
    text = '<span class="n"><span class="pre">n</span></span>'
    text = f'<em class="sig-param">{text}</em>'
    assert theme.lighter(text) == '<em class="sig-param">n</em>'


@pytest.mark.parametrize("opened", ["Code", "Hide the code"])
def test_a_fold_says_once_what_it_says_twice(opened):
    texts = {"collapsed": "Code", "expanded": opened}
    body = "\n".join(
        f'<p class="{when} admonition-title">{text}</p>' for when, text in texts.items()
    )
    once = '<p class="admonition-title">Code</p>'
    assert theme.lighter(body) == (once if opened == "Code" else body)


def test_the_sidebar_names_no_class_that_has_no_style():
    assert theme.entry("A & B", "a.html", 2) == (
        '<li><a href="a.html">A &amp; B</a>'
    )
    opened = theme.entry("A", "a.html", 1, "current has-children")
    assert opened.startswith('<li class="toctree-l1 current has-children"><a ')
    css = ".sidebar-tree .current>.reference:hover{top:0}.toc-tree .reference{top:0}"
    told = ".sidebar-tree .current>a:hover{top:0}.toc-tree .reference{top:0}"
    assert theme.unnamed_links(css) == told


def test_a_search_loads_no_entries_of_the_index_and_no_numbers():
    words = '"é":1,"0015e4":[2,3],"x0":[7,2]'
    entries = '"indexentries":{"f()":[[0,"f",true]]}'
    told = '{"terms":{"\\u00e9":1,"x0":"25"},"indexentries":{}}'
    script = f'Search.setIndex({{"terms":{{{words}}},{entries}}})'
    assert theme.words_looked_for(script) == f"Search.setIndex({theme.UNPACK}({told}))"


def test_where_a_word_stands_is_packed_without_loss():
    unpack = lambda text: list(
        accumulate(int(two or one, 36) for two, one in STEP.findall(text))
    )
    generator = np.random.default_rng(0)
    for most in (2, 36, 400, 5000):
        for _ in range(50):
            pages = sorted({*generator.integers(0, most, most // 2).tolist()})
            packed = theme.packed(pages[::-1])
            assert (unpack(packed) if isinstance(packed, str) else packed) == pages
    assert theme.packed([0, 35, 71, 1366]) == "0z.10.zz"
    assert theme.packed([0, 1296]) == [0, 1296] and theme.packed(3) == 3


def test_styles_of_absent_classes_go():
    css = (
        "/* .a */ :root { --x: 1 } .a, .gone .b { color: red } .gone:hover { top: 0 }"
        "@media print { .gone { top: 0 } p:not(.gone) > .b { left: 0 } }"
        "@media screen { .gone { top: 0 } }"
    )
    assert theme.pruned(css, {"a", "b"}) == (
        ":root{--x: 1}.a{color: red}@media print{p:not(.gone) > .b{left: 0}}"
    )


def test_a_script_shares_its_helpers():
    script = 'var r,o=this&&this.__extends||(r=f("){"),function(t){r(t)}),i=1'
    assert theme.helped(script) == "var r,o=this&&this.__extends||__extends,i=1"
    both = "a=this&&this.__read||function(t){if(t){}return[]},b=this&&this.__x||f()"
    assert theme.helped(both) == "a=this&&this.__read||__read,b=this&&this.__x||f()"


def test_a_font_is_split_without_losing_a_sign(tmp_path):
    package = Path(find_spec("sphinx-mathjax-offline").submodule_search_locations[0])
    whole = package / "static/mathjax/output/chtml/fonts/woff-v2" / theme.RARE
    often, rest = tmp_path / "often.woff", tmp_path / "rest.woff"
    shutil.copyfile(whole, often)
    theme.split_font(often, rest)
    signs = {path: set(TTFont(path).getBestCmap()) for path in (whole, often, rest)}
    assert signs[often] | signs[rest] == signs[whole]
    assert {*map(ord, "RNEP□■")} <= signs[often] <= theme.NOT_RARE
    assert often.stat().st_size < whole.stat().st_size / 4
    # a page finds the rest by what book.css says of it, which must be all of it
    css = (ROOT / "docs/_static/book.css").read_text(encoding="utf-8")
    ranges = re.search(r"unicode-range: (.*);", css)[1].split(", ")
    told = [part.removeprefix("U+").split("-") for part in ranges]
    assert all(
        any(int(low, 16) <= sign <= int(high, 16) for low, high in told)
        for sign in signs[rest]
    )


def test_folded_source_does_not_repeat_what_stands_above():
    told = '    """One.\n\n    Two."""\n'
    other = 'def _g():\n    "Kept"\n    return 2\n'
    code = f"def f():\n{told}    return 1\n\n\n{other}"
    short = process.without_docstrings(code, ["f"])
    assert short == f"def f():\n    return 1\n\n\n{other}"
    assert process.without_docstrings('def f():\n    "All"', ["f"]).endswith('"All"')
