"""ADMM stopped early, side by side, and the curves of its iterates."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.settings import SettingsError
from privglasso.base.validation import InputError
from privglasso.data_sets.dataset import DataError
from privglasso.experiments import stopped_curves
from privglasso.experiments.stopped_curves import (
    STOPPED_CURVES,
    STOPPED_GRID,
    admm_path,
    noisy_moments,
    stopped_run,
)
from privglasso.papers.su_recipes import admm_iterate
from privglasso.recover.graphical_lasso import graphical_lasso

JOB = {"epsilons": [2.0], "count": 6, "iterations": 100}


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_a_path_is_its_iterates(p, seed, rounds):
    A = np.random.default_rng(seed).standard_normal((p, p)) / 10
    alphas = [1e-3, 0.02, 0.3]
    path = admm_path(A + A.T, alphas, penalty=7.0, iterations=rounds)
    for alpha, iterate in zip(alphas, path, strict=True):
        one = admm_iterate(A + A.T, alpha, penalty=7.0, iterations=rounds)
        np.testing.assert_allclose(iterate, one, atol=1e-9 * (1 + np.abs(one).max()))


def test_a_long_path_ends_at_the_solutions():
    S, alphas = np.array([[1.0, 0.4, 0.0], [0.4, 1, 0.2], [0, 0.2, 1]]), [0.1, 0.3]
    for alpha, last in zip(alphas, admm_path(S, alphas, 1.0, 2000), strict=True):
        solution = graphical_lasso(S, alpha, tol=1e-12).precision
        np.testing.assert_allclose(last, solution, atol=1e-6)
        assert np.array_equal(last != 0, solution != 0)


@pytest.mark.parametrize(
    "arguments, name",
    [
        ((np.triu(np.ones((2, 2))), [1.0]), "S"),
        ((np.eye(2), [0.1, 0.0]), "alphas"),
        ((np.eye(2), [0.1], -1.0), "penalty"),
        ((np.eye(2), [0.1], 1.0, 0), "iterations"),
    ],
)
def test_what_makes_no_path_is_refused(arguments, name):
    with pytest.raises(InputError, match=name):
        admm_path(*arguments)


def test_the_noise_is_symmetric_and_falls_with_epsilon():
    X = np.random.default_rng(0).standard_normal((500, 4))
    clean = noisy_moments(X, None, np.random.default_rng(1))
    changes = [
        noisy_moments(X, epsilon, np.random.default_rng(1)) - clean
        for epsilon in (1.0, 2.0)
    ]
    assert np.array_equal(changes[0], changes[0].T) and changes[0].all()
    np.testing.assert_allclose(changes[0], 2 * changes[1])  # one draw, half the noise
    assert np.trace(clean) <= 1


def test_rows_of_every_epsilon_and_way():
    rows = pd.DataFrame(stopped_run("model4", 3, **JOB))
    assert rows.equals(pd.DataFrame(stopped_run("model4", 3, **JOB)))
    assert rows.epsilon.isna().sum() == 3 and rows.way.nunique() == 3 and len(rows) == 6
    curve = rows[[f"{x:.2f}" for x in STOPPED_GRID]].to_numpy()
    assert (np.diff(curve, axis=1) >= -1e-12).all() and (curve[:, -1] == 1).all()
    assert np.abs(np.trapezoid(curve, STOPPED_GRID, axis=1) - rows.auc).max() < 0.05


def test_lost_cells_leave_a_row_that_says_so(monkeypatch):
    def lost():
        raise DataError("not here")

    monkeypatch.setattr(stopped_curves, "load_sachs", lost)
    found = stopped_run("cells", 1, dataset="sachs", **JOB)
    assert found == [{"task": "cells", "seed": 1, "way": "none"}]


def test_tasks_that_need_the_cells_name_their_data(monkeypatch):
    jobs = STOPPED_CURVES.jobs("full")
    assert {job["task"]: job.get("dataset") for job in jobs} == {
        "model3": None,
        "model4": None,
        "cells": "sachs",
        "cells log": "sachs",
    }
    monkeypatch.setattr(stopped_curves, "STOPPED_TASKS", ("model3",))
    with pytest.raises(SettingsError, match="stopped.tasks"):
        STOPPED_CURVES.jobs("full")
