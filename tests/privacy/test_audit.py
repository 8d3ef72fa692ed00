"""The audit: how often it accuses wrongly, what it finds, what it refuses, and the
attack on floating-point noise.
"""

import math
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from privglasso.privacy.audit import AuditResult, audit, audit_draws, clopper_pearson
from privglasso.privacy.audit import direction_statistic, float_statistic
from privglasso.privacy.audit import likelihood_statistic, reachable
from privglasso.experiments.audit_table import OwnNoiseBelow, QuietBelow
from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.privacy.discrete_gaussian import pmf
from privglasso.privacy.gdp import epsilon_gdp
from privglasso.publish.local import LocalMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.base.validation import InputError

ZERO, ONE = np.zeros((2, 1)), np.array([[1.0], [0.0]])
CELL = GaussianMechanism((0, 1), neighbors="cell", mu=1.0)
BOX = CovarianceMechanism((0, 1), clipping="box", mu=1.0)


def gaussian(mean, k, rng):
    "k statistics of a mechanism that is exactly 1-GDP between means 0 and 1."
    return rng.normal(mean, 1, k)


def coin(p, k, rng):
    "k answers of randomised response."
    return (rng.random(k) < p).astype(float)


def first_cell(release):
    "The number in the first cell."
    return float(np.asarray(getattr(release, "table", release))[0, 0])


# -------------------------------------------------------------------------- confidence


def count_refuted(claimed, repeats, trials, confidence):
    "How many of so many audits of a 1-GDP mechanism refute the claim."
    audits = (
        audit_draws(
            partial(gaussian, 0.0),
            partial(gaussian, 1.0),
            claimed=claimed,
            trials=trials,
            confidence=confidence,
            random_state=seed,
        )
        for seed in range(repeats)
    )
    return sum(result.refuted for result in audits)


def test_a_true_claim_is_refuted_no_more_often_than_stated():
    """Error probability 0.3 stated: were it reached in each of 200 audits, more than 95
    refutations had probability below 1e-7. The audit stays far below; a claim that is a
    little too small is refuted in more than 95."""
    assert binom.sf(95, 200, 0.3) < 1e-7
    assert count_refuted(1.0, 200, 400, 0.7) <= 95
    assert count_refuted(0.5, 200, 400, 0.7) > 95


def test_a_true_claim_of_a_mechanism_of_ours_is_not_refuted():
    """A hundred audits at 90 %: more than 28 refutations would have probability below
    1e-6 at the stated rate."""
    assert binom.sf(28, 100, 0.1) < 1e-6
    refuted = sum(
        audit(
            CELL,
            ZERO,
            ONE,
            trials=600,
            confidence=0.9,
            random_state=seed,
            tiled=True,
        ).refuted
        for seed in range(100)
    )
    assert refuted <= 28


@given(trials=st.integers(1, 3000), data=st.data(), level=st.floats(1e-9, 0.4))
@settings(deadline=None, max_examples=100)
def test_limits_are_those_of_the_exact_binomial_test(trials, data, level):
    errors = data.draw(st.integers(0, trials))
    lower, upper = clopper_pearson(errors, trials, level)
    exact = binomtest(errors, trials).proportion_ci(1 - 2 * level, method="exact")
    assert lower == pytest.approx(exact.low, rel=1e-6, abs=1e-12)
    assert upper == pytest.approx(exact.high, rel=1e-6)


@given(
    trials=st.integers(1, 10**6),
    data=st.data(),
    confidence=st.floats(0.5, 0.99999),
    delta=st.floats(1e-12, 0.5),
)
@settings(deadline=None, max_examples=100)
def test_a_result_is_consistent_with_itself(trials, data, confidence, delta):
    alarms, misses = (data.draw(st.integers(0, trials)) for _ in range(2))
    result = AuditResult(alarms, misses, trials, confidence)
    assert 0 <= result.type_one[0] <= alarms / trials <= result.type_one[1] <= 1
    assert 0 <= result.type_two[0] <= misses / trials <= result.type_two[1] <= 1
    # a mechanism with exactly this μ allows this test, so the test shows no more ε than
    # that mechanism has
    assert result.epsilon_lower(delta) <= epsilon_gdp(delta, result.mu_lower) + 1e-7
    if misses < trials:
        assert (
            AuditResult(alarms, misses + 1, trials, confidence).mu_lower
            <= result.mu_lower
        )


