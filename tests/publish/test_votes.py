"""One record moves each count of votes by at most one: what would break that is
impossible, or refused before any value is used."""

import functools
import itertools
import logging
import random
import sys
import warnings
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from privglasso.base.validation import InputError
from privglasso.privacy.budget import Budget, BudgetError
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.best_test import BestTest
from privglasso.publish.files import read_release
from privglasso.publish.parquet import ReleaseError
from privglasso.publish.votes import VotedGraphMechanism, VotedGraphRelease
from privglasso.publish.votes import block_votes, majority
from privglasso.publish.votes import check_estimator, expected_chance, usual_blocks
from privglasso.publish.votes import usual_cuttings, vote_variance
from privglasso.recover.estimators import DebiasedGraphicalLasso
from sklearn.base import BaseEstimator
from sklearn.covariance import GraphicalLasso

BUDGET = {"epsilon": 1.0, "delta": 0.01}
TABLE = np.random.default_rng(0).standard_normal((400, 3)).cumsum(axis=1)
TABLE.setflags(write=False)


def strong(block):
    "Correlations above 0.65."
    return np.abs(np.corrcoef(block.T)) > 0.65


def both(block):
    "Two columns are joined in whatever they hold."
    return np.ones((block.shape[1],) * 2, dtype=bool)


def votes_of(estimator, table, blocks, seed=0):
    "Votes for the first pair."
    return int(block_votes(estimator, np.asarray(table, float), blocks, seed)[0, 1])


# state between blocks


class Counting(BaseEstimator):
    "Joins all in its first fit, nothing later."

    def __init__(self, before=None):
        self.before = before

    def fit(self, X):
        "Once more."
        self.calls = getattr(self, "calls", 0) + 1
        self.adjacency_ = np.full((X.shape[1],) * 2, self.calls == 1)
        if self.before:
            self.before.append(X)
            self.adjacency_ &= len(self.before) == 2
        return self


def test_an_object_is_new_for_each_block():
    assert votes_of(check_estimator(Counting()), TABLE, 20) == 20
    assert votes_of(check_estimator(Counting([None])), TABLE, 20) == 20
    mechanism = VotedGraphMechanism(Counting([None]), blocks=20, **BUDGET)
    for _ in range(2):
        assert mechanism.publish(TABLE, random_state=0).adjacency.sum() == 6
    assert mechanism.estimator.before == [None]
    assert not hasattr(mechanism.estimator, "calls")


def test_what_is_changed_afterwards_changes_nothing():
    mine = Counting()
    mechanism = VotedGraphMechanism(mine, blocks=20, **BUDGET)
    mine.calls = 5
    assert mechanism.publish(TABLE, random_state=0).adjacency.sum() == 6


LAST, NUMBERS, MODEL = [], TABLE.std(axis=0), GraphicalLasso()
COUNT = 0


def lists(block):
    LAST.append(block)
    return strong(block)


def writes(block):
    global COUNT
    COUNT += 1
    return strong(block)


def scales(block):
    return strong(block / NUMBERS)


def nested(block):
    return [strong(part / NUMBERS) for part in (block,)][0]


def through(block):
    return scales(block)


def models(block):
    return MODEL.fit(block).precision_ != 0


def defaults(block, seen=[]):  # noqa: B006
    seen.append(block)
    return strong(block)


def counts():
    "A function with a number that it changes."
    calls = 0

    def voter(block):
        nonlocal calls
        calls += 1
        return both(block)

    return voter


def attributed(block):
    return strong(block)


attributed.last = [1]


def warmed(block):
    warmed.last = float(block.max())
    return strong(block)


def counted(block):
    counted.calls += 1
    return strong(block)


def forgets(block):
    del forgets.last
    return strong(block)


def returned():
    "A function that keeps a number with another one."

    def voter(block):
        strong_here.last = float(block.max())
        return strong_here(block)

    def strong_here(block):
        return strong(block)

    return voter


class Shared:
    "Keeps a number with its class, which is not copied."

    last = 0.0

    def fit(self, X):
        "As a function does."
        Shared.last = float(X.max())
        self.adjacency_ = strong(X)
        return self


