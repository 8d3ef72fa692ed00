"""Slips that are easily made where promises are computed, kept and read back.

Each test fails under one of them.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import sample_gaussian
from privglasso.papers.gaussian_pair import epsilon_between
from privglasso.papers.graph_filter import Excitation, diffusion_filter, gso_epsilon
from privglasso.papers.graph_filter import gso_pair, relative_change
from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.files import read_release
from privglasso.publish.local import LocalMechanism
from privglasso.publish.noise_correction import SamplingError
from privglasso.publish.noise_correction import noise_corrected_covariance
from privglasso.publish.noise_correction import sample_covariance
from privglasso.publish.parquet import ReleaseError, sealed
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import GaussianMechanism
from privglasso.recover.estimators import CV, PrivateGraphicalLasso
from privglasso.recover.feasibility import nearest_psd
from privglasso.recover.planning import plot_plan
from privglasso.recover.selection import EBIC, Simultaneous
from privglasso.papers.thresholding import DPThresholding, threshold_constant

TABLE = pd.DataFrame({"a": [0.5, 1.5, 2.0, 0.1], "b": [3.0, 4.0, 5.0, 6.0]})
BOUNDS = ([0, 0], [2, 10])


@pytest.mark.parametrize("given", [None, 3, [], TABLE, np.eye(2), object()])
def test_what_is_of_no_kind_that_is_taken_is_a_typed_error(given):
    release = GaussianMechanism((0, 10), mu=1.0).publish(TABLE, 0)
    for argument, ask in (
        ("path", pg.read_release),
        ("path", pg.Budget),
        ("path", lambda given: release.to_parquet(given, replace=True)),
        ("neighbors", lambda given: pg.Guarantee(1.0, given)),
        ("paper", lambda given: pg.claims_table(given if given is not None else 3)),
        ("plans", lambda given: plot_plan(given, 3)),
    ):
        with pytest.raises(InputError) as caught:
            ask(given)
        assert caught.value.argument == argument and caught.value.remedy


# ---------------------------------------------------------------------- releases


def test_cells_are_rounded_to_the_nearest_step():
    mechanism, X = GaussianMechanism((-1, 1), mu=1.0), np.random.default_rng(0).uniform(
        -1, 1, (200, 2)
    )
    step = mechanism.lattice(2).step
    one, two = (
        mechanism.publish(cells, 3).table for cells in (X, np.rint(X / step) * step)
    )
    assert one.equals(two)


def test_the_covariance_about_a_private_mean_is_unbiased_and_as_noisy_as_stated():
    # a table far off the centre, a mean of few bits: its noise is all there is.
    # 5.5 standard errors of 1500 releases
    X, draws = (
        np.full((50, 2), [0.3, -0.2]) + np.repeat([[0.1], [-0.1]], 25, axis=0),
        1500,
    )
    mechanism = CovarianceMechanism((-1, 1), mu=0.4, mean_share=0.02, clipping="box")
    stated = mechanism.sampling_error(np.eye(2), 50, X.mean(axis=0)).noise
    found = np.array([mechanism.publish(X, seed).matrix for seed in range(draws)])
    assert (
        np.abs(found.mean(axis=0) - sample_covariance(X))
        < 5.5 * np.sqrt(stated / draws)
    ).all()
    assert found.var(axis=0) == pytest.approx(stated, rel=5.5 * math.sqrt(3 / draws))


def test_the_stated_noise_counts_the_square_of_the_mean_without_the_means_own_noise():
    mechanism = CovarianceMechanism((-1, 1), mu=2.0, mean_share=0.02, clipping="box")
    central, away = (np.full((50, 2), [x, -x]) for x in (0.0, 0.9))
    least = mechanism.lattice(50, 2).second_moment_noise()
    assert all(
        (mechanism.publish(central, seed).matrix_noise_variance >= least).all()
        for seed in range(50)
    )
    stated = [
        mechanism.publish(away, seed).matrix_noise_variance for seed in range(2000)
    ]
    planned, standard_error = (
        mechanism.sampling_error(np.eye(2), 50, away[0]).noise,
        np.std(stated, axis=0) / 2000**0.5,
    )
    square, noise = 0.9**2, mechanism.lattice(50, 2).mean_noise()[0]
    assert (
        noise > 0.03 * square
        and (np.abs(np.mean(stated, axis=0) - planned) < 5.5 * standard_error).all()
    )


def test_the_corrected_covariance_of_synthetic_rows_is_about_their_own_mean():
    release = SyntheticDataMechanism(BOUNDS, mu=2.0, rows=40, clipping="box").publish(
        TABLE, random_state=0
    )
    assert release.projection.any()
    away = release.table.to_numpy() - release.covariance_release.location
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # whether a variance is left is not asked here
        patch.setattr(type(release), "_refuse_lost", lambda *arguments: None)
        assert release.corrected_covariance() == pytest.approx(
            away.T @ away / 40 - release.projection
        )


def test_synthetic_rows_of_two_releases_are_independent():
    mechanism = SyntheticDataMechanism((-6, 6), mu=5.0, clipping="box")
    X = np.random.default_rng(0).normal(size=(2000, 1))
    one, two = (mechanism.publish(X, seed).table["x0"] for seed in (1, 2))
    assert abs(np.corrcoef(one, two)[0, 1]) < 5.5 / math.sqrt(2000)


# ---------------------------------------------------------------------- estimates


def correlation(S):
    "The correlations of a covariance."
    return S / np.sqrt(np.outer(np.diag(S), np.diag(S)))


def test_the_error_of_a_correlation_is_the_delta_methods():
    "Rows with noise in them and noise on the entries, by numerical derivatives."
    generator, n, p, step = np.random.default_rng(0), 40, 3, 1e-6
    root, V = generator.normal(size=(p, 7)), generator.uniform(0.01, 0.1, (p, p))
    S, V = root @ root.T, V + V.T
    A = S + np.diag([0.5, 1.0, 2.0])
    pairs = [(i, j) for i in range(p) for j in range(i, p)]
    moves = [
        step
        * (np.eye(p)[[i]].T @ np.eye(p)[[j]] + np.eye(p)[[j]].T @ np.eye(p)[[i]])
        / (1 + (i == j))
        for i, j in pairs
    ]
    gradient = np.array(
        [(correlation(S + move) - correlation(S - move)) / (2 * step) for move in moves]
    )
    joint = np.array(
        [
            [(A[i, k] * A[j, m] + A[i, m] * A[j, k]) / n for k, m in pairs]
            for i, j in pairs
        ]
    )
    joint += np.diag([V[pair] for pair in pairs])
    expected = np.einsum("aij,ab,bij->ij", gradient, joint, gradient)
    assert SamplingError(((A, n),), V).correlation_variance(S) == pytest.approx(
        expected, rel=1e-6, abs=1e-12
    )


def test_noise_variances_with_names_must_be_in_the_columns_order():
    variances = pd.Series([0.01, 0.02], index=["a", "b"])
    assert np.array_equal(
        noise_corrected_covariance(TABLE, variances),
        noise_corrected_covariance(TABLE, [0.01, 0.02]),
    )
    with pytest.raises(InputError, match="noise_variance=.*order of the columns"):
        noise_corrected_covariance(TABLE, variances[::-1])


def test_every_entry_has_a_threshold_of_its_own():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 3.0, 9.0]
    model = DPThresholding(norm_bound=30.0, mu=5.0, random_state=0).fit(X)
    deviation = np.sqrt(model.release_.sampling_error().covariance_variance())
    scores = (model.release_.matrix / deviation)[np.triu_indices(3, 1)]
    assert model.constant_ == threshold_constant(scores)
    assert model.threshold_ == pytest.approx(model.constant_ * deviation)


def test_the_nearest_matrix_is_symmetric_to_the_last_digit():
    A = np.random.default_rng(0).normal(size=(60, 60))
    assert np.array_equal(nearest_psd(A + A.T), nearest_psd(A + A.T).T)


THETA = np.array(
    [[1.0, 0.45, 0, 0], [0.45, 1.0, -0.3, 0], [0, -0.3, 1.0, 0.2], [0, 0, 0.2, 1.0]]
)


@pytest.mark.parametrize("rule", [None, EBIC(), Simultaneous()])
def test_a_table_with_its_noise_stated_is_as_good_as_its_release(rule):
    release = GaussianMechanism((-5, 5), sigma=1.5).publish(
        sample_gaussian(THETA, 3000, random_state=0), 1
    )
    stated = PrivateGraphicalLasso(rule, noise_variance=release.noise_variance)
    known = PrivateGraphicalLasso(rule).fit(release)
    assert np.array_equal(stated.fit(release.table).precision_, known.precision_)


def test_edges_of_either_sign_are_listed_by_their_strength():
    model = PrivateGraphicalLasso(0.01).fit(
        sample_gaussian(THETA, 50_000, random_state=0)
    )
    strength = model.edges_.partial_correlation
    assert (
        strength.abs().is_monotonic_decreasing and not strength.is_monotonic_decreasing
    )
    assert (strength < 0).any() and (strength > 0).any()


def test_beyond_an_empty_graph_no_penalty_is_missed(recwarn):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = PrivateGraphicalLasso(CV()).fit(X)
    assert (
        model.edges_.empty
        and model.alpha_ == model.cv_results_.alpha.max()
        and not recwarn.list
    )


def test_what_is_not_positive_definite_is_no_model_of_any_row():
    model = PrivateGraphicalLasso(0.1).fit(TABLE)
    assert np.isfinite(model.score(TABLE))
    model.precision_ = np.array([[1.0, 1.5], [1.5, 1.0]])
    assert model.score(TABLE) == -np.inf


# ---------------------------------------------------------------------- graphs


def test_two_graphs_are_told_apart_in_either_direction():
    low, high, signal = (
        np.array([[1.0]]),
        np.array([[3.0]]),
        Excitation(np.zeros((1, 5)), np.eye(5)),
    )
    there, back = (
        epsilon_between(gso_pair(*filters, signal), 1e-3)
        for filters in ((low, high), (high, low))
    )
    assert (
        there < back
        and gso_epsilon(low, high, signal, 1e-3)
        == gso_epsilon(high, low, signal, 1e-3)
        == back
    )


def test_a_negative_eigenvalue_makes_the_series_diverge_too():
    with pytest.raises(InputError, match="rate=0.6.*diverges from 0.5 on"):
        diffusion_filter(np.eye(3) - np.ones((3, 3)), 0.6)


def test_a_change_is_relative_to_the_first_filter_and_to_the_noise():
    filter, other, root = (
        np.diag([1.0, 2.0]),
        np.array([[1.0, 0.5], [0.5, 2.0]]),
        np.diag([1.0, 4.0]),
    )
    whitened = np.linalg.inv(filter @ root) @ (other - filter) @ root
    assert relative_change(filter, other, root @ root.T) == pytest.approx(
        np.linalg.norm(whitened, 2), rel=1e-12
    )


# ---------------------------------------------------------------------- files


def changed(path, release, change):
    "The file of a release, its metadata changed."
    release.to_parquet(path, replace=True)
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[b"privglasso"])
    change(metadata)
    seal = sealed(metadata, stored.to_pandas())
    pq.write_table(stored.replace_schema_metadata(seal), path)
    return path


@pytest.mark.parametrize("factor", [1 - 1e-6, 1 + 1e-6, 1.5])
def test_a_file_states_its_noise_and_promise_to_the_digit(tmp_path, factor):
    release = GaussianMechanism(BOUNDS, mu=1.0).publish(TABLE, random_state=0)
    noise = [variance * factor for variance in release.noise_variance]
    for name, value in {
        "mu": release.guarantee.mu * factor,
        "noise_variance": noise,
    }.items():
        path = changed(
            tmp_path / "r.parquet",
            release,
            lambda metadata, new={name: value}: metadata.update(new),
        )
        with pytest.raises(ReleaseError, match=name):
            read_release(path)


COVARIANCE = CovarianceMechanism(BOUNDS, clipping="box", mu=2.0).publish(
    TABLE, random_state=0
)
BALL = PapersCovarianceMechanism(norm_bound=9.0, mu=2.0, mean_share=0).publish(
    TABLE, random_state=0
)


def halve(metadata, k):
    "Half the noise off the diagonal, on it, or on the mean."
    metadata["lattice"]["sigma"][k] /= 2


@pytest.mark.parametrize(
    "release, change",
    [
        *((COVARIANCE, lambda m, k=k: halve(m, k)) for k in range(3)),
        (COVARIANCE, lambda m: m.update(total=None)),
        (COVARIANCE, lambda m: m["lattice"].update(half_range=[math.inf, 5.0])),
        (COVARIANCE, lambda m: m["lattice"].update(center=[math.nan, 0.0])),
        (BALL, lambda m: m["lattice"].update(half_range=[9.0, 18.0])),
        (BALL, lambda m: m.update(total=[0, 0])),
    ],
)
def test_no_setting_of_a_covariance_can_be_changed_alone(tmp_path, release, change):
    with pytest.raises(ReleaseError, match="contradicts itself|damaged"):
        read_release(changed(tmp_path / "r.parquet", release, change))


def test_noise_too_coarse_for_its_proof_is_refused_even_if_all_agrees(tmp_path):
    lattice = replace(BALL.lattice, sigma=np.array([0.7, 0.7 * math.sqrt(2), 0.0]))
    coarse = replace(BALL, lattice=lattice, guarantee=lattice.guarantee("record"))
    coarse.to_parquet(tmp_path / "r.parquet")
    with pytest.raises(ReleaseError, match="no noise"):
        read_release(tmp_path / "r.parquet")


def test_the_noise_of_very_many_reports_is_no_contradiction(tmp_path):
    release = LocalMechanism(1.0, mu=1e-3).publish(np.zeros((5000, 1)), random_state=0)
    release.to_parquet(tmp_path / "r.parquet")
    assert np.array_equal(
        read_release(tmp_path / "r.parquet").second_moment, release.second_moment
    )
