"""Graphs that change: bad arguments, ends that are known, releases, and the watch."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from privglasso import CovarianceMechanism
from privglasso.base.validation import InputError
from privglasso.networks import changing
from privglasso.networks.changing import FUSIONS, InfeasiblePeriodsError, LineWatch
from privglasso.networks.changing import TimeVaryingGraphicalLasso
from privglasso.networks.changing import changing_graphical_lasso, fused_path
from privglasso.networks.changing import price_of_change
from privglasso.publish.noise_correction import SamplingError
from privglasso.publish.sphere import Sphere
from privglasso.recover.graphical_lasso import graphical_lasso

P = 6
CHAIN = np.eye(P) + 0.4 * (np.eye(P, k=1) + np.eye(P, k=-1))
CUT = CHAIN.copy()
CUT[2, 3] = CUT[3, 2] = 0.0
GOOD = np.array([[1.0, 0.3], [0.3, 1.0]])


def rows(precision, n, seed):
    root = np.linalg.cholesky(np.linalg.inv(precision))
    return np.random.default_rng(seed).normal(size=(n, len(root))) @ root.T


def stream(seed, T=5, n=300, p=P):
    return np.array(
        [np.corrcoef(rows(CHAIN[:p, :p], n, 100 * seed + t).T) for t in range(T)]
    )


def total(x, v, c, limit, beta):
    steps = np.abs(np.diff(x)).sum()
    return (c * (x - v) ** 2 / 2 + limit * np.abs(x)).sum() + beta * steps


@pytest.mark.parametrize("seed", range(4))
def test_no_path_beside_the_best_one_is_better(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        T, scale = rng.integers(1, 9), np.exp(3 * rng.normal())
        v = np.where(rng.random(T) < 0.5, 0.01, 1.0) * rng.normal(size=T)
        c, limit = scale * rng.uniform(0.3, 3, T), rng.uniform(0, 0.6, T)
        beta, x = rng.choice([0, 0.05, 1, 3]), np.zeros(T)
        fused_path(v, c, limit, beta, x, *np.zeros((3, 4 * T + 8)), *np.zeros((2, T)))
        best = total(x, v, c, limit, beta)
        # convex: no better point near it, none at all
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(6):
                run = (np.arange(T) >= rng.integers(T)) * (rng.random() < 0.5)
                move = size * rng.normal() * run + size * rng.normal(size=T) * (1 - run)
                nearby = total(x + move, v, c, limit, beta)
                assert nearby >= best - 1e-12 * (1 + best)


@pytest.mark.long
@pytest.mark.parametrize("fusion", FUSIONS)
def test_one_period_is_the_static_lasso(fusion):
    S = stream(1, T=1)
    result = changing_graphical_lasso(S, 0.1, 0.5, fusion=fusion, tol=1e-9)
    static = graphical_lasso(S[0], 0.1, penalize_diagonal=False, tol=1e-9)
    assert np.allclose(result.precisions[0], static.precision, atol=1e-3)
    assert abs(result.objective - static.objective) < 1e-7
    assert result.multipliers.shape == (0, P, P)


@pytest.mark.long
@pytest.mark.parametrize("fusion", FUSIONS)
def test_equal_periods_stay_equal(fusion):
    S = np.repeat(stream(2, T=1), 4, axis=0)
    found = changing_graphical_lasso(S, 0.1, 0.01, fusion=fusion).precisions
    assert (found == found[0]).all()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_weights_are_repeated_periods(fusion):
    S = stream(3, T=2)
    heavy = changing_graphical_lasso(
        S, 0.1, 0.05, fusion=fusion, weights=[2.0, 1.0], tol=1e-9
    )
    twice = changing_graphical_lasso(S[[0, 0, 1]], 0.1, 0.05, fusion=fusion, tol=1e-9)
    assert abs(heavy.objective - twice.objective) < 1e-6


def test_one_column():
    result = changing_graphical_lasso([[[1.0]], [[3.0]]], 0.1, 0.2)
    # the variances come as near to each other as the price allows: 1.2 and 2.8
    assert np.allclose(result.precisions.ravel(), [1 / 1.2, 1 / 2.8], atol=2e-3)
    assert result.dual_gap < 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_units_of_the_columns_do_no_harm(seed):
    units = 10.0 ** np.random.default_rng(seed).uniform(-2, 2, P)
    S = stream(seed) * np.outer(units, units)
    result = changing_graphical_lasso(S, 1e-3, 1e-3)
    assert result.dual_gap < 1e-6 * P


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_columns_of_very_unequal_units_do_not_stall(seed, spread, fusion):
    p = 20
    chain = np.eye(p) + 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
    units = 10.0 ** np.random.default_rng(seed).uniform(-spread, spread, p)
    S = [np.corrcoef(rows(chain, 300, 9 * seed + t).T) for t in range(8)]
    S = np.array(S) * np.outer(units, units)
    size = np.abs(S).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it says so where it stalls
        result = changing_graphical_lasso(S, 0.05 * size, 0.3 * size, fusion=fusion)
    assert result.dual_gap <= 1e-6 * p and result.n_iter <= 80


@pytest.mark.parametrize("fusion", ["frobenius", "columns"])
def test_long_runs_without_a_change_take_few_steps_within_a_step(fusion, monkeypatch):
    # gradients on the multipliers took more than 700 here, and most of the time
    steps, inner = [], changing._joint_groups
    spy = lambda *arguments: steps.append(inner(*arguments)) or steps[-1]
    monkeypatch.setattr(changing, "_joint_groups", spy)
    p, T = 30, 20
    chain = np.eye(p) + 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
    for seed in range(3):
        S = [np.corrcoef(rows(chain, 400, 50 * seed + t).T) for t in range(T)]
        beta = 0.5 * price_of_change([0.05] * T, p, fusion)
        steps.clear()
        result = changing_graphical_lasso(S, 0.05, beta, fusion=fusion)
        assert result.dual_gap <= 1e-6 * p and 0 < sum(steps) <= 300


@pytest.mark.parametrize("fusion", ["frobenius", "columns"])
@pytest.mark.parametrize("units", [1.0, 30.0])
def test_steps_within_a_step_end_at_their_best(fusion, units, monkeypatch):
    # the answer is held against the definition of what the step minimises
    rng, T, p = np.random.default_rng(5), 6, 5
    V = rng.normal(size=(T, p, p))
    V, c = V + V.transpose(0, 2, 1), rng.uniform(0.5, 2, T)
    metric = np.outer(*2 * [units ** rng.uniform(-1, 1, p)])
    problem = changing._Problem(V, c, 0.3 * c, 0.7, fusion, metric)
    none = np.zeros((T - 1, p, p))
    monkeypatch.setattr(changing, "_SHARE", 0.0)
    X, Z = changing._joint_step(problem, V, c, V, 1e-12, none)
    assert (X == X.transpose(0, 2, 1)).all()
    assert np.allclose(problem.projected(Z), Z, rtol=1e-12)

    def value(X):
        near = (c[:, None, None] * metric * (X - V) ** 2).sum() / 2
        return near + problem.penalty(X) + 0.7 * problem.jumps(np.diff(X, axis=0))

    best = value(X)
    for size in (1e-3, 1e-1):
        for _ in range(200):
            move = size * rng.normal(size=V.shape) * (rng.random((T, 1, 1)) < 0.5)
            assert value(X + move + move.transpose(0, 2, 1)) > best - 1e-12


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_a_period_that_is_indefinite(fusion, seed):
    S, rng = stream(seed), np.random.default_rng(seed)
    noise = rng.normal(scale=0.5, size=(P, P))
    S[2] += (noise + noise.T) / 2 * (1 - np.eye(P))
    assert np.linalg.eigvalsh(S[2])[0] < 0
    result = changing_graphical_lasso(S, 0.2, 1.0, fusion=fusion)
    assert result.dual_gap < 1e-6 * P
    assert np.linalg.eigvalsh(result.precisions).min() > 0


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_refusal_proves_itself_and_names_what_works(fusion):
    bad = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InfeasiblePeriodsError) as refused:
        changing_graphical_lasso([GOOD, bad], 0.1, 0.05, fusion=fusion)
    error = refused.value
    assert error.certificate.shape == (2, 2, 2) and 0 < error.lower_bound < error.works
    assert (
        changing_graphical_lasso([GOOD, bad], error.works, 0.05, fusion=fusion).dual_gap
        < 2e-6
    )
    with pytest.raises(InfeasiblePeriodsError):
        changing_graphical_lasso(
            [GOOD, bad], 0.99 * error.lower_bound, 0.05, fusion=fusion
        )


def test_a_variance_below_zero_is_beyond_every_alpha():
    S = [GOOD, np.diag([1.0, -0.1])]
    with pytest.raises(InfeasiblePeriodsError, match="raise beta") as refused:
        changing_graphical_lasso(S, 0.1, 0.05)
    assert refused.value.lower_bound == refused.value.works == np.inf
    assert changing_graphical_lasso(S, 0.1, 0.2).dual_gap < 2e-6


def test_too_few_steps_are_said():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        changing_graphical_lasso(stream(4), 0.02, 0.02, max_iter=2)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"S": 3}, "S"),
        ({"S": []}, "S"),
        ({"S": [GOOD, np.eye(3)]}, "S"),
        ({"S": [GOOD, [[1.0, 0.5], [0.4, 1.0]]]}, "S[1]"),
        ({"alpha": 0}, "alpha"),
        ({"beta": -1}, "beta"),
        ({"fusion": "L1"}, "fusion"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1.0, 0.0]}, "weights"),
        ({"scales": [1.0, np.nan]}, "scales"),
        ({"tol": 0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_arguments_are_named(change, argument):
    arguments = {"S": [GOOD, GOOD], "alpha": 0.1, "beta": 0.1} | change
    with pytest.raises(InputError) as refused:
        changing_graphical_lasso(**arguments)
    assert refused.value.argument == argument


def test_the_price_of_a_change_grows_with_what_is_not_known():
    base = price_of_change([0.05] * 10, 10)
    assert price_of_change([0.1] * 10, 10) == pytest.approx(2 * base)
    assert price_of_change([0.05] * 40, 10) == pytest.approx(2 * base)
    assert price_of_change([0.05] * 10, 20) > base
    assert price_of_change([0.05] * 10, 10, level=0.01) > base


@pytest.fixture(scope="module")
def releases():
    mechanism = CovarianceMechanism(mu=1.0)
    names = list("abcdef")
    return [
        mechanism.publish(pd.DataFrame(rows(x, 6000, seed), columns=names), seed)
        for seed, x in enumerate([CHAIN] * 4 + [CUT] * 4)
    ]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_releases_bring_what_is_needed(releases, fusion):
    model = TimeVaryingGraphicalLasso(fusion=fusion).fit(releases)
    assert model.columns_ == list("abcdef") and model.dual_gap_ < 1e-6 * P
    assert model.precisions_[0, 2, 3] > 0.1 and abs(model.precisions_[-1, 2, 3]) < 0.02
    changes = model.changes()
    row = changes[(changes["source"] == "c") & (changes["target"] == "d")]
    assert 4 in set(row["period"])
    assert clone(model).get_params() == model.get_params()


def test_the_estimator_refuses_what_it_cannot_read(releases):
    with pytest.raises(InputError, match="bring their own"):
        TimeVaryingGraphicalLasso(errors=[0.1] * 8).fit(releases)
    mixed = [releases[0], releases[1].select(list("bacdef"))]
    with pytest.raises(InputError, match="in one order"):
        TimeVaryingGraphicalLasso().fit(mixed)
    for given in ({}, {"alpha": 0.1}, {"beta": 0.1}):
        with pytest.raises(InputError, match="errors"):
            TimeVaryingGraphicalLasso(**given).fit([GOOD, GOOD])
    for nothing in (None, 3, "ab", []):
        with pytest.raises(InputError):
            TimeVaryingGraphicalLasso(errors=[0.1]).fit(nothing)


def test_frames_keep_their_names():
    frames = [pd.DataFrame(x, list("ab"), list("ab")) for x in (GOOD, np.eye(2))]
    model = TimeVaryingGraphicalLasso(alpha=0.01, beta=0.01).fit(frames)
    assert set(model.changes()["source"]) == {"a"}


def framed(matrix, names):
    return pd.DataFrame(matrix, list(names), list(names))


def test_frames_in_another_order_are_refused(releases):
    names = "abcdef"
    frames = [release.covariance_frame() for release in releases[:3]]
    turned = frames[1].loc[list("fbcdea"), list("fbcdea")]
    renamed = framed(frames[1].to_numpy(), "uvwxyz")
    model = TimeVaryingGraphicalLasso(errors=[0.05] * 3)
    for wrong in (turned, renamed):
        for first in (frames[0], frames[0].to_numpy()):
            with pytest.raises(InputError, match="in one order") as refused:
                model.fit([first, wrong, frames[2]])
            assert refused.value.argument == ("X[1]" if first is frames[0] else "X[2]")
    with pytest.raises(InputError, match="in one order"):
        changing_graphical_lasso([frames[0], turned], 0.1, 0.1)
    assert model.fit(frames).columns_ == list(names)
    arrays = [frames[0].to_numpy(), *frames[1:]]  # of which one has no names
    assert model.fit(arrays).columns_ == list(names)


def test_changes_before_a_fit_are_refused_as_elsewhere():
    with pytest.raises(NotFittedError):
        TimeVaryingGraphicalLasso().changes()


def test_a_watch_goes_by_name(releases, tmp_path):
    names, turned = list("abcdef"), list("dbfaec")
    plain, other = LineWatch(framed(CHAIN, names)), LineWatch(framed(CHAIN, names))
    of_an_array = LineWatch(CHAIN)  # the first release tells the names
    for t, release in enumerate(releases):
        seen = plain.update(release)
        assert other.update(release.select(turned)) == seen
        later = of_an_array.update(release.select(turned) if t else release)
        assert later[:3] == seen[:3]
    path = tmp_path / "period.parquet"
    releases[0].to_parquet(path)
    for given in (path, str(path)):
        again = LineWatch(framed(CHAIN, names)).update(given)
        assert again == plain.seen[0]
    numbered = LineWatch(pd.DataFrame(CHAIN))  # rows without names
    assert numbered.update(releases[0]) == plain.seen[0]


def test_a_watch_refuses_other_columns(releases):
    names = list("abcdef")
    error = releases[0].sampling_error()
    renamed = framed(CHAIN, "uvwxyz")
    for network in (framed(CHAIN, names), CHAIN):
        watch = LineWatch(network)
        watch.update(releases[0])
        wrong = framed(np.linalg.inv(CHAIN), "fedcba"), error
        for given in (wrong, [releases[1].select(names[:5])]):
            with pytest.raises(InputError) as refused:
                watch.update(*given)
            assert refused.value.argument == "release"
        assert watch.update(releases[1]).period == 2
    with pytest.raises(InputError, match="give .*'u'"):
        LineWatch(renamed).update(releases[0])
    with pytest.raises(InputError, match="in one order") as refused:
        LineWatch(framed(CHAIN, names), {"x": framed(CUT, "fedcba")})
    assert refused.value.argument == "alternatives['x']"


def test_a_watch_sees_the_edge_go_in_releases(releases):
    names = list("abcdef")
    watch = LineWatch(pd.DataFrame(CHAIN, names, names))
    seen = [watch.update(release) for release in releases]
    assert not seen[3].alarm and seen[-1].alarm and seen[-1].suspect == ("c", "d")
    assert seen[-1].since == 5 and seen == watch.seen


def test_an_alarm_stays():
    watch, error = LineWatch(CHAIN), SamplingError(((np.linalg.inv(CHAIN), 2000),))
    for seed, precision in enumerate([CHAIN] * 4 + [CUT] * 4 + [CHAIN] * 30):
        last = watch.update(np.cov(rows(precision, 2000, seed).T), error)
    assert last.alarm and [x.period for x in watch.seen] == list(range(1, 39))


def test_a_quiet_watch_with_real_releases():
    # were a false alarm to have probability .05, 7 of 30 happen once in a thousand
    mechanism = CovarianceMechanism(epsilon=2, delta=1e-6, clipping=Sphere(1.3))
    alarms = 0
    for night in range(30):
        watch = LineWatch(CHAIN)
        for hour in range(6):
            seed = 1000 * night + hour
            last = watch.update(mechanism.publish(rows(CHAIN, 500, seed), seed))
        alarms += last.alarm
    assert alarms < 7


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: LineWatch(-np.eye(2)), "precision"),
        (lambda: LineWatch(np.eye(2)), "alternatives"),
        (lambda: LineWatch(CHAIN, {"x": np.eye(2)}), "alternatives['x']"),
        (lambda: LineWatch(CHAIN, {"x": -CHAIN}), "alternatives['x']"),
        (lambda: LineWatch(CHAIN, level=2), "level"),
        (lambda: LineWatch(CHAIN, strength=0), "strength"),
        (lambda: LineWatch(CHAIN).update(CHAIN), "error"),
        (lambda: LineWatch(CHAIN).update(GOOD, SamplingError(((GOOD, 9),))), "release"),
    ],
)
def test_a_watch_names_bad_arguments(make, argument):
    with pytest.raises(InputError) as refused:
        make()
    assert refused.value.argument == argument


def test_nothing_is_said_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(10):
            changing_graphical_lasso(stream(seed), 0.05, 0.1)
