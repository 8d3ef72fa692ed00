"""What a reader of the rendered book sees of a notebook, cell by cell.

A chapter as it stands in `nbs/` holds more than a reader needs: cells that only set
the theme, directives, the source of every helper at full length. These functions turn
it into the notebook that Sphinx renders. They know nothing of the run and touch no
file, so that they can be tested on three cells.
"""

import ast
import re
from html import unescape

LONGEST_OPEN_SOURCE = 15  # lines; a longer cell is folded, unless it says not to be
SOLUTION = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
DIRECTIVE = re.compile(r"#\s*\|\s*([\w-]+)\s*:?\s*(.*)")
DROPPED = {"hide", "default_exp"}
EXPORTING = {"export", "exports", "exporti"}
# code blocks, doubled backticks and formulas hold neither names nor links
OPAQUE = r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence) *$|``.+?``|\$\$.*?\$\$|\$[^$\n]+\$"
# a formula in a table
TEX = re.compile(r"\$(?=[^$<>]*[\\^_{])([^$<>\s][^$<>]*)\$")
# a line with a gap between words
COLUMNS = re.compile(r"^.*\S {2,}\S.*$", re.MULTILINE)
# a text of an SVG with its size in points
SVG_TEXT = re.compile(r"<text([^>]*)>([^<]*)")
SVG_SIZE = re.compile(r"font[^:;]*:\s*([\d.]+)px")
LINK = (
    r"(?P<open>!?\[(?P<text>[^\]]*)\]\()(?!\w+:|\#|/)"
    r"(?P<path>[^)\s\#]+)(?P<rest>(?:\#[^)\s]*)?\))"
)
RELATIVE_LINK = re.compile(f"{OPAQUE}|{LINK}|`[^`]*`", re.DOTALL | re.MULTILINE)
# links and headings are stepped over as well; what is left in single backticks may be a
# name
NAME = re.compile(
    rf"{OPAQUE}|!?\[[^\]]*\]\([^)]*\)|^\#+"
    r" .*?$|(?<![`}])`(?P<name>[A-Za-z_][\w.]*)(?P<call>\([^`<>]*\))?`",
    re.DOTALL | re.MULTILINE,
)


def split_directives(source):
    """The directives at the head of a code cell as {name: value}, and the code below
    them."""
    directives, lines = {}, source.splitlines()
    while lines and (not lines[0].strip() or DIRECTIVE.match(lines[0])):
        if match := DIRECTIVE.match(lines.pop(0)):
            directives[match[1]] = match[2].strip().strip("\"'")
    return directives, "\n".join(lines).rstrip()


def is_on(directives, name):
    """Whether a directive such as `#| code-fold` or `#| code-fold: true` is there and
    not false."""
    return directives.get(name, "false") != "false"


def is_shown(cell):
    "Whether the reader sees this cell at all."
    if cell.cell_type != "code":
        return bool(cell.source.strip())
    directives, code = split_directives(cell.source)
    if DROPPED & directives.keys() or directives.get("include") == "false" or not code:
        return False
    return "slow" not in directives or bool(cell.outputs)


def module_of(notebook):
    "The name of the module a notebook exports to, or None."
    directives = (
        split_directives(cell.source)[0]
        for cell in notebook.cells
        if cell.cell_type == "code"
    )
    return next((d["default_exp"] for d in directives if "default_exp" in d), None)


def statements(code):
    "The top-level statements of a cell; none if it holds a magic."
    try:
        return ast.parse(code).body
    except SyntaxError:
        return []


def defined_names(code):
    "Functions and classes a cell defines at its top level."
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    return [node.name for node in statements(code) if isinstance(node, kinds)]


def only_imports(code):
    "Whether a cell does nothing but import."
    found = statements(code)
    return bool(found) and all(
        isinstance(node, ast.Import | ast.ImportFrom) for node in found
    )


def figure_title(code):
    """The titles a cell gives to its figures, joined; the part of an f-string that is
    computed becomes an ellipsis. A title over several panels stands for theirs."""
    over, found = [], []
    for node in ast.walk(ast.Module(statements(code), [])):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", "")
        if name == "suptitle":
            over += node.args[:1]
        if name in {"set_title", "title"}:
            found += node.args[:1]
        found += [k.value for k in node.keywords if k.arg == "title"]
    return "; ".join(_texts(over) or _texts(found))


def _texts(nodes):
    "Different texts, each on one line."
    texts = (" ".join(_text(node).split()) for node in nodes)
    return list(dict.fromkeys(filter(None, texts)))


def axis_labels(code):
    "(what is across, what is up) in a cell's figures, each once, joined."
    found = {"x": [], "y": []}
    for node in ast.walk(ast.Module(statements(code), [])):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", "")
            for axis in found:
                if name in {f"set_{axis}label", f"{axis}label", f"sup{axis}label"}:
                    found[axis] += node.args[:1]
                if name == "set":
                    found[axis] += [
                        k.value for k in node.keywords if k.arg == f"{axis}label"
                    ]
    return tuple("; ".join(_texts(nodes)) for nodes in found.values())


