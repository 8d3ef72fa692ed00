"""What is read in batches is published to the bit of the table in memory."""

import gzip
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from privglasso.base.validation import InputError
from privglasso.privacy.sampler import bit_source, random_order
from privglasso.publish.batches import Batches, Room, as_batches, blocks_of, gathered
from privglasso.publish.batches import applied, looked_at_late, rows_at, within
from privglasso.publish.bounds_check import BoundsCheck
from privglasso.publish.copula import CopulaMechanism
from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.graph_weights import GraphWeightsMechanism, graph_on
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import MECHANISMS as KNOWN
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.screened_weights import ScreenedGraphMechanism
from privglasso.publish.schema import Schema
from privglasso.publish.sphere import Ball
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.publish.sources import TableError, read_table
from privglasso.publish.tree import ThresholdedGraphMechanism, TreeMechanism
from privglasso.publish.votes import VotedGraphMechanism, VotedWeightsMechanism
from privglasso.publish.whitening import WhitenedCovarianceMechanism

N = 40_000


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


def chain(n=N):
    "Columns that depend on each other in turn, so that a graph is found."
    values = np.random.default_rng(0).standard_normal((n, 4)).cumsum(axis=1)
    return pd.DataFrame(values, columns=list("abcd"))


def cut(values, columns, size):
    "A source of batches of such a size."
    values = np.asarray(values, float)
    starts = range(0, len(values), size)
    return Batches(columns, lambda j: (values[k : k + size][:, j] for k in starts))


PROMISE = {"epsilon": 1.0, "delta": 1e-6}
MIDDLE = [20, 5, 3, 1e6]
VOTER = lambda block: np.abs(np.corrcoef(block, rowvar=False)) > 0.65

MECHANISMS = {
    "default": CovarianceMechanism(mu=0.5),
    "levels": CovarianceMechanism(mu=0.5, levels={"whole": (1, 5)}),
    "bounds": CovarianceMechanism({"skewed": (0, 60)}, mu=0.5),
    "box": CovarianceMechanism((-5, 2e6), mu=0.5, clipping="box"),
    "norm": PapersCovarianceMechanism(norm_bound=2e6, mu=0.5),
    "sphere": CovarianceMechanism(mu=0.5, clipping="sphere"),
    "ball": CovarianceMechanism(mu=0.5, clipping=Ball(3.0, 10.0, 5.0)),
    "weights": GraphWeightsMechanism(
        graph_on(list(table(2)), [("skewed", "whole"), ("skewed", "normal")]), mu=0.5
    ),
    "screened": ScreenedGraphMechanism(edges=3, mu=0.5),
    "quadrant": QuadrantMechanism(MIDDLE, mu=0.5),
    "kendall": KendallMechanism(mu=0.5, shifts=3),
    "tree": TreeMechanism(**PROMISE),
    "centred tree": TreeMechanism(center=0, **PROMISE),
    "graph": ThresholdedGraphMechanism(0.65, **PROMISE),
    "votes": VotedGraphMechanism(VOTER, blocks=101, **PROMISE),
    "votes and weights": VotedWeightsMechanism(VOTER, blocks=101, **PROMISE),
    "copula": CopulaMechanism(rows=50, mu=0.5),
    "whitened": WhitenedCovarianceMechanism(mu=3.0),
    "synthetic": SyntheticDataMechanism(mu=0.5, rows=50),
    "synthetic box": SyntheticDataMechanism((-5, 2e6), mu=0.5, clipping="box"),
    "local": LocalMechanism(2e6, mu=0.5),
    "table": GaussianMechanism((-5, 2e6), mu=0.5),
    "cells": GaussianMechanism((-5, 2e6), mu=0.5, neighbors="cell"),
    "integers": DiscreteGaussianMechanism((-5, 2e6), mu=0.5),
}
GRAPHS = ("tree", "centred tree", "graph", "votes")
FEW = {"local": 700, "table": 9000, "cells": 9000, "integers": 9000}  # slow ones


def test_every_mechanism_is_here():
    known = {name for names in KNOWN.values() for name in names}
    assert known == {type(mechanism).__name__ for mechanism in MECHANISMS.values()}


