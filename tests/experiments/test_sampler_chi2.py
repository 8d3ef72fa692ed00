"""The billion draws' tests: what they count, and that they can fail."""

import numpy as np
import pandas as pd
import pytest

from privglasso.experiments.sampler_chi2 import (
    chi2_tests,
    count_draws,
    interval_width,
    probabilities,
)
from privglasso.privacy.discrete_gaussian import pmf


def test_pieces_add_up_whatever_their_size(monkeypatch):
    whole = pd.DataFrame(count_draws(3000.0, seed=2, draws=1000))
    monkeypatch.setattr("privglasso.experiments.sampler_chi2._PIECE", 300)
    pieces = pd.DataFrame(count_draws(3000.0, seed=2, draws=1000))
    for counts in (whole, pieces):
        assert counts.groupby("counted")["count"].sum().to_dict() == {
            "interval": 1000,
            "remainder": 1000,
        }
        assert counts[counts.counted == "remainder"].value.between(0, 255).all()
        assert not counts.duplicated(["counted", "value"]).any()


@pytest.mark.parametrize("sigma", [0.5, 3.7, 1500.0])
def test_probabilities_are_those_of_the_integers_in_a_bin(sigma):
    width = interval_width(sigma)
    values = np.array([-4, -1, 0, 1, 4])
    by_hand = [
        pmf(np.arange(value * width, (value + 1) * width), sigma).sum()
        for value in values
    ]
    np.testing.assert_allclose(
        probabilities("interval", values, sigma), by_hand, rtol=1e-7
    )


def counts_of(expected, sigma, counted="interval"):
    "A histogram with these counts, whole numbers."
    return pd.DataFrame(
        {
            "sigma": sigma,
            "counted": counted,
            "value": expected.index,
            "count": np.rint(expected).astype(int).to_numpy(),
        }
    )


def test_a_perfect_histogram_passes_and_a_shifted_one_fails():
    values = np.arange(-60, 61)
    perfect = pd.Series(1e8 * probabilities("interval", values, 5.0), values)
    assert chi2_tests(counts_of(perfect, 5.0))["p"] > 0.999
    assert (
        chi2_tests(counts_of(perfect.rename(lambda value: value + 1), 5.0))["p"] < 1e-12
    )


def test_a_tail_too_heavy_is_seen_by_the_tail_alone():
    values = np.arange(-60, 61)
    heavy = pd.Series(1e8 * probabilities("interval", values, 5.0), values)
    heavy[[-29, 29]] += 40  # of about ten expected beyond
    tests = chi2_tests(counts_of(heavy, 5.0))
    assert tests["p"] > 0.5 and tests["p 10"] < 1e-6


def test_low_bits_that_stick_are_seen():
    even = pd.Series(1e5, np.arange(0, 256, 2))
    assert chi2_tests(counts_of(even, 20000.5, "remainder"))["p"] < 1e-12
    assert (
        chi2_tests(counts_of(pd.Series(1e5, np.arange(256)), 20000.5, "remainder"))["p"]
        > 0.999
    )
