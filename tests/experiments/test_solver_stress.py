"""The referee of the stress study refuses what is wrong; problems are what they are
said to be, and repeatable."""

import numpy as np
import pandas as pd
import pytest

from privglasso.experiments import solver_stress
from privglasso.experiments.solver_stress import (
    hard_problem,
    is_refusal,
    proved_gap,
    stress,
)
from privglasso.recover.feasibility import (
    ConvergenceError,
    InfeasibleError,
    min_feasible_alpha,
)
from privglasso.recover.graphical_lasso import graphical_lasso

SEEDS = range(7000, 7020)


def test_problems_are_hard_and_repeatable():
    for seed in SEEDS:
        problem = hard_problem(seed)
        S, weights = problem["S"], problem["weights"]
        assert (
            5 <= problem["p"] == len(S) <= 100
            and 0.5 * problem["p"] - 1 <= problem["n"] <= 5 * problem["p"] + 1
        )
        assert -5 <= problem["snr_db"] <= 20 and 0.3 <= problem["ratio"] <= 30
        assert np.linalg.eigvalsh(S)[0] < 0 and np.array_equal(S, S.T)
        assert weights is None or (
            np.array_equal(weights, weights.T) and weights.min() >= 1 / 3 - 1e-12
        )
        assert np.array_equal(S, hard_problem(seed)["S"])


def test_every_ending_is_verified():
    rows = pd.DataFrame([stress(seed) for seed in SEEDS])
    assert rows.verified.all() and (rows.warnings == 0).all()
    assert (rows.ending[rows.over_upper > 1.1] == "solved").all()
    assert (rows.ending[rows.over_lower < 0.9] == "infeasible").all()
    assert {"solved", "infeasible"} <= set(rows.ending)


def test_the_referee_sees_every_kind_of_fault():
    problem = hard_problem(7001)
    S, p = problem["S"], problem["p"]
    bounds = min_feasible_alpha(S)
    alpha = 2 * bounds.upper
    penalties, result = np.full((p, p), alpha), graphical_lasso(S, alpha)
    Z, W = result.precision, result.dual_covariance
    assert proved_gap(S, penalties, Z, W) == pytest.approx(result.dual_gap, abs=1e-9)
    crooked = Z.copy()
    crooked[0, 1] += 1e-12
    for bad, dual in (
        (crooked, W),
        (-Z, W),
        (Z, W + 1.1 * alpha),
        (Z, S),
        (Z - 2 * Z[0, 0] * np.eye(p), W),
    ):
        assert proved_gap(S, penalties, bad, dual) == np.inf
    assert proved_gap(S, penalties, Z + 0.1 * np.eye(p), W) > 1e-6 * p
    V = bounds.certificate
    assert is_refusal(S, np.full((p, p), 0.99 * bounds.lower), V)
    assert not is_refusal(S, np.full((p, p), 1.01 * bounds.lower), V)
    assert not is_refusal(
        S, np.full((p, p), 0.5 * bounds.lower), V - 2 * np.trace(V) * np.eye(p)
    )


@pytest.mark.parametrize(
    "answer, ending, verified",
    [
        (InfeasibleError(1.0, np.inf, np.inf, np.zeros((2, 2))), "infeasible", False),
        (ConvergenceError(1.0, 2.0, 0.5), "undecided", True),
    ],
)
def test_lies_are_recorded(answer, ending, verified, monkeypatch):
    def lie(*args, **options):
        raise answer

    monkeypatch.setattr(solver_stress, "graphical_lasso", lie)
    row = stress(7002)
    assert (row["ending"], row["verified"]) == (ending, verified)


def test_a_wrong_solution_is_recorded(monkeypatch):
    other = graphical_lasso(np.eye(hard_problem(7003)["p"]), 0.1)
    monkeypatch.setattr(
        solver_stress, "graphical_lasso", lambda *args, **options: other
    )
    assert not stress(7003)["verified"]
