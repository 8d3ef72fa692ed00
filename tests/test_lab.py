"""Rerun anywhere: `make lab` opens; the launch file installs what `make` does."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_launch_file_installs_what_make_installs():
    yaml = pytest.importorskip("yaml")
    launch = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (python,) = (x for x in launch["dependencies"] if str(x).startswith("python "))
    (from_pip,) = (x["pip"] for x in launch["dependencies"] if isinstance(x, dict))
    assert from_pip == ["-e .[dev]"]
    assert "INSTALL,-e '.[dev]'" in (ROOT / "Makefile").read_text(encoding="utf-8")
    least = re.search(r">=(\d\.\d+)", python)[1]
    assert f'requires-python = ">={least}"' in (ROOT / "pyproject.toml").read_text()


def free_port():
    "A port that nobody listens at."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.long
def test_the_laboratory_opens(tmp_path):
    "The command of `make lab`, without a browser, with settings of its own."
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lab:.*\n\t\$\(BIN\)/(jupyter lab nbs)$", makefile, re.M)
    assert recipe, "make lab has changed"
    jupyter = shutil.which("jupyter", path=Path(sys.executable).parent)
    if jupyter is None:
        pytest.skip("no JupyterLab here")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    options = ["--no-browser", "--allow-root", f"--port={port}", "--port-retries=0"]
    folders = {
        f"JUPYTER_{name}_DIR": str(tmp_path / name)
        for name in ("CONFIG", "DATA", "RUNTIME")
    }
    laboratory = subprocess.Popen(
        [jupyter, *recipe[1].split()[1:], *options, "--IdentityProvider.token=known"],
        cwd=ROOT,
        env=os.environ | folders,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"{address}/lab?token=known") as page:
                    assert "JupyterLab" in page.read().decode()
                break
            except OSError:
                assert laboratory.poll() is None and time.monotonic() < end
                time.sleep(0.3)
        listed = f"{address}/api/contents/0_start/01_story.ipynb?content=0&token=known"
        with urllib.request.urlopen(listed) as answer:
            assert answer.status == 200
    finally:
        os.killpg(laboratory.pid, signal.SIGTERM)
        laboratory.wait(20)
