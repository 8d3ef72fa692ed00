"""Small pictures: still XML, still the same words, marks and names."""

from io import StringIO
from xml.etree import ElementTree

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt

from privglasso.base.plots import plot_graph, plot_precision, use_theme
from privglasso.base.svg import compact_svg

CURVE = np.linspace(1, 9, 120)


def logarithmic(ax):
    ax.loglog(CURVE, CURVE**2, label=r"$x^2$")
    ax.set_title(r"powers $10^{-3}$ and $\sqrt{\epsilon}$")
    ax.legend()


def coloured_marks(ax):
    ax.scatter(CURVE, CURVE, c=CURVE, s=CURVE, alpha=0.5)
    ax.errorbar(CURVE[::20], CURVE[::20], CURVE[::20], fmt="s")
    ax.fill_between(CURVE, CURVE, alpha=0.2)


def bars(ax):
    ax.bar(range(5), range(5), hatch="/")
    ax.annotate("<a & b>", (1, 1), (2, 3), arrowprops={"arrowstyle": "->"})


def network(ax):
    plot_graph(np.ones((5, 5)), np.eye(5), ax, "abcde", title="five")


def heat(ax):
    plot_precision(np.ones((4, 4)), ax, "abcd", title="four")


def marks(svg):
    "Words, the number of marks, and every name that is referred to."
    tree = ElementTree.fromstring(svg[svg.index("<svg") :])
    tags = [(element.tag.rpartition("}")[2], element) for element in tree.iter()]
    words = ["".join(element.itertext()) for tag, element in tags if tag == "text"]
    href = "{http://www.w3.org/1999/xlink}href"
    used = [e.get(href) for tag, e in tags if tag == "use"]
    ids = {element.get("id") for _, element in tags}
    assert {name[1:] for name in used} <= ids
    for _, element in tags:
        frame = element.get("clip-path", "url(#)")[5:-1]
        assert not frame or frame in ids
    return sorted("".join(word.split()) for word in words), used


@pytest.mark.parametrize("draw", [logarithmic, coloured_marks, bars, network, heat])
def test_a_small_picture_is_the_same_picture(draw):
    use_theme()
    figure, ax = plt.subplots()
    draw(ax)
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    small = compact_svg(file.getvalue())
    assert marks(small) == marks(file.getvalue())
    assert compact_svg(small) == small and "\n" not in small
    assert len(small) < 0.75 * len(file.getvalue())
