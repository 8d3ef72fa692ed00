"""A schema is a rule for one record, and says what it leaves out."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from privglasso.base.validation import InputError
from privglasso.publish.bounds_check import BoundsCheck, cells_outside
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.schema import Column, Schema
from privglasso.publish.sources import read_table

TABLE = pd.DataFrame(
    {
        "id": [7, 8, 9],
        "age": [130.0, np.nan, 40.0],
        "ward": ["B", None, "Z"],
        "day": ["01.02.2024", "02.02.2024", "13.02.2024"],
    }
)
SCHEMA = {
    "age": {"low": 0, "high": 110, "fill": 50},
    "ward": {"kind": "category", "levels": ["A", "B", "C"], "fill": "C"},
    "day": {"kind": "date", "format": "%d.%m.%Y", "low": "2024-02-01",
            "high": "2024-02-10"},
}


def test_every_cell_has_its_meaning_and_no_row_is_lost():
    schema = Schema(SCHEMA)
    rows = schema.apply(TABLE)
    assert rows.columns.tolist() == schema.names
    assert rows.age.tolist() == [110, 50, 40]
    assert rows["ward=B"].tolist() == [1, 0, 0]
    assert rows["ward=C"].tolist() == [0, 1, 0]
    assert rows.day.diff().tolist()[1:] == [1, 8]
    assert schema.left_out(TABLE) == ["id"]
    low, high = schema.bounds()
    assert (rows >= low).all(axis=None) and (rows <= high).all(axis=None)
    assert Schema(SCHEMA | {"id": {}}).bounds() is None


def test_a_file_keeps_every_statement(tmp_path):
    odd = {'a "b"\\': {"unit": "µg/l", "unreadable": "missing"}}
    schema = Schema(SCHEMA | odd)
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml").columns == schema.columns
    with pytest.raises(InputError):
        schema.write(tmp_path / "schema.toml")
    (tmp_path / "bad.toml").write_text("71234 = = 1")
    with pytest.raises(InputError) as stopped:
        Schema.read(tmp_path / "bad.toml")
    assert "71234" not in str(stopped.value)


@pytest.mark.parametrize("words", ["a\x1b[2Jb", "a\nb", "a\u202eb", "a\x7f"])
def test_words_that_would_steer_a_terminal_are_refused(words):
    for stated in (
        {words: (0, 1)},
        {words: {"low": 2, "high": 1}},
        {"a": {"unit": words}},
        {"a": {"kind": "date", "format": words}},
        {"a": {"kind": "category", "levels": ["b", words]}},
        {"a": {"kind": words}},
    ):
        with pytest.raises(InputError) as refusal:
            Schema(stated)
        assert words not in str(refusal.value)


def test_an_infinity_beyond_bounds_is_outside_whether_it_is_counted_or_not():
    "As every other cell beyond its bounds is: clipped, and counted where that is paid."
    schema = Schema({"a": (0, 1), "b": {"fill": 2}})
    table = pd.DataFrame({"a": [-np.inf, np.inf, 0.5, 7], "b": [1.0, 2.0, np.nan, 3.0]})
    clipped, kept = schema.apply(table), schema.apply(table, clip=False)
    assert clipped.a.tolist() == [0, 1, 0.5, 1]
    values, _ = BoundsCheck((0, 1), mu=0.5).check(kept[["a"]])
    assert cells_outside(values, (0, 1)).tolist() == [3]
    assert len(CovarianceMechanism((0, 3), mu=0.5).check(clipped)[0]) == 4
    without = Schema({"a": {}}).apply(table)  # nothing to clip to: refused either way
    with pytest.raises(InputError, match="infinity"):
        CovarianceMechanism((0, 3), mu=0.5).check(without)


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"a": {"use": "no"}},
        {"a": {"kind": "text"}},
        {"a": {"low": 1}},
        {"a": (1, 0)},
        {"a": {"levels": ["x", "y"]}},
        {"a": {"kind": "category", "levels": ["x"]}},
        {"a": {"kind": "category", "levels": ["x", "x"]}},
        {"a": {"kind": "category", "levels": ["x", "y"], "fill": "z"}},
        {"a": {"kind": "date", "low": "yesterday", "high": "2024-01-01"}},
        {"a": {"colour": "red"}},
    ],
)
def test_what_is_not_a_schema(stated):
    with pytest.raises(InputError):
        Schema(stated)


def test_a_cell_that_cannot_be_read_is_refused_without_a_word_of_it():
    for cell in ("71234,5 mg", "<0,1"):
        table = pd.DataFrame({"a": [cell, "1"], "b": [1, 2]})
        with pytest.raises(InputError) as stopped:
            Schema({"a": {}}).apply(table)
        assert cell not in str(stopped.value)
        kept = Schema({"a": {"unreadable": "missing"}}).apply(table)
        assert np.isnan(kept.a[0]) and kept.a[1] == 1


def test_a_library_publishes_by_a_schema():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["a", "b", "id"])
    mechanism = CovarianceMechanism(epsilon=5.0, delta=1e-7)
    by_schema = mechanism.publish(table, 0, schema={"a": {}, "b": (-9, 9)})
    plain = mechanism.publish(table[["a", "b"]], 0)
    assert by_schema.columns == ["a", "b"]
    assert (by_schema.second_moment == plain.second_moment).all()


@pytest.mark.parametrize("others", ["1,5", "2"])
def test_a_laboratory_column_of_text_is_read_with_the_commas_of_its_file(
    tmp_path, others
):
    "Without a column of decimals beside it, too; and with its marks of thousands."
    path = tmp_path / "t.csv"
    cells = ["<0,5", "0,7", "1.234,5", "3", "4,25"]
    path.write_text("a;crp\n" + "".join(f"{others};{cell}\n" for cell in cells))
    table = read_table(path)
    found = Schema({"crp": {"unreadable": "missing"}}).apply(table).crp
    assert found.isna().tolist() == [True, False, False, False, False]
    assert found.dropna().tolist() == [0.7, 1234.5, 3.0, 4.25]
    assert ("decimal commas" in table.attrs["read as"]) == (others == "1,5")
    path.write_text("a;note\n1.5;1,5\n2.5;x\n")
    assert "decimal points" in read_table(path).attrs["read as"]
    assert read_table(path).a.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("source", ["pandas", "parquet"])
@pytest.mark.parametrize(
    ("kind", "cells", "levels"),
    [
        ("category", [1, 2, 2, 1], ["1", "2"]),
        ("category", [True, False, False, True], ["False", "True"]),
        ("category", [1.0, 2.5, 2.5, 1.0], ["1", "2.5"]),
        ("date", [20240103, 20240104, 20240105, 20240106], None),
    ],
)
def test_a_gap_changes_how_no_other_record_is_read(
    kind, cells, levels, source, tmp_path
):
    more = {"levels": levels, "fill": levels[0]} if levels else {}
    more |= {} if levels else {"format": "%Y%m%d", "unreadable": "missing"}
    schema, read = Schema({"a": {"kind": kind} | more}), []
    for last in (cells[-1], None):
        table = pd.DataFrame({"a": [*cells[:-1], last]})
        if last is None:  # as pandas has a gap among whole numbers
            table = table.astype(float)
        if source == "parquet":
            values = pa.array([*cells[:-1], last], from_pandas=True)
            pq.write_table(pa.table({"a": values}), tmp_path / "t.parquet")
            table = tmp_path / "t.parquet"
        read.append(schema.apply(table).to_numpy().ravel()[:-1])
    assert (read[0] == read[1]).all() and len({*read[0]}) > 1


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%y%m%d", "%Y", "%d. %B %Y", "%Y-%m-%dT%H:%M:%S%z", "ISO8601"]
)
def test_a_format_that_tells_the_year_is_taken(form):
    assert Schema({"when": {"kind": "date", "format": form}}).used == ["when"]


@pytest.mark.parametrize("form", ["dd.mm.yyyy", "mixed", "%d.%m", "%H:%M", "2024"])
def test_a_format_in_which_every_date_is_the_same_is_refused(form):
    with pytest.raises(InputError, match="tells the year, as %d.%m.%Y"):
        Schema({"when": {"kind": "date", "format": form}})


@pytest.mark.parametrize("form", ["%Q", "%", "%d %d", "%V", ["%d.%m.%Y", "%e"]])
@pytest.mark.parametrize("state", [dict, Column])
def test_a_format_that_reads_no_date_is_refused_when_it_is_stated(form, state):
    with pytest.raises(InputError, match="format of column when='%"):
        Schema({"when": state(kind="date", format=form)})


CODES = [1, 0, 1, 0]
FLAGS = [True, False, True, False]


@pytest.mark.parametrize("levels", [["0", "1"], ["false", "true"], ["False", "True"]])
def test_a_flag_is_the_same_level_whatever_holds_it(levels):
    "An object, too, which pandas makes of flags with gaps and Excel of any flag."
    schema = Schema({"a": {"kind": "category", "levels": levels}})
    for kind in (bool, object, "boolean", "category", pd.ArrowDtype(pa.bool_())):
        made = schema.apply(pd.DataFrame({"a": pd.Series(FLAGS, dtype=kind)}))
        assert made.to_numpy().ravel().tolist() == CODES


def test_a_number_is_the_same_level_whatever_holds_it():
    schema = Schema({"a": {"kind": "category", "levels": ["0", "1.0"]}})
    decimals = [Decimal(code).quantize(Decimal("0.01")) for code in CODES]
    for cells in (CODES, [*map(float, CODES)], decimals, FLAGS):
        for kind in (object, "category"):
            table = pd.DataFrame({"a": pd.Series(cells, dtype=kind)})
            assert schema.apply(table).to_numpy().ravel().tolist() == CODES
    beside = pd.DataFrame({"a": pd.Series([1.0, "x", None], dtype=object)})
    found = schema.apply(beside).to_numpy().ravel()
    np.testing.assert_array_equal(found, [1, 0, np.nan])


def test_a_day_written_as_a_number_is_read_from_objects():
    days = pd.Series([20240103.0, Decimal(20240104), 20240105, None], dtype=object)
    schema = Schema({"a": {"kind": "date", "format": "%Y%m%d"}})
    found = schema.apply(pd.DataFrame({"a": days})).a
    np.testing.assert_array_equal(found, [19725, 19726, 19727, np.nan])


def test_an_integer_beyond_all_floats_counts_as_the_bound():
    cells = pd.Series([10**400, 1, -(10**5000)], dtype=object)
    found = Schema({"a": (0, 5)}).apply(pd.DataFrame({"a": cells})).a
    assert found.tolist() == [5, 1, 0]
    category = {"kind": "category", "levels": ["0", "1"]}
    found = Schema({"a": category}).apply(pd.DataFrame({"a": cells}))
    assert found.to_numpy().ravel().tolist() == [0, 1, 0]


@pytest.mark.parametrize("levels", [["0", "1"], ["0.0", "1.0"], ["false", "true"]])
@pytest.mark.parametrize("cells", [CODES, [*map(float, CODES)], FLAGS])
def test_a_level_is_the_same_in_a_text_as_in_numbers(tmp_path, levels, cells):
    "pandas writes 1 as 1.0 beside a gap, and flags as True: both were the first level."
    schema = Schema({"a": {"kind": "category", "levels": levels}, "b": {}})
    table = pd.DataFrame({"a": cells, "b": 1.5})
    table.to_csv(tmp_path / "t.csv", index=False)
    for given in (tmp_path / "t.csv", table, table.astype({"a": str})):
        assert schema.apply(given).iloc[:, 0].tolist() == CODES


def test_a_code_is_no_number():
    schema = Schema({"a": {"kind": "category", "levels": ["x", "1", "10"]}})
    cells = ["1", "01", "1.", "1_0", "1e1", "10.00", " 1 ", "-1"]
    found = schema.apply(pd.DataFrame({"a": cells})).to_numpy().tolist()
    first, second = [1, 0], [0, 1]
    assert found == [first, [0, 0], first, [0, 0], [0, 0], second, first, [0, 0]]
