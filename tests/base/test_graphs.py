"The graph of a matrix, and its partial correlations."

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from privglasso.base.graphs import as_matrix, pairs_above, partial_correlations
from privglasso.base.graphs import support, write_graph
from privglasso.base.validation import InputError


def test_what_is_not_known_of_an_edge_is_null_in_json_and_read_as_an_edge(tmp_path):
    known = {"partial_correlation": [0.5, np.nan], "standard_error": [0.1, np.inf]}
    edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]} | known)
    write_graph(tmp_path / "e.json", list("abc"), edges)

    def refuse(word):
        raise AssertionError(word)

    stated = json.loads((tmp_path / "e.json").read_text(), parse_constant=refuse)
    assert stated["links"][1]["weight"] is None
    graph = nx.node_link_graph(stated, edges="links")
    weights, names = as_matrix(graph)
    assert names == list("abc") and weights[0, 1] == 0.5 and weights[1, 2] == 1


def symmetric(values, p):
    "A symmetric matrix with unit diagonal from its entries above the diagonal."
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p, 1)] = values
    return matrix + matrix.T + np.eye(p)


def test_support_has_no_diagonal_and_a_strict_tolerance():
    matrix = symmetric([0.5, -1e-3, 0.0], 3)
    above = np.triu_indices(3, 1)
    assert support(matrix)[above].tolist() == [True, True, False]
    assert support(matrix, tol=1e-3)[above].tolist() == [True, False, False]
    assert not support(matrix).diagonal().any() and support(matrix).dtype == bool


def test_partial_correlations_are_regression_residuals():
    "The definition: what is left of two columns after regressing out all others."
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5))
        X -= X.mean(axis=0)
        rho = partial_correlations(np.linalg.inv(np.cov(X.T)))
        others = np.linalg.lstsq(X[:, 2:], X[:, :2], rcond=None)[0]
        residual = X[:, :2] - X[:, 2:] @ others
        assert rho[0, 1] == pytest.approx(np.corrcoef(residual.T)[0, 1], abs=1e-9)
        assert (rho == rho.T).all() and (np.diag(rho) == 1).all()
        assert np.abs(rho).max() <= 1


def test_absent_edges_are_positive_zero():
    rho = partial_correlations(np.eye(3))
    assert not np.signbit(rho).any()


def test_inverses_symmetric_up_to_rounding_give_exact_symmetry():
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=6)
        matrix = 0.2 * symmetric(values, 4) + np.eye(4)
        matrix[0, 1] *= 1 + 1e-14
        rho = partial_correlations(matrix)
        assert (rho == rho.T).all() and (np.diag(rho) == 1).all()


def test_bad_input_is_named():
    for call, argument in (
        (lambda: support([[1.0, 2.0], [0.0, 1.0]]), "precision"),
        (lambda: support(np.eye(2), tol=-1), "tol"),
        (lambda: support(np.ones(3)), "precision"),
        (lambda: partial_correlations(np.diag([1.0, 0.0])), "precision"),
        (lambda: partial_correlations(-np.eye(2)), "precision"),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == argument


def test_pairs_above_the_diagonal_and_their_correlations():
    rng = np.random.default_rng(0)
    for p in (1, 2, 7, 300):  # 300 columns are looked at in several strips
        upper = np.triu(rng.normal(size=(p, p)) * (rng.random((p, p)) < 0.1), 1)
        precision = upper + upper.T + 9 * np.eye(p)
        pairs = pairs_above(precision)
        expected = np.nonzero(np.triu(precision, 1))
        assert all(map(np.array_equal, pairs, expected))
        whole = partial_correlations(precision)[expected]
        assert np.array_equal(partial_correlations(precision, pairs), whole)
