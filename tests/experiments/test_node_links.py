"""Networks side by side: what their titles count, and whose data they need."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt

from privglasso.base.plots import graph_layout
from privglasso.base.validation import InputError
from privglasso.data_sets.dataset import DataError
from privglasso.experiments import node_links
from privglasso.experiments.node_links import (
    draw_networks,
    recovered_graphs,
    share_changed,
)

RING = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
OTHER = np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 1], [1, 0, 1, 0]])
GRAPHS = {"first": RING, "second": OTHER}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("colors", [None, ["#111111", "#222222"] * 2])
def test_titles_count_and_lines_are_drawn(thin, colors):
    look = {"thin": thin, "colors": colors, "labels": "abcd"}
    figure = draw_networks(GRAPHS, graph_layout(RING), "two", **look)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0] == "first\nfound 4, missed 0, extra 0"
    assert titles[1] == "second\nfound 3, missed 1, extra 1"
    drawn = [len(marks.get_paths()[0].vertices) for marks in figure.axes[1].collections]
    assert drawn[:3] == [6, 2, 2] and sum(drawn[3:]) == 8
    assert [len(ax.texts) for ax in figure.axes] == [4, 0]


def test_shares_of_changed_edges():
    assert share_changed(GRAPHS) == {"first": 0.0, "second": 0.5}


def test_graphs_of_unlike_size_are_refused():
    with pytest.raises(InputError, match="truth"):
        draw_networks(
            {"first": RING, "small": np.eye(3)}, graph_layout(RING), "unlike"
        )


def test_levels_are_named_and_lost_data_told(monkeypatch):
    found = {None: RING + 4 * np.eye(4), 20.0: OTHER + 4 * np.eye(4)}

    def recover(name, level, seed):
        return found[level]

    monkeypatch.setattr(node_links, "recovered_precision", recover)
    graphs = recovered_graphs("any", (None, 20.0), seed=1)
    assert list(graphs) == ["no noise", "20 dB"]
    assert np.array_equal(graphs["20 dB"], OTHER.astype(bool))

    def lost(*_):
        raise DataError("not here")

    monkeypatch.setattr(node_links, "recovered_precision", lost)
    with pytest.raises(DataError):
        recovered_graphs("any", (None,), seed=1)