class Called:
    "Has a place to keep things."

    def __call__(self, block):
        return strong(block)

    def method(self, block):
        "The same."
        return strong(block)


FINISHED = Counting()
FINISHED.rounds_ = 3


class Fits:
    "Correlations above 0.65."

    def fit(self, X):
        "As a function does."
        self.adjacency_ = strong(X)
        return self


class Scales(Fits):
    "In the units of the whole table."

    def fit(self, X):
        "By numbers from outside."
        return super().fit(X / NUMBERS)


class Remembers(Fits):
    "What belongs to the class is shared."

    seen = []


class Statically(Fits):
    "By a function of the class."

    @staticmethod
    def scaled(X):
        "In the units of the whole table."
        return X / NUMBERS


class Properly(Fits):
    "By a property."

    @property
    def scale(self):
        "Of the whole table."
        return NUMBERS


@functools.cache
def cached(n):
    return NUMBERS[n]


@functools.wraps(scales)
def decorated(block):
    return strong(block)


def builds(block):
    return Scales().fit(block).adjacency_




@pytest.mark.parametrize(
    "estimator",
    [
        lists,
        writes,
        scales,
        nested,
        through,
        models,
        defaults,
        counts(),
        attributed,
        warmed,
        counted,
        forgets,
        returned(),
        Shared(),
        Called(),
        Called().method,
        functools.partial(strong, NUMBERS),
        functools.partial(strong, by=[1]),
        lambda block, scale=NUMBERS: strong(block / scale),
        Counting(NUMBERS),
        Counting([{"of all": NUMBERS}]),
        Counting(Counting(NUMBERS)),
        Counting(scales),
        GraphicalLasso().fit(TABLE),
        Counting(GraphicalLasso().fit(TABLE)),
        FINISHED,
        Scales(),
        type("Inherits", (Scales,), {})(),
        Remembers(),
        Statically(),
        Properly(),
        Counting(Scales()),
        builds,
        decorated,
        functools.singledispatch(scales),
        lambda block: strong(block / cached(0)),
        DebiasedGraphicalLasso,
        "strong",
        None,
    ],
)
def test_what_could_carry_anything_is_refused(estimator):
    with pytest.raises(InputError, match="estimator"):
        VotedGraphMechanism(estimator, **BUDGET)


@dataclass
class Made(GraphicalLasso):
    "Of a dataclass and an estimator."

    alpha: float = 0.3
    tried: list = field(default_factory=list)

    def __post_init__(self):
        super().__init__(self.alpha)


ALPHAS = (0.1, 0.2)


def settled(block):
    "Settings, and a variable of an inner function."
    found = 0

    def add(alpha):
        nonlocal found
        found = found + (np.abs(np.corrcoef(block.T)) > alpha)

    for alpha in ALPHAS:
        add(alpha)
    return found > 1


@pytest.mark.parametrize(
    "estimator",
    [
        strong,
        settled,
        functools.partial(lambda block, cut: strong(block) & (cut > 0), cut=0.5),
        lambda block: strong(block),
        GraphicalLasso(0.3),
        Counting([0.1, 0.2]),
        DebiasedGraphicalLasso(),
        Fits(),
        Made(),
        lambda block: Fits().fit(block).adjacency_,
    ],
)
def test_honest_estimators_are_not(estimator):
    mechanism = VotedGraphMechanism(estimator, blocks=20, **BUDGET)
    assert mechanism.check(TABLE)[0].shape == TABLE.shape


class Kept:
    "What a module may hide."

    seen = 0


def hidden(block):
    type.__setattr__(Kept, "seen", Kept.seen + 1)
    return np.full((block.shape[1],) * 2, Kept.seen % 2 == 0)


def drawing(block):
    return np.random.default_rng().random((block.shape[1],) * 2) < 0.5


@pytest.mark.parametrize("estimator", [hidden, drawing])
def test_two_answers_about_one_public_block_are_refused(estimator):
    mechanism = VotedGraphMechanism(estimator, blocks=20, **BUDGET)
    with pytest.raises(InputError, match="two answers"):
        mechanism.publish(np.tile(TABLE, 4))


# the block alone


