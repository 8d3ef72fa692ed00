"""The solver: answers of scikit-learn and R, optimality, components, strategies."""

import tracemalloc
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import graphical_lasso as sklearn_graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from privglasso.base import kernels
from privglasso.base.validation import InputError
from privglasso.data_sets.grids import load_grid115
from privglasso.data_sets.synthetic import (
    corrected_example,
    sample_gaussian,
    tridiagonal_precision,
)
from privglasso.experiments.solver_stress import hard_problem as stress_problem
from privglasso.publish.noise_correction import correlation_scale, sample_covariance
from privglasso.recover import block_descent
from privglasso.recover import graphical_lasso as solvers
from privglasso.recover.block_descent import descend, thresholded
from privglasso.recover.components import (
    connected_columns,
    descend_apart,
    inverse_by_blocks,
    spread,
)
from privglasso.recover.feasibility import (
    ConvergenceError,
    InfeasibleError,
    min_feasible_alpha,
)
from privglasso.recover.graphical_lasso import (
    GraphicalLassoResult,
    graphical_lasso,
    graphical_lasso_path,
    iter_graphical_lasso,
)
from privglasso.recover.sparse_cholesky import _curves_upwards, sparse_rows
from privglasso.recover.textbook import dual_gap, kkt_residual, largest_alpha, objective

DEMO = np.array([[0.5, 0.8], [0.8, 0.5]])
SOLVERS = ("descent", "admm", "block_descent")
solver_names, flags, seeds = (
    st.sampled_from(SOLVERS),
    st.booleans(),
    st.integers(0, 10**6),
)


def gram(p, n, seed, minus=0.0):
    "A sample covariance in unequal units, `minus` times its diagonal taken off."
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (
        np.eye(p) + 0.5 * rng.normal(size=(p, p)) / np.sqrt(p)
    )
    S = X.T @ X / n
    return S - minus * np.diag(np.diag(S))


def residual(S, result):
    "Largest violation of the first-order conditions."
    return kkt_residual(S, result.alpha, result.precision, result.penalize_diagonal)


@pytest.mark.parametrize("solver", SOLVERS)
def test_equals_scikit_learn(solver):
    options = dict(tol=1e-11, enet_tol=1e-11, max_iter=2000)
    ours = dict(solver=solver, tol=1e-14)
    for seed, share in ((0, 0.7), (1, 0.3), (2, 0.1)):
        S = gram(8, 60, seed)
        alpha = share * largest_alpha(S)
        _, free = sklearn_graphical_lasso(S, alpha, **options)
        _, penalised = sklearn_graphical_lasso(S + alpha * np.eye(8), alpha, **options)
        found = graphical_lasso(S, alpha, penalize_diagonal=False, **ours)
        assert np.abs(found.precision - free).max() < 1e-6
        found = graphical_lasso(S, alpha, **ours)
        assert np.abs(found.precision - penalised).max() < 1e-6


@given(
    p=st.integers(1, 8),
    seed=seeds,
    minus=st.sampled_from([0, 0.2, 0.6]),
    factor=st.sampled_from([1.1, 1.5, 4]),
    solver=solver_names,
    penalize_diagonal=flags,
)
@settings(max_examples=40, deadline=None)
def test_optimality_conditions(p, seed, minus, factor, solver, penalize_diagonal):
    S = gram(p, 2 * p + 2, seed, minus)
    alpha = factor * (min_feasible_alpha(S, penalize_diagonal).upper + 0.02)
    result = graphical_lasso(
        S,
        alpha,
        solver=solver,
        penalize_diagonal=penalize_diagonal,
        tol=1e-11,
        max_iter=20000,
    )
    assert residual(S, result) < 1e-3 * max(alpha, np.abs(S).max())
    assert np.array_equal(result.precision, result.precision.T)
    assert np.linalg.eigvalsh(result.precision)[0] > 0
    assert 0 <= result.dual_gap <= 1e-11 * p
    again = dual_gap(
        S, alpha, result.precision, result.dual_covariance, penalize_diagonal
    )
    assert again == pytest.approx(result.dual_gap, abs=1e-10)
    assert objective(S, alpha, result.precision, penalize_diagonal) == pytest.approx(
        result.objective
    )
    assert np.allclose(result.covariance @ result.precision, np.eye(p), atol=1e-8)
    W = result.dual_covariance
    assert (
        np.linalg.eigvalsh(W)[0] > 0
        and np.abs(W - S).max() <= alpha * (1 + 1e-12) + 1e-13
    )


@given(seed=seeds, iterations=st.integers(1, 30), solver=solver_names)
@settings(max_examples=25, deadline=None)
def test_gap_is_true_when_stopped_early(seed, iterations, solver):
    S = gram(6, 5, seed, 0.3)
    alpha = 1.05 * min_feasible_alpha(S).upper
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = graphical_lasso(S, alpha, solver=solver, max_iter=iterations, tol=1e-15)
    best = graphical_lasso(S, alpha, solver="block_descent", tol=1e-10)
    assert early.dual_gap >= early.objective - best.objective - 1e-9
    assert early.dual_gap >= 0 and np.linalg.eigvalsh(early.precision)[0] > 0


@given(
    seed=seeds,
    p=st.integers(2, 8),
    tol=st.sampled_from([1e-1, 1e-3]),
    factor=st.sampled_from([1.2, 3]),
)
@settings(max_examples=15, deadline=None)
def test_the_gap_encloses_the_solution_itself(seed, p, tol, factor):
    S = gram(p, p + 2, seed, 0.4)
    alpha = factor * (min_feasible_alpha(S).upper + 0.02)
    rough = graphical_lasso(S, alpha, tol=tol)
    best = graphical_lasso(S, alpha, solver="block_descent", tol=1e-13)
    x = np.linalg.eigvals(best.precision @ rough.dual_covariance).real
    assert (x - 1 - np.log(x)).sum() <= rough.dual_gap + 1e-8


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_feasible_just_above_and_refused_just_below(penalize_diagonal):
    options = dict(penalize_diagonal=penalize_diagonal)
    for scale in (1e-8, 1.0, 1e8):
        S = gram(10, 8, 3, 0.3) * scale
        bounds = min_feasible_alpha(S, penalize_diagonal, rtol=1e-3)
        result = graphical_lasso(S, 1.01 * bounds.upper, **options)
        assert result.dual_gap <= 1e-5
        with pytest.raises(InfeasibleError) as caught:
            graphical_lasso(S, 0.98 * bounds.lower, **options)
        refusal = caught.value
        assert refusal.alpha <= refusal.lower_bound
        assert refusal.lower_bound < refusal.works <= 1.08 * bounds.upper
        graphical_lasso(S, refusal.works, solver="block_descent", **options)
        edge = min_feasible_alpha(S, penalize_diagonal, rtol=1e-4)
        try:  # on the edge any ending is right, if it is proved
            alpha = (edge.lower + edge.upper) / 2
            assert graphical_lasso(S, alpha, **options).dual_gap < np.inf
        except (ConvergenceError, InfeasibleError) as error:
            assert error.lower_bound < error.works


