"""Certified graphs: careless publishers, strangers, tampered files, messy tables."""

import itertools
import json
import math

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.files import read_release
from privglasso.publish.parquet import ReleaseError, sealed
from privglasso.publish.tree import (
    ThresholdedGraphMechanism,
    TreeMechanism,
    sign_counts,
    tree_gap,
)


def chain(n, p, seed=0, correlation=0.6):
    "Rows of a Gaussian chain."
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((p, n))
    for j in range(1, p):
        rows[j] = correlation * rows[j - 1] + math.sqrt(1 - correlation**2) * rows[j]
    return rows.T


@pytest.fixture
def mechanism():
    return TreeMechanism(epsilon=1.0, delta=1e-6)


@pytest.fixture
def decided(mechanism):
    return mechanism.publish(
        pd.DataFrame(chain(3000, 5), columns=list("abcde")), random_state=0
    )


# the tree


@pytest.mark.parametrize("p", [2, 3, 5, 12, 40])
def test_the_tree_is_networkx_and_the_gap_is_that_of_all_cycles(p):
    rng = np.random.default_rng(p)
    for largest in (3, 1000):  # with many ties, and with few
        counts = rng.integers(-largest, largest + 1, (p, p))
        counts = np.triu(counts, 1) + np.triu(counts, 1).T
        edges, gap = tree_gap(counts)
        graph = nx.from_numpy_array(np.abs(counts) + 1)  # a weight of 0 is no edge
        best = nx.maximum_spanning_tree(graph)
        found = nx.Graph(edges.tolist())
        assert nx.is_tree(found) and len(found) == p
        assert best.size("weight") == np.abs(counts[tuple(edges.T)]).sum() + p - 1
        outside = [
            min(
                abs(counts[e])
                for e in itertools.pairwise(nx.shortest_path(found, i, j))
            )
            - abs(counts[i, j])
            for i, j in itertools.combinations(range(p), 2)
            if not found.has_edge(i, j)
        ]
        assert gap == min(outside, default=np.iinfo(np.int64).max)


def test_huge_counts_are_exact():
    counts = np.array([[0, 2**60 + 1, 1], [2**60 + 1, 0, 2**60], [1, 2**60, 0]])
    assert tree_gap(counts)[1] == 2**60 - 1


# counts


def test_counts_ignore_units_and_monotone_maps_and_the_order_of_columns():
    table = np.random.default_rng(0).standard_normal((200, 4))
    mapped = np.column_stack(
        [table[:, 0] ** 3, np.exp(table[:, 1]), table[:, 2:] * 1e9]
    )
    for kind in ((None, 3), (np.zeros(4), 1)):
        other = (None if kind[0] is None else np.array([0, 1, 0, 0.0]), kind[1])
        counts = sign_counts(table, *kind)
        assert np.array_equal(counts, sign_counts(mapped, *other))
        if kind[0] is None:
            assert np.array_equal(
                counts[::-1, ::-1], sign_counts(table[:, ::-1], *kind)
            )


def test_blocks_of_rows_do_not_matter(monkeypatch):
    table = np.random.default_rng(0).standard_normal((500, 5))
    naive = np.sign(table).T @ np.sign(table)
    assert np.array_equal(sign_counts(table, np.zeros(5)), naive)
    wide = np.tile(table, (1, 500))[:40]
    assert np.array_equal(
        sign_counts(wide, np.zeros(2500))[:5, :5],
        np.sign(wide[:, :5]).T @ np.sign(wide[:, :5]),
    )


def test_kendall_counts_each_pair_once_where_all_are_compared():
    from scipy.stats import kendalltau

    table = np.random.default_rng(1).integers(0, 6, (41, 3)).astype(float)
    counts = sign_counts(table, None, 20)
    pairs = 41 * 40 / 2
    assert counts.diagonal().max() < pairs  # ties count as 0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        ties = math.sqrt(counts[i, i] * counts[j, j])
        assert counts[i, j] / ties == pytest.approx(kendalltau(*table[:, [i, j]].T)[0])


