"""Releases of several publishers: weights, shared columns, every kind of release."""

import numpy as np
import pandas as pd
import pytest

from privglasso import CovarianceMechanism, DiscreteGaussianMechanism, KendallMechanism
from privglasso import PrivateGraphicalLasso, QuadrantMechanism, SyntheticDataMechanism
from privglasso.base.validation import InputError
from privglasso.privacy.guarantee import Guarantee, NoGuarantee
from privglasso.publish.local import LocalMechanism
from privglasso.publish.noise_correction import CovarianceError
from privglasso.publish.whitening import WhitenedCovarianceMechanism
from privglasso.recover.pooling import _together, combine, differences, edge_changes

P = 4
CHAIN = np.eye(P) + 0.4 * (np.eye(P, k=1) + np.eye(P, k=-1))
ABOVE = np.triu_indices(P, 1)


def rows(n, seed, scale=1.0):
    root = np.linalg.cholesky(np.linalg.inv(CHAIN))
    return scale * np.random.default_rng(seed).normal(size=(n, P)) @ root.T


MECHANISMS = {
    "scores": CovarianceMechanism(mu=1.0),
    "sphere": CovarianceMechanism(clipping="sphere", mu=1.0),
    "box": CovarianceMechanism((-5, 5), clipping="box", mu=1.0),
    "table": DiscreteGaussianMechanism((-5, 5), mu=10.0),
    "local": LocalMechanism(4.0, mu=4.0),
    "Kendall": KendallMechanism(mu=1.0),
    "quadrant": QuadrantMechanism(0.0, mu=1.0),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MECHANISMS)
def test_two_releases_of_any_kind_have_the_error_that_is_stated(name):
    """60 squares of 6 correlations: their mean is known to 8 %; half or twice the
    stated variance is far outside."""
    truth = np.linalg.inv(CHAIN)
    truth /= np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    squares, stated = [], []
    n = 800 if name == "local" else 3000  # every user of the local model draws noise
    for seed in range(30):
        made = MECHANISMS[name]
        tables = rows(n, [seed, 0]), rows(2 * n, [seed, 1])
        pooled = combine([made.publish(X, 2 * seed + k) for k, X in enumerate(tables)])
        squares.append((pooled.matrix - truth)[ABOVE] ** 2)
        error = pooled.sampling_error()
        stated.append(error.correlation_variance(pooled.matrix)[ABOVE])
    assert 0.65 < np.mean(squares) / np.mean(stated) < 1.5
    assert pooled.n == 3 * n and PrivateGraphicalLasso().fit(pooled).edges_ is not None


def test_units_do_not_matter_and_weights_follow_the_errors():
    one = CovarianceMechanism(mu=2.0).publish(rows(2000, 0), 0)
    two = CovarianceMechanism(mu=0.12).publish(rows(4000, 1, scale=1000.0), 1)
    pooled = combine([one, two]).matrix
    parts = [r.corrected_covariance() for r in (one, two)]
    R = [S / np.sqrt(np.outer(np.diag(S), np.diag(S))) for S in parts]
    share = (pooled - R[1])[ABOVE] / (R[0] - R[1])[ABOVE]
    errors = [
        (r.sampling_error().covariance_variance() / np.outer(*2 * [np.diag(S)]))[ABOVE]
        for r, S in zip((one, two), parts, strict=True)
    ]
    fair = errors[1].mean() / (errors[0] + errors[1]).mean()
    assert np.ptp(share) < 1e-9 and share[0] == pytest.approx(fair, rel=0.1)
    assert fair > 0.4 > 2000 / 6000  # noise costs the longer table its weight
    assert np.allclose(np.diag(pooled), 1)


def test_partly_shared_columns_are_matched_by_name():
    X, Y = rows(5000, 0), rows(5000, 1)
    first = pd.DataFrame(X, columns=list("abcd"))
    second = pd.DataFrame(Y[:, ::-1], columns=list("dcba"))
    mechanism = CovarianceMechanism(mu=2.0)
    one = mechanism.publish(first, 0)
    whole = combine([one, mechanism.publish(second, 1)])
    assert whole.columns == list("abcd") and abs(whole.matrix[0, 1]) > 0.3
    part = combine([one, mechanism.publish(second[["d", "c"]], 1)])
    variance = part.sampling_error().covariance_variance()
    assert variance[2, 3] < 0.7 * variance[0, 1]
    with pytest.raises(InputError, match="no release has both a and e"):
        combine([one, mechanism.publish(second.rename(columns={"a": "e"}), 1)])