def test_a_block_leads_nowhere():
    def reaches(block):
        alone = block.base is None and block.flags.owndata
        block[:] = np.nan
        return np.full((3, 3), alone and len(block) == 20)

    table = TABLE.copy()
    assert votes_of(reaches, table, 20) == 20
    assert np.array_equal(table, TABLE)


def test_blocks_are_disjoint_and_in_no_order_of_the_file():
    table, met = np.arange(100.0)[:, None] * [1, 1], []

    def notes(block):
        met.append(sorted(block[:, 0]))
        return both(block) & (np.ptp(block[:, 0]) < 10)

    spread = sum(votes_of(notes, table, 20, seed) for seed in range(20))
    # five of a hundred places are within ten with a probability below 0.001
    assert spread <= 8 and len(met) == 400
    assert sorted(np.concatenate(met[:20])) == list(range(100))
    assert met[:20] != met[20:40]
    resorted = votes_of(notes, table[::-1], 20)
    assert resorted <= 3 and {len(block) for block in met} == {5}


def test_each_cutting_has_every_record_once_in_an_order_of_its_own():
    table, met = np.arange(60.0)[:, None] * [1, 1], []

    def notes(block):
        met.append(tuple(sorted(block[:, 0])))
        return both(block)

    assert block_votes(notes, table, 6, 0, 5)[0, 1] == 30 and len(met) == 30
    cuttings = [met[k : k + 6] for k in range(0, 30, 6)]
    assert all(sorted(sum(blocks, ())) == list(range(60)) for blocks in cuttings)
    assert len({frozenset(blocks) for blocks in cuttings}) == 5


@pytest.mark.parametrize("cuttings", [1, 2, 3, 7])
def test_a_record_moves_votes_by_the_cuttings_and_the_distance_by_one(cuttings):
    """An estimator that one changed bit turns over, every cut, and the two conditions
    of the best test. The move of the votes is attained."""

    def chaotic(block):
        rng = np.random.default_rng(np.frombuffer(block.tobytes(), dtype=np.uint32))
        return rng.random((3, 3)) < rng.random()

    rng, moved = np.random.default_rng(cuttings), 0
    for trial in range(60):
        before = rng.standard_normal((12, 3))
        after = before.copy()
        after[rng.integers(12)] = rng.standard_normal(3)
        tables = before, after
        one, two = (block_votes(chaotic, x, 4, trial, cuttings) for x in tables)
        moved = max(moved, int(np.abs(one - two).max()))
        for cut in range(1, 4 * cuttings + 1):
            (graph, d), (other, e) = (majority(x, cut, cuttings) for x in (one, two))
            assert abs(d - e) <= 1 if (graph == other).all() else d == e == 1
    assert moved == cuttings or cuttings == 7 and moved > 4


def test_a_distance_of_fewer_cuttings_would_break_the_promise():
    "Votes of three cuttings, read as of two, move the distance by two."
    one = np.array([[0, 19], [0, 0]])
    two = one - [[0, 3], [0, 0]]
    assert majority(one, 11, 3)[1] - majority(two, 11, 3)[1] == 1
    assert majority(one, 11, 2)[1] - majority(two, 11, 2)[1] == 2


def test_several_cuttings_scatter_less_and_publish_more_often():
    "The distance of a chain's majority, of one cutting and of four, on ten tables."
    edges = np.eye(12, k=1) + np.eye(12, k=-1)
    root = np.linalg.cholesky(np.linalg.inv(np.eye(12) - 0.25 * edges))
    found = {1: [], 4: []}
    for seed, often in itertools.product(range(10), found):
        table = np.random.default_rng(seed).standard_normal((4000, 12)) @ root.T
        counts = block_votes(DebiasedGraphicalLasso(), table, 60, seed, often)
        found[often].append(majority(counts, 30 * often + 1, often)[1])
    assert np.mean(found[4]) > np.mean(found[1]) + 1
    assert vote_variance(0.1, 4) < 0.6 * vote_variance(0.1, 1)


