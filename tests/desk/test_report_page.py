"""The pages of reports in a real browser: what they show, and that they ask for
nothing."""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from privglasso.data_sets.synthetic import sample_gaussian
from privglasso.desk.report import Report
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.tree import TreeMechanism

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))

import browse  # noqa: E402

pytestmark = pytest.mark.skipif(
    browse.BROWSER is None, reason="no Chromium on this machine to look at pages with"
)
HOSTILE = [
    "</script><script>hacked = 1</script>",
    "b\"'><img src=x onerror=hacked=2>",
    "<svg onload=hacked=3>&lt;&amp;\\u003c",
    "größe 身長 العمر 🧬",
    "long " * 60,
]


def rows(names):
    "Rows of a chain whose links are .4, .3, .2, …, the second one negative."
    links = np.array([0.45, -0.4, 0.2, 0.2])
    precision = np.eye(5) - np.diag(links, 1) - np.diag(links, -1)
    values = sample_gaussian(precision, 20_000, random_state=5)
    return pd.DataFrame(values, columns=names)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    target = {"epsilon": 1, "delta": 1e-9}
    for name, columns in (("plain", list("abcde")), ("hostile", HOSTILE)):
        release = CovarianceMechanism(**target).publish(rows(columns), 1)
        Report(release).write(folder / f"{name}.html")
    tree = TreeMechanism(**target)
    for name, few in (("tree", 20_000), ("undecided", 300)):
        release = tree.publish(rows(list("abcde"))[:few], 1)
        Report(release).write(folder / f"{name}.html")
    pages = [path.name for path in sorted(folder.glob("*.html"))]
    seen = browse.ask(folder, pages, Path(__file__).with_name("report_page.js"))
    assert "driver" not in seen, seen["driver"]
    return seen


PAGES = ["hostile", "plain", "tree", "undecided"]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_asked_for_and_nothing_fails(seen, page):
    told = seen[f"{page}.html"]
    assert told["faults"] == told["loaded"] == [] and told["hacked"] is None
    own = {f"/{name}.html" for name in PAGES} | {"/driver.html", "/asked.json", "/seen"}
    assert set(seen["served"]) - {"/favicon.ico"} == own and seen["missing"] == []


@pytest.mark.parametrize("page", PAGES)
def test_light_and_dark_are_a_click_apart(seen, page):
    theme = seen[f"{page}.html"]["theme"]
    assert theme["first"] == theme["again"] != theme["second"]
    for ground, text in (theme["first"], theme["second"]):
        assert abs(ground - text) > 0.6


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_shows_the_whole_width(seen, page):
    assert seen[f"{page}.html"]["wide"] <= 0


def test_graph_and_table_show_the_same_edges(seen):
    told = seen["plain.html"]
    chain = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"]]
    assert sorted(told["all"]["rows"]) == sorted(told["again"]["rows"]) == chain
    for name, edges in (
        ("all", chain),
        ("named", chain[:2]),
        ("strong", chain[:2]),
        ("chosen", chain[:1]),
    ):
        shown = told[name]
        assert sorted(shown["rows"]) == edges and shown["lines"] == len(edges), name
        assert shown["count"] == f"{len(edges)} of 4 edges"
    assert told["title"] == "4 edges among 5 columns"
    assert {"-0.", "−0."} & {word[:3] for word in told["says"].split()} == {"−0."}


def test_columns_are_sorted_by_their_numbers_or_names(seen):
    found = seen["plain.html"]["sorted"]
    assert len(found) == 7
    for head, (up, down) in found.items():
        values = up if "column" in head else list(map(float, up))
        assert values == sorted(values) and down == up[::-1], head
    assert any(float(text) < 1e-9 for text in found["P"][0])


def test_nodes_are_dragged_and_the_wheel_comes_nearer(seen):
    told = seen["plain.html"]["drag"]
    assert told["moved"] > 20 and told["nearer"] > 1.1


def test_files_in_the_page_are_those_of_the_report(seen, tmp_path):
    files = dict(seen["plain.html"]["files"])
    (tmp_path / "edges.csv").write_text(files["edges.csv"])
    assert len(pd.read_csv(tmp_path / "edges.csv")) == 4
    graph = nx.parse_graphml(files["edges.graphml"])
    assert set(graph) == set("abcde") and graph["b"]["c"]["weight"] < -0.2


def test_hostile_names_are_text(seen):
    told, plain = seen["hostile.html"], seen["plain.html"]
    assert told["labels"] == HOSTILE and told["images"] == 0
    assert told["scripts"] == plain["scripts"] == 4  # one is of docs/browse.py
    assert {name for row in told["all"]["rows"] for name in row} == set(HOSTILE)
    assert set(nx.parse_graphml(dict(told["files"])["edges.graphml"])) == set(HOSTILE)


def test_a_tree_has_signs_and_no_slider(seen):
    told = seen["tree.html"]
    assert set(told["sorted"]) == {"column", "other column", "sign"}
    assert "strong" not in told and "negative" in told["says"]


def test_an_undecided_graph_is_said(seen):
    told = seen["undecided.html"]
    assert told["title"] == "The graph is undecided" and "all" not in told
    assert "a few other records" in told["says"] and told["scripts"] == 2
