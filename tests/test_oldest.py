"""The oldest libraries that are allowed are named, each in one version."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from oldest import EXTRAS, PROJECT, oldest  # noqa: E402


def test_every_library_of_the_package_is_named_at_its_lower_bound():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    named = oldest(project)
    extras = sum(len(project["optional-dependencies"][name]) for name in EXTRAS)
    assert len(named) == len(project["dependencies"]) + extras
    assert "numpy==2.0.*" in named and "dask[dataframe]==2025.1.*" in named
    assert "pandas==2.2.2.*" in named  # what is said of newer ones is left out
