"""The accounts: against exact curves and each other, their promises rounded upward, and
what they refuse.
"""

import math

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.privacy.accounting import (
    PrivacyLoss,
    delta_zcdp,
    epsilon_zcdp,
    privacy_losses,
)
from privglasso.privacy.discrete_gaussian import delta_exact, mu_bound
from privglasso.privacy.gdp import delta_gdp
from privglasso.publish.table import DiscreteGaussianMechanism

# ------------------------------------------------------------------- the exact account

PAIR = st.tuples(st.integers(1, 6), st.floats(0.6, 9.0))


@given(pairs=st.lists(PAIR, min_size=1, max_size=3), epsilon=st.floats(0, 6))
@settings(deadline=None, max_examples=25)
def test_the_account_is_valid_monotone_and_never_above_the_simple_ones(pairs, epsilon):
    loss = PrivacyLoss(tuple(pairs))
    delta = loss.delta(epsilon)
    simple = delta_gdp(epsilon, loss.mu)
    assert 0 < delta <= min(1, simple * (1 + 1e-12))
    assert delta <= max(delta_zcdp(epsilon, loss.rho), 1e-36) * (1 + 1e-3)
    assert delta >= max(delta_exact(epsilon, *pair) for pair in pairs) * (
        1 - 1e-9
    )  # one of them alone
    assert loss.delta(epsilon + 0.1) <= delta
    more = loss.compose(PrivacyLoss(((1, 5.0),)))
    assert more.delta(epsilon) >= delta * (1 - 1e-3)


def test_a_delta_too_small_for_a_number_is_not_0():
    "A δ of 0 would be a promise of ε alone, which no Gaussian noise keeps."
    for epsilon in [1e2, 1e3, 1e6, 1e300]:
        parts = ((1, 2.0),), ((1, 2.0), (1, 3.0)), ((100, 80.0),)
        losses = [*map(PrivacyLoss, parts), PrivacyLoss(gaussian=0.5)]
        for delta in (
            *(loss.delta(epsilon) for loss in losses),
            delta_zcdp(epsilon, 0.5),
        ):
            assert 0 < delta < 1e-36


@given(shift=st.integers(1, 40), sigma=st.floats(0.4, 60.0), epsilon=st.floats(0, 8))
@settings(deadline=None, max_examples=40)
def test_one_integer_is_the_known_curve(shift, sigma, epsilon):
    known = delta_exact(epsilon, shift, sigma)
    if known > 1e-25:
        assert PrivacyLoss(((shift, sigma),)).delta(epsilon) == pytest.approx(
            known, rel=2e-9
        )


@pytest.mark.parametrize("gaussian", [0.2, 0.7, 3.0])
@pytest.mark.parametrize("shift, sigma", [(1, 0.8), (1, 1.5), (4, 3.0)])
def test_an_integer_beside_a_gaussian_is_their_mixture_rounded_upward(
    shift, sigma, gaussian
):
    """Given the integer's loss, what is left is asked of the Gaussian: at an ε below 0,
    too. Digits of twenty places decide which way a number was rounded."""
    mp, loss = mpmath.mp, PrivacyLoss(((shift, sigma),), gaussian)
    with mp.workdps(40):
        s, mu = mp.mpf(sigma), mp.mpf(gaussian)
        places = range(-math.ceil(20 * sigma), math.ceil(20 * sigma) + 1)
        masses = [mp.exp(-(mp.mpf(k) ** 2) / (2 * s**2)) for k in places]
        moved = [(2 * shift * k + shift**2) / (2 * s**2) for k in places]
        for epsilon in (0.0, 0.5, 2.0, 5.0):
            left = [epsilon - each for each in moved]
            deltas = [
                mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
                for e in left
            ]
            exact = mp.fdot(masses, deltas) / mp.fsum(masses)
            assert exact <= loss.delta(epsilon) < exact * (1 + mp.mpf(1) / 10**9)


def test_epsilon_is_the_inverse():
    for delta in [0.5, 1e-3, 1e-9, 1e-20]:
        for pairs in [((1, 2.0),) * 7, ((3, 2.5), (1, 4.0), (2, 9.0))]:
            loss = PrivacyLoss(pairs)
            epsilon = loss.epsilon(delta)
            assert (
                loss.delta(epsilon) == pytest.approx(delta, rel=1e-8)
                if epsilon > 0
                else loss.delta(0.0) <= delta
            )


def test_fine_noise_is_its_gaussian_and_coarse_noise_is_not():
    fine, coarse = ((100, 80.0), (70, 90.0)), ((2, 1.5),)
    mu = math.hypot(*(mu_bound(*pair) for pair in fine))
    assert PrivacyLoss(fine).delta(1.0) == pytest.approx(delta_gdp(1.0, mu), rel=1e-9)
    both, simple = PrivacyLoss(fine + coarse), PrivacyLoss(coarse, gaussian=mu)
    assert both.delta(2.0) == pytest.approx(simple.delta(2.0), rel=1e-9) and both.delta(
        2.0
    ) < delta_gdp(2.0, both.mu)


