"""Columns that have nothing to do with each other: how they are made, and counted."""

import numpy as np
import pandas as pd
import pytest

from privglasso.experiments import independence
from privglasso.experiments.independence import (
    COLUMN_KINDS,
    CONDITIONAL,
    COPULAS,
    INDEPENDENCE,
    joined_share,
    mixture,
    shuffled,
)


def test_every_kind_of_column_is_in_some_mixture_of_the_full_profile(monkeypatch):
    seen = set()
    for name in COLUMN_KINDS:
        note = lambda rng, n, a, name=name: (seen.add(name), np.zeros(n))[1]
        monkeypatch.setitem(COLUMN_KINDS, name, note)
    numbers = {job["number"] for job in INDEPENDENCE.jobs("full")}
    for number in numbers:
        assert 5 <= mixture(number, 10, np.random.default_rng(0)).shape[1] <= 12
    assert len(numbers) == 40 and seen == set(COLUMN_KINDS)


@pytest.mark.parametrize("name", COLUMN_KINDS)
def test_columns_are_drawn_whatever_their_number(name):
    for a in (0.0, 0.5, 0.999):
        x = COLUMN_KINDS[name](np.random.default_rng(1), 500, a)
        assert len(x) == 500 and np.isfinite(np.asarray(x, float)).all()


def test_a_real_table_loses_its_relations_and_keeps_its_margins():
    """Iris: correlations up to .96. Of 3000 rows each is below .1 in 5 deviations."""
    table = shuffled("iris", 3000, np.random.default_rng(0))
    off = np.corrcoef(table.T)[np.triu_indices(4, 1)]
    assert np.abs(off).max() < 0.1
    cells = independence._real_table("iris")
    assert all(set(x) <= set(y) for x, y in zip(table.T, cells.T, strict=True))


def test_shares_are_of_tables_and_not_of_rows():
    rows = [dict(release="a", rule="r", tables=t, joined=j, no_graph=0) for t, j in
            ((10, 1), (90, 0))]
    assert joined_share(pd.DataFrame(rows)).share.tolist() == [0.01]


def test_scores_of_a_mixture_are_not_joined():
    "Three tables of one mixture; at 5 % two with an edge are improbable."
    job = dict(kind="mixture", number=0, n=10_000, epsilon=1.0, repeats=3, seed=5)
    found = pd.DataFrame(INDEPENDENCE.run(**job)).set_index(["release", "rule"]).joined
    assert found["scores"].max() <= 1


def test_absent_pairs_of_a_chain_are_absent():
    rows = [
        row
        for kind in COPULAS
        for seed in range(4)
        for row in CONDITIONAL.run(columns=kind, p=5, n=20_000, epsilon=1.0, seed=seed)
    ]
    # of 16 tables, more than five beyond 5 % with probability below 1e-4
    assert sum(row["beyond"] for row in rows) <= 5
