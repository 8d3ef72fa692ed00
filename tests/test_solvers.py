"""Solvers: scikit-learn's answers, optimality conditions, certificates checked by plain numpy, bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.covariance import graphical_lasso as sklearn_graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from privglasso.solvers import (
    ConvergenceError,
    GraphicalLassoResult,
    InfeasibleError,
    dual_gap,
    graphical_lasso,
    graphical_lasso_path,
    largest_alpha,
    min_feasible_alpha,
    nearest_psd,
    objective,
)
from privglasso.validation import InputError

DEMO = np.array([[0.5, 0.8], [0.8, 0.5]])
SOLVERS = ("admm", "block_descent")
solver_names, flags, seeds = st.sampled_from(SOLVERS), st.booleans(), st.integers(0, 10**6)


def gram(p, n, seed, minus=0.0):
    "A sample covariance of correlated columns in unequal units, `minus` times the diagonal taken off."
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.5 * rng.normal(size=(p, p)) / np.sqrt(p))
    S = X.T @ X / n
    return S - minus * np.diag(np.diag(S))


def residual(S, result):
    "Largest violation of the first-order conditions."
    T = S + result.alpha * np.eye(len(S)) * result.penalize_diagonal
    limits = result.alpha * (1 - np.eye(len(S)))
    difference = np.linalg.inv(result.precision) - T
    active = np.abs(difference - limits * np.sign(result.precision))
    return np.where(result.precision != 0, active, np.maximum(np.abs(difference) - limits, 0)).max()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.7, 0.3, 0.1])
def test_equals_scikit_learn(solver, seed, share):
    S = gram(8, 60, seed)
    alpha, options = share * largest_alpha(S), dict(tol=1e-11, enet_tol=1e-11, max_iter=2000)
    _, free = sklearn_graphical_lasso(S, alpha, **options)
    _, penalised = sklearn_graphical_lasso(S + alpha * np.eye(8), alpha, **options)
    ours = graphical_lasso(S, alpha, solver=solver, penalize_diagonal=False, tol=1e-14)
    assert np.abs(ours.precision - free).max() < 1e-6
    assert np.abs(graphical_lasso(S, alpha, solver=solver, tol=1e-14).precision - penalised).max() < 1e-6


@given(p=st.integers(1, 8), seed=seeds, minus=st.sampled_from([0, 0.2, 0.6]), factor=st.sampled_from([1.1, 1.5, 4]),
       solver=solver_names, penalize_diagonal=flags)
@settings(max_examples=60, deadline=None)
def test_optimality_conditions(p, seed, minus, factor, solver, penalize_diagonal):
    S = gram(p, 2 * p + 2, seed, minus)
    alpha = factor * (min_feasible_alpha(S, penalize_diagonal).upper + 0.02)
    result = graphical_lasso(S, alpha, solver=solver, penalize_diagonal=penalize_diagonal, tol=1e-11, max_iter=20000)
    assert residual(S, result) < 1e-3 * max(alpha, np.abs(S).max())
    assert np.array_equal(result.precision, result.precision.T)
    assert np.linalg.eigvalsh(result.precision)[0] > 0
    assert 0 <= result.dual_gap <= 1e-11 * p
    again = dual_gap(S, alpha, result.precision, result.dual_covariance, penalize_diagonal)
    assert again == pytest.approx(result.dual_gap, abs=1e-10)
    assert objective(S, alpha, result.precision, penalize_diagonal) == pytest.approx(result.objective)
    assert np.allclose(result.covariance @ result.precision, np.eye(p), atol=1e-8)
    W = result.dual_covariance
    assert np.linalg.eigvalsh(W)[0] > 0 and np.abs(W - S).max() <= alpha * (1 + 1e-12) + 1e-13


@given(seed=seeds, iterations=st.integers(1, 30), solver=solver_names)
@settings(max_examples=40, deadline=None)
def test_gap_is_true_when_stopped_early(seed, iterations, solver):
    S = gram(6, 5, seed, 0.3)
    alpha = 1.05 * min_feasible_alpha(S).upper
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = graphical_lasso(S, alpha, solver=solver, max_iter=iterations, tol=1e-15)
    best = graphical_lasso(S, alpha, solver="block_descent", tol=1e-10)
    assert early.dual_gap >= early.objective - best.objective - 1e-9
    assert early.dual_gap >= 0 and np.linalg.eigvalsh(early.precision)[0] > 0


@given(p=st.integers(1, 12), seed=seeds, minus=st.sampled_from([0.1, 0.5, 1.3]), penalize_diagonal=flags)
@settings(max_examples=60, deadline=None)
def test_threshold_certificates(p, seed, minus, penalize_diagonal):
    S = gram(p, p + 1, seed, minus)
    bounds = min_feasible_alpha(S, penalize_diagonal)
    if not penalize_diagonal and np.diag(S).min() <= 0:
        assert np.isinf(bounds.lower) and bounds.witness is None and np.trace(S @ bounds.certificate) <= 0
        return
    W, V, zero = bounds.witness, bounds.certificate, 1e-12 * np.abs(S).sum()
    assert np.linalg.eigvalsh(W)[0] >= -zero and np.abs(W - S).max() <= bounds.upper
    assert penalize_diagonal or np.allclose(np.diag(W), np.diag(S), rtol=1e-13)
    assert bounds.upper - bounds.lower <= 0.05 * bounds.upper
    if V is None:
        assert bounds.lower == 0
        return
    counted = np.abs(V) if penalize_diagonal else np.abs(V) * (1 - np.eye(p))
    assert counted.sum() == pytest.approx(1) and np.linalg.eigvalsh(V)[0] >= -1e-13
    assert -np.trace(S @ V) == pytest.approx(bounds.lower)


def test_threshold_against_a_linear_program():
    "p = 2, diagonal penalised: min t over W with W_11 = s + t and |W_12| <= W_11, solved exactly."
    for off in (0.6, 0.8, 2.0):
        S = np.array([[0.5, off], [off, 0.5]])
        exact = linprog([0, 1], A_ub=[[1, -1], [-1, -1]], b_ub=[0.5, -off], bounds=[(None, None), (0, None)]).fun
        bounds = min_feasible_alpha(S, rtol=1e-5)
        assert bounds.lower <= exact + 1e-12 and exact <= bounds.upper + 1e-12
    assert min_feasible_alpha(DEMO, rtol=1e-6).upper == pytest.approx(0.15, rel=1e-5)
    assert min_feasible_alpha(DEMO, False, rtol=1e-6).upper == pytest.approx(0.30, rel=1e-5)


@given(a=st.floats(-1, 1), c=st.floats(-1, 1), off=st.floats(0.01, 2), sign=st.sampled_from([-1, 1]))
@settings(max_examples=60, deadline=None)
def test_threshold_of_two_columns_in_closed_form(a, c, off, sign):
    fraction = (off * off - a * c) / (a + c + 2 * off) if min(off + a, off + c) > 1e-9 else 0.0
    exact = max(0.0, -a, -c, fraction)
    bounds = min_feasible_alpha([[a, sign * off], [sign * off, c]])
    assert bounds.lower <= exact + 1e-9 and exact <= bounds.upper + 1e-9


@given(seed=seeds, p=st.integers(2, 8), tol=st.sampled_from([1e-1, 1e-3]), factor=st.sampled_from([1.2, 3]))
@settings(max_examples=25, deadline=None)
def test_the_gap_encloses_the_solution_itself(seed, p, tol, factor):
    S = gram(p, p + 2, seed, 0.4)
    alpha = factor * (min_feasible_alpha(S).upper + 0.02)
    rough = graphical_lasso(S, alpha, tol=tol)
    best = graphical_lasso(S, alpha, solver="block_descent", tol=1e-13)
    x = np.linalg.eigvals(best.precision @ rough.dual_covariance).real
    assert (x - 1 - np.log(x)).sum() <= rough.dual_gap + 1e-8


@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_feasible_just_above_and_refused_just_below(penalize_diagonal, scale):
    S = gram(10, 8, 3, 0.3) * scale
    bounds = min_feasible_alpha(S, penalize_diagonal, rtol=1e-3)
    result = graphical_lasso(S, 1.01 * bounds.upper, penalize_diagonal=penalize_diagonal, solver="block_descent")
    assert result.dual_gap <= 1e-5
    with pytest.raises(InfeasibleError) as caught:
        graphical_lasso(S, 0.98 * bounds.lower, penalize_diagonal=penalize_diagonal)
    refusal = caught.value
    assert refusal.alpha <= refusal.lower_bound < refusal.works <= 1.08 * bounds.upper
    graphical_lasso(S, refusal.works, penalize_diagonal=penalize_diagonal, solver="block_descent")
    with pytest.raises(ConvergenceError) as caught:
        edge = min_feasible_alpha(S, penalize_diagonal, rtol=1e-4)
        graphical_lasso(S, (edge.lower + edge.upper) / 2, penalize_diagonal=penalize_diagonal)
    assert caught.value.lower_bound < caught.value.works


def test_no_alpha_works_for_a_free_diagonal_that_is_not_positive():
    for S in (-np.eye(2), np.array([[1.0, 0.3], [0.3, 0.0]])):
        with pytest.raises(InfeasibleError, match="penalise the diagonal") as caught:
            graphical_lasso(S, 10.0, penalize_diagonal=False)
        assert caught.value.works == np.inf
        assert graphical_lasso(S, 10.0).dual_gap <= 2e-6


def test_solved_where_the_printed_start_is_indefinite():
    S = np.array([[0.5, 0.8, 0.1], [0.8, 0.5, 0.1], [0.1, 0.1, 1.0]])
    one, other = (graphical_lasso(S, 0.2, solver=solver, tol=1e-13) for solver in SOLVERS)
    assert np.abs(one.precision - other.precision).max() < 1e-4
    assert residual(S, one) < 1e-5


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_path_equals_single_solutions(solver, penalize_diagonal):
    S = gram(7, 30, 5, 0.2)
    low = max(1.2 * min_feasible_alpha(S, penalize_diagonal).upper, 0.05)
    alphas = np.geomspace(low, 2 * largest_alpha(S) + low, 6)
    path = graphical_lasso_path(S, np.random.default_rng(0).permutation(alphas), solver=solver, tol=1e-13,
                                penalize_diagonal=penalize_diagonal)
    assert [result.alpha for result in path] == sorted(alphas, reverse=True)
    for result in path:
        alone = graphical_lasso(S, result.alpha, solver=solver, tol=1e-13, penalize_diagonal=penalize_diagonal)
        assert np.abs(alone.precision - result.precision).max() < 1e-4
        assert np.array_equal(alone.precision != 0, result.precision != 0)


def test_path_refuses_before_solving_and_names_the_alpha():
    with pytest.raises(InfeasibleError, match="alpha=0.1:"):
        graphical_lasso_path(DEMO, [0.4, 0.1, 0.2])
    for alphas in ([], [1, -1], [1, np.nan], 0.5, [[1, 2]], ["a"]):
        with pytest.raises(InputError, match="alphas="):
            graphical_lasso_path(DEMO, alphas)


def test_largest_alpha_empties_the_graph():
    S = gram(9, 40, 7)
    edge = largest_alpha(S)
    count = [np.count_nonzero(graphical_lasso(S, alpha, tol=1e-12).precision) for alpha in (edge, 0.999 * edge)]
    assert count == [9, 11]
    assert largest_alpha([[2.0]]) == 0


def test_units_do_not_matter():
    S, units = gram(6, 40, 8), np.array([1.0, 1e3, 1e-3, 10, 1, 1e2])
    S = S * np.outer(units, units)
    alpha = 0.1 * largest_alpha(S)
    for solver in SOLVERS:
        big, small = graphical_lasso(S, alpha, solver=solver), graphical_lasso(S * 1e6, alpha * 1e6, solver=solver)
        assert np.allclose(big.precision, small.precision * 1e6, rtol=1e-9)


def test_a_start_changes_the_work_not_the_answer():
    S, other = gram(8, 40, 9), gram(8, 40, 10)
    start = graphical_lasso(other, 0.3)
    for solver in SOLVERS:
        cold, warm = (graphical_lasso(S, 0.1, solver=solver, tol=1e-13, start=s) for s in (None, start))
        assert np.abs(cold.precision - warm.precision).max() < 1e-5
    again = graphical_lasso(S, 0.1, start=cold)
    assert again.n_iter <= 2


def test_nearest_psd():
    S = gram(10, 8, 11, 0.4)
    for norm in ("max", "frobenius"):
        assert np.linalg.eigvalsh(nearest_psd(S, norm))[0] > -1e-13
    values, Q = np.linalg.eigh(S)
    assert np.allclose(nearest_psd(S), (Q * np.maximum(values, 0)) @ Q.T, atol=1e-13)
    assert np.abs(nearest_psd(S, "max") - S).max() <= min_feasible_alpha(S).upper
    assert np.array_equal(nearest_psd(np.eye(3), "max"), np.eye(3))
    with pytest.raises(InputError, match="norm="):
        nearest_psd(S, "nuclear")


def test_stopping_early_warns_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="duality gap is"):
        result = graphical_lasso(gram(8, 40, 12), 0.01, max_iter=1, tol=1e-10)
    assert result.dual_gap > 8e-10


RESULT = graphical_lasso(np.eye(3), 0.1)


@pytest.mark.parametrize("options, named", [
    (dict(alpha=0), "alpha="), (dict(alpha=-1), "alpha="), (dict(alpha=np.nan), "alpha="), (dict(alpha="x"), "alpha="),
    (dict(alpha=True), "alpha="), (dict(alpha=[1.0]), "alpha="), (dict(alpha=np.inf), "alpha="),
    (dict(S=[[1, 2], [3, 4]]), "S="), (dict(S=[[1, np.nan], [np.nan, 1]]), "S="), (dict(S=np.ones((2, 3))), "S="),
    (dict(S=[["a"]]), "S="), (dict(S=np.empty((0, 0))), "S="), (dict(S=1.0), "S="),
    (dict(solver="newton"), "solver="), (dict(tol=0), "tol="), (dict(tol=-1), "tol="), (dict(tol="x"), "tol="),
    (dict(max_iter=0), "max_iter="), (dict(max_iter=1.5), "max_iter="), (dict(max_iter=None), "max_iter="),
    (dict(start=np.eye(2)), "start="), (dict(start=RESULT), "start="), (dict(solver=["admm"]), "solver="),
])
def test_bad_input_is_named(options, named):
    options = dict(S=np.eye(2), alpha=0.5) | options
    S, alpha = options.pop("S"), options.pop("alpha")
    with pytest.raises(InputError, match=named):
        graphical_lasso(S, alpha, **options)


def test_bad_pairs_have_no_gap():
    S = np.eye(2)
    assert objective(S, 1.0, -np.eye(2)) == np.inf
    one, two = np.eye(2), 2 * np.eye(2)
    for precision, W, named in ((-one, two, "positive definite"), (one, one, "outside the box"),
                                (np.eye(3), two, "precision="), (one, [[2, 2.5], [2.5, 2]], "outside")):
        with pytest.raises(InputError, match=named):
            dual_gap(S, 1.0, precision, W)
    for rtol in (0, 1, -1, "x", np.nan):
        with pytest.raises(InputError, match="rtol="):
            min_feasible_alpha(S, rtol=rtol)


def test_one_variable_and_extreme_matrices():
    assert graphical_lasso([[1.0]], 0.2).precision[0, 0] == pytest.approx(1 / 1.2)
    assert graphical_lasso([[1.0]], 0.2, penalize_diagonal=False).precision[0, 0] == pytest.approx(1)
    assert graphical_lasso([[-1.0]], 1.5).precision[0, 0] == pytest.approx(2)
    with pytest.raises(InfeasibleError):
        graphical_lasso([[-1.0]], 0.9)
    assert np.allclose(graphical_lasso(np.zeros((3, 3)), 0.5).precision, 2 * np.eye(3))
    assert isinstance(graphical_lasso(-np.ones((3, 3)), 1.5), GraphicalLassoResult)
