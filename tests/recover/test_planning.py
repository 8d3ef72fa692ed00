"""Planning a release: what the chapter does not show."""

import inspect
import math
import tracemalloc
from functools import partial
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privglasso.base import graphs
from privglasso.base.validation import InputError
from privglasso.publish import shape
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.noise_correction import SamplingError
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.recover.planning import (
    MECHANISM_STYLES,
    MECHANISMS,
    assumed_covariance,
    epsilon_needed,
    largest_noise,
    least_enough,
    plan,
    plan_over,
    plan_rows,
    plot_plan,
    records_needed,
    resolution,
    standing_for_all,
)

KINDS = {name: partial(kind, (0, 1)) for name, kind in MECHANISMS.items()}


@pytest.mark.parametrize(
    "name, neighbors",
    [("table", "cell"), ("covariance", "record"), ("synthetic", "record")],
)
def test_a_plan_promises_what_the_release_promises(name, neighbors):
    mechanism = KINDS[name](neighbors=neighbors, epsilon=3, delta=1e-6)
    row = plan(mechanism, 400, 3, delta=1e-6).iloc[0]
    release = mechanism.publish(
        np.random.default_rng(0).uniform(size=(400, 3)), random_state=0
    )
    assert (
        row.mu == release.guarantee.mu
        and row.epsilon == pytest.approx(3, rel=1e-6)
        and row.epsilon <= 3 + 1e-9
    )
    assert row.neighbors == neighbors and row.delta == 1e-6 and row.noise_std > 0


def test_no_argument_of_a_plan_can_carry_data():
    for function in (plan, epsilon_needed, records_needed, plan_over):
        assert {"X", "table", "data"}.isdisjoint(inspect.signature(function).parameters)


def test_mechanisms_by_name_in_a_list_or_alone():
    one, other = KINDS["table"](mu=1), KINDS["table"](mu=2)
    assert plan(one, 100, 3).mechanism.tolist() == ["GaussianMechanism"]
    assert plan([one, other], 100, 3).mechanism.tolist() == [
        "GaussianMechanism 1",
        "GaussianMechanism 2",
    ]
    assert plan({"a": one, "b": other}, 100, 3).mechanism.tolist() == ["a", "b"]
    whole = DiscreteGaussianMechanism((1, 5), neighbors="cell", sigma=2.0)
    assert plan((one, whole), 100, 3).mechanism.tolist() == [
        "GaussianMechanism",
        "DiscreteGaussianMechanism",
    ]


# properties

budgets = st.floats(0.05, 50)


@settings(deadline=None, max_examples=25)
@given(
    name=st.sampled_from(sorted(KINDS)),
    mu=budgets,
    n=st.integers(50, 10**6),
    p=st.integers(2, 8),
)
def test_more_budget_and_more_records_never_hurt(name, mu, n, p):
    here = plan(KINDS[name](mu=mu), n, p).iloc[0]
    for better in (
        plan(KINDS[name](mu=1.5 * mu), n, p).iloc[0],
        plan(KINDS[name](mu=mu), 2 * n, p).iloc[0],
    ):
        assert (
            better.smallest_partial_correlation
            <= here.smallest_partial_correlation * (1 + 1e-3)
        )
        assert better.effective_n >= here.effective_n * (1 - 1e-3)
    assert here.effective_n <= n * (1 + 1e-9)


@settings(deadline=None, max_examples=25)
@given(name=st.sampled_from(sorted(KINDS)), mu=budgets, unit=st.integers(-20, 20))
def test_units_change_nothing(name, mu, unit):
    columns = ["effective_n", "correlation_error", "smallest_partial_correlation", "mu"]
    scale = 2.0**unit
    ours = plan(KINDS[name](mu=mu), 1000, 4)[columns]
    theirs = plan(MECHANISMS[name]((0, scale), mu=mu), 1000, 4)[columns]
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    p=st.integers(2, 30),
    n=st.integers(100, 10**6),
    level=st.floats(0.001, 0.5),
    power=st.floats(0.1, 0.99),
)
def test_raw_data_have_the_textbook_resolution(p, n, level, power):
    found = resolution(SamplingError(((np.eye(p), n),)), np.eye(p), level, power)
    threshold = norm.isf(level / 2 / (p * (p - 1) / 2))  # two sides, all pairs
    expected = (threshold + norm.ppf(power)) / math.sqrt(n)
    assert found["smallest_partial_correlation"] == pytest.approx(
        expected if expected < 1 else math.inf, rel=1e-9
    )
    assert found["effective_n"] == pytest.approx(n)


