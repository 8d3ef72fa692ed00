"""A Sphinx extension: formulas and bars in numpydoc docstrings, as reStructuredText."""

import importlib
import pkgutil
import re

from docutils.utils import new_document
from myst_parser.mocking import MockRSTParser
from sphinx.util.docutils import SphinxDirective

# attributes described together
SEVERAL = re.compile(r"(:ivar|:vartype) ([^:]+,[^:]+):(.*)", re.DOTALL)
LITERAL_OR_FORMULA = re.compile(r"(``.*?``|`[^`]*`|\$[^$]+\$)")
# a substitution, or a reference such as alpha_
SPECIAL = re.compile(r"(?<!\\)\||(?<=\w)_(?!\w)")


def split_attributes(app, what, name, obj, options, lines):
    """A field for several attributes becomes one for each, which napoleon does for
    parameters only."""
    fields = re.split(r"\n(?=\S)", "\n".join(lines))
    split = [SEVERAL.match(field) for field in fields]
    lines[:] = "\n".join(
        (
            "\n".join(
                f"{found[1]} {each.strip()}:{found[3]}" for each in found[2].split(",")
            )
            if found
            else field
        )
        for found, field in zip(split, fields, strict=True)
    ).split("\n")


def escape_prose(app, what, name, obj, options, lines):
    """Keep |x|, alpha_ and $x$ in a docstring from meaning something else to
    reStructuredText."""
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..")):
            continue
        field, prose = re.match(r"(\s*:[^:`]+:)?(.*)", line).groups("")
        spans = LITERAL_OR_FORMULA.split(prose)
        spans[::2] = [SPECIAL.sub(r"\\\g<0>", span) for span in spans[::2]]
        spans[1::2] = [
            f":math:`{span[1:-1]}`" if span[0] == "$" else span for span in spans[1::2]
        ]
        lines[number] = SPECIAL.sub(r"\\\g<0>", field) + plain_type(
            field, "".join(spans)
        )


def plain_type(field, text):
    """A type such as (n, p), which Sphinx would look up word by word and link to any
    attribute called n."""
    is_type = field.strip().startswith((":type ", ":vartype "))
    return f" *{text.strip()}*" if is_type and not {"*", "`"} & set(text) else text


class ReStructuredText(SphinxDirective):
    """reStructuredText inside a notebook.

    MyST's own eval-rst pads the text with as many blank lines as stand before it, and
    myst-nb counts 10000 lines a cell: a chapter took seconds."""

    has_content = True

    def run(self):
        "Parse the content into nodes."
        document = new_document(
            self.state.document["source"], self.state.document.settings
        )
        document.reporter = self.state.document.reporter
        MockRSTParser().parse("\n".join(self.content), document)
        return document.children


def import_all():
    """Import every module before Sphinx splits into processes, or each of them would do
    so for every few pages."""
    package = importlib.import_module("privglasso")
    for module in pkgutil.walk_packages(package.__path__, "privglasso."):
        importlib.import_module(module.name)


def setup(app):
    "Docstrings pass napoleon (priority 500), then what is here, in this order."
    import_all()
    app.add_directive("rst", ReStructuredText)
    app.connect("autodoc-process-docstring", split_attributes, priority=525)
    app.connect("autodoc-process-docstring", escape_prose, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
