"""Su et al.: the printed calibration, the rescaling by the largest norm, and the risk
of the ridge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privglasso.base.validation import InputError
from privglasso.papers.private_precision import ridge_precision
from privglasso.papers.su import rescaled_moments, ridge_risk
from privglasso.privacy.gdp import delta_gdp, epsilon_gdp, mu_gdp
from privglasso.privacy.guarantee import classical_limit, classical_mu


@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-9])
def test_classical_formula_is_refused_exactly_where_it_fails(delta):
    limit, scale = classical_limit(delta), np.sqrt(2 * np.log(1.25 / delta))
    assert classical_mu(limit * 0.999, delta) == pytest.approx(limit * 0.999 / scale)
    assert delta_gdp(limit * 1.001, limit * 1.001 / scale) > delta
    with pytest.raises(InputError, match=f"{limit:.4g}"):
        classical_mu(limit * 1.001, delta)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 6.5), st.floats(1e-9, 0.01))
def test_classical_wastes_but_keeps_the_promise(epsilon, delta):
    mu = classical_mu(epsilon, delta)
    assert mu <= mu_gdp(epsilon, delta) and epsilon_gdp(delta, mu) <= epsilon * (
        1 + 1e-9
    )


def test_largest_norm_moves_everybody():
    X = np.ones((100, 1))
    other = X.copy()
    other[0] = 10
    assert np.linalg.norm(
        rescaled_moments(X) - rescaled_moments(other)
    ) == pytest.approx(0.9801)
    with pytest.raises(InputError, match="zero"):
        rescaled_moments(np.zeros((3, 2)))


def test_the_risk_is_the_mean_error_of_many_draws():
    rng = np.random.default_rng(0)
    draws = [
        ridge_precision([[1 + 0.5 * z]], 0.1)[0, 0] for z in rng.standard_normal(4000)
    ]
    assert ridge_risk(0.5, 0.1) == pytest.approx(
        np.abs(np.array(draws) - 1).mean(), rel=0.1
    )
    with pytest.raises(InputError, match="^noise="):
        ridge_risk(0.0, 1.0)
