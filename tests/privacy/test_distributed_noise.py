"""Sums of shares of noise: the periodic factor, its price, and what is missing."""

import math
from functools import reduce
from itertools import product

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.discrete_gaussian import delta_exact, pmf
from privglasso.privacy.distributed_noise import (
    delta_of_sum,
    extra_loss,
    least_sigma,
    periodic_factor,
    published_extra,
    share_sigma,
    sum_guarantee,
    widened_mu,
)
from privglasso.privacy.gdp import delta_gdp, hockey_stick


def summed(parties, sigma, reach=40):
    "Probabilities of the sum of shares on -parties * reach, …, parties * reach."
    return reduce(np.convolve, [pmf(np.arange(-reach, reach + 1), sigma)] * parties)


@pytest.mark.parametrize("parties", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("sigma", [0.2, 0.39, 0.4, 0.7])
def test_the_sum_is_a_gaussian_times_the_factor(parties, sigma):
    p = summed(parties, sigma)
    middle = len(p) // 2
    x = np.arange(-2 * parties, 2 * parties + 1)
    x = x[p[middle + x] > 1e-250]
    found = periodic_factor(parties, sigma)[x % parties]
    truth = np.log(p[middle + x] / p[middle]) + x**2 / (2 * parties * sigma**2)
    assert np.abs(found - truth).max() < 1e-9 * (1 + np.abs(truth).max())


def test_both_ways_of_summing_meet():
    "On both sides of the meeting point of the two series."
    meeting = 1 / math.sqrt(2 * math.pi)
    for parties in (2, 5, 30, 101):
        g = [periodic_factor(parties, meeting * (1 + t)) for t in (-1e-9, 1e-9)]
        assert np.allclose(*g, rtol=1e-6, atol=1e-9) and g[0].min() < 0


def test_the_factor_is_even_largest_at_zero_and_fades():
    for parties, sigma in product((2, 3, 7, 20), (0.3, 0.5, 1.0, 3.0)):
        g = periodic_factor(parties, sigma)
        assert g[0] == 0 >= g.max() and np.allclose(g[1:], g[:0:-1], rtol=1e-9)
        assert extra_loss(parties, sigma) > extra_loss(parties, 1.1 * sigma)
        worst = max(extra_loss(parties, sigma, shift) for shift in range(parties))
        assert worst == pytest.approx(extra_loss(parties, sigma), rel=1e-6)
        assert extra_loss(parties, sigma, 3 * parties) == 0


def test_below_the_published_bound_and_about_its_square():
    for parties, sigma in product((2, 3, 5, 20, 300), (0.5, 0.7, 1.0, 1.4)):
        ours, theirs = extra_loss(parties, sigma), published_extra(parties, sigma)
        assert ours < theirs
        first = 4 * parties * math.exp(-2 * (math.pi * sigma) ** 2 * (1 - 1 / parties))
        assert ours <= first * (1 + 1e-6) or sigma < 0.8


def test_no_loss_is_rounded_to_none():
    assert extra_loss(2, 1e6) > 0 == extra_loss(1, 1.0)
    assert 0 < extra_loss(2000, 0.6) < math.inf


@pytest.mark.parametrize("parties", [1, 2, 3, 4, 5])
def test_the_curve_is_that_of_brute_force(parties):
    for sigma, shift in product((0.25, 0.5, 1.1), (1, 2, parties, 7)):
        p, far = summed(parties, sigma), np.zeros(shift)
        one, two = np.concatenate([p, far]), np.concatenate([far, p])
        for epsilon in (0.0, 0.3, 1.5, 4.0):
            truth = hockey_stick(one / one.sum(), two / two.sum(), epsilon)
            found = delta_of_sum(epsilon, shift, parties, sigma)
            assert found == pytest.approx(truth, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(
    ("parties", "sigma", "shift"),
    [(12, 0.3, 2), (5, 0.2, 1), (8, 0.2, 1), (3, 0.15, 4)],
)
def test_the_curve_goes_as_far_as_the_factor_reaches(parties, sigma, shift):
    "Little noise: odds are high at places where one Gaussian has none."
    p, far = summed(parties, sigma, 30), np.zeros(shift)
    one, two = np.concatenate([p, far]), np.concatenate([far, p])
    for epsilon in (0.0, 3.0, 8.0):
        truth = hockey_stick(one / one.sum(), two / two.sum(), epsilon)
        found = delta_of_sum(epsilon, shift, parties, sigma)
        assert found == pytest.approx(truth, rel=1e-8, abs=1e-14)


def test_one_share_and_many_fine_ones_are_discrete_gaussians():
    for epsilon, shift in product((0.0, 0.7, 3.0), (1, 4)):
        one = delta_exact(epsilon, shift, 1.3)
        assert delta_of_sum(epsilon, shift, 1, 1.3) == pytest.approx(one, rel=1e-9)
        many = delta_exact(epsilon, shift, math.sqrt(12) * 2.0)
        assert delta_of_sum(epsilon, shift, 12, 2.0) == pytest.approx(many, rel=1e-9)


def test_the_promise_covers_the_exact_curve():
    "One number, all shifts, noise from very little to enough."
    for parties, sigma, shift in product((2, 3, 5), (0.65, 0.8, 1.2), (1, 2, 3)):
        mu = sum_guarantee(shift, sigma, parties).mu
        for epsilon in np.linspace(0, 6, 25):
            assert delta_of_sum(epsilon, shift, parties, sigma) <= delta_gdp(
                epsilon, mu
            )


def test_a_vector_of_sums_is_covered():
    "Two numbers that both change by 1, with all their odds."
    parties, sigma = 2, 0.85
    p = summed(parties, sigma, 12)
    one, two = np.append(p, 0), np.append(0, p)
    both = np.outer(one, one).ravel(), np.outer(two, two).ravel()
    mu = sum_guarantee(math.sqrt(2), sigma, parties, coordinates=2).mu
    for epsilon in np.linspace(0, 5, 11):
        assert hockey_stick(*(x / x.sum() for x in both), epsilon) <= delta_gdp(
            epsilon, mu
        )


def test_a_wider_mu_is_as_wide_as_stated_and_refuses_the_rest():
    assert widened_mu(0.7, 0.0) == 0.7
    slope = (widened_mu(1.0, 1e-7) - 1) / 1e-7
    mills = math.sqrt(2 * math.pi) * math.exp(1 / 8) * 0.6914624612740131
    assert slope == pytest.approx(mills, rel=1e-5)
    for extra in (5.0, 1e3, 1e300):
        with pytest.raises(InputError, match="too much"):
            widened_mu(1.0, extra)


def curve(epsilon, mu):
    "delta of mu-GDP, at negative epsilon, too."
    given = delta_gdp(np.abs(epsilon), mu)
    return np.where(epsilon < 0, 1 - np.exp(epsilon) * (1 - given), given)


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 2.0])
def test_a_wider_mu_covers_all_that_is_off_by_so_much(mu):
    "From epsilon = 0 on, where an ease leads to negative ones."
    for extra in np.array([0.03, 0.1, 0.2]) * min(mu, 1):
        wider, epsilon = widened_mu(mu, extra), np.linspace(0, 6 * mu, 200)
        needed = np.exp(extra) * curve(epsilon - extra, mu)
        assert (needed <= delta_gdp(epsilon, wider) * (1 + 1e-11)).all()
        less = mu + 0.8 * (wider - mu)
        assert (needed > delta_gdp(epsilon, less)).any()


