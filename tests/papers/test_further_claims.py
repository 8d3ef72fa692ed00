"""Discrete Gaussians around any centre, and the bounds of Wang and Xu."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.papers.further_claims import mu_of_centres
from privglasso.privacy.discrete_gaussian import mu_exact


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.floats(0.1, 8))
def test_on_the_lattice_it_is_the_exact_mu(shift, sigma):
    assert mu_of_centres(shift, sigma) == pytest.approx(mu_exact(shift, sigma))


@settings(deadline=None, max_examples=60)
@given(st.floats(0.01, 40), st.floats(0.1, 8))
def test_lemma_4_holds_between_the_points_of_the_lattice(shift, sigma):
    exact = mu_of_centres(shift, sigma) * sigma
    assert exact <= (math.ceil(shift) + 1) * (1 + 1e-9)
    assert mu_of_centres(shift, sigma) <= mu_of_centres(math.ceil(shift), sigma) + 1e-9


def test_no_less_than_one_step_would_do():
    excess = [mu_of_centres(1, sigma) * sigma - 1 for sigma in (0.4, 0.2, 0.1, 0.05)]
    assert excess == sorted(excess) and 0.98 < excess[-1] < 1
