"""README.md is nbs/index.ipynb with its outputs.

`python docs/readme.py` writes it, with the figures in docs/images/; with `--check` it
writes nothing and exits with 1 if README.md is out of date.
"""

import argparse
import base64
import os
import sys
from pathlib import Path

import nbformat
from process import figure_title, is_progress_bar, is_shown, relink, split_directives

ROOT = Path(__file__).resolve().parent.parent
IMAGES = "docs/images"


def from_root(link):
    "A link as seen from nbs/, rewritten as seen from the top of the repository."
    return Path(os.path.normpath(Path("nbs") / link)).as_posix()


def fenced(text, language=""):
    "A fenced block."
    return f"```{language}\n{text.rstrip()}\n```"


def figure(data, code, directives, files):
    """Keep an image in `files` under its name there, and return the Markdown that shows
    it."""
    kind = "svg" if "image/svg+xml" in data else "png"
    name = f"{IMAGES}/index_{len(files) + 1}.{kind}"
    content = (
        data["image/svg+xml"].encode()
        if kind == "svg"
        else base64.b64decode(data["image/png"])
    )
    files[name] = content
    return f"![{directives.get('fig-alt') or figure_title(code)}]({name})"


def show_output(output, code, directives, files):
    "One output of a cell as Markdown."
    if output.output_type == "stream":
        return fenced(output.text)
    data = output.get("data", {})
    if "image/svg+xml" in data or "image/png" in data:
        return figure(data, code, directives, files)
    return (
        data["text/markdown"] if "text/markdown" in data else fenced(data["text/plain"])
    )


def show_cell(cell, files):
    "One cell of the index as Markdown, or several blocks of it."
    if cell.cell_type != "code":
        return [relink(cell.source, from_root)]
    directives, code = split_directives(cell.source)
    blocks = [] if directives.get("echo") == "false" else [fenced(code, "python")]
    if directives.get("output") != "false":
        outputs = [out for out in cell.outputs if not is_progress_bar(out)]
        blocks += [show_output(out, code, directives, files) for out in outputs]
    return blocks


def render(notebook):
    "{path from the top of the repository: content} of README.md and its figures."
    files = {}
    blocks = [
        block
        for cell in filter(is_shown, notebook.cells)
        for block in show_cell(cell, files)
    ]
    return {**files, "README.md": ("\n\n".join(blocks) + "\n").encode()}


def stale(files, root):
    """The files that differ from `files`, or that no figure of the index is kept in any
    more."""

    def content(path):
        return path.read_bytes() if path.exists() else None

    kept = {
        path.relative_to(root).as_posix() for path in (root / IMAGES).glob("index_*")
    }
    return sorted(
        {name for name, new in files.items() if content(root / name) != new}
        | kept - files.keys()
    )


def write(files, root):
    "Write `files`, and remove figures that are no longer among them."
    for name in stale(files, root):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name]) if name in files else path.unlink()


def main():
    "Write or check; return the exit code."
    parser = argparse.ArgumentParser(description="Make README.md from nbs/index.ipynb.")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if README.md is out of date",
    )
    files = render(nbformat.read(ROOT / "nbs/index.ipynb", as_version=4))
    if not parser.parse_args().check:
        write(files, ROOT)
        return 0
    if old := stale(files, ROOT):
        print(
            f"out of date with nbs/index.ipynb: {', '.join(old)}; run python"
            " docs/readme.py",
            file=sys.stderr,
        )
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main())
