"""What all releases and mechanisms share: settings, promises, sources of bits."""

import math

import numpy as np
import pandas as pd
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.gdp import mu_gdp
from privglasso.privacy.guarantee import Guarantee, NoGuarantee
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.local import LocalMechanism
from privglasso.publish.noise_correction import CovarianceError, SamplingError
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.mechanism import check_bounds, check_budget, check_neighbors
from privglasso.publish.sphere import Sphere
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.recover.estimators import PrivateGraphicalLasso

TABLE = pd.DataFrame({"a": [5, 15, 20, 1], "b": [3.0, 4.0, 5.0, 6.0]})
KINDS = {
    "table": lambda **budget: GaussianMechanism(([0, 0], [20, 10]), **budget),
    "integers": lambda **budget: DiscreteGaussianMechanism((0, 20), **budget),
    "covariance": lambda **budget: CovarianceMechanism(
        (0, 20), **budget, clipping="box"
    ),
    "local": lambda **budget: LocalMechanism(9.0, center=[10, 5], **budget),
    "synthetic": lambda **budget: SyntheticDataMechanism(
        (0, 20), **budget, clipping="box"
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def numbers(release):
    "What was released."
    return (
        release.table.to_numpy() if hasattr(release, "table") else release.second_moment
    )


# ---------------------------------------------------------------------- promises


@every_kind
def test_epsilon_and_delta_are_met_exactly_or_from_below(kind):
    for epsilon, delta in ((0.1, 1e-12), (8.0, 1e-4)):
        mechanism = kind(epsilon=epsilon, delta=delta)
        guarantee = mechanism.guarantee(100, 2)
        assert mechanism.budget == {"mu": mu_gdp(epsilon, delta)}
        assert guarantee.epsilon(delta) <= epsilon * (1 + 1e-9)
        assert guarantee.delta(epsilon) <= delta * (1 + 1e-7)
        assert guarantee.epsilon(delta) > 0.98 * epsilon


@every_kind
def test_both_relations_are_answered_the_own_one_first(kind):
    own, other = kind(mu=1.0).guarantees(100, 2)
    assert (own.neighbors, other.neighbors) == ("record", "cell")
    assert own == kind(mu=1.0).guarantee(100, 2) and other.mu <= own.mu


@every_kind
def test_the_source_of_bits_is_said(kind):
    mechanism = kind(mu=1.0)
    one, two = mechanism.publish(TABLE), mechanism.publish(TABLE)
    assert one.secure and not np.array_equal(numbers(one), numbers(two))
    seeded = mechanism.publish(TABLE, random_state=1)
    assert not seeded.secure and "publication" in str(seeded)
    again, other = (mechanism.publish(TABLE, random_state=k) for k in (1, 2))
    assert np.array_equal(numbers(seeded), numbers(again))
    assert not np.array_equal(numbers(seeded), numbers(other))
    generator = np.random.default_rng(3)  # moves on
    first, second = (mechanism.publish(TABLE, generator) for _ in range(2))
    assert not np.array_equal(numbers(first), numbers(second))


@every_kind
def test_row_labels_and_attributes_stay_at_home(kind):
    named = TABLE.set_index(pd.Index(["Ann", "Bob", "Cid", "Dot"], name="person"))
    named.attrs["owner"] = "Eve"
    kind, table, settings = kind(mu=1.0).publish(named)._contents()
    assert list(table.columns) == ["a", "b"] and table.attrs == {}
    assert isinstance(table.index, pd.RangeIndex) and table.index.name is None
    assert not any(name in str(settings) for name in ("Ann", "person", "Eve"))


@every_kind
def test_the_same_table_in_any_dress(kind):
    values = TABLE.to_numpy()
    frozen = values.copy()
    frozen.setflags(write=False)
    plain = numbers(kind(mu=1.0).publish(TABLE, 4))
    for X in (
        np.asfortranarray(values),
        frozen[::-1][::-1],
        np.repeat(values, 2, 1)[:, ::2],
        values.tolist(),
    ):
        release = kind(mu=1.0).publish(X, 4)
        assert release.columns == ["x0", "x1"]
        assert np.array_equal(numbers(release), plain)


@every_kind
def test_a_constant_column_is_published_like_any_other(kind):
    "Refusing it would tell a secret that depends on the values."
    kind(mu=1.0).publish(np.ones((5, 2)))


def test_no_guarantee_promises_nothing():
    nothing = NoGuarantee("σ was read from the data", Guarantee(1.0, "cell"))
    assert nothing.epsilon(1e-9) == math.inf and nothing.mu == math.inf
    assert nothing.delta(50) == 1 and nothing.tradeoff(0.1) == 0
    assert nothing.compose(Guarantee(1.0, "cell")) is nothing


def test_guarantees_compose_only_for_one_relation():
    first, second = Guarantee(3.0, "record"), Guarantee(4.0, "record")
    assert first.compose(second) == Guarantee(5.0, "record")
    with pytest.raises(InputError, match="other="):
        first.compose(Guarantee(1.0, "cell"))


def test_no_promise_is_rounded_to_certainty_or_to_nothing():
    assert "100 %" in str(Guarantee(50.0, "cell"))
    assert "5.1 %" in str(Guarantee(1e-3, "cell"))
    assert "μ = 0" in str(Guarantee(0.0, "cell"))
    assert "μ = 4.941e-324" in str(Guarantee(5e-324, "cell"))
    assert Guarantee(1.0, "cell").delta(100.0) > 0
    assert Guarantee(0.0, "cell").delta(100.0) == 0


def test_a_guarantee_of_no_number_is_refused():
    for mu in [-1, math.nan, math.inf, 1e101, "1", None, True]:
        with pytest.raises(InputError, match="mu="):
            Guarantee(mu, "cell")


# ---------------------------------------------------------------------- bad input


@pytest.mark.filterwarnings("error")
def test_bad_bounds():
    for bounds in [
        None,
        3,
        (1,),
        (1, 1),
        (2, 1),
        (0, np.nan),
        (0, np.inf),
        ("low", "high"),
        (None, 1),
        ([0, 0], [1, 0]),
        ([0, 0], [1, 1, 1]),
        {"low": 0, "high": 1},
        {0, 1},
        {0: 0, 1: 1},
        "ab",
        iter(()),
        (-1e308, 1e308),
        (0, 1e101),
        (0, 1e-101),
    ]:
        with pytest.raises(InputError, match="bounds="):
            check_bounds(bounds)


def test_bad_budgets():
    for budget, named in [
        ({}, "budget="),
        ({"mu": 1, "epsilon": 1, "delta": 0.1}, "budget="),
        ({"mu": 1, "sigma": 1}, "budget="),
        ({"delta": 0.1}, "budget="),
        ({"mu": 1, "delta": 0.1}, "budget="),
        *(({"mu": bad}, "mu=") for bad in (0, -1, math.inf, "1", 9e-101, 1.1e100)),
        ({"epsilon": 0, "delta": 0.1}, "epsilon="),
        *(({"epsilon": 1, "delta": bad}, "delta=") for bad in (0, 1, -0.1)),
        *(({"sigma": bad}, "sigma=") for bad in (0, [1, -1], math.nan)),
    ]:
        with pytest.raises(InputError, match=f"^{named}"):
            check_budget(**budget)


def test_bad_neighbors():
    for neighbors in ["row", None, ["record"]]:
        with pytest.raises(InputError, match="neighbors="):
            check_neighbors(neighbors)
        with pytest.raises(InputError, match="neighbors="):
            Guarantee(1.0, neighbors)


BAD_TABLES = [
    [[1.0, np.nan], [0, 0]],
    [[1.0, np.inf], [0, 0]],
    pd.DataFrame({"a": ["u", "v"], "b": [1, 2]}),
    [[1.0, 2.0]],
    pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
    [1.0, 2.0],
    [[1j, 0], [0, 0]],
]


@every_kind
def test_bad_tables_and_seeds(kind):
    for X in BAD_TABLES:
        with pytest.raises(InputError, match="X="):
            kind(mu=1.0).publish(X)
    for random_state in ("seed", -1, 1.5):
        with pytest.raises(InputError, match="random_state="):
            kind(mu=1.0).publish(TABLE, random_state)


@every_kind
def test_a_target_that_no_lattice_holds_is_named(kind):
    with pytest.raises(InputError, match="mu="):
        kind(mu=1e-60).guarantee(10, 2)


# ------------------------------------------------------------------- some columns

SELECTED = {
    "table": GaussianMechanism((-6, 6), mu=100.0),
    "covariance": CovarianceMechanism((-6, 6), mu=2.0, clipping="box"),
    "sphere": CovarianceMechanism(clipping=Sphere(center=0.0, scale=1.0), mu=2.0),
    "synthetic": SyntheticDataMechanism((-6, 6), mu=2.0, clipping="box"),
    "kendall": KendallMechanism(mu=2.0),
    "quadrants": QuadrantMechanism(center=0.0, mu=2.0),
}


def chain_table(n=3000):
    "Three columns in a chain, and a fourth of its own."
    X = np.random.default_rng(0).standard_normal((n, 4))
    X[:, 1] += X[:, 0]
    X[:, 2] += X[:, 1]
    return pd.DataFrame(X, columns=list("abcd"))


@pytest.mark.parametrize("kind", SELECTED)
def test_some_columns_of_a_release(kind, tmp_path):
    release = SELECTED[kind].publish(chain_table(), random_state=0)
    part = release.select(["c", "a"])
    at = np.ix_([2, 0], [2, 0])
    whole = release.corrected_covariance()[at]
    np.testing.assert_allclose(part.corrected_covariance(), whole, rtol=1e-9)
    whole = release.sampling_error().covariance_variance()[at]
    found = part.sampling_error().covariance_variance()
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-15)
    assert part.columns == ["c", "a"] and part.guarantee == release.guarantee
    assert part.select(["a"]).columns == ["a"] and "2 of 4 columns" in str(part)
    model = PrivateGraphicalLasso(0.05).fit(part)
    assert list(model.feature_names_in_) == ["c", "a"] and model.left_out_ == {}
    part.to_parquet(tmp_path / "whole.parquet")
    assert read_release(tmp_path / "whole.parquet").columns == release.columns
    for columns in (["a", "a"], ["a", "other"], []):
        with pytest.raises(InputError) as caught:
            release.select(columns)
        assert caught.value.argument == "columns"
    with pytest.raises(InputError):
        part.select(["b"])


@pytest.mark.parametrize("kind", ["covariance", "sphere", "synthetic"])
def test_a_lost_column_does_not_lose_the_graph(kind):
    table = chain_table(20_000)
    table["d"] *= 1e-4
    releases = [SELECTED[kind].publish(table, random_state=k) for k in range(6)]
    refused = 0
    for release in releases:
        part = release.without_lost()
        assert list(part.left_out) == ["d"] and part.columns == list("abc")
        model = PrivateGraphicalLasso(0.1).fit(part)
        assert model.left_out_ == part.left_out
        pairs = zip(model.edges_.source, model.edges_.target, strict=True)
        assert {("a", "b"), ("b", "c")} <= set(pairs)
        try:
            PrivateGraphicalLasso(0.1).fit(release)
        except CovarianceError as error:
            refused += error.columns == ["d"]
    assert refused > 0, "nothing was lost, so nothing was shown"


def test_a_hiding_column_is_left_out():
    table = chain_table(20_000)
    table["d"] *= 1e4
    release = SELECTED["sphere"].publish(table, random_state=0)
    with pytest.raises(CovarianceError):
        release.corrected_covariance()
    with pytest.raises(CovarianceError):
        release.select(["a", "d"])
    try:
        assert "d" in release.without_lost().left_out
    except CovarianceError as error:  # nothing of the others may be left
        assert set(error.columns) <= set("abcd")


def test_nothing_left_is_an_error():
    release = CovarianceMechanism((-1e3, 1e3), mu=0.1, clipping="box").publish(
        chain_table(100), 1
    )
    with pytest.raises(CovarianceError):
        release.without_lost()


@every_kind
def test_releases_are_shown_in_a_few_words(kind):
    table = TABLE.rename(columns={"a": "<script>"})
    release = kind(mu=1.0).publish(table, random_state=0)
    assert len(repr(release)) < 1000 and repr(release).startswith("<")
    card = release._repr_html_()
    assert "&lt;script&gt;" in card and "<script>" not in card
    assert "not for publication" in card


@pytest.mark.parametrize("least", [0.5, 3.0, 6.0, 12.0])
def test_lost_columns_are_those_of_the_exact_variances(least, monkeypatch):
    rng, bounded = np.random.default_rng(5), 0
    rows = rng.standard_normal((400, 60)) * np.geomspace(0.05, 2, 60)
    mechanism = CovarianceMechanism((-6, 6), mu=60.0, clipping="box")
    release = mechanism.publish(pd.DataFrame(rows), random_state=0)
    found = []
    for of in (SamplingError.own_variances, lambda error: 2 * (exact(error),)):
        monkeypatch.setattr(SamplingError, "own_variances", of)
        found.append(release.without_lost(least).columns)
        bounded += len(found[-1])
    assert found[0] == found[1] and 0 < bounded < 120


def exact(error):
    return np.diag(error.covariance_variance())


def test_clear_variances_are_kept_without_eigenvalues(monkeypatch):
    rows = pd.DataFrame(np.random.default_rng(5).standard_normal((400, 60)))
    mechanism = CovarianceMechanism((-6, 6), mu=60.0, clipping="box")
    release = mechanism.publish(rows, random_state=0)

    def refused(*_):
        raise AssertionError("a dense matrix was taken apart")

    for name in ("eigh", "eigvalsh", "cholesky"):
        monkeypatch.setattr(np.linalg, name, refused)
    assert len(release.without_lost().columns) == 60
