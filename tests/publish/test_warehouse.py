"""A warehouse sums what the mechanism would sum, to the bit; its answer is checked."""

import builtins
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.budget import Budget
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.batches import as_batches
from privglasso.papers.private_precision import PapersCovarianceMechanism
from privglasso.publish.covariance import CovarianceMechanism
from privglasso.publish.graph_weights import GraphWeightsMechanism
from privglasso.publish.sphere import Ball, Sphere
from privglasso.publish.sources import TableError
from privglasso.publish.warehouse import Answer, Statement, ask, quoted

duckdb = pytest.importorskip("duckdb", reason="pip install 'privglasso[sql]'")
N = 3000
BAD = "Ada-7418529"  # a cell that no message may hold

MECHANISMS = {
    "box": CovarianceMechanism((-5, 2), mu=0.5, clipping="box"),
    "cell": CovarianceMechanism((-5, 2), mu=0.5, clipping="box", neighbors="cell"),
    "no mean": CovarianceMechanism((-5, 2), mu=0.5, clipping="box", mean_share=0),
    "norm": PapersCovarianceMechanism(norm_bound=3.0, center=0.1, mu=0.5),
    "sphere": CovarianceMechanism(mu=0.5, clipping=Sphere(0.3, 0.7)),
    "ball": CovarianceMechanism(mu=0.5, clipping=Ball(2.0, 0.3, 0.7)),
    "gaps": CovarianceMechanism(mu=0.5, clipping=Sphere(0.3, 0.7), missing="center"),
}


def table(seed=0, n=N, p=4, gaps=False):
    "Heavy tails, and rows at the ends of what doubles hold; names that need quotes."
    rng = np.random.default_rng(seed)
    cells = rng.standard_t(1, (n, p)) * 10.0 ** rng.integers(-3, 4, p)
    ends = [0.0, 1e308, -1e308, 5e-324, -1e-200, 1e100, 1e200, 0.5]
    cells[: n // 10] = rng.choice(ends, (n // 10, p))
    made = pd.DataFrame(cells, columns=["plain", 'a "b"', "'; --", "select"][:p])
    return made.mask(rng.random(made.shape) < 0.05) if gaps else made


def relation(frame):
    "A relation of the frame, which later frames do not replace."
    return duckdb.from_df(frame)


def assert_same(one, two):
    "Releases with the same numbers in them."
    kind, stored, settings = one._contents()
    assert (kind, settings) == (two._contents()[0], two._contents()[2])
    assert stored.equals(two._contents()[1])
    assert one.columns == two.columns and one.guarantee == two.guarantee


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_from_a_warehouse_is_that_from_memory(name, seed):
    mechanism, frame = MECHANISMS[name], table(seed, gaps=name == "gaps")
    answer = ask(mechanism, relation(frame))
    found = mechanism.publish(answer, random_state=seed)
    assert_same(found, mechanism.publish(frame, random_state=seed))
    # noise is not added to the answer itself
    assert_same(mechanism.publish(answer, random_state=seed), found)


@pytest.mark.parametrize("kind", ["INTEGER", "FLOAT", "BOOLEAN", "BIGINT"])
def test_columns_of_other_kinds(kind):
    frame = pd.DataFrame({"a": [0, 1, 1, 0], "b": [1.5, -1.5, 2.0, 0.25]})
    with duckdb.connect() as warehouse:
        cast = f"CAST(a AS {kind}) AS a, CAST(b AS FLOAT) AS b"
        source = warehouse.from_df(frame).select(cast)
        for name in ("box", "sphere"):
            found = MECHANISMS[name].publish(ask(MECHANISMS[name], source), 0)
            assert_same(found, MECHANISMS[name].publish(frame, 0))


def test_bounds_by_name_put_columns_in_their_order():
    frame = table(p=2).rename(columns={'a "b"': "b", "plain": "a"})
    bounds = {"b": (-1, 1), "a": (-2, 5)}
    mechanism = CovarianceMechanism(bounds, mu=0.5, clipping="box")
    answer = ask(mechanism, relation(frame))
    assert answer.columns == ["b", "a"]
    assert_same(mechanism.publish(answer, 0), mechanism.publish(frame, 0))


def test_one_answer_serves_every_noise_on_the_same_lattice():
    frame = table()
    bounds = (-5, 2)
    answer = ask(CovarianceMechanism(bounds, mu=0.5, clipping="box"), relation(frame))
    other = CovarianceMechanism(bounds, mu=0.49, clipping="box")
    assert_same(other.publish(answer, 1), other.publish(frame, 1))


@pytest.mark.long
@pytest.mark.parametrize("gaps", ["refuse", "center"])
@pytest.mark.parametrize("n", [2000, 50_000])
def test_private_units_take_a_sample_and_then_sums(n, gaps):
    "All rows are the sample of a short table; columns without a unit are set aside."
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(rng.normal(1e6, 3, (n, 3)), columns=["a", "b; ", "place"])
    frame.insert(1, "constant", 3.25)
    frame = frame.mask(rng.random(frame.shape) < 0.02) if gaps == "center" else frame
    mechanism = CovarianceMechanism(mu=2.0, clipping="sphere", missing=gaps)
    asked = ask(mechanism, relation(frame))
    expected = mechanism.publish(frame, 1)
    assert expected.set_aside
    assert_same(mechanism.publish(asked, 1), expected)
    with pytest.raises(InputError, match="in batches"):
        CovarianceMechanism(mu=2.0, missing=gaps).publish(asked)
    with pytest.raises(InputError, match="in batches"):
        list(asked.blocks(10))


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "mechanism",
    [
        CovarianceMechanism(mu=0.5),
        CovarianceMechanism(mu=0.5, clipping="sphere"),
        GraphWeightsMechanism(np.ones((4, 4)) - np.eye(4), mu=0.5),
        MECHANISMS["ball"],
        CovarianceMechanism((-5, 3), mu=0.5, clipping="box"),
    ],
    ids=["scores", "private units", "weights", "another shape", "other bounds"],
)
def test_an_answer_to_another_question_costs_nothing(mechanism, tmp_path):
    answer = ask(MECHANISMS["box"], relation(table()))
    ledger = tmp_path / "ledger.json"
    budget = Budget.create(ledger, Guarantee(1.0, "record"))
    with pytest.raises(InputError, match="in batches"):
        budget.publish(mechanism, answer, tmp_path / "r.parquet", label="r")
    assert budget.spent().mu == 0 and not (tmp_path / "r.parquet").exists()


