"""Table 1: the model, the formula and the studies, beyond what the chapter shows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privglasso.base.graphs import support
from privglasso.base.validation import InputError
from privglasso.data_sets.synthetic import sample_gaussian
from privglasso.experiments.table1 import (
    beside_printed,
    dominant_precision,
    edge_effects,
    expected_auc,
    publish_at_paper_snr,
    ranked_auc,
    whole_table_sigma,
)
from privglasso.privacy.discrete_gaussian import variance

RNG = np.random.default_rng(0)
CELLS = RNG.normal(3, 2, (400, 5)) * [1, 10, 1, 1, 1]


# noise


def test_sigma_is_of_all_cells_and_has_their_unit():
    assert whole_table_sigma(CELLS, 20) == pytest.approx(CELLS.std() / 10)
    assert whole_table_sigma(7 * CELLS + 5, 20) == pytest.approx(
        7 * whole_table_sigma(CELLS, 20)
    )
    assert whole_table_sigma(pd.DataFrame(CELLS), -20) == pytest.approx(
        CELLS.std() * 10
    )


def test_what_has_no_sigma():
    for table, level, message in [
        (np.ones((3, 2)), 20, "constant"),
        ([[1.0, np.nan], [0.0, 1.0]], 20, "table"),
        (CELLS, np.inf, "snr_db"),
        (CELLS, "loud", "snr_db"),
        ([[1.0, 2.0]], 20, "table"),
        (CELLS, 1e6, "snr_db"),
        (CELLS, -1e6, "snr_db"),
    ]:
        with pytest.raises(InputError, match=message):
            whole_table_sigma(table, level)


def test_a_release_repeats_and_promises_nothing():
    one, two = (publish_at_paper_snr(CELLS, 10, random_state=4) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    assert (
        one.guarantee.mu == np.inf
        and not one.secure
        and one.guarantee.neighbors == "cell"
    )
    outer = np.ptp(CELLS) / whole_table_sigma(
        CELLS, 10
    )  # bounds move inward to steps of at most a 64th of σ
    assert outer - 2 / 64 < one.guarantee.hypothetical.mu <= outer * (1 + 1e-4)
    assert len(set(one.noise_variance)) == 1


def test_whole_numbers_stay_whole():
    counts = RNG.poisson(20, (300, 4))
    release = publish_at_paper_snr(counts, 10, integers=True, random_state=1)
    assert (release.table.dtypes == np.int64).all()
    assert release.noise_variance[0] == pytest.approx(
        variance(whole_table_sigma(counts, 10))
    )
    halves = publish_at_paper_snr(counts + 0.4, 10, integers=True, random_state=1)
    assert (halves.table.dtypes == np.int64).all()  # rounded, whatever the cells


# the model


@given(st.integers(2, 25), st.floats(0.01, 0.99), st.integers(0, 2**31))
def test_the_large_model_is_what_it_says(p, density, seed):
    precision = dominant_precision(p, density, seed)
    off = precision - np.diag(np.diag(precision))
    assert set(np.unique(off)) <= {0.0, 0.1} and (precision == precision.T).all()
    assert np.allclose(np.diag(precision), off.sum(axis=0) + 0.01)
    assert np.linalg.eigvalsh(precision)[0] > 0.0099


def test_density_and_streams():
    precision = dominant_precision(400, 0.1, 1)
    edges = support(precision).sum() / 2
    assert abs(edges - 7980) < 6 * np.sqrt(79800 * 0.09)
    assert (precision == dominant_precision(400, 0.1, 1)).all() and (
        precision != dominant_precision(400, 0.1, 2)
    ).any()


def test_models_that_are_none():
    for arguments, message in [
        ((1, 0.1), "p="),
        ((5, 0), "density"),
        ((5, 1.5), "density"),
        ((5, 0.1, 0, 0), "margin"),
        ((5, 0.1, 0, -1), "margin"),
    ]:
        with pytest.raises(InputError, match=message):
            dominant_precision(*arguments)


# the formula


@given(st.floats(0, 30))
def test_the_expected_auc_is_a_probability_that_grows(z):
    assert 0.5 <= expected_auc(z) <= 1 and expected_auc(z + 0.1) >= expected_auc(z)
    assert expected_auc(-z) == pytest.approx(expected_auc(z))


def test_the_expected_auc_of_many_is_their_mean():
    assert expected_auc([0, 1, 3]) == pytest.approx(
        np.mean([expected_auc(z) for z in (0, 1, 3)])
    )


def test_no_effect_no_auc():
    for z in [np.nan, np.inf, "a", [], None]:
        with pytest.raises(InputError, match="z="):
            expected_auc(z)


def test_effects_of_a_pair_by_hand():
    precision = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert edge_effects(precision, 0.0, 102) == pytest.approx(
        0.5 / np.sqrt((1 + 0.25) / 100)
    )
    assert edge_effects(precision, 0.5, 102) < edge_effects(precision, 0.0, 102)


def test_effects_need_more_rows_than_columns():
    for n in [0, 6, 2.5, "many"]:
        with pytest.raises(InputError, match="n="):
            edge_effects(dominant_precision(6, 0.5, 3), 0.0, n)


def test_effects_agree_with_draws():
    precision = dominant_precision(6, 0.5, 3)
    edges = np.triu(support(precision), 1)
    drawn = [
        np.linalg.inv(np.cov(sample_gaussian(precision, 2000, s), rowvar=False))[edges]
        for s in range(400)
    ]
    z = np.abs(precision[edges]) / np.std(drawn, axis=0)
    assert z / edge_effects(precision, 0.0, 2000) == pytest.approx(
        1, abs=0.25
    )  # 6 standard errors of a deviation


# scores and studies


def test_no_graph_no_score():
    indefinite = np.array([[0.5, 0.8, 0.8], [0.8, 0.5, -0.8], [0.8, -0.8, 0.5]])
    truth = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    assert (
        np.isnan(ranked_auc(indefinite, 0.01, truth))
        and ranked_auc(indefinite, 2.0, truth) == 0.5
    )


def test_our_cells_stand_beside_the_printed_ones():
    results = pd.DataFrame(
        {"n": 50, "snr_db": [None, None, 20.0], "reading": "x", "auc": [0.9, 1.0, 0.8]}
    )
    table = beside_printed(results, "guo_table1a", ["n"]).set_index("snr_db")
    assert (
        table.ours.to_dict() == pytest.approx({np.inf: 0.95, 20.0: 0.8})
        and table.repeats[np.inf] == 2
    )
    assert table.difference[20.0] == pytest.approx(0.8 - 0.884) and table.deviation[
        np.inf
    ] == pytest.approx(0.05)
