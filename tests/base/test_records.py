"""Records: there and back; what does not belong there is named and not repeated."""

from dataclasses import dataclass
from typing import Annotated, NotRequired

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privglasso.base.records import DamageError, Fields, flag, number, plain
from privglasso.base.records import read_record, settings_of, whole, word

SECRET = "cheap\x1b[2J"


@dataclass(frozen=True, eq=False)
class Inner:
    n: int
    counts: whole(-(2**62), 2**62, "p", "bins")
    part: number(0, "n") | None
    kind: word("low", "high")


OUTER = Fields(
    {
        "n": whole(1, 2**53),
        "names": plain("p"),
        "inner": Inner,
        "each": word("a", "b", keyed=True),
        "said": NotRequired[flag()],
        "free": NotRequired[Annotated[dict, Fields({"x": number(0, 1)})]],
    }
)
STATED = {
    "n": 9,
    "names": ["u", "v"],
    "inner": {"counts": [[1, -2, 2**62], [3, 4, 5]], "part": 8.5, "kind": "low"},
    "each": {"u": "a"},
}


def test_what_is_stated_comes_back():
    found = read_record(OUTER, STATED)
    inner = found["inner"]
    assert (inner.n, inner.part, inner.kind) == (9, 8.5, "low")
    assert inner.counts.dtype == np.int64 and inner.counts[0, 2] == 2**62
    assert settings_of(OUTER, found) == STATED and "said" not in found
    more = STATED | {"said": True, "free": {"x": 1}}
    assert settings_of(OUTER, read_record(OUTER, more)) == more


def changed(path, new):
    "What is stated, with something else at one place."
    outer, *inner = path.split(".")
    if not inner:
        return STATED | {outer: new}
    return STATED | {outer: STATED[outer] | {inner[0]: new}}


WRONG = [
    ("n", (0, 9.0, True, 10**400, SECRET, None, [9])),
    ("names", (["u"] * 3, ["u", SECRET], "uv", [1, 2])),
    ("inner", (SECRET, [1], None)),
    ("inner.counts", ([[1, 2], [3]], [[1], [2], [3]], [1, 2], [[0.5], [1]])),
    ("inner.part", (9.5, -1, float("nan"), float("inf"), SECRET)),
    ("inner.kind", (SECRET, 1, None)),
    ("each", ({"u": SECRET}, {SECRET: "a"}, ["a"])),
    ("said", (1, SECRET)),
    ("free.x", (2, SECRET)),
]


@pytest.mark.parametrize("place, values", WRONG)
def test_the_place_is_named_and_nothing_is_repeated(place, values):
    for value in values:
        if place == "free.x":
            stated = STATED | {"free": {"x": value}}
        else:
            stated = changed(place, value)
        with pytest.raises(DamageError) as told:
            read_record(OUTER, stated, {"p": 2})
        assert str(told.value).startswith(f"{place} must ")
        assert "cheap" not in str(told.value) and told.value.__context__ is None


def test_what_is_missing_or_foreign_is_told():
    for place in ("n", "each"):
        with pytest.raises(DamageError, match=f"^{place} is missing"):
            read_record(OUTER, {k: v for k, v in STATED.items() if k != place})
    less = {"counts": [[1], [2]], "part": None}
    with pytest.raises(DamageError, match="^at.inner.kind is missing"):
        read_record(OUTER, STATED | {"inner": less}, place="at")
    for stated in (STATED | {SECRET: 1}, changed(f"inner.{SECRET}", 1)):
        with pytest.raises(DamageError, match="(it|inner) has fields that") as told:
            read_record(OUTER, stated)
        assert "cheap" not in str(told.value)


def test_half_a_character_is_no_text():
    "JSON can state it, and no encoding has it."
    for place in ("names", "inner.kind", "each"):
        value = {"names": ["u", "\ud800"], "each": {"\ud800": "a"}}.get(place, "\ud800")
        with pytest.raises(DamageError):
            read_record(OUTER, changed(place, value))


def test_a_bound_may_be_another_field():
    rows = Fields({"steps": whole(1, 99), "constant": whole(0, "steps")})
    assert read_record(rows, {"steps": 5, "constant": 5})["constant"] == 5
    with pytest.raises(DamageError, match="constant must be a whole .* from 0 to 5"):
        read_record(rows, {"steps": 5, "constant": 6})


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(TREES, st.sampled_from(["n", "names", "inner", "each", "said", "free"]))
def test_anything_that_json_has_is_read_or_refused(value, key):
    for stated in (value, STATED | {key: value}):
        try:
            read_record(OUTER, stated)
        except DamageError as damage:
            assert len(str(damage)) < 200
