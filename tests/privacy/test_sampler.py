"""The sampler: its integers against many digits, its rare branches forced one by one,
its draws against their law.
"""

import math
from bisect import bisect_left
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from privglasso.base.validation import InputError
from privglasso.privacy import discrete_gaussian as dg
from privglasso.privacy import sampler as exact

HALF = Fraction(1, 2)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def mp_weights(sigma, up_to):
    q = mp.exp(-1 / (2 * mp.mpf(sigma) ** 2))
    return [q ** (k * k) for k in range(up_to + 1)]


def mp_reach(sigma):
    return int(18 * sigma) + 3 if sigma > 0.5 else 40


@pytest.fixture(params=["interpreted", "compiled"])
def way(request, monkeypatch):
    """Words become values by plain Python, where numba is missing, or by machine code:
    each is asked for by name."""
    for name in ("_fill", "_fill_blocks"):
        version = getattr(getattr(exact, name), request.param)
        monkeypatch.setattr(exact, name, version)


# -------------------------------------------------- integer bounds and threshold words


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


def test_every_threshold_word_is_right():
    for sigma in [0.05, 0.3, 0.9, 1.0, 10.0, 100.0, 255.99, 1000.0]:
        for zero_weight in [HALF, Fraction(1)]:
            table = exact.MagnitudeTable(sigma, zero_weight)
            words = table.thresholds.tolist()
            with mp.workdps(120):  # C_0 is within 1e-87 of 1 at sigma = .05
                truth = true_cumulative(sigma, zero_weight, len(words) - 1)
                assert words == [int(mp.floor(mp.ldexp(c, 31))) for c in truth]
            assert words[-1] == 2**31 - 1 and (len(words) == 1 or words[-2] < 2**31 - 1)


@pytest.mark.long
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


def test_the_tail_beyond_the_last_sum_is_counted():
    "Twenty units of the last bit, which the slack of the sums would cover here."
    sigma = 200.3
    cumulative = exact.cumulative_sums(sigma, HALF, 64)
    last = len(cumulative.sums) - 1
    tail = mp.ldexp(mp.fsum(mp_weights(sigma, mp_reach(sigma))[last + 1 :]), 64)
    assert 10 < tail <= cumulative.total - cumulative.upper(last)


def test_a_number_on_both_sides_of_a_border_is_not_settled():
    for sigma, bits in ((10.0, 40), (3.3, 60)):
        cumulative = exact.cumulative_sums(sigma, HALF, bits)
        for border in cumulative.sums[: int(4 * sigma)]:
            u, inside = divmod(border << bits, cumulative.total)
            assert inside and exact.locate(cumulative, u) is None


def test_too_little_precision_is_noticed_and_repaired(monkeypatch):
    assert exact.threshold_words(exact.cumulative_sums(100.0, HALF, 40)) is None
    expected = exact.MagnitudeTable(100.0, HALF).thresholds
    monkeypatch.setattr(exact, "_FIRST_BITS", 40)
    repaired = exact.MagnitudeTable(100.0, HALF)
    assert repaired.sums.bits > 40 and np.array_equal(repaired.thresholds, expected)


@pytest.mark.usefixtures("way")
def test_guide_leads_every_kind_of_word_to_its_magnitude():
    for sigma in [0.3, 1.0, 10.0, 1000.0]:
        table = exact.MagnitudeTable(sigma, HALF)
        t = table.thresholds.astype(np.int64)
        edges = np.arange(len(table.guide)) << int(table.shift)
        u = np.unique(
            np.clip(
                np.r_[t - 1, t, t + 1, edges - 1, edges, edges + 1, 0], 0, 2**31 - 1
            )
        )
        words = np.repeat(u.astype(np.uint32) << np.uint32(1), 2) | np.tile(
            np.array([0, 1], np.uint32), u.size
        )
        values, ties = np.empty(words.size, np.int64), np.empty(
            words.size + 1, np.int64
        )
        count = exact._fill(
            words, table.thresholds, table.guide, table.shift, values, ties
        )
        magnitude = np.searchsorted(t, words >> 1)
        assert np.array_equal(values, np.where(words & 1, -magnitude, magnitude))
        assert np.array_equal(ties[:count], np.flatnonzero(np.isin(words >> 1, t)))


# ----------------------------------- ties, tails, blocks: the rare branches on purpose


class Playback:
    """A source that plays back words, and whose further bits are those of a fraction,
    from the first on."""

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


