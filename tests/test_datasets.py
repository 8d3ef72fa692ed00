"""Data sets: exactly the registered bytes or a typed error that says what to do."""

import dataclasses
import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
import requests

from privglasso import datasets
from privglasso.datasets import (
    GRID11_LINES,
    SACHS_17,
    DataError,
    data_cache,
    load_grid11,
    load_sachs,
    log10_scale,
    simulate_grid11,
    write_grid11,
)
from privglasso.settings import resource
from privglasso.synthetic import Dataset, example_table
from privglasso.validation import InputError

CONTENT = b"a,b\n1,2\n"
NAMES = ["praf", "pmek", "plcg", "PIP2", "PIP3", "p44/42", "pakts473", "PKA", "PKC", "P38", "pjnk"]


def entry(url, content=CONTENT):
    return {"file": "folder/toy.csv", "sha256": hashlib.sha256(content).hexdigest(), "url": url, "licence": "CC0"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    "An empty cache folder that downloads go to."
    monkeypatch.delenv("PRIVGLASSO_DATA", raising=False)
    monkeypatch.setattr(datasets.pooch, "os_cache", lambda name: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path):
    "A web server on this machine with one file; its address."
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "toy.csv").write_bytes(CONTENT)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "web")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


@pytest.fixture
def register(monkeypatch):
    return lambda **entries: monkeypatch.setattr(datasets, "_registry", lambda: entries)


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


# ---------------------------------------------------------------------- fetching


def test_download_lands_in_the_cache_and_is_reused(cache, server, register, capsys, monkeypatch):
    register(toy=entry(f"{server}/toy.csv"))
    path = datasets._fetch("toy")
    assert path == cache / "folder" / "toy.csv" and path.read_bytes() == CONTENT
    assert "CC0" in capsys.readouterr().out
    monkeypatch.setattr(datasets.pooch, "retrieve", None)  # a second download would fail
    assert datasets._fetch("toy") == path


@pytest.mark.parametrize("page, content, complaint", [
    ("toy.csv", b"something else", "sha256|SHA256|hash"),
    ("absent.csv", CONTENT, "404"),
])
def test_failed_download_says_why_and_leaves_nothing(cache, server, register, page, content, complaint):
    register(toy=entry(f"{server}/{page}", content))
    with pytest.raises(DataError, match=f"(?s){complaint}.*fetch {server}/{page} and put it at"):
        datasets._fetch("toy")
    assert files_in(cache) == []


@pytest.mark.parametrize("failure", [requests.ConnectionError("no route"), requests.Timeout("slow"),
                                     PermissionError("read-only")])
def test_no_network_or_no_disk(cache, register, monkeypatch, failure):
    def refuse(*args, **kwargs):
        raise failure

    register(toy=entry("https://example.org/toy.csv"))
    monkeypatch.setattr(datasets.pooch, "retrieve", refuse)
    with pytest.raises(DataError, match=r"fetch https://example.org/toy.csv and put it at .*toy.csv"):
        datasets._fetch("toy")


def test_local_folder_is_read_checked_and_never_filled(tmp_path, register, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    monkeypatch.setattr(datasets.pooch, "retrieve", None)
    register(toy=entry("https://example.org/toy.csv"))
    with pytest.raises(DataError, match="PRIVGLASSO_DATA is set, but there is no"):
        datasets._fetch("toy")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "toy.csv").write_bytes(CONTENT)
    assert datasets._fetch("toy") == data_cache() / "folder" / "toy.csv"
    (tmp_path / "folder" / "toy.csv").write_bytes(CONTENT + b"3,4\n")
    with pytest.raises(DataError, match="not the registered file"):
        datasets._fetch("toy")
    assert (tmp_path / "folder" / "toy.csv").read_bytes().endswith(b"3,4\n")


