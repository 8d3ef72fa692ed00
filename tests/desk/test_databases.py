"""A table in a database is published at the desk and at the shell as in memory."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privglasso as pg
from privglasso.cli.commands import app
from privglasso.data_sets.synthetic import example_table
from privglasso.desk.ledger import begin_ledger
from privglasso.desk.plan import plan_publication
from privglasso.privacy.budget import Budget
from privglasso.publish.files import read_release
from privglasso.publish.sources import TableError

duckdb = pytest.importorskip("duckdb", reason="pip install 'privglasso[sql]'")
N = 20_000


@pytest.fixture(scope="module")
def table():
    return example_table(N, random_state=0).table.round(6)


@pytest.fixture(scope="module")
def stored(table, tmp_path_factory):
    "The path of the table in a file of DuckDB."
    path = tmp_path_factory.mktemp("private") / "clinic.db"
    with duckdb.connect(str(path)) as warehouse:
        warehouse.from_df(table).create("visits")
    return f"duckdb:{path}?visits"


def assert_same(one, two):
    "Two releases with the same numbers in them."
    first, second = one._contents(), two._contents()
    assert (first[0], first[2]) == (second[0], second[2])
    assert first[1].equals(second[1]) and one.guarantee == two.guarantee


@pytest.mark.parametrize(
    "words",
    [
        {"epsilon": 1},
        {"mu": 1, "bounds": (-3, 3), "box": True},
        {"mu": 1, "missing": "center", "mechanism": "covariance", "drop": "a"},
        {"mu": 1, "mechanism": "weights"},
    ],
    ids=["recommended", "box", "gaps", "weights"],
)
def test_a_stored_table_gives_the_release_of_the_table(words, table, stored, tmp_path):
    names = list(table.columns)
    if words.get("mechanism") == "weights":
        words = words | {"graph": list(zip(names[:-1], names[1:], strict=True))}
    if "drop" in words:
        words = words | {"drop": names[1:2]}
    for source, to in ((table, "memory"), (stored, "stored")):
        desk = pg.Publication(source, **words)
        desk.publish(tmp_path / f"{to}.parquet", random_state=3)
    made = (read_release(tmp_path / f"{to}.parquet") for to in ("memory", "stored"))
    assert_same(*made)


def test_a_schema_reads_a_stored_table(tmp_path):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], N), "name": "Ada"})
    people["size"] = rng.normal(170, 9, N).round(1)
    people.loc[5::97, "size"] = np.nan
    schema = pg.Schema(
        {
            "ward": {"kind": "category", "levels": ["A", "B", "C"]},
            "size": {"low": 150, "high": 190, "fill": 170},
        }
    )
    path = tmp_path / "clinic.db"
    with duckdb.connect(str(path)) as warehouse:
        warehouse.from_df(people).create("people")
    words = {"mu": 1, "mechanism": "covariance", "schema": schema}
    for source, to in ((people, "memory"), (f"duckdb:{path}?people", "stored")):
        record = pg.Publication(source, **words).publish(
            tmp_path / f"{to}.parquet", random_state=3
        )
        assert record.draft.left_out == ["name"]
    made = (read_release(tmp_path / f"{to}.parquet") for to in ("memory", "stored"))
    assert_same(*made)


def test_a_ledger_pays_for_a_stored_table_once(stored, tmp_path):
    path = tmp_path / "ledger.json"
    begin_ledger(path, epsilon=1.0, delta=1e-9)
    desk = pg.Publication(stored, epsilon=0.8, ledger=path)
    assert desk.rehearse(tmp_path / "open.parquet").fits
    desk.publish(tmp_path / "open.parquet")
    assert Budget(path).spent().mu > 0
    assert not desk.rehearse(tmp_path / "other.parquet").fits


def test_a_plan_counts_and_reads_no_value(stored, table):
    told = str(pg.Publication(stored, epsilon=1).plan())
    assert told == str(plan_publication(stored, epsilon=1)) and f"{N} rec" in told


def test_the_database_is_never_written_over(stored, tmp_path):
    file = stored.removeprefix("duckdb:").partition("?")[0]
    desk = pg.Publication(stored, epsilon=1)
    assert [str(path) for path in desk.inputs()] == [file]


def test_nothing_is_spent_on_a_table_that_is_not_there(stored, tmp_path):
    path = tmp_path / "ledger.json"
    begin_ledger(path, epsilon=1.0, delta=1e-9)
    for wrong in (stored + "2", stored.replace("clinic", "absent")):
        with pytest.raises(TableError, match="db"):
            desk = pg.Publication(wrong, epsilon=0.8, ledger=path)
            desk.publish(tmp_path / "open.parquet")
    assert not Budget(path).spent().mu and not (tmp_path / "open.parquet").exists()


def test_the_shell_takes_the_same_path(stored, table, tmp_path):
    table.to_parquet(tmp_path / "t.parquet", index=False)
    for source, to in ((tmp_path / "t.parquet", "memory"), (stored, "stored")):
        words = ["publish", source, tmp_path / f"{to}.parquet", "--epsilon", 1]
        words += ["--seed", 3, "--json"]
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["records"] == N
    made = (read_release(tmp_path / f"{to}.parquet") for to in ("memory", "stored"))
    assert_same(*made)
    result = CliRunner().invoke(app, ["plan", stored, "--epsilon", "1"])
    assert result.exit_code == 0 and str(N) in result.output
    wrong = ["publish", f"{stored}; DROP TABLE visits", str(tmp_path / "x.parquet")]
    result = CliRunner().invoke(app, [*wrong, "--epsilon", "1"])
    assert result.exit_code == 2 and "not there" in result.output
