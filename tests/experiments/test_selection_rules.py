"""The study of rules that choose a graph: its models and its jobs."""

import numpy as np

from privglasso.base.graphs import support
from privglasso.experiments.selection_rules import SELECTION, selection_model


def test_models_have_unit_variances_and_their_graphs():
    for name, edges in (("chain", 19), ("tridiagonal", 19), ("star", 19)):
        precision = selection_model(name, 0)
        np.testing.assert_allclose(np.diag(np.linalg.inv(precision)), 1)
        assert np.triu(support(precision), 1).sum() == edges
    assert (selection_model("random", 0) != selection_model("random", 1)).any()


def test_jobs_are_as_many_as_the_settings_say():
    jobs = SELECTION.jobs("full")
    assert len(jobs) == 4 * 3 * 3 * 25
    assert len({tuple(job.values()) for job in jobs}) == len(jobs)
