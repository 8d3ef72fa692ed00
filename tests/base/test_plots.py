"""Pictures: deterministic, small, and honest about what they compare."""

import subprocess
import sys
from io import StringIO
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from scipy.stats import norm

from privglasso.base import plots
from privglasso.base.validation import InputError


@pytest.fixture(autouse=True)
def closed_figures():
    plots.use_theme()
    yield
    plt.close("all")


def svg(ax):
    text = StringIO()
    ax.figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


@st.composite
def adjacencies(draw):
    p = draw(st.integers(1, 9))
    upper = draw(st.lists(st.booleans(), min_size=p * p, max_size=p * p))
    edges = np.triu(np.reshape(upper, (p, p)), 1)
    return edges | edges.T


@settings(max_examples=30, deadline=None)
@given(adjacencies())
def test_layout_is_deterministic_finite_and_keeps_nodes_apart(edges):
    pos = plots.graph_layout(edges)
    assert (
        pos.shape == (len(edges), 2)
        and np.isfinite(pos).all()
        and np.abs(pos).max() <= 1 + 1e-12
    )
    np.testing.assert_array_equal(pos, plots.graph_layout(edges))
    gaps = np.linalg.norm(pos[:, None] - pos, axis=2)[np.triu_indices(len(pos), 1)]
    assert gaps.min(initial=1) > 0.05


@settings(max_examples=25, deadline=None)
@given(adjacencies(), st.integers(0, 2**32 - 1))
def test_legend_counts_add_up(edges, seed):
    flips = np.triu(np.random.default_rng(seed).random(edges.shape) < 0.3, 1)
    true = edges ^ (flips | flips.T)
    ax = plots.plot_graph(edges, truth=true)
    found, missed, extra = (
        int(t.get_text().split()[-1]) for t in ax.get_legend().get_texts()
    )
    assert 2 * (found + extra) == edges.sum() and 2 * (found + missed) == true.sum()
    drawn = [len(c.get_paths()[0].vertices) for c in ax.collections[:3]]
    assert drawn == [2 * found, 2 * missed, 2 * extra]
    plt.close(ax.figure)


def test_diagonal_and_weights_are_no_edges_of_their_own():
    theta = np.array([[2.0, -0.3, 0], [-0.3, 2, 0], [0, 0, 2]])
    assert len(plots.plot_graph(theta).collections[0].get_paths()[0].vertices) == 2


def test_every_node_has_its_colour():
    pos, colors = plots.graph_layout(np.eye(4)), ["#111111", "#222222"] * 2
    ax = plots.plot_graph(np.eye(4), pos=pos, node_colors=colors)
    for marks, color, first in zip(ax.collections[1:], colors, (0, 1), strict=False):
        assert to_hex(marks.get_edgecolor()[0]) == color
        dots = marks.get_paths()[0].vertices[::2]
        np.testing.assert_allclose(dots, pos[first::2], atol=0.01)
    plt.close(ax.figure)


def test_edge_kinds_differ_in_colour_and_in_line_style():
    kinds = ("found", "missed", "extra")
    assert (
        len({plots.COLORS[k] for k in kinds})
        == len({str(plots.EDGE_STYLES[k]) for k in kinds})
        == 3
    )


def test_zero_is_white_and_signs_are_symmetric():
    theta = np.array([[5.0, -0.4, 0], [-0.4, 5, 0.2], [0, 0.2, 5]])
    image = plots.plot_precision(theta).images[0]
    assert to_hex(image.cmap(image.norm(0.0))) == "#ffffff"
    assert (image.norm.vmin, image.norm.vmax) == (-0.4, 0.4)
    muted = np.ma.getmaskarray(np.ma.masked_invalid(image.get_array()))
    np.testing.assert_array_equal(muted, np.eye(3, dtype=bool))


@pytest.mark.parametrize(
    "matrix", [np.eye(1), np.zeros((1, 1)), np.eye(4), np.zeros((3, 3))]
)
def test_nothing_off_the_diagonal_still_draws(matrix):
    assert svg(plots.plot_precision(matrix)).startswith("<?xml")
    assert svg(plots.plot_graph(matrix)).startswith("<?xml")


def test_shared_limit():
    images = [
        plots.plot_precision(k * np.ones((3, 3)), limit=2).images[0] for k in (1, 2)
    ]
    assert {image.norm.vmax for image in images} == {2}


def test_heat_map_of_fifty_variables_is_small():
    S = np.random.default_rng(0).normal(size=(50, 50))
    assert len(svg(plots.plot_precision(S + S.T))) < 60_000


@given(st.floats(0, 8))
@settings(max_examples=30, deadline=None)
def test_gaussian_tradeoff_points(mu):
    type_one, type_two = plots._tradeoff_points(mu)
    np.testing.assert_allclose(type_two, norm.cdf(norm.isf(type_one) - mu), atol=1e-9)


