"Selected pairs: an exact race, scores that move by one, promises, files, and refusals."

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, ndtri

import privglasso as pg
from privglasso.base.plots import plot_graph
from privglasso.base.validation import InputError
from privglasso.privacy.sampler import bit_source
from privglasso.publish.files import read_release
from privglasso.publish.graph_weights import MOST_ENTRIES, GraphWeightsMechanism
from privglasso.publish.graph_weights import weight_noise
from privglasso.publish.margins import histogram_sigma, noisy_margins, placed_cells
from privglasso.publish.parquet import METADATA_KEY, ReleaseError, sealed
from privglasso.publish.screened_weights import Race, Screen, ScreenedGraphMechanism
from privglasso.publish.screened_weights import along_paths, joining
from privglasso.publish.screened_weights import products_of_signs, screen_scores
from privglasso.publish.screened_weights import screen_squared_mu, screened_pairs
from privglasso.publish.screened_weights import selection_mu, sign_steps, usual_edges
from privglasso.publish.shape import UnitsError

BUDGET = {"epsilon": 1.5, "delta": 1e-9}


def chain_rows(n, p, seed, correlation=0.5):
    rows = np.random.default_rng(seed).standard_normal((p, n))
    for j in range(1, p):
        rows[j] = correlation * rows[j - 1] + math.sqrt(1 - correlation**2) * rows[j]
    return rows.T


def binned(rows, mu=2.0):
    "Bins of the cells of normal columns, and private margins."
    p = rows.shape[1]
    stated = ["units"] * p, np.zeros(p), np.ones(p)
    places, counts = placed_cells(rows, *stated)
    sigma = histogram_sigma(p, mu)
    return places, noisy_margins(counts, len(rows), *stated, sigma, bit_source(0))


# what a selection tells


@pytest.mark.parametrize("eta", [1e-3, 0.1, 1.0, 5.0, 20.0])
def test_no_selection_tells_more_than_its_mu(eta):
    odds = np.linspace(-30, 15, 9001)
    apart = ndtri(expit(odds + eta)) - ndtri(expit(odds))
    assert apart.max() <= selection_mu(eta) * (1 + 1e-9)
    half = ndtri(expit(eta / 2)) - ndtri(expit(-eta / 2))
    assert math.isclose(half, selection_mu(eta))  # attained


def test_selections_alone_cost_a_quarter_more_than_followed_ones():
    alone = screen_squared_mu([1000], [0.01], 1e-3)
    followed = screen_squared_mu([1000], [0.01], 0.2)
    assert math.isclose(alone / (1000 * 0.01**2 / 4), math.pi / 2, rel_tol=1e-3)
    assert 1 < followed / (1000 * 0.01**2 / 4) < 1.001


def test_the_price_grows_with_ranges_and_falls_with_noise():
    prices = [screen_squared_mu([50], [x], 0.5) for x in np.geomspace(1e-3, 50, 400)]
    assert (np.diff(prices) >= 0).all()
    prices = [screen_squared_mu([50], [0.1], x) for x in np.geomspace(1e-3, 5, 400)]
    assert (np.diff(prices) <= 1e-15).all()


# the race


def test_a_race_ends_with_all_places_each_once():
    scores = np.random.default_rng(0).integers(0, 40, 500)
    for scale in (0.01, 3.0, 1e6):
        assert sorted(Race(scores, scale, bit_source(1))) == [*range(500)]
    assert list(Race(np.array([], int), 1.0, bit_source(0))) == []


def test_where_nothing_is_left_to_chance_the_best_come_first():
    scores = np.random.default_rng(0).permutation(200)
    order = list(Race(scores, 1e-3, bit_source(0)))
    assert (scores[order] == np.arange(200)[::-1]).all()


class Coins:
    "Bits that were chosen: to come upon what is rare."

    secure = False

    def __init__(self, *words):
        self.given, self.rest = [*words], bit_source(0)

    def bits(self, k):
        return self.given.pop(0) if self.given else self.rest.bits(k)

    def words(self, n):
        return self.rest.words(n)


