"""What a mechanism promises, held against what it does, from the draws to the file.

The sampler is replaced by a tape that notes the parameter of every draw and what the
draw is added to, and that says what comes out. So two tables can be published with the
same outcomes: whatever then differs is what the noise had to hide.
"""

import math
from collections import Counter

import numpy as np
import pytest

from privglasso.privacy import sampler as exact
from privglasso.privacy.sampler import random_order
from privglasso.publish.bounds_check import BoundsCheck
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.local import LocalMechanism
from privglasso.publish.margins import (
    atoms_mu,
    find_atoms,
    histogram_mu,
    histogram_sigma,
    noisy_margins,
    placed_cells,
)
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.shape import UnitsError
from privglasso.publish.sphere import Ball, Sphere
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import (
    DiscreteGaussianMechanism,
    GaussianMechanism,
    TableRelease,
)
from privglasso.publish.units import find_units, plan_units
from privglasso.publish.whitening import WhitenedCovarianceMechanism

# ------------------------------------------------------------------------- the tape


class Drawn(np.ndarray):
    "Noise that tells its tape what it is added to."

    def __new__(cls, values, tape, place):
        made = np.asarray(values, dtype=np.int64).view(cls)
        made.tape, made.place = tape, place
        return made

    def __array_finalize__(self, other):
        self.tape, self.place = (getattr(other, k, None) for k in ("tape", "place"))

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        values = [np.asarray(x) for x in inputs]
        into = {"out": tuple(map(np.asarray, out))} if out else {}
        others = [x for x in inputs if not isinstance(x, Drawn)]
        if ufunc is not np.add or method != "__call__" or not others:
            return getattr(ufunc, method)(*values, **into, **kwargs)
        (other,) = map(np.asarray, others)
        assert self.place not in self.tape.sums, "one draw is used twice"
        assert other.size == self.size
        self.tape.sums[self.place] = other.astype(float).ravel()
        found = self.tape.outcomes.get(self.place)
        found = np.add(*values) if found is None else found.reshape(self.shape)
        if not out:
            return found.astype(other.dtype)
        out[0][...] = found
        return out[0]


class Tape:
    "Notes draws in their order; outcomes and noise of some are given, or noise is 0."

    def __init__(self, outcomes=(), noise=()):
        self.outcomes, self.noise = dict(outcomes), dict(noise)
        self.sigmas, self.sizes, self.sums = [], [], {}

    def draw(self, sigma, n):
        place = len(self.sigmas)
        self.sigmas.append(sigma), self.sizes.append(n)
        return Drawn(self.noise.get(place, np.zeros(n)), self, place)


class Recorder:
    "What stands in for the sampler of one sigma."

    def __init__(self, tape, sigma):
        self.tape, self.sigma = tape, sigma

    def draw(self, n, bits):
        assert hasattr(bits, "words")
        return self.tape.draw(self.sigma, n)


@pytest.fixture
def publish(monkeypatch):
    "Publish a table with what a tape says instead of noise, from one seed."

    def run(mechanism, table, tape):
        make = lambda sigma: Recorder(tape, sigma)
        monkeypatch.setattr(exact, "_cached_sampler", make)
        made = getattr(mechanism, "publish", mechanism)
        return made(np.array(table, float), exact.bit_source(5))

    return run


PARTS = ("first", "second", "covariance_release", "correlations", "margins")


def numbers(release):
    "All integers that a release consists of, as arrays in the order of its stages."
    if isinstance(release, np.ndarray):
        return [release.astype(float)]
    parts = [getattr(release, name) for name in PARTS if hasattr(release, name)]
    found = [array for part in parts for array in numbers(part)]
    own = [getattr(release, k, None) for k in ("second_moment", "total", "counts")]
    found += [np.array(each, float) for each in own if each is not None]
    if isinstance(release, TableRelease):
        found.append(release.table.to_numpy() / release.lattice.step)
    return found


def with_marks(publish, mechanism, table, place, marks):
    "The numbers of a release to which one draw adds these marks; None if it has fewer."
    try:
        return numbers(publish(mechanism, table, Tape(noise={place: marks})))
    except UnitsError:
        return None