def test_bounds_on_epsilon_are_those_of_randomised_response():
    """An answer that is true with probability e/(1 + e) has ε = 1 at δ = 0, and 0.5 at
    the δ where the curve says so."""
    p = math.e / (1 + math.e)
    result = audit_draws(partial(coin, 1 - p), partial(coin, p), random_state=0)
    delta = p - math.exp(0.5) * (1 - p)
    assert 0.95 < result.epsilon_lower(1e-12) < 1
    assert 0.4 < result.epsilon_lower(delta) < 0.5
    assert result.epsilon_lower(0.9) == 0


def test_extreme_counts_give_finite_bounds():
    for alarms, misses in [(0, 0), (0, 1000), (1000, 0), (1000, 1000), (500, 500)]:
        result = AuditResult(alarms, misses, 1000, 0.999, claimed=1.0)
        assert 0 <= result.mu_lower < 10 and 0 <= result.epsilon_lower(1e-6) < 20
        assert result.refuted == (alarms == misses == 0)
        assert ("REFUTED" in str(result)) == result.refuted


def test_what_is_shown_of_a_bound_is_never_more_than_it():
    "In words and as a card, for every count: rounded downward, by less than .001."
    trials = 1000
    for alarms in range(0, 400, 7):
        result = AuditResult(alarms, 300, trials, 0.99, claimed=1.0)
        card = re.search(r"μ at least.*?([0-9.]+)<", result._repr_html_(), re.DOTALL)[1]
        for shown in (re.search(r"μ ≥ ([0-9.]+);", str(result))[1], card):
            assert float(shown) <= result.mu_lower < float(shown) + 0.001


def test_what_is_shown_of_errors_is_never_less_than_their_limit():
    "In words, for every count: per cent rounded upward, by less than .001."
    for errors in range(0, 1000, 7):
        result = AuditResult(errors, 999 - errors, 1000, 0.99)
        shown = re.findall(r"at most ([0-9.]+) %", str(result))
        limits = 100 * result.type_one[1], 100 * result.type_two[1]
        for text, limit in zip(shown, limits, strict=True):
            assert limit <= float(text) + 1e-9 and float(text) < limit + 0.001 + 1e-9


# ----------------------------------------------------------------------- repeatability


@pytest.mark.long
def test_the_answer_depends_on_the_seed_and_on_nothing_else():
    arguments = dict(trials=300, random_state=5)
    one = audit(CELL, ZERO, ONE, **arguments)
    assert one == audit(CELL, ZERO, ONE, workers=2, **arguments)
    assert one == audit(CELL, ZERO.tolist(), ONE.tolist(), **arguments)
    assert one != audit(CELL, ZERO, ONE, trials=300, random_state=6)
    assert one == audit(
        CELL, ZERO, ONE, trials=300, random_state=np.random.default_rng(5)
    )
    assert audit(CELL, ZERO, ONE, trials=300) != audit(CELL, ZERO, ONE, trials=300)


def test_the_tables_are_left_alone_and_may_be_of_any_kind():
    X = np.asfortranarray(np.zeros((3, 4)))[:, ::2]
    other = X.copy()
    other[1, 1] = 1
    other.flags.writeable = False
    frames = [pd.DataFrame(table, columns=["table", "matrix"]) for table in (X, other)]
    results = [
        audit(CELL, *tables, trials=400, random_state=0)
        for tables in ((X, other), frames)
    ]
    assert results[0] == results[1] and not X.any()
    slow = audit(
        CELL,
        *frames,
        lambda release: release.table["matrix"][1],
        trials=400,
        random_state=0,
    )
    assert slow.trials == 200


def test_many_copies_of_a_table_are_as_good_as_many_releases():
    """The distribution of the statistic from tall tables and from single ones, by an
    exact test of equal medians."""
    statistic = likelihood_statistic(CELL, ZERO, ONE)
    single = np.array([statistic(CELL.publish(ZERO, seed)) for seed in range(1000)])
    tall = statistic.of_tables(
        CELL.publish(np.tile(ZERO, (1000, 1)), 0).table.to_numpy().reshape(1000, 2, 1)
    )
    above = int((single > np.median(tall)).sum())
    assert (
        390 < above < 610
    )  # 7 standard deviations of a binomial; the median's own error adds as much again
    assert np.var(single) == pytest.approx(np.var(tall), rel=0.3)


