"""Wang & Xu: how far a row moves the moments, what the printed noise hides, and the
price in rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privglasso.base.validation import InputError
from privglasso.papers.thresholding import DPThresholding
from privglasso.papers.wang_xu import (
    equivalent_rows,
    moment_change,
    paper_covariance,
    printed_estimate,
    printed_threshold,
    true_epsilon,
)
from privglasso.privacy.gdp import delta_gdp
from privglasso.privacy.guarantee import classical_mu
from privglasso.publish.covariance import CovarianceMechanism

unit_pairs = st.integers(1, 6).flatmap(
    lambda p: hnp.arrays(
        float, (2, p), elements=st.floats(-1, 1, allow_subnormal=False)
    )
)


@settings(max_examples=200, deadline=None)
@given(unit_pairs, st.sampled_from([1.0, 2.0]))
def test_no_pair_of_rows_moves_the_moments_farther(rows, diagonal):
    x, y = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    assert moment_change(x, y, diagonal) <= math.sqrt(2 / diagonal) * (1 + 1e-12)
    assert moment_change(x, 0 * x, diagonal) <= math.sqrt(1 / diagonal) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("delta", "limit"),
    [(1e-2, 1.88), (1e-3, 1.25), (1e-5, 0.365), (1e-6, 0.163), (1e-8, 0.026)],
)
def test_where_the_printed_noise_fails(delta, limit):
    assert true_epsilon(limit * 0.98, delta) < limit * 0.98
    assert true_epsilon(limit * 1.02, delta) > limit * 1.02


def test_the_printed_noise_hides_a_zeroed_row():
    epsilons = np.linspace(0.01, 2, 100)
    for delta in (1e-2, 1e-3, 1e-5, 1e-6, 1e-8):
        mu = [classical_mu(epsilon, delta) for epsilon in epsilons]
        assert (delta_gdp(epsilons, mu) < delta).all()


def test_the_diagonal_is_lost_by_the_printed_rule_and_kept_by_ours():
    p, n = 100, 2000
    X = np.random.default_rng(3).standard_normal((n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    release = CovarianceMechanism(
        norm_bound=1.0, epsilon=1.0, delta=1e-5, mean_share=0
    ).publish(X, random_state=0)
    assert not printed_estimate(
        release.matrix, printed_threshold(n, p, 1.0, 1e-5, 0.0)
    ).any()
    model = DPThresholding(1.0, epsilon=1.0, delta=1e-5, random_state=0).fit(X)
    assert np.abs(np.diag(model.thresholded_) * p - 1).max() < 1


def test_effective_rows_are_what_the_variances_say():
    n, mu, B, a = 1e4, 0.3, 2.0, 0.7
    assert a**2 / equivalent_rows(n, mu, B, a) == pytest.approx(
        a**2 / n + (B**2 / (n * mu)) ** 2
    )
    assert a**2 / equivalent_rows(n, mu, B, a, local=True) == pytest.approx(
        a**2 / n + n * (B**2 / (n * mu)) ** 2
    )
    assert equivalent_rows(1e12, mu, B, a) / 1e12 == pytest.approx(1, abs=1e-6)


def test_the_design_of_the_experiments():
    U = paper_covariance(100, 0.2, 1)
    off_diagonal = U[~np.eye(100, dtype=bool)]
    assert np.array_equal(U, U.T) and np.allclose(np.diag(U), 0.25)
    assert np.linalg.eigvalsh(U)[0] > 0.1
    assert abs((off_diagonal != 0).mean() - 0.2) < 0.03
    assert 0 <= off_diagonal.min() and off_diagonal.max() < 0.005


@pytest.mark.parametrize(
    "call",
    [
        lambda: moment_change([1.0, 0.0], [0.0, 1.0], 0.0),
        lambda: true_epsilon(1.0, 0.0),
        lambda: true_epsilon(1.0, 1e-5, -1.0),
        lambda: paper_covariance(0, 0.2, 0),
        lambda: paper_covariance(10, 1.0, 0),
        lambda: paper_covariance(10, 0.2, -1),
        lambda: printed_estimate(np.eye(2), math.nan),
        lambda: printed_threshold(100, 5, 1.0, 0.1, -1.0),
        lambda: printed_threshold(0, 5, 1.0, 0.1, 1.0),
        lambda: equivalent_rows(0, 1.0, 1.0, 1.0),
        lambda: equivalent_rows(np.array([10, -1]), 1.0, 1.0, 1.0),
        lambda: equivalent_rows(100, 0.0, 1.0, 1.0),
        lambda: equivalent_rows(100, 1.0, 0.0, 1.0),
        lambda: equivalent_rows(100, 1.0, 1.0, 0.0),
    ],
)
def test_bad_input(call):
    with pytest.raises(InputError):
        call()
