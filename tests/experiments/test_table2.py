"""Table 2: the account of a release and the study's rows, beyond what the chapter
shows."""

import warnings

import numpy as np
import pandas as pd
import pytest

from privglasso.base.settings import SettingsError, resource
from privglasso.base.validation import InputError
from privglasso.data_sets.dataset import DataError
from privglasso.experiments import study, table2
from privglasso.experiments.choosing_lambda import penalty_table
from privglasso.experiments.study import read_results
from privglasso.experiments.table2 import (
    PAPER_DATA,
    TABLE2,
    PaperData,
    chosen_penalties,
    clean_table,
    corrected_path,
    honest_promise,
    path_scores,
    penalty_scores,
    published,
    table2_beside,
    table2_run,
)
from privglasso.publish.table import DiscreteGaussianMechanism
from privglasso.recover.estimators import CV, PrivateGraphicalLasso
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
    chosen_penalties.cache_clear()


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


# rules for the penalty


def test_the_two_rules_against_other_programs(counts, monkeypatch):
    monkeypatch.setattr(table2, "_SMALLEST", 1e-4)
    ours = penalty_scores(counts, 8)
    theirs = penalty_table(counts, np.zeros(5), 8)
    np.testing.assert_allclose(ours.alpha, theirs.alpha)
    np.testing.assert_allclose(ours["squared error"], theirs.mse, rtol=1e-3)
    with warnings.catch_warnings(record=True):
        rule = CV(ours.alpha.tolist())
        model = PrivateGraphicalLasso(rule, scale=False, tol=1e-8).fit(counts)
    likelihood = model.cv_results_.set_index("alpha").mean_test_score
    shift = ours["likelihood"].to_numpy() - likelihood[ours.alpha].to_numpy()
    assert np.ptp(shift) < 1e-6 < np.ptp(ours["likelihood"])


def test_a_likelihood_that_prefers_no_edge_gives_way(monkeypatch):
    noise = np.random.default_rng(0).standard_t(3, size=(10, 10))
    noise = pd.DataFrame((noise - noise.mean(axis=0)) / noise.std(axis=0))
    scores = penalty_scores(noise, 12)
    assert scores["likelihood"].argmax() == 0 < scores["squared error"].argmin()
    monkeypatch.setitem(
        PAPER_DATA, "noise", PaperData("soil", lambda: noise, None, False, False)
    )
    try:
        assert list(chosen_penalties("noise")) == ["squared error"]
        assert clean_table("noise")[2].any()
        with pytest.raises(InputError, match="rule.*squared error"):
            clean_table("noise", "likelihood")
    finally:
        chosen_penalties.cache_clear()
        clean_table.cache_clear()


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
    told = lambda key, kind, profile: ["grid11", "grid12"] if kind == [str] else 1
    monkeypatch.setattr(study, "setting", told)
    with pytest.raises(SettingsError, match="grid12"):
        TABLE2.jobs("quick")


# what came back


def test_the_kind_of_a_cell():
    rows = [
        {"dataset": name, "snr_db": level, "changed": share, "auc": 1.0}
        for name, level, share in [
            ("soil", None, None),
            ("soil", 40.0, 0.0),
            ("soil", 20.0, 0.1),
            ("soil", 10.0, 0.9),
            ("soil", 0.0, 1.0),
            ("chickenpox", 60.0, 0.0),
            ("fmri", None, None),
        ]
    ]
    table = table2_beside(pd.DataFrame(rows).assign(reading="entry"))
    kinds = table.set_index(["dataset", "snr_db"]).kind.to_dict()
    assert kinds == {
        ("soil", np.inf): "graph with itself",
        ("soil", 40.0): "graph with itself",
        ("soil", 20.0): "own",
        ("soil", 10.0): "own",  # the printed 10 dB row beside our 0 dB
        ("chickenpox", 60.0): "own",  # against a true graph
        ("brain_fmri", np.inf): "stand-in",
    }


COLUMNS = ["cell_signalling", "congress", "chickenpox", "soil"]


def own_cells(reading, last_row=0.0):
    "Which of the 28 cells of the paper's own data come within .03, by column."
    table = table2_beside(read_results("table2"), last_row)
    table = table[(table.reading == reading) & table.dataset.isin(COLUMNS)]
    assert len(table) in (7, 28)
    return table.assign(near=table.difference.abs() <= 0.03)


def test_the_own_cells_that_come_back():
    """Graphs compared with themselves are not counted, whatever the rule."""
    for reading in ("entry", "squared error: partial correlation"):
        cells = own_cells(reading)
        near = cells.groupby("kind").near.agg(["sum", "size"])
        assert near.loc["own"].to_list() == [11, 22]
        assert near.loc["graph with itself"].to_list() == [6, 6]
    by_column = own_cells("entry").groupby("dataset").near.sum()
    assert by_column[COLUMNS].to_list() == [1, 4, 6, 6]


def test_all_seven_cells_of_the_cell_signals_come_back():
    papers_rule = own_cells("squared error: partial correlation")
    assert papers_rule.groupby("dataset").near.sum()["cell_signalling"] == 7
    pairs_17 = own_cells("17 pairs").set_index("snr_db").near
    assert not pairs_17[10.0] and pairs_17.sum() == 6
