"""The claims of the four papers: every verdict is what its own example says."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from privglasso.cli import app
from privglasso.papers.claim import table_of_claims
from privglasso.papers.registry import CLAIMS, claims_table


@pytest.fixture(scope="module")
def table():
    return claims_table()


def test_a_false_claim_is_refuted_by_its_example(table):
    wrong = table[~table.agrees]
    assert len(wrong) == 0, wrong[["paper", "name", "verdict", "refuted"]]
    # a check that compares a number with itself could not fail
    assert (table.promised != table.true).all()
    assert table.dtypes[["promised", "true"]].tolist() == [float, float]


def test_every_claim_is_complete_and_stands_once():
    for claim in CLAIMS:
        assert claim.verdict in ("TRUE", "TRUE with fix", "FALSE")
        assert claim.statement and claim.source
        assert claim.counterexample and claim.corrected
    assert len({(claim.paper, claim.name) for claim in CLAIMS}) == len(CLAIMS)


def test_a_wrong_verdict_is_seen():
    first = CLAIMS[0]
    wrong = type(first)(**{**vars(first), "verdict": "TRUE"})
    assert table_of_claims([first, wrong]).agrees.tolist() == [True, False]


def test_machines_read_every_claim_and_checks_repeat(table):
    result = CliRunner().invoke(app, ["claims", "--json"])
    rows = json.loads(result.output)
    assert result.exit_code == 0 and len(rows) == len(CLAIMS)
    again = np.array([[float(row["promised"]), float(row["true"])] for row in rows])
    assert np.array_equal(again, table[["promised", "true"]].to_numpy())
