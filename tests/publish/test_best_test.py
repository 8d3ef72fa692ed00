"The best test: what its probabilities must obey, exactly, and what it refuses."

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binomtest

from privglasso.base.validation import InputError
from privglasso.privacy.discrete_gaussian import cdf
from privglasso.privacy.sampler import exp_bounds
from privglasso.publish import best_test
from privglasso.publish.best_test import BestTest, NormalTest
from privglasso.publish.best_test import reached_with, stability_test, tail_bound


def needed(test, epsilon):
    """Largest δ of neighbours with one answer, at an e^ε that is rounded down: whole
    numbers, as every probability is one of 2^-B."""
    one, bits = 1 << test.precision, 2 * test.precision
    grow = (1 << 2 * bits) // exp_bounds(*epsilon.as_integer_ratio(), bits)[1]
    q = [test.pass_probability(d) for d in range(test.steps(1) + 1)]
    assert all(one % chance.denominator == 0 for chance in q)
    q = [chance.numerator * (one // chance.denominator) for chance in q]
    pairs = list(zip(q, q[1:], strict=False))
    assert q[0] == 0 and q[1] <= Fraction(test.delta) * one and q[-1] == one
    assert all(a < b for a, b in pairs)
    most = max(
        max((b << bits) - grow * a, (one - a << bits) - grow * (one - b))
        for a, b in pairs
    )
    return Fraction(most, one << bits)


@pytest.mark.long
@given(
    st.floats(0.02, 1000, allow_subnormal=False),
    st.floats(-300, -0.01).map(lambda x: 10**x),
)
def test_private_for_any_promise(epsilon, delta):
    test = BestTest(epsilon, delta)
    assert Fraction(9, 10) * Fraction(delta) < needed(test, epsilon) <= Fraction(delta)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_smaller_epsilon_is_not_kept(epsilon):
    assert needed(BestTest(epsilon, 1e-6), 0.9 * epsilon) > Fraction(1e-6)


def test_rounding_up_would_be_seen(monkeypatch):
    lower = lambda *args: (0, exp_bounds(*args)[0] - 1)
    monkeypatch.setattr(best_test, "exp_bounds", lower)
    assert needed(BestTest(1.0, 1e-9), 1.0) > Fraction(1e-9)


class Stub:
    "Bits that are known."

    def __init__(self, value):
        self.value = value

    def bits(self, k):
        return self.value


@pytest.mark.parametrize("d", [1, 5, 20, 41, 10**9])
def test_the_coin_is_one_comparison_of_whole_numbers(d, monkeypatch):
    monkeypatch.setattr(best_test, "bit_source", lambda source: source)
    test = BestTest(1.0, 1e-9)
    chance = test.pass_probability(d) * 2**test.precision
    assert chance.denominator == 1
    assert test.passes(d, Stub(int(chance) - 1))
    assert not test.passes(d, Stub(int(chance)))


def test_no_answer_never_passes():
    test = BestTest(5.0, 0.3)
    assert test.pass_probability(0) == 0
    assert not any(test.passes(0) for _ in range(100))


@pytest.mark.parametrize(
    "epsilon, delta", [(1.0, 1e-9), (0.01, 1e-3), (1000.0, 5e-324), (4e-5, 1e-9)]
)
def test_fewer_steps_than_are_promised(epsilon, delta):
    test = BestTest(epsilon, delta)
    assert test.steps(1) < -2 * math.log(delta) / epsilon + 4
    assert test.steps(0) == 0 and test.pass_probability(test.steps(1)) == 1
    before, half = (test.pass_probability(test.steps(0.5) - k) for k in (1, 0))
    assert before < Fraction(1, 2) <= half


def test_no_fewer_digits_are_needed_than_delta_has():
    # every probability grows by delta at least, whatever is rounded
    test = BestTest(700.0, 5e-324)
    assert Fraction(5e-324) * Fraction(1 - 2**-40) <= test.pass_probability(1)


def test_what_a_budget_books():
    promise = BestTest(1.0, 1e-9).guarantee()
    assert promise.neighbors == "record" and promise.failure == 1e-9
    assert (promise.mu, promise.pure) == (0.0, 1.0) and promise.epsilon(1e-9) == 1.0
    assert promise.as_gaussian().mu == pytest.approx(1.23204, rel=1e-4)
    assert BestTest(1.0, 1e-9).guarantee("cell").neighbors == "cell"
    assert promise.delta(1.0) >= 1e-9  # it includes what is promised
    assert math.isfinite(BestTest(1000.0, 0.5).guarantee().as_gaussian().mu)


@pytest.mark.parametrize(
    "arguments, named",
    [
        ((0.0, 1e-9), "epsilon"),
        ((1001.0, 1e-9), "epsilon"),
        ((1e-6, 1e-9), "epsilon"),
        ((math.nan, 1e-9), "epsilon"),
        ((1.0, 0.0), "delta"),
        ((1.0, 1.0), "delta"),
    ],
)
def test_refused_promises(arguments, named):
    with pytest.raises(InputError) as refused:
        BestTest(*arguments)
    assert refused.value.argument == named


def test_refused_questions():
    test = BestTest(1, 0.5)
    for call, named in (
        (lambda: test.pass_probability(-1), "d"),
        (lambda: test.passes(1.5), "d"),
        (lambda: test.passes(True), "d"),
        (lambda: test.steps(1.1), "share"),
        (lambda: test.steps(math.nan), "share"),
        (lambda: test.guarantee("row"), "neighbors"),
    ):
        with pytest.raises(InputError) as refused:
            call()
        assert refused.value.argument == named


# where budgets count μ


def test_the_tail_is_a_bound_for_all_sigmas_of_a_test():
    for sigma in (64.0, 100.3, 5e3, 2.0**39):
        for delta in (0.1, 1e-5, 1e-12, 1e-200, 2.3e-308):
            m = reached_with(delta, sigma)
            assert cdf(-m, sigma) <= delta * (1 + 1e-9)
            assert cdf(-m, sigma) > 0.5 * delta
    with pytest.raises(InputError, match="sigma"):
        tail_bound(10, 100.0)


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("failure", [0.1, 1e-9, 1e-200])
def test_neighbours_of_a_normal_test_are_no_further_apart_than_mu(mu, failure):
    test = NormalTest(mu, failure)
    assert tail_bound(test._noise[2] - test._noise[0], test._noise[1]) <= failure
    assert test.guarantee().mu <= mu and test.guarantee().failure == failure
    d = test.steps(0.5)
    assert test.pass_probability(d) >= 0.5 > test.pass_probability(d - 1)
    q = [test.pass_probability(k) for k in range(max(d - 3, 1), d + 3)]
    apart = np.diff(ndtri([x for x in q if x < 0.999]))  # rounded beyond
    assert (apart <= mu * (1 + 1e-9)).all() and (apart > 0.99 * mu).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_normal_test_passes_as_often_as_it_says(share):
    "Of 400 times; right counts are outside of the interval once in a million."
    test = NormalTest(0.7, 1e-6)
    d = test.steps(share)
    passed = sum(test.passes(d, seed) for seed in range(400))
    said = binomtest(passed, 400).proportion_ci(1 - 1e-6)
    assert said.low <= test.pass_probability(d) <= said.high
    assert not any(test.passes(1, seed) for seed in range(400))  # but once in a million


def test_a_tie_never_passes_a_normal_test():
    test = NormalTest(16384.0, 0.1)
    assert test.pass_probability(0) == 0
    assert not any(test.passes(0, seed) for seed in range(50))
    assert all(test.passes(3, seed) for seed in range(50))


def test_the_form_of_the_target_chooses():
    assert stability_test(epsilon=1, delta=1e-9) == BestTest(1.0, 1e-9)
    assert stability_test(mu=1, failure=1e-9) == NormalTest(1.0, 1e-9)
    for stated, argument in (
        ({}, "budget"),
        ({"mu": 1.0, "epsilon": 1.0, "delta": 1e-6}, "budget"),
        ({"epsilon": 1.0}, "delta"),
        ({"mu": 1.0}, "failure"),
        ({"mu": 1.0, "failure": 0.2}, "failure"),
        ({"epsilon": 1.0, "delta": 1e-6, "failure": 1e-6}, "failure"),
    ):
        with pytest.raises(InputError) as refusal:
            stability_test(**stated)
        assert refusal.value.argument == argument