def assert_same(one, two):
    "Releases with the same numbers in them."
    assert type(one) is type(two) and one.columns == two.columns
    assert one.guarantee == two.guarantee
    kind, stored, settings = one._contents()
    assert (kind, settings) == (two._contents()[0], two._contents()[2])
    assert stored.equals(two._contents()[1])


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_bit_depends_on_the_size_of_the_batches(name):
    made = chain if name in GRAPHS else table
    held, mechanism = made(FEW.get(name, N)), MECHANISMS[name]
    expected = mechanism.publish(held, random_state=1)
    assert getattr(expected, "decided", True)
    for size in (997, 1 << 14, N):
        source = cut(held, list(held), size)
        assert_same(mechanism.publish(source, random_state=1), expected)


@pytest.mark.parametrize("name", ["kendall", "tree", "graph", "votes"])
def test_rows_in_a_secret_order_are_gathered_in_several_readings(name):
    held, mechanism, readings = chain(), MECHANISMS[name], []
    expected = mechanism.publish(held, random_state=1)

    def read(places):
        readings.append(places)
        return iter([held.to_numpy(float)[:, places]])

    assert getattr(expected, "decided", True)
    with within(Room(held=N)):  # a quarter of the cells
        assert_same(mechanism.publish(Batches(list(held), read), 1), expected)
    assert len(readings) > 2  # the cells are checked in one, all rows would take one


