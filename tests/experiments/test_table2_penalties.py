"""Table 2 at every penalty: the study's rows, and the penalty with most cells."""

import numpy as np
import pandas as pd
import pytest

from privglasso.base.settings import resource
from privglasso.experiments.study import read_results
from privglasso.experiments.table2 import (
    PAPER_DATA,
    PaperData,
    chosen_penalties,
    clean_table,
)
from privglasso.experiments.table2_penalties import best_penalties, table2_penalties_run


@pytest.fixture
def counts(monkeypatch):
    "A small table of whole numbers in the place of one of the paper's."
    rng = np.random.default_rng(0)
    table = rng.poisson(5, (60, 1)) + rng.poisson(3, (60, 5))
    table = pd.DataFrame(table.astype(float))
    monkeypatch.setitem(
        PAPER_DATA, "counts", PaperData("soil", lambda: table, None, True, False)
    )
    yield table
    clean_table.cache_clear()
    chosen_penalties.cache_clear()


def test_every_penalty_of_a_walk(counts):
    rows = pd.DataFrame(table2_penalties_run("counts", 10.0, [1, 2]))
    assert (rows.repeats == 2).all() and set(rows.way) == {"corrected"}
    assert rows.groupby("reading").size().to_dict() == {
        "entry": 40,
        "partial correlation": 40,
    }
    one = [pd.DataFrame(table2_penalties_run("counts", 10.0, [k])) for k in (1, 2)]
    np.testing.assert_allclose((one[0].auc + one[1].auc) / 2, rows.auc)
    clean = pd.DataFrame(table2_penalties_run("counts", None, [1, 2]))
    some = clean[clean.n_edges.between(1, 9)]  # of ten pairs
    assert (clean.repeats == 1).all() and (some.auc == 1).all() and len(some) > 10
    assert clean.auc[clean.n_edges == 10].isna().all()


def test_z_scored_tables_are_walked_twice(counts, monkeypatch):
    scaled = counts / 100
    data = PaperData("soil", lambda: scaled, None, False, False, z_scored=True)
    monkeypatch.setitem(PAPER_DATA, "counts", data)
    rows = pd.DataFrame(table2_penalties_run("counts", 0.0, [1]))
    assert set(rows.way) == {"corrected", "z-scored again, not corrected"}


def test_a_penalty_is_chosen_by_the_cells_that_come_back():
    printed = pd.read_csv(resource("data/published/guo_table2.csv"))
    printed = printed[printed.dataset == "soil"].fillna({"snr_db": np.inf})
    aucs = printed.set_index("snr_db").auc_mean
    rows = []
    for share, off in [(0.5, 0.04), (0.2, 0.02), (0.1, 0.01)]:
        clean_to_20 = {None: aucs[np.inf] + off} | {
            level: aucs[level] + off for level in (100.0, 80.0, 60.0, 40.0, 20.0)
        }
        # the printed 10 dB row is met at 0 dB
        levels = clean_to_20 | {10.0: 0.0, 0.0: aucs[10]}
        rows += [{"share": share, "snr_db": k, "auc": v} for k, v in levels.items()]
    walked = pd.DataFrame(rows).assign(
        dataset="soil", way="corrected", reading="partial correlation", n_edges=3
    )
    best = best_penalties(walked).loc["soil"]
    assert best.share == 0.1 and best.cells == 7 and best.penalties == 2


def test_the_cells_that_come_back_with_a_penalty_for_each_column():
    walked = read_results("table2_penalties")
    columns = ["cell_signalling", "congress", "chickenpox", "soil"]
    best = best_penalties(walked).loc[columns]
    assert best.cells.to_list() == [7, 6, 7, 7] and best.cells.sum() == 27
    # the cell that is left: an empty graph, as z-scoring again without correction gives
    house = walked.query("dataset == 'house' and snr_db == 0 and reading == 'entry'")
    sparse = house[house.n_edges.between(1, 25)].groupby("way").auc
    assert abs(sparse.max()["z-scored again, not corrected"] - 0.5) < 0.03
    assert sparse.min()["corrected"] > 0.55