# ----------------------------------------------------------------------- what it finds


class HalfNoise(GaussianMechanism):
    "Promises what it does not do."

    def publish(self, X, random_state=None):
        return GaussianMechanism(self.bounds, neighbors=self.neighbors, mu=2.0).publish(
            X, random_state
        )


class FixedSeed(GaussianMechanism):
    "The same noise in every release."

    def publish(self, X, random_state=None):
        return super().publish(X, 11)


class NoClip(GaussianMechanism):
    "Forgets the bounds."

    def publish(self, X, random_state=None):
        return GaussianMechanism((-100, 100), neighbors="cell", sigma=1.0).publish(
            X, random_state
        )


class OwnBounds(GaussianMechanism):
    "Takes the bounds from the data."

    def publish(self, X, random_state=None):
        return GaussianMechanism((X.min(), X.max()), neighbors="cell", mu=1.0).publish(
            X, random_state
        )


@pytest.mark.parametrize("kind", [HalfNoise, FixedSeed, NoClip, OwnBounds])
def test_a_broken_mechanism_is_found(kind):
    mechanism = kind((0, 1), neighbors="cell", mu=1.0)
    X = np.linspace(0, 1, 12)[:, None]
    other = X.copy()
    other[0] = 1.0 if kind in (HalfNoise, FixedSeed) else 5.0
    statistic = (
        (lambda release: float((release.table**2).sum().sum()))
        if kind is OwnBounds
        else first_cell
    )
    result = audit(mechanism, X, other, statistic, trials=400, random_state=0)
    assert result.refuted and result.claimed == pytest.approx(1, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "mechanism, low, high",
    [
        (GaussianMechanism((-2, 3), neighbors="cell", mu=0.5), -2.0, 3.0),
        (GaussianMechanism((-2, 3), mu=2.0), -2.0, 3.0),
        (DiscreteGaussianMechanism((0, 7), neighbors="cell", sigma=3.0), 0.0, 7.0),
        (DiscreteGaussianMechanism((0, 7), mu=0.8), 0.0, 7.0),
    ],
)
def test_our_promises_are_met_and_not_wasted(mechanism, low, high):
    """For records the noise is audited in its places, where the promise is proved: the
    secret order of the rows hides more than is promised."""
    X, claim = np.full((3, 2), low), mechanism.guarantee(3, 2).mu
    other = X.copy()
    other[2, : 1 if mechanism.neighbors == "cell" else 2] = high
    run, looked_at = {"trials": 100_000, "random_state": 1}, None
    if mechanism.neighbors == "record":
        whole = audit(mechanism, X, other, trials=4000, random_state=1)
        assert whole.claimed == claim and 0 < whole.mu_lower < claim
        with pytest.raises(InputError, match="tiled"):
            audit(mechanism, X, other, trials=4000, tiled=True)
        lattice = mechanism.lattice(2)
        sigma = lattice.sigma * lattice.step
        mechanism = type(mechanism)(mechanism.bounds, neighbors="cell", sigma=sigma)
        looked_at = mechanism.likelihood_statistic(X, other)
        draws = (
            partial(_in_place, mechanism, table, looked_at) for table in (X, other)
        )
        result = audit_draws(*draws, claimed=claim, **run)
    else:
        result = audit(mechanism, X, other, tiled=True, **run)
    assert result.claimed == claim and not result.refuted
    assert result.mu_lower > 0.95 * claim - 0.04


def _in_place(mechanism, X, statistic, trials, rng):
    "Statistics of many releases whose rows stay in place."
    cells = mechanism.publish(np.tile(X, (trials, 1)), rng).table.to_numpy()
    return statistic.of_tables(cells.reshape(trials, *X.shape))


def test_the_likelihood_statistic_is_the_log_ratio_up_to_a_constant():
    mechanism = DiscreteGaussianMechanism((0, 9), neighbors="cell", sigma=2.5)
    X, other = np.array([[1.0, 4.0], [3.0, 3.0]]), np.array([[7.0, 2.0], [3.0, 3.0]])
    statistic = likelihood_statistic(mechanism, X, other)
    releases = np.random.default_rng(0).integers(-5, 15, (50, 2, 2))
    ratio = np.log(
        pmf(releases - other.astype(int), 2.5) / pmf(releases - X.astype(int), 2.5)
    ).sum(axis=(1, 2))
    difference = ratio - np.array([statistic(release) for release in releases])
    assert np.ptp(difference) < 1e-9


