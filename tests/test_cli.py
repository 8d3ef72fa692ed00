"""The command line, as a stranger would use it."""

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from privglasso.cli import app
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.papers import registry
from privglasso.privacy.budget import Budget
from privglasso.publish.files import read_release
from privglasso.recover.planning import MECHANISMS, plan


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
    assert code == 0 and "duality gap" in output
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
    code, output = call("publish", secret, release, "--bounds", bounds, "--mu", 1)
    assert code == 2 and "missing: ['e']" in output


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
    "pandas reads a column of the names 0, 1, 2 as numbers, and the header of a table as words."
    bounds, numbered = tmp_path / "bounds.csv", tmp_path / "numbered.csv"
    pd.read_csv(secret).set_axis(range(5), axis=1).to_csv(numbered, index=False)
    pd.DataFrame({"column": range(5), "low": -6, "high": 6}).to_csv(bounds, index=False)
    assert (
        call(
            "publish", numbered, tmp_path / "r.parquet", "--bounds", bounds, "--mu", 1
        )[0]
        == 0
    )
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
    assert code == 0 and "δ = 1/n² = 4e-08" in output


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
        assert call("recover", release, edges, "--rule", rule)[0] == 0
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
        assert code == 2 and "exactly one" in output and not file.exists()
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


def test_the_plan_of_the_shell_is_that_of_python():
    code, output = call("plan", 20_000, 6, "--epsilon", 2, "--find", 0.2)
    offers = plan(
        {
            name: kind((0, 1), epsilon=2, delta=20_000**-2.0)
            for name, kind in MECHANISMS.items()
        },
        20_000,
        6,
    )
    assert code == 0 and "one record hidden" in output and "ε to find 0.2" in output
    found = offers.set_index("mechanism").smallest_partial_correlation["covariance"]
    assert f"{found:.3g}" in output and "inf" in output


@pytest.mark.parametrize(
    "kind, neighbors",
    [
        ("table", "cell"),
        ("covariance", "record"),
    ],
)
def test_audits_from_the_shell(kind, neighbors):
    words = (
        "--mechanism",
        kind,
        "--neighbors",
        neighbors,
        "--mu",
        2,
        "--trials",
        4000,
        "--seed",
        1,
    )
    code, output = call("audit", *words)
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
        (("--mu", 1), "bounds"),
        (("--low", 0, "--high", 1, "--epsilon", 1, "--delta", 2), "delta=2"),
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
        (("inspect", secret), "not a whole Parquet file"),
        (("inspect", tmp_path / "nowhere.parquet"), "nowhere.parquet"),
        (("publish", tmp_path / "x.xlsx", tmp_path / "y.parquet"), ".csv or .parquet"),
    ]:
        code, output = call(*words)
        assert code == 2 and remedy in output and "Traceback" not in output


@pytest.mark.parametrize("words", [("plan", 1, 3), ("plan", 100, 3, "--find", 2)])
def test_bad_plans_from_the_shell(words):
    code, output = call(*words)
    assert code == 2 and "Traceback" not in output


def test_parts_of_the_computations_that_do_not_exist():
    for command, one in (("reproduce", "correction"), ("bench", "solver")):
        code, output = call(command, "--only", "weather")
        assert code == 2 and "only='weather'" in output and one in output


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


@pytest.mark.parametrize("verdict, code", [("FALSE", 0), ("true", 1)])
def test_a_verdict_that_its_example_does_not_bear_out_ends_with_one(
    monkeypatch, verdict, code
):
    "The table of one claim that its example refutes, under two verdicts."
    row = ("A", "Theorem 1", verdict, "there", "μ", 1.0, 2.0, True)
    names = "paper name verdict source quantity promised true refuted".split()
    table = pd.DataFrame([row], columns=names)
    monkeypatch.setattr(registry, "claims_table", lambda: table)
    for words in ((), ("--json",)):
        found, output = call("claims", *words)
        assert found == code and "Theorem 1" in output
        assert ("disagree" in output) == (code == 1)
