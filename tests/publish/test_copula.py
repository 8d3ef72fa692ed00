"""Rows with margins: the promise, awkward columns, files, and what a stranger sees."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.audit import audit
from privglasso.publish import copula
from privglasso.publish.copula import CopulaMechanism, Margins, bin_counts
from privglasso.publish.copula import margin_level
from privglasso.publish.files import read_release
from privglasso.publish.parquet import METADATA_KEY, ReleaseError, sealed
from privglasso.publish.shape import UnitsError
from privglasso.recover.estimators import PrivateGraphicalLasso


def people(n=4000, seed=0):
    "A normal column far from 0, counts, a heavy tail, and an indicator."
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal(np.zeros(4), 0.5 + 0.5 * np.eye(4), size=n)
    return pd.DataFrame(
        {
            "normal": 5e6 + 1e-3 * z[:, 0],
            "counts": rng.poisson(np.exp(1 + 0.5 * z[:, 1])),
            "heavy": np.sinh(3 * z[:, 2]),
            "smoker": (z[:, 3] > 0).astype(int),
        }
    )


def published(seed=1, table=None, **options):
    "A release with a seed."
    options = {"whole": ["counts", "smoker"], "mu": 1.0} | options
    table = people() if table is None else table
    return CopulaMechanism(**options).publish(table, random_state=seed)


@pytest.mark.parametrize("mu", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("neighbors", ["record", "cell"])
def test_the_promise_is_kept_whatever_the_columns(mu, neighbors):
    mechanism = CopulaMechanism(mu=mu, neighbors=neighbors)
    stated = mechanism.guarantee(4000, 4)
    release = mechanism.publish(people(), random_state=0)
    assert stated.mu <= mu and release.guarantee.mu <= mu
    assert mu > 2 or neighbors == "cell" or stated.mu > mu * (1 - 1e-9)
    assert stated.neighbors == neighbors == release.guarantee.neighbors


def test_the_noise_on_the_counts_is_what_is_stated():
    table, level = people(), CopulaMechanism(mu=1.0).lattice(4000, 4).margins
    noise = []
    for seed in range(20):
        margins = published(seed, table).margins
        exact = bin_counts(table.to_numpy(float), margins.center, margins.scale)
        noise.append(margins.counts - exact)
    ratio = np.var(noise) / level.sigma**2
    assert margins.sigma == level.sigma and abs(ratio - 1) < 0.05


def test_rows_look_like_their_columns():
    table, release = people(20_000), published(table=people(20_000), rows=5000)
    rows = release.table
    assert rows.shape == (5000, 4) and release.n == 20_000
    assert (rows[["counts", "smoker"]] % 1 == 0).all(axis=None)
    assert set(rows["smoker"]) == {0.0, 1.0} and rows["counts"].min() >= 0
    for name in table:
        quantiles = [0.2, 0.5, 0.8]
        shares = [(table[name] <= q).mean() for q in rows[name].quantile(quantiles)]
        below = [(table[name] < q).mean() for q in rows[name].quantile(quantiles)]
        assert (np.array(shares) > np.array(quantiles) - 0.04).all()
        assert (np.array(below) < np.array(quantiles) + 0.04).all()


def test_an_estimator_reads_the_correlations_not_the_rows():
    few, many = (published(rows=rows) for rows in (2, 4000))
    assert np.array_equal(few.corrected_covariance(), many.corrected_covariance())
    models = [PrivateGraphicalLasso(0.1).fit(x) for x in (few, many)]
    np.testing.assert_allclose(models[0].precision_, models[1].precision_)
    away = few.corrected_covariance()[0, 2] - 0.5
    assert abs(away) < 5 * np.sqrt(few.sampling_error().covariance_variance()[0, 2])


def test_columns_without_a_unit_are_set_aside_and_named():
    table = people().assign(constant=7.0, rare=0)
    table.loc[3, "rare"] = 1
    release = published(table=table)
    assert set(release.set_aside) == {"constant", "rare"}
    assert "constant, rare" in str(release) and list(release.table) == list(people())
    with pytest.raises(UnitsError):
        published(table=table[["constant", "normal", "rare"]], whole=())


def test_margins_lead_there_and_back():
    rng = np.random.default_rng(0)
    unit = np.zeros(2), np.ones(2)
    values = np.column_stack([rng.normal(size=9999), rng.poisson(50, 9999) / 10])
    counts = bin_counts(values, *unit)
    margins = Margins(counts, *unit, np.array([False, True]), 9999, 1.0)
    cells = margins.cells(rng.normal(size=(500, 2)))
    again = margins.cells(margins.scores(cells))
    np.testing.assert_allclose(again, cells, atol=1e-9)
    assert bin_counts(np.array([[1e308, -1e308]]), *unit)[:, [-1, 0]].tolist() == [
        [1, 0],
        [0, 1],
    ]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"whole": "counts"}, "whole"),
        ({"whole": ["nobody"]}, "whole"),
        ({"margin_share": 1.0}, "margin_share"),
        ({"rows": 1}, "rows"),
        ({"mu": 1e-4}, "mu"),
    ],
)
def test_careless_settings_are_refused(options, argument):
    with pytest.raises(InputError) as error:
        published(**options)
    assert error.value.argument == argument


def test_missing_cells_are_refused_before_anything_is_paid():
    table = people()
    table.loc[0, "heavy"] = np.nan
    with pytest.raises(InputError):
        CopulaMechanism(mu=1.0).check(table)


def test_the_log_ratio_of_two_tables_turns_round_with_them():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3)).cumsum(axis=1)
    other = X.copy()
    other[0] = [9.0, -9.0, 9.0]
    mechanism = CopulaMechanism(mu=2.0)
    release = mechanism.publish(X, random_state=1)
    one = mechanism.likelihood_statistic(X, other)(release)
    assert one == pytest.approx(-mechanism.likelihood_statistic(other, X)(release))
    assert one != 0
    # the order of the records is secret: it says nothing
    mixed = rng.permutation(other)
    assert one == pytest.approx(mechanism.likelihood_statistic(X, mixed)(release))


@pytest.mark.long
def test_an_audit_sees_that_margins_have_no_noise(monkeypatch):
    """Counts without noise tell the two tables apart in every run. The whole ratio,
    into which the noise of the ranks enters, does not show it; its parts do."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1500, 2))
    other = X.copy()
    X[0], other[0] = (-3.0, 3.0), (3.0, 3.0)
    mechanism = CopulaMechanism(rows=2, mu=1.0)
    whole = mechanism.likelihood_statistic(X, other)
    settings = {"trials": 60, "confidence": 0.99, "random_state": 0}
    assert not audit(mechanism, X, other, **settings).refuted

    def without_noise(values, center, scale, whole, sigma, bits):
        return Margins(
            bin_counts(values, center, scale), center, scale, whole, len(values), sigma
        )

    monkeypatch.setattr(copula, "_noisy_margins", without_noise)
    assert audit(mechanism, X, other, **settings).refuted
    assert not audit(mechanism, X, other, whole, **settings).refuted


