"""Local reports: they add up to a release, and hide any two rows of their user."""

import numpy as np
import pytest
from scipy.stats import chi2

from privglasso.base.validation import InputError
from privglasso.privacy.gdp import mu_gdp
from privglasso.publish.local import LocalMechanism


def test_reports_add_up_to_a_release():
    "Users who report by themselves give the mean and the noise of `publish`."
    X = np.random.default_rng(4).uniform(-0.5, 0.5, (10, 2))
    mechanism = LocalMechanism(1.0, mu=4.0)
    lattice = mechanism.lattice(10, 2)
    unit = np.outer(lattice.unit, lattice.unit) / 10
    alone = [
        sum(mechanism.report(row, 10, 100 * k + i) for i, row in enumerate(X)) * unit
        for k in range(150)
    ]
    low, high = chi2.ppf(1e-6, 150), chi2.isf(1e-6, 150)
    errors = (np.array(alone) - X.T @ X / 10) / mechanism.noise_std(10, 2)
    squares = (errors**2).sum(axis=0)
    assert ((squares > low) & (squares < high)).all()


def test_a_report_is_symmetric_and_clipped_by_its_user():
    mechanism = LocalMechanism(1.0, mu=1000.0)
    near, far = (
        mechanism.report(scale * np.array([0.6, 0.8]), 5, 0) for scale in (1, 1e6)
    )
    assert np.array_equal(near, near.T) and near.dtype == np.int64
    assert np.abs(near - far).max() <= 2 * mechanism.lattice(5, 2).radius


def test_a_local_promise_covers_any_two_users():
    mechanism = LocalMechanism(2.0, epsilon=1.0, delta=1e-5)
    # of one report: the curator's is that of the mean of a hundred
    std = np.sqrt(100) * mechanism.noise_std(100, 3)
    change = np.diag([4.0, -4.0, 0.0])  # users 2 e1 and 2 e2
    mu = mu_gdp(1.0, 1e-5)
    assert mu * 0.998 < np.linalg.norm(change / std) <= mu
    assert mechanism.guarantee(2, 3).epsilon(1e-5) <= 1 + 1e-9


def test_a_local_error_is_known_beforehand():
    "Sampling and n users' noise; about a point off the mean, the offset is there too."
    mechanism = LocalMechanism(8.0, center=1.0, mu=2.0)
    Sigma = np.array([[1.0, 0.3], [0.3, 2.0]])
    X = np.random.default_rng(6).multivariate_normal([2, 1], Sigma, 1000)
    planned = mechanism.sampling_error(Sigma, 1000, location=[2, 1])
    release = mechanism.publish(X, random_state=1)
    assert np.array_equal(planned.noise, release.sampling_error().noise)
    error = (release.matrix - Sigma - np.outer([1, 0], [1, 0])) / np.sqrt(
        planned.covariance_variance()
    )
    assert np.abs(error).max() < 5
    assert mechanism.sampling_error(Sigma, 1000).noise == pytest.approx(
        mechanism.noise_std(1000, 2) ** 2
    )


def test_a_report_is_about_one_user_and_finite():
    masked = np.ma.masked_equal([1.0, -999], -999)
    for row in [np.ones((2, 3)), [1.0, np.nan], masked]:
        with pytest.raises(InputError, match="row="):
            LocalMechanism(1.0, mu=1.0).report(row, 5)


def test_a_norm_bound_is_never_read_from_the_data():
    with pytest.raises(InputError, match="norm_bound="):
        LocalMechanism(mu=1.0)
