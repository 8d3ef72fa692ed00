"""Choosing lambda: penalty tables and rules, beyond what the chapter shows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import GraphicalLassoCV, graphical_lasso
from sklearn.model_selection import KFold

from privglasso.base.settings import SettingsError
from privglasso.base.validation import InputError
from privglasso.data_sets.dataset import DataError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.experiments.choosing_lambda import (
    CHOOSING_LAMBDA,
    choose,
    choosing_lambda_run,
    held_out_criteria,
    penalty_table,
    squared_error_ceiling,
)
from privglasso.experiments.table2 import PAPER_DATA, PaperData, chosen_penalties
from privglasso.experiments.table2 import clean_table
from privglasso.publish.noise_correction import (
    CovarianceError,
    SamplingError,
    sample_covariance,
)

TRUTH = chain_precision(5, 0.4, scales=np.ones(5))


@pytest.fixture(scope="module")
def rows():
    return pd.DataFrame(sample_gaussian(TRUTH, 300, 1), columns=list("abcde"))


@pytest.fixture
def small(monkeypatch, rows):
    "A small table in the place of one of the paper's."
    table = rows - rows.mean()
    monkeypatch.setitem(
        PAPER_DATA,
        "small",
        PaperData("soil", lambda: table, lambda: TRUTH != 0, False, False),
    )
    yield table
    clean_table.cache_clear()
    chosen_penalties.cache_clear()


# the ceiling


def test_ceiling_of_gaussian_rows():
    variance = SamplingError(((np.eye(10), 900),)).covariance_variance()
    assert squared_error_ceiling(variance) == pytest.approx(np.sqrt(9 / 900))
    assert squared_error_ceiling([[3.0]]) == 0  # one column: nothing to shrink


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_ceiling_grows_with_the_noise_and_shrinks_with_the_rows(noise):
    covariance = np.linalg.inv(TRUTH)
    ceilings = [
        squared_error_ceiling(
            SamplingError(((covariance + noise * np.eye(5), n),)).covariance_variance()
        )
        for n in (100, 10_000)
    ]
    assert ceilings[0] == pytest.approx(10 * ceilings[1])
    assert noise == 0 or ceilings[0] > squared_error_ceiling(
        SamplingError(((covariance, 100),)).covariance_variance()
    )


def test_bad_variances():
    for variance, message in [
        ([[1.0, -1.0], [-1.0, 1.0]], "at least 0"),
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
    ]:
        with pytest.raises(InputError, match=message):
            squared_error_ceiling(variance)


# criteria


def test_criteria_of_one_split_by_hand():
    fitted, held_out = (
        np.array([[2.0, 0.5], [0.5, 1.0]]),
        np.array([[3.0, 0.0], [0.0, 1.5]]),
    )
    criteria = held_out_criteria(fitted, held_out, np.array([1.0, 0.5]))
    assert criteria["mse"] == pytest.approx((0 + 0.25 + 0.25 + 0) / 4)
    assert criteria["mse_noisy"] == pytest.approx((1 + 0.25 + 0.25 + 0.25) / 4)
    assert criteria["mse_off"] == pytest.approx(0.5 / 4)
    precision, corrected = np.linalg.inv(fitted), np.diag([2.0, 1.0])
    likelihood = (np.linalg.slogdet(precision)[1] - np.trace(corrected @ precision)) / 2
    assert criteria["likelihood"] == pytest.approx(likelihood)


def test_a_table_agrees_with_scikit_learn(rows):
    """Diagonal free, no noise: edges, likelihood and squared error of scikit-learn's
    solver on the same folds."""
    found = penalty_table(rows, np.zeros(5), 8, penalize_diagonal=False).set_index(
        "alpha"
    )
    alphas = found.index[:5].tolist()
    theirs = dict.fromkeys(alphas, 0.0)
    for train, test in KFold(5).split(rows):
        moments = sample_covariance(rows.iloc[test], rows.iloc[train].mean().to_numpy())
        for alpha in alphas:
            fitted = graphical_lasso(
                sample_covariance(rows.iloc[train]), alpha, tol=1e-9, enet_tol=1e-9
            )[0]
            theirs[alpha] += np.mean((fitted - moments) ** 2) / 5
    assert found.mse[alphas].to_numpy() == pytest.approx(
        list(theirs.values()), rel=1e-4
    )
    model = GraphicalLassoCV(alphas=alphas, cv=5, tol=1e-8, enet_tol=1e-8).fit(rows)
    best = np.argmax(model.cv_results_["mean_test_score"])
    assert model.cv_results_["alphas"][best] == pytest.approx(
        found.likelihood[alphas].idxmax()
    )


def test_a_table_runs_from_the_empty_graph_down(rows):
    found = penalty_table(rows, np.zeros(5), 10, TRUTH != 0)
    assert len(found) == 10 and found.alpha.is_monotonic_decreasing
    assert found.alpha.iloc[0] / found.alpha.iloc[-1] == pytest.approx(1e4)
    assert found.n_edges.iloc[0] == 0 and found.n_edges.iloc[-1] >= 4
    assert (found.found + found.extra == found.n_edges).all() and found.auc.between(
        0, 1
    ).all()
    assert found.mse.equals(found.mse_noisy)  # no noise, no difference


def test_without_a_true_graph_nothing_is_scored(rows):
    assert "extra" not in penalty_table(rows, np.zeros(5), 3).columns


def test_columns_of_different_units_keep_their_own_scale(rows):
    "All in metres or all in millimetres: the same rows of the table."
    metres, millimetres = (
        penalty_table(rows, np.zeros(5), 6),
        penalty_table(1000 * rows, np.zeros(5), 6),
    )
    assert millimetres.alpha.to_numpy() == pytest.approx(1e6 * metres.alpha.to_numpy())
    assert (
        millimetres.n_edges == metres.n_edges
    ).all() and millimetres.mse.idxmin() == metres.mse.idxmin()


def test_penalties_without_a_solution_are_missing():
    rng = np.random.default_rng(0)
    noisy = pd.DataFrame(sample_gaussian(TRUTH, 40, 3) + rng.normal(size=(40, 5)))
    found = penalty_table(noisy, np.ones(5), 12)
    assert found.mse.isna().any() and found.mse.notna().any()
    assert np.isfinite(choose(found, "squared error").mse)


def test_noise_as_large_as_the_data_is_refused(rows):
    with pytest.raises(CovarianceError):
        penalty_table(rows, np.full(5, 100.0), 5)


def test_noise_in_the_held_out_rows_draws_the_penalty_to_its_variance():
    "One pair of twenty columns is correlated: 20 (λ - 0.2)² + 2 λ² is least at 0.18."
    covariance, rng = np.eye(20), np.random.default_rng(5)
    covariance[0, 1] = covariance[1, 0] = 0.5
    signal = sample_gaussian(np.linalg.inv(covariance), 20_000, 4)
    table = pd.DataFrame(signal + np.sqrt(0.2) * rng.normal(size=signal.shape))
    found = penalty_table(table, np.full(20, 0.2), 40)
    assert choose(found, "squared error").alpha < 0.05
    assert 0.14 < choose(found, "held-out rows noisy").alpha < 0.23


# rules

CURVE = pd.DataFrame(
    {
        "alpha": [0.8, 0.4, 0.2, 0.1],
        "n_edges": [0, 0, 2, 6],
        "mse": [0.9, 0.3, 0.35, 0.31],
        "mse_noisy": [0.1, 0.2, 0.3, 0.4],
        "mse_off": [0.4, 0.3, 0.1, 0.2],
        "likelihood": [-4.0, -3.0, -2.0, np.nan],
        "ebic": [5.0, 4.0, np.nan, np.nan],
        "simultaneous": [0.3] * 4,
    }
)


def test_each_rule_picks_its_row():
    for rule, alpha in [
        ("squared error", 0.4),
        ("squared error, with an edge", 0.1),
        ("first drop", 0.1),
        ("held-out rows noisy", 0.8),
        ("off the diagonal", 0.2),
        ("likelihood", 0.2),
        ("extended BIC", 0.4),
        ("simultaneous", 0.4),
    ]:
        assert choose(CURVE, rule).alpha == alpha


def test_the_least_error_survives_missing_penalties():
    assert (
        choose(CURVE.assign(mse=[np.nan, np.nan, 0.2, np.nan]), "squared error").alpha
        == 0.2
    )


def test_a_rule_without_a_value_says_which_is_missing():
    for rule, column in [
        ("likelihood", "likelihood"),
        ("extended BIC", "ebic"),
        ("first drop", "mse"),
        ("simultaneous", "alpha"),
    ]:
        blank = CURVE.assign(
            mse=np.nan, likelihood=np.nan, ebic=np.nan, simultaneous=1.0
        )
        with pytest.raises(InputError, match=f"{column}.*missing at every penalty"):
            choose(blank, rule)


def test_an_array_is_a_table_and_no_penalties_are_none(rows):
    pd.testing.assert_frame_equal(
        penalty_table(rows.to_numpy(), np.zeros(5), 3),
        penalty_table(rows, np.zeros(5), 3),
    )
    for count in (0, 2.5, None):
        with pytest.raises(InputError, match="count"):
            penalty_table(rows, np.zeros(5), count)
    with pytest.raises(InputError, match="noise_variance"):
        penalty_table(rows, np.zeros(4), 3)


def test_an_unknown_rule_is_named():
    with pytest.raises(InputError, match="choose from .*squared error"):
        choose(CURVE, "elbow")


# the study


def test_an_unknown_data_set_in_the_settings(monkeypatch):
    monkeypatch.delitem(PAPER_DATA, "grid11")
    with pytest.raises(SettingsError, match="choosing_lambda.datasets.*grid11"):
        CHOOSING_LAMBDA.jobs("quick")


def test_missing_data_are_said(monkeypatch):
    def absent():
        raise DataError("not here")

    monkeypatch.setitem(
        PAPER_DATA, "absent", PaperData("soil", absent, None, False, False)
    )
    assert choosing_lambda_run("absent", 20.0, 1, 5) == [
        {"dataset": "absent", "snr_db": 20.0, "seed": 1, "way": "none"}
    ]


def test_rows_of_one_release(small):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = pd.DataFrame(choosing_lambda_run("small", 10.0, 1, 12))
        again = pd.DataFrame(choosing_lambda_run("small", 10.0, 1, 12))
    pd.testing.assert_frame_equal(rows, again)
    assert set(rows.groupby("way").size()) == {12} and rows.way.nunique() == 6
    printed, ignored = (
        rows[rows.way == way].reset_index() for way in ("as printed", "noise ignored")
    )
    assert (printed.mse < printed.mse_noisy).any() and ignored.mse.equals(
        ignored.mse_noisy
    )
    assert (
        printed.simultaneous.notna().all()
        and printed.ebic.notna().any()
        and ignored.ebic.isna().all()
    )
    assert (
        printed.ceiling.nunique() == 1
        and choose(printed, "squared error").alpha < printed.ceiling[0]
    )


def test_without_noise_ignoring_it_changes_nothing(small):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = pd.DataFrame(choosing_lambda_run("small", None, 1, 6)).drop(
            columns=["ebic", "simultaneous", "ceiling"]
        )
    printed, ignored = (
        rows[rows.way == way].drop(columns="way").reset_index(drop=True)
        for way in ("as printed", "noise ignored")
    )
    pd.testing.assert_frame_equal(printed, ignored)
