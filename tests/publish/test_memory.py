"""A bound on memory is kept, changes no bit, or is refused before anything is read."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privglasso.base.validation import InputError
from privglasso.base.words import WordsError
from privglasso.desk.choices import KINDS
from privglasso.desk.publication import Publication
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish import memory
from privglasso.publish.batches import Room, as_batches, room_here, within
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.memory import bytes_of, needed, room_for
from privglasso.publish.parquet import MECHANISMS
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import GaussianMechanism

N = 40_000


def table(n=N, p=4):
    "A chain of columns."
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(size=(n, p)).round(6), columns=list("abcdefgh")[:p])
    made["b"] += made.a
    return made


@pytest.fixture(autouse=True)
def begins(monkeypatch):
    "Bounds are for a process that begins, not for this one with all its tests."
    monkeypatch.setattr(memory, "held_now", lambda: memory._START)


@pytest.fixture
def path(tmp_path):
    table().to_parquet(tmp_path / "t.parquet", row_group_size=7000)
    return tmp_path / "t.parquet"


# ---------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("said", "meant"),
    [("1kB", 1000), ("1 KiB", 1024), ("1.5GB", 1.5e9), (" 2TiB ", 2**41), (77, 77)],
)
def test_bounds_in_words(said, meant):
    assert bytes_of(said) == meant


@pytest.mark.parametrize(
    "said", ["", "-1GB", "1e9", "GB", "0", 0, None, 2.5, True, "9" * 400, 10**400]
)
def test_what_is_no_bound(said):
    with pytest.raises(InputError, match="512MB"):
        bytes_of(said)


def test_the_least_bound_that_is_named_would_do():
    for mechanism in (CovarianceMechanism(mu=0.5), KendallMechanism(mu=0.5)):
        with pytest.raises(InputError) as caught:
            room_for(1, mechanism, 10**7, 10)
        named = caught.value.remedy.split()[1]
        assert room_for(named, mechanism, 10**7, 10).batch >= 1 << 15
        with pytest.raises(InputError):
            room_for(bytes_of(named) - 2_000_000, mechanism, 10**7, 10)


def test_what_would_do_instead():
    told = lambda *words, **more: pytest.raises(InputError, match=words[0])
    with told("folder"):
        room_for("900MB", GaussianMechanism((0, 1), mu=1), 10**8, 10)
    assert room_for("900MB", GaussianMechanism((0, 1), mu=1), 10**8, 10, folder=True)
    with told("folder"):
        room_for("900MB", SyntheticDataMechanism(mu=1), 10**8, 10)
    assert room_for("900MB", SyntheticDataMechanism(mu=1, rows=1000), 10**8, 10)
    with told("covariance"):
        room_for("900MB", KendallMechanism(mu=1), 10**8, 10)


def test_every_mechanism_is_told_apart():
    "Those that gather rows, or hold a table, are named as files name them."
    known = {name for names in MECHANISMS.values() for name in names}
    assert {*memory._GATHER, *memory._DRAW, *memory._ON_CELLS} <= known


def test_more_memory_is_more_room_up_to_the_usual():
    for mechanism in (CovarianceMechanism(mu=0.5), KendallMechanism(mu=0.5)):
        rooms = [room_for(f"{k}GB", mechanism, 10**7, 10) for k in (1, 2, 40)]
        sizes = [(room.batch, room.held) for room in rooms]
        assert sizes == sorted(sizes) and sizes[-1] == (Room().batch, Room().held)


# ------------------------------------------------------------------------ the same bits


def assert_same(one, two):
    "Releases with the same numbers in them."
    assert one.guarantee == two.guarantee and one.columns == two.columns
    kind, stored, settings = one._contents()
    assert (kind, settings) == (two._contents()[0], two._contents()[2])
    assert stored.equals(two._contents()[1])


@pytest.mark.parametrize("name", ["covariance", "kendall", "tree", "table", "copula"])
def test_no_bit_depends_on_the_bound(name, path, tmp_path):
    words = {"mu": 2, "drop": "d"} | ({"failure": 1e-6} if name == "tree" else {})
    words |= {"bounds": (-4, 4), "meant": True} if name == "table" else {}
    releases, batches = [], set()
    for k, bound in enumerate((None, "tight", "3GB")):
        if bound == "tight":  # as little as this publication is given
            with pytest.raises(InputError) as caught:
                Publication(path, name, memory=1, **words).rehearse()
            bound = caught.value.remedy.split()[1]
        desk = Publication(path, name, memory=bound, **words)
        made, seen = tmp_path / f"{k}.parquet", []
        heard = lambda _, seen=seen: seen.append(room_here())
        desk.publish(made, random_state=3, heard=heard)
        releases.append(read_release(made))
        batches.add(seen[0].batch)
    assert_same(releases[1], releases[0])
    assert_same(releases[2], releases[0])
    assert len(batches) > 1 and room_here() == Room()


@pytest.mark.parametrize("kind", ["feather", "csv", "folder", "schema"])
def test_no_bit_depends_on_the_bound_of_any_file(kind, path, tmp_path, monkeypatch):
    from privglasso.desk import source

    monkeypatch.setattr(source, "_SHORT", 1 << 10)
    held, words = table(), {"epsilon": 1}
    if kind == "feather":
        held.to_feather(tmp_path / "t.feather")
        path = tmp_path / "t.feather"
    elif kind in ("csv", "schema"):
        held.to_csv(tmp_path / "t.csv", index=False)
        path = tmp_path / "t.csv"
        if kind == "schema":
            columns = {name: {"low": -5, "high": 5} for name in held}
            words |= {"schema": columns, "decimal": "."}
    else:
        (tmp_path / "parts").mkdir()
        for k in range(3):
            held[k::3].to_parquet(tmp_path / f"parts/{k}.parquet")
        path = tmp_path / "parts"
    for name, bound in (("one", None), ("two", "3GB")):
        desk = Publication(path, "covariance", memory=bound, **words)
        desk.publish(tmp_path / f"{name}.parquet", random_state=3)
    assert_same(*(read_release(tmp_path / f"{k}.parquet") for k in ("one", "two")))


def test_a_table_in_a_database_has_a_bound_of_its_own(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="pip install 'privglasso[sql]'")
    with duckdb.connect(tmp_path / "t.db") as made:
        made.register("held", table())
        made.execute("CREATE TABLE t AS SELECT * FROM held")
    source = f"duckdb:{tmp_path}/t.db?t"
    for name, bound in (("one", None), ("two", "3GB")):
        desk = Publication(source, "covariance", mu=1, memory=bound)
        desk.publish(tmp_path / f"{name}.parquet", random_state=3)
    assert_same(*(read_release(tmp_path / f"{k}.parquet") for k in ("one", "two")))
    with within(Room(mapped=False)):
        assert len(np.concatenate(list(as_batches(source).blocks()))) == N


# --------------------------------------------------------------------------- refused


def test_a_bound_that_cannot_be_kept_costs_nothing(path, tmp_path):
    ledger = tmp_path / "ledger.json"
    Budget.create(ledger, Guarantee(3.0, "record"))
    desk = Publication(path, "covariance", mu=1, ledger=ledger, memory="100MB")
    for act in (desk.rehearse, desk.publish):
        with pytest.raises(InputError, match="or more"):
            act(tmp_path / "r.parquet")
    assert Budget(ledger).spent().mu == 0 and not (tmp_path / "r.parquet").exists()


def test_what_is_in_memory_already_has_no_bound():
    with pytest.raises(WordsError, match="in memory already"):
        Publication(table(), mu=1, memory="3GB")


def test_a_workbook_is_read_whole(tmp_path):
    table(3000).to_excel(tmp_path / "t.xlsx", index=False)
    desk = Publication(tmp_path / "t.xlsx", "covariance", mu=1, memory="3GB")
    with pytest.raises(WordsError, match=r"t.xlsx is read whole: write it as Parquet"):
        desk.rehearse()


def test_a_record_batch_that_is_the_whole_table(tmp_path):
    "What a file unpacks at once is counted before it is read."
    held = pa.table(table())
    with pa.ipc.new_file(tmp_path / "t.feather", held.schema) as file:
        file.write_batch(held.combine_chunks().to_batches()[0])
    assert as_batches(tmp_path / "t.feather").unpacked == 16 * 4 * N
    pq.write_table(held, tmp_path / "t.parquet", row_group_size=100, compression=None)
    few = as_batches(tmp_path / "t.parquet").unpacked
    pq.write_table(held, tmp_path / "t.parquet", compression=None, use_dictionary=False)
    assert few < 2 * 4 * 1100 < as_batches(tmp_path / "t.parquet").unpacked


# ------------------------------------------------------------------------- the peak

CHILD = """
import sys
from privglasso.desk.publication import Publication

