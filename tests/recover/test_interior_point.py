"""From inside: what is bounded is bounded, what is found is in the box and best, and
units do not matter."""

import numpy as np
import pytest

from privglasso.data_sets.synthetic import corrected_example
from privglasso.recover import interior_point
from privglasso.recover.feasibility import InfeasibleError, feasible_start, verdict
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.recover.interior_point import (
    PrimalDual,
    best_determinant,
    cannot_bind,
    unit_box,
    zero_where_free,
)


def weights_of(kind, p, rng):
    "Weights with zeros, or huge ones, or both."
    weights = np.triu(rng.choice(kind, (p, p)), 1)
    return weights + weights.T + 5 * np.eye(p)


def both_ends(walk, tol=1e-9):
    "The last s and bound, which must be on either side at every step."
    while walk.bound() - walk.s > tol:
        assert walk.s <= walk.bound() + 1e-12
        if not walk.advance():
            break
    return walk.s, walk.bound()


@pytest.mark.parametrize("kind", [(1.0,), (0.0, 1.0), (1.0, 1e11), (0.0, 0.3, 1e30)])
def test_both_sides_meet(kind):
    for seed in range(8):
        rng, p = np.random.default_rng(seed), 4 + seed
        S = corrected_example(p, p + 2, seed)
        T, limits, _ = unit_box(S, 0.2, weights_of(kind, p, rng))
        s, bound = both_ends(PrimalDual(T, limits))
        assert abs(bound - s) < 1e-7
        walk = PrimalDual(T, limits)
        both_ends(walk)
        moved = np.abs(walk.point() - T)
        assert (moved <= limits).all() and (np.diag(walk.point()) == 1).all()
        least = np.linalg.eigvalsh(walk.point() - walk.s * np.eye(p))[0]
        assert least > -1e-12 and np.isclose(np.trace(walk.V), 1)


def test_equal_limits_in_closed_form():
    "T with ones and c beside them: only c - limit counts, for a negative c the sum."
    for p, c, limit in ((2, 1.3, 0.1), (5, 0.4, 0.3), (4, -0.9, 0.2)):
        T = np.full((p, p), c) + (1 - c) * np.eye(p)
        s, bound = both_ends(PrimalDual(T, limit * (1 - np.eye(p))), 1e-11)
        nearer = np.sign(c) * max(abs(c) - limit, 0)
        exact = min(1 - nearer, 1 + (p - 1) * nearer)
        assert s == pytest.approx(exact, abs=1e-9)
        assert bound == pytest.approx(exact, abs=1e-9)


def test_nothing_that_may_move_is_an_eigenvalue():
    T = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert np.allclose(both_ends(PrimalDual(T, np.zeros((2, 2)))), 0.5)
    assert np.allclose(both_ends(PrimalDual(np.eye(1), np.zeros((1, 1)))), 1)


def test_the_sign_is_that_of_the_threshold():
    "A hundred-thousandth above and below, with entries that must not move."
    for seed in range(12):
        rng = np.random.default_rng(seed)
        S, weights = corrected_example(9, 6, seed), weights_of((0.0, 1.0, 2.0), 9, rng)
        low, high = 1e-3, 1e3
        while high > (1 + 1e-5) * low:
            middle = np.sqrt(low * high)
            found = verdict(S, middle, weights)
            assert (found.inside is None) != (found.certificate is None)
            low, high = (middle, high) if found.inside is None else (low, middle)
        W, V = verdict(S, high, weights).inside, verdict(S, low, weights).certificate
        if W is not None:
            assert np.linalg.eigvalsh(W)[0] > 0
            assert (np.abs(W - S) <= high * weights + 1e-15).all()
        assert np.vdot(S, V) + low * np.vdot(weights, np.abs(V)) <= 0
        assert np.linalg.eigvalsh(V)[0] >= -1e-14 * np.abs(V).max()


