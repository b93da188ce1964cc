"""Plant the fault named in KVLAB_FAULT for the whole run, before any test module is imported (see mutate.py)."""

import os
from contextlib import ExitStack

import pytest

from jail_session import running  # noqa: F401 - fixtures, for every test that asks for them
from jailed import begin, grader  # noqa: F401 - fixtures, for every test that asks for them

_planted = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    name = os.environ.get("KVLAB_FAULT")
    if name:
        from kvlab import faults

        stack = config.stash[_planted] = ExitStack()
        stack.enter_context(faults.plant(name))


def pytest_unconfigure(config: pytest.Config) -> None:
    if _planted in config.stash:
        config.stash[_planted].close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long forms to `make test-all`; what is left out is counted as deselected."""
    if os.environ.get("KVLAB_FULL") == "1":
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