@pytest.mark.parametrize("state", [None, 3])
def test_blocks_differ_by_one_record_at_most(state):
    sizes = []

    def notes(block):
        sizes.append(len(block))
        return both(block)

    assert votes_of(notes, TABLE[:101], 7, state) == 7
    assert sorted(sizes) == [14] * 4 + [15] * 3


# silence


def failing(how):
    "Fails, in some way, where a record is far away; else joins all."

    def voter(block):
        if block.max() < 1e3:
            return both(block)
        print("far away")
        print("far away", file=sys.stderr)
        warnings.warn("far away", stacklevel=1)
        logging.getLogger("voter").critical("far away")
        return how(block)

    return voter


def raises(error):
    "Raises it."

    def how(block):
        raise error

    return how


FAILURES = {
    "error": raises(ValueError("far away")),
    "exit": raises(SystemExit(3)),
    "memory": raises(MemoryError()),
    "recursion": raises(RecursionError()),
    "nothing": lambda block: None,
    "shape": lambda block: np.ones((2, 2), bool),
    "numbers": lambda block: np.ones((3, 3)),
    "text": lambda block: "all of them",
    "ragged": lambda block: [[True], [True, False]],
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_block_that_fails_votes_for_nothing_in_silence(how, capfd, caplog):
    table = TABLE.copy()
    table[7] = 1e6
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = votes_of(failing(FAILURES[how]), table, 20)
    assert found == 19
    assert heard == [] and caplog.records == [] and capfd.readouterr() == ("", "")


def test_warnings_are_no_errors_even_where_all_others_are():
    def warned(block):
        warnings.warn("of one block", stacklevel=1)
        np.log(block[0, 0] * 0)
        return both(block)

    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert votes_of(warned, TABLE, 20) == 20


def test_filters_and_levels_end_with_the_block():
    def strict(block):
        try:
            warnings.warn("who hears?", stacklevel=1)
            np.log(block[0] * 0)
        finally:
            warnings.simplefilter("error")
            np.seterr(all="raise")
            logging.disable(logging.NOTSET)
        return both(block)

    before = warnings.filters[:], np.geterr(), logging.root.manager.disable
    assert votes_of(strict, TABLE, 20) == 20
    assert before == (warnings.filters[:], np.geterr(), logging.root.manager.disable)


def test_somebody_who_stops_it_is_heard():
    with pytest.raises(KeyboardInterrupt):
        votes_of(raises(KeyboardInterrupt()), TABLE, 20)


# randomness


GLOBAL = np.random.mtrand._rand  # what numpy's functions without a generator draw from


@pytest.mark.parametrize("draw", [GLOBAL.rand, random.random])
def test_random_numbers_of_a_block_depend_on_no_other(draw):
    def voter(block):
        for _ in range(100 * (block.max() > 1e3)):
            draw()
        return np.full((3, 3), draw() < 0.5)

    table, moved = TABLE.copy(), []
    table[7] = 1e6
    for seed in range(30):
        GLOBAL.seed(seed)
        random.seed(seed)
        before = GLOBAL.get_state()[1].copy(), random.getstate()
        one, two = (votes_of(voter, x, 20, seed) for x in (TABLE, table))
        moved.append(abs(one - two))
        assert 0 < one < 20 and random.getstate() == before[1]
        assert np.array_equal(GLOBAL.get_state()[1], before[0])
    assert max(moved) <= 1
    GLOBAL.seed(12345)  # what others have drawn does not matter
    assert votes_of(voter, TABLE, 20, 29) == one


class Drawn(BaseEstimator):
    "Votes by its own random numbers."

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X):
        "Toss a coin."
        state = self.random_state
        if not hasattr(state, "random_sample"):
            state = np.random.RandomState(state)
        self.adjacency_ = np.full((X.shape[1],) * 2, state.random_sample() < 0.5)
        return self


@pytest.mark.parametrize("state", [None, 0])
def test_a_random_state_is_each_blocks_own(state):
    estimator = check_estimator(Drawn(state))
    found = [votes_of(estimator, TABLE, 40, seed) for seed in range(5)]
    assert all(5 < count < 35 for count in found) and len(set(found)) > 1
    assert found == [votes_of(estimator, TABLE, 40, seed) for seed in range(5)]


# what is fixed beforehand


