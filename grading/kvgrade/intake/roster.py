"""The list of students: whose hand-in is a file with this name, number or address?

A roster is a CSV file with the column `id` (the student's id in the gradebook) and any of: name, or first and last name;
email; and other ids by which platforms know them. Canvas' and Moodle's own files are read as they come:
- Canvas, gradebook export: Student, ID, SIS User ID, SIS Login ID, Section, … with a row `Points Possible`;
- Moodle, grading worksheet: Identifier (`Participant 123`), Full name, ID number, Email address, …, Last modified
  (submission); gradebook and participants export: First name, Last name (or Surname), ID number, Email address;
- GitHub Classroom: identifier, github_username, github_id, name. nbgrader: id, first_name, last_name, email.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from ..roster_file import SAFE, RosterError, folder_id, read_table
from .schemes import Sender

_IDS = {
    "canvas": ("sis login id", "sis user id", "id"),
    "moodle": ("id number", "email address"),
    "github": ("identifier", "github_username"),
    "own": ("id", "student_id", "student id", "username"),
}
_KEYS = re.compile(r"(^|[ _])(id|login|username|email|e-mail|number|github)($|[ _])|^identifier$")
_DATES = ("%A, %d %B %Y, %I:%M %p", "%A, %B %d, %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True)
class Student:
    """A row: the id; all by which the student may be known, in small letters; when they handed in, if the row says.

    given: the id as the roster has it; `id` is the folder's name made from it. name: (last, first), the whole in `last`
    where the roster does not part it. refused: why nothing of this student can be taken, or "".
    """

    id: str
    keys: frozenset[str]
    words: frozenset[str]  # of the name
    joined: frozenset[str]  # the name as one word, beginning with any part of it: Canvas' way
    handed_in: datetime | None = None
    given: str = ""
    name: tuple[str, str] = ("", "")
    email: str = ""
    refused: str = ""


class Roster:
    """The students of a class."""

    def __init__(self, students: list[Student]) -> None:
        self.students = students

    @classmethod
    def read(cls, path: Path, zone: tzinfo | None = None) -> Roster:
        """Read a CSV file; its times are of `zone`, by default of this machine's.

        Rows whose ids can't be told apart as folders are marked as refused; they cost the others nothing. Raises
        RosterError, or OSError when there is no such file.
        """
        rows = _rows(path)
        kind = _kind(set(rows[0]) if rows else set())
        rows = [row for row in rows if _is_student(row)]
        if not rows:
            raise RosterError(f"{path.name} names no student.")
        column = next((name for name in _IDS[kind] if all(row.get(name) for row in rows)), None)
        if column is None:
            what = "it needs a column `id`, filled in every row, with the students' ids in the gradebook"
            raise RosterError(f"{path.name} can't be used: {what}.")
        return cls(_told_apart([_student(row, row[column], kind, zone) for row in rows]))

    @property
    def has_times(self) -> bool:
        """Whether it says when hand-ins came, as Moodle's worksheet of one assignment does."""
        return any(student.handed_in for student in self.students)

    def find(self, sender: Sender) -> tuple[Student | None, str]:
        """The student who sent a file, or None and the reason. Nobody is guessed: two that fit are as bad as none."""
        found = {s for s in self.students if sender.number and _numbers(sender) & s.keys}
        by_name = self._by_names(sender)
        if found and by_name and not found & by_name:
            both = " or ".join(sorted(s.id for s in found | by_name))
            return None, f"its number and its name are of different students: {both}"
        both_say = found & by_name or found or by_name
        if len(both_say) == 1:
            (student,) = both_say
            return (None, student.refused) if student.refused else (student, "")
        if both_say:
            return None, "it may be of " + " or ".join(sorted(s.id for s in both_say))
        return None, "the roster has nobody of this name or number"

    def _by_names(self, sender: Sender) -> set[Student]:
        for name in sender.names:
            for fits in (_is_key, _is_name, _is_within):
                found = {s for s in self.students if fits(s, name)}
                if found:
                    return found
        return set()


