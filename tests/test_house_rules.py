"""Public names are documented, their examples run, and data and noise never share a
stream of random numbers."""

import ast
import doctest
import importlib
import inspect
import io
import tokenize
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from privglasso.data_sets.synthetic import sample_gaussian
from privglasso.experiments.noise_levels import publish_at_snr
from privglasso.privacy.sampler import bit_source, sample
from privglasso.publish.mechanism import AnyMechanism
from privglasso.publish.table import DiscreteGaussianMechanism, GaussianMechanism

import privglasso

PACKAGE = Path(privglasso.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("[!_]*.py")
)


def public(module):
    "Functions and classes that a module defines and exports, by full name."
    loaded = importlib.import_module(f"privglasso.{module}")
    found = {name: getattr(loaded, name) for name in loaded.__all__}
    return {
        f"{module}.{name}": value
        for name, value in found.items()
        if getattr(value, "__module__", "") == loaded.__name__
        and (inspect.isclass(value) or callable(value))
    }


def methods(name, value):
    "The public methods of a class that are ours."
    members = inspect.getmembers(value, inspect.isfunction)
    return {
        f"{name}.{key}": function
        for key, function in members
        if function.__module__.startswith("privglasso.") and not key.startswith("_")
    }


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_documented(module):
    named = public(module)
    for name, value in list(named.items()):
        if inspect.isclass(value):
            named |= methods(name, value)
    assert [name for name, value in named.items() if not inspect.getdoc(value)] == []


def documented_parameters(value):
    "Names under Parameters in a docstring and, of a class, in those of its bases."
    text = inspect.getdoc(value) or ""
    listed = text.partition("Parameters\n----------\n")[2].splitlines()
    heads = [line.partition(" : ")[0] for line in listed if line[:1].strip()]
    return {name.strip(" *") for head in heads for name in head.split(",")}


@pytest.mark.parametrize("name", privglasso.__all__)
def test_what_users_type_says_all_of_its_parameters(name):
    value = getattr(privglasso, name)
    if inspect.isclass(value) and issubclass(value, BaseException):
        return  # raised for the user, not by the user
    taken = set(inspect.signature(value).parameters) - {"self", "args", "kwargs"}
    assert taken - documented_parameters(value) == set()


@pytest.mark.parametrize("name", privglasso.__all__)
def test_what_users_type_has_an_example(name):
    value = getattr(privglasso, name)
    assert ">>> " in (value.__doc__ or ""), name


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = importlib.import_module(f"privglasso.{module}")
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(loaded, optionflags=options).failed == 0
    assert list(tmp_path.iterdir()) == [], "an example leaves a file behind"


# classes
#
# A class stands in one place: whoever reads a method sees what it is a method of.


def classes(text):
    "(name, names of its bases) of each class in a program's text."
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            plain = (getattr(base, "value", base) for base in node.bases)  # Generic[T]
            yield node.name, [getattr(base, "id", None) for base in plain]


def only_parents(texts):
    "Private classes that exist for a single other one."
    known = [each for text in texts for each in classes(text)]
    bases = Counter(base for _, of in known for base in of)
    return [name for name, _ in known if name[0] == "_" and bases[name] == 1]


def test_no_private_class_has_exactly_one_child():
    assert only_parents(path.read_text("utf-8") for path in PACKAGE.rglob("*.py")) == []
    parted = "class _Half: ...\nclass Whole(_Half, Other): ..."
    assert only_parents([parted]) == ["_Half"]  # and it is noticed
    assert only_parents([parted, "class Another(_Half): ..."]) == []


def mechanisms(kind=AnyMechanism):
    "Every kind of mechanism that the package has."
    for module in MODULES:
        importlib.import_module(f"privglasso.{module}")
    for child in kind.__subclasses__():
        yield from (child, *mechanisms(child))


def test_a_constructor_of_a_mechanism_has_at_most_eight_words_of_its_own():
    "What all of them may promise, and what a parent takes, are not repeated."
    counts = {
        kind.__name__: len(inspect.signature(kind.__init__).parameters) - 1
        for kind in mechanisms()
        if kind.__module__.startswith("privglasso.")
    }
    assert len(counts) > 20 and max(counts.values()) <= 8, counts


# functions

LONGEST = 25  # lines of code
UNDER_WORK = {  # to be split with the next edition of their chapters
    ("networks/changing", "fused_path"),
    ("networks/changing", "_step_of_block"),
    ("networks/changing", "_joint_groups"),
    ("publish/folders", "publish_folder"),
}


