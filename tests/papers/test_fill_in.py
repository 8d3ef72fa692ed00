"Fill-in by noise, in exact arithmetic, against SymPy, numpy and its own symmetries."

import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import (
    random_sparse_precision,
    tridiagonal_precision,
)
from privglasso.papers.fill_in import (
    FillIn,
    fill_in_polynomial,
    fill_in_polynomials,
    noisy_precision,
    path_sum_inverse,
)

LEVELS = st.fractions(Fraction(1, 50), 50, max_denominator=60)


@st.composite
def precisions(draw, largest=5):
    "Positive definite fractions, often sparse, often frustrated; a pair of columns."
    p = draw(st.integers(2, largest))
    theta = np.full((p, p), Fraction(0))
    for i in range(p):
        for j in range(i):
            theta[i, j] = theta[j, i] = Fraction(
                draw(st.sampled_from([0, 0, 0, 1, -1, 2, -3])), 4
            )
    surplus = draw(
        st.lists(
            st.fractions(Fraction(1, 9), 3, max_denominator=9), min_size=p, max_size=p
        )
    )
    theta += np.diag(
        [sum(abs(row)) + extra for row, extra in zip(theta, surplus, strict=True)]
    )
    i, j = draw(st.permutations(range(p)))[:2]
    return theta, i, j


def exact_noisy(theta, level):
    "Noisy precision matrix by SymPy's inverses."
    return (
        sympy.Matrix(theta).inv() + sympy.Rational(str(level)) * sympy.eye(len(theta))
    ).inv()


# the exact functions


@settings(max_examples=40, deadline=None)
@given(precisions(), LEVELS)
def test_entry_against_exact_inverses(case, level):
    theta, i, j = case
    expected = exact_noisy(theta, level)[i, j]
    assert fill_in_polynomial(theta, i, j)(level) == expected
    assert -path_sum_inverse(theta, level, i, j) / level == expected


@settings(max_examples=40, deadline=None)
@given(precisions(), LEVELS, st.randoms(use_true_random=False))
def test_neither_the_order_of_a_pair_nor_names_of_columns_matter(case, level, random):
    theta, i, j = case
    entry = fill_in_polynomial(theta, i, j)
    assert entry == fill_in_polynomial(theta, j, i)
    assert entry == fill_in_polynomials(theta)[min(i, j), max(i, j)]
    assert path_sum_inverse(theta, level, i, j) == path_sum_inverse(theta, level, j, i)
    order = list(range(len(theta)))
    random.shuffle(order)
    shuffled = theta[np.ix_(order, order)]
    assert entry == fill_in_polynomial(shuffled, order.index(i), order.index(j))


@settings(max_examples=100, deadline=None)
@given(precisions(6))
def test_zeros_against_floating_point_roots_and_signs(case):
    theta, i, j = case
    entry = fill_in_polynomial(theta, i, j)
    assume(entry.order is not None)
    zeros = entry.zeros(Fraction(1, 1000))
    assert len(zeros) <= len(theta) - (3 if theta[i, j] == 0 else 2)
    roots = np.roots([float(c) for c in entry.numerator[::-1]])
    for low, high in zeros:
        assert high - low <= Fraction(1, 1000)
        middle = float(low + high) / 2
        assert np.abs(roots - middle).min() < 1e-3 + 1e-6 * middle
    # between neighbouring brackets the sign is constant, and never zero
    ends = [Fraction(0), *(end for bracket in zeros for end in bracket)]
    ends.append(ends[-1] + 1000)
    for low, high in zip(ends[::2], ends[1::2], strict=True):
        points = [low + (high - low) * Fraction(k, 9) for k in range(1, 9)]
        assert len({entry(point) > 0 for point in points if low < high}) <= 1
        assert all(entry(point) != 0 for point in points if low < high)


@settings(max_examples=40, deadline=None)
@given(precisions())
def test_first_coefficients_are_the_precision_last_ones_minors(case):
    "det(Theta) below, and det(Theta) times the covariance above."
    theta, i, j = case
    entry, matrix = fill_in_polynomial(theta, i, j), sympy.Matrix(theta)
    assert len(entry.numerator) == len(theta) - 1
    assert len(entry.denominator) == len(theta) + 1
    assert entry(0) == theta[i, j] and path_sum_inverse(theta, 0, i, j) == 0
    assert entry.denominator[-1] == matrix.det()
    if len(theta) > 2:
        assert entry.numerator[-1] == -matrix.adjugate()[i, j]


