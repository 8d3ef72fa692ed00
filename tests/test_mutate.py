"""Altered facts are noticed by the chapters, or argued to be harmless."""

import random
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "docs"), str(ROOT / "tests")]

import data_chapters  # noqa: E402
import mutate  # noqa: E402

CELL = """
import numpy as np
rng = np.random.default_rng(3)
x = rng.normal(size=7) * 2
def bound(sigma, n=5):
    return 1 / (sigma**2 - 1 / 6)
verdict = "TRUE"
ax.plot(x + 1, x - 1)
assert 0.5 < bound(2) < 0.3 + abs(x).max() and abs(bound(1) - 1.2) < 1e-9
"""


def found(code, exported=False):
    "(before, after) of a cell's mutants."
    names = None if exported else mutate.claimed([mutate.Cell("", code, False, (), ())])
    return {(m.before, m.after) for m in mutate.mutants_of("", "", code, names)}


def test_facts_are_altered_and_examples_are_not():
    pairs = found(CELL)
    formula = "sigma ** 2 - 1 / 6"
    assert ("6", "7") in pairs and (formula, "sigma ** 2 + 1 / 6") in pairs
    assert (f"1 / ({formula})", "1") in pairs and ("sigma ** 2", "sigma") in pairs
    told = {after for _, after in pairs}
    assert any(after.startswith("0.55 < bound") for after in told)  # a tenth more
    assert not any("rng" in before or "x + 1" in before for before, _ in pairs)
    assert not any("1e-09" in after and "1.1e-09" in after for after in told)
    assert not any("n=" in after for after in told)


KERNEL = """
@kernel(small=few)
def fill(x, count):
    if x == 0:
        return count * x
"""


def test_constants_in_comparisons_and_products_of_kernels_are_altered():
    pairs = found(KERNEL, exported=True)
    assert ("0", "1") in pairs and ("count * x", "count / x") in pairs
    (function,) = mutate.ast.parse(KERNEL).body
    assert mutate.is_kernel(function)
    assert not mutate.is_kernel(function.body[0])


def test_a_mutant_of_a_kernel_runs_as_machine_code_not_by_its_stand_in():
    "The stand-in gives 1; what is altered, or not, is what the cell compiles."
    head = "from privglasso.base.kernels import kernel\nimport numpy as np\n"
    kernel = "@kernel(small=lambda x: 1)\ndef one(x):\n    return x.size * 1\n"
    check = "assert one(np.zeros(1)) == 1"
    made = mutate.Cell("a", kernel, True, frozenset({"kernel"}), frozenset({"one"}))
    used = mutate.Cell("b", check, False, frozenset({"one", "np"}), frozenset())
    names = {}
    exec(head, names)
    for mutant, change in mutate.mutants_of("", "a", kernel).items():
        if mutant.after == "2":  # x.size * 2
            outcome = mutate.try_mutant([made, used], 0, *change, names)
            assert mutate.outcome_of(*outcome) == ("killed", "AssertionError in b")
            break
    else:
        raise AssertionError("no such mutant")


def test_a_verdict_is_turned():
    assert ("'TRUE'", "'FALSE'") in found('f("TRUE")', exported=True)


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("low + 1 < 2.5", ("survived", "weaker")),  # low - 1 < 2.5
        ("low - 1 < 2.5", ("survived", "")),  # low + 1 < 2.5: stronger, slack
        ("low - 1 < 0.5", ("killed", "AssertionError in c")),  # low + 1 < 0.5: false
        ("low * one == 1", ("survived", "same values")),  # low == 1
    ],
)
def test_outcomes(test, outcome):
    cells = [mutate.Cell("c", f"low = one = 1\nassert {test}", False, (), ())]
    (change,) = [
        change
        for mutant, change in mutate.mutants_of("", "c", cells[0].code, set()).items()
        if mutant.before == test.split(" <")[0].split(" ==")[0]
    ]
    alone = mutate.try_mutant(cells, 0, *change, {})
    assert mutate.outcome_of(*alone) == outcome
    names = {"__probe__": mutate.Probes()}
    mutate.run(mutate.probed(cells[0].code, [change]), names, "c")
    probe = names["__probe__"]
    assert (0 in probe.failed) == (outcome[0] == "killed")
    if outcome[0] == "survived":
        assert probe.watches[0].verdict() == outcome[1]