def test_no_alpha_works_for_a_free_diagonal_that_is_not_positive():
    for S in (-np.eye(2), np.array([[1.0, 0.3], [0.3, 0.0]])):
        with pytest.raises(InfeasibleError, match="penalise the diagonal") as caught:
            graphical_lasso(S, 10.0, penalize_diagonal=False)
        assert caught.value.works == np.inf
        assert graphical_lasso(S, 10.0).dual_gap <= 2e-6


@pytest.mark.parametrize(
    "solver, penalize_diagonal",
    [("descent", True), ("descent", False), ("admm", False), ("block_descent", True)],
)
def test_path_equals_single_solutions(solver, penalize_diagonal):
    S = gram(7, 30, 5, 0.2)
    low = max(1.2 * min_feasible_alpha(S, penalize_diagonal).upper, 0.05)
    alphas = np.geomspace(low, 2 * largest_alpha(S) + low, 4)
    options = dict(solver=solver, tol=1e-13, penalize_diagonal=penalize_diagonal)
    path = graphical_lasso_path(S, alphas[[2, 0, 3, 1]], **options)
    assert [result.alpha for result in path] == sorted(alphas, reverse=True)
    for result in path:
        alone = graphical_lasso(S, result.alpha, **options)
        assert np.abs(alone.precision - result.precision).max() < 1e-4
        assert np.array_equal(alone.precision != 0, result.precision != 0)


def test_a_path_names_the_smallest_alpha_or_the_argument():
    with pytest.raises(InfeasibleError) as caught:
        graphical_lasso_path(DEMO, [0.4, 0.1, 0.2])
    assert caught.value.alpha == 0.1
    bad = [], [1, -1], [1, np.nan], 0.5, [[1, 2]], ["a"], [0.4, True], [0.4, 0.0]
    for alphas in (*bad, np.array([0.4, np.inf]), [-np.inf, 1.0]):
        with pytest.raises(InputError) as caught:
            graphical_lasso_path(DEMO, alphas)
        assert caught.value.argument == "alphas"


def test_largest_alpha_empties_the_graph():
    S = gram(9, 40, 7)
    edge = largest_alpha(S)
    count = [
        np.count_nonzero(graphical_lasso(S, alpha, tol=1e-12).precision)
        for alpha in (edge, 0.999 * edge)
    ]
    assert count == [9, 11]
    assert largest_alpha([[2.0]]) == 0


def test_units_do_not_matter():
    S, units = gram(6, 40, 8), np.array([1.0, 1e3, 1e-3, 10, 1, 1e2])
    S = S * np.outer(units, units)
    alpha = 0.1 * largest_alpha(S)
    for solver in SOLVERS:
        big, small = (
            graphical_lasso(S, alpha, solver=solver),
            graphical_lasso(S * 1e6, alpha * 1e6, solver=solver),
        )
        assert np.allclose(big.precision, small.precision * 1e6, rtol=1e-9)


def test_a_start_changes_the_work_not_the_answer():
    S, other = gram(8, 40, 9), gram(8, 40, 10)
    start = graphical_lasso(other, 0.3)
    for solver in SOLVERS:
        cold, warm = (
            graphical_lasso(S, 0.1, solver=solver, tol=1e-13, start=s)
            for s in (None, start)
        )
        assert np.abs(cold.precision - warm.precision).max() < 1e-5
    again = graphical_lasso(S, 0.1, start=cold)
    assert again.n_iter <= 2


@pytest.mark.parametrize("solver", ["admm", "block_descent"])
def test_a_textbook_path_is_the_descents_and_starts_where_it_was(solver):
    for seed in range(3):
        S = corrected_example(12, 30, seed)
        alpha = 1.5 * min_feasible_alpha(S).upper + 0.2
        alphas, options = [2 * alpha, 1.001 * alpha, alpha], dict(tol=1e-10)
        path = graphical_lasso_path(S, alphas, solver=solver, **options)
        ours = graphical_lasso_path(S, alphas, **options)
        for one, two in zip(path, ours, strict=True):
            assert one.dual_gap <= 1.2e-9
            assert np.allclose(one.precision, two.precision, atol=1e-3)
        alone = graphical_lasso(S, alpha, solver=solver, **options)
        assert path[-1].n_iter <= alone.n_iter


def component_of(S, alphas, **options):
    "All columns as one component of a problem."
    chosen = dict(solver="descent", penalize_diagonal=True, weights=None, start=None)
    chosen |= dict(tol=1e-6, max_iter=5000) | options
    problem = solvers._checked(S, list(alphas), **chosen)
    _, (component,) = solvers._components(problem)
    return component


def test_of_two_unfinished_pairs_the_better_is_kept(monkeypatch):
    monkeypatch.setattr(solvers, "_INSIDE", 0)
    for seed in range(2):
        S = corrected_example(12, 30, seed)
        alpha = 1.5 * min_feasible_alpha(S).upper + 0.2
        part = component_of(S, [alpha], tol=1e-14, max_iter=5)
        near = graphical_lasso(S, alpha, tol=1e-6)
        dual = near.dual_covariance
        for precision in (near.precision, np.diag(1 / np.diag(dual))):
            gap = dual_gap(S, alpha, precision, dual)
            pair = precision, dual, [0.0, gap, 1, 0.0]
            other = solvers._alternated(part, alpha, dual, precision)
            kept = solvers._certified(part, alpha, pair, dual, precision)
            assert kept[2][1] == min(gap, other[2][1])