def words(text: str) -> list[str]:
    """The words of a text in small letters without accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return re.findall(r"[^\W_]+", plain)


def safe_id(name: str) -> str:
    """A name as a folder's name, or "" when that can't be done: `Ada Lovelace` is `Ada_Lovelace`."""
    plain = unicodedata.normalize("NFKD", name.strip())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub(r"[\s,']+", "_", plain).strip("_.-")
    return plain if SAFE.fullmatch(plain) else ""


def _is_key(student: Student, name: str) -> bool:
    return name.strip().casefold() in student.keys


def _is_name(student: Student, name: str) -> bool:
    mine = words(name)
    return bool(mine) and (frozenset(mine) == student.words or "".join(mine) in student.joined)


def _is_within(student: Student, name: str) -> bool:
    """A whole name, or an id of some length, inside a longer text such as `01 Ada Lovelace final`."""
    mine = set(words(name))
    ids = {key for key in student.keys if len(key) > 3}
    pieces = set(re.split(r"[\s_()]+", name.casefold()))
    return bool(ids & (mine | pieces)) or (len(student.words) > 1 and student.words <= mine)


def _numbers(sender: Sender) -> set[str]:
    return {f"{sender.scheme}:{sender.number}".casefold(), f"any:{sender.number}".casefold()}


def _told_apart(students: list[Student]) -> list[Student]:
    """The students, those refused whose ids would be one folder. An id that needed no change keeps its folder."""
    groups: dict[str, list[Student]] = defaultdict(list)
    for student in students:
        groups[student.id.casefold()].append(student)
    made = []
    for student in students:
        group = groups[student.id.casefold()]
        why = ""
        if not student.id:
            why = f"the id {student.given[:80]!r} can't be a folder's name: use letters, digits and - _ . @"
        elif len(group) > 1:
            as_they_are = [one for one in group if one.id == one.given]
            if len(as_they_are) != 1 or student is not as_they_are[0]:
                ids = ", ".join(sorted({repr(one.given[:80]) for one in group}))
                why = f"the roster has an id twice, or ids that would be one folder ({ids}): correct these rows"
        made.append(replace(student, refused=why) if why else student)
    return made


def _name(row: dict[str, str]) -> tuple[str, str]:
    """(last name, first name). A name that the roster does not part is kept whole, as the last name."""
    last, first = (
        next((row[key] for key in keys if row.get(key)), "")
        for keys in (("last name", "surname", "last_name"), ("first name", "first_name"))
    )
    if last or first:
        return last, first
    whole = row.get("student") or row.get("name") or row.get("full name") or ""
    last, comma, first = whole.partition(",")
    return (last.strip(), first.strip()) if comma else (whole, "")


def _student(row: dict[str, str], given: str, kind: str, zone: tzinfo | None) -> Student:
    student_id = folder_id(given)
    name = row.get("student") or row.get("name") or row.get("full name") or " ".join(filter(None, _name(row)))
    keys = {given.casefold(), student_id.casefold()} - {""}
    for column, value in row.items():
        if not value or not (_KEYS.search(column) or column == "id"):
            continue
        number = re.search(r"(\d+)$", value)
        if kind == "canvas" and column == "id":
            keys.add(f"canvas:{value}".casefold())
        elif kind == "moodle" and column == "identifier":
            keys |= {f"moodle:{number[1]}"} if number else set()
        else:
            keys.add(value.casefold())
            if "@" in value:
                keys.add(value.partition("@")[0].casefold())
            if value.isdigit() and kind == "own":
                keys.add(f"any:{value}")
    mine = words(name)
    joined = frozenset("".join(mine[i:] + mine[:i]) for i in range(len(mine)))
    email = next((row[key] for key in ("email address", "email", "e-mail") if row.get(key)), "")
    return Student(student_id, frozenset(keys), frozenset(mine), joined, _when(row, zone), given, _name(row), email)


def _when(row: dict[str, str], zone: tzinfo | None) -> datetime | None:
    for form in _DATES:
        try:
            moment = datetime.strptime(row.get("last modified (submission)", ""), form)
            return moment.replace(tzinfo=zone).astimezone(UTC)
        except (ValueError, OverflowError):
            continue
    return None


def _is_student(row: dict[str, str]) -> bool:
    """Not a row of Canvas' for points or posting, nor its test student."""
    name = row.get("student", "-").casefold()
    return name not in ("points possible", "", "student, test") and any(row.values())


def _kind(header: set[str]) -> str:
    if "github_username" in header:
        return "github"
    if {"sis login id", "sis user id"} & header:
        return "canvas"
    if "email address" in header and "id" not in header:
        return "moodle"
    return "own"


def _rows(path: Path) -> list[dict[str, str]]:
    table, _ = read_table(path)
    names = [name.strip().casefold() for name in table[0]]
    return [dict(zip(names, (cell.strip() for cell in row), strict=False)) for row in table[1:]]