def test_every_number_and_what_is_left_of_the_shares_counts():
    mu = 3 / math.sqrt(2 * 1.1**2 - 1 / 6)
    for coordinates in (1, 7, 40):
        extra = coordinates * extra_loss(2, 1.1)  # of two, not of five
        found = sum_guarantee(3, 1.1, 5, missing=3, coordinates=coordinates).mu
        assert found == pytest.approx(widened_mu(mu, extra), rel=1e-12)
        assert found - mu > 0.9 * coordinates * extra_loss(2, 1.1)


def test_missing_shares_are_paid_for():
    for missing in (0, 1, 7):
        sigma = share_sigma(100, 0.8, 8, missing=missing)
        assert (
            0.8 * (1 - 1e-12) < sum_guarantee(100, sigma, 8, missing=missing).mu <= 0.8
        )
        if missing < 7:
            assert sum_guarantee(100, sigma, 8, missing=missing + 1).mu > 0.8 * 1.05
    alone = sum_guarantee(100, sigma, 8, missing=7)
    assert alone.mu == sum_guarantee(100, sigma, 1).mu
    assert sum_guarantee(1, 2.0, 3, neighbors="cell").neighbors == "cell"


def test_where_the_factor_vanishes():
    for parties in (2, 7, 50):
        for extra in (1e-3, 1e-12, 1e-100):
            sigma = least_sigma(parties, extra)
            assert extra_loss(parties, sigma) <= extra
            assert extra_loss(parties, 0.99 * sigma) > extra


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: periodic_factor(0, 1.0), "parties"),
        (lambda: periodic_factor(2001, 1.0), "parties"),
        (lambda: periodic_factor(2.0, 1.0), "parties"),
        (lambda: periodic_factor(2, math.nan), "sigma"),
        (lambda: extra_loss(2, 1.0, -1), "shift"),
        (lambda: least_sigma(1), "parties"),
        (lambda: least_sigma(3, 0.0), "extra"),
        (lambda: delta_of_sum(-1.0, 1, 2, 1.0), "epsilon"),
        (lambda: delta_of_sum(1.0, 0, 2, 1.0), "shift"),
        (lambda: delta_of_sum(1.0, 1, 2, 1e9), "sigma"),
        (lambda: widened_mu(1.0, -1e-9), "extra"),
        (lambda: sum_guarantee(1, 1.0, 3, missing=3), "missing"),
        (lambda: sum_guarantee(1, 0.4, 4), "sigma"),
        (lambda: sum_guarantee(0, 1.0, 4), "sensitivity"),
        (lambda: share_sigma(1, 1.0, 4, missing=4), "missing"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call, argument):
    with pytest.raises(InputError) as error:
        call()
    assert error.value.argument == argument
