"""Files of every kind: there and back, and whatever is damaged or contradictory."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.privacy.guarantee import NoGuarantee
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import ReleaseError, sealed
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.sphere import Sphere
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism

TABLE = pd.DataFrame({"a": [0.5, 1.5, 2.0, 0.1], "b": [3.0, 4.0, 5.0, 6.0]})
BOUNDS = ([0, 0], [2, 10])


# ---------------------------------------------------------------- tables


@pytest.fixture
def release():
    return GaussianMechanism(BOUNDS, neighbors="record", epsilon=2, delta=1e-6).publish(
        TABLE, random_state=4
    )


def test_a_file_carries_everything(release, tmp_path):
    release.to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert back.table.equals(release.table) and back.guarantee == release.guarantee
    assert np.array_equal(back.noise_variance, release.noise_variance)
    assert (back.secure, back.mechanism, back.columns, back.n) == (
        False,
        "GaussianMechanism",
        ["a", "b"],
        4,
    )


def test_integer_and_unguaranteed_releases_survive_too(tmp_path):
    integer = DiscreteGaussianMechanism((0, 9), neighbors="cell", sigma=1.5).publish(
        [[1, 2], [3, 4]], random_state=1
    )
    integer.without_guarantee("for a test").to_parquet(tmp_path / "r.parquet")
    back = read_release(tmp_path / "r.parquet")
    assert back.table.equals(integer.table) and isinstance(back.guarantee, NoGuarantee)
    assert back.guarantee.hypothetical == integer.guarantee
    assert "looking at the data" in str(back)
    assert "for a test" not in str(back)  # a file has no words of its own


ALL_NOISE = {
    "table": GaussianMechanism((-1, 1), mu=0.001),
    "integers": DiscreteGaussianMechanism((-1, 1), sigma=2000.0),
    "box": CovarianceMechanism((-1, 1), mu=0.001, clipping="box"),
    "sphere": CovarianceMechanism(mu=0.001, clipping=Sphere(np.ones(3))),
    "local": LocalMechanism(9.0, mu=0.001),
    "synthetic": SyntheticDataMechanism((-1, 1), mu=0.001, clipping="box"),
    "kendall": KendallMechanism(mu=0.001),
    "quadrant": QuadrantMechanism(0.5, mu=0.001),
    "weights": GraphWeightsMechanism(nx.complete_graph(3), scale=0.5, mu=0.001),
}


@pytest.mark.parametrize("name", ALL_NOISE)
def test_a_release_that_is_all_noise_is_read_again(name, tmp_path):
    "What noise can reach is larger than what the rows can make, in every kind of file."
    table = np.random.default_rng(0).integers(-1, 2, (50, 3))
    noisy = ALL_NOISE[name].publish(table, random_state=0)
    noisy.to_parquet(tmp_path / "r.parquet")
    assert str(read_release(tmp_path / "r.parquet")) == str(noisy)


def rewrite(path, change, table=None):
    "The release at `path` with its metadata changed by `change`."
    stored = pq.read_table(path) if table is None else table
    metadata = json.loads(pq.read_table(path).schema.metadata[b"privglasso"])
    change(metadata)
    seal = sealed(metadata, stored.to_pandas())
    pq.write_table(stored.replace_schema_metadata(seal), path)


TABLE_SETTINGS = [
    lambda m: m.update(mu=0.001),
    lambda m: m.update(mu=None),
    lambda m: m.update(n=5),
    lambda m: m.update(columns=["a", "c"]),
    lambda m: m.update(neighbors="household"),
    lambda m: m.update(noise_variance=[1.0, 1.0]),
    lambda m: m.update(noise_variance=[1.0]),
    lambda m: m["lattice"].update(step=[0.3, 0.3]),
    lambda m: m["lattice"].update(sigma=[1.0]),
    lambda m: m["lattice"].update(sigma=[-1.0, 1.0]),
    lambda m: m.pop("lattice"),
    lambda m: m.update(secure="no"),
    lambda m: m.update(mu=True),
    lambda m: m.update(n=4.0),
    lambda m: m["lattice"].update(low=[0.5, 0.5]),
    lambda m: m["lattice"].update(sigma=[str(s) for s in m["lattice"]["sigma"]]),
    lambda m: m.update(mechanism="DiscreteGaussianMechanism"),
    lambda m: m.update(no_guarantee="none"),
]


def test_no_setting_of_a_table_can_be_changed_alone(release, tmp_path):
    path, accepted = tmp_path / "r.parquet", []
    for k, change in enumerate(TABLE_SETTINGS):
        release.to_parquet(path, replace=True)
        rewrite(path, change)
        try:
            read_release(path)
        except ReleaseError:
            continue
        accepted.append(k)
    assert accepted == []


def test_cells_that_were_tampered_with_are_refused(release, tmp_path):
    path = tmp_path / "r.parquet"
    release.to_parquet(path, replace=True)
    for value in (0.123456789, np.nan, np.inf):
        cells = release.table.copy()
        cells.iloc[0, 0] = value
        rewrite(path, lambda m: None, pa.Table.from_pandas(cells, preserve_index=False))
        with pytest.raises(ReleaseError, match="off the lattice"):
            read_release(path)


def test_cells_beyond_the_reach_of_noise_are_refused(release, tmp_path):
    path, lattice = tmp_path / "r.parquet", release.lattice
    release.to_parquet(path, replace=True)
    last = (lattice.high[0] + np.floor(50 * lattice.sigma[0])) * lattice.step[0]
    for value, possible in ((last, True), (last + lattice.step[0], False)):
        cells = release.table.copy()
        cells.iloc[0, 0] = value
        rewrite(path, lambda m: None, pa.Table.from_pandas(cells, preserve_index=False))
        if possible:
            assert read_release(path).table.iloc[0, 0] == value
        else:
            with pytest.raises(ReleaseError, match="farther outside the bounds"):
                read_release(path)


# ---------------------------------------- covariances and synthetic rows


BUDGET = dict(mu=2.0, neighbors="record")
OTHERS = {
    "covariance": CovarianceMechanism(BOUNDS, **BUDGET, clipping="box"),
    "no mean": PapersCovarianceMechanism(
        bounds=BOUNDS, mean_share=0, noise="upper", **BUDGET
    ),
    "ball": PapersCovarianceMechanism(norm_bound=9, center=[1, 4], **BUDGET),
    "local": LocalMechanism(9, center=[1, 4], mu=2.0),
    "synthetic": SyntheticDataMechanism(BOUNDS, rows=7, **BUDGET, clipping="box"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_every_kind_comes_back_as_it_was(kind, tmp_path):
    release, path = OTHERS[kind].publish(TABLE, random_state=1), tmp_path / "r.parquet"
    release.to_parquet(path, replace=True)
    back = read_release(path)
    assert type(back) is type(release) and str(back) == str(release)
    for name in ("guarantee", "n", "columns", "secure", "mechanism"):
        assert getattr(back, name) == getattr(release, name)
    ours, theirs = (x.sampling_error().covariance_variance() for x in (release, back))
    assert np.array_equal(ours, theirs)
    one, two = (getattr(x, "covariance_release", x) for x in (release, back))
    for name in ("matrix", "location", "matrix_noise_variance"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert kind != "synthetic" or back.table.equals(release.table)


def moments(metadata):
    "Where a file of either kind keeps its moments' settings."
    return metadata.get("moments", metadata)


def scale(metadata, k, factor):
    "One noise parameter of a file times a factor; where it is 0, the factor."
    sigma = moments(metadata)["lattice"]["sigma"]
    sigma[k] = sigma[k] * factor or factor


SETTINGS = {
    "mu": lambda m: m.update(mu=m["mu"] * 0.99),
    "n": lambda m: moments(m).update(n=moments(m)["n"] * 10**12),
    "columns": lambda m: m.update(columns=["a", "c"]),
    "neighbors": lambda m: m.update(neighbors="household"),
    "noise_variance": lambda m: m.update(noise_variance=[0.0, 0.1]),
    "sigma": (
        lambda m: moments(m)["lattice"].update(
            sigma=[s * 0.99 for s in moments(m)["lattice"]["sigma"]]
        )
    ),
    **{
        f"sigma {k} times {factor}": lambda m, k=k, factor=factor: scale(m, k, factor)
        for k in range(3)
        for factor in (0.999, 1 + 1e-9, 1.5, 100.0, -1)
    },
    "no noise": lambda m: moments(m)["lattice"].update(sigma=[0.0, 0.0, 0.0]),
    "sigmas": lambda m: moments(m)["lattice"].update(sigma=[1e9]),
    "not a number": lambda m: moments(m)["lattice"].update(sigma=[float("nan")] * 3),
    "radius": lambda m: moments(m)["lattice"].update(radius=64),
    "noise": lambda m: moments(m)["lattice"].update(noise="triangle"),
    "half_range": lambda m: moments(m)["lattice"].update(half_range=[1.0, 0.0]),
    "half_ranges": lambda m: moments(m)["lattice"].update(half_range=[1.0]),
    "ball": lambda m: moments(m)["lattice"].update(ball=True, half_range=[1.0, 2.0]),
    "total": lambda m: moments(m).update(total=[10**17, 0]),
    "totals": lambda m: moments(m).update(total=[0, 0, 0]),
    "nothing promised": lambda m: m.update(mu=None),
    "fraction": lambda m: moments(m)["lattice"].update(radius=2.5),
    "lattice": lambda m: moments(m).pop("lattice"),
    "secure": lambda m: m.pop("secure"),
    "secure in words": lambda m: m.update(secure="false"),
    "ball in words": (
        lambda m: moments(m)["lattice"].update(ball=str(moments(m)["lattice"]["ball"]))
    ),
    "kind": lambda m: m.update(kind="rumour"),
    "format": lambda m: m.update(format=4),
    "no reason": lambda m: m.update(no_guarantee="because"),
    "no promise": lambda m: m.update(no_guarantee=True),
    "half a total": lambda m: moments(m).update(total=[0.5, 0.5]),
}


PROMISE = "CovarianceMechanism\x1b[2J: anonymous, epsilon = 0.01"
WORDS = {
    "mechanism": lambda m: m.update(mechanism=PROMISE),
    "another mechanism": lambda m: m.update(mechanism="Mechanism"),
    "kind": lambda m: m.update(kind=PROMISE),
    "version": lambda m: m.update(version=PROMISE),
    "neighbors": lambda m: m.update(neighbors=PROMISE),
    "n": lambda m: m.update(n=PROMISE),
    "mu": lambda m: m.update(mu=PROMISE),
    "secure": lambda m: m.update(secure=PROMISE),
    "no_guarantee": lambda m: m.update(no_guarantee=PROMISE),
    "noise": lambda m: moments(m)["lattice"].update(noise=PROMISE),
    "sigma": lambda m: moments(m)["lattice"].update(sigma=PROMISE),
    "a new field": lambda m: m.update(promise=PROMISE),
    "a new setting": lambda m: moments(m)["lattice"].update(promise=PROMISE),
}


@pytest.mark.parametrize("kind", ["table", *OTHERS])
def test_a_file_has_no_words_of_its_own(kind, release, tmp_path):
    path, spoken = tmp_path / "r.parquet", []
    if kind != "table":
        release = OTHERS[kind].publish(TABLE, random_state=1)
    for name, change in WORDS.items():
        release.to_parquet(path, replace=True)
        rewrite(path, change)
        with pytest.raises(ReleaseError) as caught:
            read_release(path)
        if "anonymous" in str(caught.value) or "\x1b" in str(caught.value):
            spoken.append(name)
    assert spoken == []


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "a\u202eb", "a\x9b", "a\u2028"])
def test_names_of_columns_steer_no_terminal(name, release, tmp_path):
    path, cells = tmp_path / "r.parquet", release.table.set_axis([name, "b"], axis=1)
    release.to_parquet(path, replace=True)
    stored = pa.Table.from_pandas(cells, preserve_index=False)
    rewrite(path, lambda m: m.update(columns=[name, "b"]), stored)
    with pytest.raises(ReleaseError, match="control characters"):
        read_release(path)


def test_steps_are_powers_of_two(release, tmp_path):
    path = tmp_path / "r.parquet"
    release.to_parquet(path, replace=True)

    def stretch(metadata):
        lattice = metadata["lattice"]
        lattice["step"] = [3 * step for step in lattice["step"]]
        metadata["noise_variance"] = [9 * v for v in metadata["noise_variance"]]

    cells = pa.Table.from_pandas(release.table * 3, preserve_index=False)
    rewrite(path, stretch, cells)
    with pytest.raises(ReleaseError, match="its mechanism"):
        read_release(path)


@pytest.mark.parametrize("kind", OTHERS)
def test_no_setting_can_be_changed_alone(kind, tmp_path):
    release, path = OTHERS[kind].publish(TABLE, random_state=1), tmp_path / "r.parquet"
    accepted = []
    for name, change in SETTINGS.items():
        release.to_parquet(path, replace=True)
        rewrite(path, change)
        try:
            read_release(path)
        except ReleaseError:
            continue
        accepted.append(name)
    assert accepted == []


def test_a_covariance_is_a_symmetric_matrix_of_integers(tmp_path):
    release = CovarianceMechanism(BOUNDS, mu=2.0, clipping="box").publish(TABLE)
    path = tmp_path / "r.parquet"
    second = release.second_moment
    lopsided, huge = second.copy(), second * 2**20
    lopsided[0, 1] += 1
    triangles = [np.triu(cells) for cells in (huge, second * 1.0)]
    for cells in (lopsided, second, *triangles, second[:1], triangles[1][:, :1]):
        release.to_parquet(path, replace=True)
        frame = pd.DataFrame(cells, columns=release.columns[: cells.shape[1]])
        rewrite(path, lambda m: None, pa.Table.from_pandas(frame, preserve_index=False))
        with pytest.raises(ReleaseError, match="the matrix is|the columns and rows"):
            read_release(path)


def test_local_reports_keep_the_noise_of_every_user(tmp_path):
    mechanism, path = (
        LocalMechanism(9, center=[1, 4], epsilon=2.0, delta=1e-3),
        tmp_path / "r.parquet",
    )
    release = mechanism.publish(TABLE)
    release.to_parquet(path, replace=True)
    back = read_release(path)
    assert (
        back.secure
        and back.guarantee == mechanism.guarantee(4, 2)
        and back.guarantee.epsilon(1e-3) <= 2 + 1e-9
    )
    assert np.allclose(back.sampling_error().noise, mechanism.noise_std(4, 2) ** 2)
    rewrite(
        path, lambda m: m.update(kind="covariance", mechanism="CovarianceMechanism")
    )
    assert np.allclose(
        read_release(path).sampling_error().noise, mechanism.noise_std(4, 2) ** 2 / 4
    )


def test_what_no_user_reports_is_no_local_release(tmp_path):
    for options in [
        dict(bounds=BOUNDS, mean_share=0),
        dict(norm_bound=9.0),
        dict(norm_bound=9.0, mean_share=0, noise="upper"),
        dict(norm_bound=9.0, mean_share=0, neighbors="cell"),
    ]:
        path = tmp_path / "r.parquet"
        release = PapersCovarianceMechanism(mu=2.0, **options).publish(TABLE)
        release.to_parquet(path, replace=True)
        assert read_release(path).n == 4
        rewrite(path, lambda m: m.update(kind="local", mechanism="LocalMechanism"))
        with pytest.raises(ReleaseError, match="not those of local reports"):
            read_release(path)


def test_no_honest_file_of_local_reports_is_refused(tmp_path):
    "The noise of many users is wider than one's; rows at the centre leave it alone."
    for n in [2, 400]:
        for mu in (0.01, 1.0, 50.0):
            LocalMechanism(1.0, mu=mu).publish(
                np.zeros((n, 3)), random_state=n
            ).to_parquet(tmp_path / "r.parquet", replace=True)
            assert read_release(tmp_path / "r.parquet").n == n


def test_rows_that_were_not_drawn_are_refused(tmp_path):
    release = SyntheticDataMechanism(BOUNDS, rows=5000, mu=2.0, clipping="box").publish(
        TABLE
    )
    path = tmp_path / "r.parquet"
    missing = release.table.copy()
    missing.iloc[3, 1] = np.nan
    for cells in (
        release.table * 1.5,
        release.table - 100,
        missing,
        release.table.round().astype(int),
    ):
        release.to_parquet(path, replace=True)
        rewrite(path, lambda m: None, pa.Table.from_pandas(cells, preserve_index=False))
        with pytest.raises(ReleaseError, match="not drawn"):
            read_release(path)


def test_no_honest_file_of_synthetic_rows_is_refused(tmp_path):
    generator = np.random.default_rng(0)
    for rows, p, n in ((2, 1, 2), (2, 6, 5), (3000, 30, 40), (100, 2, 10**4)):
        mechanism = SyntheticDataMechanism((-3, 3), rows=rows, mu=0.1, clipping="box")
        for seed in range(5):
            mechanism.publish(
                generator.normal(size=(n, p)), random_state=seed
            ).to_parquet(tmp_path / "r.parquet", replace=True)
            assert read_release(tmp_path / "r.parquet").n == rows


def test_sums_as_large_as_rows_can_make_them_are_read_and_larger_ones_not(tmp_path):
    path, table = tmp_path / "r.parquet", np.ones((400, 2))
    release = CovarianceMechanism((-1, 1), mu=50.0, clipping="box").publish(
        table, random_state=1
    )
    release.to_parquet(path)
    back, largest = read_release(path), 400 * release.lattice.radius
    assert back.total.max() > 0.9 * largest
    assert back.second_moment.max() > 0.9 * largest * release.lattice.radius
    rewrite(path, lambda m: m.update(total=[int(1.5 * t) for t in m["total"]]))
    with pytest.raises(ReleaseError, match="the total is larger than 400 rows"):
        read_release(path)
    release.to_parquet(path, replace=True)
    frame = np.triu(release.second_moment * 3 // 2)
    frame = pd.DataFrame(frame, columns=release.columns)
    rewrite(path, lambda m: None, pa.Table.from_pandas(frame, preserve_index=False))
    with pytest.raises(ReleaseError, match="the matrix is larger than 400 rows"):
        read_release(path)
