"""Streams of releases: one price, the same bits after every crash, and no two outputs
under one noise."""

import itertools
import json
import math
import os
import signal
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from privglasso.base.validation import InputError
from privglasso.cli.commands import app
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.privacy.guarantee import Guarantee
from privglasso.privacy.sampler import bit_source
from privglasso.publish.continual import (
    KeyedBits,
    Stream,
    StreamError,
    factor,
    integer_factor,
    noise_of,
    noise_table,
    optimal_factor,
    plan_stream,
    read_stream,
    squared_sensitivity,
    tree_noise,
    workload,
)
from privglasso.publish.files import read_release
from privglasso.publish.parquet import ReleaseError
from privglasso.publish.sphere import Ball, Sphere, integer_sums
from privglasso.recover.estimators import PrivateGraphicalLasso

PERIODS, ROWS = 4, 30
TABLES = np.random.default_rng(0).standard_normal((PERIODS, ROWS, 2))


def begun(place, seed=1, limit=1.0, **settings):
    "A stream of four periods in a new folder, or gone on with."
    ledger = place / "ledger.json"
    if not ledger.exists():
        Budget.create(ledger, Guarantee(limit, "record"))
    plan = plan_stream(PERIODS, ["a", "b"], ROWS, mu=1.0, **settings)
    return Stream.begin(place / "s", plan, ledger, label="s", random_state=seed)


def finished(place, **settings):
    "All four periods, published by a process that nothing disturbs."
    stream = begun(place, **settings)
    for period, table in enumerate(TABLES, start=1):
        stream.publish(period, table)
    return stream


def seen(place):
    "The open files of a stream."
    return {path.name: path.read_bytes() for path in (place / "s").glob("*.json")}


def journal_of(place):
    return place / "s/secret/journal"


# what is published, and its noise


@pytest.mark.parametrize(("periods", "window"), [(1, None), (5, 1), (7, 3), (40, None)])
def test_the_bound_is_below_every_factor(periods, window):
    A = workload(periods, window)
    best, bound = optimal_factor(A, 1e-3)
    assert bound * (1 - 1e-12) <= noise_of(A, best).max() <= 1.001 * bound
    for kind in ("root", "independent"):
        assert noise_of(A, factor(A, kind)).max() >= bound * (1 - 1e-12)


def test_the_table_of_a_year():
    "The figures that the chapter's title and result state."
    row = noise_table([(365, None)]).iloc[0].round(2).to_dict()
    assert row["each for itself"] == 365 and row["a tree"] == 43.21
    assert row["the root"] == 8.67 and row["the root, unit columns"] == 7.60
    assert row["at least"] <= row["the optimum"] <= 6.99


