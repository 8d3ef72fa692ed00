"""The package needs the declared dependencies only, and pictures when it draws."""

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


def undeclared(requirements):
    """Top-level modules that are installed here, but not brought along by these
    requirements, or by what they require."""
    needed, asked = {"privglasso"}, [Requirement(text) for text in requirements]
    while asked:
        each = asked.pop()
        name, extras = canonicalize_name(each.name), each.extras or {""}
        marker = each.marker
        meant = not marker or any(marker.evaluate({"extra": x}) for x in extras)
        if meant and name not in needed:
            needed.add(name)
            asked += map(Requirement, distribution(name).requires or [])
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if not needed & set(map(canonicalize_name, owners))
    )


ABSENT = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
"""


def python(program, *words, folder=None, **environment):
    "The run of a program in a process of its own."
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


PICTURES = "[m for m in ('matplotlib', 'seaborn', 'networkx') if m in sys.modules]"


USES = """
from privglasso.base import graphs, io, kernels, plots, settings, validation
import privglasso.cli.commands, privglasso.data_sets.overview
import privglasso as pg
pg.plan, pg.audit, pg.CovarianceMechanism, pg.DPThresholding, pg.PrivateGraphicalLasso
"""


@pytest.mark.long
def test_no_picture_is_drawn_by_an_import():
    run = python(f"import sys\n{USES}\nprint({PICTURES})")
    assert run.returncode == 0 and run.stdout.strip() == "[]", run.stdout + run.stderr


COMMANDS = """
import subprocess
import sys
import numpy as np
from privglasso.cli.commands import app

rows = np.random.default_rng(0).normal(size=(2000, 4)) @ (np.eye(4) + 0.5)
np.savetxt("t.csv", rows, delimiter=",", header="a,b,c,d", comments="")
never = ("numba", "joblib", "matplotlib", "networkx", "seaborn", "tqdm.notebook")
never += ("scipy.optimize", "scipy.stats", "sklearn", "sklearn.model_selection")
plain = ("pandas", "pyarrow", "filelock", "asyncio")  # for these no table is read
slow = ("pandas", "scipy", "pyarrow")  # not loaded to refuse what needs no table


def run(unwanted, words):
    "One command, and on the standard error what it loaded in vain."
    try:
        app(words.split())
    except SystemExit as end:
        loaded = [name for name in unwanted if name in sys.modules]
        print("#", words.split()[0], end.code, *loaded, file=sys.stderr)


for words in (
    "plan 2000 4 --schema no.toml",
    "schema no.csv",
    "publish no.csv r.parquet --epsilon 1",
    "publish t.csv r.parquet",
    "publish t.csv r.parquet --epsilon 1 --schema no.toml",
    "publish t.csv r.parquet --epsilon 1 --bounds no.csv",
    "publish t.csv r.parquet --epsilon 1 --low 0",
    "publish t.csv r.parquet --epsilon 1 --whole a",
    "publish t.csv t.csv --epsilon 1",
    "inspect no.parquet",
    "recover no.parquet",
    "compare no.parquet no.parquet",
    "audit",
    "budget new b.json",
):
    run(never + slow, words)
for words in (
    "publish t.csv r.parquet --epsilon 1 --budget no.json",
    "budget show no.json",
):
    run(never + plain, words)
for words in ("plan 2000 4", "plan 2000 4 --epsilon 1 --find 0.2"):
    run((*never, *plain, "scipy.linalg"), words)
run((*never, "filelock", "asyncio", "scipy.linalg"), "schema t.csv")
publish = "publish t.csv r.parquet --epsilon 1 --delta 1e-7"  # in a process of its own
subprocess.run([sys.executable, "-m", "privglasso", *publish.split()], check=True)
for words in (
    "inspect r.parquet",
    "recover r.parquet e.csv",
    "recover r.parquet --level 0.05",
    "recover r.parquet --alpha 0.1",
    "budget new b.json --epsilon 2 --delta 1e-7",
    "budget show b.json",
):
    run(never + (() if "b.json" in words else ("filelock", "asyncio")), words)
paid = publish.replace("r.", "s.") + " --budget b.json"
for words in (publish.replace("r.", "q."), paid):
    run(never[1:], words)  # its loops are compiled, once on a machine
"""


@pytest.mark.long
def test_a_command_loads_what_it_needs(tmp_path):
    """A graph of few columns is found without a compiler, and no package that is slow
    to load is loaded where nothing of it is needed: quick answers rest on it. Least of
    all for an answer that needs no table."""
    run = python(COMMANDS, folder=tmp_path)
    told = [line.split()[1:] for line in run.stderr.splitlines() if line[0] == "#"]
    for place, (command, code, *loaded) in enumerate(told):
        assert code == ("2" if place < 16 else "0") and loaded == [], (place, command)
    assert len(told) == 27


# without numba

SAME = """
import sys
if sys.argv[1] == "absent":
    sys.modules["numba"] = None
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import numpy as np
    import privglasso as pg
    from privglasso.base import kernels
    data = pg.example_table(4000, random_state=0)
    table = pg.GaussianMechanism(data.bounds, epsilon=5, delta=1e-6)
    noisy = table.publish(data.table.iloc[:50], random_state=3).table
    release = pg.CovarianceMechanism(epsilon=2, delta=1e-6).publish(
        data.table.iloc[:2000, :3], random_state=1
    )
    S = release.corrected_covariance()
    R = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    kernels._PRICE = 0  # from here on all is compiled
    graph = pg.graphical_lasso(R, 0.1)
