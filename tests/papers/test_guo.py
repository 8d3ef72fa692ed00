"""The attacks on the main paper's promises, against their closed forms."""

import numpy as np
import pytest

from privglasso.papers.guo import covariance_attack, implied_mu, paper_mu
from privglasso.privacy.gdp import tradeoff_gdp


def test_a_test_on_the_curve_implies_its_mu():
    for mu in (0.1, 1.0, 4.0):
        for alpha in (1e-6, 0.01, 0.5, 0.9):
            assert implied_mu(alpha, tradeoff_gdp(alpha, mu)) == pytest.approx(mu)


def test_the_table_of_the_covariance_attack():
    attacks = {0.1: 0.0367, 0.2: 0.8865, 0.3: 0.9656, 0.5: 0.9839}
    for sigma, type_two in attacks.items():
        assert covariance_attack(sigma) == pytest.approx(type_two, rel=1e-3)
    assert covariance_attack(0.05) == pytest.approx(1.1e-28, rel=0.05)


def test_the_covariance_attack_stays_below_the_proved_bound():
    for sigma in np.geomspace(0.05, 5, 20):
        for alpha in (1e-4, 0.01, 0.2):
            found = implied_mu(alpha, covariance_attack(sigma, type_one=alpha))
            assert found <= 2 / sigma
    assert paper_mu(2 / 1000, 1.0, 1 / 1000) == pytest.approx(0.0447, abs=1e-4)