def test_the_root_is_near_the_optimum():
    "Running sums and windows of half of all periods are its worst cases."
    for T in (2, 16, 37, 64, 100):
        for window, allowed in ((None, 1.1), (max(T // 2, 1), 1.12), (T // 10, 1.01)):
            if window is None or window > 1:
                A = workload(T, window)
                ratio = noise_of(A, factor(A)).max() / optimal_factor(A, 2e-3)[1]
                assert 1 <= ratio < allowed, (T, window)


def test_a_tree_is_estimated_by_least_squares():
    "Against the pseudo-inverse of all complete blocks, whatever is wanted."
    A, T, sizes = workload(7, 3), 7, (1, 2)
    worst = 0.0
    for t in range(1, T + 1):
        blocks = [(e, s) for s in sizes for e in range(s, t + 1) if e % s == 0]
        rows = np.array([[e - s <= j < e for j in range(t)] for e, s in blocks], float)
        worst = max(worst, np.sum((A[t - 1, :t] @ np.linalg.pinv(rows)) ** 2))
    assert math.isclose(tree_noise(A), 2 * worst)


def test_sensitivity_is_never_too_small():
    "Against all sets of periods, for any integers."
    for seed in range(30):
        rng = np.random.default_rng(seed)
        T = int(rng.integers(1, 9))
        C = np.tril(rng.integers(-20, 21, (T, T)))
        G, most, apart = np.abs(C.T @ C), *rng.integers(1, 6, 2).tolist()
        sets = (
            J
            for k in range(1, min(most, T) + 1)
            for J in itertools.combinations(range(T), k)
            if all(b - a >= apart for a, b in itertools.pairwise(J))
        )
        truth = max(int(G[np.ix_(J, J)].sum()) for J in sets)
        assert squared_sensitivity(C, most, apart) >= truth
        assert squared_sensitivity(C, T) == G.sum()  # all periods: exact
        assert squared_sensitivity(C) == np.diag(G).max()


@pytest.mark.parametrize("clipping", [Sphere([2.0, 1.0], 0.5), Ball(3.0)])
def test_a_replaced_record_moves_the_stream_by_its_sensitivity_at_most(clipping):
    "Weighted squares of exact integers, over records that turn around everywhere."
    plan = plan_stream(
        5, "ab", 10, window=3, most=2, apart=2, mu=0.7, clipping=clipping
    )
    s, N = plan.lattice.sensitivity, squared_sensitivity(plan.C, 2, 2)
    rng, largest = np.random.default_rng(4), 0.0
    for _ in range(300):
        one, other = rng.standard_normal((2, 1, 2)) * 10 ** rng.uniform(-1, 3)
        if rng.random() < 0.5:
            other = one * [1, -1]
        before, after = (integer_sums(x, plan.lattice) for x in (one, other))
        second, total = (
            b.astype(object) - a for a, b in zip(before, after, strict=True)
        )
        first = int(rng.integers(0, 3))
        shift = plan.C[:, [first, first + 2]].sum(axis=1)
        size = (second[0, 0] ** 2 + second[1, 1] ** 2) / 2 + second[0, 1] ** 2
        size += sum(total**2)
        largest = max(largest, size * int(shift @ shift) / (N * s**2))
    assert 0.5 < largest <= 1
    assert plan.guarantee().mu <= 0.7 < 1.01 * plan.guarantee().mu
    assert plan.guarantee(most=5, apart=1).mu > 1.3 * 0.7


def test_keyed_bits_are_those_of_their_seed_alone():
    one, two, other = KeyedBits(b"a"), KeyedBits(b"a"), KeyedBits(b"b")
    words = one.words(100)
    assert np.array_equal(words, two.words(100)) and one.bits(9) == two.bits(9)
    assert not np.isin(words, other.words(100)).any()
    assert not np.isin(words, one.words(100)).any()  # nor does a call repeat another
    assert words.dtype == bit_source().words(1).dtype


# a stream


def test_what_strangers_read_is_what_was_wanted(tmp_path):
    stream = finished(tmp_path, window=2, clipping=Ball(4.0))
    release, plan = read_stream(tmp_path / "s"), stream.plan
    for t in range(1, PERIODS + 1):
        last = TABLES[max(t - 2, 0) : t].reshape(-1, 2)
        exact, _ = integer_sums(last, plan.lattice)
        read = release.covariance(t)
        assert read.n == len(last)
        assert np.abs(read.second_moment - exact).max() < 8 * read.lattice.sigma[1]
    assert np.allclose(plan.reading() @ plan.C, workload(4, 2), atol=1e-12)


def test_estimators_take_an_output(tmp_path):
    plan = plan_stream(3, ["a", "b", "c"], 5000, epsilon=3.0, delta=1e-6)
    ledger = Budget.create(tmp_path / "ledger", Guarantee(3.0, "record"))
    stream = Stream.begin(tmp_path / "s", plan, ledger, label="x", random_state=0)
    rng = np.random.default_rng(1)
    for period in (1, 2, 3):
        table = rng.standard_normal((5000, 3))
        table[:, 1] += table[:, 0]
        release = stream.publish(period, pd.DataFrame(table, columns=list("abc")))
    model = PrivateGraphicalLasso().fit(release)
    assert sorted(model.graph_.edges) == [("a", "b")]
    assert release.guarantee.mu == plan.guarantee().mu and not release.secure
    with pytest.raises(InputError, match="mechanism"):  # a reader could not check it
        release.to_parquet(tmp_path / "open.parquet")
    assert not (tmp_path / "open.parquet").exists()


def test_the_systems_key_is_secure_and_each_is_another(tmp_path):
    outputs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        stream = begun(tmp_path / name, seed=None)
        assert stream.publish(1, TABLES[0]).secure
        outputs.append(read_stream(tmp_path / name / "s").outputs)
    assert not np.array_equal(*outputs)
    if os.name == "posix":
        secret = tmp_path / "a/s/secret"
        assert secret.stat().st_mode & 0o77 == 0
        assert (secret / "key").stat().st_mode & 0o77 == 0
        assert (secret / "journal").stat().st_mode & 0o77 == 0


def test_a_period_may_be_empty_and_a_first_one_says_so(tmp_path):
    stream = begun(tmp_path, window=1)
    with pytest.raises(InputError, match="no record counts"):
        stream.publish(1, np.empty((0, 2)))
    assert stream.publish(2, TABLES[1]).n == ROWS
    with pytest.raises(InputError, match="no record counts"):
        stream.publish(1, np.empty((0, 2)))  # and again


def test_begun_twice_is_paid_once(tmp_path):
    finished(tmp_path)
    assert begun(tmp_path).published == PERIODS
    assert len(Budget(tmp_path / "ledger.json").table()) == 1
    with pytest.raises(InputError, match="another stream is there"):
        begun(tmp_path, window=2)


def test_what_does_not_fit_the_ledger_publishes_nothing(tmp_path):
    with pytest.raises(BudgetError):
        begun(tmp_path, limit=0.9)
    with pytest.raises(StreamError, match="not paid"):
        Stream(tmp_path / "s")
    Budget.create(tmp_path / "more.json", Guarantee(1.0, "record"))
    (tmp_path / "more.json").replace(tmp_path / "ledger.json")
    assert begun(tmp_path).published == 0


def test_a_cell_is_covered_too(tmp_path):
    limits = Guarantee(1.0, "record"), Guarantee(1.0, "cell")
    Budget.create(tmp_path / "ledger.json", *limits)
    begun(tmp_path)
    table = Budget(tmp_path / "ledger.json").table()
    assert table["mu cell"].item() == table["mu record"].item() > 0.99


BAD = {
    "too early": (3, TABLES[0], "the next one is 1"),
    "no period": (0, TABLES[0], "at least 1"),
    "columns": (1, TABLES[0][:, :1], "give the columns"),
    "names": (1, pd.DataFrame(TABLES[0], columns=["b", "a"]), "give the columns"),
    "rows": (1, np.zeros((ROWS + 1, 2)), "allows 30 rows"),
    "gaps": (1, np.full((3, 2), np.nan), "NaN"),
}


class Foreign:
    "A table of another library, which has Arrow's interface and nothing else."

    def __init__(self, values, names):
        self._table = pa.table(dict(zip(names, values.T, strict=True)))

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_columns_of_any_table_are_those_of_the_stream(tmp_path):
    stream = begun(tmp_path)
    with pytest.raises(InputError, match="give the columns"):
        stream.publish(1, Foreign(TABLES[0], ["b", "a"]))
    assert stream.publish(1, Foreign(TABLES[0], ["a", "b"])).n == len(TABLES[0])


@pytest.mark.parametrize("case", BAD)
def test_bad_periods_are_refused_before_anything_is_written(case, tmp_path):
    stream, (period, X, told) = begun(tmp_path), BAD[case]
    before = journal_of(tmp_path).read_bytes()
    with pytest.raises(InputError, match=told):
        stream.publish(period, X)
    assert journal_of(tmp_path).read_bytes() == before and len(seen(tmp_path)) == 1


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"window": 5}, "window"),
        ({"most": 0}, "most"),
        ({"apart": 0}, "apart"),
        ({"kind": "best"}, "kind"),
        ({"kind": np.ones((4, 4)) - np.eye(4)}, "bits"),
        ({"kind": np.eye(3)}, "kind"),
        ({"kind": np.full((4, 4), np.nan)}, "C"),
        ({"mean": -1.0}, "mean"),
    ],
)
def test_bad_plans_are_refused(settings, argument):
    with pytest.raises(InputError) as error:
        plan_stream(4, ["a", "b"], 10, mu=1.0, **settings)
    assert error.value.argument == argument


