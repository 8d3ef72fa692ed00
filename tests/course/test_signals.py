"""Right answers in other forms than the lecture's own."""

import math
from fractions import Fraction
from statistics import NormalDist

import networkx as nx
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from privglasso.course.signals import SHEET
from privglasso.papers.gaussian_pair import (
    GaussianPair,
    delta_between,
    gaussian_pair,
    renyi_divergence,
)
from privglasso.papers.graph_filter import laplacian_shift, power_flow_filter


def by_power_flow():
    "The first exercise by the filter itself."
    angles = power_flow_filter(laplacian_shift(nx.path_graph(4)))
    return np.sum((angles[0] - angles[3]) ** 2)


def by_integral(alpha, v, d):
    "The third exercise by its definition."
    p, q = norm(0, 1).logpdf, norm(d, math.sqrt(v)).logpdf
    integral, _ = quad(
        lambda x: math.exp(alpha * p(x) + (1 - alpha) * q(x)), -40, 40, limit=400
    )
    return math.log(integral) / (alpha - 1)


def by_the_package(alpha, v, d):
    "The third exercise by the package."
    return renyi_divergence(gaussian_pair([0], [[1]], [d], [[v]]), alpha)


def in_one_line(alpha, v, d):
    "The third exercise with the logarithm taken apart."
    s = 1 - alpha + alpha * v
    gain = (alpha * math.log(v) - math.log(s)) / (alpha - 1)
    return 0.5 * (alpha * d * d / s + gain)


def by_search(v):
    "The fifth exercise by trying limits."
    one, two = NormalDist(), NormalDist(0, math.sqrt(v))
    best = minimize_scalar(
        lambda t: 2 * (two.cdf(t) - one.cdf(t)), bounds=(0, 20), method="bounded"
    )
    return -best.fun


def by_grid(v):
    "The fifth exercise on a grid."
    t = np.linspace(0, 20, 20_001)
    return np.max(2 * norm.cdf(t) - 2 * norm.cdf(t / np.sqrt(v)))


def by_pair(v):
    "The fifth exercise as the δ at ε = 0."
    return delta_between(GaussianPair([v], [1], [0]), 0.0).upper


RIGHT = {
    1: [5, by_power_flow(), "5.0", Fraction(5)],
    2: [1, 1.0, "1/1", np.array([1])],
    3: [by_integral, by_the_package, in_one_line],
    4: ["bc", ["c", "b"], {"C", "B"}, "b, c"],
    5: [by_search, by_grid, by_pair],
}


@pytest.mark.parametrize("number", RIGHT)
def test_other_right_answers_are_accepted(number):
    hints = [SHEET.hint(number, given) for given in RIGHT[number]]
    assert hints == [None] * len(hints)