# not ru_maxrss, which begins with what the process that started this one had
used = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
source, to, name, bound = sys.argv[1:]
words = {"bounds": (-4, 4), "meant": True} if name == "table" else {}
desk = Publication(source, name, mu=2, memory=bound or None, **words)
desk.publish(to, random_state=1)
print(used() * 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "to"), [("covariance", "r.parquet"), ("table", "open")]
)
def test_the_peak_stays_below_the_bound(name, to, tmp_path):
    block = pa.table(table(1 << 17, 8))
    with pq.ParquetWriter(tmp_path / "t.parquet", block.schema) as writer:
        for _ in range(4 if name == "table" else 15):  # 15 are 15.7 million cells
            writer.write_table(block)
    with pytest.raises(InputError) as caught:
        words = {"bounds": (-4, 4)} if name == "table" else {}
        desk = Publication(tmp_path / "t.parquet", name, mu=2, memory=1, **words)
        desk.rehearse(tmp_path / to)
    bound = caught.value.remedy.split()[1]
    peaks = []
    for given in (bound,) if name == "table" else (bound, ""):
        place = tmp_path / f"under {given}"
        place.mkdir()
        words = [tmp_path / "t.parquet", place / to, name, given]
        command = [sys.executable, "-c", CHILD, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[0] < bytes_of(bound)
    # without a bound all cells are held: the check can fail
    assert name == "table" or peaks[1] > bytes_of(bound)


def test_kinds_of_the_desk_are_all_bounded(path):
    "Each mechanism of the desk tells a room, or a sentence."
    for name in set(KINDS) - {"weights"}:
        words = {"bounds": (-4, 4), "meant": True} if name == "table" else {}
        words |= {"failure": 1e-6} if name in ("tree", "votes", "fallback") else {}
        with pytest.raises(InputError, match="or more"):
            Publication(path, name, mu=3, memory="1MB", **words).rehearse()


def test_rows_of_a_copula_are_counted():
    few, all_of_them = CopulaMechanism(mu=1, rows=10), CopulaMechanism(mu=1)
    assert needed(all_of_them, 10**7, 10) > needed(few, 10**7, 10) + 8 * 10**8
    assert needed(all_of_them, 10**7, 10, True) < needed(all_of_them, 10**7, 10) / 4


GATHERED = """
import sys
from privglasso.publish.batches import Room, as_batches, within
from privglasso.publish.ranks import KendallMechanism

used = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
mechanism, source = KendallMechanism(mu=2), sys.argv[1]
for held in map(int, sys.argv[2:]):
    with within(Room(1 << 16, held, mapped=False)):
        mechanism.publish(as_batches(source), 1)
    print(used() * 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_gathered_cell_takes_what_is_counted_and_little_less(tmp_path):
    "Of one reading more cells are held than of another, and so much more memory taken."
    table(1 << 20, 8).to_parquet(tmp_path / "t.parquet", row_group_size=1 << 16)
    few, many = 1 << 19, 8 << 20
    words = [tmp_path / "t.parquet", few, many]
    command = [sys.executable, "-c", GATHERED, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    least, most = map(int, done.stdout.split())
    each = (most - least) / (many - few)
    assert 0.7 * memory._OF_GATHERED < each <= memory._OF_GATHERED, each
