"""The first pages say of the graph what a hundred fresh tables show."""

import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from privglasso.experiments.headlines import HEADLINES, compared, headline_counts
from privglasso.experiments.headlines import HEADLINES_STUDY
from privglasso.privacy.gdp import mu_gdp

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "docs"))

import readme  # noqa: E402

# where it stands, and its budget as it is written there and as numbers
PAGES = {
    "README": ("index", "epsilon=0.2, delta=1e-10", (0.2, 1e-10)),
    "story": ("0_start/01_story", "epsilon=1, delta=n**-2", (1, 50_000**-2)),
    "first hour": ("0_start/08_first_hour", "epsilon=1, delta=1e-9", (1, 1e-9)),
    "own CSV": ("0_start/02_your_own_csv", "epsilon=1, delta=1e-9", (1, 1e-9)),
}


def source(page):
    "The text and the code of a chapter, without line breaks."
    notebook = nbformat.read(ROOT / f"nbs/{page}.ipynb", as_version=4)
    return " ".join(" ".join(cell.source for cell in notebook.cells).split())


@pytest.mark.parametrize("headline", PAGES)
def test_a_headline_holds_in_nineteen_tables_of_twenty(headline):
    held = headline_counts().loc[headline, "search"]
    assert held.graph >= 0.95 * held.tables > 0


@pytest.mark.parametrize("headline", PAGES)
def test_a_page_draws_its_graph_as_the_study_does(headline):
    "And shows the frequency, which a reader would otherwise have to believe."
    page, written, paid = PAGES[headline]
    text = source(page)
    assert f"{written})" in text
    assert np.isclose(HEADLINES[headline][1].budget["mu"], mu_gdp(*paid))
    assert "PrivateGraphicalLasso()" in text
    assert f'how_often("{headline}")' in text
    assert "Simultaneous" not in text


def test_the_readme_says_how_often():
    notebook = nbformat.read(ROOT / "nbs/index.ipynb", as_version=4)
    text = readme.render(notebook)["README.md"].decode()
    (tables,) = re.findall(r"Tried on (\d+) fresh tables", text)
    assert int(tables) == headline_counts().tables["README", "search"] == 100


def test_counts_can_fail():
    row = {"headline": "h", "rule": "r", "missed": 0, "extra": 0}
    row |= {"weakest_true": 0.2, "strongest_false": 0.0}
    rows = pd.DataFrame(
        [
            row,
            row | {"extra": 1, "strongest_false": 0.1},
            row | {"extra": 1, "strongest_false": 0.3},
            row | {"missed": 1, "weakest_true": 0.0},
        ]
    )
    assert headline_counts(rows).loc["h", "r"].tolist() == [4, 3, 1, 2]


def test_every_edge_is_compared():
    edges = pd.DataFrame(
        {"source": [], "target": [], "partial_correlation": []}, dtype=float
    )
    told = compared(edges, {frozenset("ab")})
    assert told == {
        "found": 0,
        "missed": 1,
        "extra": 0,
        "weakest_true": 0.0,
        "strongest_false": 0.0,
    }


def test_a_hundred_tables_for_each_headline():
    jobs = HEADLINES_STUDY.jobs("full")
    assert len(jobs) == 100 * len(HEADLINES)
    assert len({tuple(job.values()) for job in jobs}) == len(jobs)


def test_every_mechanism_of_the_first_page_is_tried():
    "The table of mechanisms says what each gives from 10 000 records."
    cells = nbformat.read(ROOT / "nbs" / "index.ipynb", 4).cells
    lines = "\n".join(cell.source for cell in cells).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    said = [row for row in rows if "10 000 records" in row or "the same" in row]
    named = {name for row in said for name in re.findall(r"`(\w+Mechanism)`", row)}
    tried = {
        type(mechanism).__name__
        for name, (_, mechanism) in HEADLINES.items()
        if name.endswith("10 000")
    }
    assert len(named) == 4 and named <= tried
