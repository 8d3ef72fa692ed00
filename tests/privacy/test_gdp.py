"Gaussian differential privacy against a hundred digits and where floats end."

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.privacy.gdp import (
    compose_gdp,
    delta_gdp,
    epsilon_gdp,
    hockey_stick,
    mu_gdp,
    tradeoff_curve,
    tradeoff_gdp,
)

MUS = [1e-6, 3e-5, 1e-3, 0.05, 0.3, 0.999, 1.0, 1.7, 4.0, 20.0, 80.0, 565.7, 1e4, 1e6]
MUS.append(1234567.891)  # whose square is no float
DELTAS = [1e-300, 1e-200, 1e-90, 1e-30, 1e-10, 1e-5, 1e-2, 0.3, 0.9]
GRID = list(product(MUS, DELTAS))


def exact_delta(epsilon, mu):
    "The printed formula, with digits enough for its cancellation."
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
        -mu / 2 - epsilon / mu
    )


def exact_density(epsilon, mu):
    "Derivative of delta in mu."
    return mpmath.npdf(mpmath.mpf(epsilon) / mpmath.mpf(mu) - mpmath.mpf(mu) / 2)


def test_delta_to_twelve_digits():
    for mu, delta in GRID:
        epsilon = epsilon_gdp(delta, mu)
        with mpmath.workdps(100):
            assert abs(delta_gdp(epsilon, mu) / exact_delta(epsilon, mu) - 1) < 1e-12


def test_delta_at_epsilon_zero():
    for mu in MUS:
        with mpmath.workdps(60):
            assert (
                abs(
                    delta_gdp(0.0, mu) / mpmath.erf(mpmath.mpf(mu) / mpmath.sqrt(8)) - 1
                )
                < 1e-14
            )


def test_epsilon_to_twelve_digits():
    """The remaining distance to the root, delta's error over its slope, is a tiny part
    of epsilon."""
    for mu, delta in GRID:
        epsilon = epsilon_gdp(delta, mu)
        with mpmath.workdps(100):
            if epsilon == 0:
                assert exact_delta(0, mu) <= mpmath.mpf(delta) * (
                    1 + mpmath.mpf("1e-14")
                )
            else:
                slope = mpmath.exp(mpmath.mpf(epsilon)) * mpmath.ncdf(
                    -mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
                )
                assert (
                    abs(
                        (exact_delta(epsilon, mu) - mpmath.mpf(delta)) / slope / epsilon
                    )
                    < 1e-12
                )


def test_mu_to_twelve_digits():
    for delta in DELTAS:
        for epsilon in [0.0, 1e-12, 1e-6, 1e-3, 0.5, 1.0, 8.0, 3540.0, 1e6, 5e11]:
            mu = mu_gdp(epsilon, delta)
            with mpmath.workdps(
                700 if epsilon < 1e-3 else 100
            ):  # at epsilon near 0 the formula loses all that delta lacks
                assert (
                    abs(
                        (exact_delta(epsilon, mu) - mpmath.mpf(delta))
                        / exact_density(epsilon, mu)
                        / mu
                    )
                    < 1e-12
                )


positive_mu = st.floats(-6, 6).map(lambda x: 10.0**x)
small_delta = st.floats(-300, -0.05).map(lambda x: 10.0**x)


@settings(deadline=None, max_examples=80)
@given(positive_mu, small_delta)
def test_round_trip(mu, delta):
    epsilon = epsilon_gdp(delta, mu)
    assert epsilon >= 0
    if epsilon > 0:
        assert mu_gdp(epsilon, delta) == pytest.approx(mu, rel=1e-12)
    else:
        assert delta_gdp(0.0, mu) <= delta
        assert mu_gdp(0.0, delta) >= mu * (1 - 1e-12)


@settings(deadline=None, max_examples=100)
@given(positive_mu, st.floats(0, 30), st.floats(1.0001, 2))
def test_delta_falls_in_epsilon_and_rises_in_mu(mu, depth, factor):
    epsilon = mu * (mu / 2 + depth)
    assert (
        delta_gdp(epsilon * factor, mu)
        <= delta_gdp(epsilon, mu)
        <= delta_gdp(epsilon, mu * factor)
        <= 1
    )


