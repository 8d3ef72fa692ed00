"""Thresholded private covariances: sensitivities, promises, bounds in thousands of
random cases, bad input."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.utils.estimator_checks import check_estimator

from privglasso.base.validation import InputError
from privglasso.papers.thresholding import (
    DPThresholding,
    LDPThresholding,
    ZeroOutGuarantee,
    threshold_constant,
    threshold_off_diagonal,
    thresholding_bound,
)
from privglasso.privacy.guarantee import Guarantee
from privglasso.recover.feasibility import nearest_psd

BOTH = [DPThresholding, LDPThresholding]


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).uniform(-1, 1, (300, 3))


@pytest.mark.parametrize("noise", ["symmetric", "upper"])
def test_the_noise_is_the_distance_of_the_worst_neighbours(noise):
    """The mechanism's promise is the distance of e1 from e2 (or from zero) in its own
    noise, and no less."""
    n, p, mu = 500, 4, 0.7
    e1, e2 = np.eye(p)[:2]
    for neighbors, y in (("record", e2), ("zero-out", 0 * e1)):
        X = np.zeros((n, p))
        model = DPThresholding(
            1.0, mu=mu, neighbors=neighbors, noise=noise, random_state=0
        ).fit(X)
        std = np.sqrt(model.release_.matrix_noise_variance)
        change = np.triu(np.outer(e1, e1) - np.outer(y, y)) / n
        assert np.linalg.norm(change / std) == pytest.approx(mu, rel=2e-3)
        assert (
            np.linalg.norm(change / std)
            <= model.guarantee_.mu * (1 + 1e-9)
            <= mu * (1 + 1e-9)
        )


def test_one_column_has_one_promise():
    X = np.zeros((50, 1))
    zeroed, replaced = (
        DPThresholding(1.0, mu=1.0, neighbors=kind, random_state=0).fit(X)
        for kind in ("zero-out", "record")
    )
    assert (
        zeroed.release_.matrix_noise_variance == replaced.release_.matrix_noise_variance
    )
    assert zeroed.guarantee_.mu == replaced.guarantee_.mu


def test_a_zeroed_row_has_a_sentence_of_its_own():
    promise = ZeroOutGuarantee(1.0, "zero-out")
    assert str(promise).startswith(
        "if one record were set to the public centre, somebody who knows"
    )
    assert str(promise).endswith(str(Guarantee(1.0, "record")).split("somebody")[1])
    both = promise.compose(ZeroOutGuarantee(1.0, "zero-out"))
    assert both.mu == pytest.approx(math.sqrt(2)) and "centre" in str(both)
    with pytest.raises(InputError, match="zero-out"):
        promise.compose(Guarantee(1.0, "record"))


# thresholding


def test_the_bound_holds_in_every_norm():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        p = int(rng.integers(1, 12))
        A = rng.standard_normal((p, p)) * (rng.random((p, p)) < rng.random())
        Sigma, T = A @ A.T, np.triu(rng.exponential(1, (p, p)))
        T = T + np.triu(T, 1).T
        E = np.triu(np.clip(rng.uniform(-2, 2, (p, p)), -1, 1)) * T / 2
        S = Sigma + E + np.triu(E, 1).T
        estimate = threshold_off_diagonal(S, T)
        bound = thresholding_bound(Sigma, T, np.abs(np.diag(E)).max())
        for order in (1, 2, np.inf):
            assert np.linalg.norm(estimate - Sigma, order) <= bound * (1 + 1e-12)
        spectral = np.linalg.norm(estimate - Sigma, 2)
        assert (
            np.linalg.norm(nearest_psd(estimate) - Sigma, 2)
            <= 2 * spectral * (1 + 1e-9) + 1e-12
        )


def test_half_the_threshold_is_needed():
    """With errors of more than half the threshold the sharper bound fails, so its
    condition is no decoration."""
    Sigma, T = np.array([[1.0, 0.45], [0.45, 1.0]]), 1.0
    S = Sigma + np.array([[0.0, 0.6], [0.6, 0.0]])
    error = np.linalg.norm(threshold_off_diagonal(S, T) - Sigma, 1)
    assert error > thresholding_bound(Sigma, T) and error <= 4 * 0.45


def test_thresholding_keeps_the_diagonal_and_exact_zeros():
    S = np.array([[0.01, 0.5, -0.2], [0.5, -0.3, 0.1], [-0.2, 0.1, 0.0]])
    kept = threshold_off_diagonal(S, 0.2)
    assert (
        np.array_equal(np.diag(kept), np.diag(S))
        and kept[0, 1] == 0.5
        and np.count_nonzero(kept) == 4
    )
    assert np.array_equal(threshold_off_diagonal(S, 0.0), S)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-60, 60), max_size=40), st.sampled_from([0.01, 0.1, 0.5]))
def test_the_constant_is_benjamini_and_hochbergs(scores, share):
    """As many as exceed the quantile that belongs to their number, and no finer than
    that; none at all is one."""
    sizes, m = np.sort(np.abs(np.array(scores)))[::-1], max(len(scores), 1)
    quantiles = norm.isf(share * np.arange(1, m + 1) / (2 * m))
    exceeding = np.flatnonzero(sizes >= quantiles[: len(sizes)])
    kept = exceeding[-1] if len(exceeding) else 0
    assert threshold_constant(scores, share) == pytest.approx(quantiles[kept], rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: threshold_off_diagonal([[1.0, 2.0], [0.0, 1.0]], 0.1),
        lambda: threshold_off_diagonal(np.eye(2), -0.1),
        lambda: threshold_off_diagonal(np.eye(2), np.ones((3, 3))),
        lambda: thresholding_bound(np.eye(2), -1.0),
        lambda: thresholding_bound(np.eye(2), math.nan),
        lambda: thresholding_bound(np.eye(2), [1.0, 2.0]),
        lambda: thresholding_bound(np.eye(2), 0.1, -1.0),
        lambda: threshold_constant([1.0], 0.0),
        lambda: threshold_constant([1.0, math.nan]),
    ],
)
def test_bad_input_of_the_functions(call):
    with pytest.raises(InputError):
        call()


# estimators


@pytest.mark.filterwarnings("ignore:Skipping check", "ignore:.*does not inherit")
@pytest.mark.parametrize("estimator", BOTH)
def test_scikit_learn_takes_them(estimator):
    check_estimator(estimator(norm_bound=10.0, mu=5.0, random_state=0))


@pytest.mark.parametrize("estimator", BOTH)
def test_the_estimate_follows_from_the_release_alone(estimator, table):
    model = estimator(norm_bound=2.0, mu=1.0, random_state=7).fit(table)
    again = estimator(norm_bound=2.0, mu=1.0)._estimate(model.release_)
    assert (
        np.array_equal(model.covariance_, again.covariance_)
        and model.constant_ == again.constant_
    )
    assert model.release_.secure is False and "seed" in str(model.release_)
    fixed = estimator(norm_bound=2.0, mu=1.0, constant=0.0, random_state=7).fit(table)
    assert np.array_equal(fixed.thresholded_, model.release_.matrix)


@pytest.mark.parametrize("estimator", BOTH)
def test_all_kinds_of_tables(estimator, table):
    locked = table.copy()
    locked.setflags(write=False)
    frame = pd.DataFrame(table, columns=list("abc"))
    kinds = locked, np.asfortranarray(table), np.repeat(table, 2, axis=1)[:, ::2], frame
    matrices = [
        estimator(2.0, mu=1.0, random_state=3).fit(kind).covariance_ for kind in kinds
    ]
    assert all(np.array_equal(matrices[0], matrix) for matrix in matrices)
    assert estimator(2.0, mu=1.0, random_state=3).fit(frame).release_.columns == list(
        "abc"
    )


@pytest.mark.parametrize("estimator", BOTH)
def test_the_smallest_tables(estimator):
    for n, p in ((2, 1), (2, 3), (40, 1)):
        covariance = (
            estimator(2.0, mu=1.0, random_state=0).fit(np.ones((n, p))).covariance_
        )
        assert covariance.shape == (p, p) and np.linalg.eigvalsh(covariance)[0] > -1e-9


def test_more_rows_bring_the_groups_back():
    truth = np.kron(np.eye(4), 0.6 * np.eye(3) + 0.4)
    X = np.random.default_rng(5).multivariate_normal(np.zeros(12), truth, 40_000)
    for seed in range(3):
        model = DPThresholding(6.0, epsilon=1.0, delta=1e-5, random_state=seed).fit(X)
        wrong = (model.thresholded_ != 0) != (truth != 0)
        assert (
            wrong.sum() / 2 <= 6 and np.linalg.norm(model.covariance_ - truth, 2) < 0.2
        )


@pytest.mark.parametrize("estimator", BOTH)
def test_bad_arguments(estimator, table):
    for arguments, name in (
        ({"norm_bound": None, "mu": 1.0}, "norm_bound"),
        ({"norm_bound": 0.0, "mu": 1.0}, "norm_bound"),
        ({"norm_bound": 1.0}, "budget"),
        ({"norm_bound": 1.0, "mu": 1.0, "epsilon": 1.0, "delta": 0.1}, "budget"),
        ({"norm_bound": 1.0, "epsilon": 0.0, "delta": 0.1}, "epsilon"),
        ({"norm_bound": 1.0, "epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"norm_bound": 1.0, "epsilon": 1.0, "delta": 1.5}, "delta"),
        ({"norm_bound": 1.0, "mu": math.inf}, "mu"),
        ({"norm_bound": 1.0, "mu": 1.0, "constant": -1.0}, "constant"),
        ({"norm_bound": 1.0, "mu": 1.0, "false_share": 1.0}, "false_share"),
        ({"norm_bound": 1.0, "mu": 1.0, "random_state": "x"}, "random_state"),
    ):
        with pytest.raises(InputError, match=name) as caught:
            estimator(**arguments).fit(table)
        assert name in caught.value.argument


def test_unknown_neighbours_and_noise(table):
    with pytest.raises(InputError, match='give "record"'):
        DPThresholding(1.0, mu=1.0, neighbors="cell").fit(table)
    with pytest.raises(InputError, match="upper"):
        DPThresholding(1.0, mu=1.0, noise="none").fit(table)


@pytest.mark.parametrize("estimator", BOTH)
def test_bad_tables(estimator, table):
    model = estimator(1.0, mu=1.0)
    with pytest.raises(InputError, match="b.*not numeric"):
        model.fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(table > 0.9, np.nan, table))
