"""Synthetic tables: the models are what they claim to be, whatever the parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privglasso.base.graphs import partial_correlations, support
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import (
    chain_precision,
    corrected_example,
    example_table,
    random_sparse_precision,
    sample_gaussian,
    tridiagonal_precision,
)

SIZES = st.integers(2, 40)
SEEDS = st.integers(0, 2**32 - 1)
quick = settings(max_examples=30, deadline=None)


def chain_graph(p):
    return np.eye(p, k=1, dtype=bool) | np.eye(p, k=-1, dtype=bool)


@quick
@given(p=SIZES, fraction=st.floats(-0.999, 0.999))
def test_chain_is_positive_definite_up_to_its_limit(p, fraction):
    largest = 1 / (2 * np.cos(np.pi / (p + 1)))
    eigenvalues = np.linalg.eigvalsh(tridiagonal_precision(p, fraction * largest))
    np.testing.assert_allclose(eigenvalues[0], 1 - abs(fraction), atol=1e-12)


@quick
@given(p=SIZES, excess=st.floats(0, 10))
def test_chain_beyond_its_limit_is_refused(p, excess):
    largest = 1 / (2 * np.cos(np.pi / (p + 1)))
    for make in (tridiagonal_precision, chain_precision):
        with pytest.raises(InputError, match="positive definite only below"):
            make(p, largest * (1 + 1e-12) + excess)


@quick
@given(
    p=SIZES,
    strength=st.floats(-0.49, 0.49).filter(lambda r: abs(r) > 1e-3),
    data=st.data(),
)
def test_weak_chain_has_the_scales_and_edges_asked_for(p, strength, data):
    scales = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=p, max_size=p)))
    precision = chain_precision(p, strength, scales)
    relative = np.diag(np.linalg.inv(precision * np.outer(scales, scales)))
    np.testing.assert_allclose(relative, 1, rtol=1e-8)
    np.testing.assert_allclose(
        partial_correlations(precision)[chain_graph(p)], strength, rtol=1e-12
    )
    assert np.array_equal(support(precision), chain_graph(p))


@quick
@given(p=SIZES, density=st.floats(0.01, 0.99), seed=SEEDS)
def test_random_precision_is_sparse_symmetric_positive_definite(p, density, seed):
    precision = random_sparse_precision(p, density, seed)
    assert np.array_equal(precision, precision.T)
    np.testing.assert_allclose(np.diag(precision), 1)
    assert np.linalg.eigvalsh(precision)[0] > 0
    assert np.array_equal(precision, random_sparse_precision(p, density, seed))


@pytest.mark.parametrize(
    "precision",
    [tridiagonal_precision(), chain_precision(), random_sparse_precision(12, 0.3, 1)],
    ids=["paper", "weak chain", "random"],
)
def test_whitened_rows_are_standard_normal(precision):
    "Squared lengths are chi-squared; 10 seeds, error probability below 2e-7 in all."
    p, factor = len(precision), np.linalg.cholesky(precision)
    location = np.arange(p, dtype=float)
    for seed in range(10):
        white = (sample_gaussian(precision, 2000, seed, location) - location) @ factor
        low, high = chi2.ppf([1e-9, 1 - 1e-9], white.size)
        assert low < (white**2).sum() < high
        moment = 2000 * white.mean(axis=0) ** 2
        assert moment.sum() < chi2.ppf(1 - 1e-9, p)


def test_seed_generator_and_fresh_randomness():
    draw = lambda state: sample_gaussian(np.eye(2), 4, state)
    assert np.array_equal(draw(3), draw(3))
    assert np.array_equal(draw(3), draw(np.random.default_rng(3)))
    assert np.array_equal(draw(3), draw(np.random.SeedSequence(3)))
    assert not np.array_equal(draw(None), draw(None))


@pytest.mark.parametrize(
    "argument, call",
    [
        ("p", lambda: tridiagonal_precision(1)),
        ("off_diagonal", lambda: tridiagonal_precision(5, np.nan)),
        ("scales", lambda: chain_precision(5, scales=[1, 2, 3])),
        ("scales", lambda: chain_precision(2, scales=[1, 0])),
        ("scales", lambda: chain_precision(2, scales=["a", "b"])),
        ("density", lambda: random_sparse_precision(5, 0)),
        ("density", lambda: random_sparse_precision(5, 1)),
        ("random_state", lambda: random_sparse_precision(5, 0.2, -1)),
        ("precision", lambda: sample_gaussian([[1, 1], [1, 1]], 3)),
        ("n", lambda: sample_gaussian(np.eye(2), 0)),
        ("location", lambda: sample_gaussian(np.eye(2), 2, location=[1, 2, 3])),
        ("location", lambda: sample_gaussian(np.eye(2), 2, location=np.nan)),
        ("location", lambda: sample_gaussian(np.eye(2), 2, location="a")),
        ("n", lambda: corrected_example(3, 0)),
    ],
)
def test_bad_input_is_named(argument, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument


def test_example_has_its_truth_and_bounds_from_the_model():
    one, other = example_table(500, random_state=1), example_table(700, random_state=2)
    assert one.table.shape == (500, 20) and other.table.shape == (700, 20)
    assert np.array_equal(one.truth, chain_graph(20))
    for first, second in zip(one.bounds, other.bounds, strict=True):
        assert np.array_equal(first, second)
    np.testing.assert_allclose(one.bounds[1], 8 * np.geomspace(1, 30, 20))