@settings(deadline=None, max_examples=100)
@given(st.floats(0, 1), st.floats(0, 30), st.floats(0, 30))
def test_tradeoff_lies_above_its_tangents(alpha, mu, epsilon):
    line = 1 - delta_gdp(epsilon, mu) - math.exp(epsilon) * alpha
    assert tradeoff_gdp(alpha, mu) >= line - 1e-12
    assert (
        alpha
        >= 1
        - delta_gdp(epsilon, mu)
        - math.exp(epsilon) * tradeoff_gdp(alpha, mu)
        - 1e-12
    )


def weights(size):
    return st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(
        lambda w: sum(w) > 0
    )


@given(st.integers(1, 6).flatmap(lambda k: st.tuples(weights(k), weights(k))))
def test_curve_is_convex_and_ends_at_one(pair):
    alpha, beta = tradeoff_curve(*(np.array(w) / sum(w) for w in pair))
    assert alpha[0] == 0 and alpha[-1] == 1 and beta[-1] == 0
    assert (np.diff(alpha) >= 0).all() and (np.diff(beta) <= 0).all()
    run, rise = np.diff(alpha), np.diff(beta)
    turn = rise[:-1] * run[1:] - rise[1:] * run[:-1]
    assert (turn <= 1e-12).all()


def test_hockey_stick_where_e_to_the_epsilon_overflows():
    assert hockey_stick([1.0, 0.0], [0.0, 1.0], 5000.0) == 1.0
    assert hockey_stick([0.5, 0.5], [0.5, 0.5], [0.0, 5000.0]).tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("error")
def test_shapes_and_extremes_without_warnings():
    assert isinstance(delta_gdp(1.0, 1.0), float) and isinstance(
        epsilon_gdp(0.1, 1), float
    )
    assert delta_gdp([[0.0], [1.0]], [1.0, 2.0, 0.0]).shape == (2, 3)
    assert (
        epsilon_gdp(np.full((2, 2), 0.1), 3.0).shape
        == mu_gdp([[0.1, 1], [2, 3]], 0.1).shape
        == (2, 2)
    )
    assert delta_gdp(0.0, 1e100) == 1.0 and delta_gdp(0.0, 0.0) == 0.0
    assert epsilon_gdp(1e-300, 0.0) == 0.0 and math.isfinite(epsilon_gdp(1e-300, 1e100))
    assert mu_gdp(0.0, 0.5) == pytest.approx(2 * 0.6744897501960817)
    assert (
        0.89e100 < mu_gdp(1e300, 0.5) == mu_gdp(4e199, 0.5) < 0.9e100
        and mu_gdp(1.79e308, 1e-300) < 0.9e100
    )
    assert tradeoff_gdp([0, 1], 1e100).tolist() == [1.0, 0.0]


@pytest.mark.filterwarnings("error")
def test_a_delta_too_small_for_a_float_is_rounded_up():
    """The true delta is positive, so 0 would promise too much; nor may gradual
    underflow round it down."""
    for epsilon, mu in [
        (1e308, 1e-300),
        (1e308, 1.0),
        (1.0, 1e-3),
        (0.0, 5e-324),
        (746.0, 1e-100),
    ]:
        assert delta_gdp(epsilon, mu) == np.finfo(float).tiny
        assert delta_gdp(epsilon, 0.0) == 0.0


def test_delta_is_not_rounded_down_where_floats_end():
    for epsilon in [36.95, 37.2, 37.6, 38.0, 38.3, 38.5]:
        with mpmath.workdps(400):
            assert delta_gdp(epsilon, 1.0) >= exact_delta(epsilon, 1.0) * (
                1 - mpmath.mpf("1e-12")
            )


