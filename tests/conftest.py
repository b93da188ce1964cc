"""Plant the fault named in KVLAB_FAULT for the whole run, before any test module is imported (see mutate.py)."""

import os
from contextlib import ExitStack

import pytest

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
