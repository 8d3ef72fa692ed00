"Measures of graph recovery against scikit-learn, brute force and their own symmetries."

from collections import namedtuple
from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score as sklearn_f1
from sklearn.metrics import roc_curve

from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.recover.estimators import PrivateGraphicalLasso
from privglasso.recover.metrics import Confusion, auc, auc_by_magnitude
from privglasso.recover.metrics import auc_by_path_entry, compare, confusion
from privglasso.recover.metrics import f1_score
from privglasso.recover.metrics import relative_error, roc_curve_path, snr_db
from privglasso.recover.selection import EBIC

Result = namedtuple("Result", "precision alpha")
few = settings(max_examples=30, deadline=None)
TRUTH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=bool)


def symmetric(values, p, diagonal=1.0):
    "A symmetric matrix from its entries above the diagonal."
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p, 1)] = values
    return matrix + matrix.T + diagonal * np.eye(p)


def above(matrix):
    "Entries above the diagonal."
    return np.asarray(matrix)[np.triu_indices(len(matrix), 1)]


def won(score, true):
    "Share of comparisons an edge wins against an absent edge, one by one."
    comparisons = list(product(score[true], score[~true]))
    halves = sum(int(np.sign(a - b)) + 1 for a, b in comparisons)
    return float(Fraction(halves, 2 * len(comparisons)))


@st.composite
def matrices_and_truths(draw, least=-3):
    "A matrix with many ties, and a truth with an edge and an absent edge."
    p = draw(st.integers(3, 7))
    pairs = p * (p - 1) // 2
    values = draw(st.lists(st.integers(least, 4), min_size=pairs, max_size=pairs))
    true = draw(st.lists(st.booleans(), min_size=pairs, max_size=pairs))
    assume(any(true) and not all(true))
    return symmetric(values, p), symmetric(true, p, 0) != 0


@st.composite
def paths_and_truths(draw):
    "A path of arbitrary graphs, and a truth."
    _, truth = draw(matrices_and_truths())
    p = len(truth)
    pairs = p * (p - 1) // 2
    graphs = draw(
        st.lists(
            st.lists(st.booleans(), min_size=pairs, max_size=pairs),
            min_size=1,
            max_size=6,
        )
    )
    alphas = draw(st.permutations(range(1, len(graphs) + 1)))
    return [
        (alpha / 7, symmetric(graph, p))
        for alpha, graph in zip(alphas, graphs, strict=True)
    ], truth


# one graph


@few
@given(matrices_and_truths())
def test_counts_and_f1_are_scikit_learns(case):
    matrix, truth = case
    estimated, true = above(matrix) != 0, above(truth)
    found, missed, extra = confusion(matrix, truth)
    assert (
        found + missed == true.sum()
        and found + extra == estimated.sum()
        and isinstance(found, int)
    )
    assert f1_score(matrix, truth) == pytest.approx(
        sklearn_f1(true, estimated, zero_division=0)
    )
    assert f1_score(truth, truth) == 1.0
    assert confusion(truth, matrix) == Confusion(found, extra, missed)


def test_relative_error():
    truth = symmetric([1.0, -2.0, 0.5], 3)
    assert relative_error(truth, truth) == 0.0
    assert relative_error(3 * truth, truth) == pytest.approx(2.0)
    assert relative_error(0 * truth, truth) == pytest.approx(1.0)


# areas


@few
@given(matrices_and_truths())
def test_areas_count_every_comparison_exactly(case):
    matrix, truth = case
    assert auc_by_magnitude(matrix, truth) == won(np.abs(above(matrix)), above(truth))


@few
@given(matrices_and_truths())
def test_auc_knows_only_the_order(case):
    matrix, truth = case
    stretched = np.sign(matrix) * np.expm1(2 * np.abs(matrix))
    p = len(matrix)
    order = np.random.default_rng(p).permutation(p)
    assert auc_by_magnitude(stretched, truth) == auc_by_magnitude(matrix, truth)
    assert auc_by_magnitude(-matrix, truth) == auc_by_magnitude(matrix, truth)
    relabelled = np.ix_(order, order)
    assert auc_by_magnitude(matrix[relabelled], truth[relabelled]) == auc_by_magnitude(
        matrix, truth
    )
    assert auc_by_magnitude(matrix, ~truth & ~np.eye(p, dtype=bool)) == pytest.approx(
        1 - auc_by_magnitude(matrix, truth), abs=1e-12
    )


