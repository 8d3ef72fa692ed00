"""Sphinx's settings for the book; `python docs/build.py` runs it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # docstrings.py, theme.py

# a compiled kernel hides its signature and docstring behind a dispatcher
os.environ["NUMBA_DISABLE_JIT"] = "1"

project = "privglasso"
author = "The privglasso authors"
html_title = project
html_show_copyright = False
html_copy_source = False
html_domain_indices = False  # the reference has an index of its own

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "docstrings",
    "theme",
]
mathjax_path = "mathjax/startup.js"  # theme.py copies it and what it loads
mathjax3_config = {
    "loader": {"load": ["input/tex-base", "[tex]/ams", "output/chtml"]},
    "tex": {"packages": {"[+]": ["ams"]}},
    "options": {"enableMenu": False},
    "chtml": {"matchFontHeight": False},
}
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "dollarmath"]
myst_dmath_double_inline = True  # $$…$$ in the middle of a paragraph, as Jupyter has it
myst_heading_anchors = 3

# the text in single backticks of a docstring is a name: a link if the book exports it,
# plain code if not
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_mock_imports = [
    name for name in ("pandapower", "dask", "distributed") if find_spec(name) is None
]
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
viewcode_line_numbers = True
viewcode_follow_imported_members = False  # a name is documented where it is defined
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
pygments_style = "default"
pygments_dark_style = "github-dark"