@pytest.mark.parametrize(
    "arguments",
    [
        dict(norm_bound=2.0, mean_share=0),
        dict(norm_bound=2.0, noise="upper"),
        dict(bounds=(-1, 1)),
        dict(bounds=(-1, 1), mean_share=0, neighbors="cell"),
    ],
)
def test_the_likelihood_of_moments_is_the_log_ratio_up_to_a_constant(arguments):
    """Against the densities at integer releases; rounding rows to steps is all that the
    statistic leaves out."""
    mechanism = PapersCovarianceMechanism(mu=1.0, **arguments)
    X, other = np.zeros((3, 2)), np.zeros((3, 2))
    X[1], other[1] = (0.25, 0.5), (0.25, -5.0)
    statistic = likelihood_statistic(mechanism, X, other)
    lattice = mechanism.lattice(3, 2)
    sharp = PapersCovarianceMechanism(
        mu=1e4, **arguments
    )  # hardly any noise: its releases tell the exact moments
    exact = [
        _moments_of(sharp.publish(table, 0), sharp.lattice(3, 2))
        for table in (X, other)
    ]
    releases = [mechanism.publish(X, seed) for seed in range(40)]
    ratios = [
        log_ratio(_moments_of(release, lattice), exact, lattice) for release in releases
    ]
    difference = np.array(ratios) - [statistic(release) for release in releases]
    assert np.ptp(difference) < 0.02 * np.ptp(ratios)


def _moments_of(release, lattice):
    "Entries on and above the diagonal, and the mean, in units of the data."
    second = release.second_moment[np.triu_indices(2)] * lattice.unit[0] ** 2
    return second, (
        np.zeros(2) if release.total is None else release.total * lattice.unit[0]
    )


def log_ratio(moments, exact, lattice):
    "Logarithm of the ratio of Gaussian densities around both tables' moments."
    sigmas = (
        lattice.sigma[[1, 0, 1]] * lattice.unit[0] ** 2,
        lattice.sigma[2] * lattice.unit[0] or np.inf,
    )
    squares = [
        sum(
            (((value - mean) / sigma) ** 2).sum()
            for value, mean, sigma in zip(moments, means, sigmas, strict=True)
        )
        for means in exact
    ]
    return (squares[0] - squares[1]) / 2


LOCAL = LocalMechanism(norm_bound=1.0, mu=3.0)
USERS = np.zeros((5, 2))
USERS[3] = 1.0, 0.0
SWAPPED = USERS.copy()
SWAPPED[3] = 0.0, 1.0


@pytest.mark.long
def test_the_local_model_is_attacked_in_one_report():
    """The promise is about a report; the curator's sum of five has a noise that could
    show 3/√5 = 1.34 at most."""
    result = audit(LOCAL, USERS, SWAPPED, trials=3000, random_state=0)
    assert 2.3 < result.mu_lower < 3 and not result.refuted
    assert result.claimed == LOCAL.guarantee(5, 2).mu
    frames = [
        pd.DataFrame(table, columns=["report", "total"]) for table in (USERS, SWAPPED)
    ]
    assert result == audit(LOCAL, *frames, trials=3000, workers=2, random_state=0)
    total = audit(
        LOCAL,
        USERS,
        SWAPPED,
        likelihood_statistic(LOCAL, USERS, SWAPPED),
        trials=400,
        random_state=0,
    )
    assert total.mu_lower < 3 / math.sqrt(5)


def test_the_likelihood_of_a_report_is_the_log_ratio_up_to_a_constant():
    """Against the probabilities of the integers that a report may hold, in either
    user's name."""
    statistic, lattice = likelihood_statistic(LOCAL, USERS, SWAPPED), LOCAL.lattice(
        5, 2
    )
    above = np.triu_indices(2)
    sigma = lattice.sigma[[1, 0, 1]]
    exact = [_exact_moments(table[3], lattice)[above] for table in (USERS, SWAPPED)]
    reports = [LOCAL.report(USERS[3], 5, seed) for seed in range(40)]
    squares = np.array(
        [
            [(((report[above] - mean) / sigma) ** 2).sum() / 2 for mean in exact]
            for report in reports
        ]
    )
    ratios = squares[:, 0] - squares[:, 1]
    assert np.ptp(ratios - [statistic(report) for report in reports]) < 1e-4 * np.ptp(
        ratios
    )