# attacked


def test_other_records_for_a_period_are_refused_and_the_same_ones_are_not(tmp_path):
    stream = finished(tmp_path)
    before = seen(tmp_path), journal_of(tmp_path).read_bytes()
    changed = TABLES[1].copy()
    changed[0] *= -1
    changed[0, 0] *= -1  # one cell of one record
    for other in (changed, TABLES[1][:-1], TABLES[0]):
        with pytest.raises(StreamError, match="of other records"):
            stream.publish(2, other)
    again = stream.publish(2, TABLES[1][::-1])
    assert np.array_equal(
        again.second_moment, read_stream(tmp_path / "s").covariance(2).second_moment
    )
    assert (seen(tmp_path), journal_of(tmp_path).read_bytes()) == before


def test_a_journal_that_was_changed_anywhere_is_refused(tmp_path):
    stream = finished(tmp_path)
    raw = journal_of(tmp_path).read_bytes()
    before, rng = seen(tmp_path), np.random.default_rng(0)
    for at in [0, 70, len(raw) - 2, *rng.integers(0, len(raw) - 1, 40)]:
        flipped = bytearray(raw)
        flipped[at] ^= 1
        journal_of(tmp_path).write_bytes(flipped)
        with pytest.raises(StreamError):
            stream.publish(1, TABLES[0])
    lines = raw.splitlines(keepends=True)
    orders = [lines[:-1], lines[1:], [*lines[:2], *lines[3:]], [*lines, lines[-1]], []]
    for other in (*orders, [lines[0], lines[2], lines[1], *lines[3:]]):
        journal_of(tmp_path).write_bytes(b"".join(other))
        with pytest.raises(StreamError):
            stream.publish(1, TABLES[0])
    journal_of(tmp_path).write_bytes(raw)
    stream.publish(1, TABLES[0])
    assert seen(tmp_path) == before


