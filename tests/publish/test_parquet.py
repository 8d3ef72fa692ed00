"""The container: whole or absent, of a known format, and nothing else of the table."""

import collections
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privglasso.base.validation import InputError
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import CHECKSUM_KEY, FORMAT, METADATA_KEY, ReleaseError
from privglasso.publish.parquet import sealed, stored_release
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism

TABLE = pd.DataFrame({"a": [5, 15, 20, 1], "b": [3, 4, 5, 6]}, index=list("wxyz"))
MECHANISMS = {
    "table": GaussianMechanism((0, 20), mu=1.0),
    "integers": DiscreteGaussianMechanism((0, 20), neighbors="cell", sigma=1.5),
    "covariance": CovarianceMechanism((0, 20), mu=1.0, clipping="box"),
    "local": LocalMechanism(9.0, mu=1.0),
    "synthetic": SyntheticDataMechanism((0, 20), mu=1.0, clipping="box"),
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
    "The file at `path` with its metadata changed by `change`, checksum and all."
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])
    change(metadata)
    seal = sealed(metadata, stored.to_pandas())
    if metadata["format"] in (1, 2):
        del seal[CHECKSUM_KEY]
    pq.write_table(stored.replace_schema_metadata(seal), path)


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
        release.to_parquet(path, replace=there)
    assert [(p, p.read_bytes()) for p in tmp_path.iterdir()] == before


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(InputError, match="^path=.*No such file"):
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
        lambda m: m.update(format=True),
        lambda m: m.update(format=3.0),
        lambda m: m.pop("secure"),
        lambda m: m.pop("noise_variance"),
    ],
)
def test_unknown_and_incomplete_formats_are_refused(path, change):
    rewrite(path, change)
    with pytest.raises(ReleaseError, match="format"):
        stored_release(path)


@pytest.mark.parametrize("number", [1, 2])
def test_old_formats_are_read_with_a_warning(path, number):
    before = read_release(path)

    def older(metadata):
        metadata.update(format=number, no_guarantee=None)
        if number == 1:
            assert metadata.pop("kind") == "table"

    rewrite(path, older)
    with pytest.warns(UserWarning, match="no checksum"):
        back = read_release(path)
    assert back.table.equals(before.table) and np.array_equal(
        back.noise_variance, before.noise_variance
    )


# ---------------------------------------------------------------------- damage


def state(release):
    "Everything that a release holds and says, to the bit."
    fields = [str(release), release.guarantee, release.columns, release.secure]
    private = getattr(release, "covariance_release", release)
    held = [getattr(release, "table", None), getattr(private, "second_moment", None)]
    held += [getattr(private, "total", None), *vars(private.lattice).values()]
    arrays = [np.asarray(array) for array in held if array is not None]
    return fields, [(array.dtype.str, array.tobytes()) for array in arrays]


