"""The lattice: promises met from below, bounds inside, and what no double can carry."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.privacy.sampler import bit_source, sampler
from privglasso.publish.lattice import add_symmetric_noise, symmetric_noise
from privglasso.publish.lattice import integer_lattice, lattice_for_mu
from privglasso.publish.lattice import lattice_for_sigma, sigma_steps
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism


@given(
    p=st.integers(1, 12),
    mu=st.floats(1e-3, 1e4),
    seed=st.integers(0, 2**32 - 1),
    neighbors=st.sampled_from(["cell", "record"]),
)
@settings(deadline=None, max_examples=100)
def test_a_target_is_met_from_below_and_not_wasted(p, mu, seed, neighbors):
    generator = np.random.default_rng(seed)
    low = generator.normal(size=p) * 10.0 ** generator.uniform(-6, 6, p)
    high = low + np.maximum(np.abs(low), 1e-9) * 10.0 ** generator.uniform(-3, 3, p)
    lattice = GaussianMechanism((low, high), neighbors=neighbors, mu=mu).lattice(p)
    assert mu * (1 - 1e-9) < lattice.guarantee(neighbors).mu <= mu
    assert (lattice.low * lattice.step >= low).all()
    assert (lattice.high * lattice.step <= high).all()
    assert (lattice.sigma >= 64).all() and (lattice.high - lattice.low >= 62).all()
    assert (np.log2(lattice.step) % 1 == 0).all()


@given(shift=st.integers(1, 500), mu=st.floats(1e-3, 50))
@settings(deadline=None, max_examples=100)
def test_an_integer_target_is_met_from_below(shift, mu):
    for neighbors in ("cell", "record"):
        mechanism = DiscreteGaussianMechanism((0, shift), neighbors=neighbors, mu=mu)
        assert mechanism.guarantee(10, 3).mu <= mu


def test_narrow_data_survive_wide_noise():
    "Steps of σ/64 alone would be coarser than these data and round all to one point."
    generator = np.random.default_rng(1)
    data = generator.multivariate_normal(
        [0.503, 0.2], 0.03**2 * np.array([[1, 0.8], [0.8, 1]]), size=20_000
    )
    lattice = lattice_for_sigma(np.zeros(2), np.ones(2), np.full(2, 50.0))
    rounded = np.rint(data / lattice.step) * lattice.step
    assert np.abs(rounded.mean(axis=0) - data.mean(axis=0)).max() < 1e-3
    assert np.corrcoef(rounded.T)[0, 1] == pytest.approx(
        np.corrcoef(data.T)[0, 1], abs=0.03
    )


def test_the_finest_noise_that_is_named_works():
    for place in [0.0, 1e6, -1e9]:
        low, high = np.array([place]), np.array([place + 1e6])
        with pytest.raises(InputError, match="sigma=") as caught:
            lattice_for_sigma(low, high, np.array([1e-12]))
        works = float(str(caught.value).split("sigma >= ")[1].split(" ")[0])
        lattice = lattice_for_sigma(low, high, np.array([works * 1.001]))
        assert max(-lattice.low[0], lattice.high[0]) <= 2**51


@pytest.mark.filterwarnings("error")
def test_a_target_too_small_for_any_lattice_is_named():
    for mu in [1e-12, 1e-100]:
        with pytest.raises(InputError, match="mu="):
            lattice_for_mu(np.zeros(2), np.full(2, 100.0), np.full(2, mu))
        with pytest.raises(InputError, match="mu="):
            sigma_steps(np.array([100]), np.array([mu]))


def test_integers_need_two_of_them_and_room_in_a_double():
    with pytest.raises(InputError, match="bounds="):
        integer_lattice(np.array([0.2]), np.array([0.8]), lambda shift: shift)
    with pytest.raises(InputError, match="sigma="):
        integer_lattice(np.zeros(1), np.ones(1), lambda shift: shift * 1e15)


@pytest.mark.parametrize(
    ("shift", "mu", "sigma"),
    [
        (3, 0.5, (36 + 1 / 6) ** 0.5),
        (1, 1.41, (1 / 1.41**2 + 1 / 6) ** 0.5),  # a variance just above 2/3
        (1, 1.42, 2 / 1.42),  # below it
        (10, 11.5, 11 / 11.5),  # the simple bound is the smaller one
        (2**20 - 1, 2.0**-20, 2.0**40 - 2.0**20),  # hardly less than the most
    ],
)
def test_noise_for_a_target_is_the_smaller_proved_one(shift, mu, sigma):
    steps = sigma_steps(np.array([shift, 1]), np.array([mu, 1.0]))
    assert steps[0] == pytest.approx(sigma, rel=1e-12) and steps[0] > sigma
    assert steps[1] == pytest.approx((7 / 6) ** 0.5)


def test_a_target_that_one_column_misses_is_refused():
    with pytest.raises(InputError, match=r"more than 1048576 / 2\^40") as caught:
        sigma_steps(np.array([3, 2**20 - 1]), np.array([0.9, 0.999 * 2.0**-20]))
    assert caught.value.value == 0.999 * 2.0**-20


@pytest.mark.parametrize(
    ("sigma", "width", "step"),
    [
        (64, 1e6, 1),
        (127.9, 1e6, 1),
        (128, 1e6, 2),
        (1e6, 64, 1),
        (1e6, 63.9, 0.5),
        (1e6, 128, 2),
    ],
)
def test_steps_are_the_largest_that_are_fine_enough(sigma, width, step):
    lattice = lattice_for_sigma(np.zeros(1), np.array([width]), np.array([sigma]))
    assert lattice.step.tolist() == [step]


LARGEST = 2.0**51


@pytest.mark.parametrize("sign", [1, -1])
def test_steps_are_counted_up_to_what_a_double_carries(sign):
    def lattice(end):
        low, high = np.sort([[0, 0], [64, sign * end]], axis=0)
        return lattice_for_sigma(low, high, np.array([64.0, 64.0]))

    assert lattice(LARGEST).step.tolist() == [1, 1]
    with pytest.raises(InputError, match=r"column 1: use sigma >= 256 ") as caught:
        lattice(2 * LARGEST)
    assert caught.value.value == 64
    with pytest.raises(InputError, match="column 1"):
        lattice(LARGEST + 1)


def test_integers_lie_within_their_bounds_and_a_double():
    def lattice(low, high, sigma=2.0):
        ends = np.array([0.0, low]), np.array([1.0, high])
        return integer_lattice(*ends, lambda shift: np.where(shift > 1, sigma, 1.0))

    inner = lattice(-2.5, 3.5)
    assert inner.low.tolist() == [0, -2] and inner.high.tolist() == [1, 3]
    assert inner.step.tolist() == [1, 1] and inner.sigma.tolist() == [1, 2]
    assert lattice(-LARGEST, LARGEST, LARGEST / 16).high[1] == LARGEST
    for beyond in (
        (-LARGEST - 1, 0),
        (0, LARGEST + 1),
        (0, 5, LARGEST / 16 + 1),
    ):
        with pytest.raises(InputError, match="rescale"):
            lattice(*beyond)
    with pytest.raises(InputError, match="two whole numbers"):
        lattice(0.5, 1.5)


def test_noise_is_added_strip_by_strip_as_it_is_drawn():
    "As many columns as make three strips; above the diagonal row by row."
    p, sigma = 900, (30.0, 60.0)
    bits = bit_source(5)
    beside, on = sampler(sigma[0]).draw(p * (p - 1) // 2, bits), sampler(sigma[1])
    expected = np.zeros((p, p), dtype=np.int64)
    expected[np.triu_indices(p, 1)] = beside
    expected += expected.T + np.diag(on.draw(p, bits))
    assert (symmetric_noise(p, sigma, bit_source(5)) == expected).all()
    sums = np.arange(p * p).reshape(p, p)
    sums += sums.T
    added = sums.copy()
    add_symmetric_noise(added, sigma, bit_source(5))
    assert (added - sums == expected).all()
