"""The package and its demonstration need nothing but the declared dependencies: no notebook, no test tools."""

import subprocess
import sys

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
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import privglasso
for module in privglasso._PUBLIC:
    importlib.import_module(f"privglasso.{{module}}")
for name in privglasso.__all__:
    getattr(privglasso, name)
import privglasso.cli, privglasso.correction
from privglasso.demo import run_demo
run_demo("grid", sys.argv[1])
"""


def test_the_demonstration_runs_on_the_declared_dependencies(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tmp_path / "grid.svg").exists() and "if fixed beforehand" in run.stdout
