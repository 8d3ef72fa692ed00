"""Solvers: the answers of scikit-learn and R, optimality conditions, weights, blocks, interruptions, bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import graphical_lasso as sklearn_graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from privglasso.recover import graphical_lasso as solvers
from privglasso.publish.noise_correction import correlation_scale, sample_covariance
from privglasso.data_sets.grids import load_grid115
from privglasso.experiments.solver_stress import hard_problem as stress_problem
from privglasso.recover.feasibility import ConvergenceError, InfeasibleError
from privglasso.recover.feasibility import min_feasible_alpha
from privglasso.recover.graphical_lasso import GraphicalLassoResult, graphical_lasso
from privglasso.recover.graphical_lasso import graphical_lasso_path
from privglasso.recover.textbook import dual_gap, largest_alpha, kkt_residual, objective
from privglasso.data_sets.synthetic import corrected_example
from privglasso.base.validation import InputError

DEMO = np.array([[0.5, 0.8], [0.8, 0.5]])
SOLVERS = ("descent", "admm", "block_descent")
solver_names, flags, seeds = (
    st.sampled_from(SOLVERS),
    st.booleans(),
    st.integers(0, 10**6),
)


def gram(p, n, seed, minus=0.0):
    "A sample covariance of correlated columns in unequal units, `minus` times the diagonal taken off."
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
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.7, 0.3, 0.1])
def test_equals_scikit_learn(solver, seed, share):
    S = gram(8, 60, seed)
    alpha, options = share * largest_alpha(S), dict(
        tol=1e-11, enet_tol=1e-11, max_iter=2000
    )
    _, free = sklearn_graphical_lasso(S, alpha, **options)
    _, penalised = sklearn_graphical_lasso(S + alpha * np.eye(8), alpha, **options)
    ours = graphical_lasso(S, alpha, solver=solver, penalize_diagonal=False, tol=1e-14)
    assert np.abs(ours.precision - free).max() < 1e-6
    assert (
        np.abs(
            graphical_lasso(S, alpha, solver=solver, tol=1e-14).precision - penalised
        ).max()
        < 1e-6
    )


@given(
    p=st.integers(1, 8),
    seed=seeds,
    minus=st.sampled_from([0, 0.2, 0.6]),
    factor=st.sampled_from([1.1, 1.5, 4]),
    solver=solver_names,
    penalize_diagonal=flags,
)
@settings(max_examples=60, deadline=None)
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


@given(
    seed=seeds,
    p=st.integers(2, 8),
    tol=st.sampled_from([1e-1, 1e-3]),
    factor=st.sampled_from([1.2, 3]),
)
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
    result = graphical_lasso(
        S,
        1.01 * bounds.upper,
        penalize_diagonal=penalize_diagonal,
        solver="block_descent",
    )
    assert result.dual_gap <= 1e-5
    with pytest.raises(InfeasibleError) as caught:
        graphical_lasso(S, 0.98 * bounds.lower, penalize_diagonal=penalize_diagonal)
    refusal = caught.value
    assert refusal.alpha <= refusal.lower_bound < refusal.works <= 1.08 * bounds.upper
    graphical_lasso(
        S, refusal.works, penalize_diagonal=penalize_diagonal, solver="block_descent"
    )
    with pytest.raises(ConvergenceError) as caught:
        edge = min_feasible_alpha(S, penalize_diagonal, rtol=1e-4)
        graphical_lasso(
            S, (edge.lower + edge.upper) / 2, penalize_diagonal=penalize_diagonal
        )
    assert caught.value.lower_bound < caught.value.works


def test_no_alpha_works_for_a_free_diagonal_that_is_not_positive():
    for S in (-np.eye(2), np.array([[1.0, 0.3], [0.3, 0.0]])):
        with pytest.raises(InfeasibleError, match="penalise the diagonal") as caught:
            graphical_lasso(S, 10.0, penalize_diagonal=False)
        assert caught.value.works == np.inf
        assert graphical_lasso(S, 10.0).dual_gap <= 2e-6


def test_solved_where_the_printed_start_is_indefinite():
    S = np.array([[0.5, 0.8, 0.1], [0.8, 0.5, 0.1], [0.1, 0.1, 1.0]])
    one, *others = (
        graphical_lasso(S, 0.2, solver=solver, tol=1e-13) for solver in SOLVERS
    )
    assert all(np.abs(one.precision - other.precision).max() < 1e-4 for other in others)
    assert residual(S, one) < 1e-5


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_path_equals_single_solutions(solver, penalize_diagonal):
    S = gram(7, 30, 5, 0.2)
    low = max(1.2 * min_feasible_alpha(S, penalize_diagonal).upper, 0.05)
    alphas = np.geomspace(low, 2 * largest_alpha(S) + low, 6)
    path = graphical_lasso_path(
        S,
        np.random.default_rng(0).permutation(alphas),
        solver=solver,
        tol=1e-13,
        penalize_diagonal=penalize_diagonal,
    )
    assert [result.alpha for result in path] == sorted(alphas, reverse=True)
    for result in path:
        alone = graphical_lasso(
            S,
            result.alpha,
            solver=solver,
            tol=1e-13,
            penalize_diagonal=penalize_diagonal,
        )
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
        big, small = graphical_lasso(S, alpha, solver=solver), graphical_lasso(
            S * 1e6, alpha * 1e6, solver=solver
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
def test_a_path_starts_each_penalty_where_the_last_one_ended(solver):
    for seed in range(6):
        S = corrected_example(12, 30, seed)
        alpha = 1.5 * min_feasible_alpha(S).upper + 0.2
        path = graphical_lasso_path(S, [1.001 * alpha, alpha], solver=solver, tol=1e-9)
        assert (
            path[1].n_iter < graphical_lasso(S, alpha, solver=solver, tol=1e-9).n_iter
        )


@pytest.mark.parametrize("solver", ["admm", "block_descent"])
def test_a_path_of_a_textbook_solver_is_the_descents(solver):
    for seed in range(3):
        S = corrected_example(12, 30, seed)
        alphas = [factor * min_feasible_alpha(S).upper for factor in (5, 2, 1.1)]
        for theirs, ours in zip(
            *(
                graphical_lasso_path(S, alphas, solver=s, tol=1e-10)
                for s in (solver, "descent")
            ),
            strict=True,
        ):
            assert theirs.dual_gap <= 1.2e-9 and np.allclose(
                theirs.precision, ours.precision, atol=1e-3
            )


@pytest.mark.parametrize("seed", range(4))
def test_of_two_unfinished_pairs_the_better_is_kept(seed):
    S = corrected_example(12, 30, seed)
    alpha = 1.5 * min_feasible_alpha(S).upper + 0.2
    block, near = solvers._blocks(S, None, True, 0.0)[0], graphical_lasso(
        S, alpha, tol=1e-6
    )
    dual = near.dual_covariance
    for precision, passes in ((near.precision, 9), (np.diag(1 / np.diag(dual)), 1)):
        pair = precision, dual, [0.0, dual_gap(S, alpha, precision, dual), passes, 0.0]
        other = solvers._by_directions(block, alpha, dual, precision, 1e-14, 5)
        kept = solvers._after_descent(block, alpha, pair, 1e-14, 5)
        assert kept[2][1] == min(pair[2][1], other[2][1])


def test_stopping_early_warns_with_the_gap():
    with pytest.warns(ConvergenceWarning, match="duality gap is"):
        result = graphical_lasso(gram(8, 40, 12), 0.01, max_iter=1, tol=1e-10)
    assert result.dual_gap > 8e-10


RESULT = graphical_lasso(np.eye(3), 0.1)


@pytest.mark.parametrize(
    "options, named",
    [
        (dict(alpha=0), "alpha="),
        (dict(alpha=-1), "alpha="),
        (dict(alpha=np.nan), "alpha="),
        (dict(alpha="x"), "alpha="),
        (dict(alpha=True), "alpha="),
        (dict(alpha=[1.0]), "alpha="),
        (dict(alpha=np.inf), "alpha="),
        (dict(S=[[1, 2], [3, 4]]), "S="),
        (dict(S=[[1, np.nan], [np.nan, 1]]), "S="),
        (dict(S=np.ones((2, 3))), "S="),
        (dict(S=[["a"]]), "S="),
        (dict(S=np.empty((0, 0))), "S="),
        (dict(S=1.0), "S="),
        (dict(solver="newton"), "solver="),
        (dict(tol=0), "tol="),
        (dict(tol=-1), "tol="),
        (dict(tol="x"), "tol="),
        (dict(max_iter=0), "max_iter="),
        (dict(max_iter=1.5), "max_iter="),
        (dict(max_iter=None), "max_iter="),
        (dict(weights=np.ones(2)), "weights="),
        (dict(weights=np.eye(3)), "weights="),
        (dict(weights=1), "weights="),
        (dict(weights=[[1, -1], [-1, 1]]), "weights="),
        (dict(weights=[[1, np.nan], [np.nan, 1]]), "weights="),
        (dict(weights=[[1, 2], [3, 4]]), "weights="),
        (dict(max_iter=True), "max_iter="),
        (dict(penalize_diagonal="no"), "penalize_diagonal="),
        (dict(penalize_diagonal=None), "penalize_diagonal="),
        (dict(start=np.eye(2)), "start="),
        (dict(start=RESULT), "start="),
        (dict(solver=["admm"]), "solver="),
    ],
)
def test_bad_input_is_named(options, named):
    options = dict(S=np.eye(2), alpha=0.5) | options
    S, alpha = options.pop("S"), options.pop("alpha")
    with pytest.raises(InputError, match=named):
        graphical_lasso(S, alpha, **options)


def test_bad_pairs_have_no_gap():
    S = np.eye(2)
    assert objective(S, 1.0, -np.eye(2)) == np.inf
    one, two = np.eye(2), 2 * np.eye(2)
    for precision, W, named in (
        (-one, two, "positive definite"),
        (one, one, "outside the box"),
        (np.eye(3), two, "precision="),
        (one, [[2, 2.5], [2.5, 2]], "outside"),
    ):
        with pytest.raises(InputError, match=named):
            dual_gap(S, 1.0, precision, W)
    for rtol in (0, 1, -1, "x", np.nan):
        with pytest.raises(InputError, match="rtol="):
            min_feasible_alpha(S, rtol=rtol)


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


# what R's glasso 1.11 prints for the example of its manual, thr=1e-14: four columns, two pairs without an edge
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
@settings(max_examples=40, deadline=None)
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


def test_two_stages_are_weights():
    S = gram(9, 40, 4)
    weights = 1 / (np.abs(graphical_lasso(S, 0.1).precision) + 0.1)
    second = graphical_lasso(
        S, 0.1, weights=weights, penalize_diagonal=False, tol=1e-12
    )
    assert kkt_residual(S, 0.1, second.precision, False, weights) < 1e-4


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


@pytest.mark.parametrize("sizes", [[20], [20, 12]])
def test_an_interrupted_path_returns_what_is_done(sizes, monkeypatch):
    S, run, calls = blocks_of(sizes, 6), solvers._run, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) > 7:
            raise KeyboardInterrupt
        return run(*args, **kwargs)

    alphas = np.geomspace(0.1, 1, 12)
    whole = graphical_lasso_path(S, alphas)
    monkeypatch.setattr(solvers, "_run", interrupted)
    monkeypatch.setattr(solvers, "_CHUNK", 20.0**3)  # an alpha at a time
    part = (
        graphical_lasso_path(S, alphas)
        if len(sizes) == 1
        else graphical_lasso_path(blocks_of([20], 6), alphas)
    )
    assert 0 < len(part) < 12
    assert [result.alpha for result in part] == [
        result.alpha for result in whole[: len(part)]
    ]
    calls += [1] * 10
    with pytest.raises(KeyboardInterrupt):
        graphical_lasso_path(S, alphas)


def test_one_pass_is_already_feasible():
    for seed in range(10):
        S = gram(12, 8, seed, 0.3)
        alpha = 2 * min_feasible_alpha(S).upper
        with pytest.warns(ConvergenceWarning, match="duality gap is"):
            result = graphical_lasso(S, alpha, max_iter=1, tol=1e-15)
        assert np.linalg.eigvalsh(result.precision)[0] > 0
        assert (
            dual_gap(S, alpha, result.precision, result.dual_covariance)
            <= result.dual_gap + 1e-12
        )


def test_what_comes_in_is_left_alone():
    S = gram(6, 20, 1)
    frozen = S.copy()
    frozen.flags.writeable = False
    twice = np.zeros((12, 12))
    twice[::2, ::2] = S
    best = graphical_lasso(S, 0.1).precision
    for other in (
        frozen,
        np.asfortranarray(S),
        twice[::2, ::2],
        pd.DataFrame(S),
        S.tolist(),
    ):
        assert np.array_equal(graphical_lasso(other, 0.1).precision, best)
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


def test_the_covariance_is_made_when_asked_for():
    result = graphical_lasso(gram(5, 20, 0), 0.1)
    assert "covariance" not in vars(result)
    assert (
        np.allclose(result.covariance @ result.precision, np.eye(5))
        and result.covariance is result.covariance
    )


def hard_problem(seed):
    "A corrected covariance of a noisy table, how far from its threshold to look, and whether the diagonal counts."
    rng = np.random.default_rng(seed)
    p, db = int(rng.integers(5, 60)), rng.uniform(-5, 20)
    n, variance = int(p * np.exp(rng.uniform(np.log(0.5), np.log(5)))) + 2, 10 ** (
        -db / 10
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


@pytest.mark.parametrize("block", range(4))
def test_no_wrong_answer(block):
    "Solved ones are verified from S alone, infeasible ones by their certificate, undecided only near the threshold."
    endings = []
    for seed in range(30 * block, 30 * block + 30):
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
    "Voltages of a village: positive definite, so every alpha has a solution, but rounding stops the descent."
    correlation, _ = correlation_scale(sample_covariance(load_grid115().table))
    result = graphical_lasso(correlation, 1e-4)
    assert result.dual_gap <= 1e-6 * len(correlation)
    assert (
        dual_gap(correlation, 1e-4, result.precision, result.dual_covariance) <= 1.2e-4
    )


def test_where_passes_run_out_alternating_directions_go_on():
    "Half a thousandth above its threshold: 50000 passes leave a gap of 2e-3 a column, and directions alone as much."
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
            np.geomspace(largest_alpha(correlation), 1e-4, 20),
            penalize_diagonal=False,
        )
    assert all(result.dual_gap <= 1e-6 * len(correlation) for result in path)


@pytest.mark.parametrize(
    "alphas",
    [
        (0.4, 0.2),
        [0.2, 0.4],
        np.array([0.4, 0.2]),
        np.array([0.2, 0.4], np.float32),
        pd.Series([0.2, 0.4]),
        [np.float64(0.2), 0.4],
    ],
)
def test_penalties_of_any_kind(alphas):
    found = [result.alpha for result in graphical_lasso_path(DEMO, alphas)]
    assert found == pytest.approx([0.4, 0.2]) and all(
        type(alpha) is float for alpha in found
    )


@pytest.mark.parametrize(
    "alphas",
    [[0.4, True], [0.4, np.nan], np.array([0.4, np.inf]), [0.4, 0.0], [-np.inf, 1.0]],
)
def test_one_bad_penalty_is_enough(alphas):
    with pytest.raises(InputError, match="alphas="):
        graphical_lasso_path(DEMO, alphas)


@pytest.mark.parametrize("p, n", [(1, 1), (1, 5), (12, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.int64, pd.DataFrame])
def test_small_and_short_tables_of_any_kind(p, n, kind):
    S = np.round(gram(p, n, 1) * 8)
    given = pd.DataFrame(S) if kind is pd.DataFrame else S.astype(kind)
    result = graphical_lasso(given, 2.0, tol=1e-12)
    assert (
        kkt_residual(S, 2.0, result.precision) < 1e-3
        and result.precision.dtype == np.float64
    )
