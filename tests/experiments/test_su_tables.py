"""Tables of Su et al.: models, recipes, the stopped iteration against a plain one, and
every bad input named."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.experiments.su_tables import (
    SOLVABLE,
    ridge_cv_alpha,
    su_agreeing,
    su_beside,
    su_lasso_run,
)
from privglasso.papers.su_recipes import (
    RECIPES,
    admm_iterate,
    su_losses,
    su_noise,
    su_precision,
    su_printed,
)
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.papers.private_precision import ridge_precision

MODELS = ["model1", "model2", "model3", "model4"]


def test_models_are_precision_matrices():
    for model in MODELS:
        for p in [10, 20, 60]:
            Theta = su_precision(model, p, seed=3)
            assert (
                Theta.shape == (p, p)
                and (Theta == Theta.T).all()
                and np.linalg.eigvalsh(Theta)[0] > 0
            )
            assert np.allclose(np.diag(Theta), 1, atol=0.1)
            assert np.array_equal(Theta, su_precision(model, p, seed=3))
            random = model in {"model1", "model4"}
            assert random <= (not np.array_equal(Theta, su_precision(model, p, seed=4)))


def test_models_are_those_of_the_paper():
    assert su_precision("model2", 4)[0].tolist() == [1, 0.5, 0.5, 0.5]
    assert su_precision("model3", 5)[2].tolist() == [0.25, 0.5, 1, 0.5, 0.25]
    A = su_precision("model4", 100, seed=1) - np.eye(100)
    assert len(np.unique(A)) == 2 and 0.07 < (A != 0).mean() < 0.13


def test_bad_input():
    for call, message in [
        (lambda: su_precision("model5"), "model1"),
        (lambda: su_precision("model1", 2), "p=2"),
        (lambda: su_precision("model4", 3, seed=3), "no edge"),
        (lambda: su_printed(3), "1 or 2"),
        (lambda: su_noise("as hoped", 100, 1.0), "as it ran"),
        (lambda: su_noise("as stated", 100, 9.0), "fails"),
        (lambda: su_noise("as stated", 0, 1.0), "n=0"),
        (lambda: admm_iterate([[1.0, 2.0], [3.0, 1.0]], 0.1), "symmetric"),
        (lambda: admm_iterate(np.eye(2), -0.1), "alpha"),
        (lambda: admm_iterate(np.eye(2), 0.1, penalty=0.0), "penalty"),
        (lambda: admm_iterate(np.eye(2), 0.1, iterations=0), "iterations"),
        (lambda: ridge_cv_alpha(np.eye(4), [1.0], folds=5), "4 rows"),
        (lambda: ridge_cv_alpha(np.eye(4), [1.0], folds=1), "folds"),
        (lambda: ridge_cv_alpha(np.eye(4), [1.0, -1.0], folds=2), "alphas=-1.0"),
        (lambda: ridge_cv_alpha(np.eye(4), [], folds=2), "at least one"),
        (lambda: ridge_cv_alpha(np.full((4, 2), np.nan), [1.0], folds=2), "NaN"),
        (lambda: su_losses(np.eye(2), np.eye(2), 1.0, "as hoped"), "as it ran"),
        (lambda: su_precision("model1", 5, seed=-1), "seed"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


# the stopped iteration


def plain_admm(S, alpha, penalty, iterations):
    """The three steps as they stand in the paper, by a scalar root and signs; nothing
    shared with the module."""
    Theta, Z, U = (np.zeros_like(S) for _ in range(3))
    for _ in range(iterations):
        values, vectors = np.linalg.eigh(penalty * (Z - U) - S)
        roots = [max(np.roots([penalty, -value, -1]).real) for value in values]
        Theta = vectors @ np.diag(roots) @ vectors.T
        Z = np.sign(Theta + U) * np.maximum(np.abs(Theta + U) - alpha / penalty, 0)
        U = U + Theta - Z
    return Z


def test_iterate_is_that_of_the_papers_steps():
    for penalty in [1.0, 100.0]:
        for iterations in [1, 2, 50]:
            rng = np.random.default_rng(iterations)
            S = rng.standard_normal((5, 5))
            S = S + S.T
            expected = plain_admm(S, 0.3, penalty, iterations)
            np.testing.assert_allclose(
                admm_iterate(S, 0.3, penalty, iterations), expected, atol=1e-9
            )


def test_iterate_converges_to_the_graphical_lasso():
    S = np.cov(np.random.default_rng(0).standard_normal((30, 5)), rowvar=False)
    found = admm_iterate(S, 0.15, penalty=1.0, iterations=2000)
    np.testing.assert_allclose(
        found, graphical_lasso(S, 0.15, tol=1e-12).precision, atol=1e-5
    )


def test_thousandth_iterate_hardly_sees_the_data():
    """The diagonal is √(2k/ρ) within 4 % for variances in a ratio of 1 to 9; the
    solutions are in that ratio."""
    held = [admm_iterate([[s]], 5e-4)[0, 0] for s in (0.001, 0.009)]
    assert held[0] > held[1] and np.allclose(held, np.sqrt(20), rtol=0.04)


@settings(deadline=None, max_examples=6)
@given(st.floats(20, 400), st.integers(200, 2000))
def test_first_order_in_the_noise(penalty, iterations):
    """A small change E of S changes the iterate by -2/3 k/ρ E, where S itself does not
    count."""
    rng, small = np.random.default_rng(0), 1e-9
    E = rng.standard_normal((3, 3))
    E = (E + E.T) * 1e-4 * penalty / iterations
    moved = admm_iterate(E, small, penalty, iterations) - admm_iterate(
        0 * E, small, penalty, iterations
    )
    expected = -2 / 3 * iterations / penalty * E
    assert np.linalg.norm(moved - expected) < 0.05 * np.linalg.norm(expected)


# recipes and losses


def test_noise_of_the_recipes():
    for n in (100, 200, 400):
        formula = np.sqrt(2) / n * np.sqrt(2 * np.log(1.25 * n))
        for epsilon in (0.1, 0.8, 1.2, 2.0):
            assert su_noise("as stated", n, epsilon) == pytest.approx(formula / epsilon)
            factor = np.sqrt(2) if epsilon <= 0.8 else 1
            assert su_noise("as it ran", n, epsilon) == pytest.approx(
                factor * formula / epsilon
            )


def test_losses_are_the_defined_norms():
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 4, 4))
    D = one - other
    losses = su_losses(one, other, 0.3, "as stated")
    assert losses["l1"] == pytest.approx(
        np.abs(D).sum(axis=0).max() / np.abs(other).sum(axis=0).max()
    )
    assert losses["frobenius"] == pytest.approx(
        np.sqrt((D**2).sum() / (other**2).sum())
    )
    spectral = np.linalg.svd(D, compute_uv=False)[0]
    assert losses["l2"] == pytest.approx(
        spectral / np.linalg.svd(other, compute_uv=False)[0]
    )
    assert su_losses(one, other, 0.3, "as it ran")["l2"] == pytest.approx(
        spectral / np.sqrt((other**2).sum())
    )
    assert su_losses(one, other, 0.1, "as it ran") == pytest.approx(
        su_losses(one, other, 0.1, "as stated")
    )


def test_cross_validation_is_the_plain_one():
    X, alphas = (
        np.random.default_rng(0).standard_normal((23, 4)) * 0.2,
        np.geomspace(1e-4, 1, 9),
    )
    fold = np.random.default_rng(5).permutation(np.arange(23) % 5)

    def score(alpha):
        total = 0
        for k in range(5):
            train, held = X[fold != k], X[fold == k]
            Theta = ridge_precision(train.T @ train / len(train), alpha)
            total += (
                np.vdot(held.T @ held / len(held), Theta) - np.linalg.slogdet(Theta)[1]
            )
        return total

    assert (
        ridge_cv_alpha(X, alphas, seed=5)
        == alphas[np.argmin([score(alpha) for alpha in alphas])]
    )


# the studies


def test_stated_algorithm_gives_losses_where_it_has_a_solution():
    rows = pd.DataFrame(
        su_lasso_run("model3", 400, [2.0], 0, alpha=0.5, iterations=5, p=4)
    )
    one, other = (
        rows[rows.recipe == recipe].loss.to_numpy()
        for recipe in ("as stated", SOLVABLE)
    )
    assert np.isfinite(one).all() and (one == other).all()


@pytest.mark.parametrize("table", [1, 2])
def test_every_printed_cell_gets_its_own(table):
    printed = su_printed(table)
    assert (
        len(printed) == 162
        and not printed.duplicated(["n", "epsilon", "model", "norm"]).any()
    )
    rows = pd.concat(
        [printed.assign(recipe=recipe, loss=printed["mean"]) for recipe in RECIPES]
    )
    beside = su_beside(table, rows)
    assert su_agreeing(beside, "as it ran", 0.0).all() and len(beside) == 162
    beside["as it ran"] *= 1.2
    assert not su_agreeing(beside, "as it ran").any()
    assert su_agreeing(beside, "as it ran", rounding=1e9).all()
