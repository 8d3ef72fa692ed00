"""The two referees: what they refuse, and that only a point of the box proves."""

import numpy as np
import pytest

from privglasso.base.validation import InputError
from privglasso.recover.textbook import dual_gap, kkt_residual, objective


def test_what_is_not_definite_or_not_in_the_box_is_refused():
    "At S = -2, alpha = 1 the matrix -1 is stationary, and not a minimum."
    for precision in ([[-1.0]], [[0.0]]):
        with pytest.raises(InputError, match="not positive definite"):
            kkt_residual([[-2.0]], 1.0, precision)
    one, two = np.eye(2), 2 * np.eye(2)
    assert objective(one, 1.0, -one) == np.inf
    for precision, W, named in (
        (-one, two, "precision, dual_covariance"),
        (one, one, "dual_covariance"),
        (np.eye(3), two, "precision"),
        (one, [[2, 2.5], [2.5, 2]], "dual_covariance"),
    ):
        with pytest.raises(InputError) as caught:
            dual_gap(one, 1.0, precision, W)
        assert caught.value.argument == named


def test_a_dual_point_outside_by_rounding_proves_no_more_than_the_box_does():
    "W = 1 is the only dual point of S = 0, alpha = 1; more would prove too much."
    precision, excess = [[1 + 1e-5]], 0.5e-10
    exact = 1e-5 - np.log1p(1e-5)
    assert dual_gap([[0.0]], 1.0, precision, [[1 + excess]]) == pytest.approx(
        exact, abs=1e-15
    )
    with pytest.raises(InputError, match="outside the box"):
        dual_gap([[0.0]], 1.0, precision, [[1 + 1e-9]])