# calibration


@pytest.mark.parametrize(
    "budget", [(0.01, 1e-12), (1.0, 1e-9), (8.0, 1e-4), (30.0, 0.1)]
)
@pytest.mark.parametrize("center", [None, 0.0])
def test_the_promise_is_what_was_asked_for(budget, center):
    epsilon, delta = budget
    mechanism = TreeMechanism(center=center, epsilon=epsilon, delta=delta)
    promise = mechanism.guarantee(1000, 7)
    assert (promise.pure, promise.failure, promise.mu) == (epsilon, delta, 0)
    assert mechanism.guarantee(1000, 700) == promise  # whatever the columns
    certificate = mechanism.certificate(1000, 7)
    assert certificate.chance(1) == pytest.approx(delta)
    assert certificate.shift == (80 if center is None else 4)


def test_a_mu_is_met_by_normal_noise():
    mechanism = TreeMechanism(mu=0.5, failure=1e-6)
    promise = mechanism.guarantee(1000, 7)
    assert (promise.pure, promise.failure, promise.exclusive) == (0, 1e-6, True)
    assert 0.4999 < promise.mu <= 0.5
    assert mechanism.certificate(1000, 7).chance(1) <= 1e-6


@pytest.mark.parametrize("center", [None, 0.0])
def test_a_distance_is_in_whole_records(center):
    certificate = TreeMechanism(center=center, epsilon=1, delta=0.1).certificate(99, 3)
    one = certificate.shift
    gaps = [0, 1, one - 1, one, one + 1, 7 * one]
    assert [certificate.distance(gap) for gap in gaps] == [0, 1, 1, 1, 2, 7]


def test_no_noise_saves_a_tie():
    tied = np.repeat([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1]], 400, axis=0)
    for budget in ({"mu": 100.0, "failure": 0.1}, {"epsilon": 50.0, "delta": 0.9}):
        mechanism = TreeMechanism(center=0, **budget)
        found = [mechanism.publish(tied, random_state=k).decided for k in range(50)]
        assert not any(found)
        assert mechanism.certificate(1200, 3).chance(0) == 0
        constant = np.ones((500, 4))
        assert not TreeMechanism(**budget).publish(constant).decided


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0, "delta": 0.01}, {"mu": 0.7, "failure": 0.01}]
)
def test_the_chance_is_the_share_of_releases(budget):
    "The frequency fails with a probability below 1e-6."
    mechanism = TreeMechanism(center=0, **budget)
    table = np.repeat([[1.0, 1, 1], [1, -1, -1], [1, 1, -1]], [40, 9, 15], axis=0)
    gap = tree_gap(sign_counts(table, np.zeros(3)))[1]
    certificate = mechanism.certificate(*table.shape)
    chance = certificate.chance(certificate.distance(gap))
    seen = [mechanism.publish(table, random_state=k).decided for k in range(1000)]
    assert 0.05 < chance < 0.95
    assert abs(np.mean(seen) - chance) < 5 * math.sqrt(chance * (1 - chance) / 1000)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"mu": 1.0}, "failure"),
        ({"mu": 1.0, "failure": 0.2}, "failure"),
        ({"mu": 1.0, "failure": 0}, "failure"),
        ({"mu": 1.0, "failure": 1e-320}, "failure"),
        ({"epsilon": 1.0, "delta": 1e-6, "failure": 1e-5}, "failure"),
        ({"epsilon": 1.0, "mu": 1.0}, "budget"),
        ({"mu": 1.0, "failure": 1e-6, "neighbors": "row"}, "neighbors"),
        ({"mu": 1.0, "failure": 1e-6, "shifts": 0}, "shifts"),
        ({"mu": 1.0, "failure": 1e-6, "shifts": 2, "center": 0}, "shifts"),
        ({"mu": 1.0, "failure": 1e-6, "center": "a"}, "center"),
        ({"mu": 1e9, "failure": 1e-6}, "mu"),
        ({"mu": 1e-13, "failure": 1e-6}, "mu"),
        ({"epsilon": 1e-9, "delta": 1e-9}, "epsilon"),
    ],
)
def test_settings_that_make_no_mechanism(settings, argument):
    with pytest.raises(InputError) as refusal:
        TreeMechanism(**settings)
    assert refusal.value.argument == argument


