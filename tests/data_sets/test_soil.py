"""Soil: whole numbers, as they are in the file."""

import numpy as np

from privglasso.data_sets.soil import load_soil


def test_soil(local):
    local(soil=",7,8\nx,1,3.0\ny,2,1\n")
    data = load_soil()
    assert (
        data.table.to_numpy().tolist() == [[1, 3], [2, 1]]
        and (data.table.dtypes == np.int64).all()
    )
    assert data.truth is None and data.bounds is None