def test_a_digit_on_a_border_draws_more_digits():
    # two places of one weight: the border is at one half
    low = Race(np.array([3, 3]), 1.0, bit_source(0))
    low.levels, low.left = [3, 2], [np.array([0]), np.array([1])]
    low.many, low.weights, low.total = [1, 1], [(8, 8), (8, 8)], [16, 16]
    assert low._located(1 << 63, 64) == 1  # U is at least one half
    assert low._located((1 << 63) - 1, 64) is None  # not proved to be below
    assert low._located(1 << 62, 64) == 0
    race = Race(np.array([0, 0, 1]), 1.0, Coins((1 << 64) - 1, 0))
    assert next(iter(race)) in (0, 1)
    assert race.digits > 128 and race.bits.given == []


def test_the_first_place_has_exactly_its_chance():
    # the border of U between the two levels is e/(e + 2), to 60 digits
    race = Race(np.array([1, 0, 0]), 1.0, bit_source(0))
    border = Fraction(race.weights[0][0], race.total[1])
    upper = Fraction(race.weights[0][1], race.total[0])
    exact = Fraction(math.e / (math.e + 2))
    assert abs(border - exact) < Fraction(1, 10**15) and upper - border < 2**-120
    assert race._located(int(border * 2**64) - 2, 64) == 0
    assert race._located(int(border * 2**64) + 2, 64) == 1


def test_of_one_level_all_places_are_alike():
    first = [next(iter(Race(np.zeros(4, int), 1.0, bit_source(s)))) for s in range(800)]
    counts = np.bincount(first, minlength=4)
    assert ((counts - 200) ** 2 / 200).sum() < 40  # 1e-8


# scores


def test_signs_have_the_average_zero_and_are_whole():
    z = np.random.default_rng(0).standard_normal((20_000, 3))
    z[:, 1] = z[:, 1] > 0.6
    kinds = ["units", "levels", "units"]
    stated = kinds, np.array([0.0, 0, 0]), np.ones(3)
    places, counts = placed_cells(z, *stated)
    margins = noisy_margins(counts, len(z), *stated, 1.0, bit_source(0))
    for j, steps in enumerate(sign_steps(margins)):
        assert (steps == np.rint(steps)).all() and np.abs(steps).max() == 16
        assert abs(steps[places[:, j]].mean()) < 0.6  # a rounding


def test_a_bin_without_cells_has_a_side():
    stated = ["levels"], np.array([0.0]), np.array([4.0])
    margins = noisy_margins(
        np.array([[0, 9, 0, 11, 0]]), 20, *stated, 1.0, bit_source(1)
    )
    margins = replace(margins, counts=np.array([[0, 10, 0, 10, 0]]))
    assert sign_steps(margins)[0].tolist() == [-16, -16, 16, 16, 16]


@pytest.mark.parametrize("expected", [0, 77, -5000])
def test_a_record_moves_scores_by_one_at_most_and_the_forests_sums_by_512(expected):
    rng = np.random.default_rng(0)
    places, margins = binned(rng.standard_normal((50, 5)))
    sums = products_of_signs(places, margins)
    off, moves, sizes = np.triu_indices(5, 1), set(), []
    for _ in range(600):
        other = places.copy()
        other[rng.integers(50)] = rng.integers(0, 19, 5)
        after = products_of_signs(other, margins)
        moved = screen_scores(after, expected) - screen_scores(sums, expected)
        moves |= set(moved[off].tolist())
        sizes.append(np.abs(after - sums)[off].max())
    assert moves == {-1, 0, 1} and max(sizes) == 512


def test_sums_do_not_depend_on_blocks():
    places, margins = binned(np.random.default_rng(0).standard_normal((9001, 3)))
    parts = sum(
        products_of_signs(places[k : k + 7], margins) for k in range(0, 9001, 7)
    )
    assert (products_of_signs(places, margins) == parts).all()


# the forest


def test_a_forest_has_no_circles():
    pairs = np.array(list(itertools.combinations(range(12), 2)))
    order = np.random.default_rng(0).permutation(len(pairs))
    found = list(joining(order, pairs, 12))
    graph = nx.Graph(pairs[found].tolist())
    assert len(found) == 11 and nx.is_forest(graph) and nx.is_connected(graph)
    assert found[:2] == order[:2].tolist()


