"""The benchmarks' own arithmetic: turns, ratios, certificates, peers that are not
there. Nothing here is timed."""

import ast
import importlib
import signal
import subprocess
from time import sleep

import numpy as np
import pandas as pd
import pytest

from privglasso.base.settings import SettingsError
from privglasso.base.validation import InputError
from privglasso.experiments import benchmarks, measuring, noise_speed
from privglasso.experiments import study as studies
from privglasso.experiments.benchmarks import benchmark_table, block_correlations
from privglasso.experiments.benchmarks import dual_value, excess, loosest
from privglasso.experiments.benchmarks import measure_problem, penalty, solvers_here
from privglasso.experiments.measuring import bench, in_turn, peer, processor_seconds
from privglasso.experiments.measuring import ratios, read_benchmark, write_benchmark
from privglasso.experiments.noise_speed import mechanism_methods, noise_methods
from privglasso.experiments.study import ResultsFolder, Study
from privglasso.recover.graphical_lasso import graphical_lasso, graphical_lasso_path

# ---------------------------------------------------------------------- turns and
# ratios


def test_everybody_has_a_turn_in_every_round_and_the_first_place_in_some():
    calls = []
    tasks = {name: lambda name=name: calls.append(name) or len(calls) for name in "abc"}
    table = pd.DataFrame(in_turn(tasks, 3))
    assert "".join(calls) == "abcbcacab" and table.method.tolist() == calls
    assert table.repeat.tolist() == [
        0,
        0,
        0,
        1,
        1,
        1,
        2,
        2,
        2,
    ] and table.seconds.tolist() == list(range(1, 10))


def test_a_ratio_is_formed_within_a_round():
    table = pd.DataFrame(
        {
            "case": "x",
            "repeat": [0, 0, 1, 1, 2, 2],
            "method": ["us", "them"] * 3,
            "seconds": [1, 10, 5, 60, 2, 16],
        }
    )
    assert ratios(table, "us", "case").loc[("x", "them")].tolist() == [10, 8, 12]


