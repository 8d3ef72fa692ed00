"""The paper's preparation of its tables, and the ε it prints for them."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from privglasso.base.settings import resource
from privglasso.base.validation import InputError
from privglasso.data_sets.congress import load_congress
from privglasso.data_sets.sachs import load_sachs
from privglasso.papers.guo import (
    covariance_attack,
    implied_mu,
    paper_epsilon,
    paper_mu,
    paper_table,
)
from privglasso.privacy.gdp import tradeoff_gdp

PUBLISHED = pd.read_csv(resource("data/published/guo_table2.csv")).dropna(
    subset="epsilon_stated"
)


@pytest.mark.parametrize(
    "name, published",
    [
        pytest.param(name, published, marks=pytest.mark.data(*files))
        for name, published, *files in (
            ("sachs", "cell_signalling", "sachs", "sachs_truth_18"),
            ("chickenpox", "chickenpox", "chickenpox", "chickenpox_edges"),
            ("soil", "soil", "soil"),
            ("house", "congress", "congress_house"),
        )
    ],
)
def test_printed_epsilon_is_recomputed(name, published):
    table = paper_table(name)
    rows = PUBLISHED[PUBLISHED["dataset"] == published].set_index("snr_db")[
        "epsilon_stated"
    ]
    assert rows.index.tolist() == [100, 80, 60, 40, 20, 10]
    for snr_db, printed in rows.drop(10).items():
        assert paper_epsilon(table, snr_db) == pytest.approx(printed, rel=0.01)
    assert paper_epsilon(table, 0) == pytest.approx(
        rows[10], rel=0.01
    )  # the row that says 10 dB


@pytest.mark.data("sachs", "sachs_truth_18", "congress_senate")
def test_other_preparations_do_not_give_the_printed_epsilon():
    assert paper_epsilon(load_sachs().table, 100) > 10 * 85_500
    senators = load_congress("senate").table
    assert paper_epsilon(
        (senators - senators.mean()) / senators.std(ddof=0), 100
    ) == pytest.approx(3.2e5, rel=0.01)


def test_paper_table_of_films(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))
    (tmp_path / "movielens").mkdir()
    ratings = "".join(
        f"{user}::{film}::{1 + (user + film) % 5}::978300760\n"
        for user in range(3)
        for film in range(1, 121)
    )
    films = "".join(f"{film}::Film {film}::Drama\n" for film in range(1, 121))
    with zipfile.ZipFile(tmp_path / "movielens" / "ml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/ratings.dat", ratings)
        archive.writestr("ml-1m/movies.dat", films)
    table = paper_table("movielens")
    assert table.shape == (3, 100) and {dtype.kind for dtype in table.dtypes} == {"f"}


@pytest.mark.parametrize("name", ["grid11", None])
def test_unknown_preparation(name):
    with pytest.raises(InputError, match="the paper's preparation is known for"):
        paper_table(name)


@pytest.mark.parametrize(
    "table, snr_db, complaint",
    [
        (np.ones((3, 2)), 20, "constant"),
        ([[1.0, np.nan], [2.0, 3.0]], 20, "NaN"),
        ([1.0, 2.0], 20, "dimensions"),
        ([[0.0, 1.0], [1.0, 0.0]], np.inf, "snr_db="),
    ],
)
def test_bad_input_to_the_printed_epsilon(table, snr_db, complaint):
    with pytest.raises(InputError, match=complaint):
        paper_epsilon(table, snr_db)


@pytest.mark.parametrize("factor", [1e-3, 0.1, 7.0])
def test_printed_epsilon_has_a_unit(factor):
    table = np.random.default_rng(3).gamma(2.0, size=(40, 4))
    assert paper_epsilon(factor * table, 15) == pytest.approx(
        factor * paper_epsilon(table, 15)
    )
    assert paper_epsilon(table, 35) == pytest.approx(10 * paper_epsilon(table, 15))


def test_a_test_on_the_curve_implies_its_mu():
    for mu in (0.1, 1.0, 4.0):
        for alpha in (1e-6, 0.01, 0.5, 0.9):
            assert implied_mu(alpha, tradeoff_gdp(alpha, mu)) == pytest.approx(mu)


def test_the_table_of_the_covariance_attack():
    attacks = {0.1: 0.0367, 0.2: 0.8865, 0.3: 0.9656, 0.5: 0.9839}
    for sigma, type_two in attacks.items():
        assert covariance_attack(sigma) == pytest.approx(type_two, rel=1e-3)
    assert covariance_attack(0.05) == pytest.approx(1.1e-28, rel=0.05)


def test_the_covariance_attack_stays_below_the_proved_bound():
    for sigma in np.geomspace(0.05, 5, 20):
        for alpha in (1e-4, 0.01, 0.2):
            found = implied_mu(alpha, covariance_attack(sigma, type_one=alpha))
            assert found <= 2 / sigma
    assert paper_mu(2 / 1000, 1.0, 1 / 1000) == pytest.approx(0.0447, abs=1e-4)