def test_known_names_keep_their_colour_and_others_take_none_of_them():
    ax = plots.plot_roc({"μ = 1": ([0, 1], [0, 1]), "naive": ([0, 1], [0, 1], [9, 8])})
    stranger, naive = ax.lines[1:]
    assert naive.get_color() == plots.COLORS["naive"]
    assert stranger.get_color() not in plots.COLORS.values()


def test_axes_given_are_axes_returned():
    figure, axes = plt.subplots(2, 2)
    assert plots.plot_precision(np.eye(2), ax=axes[0, 0]) is axes[0, 0]
    assert plots.plot_graph(np.eye(2), ax=axes[0, 1]) is axes[0, 1]
    assert plots.plot_roc({}, ax=axes[1, 0]) is axes[1, 0]
    assert plots.plot_tradeoff({"1": 1}, ax=axes[1, 1]) is axes[1, 1]
    assert len(plt.get_fignums()) == 1


PATH = nx.path_graph(["a", "b", "c"])
BAD_PLACES = [np.ones((2, 2)), [[0, 0, 0]] * 3, [[0, np.nan]] * 3, [[0, 1], [2]]]
BAD_PLACES += [{"a": (0, 0)}, "abc", 3]


def test_places_of_nodes_are_found_by_their_names():
    places = {"c": (5.0, 0.0), "b": (0.0, 5.0), "a": (0.0, 0.0)}
    listed = [places[name] for name in PATH]
    one, other = (svg(plots.plot_graph(PATH, pos=pos)) for pos in (places, listed))
    assert one == other


@pytest.mark.parametrize(
    "argument, call",
    [
        ("matrix", lambda: plots.plot_precision([[np.nan]])),
        ("labels", lambda: plots.plot_precision(np.eye(2), labels=["a"])),
        ("adjacency", lambda: plots.plot_graph(np.ones((2, 3)))),
        ("truth", lambda: plots.plot_graph(np.eye(3), truth=np.eye(2))),
        ("labels", lambda: plots.plot_graph(np.eye(3), labels="abcd")),
        ("node_colors", lambda: plots.plot_graph(np.eye(3), node_colors=["red"])),
        ("adjacency", lambda: plots.graph_layout(np.triu(np.ones((3, 3))))),
        *(("curves", lambda x=x: plots.plot_roc(x)) for x in (None, "a", np.eye(2))),
        *(("curves", lambda x=x: plots.plot_tradeoff(x)) for x in ([1.0], 3)),
        *(
            ("pos", lambda pos=pos, s=s: plots.plot_graph(PATH, pos=pos, signed=s))
            for pos in BAD_PLACES
            for s in (True, False)
        ),
    ],
)
def test_bad_input_is_named(argument, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument


@pytest.mark.long
def test_same_bytes_in_another_process():
    code = (
        "import matplotlib; matplotlib.use('Agg'); import sys, numpy as np\n"
        "from privglasso.base import plots; plots.use_theme()\n"
        "A = np.diag(np.ones(7), 1)\n"
        "figure = plots.plot_graph(A + A.T, labels='abcdefgh').figure\n"
        "figure.savefig(sys.stdout, format='svg', metadata={'Date': None})"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    A = np.diag(np.ones(7), 1)
    assert svg(plots.plot_graph(A + A.T, labels="abcdefgh")) == other


def test_graphs_in_other_forms_show_signs_and_strengths():
    graph = nx.Graph()
    graph.add_nodes_from(["lonely_column", "a", "b", "c"])
    graph.add_weighted_edges_from([("a", "b", 0.4), ("b", "c", -0.2)])
    ax = plots.plot_graph(graph, title="signs")
    lines = [line for line in ax.collections if line.get_zorder() == 1]
    found = {to_hex(c.get_edgecolors()[0]): c.get_linewidths()[0] for c in lines}
    assert found == pytest.approx({"#a83a00": 5.0, "#0b4f8a": 2.8})
    texts = [text.get_text() for text in ax.texts]
    assert texts[:3] == ["a", "b", "c"] and "lonely_column" in texts[3]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["positive, up to 0.4", "negative, up to 0.2"]
    assert len(plots.plot_graph(np.zeros((2, 2)), signed=True).texts) == 1  # all aside
    matched = plots.plot_graph(graph, truth=nx.relabel_nodes(graph, {}), labels="wxyz")
    legend = [text.get_text() for text in matched.get_legend().get_texts()]
    assert legend == ["found 2", "missed 0", "extra 0"]
    with pytest.raises(InputError):
        plots.plot_graph("a graph")


def test_a_fitted_model_is_drawn_with_its_names():
    model = SimpleNamespace(
        precision_=np.array([[2.0, -1.0], [-1.0, 2.0]]), feature_names_in_=["a", "b"]
    )
    by_name = lambda ax: [text.get_text() for text in ax.get_xticklabels()]
    assert by_name(plots.plot_precision(model)) == ["a", "b"]
    assert by_name(plots.plot_precision(model, labels="xy")) == ["x", "y"]
    drawn = plots.plot_precision(model).images[0].get_array()
    assert drawn[0, 1] == -1.0 == drawn[1, 0]
