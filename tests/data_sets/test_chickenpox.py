"""Chickenpox: borders by name, whatever the order of the columns."""

import pandas as pd
import pytest

from privglasso.data_sets.chickenpox import load_chickenpox
from privglasso.data_sets.dataset import DataError

WEEKS = "Date,B,A,C\n03/01/2005,1,2,3\n10/01/2005,4,5,6\n"
BORDERS = "name_1,name_2,id_1,id_2\nA,A,0,0\nA,B,0,1\nB,A,1,0\nC,B,2,1\nB,C,1,2\n"


def test_borders_are_read_by_name(local):
    local(chickenpox=WEEKS, chickenpox_edges=BORDERS)
    data = load_chickenpox()
    assert (
        data.table.columns.tolist() == ["B", "A", "C"]
        and data.kind == "integer"
        and data.bounds is None
    )
    assert data.truth.tolist() == [
        [False, True, True],
        [True, False, False],
        [True, False, False],
    ]
    assert data.table.index[1] == pd.Timestamp("2005-01-10")


@pytest.mark.parametrize(
    "borders, complaint",
    [
        (
            BORDERS.replace("C,B,2,1\nB,C,1,2\n", ""),
            r"counties \['C'\] have no neighbour",
        ),
        (
            BORDERS.replace("C,B,2,1\nB,C,1,2\n", "C,C,2,2\n"),
            r"counties \['C'\] have no neighbour",
        ),
        (BORDERS.replace("C,B", "Z,B"), "'Z' - 'B' does not join"),
    ],
)
def test_counties_without_neighbours_and_unknown_ones(local, borders, complaint):
    local(chickenpox=WEEKS, chickenpox_edges=borders)
    with pytest.raises(DataError, match=complaint):
        load_chickenpox()
