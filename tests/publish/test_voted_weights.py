"""One release after votes: weights of their graph, or of screened pairs."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from privglasso.base.validation import InputError
from privglasso.desk.report import Report
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import GraphWeightsMechanism, GraphWeightsRelease
from privglasso.publish.parquet import METADATA_KEY, ReleaseError, sealed
from privglasso.publish.release import check_budget
from privglasso.publish.screened_weights import ScreenedGraphRelease
from privglasso.publish.votes import (
    VotedGraphMechanism,
    VotedGraphRelease,
    VotedWeightsMechanism,
)

NAMES, N = list("abcde"), 6000
PROMISE = {"epsilon": 3.0, "delta": 1e-6}


def chain(n=N, seed=0):
    "Five columns, each related to the next."
    rows = np.random.default_rng(seed).standard_normal((n, 5))
    for j in range(1, 5):
        rows[:, j] += 1.5 * rows[:, j - 1]
        rows[:, j] /= 1.5**0.5
    return pd.DataFrame(rows, columns=NAMES)


def by_inverse(block):
    "Pairs of partial correlations above 0.3."
    inverse = np.linalg.inv(np.cov(block.T))
    return np.abs(inverse / np.sqrt(np.outer(*2 * [np.diag(inverse)]))) > 0.3


def tossed(block):
    "Half of the blocks say so, whatever the columns are."
    return np.full((block.shape[1],) * 2, block[0, 0] > 0)


def made(voter=by_inverse, **words):
    "A mechanism of sixty blocks."
    return VotedWeightsMechanism(voter, blocks=60, **PROMISE | words)


def told(adjacency, mechanism=None):
    "What votes tell if they tell this graph."
    lattice = (mechanism or made()).certificate(N, 5)
    settings = lattice.guarantee("record"), True, "VotedWeightsMechanism"
    return VotedGraphRelease(adjacency, NAMES, lattice, *settings)


def stored(path, change):
    "The file once more, with its metadata changed, and sealed again."
    old = pq.read_table(path)
    metadata = json.loads(old.schema.metadata[METADATA_KEY])
    change(metadata)
    seal = sealed(metadata, old.to_pandas())
    pq.write_table(old.replace_schema_metadata(seal), path)


@pytest.mark.parametrize("voter", [by_inverse, tossed])
def test_either_way_there_is_one_file_at_one_price(voter, tmp_path):
    mechanism, path = made(voter), tmp_path / "open.parquet"
    kind = GraphWeightsRelease if voter is by_inverse else ScreenedGraphRelease
    release = mechanism.publish(chain(), random_state=1)
    assert type(release) is kind and release.mechanism == "VotedWeightsMechanism"
    assert release.guarantee == mechanism.guarantee(N, 5)
    assert release.votes == mechanism.certificate(N, 5)
    release.to_parquet(path)
    back = read_release(path)
    assert type(back) is kind and back.guarantee == release.guarantee
    assert back.votes == release.votes and str(back) == str(release)
    assert back.edges.equals(release.edges) and path.stat().st_size < 12_000
    ends = back.edges[["source", "target"]].to_numpy().tolist()
    if kind is GraphWeightsRelease:
        assert ends == [[*"ab"], [*"bc"], [*"cd"], [*"de"]]
        assert back.usual_level is None and "of the graph by votes" in str(back)
    else:
        assert back.usual_level == 0.05 and "as votes were undecided" in str(back)
        assert [*"ab"] in ends


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("total", [PROMISE, {"epsilon": 0.8, "delta": 1e-4}])
def test_the_whole_budget_is_spent_and_no_more(share, total):
    mechanism = VotedWeightsMechanism(by_inverse, share=share, **total)
    promise, delta = mechanism.guarantee(60_000, 5), total["delta"]
    assert total["epsilon"] * (1 - 1e-6) < promise.epsilon(delta) <= total["epsilon"]
    assert promise.pure == share * total["epsilon"]
    assert 0 < promise.mu < check_budget(**total)["mu"]
    of_mu = VotedWeightsMechanism(by_inverse, share=share, mu=1.0, failure=1e-6)
    found = of_mu.guarantee(60_000, 5)
    assert 1 - 1e-9 < found.mu <= 1 and found.failure == 1e-6 and not found.exclusive
    votes = of_mu.certificate(60_000, 5)
    assert votes.test.mu**2 == pytest.approx(share) and share + votes.rest**2 <= 1


def test_each_way_costs_what_votes_have_left():
    mechanism, n = made(), N
    rest = mechanism.certificate(n, 5).rest
    graph = np.eye(5, k=1, dtype=int) + np.eye(5, k=-1, dtype=int)
    for adjacency in (graph, None):
        follows = mechanism._follows(told(adjacency))
        cost = follows.guarantee(n, 5)
        assert 0.99 * rest < cost.mu <= rest and not (cost.pure or cost.failure)


def test_what_cannot_be_weighed_counts_as_undecided(monkeypatch):
    mechanism = made(levels={"a": (0, 9), "e": (1, 5)})
    empty, few = np.zeros((5, 5), int), np.zeros((5, 5), int)
    few[0, 1] = few[1, 0] = 1
    kinds = [type(mechanism._follows(told(g))).__name__ for g in (None, empty, few)]
    assert kinds == 2 * ["ScreenedGraphMechanism"] + ["GraphWeightsMechanism"]
    assert mechanism._follows(told(few)).levels == {"a": (0, 9)}  # of its own columns
    assert {*mechanism._follows(told(empty)).levels} == {*"ae"}
    monkeypatch.setattr("privglasso.publish.graph_weights.MOST_ENTRIES", 2)
    with pytest.raises(InputError):
        GraphWeightsMechanism(few, mu=1.0)
    assert type(mechanism._follows(told(few))).__name__ == "ScreenedGraphMechanism"


def test_what_follows_asks_for_nothing_but_the_word_of_the_votes(monkeypatch):
    "Tables with one word go one way, however far their secret distances are."
    ways = set()
    for distance in (1, 25, 30):
        decided = lambda self, *given, d=distance: (1 - np.eye(5, dtype=int), d)
        monkeypatch.setattr(VotedGraphMechanism, "_decided", decided)
        for seed in range(4):
            release = made().publish(chain(), random_state=seed)
            passed = type(release) is GraphWeightsRelease
            ways.add((distance, passed))
    assert {(1, False), (30, True)} <= ways and (1, True) not in ways


def test_a_ledger_pays_once_for_both(tmp_path):
    mechanism = made(tossed)
    promise = mechanism.guarantee(N, 5)
    book = Budget.create(tmp_path / "book.json", promise)
    book.publish(mechanism, chain(), tmp_path / "1.parquet", label="1")
    spent = book.spent()
    assert (spent.pure, spent.failure) == (promise.pure, promise.failure)
    assert spent.mu == pytest.approx(promise.mu)
    with pytest.raises(BudgetError):
        book.publish(mechanism, chain(), tmp_path / "2.parquet", label="2")
    assert mechanism.guarantees(N, 5)[1].neighbors == "cell"


CHANGES = {
    "less": lambda m: m["votes"].update(rest=m["votes"]["rest"] * 0.9),
    "more": lambda m: m["votes"].update(rest=m["votes"]["rest"] * 1.1),
    "mu": lambda m: m.update(mu=m["mu"] * 0.9),
    "pure": lambda m: m.update(pure=0.1),
    "failure": lambda m: m.update(failure=1e-12),
    "no votes": lambda m: m.pop("votes"),
    "no promise": lambda m: m.pop("pure"),
    "blocks": lambda m: m["votes"].update(blocks=N),
    "cut": lambda m: m["votes"].update(cut=61),
    "test": lambda m: m["votes"]["test"].update(epsilon=0.5),
    "margin": lambda m: m["votes"].update(margin=7),
    "another": lambda m: m.update(mechanism="GraphWeightsMechanism"),
    "screened": lambda m: m.update(kind="screened"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_contradict_themselves_are_refused(name, tmp_path):
    path = tmp_path / "r.parquet"
    made().publish(chain(), random_state=1).to_parquet(path)
    stored(path, lambda m: None)
    assert type(read_release(path)) is GraphWeightsRelease
    stored(path, CHANGES[name])
    with pytest.raises(ReleaseError):
        read_release(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"share": 0}, "share"),
        ({"share": 1.0}, "part of the budget"),
        ({"share": "half"}, "share"),
        ({"edges": 0}, "edges"),
        ({"levels": {"a": (1, 1)}}, "levels of a"),
        ({"scale": -1.0}, "scale"),
        ({"epsilon": None}, "budget"),
        ({"neighbors": "row"}, "neighbors"),
    ],
)
def test_bad_settings_are_named(words, message):
    with pytest.raises(InputError, match=message):
        made(**words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"edges": 11}, "there are 10 pairs"),
        ({"levels": {"z": (1, 5)}}, "no such columns"),
        ({"scale": np.ones(4)}, "scale"),
        ({"epsilon": 0.001}, "epsilon|blocks|mu"),
    ],
)
def test_what_does_not_suit_the_table_is_refused_before_it_is_used(words, message):
    def never(block):
        raise AssertionError

    with pytest.raises(InputError, match=message):
        mechanism = made(lambda block: by_inverse(block), **words)
        mechanism._decided = never
        mechanism.publish(chain())


def test_a_report_says_what_the_edges_are():
    graph, pairs = (made(v).publish(chain(), 1) for v in (by_inverse, tossed))
    told = " ".join(Report(graph).unsaid)
    assert "most blocks of the records" in told and "public beforehand" not in told
    assert "not even that they are no edges" in " ".join(Report(pairs).unsaid)


def test_the_shell_knows_it(tmp_path):
    from typer.testing import CliRunner

    from privglasso.cli.commands import app

    table, path = tmp_path / "t.csv", tmp_path / "open.parquet"
    chain(9000).to_csv(table, index=False)
    words = ["--mechanism", "fallback", "--epsilon", "3", "--estimator", "debiased"]
    call = lambda *words: CliRunner().invoke(app, [*map(str, words)])
    assert call("publish", table, path, *words, "--seed", 1).exit_code == 0
    release = read_release(path)
    assert release.mechanism == "VotedWeightsMechanism"
    assert 2.9 < release.guarantee.epsilon(1e-8) <= 3
    said = call("inspect", path, "--json")
    assert said.exit_code == 0
    assert json.loads(said.output)["pure"] == 1.5
    assert call("recover", path, tmp_path / "edges.csv").exit_code == 0
    assert {*"ab"} <= {*pd.read_csv(tmp_path / "edges.csv").iloc[:, :2].stack()}
    assert "too slow" in call("audit", "--mechanism", "fallback", "--epsilon", 1).output


def test_levels_of_a_schema_reach_both_ways():
    schema = SimpleNamespace(levels={"a": (0, 9), "e": (1, 5)})
    plain = made(levels={"e": (0, 4)})
    mechanism = plain.knowing(schema)
    assert mechanism.weights["levels"] == {"a": (0, 9), "e": (0, 4)}
    assert plain.weights["levels"] == {"e": (0, 4)}
