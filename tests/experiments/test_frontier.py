"""The frontier's study and figure: what the chapter does not show."""

import numpy as np
import pandas as pd
import pytest

from privglasso.experiments.frontier import FRONTIER, epsilon_reaching, frontier_figure
from privglasso.experiments.frontier import recovery_auc
from privglasso.recover.planning import MECHANISMS
from privglasso.base.settings import setting
from privglasso.data_sets.synthetic import chain_precision

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


def test_jobs_have_seeds_of_their_own_and_every_setting():
    for profile in ("quick", "full"):
        jobs = FRONTIER.jobs(profile)
        ns, seeds = (
            setting(f"frontier.{key}", [int], profile) for key in ("n", "seeds")
        )
        counts = dict(zip(ns, seeds, strict=True))
        assert len(jobs) == sum(counts.values())
        assert {n: sum(job["n"] == n for job in jobs) for n in counts} == counts
        assert len({(job["n"], job["seed"]) for job in jobs}) == len(jobs)


def test_a_run_has_a_row_for_everything_and_repeats():
    rows, again = (
        pd.DataFrame(FRONTIER.run(n=300, seed=3, epsilons=[1.0, 1000.0]))
        for _ in range(2)
    )
    pd.testing.assert_frame_equal(rows, again)
    assert len(rows) == 1 + 2 * 2 * len(MECHANISMS)
    private = rows[rows.mechanism != "raw"]
    assert (
        private.groupby(["neighbors", "epsilon"]).mechanism.nunique() == len(MECHANISMS)
    ).all()
    assert private.auc.between(0, 1).all() and rows.auc.iloc[0] > 0.9
    best = private[private.epsilon == 1000].set_index(["neighbors", "mechanism"]).auc
    assert best["record", "covariance"] > 0.8 and best["cell", "table"] > 0.8


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
