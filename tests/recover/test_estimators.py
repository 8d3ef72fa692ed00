"""The estimators: scikit-learn's rules, agreement with peers, and every bad input named."""

import inspect
import pickle
import re
import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.covariance import GraphicalLasso
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, ShuffleSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from privglasso.publish.noise_correction import CovarianceError, SamplingError
from privglasso.publish.noise_correction import correlation_scale
from privglasso.publish.noise_correction import noise_corrected_covariance
from privglasso.publish.noise_correction import sample_covariance
from privglasso.recover.estimators import PrivateGraphicalLasso, PrivateGraphicalLassoCV
from privglasso.recover.estimators import adaptive_weights
from privglasso.base.graphs import partial_correlations, support
from privglasso.publish.table import GaussianMechanism
from privglasso.recover.feasibility import InfeasibleError, min_feasible_alpha
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.base.validation import InputError

BOTH = [PrivateGraphicalLasso, PrivateGraphicalLassoCV]


def noisy_table(n=300, p=5, seed=0, ratio=1.0):
    """A chain in unequal units, noise of `ratio` times each column's variance; table and noise variance."""
    truth = chain_precision(p=p, partial_correlation=0.4)
    noise = ratio * np.diag(np.linalg.inv(truth))
    data, rng = np.random.SeedSequence(seed).spawn(2)
    X = sample_gaussian(truth, n, data)
    X += np.random.default_rng(rng).normal(size=X.shape) * np.sqrt(noise)
    return pd.DataFrame(X, columns=[f"col{j}" for j in range(p)]), noise


@parametrize_with_checks(
    [PrivateGraphicalLasso(), PrivateGraphicalLassoCV(alphas=4, cv=3)]
)
def test_scikit_learn_conventions(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", category=UserWarning, message="alpha_=|only the empty graph"
        )
        check(estimator)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("solver", ["descent", "admm", "block_descent"])
def test_is_the_graphical_lasso_of_the_corrected_matrix(
    scale, penalize_diagonal, solver
):
    table, noise = noisy_table(ratio=0.3)
    S = noise_corrected_covariance(table, noise)
    matrix, deviation = correlation_scale(S) if scale else (S, np.ones(5))
    alpha = 0.1 * np.abs(matrix - np.diag(np.diag(matrix))).max()
    model = PrivateGraphicalLasso(
        alpha,
        noise_variance=noise,
        scale=scale,
        solver=solver,
        tol=1e-8,
        penalize_diagonal=penalize_diagonal,
    ).fit(table)
    result = graphical_lasso(
        matrix, alpha, solver=solver, tol=1e-8, penalize_diagonal=penalize_diagonal
    )
    np.testing.assert_allclose(
        model.precision_ * np.outer(deviation, deviation), result.precision, rtol=1e-12
    )
    np.testing.assert_array_equal(model.precision_, model.precision_.T)
    np.testing.assert_allclose(
        model.covariance_ @ model.precision_, np.eye(5), atol=1e-8
    )
    np.testing.assert_allclose(model.corrected_covariance_, S)
    box = np.abs(model.dual_covariance_ - S) / np.outer(deviation, deviation)
    assert box.max() <= alpha * (1 + 1e-9)
    assert 0 <= model.dual_gap_ <= 1e-8 * 5 and model.n_iter_ >= 1


def test_without_noise_agrees_with_scikit_learn():
    table, _ = noisy_table(ratio=0.0)
    theirs = GraphicalLasso(alpha=0.3, tol=1e-10, enet_tol=1e-10, max_iter=1000).fit(
        table
    )
    ours = PrivateGraphicalLasso(
        alpha=0.3, scale=False, penalize_diagonal=False, tol=1e-12
    ).fit(table)
    np.testing.assert_allclose(ours.precision_, theirs.precision_, atol=1e-5)
    np.testing.assert_allclose(
        ours.score(table.iloc[:50]), theirs.score(table.iloc[:50]), atol=1e-4
    )
    np.testing.assert_allclose(ours.location_, theirs.location_)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(-15, 15), min_size=5, max_size=5))