# ------------------------------------------------------------ files


@pytest.mark.parametrize("rows", [2, 50, None])
@pytest.mark.parametrize("seed", range(5))
def test_honest_files_come_back_as_they_were(rows, seed, tmp_path):
    release = published(seed, rows=rows, whole=["counts"] if seed % 2 else [])
    release.to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert type(back) is type(release) and str(back) == str(release)
    assert back.table.equals(release.table) and back.guarantee == release.guarantee
    assert np.array_equal(back.corrected_covariance(), release.corrected_covariance())


def double(entry):
    "Twice the number or numbers."
    return (2 * np.array(entry)).tolist()


def change(part, name, new):
    "A function that changes one entry of a file's metadata."

    def apply(metadata, table):
        metadata[part][name] = new(metadata[part][name])

    return apply


TAMPERED = {
    "noise": change("margins", "sigma", lambda sigma: 1.1 * sigma),
    "no noise": change("margins", "sigma", lambda sigma: 0.1),
    "counts": change("margins", "counts", double),
    "scale": change("margins", "scale", double),
    "no scale": change("margins", "scale", lambda scale: [0.0] * len(scale)),
    "center": change("margins", "center", lambda center: [1e300] * len(center)),
    "whole": change("margins", "whole", lambda whole: [True] * len(whole)),
    "words": change("margins", "whole", lambda whole: ["yes"] * len(whole)),
    "ranks": change("ranks", "counts", double),
    "another field": lambda metadata, table: metadata["margins"].update(x=1),
    "units": change("units", "n", lambda n: n + 1),
    "a cell": lambda metadata, table: table.__setitem__("heavy", 1e9),
    "shuffled": lambda metadata, table: table.__setitem__(
        "heavy", np.sort(table["heavy"])[::-1]
    ),
    "turned round": lambda metadata, table: table.__setitem__(
        "normal", table["normal"].to_numpy()[::-1]
    ),
}


@pytest.mark.parametrize("fault", TAMPERED)
def test_tampered_files_are_refused(fault, tmp_path):
    path = tmp_path / "r.parquet"
    published().to_parquet(path)
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])
    table = stored.to_pandas(ignore_metadata=True)
    TAMPERED[fault](metadata, table)
    again = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(again.replace_schema_metadata(sealed(metadata, table)), path)
    with pytest.raises(ReleaseError):
        read_release(path)


def test_margins_have_the_least_noise_for_which_their_promise_is_proved():
    assert margin_level(2, 100.0).sigma == 1.0 < margin_level(2, 1.0).sigma