def test_an_order_that_is_used_up_leaves_room_for_rows(monkeypatch):
    "Ten readings would be needed if it were kept."
    for name, value in (("_PIECE", 1000), ("_BLOCK_CELLS", 1)):
        monkeypatch.setattr(f"privglasso.publish.comparisons.{name}", value)
    held, readings = chain()[["a", "b"]], []

    def read(places):
        readings.append(places)
        return iter([held.to_numpy(float)[:, places]])

    expected = MECHANISMS["kendall"].publish(held, random_state=1)
    source = looked_at_late(Batches(list(held), read, N))
    with within(Room(held=N // 4)):
        assert_same(MECHANISMS["kendall"].publish(source, 1), expected)
    assert len(readings) <= 7  # one of these ends after a record


def test_few_rows_of_a_file_are_those_of_the_table(tmp_path):
    held = table(3000).assign(flag=np.arange(3000) % 3 == 0)
    held.to_parquet(tmp_path / "t.parquet", index=False, row_group_size=999)
    cells, source = held.to_numpy(float), as_batches(tmp_path / "t.parquet")
    places = random_order(3000, bit_source(3), 200)
    for room in (Room(), Room(batch=700, held=170)):
        with within(room):
            parts = np.concatenate(list(gathered(source, np.split(places, 8))))
            assert (parts == cells[places]).all()
            few = rows_at(source[:, [4, 1]], places)
            assert (few == cells[places][:, [4, 1]]).all()
            squares = source.mapped(lambda rows: rows[:, :2] ** 2)
            assert (rows_at(source) == cells).all()
        assert (np.concatenate(list(squares.batches())) == cells[:, :2] ** 2).all()


def test_parts_are_gathered_as_they_were_asked_for():
    held, rng = table(300).to_numpy(float), np.random.default_rng(0)
    parts = [rng.integers(0, 300, k) for k in (3, 0, 5, 30, 1, 9, 11)]
    with within(Room(held=40)):
        found = list(gathered(cut(held, list("abcd"), 77), iter(parts)))
    assert len(found) == len(parts)
    for rows, places in zip(found, parts, strict=True):
        assert (rows == held[places]).all()


def test_a_check_of_bounds_counts_in_batches():
    held, check = table(gaps=True), BoundsCheck((-5, [30, 4, 4, 1e6]), mu=0.5)
    expected = check.publish(held, random_state=1)
    for size in (997, N):
        found = check.publish(cut(held, list(held), size), random_state=1)
        assert (found.counts == expected.counts).all() and found.n == N


@pytest.mark.parametrize("missing", ["center", "random"])
def test_gaps_are_the_same_gaps(missing, tmp_path):
    held, mechanism = table(gaps=True), CovarianceMechanism(mu=0.5, missing=missing)
    expected = mechanism.publish(held, random_state=1)
    for name in ("t.parquet", "t.csv"):
        writer = held.to_parquet if name == "t.parquet" else held.to_csv
        writer(tmp_path / name, index=False)
        assert_same(mechanism.publish(tmp_path / name, random_state=1), expected)


def test_mostly_missing_columns_are_the_same_in_batches(tmp_path):
    held, gone = table(gaps=True), np.random.default_rng(5).random(N)
    held["normal"] = held.normal.mask(gone < 0.8)
    held["whole"] = held.whole.mask(gone < 0.7)
    for mechanism in (
        CovarianceMechanism(mu=0.5, missing="center"),
        SyntheticDataMechanism(mu=0.5, missing="random", rows=50),
    ):
        expected = mechanism.publish(held, random_state=1)
        private = getattr(expected, "covariance_release", expected)
        assert private.mostly_missing == ["whole", "normal"]
        for size in (997, 1 << 14, N):
            found = mechanism.publish(cut(held, list(held), size), random_state=1)
            assert_same(found, expected)
    for k, start in enumerate(range(0, N, 13_001)):
        held[start : start + 13_001].to_parquet(tmp_path / f"{k}.parquet")
    assert_same(mechanism.publish(tmp_path, random_state=1), expected)


def written(held, folder):
    "Sources of one table of every kind, by name."
    arrow, parts = pa.Table.from_pandas(held, preserve_index=False), folder / "parts"
    parts.mkdir()
    for k, start in enumerate(range(0, len(held), 13_001)):
        pq.write_table(arrow.slice(start, 13_001), parts / f"{k}.parquet")
    (parts / "_SUCCESS").touch()
    feather.write_feather(arrow, folder / "t.feather")
    held.to_csv(folder / "t.csv", index=False)
    with gzip.open(folder / "t.csv.gz", "wb") as file:
        file.write((folder / "t.csv").read_bytes())
    held.to_csv(folder / "comma.csv", index=False, sep=";", decimal=",")
    return {
        "array": as_batches(held),
        "Arrow": as_batches(arrow),
        "reader": as_batches(arrow.to_reader()),
        "folder": parts,
        "pattern": str(parts / "*.parquet"),
        "Feather": folder / "t.feather",
        "text": folder / "t.csv",
        "packed": folder / "t.csv.gz",
        "commas": folder / "comma.csv",
    }


KINDS = ("default", "screened", "quadrant", "tree", "synthetic", "votes", "integers")


@pytest.mark.long
def test_no_bit_depends_on_the_kind_of_the_source(tmp_path):
    held = table()
    expected = {name: MECHANISMS[name].publish(held, random_state=1) for name in KINDS}
    for kind, source in written(held, tmp_path).items():
        for name in KINDS if kind in ("folder", "text", "reader") else KINDS[:1]:
            found = MECHANISMS[name].publish(source, random_state=1)
            assert_same(found, expected[name])


def test_a_text_is_the_same_in_blocks_of_any_size(tmp_path, monkeypatch):
    from privglasso.publish import batches, sources

    held = table(2000)
    held.to_csv(tmp_path / "t.csv", index=False)
    sizes = []

    def short(path, form):
        return sources.text_batches(path, form, block=1 << 12)

    monkeypatch.setattr(batches, "text_batches", short)
    source = as_batches(tmp_path / "t.csv")
    for batch in source.read([0, 1, 2, 3]):
        sizes.append(len(batch))
    assert len(sizes) > 10 and sum(sizes) == 2000
    assert (rows_at(source) == held.to_numpy(float)).all()


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("mark", [".", ","])
def test_no_record_is_read_in_the_light_of_one(mark, two, tmp_path, monkeypatch):
    "In the first block a cell, or two, say which mark is decimal; 1,234 comes later."
    from privglasso.publish import batches, sources

    cells = [f"1{mark}5"] * (1 + two) + ["7"] * 3000 + ["1,234", "8", "9"]
    (tmp_path / "t.csv").write_text("\n".join(["a;b", *(f"{c};1" for c in cells)]))
    short = lambda path, form: sources.text_batches(path, form, block=1 << 12)
    monkeypatch.setattr(batches, "text_batches", short)
    source = as_batches(tmp_path / "t.csv")
    if not two:
        with pytest.raises(TableError, match="1,234"):
            rows_at(source)
        return
    held = read_table(tmp_path / "t.csv").to_numpy()
    assert (rows_at(source) == held).all()
    assert held[-3, 0] == {".": 1234, ",": 1.234}[mark]


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_lazy_tables_of_other_libraries(library, tmp_path):
    module = pytest.importorskip(library)
    held, mechanism = table(), MECHANISMS["default"]
    held.to_parquet(tmp_path / "t.parquet", index=False)
    path = str(tmp_path / "t.parquet")
    read = module.scan_parquet if library == "polars" else module.read_parquet
    lazy = read(path)
    expected = mechanism.publish(held, random_state=1)
    assert_same(mechanism.publish(lazy, random_state=1), expected)


def test_a_sample_is_that_of_the_table_in_memory():
    held = table()
    source = cut(held, list(held), 77)
    for n, first in ((N, 600), (N, 10_000)):
        places = random_order(n, bit_source(3), first)
        assert (rows_at(source, places) == held.to_numpy()[places]).all()


# ------------------------------------------------------------------ what is refused


def refused(source, error, *words):
    "Publishing a source fails in a sentence with these words."
    with pytest.raises(error) as caught:
        MECHANISMS["default"].publish(source, random_state=0)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize("name", ["0.parquet", "1.parquet"])
@pytest.mark.parametrize("share", [0.3, 0.97])
def test_a_part_that_ends_short(name, share, tmp_path):
    written(table(), tmp_path)
    part = tmp_path / "parts" / name
    whole = part.read_bytes()
    part.write_bytes(whole[: int(share * len(whole))])
    refused(tmp_path / "parts", TableError, name)


def test_a_text_that_ends_short(tmp_path):
    written(table(), tmp_path)
    for name in ("t.csv", "t.csv.gz"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-12 if name == "t.csv" else -300])
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "t.csv").write_text(text[: text.rindex(",")])
    refused(tmp_path / "t.csv", TableError, "t.csv")
    refused(tmp_path / "t.csv.gz", TableError, "t.csv.gz")