def test_units_do_not_matter_with_scale(seed, powers):
    table, noise = noisy_table(seed=seed, n=1000)
    units = 2.0 ** np.array(powers)
    here = PrivateGraphicalLasso(alpha=0.2, noise_variance=noise).fit(table)
    there = PrivateGraphicalLasso(alpha=0.2, noise_variance=noise * units**2).fit(
        table * units
    )
    np.testing.assert_allclose(
        partial_correlations(here.precision_),
        partial_correlations(there.precision_),
        atol=1e-6,
    )
    np.testing.assert_allclose(here.location_ * units, there.location_)
    rows = 20
    shift = here.score(table[:rows]) - there.score(table[:rows] * units)
    np.testing.assert_allclose(shift, np.log(units).sum(), atol=1e-5)


def test_units_matter_without_scale():
    table, noise = noisy_table(n=2000)
    units = np.array([1, 1, 1, 1, 1e-3])
    graphs = [
        PrivateGraphicalLasso(alpha=0.5, noise_variance=noise * u**2, scale=False)
        .fit(table * u)
        .edges_
        for u in (np.ones(5), units)
    ]
    assert (
        "col4" in graphs[0].target.tolist() and "col4" not in graphs[1].target.tolist()
    )


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(5)))
def test_order_of_columns_does_not_matter(order):
    table, noise = noisy_table(n=1000)
    model = PrivateGraphicalLasso(alpha=0.2, noise_variance=noise, tol=1e-9).fit(table)
    other = PrivateGraphicalLasso(alpha=0.2, noise_variance=noise[order], tol=1e-9).fit(
        table.iloc[:, order]
    )
    np.testing.assert_allclose(
        model.precision_[np.ix_(order, order)],
        other.precision_,
        atol=1e-4 * model.precision_.max(),
    )


@pytest.mark.parametrize("estimator", BOTH)
def test_a_release_brings_its_own_noise(estimator):
    table, noise = noisy_table()
    release = SimpleNamespace(table=table, noise_variance=noise)
    alone = estimator().fit(release)
    told = estimator(noise_variance=noise).fit(table)
    np.testing.assert_array_equal(alone.precision_, told.precision_)
    np.testing.assert_array_equal(alone.noise_variance_, noise)
    estimator(noise_variance=noise).fit(release)  # saying the same is no contradiction
    for wrong in (1.0, 2 * noise):
        with pytest.raises(InputError, match="the release says"):
            estimator(noise_variance=wrong).fit(release)
    assert alone.score(release) == alone.score(table)
    quiet = SimpleNamespace(table=table, noise_variance=0.0)
    assert alone.score(quiet) < alone.score(
        release
    )  # what a release says of itself counts


@pytest.mark.parametrize("estimator", BOTH)
def test_a_release_as_it_is_published(estimator):
    table, _ = noisy_table(n=2000, ratio=0.0)
    low, high = (
        -5 * table.std().to_numpy(),
        5 * table.std().to_numpy(),
    )  # a test may look at the data: nothing is kept
    published = GaussianMechanism((low, high), sigma=table.std().tolist()).publish(
        table, random_state=1
    )
    model = estimator().fit(published)
    np.testing.assert_array_equal(model.noise_variance_, published.noise_variance)
    np.testing.assert_allclose(
        model.corrected_covariance_, published.corrected_covariance(), rtol=1e-12
    )
    np.testing.assert_allclose(
        np.diag(model.corrected_covariance_), table.var(), rtol=0.25
    )
    assert list(model.graph_.nodes) == table.columns.tolist()
    assert {("col0", "col1"), ("col3", "col4")} <= set(
        zip(model.edges_.source, model.edges_.target, strict=True)
    )


def released_covariance(S, n=300, noise=0.0, **more):
    "What a release without rows shows of itself."
    S, p = np.asarray(S), len(S)
    columns = [f"col{j}" for j in range(p)]
    return SimpleNamespace(
        corrected_covariance=lambda: S,
        sampling_error=lambda: SamplingError(((S, n),), noise),
        n=n,
        columns=columns,
        location=np.arange(p) + 0.5,
        noise_variance=np.zeros(p),
        **more,
    )


