"""Exactly the registered bytes, or a typed error that says what to do."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
import requests

from privglasso.base.settings import resource
from privglasso.base.validation import InputError
from privglasso.data_sets import dataset
from privglasso.data_sets.dataset import (
    DataError,
    Dataset,
    adjacency_of,
    data_cache,
    fetch_file,
    indicator_columns,
    load_if_here,
)

CONTENT = b"a,b\n1,2\n"


def entry(url, content=CONTENT):
    return {
        "file": "folder/toy.csv",
        "sha256": hashlib.sha256(content).hexdigest(),
        "url": url,
        "licence": "CC0",
    }


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_download_lands_in_the_cache_and_is_reused(
    cache, server, register, capsys, monkeypatch
):
    register(toy=entry(f"{server}/toy.csv"))
    path = fetch_file("toy")
    assert path == cache / "folder" / "toy.csv" and path.read_bytes() == CONTENT
    assert "CC0" in capsys.readouterr().out
    monkeypatch.setattr(
        dataset.pooch, "retrieve", None
    )  # a second download would fail
    assert fetch_file("toy") == path


@pytest.mark.parametrize(
    "page, content, complaint",
    [
        ("toy.csv", b"something else", "sha256|SHA256|hash"),
        ("absent.csv", CONTENT, "404"),
    ],
)
def test_failed_download_says_why_and_leaves_nothing(
    cache, server, register, page, content, complaint
):
    register(toy=entry(f"{server}/{page}", content))
    with pytest.raises(
        DataError, match=f"(?s){complaint}.*fetch {server}/{page} and put it at"
    ):
        fetch_file("toy")
    assert files_in(cache) == []


def test_no_network_says_what_to_fetch_and_where_to_put_it(
    cache, register, monkeypatch
):
    def refuse(*args, **kwargs):
        raise requests.ConnectionError("no route")

    register(toy=entry("https://example.org/toy.csv"))
    monkeypatch.setattr(dataset.pooch, "retrieve", refuse)
    with pytest.raises(DataError, match="fetch https://example.org/toy.csv .*toy.csv"):
        fetch_file("toy")


ORIGIN = 'n,long name,score\n0,"Ä, b",0.10957026481628418\n1,c,\n'
SELECTED = 'name,les\n"Ä, b",0.1095702648162841\nc,\n'


def selection(server, **changes):
    return (
        entry(None, SELECTED.encode())
        | {
            "origin": f"{server}/origin.csv",
            "how": "columns name, les",
            "columns": {"long name": "name", "score": "les"},
        }
        | changes
    )


def test_columns_are_selected_from_an_origin(cache, tmp_path, server, register):
    (tmp_path / "web" / "origin.csv").write_text(ORIGIN, encoding="utf-8")
    register(toy=selection(server))
    assert fetch_file("toy").read_text(encoding="utf-8") == SELECTED


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"sha256": "0" * 64}, "do not have the registered sha256"),
        ({"columns": {"long name": "name", "votes": "les"}}, r"no columns \['votes'\]"),
    ],
)
def test_an_origin_that_changed_leaves_nothing(
    cache, tmp_path, server, register, changes, complaint
):
    (tmp_path / "web" / "origin.csv").write_text(ORIGIN, encoding="utf-8")
    register(toy=selection(server, **changes))
    with pytest.raises(
        DataError, match=f"(?s){complaint}.*make it from {server}/origin.csv"
    ):
        fetch_file("toy")
    assert files_in(cache) == []


def test_local_folder_is_read_checked_and_never_filled(tmp_path, register, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    monkeypatch.setattr(dataset.pooch, "retrieve", None)
    register(toy=entry("https://example.org/toy.csv"))
    with pytest.raises(DataError, match="PRIVGLASSO_DATA is set, but there is no"):
        fetch_file("toy")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "toy.csv").write_bytes(CONTENT)
    assert fetch_file("toy") == data_cache() / "folder" / "toy.csv"
    (tmp_path / "folder" / "toy.csv").write_bytes(CONTENT + b"3,4\n")
    with pytest.raises(DataError, match="not the registered file"):
        fetch_file("toy")
    assert (tmp_path / "folder" / "toy.csv").read_bytes().endswith(b"3,4\n")


def test_a_folder_in_the_files_place(tmp_path, register, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    register(toy=entry("https://example.org/toy.csv"))
    (tmp_path / "folder" / "toy.csv").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot be read"):
        fetch_file("toy")


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("sacks", "choose one of .*sachs"),
        ("movielens_1m", "may not be redistributed.*grouplens"),
        ("soil_ge100", "make it from .*biom"),
    ],
)
def test_what_cannot_be_downloaded(cache, name, complaint):
    with pytest.raises(DataError, match=complaint):
        fetch_file(name)


def test_registry_is_complete():
    known = json.loads(resource("data/registry.json").read_text(encoding="utf-8"))
    for name, facts in known.items():
        assert {"file", "sha256", "url", "licence", "n", "p", "truth", "notes"} <= set(
            facts
        ), name
        assert facts["url"] is None or facts["url"].startswith("https://"), name
        assert facts["url"] or facts.get("how"), name
        assert facts["sha256"] is None or len(facts["sha256"]) == 64, name


@pytest.mark.parametrize("pair", [("a", "nobody"), ("a", "a")])
def test_an_edge_joins_two_columns(pair):
    with pytest.raises(DataError, match="does not join"):
        adjacency_of([pair], ["a", "b"])


def test_what_is_not_here_is_none_and_a_bug_is_not_hidden(capsys):
    assert load_if_here(fetch_file, "sacks") is None
    assert capsys.readouterr().out.startswith("skipped: ")
    with pytest.raises(ZeroDivisionError):
        load_if_here(lambda: 1 / 0)


def test_a_word_nobody_asked_for_is_no_and_a_gap_stays():
    homes = pd.DataFrame({"home": ["RENT", "OWN", None]}, index=[5, 3, 1])
    asked = indicator_columns(homes, {"home": ("RENT", "BOAT")})
    assert asked.columns.tolist() == ["home=RENT", "home=BOAT"]
    assert asked.index.tolist() == [5, 3, 1]
    wanted = [[1, 0], [0, 0], [np.nan, np.nan]]
    np.testing.assert_array_equal(asked, wanted)
    with pytest.raises(InputError, match="name columns of the table"):
        indicator_columns(homes, {"house": ("RENT",)})


def make(**changes):
    "A small data set with some parts exchanged."
    parts = dict(
        name="t",
        table=pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
        truth=None,
        kind="continuous",
        bounds=None,
        bounds_reason="",
        description="",
        source=(),
        licence="",
        citation="",
    )
    return Dataset(**(parts | changes))


def test_a_dataset_prints_what_it_is():
    assert repr(make()) == "Dataset t: 2 rows, 2 columns, continuous, no true graph"
    joined = np.array([[False, True], [True, False]])
    assert repr(make(truth=joined)).endswith("1 true edges")
    assert make(licence="CC0").about().endswith("licence: CC0")


@pytest.mark.parametrize(
    "argument, value",
    [
        ("kind", "text"),
        ("truth", np.zeros((3, 3), dtype=bool)),
        ("truth", np.zeros((2, 2), dtype=int)),
        ("truth", np.array([[False, True], [False, False]])),
        ("truth", np.ones((2, 2), dtype=bool)),
        ("bounds", (np.zeros(2), np.zeros(2))),
        ("bounds", (np.zeros(3), np.ones(3))),
        ("bounds", (np.zeros(2), np.array([1, np.nan]))),
    ],
)
def test_parts_that_do_not_fit_are_refused(argument, value):
    with pytest.raises(InputError) as caught:
        make(**{argument: value})
    assert caught.value.argument == argument
