"""Filters of graphs: what they are, one edge more or less, the bounds, bad input."""

import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.papers.gaussian_pair import SupportError, epsilon_between
from privglasso.papers.gaussian_pair import gaussian_pair, renyi_divergence
from privglasso.papers.gaussian_pair import renyi_epsilon
from privglasso.papers.graph_filter import Excitation, GraphError, adjacency_shift
from privglasso.papers.graph_filter import ar1_covariance, diffusion_change
from privglasso.papers.graph_filter import diffusion_filter, excitation_epsilon
from privglasso.papers.graph_filter import gso_epsilon, gso_epsilon_bound, gso_pair
from privglasso.papers.graph_filter import gso_renyi, gso_renyi_bound, laplacian_shift
from privglasso.papers.graph_filter import polynomial_filter, power_flow_filter
from privglasso.papers.graph_filter import relative_change, spectral_renyi_bound
from privglasso.privacy.gdp import epsilon_gdp

PATH, CYCLE = (
    diffusion_filter(adjacency_shift(g(4)), 0.1)
    for g in (nx.path_graph, nx.cycle_graph)
)


def excitation(T=3, sigma=1.0, rho=0.0, n=4, seed=0):
    mean = np.random.default_rng(seed).normal(size=(n, T))
    return Excitation(mean, ar1_covariance(T, sigma, rho))


# graphs and filters


