"""The covariance release: sensitivities by search, exact sums, the noise, bad input."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.publish import covariance as covariance_module
from privglasso.publish.noise_correction import CovarianceError
from privglasso.publish.covariance import CovarianceMechanism, CovarianceRelease
from privglasso.publish.covariance import _integer_rows
from privglasso.publish.schema import Schema
from privglasso.publish.sphere import Ball, Sphere
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.whitening import WhitenedCovarianceMechanism
from privglasso.privacy.discrete_gaussian import LARGEST_SIGMA
from privglasso.privacy.sampler import sample
from privglasso.base.validation import InputError

BOX = {"bounds": (-1, 1), "clipping": "box"}
WIDE = {"bounds": (-4, 4), "clipping": "box"}
CLIPPING = [BOX, {"norm_bound": 1.0}]


def mechanism_of(clipping=None, **arguments):
    "Of the library; of the papers, if it is asked for what only they have."
    if {"norm_bound", "noise"} & arguments.keys():
        return PapersCovarianceMechanism(**arguments)
    return CovarianceMechanism(clipping=clipping, **arguments)


def integers(mechanism, rows, monkeypatch):
    "The integer moments that `publish` would add noise to."
    monkeypatch.setattr(
        "privglasso.publish.covariance.add_symmetric_noise", lambda *_: None
    )
    monkeypatch.setattr(
        "privglasso.publish.covariance.sampler",
        lambda sigma: type(
            "Silent", (), {"draw": lambda self, n, bits: np.zeros(n, dtype=np.int64)}
        )(),
    )
    release = mechanism.publish(rows)
    return release.second_moment, release.total


# ---------------------------------------------------------------------- promises


@given(
    n=st.integers(2, 10**8),
    p=st.integers(1, 200),
    mu=st.floats(1e-3, 50),
    share=st.just(0) | st.floats(0.01, 0.9),
    clipping=st.sampled_from(CLIPPING),
    neighbors=st.sampled_from(["record", "cell"]),
    noise=st.sampled_from(["symmetric", "upper"]),
)
@settings(deadline=None, max_examples=100)
def test_a_target_is_met_from_below_and_not_wasted(
    n, p, mu, share, clipping, neighbors, noise
):
    mechanism = mechanism_of(
        **clipping, mu=mu, mean_share=share, neighbors=neighbors, noise=noise
    )
    lattice = mechanism.lattice(n, p)
    assert mu * (1 - 1e-12) < mechanism.guarantee(n, p).mu <= mu
    assert (
        n * lattice.radius**2 <= 2**52
        and lattice.sigma.max() <= LARGEST_SIGMA
        and lattice.radius >= 64
    )
    assert (lattice.unit > 0).all() and (
        lattice.unit * lattice.radius >= lattice.half_range
    ).all()


def test_known_noise():
    # mu = 1/(n tau) in the unit ball; the papers' triangle costs sqrt 2, a box p
    asked = {"mu": 0.5, "mean_share": 0}
    ball = PapersCovarianceMechanism(1, **asked).noise_std(1000, 4)
    upper = PapersCovarianceMechanism(1, **asked, noise="upper").noise_std(1000, 4)
    box = CovarianceMechanism((-1, 1), mu=0.5, mean_share=0, clipping="box").noise_std(
        1000, 4
    )
    cell = CovarianceMechanism(
        (-1, 1), mu=0.5, mean_share=0, neighbors="cell", clipping="box"
    ).noise_std(1000, 4)
    assert ball[0, 1] == pytest.approx(0.002, rel=1e-4) and ball[0, 0] == pytest.approx(
        0.002 * math.sqrt(2), rel=1e-4
    )
    assert upper == pytest.approx(np.full((4, 4), 0.002 * math.sqrt(2)), rel=1e-4)
    assert box[0, 1] == pytest.approx(0.008) and box[0, 0] == pytest.approx(
        0.008 * math.sqrt(2 / 5)
    )
    assert cell[0, 1] == pytest.approx(2 * math.sqrt(3) / 500) and (ball <= upper).all()


def test_one_column_is_the_same_in_a_ball_and_a_box():
    for share in (0, 0.3):
        ball, box = (
            mechanism_of(**clip, mu=1.0, mean_share=share).noise_std(50, 1)
            for clip in CLIPPING
        )
        assert ball == pytest.approx(box, rel=1e-4)
    assert CovarianceMechanism((-1, 1), mu=1.0, mean_share=0, clipping="box").noise_std(
        50, 1
    )[0, 0] == pytest.approx(1 / 50)


def test_a_cell_under_a_norm_bound_costs_what_a_record_does():
    record, cell = (
        PapersCovarianceMechanism(norm_bound=2, mu=1, neighbors=hidden).noise_std(9, 3)
        for hidden in ("record", "cell")
    )
    assert np.array_equal(record, cell)


def mu_of_pair(mechanism, X, Y, monkeypatch):
    "The proved mu of telling two tables apart, from the integers they really give."
    (one, sum_one), (two, sum_two) = (
        integers(mechanism, rows, monkeypatch) for rows in (X, Y)
    )
    sigma = mechanism.lattice(*X.shape).sigma
    t_off, t_on, t_sum = sigma**2 - 1 / 6
    D = (one - two).astype(float)
    squared = (np.triu(D, 1) ** 2).sum() / t_off + (np.diag(D) ** 2).sum() / t_on
    return math.sqrt(
        squared
        + (
            0
            if sum_one is None
            else ((sum_one - sum_two).astype(float) ** 2).sum() / t_sum
        )
    )


@pytest.mark.parametrize(
    "clipping",
    [
        {"bounds": ([-1, 0, 5], [1, 4, 5.5]), "clipping": "box"},
        {"norm_bound": 2.0, "center": [0, 1, -1]},
    ],
)
@pytest.mark.parametrize("neighbors", ["record", "cell"])
@pytest.mark.parametrize("noise", ["symmetric", "upper"])
def test_no_pair_of_tables_is_told_apart_better_than_promised(
    clipping, neighbors, noise, monkeypatch
):
    generator = np.random.default_rng(1)
    for share in (0, 0.2):
        mechanism = mechanism_of(
            **clipping, neighbors=neighbors, noise=noise, mu=1.0, mean_share=share
        )
        for _ in range(60):
            X = generator.choice(
                [-1e9, -1, -0.1, 0.0, 2.5, 1e9], (4, 3)
            ) * generator.uniform(size=(4, 3))
            Y = X.copy()
            cells = slice(None) if neighbors == "record" else generator.integers(3)
            Y[2, cells] = generator.choice([-1e12, -1, 0, 3.0, 1e12], 3)[cells]
            assert mu_of_pair(mechanism, X, Y, monkeypatch) <= 1.0


def worst_pairs():
    "Mechanisms and tables whose promise is attained, but for rounding in a ball."
    zero, unit = np.zeros((4, 4)), np.eye(4)
    corner = np.vstack([np.ones(4), zero[1:]])
    turned = np.vstack([[1, 1, -1, -1.0], zero[1:]])
    flipped = corner * np.where(np.arange(4) == 0, -1, 1)
    box, ball = CLIPPING
    first, second = (np.vstack([unit[k], zero[1:]]) for k in (0, 1))
    yield box | {"noise": "symmetric"}, corner, zero
    yield box | {"noise": "symmetric"}, corner, turned
    yield box | {"noise": "upper"}, corner, turned
    yield box | {"neighbors": "cell"}, corner, flipped
    yield ball | {"noise": "symmetric"}, first, second
    yield ball | {"noise": "upper"}, first, second


@pytest.mark.parametrize("arguments, X, Y", [*worst_pairs()])
def test_the_promise_is_attained(arguments, X, Y, monkeypatch):
    mechanism = mechanism_of(**arguments, mu=1.0, mean_share=0)
    assert 0.999 < mu_of_pair(mechanism, X, Y, monkeypatch) <= 1.0


def test_a_cell_turns_a_clipped_row_around(monkeypatch):
    zero = np.zeros((3, 2))
    X, Y = (np.vstack([row, zero]) for row in ([1e6, 0.0], [1e6, 1e14]))
    mechanism = PapersCovarianceMechanism(
        norm_bound=1.0, neighbors="cell", mu=1.0, mean_share=0
    )
    assert mu_of_pair(mechanism, X, Y, monkeypatch) > 0.999


# ---------------------------------------------------------------------- integers


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 30), mu=st.floats(0.01, 1e6))
@settings(deadline=None, max_examples=80)
def test_rows_never_leave_their_set(seed, p, mu):
    from privglasso.publish.covariance import _integer_rows

    generator = np.random.default_rng(seed)
    values = generator.uniform(-1, 1, size=(50, p)) * 10.0 ** generator.uniform(
        -320, 308, (50, 1)
    )
    for clipping in (
        {"bounds": (-1e-3, 2.5), "clipping": "box"},
        {"norm_bound": 1e-40, "center": 3.0},
        {"norm_bound": 7.3},
    ):
        lattice = mechanism_of(**clipping, mu=mu).lattice(50, p)
        k = _integer_rows(values, lattice)
        assert (
            np.isfinite(k).all()
            and (k == np.rint(k)).all()
            and np.abs(k).max() <= lattice.radius
        )
        whole = [[int(x) for x in row] for row in k]
        assert (
            not lattice.ball
            or max(sum(x * x for x in row) for row in whole) <= lattice.radius**2
        )


def test_sums_are_exact_in_any_order_and_any_block(monkeypatch):
    rows = np.random.default_rng(0).uniform(-1.2, 1.2, (5000, 7))
    mechanism = CovarianceMechanism((-1, 1), mu=3.0, clipping="box")
    one = integers(mechanism, rows, monkeypatch)
    monkeypatch.setattr("privglasso.publish.covariance._BLOCK_CELLS", 1000)
    two = integers(
        mechanism, rows[np.random.default_rng(1).permutation(5000)], monkeypatch
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_noise_is_that_of_the_sampler():
    mechanism = CovarianceMechanism((-1, 1), mu=1.0, clipping="box")
    release = mechanism.publish(np.zeros((10, 1)), random_state=3)
    first = release.second_moment[0, 0]
    assert (
        first == sample(1, release.lattice.sigma[1], random_state=3)[0]
    )  # one column: no noise off the diagonal


def test_very_wide_noise_is_exact_and_has_its_variance():
    # integers of about 2^39: a standardised sum of squares passes 6 once in 5e8
    release = CovarianceMechanism(
        (-1, 1), mu=1e-4, mean_share=0, clipping="box"
    ).publish(np.zeros((2, 100)), random_state=0)
    noise = release.second_moment[np.triu_indices(100, 1)].astype(float)
    assert release.lattice.sigma[0] > 2**37
    assert abs(np.mean(noise**2) / release.lattice.sigma[0] ** 2 - 1) < 6 * math.sqrt(
        2 / noise.size
    )
    low = release.second_moment[np.triu_indices(100, 1)] % 8
    assert np.abs(np.bincount(low, minlength=8) - noise.size / 8).max() < 6 * math.sqrt(
        noise.size / 8
    )


def test_bounds_and_units_are_the_publishers():
    rows = np.random.default_rng(4).normal(size=(300, 2)) * [1, 1000] + [0, 5000]
    one = CovarianceMechanism(([-4, 1000], [4, 9000]), mu=1.0, clipping="box").publish(
        rows, random_state=1
    )
    two = CovarianceMechanism((-4, 4), mu=1.0, clipping="box").publish(
        (rows - [0, 5000]) / [1, 1000], random_state=1
    )
    assert one.matrix == pytest.approx(two.matrix * np.outer([1, 1000], [1, 1000]))
    assert one.location == pytest.approx(two.location * [1, 1000] + [0, 5000])


def test_cells_are_clipped_to_the_bounds_before_anything_else():
    table = np.array([[-1e9, 1e9], [1e300, -1e300], [0.5, 0.5]])
    one, two = (
        CovarianceMechanism((0, 1), mu=1.0, clipping="box").publish(X, 7)
        for X in (table, np.clip(table, 0, 1))
    )
    assert np.array_equal(one.matrix, two.matrix) and np.array_equal(
        one.location, two.location
    )


# -------------------------------------------------------- what is released


def test_without_a_mean_all_is_about_the_public_centre():
    frame = pd.DataFrame(
        np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"]
    )
    release = CovarianceMechanism(
        (-4, 4), mu=5.0, mean_share=0, clipping="box"
    ).publish(frame)
    assert isinstance(release, CovarianceRelease) and release.total is None
    assert (release.location == 0).all() and release.noise_variance.tolist() == [0, 0]
    assert np.array_equal(release.matrix, release.matrix.T)


def test_a_variance_lost_in_the_noise_is_said():
    release = CovarianceMechanism((-1, 1), mu=1e-3, clipping="box").publish(
        np.zeros((5, 20)), random_state=0
    )
    lost = [
        column
        for column, value in zip(release.columns, np.diag(release.matrix), strict=True)
        if value <= 0
    ]
    assert lost
    with pytest.raises(CovarianceError, match="lost in the noise") as caught:
        release.corrected_covariance()
    assert caught.value.columns == lost


@pytest.mark.parametrize(
    "arguments",
    [
        {"norm_bound": 5.0},
        WIDE | {"mean_share": 0},
        WIDE | {"neighbors": "cell", "noise": "upper"},
    ],
)
def test_planned_stated_and_true_errors_agree(arguments):
    # a mean of 500 squares has standard deviation sqrt(2/500): 5.5 are never exceeded
    generator = np.random.default_rng(3)
    truth, location = np.array([[0.6, 0.2], [0.2, 0.5]]), np.array([0.8, -0.5])
    mechanism = mechanism_of(**arguments, mu=0.4)
    planned = mechanism.sampling_error(truth, 300, location).covariance_variance()
    target = (
        truth
        if arguments.get("mean_share") != 0
        else truth + np.outer(location, location)
    )
    errors, stated = [], []
    for seed in range(500):
        release = mechanism.publish(
            generator.multivariate_normal(location, truth, 300), random_state=seed
        )
        errors.append(
            release.matrix - target * (299 / 300 if release.total is not None else 1)
        )
        stated.append(release.sampling_error().covariance_variance())
    slack = (
        1.15 if arguments.get("mean_share") == 0 else 1
    )  # Gaussian rows off the centre: stated a little too large
    assert (
        np.mean(np.square(errors), axis=0) < planned * (1 + 5.5 * math.sqrt(2 / 500))
    ).all()
    assert (
        np.mean(np.square(errors), axis=0) * slack
        > planned * (1 - 5.5 * math.sqrt(2 / 500))
    ).all()
    assert np.mean(stated, axis=0) == pytest.approx(planned, rel=0.1)


# ---------------------------------------------------------------------- bad input


_NOT_SCORES = [("mean_share", 0), ("mean_share", 0.3)]
_NOT_LEVELS = [(1, 1), (5, 1), (0, 32), (0.5, 3), (0, math.inf), 5, (1, 2, 3), "ab"]


def test_bad_mechanisms():
    for arguments, named in [
        ({"bounds": (0, 1), "clipping": Ball(1.0)}, "clipping="),
        *(({"bounds": b}, "bounds=") for b in ((1, 0), (-1e308, 1e308), (0, 5e-324))),
        *(
            ({"bounds": (0, 1), "mean_share": share}, "mean_share=")
            for share in (1, -0.1, math.nan, "all")
        ),
        *(({"bounds": (0, 1), name: value}, f"{name}=") for name, value in _NOT_SCORES),
        *(({"levels": {"x": pair}}, "levels of x=") for pair in _NOT_LEVELS),
        ({"levels": "x"}, "levels="),
    ]:
        with pytest.raises(InputError, match=f"^{named}"):
            CovarianceMechanism(**({"mu": 1.0} | arguments))
    for arguments, named in [
        ({}, "norm_bound="),
        ({"bounds": (0, 1), "norm_bound": 1}, "norm_bound="),
        *(({"norm_bound": r}, "norm_bound=") for r in (0, math.inf, "1", 1e80, 1e-80)),
        *(({"norm_bound": 1, "center": c}, "center=") for c in (math.nan, "a")),
        ({"bounds": (0, 1), "center": 1.0}, "center="),
        ({"bounds": (0, 1), "noise": "goe"}, "noise="),
    ]:
        with pytest.raises(InputError, match=f"^{named}"):
            PapersCovarianceMechanism(**arguments, mu=1.0)


@pytest.mark.parametrize("word", ["norm_bound", "center", "noise", "epsilom"])
def test_a_word_that_no_constructor_takes_is_refused(word):
    for kind in (CovarianceMechanism, SyntheticDataMechanism):
        with pytest.raises(TypeError, match=word):
            kind(mu=1.0, **{word: 1.0})
    with pytest.raises(TypeError, match="levels"):  # its parent's, and not its own
        WhitenedCovarianceMechanism(mu=1.0, levels={})


def test_bad_shapes():
    for n, p, named in [
        (1, 2, "n="),
        (2.5, 2, "n="),
        (10, 0, "p="),
        (2**41, 2, "n="),
        (10, 3, "bounds="),
    ]:
        with pytest.raises(InputError, match=f"^{named}"):
            CovarianceMechanism(([0, 0], [1, 2]), mu=1.0, clipping="box").guarantee(
                n, p
            )
        with pytest.raises(InputError, match="^center="):
            PapersCovarianceMechanism(norm_bound=1, center=[0, 1], mu=1.0).publish(
                np.ones((3, 3))
            )


@pytest.mark.parametrize("clipping", CLIPPING)
@pytest.mark.parametrize("share", [0, 0.2])
@pytest.mark.parametrize("mu", [1e-12, 1e14])
def test_a_target_beyond_every_lattice_names_one_that_works(clipping, share, mu):
    with pytest.raises(InputError, match="use mu [<>]= ") as caught:
        mechanism_of(**clipping, mu=mu, mean_share=share).guarantee(1000, 5)
    bound, works = str(caught.value).split("use mu ")[1].split(" ")
    works = float(works) * (1.001 if bound == ">=" else 0.999)
    mechanism = mechanism_of(**clipping, mu=works, mean_share=share)
    assert mechanism.guarantee(1000, 5).mu == pytest.approx(works, rel=1e-9)
    sigma = mechanism.lattice(1000, 5).sigma
    assert (sigma[sigma > 0] ** 2 - 1 / 6 >= 0.5).all()  # where the bound is proved


def test_bad_plans():
    for covariance, n, location in [
        ([[1, 2]], 5, None),
        (np.eye(2), 1, None),
        (np.eye(2), 5, [1, 2, 3]),
        (np.eye(2), 5, np.nan),
    ]:
        with pytest.raises(InputError):
            CovarianceMechanism((0, 1), mu=1.0, clipping="box").sampling_error(
                covariance, n, location
            )


@pytest.mark.parametrize("kind", [{}, {"clipping": Sphere()}, WIDE])
def test_a_table_that_cannot_be_written_to_is_published_as_it_is(kind):
    table = np.random.default_rng(0).normal(size=(3000, 3))
    before, mechanism = table.copy(), mechanism_of(**kind, mu=1.0)
    one = mechanism.publish(table, random_state=1)
    table.flags.writeable = False
    other = mechanism.publish(table, random_state=1)
    np.testing.assert_array_equal(one.second_moment, other.second_moment)
    np.testing.assert_array_equal(table, before)


# ---------------------------------------------------- bounds of the default release


def gaussian_rows(n, p=6, seed=0):
    "A chain of normal columns, in units of their own."
    z = np.random.default_rng(seed).standard_normal((n, p)).cumsum(axis=1)
    names = [f"c{j}" for j in range(p)]
    return pd.DataFrame(z / z.std(axis=0), columns=names)


@pytest.mark.parametrize("n, mu", [(1000, 1.0), (3000, 0.3), (10_000, 0.1)])
@pytest.mark.parametrize("low, high", [(-40, 40), (-400, 400), (-10, 400)])
def test_wide_bounds_change_no_bit(n, mu, low, high):
    table = gaussian_rows(n)
    ends = {name: (low, high) for name in table}
    frame = pd.DataFrame({"column": list(ends), "low": low, "high": high})
    plain = CovarianceMechanism(mu=mu).publish(table, 1)
    for bounds in ((low, high), ends, frame, dict(list(ends.items())[1:])):
        stated = CovarianceMechanism(bounds, mu=mu).publish(table, 1)
        assert stated.columns == plain.columns and stated.units is not None
        assert np.array_equal(stated.second_moment, plain.second_moment)
    schema = CovarianceMechanism(mu=mu).publish(table, 1, schema=ends)
    assert np.array_equal(schema.second_moment, plain.second_moment)
    some = ends | {"c2": {"kind": "real"}}
    schema = CovarianceMechanism(mu=mu).publish(table, 1, schema=some)
    assert np.array_equal(schema.second_moment, plain.second_moment)


def test_a_schema_with_some_bounds_clips_by_itself():
    "The mechanism is not left with bounds of fewer columns than a plan asks about."
    schema = Schema({"c0": (-0.5, 0.5), "c1": {"kind": "real"}})
    told = CovarianceMechanism(mu=1.0).knowing(schema)
    assert told.bounds is None
    table = gaussian_rows(5000)[["c0", "c1"]]
    release = CovarianceMechanism(mu=1.0).publish(table, 1, schema=schema)
    clipped = table.assign(c0=table["c0"].clip(-0.5, 0.5))
    same = CovarianceMechanism(mu=1.0).publish(clipped, 1)
    assert np.array_equal(release.second_moment, same.second_moment)


def test_bounds_of_some_columns_clip_these():
    table = gaussian_rows(5000)
    told = CovarianceMechanism({"c3": (-0.5, 0.5)}, mu=1.0).publish(table, 1)
    clipped = table.assign(c3=table["c3"].clip(-0.5, 0.5))
    same = CovarianceMechanism(mu=1.0).publish(clipped, 1)
    assert np.array_equal(told.second_moment, same.second_moment)
    with pytest.raises(InputError, match=r"bounds=\['c9'\]: the table has no such"):
        CovarianceMechanism({"c9": (0, 1)}, mu=1.0).publish(table)
    with pytest.raises(InputError, match="bounds are stated for other columns"):
        CovarianceMechanism({"c3": (0, 1)}, mu=1.0, clipping="box").publish(table)


def test_bounds_and_levels_together_give_the_bins_of_a_small_table():
    answers = (gaussian_rows(400) * 1.1 + 3).round().clip(1, 5)
    levels = {name: (1, 5) for name in list(answers)[1:]}
    small = {"mu": 2.0, "levels": levels}
    release = CovarianceMechanism({"c0": (1, 5)}, **small).publish(answers, 0)
    assert release.margins.kinds == ("range", *["levels"] * 5)
    assert release.units is None and release.columns == list(answers)
    for bounds in (None, {"c1": (1, 5)}):  # nothing is known of the first
        with pytest.raises(InputError, match=r"n=400: too few.*stated for \['c0'\]"):
            CovarianceMechanism(bounds, **small).publish(answers)
    with pytest.raises(InputError, match="n=400") as plain:
        CovarianceMechanism(mu=2.0).publish(answers)
    assert "stated for" not in str(plain.value)


# --------------------------------------------------------- whatever the order


@pytest.mark.parametrize("p", [1, 2, 3, 7, 16, 33, 129])
def test_a_row_becomes_the_same_integers_wherever_it_stands(p):
    """Else a file that is sorted again would move more than one row of integers, if
    only by a step. Rows of a hundredth to a hundred times the radius."""
    rng = np.random.default_rng(p)
    rows = rng.standard_normal((5000, p)) * 10 ** rng.uniform(-2, 2, (5000, 1))
    order = rng.permutation(5000)
    for kind in ({"norm_bound": 1.5 * p**0.5}, {"bounds": (-3, 3)}):
        box = {"clipping": "box"} if "bounds" in kind else {}
        lattice = mechanism_of(**kind, **box, mu=1.0).lattice(5000, p)
        placed = _integer_rows(rows, lattice)
        assert np.array_equal(_integer_rows(rows[order], lattice), placed[order])
        alone = [_integer_rows(rows[k : k + 1], lattice)[0] for k in range(0, 5000, 97)]
        assert np.array_equal(alone, placed[::97])


@pytest.mark.parametrize(
    "mechanism",
    [
        PapersCovarianceMechanism(norm_bound=3.0, mu=1.0),
        CovarianceMechanism(clipping=Sphere(1.0), mu=1.0),
        WhitenedCovarianceMechanism(clipping=Sphere(1.0), mu=1.0),
    ],
)
def test_a_release_of_sums_is_the_same_in_any_order(mechanism):
    "Bit for bit, of one seed; across the borders of blocks, too."
    rows = np.random.default_rng(0).standard_normal((200_000, 7)).cumsum(axis=1)
    order = np.random.default_rng(1).permutation(len(rows))
    one, two = (mechanism.publish(X, 3) for X in (rows, rows[order]))
    assert np.array_equal(one.matrix, two.matrix)


# ----------------------------------------------- of many columns, without more matrices


def test_moments_are_those_of_all_columns_at_once(monkeypatch):
    "By strips of columns, and blocks of rows: to the last integer, both triangles."
    X = np.random.default_rng(0).normal(size=(700, 23))
    lattice = CovarianceMechanism((-4, 4), clipping="box", mu=1.0).lattice(700, 23)
    whole = _integer_rows(X, lattice).astype(np.int64)
    for cells in (23 * 5, 23, 1 << 20):
        monkeypatch.setattr(covariance_module, "_STRIP_CELLS", cells)
        second, total = covariance_module.integer_moments(X, lattice)
        assert second.dtype == np.int64 and (second == whole.T @ whole).all()
        assert (total == whole.sum(axis=0)).all()


@pytest.mark.parametrize("share", [0, 0.1])
def test_noise_by_rows_is_that_of_all_entries_to_the_bit(share):
    p = 300
    mechanism = CovarianceMechanism(
        (np.zeros(p), np.arange(1.0, p + 1)), clipping="box", mu=3.0, mean_share=share
    )
    X = np.random.default_rng(0).uniform(0, np.arange(1.0, p + 1), size=(5000, p))
    release = mechanism.publish(X, 1)
    error, V = release.sampling_error(), release.matrix_noise_variance
    assert "noise" not in vars(error)
    assert np.array_equal(error.own_noise(), np.diag(V))
    assert np.array_equal(error.noise, V) and np.array_equal(V, V.T)
    few = [5, 2, 200, 17]
    part = release.select([release.columns[j] for j in few])
    at = np.ix_(few, few)
    assert np.array_equal(part.corrected_covariance(), release.matrix[at])
    assert np.array_equal(part.sampling_error().noise, V[at])
    whole = release.select(release.columns)
    assert np.array_equal(whole.corrected_covariance(), release.matrix)
    assert np.array_equal(whole.sampling_error().noise, V)
