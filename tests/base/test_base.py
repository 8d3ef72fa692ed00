"""Settings, checked input and whole files: what every chapter stands on."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

from privglasso.base.io import claimed, write_whole
from privglasso.base.settings import SettingsError, resource, setting
from privglasso.base.validation import InputError, check_positive, check_probability
from privglasso.base.validation import check_symmetric, check_table

# ---------------------------------------------------------------------- settings

GOOD = "[DEFAULT]\nseed = 3\n[quick]\nlevels = 1, 2\nname = grid\n[full]\nlevels = 5\n"


@pytest.fixture
def settings_file(tmp_path):
    def write(text):
        path = tmp_path / "settings.ini"
        path.write_text(text)
        return path

    return write


def test_kinds_profiles_and_defaults(settings_file):
    path = settings_file(GOOD)
    assert setting("levels", [int], path=path) == [1, 2]
    assert setting("levels", [float], "full", path) == [5.0]
    assert setting("name", str, path=path) == "grid"
    assert setting("seed", int, "full", path) == 3


@pytest.mark.parametrize(
    "key, kind, profile, text, complaint",
    [
        ("absent", int, "quick", GOOD, "'absent' is missing.*quick"),
        ("name", int, "quick", GOOD, "name = 'grid'"),
        ("levels", [int], "quick", GOOD.replace("1, 2", "1, two"), "levels = '1, two'"),
        ("seed", int, "slow", GOOD, "profile='slow'"),
        ("name", str, "full", GOOD, "'name' is missing.*full"),
        ("seed", int, "quick", "seed = 3\n", "cannot be read"),
        ("seed", int, "quick", "[quick]\nseed = 1\nseed = 2\n", "cannot be read"),
    ],
)
def test_bad_settings_are_named(settings_file, key, kind, profile, text, complaint):
    with pytest.raises(SettingsError, match=complaint):
        setting(key, kind, profile, settings_file(text))


def test_a_missing_settings_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match="nowhere.ini"):
        setting("seed", int, path=tmp_path / "nowhere.ini")
    with pytest.raises(SettingsError, match="no/such/resource"):
        resource("no/such/resource")


def test_every_setting_of_the_project_is_in_both_profiles():
    import configparser

    parser = configparser.ConfigParser()
    parser.read(resource("settings.ini"))
    assert set(parser.options("quick")) == set(parser.options("full"))


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()]
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "table.csv"
    write_whole(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"half of the n")
        raise error

    with pytest.raises(type(error)):
        write_whole(path, fail)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["table.csv"]


def test_a_write_to_nowhere_is_an_error(tmp_path):
    with pytest.raises(OSError):
        write_whole(tmp_path / "no folder" / "x", lambda file: None)


# ---------------------------------------------------------------------- input


@pytest.mark.parametrize(
    "X, complaint",
    [
        ([[1.0, np.nan], [2, 3]], "NaN or infinity"),
        ([[1.0, -np.inf], [2, 3]], "NaN or infinity"),
        ([["a", "b"], ["c", "d"]], "not numeric"),
        (np.ones((2, 2), complex), "not numeric"),
        (
            pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
            "'day'.*not numeric",
        ),
        (pd.DataFrame({"kind": pd.Categorical(["u", "v"])}), "'kind'.*not numeric"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), "'a'.*NaN"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "'a'.*distinct"),
        ([[1.0, 2.0]], "at least 2 rows"),
        (np.empty((3, 0)), "1 column"),
        ([1.0, 2.0], "rows and columns"),
        (np.ones((2, 2, 2)), "3 dimensions"),
    ],
)
def test_bad_tables_are_named(X, complaint):
    with pytest.raises(InputError, match=complaint):
        check_table(X)


def test_good_tables_keep_their_names_and_their_owner_keeps_the_table():
    frame = pd.DataFrame(
        {"a": [True, False], "b": pd.array([1, 2], dtype="Int64"), 3: [0.5, 1.5]}
    )
    values, columns = check_table(frame)
    assert (
        columns == ["a", "b", "3"]
        and values.dtype == np.float64
        and values.shape == (2, 3)
    )
    array = np.ones((2, 2))
    values, _ = check_table(array)
    values[0, 0] = 7
    assert array[0, 0] == 1


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "1", None, True, [1]])
def test_positive(value):
    with pytest.raises(InputError, match="sigma="):
        check_positive(value, "sigma")


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.1, np.nan, "half", None])
def test_probability(value):
    with pytest.raises(InputError, match="delta="):
        check_probability(value, "delta")


@pytest.mark.parametrize(
    "S, complaint",
    [
        ([[1, 2], [3, 1]], "symmetric"),
        (np.ones((2, 3)), "square"),
        ([[np.nan]], "finite"),
        ([], "square"),
        ([["a"]], "square numeric"),
    ],
)
def test_symmetric(S, complaint):
    with pytest.raises(InputError, match=complaint):
        check_symmetric(S)


def test_rounding_is_not_asymmetry():
    S = np.array([[1.0, 0.1 + 1e-17], [0.1, 1.0]])
    assert np.array_equal(check_symmetric(S), check_symmetric(S).T)


KILLED = """
import os, signal, sys
from privglasso.base.io import claimed, write_whole
def write(file):
    file.write(b"all of it")
    os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
with claimed(sys.argv[1]):
    write_whole(sys.argv[1], write)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name")
def test_a_killed_writer_leaves_nothing_to_read_and_the_place_is_free(tmp_path):
    path = tmp_path / "r.parquet"
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode == -signal.SIGKILL
    (claim,) = tmp_path.iterdir()
    assert claim.suffix == ".claim" and claim.read_bytes() == b""
    with claimed(path):
        write_whole(path, lambda file: file.write(b"again"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("nameless", [True, False])
def test_writers_of_one_path_do_not_meet(tmp_path, monkeypatch, nameless):
    "Each is whole and one of them is there, with and without files that have no name."
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path, texts = tmp_path / ("n" * 255), [bytes([65 + k]) * 10_000 for k in range(8)]
    threads = [
        threading.Thread(target=write_whole, args=(path, lambda f, t=t: f.write(t)))
        for t in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in texts and list(tmp_path.iterdir()) == [path]
