"""Small pictures: still XML, still the same words, marks and names."""

import re
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


def repeated(ax):
    for k in range(3):
        ax.plot(CURVE[k::3], CURVE[k::3], "o", color="red")
    ax.axhline(2), ax.axhline(3), ax.axhline(4, alpha=0.5), ax.axhline(5, alpha=0.5)


def several_colours(ax):
    "Words that differ, marks without a filling, a shape that does not name its own."
    ax.text(1, 1, "red", color="red"), ax.text(1, 2, r"$a_{b^c}$", color="blue")
    ax.plot(CURVE, CURVE**2, "s", markerfacecolor="none")
    ax.set_title("left", loc="left", fontsize=20)
    ax.axvspan(2, 3, color="black")  # of which matplotlib says nothing


def wordless(ax):
    ax.fill(CURVE, np.sin(CURVE))
    ax.set_axis_off()


WORDS = ("font-family", "font-size", "text-anchor")


def hundredths(number):
    return round(100 * float(f"{float(number):.2f}"))


def strokes(path):
    "Each stroke of a path as letters and absolute places in hundredths."
    at, found = (0, 0), []
    sizes = {"L": 2, "C": 6, "Q": 4, "M": 2, "H": 1, "V": 1, "Z": 0}
    for letter, text in re.findall(r"([a-zA-Z])([^a-zA-Z]*)", path):
        numbers = [hundredths(x) for x in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", text)]
        kind = letter.upper()
        for k in range(0, max(len(numbers), 1), max(sizes[kind], 1)):
            block = numbers[k : k + sizes[kind]]
            if kind in "HV":
                other = 0 if letter.islower() else at[kind == "H"]
                block = [*block, other] if kind == "H" else [other, *block]
            if letter.islower():
                block = [x + at[n % 2] for n, x in enumerate(block)]
            if kind == "Z":
                at = found[-1][0][1:]
            else:
                at = tuple(block[-2:])
            if kind == "M":
                found.append([])
            found[-1].append(("L" if kind in "HV" else kind, *block))
    return [tuple(stroke) for stroke in found]


def looks(svg):
    """What is seen, in any order: strokes, marks and letters, each with its place and
    all that it inherits."""
    tree = ElementTree.fromstring(svg[svg.index("<svg") :])
    found = []

    def visit(element, style, around):
        tag = element.tag.rpartition("}")[2]
        own = re.sub(r"([:;,]) ", r"\1", element.get("style", "")).split(";")
        style = style | dict(x.split(":", 1) for x in own if x)
        turned = re.sub(r"rotate\(-0 .*?\)", "", element.get("transform", ""))
        around = [*around, element.get("clip-path", ""), turned]
        empty = style.get("fill-opacity") == "0" or tag == "image"
        unseen = (*WORDS, "fill") if empty else WORDS
        shape = {key: value for key, value in style.items() if key not in unseen}
        where = *sorted(shape.items()), *filter(None, around)
        if tag in ("defs", "clipPath"):  # seen by those who refer to it
            style = {}
        if tag == "path":
            name = element.get("id", "")
            found.extend((name, part, where) for part in strokes(element.get("d", "")))
        if tag in ("use", "image", "rect"):
            place = [hundredths(element.get(key, 0)) for key in "xy"]
            name = next((v for k, v in element.items() if k.endswith("href")), "")
            found.append((name[:20], *place, where))
        if tag in ("text", "tspan"):
            place = [hundredths(element.get(key, 0)) for key in "xy"]
            inked = {key: style.get(key) for key in (*WORDS, "fill", "opacity")}
            words = "".join((element.text or "").split())
            if words:
                found.append((words, *place, inked, *filter(None, around)))
        for child in element:
            visit(child, style, around)

    visit(tree, {}, [])
    return sorted(map(repr, found))


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


DRAWINGS = [logarithmic, coloured_marks, bars, network, heat]
DRAWINGS += [repeated, several_colours, wordless]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_small_picture_is_the_same_picture(draw):
    use_theme()
    figure, ax = plt.subplots()
    draw(ax)
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    small = compact_svg(file.getvalue())
    assert marks(small) == marks(file.getvalue())
    assert looks(small) == looks(file.getvalue())
    assert compact_svg(small) == small and "\n" not in small
    assert len(small) < 0.75 * len(file.getvalue())
    if draw in (bars, network):  # all words are of one letter
        assert small.count("font-family") == 1