@pytest.mark.usefixtures("way")
def test_ties_fall_on_the_right_side_of_the_cumulative_sum():
    for sigma in [0.3, 1.0, 30.0]:
        table = exact.sampler(sigma).table
        with mp.workdps(120):
            truth = true_cumulative(sigma, HALF, len(table.thresholds) - 1)
        for m, word in enumerate(table.thresholds[:-1].tolist()):
            inside = (
                Fraction(int(mp.floor(mp.ldexp(truth[m], 31 + 120))), 2**120) - word
            )  # C_m within its word
            for offset, expected in (
                (-Fraction(1, 2**60), m),
                (Fraction(1, 2**60), m + 1),
            ):
                if 0 <= inside + offset < 1:
                    bits = Playback([2 * word + 1], inside + offset)
                    assert exact.sampler(sigma).draw(1, bits)[0] == -expected


@pytest.mark.usefixtures("way")
def test_a_tie_that_agrees_for_long_gets_more_precision():
    """Bits that follow C_2 of sigma = 1 for `agree` places and then leave it, downwards
    or upwards."""
    for agree in [100, 200, 700]:
        table = exact.sampler(1.0).table
        word = int(table.thresholds[2])
        with mp.workprec(2000):
            weights = mp_weights(1.0, 60)
            weights[0] = mp.mpf(1) / 2
            cumulative = mp.fsum(weights[:3]) / mp.fsum(weights)
            inside = (
                Fraction(int(mp.floor(mp.ldexp(cumulative, 31 + 900))), 2**900) - word
            )
        for sign, expected in ((-1, 2), (1, 3)):
            bits = Playback([2 * word], inside + sign * Fraction(1, 2**agree))
            assert exact.sampler(1.0).draw(1, bits)[0] == expected
            assert bits.used >= agree - 31


def check_the_tail_is_never_cut(sigma, ones):
    "Last word, then `ones` ones, then zeros: U = 1 - 2^-(31 + ones)."
    bits = Playback([2**32 - 2], 1 - Fraction(1, 2**ones))
    value = int(exact.sampler(sigma).draw(1, bits)[0])
    with mp.workprec(3000):
        weights = mp_weights(sigma, int(40 * sigma) + 40)
        theta = 2 * mp.fsum(weights) - 1
        beyond = lambda m: 2 * mp.fsum(weights[m:]) / theta
        assert beyond(value + 1) < mp.mpf(2) ** -(31 + ones) <= beyond(value)


@pytest.mark.usefixtures("way")
def test_the_tail_is_never_cut():
    for sigma, ones in [(1.0, 20), (1.0, 60), (1.0, 400), (0.3, 500), (100.0, 150)]:
        check_the_tail_is_never_cut(sigma, ones)


def test_the_exact_coin_turns_at_its_probability():
    """Bits that follow exp(-x) for `agree` places and then leave it, downwards or
    upwards."""
    for agree in [40, 100, 300]:
        for x in [Fraction(1, 3), Fraction(5), Fraction(1, 10**6)]:
            with mp.workprec(2000):
                probability = Fraction(
                    int(
                        mp.floor(
                            mp.ldexp(mp.exp(-mp.mpf(x.numerator) / x.denominator), 900)
                        )
                    ),
                    2**900,
                )
            assert exact.exact_coin(
                0, 0, x, Playback([], probability - Fraction(1, 2**agree))
            )
            assert not exact.exact_coin(
                0, 0, x, Playback([], probability + Fraction(1, 2**agree))
            )


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
def test_the_kernel_never_decides_against_the_exact_coin():
    """For words whose coin is next to exp(-t): what is decided agrees with the
    integers, the rest is left open."""
    for sigma in [1024.0, 4096.0, 3e5, 2.0**25 - 1, 2.0**25, 2.0**40]:
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
                truth = sampler._decide(rows[i], Playback([], fraction))
                assert truth == (None if i in rejected[:n_rejected] else values[i])


