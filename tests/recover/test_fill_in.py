"Fill-in by noise, in exact arithmetic, against SymPy, numpy and its own symmetries."

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privglasso.recover.fill_in import FillIn, fill_in_polynomial, noisy_precision
from privglasso.recover.fill_in import path_sum_inverse
from privglasso.base.graphs import support
from privglasso.data_sets.synthetic import random_sparse_precision
from privglasso.data_sets.synthetic import tridiagonal_precision
from privglasso.base.validation import InputError

LEVELS = st.fractions(Fraction(1, 50), 50, max_denominator=60)


@st.composite
def precisions(draw, largest=5):
    "Positive definite matrices of fractions, often sparse, often frustrated; and a pair of columns."
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


@settings(max_examples=60, deadline=None)
@given(precisions(), LEVELS)
def test_entry_against_exact_inverses(case, level):
    theta, i, j = case
    expected = exact_noisy(theta, level)[i, j]
    assert fill_in_polynomial(theta, i, j)(level) == expected
    assert -path_sum_inverse(theta, level, i, j) / level == expected


@settings(max_examples=60, deadline=None)
@given(precisions(), LEVELS)
def test_both_orders_of_a_pair_agree(case, level):
    theta, i, j = case
    assert fill_in_polynomial(theta, i, j) == fill_in_polynomial(theta, j, i)
    assert path_sum_inverse(theta, level, i, j) == path_sum_inverse(theta, level, j, i)


@settings(max_examples=60, deadline=None)
@given(precisions(), st.randoms(use_true_random=False))
def test_names_of_columns_do_not_matter(case, random):
    theta, i, j = case
    order = list(range(len(theta)))
    random.shuffle(order)
    shuffled = theta[np.ix_(order, order)]
    assert fill_in_polynomial(
        shuffled, order.index(i), order.index(j)
    ) == fill_in_polynomial(theta, i, j)


@settings(max_examples=100, deadline=None)
@given(precisions(6))
def test_number_of_zeros_against_sympy(case):
    theta, i, j = case
    entry = fill_in_polynomial(theta, i, j)
    assume(entry.order is not None)
    s = sympy.Symbol("s")
    stripped = sympy.Poly(
        [sympy.Rational(str(c)) for c in entry.numerator[: entry.order : -1]]
        + [sympy.Rational(str(entry.numerator[entry.order]))],
        s,
    )
    zeros = entry.zeros(Fraction(1, 1000))
    assert len(zeros) == stripped.count_roots(0, None)
    assert len(zeros) <= len(theta) - (3 if theta[i, j] == 0 else 2)
    for low, high in zeros:
        assert high - low <= Fraction(1, 1000)
        assert (
            stripped.count_roots(sympy.Rational(str(low)), sympy.Rational(str(high)))
            >= 1
        )


@settings(max_examples=60, deadline=None)
@given(precisions())
def test_without_noise_the_entry_is_the_precision(case):
    theta, i, j = case
    entry = fill_in_polynomial(theta, i, j)
    assert entry(0) == entry.numerator[0] == theta[i, j]
    assert (
        len(entry.numerator) == len(theta) - 1
        and len(entry.denominator) == len(theta) + 1
    )
    assert path_sum_inverse(theta, 0, i, j) == 0


@settings(max_examples=60, deadline=None)
@given(precisions())
def test_leading_coefficients_are_minors(case):
    "The last coefficient is det(Theta) times the covariance, those of the denominator end with det(Theta)."
    theta, i, j = case
    entry, matrix = fill_in_polynomial(theta, i, j), sympy.Matrix(theta)
    assert entry.denominator[-1] == matrix.det()
    assert (
        entry.numerator[-1] == -matrix.adjugate()[i, j]
        if len(theta) > 2
        else entry.numerator[-1] == theta[i, j]
    )


@pytest.mark.parametrize(
    "numerator, expected",
    [
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
    ],
)
def test_zeros_of_known_polynomials(numerator, expected):
    entry = FillIn(tuple(map(Fraction, numerator)), (Fraction(1),))
    zeros = entry.zeros(Fraction(1, 10**40))
    assert len(zeros) == len(expected)
    assert all(
        low < zero <= high for (low, high), zero in zip(zeros, expected, strict=True)
    )


