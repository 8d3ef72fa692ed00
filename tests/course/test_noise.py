"""Lecture 4: other right answers than the sheet's own are accepted."""

import networkx as nx
import numpy as np
import pytest

import privglasso as pg
from privglasso.course.noise import SHEET


def by_entries(S, sigma):
    "Diagonal entries changed in a copy."
    C = np.array(S)
    C[np.diag_indices_from(C)] -= np.square(sigma)
    return C


def by_pairs(Y, sigma):
    "Each correlation on its own."
    r, v = np.corrcoef(Y, rowvar=False), np.var(Y, axis=0)
    factor = np.sqrt(v / (v - sigma**2))
    r = r * np.outer(factor, factor)
    np.fill_diagonal(r, 1)
    return r


def by_standardised(Y, sigma):
    "Standardised first, with the noise in the units of the columns, and scaled again."
    spread = Y.std(axis=0)
    C = np.cov(Y / spread, rowvar=False) - np.diag((sigma / spread) ** 2)
    units = np.diag(1 / np.sqrt(np.diag(C)))
    return units @ C @ units


def by_package(Y, sigma):
    "With the book's own function."
    C = pg.noise_corrected_covariance(Y, sigma**2)
    return C / np.sqrt(np.outer(np.diag(C), np.diag(C)))


RIGHT = [
    (1, 0.6 / np.sqrt((1 + 4 / 9) * (1 + 4 / 2.25))),
    (1, 2.7 / (np.sqrt(13) * 2.5)),
    (1, "0.2995"),
    (2, nx.Graph(["ab", "bc", "cd", "ac"])),
    (2, [("b", "a"), ("c", "b"), ("d", "c"), ("c", "a")]),
    (2, {"ba", "cb", "ca", "dc"}),
    (3, by_entries),
    (3, lambda S, sigma: S - np.eye(len(S)) * sigma**2),
    (3, lambda S, sigma: (S - np.diag(sigma) @ np.diag(sigma)).tolist()),
    (4, by_pairs),
    (4, by_standardised),
    (4, by_package),
    (5, "a, d, e"),
    (5, ["E", "D", "A"]),
    (5, {"a", "d", "e"}),
]


@pytest.mark.parametrize(("number", "answer"), RIGHT)
def test_right_answers_are_accepted(number, answer):
    assert SHEET.hint(number, answer) is None


def test_honest_slips_get_a_hint_that_fits():
    slips = {
        (1, 0.6 * 3 / 5 * 1.5 / 3.5): "or variances",
        (2, ("ab", "bd", "cd")): "half hidden",
        (3, lambda S, sigma: S - np.eye(len(S)) * sigma): "adds up",
        (3, lambda S, sigma: S @ np.diag(sigma**2)): "Which?",
        (4, lambda Y, sigma: np.cov(Y.T) - np.diag(sigma**2)): "Now scale",
        (5, "c"): "picture",
    }
    for (number, answer), word in slips.items():
        assert word in SHEET.hint(number, answer)
