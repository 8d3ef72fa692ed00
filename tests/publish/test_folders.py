"""A release in parts is whole or not there, whatever dies; its noise is one noise."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

from privglasso.base.validation import InputError
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish import folders
from privglasso.publish.batches import Batches, as_batches, rows_at
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.folders import FolderError, is_begun, parts_for, publish_folder
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import MANIFEST, ReleaseError, part_name, stored_release
from privglasso.publish.shape import UnitsError
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.publish.sources import TableError
from privglasso.recover.estimators import PrivateGraphicalLasso

N = 3000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    "Several parts and blocks of a table that is small."
    monkeypatch.setattr(folders, "_CELLS", 1200)
    monkeypatch.setattr(folders, "_ROWS", 700)


def table(n=N):
    "A chain of three columns about 170."
    values = np.random.default_rng(0).standard_normal((n, 3)).cumsum(axis=1)
    return pd.DataFrame(170 + values, columns=["a", "b", "c"])


BOUNDS = (160, 180)
MECHANISMS = {
    "table": GaussianMechanism(BOUNDS, mu=20.0),
    "cells": GaussianMechanism(BOUNDS, mu=3.0, neighbors="cell"),
    "integers": DiscreteGaussianMechanism(BOUNDS, mu=20.0),
    "synthetic": SyntheticDataMechanism(mu=1.0),
    "longer": SyntheticDataMechanism(BOUNDS, mu=1.0, clipping="box", rows=2 * N),
    "copula": CopulaMechanism(mu=1.0),
}


def seen(folder):
    "What everybody can read of a folder."
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


def hidden(place):
    "What is not meant for everybody."
    return [path for path in place.rglob(".*") if path.suffix != ".lock"]


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_folder_holds_what_a_file_would(name, tmp_path):
    mechanism, held = MECHANISMS[name], table()
    release = publish_folder(mechanism, held, tmp_path / "open", random_state=3)
    alone = mechanism.publish(held, random_state=3)
    assert type(release) is type(alone) and release.guarantee == alone.guarantee
    assert (release.n, release.columns) == (alone.n, alone.columns)
    assert not release.secure and not hidden(tmp_path)
    assert len(list(tmp_path.glob("open/part-*"))) == parts_for(len(alone.table), 3) > 7
    assert release.table.dtypes == list(alone.table.dtypes)
    assert len(release.table) == len(alone.table)
    rows = release.table.to_frame()
    whole = alone.__class__(**vars(release) | {"table": rows})
    for part in (None, ["c", "a"]):
        one, other = (each.select(part) if part else each for each in (release, whole))
        for read in ("corrected_covariance", "sampling_error"):
            left, right = (getattr(each, read)() for each in (one, other))
            if read == "sampling_error":
                left, right = left.covariance_variance(), right.covariance_variance()
            np.testing.assert_allclose(left, right, rtol=1e-9)
        if part and hasattr(whole.select(part), "location"):
            np.testing.assert_allclose(one.location, other.location, rtol=1e-12)
    with pytest.raises(InputError, match="copy the folder"):
        release.to_parquet(tmp_path / "one.parquet")
    assert str(release) and release._repr_html_()


def test_noise_is_the_lattices_own(tmp_path):
    mechanism, held = MECHANISMS["cells"], table(20_000)
    release = publish_folder(mechanism, held, tmp_path / "open", random_state=0)
    noise = rows_at(release.table) - held.to_numpy()
    lattice = mechanism.lattice(3)
    for j, variance in enumerate(lattice.noise_variance + lattice.step**2 / 12):
        ratio = noise[:, j].var() / variance
        assert abs(ratio - 1) < 6 * np.sqrt(2 / len(noise))  # missed once in 5e8
        assert abs(noise[:, j].mean()) < 6 * np.sqrt(variance / len(noise))
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 6 / np.sqrt(len(noise))
    assert len(np.unique(noise[:, 0])) > 1000  # blocks do not repeat one another


def test_records_leave_in_a_secret_order_and_cells_stay(tmp_path):
    held = pd.DataFrame({"a": np.arange(N) % 1000 * 1000.0})
    for neighbors in ("record", "cell"):
        mechanism = GaussianMechanism((0, 1e6), sigma=0.1, neighbors=neighbors)
        release = publish_folder(mechanism, held, tmp_path / neighbors, random_state=0)
        found = np.rint(rows_at(release.table)[:, 0] / 1000) * 1000
        assert sorted(found) == sorted(held.a)
        assert (found == held.a).all() == (neighbors == "cell")
        if neighbors == "record":  # no trace of the old order: 6 deviations
            assert abs(np.corrcoef(found, held.a)[0, 1]) < 6 / np.sqrt(N)
            sizes = [pq.read_metadata(p).num_rows for p in release.table.paths]
            assert len(set(sizes)) > 1 and max(sizes) < 2 * N / len(sizes)


@pytest.mark.parametrize("name", ["table", "cells", "synthetic"])
def test_every_source_gives_the_same_bytes(name, tmp_path):
    held, mechanism = table().round(6), MECHANISMS[name]
    publish_folder(mechanism, held, tmp_path / "memory", random_state=3)
    (tmp_path / "parts").mkdir()
    for k, start in enumerate(range(0, N, 1001)):
        part = held.iloc[start : start + 1001]
        part.to_parquet(tmp_path / f"parts/{k}.parquet", index=False)
    held.to_csv(tmp_path / "t.csv", index=False)
    cells = held.to_numpy()
    pieces = lambda j: (cells[k : k + 77][:, j] for k in range(0, N, 77))
    sources = tmp_path / "parts", tmp_path / "t.csv", Batches(list(held), pieces)
    for k, source in enumerate((*sources, as_batches(held))):
        publish_folder(mechanism, source, tmp_path / f"open{k}", random_state=3)
        assert seen(tmp_path / f"open{k}") == seen(tmp_path / "memory")


def test_a_key_is_used_once(tmp_path):
    made = [
        rows_at(publish_folder(MECHANISMS["cells"], table(), tmp_path / name).table)
        for name in ("one", "two")
    ]
    assert (made[0] == made[1]).mean() < 0.01
    assert read_release(tmp_path / "one").secure


def test_a_model_is_fitted_to_a_folder(tmp_path):
    release = publish_folder(MECHANISMS["synthetic"], table(), tmp_path / "open")
    rows = release.table.to_frame()
    whole = release.__class__(rows, release.covariance_release, release.mechanism)
    found, expected = (
        PrivateGraphicalLasso(0.1).fit(each) for each in (tmp_path / "open", whole)
    )
    np.testing.assert_allclose(found.precision_, expected.precision_, rtol=1e-6)
    np.testing.assert_allclose(found.location_, expected.location_)
    assert abs(found.score(release) - expected.score(rows)) < 1e-9
    assert list(found.feature_names_in_) == list(rows)


# ------------------------------------------------------------------------- deaths

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process")
KILLS = int(os.environ.get("PRIVGLASSO_KILLS", "20"))


def child(action):
    "A process that does this: it ends with 0, or with 1 or 2 if it is refused."
    pid = os.fork()
    if pid:
        return pid
    try:
        action()
    except BudgetError:
        os._exit(1)
    except (InputError, FolderError):
        os._exit(2)
    except BaseException:
        os._exit(3)
    os._exit(0)


def ends(pids):
    "How processes end; minus the signal's number if one was killed."
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def published(place, name, held=None, **words):
    "The publication that dies."
    held = table() if held is None else held
    words = {"random_state": 1, "ledger": place / "ledger.json"} | words
    return publish_folder(MECHANISMS[name], held, place / "open", **words)


def with_ledger(place, mu=25.0):
    place.mkdir()
    Budget.create(place / "ledger.json", Guarantee(mu, "record"))
    return place


def dies_at(call):
    "From here on, this process is killed at the call of such a number to the system."
    calls = itertools.count()
    def counting(real):
        def counted(*arguments, **words):
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            made = real(*arguments, **words)
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return made

        return counted

    for name in ("replace", "link", "unlink", "fsync", "mkdir", "rmdir", "close"):
        setattr(os, name, counting(getattr(os, name)))
    return calls


def check_after_death(place, quiet):
    "Nothing half is readable, and what is readable is the release, without a key."
    folder = place / "open"
    if (folder / MANIFEST).exists():
        assert seen(folder) == quiet and not (place / ".open.secret/key").exists()
    elif folder.exists():
        with pytest.raises(ReleaseError, match="no manifest"):
            read_release(folder)
        assert set(seen(folder).items()) <= set(quiet.items())


@pytest.mark.long
@posix
@pytest.mark.parametrize("name", ["table", "synthetic"])
@pytest.mark.parametrize("when", ["call", "time"])
def test_killed_at_any_time_the_release_is_the_same(name, when, tmp_path):
    """Real kills in several publications: at random times, which depend on the machine,
    and at random calls to the system, that of the rename included. What comes out does
    not depend on them."""
    published(with_ledger(tmp_path / "quiet"), name)
    quiet, rng, kills = seen(tmp_path / "quiet/open"), np.random.default_rng(), 0
    started = time.perf_counter()
    published(with_ledger(tmp_path / "again"), name)
    usual = time.perf_counter() - started

    def action(place, call):
        dies_at(call)
        published(place, name)

    for run in itertools.count():
        place, status = with_ledger(tmp_path / f"{run}"), None
        patience = 1.2 * usual
        while status not in (0, 2):
            call = int(rng.integers(250)) if when == "call" else -1
            victim = child(lambda place=place, call=call: action(place, call))
            if when == "time":
                time.sleep(rng.uniform(0, patience))
                os.kill(victim, signal.SIGKILL)
                patience *= 1.1  # a fork may be slower than its parent was, always
            (status,) = ends([victim])
            kills += status == -signal.SIGKILL
            assert status in (0, 2, -signal.SIGKILL)  # 2: a release is there already
            check_after_death(place, quiet)
        if status == 2:
            with pytest.raises(InputError, match="there already"):
                published(place, name)
        assert seen(place / "open") == quiet and not hidden(place)
        assert len(Budget(place / "ledger.json").table()) == 1
        if kills >= KILLS / 4:
            return


@pytest.mark.long
@posix
def test_killed_at_each_call_around_the_rename(tmp_path):
    "Calls to the system from the last part on, one after the other."
    published(with_ledger(tmp_path / "quiet"), "integers")
    quiet, report = seen(tmp_path / "quiet/open"), tmp_path / "calls"
    place = with_ledger(tmp_path / "counted")

    def counted():
        calls = dies_at(-1)
        published(place, "integers")
        report.write_text(str(next(calls)))

    assert ends([child(counted)]) == [0]
    many = int(report.read_text())
    for call in range(many - 40, many - 2, 40 // min(KILLS, 40)):
        place = with_ledger(tmp_path / f"{call}")

        def action(place=place, call=call):
            dies_at(call)
            published(place, "integers")

        status = ends([child(action)])
        check_after_death(place, quiet)
        if status != [0] and not (place / "open" / MANIFEST).exists():
            published(place, "integers")
        elif (place / ".open.secret").exists():
            with pytest.raises(InputError, match="there already"):
                published(place, "integers")
        assert seen(place / "open") == quiet and not (place / ".open.secret").exists()
        assert len(Budget(place / "ledger.json").table()) == 1


class Killed(BaseException):
    pass


def begun(place, name="table", held=None, after=0, **words):
    "A publication whose process dies after so many parts have their names."
    write, parts = folders.write_part, itertools.count()

    def some(*arguments):
        if next(parts) == after:
            raise Killed
        return write(*arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(folders, "write_part", some)
        published(place, name, held, **words)


@pytest.mark.parametrize("after", [0, 3])
def test_another_table_is_refused_and_the_first_goes_on(after, tmp_path):
    place, other = with_ledger(tmp_path / "s"), table()
    begun(place, after=after)
    before = seen(place / "open")
    assert is_begun(place / "open")
    other.iloc[-1, -1] += 1
    with pytest.raises(FolderError, match="another table.*open.secret"):
        published(place, "table", other)
    for name, words in (("cells", {}), ("table", {"random_state": None})):
        with pytest.raises(FolderError, match="another publication"):
            published(place, name, **words)
    assert seen(place / "open") == before
    release = published(place, "table")
    assert before.items() <= seen(place / "open").items()
    assert release.n == N and not is_begun(place / "open")
    assert len(Budget(place / "ledger.json").table()) == 1


def test_another_table_before_anything_had_a_name_gets_other_noise(tmp_path):
    held = [table(), table()]
    held[1].iloc[0, 0] += 1
    place, noise = with_ledger(tmp_path / "s"), []
    publish = lambda where, held: rows_at(published(where, "cells", held).table)
    rows = publish(with_ledger(tmp_path / "quiet"), held[0])
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(folders._Secret, "keep", keeps_no_code)
        published(place, "cells", held[0])
    noise = publish(place, held[1]) - rows
    assert (noise[:700, 0] != 0).mean() > 0.9  # the block that holds the cell
    assert not noise[700:].any() and not noise[:, 1:].any()


def keeps_no_code(self, name, *words, keep=folders._Secret.keep):
    if name == "table":
        raise Killed
    return keep(self, name, *words)


def test_drawn_rows_go_on_without_the_table(tmp_path):
    "The moments are there: another table, of as many records, is not looked at."
    place = with_ledger(tmp_path / "s")
    published(with_ledger(tmp_path / "quiet"), "synthetic")
    begun(place, "synthetic", after=2)
    published(place, "synthetic", 2 * table())
    assert seen(place / "open") == seen(tmp_path / "quiet/open")


def test_going_on_under_another_label_is_not_paid_again(tmp_path):
    place = with_ledger(tmp_path / "s")
    begun(place, after=2)
    before = Budget(place / "ledger.json").table()
    published(place, "table", label="other")
    assert len(before) == 1 and Budget(place / "ledger.json").table().equals(before)


def test_a_lost_key_ends_a_publication(tmp_path):
    place = with_ledger(tmp_path / "s")
    begun(place, after=2)
    (place / ".open.secret/key").unlink()
    before = seen(place / "open")
    with pytest.raises(FolderError, match="key .* is gone"):
        published(place, "table")
    assert seen(place / "open") == before


def test_secrets_are_the_owners(tmp_path):
    place = with_ledger(tmp_path / "s")
    begun(place)
    secret = place / ".open.secret"
    assert secret.stat().st_mode & 0o077 == 0
    assert all((secret / x).stat().st_mode & 0o077 == 0 for x in ("key", "plan"))


# --------------------------------------------------------------------------- races


@pytest.mark.long
@posix
def test_two_publishers_cannot_spend_what_is_there_once(tmp_path):
    "One wins, and the other leaves nothing; `PRIVGLASSO_KILLS` / 2 races."
    for run in range(max(KILLS // 2, 2)):
        place = with_ledger(tmp_path / f"{run}")  # enough for 20, and no second

        def race(name, place=place):
            words = {"ledger": place / "ledger.json"}
            publish_folder(MECHANISMS["table"], table(), place / name, **words)

        pids = [child(lambda name=name: race(name)) for name in ("one", "two")]
        codes = ends(pids)
        assert sorted(codes) == [0, 1]
        winner, other = ("one", "two") if codes[0] == 0 else ("two", "one")
        assert read_release(place / winner).n == N
        assert not (place / other).exists() and not hidden(place)
        (label,) = Budget(place / "ledger.json").table().label
        assert label.startswith(f"{winner} (folder ")


@posix
def test_two_publishers_of_one_folder(tmp_path):
    for run in range(max(KILLS // 4, 2)):
        place = with_ledger(tmp_path / f"{run}")
        codes = ends([child(lambda p=place: published(p, "table")) for _ in range(3)])
        assert sorted(codes) == [0, 2, 2]
        assert read_release(place / "open").n == N
        assert len(Budget(place / "ledger.json").table()) == 1


# ------------------------------------------------------------------ what is refused


def test_what_does_not_fit_leaves_nothing(tmp_path):
    place = with_ledger(tmp_path / "s", mu=1.0)
    with pytest.raises(BudgetError):
        published(place, "table")
    assert not (place / "open").exists() and not hidden(place)
    constant = table() * 0
    with pytest.raises(UnitsError):
        published(place, "copula", constant)
    assert not (place / "open").exists() and not hidden(place)


@pytest.mark.parametrize(
    "mechanism", [CovarianceMechanism(mu=1.0), LocalMechanism(9.0, mu=1.0)]
)
def test_small_releases_are_files(mechanism, tmp_path):
    with pytest.raises(InputError, match="parquet"):
        publish_folder(mechanism, table(), tmp_path / "open")
    assert not list(tmp_path.iterdir())


def test_places_that_are_taken(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/part-00000.parquet").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("full", "file", "link", "none/open"):
        with pytest.raises(InputError):
            publish_folder(MECHANISMS["table"], table(), tmp_path / name)
    assert (tmp_path / "full/part-00000.parquet").read_text() == "mine"
    held = table()
    held.iloc[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        publish_folder(MECHANISMS["table"], held, tmp_path / "open")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "link"]


@pytest.fixture
def folder(tmp_path):
    "A release, and another one beside it."
    for name in ("open", "other"):
        publish_folder(MECHANISMS["table"], table(), tmp_path / name)
    return tmp_path / "open"


def restated(folder, change):
    "The manifest with a change, and its checksum as a forger would compute it."
    from privglasso.publish.parquet import _text_digest

    stated = json.loads((folder / MANIFEST).read_bytes())
    del stated["sha256"]
    change(stated)
    text = json.dumps(stated | {"sha256": _text_digest(stated)})
    (folder / MANIFEST).write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda stated: stated["release"].update(mu=1.0),
        lambda stated: stated["release"].update(n=N + 1),
        lambda stated: stated["release"].update(columns=["a", "b"]),
        lambda stated: stated["release"].update(kind="kendall"),
        lambda stated: stated["release"].update(kind="synthetic"),
        lambda stated: stated["release"].update(format=99),
        lambda stated: stated["release"].update(mechanism="Other"),
        lambda stated: stated["release"]["lattice"].update(step=[4.0] * 3),
        lambda stated: stated["parts"].pop(),
        lambda stated: stated["parts"].clear(),
        lambda stated: stated["parts"][0].update(rows=1),
        lambda stated: stated["parts"][0].pop("rows"),
        lambda stated: stated["parts"].append({"rows": 1, "sha256": "../x"}),
        lambda stated: stated.update(parts=7),
        lambda stated: stated.update(release=None),
    ],
)
def test_a_manifest_that_contradicts_the_parts(change, folder):
    assert read_release(folder).n == N
    restated(folder, change)
    with pytest.raises(ReleaseError):
        read_release(folder)


def says_the_same(text, other):
    "Whether two texts are the same JSON: a float's last digit may round away."
    try:
        return json.loads(bytes(text)) == json.loads(other)
    except ValueError:
        return False


def test_damage_to_a_manifest(folder):
    whole = (folder / MANIFEST).read_bytes()
    rng = np.random.default_rng()
    for at in rng.integers(len(whole) - 1, size=40):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(rng.integers(7))
        if says_the_same(flipped, whole):
            continue
        (folder / MANIFEST).write_bytes(bytes(flipped))
        with pytest.raises(ReleaseError):
            read_release(folder)
    for text in (b"", b"{}", b"[]", b"null", whole[:-20], whole * 2):
        (folder / MANIFEST).write_bytes(text)
        with pytest.raises(ReleaseError):
            read_release(folder)


def test_parts_of_another_release(folder):
    part = folder / part_name(2)
    part.write_bytes((folder.parent / "other" / part.name).read_bytes())
    with pytest.raises(ReleaseError, match="00002.*not what was written"):
        read_release(folder)
    part.unlink()
    with pytest.raises(ReleaseError, match="00002.*missing"):
        read_release(folder)


def test_a_part_that_is_damaged_after_it_was_looked_at(folder):
    release = read_release(folder)
    part = release.table.paths[1]
    raw = bytearray(part.read_bytes())
    raw[100:200] = bytes(100)
    part.write_bytes(bytes(raw))
    with pytest.raises(ReleaseError, match="00001"):
        release.corrected_covariance()
    part.unlink()
    with pytest.raises(FileNotFoundError):
        release.corrected_covariance()


def test_a_part_is_no_release_and_no_private_table(folder):
    with pytest.raises(ReleaseError, match="read its folder"):
        stored_release(folder / part_name(0))
    for source, told in ((folder, MANIFEST), (folder / "*.parquet", "release already")):
        with pytest.raises(TableError, match=told):
            CovarianceMechanism(mu=1.0).publish(source)


def test_other_files_in_the_folder_are_not_read(folder):
    (folder / "README.md").write_text("what this is")
    (folder / part_name(99)).write_bytes(b"junk")
    assert read_release(folder).n == N


# -------------------------------------------------------------------------- memory

CHILD = """
import sys
from privglasso.base.kernels import buy
from privglasso.publish import folders
from privglasso.publish.table import GaussianMechanism