def test_a_folder_in_the_files_place(tmp_path, register, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    register(toy=entry("https://example.org/toy.csv"))
    (tmp_path / "folder" / "toy.csv").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot be read"):
        datasets._fetch("toy")


@pytest.mark.parametrize("name, complaint", [
    ("sacks", "choose one of .*sachs"),
    ("movielens_1m", "may not be redistributed.*grouplens"),
    ("soil_ge100", "make it from .*biom"),
])
def test_what_cannot_be_downloaded(cache, name, complaint):
    with pytest.raises(DataError, match=complaint):
        datasets._fetch(name)


def test_registry_is_complete():
    registry = json.loads(resource("data/registry.json").read_text(encoding="utf-8"))
    for name, facts in registry.items():
        assert {"file", "sha256", "url", "licence", "n", "p", "truth", "notes"} <= set(facts), name
        assert facts["url"] is None or facts["url"].startswith("https://"), name
        assert facts["url"] or facts.get("how"), name
        assert facts["sha256"] is None or len(facts["sha256"]) == 64, name


# ---------------------------------------------------------------------- cell signalling


def test_consensus_list():
    graph = datasets._adjacency_of(SACHS_17, NAMES)
    assert graph.sum() == 2 * 17 and np.array_equal(graph, graph.T)
    with pytest.raises(DataError, match="'praf' - 'nobody'"):
        datasets._adjacency_of([("praf", "nobody")], NAMES)
    with pytest.raises(DataError, match="'praf' - 'praf'"):
        datasets._adjacency_of([("praf", "praf")], NAMES)


@pytest.mark.parametrize("truth", ["19", 17, None, ""])
def test_unknown_truth_is_refused_before_anything_is_fetched(truth, monkeypatch):
    monkeypatch.setattr(datasets, "_fetch", None)
    with pytest.raises(InputError, match="truth="):
        load_sachs(truth)


def test_sachs_when_it_is_there():
    files = [datasets._registered(name)["file"] for name in ("sachs", "sachs_truth_18")]
    missing = [file for file in files if not (data_cache() / file).exists()]
    if missing:
        pytest.skip(f"not downloaded yet: {missing}; privglasso.datasets.load_sachs() does")
    data, consensus = load_sachs("18"), load_sachs("17")
    assert list(data.table.columns) == NAMES and data.table.shape == (7466, 11)
    assert data.truth.sum() == 2 * 18 and consensus.truth.sum() == 2 * 17
    assert (data.truth & consensus.truth).sum() == 2 * 15
    assert data.table.min(axis=None) >= data.bounds[0].max() and data.table.max(axis=None) <= data.bounds[1].min()


def test_logarithms_move_the_bounds_along():
    columns = np.array([1.0, 10.0])
    data = Dataset(name="t", table=pd.DataFrame([[1.0, 100.0], [10.0, 1000.0]]), truth=None, kind="integer",
                   bounds=(columns, 1000 * columns), bounds_reason="scale", description="", source=(), licence="",
                   citation="")
    logs = log10_scale(data)
    assert logs.table.to_numpy().tolist() == [[0, 2], [1, 3]] and logs.kind == "continuous"
    assert np.array_equal(logs.bounds, [[0, 1], [3, 4]])
    with pytest.raises(InputError, match="greater than 0"):
        log10_scale(dataclasses.replace(data, bounds=None))
    with pytest.raises(InputError, match="every value"):
        log10_scale(dataclasses.replace(data, table=-data.table))
    with pytest.raises(InputError, match="greater than 0"):
        log10_scale(example_table(3, random_state=0))


# ---------------------------------------------------------------------- the grid


def test_grid_is_the_registered_one():
    grid = load_grid11()
    assert grid.table.shape == (20_000, 11)
    assert grid.truth.sum() == 2 * len(GRID11_LINES) == 20
    assert all(grid.truth[one - 1, other - 1] for one, other in GRID11_LINES)
    low, high = grid.bounds
    assert ((low < grid.table) & (grid.table < high)).all(axis=None)


def test_first_snapshots_are_made_again():
    pytest.importorskip("pandapower", reason="the grid is simulated by the optional pandapower")
    stored = np.rint(load_grid11().table.to_numpy()[:15] * 1e6)
    assert np.abs(simulate_grid11(15) - stored).max() <= 1


def test_without_pandapower_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandapower", None)
    with pytest.raises(DataError, match=r"privglasso\[grid\]"):
        simulate_grid11(2)


@pytest.mark.parametrize("n", [0, 1.5, "ten"])
def test_bad_number_of_snapshots(n):
    with pytest.raises(InputError, match="n="):
        simulate_grid11(n)


def test_failed_simulation_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "simulate_grid11", lambda: np.zeros(3, dtype=np.int32))
    monkeypatch.setattr(datasets.np, "savez_compressed", lambda file, voltage: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_grid11(tmp_path / "grid.npz")
    assert files_in(tmp_path) == []


def truncated(path):
    path.write_bytes(path.read_bytes()[:-1000])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def emptied(path):
    path.write_bytes(b"")


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


@pytest.mark.parametrize("damage", [truncated, flipped, emptied, removed, other_array, one_value_changed, wrong_type,
                                    pickled, bare_array])
def test_damage_to_the_stored_grid_is_noticed(tmp_path, damage):
    path = tmp_path / "grid11.npz"
    path.write_bytes(resource("data/grid11.npz").read_bytes())
    datasets._read_grid11(path)
    damage(path)
    with pytest.raises(DataError, match="write_grid11"):
        datasets._read_grid11(path)
