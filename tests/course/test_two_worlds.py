"""Lecture 2: other right answers than the sheet's own are accepted."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from privglasso.course.two_worlds import SHEET

NORMAL = NormalDist()


def by_search(alpha, beta):
    "The mu at which the best rule with these false alarms misses that often."
    return brentq(lambda mu: norm.cdf(norm.isf(alpha) - mu) - beta, 0, 20)


def by_column(low, high, mu):
    "Squares added one after another."
    return math.sqrt(sum((b - a) ** 2 for a, b in zip(low, high, strict=True))) / mu


RIGHT = [
    (1, norm.cdf(0.125)),
    (1, 0.55),
    (1, "0.5497"),
    (2, 16),
    (2, "16"),
    (2, max(k for k in range(99) if 0.36 + k * 0.04 <= 1 + 1e-12)),
    (3, by_search),
    (3, lambda alpha, beta: norm.isf(alpha) + norm.isf(beta)),
    (3, lambda alpha, beta: NORMAL.inv_cdf(1 - alpha) + NORMAL.inv_cdf(1 - beta)),
    (4, by_column),
    (4, lambda low, high, mu: math.dist(low, high) / mu),
    (4, lambda low, high, mu: np.hypot.reduce(high - low) / mu),
    (5, "c, d, e"),
    (5, ["E", "D", "C"]),
    (5, {"c", "d", "e"}),
]


@pytest.mark.parametrize(("number", "answer"), RIGHT)
def test_right_answers_are_accepted(number, answer):
    assert SHEET.hint(number, answer) is None


def test_honest_slips_get_a_hint_that_fits():
    slips = {
        (1, 69.1): "How far apart",
        (2, 3.2): "0.6²",
        (3, lambda alpha, beta: norm.cdf(alpha) - norm.cdf(beta)): "Solve",
        (4, lambda low, high, mu: sum(high - low) / mu): "Euclidean",
        (5, "abcde"): "two worlds",
    }
    for (number, answer), word in slips.items():
        assert word in SHEET.hint(number, answer)