def test_a_quick_task_is_repeated_until_the_clock_has_seen_enough(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(measuring.time, "process_time", lambda: now[0])

    def task(seconds):
        now[0] += seconds
        calls.append(seconds)

    for seconds, expected in ((0.003, 7), (0.5, 1)):
        calls = []
        assert processor_seconds(
            lambda seconds=seconds: task(seconds)
        ) == pytest.approx(seconds)
        assert len(calls) == expected


# ---------------------------------------------------------------------- the certificate


@pytest.fixture(scope="module")
def problem():
    X = benchmark_table("i")[:, :12]
    S = X.T @ X / len(X)
    return X, S, penalty(S, 0.2)


def test_the_tables_are_standardised_and_always_the_same():
    X = benchmark_table("v")
    assert X.shape == (7466, 11) and np.array_equal(X, benchmark_table("v"))
    np.testing.assert_allclose(
        [X.mean(axis=0), X.var(axis=0)], [np.zeros(11), np.ones(11)], atol=1e-12
    )


def test_a_problem_that_is_none():
    with pytest.raises(InputError, match="name='moon': give one of"):
        benchmark_table("moon")


@pytest.mark.parametrize("share", [0.07, 0.31])
def test_the_penalty_is_exceeded_by_the_share(problem, share):
    _, S, _ = problem
    above = np.abs(S[np.triu_indices(12, 1)]) > penalty(S, share)
    assert abs(above.mean() - share) <= 1 / 66


def test_the_floor_is_below_every_answer_and_reached_by_the_best(problem):
    _, S, alpha = problem
    best = graphical_lasso(S, alpha, penalize_diagonal=False, tol=1e-10)
    floor = dual_value(S, alpha, best.dual_covariance)
    assert 0 <= excess(S, alpha, best.precision, floor) + 1e-12 < 1e-9
    rng = np.random.default_rng(0)
    for _ in range(50):
        R = rng.normal(size=(12, 12))
        assert excess(S, alpha, R @ R.T / 12, floor) > 0


def test_what_proves_nothing_is_worth_nothing(problem):
    _, S, alpha = problem
    W = graphical_lasso(S, alpha, penalize_diagonal=False, tol=1e-8).dual_covariance
    assert np.isfinite(dual_value(S, alpha, W))
    outside, moved = W.copy(), W + 1e-6 * np.eye(12)
    outside[0, 1] = outside[1, 0] = S[0, 1] + 1.01 * alpha
    for bad in (outside, moved, S - 2 * np.diag(np.diag(S))):
        assert dual_value(S, alpha, bad) == -np.inf
    indefinite = np.array([[1, 0.99, 0], [0.99, 1, 0.99], [0, 0.99, 1]])
    assert dual_value(indefinite, 0.5, indefinite) == -np.inf
    for answer in (np.full((12, 12), np.nan), -np.eye(12), np.zeros((12, 12))):
        assert excess(S, alpha, answer, 0.0) == np.inf


def test_the_loosest_tolerance_that_is_good_enough(problem):
    X, S, alpha = problem
    best = graphical_lasso(S, alpha, penalize_diagonal=False, tol=1e-10)
    floors = [dual_value(S, alpha, best.dual_covariance)]

    def solver(X, S, alphas, tol):
        tried.append(tol)
        return [best.precision + 3 * tol * np.eye(12)], 1.0

    tried = []
    tol, worst, seconds = loosest(solver, X, S, [alpha], floors, limit=30)
    assert tol == tried[-1] and worst <= 1e-5 and seconds == 1
    assert (
        len(tried) > 1
        and excess(S, alpha, best.precision + 30 * tol * np.eye(12), floors[0]) > 1e-5
    )
    assert (
        loosest(lambda *_: ([np.eye(12)], 0.0), X, S, [alpha], floors, limit=30) is None
    )


@pytest.mark.parametrize("command", ["python", "program"])
def test_a_solver_that_takes_too_long_is_interrupted(problem, command):
    X, S, alpha = problem

    def slow(X, S, alphas, tol):
        if command == "program":
            subprocess.run(["sleep", "600"], check=True)
        while True:
            pass

    assert loosest(slow, X, S, [alpha], [0.0], limit=0.2) is None
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_solver_that_is_too_slow_is_left_out_with_a_line(monkeypatch):
    own, said = solvers_here(lambda line: None)["privglasso"], []
    monkeypatch.setattr(
        benchmarks,
        "solvers_here",
        lambda echo: {"privglasso": own, "sleeper": lambda *_: sleep(600)},
    )
    rows = pd.DataFrame(
        measure_problem("v", 1, limit=1, seconds=0, rounds=7, echo=said.append)
    )
    assert set(rows.method) == {"floor", "privglasso"} and (rows.repeat == 0).all()
    assert len(said) == 1 and "sleeper on v" in said[0]


def test_what_was_measured_before_a_kill_is_kept_and_thrown_away_once_it_is_written(
    monkeypatch, tmp_path
):
    def killed(name, **_):
        measured.append(name)
        if measured == ["first", "second"]:
            raise KeyboardInterrupt
        return [{"problem": name}]

    results, measured = ResultsFolder(tmp_path, tmp_path / "cache"), []
    monkeypatch.setattr(measuring, "project_results", lambda profile: results)
    study = Study(
        "benchmark_toy", lambda profile: [{"name": "first"}, {"name": "second"}], killed
    )
    monkeypatch.setitem(noise_speed.PARTS, "toy", study)
    with pytest.raises(KeyboardInterrupt):
        write_benchmark("toy", echo=lambda line: None)
    table = write_benchmark("toy", echo=lambda line: None)
    assert table.problem.tolist() == ["first", "second"] and measured == [
        "first",
        "second",
        "second",
    ]
    write_benchmark("toy", echo=lambda line: None)
    assert measured == ["first", "second", "second", "first", "second"]


@pytest.mark.parametrize("count", [1, 4])
def test_the_solvers_here_solve_the_same_problems_in_the_same_order(problem, count):
    X, S, alpha = problem
    alphas = [alpha] if count == 1 else np.geomspace(3 * alpha, alpha, count).tolist()
    tight = graphical_lasso_path(S, alphas, penalize_diagonal=False, tol=1e-10)
    floors = [dual_value(S, result.alpha, result.dual_covariance) for result in tight]
    for name, solver in solvers_here(lambda line: None).items():
        answers, seconds = solver(X, S, alphas, 1e-7)
        far = [excess(S, *each) for each in zip(alphas, answers, floors, strict=True)]
        assert len(answers) == count and max(far) < 1e-5 and seconds > 0, name


def test_blocks():
    S = block_correlations(60, 20, seed=3)
    between = np.abs(S[:20, 20:])
    assert (
        between.max() <= 0.05
        and np.abs(np.triu(S[:20, :20], 1)).max() > 0.1
        and np.all(np.diag(S) == 1)
    )
    precision = graphical_lasso(S, 0.06, penalize_diagonal=False).precision
    assert np.all(precision[:20, 20:] == 0) and np.any(np.triu(precision[:20, :20], 1))


# ---------------------------------------------------------------------- peers


def test_a_peer_that_is_not_here_is_left_out_with_a_line(monkeypatch):
    said = []
    monkeypatch.setattr(
        measuring.importlib,
        "import_module",
        lambda name: (_ for _ in ()).throw(ImportError(name)),
    )
    assert peer("anything", said.append) is None and "anything" in said[0]
    assert set(noise_methods(2.0, 1000, said.append)) == {"privglasso", "numpy normal"}
    assert len(mechanism_methods(50, 2, said.append)) == 5
    monkeypatch.setattr(benchmarks.shutil, "which", lambda name: None)
    assert (
        set(solvers_here(said.append)) == {"privglasso", "scikit-learn"}
        and "R" in said[-1]
    )


def test_an_r_without_glasso_is_left_out(monkeypatch):
    monkeypatch.setattr(benchmarks.shutil, "which", lambda name: "/bin/Rscript")
    monkeypatch.setattr(
        benchmarks.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1)
    )
    assert "R glasso" not in solvers_here(lambda line: None)


