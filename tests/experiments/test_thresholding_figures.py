"""The experiments on thresholded covariances: jobs, repeats, panels."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from privglasso.base.validation import InputError
from privglasso.experiments.study import read_results
from privglasso.experiments.thresholding_figures import (
    PANELS,
    THRESHOLDING,
    plot_thresholding,
    thresholding_curves,
    thresholding_run,
)


def test_a_repeat_is_reproducible_and_complete():
    job = {
        "p": 20,
        "sparsity": 0.3,
        "epsilons": [0.5, 1.0],
        "rows": [500, 1000],
        "gammas": [0.0, 1.0],
        "factor": 1.2,
    }
    rows = pd.DataFrame(thresholding_run(**job, seed=1))
    assert (
        rows.equals(pd.DataFrame(thresholding_run(**job, seed=1)))
        and len(rows) == 2 * 2 * 2 * 3
    )
    assert not rows.l2.equals(pd.DataFrame(thresholding_run(**job, seed=2)).l2)


def test_settings_share_what_they_have_in_common():
    jobs = THRESHOLDING.jobs("full")
    keys = {(job["p"], job["sparsity"], job["seed"]) for job in jobs}
    assert len(keys) == len(jobs) == 7 * 20
    rows = pd.DataFrame(
        [
            {
                "p": p,
                "sparsity": s,
                "epsilon": e,
                "n": 10,
                "model": "central",
                "recipe": "private",
                "l1": 1.0,
                "l2": p,
            }
            for p, s, e in (
                (100, 0.2, 1.0),
                (100, 0.5, 1.0),
                (200, 0.2, 1.0),
                (200, 0.2, 2.0),
            )
        ]
    )
    columns = {
        panel: thresholding_curves(rows, panel, "central").columns
        for panel in ("sparsity", "p", "epsilon")
    }
    assert [list(c.get_level_values(1)) for c in columns.values()] == [
        [0.2, 0.5],
        [100, 200],
        [1.0, 2.0],
    ]


def test_a_panel_that_is_none():
    with pytest.raises(InputError, match="panel='n'"):
        thresholding_curves(pd.DataFrame(), "n", "central")
    with pytest.raises(InputError, match="model='both'"):
        thresholding_curves(pd.DataFrame(), "p", "both")


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_a_figure_has_every_curve_of_its_norm(norm):
    rows = read_results("thresholding")
    figure = plot_thresholding(rows, "central", "title", norm)
    above, below = figure.axes[:3], figure.axes[3:]
    for panel, upper, lower in zip(PANELS, above, below, strict=True):
        curves = thresholding_curves(rows, panel, "central", norm)
        assert len(upper.lines) == 2 * len(lower.lines[::2]) == 8
        for line, value in zip(lower.lines[::2], curves["private"], strict=True):
            assert np.array_equal(line.get_ydata(), curves["private", value])
    plt.close(figure)