@pytest.mark.parametrize(
    ("settings", "shape", "argument"),
    [
        ({"mu": 1.0, "failure": 1e-6}, (100, 2), "p"),
        ({"mu": 1.0, "failure": 1e-6}, (2, 3), "shifts"),
        ({"mu": 1.0, "failure": 1e-6, "shifts": 50}, (100, 3), "shifts"),
        ({"mu": 1.0, "failure": 1e-6, "center": [0, 0]}, (100, 3), "center"),
    ],
)
def test_tables_that_cannot_be_published_are_refused_unpaid(
    settings, shape, argument, tmp_path
):
    mechanism = TreeMechanism(**settings)
    budget = Budget.create(tmp_path / "b.json", Guarantee(1e9, "record", failure=0.01))
    table = np.random.default_rng(0).standard_normal(shape)
    with pytest.raises(InputError) as refusal:
        budget.publish(mechanism, table, tmp_path / "r.parquet", label="x")
    assert refusal.value.argument == argument and len(budget.table()) == 0


# the release


def test_what_a_stranger_holds(decided):
    assert decided.edges.values.tolist() == [
        ["a", "b", 1],
        ["b", "c", 1],
        ["c", "d", 1],
        ["d", "e", 1],
    ]
    assert nx.is_tree(decided.graph_) and decided.graph_.edges["a", "b"]["sign"] == 1
    assert (decided.n, decided.columns, decided.secure) == (3000, list("abcde"), False)
    assert not hasattr(decided, "corrected_covariance")
    assert "everything is told" in str(decided) and "1e-06" in str(decided)
    with pytest.raises(InputError):
        pg.PrivateGraphicalLasso(0.1).fit(decided)


def test_negative_edges_keep_their_sign(mechanism):
    table = chain(3000, 4)
    table[:, 2] *= -1
    release = mechanism.publish(table, random_state=0)
    assert release.edges.sign.tolist() == [1, -1, -1]