def test_a_line_that_was_being_written_is_forgotten(tmp_path):
    stream = finished(tmp_path)
    raw, whole = journal_of(tmp_path).read_bytes(), seen(tmp_path)
    start = raw[:-1].rfind(b"\n") + 1
    for cut in [start, start + 1, start + 64, len(raw) - 1]:
        journal_of(tmp_path).write_bytes(raw[:cut])
        (tmp_path / f"s/period-{PERIODS:04d}.json").unlink()
        stream.publish(PERIODS, TABLES[-1])
        assert journal_of(tmp_path).read_bytes() == raw and seen(tmp_path) == whole


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"most": 1', b'"most": 2', "not that which was paid for"),
        (b'"n": 30', b'"n": 31', "not that which was paid for"),
        (b'"apart": 1', b'"apart": 0', "damaged"),
        (b'"factor": [[', b'"factor": [[0', "damaged"),
        (b"}", b"", "damaged"),
    ],
)
def test_a_changed_plan_is_refused(old, new, told, tmp_path):
    finished(tmp_path)
    public = tmp_path / "s/plan.json"
    assert old in public.read_bytes()
    public.write_bytes(public.read_bytes().replace(old, new))
    with pytest.raises(StreamError, match=told):
        Stream(tmp_path / "s")


def test_no_key_no_noise(tmp_path):
    stream = finished(tmp_path)
    key = tmp_path / "s/secret/key"
    kept, before = key.read_bytes(), seen(tmp_path)
    for other in (None, kept[:-1], bytes(40)):
        key.unlink(missing_ok=True)
        if other is not None:
            key.write_bytes(other)
        for action in (lambda: stream.publish(1, TABLES[0]), lambda: begun(tmp_path)):
            with pytest.raises(StreamError):
                action()
    key.write_bytes(kept)
    assert stream.publish(1, TABLES[0]).n == ROWS and seen(tmp_path) == before
    assert len(Budget(tmp_path / "ledger.json").table()) == 1


