"The efficient score and its refit, beyond what the chapter proves."

import numpy as np
import pytest

import privglasso as pg
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.publish.sphere import Sphere
from privglasso.recover.efficient_score import EfficientScore, Observation
from privglasso.recover.efficient_score import direction_moments, fit_at, fit_graph
from privglasso.recover.efficient_score import observe
from privglasso.recover.graph_models import Evidence

TRUTH = chain_precision(6, 0.4, scales=np.ones(6))
GRAPH = np.abs(TRUTH) * ~np.eye(6, dtype=bool) > 1e-9
ROWS = sample_gaussian(TRUTH, 20_000, 0)


def evidence(release):
    "What an estimator reads of a release."
    error = release.sampling_error()
    return Evidence(release.corrected_covariance(), error, release.n, None, "release")


def test_directions_are_those_of_the_sphere():
    "E u² of two columns is √λ over the mean √λ: an exact case of the integral."
    spectrum = np.array([1.8, 0.2])
    mean, chords, spread = direction_moments(spectrum)
    assert np.allclose(mean, 2 * np.sqrt(spectrum) / np.sqrt(spectrum).sum())
    assert np.isclose(chords[0, 1], np.subtract(*mean) / np.subtract(*spectrum))
    # u_1² u_2² = u_1² (2 - u_1²)
    square = 2 * spread[0, 0] + mean[0] ** 2
    assert np.isclose(spread[0, 1], 2 * mean[0] - square)


@pytest.mark.parametrize("directions", [False, True])
def test_the_truth_is_a_fixed_point(directions):
    "From an exact statistic the refit finds the truth, whatever the weights."
    covariance = np.linalg.inv(TRUTH)
    covariance *= 6 / np.trace(covariance)
    values, vectors = np.linalg.eigh(covariance)
    mean = direction_moments(values)[0] if directions else values
    statistic = (vectors * mean) @ vectors.T
    seen = Observation(statistic, 5000, np.ones(6), 1e-4, directions=directions)
    fit = fit_graph(seen, GRAPH, np.eye(6))
    assert np.allclose(fit.precision @ covariance, np.eye(6), atol=0.02)
    assert fit.score.misfit < 0.02


