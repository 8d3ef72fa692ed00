"""Alter one stated fact at a time in the proof chapters, and see which check notices.

`python tests/mutate.py` (that is, `make mutate`) changes a constant, a factor, an
exponent, a sign, the direction of an inequality or a verdict, and runs what depends on
it: the rest of the chapter, then, for code that is exported, the chapter that proves it
and its tests. It writes tests/mutants.csv, one row a mutant, and resumes where it was
stopped. A mutant that survives needs an argument in tests/survivors.csv.
"""

import argparse
import ast
import contextlib
import copy
import csv
import hashlib
import importlib.util
import io
import itertools
import os
import pickle
import resource
import select
import signal
import symtable
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import nbformat
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))  # where chapters are taken apart for the site

from process import EXPORTING, module_of, split_directives, statements  # noqa: E402

LIST, ARGUED = ROOT / "tests" / "mutants.csv", ROOT / "tests" / "survivors.csv"
PARTS = ("1_privacy", "2_publish", "3_recover", "4_networks", "5_papers")
# what a chapter exports is proved in another one
PROVED_IN = {
    "1_privacy/01_gdp": ["1_privacy/02_tradeoff_proofs"],
    "1_privacy/03_discrete_gaussian": ["1_privacy/04_lattice_proofs"],
    "2_publish/02_noise_correction": ["3_recover/01_unbiasedness"],
    "5_papers/10_fill_in": ["5_papers/11_fill_in_proofs"],
    "3_recover/03_feasibility": ["3_recover/02_existence"],
    "5_papers/15_graph_filter": ["5_papers/16_attack"],
}
SECONDS = 15  # of processor time; a mutant that takes longer would hold up a test


# ---- which nodes of a chapter's code are facts

PLOTTING = {"ax", "axes", "fig", "figure", "plt", "sns", "left", "right", "COLORS"}
# calls whose arguments are sizes, seeds, grids, shapes or words
NOT_FACTS = {
    *("default_rng", "range", "arange", "linspace", "geomspace", "logspace", "print"),
    *("InputError", "expect_fail", "format", "round", "rjust", "ljust", "nstr", "bar"),
    *("mpf", "str", "int", "zeros", "ones", "eye", "reshape", "normal", "integers"),
    *("standard_normal", "random", "rvs", "sample_gaussian", "rand", "workdps"),
    *("isinstance", "getattr", "hasattr", "warn", "namedtuple", "symbols", "Symbol"),
    *("cholesky", "seed", "SeedSequence", "spawn", "permutation", "uniform"),
}
EXACT = {"Fraction", "Rational"}
VERDICTS = {"TRUE": "FALSE", "FALSE": "TRUE", "TRUE with fix": "FALSE"}
SWAPPED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
SWAPPED_CALLS = {"max": "min", "min": "max", "any": "all", "all": "any"}
TOLERANCE = 1e-5  # a smaller constant allows for rounding
TINY = 2e-3  # a smaller bound is a tolerance, too
MANY = 20  # a larger whole number is altered by a tenth, not by one


class Mutant(NamedTuple):
    "One altered fact: `before` becomes `after` at its `nth` place in a cell."

    chapter: str
    cell: str
    where: str
    before: str
    after: str
    nth: int


def called(node):
    "The last name of what a call calls."
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def root(node):
    "The first name of a.b[c](d)."
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")


def is_number(node):
    "Whether a node is a literal number."
    kinds = int, float
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, kinds)
        and not isinstance(node.value, bool)
    )


def is_tolerance(node):
    "Whether a node is a tiny number, or one plus or minus a tiny number."
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return is_number(node.left) and is_tolerance(node.right)
    return is_number(node) and 0 < abs(node.value) < TOLERANCE


def is_refusal(node):
    "Whether an `if` does nothing but raise, warn or return early on a bad argument."
    return isinstance(node, ast.If) and all(
        isinstance(part, ast.Raise)
        or (isinstance(part, ast.Expr) and "warn" in ast.unparse(part))
        for part in node.body
    )


def is_drawing(node):
    "Whether a function draws, prints or shows."
    names = [argument.arg for argument in node.args.args]
    return (
        "ax" in names
        or node.name.lstrip("_").startswith(("plot", "draw", "show", "describe"))
        or node.name in {"__repr__", "__str__", "_repr_html_", "__init__"}
    )


TRANSPARENT = {
    *(
        "abs",
        "float",
        "all",
        "any",
        "max",
        "min",
        "sum",
        "isclose",
        "allclose",
        "equal",
    ),
    *("simplify", "expand", "len", "array", "sorted", "round", "array_equal", "sqrt"),
    *("zip", "enumerate", "log", "exp", "diff"),
}


