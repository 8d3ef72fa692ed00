"""Names of levels and units do not matter; the certificate is one; blocks of any kind
have an answer."""

import numpy as np
import pytest
from privglasso.base.validation import InputError
from privglasso.publish.votes import VotedGraphMechanism, check_estimator
from privglasso.recover.pseudo_likelihood import MixedPseudoLikelihood, mixed_features
from privglasso.recover.pseudo_likelihood import pseudo_likelihood, pseudo_loss
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning


def table(n=200, seed=0):
    "A number, an answer, four levels of which two depend on it, and another number."
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((2, n))
    answer = (one + 0.5 * rng.standard_normal(n) > 0).astype(float)
    level = (2 * answer + rng.integers(0, 2, n)).astype(float)
    return np.column_stack([one, answer, level, other])


def test_names_of_levels_and_units_change_nothing():
    first = MixedPseudoLikelihood(0.2, categories=(2,)).fit(table())
    renamed = table() * [1e3, -5, 1, 1e-9] + [7, 3, 0, 1]
    renamed[:, 2] = np.array([11.0, -4, 3, 0])[renamed[:, 2].astype(int)]
    second = MixedPseudoLikelihood(0.2, categories=(2,)).fit(renamed)
    assert np.allclose(first.strengths_, second.strengths_, atol=1e-3)
    edges = [[0, 1], [1, 2]]
    assert np.argwhere(np.triu(first.adjacency_)).tolist() == edges


@pytest.mark.parametrize("seed", range(5))
def test_a_small_violation_means_a_minimum(seed):
    "No move of a pair's weights, and no shorter ones, have a smaller penalised loss."
    features = mixed_features(table(80, seed), (2,))
    found = pseudo_likelihood(features, 0.08, tol=1e-6)
    assert found.violation <= 1e-6
    owner, rng = features.owner, np.random.default_rng(seed)
    spread = [features.targets[:, owner == j].var(axis=0).sum() for j in range(4)]

    def whole(weights, intercepts):
        total = pseudo_loss(features, weights, intercepts)
        for s in range(4):
            for t in range(s):
                square = (weights[np.ix_(owner == s, owner == t)] ** 2).sum()
                square += (weights[np.ix_(owner == t, owner == s)] ** 2).sum()
                total += 0.08 * np.sqrt(spread[s] + spread[t]) * np.sqrt(square)
        return total

    least = whole(found.weights, found.intercepts)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            move = size * rng.standard_normal(found.weights.shape)
            move *= owner[:, None] != owner
            push = size * rng.standard_normal(len(owner))
            assert whole(found.weights + move, found.intercepts + push) > least - 1e-9
    assert whole(0.9 * found.weights, found.intercepts) > least


def test_large_penalties_leave_no_pair_and_small_ones_most():
    features = mixed_features(table(), (2,))
    assert not pseudo_likelihood(features, 2.0).strengths.any()
    found = pseudo_likelihood(features, 1e-3).strengths
    assert (found[np.triu_indices(4, 1)] > 0).sum() >= 5 and np.allclose(found, found.T)


def test_an_answer_that_is_not_one_says_so():
    with pytest.warns(ConvergenceWarning, match="conditions of a minimum"):
        one = np.random.default_rng(0).standard_normal(400)
        apart = np.column_stack([one > 0, one > 0]).astype(float)  # odds without bound
        MixedPseudoLikelihood(1e-12).fit(apart)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0},
        {"alpha": -1.0},
        {"categories": (4,)},
        {"categories": ("a",)},
        {"threshold": -0.1},
        {"threshold": float("nan")},
    ],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        MixedPseudoLikelihood(**settings).fit(table())


@pytest.mark.parametrize("columns", [[0], [0, 1], [1, 1], [0, 0]])
def test_constant_and_repeated_columns_have_an_answer(columns):
    values = np.column_stack([table(), np.ones(200)])[:, [*columns, 4]]
    found = MixedPseudoLikelihood(0.2).fit(values)
    assert not found.adjacency_[-1].any() and np.isfinite(found.strengths_).all()


def test_it_may_vote():
    model = MixedPseudoLikelihood(0.2, categories=(2,))
    assert clone(model).get_params() == model.get_params()
    assert repr(check_estimator(model)) == repr(model)
    settings = {"blocks": 20, "cuttings": 1, "epsilon": 1.0, "delta": 0.01}
    release = VotedGraphMechanism(model, **settings).publish(table(2400), 0)
    assert release.certificate.estimator == "MixedPseudoLikelihood"