@few
@given(matrices_and_truths(least=0))
def test_nested_path_has_one_area(case):
    "Thresholds of one matrix: area, entry, magnitude and scikit-learn's curve agree."
    matrix, truth = case
    path = [(alpha, matrix * (matrix >= alpha)) for alpha in (1.0, 2.0, 3.0, 4.0)]
    fpr, tpr, alphas = roc_curve_path(path, truth)
    area = auc(fpr, tpr)
    assert alphas.tolist() == [4.0, 3.0, 2.0, 1.0]
    assert area == pytest.approx(auc_by_path_entry(path, truth), abs=1e-12)
    assert area == pytest.approx(auc_by_magnitude(matrix, truth), abs=1e-12)
    peer_fpr, peer_tpr, _ = roc_curve(
        above(truth), above(matrix), drop_intermediate=False
    )
    assert area == pytest.approx(auc(peer_fpr, peer_tpr), abs=1e-12)


@few
@given(paths_and_truths())
def test_any_path_in_any_order(case):
    path, truth = case
    fpr, tpr, alphas = roc_curve_path(path, truth)
    assert (np.diff(alphas) < 0).all() and 0 <= auc(fpr, tpr) <= 1
    entry = np.max([alpha * (above(graph) != 0) for alpha, graph in path], axis=0)
    assert auc_by_path_entry(path, truth) == won(entry, above(truth))
    for results in (path[::-1], [Result(graph, alpha) for alpha, graph in path]):
        again = roc_curve_path(results, truth)
        assert all(
            np.array_equal(a, b) for a, b in zip(again, (fpr, tpr, alphas), strict=True)
        )
        assert auc_by_path_entry(results, truth) == auc_by_path_entry(path, truth)


def test_auc_ends_and_order():
    assert auc([], []) == 0.5
    assert auc([0.0], [1.0]) == 1.0 and auc([1.0], [0.0]) == 0.0
    assert auc([0.5, 0.0], [1.0, 0.5]) == auc([0.0, 0.5], [0.5, 1.0]) == 0.875


# noise


tables = st.lists(
    st.lists(st.integers(-50, 50), min_size=3, max_size=3), min_size=2, max_size=8
).map(np.array)


@few
@given(tables, st.integers(-30, 60), st.floats(0.1, 10), st.floats(-5, 5))
def test_decibels_invert_their_formula_and_know_neither_unit_nor_zero(
    table, level, unit, zero
):
    assume((np.ptp(table, axis=0) > 0).all())
    noise = table.var(axis=0) * 10 ** (-level / 10)
    assert snr_db(table, noise) == pytest.approx(level, abs=1e-9)
    assert snr_db(unit * table + zero, unit**2 * noise) == pytest.approx(
        level, abs=1e-6
    )


# bad input


REFUSED = [
    (lambda: relative_error(np.eye(2), np.eye(3)), "estimate"),
    (lambda: relative_error(np.eye(2), np.zeros((2, 2))), "truth"),
    (lambda: confusion(np.eye(3), TRUTH), "estimated"),
    (lambda: confusion(np.eye(4), [[0, 1], [0, 0]]), "true"),
    (lambda: f1_score(TRUTH, np.eye(4)), "true"),
    (lambda: auc_by_magnitude(np.eye(4), np.eye(4)), "truth"),
    (lambda: auc_by_magnitude(np.eye(4), np.ones((4, 4))), "truth"),
    (lambda: auc_by_magnitude(np.eye(3), TRUTH), "precision"),
    (lambda: auc_by_magnitude(np.full((4, 4), np.nan), TRUTH), "precision"),
    (lambda: auc_by_path_entry([], TRUTH), "path"),
    (lambda: roc_curve_path([(1.0, TRUTH), (1.0, TRUTH)], TRUTH), "path"),
    (lambda: roc_curve_path([(1.0, np.eye(3))], TRUTH), "path"),
    (lambda: roc_curve_path([TRUTH], TRUTH), "path"),
    (lambda: roc_curve_path([("a", TRUTH)], TRUTH), "alpha"),
    (lambda: roc_curve_path([(1.0, TRUTH)], np.eye(4)), "truth"),
    (lambda: auc([0.1], [0.1, 0.2]), "tpr"),
    (lambda: auc([[0.1]], [[0.2]]), "tpr"),
    (lambda: auc([1.1], [0.5]), "fpr, tpr"),
    (lambda: auc([np.nan], [0.5]), "fpr, tpr"),
    (lambda: snr_db(np.eye(3), 0.0), "noise_variance"),
    (lambda: snr_db(np.eye(3), [1.0, 2.0]), "noise_variance"),
    (lambda: snr_db(np.eye(3), [1.0, np.nan, 1.0]), "noise_variance"),
    (lambda: snr_db(np.eye(3), "1"), "noise_variance"),
    (lambda: snr_db(np.eye(3), np.inf), "noise_variance"),
    (lambda: snr_db(np.full((10, 2), 0.1), 1.0), "table"),
    (lambda: snr_db([1.0, 2.0], 1.0), "table"),
]


def test_bad_input_is_named():
    for call, argument in REFUSED:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == argument


