"""A report in Python and at the shell: what it says of each kind of release, and that
its page is written whole or not at all."""

import importlib.metadata
import json
import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.cli.commands import app
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.desk.page import Page
from privglasso.desk.reading import Recovery
from privglasso.desk.report import Report, _unsaid
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.screened_weights import ScreenedGraphMechanism
from privglasso.publish.tree import ThresholdedGraphMechanism
from privglasso.publish.votes import VotedGraphMechanism
from privglasso.recover.pooling import combine

NAMES = list("abcdef")
TARGET = {"epsilon": 1.0, "delta": 1e-9}
ROWS = pd.DataFrame(
    sample_gaussian(chain_precision(6, 0.3), 20_000, random_state=0), columns=NAMES
)
CHAIN = sorted(zip(NAMES, NAMES[1:], strict=False))


def released(mechanism, rows=ROWS):
    return mechanism.publish(rows, random_state=1)


RELEASE = released(pg.CovarianceMechanism(**TARGET))


def path_graph():
    graph = nx.Graph()
    graph.add_nodes_from(NAMES)
    nx.add_path(graph, NAMES)
    return graph


def correlated(block):
    "An estimator that is quick: pairs of columns that are correlated."
    return np.abs(np.corrcoef(block.T)) > 0.2


KINDS = {
    "scores": pg.CovarianceMechanism(**TARGET),
    "box": pg.CovarianceMechanism((-9, 9), clipping="box", **TARGET),
    "synthetic": pg.SyntheticDataMechanism(**TARGET),
    "kendall": pg.KendallMechanism(**TARGET),
    "cells": pg.GaussianMechanism((-9, 9), neighbors="cell", sigma=0.5),
    "tree": pg.TreeMechanism(**TARGET),
    "pairs": ThresholdedGraphMechanism(0.22, **TARGET),
    "votes": VotedGraphMechanism(correlated, **TARGET),
    "weights": GraphWeightsMechanism(path_graph(), **TARGET),
    "screened": ScreenedGraphMechanism(**TARGET),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_report(kind, tmp_path):
    release = released(KINDS[kind])
    report = Report(release)
    ends = report.edges[["source", "target"]].to_numpy().tolist()
    found = {tuple(sorted(pair)) for pair in ends}
    assert len(found) >= 3 and found <= set(CHAIN), kind
    assert str(release.guarantee)[1:] in report.promise and "ε = " in report.promise
    release.to_parquet(tmp_path / "open.parquet")
    page = Report(tmp_path / "open.parquet").html()
    assert page == report.html() and page.count("<tr") == len(report.edges) + 1
    told = json.loads(report.to_json())
    assert told["title"] == report.title and len(told["edges"]) == len(report.edges)


def test_what_an_edge_means_is_said_for_each_kind():
    means = {
        "scores": "alike in all the other columns",
        "tree": "no circle",
        "pairs": "rise and fall together",
        "votes": "most blocks",
        "weights": "public beforehand",
        "screened": "not even that they are no edges",
    }
    told = {kind: " ".join(Report(released(KINDS[kind])).unsaid) for kind in means}
    for kind, words in means.items():
        assert [each for each in means if words in told[each]] == (
            [kind] if kind != "scores" else ["scores", "weights", "screened"]
        )


def test_an_error_that_hides_the_graph_is_said():
    few = released(pg.KendallMechanism(**TARGET), ROWS[:60])
    report = Report(few)
    assert report.edges is None and report.title == "No graph can be told"
    assert "There is no graph to show" in str(report) and report.files() == {}
    assert "<table" not in report.html()
    assert json.loads(report.to_json())["edges"] is None


def test_columns_that_were_left_out_are_named():
    rows = ROWS.assign(f=0.0)
    report = Report(released(pg.CovarianceMechanism(**TARGET), rows))
    assert any(each.startswith("Left out: f (") for each in report.unsaid)


def test_columns_that_are_mostly_missing_are_named():
    there = np.random.default_rng(3).random(len(ROWS)) < 0.3
    rows = ROWS.assign(f=ROWS.f.where(there), g=ROWS.a.where(there))
    report = Report(released(pg.CovarianceMechanism(missing="center", **TARGET), rows))
    (said,) = (each for each in report.unsaid if each.startswith("Mostly missing"))
    assert said.startswith("Mostly missing: f, g. Of these the release holds only")
    assert said in report.html() and "Mostly missing" not in str(Report(RELEASE))
    ends = [{*pair} for pair in report.edges[["source", "target"]].to_numpy()]
    assert {"f", "g"} in ends and report.release.set_aside == {}
    # where copies of each other hide the graph, it is said that they are copies
    assert "are copies of each other" in said
    assert _unsaid(report.release, None, "hidden")[1:] == [said]
    assert _unsaid(RELEASE, None, "hidden") == ["There is no graph to show: hidden."]


def test_a_model_of_ones_own_and_what_is_no_model_of_the_release():
    report = Report(RELEASE, pg.PrivateGraphicalLasso(pg.EBIC()).fit(RELEASE))
    said = report.facts["edges"]
    assert "EBIC" in said and ", with a penalty of" in said
    other = pg.PrivateGraphicalLasso(pg.EBIC()).fit(ROWS.rename(columns={"a": "z"}))
    again = pg.CovarianceMechanism(epsilon=1, delta=1e-9).publish(ROWS, 7)
    cases = (RELEASE, other), (released(KINDS["tree"]), report.graph)
    for release, model in (*cases, (again, report.graph), (RELEASE, "ebic")):
        with pytest.raises(InputError, match="fitted to this release"):
            Report(release, model)


def test_only_a_test_has_a_strength_that_it_finds():
    "A penalty's edges may have to be far stronger than what a test would see."
    given = Report(RELEASE, pg.PrivateGraphicalLasso(0.9).fit(RELEASE))
    assert "found in about 80 %" not in f"{given}"
    assert "found in about 80 %" in f"{Report(RELEASE)}"


def test_levels_of_raw_rows_are_said_to_be_for_elliptical_ones():
    "In the report, and wherever the edges of a release are told."
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(5000, 4)))
    rows.columns = RELEASE.columns[:4]
    mechanism = pg.CovarianceMechanism(clipping="sphere", epsilon=1, delta=1e-9)
    release = mechanism.publish(rows, 0)
    pool = combine([release, mechanism.publish(rows[::-1], 1), RELEASE])
    for each in (release, release.select(release.columns[:3]), pool):
        assert "elliptical rows" in f"{Report(each)}"
    assert "elliptical rows" in Recovery(release, level=0.05).headline
    assert "elliptical" not in f"{Report(RELEASE)}{Recovery(RELEASE).headline}"


