"""The overview: complete without any download, and no wrong file hidden."""

import ast
import doctest

import numpy as np
import pandas as pd
import pytest

import privglasso
from privglasso.data_sets import dataset
from privglasso.data_sets.dataset import DataError
from privglasso.data_sets.overview import _conditioning, data_overview

WEEKS = "Date,B,A,C\n03/01/2005,1,2,3\n10/01/2005,4,5,6\n"
BORDERS = "name_1,name_2,id_1,id_2\nA,A,0,0\nA,B,0,1\nB,A,1,0\nC,B,2,1\nB,C,1,2\n"


def test_overview_without_any_download(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    monkeypatch.setattr(dataset.pooch, "retrieve", None)
    table = data_overview()
    assert len(table) == table.index.nunique() == 13
    here = table[table["available"] == "with the project"]
    assert (
        here.index.tolist()
        == ["grid11", "grid115"]
        == table.dropna(subset=["rows"]).index.tolist()
    )
    assert (here["rank"] == here["columns"]).all() and (here["condition"] > 1e5).all()
    assert (
        table.loc["house", "available"] == "download"
        and "licence" in table.loc["movielens", "available"]
    )


def test_overview_measures_what_is_there(local):
    local(chickenpox=WEEKS, chickenpox_edges=BORDERS)
    row = data_overview().loc["chickenpox"]
    assert (row["rows"], row["columns"], row["true edges"], row["rank"]) == (
        2,
        3,
        2,
        1,
    ) and np.isinf(row["condition"])
    assert row["available"] == "in the cache" and not row["bounds"]


def test_a_gap_counts_as_the_mean_of_its_column():
    gaps = pd.DataFrame({"a": [1.0, 2.0, 3.0, np.nan], "b": [2.0, 1.0, 3.0, 5.0]})
    filled = gaps.fillna({"a": 2.0})
    assert _conditioning(gaps) == _conditioning(filled)
    assert _conditioning(filled)[0] == 2 and np.isfinite(_conditioning(gaps)[1])


def test_overview_does_not_hide_a_wrong_file(local, tmp_path):
    local(soil=",7,8\nx,1,3\n")
    (tmp_path / "soil" / "soil_116.csv").write_text(",7,8\nx,1,4\n")
    with pytest.raises(DataError, match="not the registered file"):
        data_overview()


FILES = {
    "load_sachs": ("sachs", "sachs_truth_18"),
    "load_chickenpox": ("chickenpox", "chickenpox_edges"),
    "load_soil": ("soil",),
    "load_congress": ("congress_senate",),
    "load_ionosphere": ("ionosphere",),
    "load_fmri": ("fmri_rois",),
    "load_loans": ("loans",),
    "load_flights": ("flights",),
}


@pytest.mark.parametrize(
    "loader",
    [pytest.param(name, marks=pytest.mark.data(*FILES[name])) for name in FILES],
)
def test_a_loaders_example_is_so(loader):
    "It is shown, and not run with the other examples: the data may not be here."
    documented = getattr(privglasso, loader).__doc__
    (example,) = doctest.DocTestParser().get_examples(documented)
    source, _, option = example.source.partition("  # doctest: ")
    assert option.strip() == "+SKIP"
    assert eval(source, vars(privglasso)) == ast.literal_eval(example.want)