@pytest.mark.parametrize(
    "words",
    [
        {"blocks": "auto"},
        {"blocks": 20.5},
        {"blocks": lambda table: 20},
        {"blocks": 0},
        {"cuttings": 0},
        {"cuttings": 2.5},
        {"cuttings": 1001},
        {"cuttings": lambda table: 2},
        {"threshold": lambda counts: 0.5},
        {"threshold": 0},
        {"threshold": 1.0},
        {"threshold": "best"},
        {"epsilon": None},
        {"delta": 0},
        {"epsilon": 1e9},
        {"neighbors": "row"},
    ],
)
def test_what_is_no_public_number_is_refused(words):
    with pytest.raises(InputError):
        VotedGraphMechanism(strong, **BUDGET | words)


def test_blocks_follow_from_the_shape():
    mechanism = VotedGraphMechanism(strong, epsilon=1.0, delta=1e-6)
    table = np.random.default_rng(1).standard_normal((6000, 3)) ** 3
    shapes = [mechanism.check(x)[0].shape for x in (table, table * 9)]
    made = [mechanism.certificate(*shape) for shape in shapes]
    assert made[0] == made[1] == mechanism.certificate(6000, 3)
    assert made[0].blocks == usual_blocks(6000, 3, BestTest(1.0, 1e-6))
    assert made[0].cuttings == usual_cuttings(3) == 4
    assert made[0].cut == 2 * made[0].blocks + 1
    settings = {"blocks": 30, "cuttings": 1, "threshold": 2 / 3}
    two_thirds = VotedGraphMechanism(strong, **settings, **BUDGET)
    assert two_thirds.certificate(100, 3).cut == 20  # 2/3 rounds to below 2/3
    with pytest.raises(InputError, match="two records a block"):
        mechanism.certificate(6000, 3) and VotedGraphMechanism(
            strong, blocks=51, **BUDGET
        ).certificate(100, 3)
    with pytest.raises(InputError, match="unanimous votes"):
        VotedGraphMechanism(strong, blocks=5, epsilon=1.0, delta=1e-6).publish(TABLE)


@pytest.mark.parametrize("answer", [np.eye(3), np.ones((2, 2), bool), None])
def test_an_estimator_that_gives_no_votes_is_refused_before_it_is_asked(answer):
    given = () if answer is None else tuple(map(tuple, answer.tolist()))
    mechanism = VotedGraphMechanism(lambda block: given, blocks=20, **BUDGET)
    with pytest.raises(InputError, match="truth values"):
        mechanism.publish(TABLE)


def test_an_estimator_that_fails_at_plain_numbers_is_refused():
    mechanism = VotedGraphMechanism(lambda block: 1 / 0, blocks=20, **BUDGET)
    with pytest.raises(InputError, match="fails on 20 rows of 3 normal numbers"):
        mechanism.publish(TABLE)


# what is published


def test_nothing_but_the_graph_leaves():
    mechanism = VotedGraphMechanism(strong, blocks=20, **BUDGET)
    kept = set(vars(mechanism))
    release = mechanism.publish(TABLE, random_state=4)  # it is decided
    fields = "adjacency columns certificate guarantee secure mechanism".split()
    assert list(vars(release)) == fields and set(vars(mechanism)) == kept
    public = mechanism.certificate(*TABLE.shape)
    assert release.certificate == public and vars(public).keys() == {
        "n", "p", "test", "blocks", "cuttings", "cut", "estimator"
    }  # fmt: skip
    assert set(np.unique(release.adjacency)) == {0, 1}
    assert mechanism.publish(TABLE).secure and not release.secure


def test_the_coin_has_the_chance_of_the_distance():
    mechanism = VotedGraphMechanism(strong, blocks=20, **BUDGET)
    counts = block_votes(strong, TABLE, 20, 0)
    graph, distance = majority(counts, 11)
    near = VotedGraphMechanism(both, blocks=10, **BUDGET)
    chance = near.certificate(400, 3).chance(5)
    assert 0.1 < chance < 0.9  # of ten that agree
    seen = sum(near.publish(TABLE, random_state=k).decided for k in range(300))
    assert abs(seen - 300 * chance) < 5 * np.sqrt(300 * chance * (1 - chance))
    assert mechanism.certificate(400, 3).farthest == 10 and distance <= 10


