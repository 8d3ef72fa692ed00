"""The runner of long computations: what it keeps, what it believes, and what it does when things go wrong."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor

from privglasso import correction, runner
from privglasso.runner import ResultsFolder, StaleResults, Study, StudyError, choices, code_version, run_study
from privglasso.settings import SettingsError
from privglasso.validation import InputError

ROOT = Path(__file__).resolve().parent.parent

# each run leaves a line in the file "log", so that a test can count; "hold" makes an experiment slow, "fail" breaks one
TOY = """
import os, time
from pathlib import Path
import numpy as np
from privglasso.runner import Study

HERE = Path(__file__).parent

def jobs(profile):
    return [{"seed": seed, "share": seed / 10} for seed in range(6 if profile == "quick" else 12)]

def run(seed, share):
    with open(HERE / "log", "a") as log:
        log.write(f"{seed}\\n")
    if (HERE / "hold").exists():
        time.sleep(0.15)
    if (HERE / "fail").exists() and seed == 3:
        raise ArithmeticError("three is too many")
    x = np.random.default_rng(seed).normal(size=5)
    return [{"seed": seed, "kind": kind, "value": value, "good": value > 0, "missing": np.nan, "count": np.int64(seed)}
            for kind, value in (("mean", x.mean()), ("max", x.max()))]

