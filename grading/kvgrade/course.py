"""The folder of a class: nbgrader's settings, hand-ins, gradebook, and the results of this grader.

It is the folder with `nbgrader_config.py`: `grading/` of the checkout, or any other that holds a copy of that file.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .units import ROOT, find_units

CONFIG = "nbgrader_config.py"


class CourseError(RuntimeError):
    """What is asked can't be done in this folder. The text says what to do."""


@dataclass(frozen=True)
class Course:
    """A class. `root` is absolute."""

    root: Path

    @classmethod
    def find(cls, folder: Path | None = None) -> Course:
        """The class in `folder`; by default in the current folder, else in the checkout's `grading/`."""
        places = [folder] if folder else [Path.cwd(), ROOT / "grading"]
        for place in places:
            if (place / CONFIG).is_file():
                return cls(place.resolve())
        raise CourseError(
            f"{places[0]} is no course folder: it has no {CONFIG}. Run this in grading/, or name the folder: --course."
        )

    def unit(self, word: str) -> str:
        """The name of a unit given by its name or number, such as `05`. Raises ValueError for an unknown one."""
        return find_units([word])[0].stem

    @functools.cached_property
    def settings(self) -> Any:
        """nbgrader_config.py as a traitlets Config, with this folder as the root."""
        from .release import load_config

        settings = load_config(self.root / CONFIG)
        settings.CourseDirectory.root = str(self.root)
        return settings

    @functools.cached_property
    def directory(self) -> Any:
        """nbgrader's CourseDirectory."""
        from nbgrader.coursedir import CourseDirectory

        return CourseDirectory(config=self.settings)

    @property
    def db_url(self) -> str:
        """The gradebook, as an SQLAlchemy address."""
        return str(self.directory.db_url)

    def folder(self, step: str, student: str, unit: str) -> Path:
        """A folder of nbgrader's: `step` is submitted, autograded, feedback or release (whose student is `.`)."""
        return Path(self.directory.format_path(step, student, unit))

    def released(self, unit: str) -> Path:
        """The notebook that learners were given. Raises CourseError when the unit is not released here."""
        path = self.folder(self.directory.release_directory, ".", unit) / f"{unit}.ipynb"
        if not path.is_file():
            raise CourseError(f"{unit} is not released here: run `nbgrader generate_assignment {unit}` in {self.root}.")
        return path

    def submitted(self, unit: str) -> dict[str, Path]:
        """The folders of all hand-ins of a unit, by student, sorted."""
        base = self.root / self.directory.submitted_directory
        found = {path.parent.name: path for path in base.glob(f"*/{unit}") if path.is_dir() and not path.is_symlink()}
        return {student: found[student] for student in sorted(found) if not student.startswith(".")}

    def results(self, unit: str) -> Path:
        """The folder of a unit's result files."""
        return self.root / "results" / unit