def test_damaged_pages_quote_nothing(tmp_path):
    held = table()
    held.to_parquet(tmp_path / "t.parquet", index=False)
    whole = bytearray((tmp_path / "t.parquet").read_bytes())
    whole[4:400] = bytes(396)  # where the first page says what it is
    (tmp_path / "t.parquet").write_bytes(whole)
    refused(tmp_path / "t.parquet", TableError, "t.parquet")


@pytest.mark.parametrize(
    "other",
    [
        pd.DataFrame({"b": [71234.5], "a": [1.0]}),
        pd.DataFrame({"a": [71234.5]}),
        pd.DataFrame({"a": ["71234.5"], "b": [1.0]}),
    ],
    ids=["order", "fewer", "type"],
)
def test_parts_that_are_not_alike(other, tmp_path):
    one = pd.DataFrame(np.ones((5, 2)), columns=["a", "b"])
    one.to_parquet(tmp_path / "0.parquet")
    other.to_parquet(tmp_path / "1.parquet")
    assert "71234" not in refused(tmp_path, TableError, "0.parquet", "1.parquet")


def test_folders_without_a_table(tmp_path):
    refused(tmp_path, TableError, tmp_path.name, "no table")
    refused(str(tmp_path / "*.parquet"), TableError, "no table")
    refused(tmp_path / "t.parquet", TableError, "no such file")
    (tmp_path / "year=2020").mkdir()
    table(10).to_parquet(tmp_path / "year=2020" / "a.parquet")
    refused(tmp_path, TableError, "=")


