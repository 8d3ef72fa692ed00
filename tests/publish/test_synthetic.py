"""Synthetic rows: what they promise, what they carry, and too few records."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import sample_gaussian, tridiagonal_precision
from privglasso.privacy.accounting import privacy_losses
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.noise_correction import CovarianceError, sample_covariance
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.recover.estimators import PrivateGraphicalLasso

THETA = tridiagonal_precision(4, 0.4)
TABLE = pd.DataFrame(sample_gaussian(THETA, 4000, random_state=0), columns=list("abcd"))


def published(table=TABLE, seed=1, **options):
    "A release with a seed."
    return SyntheticDataMechanism(
        (-6, 6), **({"mu": 1.0} | options), clipping="box"
    ).publish(table, random_state=seed)


def noise_table(n, p, seed=0):
    "Independent standard normal columns."
    return np.random.default_rng(seed).normal(size=(n, p))


# ------------------------------------------------------------ what it is


def test_shape_names_and_promise():
    release = published()
    assert (release.n, release.columns, release.covariance_release.n) == (
        4000,
        list("abcd"),
        4000,
    )
    assert release.guarantee == CovarianceMechanism(
        (-6, 6), mu=1.0, clipping="box"
    ).guarantee(4000, 4)
    assert release.guarantee == release.covariance_release.guarantee
    assert release.mechanism == "SyntheticDataMechanism" and not release.secure
    assert release.noise_variance.tolist() == [0.0] * 4 and release.table.index.equals(
        pd.RangeIndex(4000)
    )


def test_more_rows_promise_the_same():
    many, few = published(rows=20_000), published(rows=2)
    assert (many.n, few.n) == (20_000, 2) and many.guarantee == few.guarantee
    assert np.array_equal(
        many.covariance_release.second_moment, few.covariance_release.second_moment
    )


def test_the_noise_is_that_of_the_covariance_mechanism():
    "Same seed, same source of bits, same noise: the rows come after it."
    alone = CovarianceMechanism((-6, 6), mu=1.0, clipping="box").publish(
        TABLE, random_state=1
    )
    assert np.array_equal(
        published().covariance_release.second_moment, alone.second_moment
    )
    assert np.array_equal(published().covariance_release.total, alone.total)


def test_rows_depend_on_the_private_moments_alone():
    "The drawing sees nothing but the private moments."
    shuffled = TABLE.sample(frac=1, random_state=0)
    assert published(shuffled).table.equals(published().table)


def test_rows_have_the_private_moments():
    "Standardised errors, 14 of them: above 5.5 once in a million."
    release = published(rows=200_000)
    P, m = release.drawn_covariance, release.n
    mean_errors = (
        release.table.mean() - release.covariance_release.location
    ) / np.sqrt(np.diag(P) / m)
    errors = (sample_covariance(release.table) - P) / np.sqrt(
        (np.outer(np.diag(P), np.diag(P)) + P**2) / m
    )
    assert np.abs(mean_errors).max() < 5.5 and np.abs(errors).max() < 5.5
    assert not release.projection.any() and np.array_equal(
        P, release.covariance_release.matrix
    )


def test_rows_are_not_clipped():
    narrow = SyntheticDataMechanism(
        (-1, 1), mu=1.0, rows=50_000, clipping="box"
    ).publish(TABLE, random_state=0)
    assert np.abs(narrow.table.to_numpy()).max() > 2 and "real" in str(narrow)


def test_without_a_mean_rows_lie_about_the_public_centre():
    release = SyntheticDataMechanism(
        (0, 10), mu=1.0, mean_share=0, clipping="box"
    ).publish(noise_table(3000, 2) + 5, random_state=0)
    assert release.covariance_release.location.tolist() == [5.0, 5.0]
    assert (np.abs(release.table.mean() - 5) < 0.2).all()


@pytest.mark.parametrize(
    "options",
    [
        {"norm_bound": 8.0},
        {"bounds": (-6, 6), "clipping": "box", "neighbors": "cell"},
        {"bounds": (-6, 6), "clipping": "box", "noise": "upper"},
        {"norm_bound": 8.0, "noise": "upper"},
    ],
)
def test_every_way_of_clipping(options):
    release = SyntheticDataMechanism(mu=2.0, **options).publish(TABLE, random_state=3)
    error = release.sampling_error().covariance_variance() ** 0.5
    assert (
        np.abs(release.corrected_covariance() - np.linalg.inv(THETA)) < 6 * error
    ).all()


@given(
    p=st.integers(1, 8),
    n=st.integers(2, 300),
    mu=st.floats(0.05, 5.0),
    seed=st.integers(0, 10**6),
    ball=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_what_is_drawn_is_positive_definite_and_not_less_than_the_private(
    p, n, mu, seed, ball
):
    box = {"bounds": (-4, 4), "clipping": "box"}
    clipping = {"norm_bound": 4.0} if ball else box
    release = SyntheticDataMechanism(**clipping, mu=mu, rows=5).publish(
        noise_table(n, p, seed), random_state=seed
    )
    drawn, added = release.drawn_covariance, release.projection
    least = np.linalg.eigvalsh(drawn)[0]
    assert least > 0 and np.linalg.eigvalsh(added)[0] >= -1e-9 * np.abs(added).max(
        initial=1
    )
    floor = np.sqrt(release.covariance_release.lattice.second_moment_noise().min())
    assert least >= floor * (
        1 - 1e-6
    )  # all half-ranges are 4 here, so data units are a multiple of the lattice's
    assert np.isfinite(release.table.to_numpy()).all() and str(release)


def test_units_do_not_matter():
    units = np.array([1.0, 2.0**10, 2.0**-10])
    table, limit = noise_table(10, 3), np.full(3, 4.0)
    plain = SyntheticDataMechanism((-limit, limit), mu=1.0, clipping="box").publish(
        table, random_state=5
    )
    scaled = SyntheticDataMechanism(
        (-limit * units, limit * units), mu=1.0, clipping="box"
    ).publish(table * units, random_state=5)
    assert plain.projection.any()
    assert scaled.projection == pytest.approx(
        plain.projection * np.outer(units, units), rel=1e-6, abs=1e-12
    )
    assert np.abs(scaled.table.to_numpy() / units - plain.table.to_numpy()).max() < 1e-6


# ----------------------------------------------- what it may be used for


def test_the_error_has_people_rows_and_noise():
    release = published(rows=500)
    error, people = (
        release.sampling_error(),
        release.covariance_release.sampling_error(),
    )
    assert [n for _, n in error.parts] == [4000, 500] and np.array_equal(
        error.noise, people.noise
    )
    P = release.drawn_covariance
    drawing = (np.outer(np.diag(P), np.diag(P)) + P**2) / 500
    assert error.covariance_variance() == pytest.approx(
        people.covariance_variance() + drawing
    )


def test_the_error_is_known_beforehand():
    Sigma = np.linalg.inv(THETA)
    for rows in (None, 500):
        mechanism = SyntheticDataMechanism((-6, 6), mu=1.0, rows=rows, clipping="box")
        planned = mechanism.sampling_error(Sigma, 4000)
        assert [n for _, n in planned.parts] == [4000, rows or 4000]
        found = mechanism.publish(TABLE, random_state=0).sampling_error()
        assert found.covariance_variance() == pytest.approx(
            planned.covariance_variance(), rel=0.25
        )
        away = mechanism.sampling_error(Sigma, 4000, location=5.0)
        assert (away.noise > planned.noise).all()


def test_rows_say_in_which_columns_numbers_stand_for_gaps(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(50, 9, (9000, 3)), columns=[*"abc"])
    table["c"] = table.c.where(rng.random(9000) < 0.25)
    mechanism = SyntheticDataMechanism(missing="center", mu=1.0, rows=4000)
    release = mechanism.publish(table, random_state=0)
    release.to_parquet(tmp_path / "rows.parquet")
    for each in (release, read_release(tmp_path / "rows.parquet")):
        assert "A number of c does not stand for a value" in str(each)
        assert each.mostly_missing == ["c"]
        assert each.table.c.mean() == pytest.approx(0.25, abs=0.05)
        assert each.table.c.std() == pytest.approx(math.sqrt(0.25 * 0.75), abs=0.05)
        assert each.table.notna().all(axis=None)
    whole = mechanism.publish(table[["a", "b"]], random_state=0)
    assert "does not stand for a value" not in str(whole)


def test_jitter_of_rare_values_is_not_taken_for_knowledge():
    """Two unrelated columns of which hardly any cell is not 0: what is known of their
    correlation is known from few people, and no edge is drawn in sixteen releases."""
    mechanism, edges = SyntheticDataMechanism(mu=30.0), 0
    for seed in range(16):
        rng = np.random.default_rng(seed)
        table = rng.random((10_000, 8)) < [0.02, 0.03, 0.02, 0.03, 0.5, 0.5, 0.5, 0.5]
        release = mechanism.publish(table.astype(float), random_state=seed)
        edges += len(PrivateGraphicalLasso().fit(release).edges_) > 0
    assert edges <= 3  # of 16 at 5 %, more with probability 0.007


def test_estimators_take_it_rightly():
    release = published(rows=40_000)
    model = PrivateGraphicalLasso(0.1).fit(release)
    assert list(model.feature_names_in_) == list("abcd")
    assert model.corrected_covariance_ == pytest.approx(release.corrected_covariance())
    assert (model.precision_[THETA != 0] != 0).all() and model.precision_[0, 3] == 0


def test_a_lost_column_is_named():
    lost = published(noise_table(3, 6), mu=0.1, seed=0)
    with pytest.raises(CovarianceError, match="added by the projection"):
        lost.corrected_covariance()


def test_budget_and_accounts_take_it(tmp_path):
    budget = Budget.create(tmp_path / "b.json", Guarantee(1.0, "record"))
    mechanism = SyntheticDataMechanism((-6, 6), mu=0.8, clipping="box")
    release = budget.publish(mechanism, TABLE, tmp_path / "rows.parquet", label="rows")
    assert release.secure and budget.spent().mu == pytest.approx(release.guarantee.mu)
    assert not budget.allows(mechanism.guarantee(4000, 4))
    (loss,) = privacy_losses(
        release, release.covariance_release
    )  # counted twice: the rows are the moments' own
    assert loss.mu == pytest.approx(2**0.5 * release.guarantee.mu)


def test_a_cell_of_a_covariance_is_charged_to_its_record_by_the_lattice(tmp_path):
    both = Budget.create(
        tmp_path / "b.json", Guarantee(5.0, "record"), Guarantee(1.0, "cell")
    )
    mechanism = SyntheticDataMechanism(
        (-6, 6), neighbors="cell", mu=0.5, clipping="box"
    )
    both.publish(mechanism, TABLE, tmp_path / "rows.parquet", label="rows")
    assert both.spent("record").mu == pytest.approx(
        mechanism.lattice(4000, 4).guarantee("record").mu
    )
    assert both.spent("record").mu < 4 * 0.5


# ---------------------------------------------------------- what it says


def test_too_few_records_are_said():
    release = published(noise_table(10, 6))
    assert "of 6 directions had less variance than the noise" in str(release)
    assert "% of the rows' variance" in str(release)
    assert np.linalg.eigvalsh(release.covariance_release.matrix)[0] < 0
    assert np.linalg.eigvalsh(release.drawn_covariance)[
        0
    ] > 0 and release.table.shape == (10, 6)


def test_the_statement_follows_from_the_private_matrix_alone():
    one, other = published(noise_table(10, 6)), published(noise_table(10, 6), rows=77)
    assert (
        str(one).partition("The private")[2] == str(other).partition("The private")[2]
    )


# ------------------------------------------------------------- bad input


def test_impossible_rows_are_refused():
    for rows in [1, 2.5, True, "10"]:
        with pytest.raises(InputError, match="rows="):
            SyntheticDataMechanism((-6, 6), mu=1.0, rows=rows, clipping="box")