def test_a_covariance_without_rows():
    table, noise = noisy_table(n=1000, ratio=0.3)
    S = noise_corrected_covariance(table, noise)
    release = released_covariance(S, noise=0.01)
    model, same = PrivateGraphicalLasso().fit(release), PrivateGraphicalLasso(
        noise_variance=noise
    ).fit(table)
    np.testing.assert_array_equal(model.precision_, same.precision_)
    pd.testing.assert_frame_equal(model.edges_, same.edges_)
    np.testing.assert_array_equal(model.location_, release.location)
    assert np.isfinite(model.score(table))
    with pytest.raises(InputError, match="SimpleNamespace.*PrivateGraphicalLassoEBIC"):
        PrivateGraphicalLassoCV().fit(release)
    with pytest.raises(InputError, match="no rows to score"):
        model.score(release)
    with pytest.raises(InputError, match="the release says"):
        PrivateGraphicalLasso(noise_variance=1.0).fit(release)
    with pytest.raises(CovarianceError, match="col0"):
        PrivateGraphicalLasso().fit(released_covariance(S - np.eye(5) * S[0, 0]))
    with pytest.raises(InputError, match="distinct"):
        PrivateGraphicalLasso().fit(
            SimpleNamespace(**vars(release) | {"columns": ["a"] * 5})
        )


@pytest.mark.parametrize("parts, noise", [(2, 0.0), (1, 0.01)])
def test_rows_that_share_an_error_are_not_held_out(parts, noise):
    "The covariance and its error are the release's own; its rows are not a sample of the population."
    table, _ = noisy_table(n=200, ratio=0.0)
    S = np.diag(np.diag(sample_covariance(table)))
    error = SamplingError(((S, 200),) * parts, noise)
    release = released_covariance(S, table=table)
    release.sampling_error = lambda: error
    model = PrivateGraphicalLasso(0.01).fit(release)
    assert len(model.edges_) == 0 < len(PrivateGraphicalLasso(0.01).fit(table).edges_)
    np.testing.assert_allclose(model.location_, table.mean())
    with pytest.raises(InputError, match="no independent rows"):
        PrivateGraphicalLassoCV().fit(release)
    release.sampling_error = lambda: SamplingError(((S, 200),))
    PrivateGraphicalLassoCV(cv=3).fit(release)


def test_score_takes_out_the_noise():
    truth = chain_precision(p=5, partial_correlation=0.4)
    table, noise = noisy_table(n=200_000)
    model = PrivateGraphicalLasso(alpha=0.05, noise_variance=noise).fit(table)
    population = np.linalg.slogdet(model.precision_)[1] - np.vdot(
        np.linalg.inv(truth), model.precision_
    )
    fresh, _ = noisy_table(n=200_000, seed=1)
    # five standard errors: the quadratic form of a row has standard deviation of about 8 here
    assert abs(
        model.score(fresh) - (population - 5 * np.log(2 * np.pi)) / 2
    ) < 5 * 8 / np.sqrt(200_000)
    assert np.isfinite(model.score(fresh.iloc[:1]))  # one row is enough to score


def test_graph_and_edges():
    table, noise = noisy_table(n=2000)
    model = PrivateGraphicalLasso(alpha=0.2, noise_variance=noise).fit(table)
    edges, graph, partial = (
        model.edges_,
        model.graph_,
        partial_correlations(model.precision_),
    )
    assert edges.columns.tolist() == [
        "source",
        "target",
        "partial_correlation",
        "precision",
    ]
    assert edges.partial_correlation.abs().is_monotonic_decreasing
    assert list(graph.nodes) == table.columns.tolist()
    np.testing.assert_allclose(
        nx.to_numpy_array(graph),
        np.where(support(model.precision_), partial, 0),
        rtol=1e-14,
    )
    for row in edges.itertuples():
        i, j = table.columns.get_loc(row.source), table.columns.get_loc(row.target)
        assert (row.partial_correlation, row.precision) == (
            partial[i, j],
            model.precision_[i, j],
        )


