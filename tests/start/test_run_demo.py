"""The demonstration from publication to figure, as `privglasso demo` runs it."""

import numpy as np
import pandas as pd
import pytest

from privglasso.base.validation import InputError
from privglasso.privacy.guarantee import NoGuarantee
from privglasso.recover.planning import MECHANISMS
from privglasso.start.demonstration import analyse, demo_mechanisms, demo_releases
from privglasso.start.demonstration import demo_table, report, run_demo


def test_the_demonstration_publishes_files_that_say_what_they_promise(tmp_path):
    data = demo_table("grid")
    releases = dict(demo_releases(data, tmp_path))
    assert len(list(tmp_path.glob("*.parquet"))) == len(releases) == 13
    for label, release in releases.items():
        assert isinstance(release.guarantee, NoGuarantee) == label.endswith("dB")
        assert release.n == len(data.table) and not release.secure
    for epsilon in (1, 8):
        for name in (*MECHANISMS, "whitened", "tree"):
            guarantee = releases[f"{name}, ε = {epsilon} a record"].guarantee
            assert guarantee.neighbors == "record"
            assert guarantee.epsilon(len(data.table) ** -2.0) == pytest.approx(
                epsilon, rel=1e-6
            )
    assert releases["20 dB"].guarantee.epsilon(1e-5) == np.inf


def test_honest_promises_do_not_depend_on_the_table():
    data = demo_table("grid")
    other = type(data)(
        data.name, data.table * 0, data.bounds, data.truth
    )
    for one, two in zip(
        demo_mechanisms(data).values(), demo_mechanisms(other).values(), strict=True
    ):
        assert one.guarantee(*data.table.shape) == two.guarantee(*data.table.shape)


@pytest.mark.long
def test_the_demonstration_writes_its_table_and_figure_and_ends_on_what_works(tmp_path):
    lines = []
    run_demo("grid", tmp_path / "out", echo=lines.append)
    table = pd.read_csv(tmp_path / "out" / "grid.csv")
    assert len(table) == 14 and (tmp_path / "out" / "grid.svg").stat().st_size > 1000
    _, _, works = lines[-1].partition("What works with n = 20,000, p = 11")
    assert "tree, ε = 8 a record: the graph, 10 of 10 edges, 0 false" in works
    assert "whitened, ε = 1 a record: the order" in works
    assert "dB" not in works and "but no promise" in lines[-1]
    assert max(map(len, lines[-1].splitlines())) <= 80


def test_where_nothing_works_the_raw_table_is_named():
    data = demo_table("grid")
    graph = {"found": 10, "missed": 0, "extra": 30, "first": 3, "remark": ""}
    made = {"guarantee": "a changed record is noticed in at most 7.3 %"} | graph
    raw = {"release": "no privacy", "guarantee": "none", "auc": 0.62} | graph
    table = pd.DataFrame([raw, made | {"release": "covariance, ε = 1", "auc": 0.85}])
    told = report(data, table)
    assert " ".join(told.split()).endswith("AUC 0.62 only") and "30 false" in told
    table.loc[1, "auc"] = 0.95
    assert "covariance, ε = 1: the order, 3 of the 10" in report(data, table)
    table.loc[1, "extra"] = 2
    assert "covariance, ε = 1: the graph, 10 of 10" in report(data, table)


def test_an_analyst_of_nothing_gets_dashes_and_a_reason():
    data = demo_table("grid")
    release = MECHANISMS["table"](data.bounds, mu=1e-3).publish(
        data.table, random_state=0
    )
    scores, graph, remark = analyse(release, data)
    assert (
        np.isnan(list(scores.values())).all() and not graph.any() and "noise" in remark
    )


def test_unknown_demonstrations_are_refused():
    with pytest.raises(InputError) as caught:
        demo_table("weather")
    assert caught.value.argument == "data"


@pytest.mark.data("sachs", "sachs_truth_18")
def test_the_real_cells():
    data = demo_table("sachs")
    assert data.table.shape == (7466, 11) and data.truth.sum() == 36
    assert data.table.to_numpy().min() >= 0 and data.table.to_numpy().max() <= 4