@every_kind
def test_a_flipped_bit_is_never_read_as_something_else(kind, tmp_path):
    path = tmp_path / "r.parquet"
    MECHANISMS[kind].publish(TABLE, random_state=4).to_parquet(path)
    whole, before = path.read_bytes(), state(read_release(path))
    generator, outcomes = np.random.default_rng(0), collections.Counter()
    for bit in generator.choice(8 * len(whole), 300, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        try:
            outcomes[state(read_release(path)) == before] += 1
        except ReleaseError:
            outcomes["refused"] += 1
    assert outcomes[False] == 0 and outcomes["refused"] > 100


def test_no_flip_in_the_metadata_turns_checks_off(path):
    "Every bit of the keys, the checksum and the format's number."
    whole, before = path.read_bytes(), state(read_release(path))
    start = whole.rindex(CHECKSUM_KEY, 0, whole.index(b"ARROW:schema"))
    places = [*range(start, start + len(CHECKSUM_KEY) + 70)]
    start = whole.index(b'{"format": 3')
    places += range(start - len(METADATA_KEY) - 4, start + 14)
    for place in places:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                assert state(read_release(path)) == before
            except ReleaseError:
                pass


def test_pages_carry_checksums_of_their_own(path):
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(OSError, match="(?i)crc"):
        pq.ParquetFile(path, page_checksum_verification=True).read()
    with pytest.raises(ReleaseError):
        stored_release(path)


def test_a_new_file_without_its_checksum_or_with_another_is_refused(path):
    stored = pq.read_table(path)
    metadata = stored.schema.metadata
    older = metadata[METADATA_KEY].replace(b'"format": 3', b'"format": 2')
    for seal in (
        {METADATA_KEY: metadata[METADATA_KEY]},
        metadata | {CHECKSUM_KEY: b"0" * 64},
        metadata | {METADATA_KEY: older},
    ):
        pq.write_table(stored.replace_schema_metadata(seal), path)
        with warnings.catch_warnings(action="error"), pytest.raises(ReleaseError):
            stored_release(path)


def test_swapped_columns_rows_and_types_are_other_numbers(path):
    metadata, table = stored_release(path)
    for other in (
        table.rename(columns={"a": "b", "b": "a"}),
        table[["b", "a"]],
        table.iloc[::-1],
        table.astype("float32"),
        table.assign(a=-0.0),
    ):
        seals = (sealed(metadata, cells)[CHECKSUM_KEY] for cells in (table, other))
        assert len(set(seals)) == 2


def test_what_cannot_be_opened_or_parsed_is_a_release_error(path, tmp_path):
    stored = pq.read_table(path)
    metadata = stored.schema.metadata[METADATA_KEY]
    assert b'"secure": false' in metadata
    infinite = metadata.replace(b"false", b"Infinity")
    broken = (b"[" * 100_000, b"null", b"[]", b"{", b"\xff", b'{"format": [3]}')
    for raw in (infinite, *broken):
        pq.write_table(stored.replace_schema_metadata({METADATA_KEY: raw}), path)
        with pytest.raises(ReleaseError):
            read_release(path)
    with pytest.raises(ReleaseError):
        read_release(tmp_path)
    with pytest.raises(ReleaseError):
        read_release(path / "inside")


def test_the_folder_of_a_file_adds_no_column(path, tmp_path):
    "Arrow takes such folders for a partition of a data set."
    folder = tmp_path / "year=2020"
    folder.mkdir()
    os.replace(path, folder / "r.parquet")
    assert read_release(folder / "r.parquet").columns == ["a", "b"]


def test_a_mechanism_that_readers_cannot_check_is_not_written(tmp_path):
    class Mine(GaussianMechanism):
        pass

    with pytest.raises(InputError, match="mechanism="):
        Mine((0, 20), mu=1.0).publish(TABLE).to_parquet(tmp_path / "r.parquet")
    assert not any(tmp_path.iterdir())


# ------------------------------------- small files that would unpack to any size


def bomb(path, rows, cells, changes):
    "A file of a release's metadata, and a column that repeats one value `rows` times."
    release = MECHANISMS["table"].publish(TABLE[["a"]])
    release.to_parquet(path)
    metadata = json.loads(pq.read_schema(path).metadata[METADATA_KEY])
    said = {METADATA_KEY: json.dumps(metadata | changes), CHECKSUM_KEY: "0" * 64}
    part = 1 << 20
    value = {pa.float64(): 1.5, pa.string(): "x" * 99}.get(cells, [1.5] * 99)
    block = pa.table({"a": pa.array([value], cells).take([0] * part)})
    schema = block.schema.with_metadata(said)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for done in range(0, rows, part):
            rest = block.slice(0, min(part, rows - done))
            writer.write_table(rest.replace_schema_metadata(said))


READ = """
import resource, sys
from privglasso.publish import files
import pandas, pyarrow.parquet
used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
limit = 3 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = used()
try:
    files.read_release(sys.argv[1])
except files.ReleaseError as error:
    print(used() - before, error, sep=": ")
"""
ROWS = 40_000_000


@pytest.mark.parametrize(
    ("cells", "rows", "changes", "reason"),
    [
        (pa.float64(), ROWS, {}, "the columns and rows"),
        (pa.float64(), ROWS, {"n": ROWS}, "was not read"),
        (pa.float64(), ROWS, {"kind": "synthetic"}, "was not read"),
        (pa.float64(), ROWS, {"kind": "covariance"}, "the columns and rows"),
        (pa.float64(), ROWS, {"kind": ["table"]}, "the columns and rows"),
        (pa.string(), 1 << 20, {"n": 1 << 20}, "the columns and rows"),
        (pa.list_(pa.float64()), 1 << 17, {"n": 1 << 17}, "the columns and rows"),
    ],
)
def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path, cells, rows, changes, reason
):
    "In a process of its own, whose memory is limited: it may need 60 MB at most."
    path = tmp_path / "bomb.parquet"
    bomb(path, rows, cells, changes)
    assert path.stat().st_size < 1 << 20
    command = [sys.executable, "-c", READ, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    megabytes, _, message = told.partition(": ")
    assert reason in message and int(megabytes) < 60, told


def test_what_noise_made_is_packed_nowhere_near_as_tightly(tmp_path):
    "Columns of one number, with hardly any noise on them, are read."
    path = tmp_path / "r.parquet"
    constant = pd.DataFrame(np.zeros((200_000, 3)), columns=list("abc"))
    quiet = DiscreteGaussianMechanism((0, 1), sigma=0.5).publish(constant)
    quiet.to_parquet(path)
    assert 8 * constant.size < 128 * path.stat().st_size
    assert len(read_release(path).table) == len(constant)
