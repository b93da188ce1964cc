"""nbgrader's two weak steps, replaced: its sanitising by a graft, its execution by the jail. nbgrader stays unmodified.

`nbgrader_config.py` names the classes. `nbgrader autograde` reads each hand-in through `HandInExporter`, puts its
answers into the released notebook (`Graft`), and writes the jail's marks into the check cells (`GradeInJail`), where
nbgrader's own SaveAutoGrades finds them. So the gradebook, formgrader, feedback and export work as ever.
"""

from __future__ import annotations

import json
import os
import re
import stat
import typing
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_notebook, new_output
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float

from . import feedback, grade, handin, seeds
from .texts import clean

SET_ASIDE = ".set-aside"
"""Ending of what a hand-in may not bring: nbgrader_config.py tells nbgrader to ignore it."""

KEY = "kvgrade"  # in a notebook's metadata, and in nbconvert's resources


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
        names = {place.grade_id: place.name for place in handin.places(master)}
        for cell in master.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if grade_id in names and names[grade_id] in found.answers:
                cell.source = _displayable(found.answers[names[grade_id]], cell.cell_type)
        master.metadata[KEY] = {"answered": sorted(found.answers), "facts": found.facts, "unreadable": found.unreadable}
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
        sources = {place.grade_id: place for place in handin.places(nb)}
        answers = {place.name: place.stub for place in sources.values() if place.name in found.get("answered", [])}
        course = Path(CourseDirectory(config=self.config).root)
        report = grade.grade(
            marks["notebook"],
            answers,
            seeds.seed(course, marks["assignment"]),
            isolated=not self.unsafe_no_sandbox,
            seconds=self.seconds,
            case_seconds=self.case_seconds or None,
        )
        for fact in dict.fromkeys(report.facts):
            self.log.warning("%s of %s: %s", marks["notebook"], marks["student"], fact)
        for cell in nb.cells:
            mark = cell.metadata.get("nbgrader", {})
            name = str(mark.get("grade_id", "")).removeprefix("check-")
            if cell.cell_type == "code" and mark.get("grade") and name in report.verdicts:
                words = feedback.text(report, name, found.get("facts", []), found.get("unreadable", ""))
                points = min(report.verdicts[name].points, float(mark["points"]))
                cell.outputs = [
                    new_output("stream", name="stdout", text=words),
                    new_output("execute_result", execution_count=1, data={"text/plain": repr(float(points))}),
                ]
        return nb, resources


def set_aside(folder: Path, say: typing.Callable[[str], object]) -> None:
    """Rename what nbgrader would stumble over when it copies a hand-in: links, pipes, devices, a broken timestamp.

    nbgrader follows links, so one to a file of the instructor's would come back to its owner with the feedback; a
    broken timestamp ends the run for the whole class. Nothing is deleted.
    """
    for where, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(where, name)
            mode = path.lstat().st_mode
            odd = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
            if name == "timestamp.txt" and not (stat.S_ISREG(mode) and _is_timestamp(path)):
                odd = True
            if odd and not name.endswith(SET_ASIDE):
                target = _free_name(path)
                path.rename(target)
                say(clean(f"{path} is no plain file, or no timestamp: it was renamed to {target.name} and not read"))


def _free_name(path: Path) -> Path:
    """A name that is ignored by nbgrader and not taken, short enough for any file system."""
    for number in range(10_000):
        target = path.with_name(f"{path.name[:80]}{f'-{number}' if number else ''}{SET_ASIDE}")
        if not os.path.lexists(target):
            return target
    raise FileExistsError(f"{path.parent} holds ten thousand files of one name")


def adopt(folder: Path, say: typing.Callable[[str], object]) -> list[str]:
    """Copy a lone notebook under another name, such as `01_kv_cache (1).ipynb`, to the name that nbgrader wants.

    A copy is made again when its original has changed. Returns the new copy's path, or nothing where the right name is
    taken, the choice is not clear, or the file is not one that would be read.
    """
    wanted, note = folder / f"{folder.name}.ipynb", folder / f"copied-from{SET_ASIDE}"
    others = [path for path in folder.glob("*.ipynb") if path != wanted]
    made_by_us = note.is_file() and not note.is_symlink()
    if len(others) != 1 or (os.path.lexists(wanted) and not made_by_us):
        return []
    try:
        data = handin.read(others[0])
    except handin.Unreadable:
        return []
    known = os.path.lexists(wanted)
    if known and handin.read(wanted) == data:
        return []
    partial = folder / f"{folder.name}.part{SET_ASIDE}"
    partial.write_bytes(data)
    partial.replace(wanted)
    note.write_text(f"{others[0].name!a}\n", encoding="ascii")
    say(clean(f"{others[0]} was copied to {wanted.name}, the name under which it is graded"))
    return [] if known else [str(wanted)]


def _displayable(source: str, cell_type: str) -> str:
    """An answer as it stands in the graded notebook, which becomes a web page.

    Lines of blanks take its highlighter quadratic time; a written answer could bring a script along.
    """
    source = re.sub(r"^[ \t\f\v]+$", "", source.replace("\r\n", "\n"), flags=re.M)
    source = re.sub(r"\n{100,}", "\n" * 100, source)
    if cell_type == "code":
        return source
    source = re.sub(r"<(?=[A-Za-z/?])", "&lt;", source.replace("&#", "&amp;#"))
    return re.sub(r"(?i)\b(javascript|vbscript|data)\s*:", r"\1 :", source)  # no link that runs


def _is_timestamp(path: Path) -> bool:
    from nbgrader.utils import parse_utc

    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(200)
        parse_utc(text.strip())
    except (ValueError, OverflowError, TypeError, AttributeError):
        return False
    return len(text) < 200


__all__ = ["KEY", "SET_ASIDE", "GradeInJail", "Graft", "HandInExporter", "adopt", "set_aside"]
