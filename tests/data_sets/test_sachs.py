"""Cell signalling: two lists of edges, and logarithms that take the bounds along."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from privglasso.base.validation import InputError
from privglasso.data_sets import sachs
from privglasso.data_sets.dataset import Dataset, adjacency_of
from privglasso.data_sets.sachs import SACHS_17, load_sachs, log10_scale
from privglasso.data_sets.synthetic import example_table


def test_the_consensus_list_has_seventeen_pairs():
    names = sorted({name for pair in SACHS_17 for name in pair})
    assert len(names) == 11 and adjacency_of(SACHS_17, names).sum() == 2 * 17


@pytest.mark.parametrize("truth", ["19", 17, None])
def test_unknown_truth_is_refused_before_anything_is_fetched(truth, monkeypatch):
    monkeypatch.setattr(sachs, "fetch_file", None)
    with pytest.raises(InputError, match="truth="):
        load_sachs(truth)


def test_logarithms_move_the_bounds_along():
    columns = np.array([1.0, 10.0])
    data = Dataset(
        name="t",
        table=pd.DataFrame([[1.0, 100.0], [10.0, 1000.0]]),
        truth=None,
        kind="integer",
        bounds=(columns, 1000 * columns),
        bounds_reason="scale",
        description="",
        source=(),
        licence="",
        citation="",
    )
    logs = log10_scale(data)
    assert (
        logs.table.to_numpy().tolist() == [[0, 2], [1, 3]] and logs.kind == "continuous"
    )
    assert np.array_equal(logs.bounds, [[0, 1], [3, 4]])
    with pytest.raises(InputError, match="greater than 0"):
        log10_scale(dataclasses.replace(data, bounds=None))
    with pytest.raises(InputError, match="every value"):
        log10_scale(dataclasses.replace(data, table=-data.table))
    with pytest.raises(InputError, match="greater than 0"):
        log10_scale(example_table(3, random_state=0))
