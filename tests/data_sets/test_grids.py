"""Power grids: the stored voltages are the simulated ones, and damage is noticed."""

import sys

import numpy as np
import pytest

from privglasso.base.settings import resource
from privglasso.base.validation import InputError
from privglasso.data_sets import grids
from privglasso.data_sets.dataset import DataError
from privglasso.data_sets.grids import (
    GRID11_LINES,
    GRID115_LINES,
    load_grid11,
    load_grid115,
    simulate_grid11,
    simulate_grid115,
    write_grid11,
    write_grid115,
)


@pytest.mark.parametrize(
    "load, lines, shape",
    [
        (load_grid11, GRID11_LINES, (20_000, 11)),
        (load_grid115, GRID115_LINES, (5_000, 115)),
    ],
)
def test_grid_is_the_registered_one(load, lines, shape):
    grid = load()
    assert grid.table.shape == shape
    assert grid.truth.sum() == 2 * len(lines) == 2 * (shape[1] - 1)
    assert all(grid.truth[one - 1, other - 1] for one, other in lines)
    low, high = grid.bounds
    assert ((low < grid.table) & (grid.table < high)).all(axis=None)


def test_village_is_built_alike_every_time():
    pandapower = pytest.importorskip(
        "pandapower", reason="the grids are simulated by the optional pandapower"
    )
    one, other = (grids._grid115_network(pandapower).line for _ in range(2))
    assert one.equals(other) and one["std_type"].value_counts().to_dict() == {
        "NAYY 4x150": 57,
        "NAYY 4x50": 57,
    }
    assert set(zip(one["from_bus"], one["to_bus"], strict=True)) == set(GRID115_LINES)


@pytest.mark.parametrize("simulate", [simulate_grid11, simulate_grid115])
def test_without_pandapower_the_error_names_the_extra(monkeypatch, simulate):
    monkeypatch.setitem(sys.modules, "pandapower", None)
    with pytest.raises(DataError, match=r"privglasso\[grid\]"):
        simulate(2)


@pytest.mark.parametrize("simulate", [simulate_grid11, simulate_grid115])
@pytest.mark.parametrize("n", [0, 1.5])
def test_bad_number_of_snapshots(simulate, n):
    with pytest.raises(InputError, match="n="):
        simulate(n)


@pytest.mark.parametrize(
    "name, write", [("grid11", write_grid11), ("grid115", write_grid115)]
)
def test_failed_simulation_leaves_no_file(tmp_path, monkeypatch, name, write):
    monkeypatch.setattr(grids, f"simulate_{name}", lambda: np.zeros(3, dtype=np.int32))
    monkeypatch.setattr(
        grids.np,
        "savez_compressed",
        lambda file, voltage: file.write(b"half") and 1 / 0,
    )
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "grid.npz")
    assert list(tmp_path.iterdir()) == []


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1000])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def removed(path):
    path.unlink()


def other_array(path):
    np.savez_compressed(path, current=np.zeros(3))


def one_value_changed(path):
    voltages = np.load(path)["voltage"]
    voltages[0, 0] += 1
    np.savez_compressed(path, voltage=voltages)


def wrong_type(path):
    np.savez_compressed(path, voltage=np.load(path)["voltage"].astype(np.int64))


def pickled(path):
    np.savez_compressed(path, voltage=np.array([{}], dtype=object))


def bare_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        flipped,
        removed,
        other_array,
        one_value_changed,
        wrong_type,
        pickled,
        bare_array,
    ],
)
def test_damage_to_the_stored_grid_is_noticed(tmp_path, damage):
    path = tmp_path / "grid11.npz"
    path.write_bytes(resource("data/grid11.npz").read_bytes())
    grids._read_grid("grid11", path)
    damage(path)
    with pytest.raises(DataError, match="write_grid11"):
        grids._read_grid("grid11", path)
