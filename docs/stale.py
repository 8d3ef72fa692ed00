"""Do the outputs that stand in the chapters still come out?

`python docs/stale.py` runs the chapters in a copy of nbs/, each once, and then holds
every saved output against the new one. It exits with 1 if a chapter fails or an output
is stale. It may be told which chapters, and how many workers. Cells that begin with
`#| long` take long and nothing below needs them: they are run with `--long`, which
without names takes the chapters that have some.

Compared are texts, tables and the words in figures. Numbers are compared as numbers: a
whole number is the same or not, another may differ in its sixth digit, and below 1e-12
all is rounding. Not compared are

- cells that begin with `#| varies: …`, which says why: seconds, dates, fresh noise;
- cells that are not run, such as `#| slow`;
- lines, marks and images of a figure. Where they stand follows the fonts of a machine;
  what a figure shows should stand in a word of it or in a check beside it;
- chapters of which the new run says that something is not here, such as recorded data.
"""

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
from html import unescape
from pathlib import Path

from process import SVG_TEXT, split_directives
from run import chapters_of, run

ROOT = Path(__file__).resolve().parent.parent
# digits within a name, a date's or a version's are words
NUMBER = re.compile(
    r"((?<![\w.])[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w]))"
)
TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]+>", re.DOTALL)
ABSENT = re.compile(
    r"^(?:skipped|left out): .*|.*\b(?:is|are) not here\b.*", re.MULTILINE
)
# where an object lies in memory: `nbdev-clean` takes it out of what is saved
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
READABLE = ("text/html", "text/markdown", "text/latex", "text/plain")


def same_number(one, other):
    "Whether two written numbers say the same, but for the rounding of a machine."
    if not set(".eE") & set(one + other):
        return int(one) == int(other)
    return math.isclose(float(one), float(other), rel_tol=1e-5, abs_tol=1e-12)


def first_difference(saved, fresh):
    "What two texts have at the first place where they differ, or None."
    one, other = (NUMBER.split(" ".join(text.split())) for text in (saved, fresh))
    for k, (a, b) in enumerate(zip(one, other, strict=False)):
        alike = same_number(a, b) if k % 2 else a.split() == b.split()
        if not alike:
            return tuple("".join(x[max(k - 1, 0) : k + 3])[-80:] for x in (one, other))
    longer = max(one, other, key=len)
    if len(one) != len(other):
        k = min(len(one), len(other))
        told = "".join(longer[k - 1 :])[:80]
        return (told, "") if longer is one else ("", told)
    return None


def words(output):
    "What is compared of an output."
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return output.ename
    data = output.data
    if "image/svg+xml" in data:
        svg = data["image/svg+xml"]
        return " ".join(unescape(text) for _, text in SVG_TEXT.findall(svg))
    kind = next((kind for kind in READABLE if kind in data), None)
    text = ADDRESS.sub("", data[kind]) if kind else ", ".join(data)
    return unescape(TAG.sub(" ", text)) if kind == "text/html" else text


def told(cell):
    "All that is compared of a cell."
    return "\n".join(map(words, cell.get("outputs", ())))


def absent(saved, fresh):
    "What the new run says is not here and the saved one had, or None."
    for old, new in zip(saved.cells, fresh.cells, strict=True):
        for match in ABSENT.findall(told(new)):
            if match not in told(old):
                return match
    return None


def stale(saved, fresh):
    """(cell's id, what is saved, what came out) of a chapter's outputs that differ; the
    cells of both are the same."""
    for old, new in zip(saved.cells, fresh.cells, strict=True):
        if old.cell_type != "code" or "varies" in split_directives(old.source)[0]:
            continue
        if difference := first_difference(told(old), told(new)):
            yield old.id, *difference


def has_long(path):
    "Whether a chapter has cells that take long."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return any("long" in split_directives("".join(x["source"]))[0] for x in cells)


def rerun(chapters, folder, workers, left_out):
    "Run copies of chapters in `folder`; whether all of them passed."
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    copies = [folder / path.relative_to(ROOT) for path in chapters]
    for path, copy in zip(chapters, copies, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return run(copies, workers, left_out=left_out)


def compare(chapters, folder):
    "Say which saved outputs are stale; their number."
    import nbformat  # slow to load, and nothing to the workers

    count = 0
    for path in chapters:
        name = path.relative_to(ROOT)
        saved, fresh = (nbformat.read(x, 4) for x in (path, folder / name))
        if reason := absent(saved, fresh):
            print(f"{name}: not compared: {reason}")
            continue
        for cell, old, new in stale(saved, fresh):
            count += 1
            print(f"{name}, cell {cell}:\n  saved … {old}\n  now   … {new}")
    return count


def main(arguments=None):
    "Run and compare; the exit code."
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", type=Path, help="all if absent")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="cells that take long, too")
    asked = parser.parse_args(arguments)
    chapters = chapters_of(asked.chapters or [ROOT / "nbs"], ROOT)
    left_out = () if asked.long else ("long",)
    if asked.long and not asked.chapters:
        chapters = list(filter(has_long, chapters))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        passed = rerun(chapters, folder, asked.workers, left_out)
        count = compare(chapters, folder)
    if count:
        print(
            f"{count} stale outputs: look at them, and at the sentences beside them;"
            " then make refresh"
        )
    return int(bool(count) or not passed)


if __name__ == "__main__":
    sys.exit(main())
