"""Run chapters and save what they print, each in a process of its own.

`python docs/run.py` runs them all, `python docs/run.py nbs/0_start` some. Within one
process, as `nbdev-test` runs them, an option that one chapter sets, such as the width
of tables, would change what the next one prints.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from nbdev.config import get_config
from nbdev.test import test_nb
from tqdm.auto import tqdm

ROOT = Path(__file__).resolve().parent.parent
# loaded once, before the processes part
SHARED = ["nbdev.test", "matplotlib.pyplot", "pandas", "scipy.stats", "privglasso"]


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


def run_chapter(path):
    "Run one chapter and save it; end this process with 1 if it fails."
    config = get_config(path)
    skipped = config.tst_flags
    if isinstance(skipped, str):
        skipped = skipped.split()
    passed, _ = test_nb(
        path, skip_flags=skipped, basepath=config.config_path, save=True
    )
    sys.exit(not passed)


def run(chapters, workers=1):
    "Run chapters and save them; whether all of them passed."
    os.environ["TQDM_DISABLE"] = "1"  # no bar in an output
    context = get_context("forkserver")
    context.set_forkserver_preload(SHARED)

    def apart(path):
        start = time.perf_counter()
        process = context.Process(target=run_chapter, args=(path,))
        process.start()
        process.join()
        return path, process.exitcode == 0, time.perf_counter() - start

    with ThreadPoolExecutor(workers) as pool:
        runs = pool.map(apart, chapters)
        done = list(tqdm(runs, "chapters", total=len(chapters), disable=None))
    for path, _, seconds in sorted(done, key=lambda each: -each[2]):
        if seconds >= 5:
            print(f"{path.name}: {seconds:.0f} secs")
    failed = [path for path, passed, _ in done if not passed]
    if failed:
        print("failed:", *failed, sep="\n  ")
    return not failed


def main(arguments=None):
    "Run and save; the exit code."
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chapters", nargs="*", type=Path, default=[ROOT / "nbs"])
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args(arguments)
    return int(not run(chapters_of(asked.chapters), asked.workers))


if __name__ == "__main__":
    sys.exit(main())
