"""The analyst's desk: the same answers in Python, at the shell and from the file."""

import json
import tracemalloc
from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from privglasso.base.words import WordsError
from privglasso.cli.commands import app
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.desk.reading import Inspection, Recovery, compared, fitted
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.desk.report import Report
from privglasso.publish.local import LocalMechanism
from privglasso.publish.release import column_table
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import GaussianMechanism
from privglasso.publish.tree import TreeMechanism
from privglasso.publish.whitening import WhitenedCovarianceMechanism
from privglasso.recover.metrics import compare

ROWS = pd.DataFrame(
    sample_gaussian(chain_precision(5, 0.4, scales=np.ones(5)), 20_000, random_state=0),
    columns=list("abcde"),
)
CHAIN = nx.path_graph(list("abcde"))


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    "Files by the kind of their release."
    folder = tmp_path_factory.mktemp("releases")
    made = {
        "covariance": CovarianceMechanism(mu=0.5),
        "weights": GraphWeightsMechanism(CHAIN, mu=0.5),
        "tree": TreeMechanism(mu=0.5, failure=1e-9),
    }
    files = {name: folder / f"{name}.parquet" for name in made}
    for name, mechanism in made.items():
        mechanism.publish(ROWS, random_state=1).to_parquet(files[name])
    return files


def at_the_shell(*words):
    "What a command says to machines."
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["covariance", "weights", "tree"])
def test_an_inspection_is_what_the_shell_prints(name, releases):
    told = Inspection(releases[name]).as_dict()
    assert json.loads(json.dumps(told, default=float)) == at_the_shell(
        "inspect", releases[name]
    )


@pytest.mark.parametrize(
    "name, words",
    [
        *product(("covariance", "weights"), ({}, {"level": 0.01})),
        ("covariance", {"rule": "fdr"}),
    ],
)
def test_a_recovery_is_what_the_shell_prints(name, words, releases):
    told = Recovery(releases[name], **words)
    typed = [part for key, value in words.items() for part in (f"--{key}", value)]
    assert json.loads(json.dumps(told.as_dict(), default=float)) == at_the_shell(
        "recover", releases[name], *typed
    )
    again = Recovery(read_release(releases[name]), **words)
    assert again.as_dict() == told.as_dict() and f"{again}" == f"{told}"
    found = set(told.edges[["source", "target"]].itertuples(index=False, name=None))
    assert {tuple(sorted(edge)) for edge in found} == set(CHAIN.edges)


@pytest.mark.parametrize(
    "name, words, told",
    [
        ("covariance", {"alpha": 0.1, "level": 0.05}, "alpha or level, not both"),
        ("covariance", {"rule": "lasso"}, "search, fdr, ebic, simultaneous, cv"),
        ("covariance", {"alpha": -1.0}, "greater than 0"),
        ("covariance", {"rule": "cv"}, 'use rule="ebic"'),
        ("covariance", {"rule": "fdr", "alpha": 0.1}, "rule or alpha, not both"),
        ("covariance", {"rule": "fdr", "level": 0.05}, "rule or level, not both"),
        ("weights", {"alpha": 0.1}, "needs no penalty"),
        ("weights", {"rule": "fdr"}, "needs no rule"),
    ],
)
def test_words_that_do_not_suit_are_refused(name, words, told, releases):
    with pytest.raises(ValueError, match=told):
        Recovery(releases[name], **words)


def test_a_graph_is_not_recovered_again(releases):
    for given, named in (
        (releases["tree"], "tree.parquet"),
        (read_release(releases["tree"]), "the release"),
    ):
        for ask in (Recovery, fitted):
            with pytest.raises(WordsError, match=f"{named}: is a graph itself"):
                ask(given)


def test_lost_columns_are_named(tmp_path):
    rows = ROWS.assign(flat=0.0)
    release = CovarianceMechanism((-6, 6), mu=0.5, clipping="box").publish(rows, 1)
    found = Recovery(release)
    assert list(found.left_out) == ["flat"] and found.columns == list("abcde")


@pytest.mark.parametrize("name", ["weights", "tree"])
def test_the_shell_compares_whatever_python_compares(name, releases):
    pair = releases["covariance"], releases[name]
    want = compare(*map(read_release, pair)).to_dict("records")
    assert at_the_shell("compare", *pair) == want and len(want) >= 4
    words = ["compare", *map(str, (pair[1], pair[1])), "--alpha", "0.1"]
    assert "--alpha: these are graphs" in CliRunner().invoke(app, words).output


