"""Recovered structures: what a notebook should not carry."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.graphs import support
from privglasso.base.settings import SettingsError
from privglasso.base.validation import InputError
from privglasso.data_sets.dataset import DataError
from privglasso.experiments import structures
from privglasso.experiments.structures import (
    edge_kinds,
    recovered_precision,
    released_covariance,
    roc_by_size,
    side_by_side,
    structures_run,
)
from privglasso.experiments.table2 import PAPER_DATA, PaperData, chosen_penalties
from privglasso.experiments.table2 import clean_table
from privglasso.publish.noise_correction import sample_covariance
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.recover.metrics import auc, auc_by_magnitude, confusion
from privglasso.recover.textbook import objective

CHAIN = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])


@pytest.fixture
def factors(monkeypatch):
    """Small data sets in the place of the paper's: one of reals, one of whole numbers,
    and one whose files are lost."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(200, 1))
    reals = pd.DataFrame(common + rng.normal(size=(200, 4)), columns=list("abcd"))
    counts = pd.DataFrame(
        np.rint(6 * common + 2 * rng.normal(size=(200, 4))), columns=list("abcd")
    )

    def lost():
        raise DataError("no such file")

    monkeypatch.setitem(
        PAPER_DATA,
        "reals",
        PaperData("grid11", lambda: reals, lambda: CHAIN, False, False),
    )
    monkeypatch.setitem(
        PAPER_DATA, "counts", PaperData("soil", lambda: counts, None, True, False)
    )
    monkeypatch.setitem(
        PAPER_DATA, "lost", PaperData("brain_fmri", lost, None, False, False)
    )
    yield {"reals": reals, "counts": counts}
    clean_table.cache_clear()
    chosen_penalties.cache_clear()


def symmetric(p, values):
    "A symmetric matrix with these entries above the diagonal, row by row."
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p, 1)] = values
    return matrix + matrix.T


@st.composite
def two_graphs(draw):
    "Two graphs on the same nodes."
    p = draw(st.integers(1, 7))
    pairs = p * (p - 1) // 2
    edges = st.lists(st.booleans(), min_size=pairs, max_size=pairs)
    return symmetric(p, draw(edges)), symmetric(p, draw(edges))


# releases


def test_no_noise_is_the_table_itself(factors):
    for name, table in factors.items():
        S, variance = released_covariance(name, None, seed=1)
        assert np.array_equal(S, sample_covariance(table)) and not variance.any()


def test_the_naive_and_the_corrected_covariance_differ_on_the_diagonal_alone(factors):
    S, variance = released_covariance("reals", 0.0, seed=1)
    table = factors["reals"].to_numpy()
    assert variance == pytest.approx(
        np.full(4, table.var()), rel=1e-6
    )  # 0 dB: as much noise as signal
    off = released_covariance("reals", 0.0, seed=1)[0] - np.diag(variance) - S
    assert np.array_equal(off, -np.diag(variance))


def test_whole_numbers_without_noise_are_published_raw(factors):
    S, variance = released_covariance("counts", 200.0, seed=1)
    assert (
        np.array_equal(S, sample_covariance(factors["counts"])) and not variance.any()
    )


def test_what_is_no_data_set_or_no_level_is_refused(factors):
    for find in [released_covariance, recovered_precision]:
        with pytest.raises(InputError, match="name.*choose from.*sachs"):
            find("scahs", 20.0, 1)
        with pytest.raises(InputError, match="snr_db"):
            find("reals", np.nan, 1)
        with pytest.raises(InputError, match="random_state"):
            find("reals", 20.0, "one")
        with pytest.raises(DataError):
            find("lost", 20.0, 1)


def test_a_recovered_precision_is_the_graphical_lassos_of_the_corrected_covariance(
    factors,
):
    alpha = clean_table("reals")[1][-1]
    for level in (None, 40.0, 10.0):
        S, variance = released_covariance("reals", level, seed=1)
        corrected, precision = (
            S - np.diag(variance),
            recovered_precision("reals", level, seed=1),
        )
        best = graphical_lasso(corrected, alpha, tol=1e-9).precision
        assert (
            np.array_equal(precision, precision.T)
            and np.linalg.eigvalsh(precision)[0] > 0
        )
        assert (
            0
            <= objective(corrected, alpha, precision)
            - objective(corrected, alpha, best)
            + 1e-9
            < 1e-4
        )


# curves


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 6), st.data())
def test_the_area_under_the_curve_is_the_auc_of_the_tables(p, data):
    pairs = p * (p - 1) // 2
    sizes = data.draw(st.lists(st.integers(-3, 3), min_size=pairs, max_size=pairs))
    edges = data.draw(
        st.lists(st.booleans(), min_size=pairs, max_size=pairs).filter(
            lambda e: 0 < sum(e) < len(e)
        )
    )
    fpr, tpr = roc_by_size(symmetric(p, sizes), symmetric(p, edges))
    assert (np.diff(fpr) >= 0).all() and (np.diff(tpr) >= 0).all()
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert auc(fpr, tpr) == pytest.approx(
        auc_by_magnitude(symmetric(p, sizes), symmetric(p, edges))
    )


