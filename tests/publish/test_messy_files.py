"""Files as people send them: the right numbers or a refusal, and none in silence."""

import gzip
import io
import itertools
import zipfile
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from privglasso.base.validation import InputError, check_table
from privglasso.publish.batches import as_batches, rows_at
from privglasso.publish.schema import Schema
from privglasso.publish.sources import TableError, read_table, table_shape
from pyarrow import feather, parquet

RIGHT = [1034.0, 987.0, 1207.0]  # what a, the column in question, holds


def beside(cells, sep=";", name="a"):
    "A text with a column of small numbers before the cells, and one behind them."
    rows = [f"{k}{sep}{cell}{sep}{k}" for k, cell in enumerate(cells)]
    return "\n".join([f"x{sep}{name}{sep}y", *rows, ""])


BOTH = "1234 .a mark of thousands. or 1.234 .a decimal mark."
EITHER = "some cells have decimal points and others decimal commas.*1234 or 1.234"
WORDS = "not numeric"
DAYS = [19725.0, 19756.0]  # 3 January and 3 February 2024

# name: text, what is stated, the numbers of column a or the words of a refusal
TEXTS = {
    # thousands, in four styles, and what says so
    "points, undecided": (beside(["1.034", "987", "1.207"]), {}, BOTH),
    "points, decimal stated": (
        beside(["1.034", "987", "1.207"]),
        {"decimal": ","},
        RIGHT,
    ),
    "points, thousands stated": (
        beside(["1.034", "987", "1.207"]),
        {"thousands": "."},
        RIGHT,
    ),
    "points, decimals stated": (
        beside(["1.034", "987", "1.207"]),
        {"decimal": "."},
        [1.034, 987.0, 1.207],
    ),
    "points, no thousands stated": (
        beside(["1.034", "987", "1.207"]),
        {"thousands": ""},
        [1.034, 987.0, 1.207],
    ),
    "points, one witness": (beside(["1.034", "987", "1.234.567,89"]), {}, BOTH),
    "points, two witnesses": (
        beside(["1.034", "1.234.567,89", "2.345,6"]),
        {},
        [1034.0, 1234567.89, 2345.6],
    ),
    "points, all in millions": (
        beside(["1.034.000", "2.000.987"]),
        {},
        [1034000.0, 2000987.0],
    ),
    "commas, undecided": (beside(["1,034", "987", "1,207"]), {}, BOTH),
    "commas, quoted": (beside(['"1,034"', "987", '"1,207"'], ","), {}, BOTH),
    "commas, stated": (
        beside(['"1,034"', "987", '"1,207"'], ","),
        {"decimal": "."},
        RIGHT,
    ),
    "commas, witnesses": (
        beside(["1,034", "1,234.5", "2,000,000"]),
        {},
        [1034.0, 1234.5, 2000000.0],
    ),
    "blanks": (beside(["1 034", "987", "1 207"]), {}, RIGHT),
    "thin blanks": (beside(["1\u2009034", "987", "1\u202f207"]), {}, RIGHT),
    "no-break blanks": (beside(["1\u00a0034", "987", "1\u00a0207"]), {}, RIGHT),
    "blanks and decimals": (beside(["1 034,5", "987,25"]), {}, [1034.5, 987.25]),
    "apostrophes": (beside(["1'034", "987", "1\u2019207"]), {}, RIGHT),
    "apostrophes and decimals": (beside(["1'034.5", "987.25"]), {}, [1034.5, 987.25]),
    "groups of two": (beside(["12,34,567", "1"]), {}, WORDS),
    "another mark than is stated": (
        beside(["1 034", "987"]),
        {"decimal": ".", "thousands": ","},
        WORDS,
    ),
    # decimals
    "commas throughout": (beside(["0,5", "1,034", "2,25"]), {}, [0.5, 1.034, 2.25]),
    "points throughout": (beside(["0.5", "1.034", "2.25"]), {}, [0.5, 1.034, 2.25]),
    "both in one column": (beside(["1.5", "1,5"]), {}, EITHER),
    "both in one column, late": (beside(["1.5"] * 3000 + ["2,5"]), {}, EITHER),
    "thousands below decimals": (beside(["1.5"] * 3000 + ["1.234.567"]), {}, EITHER),
    "both in two columns": (
        "a;b\n1.5;1,5\n2.5;2,5\n",
        {},
        "some columns have decimal points",
    ),
    "undecided below whole numbers": (beside(["5"] * 3000 + ["1.034"]), {}, BOTH),
    "three decimals between 1 and 999": (beside(["1.720", "1.810"]), {}, BOTH),
    "exponents": (beside(["1e3", "2.5E-1", "-1.5e+2"]), {}, [1000.0, 0.25, -150.0]),
    "Unicode minus": (beside(["\u22121.5", "2.25"]), {}, [-1.5, 2.25]),
    "other bases": (beside(["0x1A", "0x1B"]), {}, WORDS),
    "signs and blanks": (beside(["+1.5", " 2.25", "-3.5 "]), {}, [1.5, 2.25, -3.5]),
    # what is no number
    "percent": (beside(["45 %", "50 %"]), {}, WORDS),
    "currency": (beside(["€ 45", "€ 50"]), {}, WORDS),
    "parentheses": (beside(["(45)", "50"]), {}, WORDS),
    "one odd cell": (beside(["1.5"] * 2000 + ["1.5*"] + ["2.5"] * 2000), {}, WORDS),
    "a gap in words": (beside(["1.5", "k.A.", "2.25"]), {}, WORDS),
    "a gap in words, stated": (
        beside(["1.5", "k.A.", "-", "2.25"]),
        {"missing": ["k.A.", "-"]},
        [1.5, np.nan, np.nan, 2.25],
    ),
    "a header again": (beside(["1.5", "a", "2.25"]), {}, WORDS),
    # lines
    "titles": ("A report\n\nx;a\n1;5.5\n2;6.5\n", {}, WORDS),
    "titles, stated": ("A report\n\nx;a\n1;5.5\n2;6.5\n", {"skip_rows": 2}, [5.5, 6.5]),
    "a total": ("x;a\nA;5.5\nB;6.5\nTotal;12\n", {}, "last line.*footer = 1"),
    "a German total": ("x;a\n1;5.5\n2;6.5\nSumme: ;12\n", {}, "last line.*footer"),
    "a total, stated": ("x;a\n1;5.5\n2;6.5\nSumme;12\n", {"footer": 1}, [5.5, 6.5]),
    "a record called so": ("a;x\n5.5;A\n6.5;Total\n", {"footer": 0}, [5.5, 6.5]),
    "a source": ("x;a\n1;5.5\n2;6.5\nSource: us\n", {}, "skip_rows or footer"),
    "a source, stated": (
        "x;a\n1;5.5\n2;6.5\n\nTotal;12\nSource: us\n",
        {"footer": 2},
        [5.5, 6.5],
    ),
    "empty lines": ("\nx;a\n\n1;5.5\n\n\n2;6.5\n\n", {}, [5.5, 6.5]),
    "trailing separators": ("x;a\n1;5.5;\n2;6.5;\n", {}, "2 names for 3 columns"),
    "a short line": ("x;a;b\n1;5.5;3\n2;6.5\n", {}, "more or fewer cells"),
    "an open quote": ('x;a\n1;"5.5\n2;6.5\n3;7.5\n', {}, "not a whole"),
    "an open quote without a line's end": ('x;a\n1;5.5\n2;"6.5', {}, "not a whole"),
    "quoted separators": ('"x;1";a\n"p;q";5.5\n"r";6.5\n', {}, [5.5, 6.5]),
    "quoted line breaks": ('x;a\n"p\nq";5.5\n"r";6.5\n', {}, [5.5, 6.5]),
    "two columns of one name": ("a;a\n1;5.5\n2;6.5\n", {}, "distinct"),
}


