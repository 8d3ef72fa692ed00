"""Guarantees: what they promise of integer noise, add up to, print, and refuse."""

import math
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.accounting import PrivacyLoss
from privglasso.privacy.discrete_gaussian import delta_exact, pmf
from privglasso.privacy.guarantee import Guarantee, NoGuarantee, classical_limit
from privglasso.privacy.guarantee import classical_mu, failure_left
from privglasso.publish.table import DiscreteGaussianMechanism


def hockey_stick_of_two(first, second, epsilon):
    "δ at ε of two integers (shift, sigma) that move together, summed over the plane."
    k = np.arange(-120, 121)
    p, q = (
        np.multiply.outer(
            *(pmf(k - moved * shift, sigma) for shift, sigma in (first, second))
        )
        for moved in (False, True)
    )
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def test_an_account_is_never_below_the_truth():
    for pairs in [((1, 1.5), (1, 1.5)), ((2, 1.5), (1, 3.0)), ((4, 2.0), (3, 5.0))]:
        for epsilon in (0.0, 0.4, 2.0):
            truth = hockey_stick_of_two(*pairs, epsilon)
            delta = PrivacyLoss(pairs).delta(epsilon)
            assert truth * (1 - 1e-13) <= delta <= truth * (1 + 1e-4)


def test_the_curve_of_one_column_is_not_that_of_a_record():
    mechanism = DiscreteGaussianMechanism((0, 1), sigma=1.5)
    one, two = (mechanism.guarantee(10, p) for p in (1, 2))
    for epsilon in (0.0, 0.5, 2.0):
        assert one.delta(epsilon) == pytest.approx(
            delta_exact(epsilon, 1, 1.5), rel=1e-9
        )
        assert two.delta(epsilon) >= hockey_stick_of_two((1, 1.5), (1, 1.5), epsilon)


def test_two_releases_are_not_told_by_the_curve_of_one():
    one = DiscreteGaussianMechanism((0, 1), neighbors="cell", sigma=1.5).guarantee(
        10, 2
    )
    assert one.pairs and one.compose(one).delta(0.5) >= hockey_stick_of_two(
        (1, 1.5), (1, 1.5), 0.5
    )


def test_the_worst_column_counts():
    guarantee = DiscreteGaussianMechanism(
        ([0, 0], [1, 6]), neighbors="cell", sigma=2.0
    ).guarantee(10, 2)
    assert guarantee.delta(0.5) == pytest.approx(delta_exact(0.5, 6, 2.0), rel=1e-9)
    assert guarantee.delta(guarantee.epsilon(1e-4)) == pytest.approx(1e-4, rel=1e-6)


def test_what_is_printed_of_a_promise_is_rounded_upward():
    assert str(Guarantee(1.00001, "cell")).endswith("μ = 1.001") and str(
        Guarantee(2.0, "cell")
    ).endswith("μ = 2")
    guarantee = Guarantee(1.0, "record")
    for delta in (1e-2, 1e-3, 1e-5, 1e-8):
        assert (
            guarantee.epsilon(delta)
            <= float(guarantee.epsilon_text(delta))
            < guarantee.epsilon(delta) * 1.001
        )