def test_signs_and_the_diagonal_do_not_matter_to_a_curve():
    sizes = symmetric(4, [0.5, 0.1, 0.0, 0.4, 0.0, 0.3])
    for other in (
        -sizes,
        sizes + 9 * np.eye(4),
        pd.DataFrame(sizes),
        np.asfortranarray(sizes),
    ):
        assert np.array_equal(roc_by_size(other, CHAIN), roc_by_size(sizes, CHAIN))


def test_a_curve_that_does_not_exist_is_refused():
    for sizes, truth, message in [
        (np.triu(np.ones((4, 4))), CHAIN, "precision.*symmetric"),
        (np.full((4, 4), np.nan), CHAIN, "precision.*finite"),
        (np.eye(4), np.triu(CHAIN), "truth.*symmetric"),
        (np.eye(3), CHAIN, "give a 4 by 4 matrix"),
        (np.eye(4), np.zeros((4, 4)), "at least one edge and one absent edge"),
        (np.eye(4), np.ones((4, 4)), "at least one edge and one absent edge"),
        (np.eye(1), np.eye(1), "at least one edge and one absent edge"),
    ]:
        with pytest.raises(InputError, match=message):
            roc_by_size(sizes, truth)


# edges


@settings(max_examples=80, deadline=None)
@given(two_graphs())
def test_kinds_of_edges_agree_with_the_counts(graphs):
    graph, reference = graphs
    kinds = edge_kinds(graph, reference)
    counts = confusion(support(graph), support(reference))
    assert [np.count_nonzero(np.triu(kinds) == kind) for kind in (1, 2, 3)] == [
        counts.found,
        counts.missed,
        counts.extra,
    ]
    assert np.array_equal(kinds, kinds.T) and not np.diag(kinds).any()
    assert np.array_equal(np.isin(kinds, [1, 3]), support(graph))
    assert np.array_equal(np.isin(kinds, [1, 2]), support(reference))
    assert np.array_equal(edge_kinds(reference, graph), np.array([0, 1, 3, 2])[kinds])


def test_graphs_that_cannot_be_compared_are_refused():
    for graph, reference, message in [
        (np.triu(CHAIN), CHAIN, "symmetric"),
        (CHAIN, np.triu(CHAIN), "symmetric"),
        (CHAIN, np.eye(3), "reference.*like the graph's own"),
        (np.ones(4), CHAIN, "square"),
    ]:
        with pytest.raises(InputError, match=message):
            edge_kinds(graph, reference)


# images


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 5))
def test_every_entry_of_every_matrix_is_in_the_image_once(p, k):
    matrices = np.arange(k * p * p, dtype=float).reshape(k, p, p)
    image = side_by_side(matrices)
    gap = max(1, p // 12)
    assert image.shape == (p + 2 * gap, k * p + (k + 1) * gap)
    assert np.array_equal(np.sort(image[np.isfinite(image)]), np.arange(k * p * p))
    for i, matrix in enumerate(matrices):
        start = gap + i * (p + gap)
        assert np.array_equal(image[gap : gap + p, start : start + p], matrix)


def test_what_makes_no_image_is_refused():
    for matrices in [
        [],
        [np.eye(2), np.eye(3)],
        [np.ones((2, 3))],
        [np.ones(4)],
        [3.0],
        3.0,
        [[["a"]]],
        [[[1j]]],
        np.ones((1, 0, 0)),
    ]:
        with pytest.raises(
            InputError, match="at least one matrix, all square and of one size"
        ):
            side_by_side(matrices)


# the study


def test_without_noise_everything_is_found(factors):
    rows = pd.DataFrame(structures_run("reals", seed=1, snr_db=[120.0]))
    noiseless = rows[rows.against == "noiseless"]
    assert len(noiseless) == 2 and not noiseless[["missed", "extra"]].any(axis=None)
    assert noiseless.found.tolist() == 2 * [
        np.triu(support(recovered_precision("reals", None, 1))).sum()
    ]


def test_rows_of_every_level_and_reference(factors):
    rows = pd.DataFrame(structures_run("reals", seed=1, snr_db=[20.0, 0.0]))
    assert rows.groupby("against").snr_db.apply(
        lambda levels: levels.fillna(-1).tolist()
    ).to_dict() == {"noiseless": [-1, 20.0, 0.0], "true": [-1, 20.0, 0.0]}
    assert (rows[rows.against == "true"].eval("found + missed") == 3).all()
    for level in (20.0, 0.0):
        graph = support(recovered_precision("reals", level, 1))
        ours = rows[rows.snr_db == level]
        assert (ours.found + ours.extra == np.triu(graph).sum()).all()


def test_a_data_set_without_a_true_graph_is_compared_with_the_noiseless_alone(factors):
    assert {row["against"] for row in structures_run("counts", 1, [0.0])} == {
        "noiseless"
    }


def test_lost_data_leave_a_row_that_says_so(factors):
    assert structures_run("lost", 1, [20.0]) == [
        {"dataset": "lost", "seed": 1, "against": "none"}
    ]


def test_a_setting_that_names_no_data_set_is_refused(monkeypatch):
    monkeypatch.delitem(PAPER_DATA, "grid11")
    with pytest.raises(SettingsError, match="grid11"):
        structures.STRUCTURES.jobs("quick")