def test_even_if_all_is_set_back_no_two_outputs_share_noise(tmp_path):
    "The key is kept; journal and outputs are those of the beginning."
    stream = begun(tmp_path)
    early = journal_of(tmp_path).read_bytes()
    noise = {}
    for k, table in enumerate([TABLES[0], TABLES[0], *TABLES[1:], -TABLES[1][:5]]):
        journal_of(tmp_path).write_bytes(early)
        (tmp_path / "s/period-0001.json").unlink(missing_ok=True)
        stream.publish(1, table)
        second, total = integer_sums(table, stream.plan.lattice)
        exact = np.concatenate([second[np.triu_indices(2)], total])
        row = read_stream(tmp_path / "s").outputs[0] - stream.plan.C[0, 0] * exact
        noise[k] = tuple(row.tolist())
    assert noise[0] == noise[1]  # the same records: the same output, nothing is told
    assert len({*noise.values()}) == len(noise) - 1
    assert all(len({*pair}) == 2 for pair in zip(noise[1], noise[2], strict=True))


def test_equal_sums_in_two_periods_get_two_noises(tmp_path):
    "Two equal outputs would say that nothing has changed."
    stream = begun(tmp_path, kind="independent", window=1)
    for period in range(1, PERIODS + 1):
        stream.publish(period, TABLES[0])
    outputs = read_stream(tmp_path / "s").outputs
    assert all((outputs[i] != outputs[j]).all() for i in range(4) for j in range(i))


def test_who_died_between_ledger_and_journal_has_paid(tmp_path):
    begun(tmp_path)
    journal_of(tmp_path).unlink()
    assert begun(tmp_path).published == 0
    assert len(Budget(tmp_path / "ledger.json").table()) == 1


def test_two_streams_pay_twice_even_if_their_seed_is_one(tmp_path):
    ledger = Budget.create(tmp_path / "ledger", Guarantee(3.0, "record"))
    plan = plan_stream(2, ["a", "b"], ROWS, mu=1.0)
    for name in "ab":
        told = {"label": "s", "random_state": 0}
        Stream.begin(tmp_path / name, plan, ledger, **told).publish(1, TABLES[0])
    assert len(ledger.table()) == 2
    other = plan_stream(2, ["a", "b"], ROWS + 1, mu=1.0)
    third = Stream.begin(tmp_path / "c", other, ledger, label="s", random_state=0)
    third.publish(1, TABLES[0])  # one seed, but another plan: other noise
    outputs = [read_stream(tmp_path / name).outputs[0] for name in "abc"]
    assert np.array_equal(*outputs[:2]) and (outputs[0] != outputs[2]).any()