def _exact_moments(row, lattice):
    "A user's outer product in lattice steps."
    steps = np.rint(row / lattice.unit)
    return np.outer(steps, steps)


class HalfReport(LocalMechanism):
    "Users send half the noise that they promise."

    def report(self, row, n, random_state=None):
        return LocalMechanism(norm_bound=self.norm_bound, mu=6.0).report(
            row, n, random_state
        )


def test_a_report_with_half_the_noise_is_found():
    assert audit(
        HalfReport(norm_bound=1.0, mu=3.0), USERS, SWAPPED, trials=1000, random_state=0
    ).refuted


def test_a_change_that_clipping_removes_is_refused():
    with pytest.raises(InputError, match="same as X once"):
        audit(PapersCovarianceMechanism(1.0, mu=1.0), 2 * ONE, 3 * ONE, trials=10)


def test_a_covariance_with_half_the_noise_is_found():
    X = np.zeros((4, 2))
    other = X.copy()
    other[0] = 1.0
    half = CovarianceMechanism((-1, 1), mu=2.0, mean_share=0, clipping="box")
    assert audit(half, X, other, claimed=1.0, trials=1000, random_state=0).refuted


class FirstRowRaw(GaussianMechanism):
    "The first row of whatever it gets goes out as it is."

    independent_cells = True

    def publish(self, X, random_state=None):
        release = super().publish(X, random_state)
        release.table.iloc[0] = np.asarray(X)[0]
        return release


def test_a_first_row_without_noise_is_found_release_by_release():
    mechanism = FirstRowRaw((0, 1), neighbors="cell", mu=1.0)
    run = dict(trials=1000, random_state=0)
    assert audit(mechanism, ZERO, ONE, **run).refuted
    assert not audit(mechanism, ZERO, ONE, tiled=True, **run).refuted
    inherits = type("Inherits", (FirstRowRaw,), {})((0, 1), neighbors="cell", mu=1.0)
    for refused in (
        lambda: audit(inherits, ZERO, ONE, tiled=True, **run),
        lambda: audit(CELL, ZERO, ONE, first_cell, tiled=True, **run),
    ):
        with pytest.raises(InputError, match="tiled"):
            refused()


@pytest.mark.long
def test_the_other_triangle_is_looked_at():
    X, other = np.zeros((4, 2)), np.zeros((4, 2))
    X[0], other[0] = (1.0, 1.0), (1.0, -1.0)
    for kind, trials in ((QuietBelow, 400), (OwnNoiseBelow, 2000)):
        options = dict(clipping="box", neighbors="cell", mean_share=0)
        mechanism = kind((-1, 1), mu=3.0, **options)
        result = audit(mechanism, X, other, trials=trials, random_state=0)
        assert result.refuted and result.looked_at in (1, 2, 3)


class LeakingBit(DiscreteGaussianMechanism):
    "The lowest bit of each count is the table's own."

    def publish(self, X, random_state=None):
        release = super().publish(X, random_state)
        odd = (release.table + np.asarray(X)) % 2
        release.table[:] = release.table + odd.astype(int)
        return release


@pytest.mark.parametrize("where", [0, 1])
def test_the_lowest_bits_are_looked_at(where):
    X, other = np.zeros((2, 2)), np.zeros((2, 2))
    other[where] = 1, 3
    mechanism = LeakingBit((0, 3), mu=0.5)
    result = audit(mechanism, X, other, trials=300, random_state=0)
    assert result.refuted and result.looked_at > 0


def test_an_audit_in_which_nothing_that_is_released_differs_is_refused():
    one, minus = np.ones((2, 1)), np.array([[1.0], [-1.0]])
    box = dict(bounds=(-1, 1), clipping="box", mu=1.0, mean_share=0)
    for refused in (
        lambda: audit(CovarianceMechanism(**box), one, minus),
        lambda: audit(LocalMechanism(1.0, mu=1.0), one, minus),
        lambda: audit(SyntheticDataMechanism(**box), one, minus),
        lambda: audit(lambda X, rng: X, one, one.tolist(), first_cell, trials=10),
    ):
        with pytest.raises(InputError) as caught:
            refused()
        assert caught.value.argument == "X_neighbor"


