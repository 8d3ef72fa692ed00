"""A publication from Python: what it writes, what it refuses, and in whose language."""

import json
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

import privglasso as pg
from privglasso.base.validation import InputError
from privglasso.base.words import WordsError
from privglasso.data_sets.synthetic import example_table
from privglasso.desk.choices import KINDS, PLANNED
from privglasso.desk.ledger import begin_ledger
from privglasso.desk.plan import plan_publication
from privglasso.privacy.budget import Budget, BudgetError, BudgetFileError
from privglasso.publish.files import read_release
from privglasso.publish.scores import MOSTLY_MISSING
from privglasso.recover.recommendation import reference_chain


@pytest.fixture(scope="module")
def table():
    return example_table(20_000, random_state=0).table


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.json"
    begin_ledger(path, epsilon=1.0, delta=1e-9)
    return path


def test_what_is_written_is_what_is_said(table, tmp_path):
    path = tmp_path / "open.parquet"
    record = pg.Publication(table, epsilon=1).publish(path, random_state=1)
    back = read_release(path)
    assert str(back) == str(record.release) and str(record).startswith("open.parquet: ")
    assert json.loads(record.to_json())["written"] is True
    same = type(record.draft.mechanism)(epsilon=1, delta=1e-9).publish(table, 1)
    assert record.draft.delta == 1e-9
    assert (back.second_moment == same.second_moment).all()


@pytest.mark.parametrize("kind", ["csv", "parquet", "array", "arrow"])
def test_every_source_gives_the_same_release(table, kind, tmp_path):
    few = table[:3000].round(3)
    source = tmp_path / f"table.{kind}"
    if kind == "csv":
        few.to_csv(source, index=False)
    elif kind == "parquet":
        few.to_parquet(source)
    elif kind == "array":
        source = few.to_numpy()
    else:
        source = pytest.importorskip("pyarrow").Table.from_pandas(few)
    record = pg.Publication(source, "covariance", mu=1).publish(
        tmp_path / "open.parquet", random_state=1
    )
    own = pg.CovarianceMechanism(mu=1).publish(few, 1)
    assert (record.release.second_moment == own.second_moment).all()


@pytest.mark.long
def test_yes_and_no_can_be_read_as_what_was_cut(table, tmp_path):
    cut = (table > table.mean() + table.std() / 2).astype(float)
    desk = pg.Publication(cut, mu=1, latent=True)
    record = desk.publish(tmp_path / "open.parquet", random_state=1)
    own = pg.CovarianceMechanism(mu=1, latent=True).publish(cut, 1)
    back = read_release(tmp_path / "open.parquet")
    assert back.latent and (back.correlations() == own.correlations()).all()
    assert (back.correlations(latent=False) != own.correlations()).any()
    assert type(record.draft.mechanism) is pg.CovarianceMechanism
    many = np.random.default_rng(0).standard_normal((4000, 150)) > 0.3
    answers = pd.DataFrame(many * 1.0).add_prefix("answer")
    weighed = pg.Publication(answers, epsilon=2, latent=True)
    record = weighed.publish(tmp_path / "pairs.parquet", random_state=1)
    assert record.release.latent and len(record.release.columns) == 150
    assert all("read as normal ones" in str(each) for each in (back, record.release))
    assert type(record.draft.mechanism) is pg.ScreenedGraphMechanism
    for words in ({"mechanism": "kendall"}, {"box": True, "bounds": (0, 1)}):
        refused = pg.Publication(cut, mu=1, latent=True, **words)
        with pytest.raises(WordsError, match="latent: is for a covariance"):
            refused.publish(tmp_path / "new.parquet")


def test_a_rehearsal_reads_no_value_and_spends_nothing(table, ledger, tmp_path):
    path = tmp_path / "table.parquet"
    table.to_parquet(path)
    desk = pg.Publication(path, ledger=ledger, epsilon=0.5)
    desk.table.read = None  # whoever calls it, fails
    for replace in (False, True):
        record = desk.rehearse(tmp_path / "open.parquet", replace=replace)
        assert record.fits and "nothing" in str(record)
    assert Budget(ledger).spent().mu == 0 and not (tmp_path / "open.parquet").exists()


