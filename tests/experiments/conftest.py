"What tests of the experiments share."

import warnings
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from privglasso.experiments.peers import LIBRARIES


@pytest.fixture
def absent_peers_are_named():
    "A context in which every peer that is not installed is named, and nothing else."

    @contextmanager
    def named():
        absent = {p for p, names in LIBRARIES.items() if not all(map(find_spec, names))}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        said = [str(w.message).partition(" was not run") for w in caught]
        assert absent <= {name for name, *_ in said} <= {*LIBRARIES}
        assert all(reason for *_, reason in said)

    return named