def test_what_is_impossible_is_refused_by_name():
    one = Guarantee(1.0, "cell")
    for call, name in [
        (lambda: Guarantee(1.0, "row"), "neighbors"),
        (lambda: Guarantee(-1.0, "cell"), "mu"),
        (lambda: Guarantee(math.nan, "cell"), "mu"),
        (lambda: one.compose(Guarantee(1.0, "record")), "other"),
        (lambda: one.epsilon(0), "delta"),
        (lambda: NoGuarantee("why", one).epsilon(1), "delta"),
        (lambda: NoGuarantee("why", one).delta(math.nan), "epsilon"),
        (lambda: NoGuarantee("why", one).tradeoff([0.5, 1.5]), "alpha"),
        (lambda: classical_mu(0.0, 1e-5), "epsilon"),
        (lambda: classical_mu(classical_limit(1e-5) + 0.01, 1e-5), "epsilon"),
        (lambda: classical_limit(1.0), "delta"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == name


# promises that may fail


@pytest.mark.parametrize("failure", [-1e-9, 1.0, math.nan, "a"])
def test_a_failure_is_a_probability_below_one(failure):
    with pytest.raises(InputError, match="failure"):
        Guarantee(1.0, "record", failure=failure)


def test_without_a_failure_nothing_is_different():
    for mu in (0.0, 0.3, 5.0):
        plain = Guarantee(mu, "record")
        either = Guarantee(mu, "record", exclusive=True)
        for other in (either, plain.compose(Guarantee(0.0, "record"))):
            assert str(other) == str(plain) and other.mu == plain.mu
            assert other.delta(0.7) == plain.delta(0.7)
            assert other.epsilon(1e-7) == plain.epsilon(1e-7)
            assert np.array_equal(
                other.tradeoff([0, 0.1, 1]), plain.tradeoff([0, 0.1, 1])
            )


def test_failures_add_up_in_any_order_and_never_below_the_truth():
    rng = np.random.default_rng(0)
    for _ in range(200):
        failures = rng.uniform(0, 1, 4) ** 20
        promises = [Guarantee(0.1, "cell", failure=f, exclusive=True) for f in failures]
        composed = {
            promises[i].compose(promises[j]).compose(promises[k]).failure
            for i, j, k in ((0, 1, 2), (2, 0, 1), (1, 2, 0))
        }
        kept = math.prod(1 - Fraction(f) for f in failures[:3])
        assert all(1 - kept <= Fraction(f) for f in composed)
        assert max(composed) <= float(1 - kept) * (1 + 1e-14)


def test_what_a_failure_leaves_is_rounded_downward():
    "By at most one unit in the last place, also where division is inexact."
    rng = np.random.default_rng(0)
    for failure, limit in np.sort(rng.uniform(0, 0.9, (500, 2)), axis=1).tolist():
        exact = (Fraction(limit) - Fraction(failure)) / (1 - Fraction(failure))
        left = failure_left(limit, failure)
        assert Fraction(left) <= exact < Fraction(math.nextafter(left, math.inf))


def test_one_of_two_dangers_stays_so_only_beside_a_promise_that_says_nothing():
    graph = Guarantee(0.5, "record", failure=1e-9, exclusive=True)
    plain = Guarantee(0.5, "record", failure=1e-9)
    nothing = Guarantee(0.0, "record")
    others = [Guarantee(m, "record", failure=f) for m, f in ((0.3, 0), (0, 1e-9))]
    for other in others:
        for both in (graph.compose(other), other.compose(graph)):
            assert not both.exclusive
            assert both.delta(3.0) > max(both.failure, graph.delta(3.0))
    assert graph.compose(nothing) == graph
    assert nothing.compose(graph).exclusive
    assert not plain.compose(nothing).exclusive


def test_epsilon_and_delta_are_inverse_where_there_is_room():
    for mu, failure in ((0.2, 1e-9), (3.0, 0.1), (50.0, 1e-12)):
        for exclusive in (False, True):
            promise = Guarantee(mu, "record", failure=failure, exclusive=exclusive)
            for delta in (failure * 1.001, failure * 3, 0.4):
                epsilon = promise.epsilon(delta)
                assert promise.delta(epsilon) <= delta * (1 + 1e-9)
                if epsilon:
                    assert promise.delta(0.99 * epsilon) > delta
            assert promise.epsilon(failure * 0.999) == math.inf
            assert promise.epsilon_text(failure * 0.999) == "∞"


@pytest.mark.parametrize("exclusive", [False, True])
def test_trade_off_curves_are_convex_and_their_own_mirror_images(exclusive):
    alpha = np.linspace(0, 1, 2001)
    for mu, failure in ((0.3, 0.01), (2.0, 0.2), (0.01, 0.3), (80.0, 1e-9), (0.0, 0.1)):
        promise = Guarantee(mu, "record", failure=failure, exclusive=exclusive)
        curve = promise.tradeoff(alpha)
        assert curve[0] == pytest.approx(1 - failure) and curve[-1] == 0
        assert (np.diff(curve, 2) > -1e-12).all() and (np.diff(curve) <= 1e-15).all()
        back = promise.tradeoff(curve)
        inside = (curve > 0) & (alpha < 1 - failure)
        steep = np.abs(np.gradient(curve, alpha)) + 1
        assert (np.abs(back - alpha)[inside] < 1e-9 * steep[inside]).all() or mu > 10


def touching(mu, failure):
    "ε at which μ-GDP alone has δ = failure."
    low, high = mp.mpf(0), mp.mpf(mu) * (mu + 10)
    for _ in range(150):
        e = (low + high) / 2
        delta = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
        low, high = (e, high) if delta > failure else (low, e)
    return low


@cache
def normal_quantile(alpha):
    "Of a number that may be the smallest float."
    with mp.workdps(400):
        return mp.sqrt(2) * mp.erfinv(2 * mp.mpf(alpha) - 1)


@pytest.mark.parametrize("mu", [0.5, 3.0, 30.0, 37.5, 38.4, 40.0, 1000.0])
@pytest.mark.parametrize("failure", [1e-12, 0.1, 0.7])
def test_of_two_dangers_the_curve_is_that_of_the_larger(mu, failure):
    """The trade-off of the δ max(failure, Gaussian δ) in many digits: the Gaussian
    curve between the points where the failure's two lines touch it, and these lines
    beyond. Tiny α are there because the points themselves may round to 0."""
    promise = Guarantee(mu, "record", failure=failure, exclusive=True)
    with mp.workdps(60):
        e, m, f = touching(mu, failure), mp.mpf(mu), mp.mpf(failure)
        for alpha in (0.0, 5e-324, 1e-315, 1e-308, 1e-300, 1e-30, 0.01, 0.3, 0.95, 1.0):
            if alpha <= mp.ncdf(-e / m - m / 2):
                truth = 1 - f - mp.exp(e) * alpha
            elif alpha >= mp.ncdf(e / m - m / 2):
                truth = max((1 - f - alpha) * mp.exp(-e), mp.mpf(0))
            else:
                truth = mp.ncdf(-normal_quantile(alpha) - m)
            assert promise.tradeoff(alpha) == pytest.approx(float(truth), abs=1e-9)
            assert promise.power(alpha) == pytest.approx(float(1 - truth), abs=1e-9)


@pytest.mark.parametrize("failure", [0.0, 0.1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_a_type_1_error_is_a_probability(failure, exclusive):
    promise = Guarantee(1.0, "record", failure=failure, exclusive=exclusive)
    for alpha in (-0.1, 1.5, math.inf, math.nan, True, "a", None, [0.1, 2.0]):
        for asked in (promise.tradeoff, promise.power, promise.power_text):
            with pytest.raises(InputError) as caught:
                asked(alpha)
            assert caught.value.argument == "alpha"
            assert str(caught.value.value) in str(alpha)


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_small_power_is_not_none(exclusive):
    """1 - β has an error of 1e-16, but guessing finds the share α, and a failure tells
    all."""
    for mu, failure, alpha in (
        (0.0, 0.0, 1e-300),
        (3.0, 1e-20, 0.0),
        (0.1, 0.0, 1e-17),
    ):
        promise = Guarantee(mu, "record", failure=failure, exclusive=exclusive)
        assert promise.power(alpha) >= max(failure, alpha) > 0
        assert promise.power_text(alpha) == "0.1 %"
    assert Guarantee(3.0, "record").power(0.0) == 0


def test_no_guarantee_stays_none():
    nothing = NoGuarantee("a reason", Guarantee(1.0, "record", failure=1e-9))
    assert nothing.compose(Guarantee(1.0, "record")) is nothing
    assert nothing.delta(1.0) == 1.0 and "1e-09" in str(nothing)


def test_epsilons_beside_mu_add_up_and_never_become_less():
    rng = np.random.default_rng(0)
    for a, b, mu in rng.uniform(0, 3, (20, 3)):
        one, two = (Guarantee(0.0, "record", pure=x) for x in (a, b))
        both = one.compose(two)
        assert Fraction(both.pure) >= Fraction(a) + Fraction(b)
        assert both.pure <= (a + b) * (1 + 1e-15)
        wider = both.compose(Guarantee(mu, "record"))
        assert wider.mu == mu and wider.pure == both.pure
        for epsilon in (0.0, 1.0, a + b):
            assert wider.delta(epsilon) >= both.delta(epsilon)
            assert both.delta(epsilon) >= one.delta(epsilon) - 1e-15


def test_an_epsilon_beside_mu_in_words():
    alone = Guarantee(0.0, "record", failure=1e-9, pure=1.0)
    assert "at most 13.6 % of cases" in str(alone) and "ε = 1, but" in str(alone)
    assert "μ" not in str(alone)
    both = str(alone.compose(Guarantee(0.5, "record")))
    assert "μ = 0.5 and, beside it, ε = 1, but" in both


@pytest.mark.parametrize("pure", [1e-12, 50.0, 800.0, 1e100])
@pytest.mark.parametrize("mu", [0.0, 1e-9, 30.0, 1e100])
def test_extreme_promises_beside_mu_stay_promises(mu, pure):
    guarantee = Guarantee(mu, "cell", failure=1e-6, pure=pure)
    alphas = np.array([0.0, 1e-300, 0.05, 0.5, 1.0])
    curve = guarantee.tradeoff(alphas)
    assert (curve >= 0).all() and (np.diff(curve) <= 0).all()
    assert (curve <= 1 - 1e-6 + 1e-15).all() and curve[-1] == 0
    epsilon = guarantee.epsilon(1e-5)
    assert epsilon <= pure + Guarantee(mu, "cell").epsilon(8e-6) + 1e-15 * pure
    assert guarantee.delta(epsilon) <= 1e-5 * (1 + 1e-9)
    assert guarantee.as_gaussian().delta(1.0) >= guarantee.delta(1.0) * (1 - 1e-12)


@pytest.mark.parametrize("mu", [0.0, 1e-20, 1.0, 1e5])
def test_below_the_least_delta_the_sum_is_promised(mu):
    "An ε was searched for without end there, and infinity refused as if it were given."
    beside, alone = Guarantee(mu, "record", pure=1.0), Guarantee(mu, "record")
    for delta in (5e-324, 1e-310, 2e-308):
        exact = 1 + Fraction(alone.epsilon(delta))
        assert exact <= beside.epsilon(delta) <= float(exact) * (1 + 1e-15)
        assert beside.epsilon(delta) >= beside.epsilon(1e-300)


@pytest.mark.parametrize("pure", [-1.0, math.nan, math.inf, "1"])
def test_what_is_no_epsilon_beside_mu_is_refused(pure):
    with pytest.raises(InputError, match="pure"):
        Guarantee(0.0, "record", pure=pure)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
@pytest.mark.parametrize("neighbors", ["record", "cell"])
def test_an_epsilon_is_kept_and_not_wasted(epsilon, delta, neighbors):
    made = Guarantee.from_epsilon(epsilon, delta, neighbors)
    assert made.neighbors == neighbors
    assert 0.999 * epsilon < made.epsilon(delta) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon, delta", [(-1, 1e-5), (1, 0), (1, 2), ("1%", 1e-5)])
def test_an_epsilon_that_means_nothing(epsilon, delta):
    with pytest.raises(InputError):
        Guarantee.from_epsilon(epsilon, delta)