def test_a_mutant_that_never_ends_is_stopped():
    def forever():
        while True:
            pass

    assert mutate.forked(forever, 1) is None


def test_every_survivor_is_argued():
    arguments, rows = mutate.read_arguments(), mutate.read_list()
    left = [
        mutant
        for mutant, (_, outcome, by) in rows.items()
        if outcome == "survived" and not mutate.is_argued(mutant, by, arguments)
    ]
    assert rows and left == []
    assert not any(why.startswith("open:") for why in arguments.values())


ONCE_SURVIVED = [
    # what a record costs
    (
        "1_privacy/04_lattice_proofs",
        "eb2f72ae",
        "sigma**2 - 1 / 6",
        "sigma**2 - 1 / 12",
    ),
    # how many noise levels spare an absent edge, and from where on all of them do
    ("5_papers/11_fill_in_proofs", "e5e9310b", "7 - 3", "7 - 5"),
    ("5_papers/11_fill_in_proofs", "66079fd9", "r / (1 + r) / L", "r / L"),
    # how fast fill-in falls with the distance
    ("5_papers/10_fill_in", "d34ef20f", "(1 + s * low)", "(1 + 2 * s * low)"),
    # how far the maximiser of one release is off
    (
        "3_recover/01_unbiasedness",
        "7c28df03",
        "size**2 * moved / (1 - size * moved)",
        "size**2 * moved",
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("change", ONCE_SURVIVED, ids=lambda change: change[1])
def test_what_once_survived_does_not(change):
    mutate.preload()
    outcome, by = mutate.rewritten(*change)
    assert outcome == "killed" and by.startswith("AssertionError")


SLOW = (  # setting up a cell of these takes many seconds
    *("1_privacy/02_tradeoff_proofs", "1_privacy/04_lattice_proofs"),
    *("1_privacy/09_audit", "2_publish/11_synthetic", "5_papers/11_fill_in_proofs"),
    *("3_recover/01_unbiasedness", "3_recover/05_block_descent", "5_papers/03_su"),
    *("5_papers/07_further_claims", "5_papers/08_claims", "3_recover/02_existence"),
)


NBS = ROOT / "nbs"


@cache
def look_at_data():
    "Names of the chapters that look at downloaded data."
    return {
        path.relative_to(NBS).with_suffix("").as_posix()
        for path in data_chapters.data_chapters()
    }


def notices(chosen, size, seed):
    """Whether the same mutants of the list each time are noticed, as far as chapters
    still have them; all of them are tried by `make mutate`."""
    arguments, rows = mutate.read_arguments(), mutate.read_list()
    mutate.preload()
    own = [
        mutant
        for mutant, (*_, by) in rows.items()
        if mutant.chapter not in SLOW and " of " not in by and "tests" not in by
        if by != "time" and chosen(mutant.chapter)
    ]
    tried = 0
    for mutant in random.Random(seed).sample(own, size):
        result = mutate.retried(mutant)
        if result is None:
            continue
        outcome, by = result
        argued = mutate.is_argued(mutant, by, arguments)
        assert outcome == "killed" or argued, (mutant, result)
        tried += 1
    return tried >= size / 2


@pytest.mark.long
def test_a_sample_is_noticed():
    assert notices(lambda chapter: chapter not in look_at_data(), 12, seed=15)


@pytest.mark.data("sachs", "sachs_truth_18", "chickenpox", "chickenpox_edges", "soil")
@pytest.mark.data("congress_house", "congress_senate", "ionosphere", "fmri_rois")
def test_a_sample_of_what_looks_at_data_is_noticed():
    assert notices(lambda chapter: chapter in look_at_data(), 4, seed=15)


@pytest.mark.long
def test_chapters_that_look_at_data_are_found():
    """The pages of data sets, and what only imports such a table; not those of tables
    that come with the project."""
    assert {"7_data/03_sachs", "6_experiments/16_twins_and_cables"} <= look_at_data()
    assert not {"7_data/10_grids", "2_publish/03_covariance"} & look_at_data()
    for path in NBS.rglob("*.ipynb"):
        name = path.relative_to(NBS).with_suffix("").as_posix()
        assert name in look_at_data() or "load_if_here(" not in path.read_text(), name