def compared(node):
    """Names whose values an assertion compares, and names of the functions that compute
    such values; not what these are given, which are examples."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Call):
        name = called(node)
        owner = set()
        if isinstance(node.func, ast.Attribute):
            owner = compared(node.func.value)
        if name not in TRANSPARENT:
            return owner | {name}
        return owner.union(*map(compared, node.args))
    if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        return compared(node.value)
    if isinstance(node, ast.comprehension):
        return compared(node.iter)
    return set().union(*map(compared, ast.iter_child_nodes(node)))


def claimed(cells):
    """Names that the assertions of a chapter speak of, whatever computes these, and so
    on back: the statements and functions in which a fact can stand."""
    trees = [ast.parse(cell.code) for cell in cells]
    names = set()
    for node in itertools.chain(*map(ast.walk, trees)):
        if isinstance(node, ast.Assert):
            names |= compared(node.test)
    for tree in reversed(trees):
        for node in reversed(list(ast.walk(tree))):
            if isinstance(node, ast.Assign) and names & stored(node):
                names |= compared(node.value)
            elif isinstance(node, ast.FunctionDef) and node.name in names:
                returned = (
                    r.value for r in ast.walk(node) if isinstance(r, ast.Return)
                )
                names |= set().union(*(compared(r) for r in returned if r))
    return names


def stored(node):
    "The names that an assignment makes or changes."
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    found = set()
    for target in targets:
        names = [n for n in ast.walk(target) if isinstance(n, ast.Name)]
        found |= {n.id for n in names if not isinstance(n.ctx, ast.Load)}
        if isinstance(target, ast.Subscript | ast.Attribute):
            found.add(root(target))
    return found


DRAWN = ("rng", "random", "seed", "sample_gaussian", "rvs")


def is_drawn(node):
    "Whether something in an expression is drawn at random: an example, not a fact."
    return any(
        getattr(part, "id", getattr(part, "attr", "")) in DRAWN
        for part in ast.walk(node)
    )


class Finder(ast.NodeVisitor):
    """Collects (path, replacement, where) for each fact of a cell; a path is the list
    of fields and indices that lead to the node. `names` are those that assertions
    compare; None for exported code, where every formula counts."""

    def __init__(self, names=None):
        self.path, self.found, self.scope, self.asserted = [], [], [], False
        self.names = names

    def offer(self, node):
        "Keep a replacement of the node that is being visited."
        where = ".".join(self.scope) or ("assert" if self.asserted else "statement")
        self.found.append((tuple(self.path), node, where))

    def fields(self, node, *only):
        "Visit the fields of a node, keeping the path."
        for field, value in ast.iter_fields(node):
            if only and field not in only:
                continue
            listed = value if isinstance(value, list) else [value]
            for k, child in enumerate(listed):
                if isinstance(child, ast.AST):
                    self.path.append((field, k if value is listed else None))
                    self.visit(child)
                    self.path.pop()

    def at(self, *steps):
        "Offer a replacement of a node below the one that is being visited."
        *way, node = steps
        self.path += way
        self.offer(node)
        del self.path[len(self.path) - len(way) :]

    generic_visit = fields

    def skip(self, node):
        "Nothing in it is a fact."

    visit_Import = visit_ImportFrom = visit_Raise = visit_JoinedStr = skip
    visit_arguments = visit_Slice = visit_Delete = skip

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call) and (
            root(node.value) in PLOTTING or called(node.value) in NOT_FACTS
        ):
            return
        self.fields(node)

    def visit_Assign(self, node):
        if root(node.value) in PLOTTING or is_number(node.value):
            return
        spoken_of = self.names is None or self.scope or self.names & stored(node)
        if spoken_of and not is_drawn(node.value):
            self.fields(node, "value")

    def visit_AnnAssign(self, node):
        self.skip(node)

    def visit_AugAssign(self, node):
        if self.names is None or self.scope or self.names & stored(node):
            self.fields(node, "value")

    def visit_For(self, node):
        if root(node.iter) not in PLOTTING:
            self.fields(node, "body")

    def visit_comprehension(self, node):
        self.fields(node, "ifs")

    def visit_With(self, node):
        self.fields(node, "body")

    def visit_Subscript(self, node):
        self.fields(node, "value")

    def visit_If(self, node):
        self.fields(node, "orelse") if is_refusal(node) else self.fields(node)

    def visit_Assert(self, node):
        self.asserted = True
        self.fields(node, "test")
        self.asserted = False

    def visit_FunctionDef(self, node):
        proof = self.names is not None
        unspoken = proof and (node.name not in self.names or is_drawn(node))
        if is_drawing(node) or (unspoken and not self.scope):
            return
        self.scope.append(node.name)
        self.fields(node, "body")
        self.scope.pop()

    def visit_ClassDef(self, node):
        self.scope.append(node.name)
        self.fields(node, "body")
        self.scope.pop()

    def visit_Lambda(self, node):
        self.fields(node, "body")

    def visit_Call(self, node):
        name = called(node)
        if name in NOT_FACTS or root(node) in PLOTTING:
            return
        swapped = name in SWAPPED_CALLS and isinstance(node.func, ast.Name)
        if swapped and not self.asserted:
            other = copy.deepcopy(node)
            other.func.id = SWAPPED_CALLS[name]
            if len(node.args) > 1 or name in ("any", "all") or not node.keywords:
                self.offer(other)
        for k, argument in enumerate(node.args):
            if name in EXACT and is_number(argument):
                self.at(("args", k), ast.Constant(argument.value + 1))
            elif isinstance(argument, ast.List) and name in ("allclose", "isclose"):
                if argument.elts and is_number(argument.elts[0]):
                    self.at(("args", k), ("elts", 0), times(argument.elts[0]))
            elif name in ("allclose", "isclose") and is_number(argument):
                self.at(("args", k), times(argument))
        self.fields(node, "func", "args")
        for k, keyword in enumerate(node.keywords):
            if not isinstance(keyword.value, ast.Constant):
                if keyword.arg not in ("key", "size", "shape"):
                    self.path.append(("keywords", k))
                    self.fields(keyword)
                    self.path.pop()
            elif isinstance(keyword.value.value, str):
                self.path += [("keywords", k), ("value", None)]
                self.visit(keyword.value)
                del self.path[-2:]

    def visit_BinOp(self, node):
        if isinstance(node.left, ast.Constant | ast.JoinedStr) and isinstance(
            getattr(node.left, "value", ""), str
        ):
            return
        if any(map(is_tolerance, (node.left, node.right))):
            self.fields(node, "left")
            return
        if type(node.op) in SWAPPED:
            self.offer(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right))
        elif isinstance(node.op, ast.Mult | ast.Div | ast.Pow | ast.MatMult):
            self.offer(node.left)
            if isinstance(node.op, ast.Mult) and not self.asserted:
                self.offer(ast.BinOp(node.left, ast.Div(), node.right))
        for side in ("left", "right"):
            value = getattr(node, side)
            if is_number(value) and TINY <= abs(value.value) < 1e6:
                self.at((side, None), times(value))
                if self.asserted:
                    self.at((side, None), times(value, -1))
        self.fields(node, "left", "right")

    def visit_BoolOp(self, node):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        if not self.asserted:
            self.offer(ast.BoolOp(other, node.values))
        self.fields(node, "values")

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub | ast.Not) and not is_number(node.operand):
            self.offer(node.operand)
        self.fields(node, "operand")

    def visit_Compare(self, node):
        "Turn each comparison round; in an assertion, also ask for a tenth more."
        operands = [node.left, *node.comparators]
        for k, op in enumerate(node.ops):
            if type(op) in SWAPPED:
                other = copy.deepcopy(node)
                other.ops[k] = SWAPPED[type(op)]()
                self.offer(other)
            if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                self.stronger(node, k, operands)
            elif is_number(node.comparators[k]) and not self.asserted:
                self.at(("comparators", k), times(node.comparators[k]))
        self.fields(node, "left", "comparators")

    def stronger(self, node, k, operands):
        "A literal bound moved a tenth towards what it bounds."
        grows = isinstance(node.ops[k], ast.Gt | ast.GtE)
        for place in (k, k + 1):
            value = operands[place]
            if not is_number(value) or abs(value.value) < TINY or value.value > 1e6:
                continue
            up = grows == (place == k + 1)  # a lower bound rises, an upper one falls
            other, bound = copy.deepcopy(node), value.value * (1.1 if up else 1 / 1.1)
            target = ast.Constant(float(f"{bound:.6g}"))
            if place == 0:
                other.left = target
            else:
                other.comparators[place - 1] = target
            self.offer(other)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.offer(ast.Constant(not node.value))
        elif node.value in VERDICTS:
            self.offer(ast.Constant(VERDICTS[node.value]))


def times(node, sign=1):
    """A small whole number plus (or less) one; any other number a tenth larger (or
    smaller)."""
    if isinstance(node.value, int) and abs(node.value) < MANY:
        return ast.Constant(node.value + sign)
    return ast.Constant(float(f"{node.value * 1.1**sign:.12g}"))


def replaced(tree, path, node):
    "A copy of a cell's tree with another node at a path."
    tree = copy.deepcopy(tree)
    here = tree
    for field, k in path[:-1]:
        here = getattr(here, field) if k is None else getattr(here, field)[k]
    field, k = path[-1]
    if k is None:
        setattr(here, field, node)
    else:
        getattr(here, field)[k] = node
    return ast.fix_missing_locations(tree)


def node_at(tree, path):
    "The node that a path leads to."
    for field, k in path:
        tree = getattr(tree, field) if k is None else getattr(tree, field)[k]
    return tree


def mutants_of(chapter, cell, code, names=None):
    "{mutant: (path, replacement)} of one cell."
    tree, finder, seen, found = ast.parse(code), Finder(names), {}, {}
    finder.visit(tree)
    for path, node, where in finder.found:
        before = ast.unparse(node_at(tree, path))
        after = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
        key = (where, before, after)
        seen[key] = seen.get(key, -1) + 1
        mutant = Mutant(chapter, cell, where, before, after, seen[key])
        found[mutant] = (path, node)
    return found


# ---- a chapter as cells that depend on each other

CHANGING = {
    *("append", "extend", "update", "add", "setdefault", "pop", "insert", "clear"),
    *("standard_normal", "normal", "random", "integers", "choice", "permutation"),
    *("shuffle", "uniform", "spawn", "charge", "spend"),
}


class Cell(NamedTuple):
    "A code cell that is run, and the names it reads and makes or changes."

    id: str
    code: str
    exported: bool
    reads: frozenset
    makes: frozenset


def looked_up(table):
    "Global names that a scope, or one within it, reads."
    top = table.get_type() == "module"
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (top or symbol.is_global())
    }
    return names.union(*map(looked_up, table.get_children()))


def changed_inside(tree):
    "Names whose values may be changed without an assignment to the name."
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript):
            changes = not isinstance(node.ctx, ast.Load)
            if changes or getattr(node, "attr", "") in CHANGING:
                found.add(root(node))
        elif isinstance(node, ast.Name) and node.id == "rng":
            found.add("rng")
    return found - {""}


def names_of(code):
    """Names that a cell reads before it makes them, and names that it makes or whose
    value it may change."""
    reads, made, changed = set(), set(), set()
    for statement in ast.parse(code).body:
        table = symtable.symtable(ast.unparse(statement), "cell", "exec")
        reads |= looked_up(table) - made
        symbols = table.get_symbols()
        kinds = (s.get_name() for s in symbols if s.is_assigned() or s.is_imported())
        made |= set(kinds)
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            changed |= changed_inside(statement)
    return frozenset(reads | changed - made), frozenset(made | changed)


def read_cells(path):
    "The cells of a chapter that its test runs."
    cells, functions = [], {}
    for cell in nbformat.read(path, as_version=4).cells:
        directives, code = split_directives(cell.source)
        skipped = {"slow", "notest", "default_exp"} & directives.keys()
        if cell.cell_type == "code" and statements(code) and not skipped:
            for node in statements(code):
                if isinstance(node, ast.FunctionDef):
                    functions[node.name] = changed_inside(node)
            reads, makes = names_of(code)
            for name in reads & functions.keys():  # it may call them
                makes |= functions[name]
                reads |= functions[name]
            exported = bool(EXPORTING & directives.keys())
            cells.append(Cell(cell["id"], code, exported, reads, makes))
    return cells


def after_change(cells, place, changed):
    "Places of the later cells that could see a change of the names `changed`."
    reached, affected = set(changed), []
    for k in range(place + 1, len(cells)):
        if cells[k].reads & reached:
            affected.append(k)
            reached |= cells[k].makes
    needed = set(affected)
    for k in reversed(range(place + 1, len(cells))):
        later = frozenset().union(*(cells[j].reads for j in needed if j > k))
        if cells[k].makes & later:
            needed.add(k)
    return sorted(needed) if affected else []


def before_cell(cells, place):
    "Places of the earlier cells that a cell, and what it may change, rest upon."
    later = after_change(cells, place, cells[place].makes)
    needed, wanted = [], set().union(*(cells[k].reads for k in (place, *later)))
    for k in reversed(range(place)):
        if cells[k].makes & wanted:
            needed.append(k)
            wanted |= cells[k].reads
    return needed[::-1]


# ---- running them


def run(code, names, label):
    "Execute a cell (or its tree) as the notebook does, its figures closed unseen."
    exec(compile(code, label, "exec"), names)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def forked(task, seconds=SECONDS):
    """What `task()` returns in a copy of this process, None if it takes longer; what it
    prints is not seen."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        os.close(read_end)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        result = task()
        with open(write_end, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(write_end)
    chunks, limit, result = [], time.monotonic() + 20 * seconds, None
    with open(read_end, "rb", buffering=0) as pipe:
        while (left := limit - time.monotonic()) > 0:
            if select.select([pipe], [], [], left)[0]:
                chunks.append(pipe.read(1 << 16))
                if not chunks[-1]:
                    break
    with contextlib.suppress(EOFError, pickle.UnpicklingError):
        result = pickle.loads(b"".join(chunks))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return result


def equal(new, old):
    "Whether two values are the same but for rounding."
    if bool(np.all(np.asarray(new == old))):
        return True
    return isinstance(new, float | np.ndarray) and np.allclose(
        new, old, rtol=1e-12, atol=0
    )


class Watch:
    """Evaluates an altered expression beside the original one, and remembers whether
    the two ever differed, and in an inequality, which is the stronger statement."""

    def __init__(self):
        self.reached, self.same, self.weaker = False, True, True

    def __call__(self, original, altered, grows=None):
        """`grows`: whether a larger value makes the inequality stronger; None if
        neither."""
        self.reached = True
        new = altered()
        try:
            old = original()
            self.same &= equal(new, old)
            if grows is not None:
                weaker = new <= old if grows else new >= old
                self.weaker &= bool(np.all(np.asarray(weaker)))
        except Exception:
            self.same = self.weaker = False
        self.weaker &= grows is not None
        return new

    def verdict(self):
        "Why a mutant that survived may be harmless."
        if not self.reached:
            return "not reached"
        return "same values" if self.same else "weaker" if self.weaker else ""


UNWATCHED = ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Starred


def watched(tree, path, node):
    """A cell's tree with `__watch__(lambda: original, lambda: altered)` at a path; the
    tree with the altered node alone where the original cannot be evaluated beside it.

    In an inequality the whole side is watched, and which way it is stronger is told.
    """
    original = node_at(tree, path)
    parents = [node_at(tree, path[:k]) for k in range(len(path) + 1)]
    compiled = any(getattr(parent, "decorator_list", ()) for parent in parents)
    pieces = list(ast.walk(original))
    if (
        compiled
        or any(isinstance(part, UNWATCHED) for part in pieces)
        or any(getattr(part, "id", "") == "super" for part in pieces)
        or is_drawn(original)
    ):
        return replaced(tree, path, node)
    whole, grows = len(path), None
    for k in range(len(path)):
        if isinstance(parents[k], ast.Compare) and any(
            isinstance(parent, ast.Assert) for parent in parents
        ):
            inner = parents[k + 1 :]
            if not any(isinstance(part, UNWATCHED) for part in inner):
                whole, grows = k + 1, direction(parents[k], path[k])
    altered = node_at(replaced(tree, path, node), path[:whole])
    lambdas = [
        ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)
        for body in (parents[whole], altered)
    ]
    call = ast.Call(ast.Name("__watch__", ast.Load()), lambdas, [])
    if grows is not None:
        call.args.append(ast.Constant(grows))
    return replaced(tree, path[:whole], call)


