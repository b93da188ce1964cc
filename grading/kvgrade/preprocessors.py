"""nbgrader's two weak steps, replaced: its sanitising by a graft, its execution by the jail. nbgrader stays unmodified.

`nbgrader_config.py` names the classes. `nbgrader autograde` reads each hand-in through `HandInExporter`, puts its
answers into the released notebook (`Graft`), and writes the jail's marks into the check cells (`GradeInJail`), where
nbgrader's own SaveAutoGrades finds them. So the gradebook, formgrader, feedback and export work as ever.
`kvgrade grade` makes the same notebook and the same rows for a whole class (`merge.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_notebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float

from . import feedback, grade, graft, handin, seeds
from .folders import SET_ASIDE, adopt, set_aside
from .graft import KEY
from .texts import clean


class HandInExporter(NotebookExporter):
    """Reads hand-ins as the hostile bytes they are. nbgrader makes one exporter for a run, before it looks into any."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for folder, notebooks in getattr(self.parent, "assignments", {}).items():
            try:
                set_aside(Path(folder), self.log.warning)
                notebooks += adopt(Path(folder), self.log.warning)
            except OSError as error:  # costs its owner what comes of it, nobody else anything
                self.log.warning("%s can't be prepared: %s", clean(folder), clean(str(error)))

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Export a notebook file. A hand-in goes to `Graft` as bytes; the grafted file is our own and read as usual."""
        if not getattr(self.parent, "_sanitizing", False):
            return super().from_filename(filename, resources=resources, **kwargs)
        resources = dict(resources or {})
        try:
            found: bytes | handin.Unreadable = handin.read(Path(filename))
        except handin.Unreadable as error:
            found = error
        resources[KEY] = found
        return self.from_notebook_node(new_notebook(), resources)


class Graft(NbGraderPreprocessor):
    """Start from the released notebook and put only the learner's answers into it."""

    def preprocess(self, nb: Any, resources: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        marks = resources["nbgrader"]
        course = CourseDirectory(config=self.config)
        released = Path(
            course.format_path(course.release_directory, ".", marks["assignment"]), f"{marks['notebook']}.ipynb"
        )
        if not released.exists():
            raise RuntimeError(f"{released} is missing: run `nbgrader generate_assignment {marks['assignment']}` first")
        master = nbformat.read(released, as_version=4)
        data = resources.pop(KEY)
        if isinstance(data, handin.Unreadable):
            found = handin.HandIn(unreadable=str(data))
        else:
            found = handin.collect(data, json.loads(released.read_text(encoding="utf-8")))
        if found.unreadable:
            self.log.warning("%s of %s can't be read: %s", marks["notebook"], marks["student"], found.unreadable)
        for fact in found.facts:
            self.log.warning("%s of %s: %s", marks["notebook"], marks["student"], fact)
        graft.put(master, graft.answers(found.answers, master), found.facts, found.unreadable)
        return master, resources


class GradeInJail(NbGraderPreprocessor):
    """Mark the answers in a jail and leave points and feedback as the outputs of the check cells."""

    unsafe_no_sandbox = Bool(
        False, help="Run answers with the grader's own rights where there is no jail. Every mark then says so."
    ).tag(config=True)
    case_seconds = Float(0.0, help="Wall clock for one case; 0 for what each exercise says.").tag(config=True)
    seconds = Float(75.0, help="Wall clock for one exercise.").tag(config=True)

    def preprocess(self, nb: Any, resources: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        marks = resources["nbgrader"]
        found = nb.metadata.get(KEY, {})
        answered, facts = found.get("answered", []), found.get("facts", [])
        course = Path(CourseDirectory(config=self.config).root)
        report = grade.grade(
            marks["notebook"],
            {place.name: place.stub for place in handin.places(nb) if place.name in answered},
            seeds.seed(course, marks["assignment"]),
            isolated=not self.unsafe_no_sandbox,
            seconds=self.seconds,
            case_seconds=self.case_seconds or None,
        )
        if report.fault:  # nbgrader leaves the hand-in ungraded, and says so
            raise RuntimeError(report.fault)
        seen = list(dict.fromkeys(report.facts))
        for fact in seen:
            self.log.warning("%s of %s: %s", marks["notebook"], marks["student"], fact)
        unreadable = found.get("unreadable", "")
        words = {name: feedback.text(report, name, facts, unreadable) for name in report.verdicts}
        graft.mark(nb, {name: (report.verdicts[name].points, text) for name, text in words.items()})
        graft.note(nb, answered, list(dict.fromkeys([*facts, *seen])), unreadable)
        return nb, resources


__all__ = ["KEY", "SET_ASIDE", "GradeInJail", "Graft", "HandInExporter", "adopt", "set_aside"]
