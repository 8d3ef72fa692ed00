"""Private precision matrices: scikit-learn's rules, bounds over thousands of cases,
every bad input named."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from privglasso.base.validation import InputError
from privglasso.papers.private_precision import (
    DPGraphicalLasso,
    DPRidgePrecision,
    lasso_error_bound,
    moment_sensitivity,
    ridge_change_bound,
    ridge_precision,
)
from privglasso.privacy.gdp import mu_gdp
from privglasso.privacy.guarantee import classical_mu
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.noise_correction import CovarianceError
from privglasso.recover.feasibility import InfeasibleError
from privglasso.recover.graphical_lasso import graphical_lasso

BOTH = [DPRidgePrecision, DPGraphicalLasso]


def table(n=400, p=3, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, p))


def with_budget(kind, **changes):
    return kind(
        **{"alpha": 0.2, "norm_bound": 2.0, "mu": 2.0, "random_state": 0} | changes
    )


@pytest.mark.filterwarnings("ignore:Skipping check", "ignore:.*does not inherit")
@pytest.mark.parametrize(
    "estimator",
    [
        DPRidgePrecision(norm_bound=10.0, mu=50.0, random_state=0),
        DPGraphicalLasso(30.0, norm_bound=10.0, mu=50.0, random_state=0),
    ],
)
def test_scikit_learn_conventions(estimator):
    check_estimator(estimator)


# the closed form


@pytest.mark.parametrize("seed", range(2))
def test_ridge_is_the_minimiser(seed):
    """Against a general optimiser, which searches Θ = LL' for a factor L, at a matrix
    that may be indefinite."""
    rng = np.random.default_rng(seed)
    A, alpha = rng.standard_normal((3, 3)), 0.3
    S, lower = A + A.T, np.tril_indices(3)

    def objective(x):
        L = np.zeros((3, 3))
        L[lower] = x
        Theta = L @ L.T
        return (
            -np.linalg.slogdet(Theta)[1] + np.vdot(S, Theta) + alpha * (Theta**2).sum()
        )

    start = np.eye(3)[lower]
    found = minimize(objective, start, method="BFGS", options={"gtol": 1e-8})
    L = np.zeros((3, 3))
    L[lower] = found.x
    np.testing.assert_allclose(L @ L.T, ridge_precision(S, alpha), atol=1e-4)


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-12, 1e6))
def test_closed_form_of_one_column(phi, alpha):
    theta = ridge_precision([[phi]], alpha)[0, 0]
    assert theta > 0 and np.isfinite(theta)
    terms = np.array([phi * theta, 2 * alpha * theta**2, -1.0])
    assert abs(terms.sum()) < 1e-12 * np.abs(terms).max()


def test_ridge_is_symmetric_and_positive_definite_at_any_scale():
    """To the last digit, and where the square of an eigenvalue is no floating-point
    number."""
    A = np.random.default_rng(0).standard_normal((40, 40))
    Theta = ridge_precision(A + A.T, 1e-6)
    assert np.array_equal(Theta, Theta.T) and np.linalg.eigvalsh(Theta)[0] > 0
    np.testing.assert_allclose(
        np.diag(ridge_precision(np.diag([1e200, -1e200]), 1.0)),
        [1e-200, 5e199],
        rtol=1e-12,
    )


def test_ridge_input():
    with pytest.raises(InputError, match="symmetric"):
        ridge_precision([[1.0, 2.0], [0.0, 1.0]], 1.0)
    with pytest.raises(InputError, match="alpha"):
        ridge_precision(np.eye(2), 0.0)
    frozen = np.asfortranarray(np.diag([1.0, 2.0]))
    frozen.flags.writeable = False
    assert np.allclose(
        ridge_precision(frozen, 1.0), np.diag(np.diag(ridge_precision(frozen, 1.0)))
    )


# bounds


@pytest.mark.parametrize("p", [1, 3, 7])
@pytest.mark.parametrize("alpha", [1e-4, 2.0])
def test_change_bound_holds(p, alpha):
    """Ridge estimates of 500 random pairs of matrices, most of them indefinite; 3000
    cases over the parameters."""
    rng = np.random.default_rng([p, int(alpha * 1e4)])
    pair = rng.standard_normal((2, 500, p, p)) * 10 ** rng.uniform(
        -2, 1, (2, 500, 1, 1)
    )
    S, E = pair + pair.swapaxes(-1, -2)
    first, second = (
        np.array([ridge_precision(M, alpha) for M in matrices])
        for matrices in (S, S + E)
    )
    moved = np.linalg.norm(second - first, axis=(1, 2))
    assert (moved <= ridge_change_bound(E, alpha, first, second) * (1 + 1e-6)).all()
    assert (moved <= np.linalg.norm(E, axis=(1, 2)) / (2 * alpha) * (1 + 1e-6)).all()


def lasso_case(rng):
    """Error, and its bound, for a random sparse precision and noise of a random size;
    None where the bound is infinite."""
    p = int(rng.integers(1, 5))
    factor = np.eye(p) + np.tril(
        rng.uniform(-0.5, 0.5, (p, p)) * (rng.random((p, p)) < 0.4), -1
    )
    precision = factor @ factor.T
    size = 10 ** rng.uniform(-3.5, -1)
    alpha = 2 * size * rng.uniform(1, 2)
    bound = lasso_error_bound(alpha, precision)
    if not np.isfinite(bound):
        return None
    noise = np.triu(rng.choice([-size, size], (p, p)))
    S = np.linalg.inv(precision) + noise + np.triu(noise, 1).T
    return (
        np.linalg.norm(graphical_lasso(S, alpha, tol=1e-9).precision - precision),
        bound,
    )


def test_lasso_error_bound_holds():
    "Three thousand random cases, noise at the corners of what is allowed."
    rng, cases = np.random.default_rng(0), []
    while len(cases) < 3000:
        if (case := lasso_case(rng)) is not None:
            cases.append(case)
    error, bound = np.array(cases).T
    assert (error <= bound * (1 + 1e-6)).all() and (error > 0.3 * bound).any()


def test_lasso_error_bound_says_where_it_says_nothing():
    assert lasso_error_bound(1.0, np.eye(5)) == np.inf
    with pytest.raises(InputError, match="alpha"):
        lasso_error_bound(-1.0, np.eye(5))
    with pytest.raises(InputError, match="positive definite"):
        lasso_error_bound(0.1, np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_sensitivity_is_attained_and_never_exceeded():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2, 5000, 3))
    x, y = (
        rows
        / np.linalg.norm(rows, axis=2, keepdims=True)
        * rng.random((2, 5000, 1)) ** 0.1
    )
    moved = np.linalg.norm(
        x[:, :, None] * x[:, None] - y[:, :, None] * y[:, None], axis=(1, 2)
    )
    assert 0.99 * np.sqrt(2) < moved.max() <= moment_sensitivity(1, 1.0)
    assert moment_sensitivity(10, 3.0) == pytest.approx(np.sqrt(2) * 0.9)


# calibration


@pytest.mark.parametrize("kind", BOTH)
def test_calibrations_and_noises(kind):
    """The guarantee asked for is the one kept; the papers' noise has the papers'
    standard deviation."""
    X, asked = table(), {"mu": None, "epsilon": 2.0, "delta": 0.0025, "norm_bound": 1.0}
    exact = with_budget(kind, **asked).fit(X)
    classical = with_budget(kind, **asked, calibration="classical", noise="upper").fit(
        X
    )
    assert exact.guarantee_.mu == pytest.approx(mu_gdp(2.0, 0.0025), rel=1e-6)
    assert classical.guarantee_.mu == pytest.approx(classical_mu(2.0, 0.0025), rel=1e-6)
    std = np.sqrt(classical.release_.matrix_noise_variance)
    assert std == pytest.approx(
        moment_sensitivity(400, 1.0) / classical_mu(2.0, 0.0025), rel=0.001
    )


# the estimators


def test_are_post_processing_of_the_release():
    "One seed, one release; the estimates are functions of it and of public numbers."
    X = table()
    ridge, lasso = (with_budget(kind).fit(X) for kind in BOTH)
    mechanism = CovarianceMechanism(norm_bound=2.0, mu=2.0, mean_share=0)
    released = mechanism.publish(pd.DataFrame(X, columns=["x0", "x1", "x2"]), 0).matrix
    np.testing.assert_array_equal(ridge.precision_, ridge_precision(released, 0.2))
    np.testing.assert_allclose(
        lasso.precision_, graphical_lasso(released, 0.2).precision, rtol=1e-10
    )
    np.testing.assert_allclose(
        ridge.covariance_ @ ridge.precision_, np.eye(3), atol=1e-10
    )
    assert (
        not ridge.release_.secure
        and with_budget(DPRidgePrecision, random_state=None).fit(X).release_.secure
    )


@pytest.mark.parametrize("kind", BOTH)
def test_rows_are_clipped_one_by_one(kind):
    """A row at a billion counts as much as one at the bound in its direction, and no
    other row notices."""
    X = table()
    X[0] = [2.0, 0.0, 0.0]
    far = X.copy()
    far[0] = [1e9, 0.0, 0.0]
    np.testing.assert_array_equal(
        with_budget(kind).fit(X).precision_, with_budget(kind).fit(far).precision_
    )


@pytest.mark.parametrize("kind", BOTH)
def test_shapes_and_containers(kind):
    X = table(p=2)
    plain = with_budget(kind).fit(X).precision_
    frame = with_budget(kind).fit(pd.DataFrame(X, columns=["a", "b"]))
    np.testing.assert_array_equal(plain, frame.precision_)
    assert list(frame.feature_names_in_) == ["a", "b"] and frame.release_.columns == [
        "a",
        "b",
    ]
    frozen = np.asfortranarray(X)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(plain, with_budget(kind).fit(frozen).precision_)
    assert with_budget(kind, alpha=1.0, norm_bound=1.0).fit(
        X[:, :1]
    ).precision_.shape == (1, 1)
    assert with_budget(DPRidgePrecision, norm_bound=1.0).fit(
        X[:2]
    ).precision_.shape == (2, 2)
    assert clone(frame).get_params() == frame.get_params()


@pytest.mark.parametrize("kind", BOTH)
def test_bad_arguments(kind):
    unasked = {"mu": None, "calibration": "classical"}
    for changes, name in (
        ({"norm_bound": None}, "norm_bound"),
        ({"norm_bound": -1.0}, "norm_bound"),
        ({"mu": None}, "budget"),
        ({"epsilon": 1.0, "delta": 1e-5}, "budget"),
        ({"mu": None, "epsilon": -1.0, "delta": 1e-5}, "epsilon"),
        ({"mu": None, "epsilon": 1.0, "delta": 2.0}, "delta"),
        ({"calibration": "classical"}, "mu"),
        (unasked, "epsilon"),
        (unasked | {"epsilon": 9.0, "delta": 0.01}, "epsilon"),
        ({"calibration": "exakt"}, "calibration"),
        ({"noise": "diagonal"}, "noise"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"center": [0.0, 0.0]}, "center"),
    ):
        with pytest.raises(InputError, match=name) as caught:
            with_budget(kind, **changes).fit(table())
        assert name in caught.value.argument


@pytest.mark.parametrize("kind", BOTH)
def test_bad_tables(kind):
    X = pd.DataFrame(table(), columns=["a", "b", "c"])
    with pytest.raises(InputError, match="b"):
        with_budget(kind).fit(X.assign(b=np.nan))
    with pytest.raises(ValueError, match="sample"):
        with_budget(kind).fit(table(1))


def test_lasso_says_why_there_is_no_answer():
    """A penalty too small for the noise, and a variance lost in it; the release is
    kept, for its budget is spent."""
    model = with_budget(
        DPGraphicalLasso, alpha=1e-3, mu=0.05, norm_bound=1.0, random_state=3
    )
    with pytest.raises((InfeasibleError, CovarianceError)):
        model.fit(table(60, 12))
    assert model.release_.n == 60
    with_budget(DPRidgePrecision, alpha=1e-3, mu=0.05, norm_bound=1.0).fit(
        table(60, 12)
    )
