"""ε without δ, and an audit without tables: the same in Python and at the shell, for
every mechanism."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.cli.commands import app
from privglasso.data_sets.synthetic import chain_precision, sample_gaussian
from privglasso.desk.plan import plan_publication
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import default_delta
from privglasso.publish.bounds_check import BoundsCheck
from privglasso.publish.continual import plan_stream
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.quadrants import QuadrantMechanism
from privglasso.publish.tree import ThresholdedGraphMechanism
from privglasso.publish.votes import VotedGraphMechanism, VotedWeightsMechanism
from privglasso.recover.planning import plan

N, P = 20_000, 3
PATH = nx.to_numpy_array(nx.path_graph(P))
ROWS = pd.DataFrame(
    sample_gaussian(chain_precision(P, 0.4), N, random_state=0), columns=list("abc")
)


def correlated(block):
    "An estimator that is quick: pairs of columns that are correlated."
    return np.abs(np.corrcoef(block.T)) > 0.2


KINDS = {
    "table": lambda **given: pg.GaussianMechanism((-9, 9), **given),
    "integers": lambda **given: pg.DiscreteGaussianMechanism((-9, 9), **given),
    "covariance": pg.CovarianceMechanism,
    "bounded": lambda **given: pg.CovarianceMechanism((-9, 9), **given),
    "box": lambda **given: pg.CovarianceMechanism((-9, 9), clipping="box", **given),
    "whitened": pg.WhitenedCovarianceMechanism,
    "synthetic": pg.SyntheticDataMechanism,
    "copula": pg.CopulaMechanism,
    "kendall": pg.KendallMechanism,
    "quadrants": lambda **given: QuadrantMechanism(0.0, **given),
    "bounds": lambda **given: BoundsCheck((-1, 1), **given),
    "tree": pg.TreeMechanism,
    "pairs": lambda **given: ThresholdedGraphMechanism(0.2, **given),
    "weights": lambda **given: GraphWeightsMechanism(PATH, **given),
    "screened": pg.ScreenedGraphMechanism,
    "votes": lambda **given: VotedGraphMechanism(correlated, **given),
    "fallback": lambda **given: VotedWeightsMechanism(correlated, **given),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_epsilon_alone_is_that_at_the_usual_delta(kind):
    alone = KINDS[kind](epsilon=2)
    for n in (N, 3 * N):
        stated = KINDS[kind](epsilon=2, delta=default_delta(n))
        assert alone.guarantee(n, P) == stated.guarantee(n, P)
        assert alone.guarantees(n, P) == stated.guarantees(n, P)
        if hasattr(alone, "sampling_error") and kind != "bounds":
            errors = (each.sampling_error(np.eye(P), n) for each in (alone, stated))
            one, two = (error.covariance_variance() for error in errors)
            assert (one == two).all()
    assert alone == KINDS[kind](epsilon=2) != stated
    assert alone.guarantee(N, P) != stated.guarantee(N, P)  # of other numbers


@pytest.mark.parametrize("kind", ["covariance", "synthetic", "tree"])
def test_desk_shell_and_constructor_publish_the_same(kind, tmp_path):
    ROWS.to_csv(tmp_path / "table.csv", index=False)
    words = ["--mechanism", kind, "--epsilon", "2", "--seed", "1"]
    shell = [
        "publish",
        str(tmp_path / "table.csv"),
        str(tmp_path / "0.parquet"),
        *words,
    ]
    assert CliRunner().invoke(app, shell).exit_code == 0
    desk = pg.Publication(tmp_path / "table.csv", kind, epsilon=2)
    desk.publish(tmp_path / "1.parquet", random_state=1)
    table = pd.read_csv(tmp_path / "table.csv")
    KINDS[kind](epsilon=2).publish(table, 1).to_parquet(tmp_path / "2.parquet")
    first, *others = ((tmp_path / f"{k}.parquet").read_bytes() for k in range(3))
    assert first == others[0] == others[1]
    promise = read_release(tmp_path / "0.parquet").guarantee
    assert abs(promise.epsilon(default_delta(N)) - 2) < 1e-6


def test_plans_take_the_same_delta():
    shell = CliRunner().invoke(app, ["plan", str(N), "3", "--epsilon", "2", "--json"])
    told, python = json.loads(shell.output), plan_publication(N, P, epsilon=2)
    assert told["delta"] == python.delta == default_delta(N)
    rows = plan(pg.CovarianceMechanism(epsilon=2), N, P, delta=default_delta(N))
    assert rows.iloc[0]["mu"] == told["covariance"]["μ"]
    best = pg.recommend(N, P, epsilon=2)
    assert best.mechanism.guarantee(N, P) == type(best.mechanism)(epsilon=2).guarantee(
        N, P
    )


@pytest.mark.long
@pytest.mark.parametrize("estimator", [pg.DPThresholding, pg.LDPThresholding])
def test_estimators_with_a_budget_of_their_own_take_the_same_delta(estimator):
    alone, stated = (
        estimator(4.0, epsilon=2, random_state=0, **more).fit(ROWS)
        for more in ({}, {"delta": default_delta(N)})
    )
    assert alone.guarantee_ == stated.guarantee_
    assert (alone.thresholded_ == stated.thresholded_).all()


def test_where_the_number_of_records_is_not_known_a_delta_is_asked_for(tmp_path):
    for ask in (
        lambda: pg.GaussianMechanism((0, 1), epsilon=1).lattice(2),
        lambda: plan_stream(12, ["a", "b"], 500, epsilon=1),
    ):
        with pytest.raises(InputError, match="delta=None: state it beside epsilon"):
            ask()
    with pytest.raises(InputError):
        Budget.create(tmp_path / "budget.json", epsilon=1)
    code = CliRunner().invoke(app, ["budget", "new", "b.json", "--epsilon", "1"])
    assert code.exit_code == 2 and "--epsilon together with --delta" in code.output
    for given in ({}, {"mu": 1, "epsilon": 1}, {"delta": 1e-9}, {"epsilon": 0}):
        with pytest.raises(InputError):
            pg.CovarianceMechanism(**given)


# audits


UNAUDITED = ("votes", "fallback", "copula", "whitened")
AUDITED = [kind for kind in KINDS if kind not in UNAUDITED]


@pytest.mark.long
@pytest.mark.parametrize("neighbors", ["record", "cell"])
@pytest.mark.parametrize("kind", AUDITED)
def test_a_mechanism_says_which_tables_to_audit(kind, neighbors):
    """A true promise is refuted with probability 0.001 at most, 0.02 for all; a table
    says more of itself than others do, whose records are hidden among many."""
    target = {"mu": 1.3 if kind == "bounds" else 6.0}
    target |= {"failure": 1e-3} if kind in ("tree", "pairs") else {}
    mechanism = KINDS[kind](neighbors=neighbors, **target)
    X, Y = mechanism.worst_pair()
    changed = np.asarray(X) != np.asarray(Y)
    assert changed.any(axis=1).sum() == 1
    assert neighbors == "record" or changed.sum() == 1
    result = pg.audit(mechanism, trials=40, random_state=0)
    assert not result.refuted and result.claimed <= 6
    assert kind not in ("table", "integers") or result.mu_lower > 0.5


def test_a_broken_mechanism_is_refuted_without_a_word_about_tables():
    class Half(pg.GaussianMechanism):
        "Half the noise that it promises."

        def _noisy(self, values, columns, lattice, bits):
            noisy = super()._noisy(values, columns, lattice, bits)
            return (noisy + super()._noisy(values, columns, lattice, bits)) / 2

    told = {"neighbors": "cell", "mu": 3.0}
    assert pg.audit(Half((0, 1), **told), trials=800, random_state=0).refuted
    whole = pg.GaussianMechanism((0, 1), **told)
    assert not pg.audit(whole, trials=800, random_state=0).refuted


def test_the_shell_audits_what_python_audits():
    words = ["audit", "--mechanism", "covariance", "--epsilon", "2", "--trials", "60"]
    shell = CliRunner().invoke(app, [*words, "--seed", "3", "--json"])
    own = pg.audit(
        pg.CovarianceMechanism((-1, 1), epsilon=2), trials=60, random_state=3
    )
    told = json.loads(shell.stdout)
    assert told["claimed"] == own.claimed and told["mu_at_least"] == own.mu_lower


def test_bounds_of_several_columns_say_how_many_there_are():
    bounds = ([0, 10, -5], [1, 30, 5])
    for mechanism in (
        pg.GaussianMechanism(bounds, mu=1),
        pg.CovarianceMechanism(bounds, mu=1),
    ):
        X, Y = mechanism.worst_pair()
        for table in (X, Y):
            assert table.shape[1] == 3
            assert (table >= bounds[0]).all() and (table <= bounds[1]).all()


def test_what_says_nothing_of_tables_is_asked_for_them():
    with pytest.raises(InputError, match="give two neighbouring tables"):
        pg.audit(lambda X, rng: X)
    with pytest.raises(InputError):
        pg.audit(pg.GaussianMechanism((0, 1), mu=1), np.zeros((2, 1)))
