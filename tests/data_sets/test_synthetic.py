"""Synthetic tables: the models are what they claim to be, whatever the parameters."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privglasso.base.graphs import support
from privglasso.data_sets.registry import Dataset
from privglasso.data_sets.synthetic import chain_precision, example_table
from privglasso.data_sets.synthetic import random_sparse_precision, sample_gaussian
from privglasso.data_sets.synthetic import tridiagonal_precision
from privglasso.base.validation import InputError

SIZES = st.integers(2, 40)
SEEDS = st.integers(0, 2**32 - 1)
quick = settings(max_examples=50, deadline=None)


def chain_graph(p):
    return np.eye(p, k=1, dtype=bool) | np.eye(p, k=-1, dtype=bool)


def partial_correlations(precision):
    root = np.sqrt(np.diag(precision))
    return -precision / np.outer(root, root)


# ---------------------------------------------------------------------- models


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


def test_the_papers_model():
    precision = tridiagonal_precision()
    assert precision.shape == (50, 50)
    assert (np.diag(precision) == 1).all() and (np.diag(precision, 1) == 0.5).all()
    eigenvalues = np.linalg.eigvalsh(precision)
    assert eigenvalues[0] == pytest.approx(1 - np.cos(np.pi / 51), rel=1e-9)
    assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(1053.48, abs=0.01)


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


def test_default_scales_span_a_factor_thirty():
    deviations = np.sqrt(np.diag(np.linalg.inv(chain_precision())))
    np.testing.assert_allclose(deviations, np.geomspace(1, 30, 20))


@quick
@given(p=SIZES, density=st.floats(0.01, 0.99), seed=SEEDS)
def test_random_precision_is_sparse_symmetric_positive_definite(p, density, seed):
    precision = random_sparse_precision(p, density, seed)
    assert np.array_equal(precision, precision.T)
    np.testing.assert_allclose(np.diag(precision), 1)
    assert np.linalg.eigvalsh(precision)[0] > 0
    assert np.array_equal(precision, random_sparse_precision(p, density, seed))


# ---------------------------------------------------------------------- drawing


@pytest.mark.parametrize(
    "precision",
    [tridiagonal_precision(), chain_precision(), random_sparse_precision(12, 0.3, 1)],
    ids=["paper", "weak chain", "random"],
)
def test_whitened_rows_are_standard_normal(precision):
    """Each squared length is chi-squared with p degrees; 10 seeds, error probability below 2e-7 in all."""
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
    "call, complaint",
    [
        (lambda: tridiagonal_precision(1), "p=1"),
        (lambda: tridiagonal_precision(5.0), "p=5.0"),
        (lambda: tridiagonal_precision(True), "p=True"),
        (lambda: tridiagonal_precision(5, np.nan), "off_diagonal=nan"),
        (lambda: tridiagonal_precision(5, "half"), "off_diagonal='half'"),
        (lambda: chain_precision(5, scales=[1, 2, 3]), "5 positive"),
        (lambda: chain_precision(2, scales=[1, 0]), "2 positive"),
        (lambda: chain_precision(2, scales=[1, np.inf]), "2 positive"),
        (lambda: random_sparse_precision(5, 0), "density=0"),
        (lambda: random_sparse_precision(5, 1), "density=1"),
        (lambda: random_sparse_precision(5, 0.2, "seed"), "random_state='seed'"),
        (lambda: random_sparse_precision(5, 0.2, -1), "random_state=-1"),
        (lambda: sample_gaussian([[1, 2], [2, 1]], 3), "least eigenvalue -1"),
        (lambda: sample_gaussian([[1, 1], [1, 1]], 3), "positive definite"),
        (lambda: sample_gaussian([[1, 0], [1, 1]], 3), "symmetric"),
        (lambda: sample_gaussian(np.eye(2), 0), "n=0"),
        (lambda: sample_gaussian(np.eye(2), 2.0), "n=2.0"),
        (lambda: sample_gaussian(np.eye(2), 2, location=[1, 2, 3]), "location="),
        (lambda: sample_gaussian(np.eye(2), 2, location=np.nan), "location="),
        (lambda: example_table(0), "n=0"),
        (lambda: support(np.ones((2, 3))), "square"),
    ],
)
def test_bad_input_is_named(call, complaint):
    with pytest.raises(InputError, match=complaint):
        call()


# ---------------------------------------------------------------------- the running example


def test_example_has_its_truth_and_bounds_from_the_model():
    one, other = example_table(500, random_state=1), example_table(700, random_state=2)
    assert one.table.shape == (500, 20) and other.table.shape == (700, 20)
    assert np.array_equal(one.truth, chain_graph(20))
    for first, second in zip(one.bounds, other.bounds, strict=True):
        assert np.array_equal(first, second)
    np.testing.assert_allclose(one.bounds[1], 8 * np.geomspace(1, 30, 20))


def make(**changes):
    parts = dict(
        name="t",
        table=pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
        truth=None,
        kind="continuous",
        bounds=None,
        bounds_reason="",
        description="",
        source=(),
        licence="",
        citation="",
    )
    return Dataset(**(parts | changes))


def test_a_dataset_prints_what_it_is():
    assert repr(make()) == "Dataset t: 2 rows, 2 columns, continuous, no true graph"
    assert repr(make(truth=chain_graph(2))).endswith("1 true edges")
    assert make(licence="CC0").about().endswith("licence: CC0")


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"kind": "text"}, "kind='text'"),
        ({"truth": chain_graph(3)}, r"shape \(2, 2\)"),
        ({"truth": chain_graph(2).astype(int)}, "int"),
        ({"truth": np.array([[False, True], [False, False]])}, "symmetric"),
        ({"truth": np.ones((2, 2), dtype=bool)}, "diagonal"),
        ({"bounds": (np.zeros(2), np.zeros(2))}, "lower bounds"),
        ({"bounds": (np.zeros(3), np.ones(3))}, "2 lower bounds"),
        ({"bounds": (np.zeros(2), np.array([1, np.nan]))}, "lower bounds"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        make(**changes)