def test_the_promise_is_that_of_somebody_who_stood_in_all_tables():
    tables = [rows(3000, seed) for seed in range(3)]
    published = [
        CovarianceMechanism(mu=mu).publish(X, 0)
        for X, mu in zip(tables, (0.6, 0.8, 2.4), strict=True)
    ]
    pooled = combine(published)
    assert pooled.guarantee.mu == pytest.approx(2.6, rel=1e-9)
    assert pooled.guarantee.mu >= np.sqrt(sum(r.guarantee.mu**2 for r in published))
    assert not pooled.secure


def test_failures_and_missing_promises_are_not_lost():
    some = Guarantee(0.6, "record", failure=0.01)
    both = _together([some, Guarantee(0.8, "record", failure=0.02)])
    assert both.mu == pytest.approx(1.0) and both.failure == pytest.approx(0.0298)
    assert _together([some, Guarantee(0.8, "cell")]).neighbors == "cell"
    none = NoGuarantee("noise was chosen after the data", some)
    assert _together([some, none]) is none


def parts_of(one):
    "What is seen of a release of x0 … x3 beside it."
    return [one, one.select(["x3", "x1", "x2", "x0"]), one.select(["x2", "x0"])]


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_counts_once_in_whatever_order_and_however_few_columns(name):
    one, again = (MECHANISMS[name].publish(rows(800, 0), 0) for _ in range(2))
    two = MECHANISMS[name].publish(rows(800, 1), 1)
    for copy in parts_of(again):
        for told in (combine, differences):
            with pytest.raises(InputError, match="the same release"):
                told([one, two, copy])
    assert combine([one, parts_of(two)[1]]).n == 2 * one.n


def test_a_release_counts_once_within_a_pool_and_behind_rows_and_rounds():
    plain = CovarianceMechanism(mu=1.0)
    one, two, three = (plain.publish(rows(800, seed), seed) for seed in range(3))
    pool, other = combine([one, two]), combine([three, two])
    drawn = SyntheticDataMechanism(mu=1.0).publish(rows(800, 3), 3)
    rounds = WhitenedCovarianceMechanism(mu=1.0).publish(rows(8000, 4), 4)
    behind = [(pool, one), (other, pool), (drawn, drawn.covariance_release)]
    for whole, again in [*behind, (rounds, rounds.first), (rounds.second, rounds)]:
        for seen in (whole, *parts_of(whole)):
            for copy in parts_of(again):
                with pytest.raises(InputError, match="the same release"):
                    combine([seen, copy])
    assert combine([pool, three, drawn, rounds]).n > pool.n


def test_a_column_that_only_the_moments_behind_have_lost_is_no_reason_to_refuse():
    few = SyntheticDataMechanism((-3, 3), clipping="box", rows=20, mu=0.3)
    narrow = np.random.default_rng(0).normal(size=(400, P)) * [1, 1, 1, 0.1]
    drawn = few.publish(narrow, 17)
    with pytest.raises(CovarianceError):
        drawn.covariance_release.corrected_covariance()
    other = CovarianceMechanism(mu=1.0).publish(rows(800, 0), 0)
    assert combine([drawn, other]).columns == other.columns
    with pytest.raises(InputError, match="the same release"):
        combine([drawn, other, drawn.select(["x1", "x0"])])


def test_what_a_pool_hands_out_does_not_change_it():
    plain = CovarianceMechanism(mu=1.0)
    pool = combine([plain.publish(rows(800, seed), seed) for seed in range(2)])
    before = pool.corrected_covariance()
    pool.matrix[:] = np.eye(P)
    assert (pool.matrix == before).all() and (before != np.eye(P)).any()


def test_nothing_but_releases_is_combined():
    one = CovarianceMechanism(mu=1.0).publish(rows(3000, 0), 0)
    for wrong in (None, [one], [one, "release.parquet"], [one, rows(10, 0)]):
        with pytest.raises(InputError, match="releases"):
            combine(wrong)
    with pytest.raises(InputError, match="fewer than two"):
        differences([one, one.select(["x0"])])


def test_a_lost_edge_is_seen_and_an_order_of_two_turns_its_sign():
    second = CHAIN.copy()
    second[1, 2] = second[2, 1] = 0.0
    root = np.linalg.cholesky(np.linalg.inv(second))
    X = np.random.default_rng(1).normal(size=(8000, P)) @ root.T
    mechanism = CovarianceMechanism(mu=1.0)
    one, two = mechanism.publish(rows(8000, 0), 0), mechanism.publish(X, 1)
    went, came = edge_changes(one, two).iloc[0], edge_changes(two, one).iloc[0]
    assert (went.source, went.target) == (came.source, came.target) == ("x1", "x2")
    assert went.z_value > 5 and went.z_value == pytest.approx(-came.z_value, rel=1e-6)
    surest = differences([one, two]).iloc[0]
    assert (surest.source, surest.target) == ("x1", "x2") and surest.q_value < 1e-6