def test_empty_graph_and_single_column():
    table, noise = noisy_table()
    model = PrivateGraphicalLasso(alpha=5, noise_variance=noise).fit(table)
    assert len(model.edges_) == 0 and model.graph_.number_of_nodes() == 5
    one = PrivateGraphicalLasso(alpha=0.5, noise_variance=noise[0]).fit(table[["col0"]])
    np.testing.assert_allclose(
        one.precision_, 1 / (1.5 * one.corrected_covariance_), rtol=1e-6
    )
    assert one.graph_.number_of_edges() == 0 and len(one.edges_) == 0
    chosen = PrivateGraphicalLassoCV(noise_variance=noise[0]).fit(table[["col0"]])
    assert chosen.alpha_ < 1 and chosen.graph_.number_of_nodes() == 1


@pytest.mark.parametrize(
    "X",
    [
        np.arange(12.0).reshape(6, 2) ** 2 % 7,
        pd.DataFrame(np.eye(3), columns=[0, 1, 2]),
    ],
)
def test_columns_without_names(X):
    model = PrivateGraphicalLasso().fit(X)
    assert list(model.graph_.nodes) == [f"x{j}" for j in range(X.shape[1])]


def test_unfitted_clone_and_pickle():
    model = PrivateGraphicalLassoCV([0.1, 0.3, 0.9], cv=3, noise_variance=[1.0, 2.0])
    assert clone(model).get_params() == model.get_params()
    for question in ("graph_", "edges_"):
        with pytest.raises(NotFittedError):
            getattr(model, question)
    table, noise = noisy_table()
    fitted = PrivateGraphicalLasso(noise_variance=noise).fit(table)
    assert pickle.loads(pickle.dumps(fitted)).edges_.equals(fitted.edges_)


# weights


def test_weights_act_on_the_scale_of_alpha():
    table, noise = noisy_table(n=2000)
    weights = np.full((5, 5), 1e6)
    weights[:2, :2] = weights[3:, 3:] = 1.0
    np.fill_diagonal(weights, 1.0)
    model = PrivateGraphicalLasso(0.1, weights=weights, noise_variance=noise).fit(table)
    assert set(zip(model.edges_.source, model.edges_.target, strict=True)) == {
        ("col0", "col1"),
        ("col3", "col4"),
    }
    ones = PrivateGraphicalLasso(
        0.1, weights=np.ones((5, 5)), noise_variance=noise
    ).fit(table)
    np.testing.assert_array_equal(
        ones.precision_,
        PrivateGraphicalLasso(0.1, noise_variance=noise).fit(table).precision_,
    )
    for bad in (np.ones((4, 4)), -np.ones((5, 5)), np.full((5, 5), np.nan)):
        with pytest.raises(InputError, match="weights="):
            PrivateGraphicalLasso(0.1, weights=bad).fit(table)


def test_adaptive_weights():
    precision = chain_precision(p=5, partial_correlation=0.4)
    weights = adaptive_weights(precision, power=1)
    np.testing.assert_allclose(weights[support(precision)], 1)
    np.testing.assert_allclose(
        weights[~support(precision) & ~np.eye(5, dtype=bool)], 400
    )
    np.testing.assert_array_equal(np.diag(weights), 1)
    np.testing.assert_array_equal(adaptive_weights(precision, power=0), 1)
    np.testing.assert_array_equal(adaptive_weights(np.eye(3)), 1)
    np.testing.assert_array_equal(adaptive_weights([[2.0]]), 1)
    with pytest.raises(InputError, match="power=-1"):
        adaptive_weights(precision, -1)


# cross-validation


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "cv", [3, KFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=1)]
)
def test_same_choice_as_grid_search(cv, scale):
    table, noise = noisy_table(n=400, ratio=0.5)
    alphas = [0.4, 0.2, 0.1, 0.05] if scale else [10.0, 3.0, 1.0, 0.3]
    ours = PrivateGraphicalLassoCV(
        alphas, cv=cv, noise_variance=noise, scale=scale, tol=1e-12
    )
    theirs = GridSearchCV(
        PrivateGraphicalLasso(noise_variance=noise, scale=scale, tol=1e-12),
        {"alpha": alphas},
        cv=cv,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="alpha_=")
        ours.fit(table)
    theirs.fit(table)
    np.testing.assert_allclose(
        ours.cv_results_.mean_test_score,
        theirs.cv_results_["mean_test_score"],
        atol=2e-6,
    )
    np.testing.assert_allclose(
        ours.cv_results_.std_test_score, theirs.cv_results_["std_test_score"], atol=2e-6
    )
    assert ours.alpha_ == theirs.best_params_["alpha"]


