"""The folder of a class: nbgrader's settings, hand-ins, gradebook, and the results of this grader.

It is the folder with `nbgrader_config.py`: `grading/` of the checkout, or any other that holds a copy of that file.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .units import ROOT, find_units

CONFIG = "nbgrader_config.py"
STRUCTURE = "{nbgrader_step}/{student_id}/{assignment_id}"  # nbgrader's default, and the only one here


class CourseError(RuntimeError):
    """What is asked can't be done in this folder. The text says what to do."""


@dataclass(frozen=True)
class Course:
    """A class. `root` is absolute; `aside`: where a dry run keeps what it must not write into the class, else None."""

    root: Path
    aside: Path | None = None

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
        structure = settings.CourseDirectory.get("directory_structure", STRUCTURE)
        if Path(structure) != Path(STRUCTURE):
            raise CourseError(
                f"{self.root / CONFIG} sets directory_structure to {structure!r}; leave it {STRUCTURE!r}."
            )
        if self.aside:
            settings.CourseDirectory.db_url = f"sqlite:///{self.aside / 'gradebook.db'}"
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

    def named(self, step: str) -> str:
        """What nbgrader calls the folder of a step: `submitted`, `release`, … unless nbgrader_config.py says otherwise.

        It is `directory.<step>_directory`, without nbgrader, whose import takes seconds.
        """
        return str(self.settings.CourseDirectory.get(f"{step}_directory", step))

    def folder(self, step: str, student: str, unit: str) -> Path:
        """A folder of nbgrader's, as its `format_path`: `step` is a name from `named`, the student of a release is `.`."""
        return self.root / STRUCTURE.format(nbgrader_step=step, student_id=student, assignment_id=unit)

    def released(self, unit: str) -> Path:
        """The notebook that learners were given. Raises CourseError when it is not here, or is damaged."""
        path = self.folder(self.named("release"), ".", unit) / f"{unit}.ipynb"
        if not path.is_file():
            raise CourseError(f"{unit} is not released here: run `nbgrader generate_assignment {unit}` in {self.root}.")
        try:
            whole = all(isinstance(cell["metadata"], dict) for cell in json.loads(path.read_bytes())["cells"])
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise CourseError(
                f"{path} is damaged, and hand-ins are graded by it: restore your copy of it, or run "
                f"`nbgrader generate_assignment {unit} --force` in {self.root}."
            )
        return path

    def submitted(self, unit: str) -> dict[str, Path]:
        """The folders of all hand-ins of a unit, by student, sorted; without those that are `unnamed`."""
        return {student: folder for student, folder in self._handed_in(unit).items() if student.isprintable()}

    def unnamed(self, unit: str) -> dict[str, Path]:
        """The folders of hand-ins whose name is no student's: control characters, or bytes that are not UTF-8.

        Neither the gradebook nor a result file can hold such a name.
        """
        return {student: folder for student, folder in self._handed_in(unit).items() if not student.isprintable()}

    def _handed_in(self, unit: str) -> dict[str, Path]:
        base = self.root / self.named("submitted")
        found = {path.parent.name: path for path in base.glob(f"*/{unit}") if path.is_dir() and not path.is_symlink()}
        return {student: found[student] for student in sorted(found) if not student.startswith(".")}

    def results(self, unit: str) -> Path:
        """The folder of a unit's result files; in a dry run the class's own only where it has been graded before."""
        own = self.root / "results" / unit
        return self.aside / "results" / unit if self.aside and not own.is_dir() else own

    @property
    def locks(self) -> Path:
        """The folder of lock files."""
        return self.aside or self.root / "results"
