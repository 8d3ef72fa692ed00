"""A stream from the shell: begun and paid for once, a killed line typed again, the
same bits; and what is refused before anything is made."""

import json
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from privglasso.base.validation import InputError
from privglasso.cli.commands import app
from privglasso.privacy.budget import Budget
from privglasso.publish import continual
from privglasso.publish.continual import Stream, read_stream
from privglasso.publish.files import read_release

SIZE = ("--periods", 3, "--rows", 40, "--columns", "a, b", "--low", -4, "--high", 4)


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    for period in range(1, 4):
        table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["b", "a"])
        table.assign(extra=1).to_csv(tmp_path / f"{period}.csv", index=False)
    assert call("budget", "new", tmp_path / "ledger.json", "--mu", 1)[0] == 0
    return tmp_path


def begin(place, folder, *more):
    ledger = place / "ledger.json"
    return call("stream", "new", place / folder, *SIZE, "--budget", ledger, *more)


def outputs(folder):
    return [path.read_bytes() for path in sorted(folder.glob("period-*.json"))]


def test_three_periods_are_paid_for_once_and_read_by_strangers(place):
    code, told = begin(place, "s", "--mu", 0.5, "--json")
    told = json.loads(told)
    assert code == 0 and told["periods"] == 3 and told["columns"] == ["a", "b"]
    for period in (1, 2, 3):
        code, output = call("stream", "add", place / "s", period, place / "1.csv")
        assert code == 0 and f"period {period} of 3" in output
        assert "no part of the stream: 1" in output
    words = ("stream", "release", place / "s", place / "two.json", "--period", 2)
    code, output = call(*words)
    assert code == 0 and "2 periods, the last one of 60 records" in output
    release, own = read_release(place / "two.json"), Stream(place / "s").release(2)
    assert (release.matrix == own.matrix).all() and release.secure
    book = Budget(place / "ledger.json")
    assert book.spent().mu == pytest.approx(0.5) and len(book.table()) == 1
    assert call("inspect", place / "two.json")[0] == 0


def test_epsilon_is_that_of_the_stream_at_the_delta_of_all_its_records(place):
    code, told = begin(place, "s", "--epsilon", 1, "--json")
    told = json.loads(told)
    promise = Stream(place / "s").plan.guarantee()
    assert code == 0 and told["delta"] == 1e-5  # 120 records, 1/n² rounded down
    assert promise.epsilon(told["delta"]) == pytest.approx(1, rel=1e-6)
    assert Budget(place / "ledger.json").spent().mu == pytest.approx(promise.mu)


STEPS = [(continual._Journal, "add"), (Stream, "_hand_over"), (Stream, "release")]


