"""A ledger pays when the noise begins: what comes before costs nothing, and no noise is
drawn before."""

import numpy as np
import pandas as pd
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.budget import Budget, BudgetError, ChargedError
from privglasso.privacy.guarantee import Guarantee
from privglasso.privacy.sampler import BlockSampler, TableSampler
from privglasso.publish.batches import Batches
from privglasso.publish.best_test import BestTest, NormalTest
from privglasso.publish.screened_weights import Race
from privglasso.publish.sources import TableError
from privglasso.publish.table import GaussianMechanism

from .test_batches import FEW, GRAPHS, MECHANISMS, N, chain, table

LEFT = "levels", "weights"  # columns that no reading before the noise looks at


def cells_of(name):
    made = chain if name in GRAPHS else table
    return made(FEW.get(name, N)).astype(float)


class Watched(Batches):
    "A table that counts its readings, and fails in one of them."

    def __init__(self, frame, fails=None, cell=None):
        cells, self.readings, self.fails = frame.to_numpy(), 0, fails
        if cell is not None:
            cells = cells.copy()
            cells[-1, 0] = cell
        super().__init__(list(frame.columns), None, len(cells))

        step = len(cells) // 8

        def read(places):
            for k in range(0, len(cells), step):
                self.readings += k == step  # whoever looks at few records does not read
                if k and self.readings == self.fails:
                    raise OSError("the disk is gone")
                yield cells[k : k + step, places]

        self.read = read


@pytest.fixture
def ledger(tmp_path):
    limit = Guarantee(50.0, "record", failure=1e-3, pure=100.0)
    return Budget.create(tmp_path / "ledger.json", limit)


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_noise_is_drawn_before_it_is_paid_for(name, ledger, tmp_path, monkeypatch):
    "While the ledger refuses, nothing that draws noise comes to its end."
    drawn = []
    for kind, draw in (
        (TableSampler, "draw"),
        (BlockSampler, "draw"),
        (BestTest, "passes"),
        (NormalTest, "passes"),
        (Race, "__init__"),
    ):
        whole = getattr(kind, draw)
        told = lambda *words, whole=whole: (whole(*words), drawn.append(whole))[0]
        monkeypatch.setattr(kind, draw, told)

    def refuse(*words, **named):
        raise BudgetError(1.0, Guarantee(0.5, "record"))

    monkeypatch.setattr(Budget, "spend", refuse)
    mechanism, path = MECHANISMS[name], tmp_path / "r.parquet"
    with pytest.raises(BudgetError):
        ledger.publish(mechanism, cells_of(name), path, label="r")
    assert drawn == [] and not path.exists()
    monkeypatch.undo()
    release = ledger.publish(mechanism, cells_of(name), path, label="r")
    assert release.secure and len(ledger.table()) == 1


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("cell", [np.inf, np.nan])
def test_a_cell_that_is_refused_costs_nothing(name, cell, ledger, tmp_path):
    source, path = Watched(cells_of(name), cell=cell), tmp_path / "r.parquet"
    with pytest.raises(InputError, match="X"):
        ledger.publish(MECHANISMS[name], source, path, label="r")
    assert ledger.table().empty and not path.exists()


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_ledger_makes_no_reading_of_its_own(name, ledger, tmp_path):
    "But where columns are left out: their levels are known, or they have no edges."
    without, paid = (Watched(cells_of(name)) for _ in range(2))
    MECHANISMS[name].publish(without)
    ledger.publish(MECHANISMS[name], paid, tmp_path / "r.parquet", label="r")
    assert paid.readings - without.readings == (name in LEFT)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_reading_that_fails_before_the_noise_costs_nothing(name, ledger, tmp_path):
    mechanism, path = MECHANISMS[name], tmp_path / "r.parquet"
    whole = Watched(cells_of(name))
    mechanism.publish(whole)
    outcomes = []
    for fails in range(1, whole.readings + 4):
        source = Watched(cells_of(name), fails)
        before = len(ledger.table())
        try:
            ledger.publish(mechanism, source, path, label=f"r{fails}")
        except ChargedError:
            outcomes.append("charged")
            assert len(ledger.table()) == before + 1
        except OSError:
            outcomes.append("free")
            assert len(ledger.table()) == before
        else:
            outcomes.append("published")
            path.unlink()
        assert not path.exists()
    assert "free" in outcomes and outcomes == sorted(
        outcomes, key=["free", "charged", "published"].index
    ), outcomes
    between = name in ("default", "levels", "weights", "screened", "sphere", "copula")
    assert between <= ("charged" in outcomes), outcomes


def test_a_table_that_grows_is_not_published_for_the_price_of_a_smaller(
    ledger, tmp_path
):
    class Growing(GaussianMechanism):
        def shape(self, X):
            return len(X) - 1, X.shape[1]

    frame, path = cells_of("table"), tmp_path / "r.parquet"
    with pytest.raises(InputError, match="the table has changed"):
        ledger.publish(Growing((0, 10), mu=0.5), frame, path, label="r")
    assert ledger.table().empty and not path.exists()
    source = Watched(frame)
    source._n += 1
    with pytest.raises((TableError, ChargedError)):
        ledger.publish(GaussianMechanism((0, 10), mu=0.5), source, path, label="r")
    assert not path.exists()


def test_what_pays_at_no_time_of_its_own_is_paid_for_before_it_runs(ledger, tmp_path):
    class Stranger:
        def guarantee(self, n, p):
            return Guarantee(0.5, "record")

        def publish(self, X):
            assert len(ledger.table()) == 1
            raise RuntimeError("told of a cell")

    class Forgetful(Stranger):
        def publish(self, X, charge=None):
            return self

        def to_parquet(self, path):
            assert len(ledger.table()) == 2

    frame, path = pd.DataFrame({"a": [1.0, 2.0]}), tmp_path / "r.parquet"
    with pytest.raises(ChargedError):
        ledger.publish(Stranger(), frame, path, label="r")
    ledger.publish(Forgetful(), frame, path, label="s")
    assert len(ledger.table()) == 2