def test_correlations_in_a_forest_are_products_along_paths():
    graph = nx.random_labeled_tree(10, seed=0)
    edges = np.array(graph.edges)[:7]
    r = np.random.default_rng(0).uniform(-0.9, 0.9, 7)
    found, weight = (
        along_paths(10, edges, r),
        dict(zip(map(tuple, edges), r, strict=True)),
    )
    forest = nx.Graph(edges.tolist())
    forest.add_nodes_from(range(10))
    for i, j in itertools.combinations(range(10), 2):
        if nx.has_path(forest, i, j):
            path = itertools.pairwise(nx.shortest_path(forest, i, j))
            along = [weight.get(e, weight.get(e[::-1])) for e in path]
            assert math.isclose(found[i, j], math.prod(along), abs_tol=1e-15)
        else:
            assert found[i, j] == 0
    assert (found == found.T).all() and np.linalg.eigvalsh(found)[0] > 0


def test_what_a_forest_explains_takes_no_place():
    rows = chain_rows(200_000, 8, 0, 0.8)  # the second neighbours have 0.64
    rows[:, 7] = np.random.default_rng(1).standard_normal(200_000) + 0.2 * rows[:, 0]
    places, margins = binned(rows)
    found = screened_pairs(
        places, margins, Screen((6, 1, 0), (9.0, 9.0, 9.0), 1e3), bit_source(0)
    )
    assert found.tolist() == sorted([[0, 7], *([k, k + 1] for k in range(6))])


# the mechanism


@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0, 9.0])
@pytest.mark.parametrize("p", [2, 3, 40])
@pytest.mark.parametrize("units", [{"scale": 1.0}, {}])
def test_the_promise_is_the_target(mu, p, units):
    mechanism = ScreenedGraphMechanism(mu=mu, **units)
    for found in mechanism.guarantees(50_000, p):
        assert found.mu <= mu < found.mu * (1 + 1e-8)


def test_less_randomness_is_a_larger_mu():
    lattice = ScreenedGraphMechanism(scale=1.0, mu=0.3)._lattice(10_000, 30)
    screen, before = lattice.screen, lattice.guarantee("record").mu
    sharper = replace(screen, scales=(*screen.scales[:2], 0.9 * screen.scales[2]))
    for other in (sharper, replace(screen, sigma=0.9 * screen.sigma)):
        assert replace(lattice, screen=other).guarantee("record").mu > 1.001 * before


def test_many_pairs_are_selected_where_records_are_many():
    few, many = (usual_edges(n, 200, 0.25) for n in (1000, 10**7))
    assert (few, many) == (240, 400)
    assert 240 < usual_edges(20_000, 200, 0.25) < 400


def test_no_more_pairs_are_selected_than_a_model_has_room_for():
    assert usual_edges(10**7, 2500, 0.25) == 3500 == 6000 - 2500
    ScreenedGraphMechanism(scale=1.0, mu=1.0).guarantee(10**6, 2500)


@pytest.mark.long
@pytest.mark.parametrize("p", [2000, 2727, 2728, 3000, 6000, 20_000])
@pytest.mark.parametrize("n", [8000, 25_000, 10**7])
def test_the_usual_number_of_pairs_is_never_refused(n, p):
    """Each pair has two columns at most, and all of them together are unknowns; beyond
    some columns, noise on a weight is small, or there is one pair."""
    edges = usual_edges(n, p, 0.25)
    assert 1 <= edges and edges + min(2 * edges, p) <= MOST_ENTRIES
    mechanism = ScreenedGraphMechanism(mu=0.25, scale=1.0)
    lattice = mechanism._lattice(n, p)
    assert sum(lattice.screen.many) == edges
    if p > 2727 and edges > 1:
        noise = weight_noise(lattice.rows)[lattice.rows.k :][:edges]
        assert noise.mean() <= 0.047


def test_strong_pairs_are_found_with_their_weights():
    rows = chain_rows(20_000, 30, 0)
    release = ScreenedGraphMechanism(edges=40, **BUDGET).publish(rows, 0)
    found = release.tested_edges()
    chain = {(f"x{k}", f"x{k + 1}") for k in range(29)}
    assert set(zip(found.source, found.target, strict=True)) == chain
    assert len(release.edges) == 40
    true = 0.5 / 1.25  # inside the chain
    inner = found[(found.source != "x0") & (found.target != "x29")]
    z = (inner.partial_correlation - true) / inner.standard_error
    assert abs(z.mean()) < 1 and z.abs().max() < 4.5


def test_two_columns_have_one_pair():
    release = ScreenedGraphMechanism(scale=1.0, mu=1.0).publish(
        chain_rows(2000, 2, 0), 0
    )
    assert len(release.edges) == 1 and release.edges.partial_correlation[0] > 0.3


