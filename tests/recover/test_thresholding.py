"""Thresholded private covariances: sensitivities, promises, bounds in thousands of random cases, bad input."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chi2, false_discovery_control, norm
from sklearn.utils.estimator_checks import check_estimator

from privglasso.papers.registry import CLAIMS
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.privacy.gdp import delta_gdp, mu_gdp
from privglasso.papers.wang_xu import equivalent_rows, moment_change, paper_covariance
from privglasso.papers.wang_xu import printed_estimate, printed_threshold, true_epsilon
from privglasso.publish.local import LocalMechanism
from privglasso.recover.thresholding import DPThresholding, LDPThresholding
from privglasso.recover.thresholding import ZeroOutGuarantee, positive_part
from privglasso.recover.thresholding import threshold_constant, threshold_off_diagonal
from privglasso.recover.thresholding import thresholding_bound
from privglasso.privacy.guarantee import classical_mu
from privglasso.privacy.guarantee import Guarantee
from privglasso.experiments.thresholding_figures import THRESHOLDING
from privglasso.experiments.thresholding_figures import thresholding_curves
from privglasso.experiments.thresholding_figures import thresholding_run
from privglasso.base.validation import InputError

BOTH = [DPThresholding, LDPThresholding]


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).uniform(-1, 1, (300, 3))


# sensitivity

unit_pairs = st.integers(1, 6).flatmap(
    lambda p: hnp.arrays(
        float, (2, p), elements=st.floats(-1, 1, allow_subnormal=False)
    )
)


@settings(max_examples=200, deadline=None)
@given(unit_pairs, st.sampled_from([1.0, 2.0]))
def test_no_pair_of_rows_moves_the_moments_farther(rows, diagonal):
    x, y = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    assert moment_change(x, y, diagonal) <= math.sqrt(2 / diagonal) * (1 + 1e-12)
    assert moment_change(x, 0 * x, diagonal) <= math.sqrt(1 / diagonal) * (1 + 1e-12)


@pytest.mark.parametrize("noise", ["symmetric", "upper"])
def test_the_noise_is_the_distance_of_the_worst_neighbours(noise):
    "The mechanism's promise is the distance of e1 from e2 (or from zero) in its own noise, and no less."
    n, p, mu = 500, 4, 0.7
    e1, e2 = np.eye(p)[:2]
    for neighbors, y in (("record", e2), ("zero-out", 0 * e1)):
        X = np.zeros((n, p))
        model = DPThresholding(
            1.0, mu=mu, neighbors=neighbors, noise=noise, random_state=0
        ).fit(X)
        std = np.sqrt(model.release_.matrix_noise_variance)
        change = np.triu(np.outer(e1, e1) - np.outer(y, y)) / n
        assert np.linalg.norm(change / std) == pytest.approx(mu, rel=2e-3)
        assert (
            np.linalg.norm(change / std)
            <= model.guarantee_.mu * (1 + 1e-9)
            <= mu * (1 + 1e-9)
        )


def test_one_column_has_one_promise():
    X = np.zeros((50, 1))
    zeroed, replaced = (
        DPThresholding(1.0, mu=1.0, neighbors=kind, random_state=0).fit(X)
        for kind in ("zero-out", "record")
    )
    assert (
        zeroed.release_.matrix_noise_variance == replaced.release_.matrix_noise_variance
    )
    assert zeroed.guarantee_.mu == replaced.guarantee_.mu


@pytest.mark.parametrize(
    ("delta", "limit"),
    [(1e-2, 1.88), (1e-3, 1.25), (1e-5, 0.365), (1e-6, 0.163), (1e-8, 0.026)],
)
def test_where_the_printed_noise_fails(delta, limit):
    assert true_epsilon(limit * 0.98, delta) < limit * 0.98
    assert true_epsilon(limit * 1.02, delta) > limit * 1.02


@pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-5, 1e-6, 1e-8])
def test_the_printed_noise_hides_a_zeroed_row(delta):
    epsilons = np.linspace(0.01, 2, 100)
    assert (
        delta_gdp(epsilons, [classical_mu(epsilon, delta) for epsilon in epsilons])
        < delta
    ).all()


def test_a_zeroed_row_has_a_sentence_of_its_own():
    promise = ZeroOutGuarantee(1.0, "zero-out")
    assert str(promise).startswith(
        "if one record were set to the public centre, somebody who knows"
    )
    assert str(promise).endswith(str(Guarantee(1.0, "record")).split("somebody")[1])
    both = promise.compose(ZeroOutGuarantee(1.0, "zero-out"))
    assert both.mu == pytest.approx(math.sqrt(2)) and "centre" in str(both)
    with pytest.raises(InputError, match="zero-out"):
        promise.compose(Guarantee(1.0, "record"))


# thresholding


def test_the_bound_holds_in_every_norm():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        p = int(rng.integers(1, 12))
        A = rng.standard_normal((p, p)) * (rng.random((p, p)) < rng.random())
        Sigma, T = A @ A.T, np.triu(rng.exponential(1, (p, p)))
        T = T + np.triu(T, 1).T
        E = np.triu(np.clip(rng.uniform(-2, 2, (p, p)), -1, 1)) * T / 2
        S = Sigma + E + np.triu(E, 1).T
        estimate = threshold_off_diagonal(S, T)
        bound = thresholding_bound(Sigma, T, np.abs(np.diag(E)).max())
        for order in (1, 2, np.inf):
            assert np.linalg.norm(estimate - Sigma, order) <= bound * (1 + 1e-12)
        spectral = np.linalg.norm(estimate - Sigma, 2)
        assert (
            np.linalg.norm(positive_part(estimate) - Sigma, 2)
            <= 2 * spectral * (1 + 1e-9) + 1e-12
        )


def test_half_the_threshold_is_needed():
    "With errors of more than half the threshold the sharper bound fails, so its condition is no decoration."
    Sigma, T = np.array([[1.0, 0.45], [0.45, 1.0]]), 1.0
    S = Sigma + np.array([[0.0, 0.6], [0.6, 0.0]])
    error = np.linalg.norm(threshold_off_diagonal(S, T) - Sigma, 1)
    assert error > thresholding_bound(Sigma, T) and error <= 4 * 0.45


def test_thresholding_keeps_the_diagonal_and_exact_zeros():
    S = np.array([[0.01, 0.5, -0.2], [0.5, -0.3, 0.1], [-0.2, 0.1, 0.0]])
    kept = threshold_off_diagonal(S, 0.2)
    assert (
        np.array_equal(np.diag(kept), np.diag(S))
        and kept[0, 1] == 0.5
        and np.count_nonzero(kept) == 4
    )
    assert np.array_equal(threshold_off_diagonal(S, 0.0), S)


def test_projection_is_the_nearest_semidefinite_matrix():
    A = np.random.default_rng(2).standard_normal((6, 6))
    A = A + A.T
    P = positive_part(A)
    assert np.linalg.eigvalsh(P)[0] > -1e-12 and abs(np.trace(P @ (P - A))) < 1e-10
    assert np.linalg.eigvalsh(P - A)[0] > -1e-12


@pytest.mark.parametrize("seed", range(20))
def test_the_constant_is_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(200) + 5 * (rng.random(200) < seed / 40)
    rejected = false_discovery_control(2 * norm.sf(np.abs(scores)), method="bh") <= 0.1
    assert np.array_equal(np.abs(scores) >= threshold_constant(scores), rejected)


def test_the_constant_without_scores_is_finite():
    assert np.isfinite(threshold_constant(np.empty(0)))


def test_the_diagonal_is_lost_by_the_printed_rule_and_kept_by_ours():
    p, n = 100, 2000
    X = np.random.default_rng(3).standard_normal((n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    release = CovarianceMechanism(
        norm_bound=1.0, epsilon=1.0, delta=1e-5, mean_share=0
    ).publish(X, random_state=0)
    assert not printed_estimate(
        release.matrix, printed_threshold(n, p, 1.0, 1e-5, 0.0)
    ).any()
    model = DPThresholding(1.0, epsilon=1.0, delta=1e-5, random_state=0).fit(X)
    assert np.abs(np.diag(model.thresholded_) * p - 1).max() < 1


# the price in rows


def test_equivalent_rows_are_what_the_variances_say():
    n, mu, B, a = 1e4, 0.3, 2.0, 0.7
    assert a**2 / equivalent_rows(n, mu, B, a) == pytest.approx(
        a**2 / n + (B**2 / (n * mu)) ** 2
    )
    assert a**2 / equivalent_rows(n, mu, B, a, local=True) == pytest.approx(
        a**2 / n + n * (B**2 / (n * mu)) ** 2
    )
    assert equivalent_rows(1e12, mu, B, a) / 1e12 == pytest.approx(1, abs=1e-6)


# the local model


def test_reports_add_up_to_a_release():
    "Users who report by themselves give the same distribution: same mean, same noise."
    X = np.random.default_rng(4).uniform(-0.5, 0.5, (10, 2))
    mechanism = LocalMechanism(1.0, mu=4.0)
    lattice = mechanism.lattice(10, 2)
    unit = np.outer(lattice.unit, lattice.unit) / 10
    alone = [
        sum(mechanism.report(row, 10, 100 * k + i) for i, row in enumerate(X)) * unit
        for k in range(150)
    ]
    together = [mechanism.publish(X, k).matrix for k in range(150)]
    for runs in (alone, together):
        squares = (
            ((np.array(runs) - X.T @ X / 10) / mechanism.noise_std(10, 2)) ** 2
        ).sum(axis=0)
        assert ((squares > chi2.ppf(1e-6, 150)) & (squares < chi2.isf(1e-6, 150))).all()


def test_a_report_is_symmetric_and_clipped_by_its_user():
    mechanism = LocalMechanism(1.0, mu=1000.0)
    near, far = (
        mechanism.report(scale * np.array([0.6, 0.8]), 5, 0) for scale in (1, 1e6)
    )
    assert np.array_equal(near, near.T) and near.dtype == np.int64
    assert np.abs(near - far).max() <= 2 * mechanism.lattice(5, 2).radius


def test_a_local_promise_covers_any_two_users():
    mechanism = LocalMechanism(2.0, epsilon=1.0, delta=1e-5)
    std = np.sqrt(100) * mechanism.noise_std(
        100, 3
    )  # of one report: the curator's is that of the mean of a hundred
    change = np.diag([4.0, -4.0, 0.0])  # users 2 e1 and 2 e2
    mu = mu_gdp(1.0, 1e-5)
    assert mu * 0.998 < np.linalg.norm(change / std) <= mu
    assert mechanism.guarantee(2, 3).epsilon(1e-5) <= 1 + 1e-9


def test_a_local_error_is_known_beforehand():
    "Sampling and n users' noise, as the release will say; about a point off the mean, the offset is there too."
    mechanism, Sigma = LocalMechanism(8.0, center=1.0, mu=2.0), np.array(
        [[1.0, 0.3], [0.3, 2.0]]
    )
    X = np.random.default_rng(6).multivariate_normal([2, 1], Sigma, 4000)
    planned = mechanism.sampling_error(Sigma, 4000, location=[2, 1])
    release = mechanism.publish(X, random_state=1)
    assert np.array_equal(planned.noise, release.sampling_error().noise)
    error = (release.matrix - Sigma - np.outer([1, 0], [1, 0])) / np.sqrt(
        planned.covariance_variance()
    )
    assert np.abs(error).max() < 5
    assert mechanism.sampling_error(Sigma, 4000).noise == pytest.approx(
        mechanism.noise_std(4000, 2) ** 2
    )


# estimators


@pytest.mark.parametrize("estimator", BOTH)
def test_scikit_learn_takes_them(estimator):
    check_estimator(estimator(norm_bound=10.0, mu=5.0, random_state=0))


@pytest.mark.parametrize("estimator", BOTH)
def test_the_estimate_follows_from_the_release_alone(estimator, table):
    model = estimator(norm_bound=2.0, mu=1.0, random_state=7).fit(table)
    again = estimator(norm_bound=2.0, mu=1.0)._estimate(model.release_)
    assert (
        np.array_equal(model.covariance_, again.covariance_)
        and model.constant_ == again.constant_
    )
    assert model.release_.secure is False and "seed" in str(model.release_)
    fixed = estimator(norm_bound=2.0, mu=1.0, constant=0.0, random_state=7).fit(table)
    assert np.array_equal(fixed.thresholded_, model.release_.matrix)


@pytest.mark.parametrize("estimator", BOTH)
def test_all_kinds_of_tables(estimator, table):
    locked = table.copy()
    locked.setflags(write=False)
    frame = pd.DataFrame(table, columns=list("abc"))
    kinds = locked, np.asfortranarray(table), np.repeat(table, 2, axis=1)[:, ::2], frame
    matrices = [
        estimator(2.0, mu=1.0, random_state=3).fit(kind).covariance_ for kind in kinds
    ]
    assert all(np.array_equal(matrices[0], matrix) for matrix in matrices)
    assert estimator(2.0, mu=1.0, random_state=3).fit(frame).release_.columns == list(
        "abc"
    )


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (40, 1)])
def test_the_smallest_tables(estimator, shape):
    model = estimator(2.0, mu=1.0, random_state=0).fit(np.ones(shape))
    assert (
        model.covariance_.shape == (shape[1], shape[1])
        and np.linalg.eigvalsh(model.covariance_)[0] > -1e-9
    )


def test_more_rows_bring_the_groups_back():
    truth = np.kron(np.eye(4), 0.6 * np.eye(3) + 0.4)
    X = np.random.default_rng(5).multivariate_normal(np.zeros(12), truth, 40_000)
    for seed in range(5):
        model = DPThresholding(6.0, epsilon=1.0, delta=1e-5, random_state=seed).fit(X)
        wrong = (model.thresholded_ != 0) != (truth != 0)
        assert (
            wrong.sum() / 2 <= 6 and np.linalg.norm(model.covariance_ - truth, 2) < 0.2
        )


BAD = [
    ({"norm_bound": None, "mu": 1.0}, "norm_bound=None: give the norm"),
    ({"norm_bound": 0.0, "mu": 1.0}, "norm_bound"),
    ({"norm_bound": 1.0}, "give exactly one of mu"),
    (
        {"norm_bound": 1.0, "mu": 1.0, "epsilon": 1.0, "delta": 0.1},
        "give exactly one of mu",
    ),
    ({"norm_bound": 1.0, "epsilon": 1.0}, "delta"),
    ({"norm_bound": 1.0, "epsilon": 0.0, "delta": 0.1}, "epsilon=0.0"),
    ({"norm_bound": 1.0, "epsilon": 1.0, "delta": 0.0}, "delta=0.0"),
    ({"norm_bound": 1.0, "epsilon": 1.0, "delta": 1.5}, "delta=1.5"),
    ({"norm_bound": 1.0, "mu": math.inf}, "mu=inf"),
    (
        {"norm_bound": 1.0, "mu": 1.0, "constant": -1.0},
        "constant=-1.0: give a number of standard errors",
    ),
    ({"norm_bound": 1.0, "mu": 1.0, "false_share": 1.0}, "false_share=1.0"),
    ({"norm_bound": 1.0, "mu": 1.0, "random_state": "x"}, "random_state"),
]


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments_name_the_remedy(estimator, arguments, message, table):
    with pytest.raises(InputError, match=message):
        estimator(**arguments).fit(table)


def test_unknown_neighbours_and_noise(table):
    with pytest.raises(InputError, match='give "record"'):
        DPThresholding(1.0, mu=1.0, neighbors="cell").fit(table)
    with pytest.raises(InputError, match="upper"):
        DPThresholding(1.0, mu=1.0, noise="none").fit(table)


@pytest.mark.parametrize("estimator", BOTH)
def test_bad_tables(estimator, table):
    model = estimator(1.0, mu=1.0)
    with pytest.raises(InputError, match="b.*not numeric"):
        model.fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(table > 0.9, np.nan, table))


@pytest.mark.parametrize(
    "call",
    [
        lambda: moment_change([1.0, 0.0], [0.0, 1.0], 0.0),
        lambda: true_epsilon(1.0, 0.0),
        lambda: true_epsilon(1.0, 1e-5, -1.0),
        lambda: paper_covariance(0, 0.2, 0),
        lambda: paper_covariance(10, 1.0, 0),
        lambda: threshold_off_diagonal([[1.0, 2.0], [0.0, 1.0]], 0.1),
        lambda: threshold_off_diagonal(np.eye(2), -0.1),
        lambda: threshold_off_diagonal(np.eye(2), np.ones((3, 3))),
        lambda: thresholding_bound(np.eye(2), -1.0),
        lambda: thresholding_bound(np.eye(2), math.nan),
        lambda: thresholding_bound(np.eye(2), [1.0, 2.0]),
        lambda: thresholding_bound(np.eye(2), 0.1, -1.0),
        lambda: printed_estimate(np.eye(2), math.nan),
        lambda: printed_threshold(100, 5, 1.0, 0.1, -1.0),
        lambda: paper_covariance(10, 0.2, -1),
        lambda: printed_threshold(0, 5, 1.0, 0.1, 1.0),
        lambda: printed_threshold(100, 5, 1.0, 0.1, math.nan),
        lambda: threshold_constant([1.0], 0.0),
        lambda: threshold_constant([1.0, math.nan]),
        lambda: equivalent_rows(0, 1.0, 1.0, 1.0),
        lambda: equivalent_rows(np.array([10, -1]), 1.0, 1.0, 1.0),
        lambda: equivalent_rows(100, 0.0, 1.0, 1.0),
        lambda: equivalent_rows(100, 1.0, 0.0, 1.0),
        lambda: equivalent_rows(100, 1.0, 1.0, 0.0),
        lambda: LocalMechanism(1.0, mu=1.0).report(np.ones((2, 3)), 5),
        lambda: LocalMechanism(1.0, mu=1.0).report([1.0, np.nan], 5),
    ],
)
def test_bad_input_of_the_functions(call):
    with pytest.raises(InputError):
        call()


# the experiments


def test_the_design_of_the_experiments():
    U = paper_covariance(100, 0.2, 1)
    off_diagonal = U[~np.eye(100, dtype=bool)]
    assert (
        np.array_equal(U, U.T)
        and np.allclose(np.diag(U), 0.25)
        and np.linalg.eigvalsh(U)[0] > 0.1
    )
    assert (
        abs((off_diagonal != 0).mean() - 0.2) < 0.03
        and 0 <= off_diagonal.min()
        and off_diagonal.max() < 0.005
    )


def test_a_repeat_is_reproducible_and_complete():
    job = {
        "p": 20,
        "sparsity": 0.3,
        "epsilons": [0.5, 1.0],
        "rows": [500, 1000],
        "gammas": [0.0, 1.0],
        "factor": 1.2,
    }
    rows = pd.DataFrame(thresholding_run(**job, seed=1))
    assert (
        rows.equals(pd.DataFrame(thresholding_run(**job, seed=1)))
        and len(rows) == 2 * 2 * 2 * 3
    )
    assert not rows.l2.equals(pd.DataFrame(thresholding_run(**job, seed=2)).l2)


def test_settings_share_what_they_have_in_common():
    jobs = THRESHOLDING.jobs("full")
    keys = {(job["p"], job["sparsity"], job["seed"]) for job in jobs}
    assert len(keys) == len(jobs) == 7 * 20
    rows = pd.DataFrame(
        [
            {
                "p": p,
                "sparsity": s,
                "epsilon": e,
                "n": 10,
                "model": "central",
                "recipe": "private",
                "l1": 1.0,
                "l2": p,
            }
            for p, s, e in (
                (100, 0.2, 1.0),
                (100, 0.5, 1.0),
                (200, 0.2, 1.0),
                (200, 0.2, 2.0),
            )
        ]
    )
    columns = {
        panel: thresholding_curves(rows, panel, "central").columns
        for panel in ("sparsity", "p", "epsilon")
    }
    assert [list(c.get_level_values(1)) for c in columns.values()] == [
        [0.2, 0.5],
        [100, 200],
        [1.0, 2.0],
    ]


def test_a_panel_that_is_none():
    with pytest.raises(InputError, match="panel='n'"):
        thresholding_curves(pd.DataFrame(), "n", "central")
    with pytest.raises(InputError, match="model='both'"):
        thresholding_curves(pd.DataFrame(), "p", "both")


def test_the_claims_are_registered_once():
    ours = [claim for claim in CLAIMS if claim.paper == "Wang & Xu"]
    assert len(ours) == len({claim.name for claim in ours}) == 18
    assert all(claim.check().refuted == (claim.verdict == "FALSE") for claim in ours)
