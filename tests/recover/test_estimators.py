"""The graphical lasso of a release, and its cross-validation: agreement with peers, and
every bad input named."""

import pickle
import subprocess
import sys
import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.covariance import GraphicalLasso
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from privglasso.base.graphs import support
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.table import GaussianMechanism
from privglasso.publish.noise_correction import CovarianceError, correlation_scale
from privglasso.publish.noise_correction import noise_corrected_covariance
from privglasso.recover.baselines import SCIO
from privglasso.recover.estimators import CV, DebiasedGraphicalLasso, _debiased
from privglasso.recover.efficient_search import HiddenGraphError
from privglasso.recover.estimators import CloseColumnsWarning, PrivateGraphicalLasso
from privglasso.recover.estimators import adaptive_weights, fit_whole
from privglasso.recover.estimators import parts_without_copies
from privglasso.recover.feasibility import InfeasibleError, min_feasible_alpha
from privglasso.recover.false_discoveries import FDR
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.recover.selection import EBIC, Simultaneous, Stable


def noisy_table(n=300, p=5, seed=0, ratio=1.0):
    """A chain in unequal units with noise of `ratio` times each variance; the table and
    the noise's variances."""
    truth = chain_precision(p=p, partial_correlation=0.4)
    noise = ratio * np.diag(np.linalg.inv(truth))
    data, rng = np.random.SeedSequence(seed).spawn(2)
    X = sample_gaussian(truth, n, data)
    X += np.random.default_rng(rng).normal(size=X.shape) * np.sqrt(noise)
    return pd.DataFrame(X, columns=[f"col{j}" for j in range(p)]), noise


TABLE, NOISE = noisy_table(n=60)


@pytest.mark.filterwarnings("ignore:Skipping check", "ignore:.*does not inherit")
@pytest.mark.filterwarnings("ignore:alpha_=|only the empty")
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateGraphicalLasso(),
        PrivateGraphicalLasso(0.1),
        PrivateGraphicalLasso(CV(alphas=3, cv=2)),
        DebiasedGraphicalLasso(),
    ],
)
def test_scikit_learn_conventions(estimator):
    check_estimator(estimator)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("solver", ["descent", "admm"])
def test_is_the_graphical_lasso_of_the_corrected_matrix(
    scale, penalize_diagonal, solver
):
    table, noise = noisy_table(ratio=0.3)
    S = noise_corrected_covariance(table, noise)
    matrix, deviation = correlation_scale(S) if scale else (S, np.ones(5))
    alpha = 0.1 * np.abs(matrix - np.diag(np.diag(matrix))).max()
    options = {
        "solver": solver,
        "tol": 1e-8,
        "penalize_diagonal": penalize_diagonal,
    }
    model = PrivateGraphicalLasso(alpha, noise_variance=noise, scale=scale, **options)
    model.fit(table)
    result = graphical_lasso(matrix, alpha, **options)
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
        0.3, scale=False, penalize_diagonal=False, tol=1e-12
    ).fit(table)
    np.testing.assert_allclose(ours.precision_, theirs.precision_, atol=1e-5)
    np.testing.assert_allclose(
        ours.score(table.iloc[:50]), theirs.score(table.iloc[:50]), atol=1e-4
    )
    np.testing.assert_allclose(ours.location_, theirs.location_)


def test_too_few_iterations_are_announced():
    "The descent needs one pass here, so another solver is asked."
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model = PrivateGraphicalLasso(0.01, solver="admm", max_iter=1).fit(TABLE)
    assert model.dual_gap_ > 1e-6 * 5


# weights


def test_weights_act_on_the_scale_of_alpha():
    table, noise = noisy_table(n=2000)
    weights = np.full((5, 5), 1e6)
    weights[:2, :2] = weights[3:, 3:] = 1.0
    np.fill_diagonal(weights, 1.0)
    model = PrivateGraphicalLasso(0.1, weights=weights, noise_variance=noise).fit(table)
    found = set(zip(model.edges_.source, model.edges_.target, strict=True))
    assert found == {("col0", "col1"), ("col3", "col4")}
    ones, none = (
        PrivateGraphicalLasso(0.1, weights=w, noise_variance=noise).fit(table)
        for w in (np.ones((5, 5)), None)
    )
    np.testing.assert_array_equal(ones.precision_, none.precision_)
    for bad in (np.ones((4, 4)), -np.ones((5, 5)), np.full((5, 5), np.nan)):
        with pytest.raises(InputError, match="^weights="):
            PrivateGraphicalLasso(0.1, weights=bad).fit(table)


