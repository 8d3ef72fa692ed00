"""A cluster sums what memory would sum, to the bit, and says nothing of a cell."""

import logging
import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privglasso.base.validation import InputError
from privglasso.base.words import WordsError
from privglasso.desk.publication import Publication
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
from privglasso.privacy.sampler import bit_source, random_order
from privglasso.publish.batches import as_batches, gap_counts, rows_at
from privglasso.publish.cluster import Word, guarded, merged
from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import GraphWeightsMechanism, graph_on
from privglasso.publish.sphere import Ball
from privglasso.publish.sources import TableError

dask = pytest.importorskip("dask")
dd = pytest.importorskip(
    "dask.dataframe", reason="pip install 'privglasso[distributed]'"
)
N = 30_000
BAD = "Ada-7418529"  # a cell that no log and no error may hold


def table(n=N, gaps=False):
    "A skewed, a mostly constant, a whole and a normal column."
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "skewed": rng.lognormal(3, 1, n).round(9),
            "mostly": np.where(rng.random(n) < 0.8, 3.25, rng.normal(9, 1, n)),
            "whole": rng.integers(1, 6, n),
            "normal": rng.normal(1e6, 3, n),
        }
    )
    if gaps:
        made = made.astype(float).mask(rng.random(made.shape) < 0.1)
    return made


def piece(bounds, held):
    "Some records, as a function that workers call."
    return held.iloc[slice(*bounds)]


def cut(held, *ends):
    "The table as a Dask DataFrame that is cut at these records."
    ends = [0, *ends, len(held)]
    pairs = list(zip(ends[:-1], ends[1:], strict=True))
    return dd.from_map(piece, pairs, held=held, meta=held[:0])


MECHANISMS = {
    "default": CovarianceMechanism(mu=0.5),
    "levels": CovarianceMechanism(mu=0.5, levels={"whole": (1, 5)}),
    "bounds": CovarianceMechanism({"skewed": (0, 60)}, mu=0.5),
    "box": CovarianceMechanism((-5, 2e6), mu=0.5, clipping="box"),
    "norm": PapersCovarianceMechanism(norm_bound=2e6, mu=0.5),
    "sphere": CovarianceMechanism(mu=0.5, clipping="sphere"),
    "ball": CovarianceMechanism(mu=0.5, clipping=Ball(3.0, 10.0, 5.0)),
    "gaps": CovarianceMechanism(mu=0.5, missing="random"),
    "mostly gaps": CovarianceMechanism(mu=0.5, missing="center"),
    "weights": GraphWeightsMechanism(
        graph_on(list(table(2)), [("skewed", "whole"), ("skewed", "normal")]), mu=0.5
    ),
}


def assert_same(one, two):
    "Releases with the same numbers in them."
    assert type(one) is type(two) and one.columns == two.columns
    assert one.guarantee == two.guarantee
    kind, stored, settings = one._contents()
    assert (kind, settings) == (two._contents()[0], two._contents()[2])
    assert stored.equals(two._contents()[1])


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_bit_depends_on_the_partitions(name):
    held, mechanism = table(gaps="gaps" in name), MECHANISMS[name]
    if name == "mostly gaps":
        held.loc[np.arange(N) % 5 > 0, ["whole", "normal"]] = np.nan
    expected = mechanism.publish(held, random_state=1)
    if name == "mostly gaps":
        assert expected.mostly_missing == ["whole", "normal"]
    # inside of blocks of jitter, at their borders, with an empty one, and not at all
    for ends in ((1, 20_001, 20_001), (1 << 14,), ()):
        found = mechanism.publish(cut(held, *ends), random_state=1)
        assert_same(found, expected)


def test_mechanisms_that_read_records_have_the_same_records():
    "What has no sums of its own reads partitions, one after the other."
    held = table()
    source = as_batches(cut(held, 7, 20_000))
    assert [len(block) for block in source.blocks(13_000)] == [13_000, 13_000, 4_000]
    assert (np.concatenate(list(source.blocks(999))) == held.to_numpy(float)).all()
    places = random_order(N, bit_source(3), 600)
    assert (rows_at(source, places) == held.to_numpy(float)[places]).all()
    assert (rows_at(source[:, [2]])[:, 0] == held.whole).all()


