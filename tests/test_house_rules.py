"""Rules that the book keeps by itself: documentation, sources, examples, notation, and streams of randomness.

A rule that a module cannot meet yet is noted in `PENDING`, and a note that is no longer needed fails.
"""

import ast
import doctest
import importlib
import inspect
import re
import sys
from enum import Enum
from pathlib import Path

import nbformat
import numpy as np
import pytest
from fastcore.docments import docments

from privglasso.experiments import noise_levels as experiments
from privglasso.data_sets import synthetic
from privglasso.privacy.sampler import bit_source, sample
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism

# fastcore's reader of docstrings does not know every section of numpydoc
pytestmark = pytest.mark.filterwarnings("ignore:Unknown section:UserWarning")

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import process  # noqa: E402

CHAPTERS = {
    module: path
    for path in sorted((ROOT / "nbs").glob("[0-9]_*/[0-9][0-9]_*.ipynb"))
    if (module := process.module_of(nbformat.read(path, as_version=4)))
}
# the modules that carry the papers' mathematics
MATHEMATICS = [
    name
    for name in (
        "gdp",
        "discrete_gaussian",
        "release",
        "covariance_release",
        "synthetic_data",
        "accounting",
        "audit",
        "densification",
        "covariance",
        "feasibility",
        "textbook",
        "descent",
        "solvers",
        "estimators",
        "filter_divergence",
        "graph_filter",
    )
    if name in CHAPTERS
]
# rule: what does not keep it yet
PENDING = {}


def unmet(module, rule, found):
    "What is found against a rule, less what is known; a note that is no longer needed is found too."
    known = {name for name in PENDING.get(rule, ()) if name.startswith(f"{module}.")}
    return sorted(set(found) - known) + [
        f"{name}: strike {rule} from PENDING" for name in sorted(known - set(found))
    ]


# what is public


def public_names(module):
    "The functions and classes a module exports, by full name; not what it only re-exports, and no instances."
    names = importlib.import_module(f"privglasso.{module}").__all__
    found = {name: getattr(sys.modules[f"privglasso.{module}"], name) for name in names}
    return {
        f"{module}.{name}": value
        for name, value in found.items()
        if (
            inspect.isclass(value)
            or inspect.isroutine(inspect.unwrap(value))
            or hasattr(value, "py_func")
        )
        and value.__module__ == f"privglasso.{module}"
    }


def methods(name, value):
    "The public methods of a class of ours, with those of its private bases."
    if not inspect.isclass(value):
        return {}
    members = inspect.getmembers(value, inspect.isfunction)
    ours = [
        (key, f)
        for key, f in members
        if f.__module__.startswith("privglasso.") and not key.startswith("_")
    ]
    return {f"{name}.{key}": function for key, function in ours}


EXPORTED = {
    name: value for module in CHAPTERS for name, value in public_names(module).items()
}
DOCUMENTED = EXPORTED | {
    full: f
    for name, value in EXPORTED.items()
    for full, f in methods(name, value).items()
}


def test_something_is_public():
    assert len(EXPORTED) > 80 and len(DOCUMENTED) > len(EXPORTED)


# docstrings

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
SHAPE = re.compile(
    r"\(\w[\w\s()+*/^-]*,[^)]*\)|\bshape\b|\bTableRelease\b|\bfloat or array\b|\bof"
    r" that shape\b"
)
ARRAY = re.compile(r"\b(nd)?arrays?\b|\bmatrix\b|\bmatrices\b|\bDataFrame\b")
ARRAYS = {
    "S",
    "X",
    "table",
    "precision",
    "covariance",
    "dual_covariance",
    "noise_variance",
    "truth",
    "adjacency",
}
NOT_AN_ARRAY = {"cli"}  # modules whose arguments of such a name are files
IGNORED = {"self", "args", "kwargs", "y"}


def sections(docstring):
    "A numpydoc docstring's sections as {title: text}; what stands before the first has the title ''."
    parts = SECTION.split(docstring)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


def entries(text):
    "The entries of a Parameters or Attributes section as {name: type and description}."
    found = {}
    for entry in re.split(r"\n(?=\S)", text.strip("\n")):
        head, _, rest = entry.partition("\n")
        names, _, kind = head.partition(":")
        found |= {name.strip(): f"{kind} {rest}".strip() for name in names.split(",")}
    return found


def bare(function):
    "The Python function behind a compiled kernel."
    return getattr(function, "py_func", function)


