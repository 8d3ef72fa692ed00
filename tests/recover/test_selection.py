"""Rules that choose a graph: scikit-learn's conventions, released covariances, peers'
formulas, and every bad input."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from privglasso.base.graphs import support
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.noise_correction import CovarianceError, SamplingError
from privglasso.publish.noise_correction import correlation_scale, sample_covariance
from privglasso.publish.table import GaussianMechanism
from privglasso.recover import graph_models, selection
from privglasso.recover.estimators import PrivateGraphicalLasso
from privglasso.recover.feasibility import InfeasibleError
from privglasso.recover.metrics import confusion
from privglasso.recover.selection import EBIC, GraphFitError, Simultaneous, Stable
from privglasso.recover.selection import _half_matrices, simultaneous_alpha

TRUTH = chain_precision(8, 0.35, scales=np.ones(8))
ROWS = sample_gaussian(TRUTH, 4000, random_state=1)
# with little work
RULES = [EBIC(), Simultaneous(), Stable(halves=8, alphas=8, random_state=0)]
WITHOUT_ROWS = RULES[:2]


@pytest.mark.filterwarnings("ignore:Skipping check", "ignore:.*does not inherit")
@pytest.mark.filterwarnings("ignore:alpha_=")
@pytest.mark.parametrize(
    "rule",
    [EBIC(alphas=4), Simultaneous(), Stable(halves=2, alphas=3, random_state=0)],
)
def test_scikit_learn_conventions(rule):
    check_estimator(PrivateGraphicalLasso(rule))


# what a rule finds


@pytest.mark.parametrize("rule", RULES)
def test_the_chain_comes_back_from_a_noisy_table(rule):
    release = GaussianMechanism((-8, 8), sigma=1.0).publish(
        pd.DataFrame(ROWS, columns=list("abcdefgh")), random_state=0
    )
    model = PrivateGraphicalLasso(rule).fit(release)
    found = confusion(model.precision_, TRUTH)
    joined = rule == Simultaneous()  # which promises nothing of pairs that a path joins
    assert found.missed == 0 and found.extra <= (3 if joined else 1)
    assert model.alpha_ > 0 and list(model.graph_.nodes) == list("abcdefgh")
    np.testing.assert_allclose(
        model.covariance_ @ model.precision_, np.eye(8), atol=1e-6
    )
    assert np.isfinite(model.score(release))


@pytest.mark.parametrize("rule", WITHOUT_ROWS)
def test_the_chain_comes_back_from_a_released_covariance(rule):
    release = CovarianceMechanism((-5, 5), mu=2.0, clipping="box").publish(
        ROWS, random_state=0
    )
    model = PrivateGraphicalLasso(rule).fit(release)
    assert confusion(model.precision_, TRUTH).missed == 0
    assert list(model.graph_.nodes) == release.columns
    np.testing.assert_array_equal(
        model.corrected_covariance_, release.corrected_covariance()
    )


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=3, deadline=None)
@given(powers=st.lists(st.integers(-10, 10), min_size=8, max_size=8))
def test_units_do_not_matter(rule, powers):
    units = 2.0 ** np.array(powers)
    here, there = (PrivateGraphicalLasso(rule).fit(ROWS * by) for by in (1, units))
    np.testing.assert_array_equal(support(here.precision_), support(there.precision_))
    np.testing.assert_allclose(
        there.precision_ * np.outer(units, units), here.precision_, rtol=1e-5, atol=1e-6
    )
    assert here.alpha_ == pytest.approx(there.alpha_, rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_inputs_are_left_alone(rule):
    rows = np.asfortranarray(ROWS[:500])
    rows.flags.writeable = False
    before, model = rows.copy(), PrivateGraphicalLasso(rule)
    parameters = clone(model).get_params()
    model.fit(rows)
    np.testing.assert_array_equal(rows, before)
    assert model.get_params() == parameters


@pytest.mark.parametrize("rule", RULES)
def test_one_column_has_an_empty_graph(rule):
    for scale in (True, False):
        model = PrivateGraphicalLasso(rule, scale=scale).fit(ROWS[:, :1])
        assert model.graph_.number_of_edges() == 0 and model.precision_.shape == (1, 1)


# extended BIC


def test_without_noise_it_is_the_textbook_criterion():
    model = PrivateGraphicalLasso(EBIC(gamma=0.5)).fit(ROWS)
    row = model.ebic_results_.set_index("alpha").loc[model.alpha_]
    n, S, Theta = (
        len(ROWS),
        correlation_scale(sample_covariance(ROWS))[0],
        model.precision_,
    )
    deviation = np.sqrt(np.diag(sample_covariance(ROWS)))
    Theta = Theta * np.outer(deviation, deviation)
    likelihood = n / 2 * (np.linalg.slogdet(Theta)[1] - np.vdot(S, Theta))
    textbook = -2 * likelihood + row.n_edges * (np.log(n) + 4 * 0.5 * np.log(8))
    assert row.ebic == pytest.approx(textbook / n, rel=1e-9)
    np.testing.assert_allclose(
        (model.covariance_ - sample_covariance(ROWS))[support(Theta)], 0, atol=1e-4
    )


def test_a_larger_gamma_never_adds_edges():
    release = CovarianceMechanism((-5, 5), mu=1.0, clipping="box").publish(
        ROWS, random_state=3
    )
    edges = [
        len(PrivateGraphicalLasso(EBIC(gamma)).fit(release).edges_)
        for gamma in (0, 0.5, 1, 5, 1000)
    ]
    assert edges == sorted(edges, reverse=True) and edges[-1] == 0


def test_the_densest_graph_is_announced():
    with pytest.warns(UserWarning, match="densest tried"):
        PrivateGraphicalLasso(EBIC(0, alphas=[0.5, 0.3])).fit(ROWS)


# simultaneous


def test_simultaneous_alpha_is_bonferroni():
    variance = np.array([[0.0, 0.01, 0.04], [0.01, 0.0, 0.01], [0.04, 0.01, 0.0]])
    assert simultaneous_alpha(variance, 0.1) == pytest.approx(
        0.2 * norm.isf(0.1 / 6), rel=1e-12
    )
    assert simultaneous_alpha(np.diag([0.0, 0.01])) == pytest.approx(
        0.1 * norm.isf(0.025), rel=1e-12
    )
    assert simultaneous_alpha([[0.0]]) == 0
    for bad, level in (
        ([[0.0, -1.0], [-1.0, 0.0]], 0.05),
        ([[0.0, 1.0]], 0.05),
        (variance, 0),
        (variance, 1),
    ):
        with pytest.raises(InputError):
            simultaneous_alpha(bad, level)


def test_alpha_grows_with_noise_and_shrinks_with_rows():
    noise = np.random.default_rng(0).normal(size=ROWS.shape)
    quiet, loud = (
        PrivateGraphicalLasso(Simultaneous(), noise_variance=v).fit(rows).alpha_
        for v, rows in ((0.0, ROWS), (1.0, ROWS + noise))
    )
    assert loud > 1.5 * quiet
    fewer = PrivateGraphicalLasso(Simultaneous()).fit(ROWS[:1000]).alpha_
    assert fewer == pytest.approx(2 * quiet, rel=0.1)


def test_no_solution_names_an_alpha_that_has_one():
    S = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]])
    release = SimpleNamespace(
        corrected_covariance=lambda: S,
        sampling_error=lambda: SamplingError(((np.eye(3), 10**6),)),
        n=10**6,
        columns=list("abc"),
        location=np.zeros(3),
        noise_variance=np.zeros(3),
    )
    with pytest.raises(InfeasibleError) as caught:
        PrivateGraphicalLasso(Simultaneous()).fit(release)
    assert PrivateGraphicalLasso(caught.value.works).fit(release).dual_gap_ < 1e-3


# stability


def test_the_bound_is_meinshausen_and_buhlmanns():
    rule = Stable(2.0, threshold=0.8, halves=10, random_state=0)
    model = PrivateGraphicalLasso(rule).fit(ROWS)
    q = np.sqrt(model.false_edges_bound_ * 0.6 * 28)
    assert model.false_edges_bound_ <= 2.0 and q <= np.sqrt(0.6 * 28 * 2)
    frequency = model.selection_frequency_
    np.testing.assert_array_equal(frequency, frequency.T)
    assert ((frequency >= 0) & (frequency <= 1)).all() and (
        np.diag(frequency) == 0
    ).all()
    np.testing.assert_array_equal(support(model.precision_), frequency >= 0.8)


def test_halves_are_those_of_the_seed():
    one, same, other = (
        PrivateGraphicalLasso(Stable(halves=6, alphas=6, random_state=seed)).fit(
            ROWS[:200]
        )
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.selection_frequency_, same.selection_frequency_)
    assert (one.selection_frequency_ != other.selection_frequency_).any()


def test_halves_come_in_pairs_without_a_common_row():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 2)))
    matrices = _half_matrices(X, np.zeros(2), False, 5, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    assert len(matrices) == 6  # an odd number is raised by one
    for first, second in zip(matrices[::2], matrices[1::2], strict=True):
        order = rng.permutation(9)
        for matrix, chosen in ((first, order[:4]), (second, order[4:8])):
            np.testing.assert_allclose(
                matrix, np.cov(X.to_numpy()[chosen].T, bias=True), rtol=1e-12
            )


def test_penalties_that_are_all_too_small_are_no_empty_graph():
    for alphas in ([1e-6], [1e-6, 1e-5]):
        with pytest.raises(InputError, match="give larger ones"):
            rule = Stable(alphas=alphas, halves=4, random_state=0)
            PrivateGraphicalLasso(rule).fit(ROWS[:200])
    with pytest.raises(InputError, match="some half has no solution"):
        rule = Stable(1e6, alphas=[1e-6], halves=4, random_state=3)
        PrivateGraphicalLasso(rule, noise_variance=0.2).fit(ROWS[:20])


def test_false_edges_keep_the_bound():
    """Independent columns, where the theorem's assumptions hold: at most 1 false edge
    on average, over 40 tables."""
    false = [
        len(
            PrivateGraphicalLasso(
                Stable(1.0, threshold=0.6, halves=20, random_state=seed)
            )
            .fit(np.random.default_rng([seed, 9]).normal(size=(80, 10)))
            .edges_
        )
        for seed in range(40)
    ]
    assert np.mean(false) < 1.0 + 3 / np.sqrt(
        40
    )  # three standard errors of a Poisson count of mean 1


# bad input


@pytest.mark.parametrize(
    "rule, bad",
    [
        (
            EBIC,
            [
                ("gamma", -0.1),
                ("gamma", "1"),
                ("alphas", 1),
                ("alphas", []),
                ("alphas", [0.1, -0.1]),
            ],
        ),
        (
            Simultaneous,
            [("level", 0), ("level", None)],
        ),
        (
            Stable,
            [
                ("false_edges", 0),
                ("threshold", 0.5),
                ("threshold", 1.0),
                ("halves", 1),
                ("alphas", 0),
                ("random_state", "x"),
            ],
        ),
    ],
)
def test_bad_parameters(rule, bad):
    for name, value in bad:
        with pytest.raises(InputError) as caught:
            PrivateGraphicalLasso(rule(**{name: value})).fit(ROWS)
        assert caught.value.argument == name


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "name, value",
    [
        ("solver", "magic"),
        ("scale", "units"),
        ("tol", 0),
        ("noise_variance", -1.0),
        ("noise_variance", np.ones(9)),
    ],
)
def test_bad_settings_of_the_estimator(rule, name, value):
    with pytest.raises(InputError) as caught:
        PrivateGraphicalLasso(rule, **{name: value}).fit(ROWS)
    assert caught.value.argument == name


def test_bad_tables():
    for rule in RULES:
        with pytest.raises(CovarianceError, match="constant"):
            PrivateGraphicalLasso(rule).fit(
                pd.DataFrame(ROWS[:50]).assign(flat=1.0).rename(columns=str)
            )
        with pytest.raises(CovarianceError, match="noise"):
            PrivateGraphicalLasso(rule, noise_variance=100.0).fit(ROWS)
        with pytest.raises(ValueError, match="NaN"):
            PrivateGraphicalLasso(rule).fit(ROWS[:50] * np.nan)
    with pytest.raises(InputError, match="at least 4"):
        PrivateGraphicalLasso(RULES[2]).fit(ROWS[:3])
    halves = np.r_[np.zeros(19), 5.0]
    with pytest.raises(CovarianceError, match="half of the rows"):
        model = PrivateGraphicalLasso(Stable(random_state=0))
        model.fit(np.c_[ROWS[:20, :2], halves])


def test_two_rows_have_correlations_of_one():
    "Which have no error, up to rounding: the variances are symmetric and nonnegative."
    for seed in range(20):
        rows = np.random.default_rng(seed).normal(size=(2, 6))
        error = SamplingError(((sample_covariance(rows), 2),))
        variance = error.correlation_variance(sample_covariance(rows))
        assert 0 <= simultaneous_alpha(variance) < 1e-6


def test_a_graph_without_an_estimate_is_an_error_with_a_remedy():
    error = GraphFitError(0.25, 7)
    assert (
        error.alpha == 0.25 and "7 edges" in str(error) and "Lasso(0.25)" in str(error)
    )


def test_no_graph_on_the_path_can_be_fitted():
    S = np.array([[1.0, 1.2], [1.2, 1.0]])
    release = SimpleNamespace(
        corrected_covariance=lambda: S,
        sampling_error=lambda: SamplingError(((S, 100),)),
        n=100,
        columns=["a", "b"],
        location=np.zeros(2),
        noise_variance=np.zeros(2),
    )
    with pytest.raises(InputError, match="alphas="):
        PrivateGraphicalLasso(EBIC(alphas=[0.5, 0.3])).fit(release)
    assert (
        len(PrivateGraphicalLasso(EBIC()).fit(release).edges_) == 0
    )  # the empty graph has a model


def test_stability_stops_at_the_number_of_edges_that_its_bound_allows(monkeypatch):
    "Of q edges at a time at most q²/((2π - 1)p(p - 1)/2) are expected to be false."
    seen = []
    walk = lambda halves, alphas, most, options: seen.append(most)
    monkeypatch.setattr(selection, "_frequencies", walk)
    rows = np.random.default_rng(0).normal(size=(60, 5))
    model = PrivateGraphicalLasso(Stable(false_edges=2, threshold=0.8))
    with pytest.raises(InputError):
        model.fit(rows)
    assert seen == [pytest.approx(np.sqrt((2 * 0.8 - 1) * 2 * 10))]


def test_a_wide_walk_needs_no_threshold_and_holds_no_dense_solutions(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(300, 40))
    rows[:, 1::2] += rows[:, ::2]
    expected = PrivateGraphicalLasso(EBIC()).fit(rows)
    kept, walked = [], selection.solvable_path

    def seen(*asked):
        path = walked(*asked)
        kept.extend(vars(result) for result in path.values())
        return path

    monkeypatch.setattr(selection, "_SEARCHED", 39)
    monkeypatch.setattr(graph_models, "_WIDE", 39)
    monkeypatch.setattr(selection, "surely_solvable", None)
    for name, value in {"_IN_PIECES": 39, "_LEAST_WORK": 0}.items():
        monkeypatch.setattr(f"privglasso.recover.graphical_lasso.{name}", value)
    monkeypatch.setattr(selection, "solvable_path", seen)
    model = PrivateGraphicalLasso(EBIC()).fit(rows)
    assert model.edges_[["source", "target"]].equals(
        expected.edges_[["source", "target"]]
    )
    assert np.allclose(model.precision_, expected.precision_, atol=1e-4)
    pieces = [each for each in kept if "_precision" in each]
    assert len(pieces) > 3 and not any("precision" in each for each in pieces)
