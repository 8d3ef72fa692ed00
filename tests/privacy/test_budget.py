"""Budgets: damaged files, races, kills, full disks, and what must hold for every
release.
"""

import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.privacy import budget as budgets
from privglasso.privacy.budget import Budget, BudgetBook, BudgetError, BudgetFileError
from privglasso.privacy.budget import ChargedError
from privglasso.publish.files import read_release
from privglasso.papers.thresholding import ZeroOutGuarantee
from privglasso.privacy.guarantee import Guarantee, NoGuarantee
from privglasso.publish.table import GaussianMechanism
from privglasso.base.validation import InputError

ROOT = Path(__file__).resolve().parents[2]
TABLE = pd.DataFrame(
    np.random.default_rng(0).uniform(0, 10, size=(30, 3)), columns=list("abc")
)
MECHANISM = GaussianMechanism((0, 10), mu=0.5)


def record(mu):
    "A promise about a record."
    return Guarantee(mu, "record")


def cell(mu):
    "A promise about a cell."
    return Guarantee(mu, "cell")


@pytest.fixture
def budget(tmp_path):
    "A budget of mu = 1 about a record."
    return Budget.create(tmp_path / "budget.json", record(1.0))


# ---------------------------------------------------------------------------- spending


def test_an_empty_budget_has_everything_left(budget):
    assert budget.spent().mu == 0 and budget.left() == record(1.0) == budget.limit()
    assert budget.remaining(1e-5) == record(1.0).epsilon(1e-5)
    assert budget.table().empty and list(budget.table().columns) == [
        "label",
        "time",
        "mechanism",
        "mu record",
    ]


def test_who_may_only_read_sees_the_same(budget):
    book = BudgetBook(budget.path)
    budget.spend(record(0.6), label="first")
    assert str(book) == str(budget) and repr(book) == "BudgetBook('budget.json')"
    assert book.left() == budget.left() and book.table().equals(budget.table())
    assert (
        not book.allows(record(0.9))
        and not hasattr(book, "spend")
        and not hasattr(book, "publish")
    )


def test_spending_is_written_down(budget):
    budget.spend(record(0.6), label="first", mechanism="M")
    reopened = Budget(budget.path)
    (row,) = reopened.table().to_dict("records")
    assert (row["label"], row["mechanism"], row["mu record"]) == ("first", "M", 0.6)
    assert pd.Timestamp(row["time"]).tzinfo is not None
    assert reopened.left().mu == pytest.approx(
        0.8
    ) and reopened.spent().mu == pytest.approx(0.6)