def says(value):
    "What a docstring, or a comment beside a parameter, says of each parameter by itself."
    text = sections(inspect.getdoc(value) or "")
    comments = {} if inspect.isclass(value) else docments(bare(value))
    listed = entries(text.get("Attributes", "")) | entries(text.get("Parameters", ""))
    return {
        name: said
        for name, said in (comments | option_helps(value) | listed).items()
        if said
    }


def option_helps(value):
    "The help texts of a command's arguments and options."
    annotations = {} if inspect.isclass(value) else inspect.get_annotations(bare(value))
    notes = {
        name: getattr(annotation, "__metadata__", ())
        for name, annotation in annotations.items()
    }
    return {name: note[0].help for name, note in notes.items() if note}


def parameters(value):
    "Names of the parameters that a reader has to fill in: none of an enumeration, or of an error, which we raise."
    if inspect.isclass(value) and issubclass(value, BaseException | Enum):
        return []
    return [
        name
        for name in inspect.signature(bare(value)).parameters
        if name not in IGNORED
    ]


def documented_parameters(value):
    """What is said of each parameter: in its own entry, in the text above the sections, or where that text refers to.

    None where nothing is said. "As `graphical_lasso`" hands over to the parameters of the same name there.
    """
    own, docstring = says(value), inspect.getdoc(value) or ""
    above = sections(docstring)[""]
    referred = [
        EXPORTED[full] for full in EXPORTED if f"`{full.split('.')[1]}`" in docstring
    ]
    elsewhere = {
        name: text
        for other in referred
        if other is not value
        for name, text in says(other).items()
    }
    mentioned = {
        name: above
        for name in parameters(value)
        if re.search(rf"(?<![\w$]){name}(?![\w$])", above)
    }
    return {
        name: own.get(name) or mentioned.get(name) or elsewhere.get(name)
        for name in parameters(value)
    }


def returned(value):
    "What is said of a function's result."
    text = sections(inspect.getdoc(value) or "").get("Returns", "")
    if text or inspect.isclass(value):
        return text
    source = inspect.getsource(bare(value))
    comment = re.search(r"^\s*\).*:\s+#\s*(.+)$", source, re.MULTILINE)
    return comment[1] if comment else ""


def has_summary(value):
    "Whether a docstring begins with one line that is a sentence or a noun phrase, and ends it."
    first, _, rest = (inspect.getdoc(value) or "").partition("\n")
    return (
        bool(first)
        and not rest.startswith("\n" * 3)
        and (rest[:1] in {"", "\n"} or rest[:1].isalpha())
    )


def undescribed(name, value):
    "Parameters of which nothing is said."
    return [
        f"{name}({parameter})"
        for parameter, text in documented_parameters(value).items()
        if text is None
    ]


def shapeless(name, value):
    "Arrays, taken or returned, of which the shape is not said."
    if name.split(".")[0] in NOT_AN_ARRAY:
        return []
    said = {
        parameter: text or ""
        for parameter, text in documented_parameters(value).items()
    }
    arrays = {
        parameter
        for parameter, text in said.items()
        if parameter in ARRAYS or ARRAY.search(text)
    }
    found = [
        f"{name}({parameter})"
        for parameter in sorted(arrays)
        if not SHAPE.search(said[parameter])
    ]
    result = returned(value)
    return found + (
        [f"{name} -> "] if ARRAY.search(result) and not SHAPE.search(result) else []
    )


@pytest.mark.parametrize("module", CHAPTERS)
def test_docstrings_begin_with_a_summary(module):
    ours = {
        name: value
        for name, value in DOCUMENTED.items()
        if name.startswith(f"{module}.")
    }
    assert (
        unmet(
            module,
            "summary",
            [name for name, value in ours.items() if not has_summary(value)],
        )
        == []
    )


@pytest.mark.parametrize("module", CHAPTERS)
def test_every_parameter_is_described(module):
    ours = {
        name: value
        for name, value in DOCUMENTED.items()
        if name.startswith(f"{module}.")
    }
    assert (
        unmet(
            module,
            "parameters",
            [x for name, value in ours.items() for x in undescribed(name, value)],
        )
        == []
    )


@pytest.mark.parametrize("module", CHAPTERS)
def test_every_array_has_a_shape(module):
    ours = {
        name: value
        for name, value in DOCUMENTED.items()
        if name.startswith(f"{module}.")
    }
    assert (
        unmet(
            module,
            "shapes",
            [x for name, value in ours.items() for x in shapeless(name, value)],
        )
        == []
    )


