"""Congress: members by number, complete in all ten Congresses, others counted."""

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.data_sets import congress
from privglasso.data_sets.congress import load_congress
from privglasso.data_sets.dataset import DataError


def senate(missing=(), extra=""):
    """Scores of three senators in the ten Congresses and one before, but for the
    (senator, Congress) pairs `missing`."""
    rows = [
        f"{congress},{icpsr},{last},X,{state},{les}"
        for congress in range(92, 103)
        for icpsr, last, state, les in (
            (1, "One", "AA", 0.5),
            (2, "Two", "BB", 1),
            (3, "Three", "CC", 1.5),
        )
        if (icpsr, congress) not in missing
    ]
    return "\n".join(["congress,icpsr,last,first,state,les", *rows]) + f"\n{extra}"


def test_a_member_missing_from_one_congress_is_left_out_and_counted(local):
    local(congress_senate=senate(missing=[(2, 97)]))
    data = load_congress("senate")
    assert data.table.shape == (10, 2) and data.table.index.tolist() == list(
        range(93, 103)
    )
    assert data.table.columns.tolist() == ["One, X (AA)", "Three, X (CC)"]
    assert "the 2 members of 3" in data.description
    assert np.array_equal(data.bounds, [[0, 0], [3, 3]])


def test_a_member_who_changes_name_or_has_no_number(local):
    local(
        congress_senate=senate().replace("98,2,Two", "98,2,Deux")
        + "93,,Nobody,X,DD,0\n"
    )
    data = load_congress("senate")
    assert data.table.columns.tolist() == [
        "One, X (AA)",
        "Three, X (CC)",
        "Two, X (BB)",
    ]
    assert "1 scores of members without an identifying number" in data.description


@pytest.mark.parametrize(
    "text, complaint",
    [
        (senate(missing=[(2, 97), (3, 93)]), "fewer than two members"),
        (
            senate(missing=[(1, 97), (2, 97), (3, 97)]),
            r"no scores for the Congresses \[97\]",
        ),
        (senate(extra="97,2,Two,X,BB,0.3\n"), "two scores in one Congress"),
    ],
)
def test_a_congress_that_makes_no_table(local, text, complaint):
    local(congress_senate=text)
    with pytest.raises(DataError, match=complaint):
        load_congress("senate")


@pytest.mark.parametrize("chamber", ["House", None])
def test_unknown_chamber(chamber, monkeypatch):
    monkeypatch.setattr(congress, "fetch_file", None)
    with pytest.raises(InputError, match="chamber="):
        load_congress(chamber)
