"""The container: whole or absent, of a known format, and nothing else of the table."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import FORMAT, METADATA_KEY, ReleaseError
from privglasso.publish.parquet import stored_release
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism

TABLE = pd.DataFrame({"a": [5, 15, 20, 1], "b": [3, 4, 5, 6]}, index=list("wxyz"))
MECHANISMS = {
    "table": GaussianMechanism((0, 20), mu=1.0),
    "integers": DiscreteGaussianMechanism((0, 20), neighbors="cell", sigma=1.5),
    "covariance": CovarianceMechanism((0, 20), mu=1.0),
    "local": LocalMechanism(9.0, mu=1.0),
    "synthetic": SyntheticDataMechanism((0, 20), mu=1.0),
}
every_kind = pytest.mark.parametrize("kind", MECHANISMS)


@pytest.fixture
def path(tmp_path):
    "Where a release is, and its file."
    MECHANISMS["table"].publish(TABLE, random_state=4).to_parquet(
        tmp_path / "r.parquet"
    )
    return tmp_path / "r.parquet"


def rewrite(path, change):
    "The file at `path` with its metadata changed by `change`."
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])
    change(metadata)
    metadata = {METADATA_KEY: json.dumps(metadata)}
    pq.write_table(stored.replace_schema_metadata(metadata), path)


@every_kind
def test_the_numbers_come_back_bit_for_bit(kind, tmp_path):
    release = MECHANISMS[kind].publish(TABLE, random_state=4)
    release.to_parquet(tmp_path / "r.parquet")
    metadata, table = stored_release(tmp_path / "r.parquet")
    written_kind, written, settings = release._contents()
    assert table.equals(written) and metadata["kind"] == written_kind
    assert metadata["mu"] == release.guarantee.mu and metadata["n"] == release.n
    assert settings.items() <= metadata.items() and metadata["format"] == FORMAT


@every_kind
@pytest.mark.parametrize("there", [False, True])
def test_a_write_that_fails_leaves_what_was_there(kind, there, tmp_path, monkeypatch):
    release, path = MECHANISMS[kind].publish(TABLE), tmp_path / "r.parquet"
    if there:
        release.to_parquet(path)
    before = [(p, p.read_bytes()) for p in tmp_path.iterdir()]

    def full_disk(table, file, **options):
        file.write(b"PAR1 half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(OSError, match="No space"):
        release.to_parquet(path)
    assert [(p, p.read_bytes()) for p in tmp_path.iterdir()] == before


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError):
        MECHANISMS["table"].publish(TABLE).to_parquet(
            tmp_path / "nowhere" / "r.parquet"
        )
    with pytest.raises(FileNotFoundError):
        read_release(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize("kept", [0, 3, 20, -20, -1])
def test_a_truncated_file_is_refused(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ReleaseError, match="not a whole"):
        stored_release(path)


def test_other_files_are_refused(tmp_path):
    foreign, text = tmp_path / "foreign.parquet", tmp_path / "text.parquet"
    TABLE.to_parquet(foreign)
    text.write_text("not parquet")
    for other in (foreign, text):
        with pytest.raises(ReleaseError):
            read_release(other)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(format=99),
        lambda m: m.update(format=0),
        lambda m: m.update(format="2"),
        lambda m: m.pop("secure"),
        lambda m: m.pop("noise_variance"),
    ],
)
def test_unknown_and_incomplete_formats_are_refused(path, change):
    rewrite(path, change)
    with pytest.raises(ReleaseError, match="format"):
        stored_release(path)


def test_a_file_of_the_first_format_is_a_table(path):
    before = read_release(path)

    def first_format(metadata):
        assert metadata.pop("kind") == "table"
        metadata["format"] = 1

    rewrite(path, first_format)
    back = read_release(path)
    assert back.table.equals(before.table) and np.array_equal(
        back.noise_variance, before.noise_variance
    )
