"""Right answers in other forms than the lecture's own."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privglasso.course.budgets import SHEET


def loop(low, high, n, mu):
    "The noise of the third exercise, column by column."
    squares = 0
    for a, b in zip(low, high, strict=True):
        squares += ((b - a) / n) ** 2
    return squares**0.5 / mu


RIGHT = {
    1: [0.6633, "0.663", Fraction(6633, 10_000), np.sqrt(1.2**2 - 1)],
    2: [100, "100/1", np.float32(100.0), Fraction(100)],
    3: [
        loop,
        lambda low, high, n, mu: np.linalg.norm(high - low) / n / mu,
        lambda low, high, n, mu: [math.dist(low, high) / (n * mu)][0],
    ],
    4: ["bd", ["d", "b"], {"B", "D"}, "d, b"],
    5: [
        lambda s, p: np.sqrt(p) * 2 * 10 ** (s / 20),
        lambda decibels, p: math.sqrt(4 * p * 10 ** (decibels / 10)),
        lambda s, p: 2 * math.exp(s * math.log(10) / 20) * p**0.5,
    ],
}


@pytest.mark.parametrize("number", RIGHT)
def test_other_right_answers_are_accepted(number):
    assert [SHEET.hint(number, given) for given in RIGHT[number]] == [None] * len(
        RIGHT[number]
    )
