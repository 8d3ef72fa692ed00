"""Compiled kernels: any edit of the package starts a fresh folder of machine code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import privglasso
from privglasso.base import kernels

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


READ_ONLY = """
import sys, warnings
sys.path.insert(0, sys.argv[2])
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from privglasso.recover.graphical_lasso import graphical_lasso
print(len([w for w in said if "compiled code cannot be kept" in str(w.message)]))
print(graphical_lasso([[1.0, 0.3], [0.3, 1.0]], 0.5).precision[0, 1])
"""


def test_a_package_that_nothing_can_be_written_to_works_and_says_so(copy):
    "Neither a home nor a cache: one warning, and no file in the package."
    no_folder = copy / "a file"
    no_folder.write_text("")
    before = sorted(copy.rglob("*"))
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(no_folder / "cache"),
        "HOME": str(no_folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(copy),
    }
    run = subprocess.run(
        [sys.executable, "-c", READ_ONLY, "", str(copy)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert run.stdout.split() == ["1", "0.0"] and sorted(copy.rglob("*")) == before


def test_threads_keep_the_order_and_end_at_the_first_failure():
    assert kernels.in_threads(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    nested = kernels.in_threads(lambda x: kernels.in_threads(abs, [-x, x]), [1, 2])
    assert nested == [[1, 1], [2, 2]]
    with pytest.raises(ZeroDivisionError):
        kernels.in_threads(lambda x: 1 / x, [1, 0, 2])
    kernels.check_stopped()


CTRL_C = """
import sys, threading, time, _thread
import numpy as np
from privglasso.recover.graphical_lasso import graphical_lasso
v = 0.9999 ** np.abs(np.subtract.outer(np.arange(700), np.arange(700)))
v += 0.01 * np.sin(np.add.outer(np.arange(700), np.arange(700)) ** 2)
graphical_lasso(np.eye(3) + 0.5, 0.1)
def press():
    global at
    at = time.time()
    _thread.interrupt_main()
threading.Timer(1.0, press).start()
try:
    graphical_lasso(v + 0.1 * np.eye(700), 1e-5, tol=1e-14)
except KeyboardInterrupt:
    print(time.time() - at)
"""


def test_ctrl_c_is_heard_within_a_second():
    run = subprocess.run(
        [sys.executable, "-c", CTRL_C], capture_output=True, text=True, check=True
    )
    assert 0 <= float(run.stdout.split()[-1]) < 1.5  # a machine may be busy
