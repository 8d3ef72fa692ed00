"""Table 2: the account of a release and the study's rows, beyond what the chapter
shows."""

import warnings

import numpy as np
import pandas as pd
import pytest

from privglasso.base.settings import SettingsError, resource
from privglasso.base.validation import InputError
from privglasso.data_sets.registry import DataError
from privglasso.experiments import study
from privglasso.experiments.table2 import (
    PAPER_DATA,
    TABLE2,
    PaperData,
    clean_table,
    corrected_path,
    honest_promise,
    path_scores,
    published,
    table2_run,
)
from privglasso.publish.table import DiscreteGaussianMechanism
from privglasso.recover.feasibility import min_feasible_alpha
from privglasso.recover.graphical_lasso import graphical_lasso

INDEFINITE = np.array([[0.5, 0.8, 0.1], [0.8, 0.5, 0.1], [0.1, 0.1, -0.2]])
PAIR = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)


@pytest.fixture
def counts(monkeypatch):
    "A small data set of whole numbers in the place of one of the paper's."
    rng = np.random.default_rng(0)
    common = rng.poisson(5, (60, 1))
    table = pd.DataFrame(
        np.hstack([common + rng.poisson(2, (60, 2)), rng.poisson(4, (60, 3))]),
        columns=list("abcde"),
    )
    monkeypatch.setitem(
        PAPER_DATA,
        "counts",
        PaperData("soil", lambda: table.astype(float), None, True, False),
    )
    yield table
    clean_table.cache_clear()


# the printed table


def test_every_column_of_the_table_is_a_data_set():
    printed = pd.read_csv(resource("data/published/guo_table2.csv"))
    assert {data.printed for data in PAPER_DATA.values()} == set(printed.dataset)
    kinds = printed.groupby("dataset").kind.first()
    assert all(
        (kinds[data.printed] == "discrete") == data.integers
        for data in PAPER_DATA.values()
    )
    exists = printed.groupby("dataset").ground_truth_exists.first()
    assert all(
        bool(exists[data.printed]) == (data.truth is not None)
        for data in PAPER_DATA.values()
    )
    assert all(data.same or data.note for data in PAPER_DATA.values())


def test_a_data_set_that_the_table_does_not_have():
    for ask, arguments in (
        (clean_table, ()),
        (published, (20.0, 1)),
        (table2_run, (1, [20.0])),
    ):
        with pytest.raises(InputError, match="name.*choose from.*sachs"):
            ask("scahs", *arguments)


# paths


def test_a_path_ends_at_the_penalty_or_at_the_least_that_has_a_graph():
    fine = corrected_path(np.eye(3) + 0.1, [0.5, 0.2, 0.1])
    assert [result.alpha for result in fine] == [0.5, 0.2, 0.1]
    path = corrected_path(INDEFINITE, [2.0, 0.5, 0.01])
    lowest = min_feasible_alpha(INDEFINITE).upper
    assert path[0].alpha == 2.0 and path[-1].alpha == pytest.approx(1.05 * lowest)
    assert all(
        first.alpha > second.alpha
        for first, second in zip(path, path[1:], strict=False)
    )
    assert [result.alpha for result in corrected_path(INDEFINITE, [0.01])] == [
        pytest.approx(1.05 * lowest)
    ]


def test_a_path_is_solved_far_enough_for_its_order():
    """Every entry is within a thousandth of the largest of its limit, with a solution
    at the penalty or at the least."""
    for S in (np.array([[1, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 1]]), INDEFINITE):
        loose, exact = (
            corrected_path(S, [2.0, 0.9])[-1],
            graphical_lasso(S, 0.9, tol=1e-13),
        )
        assert (
            np.abs(loose.precision - exact.precision).max()
            < 1e-3 * exact.precision.max()
        )
        assert loose.dual_gap <= 1e-8 * 3


def test_scores_of_a_path():
    scores = path_scores(
        corrected_path(
            np.array([[1, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 1]]), [0.4, 0.2, 0.05]
        ),
        PAIR,
    )
    assert scores == {"entry": 1, "path": 1, "partial correlation": 1, "graph": 0.75}


# the account


def test_no_noise_is_no_promise():
    assert set(honest_promise(None, 1e-5).values()) == {np.inf}


def test_a_promise_by_hand():
    lattice = DiscreteGaussianMechanism((0, 10), neighbors="cell", sigma=5.0).lattice(4)
    account = honest_promise(lattice, 1e-5)
    assert account["mu_cell"] == pytest.approx(10 / np.sqrt(25 - 1 / 6))
    assert account["epsilon_record"] > account["epsilon_cell"] > 0


def test_noise_too_small_to_be_any_publishes_the_raw_table(counts):
    released, variance, account = published("counts", 100, seed=1)
    pd.testing.assert_frame_equal(released, counts.astype(float))
    assert (
        account["changed"] == 0
        and account["epsilon_cell"] == np.inf
        and not variance.any()
    )
    released, variance, account = published(
        "counts", 50, seed=1
    )  # σ of a hundredth: allowed, and nothing happens
    assert (
        account["changed"] == 0
        and np.isfinite(account["epsilon_cell"])
        and (variance < 1e-100).all()
    )


def test_noise_that_is_some(counts):
    released, variance, account = published("counts", 5, seed=1)
    again = published("counts", 5, seed=1)[0]
    pd.testing.assert_frame_equal(released, again)
    assert 0.5 < account["changed"] < 1 and np.isfinite(account["epsilon_record"])
    by_column = published("counts", 5, seed=1, by_column=True)[1]
    assert len(set(variance)) == 1 and len(set(by_column)) == 5


# the study


def test_a_run_has_every_level_and_reading(counts):
    with warnings.catch_warnings(record=True):
        rows = pd.DataFrame(table2_run("counts", 1, [100.0, 10.0]))
    assert set(rows.snr_db.dropna()) == {100.0, 10.0} and (rows.seed == 1).all()
    clean = rows[rows.snr_db.isna()].set_index("reading").auc
    assert clean["entry"] == 1 and "naive" not in clean
    assert {"naive", "entry, σ by column"} <= set(rows.reading)
    untouched = rows[(rows.snr_db == 100) & (rows.reading == "entry")]
    assert untouched.auc.item() == 1 and untouched.changed.item() == 0
    assert rows[rows.snr_db.notna()].paper_epsilon.gt(0).all()


def test_data_that_are_not_here_have_a_row_that_says_so(monkeypatch):
    def absent():
        raise DataError("get it from somewhere")

    monkeypatch.setitem(
        PAPER_DATA, "nowhere", PaperData("soil", absent, None, True, False)
    )
    assert table2_run("nowhere", 1, [20.0]) == [
        {"dataset": "nowhere", "seed": 1, "reading": "none", "missing": "DataError"}
    ]


def test_other_faults_are_not_taken_for_missing_data(monkeypatch):
    monkeypatch.setitem(
        PAPER_DATA, "broken", PaperData("soil", lambda: 1 / 0, None, True, False)
    )
    with pytest.raises(ZeroDivisionError):
        table2_run("broken", 1, [20.0])


def test_an_unknown_data_set_in_the_settings_is_refused(monkeypatch):
    monkeypatch.setattr(study, "setting", lambda *arguments: ["grid11", "grid12"])
    with pytest.raises(SettingsError, match="grid12"):
        TABLE2.jobs("quick")