def test_adaptive_weights():
    precision = chain_precision(p=5, partial_correlation=0.4)
    weights = adaptive_weights(precision, power=1)
    edges = support(precision)
    np.testing.assert_allclose(weights[edges], 1)
    np.testing.assert_allclose(weights[~edges & ~np.eye(5, dtype=bool)], 400)
    np.testing.assert_array_equal(np.diag(weights), 1)
    np.testing.assert_array_equal(adaptive_weights(precision, power=0), 1)
    np.testing.assert_array_equal(adaptive_weights(np.eye(3)), 1)
    np.testing.assert_array_equal(adaptive_weights([[2.0]]), 1)
    with pytest.raises(InputError, match="^power="):
        adaptive_weights(precision, -1)


# cross-validation


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    "cv", [3, KFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=1)]
)
@pytest.mark.filterwarnings("ignore:alpha_=")
def test_same_choice_as_grid_search(cv, scale):
    table, noise = noisy_table(n=400, ratio=0.5)
    alphas = [0.4, 0.2, 0.1, 0.05] if scale else [10.0, 3.0, 1.0, 0.3]
    options = {"noise_variance": noise, "scale": scale, "tol": 1e-12}
    ours = PrivateGraphicalLasso(CV(alphas, cv=cv), **options).fit(table)
    theirs = GridSearchCV(PrivateGraphicalLasso(**options), {"rule": alphas}, cv=cv)
    theirs.fit(table)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(
            ours.cv_results_[name], theirs.cv_results_[name], atol=2e-6
        )
    assert ours.alpha_ == theirs.best_params_["rule"]


def test_cross_validation_is_deterministic_and_takes_penalties_in_any_order():
    models = [
        PrivateGraphicalLasso(CV(alphas, cv=3)).fit(TABLE)
        for alphas in ([0.02, 0.9, 0.1, 0.9], [0.9, 0.1, 0.02])
    ]
    assert models[0].cv_results_.alpha.tolist() == [0.9, 0.1, 0.02]
    pd.testing.assert_frame_equal(models[0].cv_results_, models[1].cv_results_)
    np.testing.assert_array_equal(models[0].precision_, models[1].precision_)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_grid_ends_where_the_graph_is_empty_and_has_solutions_everywhere():
    table, noise = noisy_table(n=60, seed=4, ratio=0.8)
    model = PrivateGraphicalLasso(CV(), noise_variance=noise).fit(table)
    results = model.cv_results_
    assert results.alpha.is_monotonic_decreasing and len(results) == 20
    assert results.n_edges.iloc[0] == 0 and (results.without_solution == 0).all()
    # the first alpha is the smallest that empties the graph
    below = PrivateGraphicalLasso(
        results.alpha.iloc[0] * 0.98, noise_variance=noise, tol=1e-10
    ).fit(table)
    assert len(below.edges_) > 0


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_a_grid_of_our_own_has_a_solution_everywhere(penalize_diagonal):
    precision = chain_precision(12, 0.45, np.ones(12))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = sample_gaussian(precision, 40, rng)
        noisy = pd.DataFrame(rows + np.sqrt(0.5) * rng.normal(size=(40, 12)))
        model = PrivateGraphicalLasso(
            CV(8, cv=4), noise_variance=0.5, penalize_diagonal=penalize_diagonal
        ).fit(noisy)
        assert len(model.cv_results_) == 8
        assert not model.cv_results_.mean_test_score.isna().any()


