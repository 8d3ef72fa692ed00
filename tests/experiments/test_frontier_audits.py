"""Audits of releases without bounds: every case runs, none of ours is refuted, and what
is broken is, as far as few runs can tell."""

import numpy as np
import pytest

from privglasso.experiments.frontier_audits import FRONTIER_AUDITS
from privglasso.privacy.audit import audit
from privglasso.publish.covariance import CovarianceMechanism

JOBS = {job["case"]: job for job in FRONTIER_AUDITS.jobs("quick")}
# refuted by the whole study alone
MANY_RUNS = {"nine_tenths", "free_margins", "free_round"}


@pytest.mark.long
@pytest.mark.parametrize("case", JOBS)
def test_every_case_runs_and_says_what_it_should(case):
    trials = min(JOBS[case]["trials"], 500)
    (row,) = FRONTIER_AUDITS.run(**{**JOBS[case], "trials": trials})
    broken = row["kind"] == "broken"
    assert row["refuted"] == (broken and case not in MANY_RUNS)
    assert row["audited"] > 0


@pytest.mark.long
def test_private_units_do_not_hide_a_record_from_the_audit():
    "What all other rows add up to depends on the units; the audit reckons with it."
    one = np.random.default_rng(0).normal(size=(1000, 2))
    other = one.copy()
    one[0], other[0] = (1e6, 0.0), (-5e5, 8.66e5)
    mechanism = CovarianceMechanism(clipping="sphere", mu=3.0)
    told = audit(mechanism, one, other, trials=200, random_state=0)
    assert 1.0 < told.mu_lower < 3.0
