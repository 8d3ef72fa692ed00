"""Tables in any form are the same table, and nothing of a file is quoted."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privglasso as pg
from privglasso.base.validation import InputError, check_incomplete_table, check_table
from privglasso.base.words import WordsError
from privglasso.publish import sources
from privglasso.publish.batches import Batches, as_batches
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.sources import TableError, read_table, table_shape

TABLE = pd.DataFrame({"Größe": [1.5, 2.25, np.nan], "n": [1, 2, 3]})


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("ending", [".CSV", ".tsv", ".csv.gz", ".txt.xz"])
def test_every_form_is_the_same_table(tmp_path, sep, encoding, ending):
    path = tmp_path / f"t{ending}"
    for decimal in (".",) if sep == "," else (".", ","):
        TABLE.to_csv(path, index=False, sep=sep, encoding=encoding, decimal=decimal)
        pd.testing.assert_frame_equal(read_table(path), TABLE, check_exact=True)
        assert table_shape(path) == (3, ["Größe", "n"])


@pytest.mark.parametrize(
    "text, words",
    [
        ("a;b\n1.5;1,5\n", "decimal"),
        ("x, y;z\n1,2;3\n", "separators"),
        ("secretly,b\n71234.5,2,3\n4,5,6\n", "2 names for 3 columns"),
        ('secretly,b\n71234.5,"2\n', "not a whole"),
        ("", "is empty"),
    ],
)
def test_of_what_is_refused_nothing_is_quoted(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=words) as stopped:
        read_table(path)
    assert "71234" not in str(stopped.value) and "secretly" not in str(stopped.value)
    assert stopped.value.__cause__ is None


def test_what_is_stated_beats_what_is_found(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1.5;1,5\n")
    assert read_table(path, decimal=".").dtypes.b.kind == "O"
    assert read_table(path, decimal=",").b[0] == 1.5
    assert list(read_table(path, sep="@").columns) == ["a;b"]
    for name, words in (("no.csv", "no such file"), ("t.doc", "give a table")):
        with pytest.raises(TableError, match=words):
            read_table(tmp_path / name)
    for word in ({"encoding": "klingon"}, {"sep": ";;"}):  # named, as any argument
        with pytest.raises(InputError, match=f"{min(word)}='{word[min(word)]}'"):
            read_table(path, **word)


class Foreign:
    "A table of a library that we do not know."

    shape = (3, 2)

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_objects_come_through_one_door():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    frame = pd.DataFrame(rows, columns=["a", "b"])
    mechanism = CovarianceMechanism((-4, 4), mu=1.0, clipping="box")
    expected = mechanism.publish(frame, 0)
    for given in (pa.Table.from_pandas(frame), Foreign(pa.Table.from_pandas(frame))):
        found = mechanism.publish(given, 0)
        assert (found.second_moment == expected.second_moment).all()
        assert found.columns == ["a", "b"]
    gaps = pa.table({"a": [True, None, False], "b": [1, 2, 3]})
    assert read_table(gaps).isna().sum().sum() == 1
    with pytest.raises(InputError, match="not numeric"):
        check_table(pa.table({"a": ["x", "y"]}))
    with pytest.raises(InputError):
        read_table(np.zeros(3))


# text that appears, and numbers that change their kind, in a later part
LATE = {
    "words": ["7"] * 60_000 + ["x", ""],
    "whole, then not": ["1"] * 60_000 + ["2.5", "3"],
    "gaps": ["4"] * 60_000 + ["", "5"],
    "beyond int64": ["6"] * 60_000 + ["9223372036854775809", "1"],
    "yes or no": ["True"] * 60_000 + ["1", "False"],
}


@pytest.mark.parametrize("names", [list(LATE), ["whole, then not", "gaps"]])
def test_a_text_read_by_parts_is_the_same_table(tmp_path, monkeypatch, names):
    columns = {name: LATE[name] for name in names}
    columns["x"] = [f"{k / 7}" for k in range(60_002)]
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    whole = read_table(tmp_path / "t.csv")
    monkeypatch.setattr("privglasso.publish.sources._BLOCK", 1000)
    by_parts = read_table(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(whole, by_parts)
    assert by_parts.attrs == whole.attrs


def test_a_table_is_not_copied_to_be_summed():
    "And what is published does not depend on the order in which it lies in memory."
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(3000, 3)))
    table = pd.DataFrame(X, columns=list("abc"))
    made = [CovarianceMechanism(**kind, mu=1.0) for kind in ({}, {"bounds": (-3, 3)})]
    for mechanism in made:
        assert np.shares_memory(mechanism.check(table)[0], table.to_numpy())
        one, two = (mechanism.publish(Y, 5).matrix for Y in (X, X.copy(order="C")))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_decimals_and_flags_with_gaps_are_numbers_in_every_file(tmp_path, kind):
    from decimal import Decimal

    import pyarrow as pa
    from pyarrow import feather, parquet

    cells = {"money": [Decimal("1.50"), None], "flag": [True, None]}
    path, table = tmp_path / f"t.{kind}", pa.table(cells)
    write = parquet.write_table if kind == "parquet" else feather.write_feather
    write(table, path)
    objects = pd.DataFrame(cells, dtype=object)
    same = (objects, objects.to_numpy())  # as pandas and NumPy hold them
    for found in map(read_table, (path, table, *same)):
        assert {each.kind for each in found.dtypes} == {"f"}
        assert found.iloc[0].tolist() == [1.5, 1.0] and found.iloc[1].isna().all()


def test_a_long_text_is_read_with_a_bar(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2.5\n" * 1000)
    quick = sources.read_table(path)
    monkeypatch.setattr(sources, "_QUICK", 0)
    watched = sources._Watched(path)
    assert watched.bar.total == path.stat().st_size
    watched.close()
    pd.testing.assert_frame_equal(sources.read_table(path), quick)


def test_names_that_pandas_would_not_take_for_text_are_asked_about():
    "The fast answer for plain words is the one that pandas gives."
    from pandas._libs.parsers import STR_NA_VALUES

    odd = [*STR_NA_VALUES, "inf", "-inf", "+INF", "Infinity", "TRUE", "True", "false"]
    assert all(sources.reads_like_a_record(["age", name]) for name in odd)
    plain = "age", "income", "nanny", "nulls", "truth", "fall", "n", "na me"
    assert not sources.reads_like_a_record(plain)


def test_a_rehearsal_loads_no_pandas(tmp_path):
    "A file of a hundred million records is tried in a second."
    import subprocess
    import sys

    from pyarrow import parquet

    table = pa.table({name: np.zeros(20_000) for name in "ab"})
    (tmp_path / "t").mkdir()
    parquet.write_table(table, tmp_path / "t/0.parquet")
    code = """