def silent(x, y_hat=1):
    """Return an array.

    Parameters
    ----------
    x : array
    """


def eloquent(x):  # (n, p) array  # (p,) array
    "See `x` and `graphical_lasso`."


@pytest.mark.parametrize(
    ("rule", "value", "found"),
    [
        (undescribed, silent, ["f(y_hat)"]),
        (undescribed, eloquent, []),
        (shapeless, silent, ["f(x)"]),
        (shapeless, eloquent, []),
    ],
)
def test_what_is_not_said_is_noticed(rule, value, found):
    assert rule("f", value) == found


# sources

# a numbered statement, or a work by its authors or its year
SOURCE = re.compile(
    r"\b(Theorem|Lemma|Definition|Corollary|Proposition|Algorithm|Equation|Eq\.|section|Table)s?"
    r" \(?\d"
    r"|\b[A-Z]\w+ (&|and) [A-Z]\w+|\bet al\.|\b(1[89]|20)\d\d\b"
)
# what has no formula of somebody else behind it
STEP = "a step of the exact sampler, proved in its chapter"
OWN = {
    "files.read_release": "reads a file",
    "covariance.sample_covariance": "the definition",
    "covariance.correlation_scale": "the definition",
    "solvers.GraphicalLassoResult": "holds what graphical_lasso proves",
    "discrete_gaussian.SystemBits": "the operating system's bits",
    "discrete_gaussian.GeneratorBits": "bits of a seed",
    "discrete_gaussian.bit_source": "chooses between the two",
    "discrete_gaussian.exp_bounds": STEP,
    "discrete_gaussian.CumulativeSums": STEP,
    "discrete_gaussian.cumulative_sums": STEP,
    "discrete_gaussian.threshold_words": STEP,
    "discrete_gaussian.locate": STEP,
    "discrete_gaussian.MagnitudeTable": STEP,
    "discrete_gaussian.TableSampler": STEP,
    "discrete_gaussian.BlockSampler": STEP,
    "discrete_gaussian.exact_coin": STEP,
    "discrete_gaussian.sampler": STEP,
}


def sourceless(name, value):
    "Whether a docstring names neither a source nor is allowed to have none."
    return not SOURCE.search(inspect.getdoc(value) or "") and name not in OWN


def is_quantity(value):
    "Whether a public name computes something: errors, and the containers of results, do not."
    return not (inspect.isclass(value) and issubclass(value, BaseException))


@pytest.mark.parametrize("module", MATHEMATICS)
def test_every_formula_has_a_source(module):
    ours = {
        name: value
        for name, value in EXPORTED.items()
        if name.startswith(f"{module}.") and is_quantity(value)
    }
    assert (
        unmet(
            module,
            "source",
            [name for name, value in ours.items() if sourceless(name, value)],
        )
        == []
    )


def test_no_exception_outlives_its_reason():
    "What names a source needs no exception; what is no longer exported has none to need."
    assert [
        name
        for name in OWN
        if name not in EXPORTED or SOURCE.search(inspect.getdoc(EXPORTED[name]))
    ] == []


# examples


def run_examples(module):
    "Failures and number of the examples in a module's docstrings, run afresh."
    value = importlib.import_module(f"privglasso.{module}")
    return doctest.testmod(
        value, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )


@pytest.mark.parametrize("module", CHAPTERS)
def test_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(module).failed == 0
    assert list(tmp_path.iterdir()) == [], "an example leaves a file behind"


def test_examples_are_found():
    assert (
        sum(">>>" in (inspect.getdoc(value) or "") for value in DOCUMENTED.values())
        > 20
    )


def names_in(tree):
    "Every name and attribute that a piece of code mentions."
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def asserts(tree):
    "Whether a piece of code can fail on purpose."
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree)) or bool(
        names_in(tree)
        & {
            "raises",
            "expect_fail",
            "test_eq",
            "test_close",
            "test_fail",
            "assert_allclose",
        }
    )


def names_asserted(notebook):
    "What the quick cells that assert something mention, or what the chapter's own functions called there mention."
    helpers, found = {}, set()
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        directives, code = process.split_directives(cell.source)
        if process.EXPORTING & directives.keys() or "slow" in directives:
            continue
        body = process.statements(code)
        helpers |= {
            node.name: names_in(node)
            for node in body
            if isinstance(node, ast.FunctionDef)
        }
        module = ast.Module(body, [])
        if asserts(module):
            found |= names_in(module)
    while (
        new := {name for helper in found & helpers.keys() for name in helpers[helper]}
        - found
    ):
        found |= new
    return found