@given(shares=st.lists(st.floats(1e-6, 2.0), min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_whatever_is_asked_the_limit_holds_and_what_is_left_fits(shares):
    state = {"limits": {"record": 1.0}, "spent": []}
    for mu in shares:
        try:
            charges = budgets._charges(state, [record(mu)], None)
            state["spent"].append(budgets._costs(charges))
        except BudgetError as refusal:
            assert (
                math.fsum(
                    [*(entry["mu"]["record"] ** 2 for entry in state["spent"]), mu**2]
                )
                > 1
            )
            assert (
                refusal.left.mu == budgets._left(state, "record").mu
                and refusal.mu == mu
            )
    assert (
        math.fsum(entry["mu"]["record"] ** 2 for entry in state["spent"]) <= 1 + 1e-12
    )
    budgets._charges(state, [record(budgets._left(state, "record").mu)], None)


def test_a_refusal_says_what_would_fit_and_it_does(budget):
    budget.spend(record(0.6), label="first")
    with pytest.raises(
        BudgetError, match=r"μ = 0.9 about one record does not fit: μ = 0\.8 is left"
    ) as refusal:
        budget.spend(record(0.9), label="second")
    assert len(budget.table()) == 1
    budget.spend(refusal.value.left, label="second")
    with pytest.raises(BudgetError, match="nothing is left"):
        budget.spend(record(0.1), label="third")


def test_an_epsilon_where_only_mu_counts_is_said_to_be_dear(tmp_path):
    budget = Budget.create(tmp_path / "b.json", Guarantee(0.5, "record", failure=1e-6))
    with pytest.raises(BudgetError, match=r"ε is charged as a μ .* costs less"):
        budget.spend(Guarantee(0.0, "record", failure=1e-9, pure=1.0), label="tree")
    with pytest.raises(BudgetError) as refusal:
        budget.spend(Guarantee(0.6, "record"), label="covariance")
    assert "charged as" not in str(refusal.value)
    budget.spend(Guarantee(0.2, "record", failure=1e-9), label="tree")


def test_a_budget_is_not_overdrawn_by_a_little(budget):
    budget.spend(record(0.8), label="first")
    with pytest.raises(BudgetError):
        budget.spend(record(0.6 + 1e-9), label="a hair too much")
    budget.spend(record(0.6), label="all that is left")


def test_allows_spends_nothing(budget):
    before = budget.path.read_bytes()
    assert budget.allows(record(1.0)) and not budget.allows(record(1.1))
    assert budget.path.read_bytes() == before


def test_relations_are_charged_for_each_other(tmp_path):
    both = Budget.create(tmp_path / "b.json", record(3.0), cell(1.0))
    both.spend(record(0.5), label="covers its cells too")
    assert both.spent("cell").mu == 0.5 and both.spent("record").mu == 0.5
    both.spend(cell(0.5), columns=4, label="a record of four cells")
    assert both.spent("record").mu == pytest.approx(math.hypot(0.5, 2.0))
    with pytest.raises(BudgetError, match="about one cell"):
        both.spend(record(0.9), label="fits a record, not a cell")
    with pytest.raises(InputError, match="record.*cell"):
        both.left()


def test_a_table_that_hides_cells_is_charged_its_own_record(tmp_path):
    both = Budget.create(tmp_path / "b.json", record(10.0), cell(1.0))
    mechanism = GaussianMechanism((0, 10), neighbors="cell", mu=0.5)
    both.publish(mechanism, TABLE, tmp_path / "r.parquet", label="cells")
    assert both.spent("record").mu == pytest.approx(
        mechanism.lattice(3).guarantee("record").mu
    )
    assert both.spent("record").mu < 3 * 0.5


def test_what_is_no_promise_cannot_be_entered(budget):
    for promise in [NoGuarantee("sigma from the data", record(1.0)), None, 1.0]:
        with pytest.raises(InputError, match="promises"):
            budget.spend(promise, label="x")
        assert budget.table().empty


def test_a_promise_about_something_else_cannot_be_entered(tmp_path):
    """A row set to a public centre is less of a change than a replaced row, or even a
    replaced cell of one."""
    both = Budget.create(tmp_path / "b.json", record(3.0), cell(1.0))
    with pytest.raises(InputError, match="about a record or a cell"):
        both.spend(ZeroOutGuarantee(0.1, "zero-out"), label="x", columns=2)
    assert both.table().empty


@pytest.mark.parametrize("words", ["a\x1b[2Jb", "a\nb", "a\u202eb", "a\x00", "\ud800"])
def test_words_that_would_steer_a_terminal_are_refused(budget, words):
    for told in ({"label": words}, {"label": "x", "mechanism": words}):
        with pytest.raises(InputError, match="control characters") as refusal:
            budget.spend(record(0.1), **told)
        assert words not in str(refusal.value)
    assert budget.table().empty


def test_a_spending_needs_a_label(budget):
    for label in ["", "  ", None, 3]:
        with pytest.raises(InputError, match="label"):
            budget.spend(record(0.1), label=label)


def test_no_promise_at_all_is_refused(budget):
    with pytest.raises(InputError, match="promises"):
        budget.spend(label="x")
    with pytest.raises(InputError, match="promises"):
        budget.allows()


def test_columns_must_be_said(budget):
    with pytest.raises(InputError, match="columns"):
        budget.spend(cell(0.1), label="x")
    with pytest.raises(InputError, match="columns"):
        budget.spend(cell(0.1), label="x", columns=0)


IMPOSSIBLE = [record(0.0), 1.0, NoGuarantee("why", record(1.0))]


def test_impossible_limits_are_refused(tmp_path):
    for limits in [
        (),
        *((limit,) for limit in IMPOSSIBLE),
        (record(1.0), record(2.0)),
        (record(1.0), 1.0),
        (ZeroOutGuarantee(1.0, "zero-out"),),
    ]:
        with pytest.raises(InputError, match="limits"):
            Budget.create(tmp_path / "b.json", *limits)
        assert not (tmp_path / "b.json").exists()


def test_a_relation_that_the_budget_does_not_have(budget):
    with pytest.raises(
        InputError, match="neighbors='cell': this budget is about: record"
    ):
        budget.left("cell")


# -------------------------------------------------------------------------- publishing


def test_publishing_spends_and_writes(budget, tmp_path):
    release = budget.publish(MECHANISM, TABLE, tmp_path / "r.parquet", label="wave")
    assert (
        read_release(tmp_path / "r.parquet").table.equals(release.table)
        and release.secure
    )
    assert budget.table()["mechanism"].tolist() == ["GaussianMechanism"]
    assert budget.spent().mu == pytest.approx(release.guarantee.mu)


def test_refused_is_not_published(budget, tmp_path):
    budget.spend(record(0.9), label="first")
    with pytest.raises(BudgetError):
        budget.publish(MECHANISM, TABLE, tmp_path / "r.parquet", label="second")
    assert not (tmp_path / "r.parquet").exists() and len(budget.table()) == 1


def test_input_is_checked_before_spending(budget, tmp_path):
    bad = TABLE.assign(a=np.nan)
    path, narrow = tmp_path / "r.parquet", GaussianMechanism(([0, 0], [1, 1]), mu=0.1)
    for arguments in (
        (MECHANISM, bad, path),
        (MECHANISM, TABLE, tmp_path / "no" / "r.parquet"),
        (MECHANISM, TABLE, budget.path),
        (narrow, TABLE, path),
    ):
        with pytest.raises(InputError):
            budget.publish(*arguments, label="x")
    assert budget.table().empty


class Failing(GaussianMechanism):
    "A mechanism that fails where it matters."

    def publish(self, X, random_state=None):
        raise RuntimeError("power cut")


def test_a_mechanism_that_fails_has_spent(budget, tmp_path):
    with pytest.raises(ChargedError, match="WAS CHARGED for 'wave'"):
        budget.publish(
            Failing((0, 10), mu=0.5), TABLE, tmp_path / "r.parquet", label="wave"
        )
    assert (
        budget.spent().mu == pytest.approx(0.5, rel=1e-6)
        and not (tmp_path / "r.parquet").exists()
    )


def test_a_release_that_cannot_be_written_has_spent(budget, tmp_path, monkeypatch):
    from privglasso.publish import parquet as release

    def full(path, write, replace):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(release, "write_whole", full)
    with pytest.raises(ChargedError, match="No space"):
        budget.publish(MECHANISM, TABLE, tmp_path / "r.parquet", label="wave")
    assert len(budget.table()) == 1 and not (tmp_path / "r.parquet").exists()


def test_an_interrupt_says_that_the_budget_was_charged(budget, tmp_path, monkeypatch):
    release, stopped = GaussianMechanism._release, []

    def stop(*arguments):
        if stopped:  # the second time when the noise is drawn
            release(*arguments)
        stopped.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(GaussianMechanism, "_release", stop)
    words = MECHANISM, TABLE, tmp_path / "r.parquet"
    with pytest.raises(KeyboardInterrupt) as before:
        budget.publish(*words, label="wave")
    assert "CHARGED" not in str(before.value) and budget.table().empty
    with pytest.raises(KeyboardInterrupt, match="WAS CHARGED"):
        budget.publish(*words, label="wave")
    assert len(budget.table()) == 1 and list(tmp_path.glob(".*.claim")) == []


def test_a_failure_after_the_entry_is_on_the_disk_says_so(budget, monkeypatch):
    def fail(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(budgets, "write_whole", write_to)
    monkeypatch.setattr(budgets.os, "fsync", fail)
    with pytest.raises(ChargedError, match="Input/output error"):
        budget.spend(record(0.5), label="x")
    monkeypatch.undo()
    assert len(budget.table()) == 1


def write_to(path, write, part):
    "Writes without asking the disk to keep it."
    with path.open("wb") as file:
        write(file)


def test_what_cannot_be_written_or_published_costs_nothing(budget, tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("n" * 256, "é" * 130 + ".parquet", "a\0b", "dangling", "no/r.parquet"):
        with pytest.raises(InputError, match="path"):
            budget.publish(MECHANISM, TABLE, tmp_path / name, label="x")
    assert budget.table().empty and list(tmp_path.glob("*.parquet")) == []
    budget.publish(MECHANISM, TABLE, tmp_path / ("n" * 255), label="the longest name")
    with pytest.raises(InputError, match="shorter name"):
        Budget.create(tmp_path / ("b" * 252), record(1.0))


def test_a_budget_with_two_names_is_not_spent_from(budget, tmp_path):
    "Each name would keep a count of its own: the limit could be spent twice."
    twin = tmp_path / "twin.json"
    os.link(budget.path, twin)
    for name in (budget.path, twin):
        with pytest.raises(BudgetFileError, match="hard link.*nothing was spent"):
            Budget(name).spend(record(0.8), label="x")
    assert budget.left() == record(1.0) == Budget(twin).left()
    twin.unlink()
    budget.spend(record(0.8), label="x")


def test_of_two_threads_that_want_one_path_one_wins(tmp_path):
    budgets_ = [Budget.create(tmp_path / f"{k}.json", record(1.0)) for k in range(6)]
    barrier, ends = threading.Barrier(6), []

    def publish(budget):
        barrier.wait()
        try:
            budget.publish(MECHANISM, TABLE, tmp_path / "r.parquet", label="x")
            ends.append("won")
        except InputError as error:
            ends.append(error.argument)

    threads = [threading.Thread(target=publish, args=(b,)) for b in budgets_]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["path"] * 5 + ["won"]
    assert sum(len(b.table()) for b in budgets_) == 1
    assert read_release(tmp_path / "r.parquet").n == len(TABLE)


def test_several_releases_are_composed_and_a_tuple_is_one(tmp_path):
    both = Budget.create(tmp_path / "b.json", record(3.0), cell(3.0))
    both.spend(record(0.9), record(0.3), label="two releases")
    assert both.spent("record").mu == pytest.approx(math.hypot(0.9, 0.3))
    assert not both.allows(record(2.5), record(2.5))
    before = both.spent("record").mu
    both.spend((record(0.5), cell(0.4)), record(0.1), columns=3, label="one, and one")
    assert both.spent("record").mu == pytest.approx(math.hypot(before, 0.5, 0.1))
    assert both.spent("cell").mu == pytest.approx(math.hypot(before, 0.4, 0.1))
    for nothing in ((), ((),)):
        with pytest.raises(InputError, match="promises"):
            both.allows(*nothing)


def test_numbers_of_any_size_are_compared(tmp_path):
    tiny = Budget.create(tmp_path / "t.json", record(1e-200))
    assert not tiny.allows(record(1e-180)) and tiny.allows(record(1e-200))
    large = Budget.create(tmp_path / "l.json", record(1e100))
    large.spend(record(1e100), label="all")
    assert not large.allows(record(1e95)) and large.left().mu == 0
    assert not large.allows(cell(1e90), columns=10**400)
    large.path.write_text(with_changes(spent=[ENTRY | {"mu": {"record": 1e200}}]))
    with pytest.raises(BudgetFileError, match="spending 1 is damaged"):
        large.left()


# ------------------------------------------------------------------------------- files


def with_changes(**changes):
    "Contents of a good file, changed."
    good = {
        "file": "privglasso privacy budget",
        "format": 1,
        "limits": {"record": 1.0},
        "spent": [
            {
                "label": "a",
                "time": "2026-01-01T00:00:00+00:00",
                "mechanism": "",
                "mu": {"record": 0.5},
            }
        ],
    }
    return json.dumps(good | changes)


ENTRY = {"label": "a", "time": "t", "mechanism": "", "mu": {"record": 0.5}}
DAMAGED = {
    "empty": "",
    "cut": with_changes()[:80],
    "a list": "[]",
    "a number": "3",
    "another file": '{"hello": 1}',
    "another format": with_changes(format=2),
    "no limits": with_changes(limits={}),
    "limits in a list": with_changes(limits=[1]),
    "a strange relation": with_changes(limits={"household": 1.0}),
    "a limit of NaN": with_changes(limits={"record": math.nan}),
    "a limit of infinity": with_changes(limits={"record": math.inf}),
    "a limit of nothing": with_changes(limits={"record": 0}),
    "a limit in words": with_changes(limits={"record": "1"}),
    "a limit that is true": with_changes(limits={"record": True}),
    "no spendings": with_changes(spent=None),
    "a spending that is no spending": with_changes(spent=[3]),
    "a spending without a label": with_changes(
        spent=[{k: v for k, v in ENTRY.items() if k != "label"}]
    ),
    "a label that steers a terminal": with_changes(
        spent=[ENTRY | {"label": "a\x1b[2J"}]
    ),
    "a mechanism that steers a terminal": with_changes(
        spent=[ENTRY | {"mechanism": "a\x1b[2J"}]
    ),
    "a spending without mu": with_changes(
        spent=[{k: v for k, v in ENTRY.items() if k != "mu"}]
    ),
    "a spending of NaN": with_changes(spent=[ENTRY | {"mu": {"record": math.nan}}]),
    "a negative spending": with_changes(spent=[ENTRY | {"mu": {"record": -0.5}}]),
    "a spending in words": with_changes(spent=[ENTRY | {"mu": {"record": "0.5"}}]),
    "a spending about something else": with_changes(
        spent=[ENTRY | {"mu": {"cell": 0.5}}]
    ),
    "nested too deeply": "[" * 100_000,
    "a limit beyond all numbers": with_changes().replace("1.0", "9" * 400),
    "two lists of spendings": with_changes()[:-1] + ', "spent": []}',
}


def check_a_damaged_or_foreign_file_is_refused_and_left_alone(tmp_path, name):
    path = tmp_path / "b.json"
    path.write_text(with_changes(), encoding="utf-8")
    budget = Budget(path)
    path.write_text(DAMAGED[name], encoding="utf-8")
    for use in (
        lambda: Budget(path),
        lambda: budget.spend(record(0.1), label="x"),
        lambda: budget.left(),
        lambda: budget.publish(MECHANISM, TABLE, tmp_path / "r.parquet", label="x"),
        lambda: str(budget),
    ):
        with pytest.raises(
            BudgetFileError, match="b.json.*(fetch it back|mend)"
        ) as told:
            use()
        assert "\x1b" not in str(told.value)
    assert (
        path.read_text(encoding="utf-8") == DAMAGED[name]
        and not (tmp_path / "r.parquet").exists()
    )


def test_a_damaged_or_foreign_file_is_refused_and_left_alone(tmp_path):
    for name in DAMAGED:
        check_a_damaged_or_foreign_file_is_refused_and_left_alone(tmp_path, name)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00budget")
    with pytest.raises(BudgetFileError, match="damaged"):
        Budget(tmp_path / "b.json")


def test_a_missing_file_is_not_a_fresh_budget(budget):
    budget.path.unlink()
    with pytest.raises(BudgetFileError, match="no such file.*already published"):
        budget.spend(record(0.1), label="x")
    assert not budget.path.exists()


def test_nothing_is_overwritten_by_creating(budget):
    before = budget.path.read_bytes()
    with pytest.raises(InputError, match="there is a file already"):
        Budget.create(budget.path, record(5.0))
    assert budget.path.read_bytes() == before


def test_a_mended_file_counts(budget):
    budget.spend(record(0.5), label="a mistake")
    state = json.loads(budget.path.read_text(encoding="utf-8"))
    budget.path.write_text(json.dumps(state | {"spent": []}), encoding="utf-8")
    assert budget.left().mu == 1.0


def test_a_limit_below_what_is_spent_leaves_nothing(tmp_path):
    (tmp_path / "b.json").write_text(
        with_changes(limits={"record": 0.1}), encoding="utf-8"
    )
    budget = Budget(tmp_path / "b.json")
    assert (
        budget.left().mu == 0
        and budget.remaining(1e-6) == 0
        and not budget.allows(record(1e-9))
    )
    assert "μ = 0" in str(budget)


def test_two_names_are_one_budget(budget, tmp_path):
    (tmp_path / "link.json").symlink_to(budget.path)
    link = Budget(tmp_path / "link.json")
    link.spend(record(0.8), label="by the other name")
    assert (
        budget.left().mu == pytest.approx(0.6) and (tmp_path / "link.json").is_symlink()
    )


# -------------------------------------------------------------------------------- time


def test_a_clock_that_goes_backwards_forgets_nothing(budget, monkeypatch):
    for time in (
        "2026-05-01T00:00:00+00:00",
        "1970-01-01T00:00:00+00:00",
        "2026-04-01T00:00:00+00:00",
    ):
        monkeypatch.setattr(budgets, "_now", lambda time=time: time)
        budget.spend(record(0.5), label=time)
    assert budget.table()["label"].tolist() == budget.table()["time"].tolist()
    assert budget.spent().mu == pytest.approx(math.sqrt(0.75))
    assert not budget.allows(record(0.51))


# --------------------------------------------------------------- faults of the machine


def run(code, *arguments, **options):
    "A real process that runs code with the package."
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        **options,
    )


RACE = """
import sys
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.privacy.guarantee import Guarantee
budget, won = Budget(sys.argv[1]), 0
print("ready", flush=True); sys.stdin.readline()
for k in range(40):
    try:
        budget.spend(Guarantee(0.2, "record"), label=f"{sys.argv[2]} {k}")
        won += 1
    except BudgetError:
        pass
print(won)
"""


@pytest.mark.long
def test_two_processes_race_and_never_overspend(budget):
    racers = [run(RACE, budget.path, name, stdin=subprocess.PIPE) for name in "ab"]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sum(won) == 25 == len(budget.table()) and not budget.allows(record(0.05))
    labels = budget.table()["label"]
    assert [
        labels.str.startswith(name).sum() for name in "ab"
    ] == won and labels.is_unique


def test_threads_wait_for_each_other(budget):
    won = []

    def spend():
        for k in range(15):
            try:
                budget.spend(record(0.25), label=f"{threading.get_ident()} {k}")
                won.append(1)
            except BudgetError:
                pass

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 16 == len(budget.table())


KILLED_PUBLISHING = """
import os, signal, sys
import pandas as pd
from privglasso.privacy.budget import Budget
from privglasso.publish.table import GaussianMechanism
class Dying(GaussianMechanism):
    def publish(self, X, random_state=None):
        os.kill(os.getpid(), signal.SIGKILL)
table = pd.DataFrame({"a": [1.0, 2.0]})
Budget(sys.argv[1]).publish(Dying((0, 10), mu=0.6), table, sys.argv[2], label="killed")
"""

KILLED_WRITING = """
import os, signal, sys
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
os.replace = lambda old, new: os.kill(os.getpid(), signal.SIGKILL)
Budget(sys.argv[1]).spend(Guarantee(0.6, "record"), label="killed")
"""


def test_a_kill_while_publishing_leaves_it_spent(budget, tmp_path):
    victim = run(KILLED_PUBLISHING, budget.path, tmp_path / "r.parquet")
    victim.communicate(timeout=60)
    assert victim.returncode == -signal.SIGKILL
    assert (
        budget.table()["label"].tolist() == ["killed"]
        and not (tmp_path / "r.parquet").exists()
    )
    budget.spend(record(0.5), label="the lock is free")


def test_a_kill_while_writing_leaves_the_old_file_and_no_lock(budget):
    victim = run(KILLED_WRITING, budget.path)
    victim.communicate(timeout=60)
    assert victim.returncode == -signal.SIGKILL
    assert budget.table().empty and len(list(budget.path.parent.glob(".*.part"))) == 1
    (other := budget.path.parent / ".budget.json.99.part").touch()  # somebody else's
    budget.spend(record(0.5), label="the lock is free")
    assert len(budget.table()) == 1
    assert list(budget.path.parent.glob(".*.part")) == [other]


def test_a_full_disk_leaves_the_old_file_and_publishes_nothing(budget, tmp_path):
    budget.spend(record(0.1), label="before")
    before, limits = budget.path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (100, limits[1])
    )  # the system itself refuses to write more
    try:
        with pytest.raises(OSError, match="File too large"):
            budget.publish(MECHANISM, TABLE, tmp_path / "r.parquet", label="x" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert budget.path.read_bytes() == before and not (tmp_path / "r.parquet").exists()
    assert list(tmp_path.glob(".*.part")) == []
    budget.spend(record(0.1), label="after")


def as_somebody_else(action):
    """What a forked process exits with after an action; nothing is read-only for root,
    so it becomes nobody."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            os._exit(action())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def spend_in_a_read_only_folder(path):
    "0 if the budget can be read, and spending is refused by the system."
    budget = Budget(path)
    if budget.left().mu != 1 or not budget.allows(record(0.5)):
        return 1
    try:
        budget.spend(record(0.5), label="x")
    except PermissionError:
        return 0
    return 2


@pytest.mark.skipif(
    os.name != "posix", reason="permissions of folders are those of POSIX"
)
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
def test_a_read_only_folder_can_be_read_and_nothing_is_spent():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        budget = Budget.create(folder / "b.json", record(1.0))
        (folder / ".b.json.lock").unlink(missing_ok=True)
        folder.chmod(0o555)
        try:
            assert (
                as_somebody_else(lambda: spend_in_a_read_only_folder(budget.path)) == 0
            )
        finally:
            folder.chmod(0o755)
        assert budget.table().empty


def test_somebody_who_never_lets_go_is_named(budget, monkeypatch):
    monkeypatch.setattr(budgets, "_PATIENCE", 0.1)
    with FileLock(budget.path.with_name(f".{budget.path.name}.lock")):
        with pytest.raises(BudgetFileError, match="in use by another process"):
            budget.spend(record(0.5), label="x")
        assert budget.left().mu == 1.0  # reading needs no lock
    budget.spend(record(0.5), label="x")


@given(st.lists(st.floats(0, 0.6), min_size=1, max_size=12), st.floats(1e-12, 0.9))
@settings(max_examples=60, deadline=None)
def test_failures_keep_their_limit_too_and_what_is_left_fits(failures, limit):
    state = {"limits": {"record": 1.0}, "failure": {"record": limit}, "spent": []}
    for failure in failures:
        promise = Guarantee(0.0, "record", failure=failure)
        try:
            charges = budgets._charges(state, [promise], None)
            state["spent"].append(budgets._costs(charges))
        except BudgetError as refusal:
            assert refusal.failure == failure > refusal.left.failure
    spent = [Fraction(e.get("failure", {}).get("record", 0)) for e in state["spent"]]
    kept = math.prod(1 - failure for failure in spent)
    assert 1 - kept <= Fraction(limit) * (1 + Fraction(1, 10**14))
    left = Guarantee(0.0, "record", failure=budgets._left(state, "record").failure)
    budgets._charges(state, [left], None)


def test_failures_of_two_releases_add_up_before_they_are_entered(tmp_path):
    book = Budget.create(tmp_path / "b.json", Guarantee(1.0, "record", failure=0.1))
    two = lambda failure: [Guarantee(0.1, "record", failure=failure)] * 2
    assert book.allows(*two(0.05)) and not book.allows(*two(0.055))  # .0975 and .107
    with pytest.raises(BudgetError):
        book.spend(*two(0.055), label="two at once")
    book.spend(*two(0.05), label="two at once")
    assert not book.allows(Guarantee(0.1, "record", failure=0.003))
    assert book.allows(Guarantee(0.1, "record", failure=0.0025))


def test_a_failure_needs_a_limit_of_its_own(budget, tmp_path):
    failing = Guarantee(0.1, "record", failure=1e-9)
    with pytest.raises(BudgetError, match="failure of 1e-09"):
        budget.spend(failing, label="a graph")
    assert len(budget.table()) == 0
    both = Budget.create(
        tmp_path / "failing.json",
        Guarantee(1.0, "record", failure=1e-6),
        Guarantee(1.0, "cell"),
    )
    with pytest.raises(BudgetError, match="about one cell"):
        both.spend(failing, label="a graph")
    both.spend((failing, Guarantee(0.5, "record")), label="the kept promise counts")
    assert both.spent("record") == Guarantee(0.5, "record")


@pytest.mark.parametrize("stated", [{"record": 1.0}, {"cell": 1e-9}, {"record": "a"}])
def test_a_damaged_limit_of_failure_is_refused(tmp_path, stated):
    path = tmp_path / "failing.json"
    Budget.create(path, Guarantee(1.0, "record", failure=1e-6))
    state = json.loads(path.read_text(encoding="utf-8")) | {"failure": stated}
    path.write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(BudgetFileError, match="failure"):
        Budget(path)


# ----------------------------------- what stands where a budget's file should be


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
@pytest.mark.parametrize("put", ["a folder", "a pipe", "a link to itself"])
def test_what_is_no_file_is_no_budget(tmp_path, put):
    path = tmp_path / "budget.json"
    if put == "a folder":
        path.mkdir()
    elif put == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.name)
    with pytest.raises(BudgetFileError, match="budget.json cannot be read"):
        Budget(path)
    assert [each.name for each in tmp_path.iterdir()] == ["budget.json"]


def test_what_an_editor_writes_in_between_is_not_lost(budget, monkeypatch):
    "It knows of no lock: the entry that it added stays, and nothing is spent."
    budget.spend(Guarantee(0.1, "record"), label="first")
    state = json.loads(budget.path.read_text())
    changed = json.dumps(state | {"spent": state["spent"] * 2})
    now = budgets._now

    def meanwhile():
        budget.path.write_text(changed)
        return now()

    monkeypatch.setattr(budgets, "_now", meanwhile)
    with pytest.raises(BudgetFileError, match="changed by another program"):
        budget.spend(Guarantee(0.1, "record"), label="second")
    assert budget.path.read_text() == changed


# an ε beside μ


ANSWER = Guarantee(0.0, "record", failure=1e-9, pure=1.0)


@given(st.lists(st.floats(0, 3), max_size=8), st.floats(1e-6, 5))
def test_an_epsilon_keeps_its_limit_and_what_is_left_fits(epsilons, limit):
    state = {"limits": {"record": 0.0}, "pure": {"record": limit}, "spent": []}
    for epsilon in epsilons:
        promise = Guarantee(0.0, "record", pure=epsilon)
        try:
            charges = budgets._charges(state, [promise], None)
            state["spent"].append(budgets._costs(charges))
        except BudgetError as refusal:
            assert refusal.pure == epsilon > refusal.left.pure
    spent = [Fraction(e.get("pure", {}).get("record", 0)) for e in state["spent"]]
    assert sum(spent) <= Fraction(limit) * (1 + Fraction(1, 2**50))
    assert budgets._charges(state, [budgets._left(state, "record")], None)


def test_a_budget_of_epsilon_alone_takes_no_mu(tmp_path):
    book = Budget.create(
        tmp_path / "b.json", Guarantee(0.0, "record", failure=1e-8, pure=2.5)
    )
    book.spend(ANSWER, label="one")
    with pytest.raises(BudgetError, match="nothing is left"):
        book.spend(Guarantee(0.1, "record"), label="noise")
    book.spend(ANSWER, label="two")
    assert not book.allows(ANSWER) and book.left().pure == 0.5
    assert book.spent() == ANSWER.compose(ANSWER)
    assert "ε = 0.5 (of 2.5)" in str(book)
    assert book.table()["pure record"].tolist() == [1.0, 1.0]


def test_where_no_epsilon_is_counted_it_becomes_a_mu(tmp_path):
    book = Budget.create(
        tmp_path / "b.json",
        Guarantee(1.3, "record", failure=1e-8),
        Guarantee(0.0, "cell", failure=1e-8, pure=3.0),
    )
    book.spend(ANSWER, label="one")
    assert book.spent("record") == ANSWER.as_gaussian()
    assert (book.spent("cell").mu, book.spent("cell").pure) == (0.0, 1.0)
    assert not book.allows(ANSWER)


def test_an_epsilon_about_cells_counts_for_each_of_them(tmp_path):
    book = Budget.create(tmp_path / "b.json", Guarantee(0.0, "record", pure=1.0))
    cell = Guarantee(0.0, "cell", pure=0.25)
    assert book.allows(cell, columns=4) and not book.allows(cell, columns=5)
    failing = Guarantee(0.0, "cell", failure=1e-9, pure=0.25)
    assert not book.allows(failing, columns=1)


@pytest.mark.parametrize(
    "stated", [{"record": -1.0}, {"row": 1.0}, [], {"record": "1"}]
)
def test_a_damaged_limit_of_epsilon_is_refused(tmp_path, stated):
    path = tmp_path / "b.json"
    Budget.create(path, Guarantee(1.0, "record", pure=1.0))
    state = json.loads(path.read_text(encoding="utf-8")) | {"pure": stated}
    path.write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(BudgetFileError):
        Budget(path)


def test_a_budget_is_begun_in_epsilon(tmp_path):
    made = Budget.create(tmp_path / "b.json", epsilon=1, delta=1e-6)
    made.spend(Guarantee.from_epsilon(0.5, 1e-6), label="half")
    with pytest.raises(BudgetError):
        made.spend(Guarantee.from_epsilon(1, 1e-6), label="more than is left")
    whole, spent = (Guarantee.from_epsilon(e, 1e-6).mu for e in (1, 0.5))
    assert made.left("record").mu == pytest.approx(math.sqrt(whole**2 - spent**2))
    for wrong in ({"epsilon": 1}, {"epsilon": -1, "delta": 1e-6}):
        with pytest.raises(InputError, match="epsilon"):
            Budget.create(tmp_path / "d.json", **wrong)
    with pytest.raises(InputError, match="without other limits"):
        Budget.create(tmp_path / "d.json", record(1.0), epsilon=1, delta=1e-6)
    assert not (tmp_path / "d.json").exists()