KNOWN = [
    ([0, 1], []),  # s
    ([-1, 1], [1]),  # s - 1
    ([0, 0, -2, 1], [2]),  # s^2 (s - 2)
    ([1, -2, 1], [1]),  # (s - 1)^2: a double zero counts once
    ([-1, 3, -3, 1], [1]),  # (s - 1)^3
    ([-6, 11, -6, 1], [1, 2, 3]),
    ([1, 0, 1], []),  # s^2 + 1
    ([2, 3, 1], []),  # zeros at -1 and -2 do not count
    ([0, -1, 1, 0], [1]),  # s (s - 1), a covariance of zero
    ([Fraction(-1, 10**30), 1], [Fraction(1, 10**30)]),
    ([-(10**30), 1], [10**30]),
    ([-1, 3], [Fraction(1, 3)]),
]


@pytest.mark.parametrize(
    "width, known",
    [(1000, KNOWN), (Fraction(1, 10**40), KNOWN), (Fraction(1, 2**1500), KNOWN[-1:])],
)
def test_zeros_of_known_polynomials(width, known):
    for numerator, expected in known:
        entry = FillIn(tuple(map(Fraction, numerator)), (Fraction(1),))
        zeros = entry.zeros(width)
        assert len(zeros) == len(expected), numerator
        for (low, high), zero in zip(zeros, expected, strict=True):
            assert low < zero <= high and high - low <= width, numerator


def test_without_sympy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    entry = fill_in_polynomial([[2, 1], [1, 2]], 0, 1)
    assert entry(1) == Fraction(1, 8)
    with pytest.raises(ImportError, match="pip install sympy"):
        entry.zeros()


def test_path_sum_of_an_indefinite_matrix():
    "For any symmetric matrix, also where elimination has to exchange rows."
    theta = sympy.Matrix([[-1, 2, 0, 1], [2, -1, 3, 0], [0, 3, -1, 1], [1, 0, 1, -1]])
    inverse = (sympy.eye(4) + theta).inv()
    for i in range(4):
        assert all(
            path_sum_inverse(theta.tolist(), 1, i, j) == inverse[i, j]
            for j in range(4)
            if j != i
        )


# kinds of numbers


def test_exact_whatever_the_numbers_come_as():
    matrix = [[2, 1, 0], [1, 2, 1], [0, 1, 2]]
    for kind in (
        np.array(matrix, dtype=np.int32),
        np.array(matrix, dtype=np.float32),
        pd.DataFrame(matrix),
        [[Fraction(x) for x in row] for row in matrix],
        [[sympy.Integer(x) for x in row] for row in matrix],
    ):
        assert fill_in_polynomial(kind, 0, 2)(np.int64(1)) == Fraction(-1, 21)
        assert path_sum_inverse(kind, 1.0, 0, 2) == Fraction(1, 21)


def test_integers_do_not_overflow():
    big = 10**300
    entry = fill_in_polynomial(
        [[2 * big, big, 0], [big, 2 * big, big], [0, big, 2 * big]], 0, 2
    )
    assert entry(Fraction(1, big)) == Fraction(-big, 21)


# the matrix in floats


@settings(max_examples=40, deadline=None)
@given(precisions(), LEVELS)
def test_floats_agree_with_fractions(case, level):
    theta, i, j = case
    noisy = noisy_precision(theta.astype(float), float(level))
    assert abs(noisy[i, j] - float(fill_in_polynomial(theta, i, j)(level))) < 1e-12


def test_noise_adds_up():
    for seed in range(10):
        theta, rng = random_sparse_precision(12, 0.2, seed), np.random.default_rng(seed)
        first, second = 10 ** rng.uniform(-3, 2, (2, 12))
        assert np.allclose(
            noisy_precision(noisy_precision(theta, first), second),
            noisy_precision(theta, first + second),
        )


def test_noise_in_one_column_fills_in_among_its_neighbours_only():
    theta, variance = tridiagonal_precision(9, 0.4), np.zeros(9)
    variance[4] = 3
    changed = np.abs(noisy_precision(theta, variance) - theta) > 1e-14
    expected = np.zeros((9, 9), dtype=bool)
    expected[3:6, 3:6] = True
    assert np.array_equal(changed, expected)