@pytest.mark.filterwarnings("ignore:alpha_=")
def test_alphas_without_a_solution_are_counted_and_never_chosen():
    table, noise = noisy_table(n=60, p=8, seed=2)
    correlation, _ = correlation_scale(noise_corrected_covariance(table, noise))
    bounds = min_feasible_alpha(correlation)
    assert bounds.lower > 0
    alphas = [0.5 * bounds.lower, 0.9 * bounds.lower, 3 * bounds.upper, 0.95]
    model = PrivateGraphicalLasso(CV(alphas), noise_variance=noise).fit(table)
    results = model.cv_results_.set_index("alpha")
    assert (results.loc[alphas[:2], "without_solution"] >= 1).all()
    assert results.loc[alphas[:2], ["mean_test_score", "n_edges"]].isna().all().all()
    assert results.loc[0.95, "without_solution"] == 0
    assert model.alpha_ >= 3 * bounds.upper
    with pytest.raises(InputError, match="^alphas=") as caught:
        PrivateGraphicalLasso(CV(alphas[:2]), noise_variance=noise).fit(table)
    works = float(str(caught.value).split(";")[1].split()[0])
    model = PrivateGraphicalLasso(CV([works]), noise_variance=noise).fit(table)
    assert model.alpha_ == works


def test_a_maximum_that_is_not_bracketed_is_announced_at_the_call_of_fit():
    table, noise = noisy_table(n=2000)
    with pytest.warns(UserWarning, match="smallest") as caught:
        PrivateGraphicalLasso(CV([0.9, 0.5]), noise_variance=noise).fit(table)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match="largest"):
        PrivateGraphicalLasso(CV([1e-4, 2e-4])).fit(TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateGraphicalLasso(CV(), noise_variance=noise).fit(table)
        PrivateGraphicalLasso(CV([0.1]), noise_variance=noise).fit(table)


@pytest.mark.filterwarnings("ignore:alpha_=")
def test_leave_one_out_scores_single_rows():
    table, noise = noisy_table(n=40, p=3, ratio=0.1)
    rule = CV([0.1, 0.5], cv=LeaveOneOut())
    model = PrivateGraphicalLasso(rule, noise_variance=noise)
    assert "split39_test_score" in model.fit(table).cv_results_


def test_a_fold_with_nothing_left_of_a_column_is_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    table.loc[10:, "b"] *= 1e-3  # the second half's variance of b is below the noise's
    with pytest.raises(CovarianceError, match="fold 0") as caught:
        PrivateGraphicalLasso(CV(cv=2), noise_variance=[0.0, 0.01]).fit(table)
    assert caught.value.columns == ["b"]


# no solution, and bad input


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("penalize_diagonal", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_the_alpha_that_an_error_names_works(scale, penalize_diagonal, seed):
    table, noise = noisy_table(n=60, p=8, seed=seed)
    options = {
        "noise_variance": noise,
        "scale": scale,
        "penalize_diagonal": penalize_diagonal,
    }
    with pytest.raises(InfeasibleError) as caught:
        PrivateGraphicalLasso(1e-3, **options).fit(table)
    named = float(str(caught.value).split("alpha=")[2].split()[0])
    assert named == pytest.approx(caught.value.works, rel=1e-5)
    model = PrivateGraphicalLasso(caught.value.works, **options).fit(table)
    assert np.linalg.eigvalsh(model.precision_)[0] > 0
    with pytest.raises(InfeasibleError):
        PrivateGraphicalLasso(caught.value.lower_bound, **options).fit(table)


def test_a_bad_rule_is_named_with_the_remedy():
    for rule in (0, -0.1, np.nan, np.inf, "0.1", "EBIC", True, [0.1], EBIC, object()):
        with pytest.raises(InputError, match="^rule=.*EBIC()"):
            PrivateGraphicalLasso(rule).fit(TABLE)


def test_weights_are_for_a_penalty():
    for rule in (None, EBIC(), CV()):
        with pytest.raises(InputError, match="^weights=.*rule=0.1"):
            PrivateGraphicalLasso(rule, weights=np.ones((5, 5))).fit(TABLE)


@pytest.mark.parametrize(
    "name, values",
    [
        (
            "alphas",
            [[], 1, 0, [0.1, 0], [0.1, -1], None, True, 0.1, [[0.1, 0.2], [0.3]], "a"],
        ),
        (
            "cv",
            [1, 0, 61, "bad", [], [(range(50), [])], [([1], range(9))]],
        ),
    ],
)
def test_bad_cross_validation(name, values):
    for value in values:
        with pytest.raises(InputError) as caught:
            rule = CV(**{name: value})
            PrivateGraphicalLasso(rule, noise_variance=NOISE / 9).fit(TABLE)
        assert caught.value.argument == name


def test_a_grid_is_left_where_scores_have_fallen_and_a_list_is_not():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(400, 30)) @ (np.eye(30) + 0.3 * np.eye(30, k=1))
    short = PrivateGraphicalLasso(CV()).fit(table)
    alphas = [*short.cv_results_.alpha, *short.alphas_left_]
    whole = PrivateGraphicalLasso(CV(alphas)).fit(table)
    assert len(alphas) == 20 and 0 < len(short.alphas_left_) < 17
    assert short.alpha_ == whole.alpha_ and whole.alphas_left_ == []
    best, tried = whole.cv_results_.mean_test_score, len(short.cv_results_)
    assert best[tried:].max() < best[:tried].max()
    assert np.allclose(best[:tried], short.cv_results_.mean_test_score, atol=1e-5)


# a rule and its settings

RULES = [EBIC(), Simultaneous(), Stable(halves=4, random_state=0), CV(4, cv=3), FDR()]


def of_rule(model):
    "Names of what a rule has left, beyond what every fit leaves."
    plain = vars(PrivateGraphicalLasso(0.1).fit(TABLE)).keys() - {"alpha_"}
    plain |= {"precision_", "covariance_", "dual_covariance_"}  # when asked for
    return {name for name in vars(model).keys() - plain if name.endswith("_")}


@pytest.mark.filterwarnings("ignore:alpha_=|only the empty")
def test_what_a_rule_leaves_goes_with_it():
    left = {}
    model = PrivateGraphicalLasso()
    for rule in (None, 0.1, *RULES, 0.2):
        alone = PrivateGraphicalLasso(rule).fit(TABLE)
        left[repr(rule)] = of_rule(model.set_params(rule=rule).fit(TABLE))
        assert vars(model).keys() - {"_kept_tests"} <= vars(alone).keys()
        np.testing.assert_array_equal(model.precision_, alone.precision_)
    assert left["0.1"] == {"alpha_"}
    assert left["None"] == {"threshold_", "effective_rows_", "relative_error_"}
    assert left["FDR(level=0.1, method='by')"] == {"working_graph_", "relative_error_"}
    model.fit(TABLE)
    with pytest.raises(InputError):
        model.set_params(rule=-1.0).fit(TABLE)
    with pytest.raises(NotFittedError):
        model.score(TABLE)  # of a failed fit nothing is left that looks like a model


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_frozen_and_compares_by_its_settings(rule):
    model = PrivateGraphicalLasso(rule, tol=1e-5)
    copy = clone(model)
    assert copy.rule == rule == pickle.loads(pickle.dumps(rule))
    assert copy.get_params() == model.get_params()
    name, value = next(iter(vars(rule).items()))
    with pytest.raises(FrozenInstanceError):
        setattr(rule, name, value)
    copy.set_params(**{f"rule__{name}": value / 2 if name != "alphas" else [0.5]})
    assert copy.rule != rule == model.rule, "the other's rule is its own"
    assert type(rule).__name__ in repr(model) and "tol=1e-05" in repr(model)


def test_settings_that_do_not_exist_are_refused_and_nothing_is_changed():
    model = PrivateGraphicalLasso(EBIC())
    for bad in ({"alpha": 0.1}, {"rule__level": 0.1}, {"rule__": 1}, {"tol__x": 1}):
        with pytest.raises(InputError, match="rule__gamma"):
            model.set_params(tol=1e-3, **bad)
    with pytest.raises(InputError, match="^gamma="):
        model.set_params(tol=1e-3, rule__gamma=-1)
    with pytest.raises(InputError, match="^rule__gamma="):
        PrivateGraphicalLasso(EBIC).set_params(rule__gamma=1)  # a class is no rule
    assert model.get_params() == PrivateGraphicalLasso(EBIC()).get_params()
    model.set_params(rule__level=0.1, rule=Simultaneous())  # in whatever order
    assert model.rule == Simultaneous(0.1)


def test_scikit_learn_searches_over_rules_and_their_settings():
    table, noise = noisy_table(n=400, ratio=0.1)
    grids = {"rule": [None, 0.1, EBIC(), Simultaneous()]}, {"rule__gamma": [0, 0.5, 9]}
    for grid in grids:
        model = PrivateGraphicalLasso(EBIC(), noise_variance=noise)
        found = GridSearchCV(model, grid, cv=3, error_score="raise").fit(table)
        assert np.isfinite(found.cv_results_["mean_test_score"]).all()
        assert len(found.cv_results_["params"]) == len(*grid.values())
        again = clone(model).set_params(**found.best_params_).fit(table)
        np.testing.assert_array_equal(
            found.best_estimator_.precision_, again.precision_
        )


def test_a_rule_in_a_pipeline():
    table, _ = noisy_table(ratio=0.0)
    chain = make_pipeline(FunctionTransformer(), PrivateGraphicalLasso(EBIC()))
    chain.set_params(privategraphicallasso__rule__gamma=0.25).fit(table)
    alone = PrivateGraphicalLasso(EBIC(0.25)).fit(table)
    assert chain[-1].rule == alone.rule and chain.score(table) == alone.score(table)
    for shown in (chain, chain[-1]):
        assert "EBIC(gamma=0.25" in shown._repr_html_()


def test_the_line_of_ancestors_is_short():
    for estimator in (PrivateGraphicalLasso, DebiasedGraphicalLasso, SCIO):
        assert len(estimator.__mro__) <= 6


LAZY = """
import sys
import numpy as np, pandas as pd
import privglasso as pg
table = np.random.default_rng(0).normal(size=(300, 3)).cumsum(axis=1)
table = pd.DataFrame(table, columns=["a", "b", "c"])
for rule in (None, 0.1, pg.EBIC(), pg.Simultaneous(), pg.FDR(), pg.Stable(halves=4)):
    model = pg.PrivateGraphicalLasso(rule)
    model.set_params(**model.get_params()).fit(table).edges_
print("sklearn" in sys.modules)
"""


@pytest.mark.long
def test_scikit_learn_is_loaded_by_those_who_use_it():
    run = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr


# without the bias


def test_the_debiased_lasso_is_the_inverse_where_nothing_is_penalised():
    rows = sample_gaussian(chain_precision(5, 0.4), 400, random_state=0)
    model = DebiasedGraphicalLasso(1e-9, threshold=0.2).fit(rows * [1, 9, 1e3, 1e-6, 2])
    inverse = np.linalg.inv(np.corrcoef(rows.T))
    partial = -inverse / np.sqrt(np.outer(*2 * [np.diag(inverse)]))
    np.fill_diagonal(partial, 1)
    assert np.allclose(model.partial_correlations_, partial, atol=1e-4)
    off = (np.abs(partial) > 0.2) & ~np.eye(5, dtype=bool)
    assert np.array_equal(model.adjacency_, off) and off.sum() == 8


def test_one_newton_step_takes_most_of_the_bias_away():
    rows = sample_gaussian(chain_precision(5, 0.4), 100_000, random_state=0)
    for alpha in (0.02, 0.05):
        step = DebiasedGraphicalLasso(alpha).fit(rows)
        shrunk = PrivateGraphicalLasso(alpha).fit(rows).precision_
        shrunk = -shrunk / np.sqrt(np.outer(*2 * [np.diag(shrunk)]))
        found = step.partial_correlations_, shrunk
        bias = [abs(np.diag(m, 1).mean() - 0.4) for m in found]
        assert bias[0] < 0.5 * bias[1]


def test_of_many_columns_the_newton_step_is_the_same():
    rows = np.random.default_rng(0).standard_normal((60, 150))
    S = np.corrcoef(rows.T)
    first = graphical_lasso(S, 0.4, tol=1e-4).precision
    assert 150 < np.count_nonzero(first) < first.size / 20  # a thin one
    wanted = 2 * first - first @ S @ first
    for matrix in (first, first + 1e-9):  # multiplied thinly, and not
        assert np.allclose(_debiased(matrix, S), wanted, atol=1e-6)


@pytest.mark.parametrize("words", [{"threshold": 0}, {"threshold": 1}, {"alpha": -1.0}])
def test_bad_settings_of_the_debiased_lasso_are_named(words):
    with pytest.raises(InputError, match=next(iter(words))):
        DebiasedGraphicalLasso(**words).fit(TABLE)


def with_copies(seed=1, n=20_000, copies=True):
    "A chain of six columns, and three that are nearly copies; the chain's precision."
    truth = chain_precision(p=6, partial_correlation=0.4)
    chain = sample_gaussian(truth, n, seed)
    near = -chain[:, 1] + 0.05 * np.random.default_rng(7).normal(size=n)
    more = [chain[:, 1], near, chain[:, 4]] if copies else []
    table = pd.DataFrame(np.column_stack([chain, *more]))
    return table.set_axis(list("abcdefghi")[: table.shape[1]], axis=1), truth


def released(table, seed=1, **budget):
    "By the default mechanism."
    budget = budget or {"epsilon": 1, "delta": 1e-9}
    return CovarianceMechanism(**budget).publish(table, random_state=seed)


def copies_are_told(release):
    "Whether a search of all columns has an answer with more than an edge."
    try:
        return len(fit_whole(release).edges_) > 1
    except HiddenGraphError:
        return False


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_copies_that_hide_the_graph_are_left_out_and_named(seed, tmp_path):
    table, truth = with_copies(seed)
    release = released(table, seed)
    assert not copies_are_told(release)
    with pytest.warns(CloseColumnsWarning, match="i .goes with e, ") as caught:
        model = PrivateGraphicalLasso().fit(release)
    assert {warning.filename for warning in caught} == {__file__}
    assert list(model.feature_names_in_) == list("abcdef")
    assert set(model.left_out_) == set("ghi")
    assert (support(model.precision_) == support(truth)).all()
    # a file is read as what it holds, and a selection keeps what was left out before
    release.to_parquet(tmp_path / "copies.parquet")
    part = release.select(list("bcdefghi"))
    part.left_out["a"] = "as was wished"
    with pytest.warns(CloseColumnsWarning):
        again = PrivateGraphicalLasso().fit(tmp_path / "copies.parquet")
    assert np.array_equal(again.precision_, model.precision_)
    *_, fewest = parts_without_copies(part)
    assert fewest.left_out["a"] == "as was wished" and len(fewest.left_out) == 4


def test_nothing_is_left_out_where_there_are_no_copies():
    table, _ = with_copies(copies=False)
    release = released(table)
    assert list(parts_without_copies(release)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateGraphicalLasso().fit(release)
    assert model.left_out_ == {} and len(model.precision_) == 6


def test_hopeless_noise_is_refused_as_before():
    "Independent columns: whatever noise does, no pair is nearly a copy."
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(2000, 12)))
    table = table.set_axis([f"x{j}" for j in range(12)], axis=1)
    release = CovarianceMechanism((-4, 4), mu=0.08).publish(table, random_state=0)
    assert list(parts_without_copies(release)) == []
    with pytest.raises(HiddenGraphError):
        PrivateGraphicalLasso().fit(release)


