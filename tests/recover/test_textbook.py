"""The two referees of the textbook algorithms: what they refuse, and that the gap is one of a point of the box."""

import numpy as np
import pytest

from privglasso.recover.textbook import dual_gap, kkt_residual
from privglasso.base.validation import InputError


@pytest.mark.parametrize("precision", [[[-1.0]], [[0.0]]])
def test_conditions_outside_the_domain_are_refused(precision):
    "At S = -2, alpha = 1 the matrix -1 is stationary, and no minimum."
    with pytest.raises(InputError, match="not positive definite"):
        kkt_residual([[-2.0]], 1.0, precision)


def test_a_dual_point_outside_by_rounding_proves_no_more_than_the_box_does():
    "W = 1 is the only dual point of S = 0, alpha = 1; one a hair larger would call 1 + 1e-5 optimal."
    precision, excess = [[1 + 1e-5]], 0.5e-10
    exact = 1e-5 - np.log1p(1e-5)
    assert dual_gap([[0.0]], 1.0, precision, [[1 + excess]]) == pytest.approx(
        exact, abs=1e-15
    )
    with pytest.raises(InputError, match="outside the box"):
        dual_gap([[0.0]], 1.0, precision, [[1 + 1e-9]])
