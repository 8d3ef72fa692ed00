"""Real tables: the reference, what is refused, and releases that lose no column."""

import numpy as np
import pandas as pd
import pytest

from privglasso.experiments.frontier_real import (
    FRONTIER_REAL,
    REAL_TABLES,
    normal_scores,
    real_run,
    real_table,
    reference_edges,
)


def test_scores_are_those_of_ranks_and_gaps_are_in_the_middle():
    x = np.random.default_rng(0).standard_normal((400, 2))
    x[::3, 1] = np.nan
    scores = normal_scores(np.exp(3 * x))
    assert np.array_equal(scores, normal_scores(x))
    assert (scores[::3, 1] == 0).all() and np.abs(scores.mean(axis=0)).max() < 1e-12
    assert normal_scores(pd.DataFrame(x)).shape == (400, 2)


def test_the_strongest_pairs_are_those_of_the_chain():
    "A constant column is tied to nothing, and does no harm."
    x = np.random.default_rng(0).standard_normal((20_000, 6)).cumsum(axis=1)
    x = np.column_stack([np.exp(x), np.ones(len(x))])
    edges = np.argwhere(np.triu(reference_edges(x, 5)))
    assert edges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]


def test_small_tables_are_refused_by_public_numbers():
    rows = FRONTIER_REAL.table("quick")
    refused = rows.refused.str.contains("too few rows")
    assert (refused == rows.mechanism.isin(["default", "sphere"])).all()
    assert (rows.auc[refused] == 0.5).all() and (rows.seen[refused] == 0).all()


def test_every_table_is_asked_with_what_suits_it():
    jobs = FRONTIER_REAL.jobs("full")
    assert {job["dataset"] for job in jobs} == set(REAL_TABLES)
    kinds = {(job["dataset"], job["mechanism"]) for job in jobs}
    assert ("loans with gaps", "Kendall") not in kinds
    assert {name for name, kind in kinds if kind == "stated"} == {"loans", "flights"}


@pytest.mark.data("loans")
def test_no_column_of_the_loans_is_lost_where_kinds_are_stated():
    for seed in range(3):
        (row,) = real_run("loans", 1.0, "stated", seed)
        assert row["aside"] == 0 and row["refused"] == "" and row["auc"] > 0.62
    table, schema, edges = real_table("loans")
    assert table.notna().all(axis=None) and len(schema.levels) == 14
    assert np.triu(edges).sum() == 308


@pytest.mark.data("flights")
def test_flights_keep_their_order():
    (ours,), (sphere,) = (
        real_run("flights", 0.3, mechanism, 0) for mechanism in ("default", "sphere")
    )
    assert ours["aside"] == 0 and ours["auc"] > 0.8 > sphere["auc"]