@pytest.mark.parametrize("where", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_killed_line_is_typed_again(place, where, after, monkeypatch):
    seeded = partial(Stream.begin, random_state=7)
    monkeypatch.setattr(Stream, "begin", seeded)  # at the shell there is no seed
    assert begin(place, "calm", "--mu", 0.5)[0] == 0
    for period in (1, 2):
        call("stream", "add", place / "calm", period, place / f"{period}.csv")
    assert begin(place, "s", "--mu", 0.5)[0] == 0
    assert call("stream", "add", place / "s", 1, place / "1.csv")[0] == 0
    own = getattr(*where)

    def killed(*arguments):
        if after:
            own(*arguments)
        raise KeyboardInterrupt

    with mock.patch.object(*where, killed):
        code, output = call("stream", "add", place / "s", 2, place / "2.csv")
    assert code == 130 and "Ctrl-C" in output
    code, output = call("stream", "add", place / "s", 2, place / "2.csv")
    assert code == 0 and Stream(place / "s").published == 2
    assert outputs(place / "s") == outputs(place / "calm")
    assert len(Budget(place / "ledger.json").table()) == 2  # one line a stream


def test_a_beginning_that_was_killed_is_paid_for_once(place):
    with mock.patch.object(continual._Journal, "add", side_effect=KeyboardInterrupt):
        assert begin(place, "s", "--mu", 0.9)[0] == 130
    code, output = call("stream", "add", place / "s", 1, place / "1.csv")
    assert code == 2 and "begin it again" in output
    assert begin(place, "s", "--mu", 0.9)[0] == 0  # two would not fit
    assert len(Budget(place / "ledger.json").table()) == 1
    assert call("stream", "add", place / "s", 1, place / "1.csv")[0] == 0


def test_no_line_publishes_a_period_twice_of_different_records(place):
    begin(place, "s", "--mu", 0.5)
    assert call("stream", "add", place / "s", 1, place / "1.csv")[0] == 0
    before = outputs(place / "s")
    rows = pd.read_csv(place / "1.csv")
    rows.sample(frac=1, random_state=0).to_csv(place / "turned.csv", index=False)
    code, output = call("stream", "add", place / "s", 1, place / "turned.csv")
    assert code == 0 and "again, as it was" in output
    rows.iloc[0, 0] += 1
    rows.to_csv(place / "other.csv", index=False)
    code, output = call("stream", "add", place / "s", 1, place / "other.csv")
    assert code == 2 and "of other records" in output
    assert outputs(place / "s") == before


@pytest.mark.parametrize(
    "more, remedy",
    [
        (("--mu", 2), "does not fit"),
        ((), "--mu, or --epsilon"),
        (("--mu", 0.5, "--epsilon", 1), "--mu, or --epsilon"),
        (("--mu", 0.5, "--bounds", "bounds.csv"), "not both"),
        (("--mu", 0.5, "--most", 0), "--most 0"),
        (("--mu", 0.5, "--window", 9), "--window 9"),
        (("--mu", 0.5, "--periods", 0), "--periods 0"),
        (("--mu", 0.5, "--seed", 1), "--seed"),
        (("--mu", 0.5, "--columns", "x\x1b,y"), "control or invisible"),
    ],
)
def test_what_cannot_be_begun_leaves_nothing(place, more, remedy):
    code, output = begin(place, "s", *more)
    assert code == 2 and remedy in output, output
    assert not (place / "s").exists()
    assert len(Budget(place / "ledger.json").table()) == 0


def test_tables_that_do_not_suit_are_refused_without_a_cell(place):
    begin(place, "s", "--mu", 0.5)
    (place / "words.csv").write_text("a,b\n71234,x71234\n1,2\n")
    (place / "narrow.csv").write_text("a,c\n71234,2\n1,2\n")
    (place / "long.csv").write_text("a,b\n" + "71234.5,1\n" * 41)
    refused = ("words", "not numeric"), ("narrow", "not so: b"), ("long", "40 rows")
    for name, remedy in refused:
        code, output = call("stream", "add", place / "s", 1, place / f"{name}.csv")
        assert code == 2 and remedy in output and "71234" not in output, output
    code, output = call("stream", "add", place / "s", 2, place / "1.csv")
    assert code == 2 and "the next one is 1" in output
    code, output = call("stream", "release", place / "s", place / "open.json")
    assert code == 2 and "no period is published" in output
    assert not outputs(place / "s") and not (place / "open.json").exists()


def test_a_file_for_strangers_replaces_nothing_unasked(place):
    begin(place, "s", "--mu", 0.5)
    call("stream", "add", place / "s", 1, place / "1.csv")
    target = place / "open.json"
    assert call("stream", "release", place / "s", target)[0] == 0
    code, output = call("stream", "release", place / "s", target)
    assert code == 2 and "--force" in output
    call("stream", "add", place / "s", 2, place / "2.csv")
    assert call("stream", "release", place / "s", target, "--force")[0] == 0
    assert read_stream(target).periods == 2
    plan = place / "s" / "plan.json"
    code, output = call("stream", "release", place / "s", plan, "--force")
    assert code == 2 and "reads that file" in output
    code, output = call("stream", "release", place / "s", place / "open.parquet")
    assert code == 2 and "end it in .json" in output


def test_a_file_for_strangers_replaces_nothing_but_its_own_kind(place):
    begin(place, "s", "--mu", 0.5)
    begin(place, "other", "--mu", 0.5)
    call("stream", "add", place / "s", 1, place / "1.csv")
    (place / "edges.json").write_text("{}")
    kept = [path for path in place.rglob("*.json") if path.is_file()]
    before = {path: path.read_bytes() for path in kept}
    assert {"ledger.json", "period-0001.json"} <= {path.name for path in kept}
    new = place / "s" / "secret" / "new.json"
    for path in (*kept, new, place / "other" / "new.json"):
        code, output = call("stream", "release", place / "s", path, "--force")
        assert code == 2 and "give another" in output, output
        with pytest.raises(InputError):
            read_stream(place / "s").write(path, replace=True)
    assert {path: path.read_bytes() for path in place.rglob("*.json")} == before


@pytest.mark.parametrize("there", ["1.csv", "private/1.csv", "1.csv/deeper", "secret"])
def test_a_stream_is_begun_in_a_folder_of_its_own(place, there):
    if there.startswith("private"):
        (place / "private").mkdir()
        (place / there).write_text("a,b\n")
    (place / "plain").mkdir()
    (place / "plain" / "secret").write_text("mine")
    folder = {"private/1.csv": "private", "secret": "plain"}.get(there, there)
    before = sorted(place.rglob("*"))
    code, output = begin(place, folder, "--mu", 0.5)
    assert code == 2 and "is there: give a new folder" in output, output
    assert folder.rpartition("/")[2] in output and "secret:" not in output
    assert sorted(place.rglob("*")) == before
    assert len(Budget(place / "ledger.json").table()) == 0


def test_a_ledger_that_cannot_be_written_in_begins_nothing(place):
    (place / "ledger.json").chmod(0o444)
    code, output = begin(place, "s", "--mu", 0.5)
    assert code == 2 and "ledger.json is read-only" in output
    assert not (place / "s").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--most", 50), "in 3 of them at most"),
        (("--most", 50, "--apart", 2), "in 2 of them at most"),
        (("--most", 2, "--apart", 9), "in one of them"),
    ],
)
def test_a_record_is_in_no_more_periods_than_there_are(place, more, said):
    code, output = begin(place, "s", "--mu", 0.5, *more)
    assert code == 0 and said in output


def test_a_period_of_one_record_is_inspected(place, monkeypatch):
    monkeypatch.setattr(Stream, "begin", partial(Stream.begin, random_state=0))
    (place / "ledger.json").unlink()  # noise that hides no variance of one record
    assert call("budget", "new", place / "ledger.json", "--mu", 50)[0] == 0
    begin(place, "s", "--mu", 40)
    (place / "one.csv").write_text("a,b\n1,2\n")
    assert call("stream", "add", place / "s", 1, place / "one.csv")[0] == 0
    for more in ((), ("--json",)):
        code, output = call("inspect", place / "s", *more)
        assert code == 0, output
