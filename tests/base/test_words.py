"""Errors with attributes reach another process as they are."""

import importlib
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import privglasso
from privglasso.base.records import DamageError
from privglasso.base.shell import CommandError
from privglasso.base.validation import InputError
from privglasso.base.words import TypedError, WordsError
from privglasso.networks.changing import InfeasiblePeriodsError
from privglasso.privacy.budget import BudgetError
from privglasso.privacy.guarantee import Guarantee
from privglasso.publish.noise_correction import CovarianceError
from privglasso.publish.release import NotAnArrayError
from privglasso.recover.efficient_search import HiddenGraphError
from privglasso.recover.false_discoveries import NamedPairsError
from privglasso.recover.feasibility import ConvergenceError, InfeasibleError
from privglasso.recover.graphical_lasso import graphical_lasso
from privglasso.recover.selection import GraphFitError

MADE = [
    InputError("mu", -1.0, "give a positive number"),
    NotAnArrayError("release", "Release", "take its matrix"),
    WordsError("{box}: needs {pair}, not {found}", found="{braces}"),
    CommandError("no such file", code=3),
    DamageError("lattice.n", "must be a whole number"),
    CovarianceError(["a", "b"], "constant"),
    BudgetError(2.0, Guarantee(1.0, "record"), failure=0.1),
    InfeasibleError(0.1, 0.3, 0.2, np.eye(2)),
    InfeasiblePeriodsError(0.1, 0.3, 0.2, np.eye(2)),
    ConvergenceError(0.1, 0.3, 0.2),
    GraphFitError(0.1, 7),
    HiddenGraphError(2.0),
    NamedPairsError(2.0, 7, 0.1),
]


def errors_with_a_maker_of_their_own():
    "Every exception of the package that is made from more than its message."
    for module in pkgutil.walk_packages(privglasso.__path__, "privglasso."):
        if module.name.endswith("__main__"):
            continue
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and issubclass(each, Exception):
                if each.__module__ == module.name and "__init__" in vars(each):
                    yield each


def test_every_error_with_attributes_can_be_sent():
    kinds = set(errors_with_a_maker_of_their_own())
    assert all(issubclass(kind, TypedError) for kind in kinds) and len(kinds) >= 12
    assert kinds <= set(map(type, MADE))


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_it_was(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again).keys() == vars(error).keys()
    assert str(vars(again)) == str(vars(error))
    if isinstance(error, WordsError):
        assert again.at_the_shell() == error.at_the_shell()


def test_another_process_says_what_is_wrong():
    "The pool was broken, and said so, before errors could be sent."
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        with pytest.raises(InputError, match="^alpha=-1.0: give a number") as caught:
            pool.submit(graphical_lasso, np.eye(2), -1.0).result()
        assert caught.value.argument == "alpha"
        with pytest.raises(InfeasibleError, match="no solution exists") as caught:
            pool.submit(graphical_lasso, [[1.0, 3.0], [3.0, 1.0]], 0.1).result()
        assert caught.value.works > caught.value.lower_bound > 0.1