def test_a_ledger_pays_once_and_then_refuses(table, ledger, tmp_path):
    desk = pg.Publication(table, ledger=ledger, epsilon=0.8)
    desk.publish(tmp_path / "first.parquet")
    spent = Budget(ledger).spent().mu
    with pytest.raises(BudgetError):
        desk.publish(tmp_path / "second.parquet")
    assert Budget(ledger).spent().mu == spent > 0
    assert not (tmp_path / "second.parquet").exists()


def test_what_a_ledger_paid_for_is_never_replaced(table, ledger, tmp_path):
    path = tmp_path / "open.parquet"
    desk = pg.Publication(table, ledger=ledger, epsilon=0.3)
    desk.publish(path)
    before, spent = path.read_bytes(), Budget(ledger).spent().mu
    for replace in (False, True):
        with pytest.raises((WordsError, InputError, BudgetError)):
            desk.publish(path, replace=replace)
    assert path.read_bytes() == before and Budget(ledger).spent().mu == spent


def test_nothing_is_spent_on_a_seed(table, ledger, tmp_path):
    desk = pg.Publication(table, ledger=ledger, epsilon=0.3)
    with pytest.raises(WordsError, match="random_state"):
        desk.publish(tmp_path / "open.parquet", random_state=1)
    assert Budget(ledger).spent().mu == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "state exactly one of mu, epsilon"),
        ({"epsilon": 1, "mu": 1}, "state exactly one of mu, epsilon"),
        ({"mu": 1, "mechanism": "table"}, "noise on cells needs bounds"),
        ({"mu": 1, "mechanism": "tree", "want": "graph"}, "chooses a mechanism"),
        ({"mu": 1, "mechanism": "weights"}, "graph"),
        ({"mu": 1, "mechanism": "nothing"}, "give one of"),
    ],
)
def test_refusals_speak_python(table, words, said, tmp_path):
    with pytest.raises((WordsError, InputError)) as refused:
        desk = pg.Publication(table, **words)
        desk.publish(tmp_path / "open.parquet")
    assert said in str(refused.value) and "--" not in str(refused.value)
    assert not (tmp_path / "open.parquet").exists()


def test_a_refusal_quotes_no_cell(table, tmp_path):
    messy = table.astype(object)
    messy.iloc[7, 2] = "salary 81234"
    with pytest.raises((WordsError, InputError)) as refused:
        pg.Publication(messy, mu=1).publish(tmp_path / "open.parquet")
    seen = refused.value
    while seen is not None:
        assert "81234" not in str(seen)
        seen = seen.__cause__ or seen.__context__


def test_of_many_columns_the_strongest_pairs_are_recommended(tmp_path):
    correlations, graph = reference_chain(60)
    rows = np.random.default_rng(0).standard_normal((6000, 60))
    rows = pd.DataFrame(rows @ np.linalg.cholesky(correlations).T)
    rows.columns = [f"c{k}" for k in range(60)]
    record = pg.Publication(rows, epsilon=1).publish(
        tmp_path / "open.parquet", random_state=0
    )
    assert record.draft.best.name == "screened"
    edges = read_release(tmp_path / "open.parquet").edges_
    ends = ([int(name[1:]) for name in edges[end]] for end in ("source", "target"))
    assert graph[tuple(ends)].mean() > 0.9 and len(edges) > 20


def test_every_kind_can_be_made():
    for name, kind in KINDS.items():
        bounds = (0, 1) if kind.bounds == "needed" else None
        words = {"graph": np.ones((3, 3)) - np.eye(3)} if "graph" in kind.takes else {}
        made = kind.make(bounds, {"epsilon": 1, "delta": 1e-6} | words)
        assert 0 < made.guarantee(10_000, 3).epsilon(1e-6) <= 1 + 1e-9, name
    assert {kind for kind, _ in PLANNED.values()} <= set(KINDS)


