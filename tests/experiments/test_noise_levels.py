"""The experiments' common ground: decibels, grids of penalties and scores, where the
chapter does not look."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privglasso.base.graphs import support
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.experiments.noise_levels import (
    alpha_grid,
    noise_ratio,
    publish_at_snr,
    recover,
    score_recovery,
    snr_to_sigma,
    standardised,
)
from privglasso.publish.noise_correction import CovarianceError
from privglasso.recover.feasibility import min_feasible_alpha
from privglasso.recover.graphical_lasso import graphical_lasso_path
from privglasso.recover.textbook import largest_alpha

TABLE = np.random.default_rng(0).normal(3, [1, 10, 0.1], (300, 3))


@given(st.floats(-300, 300), st.floats(-3, 3))
def test_twenty_decibels_are_a_factor_of_ten(snr_db, exponent):
    scale = 10.0**exponent
    np.testing.assert_allclose(
        snr_to_sigma(scale * TABLE, snr_db),
        scale * TABLE.std(axis=0) * noise_ratio(snr_db),
    )
    assert noise_ratio(snr_db) * noise_ratio(-snr_db) == pytest.approx(1)


def test_levels_that_are_none():
    for level in [np.nan, np.inf, 301, -301, 1e6, -1e6, "20", None, True]:
        with pytest.raises(InputError, match="snr_db"):
            snr_to_sigma(TABLE, level)


def test_tables_without_signal():
    for table in [
        np.full((5, 2), 0.1),
        np.c_[TABLE[:, 0], np.zeros(300)],
        TABLE[:0],
        TABLE[:1],
        "table",
        TABLE[:, 0],
        np.where(TABLE > 4, np.nan, TABLE),
        pd.DataFrame({"a": TABLE[:, 0], "b": "x"}),
    ]:
        with pytest.raises(InputError, match="table"):
            snr_to_sigma(table, 20)


def test_a_release_promises_nothing_and_repeats():
    table = pd.DataFrame(TABLE, columns=list("abc"))
    table.to_numpy().flags.writeable = False
    one, two = (publish_at_snr(table, (-50, 50), 10, random_state=1) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    assert list(one.columns) == list("abc") and one.guarantee.epsilon(1e-5) == np.inf
    np.testing.assert_allclose(one.noise_variance, TABLE.var(axis=0) / 10, rtol=0.01)


def test_noise_that_leaves_nothing_is_told():
    with pytest.raises(CovarianceError):
        recover(TABLE, 1e6)


def test_penalties_fall_from_the_empty_graph():
    S = np.corrcoef(
        sample_gaussian(chain_precision(6), 200, random_state=0), rowvar=False
    )
    alphas = alpha_grid(S, 7)
    assert len(alphas) == 7 and (np.diff(alphas) < 0).all()
    assert alphas[0] == pytest.approx(np.abs(S - np.eye(6)).max()) and alphas[
        -1
    ] == pytest.approx(alphas[0] / 1e4)
    with pytest.raises(InputError, match="no two columns are correlated"):
        alpha_grid(np.eye(3), 7)


def test_scores_do_not_depend_on_units():
    precision = chain_precision(6)
    rows = sample_gaussian(precision, 500, random_state=3)
    units = 10.0 ** np.array([-2, 0, 3, 1, -1, 0])
    truth = support(precision)
    scores = score_recovery(recover(rows, 0.0), truth, precision)
    scaled = score_recovery(
        recover(rows * units, 0.0), truth, precision / np.outer(units, units)
    )
    assert scaled == pytest.approx(scores, abs=1e-3)
    assert scores["found"] + scores["missed"] == 5
    own = standardised(precision, precision)
    np.testing.assert_allclose(np.diag(np.linalg.inv(own)), 1)


def test_a_grid_ends_where_solutions_end():
    rng = np.random.default_rng(
        265
    )  # of 39 such tables the one whose threshold is above half the largest penalty
    p = int(rng.integers(2, 15))
    X = rng.standard_normal((2, max(3, p // 2), p)).sum(axis=0)
    S = X.T @ X / len(X) - np.eye(p)
    scale = np.sqrt(np.diag(S))
    S = S / np.outer(scale, scale)
    grid = alpha_grid(S, 5)
    assert (
        min_feasible_alpha(S).lower > largest_alpha(S) / 2
        and grid[-1] >= min_feasible_alpha(S).upper
    )
    assert len(graphical_lasso_path(S, grid)) == 5