def direction(compare, step):
    "Whether a larger operand makes a comparison stronger; None if one cannot say."
    place = 0 if step[0] == "left" else step[1] + 1
    ways = set()
    for k, op in enumerate(compare.ops):
        if place in (k, k + 1):
            if not isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                return None
            ways.add(isinstance(op, ast.Gt | ast.GtE) == (place == k + 1))
    return ways.pop() if len(ways) == 1 else None


def quiet():
    "Print and warn nowhere."
    sys.stdout = sys.stderr = io.StringIO()
    warnings.simplefilter("ignore")


def is_kernel(statement):
    "Whether a function is to be compiled: a stand-in would run in its place for long."
    decorators = getattr(statement, "decorator_list", ())
    return any("kernel" in ast.unparse(each) for each in decorators)


def trial(sources, names, watch=None, compiled=False):
    """Run cells one after another: what stops them, or an empty text; and the watch.
    `compiled`: machine code from the first call on."""
    quiet()
    if compiled:
        importlib.import_module("privglasso.base.kernels").buy()
    names["__watch__"] = watch
    for label, code in sources:
        try:
            run(code, names, label)
        except BaseException as error:
            return f"{type(error).__name__} in {label}", ""
    return "", watch.verdict() if watch else ""


def statement_at(tree, path):
    "The top-level statement of a cell in which a path lies."
    return tree.body[path[0][1]]


