"Which mechanism is recommended, and what is expected of it."

import math

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.schema import Schema
from privglasso.publish.screened_weights import ScreenedGraphMechanism
from privglasso.recover import planning, recommendation
from privglasso.recover.recommendation import WANTED, level_share, recommend
from privglasso.recover.recommendation import reference_chain, smallest_tested
from privglasso.start.advice import epsilon_rows


@pytest.mark.long
@pytest.mark.parametrize("p", [1, 2, 3, 20, 310])
@pytest.mark.parametrize("want", WANTED)
def test_every_shape_has_an_answer_in_words(p, want):
    for n, epsilon in ((2, 0.01), (500, 1.0), (10**6, 10.0)):
        best = recommend(n, p, want=want, epsilon=epsilon)
        said = str(best)  # what would be enough is searched for every time
        assert said.startswith((best.name, "nothing works"))
        remedy = "For 95 %" in said or "No number" in said
        assert best.works == (not remedy)


def test_the_first_of_equals_is_recommended_and_the_best_otherwise():
    assert recommendation._first_near({"a": 0.90, "b": 0.94}, 0.05) == "a"
    assert recommendation._first_near({"a": 0.90, "b": 0.96}, 0.05) == "b"
    assert recommendation._first_near({"a": math.nan, "b": math.nan}, 0.05) == "a"


def test_the_order_expected_is_that_of_simulated_correlations():
    correlations, graph = reference_chain(4)
    variance = np.full((4, 4), 0.03)
    above, edge = np.triu_indices(4, 1), graph[np.triu_indices(4, 1)]
    rng = np.random.default_rng(0)
    seen = np.abs(
        correlations[above] + math.sqrt(0.03) * rng.standard_normal((20_000, 6))
    )
    wins = (seen[:, edge][:, :, None] > seen[:, ~edge][:, None]).mean()
    # the 20 000 means of nine comparisons have a deviation of at most 0.5
    expected = recommendation._order(correlations, variance, graph)
    assert expected == pytest.approx(wins, abs=5 * 0.5 / math.sqrt(20_000))
    assert abs(expected * 1.1 - wins) > 5 * 0.5 / math.sqrt(20_000)


def test_levels_show_less_of_a_column_as_simulated():
    z = np.random.default_rng(1).standard_normal(400_000)
    for levels in (2, 3, 5, 9):
        cut = np.digitize(z, np.linspace(-2, 2, levels + 1)[1:-1])
        means = np.array([z[cut == k].mean() for k in range(levels)])
        assert level_share(levels) == pytest.approx(means[cut].var(), abs=0.01)


def test_a_recommendation_never_rests_on_what_no_public_number_tells():
    "Neither elliptical rows nor trees nor known medians are taken for granted."
    schema = Schema({name: {"kind": "integer", "low": 1, "high": 5} for name in "abcd"})
    untold = [want for want in WANTED if want not in ("tree", "exact")]
    for known in ({}, {"bounds": (0, 1)}, {"gaps": True}, {"schema": schema}):
        for want in ("graph", "rows") if "gaps" in known else untold:
            for n, epsilon in ((300, 0.5), (1000, 3.0), (10**5, 1.0)):
                best = recommend(n, 4, want=want, epsilon=epsilon, **known)
                assert {best.name, *best.others} <= {
                    *("covariance", "kendall", "box", "synthetic", "copula", "table")
                }
                assert getattr(best.mechanism, "clipping", None) in (None, "box")
                assert best.name != "kendall" or not {"gaps", "schema"} & set(known)


def test_what_is_enough_is_enough_and_hardly_more():
    for words in ({"epsilon": 0.3}, {"mu": 0.05}, {"epsilon": 0.3, "delta": 1e-6}):
        best = recommend(1000, 10, **words)
        records, epsilon = best.enough()
        sizes = [int(share * records) for share in (1, 0.97)]
        at = [best.best_at(size, best.epsilon) for size in sizes]
        assert at[0] >= 0.95 > at[1]
        at = [best.best_at(1000, share * epsilon) for share in (1, 0.97)]
        assert at[0] >= 0.95 > at[1]


