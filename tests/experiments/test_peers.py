"""Peers' covariances: what the chapter does not show."""

import numpy as np
import pytest

from privglasso.experiments.peers import coinpress, separate_cov


@pytest.mark.parametrize("estimate", [coinpress, separate_cov])
def test_units_and_centres_do_not_matter(estimate):
    z = np.random.default_rng(0).normal(size=(500, 4))
    unit, center = np.array([1e-3, 1, 7, 1e5]), np.array([5.0, -3, 0, 1e6])
    one = estimate(z, 0.5, 1.0, 0.0, random_state=1)
    other = estimate(center + unit * z, 0.5, unit, center, random_state=1)
    assert np.allclose(one, other, rtol=1e-6, atol=1e-8)
    assert np.allclose(one, one.T)


@pytest.mark.parametrize("estimate", [coinpress, separate_cov])
def test_rows_at_the_centre_are_no_error(estimate):
    z = np.random.default_rng(0).normal(size=(200, 3))
    z[:5] = 0
    assert np.isfinite(estimate(z, 0.5, 1.0, 0.0, random_state=0)).all()


def test_one_round_has_the_noise_of_its_bound():
    z, n, p, mu = np.zeros((100, 5)), 100, 5, 0.5
    bound = p + 2 * np.sqrt(p * np.log(10)) + 2 * np.log(10)
    found = [
        coinpress(z, mu, 1.0, 0.0, rounds=1, upper=1.0, random_state=seed)
        for seed in range(400)
    ]
    std = np.std(found, axis=0)
    off = std[np.triu_indices(p, 1)].mean() / (bound / n / mu)
    on = np.diag(std).mean() / (bound / n / mu)
    assert off == pytest.approx(1, abs=0.05) and on == pytest.approx(2**0.5, abs=0.1)