def try_mutant(cells, place, path, node, names):
    "Whether the chapter's own cells notice a mutant, and how."
    tree = ast.parse(cells[place].code)
    later = []
    if not isinstance(statement_at(tree, path), ast.Assert):
        later = after_change(cells, place, cells[place].makes)
    sources = [(cells[place].id, watched(tree, path, node))]
    sources += [(cells[k].id, cells[k].code) for k in later]
    compiled = is_kernel(statement_at(tree, path))
    return forked(lambda: trial(sources, names, Watch(), compiled))


# ---- assertions change nothing: all mutants of a cell's assertions in one run


class Probes:
    "Altered assertions, evaluated beside the ones that hold."

    def __init__(self):
        self.failed, self.watches = {}, {}

    def __call__(self, key, test):
        "Evaluate one altered assertion; a failure is kept."
        if key in self.failed:
            return
        try:
            if not test(self.watches.setdefault(key, Watch())):
                self.failed[key] = "AssertionError"
        except Exception as error:
            self.failed[key] = type(error).__name__


def assertion(tree, path):
    "How far a path leads to the assertion it lies in; None if one may not repeat it."
    for k in range(len(path)):
        here = node_at(tree, path[:k])
        if isinstance(here, ast.Assert):
            drawn = is_drawn(here) or any(
                isinstance(part, UNWATCHED) or getattr(part, "id", "") == "next"
                for part in ast.walk(here)
            )
            return None if drawn else k
    return None