def test_shifts_and_filters_are_what_they_say():
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 0.5)])
    S, L = adjacency_shift(graph), laplacian_shift(graph)
    assert S.tolist() == [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    assert np.allclose(L, nx.laplacian_matrix(graph).toarray())
    assert np.allclose(diffusion_filter(S, 0.2) @ (np.eye(3) - 0.2 * S), np.eye(3))
    assert np.allclose(power_flow_filter(L), np.linalg.pinv(L), atol=1e-12)
    assert np.allclose(polynomial_filter(S, [1, 2, 3]), np.eye(3) + 2 * S + 3 * S @ S)
    assert np.allclose(polynomial_filter(pd.DataFrame(S), [0, 1]), S)


def test_bad_graphs():
    islands = laplacian_shift(nx.Graph([(0, 1), (2, 3)]))
    for graph in (
        nx.DiGraph([(0, 1)]),
        nx.MultiGraph([(0, 1), (0, 1)]),
        nx.Graph([(0, 0), (0, 1)]),
        nx.empty_graph(3),
        np.eye(3),
        nx.Graph([(0, 1, {"weight": np.nan})]),
    ):
        for shift in (adjacency_shift, laplacian_shift):
            with pytest.raises(GraphError):
                shift(graph)
    with pytest.raises(GraphError):
        power_flow_filter(islands)


ONES, EYE, NONE = np.ones((2, 2)), np.eye(2), np.zeros((4, 2))
REFUSED = [
    (diffusion_filter, (ONES, 0.5), "rate"),
    (diffusion_filter, (ONES, 0), "rate"),
    (diffusion_filter, ([[0, 1], [0, 0]], 0.1), "shift"),
    (polynomial_filter, (EYE, []), "coefficients"),
    (polynomial_filter, (EYE, [1, np.inf]), "coefficients"),
    (power_flow_filter, (EYE,), "laplacian"),
    (ar1_covariance, (0, 1.0), "samples"),
    (ar1_covariance, (3, 0.0), "sigma"),
    (ar1_covariance, (3, 1.0, 1.0), "correlation"),
    (Excitation, (np.zeros((4, 0)), np.zeros((0, 0))), "mean"),
    (Excitation, (np.zeros(4), np.eye(4)), "mean"),
    (Excitation, ([[np.nan]], [[1.0]]), "mean"),
    (Excitation, (NONE, np.eye(3)), "temporal"),
    (Excitation, (NONE, ONES), "temporal"),
    (Excitation, (NONE, EYE, np.eye(3)), "spatial"),
    (gso_pair, (np.eye(3), np.eye(3), excitation()), "filter"),
    (gso_pair, (PATH, PATH * np.nan, excitation()), "other"),
    (gso_epsilon, (PATH, CYCLE, excitation(), 0.0), "delta"),
    (gso_renyi, (PATH, CYCLE, excitation(), 1e9), "alpha"),
    (relative_change, (ONES, EYE), "filter"),
    (relative_change, (EYE * np.nan, EYE), "filter"),
    (relative_change, (EYE, np.eye(3)), "other"),
    (relative_change, (EYE, EYE, np.diag([1.0, 0])), "spatial"),
    (diffusion_change, (0.2, 5), "rate"),
    (spectral_renyi_bound, (3.0, 1.0, 2.0, 4), "alpha"),
    (spectral_renyi_bound, (1.0, 1.0, 1.0, 4), "alpha"),
    (spectral_renyi_bound, (1.5, 2.0, 1.0, 4), "largest"),
    (spectral_renyi_bound, (1.5, 1.0, 2.0, 0), "coordinates"),
    (gso_renyi_bound, (6.0, 0.1, 4), "alpha"),
    (gso_renyi_bound, (1.0, 0.1, 4), "alpha"),
    (gso_renyi_bound, (2.0, 1.0, 4), "change"),
    (gso_epsilon_bound, (1e-3, -0.1, 4), "change"),
    (gso_epsilon_bound, (0.0, 0.1, 4), "delta"),
    (gso_epsilon_bound, (1e-3, 0.1, 0), "coordinates"),
    (gso_epsilon_bound, (1e-3, 0.1, 4, math.inf), "signal"),
    (excitation_epsilon, (1e-3, ONES, 1.0), "temporal"),
    (excitation_epsilon, (1e-3, EYE, 0.0), "sensitivity"),
    (excitation_epsilon, (2.0, EYE, 1.0), "delta"),
]


def test_bad_arguments_are_named():
    for function, arguments, named in REFUSED:
        with pytest.raises(InputError) as caught:
            function(*arguments)
        assert caught.value.argument == named, (function, arguments)


def test_a_refused_order_names_the_end_of_the_validity():
    for function, arguments, end in (
        (spectral_renyi_bound, (3.0, 1.0, 2.0, 4), "2:"),
        (spectral_renyi_bound, (1.0, 1.0, 1.0, 4), "inf:"),
        (gso_renyi_bound, (6.0, 0.1, 4), "5.26316:"),
        (gso_renyi_bound, (1.0, 0.0, 4), "inf:"),
    ):
        with pytest.raises(InputError, match=f"1 < alpha < {end}"):
            function(*arguments)


# one edge


def dense_pair(H, other, excitation):
    "The same two laws from their full covariances."
    T, vec = excitation.mean.shape[1], excitation.mean.T.ravel()
    Sigma = np.kron(excitation.temporal, excitation.spatial)
    one, two = np.kron(np.eye(T), H), np.kron(np.eye(T), other)
    return gaussian_pair(one @ vec, one @ Sigma @ one.T, two @ vec, two @ Sigma @ two.T)


@pytest.mark.parametrize("T", [1, 5])
def test_kronecker_agrees_with_dense(T):
    rng = np.random.default_rng(T)
    root = np.eye(4) + 0.2 * rng.normal(size=(4, 4))
    noise = Excitation(
        rng.normal(size=(4, T)), ar1_covariance(T, 0.7, -0.4), root @ root.T
    )
    fast, dense = gso_pair(PATH, CYCLE, noise), dense_pair(PATH, CYCLE, noise)
    for alpha in (1.1, 2.0, 4.0):
        expected = renyi_divergence(dense, alpha)
        assert renyi_divergence(fast, alpha) == pytest.approx(expected, rel=1e-8)
    expected = epsilon_between(dense, 1e-3)
    assert epsilon_between(fast, 1e-3) == pytest.approx(expected, rel=1e-6)


def test_the_unit_of_the_signal_does_not_matter():
    one = excitation(3, 0.5, 0.3)
    two = Excitation(1e4 * one.mean, 1e8 * one.temporal)
    epsilon = pytest.approx(gso_epsilon(PATH, CYCLE, one, 1e-3), rel=1e-9)
    assert gso_epsilon(PATH, CYCLE, two, 1e-3) == epsilon
    assert gso_epsilon(3e5 * PATH, 3e5 * CYCLE, one, 1e-3) == epsilon


def test_the_same_network_gives_nothing_away():
    assert gso_epsilon(PATH, PATH.copy(), excitation(), 1e-9) == 0
    assert gso_renyi(PATH, PATH.copy(), excitation(), 2.0) == 0


def test_input_is_left_alone():
    given_ = PATH, CYCLE, excitation().mean, excitation().temporal
    frozen = [np.asfortranarray(x) for x in given_]
    for x in frozen:
        x.setflags(write=False)
    H, other, mean, temporal = frozen
    epsilon = gso_epsilon(H, other, Excitation(mean, temporal), 1e-3)
    views = np.stack([H, other])[:, ::-1, ::-1]
    turned = gso_epsilon(*views, Excitation(mean[::-1], temporal), 1e-3)
    assert epsilon == pytest.approx(turned, rel=1e-9)
    framed = Excitation(pd.DataFrame(mean), temporal)
    assert gso_epsilon(pd.DataFrame(H), pd.DataFrame(other), framed, 1e-3) == epsilon


def test_loads_that_leave_the_line_without_current_hide_it():
    "Corollary 2 on a ring of four buses that may be cut."
    flow, ring = (
        power_flow_filter(laplacian_shift(g(4)))
        for g in (nx.path_graph, nx.cycle_graph)
    )
    tie = flow[:, 0] - flow[:, 3]
    blind = np.eye(4) - np.outer(tie, tie) / (tie @ tie)
    mean = blind @ np.random.default_rng(0).normal(size=(4, 2))
    hidden = gso_pair(flow, ring, Excitation(mean, np.eye(2), blind))
    assert len(hidden.variance_ratio) == 0
    with pytest.raises(SupportError):  # a signal that the noise does not cover
        gso_pair(flow, ring, Excitation(mean + tie[:, None], np.eye(2), blind))


def test_an_edge_changes_few_variances():
    graph = nx.erdos_renyi_graph(12, 0.4, seed=1)
    i, j = next(nx.non_edges(graph))
    more = graph.copy()
    more.add_edge(i, j)
    noise, both = Excitation(np.zeros((12, 5)), np.eye(5)), (graph, more)
    diffusion = [diffusion_filter(adjacency_shift(g), 0.05) for g in both]
    flow = [power_flow_filter(laplacian_shift(g)) for g in both]
    assert gso_pair(*diffusion, noise).multiplicity.sum() == 4 * 5
    assert gso_pair(*flow, noise).multiplicity.sum() == 2 * 5


# bounds


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 6),
    st.floats(0.01, 0.14),
    st.integers(1, 4),
    st.floats(-0.8, 0.8),
    st.integers(0, 2**32 - 1),
)
def test_no_pair_of_graphs_exceeds_the_relative_bound(n, rate, T, rho, seed):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.5, 1)
    i, j = np.sort(rng.choice(n, 2, replace=False))
    other = A.copy()
    other[i, j] = ~other[i, j]
    H, H_other = (diffusion_filter(1.0 * (B | B.T), rate) for B in (A, other))
    noise = Excitation(rng.normal(size=(n, T)), ar1_covariance(T, 0.5, rho))
    eta = diffusion_change(rate, n - 1)
    assert relative_change(H, H_other) <= eta * (1 + 1e-12)
    strength = np.linalg.norm(noise.whitened_mean())
    proved = gso_epsilon_bound(1e-3, min(eta, 0.999), 4 * T, strength)
    assert gso_epsilon(H, H_other, noise, 1e-3) <= proved
    pair = gso_pair(H, H_other, noise)
    if eta < 1:
        alpha = 1 + 0.7 * (1 / (eta * (2 - eta)) - 1)
        bound = gso_renyi_bound(alpha, eta, 4 * T, strength)
        for one in (pair, pair.reverse()):
            assert renyi_divergence(one, alpha) <= bound * (1 + 1e-9)


