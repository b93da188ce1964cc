"""A small course with one unit (tests/fixtures/90_tiny.py), for the tests of the builder."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from kvgrade import build, units

REPO = Path(__file__).parents[1]
TINY = Path(__file__).parent / "fixtures" / "90_tiny.py"
NAME = "90_tiny"

ENV = {
    **{key: value for key, value in os.environ.items() if key not in ("NBGRADER_EXECUTION", "KVLAB_STRICT")},
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    # nbgrader calls `alembic` by name, as it finds it in an activated environment.
    "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", ""),
}


def quiet(_: str) -> None:
    """For `write`: say nothing."""


def course(root: Path, edit: Callable[[str], str] = lambda text: text) -> Path:
    """A course folder with one unit, the fixture as `edit` leaves it."""
    (root / "grading" / "units").mkdir(parents=True)
    shutil.copy(REPO / "grading" / "nbgrader_config.py", root / "grading")
    (root / "grading" / "units" / TINY.name).write_text(edit(TINY.read_text(encoding="utf-8")), encoding="utf-8")
    return root


def write(root: Path) -> bytes:
    """Build the course and give the released notebook."""
    build.write(units.find_units(root=root), root, quiet)
    return (root / "notebooks" / f"{NAME}.ipynb").read_bytes()


def replace(old: str, new: str) -> Callable[[str], str]:
    """An edit that must find what it replaces, once at least."""

    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return edit
