"""The chapter's theorems at random parameters, where the chapter has grids; oracles
from the definitions, 60 digits.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import ndtri

from privglasso.privacy import discrete_gaussian as dg
from privglasso.privacy.gdp import delta_gdp, tradeoff_curve

SIGMAS = st.floats(0.25, 1.5)
FEW = settings(max_examples=15, deadline=None)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def bell(x, sigma, power=0):
    "Sum of (k - x)^power exp(-(k - x)²/2 sigma²) over the integers."
    x, sigma = mpf(x), mpf(sigma)
    terms = ((k - x, mp.exp(-(((k - x) / sigma) ** 2) / 2)) for k in range(-60, 61))
    return mp.fsum(offset**power * weight for offset, weight in terms)


def tail(n, sigma):
    "P[Y >= n] for n >= 1."
    far = int(math.sqrt(n**2 + 300 * sigma**2)) + 3
    return mp.fsum(mp.exp(-((k / mpf(sigma)) ** 2) / 2) for k in range(n, far)) / bell(
        0, sigma
    )


def normal_tail(z):
    return mp.erfc(z / mp.sqrt(2)) / 2


def record_mu(shifts, sigmas):
    "The proved mu of a record."
    return math.hypot(
        *(d / math.sqrt(s**2 - 1 / 6) for d, s in zip(shifts, sigmas, strict=True))
    )


# -------------------------------------------------- one function: mean, variance, sums


@given(SIGMAS)
@FEW
def test_variances_of_dual_parameters_add_to_one(sigma):
    dual = 1 / (2 * mp.pi * mpf(sigma))
    share = lambda s: bell(0, s, 2) / bell(0, s) / mpf(s) ** 2
    assert abs(share(sigma) + share(dual) - 1) < mpf(10) ** -50
    assert dg.variance(sigma) / sigma**2 + dg.variance(float(dual)) / float(
        dual
    ) ** 2 == pytest.approx(1, rel=1e-12)


@given(SIGMAS)
@FEW
def test_the_printed_variance_bound_holds_and_wastes_an_exponential(sigma):
    y = (2 * mp.pi * mpf(sigma)) ** 2
    printed, deficit = (
        y / mp.expm1(y),
        1 - bell(0, sigma, 2) / bell(0, sigma) / mpf(sigma) ** 2,
    )
    assert printed < deficit
    assert deficit / printed > mp.exp(
        y / 2
    )  # the leading terms have the ratio 2 exp(y / 2)


@given(SIGMAS, st.floats(0.01, 0.49))
@FEW
def test_the_mean_is_pulled_to_the_nearer_integer(sigma, mu):
    pull = bell(mu, sigma, 1) / bell(mu, sigma)
    assert -mu <= pull < 0
    mirrored = bell(1 - mpf(mu), sigma, 1) / bell(1 - mpf(mu), sigma)
    assert abs(pull + mirrored) < mpf(10) ** -50
    for symmetric in (0, mpf(1) / 2, 1):
        assert abs(bell(symmetric, sigma, 1)) < mpf(10) ** -50


def test_a_sum_of_two_is_not_log_quadratic_in_exact_fractions():
    """Weights q^(k²), cut at 12: what is cut changes less than 1e-40, the two
    curvatures differ by more than 1e-5."""
    for q in [Fraction(1, 9), Fraction(1, 2), Fraction(2, 3)]:
        weights = {k: q ** (k * k) for k in range(-12, 13)}
        law = {
            s: sum(weights[k] * weights[s - k] for k in weights if s - k in weights)
            for s in range(-3, 4)
        }
        even, odd = (law[s] ** 2 / (law[s - 1] * law[s + 1]) for s in (0, 1))
        assert even > odd * (1 + Fraction(1, 10**5))


def test_error_of_sums_is_within_the_published_bound():
    for sigma in [0.5, 0.6, 0.8, 1.0]:
        for m in [2, 3, 5, 8]:
            k = np.arange(-30, 31)
            weights = dg.pmf(k, sigma)
            law = weights
            for _ in range(m - 1):
                law = np.convolve(law, weights)
            values = np.arange(-30 * m, 30 * m + 1)
            near = abs(values) <= 4 * sigma * math.sqrt(m)
            claimed = dg.pmf(values, sigma * math.sqrt(m))
            error = np.abs(np.log(law[near] / claimed[near])).max()
            bound = 10 * sum(
                math.exp(-2 * (math.pi * sigma) ** 2 * j / (j + 1)) for j in range(1, m)
            )
            assert 0 < error <= bound


# --------------------------------------------------------------- tails and the theorem


@given(st.floats(0.1, 6), st.floats(0.2, 4), st.integers(-12, 12))
@FEW
def test_corrected_proposition_3_on_every_lattice(sigma, t, k):
    """P[N <= x] < P[X <= x] < P[N <= x + t] for x = kt; the printed first inequality is
    the opposite."""
    parameter = float(Fraction(sigma) / Fraction(t))  # in steps of t
    assume(0.15 < parameter < 4)
    if k < 0:
        assert (
            normal_tail(-k / mpf(parameter))
            < tail(-k, parameter)
            < normal_tail(-(k + 1) / mpf(parameter))
        )
    else:  # the same for the upper tails, which keep their digits
        assert (
            normal_tail((k + 1) / mpf(parameter))
            < tail(k + 1, parameter)
            < normal_tail(k / mpf(parameter))
        )


@given(st.floats(0, 5), st.floats(0.05, 2.4), st.floats(0.01, 0.5))
@FEW
def test_log_quotient_of_three_equal_intervals(c, delta, more):
    "Between delta² - delta⁴/12 and delta², and growing with both arguments."
    mass = lambda c, delta: normal_tail(c - delta / 2) - normal_tail(c + delta / 2)
    F = lambda c, delta: mp.log(
        mass(c, delta) ** 2 / (mass(c - delta, delta) * mass(c + delta, delta))
    )
    c, delta = mpf(c), mpf(delta)
    assert delta**2 - delta**4 / 12 <= F(c, delta) < delta**2
    assert F(c + more, delta) > F(c, delta) and F(c, delta + more) > F(c, delta)


@given(st.floats(0.05, 200), st.integers(1, 500))
@settings(max_examples=150, deadline=None)
def test_mu_is_between_its_bounds(sigma, shift):
    mu = dg.mu_exact(shift, sigma)
    assert shift / sigma * (1 - 1e-14) < mu < (shift + 1) / sigma * (1 + 1e-14)
    assert mu <= dg.mu_bound(shift, sigma) * (1 + 1e-14)
    if 1 <= sigma <= 1000**0.5:
        assert mu > shift / sigma  # the excess is visible in double precision


# ----------------------------------------------- records, curves, concentrated privacy


def test_a_record_of_three_columns():
    for sigmas, shifts in [((0.9, 1.2, 1.0), (1, 2, 1)), ((1.5, 0.83, 2.0), (3, 1, 2))]:
        p = q = np.ones(1)
        for sigma, shift in zip(sigmas, shifts, strict=True):
            k = np.arange(-int(7 * sigma) - 3, int(7 * sigma) + 4 + shift)
            p, q = (
                np.outer(p, dg.pmf(k, sigma)).ravel(),
                np.outer(q, dg.pmf(k - shift, sigma)).ravel(),
            )
        mu = record_mu(shifts, sigmas)
        alpha, beta = tradeoff_curve(p / p.sum(), q / q.sum())
        inside = (alpha > 1e-5) & (beta > 1e-5)
        implied = -ndtri(alpha[inside]) - ndtri(beta[inside])
        assert math.hypot(*np.divide(shifts, sigmas)) < implied.max() <= mu
        for epsilon in (0.0, 0.5, 2.0, 6.0):
            assert np.maximum(0, p - math.exp(epsilon) * q).sum() <= delta_gdp(
                epsilon, mu
            )


@given(st.floats(0.3, 6), st.integers(1, 9), st.floats(0, 6))
@settings(max_examples=50, deadline=None)
def test_exact_delta_is_below_the_curve_of_mu_and_grows_with_the_shift(
    sigma, shift, epsilon
):
    delta = dg.delta_exact(epsilon, shift, sigma)
    assert delta <= delta_gdp(epsilon, dg.mu_exact(shift, sigma)) * (1 + 1e-9) + 1e-300
    assert delta <= dg.delta_exact(epsilon, shift + 1, sigma) * (1 + 1e-9)


@given(SIGMAS, st.integers(1, 4), st.floats(1.05, 8))
@FEW
def test_renyi_divergence_by_the_one_function(sigma, shift, order):
    s, a = mpf(sigma), mpf(order)
    exponents = (
        -(a * y * y + (1 - a) * (y - shift) ** 2) / (2 * s**2) for y in range(-90, 91)
    )
    divergence = mp.log(mp.fsum(map(mp.exp, exponents)) / bell(0, s)) / (a - 1)
    ceiling = a * shift**2 / (2 * s**2)
    place = a * shift - mp.floor(a * shift)
    assert (
        abs(divergence - ceiling - mp.log(bell(place, s) / bell(0, s)) / (a - 1))
        < mpf(10) ** -45 * ceiling
    )
    assert divergence <= ceiling * (1 + mpf(10) ** -45)
    assert place in (0, 1) or divergence < ceiling
