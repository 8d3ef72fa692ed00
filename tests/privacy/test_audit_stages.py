"""Releases in several stages: an audit sees each of them that has lost its noise."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from privglasso.privacy.audit import audit
from privglasso.publish import bounds_check, copula, covariance, lattice, margins
from privglasso.publish import units
from privglasso.publish.bounds_check import BoundsCheck
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.margins import atom_sigma
from privglasso.publish.local import LocalMechanism
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.sphere import Sphere
from privglasso.publish.whitening import WhitenedCovarianceMechanism


class Silent:
    "What draws no noise."

    def draw(self, n, bits):
        return np.zeros(n, dtype=np.int64)


def silenced(monkeypatch, module, chosen):
    "Some draws of a module, chosen by their number and sigma, are without noise."
    turn, drawn = itertools.count(), module.sampler

    def sampler(sigma):
        return Silent() if chosen(next(turn), sigma) else drawn(sigma)

    monkeypatch.setattr(module, "sampler", sampler)


def nth(k, of):
    "One draw of every so many."
    return lambda turn, sigma: turn % of == k


def pair(n, before, after, others):
    "Two tables that differ in the first of `n` rows."
    X = np.tile(np.asarray(others, dtype=float), (n, 1))[:n]
    Y = X.copy()
    X[0], Y[0] = before, after
    return X, Y


def halves(n):
    "Half of the rows near 0 and half far off; one record moves."
    X = np.where(np.arange(n)[:, None] < n / 2, 0.0, 300.0)
    X = X + np.random.default_rng(1).normal(size=(n, 2))
    return pair(n, X[0], X[0] + 300, X)


def just_enough(n):
    "Three tenths of a column have one value, and one record more; the rest, any."
    rng = np.random.default_rng(1)
    X = np.c_[2.0 ** rng.uniform(-500, 500, n), rng.normal(size=n)]
    X[: 3 * n // 10 + 1, 0] = 0.0
    return pair(n, X[0], [1e30, 0.0], X)


NORMAL = np.random.default_rng(5).normal(size=(1500, 2))
ACROSS = pair(1500, [-3, -3], [3, -3], NORMAL)
TURNED, LEVEL = pair(40, [2, 0], [0, 2], [2, 0]), np.outer(np.arange(16), [1, 7]) % 16
TIED = pair(60, [1, 1], [5, 5], np.repeat(np.r_[1:40, [1] * 21], 2).reshape(-1, 2))
EIGHT = (2 * LEVEL + 1) / 16 - 1
OFF, DIAGONAL = (lattice, nth(0, 2)), (lattice, nth(1, 2))
# a mechanism, tables, and which draws of which module make its stages
STAGED = {
    "box": (
        CovarianceMechanism((-1, 1), clipping="box", mu=1.0),
        pair(30, [1, 1], [0, 0], [0.5, 0.5]),
        {"pairs": OFF, "diagonal": DIAGONAL, "mean": (covariance, nth(0, 1))},
    ),
    "sphere": (
        CovarianceMechanism(clipping=Sphere(), mu=1.0),
        TURNED,
        {"pairs": OFF, "diagonal": DIAGONAL},
    ),
    "shape": (
        CovarianceMechanism(clipping="sphere", mu=1.0),
        ACROSS,
        {"units": (units, nth(0, 1))},
    ),
    "whitened": (
        WhitenedCovarianceMechanism(clipping=Sphere(), mu=1.0),
        TURNED,
        {f"draw {k}": (lattice, nth(k, 4)) for k in range(4)},
    ),
    "local": (
        LocalMechanism(1.0, mu=1.0),
        pair(2, [0.6, 0.8], [0.8, -0.6], [0.5, 0.5]),
        {"pairs": OFF, "diagonal": DIAGONAL},
    ),
    "scores": (
        CovarianceMechanism((-1, 1), mu=1.0),
        pair(16, [7 / 8 + 1 / 16, 7 / 16], [-7 / 16, 7 / 8 + 1 / 16], EIGHT),
        {"margins": (margins, nth(0, 1))},
    ),
    "scores in units": (
        CovarianceMechanism(mu=1.0),
        halves(1501),
        {"units": (units, nth(0, 1))},
    ),
    "scores at a value": (
        CovarianceMechanism(mu=1.0),
        just_enough(1500),
        {"values": (margins, lambda turn, sigma: sigma == atom_sigma(1500))},
    ),
    "kendall": (
        KendallMechanism(mu=1.0),
        TIED,
        {"pairs": (lattice, nth(0, 2)), "diagonal": (lattice, nth(1, 2))},
    ),
    "quadrant": (
        QuadrantMechanism(0.0, mu=1.0),
        pair(60, [1, 1], [0, 0], [1, 1]),
        {"pairs": (lattice, nth(0, 2)), "diagonal": (lattice, nth(1, 2))},
    ),
    "copula": (
        CopulaMechanism(rows=2, mu=1.0),
        ACROSS,
        {"units": (units, nth(0, 1)), "margins": (copula, nth(0, 1))},
    ),
    "bounds": (
        BoundsCheck((-1, 1), mu=1.0),
        pair(30, [3, 3], [0, 0], [0, 0]),
        {"counts": (bounds_check, nth(0, 1))},
    ),
}
ONCE = {"confidence": 0.999, "random_state": 0}


@pytest.mark.long
@pytest.mark.parametrize("kind", STAGED)
def test_a_stage_without_noise_is_seen(monkeypatch, kind):
    """Whichever it is, and however little of the promise is its part; a mechanism with
    all of its noise is not refuted (twelve audits at 99.9 %). Not here: the moments of
    scores and the ranks of a copula, which secret jitter and a secret order hide
    even without noise; their draws are those of the sphere and of Kendall's ranks."""
    mechanism, tables, stages = STAGED[kind]
    runs = {"trials": 60} | ONCE  # where nothing errs, 30 that count show μ > 1.5
    assert not audit(mechanism, *tables, **runs).refuted
    for name, (module, chosen) in stages.items():
        with monkeypatch.context() as patch:
            silenced(patch, module, chosen)
            assert audit(mechanism, *tables, **runs).refuted, name


@dataclass
class Told:
    "What a mechanism tells, deep in it."

    deep: dict
    noisy: np.ndarray


@dataclass
class Outer:
    told: Told
    columns: list


class Deep:
    "States a ratio that says nothing."

    def publish(self, X, rng):
        return Outer(Told({}, X.sum(axis=0) + rng.normal(size=1)), ["a"])

    def likelihood_statistic(self, X, X_neighbor):
        return lambda release: 0.0


def test_a_part_is_looked_at_and_what_it_says_is_learned_from_runs_that_do_not_count():
    """Nothing else tells the tables apart, and it does so as well as it can. The runs
    that count are those of an audit by this very number."""
    tables, options = (np.zeros((2, 1)), np.array([[1.0], [0.0]])), {"claimed": 1.0}
    for seed in (3, np.random.SeedSequence(3)):
        runs = options | {"trials": 4000, "random_state": seed}
        result = audit(Deep(), *tables, **runs)
        assert result.looked_at == 2 and 0.6 < result.mu_lower < 1
        plain = audit(Deep().publish, *tables, lambda told: told.told.noisy[0], **runs)
        for name in ("false_alarms", "misses"):
            assert getattr(plain, name) == getattr(result, name)