def test_a_budget_pays_for_an_answer(tmp_path):
    mechanism = MECHANISMS["box"]
    answer = ask(mechanism, relation(table()))
    budget = Budget.create(tmp_path / "ledger.json", Guarantee(1.0, "record"))
    made = budget.publish(mechanism, answer, tmp_path / "r.parquet", label="r")
    assert made.secure and budget.spent().mu == pytest.approx(0.5)


@pytest.mark.parametrize(
    "mechanism",
    [CovarianceMechanism(mu=0.5), CovarianceMechanism(mu=0.5, clipping="sphere"), 1],
    ids=["scores", "private units", "no mechanism"],
)
def test_no_statement_without_public_units(mechanism):
    with pytest.raises(InputError, match="public units"):
        Statement(mechanism, ["a", "b"], 5000)


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_cells_are_refused_in_the_words_for_memory(cell):
    frame = table()
    frame.loc[N - 1, "select"] = cell
    with pytest.raises(InputError) as expected:
        MECHANISMS["sphere"].publish(frame)
    with pytest.raises(InputError) as found:
        MECHANISMS["sphere"].publish(ask(MECHANISMS["sphere"], relation(frame)))
    assert str(found.value) == str(expected.value) and "select" in str(found.value)


@pytest.fixture(scope="module")
def asked():
    "A statement, and the row that came back."
    frame = table()
    statement = Statement(MECHANISMS["ball"], list(frame), N)
    made = relation(frame).query("t", statement.sql("t"))
    return statement, dict(zip(made.columns, made.fetchall()[0], strict=True))


def changed(row, **numbers):
    "The row with other numbers in it; None takes one away."
    return {key: x for key, x in (row | numbers).items() if x is not None}