def test_votes_of_one_side_join_and_the_diagonal_is_none():
    lower = np.tril(np.ones((3, 3), bool))
    assert votes_of(lambda block: lower, TABLE, 5) == 5
    counts = block_votes(lambda block: lower, TABLE, 5, 0)
    assert np.array_equal(counts, 5 * np.triu(np.ones((3, 3)), 1))


def test_messy_tables_are_a_matter_of_the_estimator():
    mechanism = VotedGraphMechanism(DebiasedGraphicalLasso(), blocks=20, **BUDGET)
    for table in (TABLE * 0, TABLE * [1, 0, 1], TABLE * 1e200, TABLE[:, :2] * 1e-300):
        release = mechanism.publish(table, random_state=0)
        assert release.n == 400 and (not release.decided or release.edges is not None)
    with pytest.raises(InputError):
        mechanism.publish(np.where(TABLE > 0, np.nan, TABLE))


# the promise in budgets and files


def test_a_budget_pays_in_epsilon_or_in_the_mu_that_follows(tmp_path):
    mechanism = VotedGraphMechanism(strong, blocks=20, **BUDGET)
    promise = mechanism.guarantee(400, 3)
    assert promise == Guarantee(0.0, "record", failure=0.01, pure=1.0)
    assert mechanism.guarantees(400, 3)[1] == Guarantee(
        0.0, "cell", failure=0.01, pure=1.0
    )
    own = Guarantee(0.0, "record", failure=0.0199, pure=2.0)
    book = Budget.create(tmp_path / "own.json", own)
    for k in range(2):
        book.publish(mechanism, TABLE, tmp_path / f"{k}.parquet", label=f"{k}")
        assert read_release(tmp_path / f"{k}.parquet").guarantee == promise
    with pytest.raises(BudgetError):
        book.publish(mechanism, TABLE, tmp_path / "3.parquet", label="3")
    other = Budget.create(tmp_path / "mu.json", Guarantee(1.3, "record", failure=0.1))
    other.publish(mechanism, TABLE, tmp_path / "4.parquet", label="4")
    assert other.spent().mu == pytest.approx(1.23204, rel=1e-4)


def stored(path, change, table=None):
    "The file once more, with its metadata changed, and sealed again."
    import json

    import pyarrow.parquet as pq
    from privglasso.publish.parquet import METADATA_KEY, sealed

    old = pq.read_table(path)
    metadata = json.loads(old.schema.metadata[METADATA_KEY])
    frame = old.to_pandas() if table is None else table
    change(metadata)
    new = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(new.replace_schema_metadata(sealed(metadata, frame)), path)


@pytest.mark.parametrize("blocks", [10, 20])
def test_files_come_back(blocks, tmp_path):
    voter = lambda block: both(block)
    mechanism = VotedGraphMechanism(voter, blocks=blocks, **BUDGET)
    path, seen = tmp_path / "r.parquet", set()
    for k in range(16):
        release = mechanism.publish(TABLE, random_state=k)
        release.to_parquet(path, replace=True)
        back = read_release(path)
        seen.add(back.decided)
        assert str(back) == str(release) and back.certificate == release.certificate
        assert np.array_equal(back.adjacency, release.adjacency)
        assert "of function" in str(back) and back.guarantee == release.guarantee
    assert blocks == 20 or seen == {True, False}