def test_a_power_that_false_alarms_alone_reach_asks_for_no_size():
    found = resolution(
        SamplingError(((np.eye(2), 100),)), np.eye(2), level=0.5, power=0.1
    )
    assert found["smallest_partial_correlation"] == 0  # below 0 by the formula


def test_the_noise_of_a_covariance_adds_its_variance_and_the_worst_pair_counts():
    noise = np.zeros((3, 3))
    noise[0, 2] = noise[2, 0] = 0.02
    found = resolution(SamplingError(((np.eye(3), 10_000),), noise), np.eye(3))
    assert found["correlation_error"] == pytest.approx(math.sqrt(1e-4 + 0.02))
    assert found["covariance_error"] == pytest.approx(math.sqrt(1e-4 + 0.02))
    assert found["effective_n"] == pytest.approx(1 / (1e-4 + 0.02))


# edge cases


def test_one_column_has_no_pairs_and_two_records_find_nothing():
    row = plan(KINDS["table"](mu=1), 100, 1).iloc[0]
    assert math.isnan(row.smallest_partial_correlation) and 0 < row.effective_n < 100
    few = plan(KINDS["covariance"](mu=1), 2, 2)
    assert few.smallest_partial_correlation[0] == math.inf


def test_bounds_of_each_column():
    low, high = np.zeros(3), np.array([1.0, 2.0, 30.0])
    wide, same = MECHANISMS["table"]((low, high), mu=1), KINDS["table"](mu=1)
    assert np.allclose(assumed_covariance(wide, 3, 0.1), np.diag((0.1 * high) ** 2))
    columns = ["effective_n", "correlation_error"]
    pd.testing.assert_frame_equal(
        plan(wide, 1000, 3)[columns], plan(same, 1000, 3)[columns], rtol=1e-3
    )


def test_a_norm_bound_stands_for_its_cube():
    ball = CovarianceMechanism(norm_bound=2.0, mu=1)
    assert np.allclose(
        assumed_covariance(ball, 4, 0.125), (0.125 * 2.0) ** 2 * np.eye(4)
    )
    assert 0 < plan(ball, 10_000, 4).effective_n[0] < 10_000


def test_an_assumed_covariance_of_any_kind_is_left_alone():
    fixed = np.eye(2)
    fixed.setflags(write=False)
    for covariance in (np.eye(2).tolist(), pd.DataFrame(np.eye(2)), fixed):
        planned = plan(KINDS["table"](mu=5), 1000, 2, covariance=covariance)
        assert planned.effective_n[0] > 0
    assert (fixed == np.eye(2)).all()


# inverse questions


def found(name, epsilon, n, p):
    "The smallest partial correlation of a plan."
    make = KINDS[name](epsilon=epsilon, delta=n**-2.0)
    return plan(make, n, p).smallest_partial_correlation[0]


def test_the_epsilon_needed_is_the_least():
    for name in KINDS:
        epsilon = epsilon_needed(KINDS[name], 20_000, 5, 0.15)
        at = [found(name, share * epsilon, 20_000, 5) for share in (1, 0.99)]
        assert at[0] <= 0.15 < at[1]


def test_the_records_needed_are_the_least():
    for name in ("covariance", "synthetic"):
        n = records_needed(KINDS[name], 5, 0.15, epsilon=1)
        at = [found(name, 1, k, 5) for k in (int(n), int(0.99 * n))]
        assert at[0] <= 0.15 < at[1] and n == int(n)


def test_what_cannot_be_reached_is_infinite_and_the_least_epsilon_is_a_thousandth():
    # raw data would not do either
    assert epsilon_needed(KINDS["table"], 100, 5, 0.01) == math.inf
    assert records_needed(KINDS["table"], 50, 0.001, epsilon=0.01) == math.inf
    assert epsilon_needed(KINDS["covariance"], 10**11, 2, 0.99) == pytest.approx(1e-3)