def test_graphs_in_any_form_are_matched_by_name():
    path, turned = nx.path_graph(list("abc")), nx.Graph([("c", "b")])
    turned.add_node("a")
    assert confusion(path, turned) == (1, 0, 1) and confusion(turned, path) == (1, 1, 0)
    matrix = nx.to_numpy_array(path)
    assert confusion(path, matrix) == (2, 0, 0)
    names = list("abc")
    frame = pd.DataFrame(matrix, names, names).loc[names[::-1], names[::-1]]
    assert confusion(path, frame) == (2, 0, 0)
    table = compare(path, turned)
    assert table.edge_in.tolist() == ["first", "both"]
    assert table.source.tolist() == ["a", "b"] and table.second.tolist() == [0, 1]
    with pytest.raises(InputError):
        confusion(path, nx.path_graph(list("abx")))
    with pytest.raises(InputError):
        compare(path, "a graph")
    assert compare(np.eye(2), np.eye(2)).empty


def test_two_releases_are_compared():
    """Two halves of people of one kind: z values of the differences are at most those
    of two independent estimates."""
    graphs, z = [], []
    for seed in range(30):
        rows = np.random.default_rng(seed).standard_normal((6000, 3))
        rows[:, 1] += 0.5 * rows[:, 0]
        table = pd.DataFrame(rows, columns=list("abc"))
        mechanism = CovarianceMechanism((-6, 6), mu=1.0, clipping="box")
        half = table[:3000], table[3000:][["c", "a", "b"]]
        first, second = half
        releases = mechanism.publish(first, seed), mechanism.publish(second, seed + 99)
        table = compare(*releases)
        graphs.append((table.source[0], table.target[0], table.edge_in[0]))
        z.append(table.z_value[0])
    assert graphs.count(("a", "b", "both")) > 25
    # 30 squares of standard normals: above with probability below 3e-4
    assert 3 < np.sum(np.square(z)) < 65


def weak_network(p, seed):
    "Many partial correlations around what a few thousand rows can tell from 0."
    weak = np.triu(np.random.default_rng(seed).normal(0, 0.05, (p, p)), 1)
    return np.linalg.inv(np.eye(p) + weak + weak.T)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:alpha_:UserWarning")
@pytest.mark.parametrize("rule", [None, EBIC()])
@pytest.mark.parametrize("p, n, mu", [(8, 600, 0), (8, 5000, 2.0), (16, 1500, 0)])
def test_two_graphs_of_one_population_differ_at_the_level(rule, p, n, mu):
    """Edges of one graph only were picked: taken as they are, their p values are below
    .05 in an eighth to a seventh of cases. The share may be above .05 by three standard
    errors of so many."""
    S, below, picked = weak_network(p, 3), [], []
    mechanism = CovarianceMechanism((-5, 5), mu=mu or 1.0, clipping="box")
    for seed in range(30):
        rows = np.random.default_rng(seed).multivariate_normal(np.zeros(p), S, 2 * n)
        halves = [rows[:n], rows[n:]]
        if mu:
            halves[0] = mechanism.publish(halves[0], random_state=seed)
        table = compare(*(PrivateGraphicalLasso(rule).fit(half) for half in halves))
        alone = table.edge_in != "both"
        below.extend(table.p_value < 0.05)
        picked.extend(table.p_value[alone] < 0.05)
    for share in (below, picked):
        assert np.mean(share) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(share))


def test_models_that_noise_hides_are_not_compared():
    rows = np.random.default_rng(0).standard_normal((60, 20))
    first, second = (PrivateGraphicalLasso(0.4).fit(half) for half in (rows[:30], rows))
    table = compare(first, second)
    assert len(table) and table.p_value.isna().all()
    assert compare(first, np.eye(20)).columns[-1] == "edge_in"


def test_a_difference_is_found():
    "An edge that is lost in one half of the people, and only that."
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal((2, 4000, 10))
    one[:, 1] += 0.5 * one[:, 0]
    for rows in (one, other):
        rows[:, 3] += 0.5 * rows[:, 2]
    table = compare(*(PrivateGraphicalLasso().fit(rows) for rows in (one, other)))
    differ = table[table.p_value < 0.01]
    assert differ[["source", "target"]].to_numpy().tolist() == [["x0", "x1"]]


@pytest.mark.filterwarnings("error")
def test_searched_models_are_compared():
    "Their errors are 0 on the diagonal, which is no edge."
    truth, names = chain_precision(4, 0.4, scales=np.ones(4)), list("abcd")
    rows = sample_gaussian(truth, 4000, 0)
    halves = pd.DataFrame(rows[:2000], columns=names), pd.DataFrame(
        rows[2000:, ::-1], columns=names[::-1]
    )
    one, other = (PrivateGraphicalLasso().fit(half) for half in halves)
    table = compare(one, other)
    assert table.edge_in.tolist() == ["both"] * 3
    turned = compare(one, PrivateGraphicalLasso().fit(halves[1][names]))
    assert np.allclose(table.z_value, turned.z_value, rtol=1e-6)
