"""Releases of rows on a sphere, in public and in private units, and of scores."""

import math

import numpy as np
import pandas as pd
import pytest

from privglasso import CovarianceMechanism, PrivateGraphicalLasso, read_release
from privglasso.base.validation import InputError
from privglasso.privacy.audit import audit
from privglasso.privacy.budget import Budget, ChargedError
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.noise_correction import CovarianceError
from privglasso.publish.parquet import ReleaseError
from privglasso.publish.shape import TOO_EXTREME, UnitsError, joint_constant
from privglasso.publish.shape import rows_noise, shape_behind
from privglasso.publish.sphere import Ball, Sphere, row_lattice
from privglasso.publish.whitening import WhitenedCovarianceMechanism

P, UNITS = 6, np.geomspace(1e-6, 1e6, 6)
CHAIN = np.linalg.inv(np.eye(P) + 0.35 * (np.eye(P, k=1) + np.eye(P, k=-1)))
CHAIN /= np.sqrt(np.outer(np.diag(CHAIN), np.diag(CHAIN)))
NAMES = list("abcdef")


def rows(n, seed=0):
    "A table in wild units, far from zero."
    generator = np.random.default_rng(seed)
    z = generator.normal(size=(n, P)) @ np.linalg.cholesky(CHAIN).T
    return pd.DataFrame((z + 1e4) * UNITS, columns=NAMES)


def correlation(release):
    "Correlations of a release."
    S = release.corrected_covariance()
    return S / np.sqrt(np.outer(np.diag(S), np.diag(S)))