def test_zeros_of_a_tiny_width_do_not_overflow():
    ((low, high),) = FillIn((Fraction(-1), Fraction(3)), (Fraction(1),)).zeros(
        Fraction(1, 2**1500)
    )
    assert low < Fraction(1, 3) <= high and high - low <= Fraction(1, 2**1500)


def test_a_wide_bracket_still_holds_one_zero():
    brackets = FillIn(
        (Fraction(-6), Fraction(11), Fraction(-6), Fraction(1)), (Fraction(1),)
    ).zeros(1000)
    assert all(
        low < zero <= high
        for (low, high), zero in zip(brackets, (1, 2, 3), strict=True)
    )


def test_path_sum_of_an_indefinite_matrix():
    "The identity holds for any symmetric matrix, also where elimination has to exchange rows."
    theta = sympy.Matrix([[-1, 2, 0, 1], [2, -1, 3, 0], [0, 3, -1, 1], [1, 0, 1, -1]])
    inverse = (sympy.eye(4) + theta).inv()
    for i in range(4):
        assert all(
            path_sum_inverse(theta.tolist(), 1, i, j) == inverse[i, j]
            for j in range(4)
            if j != i
        )


# kinds of numbers


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        lambda m: np.array(m, dtype=np.int32),
        lambda m: np.array(m, dtype=np.float32),
        pd.DataFrame,
        lambda m: [[np.int64(x) for x in row] for row in m],
        lambda m: [[Fraction(x) for x in row] for row in m],
        lambda m: [[sympy.Integer(x) for x in row] for row in m],
    ],
)
def test_exact_whatever_the_numbers_come_as(convert):
    matrix = [[2, 1, 0], [1, 2, 1], [0, 1, 2]]
    assert fill_in_polynomial(convert(matrix), 0, 2)(np.int64(1)) == Fraction(-1, 21)
    assert path_sum_inverse(convert(matrix), 1.0, 0, 2) == Fraction(1, 21)


def test_integers_do_not_overflow():
    big = 10**300
    entry = fill_in_polynomial(
        [[2 * big, big, 0], [big, 2 * big, big], [0, big, 2 * big]], 0, 2
    )
    assert entry(Fraction(1, big)) == Fraction(-big, 21)


# the matrix in floats


@settings(max_examples=60, deadline=None)
@given(precisions(), LEVELS)
def test_floats_agree_with_fractions(case, level):
    theta, i, j = case
    noisy = noisy_precision(theta.astype(float), float(level))
    assert abs(noisy[i, j] - float(fill_in_polynomial(theta, i, j)(level))) < 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_noise_adds_up(seed):
    theta, rng = random_sparse_precision(12, 0.2, seed), np.random.default_rng(seed)
    first, second = 10 ** rng.uniform(-3, 2, (2, 12))
    assert np.allclose(
        noisy_precision(noisy_precision(theta, first), second),
        noisy_precision(theta, first + second),
    )


@pytest.mark.parametrize("seed", range(10))
def test_noise_in_some_columns_only(seed):
    "Rows and columns of the inverse covariance: fill-in lives among the neighbours of noisy columns."
    theta = tridiagonal_precision(9, 0.4)
    variance = np.zeros(9)
    variance[4] = 1 + seed
    changed = np.abs(noisy_precision(theta, variance) - theta) > 1e-14
    expected = np.zeros((9, 9), dtype=bool)
    expected[3:6, 3:6] = True
    assert np.array_equal(changed, expected)


@pytest.mark.parametrize("variance", [1e-300, 1e-8, 1.0, 1e8, 1e150])
def test_extreme_noise_stays_positive_definite_and_symmetric(variance):
    theta = tridiagonal_precision(30)
    noisy = noisy_precision(theta, variance)
    assert np.array_equal(noisy, noisy.T) and np.linalg.eigvalsh(noisy)[0] > 0
    expected = np.linalg.inv(np.linalg.inv(theta) + variance * np.eye(30))
    assert np.allclose(noisy * (1 + variance), expected * (1 + variance))


