"""Studies: what is kept, what is computed anew, and what happens when things fail."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor

from privglasso.base.settings import SettingsError
from privglasso.base.validation import InputError
from privglasso.experiments import studies, study
from privglasso.experiments.study import ResultsFolder, Study, StudyError, run_study

# every run leaves a line in the file "log"; "hold" slows experiments, "fail" breaks one
TOY = """
import os, time
from pathlib import Path
import numpy as np
from privglasso.experiments.study import Study

HERE = Path(__file__).parent

def jobs(profile):
    return [{"seed": seed} for seed in range(6 if profile == "quick" else 12)]

def run(seed):
    with open(HERE / "log", "a") as log:
        log.write(f"{seed}\\n")
    if (HERE / "hold").exists():
        time.sleep(0.15)
    if (HERE / "fail").exists() and seed == 3:
        raise ArithmeticError("three is too many")
    mean = np.random.default_rng(seed).normal(size=5).mean()
    quiet = os.environ.get("TQDM_DISABLE", "")
    return [{"seed": np.int64(seed), "mean": mean, "up": mean > 0, "quiet": quiet}]

STUDY = Study("toy", jobs, run)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    "A study in a file of its own; workers of an earlier test do not know its folder."
    (tmp_path / "toy_module.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    get_reusable_executor().shutdown(wait=True)
    yield importlib.import_module("toy_module").STUDY
    get_reusable_executor().shutdown(wait=True)
    sys.modules.pop("toy_module", None)


@pytest.fixture
def results(tmp_path):
    return ResultsFolder(tmp_path / "results", tmp_path / "cache")


def ran(folder):
    "The seeds of the experiments that were run, and forget them."
    log = folder / "log"
    seeds = [int(line) for line in log.read_text().split()] if log.exists() else []
    log.unlink(missing_ok=True)
    return sorted(seeds)


def run(study, results, profile="quick"):
    return run_study(study, profile, results, workers=1, echo=lambda line: None)


def kept(results):
    "The seeds of the experiments in the cache."
    files = (results.cache / "toy.v1").glob("[!.]*.json")
    return {json.loads(path.read_bytes())["job"]["seed"] for path in files}


@pytest.mark.long
def test_rows_come_in_the_order_of_the_jobs_whatever_the_workers(toy, results):
    alone = toy.table()
    assert alone.seed.tolist() == [0, 1, 2, 3, 4, 5] and alone.up.dtype == bool
    pd.testing.assert_frame_equal(alone, toy.table(workers=2))
    pd.testing.assert_frame_equal(alone, run(toy, results))
    pd.testing.assert_frame_equal(
        alone.drop(columns="quiet"),
        results.read("toy").drop(columns="quiet"),
        rtol=1e-5,
    )


@pytest.mark.long
def test_workers_draw_no_bars_and_the_users_wish_stays(toy, monkeypatch):
    for wish in (None, "0"):
        monkeypatch.delenv("TQDM_DISABLE", raising=False)
        if wish is not None:
            monkeypatch.setenv("TQDM_DISABLE", wish)
        get_reusable_executor().shutdown(wait=True)
        assert set(toy.table(workers=2).quiet) == {"1"}
        assert os.environ.get("TQDM_DISABLE") == wish


def test_a_second_run_runs_nothing_and_another_profile_what_it_adds(
    toy, results, tmp_path
):
    results.write("older", pd.DataFrame({"x": [1]}), {"version": 7})
    run(toy, results)
    first = (results.folder / "toy.csv").read_bytes()
    ran(tmp_path)
    run(toy, results)
    assert ran(tmp_path) == [] and (results.folder / "toy.csv").read_bytes() == first
    assert len(run(toy, results, "full")) == 12 and ran(tmp_path) == list(range(6, 12))
    record = results.manifest()["toy"]
    assert record.pop("seconds") >= 0
    assert record == {"profile": "full", "version": 1, "rows": 12}
    assert results.manifest()["older"] == {"version": 7, "rows": 1}


def test_another_version_is_computed_anew(toy, results, tmp_path):
    run(toy, results)
    ran(tmp_path)
    run(replace(toy, version=2), results)
    assert ran(tmp_path) == list(range(6))
    assert results.manifest()["toy"]["version"] == 2


@pytest.mark.parametrize("damage", [b"", b'{"job": {', b"\x00\xff\x01", b"3"])
def test_a_damaged_file_of_the_cache_is_computed_again(toy, results, tmp_path, damage):
    table = run(toy, results)
    victim = sorted((results.cache / "toy.v1").iterdir())[2]
    victim.write_bytes(damage)
    ran(tmp_path)
    pd.testing.assert_frame_equal(run(toy, results), table)
    assert len(ran(tmp_path)) == 1 and json.loads(victim.read_bytes())["rows"]


RUN_TOY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from privglasso.experiments.study import ResultsFolder, run_study
from toy_module import STUDY
here = Path(sys.argv[1])
run_study(STUDY, "full", ResultsFolder(here / "results", here / "cache"), workers=2)
"""


@pytest.mark.long
def test_a_killed_run_loses_the_experiments_in_flight_and_no_others(
    toy, results, tmp_path
):
    (tmp_path / "hold").touch()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_TOY, str(tmp_path)],
        cwd=Path(study.__file__).parents[2],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while len(kept(results)) < 4:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        # the main process and its workers, as a power cut would
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    begun, done = set(ran(tmp_path)), kept(results)
    assert 4 <= len(done) < 12 and done <= begun and len(begun - done) <= 2
    assert not (results.folder / "toy.csv").exists()
    (tmp_path / "hold").unlink()
    table = run(toy, results, "full")
    assert set(ran(tmp_path)) == set(range(12)) - done
    pd.testing.assert_frame_equal(table, toy.table("full"))


def test_a_failed_experiment_is_named_and_loses_no_other(toy, results, tmp_path):
    run(replace(toy, version=2), results)
    before = (results.folder / "toy.csv").read_bytes(), results.manifest()
    (tmp_path / "fail").touch()
    with pytest.raises(StudyError, match=r"toy\(seed=3\): ArithmeticError") as caught:
        run(toy, results)
    assert "Traceback" in caught.value.__notes__[0]
    assert ((results.folder / "toy.csv").read_bytes(), results.manifest()) == before
    assert kept(results) == {0, 1, 2, 4, 5}
    (tmp_path / "fail").unlink()
    ran(tmp_path)
    assert len(run(toy, results)) == 6 and ran(tmp_path) == [3]


@pytest.mark.parametrize("value", [np.zeros(2), object()])
def test_rows_are_numbers_and_words(value):
    with pytest.raises(StudyError):
        Study("odd", lambda profile: [{}], lambda: [{"x": value}]).table()


def test_every_study_is_tried_and_failures_are_reported_together(
    toy, tmp_path, monkeypatch
):
    failing = [replace(toy, name="first"), replace(toy, name="last")]
    good = Study("good", lambda profile: [{}], lambda: [{"x": 1}])
    monkeypatch.setattr(studies, "STUDIES", (failing[0], good, failing[1]))
    folder = ResultsFolder(tmp_path / "results", tmp_path / "cache")
    monkeypatch.setattr(studies, "project_results", lambda profile: folder)
    (tmp_path / "fail").touch()
    said = []
    with pytest.raises(StudyError, match=r"(?s)first\(seed=3.*last\(seed=3"):
        studies.reproduce("quick", workers=1, echo=said.append)
    assert [path.stem for path in folder.folder.glob("*.csv")] == ["good"]
    assert sum("Traceback" in line for line in said) == 2
    with pytest.raises(InputError) as caught:
        studies.reproduce("quick", "god")
    assert caught.value.argument == "only"


def test_settings_are_checked_before_anything_runs(monkeypatch):
    monkeypatch.setattr(study, "setting", lambda key, kind, profile: ["chain", "star"])
    with pytest.raises(SettingsError, match="star"):
        study.choices("toy.models", {"chain"}, "quick")


def test_what_is_not_there_is_refused(results):
    for name in ("../toy", "", 3):
        with pytest.raises(InputError):
            Study(name, lambda profile: [], lambda: [])
    with pytest.raises(InputError):
        results.read("toy")


def test_the_projects_studies_are_complete_and_different(absent_peers_are_named):
    names = [each.name for each in studies.STUDIES]
    assert len(set(names)) == len(names)
    shipped = study.project_results().folder.glob("*.csv")
    assert {path.stem for path in shipped if "benchmark_" not in path.stem} == {*names}
    with absent_peers_are_named():
        for each in studies.STUDIES:
            for profile in ("quick", "full"):
                jobs = [json.dumps(job, sort_keys=True) for job in each.jobs(profile)]
                assert len(set(jobs)) == len(jobs) > 0
