"""Neighbourhoods, SCIO and the Wishart prior: scikit-learn's lasso, optimality
conditions, all releases, bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, wishart
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import check_estimator

from privglasso.base.graphs import support
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.noise_correction import (
    CovarianceError,
    correlation_scale,
    sample_covariance,
)
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import GaussianMechanism
from privglasso.recover.baselines import (
    SCIO,
    NeighborhoodSelection,
    WishartPrior,
    neighborhood_path,
    scio_path,
    wishart_path,
)
from privglasso.recover.feasibility import min_feasible_alpha, nearest_psd
from privglasso.recover.metrics import auc_by_path_entry, confusion

TRUTH = chain_precision(8, 0.35, scales=np.ones(8))
ROWS = sample_gaussian(TRUTH, 4000, random_state=1)
MODELS = [NeighborhoodSelection, SCIO, WishartPrior]
INDEFINITE = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.3], [0.9, 0.3, 1.0]])


def random_correlation(seed, p=9, n=15):
    "Correlations of few rows of dependent columns."
    rng = np.random.default_rng(seed)
    return correlation_scale(
        sample_covariance(rng.normal(size=(n, p)) @ rng.normal(size=(p, p)))
    )[0]


@pytest.mark.filterwarnings("ignore:Skipping check", "ignore:.*does not inherit")
@pytest.mark.parametrize(
    "estimator", [NeighborhoodSelection(), SCIO(0.3), WishartPrior()]
)
def test_scikit_learn_conventions(estimator):
    check_estimator(estimator)


# the column problems


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01])
def test_neighbourhoods_are_scikit_learns_lassos(seed, alpha):
    X = np.random.default_rng(seed).normal(size=(60, 6)) @ np.random.default_rng(
        seed + 100
    ).normal(size=(6, 6))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    B = np.zeros((6, 6))
    for j in range(6):
        others = np.arange(6) != j
        B[others, j] = (
            Lasso(alpha, fit_intercept=False, tol=1e-12, max_iter=100_000)
            .fit(X[:, others], X[:, j])
            .coef_
        )
    residual = np.mean((X - X @ B) ** 2, axis=0)
    precision = (np.eye(6) - B) / residual
    both = (B != 0) & (B.T != 0)
    for rule, pick, edges in (
        ("and", np.minimum, both),
        ("or", np.maximum, (B != 0) | (B.T != 0)),
    ):
        found = neighborhood_path(X.T @ X / 60, [alpha], rule)[0].precision
        off = ~np.eye(6, dtype=bool)
        np.testing.assert_array_equal(support(found), edges & off)
        np.testing.assert_allclose(
            np.abs(found)[off],
            pick(np.abs(precision), np.abs(precision.T))[off],
            atol=1e-6,
        )
        np.testing.assert_allclose(np.diag(found), 1 / residual, rtol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-4, 0.9))
def test_scio_meets_its_conditions(seed, alpha):
    """SCIO's columns before symmetrisation satisfy |S b - e| <= alpha, so an entry kept
    is in reach of one of them."""
    from privglasso.recover.baselines import _columns, _definite

    S = _definite(random_correlation(seed))[0]
    B = _columns(S, np.eye(9), alpha, False, np.zeros((9, 9)))
    gradient = np.eye(9) - S @ B
    assert np.abs(gradient).max() <= alpha * (1 + 1e-5)
    np.testing.assert_allclose(gradient[B != 0], alpha * np.sign(B[B != 0]), rtol=1e-4)
    found = scio_path(S, [alpha])[0].precision
    np.testing.assert_allclose(
        np.abs(found), np.minimum(np.abs(B), np.abs(B.T)), atol=1e-6 * np.abs(B).max()
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 0.5))
def test_a_path_is_the_same_from_a_cold_start(seed, alpha):
    S = random_correlation(seed, n=40)
    for path in (neighborhood_path, scio_path):
        warm, cold = (
            path(S, [0.8, 0.4, 2 * alpha / 3, alpha])[-1],
            path(S, [2 * alpha / 3])[0],
        )
        assert warm.alpha == cold.alpha
        np.testing.assert_allclose(
            warm.precision, cold.precision, atol=1e-6 * np.abs(cold.precision).max()
        )


def test_nearly_collinear_columns_are_solved_exactly():
    S = 0.99999 + 1e-5 * np.eye(20)
    S = S + 1e-7 * random_correlation(0, 20, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        neighborhood_path(S, np.geomspace(0.9, 1e-4, 15))
        scio_path(S, np.geomspace(0.9, 1e-4, 15))


def test_what_was_not_solved_is_said(monkeypatch):
    monkeypatch.setattr("privglasso.recover.baselines._MOVES", 0)
    with pytest.warns(ConvergenceWarning, match="missed by"):
        scio_path(random_correlation(1, n=40), [0.1])


# the prior


def test_the_wishart_posterior_is_conjugate():
    "Weights n and nu, and the mean of SciPy's posterior law."
    S, n, rows = random_correlation(2, n=40), 40, 12
    mean = wishart(n + rows, np.linalg.inv(n * S + rows * np.eye(9))).mean()
    np.testing.assert_allclose(
        wishart_path(S, [rows / (n + rows)])[0].precision, mean, rtol=1e-8
    )


def test_its_z_scores_are_the_posteriors():
    """Without noise and for many rows the standard deviation is that of the posterior's
    draws."""
    model = WishartPrior(10).fit(ROWS)
    n, M = len(ROWS) + 10, model.posterior_mean_
    posterior = np.sqrt((np.outer(np.diag(M), np.diag(M)) + M**2) / n)
    off = ~np.eye(8, dtype=bool)
    np.testing.assert_allclose(model.z_scores_[off], (M / posterior)[off], rtol=0.02)
    assert (np.diag(model.z_scores_) == 0).all()


def test_false_edges_at_the_rule_are_rare():
    """Independent columns, 150 tables: every rule errs in at most about 5 % (P[more
    than 20 of 150] < 1e-4)."""
    for model in (WishartPrior(), NeighborhoodSelection(rule="or"), SCIO()):
        wrong = 0
        for seed in range(150):
            rows = np.random.default_rng([seed, 7]).normal(size=(500, 5))
            wrong += support(clone(model).fit(rows).precision_).any()
        assert wrong <= 20, type(model).__name__


# releases


@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_release(model):
    table = pd.DataFrame(ROWS, columns=list("abcdefgh"))
    for mechanism in (
        GaussianMechanism((-8, 8), sigma=1.0),
        CovarianceMechanism((-5, 5), mu=2.0, clipping="box"),
        SyntheticDataMechanism((-5, 5), mu=2.0, clipping="box"),
    ):
        release = mechanism.publish(table, random_state=0)
        fitted = model().fit(release)
        np.testing.assert_array_equal(
            fitted.corrected_covariance_, release.corrected_covariance()
        )
        assert list(fitted.graph_.nodes) == list("abcdefgh")
        assert confusion(fitted.precision_, TRUTH).found >= 5
        assert (fitted.precision_ == fitted.precision_.T).all()
        assert len(fitted.edges_) == support(fitted.precision_).sum() / 2


@pytest.mark.parametrize("model", MODELS)
def test_units_do_not_matter(model):
    scales = np.array([1e-6, 1, 10, 1e5, 3, 0.2, 7, 1])
    plain, scaled = model().fit(ROWS), model().fit(ROWS * scales)
    np.testing.assert_allclose(
        scaled.precision_ * np.outer(scales, scales),
        plain.precision_,
        rtol=1e-5,
        atol=1e-10,
    )


@pytest.mark.parametrize(
    "model", [NeighborhoodSelection(0.3), SCIO(0.3), WishartPrior()]
)
def test_an_indefinite_matrix_is_projected_and_it_is_said(model):
    few = GaussianMechanism((-8, 8), sigma=1.0).publish(ROWS[:40], random_state=0)
    fitted = clone(model).fit(few)
    R = correlation_scale(few.corrected_covariance())[0]
    assert (
        fitted.projection_ == pytest.approx(min_feasible_alpha(R).upper, rel=0.05)
        and fitted.projection_ > 0.1
    )
    assert clone(model).fit(ROWS).projection_ == 0
    assert np.isfinite(fitted.precision_).all()


def test_paths_project_too():
    safe = nearest_psd(INDEFINITE, norm="max")
    for path in (neighborhood_path, scio_path, wishart_path):
        found, wanted = (
            path(INDEFINITE, [0.3])[0].precision,
            path(safe, [0.3])[0].precision,
        )
        off = ~np.eye(3, dtype=bool)
        np.testing.assert_allclose(found[off], wanted[off], rtol=1e-4)
        assert (np.diag(found) > 0).all()


def test_a_score_of_no_model_is_minus_infinity():
    model = WishartPrior(level=0.05).fit(ROWS)
    assert np.isfinite(model.score(ROWS))
    model.precision_ = model.precision_.copy()
    model.precision_[0, 1] = model.precision_[1, 0] = 100.0
    assert model.score(ROWS) == -np.inf
    release = CovarianceMechanism((-5, 5), mu=2.0, clipping="box").publish(
        ROWS, random_state=0
    )
    with pytest.raises(InputError, match="no rows to score"):
        model.score(release)
    with pytest.raises(NotFittedError):
        SCIO().score(ROWS)


# edge cases


def test_the_level_is_shared_by_all_pairs_of_columns():
    "Two-sided, over p(p - 1)/2 pairs: an edge at its own level, none below it."
    rows = ROWS[:40]
    z = WishartPrior().fit(rows).z_scores_
    p = len(z)
    strengths = np.sort(np.abs(z[np.triu_indices(p, 1)]))
    edge = strengths[strengths > 2.3][0]
    level = p * (p - 1) / 2 * 2 * norm.sf(edge)
    for factor, more in ((1.01, True), (0.99, False)):
        found = WishartPrior(level=level * factor).fit(rows).precision_
        assert ((found != 0) & (np.abs(z) == edge)).any() == more


@pytest.mark.parametrize("model", MODELS)
def test_one_column_two_rows_and_awkward_memory(model):
    alone = model().fit(ROWS[:, :1])
    assert alone.edges_.empty and alone.precision_.item() > 0
    two = model(0.5).fit(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert np.isfinite(two.precision_).all() and two.projection_ < 1e-6
    frozen = np.asfortranarray(ROWS)[::2]
    frozen.flags.writeable = False
    np.testing.assert_array_equal(
        model().fit(frozen).precision_, model().fit(ROWS[::2].copy()).precision_
    )


def test_more_columns_than_rows():
    wide = np.random.default_rng(0).normal(size=(10, 25))
    for model in (NeighborhoodSelection(0.4), SCIO(0.4), WishartPrior()):
        assert np.isfinite(model.fit(wide).precision_).all()


def test_metrics_read_the_paths():
    R = correlation_scale(sample_covariance(ROWS))[0]
    for path in (neighborhood_path, scio_path):
        steps = path(R, np.geomspace(0.9, 0.001, 30).tolist()[::-1])
        assert [step.alpha for step in steps] == sorted(
            (step.alpha for step in steps), reverse=True
        )
        assert auc_by_path_entry(steps, support(TRUTH)) > 0.99


def test_bad_parameters():
    for model, name in (
        (NeighborhoodSelection(0.0), "alpha"),
        (NeighborhoodSelection("x"), "alpha"),
        (NeighborhoodSelection(rule="xor"), "rule"),
        (NeighborhoodSelection(rule=["and"]), "rule"),
        (NeighborhoodSelection(level=1.0), "level"),
        (NeighborhoodSelection(noise_variance=np.ones(9)), "noise_variance"),
        (SCIO(1.0), "alpha"),
        (SCIO(0.1, noise_variance=-1.0), "noise_variance"),
        (WishartPrior(np.nan), "prior_rows"),
        (WishartPrior(1e300), "prior_rows"),
        (WishartPrior(level=0), "level"),
    ):
        with pytest.raises(InputError) as caught:
            model.fit(ROWS)
        assert caught.value.argument == name
    with pytest.raises(InputError, match="^alpha=.*more rows"):
        SCIO().fit(ROWS[:5])
    with pytest.raises(InputError, match="^X="):
        WishartPrior().fit(None)


def test_bad_arguments_of_paths():
    for path, arguments, name in (
        (neighborhood_path, ([[1.0, 0.5], [0.4, 1.0]], [0.1]), "S"),
        (neighborhood_path, (np.eye(2), []), "alphas"),
        (neighborhood_path, (np.eye(2), [0.1, -0.1]), "alphas"),
        (neighborhood_path, (np.eye(2), 0.1), "alphas"),
        (neighborhood_path, (np.eye(2), [0.1], "nor"), "rule"),
        (scio_path, (np.eye(2), [0.5, 1.0]), "alphas"),
        (scio_path, (np.diag([1.0, -1.0]), [0.5]), "S"),
        (wishart_path, (np.eye(2), [1.0]), "shares"),
        (wishart_path, (np.eye(2), []), "shares"),
        (wishart_path, (np.eye(2), [-0.5]), "shares"),
    ):
        with pytest.raises(InputError) as caught:
            path(*arguments)
        assert caught.value.argument == name


@pytest.mark.parametrize("model", MODELS)
def test_a_column_without_variance_is_named(model):
    table = pd.DataFrame({"fine": ROWS[:, 0], "flat": 1.0})
    with pytest.raises(CovarianceError, match="flat"):
        model().fit(table)
    drowned = pd.DataFrame({"fine": 10 * ROWS[:, 0], "drowned": ROWS[:, 1] / 100})
    with pytest.raises(CovarianceError, match="drowned"):
        model(noise_variance=1.0).fit(drowned)