def test_a_publication_gives_its_report(tmp_path):
    desk = pg.Publication(ROWS, epsilon=1)
    published = desk.publish(tmp_path / "open.parquet", random_state=1)
    page = tmp_path / "page.html"
    assert published.report(page).html() == page.read_text(encoding="utf-8")
    assert published.report().delta == published.draft.delta
    assert published.outside is None


def test_a_page_is_written_whole_and_over_nothing(tmp_path, monkeypatch):
    page, report = tmp_path / "page.html", Report(RELEASE)
    report.write(page)
    page.write_text("mine")
    with pytest.raises(InputError, match="there is one already"):
        report.write(page)
    assert page.read_text() == "mine"
    report.write(page, replace=True)
    assert page.read_text(encoding="utf-8") == report.html()
    monkeypatch.setattr(Page, "html", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.write(tmp_path / "other.html")
    for path, told in (
        (tmp_path / "page.txt", "end it in .html"),
        (tmp_path / "none" / "page.html", "no file can be made"),
    ):
        monkeypatch.undo()
        with pytest.raises(InputError, match=told):
            report.write(path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_without_the_extra_it_is_said_how_to_install_it(monkeypatch, tmp_path):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(ImportError, match=r"pip install 'privglasso\[report\]'"):
        Report(RELEASE).write(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
    assert Report(RELEASE).title == "5 edges among 6 columns"


@pytest.mark.long
def test_the_bytes_are_the_same_in_every_process(tmp_path):
    RELEASE.to_parquet(tmp_path / "open.parquet")
    words = [sys.executable, "-m", "privglasso", "report", "open.parquet"]
    for k in (1, 2):
        made = [*words, f"page{k}.html"]
        subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    one, two = (tmp_path / f"page{k}.html" for k in (1, 2))
    assert one.read_bytes() == two.read_bytes() == Report(RELEASE).html().encode()


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


def test_the_shell_writes_a_report_and_refuses_what_it_must(tmp_path):
    file, page = tmp_path / "open.parquet", tmp_path / "page.html"
    RELEASE.to_parquet(file)
    code, output = call("report", file, page)
    assert code == 0 and output.startswith("5 edges among 6 columns. If one record")
    told = page.read_bytes()
    code, output = call("report", file, page, "--rule", "simultaneous", "--json")
    assert code == 2 and "there is a file already" in output
    code, output = call("report", file, page, "--alpha", 0.3, "--json", "--force")
    assert code == 0 and json.loads(output)["title"] != "" and page.read_bytes() != told
    for words, refusal in (
        ((file, tmp_path / "page.txt"), "a report ends in one of .html, .htm"),
        ((tmp_path / "none.parquet", page), "there is no such file"),
        ((file, page, "--delta", 2, "--force"), "--delta"),
    ):
        code, output = call("report", *words)
        assert code == 2 and refusal in output, output
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["open.parquet", "page.html"]
