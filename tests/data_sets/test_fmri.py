"""Brain signals: the paper's own series by a stand-in for nilearn."""

import sys
import types

import numpy as np
import pytest
import requests

from privglasso.data_sets.dataset import DataError
from privglasso.data_sets.fmri import load_msdl


def fake_nilearn(monkeypatch, failure=None):
    "Modules that behave as the used parts of nilearn, with 39 regions and 5 images."

    class Masker:
        def __init__(self, maps_img, standardize):
            assert (maps_img, standardize) == ("maps.nii", "zscore_sample")

        def fit_transform(self, image, confounds):
            assert (image, confounds) == ("subject.nii", "subject.tsv")
            return np.arange(5 * 39.0).reshape(5, 39)

    def atlas():
        if failure is not None:
            raise failure
        return types.SimpleNamespace(
            maps="maps.nii", labels=[f"region {j}" for j in range(39)]
        )

    package, data, maskers = (
        types.ModuleType(f"nilearn{part}") for part in ("", ".datasets", ".maskers")
    )
    (
        package.datasets,
        package.maskers,
        maskers.NiftiMapsMasker,
        data.fetch_atlas_msdl,
    ) = (data, maskers, Masker, atlas)
    data.fetch_development_fmri = lambda n_subjects: types.SimpleNamespace(
        func=["subject.nii"] * n_subjects, confounds=["subject.tsv"] * n_subjects
    )
    for module in (package, data, maskers):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_msdl_by_nilearn(monkeypatch):
    fake_nilearn(monkeypatch)
    data = load_msdl()
    assert (
        data.table.shape == (5, 39)
        and data.table.columns[38] == "region 38"
        and data.truth is None
    )


@pytest.mark.parametrize(
    "failure",
    [requests.ConnectionError("no route"), ValueError("broken")],
)
def test_msdl_without_a_network(monkeypatch, failure):
    fake_nilearn(monkeypatch, failure)
    with pytest.raises(DataError, match=f"{failure}.*needs a network"):
        load_msdl()


def test_msdl_without_nilearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "nilearn", None)
    monkeypatch.setitem(sys.modules, "nilearn.datasets", None)
    with pytest.raises(DataError, match="pip install nilearn"):
        load_msdl()