import sys
from privglasso import main
sys.argv = "privglasso publish t r.parquet --epsilon 1 --dry-run".split()
try:
    main()
finally:
    print("pandas" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0 and told.stdout.endswith("False\n"), told.stderr


class Masking:
    "An object of another library that an array with a mask is made of."

    ndim, shape = 2, (200, 2)

    def __array__(self, dtype=None, copy=None):
        return hidden()


def hidden(kind=float):
    "Cells of which none may be read."
    return np.ma.masked_array(np.full((200, 2), 7).astype(kind), mask=True)


def parts(rows):
    "A table that yields batches with masks."
    return Batches(["x0", "x1"], lambda places: iter([rows[:, places]]), len(rows))


@pytest.mark.parametrize("enter", [read_table, as_batches, parts, pa.array, list])
def test_what_lies_under_a_mask_is_not_there_by_any_door(enter, tmp_path):
    if enter is pa.array:
        given = pa.table({"x0": pa.array(hidden()[:, 0]), "x1": hidden()[:, 1]})
    else:
        given = enter(hidden())
    mechanism = CovarianceMechanism((0, 10), mu=1.0, clipping="box")
    with pytest.raises(InputError, match="NaN"):
        mechanism.publish(given, 1)
    if isinstance(given, Batches):
        return
    with pytest.raises(WordsError, match="finite"):
        pg.Publication(given, epsilon=1).publish(tmp_path / "r.parquet")


@pytest.mark.parametrize("kind", [int, bool, str, object, "M8[D]", "m8[s]", complex])
def test_under_a_mask_nothing_is_kept_of_any_kind(kind):
    assert read_table(hidden(kind)).isna().all(axis=None)
    assert read_table(list(hidden(kind))).isna().all(axis=None)


def test_what_others_make_arrays_of_keeps_its_mask():
    assert read_table(Masking()).isna().all(axis=None)
    assert np.isnan(check_incomplete_table(Masking())[0]).all()