def refused(asked, **numbers):
    "What is said of the row with these numbers; no number of it is told."
    statement, row = asked
    with pytest.raises(InputError) as caught:
        statement.read(changed(row, **numbers))
    told = str(caught.value)
    secrets = [abs(x) for x in [*row.values(), *numbers.values()] if type(x) is int]
    assert not any(str(x) in told for x in secrets if x > 10**4), told
    return caught.value.value


def test_what_cannot_be_the_sums_is_refused(asked):
    row, r2 = asked[1], MECHANISMS["ball"].lattice(N, 4).rows.steps ** 2
    assert refused(asked, n=N - 1) == "n"
    assert refused(asked, statement="0" * 16) == "statement"
    assert refused(asked, product_1_2=None) == "product_1_2"
    assert refused(asked, missing_3=None) == "missing_3"
    for wrong in (1.0, "12", True, Decimal("1.5"), Decimal("NaN"), np.float64(3)):
        assert refused(asked, product_0_3=wrong) == "product_0_3"
    own = row["product_2_2"]
    assert refused(asked, product_2_2=own + 1) == "total_2, product_2_2"
    assert refused(asked, product_2_2=-2) == "total_2, product_2_2"
    assert refused(asked, product_2_2=2 * N * r2 + own % 2) == "total_2, product_2_2"
    beyond = 2 * N * own + row["total_1"] % 2
    assert refused(asked, total_1=beyond) == "total_1, product_1_1"
    both = row["product_0_0"] + row["product_1_1"]
    assert refused(asked, product_0_1=2 * both) == "product_0_1"
    assert refused(asked, product_0_1=-2 * both) == "product_0_1"
    squares = {
        f"product_{j}_{j}": N * r2 - N * r2 % 2 - 2 + row[f"product_{j}_{j}"] % 2
        for j in range(4)
    }
    assert refused(asked, **squares) == "product_0_0 and further squares"


def test_the_bound_of_a_column_is_attained():
    "All rows in a corner of the box: the largest sums that there are pass."
    mechanism, frame = MECHANISMS["box"], pd.DataFrame(np.full((10, 3), 1e9))
    frame.columns = list("abc")
    answer = ask(mechanism, relation(frame))
    assert_same(mechanism.publish(answer, 0), mechanism.publish(frame, 0))


def test_answers_in_other_forms(asked):
    statement, row = asked
    expected = MECHANISMS["ball"].publish(table(), 0)
    wide = {key: Decimal(x) if type(x) is int else x for key, x in row.items()}
    upper = {key.upper(): x for key, x in row.items()}
    forms = [row, wide, upper, pd.DataFrame([row]), pa.Table.from_pylist([row])]
    for form in forms:
        assert_same(MECHANISMS["ball"].publish(statement.read(form), 0), expected)
    for form in (pa.Table.from_pylist([row, row]), 3, pd.DataFrame([row])[:0]):
        with pytest.raises(InputError, match="one row"):
            statement.read(form)


def test_an_answer_shows_and_gives_no_sums(asked):
    statement, row = asked
    answer = statement.read(row)
    assert isinstance(answer, Answer) and answer.shape == (N, 4)
    assert not any(str(x) in repr(answer) for x in row.values() if x not in (0, N))
    for wanted in ([0, 1], [1, 0, 2, 3]):
        with pytest.raises(InputError):
            answer[:, wanted]
    with pytest.raises(InputError):
        list(answer.blocks(100))


def test_words_are_not_quoted():
    source = duckdb.sql(f"SELECT 1.0 AS a, '{BAD}' AS b FROM range(10)")
    with pytest.raises(TableError) as caught:
        ask(MECHANISMS["box"], source)
    assert BAD not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_names_cannot_end_a_statement():
    frame = pd.DataFrame({'x" AS DOUBLE)) FROM t; DROP TABLE t; --': [1.0, 2.0]})
    with duckdb.connect() as warehouse:
        warehouse.execute('CREATE TABLE "t; ""x" AS SELECT * FROM frame')
        statement = Statement(MECHANISMS["box"], list(frame), 2)
        text = statement.sql('t; "x')
        assert statement.read(warehouse.sql(text)).shape == (2, 1)
        assert statement.read(warehouse.sql(statement.sql(("main", 't; "x'))))
    assert quoted('"') == '""""'