def test_votes_are_published_from_a_ledger_of_their_epsilon(tmp_path):
    correlations, graph = reference_chain(12)
    rows = np.random.default_rng(0).standard_normal((9000, 12))
    rows = pd.DataFrame(rows @ np.linalg.cholesky(correlations).T)
    rows.columns = [f"c{k}" for k in range(12)]
    begun = begin_ledger(tmp_path / "l.json", mu=0.1, failure=1e-6, pure=1.5)
    assert begun.as_dict()["pure"] == 1.5
    words = {"epsilon": 1, "delta": 1e-7, "ledger": tmp_path / "l.json"}
    desk = pg.Publication(rows, "votes", **words)
    assert desk.rehearse().fits and desk.rehearse().as_dict()["pure"] == 1.0
    record = desk.publish(tmp_path / "open.parquet")
    assert record.as_dict()["epsilon"] == 1.0 and not desk.rehearse().fits
    release = read_release(tmp_path / "open.parquet")
    assert (release.adjacency == graph).all()  # undecided in less than 1e-4
    with pytest.raises(BudgetError, match="ε = 1 about one record"):
        desk.publish(tmp_path / "again.parquet")
    with pytest.raises(InputError, match="failure"):
        pg.Publication(rows, "votes", mu=1).rehearse()
    of_mu = pg.Publication(rows, "votes", mu=0.5, failure=1e-7).rehearse()
    assert of_mu.as_dict()["mu"] == pytest.approx(0.5) and of_mu.as_dict()["pure"] == 0
    with pytest.raises(WordsError, match="200 records: even unanimous votes"):
        pg.Publication(rows[:200], "votes", epsilon=1, delta=1e-7).rehearse()


class Strong:
    "Correlations above 0.2."

    def fit(self, X):
        "As a function does."
        self.adjacency_ = np.abs(np.corrcoef(X.T)) > 0.2
        return self


@pytest.mark.parametrize(
    ("words", "blocks", "cut", "name"),
    [
        ({"blocks": 70}, 70, 141, "DebiasedGraphicalLasso"),
        ({"blocks": 70, "threshold": 0.75}, 70, 211, "DebiasedGraphicalLasso"),
        ({"blocks": 70, "cuttings": 2}, 70, 71, "DebiasedGraphicalLasso"),
        (
            {"blocks": 70, "estimator": "neighborhoods"},
            70,
            141,
            "NeighborhoodSelection",
        ),
        ({"blocks": 70, "estimator": "ranks"}, 70, 141, "DebiasedGraphicalLasso"),
        ({"blocks": 70, "estimator": "mixed"}, 70, 141, "MixedPseudoLikelihood"),
        ({"blocks": 70, "estimator": Strong()}, 70, 141, "Strong"),
    ],
)
def test_votes_are_counted_as_stated(words, blocks, cut, name):
    rows = pd.DataFrame(np.zeros((3000, 3)), columns=list("abc"))
    target = {"epsilon": 1, "delta": 1e-7}
    made = pg.Publication(rows, "votes", **words, **target).rehearse().draft.mechanism
    told = made.certificate(3000, 3)
    assert (told.blocks, told.cut, told.estimator) == (blocks, cut, name)


@pytest.mark.parametrize(
    "word",
    [{"blocks": 9}, {"cuttings": 2}, {"threshold": 0.5}, {"estimator": "debiased"}],
)
def test_words_of_votes_are_for_votes(word):
    rows = pd.DataFrame(np.zeros((3000, 3)), columns=list("abc"))
    with pytest.raises(WordsError, match=f"{next(iter(word))}: is for mechanism"):
        pg.Publication(rows, "covariance", epsilon=1, **word).rehearse()
    with pytest.raises(InputError, match="give one of debiased"):
        pg.Publication(rows, "votes", epsilon=1, estimator="best").rehearse()


def test_an_exact_graph_is_asked_of_votes(many):
    desk = pg.Publication(many, epsilon=3, delta=1e-7, want="exact")
    draft = desk.rehearse().draft
    assert type(draft.mechanism).__name__ == "VotedGraphMechanism"
    assert draft.best.name == "votes" and draft.best.works


@pytest.mark.long
def test_a_plan_says_what_votes_would_do():
    told = plan_publication(12_000, 60, epsilon=1, delta=1e-9)
    assert told.votes > 0.9 and "Votes of blocks publish" in str(told)
    few = plan_publication(1000, 60, epsilon=1, delta=1e-9)
    assert few.as_dict()["votes"] < 1e-6 and "Votes of blocks" not in str(few)