def test_what_one_side_has_lost_is_compared_on_neither(tmp_path):
    rows, files = ROWS.assign(f=ROWS.a[::-1].to_numpy()), []
    box = CovarianceMechanism((-6, 6), mu=0.5, clipping="box")
    for k, (made, table) in enumerate(
        [
            (box, rows.assign(f=0.0)),
            (CovarianceMechanism(mu=0.5), rows),
            (GraphWeightsMechanism(nx.path_graph(list("abcdef")), mu=0.5), rows),
        ]
    ):
        files.append(tmp_path / f"{k}.parquet")
        made.publish(table, 1).to_parquet(files[-1])
    lost, *others = files
    for pair in ((lost, others[0]), (others[1], lost)):
        table, left_out = compared(*pair)
        assert list(left_out) == ["f"] and len(table) >= 4
        assert not (table[["source", "target"]] == "f").any(axis=None)
    printed = CliRunner().invoke(app, ["compare", *map(str, pair)])
    assert printed.exit_code == 0 and "left out: f (" in printed.stderr


def test_where_rows_are_as_they_are_the_verdict_is_told_with_its_assumption():
    "Tails of four degrees of freedom: errors half as large as they should be."
    rng, far = np.random.default_rng(0), np.triu_indices(10, 1)
    rows = rng.normal(size=(4000, 10))
    made = GaussianMechanism((-40, 40), sigma=0.5, neighbors="cell")
    spreads = []
    for tails in (1.0, np.sqrt(rng.chisquare(4, size=(4000, 1)) / 4)):
        release = made.publish(rows / tails, 1)
        S, error = release.corrected_covariance(), release.sampling_error()
        r = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
        spreads.append((r[far] / np.sqrt(error.correlation_variance(S)[far])).std())
    assert spreads[0] < 1.2 and spreads[1] > 1.4, spreads
    told = Recovery(release, "fdr")
    assert len(told.edges) and told.how["validity"] == "valid"  # none is true
    said = told.headline, Recovery(release, level=0.05).headline, f"{Report(release)}"
    assert all("for jointly normal rows" in each for each in said)
    assert "normal rows" in told.as_dict()["caution"]


def test_every_release_of_moments_of_rows_says_what_its_errors_assume():
    kinds = {
        LocalMechanism(6.0, mu=50): "for jointly normal rows",
        CovarianceMechanism((-6, 6), mu=2, clipping="box"): "for jointly normal rows",
        SyntheticDataMechanism((-6, 6), mu=2, clipping="box"): "for jointly normal",
        WhitenedCovarianceMechanism(mu=2): "for elliptical rows",
        SyntheticDataMechanism(mu=2): "",
        CovarianceMechanism(mu=2): "",
    }
    releases = {made.publish(ROWS[:4000], 1): words for made, words in kinds.items()}
    for release, words in releases.items():
        told = release.caution
        assert told.startswith(words) and bool(told) == bool(words)
    local, *_ = releases
    assert local.caution in Recovery(local, level=0.05).headline


def test_what_is_there_is_kept(releases, tmp_path):
    found = Recovery(releases["covariance"])
    for write, name in ((found.write, "edges.csv"), (found.draw, "graph.svg")):
        path = tmp_path / name
        path.write_text("mine")
        with pytest.raises(ValueError, match=name):
            write(path)
        assert path.read_text() == "mine"
        write(path, replace=True)
        assert path.read_bytes() != b"mine"
        with pytest.raises(ValueError, match="give one of"):
            write(tmp_path / "graph.docx")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["edges.csv", "graph.svg"]


@pytest.mark.long
def test_a_wide_graph_needs_two_matrices_beyond_the_release():
    """Those are the covariance and the correlations, as long as the solver works; then
    the precision takes the correlations' place, and nothing else is whole."""
    X = np.random.default_rng(0).normal(size=(600, 1200))
    X[:, 1::2] = 0.8 * X[:, ::2] + 0.6 * X[:, 1::2]
    mechanism = CovarianceMechanism((-4, 4), clipping="box", mu=1e4)
    release, size = mechanism.publish(X, 0), 8 * 1200**2
    assert len(fitted(release, alpha=0.5).edges_) > 500  # kernels are there
    tracemalloc.start()
    try:
        edges = fitted(release, alpha=0.5).edges_
        recovered = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        column_table(release)
        inspected = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 500 < len(edges) < 700 and "not at this n" in edges.attrs["validity"]
    assert recovered < 2.7 * size and inspected < 1.5 * size, (recovered, inspected)
