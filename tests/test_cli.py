"""The command line and the demonstration, as a stranger would use them."""

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from privglasso.privacy.budget import Budget
from privglasso.cli import app
from privglasso.data_sets.registry import DataError
from privglasso.start.demonstration import analyse, demo_mechanisms, demo_releases
from privglasso.start.demonstration import demo_table, run_demo
from privglasso.experiments.noise_levels import publish_at_snr, snr_to_sigma
from privglasso.publish.files import read_release
from privglasso.recover.planning import MECHANISMS, plan
from privglasso.privacy.guarantee import NoGuarantee
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.base.validation import InputError


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
    """pandas reads a column of the names 0, 1, 2 as numbers, and the header of a table
    as words."""
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


@pytest.mark.parametrize("kind", ["covariance", "synthetic"])
@pytest.mark.parametrize("words", [("--sigma", 1), ("--mu", 1, "--integers")])
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


# ---------------------------------------------------------------------- budgets

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


# ---------------------------------------------------------------------- plans and
# audits


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
    "words, remedy",
    [
        ((1, 3), "n=1"),
        ((100, 0), "p=0"),
        ((100, 3, "--epsilon", -1), "epsilon=-1"),
        ((100, 3, "--delta", 2), "delta=2"),
        ((100, 3, "--spread", 0), "spread=0"),
        ((100, 3, "--find", 2), "partial_correlation=2"),
        ((100, 3, "--neighbors", "row"), "record"),
    ],
)
def test_bad_plans_from_the_shell(words, remedy):
    code, output = call("plan", *words)
    assert code == 2 and remedy in output and "Traceback" not in output


@pytest.mark.parametrize(
    "kind, neighbors",
    [
        ("table", "cell"),
        ("table", "record"),
        ("covariance", "record"),
        ("synthetic", "record"),
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


# ---------------------------------------------------------------------- help


def commands(group, words=()):
    "All commands as the words one types."
    for name, command in group.commands.items():
        yield from (
            commands(command, (*words, name))
            if hasattr(command, "commands")
            else [(*words, name)]
        )


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_option_has_help(words):
    code, output = call(*words, "--help")
    assert code == 0
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    assert command.help and command.help.strip().endswith(".")
    assert [
        parameter.name
        for parameter in command.params
        if not getattr(parameter, "help", None)
    ] == []


def test_the_commands_of_the_manual_exist():
    known = "plan publish budget inspect recover audit claims data demo reproduce bench"
    assert {words[0] for words in COMMANDS} >= set(known.split())


def test_studies_that_do_not_exist():
    code, output = call("reproduce", "--only", "weather")
    assert code == 2 and "only='weather'" in output and "correction" in output


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
        (("--low", 0, "--high", 1), "exactly one"),
        (("--low", 0, "--high", 1, "--mu", 1, "--sigma", 1), "exactly one"),
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


# ---------------------------------------------------------------------- the
# demonstration


def test_the_demonstration_publishes_files_that_say_what_they_promise(tmp_path):
    data = demo_table("grid")
    releases = dict(demo_releases(data, tmp_path))
    assert len(list(tmp_path.glob("*.parquet"))) == len(releases) == 9
    for label, release in releases.items():
        assert isinstance(release.guarantee, NoGuarantee) == label.endswith("dB")
        assert release.n == len(data.table) and not release.secure
    for epsilon in (1, 8):
        for name in MECHANISMS:
            guarantee = releases[f"ε = {epsilon} a record, {name}"].guarantee
            assert guarantee.neighbors == "record"
            assert guarantee.epsilon(len(data.table) ** -2.0) == pytest.approx(
                epsilon, rel=1e-6
            )
    assert releases["20 dB"].guarantee.epsilon(1e-5) == np.inf


def test_honest_promises_do_not_depend_on_the_table():
    data = demo_table("grid")
    other = type(data)(
        data.name, data.table * 0, data.bounds, data.truth, data.reference
    )
    for one, two in zip(
        demo_mechanisms(data).values(), demo_mechanisms(other).values(), strict=True
    ):
        assert one.guarantee(*data.table.shape) == two.guarantee(*data.table.shape)


def test_the_demonstration_writes_its_table_and_figure(tmp_path):
    lines = []
    run_demo("grid", tmp_path / "out", echo=lines.append)
    table = pd.read_csv(tmp_path / "out" / "grid.csv")
    assert len(table) == 12 and (tmp_path / "out" / "grid.svg").stat().st_size > 1000
    text = "\n".join(lines)
    assert (
        "none: σ read from the data" in text
        and "if fixed beforehand" in text
        and "AUC path" in text
    )


def test_an_analyst_of_nothing_gets_dashes_and_a_reason():
    data = demo_table("grid")
    release = MECHANISMS["table"](data.bounds, mu=1e-3).publish(
        data.table, random_state=0
    )
    scores, graph, remark = analyse(release, data)
    assert (
        np.isnan(list(scores.values())).all() and not graph.any() and "noise" in remark
    )


def test_unknown_demonstrations_are_refused():
    with pytest.raises(InputError, match="data="):
        demo_table("weather")
    assert call("demo", "--data", "weather")[0] == 2


def test_the_real_cells(tmp_path):
    try:
        data = demo_table("sachs")
    except DataError as error:
        pytest.skip(f"the cell signalling data are not here: {error}")
    assert data.table.shape == (7466, 11) and data.truth.sum() == 36
    assert data.table.to_numpy().min() >= 0 and data.table.to_numpy().max() <= 4


# ---------------------------------------------------------------------- decibels


@pytest.mark.parametrize(
    "table, snr_db, complaint",
    [
        (np.ones((4, 2)), 20, "constant"),
        (np.full((7, 2), 0.1), 20, "constant"),
        (np.eye(3), np.nan, "snr_db"),
        (np.eye(3), "20", "snr_db"),
        ([[np.nan, 1], [1, 2]], 20, "table"),
    ],
)
def test_bad_decibels(table, snr_db, complaint):
    with pytest.raises(InputError, match=complaint):
        snr_to_sigma(table, snr_db)


def test_a_decibel_release_never_promises(tmp_path):
    rows = np.random.default_rng(0).normal(size=(100, 2))
    release = publish_at_snr(rows, (-9, 9), 30, "cell")
    release.to_parquet(tmp_path / "r.parquet")
    assert read_release(tmp_path / "r.parquet").guarantee.epsilon(0.01) == np.inf
