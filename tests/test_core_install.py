"""The package needs the declared dependencies only, and pictures when it draws."""

import subprocess
import sys

import pytest

BLOCKED = [
    "IPython",
    "matplotlib_inline",
    "nbdev",
    "fastcore",
    "execnb",
    "jupytext",
    "nbformat",
    "sphinx",
    "myst_nb",
    "pytest",
    "hypothesis",
    "sympy",
    "mpmath",
    "opendp",
    "dp_accounting",
    "pandapower",
    "nilearn",
]

PROGRAM = f"""
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import privglasso
for module in pkgutil.walk_packages(privglasso.__path__, "privglasso."):
    importlib.import_module(module.name)
for name in privglasso.__all__:
    getattr(privglasso, name)
from privglasso.start.demonstration import run_demo
run_demo("grid", sys.argv[1])
"""


def python(program, *words):
    "The run of a program in a process of its own."
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_demonstration_runs_on_the_declared_dependencies(tmp_path):
    run = python(PROGRAM, str(tmp_path))
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tmp_path / "grid.svg").exists() and "but no promise" in run.stdout


PICTURES = "[m for m in ('matplotlib', 'seaborn', 'networkx') if m in sys.modules]"


@pytest.mark.parametrize(
    "use",
    [
        "from privglasso.base import graphs, io, kernels, plots, settings, validation",
        "import privglasso.cli, privglasso.data_sets.overview",
        "import privglasso as pg; pg.plan; pg.audit; pg.CovarianceMechanism",
        "import privglasso as pg; pg.DPThresholding; pg.PrivateGraphicalLasso",
    ],
)
def test_no_picture_is_drawn_by_an_import(use):
    run = python(f"import sys; {use}; print({PICTURES})")
    assert run.returncode == 0 and run.stdout.strip() == "[]", run.stdout + run.stderr
