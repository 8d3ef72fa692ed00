"""The grid study: its jobs, scores on hand-made paths, honest guarantees, and the file
it writes."""

import warnings

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.data_sets.grids import load_grid11
from privglasso.experiments.grid_baselines import (
    common_alphas,
    grid_release,
    grid_run,
    honest_epsilons,
    method_paths,
    path_scores,
    rule_scores,
)
from privglasso.experiments.noise_levels import snr_to_sigma
from privglasso.privacy.gdp import epsilon_gdp
from privglasso.privacy.guarantee import NoGuarantee
from privglasso.publish.noise_correction import correlation_scale, sample_covariance
from privglasso.recover.baselines import ColumnwiseResult
from privglasso.recover.feasibility import InfeasibleError, min_feasible_alpha

DATA = load_grid11()
CLEAN = correlation_scale(sample_covariance(DATA.table))[0]


def test_without_noise_the_two_analysts_agree():
    rows = grid_run("grid11", 150.0, 0)
    for naive, corrected in zip(rows[:4], rows[4:], strict=True):
        assert naive["method"] == corrected["method"]
        assert naive["auc_magnitude"] == corrected["auc_magnitude"]
        assert naive["error_best"] == pytest.approx(corrected["error_best"], rel=1e-3)


def test_the_release_promises_nothing_and_the_epsilons_are_gaussian():
    data, release = grid_release("grid11", 20, 0)
    assert isinstance(release.guarantee, NoGuarantee)
    sigma, n = snr_to_sigma(data.table, 20), len(data.table)
    honest = honest_epsilons(data, 20)  # the mechanism rounds σ up to its lattice: 2e-5
    assert honest["epsilon_cell"] == pytest.approx(
        epsilon_gdp(n**-2.0, (0.2 / sigma).max()), rel=1e-4
    )
    assert honest["epsilon_record"] == pytest.approx(
        epsilon_gdp(n**-2.0, np.linalg.norm(0.2 / sigma)), rel=1e-4
    )


def test_what_is_no_grid_or_no_level_is_refused():
    with pytest.raises(InputError, match="grid.*choose from.*grid115"):
        grid_release("grid12", 20, 0)
    with pytest.raises(InputError, match="snr_db"):
        grid_release("grid11", np.inf, 0)


def test_scores_of_hand_made_paths():
    inverse = np.linalg.inv(CLEAN)
    exact = [
        ColumnwiseResult(1.0, np.diag(np.diag(inverse))),
        ColumnwiseResult(0.5, inverse * (DATA.truth | np.eye(11, dtype=bool))),
        ColumnwiseResult(0.1, inverse),
    ]
    scores = path_scores(exact, np.ones((11, 11)), DATA)
    assert scores["auc_path"] == 1 and scores["error_best"] < 1e-10
    assert scores["auc_magnitude"] == pytest.approx(
        0.993, abs=0.001
    )  # the chapter on grids: by size, not signed
    in_other_units = path_scores(exact, np.full((11, 11), 4.0), DATA)
    assert in_other_units["auc_path"] == 1 and in_other_units["error_best"] > 0.4


@pytest.mark.parametrize("shift", [0.0, -1e-3])
def test_all_methods_get_the_same_penalties(shift):
    S = CLEAN + shift * np.eye(11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths, deviations = method_paths(S, 6)
    penalties = [[step.alpha for step in path] for path in paths.values()]
    np.testing.assert_allclose(penalties, np.tile(penalties[0], (4, 1)))
    assert penalties[0][-1] > min_feasible_alpha(S).upper
    np.testing.assert_allclose(deviations**2, np.diag(S))
    assert len(common_alphas(CLEAN, 6)) == 6


def test_a_rule_without_solution_has_no_edges(monkeypatch):
    class Hopeless:
        "An estimator that never has a solution."

        def fit(self, source):
            raise InfeasibleError(0.1, np.inf, np.inf, None)

    monkeypatch.setitem(rule_scores.__globals__["_RULES"], "graphical lasso", Hopeless)
    assert rule_scores("graphical lasso", DATA.table, DATA) == {
        "found": None,
        "missed": None,
        "extra": None,
    }