@pytest.mark.filterwarnings("error")
@settings(deadline=None, max_examples=80)
@given(st.floats(9, 99.95), small_delta)
def test_the_largest_mus_are_neither_lost_nor_endless(exponent, delta):
    """From 1e9 on epsilon is mu (mu/2 + z) to 18 digits, and mu its root; beyond 1e16
    no float near it has that delta.

    The steps once lost their slope there: epsilon came out as 0, perfect privacy, and
    mu never."""
    mu = 10.0**exponent
    with mpmath.workdps(60):
        z = (
            mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(delta))
            if delta > 1e-50
            else None
        )
        exact = (
            mpmath.mpf(mu) * (mpmath.mpf(mu) / 2 + z)
            if z is not None
            else mpmath.mpf(mu) ** 2 / 2
        )
    epsilon = epsilon_gdp(delta, mu)
    assert epsilon == pytest.approx(
        float(exact), rel=1e-14 if z is not None else 80 / mu + 1e-14
    )
    if epsilon < 4e199:
        assert mu_gdp(epsilon, delta) == pytest.approx(mu, rel=1e-12)


@settings(deadline=None, max_examples=100)
@given(st.floats(-8, 99), small_delta)
def test_no_conversion_rounds_a_promise_in_its_favour(exponent, delta):
    "At mu = 1e6 the last digit of mu moves delta by a billionth, at 1e20 from 1 to 0."
    mu = 10.0**exponent
    epsilon = epsilon_gdp(delta, mu)
    assert delta_gdp(epsilon, mu) <= delta * (1 + 2e-12)
    assert delta_gdp(epsilon, mu_gdp(epsilon, delta)) <= delta * (1 + 2e-12)


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5))
@settings(deadline=None)
def test_what_is_composed_is_the_least_float_that_is_enough(mus):
    squares, together = sum(Fraction(mu) ** 2 for mu in mus), compose_gdp(*mus)
    assert Fraction(together) ** 2 >= squares
    less = math.nextafter(math.nextafter(together, 0), 0)  # hypot may be one above
    assert Fraction(less) ** 2 < squares


def test_bad_input_is_named():
    for call, argument in [
        (lambda: delta_gdp(-1.0, 1.0), "epsilon"),
        (lambda: delta_gdp(math.inf, 1.0), "epsilon"),
        (lambda: delta_gdp(1.0, [1.0, -0.1]), "mu"),
        (lambda: delta_gdp(1.0, math.nan), "mu"),
        (lambda: delta_gdp("1", 1.0), "epsilon"),
        (lambda: delta_gdp(True, 1.0), "epsilon"),
        (lambda: delta_gdp(1.0, 1e101), "mu"),
        (lambda: epsilon_gdp(0.0, 1.0), "delta"),
        (lambda: epsilon_gdp(1.0, 1.0), "delta"),
        (lambda: epsilon_gdp(1e-5, None), "mu"),
        (lambda: mu_gdp(1.0, [0.1, 2.0]), "delta"),
        (lambda: mu_gdp(-1e-9, 0.1), "epsilon"),
        (lambda: tradeoff_gdp(1.1, 1.0), "alpha"),
        (lambda: tradeoff_gdp(0.1, -1.0), "mu"),
        (lambda: tradeoff_curve([0.5, 0.6], [0.5, 0.5]), "p"),
        (lambda: tradeoff_curve([1.0], [0.5, 0.5]), "q"),
        (lambda: tradeoff_curve([1.5, -0.5], [0.5, 0.5]), "p"),
        (lambda: tradeoff_curve([[1.0]], [1.0]), "p"),
        (lambda: hockey_stick([0.5, 0.5], [1.0, math.nan], 0.0), "q"),
        (lambda: hockey_stick([1.0], [1.0], -1.0), "epsilon"),
        (lambda: compose_gdp(1.0, -1.0), "mu"),
        (lambda: compose_gdp("1"), "mu"),
        (lambda: delta_gdp([[1.0], [1.0, 2.0]], 1.0), "epsilon"),
        (lambda: delta_gdp([1.0, 2.0], [1.0] * 3), "mu"),
        (lambda: epsilon_gdp([0.1, 0.2], [1.0] * 3), "mu"),
        (lambda: mu_gdp([1.0, 2.0], [0.1] * 3), "delta"),
        (lambda: tradeoff_gdp([0.1, 0.2], [1.0] * 3), "mu"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == argument