def test_extreme_noise_stays_positive_definite_and_symmetric():
    theta = tridiagonal_precision(30)
    for variance in (1e-300, 1e-8, 1.0, 1e8, 1e150):
        noisy = noisy_precision(theta, variance)
        assert np.array_equal(noisy, noisy.T) and np.linalg.eigvalsh(noisy)[0] > 0
        expected = np.linalg.inv(np.linalg.inv(theta) + variance * np.eye(30))
        assert np.allclose(noisy * (1 + variance), expected * (1 + variance))


@pytest.mark.parametrize("decades", [0, 4, 8])
def test_rounding_is_what_the_note_says(decades):
    "A few roundings of the largest entry, times the condition of I + s Theta."
    for seed, level in product(range(5), (1e-6, 1.0, 1e6)):
        Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))
        theta = (Q * np.logspace(0, -decades, 5)) @ Q.T
        theta = (theta + theta.T) / 2
        noisy, entries = noisy_precision(theta, level), fill_in_polynomials(theta)
        error = [noisy[pair] - float(entry(level)) for pair, entry in entries.items()]
        least, *_, most = np.linalg.eigvalsh(theta)
        condition = (1 + level * most) / (1 + level * least)
        largest = most / (1 + level * most)
        assert np.abs(error).max() < 20 * np.finfo(float).eps * condition * largest


# what is refused: the argument that is named

REFUSED = [
    *(
        (lambda m=matrix, v=variance: noisy_precision(m, v), argument)
        for matrix, variance, argument in (
            ([[1, 2], [2, 1]], 1, "precision"),
            ([[1, 1], [1, 1]], 1, "precision"),
            ([[1, 0.1], [0, 1]], 1, "precision"),
            ([[1, np.nan], [np.nan, 1]], 1, "precision"),
            (np.eye(2), -1, "noise_variance"),
            (np.eye(2), [1, np.inf], "noise_variance"),
            (np.eye(2), [1, 1, 1], "noise_variance"),
            (np.eye(2), "1", "noise_variance"),
            (np.eye(2), True, "noise_variance"),
            (np.eye(2), np.ones((2, 2)), "noise_variance"),
        )
    ),
    *(
        (lambda f=function, a=arguments: f(*a), argument)
        for function in (
            fill_in_polynomial,
            lambda matrix, i, j: path_sum_inverse(matrix, 1, i, j),
        )
        for *arguments, argument in (
            (np.eye(2), 0, 0, "j"),
            (np.eye(2), 0, 2, "j"),
            (np.eye(2), -1, 0, "i"),
            (np.eye(2), 0.0, 1, "i"),
            (np.eye(2), True, 0, "i"),
            (np.ones((2, 3)), 0, 1, "precision"),
            (np.ones(4), 0, 1, "precision"),
            ([[1, 2], [3]], 0, 1, "precision"),
            ([[1, 2], [3, 20]], 0, 1, "precision"),
            ([[1, np.nan], [np.nan, 1]], 0, 1, "precision"),
            ([[1, np.inf], [np.inf, 1]], 0, 1, "precision"),
            ([["1", "0"], ["0", "1"]], 0, 1, "precision"),
            ([[1, 1j], [1j, 1]], 0, 1, "precision"),
            (np.ones((2, 2), dtype=bool), 0, 1, "precision"),
        )
    ),
    *(
        (lambda m=matrix: fill_in_polynomial(m, 0, 1), "precision")
        for matrix in ([[1, 2], [2, 1]], [[1, 1], [1, 1]], [[-1, 0], [0, -1]])
    ),
    (lambda: fill_in_polynomial([[2, 1], [1, 2]], 0, 1)(-1), "noise_variance"),
    (lambda: fill_in_polynomial([[2, 1], [1, 2]], 0, 1).zeros(0), "width"),
    (lambda: fill_in_polynomial(np.eye(2), 0, 1).zeros(), "zeros"),
    (lambda: path_sum_inverse([[-1, 0], [0, 1]], 1, 0, 1), "precision"),
    (lambda: path_sum_inverse(np.eye(2), -1, 0, 1), "noise_variance"),
    (lambda: path_sum_inverse(np.eye(2), "1", 0, 1), "noise_variance"),
]


def test_bad_input_is_named():
    for call, argument in REFUSED:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == argument
