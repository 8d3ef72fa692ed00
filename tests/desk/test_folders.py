"""A folder on the desk is read in batches, and gives the release of its table."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import privglasso as pg
from privglasso.base.words import WordsError
from privglasso.data_sets.synthetic import example_table
from privglasso.desk import source as sources
from privglasso.desk.choices import KINDS
from privglasso.desk.ledger import begin_ledger
from privglasso.desk.plan import plan_publication
from privglasso.desk.source import open_release
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.publish import folders
from privglasso.publish import sources as table_files
from privglasso.publish.batches import Batches
from privglasso.publish.files import read_release
from privglasso.publish.sources import TableError

N = 20_000


@pytest.fixture(scope="module")
def table():
    return example_table(N, random_state=0).table.round(6)


def cut(table, folder, ending=".parquet", rows=6007):
    "The table in parts."
    folder.mkdir()
    for k, start in enumerate(range(0, len(table), rows)):
        part, path = table.iloc[start : start + rows], folder / f"part-{k}{ending}"
        write = part.to_csv if ending == ".csv" else part.to_parquet
        write(path, index=False)
    return folder


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    return cut(table, tmp_path_factory.mktemp("private") / "parts")


def published(source, to, **words):
    "What a stranger reads, and who made it."
    record = pg.Publication(source, **words).publish(to, random_state=3)
    return read_release(to), record


def assert_same(one, two):
    "Two releases with the same numbers in them."
    first, second = one._contents(), two._contents()
    assert (first[0], first[2]) == (second[0], second[2])
    assert first[1].equals(second[1]) and one.guarantee == two.guarantee


def edges(table):
    "A public graph: a chain of all columns."
    return list(zip(table.columns[:-1], table.columns[1:], strict=True))


WAYS = {
    "recommended": {"epsilon": 1},
    "bounds": {"mu": 1, "bounds": (-3, 3), "mechanism": "covariance"},
    "box": {"mu": 1, "bounds": (-3, 3), "box": True},
    "gaps": {"mu": 1, "missing": "center", "mechanism": "covariance"},
    "weights": {"mu": 1, "mechanism": "weights", "graph": edges},
    "fewer": {"mu": 1, "drop": 1, "mechanism": "covariance"},
    "table": {"mu": 9, "bounds": (-3, 3), "mechanism": "table", "meant": True},
    "sigma": {"sigma": 1, "bounds": (-3, 3), "meant": True},
    "rows": {"mu": 1, "want": "rows"},
    "margins": {"mu": 1, "want": "margins"},
    "checked": {"mu": 1, "bounds": (-3, 3), "check_bounds": 0.1},
}
WAYS |= {
    name: {"mu": 1, "mechanism": name}
    for name in KINDS
    if name not in (*WAYS, "tree", "votes", "fallback")
}
WAYS |= {name: {"epsilon": 1, "mechanism": name} for name in ("tree", "fallback")}


@pytest.fixture(params=WAYS)
def words(request, table):
    "What is asked for, one way after another."
    words = dict(WAYS[request.param])
    words |= {"graph": words["graph"](table)} if "graph" in words else {}
    return words | ({"drop": [table.columns[1]]} if "drop" in words else {})


@pytest.mark.long
def test_a_folder_and_a_large_file_give_the_release_of_the_table(
    words, table, folder, tmp_path, monkeypatch
):
    expected, held = published(table, tmp_path / "memory.parquet", **words)
    # a pattern names the same files, which is tried in one way
    for source in (str(folder), folder / "part-*.parquet")[: 1 + ("sigma" in words)]:
        to = tmp_path / f"{len(str(source))}.parquet"
        found, record = published(source, to, **words)
        assert_same(found, expected)
        assert record.draft.n == N
        assert str(record.outside) == str(held.outside)
    path = tmp_path / "private.parquet"
    table.to_parquet(path, index=False, row_group_size=7001)
    assert not pg.Publication(path, **words).table.is_parted
    monkeypatch.setattr(sources, "_HELD", table.size - 1)

    def refused(*args, **form):
        raise AssertionError("the file was read as a whole")

    monkeypatch.setattr(table_files, "_read_file", refused)
    large = pg.Publication(path, **words)
    assert large.table.is_parted and large.table.files() == [path]
    large.publish(tmp_path / "one.parquet", random_state=3)
    assert_same(read_release(tmp_path / "one.parquet"), expected)


def test_blocks_of_a_folder_vote(table, tmp_path):
    few, words = table.iloc[:1000, :3], {"epsilon": 20, "mechanism": "votes"}
    expected, _ = published(few, tmp_path / "memory.parquet", **words)
    parts = cut(few, tmp_path / "parts", rows=301)
    assert_same(published(parts, tmp_path / "open.parquet", **words)[0], expected)


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("missing", ["fill", "random"])
def test_a_schema_reads_a_folder_as_it_reads_a_table(ending, missing, tmp_path):
    rng = np.random.default_rng(0)
    size = rng.normal(170, 9, N).round(1)
    days = pd.Series(pd.to_datetime(rng.integers(0, 9999, N), unit="D"))
    people = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], N), "size": size})
    people = people.assign(name="Ada", day=days.astype(str))
    people.loc[5::97, "size"] = np.nan
    stated = {
        "ward": {"kind": "category", "levels": ["A", "B", "C"]},
        "size": {"low": 150, "high": 190} | {"fill": {"fill": 170}}.get(missing, {}),
        "day": {"kind": "date"},
    }
    words = {"mu": 1, "mechanism": "covariance", "decimal": "."}
    words |= {"missing": "random"} if missing == "random" else {}
    schema = pg.Schema(stated)
    if ending == ".parquet":
        del words["decimal"]
    cut(people, tmp_path / "parts", ending)
    one = tmp_path / f"one{ending}"
    (people.to_csv if ending == ".csv" else people.to_parquet)(one, index=False)
    expected, record = published(one, tmp_path / "a.parquet", schema=schema, **words)
    found, other = published(
        tmp_path / "parts", tmp_path / "b.parquet", schema=schema, **words
    )
    assert_same(found, expected)
    assert other.draft.left_out == record.draft.left_out == ["name"]


# ------------------------------------------------------------------ what is refused


def test_a_ledger_pays_for_a_folder_once(folder, tmp_path):
    path = tmp_path / "ledger.json"
    begin_ledger(path, epsilon=1.0, delta=1e-9)
    desk = pg.Publication(folder, epsilon=0.8, ledger=path)
    assert desk.rehearse(tmp_path / "open.parquet").fits
    desk.publish(tmp_path / "open.parquet")
    assert Budget(path).spent().mu > 0
    assert not desk.rehearse(tmp_path / "other.parquet").fits


def test_no_reading_is_made_for_cells_alone_and_none_when_a_ledger_pays(
    folder, tmp_path, monkeypatch
):
    whole, seen = pq.ParquetFile.iter_batches, []

    def read(file, *words, **named):
        for batch in whole(file, *words, **named):
            seen.append(len(batch))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read)
    readings = lambda: sum(seen) // N
    _, record = published(folder, tmp_path / "one.parquet", epsilon=1)
    by_desk = readings()
    record.draft.mechanism.publish(folder, random_state=3)
    assert by_desk == 3 and readings() == 2 * by_desk
    begin_ledger(tmp_path / "ledger.json", epsilon=1.0, delta=1e-9)
    desk = pg.Publication(folder, epsilon=0.8, ledger=tmp_path / "ledger.json")
    desk.publish(tmp_path / "two.parquet")
    assert readings() == 3 * by_desk


@pytest.mark.parametrize("to", ["two.parquet", "two"])  # a file, rows in parts
@pytest.mark.parametrize("stop", [OSError(5, "broken"), KeyboardInterrupt()])
def test_a_machine_that_stops_while_it_sums_has_spent_nothing(
    folder, tmp_path, monkeypatch, to, stop
):
    "And one that stops in the second reading of private units has paid, and says so."
    kind, whole, left = ("synthetic" if to == "two" else None), Batches.batches, [0]

    def batches(self):
        for batch in whole(self):
            left[0] -= 1
            if left[0] < 0:
                raise stop
            yield batch

    monkeypatch.setattr(Batches, "batches", batches)
    told, ledger = [], tmp_path / "ledger.json"
    begin_ledger(ledger, epsilon=50.0, delta=1e-9)
    for enough in range(0, 40, 5):
        left[0] = enough
        words = {"epsilon": 0.8, "ledger": ledger, "mechanism": kind}
        before = len(Budget(ledger).table())
        try:
            pg.Publication(folder, **words).publish(tmp_path / to)
        except BaseException as error:
            paid = len(Budget(ledger).table()) - before
            assert ("was not charged" in str(error.outcome)) == (not paid)
            told.append(paid)
        else:
            break
        assert not (tmp_path / to).is_file()
    entries = len(Budget(ledger).table())
    assert told[0] == 0 and max(told) == 1 and (tmp_path / to).exists()
    assert entries == (1 if to == "two" else sum(told) + 1)


def test_a_rehearsal_and_a_plan_read_no_value(folder, monkeypatch):
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    desk = pg.Publication(folder, epsilon=1)
    assert json.loads(desk.rehearse().to_json())["records"] == N
    told = str(desk.plan())
    assert told == str(plan_publication(str(folder), epsilon=1)) and f"{N} rec" in told
    assert told == str(plan_publication(folder / "*.parquet", epsilon=1))


@pytest.mark.parametrize("kind", ["words", "gap", "infinite"])
def test_cells_are_refused_in_the_sentence_of_a_file(kind, table, tmp_path):
    wrong = table.copy()
    if kind == "words":
        wrong["who"] = "Ada"
    else:
        wrong.iloc[-1, 0] = np.nan if kind == "gap" else np.inf
    folder, one = cut(wrong, tmp_path / "parts"), tmp_path / "parts.parquet"
    wrong.to_parquet(one)
    told, ledger = [], tmp_path / "ledger.json"
    begin_ledger(ledger, mu=2.0)
    for source, paid in ((one, None), (folder, None), (folder, ledger)):
        with pytest.raises(WordsError) as refused:
            desk = pg.Publication(source, "covariance", mu=1, ledger=paid)
            desk.publish(tmp_path / "open.parquet")
        assert refused.value.__cause__ is None and refused.value.__context__ is None
        told.append(str(refused.value).replace("parts.parquet", "parts"))
    assert told[0] == told[1] == told[2] and "Ada" not in told[0]
    assert not (tmp_path / "open.parquet").exists()
    assert not len(Budget(ledger).table())


def test_a_release_lies_outside_of_the_folder(table, tmp_path):
    folder = cut(table, tmp_path / "parts")
    part = folder / "part-0.parquet"
    before = part.read_bytes()
    for source in (folder, folder / "*.parquet"):
        desk = pg.Publication(source, epsilon=1)
        for to in (folder / "open.parquet", part):
            with pytest.raises(WordsError):
                desk.publish(to, replace=True)
    assert part.read_bytes() == before and len(list(folder.iterdir())) == 4


def test_folders_that_are_no_table(table, tmp_path):
    for source in (tmp_path, tmp_path / "*.csv", tmp_path / "none"):
        with pytest.raises(TableError):
            pg.Publication(source, epsilon=1).rehearse()
    people = pd.DataFrame({"a": ["1,5"] * 6000, "b": ["2,5"] * 6000})
    folder = cut(people, tmp_path / "texts", ".csv")
    for schema, error, told in (
        ({"a": {}, "b": {}}, TableError, "decimal mark"),
        ({"z": {}}, WordsError, "is for another table"),
    ):
        desk = pg.Publication(folder, "covariance", mu=1, schema=schema)
        with pytest.raises(error, match=told):
            desk.publish(tmp_path / "open.parquet")


# ----------------------------------------------------------------------- folders out

CELLS = {"mechanism": "table", "bounds": (-3, 3), "mu": 20, "meant": True}


@pytest.mark.parametrize(
    "words",
    [
        CELLS,
        {"sigma": 1, "bounds": (-3, 3), "meant": True},
        {"mu": 1, "want": "rows"},
        {"mu": 1, "want": "margins"},
    ],
)
def test_a_name_without_an_ending_is_a_folder(words, table, folder, tmp_path):
    found, record = published(table, tmp_path / "open", **words)
    again, _ = published(folder, tmp_path / "again", **words)
    assert found.guarantee == again.guarantee
    assert abs(found.guarantee.mu - record.draft.promise.mu) < 1e-12
    assert len(found.table) == N and str(record).startswith("open: ")
    assert found.table.to_frame().equals(again.table.to_frame())
    assert str(open_release(tmp_path / "open")) == str(found)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"open", "again"}  # nothing hidden is left


@pytest.mark.parametrize(
    ("to", "words", "said"),
    [
        ("open", {"mu": 1, "mechanism": "covariance"}, "its release is small"),
        ("open", {"mu": 1, "mechanism": "tree", "failure": 1e-6}, "ends in .parquet"),
        ("open", CELLS | {"mu": 1, "check_bounds": 0.1}, "end its name in .parquet"),
        ("open.csv", CELLS, "a folder of parts"),
        ("none/open", CELLS, "no folder to write it in"),
        ("file", CELLS, "a file already"),
    ],
)
def test_what_is_no_folder_is_refused_before_it_is_paid_for(
    to, words, said, table, tmp_path
):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "ledger.json"
    begin_ledger(path, epsilon=4.0, delta=1e-9)
    desk = pg.Publication(table, **words, ledger=path)
    for run in (desk.rehearse, desk.publish):
        with pytest.raises((WordsError, pg.InputError), match=said):
            run(tmp_path / to)
    assert not Budget(path).spent().mu and len(list(tmp_path.iterdir())) <= 3


def test_a_release_in_parts_is_not_replaced(table, tmp_path):
    desk = pg.Publication(table, **CELLS)
    desk.publish(tmp_path / "open")
    with pytest.raises(WordsError, match="a release already"):
        desk.publish(tmp_path / "open", replace=True)


def test_a_ledger_pays_once_for_what_is_gone_on_with(table, tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    begin_ledger(path, epsilon=4.0, delta=1e-9)
    desk = pg.Publication(table, epsilon=3, want="rows", ledger=path)
    assert desk.rehearse(tmp_path / "open").fits
    with monkeypatch.context() as patch, pytest.raises(OSError) as stopped:
        patch.setattr(folders, "write_part", full_disk)
        desk.publish(tmp_path / "open")
    told = str(stopped.value.outcome)
    assert "was charged" in told and "nothing is charged twice" in told
    with pytest.raises(WordsError, match="not finished"):
        open_release(tmp_path / "open")
    desk.publish(tmp_path / "open")
    (label,) = Budget(path).table().label
    assert label.startswith("open (folder ")
    with pytest.raises(WordsError, match="repeatable"):
        desk.publish(tmp_path / "more", random_state=1)
    more = pg.Publication(table, want="rows", mu=9, ledger=path)
    with pytest.raises(BudgetError):
        more.publish(tmp_path / "more")
    assert not (tmp_path / "more").exists()


def full_disk(*arguments):
    raise OSError(28, "No space left on device")


def test_the_shell_writes_and_reads_folders(table, folder, tmp_path, capsys):
    from privglasso.cli.commands import app

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            app(list(map(str, words)))
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    to = tmp_path / "open"
    words = "--want", "rows", "--mu", 1
    code, said = run("publish", folder, to, *words)
    assert code == 0 and "synthetic rows" in said
    assert read_release(to).n == N
    for command in ("inspect", "recover"):
        code, said = run(command, to)
        assert code == 0 and "x" in said
    code, said = run("publish", folder, to, *words, "--force")
    assert code != 0 and "a release already" in said
    code, said = run("inspect", folder)
    assert code != 0 and "without a manifest.json" in said


def test_what_is_not_numbers_or_no_file_is_no_large_table(table, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_HELD", table.shape[1])
    words, damaged = tmp_path / "words.parquet", tmp_path / "damaged.parquet"
    table.assign(word="a").to_parquet(words)
    damaged.write_bytes(b"PAR1 and nothing else")
    table.iloc[:1].to_parquet(tmp_path / "small.parquet")
    for path in (words, damaged, tmp_path / "small.parquet", tmp_path / "none.parquet"):
        assert not sources.PrivateTable(path).is_large
    large = sources.PrivateTable(tmp_path / "large.parquet")
    table.to_parquet(large.source)
    assert large.is_large and not large.holds(large.source)
    assert large.shape() == (len(table), list(table.columns))