def test_many_releases_take_no_time_and_no_accuracy():
    # the sum of 10^6 noises is normal to all digits, with the continuous mu
    loss = PrivacyLoss(((1, 5.0),) * 10_000)
    assert loss.delta(30.0) <= delta_gdp(30.0, loss.mu)
    assert PrivacyLoss(((1, 5.0),) * 2000).delta(20.0) == pytest.approx(
        delta_gdp(20.0, math.sqrt(2000) / 5), rel=1e-4
    )


def test_wide_sums_become_gaussian():
    pairs = ((1, 60.0),) * 400
    assert PrivacyLoss(pairs).delta(0.2) == pytest.approx(
        delta_gdp(0.2, PrivacyLoss(pairs).mu), rel=1e-9
    )


def test_zcdp_conversions_are_inverse_at_any_size():
    for delta in [0.9, 1e-2, 1e-12, 1e-250]:
        for rho in [1e-8, 1e-3, 1.0, 1e3, 1e8]:
            epsilon = epsilon_zcdp(delta, rho)
            assert epsilon >= 0
            if epsilon > 0:
                assert delta_zcdp(epsilon, rho) == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize(
    "pairs",
    [((1, 2.0),) * 7, ((4, 3.0),) * 5, ((3, 2.5), (1, 4.0), (2, 9.0)), ((70, 90.0),)],
)
def test_an_epsilon_is_rounded_upward(pairs):
    """A root finder once left it below the root: delta was exceeded by parts in 10^15
    to 10^13."""
    loss = PrivacyLoss(pairs)
    for delta in (0.3, 1e-2, 1e-3, 1e-5, 1e-9, 1e-20):
        epsilon = loss.epsilon(delta)
        assert loss.delta(epsilon) <= delta
        assert delta * (1 - 1e-8) <= loss.delta(epsilon) or epsilon == 0
        rho = epsilon_zcdp(delta, loss.rho)
        assert delta_zcdp(rho, loss.rho) <= delta


def test_a_delta_below_all_normal_floats_has_an_epsilon():
    for delta in (5e-324, 1e-310, np.finfo(float).tiny):
        assert 0 < PrivacyLoss(((1, 2.0),)).epsilon(delta) < 100
        assert 0 < epsilon_zcdp(delta, 0.5) < 100


def test_what_is_impossible_is_refused_by_name():
    one = PrivacyLoss(((1, 1.0),))
    for call, name in [
        *(
            (lambda pair=pair: PrivacyLoss((pair,)), "shift|sigma")
            for pair in ((0, 1.0), (1.5, 1.0), (1, 0.0), (1, math.nan), (1, -2.0))
        ),
        *(
            (lambda pairs=pairs: PrivacyLoss(pairs), "pairs")
            for pairs in (5, None, "ab", (1, 2.0), ((1,),), ((1, 2.0, 3.0),))
        ),
        *(
            (lambda mu=mu: PrivacyLoss(gaussian=mu), "gaussian")
            for mu in (-1.0, math.nan, math.inf, "1", 0)
        ),
        *(
            (lambda f=f, epsilon=epsilon: f(epsilon), "epsilon")
            for f in (lambda e: delta_zcdp(e, 1.0), one.delta)
            for epsilon in (-1, math.nan, math.inf, "1", None)
        ),
        *(
            (lambda f=f, delta=delta: f(delta), "delta")
            for f in (lambda d: epsilon_zcdp(d, 1.0), one.epsilon)
            for delta in (0, 1, -0.1, math.nan, None)
        ),
        *(
            (lambda f=f, rho=rho: f(0.1, rho), "rho")
            for f in (delta_zcdp, epsilon_zcdp)
            for rho in (0, -1, math.nan, math.inf, "1")
        ),
    ]:
        with pytest.raises(InputError, match=name):
            call()


# ----------------------------------------------------------------------- from releases


def tables(neighbors, columns, count=2):
    "Integer releases."
    table = pd.DataFrame(np.zeros((4, len(columns)), dtype=int), columns=columns)
    mechanism = DiscreteGaussianMechanism((0, 3), neighbors=neighbors, sigma=2.0)
    return [mechanism.publish(table, random_state=seed) for seed in range(count)]


def test_releases_of_a_record_and_of_cells():
    (one,) = privacy_losses(*tables("record", list("ab")))
    assert one.pairs == ((3, 2.0),) * 4
    cells = privacy_losses(*tables("cell", list("ab"), 3))
    assert [loss.pairs for loss in cells] == [((3, 2.0),) * 3] * 2


def test_a_record_and_a_cell_have_no_account_together():
    mixed = [*tables("record", ["a"], 1), *tables("cell", ["a"], 1)]
    with pytest.raises(InputError, match="one neighbour relation"):
        privacy_losses(*mixed)


def test_cells_under_two_names_are_not_two_cells():
    with pytest.raises(InputError, match="same columns"):
        privacy_losses(*tables("cell", list("ab"), 1), *tables("cell", list("ac"), 1))


def test_releases_without_a_guarantee_or_none_are_refused():
    (release,) = tables("record", list("ab"), 1)
    with pytest.raises(InputError, match="carry a guarantee"):
        privacy_losses(release, release.without_guarantee("sigma from the data"))
    with pytest.raises(InputError, match="carry a guarantee"):
        privacy_losses()