# ---------------------------------------------------------------------- parts


def test_an_unknown_part_is_refused():
    with pytest.raises(InputError, match="only='sleep': give one of"):
        bench(only="sleep")


def test_an_unknown_problem_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(studies, "setting", lambda key, kind, profile: ["v", "moon"])
    monkeypatch.setattr(
        benchmarks, "measure_problem", lambda *_: pytest.fail("something ran")
    )
    for part in ("solver", "paths"):
        with pytest.raises(SettingsError, match="moon"):
            benchmarks.PARTS[part].jobs("quick")


COLUMNS = {
    "machine": ["what", "value"],
    "noise": ["sigma", "method", "repeat", "seconds"],
    "mechanisms": ["method", "repeat", "seconds"],
    "releases": ["method", "repeat", "seconds"],
    "memory": ["p", "block", "seconds", "matrices", "density", "excess"],
}
SOLVED = [
    "problem",
    "p",
    "penalties",
    "alpha",
    "density",
    "method",
    "repeat",
    "seconds",
    "tolerance",
    "excess",
]
COLUMNS |= {"solver": SOLVED, "paths": SOLVED}


@pytest.mark.long
@pytest.mark.parametrize("part", COLUMNS)
def test_a_rehearsal_writes_every_column_and_leaves_the_book_alone(
    part, monkeypatch, tmp_path
):
    monkeypatch.setattr(
        measuring,
        "project_results",
        lambda profile: ResultsFolder(tmp_path, tmp_path / "cache"),
    )
    monkeypatch.setattr(measuring, "_LONG_ENOUGH", 1e-9)
    table = write_benchmark(part, "quick", echo=lambda line: None)
    assert list(table) == COLUMNS[part] and len(
        pd.read_csv(tmp_path / f"benchmark_{part}.csv")
    ) == len(table)
    if "excess" in table:
        assert table.excess.max() <= 1e-5
    if "repeat" in table:
        assert table.groupby("method").repeat.nunique().min() >= (
            1 if part in ("solver", "paths") else 2
        )


@pytest.mark.parametrize("program", ["_MEMORY_PROGRAM", "_COMPILE_PROGRAM"])
def test_a_program_for_another_process_imports_what_exists(program):
    text = getattr(benchmarks, program).replace("{path!r}", "''")
    tree = ast.parse(text.replace("{alpha}", "1"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert len(imports) >= 2
    for node in imports:
        module = importlib.import_module(node.module)
        assert all(hasattr(module, alias.name) for alias in node.names)


# ---------------------------------------------------------------------- what was
# measured


def measured(part):
    "A committed table of measurements."
    try:
        return read_benchmark(part)
    except FileNotFoundError:
        pytest.skip(f"make bench has not measured {part}")


def test_the_machine_has_no_name():
    import platform

    assert platform.node() not in " ".join(measured("machine").value.astype(str))


@pytest.mark.long
def test_a_process_is_not_charged_with_what_its_parent_held():
    kept = np.ones(30_000_000)
    program = """
from privglasso.experiments.measuring import held, most_held
print(most_held() - held())
"""
    assert int(measuring.in_a_process(program)) < kept.nbytes / 2
