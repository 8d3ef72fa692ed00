"""Discrete Gaussian: accounting against 60 digits and a peer, the sampler against its law and its rare branches."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from privglasso.privacy import discrete_gaussian as dg
from privglasso.privacy import sampler as exact
from privglasso.base.validation import InputError

HALF = Fraction(1, 2)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


# ---------------------------------------------------------------- 60-digit oracles, written from the definition


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
    "Normaliser and variance, through the Jacobi theta function and its derivative in the nome."
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


# ---------------------------------------------------------------- the distribution


@pytest.mark.parametrize(
    "sigma", np.geomspace(0.05, 1e4, 60).tolist() + [0.3989, 0.39894228, 0.399, 0.4]
)
def test_normaliser_and_variance_to_1e13(sigma):
    theta, variance = mp_moments(sigma)
    assert relative(dg.normaliser(sigma), theta) < 1e-13
    assert relative(dg.variance(sigma), variance) < 1e-13


def test_the_two_series_agree_where_both_converge():
    for sigma in (0.45, 0.8, 2):
        weights = mp_weights(sigma, 80)
        assert relative(2 * mp.fsum(weights) - 1, mp_moments(sigma)[0]) < 1e-50


@pytest.mark.parametrize(
    "sigma, value",
    [(0.1, 3.857e-22), (0.2, 7.453e-6), (0.3, 0.0076725), (0.4, 0.0808026)],
)
def test_variance_known_values(sigma, value):
    assert dg.variance(sigma) == pytest.approx(value, rel=2e-4)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1, 7.99, 8, 20])
def test_cdf_keeps_relative_accuracy_in_the_tail(sigma):
    tails = mp_tails(sigma)
    for m in sorted({1, 2, int(sigma) + 1, int(5 * sigma) + 1, int(12 * sigma) + 1}):
        if tails[m] > 1e-300:
            assert relative(dg.cdf(-m, sigma), tails[m]) < 1e-12
            assert dg.cdf(m - 1, sigma) == pytest.approx(float(1 - tails[m]), abs=1e-15)


@pytest.mark.parametrize("sigma", [7.999, 8.0, 64.0, 500.0])
def test_both_branches_of_the_tail_agree_with_a_long_sum(sigma):
    for m in (1, 2, sigma // 1, 5 * sigma // 1, sigma**2 // 2 - 1, sigma**2 // 2 + 1):
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


@given(st.floats(0.05, 50))
@settings(max_examples=50, deadline=None)
def test_pmf_sums_to_one(sigma):
    k = np.arange(-int(40 * sigma) - 2, int(40 * sigma) + 3)
    assert dg.pmf(k, sigma).sum() == pytest.approx(1, rel=1e-13)


# ---------------------------------------------------------------- accounting


@pytest.mark.parametrize("sigma", [0.82, 0.85, 0.9, 1, 1.25, 1.5, 2, 3, 5, 8, 10])
def test_theorem_at_sixty_digits(sigma):
    "1/sigma < delta(m) <= small root <= 1/sqrt(sigma^2 - 1/6), delta falls with m, (n - 1/2)/sigma < h(n) < n/sigma."
    tails, s = mp_tails(sigma), mp.mpf(sigma)
    reach = int(8 * sigma)
    h = [mp_quantile(tails, m) for m in range(reach + 1)]
    steps = [b - a for a, b in zip(h, h[1:], strict=False)]
    upper = mp.sqrt(2 / (1 + mp.sqrt(1 - 1 / (3 * s**2)))) / s
    assert upper <= 1 / mp.sqrt(s**2 - mp.mpf(1) / 6)
    assert all(1 / s < step <= upper for step in steps)
    assert all(
        later < earlier for earlier, later in zip(steps, steps[1:], strict=False)
    )
    assert all((n - mp.mpf(1) / 2) / s < h[n] < n / s for n in range(1, reach + 1))


@pytest.mark.parametrize("sigma", [0.2, 0.35, 0.5, 0.7])
def test_every_sigma_part_at_sixty_digits(sigma):
    with mp.workdps(400):
        tails, s = mp_tails(sigma), mp.mpf(sigma)
        h = [mp_quantile(tails, m) for m in range(6)]
        steps = [b - a for a, b in zip(h, h[1:], strict=False)]
        assert all(step > 1 / s for step in steps)
        assert all(
            later < earlier for earlier, later in zip(steps, steps[1:], strict=False)
        )
        assert all((n - mp.mpf(1) / 2) / s < h[n] < n / s for n in range(1, 6))


@pytest.mark.parametrize("sigma", [0.3, 0.85, 1, 3, 7.99, 8, 20])
@pytest.mark.parametrize("shift", [1, 2, 5, 12])
def test_mu_exact_to_1e14(sigma, shift):
    tails = mp_tails(sigma)
    upper, lower = (shift + 1) // 2, shift // 2 + 1
    if tails[upper] < mp.mpf(10) ** -45:
        pytest.skip("beyond sixty digits")
    assert (
        relative(
            dg.mu_exact(shift, sigma),
            mp_quantile(tails, upper) + mp_quantile(tails, lower),
        )
        < 1e-14
    )


@pytest.mark.parametrize(
    "sigma, mu",
    [
        (0.5, 2.48838),
        (0.85, 1.254008),
        (1, 1.045760),
        (1.5, 0.679517),
        (2, 0.50533),
        (3, 0.334892),
        (5, 0.20033),
        (8, 0.1250815),
    ],
)
def test_mu_known_values(sigma, mu):
    assert dg.mu_exact(1, sigma) == pytest.approx(mu, rel=3e-5)


@given(st.integers(1, 400), st.floats(0.05, 1e5))
@settings(max_examples=200, deadline=None)
def test_mu_lies_between_the_false_and_the_proved(shift, sigma):
    assert shift / sigma < dg.mu_exact(shift, sigma) * (1 + 1e-15)
    assert dg.mu_exact(shift, sigma) <= dg.mu_bound(shift, sigma) * (1 + 1e-15)


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


@pytest.mark.parametrize(
    "shift, sigma", [(1, 0.3), (1, 1), (7, 1), (3, 8), (1, 30), (40, 30)]
)
def test_delta_exact_far_into_the_tail(shift, sigma):
    with mp.workdps(400):
        for epsilon in (0.0, 0.01, 0.7, 3.0, 11.0, 37 * shift / sigma):
            truth = mp_delta(epsilon, shift, sigma)
            if truth > mp.mpf(10) ** -290:
                assert relative(dg.delta_exact(epsilon, shift, sigma), truth) < 1e-11


@pytest.mark.parametrize("sigma", [1e3, 9e4, 1.3e5, 1e7, 2.0**39])
@pytest.mark.parametrize("z", [0.0, 0.3, 4.0, 20.0, 36.0])
@pytest.mark.parametrize("shift", [1, 7, 10**4, 10**7])
def test_delta_exact_where_the_sum_is_too_long_for_summation(shift, sigma, z):
    "Against the Euler-Maclaurin formula at 120 digits, where cancellation does not matter."
    if shift > 15 * sigma:
        pytest.skip("the noise is negligible")
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


@pytest.mark.parametrize("sigma", [0.05, 0.3, 4.0])
@pytest.mark.parametrize("distance", [1e-14, 1e-9, 1e-3])
def test_delta_just_below_and_above_a_kink(sigma, distance):
    "Where the value 0 stops to count (epsilon = 1/2sigma²), delta falls to a far smaller tail."
    with mp.workdps(400):
        for epsilon in (
            (1 - distance) / (2 * sigma**2),
            (1 + distance) / (2 * sigma**2),
        ):
            assert (
                relative(dg.delta_exact(epsilon, 1, sigma), mp_delta(epsilon, 1, sigma))
                < 1e-12
            )


def test_delta_known_values():
    assert dg.delta_exact(1, 1, 1) == pytest.approx(0.141351, abs=5e-7)
    assert dg.delta_exact(1, 1, 2) == pytest.approx(7.2488e-3, abs=5e-8)
    assert dg.epsilon_exact(1e-5, 4, 1) == pytest.approx(23.93, abs=0.005)


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


@pytest.mark.parametrize("shift, sigma", [(1, 0.5), (1, 1), (4, 2), (3, 10), (20, 100)])
def test_against_dp_accounting(shift, sigma):
    loss = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    peer = loss.DiscreteGaussianPrivacyLoss(sigma, sensitivity=shift)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        theirs = peer.get_delta_for_epsilon(epsilon)
        if theirs > 1e-12:  # their sum is cut where the tail is below 1e-15 or so
            assert dg.delta_exact(epsilon, shift, sigma) == pytest.approx(
                theirs, rel=1e-9, abs=1e-20
            )


@given(st.integers(1, 50), st.floats(0.3, 3e3), st.floats(0, 30))
@settings(max_examples=100, deadline=None)
def test_delta_is_below_the_gaussian_curve_of_mu(shift, sigma, epsilon):
    gdp = pytest.importorskip("privglasso.gdp")
    exact = dg.delta_exact(epsilon, shift, sigma)
    assert (
        exact <= gdp.delta_gdp(epsilon, dg.mu_exact(shift, sigma)) * (1 + 1e-9) + 1e-300
    )


@given(st.integers(1, 50), st.floats(0.3, 1e3), st.floats(1e-200, 0.3))
@settings(max_examples=60, deadline=None)
def test_epsilon_inverts_delta(shift, sigma, delta):
    epsilon = dg.epsilon_exact(delta, shift, sigma)
    if epsilon == 0:
        assert dg.delta_exact(0, shift, sigma) <= delta
    else:  # the curve is steep: allow for a relative 1e-14 in epsilon
        assert dg.delta_exact(epsilon * (1 + 1e-13), shift, sigma) <= delta * (1 + 1e-9)
        assert dg.delta_exact(epsilon * (1 - 1e-13), shift, sigma) >= delta * (1 - 1e-9)


# ---------------------------------------------------------------- integer bounds and threshold words


@given(st.fractions(0, 500, max_denominator=10**12), st.integers(1, 400))
@settings(max_examples=150, deadline=None)
def test_exp_bounds_enclose(x, bits):
    with mp.workprec(bits + 200):
        lo, hi = exact.exp_bounds(x.numerator, x.denominator, bits)
        assert (
            hi - lo <= 2
            and lo <= mp.ldexp(mp.exp(-mp.mpf(x.numerator) / x.denominator), bits) <= hi
        )


def true_cumulative(sigma, zero_weight, up_to):
    "C_0, C_1, ... at the working precision."
    weights = mp_weights(sigma, max(up_to, mp_reach(sigma)))
    weights[0] = mp.mpf(zero_weight.numerator) / zero_weight.denominator
    total, partial, sums = mp.fsum(weights), mp.mpf(0), []
    for weight in weights[: up_to + 1]:
        partial += weight
        sums.append(partial / total)
    return sums


@pytest.mark.parametrize("zero_weight", [HALF, Fraction(1)])
@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.9, 1.0, 10.0, 100.0, 255.99, 1000.0])
def test_every_threshold_word_is_right(sigma, zero_weight):
    table = exact.MagnitudeTable(sigma, zero_weight)
    words = table.thresholds.tolist()
    with mp.workdps(120):  # C_0 is within 1e-87 of 1 at sigma = .05
        truth = true_cumulative(sigma, zero_weight, len(words) - 1)
        assert words == [int(mp.floor(mp.ldexp(c, 31))) for c in truth]
    assert words[-1] == 2**31 - 1 and (len(words) == 1 or words[-2] < 2**31 - 1)


@given(st.floats(2.0**-10, 300), st.sampled_from([HALF, Fraction(1)]))
@settings(max_examples=30, deadline=None)
def test_threshold_words_of_any_sigma(sigma, zero_weight):
    words = exact.MagnitudeTable(sigma, zero_weight).thresholds.tolist()
    with mp.workdps(120):
        truth = true_cumulative(sigma, zero_weight, len(words) - 1)
        assert words == [min(int(mp.floor(mp.ldexp(c, 31))), 2**31 - 1) for c in truth]


def test_cumulative_sums_enclose_and_are_as_sharp_as_claimed():
    for sigma, bits in ((0.3, 20), (1.0, 24), (10.0, 40), (200.0, 64)):
        cumulative = exact.cumulative_sums(sigma, HALF, bits)
        weights = mp_weights(sigma, mp_reach(sigma))
        partial = -HALF.numerator / mp.mpf(2)
        for m in range(len(cumulative.sums)):
            partial += weights[m]
            assert cumulative.sums[m] <= mp.ldexp(partial, bits) <= cumulative.upper(m)
        assert (
            cumulative.sums[-1]
            <= mp.ldexp(mp.fsum(weights) - 0.5, bits)
            <= cumulative.total
        )


def test_too_little_precision_is_noticed_and_repaired(monkeypatch):
    assert exact.threshold_words(exact.cumulative_sums(100.0, HALF, 40)) is None
    expected = exact.MagnitudeTable(100.0, HALF).thresholds
    monkeypatch.setattr(dg, "_FIRST_BITS", 40)
    repaired = exact.MagnitudeTable(100.0, HALF)
    assert repaired.sums.bits > 40 and np.array_equal(repaired.thresholds, expected)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0, 1000.0])
def test_guide_leads_every_kind_of_word_to_its_magnitude(sigma):
    table = exact.MagnitudeTable(sigma, HALF)
    t = table.thresholds.astype(np.int64)
    edges = np.arange(len(table.guide)) << int(table.shift)
    u = np.unique(
        np.clip(np.r_[t - 1, t, t + 1, edges - 1, edges, edges + 1, 0], 0, 2**31 - 1)
    )
    words = np.repeat(u.astype(np.uint32) << np.uint32(1), 2) | np.tile(
        np.array([0, 1], np.uint32), u.size
    )
    values, ties = np.empty(words.size, np.int64), np.empty(words.size + 1, np.int64)
    count = exact._fill(words, table.thresholds, table.guide, table.shift, values, ties)
    magnitude = np.searchsorted(t, words >> 1)
    assert np.array_equal(values, np.where(words & 1, -magnitude, magnitude))
    assert np.array_equal(ties[:count], np.flatnonzero(np.isin(words >> 1, t)))


# ---------------------------------------------------------------- ties, tails, blocks: the rare branches on purpose


class Playback:
    "A source that plays back words, and whose further bits are those of a fraction, from the first on."

    secure = False

    def __init__(self, words, fraction=Fraction(0)):
        self.queue, self.fraction, self.used = (
            [int(word) for word in words],
            fraction,
            0,
        )

    def words(self, n):
        taken, self.queue = self.queue[:n], self.queue[n:]
        assert len(taken) == n, "asked for more words than planned"
        return np.array(taken, dtype=np.uint32)

    def bits(self, k):
        shifted = self.fraction * 2**self.used
        self.used += k
        return int((shifted - int(shifted)) * 2**k)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 30.0])
def test_ties_fall_on_the_right_side_of_the_cumulative_sum(sigma):
    table = exact.sampler(sigma).table
    with mp.workdps(120):
        truth = true_cumulative(sigma, HALF, len(table.thresholds) - 1)
    for m, word in enumerate(table.thresholds[:-1].tolist()):
        inside = (
            Fraction(int(mp.floor(mp.ldexp(truth[m], 31 + 120))), 2**120) - word
        )  # C_m within its word
        for offset, expected in ((-Fraction(1, 2**60), m), (Fraction(1, 2**60), m + 1)):
            if 0 <= inside + offset < 1:
                bits = Playback([2 * word + 1], inside + offset)
                assert exact.sampler(sigma).draw(1, bits)[0] == -expected


@pytest.mark.parametrize("agree", [100, 200, 700])
def test_a_tie_that_agrees_for_long_gets_more_precision(agree):
    "Bits that follow C_2 of sigma = 1 for `agree` places and then leave it, downwards or upwards."
    table = exact.sampler(1.0).table
    word = int(table.thresholds[2])
    with mp.workprec(2000):
        weights = mp_weights(1.0, 60)
        weights[0] = mp.mpf(1) / 2
        cumulative = mp.fsum(weights[:3]) / mp.fsum(weights)
        inside = Fraction(int(mp.floor(mp.ldexp(cumulative, 31 + 900))), 2**900) - word
    for sign, expected in ((-1, 2), (1, 3)):
        bits = Playback([2 * word], inside + sign * Fraction(1, 2**agree))
        assert exact.sampler(1.0).draw(1, bits)[0] == expected
        assert bits.used >= agree - 31


@pytest.mark.parametrize(
    "sigma, ones", [(1.0, 20), (1.0, 60), (1.0, 400), (0.3, 500), (100.0, 150)]
)
def test_the_tail_is_never_cut(sigma, ones):
    "Last word, then `ones` ones, then zeros: U = 1 - 2^-(31 + ones)."
    bits = Playback([2**32 - 2], 1 - Fraction(1, 2**ones))
    value = int(exact.sampler(sigma).draw(1, bits)[0])
    with mp.workprec(3000):
        weights = mp_weights(sigma, int(40 * sigma) + 40)
        theta = 2 * mp.fsum(weights) - 1
        beyond = lambda m: 2 * mp.fsum(weights[m:]) / theta
        assert beyond(value + 1) < mp.mpf(2) ** -(31 + ones) <= beyond(value)


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(5), Fraction(1, 10**6)])
@pytest.mark.parametrize("agree", [40, 100, 300])
def test_the_exact_coin_turns_at_its_probability(x, agree):
    "Bits that follow exp(-x) for `agree` places and then leave it, downwards or upwards."
    with mp.workprec(2000):
        probability = Fraction(
            int(mp.floor(mp.ldexp(mp.exp(-mp.mpf(x.numerator) / x.denominator), 900))),
            2**900,
        )
    assert exact.exact_coin(0, 0, x, Playback([], probability - Fraction(1, 2**agree)))
    assert not exact.exact_coin(
        0, 0, x, Playback([], probability + Fraction(1, 2**agree))
    )


def test_block_rejections_are_redrawn_and_minus_zero_is_one():
    sampler = exact.BlockSampler(4096.0)  # blocks of 32: place 5 bits, 26 for the coin
    assert sampler.block_bits == 5 and sampler._words_per_draw == 2
    j_word = lambda j: 2 * (
        int(sampler.table.thresholds[j]) - 5
    )  # a word inside block j, sign +
    keep, reject = [j_word(3), 2 * 7], [
        j_word(300),
        2 * (2**31 - 1),
    ]  # a coin of zeros keeps, one of ones rejects
    minus_zero, plus_zero, minus = [1, 0], [0, 0], [j_word(2) | 1, 2 * 1]
    bits = Playback(reject + minus_zero + keep + plus_zero + reject + minus + keep)
    assert sampler.draw(4, bits).tolist() == [3 * 32 + 7, -(2 * 32 + 1), 3 * 32 + 7, 0]
    assert not bits.queue


@pytest.mark.parametrize("sigma", [1024.0, 4096.0, 3e5, 2.0**25 - 1, 2.0**25, 2.0**40])
def test_the_kernel_never_decides_against_the_exact_coin(sigma):
    "For words whose coin is next to exp(-t): what is decided agrees with the integers, the rest is left open."
    sampler = exact.BlockSampler(sigma)
    b, n_rest = sampler.block_bits, sampler._words_per_draw - 1
    left = 31 * n_rest - b
    rng, rows = np.random.default_rng(5), []
    for j in [0, 1, 50, 130, 400, 700]:
        place = int(rng.integers(1, 2**b))
        block = j << b
        x = (2 * block + place) * place / (2 * Fraction(sigma) ** 2)
        lo, _ = exact.exp_bounds(x.numerator, x.denominator, left)
        for v in (lo - 2, lo - 1, lo, lo + 1, lo + 2, 0, 2**left - 1):
            rest = (min(max(v, 0), 2**left - 1) << b) | place
            parts = [
                2 * (rest >> 31 * i & (2**31 - 1)) for i in reversed(range(n_rest))
            ]
            rows.append([2 * (int(sampler.table.thresholds[j]) - 1), *parts])
    words = np.array(rows, dtype=np.uint32)
    table, n = sampler.table, len(rows)
    values, unknown, rejected = (np.empty(n + 1, np.int64) for _ in range(3))
    n_unknown, n_rejected = exact._fill_blocks(
        words,
        b,
        sampler._scale,
        table.thresholds,
        table.guide,
        table.shift,
        values,
        unknown,
        rejected,
    )
    assert n_unknown > 0
    for i in set(range(n)) - set(unknown[:n_unknown].tolist()):
        for fraction in (Fraction(0), 1 - Fraction(1, 2**400)):
            exact = sampler._decide(rows[i], Playback([], fraction))
            assert exact == (None if i in rejected[:n_rejected] else values[i])


# ---------------------------------------------------------------- the law of the draws


def p_value(draws, sigma):
    levels = np.r_[1e-4, 1e-3, np.linspace(0.01, 0.99, 50), 0.999, 0.9999]
    edges = np.unique(
        np.floor(
            [sigma * float(mp.sqrt(2) * mp.erfinv(2 * level - 1)) for level in levels]
        )
    )
    edges = edges[(dg.cdf(edges, sigma) > 5e-5) & (dg.cdf(-edges - 1, sigma) > 5e-5)]
    expected = np.diff(np.r_[0, dg.cdf(edges, sigma), 1]) * draws.size
    return chisquare(
        np.bincount(np.searchsorted(edges, draws), minlength=expected.size), expected
    ).pvalue


@pytest.mark.parametrize("random_state", [None, 11])
@pytest.mark.parametrize(
    "sigma", [0.3, 1.0, 1.7, 10.0, 100.0, 1000.0, 5000.0, 1e6, 1e9, 2.0**40]
)
def test_chi_square(sigma, random_state):
    "20 tests of 2.5e5 draws each: a correct sampler fails one of them with probability below 1e-9."
    assert p_value(exact.sample(250_000, sigma, random_state), sigma) > 1e-9 / 20


def test_value_by_value_and_low_bits():
    draws = exact.sample(500_000, 2.5, 3)
    k = np.arange(-9, 10)
    counts = np.array([(draws == value).sum() for value in k])
    assert (
        chisquare(
            np.r_[counts, draws.size - counts.sum()],
            draws.size * np.r_[dg.pmf(k, 2.5), 1 - dg.pmf(k, 2.5).sum()],
        ).pvalue
        > 1e-10
    )
    for sigma in (
        2000.0,
        1e6,
        1e10,
    ):  # modulo 16 the law is uniform up to e^(-2 pi² sigma²/256)
        assert (
            chisquare(np.bincount(exact.sample(300_000, sigma, 4) % 16)).pvalue > 1e-10
        )


def test_tiny_sigma_is_almost_always_zero():
    assert (
        not exact.sample(100_000, 0.05).any()
        and not exact.sample(1000, dg.SMALLEST_SIGMA).any()
    )


@pytest.mark.parametrize("sigma", [3.0, 5000.0])
def test_neighbouring_draws_are_uncorrelated(sigma):
    draws = exact.sample(400_000, sigma, 9) / sigma
    for lag in (1, 2, exact._CHUNK):
        assert abs((draws[lag:] * draws[:-lag]).mean()) < 6.5 / math.sqrt(
            draws.size - lag
        )


# ---------------------------------------------------------------- the front door


def test_same_seed_same_noise_and_shapes():
    for sigma in (0.3, 20.0, 1e7):
        first = exact.sample((70_000, 2), sigma, 5)
        assert first.dtype == np.int64 and first.shape == (70_000, 2)
        assert np.array_equal(first, exact.sample((70_000, 2), sigma, 5))
        assert not np.array_equal(first, exact.sample((70_000, 2), sigma, 6))
    assert exact.sample(0, 1.0).shape == exact.sample(0, 1e6).shape == (
        0,
    ) and exact.sample((3, 0), 1e6).shape == (3, 0)
    assert not np.array_equal(exact.sample(100, 50.0), exact.sample(100, 50.0))


def test_samplers_are_kept():
    assert exact.sampler(3) is exact.sampler(np.float64(3.0))
    assert isinstance(exact.sampler(1023.9), exact.TableSampler) and isinstance(
        exact.sampler(1024), exact.BlockSampler
    )


@pytest.mark.parametrize("source", [exact.bit_source(), exact.bit_source(1)])
def test_bit_sources(source):
    words = source.words(40_000)
    assert (
        words.dtype == np.uint32
        and words.shape == (40_000,)
        and not words.flags.writeable
    )
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 6.5 * 0.5 / math.sqrt(32 * 40_000)
    for k in (0, 1, 7, 8, 31, 97, 1000):
        values = [source.bits(k) for _ in range(64)]
        assert 0 <= min(values) and max(values) < 2**k
        assert k == 0 or max(values) >= 2 ** (k - 1)
    assert exact.bit_source(source) is source


def test_secure_means_the_operating_system():
    assert exact.bit_source(None).secure
    assert (
        not exact.bit_source(0).secure
        and not exact.bit_source(np.random.default_rng(0)).secure
    )


def test_noise_never_shares_a_stream_with_data():
    seed = 7
    noise = set(exact.bit_source(seed).words(4000).tolist())
    streams = [
        np.random.default_rng(seed),
        np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0]),
    ]
    generator = np.random.default_rng(seed)
    donated = set(exact.bit_source(generator).words(4000).tolist())
    streams += [generator, np.random.default_rng(seed)]
    for stream in streams:  # 8e6 pairs of 32-bit words: chance alone gives 4e-3 hits
        data = set(np.frombuffer(stream.bytes(8000), dtype=np.uint32).tolist())
        assert len(data & noise) < 4 and len(data & donated) < 4
    assert generator.bytes(8) != np.random.default_rng(seed).bytes(8)


@pytest.mark.parametrize(
    "sigma",
    [0, -1.0, 2.0**-11, 2.0**40 * 1.01, math.inf, math.nan, "1", None, True, [1.0]],
)
@pytest.mark.parametrize(
    "function",
    [
        dg.normaliser,
        dg.variance,
        exact.sampler,
        lambda s: dg.pmf(0, s),
        lambda s: dg.cdf(0, s),
        lambda s: exact.sample(1, s),
        lambda s: dg.mu_bound(1, s),
        lambda s: dg.mu_exact(1, s),
        lambda s: dg.delta_exact(1, 1, s),
        lambda s: dg.epsilon_exact(0.1, 1, s),
    ],
)
def test_bad_sigma(function, sigma):
    with pytest.raises(InputError, match="sigma="):
        function(sigma)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: dg.pmf(0.5, 1.0), "x="),
        (lambda: dg.cdf([1, math.nan], 1.0), "x="),
        (lambda: dg.mu_bound(0, 1.0), "shift="),
        (lambda: dg.mu_exact(1.5, 1.0), "shift="),
        (lambda: dg.delta_exact(1, -1, 1.0), "shift="),
        (lambda: dg.delta_exact(-0.1, 1, 1.0), "epsilon="),
        (lambda: dg.delta_exact(math.inf, 1, 1.0), "epsilon="),
        (lambda: dg.epsilon_exact(0, 1, 1.0), "delta="),
        (lambda: dg.epsilon_exact(1, 1, 1.0), "delta="),
        (lambda: exact.sample(-1, 1.0), "size="),
        (lambda: exact.sample((2, 1.5), 1.0), "size="),
        (lambda: exact.sample(1.5, 1.0), "size="),
        (lambda: exact.bit_source(-1), "random_state="),
        (lambda: exact.bit_source(True), "random_state="),
        (lambda: exact.bit_source("os"), "random_state="),
        (lambda: exact.bit_source(np.random.RandomState(1)), "random_state="),
    ],
)
def test_bad_arguments(call, name):
    with pytest.raises(InputError, match=name):
        call()


@pytest.mark.parametrize("sigma", [2.0**-10, 0.05, 1.0, 2.0**20, 2.0**40])
def test_nothing_breaks_at_the_ends_of_the_range(sigma):
    assert dg.normaliser(sigma) >= 1 and 0 <= dg.variance(sigma) <= sigma**2
    for shift in (1, 10**6):
        mu = dg.mu_exact(shift, sigma)
        assert (
            shift / sigma * (1 - 1e-15) <= mu <= dg.mu_bound(shift, sigma) * (1 + 1e-15)
        )
        assert 0 < dg.delta_exact(0, shift, sigma) <= 1
        assert dg.epsilon_exact(1e-6, shift, sigma) >= 0


@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.5, 1 - 1e-16])
@pytest.mark.parametrize("sigma", [2.0**-10, 0.3, 1.0, 64.0, 1e6])
@pytest.mark.parametrize("shift", [1, 3, 10**6, 2**40, 10**15])
def test_epsilon_is_rounded_up_where_delta_is_steep(shift, sigma, delta):
    "With sigma = 2^-10 one unit in the last place of epsilon moves delta from 1e-9 to 1e-300."
    epsilon = dg.epsilon_exact(delta, shift, sigma)
    assert 0 < dg.delta_exact(epsilon, shift, sigma) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    "x", ["1", [1, "a"], 1j, None, [0.5], [math.nan], math.inf, {}]
)
@pytest.mark.parametrize("law", [dg.pmf, dg.cdf])
def test_only_integers_have_a_probability(law, x):
    with pytest.raises(InputError, match="x="):
        law(x, 1.0)
