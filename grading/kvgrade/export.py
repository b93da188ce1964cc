"""Marks as a table: one row per student and unit, a column per exercise. `export_lms` makes the files for Canvas and Moodle.

A total that a person still has to complete is never a number: its cell is empty, and `state` says what is missing.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from . import results, standing
from .course import Course

COMPLETE, UNREADABLE, NO_HAND_IN, NOT_GRADED = "complete", "unreadable", "no hand-in", "handed in, not graded yet"
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


@dataclass(frozen=True)
class Row:
    """One student in one unit. `total` is None where there is none yet: `state` says why."""

    unit: str
    person: standing.Person
    state: str
    possible: float
    total: float | None = None
    standing: standing.Standing | None = None


def rows(course: Course, unit: str) -> list[Row]:
    """A row for each student of the gradebook, and for each who handed in and is not in it yet; sorted by id."""
    people, found = standing.people(course), standing.standings(course, unit)
    possible = sum(place.possible for place in standing.places(course, unit))
    graded, handed_in = results.merged(course.results(unit)), course.submitted(unit)
    made = []
    for student in sorted({*people, *handed_in}):
        person = people.get(student, standing.Person(student))
        stands = found.get(student)
        if stands is None:
            state = NOT_GRADED if student in handed_in else NO_HAND_IN
            made.append(Row(unit, person, state, possible))
        else:
            result = graded.get(student)
            unreadable = bool(result.unreadable) if result else _could_not_be_read(course, unit, student)
            state = _state(stands, unreadable)
            total = None if stands.unmarked else stands.total
            made.append(Row(unit, person, state, possible, total, stands))
    return made


def named(found: Sequence[Row], names: Mapping[str, standing.Person]) -> list[Row]:
    """Rows of one unit with what a roster knows of the students, where the gradebook is silent; and its other students."""
    made = [
        replace(row, person=_filled(row.person, names[row.person.id])) if row.person.id in names else row
        for row in found
    ]
    if found:
        here = {row.person.id for row in found}
        others = [names[student] for student in names if student not in here]
        made += [Row(found[0].unit, person, NO_HAND_IN, found[0].possible) for person in others]
    return sorted(made, key=lambda row: row.person.id)


def _filled(person: standing.Person, known: standing.Person) -> standing.Person:
    by_book = person.first or person.last
    first, last = (person.first, person.last) if by_book else (known.first, known.last)
    return standing.Person(person.id, first, last, person.email or known.email)


def _state(stands: standing.Standing, unreadable: bool) -> str:
    if ungraded := len(stands.ungraded):
        return f"incomplete: {ungraded} exercise{'s' * (ungraded > 1)} not graded yet"
    if unmarked := len(stands.unmarked):
        return f"incomplete: {unmarked} written answer{'s' * (unmarked > 1)} not marked"
    if again := len(stands.to_confirm):
        return f"{COMPLETE}; {again} mark{'s' * (again > 1)} by hand to be confirmed after a regrade"
    return UNREADABLE if unreadable else COMPLETE


def _could_not_be_read(course: Course, unit: str, student: str) -> bool:
    """The same from the graded notebook, for who graded with `nbgrader autograde`."""
    path = course.folder(course.directory.autograded_directory, student, unit) / f"{unit}.ipynb"
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["metadata"]["kvgrade"]["unreadable"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def as_csv(found: Sequence[Row]) -> str:
    """The whole table as CSV (RFC 4180)."""
    names = list(dict.fromkeys(name for row in found if row.standing for name in row.standing.scores))
    header = [
        *("unit", "student", "last_name", "first_name", "email", "submitted", *names),
        *("automatic", "manual", "extra_credit", "late_penalty", "total", "max", "state"),
    ]
    return write([header, *([*_who(row), *_exercises(row, names), *_sums(row)] for row in found)])


def _who(row: Row) -> list[str]:
    time = row.standing.submitted if row.standing else None
    who = row.person
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC") if time else ""
    return [row.unit, *(safe(text) for text in (who.id, who.last, who.first, who.email)), shown]


def _exercises(row: Row, names: Sequence[str]) -> list[str]:
    """Points by exercise, with extra credit; an unmarked written answer's cell is empty."""
    if row.standing is None:
        return [""] * len(names)
    scores = row.standing.scores
    known = [scores.get(name) for name in names]
    return [number(s.counts) if s and (s.auto is not None or s.by_hand is not None) else "" for s in known]


def _sums(row: Row) -> list[str]:
    stands = row.standing
    values = [stands.automatic, stands.manual, stands.extra, stands.penalty] if stands else [None] * 4
    return [*map(number, values), number(row.total), number(row.possible), row.state]


def in_words(row: Row) -> str:
    """The points of a row in one line, as a comment for its owner. Empty where there is no total yet."""
    if row.total is None or row.standing is None:
        return ""
    words = [f"{name} {number(score.counts)}" for name, score in row.standing.scores.items()]
    if row.standing.penalty:
        words.append(f"late −{number(row.standing.penalty)}")
    if row.state == UNREADABLE:
        words = ["the file could not be read"]
    return f"{row.unit}: {', '.join(words)}; total {number(row.total)} of {number(row.possible)}"


def number(value: float | None) -> str:
    """A number with a decimal point, six digits behind it at most; "" for none."""
    if value is None:
        return ""
    return f"{round(value, 6) + 0.0:.12g}"


def safe(text: str) -> str:
    """Text of others for a spreadsheet: what it would take for a formula gets an apostrophe in front (OWASP's advice,
    https://owasp.org/www-community/attacks/CSV_Injection). Numbers stay numbers."""
    text = plain(text)
    harmless = len(text.strip()) < 2 or _NUMBER.fullmatch(text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not harmless else text


def plain(text: str) -> str:
    """Text of others in one line, without what could steer a terminal or turn the direction of reading."""
    text = " ".join(text.encode("utf-8", "replace").decode().splitlines())
    return "".join(
        "?" if c in _DIRECTIONS or (unicodedata.category(c) == "Cc" and c != "\t") else c for c in text if c != "\x00"
    )


def write(lines: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    """Rows as CSV."""
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows(lines)
    return out.getvalue()


def by_student(found: Iterable[Row]) -> Mapping[str, Row]:
    """Rows of one unit by student id."""
    return {row.person.id: row for row in found}
