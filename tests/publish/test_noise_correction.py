"""The noise-corrected covariance: exact unbiasedness, peers, bad input."""

import pickle
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import empirical_covariance

from privglasso.publish import noise_correction
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.noise_correction import CovarianceError, SamplingError
from privglasso.publish.noise_correction import correlation_scale
from privglasso.publish.noise_correction import noise_corrected_covariance
from privglasso.publish.noise_correction import sample_covariance
from privglasso.base.graphs import partial_correlations
from privglasso.base.validation import InputError
from privglasso.recover.estimators import PrivateGraphicalLasso

integers = st.integers(-5, 5)


@given(
    rows=st.lists(st.tuples(integers, integers), min_size=2, max_size=3),
    low=st.integers(1, 3),
    high=st.integers(1, 3),
    centred=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_unbiased_for_skewed_two_point_noise(rows, low, high, centred):
    "Noise -low or +high with mean 0; rows 100 apart keep every column usable."
    X = np.array(rows, float) + np.arange(len(rows))[:, None] * 100
    values = {-low: Fraction(high, low + high), high: Fraction(low, low + high)}
    variance = float(sum(p * e * e for e, p in values.items()))
    location = None if centred else np.zeros(2)
    average = np.zeros((2, 2))
    for outcome in product(values, repeat=X.size):
        weight = float(np.prod([values[e] for e in outcome]))
        average += weight * noise_corrected_covariance(
            X + np.reshape(outcome, X.shape), variance, location
        )
    expected = sample_covariance(X, location)
    assert np.allclose(average, expected, rtol=1e-11)


def test_sample_covariance_is_scikit_learns():
    X = np.random.default_rng(0).normal(size=(40, 6)) + 3
    assert np.allclose(sample_covariance(X), empirical_covariance(X), atol=1e-13)
    assert np.allclose(
        sample_covariance(X, location=0),
        empirical_covariance(X, assume_centered=True),
        atol=1e-13,
    )


def test_symmetric_and_the_same_for_a_data_frame():
    X = np.random.default_rng(1).normal(size=(30, 7)) * 10
    S = noise_corrected_covariance(X, np.linspace(0, 1, 7))
    assert np.array_equal(S, S.T)
    assert np.array_equal(
        S, noise_corrected_covariance(pd.DataFrame(X), np.linspace(0, 1, 7))
    )


def test_moving_all_rows_changes_nothing_but_rounding():
    X = np.random.default_rng(2).normal(size=(50, 4))
    assert np.allclose(
        noise_corrected_covariance(X + 1e3, 0.1),
        noise_corrected_covariance(X, 0.1),
        atol=1e-9,
    )
    assert np.allclose(
        noise_corrected_covariance(X + 7, 0.1, location=7),
        noise_corrected_covariance(X, 0.1, location=0),
        atol=1e-12,
    )


def test_units_carry_through():
    X, units = np.random.default_rng(3).normal(size=(50, 3)), np.array([1.0, 1e3, 1e-3])
    S = noise_corrected_covariance(X, [0.1, 0.2, 0.3])
    assert np.allclose(
        noise_corrected_covariance(X * units, np.array([0.1, 0.2, 0.3]) * units**2),
        S * np.outer(units, units),
        rtol=1e-10,
    )


X = np.random.default_rng(4).normal(size=(20, 3))


def test_columns_without_signal_are_named():
    frame = pd.DataFrame(
        {"flat": [1.0, 1, 1], "good": [0.0, 5, 9], "weak": [0.0, 0.1, 0]}
    )
    with pytest.raises(CovarianceError, match="flat") as caught:
        noise_corrected_covariance(frame, 0.1)
    assert caught.value.columns == ["flat"]
    with pytest.raises(CovarianceError, match="variance does not exceed") as caught:
        noise_corrected_covariance(frame[["good", "weak"]], 0.1)
    assert caught.value.columns == ["weak"]


def test_correlation_scale():
    S = np.array([[4.0, 3.0], [3.0, 1.0]])
    correlation, deviation = correlation_scale(S)
    assert correlation[0, 1] == 1.5 and deviation.tolist() == [2, 1]
    for bad in ([[0.0]], [[1, 0], [0, -1]]):
        with pytest.raises(CovarianceError):
            correlation_scale(bad)
    with pytest.raises(InputError):
        correlation_scale([[1, 2]])


def test_bad_input_is_named():
    for arguments, named in [
        *(
            ((X, bad), "noise_variance=")
            for bad in ([1, 2], -0.1, np.nan, [0.1, 0.1, np.inf], "much", True, None)
        ),
        *(
            ((X, 0.1, bad), "location=")
            for bad in ([0, 0], np.nan, "mean", [[0, 0, 0]])
        ),
        *(((bad, 0.1), "table=") for bad in (X[0], X[:1], X * np.nan)),
    ]:
        with pytest.raises(InputError, match=f"^{named}"):
            noise_corrected_covariance(*arguments)


# sampling errors

A = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_one_variance_is_textbook():
    "2 s^4 / n of a variance, 2 theta^2 / n of its inverse, Fisher's of a correlation."
    error = SamplingError(((A, 50),))
    np.testing.assert_allclose(
        np.diag(error.covariance_variance()), 2 * np.diag(A) ** 2 / 50
    )
    r = A[0, 1] / np.sqrt(2)
    np.testing.assert_allclose(
        error.correlation_variance(A),
        (1 - r**2) ** 2 / 50 * (1 - np.eye(2)),
        rtol=1e-12,
    )
    Theta = np.linalg.inv(A)
    np.testing.assert_allclose(
        np.diag(error.precision_variance(Theta)), 2 * np.diag(Theta) ** 2 / 50
    )


def test_parts_add_and_independent_entries_lose_a_term():
    Theta, V = np.linalg.inv(A), np.full((2, 2), 0.3)
    both = SamplingError(((A, 50), (2 * A, 10)))
    np.testing.assert_allclose(
        both.covariance_variance(),
        (1 / 50 + 4 / 10) * (np.outer(np.diag(A), np.diag(A)) + A**2),
    )
    error = SamplingError(((A, 50),), V)
    square, alone = Theta @ Theta, SamplingError(((A, 50),)).precision_variance(Theta)
    bracket = (
        np.outer(np.diag(square), np.diag(square))
        + square**2
        - (Theta**2) @ (Theta**2).T
    )
    np.testing.assert_allclose(
        error.precision_variance(Theta) - alone, 0.3 * bracket, rtol=1e-10
    )


@given(st.integers(0, 1000), st.lists(st.integers(-10, 10), min_size=4, max_size=4))
@settings(max_examples=25, deadline=None)
def test_variances_have_the_units_they_should(seed, powers):
    rng, units = np.random.default_rng(seed), 2.0 ** np.array(powers)
    root, V, scale = (
        rng.normal(size=(4, 9)),
        rng.uniform(size=(4, 4)),
        np.outer(units, units),
    )
    S, V = root @ root.T, V + V.T
    here = SamplingError(((S + np.eye(4), 30),), V)
    there = SamplingError((((S + np.eye(4)) * scale, 30),), V * scale**2)
    np.testing.assert_allclose(
        there.covariance_variance(), here.covariance_variance() * scale**2, rtol=1e-9
    )
    np.testing.assert_allclose(
        there.correlation_variance(S * scale),
        here.correlation_variance(S),
        rtol=1e-7,
        atol=1e-12,
    )
    Theta = np.linalg.inv(S)
    np.testing.assert_allclose(
        there.precision_variance(Theta / scale),
        here.precision_variance(Theta) / scale**2,
        rtol=1e-6,
    )


def test_negative_eigenvalues_count_as_zero():
    error = SamplingError((([[1.0, 2.0], [2.0, 1.0]], 10),))
    np.testing.assert_allclose(error.parts[0][0], [[1.5, 1.5], [1.5, 1.5]])
    for variance in (
        error.correlation_variance(A),
        error.precision_variance(np.linalg.inv(A)),
    ):
        assert (variance >= 0).all()


@given(st.integers(0, 1000), st.lists(st.integers(-60, 60), min_size=5, max_size=5))
@settings(max_examples=50, deadline=None)
def test_negative_eigenvalues_go_alike_in_all_units(seed, powers):
    units = 10.0 ** np.array(powers)
    root = np.random.default_rng(seed).normal(size=(5, 3))
    indefinite = root @ root.T - 0.3 * np.eye(5)
    here = SamplingError(((indefinite, 30),)).parts[0][0]
    scale = np.outer(units, units)
    there = SamplingError(((indefinite * scale, 30),)).parts[0][0]
    np.testing.assert_allclose(there / scale, here, rtol=1e-6, atol=1e-9)


def test_inputs_are_left_alone_and_one_variable_will_do():
    parts, V = np.array(A), np.zeros((2, 2))
    parts.flags.writeable = V.flags.writeable = False
    SamplingError(((parts, 5),), V).correlation_variance(parts)
    one = SamplingError((([[2.0]], 4),), 0.5)
    assert one.covariance_variance().tolist() == [[2.5]] and one.correlation_variance(
        [[1.0]]
    ).tolist() == [[0.0]]


def test_bad_covariances_of_a_sampling_error_are_named():
    error = SamplingError(((A, 5),))
    with pytest.raises(CovarianceError):
        error.correlation_variance(-A)
    with pytest.raises(InputError, match="precision="):
        error.precision_variance(A[0])
    for other in ([[1.0]], np.eye(3)):  # numpy would stretch the first to any size
        with pytest.raises(InputError, match="^S="):
            error.correlation_variance(other)
        with pytest.raises(InputError, match="^precision="):
            error.precision_variance(other)


def test_bad_parts_are_named():
    for parts in [
        (),
        ((A, 0),),
        ((A, 2.5),),
        ((A, 3), ([[1.0]], 3)),
        A,
        None,
        ((A * np.nan, 3),),
    ]:
        with pytest.raises(InputError, match="^parts="):
            SamplingError(parts)


def test_bad_noise_is_named():
    for noise in [
        np.zeros((3, 3)),
        [[0.1]],
        [0.1, 0.1],
        "much",
        None,
        -1.0,
        np.nan,
        [[0.0, 1.0], [2.0, 0.0]],
    ]:
        with pytest.raises(InputError, match="^noise="):
            SamplingError(((A, 3),), noise)


def every_pair(Theta, V):
    "Variance of the entries of Θ E Θ, written as a sum over the pairs of columns."
    total = 0.0
    for k in range(len(V)):
        for m in range(k, len(V)):
            moved = np.outer(Theta[:, k], Theta[:, m])
            moved = moved if k == m else moved + moved.T
            total = total + V[k, m] * moved**2
    return total


@pytest.mark.parametrize("diagonal", [2.0, 1.0, 0.0])
def test_noise_of_a_precision_by_every_way(diagonal, monkeypatch):
    rng = np.random.default_rng(0)
    p, units = 12, np.exp(3 * rng.standard_normal(12))
    dense = np.linalg.inv(0.6 ** np.abs(np.subtract.outer(range(p), range(p))))
    dense += 0.1 * np.cov(rng.standard_normal((p, 3 * p)))
    offset = rng.random(p)
    V = 0.5 + 0.1 * np.add.outer(offset, offset) * (diagonal == 2.0)
    np.fill_diagonal(V, diagonal * np.diag(V))
    sparse = np.where(np.abs(dense) > 0.3, dense, 0.0)
    for Theta in (dense, sparse):
        Theta, noise = Theta / np.outer(units, units), V * np.outer(units, units) ** 2
        exact = every_pair(Theta, noise)
        weights, directions = noise_correction._few_directions(noise)
        assert len(weights) <= 2
        unequal = noise - np.diag(np.diag(noise))
        first = Theta**2 @ unequal @ Theta.T**2
        by_rows = first + noise_correction._over_neighbours(Theta, noise)
        found = noise_correction._over_directions(Theta, noise, weights, directions)
        for value in (by_rows, first + found):
            np.testing.assert_allclose(value, exact, rtol=1e-9)
    # wide and dense: the short way is taken, and gives the same
    monkeypatch.setattr(noise_correction, "WIDE", 0)
    wide = np.kron(np.eye(20), dense) + 0.001
    V = 1 + np.eye(len(wide))
    monkeypatch.setattr(noise_correction, "_over_neighbours", None)
    error = SamplingError(((np.eye(len(wide)), 10),), V)
    rows = SamplingError(((np.eye(len(wide)), 10),))
    got = error.precision_variance(wide) - rows.precision_variance(wide)
    square = wide @ wide
    exact = np.outer(np.diag(square), np.diag(square)) + square**2
    np.testing.assert_allclose(got, exact, rtol=1e-9)


def test_weighted_variance_agrees_with_entries_and_precisions():
    rng = np.random.default_rng(3)
    B = rng.normal(size=(2, 4, 9))
    A, C = B @ np.swapaxes(B, 1, 2) / 9
    noise = rng.random((4, 4))
    error = SamplingError(((A, 50), (C, 20)), noise + noise.T)
    basis = np.zeros((4, 4, 4, 4))
    for i, j in product(range(4), repeat=2):
        basis[i, j, i, j] += 0.5
        basis[i, j, j, i] += 0.5
    of_entries = error.weighted_variance(basis.reshape(16, 4, 4)).reshape(4, 4)
    assert np.allclose(of_entries, error.covariance_variance(), rtol=1e-12)
    Theta = np.linalg.inv(A)
    slopes = np.einsum("ki,jl->ijkl", Theta, Theta).reshape(16, 4, 4)
    of_precision = error.weighted_variance(slopes).reshape(4, 4)
    assert np.allclose(of_precision, error.precision_variance(Theta), rtol=1e-10)
    # a part that is left out is missed
    less = SamplingError(((A, 50), (C, 20))).weighted_variance(slopes)
    assert (less.reshape(4, 4) < 0.999 * of_precision).all()
    for wrong in (np.eye(4), np.ones((1, 3, 3)), np.full((1, 4, 4), np.nan)):
        with pytest.raises(InputError, match="^weights="):
            error.weighted_variance(wrong)


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-160, 1e-76, 1e76, 1e160, 1e300])
def test_numbers_whose_variances_are_lost_are_refused(size):
    "Also where a single column is of such a size; none of it as a warning of numpy."
    rows = np.random.default_rng(0).uniform(0.5, 0.9, (200, 3))
    for scale in (size, np.array([1.0, size, 1.0])):
        with pytest.raises(CovarianceError, match="in other units") as caught:
            noise_corrected_covariance(rows * scale, 0.0)
        assert "x1" in caught.value.columns
        with pytest.raises(CovarianceError, match="in other units"):
            PrivateGraphicalLasso().fit(rows * scale)