def test_what_a_chapter_asserts_is_seen():
    sources = [
        "#| export\ndef f(): pass",
        "def g(): return h()",
        "assert g()",
        "#| slow\nassert i()",
        "j()",
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources]
    )
    assert names_asserted(notebook) == {"g", "h"}


def shown_in_part(module):
    "What is asserted in the part of the book that a module's chapter belongs to: proofs may have their own chapter."
    notebooks = CHAPTERS[module].parent.glob("[0-9][0-9]_*.ipynb")
    return {
        name
        for path in notebooks
        for name in names_asserted(nbformat.read(path, as_version=4))
    }


@pytest.mark.parametrize("module", MATHEMATICS)
def test_every_public_function_has_an_example_that_runs(module):
    shown = shown_in_part(module)
    ours = {
        name: v
        for name, v in EXPORTED.items()
        if name.startswith(f"{module}.") and not inspect.isclass(v)
    }
    bare = [
        n
        for n, v in ours.items()
        if ">>>" not in (inspect.getdoc(v) or "") and n.split(".")[1] not in shown
    ]
    assert unmet(module, "example", bare) == []


# notation


def symbols_row():
    "{name: whether it stands in the notation's table} of what is public in the mathematical modules."
    cells = nbformat.read(
        ROOT / "nbs/7_reference/01_notation.ipynb", as_version=4
    ).cells
    table = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    named = set(re.findall(r"`(\w+)[.(`]", table))
    return {
        name: name.split(".")[1] in named
        for name in EXPORTED
        if name.split(".")[0] in MATHEMATICS
    }


FORMULA = re.compile(r"[Α-Ωα-ωϑϕ]|\$[^$]+\$")


@pytest.mark.parametrize("module", MATHEMATICS)
def test_what_bears_a_symbol_is_in_the_notation(module):
    "A public name whose summary speaks in symbols is one that a reader looks up by its symbol."
    summaries = {
        name: (inspect.getdoc(EXPORTED[name]) or "").partition("\n")[0]
        for name in symbols_row()
    }
    ours = {
        name: known
        for name, known in symbols_row().items()
        if name.startswith(f"{module}.")
    }
    missing = [
        name
        for name, known in ours.items()
        if FORMULA.search(summaries[name]) and not known
    ]
    assert unmet(module, "notation", missing) == []


# streams of randomness
#
# A table made with a seed and released with the same seed must not meet its own randomness again: a release would
# then carry noise that depends on its data, or even cancel it.

SEEDS = range(40)
WORDS = 2000  # 64-bit words looked at in each stream


def words_of_data(random_state):
    "The first 64-bit words that numpy's generator gives to whoever makes data."
    return np.random.default_rng(random_state).integers(
        0, 2**64, size=WORDS, dtype=np.uint64
    )


def words_of_noise(random_state):
    "The first words that noise is drawn from, as 64-bit words at both alignments."
    halves = bit_source(random_state).words(2 * WORDS + 1).astype("<u4")
    return np.concatenate([halves[:-1].view("<u8"), halves[1:].view("<u8")])


def in_common(data, noise):
    "How many of the data's words are among the noise's, as they are or with their halves exchanged."
    swapped = (data >> np.uint64(32)) | (data << np.uint64(32))
    return np.isin(np.concatenate([data, swapped]), noise).sum()


def generator(seed):
    "A generator of that seed."
    return np.random.default_rng(seed)


def test_seeds_and_generators_give_noise_words_of_its_own():
    """No 64-bit word of the data's stream occurs in the noise's.

    The chance that independent streams share one is below 2 * 2000 * 4000 / 2^64 for a pair, 1e-10 for all of them.
    """
    for seed in SEEDS:
        for state in (seed, generator(seed)):
            assert in_common(words_of_data(seed), words_of_noise(state)) == 0
        shared = generator(seed)
        assert (
            in_common(
                shared.integers(0, 2**64, size=WORDS, dtype=np.uint64),
                words_of_noise(shared),
            )
            == 0
        )


def test_a_shared_stream_is_noticed():
    for seed in SEEDS:
        naive = np.random.default_rng(seed).bytes(8 * WORDS)
        assert (
            in_common(words_of_data(seed), np.frombuffer(naive, dtype="<u8")) == WORDS
        )


