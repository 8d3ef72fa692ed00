"""Accounts against OpenDP and dp-accounting, on random grids: to 1e-9 where both are
exact, or in the right direction.

OpenDP keeps zCDP and rounds outward. Of dp-accounting the single Gaussian and the Rényi
conversion are closed forms; its discrete Gaussian is cut where it is told to, and its
compositions live on a grid (pessimistic from above, optimistic from below).
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from privglasso.privacy.accounting import PrivacyLoss, delta_zcdp, epsilon_zcdp
from privglasso.privacy.discrete_gaussian import delta_exact, epsilon_exact
from privglasso.privacy.gdp import delta_gdp, epsilon_gdp, mu_gdp

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def opendp():
    "OpenDP with the features that are needed."
    module = pytest.importorskip("opendp.prelude")
    module.enable_features("contrib")
    return module


@pytest.fixture(scope="module")
def losses():
    "dp-accounting's privacy losses."
    return pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")


@pytest.fixture(scope="module")
def distributions():
    "dp-accounting's compositions."
    return pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")


def grid(seed, count, **ranges):
    "Random points, uniform in the logarithm."
    rng = np.random.default_rng(seed)
    return list(
        zip(
            *(
                np.exp(rng.uniform(*np.log(ends), count)).tolist()
                for ends in ranges.values()
            ),
            strict=True,
        )
    )


# ------------------------------------------------------------- the continuous Gaussian


def test_gaussian_delta_is_dp_accountings(losses):
    for mu, epsilon in grid(1, 60, mu=(0.05, 20.0), epsilon=(0.01, 60.0)):
        theirs = losses.GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
        # a difference of two normal probabilities: it keeps its digits only while delta
        # is not small beside them
        if theirs > max(1e-6 * ndtr(mu / 2 - epsilon / mu), 1e-300):
            assert delta_gdp(epsilon, mu) == pytest.approx(theirs, rel=1e-9)


def test_gaussian_epsilon_is_dp_accountings():
    for mu, delta in grid(2, 40, mu=(0.05, 20.0), delta=(1e-14, 0.3)):
        peer = pytest.importorskip("dp_accounting")
        theirs = peer.get_epsilon_gaussian(1 / mu, delta, tol=1e-14)
        assert epsilon_gdp(delta, mu) == pytest.approx(theirs, rel=1e-9, abs=1e-11)


def test_gaussian_noise_is_dp_accountings():
    for epsilon, delta in grid(3, 30, epsilon=(0.01, 50.0), delta=(1e-14, 0.3)):
        peer = pytest.importorskip("dp_accounting")
        assert 1 / mu_gdp(epsilon, delta) == pytest.approx(
            peer.get_sigma_gaussian(epsilon, delta, tol=1e-14), rel=1e-9
        )


# ------------------------------------------------------------------------- one integer


def test_integer_delta_is_dp_accountings(losses):
    for sigma, shift, epsilon in grid(
        4, 60, sigma=(0.5, 40.0), shift=(1, 30), epsilon=(0.01, 10.0)
    ):
        shift = round(shift)
        # their default cuts the tails; not so here
        reach = math.ceil(14 * sigma) + shift
        theirs = losses.DiscreteGaussianPrivacyLoss(
            sigma, shift, truncation_bound=reach
        ).get_delta_for_epsilon(epsilon)
        ours = delta_exact(epsilon, shift, sigma)
        if ours > 1e-7:  # theirs is a difference of sums near 1
            assert ours == pytest.approx(theirs, rel=1e-9)
            assert PrivacyLoss(((shift, sigma),)).delta(epsilon) == pytest.approx(
                theirs, rel=1e-9 if sigma < 64 else 1e-3
            )


def test_rho_is_opendps(opendp):
    for sigma, shift in grid(5, 12, sigma=(0.7, 20.0), shift=(1, 10)):
        shift = round(shift)
        space = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
        measurement = opendp.m.make_gaussian(*space, scale=sigma)
        ours = PrivacyLoss(((shift, sigma),)).rho
        assert ours == pytest.approx(
            measurement.map(shift), rel=1e-12
        ) and measurement.map(shift) >= ours * (1 - 1e-15)


def test_composed_rho_is_opendps(opendp):
    for sigmas in [(1.0, 2.0, 3.0), (0.7, 0.7, 11.0, 5.0)]:
        space = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
        parts = opendp.c.make_composition(
            [opendp.m.make_gaussian(*space, scale=sigma) for sigma in sigmas]
        )
        assert PrivacyLoss(tuple((2, sigma) for sigma in sigmas)).rho == pytest.approx(
            parts.map(2), rel=1e-12
        )


# --------------------------------------------------------------- conversions from zCDP


def test_epsilon_from_zcdp_is_opendps(opendp):
    """Both minimise one formula over the order; near its minimum the formula is flat,
    so both are as exact as floats.

    OpenDP leaves its search at about 1e-9, upward.
    """
    for sigma, delta in grid(6, 20, sigma=(0.3, 60.0), delta=(1e-14, 0.3)):
        space = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
        curve = opendp.c.make_zCDP_to_approxDP(
            opendp.m.make_gaussian(*space, scale=sigma)
        ).map(1)
        assert epsilon_zcdp(delta, 1 / (2 * sigma**2)) == pytest.approx(
            curve.epsilon(delta), rel=1e-9, abs=1e-12
        )


def check_epsilon_from_zcdp_is_dp_accountings_at_the_best_order(rho, delta):
    rdp = pytest.importorskip("dp_accounting.rdp")
    at = lambda order: rdp.compute_epsilon([order], [order * rho], delta)[0]
    closed = lambda t: (
        lambda a: a * rho + math.log1p(-1 / a) - math.log(delta * a) / (a - 1)
    )(1 + math.exp(t))
    best = 1 + math.exp(
        minimize_scalar(
            closed, bounds=(-5, 15), method="bounded", options={"xatol": 1e-10}
        ).x
    )
    ours = epsilon_zcdp(delta, rho)
    if best > 1.01 and at(best) > 0:  # they do not convert orders nearer to 1
        assert ours == pytest.approx(at(best), rel=1e-9)
    for order in (1.5, 2.0, 8.0, 64.0):  # any single order is valid, and no better
        assert at(order) == 0 or ours <= at(order) * (1 + 1e-12)


def test_epsilon_from_zcdp_is_dp_accountings_at_the_best_order():
    for rho, delta in grid(7, 30, rho=(1e-4, 50.0), delta=(1e-14, 0.05)):
        check_epsilon_from_zcdp_is_dp_accountings_at_the_best_order(rho, delta)


def check_delta_from_zcdp_is_the_formula_at_sixty_digits(rho, epsilon):
    with mpmath.workdps(60):
        slope = lambda a: (2 * a - 1) * rho - epsilon + mpmath.log(1 - 1 / a)
        low, high = mpmath.mpf(1) + mpmath.mpf(10) ** -40, mpmath.mpf(10) ** 8
        for _ in range(200):
            middle = mpmath.sqrt((low - 1) * (high - 1)) + 1
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        exact = (
            mpmath.exp((low - 1) * (low * rho - epsilon))
            / (low - 1)
            * (1 - 1 / low) ** low
        )
    if exact > 1e-250:
        assert delta_zcdp(epsilon, rho) == pytest.approx(float(exact), rel=1e-9)


def test_delta_from_zcdp_is_the_formula_at_sixty_digits():
    for rho, epsilon in grid(8, 30, rho=(1e-3, 20.0), epsilon=(0.01, 60.0)):
        check_delta_from_zcdp_is_the_formula_at_sixty_digits(rho, epsilon)


# ------------------------------------------------------------------------ compositions


def composed(distributions, pairs, pessimistic):
    "dp-accounting's composition on its grid."
    total = None
    for shift, sigma in pairs:
        part = distributions.from_discrete_gaussian_mechanism(
            sigma,
            shift,
            truncation_bound=math.ceil(14 * sigma) + shift,
            value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic,
        )
        total = part if total is None else total.compose(part)
    return total


SEVERAL = [
    ((1, 2.0),) * 4,
    ((1, 1.0), (2, 3.0)),
    ((3, 4.0), (2, 2.5), (1, 1.5)),
    ((4, 6.0), (3, 6.0), (2, 6.0)),
]


def test_compositions_lie_between_dp_accountings_bounds(distributions):
    """Not exact on their side: from below and from above, within what their grid of
    1e-3 costs."""
    for pairs in SEVERAL:
        loss, below, above = (
            PrivacyLoss(pairs),
            composed(distributions, pairs, False),
            composed(distributions, pairs, True),
        )
        for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
            low, high = below.get_delta_for_epsilon(
                epsilon
            ), above.get_delta_for_epsilon(epsilon)
            ours = loss.delta(epsilon)
            if ours > 1e-10:  # their Fourier transforms carry absolute errors
                assert low * (1 - 1e-9) <= ours <= high * (1 + 1e-4)
                assert high <= ours * 1.05


def test_a_gaussian_and_integers_together_lie_below_dp_accountings_bound(distributions):
    "Pessimistic on their side, on a grid of 1e-3."
    pairs = ((1, 1.5), (2, 3.0))
    total = composed(distributions, pairs, True).compose(
        distributions.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
    )
    loss = PrivacyLoss(pairs, gaussian=0.5)
    for epsilon in (0.3, 1.0, 3.0):
        theirs = total.get_delta_for_epsilon(epsilon)
        assert theirs / 1.01 <= loss.delta(epsilon) <= theirs * (1 + 1e-9)


def test_integer_epsilon_is_dp_accountings(losses):
    for sigma, shift, delta in grid(
        9, 12, sigma=(0.7, 30.0), shift=(1, 10), delta=(1e-9, 0.1)
    ):
        shift = round(shift)
        reach = math.ceil(14 * sigma) + shift
        theirs = losses.DiscreteGaussianPrivacyLoss(
            sigma, shift, truncation_bound=reach
        )
        epsilon = epsilon_exact(delta, shift, sigma)
        if epsilon > 1e-6:
            assert theirs.get_delta_for_epsilon(epsilon) == pytest.approx(
                delta, rel=1e-6
            )