# not ru_maxrss, which begins with what the process that started this one had
used = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
folders._CELLS = 1 << 18
buy()  # what is compiled takes memory too
for path in sys.argv[1:]:
    mechanism = GaussianMechanism((-4, 4), mu=50.0)
    folders.publish_folder(mechanism, path, path + "-open").corrected_covariance()
    print(used() / 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_table(tmp_path):
    rng, p, paths = np.random.default_rng(0), 10, []
    for parts in (8, 32):  # whatever is read first, some 25 MiB come with it once
        folder = tmp_path / str(parts)
        folder.mkdir()
        frame = pd.DataFrame(rng.normal(size=(1 << 16, p)))
        frame.columns = [f"c{j}" for j in range(p)]
        frame.to_parquet(folder / "0.parquet")
        for k in range(1, parts):  # another name of the same bytes
            os.link(folder / "0.parquet", folder / f"{k}.parquet")
        paths.append(folder)
    command = [sys.executable, "-c", CHILD, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    short, long = map(float, done.stdout.split())
    assert long - short < 24 * (1 << 16) * p * 8 / 2**20 / 2  # MiB more in the cells


def test_few_rows(tmp_path):
    for n in (1, 2, 3):
        held = np.full((n, 1), 5.0)
        if n == 1:
            with pytest.raises(InputError):
                publish_folder(MECHANISMS["table"], held, tmp_path / f"{n}")
            continue
        mechanism = GaussianMechanism((0, 10), mu=norm.ppf(0.9))
        release = publish_folder(mechanism, held, tmp_path / f"{n}")
        assert len(release.table) == n