def test_a_recommended_mechanism_promises_what_was_asked_for():
    for want in WANTED:
        for words in ({"epsilon": 1.0, "delta": 1e-8}, {"mu": 0.3}):
            made = recommend(10_000, 5, want=want, **words).mechanism
            guarantee = made.guarantee(10_000, 5)
            if "mu" in words:
                assert guarantee.mu <= 0.3 * (1 + 1e-9)
            else:
                assert guarantee.epsilon(1e-8) <= 1 + 1e-6


def test_what_cannot_be_had_where_cells_are_missing_is_refused():
    for want in ("margins", "tree"):
        with pytest.raises(InputError) as caught:
            recommend(1000, 3, epsilon=1.0, want=want, gaps=True)
        assert caught.value.argument == "want"


def test_what_a_screen_tests_falls_with_records_and_rises_with_power():
    screen = ScreenedGraphMechanism(epsilon=1.0, delta=1e-8)
    least = [smallest_tested(screen, n, 60) for n in (2000, 4000, 12_000, 48_000)]
    assert least[0] == math.inf and 0.02 < least[3] < least[2] < least[1] < 0.5
    assert smallest_tested(screen, 12_000, 60, power=0.5) < least[2]
    asked = smallest_tested(screen, 12_000, 60, power=0.999)
    assert asked > least[2]  # or infinite, where fewer are selected


def test_every_epsilon_has_a_mechanism_for_many_columns():
    rows = epsilon_rows(10_000, 60, epsilons=(0.1, 0.5, 3.0))
    names = [row["mechanism"] for row in rows]
    assert names == ["covariance", "screened", "covariance"]
    least = [row["smallest_partial_correlation"] for row in rows]
    assert least[0] == math.inf and 0 < least[2] < least[1] < 0.5


def test_the_chain_is_the_inverse_of_its_precision():
    for p, seen in ((2, 1.0), (7, np.linspace(0.5, 1, 7)), (60, 0.8)):
        correlations, graph = reference_chain(p, seen)
        covariance = np.linalg.inv(np.eye(p) - recommendation.REFERENCE * graph)
        size = np.sqrt(np.diag(covariance)) / np.broadcast_to(seen, (p,))
        expected = covariance / np.outer(size, size)
        np.fill_diagonal(expected, 1.0)
        assert np.abs(correlations - expected).max() < 1e-14


@pytest.mark.parametrize("n", [20_000, 60_000])
def test_shorter_chains_stand_for_a_very_long_one(n, monkeypatch):
    made = CovarianceMechanism(epsilon=1.0, delta=1e-10)
    box = CovarianceMechanism((-4, 4), clipping="box", mu=3.0)
    short = [recommendation.expected_auc(each, n, 400) for each in (made, box)]
    monkeypatch.setattr(planning, "_ENOUGH", 400)
    whole = [recommendation.expected_auc(each, n, 400) for each in (made, box)]
    assert short != whole and short == pytest.approx(whole, abs=2e-3)
    assert 0.55 < min(whole) < max(whole) < 1


@pytest.mark.long
def test_a_race_of_a_few_columns_stands_for_that_of_many(monkeypatch):
    screen = ScreenedGraphMechanism(epsilon=1.0, delta=1e-10)
    told = []
    for enough in (128, 400):
        monkeypatch.setattr(planning, "_ENOUGH", enough)
        recommendation._run.cache_clear()
        told.append(recommendation.expected_recovery(screen, 15_000, 400))
    recommendation._run.cache_clear()
    assert told[0] != told[1] and np.allclose(*told, atol=0.06)
    assert 0.7 < told[1].auc < 0.99


def test_plans_of_many_columns_make_no_matrix_of_all_pairs_and_race_once(monkeypatch):
    raced, rehearse = [], ScreenedGraphMechanism.rehearse

    def seen(self, correlations, *args, **words):
        raced.append(len(correlations))
        return rehearse(self, correlations, *args, **words)

    monkeypatch.setattr(ScreenedGraphMechanism, "rehearse", seen)
    (row,) = epsilon_rows(100_000, 5000, epsilons=(1.0,))
    assert row["mechanism"] == "screened" and 0.6 < row["auc"] < 0.8
    assert raced == [256]
    few = ScreenedGraphMechanism(edges=2, epsilon=1.0, delta=1e-10)
    assert 0 <= recommendation.expected_recovery(few, 100_000, 1000).found <= 1
