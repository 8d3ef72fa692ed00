"""No mechanism says anything that depends on a cell: no warning, whatever is in a
table, with every stand-in and every way in which kernels run."""

import warnings
from itertools import islice

import networkx as nx
import numpy as np
import pytest

from privglasso.base import kernels
from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.privacy import sampler
from privglasso.publish.bounds_check import BoundsCheck
from privglasso.publish.copula import CopulaMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.local import LocalMechanism
from privglasso.publish.parquet import MECHANISMS
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.ranks import KendallMechanism
from privglasso.publish.screened_weights import ScreenedGraphMechanism
from privglasso.publish.shape import UnitsError
from privglasso.publish.sphere import Sphere
from privglasso.publish.synthetic import SyntheticDataMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism
from privglasso.publish.tree import ThresholdedGraphMechanism, TreeMechanism
from privglasso.publish.votes import VotedGraphMechanism, VotedWeightsMechanism
from privglasso.publish.whitening import WhitenedCovarianceMechanism

N, P = 1200, 3
OF_ANY = {
    "table": GaussianMechanism((-1, 1), mu=1.0),
    "wide table": GaussianMechanism((-1e99, 1e99), neighbors="cell", mu=1.0),
    "integers": DiscreteGaussianMechanism((-1, 1), sigma=2.0),
    "box": CovarianceMechanism((-1, 1), mu=2.0),
    "own units": CovarianceMechanism(mu=9.0),
    "missing": CovarianceMechanism(mu=9.0, missing="center"),
    "papers": PapersCovarianceMechanism(9.0, mu=2.0),
    "whitened": WhitenedCovarianceMechanism(mu=9.0),
    "public units": WhitenedCovarianceMechanism(mu=9.0, clipping=Sphere(np.ones(3))),
    "local": LocalMechanism(9.0, mu=1.0),
    "synthetic": SyntheticDataMechanism((-1, 1), mu=2.0),
    "kendall": KendallMechanism(mu=2.0),
    "quadrant": QuadrantMechanism(0.5, mu=2.0),
    "tree": TreeMechanism(mu=9.0, failure=1e-6),
    "graph": ThresholdedGraphMechanism(0.3, mu=9.0, failure=1e-6),
    "copula": CopulaMechanism(mu=9.0),
    "weights": GraphWeightsMechanism(nx.path_graph(3), mu=9.0),
    "weights, public units": GraphWeightsMechanism(
        nx.complete_graph(3), scale=0.5, mu=9.0
    ),
    "screened": ScreenedGraphMechanism(mu=9.0),
    "screened, public units": ScreenedGraphMechanism(edges=2, scale=0.5, mu=9.0),
    # so many blocks pass for some of the tables below, and not for others
    "votes": VotedGraphMechanism(
        lambda block: np.corrcoef(block.T) > 0.65, blocks=25, epsilon=4, delta=1e-6
    ),
    "votes and weights": VotedWeightsMechanism(
        lambda block: np.corrcoef(block.T) > 0.65, blocks=25, epsilon=9, delta=1e-6
    ),
    "bounds": BoundsCheck((-1, 1), mu=0.5),
}
LARGEST = np.finfo(float).max
EXTREME = (1e308, -1e308, LARGEST, 1e155, 1e-155, 5e-324, -0.0)


def tables():
    "Strongly correlated rows, some or all cells of which are extreme."
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(N, 1)) + 0.15 * rng.normal(size=(N, P))
    yield plain
    for value in EXTREME:
        either = np.where(rng.random((N, P)) < 0.5, value, -value)
        for rows in (slice(0, 1), slice(0, 20), slice(0, N)):
            table = plain.copy()
            table[rows] = either[rows]
            yield table
        table = plain.copy()
        table[:, 0] = value
        yield table
    yield plain * 1e300
    yield plain * 1e-310


@pytest.mark.long
@pytest.mark.parametrize("ways", ["stand-ins", "machine code", "plain Python"])
@pytest.mark.parametrize("name", OF_ANY)
def test_nothing_is_said_of_extreme_cells(name, ways, monkeypatch):
    mechanism = OF_ANY[name]
    run = {
        "stand-ins": "small",
        "machine code": "compiled",
        "plain Python": "interpreted",
    }

    def run_as(self, *given):
        # what draws noise is given random words and no cell; test_kernels runs it
        drawn = self.function.__module__ == sampler.__name__
        way = "compiled" if drawn else run[ways]
        return (getattr(self, way) or self.compiled)(*given)

    monkeypatch.setattr(kernels.Kernel, "__call__", run_as)
    # a release in plain Python takes a tenth of a second: every third table
    for table in islice(tables(), 0, None, 3 if ways == "plain Python" else 1):
        if name == "integers":
            table = np.rint(np.clip(table, -(2.0**50), 2.0**50))
        if name == "local":  # each of whose users makes a release
            table = table[: N // 10]
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                mechanism.publish(table, random_state=1)
            except UnitsError as error:
                assert error.private_finding  # paid for, like any release
        assert not heard, [str(each.message) for each in heard]


@pytest.mark.parametrize("value", EXTREME)
def test_nothing_is_said_of_the_row_of_one_user(value):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        OF_ANY["local"].report([value, 1.0, -value], N, random_state=1)
    assert not heard


def test_every_mechanism_is_tried():
    known = {name for names in MECHANISMS.values() for name in names}
    assert known == {type(each).__name__ for each in OF_ANY.values()} - {"BoundsCheck"}