def block_value(sampler, words):
    """What a row of two words stands for, in whole numbers: a value, or None if it is
    refused; "open" where these bits do not settle it."""
    word, rest = (int(each) >> 1 for each in words)
    b, negative = sampler.block_bits, int(words[0]) & 1
    j = bisect_left(sampler.table.thresholds.tolist(), word)
    place, v, left = rest % 2**b, rest >> b, 31 - b
    magnitude = j * 2**b + place
    x = (2 * j * 2**b + place) * place / (2 * Fraction(sampler.sigma) ** 2)
    lo, hi = exact.exp_bounds(x.numerator, x.denominator, left)
    if word == sampler.table.thresholds[j] or lo - 1 < v < hi:
        return "open"
    if v >= hi or negative and magnitude == 0:
        return None
    return -magnitude if negative else magnitude


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("sigma", [256.0, 300.5, 1024.0])
def test_every_short_beginning_of_a_draw_is_what_it_stands_for(sigma):
    """All blocks up to the fourth, all places in them, both signs, coins that surely
    fall and that surely do not. -1, 0 and 1 are among them: that -0 is refused, and
    nothing else near it, no test of a few million draws would show."""
    sampler = exact.BlockSampler(sigma)
    b, table = sampler.block_bits, sampler.table
    starts = [0, *(int(t) + 1 for t in table.thresholds[[0, 1, 2, 300]])]
    coins = (0, 1, 2 ** (30 - b), 2 ** (31 - b) - 1)
    words = np.array(
        [
            (2 * word + sign, 2 * (v << b | place))
            for word in starts
            for sign in (0, 1)
            for place in range(2**b)
            for v in coins
        ],
        dtype=np.uint32,
    )
    values, unknown, rejected = (np.empty(len(words) + 1, np.int64) for _ in range(3))
    settings = b, sampler._scale, table.thresholds, table.guide, table.shift
    counts = exact._fill_blocks(words, *settings, values, unknown, rejected)
    settled = np.ones(len(words), bool)
    settled[unknown[: counts[0]]] = False
    refused = set(rejected[: counts[1]].tolist())
    truth = [block_value(sampler, row) for row in words]
    for i in np.flatnonzero(settled):
        assert truth[i] == (None if i in refused else values[i]), words[i].tolist()
    # open is but place 0 with a coin of ones: any coin is kept there
    assert settled.mean() == 1 - 1 / (len(coins) * 2**b)
    assert {-1, 0, 1, None} <= {truth[i] for i in np.flatnonzero(settled)}


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


def test_chi_square():
    """Ten tests of 2.5e5 draws with the system's bits: a correct sampler fails one with
    probability below 1e-9."""
    for sigma in [0.3, 1.0, 1.7, 10.0, 100.0, 1000.0, 5000.0, 1e6, 1e9, 2.0**40]:
        assert p_value(exact.sample(250_000, sigma), sigma) > 1e-9 / 10


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


def test_neighbouring_draws_are_uncorrelated():
    for sigma in [3.0, 5000.0]:
        draws = exact.sample(400_000, sigma, 9) / sigma
        for lag in (1, 2, exact._CHUNK):
            assert abs((draws[lag:] * draws[:-lag]).mean()) < 6.5 / math.sqrt(
                draws.size - lag
            )


# ---------------------------------------------------------------------- the front door


@pytest.mark.long
@pytest.mark.usefixtures("way")
def test_same_seed_same_noise_and_shapes():
    for sigma in (0.3, 20.0, 1e7):
        first = exact.sample((35_000, 2), sigma, 5)
        assert first.dtype == np.int64 and first.shape == (35_000, 2)
        assert np.array_equal(first, exact.sample((35_000, 2), sigma, 5))
        assert not np.array_equal(first, exact.sample((35_000, 2), sigma, 6))
    assert exact.sample(0, 1.0).shape == exact.sample(0, 1e6).shape == (
        0,
    ) and exact.sample((3, 0), 1e6).shape == (3, 0)
    assert not np.array_equal(exact.sample(100, 50.0), exact.sample(100, 50.0))


def test_bit_sources():
    for source in [exact.bit_source(), exact.bit_source(1)]:
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


def test_bad_arguments():
    for call, name in [
        (lambda: exact.sampler(math.nan), "sigma="),
        (lambda: exact.sample(1, 2.0**41), "sigma="),
        (lambda: exact.sample(-1, 1.0), "size="),
        (lambda: exact.sample((2, 1.5), 1.0), "size="),
        (lambda: exact.sample(1.5, 1.0), "size="),
        (lambda: exact.bit_source(-1), "random_state="),
        (lambda: exact.bit_source(True), "random_state="),
        (lambda: exact.bit_source("os"), "random_state="),
        (lambda: exact.bit_source(np.random.RandomState(1)), "random_state="),
    ]:
        with pytest.raises(InputError, match=name):
            call()
