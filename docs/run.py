"""Run chapters and save what they print.

`python docs/run.py` runs them all, `python docs/run.py nbs/0_start` some. As with
`nbdev-test`, a process runs many of them. But an option that one chapter sets, such as
the width of tables, ends with it: which chapter comes next depends on the machine.
"""

import argparse
import faulthandler
import gc
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot as plt
from nbdev.config import get_config
from nbdev.test import test_nb
from tqdm.auto import tqdm

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 900  # seconds for one chapter; the longest takes less than a minute


def chapters_of(paths, root=ROOT):
    "The notebooks in folders and files, in their order; hidden ones are left out."
    found = (
        path
        for each in map(Path.resolve, map(Path, paths))
        for path in (each.rglob("*.ipynb") if each.is_dir() else [each])
    )
    hidden = lambda path: any(
        part.startswith((".", "_")) for part in path.relative_to(root).parts
    )
    return sorted(path for path in found if not hidden(path))


@contextmanager
def own_options():
    "What is set inside for tables, figures and warnings ends at the end."
    with plt.rc_context(), warnings.catch_warnings():
        try:
            yield
        finally:
            pd.reset_option("^display")


def run_chapter(path, patience, left_out=()):
    """Run one chapter but for cells with a directive that is left out, and save it; its
    path, whether it passed, and its seconds. After `patience` seconds without an end
    the process says where it is, and dies."""
    config = get_config(path)
    skipped = config.tst_flags
    if isinstance(skipped, str):
        skipped = skipped.split()
    start = time.perf_counter()
    gc.set_threshold(100_000)  # nearly all that is loaded stays
    faulthandler.dump_traceback_later(patience, exit=True)
    with own_options():
        passed, _ = test_nb(
            path,
            skip_flags=[*skipped, *left_out],
            basepath=config.config_path,
            save=True,
        )
    faulthandler.cancel_dump_traceback_later()
    if InteractiveShell.initialized():  # it stays, its tables need not
        InteractiveShell.instance().user_ns.clear()
    return path, passed, time.perf_counter() - start


def run(chapters, workers=1, patience=PATIENCE, left_out=()):
    "Run chapters and save them; whether all of them passed."
    os.environ["TQDM_DISABLE"] = "1"  # no bar in an output
    # the story compiles the solver, and privacy needs none: nobody compiles it as well
    last = lambda path: (path.name != "01_story.ipynb", path.parent.name != "1_privacy")
    chapters = sorted(chapters, key=last)
    one = partial(run_chapter, patience=patience, left_out=left_out)
    done, ended = [], True
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        runs = pool.map(one, chapters)
        try:
            done.extend(tqdm(runs, "chapters", total=len(chapters), disable=None))
        except BrokenProcessPool:
            ended = False
    for path, _, seconds in sorted(done, key=lambda each: -each[2]):
        if seconds >= 5:
            print(f"{path.name}: {seconds:.0f} secs")
    failed = [path for path, passed, _ in done if not passed]
    if failed:
        print("failed:", *failed, sep="\n  ")
    if not ended:  # of those that were begun, one has no answer
        begun = chapters[len(done) : len(done) + workers]
        print(f"no end in {patience} seconds, or killed, one of:", *begun, sep="\n  ")
    return ended and not failed


def main(arguments=None):
    "Run and save; the exit code."
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", type=Path, default=[ROOT / "nbs"])
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args(arguments)
    return int(not run(chapters_of(asked.chapters), asked.workers))


if __name__ == "__main__":
    import run as itself  # a chapter takes the place of the main module

    sys.exit(itself.main())
