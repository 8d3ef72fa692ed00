"""The least noise of an average over rows: what the chapter does not show."""

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.limit import least_noise, noise_over_limit
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.sphere import Sphere
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import GaussianMechanism


def test_units_and_budget_do_not_matter():
    scale = np.geomspace(1e-6, 1e6, 10)
    ratios = [
        noise_over_limit(
            CovarianceMechanism(clipping=Sphere(s), mu=mu), 5000, 10, deviation=s
        )
        for s in (1.0, scale)
        for mu in (0.2, 2.0)
    ]
    assert np.allclose(ratios, ratios[0], rtol=1e-4)


def test_the_release_has_the_noise_that_is_stated():
    n, p, found = 400, 6, []
    mechanism = QuadrantMechanism(0.0, mu=0.2)
    x = np.random.default_rng(0).normal(size=(n, p))
    for seed in range(150):
        found.append(mechanism.publish(x, random_state=seed).counts)
    lattice = mechanism.lattice(n, p)
    std = np.std(found, axis=0)[np.triu_indices(p, 1)] / (n * lattice.scale)
    noise = np.pi / 2 * np.sqrt((std**2).mean()) * n * 0.2 / least_noise(p)
    # 2250 draws: a relative deviation of 1.5 %
    expected = np.pi / 2 * np.sqrt(p * (p + 2)) / least_noise(p)
    assert noise == pytest.approx(expected, rel=0.08)


def test_synthetic_rows_have_the_noise_of_their_moments():
    kinds = CovarianceMechanism, SyntheticDataMechanism
    one, other = (
        noise_over_limit(kind((-4, 4), mu=1.0), 10_000, 5) for kind in kinds
    )
    assert other >= one * (1 - 1e-12) > 1


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism((-4, 4), mu=1.0, neighbors="record"),
        CovarianceMechanism((-4, 4), mu=1.0, neighbors="cell", clipping="box"),
        None,
    ],
)
def test_what_has_no_such_noise_is_refused(mechanism):
    with pytest.raises(InputError) as caught:
        noise_over_limit(mechanism, 1000, 5)
    assert caught.value.argument == "mechanism"


@pytest.mark.parametrize("p", [1, 2.5, True])
def test_pairs_need_two_columns(p):
    with pytest.raises(InputError):
        least_noise(p)
