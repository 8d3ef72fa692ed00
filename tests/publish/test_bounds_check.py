"""What a check of bounds counts, what it costs, and what its limits hold."""

import math

import numpy as np
import pandas as pd
import pytest

from privglasso.desk.publication import Publication
from privglasso.privacy.budget import Budget
from privglasso.privacy.discrete_gaussian import cdf
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.bounds_check import BoundsCheck, BoundsReport
from privglasso.publish.bounds_check import CountLattice, cells_outside
from privglasso.publish.covariance import CovarianceMechanism


def test_cells_at_a_bound_are_inside_and_missing_ones_nowhere():
    table = [[0.0, 5.0], [1.0, 6.0], [-1e-9, np.nan], [1 + 1e-9, 4.9], [np.nan, 7.0]]
    assert cells_outside(np.array(table), (0, 1)).tolist() == [2, 4]
    assert cells_outside(np.array(table), ([0, 5], [1, 6])).tolist() == [2, 2]


@pytest.mark.parametrize(("neighbors", "changed"), [("record", 3), ("cell", 1)])
def test_a_check_costs_what_it_may_and_no_more(neighbors, changed):
    "A replaced record moves each of three counts by one, a changed cell one of them."
    for mu in (0.05, 0.5, 1.2):
        check = BoundsCheck((0, 1), neighbors=neighbors, mu=mu)
        promise, sigma = check.guarantee(900, 3), check._lattice(900, 3).sigma
        assert promise.neighbors == neighbors
        assert mu * (1 - 1e-12) <= promise.mu <= mu
        assert promise.mu == pytest.approx(math.sqrt(changed / (sigma**2 - 1 / 6)))


def test_shares_are_of_all_rows_and_their_limits_hold_the_share():
    """Limits of 95 % fail with at most that probability, in exact sums over the noise,
    and one cell narrower ones would fail more often."""
    for sigma in (0.9, 2.0, 30.0, 800.0):
        lattice, counts = CountLattice(2, sigma), np.array([250, 700])
        known = counts, 1000, ["a", "b"], lattice, Guarantee(1.0, "record"), True
        shares = BoundsReport(*known).shares()
        assert shares.outside.tolist() == [0.25, 0.7]
        assert shares.index.tolist() == ["a", "b"]
        reach = round(1000 * (0.25 - shares["at least"]["a"]))
        if sigma < 100:
            assert round(1000 * (shares["at most"]["b"] - 0.7)) == reach
            missed, more = (2 * cdf(-r - 1, sigma) for r in (reach, reach - 2))
            assert missed <= 0.05 < more
        else:  # shares are from 0 to 1
            assert shares["at least"].tolist() == [0, 0]
            assert shares["at most"].tolist() == [1, 1]


def test_the_noise_of_a_report_is_that_of_its_lattice():
    "False alarms below 1e-8: six standard errors of a mean, and of a variance."
    table = np.zeros((50, 4000))
    check = BoundsCheck((0.5, 1), mu=40.0)
    noise = check.publish(table, random_state=1).counts - 50
    sigma = check.noise_std(50, 4000)
    assert abs(noise.mean()) < 6.2 * sigma / math.sqrt(4000)
    assert abs(noise.var() / sigma**2 - 1) < 6.2 * math.sqrt(2 / 4000)


@pytest.mark.parametrize("neighbors", ["record", "cell"])
def test_a_mechanism_and_its_check_cost_the_root_of_both_squares(neighbors, tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 2)), columns=["a", "b"])
    ledger = Budget.create(
        tmp_path / "ledger.json", Guarantee(3.0, "record"), Guarantee(3.0, "cell")
    )
    words = {"box": True, "bounds": (-1, 1), "mu": 1.0, "neighbors": neighbors}
    desk = Publication(X, check_bounds=0.36, ledger=ledger.path, **words)
    record = desk.publish(tmp_path / "r.parquet")
    alone = CovarianceMechanism((-1, 1), neighbors=neighbors, mu=0.8, clipping="box")
    check = BoundsCheck((-1, 1), neighbors=neighbors, mu=0.6)
    parts = [each.guarantees(500, 2) for each in (alone, check)]
    for relation in ("record", "cell"):
        paid = [g.mu for known in parts for g in known if g.neighbors == relation]
        assert len(paid) == 2
        assert ledger.spent(relation).mu == pytest.approx(math.hypot(*paid), rel=1e-9)
    assert record.draft.promise.mu == pytest.approx(1.0, rel=1e-6)
    assert record.release.guarantee.mu == pytest.approx(0.8, rel=1e-6)
    assert record.outside.guarantee.mu == pytest.approx(0.6, rel=1e-6)
    desk.ledger, rest = None, {"random_state": 3}
    one, again = (
        desk.publish(tmp_path / name, **rest) for name in ("1.parquet", "2.parquet")
    )
    assert one.outside.counts.tolist() == again.outside.counts.tolist()
    assert (one.release.matrix == again.release.matrix).all()


@pytest.mark.parametrize(("level", "reach"), [(0.5, 21), (0.95, 60), (0.999, 100)])
def test_limits_of_a_share_are_whole_cells_at_their_level(level, reach):
    "Quantiles of the normal distribution times 30, half a cell more, rounded upward."
    counts, names = np.array([500, 1040, -10]), ["a", "b", "c"]
    known = counts, 1000, names, CountLattice(3, 30.0), Guarantee(1.0, "record"), True
    shares = BoundsReport(*known).shares(level)
    assert shares.outside.tolist() == [0.5, 1.04, -0.01]
    low = np.array([500 - reach, min(1040 - reach, 1000), 0])
    high = np.array([500 + reach, 1000, reach - 10])
    assert shares["at least"].tolist() == (low / 1000).tolist()
    assert shares["at most"].tolist() == (high / 1000).tolist()