def test_cross_validation_is_deterministic():
    table, noise = noisy_table()
    first, second = (
        PrivateGraphicalLassoCV(noise_variance=noise).fit(table) for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.cv_results_, second.cv_results_)
    np.testing.assert_array_equal(first.precision_, second.precision_)


def test_grid_ends_where_the_graph_is_empty_and_has_solutions_everywhere():
    table, noise = noisy_table(n=60, seed=4, ratio=0.8)
    model = PrivateGraphicalLassoCV(noise_variance=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(table)
    results = model.cv_results_
    assert results.alpha.is_monotonic_decreasing and len(results) == 20
    assert results.n_edges.iloc[0] == 0 and (results.without_solution == 0).all()
    below = PrivateGraphicalLasso(
        results.alpha.iloc[0] * 0.98, noise_variance=noise, tol=1e-10
    ).fit(table)
    assert (
        len(below.edges_) > 0
    )  # the first alpha is the smallest that empties the graph


def test_alphas_without_a_solution_are_counted_and_never_chosen():
    table, noise = noisy_table(n=60, p=8, seed=2)
    correlation, _ = correlation_scale(noise_corrected_covariance(table, noise))
    bounds = min_feasible_alpha(correlation)
    assert bounds.lower > 0
    alphas = [0.5 * bounds.lower, 0.9 * bounds.lower, 3 * bounds.upper, 0.95]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="alpha_=")
        model = PrivateGraphicalLassoCV(alphas, noise_variance=noise).fit(table)
    results = model.cv_results_.set_index("alpha")
    assert (results.loc[alphas[:2], "without_solution"] >= 1).all()
    assert (
        results.loc[alphas[:2], "mean_test_score"].isna().all()
        and results.loc[alphas[:2], "n_edges"].isna().all()
    )
    assert (
        results.loc[0.95, "without_solution"] == 0 and model.alpha_ >= 3 * bounds.upper
    )
    with pytest.raises(
        InputError, match="alphas=.*none has a solution in every fold"
    ) as caught:
        PrivateGraphicalLassoCV(alphas[:2], noise_variance=noise).fit(table)
    works = float(str(caught.value).split(";")[1].split()[0])
    assert (
        PrivateGraphicalLassoCV([works], noise_variance=noise).fit(table).alpha_
        == works
    )