@pytest.mark.parametrize("own, left", [(0, [20]), (0.75, [1, 2, 4, 7, 11, 16, 20])])
def test_what_may_be_copies_goes_at_once_and_what_is_close_in_a_few_steps(own, left):
    "Forty columns, half of them twice, as they are or with a correlation of .8."
    rng = np.random.default_rng(0)
    half, noise = rng.normal(size=(2, 20_000, 20))
    table = pd.DataFrame(np.column_stack([half, half + own * noise]))
    release = released(table.set_axis([f"x{j}" for j in range(40)], axis=1), mu=1.0)
    parts = list(parts_without_copies(release))
    assert [len(part.left_out) for part in parts] == left
    assert parts[-1].columns == [f"x{j}" for j in range(20)]


def test_a_table_is_not_read_again_for_copies_that_it_has_not(monkeypatch):
    release = GaussianMechanism((-9, 9), mu=20.0).publish(
        with_copies(copies=False)[0], 0
    )
    read, calls = type(release).corrected_covariance, []

    def counted(self, *given, **named):
        calls.append(1)
        return read(self, *given, **named)

    monkeypatch.setattr(type(release), "corrected_covariance", counted)
    assert len(PrivateGraphicalLasso().fit(release).edges_) >= 5
    assert len(calls) <= 1
