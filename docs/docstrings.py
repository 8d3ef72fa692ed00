"""A Sphinx extension: formulas and bars in numpydoc docstrings, as reStructuredText."""

import importlib
import pkgutil
import re

from docutils import nodes
from docutils.utils import new_document
from myst_parser.mocking import MockRSTParser
from sphinx.addnodes import desc, desc_signature, literal_strong
from sphinx.util.docutils import SphinxDirective

# attributes described together
SEVERAL = re.compile(r"(:ivar|:vartype) ([^:]+,[^:]+):(.*)", re.DOTALL)
LITERAL_OR_FORMULA = re.compile(r"(``.*?``|`[^`]*`|\$[^$]+\$)")
LITERAL = re.compile(r"``.*?``|`[^`]*`")
# a substitution, or a reference such as alpha_
SPECIAL = re.compile(r"(?<!\\)\||(?<=\w)_(?!\w)")


def join_attributes(app, what, name, obj, options, lines):
    """Attributes described together, as `a_, b_ : arrays`, stay together: a text about
    both is not repeated for each. A field's name ends at its last space, so there is
    none."""
    for number, line in enumerate(lines):
        if found := SEVERAL.match(line):
            names = ",".join(each.strip() for each in found[2].split(","))
            lines[number] = f"{found[1]} {names}:{found[3]}"


def says_nothing(app, what, name, obj, skip, options):
    "A named tuple describes its fields; what Python says of them is left out."
    return True if str(obj.__doc__).startswith("Alias for field number") else None


def space_names(app, domain, objtype, content):
    "The spaces that `join_attributes` had to take away."
    for names in content.findall(literal_strong):
        text = names.astext()
        if re.fullmatch(r"\w+(,\w+)+", text):
            names.children = [nodes.Text(text.replace(",", ", "))]


def whole_formulas(lines):
    """The lines, where a formula that was broken at the end of a line is on one."""
    whole = []
    for line in lines:
        bare = LITERAL.sub("", whole[-1]) if whole else ""
        if bare.count("$") % 2 and line.strip():
            whole[-1] += " " + line.strip()
        else:
            whole.append(line)
    return whole


def escape_prose(app, what, name, obj, options, lines):
    """Keep |x|, alpha_ and $x$ in a docstring from meaning something else to
    reStructuredText."""
    lines[:] = whole_formulas(lines)
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
        for described in document.findall(desc):
            if described.get("no-index"):  # in a chapter, whose source is folded below
                for signature in described.findall(desc_signature):
                    signature["module"] = ""  # or viewcode would link it, and back
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
    app.connect("autodoc-skip-member", says_nothing)
    app.connect("autodoc-process-docstring", join_attributes, priority=525)
    app.connect("object-description-transform", space_names)
    app.connect("autodoc-process-docstring", escape_prose, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