def test_synthetic_rows_are_attacked_by_the_covariance_they_carry():
    X = np.zeros((4, 2))
    other = X.copy()
    other[0] = 1.0
    kinds = SyntheticDataMechanism, CovarianceMechanism
    box = dict(bounds=(-1, 1), clipping="box", mu=3.0, mean_share=0)
    results = [
        audit(kind(**box), X, other, trials=300, random_state=4) for kind in kinds
    ]
    assert (
        results[0] == results[1] and not results[0].refuted and results[0].mu_lower > 1
    )


def test_the_direction_is_that_in_which_two_columns_agree():
    X = np.where(np.random.default_rng(0).random((40, 3)) < 0.5, -1.0, 1.0)
    X[:, 2] = X[:, 1]
    other = X.copy()
    other[0, 2] *= -1
    weights = direction_statistic(X, other, 0.01).weights
    v = np.array([0.0, 1.0, -1.0])
    along = v @ weights @ v / (2 * np.trace(weights))
    assert along > 0.999


def test_neighbours_may_be_sorted_unless_the_release_has_places():
    """A replaced record, and all rows in another order: a promise about sums, or about
    rows in a secret order, is about this pair, too, and is not refuted. What shows
    cells or people in their places does not hide an order, and of two replaced records
    none of this makes one."""
    X = np.repeat([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], 4, axis=0)
    other = X.copy()
    other[0] = -1.0, 1.0
    moved, two = other[::-1].copy(), other[::-1].copy()
    two[3] = -1.0, 1.0
    covariance = CovarianceMechanism((-1, 1), mu=1.0, mean_share=0, clipping="box")
    run = {"trials": 400, "random_state": 0}
    assert audit(covariance, X, moved, **run) == audit(covariance, X, other, **run)
    flipped = X.copy()
    flipped[0, 0] = -1.0
    cells = CovarianceMechanism(
        (-1, 1), clipping="box", neighbors="cell", mu=1.0, mean_share=0
    )
    assert audit(cells, X, flipped[::-1].copy(), **run).mu_lower > 0
    rows = GaussianMechanism((-1, 1), mu=1.0)
    assert not audit(rows, X, moved, **run).refuted
    for mechanism, pair in (
        (covariance, two),
        (cells, two),
        (GaussianMechanism((-1, 1), neighbors="cell", mu=1.0), moved),
        (LocalMechanism(1.5, mu=1.0), moved),
    ):
        with pytest.raises(InputError, match="must differ from X in exactly one"):
            audit(mechanism, X, pair, **run)


# --------------------------------------------------------------------------- bad input