# how data are made with a random_state: each gives a table of independent standard normals, (400, 3)
ROWS, COLUMNS = 400, 3
IDENTITY = np.eye(COLUMNS)
MAKERS = {
    "numpy": (
        lambda state: np.random.default_rng(state).standard_normal((ROWS, COLUMNS))
    ),
    "sample_gaussian": lambda state: synthetic.sample_gaussian(
        IDENTITY, ROWS, random_state=state
    ),
}


def whole(table):
    "A table rounded and clipped to whole numbers within the bounds."
    return np.clip(np.rint(table), -6, 6)


# how a table is released with a random_state: each gives the noise that was added, in units of its deviation
BOUNDS = (-6, 6)
RELEASERS = {
    "GaussianMechanism": (
        lambda table, state: (
            GaussianMechanism(BOUNDS, sigma=2.0)
            .publish(table, random_state=state)
            .table.to_numpy()
            - table
        )
        / 2
    ),
    "DiscreteGaussianMechanism": (
        lambda table, state: (
            DiscreteGaussianMechanism(BOUNDS, sigma=2.0)
            .publish(whole(table), random_state=state)
            .table.to_numpy()
            - whole(table)
        )
        / 2
    ),
    "sample": lambda table, state: sample(table.shape, 2.0, random_state=state) / 2,
    "publish_at_snr": (
        lambda table, state: (
            experiments.publish_at_snr(
                table, BOUNDS, 0.0, random_state=state
            ).table.to_numpy()
            - table
        )
        / table.std(axis=0)
    ),
}


def correlations(make, release, seeds, state_of):
    "Correlations of data and noise, one a seed, times the root of the number of cells: standard normal if unrelated."
    found = []
    for seed in seeds:
        table = make(seed)
        noise = release(table, state_of(seed))
        found.append(
            (table * noise).sum() / np.sqrt((table**2).sum() * (noise**2).mean())
        )
    return np.array(found)


@pytest.mark.parametrize("state_of", [int, generator])
@pytest.mark.parametrize("release", RELEASERS)
@pytest.mark.parametrize("make", MAKERS)
def test_data_and_noise_of_one_seed_are_uncorrelated(make, release, state_of):
    """The sum of squares of forty standardised correlations is chi-squared with forty degrees of freedom.

    It exceeds 115 with probability 5e-9, in any of the sixteen tests with less than 1e-7. A fault of one seed in ten
    would already be far above: a table that meets its own stream has a correlation of 1, standardised 35.
    """
    found = correlations(MAKERS[make], RELEASERS[release], SEEDS, state_of)
    assert (found**2).sum() < 115


def test_correlated_noise_is_noticed():
    def careless(table, state):
        return np.random.default_rng(state).standard_normal(table.shape)

    assert (correlations(MAKERS["numpy"], careless, range(1), int) ** 2).sum() > 115


def consumers():
    "Public callables, and methods, that take a random_state."
    return {
        name
        for name, value in DOCUMENTED.items()
        if "random_state" in parameters(value)
    }


# what else takes a random_state: nothing is added to what it makes, or it hands the state to one of the above
ELSEWHERE = {
    "bit_source": "the stream itself, looked at word by word above",
    "check_generator": "reads it, makes nothing; who makes data with it is looked at",
    "random_sparse_precision": "makes a matrix, not a table",
    "example_table": "hands it to sample_gaussian",
    "simulate_grid11": (
        "needs the power flow; draws from numpy's generator as the maker numpy does"
    ),
    "simulate_grid115": "the same",
    "audit": "hands it to the mechanism it runs",
    "audit_draws": "hands it on to independent batches, each with a stream of its own",
    "DPRidgePrecision": "hands it to CovarianceMechanism",
    "DPGraphicalLasso": "hands it to CovarianceMechanism",
    "DPThresholding": "hands it to CovarianceMechanism",
    "LDPThresholding": "hands it to LocalMechanism",
    "report": "draws from bit_source, as sample does",
    "publish_at_paper_snr": "hands it to the mechanisms",
    "dominant_precision": "makes a matrix, not a table",
    "corrected_example": "makes a covariance, not a table",
    "PrivateGraphicalLassoStable": "draws halves of the rows, and adds nothing to them",
}


def test_every_consumer_of_a_random_state_is_looked_at():
    looked_at = {*MAKERS, *RELEASERS, *ELSEWHERE, "publish"}
    assert (
        sorted(name for name in consumers() if name.split(".")[-1] not in looked_at)
        == []
    )