# ------------------------------------------------------------------ a table in a file


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    "A file of DuckDB with a table, and with views of several kinds."
    path, frame = tmp_path_factory.mktemp("db") / "clinic.db", table(p=3).clip(-9, 9)
    with duckdb.connect(str(path)) as warehouse:
        warehouse.execute("CREATE TABLE visits AS SELECT * FROM frame")
        warehouse.execute('CREATE VIEW "few ""x" AS SELECT plain FROM visits')
        words = f"(SELECT '{BAD}' AS w)"
        warehouse.execute(
            f"CREATE VIEW wrong AS SELECT CAST(w AS INT) AS a FROM {words}"
        )
        warehouse.execute("CREATE VIEW empty AS SELECT * FROM visits WHERE plain > 99")
        warehouse.execute("CREATE SCHEMA other")
        warehouse.execute("CREATE TABLE other.twice AS SELECT 1.0 AS a")
        warehouse.execute("CREATE TABLE twice AS SELECT 2.0 AS a")
        warehouse.execute("CREATE TABLE words AS SELECT 'Ada' AS name, 1.0 AS a")
    return path, frame


@pytest.mark.parametrize("name", [*MECHANISMS, "scores", "private units"])
def test_a_stored_table_is_published_as_in_memory(name, stored):
    path, frame = stored
    more = {
        "scores": CovarianceMechanism(mu=2.0),
        "private units": CovarianceMechanism(mu=2.0, clipping="sphere"),
    }
    mechanism = (MECHANISMS | more)[name]
    found = mechanism.publish(f"duckdb:{path}?visits", 0)
    assert_same(found, mechanism.publish(frame, 0))


def test_a_relation_streams_by_the_interface_of_arrow(stored):
    frame = stored[1]
    with duckdb.connect() as warehouse:
        warehouse.from_df(frame).create("visits")
        made = warehouse.table("visits")
        assert hasattr(made, "__arrow_c_stream__")
        source = as_batches(made)
        assert (np.concatenate(list(source.blocks(700))) == frame.to_numpy()).all()
        assert (np.concatenate(list(source.blocks(10**6))) == frame.to_numpy()).all()


def test_names_of_views_and_schemas(stored):
    path, frame = stored
    assert as_batches(f'duckdb:{path}?few "x').shape == (N, 1)
    assert as_batches(f"duckdb:{path}?main.visits").shape == (N, 3)
    assert next(as_batches(f"duckdb:{path}?other.twice").blocks(9)).item() == 1.0
    assert as_batches(f"duckdb:{path}?empty").shape == (0, 3)


@pytest.mark.parametrize(
    "name, said",
    [
        ("wrong", "could not read"),
        ("nothing", "not there"),
        ("", "not there"),
        ("visits; DROP TABLE visits", "not there"),
        ("SELECT 1", "not there"),
        ("/etc/passwd", "not there"),
        ("twice", "several schemas"),
        ("words", "name"),
    ],
)
def test_what_is_not_a_table_of_numbers(name, said, stored):
    with pytest.raises((TableError, InputError), match=said) as caught:
        MECHANISMS["box"].publish(f"duckdb:{stored[0]}?{name}")
    assert BAD not in str(caught.value) and "Ada" not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_files_that_are_no_database(tmp_path, stored):
    (tmp_path / "text.db").write_text("a,b\n1,2\n" * 5000)
    for name in ("text.db", "absent.db"):
        with pytest.raises(TableError, match=name):
            as_batches(f"duckdb:{tmp_path / name}?visits")
    with pytest.raises(TableError, match="sep"):
        as_batches(f"duckdb:{stored[0]}?visits", sep=";")


def test_a_database_that_is_open_for_writing(tmp_path):
    with duckdb.connect(str(tmp_path / "w.db")) as warehouse:
        warehouse.execute("CREATE TABLE t AS SELECT 1.0 AS a")
        with pytest.raises(TableError, match="open for writing"):
            as_batches(f"duckdb:{tmp_path / 'w.db'}?t")


def test_without_the_package_a_sentence_says_how_to_get_it(monkeypatch, stored):
    real = builtins.__import__

    def without(name, *rest):
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TableError, match=r"pip install 'privglasso\[sql\]'"):
        as_batches(f"duckdb:{stored[0]}?visits")
