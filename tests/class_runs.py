"""A small class of unit 01 for the tests of `kvgrade grade`, the command itself, and what a run leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers import ROOT
from hostile import tricks
from hostile.course import Course
from hostile.model import MAIN, UNIT, Notebook, dump, filled

MATERIAL = tricks.material(ROOT)
UNSAFE = "--unsafe-no-sandbox"


def hand_in(course: Course, student: str, data: bytes, **files: str) -> Path:
    """Put a notebook into a student's folder; `files` are others, by name without .txt."""
    folder = course.submitted(student)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MAIN).write_bytes(data)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def essay(text: str) -> Notebook:
    """Right answers, and this text as the written answer."""
    notebook = filled(MATERIAL, MATERIAL.right)
    next(c for c in notebook["cells"] if "which_may_share" in str(c["metadata"]))["source"] = text
    return notebook


def small_class(course: Course) -> None:
    """Right, wrong, untouched, unreadable, partial and late, odd: one of each."""
    hand_in(course, "anna", dump(essay("Because <b>of</b> the mask.\r\n")))
    hand_in(course, "bob", dump(filled(MATERIAL, MATERIAL.wrong)))
    hand_in(course, "carl", dump(MATERIAL.notebook))
    hand_in(course, "dora", b"this is no notebook")
    late = {"timestamp": "2026-11-02 12:00:00 UTC", "notes": "my notes"}
    hand_in(course, "emil", dump(filled(MATERIAL, {"KVCache": MATERIAL.right["KVCache"]})), **late)
    odd = filled(MATERIAL, MATERIAL.right | {"KVCache": MATERIAL.wrong["KVCache"] + "\n" + "  \n" * 150})
    odd["cells"] = [c for c in odd["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") != "check-KVCache"]
    hand_in(course, "fred", dump(odd))


def environment(course: Course) -> dict[str, str]:
    """A process environment with our modules on the path and a home in the course folder."""
    keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    keep["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), keep.get("PATH", os.defpath)])
    path = os.pathsep.join(str(ROOT / name) for name in ("grading", "src"))
    return {**keep, "HOME": str(course.folder / "home"), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kvgrade", *arguments]


def kvgrade(course: Course, *arguments: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
    """Run `python -m kvgrade` in the course folder."""
    return subprocess.run(
        command(*arguments),
        cwd=course.folder,
        env=environment(course),
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=timeout,
    )


def copied(course: Course, folder: Path) -> Course:
    """A copy of a course in another folder. It must not be built yet."""
    shutil.copytree(course.folder, folder, symlinks=True)
    return Course(folder)


def database(course: Course) -> dict[str, list[Any]]:
    """Every row of the gradebook that concerns hand-ins, by names in place of random ids, sorted."""
    from nbgrader import api

    found: dict[str, list[Any]] = {"students": [], "hand-ins": [], "grades": [], "comments": [], "cells": []}
    with api.Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}", "llm-internals") as book:
        found["students"] = sorted((s.id, s.first_name, s.last_name, s.email, s.lms_user_id) for s in book.students)
        for assignment in book.assignments:
            found["cells"].append((assignment.name, str(assignment.duedate), assignment.course_id))
            for notebook in assignment.notebooks:
                found["cells"].append((notebook.name, notebook.kernelspec))
                for cell in notebook._base_cells:
                    found["cells"].append((cell.name, cell.type, getattr(cell, "max_score", None)))
                for cell in notebook.source_cells:
                    found["cells"].append((cell.name, cell.cell_type, cell.locked, cell.checksum, cell.source))
            for one in assignment.submissions:
                (notebook,) = one.notebooks
                times = (str(one.timestamp), str(one.extension), one.total_seconds_late)
                found["hand-ins"].append((one.student.id, *times, notebook.flagged, notebook.late_submission_penalty))
                for g in notebook.grades:
                    marks = (g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade)
                    found["grades"].append((one.student.id, g.cell.name, g.cell.type, *marks))
                for c in notebook.comments:
                    found["comments"].append((one.student.id, c.cell.name, c.auto_comment, c.manual_comment))
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def notebooks(course: Course) -> dict[str, bytes]:
    """Each graded notebook and timestamp, by its path in autograded/."""
    base = course.folder / "autograded"
    names = (MAIN, "timestamp.txt")
    return {str(p.relative_to(base)): p.read_bytes() for p in sorted(base.rglob("*")) if p.name in names}


def result_files(course: Course) -> dict[str, Any]:
    """The result files of unit 01 without what differs from run to run."""
    found = {}
    for path in sorted((course.folder / "results" / UNIT).iterdir()):
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            content.pop("measured", None)
            found[path.name] = content
        else:
            found[path.name] = path.read_text(encoding="utf-8")
    return found