def test_sums_of_parts_are_sums_of_the_whole():
    held = table(gaps=True)
    source = as_batches(cut(held, 11, 12, 25_000))
    missing = held.isna().sum().to_numpy()
    assert (gap_counts(source) == [missing, 0 * missing]).all()
    assert (gap_counts(source[:, [3, 1]])[0] == missing[[3, 1]]).all()
    one, two = ({0: 3}, (np.eye(2), 1)), ({4: 2}, (np.eye(2), 5))
    lengths, (second, total) = merged(one, two)
    assert lengths == {0: 3, 4: 2} and total == 6 and (second == 2 * np.eye(2)).all()


def test_counting_reads_one_column():
    held, seen = table(), []

    def load(k, columns=None):
        seen.append(tuple(columns or held.columns))
        return held.iloc[k * 10_000 : (k + 1) * 10_000][list(columns or held.columns)]

    frame = dd.from_map(load, range(3), meta=held[:0])
    seen.clear()
    source = as_batches(frame)
    assert source.shape == (N, 4) and seen == [("skewed",)] * 3
    seen.clear()
    gap_counts(source)
    assert len(source[:, [0]]) == N and seen == [tuple(held.columns)] * 3


def test_a_budget_pays_for_a_table_in_partitions(tmp_path):
    budget = Budget.create(tmp_path / "ledger.json", Guarantee(1.0, "record"))
    path, mechanism = tmp_path / "r.parquet", MECHANISMS["ball"]
    assert budget.publish(mechanism, cut(table(), 99), path, label="r").secure
    assert budget.spent().mu == pytest.approx(0.5)


def test_the_desk_takes_a_table_in_partitions(tmp_path):
    held = table()
    for source, to in ((held, "memory"), (cut(held, 9000), "cluster")):
        desk = Publication(source, "covariance", mu=1, drop="whole")
        record = desk.publish(tmp_path / f"{to}.parquet", random_state=3)
        assert record.draft.n == N and record.draft.left_out == ["whole"]
    made = (read_release(tmp_path / f"{to}.parquet") for to in ("memory", "cluster"))
    assert_same(*made)
    desk = Publication(cut(held, 9000), "covariance", mu=1, schema={"whole": {}})
    with pytest.raises(WordsError, match="map_partitions"):
        desk.publish(tmp_path / "other.parquet")


# ------------------------------------------------------------------ what is refused


def refused(source, error, mechanism="default"):
    "Publishing a source fails in a sentence, and with nothing behind it."
    with pytest.raises(error) as caught:
        MECHANISMS[mechanism].publish(source, random_state=0)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert BAD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_cells_are_refused_in_the_words_for_memory(cell):
    held = table()
    held.loc[N - 1, "skewed"] = cell
    told = refused(cut(held, 5000), InputError)
    assert "['skewed']" in told and "infinity" in told
    assert np.isinf(cell) or told == refused(held, InputError)


def test_a_partition_may_have_only_gaps_or_no_records():
    "Of objects, whose kind its own cells do not show."
    held = table(3000).assign(yes=lambda t: t.whole > 3).astype({"yes": object})
    held.loc[:999, "yes"] = None
    mechanism = CovarianceMechanism(mu=1.0, missing="center")
    expected = mechanism.publish(held, 0).matrix
    with dask.config.set({"dataframe.convert-string": False}):  # to text
        for ends in ((1000, 2000), (500, 1000), (1500, 1500)):
            found = mechanism.publish(cut(held, *ends), 0).matrix
            np.testing.assert_array_equal(found, expected)


def test_words_are_refused_in_the_words_for_memory():
    held = table(100).assign(name=BAD)
    held["name"] = held["name"].astype(object)
    told = refused(cut(held, 50), InputError)
    assert told == refused(held, InputError) and "name" in told


def test_what_is_no_frame_is_refused():
    array = pytest.importorskip("dask.array").ones((10, 2))
    assert "DataFrame" in refused(array, InputError)
    assert "DataFrame" in refused(cut(table()).skewed, InputError)


def test_a_table_that_changes_between_readings():
    held, readings = table(100), []

    def load(k):
        readings.append(k)
        return held.iloc[: 50 + len(readings)]

    frame = dd.from_map(load, range(2), meta=held[:0])
    assert "changed" in refused(frame, TableError, "box")


