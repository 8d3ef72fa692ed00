"""The printed Theorem 2, where the true divergence is known."""

import pytest

from privglasso.papers.campbell import CLAIMS, printed_theorem2
from privglasso.papers.graph_filter import Excitation, gso_renyi


def test_the_printed_theorem_is_negative():
    equal = printed_theorem2(2.0, 0.25, 0.25, 1)
    nearby = printed_theorem2(2.0, 0.25, 0.55**2, 1)
    assert equal == pytest.approx(-2.7726, abs=1e-4)
    assert nearby == pytest.approx(-2.46, abs=5e-3)
    true = gso_renyi([[0.5]], [[0.55]], Excitation([[0.0]], [[1.0]]), 2.0)
    assert true == pytest.approx(0.0153, abs=1e-4)


def test_every_false_statement_of_the_paper_is_there():
    assert {claim.name for claim in CLAIMS if claim.verdict == "FALSE"} == {
        "Corollary 1 (mean)",
        "Corollary 1 (exponent)",
        "Theorem 2",
        "Condition number of Σ",
        "Figure 1",
        "ε of the input",
    }