def lines_of_code(text, nodes):
    "Numbers of a program's lines that are more than comments, and no docstrings."
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    silent = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}
    kept = [t for t in tokens if tokenize.tok_name[t.type] not in silent]
    told = {line for t in kept for line in range(t.start[0], t.end[0] + 1)}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            told -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return told


def long_functions(text):
    "Names of the functions whose bodies have too many lines of code."
    nodes = list(ast.walk(ast.parse(text)))
    told = lines_of_code(text, nodes)
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            body = range(node.body[0].lineno, node.end_lineno + 1)
            if len(told.intersection(body)) > LONGEST:
                yield node.name


def test_a_function_can_be_read_at_once():
    paths = [module.replace(".", "/") for module in MODULES]
    texts = {path: (PACKAGE / f"{path}.py").read_text("utf-8") for path in paths}
    found = {(path, name) for path in paths for name in long_functions(texts[path])}
    assert found <= UNDER_WORK, found - UNDER_WORK
    lines = '    """Told\n    twice."""\n' + "    # why\n\n    x = 1\n" * LONGEST
    assert list(long_functions(f"def f():\n{lines}")) == []  # and it is noticed
    assert list(long_functions(f"def f():\n{lines}    return x\n")) == ["f"]


# streams of randomness
#
# A table made with a seed and released with the same seed must not meet its own
# randomness again: a release would then carry noise that depends on its data.

SEEDS = range(40)
WORDS = 2000  # 64-bit words looked at in each stream


def words_of_data(state):
    "The first 64-bit words that numpy's generator gives to whoever makes data."
    rng = np.random.default_rng(state)
    return rng.integers(0, 2**64, size=WORDS, dtype=np.uint64)


def words_of_noise(state):
    "The first words that noise is drawn from, as 64-bit words at both alignments."
    halves = bit_source(state).words(2 * WORDS + 1).astype("<u4")
    return np.concatenate([halves[:-1].view("<u8"), halves[1:].view("<u8")])


def in_common(data, noise):
    "How many of the data's words are among the noise's, halves exchanged or not."
    swapped = (data >> np.uint64(32)) | (data << np.uint64(32))
    return np.isin(np.concatenate([data, swapped]), noise).sum()


def test_noise_has_words_of_its_own():
    """Independent streams share a word with a probability below
    2 * 2000 * 4000 / 2^64 for a pair, 1e-10 for all of them."""
    for seed in SEEDS:
        for state in (seed, np.random.default_rng(seed)):
            assert in_common(words_of_data(seed), words_of_noise(state)) == 0
        naive = np.random.default_rng(seed).bytes(8 * WORDS)
        shared = np.frombuffer(naive, dtype="<u8")
        assert in_common(words_of_data(seed), shared) == WORDS  # what would be noticed


BOUNDS, SHAPE = (-6, 6), (400, 3)
MAKERS = {
    "numpy": lambda state: np.random.default_rng(state).standard_normal(SHAPE),
    "sample_gaussian": lambda state: sample_gaussian(
        np.eye(3), 400, random_state=state
    ),
}


def whole(table):
    "A table rounded and clipped to whole numbers within the bounds."
    return np.clip(np.rint(table), -6, 6)


def noise_of(mechanism, table, state):
    "The noise that a release adds to a table."
    in_place = mechanism(BOUNDS, neighbors="cell", sigma=2.0)
    release = in_place.publish(table, random_state=state)
    return release.table.to_numpy() - table


RELEASERS = {
    "gaussian": lambda table, s: noise_of(GaussianMechanism, table, s),
    "discrete": lambda table, s: noise_of(DiscreteGaussianMechanism, whole(table), s),
    "sample": lambda table, s: sample(table.shape, 2.0, random_state=s),
    "publish_at_snr": lambda table, s: (
        publish_at_snr(table, BOUNDS, 0.0, "cell", random_state=s).table.to_numpy()
        - table
    ),
    "the data's own stream": lambda table, s: MAKERS["numpy"](s),
}


@pytest.mark.parametrize("state_of", [int, np.random.default_rng])
@pytest.mark.parametrize("release", RELEASERS)
@pytest.mark.parametrize("make", MAKERS)
def test_data_and_noise_of_one_seed_are_uncorrelated(make, release, state_of):
    """The sum of squares of forty standardised correlations is chi-squared with forty
    degrees of freedom: above 115 with probability 5e-9. A table that meets its own
    stream has standardised correlations of 35, as the last releaser shows."""
    found = []
    for seed in SEEDS:
        table = MAKERS[make](seed)
        noise = RELEASERS[release](table, state_of(seed))
        size = np.sqrt((table**2).sum() * (noise**2).mean())
        found.append((table * noise).sum() / size)
    assert (np.sum(np.square(found)) < 115) == (release != "the data's own stream")
