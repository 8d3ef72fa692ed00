"""The registry of claims: every FALSE one is refuted by its own example, and later chapters may add theirs."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from privglasso.papers.guo import covariance_attack, implied_mu, paper_mu
from privglasso.papers.registry import CLAIMS
from privglasso.cli import app
from privglasso.privacy.gdp import tradeoff_gdp


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_false_claim_is_refuted_by_its_example(claim):
    check = claim.check()
    assert check.refuted == (claim.verdict == "FALSE")
    assert check.true != check.promised and check == claim.check()
    assert all((claim.statement, claim.source, claim.counterexample, claim.corrected))


def test_machines_read_every_claim():
    result = CliRunner().invoke(app, ["claims", "--json"])
    rows = json.loads(result.output)
    assert result.exit_code == 0 and len(rows) == len(CLAIMS)
    assert all({"paper", "name", "verdict", "source"} <= set(row) for row in rows)


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_a_test_on_the_curve_implies_its_mu(mu):
    for alpha in (1e-6, 0.01, 0.5, 0.9):
        assert implied_mu(alpha, tradeoff_gdp(alpha, mu)) == pytest.approx(mu)


ATTACKS = [(0.05, 1.1e-28), (0.1, 0.0367), (0.2, 0.8865), (0.3, 0.9656), (0.5, 0.9839)]


@pytest.mark.parametrize("sigma, type_two", ATTACKS)
def test_the_table_of_the_covariance_attack(sigma, type_two):
    assert covariance_attack(sigma) == pytest.approx(
        type_two, rel=0.05 if sigma == 0.05 else 1e-3
    )


def test_the_covariance_attack_stays_below_the_proved_bound():
    for sigma in np.geomspace(0.05, 5, 20):
        for alpha in (1e-4, 0.01, 0.2):
            assert (
                implied_mu(alpha, covariance_attack(sigma, type_one=alpha)) <= 2 / sigma
            )
    assert paper_mu(2 / 1000, 1.0, 1 / 1000) == pytest.approx(0.0447, abs=1e-4)
