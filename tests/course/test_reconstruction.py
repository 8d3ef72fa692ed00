"""Lecture 1: other right answers than the sheet's own are accepted."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from privglasso.course.reconstruction import SHEET


def by_variance(others, spread, published):
    "Both roots of the quadratic equation for the variance of all."
    n, total, squares = len(others) + 1, sum(others), sum(x * x for x in others)
    c = n * squares - total**2 - n**2 * spread**2
    roots = np.roots([n - 1, -2 * total, c]).real
    return min(roots, key=lambda x: abs(x - published))


def by_search(others, spread, published):
    "The root on the published side of the mean."
    a = sum(others) / len(others)
    end = a + 10 if published > a else a - 10
    return brentq(lambda x: np.std(np.append(others, x)) - spread, a, end)


def by_moments(others, spread, published):
    "From the sum of squares about the others' mean."
    n, a = len(others) + 1, np.mean(others)
    squares = n * spread**2 - (n - 1) * np.var(others)
    return a + np.sign(published - a) * math.sqrt(squares * n / (n - 1))


def shrunk(S, sigma):
    "What is kept in each direction."
    size, direction = np.linalg.eigh(S)
    return direction @ np.diag(1 - sigma**2 / size) @ direction.T


RIGHT = [
    (1, 18 / 10**1.3),
    (1, math.sqrt(18**2 / 10**2.6)),
    (1, "0.902"),
    (2, 15),
    (2, math.ceil((norm.isf(0.005) * 0.75 / 0.5) ** 2)),
    (2, np.array([15.0])),
    (3, by_variance),
    (3, by_search),
    (3, by_moments),
    (4, lambda S, sigma: np.eye(len(S)) - sigma**2 * np.linalg.inv(S)),
    (4, lambda S, sigma: np.linalg.solve(S, S - sigma**2 * np.eye(len(S)))),
    (4, shrunk),
    (5, "b, d, e"),
    (5, ["E", "B", "D"]),
    (5, {"b", "d", "e"}),
]


@pytest.mark.parametrize(("number", "answer"), RIGHT)
def test_right_answers_are_accepted(number, answer):
    assert SHEET.hint(number, answer) is None


def test_honest_slips_get_a_hint_that_fits():
    slips = {
        (1, Fraction(18, 26)): "logarithm",
        (2, (norm.isf(0.005) * 1.5) ** 2): "whole",
        (4, lambda S, sigma: np.linalg.inv(S) * (S - sigma**2 * np.eye(len(S)))): "W =",
        (5, "a"): "Try each claim",
    }
    for (number, answer), word in slips.items():
        assert word in SHEET.hint(number, answer)