def owners(publish, mechanism, table):
    """For each array of numbers of a release, which mark of which draw is added to each
    number; and the tape."""
    tape = Tape()
    plain = numbers(publish(mechanism, table, tape))
    found = [np.full(each.shape, None, object) for each in plain]
    for place, size in enumerate(tape.sizes):
        marks = np.arange(1, size + 1)
        marked = with_marks(publish, mechanism, table, place, marks)
        if marked is None or [x.shape for x in marked] != [x.shape for x in plain]:
            continue  # the units that it helped to find are others
        for own, one, two in zip(found, plain, marked, strict=True):
            for at in map(tuple, np.argwhere(np.isin(two - one, marks))):
                own[at] = place, int((two - one)[at])  # of its own stage: the last
    return found, tape


def hiding_noise(publish, mechanism, table, other, known):
    """The noise of each draw that makes a release of the other table the release of
    the table without noise; and the release."""
    found, tape = known
    wanted = numbers(publish(mechanism, table, Tape()))
    noise = {}
    for _ in range(len(wanted) + 1):
        trial = Tape(tape.sums, noise)
        release = publish(mechanism, other, trial)
        seen = numbers(release)
        assert trial.sigmas == tape.sigmas and trial.sizes == tape.sizes
        assert [x.shape for x in seen] == [x.shape for x in wanted]
        apart = [k for k in range(len(seen)) if (seen[k] != wanted[k]).any()]
        if not apart:
            break
        gap = wanted[apart[0]] - seen[apart[0]]
        for at in map(tuple, np.argwhere(gap)):
            place, mark = found[apart[0]][at]  # else it leaves without noise
            drawn = noise.setdefault(place, np.zeros(tape.sizes[place]))
            drawn[mark - 1] = gap[at]
    assert not apart
    for place, total in trial.sums.items():
        noise[place] = tape.sums[place] - total
    return noise, release


def squared_mus(publish, mechanism, table, other, known=None):
    "What is told of either of two tables, in squares of mu, by each draw's parameter."
    known = known or owners(publish, mechanism, table)
    noise, _ = hiding_noise(publish, mechanism, table, other, known)
    told = Counter()
    for place, values in noise.items():
        sigma = known[1].sigmas[place]
        told[sigma] += float((values**2).sum() / (sigma**2 - 1 / 6))
    return told


# ------------------------------------------------------------------------ the tables


def small(row, n=30, p=4):
    "A table of small numbers, and the same with one row of its own."
    table = np.random.default_rng(0).uniform(-0.5, 0.5, (n, p))
    table[3] = row
    return table


def pairs_of(*rows, **shape):
    "Tables that differ in one row, for the first row and each of the others."
    return [(small(rows[0], **shape), small(row, **shape)) for row in rows[1:]]


def alike(n, *rows):
    "The same where everybody else is at the centre."
    tables = [np.zeros((n, len(row))) for row in rows]
    for table, row in zip(tables, rows, strict=True):
        table[0] = row
    return [(tables[0], table) for table in tables[1:]]


def wide(*rows, atom=False, n=2000):
    "The same of columns with a spread of 200, or with one value in most cells."
    made = []
    for row in rows:
        table = np.random.default_rng(1).normal(0, 200, (n, 4))
        if atom:
            table[:, 3] = 7.5
        table[3] = row
        made.append(table)
    return [(made[0], table) for table in made[1:]]


NEAR, FAR = [1000.0] * 4, [1e13, -1e13, 1e13, -1e13]
ONES, HALVES, FLIPPED = [1, 1, 1, 1], [1, 1, -1, -1], [-1, 1, 1, 1]
ONE, OTHER = [9, 0, 0, 0], [0, 9, 0, 0]
BENT = [-9 / 4, 9 * math.sqrt(15) / 4, 0, 0]  # as far apart as products and mean can be
BOX, CELL = {"clipping": "box"}, {"neighbors": "cell"}
COVARIANCE, PLAIN = CovarianceMechanism, {"mean_share": 0}
LEVELS = {f"x{j}": (1, 5) for j in range(4)}
ANSWERS = np.random.default_rng(3).integers(1, 6, (400, 4)).astype(float)
SURVEY = [tuple(np.r_[ANSWERS, [row]] for row in ([5, 5, 1, 1], [1, 5, 3, 3]))]

