"""The table of audits: what its figure shows and what its sorted neighbours are. The
chapter runs every case.
"""

import numpy as np
import pandas as pd

from privglasso.experiments.audit_table import plot_audit, sorted_again
from privglasso.privacy.audit import only_in


def test_the_figure_has_a_mark_for_every_row():
    table = pd.DataFrame(
        {
            "kind": ["paper", "ours", "ours"],
            "claimed": [0.1, 1.0, 2.0],
            "audited": [2.0, 0.0, 1.9],
            "fresh_runs": 1000,
            "confidence": 0.99,
        }
    )
    axes = plot_audit(table)
    assert sorted(text.get_text() for text in axes.texts) == ["1", "2", "3"]
    assert sum(len(marks.get_offsets()) for marks in axes.collections) == 3


# --------------------------------------------------------- files that are sorted again


def test_neighbours_differ_in_one_record_or_cell_and_are_sorted():
    for how, column in (
        ("upwards", 0),
        ("downwards", 0),
        ("by the last column", -1),
        ("in groups", 0),
    ):
        for neighbors, cells in (("record", 2), ("cell", 1)):
            X, placed, moved = sorted_again(200, 3, how, neighbors=neighbors)
            changed = X != placed
            assert changed.any(axis=1).sum() == 1 and changed.sum() == cells
            elsewhere = (placed != moved).any(axis=1).sum()
            assert len(only_in(placed, moved)) == 0 < elsewhere
            key = moved[:, column]
            step = np.diff((key > 0).astype(int) if how == "in groups" else key)
            assert (step <= 0 if how == "downwards" else step >= 0).all()
