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
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.recover.sparse_cholesky import combined_rows

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


def crowded(seed, p=170, scale=1.0):
    "A covariance of few rows, and a penalty at which a third of its entries remain."
    X = np.random.default_rng(seed).normal(size=(2 * p, p)) * scale
    S = X.T @ X / len(X)
    return S, float(np.quantile(np.abs(S[np.triu_indices(p, 1)]), 0.67))


def as_asked(S, alpha, tol=1e-5, rounds=1):
    "The problem as the descent sees it, and its limits."
    return (S, np.diag(S).copy(), ONE, alpha), (tol, 100, rounds)


def check_pair(S, alpha, W, Z, report):
    "In the box to the last bit, definite, and the gap is what it is said to be."
    p = len(S)
    inside = (W >= S - alpha) & (W <= S + alpha)
    assert inside[~np.eye(p, dtype=bool)].all() and (np.diag(W) == np.diag(S)).all()
    assert np.array_equal(W, W.T) and np.array_equal(Z, Z.T)
    linear = np.vdot(S, Z) + alpha * (np.abs(Z).sum() - np.trace(Z))
    gap = linear - np.linalg.slogdet(Z)[1] - np.linalg.slogdet(W)[1] - p
    assert np.linalg.eigvalsh(Z)[0] > 0
    assert gap - 1e-9 <= report[1] <= gap * 1.01 + 1e-9


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e6])
def test_short_passes_lead_where_long_ones_do(scale):
    S, alpha = crowded(3, scale=scale)
    start = thresholded(S, np.zeros(170), ONE, alpha)
    problem, limits = as_asked(S, alpha)
    assert descent._may_be_short(problem, limits, descent.fresh_state())
    done, (W,), (Z,), (report,) = run(S, [alpha], start, 0.0, tol=1e-5, rounds=1)
    assert done == 1 and report[1] <= 170e-5
    check_pair(S, alpha, W, Z, report)
    tight = run(S, [alpha], start, 0.0, tol=1e-10, rounds=1)[2][0]
    assert np.abs(Z - tight).max() < 3e-3 * np.abs(tight).max()


def test_short_passes_are_only_for_crowded_answers():
    S, alpha = crowded(4)
    fresh = descent.fresh_state()
    wanted = lambda *asked, state=fresh: descent._may_be_short(*asked, state)
    assert wanted(*as_asked(S, alpha))
    assert wanted(*as_asked(S, alpha, tol=1e-9))
    assert not wanted(*as_asked(S, alpha, rounds=descent.CAREFUL))
    assert not wanted(*as_asked(S, np.sort(np.abs(S).ravel())[-400]))
    assert not wanted(*as_asked(S * 1e20, alpha * 1e20))
    assert not wanted(*as_asked(S[:59, :59], alpha))
    spent = descent.fresh_state()
    spent[descent._LONG] = 1.0
    assert not wanted(*as_asked(S, alpha), state=spent)


@pytest.mark.parametrize("tol", [1e-5, 1e-8, 1e-11])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 6, 8])
def test_short_passes_end_in_a_pair_however_few_are_allowed(tol, most):
    S, alpha = crowded(7)
    start = thresholded(S, np.zeros(170), ONE, alpha)
    limits = dict(tol=tol, max_sweeps=most, rounds=1)
    done, (W,), (Z,), (report,) = run(S, [alpha], start, 0.0, **limits)
    assert done == 1
    check_pair(S, alpha, W, Z, report)


def test_short_passes_stop_and_go_on():
    S, alpha = crowded(5)
    W = thresholded(S, np.zeros(170), ONE, alpha)[None]
    Z, report = np.zeros((1, 170, 170)), np.zeros((1, 4))
    state = descent.fresh_state(1e5)
    asked = S, np.zeros(170), ONE, np.array([alpha]), np.zeros((170, 170)), W, Z
    pauses = 0
    while descend(*asked, (1e-5, 100, 1), state, report) == 0:
        assert state[-1] < 0 and np.linalg.eigvalsh(W[0])[0] > 0
        state[-1], pauses = 1e5, pauses + 1
        assert pauses < 1000
    assert pauses > 20
    check_pair(S, alpha, W[0], Z[0], report[0])


def test_a_short_pass_gives_up_where_seven_digits_are_too_few():
    "Two columns that are nearly one, and may be so: `graphical_lasso` then solves it."
    S, alpha = crowded(6)
    S[1], S[:, 1], S[1, 1] = S[0], S[:, 0], S[0, 0]
    S[0, 1] = S[1, 0] = S[0, 0] * (1 - 1e-9)
    weights = np.ones((170, 170))
    weights[0, 1] = weights[1, 0] = 0.0
    start = thresholded(S, np.zeros(170), weights, alpha)
    problem = S, np.diag(S).copy(), weights, alpha
    assert descent._may_be_short(problem, (1e-5, 100, 1), descent.fresh_state())
    ended = []
    for kind in (np.float32, np.float64):
        state = descent.fresh_state()
        state[descent._COLUMN_TOL] = 1e-3
        own = S.astype(kind), np.diag(S).astype(kind), weights, alpha
        pair = start.astype(kind), np.zeros((170, 170), kind)
        ended.append(descent._rough_sweep(*own, *pair, 1 / np.diag(S), state))
    assert ended == [descent._FAILED] * 2  # a ten-thousandth of the diagonal
    found = graphical_lasso(
        S, alpha, penalize_diagonal=False, weights=weights - np.eye(170), tol=1e-5
    )
    assert found.dual_gap <= 170e-5
