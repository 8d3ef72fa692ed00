"""The command line and the demonstration, as a stranger would use them."""


import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from privglasso.cli import app
from privglasso.datasets import DataError
from privglasso.demo import demo_releases, demo_table, run_demo
from privglasso.experiments import publish_at_snr, simultaneous_alpha, snr_to_sigma
from privglasso.release import NoGuarantee, read_release
from privglasso.synthetic import chain_precision, sample_gaussian
from privglasso.validation import InputError


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def secret(tmp_path):
    rows = sample_gaussian(chain_precision(5, 0.4, scales=np.ones(5)), 5000, random_state=0)
    path = tmp_path / "secret.csv"
    pd.DataFrame(rows, columns=list("abcde")).to_csv(path, index=False)
    return path


def test_publish_inspect_recover(secret, tmp_path):
    release, edges = tmp_path / "open.parquet", tmp_path / "edges.csv"
    assert call("publish", secret, release, "--low", -6, "--high", 6, "--neighbors", "cell", "--sigma", 0.5)[0] == 0
    assert read_release(release).secure
    code, output = call("inspect", release)
    assert code == 0 and "noise sd" in output and "δ = 1/n²" in output and "one cell were changed" in output
    code, output = call("recover", release, edges)
    assert code == 0 and "duality gap" in output
    found = pd.read_csv(edges)
    strongest = {frozenset(pair) for pair in found[["source", "target"]].head(4).to_numpy().tolist()}
    assert strongest == {frozenset(pair) for pair in ("ab", "bc", "cd", "de")}


def test_bounds_for_each_column_come_from_a_file(secret, tmp_path):
    bounds, release = tmp_path / "bounds.csv", tmp_path / "open.parquet"
    stated = pd.DataFrame({"column": list("edcba"), "low": range(-10, -5), "high": range(6, 11)})
    stated.to_csv(bounds, index=False)
    assert call("publish", secret, release, "--bounds", bounds, "--epsilon", 5, "--delta", 1e-6, "--seed", 1)[0] == 0
    lattice = read_release(release).lattice
    assert np.all(np.abs(lattice.low * lattice.step - [-6, -7, -8, -9, -10]) <= lattice.step)
    stated.iloc[1:].to_csv(bounds, index=False)
    code, output = call("publish", secret, release, "--bounds", bounds, "--mu", 1)
    assert code == 2 and "missing: ['e']" in output


def test_integers_from_the_shell(tmp_path):
    table, release = tmp_path / "ratings.csv", tmp_path / "r.parquet"
    pd.DataFrame({"film": [1, 5, 3], "book": [2, 2, 4]}).to_csv(table, index=False)
    assert call("publish", table, release, "--low", 1, "--high", 5, "--sigma", 1.5, "--integers")[0] == 0
    assert (read_release(release).table.dtypes == np.int64).all()


@pytest.mark.parametrize("words, remedy", [
    (("--low", 1, "--high", 0, "--mu", 1), "below its high bound"),
    (("--low", 0, "--high", 1), "exactly one"),
    (("--low", 0, "--high", 1, "--mu", 1, "--sigma", 1), "exactly one"),
    (("--mu", 1), "bounds"),
    (("--low", 0, "--high", 1, "--epsilon", 1, "--delta", 2), "delta=2"),
])
def test_bad_publications_leave_no_file(secret, tmp_path, words, remedy):
    release = tmp_path / "open.parquet"
    code, output = call("publish", secret, release, *words)
    assert code == 2 and remedy in output and "Traceback" not in output and not release.exists()


def test_bad_files_from_the_shell(secret, tmp_path):
    for words, remedy in [(("inspect", secret), "not a whole Parquet file"),
                          (("inspect", tmp_path / "nowhere.parquet"), "nowhere.parquet"),
                          (("publish", tmp_path / "x.xlsx", tmp_path / "y.parquet"), ".csv or .parquet")]:
        code, output = call(*words)
        assert code == 2 and remedy in output and "Traceback" not in output


# ---------------------------------------------------------------------- the demonstration

def test_the_demonstration_publishes_files_that_say_what_they_promise(tmp_path):
    data = demo_table("grid")
    releases = dict(demo_releases(data, tmp_path))
    assert len(list(tmp_path.glob("*.parquet"))) == len(releases) == 4
    for label, release in releases.items():
        assert isinstance(release.guarantee, NoGuarantee) == label.endswith("dB")
        assert release.n == len(data.table) and not release.secure
    assert releases["ε = 8 a record"].guarantee.epsilon(release.n**-2.0) == pytest.approx(8, rel=1e-6)
    assert releases["20 dB"].guarantee.epsilon(1e-5) == np.inf


def test_the_demonstration_writes_its_table_and_figure(tmp_path):
    lines = []
    run_demo("grid", tmp_path / "out", echo=lines.append)
    table = pd.read_csv(tmp_path / "out" / "grid.csv")
    assert len(table) == 9 and (tmp_path / "out" / "grid.svg").stat().st_size > 1000
    text = "\n".join(lines)
    assert "none: σ read from the data" in text and "if fixed beforehand" in text and "AUC path" in text


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

@pytest.mark.parametrize("table, snr_db, complaint", [
    (np.ones((4, 2)), 20, "constant"),
    (np.full((7, 2), 0.1), 20, "constant"), (np.eye(3), np.nan, "snr_db"), (np.eye(3), "20", "snr_db"),
    ([[np.nan, 1], [1, 2]], 20, "table"),
])
def test_bad_decibels(table, snr_db, complaint):
    with pytest.raises(InputError, match=complaint):
        snr_to_sigma(table, snr_db)


def test_a_decibel_release_never_promises(tmp_path):
    rows = np.random.default_rng(0).normal(size=(100, 2))
    release = publish_at_snr(rows, (-9, 9), 30, "cell")
    release.to_parquet(tmp_path / "r.parquet")
    assert read_release(tmp_path / "r.parquet").guarantee.epsilon(0.01) == np.inf


def test_simultaneous_alpha_grows_with_noise_and_shrinks_with_rows():
    S, noise = np.array([[1, 0.3], [0.3, 1]]), np.eye(2)
    quiet, loud = simultaneous_alpha(S, S, 1000), simultaneous_alpha(S + noise, S, 1000)
    assert loud > 1.5 * quiet and simultaneous_alpha(S, S, 4000) == pytest.approx(quiet / 2)