@pytest.mark.parametrize("size", [1e-70, 1e-30, 1e30, 1e70])
def test_other_sizes_leave_the_graph_as_it_is(size):
    rows = np.random.default_rng(0).uniform(0.5, 0.9, (500, 4)) @ np.tri(4)
    usual, other = (PrivateGraphicalLasso().fit(rows * s) for s in (1.0, size))
    usual, other = (partial_correlations(m.precision_) for m in (usual, other))
    np.testing.assert_allclose(other, usual, atol=1e-8)


def test_arrays_of_ones_own_are_not_copied_and_may_be_shared():
    S = np.array([[2.0, 1.0], [1.0, 2.0]])
    noise = np.full((2, 2), 0.1)
    one, other = SamplingError(((S, 9),), noise), SamplingError.owning(((S, 9),), noise)
    assert other.noise is noise and one.noise is not noise
    same, different = S.copy(), S + 1
    assert one.sharing(different).parts[0][0] is not different
    assert other.sharing(same).parts[0][0] is same
    assert np.array_equal(one.precision_variance(S), other.precision_variance(S))


def test_noise_between_sparse_columns_is_that_of_all_of_them():
    "Blocks of a wide matrix: only rows that are joined are looked at."
    rng, p = np.random.default_rng(0), 240
    Theta = np.eye(p)
    for start in range(0, p, 8):
        block = rng.normal(size=(8, 8)) * (rng.random((8, 8)) < 0.4)
        Theta[start : start + 8, start : start + 8] += block + block.T
    V = rng.uniform(0.1, 1, (p, p))
    V = (V + V.T) / 2
    found = SamplingError(((np.eye(p), 9),), V).noise_in_precision(Theta)
    beside = V - np.diag(np.diag(V))
    expected = Theta**2 @ beside @ Theta**2
    for i in range(0, p, 37):
        for j in range(p):
            expected[i, j] += Theta[i] * Theta[j] @ V @ (Theta[i] * Theta[j])
    assert np.allclose(found[::37], expected[::37], rtol=1e-12, atol=1e-15)


