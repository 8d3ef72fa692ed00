"""The table of audits: every case runs and finds what it should, and the figure shows
all of them.
"""

import pandas as pd

from privglasso.experiments.audit_table import AUDIT, plot_audit


def test_every_case_runs_and_says_what_it_should():
    jobs = AUDIT.jobs("quick")
    assert len({job["seed"] for job in jobs}) == len(jobs) >= 12
    # a tenth of the noise shows in many runs only, and its case is quick
    few = [job if job["trials"] > 1000 else {**job, "trials": 800} for job in jobs]
    rows = [row for job in few for row in AUDIT.run(**job)]
    assert [
        row["claim"] for row in rows if row["refuted"] == (row["kind"] == "ours")
    ] == []
    assert len(rows) >= 12 and {row["neighbors"] for row in rows} == {"cell", "record"}


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
