"""Lecture 3: other right answers than the sheet's own are accepted."""

import networkx as nx
import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

import privglasso as pg
from privglasso.course.graphs import SHEET


def by_regression(theta):
    "Partial correlations as geometric means of two coefficients of regressions."
    rho, p = np.eye(len(theta)), len(theta)
    for i in range(p):
        for j in set(range(p)) - {i}:
            there, back = -theta[i, j] / theta[i, i], -theta[j, i] / theta[j, j]
            rho[i, j] = np.sign(there) * np.sqrt(there * back)
    return rho


def by_scaling(theta):
    "Columns measured in units of their conditional deviation."
    unit = np.diag(1 / np.sqrt(np.diag(theta)))
    return 2 * np.eye(len(theta)) - unit @ theta @ unit


def pairs(theta, truth):
    "Sizes and truth of the pairs below the diagonal."
    below = np.tril_indices(len(theta), -1)
    return np.abs(theta[below]), truth[below]


def by_sklearn(theta, truth):
    "The area by scikit-learn."
    size, true = pairs(theta, truth)
    return roc_auc_score(true, size)


def by_ranks(theta, truth):
    "The area by the statistic of Mann and Whitney."
    size, true = pairs(theta, truth)
    return mannwhitneyu(size[true], size[~true]).statistic / true.sum() / (~true).sum()


def by_counting(theta, truth):
    "The area by a loop over all ordered pairs off the diagonal."
    won = []
    off = [(i, j) for i in range(len(theta)) for j in range(len(theta)) if i != j]
    for edge in (pair for pair in off if truth[pair]):
        for none in (pair for pair in off if not truth[pair]):
            gap = abs(theta[edge]) - abs(theta[none])
            won.append(1.0 if gap > 0 else 0.5 if gap == 0 else 0.0)
    return sum(won) / len(won)


LEFT = nx.Graph(["ab", "ef", "bd", "be", "de"])
RIGHT = [
    (1, "1/3"),
    (1, 0.3333),
    (1, (1 / 4) / (3 / 4)),
    (2, [("b", "a"), ("f", "e"), ("d", "b"), ("e", "b"), ("e", "d")]),
    (2, LEFT),
    (2, {"ab", "ef", "bd", "eb", "ed"}),
    (3, pg.partial_correlations),
    (3, by_regression),
    (3, by_scaling),
    (4, by_sklearn),
    (4, by_ranks),
    (4, by_counting),
    (5, "b, c, e"),
    (5, ["E", "B", "C"]),
    (5, {"b", "c", "e"}),
]


@pytest.mark.parametrize(("number", "answer"), RIGHT)
def test_right_answers_are_accepted(number, answer):
    assert SHEET.hint(number, answer) is None


def test_honest_slips_get_a_hint_that_fits():
    slips = {
        (1, 0.0): "partial",
        (2, ("ab", "ef", "ce")): "neighbours of c",
        (3, np.linalg.inv): "theta_ij",
        (3, lambda theta: np.linalg.inv(theta)[0, 1]): "array",
        (4, lambda theta, truth: roc_auc_score(truth.flat, theta.flat)): "compared",
        (5, "a"): "picture",
    }
    for (number, answer), word in slips.items():
        assert word in SHEET.hint(number, answer)