def no_eigenvalues(*_):
    raise AssertionError("eigenvalues were asked for")


def test_variances_of_the_diagonal_are_enclosed_without_eigenvalues(monkeypatch):
    rng = np.random.default_rng(0)
    for p, size in ((1, 1.0), (2, 3.0), (7, 1.0), (40, 0.1), (40, 10.0)):
        A = size * rng.normal(size=(p, p)) + np.diag(rng.normal(1, 0.5, p))
        A, units = (A + A.T) / 2, np.outer(*2 * [10.0 ** rng.integers(-3, 4, p)])
        made = lambda: SamplingError([(A * units, 50)], 0.1 * units**2)  # noqa: B023
        exact = np.diag(made().covariance_variance())
        with monkeypatch.context() as patch:
            for name in ("eigh", "eigvalsh", "cholesky"):
                patch.setattr(np.linalg, name, no_eigenvalues)
            least, most = made().own_variances()
        assert (least <= exact * (1 + 1e-12)).all()
        assert (exact <= most * (1 + 1e-12)).all()
    own = SamplingError([(np.diag([2.0, 0.5]), 50)])  # where the bounds are attained
    assert np.allclose(own.own_variances(), [0.16, 0.01])
    known = SamplingError([(A, 50)])
    known.covariance_variance()
    assert np.array_equal(*known.own_variances())