def halving(size, target, low, high, width=1e-5):
    "Where the least sufficient 10^x is, by halving the interval throughout."
    if size(10**high) > target:
        return math.inf
    if size(10**low) <= target:
        return 10**low
    while high - low > width:
        middle = (low + high) / 2
        enough = size(10**middle) <= target
        low, high = (low, middle) if enough else (middle, high)
    return 10**high


FALLING = {
    "noise alone": lambda x: 40 / x,
    "noise and rows": lambda x: math.sqrt(3 / x + 2e5 / x**2),
    "a floor": lambda x: 0.003 + 90 / x**2,
    "none below a jump": lambda x: math.inf if x < 3456.789 else 1e-4 / x,
    "whole numbers": lambda x: 20 / math.ceil(x),
    "stairs": lambda x: 2.0 ** -round(math.log2(x)),
    "nothing to be found": lambda x: 0.0,
}


@pytest.mark.parametrize("name", FALLING)
def test_the_search_ends_where_halving_ends(name):
    for target in (0.0031, 0.01, 0.07, 0.5, 3.0, 1e-9):
        for start in (0.5, 4.0, 11.0):
            size = Mock(side_effect=FALLING[name])
            low, high = math.log10(2), 12.0
            found = least_enough(size, target, low, high, start)
            assert found == halving(FALLING[name], target, low, high)
            assert size.call_count <= (15 if name.startswith("noise") else 60)


# bad input

TABLE = KINDS["table"](mu=1)


PLANS = [
    ({"mechanisms": []}, "mechanisms"),
    ({"mechanisms": {}}, "mechanisms"),
    ({"mechanisms": None}, "mechanisms"),
    ({"mechanisms": "table"}, "mechanisms"),
    ({"mechanisms": {"a": 3}}, "mechanisms"),
    ({"n": 1}, "n"),
    ({"n": 10.0}, "n"),
    ({"p": 0}, "p"),
    ({"delta": 1}, "delta"),
    ({"level": 0}, "level"),
    ({"power": 1}, "power"),
    ({"spread": 0}, "spread"),
    ({"spread": math.nan}, "spread"),
    ({"covariance": np.eye(2)}, "covariance"),
    ({"covariance": -np.eye(3)}, "covariance"),
    ({"covariance": [[1, 0, 0], [0, 1, 0.5], [0, 0, 1]]}, "covariance"),
    ({"covariance": np.full((3, 3), np.nan)}, "covariance"),
    ({"mechanisms": GaussianMechanism(([0, 0], [1, 1]), mu=1)}, "bounds"),
]
TABLE_KIND = KINDS["table"]
QUESTIONS = [
    (lambda: assumed_covariance(GaussianMechanism(([0, 0], [1, 1]), mu=1), 3), "p"),
    (lambda: resolution(SamplingError(((np.eye(3), 10),)), np.eye(2)), "covariance"),
    (lambda: epsilon_needed(TABLE_KIND, 100, 3, 0), "partial_correlation"),
    (lambda: epsilon_needed(TABLE_KIND, 1, 3, 0.1), "n"),
    (lambda: epsilon_needed(TABLE_KIND, 100, 3, 0.1, delta=2), "delta"),
    (lambda: records_needed(TABLE_KIND, 3, 0.1, epsilon=-1), "epsilon"),
    (lambda: records_needed(TABLE_KIND, 3, "0.1", 1), "partial_correlation"),
    (lambda: plan_over(KINDS, [100, 1], 3), "ns"),
    (lambda: plan_over(KINDS, [], 3), "ns, epsilons"),
    (lambda: plan_over(KINDS, [100], 3, epsilons=()), "ns, epsilons"),
    # one column has no pairs: neither an ε nor a number is enough
    (lambda: epsilon_needed(TABLE_KIND, 100, 1, 0.1), "p"),
    (lambda: records_needed(TABLE_KIND, 1, 0.1, epsilon=1), "p"),
]


def test_bad_input_is_named():
    usual = {"mechanisms": TABLE, "n": 100, "p": 3}
    calls = [(partial(plan, **(usual | changed)), name) for changed, name in PLANS]
    for call, argument in calls + QUESTIONS:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.argument == argument


# the picture