CHANGES = {
    "mu": lambda m: m.update(mu=0.1),
    "blocks": lambda m: m["certificate"].update(blocks=300),
    "no blocks": lambda m: m["certificate"].update(blocks=0),
    "cut": lambda m: m["certificate"].update(cut=81),
    "no cuttings": lambda m: m["certificate"].update(cuttings=0),
    "fewer cuttings": lambda m: m["certificate"].update(cuttings=1),
    "epsilon": lambda m: m["certificate"]["test"].update(epsilon=-1.0),
    "delta": lambda m: m["certificate"]["test"].update(delta=1.0),
    "words": lambda m: m["certificate"].update(estimator="private: epsilon = 0.01"),
    "terminal": lambda m: m["certificate"].update(estimator="a\x1b[2J"),
    "margin": lambda m: m["certificate"].update(margin=7),
    "kind": lambda m: m.update(kind="graph"),
    "mechanism": lambda m: m.update(mechanism="TreeMechanism"),
    "no promise": lambda m: m.update(no_guarantee=True),
}


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_contradict_themselves_are_refused(name, tmp_path):
    path = tmp_path / "r.parquet"
    mechanism = VotedGraphMechanism(strong, blocks=20, **BUDGET)
    mechanism.publish(TABLE, random_state=0).to_parquet(path)
    stored(path, CHANGES[name])
    with pytest.raises(ReleaseError):
        read_release(path)


@pytest.mark.parametrize("change", [lambda a: -a, lambda a: 2 * a, lambda a: a + 0.0])
def test_only_graphs_are_read(change, tmp_path):
    path = tmp_path / "r.parquet"
    mechanism = VotedGraphMechanism(strong, blocks=20, **BUDGET)
    release = mechanism.publish(TABLE, random_state=4)  # it is decided
    release.to_parquet(path)
    frame = read_release(path)._contents()[1]
    stored(path, lambda m: None, change(frame))
    with pytest.raises(ReleaseError):
        read_release(path)


def test_a_file_is_as_small_as_its_edges(tmp_path):
    p, path = 400, tmp_path / "r.parquet"
    graph = np.eye(p, k=1, dtype=int) + np.eye(p, k=-1, dtype=int)
    made = VotedGraphMechanism(both, blocks=20, **BUDGET).certificate(400, p)
    names = [f"x{k}" for k in range(p)]
    told = made.guarantee("record"), True, "VotedGraphMechanism"
    for adjacency in (graph, 0 * graph, None):
        VotedGraphRelease(adjacency, names, made, *told).to_parquet(path, replace=True)
        assert np.array_equal(read_release(path).adjacency, adjacency)
        assert path.stat().st_size < 20_000


# what is expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "p", "epsilon", "seeds"),
    [(2200, 10, 3.0, 20), (2500, 30, 3.0, 20), (4300, 12, 1.0, 20), (7200, 30, 0.5, 9)],
)
def test_what_is_expected_of_votes_is_what_tables_have(n, p, epsilon, seeds):
    """The mean chance of drawn tables, whose graphs must be right. A table's chance has
    a standard deviation below a half: 0.35 are three standard errors of twenty tables.
    What is expected of a fifth less or more records is further away than that."""
    test = BestTest(epsilon, 1e-7)
    edges = np.eye(p, k=1) + np.eye(p, k=-1)
    root = np.linalg.cholesky(np.linalg.inv(np.eye(p) - 0.25 * edges))
    blocks, often, seen = usual_blocks(n, p, test), usual_cuttings(p), []
    for seed in range(seeds):
        table = np.random.default_rng([seed, p]).standard_normal((n, p)) @ root.T
        counts = block_votes(DebiasedGraphicalLasso(), table, blocks, seed, often)
        graph, distance = majority(counts, often * blocks // 2 + 1, often)
        seen.append(float(test.pass_probability(distance)) * (graph == edges).all())
    fewer, told, more = (
        expected_chance(round(factor * n), p, test) for factor in (0.8, 1, 1.2)
    )
    assert abs(np.mean(seen) - told) < 0.35 and told - fewer > 0.35 < more - told


def test_chances_rise_with_records_and_epsilon_and_fall_with_columns():
    at = lambda n, p, epsilon: expected_chance(n, p, BestTest(epsilon, 1e-9))
    chances = [at(n, 50, 1.0) for n in range(4000, 10_001, 500)]
    # near 1, another number of blocks may cost the last digits
    assert np.diff(chances).min() > -1e-5 and chances[0] < 0.01 and chances[-1] > 0.99
    assert at(6250, 50, 0.7) < at(6250, 50, 1.0) < at(6250, 50, 1.5)
    assert at(6500, 500, 1.0) < at(6500, 50, 1.0) < at(6500, 10, 1.0)
    assert at(4, 2, 1.0) < 1e-9