def test_eigenvalues_of_a_shared_part_are_found_once(monkeypatch):
    A = np.array([[1.0, 1.2, 0.1], [1.2, 1.0, 0.0], [0.1, 0.0, 1.0]])
    error = SamplingError([(A, 50)], 0.01).sharing(A)
    expected = SamplingError([(A, 50)]).covariance_variance()
    calls = []
    found = noise_correction._positive_part
    monkeypatch.setattr(
        noise_correction, "_positive_part", lambda A: calls.append(1) or found(A)
    )
    alone = error.without_noise(A, 50)
    assert np.array_equal(alone.covariance_variance(), expected)
    assert np.allclose(error.covariance_variance(), expected + 0.01)
    assert len(calls) == 1
    fewer = SamplingError([(A, 50)], 0.01).sharing(A).without_noise(A, 25)
    assert np.allclose(fewer.covariance_variance(), 2 * expected)


# ------------------------------------------- of many columns, without more matrices


def noise_and_rows(p=250, seed=0):
    "Variances of noise on entries, and the function of a slice of rows."
    u = np.random.default_rng(seed).uniform(0.1, 1, p)
    V = np.outer(u, u) * (1 + np.eye(p))
    return V, lambda at: V[at].copy()


class Rows:
    "A function of a slice that can be sent to another process."

    def __init__(self, V):
        self.V = V

    def __call__(self, at):
        return self.V[at].copy()


