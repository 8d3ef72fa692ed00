"""What all tests share: what a checkout passes depends on the checkout alone."""

import gc
import os

import pytest
from hypothesis import settings

gc.disable()  # what is imported and collected stays: to look for garbage is in vain

# New examples: pytest --hypothesis-profile=default
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("steady")

# No test reaches beyond this machine, nor does a process that a test starts.
for name in ("http_proxy", "https_proxy"):
    os.environ[name] = os.environ[name.upper()] = "http://127.0.0.1:9"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"


LONG = ("test_core_install.py", "test_mutate.py", "test_cli.py")


def pytest_collection_modifyitems(items):
    "Few tests that take long come first: at the end, one worker would wait for them."
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_collection_finish():
    "From here on garbage is looked for among what tests make, not among all modules."
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item):
    "Skip a test of registered data that are not on this machine, and name them."
    from privglasso.data_sets.dataset import data_cache, registered

    for marker in item.iter_markers("data"):
        files = {name: data_cache() / registered(name)["file"] for name in marker.args}
        missing = [name for name, path in files.items() if not path.exists()]
        if missing:
            pytest.skip(
                f"needs the data sets {', '.join(missing)}, which are not here: see"
                " privglasso data, or set PRIVGLASSO_DATA to a folder of them"
            )