def test_a_column_without_a_unit_is_set_aside():
    rows = chain_rows(5000, 4, 0)
    rows[:, 3] = 7.0  # constant
    release = ScreenedGraphMechanism(mu=0.5).publish(rows, 0)
    assert list(release.set_aside) == ["x3"] and "set aside" in str(release)
    assert "x3" not in {*release.edges.source, *release.edges.target}
    assert list(release.graph_.nodes) == ["x0", "x1", "x2", "x3"]
    rows[:, 1:] = 7.0
    with pytest.raises(UnitsError):
        ScreenedGraphMechanism(mu=0.5).publish(rows, 0)


def test_public_units_in_the_order_of_the_columns():
    rows = chain_rows(20_000, 4, 0) * [1, 100, 1e-3, 5] + [0, 1e4, 0, -20]
    units = {"scale": [1, 100, 1e-3, 5], "center": [0, 1e4, 0, -20]}
    mechanism = ScreenedGraphMechanism(edges=3, **units, **BUDGET)
    pairs = mechanism.publish(rows, 0).edges[["source", "target"]].to_numpy().tolist()
    assert pairs == [[f"x{k}", f"x{k + 1}"] for k in range(3)]


def test_binary_columns_far_from_one_half_are_not_tied():
    # the averages of their signs are 0, or they would all win
    z = np.random.default_rng(0).standard_normal((30_000, 12))
    table = np.where(np.arange(12) < 6, z, z > 1.0)
    table[:, 1] += 0.3 * table[:, 0]
    levels = {f"x{j}": (0, 1) for j in range(6, 12)}
    mechanism = ScreenedGraphMechanism(edges=1, levels=levels, **BUDGET)
    for seed in range(3):
        edges = mechanism.publish(table, seed).edges
        assert edges[["source", "target"]].to_numpy().tolist() == [["x0", "x1"]]


def test_a_seed_repeats_and_the_system_does_not():
    rows = chain_rows(500, 5, 0)
    mechanism = ScreenedGraphMechanism(scale=1.0, mu=1.0)
    one, two, three = (mechanism.publish(rows, seed) for seed in (1, 1, None))
    assert (one.sums == two.sums).all() and not one.secure and three.secure
    assert one.sums.tolist() != three.sums.tolist()


def test_a_release_is_drawn_fitted_and_weighed_again():
    rows = chain_rows(5000, 4, 0)
    release = ScreenedGraphMechanism(scale=1.0, mu=0.5).publish(rows, 0)
    assert {"x0", "x3"} <= {text.get_text() for text in plot_graph(release).texts}
    again = GraphWeightsMechanism(release, scale=1.0, mu=0.5).publish(rows, 1)
    assert len(again.edges) == len(release.edges_) < len(release.edges)
    assert release.edges_.equals(release.tested_edges())
    with pytest.raises(InputError):  # as for weights: it is a graph already
        pg.PrivateGraphicalLasso().fit(release)


# files


def written(tmp_path, rows, **settings):
    release = ScreenedGraphMechanism(**settings).publish(rows, 0)
    path = tmp_path / "open.parquet"
    release.to_parquet(path)
    return release, path, read_release(path)


@pytest.mark.parametrize("units", [{"scale": 1.0}, {}])
def test_a_file_says_what_the_release_says(units, tmp_path):
    rows = chain_rows(20_000, 6, 0)
    rows[:, 3] = 7.0 if not units else rows[:, 3]
    release, path, back = written(tmp_path, rows, edges=4, mu=0.5, **units)
    assert (back.sums == release.sums).all() and back.guarantee == release.guarantee
    assert str(back) == str(release) and back.set_aside == release.set_aside
    pd.testing.assert_frame_equal(back.edges, release.edges)
    assert back.stages.screen.scales == release.stages.screen.scales
    table = pd.read_parquet(path)  # any other tool
    assert list(table.columns) == ["source", "target", "sum"] and len(table) == 4


def test_a_file_is_as_small_as_its_pairs(tmp_path):
    sizes = []
    for p in (60, 600):
        rows = np.random.default_rng(0).standard_normal((100, p))
        file = tmp_path / f"{p}.parquet"
        ScreenedGraphMechanism(scale=1.0, mu=1.0).publish(rows, 0).to_parquet(file)
        sizes.append(file.stat().st_size)
    assert sizes[1] < 12 * sizes[0] and sizes[1] < 400 * 600


