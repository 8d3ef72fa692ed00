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
from privglasso.publish.scores import ScoresRelease, scores_lattice
from privglasso.publish.shape import UnitsError
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


def test_no_column_is_lost_for_being_mostly_one_value():
    names = ["indicator of .05", "constant", "indicator of .01"]
    table = unrelated([*names, "normal", "Likert"], 10_000, 0)
    release = CovarianceMechanism(**SURE).publish(table, random_state=0)
    assert release.columns == [*table] and not release.set_aside
    assert release.margins.kinds[:3] == ("atom",) * 3 and release.searched == 3
    assert release.margins.center[:3].tolist() == [0, 7, 0]
    assert release.margins.faint.tolist() == [False, True, True, False, False]
    assert "1 constant" in str(release)


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


def test_missing_cells_count_nowhere_and_shrink_correlations_by_their_share():
    sigma, table = copula([lambda z: z, np.exp, lambda z: z], 50_000, 0)
    gaps = np.random.default_rng(1).random(table.shape) < 0.2
    holed = np.where(gaps, np.nan, table)
    with pytest.raises(InputError, match="NaN"):
        CovarianceMechanism(mu=2.0).publish(holed)
    mechanism = CovarianceMechanism(mu=2.0, missing="center")
    found = mechanism.publish(holed, random_state=0).correlations()
    # scores of 0 are more than the map of the sphere expects: it shrinks a little more
    left = found[[0, 1], [1, 2]] / (0.8 * sigma[[0, 1], [1, 2]])
    assert ((left > 0.8) & (left < 1)).all() and np.sign(found[0, 2]) == 1


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
