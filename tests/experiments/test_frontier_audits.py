"""Audits of releases without bounds: every case runs, none of ours is refuted, and what
is broken is, as far as few runs can tell."""

import pytest

from privglasso.experiments.frontier_audits import FRONTIER_AUDITS

JOBS = {job["case"]: job for job in FRONTIER_AUDITS.jobs("quick")}
# refuted by the whole study alone
MANY_RUNS = {"nine_tenths", "free_margins", "free_round"}
# a run takes milliseconds, and 200 tell
LONG = {
    *("private_units", "private_rows", "rows_with_margins", "whitened"),
    *("free_margins", "free_round", "bare_margins"),
}


@pytest.mark.parametrize("case", JOBS)
def test_every_case_runs_and_says_what_it_should(case):
    trials = min(JOBS[case]["trials"], 200 if case in LONG else 500)
    (row,) = FRONTIER_AUDITS.run(**{**JOBS[case], "trials": trials})
    broken = row["kind"] == "broken"
    assert row["refuted"] == (broken and case not in MANY_RUNS)
    assert row["audited"] > 0