def test_the_noise_of_a_stream_is_that_of_its_plan(tmp_path):
    """The mean of 3600 squares over their variance: 0.14 off by a chance of 3e-9; with
    nine tenths of the noise it would be 0.81."""
    names, ledger = [f"c{j}" for j in range(12)], tmp_path / "ledger"
    Budget.create(ledger, Guarantee(4.0, "record"))
    plan = plan_stream(4, names, 9, mu=1.0)
    tables = np.random.default_rng(1).standard_normal((4, 9, 12))
    above, squares = np.triu_indices(12), []
    for seed in range(10):
        folder = tmp_path / str(seed)
        stream = Stream.begin(folder, plan, ledger, label="x", random_state=seed)
        exact = []
        for period, table in enumerate(tables, start=1):
            stream.publish(period, table)
            second, total = integer_sums(table, plan.lattice)
            exact.append(np.concatenate([second[above], total]))
        noise = read_stream(folder).outputs - plan.C @ exact
        sigma = plan.lattice.sigma[(above[0] == above[1]).astype(int)]
        squares.append((noise / np.append(sigma, [plan.lattice.sigma[0]] * 12)) ** 2)
    assert np.size(squares) == 3600 and abs(np.mean(squares) - 1) < 0.14


def test_damaged_outputs_are_noticed_and_made_again(tmp_path):
    stream = finished(tmp_path)
    path, whole = tmp_path / "s/period-0002.json", seen(tmp_path)
    for text in (b"", b"{}", path.read_bytes()[:-2], path.read_bytes() + b" "):
        path.write_bytes(text)
        with pytest.raises(StreamError, match="damaged"):
            read_stream(tmp_path / "s")
        with pytest.raises(StreamError, match="was changed"):
            stream.publish(2, TABLES[1])
    stated = json.loads(whole[path.name])
    for change in ({"rows": -1}, {"rows": ROWS + 1}, {"output": [1]}, {"period": 1}):
        path.write_bytes((json.dumps(stated | change) + "\n").encode())
        with pytest.raises(StreamError, match="damaged"):
            read_stream(tmp_path / "s")
    path.unlink()
    assert read_stream(tmp_path / "s").periods == 1
    stream.publish(2, TABLES[1])
    assert seen(tmp_path) == whole


def test_earlier_outputs_that_are_gone_are_made_again(tmp_path):
    stream = finished(tmp_path)
    whole = seen(tmp_path)
    for t in (1, 3):
        (tmp_path / f"s/period-{t:04d}.json").unlink()
    stream.publish(4, TABLES[3])
    assert seen(tmp_path) == whole


@pytest.mark.parametrize(("p", "periods", "n"), [(1, 1, 2), (1, 3, 2), (12, 1, 5)])
def test_small_streams(p, periods, n, tmp_path):
    "Constants, one column, one period."
    names = [f"c{j}" for j in range(p)]
    plan = plan_stream(periods, names, n, mu=0.5)
    ledger = Budget.create(tmp_path / "ledger", Guarantee(0.5, "record"))
    stream = Stream.begin(tmp_path / "s", plan, ledger, label="x", random_state=0)
    for t in range(1, periods + 1):
        release = stream.publish(t, np.full((n, p), 1e308 * (-1) ** t))
        assert release.n == n * t and release.second_moment.shape == (p, p)
    assert Budget(tmp_path / "ledger").left("record").mu < 1e-6


def test_a_year_is_read_exactly():
    plan = plan_stream(365, ["a", "b"], 10_000, mu=1.0, kind="optimum")
    assert np.abs(plan.reading() @ plan.C - workload(365)).max() < 1e-9
    largest = 10_000 * plan.lattice.sensitivity * np.abs(plan.C).sum(axis=1).max()
    assert largest < 2**53 and plan.noise_std().argmax() == 0


posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process")


def child(action):
    "A process that does this, and ends with 0, or with 1 if it is refused."
    pid = os.fork()
    if pid:
        return pid
    try:
        action()
    except StreamError:
        os._exit(1)
    except BaseException:
        os._exit(2)
    os._exit(0)


KILLS = int(os.environ.get("PRIVGLASSO_KILLS", "20"))


