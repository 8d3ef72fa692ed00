"""The command line, as a stranger would use it."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import privglasso
import typer
from typer.testing import CliRunner

from privglasso.base import kernels
from privglasso.base.shell import say, say_json, sentence
from privglasso.base.validation import InputError, is_plain
from privglasso.base.shell import friendly
from privglasso.cli.commands import app
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.desk.plan import plan_publication
from privglasso.papers import claims
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.sphere import Ball
from privglasso.publish.files import read_release
from privglasso.publish.schema import Schema
from privglasso.recover import block_descent
from privglasso.recover.planning import MECHANISMS, plan
from privglasso.recover.recommendation import recommend


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def secret(tmp_path):
    rows = sample_gaussian(
        chain_precision(5, 0.4, scales=np.ones(5)), 5000, random_state=0
    )
    path = tmp_path / "secret.csv"
    pd.DataFrame(rows, columns=list("abcde")).to_csv(path, index=False)
    return path


def test_a_folder_is_published_as_its_table(secret, tmp_path):
    table, folder = pd.read_csv(secret), tmp_path / "parts"
    folder.mkdir()
    for k in range(4):
        table.iloc[1250 * k : 1250 * (k + 1)].to_parquet(folder / f"{k}.parquet")
    words = ["--mechanism", "covariance", "--mu", 1, "--seed", 5]
    for k, source in enumerate((secret, folder, folder / "?.parquet")):
        code, output = call("publish", source, tmp_path / f"open{k}.parquet", *words)
        assert code == 0, output
    first, *others = (read_release(tmp_path / f"open{k}.parquet") for k in range(3))
    assert all((each.second_moment == first.second_moment).all() for each in others)
    rows = ["--want", "rows", "--mu", 1, "--seed", 5]
    for k, source in enumerate((secret, folder)):  # into folders, too
        code, output = call("publish", source, tmp_path / f"rows{k}", *rows)
        assert code == 0, output
    one, two = (read_release(tmp_path / f"rows{k}").table.to_frame() for k in range(2))
    assert one.equals(two) and len(one) == 5000
    code, output = call("publish", folder, folder / "no.parquet", *words)
    assert code and "another folder" in output


def test_publish_inspect_recover(secret, tmp_path):
    release, edges = tmp_path / "open.parquet", tmp_path / "edges.csv"
    assert (
        call(
            "publish",
            secret,
            release,
            "--low",
            -6,
            "--high",
            6,
            "--neighbors",
            "cell",
            "--yes",
            "--sigma",
            0.5,
        )[0]
        == 0
    )
    assert read_release(release).secure
    code, output = call("inspect", release)
    assert (
        code == 0
        and "noise sd" in output
        and "δ = 1/n²" in output
        and "one cell were changed" in output
    )
    code, output = call("recover", release, edges)
    assert code == 0 and "4 edges, each at least" in output
    found = pd.read_csv(edges)
    strongest = {
        frozenset(pair)
        for pair in found[["source", "target"]].head(4).to_numpy().tolist()
    }
    assert strongest == {frozenset(pair) for pair in ("ab", "bc", "cd", "de")}


def test_bounds_for_each_column_come_from_a_file(secret, tmp_path):
    bounds, release = tmp_path / "bounds.csv", tmp_path / "open.parquet"
    stated = pd.DataFrame(
        {"column": list("edcba"), "low": range(-10, -5), "high": range(6, 11)}
    )
    stated.to_csv(bounds, index=False)
    assert (
        call(
            "publish",
            secret,
            release,
            "--mechanism",
            "table",
            "--yes",
            "--bounds",
            bounds,
            "--epsilon",
            5,
            "--delta",
            1e-6,
            "--seed",
            1,
        )[0]
        == 0
    )
    lattice = read_release(release).lattice
    assert np.all(
        np.abs(lattice.low * lattice.step - [-6, -7, -8, -9, -10]) <= lattice.step
    )
    stated.iloc[1:].to_csv(bounds, index=False)
    other = tmp_path / "other.parquet"
    code, output = call("publish", secret, other, "--bounds", bounds, "--mu", 1)
    assert code == 2 and "not stated: e" in output


def test_a_publication_names_what_was_typed(secret, tmp_path):
    words = ("publish", secret, tmp_path / "r.parquet")
    code, output = call(*words, "--mu", 1, "--seed", -1)
    assert code == 2 and "--seed -1: give" in output and "random_state" not in output
    code, output = call(*words, "--epsilon", 1e-300)
    assert code == 2 and "--epsilon 1e-300: too little" in output, output
    assert ", or give bounds" in output and output.count(" rows") == 1


def test_a_release_lost_in_its_noise_says_what_it_promises_and_what_it_lost(
    secret, tmp_path
):
    path = tmp_path / "r.parquet"
    assert (
        call(
            "publish",
            secret,
            path,
            "--low",
            -6,
            "--high",
            6,
            "--yes",
            "--sigma",
            5000,
            "--seed",
            4,
        )[0]
        == 0
    )
    code, output = call("inspect", path)
    assert (
        code == 2 and "δ = 1/n²" in output and "nothing of the data is left" in output
    )


def test_columns_may_be_numbered(secret, tmp_path):
    "pandas reads names such as 0, 1, 2 as numbers, and the header of a table as words."
    bounds, numbered = tmp_path / "bounds.csv", tmp_path / "numbered.csv"
    pd.read_csv(secret).set_axis(range(5), axis=1).to_csv(numbered, index=False)
    pd.DataFrame({"column": range(5), "low": -6, "high": 6}).to_csv(bounds, index=False)
    words = ("publish", numbered, tmp_path / "r.parquet", "--bounds", bounds)
    assert call(*words, "--mu", 1, "--numbered-columns")[0] == 0
    assert read_release(tmp_path / "r.parquet").columns == list("01234")


def test_what_is_promised_of_synthetic_rows_is_stated_for_the_records_behind_them(
    secret, tmp_path
):
    "δ = 1/n² counts the 5000 records: two hundred drawn rows would make it 2.5e-05."
    mechanism = MECHANISMS["synthetic"]((-6, 6), mu=1.0, rows=200)
    mechanism.publish(pd.read_csv(secret), random_state=0).to_parquet(
        tmp_path / "r.parquet"
    )
    code, output = call("inspect", tmp_path / "r.parquet")
    assert code == 0 and "δ = 1/n² rounded down = 1e-08" in output


@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_mechanism_from_the_shell(secret, tmp_path, kind):
    release, edges = tmp_path / "open.parquet", tmp_path / "edges.csv"
    words = (
        "--mechanism",
        kind,
        "--low",
        -6,
        "--high",
        6,
        "--mu",
        30,
        "--neighbors",
        "record",
        "--yes",
    )
    code, output = call("publish", secret, release, *words)
    assert code == 0 and "one record were replaced" in output and "μ = 30" in output
    published = read_release(release)
    assert (
        published.secure
        and published.mechanism == MECHANISMS[kind].__name__
        and published.n == 5000
    )
    code, output = call("inspect", release)
    assert (
        code == 0
        and "± of it" in output
        and all(f" {name} " in f" {output} " for name in "abcde")
    )
    for rule in ("ebic", "simultaneous"):
        assert call("recover", release, edges, "--rule", rule, "--force")[0] == 0
        strongest = {
            frozenset(pair)
            for pair in (
                pd.read_csv(edges)[["source", "target"]].head(4).to_numpy().tolist()
            )
        }
        assert strongest == {frozenset(pair) for pair in ("ab", "bc", "cd", "de")}


def test_a_covariance_has_no_rows_to_cross_validate(secret, tmp_path):
    release, edges = tmp_path / "open.parquet", tmp_path / "edges.csv"
    call(
        "publish",
        secret,
        release,
        "--mechanism",
        "covariance",
        "--low",
        -6,
        "--high",
        6,
        "--mu",
        5,
    )
    code, output = call("recover", release, edges, "--rule", "cv")
    assert (
        code == 2
        and "rows" in output
        and "Traceback" not in output
        and not edges.exists()
    )


@pytest.mark.parametrize(
    "kind, words",
    [("covariance", ("--sigma", 1)), ("synthetic", ("--mu", 1, "--integers"))],
)
def test_what_only_tables_can_have(secret, tmp_path, kind, words):
    release = tmp_path / "open.parquet"
    code, output = call(
        "publish",
        secret,
        release,
        "--mechanism",
        kind,
        "--low",
        -6,
        "--high",
        6,
        *words,
    )
    assert code == 2 and "for --mechanism table" in output and not release.exists()


WITHIN = ("--low", -6, "--high", 6)


def test_a_budget_is_spent_and_refuses(secret, tmp_path):
    file, first, second = (
        tmp_path / "budget.json",
        tmp_path / "one.parquet",
        tmp_path / "two.parquet",
    )
    assert call("budget", "new", file, "--mu", 1)[0] == 0
    assert (
        call("publish", secret, first, *WITHIN, "--mu", 0.8, "--budget", file)[0] == 0
    )
    assert Budget(file).spent().mu == pytest.approx(0.8) and read_release(first).secure
    code, output = call(
        "publish", secret, second, *WITHIN, "--mu", 0.8, "--budget", file
    )
    assert code == 2 and "does not fit" in output and not second.exists()
    assert (
        call(
            "publish",
            secret,
            second,
            *WITHIN,
            "--mu",
            0.5,
            "--mechanism",
            "covariance",
            "--budget",
            file,
        )[0]
        == 0
    )
    code, output = call("budget", "show", file)
    assert (
        code == 0
        and "one.parquet" in output
        and "two.parquet" in output
        and "CovarianceMechanism" in output
    )


def test_a_budget_is_stated_once_and_pays_for_no_seed(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "one.parquet"
    for words in (
        (),
        ("--mu", 1, "--epsilon", 1, "--delta", 1e-6),
        ("--epsilon", 1),
        ("--mu", 1, "--delta", 1e-6),
    ):
        code, output = call("budget", "new", file, *words)
        assert code == 2 and "either --mu" in output and not file.exists()
    assert (
        call(
            "budget",
            "new",
            file,
            "--epsilon",
            1,
            "--delta",
            1e-6,
            "--neighbors",
            "cell",
        )[0]
        == 0
    )
    assert Budget(file).limit().epsilon(1e-6) == pytest.approx(1)
    before = file.read_bytes()
    assert call("budget", "new", file, "--mu", 9)[0] == 2
    code, output = call(
        "publish", secret, release, *WITHIN, "--mu", 0.1, "--budget", file, "--seed", 1
    )
    assert (
        code == 2
        and "--seed" in output
        and not release.exists()
        and file.read_bytes() == before
    )


def test_damaged_and_absent_budgets(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "one.parquet"
    for content in (None, "{", "{}"):
        if content is not None:
            file.write_text(content)
        for words in (
            ("budget", "show", file),
            ("publish", secret, release, *WITHIN, "--mu", 1, "--budget", file),
        ):
            code, output = call(*words)
            assert (
                code == 2
                and "budget" in output
                and "Traceback" not in output
                and not release.exists()
            )


def test_a_plan_for_a_table_with_gaps_says_what_becomes_of_them():
    for words, gaps in (((), False), (("--gaps",), True)):
        code, output = call("plan", 20_000, 6, "--epsilon", 1, *words)
        assert code == 0 and ("cells are mostly missing" in output) == gaps
        planned = f"{plan_publication(20_000, 6, epsilon=1, gaps=gaps)}"
        assert output.split() == planned.split()


def test_a_release_says_at_the_shell_what_is_mostly_missing(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(9000, 3)), columns=[*"abc"])
    table["c"] = table.c.where(rng.random(9000) < 0.2)
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("--epsilon", 1, "--missing", "center", "--seed", 1)
    code, output = call("publish", tmp_path / "t.csv", tmp_path / "r.parquet", *words)
    assert code == 0 and "cells are mostly missing" in output  # before it was paid for
    code, output = call("inspect", tmp_path / "r.parquet")
    assert code == 0 and "holds whether there is a value: c" in " ".join(output.split())
    code, output = call("inspect", tmp_path / "r.parquet", "--json")
    told = json.loads(output)
    assert told["mostly_missing"] == ["c"] and told["set_aside"] == {}
    assert set(told["columns"]) == {*"abc"}


def test_the_plan_of_the_shell_is_that_of_python():
    code, output = call("plan", 20_000, 6, "--epsilon", 2, "--find", 0.2)
    offers = plan(
        {
            f"{name}, bounds": kind((0, 1), epsilon=2, delta=1e-9)
            for name, kind in MECHANISMS.items()
        },
        20_000,
        6,
    )
    assert code == 0 and "one record hidden" in output and "ε to find 0.2" in output
    smallest = offers.set_index("mechanism").smallest_partial_correlation
    found = smallest["covariance, bounds"]
    assert f"{found:.3g}" in output and "inf" in output
    best = recommend(20_000, 6, epsilon=2, delta=1e-9)
    assert best.name == "covariance" and f"Recommended: {best}." in output


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, neighbors, trials",
    [
        ("table", "cell", 1500),
        ("covariance", "record", 1000),  # each a whole release
    ],
)
def test_audits_from_the_shell(kind, neighbors, trials):
    words = ("--mechanism", kind, "--neighbors", neighbors, "--mu", 2, "--seed", 1)
    code, output = call("audit", *words, "--trials", trials)
    assert code == 0 and "not refuted" in output
    bound = float(output.split("μ ≥ ")[1].split(";")[0])
    assert 1.3 < bound <= 2  # a pair that hides little would show far less


def test_an_audit_without_a_budget_or_with_two_is_refused():
    for words in (
        (),
        ("--mu", 1, "--epsilon", 1, "--delta", 1e-6),
        ("--mu", 1, "--trials", 1),
        ("--mu", 1, "--p", 0),
    ):
        code, output = call("audit", *words)
        assert code == 2 and "Traceback" not in output


def test_integers_from_the_shell(tmp_path):
    table, release = tmp_path / "ratings.csv", tmp_path / "r.parquet"
    pd.DataFrame({"film": [1, 5, 3], "book": [2, 2, 4]}).to_csv(table, index=False)
    assert (
        call(
            "publish",
            table,
            release,
            "--low",
            1,
            "--high",
            5,
            "--yes",
            "--sigma",
            1.5,
            "--integers",
        )[0]
        == 0
    )
    assert (read_release(release).table.dtypes == np.int64).all()


@pytest.mark.parametrize(
    "words, remedy",
    [
        (("--low", 1, "--high", 0, "--mu", 1), "below its high bound"),
        (("--mechanism", "table", "--mu", 1), "bounds"),
        (("--mu", 0.001), "too little to find"),
        (("--low", 0, "--high", 1, "--epsilon", 1, "--delta", 2), "delta 2"),
    ],
)
def test_bad_publications_leave_no_file(secret, tmp_path, words, remedy):
    release = tmp_path / "open.parquet"
    code, output = call("publish", secret, release, *words)
    assert (
        code == 2
        and remedy in output
        and "Traceback" not in output
        and not release.exists()
    )


def test_bad_files_from_the_shell(secret, tmp_path):
    for words, remedy in [
        (("inspect", secret), "is not a release"),
        (("inspect", tmp_path / "nowhere.parquet"), "nowhere.parquet"),
        (("publish", tmp_path / "x.ods", tmp_path / "y.parquet"), ".xlsx"),
        # before anything is paid for: no command would read it
        (("publish", secret, tmp_path / "r.csv", *WITHIN, "--mu", 1), ".parquet"),
        (("publish", secret, tmp_path / "r", "--mu", 1, "--dry-run"), ".parquet"),
    ]:
        code, output = call(*words)
        assert code == 2 and remedy in output and "Traceback" not in output


@pytest.mark.parametrize("words", [("plan", 1, 3), ("plan", 100, 3, "--find", 2)])
def test_bad_plans_from_the_shell(words):
    code, output = call(*words)
    assert code == 2 and "Traceback" not in output


@pytest.mark.parametrize("words", [(1000, 1), (1000, 3, "--find", 2)])
def test_a_plan_that_is_refused_says_nothing_else(words):
    code, output = call("plan", *words)
    assert code == 2 and output.startswith("privglasso:")


def test_parts_of_the_computations_that_do_not_exist():
    for command, one in (("reproduce", "correction"), ("bench", "solver")):
        code, output = call(command, "--only", "weather")
        assert code == 2 and "only weather" in output and one in output


def commands(group, words=()):
    "All commands as the words one types."
    for name, command in group.commands.items():
        deeper = hasattr(command, "commands")
        yield from commands(command, (*words, name)) if deeper else [(*words, name)]


def test_every_command_and_option_has_help():
    app_command = typer.main.get_command(app)
    for words in commands(app_command):
        command = app_command
        for word in words:
            command = command.commands[word]
        assert command.help and command.help.strip().endswith("."), words
        helps = {p.name: getattr(p, "help", None) for p in command.params}
        assert all(helps.values()), (words, helps)
    assert call("publish", "--help")[0] == 0


def test_a_table_is_planned_by_its_shape_alone(tmp_path):
    "Cells that are not numbers are in nobody's way; the schema says what counts."
    path, schema = tmp_path / "t.csv", tmp_path / "s.toml"
    path.write_text("age,weight,name\n" + "1,2,x\n?,,y\n" * 10_000)
    schema.write_text('[columns.age]\nkind = "real"\n[columns.weight]\nkind = "real"\n')
    told = [
        call("plan", *words, "--epsilon", 1)
        for words in ((20_000, 3), (path,), (20_000, 2), (path, "--schema", schema))
    ]
    assert [code for code, _ in told] == [0] * 4
    assert told[0] == told[1] != told[2] == told[3]
    for words in ((20_000,), ("20,000", 3), (path, 3, "--schema", schema)):
        code, output = call("plan", *words)
        assert code == 2 and output.startswith("privglasso: ")


PRESSED = {
    "pu": "publish",
    "budget ": "new show --help",
    "budget new --e": "--epsilon",
    "publish a.csv ": "",  # names of files, by the shell itself
    "publish a.csv --mech": "--mechanism",
    "publish --mechanism co": "covariance copula",
    "publish --mechanism = c": "covariance copula",
    "publish --low -": "",
    "recover --rule ": "search fdr ebic simultaneous cv",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_tab_key_completes_in_bash():
    script = CliRunner().invoke(app, ["completion", "bash"]).output
    assert CliRunner().invoke(app, ["completion", "zsh"]).output.endswith(script)
    press = "COMP_WORDS=({}); COMP_CWORD={}; _privglasso; echo ${{COMPREPLY[*]}}"
    asked = []
    for typed in PRESSED:
        words = [f'"{word}"' for word in ["privglasso", *typed.split(" ")]]
        asked.append(press.format(" ".join(words), len(words) - 1))
    program = "\n".join([script, *asked, "complete -p privglasso"])
    run = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    *found, bound = run.stdout.splitlines()
    assert dict(zip(PRESSED, found, strict=True)) == PRESSED
    assert bound == "complete -o default -F _privglasso privglasso"


@pytest.mark.parametrize("verdict, code", [("FALSE", 0), ("true", 1)])
def test_a_verdict_that_its_example_does_not_bear_out_ends_with_one(
    monkeypatch, verdict, code
):
    "The table of one claim that its example refutes, under two verdicts."
    row = ("A", "Theorem 1", verdict, "there", "μ", 1.0, 2.0, True, code == 0)
    names = "paper name verdict source quantity promised true refuted agrees".split()
    table = pd.DataFrame([row], columns=names)
    monkeypatch.setattr(claims, "claims_table", lambda paper: table)
    for words in ((), ("--json",)):
        found, output = call("claims", *words)
        assert found == code and "Theorem 1" in output
        assert ("disagree" in output) == (code == 1)


def test_claims_of_one_paper():
    code, output = call("claims", "--paper", "camp")
    assert code == 0 and "Campbell et al." in output and "Guo" not in output
    code, output = call("claims", "--paper", "Nobody")
    assert code == 2 and "--paper Nobody: give one of Guo et al., " in output


def _raised(error):
    "A command that stops with an error while a private row is in a local variable."
    probe = typer.Typer(pretty_exceptions_enable=False)

    @probe.command()
    @friendly
    def probed():
        private = [PRIVATE, "row"]
        raise error if private else None

    return CliRunner().invoke(probe, [])


PRIVATE = 71234.625


@pytest.mark.parametrize(
    "error, code",
    [
        (ZeroDivisionError(PRIVATE), 1),
        (MemoryError(PRIVATE), 1),
        (KeyError(PRIVATE), 1),
        (ValueError(f"could not convert {PRIVATE}"), 1),
        (RuntimeError(PRIVATE), 1),
        (SystemExit(f"cell {PRIVATE}"), 1),
        (UnicodeDecodeError("utf-8", b"71234.625\xe9", 9, 10, "invalid"), 1),
        (ExceptionGroup("71234.625", [OSError(PRIVATE)]), 1),
        (OSError(f"cell {PRIVATE}"), 1),
        (OSError(28, f"cell {PRIVATE}", "/a/b.csv"), 2),
        (InputError("X", PRIVATE, "mend it"), 2),
        (KeyboardInterrupt(PRIVATE), 130),
    ],
)
def test_every_exception_ends_in_one_sentence_without_values(error, code):
    result = _raised(error)
    assert result.exit_code == code
    assert result.output.startswith("privglasso: ") and result.output.count("\n") == 1
    assert "71234" not in result.output and "xe9" not in result.output
    reached = result.exception
    while reached is not None:  # no frame of the command is carried on
        assert reached is not error
        reached = reached.__context__


def test_every_command_is_guarded():
    groups = [group.typer_instance for group in app.registered_groups]
    inner = [command for group in groups for command in group.registered_commands]
    assert len(groups) == 2 and len(inner) == 5
    for command in app.registered_commands + inner:
        assert hasattr(command.callback, "__wrapped__"), command
    assert app.pretty_exceptions_enable is False


PROGRAM = "from privglasso.cli.commands import app; app()"


def program(folder, *words, prelude="", **options):
    "The command line in a process of its own."
    text = f"import sys\n{prelude}\n{PROGRAM}"
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=folder,
        **options,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "prelude, words",
    [
        ("", ("--epsilon", "1e-200", "--delta", "1e-200")),
        (
            "import privglasso.publish.table as t\n"
            "def stop(self, values, *rest): raise MemoryError(values)\n"
            "t.GaussianMechanism._release = stop",
            ("--mechanism", "table", "--mu", 1),
        ),
    ],
)
def test_no_traceback_of_a_process_shows_a_row(tmp_path, prelude, words):
    (tmp_path / "t.csv").write_text(f"a,b\n{PRIVATE},2\n3,4\n")
    words = ("publish", "t.csv", "r.parquet", "--low", 0, "--high", 1e5, *words)
    done = program(tmp_path, *words, prelude=prelude)
    told = [x for x in done.stderr.splitlines() if not x.startswith("warning: ")]
    assert done.returncode in (1, 2) and len(told) == 1
    assert "71234" not in done.stdout + done.stderr
    assert not (tmp_path / "r.parquet").exists()


ODD_HEADERS = [
    "30,5",
    "age,5",
    "a,-.5e3",
    'a," 30"',
    '"1,5",b',
    "a,",
    ",b",
    "a,NA",
    "NaN,b",
    "inf,b",
    "True,b",
    "a,38.5C",
    "a,2020-01-02",
    "a,$30",
    "a,(30)",
    "a,٣٠",
    "30,30",
]


@pytest.mark.parametrize("header", ODD_HEADERS)
def test_a_header_like_a_record_is_refused_and_not_shown(tmp_path, header):
    table, release = tmp_path / "t.csv", tmp_path / "r.parquet"
    table.write_text(f"{header}\n40,6\n50,7\n60,8\n", encoding="utf-8")
    code, output = call("publish", table, release, *WITHIN, "--mu", 1)
    assert code == 2 and "--numbered-columns" in output and not release.exists()
    assert "30" not in output and "38.5" not in output and "2020" not in output


def test_a_column_without_a_name_is_told_from_a_record(secret, tmp_path):
    numbered, ended = tmp_path / "n.csv", tmp_path / "e.csv"
    pd.read_csv(secret).to_csv(numbered)
    ended.write_text("a;b;\n1;2;\n3;4;\n")
    for table in (numbered, ended):
        for words in (("publish", table, "-", "--mu", 1), ("schema", table, "-")):
            code, output = call(*words)
            assert code == 2 and "a column has no name" in output


def test_columns_are_named_as_a_person_would(secret, tmp_path):
    table, release = tmp_path / "t.csv", tmp_path / "r.parquet"
    names = {"a": "iron, mg/l", "b": " weight "}
    pd.read_csv(secret).rename(columns=names).to_csv(table, index=False)
    words = ("publish", table, release, "--mu", 1, "--seed", 1, "--force", "--drop")
    for dropped in ("iron, mg/l", ' weight, "iron, mg/l"'):
        assert call(*words, dropped)[0] == 0
        assert names["a"] not in read_release(release).columns
    assert read_release(release).columns == list("cde")
    call("schema", table, tmp_path / "s.toml")
    code, _ = call(*words, "weight", "--schema", tmp_path / "s.toml")
    assert code == 0 and read_release(release).columns == [names["a"], *"cde"]


def test_a_table_that_is_too_small_is_told_in_the_words_of_the_shell(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b\n" + "1,2\n3,4\n" * 20)
    code, output = call("publish", table, tmp_path / "r.parquet", "--epsilon", 1)
    assert code == 2 and "40 records" in output and "public units" not in output


def test_a_column_that_is_called_like_an_identifier_is_told(secret, tmp_path):
    table, words = tmp_path / "t.csv", ("--mu", 1, "--dry-run", "--json")
    pd.read_csv(secret).rename(columns={"a": "Patient ID"}).to_csv(table, index=False)
    call("schema", table, tmp_path / "s.toml")
    words = [str(word) for word in ("publish", table, "r.parquet", *words)]

    def warned(*more):
        done = CliRunner().invoke(app, [*words, *map(str, more)])
        return "Patient ID" in str(json.loads(done.stdout)["warnings"])

    assert warned() and warned("--low", -6, "--high", 6)
    assert not warned("--drop", "Patient ID")
    assert not warned("--schema", tmp_path / "s.toml")


def test_numbers_are_names_in_parquet_only_if_confirmed(tmp_path):
    table, release = tmp_path / "t.parquet", tmp_path / "r.parquet"
    pd.DataFrame({"30": [1, 2], "b": [3, 4]}).to_parquet(table)
    words = ("publish", table, release, *WITHIN, "--mu", 1)
    assert call(*words)[0] == 2 and not release.exists()
    code, output = call(*words, "--numbered-columns")
    assert code == 0 and "names: 30, b" in output
    assert read_release(release).columns == ["30", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n71234,1,2\n3,4,5\n",
        "a,b\n71234,1,\n3,4,\n",
        "a,b,c\n71234,1\n3,4\n",
        "a,b\n71234,1\n3,4,5\n",
        "a\n71234,1\n3,4\n",
        "a,b\n",
        "",
        "\n\n",
        "a,a\n71234,1\n3,4\n",
        "a,b\n71234,\n3,4\n",
        "a,b\n71234,x\n3,4\n",
        "a,b\n71234,inf\n3,4\n",
        "a,b\n71234,\udce9\n3,4\n",
        'a,b\n71234,"1\n3,4\n',
    ],
)
def test_of_a_table_that_is_not_whole_nothing_is_shown(tmp_path, text):
    "No name becomes an index; neither cells, bytes nor columns in question show."
    table, release = tmp_path / "t.csv", tmp_path / "r.parquet"
    table.write_bytes(text.encode("utf-8", "surrogateescape"))
    code, output = call("publish", table, release, *WITHIN, "--mu", 1)
    assert code == 2 and not release.exists() and "t.csv" in output
    assert "71234" not in output and "xe9" not in output and "['" not in output


def test_fractional_cells_are_not_located_and_cost_nothing(tmp_path):
    table, file = tmp_path / "t.csv", tmp_path / "budget.json"
    table.write_text("a,secretly\n1,2.5\n3,4\n")
    call("budget", "new", file, "--mu", 1)
    words = (*WITHIN, "--mu", 1, "--integers", "--budget", file)
    code, output = call("publish", table, tmp_path / "r.parquet", *words)
    assert code == 2 and "whole numbers" in output
    assert "secretly" not in output and "2.5" not in output
    assert Budget(file).spent().mu == 0


def test_names_are_shown_and_cannot_speak_to_the_terminal(tmp_path):
    table = tmp_path / "t.csv"
    words = ("publish", table, tmp_path / "r.parquet", *WITHIN, "--mu", 1)
    table.write_text("weight,\x1b[Kage\n1,2\n3,4\n")
    code, output = call(*words)
    assert code == 2 and "\x1b" not in output
    table.write_text("weight,age\n1,2\n3,4\n")
    code, output = call(*words)
    assert code == 0 and "names: weight, age" in output


NASTY = "\x1b]0;title\x07", "\x9b31m", "\u202egpj", "a\rb", "\u200e"


@pytest.mark.parametrize("nasty", NASTY)
def test_paths_cannot_speak_to_the_terminal(nasty, tmp_path):
    code, output = call("inspect", tmp_path / f"{nasty}.parquet")
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in nasty)
    assert code == 2 and f"{shown}.parquet" in output
    assert is_plain(output.replace("\n", ""))


def test_numbers_for_machines_stay_json_and_lines_stay_lines(capsys):
    names = {"a\x7f\x9b": 1.0, "größe\u202e": 2.0, "b\U000e0041": 3.0}
    say_json(names)
    assert json.loads(capsys.readouterr().out) == names
    say("two\nlines")
    assert capsys.readouterr().out == "two\nlines\n"


def test_bounds_are_not_shifted_by_a_short_header(secret, tmp_path):
    stated, release = tmp_path / "bounds.csv", tmp_path / "r.parquet"
    stated.write_text("column,low,high\n" + "".join(f"{c},x,-6,6\n" for c in "abcde"))
    code, output = call("publish", secret, release, "--bounds", stated, "--mu", 1)
    assert code == 2 and "3 names for 4 columns" in output and not release.exists()


def _outputs(folder, end):
    "Everything that is no place for an output, and whether --force makes it one."
    (folder / f"file{end}").write_text("mine")
    (folder / f"folder{end}").mkdir()
    (folder / f"link{end}").symlink_to(folder / f"file{end}")
    (folder / f"nowhere{end}").symlink_to(folder / "absent")
    os.link(folder / "t.csv", folder / f"twin{end}")
    names = ("twin", "folder", "link", "nowhere", "absent/x")
    never = dict.fromkeys(["t.csv", "r.parquet", *(f"{name}{end}" for name in names)])
    return never | {f"file{end}": True}


@pytest.mark.skipif(os.name != "posix", reason="no symbolic links of POSIX")
def test_outputs_replace_nothing_unless_forced_and_no_input_ever(secret, tmp_path):
    table = secret.rename(tmp_path / "t.csv")
    before, release = table.read_bytes(), tmp_path / "r.parquet"
    words = ("publish", table)
    call(*words, release, *WITHIN, "--mu", 30)
    written = release.read_bytes()
    for name, forced in _outputs(tmp_path, ".parquet").items():
        path = tmp_path / name
        if name != "r.parquet":
            assert call(*words, path, *WITHIN, "--mu", 1)[0] == 2, name
            if not forced:
                assert call(*words, path, *WITHIN, "--mu", 1, "--force")[0] == 2, name
        assert table.read_bytes() == before and release.read_bytes() == written
    for name, forced in _outputs(tmp_path, ".csv").items():
        path = tmp_path / name
        if name not in ("t.csv", "twin.csv"):
            assert call("recover", release, path)[0] == 2, name
            if not forced:
                assert call("recover", release, path, "--force")[0] == 2, name
        assert table.read_bytes() == before and release.read_bytes() == written
    for end in (".csv", ".parquet"):
        assert (tmp_path / f"file{end}").read_text() == "mine"
    assert call("recover", release, tmp_path / "file.csv", "--force")[0] == 0
    assert "source" in (tmp_path / "file.csv").read_text()
    forced = (*words, tmp_path / "file.parquet", *WITHIN, "--mu", 30, "--force")
    assert call(*forced)[0] == 0 and read_release(tmp_path / "file.parquet").n == 5000


def test_force_is_offered_only_where_it_is_to_be_had(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "r.parquet"
    words = ("publish", secret, release, "--mu", 0.3)
    call("budget", "new", file, "--mu", 1)
    call(*words)
    assert "--force" in call(*words)[1]
    for refused in ((*words, "--budget", file, "--force"), ("budget", "new", file)):
        code, output = call(*refused, *(() if "--mu" in refused else ("--mu", 1)))
        assert code == 2 and "already" in output and "--force" not in output


def test_what_a_budget_pays_for_replaces_nothing(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "r.parquet"
    call("budget", "new", file, "--mu", 1)
    words = ("publish", secret, release, *WITHIN, "--mu", 0.3, "--budget", file)
    assert call(*words)[0] == 0
    before = file.read_bytes(), release.read_bytes()
    assert call(*words, "--force")[0] == 2
    assert call("publish", secret, file, *WITHIN, "--mu", 0.3, "--force", *words[-2:])
    assert (file.read_bytes(), release.read_bytes()) == before


def test_what_keeps_accounts_is_never_replaced(secret, tmp_path):
    release, home = tmp_path / "r.parquet", tmp_path / "home"
    call("publish", secret, release, "--mu", 1)
    (home / "secret").mkdir(parents=True)
    kept = [tmp_path / f"b{end}" for end in ("", ".json", ".svg", ".html", ".parquet")]
    for path in kept:
        Budget.create(path, Guarantee(1.0, "record"))
    for name in ("plan.json", "secret/key"):
        kept += [home / name]
        kept[-1].write_text("mine")
    before = [path.read_bytes() for path in kept]
    edges, *named = kept[:5]
    for words in (
        *(("recover", release, path) for path in (edges, named[0], *kept[5:])),
        ("recover", release, tmp_path / "e.csv", "--figure", named[1]),
        ("report", release, named[2]),
        ("publish", secret, named[3], "--mu", 1),
        *(("schema", secret, path) for path in kept),
    ):
        code, output = call(*words, "--force")
        assert code == 2 and "never replaced: give another name" in output, output
        assert "path" not in output
    for write in (Schema({"a": {}}).write, read_release(release).to_parquet):
        for path in kept:
            with pytest.raises(InputError, match="never replaced"):
                write(path, replace=True)
    assert [path.read_bytes() for path in kept] == before


def test_the_demonstration_fills_no_folder_that_is_in_use(tmp_path):
    (tmp_path / "grid.csv").write_text("mine")
    assert call("demo", "--data", "grid", "--folder", tmp_path)[0] == 2
    assert (tmp_path / "grid.csv").read_text() == "mine"


STOPS = [(KeyboardInterrupt(), 130), (OSError(28, "full"), 2), (MemoryError(), 1)]


@pytest.mark.parametrize("error, code", STOPS)
@pytest.mark.parametrize("moment", ["before", "charged", "written"])
def test_a_stopped_publication_says_what_it_cost(
    secret, tmp_path, monkeypatch, error, code, moment
):
    file, release = tmp_path / "budget.json", tmp_path / "r.parquet"
    call("budget", "new", file, "--mu", 1)
    whole = Budget.paying

    @contextmanager
    def stopped(self, path, *promises, shape, **named):
        if moment != "before":
            with whole(self, path, *promises, shape=shape, **named) as charge:
                charge(*shape)
                if moment == "written":
                    yield charge
        raise error

    monkeypatch.setattr(Budget, "paying", stopped)
    words = ("publish", secret, release, *WITHIN, "--mu", 0.3, "--budget", file)
    found, output = call(*words)
    assert found == code and "Traceback" not in output
    charged, written = Budget(file).spent().mu > 0, release.exists()
    assert (charged, written) == (moment != "before", moment == "written")
    assert ("μ was charged to budget.json" in output) == charged
    assert ("μ was not charged to budget.json" in output) == (not charged)
    assert ("r.parquet is whole" in output) == written
    assert ("no release was written" in output) == (not written)


@pytest.mark.parametrize("error, code", STOPS)
@pytest.mark.parametrize("call_of", ["os.fsync", "os.replace"])
def test_wherever_a_publication_stops_it_tells_the_truth(
    secret, tmp_path, monkeypatch, error, code, call_of
):
    "The first, second and third time that something is written."
    for k in range(3):
        file, release = tmp_path / f"b{k}.json", tmp_path / f"r{k}.parquet"
        call("budget", "new", file, "--mu", 1)
        left, real = [k], getattr(os, call_of[3:])

        def fails(*args, left=left, real=real):
            left[0] -= 1
            if left[0] < 0:
                raise error
            return real(*args)

        with monkeypatch.context() as patch:
            patch.setattr(call_of, fails)
            words = (*WITHIN, "--mu", 0.3, "--budget", file)
            found, output = call("publish", secret, release, *words)
        charged, written = Budget(file).spent().mu > 0, release.exists()
        assert found == (0 if left[0] >= 0 else code)
        if found:
            assert ("μ was charged" in output) == charged
            assert ("is whole" in output) == written


@pytest.mark.skipif(os.name != "posix", reason="no signals of POSIX")
def test_ctrl_c_waits_for_a_library_that_is_loading(tmp_path):
    "A module that interrupts itself while it loads, as a person might."
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(.01)\nprint('loaded')\n"
    )
    prelude = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.path.insert(0, '.')\nfrom privglasso.privacy import budget\n"
        "def load(*words, **named):\n    import slow, time; time.sleep(60)\n"
        "budget.Budget.create = load"
    )
    done = program(tmp_path, *"budget new b.json --mu 1".split(), prelude=prelude)
    assert done.returncode == 130 and done.stdout == "loaded\n"
    assert done.stderr == "privglasso: stopped by Ctrl-C\n"


@pytest.mark.long
def test_a_plan_without_delta_asks_each_number_of_records_at_its_own():
    "1/n² of the records that are found, not of those that were asked about."
    words = ("plan", 20_000, 6, "--epsilon", 1, "--find", 0.35)
    own, fixed = call(*words)[1], call(*words, "--delta", 2.5e-9)[1]
    assert "1.33e+11" in own and "1.33e+11" not in fixed


CENTER = ("--missing", "center")


def test_a_rehearsal_spends_and_writes_nothing(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "r.parquet"
    call("budget", "new", file, "--epsilon", 2, "--delta", 1e-8)
    words = ("publish", secret, release, "--epsilon", 1, "--budget", file)
    code, output = call(*words, "--dry-run")
    assert code == 0 and "it fits" in output and "δ = 1e-08" in output
    assert not release.exists() and Budget(file).spent().mu == 0
    secret.write_text("a,b\n" + "x,\n" * 3000)  # no cell is looked at, and it says so
    words = ("publish", secret, release, "--epsilon", 1, "--dry-run")
    for more, unknown in (((), "number, and none is missing;"), (CENTER, "number;")):
        code, output = call(*words, *more)
        assert code == 0 and f"whether every cell is a finite {unknown}" in output
        told = json.loads(call(*words, *more, "--json")[1])["not_checked"]
        assert f"{told}; otherwise publish will refuse" in output
    assert call(*words[:-1])[0] == 2
    code, output = call("budget", "show", file, "--json")
    assert code == 0 and json.loads(output)["record"]["left"] == pytest.approx(2)


def test_epsilon_comes_back_as_it_was_stated(secret, tmp_path):
    release = tmp_path / "r.parquet"
    code, output = call("publish", secret, release, "--epsilon", 5, "--json")
    told = json.loads(output)
    assert code == 0 and told["delta"] == 1e-8
    assert told["epsilon"] == pytest.approx(5, rel=1e-3) and told["epsilon"] <= 5
    assert "ε = 5 at δ" in call("inspect", release)[1]


def test_columns_can_be_dropped_and_bounds_are_stated_once(secret, tmp_path):
    release, bounds = tmp_path / "r.parquet", tmp_path / "bounds.csv"
    words = ("publish", secret, release, "--epsilon", 5)
    bounds.write_text("column,low,high\n")
    for more in (
        ("--drop", "z"),
        ("--low", 0),
        ("--low", 0, "--high", 1, "--bounds", bounds),
        ("--missing", "center", "--low", 0, "--high", 1),
    ):
        code, output = call(*words, *more)
        assert code == 2 and not release.exists() and "None" not in output, more
    code, output = call(*words, "--drop", "a, b")
    assert code == 0 and "left out: a, b" in output
    assert read_release(release).columns == ["c", "d", "e"]


def test_a_schema_from_the_shell(secret, tmp_path):
    stated, release = tmp_path / "schema.toml", tmp_path / "r.parquet"
    assert call("schema", secret, stated)[0] == 0
    assert call("schema", secret, stated)[0] == 2  # nothing is replaced
    words = ("publish", secret, release, "--schema", stated, "--epsilon", 5)
    assert call(*words, "--low", 0, "--high", 1)[0] == 2
    code, output = call(*words, "--mechanism", "table")
    assert code == 2 and "low and high of every column" in output
    assert call(*words, "--drop", "a")[0] == 0
    assert read_release(release).columns == list("bcde")


def test_what_is_advised_about_lines_and_sheets_can_be_done(tmp_path):
    table, scheme, book = (tmp_path / name for name in ("t.csv", "s.toml", "t.xlsx"))
    rows = pd.DataFrame(sample_gaussian(chain_precision(3, 0.4), 400, random_state=0))
    text = (rows := rows.set_axis(list("abc"), axis=1)).to_csv(index=False)
    for below, told in (("Total,1,2\n", "like a total"), ("source: us\n", "more or")):
        table.write_text("A report\n" + text + below)
        words = ("--skip-rows", 1, "--force")
        code, output = call("schema", table, scheme, *words)
        assert code == 2 and told in output and "schema with --" in output, output
        words = ("--skip-rows", 1, "--footer", 1, "--force")
        code, output = call("schema", table, scheme, *words)
        assert code == 0, output
        words = ("--schema", scheme, "--mu", 1, "--dry-run")
        code, output = call("publish", table, tmp_path / "r.parquet", *words)
        assert code == 0 and "3 columns of 400 records" in output, output
    hidden = rows.set_axis(["a\x1b[31m", "b", "c"], axis=1)
    hidden.to_csv(table, index=False)
    code, output = call("schema", table, scheme, "--force")
    assert code == 2 and "the table: column names hold control" in output
    rows.iloc[:, :0].to_parquet(tmp_path / "none.parquet")
    code, output = call("schema", tmp_path / "none.parquet", scheme, "--force")
    assert code == 2 and "none.parquet: the table has no columns" in output
    table.write_text(text)
    with pd.ExcelWriter(book) as made:
        for name in ("one", "two"):
            rows.to_excel(made, sheet_name=name, index=False)
    for name in ((), ("--sheet", "three")):
        code, output = call("schema", book, scheme, *name, "--force")
        assert code == 2 and "privglasso schema with --sheet NAME" in output
    assert call("schema", book, scheme, "--sheet", "two", "--force")[0] == 0
    assert Schema.read(scheme).file.sheet == "two"
    for words in (("--sep", ";;"), ("--encoding", "klingon"), ("--footer", -1)):
        code, output = call("schema", table, scheme, *words, "--force")
        assert code == 2 and f"{words[0]} {words[1]}: " in output, output


def test_a_pipe_that_closes_early_is_no_error(tmp_path):
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-c", PROGRAM, "plan", "1000", "3", "--epsilon", "1"]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="no pipes of POSIX")
@pytest.mark.parametrize("redirection", ["| true", ">&-"])
@pytest.mark.parametrize("words", ["--help", "plan --help", "--version"])
def test_help_that_nobody_reads_is_no_error(redirection, words):
    program = f"{sys.executable} -c '{PROGRAM}' {words}"
    line = f"sleep 0.2; {program}; echo $? >&2"
    shell = f"({line}) {redirection}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True)
    assert done.stderr == "0\n"


def streamed(folder, words, **options):
    "A command in a process of its own: code, bytes of the output, what was said."
    words = [sys.executable, "-c", PROGRAM, *map(str, words)]
    options = {"stdout": subprocess.PIPE, "cwd": folder} | options
    done = subprocess.run(words, stderr=subprocess.PIPE, **options)
    return done.returncode, done.stdout, done.stderr.decode()


posix = pytest.mark.skipif(os.name != "posix", reason="no pipes and devices of POSIX")
SMALL = ("publish", "secret.csv", *WITHIN, "--epsilon", 5, "--seed", 1)


@pytest.mark.long
@posix
def test_the_standard_output_gets_the_output_and_nothing_else(secret, tmp_path):
    assert call(*SMALL[:1], secret, tmp_path / "r.parquet", *SMALL[2:])[0] == 0
    release = tmp_path / "r.parquet"
    code, output, said = streamed(tmp_path, (*SMALL, "-", "--json"))
    assert code == 0 and output == release.read_bytes()
    assert json.loads(said[said.index("{") :])["written"]
    code, output, said = streamed(
        tmp_path, ("recover", "r.parquet", "-", "--form", "json")
    )
    assert code == 0 and "edges, each at least" in said
    graph = nx.node_link_graph(json.loads(output), edges="links")
    assert set(graph) == set("abcde") and len(graph.edges) >= 4
    with open(tmp_path / "s.toml", "wb") as file:  # after what is there already
        file.write(b"# mine\n")
        file.flush()
        words = ("schema", "secret.csv", "/dev/stdout")
        assert streamed(tmp_path, words, stdout=file)[0] == 0
    assert call("schema", secret, tmp_path / "t.toml")[0] == 0
    written, plain = (tmp_path / f"{name}.toml" for name in "st")
    assert written.read_text() == "# mine\n" + plain.read_text()
    assert not (tmp_path / "-").exists() and not list(tmp_path.glob(".*"))


@pytest.mark.long
@posix
def test_pipes_and_devices_stay_what_they_are(secret, tmp_path):
    pipe = tmp_path / "pipe.graphml"
    os.mkfifo(pipe)
    assert call(*SMALL[:1], secret, tmp_path / "r.parquet", *SMALL[2:])[0] == 0
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        code, output, said = streamed(tmp_path, ("recover", "r.parquet", pipe))
        read = reader.stdout.read()
    assert code == 0 and b"edges, each at least" in output and said == ""
    assert len(nx.parse_graphml(read.decode()).edges) >= 4
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        assert call(*SMALL[:1], secret, *SMALL[2:], pipe)[0] == 0
        read = reader.stdout.read()
    assert read == (tmp_path / "r.parquet").read_bytes() and pipe.is_fifo()
    assert call("schema", secret, "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.long
@posix
def test_a_reader_that_goes_away_is_no_error_and_nothing_unread_is_paid(
    secret, tmp_path
):
    file, words = tmp_path / "budget.json", ("--mu", 0.3, "--budget", "budget.json")
    call("budget", "new", file, "--mu", 1)
    read, write = os.pipe()
    os.close(read)
    code, _, said = streamed(
        tmp_path, ("publish", "secret.csv", "-", *WITHIN, *words), stdout=write
    )
    assert code == 0 and "μ was not charged to budget.json" in said
    assert Budget(file).spent().mu == 0
    code, _, said = streamed(tmp_path, ("schema", "secret.csv", "-"), stdout=write)
    assert code == 0 and "Broken" not in said
    os.close(write)
    if os.path.exists("/dev/full"):
        words = ("--mu", 0.3, "--budget", file)
        code, said = call("publish", secret, "/dev/full", *WITHIN, *words)
        assert code == 2 and "μ was charged to budget.json" in said
        assert "no whole release" in said and Budget(file).spent().mu > 0


@posix
def test_no_stream_leads_to_what_a_command_reads_or_to_a_file_of_python(
    secret, tmp_path
):
    before = secret.read_bytes()
    with open(secret, "ab") as file:
        code, _, said = streamed(tmp_path, (*SMALL, "-", "--force"), stdout=file)
    assert code == 2 and "reads that" in said and secret.read_bytes() == before
    with open(tmp_path / "mine", "wb") as file:  # not handed on
        path = f"/dev/fd/{file.fileno()}"
        assert call("schema", secret, path, "--force")[0] == 2
    assert (tmp_path / "mine").read_bytes() == b""


@posix
@pytest.mark.parametrize("place", ["-", "/dev/stdout", "/dev/fd/1"])
def test_edges_and_numbers_for_machines_are_never_mixed(place, secret, tmp_path, capfd):
    release = tmp_path / "r.parquet"
    call("publish", secret, release, "--mu", 1, "--seed", 1)
    words = ["recover", str(release), place, "--json"]
    result = CliRunner().invoke(app, words)
    edges = capfd.readouterr().out
    assert result.exit_code == 0 and not result.stdout
    told = json.loads(result.stderr)["edges"]
    assert len(edges.splitlines()) == 1 + len(told) > 4
    assert edges.startswith("source,target,")


def test_the_version_is_said():
    assert call("--version") == (0, f"privglasso {privglasso.__version__}")


def test_recover_writes_what_the_ending_says(tmp_path):
    rows = np.random.default_rng(0).standard_normal((20_000, 4))
    rows[:, 1] += 0.6 * rows[:, 0]
    rows[:, 2] -= 0.6 * rows[:, 1]
    rows[:, 3] *= 1e-4
    release = tmp_path / "r.parquet"
    mechanism = CovarianceMechanism((-6, 6), mu=1.0, clipping="box")
    table = pd.DataFrame(rows, columns=["a", "ä & <b>", "c", "lost"])
    mechanism.publish(table, random_state=0).to_parquet(release)
    readers = {
        "graphml": nx.read_graphml,
        "gexf": nx.read_gexf,
        "json": lambda path: nx.node_link_graph(
            json.loads(path.read_text(encoding="utf-8")), edges="links"
        ),
    }
    pairs = {frozenset(pair) for pair in (("a", "ä & <b>"), ("ä & <b>", "c"))}
    for ending, read in readers.items():
        path, figure = tmp_path / f"edges.{ending}", tmp_path / f"{ending}.svg"
        options = "--level", 0.05, "--figure", figure
        code, output = call("recover", release, path, *options)
        assert code == 0 and "left out: lost" in output and "2 edges" in output
        graph = read(path)
        assert set(map(frozenset, graph.edges)) == pairs and "c" in graph
        weights = nx.get_edge_attributes(graph, "weight").values()
        assert min(weights) < 0 < max(weights)
        assert figure.read_bytes().lstrip().startswith(b"<?xml")
    code, output = call("recover", release, tmp_path / "edges.csv")
    assert code == 0 and "standard_error" in output
    table = pd.read_csv(tmp_path / "edges.csv")
    assert (table.p_value < 1e-6).all() and len(table) == 2
    for arguments in (
        [tmp_path / "edges.txt"],
        ["--figure", tmp_path / "figure.doc"],
        [tmp_path / "edges.csv"],
        ["--level", 2],
    ):
        assert call("recover", release, *arguments)[0] != 0
    assert not (tmp_path / "edges.txt").exists()


def test_bounds_are_checked_for_a_part_of_the_budget(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "r.parquet"
    call("budget", "new", file, "--mu", 1)
    paid = ("--mu", 1, "--check-bounds", 0.1)
    words = ("publish", secret, release, "--low", -1, "--high", 1, *paid)
    code, output = call(*words, "--budget", file, "--json")
    told = json.loads(output[output.index("{") :])
    # of a Gaussian column with variance 1, 32 % lie outside of ±1
    found = [each["outside"] for each in told["outside"].values()]
    assert code == 0 and found == pytest.approx([0.32] * 5, abs=0.03)
    assert told["mu"] == pytest.approx(1) and told["mu_of_check"] ** 2 < 0.1001
    assert read_release(release).guarantee.mu ** 2 == pytest.approx(0.9)
    assert Budget(file).spent().mu == pytest.approx(1)
    release.unlink()
    for share, *more in ((0,), (1,), (0.1, "--mechanism", "tree")):
        words = ("publish", secret, release, "--mu", 1, "--check-bounds", share)
        assert call(*words, *more)[0] == 2 and not release.exists()
    assert call("publish", secret, release, *paid)[0] == 2  # no bounds are stated


def test_noise_on_cells_is_published_only_if_it_is_meant(secret, tmp_path):
    release = tmp_path / "r.parquet"
    words = ("publish", secret, release, "--low", -5, "--high", 5, "--mu", 1)
    code, output = call(*words, "--mechanism", "table")
    assert code == 2 and "raw records" in output and "--yes" in output
    assert not release.exists()
    assert call(*words, "--mechanism", "table", "--yes")[0] == 0


def test_every_result_is_to_be_had_for_machines(secret, tmp_path):
    release, file = tmp_path / "r.parquet", tmp_path / "budget.json"
    told = lambda *words: json.loads(
        CliRunner().invoke(app, [str(word) for word in (*words, "--json")]).stdout
    )
    assert told("budget", "new", file, "--epsilon", 1, "--delta", 1e-6)["epsilon"] == 1
    assert told("schema", secret, tmp_path / "s.toml")["used"] == list("abcde")
    words = ("--mu", 5, "--budget", file, "--dry-run")
    assert told("publish", secret, release, *words)["fits"] is False
    assert told("publish", secret, release, "--mu", 1, "--seed", 1)["written"]
    found = told("recover", release)
    assert len(found["edges"]) >= 4 and found["threshold"] > 3
    tested = told("recover", release, tmp_path / "edges.csv", "--level", 0.05)
    assert tested["level"] == 0.05 and len(pd.read_csv(tmp_path / "edges.csv")) == len(
        tested["edges"]
    )
    assert told("audit", "--mu", 1, "--trials", 100)["refuted"] is False
    assert told("data")["grid11"]["columns"] == 11


def test_a_release_in_numbers(secret, tmp_path):
    release = tmp_path / "r.parquet"
    call("publish", secret, release, "--epsilon", 5)
    code, output = call("inspect", release, "--json")
    told = json.loads(output)
    assert code == 0 and told["records"] == 5000 and list(told["columns"]) == [*"abcde"]
    assert told["epsilon"] == pytest.approx(5, rel=1e-3) and told["secure"]


def test_a_budget_that_is_read_only_is_left_alone(secret, tmp_path):
    file, release = tmp_path / "budget.json", tmp_path / "r.parquet"
    call("budget", "new", file, "--mu", 1)
    file.chmod(0o444)
    code, output = call("publish", secret, release, "--mu", 0.5, "--budget", file)
    assert code == 2 and "read-only" in output and not release.exists()
    assert Budget(file).spent().mu == 0


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
@pytest.mark.parametrize("words", ["--version", "--help", "plan 100 3 --epsilon 1"])
def test_output_on_a_full_disk_ends_in_one_sentence(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.long
def test_a_graph_by_votes_from_the_command_line(tmp_path):
    strong = chain_precision(5, 0.4, scales=np.ones(5))
    rows, table = sample_gaussian(strong, 9000, random_state=0), tmp_path / "t.csv"
    pd.DataFrame(rows, columns=list("abcde")).to_csv(table, index=False)
    release, ledger = tmp_path / "open.parquet", tmp_path / "ledger.json"
    limit = ("--mu", 0.1, "--failure", 1e-6, "--pure", 1)
    code, output = call("budget", "new", ledger, *limit)
    assert code == 0 and "ε = 1 (of 1)" in output
    votes = ("--mechanism", "votes", "--epsilon", 1, "--delta", 1e-7)
    code, output = call("publish", table, release, *votes, "--budget", ledger)
    assert code == 0 and "by votes of" in output
    other = tmp_path / "2.parquet"
    code, output = call("publish", table, other, *votes, "--budget", ledger)
    assert code and "ε = 1 about one record does not fit" in output
    assert "pure record" in call("budget", "show", ledger)[1]
    code, output = call("inspect", release)
    assert code == 0 and "a b" in output and "ε = 1, but for a chance" in output
    told = json.loads(call("inspect", release, "--json")[1])
    assert (told["pure"], told["mu"], told["decided"]) == (1.0, 0.0, True)
    pairs = [[edge["source"], edge["target"]] for edge in told["edges"]]
    assert pairs == [[*pair] for pair in ("ab", "bc", "cd", "de")]
    for words, told in (
        (("--mu", 1), "--failure: state it beside mu"),
        (("--epsilon", 1, "--check-bounds", 0.1), "votes"),
        (("--epsilon", 1, "--blocks", 9000), "give at most 4500"),
    ):
        code, output = call("publish", table, other, "--mechanism", "votes", *words)
        assert code == 2 and told in output
    options = ("--blocks", 60, "--cuttings", 2, "--threshold", 0.6)
    options += ("--estimator", "neighborhoods")
    code, output = call("publish", table, other, *votes, *options, "--dry-run")
    assert code == 0 and "rehearsal" in output
    code, output = call("publish", table, other, "--mu", 1, "--blocks", 9)
    assert code == 2 and "--blocks: is for --mechanism votes" in output
    code, output = call("audit", "--mechanism", "votes", "--epsilon", 1, "--delta", 0.1)
    assert code == 2 and "too slow" in output


def test_rows_with_margins_from_the_command_line(tmp_path):
    table, schema = tmp_path / "people.csv", tmp_path / "schema.toml"
    rng = np.random.default_rng(0)
    age = np.rint(45 + 12 * rng.normal(size=5000)).astype(int)
    ward = np.where(rng.normal(size=5000) > 0, "A", "B")
    people = pd.DataFrame({"age": age, "income": 7e4 + rng.normal(size=5000)})
    people.assign(ward=ward).to_csv(table, index=False)
    schema.write_text(
        '[columns.age]\nkind = "integer"\n[columns.income]\n'
        '[columns.ward]\nkind = "category"\nlevels = ["A", "B"]\n'
    )
    release, other = tmp_path / "open.parquet", tmp_path / "other.parquet"
    copula = ("--mechanism", "copula", "--epsilon", 2)
    code, output = call("publish", table, release, "--schema", schema, *copula)
    assert code == 0 and "CopulaMechanism" in output
    rows = read_release(release).table
    assert list(rows) == ["age", "income", "ward=B"]
    assert (rows[["age", "ward=B"]] % 1 == 0).all(axis=None)
    assert not (rows.income % 1 == 0).all()
    for words in (
        (*copula, "--whole", "wage"),
        (*copula, "--low", 0, "--high", 1),
        (*copula, "--schema", schema, "--whole", "age"),
        (*copula, "--drop", "ward,income"),
        (*copula, "--missing", "center"),
        ("--whole", "age", "--epsilon", 2),
        ("--mechanism", "copula", "--sigma", 1),
    ):
        if "--drop" not in words and "--schema" not in words:
            words += ("--drop", "ward")
        assert call("publish", table, other, *words)[0] == 2 and not other.exists()


def test_rows_with_margins_are_planned_and_audited():
    code, output = call("plan", 20_000, 5, "--epsilon", 1, "--json")
    planned = json.loads(output)["copula"]
    assert code == 0 and 0 < planned["finds partial correlations from"] < 0.1
    code, output = call(
        *("audit", "--mechanism", "copula", "--mu", 3, "--trials", 40, "--seed", 0)
    )
    assert code == 0 and "not refuted" in output


def test_a_second_look_from_the_command_line(tmp_path):
    table, release = tmp_path / "people.csv", tmp_path / "r.parquet"
    rng = np.random.default_rng(0)
    common = rng.normal(size=(20_000, 1))
    rows = common + rng.normal(0, 0.1, (20_000, 5))
    pd.DataFrame(rows, columns=list("abcde")).to_csv(table, index=False)
    words = ("publish", table, release, "--epsilon", 1, "--mechanism", "whitened")
    code, output = call(*words, "--low", -3, "--high", 3)
    assert code == 2 and "needs no bounds" in output and not release.exists()
    assert call(*words)[0] == 0
    assert read_release(release).whitened


def test_the_first_recover_says_that_it_compiles(tmp_path, monkeypatch):
    "On standard error, and only while nothing is kept; of a small table nothing is."
    release = tmp_path / "r.parquet"
    monkeypatch.setattr(kernels, "_rented", 0)
    rows = np.random.default_rng(0).normal(size=(500, 3))
    mechanism = CovarianceMechanism((-6, 6), mu=1.0, clipping="box")
    # one noise in some 700 is solved by interior points, which are always compiled
    table = pd.DataFrame(rows, columns=list("abc"))
    mechanism.publish(table, random_state=0).to_parquet(release)
    for kept, price in ((False, kernels._PRICE), (True, 0), (False, 0)):
        monkeypatch.setattr(kernels, "_PRICE", price)
        monkeypatch.setattr(block_descent.descend, "_compiled", None)
        found = lambda _, kept=kept: kept
        monkeypatch.setattr("privglasso.base.kernels.Kernel.is_kept", found)
        result = CliRunner().invoke(app, ["recover", str(release), "--rule", "ebic"])
        assert result.exit_code == 0, result.output
        assert ("once on this machine" in result.stderr) == (not kept and not price)
        assert "once on this machine" not in result.stdout


def test_two_releases_are_compared_edge_by_edge(secret, tmp_path):
    table, paths = pd.read_csv(secret), [tmp_path / f"{k}.parquet" for k in "ab"]
    mechanism = CovarianceMechanism((-6, 6), mu=1.0, clipping="box")
    for seed, path in enumerate(paths):
        mechanism.publish(table, random_state=seed).to_parquet(path)
    code, output = call("compare", *paths)
    assert code == 0 and "edges in both" in output and "p_value" in output
    words = ["compare", *map(str, paths), "--json"]
    rows = json.loads(CliRunner().invoke(app, words).stdout)
    both = sum(row["edge_in"] == "both" for row in rows)
    assert f"{both} edges in both" in output and both >= 4  # the chain
    assert {"source", "target", "first", "second", "z_value"} <= set(rows[0])
    code, output = call("compare", paths[0], tmp_path / "nothing.parquet")
    assert code == 2 and "nothing.parquet" in output


STREAM = ("stream", "new", "s", "--periods", 2, "--budget", "b.json", "--mu", 1)
STREAM += ("--columns", "a,b")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plan", 1000, 3, "--spread", 0), "--spread 0: give"),
        (("audit", "--mu", 1, "--trials", 0), "--trials 0: give"),
        (("audit", "--mu", 1, "--mechanism", "tree"), "--failure: state"),
        (("audit", "--epsilon", 0), "--epsilon 0: give"),
        (("audit", "--mu", 1, "--seed", -1), "--seed -1: give a seed, a whole"),
        *(
            (("audit", "--mechanism", *pairs, "--mu", 1, "--p", 1), "--p 1: --mech")
            for pairs in (["weights"], ["copula"], ["tree", "--failure", 1e-9])
        ),
        (("budget", "new", "b.json", "--mu", 0), "--mu 0: give"),
        ((*STREAM, "--rows", 1, "--low", 0, "--high", 1), "--rows 1: give"),
        ((*STREAM, "--rows", 9, "--low", 2, "--high", 1), "--low (low, high): every"),
        (("plan", 1000, 3, "--spread", 1e-300), "--spread 1e-300: give"),
        (("plan", 1000, 3, "--spread", 1e300), "--spread 1e+300: give"),
        (("reproduce", "--only", "x"), "--only x: give one of audit, "),
        (("plan", 1, 3), "privglasso: n 1: give"),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "stream" in words:
        Budget.create("b.json", Guarantee(9.0, "record"))
    code, output = call(*words)
    assert code == 2 and told in output and "['" not in output


def test_help_is_a_word_too():
    assert call("help") == call("--help") and call("help")[0] == 0
    assert call("help", "budget", "new") == call("budget", "new", "--help")
    assert call("budget", "help") == call("budget", "--help")
    assert call("budget", "help", "new") == call("budget", "new", "--help")
    code, output = call("help", "publishh")
    assert code == 2 and "Did you mean 'publish'?" in output


@pytest.mark.parametrize("words", ["publish a.csv b.parquet", "plan 10 3", "audit"])
def test_an_option_that_is_cut_short_is_recognised(words):
    code, output = call(*words.split(), "--eps", 1)
    assert code == 2 and "(Possible options: --epsilon);" in output


def test_the_package_is_a_command(tmp_path):
    words = [sys.executable, "-m", "privglasso", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"privglasso {privglasso.__version__}\n"


@pytest.mark.parametrize("words", ["plan --eps 1", "budget neww", "plann"])
def test_the_package_names_a_command_that_can_be_typed(words, tmp_path):
    words = [sys.executable, "-m", "privglasso", *words.split()]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    asked = done.stderr.strip().partition("; see python -m ")[2].split()
    words = [sys.executable, "-m", *asked]
    assert asked[0] == "privglasso" and asked[-1] == "--help"
    assert not subprocess.run(words, capture_output=True, cwd=tmp_path).returncode


def test_a_package_that_is_missing_is_named(monkeypatch, tmp_path):
    rows = np.random.default_rng(0).normal(size=(500, 3))
    release = tmp_path / "r.parquet"
    CovarianceMechanism(clipping=Ball(5), mu=1.0).publish(rows).to_parquet(release)
    monkeypatch.setitem(sys.modules, "networkx", None)
    code, output = call("recover", release, "--figure", tmp_path / "g.svg")
    assert code == 1
    assert "networkx is not installed here: pip install networkx" in output
    error = ModuleNotFoundError("No module named 'sympy.polys'", name="sympy.polys")
    assert sentence(error) == ("sympy is not installed here: pip install sympy", 1)


def test_what_is_published_where_no_mechanism_is_named_is_recommended(secret, tmp_path):
    "Few records, which have no private units: signs; enough of them: scores."
    few, release = tmp_path / "few.csv", tmp_path / "r.parquet"
    pd.read_csv(secret)[:500].to_csv(few, index=False)
    for table, n, name in ((few, 500, "kendall"), (secret, 5000, "covariance")):
        words = ("publish", table, release, "--epsilon", 2, "--force")
        best = recommend(n, 5, epsilon=2)
        code, output = call(*words, "--dry-run")
        assert best.name == name and f"recommended: {best}" in output
        output = CliRunner().invoke(app, [*map(str, words), "--json"]).stdout
        told = json.loads(output)["recommended"]
        assert told["mechanism"] == name and told["auc"] == best.recovery.auc
        assert read_release(release).mechanism == type(best.mechanism).__name__


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\na,b\nc,b\n")
    return path


def test_weights_of_a_public_graph(secret, edges, tmp_path):
    release, found = tmp_path / "r.parquet", tmp_path / "found.csv"
    words = ("--mechanism", "weights", "--graph", edges, "--epsilon", 2)
    code, output = call("publish", secret, release, *words, "--dry-run")
    assert code == 0 and "would hold 5 columns" in output and not release.exists()
    code, output = call("publish", secret, release, *words)
    assert code == 0 and "weights on the 2 edges" in output
    back = read_release(release)
    assert set(back.edges.source) == {"a", "b"} and set(back.edges.target) == {"b", "c"}
    code, output = call("inspect", release)
    assert code == 0 and "standard_error" in output and "ε = 2" in output
    said = CliRunner().invoke(app, ["inspect", str(release), "--json"]).stdout
    told = json.loads(said)
    assert told["decided"] and len(told["edges"]) == 2
    figure = tmp_path / "graph.svg"
    code, output = call("recover", release, found, "--figure", figure)
    assert code == 0 and "2 edges, and weights" in output
    pd.testing.assert_frame_equal(pd.read_csv(found), back.intervals())
    assert figure.stat().st_size > 1000
    assert "2 edges" in call("recover", release, "--level", 0.05)[1]
    assert call("recover", release, "--alpha", 0.1)[0] == 2
    code, output = call("compare", release, release)  # as in Python
    assert code == 0 and "2 edges in both" in output


def test_a_released_graph_is_given_weights(secret, tmp_path):
    tree, release = tmp_path / "tree.parquet", tmp_path / "r.parquet"
    assert call("publish", secret, tree, "--want", "tree", "--epsilon", 3)[0] == 0
    words = ("--mechanism", "weights", "--graph", tree, "--mu", 1)
    assert call("publish", secret, release, *words)[0] == 0
    assert len(read_release(release).edges) == 4
    assert call("publish", secret, tmp_path / "s.parquet", *words[:3], release)[0] == 2


def test_too_noisy_weights_say_so(edges, tmp_path):
    few, release = tmp_path / "few.csv", tmp_path / "r.parquet"
    rows = np.random.default_rng(0).integers(0, 9, (60, 3))
    pd.DataFrame(rows, columns=[*"abc"]).to_csv(few, index=False)
    schema = tmp_path / "s.toml"
    Schema({c: {"kind": "integer", "low": 0, "high": 8} for c in "abc"}).write(schema)
    words = ("--mechanism", "weights", "--graph", edges, "--schema", schema)
    code, output = call("publish", few, release, *words, "--mu", 0.02, "--seed", 1)
    assert code == 0
    code, output = call("inspect", release)
    assert code == 0 and "undecided" in output
    said = CliRunner().invoke(app, ["inspect", str(release), "--json"]).stdout
    told = json.loads(said)
    assert not told["decided"] and told["edges"] == []
    code, output = call("recover", release)
    assert code == 2 and "no graphical model" in output


def test_graphs_that_do_not_fit_are_refused(secret, edges, tmp_path):
    release, other = tmp_path / "r.parquet", tmp_path / "other.csv"
    weights = ("publish", secret, release, "--mu", 1, "--mechanism", "weights")
    other.write_text("source,target\na,z\n")
    odd = tmp_path / "odd.csv"
    odd.write_text("from,to\na,b\n")
    for words, told in (
        (weights, "--graph: belongs to"),
        (("publish", secret, release, "--mu", 1, "--graph", edges), "--graph: belongs"),
        ((*weights, "--graph", edges, "--low", 0, "--high", 1), "needs no bounds"),
        ((*weights, "--graph", other), "no columns are called so"),
        ((*weights, "--graph", odd), "source, target"),
        ((*weights, "--graph", tmp_path / "none.csv"), "no such file"),
        (("plan", 1000, 2, "--epsilon", 1, "--graph", edges), "joins 3 columns"),
    ):
        code, output = call(*words)
        assert code == 2 and told in output and not release.exists()


def test_the_plan_says_how_exact_weights_would_be(edges):
    words = ["plan", "5000", "20", "--epsilon", "1", "--graph", str(edges)]
    assert "Weights on the 2 edges" in call(*words)[1]
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert told["weights"]["edges"] == 2
    assert 0.014 < told["weights"]["error"] < 0.03


def test_weights_are_attacked():
    words = ("--mechanism", "weights", "--mu", 1, "--p", 4, "--trials", 20)
    code, output = call("audit", *words, "--seed", 0)
    assert code == 0 and "not refuted" in output and "4 columns" in output


def test_where_nothing_works_the_plan_says_what_would():
    code, output = call("plan", 2000, 20, "--epsilon", 0.1)
    assert code == 0 and "Recommended: nothing works at this budget" in output
    records = int(re.search(r"it takes n = (\d+) records", output)[1])
    code, output = call("plan", records, 20, "--epsilon", 0.1)
    assert "nothing works" not in output and "For 95 %" not in output


@pytest.mark.parametrize(
    "want, made",
    [
        ("rows", "SyntheticDataMechanism"),
        ("margins", "CopulaMechanism"),
        ("tree", "TreeMechanism"),
        ("graph", "CovarianceMechanism"),
    ],
)
def test_what_is_wanted_chooses_the_mechanism(want, made, secret, tmp_path):
    release = tmp_path / "r.parquet"
    words = ("publish", secret, release, "--epsilon", 3, "--want", want)
    assert call(*words)[0] == 0 and read_release(release).mechanism == made
    code, output = call(*words, "--force", "--mechanism", "table")
    assert code == 2 and "name none beside it" in output


def test_levels_of_a_schema_are_known_to_the_recommendation(tmp_path):
    "Answers from 1 to 5 tell less than numbers, and need no private units."
    columns = {f"q{k}": {"kind": "integer", "low": 1, "high": 5} for k in range(6)}
    schema, plain = tmp_path / "s.toml", tmp_path / "plain.toml"
    Schema(columns).write(schema)
    Schema({name: {"kind": "real"} for name in columns}).write(plain)
    told = []
    for file in (schema, plain):
        words = ["plan", "400", "--schema", str(file), "--epsilon", "3", "--json"]
        told.append(json.loads(CliRunner().invoke(app, words).stdout)["recommended"])
    assert [each["mechanism"] for each in told] == ["covariance", "kendall"]
    assert told[0]["auc"] > told[1]["auc"]


def test_a_plan_of_a_shape_loads_nothing_slow():
    program = (
        "import sys; from typer.testing import CliRunner"
        "; from privglasso.cli.commands import app"
        "; print(CliRunner().invoke(app, ['plan', '9000', '9']).exit_code)"
        "; print(*{'pandas', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert done.stdout.split() == [b"0"] and not done.stderr


def test_a_plan_says_what_will_be_too_rare_to_be_seen():
    "The same share as the release is made with."
    code, output = call("plan", 20_000, 5, "--epsilon", 1, "--delta", 1e-9)
    share = CovarianceMechanism(epsilon=1, delta=1e-9).lattice(20_000, 5).least_share
    assert code == 0 and f"fewer than {100 * share:.2g} % of the records" in output


def test_a_warning_is_a_sentence_without_a_line_of_code(tmp_path):
    "And a column that gives way to its copy is named once."
    rows = sample_gaussian(chain_precision(5, 0.4, scales=np.ones(5)), 20_000, 0)
    twice = pd.DataFrame(np.c_[rows, rows[:, 1]], columns=list("abcdef"))
    path = tmp_path / "open.parquet"
    CovarianceMechanism(epsilon=1, delta=1e-9).publish(twice, 1).to_parquet(path)
    for words, told in (
        (("recover", path), "left out: f (goes with b, correlation "),
        (("report", path, tmp_path / "page.html"), "note: left out, because "),
    ):
        code, output = call(*words)
        assert code == 0 and output.count(told) == 1, output
        assert "Warning" not in output and ".py" not in output
