"""The frontier's study and figure: what the chapter does not show."""

import numpy as np
import pandas as pd
import pytest

from privglasso.data_sets.synthetic import chain_precision
from privglasso.experiments.frontier import (
    epsilon_reaching,
    frontier_figure,
    recovery_auc,
)
from privglasso.recover.planning import MECHANISMS

SIGMA = np.linalg.inv(chain_precision())
TRUTH = np.eye(20, k=1, dtype=bool) | np.eye(20, k=-1, dtype=bool)


# ---------------------------------------------------------------------- the score


def test_the_population_is_ranked_perfectly():
    assert recovery_auc(lambda: SIGMA, TRUTH) == 1


def test_units_do_not_change_the_ranking():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (20, 20))
    noisy = SIGMA + (noise + noise.T) * np.sqrt(
        np.outer(np.diag(SIGMA), np.diag(SIGMA))
    )
    units = np.outer(*[10.0 ** rng.integers(-3, 3, 20)] * 2)
    assert recovery_auc(lambda: noisy, TRUTH) == pytest.approx(
        recovery_auc(lambda: noisy * units, TRUTH), abs=0.02
    )


def test_nothing_left_is_a_coin():
    lost = SIGMA.copy()
    lost[3, 3] = -1
    assert recovery_auc(lambda: lost, TRUTH) == 0.5  # a column without variance
    hopeless = np.eye(20) + 9 * (1 - np.eye(20)) * np.where(
        np.add.outer(range(20), range(20)) % 2, 1, -1
    )
    assert (
        recovery_auc(lambda: hopeless, TRUTH) == 0.5
    )  # no graph but the empty one has a solution


def test_other_faults_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        recovery_auc(lambda: 1 / 0, TRUTH)


# ---------------------------------------------------------------------- the study


# ---------------------------------------------------------------------- its summary


def made_up(scores):
    "Rows of a study in which both relations have these scores, by mechanism and ε."
    return pd.DataFrame(
        [
            {
                "n": 1000,
                "seed": seed,
                "neighbors": neighbors,
                "mechanism": name,
                "epsilon": epsilon,
                "auc": auc,
            }
            for seed in range(2)
            for neighbors in ("record", "cell")
            for name, curve in scores.items()
            for epsilon, auc in curve.items()
        ]
    )


def test_the_least_epsilon_is_where_the_score_stays():
    results = made_up(
        {
            "table": {1: 0.5, 10: 0.6, 100: 0.7},
            "covariance": {1: 0.96, 10: 0.9, 100: 0.99},
            "synthetic": {1: 0.95, 10: 0.97, 100: 1.0},
        }
    )
    least = epsilon_reaching(results, 0.95)
    assert least.loc[("record", 1000)].tolist() == [
        np.inf,
        100,
        1,
    ]  # a score that falls again does not count
    assert epsilon_reaching(results, 0.65).loc[("cell", 1000)].tolist() == [100, 1, 1]


def test_the_figure_has_a_panel_for_each_number_of_records_and_relation():
    results = pd.concat(
        [
            made_up({name: {1: 0.5, 10: 0.9} for name in MECHANISMS}).assign(n=n)
            for n in (1000, 2500)
        ]
    )
    raw = pd.DataFrame(
        [
            {
                "n": n,
                "seed": 0,
                "neighbors": "none",
                "mechanism": "raw",
                "epsilon": np.inf,
                "auc": 1.0,
            }
            for n in (1000, 2500)
        ]
    )
    figure = frontier_figure(pd.concat([results, raw]))
    assert len(figure.axes) == 4
    assert [ax.get_title() for ax in figure.axes[:2]] == ["n = $10^3$", "n = 2 500"]
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        *MECHANISMS,
        "raw data",
        "guessing",
    }