OUTSIDE = "counts outside", "cells outside"
ATOMS = "scores with atoms"  # whose histogram has fewer bins than there is room for

# what is published, tables that are hard to hide, and how much of mu² they cost
CASES = {
    "table": (GaussianMechanism((-1, 1), mu=1.5), pairs_of([-5] * 4, [7] * 4), 1.0),
    "integers": (
        DiscreteGaussianMechanism((-3, 3), mu=1.0),
        pairs_of([-5] * 4, [7] * 4),
        1.0,
    ),
    "cells": (
        GaussianMechanism((-1, 1), mu=0.3, **CELL),
        pairs_of([-5, 1, 1, 1], [7, 1, 1, 1]),
        1.0,
    ),
    "box": (COVARIANCE((-1, 1), mu=1.0, **BOX, **PLAIN), pairs_of(ONES, HALVES), 1.0),
    "box with a mean": (
        COVARIANCE((-1, 1), mu=1.0, **BOX),
        pairs_of(ONES, HALVES, [-1] * 4),
        0.85,
    ),
    "cells in a box": (
        COVARIANCE((-1, 1), mu=1.0, **BOX, **CELL),
        pairs_of(ONES, FLIPPED),
        1.0,
    ),
    "upper triangle": (
        COVARIANCE((-1, 1), mu=1.0, noise="upper", **BOX, **PLAIN),
        pairs_of(ONES, HALVES),
        1.0,
    ),
    "norm": (COVARIANCE(norm_bound=1.0, mu=2.0, **PLAIN), pairs_of(ONE, OTHER), 0.99),
    "norm with a mean": (
        COVARIANCE(norm_bound=1.0, mu=2.0),
        pairs_of(ONE, OTHER, [-9, 0, 0, 0]),
        0.85,
    ),
    "norm, upper triangle": (
        COVARIANCE(norm_bound=1.0, mu=2.0, noise="upper", **PLAIN),
        pairs_of(ONE, OTHER),
        0.99,
    ),
    "sphere": (COVARIANCE(clipping=Sphere(1.0), mu=1.0), pairs_of(ONE, BENT), 0.99),
    "ball": (
        COVARIANCE(clipping=Ball(1.0), mu=1.0),
        pairs_of(ONE, [-9, 0, 0, 0]),
        0.99,
    ),
    "ball without a mean": (
        COVARIANCE(clipping=Ball(1.0), mu=1.0, **PLAIN),
        pairs_of(ONE, OTHER),
        0.99,
    ),
    "quadrants": (QuadrantMechanism(0, mu=1.0), alike(9, ONES, HALVES), 1.0),
    "Kendall": (KendallMechanism(mu=1.0, shifts=4), alike(9, ONES, HALVES), 1.0),
    "Kendall's cells": (
        KendallMechanism(mu=1.0, shifts=4, **CELL),
        alike(9, ONES, FLIPPED),
        1.0,
    ),
    OUTSIDE[0]: (BoundsCheck((-1, 1), mu=1.0), pairs_of([0] * 4, [9] * 4), 1.0),
    OUTSIDE[1]: (
        BoundsCheck((-1, 1), mu=1.0, **CELL),
        pairs_of([0] * 4, [9, 0, 0, 0]),
        1.0,
    ),
    "a report": (LocalMechanism(1.0, mu=2.0), [(ONE, OTHER), (ONE, [0] * 4)], 0.99),
    "scores": (COVARIANCE(mu=0.1), wide(NEAR, FAR), 0.99),
    ATOMS: (COVARIANCE(mu=0.4), wide(NEAR, FAR, atom=True), 0.95),
    "scores in bounds": (
        COVARIANCE((-1, 1), mu=1.0),
        pairs_of([-5] * 4, [7, -7, 7, -7]),
        0.9,
    ),
    "levels": (COVARIANCE(levels=LEVELS, mu=1.0), SURVEY, 0.9),
    "rows in private units": (
        COVARIANCE(clipping="sphere", mu=0.1),
        wide(NEAR, FAR),
        0.9,
    ),
    "two rounds": (
        WhitenedCovarianceMechanism(mu=20.0, clipping=Sphere(200.0)),
        wide(NEAR, FAR),
        0.9,
    ),
    "two rounds in private units": (
        WhitenedCovarianceMechanism(mu=20.0),
        wide(NEAR, FAR),
        0.9,
    ),
    "synthetic": (SyntheticDataMechanism(mu=0.1, rows=20), wide(NEAR, FAR), 0.99),
    "copula": (CopulaMechanism(mu=0.1, rows=20), wide(NEAR, FAR), 0.99),
}