def test_noise_by_rows_is_the_noise():
    V, rows = noise_and_rows()
    A = 0.4 ** np.abs(np.subtract.outer(range(250), range(250)))
    whole, late = SamplingError(((A, 90),), V), SamplingError(((A, 90),), Rows(V))
    assert late.has_noise() and "noise" not in vars(late)
    assert np.array_equal(late.own_noise(), np.diag(V))
    for found, known in zip(late.own_variances(), whole.own_variances(), strict=True):
        assert np.array_equal(found, known)
    assert "noise" not in vars(late)
    again = pickle.loads(pickle.dumps(late))
    assert np.array_equal(again.noise, V) and np.array_equal(late.noise, V)
    assert np.array_equal(late.covariance_variance(), whole.covariance_variance())
    assert not SamplingError(((A, 90),)).has_noise()
    with pytest.raises(InputError, match="noise="):
        assert SamplingError(((A, 90),), Rows(-V)).noise


@pytest.mark.parametrize("kind", ["band", "dense", "diagonal"])
def test_the_least_variance_of_a_precision_is_at_most_it_and_near_it(kind):
    "Of noise alone it is the sum itself; of rows it lacks the p-th part of it."
    V, _ = noise_and_rows()
    A = 0.4 ** np.abs(np.subtract.outer(range(250), range(250)))
    Theta = {
        "band": np.where(np.abs(np.linalg.inv(A)) > 1e-9, np.linalg.inv(A), 0),
        "dense": np.linalg.inv(A) + 0.01,
        "diagonal": np.diag(np.arange(1.0, 251)),
    }[kind]
    w = 1 / np.diag(Theta)
    for error in (
        SamplingError(((1e-9 * A, 10**9),), V),
        SamplingError(((A, 90), (2 * A, 50)), 0.0),
        SamplingError(((A, 90),), Rows(V)),
    ):
        least, exact = error.least_in_precision(Theta), error.precision_variance(Theta)
        assert 0.98 < least / (w @ exact @ w) <= 1 + 1e-9
    noise = SamplingError(((0 * A, 1),), V)
    exact = w @ noise.noise_in_precision(Theta) @ w
    assert abs(noise.least_in_precision(Theta) / exact - 1) < 1e-9


def test_errors_of_variances_are_right_where_noise_makes_a_matrix_indefinite():
    "Over 400 releases: within a twentieth, where those of the positive part are not."
    n, p, found, said, positive = 300, 60, [], [], []
    mechanism = CovarianceMechanism((-4, 4), clipping="box", mu=8.0)
    for seed in range(400):
        X = np.random.default_rng(seed).normal(size=(n, p))
        release = mechanism.publish(X, seed)
        error = release.sampling_error()
        found.append(release.matrix.diagonal())
        said.append(error.diagonal_variance())
        positive.append(error.covariance_variance().diagonal())
    spread = np.std(found, axis=0).mean()
    assert abs(np.sqrt(np.mean(said)) / spread - 1) < 0.05
    assert np.sqrt(np.mean(positive)) / spread > 1.3
    definite = SamplingError(((np.eye(3), 50),), 0.1)
    own = definite.covariance_variance().diagonal()
    assert np.array_equal(definite.diagonal_variance(), own)
