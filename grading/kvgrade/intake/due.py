"""When a unit is due, by the class's gradebook."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ..course import Course
from ..gradebook import connect


def due_date(course: Course, unit: str) -> datetime | None:
    """The due date of a unit, or None where the gradebook has none. No gradebook is made by asking."""
    address = course.db_url
    if address.startswith("sqlite:///") and not Path(address.removeprefix("sqlite:///")).is_file():
        return None
    from nbgrader.api import MissingEntry

    with connect(address, course.directory.course_id) as book:
        try:
            due = book.find_assignment(unit).duedate
        except MissingEntry:
            return None
    return due.replace(tzinfo=UTC) if due else None