def probed(code, sites):
    "A cell whose assertions are each followed by their altered copies."
    tree = ast.parse(code)
    beside = {}
    for key, (path, node) in enumerate(sites):
        k = assertion(tree, path)
        altered = node_at(watched(tree, path, node), path[:k]).test
        argument = ast.arguments([], [ast.arg("__watch__")], None, [], [], None, [])
        call = ast.Call(
            ast.Name("__probe__", ast.Load()),
            [ast.Constant(key), ast.Lambda(argument, altered)],
            [],
        )
        beside.setdefault(path[:k], []).append(ast.Expr(call))
    # from the last to the first, so that places stay what they are
    for path in sorted(beside, key=lambda p: [k or 0 for _, k in p], reverse=True):
        (field, k), body = path[-1], node_at(tree, path[:-1])
        getattr(body, field)[k + 1 : k + 1] = beside[path]
    return ast.fix_missing_locations(tree)


class Overlay:
    "Imports one module from altered source, kept in a file of its own for numba."

    def __init__(self, name, source):
        self.name, self.folder = name, tempfile.mkdtemp()
        self.file = Path(self.folder, name.rpartition(".")[2] + ".py")
        self.file.write_text(source, encoding="utf-8")

    def find_spec(self, name, path=None, target=None):
        "The altered file for the one module, nothing for others."
        if name == self.name:
            return importlib.util.spec_from_file_location(name, self.file)
        return None


