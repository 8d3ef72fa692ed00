"""Radar echoes: labels are 1 and 2, and nothing else."""

import pandas as pd
import pytest

from privglasso.data_sets.dataset import DataError
from privglasso.data_sets.ionosphere import _is_good


def test_unknown_label():
    assert _is_good(pd.Series([1, 2])).tolist() == [True, False]
    with pytest.raises(DataError, match=r"not \[3\]"):
        _is_good(pd.Series([1, 3]))