@pytest.fixture(scope="module")
def many():
    correlations, _ = reference_chain(100)
    rows = np.random.default_rng(1).standard_normal((7000, 100))
    rows = rows @ np.linalg.cholesky(correlations).T
    return pd.DataFrame(rows, columns=[f"c{k}" for k in range(100)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"mechanism": "covariance"}, "at the same promise: screened"),
        ({"want": "rows"}, ""),
        ({"bounds": (-5, 5)}, "the bounds are not used"),
    ],
)
def test_what_else_is_asked_of_many_columns(many, words, said, tmp_path):
    record = pg.Publication(many, epsilon=1, **words).publish(
        tmp_path / "open.parquet", random_state=0
    )
    told = " ".join([*record.draft.said, *record.draft.warnings])
    assert said in told and (tmp_path / "open.parquet").exists()


def test_many_columns_with_gaps_have_a_recommendation(many, tmp_path):
    gaps = many.mask(many > 3)
    desk = pg.Publication(gaps, epsilon=1, missing="center")
    record = desk.publish(tmp_path / "open.parquet", random_state=0)
    assert record.draft.best.name == "covariance"


def test_it_is_said_beforehand_what_becomes_of_gaps(many, tmp_path):
    few = many.iloc[:, :6].mask(many.iloc[:, :6] > 3)
    for words in ({}, {"missing": "center"}, {"missing": "random"}):
        desk = pg.Publication(few, epsilon=1, **words)
        plan = desk.plan()
        for each in (f"{plan}", f"{desk.rehearse().draft}"):
            assert (MOSTLY_MISSING in each) == bool(words), each
        assert plan.best.name == "covariance"
        # votes and ranks take no gaps, and so they are not advised
        assert not words or "Votes" not in f"{plan}"
    assert plan_publication(7000, 6, gaps=True).best.mechanism.missing == "center"


def test_a_remedy_can_be_followed(many, tmp_path):
    with pytest.raises(WordsError) as refused:
        desk = pg.Publication(many[:200], "screened", epsilon=1)
        desk.publish(tmp_path / "open.parquet")
    assert "give more rows" in str(refused.value) and "bounds" not in str(refused.value)


@pytest.fixture
def few():
    rows = np.random.default_rng(0).standard_normal((2000, 5)).cumsum(axis=1)
    return pd.DataFrame(rows.round(3), columns=list("abcde"))


def said_by(act):
    "What an act refuses."
    with pytest.raises((WordsError, InputError, BudgetFileError)) as refused:
        act()
    return str(refused.value)