def test_the_best_point_is_the_descents_in_any_units():
    for seed in range(4):
        S = corrected_example(12, 40, seed)
        own = np.outer(*2 * [10.0 ** np.arange(-6, 6)])
        weights = np.ones((12, 12)) - (seed % 2) * np.eye(12)
        start = feasible_start(S, 0.5, weights)
        pair = best_determinant(S, 0.5, weights, start, 1e-10, 60)
        other = best_determinant(S * own, 0.5, weights * own, start * own, 1e-10, 60)
        known = graphical_lasso(S, 0.5, tol=1e-10, penalize_diagonal=seed % 2 == 0)
        assert np.allclose(pair.precision, known.precision, atol=1e-3)
        assert np.array_equal(pair.precision == 0, known.precision == 0)
        assert np.allclose(other.precision * own, pair.precision, atol=1e-3)


def test_huge_limits_cannot_bind_and_cost_a_certificate_nothing():
    S, penalties = np.eye(3), np.full((3, 3), 1e12)
    assert cannot_bind(S, penalties - np.diag([1e12] * 3)).sum() == 6
    assert not cannot_bind(S, 0.5 * np.ones((3, 3))).any()
    free = cannot_bind(S, penalties * (1 - np.eye(3)))
    V = zero_where_free(np.full((3, 3), 0.9) + 0.1 * np.eye(3), free)
    assert np.array_equal(V, np.diag(np.diag(V)))


def test_an_infinite_weight_leaves_a_certificate_that_is_zero_there():
    S = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, 0.5], [2.0, 0.5, 1.0]])
    weights = np.ones((3, 3))
    weights[0, 1] = weights[1, 0] = np.inf
    with pytest.raises(InfeasibleError) as caught:
        graphical_lasso(S, 0.1, weights=weights)
    V = caught.value.certificate
    assert V[0, 1] == 0 and np.linalg.eigvalsh(V)[0] >= -1e-14
    finite = np.where(np.isinf(weights), 0, weights)
    assert np.vdot(S, V) + 0.1 * np.vdot(finite, np.abs(V)) <= 0
    assert graphical_lasso(S, caught.value.works, weights=weights).dual_gap < 3e-6


@pytest.mark.parametrize("gained", [0.0, 0.5, 2.0])
def test_a_step_that_gains_too_little_is_halved(gained, monkeypatch):
    """What the first try of a step is said to gain, in units of what it must gain at
    least: nothing and half of it are too little, twice as much is enough."""
    S, weights = corrected_example(6, 30, 0), np.ones((6, 6))
    T, limits, units = unit_box(S, 0.5, weights)
    start = feasible_start(S, 0.5, weights) / units
    full, tried = (interior_point._Centre(T, limits, start) for _ in range(2))
    before, tries = full.u, []
    real = interior_point._Centre.value
    slope = 2 * full.theta[full.pairs] - full.mu / full.above + full.mu / full.below
    assert full.advance()
    least = 1e-4 * slope @ (full.u - before)
    assert least > 0

    def value(u):
        tries.append(u)
        if len(tries) == 2:
            return real(tried, before) + gained * least
        return real(tried, u)

    monkeypatch.setattr(tried, "value", value)
    assert tried.advance() and np.array_equal(tries[0], before)
    share = 1.0 if gained > 1 else 0.5
    assert np.allclose(tried.u - before, share * (full.u - before), rtol=1e-12)


def test_rounding_that_leaves_no_room_ends_the_walk_without_a_warning():
    "An inverse with a negative variance, a limit that is met: no step, and no nan."
    limits = np.full((2, 2), 0.5)
    walk = PrimalDual(np.eye(2), limits)
    before = walk.u, walk.theta
    for u, Z in (
        (np.array([0.5]), np.eye(2)),
        (np.array([-0.5]), np.eye(2)),
        (np.array([0.1]), np.diag([1.0, -1.0])),
    ):
        with pytest.raises(np.linalg.LinAlgError, match="nothing is left"):
            walk.move(u, Z)
        assert walk.u is before[0] and walk.theta is before[1]


def test_a_limit_that_cannot_bind_is_not_multiplied_by_zero():
    "Three columns, nothing between the outer ones: the inverse there is exactly zero."
    S, weights = np.eye(3), 100.0 * (1 - np.eye(3))
    with np.errstate(all="raise"):
        pair = best_determinant(S, 1.0, weights, np.eye(3), 1e-6, 50)
    assert np.allclose(pair.precision, np.eye(3))
