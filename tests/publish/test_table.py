"""The release: promises, bad input, and what the exact noise must satisfy."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.publish.covariance import CovarianceMechanism
from privglasso.privacy.discrete_gaussian import pmf
from privglasso.privacy.sampler import sample
from privglasso.privacy.gdp import delta_gdp, mu_gdp
from privglasso.privacy.guarantee import Guarantee, NoGuarantee
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.base.validation import InputError

TABLE = pd.DataFrame({"a": [0.5, 1.5, 2.0, 0.1], "b": [3.0, 4.0, 5.0, 6.0]})
BOUNDS = ([0, 0], [2, 10])


# ---------------------------------------------------------------------- promises


@given(
    p=st.integers(1, 12),
    mu=st.floats(1e-3, 1e4),
    seed=st.integers(0, 2**32 - 1),
    neighbors=st.sampled_from(["cell", "record"]),
)
@settings(deadline=None, max_examples=150)
def test_a_target_is_met_from_below_and_not_wasted(p, mu, seed, neighbors):
    generator = np.random.default_rng(seed)
    low = generator.normal(size=p) * 10.0 ** generator.uniform(-6, 6, p)
    high = low + np.maximum(np.abs(low), 1e-9) * 10.0 ** generator.uniform(-3, 3, p)
    lattice = GaussianMechanism((low, high), neighbors=neighbors, mu=mu).lattice(p)
    achieved = lattice.guarantee(neighbors).mu
    assert mu * (1 - 1e-9) < achieved <= mu
    assert (lattice.low * lattice.step >= low).all() and (
        lattice.high * lattice.step <= high
    ).all()
    assert (lattice.sigma >= 64).all() and (lattice.high - lattice.low >= 62).all()
    assert (np.log2(lattice.step) % 1 == 0).all()


@given(shift=st.integers(1, 500), mu=st.floats(1e-3, 50))
@settings(deadline=None, max_examples=150)
def test_an_integer_target_is_met_from_below(shift, mu):
    for neighbors in ("cell", "record"):
        mechanism = DiscreteGaussianMechanism((0, shift), neighbors=neighbors, mu=mu)
        assert mechanism.guarantee(10, 3).mu <= mu


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-12])
def test_epsilon_delta_targets_hold(epsilon, delta):
    for kind in (GaussianMechanism, DiscreteGaussianMechanism):
        for neighbors in ("cell", "record"):
            guarantee = kind(
                (0, 40), neighbors=neighbors, epsilon=epsilon, delta=delta
            ).guarantee(100, 5)
            assert guarantee.epsilon(delta) <= epsilon * (1 + 1e-9)
            assert guarantee.delta(epsilon) <= delta * (1 + 1e-7)


def test_a_cell_and_a_record():
    # Δ = 8, σ = .1: μ = 80 for a cell, 80 √50 for a record of 50 columns, up to the lattice's two parts in 1e5
    cell = GaussianMechanism((-4, 4), neighbors="cell", sigma=0.1).guarantee(5000, 50)
    record = GaussianMechanism((-4, 4), neighbors="record", sigma=0.1).guarantee(
        5000, 50
    )
    assert cell.mu == pytest.approx(80, rel=2e-3) and cell.epsilon(
        1e-5
    ) == pytest.approx(3540, rel=3e-3)
    assert record.mu == pytest.approx(565.7, rel=2e-3) and record.epsilon(
        1e-5
    ) == pytest.approx(162412, rel=4e-3)


def test_units_do_not_matter():
    scale = 2.0**7
    one = GaussianMechanism((0, 3), epsilon=1, delta=1e-6)
    two = GaussianMechanism((0, 3 * scale), epsilon=1, delta=1e-6)
    assert two.noise_std(1, 4) == pytest.approx(one.noise_std(1, 4) * scale)


def test_an_integer_column_is_accounted_exactly_by_direct_summation():
    # total variation beyond e^ε between the two worst tables, summed over all outcomes
    support = np.arange(-200, 201)
    for sigma, shift, epsilon in ((0.7, 1, 0.5), (1.0, 4, 2.0), (3.0, 5, 1.0)):
        guarantee = DiscreteGaussianMechanism(
            (0, shift), neighbors="cell", sigma=sigma
        ).guarantee(10, 2)
        direct = np.maximum(
            pmf(support, sigma) - math.exp(epsilon) * pmf(support - shift, sigma), 0
        ).sum()
        assert guarantee.delta(epsilon) == pytest.approx(direct, rel=1e-9)
        assert direct <= delta_gdp(
            epsilon, guarantee.mu
        )  # the bound on μ is the looser one


@pytest.mark.parametrize("mu", [-1, math.nan, math.inf, 1e101, "1", None, True])
def test_a_guarantee_of_no_number_is_refused(mu):
    with pytest.raises(InputError, match="mu="):
        Guarantee(mu, "cell")


def test_a_promise_of_nothing_and_the_smallest_are_printed():
    assert "μ = 0" in str(Guarantee(0.0, "cell")) and "μ = 4.941e-324" in str(
        Guarantee(5e-324, "cell")
    )
    assert (
        Guarantee(1.0, "cell").delta(100.0) > 0 == Guarantee(0.0, "cell").delta(100.0)
    )


@pytest.mark.parametrize("neighbors", ["row", "zero-out", None, ["record"]])
def test_a_relation_nobody_knows_is_refused(neighbors):
    with pytest.raises(InputError, match="neighbors=.*give one of"):
        Guarantee(1.0, neighbors)


def test_guarantees_compose_only_for_one_relation():
    first, second = Guarantee(3.0, "record"), Guarantee(4.0, "record")
    assert first.compose(second) == Guarantee(5.0, "record")
    with pytest.raises(InputError, match="other"):
        first.compose(Guarantee(1.0, "cell"))


def test_no_guarantee_promises_nothing():
    nothing = NoGuarantee("σ was read from the data", Guarantee(1.0, "cell"))
    assert (
        nothing.epsilon(1e-9) == math.inf
        and nothing.delta(50) == 1
        and nothing.tradeoff(0.1) == 0
    )
    assert "NO guarantee" in str(nothing) and nothing.mu == math.inf
    assert nothing.compose(Guarantee(1.0, "cell")) is nothing


def test_no_promise_is_rounded_to_certainty_or_to_nothing():
    assert "100 %" in str(Guarantee(50.0, "cell")) and "5.1 %" in str(
        Guarantee(1e-3, "cell")
    )
    assert mu_gdp(1, 1e-5) > 0


# ---------------------------------------------------------------------- what is published


def test_cells_are_clipped_to_the_bounds_before_noise():
    table = np.array([[-1e9, 1e9], [1e300, -1e300], [0.5, 0.5]])
    inside = np.clip(table, 0, 1)
    mechanism = GaussianMechanism((0, 1), sigma=0.25)
    released, twin = (
        mechanism.publish(X, random_state=5).table.to_numpy() for X in (table, inside)
    )
    assert np.array_equal(released, twin)


def test_the_noise_is_that_of_the_sampler():
    lattice = GaussianMechanism((-1, 1), sigma=0.5).lattice(1)
    zeros = (
        GaussianMechanism((-1, 1), sigma=0.5)
        .publish(np.zeros((1000, 1)), random_state=8)
        .table.to_numpy()[:, 0]
    )
    assert np.array_equal(
        zeros / lattice.step[0], sample(1000, lattice.sigma[0], random_state=8)
    )


def test_row_labels_and_attributes_stay_at_home():
    named = TABLE.set_index(pd.Index(["Ann", "Bob", "Cid", "Dot"], name="person"))
    named.attrs["owner"] = "Eve"
    released = GaussianMechanism(BOUNDS, mu=1.0).publish(named)
    assert (
        list(released.table.index) == [0, 1, 2, 3] and released.table.index.name is None
    )
    assert released.table.attrs == {}


def test_the_source_of_bits_is_said():
    mechanism = GaussianMechanism(BOUNDS, mu=1.0)
    assert mechanism.publish(TABLE).secure
    seeded = mechanism.publish(TABLE, random_state=1)
    assert not seeded.secure and "not for publication" in str(seeded)
    assert seeded.table.equals(mechanism.publish(TABLE, random_state=1).table)
    assert not seeded.table.equals(mechanism.publish(TABLE, random_state=2).table)
    assert not mechanism.publish(TABLE).table.equals(mechanism.publish(TABLE).table)


def test_a_generator_moves_on():
    generator = np.random.default_rng(3)
    mechanism = GaussianMechanism(BOUNDS, mu=1.0)
    assert not mechanism.publish(TABLE, generator).table.equals(
        mechanism.publish(TABLE, generator).table
    )


def test_integers_in_integers_out():
    ratings = pd.DataFrame({"film": [1, 5, 3], "book": [2.0, 2.0, 4.0]})
    released = DiscreteGaussianMechanism((1, 5), sigma=0.8).publish(
        ratings, random_state=0
    )
    assert (released.table.dtypes == np.int64).all() and (
        released.lattice.step == 1
    ).all()


def test_nothing_below_the_lattice():
    generator = np.random.default_rng(0)
    released = GaussianMechanism((-5, 5), sigma=[0.1, 1.0, 77.0]).publish(
        generator.normal(size=(3000, 3))
    )
    counts = released.table.to_numpy() / released.lattice.step
    assert (counts == np.rint(counts)).all()


def test_narrow_data_survive_wide_noise():
    # A lattice of σ/64 would be coarser than the range of these data and round them all to one point.
    generator = np.random.default_rng(1)
    data = generator.multivariate_normal(
        [0.503, 0.2], 0.03**2 * np.array([[1, 0.8], [0.8, 1]]), size=20_000
    )
    lattice = GaussianMechanism((0, 1), sigma=50.0).lattice(2)
    rounded = np.rint(data / lattice.step) * lattice.step
    assert np.abs(rounded.mean(axis=0) - data.mean(axis=0)).max() < 1e-3
    assert np.corrcoef(rounded.T)[0, 1] == pytest.approx(
        np.corrcoef(data.T)[0, 1], abs=0.03
    )


# ---------------------------------------------------------------------- what is planned, and how noise is shared


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
    assert mechanism.noise_std(10, p) ** 2 == pytest.approx(
        variance, rel=0.08
    )  # bounds move inward by a step


def test_weights_of_the_ledgers_example():
    width = np.array([1.0, 2, 4, 8, 16, 32])
    optimal = (
        GaussianMechanism((-width / 2, width / 2), mu=1.0, weights=1.0).noise_std(1, 6)
        ** 2
    )
    isotropic = (width**2).sum()
    assert (
        optimal.sum() == pytest.approx(width.sum() ** 2, rel=0.05)
        and optimal.sum() < 6 * isotropic
    )


@pytest.mark.parametrize("weights", [0, -1, np.nan, [1, 0], "a", [1, None]])
def test_bad_weights(weights):
    with pytest.raises(InputError, match="weights"):
        GaussianMechanism((0, 1), mu=1.0, weights=weights)


@pytest.mark.parametrize("other", [{"neighbors": "cell", "mu": 1.0}, {"sigma": 1.0}])
def test_weights_where_there_is_nothing_to_weigh(other):
    with pytest.raises(InputError, match="weights.*only with"):
        GaussianMechanism((0, 1), weights=2.0, **other)
    with pytest.raises(InputError, match="weights"):
        GaussianMechanism((0, 1), mu=1.0, weights=[1.0, 2.0, 3.0]).guarantee(5, 2)


def test_weights_reach_integer_noise_too():
    mechanism = DiscreteGaussianMechanism(([0, 0], [1, 100]), mu=1.0, weights=1.0)
    assert 0.999 < mechanism.guarantee(5, 2).mu <= 1
    assert mechanism.noise_std(5, 2)[1] / mechanism.noise_std(5, 2)[0] == pytest.approx(
        10, rel=0.02
    )


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
    # 400 squared errors: their mean has standard deviation sqrt(2/400), and 5.5 of them are never exceeded
    assert np.mean(np.square(errors), axis=0) == pytest.approx(
        planned, rel=5.5 * np.sqrt(2 / 400)
    )
    assert np.mean(stated, axis=0) == pytest.approx(planned, rel=0.05)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "bounds",
    [
        None,
        3,
        (1,),
        (1, 1),
        (2, 1),
        (0, np.nan),
        (0, np.inf),
        ("low", "high"),
        (None, 1),
        ([0, 0], [1, 0]),
        ([0, 0], [1, 1, 1]),
        {"low": 0, "high": 1},
        "ab",
    ],
)
def test_bad_bounds(bounds):
    for kind in (GaussianMechanism, DiscreteGaussianMechanism):
        with pytest.raises(InputError, match="bounds"):
            kind(bounds, mu=1.0)


@pytest.mark.parametrize(
    "budget, complaint",
    [
        ({}, "exactly one"),
        ({"mu": 1, "epsilon": 1, "delta": 0.1}, "exactly one"),
        ({"mu": 1, "sigma": 1}, "exactly one"),
        ({"epsilon": 1}, "exactly one"),
        ({"delta": 0.1}, "exactly one"),
        ({"mu": 1, "delta": 0.1}, "exactly one"),
        ({"mu": 0}, "mu="),
        ({"mu": -1}, "mu="),
        ({"mu": math.inf}, "mu="),
        ({"mu": "1"}, "mu="),
        ({"epsilon": 0, "delta": 0.1}, "epsilon="),
        ({"epsilon": 1, "delta": 0}, "delta="),
        ({"epsilon": 1, "delta": 1}, "delta="),
        ({"epsilon": 1, "delta": -0.1}, "delta="),
        ({"mu": 1e101}, "mu="),
        ({"sigma": 0}, "sigma="),
        ({"sigma": [1, -1]}, "sigma="),
        ({"sigma": math.nan}, "sigma="),
    ],
)
def test_bad_budgets(budget, complaint):
    with pytest.raises(InputError, match=complaint):
        GaussianMechanism((0, 1), **budget)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "bounds",
    [
        (-1e308, 1e308),
        (0, 1e101),
        (0, 1e-101),
        (0, 5e-324),
        {0, 1},
        iter(()),
        {0: 0, 1: 1},
    ],
)
def test_bounds_that_no_float_can_square_or_that_are_no_pair(bounds):
    with pytest.raises(InputError, match="bounds"):
        GaussianMechanism(bounds, mu=1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mu", [1e-12, 1e-40, 1e-100])
def test_a_target_too_small_for_any_lattice_is_named(mu):
    for kind in (GaussianMechanism, DiscreteGaussianMechanism):
        with pytest.raises(InputError, match="mu=.*no lattice holds"):
            kind((0, 100), mu=mu).guarantee(10, 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mu", [5e-324, 1e-300, 9e-101, 1.1e100, 1e300])
def test_a_target_beyond_arithmetic_is_named(mu):
    for kind in (GaussianMechanism, DiscreteGaussianMechanism, CovarianceMechanism):
        with pytest.raises(InputError, match="mu=.*from 1e-100 to 1e100"):
            kind((0, 100), mu=mu)


def test_bad_neighbors():
    with pytest.raises(InputError, match="neighbors"):
        GaussianMechanism((0, 1), neighbors="row", mu=1)


@pytest.mark.parametrize(
    "X, complaint",
    [
        ([[1.0, np.nan], [0, 0]], "NaN or infinity"),
        ([[1.0, np.inf], [0, 0]], "NaN or infinity"),
        (pd.DataFrame({"a": ["u", "v"], "b": [1, 2]}), "not numeric"),
        ([[1.0, 2.0]], "at least 2 rows"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "distinct"),
        ([1.0, 2.0], "rows and columns"),
        (np.ones((3, 3)), "bounds"),
        ([[1j, 0], [0, 0]], "not numeric"),
    ],
)
def test_bad_tables(X, complaint):
    with pytest.raises(InputError, match=complaint):
        GaussianMechanism(BOUNDS, mu=1.0).publish(X)


def test_a_constant_column_is_published_like_any_other():
    # refusing it would tell a value-dependent secret
    GaussianMechanism(BOUNDS, mu=1.0).publish(np.ones((5, 2)))


def test_one_sigma_a_column_or_one_for_all():
    with pytest.raises(InputError, match="sigma"):
        GaussianMechanism((0, 1), sigma=[1, 2, 3]).publish(np.ones((5, 2)))


def test_fractions_are_refused_by_the_integer_mechanism():
    with pytest.raises(InputError, match="'b'.*not whole numbers"):
        DiscreteGaussianMechanism((0, 10), mu=1.0).publish(
            pd.DataFrame({"a": [1, 2], "b": [0.5, 1]})
        )
    with pytest.raises(InputError, match="two whole numbers"):
        DiscreteGaussianMechanism((0.2, 0.8), mu=1.0).guarantee(5, 2)


def test_sigma_finer_than_the_lattice_allows_names_one_that_works():
    with pytest.raises(InputError, match="sigma=") as caught:
        GaussianMechanism((0, 1e6), sigma=1e-9).guarantee(5, 2)
    works = float(str(caught.value).split("sigma >= ")[1].split(" ")[0])
    assert GaussianMechanism((0, 1e6), sigma=works * 1.001).guarantee(5, 2).mu > 0
    with pytest.raises(InputError, match="sigma="):
        DiscreteGaussianMechanism((0, 1), sigma=1e15).guarantee(5, 2)