def numbers(path, form):
    "Column a as a publisher would have it, without a schema."
    table = read_table(path, **form)
    assert table_shape(path, **form) == (len(table), list(table.columns))
    once = list(table.columns).count("a") == 1
    check_table(table[["a"]].fillna(0) if once else table)
    return table.a.tolist()


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_the_right_numbers_or_a_refusal(tmp_path, name, encoding):
    text, form, expected = TEXTS[name]
    path = tmp_path / "t.csv"
    try:
        path.write_bytes(text.replace("x", "\u00e4", 1).encode(encoding))
    except UnicodeEncodeError:
        pytest.skip("not to be written so")
    if isinstance(expected, str):
        with pytest.raises((TableError, InputError), match=expected) as refusal:
            numbers(path, form)
        assert "1034" not in str(refusal.value) and "987" not in str(refusal.value)
    else:
        np.testing.assert_array_equal(numbers(path, form), expected)


@pytest.mark.parametrize("name", [name for name in TEXTS if "\n" not in name])
def test_a_schema_states_the_same_and_never_reads_otherwise(tmp_path, name):
    text, form, expected = TEXTS[name]
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    for unreadable in ("refuse", "missing"):
        schema = Schema({"a": {"unreadable": unreadable}}, form)
        schema.write(tmp_path / "schema.toml", replace=True)
        schema = Schema.read(tmp_path / "schema.toml")
        if isinstance(expected, list):
            np.testing.assert_array_equal(schema.apply(path).a, expected)
        elif expected not in (WORDS, TEXTS["both in two columns"][2]):
            with pytest.raises((TableError, InputError)):
                schema.apply(path)


