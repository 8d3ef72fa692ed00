"""Two rounds under one promise: files, budgets, and tables that nobody expects."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.noise_correction import CovarianceError
from privglasso.publish.parquet import METADATA_KEY, ReleaseError, sealed
from privglasso.publish.shape import ShapeRelease
from privglasso.publish.sphere import Ball, Sphere
from privglasso.publish.whitening import LEAST_CONDITION, WhitenedCovarianceMechanism
from privglasso.publish.whitening import WhitenedRelease, Whitening, noise_norm

RNG = np.random.default_rng(0)
LOOSE = RNG.normal(size=(6000, 4))
TIGHT = 50 + [1, 20, 1e-3, 5] * (RNG.normal(size=(6000, 1)) + 0.1 * LOOSE)
PUBLIC = Sphere([1, 20, 1e-3, 5], 50)


def mechanism(**settings):
    return WhitenedCovarianceMechanism(**{"mu": 0.3} | settings)


@pytest.mark.parametrize("neighbors", ["record", "cell"])
@pytest.mark.parametrize("mu", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("n, p", [(2000, 1), (3000, 4), (10**6, 30)])
def test_the_promise_is_what_was_asked_for(n, p, mu, neighbors):
    for clipping in (Sphere(), None):
        made = mechanism(clipping=clipping, mu=mu, neighbors=neighbors)
        if clipping is None and n * mu < 500:
            continue  # too little for private units
        promised = made.guarantee(n, p)
        assert mu * (1 - 1e-9) < promised.mu <= mu and promised.neighbors == neighbors
        sphere = clipping or "sphere"
        single = CovarianceMechanism(clipping=sphere, mu=mu, neighbors=neighbors)
        ratio = made.noise_std(n, p) / single.noise_std(n, p)
        assert np.abs(ratio - 1).max() < 1e-3


def test_where_noise_covers_the_first_round_there_is_only_one():
    few, many = (mechanism(clipping=Sphere()).lattice(n, 4) for n in (200, 6000))
    assert type(few).__name__ == "ShapeLattice" and noise_norm(many.first.rows) < 1
    release = mechanism(clipping=PUBLIC).publish(TIGHT[:200], random_state=0)
    assert type(release) is ShapeRelease
    least = mechanism(clipping=Sphere(), mu=1e-8)  # too little for a quarter of it
    assert type(least.lattice(1000, 4)).__name__ == "ShapeLattice"


@pytest.mark.parametrize(
    "table, settings, whitened",
    [
        (TIGHT, {}, True),
        (TIGHT, {"clipping": PUBLIC, "mean_share": 0}, True),
        (LOOSE, {}, False),
        (LOOSE, {"clipping": Sphere(), "mean_share": 0}, False),
        (np.c_[TIGHT, np.ones(6000)], {"neighbors": "cell"}, True),
        (TIGHT[:200], {"clipping": PUBLIC}, None),
    ],
)
def test_a_file_holds_both_rounds(tmp_path, table, settings, whitened):
    release = mechanism(**settings).publish(table, random_state=1)
    release.to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert str(back) == str(release) and type(back) is type(release)
    assert back.guarantee == release.guarantee and release.guarantee.mu <= 0.3
    assert getattr(back, "whitened", None) is whitened
    np.testing.assert_array_equal(back.matrix, release.matrix)
    np.testing.assert_array_equal(back.location, release.location)
    np.testing.assert_array_equal(
        back.sampling_error().covariance_variance(),
        release.sampling_error().covariance_variance(),
    )
    assert len(back.columns) == 4 and len(back.set_aside) == table.shape[1] - 4


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("whitening") / "r.parquet"
    mechanism().publish(TIGHT, random_state=1).to_parquet(path)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(whitened=False),
        lambda m: m.update(whitened=1),
        lambda m: m["lattice"]["center"].__setitem__(0, 1.0),
        lambda m: m["lattice"].update(scale=m["first"]["lattice"]["scale"]),
        lambda m: m["first"]["lattice"].update(
            sigma=[2 * s for s in m["first"]["lattice"]["sigma"]]
        ),
        lambda m: m["first"].update(units=None),
        lambda m: m["first"].update(word="anonymous"),
        lambda m: m["first"]["second_moment"][0].__setitem__(1, 0),
        lambda m: m["first"].pop("total"),
        lambda m: m.update(mechanism="CovarianceMechanism"),
    ],
)
def test_a_file_whose_rounds_do_not_fit_is_refused(stored, tmp_path, change):
    table = pq.read_table(stored)
    metadata = json.loads(table.schema.metadata[METADATA_KEY])
    change(metadata)
    sealed_again = sealed(metadata, table.to_pandas())
    pq.write_table(table.replace_schema_metadata(sealed_again), tmp_path / "t.parquet")
    with pytest.raises(ReleaseError):
        read_release(tmp_path / "t.parquet")


def test_what_is_not_whitened_has_the_noise_of_one_round():
    made = mechanism(clipping=Sphere())
    releases = [made.publish(LOOSE, random_state=seed) for seed in range(200)]
    matrices = np.array([release.matrix for release in releases])
    assert not any(release.whitened for release in releases)
    stated = made.noise_std(6000, 4) ** 2
    found = matrices.var(axis=0)[np.triu_indices(4, 1)] / stated[0, 1]
    # six standard errors of a variance of 200 draws
    assert np.abs(found - 1).max() < 6 * np.sqrt(2 / 200)
    inside = np.mean([r.matrix_noise_variance[0, 1] for r in releases])
    assert inside == pytest.approx(stated[0, 1], rel=0.05)


@pytest.mark.long
def test_whitened_noise_is_as_stated():
    made = mechanism(clipping=PUBLIC)
    releases = [made.publish(TIGHT, random_state=seed) for seed in range(80)]
    units = np.outer(PUBLIC.scale, PUBLIC.scale)
    matrices = np.array([release.matrix / units for release in releases])
    root = np.linalg.inv(np.linalg.cholesky(matrices.mean(axis=0)))
    white = root @ matrices @ root.T
    v = releases[0].second.lattice.product_noise() * (6 / 4) ** 2
    for entries in (white[:, 0, 1], white[:, 1, 2], white[:, 0, 3]):
        assert entries.var() / v == pytest.approx(1, abs=6 * np.sqrt(2 / 80))
    stated = np.mean([r.matrix_noise_variance / units**2 for r in releases], axis=0)
    # sizes are those of the trace, whose noise is not there
    small = np.ones(4) / 2 * [1, -1, 1, -1]
    assert np.var(matrices @ small @ small) < 0.1 * stated[0, 1]


@pytest.mark.parametrize(
    "table",
    [
        np.full((3000, 4), np.nan),
        np.zeros((3000, 4)),
        np.ones((3000, 4)),
        np.full((3000, 4), 1.7e308) * [1, -1, 1, -1],
        np.where(RNG.random((3000, 4)) < 0.5, np.nan, 1e308),
        RNG.normal(size=(3000, 4)) * [1, 1e-6, 1, 1e6],
    ],
)
def test_no_table_breaks_off_between_the_rounds(table):
    made = mechanism(clipping=Sphere(), missing="center")
    for seed in range(5):
        release = made.publish(table, random_state=seed)
        assert release.guarantee.mu <= 0.3 and str(release)
        assert np.isfinite(Whitening.of(release.first).condition)


def test_the_decision_can_be_read_off_the_first_round():
    made = mechanism(clipping=Sphere(), mu=0.08)
    near = np.random.default_rng(0).normal(size=(6000, 1)) * 1.4 + LOOSE
    decided = set()
    for seed in range(12):
        release = made.publish(near, random_state=seed)
        assert release.whitened == (release.condition > LEAST_CONDITION)
        decided.add(release.whitened)
    assert decided == {True, False}  # noise decides here, and nothing else


def test_a_lost_column_is_named_and_can_be_left_out():
    release = mechanism(clipping=Sphere()).publish(TIGHT - 50, random_state=0)
    with pytest.raises(CovarianceError):
        release.corrected_covariance()
    part = mechanism().publish(TIGHT, random_state=0).select(["x0", "x3"])
    assert part.corrected_covariance().shape == (2, 2)
    assert part.sampling_error().covariance_variance().shape == (2, 2)


def test_only_a_sphere_has_white_coordinates():
    with pytest.raises(InputError) as error:
        mechanism(clipping=Ball(2.0))
    assert error.value.argument == "clipping"
    with pytest.raises(TypeError):
        mechanism(bounds=(0, 1))


def test_an_estimator_and_a_budget_take_it(tmp_path):
    budget = pg.Budget.create(tmp_path / "b.json", pg.Guarantee(0.5, "record"))
    budget.spend(mechanism().guarantee(6000, 4), label="both rounds")
    assert budget.left("record").mu < 0.41
    release = mechanism().publish(TIGHT)
    assert type(release) is WhitenedRelease and release.secure
    model = pg.PrivateGraphicalLasso(0.05).fit(release)
    assert model.covariance_.shape == (4, 4)


def test_likelihoods_of_two_rounds_tell_tables_apart():
    table = TIGHT[:400].copy()
    other = table.copy()
    table[0], other[0] = (1e6, 0, 0, 0), (0, 1e8, -1e4, 0)
    made = mechanism(clipping=PUBLIC, mu=4.0)
    statistic = made.likelihood_statistic(table, other)
    one, two = (
        np.array([statistic(made.publish(X, random_state=seed)) for seed in seeds])
        for X, seeds in ((table, range(60)), (other, range(100, 160)))
    )
    apart = (two.mean() - one.mean()) / np.sqrt((one.var() + two.var()) / 2)
    assert 2.5 < apart < 5.2  # at most 4, and a standard error of 0.3
