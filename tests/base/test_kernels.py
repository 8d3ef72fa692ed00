"""Compiled kernels: any edit of the package starts a fresh folder of machine code."""

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import privglasso
from privglasso.base import kernels
from privglasso.privacy import sampler
from privglasso.publish import comparisons, copula, covariance, margins, sphere, table
from privglasso.publish import units, whitening

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
    import numpy as np
    from privglasso.base import kernels
    from privglasso.publish.margins import placed_cells
    from privglasso.publish.sphere import Sphere, integer_sums, row_lattice
    kernels._PRICE = 0  # small as they are, they are compiled
    integer_sums(np.ones((2, 1)), row_lattice(2, 1, 1.0, Sphere()))
    counts = placed_cells(np.array([[2.0], [5.0]]), ("levels",), [1], [4])[1]
print(len([w for w in said if "compiled code cannot be kept" in str(w.message)]))
print(*counts[0], sep="")
"""


@pytest.mark.long
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
    assert run.stdout.split() == ["1", "01001"] and sorted(copy.rglob("*")) == before


def test_threads_keep_the_order_and_end_at_the_first_failure():
    assert kernels.in_threads(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    nested = kernels.in_threads(lambda x: kernels.in_threads(abs, [-x, x]), [1, 2])
    assert nested == [[1, 1], [2, 2]]
    with pytest.raises(ZeroDivisionError):
        kernels.in_threads(lambda x: 1 / x, [1, 0, 2])
    kernels.check_stopped()


CTRL_C = """
import signal, sys, threading, time, _thread
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
import numpy as np
from privglasso.recover.graphical_lasso import graphical_lasso
v = 0.9999 ** np.abs(np.subtract.outer(np.arange(700), np.arange(700)))
v += 0.01 * np.sin(np.add.outer(np.arange(700), np.arange(700)) ** 2)
graphical_lasso(np.eye(3) + 0.5, 0.1)
def press():
    global at
    at = time.process_time()  # other processes may keep the machine busy
    _thread.interrupt_main()
threading.Timer(1.0, press).start()
try:
    graphical_lasso(v + 0.1 * np.eye(700), 1e-5, tol=1e-14)
except KeyboardInterrupt:
    print(time.process_time() - at)
