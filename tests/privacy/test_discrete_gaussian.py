"""The discrete Gaussian and its privacy against 60 digits, from the definition."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.privacy import discrete_gaussian as dg


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


# --------------------------------------- 60-digit oracles, written from the definition


def mp_weights(sigma, up_to):
    q = mp.exp(-1 / (2 * mp.mpf(sigma) ** 2))
    return [q ** (k * k) for k in range(up_to + 1)]


def mp_reach(sigma):
    return int(18 * sigma) + 3 if sigma > 0.5 else 40


def mp_tails(sigma):
    "P[Y >= m] for m = 0, 1, ... by summation from the far end."
    weights = mp_weights(sigma, mp_reach(sigma))
    theta = 2 * mp.fsum(weights) - 1
    tails, total = [], mp.mpf(0)
    for weight in reversed(weights):
        total += weight
        tails.append(total / theta)
    return tails[::-1]


def mp_quantile(tails, m):
    "h(m) = quantile of P[Y < m]."
    return (
        mp.sqrt(2) * mp.erfinv(1 - 2 * tails[m])
        if m >= 1
        else -mp_quantile(tails, 1 - m)
    )


def mp_moments(sigma):
    """Normaliser and variance, through the Jacobi theta function and its derivative in
    the nome."""
    sigma = mp.mpf(sigma)
    if sigma < 0.5:
        weights = mp_weights(sigma, 60)
        theta = 2 * mp.fsum(weights) - 1
        return theta, 2 * mp.fsum(k * k * w for k, w in enumerate(weights)) / theta
    m = range(1, 40)
    dual = [mp.exp(-2 * (mp.pi * sigma * k) ** 2) for k in m]
    theta = 1 + 2 * mp.fsum(dual)
    deficit = 2 * mp.fsum(k * k * w for k, w in zip(m, dual, strict=True)) / theta
    return sigma * mp.sqrt(2 * mp.pi) * theta, sigma**2 * (
        1 - 4 * (mp.pi * sigma) ** 2 * deficit
    )


def relative(value, truth):
    return abs(float(mp.mpf(value) / truth - 1))


# -------------------------------------------------------------------- the distribution


def test_normaliser_and_variance_to_1e13():
    for sigma in np.geomspace(0.05, 1e4, 60).tolist() + [
        0.3989,
        0.39894228,
        0.399,
        0.4,
    ]:
        theta, variance = mp_moments(sigma)
        assert relative(dg.normaliser(sigma), theta) < 1e-13
        assert relative(dg.variance(sigma), variance) < 1e-13


def test_cdf_keeps_relative_accuracy_in_the_tail():
    for sigma in [0.05, 0.3, 1, 7.99, 8, 20]:
        tails = mp_tails(sigma)
        for m in sorted(
            {1, 2, int(sigma) + 1, int(5 * sigma) + 1, int(12 * sigma) + 1}
        ):
            if tails[m] > 1e-300:
                assert relative(dg.cdf(-m, sigma), tails[m]) < 1e-12
                assert dg.cdf(m - 1, sigma) == pytest.approx(
                    float(1 - tails[m]), abs=1e-15
                )


def test_both_branches_of_the_tail_agree_with_a_long_sum():
    for sigma in [7.999, 8.0, 64.0, 500.0]:
        for m in (
            1,
            2,
            sigma // 1,
            5 * sigma // 1,
            sigma**2 // 2 - 1,
            sigma**2 // 2 + 1,
        ):
            i = np.arange(40 * sigma)
            long_sum = np.exp(-(2 * m * i + i**2) / (2 * sigma**2)).sum()
            assert dg._tail_ratio([m], sigma)[0] == pytest.approx(long_sum, rel=5e-15)


def test_pmf_shapes_and_underflow():
    assert dg.pmf([[0, 1], [2, 3]], 1.0).shape == (2, 2)
    assert np.isscalar(dg.cdf(3, 1.0))
    assert dg.pmf(10**6, 0.05) == 0 and dg.pmf(1e300, 1.0) == 0
    assert (
        dg.pmf(np.arange(-9, 10), 0.05).tolist()
        == [0.0] * 8 + [dg.pmf(1, 0.05), 1, dg.pmf(1, 0.05)] + [0.0] * 8
    )
    assert dg.cdf(np.array([-(10**6), 10**6]), 3.0).tolist() == [0, 1]


# -------------------------------------------------------------------------- accounting


def test_every_sigma_part_at_sixty_digits():
    for sigma in [0.2, 0.35, 0.5, 0.7]:
        with mp.workdps(400):
            tails, s = mp_tails(sigma), mp.mpf(sigma)
            h = [mp_quantile(tails, m) for m in range(6)]
            steps = [b - a for a, b in zip(h, h[1:], strict=False)]
            assert all(step > 1 / s for step in steps)
            assert all(
                later < earlier
                for earlier, later in zip(steps, steps[1:], strict=False)
            )
            assert all((n - mp.mpf(1) / 2) / s < h[n] < n / s for n in range(1, 6))


def test_mu_exact_to_1e14():
    for shift in [1, 2, 5, 12]:
        for sigma in [0.3, 0.85, 1, 3, 7.99, 8, 20]:
            tails = mp_tails(sigma)
            upper, lower = (shift + 1) // 2, shift // 2 + 1
            if tails[upper] < mp.mpf(10) ** -45:
                continue
            assert (
                relative(
                    dg.mu_exact(shift, sigma),
                    mp_quantile(tails, upper) + mp_quantile(tails, lower),
                )
                < 1e-14
            )


def test_mu_bound_takes_the_smaller():
    assert dg.mu_bound(1, 0.5) == 4 and dg.mu_bound(
        3, math.sqrt(2 / 3) - 1e-9
    ) == pytest.approx(4 / math.sqrt(2 / 3))
    assert dg.mu_bound(50, 0.82) == 51 / 0.82
    assert dg.mu_bound(2, 64.0) == 2 / math.sqrt(64**2 - 1 / 6)


def mp_delta(epsilon, shift, sigma):
    "Theorem 7, with tails by summation."
    s = mp.mpf(sigma)
    threshold = mp.mpf(epsilon) * s**2 / shift - mp.mpf(shift) / 2
    m = int(mp.floor(threshold)) + 1
    q = mp.exp(-1 / (2 * s**2))
    reach = m + shift + int(25 * sigma) + 60
    mass = lambda a: mp.fsum(q ** (k * k) for k in range(a, reach))
    return (mass(m) - mp.exp(epsilon) * mass(m + shift)) / mp_moments(sigma)[0]


def test_delta_exact_far_into_the_tail():
    for shift, sigma in [(1, 0.3), (1, 1), (7, 1), (3, 8), (1, 30), (40, 30)]:
        with mp.workdps(400):
            for epsilon in (0.0, 0.01, 0.7, 3.0, 11.0, 37 * shift / sigma):
                truth = mp_delta(epsilon, shift, sigma)
                if truth > mp.mpf(10) ** -290:
                    assert (
                        relative(dg.delta_exact(epsilon, shift, sigma), truth) < 1e-11
                    )


def check_delta_exact_where_the_sum_is_too_long_for_summation(shift, sigma, z):
    """Against the Euler-Maclaurin formula at 120 digits, where cancellation does not
    matter."""
    if shift > 15 * sigma:
        return
    with mp.workdps(120):
        s, epsilon = mp.mpf(sigma), z * shift / sigma
        theta = mp_moments(sigma)[0]

        def tail(m):
            if m < 1:
                return 1 - tail(1 - m)
            x = (m - mp.mpf(1) / 2) / s
            hermite = [mp.mpf(1), x]
            for n in range(1, 24):
                hermite.append(x * hermite[n] - n * hermite[n - 1])
            extra = mp.fsum(
                mp.bernpoly(2 * j, mp.mpf(1) / 2)
                / mp.factorial(2 * j)
                * hermite[2 * j - 1]
                / s ** (2 * j)
                for j in range(1, 12)
            )
            return (
                s
                * (
                    mp.sqrt(mp.pi / 2) * mp.erfc(x / mp.sqrt(2))
                    + mp.exp(-x * x / 2) * extra
                )
                / theta
            )

        m = int(mp.floor(mp.mpf(epsilon) * s**2 / shift - mp.mpf(shift) / 2)) + 1
        truth = tail(m) - mp.exp(epsilon) * tail(m + shift)
        assert relative(dg.delta_exact(epsilon, shift, sigma), truth) < 1e-9


def test_delta_exact_where_the_sum_is_too_long_for_summation():
    for shift in [1, 7, 10**4, 10**7]:
        for z in [0.0, 0.3, 4.0, 20.0, 36.0]:
            for sigma in [1e3, 9e4, 1.3e5, 1e7, 2.0**39]:
                check_delta_exact_where_the_sum_is_too_long_for_summation(
                    shift, sigma, z
                )


def test_delta_just_below_and_above_a_kink():
    """Where the value 0 stops to count (epsilon = 1/2sigma²), delta falls to a far
    smaller tail."""
    for distance in [1e-14, 1e-9, 1e-3]:
        for sigma in [0.05, 0.3, 4.0]:
            with mp.workdps(400):
                for epsilon in (
                    (1 - distance) / (2 * sigma**2),
                    (1 + distance) / (2 * sigma**2),
                ):
                    assert (
                        relative(
                            dg.delta_exact(epsilon, 1, sigma),
                            mp_delta(epsilon, 1, sigma),
                        )
                        < 1e-12
                    )


def test_delta_underflows_to_zero_and_huge_epsilon():
    tiny = np.finfo(
        float
    ).tiny  # the true values are positive: 0 would promise too much
    assert (
        dg.delta_exact(1e6, 1, 1.0)
        == dg.delta_exact(1e300, 1, 1e10)
        == dg.delta_exact(1.0, 1, 64.0)
        == tiny
    )
    assert dg.delta_exact(0.0, 10**6, 1.0) == 1


@given(st.integers(1, 50), st.floats(0.3, 1e3), st.floats(1e-200, 0.3))
@settings(max_examples=60, deadline=None)
def test_epsilon_inverts_delta(shift, sigma, delta):
    epsilon = dg.epsilon_exact(delta, shift, sigma)
    if epsilon == 0:
        assert dg.delta_exact(0, shift, sigma) <= delta
    else:  # the curve is steep: allow for a relative 1e-14 in epsilon
        assert dg.delta_exact(epsilon * (1 + 1e-13), shift, sigma) <= delta * (1 + 1e-9)
        assert dg.delta_exact(epsilon * (1 - 1e-13), shift, sigma) >= delta * (1 - 1e-9)


def test_bad_sigma():
    for function in [
        dg.normaliser,
        dg.variance,
        lambda s: dg.pmf(0, s),
        lambda s: dg.cdf(0, s),
        lambda s: dg.mu_bound(1, s),
        lambda s: dg.mu_exact(1, s),
        lambda s: dg.delta_exact(1, 1, s),
        lambda s: dg.epsilon_exact(0.1, 1, s),
    ]:
        for sigma in [
            0,
            -1.0,
            2.0**-11,
            2.0**40 * 1.01,
            math.inf,
            math.nan,
            "1",
            None,
            True,
            [1.0],
        ]:
            with pytest.raises(InputError, match="sigma="):
                function(sigma)


def test_bad_arguments():
    for call, name in [
        (lambda: dg.pmf(0.5, 1.0), "x="),
        (lambda: dg.cdf([1, math.nan], 1.0), "x="),
        (lambda: dg.mu_bound(0, 1.0), "shift="),
        (lambda: dg.mu_exact(1.5, 1.0), "shift="),
        (lambda: dg.delta_exact(1, -1, 1.0), "shift="),
        (lambda: dg.delta_exact(-0.1, 1, 1.0), "epsilon="),
        (lambda: dg.delta_exact(math.inf, 1, 1.0), "epsilon="),
        (lambda: dg.epsilon_exact(0, 1, 1.0), "delta="),
        (lambda: dg.epsilon_exact(1, 1, 1.0), "delta="),
    ]:
        with pytest.raises(InputError, match=name):
            call()


def test_nothing_breaks_at_the_ends_of_the_range():
    for sigma in [2.0**-10, 0.05, 1.0, 2.0**20, 2.0**40]:
        assert dg.normaliser(sigma) >= 1 and 0 <= dg.variance(sigma) <= sigma**2
        for shift in (1, 10**6):
            mu = dg.mu_exact(shift, sigma)
            assert (
                shift / sigma * (1 - 1e-15)
                <= mu
                <= dg.mu_bound(shift, sigma) * (1 + 1e-15)
            )
            assert 0 < dg.delta_exact(0, shift, sigma) <= 1
            assert dg.epsilon_exact(1e-6, shift, sigma) >= 0


def test_epsilon_is_rounded_up_where_delta_is_steep():
    """With sigma = 2^-10 one unit in the last place of epsilon moves delta from 1e-9 to
    1e-300."""
    for shift in [1, 3, 10**6, 2**40, 10**15]:
        for sigma in [2.0**-10, 0.3, 1.0, 64.0, 1e6]:
            for delta in [1e-300, 1e-5, 0.5, 1 - 1e-16]:
                epsilon = dg.epsilon_exact(delta, shift, sigma)
                assert 0 < dg.delta_exact(epsilon, shift, sigma) <= delta * (1 + 1e-9)


def test_only_integers_have_a_probability():
    for law in [dg.pmf, dg.cdf]:
        for x in ["1", [1, "a"], 1j, None, [0.5], [math.nan], math.inf, {}]:
            with pytest.raises(InputError, match="x="):
                law(x, 1.0)


def weight_of(k, sigma):
    "exp(-k²/2σ²) in many digits."
    return mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2))


def test_delta_is_the_plain_sum_on_every_branch():
    """To eight digits: sums of positive parts in sixty, where the threshold lies left
    of zero, on it, and right of it."""
    with mp.workdps(60):
        for sigma in (0.05, 0.3, 0.8, 1.0, 2.5, 9.0):
            reach = range(-int(20 * sigma) - 30, int(20 * sigma) + 30)
            total = mp.fsum(weight_of(k, sigma) for k in reach)
            for shift in (1, 2, 3, 8):
                for epsilon in (0.0, 1e-6, 0.1, 0.7, 2.0, 11.0):
                    grown = mp.exp(mp.mpf(epsilon))
                    parts = (
                        weight_of(k, sigma) - grown * weight_of(k + shift, sigma)
                        for k in reach
                    )
                    exact = mp.fsum(part for part in parts if part > 0) / total
                    found = dg.delta_exact(epsilon, shift, sigma)
                    assert found == pytest.approx(float(exact), rel=1e-8)


@pytest.mark.parametrize("gap", [0.3, 1.0, 1e6])
@pytest.mark.parametrize(
    ("m", "shift", "sigma"),
    [(0.0, 100, 2e5), (0.0, 2e5, 2e5), (1e6, 2e5, 2e5), (1e5, 200, 2.1e5)],
)
def test_long_sums_are_those_of_their_terms(m, shift, sigma, gap):
    "By quadrature and by tails: more than a million terms."
    i = np.arange(9 * sigma)
    weight = np.exp(-i * m / sigma**2 - (i / sigma) ** 2 / 2)
    terms = weight * -np.expm1(-shift * (gap + i) / sigma**2)
    assert dg._excess(m, gap, shift, sigma) == pytest.approx(terms.sum(), rel=1e-9)


@given(st.floats(1e-3, 1.0), st.lists(st.floats(1.0, 1e12), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_noise_for_a_target_is_enough_and_hardly_more(mu, changes):
    changes = np.array(changes)
    sigma = dg.sigma_for(mu, changes)
    assert mu * (1 - 1e-13) < dg.mu_for(sigma, changes) <= mu
    assert dg.mu_for(0.95 * sigma, changes) > mu
    assert dg.mu_for(sigma, 1.1 * changes) > mu


def test_no_noise_where_nothing_is_released():
    sigma = dg.sigma_for(0.5, np.array([4.0, 0.0]))
    assert sigma[1] == 0 and sigma[0] == dg.sigma_for(0.5, 4.0)


def test_noise_that_no_proof_or_sampler_knows_is_refused_with_a_target_that_works():
    for mu, squared in ((3.0, 4.0), (1e-9, 1e12)):
        with pytest.raises(InputError, match="^mu=") as told:
            dg.sigma_for(mu, squared)
        works = float(str(told.value).split()[-1])
        assert dg.mu_for(dg.sigma_for(works, squared), squared) <= works
    assert dg.count_sigma(3.0, 4.0) == 1.0 and dg.mu_for(1.0, 4.0) < 3.0
