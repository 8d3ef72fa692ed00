"""A Sphinx extension: the book's docstrings, written to be read in a notebook, become reStructuredText."""

import inspect
import re

from fastcore.docments import docments

RETURNED = re.compile(r"^\s*\).*:\s+#\s*(.+)$", re.MULTILINE)  # the comment behind a signature's last line
LITERAL_OR_FORMULA = re.compile(r"(``.*?``|`[^`]*`|\$[^$]+\$)")
SPECIAL = re.compile(r"(?<!\\)\||(?<=\w)_(?!\w)")  # a substitution, or a reference such as alpha_


def section(title, rows):
    "A numpydoc section of (name, description) rows."
    lines = [title, "-" * len(title)]
    for name, text in rows:
        lines += [name, f"    {text}"]
    return [*lines, ""]


def add_docments(app, what, name, obj, options, lines):
    "Comments beside the arguments become numpydoc's Parameters and Returns, unless the docstring has its own."
    if what not in {"function", "method"} or "Parameters" in lines or "Returns" in lines:
        return
    comments = {name: text for name, text in docments(obj).items() if text}
    comments.pop("return", None)
    returned = RETURNED.search(inspect.getsource(obj))
    extra = section("Parameters", comments.items()) if comments else []
    extra += section("Returns", [(returned[1], "")]) if returned else []
    underlines = [number for number, line in enumerate(lines) if line and set(line) == {"-"}]
    at = underlines[0] - 1 if underlines else len(lines)
    lines[at:at] = extra if underlines else ["", *extra]


def escape_prose(app, what, name, obj, options, lines):
    "Keep |x|, alpha_ and $x$ in a docstring's prose from meaning something else to reStructuredText."
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..")):
            continue
        field, prose = re.match(r"(\s*:[^:`]+:)?(.*)", line).groups("")
        spans = LITERAL_OR_FORMULA.split(prose)
        spans[::2] = [SPECIAL.sub(r"\\\g<0>", span) for span in spans[::2]]
        spans[1::2] = [f":math:`{span[1:-1]}`" if span[0] == "$" else span for span in spans[1::2]]
        lines[number] = field + "".join(spans)


def setup(app):
    "Docstrings pass add_docments, then napoleon (priority 500), then escape_prose."
    app.connect("autodoc-process-docstring", add_docments, priority=400)
    app.connect("autodoc-process-docstring", escape_prose, priority=600)
    return {"parallel_read_safe": True}
