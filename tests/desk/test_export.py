"""What a release gives to other programs: matrices with names, the promise, a script
for R; a folder that is whole or not there."""

import json
import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privglasso as pg
from privglasso.base.graphs import partial_correlations
from privglasso.base.validation import InputError
from privglasso.cli.commands import app
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.desk import export as module
from privglasso.desk.export import export, exported
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.recover.efficient_search import HiddenGraphError
from privglasso.recover.estimators import PrivateGraphicalLasso

NAMES = ['a "quoted", name', "größe", "NA", "long " * 40, "=1+1", "</script>"]
TARGET = {"epsilon": 1.0, "delta": 1e-9}
ROWS = pd.DataFrame(
    sample_gaussian(chain_precision(6, 0.3), 20_000, random_state=0), columns=NAMES
)
RELEASE = pg.CovarianceMechanism(**TARGET).publish(ROWS, random_state=1)
NUMBERS = {
    "correlations",
    "correlation_errors",
    "partial_correlations",
    "partial_correlation_errors",
}


def matrix(path):
    "A matrix as R reads it: an empty cell is unknown, and nothing else is."
    return pd.read_csv(
        path,
        index_col=0,
        keep_default_na=False,
        na_values=[""],
        float_precision="round_trip",
    )


def path_graph():
    graph = nx.Graph()
    graph.add_nodes_from(NAMES)
    nx.add_path(graph, NAMES)
    return graph


def test_what_is_read_is_what_the_release_says(tmp_path):
    files = {path.stem: path for path in export(RELEASE, tmp_path / "folder")}
    assert set(files) == NUMBERS | {"promise", "edges", "release", "read"}
    model = PrivateGraphicalLasso().fit(RELEASE)
    for name in NUMBERS:
        frame = matrix(files[name])
        assert list(frame.index) == list(frame.columns) == NAMES
        assert (frame.to_numpy() == frame.to_numpy().T).all()
    read = matrix(files["partial_correlations"])
    assert (read.to_numpy() == partial_correlations(model.precision_)).all()
    scale = RELEASE.covariance_frame()
    size = np.sqrt(np.diag(scale))
    read = matrix(files["correlations"])
    assert np.allclose(read, scale / np.outer(size, size), rtol=1e-14, atol=0)
    errors = matrix(files["partial_correlation_errors"])
    known = model.pair_intervals()
    for row in known.itertuples():
        assert errors.loc[row.source, row.target] == row.standard_error


def test_json_and_the_promise_say_the_same(tmp_path):
    export(RELEASE, tmp_path / "folder")
    told = json.loads((tmp_path / "folder/release.json").read_text(encoding="utf-8"))
    assert told["columns"] == NAMES and set(told["matrices"]) == NUMBERS
    assert len(told["edges"]) == 5 and len(told["cannot_say"]) > 1
    listed = pd.read_csv(tmp_path / "folder/promise.csv", index_col=0).value
    assert set(listed.index) == set(told["promise"])
    assert float(listed["mu"]) == told["promise"]["mu"] == RELEASE.guarantee.mu
    assert abs(told["promise"]["epsilon"] - 1) < 1e-6 and listed["secure"] == "False"
    assert (
        5000 < told["promise"]["records_worth"] < told["promise"]["records"] == 20_000
    )


def balanced(script):
    "Whether brackets and quotes of a script close, comments aside."
    code = re.sub(r'"[^"\n]*"', "x", re.sub(r"(?m)#.*$", "", script))
    return '"' not in code and all(
        code.count(a) == code.count(b) for a, b in ("()", "{}", "[]")
    )


def test_the_script_reads_the_files_that_there_are():
    weights = GraphWeightsMechanism(path_graph(), **TARGET).publish(ROWS, 1)
    tree = pg.TreeMechanism(**TARGET).publish(ROWS, 1)
    for release, many in ((RELEASE, 4), (weights, 3), (tree, 1)):
        files = exported(release)
        script = files["read.R"].decode()
        named = re.findall(r'^(\w+) <- read\("(\w+)"\)$', script, re.MULTILINE)
        assert len(named) == many and all(a == b for a, b in named)
        found = {f"{name}.csv" for _, name in named} | {"promise.csv", "edges.csv"}
        assert found | {"release.json", "read.R"} == set(files)
        assert balanced(script) and not balanced(script.replace(")", "", 1))
        assert len(re.findall(r"(?m)^\w", script)) <= 10
        worth = json.loads(files["release.json"])["promise"]["records_worth"]
        assert (f"n = {worth})" in script) == (release is RELEASE)


def test_a_graph_that_is_exact_has_its_adjacency(tmp_path):
    release = pg.TreeMechanism(**TARGET).publish(ROWS, 1)
    export(release, tmp_path / "folder")
    read = matrix(tmp_path / "folder/adjacency.csv")
    assert (read.to_numpy() == release.adjacency).all() and list(read) == NAMES
    edges = pd.read_csv(tmp_path / "folder/edges.csv", keep_default_na=False)
    assert list(edges) == ["source", "target", "sign"] and "NA" in set(edges.target)


def test_a_graph_that_noise_hides_leaves_the_correlations(monkeypatch):
    def hidden(self, X):
        raise HiddenGraphError(2.0)

    monkeypatch.setattr(PrivateGraphicalLasso, "fit", hidden)
    told = json.loads(exported(RELEASE)["release.json"])
    assert set(told["matrices"]) == {"correlations", "correlation_errors"}
    assert told["edges"] is None and "as much as itself" in told["cannot_say"][0]


def test_what_cannot_be_exported_leaves_nothing(tmp_path, monkeypatch):
    undecided = pg.TreeMechanism(**TARGET).publish(ROWS[:100], 1)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    for release, folder, told in (
        (undecided, tmp_path / "new", "the graph is undecided"),
        (RELEASE, taken, "it is kept"),
        (RELEASE, taken / "mine.txt", "it is kept"),
        (RELEASE, tmp_path / "none" / "new", "there is no folder"),
    ):
        with pytest.raises(InputError, match=told):
            export(release, folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["taken", "mine.txt"]
    monkeypatch.setattr(module.os, "replace", lambda *paths: 1 / 0)  # just before it
    with pytest.raises(ZeroDivisionError):
        export(RELEASE, tmp_path / "new")
    assert [path.name for path in tmp_path.rglob("*")] == ["taken", "mine.txt"]


def test_an_empty_folder_is_filled(tmp_path):
    assert all(path.is_file() for path in export(RELEASE, tmp_path))


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


def test_the_shell_exports(tmp_path):
    RELEASE.to_parquet(tmp_path / "open.parquet")
    words = "export", tmp_path / "open.parquet", tmp_path / "folder"
    code, output = call(*words)
    assert code == 0 and output.startswith("folder: correlations.csv, ")
    before = (tmp_path / "folder/release.json").read_bytes()
    code, output = call(*words)
    assert code == 2 and output.startswith("privglasso: folder folder: there is")
    assert before == exported(RELEASE)["release.json"]
    code, output = call(*words[:2], tmp_path / "other", "--alpha", 0.2, "--json")
    told = json.loads(output[output.index("{") :])  # behind a bar, where that is slow
    assert code == 0 and "read.R" in told["files"]
