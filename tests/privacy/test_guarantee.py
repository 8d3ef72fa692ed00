"""Guarantees: what they promise of integer noise, add up to, print, and refuse."""

import math

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.accounting import PrivacyLoss
from privglasso.privacy.discrete_gaussian import delta_exact, pmf
from privglasso.privacy.guarantee import Guarantee, NoGuarantee, classical_limit
from privglasso.privacy.guarantee import classical_mu
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
        (lambda: classical_mu(0.0, 1e-5), "epsilon"),
        (lambda: classical_mu(classical_limit(1e-5) + 0.01, 1e-5), "epsilon"),
        (lambda: classical_limit(1.0), "delta"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == name