REFUSED = {  # words of the publication, where it goes, how, and what is said
    "cells": ({"sigma": 1, "bounds": (0, 1)}, "o.parquet", {}, "only if it is meant"),
    "table": (
        {"mu": 1, "mechanism": "table", "bounds": (0, 1)},
        "o.parquet",
        {},
        "only if it is meant",
    ),
    "seed": ({"ledger": 1}, "o.parquet", {"random_state": 1}, "protects nobody"),
    "label": ({"ledger": 1}, "o\x1b.parquet", {}, "label"),
    "read-only": ({"ledger": 1}, "o.parquet", {}, "is read-only"),
    "link": ({"ledger": 1}, "o.parquet", {}, "second name"),
    "name": ({"columns": ["a\u200b", *"bcde"]}, "o.parquet", {}, "invisible"),
    "folder": ({"mechanism": "synthetic"}, "full", {}, "something else already"),
    "paid": ({"ledger": 1}, "full/r.parquet", {"replace": True}, "a file already"),
    "taken": ({}, "full/r.parquet", {}, "a file already"),
    "of a folder": ({}, "full/d.parquet", {"replace": True}, "a file already"),
    "nowhere": ({}, "nowhere/o.parquet", {}, "no folder to write it in"),
    "in a file": ({}, "full/x.txt/o.parquet", {}, "no folder to write it in"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_rehearsal_refuses_what_publish_refuses_without_a_cell(
    few, ledger, tmp_path, fault
):
    words, name, how, told = REFUSED[fault]
    words = {"epsilon": 0.5} | words
    if {"mu", "sigma"} & set(words):
        del words["epsilon"]
    few.columns = words.pop("columns", few.columns)
    words |= {"ledger": ledger} if "ledger" in words else {}
    (tmp_path / "full" / "d.parquet").mkdir(parents=True)
    for each in ("x.txt", "r.parquet"):
        (tmp_path / "full" / each).write_text("kept")
    if fault == "read-only":
        ledger.chmod(0o444)
    if fault == "link":
        ledger.with_name("second.json").hardlink_to(ledger)
    desk, spent = pg.Publication(few, **words), Budget(ledger).spent().mu
    said = [
        said_by(partial(act, tmp_path / name, **how))
        for act in (desk.rehearse, desk.publish)
    ]
    assert said[0] == said[1] and told in said[0], said
    assert (tmp_path / "full" / "r.parquet").read_text() == "kept"
    assert Budget(ledger).spent().mu == spent == 0
    if fault == "name":
        assert "invisible" in said_by(desk.plan)


def test_a_plan_knows_the_names_of_the_columns(few, tmp_path):
    few.to_csv(tmp_path / "t.csv", index=False)
    few.rename(columns={"a": "a\u200b"}).to_csv(tmp_path / "bad.csv", index=False)
    edges = [("a", "zz")]
    for act in (
        lambda: plan_publication(tmp_path / "t.csv", epsilon=1, graph=edges),
        pg.Publication(few, "weights", epsilon=1, graph=edges).plan,
    ):
        assert "no columns are called so" in said_by(act)
    told = plan_publication(tmp_path / "t.csv", epsilon=1, graph=[("a", "b")])
    assert told.p == 5 and told.as_dict()["weights"]["edges"] == 1
    bad = lambda: plan_publication(tmp_path / "bad.csv", epsilon=1)
    assert "invisible" in said_by(bad)
    assert plan_publication("2000", 5, epsilon=1, graph=edges).p == 5


def test_rows_that_are_advised_are_enough(few):
    words = {"mechanism": "covariance", "epsilon": 0.1}
    told = said_by(pg.Publication(few, **words).rehearse)
    rows = int(re.search(r"or (\d+) rows", told)[1])
    many = pd.concat([few] * 4, ignore_index=True)
    assert pg.Publication(many[:rows], **words).rehearse().draft.n == rows
    assert "rows" in said_by(pg.Publication(many[: int(0.9 * rows)], **words).rehearse)
    words["delta"] = 1e-7
    told = said_by(pg.Publication(few, **words).rehearse)
    assert int(re.search(r"or (\d+) rows", told)[1]) < 0.95 * rows


@pytest.mark.long
@pytest.mark.parametrize("paid", [True, False])
def test_records_that_are_enough_are_the_same_in_advice_and_in_warnings(paid, tmp_path):
    table, ledger = pd.DataFrame(np.eye(300)[:, :4], columns=list("abcd")), None
    if paid:
        pg.Budget.create(ledger := tmp_path / "b.json", pg.Guarantee(9.0, "record"))

    def enough(n, *name, **words):
        desk = pg.Publication(table[:n], *name, epsilon=1, ledger=ledger, **words)
        draft = desk.rehearse().draft
        [told] = re.findall(r"takes n = (\d+)", " ".join(draft.said + draft.warnings))
        return int(told)

    assert enough(300) == enough(60, "kendall") == enough(100, "kendall")
    assert enough(60, "kendall", delta=1e-9) > enough(60, "kendall")


def test_what_was_typed_is_named(few):
    desk = pg.Publication(few, mu=1e-9)
    for act in (desk.rehearse, desk.plan):
        assert said_by(act).startswith("mu=1e-09: the ε of so small a promise is 0")


@pytest.mark.parametrize(
    "words",
    [
        {"drop": 5},
        {"whole": 5},
        {"graph": 5},
        {"graph": [("a", "b", "c")]},
        {"graph": "ab"},
        {"check_bounds": "x"},
        {"ledger": 5},
        {"bounds": 5},
        {"schema": 5},
        {"source": pd.Series([1.0, 2.0])},
        {"source": 5},
        {"source": None},
        {"to": None},
        {"to": 5},
    ],
)
def test_an_argument_of_no_kind_that_it_takes_is_named(few, words, tmp_path):
    (name,) = words
    more = {"whole": {"mechanism": "copula"}, "graph": {"mechanism": "weights"}}
    words = {"epsilon": 1, "source": few} | more.get(name, {}) | words
    to = words.pop("to", tmp_path / "o.parquet")
    told = said_by(lambda: pg.Publication(**words).publish(to))
    others = {"graph": "no such file", "source": "table="}  # of the right kind
    assert name in told or others[name] in told, told
