"""A lattice promises what its worst column does; every row of a long table counts."""

import math

import numpy as np
import pytest

from privglasso.privacy.discrete_gaussian import mu_bound
from privglasso.publish.lattice import Lattice, integer_lattice, lattice_for_mu
from privglasso.publish.table import GaussianMechanism


def lattice_of(low, high, sigma):
    "Columns with these bounds and this noise, in steps of 1."
    made = (np.array(low), np.array(high))
    return Lattice(np.ones(len(low)), np.array(sigma, float), *made)


def test_a_cell_is_told_by_its_worst_column_and_a_record_by_all():
    low, high, sigma = [-3, 10, 0], [5, 12, 40], [2.0, 7.0, 9.0]
    lattice = lattice_of(low, high, sigma)
    mus = [mu_bound(*pair) for pair in zip((8, 2, 40), sigma, strict=True)]
    assert lattice.guarantee("cell").mu == max(mus)
    assert lattice.guarantee("record").mu == pytest.approx(math.hypot(*mus))
    assert set(lattice.guarantee("cell").pairs) == {(8, 2.0), (2, 7.0), (40, 9.0)}


def test_the_exact_curve_is_that_of_one_column_only():
    "With several columns a record moves all of them, and no curve of one says that."
    one, two = lattice_of([0], [4], [3.0]), lattice_of([0, 0], [4, 4], [3.0, 3.0])
    assert one.guarantee("record").pairs == ((4, 3.0),)
    assert two.guarantee("record").pairs == ()
    assert two.guarantee("record").delta(1.0) > one.guarantee("record").delta(1.0)


def test_noise_is_for_the_width_of_bounds_wherever_they_lie():
    for place in (-50.0, 0.0, 1000.0):
        low, high = np.array([place - 0.5]), np.array([place + 8.5])
        lattice = integer_lattice(low, high, lambda width: width * 2.0)
        assert (lattice.high - lattice.low).tolist() == [8]
        assert lattice.sigma.tolist() == [16.0]
        narrow = lattice_for_mu(low, high, 0.5)
        assert 0.5 * (1 - 1e-9) < narrow.guarantee("cell").mu <= 0.5


@pytest.mark.parametrize("n", [3, 200_000])
def test_a_table_that_is_published_in_blocks_keeps_each_cell_in_its_row(n):
    "Noise of 10^-4 of the range; 50 deviations away with probability below e^-1200."
    table = np.random.default_rng(0).uniform(-2, 2, (n, 2))
    mechanism = GaussianMechanism((-1, 1), neighbors="cell", sigma=2e-4)
    release = mechanism.publish(table, random_state=1)
    away = np.abs(release.table.to_numpy() - np.clip(table, -1, 1))
    assert away.max() < 50 * 2e-4
