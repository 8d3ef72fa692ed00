"""The compiled descent: its parts against numpy, and what each step promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.linear_model import Lasso

from privglasso.recover import block_descent as descent
from privglasso.recover.block_descent import descend, thresholded
from privglasso.recover.components import connected_columns
from privglasso.recover.sparse_certificates import combined_rows

seeds = st.integers(0, 10**6)
ONE = np.ones((1, 1))


def definite(p, seed, ridge=0.2):
    "A random positive definite matrix."
    A = np.random.default_rng(seed).normal(size=(p, p)) / np.sqrt(p)
    return A @ A.T + ridge * np.eye(p)


def symmetric(p, seed):
    "A random symmetric matrix with a positive diagonal, mostly indefinite."
    A = np.random.default_rng(seed).normal(size=(p, p)) / np.sqrt(p)
    return (A + A.T) / 2 + np.eye(p)


def test_a_product_of_any_size():
    for k in (0, 1, 7, 8, 9, 15, 16, 30):
        rng, W = np.random.default_rng(k), definite(30, k)
        support, b = rng.permutation(30)[:k], rng.normal(size=k)
        found = combined_rows(W, support, b)
        assert np.allclose(found, W[:, support] @ b, atol=1e-13)
        assert np.array_equal(descent.gram(W, support), W[np.ix_(support, support)])
        assert np.array_equal(descent.take(W[0], support), W[0, support])
        marked = np.zeros(30)
        marked[support] = b
        assert np.array_equal(descent._support(marked), np.sort(support))


@given(seed=seeds, p=st.integers(1, 30), k=st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_violated_conditions_are_found_outside_the_support(seed, p, k):
    rng = np.random.default_rng(seed)
    support, w, s = rng.permutation(p)[:k], rng.normal(size=p), rng.normal(size=p)
    limit = rng.uniform(0, 3, p)
    violated = np.setdiff1d(np.flatnonzero(np.abs(s - w) > limit * (1 + 1e-9)), support)
    assert np.array_equal(descent._violated(support, w, s, limit), violated)


@given(seed=seeds, k=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_coordinates_solve_the_lasso(seed, k):
    rng = np.random.default_rng(seed)
    A, y, alpha = rng.normal(size=(3 * k, k)), rng.normal(size=3 * k), 0.3
    b = np.zeros(k)
    problem = A.T @ A / (3 * k), A.T @ y / (3 * k), np.full(k, alpha)
    descent._lasso(*problem, b, 1e-28, descent.fresh_state())
    peer = Lasso(alpha, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(A, y)
    assert np.allclose(b, peer.coef_, atol=1e-7)
    exact = np.zeros(k)
    descent._exact_lasso(*problem, exact, descent.fresh_state())
    assert np.allclose(exact, peer.coef_, atol=1e-7)


@given(seed=seeds, p=st.integers(1, 20), alpha=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_components_are_those_of_the_thresholded_graph(seed, p, alpha):
    S, rng = symmetric(p, seed), np.random.default_rng(seed)
    weights = np.triu(rng.uniform(0, 2, (p, p)), 1)
    for w in (ONE, weights + weights.T):
        count, labels = connected_components(np.abs(S) > alpha * w, directed=False)
        ours = connected_columns(S, w, alpha)
        assert (
            ours.max() + 1 == count
            and len(set(zip(labels, ours, strict=True))) == count
        )


def run(
    S, alphas, start=None, shift=1.0, weights=ONE, tol=1e-8, max_sweeps=2000, rounds=2
):
    "A path from `start`, by default diagonal: how many solved, pairs, reports."
    p, m = len(S), len(alphas)
    duals, precisions, reports = (
        np.zeros((m, p, p)),
        np.zeros((m, p, p)),
        np.zeros((m, 4)),
    )
    duals[0] = np.diag(np.diag(S) + alphas[0] * shift) if start is None else start
    done = descend(
        S,
        np.full(p, shift),
        weights,
        np.array(alphas),
        np.zeros((p, p)),
        duals,
        precisions,
        (tol, max_sweeps, rounds),
        descent.fresh_state(),
        reports,
    )
    return done, duals, precisions, reports


@given(
    seed=seeds,
    p=st.integers(1, 15),
    alpha=st.floats(0.01, 1),
    shift=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=50, deadline=None)
def test_definite_whatever_happens(seed, p, alpha, shift):
    "Any definite start, any S: what is left is definite, and a success is in the box."
    S, start = symmetric(p, seed), definite(p, seed + 1)
    done, (W,), (Z,), (report,) = run(S, [alpha], start, shift, max_sweeps=50)
    assert np.linalg.eigvalsh(W)[0] > 0 and np.array_equal(W, W.T)
    if done:
        limits = alpha * (1 - np.eye(p))
        T = S + alpha * shift * np.eye(p)
        assert (np.abs(W - T) <= limits + 1e-14).all()
        assert np.linalg.eigvalsh(Z)[0] > 0 and np.array_equal(Z, Z.T)
        linear = np.vdot(T, Z) + np.vdot(limits, np.abs(Z))
        gap = linear - np.linalg.slogdet(Z)[1] - np.linalg.slogdet(W)[1] - p
        assert report[0] == pytest.approx(linear, rel=1e-9, abs=1e-9)
        assert (
            report[1] == pytest.approx(max(gap, 0), abs=1e-9)
            and report[1] >= gap - 1e-12
        )


@given(seed=seeds, p=st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_a_pass_that_gets_through_proves_a_solution_and_later_ones_climb(seed, p):
    S, W, log_dets = symmetric(p, seed), None, []
    for _ in range(6):
        done, (W,), _, _ = run(S, [0.4], W, max_sweeps=1, rounds=1000)
        if not done:
            assert log_dets == []  # only a first pass may fail
            break
        log_dets.append(np.linalg.slogdet(W)[1])
    assert (np.diff(log_dets) > -1e-9).all()


def test_a_path_is_its_single_problems():
    S = definite(12, 5)
    alphas = [0.4, 0.2, 0.1, 0.05]
    done, duals, precisions, reports = run(S, alphas, tol=1e-12)
    assert done == 4 and (reports[:, 2] >= 1).all()
    for m, alpha in enumerate(alphas):
        alone = run(S, [alpha], tol=1e-12)
        assert np.allclose(alone[2][0], precisions[m], atol=1e-5)
        assert np.array_equal(alone[2][0] != 0, precisions[m] != 0)


def test_one_compiled_version_serves_all():
    "Scalar and matrix weights, paths and single problems: more would compile longer."
    before = len(descend.compiled.signatures)
    run(definite(4, 0), [0.1])
    run(definite(4, 0), [0.2, 0.1], weights=np.ones((4, 4)))
    assert len(descend.compiled.signatures) <= max(before, 1)


@given(
    seed=seeds,
    p=st.integers(1, 12),
    alpha=st.floats(0.01, 3),
    shift=st.sampled_from([0.0, 1.0]),
    weighted=st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_from_the_thresholded_matrix_no_complement_fails(
    seed, p, alpha, shift, weighted
):
    S, rng = symmetric(p, seed), np.random.default_rng(seed)
    weights = np.exp(rng.normal(size=(p, p))) if weighted else ONE
    weights = (weights + weights.T) / 2
    W = thresholded(S, np.full(p, shift), weights, alpha)
    limits = alpha * np.broadcast_to(weights, (p, p)) * (1 - np.eye(p))
    T = S + alpha * shift * np.eye(p)
    assert np.array_equal(W, W.T) and (np.abs(W - T) <= limits + 1e-15).all()
    assert np.allclose(
        np.abs(W), np.maximum(np.abs(T) - limits, 0), atol=1e-15
    )  # no point of the box is smaller
    if np.linalg.eigvalsh(W)[0] > 1e-9:
        assert run(S, [alpha], W, shift, weights, rounds=1000)[0] == 1
