"""Input: what is wrong is named, what is right is copied."""

import numpy as np
import pandas as pd
import pytest

from privglasso.base.validation import InputError, all_finite, by_strips
from privglasso.base.validation import check_generator, mirror
from privglasso.base.validation import check_integer, check_positive, check_probability
from privglasso.base.validation import check_symmetric, check_table, is_symmetric
from privglasso.base.validation import per_column, strips
from privglasso.privacy.audit import AuditResult
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee, NoGuarantee
from privglasso.publish.bounds_check import BoundsCheck
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.recover.graphical_lasso import graphical_lasso


@pytest.mark.parametrize(
    "X, named",
    [
        ([[1.0, np.nan], [2, 3]], "x1"),
        ([["a", "b"], ["c", "d"]], "x0"),
        (np.ones((2, 2), complex), "x0"),
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2021-01-01"])}), "day"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), "a"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "a"),
        ([[1.0, 2.0]], 1),
        (np.empty((3, 0)), 0),
        ([1.0, 2.0], "1 dimensions"),
        ([[1.0, 2.0], [3.0]], "different lengths"),
    ],
)
def test_bad_tables_are_named(X, named):
    with pytest.raises(InputError) as caught:
        check_table(X, "table")
    assert caught.value.argument == "table" and named in caught.value.value


def test_good_tables_keep_their_names_and_their_owner_keeps_the_table():
    frame = pd.DataFrame(
        {"a": [True, False], "b": pd.array([1, 2], dtype="Int64"), 3: [0.5, 1.5]}
    )
    values, columns = check_table(frame)
    assert (
        columns == ["a", "b", "3"]
        and values.dtype == np.float64
        and values.shape == (2, 3)
    )
    array = np.ones((2, 2))
    values, _ = check_table(array)
    values[0, 0] = 7
    assert array[0, 0] == 1
    assert np.shares_memory(check_table(array, copy=False)[0], array)
    assert check_table(np.ones((2, 3), order="F").T, copy=False)[0].flags.c_contiguous


@pytest.mark.parametrize(
    "check, value",
    [
        *((check_positive, value) for value in (0, np.nan, np.inf, "1", True)),
        *((check_probability, value) for value in (0, 1, np.nan)),
        *((lambda v, n: check_integer(v, n, 1), v) for v in (np.True_, 1.0, "1", 0)),
        *((lambda v, n: per_column(v, n, 3), v) for v in ([1, 2], "abc")),
    ],
)
def test_bad_numbers_are_named(check, value):
    with pytest.raises(InputError) as caught:
        check(value, "argument")
    assert caught.value.argument == "argument"


@pytest.mark.parametrize("value", [10**5000, (1, 10**5000)], ids=["int", "tuple"])
def test_a_number_that_python_does_not_write_is_named(value):
    with pytest.raises(InputError, match="^mu=(int|tuple) with too many digits"):
        check_positive(value, "mu")


def test_a_count_is_a_plain_int():
    assert type(check_integer(np.int16(1), "n", 1)) is int


@pytest.mark.parametrize("random_state", [-1, 1.5, "seed"])
def test_sources_of_randomness(random_state):
    with pytest.raises(InputError) as caught:
        check_generator(random_state)
    assert caught.value.argument == "random_state"


@pytest.mark.parametrize(
    "S",
    [
        [[1, 2], [3, 1]],
        np.ones((2, 3)),
        [[np.nan]],
        np.empty((0, 0)),
        [["a"]],
        [[1, 2], [2]],
        None,
    ],
)
def test_what_is_not_a_symmetric_matrix(S):
    with pytest.raises(InputError) as caught:
        check_symmetric(S)
    assert caught.value.argument == "S"


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_asymmetry_is_measured_by_the_largest_entry(unit):
    S = unit * np.array([[2.0, 1.0], [1.0, 2.0]])
    rounded, wrong = S * [[1, 1 + 1e-13], [1, 1]], S * [[1, 1 + 1e-6], [1, 1]]
    checked = check_symmetric(rounded)
    assert np.array_equal(checked, checked.T) and checked == pytest.approx(S, rel=1e-12)
    with pytest.raises(InputError):
        check_symmetric(wrong)


def test_a_checked_matrix_is_not_the_callers():
    S = np.eye(2)
    assert not np.shares_memory(check_symmetric(S), S)