def forged(path, change):
    "The file with other metadata or numbers, and a checksum that fits."
    stored = pq.read_table(path)
    metadata = json.loads(stored.schema.metadata[METADATA_KEY])
    table = stored.to_pandas(ignore_metadata=True)
    change(metadata, table)
    made = pa.Table.from_pandas(table, preserve_index=False)
    other = path.with_name("other.parquet")
    pq.write_table(made.replace_schema_metadata(sealed(metadata, table)), other)
    return other


def of_screen(**changed):
    return lambda m, t: m["screen"].update(changed)


CHANGES = {
    "rougher scales": of_screen(scales=[99.0, 99.0, 99.0]),
    "fewer paid for": of_screen(many=[1, 1, 1]),
    "more paid for": of_screen(many=[2, 1, 2]),
    "more noise on the forest": of_screen(sigma=1e6),
    "less noise": lambda m, t: m["lattice"].update(sigma=0.95 * m["lattice"]["sigma"]),
    "a promise": lambda m, t: m.update(mu=0.95 * m["mu"]),
    "an edge set aside": lambda m, t: t.__setitem__("target", [1, 2, 3, 5]),
    "an edge twice": lambda m, t: t.__setitem__("source", [0, 0, 4, 4]),
    "nothing set aside": lambda m, t: m.update(set_aside={}),
    "a column with edges set aside": lambda m, t: m.update(
        set_aside={"x0": m["set_aside"]["x3"]}
    ),
    "no units": lambda m, t: m.update(units=None),
    "another kind": lambda m, t: m.update(kind="weights"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_setting_of_a_file_can_be_changed_alone(name, tmp_path):
    rows = chain_rows(20_000, 6, 0)
    rows[:, 3] = 7.0
    _, path, _ = written(tmp_path, rows, edges=4, mu=0.5)
    read_release(forged(path, lambda m, t: None))
    with pytest.raises(ReleaseError):
        read_release(forged(path, CHANGES[name]))


# refusals


@pytest.mark.parametrize(
    "changed, named",
    [
        ({"edges": 0}, "edges"),
        ({"edges": 1.5}, "edges"),
        ({"scale": -1.0}, "scale"),
        ({"center": 1.0}, "center"),
        ({"levels": {"x0": (0, 100)}}, "levels of x0"),
        ({"unit_failure": 0.0}, "unit_failure"),
        ({"neighbors": "row"}, "neighbors"),
        ({"mu": None}, "budget"),
    ],
)
def test_refused_settings(changed, named):
    with pytest.raises(InputError) as refused:
        ScreenedGraphMechanism(**({"mu": 1.0} | changed))
    assert refused.value.argument == named


@pytest.mark.parametrize(
    "settings, argument",
    [
        ({"edges": 4}, "edges"),
        ({"scale": [1.0, 2.0]}, "scale"),
        ({"levels": {"z": (0, 1)}}, "levels"),
        ({"scale": 1.0, "mu": 1e-12}, "mu"),
    ],
)
def test_refused_tables(settings, argument):
    with pytest.raises(InputError) as refused:
        ScreenedGraphMechanism(**({"mu": 1.0} | settings)).publish(
            chain_rows(500, 3, 0), 0
        )
    assert refused.value.argument == argument


def test_too_many_pairs_are_refused_before_anything_is_paid():
    with pytest.raises(InputError, match="select fewer pairs"):
        ScreenedGraphMechanism(edges=3000, scale=1.0, mu=1.0).guarantee(100_000, 5000)


def test_pairs_that_chance_has_selected_are_no_edges():
    """Independent columns and hardly any noise: the ten luckiest of 780 pairs are
    selected. A level that counts ten pairs draws edges in six of ten tables; of twelve
    more than three have any with probability .002 at 5 %, and few with .01 at 60 %."""
    mechanism = ScreenedGraphMechanism(
        edges=10, epsilon=20, delta=1e-9, scale=1.0, center=0.0
    )
    drawn, missed = 0, []
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(size=(2000, 40))
        release = mechanism.publish(rows, seed)
        found = release.intervals()
        drawn += len(release.edges_) > 0
        missed += ((found.low > 0) | (found.high < 0)).tolist()
    assert drawn <= 3 and np.mean(missed) < 0.15
