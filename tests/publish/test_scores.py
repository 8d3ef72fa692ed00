"""Releases of scores: the promise, independence, atoms, levels, bounds, gaps."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from privglasso import Budget, CovarianceMechanism, Guarantee, Schema, read_release
from privglasso.base.validation import InputError
from privglasso.privacy.audit import audit
from privglasso.publish.margins import ScoreMargins, placed_cells
from privglasso.publish.scores import ScoresRelease, _largest, _scores_behind
from privglasso.publish.scores import weighted_sums, _undone, _weigh, row_weights
from privglasso.publish.scores import scores_lattice, scores_rows
from privglasso.publish.shape import UnitsError, pair_kernel, shape_behind
from privglasso.publish.units import UnitsPlan

SURE = dict(epsilon=1.0, delta=1e-6)
KINDS = {
    "normal": lambda rng, n: rng.normal(170, 8, n),
    "lognormal": lambda rng, n: rng.lognormal(3, 1.5, n),
    "counts": lambda rng, n: rng.poisson(2, n),
    "indicator of .3": lambda rng, n: rng.random(n) < 0.3,
    "indicator of .05": lambda rng, n: rng.random(n) < 0.05,
    "indicator of .01": lambda rng, n: rng.random(n) < 0.01,
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "Likert": lambda rng, n: rng.integers(1, 6, n),
    "constant": lambda rng, n: np.full(n, 7.0),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.7, 0, rng.gamma(2, 50, n)),
}


def unrelated(names, n, seed):
    "Independent columns of these kinds."
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {f"{k} {name}": KINDS[name](rng, n) for k, name in enumerate(names)}
    ).astype(float)


def largest(release):
    "The largest correlation in standard errors, over what 5 % of nulls exceed."
    above = np.triu_indices(len(release.columns), 1)
    error = np.sqrt(release.sampling_error().covariance_variance())
    z = np.abs(release.matrix / error)[above]
    return z.max() / norm.isf(0.025 / len(z))


# ------------------------------------------------------------------------ the promise

SHAPES = [(5000, 8, 0.3), (10**6, 20, 0.2), (2000, 2, 0.8), (10**5, 60, 0.1)]


@pytest.mark.parametrize("n, p, mu", SHAPES)
def test_planned_and_promised_are_the_target_and_no_stage_is_free(n, p, mu):
    lattice = scores_lattice(n, p, mu)
    assert mu * (1 - 1e-9) < lattice.guarantee("record").mu <= mu
    units = lattice.units.settings()
    units["sigma"] = {name: 0.9 * sigma for name, sigma in units["sigma"].items()}
    for less in (
        replace(lattice, sigma=0.9 * lattice.sigma),
        replace(lattice, rows=replace(lattice.rows, sigma=0.9 * lattice.rows.sigma)),
        replace(lattice, units=UnitsPlan.from_settings(units)),
    ):
        assert less.guarantee("record").mu > mu * (1 + 1e-3)


@pytest.mark.parametrize("n, p, mu", [(5000, 3, 9.0), (20_000, 2, 30.0)])
def test_rows_leave_what_histograms_of_the_least_noise_take(n, p, mu):
    lattice = scores_lattice(n, p, mu, {f"x{j}": (1, 5) for j in range(p)})
    assert lattice.sigma == 1 and lattice.units is None  # no less noise is proved
    assert mu * (1 - 1e-9) < lattice.guarantee("record").mu <= mu
    less = replace(lattice, rows=replace(lattice.rows, sigma=0.9 * lattice.rows.sigma))
    assert less.guarantee("record").mu > mu * (1 + 1e-3)


def test_cells_of_a_bin_are_told_apart_by_fresh_jitter():
    table = unrelated(["Likert"] * 2, 10_000, 3)
    levels = dict.fromkeys(table, (1, 5))
    mechanism = CovarianceMechanism(levels=levels, mu=50.0)  # hardly any noise
    moments = [mechanism.publish(table, seed).moments[0, 1] for seed in range(20)]
    spread = np.std(moments) / mechanism.lattice(10_000, 2).rows.sigma[0]
    assert spread > 3  # of noise alone: above 1.7 with a probability below 1e-4


@pytest.mark.parametrize("neighbors", ["record", "cell"])
def test_a_release_promises_what_was_planned_whatever_was_looked_for(neighbors):
    mechanism = CovarianceMechanism(neighbors=neighbors, **SURE)
    for names in (["normal"] * 3, [*KINDS], ["constant"] * 5):
        table = unrelated(names, 20_000, 1)
        planned = mechanism.guarantee(*table.shape)
        release = mechanism.publish(table, random_state=2)
        assert isinstance(release, ScoresRelease) and release.columns == [*table]
        assert release.guarantee.mu <= planned.mu * (1 + 1e-12)
        assert release.guarantee.mu == pytest.approx(planned.mu, rel=1e-9)
        assert release.guarantee.neighbors == neighbors


# A record that moves in every column, and is seen: what is claimed is what is shown.
SECRET = np.zeros((400, 3))
REVEALED = SECRET.copy()
REVEALED[0] = 1
STATED = {f"x{j}": (0, 1) for j in range(3)}


def told(table, mechanism, sigma=None, total=None):
    "A release with so much noise on its counts; or of another total budget."
    lattice = mechanism.lattice(*table.shape)
    lattice = lattice if sigma is None else replace(lattice, sigma=sigma)
    if total is not None:
        lattice = CovarianceMechanism(mu=total, levels=STATED).lattice(*table.shape)
    return lambda X, generator: _with(lattice, mechanism, X, generator)


def _with(lattice, mechanism, X, generator):
    from privglasso.privacy.sampler import bit_source

    values, columns = mechanism.check(X)
    return lattice.release(values, columns, "record", bit_source(generator), "none")


@pytest.mark.long
def test_an_audit_refutes_histograms_without_noise_and_shares_that_do_not_add_up():
    """Counts of 400 and 0: without noise the record is seen at once. Both are refuted
    with certainty 99.9 %; the mechanism itself is not."""
    mechanism = CovarianceMechanism(mu=1.0, levels=STATED)
    statistic = mechanism.likelihood_statistic(SECRET, REVEALED)
    options = dict(claimed=1.0, trials=400, confidence=0.999, random_state=0)
    options["statistic"] = statistic
    assert not audit(mechanism, SECRET, REVEALED, **options).refuted
    silent = told(SECRET, mechanism, sigma=1.0)
    assert audit(silent, SECRET, REVEALED, **options).refuted
    counts = lambda release: float(release.margins.counts[:, 1].sum())
    loud = told(SECRET, mechanism, total=12.0)
    assert audit(loud, SECRET, REVEALED, **(options | {"statistic": counts})).refuted


# ----------------------------------------------------------------------- independence


@pytest.mark.long
def test_columns_that_are_unrelated_stay_so_whatever_their_kinds():
    """120 mixtures of eight kinds. If one in 14 releases had a pair beyond the level of
    family-wise .05 (it and .02), more than 20 had it with probability below 1e-4."""
    assert binom.sf(20, 120, 0.07) < 1e-4
    mechanism, found = CovarianceMechanism(**SURE), 0
    for seed in range(120):
        names = np.random.default_rng(seed).choice([*KINDS], 8)
        n = (4000, 20_000)[seed % 2]
        release = mechanism.publish(unrelated(names, n, seed), random_state=seed)
        assert len(release.columns) == 8
        found += largest(release) > 1
    assert found <= 20


def test_on_the_raw_sphere_they_do_not():
    mechanism = CovarianceMechanism(clipping="sphere", **SURE)
    table = [unrelated(KINDS, 20_000, seed) for seed in range(5)]
    assert min(largest(mechanism.publish(X, 0)) for X in table) > 2


def low_answers(seed, n=2000, p=8):
    "Independent answers from 1 to 5, most of them low, and what is public of them."
    rng = np.random.default_rng(seed)
    table = rng.choice(5, (n, p), p=[0.5, 0.3, 0.1, 0.07, 0.03]) + 1.0
    return table, {f"x{j}": (1, 5) for j in range(p)}


def test_noise_on_the_histograms_joins_no_columns_where_rows_are_few():
    """n ε = 300, where scores have a mean of .3. Of 150 releases at a family-wise .05,
    more than 20 are beyond with probability below 1e-4. Without the constant's part 25
    are expected."""
    assert binom.sf(20, 150, 0.05) < 1e-4
    _, stated = low_answers(0)
    mechanism = CovarianceMechanism(epsilon=0.15, delta=1e-7, levels=stated)
    found = [mechanism.publish(low_answers(s)[0], s) for s in range(150)]
    assert sum(largest(release) > 1 for release in found) <= 20


def test_the_products_with_the_constant_tell_the_mean_of_wrong_scores():
    """Shares so wrong that scores have a mean, no noise: independent columns have
    products m_i m_j, and what is taken off is that, to second order."""
    rng, n, p = np.random.default_rng(3), 400_000, 4
    table = (rng.random((n, p)) < 0.5).astype(float)
    kinds, zeros = ("levels",) * p, np.zeros(p)
    wrong = np.array([[0.4, 0.6]] * 2 + [[0.6, 0.4]] * 2)
    counts = (wrong * n).astype(np.int64)
    margins = ScoreMargins(kinds, zeros, zeros + 1, counts, n, 1.0)
    places, _ = placed_cells(table, kinds, zeros, zeros + 1)
    for c, half in ((0.5, None), (2.0, None), (0.5, 12.0), (0.5, 100.0)):
        rows = scores_rows(n, p, half, 2**20, [1.0, 1.5])
        size = _largest(p, c, half) / rows.length**2
        average = weighted_sums(places, margins, rows, c, half, 7) / n * size
        plain = shape_behind(average[:p, :p], c, half).matrix[0, 1:]
        left = _scores_behind(average, 1e-12, (c, half)).matrix[0, 1:]
        # a correlation is known to .002
        assert np.abs(plain).min() > 0.02 > 2 * np.abs(left).max()


def test_weighted_rows_stay_in_the_ball_and_the_longest_reach_it():
    "Sensitivity is the lattice's, whose ball no weighted row leaves."
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 5)) * np.exp(rng.normal(size=(20_000, 1)) * 3)
    for half in (6.0, 20.0, 1e4):
        _weigh(weighted := rows.copy(), half, 3.0)
        squares = (weighted**2).sum(axis=1)
        assert squares.max() <= 9 * (1 + 1e-12)
        assert squares.max() > 0.9 * 9
        turned = (rows**2).sum(axis=1) / half  # the longest are of squared length b
        assert 0.5 < turned[squares > 0.95 * 9].mean() < 2


def test_noise_on_weighted_rows_is_less_than_their_own_error():
    for n in (10**4, 10**5, 10**6, 10**8):
        for p in (2, 3, 4, 10, 50, 200):
            for mu in (0.05, 0.2, 1.0, 30.0):
                constant, half = row_weights(n, p, mu)
                most = 0.7 if n >= min(50_000, 1000 * p**2) else 0.25
                if half is None:
                    assert 1.4 * (p + constant**2) > most * mu * math.sqrt(n)
                    continue
                noise = _largest(p, constant, half) / (n * mu)
                own = 1 / math.sqrt(n)
                assert noise <= most * own * (1 + 1e-9) and half > p + constant**2


@pytest.mark.parametrize("levels", [3, 5])
def test_answers_of_a_chain_show_no_edge_that_is_not_there_however_many(levels):
    """On the sphere, pairs at a distance of two have partial correlations of about .01
    (bins change lengths); with weighted rows less than a fifth of it is left."""
    n, p, precision = 400_000, 3, np.eye(3) + 0.35 * (np.eye(3, k=1) + np.eye(3, k=-1))
    sigma = np.linalg.inv(precision)
    sigma /= np.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
    rng = np.random.default_rng(5)
    z = rng.standard_normal((n, p)) @ np.linalg.cholesky(sigma).T
    table = 1.0 + np.floor(norm.cdf(z) * levels)
    edges = np.arange(levels + 1.0) + 0.5
    counts = np.array([np.histogram(x, edges)[0] for x in table.T])
    kinds, ones = ("levels",) * p, np.ones(p)
    margins = ScoreMargins(kinds, ones, ones * (levels - 1), counts, n, 1.0)
    places, _ = placed_cells(table, kinds, ones, ones * (levels - 1))
    found = {}
    for half in (None, 48.0, 1e5):
        rows = scores_rows(n, p, half, 2**20, [1.0, 1.5])
        size = _largest(p, 0.3, half) / rows.length**2
        average = weighted_sums(places, margins, rows, 0.3, half, 7) / n * size
        behind = _scores_behind(average, 0.0, (0.3, half))
        kernel = pair_kernel(p, 0.3, half)
        known = margins.coefficients(kernel[0], False, np.zeros(p, bool))
        K = np.linalg.inv(_undone(behind, known, kernel)[0])
        found[half] = -K[0, 2] / math.sqrt(K[0, 0] * K[2, 2])
    # the same rows and the same jitter throughout: what is left is the weights' doing
    sphere, weighted = (abs(found[half] - found[1e5]) for half in (None, 48.0))
    assert 5 * weighted < sphere and sphere > 0.005


def copula(margins, n, seed, rho=0.5):
    "A chain of normal columns, and monotone functions of them."
    p = len(margins)
    theta = np.eye(p) + rho / 2 * (np.eye(p, k=1) + np.eye(p, k=-1))
    sigma = np.linalg.inv(theta)
    sigma /= np.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, p)) @ np.linalg.cholesky(sigma).T
    return sigma, np.column_stack([f(x) for f, x in zip(margins, z.T, strict=True)])


def likert(z):
    "Answers from 1 to 5."
    return 1.0 + np.searchsorted([-1.2, -0.4, 0.5, 1.3], z)


def partial(R):
    "Partial correlations."
    K = np.linalg.inv(R)
    return -K / np.sqrt(np.outer(np.diag(K), np.diag(K)))


MARGINS = [lambda z: z, np.exp, likert, lambda z: z**3, likert, lambda z: np.exp(2 * z)]


@pytest.mark.long
def test_edges_and_missing_edges_of_a_copula_are_right_as_the_noise_vanishes():
    """18 columns, 400 000 rows, three tables: averages of a partial correlation are
    known to .001. A bias of .003 and 4.5 of these is exceeded once in a thousand."""
    stated = {f"x{j}": (1, 5) for j in range(18) if j % 6 in (2, 4)}
    mechanism, away = CovarianceMechanism(mu=1000.0, levels=stated), []
    for seed in range(3):
        sigma, table = copula(MARGINS * 3, 400_000, seed)
        found = mechanism.publish(table, random_state=seed).correlations()
        away.append(partial(found) - partial(sigma))
    bias = np.abs(np.mean(away, axis=0))[np.triu_indices(18, 1)]
    assert bias.max() < 0.003 + 4.5 * 0.001


@pytest.mark.parametrize("p", [2, 3, 6])
def test_so_they_are_for_few_columns_however_coarse(p):
    """Answers of three and five levels, two million rows in all: a partial correlation
    is known to .001, a bias of .003 and five of these is exceeded once in 1e5."""
    three = lambda z: 1.0 + np.searchsorted([-0.8, 0.3], z)
    margins = [likert if j % 2 else three for j in range(p)]
    stated = {f"x{j}": (1, 5 if j % 2 else 3) for j in range(p)}
    mechanism, away = CovarianceMechanism(mu=1000.0, levels=stated), []
    for seed in range(4):
        sigma, table = copula(margins, 500_000, seed, rho=0.8)
        found = mechanism.publish(table, random_state=seed).correlations()
        away.append(partial(found) - partial(sigma))
    bias = np.abs(np.mean(away, axis=0))[np.triu_indices(p, 1)]
    assert bias.max() < 0.003 + 5 * 0.001


@pytest.mark.long
def test_what_is_observed_has_the_noise_that_it_states():
    """Efficient scores of absent pairs of 60 releases of mixed, unrelated columns: 1260
    squares that are nearly independent are known to 4 %; 25 % is far outside."""
    from privglasso.recover.efficient_score import Observation, fit_graph

    names = ["normal", "lognormal", "Likert", "indicator of .3", "counts"] * 2
    squares = {True: [], False: []}
    for seed in range(60):
        table = unrelated(names[:7], 6000, seed)
        release = CovarianceMechanism(mu=0.15).publish(table, random_state=seed)
        seen = release.observed()
        for whole in squares:
            less = seen if whole else seen | {"noise": 0.0}
            p = len(seen["statistic"])  # a column may have no unit
            none = np.zeros((p, p), dtype=bool)
            fit = fit_graph(Observation(**less), none, np.eye(p))
            u, variance = fit.scores(*fit.absent())
            squares[whole] += (u**2 / variance).tolist()
    assert 0.75 < np.mean(squares[True]) < 1.25 < np.mean(squares[False])


def test_what_is_observed_leads_back_to_the_correlations():
    from privglasso.recover.efficient_score import EfficientScore, Observation

    _, table = copula(MARGINS, 200_000, 0)
    release = CovarianceMechanism(mu=1000.0).publish(table, random_state=0)
    seen, R = Observation(**release.observed()), release.correlations()
    right = EfficientScore(seen, np.linalg.inv(R)).misfit
    other = EfficientScore(seen, np.linalg.inv(0.95 * R + 0.05 * np.eye(6))).misfit
    assert right < 0.02 * other  # variances of scores are known to .005


def test_thresholds_of_normal_columns_are_undone_by_name():
    cut = [lambda z: 1.0 * (z > 0.3), lambda z: z, lambda z: 1.0 * (z > -0.8)]
    sigma, table = copula(cut * 2, 400_000, 0)
    levels = {f"x{j}": (0, 1) for j in (0, 2, 3, 5)}
    mechanism = CovarianceMechanism(mu=1000.0, levels=levels, latent=True)
    release = mechanism.publish(table, random_state=0)
    off = np.triu_indices(6, 1)
    assert np.abs(release.correlations() - sigma)[off].max() < 0.03
    plain = release.correlations(latent=False)
    assert np.abs(plain - sigma)[off].max() > 0.08 and release.latent


# --------------------------------------------------------- atoms, levels, bounds, gaps

@pytest.mark.parametrize("n, epsilon", [(1000, 3), (10_000, 0.3), (100_000, 1)])
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_a_question_with_two_answers_need_not_say_so(n, epsilon, share):
    """Ten columns, nine pairs of neighbours: what is found without levels is what is
    found with them. As thresholds of something normal they would be .1 apart."""
    p, found = 10, []
    law = 0.4 ** np.abs(np.subtract.outer(range(p), range(p)))
    for seed in range(4 if n < 1e5 else 1):
        rng = np.random.default_rng(seed)
        normal = rng.normal(size=(n, p)) @ np.linalg.cholesky(law).T
        table = (normal > norm.isf(share)).astype(float)
        for levels in (None, {f"x{j}": (0, 1) for j in range(p)}):
            made = CovarianceMechanism(epsilon=epsilon, delta=n**-2.0, levels=levels)
            R = made.publish(table, random_state=seed).correlations()
            found.append(np.diag(R, 1).mean())
    untold, told = np.mean(found[::2]), np.mean(found[1::2])
    assert untold == pytest.approx(told, abs=0.03) and 0.2 < told < 0.3


def test_no_column_is_lost_for_being_mostly_one_value():
    names = ["indicator of .05", "constant", "indicator of .01"]
    table = unrelated([*names, "normal", "Likert"], 10_000, 0)
    release = CovarianceMechanism(**SURE).publish(table, random_state=0)
    assert release.columns == [*table] and not release.set_aside
    assert release.margins.kinds[:3] == ("atom",) * 3 and release.searched == 3
    assert release.margins.center[:3].tolist() == [0, 7, 0]
    assert release.margins.faint.tolist() == [False, True, True, False, False]
    assert "1 constant" in str(release)


def test_what_is_too_rare_to_be_seen_is_said_before_and_after():
    """Indicators of shares about the stated one, 60 of each: below a half none is seen,
    above twice all are, each but for once in 30 000."""
    n, names = 10_000, [f"x{j}" for j in range(6)]
    mechanism = CovarianceMechanism(levels=dict.fromkeys(names, (0, 1)), **SURE)
    share = mechanism.lattice(n, 6).least_share
    rarely, often = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = rng.random((n, 6)) < share * np.array([0, 0.25, 0.5, 2, 3, 9])
        release = mechanism.publish(table.astype(float), random_state=seed)
        faint = release.margins.faint
        rarely, often = rarely + (~faint[:3]).sum(), often + faint[3:].sum()
        assert f"{100 * share:.2g} % of the records" in str(release)
    assert rarely <= 1 and often <= 1


def test_a_table_of_which_nothing_can_be_seen_is_said_to_have_nothing(tmp_path):
    far = np.linspace(1e-90, 2e-90, 5000)[:, None]  # no fourth powers, and no atom
    with pytest.raises(UnitsError, match="no column has a unit.*budget is spent"):
        CovarianceMechanism(mu=1.0).publish(far, random_state=0)
    table = np.column_stack([far[::-1], np.random.default_rng(0).normal(size=5000)])
    release = CovarianceMechanism(mu=1.0).publish(table, random_state=0)
    assert release.columns == ["x1"] and [*release.set_aside] == ["x0"]
    budget = Budget.create(tmp_path / "b.json", Guarantee(2.0, "record"))
    budget.publish(CovarianceMechanism(mu=1.0), table, tmp_path / "r", label="one")
    assert budget.spent().mu == pytest.approx(1.0)


def test_levels_are_bins_and_buy_no_unit():
    table = unrelated(["Likert"] * 5, 400, 0)
    stated = {name: (1, 5) for name in table}
    release = CovarianceMechanism(levels=stated, **SURE).publish(table, random_state=0)
    assert release.units is None and set(release.margins.kinds) == {"levels"}
    with pytest.raises(InputError, match="levels=.*no such columns"):
        CovarianceMechanism(levels={"z": (0, 1)}, mu=1.0).publish(table)


def test_few_answers_with_bounds_are_published():
    table = unrelated(["Likert"] * 5, 400, 0)
    with pytest.raises(InputError, match="too few rows to find units"):
        CovarianceMechanism(**SURE).publish(table)
    release = CovarianceMechanism((1, 5), **SURE).publish(table, random_state=0)
    assert release.units is None and set(release.margins.kinds) == {"range"}
    schema = {name: {"kind": "integer", "low": 1, "high": 5} for name in table}
    told = Schema.from_dict(schema) if hasattr(Schema, "from_dict") else schema
    release = CovarianceMechanism(**SURE).publish(table, random_state=0, schema=told)
    assert set(release.margins.kinds) == {"levels"}


def test_bounds_that_are_much_too_wide_change_nothing():
    table = unrelated(["normal", "lognormal", "Likert", "counts"], 5000, 0)
    plain, wide = (
        CovarianceMechanism(bounds, mu=0.5).publish(table, random_state=0)
        for bounds in (None, (-1e7, 1e7))
    )
    assert np.array_equal(plain.second_moment, wide.second_moment)
    assert np.array_equal(plain.matrix, wide.matrix)


def test_tight_bounds_clip():
    table = unrelated(["normal"] * 2, 5000, 0)
    mechanism = CovarianceMechanism((165, 175), mu=1.0)
    one, two = (mechanism.publish(X, 0) for X in (table, table.clip(165, 175)))
    assert np.array_equal(one.second_moment, two.second_moment)


def holed(share, seed=1):
    "A chain of three columns, and the same with such a share of the cells."
    _, table = copula([lambda z: z, np.exp, lambda z: z], 50_000, 0)
    gaps = np.random.default_rng(seed).random(table.shape) > share
    return table, np.where(gaps, np.nan, table)


def test_missing_cells_count_nowhere_and_shrink_correlations_by_their_share():
    full, table = holed(0.8)
    with pytest.raises(InputError, match="NaN"):
        CovarianceMechanism(mu=2.0).publish(table)
    whole = CovarianceMechanism(mu=2.0).publish(full, 0).correlations()
    left = {}
    for rule in ("center", "random"):
        release = CovarianceMechanism(mu=2.0, missing=rule).publish(table, 0)
        assert release.margins.present == pytest.approx([0.8] * 3, abs=0.01)
        left[rule] = (release.correlations() / whole)[[0, 1], [1, 2]]
    assert left["center"] == pytest.approx([0.8, 0.8], abs=0.02)
    assert left["random"] == pytest.approx([1.0, 1.0], abs=0.025)


def test_margins_are_those_of_the_cells_that_are_there():
    full, table = holed([0.9, 0.4, 1.0])
    release = CovarianceMechanism(mu=2.0, missing="center").publish(table, 0)
    whole = CovarianceMechanism(mu=2.0).publish(full, 0)
    margins = release.margins
    exact = placed_cells(full, margins.kinds, margins.center, margins.scale)[1] / 50_000
    for one, two in zip(margins.shares, exact, strict=True):
        assert one == pytest.approx(two[: len(one)], abs=0.01)
    assert release.location[0] == pytest.approx(0, abs=0.05)
    assert release.scale[0] == pytest.approx(1, rel=0.05)
    assert (whole.margins.present == 1).all()  # of a table that may have no gaps


def test_gaps_at_random_are_for_scores_alone():
    for given in ({"clipping": "sphere"}, {"bounds": (0, 1), "clipping": "box"}):
        with pytest.raises(InputError, match="missing"):
            CovarianceMechanism(mu=1.0, missing="random", **given)
    with pytest.raises(InputError, match="'refuse', 'center', 'random'"):
        CovarianceMechanism(mu=1.0, missing="rand")


def test_a_file_says_what_became_of_gaps(tmp_path):
    _, table = holed(0.8)
    for rule, said in (("center", "count as centres"), ("random", "fall at random")):
        release = CovarianceMechanism(mu=2.0, missing=rule).publish(table, 0)
        assert said in str(release)
        release.to_parquet(tmp_path / f"{rule}.parquet")
        read = read_release(tmp_path / f"{rule}.parquet")
        assert read.missing == rule and np.array_equal(read.matrix, release.matrix)


# --------------------------------------------------------------------- mostly missing


def mostly_missing(seed, n, shares=(0.0, 0.1, 0.65, 0.7, 0.85, 0.97)):
    "Unrelated columns of six kinds with such shares of gaps, each of its own."
    kinds = ["normal", "lognormal", "lognormal", "indicator of .3", "counts", "Cauchy"]
    table = unrelated(kinds, n, seed)
    table.columns = [f"x{j}" for j in range(len(kinds))]
    return table.mask(np.random.default_rng([1, seed]).random(table.shape) < shares)


@pytest.mark.parametrize("missing", ["center", "random"])
def test_no_column_is_lost_because_most_of_its_cells_are_missing(missing, tmp_path):
    mechanism = CovarianceMechanism(missing=missing, **SURE)
    for seed in range(10):
        release = mechanism.publish(mostly_missing(seed, 10_000), random_state=seed)
        assert release.set_aside == {} and len(release.columns) == 6
        assert release.mostly_missing == ["x2", "x3", "x4", "x5"]
        assert release.guarantee == mechanism.guarantee(10_000, 6) or math.isclose(
            release.guarantee.mu, mechanism.guarantee(10_000, 6).mu
        )
        error = 5 * math.hypot(release.margins.sigma / math.sqrt(2), 50) / 10_000
        assert release.location[2:] == pytest.approx([0.35, 0.3, 0.15, 0.03], abs=error)
        assert (release.margins.present[2:] == 1).all()
    said = "holds whether there is a value: x2, x3, x4, x5"
    assert said in str(release)
    release.to_parquet(tmp_path / "r.parquet")
    read = read_release(tmp_path / "r.parquet")
    assert read.mostly_missing == release.mostly_missing and said in str(read)
    assert np.array_equal(read.matrix, release.matrix)
    assert read.guarantee == release.guarantee


@pytest.mark.long
@pytest.mark.parametrize("n, repeats", [(10_000, 60), (100_000, 24)])
def test_columns_whose_gaps_are_unrelated_stay_unrelated(n, repeats):
    """At a family-wise .05 more are beyond with probability below 1e-4. Most of the
    cells of four columns are missing, and of a fifth a tenth."""
    allowed = {60: 11, 24: 7}[repeats]
    assert binom.sf(allowed, repeats, 0.05) < 1e-4
    mechanism = CovarianceMechanism(missing="center", epsilon=1, delta=n**-2.0)
    found = 0
    for seed in range(repeats):
        release = mechanism.publish(mostly_missing(seed, n), random_state=seed)
        assert len(release.columns) == 6 and len(release.mostly_missing) >= 3
        found += largest(release) > 1
    assert found <= allowed


def test_columns_whose_gaps_are_in_the_same_records_are_related():
    "Their values are not, and are not told: only whether there are any."
    for seed in range(5):
        table = mostly_missing(seed, 10_000, (0, 0, 0, 0, 0.8, 0.8))
        table.loc[:, "x5"] = table.x5.fillna(0).where(table.x4.notna())
        release = CovarianceMechanism(missing="center", **SURE).publish(table, seed)
        assert release.mostly_missing == ["x4", "x5"]
        R, error = release.correlations(), release.sampling_error()
        error = np.sqrt(error.correlation_variance(release.matrix))
        assert R[4, 5] == pytest.approx(1, abs=0.15)
        assert np.abs(R[:4, 4:] / error[:4, 4:]).max() < 5


def test_no_bit_of_a_release_depends_on_values_of_a_column_that_is_mostly_missing():
    table = mostly_missing(3, 10_000)
    other = table.copy()
    other["x4"] = -1e6 * table.x4 - 0.5
    mechanism = CovarianceMechanism(mu=0.4, missing="center")
    one, two = (mechanism.publish(each, 1) for each in (table, other))
    assert "x4" in one.mostly_missing
    assert one.margins.kinds == two.margins.kinds and one.set_aside == two.set_aside
    j = one.columns.index("x4")
    assert np.array_equal(one.margins.counts[j], two.margins.counts[j])
    assert np.array_equal(one.moments, two.moments)


def test_a_gap_is_told_from_a_zero_by_who_audits():
    table = np.random.default_rng(0).normal(size=(3000, 3))
    table[:, 2][table[:, 2] < 0.8] = np.nan
    gone = np.flatnonzero(np.isnan(table[:, 2]))[0]
    other = table.copy()
    other[gone, 2] = 0.0
    mechanism = CovarianceMechanism(missing="center", mu=1.0)
    release = mechanism.publish(table, 0)
    assert release.mostly_missing == ["x2"]
    ratio = mechanism.likelihood_statistic(table, other)(release)
    assert np.isfinite(ratio) and ratio != 0
    with pytest.raises(InputError, match="same as X"):
        mechanism.likelihood_statistic(table, table.copy())


@pytest.mark.long
def test_an_audit_refutes_presences_whose_counts_have_no_noise():
    """One record of 3000 has eight values where all others have gaps, which counts
    with the least noise show. Certainty 99.9 %, as above; -9 stands for a gap, as
    audits ask for numbers."""
    table = np.full((3000, 9), -9.0)
    table[:, 0] = np.random.default_rng(0).normal(size=3000)
    other = table.copy()
    other[0, 1:] = 7.0
    mechanism = CovarianceMechanism(missing="center", mu=1.0)
    holed = lambda X: np.where(X == -9, np.nan, X)
    assert len(mechanism.publish(holed(table), 0).mostly_missing) == 8
    options = dict(claimed=1.0, trials=120, confidence=0.999, random_state=0)
    options["statistic"] = lambda release: float(
        release.margins.counts[1:, 1].sum() - release.margins.counts[1:, 0].sum()
    )
    for sigma in (None, 1.0):
        made = told(table, mechanism, sigma)
        publish = lambda X, rng, made=made: made(holed(X), rng)
        found = audit(publish, table, other, **options)
        assert found.refuted == (sigma == 1.0)


def test_units_and_order_of_a_table_do_not_matter_to_its_correlations():
    table = unrelated(["normal", "normal", "Likert"], 5000, 0).to_numpy()
    one, two = (
        CovarianceMechanism(mu=1.0).publish(table * unit, random_state=0)
        for unit in (1.0, 2.0**30)
    )
    assert np.array_equal(one.second_moment, two.second_moment)
    assert two.scale == pytest.approx(one.scale * 2.0**30)


# ------------------------------------------------------------------------------- files


@pytest.mark.parametrize("options", [{}, {"latent": True}, {"neighbors": "cell"}])
def test_there_and_back(options, tmp_path):
    table = unrelated([*KINDS], 8000, 0)
    mechanism = CovarianceMechanism(levels={"7 Likert": (1, 5)}, mu=1.0, **options)
    release = mechanism.publish(table, random_state=0)
    release.to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert str(back) == str(release) and back.guarantee == release.guarantee
    for name in ("matrix", "location", "scale", "matrix_noise_variance"):
        assert np.array_equal(getattr(back, name), getattr(release, name)), name
    assert math.isfinite(back.floor) and back.settings() == release.settings()


@pytest.mark.parametrize("more", [{}, {"levels": {"x0": (1, 5)}}])
def test_what_a_release_hands_out_is_no_part_of_the_next(more):
    "Numbers of its lattice that somebody overwrites would be the next one's noise."
    rng = np.random.default_rng(4)
    table = np.column_stack([rng.integers(1, 6, 3000), rng.normal(size=(3000, 3))])
    mechanism = CovarianceMechanism(mu=0.5, **more)
    first = mechanism.publish(table, 1)
    kept = first.matrix.copy()
    for lattice in (first.lattice, mechanism.lattice(3000, 4)):
        for numbers in vars(getattr(lattice, "rows", lattice)).values():
            if isinstance(numbers, np.ndarray):
                numbers *= 0.5
    assert np.array_equal(mechanism.publish(table, 1).matrix, kept)
