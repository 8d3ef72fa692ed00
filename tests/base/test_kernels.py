"""Compiled kernels: any edit of the package starts a fresh folder of machine code."""

import subprocess
import sys
from pathlib import Path

import pytest

import privglasso

# in a process of its own, so that nothing of this one's settings is seen
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from privglasso.base import kernels
print(kernels.cache_folder().name)
"""


def folder_of(package):
    "The name of the folder in which a copy of the package keeps its machine code."
    run = subprocess.run(
        [sys.executable, "-E", "-c", PROGRAM, "", str(package)],
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


@pytest.fixture
def copy(tmp_path):
    "A copy of the package that can be edited."
    source = Path(privglasso.__file__).parent
    for path in source.rglob("*.py"):
        target = tmp_path / "privglasso" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return tmp_path


def test_an_edit_in_any_subpackage_starts_a_fresh_folder(copy):
    before, seen = folder_of(copy), set()
    for part in ("base", "recover"):
        path = sorted((copy / "privglasso" / part).glob("*.py"))[-1]
        path.write_text(path.read_text() + "# edited\n")
        seen.add(folder_of(copy))
    assert len(before) == 16 and len(seen | {before}) == 3
