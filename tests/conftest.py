"""Plant the fault named in KVLAB_FAULT for the whole run, before any test module is imported (see mutate.py)."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jail_session import running  # noqa: F401 - fixtures, for every test that asks for them
from jailed import begin, grader  # noqa: F401 - fixtures, for every test that asks for them

if TYPE_CHECKING:
    from kvgrade.course import Course

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


@pytest.fixture
def course(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A copy of the class of tests/graded_class.py, for whoever wants one. Modules with another class have their own."""
    import graded_class  # nbgrader takes a second to import
    from kvgrade.course import Course

    shutil.copytree(graded_class.once(tmp_path_factory), tmp_path / "class")
    return Course.find(tmp_path / "class")
