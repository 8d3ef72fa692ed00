"""What is left out by name is left out, and what does not suit a table is refused."""

import gzip
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.base.words import WordsError
from privglasso.cli.commands import app
from privglasso.desk.source import PrivateTable
from privglasso.publish.schema import Schema
from privglasso.publish.sources import Form, read_table, table_shape, text_batches


@pytest.fixture
def table():
    rows = np.random.default_rng(0).normal(size=(300, 5)).cumsum(1).round(3)
    return pd.DataFrame(rows, columns=list("abcde"))


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(words, *more):
        made = CliRunner().invoke(app, [*words.split(), *more])
        return made.exit_code, " ".join(made.output.split())

    return run


@pytest.mark.parametrize(
    "typed, left", [("age", "age"), ("age ", "age "), ('c,"age "', "c|age ")]
)
def test_of_names_that_differ_by_blanks_the_exact_one_is_meant(table, typed, left):
    names = ["age", "age ", "c", "d", "e"]
    for drop in (typed, left.split("|")):
        left_out = PrivateTable(table, drop=drop).columns(names)[1]
        assert set(left_out) == set(left.split("|"))
    with pytest.raises(InputError, match="but for blanks"):
        PrivateTable(table, drop="age").columns([" age", "age ", "c"])
    assert PrivateTable(table, drop="age").columns([" age", "c"])[0] == ["c"]


@pytest.mark.parametrize("typed", ["", '""'])
def test_a_column_without_a_name_can_be_left_out(table, call, typed):
    table.to_csv("rows.csv")
    table.to_csv("t.csv", index=False)
    code, told = call("publish rows.csv r.parquet --epsilon 1")
    assert code == 2 and "--drop ''" in told
    for more in ([], ["--numbered-columns"]):
        line = "publish rows.csv r.parquet --epsilon 1 --dry-run --drop"
        assert "these names: a, b, c, d, e left" in call(line, typed, *more)[1]
    code, told = call("publish t.csv new.parquet --epsilon 1 --drop", typed)
    assert code == 2 and "no column is called ''" in told
    code, told = call("schema rows.csv s.toml --numbered-columns")
    assert code == 0 and Schema.read("s.toml").used == list("abcde")
    assert call("publish rows.csv r.parquet --epsilon 1 --schema s.toml")[0] == 0
    assert pg.read_release("r.parquet").columns == list("abcde")


def test_a_rehearsal_refuses_what_a_publication_refuses(table, call):
    table.to_csv("t.csv", index=False)
    whole = open("t.csv", "rb").read()
    packed = gzip.compress(whole)
    open("short.csv.gz", "wb").write(packed[: len(packed) // 2])
    open("no.csv.gz", "wb").write(whole)
    lines = ["short.csv.gz r.parquet", "no.csv.gz r.parquet"]
    encodings = ("utf-16", "utf-32", "rot13", "hex", "base64", "undefined", "''")
    lines += [f"t.csv r.parquet --encoding {each}" for each in encodings]
    for line in lines:
        line = line.replace("''", "")
        *words, last = f"publish {line}".split(" ")
        rehearsed = call(" ".join(words), last, "--epsilon", "1", "--dry-run")
        assert rehearsed == call(" ".join(words), last, "--epsilon", "1")
        assert rehearsed[0] == 2 and "fault" not in rehearsed[1]
        if "encoding" not in line:
            assert call(f"plan {words[1]}")[0] == 2


def test_a_table_without_records_is_one(table, call):
    table.iloc[:0].to_csv("zero.csv", index=False)
    for more in ("", " --dry-run"):
        code, told = call(f"publish zero.csv r.parquet --epsilon 1{more}")
        assert code == 2 and "fewer than two records" in told
    bare = ",".join(table.columns)
    for text in (bare, f"{bare}\n", f"{bare}\r\n", f"{bare}\n1,2,3,4,5", "größe"):
        Path("bare.csv").write_text(text)
        for line in ("publish bare.csv r.parquet --epsilon 1", "plan bare.csv"):
            code, told = call(line)
            assert code == 2 and "bare.csv: the table has fewer" in told, (text, told)
        [*batches], records = text_batches(Path("bare.csv"), Form())[1](), "1,2" in text
        assert sum(map(len, batches)) == records
        assert table_shape("bare.csv")[0] == records
    Path("bare.csv").write_text("%PDF-1.4\x00")
    code, told = call("publish bare.csv r.parquet --epsilon 1")
    assert code == 2 and "bare.csv: this is not a whole .csv table" in told
    pd.testing.assert_frame_equal(
        read_table("zero.csv").astype(float), table.iloc[:0].reset_index(drop=True)
    )


def test_what_is_advised_about_gaps_is_taken_as_it_is_said(table, call):
    table.iloc[3, 2] = np.nan
    pd.concat([table] * 9).to_csv("gaps.csv", index=False)
    free = "publish gaps.csv r.parquet --mu 2"
    words = "covariance", "covariance --low -9 --high 9", "synthetic"
    for more in (f" --mechanism {each}" for each in words):
        code, told = call(free + more)
        assert code == 2 and "by a covariance without bounds" in told, told
        assert "--missing center" in told
    assert call(f"{free} --mechanism covariance --missing center")[0] == 0


def test_a_schema_of_a_table_in_a_database_is_had_as_it_is_said(table, call):
    table.to_parquet("table.parquet")
    with duckdb.connect("d.duckdb") as base:
        base.sql("CREATE TABLE t AS SELECT *, 'x' AS w FROM 'table.parquet'")
        code, told = call("schema duckdb:d.duckdb?t s.toml")
        statement = told.partition("in DuckDB: ")[2].rpartition(")")[0]
        base.sql(statement)
    assert code == 2 and call("schema some.parquet s.toml")[0] == 0
    assert Schema.read("s.toml").used == list("abcde")
    code, told = call("publish duckdb:d.duckdb?t r.parquet --epsilon 1 --schema s.toml")
    assert code == 0, told


@pytest.mark.parametrize("word", ["sep", "encoding", "decimal"])
def test_how_a_file_is_read_is_not_said_of_a_table_in_memory(table, word):
    with pytest.raises(WordsError, match=f"^{word}: says how a file is read"):
        pg.Publication(table, epsilon=1, **{word: "."})