@pytest.mark.parametrize(
    ("name", "readings"), [("box", 1), ("ball", 1), ("sphere", 2), ("default", 3)]
)
def test_cells_are_looked_at_as_they_are_read(name, readings):
    "No reading is made for them alone, and what is refused reaches no mechanism."
    cells, seen = chain().to_numpy(), []
    mechanism = MECHANISMS[name]

    def read(places, cells=cells):
        for start in range(0, N, 5000):
            seen.append(start)
            yield cells[start : start + 5000, places]

    mechanism.publish(Batches(list("abcd"), read, N), random_state=0)
    assert seen.count(35_000) == readings
    wrong = cells.copy()
    wrong[0, 1] = np.finfo(float).max  # finite, and so is the next
    wrong[1, 1] = np.finfo(float).max
    mechanism.publish(Batches(list("abcd"), lambda at: read(at, wrong), N), 0)
    wrong[39_000, 2], wrong[20_000, 0] = np.nan, np.inf
    with pytest.raises(InputError, match=r"X=\['a', 'c'\]"):
        mechanism.publish(Batches(list("abcd"), lambda at: read(at, wrong), N), 0)


def test_what_a_ledger_pays_for_is_looked_at_before(tmp_path):
    from privglasso.privacy.budget import Budget
    from privglasso.privacy.guarantee import Guarantee

    held = chain()
    held.iloc[-1, 0] = np.nan
    held.to_parquet(tmp_path / "t.parquet")
    budget = Budget.create(tmp_path / "b.json", Guarantee(1.0, "record"))
    with pytest.raises(InputError, match="NaN"):
        there = tmp_path / "t.parquet", tmp_path / "r.parquet"
        budget.publish(MECHANISMS["box"], *there, label="r")
    assert not len(budget.table()) and not (tmp_path / "r.parquet").exists()


def test_a_part_that_changes_between_readings(tmp_path):
    held, readings = table(), []

    def read(places):
        readings.append(1)
        return iter([held.to_numpy(float)[: N - len(readings), places]])

    refused(Batches(list(held), read), TableError, "changed")
    table().to_parquet(tmp_path / "t.parquet")
    source = as_batches(tmp_path / "t.parquet")
    table(N - 1).to_parquet(tmp_path / "t.parquet")
    refused(source, TableError, "changed")


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_cells_are_refused_in_the_words_for_memory(cell, tmp_path):
    held = table()
    held.loc[N - 1, "skewed"] = cell
    held.to_parquet(tmp_path / "t.parquet", index=False)
    words = refused(held, InputError, "skewed")
    assert refused(tmp_path / "t.parquet", InputError) == words


def test_words_and_releases_are_no_table_of_numbers(tmp_path):
    text = pd.DataFrame({"a": [1.0, 2.0], "name": ["Ada", "Bo"]})
    text.to_parquet(tmp_path / "t.parquet")
    assert "Ada" not in refused(tmp_path / "t.parquet", InputError, "name")
    release = MECHANISMS["default"].publish(table())
    release.to_parquet(tmp_path / "r.parquet")
    refused(tmp_path / "r.parquet", TableError, "release already")


def test_rows_are_not_chosen_from_a_source():
    source = as_batches(np.ones((5, 2)))
    with pytest.raises(InputError, match="rows"):
        source[:2, [0]]
    assert [len(block) for block in blocks_of(source[:, [1]], 3)] == [3, 2]


# -------------------------------------------------------------------------- memory

