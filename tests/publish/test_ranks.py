"""Rank correlations: sensitivities, ties, any margins, files, and what a stranger can
do with them."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau, norm

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.data_sets.synthetic import tridiagonal_precision
from privglasso.privacy.audit import audit, audit_draws
from privglasso.privacy.discrete_gaussian import variance
from privglasso.privacy.sampler import bit_source, random_order, sampler
from privglasso.publish import ranks
from privglasso.publish.comparisons import pair_sums
from privglasso.publish.files import read_release
from privglasso.publish.lattice import symmetric_noise
from privglasso.publish.noise_correction import CovarianceError, SamplingError
from privglasso.publish.parquet import ReleaseError, sealed
from privglasso.publish.quadrants import QuadrantError, QuadrantLattice
from privglasso.publish.quadrants import QuadrantMechanism, quadrant_sums
from privglasso.publish.ranks import KendallMechanism, RankError

MECHANISMS = {
    "kendall": KendallMechanism(mu=2.0, shifts=2),
    "quadrant": QuadrantMechanism(0.5, mu=2.0),
}
KINDS = list(MECHANISMS)

# ------------------------------------------------------------------- privacy


def exact_sums(table, lattice):
    "What a release adds noise to, in signs."
    if isinstance(lattice, QuadrantLattice):
        return quadrant_sums(table, lattice)
    return pair_sums(table, lattice.shifts)


def squared_mu(mechanism, table, other):
    "What the release of two tables really promises: exactly, from the sums themselves."
    lattice = mechanism.lattice(*table.shape)
    moved = (exact_sums(other, lattice) - exact_sums(table, lattice)) * lattice.scale
    off_diagonal, diagonal = (Fraction(s) ** 2 - Fraction(1, 6) for s in lattice.sigma)
    beside = sum(int(d) ** 2 for d in moved[np.triu_indices(lattice.length, 1)])
    return float(
        beside / off_diagonal + sum(int(d) ** 2 for d in np.diag(moved)) / diagonal
    )


def neighbor(table, neighbors, rng, values):
    "The table with one row or one cell replaced."
    other, i = table.copy(), rng.integers(len(table))
    j = slice(None) if neighbors == "record" else rng.integers(table.shape[1])
    other[i, j] = rng.choice(values, np.shape(other[i, j]))
    return other


@pytest.mark.parametrize("neighbors", ["record", "cell"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_neighbour_moves_the_sums_further_than_promised(kind, neighbors):
    rng = np.random.default_rng(0)
    make = QuadrantMechanism if kind == "quadrant" else KendallMechanism
    given = (0.0,) if kind == "quadrant" else ()
    for _ in range(400):
        n, p = rng.integers(2, 8), rng.integers(2, 6)
        mechanism = make(*given, mu=1.0, neighbors=neighbors)
        values = rng.choice([[-1, 0, 1], [-1, 1, 1], [-1e300, 0.1, 1e-300]])
        table = rng.choice(values, (n, p))
        if rng.random() < 0.5:  # everybody else is alike: the worst case
            table[:] = table[0]
        other = neighbor(table, neighbors, rng, values)
        assert squared_mu(mechanism, table, other) <= 1 + 1e-9


def extremal(n, p, neighbors, kind="kendall"):
    """Tables that nothing could tell apart more easily, without ties and, where there
    is no constant that cannot be tied, with them."""
    table, half = np.zeros((n, p)), np.ones(p)
    changed = (p + (kind == "quadrant")) // 2 if neighbors == "record" else 1
    half[:changed] = -1
    table[0] = 1.0
    alone = neighbors == "cell" or kind == "quadrant"
    for row in (half,) if alone else (half, 0 * half):
        other = table.copy()
        other[0] = row
        yield table, other


@pytest.mark.parametrize("neighbors", ["record", "cell"])
@pytest.mark.parametrize("p", [2, 3, 4, 5, 20])
def test_the_promise_is_attained(p, neighbors):
    budget = {"mu": 1.0, "neighbors": neighbors}
    for n, mechanism in (
        (2, KendallMechanism(**budget)),
        (9, KendallMechanism(shifts=4, **budget)),
        (30, KendallMechanism(shifts=3, **budget)),
        (6, QuadrantMechanism(0, **budget)),
    ):
        kind = "kendall" if isinstance(mechanism, KendallMechanism) else "quadrant"
        for table, other in extremal(n, p, neighbors, kind):
            # the sums alone, however much smaller a claim may be: by a tenth, say
            assert 1 - 1e-9 < squared_mu(mechanism, table, other) <= 1 + 1e-9


def test_hiding_a_record_hides_a_cell_and_the_other_way_round_costs_more():
    for p in (2, 3, 20):
        record = KendallMechanism(mu=1.0).lattice(100, p)
        cell = KendallMechanism(mu=1.0, neighbors="cell").lattice(100, p)
        assert record.guarantee("cell").mu <= record.guarantee("record").mu + 1e-12
        assert cell.guarantee("record").mu >= cell.guarantee("cell").mu - 1e-12
        own, others = KendallMechanism(mu=1.0).guarantees(100, p)
        assert (own.neighbors, others.neighbors) == ("record", "cell")


def drawn(mechanism, table, statistic, factor):
    "Statistics of many releases that were given `factor` times the noise."
    lattice = mechanism.lattice(*table.shape)
    level = (statistic.weights * exact_sums(table, lattice) * lattice.scale).sum()
    above = np.triu_indices(lattice.length, 1)
    off, diagonal = (sampler(factor * sigma) for sigma in lattice.sigma)

    def draw(trials, rng):
        bits = bit_source(rng)
        beside = off.draw(trials * len(above[0]), bits).reshape(trials, -1)
        on = diagonal.draw(trials * lattice.length, bits).reshape(trials, -1)
        return (
            level
            + beside @ statistic.weights[above]
            + on @ statistic.weights.diagonal()
        )

    return draw


@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_refutes_a_tenth_less_noise_and_not_the_promise(kind):
    mechanism = replace_budget(MECHANISMS[kind], mu=3.0)
    for table, other in extremal(5, 4, "record", kind):
        table, other = (2 * t - 1 if kind == "quadrant" else t for t in (table, other))
        if kind == "quadrant":  # about 0.5: above in all columns, or in half of them
            other[0] = [2, 2, -1, -1]
        statistic = mechanism.likelihood_statistic(table, other)
        for factor in (1.0, 0.9):
            both = (drawn(mechanism, t, statistic, factor) for t in (table, other))
            result = audit_draws(*both, claimed=3.0, trials=30_000, random_state=1)
            assert result.refuted == (factor < 1)
    assert not audit(mechanism, table, other, trials=300, random_state=0).refuted


def replace_budget(mechanism, **budget):
    "The same mechanism with another budget."
    copy = type(mechanism).__new__(type(mechanism))
    copy.__dict__.update(vars(mechanism), budget=budget)
    return copy


def test_order_is_secret_and_noise_knows_nothing_of_the_table():
    table = np.random.default_rng(3).normal(size=(500, 3))
    mechanism = KendallMechanism(mu=1.0)
    lattice = mechanism.lattice(500, 3)

    def noise(values, seed):
        order = random_order(500, bit_source(seed))
        sums = pair_sums(values, lattice.shifts, order) * lattice.scale
        return mechanism.publish(values, seed).counts - sums

    noises = [noise(table, seed) for seed in (1, 2)]
    assert (noises[0] != noises[1]).any()
    # with another table of that shape, order and noise of a seed are the same
    assert (noise(table[::-1] ** 2, 1) == noises[0]).all()
    # so small that it is the noise, not another order's sums
    assert np.abs(noises[0]).max() < 6 * lattice.sigma.max()
    assert mechanism.publish(table).secure and not mechanism.publish(table, 1).secure


def test_the_statistic_of_an_audit_is_the_mean_over_all_orders():
    "Exactly, for every order of six rows, and wherever the replaced record stands."
    rng = np.random.default_rng(0)
    lattice = KendallMechanism(mu=1.0, shifts=1).lattice(6, 2)
    for _ in range(3):
        table = rng.integers(0, 4, (6, 2)).astype(float)
        other = rng.permutation(np.r_[table[1:], [[5.0, 2.0]]])
        orders = [list(order) for order in permutations(range(6))]
        sums = [
            np.mean([pair_sums(t, lattice.shifts, order) for order in orders], 0)
            for t in (table, other)
        ]
        stated = ranks.mean_change(table, other, lattice)
        np.testing.assert_allclose(stated, sums[1] - sums[0], atol=1e-12)
    same = table[::-1].copy()
    assert not ranks.mean_change(table, same, lattice).any()
    with pytest.raises(InputError) as error:
        KendallMechanism(mu=1.0).likelihood_statistic(table, same)
    assert error.value.argument == "X_neighbor"


# ---------------------------------------------------------------- what is estimated


def test_all_pairs_are_the_textbooks_tau():
    rng = np.random.default_rng(5)
    for table in (rng.normal(size=(41, 3)), rng.integers(0, 4, (41, 3)) * 1.0):
        lattice = KendallMechanism(mu=1.0, shifts=20).lattice(41, 3)
        sums = pair_sums(table, lattice.shifts)
        untied = np.sqrt(np.outer(sums.diagonal(), sums.diagonal()))
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert math.isclose(
                (sums / untied)[i, j], kendalltau(table[:, i], table[:, j]).statistic
            )


def margins(z):
    "Increasing maps of columns, and other insults."
    return {
        "cauchy": np.tan(np.pi * (norm.cdf(z) - 0.5)),
        "lognormal": np.exp(8 * z) * 1e-200,
        "gross": np.where(np.arange(len(z))[:, None] % 50 == 0, 1e300, z),
        "integers": np.clip(np.round(1.2 * z + 2.5), 0, 5),
        "sorted": z[np.argsort(z[:, 1])],
        "reversed": z[np.argsort(-z[:, 1])],
        "negative": -1e9 * z - 1e12,
    }


@pytest.mark.parametrize("name", margins(np.zeros((2, 2))))
def test_any_margins_give_the_correlations_of_the_scores(name):
    truth = tridiagonal_precision(4, 0.4)
    scores = sample_gaussian(truth, 20_000, 7)
    covariance = np.linalg.inv(truth)
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    release = KendallMechanism(mu=1.0).publish(margins(scores / deviation)[name], 1)
    found = release.corrected_covariance()
    assert (np.diag(found) == 1).all() and (found == found.T).all()
    # 2 % outliers, all in the same rows, pull every correlation up by about 0.06
    tolerance = 0.08 if name == "gross" else 0.03
    assert np.abs(found - correlation).max() < tolerance


def test_the_graph_of_a_chain_comes_back_from_cauchy_margins_in_any_units():
    scores = sample_gaussian(tridiagonal_precision(8, 0.35), 5000, 0)
    table = np.tan(np.pi * (norm.cdf(scores / scores.std(axis=0)) - 0.5))
    table = pd.DataFrame(
        table * 10.0 ** np.arange(-20, 20, 5), columns=list("abcdefgh")
    )
    release = KendallMechanism(epsilon=2.0, delta=1e-7).publish(table, random_state=0)
    strongest = pg.PrivateGraphicalLasso(0.02).fit(release).edges_[:7]
    found = set(zip(strongest.source, strongest.target, strict=True))
    assert found == set(zip("abcdefg", "bcdefgh", strict=True))
    with pytest.raises(pg.InputError):
        pg.PrivateGraphicalLasso(pg.CV()).fit(release)


@pytest.mark.parametrize("kind", KINDS)
def test_stated_errors_are_the_observed_ones(kind):
    """200 runs know a variance to 10 %, the average of six pairs to 5 %: 20 % fails
    once in 1e4 times."""
    truth, n, pairs = tridiagonal_precision(4, 0.3), 600, np.triu_indices(4, 1)
    covariance = np.linalg.inv(truth)
    deviation = np.sqrt(np.diag(covariance))
    correlation = (covariance / np.outer(deviation, deviation))[pairs]
    for steps, budget in ((None, {"mu": 0.5}), (1.2, {"mu": 20.0})):  # noise, and ties
        mechanism = KendallMechanism(shifts=12, **budget)
        if kind == "quadrant":
            mechanism = QuadrantMechanism(0, **budget)
        found, stated = [], []
        for seed in range(200):
            z = sample_gaussian(truth, n, seed) / deviation
            z = z if steps is None else steps * np.round(z / steps)
            release = mechanism.publish(z, seed)
            found.append(release.corrected_covariance()[pairs])
            stated.append(release.sampling_error().covariance_variance()[pairs])
        ratio = np.mean(stated, axis=0) / np.var(found, axis=0)
        assert 0.8 < ratio.mean() < 1.2
        assert np.abs(np.mean(found, axis=0) - correlation).max() < 0.025
        if steps is None:
            planned = mechanism.sampling_error(covariance, n)
            beforehand = planned.correlation_variance(covariance)[pairs]
            assert np.allclose(beforehand, np.mean(stated, axis=0), rtol=0.1)


def random_correlation(rng, p):
    "Of a few common factors."
    B = rng.normal(size=(p, p))
    S = B @ B.T + 0.3 * np.eye(p)
    return S / np.sqrt(np.outer(np.diag(S), np.diag(S)))


def test_signs_of_three_columns_vary_as_arcsines_say():
    """Two of three pairs share a column, whose sign squared is 1: all covariances are
    known. 2048 simulated rows know a variance to 3 %, 90 of them to less than 1 %."""
    rng, off = np.random.default_rng(1), np.triu_indices(3, 1)
    ratios = []
    for _ in range(30):
        r = random_correlation(rng, 3)
        tau = 2 / np.pi * np.arcsin(r)
        joint = np.array(
            [
                [
                    tau[next(iter({*a} - {*b})), next(iter({*b} - {*a}))]
                    if a != b
                    else 1
                    for b in zip(*off, strict=True)
                ]
                for a in zip(*off, strict=True)
            ]
        )
        slopes = np.pi / 2 * np.sqrt(1 - r[off] ** 2)
        covariance = (joint - np.outer(tau[off], tau[off])) * np.outer(slopes, slopes)
        weights = rng.normal(size=(3, 3, 3))
        weights += np.swapaxes(weights, 1, 2)
        flat = 2 * weights[:, *off]
        exact = np.einsum("mi,ij,mj->m", flat, covariance, flat) / 500
        stated = QuadrantError(((r, 500),)).weighted_variance(weights)
        ratios.extend(stated / exact)
        gaussian = SamplingError(((r, 500),)).weighted_variance(weights)
        assert not np.allclose(gaussian, exact, rtol=0.1)
    assert abs(np.mean(ratios) - 1) < 0.02 and np.std(ratios) < 0.06


def hub_of(p):
    "Correlations of a hub, whose pairs lose differently from signs, and the graph."
    precision = np.eye(p)
    precision[0, 1:] = precision[1:, 0] = -0.8 / math.sqrt(p - 1)
    S = np.linalg.inv(precision)
    return S / np.sqrt(np.outer(np.diag(S), np.diag(S)))


@pytest.mark.parametrize(
    "kind, mu", [("kendall", 20), ("quadrant", 20), ("quadrant", 2)]
)
def test_intervals_of_ranks_cover(kind, mu):
    """40 releases of 8 edges and 28 other pairs: a share of 95 % is known to 1.2 and
    .8 %, of which three and a half are allowed. Gaussian rows' errors cover 60 to 77 %
    for quadrants, and 92 % for Kendall, which at 3000 rows is told from 95 % here."""
    r, n = hub_of(9), 3000
    precision = np.linalg.inv(r)
    i, j = np.triu_indices(9, 1)
    scale = np.sqrt(np.diag(precision))
    truth = (-precision / np.outer(scale, scale))[i, j]
    mechanism = QuadrantMechanism(0, mu=mu) if kind == "quadrant" else None
    mechanism = mechanism or KendallMechanism(mu=mu, shifts=12)
    inside, deviations = [], []
    for seed in range(40):
        table = np.random.default_rng(seed).multivariate_normal(np.zeros(9), r, n)
        release = mechanism.publish(table, seed)
        inverse = np.linalg.inv(release.corrected_covariance())
        inverse = (inverse + inverse.T) / 2
        units = np.sqrt(np.diag(inverse))
        found = (-inverse / np.outer(units, units))[i, j]
        error = release.sampling_error()
        deviation = np.sqrt(error.partial_correlation_variance(inverse, i, j))
        z = (np.arctanh(found) - np.arctanh(truth)) * (1 - found**2) / deviation
        inside.append(np.abs(z) < 1.96)
        deviations.append(found / np.sqrt(error.precision_variance(inverse)[i, j]))
        deviations[-1] *= units[i] * units[j]
    joined = np.abs(truth) > 1e-9
    for pairs, slack in ((joined, 0.042), (~joined, 0.028)):
        assert abs(np.mean(inside, axis=0)[pairs].mean() - 0.95) < slack
    z = np.array(deviations)[:, ~joined]
    assert abs(np.sqrt((z**2).mean()) - 1) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_of_a_release_is_the_stated_one_and_its_sine_unbiased(kind):
    """Columns that are the same have correlation 1; noise of deviation 0.3 would pull
    the plain sine down by a tenth. Chances of a false alarm are below 1e-5."""
    column = np.random.default_rng(0).permutation(101) - 50.5
    table, runs = np.tile(column[:, None], 4), 500
    mechanism = KendallMechanism(mu=2 * 4 / 101 / 0.3)
    if kind == "quadrant":
        mechanism = QuadrantMechanism(0, mu=math.sqrt(24) / 101 / 0.3)
    lattice = mechanism.lattice(101, 4)
    sums = exact_sums(table, lattice)[:4, :4] * lattice.scale
    blank = mechanism.publish(table, 0)
    counts = np.array([mechanism.publish(table, seed).counts for seed in range(runs)])
    for k, cells in enumerate((np.triu_indices(4, 1), np.diag_indices(4))):
        z = (counts - sums)[:, *cells] / math.sqrt(variance(lattice.sigma[k]))
        assert abs((z**2).mean() - 1) < 4.5 * math.sqrt(2 / z.size)
        assert abs(z.mean()) < 4.5 / math.sqrt(z.size)
    exact = lattice.counted * lattice.scale
    counts[:, *np.diag_indices(4)] = exact  # the noise of ties and centres aside
    if kind == "quadrant":
        blank = replace(blank, total=0 * blank.total)
    found = [replace(blank, counts=c).corrected_covariance() for c in counts]
    mean = np.mean(found, axis=0)[np.triu_indices(4, 1)].mean()
    assert abs(mean - 1) < 4.5 * 0.2 / math.sqrt(6 * runs)


def test_planning_knows_ranks_and_their_units_are_free():
    budget = {"epsilon": 1.0, "delta": 1e-8}
    mechanisms = [KendallMechanism(**budget), QuadrantMechanism(0, **budget)]
    plans = pg.plan(mechanisms, 10_000, 20)
    box = pg.plan(pg.CovarianceMechanism((-4, 4), **budget, clipping="box"), 10_000, 20)
    assert (plans.correlation_error < box.correlation_error[0] / 4).all()
    S, units = tridiagonal_precision(3, 0.3), np.array([1e-5, 1.0, 1e7])
    one, two = (
        mechanisms[0].sampling_error(matrix, 1000)
        for matrix in (S, S * np.outer(units, units))
    )
    scaled = np.linalg.inv(S) / np.outer(units, units)
    for ours, theirs in (
        (
            one.correlation_variance(S),
            two.correlation_variance(S * np.outer(units, units)),
        ),
        (
            one.precision_variance(np.linalg.inv(S)),
            two.precision_variance(scaled) * np.outer(units, units) ** 2,
        ),
    ):
        assert np.allclose(ours, theirs, rtol=1e-6)


def test_more_shifts_than_needed_are_not_taken():
    shifts = [
        KendallMechanism(mu=mu).lattice(10_000, 20).shifts for mu in (1e-3, 0.1, 5)
    ]
    assert shifts == sorted(shifts) and shifts[0] == 1 and 30 <= shifts[-1] <= 35
    assert KendallMechanism(mu=5.0).lattice(6, 2).shifts == 2
    for n in (2, 3, 4, 5, 8):
        release = KendallMechanism(mu=100.0).publish(
            np.arange(2.0 * n).reshape(n, 2), 0
        )
        assert release.lattice.shifts == max((n - 1) // 2, 1)
        assert release.corrected_covariance()[0, 1] > 0.9


# ------------------------------------------------------------------ refusals


def test_constant_and_nearly_constant_columns_are_named():
    table = np.random.default_rng(0).normal(size=(2000, 4))
    table[:, 2], table[:, 3] = 7.0, 0.0
    table[5, 3] = 1.0
    release = KendallMechanism(mu=1.0).publish(table, random_state=0)
    with pytest.raises(CovarianceError) as caught:
        release.corrected_covariance()
    assert caught.value.columns == ["x2", "x3"]
    with pytest.raises(CovarianceError):
        release.sampling_error()
    assert "x2" not in str(release)


def test_mistakes_are_reported_before_anything_is_paid_for(tmp_path):
    table = np.random.default_rng(0).normal(size=(9, 2))
    holed = table.copy()
    holed[3, 1] = np.nan
    promise = pg.Guarantee(5.0, "record")
    budget = pg.Budget.create(tmp_path / "budget.json", promise)
    for mechanism, X, argument in (
        (KendallMechanism(mu=1.0), holed, "X"),
        (KendallMechanism(mu=1.0), table * np.inf, "X"),
        (KendallMechanism(mu=1.0), table[:1], "X"),
        (KendallMechanism(mu=1.0), table[:, :1], "p"),
        (KendallMechanism(mu=1.0, shifts=5), table, "shifts"),
        (KendallMechanism(mu=1e-12), table, "mu"),
        (QuadrantMechanism(0, mu=1e12), table, "mu"),
        (QuadrantMechanism([0, 0, 0], mu=1.0), table, "center"),
    ):
        with pytest.raises(pg.InputError) as caught:
            budget.publish(mechanism, X, tmp_path / "r.parquet", label="a test")
        assert caught.value.argument == argument
        assert budget.spent().mu == 0 and not (tmp_path / "r.parquet").exists()
    for make in (
        lambda: KendallMechanism(),
        lambda: KendallMechanism(mu=1.0, shifts=0),
        lambda: KendallMechanism(mu=1.0, neighbors="household"),
        lambda: QuadrantMechanism(np.nan, mu=1.0),
        lambda: QuadrantMechanism(0, mu=1.0, epsilon=1.0, delta=1e-6),
    ):
        with pytest.raises(pg.InputError):
            make()


# --------------------------------------------------------------------- files

TABLE = pd.DataFrame(
    np.random.default_rng(2).normal(size=(40, 4)), columns=list("abcd")
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_comes_back_as_it_was(kind, tmp_path):
    path = tmp_path / "r.parquet"
    for neighbors in ("record", "cell"):
        mechanism = replace_budget(MECHANISMS[kind], mu=2.0)
        mechanism.neighbors = neighbors
        release = mechanism.publish(TABLE, random_state=1)
        release.to_parquet(path)
        back = read_release(path)
        assert type(back) is type(release) and str(back) == str(release)
        assert (back.counts == release.counts).all()
        for name in ("guarantee", "n", "columns", "secure", "mechanism"):
            assert getattr(back, name) == getattr(release, name)
        ours, theirs = (
            x.sampling_error().covariance_variance() for x in (release, back)
        )
        assert (ours == theirs).all() and not back.noise_variance.any()
        assert (back.location == release.location).all()
        path.unlink()


def rewrite(path, change, counts=None):
    "The file with its metadata, or its numbers, changed, and sealed anew."
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[b"privglasso"])
    change(metadata)
    if counts is not None:
        frame = pd.DataFrame(counts, columns=metadata["columns"])
        stored = pa.Table.from_pandas(frame, preserve_index=False)
    seal = sealed(metadata, stored.to_pandas())
    pq.write_table(stored.replace_schema_metadata(seal), path)


def lattice(**settings):
    "A change of the lattice's settings."
    return lambda metadata: metadata["lattice"].update(settings)


def times(k, factor):
    "One noise parameter times a factor."
    return lambda m: m["lattice"]["sigma"].__setitem__(
        k, m["lattice"]["sigma"][k] * factor
    )


CHANGES = {
    "mu": lambda m: m.update(mu=m["mu"] * 0.99),
    "n": lambda m: m.update(n=10**16),
    "columns": lambda m: m.update(columns=["a", "b", "c", "e"]),
    "neighbors": lambda m: m.update(neighbors="household"),
    "another neighbor": lambda m: m.update(neighbors="cell"),
    "no promise": lambda m: m.update(no_guarantee=True),
    "noise_variance": lambda m: m.update(noise_variance=[0.1, 0.0, 0.0, 0.0]),
    "mechanism": lambda m: m.update(mechanism="CovarianceMechanism"),
    "kind": lambda m: m.update(kind="covariance"),
    "other kind": lambda m: m.update(
        kind="quadrant" if m["kind"] == "kendall" else "kendall",
        mechanism="QuadrantMechanism" if m["kind"] == "kendall" else "KendallMechanism",
    ),
    "secure": lambda m: m.update(secure="no"),
    "shifts": lambda m: m["lattice"].update(shifts=m["lattice"].get("shifts", 0) + 1),
    "shifts in words": lattice(shifts="2"),
    "half a shift": lattice(shifts=0.5),
    "a centre": lambda m: m["lattice"].update(
        center=None if "center" in m["lattice"] else [0.0] * 4
    ),
    "two centres": lattice(center=[0.0, 0.0]),
    "no centre": lattice(center=list("abcd")),
    "scale": lambda m: m["lattice"].update(scale=2 * m["lattice"]["scale"]),
    "no scale": lattice(scale=0),
    "a third": lattice(scale=3),
    "no noise": lattice(sigma=[0.0, 0.0]),
    "noises": lattice(sigma=[100.0]),
    "noise in words": lattice(sigma=["100.0", "80.0"]),
    **{
        f"sigma {k} {f}": times(k, f)
        for k in (0, 1)
        for f in (0.999, 1 + 1e-9, 1.5, -1)
    },
    "a word": lattice(promise="anonymous"),
    "another word": lambda m: m.update(promise="anonymous"),
    "nothing": lambda m: m.pop("lattice"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_a_file_can_be_changed_alone(kind, tmp_path):
    path, accepted = tmp_path / "r.parquet", []
    release = MECHANISMS[kind].publish(TABLE, random_state=1)
    for name, change in CHANGES.items():
        release.to_parquet(path)
        rewrite(path, change)
        try:
            read_release(path)
        except ReleaseError as error:
            assert "anonymous" not in str(error)
        else:
            accepted.append(name)
        path.unlink()
    assert accepted == []


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_a_file_are_sums_of_signs_with_noise(kind, tmp_path):
    path, release = (
        tmp_path / "r.parquet",
        MECHANISMS[kind].publish(TABLE, random_state=1),
    )
    lopsided, huge, negative = (release.counts.copy() for _ in range(3))
    lopsided[0, 1] += 1
    huge[0, 1] = huge[1, 0] = 2**40
    negative[1, 1] = -(2**14)
    for counts in (lopsided, huge, negative, release.counts * 1.0, release.counts[:2]):
        release.to_parquet(path)
        rewrite(path, lambda m: None, counts)
        with pytest.raises(ReleaseError, match="the matrix is|the columns and rows"):
            read_release(path)
        path.unlink()


def test_no_honest_file_is_refused(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "r.parquet"
    for n, p, mu in ((2, 2, 1e-6), (3, 5, 1e-3), (2, 2, 100.0), (500, 7, 1e4)):
        for mechanism in (KendallMechanism(mu=mu), QuadrantMechanism(0, mu=mu)):
            for table in (rng.normal(size=(n, p)), np.zeros((n, p)), np.ones((n, p))):
                mechanism.publish(table, random_state=n).to_parquet(path)
                assert read_release(path).guarantee == mechanism.guarantee(n, p)
                path.unlink()


def test_an_error_of_another_shape_is_refused():
    error = RankError(((np.eye(3), 100),), shifts=4)
    with pytest.raises((pg.InputError, ValueError)):
        error.precision_variance(np.eye(2))
    assert not error.correlation_variance(np.eye(3)).diagonal().any()
    assert replace(error, noise=1.0).covariance_variance()[0, 1] > 1


def test_noise_adds_to_a_sine_what_an_integral_says():
    "exp(a/2) sin((t + N)π/2) has the mean sin(tπ/2) where N has the variance 4a/π²."
    x, w = np.polynomial.hermite_e.hermegauss(60)
    for t, v in ((0.0, 0.01), (0.3, 0.2), (-0.8, 0.5)):
        r = np.sin(np.pi / 2 * t)
        sine = np.sin(np.pi / 2 * (t + np.sqrt(v) * x)) * np.exp(np.pi**2 / 8 * v)
        assert w @ sine / w.sum() == pytest.approx(r, abs=1e-12)
        added = ranks.sine_noise(np.array([[1.0, r], [r, 1.0]]), np.pi**2 / 4 * v)[0, 1]
        assert added == pytest.approx(w @ (sine - r) ** 2 / w.sum(), rel=1e-9)


def test_sums_of_signs_are_exact_beyond_what_short_floats_count():
    "Equal columns agree in every comparison: more than 2^24 of them, an odd number."
    n = 8195
    lattice = KendallMechanism(mu=1.0, shifts=2049).lattice(n, 2)
    rising = np.repeat(np.arange(n, dtype=float)[:, None], 2, axis=1)
    sums = pair_sums(rising, lattice.shifts)
    assert n * 2049 > 2**24 and n * 2049 % 2 and sums.dtype == np.int64
    assert (sums == n * 2049).all()
    rising[:, 1] *= -1
    assert pair_sums(rising, lattice.shifts)[0, 1] == -n * 2049


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [KendallMechanism, partial(QuadrantMechanism, 0)])
@pytest.mark.parametrize("mu", [3e-3, 1e-4])
def test_noise_that_hides_everything_overflows_nothing(make, mu):
    mechanism, truth = make(mu=mu), chain_precision(40, 0.4, scales=np.ones(40))
    covariance = np.linalg.inv(truth)
    assert mechanism.noise_std(500, 40)[0, 1] > 20
    error = mechanism.sampling_error(covariance, 500)
    variance = error.precision_variance(truth)
    assert np.isfinite(variance).all() and variance[0, 1] > 1e20


@pytest.mark.filterwarnings("error")
def test_a_release_that_is_all_noise_overflows_nothing():
    table = np.random.default_rng(0).normal(size=(50, 3))
    release = KendallMechanism(mu=1e-3).publish(table, random_state=0)
    counts = release.counts.copy()
    np.fill_diagonal(counts, np.diag(counts) + 2**62)  # as if it could be told
    release = replace(release, counts=counts)
    assert np.isfinite(release.corrected_covariance()).all()
    variance = release.sampling_error().precision_variance(np.eye(3))
    assert np.isfinite(variance).all()


def test_sums_of_many_rows_are_taken_in_blocks():
    "Two ends of blocks within the table, and a last block of one row."
    rng = np.random.default_rng(0)
    table, order = rng.integers(0, 9, (2**17 + 1, 2)) / 8, rng.permutation(2**17 + 1)
    lattice = MECHANISMS["kendall"].lattice(*table.shape)
    placed = table[order]
    others = [np.roll(placed, -shift, axis=0) for shift in range(1, lattice.shifts + 1)]
    signs = [np.sign(placed - other) for other in others]
    expected = sum(sign.T @ sign for sign in signs)
    assert pair_sums(table, lattice.shifts, order).tolist() == expected.tolist()


@pytest.mark.parametrize("neighbors", ["record", "cell"])
def test_no_rounding_takes_a_promise_above_the_budget(neighbors):
    "In exact numbers: a row of which half the signs turn, or a cell whose sign turns."
    for mu in np.random.default_rng(0).uniform(0.1, 5, 200).tolist():
        for p in (2, 4, 6):
            mechanism = KendallMechanism(mu=mu, shifts=3, neighbors=neighbors)
            lattice = mechanism.lattice(50, p)
            turned = p - 1 if neighbors == "cell" else (p // 2) ** 2
            moved = turned * (2 * 6 * lattice.scale) ** 2
            exact = moved / (Fraction(lattice.sigma[0]) ** 2 - Fraction(1, 6))
            asked = Fraction(mu) ** 2
            assert asked * (1 - Fraction(1e-13)) < exact <= asked
            assert math.isclose(lattice.guarantee(neighbors).mu, mu, rel_tol=1e-14)


def test_counts_are_whole_in_a_double_and_noise_may_be_longer_than_32_bits():
    many = QuadrantMechanism(0, mu=2.0**16).lattice(3 * 2**33, 2)
    assert 2**51 <= many.counted * many.scale <= 2**52
    lattice = KendallMechanism(mu=1e-11).lattice(4, 4)
    noise = symmetric_noise(lattice.p, lattice.sigma, bit_source(0))
    assert (noise == noise.T).all() and (abs(noise) > 2**31).all()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("neighbors", ["record", "cell"])
def test_the_least_noise_of_off_diagonal_and_diagonal_makes_the_promise(
    which, neighbors
):
    lattice = KendallMechanism(mu=1.0, neighbors=neighbors).lattice(100, 5)
    less, more = lattice.sigma.copy(), lattice.sigma.copy()
    less[which] *= 0.9
    more[which] *= 1.1
    assert replace(lattice, sigma=less).guarantee(neighbors).mu > 1.1
    assert math.isclose(replace(lattice, sigma=more).guarantee(neighbors).mu, 1.0)
