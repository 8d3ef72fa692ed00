"""Several processes publish to one path: one release is there, the others are told, and
a budget pays for what is there and for nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.files import read_release

RACER = """
import json, os, sys, tempfile, time
import numpy as np
from privglasso import Budget, GaussianMechanism, InputError
from privglasso.privacy.sampler import sample

whole, nameless = GaussianMechanism._release, getattr(os, "O_TMPFILE", None)
def slowly(self, *arguments):
    time.sleep(0.2)
    return whole(self, *arguments)
GaussianMechanism._release = slowly
X = np.zeros((50, 2))
print("ready", flush=True)
for line in sys.stdin:
    budget, path, high, named = json.loads(line)
    tempfile._O_TMPFILE_WORKS = named == "nameless" and nameless is not None
    vars(os).pop("O_TMPFILE", None)
    if tempfile._O_TMPFILE_WORKS:
        os.O_TMPFILE = nameless
    mechanism = GaussianMechanism((0, high), mu=0.1)
    try:
        if budget == "none":
            mechanism.publish(X).to_parquet(path)
        else:
            Budget(budget).publish(mechanism, X, path, label=str(high))
        print("won", flush=True)
    except InputError:
        print("told", flush=True)
"""


def start(code, *words):
    "A process that waits for a line."
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, **pipes, text=True)


def words_of(budget, path, high, named):
    "What a racer is told: the line at which it starts."
    return json.dumps([str(budget), str(path), float(high), named]) + "\n"


@pytest.fixture(scope="module")
def racers():
    "Three processes that have loaded all they need."
    started = [start(RACER) for _ in range(3)]
    for racer in started:
        assert racer.stdout.readline() == "ready\n"
    yield started
    for racer in started:
        racer.communicate(timeout=60)


def race(racers, words):
    "What each process says that all start at once."
    for racer, own in zip(racers, words, strict=True):
        racer.stdin.write(words_of(*own))
        racer.stdin.flush()
    return [racer.stdout.readline().strip() for racer in racers]


@pytest.mark.long
@pytest.mark.parametrize(
    ("payers", "named"), [(0, "nameless"), (1, "named"), (3, "nameless")]
)
def test_one_release_is_there_and_only_it_is_paid_for(tmp_path, racers, payers, named):
    budget, path = tmp_path / "b.json", tmp_path / "r.parquet"
    Budget.create(budget, Guarantee(1.0, "record"))
    highs = range(10, 13)
    words = [
        (budget if k < payers else "none", path, high, named)
        for k, high in enumerate(highs)
    ]
    said = race(racers, words)
    assert sorted(said) == ["told", "told", "won"]
    winner = highs[said.index("won")]
    lattice = read_release(path).lattice
    assert (lattice.high * lattice.step).tolist() == [winner, winner]
    paid = Budget(budget).table().label.tolist()
    assert paid == ([f"{winner:.1f}"] if winner - 10 < payers else [])
    assert not list(tmp_path.glob(".*.part")) + list(tmp_path.glob(".*.claim"))


def test_a_stranger_who_comes_in_between_loses_nothing(tmp_path, monkeypatch):
    "A program that knows no claims: its file stays, and the charge is told."
    from privglasso.privacy.budget import ChargedError
    from privglasso.publish.table import GaussianMechanism

    budget = Budget.create(tmp_path / "b.json", Guarantee(1.0, "record"))
    path, whole = tmp_path / "r.parquet", GaussianMechanism._release

    def slowly(self, *arguments):
        path.write_text("theirs")
        return whole(self, *arguments)

    monkeypatch.setattr(GaussianMechanism, "_release", slowly)
    with pytest.raises(ChargedError, match="WAS CHARGED"):
        mechanism = GaussianMechanism((0, 1), mu=0.1)
        budget.publish(mechanism, [[0.0], [1.0]], path, label="x")
    assert path.read_text() == "theirs" and len(budget.table()) == 1


@pytest.mark.long
def test_what_is_told_to_replace_waits_for_who_writes(tmp_path):
    path = tmp_path / "r.parquet"
    path.write_text("old")
    code = RACER.replace("to_parquet(path)", "to_parquet(path, replace=True)")
    told = words_of("none", path, 10, "nameless")
    assert start(code).communicate(told, timeout=60)[0] == "ready\nwon\n"
    assert read_release(path).n == 50


# whoever starts the tests in the background has them ignore Ctrl-C
EARLY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from privglasso import main
print("in", flush=True)
main()
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="no such signal")
@pytest.mark.parametrize("delay", [0.05, 0.2, 0.6])
def test_an_early_interrupt_is_one_sentence(delay):
    command = [sys.executable, "-c", EARLY, "claims"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as started:
        assert started.stdout.readline() == "in\n"
        time.sleep(delay)
        started.send_signal(signal.SIGINT)
        _, told = started.communicate(timeout=60)
    assert "Traceback" not in told and told.count("\n") <= 2
    assert started.returncode in (1, 130)


@pytest.mark.parametrize(
    "content",
    [
        "élan 71234\n".encode("latin1"),
        b"71234,5\n",
        b'{"71234": 1, "71234": 2}',
        b"[" * 9**5,
    ],
)
def test_a_file_that_is_no_budget_is_not_quoted(tmp_path, content):
    from privglasso.cli.commands import app
    from typer.testing import CliRunner

    path = Path(tmp_path, "private_latin1.csv")
    path.write_bytes(content)
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n3,4\n")
    words = ["publish", table, tmp_path / "r.parquet", "--low", "0", "--high", "5"]
    words += ["--mu", "1", "--budget", path]
    done = CliRunner().invoke(app, list(map(os.fspath, words)))
    assert done.exit_code == 2 and "private_latin1.csv" in done.output
    for quoted in ("0xe9", "71234", "\xe9", "position"):
        assert quoted not in done.output


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_hundred_races_of_two_publishers_on_one_budget(tmp_path):
    "It is enough for one: the other is refused, and leaves nothing."
    import multiprocessing

    import numpy as np
    from privglasso.privacy.budget import BudgetError
    from privglasso.publish.table import GaussianMechanism

    fork = multiprocessing.get_context("fork")
    start, races, X = fork.Barrier(2, timeout=60), range(100), np.zeros((50, 2))
    mechanism = GaussianMechanism((0, 10), mu=0.8)
    out, ledgers = tmp_path / "out", [tmp_path / f"{k}.json" for k in races]
    out.mkdir()
    for ledger in ledgers:
        Budget.create(ledger, Guarantee(1.0, "record"))

    def run(name):
        for k in races:
            budget, path = Budget(ledgers[k]), out / f"{k}{name}.parquet"
            start.wait()
            try:
                budget.publish(mechanism, X, path, label=name)
            except BudgetError:
                pass

    runners = [fork.Process(target=run, args=(name,)) for name in "ab"]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(120)
    assert [runner.exitcode for runner in runners] == [0, 0]
    won = [Budget(ledger).table().label.tolist() for ledger in ledgers]
    written = sorted(path.name for path in out.iterdir())
    assert written == sorted(f"{k}{name}.parquet" for k in races for name in won[k])
    assert all(len(names) == 1 for names in won)
    assert all(read_release(out / name).n == len(X) for name in written)