@posix
def test_killed_at_any_time_the_stream_is_the_same(tmp_path):
    """Real kills at random times, in several streams; the times depend on the machine,
    what comes out does not."""
    (tmp_path / "quiet").mkdir()
    finished(tmp_path / "quiet")
    quiet, rng, kills = seen(tmp_path / "quiet"), np.random.default_rng(), 0
    started = time.perf_counter()
    (tmp_path / "again").mkdir()
    finished(tmp_path / "again")
    usual = time.perf_counter() - started
    for run in itertools.count():
        place, known = tmp_path / str(run), {}
        place.mkdir()
        Budget.create(place / "ledger.json", Guarantee(1.0, "record"))
        status, patience = None, 1.2 * usual
        while status != 0:
            victim = child(lambda place=place: finished(place))
            time.sleep(rng.uniform(0, patience))
            os.kill(victim, signal.SIGKILL)
            patience *= 1.1  # a fork may be slower than its parent was, always
            status = os.waitpid(victim, 0)[1]
            kills += status == signal.SIGKILL
            assert status in (0, signal.SIGKILL)
            now = seen(place) if (place / "s").exists() else {}
            assert known.items() <= now.items()
            known = now
        assert known == quiet
        assert len(Budget(place / "ledger.json").table()) == 1
        if kills >= KILLS:
            return


@posix
def test_two_processes_at_once(tmp_path):
    "The same records: both succeed. Other records: one of the two is refused."
    begun(tmp_path)
    for period in range(1, PERIODS + 1):
        tables = [TABLES[period - 1], TABLES[period - 1] * (1 if period % 2 else -2)]
        tables[1] = tables[1] if period % 2 else tables[1] + 1
        pids = [
            child(lambda X=X, t=period: Stream(tmp_path / "s").publish(t, X))
            for X in tables
        ]
        ends = sorted(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids)
        assert ends == ([0, 0] if period % 2 else [0, 1])
    assert len(journal_of(tmp_path).read_bytes().splitlines()) == PERIODS + 1


@posix
def test_two_processes_begin_one_stream(tmp_path):
    Budget.create(tmp_path / "ledger.json", Guarantee(1.0, "record"))
    pids = [child(lambda: begun(tmp_path, seed=None)) for _ in range(4)]
    assert [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids] == [0] * 4
    assert len(Budget(tmp_path / "ledger.json").table()) == 1


def test_the_integers_cost_little():
    for T, window in ((16, None), (50, 5)):
        A = workload(T, window)
        real = factor(A)
        whole = integer_factor(real)
        assert noise_of(A, whole).max() < 1.003 * noise_of(A, real).max()
        assert (
            noise_of(A, integer_factor(real, 4)).max() > 1.01 * noise_of(A, real).max()
        )


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="asks Linux for names")
def test_the_journal_is_on_the_disk_before_an_output_has_its_name(
    tmp_path, monkeypatch
):
    "What a loss of power leaves: a killed process loses nothing that it has written."
    events, fsync, link = [], os.fsync, os.link

    def synced(descriptor):
        fsync(descriptor)
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))

    def named(source, target, **where):
        link(source, target, **where)
        events.append(os.path.basename(target))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", named)
    stream = begun(tmp_path)
    for path in ("key", "plan.json"):
        assert events.index(path) < events.index("journal")
    assert "secret" in events[events.index("key") : events.index("plan.json")]
    assert tmp_path.name in events[: events.index("journal")]  # the ledger's folder
    events.clear()
    stream.publish(1, TABLES[0])
    at = events.index("period-0001.json")
    assert events.index("journal") < events.index("secret") < at
    assert events[-1] == "s"  # and its name is, when it is handed over