@pytest.mark.parametrize(
    "mechanism",
    [
        pg.CovarianceMechanism(epsilon=1, delta=1e-6),
        pg.CovarianceMechanism((-4, 4), epsilon=3, delta=1e-6),
        pg.CovarianceMechanism(clipping=Sphere(np.arange(1.0, 7)), mu=0.5),
        pg.GaussianMechanism((-4, 4), sigma=[0.1, 0.5, 1, 1, 0.2, 0.1]),
        pg.WhitenedCovarianceMechanism(epsilon=1, delta=1e-6),
        pg.QuadrantMechanism(0, epsilon=1, delta=1e-6),
        pg.KendallMechanism(epsilon=1, delta=1e-6),
        pg.SyntheticDataMechanism(epsilon=3, delta=1e-6),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_every_release_is_observed(mechanism):
    "The refit of the true graph finds the truth within its standard errors."
    release = mechanism.publish(ROWS, 1)
    seen = observe(release, evidence(release))
    fit = fit_graph(seen, GRAPH, np.eye(6))
    precision = fit.precision / np.outer(seen.units, seen.units)
    scale = np.sqrt(np.diag(precision))
    strengths = -(precision / np.outer(scale, scale))[GRAPH]
    # the largest z of a chain's five edges is 10 at least
    assert np.abs(fit.wald()).min() > 5
    assert np.abs(strengths - 0.4).max() < 5 * 0.4 / np.abs(fit.wald()).min()
    u, variance = fit.scores(*fit.absent())
    assert np.abs(u / np.sqrt(variance)).max() < 4.5  # of ten: error below 1e-4


def test_a_release_may_speak_for_itself():
    class Margins:
        def observed(self):
            return {"statistic": np.eye(2), "n": 10, "units": np.ones(2)}

    assert observe(Margins(), None).n == 10


def test_noise_that_differs_by_column_is_exact_in_its_own_coordinates():
    "A box of other half-ranges gives the same tests as the same box in other units."
    low = -4 * np.array([1.0, 2, 1, 3, 1, 1])
    fits = []
    for scale in (np.ones(6), np.array([1, 10, 0.1, 1, 1, 5.0])):
        mechanism = pg.CovarianceMechanism(
            (low * scale, -low * scale), clipping="box", mu=1.0
        )
        release = mechanism.publish(ROWS * scale, 3)
        fit = fit_graph(observe(release, evidence(release)), GRAPH, np.eye(6))
        fits.append(fit.wald())
    assert np.allclose(*fits, rtol=1e-3)


def test_a_table_with_noise_is_read_with_it():
    "Row noise is part of the rows' covariance, and is not in the model."
    release = pg.GaussianMechanism((-6, 6), sigma=1.0).publish(ROWS, 1)
    seen = observe(release, evidence(release))
    noise = seen.row_noise * seen.units**2
    assert np.allclose(noise, release.noise_variance, rtol=0.01)
    score = EfficientScore(seen, TRUTH * np.outer(seen.units, seen.units))
    assert score.misfit < 21 + 5 * np.sqrt(2 * 21)


def test_no_estimate_is_no_fit():
    "A statistic without any positive direction has no estimate."
    seen = Observation(-np.eye(3), 10, np.ones(3))
    assert fit_graph(seen, np.zeros((3, 3), dtype=bool), np.eye(3)) is None


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_information_is_that_of_the_directions(noise):
    "Of few pairs and of all pairs, against whole matrices of directions."
    covariance, n = np.linalg.inv(TRUTH), 100
    score = EfficientScore(Observation(covariance, n, np.ones(6), noise), TRUTH)
    spectrum, basis = np.linalg.eigh(covariance)
    variance = 2 * (np.outer(spectrum, spectrum) / n + noise)
    i, j = np.triu_indices(6)
    sides = covariance @ basis
    D = np.array([np.outer(sides[a], sides[b]) for a, b in zip(i, j, strict=True)])
    D = D + D.transpose(0, 2, 1)
    whole = np.einsum("kab,mab->km", D / variance, D)
    whole *= np.outer(*2 * [np.where(i == j, 0.5, 1)])
    assert np.allclose(score.information((i, j), (i, j)), whole)  # by products
    few = score.information((i, j), (i[:3], j[:3]))  # pair by pair
    assert np.allclose(few, whole[:, :3])
    off = i != j
    assert np.allclose(score.own_information(i[off], j[off]), np.diag(whole)[off])


def test_joint_scores_are_the_scores():
    "With their variances on the diagonal of a covariance."
    covariance = np.linalg.inv(TRUTH)
    seen = Observation(covariance + 0.05 * np.eye(6), 100, np.ones(6), 0.01)
    fit = fit_graph(seen, np.zeros((6, 6), dtype=bool), np.eye(6))
    pairs = fit.absent()
    u, variance = fit.scores(*pairs)
    together, J = fit.joint_scores(*pairs)
    assert np.allclose(together, u) and np.allclose(np.diag(J), variance)
    assert np.allclose(J, J.T) and np.linalg.eigvalsh(J)[0] > 0


def test_strong_pairs_are_all_found_and_the_bound_is_attained():
    "Also through the sphere; among all other pairs the bound is the variance."
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    for directions in (False, True):
        covariance = 0.5 * np.eye(6) + 0.5 * turned @ np.diag(range(1, 7)) @ turned.T
        covariance *= 6 / np.trace(covariance)
        seen = Observation(covariance, 300, np.ones(6), 1e-3, directions=directions)
        score = EfficientScore(seen, TRUTH)
        least = score.least_information()
        fit = fit_at(score, GRAPH)
        pairs = fit.absent()
        u, variance = fit.scores(*pairs)
        own = score.own_information(*pairs)
        assert (least[pairs] <= variance * (1 + 1e-9)).all() and (variance < own).all()
        z = np.abs(u) / np.sqrt(variance)
        for threshold in np.sort(z)[1::3] - 1e-9:
            found, strong = fit.strong_scores(threshold)
            there = dict(zip(zip(*found, strict=True), strong, strict=True))
            for pair, value in zip(zip(*pairs, strict=True), z, strict=True):
                assert value <= threshold or np.isclose(there[pair], value)
        all_but_one = ~np.eye(6, dtype=bool)
        all_but_one[0, 3] = all_but_one[3, 0] = False
        u, variance = fit_at(score, all_but_one).scores(np.array([0]), np.array([3]))
        assert np.isclose(least[0, 3], variance[0]) and least[0, 3] < 0.9 * own.max()