def test_masked_cells_are_missing_cells():
    "What lies under a mask must never be read: -999 stands for a secret here."
    numbers = np.ma.masked_equal([[1, -999], [2, 3]], -999)
    frames = [numbers, numbers.astype(float), list(numbers), tuple(numbers)]
    frames += [pd.DataFrame(numbers), [[1, np.ma.masked], [2, 3]]]
    for masked in frames:
        with pytest.raises(InputError, match="x1|1"):
            check_table(masked)
    values, _ = check_table(np.ma.array([[1, 2], [3, 4]]))
    assert type(values) is np.ndarray and values.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match="masked"):
        check_symmetric(np.ma.masked_equal([[1, -999], [-999, 1]], -999))
    for value in (np.ma.masked, np.ma.masked_equal([1, -999], -999)):
        with pytest.raises(InputError, match="sigma="):
            per_column(value, "sigma", 2)


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "a\u202eb", "a\x9b", "a\u2028"])
def test_names_of_columns_hold_no_control_characters(name):
    frame = pd.DataFrame({name: [1.0, 2.0], "größe (cm) – ü": [3.0, 4.0]})
    with pytest.raises(InputError) as caught:
        check_table(frame)
    assert name not in str(caught.value) and caught.value.value == [name]
    assert check_table(frame.iloc[:, 1:])[1] == ["größe (cm) – ü"]


INVISIBLE = "\u061c\u200e\u200f\u2069\u200b\u2060\xad\ufeff\U000e0041"


@pytest.mark.parametrize("mark", INVISIBLE)
def test_names_of_columns_hold_no_invisible_characters(mark):
    with pytest.raises(InputError, match="invisible") as caught:
        check_table(pd.DataFrame({f"a{mark}b": [1.0], "ab": [2.0]}))
    assert mark not in str(caught.value)


def test_names_are_spelled_with_joiners():
    names = ["سن\u200cها", "க்\u200dஷ", "👩\u200d⚕", "é", "e\u0301", "温度"]
    assert check_table(pd.DataFrame({name: [1.0, 2.0] for name in names}))[1] == names


def test_cards_for_notebooks_escape_everything(tmp_path):
    evil = "<script>alert(1)</script>"
    table = pd.DataFrame({evil: [0.5, 0.2, 0.1], "b": [0.1, 0.3, 0.2]})
    release = CovarianceMechanism((0, 1), mu=1.0, clipping="box").publish(
        table, random_state=0
    )
    budget = Budget.create(tmp_path / "b.json", Guarantee(1.0, "record"))
    budget.spend(Guarantee(0.5, "record"), label=evil)
    report = BoundsCheck((0, 1), mu=0.5).publish(table, random_state=0)
    others = graphical_lasso(np.eye(2), 0.1), AuditResult(3, 4, 100, 0.9, claimed=1.0)
    nothing = NoGuarantee(evil, Guarantee(1.0, "record"))
    shown = [release, release.guarantee, budget, report, nothing, *others]
    for each in shown:
        card = each._repr_html_()
        assert card.startswith("<table><caption>") and "<script>" not in card
    assert sum("&lt;script&gt;" in each._repr_html_() for each in shown) == 4


@pytest.mark.parametrize("p", [1, 2, 181, 182, 1000])
def test_strips_are_all_rows_once(p):
    taken = np.concatenate([np.arange(p)[at] for at in strips(p)])
    assert np.array_equal(taken, np.arange(p))
    assert all(at.stop - at.start <= max((1 << 15) // p, 1) for at in strips(p))


@pytest.mark.parametrize("p", [1, 127, 128, 129, 300])
def test_one_entry_that_differs_is_seen(p):
    matrix = np.random.default_rng(p).normal(size=(p, p))
    matrix += matrix.T
    assert is_symmetric(matrix)
    for i, j in ((0, p - 1), (p - 1, p // 2)):
        if i != j:
            other = matrix.copy()
            other[i, j] += 1e-9
            assert not is_symmetric(other)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_cell_that_is_not_finite_is_seen_whatever_the_sum_says(gaps):
    big = np.full((3, 2), 1e308)  # the sum overflows
    assert all_finite(big, gaps) and all_finite(-big, gaps)
    assert all_finite(np.array([[np.nan]]), gaps) == gaps
    for bad in ([np.inf], [-np.inf], [np.inf, -np.inf], [np.nan, np.inf]):
        assert not all_finite(np.array([[*bad, 1e308, 1e308, -1e308]]), gaps)


@pytest.mark.parametrize("p", [1, 3, 700])
def test_a_triangle_is_mirrored_and_strips_are_put_together(p):
    M = np.random.default_rng(0).normal(size=(p, p))
    expected = np.triu(M) + np.triu(M, 1).T
    assert np.array_equal(by_strips(lambda at: expected[at], p), expected)
    mirror(M)
    assert np.array_equal(M, expected)