said = [str(each.message) for each in said if "numba" in str(each.message)]
print(len(said), graph.dual_gap < 1e-5)
print(noisy.to_numpy().tobytes().hex(), np.asarray(release.matrix).tobytes().hex())
print(np.round(graph.precision, 6).tolist())
"""


@pytest.mark.long
def test_without_numba_all_is_the_same_but_slower():
    "The release to the bit, the solution within its certified gap; one warning."
    runs = {numba: python(SAME, numba) for numba in ("here", "absent")}
    for run in runs.values():
        assert run.returncode == 0, run.stderr[-2000:]
    here, absent = (run.stdout.splitlines() for run in runs.values())
    assert here[0] == "0 True" and absent[0] == "1 True"
    assert here[1:] == absent[1:]


# the wheel, outside of the clone

OUTSIDE = """
import sys
from pathlib import Path

clone, wheel = map(Path, sys.argv[1:])
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in repr(f)]
sys.path[:] = [p for p in sys.path if not Path(p or ".").resolve() == clone]
sys.path.insert(0, str(wheel))
import privglasso as pg

assert Path(pg.__file__).is_relative_to(wheel), pg.__file__
"""

MAIN_JOB = f"""{OUTSIDE}
from privglasso.base.settings import setting
from privglasso.experiments.study import read_results

data = pg.example_table(5000, random_state=0)
made = pg.CovarianceMechanism(epsilon=5, delta=1e-9).publish(data.table, random_state=1)
made.to_parquet("release.parquet")
model = pg.PrivateGraphicalLasso().fit(pg.read_release("release.parquet"))
print(*pg.confusion(pg.support(model.precision_), data.truth))
print(pg.load_grid11().table.shape[1], len(read_results("table2")) > 0)
"""

@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    "The folder of a wheel that the declared backend built, unpacked."
    pytest.importorskip("hatchling", reason="no hatchling here to build the wheel with")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    zipfile.ZipFile(built).extractall(folder / "installed")
    return folder / "installed"


@pytest.mark.long
def test_the_wheel_does_the_main_job_outside_of_the_clone(wheel, tmp_path):
    """Built by the declared backend, unpacked into an empty folder, run from another
    one: data, settings and results are inside."""
    # interpreted: compiling for a new folder takes a minute
    run = python(MAIN_JOB, ROOT, wheel, folder=tmp_path, NUMBA_DISABLE_JIT="1")
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines() == ["19 0 0", "11 True"]


EVERY_COMMAND = """
import importlib, pkgutil, runpy
import numpy as np
from privglasso.cli.commands import app
from privglasso.recover.block_descent import descend

for module in pkgutil.walk_packages(pg.__path__, "privglasso."):
    importlib.import_module(module.name)
for name in pg.__all__:
    getattr(pg, name)
rows = np.random.default_rng(0).normal(size=(2000, 4)) @ (np.eye(4) + 0.5)
np.savetxt("t.csv", rows, delimiter=",", header="a,b,c,d", comments="")
there = {c.name or c.callback.__name__ for c in app.registered_commands}
there |= {group.name for group in app.registered_groups}
for line in (
    "demo --data grid",
    "plan 2000 4",
    "schema t.csv s.toml",
    "budget new b.json --epsilon 2 --delta 1e-7",
    "publish t.csv r.parquet --epsilon 1 --delta 1e-7 --budget b.json",
    "budget show b.json",
    "stream new s --periods 2 --rows 9 --columns a,b --low 0 --high 1 --mu 0.01"
    " --budget b.json",
    "inspect r.parquet",
    "recover r.parquet e.csv --figure e.svg",
    "export r.parquet folder",
    "report r.parquet r.html",
    "compare r.parquet r.parquet",
    "audit --mu 1 --trials 20",
    "claims --paper Campbell",  # all of them are audited elsewhere
    "completion bash",
    "data",
    "reproduce --profile quick --only certified_tree --workers 1",
    "bench --profile quick --only noise",
):
    sys.argv[1:] = line.split()
    there.discard(sys.argv[1])
    try:
        runpy.run_module("privglasso", run_name="__main__")
    except SystemExit as end:
        print("#", line, end.code or 0, file=sys.stderr)
    if line.startswith("demo"):
        print("# slow to compile:", int(descend.is_kept()), file=sys.stderr)
print("# never run:", *there, file=sys.stderr)
"""


@pytest.mark.long
def test_every_command_runs_on_what_the_wheel_declares(wheel, tmp_path):
    """An empty environment would hold the declared dependencies and what they require.
    Here everything else that is installed cannot be imported; all modules can. The
    demonstration is the first, where no machine code is kept from earlier: it compiles
    nothing that takes long, so that it is over within a minute."""
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    facts = Parser().parsestr(metadata.read_text(encoding="utf-8"))
    blocked = undeclared(facts.get_all("Requires-Dist"))
    assert {"pytest", "nbdev", "sphinx"} <= set(blocked)
    program = f"blocked = {blocked}\n{ABSENT}{OUTSIDE}{EVERY_COMMAND}"
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    run = python(program, ROOT, wheel, folder=tmp_path, **own)
    told = [line for line in run.stderr.splitlines() if line.startswith("#")]
    assert told[-1:] == ["# never run:"], run.stderr[-2000:]
    assert [line for line in told[:-1] if not line.endswith(" 0")] == [], run.stderr
    assert len(told) == 20
    assert (tmp_path / "demo/grid.svg").exists() and "but no promise" in run.stdout