STATED = {
    "by column": ({"decimal": ","}, beside(["1.034", "987", "1.207"]), RIGHT),
    "thousands": ({"thousands": ","}, beside(["1,034", "987", "1,207"]), RIGHT),
    "percent": ({"unit": "%"}, beside(["45 %", "50%", " 7,5 %"]), [45, 50, 7.5]),
    "currency": ({"unit": "€"}, beside(["€ 45", "50 €", "-7"]), [45, 50, -7]),
    "gaps": ({"missing": ["-"]}, beside(["1,5", "-", "NA", ""]), [1.5, *[np.nan] * 3]),
    "yes": ({}, beside(["True", "False", "True"]), [1, 0, 1]),
    "days": (
        {"kind": "date", "format": ["%d.%m.%Y", "%Y-%m-%d"]},
        beside(["03.01.2024", "2024-02-03"]),
        DAYS,
    ),
    "days that differ": (
        {"kind": "date", "format": ["%d/%m/%Y", "%m/%d/%Y"]},
        beside(["03/01/2024", "31/12/2024"]),
        "different days",
    ),
    "days in words": (
        {"kind": "date", "format": ["%d. %B %Y", "%d %b %y"], "missing": ["unknown"]},
        beside(["3. January 2024", "03 Feb 24", "unknown"]),
        [*DAYS, np.nan],
    ),
    "another day": (
        {"kind": "date", "format": "%d.%m.%Y"},
        beside(["2024-01-03"]),
        "not a date",
    ),
}


@pytest.mark.parametrize("name", STATED)
def test_what_a_schema_says_of_a_column(tmp_path, name):
    column, text, expected = STATED[name]
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    schema = Schema({"a": column, "y": {}}, {"decimal": "."} if "days" in name else ())
    schema.write(tmp_path / "schema.toml")
    back = Schema.read(tmp_path / "schema.toml")
    assert (back.columns, back.file) == (schema.columns, schema.file)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            back.apply(path)
    else:
        np.testing.assert_array_equal(back.apply(path).a, expected)


CELLS = ["1.034", "987", "1.207"]


def test_text_in_every_file_and_object_takes_the_same_way(tmp_path):
    halves = pa.array(["0,5", "1,25", None], pa.large_string())
    arrow = pa.table({"a": CELLS, "b": halves})
    parquet.write_table(arrow, tmp_path / "t.parquet")
    feather.write_feather(arrow, tmp_path / "t.feather")
    for given in (arrow, tmp_path / "t.parquet", tmp_path / "t.feather"):
        with pytest.raises(TableError, match=BOTH):
            read_table(given)
        read = read_table(given, decimal=",")
        assert read.a.tolist() == RIGHT and read.b.tolist()[:2] == [0.5, 1.25]
        with pytest.raises(TableError, match=BOTH):
            Schema({"a": {"unreadable": "missing"}}).apply(given)
        assert Schema({"a": {"thousands": "."}}).apply(given).a.tolist() == RIGHT
    frame = pd.DataFrame({"a": CELLS})
    for kind in (object, "string", "string[pyarrow]", "category"):
        with pytest.raises(TableError, match=BOTH):
            Schema({"a": {}}).apply(frame.astype(kind))
        read = Schema({"a": {}}, {"decimal": ","}).apply(frame.astype(kind))
        assert read.a.tolist() == RIGHT