CHILD = """
import sys
import tracemalloc
from privglasso.base.kernels import buy
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.screened_weights import ScreenedGraphMechanism
from privglasso.publish.tree import TreeMechanism

# not ru_maxrss, which begins with what the process that started this one had
used = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
mechanism = eval(sys.argv[1])
buy()  # what is compiled takes memory too
for path in sys.argv[2:]:
    mechanism.publish(path, 0)
    print(used() / 1024)
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    "Tables of ten columns, in 2, 10 and 18 parts: until the second, allocators settle."
    made, frame = [], pd.DataFrame(np.random.default_rng(0).normal(size=(1 << 16, 10)))
    frame.columns = [f"c{j}" for j in range(10)]
    for parts in (2, 10, 18):
        made.append(tmp_path_factory.mktemp("parts"))
        frame.to_parquet(made[-1] / "0.parquet")
        for k in range(1, parts):  # another name of the same bytes
            os.link(made[-1] / "0.parquet", made[-1] / f"{k}.parquet")
    return made


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "mechanism",
    [
        "CovarianceMechanism(mu=0.5)",
        "ScreenedGraphMechanism(edges=5, mu=0.5)",
        "QuadrantMechanism(0, mu=0.5)",
        "TreeMechanism(center=0, mu=0.5, failure=1e-6)",
    ],
)
def test_memory_does_not_grow_with_the_table(mechanism, folders):
    command = [sys.executable, "-c", CHILD, mechanism, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, short, long = map(float, done.stdout.split())
    assert long - short < 8 * (1 << 16) * 10 * 8 / 2**20 / 2  # MiB more in the cells


def test_a_batch_of_many_columns_has_few_rows(tmp_path):
    made = np.random.default_rng(0).integers(0, 9, (2500, 2000)).astype(float)
    path = tmp_path / "wide.parquet"
    pd.DataFrame(made, columns=[f"x{j}" for j in range(2000)]).to_parquet(path)
    batches, most = as_batches(path), (1 << 22) // 2000
    assert max(map(len, batches.read(list(range(2000))))) <= most < 2500
    blocks = list(batches.blocks())
    assert [len(block) for block in blocks] == [most, 2500 - most]
    assert np.array_equal(np.vstack(blocks), made)
    assert [len(block) for block in batches.read([0, 1])] == [2500]


def test_a_few_rows_are_not_given_the_room_of_many():
    "A secret sample of a long table: memory that is not asked for is not reserved."
    table = as_batches(pa.table({"a": np.arange(2e6)}))
    list(gathered(table, [np.arange(3)]))  # what is loaded is loaded
    tracemalloc.start()
    try:
        (found,) = gathered(table, [np.arange(0, 2_000_000, 200_000)])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[:, 0].tolist() == list(range(0, 2_000_000, 200_000))
    assert most < 8e6, most  # the table itself has sixteen million bytes


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_a_part_may_have_only_gaps_in_a_column(tmp_path, kind):
    "pandas writes them with no kind; which part comes first does not matter."
    table = pd.DataFrame({"yes": [True, None] * 2, "sum": [1.5, 2, 3, 4]}, dtype=object)
    gone = table.iloc[:2].assign(yes=None, sum=None)
    for parts in ([gone, table], [table, gone], [gone, gone]):
        for k, part in enumerate(parts):
            path, plain = tmp_path / f"{k}.{kind}", part.reset_index(drop=True)
            plain.to_csv(path, index=False) if kind == "csv" else getattr(
                plain, f"to_{kind}"
            )(path)
        whole = pd.concat(parts, ignore_index=True)
        numbers = lambda row: [np.nan if x is None else float(x) for x in row]
        expected = [numbers(row) for row in whole.to_numpy()]
        for given in (tmp_path, whole, whole.to_numpy()):
            np.testing.assert_array_equal(rows_at(as_batches(given)), expected)


def test_kinds_that_differ_are_refused_behind_a_part_of_gaps(tmp_path):
    for k, cells in enumerate(([None, None], [1.0, 2.0], ["x", "y"])):
        pd.DataFrame({"a": cells}).to_parquet(tmp_path / f"{k}.parquet")
    with pytest.raises(TableError, match="2.parquet: column 1 is of another kind"):
        as_batches(tmp_path)


def test_a_schema_reads_words_behind_a_part_of_gaps(tmp_path):
    cells = [None, None, "A", "B", "C"]
    for k, part in enumerate((cells[:2], cells[2:])):
        pd.DataFrame({"a": part}).to_parquet(tmp_path / f"{k}.parquet")
    schema = Schema({"a": {"kind": "category", "levels": ["A", "B", "C"]}})
    whole = schema.apply(pd.DataFrame({"a": cells})).to_numpy()
    np.testing.assert_array_equal(rows_at(applied(tmp_path, schema)), whole)
    with pytest.raises(TableError, match="decimal"):
        applied(tmp_path, Schema({"a": {}}))