@pytest.mark.parametrize(
    "mechanism",
    [
        CovarianceMechanism(clipping="sphere", mu=1.0),
        CovarianceMechanism(clipping=Ball(3.0), mu=1.0),
        WhitenedCovarianceMechanism(mu=1.0),
    ],
)
def test_rows_as_they_are_say_for_which_rows(mechanism):
    "Wherever such a release says what it is: by itself, in `inspect`, after `publish`."
    assert "for elliptical rows" in str(mechanism.publish(rows(3000), random_state=0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spectrum", [[1e3, -998.0], [9.0, -2, -2], [2.5, -0.5]])
def test_an_average_that_is_all_noise_has_a_shape_and_a_huge_error(spectrum):
    "As of one record: its direction is all there is, and noise makes it longer."
    shape, p = shape_behind(np.diag(spectrum)), len(spectrum)
    assert np.isfinite(shape.matrix).all() and shape.values.sum() == pytest.approx(p)
    assert shape.values.max() == pytest.approx(p, rel=1e-2)
    assert (shape.noise_variance(0.01) >= 0).all()


@pytest.mark.parametrize("clipping", [None, "sphere"])
def test_without_bounds_the_correlations_and_the_promise_are_right(clipping):
    mechanism = CovarianceMechanism(clipping=clipping, epsilon=1.0, delta=1e-8)
    release = mechanism.publish(rows(10**4), random_state=1)
    assert (
        release.guarantee.mu
        <= mechanism.budget["mu"]
        == pytest.approx(release.guarantee.mu, rel=1e-9)
    )
    assert mechanism.guarantee(10**4, P).mu == pytest.approx(release.guarantee.mu)
    error = np.sqrt(release.sampling_error().correlation_variance(release.matrix))
    away = np.abs(correlation(release) - CHAIN)
    assert (away <= 5 * error + 1e-12).all() and away.max() < 0.05
    assert np.abs(release.location / UNITS - 1e4).max() < 0.3
    assert np.abs(np.log(np.diag(release.matrix)) / 2 - np.log(UNITS)).max() < 0.7
    assert len(PrivateGraphicalLasso(0.1).fit(release).edges_) >= P - 1


@pytest.mark.parametrize("clipping", [None, "sphere"])
@pytest.mark.parametrize("n, epsilon", [(3000, 1.0), (10**4, 0.5)])
def test_a_plan_is_within_a_fifth_of_what_happens(n, epsilon, clipping):
    mechanism = CovarianceMechanism(clipping=clipping, epsilon=epsilon, delta=n**-2.0)
    planned = mechanism.sampling_error(CHAIN * np.outer(UNITS, UNITS), n)
    above = np.triu_indices(P, 1)
    stated = np.sqrt(planned.correlation_variance(CHAIN * np.outer(UNITS, UNITS)))
    error = [
        (correlation(mechanism.publish(rows(n, seed), seed)) - CHAIN)[above]
        for seed in range(40)
    ]
    # 600 errors, in rows of 15 that are nearly independent: 5 % of the root square
    ratio = math.sqrt(np.mean(np.square(error)) / np.mean(stated[above] ** 2))
    assert 0.8 < ratio < 1.2


@pytest.mark.parametrize("clipping", [None, "sphere"])
@pytest.mark.parametrize(
    "margin",
    [np.exp, np.tan, np.rint, lambda z: z + 1e4 * (np.abs(z) > 2.3), np.sort],
    ids=["lognormal", "wild", "integers", "outliers", "sorted"],
)
def test_one_odd_column_does_not_lose_the_others(margin, clipping):
    table = rows(10**4)
    odd = margin(table["c"].to_numpy() / UNITS[2] - 1e4)
    mechanism = CovarianceMechanism(clipping=clipping, epsilon=1.0, delta=1e-8)
    release = mechanism.publish(table.assign(c=odd), random_state=2)
    others = [j for j, name in enumerate(release.columns) if name != "c"]
    kept = [NAMES.index(release.columns[j]) for j in others]
    found = correlation(release)[np.ix_(others, others)]
    assert np.abs(found - CHAIN[np.ix_(kept, kept)]).max() < 0.08


def test_columns_without_a_unit_are_set_aside_and_said():
    table = rows(10**4).assign(c=7.0, e=0.0)
    mechanism = CovarianceMechanism(clipping="sphere", epsilon=1.0, delta=1e-8)
    release = mechanism.publish(table, 3)
    assert set(release.set_aside) == {"c", "e"} and release.columns == list("abdf")
    assert "set aside" in str(release) and correlation(release).shape == (4, 4)
    promised = mechanism.guarantee(10**4, P).mu
    assert release.guarantee.mu == pytest.approx(promised)


def test_units_beyond_fourth_powers_are_set_aside():
    table = rows(10**4).assign(c=rows(10**4)["c"] * 1e150)
    mechanism = CovarianceMechanism(clipping="sphere", epsilon=1.0, delta=1e-8)
    release = mechanism.publish(table, 3)
    assert release.set_aside == {"c": TOO_EXTREME}
    assert np.isfinite(release.matrix_noise_variance).all()


def test_nothing_but_constants_is_said_in_one_sentence():
    mechanism = CovarianceMechanism(clipping="sphere", mu=1.0)
    with pytest.raises(UnitsError, match="The budget is spent"):
        mechanism.publish(np.full((5000, 2), 3.0), random_state=0)


def test_in_a_ball_the_noise_is_that_of_the_sums_and_on_a_sphere_that_of_a_shape():
    ball = row_lattice(1000, 3, 1.0, Ball(2.0), mean=0.0)
    sums = ball.product_noise() * (1 + np.eye(3))
    assert np.allclose(rows_noise(ball, np.eye(3) / 9, np.zeros(3)), sums, rtol=1e-12)
    sphere = row_lattice(1000, 3, 1.0, Sphere(), mean=0.0)
    apart = rows_noise(sphere, np.eye(3), np.zeros(3))
    assert not np.allclose(apart, sphere.product_noise() * (1 + np.eye(3)), rtol=0.1)
    assert joint_constant(0.19, 20.0) ** 2 == pytest.approx(20 / 9)


def test_a_budget_says_why_nothing_was_published(tmp_path):
    budget = Budget.create(tmp_path / "b.json", Guarantee(2.0, "record"))
    constant, path = pd.DataFrame({"one": np.ones(5000)}), tmp_path / "r.parquet"
    mechanism = CovarianceMechanism(clipping="sphere", mu=1.0)
    with pytest.raises(ChargedError, match="WAS CHARGED .*no column's unit was found"):
        budget.publish(mechanism, constant, path, label="one")
    assert budget.spent().mu == pytest.approx(1.0) and not path.exists()


@pytest.mark.parametrize("clipping", [None, "sphere"])
def test_missing_cells_are_refused_unless_a_rule_is_chosen(clipping):
    table = rows(10**4)
    gaps = np.random.default_rng(5).random(table.shape) < 0.1
    table = table.mask(gaps)
    with pytest.raises(InputError, match="NaN"):
        CovarianceMechanism(clipping=clipping, mu=1.0).publish(table)
    options = dict(epsilon=1.0, delta=1e-8, missing="center")
    mechanism = CovarianceMechanism(clipping=clipping, **options)
    release = mechanism.publish(table, random_state=1)
    # correlations shrink by about the share of cells that are there
    assert np.abs(correlation(release) - (0.9 * CHAIN + 0.1 * np.eye(P))).max() < 0.06
    with pytest.raises(InputError, match="^missing="):
        CovarianceMechanism((0, 1), mu=1.0, missing="center", clipping="box")


def test_a_unit_far_too_small_does_not_pass_for_a_result():
    wrong = Sphere(np.where(UNITS == UNITS[2], UNITS * 1e-3, UNITS), 1e4 * UNITS)
    release = CovarianceMechanism(clipping=wrong, mu=1.0).publish(rows(5000), 1)
    with pytest.raises(CovarianceError, match="'c'.*hide all other"):
        release.corrected_covariance()


@pytest.mark.parametrize(
    "mechanism",
    [
        CovarianceMechanism(mu=1.0),
        CovarianceMechanism(clipping="sphere", mu=1.0),
        CovarianceMechanism(clipping=Sphere(UNITS, 1e4 * UNITS), mu=1.0),
        CovarianceMechanism(clipping=Ball(3.0, UNITS, 1e4 * UNITS), mu=1.0),
        CovarianceMechanism(clipping=Sphere(UNITS), mu=1.0, mean_share=0),
    ],
)
def test_files_there_and_back(mechanism, tmp_path):
    release = mechanism.publish(rows(3000), random_state=4)
    release.to_parquet(tmp_path / "r.parquet")
    again = read_release(tmp_path / "r.parquet")
    assert type(again) is type(release) and again.guarantee == release.guarantee
    assert np.array_equal(again.matrix, release.matrix) and str(again) == str(release)


def tampered(release, path, change):
    "A file with its metadata changed, and a checksum that fits them."
    import json

    import pyarrow.parquet as pq

    from privglasso.publish.parquet import METADATA_KEY, sealed

    release.to_parquet(path, replace=True)
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])
    change(metadata)
    table = stored.to_pandas(ignore_metadata=True)
    pq.write_table(stored.replace_schema_metadata(sealed(metadata, table)), path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["lattice"].update(scale=[0.0] * P),
        lambda m: m["lattice"].update(scale=[1.0] * (P - 1)),
        lambda m: m["lattice"].update(sigma=[2 * s for s in m["lattice"]["sigma"]]),
        lambda m: m["lattice"].update(sigma=m["lattice"]["sigma"][::-1]),
        lambda m: m["lattice"].update(radius=1.0),
        lambda m: m["lattice"].update(constant=0),
        lambda m: m["lattice"].update(normalised="yes"),
        lambda m: m["lattice"].update(steps=7),
        lambda m: m["units"]["sigma"].update(near=1e9),
        lambda m: m["units"].update(n=17),
        lambda m: m.update(units=None),
        lambda m: m.update(set_aside={"z": "because"}),
        lambda m: m.update(all_columns=[*m["all_columns"], "z"]),
        lambda m: m.update(
            all_columns=[*m["all_columns"], "z"], set_aside={"z": "\x1b[31m trust me"}
        ),
        lambda m: m.update(mu=m["mu"] / 2),
        lambda m: m.update(total=None),
        lambda m: m.update(total=[2**60] * P),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change, tmp_path):
    release = CovarianceMechanism(clipping="sphere", mu=1.0).publish(rows(3000), 4)
    tampered(release, tmp_path / "r.parquet", change)
    with pytest.raises(ReleaseError):
        read_release(tmp_path / "r.parquet")


