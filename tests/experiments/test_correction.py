"""What correction does: the test of an edge, models and jobs, where the chapter does
not look."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from privglasso.base.graphs import support
from privglasso.base.validation import InputError
from privglasso.experiments.correction import (
    correction_model,
    edge_pvalues,
    false_positives,
)


def test_a_pair_by_hand():
    S = np.array([[1.0, 0.5], [0.5, 1.0]])
    (p_value,) = edge_pvalues(np.linalg.inv(S), S, 101)
    z = 0.5 / np.sqrt((1 + 0.25) / 101)  # of θ₁₂ = -2/3, in units of its deviation
    assert p_value == pytest.approx(2 * norm.sf(z))


def test_p_values_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    rows, units = rng.normal(size=(300, 4)), 10.0 ** np.array([-3, 0, 2, 5])
    S, scaled = np.cov(rows, rowvar=False), np.cov(rows * units, rowvar=False)
    np.testing.assert_allclose(
        edge_pvalues(np.linalg.inv(S), S, 300),
        edge_pvalues(np.linalg.inv(scaled), scaled, 300),
        rtol=1e-6,
    )


def test_p_values_are_uniform_without_edges():
    rng, noise = np.random.default_rng(1), 0.5
    drawn = []
    for _ in range(1000):
        seen = np.cov(rng.normal(size=(2000, 3)) * np.sqrt(1 + noise), rowvar=False)
        drawn.append(
            edge_pvalues(np.linalg.inv(seen - noise * np.eye(3)), seen, 2000)[0]
        )
    assert kstest(drawn, "uniform").pvalue > 1e-6


def test_rows_that_are_none():
    for n in [0, -1, 2.5, "many", np.nan]:
        with pytest.raises(InputError):
            edge_pvalues(np.eye(3), np.eye(3), n)


def test_matrices_that_do_not_fit():
    with pytest.raises(InputError):
        edge_pvalues(np.eye(3), np.eye(4), 100)


def test_no_inverse_no_test():
    truth = np.zeros((3, 3), dtype=bool)
    assert np.isnan(false_positives(np.eye(3), np.full(3, 2.0), 100, truth))
    assert false_positives(np.eye(3), np.zeros(3), 100, truth) == 0
    assert (
        false_positives(np.eye(3) + 0.9 * (1 - np.eye(3)), np.zeros(3), 100, truth) == 1
    )


def test_models_that_are_none():
    with pytest.raises(InputError, match="give one of"):
        correction_model("ring", 0)


def test_models_are_fixed_but_the_random_ones():
    for name in ("tridiagonal", "chain"):
        np.testing.assert_array_equal(
            correction_model(name, 0), correction_model(name, 1)
        )
    assert (
        support(correction_model("random", 0)) != support(correction_model("random", 1))
    ).any()
