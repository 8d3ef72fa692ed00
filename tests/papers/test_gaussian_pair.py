"""Two Gaussian laws told apart: closed forms, thirty digits, properties, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy.stats import chi2, multivariate_normal, ncx2

from privglasso.base.validation import InputError
from privglasso.papers import gaussian_pair as module
from privglasso.papers.gaussian_pair import (
    GaussianPair,
    SupportError,
    best_epsilon,
    delta_between,
    epsilon_between,
    factored_pair,
    gaussian_pair,
    loss_tail,
    renyi_divergence,
    renyi_epsilon,
    renyi_to_epsilon,
)
from privglasso.privacy.gdp import delta_gdp, epsilon_gdp

SHIFT = gaussian_pair([0], [[1]], [1], [[1]])
RATIOS = st.one_of(st.floats(0.05, 0.97), st.floats(1.03, 20))


@st.composite
def pairs(draw, size=3):
    ratio = sorted(
        draw(
            st.lists(RATIOS, min_size=1, max_size=size, unique_by=lambda v: round(v, 3))
        )
    )
    count = draw(st.lists(st.integers(2, 30), min_size=len(ratio), max_size=len(ratio)))
    square = draw(st.lists(st.floats(0, 3), min_size=len(ratio), max_size=len(ratio)))
    return GaussianPair(ratio, count, square)


# the transform and its inverse


def shifted_tail(pair, threshold):
    "P(L > threshold) for one variance ratio: a noncentral chi-squared law."
    (v,), (h,), (q,) = pair.variance_ratio, pair.multiplicity, pair.squared_shift
    edge = (2 * threshold - h * math.log(v) + q / (1 - v)) / (1 / v - 1)
    law = ncx2(h, q / (1 - v) ** 2)
    return law.sf(edge) if v < 1 else law.cdf(edge)


@pytest.mark.parametrize("v", [0.02, 0.5, 0.95, 1.1, 3.0, 40.0])
def test_one_ratio_is_a_chi_squared_law(v):
    for h, q in ((2, 0.0), (3, 0.5), (40, 0.1), (140, 4.0)):
        pair = GaussianPair([v], [h], [q])
        for threshold in (-2.0, -0.3, 0.0, 0.7, 5.0):
            low, high = loss_tail(pair, threshold)
            exact = shifted_tail(pair, threshold)
            assert low - 1e-13 <= exact <= high + 1e-13
            assert high - low <= 3e-6 * high + 1e-13
            if threshold < 0:
                continue
            # delta from two closed tails, P(L > e) - exp(e) Q(L > e): L changes sign
            other = 1 - shifted_tail(pair.reverse(), -threshold)
            exact = exact - math.exp(threshold) * other
            low, high = delta_between(pair, threshold)
            assert low - 1e-12 <= exact <= high + 1e-12


@pytest.mark.parametrize("d", [0.01, 1.0, 6.0])
def test_a_shift_is_gaussian_privacy(d):
    pair = gaussian_pair([0], [[1]], [d], [[1]])
    for epsilon in (0.0, 0.1, 2.0, 30.0):
        low, high = delta_between(pair, epsilon)
        # delta_gdp says 2e-308 for what is less than any number
        exact, tiny = delta_gdp(epsilon, d), np.finfo(float).tiny
        assert low * (1 - 1e-9) <= exact <= max(high * (1 + 1e-9), tiny)
        assert high <= low * (1 + 1e-6) + 1e-300
    expected = epsilon_gdp(1e-6, d)
    assert epsilon_between(pair, 1e-6) == pytest.approx(expected, rel=1e-8)


def precise(pair, x, power):
    "The integral with mpmath, along a line of its own."
    c = 0.41 * min(1, pair.largest_order - 1)
    columns = pair.variance_ratio, pair.multiplicity, pair.squared_shift
    rows = [[mp.mpf(float(y)) for y in row] for row in zip(*columns, strict=True)]

    def integrand(t):
        s = mp.mpc(c, t)
        size = mp.fsum(
            h * ((1 + s) * mp.log(v) - mp.log((1 + s) * v - s))
            + s * (1 + s) * q / ((1 + s) * v - s)
            for v, h, q in rows
        )
        return mp.re(mp.exp(size / 2 - s * x) / (s if power == 1 else s * (s + 1)))

    return mp.quad(integrand, [0, 1, 3, 10, 30, 100, 1000, 10**5, mp.inf]) / mp.pi


def test_enclosures_hold_thirty_digits():
    rng = np.random.default_rng(0)
    pair = GaussianPair(
        np.sort(rng.uniform(0.4, 2.5, 3)), rng.integers(4, 9, 3), rng.uniform(0, 1, 3)
    )
    with mp.workdps(25):
        for power, enclose in ((1, loss_tail), (2, delta_between)):
            low, high = enclose(pair, 0.8, 1e-9)
            assert low <= precise(pair, 0.8, power) <= high <= low * (1 + 1e-7)


def test_almost_equal_laws_keep_their_digits():
    "Ratios 1 ± 1e-5: the loss is normal with deviation 1e-5, up to a relative 1e-5."
    pair = GaussianPair([1 - 1e-5, 1 + 1e-5], [1e6, 1e6], [0, 0])
    low, high = delta_between(pair, 0.0)
    exact = delta_gdp(0.0, 1e-5 * math.sqrt(1e6))
    assert low == pytest.approx(exact, rel=1e-3) and high <= low * (1 + 1e-6)


def test_ratios_far_from_one_are_still_enclosed():
    "Four variances that all but vanish, or explode, against the law of chi-squared."
    for v in (1e-7, 1e-9, 1e-11, 1e6, 1e12):
        edge = (4 * np.log(v) - 2) / (1 - 1 / v)
        tail = chi2.cdf if v > 1 else chi2.sf
        exact = tail(edge, 4) - math.e * tail(edge / v, 4)
        low, high = delta_between(GaussianPair([v], [4], [0]), 1.0, 1e-6)
        assert low <= exact * (1 + 1e-12) and exact <= high * (1 + 1e-12)
        assert high <= low * (1 + 1e-5)


def precise_terms(pair, s, x, power):
    "What is summed, at the points s, with mpmath."
    columns = pair.variance_ratio, pair.multiplicity, pair.squared_shift
    rows = [[mp.mpf(float(y)) for y in row] for row in zip(*columns, strict=True)]
    for z in map(mp.mpmathify, s):
        size = mp.fsum(
            h * ((1 + z) * mp.log(v) - mp.log((1 + z) * v - z))
            + z * (1 + z) * q / ((1 + z) * v - z)
            for v, h, q in rows
        )
        yield size / 2 - z * x - mp.log(z) - (power - 1) * mp.log(1 + z)


UNLIKE = [([0.6, 1.7], [1, 2], [0.0, 0.0]), ([0.9, 1.2], [2, 1], [2.0, 5.0])]


@pytest.mark.parametrize("laws", UNLIKE)
def test_the_terms_change_no_faster_than_allowed_and_at_last_as_fast(laws):
    "The bound on the change of log a, which the rest of the sum rests on."
    pair = GaussianPair(*laws)
    limit = module._limit_loss(pair)
    for power, tau in ((1, 1.0), (2, 30.0), (2, 1e3), (1, 1e7)):
        with mp.workdps(40):
            log_a = lambda t, power=power: (
                next(precise_terms(pair, [mp.mpc(0.2, t)], 0, power)) - 1j * t * limit
            )
            first, second = (abs(complex(mp.diff(log_a, tau, n))) for n in (1, 2))
        allowed = module._bend(pair, tau, power) / tau
        assert first <= allowed and second <= 2 * allowed / tau
    assert first > 0.999 * allowed  # far out it is attained
    shifted = pair.squared_shift.sum() > 0
    bend = module._bend(pair, 1e-9, 0) * 1e-9 * 2
    v, q = pair.variance_ratio, pair.squared_shift
    assert bend == pytest.approx((q * v / np.abs(v - 1) ** 3).sum(), abs=1e-8)
    assert shifted == (bend > 1)


@pytest.mark.parametrize("laws", UNLIKE)
@pytest.mark.parametrize("power", [1, 2])
def test_the_rest_of_the_sum_is_within_its_error(laws, power):
    "Against the same sum continued for so long that what is left is nothing."
    pair, x, c, h = GaussianPair(*laws), -0.4, 0.2, 0.1
    s, terms, errors = module._nodes(pair, x, power, c, h, 0.0, 0, 2**19)
    far, fall = module._left_out(pair, s[-2], terms[-2], power, h)
    end, beyond = module._oscillating(
        pair, x, s[-2], terms[-2:], errors[-2:].sum(), power, h, fall
    )
    for k in (100, 1000, 20000):
        _, fall = module._left_out(pair, s[k], terms[k], power, h)
        rest, error = module._oscillating(
            pair, x, s[k], terms[k : k + 2], errors[k : k + 2].sum(), power, h, fall
        )
        truth = terms[k:-2].real.sum() + end
        assert abs(rest - truth) <= error + beyond + errors[k:].sum()
    assert error + beyond + errors[k:].sum() < 0.05 * abs(terms[k]) / abs(
        1 - np.exp(1j * h * (module._limit_loss(pair) - x))
    )


@pytest.mark.parametrize(("x", "top"), [(0.5, 0.0), (-30.0, 40.0), (200.0, 10.0)])
def test_rounding_errors_of_the_terms_are_allowed_for(x, top):
    for laws in UNLIKE:
        pair = GaussianPair(*laws)
        s, terms, errors = module._nodes(pair, x, 2, 0.2, 0.37, top, 1, 200)
        with mp.workdps(40):
            truth = precise_terms(pair, s, mp.mpf(x), 2)
            off = [
                float(abs(mp.mpmathify(term) - mp.exp(log - top)))
                for term, log in zip(terms, truth, strict=True)
            ]
        assert (np.array(off) <= errors).all()


def test_no_order_beyond_the_last_one_counts():
    "A divergence that is only a bound up to 1.5, and seems to vanish above."
    divergence = lambda alpha: alpha if alpha <= 1.5 else 0.0
    epsilon = best_epsilon(divergence, 1.5, 1e-3)
    orders = np.linspace(1.001, 1.5, 2000)
    assert epsilon >= renyi_to_epsilon(orders, orders, 1e-3).min() - 1e-9


@settings(max_examples=20, deadline=None)
@given(pairs())
def test_properties_of_the_privacy_curve(pair):
    epsilons = np.array([0.0, 0.3, 1.0, 3.0])
    rows = [delta_between(pair, e) for e in epsilons]
    delta = np.array([row.upper for row in rows])
    for low, high in rows:
        assert 0 <= low <= high <= 1 and high - low <= 1e-6 * high + 1e-14
    assert (np.diff(delta) <= 1e-12).all()
    # convex in exp(epsilon), with slopes from -1 to 0
    slopes = np.diff(delta) / np.diff(np.exp(epsilons))
    assert (np.diff(slopes) >= -1e-9).all() and slopes[0] >= -1 - 1e-9
    # total variation has no direction
    back = delta_between(pair.reverse(), 0.0)
    assert back.upper == pytest.approx(delta[0], rel=1e-5)


@settings(max_examples=20, deadline=None)
@given(pairs(), st.floats(1e-7, 0.3))
def test_epsilon_is_the_inverse_and_below_renyi(pair, delta):
    epsilon = epsilon_between(pair, delta)
    assert delta_between(pair, epsilon).upper <= delta * (1 + 1e-7)
    assert epsilon <= renyi_epsilon(pair, delta) * (1 + 1e-9)
    assert epsilon == 0 or delta_between(pair, 0.999 * epsilon).lower > delta


@settings(max_examples=20, deadline=None)
@given(pairs())
def test_fewer_coordinates_tell_less(pair):
    part = GaussianPair(
        pair.variance_ratio, np.ceil(pair.multiplicity / 2), pair.squared_shift / 2
    )
    assert delta_between(part, 0.5).lower <= delta_between(pair, 0.5).upper * (1 + 1e-9)
    top = min(pair.largest_order, 40)
    orders = 1 + (top - 1) * np.linspace(0.05, 0.95, 9)
    found = np.array([renyi_divergence(pair, a) for a in orders])
    assert (np.diff(found) >= -1e-9 * np.abs(found[:-1])).all() and found[0] >= -1e-12


def test_a_bounded_loss_has_an_end():
    pair = GaussianPair([2.0], [3], [0])
    end = 1.5 * math.log(2)
    assert delta_between(pair, end) == (0, 0) and delta_between(pair, end + 1) == (0, 0)
    assert 0 < delta_between(pair, end * 0.99).lower and loss_tail(pair, end) == (0, 0)
    assert epsilon_between(pair, 1e-12) < end


def test_an_enclosure_never_claims_an_impossible_zero():
    low, high = loss_tail(GaussianPair([0.65, 55.0], [1, 1], [0, 0]), 3000.0)
    assert low == 0 < high < 1e-300


def test_too_many_digits_are_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_NODES", 2**16)
    # the loss's density is not bounded there
    edge = float(np.log([0.5, 3.0]).sum()) / 2
    with pytest.raises(InputError) as caught:
        loss_tail(GaussianPair([0.5, 3.0], [1, 1], [0, 0]), edge, 1e-11)
    assert caught.value.argument == "rtol"


# pairs


def test_a_pair_does_not_depend_on_coordinates():
    rng = np.random.default_rng(0)
    root, step, turn = np.eye(5) + 0.3 * rng.normal(size=(3, 5, 5))
    K, other, m = root @ root.T, root @ step @ step.T @ root.T, rng.normal(size=5)
    one = gaussian_pair(np.zeros(5), K, m, other)
    two = gaussian_pair(turn @ m, turn @ K @ turn.T, np.zeros(5), turn @ other @ turn.T)
    for same in (two, one.reverse().reverse()):
        assert np.allclose(one.variance_ratio, same.variance_ratio)
        assert np.allclose(one.squared_shift, same.squared_shift)


def test_the_loss_is_the_log_likelihood_ratio():
    rng = np.random.default_rng(1)
    root = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    K, other, m = root @ root.T, np.eye(3), np.array([0.5, 0, 0])
    first = multivariate_normal(np.zeros(3), K)
    draws = first.rvs(20_000, random_state=rng)
    losses = first.logpdf(draws) - multivariate_normal(m, other).logpdf(draws)
    pair = gaussian_pair(np.zeros(3), K, m, other)
    for threshold in (-0.5, 0.0, 1.0):
        low, high = loss_tail(pair, threshold, 1e-4)
        # off by 0.019 with probability 1e-6 (Hoeffding)
        assert low - 0.019 < (losses > threshold).mean() < high + 0.019


FLAT, EYE = np.diag([1.0, 0.0]), np.eye(2)


def test_singular_laws():
    pair = gaussian_pair([0, 0], FLAT, [1, 0], 4 * FLAT)
    assert pair.variance_ratio.tolist() == [4.0]
    for one, mean, two in (
        (FLAT, [0, 1], FLAT),
        (FLAT, [0, 0], np.diag([0.0, 1])),
        (FLAT, [0, 0], EYE),
        (EYE, [0, 0], FLAT),
    ):
        with pytest.raises(SupportError):
            gaussian_pair([0, 0], one, mean, two)


NAN, ZERO = np.nan, [[0.0], [0]]
SMALL = 1e-120 * EYE
REFUSED = [
    (gaussian_pair, ([0, 0], np.zeros((2, 2)), [0, 0], EYE), "covariance"),
    (gaussian_pair, ([0, 0], np.diag([1, -1.0]), [0, 0], EYE), "covariance"),
    (gaussian_pair, ([0, 0], [[1, 2], [0, 1]], [0, 0], EYE), "covariance"),
    (gaussian_pair, ([0, 0], np.diag([1, 1e-13]), [0, 0], EYE), "covariance"),
    (gaussian_pair, ([0], EYE, [0, 0], EYE), "mean"),
    (gaussian_pair, ([0, NAN], EYE, [0, 0], EYE), "mean"),
    (gaussian_pair, ([0, 0], EYE, [0, 0], np.eye(3)), "other_covariance"),
    (gaussian_pair, ([0, 0], EYE, [1e200, 0], EYE), "other_means"),
    (gaussian_pair, ([0, 0], SMALL, [1e99, 0], SMALL), "other_means"),
    # NaN must not look like means that agree: that would be a perfect promise
    (factored_pair, (EYE, EYE, ZERO, [[NAN], [0]]), "other_means"),
    (factored_pair, ([[NAN]], [[1.0]], [[0.0]], [[0.0]]), "factor"),
    (factored_pair, ([1.0], [[1.0]], [[0.0]], [[0.0]]), "factor"),
    (factored_pair, (EYE, [[1.0]], ZERO, ZERO), "other_factor"),
    (factored_pair, (EYE, EYE, ZERO, [[0.0, 0], [0, 0]]), "other_means"),
    (GaussianPair, ([1e-13], [1], [0]), "variance_ratio"),
    (GaussianPair, ([NAN], [1], [0]), "variance_ratio"),
    (GaussianPair, ([2.0], [0], [0]), "multiplicity"),
    (GaussianPair, ([2.0], [1], [-1]), "squared_shift"),
    (GaussianPair, ([1.0, 2.0], [1], [0]), "squared_shift"),
    (renyi_divergence, (SHIFT, 1.0), "alpha"),
    (renyi_divergence, (SHIFT, NAN), "alpha"),
    (renyi_divergence, (GaussianPair([0.5], [2], [0]), 2.0), "alpha"),
    (renyi_to_epsilon, (1.0, 0.5, 1e-3), "alpha"),
    (renyi_to_epsilon, (1.0, 2.0, 1.0), "delta"),
    (best_epsilon, (lambda alpha: 1.0, 1.0, 1e-3), "largest_order"),
    (best_epsilon, (lambda alpha: 1.0, 2.0, 0.0), "delta"),
    (renyi_epsilon, (SHIFT, 0.0), "delta"),
    (delta_between, (SHIFT, -0.1), "epsilon"),
    (delta_between, (SHIFT, math.inf), "epsilon"),
    (delta_between, (SHIFT, 1.0, 1e-14), "rtol"),
    (loss_tail, (SHIFT, NAN), "threshold"),
    (epsilon_between, (SHIFT, 1.5), "delta"),
]


def test_bad_arguments_are_named():
    for function, arguments, named in REFUSED:
        with pytest.raises(InputError) as caught:
            function(*arguments)
        assert caught.value.argument == named, (function, arguments)