def test_the_picture_has_a_panel_for_each_epsilon_and_a_line_for_each_mechanism():
    plans = plan_over(KINDS, [1000, 10_000, 100_000], 5, epsilons=(0.5, 2.0, 8.0))
    assert len(plans) == 27 and plans.n.iloc[0] == 1000
    axes = plot_plan(plans, 5)
    assert [ax.get_title() for ax in axes] == ["ε = 0.5", "ε = 2", "ε = 8"]
    labels = [text.get_text() for text in axes[-1].get_legend().get_texts()]
    assert labels == [*MECHANISM_STYLES, "raw data"]
    assert [text.get_text() for text in axes[0].texts] == [
        "table: finds nothing",
        "nothing can be found",
    ]
    lines = {line.get_label(): line.get_ydata() for line in axes[-1].get_lines()}
    assert (lines["raw data"] <= lines["covariance"]).all() and (
        lines["covariance"] <= lines["synthetic"]
    ).all()


def test_other_mechanisms_can_be_drawn_too():
    plans = plan_over(
        {"mine": KINDS["covariance"]}, [10_000, 100_000], 3, epsilons=(1,)
    )
    (ax,) = plot_plan(plans, 3)
    assert ax.get_legend().get_texts()[0].get_text() == "mine"


def test_the_plan_of_a_wide_table_needs_no_products_of_its_size(monkeypatch):
    "What is found at once for independent columns is what the long way finds."
    n, p, words = 60_000, 203, {"epsilon": 1.0, "delta": 1e-10}
    kinds = (CovarianceMechanism, SyntheticDataMechanism)
    made = {"copula": CopulaMechanism(**words)}
    made |= {f"{kind.__name__}": kind(**words) for kind in kinds}
    made |= {f"{kind.__name__}, bounds": kind((0, 1), **words) for kind in kinds}
    with monkeypatch.context() as patch:
        for module in (graphs, shape):
            patch.setattr(module, "WIDE", 10**9)
        long = plan_rows(made, n, p)

    def refused(matrix, *args):
        assert len(matrix) < p
        return np.zeros(len(matrix))

    for name in ("eigh", "eigvalsh", "inv", "cholesky"):
        monkeypatch.setattr(np.linalg, name, refused)
    short = plan_rows(made, n, p)
    for name, row in long.items():
        numbers = {k: v for k, v in row.items() if not isinstance(v, str)}
        assert {k: short[name][k] for k in numbers} == pytest.approx(numbers, rel=1e-9)


WIDE = {"epsilon": 1.0, "delta": 1e-12}
ALIKE = {
    "scores": CovarianceMechanism(**WIDE),
    "box": CovarianceMechanism((-4.0, 4.0), clipping="box", **WIDE),
    "sphere": CovarianceMechanism(clipping="sphere", **WIDE),
    "rows": SyntheticDataMechanism(**WIDE),
    "cells": GaussianMechanism((0, 1), **WIDE),
}


def test_a_plan_of_very_many_columns_holds_no_matrix_of_all_pairs():
    n, p = 10**6, 3000
    made = {name: ALIKE[name] for name in ("scores", "box", "cells")}
    plan_rows(made, n, 2)  # loads what is loaded late
    tracemalloc.start()
    try:
        plan_rows(made, n, p)
        assert tracemalloc.get_traced_memory()[1] < 8 * p**2 / 2
    finally:
        tracemalloc.stop()


def test_a_few_columns_tell_what_all_that_are_alike_would():
    n, p = 10**6, 300
    few = plan_rows(ALIKE, n, p)
    for name, made in ALIKE.items():
        assert standing_for_all(made, p) < p
        stated = assumed_covariance(made, p)
        whole = plan_rows({name: made}, n, p, covariance=stated)[name]
        numbers = {k: v for k, v in whole.items() if not isinstance(v, str)}
        assert {k: few[name][k] for k in numbers} == pytest.approx(numbers, rel=1e-9)


def test_columns_of_other_bounds_stand_for_themselves():
    high = np.r_[np.ones(299), 9.0]
    for made in (
        GaussianMechanism((0 * high, high), mu=1.0),
        CovarianceMechanism((0 * high, high), clipping="box", mu=1.0),
        CovarianceMechanism(norm_bound=1.0, center=high, mu=1.0),
    ):
        assert standing_for_all(made, 300) == 300
        assert largest_noise(made, 1000, 300) == made.noise_std(1000, 300).max()