def made(name):
    "How a case is published, its tables, and the mu that it may cost."
    mechanism, pairs, share = CASES[name]
    target = mechanism.budget["mu"]
    if hasattr(mechanism, "report"):
        mechanism = lambda row, bits, own=mechanism: own.report(row, 1000, bits)
    return mechanism, pairs, target, share


# ----------------------------------------------------------------------- the promise


@pytest.mark.parametrize("name", CASES)
def test_a_release_tells_what_it_promises_and_no_more(name, publish):
    mechanism, pairs, target, share = made(name)
    known = [owners(publish, mechanism, table) for table, _ in pairs]
    told = [
        squared_mus(publish, mechanism, *pair, own)
        for pair, own in zip(pairs, known, strict=True)
    ]
    most = max(sum(each.values()) for each in told)
    assert share * (1 - 1e-9) <= most / target**2 <= 1 + 1e-9
    if not callable(mechanism):
        promised = mechanism.guarantee(*pairs[0][0].shape).mu
        assert most <= promised**2 * (1 + 1e-9) and promised <= target
        for table in pairs[0]:
            told = publish(mechanism, table, Tape()).guarantee.mu
            assert most <= told**2 * (1 + 1e-9) and told <= promised * (1 + 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_every_number_that_leaves_has_noise_of_its_own(name, publish):
    "One draw for each, but for the two halves of a symmetric matrix."
    mechanism, pairs, *_ = made(name)
    found, tape = owners(publish, mechanism, pairs[0][0])
    used = Counter()
    for own in found:
        assert not any(each is None for each in own.flat) or name == ATOMS
        mirrored = own.ndim == 2 and own.shape == own.T.shape and (own == own.T).all()
        used.update(own[np.triu_indices(len(own))] if mirrored else own.ravel())
    assert max(used[each] for each in used if each) == 1


FILES = [name for name in CASES if name not in ("a report", *OUTSIDE)]


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_nothing_of_a_table_but_the_noisy_numbers(name, publish, tmp_path):
    "A release of quite another table, with the same noisy numbers, is the same file."
    mechanism, pairs, *_ = made(name)
    table = pairs[0][0]
    other = np.random.default_rng(9).standard_cauchy(table.shape)
    known = owners(publish, mechanism, table)
    one = publish(mechanism, table, Tape())
    _, two = hiding_noise(publish, mechanism, table, other, known)
    one.to_parquet(tmp_path / "one.parquet"), two.to_parquet(tmp_path / "two.parquet")
    both = [(tmp_path / f"{k}.parquet").read_bytes() for k in ("one", "two")]
    assert both[0] == both[1] and str(one) == str(two)


# ------------------------------------------------------------- the parts of a promise


def told_by(sampled, one, other):
    "Squares of mu that a function of a table and bits tells of two tables, by sigma."
    first = Tape()
    sampled(one, first)
    second = Tape(first.sums)
    sampled(other, second)
    assert first.sigmas == second.sigmas and len(first.sums) == len(first.sigmas)
    told = Counter()
    for place, sigma in enumerate(first.sigmas):
        moved = first.sums[place] - second.sums[place]
        told[sigma] += float((moved**2).sum() / (sigma**2 - 1 / 6))
    return told


@pytest.mark.parametrize("n", [2000, 40_000])
def test_private_units_cost_what_their_plan_says(n, publish):
    "All levels are moved as far as they can be; of a long table the row is drawn."
    plan = plan_units(n, 4, 1.0)
    ((one, other),) = wide(NEAR, FAR, n=n)
    if plan.rows < n:  # whichever is drawn: it has no second record like it
        other[3] = NEAR
        drawn = random_order(n, exact.bit_source(5), plan.rows)
        one[drawn[0]], other[drawn[0]] = NEAR, FAR
    sampled = lambda X, tape: publish(
        lambda X, bits: find_units(X, plan, bits), X, tape
    )
    told = told_by(sampled, one, other)
    stated = Counter()
    for level in plan.levels:
        stated[level.sigma] += level.squared_mu(4)
    assert told == pytest.approx(stated, rel=1e-9)
    assert sum(told.values()) == pytest.approx(plan.squared_mu, rel=1e-9)
    for columns in (4, 1):
        neighbors = "record" if columns == 4 else "cell"
        stated = plan.guarantee(neighbors).mu
        assert stated**2 == pytest.approx(plan.squared_mu * columns / 4, rel=1e-12)


def test_histograms_and_the_search_for_values_cost_what_they_say(publish):
    ((one, other),) = wide(NEAR, FAR)
    bins = ("units", "units", "range", "levels"), [0, 0, -2e9, 0], [200, 9, 4e9, 30]
    counted = lambda sigma: lambda X, tape: publish(
        lambda X, bits: noisy_margins(
            placed_cells(X, *bins)[1], len(X), *bins, sigma, bits
        ),
        X,
        tape,
    )
    for sigma in (1.0, 5.0, 700.0):
        told = told_by(counted(sigma), one, other)
        assert sum(told.values()) == pytest.approx(histogram_mu(4, sigma) ** 2)
    for mu in (0.01, 0.3, 5.0):
        sigma = histogram_sigma(4, mu)
        assert histogram_mu(4, sigma) <= mu
        assert sigma == 1 or histogram_mu(4, sigma) == pytest.approx(mu)
    for n in (3, 10, 5000):
        one = np.full((n, 2), 7.5)
        other = one.copy()
        other[0] = np.nextafter(7.5, 8)
        found = lambda X, tape: publish(find_atoms, X, tape)
        told = told_by(found, one, other)
        assert 0 < sum(told.values()) <= atoms_mu(2, n) ** 2 * (1 + 1e-12)
        other[0] = -7.5
        told = told_by(found, one, other)
        assert atoms_mu(2, n) ** 2 / 2 < sum(told.values()) <= atoms_mu(2, n) ** 2


def test_a_cell_that_goes_missing_costs_what_another_value_costs(publish):
    "From a value to a gap and back, in the search and in the bins of a presence."
    found = lambda X, tape: publish(find_atoms, X, tape)
    for n in (3, 10, 5000):
        # it leaves its bin in six histograms, and is in another of the one where the
        # patterns part; of a value that begins like a gap that is the second
        for most, rare, moved in (
            (7.5, np.nan, 7),
            (np.nan, 7.5, 7),
            (np.nan, 1.5e308, 6),
        ):
            one = np.full((n, 2), most)
            other = one.copy()
            other[0] = rare
            told = sum(told_by(found, one, other).values())
            assert told == pytest.approx(atoms_mu(2, n) ** 2 * moved / 12)
    bins = ("presence",) * 3, np.zeros(3), np.ones(3)
    for sigma in (1.0, 40.0):
        count = lambda X, bits, sigma=sigma: noisy_margins(
            placed_cells(X, *bins)[1], len(X), *bins, sigma, bits
        )
        counted = lambda X, tape, count=count: publish(count, X, tape)
        one, other, value = (np.full((9, 3), 1.0) for _ in range(3))
        other[0], value[0] = np.nan, -1e9
        told = told_by(counted, one, other)
        assert sum(told.values()) == pytest.approx(histogram_mu(3, sigma) ** 2)
        assert not sum(told_by(counted, one, value).values())  # the value is not told