def test_a_maximum_that_is_not_bracketed_is_announced():
    table, noise = noisy_table(n=2000)
    with pytest.warns(UserWarning, match="smallest alpha tried"):
        PrivateGraphicalLassoCV([0.9, 0.5], noise_variance=noise).fit(table)
    with pytest.warns(UserWarning, match="largest alpha tried"):
        PrivateGraphicalLassoCV([1e-4, 2e-4]).fit(TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateGraphicalLassoCV(noise_variance=noise).fit(table)
        PrivateGraphicalLassoCV([0.1], noise_variance=noise).fit(table)


def test_leave_one_out_scores_single_rows():
    table, noise = noisy_table(n=40, p=3, ratio=0.1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="alpha_=")
        model = PrivateGraphicalLassoCV(
            [0.1, 0.5], cv=LeaveOneOut(), noise_variance=noise
        ).fit(table)
    assert "split39_test_score" in model.cv_results_


# no solution, and bad input


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_alpha_that_an_error_names_works(scale, penalize_diagonal, seed):
    table, noise = noisy_table(n=60, p=8, seed=seed)
    options = {
        "noise_variance": noise,
        "scale": scale,
        "penalize_diagonal": penalize_diagonal,
    }
    try:
        PrivateGraphicalLasso(1e-3, **options).fit(table)
    except InfeasibleError as error:
        named = float(str(error).split("alpha=")[2].split()[0])
        assert named == pytest.approx(error.works, rel=1e-5)
        model = PrivateGraphicalLasso(error.works, **options).fit(table)
        assert np.linalg.eigvalsh(model.precision_)[0] > 0
        with pytest.raises(InfeasibleError):
            PrivateGraphicalLasso(error.lower_bound, **options).fit(table)
    else:
        pytest.fail("this table was meant to have no solution at alpha=0.001")


TABLE, NOISE = noisy_table(n=60)


@pytest.mark.parametrize(
    "parameters, X, error, message",
    [
        ({}, TABLE.assign(col1=np.nan), InputError, "col1"),
        ({}, TABLE.assign(col1=np.inf), InputError, "col1"),
        ({}, TABLE.assign(col2="text"), InputError, "col2.*not numeric"),
        ({}, TABLE.to_numpy() * np.nan, ValueError, "NaN"),
        ({}, TABLE.iloc[:1], InputError, "rows"),
        ({}, TABLE.to_numpy()[:1], ValueError, "sample"),
        ({}, TABLE.to_numpy()[0], ValueError, "2D"),
        ({}, TABLE.iloc[:, :0], ValueError, "column"),
        ({}, TABLE.assign(col3=1.0), CovarianceError, "col3.*constant"),
        ({}, TABLE.set_axis(list("abcda"), axis=1), InputError, "distinct"),
        ({"noise_variance": -1.0}, TABLE, InputError, "noise_variance=-1"),
        ({"noise_variance": [1.0, 2.0]}, TABLE, InputError, "noise_variance.*5"),
        ({"noise_variance": np.nan}, TABLE, InputError, "noise_variance"),
        ({"noise_variance": "1"}, TABLE, InputError, "noise_variance"),
        ({"noise_variance": None}, TABLE, InputError, "noise_variance"),
        (
            {"noise_variance": pd.Series(NOISE, TABLE.columns)[::-1]},
            TABLE,
            InputError,
            "noise_variance=.*order of the col",
        ),
        ({}, None, InputError, "X='NoneType': give a release, or a table"),
        ({}, "rows.csv", InputError, "X='str': give a release, or a table"),
        (
            {},
            PrivateGraphicalLasso(),
            InputError,
            "X='PrivateGraphicalLasso': give a release, or a table",
        ),
        ({"scale": "yes"}, TABLE, InputError, "scale='yes': give True or False"),
        (
            {"penalize_diagonal": None},
            TABLE,
            InputError,
            "penalize_diagonal=None: give True or False",
        ),
        ({"noise_variance": [0, 0, 1e4, 0, 0]}, TABLE, CovarianceError, "col2.*noise"),
        ({"solver": "newton"}, TABLE, InputError, "solver='newton'"),
        ({"tol": 0}, TABLE, InputError, "tol"),
        ({"max_iter": 0}, TABLE, InputError, "max_iter"),
    ],
)
@pytest.mark.parametrize("estimator", BOTH)
def test_bad_input(estimator, parameters, X, error, message):
    with pytest.raises(error, match=message):
        estimator(**parameters).fit(X)


@pytest.mark.parametrize("alpha", [0, -0.1, np.nan, np.inf, "0.1", None, True, [0.1]])
def test_bad_alpha(alpha):
    with pytest.raises(InputError, match="alpha="):
        PrivateGraphicalLasso(alpha).fit(TABLE)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"alphas": []}, "alphas="),
        ({"alphas": 1}, "alphas=1"),
        ({"alphas": 0}, "alphas=0"),
        ({"alphas": [0.1, 0]}, "alphas=0"),
        ({"alphas": [0.1, -1]}, "alphas=-1"),
        ({"alphas": None}, "alphas="),
        ({"alphas": True}, "alphas="),
        ({"alphas": 0.1}, "alphas="),
        ({"alphas": [[0.1, 0.2], [0.3]]}, "alphas="),
        ({"alphas": "many"}, "alphas="),
        ({"cv": 1}, "cv=1"),
        ({"cv": 0}, "cv=0"),
        ({"cv": 61}, "cv=61: give from 2 to 60"),
        ({"cv": "bad"}, "cv='bad'"),
        ({"cv": []}, "cv=.*no folds"),
        ({"cv": [(range(50), [])]}, "cv=.*fold 0 has 50 rows to fit and 0 to score"),
        ({"cv": [([1], range(9))]}, "cv=.*fold 0 has 1 rows to fit and 9 to score"),
    ],
)
def test_bad_cross_validation(parameters, message):
    with pytest.raises(InputError, match=message):
        PrivateGraphicalLassoCV(**parameters).fit(TABLE)


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_a_grid_of_our_own_has_a_solution_everywhere(penalize_diagonal):
    precision = chain_precision(12, 0.45, np.ones(12))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        noisy = pd.DataFrame(
            sample_gaussian(precision, 40, rng)
            + np.sqrt(0.5) * rng.normal(size=(40, 12))
        )
        model = PrivateGraphicalLassoCV(
            8, cv=4, noise_variance=0.5, penalize_diagonal=penalize_diagonal
        ).fit(noisy)
        assert (
            len(model.cv_results_) == 8
            and not model.cv_results_.mean_test_score.isna().any()
        )