def cast(part):
    "A cast of Arrow, whose error quotes the cell."
    import pyarrow as pa

    cells = pa.array(part.skewed.astype(str)).cast(pa.float64())
    return part.assign(skewed=cells.to_numpy())


def spoiled(way, folder):
    "A DataFrame of which one cell has no reading, as each library says it."
    held = table(3000).astype({"skewed": object})
    held.loc[2500, "skewed"] = BAD
    if way == "text":
        held.to_csv(folder / "t.csv", index=False)
        kinds = dict.fromkeys(held.columns, float)
        return dd.read_csv(folder / "t.csv", blocksize=40_000, dtype=kinds)
    frame = cut(held, 1000, 2000)
    if way == "cast":
        return frame.astype(float)
    meta = table(1)[:0]
    return frame.map_partitions(cast, meta=meta)


WAYS = ["text", "cast", "arrow"]


@pytest.mark.parametrize("way", WAYS)
def test_no_error_holds_a_cell(way, tmp_path):
    frame = spoiled(way, tmp_path)
    assert "partition" in refused(frame, TableError)
    with pytest.raises(ValueError, match=BAD):  # and without a guard they do
        frame.skewed.sum().compute()


def test_words_stand_for_errors():
    def fails(error):
        raise error

    told = guarded(partial(fails, MemoryError(BAD)))
    assert isinstance(told, Word) and BAD not in f"{told} {told.error('t')}"
    assert isinstance(told.error("t"), TableError)
    named = guarded(partial(fails, InputError("X", ["name"], "drop it")))
    assert isinstance(named.error("t"), InputError)
    assert guarded(fails, named) is named
    with pytest.raises(KeyboardInterrupt):
        guarded(partial(fails, KeyboardInterrupt()))


# ------------------------------------------------------------------ two processes


def load(k, folder="", kill_at=0):
    "A partition; at such a reading of the fourth, the process that reads it dies."
    if kill_at and k == 3:
        marks = Path(folder)
        read = len(list(marks.iterdir())) + 1
        (marks / str(read)).touch()
        if read == kill_at:
            os.kill(os.getpid(), 9)
    rng = np.random.default_rng(k)
    return pd.DataFrame(rng.lognormal(size=(3000, 4)).round(6), columns=list("abcd"))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=False,
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.mark.long
@pytest.mark.parametrize("kill_at", [0, 1, 4])
def test_a_killed_worker_changes_no_bit(kill_at, client, tmp_path):
    "The default reads each partition four times: it dies in the first, or the last."
    whole = pd.concat([load(k) for k in range(6)])
    expected = MECHANISMS["default"].publish(whole, random_state=1)
    stated = {"folder": str(tmp_path), "kill_at": kill_at}
    frame = dd.from_map(load, range(6), **stated, meta=whole[:0])
    found = MECHANISMS["default"].publish(frame, random_state=1)
    assert_same(found, expected)
    assert len(list(tmp_path.iterdir())) == (5 if kill_at else 0)


@pytest.mark.long
def test_tables_that_are_held_or_shuffled_by_the_cluster(client):
    whole = pd.concat([load(k) for k in range(4)])
    frame = dd.from_map(load, range(4), meta=whole[:0])
    expected = MECHANISMS["default"].publish(whole, random_state=1)
    held = frame.persist()
    assert_same(MECHANISMS["default"].publish(held, random_state=1), expected)
    # sums do not ask for an order; the box has sums alone
    box = CovarianceMechanism((0, 9), mu=0.5, clipping="box")
    expected = box.publish(whole, random_state=1)
    assert_same(box.publish(frame.shuffle("a"), random_state=1), expected)


@pytest.mark.parametrize("way", WAYS)
def test_no_log_holds_a_cell(way, client, tmp_path, caplog, capfd):
    frame = spoiled(way, tmp_path)

    def logged():
        "All that was logged or printed, by any process."
        logs = client.get_worker_logs(), client.get_scheduler_logs()
        return f"{logs} {caplog.text} {''.join(capfd.readouterr())}"

    before = logged().count(BAD)  # of the ways before, which stay in the logs
    with caplog.at_level(logging.DEBUG):
        assert "partition" in refused(frame, TableError)
    assert logged().count(BAD) == before
    with pytest.raises(ValueError, match=BAD):  # the search can fail
        frame.skewed.sum().compute()
    assert logged().count(BAD) > before