def altered_module(path, cell, altered):
    "Name and source of the module that a chapter exports, one cell altered."
    module = "privglasso." + module_of(nbformat.read(path, as_version=4))
    file = (ROOT / Path(*module.split("."))).with_suffix(".py")
    source = file.read_text(encoding="utf-8")
    if cell not in source:
        return None
    return module, source.replace(cell, altered)


def try_elsewhere(chapter, path, code, altered):
    "Whether the proofs in another chapter, or the module's tests, notice a mutant."
    found = altered_module(path, code, altered)
    if found is None:
        return ""
    package, _, name = found[0].removeprefix("privglasso.").rpartition(".")
    file = ROOT / "tests" / package / f"test_{name}.py"
    if file.exists() and (by := forked(lambda: overlaid_tests(found, file), SECONDS)):
        return by
    for proof in PROVED_IN.get(chapter, ()):
        result = forked(lambda proof=proof: overlaid_chapter(found, proof))
        if result and result[0]:
            return f"{result[0]} of {proof}"
    return ""


def overlaid_chapter(found, proof):
    "A whole chapter, with one module altered."
    sys.meta_path.insert(0, Overlay(*found))
    path = ROOT / "nbs" / f"{proof}.ipynb"
    os.chdir(path.parent)
    cells = read_cells(path)
    return trial([(c.id, c.code) for c in cells], {"__name__": "__main__"})


def overlaid_tests(found, file):
    "A file of tests, with one module altered."
    import pytest

    sys.meta_path.insert(0, Overlay(*found))
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-W", "ignore", "--rootdir", str(ROOT), "-o", "addopts="]
    options += ["--import-mode=importlib"]
    code = pytest.main([*options, str(file)])
    return "" if code == 0 else f"tests/{file.parent.name}/{file.name}"


# ---- all of them


def paths():
    "{part/chapter: path} of the proof chapters."
    return {
        f"{part}/{path.stem}": path
        for part in PARTS
        for path in sorted((ROOT / "nbs" / part).glob("*.ipynb"))
        if not path.stem.startswith("00_")
    }


def facts(chapter, cells):
    """[(place, mutant, path, replacement)] of a chapter. Of a cell that is not exported
    only what is, or leads to, an assertion."""
    names = claimed(cells)
    return [
        (place, mutant, *change)
        for place, cell in enumerate(cells)
        for mutant, change in mutants_of(
            chapter, cell.id, cell.code, None if cell.exported else names
        ).items()
    ]


def digest(cells):
    "Eight letters that change with the code of a chapter."
    text = "\0".join(cell.code for cell in cells)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


COLUMNS = ("chapter", "cell", "where", "before", "after", "nth", "outcome", "by")


def short(text, length=100):
    "A piece of code on one line, its middle left out if it is long."
    text = " ".join(text.split())
    half = length // 2 - 1
    return text if len(text) <= length else f"{text[:half]} … {text[-half:]}"


def labelled(mutant):
    "A mutant as it stands in the list: only the part that differs, shortened."
    before, after = mutant.before, mutant.after
    return mutant._replace(before=short(before), after=short(after))


def lot(mutant, *seed):
    "A number from 0 to 1 that is drawn once for a mutant, the same on every machine."
    text = "\0".join(map(str, (*mutant, *seed))).encode()
    return int(hashlib.sha256(text).hexdigest()[:8], 16) / 2**32