@pytest.mark.long
def test_the_extremal_pair_is_hidden_and_seven_tenths_of_the_noise_do_not_hide_it():
    X = np.tile([[2.0, 0.0]], (40, 1))
    Y = X.copy()
    Y[0] = [-1.0, math.sqrt(3.0)]  # on the circle, at an inner product of -1
    mechanism = CovarianceMechanism(clipping=Sphere(), mu=2.0)

    def too_little(table, generator):
        release = mechanism.publish(table, random_state=generator)
        exact = CovarianceMechanism(clipping=Sphere(), mu=2e4).publish(table, 0)
        for name in ("second_moment", "total"):
            exact_sum = (
                getattr(exact, name)
                * (release.lattice.steps / exact.lattice.steps) ** 2
            )
            noise = getattr(release, name) - exact_sum
            object.__setattr__(release, name, exact_sum + 0.7 * noise)
        return release

    statistic = mechanism.likelihood_statistic(X, Y)
    options = {"trials": 1500, "confidence": 0.999, "random_state": 1}
    kept = audit(mechanism, X, Y, statistic, **options)
    assert not kept.refuted and kept.mu_lower > 1.5
    broken = audit(too_little, X, Y, statistic, claimed=2.0, **options)
    assert broken.refuted


def test_a_changed_table_that_looks_the_same_is_not_audited():
    X = np.ones((5, 2))
    Y = 2 * X  # another length, the same direction
    mechanism = CovarianceMechanism(clipping=Sphere(), mu=1.0)
    with pytest.raises(InputError):
        mechanism.likelihood_statistic(X, Y)


@pytest.mark.parametrize("clipping", [None, "sphere"])
def test_shapes_of_hardly_any_information(clipping):
    assert shape_behind([[3.0]]).matrix.tolist() == [[1.0]]
    one = CovarianceMechanism(clipping=clipping, mu=1.0).publish(
        np.random.default_rng(0).normal(size=(3000, 1)), 1
    )
    assert one.corrected_covariance().shape == (1, 1)
    noise = np.random.default_rng(1).normal(size=(30, 30))
    wild = shape_behind(np.eye(30) + noise + noise.T)
    assert np.isfinite(wild.matrix).all() and math.isclose(np.trace(wild.matrix), 30)