@pytest.mark.parametrize("p", [24, 40, 100])
def test_a_dense_answer_of_a_singular_covariance_takes_no_descent(p, monkeypatch):
    """Neither S nor what lies near it is definite: gradients begin at the witness. As
    good a pair as the descent's."""
    rows = np.random.default_rng(p).normal(size=(p // 2, p))
    S = rows.T @ rows / len(rows)
    alpha = np.quantile(np.abs(S[np.triu_indices(p, 1)]), 0.1)
    options = dict(penalize_diagonal=False, tol=1e-5)
    with monkeypatch.context() as patch:
        patch.setattr(solvers, "STRATEGIES", solvers.STRATEGIES[1:])
        by_descent = graphical_lasso(S, alpha, **options)
    monkeypatch.setattr(solvers, "descend", None)
    result = graphical_lasso(S, alpha, **options)
    pair = result.precision, result.dual_covariance
    assert dual_gap(S, alpha, *pair, False) <= 1e-5 * p
    assert abs(result.objective - by_descent.objective) <= 1e-5 * p
    assert (result.precision != 0).mean() > 0.65


@pytest.mark.parametrize("failures", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("minus", [0.0, 0.3])
def test_what_one_strategy_does_not_solve_the_next_one_does(
    failures, minus, monkeypatch
):
    "The descent gives up at its first calls: another strategy, the same answer."
    S, calls, descend = gram(10, 12, 3, minus), [], solvers.descend
    alphas = np.geomspace(1.3, 5, 4) * (min_feasible_alpha(S).upper + 0.02)
    whole = graphical_lasso_path(S, alphas, tol=1e-9)

    def failing(*args):
        calls.append(1)
        return descend(*args) if len(calls) > failures else 0

    monkeypatch.setattr(solvers, "descend", failing)
    path = graphical_lasso_path(S, alphas, tol=1e-9)
    assert len(calls) > failures or failures == 8
    for one, two in zip(path, whole, strict=True):
        assert one.dual_gap <= 1e-8
        assert np.allclose(one.precision, two.precision, atol=1e-2)


def test_every_strategy_solves_or_leaves_it_to_the_next():
    "Each by itself, for a first penalty, when there is no last solution yet."
    S = gram(10, 12, 3, 0.3)
    alpha = 1.5 * min_feasible_alpha(S).upper
    for strategy in solvers.STRATEGIES:
        part = component_of(S, [alpha])
        pairs = strategy(part, part.todo())
        names = "_if_dense", "_from_last_solution"
        assert len(pairs) == (strategy.__name__ not in names)
        for precision, W, (_, gap, _, _) in pairs:
            assert dual_gap(S, alpha, precision, W) <= gap + 1e-12 <= 1e-5 + 1e-12


def test_stopping_early_warns_with_the_gap_where_the_call_is():
    for solver in SOLVERS:
        with pytest.warns(ConvergenceWarning, match="duality gap is") as caught:
            result = graphical_lasso(
                gram(8, 40, 12), 0.01, max_iter=1, tol=1e-10, solver=solver
            )
        assert result.dual_gap > 8e-10 and caught[0].filename == __file__


RESULT = graphical_lasso(np.eye(3), 0.1)


BAD = dict(
    alpha=[0, -1, np.nan, np.inf, "x", True, [1.0]],
    S=[[[1, 2], [3, 4]], [[1, np.nan], [np.nan, 1]], np.ones((2, 3)), [["a"]], 1.0],
    solver=["newton", ["admm"]],
    tol=[0, -1, "x"],
    max_iter=[0, 1.5, None, True],
    weights=[
        np.ones(2), np.eye(3), 1, [[1, -1], [-1, 1]], [[1, 2], [3, 4]], [[1], [1, 2]]
    ],
    penalize_diagonal=["no", None],
    start=[np.eye(2), RESULT],
)


def test_bad_input_is_named():
    for name, values in BAD.items():
        for value in values:
            options = dict(S=np.eye(2), alpha=0.5) | {name: value}
            with pytest.raises(InputError) as caught:
                graphical_lasso(**options)
            assert caught.value.argument == name


def test_one_variable_and_extreme_matrices():
    assert graphical_lasso([[1.0]], 0.2).precision[0, 0] == pytest.approx(1 / 1.2)
    assert graphical_lasso([[1.0]], 0.2, penalize_diagonal=False).precision[
        0, 0
    ] == pytest.approx(1)
    assert graphical_lasso([[-1.0]], 1.5).precision[0, 0] == pytest.approx(2)
    with pytest.raises(InfeasibleError):
        graphical_lasso([[-1.0]], 0.9)
    assert np.allclose(graphical_lasso(np.zeros((3, 3)), 0.5).precision, 2 * np.eye(3))
    assert isinstance(graphical_lasso(-np.ones((3, 3)), 1.5), GraphicalLassoResult)


# what R's glasso 1.11 prints for the example of its manual, thr=1e-14: four columns,
# two pairs without an edge
WHITTAKER = np.array([[10.0, 1, 5, 4], [1, 10, 2, 6], [5, 2, 10, 3], [4, 6, 3, 10]])
R_ZEROS = [
    [0.11965744736285, -0.00785895745509, 0, -0.0471788790434],
    [-0.00785895745509, 0.10477013535693, -0.0199211980571, 0],
    [0, -0.0199211980571, 0.1136967192486, -0.0323749321239],
    [-0.0471788790434, 0, -0.0323749321239, 0.1285840312545],
]
R_PENALISED = [
    [0.0993504012228, 0, -0.02789453572793, -0.01795949560566],
    [0, 0.1026785714286, 0, -0.04017857142857],
    [-0.02789453572793, 0, 0.09629346580053, -0.00649598777226],
    [-0.01795949560566, -0.04017857142857, -0.00649598777226, 0.10743011235662],
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_equals_r_glasso(solver):
    forbidden = np.zeros((4, 4))
    forbidden[[0, 2, 1, 3], [2, 0, 3, 1]] = 1
    options = dict(solver=solver, tol=1e-14)
    zeros = graphical_lasso(
        WHITTAKER, 100.0, weights=forbidden, penalize_diagonal=False, **options
    )
    assert np.abs(zeros.precision - R_ZEROS).max() < 1e-6
    assert (
        np.abs(graphical_lasso(WHITTAKER, 1.5, **options).precision - R_PENALISED).max()
        < 1e-6
    )


@given(
    seed=seeds,
    p=st.integers(2, 8),
    penalize_diagonal=flags,
    zeros=st.floats(0, 0.5),
    solver=solver_names,
)
@settings(max_examples=25, deadline=None)
def test_weights(seed, p, penalize_diagonal, zeros, solver):
    "Optimality for every pattern of weights, zeros among them, on a definite S."
    S, rng = gram(p, 3 * p, seed), np.random.default_rng(seed)
    weights = np.triu(rng.uniform(0.2, 2, (p, p)) * (rng.random((p, p)) >= zeros))
    weights = weights + np.triu(weights, 1).T
    common = dict(penalize_diagonal=penalize_diagonal, weights=weights)
    result = graphical_lasso(S, 0.1, solver=solver, tol=1e-11, max_iter=20000, **common)
    assert kkt_residual(S, 0.1, result.precision, **common) < 1e-3 * np.abs(S).max()
    again = dual_gap(S, 0.1, result.precision, result.dual_covariance, **common)
    assert again == pytest.approx(result.dual_gap, abs=1e-9)
    assert objective(S, 0.1, result.precision, **common) == pytest.approx(
        result.objective
    )


def test_equal_weights_are_an_alpha():
    S = gram(9, 12, 4, 0.3)
    alpha = 1.5 * min_feasible_alpha(S).upper
    plain = graphical_lasso(S, alpha, tol=1e-14)
    weighted = graphical_lasso(S, alpha / 2, weights=np.full((9, 9), 2.0), tol=1e-14)
    assert np.allclose(plain.precision, weighted.precision, rtol=1e-6)


def test_no_weight_at_all_is_the_inverse():
    S = 0.9 * np.ones((12, 12)) + 0.1 * np.eye(
        12
    )  # the diagonal start fails here: a Schur complement is negative
    result = graphical_lasso(S, 1.0, weights=np.zeros((12, 12)), tol=1e-12)
    assert np.allclose(result.precision, np.linalg.inv(S), rtol=1e-6)


def test_infeasible_weights_are_refused_with_a_certificate():
    S, weights = np.array([[1.0, 2.0, 0], [2.0, 1.0, 0], [0, 0, 1]]), np.ones((3, 3))
    weights[:2, :2] = 0  # nothing is penalised where S is indefinite
    for alpha in (0.1, 10.0):
        with pytest.raises(InfeasibleError) as caught:
            graphical_lasso(S, alpha, weights=weights)
        V = caught.value.certificate
        assert np.linalg.eigvalsh(V)[0] > -1e-9 * np.abs(V).max()
        assert np.vdot(S, V) + alpha * np.vdot(weights, np.abs(V)) <= 0


def blocks_of(sizes, seed, minus=0.0):
    "A matrix with blocks, and the columns in random order."
    p = sum(sizes)
    S, at = np.zeros((p, p)), np.cumsum([0, *sizes])
    for k, (low, high) in enumerate(zip(at[:-1], at[1:], strict=True)):
        S[low:high, low:high] = gram(high - low, 3 * (high - low), seed + k, minus)
    order = np.random.default_rng(seed).permutation(p)
    return S[np.ix_(order, order)]


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_blocks_are_solved_by_themselves_and_fit_together(
    penalize_diagonal, monkeypatch
):
    S = blocks_of([1, 1, 7, 12, 30], 3, 0.1)
    options = dict(penalize_diagonal=penalize_diagonal, tol=1e-13)
    alphas = np.geomspace(0.1, 1, 5)
    apart = graphical_lasso_path(S, alphas, **options)
    monkeypatch.setattr(
        solvers, "_CHUNK", 1.0
    )  # every block counts as large: in threads, an alpha at a time
    threads = graphical_lasso_path(S, alphas, **options)
    monkeypatch.setattr(
        solvers, "connected_columns", lambda S, weights, alpha: np.zeros(len(S), int)
    )
    together = graphical_lasso_path(S, alphas, **options)
    for one, two, three in zip(apart, threads, together, strict=True):
        assert np.allclose(one.precision, three.precision, atol=1e-5)
        assert np.allclose(one.precision, two.precision, atol=1e-5)
        assert residual(S, one) < 1e-4
        assert (
            dual_gap(
                S, one.alpha, one.precision, one.dual_covariance, penalize_diagonal
            )
            <= one.dual_gap + 1e-11
        )
        assert one.objective == pytest.approx(three.objective)


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_penalties_that_leave_small_pieces_come_first(penalize_diagonal, monkeypatch):
    "Each answer is that of its penalty alone; Ctrl-C later keeps the first part."
    S = np.corrcoef(sample_gaussian(tridiagonal_precision(90, 0.4), 120, 0).T)
    alphas, options = np.geomspace(0.05, 0.9, 9), dict(tol=1e-10)
    options["penalize_diagonal"] = penalize_diagonal
    path = graphical_lasso_path(S, alphas, **options)
    problem = solvers._checked(
        S, path_alphas(path), "descent", penalize_diagonal, None, 1e-10, 5000, None
    )
    assert 0 < solvers._leaving_small(problem) < 9
    for result in path:
        alone = graphical_lasso(S, result.alpha, **options)
        assert np.allclose(alone.precision, result.precision, atol=1e-4)
        assert np.array_equal(alone.precision != 0, result.precision != 0)
        assert residual(S, result) < 1e-4
    calls, whole = [], solvers._split_and_joined

    def interrupted(problem):
        calls.append(len(problem.alphas))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(problem)

    monkeypatch.setattr(solvers, "_split_and_joined", interrupted)
    part = graphical_lasso_path(S, alphas, **options)
    assert path_alphas(part) == path_alphas(path)[: calls[0]] and sum(calls) == 9


def path_alphas(path):
    return [result.alpha for result in path]


def test_the_smallest_penalty_of_a_path_is_named_when_small_pieces_refuse():
    S = blocks_of([3, 8, 9, 70], 5, 0.6)
    low = min_feasible_alpha(S).lower
    alphas = np.geomspace(0.4 * low, 0.9 * low, 4)
    with pytest.raises(InfeasibleError) as caught:
        graphical_lasso_path(S, alphas)
    assert caught.value.alpha == alphas[0]


def test_a_block_without_a_solution_refuses_for_all():
    S = blocks_of([3, 8, 9], 5, 0.6)
    alpha = 0.5 * min_feasible_alpha(S).lower
    with pytest.raises(InfeasibleError) as caught:
        graphical_lasso(S, alpha)
    V = caught.value.certificate
    assert (
        V.shape == S.shape
        and np.vdot(S, V) + alpha * np.abs(V).sum() <= 0
        and np.linalg.eigvalsh(V)[0] > -1e-12
    )
    assert graphical_lasso(S, caught.value.works).dual_gap < 1e-4
    with pytest.raises(InfeasibleError, match="penalise the diagonal"):
        graphical_lasso(np.diag([1.0, -1.0, 2.0]), 0.5, penalize_diagonal=False)


def test_an_interrupted_path_returns_what_is_done(monkeypatch):
    S, descend, calls = blocks_of([20], 6), solvers.descend, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) > 7:
            raise KeyboardInterrupt
        return descend(*args)

    alphas = np.geomspace(0.1, 1, 12)
    whole = graphical_lasso_path(S, alphas)
    monkeypatch.setattr(solvers, "descend", interrupted)
    monkeypatch.setattr(solvers, "_CHUNK", 20.0**3)  # an alpha at a time
    part = graphical_lasso_path(S, alphas)
    assert 0 < len(part) < 12
    assert [one.alpha for one in part] == [one.alpha for one in whole[: len(part)]]
    with pytest.raises(KeyboardInterrupt):
        graphical_lasso_path(S, alphas)


def test_what_comes_in_is_left_alone():
    S = gram(6, 20, 1)
    frozen = S.copy()
    frozen.flags.writeable = False
    twice = np.zeros((12, 12))
    twice[::2, ::2] = S
    best = graphical_lasso(S, 0.1).precision
    compiled = len(solvers.descend.compiled.signatures)
    for other in (
        frozen,
        np.asfortranarray(S),
        twice[::2, ::2],
        pd.DataFrame(S),
        S.tolist(),
    ):
        assert np.array_equal(graphical_lasso(other, 0.1).precision, best)
    assert len(solvers.descend.compiled.signatures) == compiled
    assert np.array_equal(frozen, S)
    ints = graphical_lasso(np.array([[4, 1], [1, 4]]), 1)
    assert ints.precision[0, 1] == 0 and ints.alpha == 1.0


def test_a_start_from_elsewhere_does_no_harm():
    S, other = gram(10, 8, 2, 0.3), gram(10, 60, 3) * 100
    start = graphical_lasso(other, 1.0)
    alpha = 1.2 * min_feasible_alpha(S).upper
    cold, warm = (graphical_lasso(S, alpha, tol=1e-12, start=s) for s in (None, start))
    assert np.allclose(cold.precision, warm.precision, atol=1e-3)
    assert warm.dual_gap <= 1e-11


def hard_problem(seed):
    "A corrected covariance, a factor of its threshold, whether the diagonal counts."
    rng = np.random.default_rng(seed)
    p, db = int(rng.integers(5, 60)), rng.uniform(-5, 20)
    n, variance = (
        int(p * np.exp(rng.uniform(np.log(0.5), np.log(5)))) + 2,
        10 ** (-db / 10),
    )
    A = np.triu((rng.random((p, p)) < 3 / p) * rng.uniform(-0.8, 0.8, (p, p)), 1)
    L = np.linalg.cholesky(
        np.linalg.inv(
            A + A.T + np.diag(np.abs(A + A.T).sum(axis=1) + rng.uniform(0.1, 1))
        )
    )
    X = rng.standard_normal((n, p)) @ (L / np.sqrt((L**2).sum(axis=1))[:, None]).T
    Y = X + np.sqrt(variance) * rng.standard_normal((n, p))
    return (
        Y.T @ Y / n - variance * np.eye(p),
        np.exp(rng.uniform(np.log(0.3), np.log(30))),
        bool(rng.integers(2)),
    )


def test_no_wrong_answer():
    "Solutions verified from S alone, refusals by certificates; undecided only near it."
    endings = []
    for seed in range(50):
        S, factor, penalize_diagonal = hard_problem(seed)
        bounds, p = min_feasible_alpha(S, penalize_diagonal), len(S)
        if bounds.upper in (0, np.inf):
            continue
        alpha, eye = factor * bounds.upper, np.eye(p)
        T, limits = S + alpha * penalize_diagonal * eye, alpha * (1 - eye)
        try:
            result = graphical_lasso(S, alpha, penalize_diagonal=penalize_diagonal)
            Z, W = result.precision, result.dual_covariance
            value = np.vdot(T, Z) + np.vdot(limits, np.abs(Z)) - np.linalg.slogdet(Z)[1]
            assert np.linalg.eigvalsh(Z)[0] > 0 and np.linalg.eigvalsh(W)[0] > 0
            assert (np.abs(W - T) <= limits + 1e-14 * (alpha + np.abs(S).max())).all()
            assert value - np.linalg.slogdet(W)[1] - p <= 1e-6 * p * 1.001
            endings.append("solved")
        except InfeasibleError as refusal:
            V = refusal.certificate
            assert (
                np.vdot(S, V)
                + alpha * np.vdot(np.abs(V), 1 - eye + penalize_diagonal * eye)
                <= 0
            )
            assert np.linalg.eigvalsh(V)[0] >= -1e-12 * np.abs(V).max()
            endings.append("infeasible")
        except ConvergenceError:
            endings.append("undecided")
        assert alpha <= 1.1 * bounds.upper or endings[-1] == "solved"
        assert alpha >= 0.9 * bounds.lower or endings[-1] == "infeasible"
    assert {"solved", "infeasible"} <= set(endings)


def test_nearly_singular_matrices_are_left_to_alternating_directions():
    "Voltages of a village: definite, so a solution exists, but rounding stops descent."
    correlation, _ = correlation_scale(sample_covariance(load_grid115().table))
    result = graphical_lasso(correlation, 1e-4)
    assert result.dual_gap <= 1e-6 * len(correlation)
    assert (
        dual_gap(correlation, 1e-4, result.precision, result.dual_covariance) <= 1.2e-4
    )


def test_where_passes_run_out_alternating_directions_go_on():
    "Half a thousandth above: 50000 passes leave 2e-3 a column, directions alone too."
    problem = stress_problem(20261401)
    S, p = problem["S"], problem["p"]
    alpha = problem["ratio"] * min_feasible_alpha(S).upper
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = graphical_lasso(S, alpha)
    assert (
        dual_gap(S, alpha, result.precision, result.dual_covariance)
        <= result.dual_gap + 1e-9
        <= 1.01e-6 * p
    )


def test_free_diagonal_on_a_nearly_singular_matrix():
    correlation, _ = correlation_scale(sample_covariance(load_grid115().table))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = graphical_lasso_path(
            correlation,
            np.geomspace(largest_alpha(correlation), 1e-4, 6),
            penalize_diagonal=False,
        )
    assert all(result.dual_gap <= 1e-6 * len(correlation) for result in path)


def test_penalties_and_matrices_of_any_kind():
    single = np.array([0.2, 0.4], np.float32), pd.Series([0.2, 0.4])
    for alphas in ((0.4, 0.2), *single, [np.float64(0.2), 0.4]):
        found = [result.alpha for result in graphical_lasso_path(DEMO, alphas)]
        assert found == pytest.approx([0.4, 0.2])
        assert all(type(alpha) is float for alpha in found)
    for p, n in ((1, 1), (12, 3)):
        S = np.round(gram(p, n, 1) * 8)
        for table in (S.astype(np.float32), S.astype(np.int64), pd.DataFrame(S)):
            result = graphical_lasso(table, 2.0, tol=1e-12)
            assert kkt_residual(S, 2.0, result.precision) < 1e-3
            assert result.precision.dtype == np.float64


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("p", "alphas"),
    # at 1e-7 the forty columns of some seeds end with a warning
    [(2, (1e-3, 1e-5, 1e-7)), (10, (1e-3, 1e-5, 1e-7)), (40, (1e-3, 1e-5, 1e-6))],
)
def test_one_factor_without_noise_has_a_solution_at_every_alpha(p, alphas):
    "The covariance of one direction: columns on which coordinates creep."
    for seed in range(6):
        v = np.random.default_rng(1000 * p + seed).normal(size=p)
        for alpha in alphas:
            result = graphical_lasso(np.outer(v, v), alpha)
            assert result.dual_gap <= 1e-6 * p


@pytest.mark.filterwarnings("error")
def test_an_alpha_that_an_error_names_is_solved_by_the_same_call():
    named = 0
    for seed in range(40):
        rng, p = np.random.default_rng(seed), 4 + seed % 9
        S = gram(p, p - seed % 3, seed, (0.3, 0.8)[seed % 2])
        weights = np.triu(rng.uniform(0.2, 2, (p, p)) * (rng.random((p, p)) < 0.8))
        weights = weights + np.triu(weights, 1).T if seed % 3 else None
        options = dict(weights=weights, penalize_diagonal=bool(seed % 4))
        try:
            graphical_lasso(S, 10.0 ** rng.uniform(-4, -1), **options)
        except (InfeasibleError, ConvergenceError) as error:
            if np.isfinite(error.works):
                printed = float(str(error).split("alpha=")[-1].split()[0])
                for works in (error.works, printed):
                    assert graphical_lasso(S, works, **options).dual_gap <= 1e-6 * p
                named += 1
    assert named >= 15


def test_dense_answers_are_those_of_the_descent(monkeypatch):
    for seed, penalize_diagonal in ((0, True), (1, False)):
        S = gram(70, 300, seed)
        S, _ = correlation_scale(S)
        options = dict(penalize_diagonal=penalize_diagonal, tol=1e-9)
        alphas = [0.1, 0.01, 0.001]
        path = graphical_lasso_path(S, alphas, **options)
        with monkeypatch.context() as patch:
            patch.setattr(solvers, "_FEW", 10**9)
            peer = graphical_lasso_path(S, alphas, **options)
        for one, two in zip(path, peer, strict=True):
            assert one.dual_gap <= 70e-9 and two.dual_gap <= 70e-9
            assert abs(one.objective - two.objective) <= 140e-9
            assert np.allclose(one.precision, two.precision, atol=0.02)


@pytest.mark.parametrize(
    ("p", "alpha", "steps"), [(80, 0.02, 20), (80, 0.002, 31), (40, 0.02, 100)]
)
def test_a_chain_of_strong_correlations_is_left_to_the_descent(
    p, alpha, steps, monkeypatch
):
    """Every entry exceeds its limit, but only a small one joins most pairs: of many
    columns twenty steps are enough to know."""
    index, seen, ascend = np.arange(p), [], solvers.ascend
    S = 0.9 ** np.abs(index[:, None] - index)
    X = np.random.default_rng(0).multivariate_normal(np.zeros(p), S, 10 * p)

    def ascending(*args):
        seen.append(ascend(*args))
        return seen[-1]

    monkeypatch.setattr(solvers, "ascend", ascending)
    S = X.T @ X / len(X)
    result = graphical_lasso(S, alpha, penalize_diagonal=False)
    (found,) = seen
    assert abs(found.steps - steps) < 4 and result.dual_gap < 1e-5 * p
    solved = np.mean(result.precision != 0) > 0.5
    assert solved == (found.gap < 1e-5 * p) and solved == (20 < steps < 100)


def test_few_columns_that_move_at_once_have_the_right_zeros(monkeypatch):
    def wrong(**constants):
        total = 0
        with monkeypatch.context() as patch:
            for name, value in constants.items():
                patch.setattr(solvers, name, value)
            for S, truth in problems:
                answer = graphical_lasso(S, 0.02, tol=1e-4).precision
                total += np.count_nonzero((answer != 0) != truth)
        return total

    problems = []
    for seed in range(6):
        S, _ = correlation_scale(gram(36, 110, seed))
        problems.append((S, graphical_lasso(S, 0.02, tol=1e-11).precision != 0))
    by_descent = wrong(_FEW=10**9)
    assert wrong() <= by_descent < wrong(_STRICTLY=1.0)


def test_an_infinite_weight_forbids_an_edge():
    sums = np.add.outer(np.arange(4), np.arange(4))
    forbidden = np.isin(sums, [2, 4]).astype(int)
    forbidden = forbidden * (1 - np.eye(4))
    infinite = np.where(forbidden == 1, np.inf, 0)
    one = graphical_lasso(WHITTAKER, 1.0, weights=infinite, tol=1e-12)
    two = graphical_lasso(WHITTAKER, 1.0, weights=100 * forbidden, tol=1e-12)
    assert np.allclose(one.precision, two.precision, atol=1e-6)
    assert (one.precision[forbidden == 1] == 0).all()


def test_names_in_another_order_are_refused():
    frame = pd.DataFrame(WHITTAKER, index=list("abcd"), columns=list("abcd"))
    weights = pd.DataFrame(np.ones((4, 4)), index=list("abcd"), columns=list("abcd"))
    graphical_lasso(frame, 1.0, weights=weights)
    for S, w, name in (
        (frame.loc[list("bacd")], None, "S"),
        (frame, weights.loc[list("bacd")], "weights"),
        (frame, weights.loc[list("bacd"), list("bacd")], "weights"),
    ):
        with pytest.raises(InputError) as caught:
            graphical_lasso(S, 1.0, weights=w)
        assert caught.value.argument == name


def test_a_gap_that_rounding_leaves_is_told():
    S = gram(30, 90, 0) * 1e3
    for solver in SOLVERS:
        with pytest.warns(ConvergenceWarning, match="rounding|max_iter"):
            result = graphical_lasso(S, 1.0, solver=solver, tol=1e-18, max_iter=300)
        assert result.dual_gap > 30e-18


def test_a_path_one_by_one_is_the_path_and_holds_two_results():
    S, alphas = gram(60, 200, 4), [0.1, 0.5, 0.2]
    path = graphical_lasso_path(S, alphas, tol=1e-10)
    tracemalloc.start()
    for one, two in zip(iter_graphical_lasso(S, alphas, tol=1e-10), path, strict=True):
        assert one.alpha == two.alpha and one.dual_gap <= 60e-10
        assert np.allclose(one.precision, two.precision, atol=1e-3)
    tracemalloc.clear_traces()
    for _ in iter_graphical_lasso(S, np.geomspace(0.5, 0.05, 30)):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25 * S.nbytes  # a path holds 60 and more
    with pytest.raises(InputError):
        iter_graphical_lasso(S, [0.1, -1])


# plain Python


def every_way(S, alphas, weights, tol):
    "All that a path says, or the error that it ends with."
    try:
        path = graphical_lasso_path(S, alphas, weights=weights, tol=tol)
    except ValueError as error:
        return str(error)
    pairs = [(each.precision, each.dual_covariance) for each in path]
    return [
        *np.array(pairs).ravel().tolist(),
        *((each.dual_gap, each.n_iter, each.alpha) for each in path),
    ]


def test_plain_python_gives_the_bits_of_machine_code(monkeypatch):
    "Feasible or not, in one piece or in several, with weights and without."
    marked = [descend, descend_apart, connected_columns, thresholded, sparse_rows]
    for each in (*marked, _curves_upwards, spread):
        assert each.compiled
    rng, ends = np.random.default_rng(0), Counter()
    for _ in range(60):
        p, rows = int(rng.integers(1, 11)), int(rng.integers(4, 200))
        S = np.cov(rng.normal(size=(rows, p)) @ rng.normal(size=(p, p)), rowvar=False)
        S = S.reshape(p, p)
        S = S / np.sqrt(np.outer(np.diag(S), np.diag(S))) if rng.random() < 0.5 else S
        E = rng.normal(size=(p, p)) * rng.choice([0, 0.3])
        top = np.abs(S).max()
        alphas = np.geomspace(top, top / rng.choice([3, 100]), int(rng.integers(1, 5)))
        weights = np.exp(rng.normal(size=(p, p))) if rng.random() < 0.3 else np.ones(p)
        asked = S + E + E.T, alphas, weights + weights.T if weights.ndim > 1 else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            tol = rng.choice([1e-4, 1e-8])
            compiled = every_way(*asked, tol)
            with monkeypatch.context() as patch:
                patch.setattr(kernels, "_rented", 0)
                for each in (*marked, _curves_upwards, spread):
                    patch.setattr(each, "_compiled", None)
                plain = every_way(*asked, tol)
                ends[type(plain), descend._compiled is None] += 1
        assert plain == compiled
    assert ends[list, True] > 30 and ends[str, True] > 3


def test_a_descent_that_takes_long_in_plain_python_is_begun_anew(monkeypatch):
    "Compiled, and as if nothing had been tried."
    S = np.cov(np.random.default_rng(1).normal(size=(12, 8)), rowvar=False)
    compiled = every_way(S, [0.1, 0.01], None, 1e-8)
    taken = []
    monkeypatch.setattr(block_descent, "SOON", 1e3)
    monkeypatch.setattr(kernels, "_rented", 0)
    code = descend.compiled
    monkeypatch.setattr(descend, "_compiled", None)
    note = lambda function, inline: taken.append(function.__name__) or code
    monkeypatch.setattr(kernels, "_compile", note)
    assert every_way(S, [0.1, 0.01], None, 1e-8) == compiled and "descend" in taken


@pytest.mark.parametrize("p", [30, 170])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_two_columns_that_are_nearly_one_and_may_be(p, seed):
    """Their pair is not penalised: a descent ends with a gap that says nothing, and
    that is no reason to give up."""
    X = np.random.default_rng(seed).normal(size=(2 * p, p))
    S = X.T @ X / len(X)
    alpha = float(np.quantile(np.abs(S[np.triu_indices(p, 1)]), 0.67))
    S[1], S[:, 1], S[1, 1] = S[0], S[:, 0], S[0, 0]
    weights = 1.0 - np.eye(p)
    weights[0, 1] = weights[1, 0] = 0.0
    for apart in (1e-4, 1e-7, 3e-9, 1e-10):
        S[0, 1] = S[1, 0] = S[0, 0] * (1 - apart)
        found = graphical_lasso(
            S, alpha, penalize_diagonal=False, weights=weights, tol=1e-5
        )
        assert found.dual_gap <= 1e-5 * p
        assert np.linalg.eigvalsh(found.dual_covariance)[0] > 0


def partly_free_problem(seed):
    "An indefinite matrix, weights of which many are 0, and a small penalty."
    rng, kind = np.random.default_rng([seed, 7]), seed % 4
    p = int(rng.integers(2, 7))
    A = rng.normal(size=(p, p))
    S, sizes = (A + A.T) / 2, rng.uniform(0.1, 2, (p, p))
    if kind == 1:  # correlations with one digit: some free pairs are exactly singular
        S = np.clip(np.round(S, 1), -1, 1)
    np.fill_diagonal(S, 1.0 if kind == 1 else np.abs(np.diag(S)) + 0.2)
    weights = np.where(rng.random((p, p)) < rng.choice([0.2, 0.5, 0.8]), 0, sizes)
    weights = np.triu(weights) + np.triu(weights, 1).T
    if kind == 2:  # a free block that is nearly singular
        k = max(2, p // 2)
        B = rng.normal(size=(k, k - 1))
        S[:k, :k] = B @ B.T + 10.0 ** rng.uniform(-12, -1) * np.eye(k)
        weights[:k, :k] = 0
    if kind == 3:
        S *= np.outer(*2 * [10.0 ** rng.uniform(-6, 6, p)])
    alpha = 10.0 ** rng.uniform(-6, -1) * np.abs(S).max()
    return (S + S.T) / 2, weights, alpha, bool(rng.random() < 0.5)


def refused_or_none(S, alpha, weights, penalize_diagonal):
    "The error of a penalty, None if there is an answer; a gap of rounding is one."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            options = {"weights": weights, "penalize_diagonal": penalize_diagonal}
            graphical_lasso(S, alpha, **options)
        except (InfeasibleError, ConvergenceError) as error:
            return error


@pytest.mark.long
def test_an_error_names_a_penalty_that_is_solved_or_proves_that_none_is():
    "240 indefinite matrices, weights of zero in any places."
    found = Counter()
    for seed in range(240):
        S, weights, alpha, penalize_diagonal = partly_free_problem(seed)
        error = refused_or_none(S, alpha, weights, penalize_diagonal)
        if error is None:
            found["solved"] += 1
        elif np.isfinite(error.works):
            again = refused_or_none(S, error.works, weights, penalize_diagonal)
            assert again is None, seed
            found["works"] += 1
        else:
            V = error.certificate / np.abs(error.certificate).max()
            paid = weights if penalize_diagonal else weights * (1 - np.eye(len(S)))
            assert error.lower_bound == np.inf and (V[paid > 0] == 0).all(), seed
            rounding = 1e-14 * np.vdot(np.abs(S), np.abs(V))
            assert np.vdot(S, V) <= rounding, seed
            size = np.sqrt(np.outer(*2 * [np.abs(np.diag(S))]))
            assert np.linalg.eigvalsh(V * size / np.abs(V * size).max())[0] > -1e-12
            found["none"] += 1
    assert min(found.values()) > 30 and len(found) == 3


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_two_columns_that_say_the_same_and_must_are_refused_for_every_alpha(
    penalize_diagonal,
):
    "Whatever else refuses a small penalty."
    S = np.array([[1.0, -1.0, 0.4], [-1.0, 1.0, 0.9], [0.4, 0.9, 1.0]])
    weights = np.zeros((3, 3))
    weights[0, 2] = weights[2, 0] = 1.0
    for alpha in (1e-6, 0.1, 1e6):
        error = refused_or_none(S, alpha, weights, penalize_diagonal)
        assert error.lower_bound == np.inf and "no alpha" in str(error)


def test_an_alpha_that_rounding_leaves_is_named():
    "The free pair is singular but for 1e-13: a large penalty has a solution."
    rest = np.array([0.8, 1.0])
    S = np.array([[1.0, -1.0 + 1e-13, 0], [-1.0 + 1e-13, 1.0, 0], [0, 0, 0.3]])
    S[:2, 2] = S[2, :2] = rest
    weights = np.zeros((3, 3))
    weights[2, 2] = 1.0
    error = refused_or_none(S, 1e-3, weights, True)
    assert 1e12 < error.works < np.inf
    assert refused_or_none(S, error.works, weights, True) is None


@pytest.mark.parametrize("variance", [-0.7, -1e-300, 0.0])
def test_a_free_variance_below_zero_is_the_certificate_whatever_it_is_joined_to(
    variance,
):
    "Nothing is penalised between it and a column of variance 3: the proof is finite."
    S = np.array([[3.0, -1.4, 0.1], [-1.4, variance, 0.2], [0.1, 0.2, 1.0]])
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        error = refused_or_none(S, 1e-3, weights, penalize_diagonal=False)
    assert error.lower_bound == error.works == np.inf
    assert np.array_equal(error.certificate, np.diag([0.0, 1.0, 0.0]))


def scattered(p, size=10, seed=0):
    "A covariance of small components whose columns stand apart, and noise below .1."
    rng = np.random.default_rng(seed)
    noise = 0.05 * rng.uniform(-1, 1, (p, p))
    S = (noise + noise.T) / 2
    order = rng.permutation(p)
    chain = 0.7 ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    for own in order.reshape(-1, size):
        S[np.ix_(own, own)] = chain
    return S


def test_what_falls_into_many_pieces_is_solved_without_a_matrix_of_the_whole():
    p = 1500
    S = scattered(p)
    graphical_lasso(scattered(1000), 0.3)  # compiled
    tracemalloc.start()
    try:
        result = graphical_lasso(S, 0.3)
        i, j, values = result.edges()
        assert tracemalloc.get_traced_memory()[1] < 8 * p**2 / 4
    finally:
        tracemalloc.stop()
    assert "precision" not in vars(result) and 0 <= result.dual_gap < 1e-6 * p
    assert "1500" in result._repr_html_() and "precision" not in vars(result)
    dense = result.precision
    assert np.array_equal(np.nonzero(np.triu(dense, 1)), (i, j)) and len(i) >= p * 0.9
    assert np.array_equal(dense[i, j], values) and result.precision is dense
    W = result.dual_covariance
    assert np.abs(np.linalg.inv(dense) - result.covariance).max() < 1e-9
    assert dual_gap(S, 0.3, dense, W) == pytest.approx(result.dual_gap, abs=1e-8)
    assert not hasattr(result, "missing")


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.69])
def test_pieces_are_what_the_whole_is(alpha, monkeypatch):
    S = scattered(1000, 20)
    pieces = graphical_lasso(S, alpha)
    before = S.copy()
    monkeypatch.setattr(solvers, "_IN_PIECES", 10**9)
    whole = graphical_lasso(S, alpha)
    assert np.array_equal(S, before)  # which is read only
    for name in ("precision", "dual_covariance"):
        assert np.array_equal(getattr(pieces, name), getattr(whole, name))
    assert (pieces.dual_gap, pieces.n_iter) == (whole.dual_gap, whole.n_iter)
    assert all(map(np.array_equal, pieces.edges(), whole.edges()))
    again = graphical_lasso(S, alpha, start=pieces)
    assert np.allclose(again.precision, whole.precision, atol=1e-3)


def test_inverses_of_wide_matrices_are_taken_block_by_block(monkeypatch):
    S = scattered(300)
    S[np.abs(S) < 0.1] = 0.0
    expected, own = np.linalg.inv(S), np.linalg.inv

    def narrow(matrix):
        assert len(matrix) == 10
        return own(matrix)

    monkeypatch.setattr(np.linalg, "inv", narrow)
    inverse = inverse_by_blocks(S)
    assert np.abs(inverse - expected).max() < 1e-10
    assert np.array_equal(inverse, inverse.T)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_matrix_that_is_given_is_only_read(solver):
    "As no copy is taken of it; one that nobody may write to is copied, all the same."
    for seed in range(6):
        S = gram(9, 5, seed, minus=0.3)
        before, locked = S.copy(), S.copy()
        locked.setflags(write=False)
        alpha = 2 * min_feasible_alpha(S).upper + 1e-3
        first = graphical_lasso(S, alpha, solver=solver)
        assert np.array_equal(S, before)
        assert not np.shares_memory(first.dual_covariance, S)
        second = graphical_lasso(locked, alpha, solver=solver)
        assert np.array_equal(first.precision, second.precision)
    checked = solvers._checked(locked, [1.0], solver, True, None, 1e-6, 10, None)
    assert checked.S.flags.writeable and checked.S.flags.c_contiguous


def test_a_result_in_pieces_is_put_into_units_piece_by_piece():
    "The same bits as with matrices of the whole, with columns that stand alone."
    rng, p = np.random.default_rng(0), 1010
    S = np.eye(p)
    for start in range(0, 900, 5):
        rows = rng.normal(size=(30, 5))
        rows[:, 1:] += 0.8 * rows[:, :-1]
        S[start : start + 5, start : start + 5] = np.corrcoef(rows.T)
    own = rng.uniform(0.1, 9, p)
    pieces, whole = (graphical_lasso(S, 0.2) for _ in range(2))
    units = np.outer(own, own)
    expected = {
        "precision": whole.precision / units,
        "covariance": whole.covariance * units,
        "dual_covariance": whole.dual_covariance * units,
    }
    for name, known in expected.items():
        assert np.array_equal(pieces.in_units(name, own), known)
    assert "precision" not in vars(pieces)  # which would take a matrix of the whole