def test_bounds_vanish_where_they_should():
    assert gso_epsilon_bound(1e-3, 0.0, 10, 1e6) == 0
    assert gso_renyi_bound(5.0, 0.0, 10, 3.0) == 0
    small = [gso_epsilon_bound(1e-3, eta, 80) for eta in (1e-2, 1e-3, 1e-4)]
    assert small[0] > small[1] > small[2] >= 0 and small[2] < 0.01
    assert spectral_renyi_bound(1.5, 1.0, 1.0, 10) == 0
    # whatever the graphs have to do with each other
    assert spectral_renyi_bound(1.5, 1.0, 1.2, 10) > 0


def test_the_worst_case_of_the_bound_is_attained():
    "One coordinate whose filter shrinks: equality in the variance, up to rounding."
    eta, r, noise = 0.2, 1.5, Excitation([[0.0]], [[1.0]])
    exact = gso_renyi([[1.0]], [[1 - eta]], noise, 2.0)
    assert gso_renyi_bound(2.0, eta, 1) == pytest.approx(exact, rel=1e-12)
    exact = gso_renyi([[math.sqrt(r)]], [[1.0]], noise, 2.0)
    assert spectral_renyi_bound(2.0, 1.0, r, 1) == pytest.approx(exact, rel=1e-12)


def test_figure_one_levels_off():
    "The level of the figure: (19), the exact divergence and ε, without signal."
    S = adjacency_shift(nx.erdos_renyi_graph(7, 0.5, seed=3))
    H = diffusion_filter(S, 0.01)
    noise = Excitation(np.zeros((7, 20)), ar1_covariance(20, 1.0, 0.9))
    orders, levels = 1 + np.geomspace(1, 47, 300), []
    for i, j in ((0, 1), (0, 2)):
        other = S.copy()
        other[i, j] = other[j, i] = 1 - S[i, j]
        other = diffusion_filter(other, 0.01)
        pair = gso_pair(H, other, noise)
        by_19 = min(renyi_divergence(pair, a) + math.log(1e3) / (a - 1) for a in orders)
        exact = gso_epsilon(H, other, noise, 1e-3)
        levels.append((by_19, renyi_epsilon(pair, 1e-3), exact))
    printed = [(0.387, 0.228, 0.180), (0.384, 0.227, 0.180)]
    assert np.allclose(levels, printed, atol=1e-3)


def test_the_input_under_correlated_noise():
    for rho, factor in ((0.0, 1.0), (0.5, 1.727), (0.9, 4.346)):
        temporal = ar1_covariance(20, 10.0, rho)
        found = excitation_epsilon(1e-3, temporal, 1.0)
        assert found == pytest.approx(epsilon_gdp(1e-3, factor / 10), rel=1e-3)
        direction = np.linalg.eigh(temporal)[1][:, 0]  # of the least variance
        worst = gaussian_pair(np.zeros(20), temporal, direction, temporal)
        assert epsilon_between(worst, 1e-3) == pytest.approx(found, rel=1e-7)
