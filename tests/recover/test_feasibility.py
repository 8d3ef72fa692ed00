"""The threshold: bounds by plain numpy, closed forms, a linear program, weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from privglasso.base.validation import InputError
from privglasso.recover import feasibility
from privglasso.recover.feasibility import (
    ConvergenceError,
    InfeasibleError,
    feasible_start,
    min_feasible_alpha,
    nearest_psd,
    penalty_weights,
)

DEMO = np.array([[0.5, 0.8], [0.8, 0.5]])
flags, seeds = st.booleans(), st.integers(0, 10**6)


def gram(p, n, seed, minus=0.0):
    "A sample covariance in unequal units, `minus` times its diagonal taken off."
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (
        np.eye(p) + 0.5 * rng.normal(size=(p, p)) / np.sqrt(p)
    )
    S = X.T @ X / n
    return S - minus * np.diag(np.diag(S))


@given(
    p=st.integers(1, 12),
    seed=seeds,
    minus=st.sampled_from([0.1, 0.5, 1.3]),
    penalize_diagonal=flags,
)
@settings(max_examples=40, deadline=None)
def test_threshold_certificates(p, seed, minus, penalize_diagonal):
    S = gram(p, p + 1, seed, minus)
    bounds = min_feasible_alpha(S, penalize_diagonal)
    if not penalize_diagonal and np.diag(S).min() <= 0:
        assert (
            np.isinf(bounds.lower)
            and bounds.witness is None
            and np.trace(S @ bounds.certificate) <= 0
        )
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
    "p = 2, diagonal penalised: min t over W with W_11 = s + t and |W_12| <= W_11."
    for off in (0.6, 0.8, 2.0):
        S = np.array([[0.5, off], [off, 0.5]])
        exact = linprog(
            [0, 1],
            A_ub=[[1, -1], [-1, -1]],
            b_ub=[0.5, -off],
            bounds=[(None, None), (0, None)],
        ).fun
        bounds = min_feasible_alpha(S, rtol=1e-5)
        assert bounds.lower <= exact + 1e-12 and exact <= bounds.upper + 1e-12
    assert min_feasible_alpha(DEMO, rtol=1e-6).upper == pytest.approx(0.15, rel=1e-5)
    assert min_feasible_alpha(DEMO, False, rtol=1e-6).upper == pytest.approx(
        0.30, rel=1e-5
    )


@given(
    a=st.floats(-1, 1),
    c=st.floats(-1, 1),
    off=st.floats(0.01, 2),
    sign=st.sampled_from([-1, 1]),
)
@settings(max_examples=40, deadline=None)
def test_threshold_of_two_columns_in_closed_form(a, c, off, sign):
    fraction = (
        (off * off - a * c) / (a + c + 2 * off) if min(off + a, off + c) > 1e-9 else 0.0
    )
    exact = max(0.0, -a, -c, fraction)
    bounds = min_feasible_alpha([[a, sign * off], [sign * off, c]])
    assert bounds.lower <= exact + 1e-9 and exact <= bounds.upper + 1e-9


def test_nearest_psd():
    S = gram(10, 8, 11, 0.4)
    values, Q = np.linalg.eigh(S)
    assert np.allclose(nearest_psd(S), (Q * np.maximum(values, 0)) @ Q.T, atol=1e-13)
    near = nearest_psd(S, "max")
    assert np.linalg.eigvalsh(near)[0] > -1e-13
    assert np.abs(near - S).max() <= min_feasible_alpha(S).upper
    assert np.array_equal(nearest_psd(np.eye(3), "max"), np.eye(3))


def random_weights(p, seed):
    "Symmetric weights between 0.3 and 3."
    weights = np.triu(np.exp(np.random.default_rng(seed).uniform(-1, 1, (p, p))))
    return weights + np.triu(weights, 1).T


@given(p=st.integers(2, 10), seed=seeds, penalize_diagonal=flags)
@settings(max_examples=25, deadline=None)
def test_weighted_threshold(p, seed, penalize_diagonal):
    S, own = gram(p, p + 1, seed, 0.4), random_weights(p, seed)
    bounds = min_feasible_alpha(S, penalize_diagonal, weights=own)
    weights, zero = penalty_weights(p, penalize_diagonal, own), 1e-12 * np.abs(S).sum()
    assert np.linalg.eigvalsh(bounds.witness)[0] >= -zero
    assert (
        np.abs(bounds.witness - S) <= bounds.upper * weights + 1e-13 * np.abs(S).max()
    ).all()
    if bounds.certificate is not None:
        V = bounds.certificate
        assert np.linalg.eigvalsh(V)[0] > -1e-13 and np.vdot(
            weights, np.abs(V)
        ) == pytest.approx(1)
        assert -np.vdot(S, V) == pytest.approx(bounds.lower)
    doubled = min_feasible_alpha(S, penalize_diagonal, weights=2 * own)
    assert doubled.lower <= bounds.upper / 2 * (
        1 + 1e-12
    ) and bounds.lower / 2 <= doubled.upper * (1 + 1e-12)


@given(
    p=st.integers(2, 9),
    seed=seeds,
    penalize_diagonal=flags,
    weighted=flags,
    factor=st.sampled_from([1.001, 1.3, 9]),
)
@settings(max_examples=25, deadline=None)
def test_a_start_is_definite_and_in_the_box(
    p, seed, penalize_diagonal, weighted, factor
):
    S = gram(p, p + 2, seed, 0.3)
    weights = penalty_weights(
        p, penalize_diagonal, random_weights(p, seed) if weighted else None
    )
    bounds = min_feasible_alpha(
        S, penalize_diagonal, 1e-4, weights if weighted else None
    )
    alpha = factor * bounds.upper + 1e-3
    W = feasible_start(S, alpha, weights)
    assert np.linalg.eigvalsh(W)[0] > 0
    assert (np.abs(W - S) <= alpha * weights + 1e-12 * np.abs(S).max()).all()
    if bounds.lower > 0:
        with pytest.raises(InfeasibleError):
            feasible_start(S, 0.999 * bounds.lower, weights)


def test_undecided_names_what_works(monkeypatch):
    monkeypatch.setattr(feasibility, "_PAIRS", 0)
    S = gram(10, 8, 3, 0.3)
    bounds = min_feasible_alpha(S, rtol=1e-4)
    with pytest.raises(ConvergenceError, match="too close to the threshold") as caught:
        feasible_start(S, (bounds.lower + bounds.upper) / 2, np.ones((10, 10)))
    W = feasible_start(S, caught.value.works, np.ones((10, 10)))
    assert np.linalg.eigvalsh(W)[0] > 0


@pytest.mark.parametrize("near, solved", [(1 + 1e-6, True), (1 - 1e-6, False)])
def test_a_millionth_from_the_threshold_is_decided(near, solved):
    S = np.array([[0.5, 0.8], [0.8, 0.5]])
    inside, V, *_ = feasibility._decide_from_inside(S, 0.15 * near, np.ones((2, 2)))
    assert (inside is not None) == solved and (V is not None) != solved


@pytest.mark.parametrize("k", [2, 3, 4])
def test_fractions_decide_what_rounding_cannot(k):
    "Singular by construction, and a hair above it: the same to rounding."
    rng = np.random.default_rng(k)
    A = rng.integers(-4, 5, (k, k - 1)).astype(float)
    S, weights = A @ A.T, np.zeros((k, k))
    assert feasibility._is_singular(S)
    assert not feasibility._is_singular(S + 2.0**-46 * np.eye(k))
    V = feasibility._exact_refusal(S, weights)
    assert np.vdot(S, V) <= 0 < np.trace(V) and np.linalg.eigvalsh(V)[0] > -1e-14
    assert feasibility._exact_refusal(S, weights + np.eye(k)) is None
    assert feasibility._exact_refusal(S + 2.0**-46 * np.eye(k), weights) is None


def test_zero_weights_are_met_exactly():
    S = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]])
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = 0
    bounds = min_feasible_alpha(S, weights=weights, rtol=0.01)
    assert bounds.witness[0, 1] == 0.9 or np.isinf(bounds.upper)
    assert bounds.lower > 0


def test_bounds_that_do_not_close_in_say_so(monkeypatch):
    monkeypatch.setattr(feasibility, "_SEARCH_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="wider than rtol"):
        bounds = min_feasible_alpha(gram(10, 8, 3, 0.3), rtol=1e-6)
    assert bounds.lower < bounds.upper


def test_units_that_differ_hide_nothing():
    "Next to 1e16 an eigenvalue of -1 looks like rounding, and is not."
    S = np.array([[1e16, 0, 0], [0, 1.0, 2.0], [0, 2.0, 1.0]])
    bounds = min_feasible_alpha(S, rtol=1e-6)
    assert bounds.lower <= 0.5 <= bounds.upper < 0.5001 and bounds.lower > 0.4999
    assert np.linalg.eigvalsh(bounds.witness[1:, 1:])[0] >= -1e-12
    assert np.abs(nearest_psd(S, "max") - S).max() >= 0.5
    heavy = min_feasible_alpha(S, weights=np.full((3, 3), 1e11), rtol=1e-6)
    assert heavy.lower <= 5e-12 <= heavy.upper < 5.001e-12


def hard_box(seed):
    "A problem for one penalty: singular or indefinite, units, huge and zero weights."
    rng = np.random.default_rng(seed)
    p, units = int(rng.integers(2, 15)), 10.0 ** rng.uniform(-4, 4, 15)
    S = gram(p, max(1, p - seed % 5), seed, (0.0, 0.3)[seed % 2])
    weights = random_weights(p, seed) * 10.0 ** rng.choice([0, 0, 11], (p, p))
    weights = np.triu(weights * (rng.random((p, p)) < 0.8))
    weights, own = weights + np.triu(weights, 1).T, np.outer(units[:p], units[:p])
    return S * own, weights * own, 10.0 ** rng.uniform(-5, 0), own


def test_one_penalty_is_decided_and_proved():
    decided = 0
    for seed in range(200):
        S, weights, alpha, own = hard_box(seed)
        inside, V = feasibility.decide(S, alpha, weights)
        assert inside is None or V is None
        if inside is not None:
            assert np.linalg.eigvalsh(inside / own)[0] > 0
            slack = 1e-12 * (own + alpha * weights)
            assert (np.abs(inside - S) <= alpha * weights + slack).all()
        if V is not None:
            assert np.linalg.eigvalsh(V * own)[0] >= -1e-12 * np.abs(V * own).max()
            assert np.vdot(S, V) + alpha * np.vdot(weights, np.abs(V)) <= 0
        decided += inside is not None or V is not None
    assert decided >= 190


def test_bad_input_is_named():
    good = np.eye(3)
    for S in ([[1, 2], [3, 4]], [[np.nan]], np.ones((2, 3)), "x", None):
        for refuse in (min_feasible_alpha, nearest_psd):
            with pytest.raises(InputError) as caught:
                refuse(S)
            assert caught.value.argument == "S"
    for weights in (np.ones(3), np.ones((2, 2)), -good, np.full((3, 3), np.inf)):
        with pytest.raises(InputError) as caught:
            min_feasible_alpha(good, weights=weights)
        assert caught.value.argument == "weights"
    for rtol in (0, 1, -1, "x", np.nan):
        with pytest.raises(InputError) as caught:
            min_feasible_alpha(good, rtol=rtol)
        assert caught.value.argument == "rtol"
    with pytest.raises(InputError) as caught:
        nearest_psd(good, "nuclear")
    assert caught.value.argument == "norm"


def test_projection_for_every_size():
    "Radii down to the smallest numbers, where rounding may deny the first entry."
    rng = np.random.default_rng(0)
    for _ in range(3000):
        k, radius = rng.integers(1, 40), 10 ** rng.uniform(-307, 0)
        v, weights = rng.normal(size=k) * 10 ** rng.uniform(-10, 10), 10 ** rng.uniform(
            -3, 3, k
        )
        near = feasibility._project_l1(v, weights, radius)
        assert (weights * np.abs(near)).sum() <= radius + 1e-12 * (
            weights * np.abs(v)
        ).sum()
        assert (np.abs(near) <= np.abs(v)).all() and (near * v >= 0).all()


@pytest.mark.filterwarnings("error")
def test_a_graph_without_completion_is_refused_for_every_alpha():
    "Nothing penalised on a graph, S indefinite there: an exact proof, no warning."
    refused = 0
    for seed in range(25):
        rng, S = np.random.default_rng(seed), gram(9, 20, seed, 0.4)
        graph = np.triu(rng.random((9, 9)) < 0.6, 1)
        weights = np.where(graph | graph.T | np.eye(9, dtype=bool), 0.0, 10.0)
        try:
            W = feasible_start(S, 1.0, weights)
            assert (
                np.linalg.eigvalsh(W)[0] > 0
                and (np.abs(W - S) <= weights + 1e-12).all()
            )
        except InfeasibleError as error:
            V = error.certificate
            assert (
                error.works == error.lower_bound == np.inf
                and (V[weights > 0] == 0).all()
            )
            assert (
                np.linalg.eigvalsh(V)[0] >= -1e-12 * np.abs(V).max()
                and np.vdot(S, V) < 0
            )
            refused += 1
    assert 5 <= refused < 25


@pytest.mark.parametrize("free_diagonal", [[0, 1], [0, 1, 2]])
def test_a_singular_matrix_that_must_be_met_is_not_called_feasible(free_diagonal):
    "Two equal columns, variances and covariance not penalised: W is always singular."
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = weights[free_diagonal, free_diagonal] = 0
    with pytest.warns(ConvergenceWarning, match="wider"):
        bounds = min_feasible_alpha(np.ones((3, 3)), weights=weights)
    assert bounds.lower == 0 and bounds.upper == np.inf and bounds.witness is None
    with pytest.raises(InfeasibleError, match="no alpha has a solution"):
        feasible_start(np.ones((3, 3)), 1.0, weights)


@pytest.mark.parametrize(
    "weights", [np.ones((3, 3)), 1 - np.eye(3), np.eye(3) + np.eye(3)[::-1]]
)
def test_a_singular_matrix_that_may_move_has_a_solution_at_every_alpha(weights):
    "With the diagonal penalised, or all that is off it."
    S = np.ones((3, 3))
    bounds = min_feasible_alpha(S, weights=weights)
    assert bounds.lower == bounds.upper == 0
    for alpha in (1e-9, 1.0):
        W = feasible_start(S, alpha, weights)
        assert (
            np.linalg.eigvalsh(W)[0] > 0
            and (np.abs(W - S) <= alpha * weights + 1e-15).all()
        )


@pytest.mark.parametrize("weights", [np.ones((2, 2)), 1 - np.eye(2)])
def test_an_alpha_below_rounding_is_undecided_and_names_one_that_is_not(weights):
    with pytest.raises(ConvergenceError, match="is proved to work") as caught:
        feasible_start(np.ones((2, 2)), 1e-18, weights)
    assert caught.value.works < 1e-14
    assert (
        np.linalg.eigvalsh(
            feasible_start(np.ones((2, 2)), caught.value.works, weights)
        )[0]
        > 0
    )


@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_a_bisection_ends_where_a_product_of_penalties_is_no_number(unit):
    "The threshold is 0.15 units; that of their geometric mean would be 0 or infinite."
    S, weights = unit * np.array([[0.5, 0.8], [0.8, 0.5]]), np.ones((2, 2))
    works = feasibility._bisected(S, 0.1 * unit, weights)
    assert 0.15 * unit < works < 0.16 * unit