"""


def test_ctrl_c_is_heard_within_a_second():
    run = subprocess.run(
        [sys.executable, "-c", CTRL_C], capture_output=True, text=True, check=True
    )
    assert 0 <= float(run.stdout.split()[-1]) < 1.5


# ------------------------------------------------- every way of a kernel, to the bit


def wild(rng, rows, p):
    "Cells of every size, signs of zero, missing ones, and columns that are alike."
    values = rng.normal(size=(rows, p)) * 10.0 ** rng.integers(-3, 3, size=p)
    odd = [np.nan, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1e-290, 1e155, 1e200]
    places = rng.random(values.shape) < 0.05
    values[places] = rng.choice(odd, places.sum())
    values[rng.integers(0, rows, 5)] = np.nan
    values[rng.integers(0, rows, 5)] = 0.0
    return values


def of_columns(rng, p):
    return rng.normal(size=p), 10.0 ** rng.uniform(-3, 3, size=p)


def words_and_guide(rng, made, width):
    table, count = made.table, 3000
    words = rng.integers(0, 2**32, size=(count, width), dtype=np.uint32)
    words[: len(table.thresholds), 0] = (table.thresholds << np.uint32(1))[:count]
    words[0] = 0
    return words, (table.thresholds, table.guide, table.shift)


def fill(rng):
    made = sampler.TableSampler(rng.uniform(0.5, 200))
    words, guide = words_and_guide(rng, made, 1)
    return words[:, 0].copy(), *guide, np.zeros(3000, int), np.zeros(3001, int)


def fill_blocks(rng):
    made = sampler.BlockSampler(2.0 ** rng.uniform(10, 40))
    words, guide = words_and_guide(rng, made, made._words_per_draw)
    out = [np.zeros(3001, int) for _ in range(3)]
    return words, made.block_bits, made._scale, *guide, *out


def swap(rng):
    words = rng.integers(0, 2**32, 99, dtype=np.uint32)
    words[::9] = 0  # now and then refused
    return np.arange(2000), int(rng.integers(1000)), words


def spreads(rng):
    values = wild(rng, 301, 3)
    values[:40, 1] = rng.choice([1.7e308, -1.7e308], 40)
    return values, rng.permutation(301), 4, np.zeros((3, 2102), int)


def digits(rng):
    exponents = rng.choice([-1074, -1022, -40, -3, 0, 7, 900, 1023, 1025], 5)
    origins, shift = rng.integers(-(2**41), 2**41, 5), int(rng.choice([0, 12, 27]))
    values = np.ldexp(wild(rng, 300, 5), np.clip(exponents, -900, 900) + 20)
    return values, exponents, origins, shift, 6, np.zeros((5, 4096), int)


def near(rng):
    return wild(rng, 300, 4), *of_columns(rng, 4), np.zeros((4, 1), int)


def lattice(rng):
    p = int(rng.integers(1, 40))
    radius, normalised = rng.uniform(0.5, 9), bool(rng.integers(2))
    values = wild(rng, 400, p)
    return values, *of_columns(rng, p), radius, normalised, 1e5, np.empty((400, p))


def noisy(rng):
    noise = rng.integers(-99, 99, 500)
    return rng.normal(size=500) * 9, 8.0, -16.0, 40.0, noise, 0.125, np.empty(500)


def turned(rng):
    out = np.empty((300, 6))
    return wild(rng, 300, 6), *of_columns(rng, 6), rng.normal(size=(6, 6)), out


def cells(rng):
    counts = np.zeros((4, len(copula._EDGES) - 1), int)
    return wild(rng, 300, 4), *of_columns(rng, 4), copula._EDGES, counts


def placed(rng):
    "Cells, some of them missing and some on edges, and edges of columns of any kind."
    kinds = rng.choice(margins.MARGIN_KINDS, 4)
    edges = [margins.bin_edges(k, 2.0, 5.0) for k in kinds]
    search = margins._search(edges, rng.random(4) < 0.3)
    values = wild(rng, 300, 4)
    values[:9] = rng.choice(np.concatenate(edges), (9, 4))
    values[rng.random(values.shape) < 0.1] = np.nan
    places = np.empty(values.shape, np.uint8)
    return values, search, places, np.zeros(search[0].shape, int)


def scored(rng):
    places = rng.integers(0, 20, (300, 4)).astype(np.uint8)
    places[rng.random(places.shape) < 0.1] = 255
    jitter = rng.integers(0, 256, places.shape).astype(np.uint8)
    tables, scores = rng.normal(size=(4, 20, 256)), rng.normal(size=(300, 5))
    return places, tables, jitter, scores


def boxed(rng):
    values = np.nan_to_num(wild(rng, 300, 4), posinf=0, neginf=0)
    return values, *of_columns(rng, 4), 1e5, np.empty((300, 4))


def compared(rng):
    rows = rng.choice(wild(rng, 40, 1).ravel(), (300, 4))
    before = rng.integers(0, 99, (4, 4))
    return rows, int(rng.integers(1, 99)), before + before.T


KERNELS = {
    "box": (covariance._put_in_box, boxed),
    "fill": (sampler._fill, fill),
    "fill_blocks": (sampler._fill_blocks, fill_blocks),
    "swap": (sampler._swap, swap),
    "spreads": (units._count_spreads, spreads),
    "digits": (units._count_digits, digits),
    "near": (units._count_near, near),
    "lattice": (sphere._put_on_lattice, lattice),
    "noisy": (table._noisy_column, noisy),
    "turned": (whitening._turned, turned),
    "cells": (copula._count_cells, cells),
    "placed": (margins._place, placed),
    "scored": (margins._score, scored),
    "compared": (comparisons._count, compared),
}


@pytest.mark.parametrize("way", ["small", "interpreted"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_stand_in_gives_the_same_bits(name, way):
    kernel, make = KERNELS[name]
    for seed in range({"small": 30, "interpreted": 5}[way] if kernel.small else 5):
        with np.errstate(over="ignore"):
            given = make(np.random.default_rng(seed))
        one, two = (pickle.loads(pickle.dumps(given)) for _ in range(2))
        run = getattr(kernel, way) or kernel.interpreted
        told = run(*one), kernel.compiled(*two)
        assert told[0] == told[1]
        # how many were noted, in the last arguments
        noted = np.ravel([] if told[0] is None else told[0]).astype(int)
        ends = [None] * (len(given) - noted.size) + noted.tolist()
        for here, there, end in zip(one, two, ends, strict=True):
            if isinstance(here, np.ndarray):
                assert here[:end].tobytes() == there[:end].tobytes()


def test_every_stand_in_is_held_to_its_kernel():
    modules = (sampler, comparisons, copula, margins, sphere, table, units, whitening)
    found = [value for module in modules for value in vars(module).values()]
    found = [v for v in found if isinstance(v, kernels.Kernel) and v.small]
    source = Path(privglasso.__file__).parent
    marked = sum(p.read_text().count("@kernel(small=") for p in source.rglob("*.py"))
    assert {id(k) for k in found} <= {id(k) for k, _ in KERNELS.values()}
    assert marked == len(found)


def test_machine_code_is_bought_when_the_rent_has_reached_its_price(monkeypatch):
    taken = []
    made = kernels.Kernel(lambda x: taken.append("code"), lambda x: taken.append("few"))
    made._compiled = None
    monkeypatch.setattr(kernels, "_compile", lambda function, inline: function)
    monkeypatch.setattr(kernels, "_rented", 0)
    monkeypatch.setattr(kernels, "_PRICE", 5000)
    for _ in range(5):
        made(np.zeros(1000))
    assert taken == ["few"] * 2 + ["code"] * 3
    assert pickle.loads(pickle.dumps(units._count_near)) is units._count_near


def test_without_a_compiler_nothing_is_said_of_infinities(monkeypatch):
    "What runs where numba is missing, and not only what stands in for it."

    def doubled(x):
        return x * 2

    monkeypatch.setattr(kernels, "compiler", lambda: None)
    monkeypatch.setattr(kernels, "warn_interpreted", lambda: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernels.Kernel(doubled)(np.array([1e308])[0]) == np.inf