@pytest.fixture
def book(tmp_path):
    "A function that writes sheets, lists of rows, to an Excel file."
    openpyxl = pytest.importorskip("openpyxl")

    def write(**sheets):
        made = openpyxl.Workbook()
        made.remove(made.active)
        for name, rows in sheets.items():
            sheet = made.create_sheet(name)
            for row in rows:
                sheet.append(row)
        made.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    return write


def test_sheets(book):
    texts = [["x", "a"], *([k, cell] for k, cell in enumerate(CELLS))]
    path = book(one=texts)
    with pytest.raises(TableError, match=BOTH):
        read_table(path)
    assert read_table(path, decimal=",").a.tolist() == RIGHT
    mixed = [["x", "a"], [1, 1034], [2, "987"], [3, "1.207"], [4, None], [5, 2.5]]
    with pytest.raises(TableError, match=BOTH):
        read_table(book(one=mixed))
    read = read_table(book(one=mixed), thousands=".")
    np.testing.assert_array_equal(read.a, [*RIGHT, np.nan, 2.5])
    titled = [["A report"], [], ["x", "a"], [1, 5.5], [2, 6.5], ["Total", 12]]
    path = book(front=[["hello"]], Daten=titled)
    with pytest.raises(TableError, match="2 sheets"):
        read_table(path)
    with pytest.raises(TableError, match="no such sheet"):
        read_table(path, sheet="data")
    with pytest.raises(TableError, match="like a total"):
        read_table(path, sheet="Daten", skip_rows=2)
    form = {"sheet": "Daten", "skip_rows": 2, "footer": 1}
    assert read_table(path, **form).a.tolist() == [5.5, 6.5]
    assert table_shape(path, **form) == (2, ["x", "a"])
    assert Schema({"a": {}}, form).apply(path).a.tolist() == [5.5, 6.5]


def test_days_in_sheets_may_be_days_or_text(book):
    rows = [["day"], [datetime(2024, 1, 3)], [None], ["03.02.2024"], ["k.A."]]
    schema = Schema(
        {"day": {"kind": "date", "format": "%d.%m.%Y"}}, {"missing": ["k.A."]}
    )
    read = schema.apply(book(one=rows))
    np.testing.assert_array_equal(read.day, [DAYS[0], np.nan, DAYS[1], np.nan])
    frame = pd.DataFrame({"day": [date(2024, 1, 3), date(2024, 2, 3)]})
    assert Schema({"day": {"kind": "date"}}).apply(frame).day.tolist() == DAYS


def test_a_sheet_that_unpacks_to_any_size_is_not_read(book):
    "Two million cells in 120 kB, which would take a minute and gigabytes."
    path = book(one=[["x"], [1]])
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = next(name for name in parts if name.endswith("sheet1.xml"))
    row, end = b"<row><c><v>1</v></c></row>", b"</sheetData>"
    parts[sheet] = parts[sheet].replace(end, row * 2_000_000 + end)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, part in parts.items():
            packed.writestr(name, part)
    assert path.stat().st_size < 200_000
    with pytest.raises(TableError, match="no usual sheet does: save the sheet as CSV"):
        read_table(path)


def test_a_package_that_is_not_there_is_named(tmp_path, monkeypatch):
    def absent(path):
        raise ImportError

    (tmp_path / "t.xlsx").write_bytes(b"PK")
    monkeypatch.setattr(pd, "ExcelFile", absent)
    with pytest.raises(TableError, match="pip install openpyxl"):
        read_table(tmp_path / "t.xlsx")