def outside_assertions(chapter, cells):
    "The mutants of a chapter that change something, and so need a run of their own."
    trees = [ast.parse(cell.code) for cell in cells]
    return [
        mutant
        for place, mutant, way, _ in facts(chapter, cells)
        if assertion(trees[place], way) is None
    ]


SEED = 15


def sampled(alone, size):
    """The mutants with the lowest lots of each chapter: `size` of `alone` in all, each
    chapter's share its share of all of them."""
    total = sum(map(len, alone.values()))
    picked, before = {}, 0
    for chapter, mutants in alone.items():
        after = before + len(mutants)
        count = after * size // total - before * size // total
        picked[chapter] = set(
            sorted(mutants, key=lambda mutant: lot(mutant, SEED))[:count]
        )
        before = after
    return picked


def preload():
    "Import once what every forked copy needs."
    import matplotlib

    matplotlib.use("Agg")
    for name in ("numba", "sklearn.base", "scipy.stats", "scipy.optimize", "sympy"):
        importlib.import_module(name)
    for name in ("pandas", "matplotlib.pyplot", "seaborn", "mpmath", "networkx"):
        importlib.import_module(name)


def outcome_of(by, harmless):
    "A row's last columns."
    if by is None:
        return "killed", "time"
    return ("killed", by) if by else ("survived", harmless)


def run_chapter(chapter, picked, known=()):
    """Yield (mutant, outcome, by) for the mutants of a chapter that are not known: all
    those of assertions, and those `picked`; runs in a process of its own, since the
    chapter's state is kept in it."""
    path = paths()[chapter]
    os.chdir(path.parent)
    cells, names = read_cells(path), {"__name__": "__main__"}
    probes, alone = {}, {}
    for place, mutant, *change in facts(chapter, cells):
        if labelled(mutant) in known:
            continue
        if assertion(ast.parse(cells[place].code), change[0]) is not None:
            probes.setdefault(place, []).append((mutant, *change))
        elif mutant in picked:
            alone.setdefault(place, []).append((mutant, *change))
    last = max([*probes, *alone], default=-1)
    for place, cell in enumerate(cells[: last + 1]):
        for mutant, way, node in alone.get(place, ()):
            found = try_mutant(cells, place, way, node, names) or (None, "")
            yield labelled(mutant), *outcome_of(*found)
        here = probes.get(place, ())
        names["__probe__"] = probe = Probes()
        run(probed(cell.code, [site[1:] for site in here]), names, cell.id)
        for key, (mutant, *_) in enumerate(here):
            by = probe.failed.get(key, "")
            watch = probe.watches.get(key, Watch())
            yield (
                labelled(mutant),
                *outcome_of(by and f"{by} in {cell.id}", watch.verdict()),
            )


def second_look(chapter, mutant):
    "The verdict of another chapter's proofs and of the tests on an exported survivor."
    path = paths()[chapter]
    cells = read_cells(path)
    for place, other, way, node in facts(chapter, cells):
        if labelled(other) == mutant and cells[place].exported:
            tree = ast.parse(cells[place].code)
            start, stop = line_span(statement_at(tree, way))
            lines = cells[place].code.splitlines()
            altered = replaced(tree, way, node)
            lines[start:stop] = ast.unparse(statement_at(altered, way)).splitlines()
            by = try_elsewhere(chapter, path, cells[place].code, "\n".join(lines))
            return by
    return ""


def line_span(statement):
    "The lines of a top-level statement, decorators and all."
    decorators = getattr(statement, "decorator_list", [])
    start = min([statement.lineno, *(d.lineno for d in decorators)])
    return start - 1, statement.end_lineno


def read_list(file=LIST):
    "{mutant: (digest, outcome, by)} of the list, as it is kept."
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {
            Mutant(*(row[c] for c in COLUMNS[:5]), int(row["nth"])): (
                row["code"],
                row["outcome"],
                row["by"],
            )
            for row in csv.DictReader(lines)
        }


def read_arguments(file=ARGUED):
    "{mutant, its place left out: why it may survive}."
    with file.open(encoding="utf-8", newline="") as lines:
        return {
            tuple(row[column] for column in COLUMNS[:5]): row["why"]
            for row in csv.DictReader(lines)
        }


HARMLESS = {
    "weaker": "the altered inequality is implied by the original one, hence true",
    "same values": "it has the same values in every evaluation, so it says the same",
}


def is_argued(mutant, by, arguments):
    "Whether a survivor is harmless of itself, or argued."
    return by in HARMLESS or bool(arguments.get(tuple(map(str, mutant[:5]))))


def write_list(rows, file=LIST):
    "Write the list whole, in the order of the chapters."
    part = file.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["code", *COLUMNS])
        for mutant, (code, *rest) in rows.items():
            writer.writerow([code, *mutant, *rest])
    part.replace(file)