STUDY = Study("toy", jobs, run)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    "A study in a file of its own, and the folders for its results."
    (tmp_path / "toy_module.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    sys.modules.pop("toy_module", None)
    importlib.invalidate_caches()
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know this folder
    yield importlib.import_module("toy_module")
    get_reusable_executor().shutdown(wait=True)
    sys.modules.pop("toy_module", None)


@pytest.fixture
def results(tmp_path):
    return ResultsFolder(tmp_path / "results", tmp_path / "cache")


def ran(folder):
    "The seeds of the experiments that were run, and forget them."
    log = Path(folder) / "log"
    seeds = [int(line) for line in log.read_text().split()] if log.exists() else []
    log.unlink(missing_ok=True)
    return sorted(seeds)


def run(study, results, profile="quick", workers=1):
    "What was said, and the table."
    said = []
    table = run_study(study, profile, results, workers, said.append)
    return "\n".join(said), table


# ---------------------------------------------------------------------- rows and files

def test_rows_come_in_the_order_of_the_jobs_whatever_the_workers(toy, results, tmp_path):
    alone = toy.STUDY.table()
    assert alone.seed.tolist() == sorted(alone.seed) and ran(tmp_path) == list(range(6))
    pd.testing.assert_frame_equal(alone, toy.STUDY.table(workers=2))
    _, kept = run(toy.STUDY, results)
    pd.testing.assert_frame_equal(alone, kept)
    assert alone.good.dtype == bool and alone["count"].dtype == np.int64 and alone.missing.isna().all()


def test_the_file_holds_the_table_and_the_manifest_says_what_it_is(toy, results):
    said, table = run(toy.STUDY, results)
    assert "12 rows" in said and "new" in said
    pd.testing.assert_frame_equal(results.read("toy"), table, check_exact=False, rtol=1e-5)
    (record,) = results.manifest().values()
    assert record.pop("seconds") >= 0
    assert record == {"profile": "quick", "module": "toy_module", "version": code_version("toy_module"), "rows": 12}


def test_a_second_run_runs_nothing_and_writes_the_same(toy, results, tmp_path):
    run(toy.STUDY, results)
    first = (results.folder / "toy.csv").read_bytes()
    ran(tmp_path)
    said, _ = run(toy.STUDY, results)
    assert ran(tmp_path) == [] and "6 of 6 experiments were done before" in said and "same as before" in said
    assert (results.folder / "toy.csv").read_bytes() == first


def test_another_profile_runs_only_what_it_adds(toy, results, tmp_path):
    run(toy.STUDY, results)
    ran(tmp_path)
    _, table = run(toy.STUDY, results, "full")
    assert ran(tmp_path) == list(range(6, 12)) and table.seed.nunique() == 12
    assert results.manifest()["toy"]["profile"] == "full"


def test_other_entries_of_the_manifest_stay(toy, results):
    results.write("older", pd.DataFrame({"x": [1]}), {"module": "gone", "version": "0"})
    run(toy.STUDY, results)
    assert list(results.manifest()) == ["older", "toy"]


@pytest.mark.parametrize("damage", [b"", b'{"job": {', b"\x00\x01"])
def test_a_damaged_file_of_the_cache_is_computed_again(toy, results, tmp_path, damage):
    _, table = run(toy.STUDY, results)
    victim = sorted((results.cache / "toy").iterdir())[2]
    victim.write_bytes(damage)
    ran(tmp_path)
    pd.testing.assert_frame_equal(run(toy.STUDY, results)[1], table)
    assert len(ran(tmp_path)) == 1 and json.loads(victim.read_bytes())["rows"]


# ---------------------------------------------------------------------- a kill

RUN_TOY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from privglasso.runner import ResultsFolder, run_study
from toy_module import STUDY
run_study(STUDY, "full", ResultsFolder(Path(sys.argv[1]) / "results", Path(sys.argv[1]) / "cache"), workers=2)
"""


def kept(results):
    "The seeds of the experiments in the cache."
    return {json.loads(path.read_bytes())["job"]["seed"] for path in (results.cache / "toy").glob("[!.]*.json")}


def test_a_killed_run_loses_the_experiments_in_flight_and_no_others(toy, results, tmp_path):
    (tmp_path / "hold").touch()
    process = subprocess.Popen([sys.executable, "-c", RUN_TOY, str(tmp_path)], cwd=ROOT, start_new_session=True,
                               stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (results.cache / "toy").exists() or len(kept(results)) < 4:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the main process and its workers, as a power cut would
        process.wait()
    begun, done = set(ran(tmp_path)), kept(results)
    assert 4 <= len(done) < 12 and done <= begun and len(begun - done) <= 2
    assert not (results.folder / "toy.csv").exists()
    (tmp_path / "hold").unlink()
    _, table = run(toy.STUDY, results, "full")
    assert set(ran(tmp_path)) == set(range(12)) - done
    pd.testing.assert_frame_equal(table, toy.STUDY.table("full"))


# ---------------------------------------------------------------------- failures

def test_a_failed_experiment_is_named_and_loses_no_other(toy, results, tmp_path):
    run(toy.STUDY, results)
    (tmp_path / "toy_module.py").write_text(TOY.replace("size=5", "size=6"))
    importlib.reload(toy)
    before = (results.folder / "toy.csv").read_bytes(), results.manifest()
    (tmp_path / "fail").touch()
    ran(tmp_path)
    complaint = r"1 of 6 experiments failed:\ntoy\(seed=3, share=0.3\): ArithmeticError: three is too many"
    with pytest.raises(StudyError, match=complaint) as caught:
        run(toy.STUDY, results)
    assert "Traceback" in caught.value.__notes__[0]
    assert ((results.folder / "toy.csv").read_bytes(), results.manifest()) == before
    assert ran(tmp_path) == list(range(6)) and kept(results) >= {0, 1, 2, 4, 5}
    (tmp_path / "fail").unlink()
    assert len(run(toy.STUDY, results)[1]) == 12 and ran(tmp_path) == [3]


@pytest.mark.parametrize("rows, complaint", [
    (lambda: [{"x": np.zeros(2)}], "can only convert an array of size 1"),
    (lambda: [{"x": object()}], "not object"),
    (lambda: pd.DataFrame({"x": [1]}), "DataFrame"),
])
def test_rows_are_numbers_and_words(rows, complaint):
    with pytest.raises(StudyError, match=complaint):
        Study("odd", lambda profile: [{}], rows).table()


def test_every_study_is_tried_and_the_failures_are_reported_together(toy, tmp_path, monkeypatch):
    good = Study("good", lambda profile: [{"x": 1}], good_rows)
    studies = {name: Study(name, toy.jobs, toy.run) for name in ("first", "last")}
    monkeypatch.setattr(runner, "_STUDIES", {"first": studies["first"], "good": good, "last": studies["last"]})
    monkeypatch.setattr(runner, "resource", lambda name: tmp_path / name)
    monkeypatch.setattr(runner, "choices", lambda *_: [])
    (tmp_path / "data/results").mkdir(parents=True)
    shutil.copyfile(ROOT / "settings.ini", tmp_path / "settings.ini")
    (tmp_path / "fail").touch()
    said = []
    with pytest.raises(StudyError, match=r"(?s)first\(seed=3.*last\(seed=3"):
        runner.reproduce(workers=1, echo=said.append)
    assert [path.name for path in (tmp_path / "data/results").glob("*.csv")] == ["good.csv"]
    assert sum("Traceback" in line for line in said) == 2
    runner.reproduce("quick", "good", 1, said.append)
    assert (tmp_path / ".studies/quick/good.csv").exists()


def good_rows(x):
    "One row."
    return [{"x": x}]


# ---------------------------------------------------------------------- which code

EDITS = """
import functools, sys
from pathlib import Path
import privglasso
from privglasso.runner import code_version

top = Path(privglasso.__file__).parent.parent
assert top == Path.cwd()

before = functools.cache(code_version)

def differs(file, old, new, module="privglasso.correction"):
    path = top / file
    text, old_version = path.read_text(encoding="utf-8"), before(module)
    assert old in text, (file, old)
    path.write_text(text.replace(old, new), encoding="utf-8")
    new_version = code_version(module)
    path.write_text(text, encoding="utf-8")
    return new_version != old_version

print(*[differs(*edit) for edit in eval(sys.argv[1])])
"""

CHANGES_NOTHING = [
    ("privglasso/correction.py", '"""Subtracting the', '"""To subtract'),
    ("privglasso/correction.py", "# name of a `correction_model`", "# which"),
    ("privglasso/metrics.py", "import numpy as np\n", "import numpy as np\n\n\n# a comment\n"),
    ("privglasso/plots.py", "import numpy as np\n", "import numpy as np\nX = 1\n"),
    ("privglasso/runner.py", "import json\n", "import json\nX = 1\n"),
    ("privglasso/gdp.py", "import numpy as np\n", "import numpy as np\nX = 1\n", "privglasso.synthetic"),
    ("settings.ini", "correction.seeds = 3\n", "correction.seeds = 4\n"),
    ("settings.ini", "score.path_alphas = ", "score.path_alphas = 1", "privglasso.metrics"),
    ("data/registry.json", "398bc137", "398bc138"),
]
CHANGES_ROWS = [
    ("privglasso/correction.py", "level=0.01", "level=0.02"),
    ("privglasso/experiments.py", "import numpy as np\n", "import numpy as np\nX = 1\n"),
    ("privglasso/covariance.py", "import numpy as np\n", "import numpy as np\nX = 1\n"),
    ("privglasso/validation.py", "import numpy as np\n", "import numpy as np\nX = 1\n"),
    ("settings.ini", "score.path_alphas = ", "score.path_alphas = 1"),
    ("data/registry.json", "398bc137", "398bc138", "privglasso.datasets"),
]


def test_the_version_sees_formulas_settings_and_data_and_no_prose(tmp_path):
    for name in ("privglasso", "data"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "results", "*.npz"))
    shutil.copyfile(ROOT / "settings.ini", tmp_path / "settings.ini")
    command = [sys.executable, "-c", EDITS, repr(CHANGES_NOTHING + CHANGES_ROWS)]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False"] * len(CHANGES_NOTHING) + ["True"] * len(CHANGES_ROWS)


def test_code_without_a_file_has_no_version(monkeypatch):
    for module in ("__main__", "no_such_module", "sys"):
        with pytest.raises(InputError, match="module="):
            code_version(module)


def test_an_import_inside_a_function_counts():
    tree = runner.ast.parse("def f():\n    from .gdp import mu_gdp\n    import privglasso.metrics\n    import numpy")
    assert sorted(set(runner._imported(tree))) == ["privglasso.gdp", "privglasso.metrics"]
    assert list(runner._imported(runner.ast.parse("from privglasso import gdp"))) == ["privglasso.gdp"]


def test_results_of_other_code_are_read_with_a_warning_and_made_anew(toy, results, tmp_path):
    run(toy.STUDY, results)
    assert results.is_current("toy")
    (tmp_path / "toy_module.py").write_text(TOY.replace("size=5", "size=6"))
    importlib.reload(toy)
    assert not results.is_current("toy")
    with pytest.warns(StaleResults, match="make reproduce ONLY=toy"):
        results.read("toy")
    ran(tmp_path)
    said, _ = run(toy.STUDY, results)
    assert "another version of the code; made anew" in said and ran(tmp_path) == list(range(6))
    assert results.is_current("toy")


def test_results_whose_module_is_gone_or_unknown_are_not_current(results):
    results.write("orphan", pd.DataFrame({"x": [1]}), {"module": "no_such_module", "version": "0"})
    assert not results.is_current("orphan") and not results.is_current("never made")
    with pytest.raises(InputError, match=r"give one of \['orphan'\]"):
        results.read("never made")


# ---------------------------------------------------------------------- bad input

@pytest.mark.parametrize("name", ["", "a b", "../up", "x.csv", None, 3])
def test_a_name_is_a_file_name(name):
    with pytest.raises(InputError, match="name="):
        Study(name, list, dict)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_workers(toy, workers):
    with pytest.raises(InputError, match="workers="):
        toy.STUDY.table(workers=workers)


def test_an_unknown_study_is_answered_with_those_that_are():
    with pytest.raises(InputError, match="only='tabel2': give one of the studies .*'correction'"):
        runner.reproduce(only="tabel2")


def test_two_studies_of_one_name_are_refused(toy, monkeypatch):
    monkeypatch.setattr(runner, "_STUDIES", {})
    runner.register_study(toy.STUDY)
    runner.register_study(Study("toy", toy.jobs, toy.run))
    with pytest.raises(InputError, match="study='toy'.*test_runner.*toy_module"):
        runner.register_study(Study("toy", toy.jobs, good_rows))


def test_a_setting_that_names_an_unknown_model_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr(correction, "_MODELS", {"moon": None})
    monkeypatch.setattr(runner, "run_study", lambda *_: pytest.fail("something ran"))
    with pytest.raises(SettingsError, match="correction.models.*'chain'.*choose from.*'moon'"):
        runner.reproduce("quick")


def test_a_setting_that_names_an_unknown_module_is_refused(monkeypatch):
    monkeypatch.setattr(runner, "setting", lambda key, kind, profile: ["correction", "horoscope"])
    with pytest.raises(SettingsError, match="reproduce.modules.*'horoscope'"):
        runner.reproduce()
    with pytest.raises(SettingsError, match="profile='slow'"):
        monkeypatch.undo()
        runner.reproduce("slow")


def test_choices_are_those_of_the_profile():
    assert choices("correction.models", ["chain", "random", "tridiagonal"], "quick") == ["chain", "random"]


def test_workers_are_quiet_and_the_environment_is_as_it_was(monkeypatch):
    for before in ("0", None):
        monkeypatch.delenv("TQDM_DISABLE", raising=False)
        if before is not None:
            monkeypatch.setenv("TQDM_DISABLE", before)
        with runner._quiet_workers():
            assert os.environ["TQDM_DISABLE"] == "1"
        assert os.environ.get("TQDM_DISABLE") == before


# ---------------------------------------------------------------------- the project's own results

RESULTS = runner.project_results()


def test_every_results_file_is_in_the_manifest_and_has_its_rows():
    tables = {path.stem: len(pd.read_csv(path)) for path in RESULTS.folder.glob("*.csv")}
    assert tables == {name: record["rows"] for name, record in RESULTS.manifest().items()}


@pytest.mark.parametrize("name", RESULTS.manifest())
def test_the_manifest_says_nothing_of_a_machine(name):
    assert set(RESULTS.manifest()[name]) == {"profile", "module", "version", "rows", "seconds"}


@pytest.mark.parametrize("name", [name for name, record in RESULTS.manifest().items() if record["profile"] == "full"])
def test_results_of_other_code_are_told_from_those_of_this(name):
    """A warning, not a failure: an edit of the solver must not ask for hours of computing before it can be tested.

    What keeps the book true meanwhile is that every chapter reruns its quick profile and asserts the same finding.
    """
    if not RESULTS.is_current(name):
        warnings.warn(f"data/results/{name}.csv is of another version: make reproduce ONLY={name}", stacklevel=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RESULTS.read(name)
    assert any(issubclass(warning.category, StaleResults) for warning in caught) != RESULTS.is_current(name)