def test_a_fold_with_nothing_left_of_a_column_is_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    table.loc[10:, "b"] *= 1e-3  # the second half's variance of b is below the noise's
    with pytest.raises(CovarianceError, match=r"\['b'\].*fold 0 of cv=2"):
        PrivateGraphicalLassoCV(cv=2, noise_variance=[0.0, 0.01]).fit(table)


def test_variances_by_name_are_read_in_the_order_of_the_columns():
    by_name = PrivateGraphicalLasso(noise_variance=pd.Series(NOISE, TABLE.columns)).fit(
        TABLE
    )
    np.testing.assert_array_equal(by_name.noise_variance_, NOISE)
    unnamed = PrivateGraphicalLasso(noise_variance=pd.Series(NOISE)).fit(TABLE)
    np.testing.assert_array_equal(unnamed.noise_variance_, NOISE)


def test_penalties_come_in_any_order():
    model = PrivateGraphicalLassoCV([0.02, 0.9, 0.1, 0.9], cv=3).fit(TABLE)
    assert model.cv_results_.alpha.tolist() == [0.9, 0.1, 0.02]


def test_a_failed_fit_is_no_fit():
    model = PrivateGraphicalLasso(-1.0)
    with pytest.raises(InputError):
        model.fit(TABLE)
    for question in (lambda: model.edges_, lambda: model.score(TABLE)):
        with pytest.raises(NotFittedError):
            question()


def test_warnings_point_at_the_call_of_fit():
    with pytest.warns(UserWarning, match="alpha_=") as caught:
        PrivateGraphicalLassoCV([0.4, 0.5], cv=3).fit(TABLE)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("estimator", BOTH)
def test_the_help_describes_every_parameter_and_what_is_fitted(estimator):
    said, fitted = inspect.getdoc(estimator), estimator().fit(TABLE)
    entry = r"^(\w+, )*{}(, \w+)*( :.*)?$"
    for name in [
        *estimator().get_params(),
        *(key for key in vars(fitted) if key.endswith("_")),
    ]:
        described = len(re.findall(entry.format(name), said, re.MULTILINE))
        assert described == 1 or name in {"n_features_in_", "feature_names_in_"}, name
    assert (
        said.index("Parameters\n") < said.index("Attributes\n") < said.index("Notes\n")
    )


def test_score_of_other_columns_is_refused():
    model = PrivateGraphicalLasso().fit(TABLE)
    with pytest.raises(InputError, match=r"\['col2'\].*not numeric"):
        model.score(TABLE.assign(col2="text"))
    with pytest.raises(ValueError, match="feature names"):
        model.score(TABLE.rename(columns={"col0": "other"}))
    with pytest.raises(ValueError, match="features"):
        PrivateGraphicalLasso().fit(TABLE.to_numpy()).score(TABLE.to_numpy()[:, :3])


def test_too_few_iterations_are_announced():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model = PrivateGraphicalLasso(0.01, solver="admm", max_iter=1).fit(
            TABLE
        )  # the descent needs but one pass here
    assert model.dual_gap_ > 1e-6 * 5