def retried(mutant):
    """The outcome of one listed mutant, tried again upon the earlier cells that its own
    rests upon; None if the chapter no longer has it, or these cells do not run."""
    path = paths()[mutant.chapter]
    cells = read_cells(path)
    for place, other, *change in facts(mutant.chapter, cells):
        if labelled(other) == mutant:
            task = partial(upon_its_own, path, cells, place, *change)
            return forked(task, 2 * SECONDS)
    return None


def rewritten(chapter, cell_id, old, new):
    "The outcome of a text put in place of another in one cell, as in `retried`."
    path = paths()[chapter]
    cells = read_cells(path)
    (place,) = (k for k, cell in enumerate(cells) if cell.id == cell_id)
    altered = cells[place].code.replace(old, new, 1)
    if altered == cells[place].code:
        return None
    later = after_change(cells, place, cells[place].makes)
    before = [(cells[k].id, cells[k].code) for k in before_cell(cells, place)]
    after = [(cells[k].id, cells[k].code) for k in later]

    def task():
        os.chdir(path.parent)
        names = {"__name__": "__main__"}
        stopped, _ = trial(before, names)
        return stopped, forked(lambda: trial([(cell_id, altered), *after], names))

    stopped, found = forked(task, 2 * SECONDS)
    return None if stopped else outcome_of(*(found or (None, "")))


def upon_its_own(path, cells, place, way, node):
    "The outcome of a mutant, without the cells before that do not matter to it."
    os.chdir(path.parent)
    names = {"__name__": "__main__"}
    before = [(cells[k].id, cells[k].code) for k in before_cell(cells, place)]
    if trial(before, names)[0]:
        return None
    found = try_mutant(cells, place, way, node, names) or (None, "")
    if trial([(cells[place].id, cells[place].code)], names)[0]:
        return None
    return outcome_of(*found)


def in_process(chapter, picked, known):
    "`run_chapter` in a forked process: yields what it yields."
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        with open(write_end, "wb") as pipe:
            for item in run_chapter(chapter, picked, known):
                pickle.dump(item, pipe)
                pipe.flush()
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe, contextlib.suppress(EOFError):
        while True:
            yield pickle.load(pipe)
    os.waitpid(child, 0)


def main(arguments=None):
    "Run what is not in the list yet."
    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "only", nargs="*", help="chapters, such as 5_papers/10_fill_in"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of all mutants")
    parser.add_argument("--sample", type=int, help="so many of all, for an estimate")
    parser.add_argument(
        "--elsewhere", action="store_true", help="ask the tests as well"
    )
    parser.add_argument("--count", action="store_true", help="only count them")
    options = parser.parse_args(arguments)
    preload()
    rows, alone = read_list(), {}
    for chapter, path in paths().items():
        alone[chapter] = outside_assertions(chapter, read_cells(path))
    if options.sample is None:
        drawn = {
            chapter: {mutant for mutant in mutants if lot(mutant) < options.share}
            for chapter, mutants in alone.items()
        }
    else:
        drawn = sampled(alone, options.sample)
    for chapter, path in paths().items():
        if options.only and chapter not in options.only:
            continue
        cells = read_cells(path)
        code = digest(cells)
        order = [labelled(site[1]) for site in facts(chapter, cells)]
        rows = {
            mutant: row
            for mutant, row in rows.items()
            if mutant.chapter != chapter or (row[0] == code and mutant in set(order))
        }
        left_out = set(alone[chapter]) - drawn[chapter]
        picked = [
            mutant for _, mutant, *_ in facts(chapter, cells) if mutant not in left_out
        ]
        todo = [m for m in map(labelled, picked) if m not in rows]
        if options.count:
            print(f"{chapter:40} {len(order):5} facts, {len(todo)} to run")
            continue
        bar = tqdm(in_process(chapter, drawn[chapter], set(rows)), chapter, len(todo))
        for count, (mutant, outcome, by) in enumerate(bar):
            rows[mutant] = (code, outcome, by)
            if count % 50 == 0:
                write_list(rows)
        write_list(rows)
        if options.elsewhere:
            look_elsewhere(chapter, rows)


def look_elsewhere(chapter, rows):
    "Ask other chapters' proofs and the tests about a chapter's exported survivors."
    from tqdm import tqdm

    exported = {cell.id for cell in read_cells(paths()[chapter]) if cell.exported}
    open_ones = [
        mutant
        for mutant, (_, outcome, by) in rows.items()
        if mutant.chapter == chapter and mutant.cell in exported
        if outcome == "survived" and by in ("", "not reached")
    ]
    for mutant in tqdm(open_ones, f"{chapter}, elsewhere"):
        found = second_look(chapter, mutant)
        outcome = ("killed", found) if found else ("survived", "tests, too")
        rows[mutant] = (rows[mutant][0], *outcome)
        write_list(rows)


if __name__ == "__main__":
    sys.exit(main())