def test_an_undecided_release_holds_nothing_of_the_table(mechanism, tmp_path):
    files = []
    for seed in (1, 2):
        noise = np.random.default_rng(seed).standard_normal((500, 4))
        release = mechanism.publish(noise, random_state=seed)
        assert not release.decided and release.edges is None and release.graph_ is None
        release.to_parquet(tmp_path / f"{seed}.parquet")
        files.append((tmp_path / f"{seed}.parquet").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize("make", [TreeMechanism, ThresholdedGraphMechanism])
@pytest.mark.parametrize("rest", [{"mu": 0.5}, {"epsilon": 0.7}])
def test_a_budget_has_room_for_the_failure(make, rest, tmp_path):
    settings = rest | {"failure" if "mu" in rest else "delta": 1e-7}
    mechanism = make(**settings) if make is TreeMechanism else make(0.4, **settings)
    budget = Budget.create(
        tmp_path / "b.json",
        Guarantee(1.0, "record", failure=1.5e-7, pure=2.0),
        Guarantee(1.0, "cell", failure=1.0e-6, pure=2.0),
    )
    table = chain(3000, 5)
    made = budget.publish(mechanism, table, tmp_path / "r.parquet", label="graph")
    assert read_release(tmp_path / "r.parquet").guarantee == made.guarantee
    assert budget.spent("record").failure == 1e-7 == budget.spent("cell").failure
    with pytest.raises(BudgetError, match="failure"):
        budget.publish(mechanism, table, tmp_path / "s.parquet", label="again")
    assert not (tmp_path / "s.parquet").exists()


# files


def graph_releases():
    "One release of each kind."
    rows = chain(3000, 4)
    common = {"epsilon": 1.0, "delta": 1e-6}
    return {
        "tree": TreeMechanism(**common).publish(rows, 0),
        "centred": TreeMechanism(center=[0, 0.1, 0, 0], **common).publish(rows, 0),
        "undecided": TreeMechanism(**common).publish(rows[:100], 0),
        "of mu": TreeMechanism(mu=0.5, failure=1e-6).publish(rows, 0),
        "graph": ThresholdedGraphMechanism(0.48, **common).publish(rows, 0),
    }


GRAPHS = graph_releases()


@pytest.mark.parametrize("kind", GRAPHS)
def test_files_there_and_back(kind, tmp_path):
    release = GRAPHS[kind]
    assert release.decided == (kind != "undecided")
    release.to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert type(back) is type(release) and str(back) == str(release)
    assert back.guarantee == release.guarantee and back.columns == release.columns
    assert np.array_equal(back.adjacency, release.adjacency)
    for name in ("n", "p", "test", "shifts", "cut"):
        assert getattr(back.certificate, name) == getattr(release.certificate, name)


def rewrite(path, change, table=None):
    "The file with its metadata changed, and another table if one is given."
    stored = pq.read_table(path) if table is None else table
    metadata = json.loads(pq.read_table(path).schema.metadata[b"privglasso"])
    change(metadata)
    seal = sealed(metadata, stored.to_pandas())
    pq.write_table(stored.replace_schema_metadata(seal), path)


def changed(metadata, **stated):
    "Another test."
    metadata["certificate"]["test"].update(stated)


CHANGES = {
    "mu": lambda m: m.update(mu=0.01),
    "n": lambda m: m.update(n=3),
    "kind": lambda m: m.update(kind="table"),
    "other kind": lambda m: m.update(
        kind={"tree": "graph", "graph": "tree"}[m["kind"]]
    ),
    "mechanism": lambda m: m.update(mechanism="CovarianceMechanism"),
    "no guarantee": lambda m: m.update(no_guarantee=True),
    "noise": lambda m: m.update(noise_variance=[1.0] * 4),
    "pure": lambda m: m.update(pure=0.5),
    "failure": lambda m: m.update(failure=2e-6),
    "no epsilon": lambda m: changed(m, epsilon=None, mu=None),
    "no test": lambda m: changed(m, epsilon=None, delta=None, mu=None, failure=None),
    "two tests": lambda m: changed(m, epsilon=1.0, delta=1e-6, mu=0.5, failure=1e-6),
    "other test": lambda m: changed(
        m, **dict.fromkeys(("epsilon", "delta")), mu=0.6, failure=1e-6
    ),
    "text": lambda m: changed(m, delta="1e-6"),
    "test": lambda m: m["certificate"].update(test={"epsilon": 1.0, "delta": 1e-6}),
    "shifts": lambda m: m["certificate"].update(shifts=m["n"]),
    "centred": lambda m: m["certificate"].update(shifts=0, center=None),
    "words": lambda m: m["certificate"].update(note="for the press"),
    "cut": lambda m: m["certificate"].update(cut=10),
    "center": lambda m: m["certificate"].update(center=[0.0]),
}


@pytest.mark.parametrize("kind", ["tree", "centred", "graph", "of mu"])
@pytest.mark.parametrize("change", CHANGES)
def test_no_setting_of_a_graph_can_be_changed_alone(kind, change, tmp_path):
    if (kind, change) == ("centred", "n"):
        pytest.skip("the number of rows is the publisher's word: no promise needs it")
    path = tmp_path / "r.parquet"
    GRAPHS[kind].to_parquet(path)
    rewrite(path, CHANGES[change])
    with pytest.raises(ReleaseError):
        read_release(path)


@pytest.mark.parametrize(
    ("kind", "stated"), [("tree", {"epsilon": 0.5}), ("graph", {"delta": 1e-7})]
)
def test_a_test_that_promises_something_else_is_refused(kind, stated, tmp_path):
    "Only a file that alters the promise as well agrees with itself."
    path, beside = tmp_path / "r.parquet", {"epsilon": "pure", "delta": "failure"}
    GRAPHS[kind].to_parquet(path)
    rewrite(path, lambda m: changed(m, **stated))
    with pytest.raises(ReleaseError, match="the promise is not that of its test"):
        read_release(path)
    rewrite(path, lambda m: m.update({beside[k]: v for k, v in stated.items()}))
    promise = read_release(path).guarantee
    told = {"epsilon": promise.pure, "delta": promise.failure}
    assert told == {"epsilon": 1.0, "delta": 1e-6} | stated


def test_edges_that_make_no_graph_are_refused(tmp_path):
    path, tree = tmp_path / "r.parquet", GRAPHS["tree"].adjacency
    changed = [tree.copy() for _ in range(6)]
    changed[0][0, 1] = -tree[0, 1]  # not symmetric
    changed[1][0, 1] = changed[1][1, 0] = 2
    changed[2][0, 0] = 1
    changed[3][0, 1] = changed[3][1, 0] = 0  # falls apart
    changed[4][0, 2] = changed[4][2, 0] = 1  # a cycle
    changed[5] = tree[:3]
    for entries in [*changed, tree.astype(float), tree.astype(np.int8)]:
        GRAPHS["tree"].to_parquet(path, replace=True)
        names = GRAPHS["tree"].columns
        rewrite(
            path,
            lambda m: None,
            pq.read_table(path).from_pandas(
                pd.DataFrame(entries, columns=names), preserve_index=False
            ),
        )
        with pytest.raises(ReleaseError):
            read_release(path)


# thresholds and shifts


def test_a_thresholds_cut_is_never_met():
    rng = np.random.default_rng(0)
    for threshold in (0.001, 0.3, 0.999):
        mechanism = ThresholdedGraphMechanism(threshold, epsilon=1.0, delta=1e-3)
        certificate = mechanism.certificate(51, 4)
        assert certificate.cut % 2 == 1 and certificate.cut <= 2 * certificate.counted
        counts = rng.integers(-50, 51, (4, 4))
        assert mechanism.decide(counts + counts.T, certificate)[1] >= 1
    for bad in (0, 1, -0.5, math.nan):
        with pytest.raises(InputError, match="threshold"):
            ThresholdedGraphMechanism(bad, epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize("shifts", [1, 2, 3])
def test_one_record_moves_a_count_as_far_as_the_certificate_says(shifts):
    """Compared with `shifts` others before it and as many behind it, a record that is
    above all in one column is moved from above to below in the other one."""
    n, order = 9, np.arange(9)
    rows = np.random.default_rng(shifts).normal(size=(n, 3))
    moved = []
    for at in range(n):
        both = rows.copy(), rows.copy()
        both[0][at], both[1][at] = (9.0, 9.0, 0.0), (9.0, -9.0, 0.0)
        one, two = (sign_counts(table, None, shifts, order)[0, 1] for table in both)
        moved.append(abs(one - two))
    mechanism = TreeMechanism(shifts=shifts, epsilon=1.0, delta=1e-6)
    assert mechanism.certificate(n, 3).shift == 2 * max(moved)


def test_rows_are_compared_in_a_secret_order(monkeypatch):
    "Of a file whose rows come in equal pairs half would be compared with their twins."
    rows, untied = np.repeat(chain(500, 3), 2, axis=0), []
    mechanism = TreeMechanism(shifts=1, epsilon=1.0, delta=1e-6)
    keep = lambda counts, certificate: (untied.append(counts[0, 0]), (None, 0))[1]
    monkeypatch.setattr(mechanism, "decide", keep)
    for seed in range(3):
        mechanism.publish(rows, random_state=seed)
    assert min(untied) > 980  # fewer with a probability below 1e-30
