"""Sphinx's settings for the book; `python docs/build.py` runs it."""

import inspect
import os
import re
from importlib.util import find_spec

# a compiled kernel hides its signature and docstring behind a dispatcher
os.environ["NUMBA_DISABLE_JIT"] = "1"

from fastcore.docments import docments

project = "privglasso"
author = "The privglasso authors"
html_title = project
html_show_copyright = False
html_copy_source = False

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
]
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# the text in single backticks of a docstring is a name: a link if the book exports it, plain code if not
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_mock_imports = [name for name in ("pandapower", "dask", "distributed") if find_spec(name) is None]
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
viewcode_line_numbers = True
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["book.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"


RETURNED = re.compile(r"^\s*\).*:\s+#\s*(.+)$", re.MULTILINE)  # the comment behind a signature's last line


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
    heads = [number for number, line in enumerate(lines[1:]) if line and set(line) == {"-"}]
    at = heads[0] if heads else len(lines)
    lines[at:at] = extra if heads else ["", *extra]


def escape_prose(app, what, name, obj, options, lines):
    "Keep |x|, alpha_ and $x$ in a docstring's prose from meaning something to reStructuredText."
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..")):
            continue
        field, prose = re.match(r"(\s*:[^:`]+:)?(.*)", line).groups("")
        spans = re.split(r"(``.*?``|`[^`]*`|\$[^$]+\$)", prose)
        spans[::2] = [re.sub(r"(?<!\\)\||(?<=\w)_(?!\w)", r"\\\g<0>", span) for span in spans[::2]]
        spans[1::2] = [f":math:`{span[1:-1]}`" if span[0] == "$" else span for span in spans[1::2]]
        lines[number] = field + "".join(spans)


def setup(app):
    "Docstrings pass add_docments, then napoleon (priority 500), then escape_prose."
    app.connect("autodoc-process-docstring", add_docments, priority=400)
    app.connect("autodoc-process-docstring", escape_prose, priority=600)