def drawn_titles(cell):
    "The titles as they stand in a cell's SVG: the texts of more than 10.5 points."
    found = []
    for output in cell.outputs:
        svg = output.get("data", {}).get("image/svg+xml", "")
        usual = SVG_SIZE.search(svg.partition(">")[0])  # said for all words
        for look, text in SVG_TEXT.findall(svg):
            size = SVG_SIZE.search(look) or usual
            if size and float(size[1]) > 10.5:
                found.append(" ".join(unescape(text).split()))
    return list(dict.fromkeys(filter(None, found)))


def caption(cell, directives, code):
    """What a figure shows, in a sentence: the directive `fig-cap`, its title, or what
    `fig-alt` says."""
    title = figure_title(code)
    if directives.get("fig-cap") or title and "…" not in title:
        return directives.get("fig-cap") or title
    drawn = drawn_titles(cell)
    if drawn and title:  # the title itself, without those of single panels
        words = [re.escape(part).replace("…", ".+") for part in title.split("; ")]
        of_all = [text for text in drawn if any(re.fullmatch(w, text) for w in words)]
        drawn = of_all or drawn
    return directives.get("fig-alt") or "; ".join(drawn[:4]) or title


def alternative(directives, shown, code):
    "Words for somebody who cannot see a figure: its caption, and what its axes are."
    if directives.get("fig-alt") or not shown:
        return directives.get("fig-alt", "")
    across, up = axis_labels(code)
    axes = [f"across: {across}"] * bool(across) + [f"up: {up}"] * bool(up)
    return f"{shown} ({', '.join(axes)})" if axes else shown


def _text(node):
    "A string literal's text, or an empty string."
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "…" for part in node.values)
    return ""


def has_figure(cell):
    "Whether a code cell's outputs hold an image."
    return any(
        kind.startswith("image/")
        for out in cell.outputs
        for kind in out.get("data", {})
    )


def prints_columns(output):
    "Whether an output is text in columns, which a line break would tear apart."
    data = output.get("data", {})
    text = output.get("text", "") or data.get("text/plain", "")
    return "text/html" not in data and len(COLUMNS.findall(text)) > 2


def with_formulas(output):
    "An output, where formulas in a table are marked as those of the text are."
    html = output.get("data", {}).get("text/html", "")
    if "<table" in html:
        output["data"]["text/html"] = TEX.sub(
            r'<span class="math notranslate nohighlight">\\(\1\\)</span>', html
        )
    return output


def is_progress_bar(output):
    "Whether an output is what a progress bar left behind."
    return (
        output.output_type == "stream"
        and output.name == "stderr"
        and "%|" in output.text
    )


def name_index(symbols):
    """{name, Class.method, module.name or full name: set of full names} of the public
    names in nbdev's index."""
    index = {}
    for module, names in symbols.items():
        for full in names:
            name = full.removeprefix(f"{module}.")
            if any(part.startswith("_") for part in name.split(".")):
                continue
            for key in (name, f"{module.rpartition('.')[2]}.{name}", full):
                index.setdefault(key, set()).add(full)
    return index


def link_names(text, index, module):
    """Backticked public names become links to the API page; a name two modules share is
    the chapter's own."""

    def link(match):
        if match["name"] is None:
            return match[0]
        candidates = index.get(match["name"], set())
        own = {full for full in candidates if full.startswith(f"privglasso.{module}.")}
        if len(own or candidates) != 1:
            return match[0]
        (full,) = own or candidates
        return f"{{py:obj}}`{match['name']}{match['call'] or ''} <{full}>`"

    return NAME.sub(link, text)


def style_blockquotes(text):
    """Give the subtitle below the title, every **Result.** and the landing page's doors
    the class their style hangs on."""
    text = re.sub(r"\A(# .+\n+)(?=> )", r"\1\n{.subtitle}\n", text)
    text = text.replace("## Choose a door\n", "## Choose a door\n\n{.doors}\n")
    return re.sub(r"^(?=> \*\*Result\b)", "\n{.result}\n", text, flags=re.MULTILINE)


def relative_links(text):
    "The paths that a Markdown text's relative links and images name."
    return [match["path"] for match in RELATIVE_LINK.finditer(text) if match["path"]]


def relink(text, target):
    """Pass every relative link of a Markdown text through `target`, which returns None
    for a link to be undone."""

    def link(match):
        if match["path"] is None:
            return match[0]
        new = target(match["path"])
        return match["text"] if new is None else match["open"] + new + match["rest"]

    return RELATIVE_LINK.sub(link, text)