def test_bad_input_is_named():
    for call, message in [
        (lambda: audit(CELL, ZERO, ZERO), "0 cells differ"),
        (lambda: audit(CELL, ZERO, ZERO + 1), "2 cells differ"),
        (
            lambda: audit(GaussianMechanism((0, 1), mu=1.0), ZERO, ZERO + 1),
            "2 records differ",
        ),
        (lambda: audit(CELL, ZERO, np.zeros((3, 1))), "must have the shape"),
        (lambda: audit(CELL, ONE, 7 * ONE), "same as X once"),
        (lambda: audit(CELL, ZERO, ONE * np.nan), "NaN"),
        (lambda: audit(3, ZERO, ONE), "publish"),
        (lambda: audit(lambda X, rng: X, ZERO, ONE), "statistic=None"),
        (
            lambda: audit(
                lambda X, rng: X, ZERO, ONE, lambda release: math.nan, trials=20
            ),
            "one finite number",
        ),
        (lambda: audit(CELL, ZERO, ONE, trials=1), "trials=1"),
        (lambda: audit(CELL, ZERO, ONE, confidence=1.0), "confidence"),
        (lambda: audit(CELL, ZERO, ONE, workers=0), "workers"),
        (lambda: audit(CELL, ZERO, ONE, claimed=-0.1, trials=20), "claimed=-0.1"),
        (lambda: audit(CELL, ZERO, ONE, claimed=math.nan, trials=20), "claimed=nan"),
        (lambda: AuditResult(0, 0, 10, 0.9).refutes(-1), "mu=-1"),
        (lambda: AuditResult(0, 11, 10, 0.9).mu_lower, "errors=11"),
        (lambda: audit(CELL, ZERO, ONE, random_state="x"), "random_state"),
        (
            lambda: audit_draws(lambda k, rng: rng.normal(size=k + 1), coin),
            "one finite number",
        ),
        (lambda: audit_draws(coin, coin, batch=0), "batch"),
        (lambda: AuditResult(0, 0, 10, 0.9).refutes("1"), "mu="),
        (lambda: AuditResult(0, 0, 10, 0.9).epsilon_lower(0), "delta"),
        (lambda: clopper_pearson(-1, 10, 0.1), "errors"),
        (lambda: clopper_pearson(1, 0, 0.1), "trials"),
        (lambda: clopper_pearson(1, 10, 0), "level"),
        (lambda: direction_statistic(ZERO, ONE, 0.0), "noise_variance"),
        (
            lambda: direction_statistic(ZERO, np.zeros((3, 1)), 1.0),
            "must have the shape",
        ),
        (lambda: direction_statistic(ZERO, ONE, [1.0, 2.0]), "noise_variance"),
        (lambda: direction_statistic(ZERO, ONE, "loud"), "noise_variance"),
        (
            lambda: likelihood_statistic(CELL, ZERO, np.zeros((3, 1))),
            "must have the shape",
        ),
        (
            lambda: likelihood_statistic(BOX, ZERO, np.zeros((3, 1))),
            "must have the shape",
        ),
        (
            lambda: likelihood_statistic(BOX, ZERO, ONE * np.nan),
            "NaN",
        ),
        (lambda: float_statistic(ZERO, np.zeros((3, 1))), "must have the shape"),
        (lambda: float_statistic(ZERO, ONE, 0.0), "sigma"),
        (lambda: reachable(1.0, 0.0, -1.0), "sigma"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


# ---------------------------------------------------------------------- floating point

HALF = np.arange(65536, dtype=np.uint16).view(np.float16)
HALF = HALF[np.isfinite(HALF)]


@given(x=st.integers(-3000, 3000), sigma=st.integers(200, 4000))
@settings(deadline=None, max_examples=30)
def test_reachable_is_right_for_every_16_bit_float(x, sigma):
    x, sigma = np.float16(x / 300), np.float16(sigma / 500)
    assume(sigma > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        y = HALF[np.abs(HALF) < 300]
        assert np.array_equal(reachable(y, x, sigma), np.isin(y, x + sigma * HALF))


def accuracy(publish, p, sigma, seeds):
    "Share of right guesses on a record of zeros or ones."
    tables = np.zeros((2, p)), np.vstack([np.ones(p), np.zeros(p)])
    statistic = float_statistic(*tables, sigma)
    return np.mean(
        [
            (statistic(publish(table, seed, k)) >= 0) == bool(k)
            for seed in range(seeds)
            for k, table in enumerate(tables)
        ]
    )


@pytest.mark.parametrize("sigma", [24.0, 16.0, 20.0, 25.5])
def test_naive_noise_identifies_a_record(sigma):
    """Powers of two leak by the addition alone. Best guessing from μ = √128/σ alone
    would be right in 64 % at most."""

    def generator(X, seed, k):
        return X + np.random.default_rng([seed, k]).normal(0, sigma, X.shape)

    def legacy(X, seed, k):
        return X + np.random.RandomState([seed, k]).normal(0, sigma, X.shape)

    assert accuracy(generator, 128, sigma, 150) > 0.97
    assert accuracy(legacy, 128, sigma, 150) > 0.97


def test_exact_noise_leaks_when_it_is_added_in_floating_point():
    "Noise with random low bits of its own: only the addition is left to attack."

    def publish(X, seed, k):
        rng = np.random.default_rng([seed, k])
        noise = rng.normal(0, 16, X.shape)
        return X + noise * (1 + rng.uniform(-1, 1, X.shape) * 2.0**-40)

    assert accuracy(publish, 128, 1.0, 150) > 0.95


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism((0, 1), sigma=24.0),
        GaussianMechanism((0, 1), sigma=0.01),
        DiscreteGaussianMechanism((0, 1), sigma=0.6),
    ],
)
def test_a_lattice_gives_the_attack_nothing(mechanism):
    tables = np.zeros((2, 64)), np.vstack([np.ones(64), np.zeros(64)])
    step = mechanism.lattice(64).step
    for attacked in (1.0, 24.0, 0.6):
        statistic = float_statistic(*tables, attacked)
        for seed in range(10):
            for table in tables:
                cells = mechanism.publish(table, seed).table.to_numpy()
                assert (cells / step % 1 == 0).all()
                if attacked in (1.0, 24.0):
                    assert statistic(cells) == 0