def test_a_file_of_outputs_is_a_release_like_any_other(tmp_path):
    plan = plan_stream(4, ["a", "b", "c"], 3000, epsilon=3.0, delta=1e-6)
    ledger = Budget.create(tmp_path / "ledger", Guarantee(3.0, "record"))
    stream = Stream.begin(tmp_path / "s", plan, ledger, label="x", random_state=0)
    for period in (1, 2, 3):
        table = np.random.default_rng(period).standard_normal((3000, 3))
        table[:, 1] += table[:, 0]
        published = stream.publish(period, table)
    outputs = read_stream(tmp_path / "s")
    outputs.write(tmp_path / "open.json")
    outputs.until(2).write(tmp_path / "earlier.json")
    for path, period in (("open.json", 3), ("s", 3), ("earlier.json", 2)):
        release, own = read_release(tmp_path / path), stream.release(period)
        assert (release.second_moment == own.second_moment).all()
        assert release.n == 3000 * period and release.columns == ["a", "b", "c"]
        assert release.guarantee == plan.guarantee() == own.guarantee
    assert (stream.release(3).second_moment == published.second_moment).all()
    for path in ("open.json", "s"):  # a fitted file is a fitted release
        model = PrivateGraphicalLasso().fit(tmp_path / path)
        assert sorted(model.graph_.edges) == [("a", "b")]
    secret = (tmp_path / "s" / "secret" / "key").read_bytes()
    assert secret[:32].hex() not in (tmp_path / "open.json").read_text()


def test_a_file_of_outputs_is_checked(tmp_path):
    plan = plan_stream(3, ["a", "b"], 500, mu=1.0)
    ledger = Budget.create(tmp_path / "ledger", Guarantee(3.0, "record"))
    stream = Stream.begin(tmp_path / "s", plan, ledger, label="x", random_state=0)
    for period in (1, 2):
        stream.publish(period, np.random.default_rng(period).normal(size=(500, 2)))
    outputs, path = read_stream(tmp_path / "s"), tmp_path / "open.json"
    outputs.write(path)
    with pytest.raises(InputError, match="give a new file"):
        outputs.write(path)
    for bad in ("open.parquet", "open"):
        with pytest.raises(InputError, match="end it in .json"):
            outputs.write(tmp_path / bad)
    with pytest.raises(InputError, match="^period=3: 2 are published"):
        outputs.until(3)
    good = path.read_bytes()
    first, second, third = good.splitlines(keepends=True)
    damaged = {
        "without its plan's end": first[:-9],
        "another format": good.replace(b'"format": 1', b'"format": 2', 1),
        "an output left out": first + third,
        "an output twice": first + second + second,
        "more than planned": good + third + third,
        "cut off": good[:-5],
        "no output": first,
        "not text": first + b"\xff\n",
    }
    for what, text in damaged.items():
        path.write_bytes(text)
        with pytest.raises(ReleaseError, match="open.json") as told:
            read_release(path)
        assert "/" not in str(told.value), what
    path.write_bytes(b"")
    with pytest.raises(StreamError):
        read_stream(path)
    # who states that records may be in two periods states a weaker promise with it
    path.write_bytes(good.replace(b'"most": 1', b'"most": 2', 1))
    assert read_release(path).guarantee.mu > plan.guarantee().mu


def test_the_command_line_takes_a_stream(tmp_path):
    plan = plan_stream(2, ["a", "b", "c"], 3000, epsilon=3.0, delta=1e-6)
    ledger = Budget.create(tmp_path / "ledger", Guarantee(3.0, "record"))
    stream = Stream.begin(tmp_path / "s", plan, ledger, label="x", random_state=0)
    table = np.random.default_rng(0).standard_normal((3000, 3))
    table[:, 1] += table[:, 0]
    stream.publish(1, table)
    read_stream(tmp_path / "s").write(tmp_path / "open.json")
    told = []
    for name in ("open.json", "s"):
        told.append(CliRunner().invoke(app, ["recover", str(tmp_path / name)]))
        assert told[-1].exit_code == 0, told[-1].output
    assert told[0].output == told[1].output and "1 edge, " in told[0].output
    (tmp_path / "other.json").write_text("{}")
    refused = CliRunner().invoke(app, ["recover", str(tmp_path / "other.json")])
    assert refused.exit_code and "is not a release" in refused.output
