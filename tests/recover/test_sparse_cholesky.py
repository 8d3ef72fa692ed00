"The proof by one sparse product: never too small, and silent where it proves nothing."

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.data_sets.synthetic import random_sparse_precision, sample_gaussian
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.recover.sparse_cholesky import (
    SPARSE,
    is_dominated,
    seems_definite,
    sparse_gap,
    sparse_rows,
)

EQUAL = np.ones((1, 1))


def gap_by_factors(S, limits, Z, W):
    "From two log determinants, with the diagonal of W in the place of that of S."
    T = S + np.diag(np.diag(W - S))
    value = (T * Z).sum() + (limits * np.abs(Z)).sum() - np.linalg.slogdet(Z)[1]
    return value - np.linalg.slogdet(W)[1] - len(S)


@given(seed=st.integers(0, 10**6), size=st.floats(-9, -0.5), units=st.floats(0, 40))
@settings(max_examples=80, deadline=None)
def test_never_below_the_gap_in_any_units(seed, size, units):
    rng, p = np.random.default_rng(seed), 14
    A = np.tril(rng.uniform(-0.3, 0.3, (p, p)) * (rng.random((p, p)) < 0.2), -1)
    Z = A + A.T + np.eye(p)
    noise = np.tril(rng.normal(size=(p, p)), -1) * 10.0**size
    inverse = np.linalg.inv(Z)
    W = (inverse + inverse.T) / 2 + noise + noise.T
    limits = rng.uniform(0.1, 0.3, (p, p))
    limits = (limits + limits.T) * (1 - np.eye(p))
    S = W - np.sign(Z) * limits * rng.choice([1, 0.9])
    np.fill_diagonal(S, np.diag(W))
    own = np.exp(rng.uniform(-units, units, p))
    U = np.outer(own, own)
    S, limits, W, Z = S * U, limits * U, W * U, Z / U
    rows = sparse_rows(Z, p * p)
    bound, rounding = sparse_gap(S, np.diag(W).copy(), limits, 1.0, W, Z, rows)
    if np.isfinite(bound):
        assert np.linalg.eigvalsh(W / U)[0] > 0
        gap = gap_by_factors(S / U, limits / U, Z * U, W / U)
        assert bound >= gap - 1e-11 and 0 <= rounding <= 1e-6


@given(seed=st.integers(0, 10**6), share=st.floats(0.1, 0.6))
@settings(max_examples=100, deadline=None)
def test_a_yes_is_always_definite(seed, share):
    rng = np.random.default_rng(seed)
    A = np.tril(rng.normal(size=(9, 9)) * (rng.random((9, 9)) < share), -1)
    M = rng.uniform(0, 1) * (A + A.T) + np.diag(rng.uniform(0.5, 2, 9))
    least = np.linalg.eigvalsh(M)[0]
    assert not is_dominated(np.diag(M).copy(), sparse_rows(M, 81)) or least > 0
    assert seems_definite(M) or least <= 1e-12


@pytest.mark.parametrize("M", [np.diag([1.0, 0.0]), np.diag([1.0, -1.0]), -np.eye(2)])
def test_a_diagonal_that_is_not_positive_is_no_start(M):
    M = np.kron(np.eye(60), M)  # sparse
    assert not seems_definite(M) and not is_dominated(np.diag(M), sparse_rows(M, 9))


def test_what_is_not_a_number_proves_nothing():
    bad = np.eye(3)
    bad[0, 1] = bad[1, 0] = np.nan
    for W, Z in ((np.eye(3), bad), (bad, np.eye(3))):
        rows = sparse_rows(Z, 6)
        assert sparse_gap(np.eye(3), np.ones(3), EQUAL, 0.1, W, Z, rows)[0] == np.inf


@pytest.mark.parametrize("alpha, tol", [(0.2, 1e-3), (0.2, 1e-9), (0.12, 1e-6)])
@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_the_solvers_gap_is_at_least_the_true_one(alpha, tol, penalize_diagonal):
    X = sample_gaussian(random_sparse_precision(220, 3 / 219, 0), 440, 1)
    S = np.corrcoef(X.T)
    result = graphical_lasso(S, alpha, penalize_diagonal=penalize_diagonal, tol=tol)
    W, Z = result.dual_covariance, result.precision
    rows = sparse_rows(Z, Z.size // SPARSE)  # what the solver goes by
    assert is_dominated(np.diag(Z).copy(), rows)
    limits = alpha * (1 - np.eye(220))
    assert (np.abs(W - S)[limits > 0] <= alpha + 1e-15).all()
    gap = gap_by_factors(S, limits, Z, W)
    assert gap - 1e-10 <= result.dual_gap <= 220 * tol
    assert np.linalg.eigvalsh(W)[0] > 0 and np.linalg.eigvalsh(Z)[0] > 0
    value = result.objective - np.linalg.slogdet(W)[1] - 220
    assert value == pytest.approx(gap, abs=1e-9)