# bit for bit


def test_floats_come_back_bit_for_bit(tmp_path):
    "pandas' usual parser has another last bit in a third of these cells."
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(float)
    edges = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -0.0, 0.1]
    cells = np.concatenate([bits[np.isfinite(bits)], rng.normal(size=50_000), edges])
    text = "\n".join(map(repr, cells.tolist()))
    usual = pd.read_csv(io.StringIO(text), header=None)[0].to_numpy()
    assert (usual != cells).mean() > 0.1, "the fault is not there to be seen"
    german = text.replace(".", ",")
    for written in (text, german, f"{german}\n1.234,5"):
        (tmp_path / "t.csv").write_text(beside(written.splitlines()))
        read = read_table(tmp_path / "t.csv").a.to_numpy()[: len(cells)]
        np.testing.assert_array_equal(read.view(np.uint64), cells.view(np.uint64))


# one record has no say in how another is read

GRID = ["1.034", "1,034", "1.5", "1,5", "1.234.567", "1,234,567", "987", "", "1.234,5"]


def read_alone(cells):
    "The numbers of a column, or None if it is refused."
    try:
        return Schema({"a": {}}).apply(pd.DataFrame({"a": list(cells)})).a.tolist()
    except TableError:
        return None


def test_a_replaced_record_never_changes_how_another_is_read():
    "All columns of four cells from the grid, and all of their neighbours."
    seen = 0
    for kept in itertools.combinations_with_replacement(GRID, 3):
        read = [read_alone([*kept, cell]) for cell in GRID]
        first, *others = [each[:3] for each in read if each is not None] or [[]]
        for each in others:
            np.testing.assert_array_equal(each, first)
        seen += len(others)
    assert seen > 200


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet", "feather", "frame"])
def test_a_number_that_is_a_word_for_gaps_is_a_gap_in_every_file(tmp_path, kind):
    "As -9 and 999 in surveys; as whole numbers, with decimals, as objects, as text."
    table = pd.DataFrame({"a": [1, -9, 3], "b": [0.5, 1.5, 999], "c": ["7", "-9", "8"]})
    path, right = tmp_path / f"t.{kind}", [[1, 0.5, 7], [0, 1.5, 0], [3, 0, 8]]
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        table.to_excel(path, index=False)
    elif kind != "frame":
        getattr(table, f"to_{kind}")(path, **{"index": False} if kind == "csv" else {})
    gaps, columns = {"missing": ["k.A.", "-9", "999"]}, {"fill": 0}
    for name, schema in {
        "of the file": Schema(dict.fromkeys("abc", columns), gaps),
        "of columns": Schema(dict.fromkeys("abc", columns | gaps)),
    }.items():
        for given in [path] if kind != "frame" else [table, table.astype(object)]:
            assert schema.apply(given).to_numpy().tolist() == right, name
    if kind != "frame":
        read = read_table(path, **gaps).to_numpy(dtype=float)
        np.testing.assert_array_equal(np.nan_to_num(read), right)
    if kind not in ("frame", "xlsx"):
        read = rows_at(as_batches(path, **gaps))
        np.testing.assert_array_equal(np.nan_to_num(read), right)


def test_decimals_become_the_nearest_floats_in_every_file(tmp_path):
    "Arrow's cast of them may be off by a bit."
    cells = [Decimal(k).scaleb(-2) for k in range(1, 100_000, 7)]
    nearest = np.array([[float(cell)] for cell in cells])
    parquet.write_table(pa.table({"a": cells}), tmp_path / "t.parquet")
    feather.write_feather(pa.table({"a": cells}), tmp_path / "t.feather")
    pd.DataFrame({"a": cells}).to_csv(tmp_path / "t.csv", index=False)
    objects = pd.DataFrame({"a": cells}, dtype=object)
    files = [tmp_path / f"t.{kind}" for kind in ("parquet", "feather", "csv")]
    for given in (*files, objects, pa.table({"a": cells})):
        assert (read_table(given).to_numpy() == nearest).all()
        assert (rows_at(as_batches(given)) == nearest).all()