@pytest.mark.parametrize("decades", [0, 4, 8])
@pytest.mark.parametrize("level", [1e-6, 1.0, 1e6])
def test_rounding_is_what_the_note_says(decades, level):
    "Against fractions: within a few roundings of the largest entry, times the condition of I + s Theta."
    for seed in range(5):
        Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))
        theta = (Q * np.logspace(0, -decades, 5)) @ Q.T
        theta = (theta + theta.T) / 2
        error = [
            noisy_precision(theta, level)[i, j]
            - float(fill_in_polynomial(theta, i, j)(level))
            for i in range(5)
            for j in range(i)
        ]
        values = np.linalg.eigvalsh(theta)
        condition, largest = (1 + level * values[-1]) / (1 + level * values[0]), values[
            -1
        ] / (1 + level * values[-1])
        assert np.abs(error).max() < 20 * np.finfo(float).eps * condition * largest


def test_the_ring_keeps_its_graph():
    ring = np.eye(4) + 0.5 * np.array(
        [[0, 1, 0, -1], [1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0]]
    )
    for variance in (0.01, 0.3, 1.0, 10.0):
        assert np.array_equal(
            support(noisy_precision(ring, variance), tol=1e-15), support(ring)
        )


# what is refused


@pytest.mark.parametrize(
    "precision, variance, message",
    [
        ([[1, 2], [2, 1]], 1, "least eigenvalue"),
        ([[1, 1], [1, 1]], 1, "positive definite"),
        ([[1, 0.1], [0, 1]], 1, "symmetric"),
        ([[1, np.nan], [np.nan, 1]], 1, "finite"),
        (np.ones((2, 3)), 1, "square"),
        (np.eye(2), -1, "at least 0"),
        (np.eye(2), [1, np.inf], "finite"),
        (np.eye(2), [1, 1, 1], "2 columns"),
        (np.eye(2), "1", "2 columns"),
        (np.eye(2), True, "2 columns"),
        (np.eye(2), np.ones((2, 2)), "2 columns"),
    ],
)
def test_noisy_precision_refuses(precision, variance, message):
    with pytest.raises(InputError, match=message):
        noisy_precision(precision, variance)


@pytest.mark.parametrize(
    "function", [fill_in_polynomial, lambda m, i, j: path_sum_inverse(m, 1, i, j)]
)
@pytest.mark.parametrize(
    "precision, i, j, message",
    [
        (np.eye(2), 0, 0, "never zero"),
        (np.eye(2), 0, 2, "column number"),
        (np.eye(2), -1, 0, "column number"),
        (np.eye(2), 0.0, 1, "column number"),
        (np.eye(2), True, 0, "column number"),
        (np.eye(2), "a", 0, "column number"),
        (np.ones((2, 3)), 0, 1, "square"),
        (np.ones(4), 0, 1, "square"),
        ([[1, 2], [3]], 0, 1, "square"),
        ([[1, 2], [3, 20]], 0, 1, "symmetr"),
        ([[1, np.nan], [np.nan, 1]], 0, 1, "finite"),
        ([[1, np.inf], [np.inf, 1]], 0, 1, "finite"),
        ([["1", "0"], ["0", "1"]], 0, 1, "fractions"),
        ([[1, 1j], [1j, 1]], 0, 1, "fractions"),
        (np.ones((2, 2), dtype=bool), 0, 1, "fractions"),
    ],
)
def test_exact_functions_refuse(function, precision, i, j, message):
    with pytest.raises(InputError, match=message):
        function(precision, i, j)


@pytest.mark.parametrize(
    "precision",
    [[[1, 2], [2, 1]], [[1, 1], [1, 1]], [[-1, 0], [0, -1]], [[1, 0], [0, 0]]],
)
def test_polynomial_refuses_what_is_not_positive_definite(precision):
    with pytest.raises(InputError, match="positive definite"):
        fill_in_polynomial(precision, 0, 1)


def test_other_refusals():
    entry = fill_in_polynomial([[2, 1], [1, 2]], 0, 1)
    with pytest.raises(InputError, match="at least 0"):
        entry(-1)
    with pytest.raises(InputError, match="greater than 0"):
        entry.zeros(0)
    with pytest.raises(InputError, match="every noise variance"):
        fill_in_polynomial(np.eye(2), 0, 1).zeros()
    with pytest.raises(InputError, match="singular"):
        path_sum_inverse([[-1, 0], [0, 1]], 1, 0, 1)
    with pytest.raises(InputError, match="noise_variance=-1"):
        path_sum_inverse(np.eye(2), -1, 0, 1)
