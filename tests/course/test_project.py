"""The grading of the final project: what a submission may get wrong."""

import subprocess
import sys

import pandas as pd
import pytest

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.course.project import grade, main, make_project


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    "A task, and a submission that is right."
    folder = tmp_path_factory.mktemp("project")
    make_project(folder, random_state=2)
    table = pd.read_csv(folder / "private.csv").drop(columns="person")
    release = pg.CovarianceMechanism(epsilon=1, delta=1e-6).publish(table)
    edges = pg.PrivateGraphicalLasso(0.02).fit(release).tested_edges(0.05)
    return folder, table, release, edges


@pytest.fixture
def submission(task, tmp_path):
    "That submission in a folder of its own, and the truth."
    folder, _, release, edges = task
    release.to_parquet(tmp_path / "release.parquet")
    edges.to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path, folder / "truth.csv"


def points(submission):
    "{criterion: points}, once the criteria add up to sixty."
    marks = grade(*submission)
    assert marks["of"].sum() == 60
    return marks.set_index("criterion")["points"].to_dict()


def test_a_right_submission_gets_nearly_all(submission, capsys):
    assert sum(points(submission).values()) >= 55
    assert main([str(part) for part in submission]) == 0
    assert "of 60 points" in capsys.readouterr().out


def test_a_task_is_not_written_over_another(task):
    with pytest.raises(InputError, match="private.csv"):
        make_project(task[0])


def test_no_edges_and_all_edges(submission, task):
    folder, _ = submission
    pairs = [(a, b) for a in task[1] for b in task[1] if a < b]
    for given in ([], pairs):
        edges = pd.DataFrame(given, columns=["source", "target"])
        edges.to_csv(folder / "edges.csv", index=False)
        marks = points(submission)
        assert marks["edges that are true"] < 2
        assert marks["edges the release supports"] < 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("edges.csv", None),
        ("edges.csv", ""),
        ("edges.csv", "a,b\n1,2\n"),
        ("edges.csv", "\x00\xff"),
        ("release.parquet", None),
        ("release.parquet", "not a release"),
    ],
)
def test_a_damaged_file_costs_points_and_nothing_breaks(submission, name, text):
    folder, _ = submission
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    lost = 30 if name == "edges.csv" else 60
    assert sum(points(submission).values()) <= 60 - lost


def test_edges_of_strange_names_are_false_and_unsupported(submission):
    folder, _ = submission
    odd = pd.DataFrame({"source": ["m01", "m01", None], "target": ["m01", "zz", "m02"]})
    odd.to_csv(folder / "edges.csv", index=False)
    marks = points(submission)
    assert marks["edges found"] == marks["edges the release supports"] == 0


@pytest.mark.parametrize(
    ("mechanism", "seed", "criterion"),
    [
        (pg.CovarianceMechanism(epsilon=1.2, delta=1e-6), None, "the promise"),
        (pg.CovarianceMechanism(epsilon=1, delta=1e-5), None, "the promise"),
        (pg.CovarianceMechanism(epsilon=1, delta=1e-6), 1, "the randomness"),
    ],
)
def test_a_weaker_promise_costs_points(submission, task, mechanism, seed, criterion):
    folder, _ = submission
    (folder / "release.parquet").unlink()
    mechanism.publish(task[1], seed).to_parquet(folder / "release.parquet")
    assert points(submission)[criterion] == 0


def test_an_identifier_costs_points(submission, task):
    folder, _ = submission
    (folder / "release.parquet").unlink()
    whole = pd.read_csv(task[0] / "private.csv")
    release = pg.CovarianceMechanism(epsilon=1, delta=1e-6).publish(whole)
    release.to_parquet(folder / "release.parquet")
    assert points(submission)["the columns"] == 0


def test_a_table_of_noisy_cells_is_graded(submission, task):
    folder, table, _, _ = task
    (submission[0] / "release.parquet").unlink()
    bounds = (table.min().to_numpy(), table.max().to_numpy())
    release = pg.GaussianMechanism(bounds, epsilon=1, delta=1e-6).publish(table)
    release.to_parquet(submission[0] / "release.parquet")
    marks = points(submission)
    assert (marks["the promise"], marks["edges the release supports"]) == (15, 0)


def test_a_tree_is_not_a_graph_with_errors(submission, task):
    (submission[0] / "release.parquet").unlink()
    tree = pg.TreeMechanism(epsilon=1, delta=1e-6).publish(task[1])
    tree.to_parquet(submission[0] / "release.parquet")
    assert points(submission) == {"the release": 0}


def test_the_command_says_how_it_is_used():
    result = subprocess.run(
        [sys.executable, "-m", "privglasso.course.project"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout[:6]) == (2, "usage:")