def for_teachers(text):
    "What a lecture says to the teacher, folded."
    return f"<details><summary>For the teacher</summary>\n\n{text}\n\n</details>"


def markdown_cell(cell, text):
    "A Markdown cell in the place of `cell`."
    return type(cell)(cell_type="markdown", metadata={}, source=text)


def show_code(cell, module, heading):
    """A code cell as the reader sees it, as a list of cells: what introduces an
    exported one, then the source."""
    directives, code = split_directives(cell.source)
    solution = cell.metadata.get("nbgrader", {}).get("solution", False)
    cell.source, cell.outputs = SOLUTION.sub("", code), [
        with_formulas(out) for out in cell.outputs if not is_progress_bar(out)
    ]
    names = defined_names(code)
    exported = bool(EXPORTING & directives.keys())
    folded = is_on(directives, "code-fold") or only_imports(code)
    if "code-fold" not in directives:
        folded = folded or code.count("\n") >= LONGEST_OPEN_SOURCE
    tags = {
        "slow": "slow" in directives,
        "exported": exported,
        "remove-input": directives.get("echo") == "false",
        "remove-output": directives.get("output") == "false",
        "hide-input": folded and not solution,
        "hide-cell": solution,
        "columns": any(map(prints_columns, cell.outputs)),
    }
    summary = directives.get("code-summary") or folded_as(code, names, exported)
    summary = "Solution" if solution else summary
    rendering = {"code_prompt_show": summary, "code_prompt_hide": summary}
    if has_figure(cell):
        shown = caption(cell, directives, code)
        words = alternative(directives, shown, code) or f"Figure: {heading}"
        rendering["image"] = {"alt": words}
        if shown:
            rendering["figure"] = {"caption": shown}
    cell.metadata = {
        "tags": [tag for tag, on in tags.items() if on],
        "mystnb": rendering,
    }
    public = [name for name in names if not name.startswith("_")]
    if not exported or not public:
        return [cell]
    if folded:
        cell.source = without_docstrings(code, public)
    return [markdown_cell(cell, introduce(public, code, module, folded)), cell]


def without_docstrings(code, names):
    "Source without the docstrings of `names`, which stand above it where it is folded."
    lines = code.split("\n")
    for node in statements(code):
        told = getattr(node, "name", "") in names and ast.get_docstring(node)
        if told and len(node.body) > 1:
            first, last = node.body[0].lineno, node.body[0].end_lineno
            lines[first - 1 : last] = [None] * (last - first + 1)
    return "\n".join(line for line in lines if line is not None)


def folded_as(code, names, exported):
    "What stands on a folded cell."
    if only_imports(code):
        return "Imports"
    if exported and names:
        return "Source of " + ", ".join(names)
    return "The check" if re.search(r"^ *assert ", code, re.MULTILINE) else "Code"


def introduce(names, code, module, folded):
    """Above folded source stand signature and docstring; above open source, which has
    both, only a link."""
    if not folded:
        return "{.api-link}\n" + " ".join(
            f"{{py:obj}}`{name} <privglasso.{module}.{name}>`" for name in names
        )
    classes = {node.name for node in statements(code) if isinstance(node, ast.ClassDef)}
    kinds = {name: "autoclass" if name in classes else "autofunction" for name in names}
    blocks = [
        f".. {kind}:: privglasso.{module}.{name}\n   :no-index:\n"
        for name, kind in kinds.items()
    ]
    return "```{rst}\n" + "\n".join(blocks) + "```"


def process(notebook, symbols, target, anchors=()):
    """Turn a chapter into the notebook Sphinx renders.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        Changed in place.
    symbols : dict
        nbdev's index of exported names, `privglasso._modidx.d["syms"]`.
    target : callable
        Where a relative link leads in the rendered book, or None if to nowhere.
    anchors : collection of str
        Ids of cells that other pages lead to: each gets the HTML id at-<id>.

    Returns
    -------
    nbformat.NotebookNode
    """
    module, index, heading, cells = module_of(notebook), name_index(symbols), "", []
    for cell in filter(is_shown, notebook.cells):
        if cell.id in anchors:
            place = f'<span class="place" id="at-{cell.id}"></span>'
            cells.append(markdown_cell(cell, place))
        if cell.cell_type == "code":
            cells += show_code(cell, module, heading)
            continue
        heading = (re.findall(r"^#+ (.+)", cell.source, re.MULTILINE) or [heading])[-1]
        text = link_names(relink(cell.source, target), index, module)
        if cell.metadata.get("slideshow", {}).get("slide_type") == "notes":
            text = for_teachers(text)
        cells.append(markdown_cell(cell, style_blockquotes(text)))
    notebook.cells = cells
    notebook.metadata = {
        "language_info": {"name": "python", "pygments_lexer": "ipython3"}
    }
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    return notebook
