"""The container: whole or absent, of a known format, and nothing else of the table."""

import collections
import json
import os
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privglasso.base.validation import InputError
from privglasso.publish import parquet
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import (
    CHECKSUM_KEY,
    FORMAT,
    METADATA_KEY,
    ReleaseError,
    sealed,
    stored_release,
)
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.publish.tree import ThresholdedGraphMechanism, TreeMechanism
from privglasso.publish.whitening import WhitenedCovarianceMechanism

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


@pytest.mark.long
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
# not ru_maxrss, which begins with what the process that started this one had
used = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10
limit = 3 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = used()
for path in sys.argv[1:]:
    try:
        files.read_release(path)
        said = "was read"
    except files.ReleaseError as error:
        said = " ".join(str(error).split())
    print(used() - before, used(), said)
"""


def read_apart(*paths):
    """What a process with a limit says of each file; the most megabytes that it took so
    far, and all."""
    command = [sys.executable, "-c", READ, *map(str, paths)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split(" ", 2) for line in told.splitlines()]
    assert len(lines) == len(paths)
    return [(message, int(taken), int(total)) for taken, total, message in lines]


ROWS = 40_000_000
measured = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


BOMBS = [
    (pa.float64(), ROWS, {}, "the columns and rows"),
    (pa.float64(), ROWS, {"n": ROWS}, "was not read"),
    (pa.float64(), ROWS, {"kind": "synthetic"}, "was not read"),
    (pa.float64(), ROWS, {"kind": "covariance"}, "the columns and rows"),
    (pa.float64(), ROWS, {"kind": ["table"]}, "the columns and rows"),
    (pa.string(), 1 << 20, {"n": 1 << 20}, "the columns and rows"),
    (pa.list_(pa.float64()), 1 << 17, {"n": 1 << 17}, "not a whole"),
]


@pytest.mark.long
@measured
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    "In a process of its own, whose memory is limited: it may need 60 MB at most."
    paths = [tmp_path / f"{k}.parquet" for k in range(len(BOMBS))]
    for path, (cells, rows, changes, _) in zip(paths, BOMBS, strict=True):
        bomb(path, rows, cells, changes)
        assert path.stat().st_size < 1 << 20
    for bombed, told in zip(BOMBS, read_apart(*paths), strict=True):
        assert bombed[-1] in told[0] and told[1] < 60, (bombed, told)


def test_what_noise_made_is_packed_nowhere_near_as_tightly(tmp_path):
    "Columns of one number, with hardly any noise on them, are read."
    path = tmp_path / "r.parquet"
    constant = pd.DataFrame(np.zeros((200_000, 3)), columns=list("abc"))
    quiet = DiscreteGaussianMechanism((0, 1), sigma=0.5).publish(constant)
    quiet.to_parquet(path)
    assert 8 * constant.size < 60 * path.stat().st_size
    assert len(read_release(path).table) == len(constant)


# ------------------------------------------- footers and pages that lie of their size


def integer(value):
    "Seven bits a byte, as Thrift's compact form has it."
    out = bytearray()
    while value > 127:
        value, out = value >> 7, out + bytes([value & 127 | 128])
    return bytes(out + bytes([value]))


def listed(kind, *values):
    "A list of Thrift's compact form."
    return bytes([240 | kind]) + integer(len(values)) + b"".join(values)


def with_footer(path, change):
    "The file at `path`, its footer changed, the numbers before it as they are."
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    footer = change(whole[-8 - length : -8])
    ending = len(footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(whole[: -8 - length] + footer + ending)


@pytest.mark.long
@measured
def test_a_footer_that_says_few_rows_and_has_groups_of_many_is_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    bomb(path, ROWS, pa.float64(), {"n": 4})
    rows = b"\x16" + integer(2 * ROWS) + b"\x19"  # field 3, and the list that follows

    def fewer(footer):
        assert footer.count(rows) == 1
        return footer.replace(rows, b"\x16" + integer(2 * 4) + b"\x19")

    with_footer(path, fewer)
    ((message, megabytes, _),) = read_apart(path)
    assert "not a whole" in message and megabytes < 60


LEAF, NAMELESS = b"\x15\x0a\x25\x00\x18\x00\x00", b"\x00"
ROOT = b"\x35\x00\x18\x06schema\x15\x02\x00"
LONG = b"\x35\x00\x18" + integer(50_000) + b"x" * 50_000 + b"\x15" + integer(200_000)
PAIR, CHUNK = b"\x18\x00\x00", b"\x26\x00\x00"
KEY = b"\x18\x0aprivglasso\x18\x02{}\x00"
GROUP = b"\x19" + listed(12, *[CHUNK] * 30_000) + b"\x16\x00\x16\x00\x00"


def footer_of(schema=(ROOT, LEAF), groups=(), pairs=()):
    "What a footer of these parts is in bytes."
    parts = b"\x19" + listed(12, *schema), b"\x16\x00\x19" + listed(12, *groups)
    return b"\x15\x04" + b"".join(parts) + b"\x19" + listed(12, KEY, *pairs) + b"\0"


FOOTERS = [
    footer_of([ROOT, LONG + b"\x00", *[LEAF] * 100_000]),  # 5 GB of full names
    footer_of([ROOT, *[LEAF] * 180_000]),
    footer_of([ROOT, *[NAMELESS] * 900_000]),
    footer_of(groups=[NAMELESS] * 900_000),
    footer_of(groups=[GROUP] * 14),
    footer_of(pairs=[PAIR] * 430_000),
    footer_of(pairs=[NAMELESS] * 900_000),
    footer_of(pairs=[b"\x18" + integer(1_200_000) + b"x" * 1_200_000 + b"\x00"]),
    footer_of([ROOT, *[b"\x1c\x00\x00"] * 400_000]),
    KEY + b"\x1c" * 1_200_000,
    KEY + b"\x19" * 1_200_000,
    b"\x19\xfc" + b"\xff" * 99 + KEY,
    b"\x19\xf1" + integer(1 << 60) + KEY,
    b"\x19\xf5" + integer((1 << 32) + 2) + KEY,  # a parser reads it as 2
    b"\x05\x02\x00" + KEY,  # a number that does not follow the one before
]


@pytest.mark.long
@measured
def test_a_footer_of_any_length_takes_little_memory(path, tmp_path):
    "All of less than 1.4 MB; an honest process has 200 MB before it reads anything."
    whole, paths = path.read_bytes(), []
    for number, footer in enumerate(FOOTERS):
        paths.append(tmp_path / f"{number}.parquet")
        paths[-1].write_bytes(whole)
        with_footer(paths[-1], lambda _, footer=footer: footer)
        assert paths[-1].stat().st_size < 1_400_000
    for made, (message, _, megabytes) in zip(paths, read_apart(*paths), strict=True):
        assert made.name in message and megabytes < 420, (message, megabytes)


def test_a_list_that_names_another_kind_than_parsers_read_is_refused(path):
    "Arrow reads the list of columns as structs, whatever it says that it holds."

    def other(footer):
        assert footer[2:4] == b"\x19\x3c"
        return footer[:3] + b"\x35" + footer[4:]

    with_footer(path, other)
    assert pq.ParquetFile(path).metadata.num_columns == 2
    with pytest.raises(ReleaseError, match="not a whole"):
        read_release(path)


@pytest.mark.long
def test_what_would_end_the_process_is_refused(path):
    "A histogram too long: asking pyarrow for the column aborts all of Python."
    whole = path.read_bytes()
    for bit in range(8 * len(whole) - 8 * 800, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        with warnings.catch_warnings(action="ignore"):
            try:
                assert len(read_release(path).table) == 4
            except ReleaseError:
                pass


def with_page(path, unpacked, packed):
    "The file at `path`, its first page replaced by one that says these sizes."
    whole = path.read_bytes()
    header, end = parquet._struct(whole, 4)
    old = end - 4 + header[3, 5]
    new = b"\x15\x04\x15" + integer(2 * unpacked) + b"\x15" + integer(2 * len(packed))
    new += b"\x4c\x15\x08\x15\x00\x12\x00\x00" + packed  # four numbers, as they are
    path.write_bytes(whole[:4] + new + whole[4 + old :])
    return len(new) - old


@pytest.mark.long
@measured
def test_a_page_is_asked_for_its_size_before_it_is_unpacked(tmp_path):
    "The footer says 131 bytes, the page unpacks to 600 MB."
    path, size = tmp_path / "r.parquet", 600_000_000
    MECHANISMS["table"].publish(TABLE[["a"]]).to_parquet(path)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    longer = with_page(path, size, bytes(pa.compress(b"\0" * size, codec="zstd")))
    total, at = column.total_compressed_size, column.data_page_offset
    sized, place = b"\x16" + integer(2 * total), b"\x26" + integer(2 * at)

    def moved(footer):
        assert sized + place in footer
        new = b"\x16" + integer(2 * (total + longer)) + b"\x26"
        return footer.replace(sized + place, new + integer(2 * (at + longer)))

    with_footer(path, moved)
    ((message, megabytes, _),) = read_apart(path)
    assert "announce 600000" in message and megabytes < 60, (message, megabytes)


def test_what_is_skimmed_is_what_the_pages_hold(tmp_path):
    "In several groups of rows, with and without a dictionary."
    path = tmp_path / "t.parquet"
    table = pa.table({"a": np.arange(900.0), "b": [1] * 900})
    table = table.replace_schema_metadata({METADATA_KEY: "{}"})
    pq.write_table(table, path, row_group_size=300, use_dictionary=["b"])
    footer = pq.ParquetFile(path).metadata
    said = sum(footer.row_group(k).total_byte_size for k in range(3))
    with open(path, "rb") as file:
        unpacked = parquet._skimmed(file, path.stat().st_size)
    assert 0 < said - unpacked < 9 * 99  # headers: two of each "b", one of each "a"


def test_older_writers_number_the_groups_of_rows(path):
    "pyarrow 17 ends each group with its ordinal, of sixteen bits."
    group = pq.ParquetFile(path).metadata.row_group(0)
    sizes = [group.column(j).total_compressed_size for j in range(group.num_columns)]
    end = b"\x16" + integer(2 * sum(sizes))

    def numbered(footer):
        assert footer.count(end + b"\0") == 1
        return footer.replace(end + b"\0", end + b"\x14\0\0")

    expected = read_release(path).table
    with_footer(path, numbered)
    assert pq.ParquetFile(path).metadata.num_rows == 4
    pd.testing.assert_frame_equal(read_release(path).table, expected)


# -------------------------------------------------- every honest file is read again

SURE = dict(epsilon=5.0, delta=1e-6)
HONEST = MECHANISMS | {
    "rows": CovarianceMechanism(clipping="sphere", mu=2.0),
    "scores": CovarianceMechanism(mu=2.0),
    "whitened": WhitenedCovarianceMechanism(mu=2.0),
    "kendall": KendallMechanism(mu=1.0),
    "quadrant": QuadrantMechanism(0, mu=1.0),
    "tree": TreeMechanism(**SURE),
    "undecided tree": TreeMechanism(epsilon=1e-3, delta=1e-6),
    "graph": ThresholdedGraphMechanism(threshold=0.2, **SURE),
    "synthetic scores": SyntheticDataMechanism(rows=2, mu=2.0),
    "copula": CopulaMechanism(mu=2.0),
    "whole copula": CopulaMechanism(mu=2.0, rows=2, whole=["a", "b", "c"]),
    "hardly noise": DiscreteGaussianMechanism((0, 1), neighbors="cell", sigma=0.2),
}


@pytest.mark.parametrize("kind", HONEST)
def test_every_kind_is_read_and_inspected(kind, tmp_path):
    cells = np.random.default_rng(0).normal(size=(3000, 3)).cumsum(axis=1)
    table = pd.DataFrame(cells.round(), columns=list("abc"))
    release = HONEST[kind].publish(table.astype(int), random_state=4)
    assert ("undecided" in kind) == (len(release._contents()[1]) == 0)
    release.to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert str(back) == str(release) and back.guarantee == release.guarantee
    assert back._contents()[1].equals(release._contents()[1])


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (2, 3000), (1_000_000, 1)])
@pytest.mark.parametrize("sigma", [0.2, 1.5])
def test_tables_of_any_shape_are_read_again(tmp_path, rows, columns, sigma):
    mechanism = DiscreteGaussianMechanism((0, 1), neighbors="cell", sigma=sigma)
    release = mechanism.publish(np.zeros((rows, columns), int), random_state=4)
    release.to_parquet(tmp_path / "r.parquet")
    assert read_release(tmp_path / "r.parquet").table.equals(release.table)


@pytest.mark.parametrize("sigma", [0.001, 0.2, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("room", [0, 1 << 22])
def test_what_a_reader_would_refuse_is_not_written(tmp_path, monkeypatch, sigma, room):
    "With less room than there is, so that 200 000 rows are a lot."
    monkeypatch.setattr(parquet, "_ROOM", room)
    mechanism = DiscreteGaussianMechanism((0, 1), neighbors="cell", sigma=sigma)
    release = mechanism.publish(np.zeros((200_000, 1), int), random_state=4)
    path = tmp_path / "r.parquet"
    release.to_parquet(path)
    assert read_release(path).table.equals(release.table)
    packed = 8 * len(release.table) > 4 * path.stat().st_size
    assert packed == (room > 0 or sigma == 1.0)


@pytest.mark.long
@measured
def test_the_densest_table_of_a_megabyte_takes_its_own_size(tmp_path):
    "It agrees with itself: one cell over and over, and the checksum is right."
    path, rows = tmp_path / "r.parquet", 15_500_000
    MECHANISMS["table"].publish(TABLE[["a"]]).to_parquet(path)
    stored = pq.read_table(path)
    said = json.loads(stored.schema.metadata[METADATA_KEY]) | {"n": rows}
    table = pd.DataFrame({"a": np.full(rows, stored["a"][0].as_py())})
    more = np.random.default_rng(0).bytes(260_000).hex()
    seal = sealed(said, table) | {b"more": more}
    dense = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(dense.replace_schema_metadata(seal), path, compression="zstd")
    assert path.stat().st_size < 1_400_000
    ((message, _, megabytes),) = read_apart(path)
    assert "was read" in message and megabytes < 420, (message, megabytes)


def test_a_missing_whole_number_is_refused_and_what_was_read_may_be_written_to(path):
    "Without a checksum's help: the cell would be whatever stood in memory."
    table = pa.table({"a": pa.array([1, None, 3], pa.int64())})
    pq.write_table(table, path)
    with pytest.raises(ReleaseError, match="damaged"):
        parquet._table(path, pq.ParquetFile(path))
    pq.write_table(pa.table({"a": [1, 2], "b": [0.5, None]}), path)
    read = parquet._table(path, pq.ParquetFile(path))
    assert read["a"].dtype == np.int64 and np.isnan(read.loc[1, "b"])
    read.iloc[0, 1] = 7.0
    assert read["b"].tolist()[0] == 7.0


def test_a_dictionary_is_made_only_of_numbers_that_repeat(tmp_path):
    "Of names with dots, too; and what is read is what was written, to the bit."
    drawn = np.random.default_rng(0).normal(size=(20_000, 1))
    table = pd.DataFrame(np.hstack([drawn, drawn.round(1)]), columns=["a.b", "c.d"])
    for rows, kinds in ((20_000, (False, True)), (4096, (True, True))):
        path = tmp_path / f"{rows}.parquet"
        with open(path, "wb") as file:
            parquet._written(pa.Table.from_pandas(table[:rows]), file)
        group = pq.read_metadata(path).row_group(0)
        found = [group.column(j).has_dictionary_page for j in range(2)]
        assert tuple(found) == kinds
        assert pq.read_table(path).to_pandas().equals(table[:rows])


# ------------------------------------------------------------------- one triangle


def square_release(p=300, n=1000):
    "A covariance of many columns, whose numbers hardly pack."
    table = np.random.default_rng(0).normal(size=(n, p))
    return CovarianceMechanism((-4, 4), mu=1.0, clipping="box").publish(table, 1)


def test_one_triangle_is_written_and_both_are_read(tmp_path):
    release, path = square_release(), tmp_path / "r.parquet"
    release.to_parquet(path)
    held = pq.read_table(path).to_pandas().to_numpy()
    assert not np.tril(held, -1).any() and held[np.triu_indices(300)].all()
    found = read_release(path).second_moment
    assert (found == release.second_moment).all() and found.flags.c_contiguous


def test_numbers_below_the_diagonal_are_refused(tmp_path):
    "Both triangles, a single number, and the other triangle; sealed as they are."
    release, path = square_release(), tmp_path / "r.parquet"
    release.to_parquet(path)
    few, stored = path.stat().st_size, pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])

    def written(cells):
        frame = pd.DataFrame(cells, columns=release.columns)
        whole = pa.Table.from_pandas(frame, preserve_index=False)
        whole = whole.replace_schema_metadata(sealed(metadata, frame))
        pq.write_table(whole, path, compression="zstd")

    upper = np.triu(release.second_moment)
    written(upper)
    assert (read_release(path).second_moment == release.second_moment).all()
    written(release.second_moment)
    assert path.stat().st_size > 1.6 * few
    one = upper.copy()
    one[-1, 0] = 1
    for cells in (release.second_moment, upper.T, one):
        written(cells)
        with pytest.raises(ReleaseError, match="numbers below"):
            read_release(path)


@pytest.mark.parametrize("names", [["a", "a.b", "c"], ["x", "y", "x.y.z"]])
def test_names_with_points_are_names(names, tmp_path, monkeypatch):
    "Parquet takes a point for a path: columns are read by their names all the same."
    monkeypatch.setattr(parquet, "_AT_ONCE", 1)
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=names)
    release = CovarianceMechanism((-4, 4), mu=1.0, clipping="box").publish(table, 1)
    release.to_parquet(tmp_path / "r.parquet")
    found = read_release(tmp_path / "r.parquet")
    assert (found.second_moment == release.second_moment).all()
    assert found.columns == names


@pytest.mark.long
def test_writing_and_reading_need_no_second_matrix(tmp_path):
    "Arrow's room included."
    release, path = square_release(1500, 200), tmp_path / "r.parquet"
    release.to_parquet(path)
    read_release(path)  # libraries are loaded
    size, pool = release.second_moment.nbytes, pa.default_memory_pool()
    tracemalloc.start()
    try:
        before = pool.bytes_allocated()
        release.to_parquet(path, replace=True)
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        found = read_release(path)
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written < 0.4 * size and read < 1.4 * size, (written / size, read / size)
    assert pool.bytes_allocated() <= before + size // 8
    assert (found.second_moment == release.second_moment).all()


def test_the_file_is_that_of_the_whole_table(tmp_path):
    "Columns in two pieces are stored, and sealed, as the same columns in one."
    release, path = square_release(), tmp_path / "r.parquet"
    release.to_parquet(path)
    stored = pq.read_table(path)
    upper = pd.DataFrame(np.triu(release.second_moment), columns=release.columns)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])
    assert stored.schema.metadata[CHECKSUM_KEY] == sealed(metadata, upper)[CHECKSUM_KEY]
    whole = pa.Table.from_pandas(upper, preserve_index=False)
    whole = whole.replace_schema_metadata(stored.schema.metadata)
    with open(tmp_path / "w.parquet", "wb") as file:
        parquet._written(whole, file)
    assert (tmp_path / "w.parquet").read_bytes() == path.read_bytes()
