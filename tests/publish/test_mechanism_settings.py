"""A mechanism is told by its settings, and a release is not taken for numbers."""

import copy
import importlib
import inspect
import pickle
import pkgutil

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import privglasso as pg
import privglasso.publish
from privglasso.base.validation import InputError
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.local import LocalMechanism
from privglasso.publish.mechanism import AnyMechanism
from privglasso.publish.schema import Schema
from privglasso.publish.votes import VotedGraphMechanism, VotedWeightsMechanism
from privglasso.publish.warehouse import ask

PATH = nx.path_graph(list("abc"))
TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(4000, 3)), columns=[*"abc"])


def correlated(block):
    "An estimator that votes."
    return np.corrcoef(block.T) > 0.65


MADE = {
    "scores": lambda mu=1.0: pg.CovarianceMechanism(mu=mu),
    "box": lambda mu=1.0: pg.CovarianceMechanism((-5, 5), clipping="box", mu=mu),
    "rows": lambda mu=1.0: pg.CovarianceMechanism(clipping="sphere", mu=mu),
    "table": lambda mu=1.0: pg.GaussianMechanism((np.zeros(3), np.ones(3)), mu=mu),
    "integers": lambda mu=1.0: pg.DiscreteGaussianMechanism((-5, 5), mu=mu),
    "named": lambda mu=1.0: pg.GaussianMechanism({c: (0, 1) for c in "abc"}, mu=mu),
    "copula": lambda mu=1.0: pg.CopulaMechanism(mu=mu),
    "whitened": lambda mu=1.0: pg.WhitenedCovarianceMechanism(mu=mu),
    "local": lambda mu=1.0: LocalMechanism(4.0, mu=mu),
    "synthetic": lambda mu=1.0: pg.SyntheticDataMechanism(mu=mu),
    "Kendall": lambda mu=1.0: pg.KendallMechanism(mu=mu),
    "quadrants": lambda mu=1.0: pg.QuadrantMechanism(0.0, mu=mu),
    "tree": lambda mu=1.0: pg.TreeMechanism(mu=mu, failure=1e-9),
    "threshold": lambda mu=1.0: pg.ThresholdedGraphMechanism(
        threshold=0.2, mu=mu, failure=1e-9
    ),
    "weights": lambda mu=1.0: GraphWeightsMechanism(PATH, mu=mu),
    "screened": lambda mu=1.0: pg.ScreenedGraphMechanism(mu=mu),
    "votes": lambda mu=1.0: VotedGraphMechanism(
        correlated, blocks=99, epsilon=mu, delta=1e-6
    ),
    "votes and weights": lambda mu=1.0: VotedWeightsMechanism(
        correlated, blocks=99, epsilon=mu, delta=1e-6
    ),
    "bounds": lambda mu=1.0: pg.BoundsCheck((-5, 5), mu=mu),
}


def concrete(kind=AnyMechanism):
    "Every mechanism of the package."
    for each in kind.__subclasses__():
        if each.__module__.startswith("privglasso.publish"):
            if not inspect.isabstract(each):
                yield each
            yield from concrete(each)


def test_no_mechanism_is_forgotten():
    for module in pkgutil.iter_modules(privglasso.publish.__path__):
        importlib.import_module(f"privglasso.publish.{module.name}")
    assert {type(make()) for make in MADE.values()} == set(concrete())


@pytest.mark.parametrize("name", MADE)
def test_a_clone_is_equal_and_makes_the_same_release(name):
    made = MADE[name]()
    for again in (clone(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made or name == "weights"  # a graph is equal to itself alone
        assert repr(again) == repr(made) and type(again) is type(made)
    assert 1.0 in made.get_params().values()
    once, twice = (str(each.publish(TABLE, 0)) for each in (made, clone(made)))
    assert once == twice


@pytest.mark.parametrize("name", ["scores", "screened", "votes and weights"])
def test_what_a_schema_states_is_cloned_and_compared(name):
    made, schema = MADE[name](), Schema({"a": {"kind": "integer", "low": 0, "high": 3}})
    told = made.knowing(schema)
    assert clone(told) == told != made
    answers = TABLE.assign(a=TABLE["a"].clip(-1.4, 1.4).round() + 1)
    once, twice = (each.publish(answers, 0) for each in (told, clone(told)))
    assert str(once) == str(twice)
    if name == "scores":
        assert "levels" in once.margins.kinds and "levels" in twice.margins.kinds


@pytest.mark.parametrize("name", MADE)
def test_other_settings_are_another_mechanism(name):
    one, other = MADE[name](), MADE[name](mu=1.5)
    assert one != other and one == MADE[name]() and hash(one) == hash(MADE[name]())
    assert one != "a text" and len({one, MADE[name](), other}) == 2


def test_bounds_are_compared_number_by_number():
    stated = {name: (0.0, 1.0) for name in "abc"}
    listed = {"column": [*"abc"], "low": 0.0, "high": 1.0}
    frames = [pd.DataFrame(listed) for _ in range(2)]
    arrays = [(np.zeros(3), np.ones(3)) for _ in range(2)]
    for one, other in (frames, arrays, [stated, dict(stated)]):
        made = [pg.GaussianMechanism(bounds, mu=1.0) for bounds in (one, other)]
        assert made[0] == made[1]
    wider = pg.GaussianMechanism((np.zeros(3), np.full(3, 2.0)), mu=1.0)
    assert wider != made[0] and made[0] != wider
    for bounds in (frames[0], arrays[0], stated, (0.0, 1.0)):
        assert wider != pg.GaussianMechanism(bounds, mu=1.0)


def test_a_graph_with_other_edges_is_another_setting():
    other = nx.Graph([("a", "c"), ("c", "b")])
    assert GraphWeightsMechanism(PATH, mu=1.0) != GraphWeightsMechanism(other, mu=1.0)


@pytest.mark.parametrize("name", [name for name in MADE if name != "bounds"])
def test_a_release_is_not_taken_for_an_array(name):
    release = MADE[name]().publish(TABLE, 0)
    for compute in (np.asarray, np.linalg.inv, lambda r: np.ones(3) @ r):
        with pytest.raises((InputError, TypeError), match="take its") as caught:
            compute(release)
        assert isinstance(caught.value, TypeError)


def test_a_file_of_a_release_is_fitted(tmp_path):
    path, release = tmp_path / "r.parquet", MADE["scores"]().publish(TABLE, 0)
    release.to_parquet(path)
    for given in (path, str(path)):
        model = pg.PrivateGraphicalLasso().fit(given)
        same = pg.PrivateGraphicalLasso().fit(release)
        assert (model.precision_ == same.precision_).all()
    TABLE.to_csv(tmp_path / "t.csv")
    with pytest.raises(pg.ReleaseError, match=r"t\.csv"):
        pg.PrivateGraphicalLasso().fit(tmp_path / "t.csv")
    with pytest.raises(FileNotFoundError, match="nothing"):
        pg.PrivateGraphicalLasso().fit(tmp_path / "nothing.parquet")


@pytest.mark.parametrize("name", MADE)
def test_sums_of_a_warehouse_are_for_the_mechanism_that_asked(name):
    "All others refuse them before anything is paid for."
    duckdb = pytest.importorskip("duckdb")
    answer = ask(MADE["box"](), duckdb.from_df(TABLE))
    if name == "box":
        assert MADE[name]().check(answer)[1] == [*"abc"]
    else:
        with pytest.raises(InputError, match="needs more of the records"):
            MADE[name]().check(answer)
