"""Noisy tables: what the exact noise must satisfy, how it is shared, and bad input."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from privglasso.base.validation import InputError
from privglasso.privacy.discrete_gaussian import pmf
from privglasso.privacy.gdp import delta_gdp
from privglasso.privacy.sampler import sample
from privglasso.publish.files import read_release
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism

# ---------------------------------------------------------------------- promises


def test_units_do_not_matter():
    scale = 2.0**7
    one = GaussianMechanism((0, 3), epsilon=1, delta=1e-6)
    two = GaussianMechanism((0, 3 * scale), epsilon=1, delta=1e-6)
    assert two.noise_std(1, 4) == pytest.approx(one.noise_std(1, 4) * scale)


def test_an_integer_column_is_accounted_exactly_by_direct_summation():
    "Total variation beyond e^ε between the two worst tables, over all outcomes."
    support = np.arange(-200, 201)
    for sigma, shift, epsilon in ((0.7, 1, 0.5), (1.0, 4, 2.0), (3.0, 5, 1.0)):
        guarantee = DiscreteGaussianMechanism(
            (0, shift), neighbors="cell", sigma=sigma
        ).guarantee(10, 2)
        direct = np.maximum(
            pmf(support, sigma) - math.exp(epsilon) * pmf(support - shift, sigma), 0
        ).sum()
        assert guarantee.delta(epsilon) == pytest.approx(direct, rel=1e-9)
        # the bound on μ is the looser one
        assert direct <= delta_gdp(epsilon, guarantee.mu)


def test_what_is_looked_at_is_the_change_over_the_noise_variance():
    "Most powerful of all tests, where columns have unlike noise (Neyman & Pearson)."
    mechanism = GaussianMechanism((-8, 8), neighbors="cell", sigma=[0.5, 4.0])
    X = np.zeros((3, 2))
    change = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    statistic = mechanism.likelihood_statistic(X, X + change)
    ratio = statistic.weights[0] / statistic.weights[1]
    assert ratio == pytest.approx((1 / 0.5**2) / (2 / 4.0**2), rel=1e-3)


def test_rows_in_a_secret_order_are_told_apart_by_their_ratio():
    "Of independent rows that are drawn from a table, where columns have unlike noise."
    sigma = np.array([0.5, 4.0])
    mechanism = GaussianMechanism((-8, 8), sigma=sigma)
    X = np.array([[0.0, 0.0], [1.0, -4.0], [-2.0, 3.0]])
    other = np.vstack([X[:2], [[2.0, 6.0]]])
    statistic = mechanism.likelihood_statistic(X, other)

    def log_density(rows, table):
        near = norm.logpdf(rows[:, None], table, sigma).sum(axis=2)
        return logsumexp(near, axis=1).sum()

    for seed in range(5):
        rows = mechanism.publish(X, random_state=seed).table.to_numpy()
        ratio = log_density(rows, other) - log_density(rows, X)
        assert statistic(rows) == pytest.approx(ratio, rel=1e-3, abs=1e-3)


# ---------------------------------------------------------------------- cells


def test_cells_are_clipped_to_the_bounds_before_noise():
    table = np.array([[-1e9, 1e9], [1e300, -1e300], [0.5, 0.5]])
    mechanism = GaussianMechanism((0, 1), sigma=0.25)
    released, twin = (
        mechanism.publish(X, random_state=5).table for X in (table, table.clip(0, 1))
    )
    assert released.equals(twin)


def test_the_noise_is_that_of_the_sampler():
    mechanism = GaussianMechanism((-1, 1), neighbors="cell", sigma=0.5)
    lattice = mechanism.lattice(1)
    zeros = mechanism.publish(np.zeros((1000, 1)), random_state=8).table.to_numpy()
    assert np.array_equal(
        zeros[:, 0] / lattice.step[0], sample(1000, lattice.sigma[0], random_state=8)
    )


def test_nothing_below_the_lattice_and_integers_stay_integers():
    generator = np.random.default_rng(0)
    released = GaussianMechanism((-5, 5), sigma=[0.1, 1.0, 77.0]).publish(
        generator.normal(size=(3000, 3))
    )
    counts = released.table.to_numpy() / released.lattice.step
    assert (counts == np.rint(counts)).all()
    ratings = pd.DataFrame({"film": [1, 5, 3], "book": [2.0, 2.0, 4.0]})
    released = DiscreteGaussianMechanism((1, 5), sigma=0.8).publish(ratings)
    assert (released.table.dtypes == np.int64).all()
    assert (released.lattice.step == 1).all()


# ---------------------------------------------------------------------- order


def test_records_come_in_a_uniform_secret_order_and_cells_stay_in_place():
    """Noise of a thousandth shows where the rows went. A chi-squared number of 119
    degrees of freedom is above 210 with probability 6e-7."""
    X = np.arange(5.0)[:, None] * [1, 10]
    orders = {}
    for seed in range(2400):
        mechanism = GaussianMechanism((0, 40), sigma=1e-3)
        rows = np.rint(mechanism.publish(X, random_state=seed).table.to_numpy())
        assert (rows[:, 1] == 10 * rows[:, 0]).all()  # rows stay whole
        order = tuple(rows[:, 0])
        orders[order] = orders.get(order, 0) + 1
    counts = np.array(list(orders.values()))
    assert len(orders) == 120 and ((counts - 20) ** 2 / 20).sum() < 210
    placed = GaussianMechanism((0, 40), neighbors="cell", sigma=1e-3).publish(X)
    assert np.array_equal(np.rint(placed.table), X)


@pytest.mark.parametrize("kind", [GaussianMechanism, DiscreteGaussianMechanism])
def test_the_order_changes_no_number(kind):
    X = np.random.default_rng(0).integers(0, 9, (500, 3)).astype(float)
    record, cell = (
        kind((0, 8), neighbors=neighbors, sigma=2.0).publish(X, random_state=3).table
        for neighbors in ("record", "cell")
    )
    assert not record.equals(cell) and record.index.equals(cell.index)
    in_order = lambda table: table.sort_values(list(table)).to_numpy()
    assert np.array_equal(in_order(record), in_order(cell))


def test_a_release_and_its_file_say_in_what_order_rows_are(tmp_path):
    for neighbors, word in (("record", "secret order"), ("cell", "each in its place")):
        mechanism = GaussianMechanism((0, 1), neighbors=neighbors, mu=1.0)
        release = mechanism.publish(np.zeros((4, 2)))
        release.to_parquet(tmp_path / f"{neighbors}.parquet")
        back = read_release(tmp_path / f"{neighbors}.parquet")
        assert f"4 rows {word}" in str(back) or f"4 rows in a {word}" in str(back)


# ---------------------------------------------------------------------- shares


def test_the_default_weights_are_one_over_the_squared_range():
    low, high = np.array([0.0, -1.0, 5.0]), np.array([2.0, 7.0, 5.5])
    plain = GaussianMechanism((low, high), mu=0.5)
    weighted = GaussianMechanism((low, high), mu=0.5, weights=(high - low) ** -2.0)
    assert weighted.noise_std(10, 3) == pytest.approx(plain.noise_std(10, 3), rel=1e-9)


@given(p=st.integers(1, 8), mu=st.floats(1e-2, 1e2), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_weighted_noise_keeps_the_promise_and_the_formula(p, mu, seed):
    generator = np.random.default_rng(seed)
    width, weights = 10 ** generator.uniform(-2, 2, (2, p))
    mechanism = GaussianMechanism((np.zeros(p), width), mu=mu, weights=weights)
    assert mu * (1 - 1e-9) < mechanism.guarantee(10, p).mu <= mu * (1 + 1e-14)
    variance = width / np.sqrt(weights) * (width * np.sqrt(weights)).sum() / mu**2
    # bounds move inward by a step
    assert mechanism.noise_std(10, p) ** 2 == pytest.approx(variance, rel=0.08)


def test_weights_of_the_ledgers_example_and_of_integers():
    width = np.array([1.0, 2, 4, 8, 16, 32])
    mechanism = GaussianMechanism((-width / 2, width / 2), mu=1.0, weights=1.0)
    optimal = (mechanism.noise_std(1, 6) ** 2).sum()
    assert optimal == pytest.approx(width.sum() ** 2, rel=0.05)
    assert optimal < 6 * (width**2).sum()
    integers = DiscreteGaussianMechanism(([0, 0], [1, 100]), mu=1.0, weights=1.0)
    one, hundred = integers.noise_std(5, 2)
    assert 0.999 < integers.guarantee(5, 2).mu <= 1
    assert hundred / one == pytest.approx(10, rel=0.02)


def test_sampling_error_before_and_after():
    generator = np.random.default_rng(2)
    truth = np.array([[1.0, 0.4], [0.4, 2.0]])
    mechanism = GaussianMechanism((-8, 8), sigma=[0.5, 1.5])
    planned = mechanism.sampling_error(truth, 400).covariance_variance()
    A = truth + np.diag(mechanism.noise_std(400, 2) ** 2)
    assert planned == pytest.approx((np.outer(np.diag(A), np.diag(A)) + A**2) / 400)
    errors, stated = [], []
    for seed in range(400):
        release = mechanism.publish(
            generator.multivariate_normal([0, 0], truth, 400), random_state=seed
        )
        errors.append(release.corrected_covariance() - truth)
        stated.append(release.sampling_error().covariance_variance())
    # a mean of 400 squares has standard deviation sqrt(2/400): 5.5 are never exceeded
    assert np.mean(np.square(errors), axis=0) == pytest.approx(
        planned, rel=5.5 * np.sqrt(2 / 400)
    )
    assert np.mean(stated, axis=0) == pytest.approx(planned, rel=0.05)


# ---------------------------------------------------------------------- bad input


def test_bad_weights():
    for weights in [0, -1, np.nan, [1, 0], "a", [1, None]]:
        with pytest.raises(InputError, match="weights="):
            GaussianMechanism((0, 1), mu=1.0, weights=weights)


def test_weights_where_there_is_nothing_to_weigh():
    for other in ({"neighbors": "cell", "mu": 1.0}, {"sigma": 1.0}):
        with pytest.raises(InputError, match="weights="):
            GaussianMechanism((0, 1), weights=2.0, **other)


def test_settings_of_two_columns_for_a_table_of_three():
    for options, named in [
        ({"bounds": ([0, 0], [1, 1]), "mu": 1.0}, "bounds="),
        ({"bounds": (0, 1), "sigma": [1, 2]}, "sigma="),
        ({"bounds": (0, 1), "mu": 1.0, "weights": [1.0, 2.0]}, "weights="),
    ]:
        with pytest.raises(InputError, match=named):
            GaussianMechanism(**options).publish(np.ones((5, 3)))


# ---------------------------------------------------------------------- refusals


def test_nothing_is_refused_because_of_a_cells_value():
    "Fractions are rounded to the lattice and clipped, as everything else is."
    mechanism = DiscreteGaussianMechanism((0, 10), mu=1.0)
    table = np.array([[0.5, 1.5, 2.49], [9.9, 1e300, -1e300], [5e-324, -0.0, 1 / 3]])
    rounded = np.array([[0, 2, 2], [10, 10, 0], [0, 0, 0]])
    released, twin = (
        mechanism.publish(X, random_state=5).table for X in (table, rounded)
    )
    assert released.equals(twin) and (released.dtypes == np.int64).all()
