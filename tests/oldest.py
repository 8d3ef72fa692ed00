"""The oldest libraries that pyproject.toml allows, as pip's requirements.

`python tests/oldest.py` prints them: of every lower bound of the package and its extras
the last repair of that very version, and what the tests need, in any version.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
EXTRAS = ("excel", "sql", "distributed", "report")
TESTS = ("pytest", "pytest-xdist", "pytest-timeout", "hypothesis", "mpmath")


def oldest(project):
    "Requirements, each with its lower bound in place of what is allowed."
    stated = [*project["dependencies"]]
    for name in EXTRAS:
        stated += project["optional-dependencies"][name]
    bounds = (re.match(r"([^>]+)>=([0-9.]+)", each).groups() for each in stated)
    return [f"{name}=={bound}.*" for name, bound in bounds]


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    print(*oldest(project), *TESTS, sep="\n")
