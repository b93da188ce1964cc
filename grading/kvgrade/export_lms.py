"""Marks in the form that Canvas and Moodle take back, made from a file that they gave out.

Canvas: the CSV of *Gradebook → Export*: `Student, ID, SIS User ID, SIS Login ID, Section`, then a column per assignment
named `title (id)`, whose first row has `Points Possible`; a column without an id becomes a new assignment. See
https://teaching.resources.osu.edu/toolsets/carmencanvas/guides/calculating-final-grades/import-csv-file-carmen-grades
and Canvas' own code, https://github.com/instructure/canvas-lms, `lib/gradebook_exporter.rb`, `lib/gradebook_importer.rb`.

Moodle, one assignment: the *offline grading worksheet*, whose columns `Identifier`, `Grade` and `Last modified (grade)`
have to come back; a grade above `Maximum Grade` and an empty one are passed over. See
https://github.com/moodle/moodle, `mod/assign/feedback/offline/importgradeslib.php` and `locallib.php`.
Moodle, the gradebook: any CSV with `ID number` or `Email address`; columns are mapped by hand, and feedback must come
with its grades. See https://docs.moodle.org/405/en/Grade_import
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .export import UNREADABLE, Row, by_student, in_words, number, safe, write
from .roster_file import folder_id, read_table
from .texts import clean

ABOUT_STUDENT = (
    "Student",
    "LastName",
    "FirstName",
    "ID",
    "SIS User ID",
    "SIS Login ID",
    "Integration ID",
    "Root Account",
    "Section",
)
CANVAS_IDS = ("SIS Login ID", "SIS User ID", "ID", "Integration ID")
MOODLE_IDS = ("Identifier", "ID number", "Username", "Email address")


@dataclass(frozen=True)
class Export:
    """The file, and what a person should know: `notes`, and `lost`, marks that found no row in the roster."""

    text: str
    notes: list[str]
    lost: list[str]


@dataclass(frozen=True)
class Roster:
    """A table that a learning platform gave out."""

    header: list[str]
    rows: list[list[str]]
    delimiter: str

    def column(self, name: str) -> int | None:
        """Where a column stands, whatever its case."""
        known = [title.strip().casefold() for title in self.header]
        return known.index(name.casefold()) if name.casefold() in known else None


def read_roster(path: Path) -> Roster:
    """Read a table as the import does. Raises ValueError for a file that is none."""
    table, delimiter = read_table(path)
    width = len(table[0])
    return Roster(table[0], [[*row, *[""] * width][:width] for row in table[1:]], delimiter)


def canvas(units: Mapping[str, Sequence[Row]], roster: Roster) -> Export:
    """Canvas' gradebook with a column for each unit. Raises ValueError when the roster is not Canvas' export."""
    if roster.column("ID") is None or roster.column("Section") is None:
        raise ValueError(
            "The roster is no export of Canvas' gradebook: it has no column ID and Section. In Canvas: Grades → Export."
        )
    kept = [i for i, title in enumerate(roster.header) if title.strip() in ABOUT_STUDENT]
    is_points = [any("Points Possible" in cell for cell in row) for row in roster.rows]
    people = [row for row, points in zip(roster.rows, is_points, strict=True) if not points and _is_person(roster, row)]
    points_row = next((row for row, points in zip(roster.rows, is_points, strict=True) if points), None)
    header, possible, columns = [roster.header[i] for i in kept], [""] * len(kept), []
    possible[0] = "    Points Possible"  # as Canvas writes it
    notes, matched = [], _match(roster, people, units, CANVAS_IDS)
    for unit, rows in units.items():
        title = _canvas_column(roster, unit)
        most = number(rows[0].possible) if rows else ""
        if title is not None and points_row:
            _same_most(roster.header[title], points_row[title], most)
        if title is None:
            notes.append(f"{unit}: the roster has no column of this name; Canvas will offer to make a new assignment.")
        header.append(roster.header[title] if title is not None else unit)
        possible.append(most)
        by_id = by_student(rows)
        columns.append([_total(by_id.get(student)) for student in matched])
    lines = [[*(safe(row[i]) for i in kept), *cells] for row, *cells in zip(people, *columns, strict=True)]
    told, lost = _told(units, people, matched, roster)
    return Export(write([header, possible, *lines], roster.delimiter), [*notes, *told], lost)


def moodle(units: Mapping[str, Sequence[Row]], roster: Roster | None, given: Mapping[str, str] | None = None) -> Export:
    """Moodle's worksheet of one assignment filled in, or a table for its grade import.

    given: without a roster, {id: id in the roster that the import had}, where those may differ.
    Raises ValueError for a worksheet with several units, with other points, or in another language than English.
    """
    if roster is None:
        return _moodle_plain(units, given or {})
    if roster.column("Identifier") is not None:
        return _moodle_worksheet(units, roster)
    ids = [i for name in MOODLE_IDS if (i := roster.column(name)) is not None]
    if not ids:
        raise ValueError(
            "The roster is no file of Moodle's: it has no column Identifier, ID number or Email address. Export it with "
            "Moodle set to English."
        )
    matched = _match(roster, roster.rows, units, MOODLE_IDS)
    header = [roster.header[i] for i in ids]
    tables = {unit: by_student(rows) for unit, rows in units.items()}
    for unit in units:
        header += [unit, f"{unit} feedback"]
    lines = []
    for row, student in zip(roster.rows, matched, strict=True):
        found = [tables[unit].get(student) for unit in units]
        cells = [cell for one in found for cell in (_total(one), _comment(one))]
        lines.append([*(safe(row[i]) for i in ids), *cells])
    told, lost = _told(units, roster.rows, matched, roster)
    return Export(write([header, *lines]), told, lost)


def _moodle_plain(units: Mapping[str, Sequence[Row]], given: Mapping[str, str]) -> Export:
    """Students of the gradebook, with their ids as ID numbers, or as addresses where they are such."""
    header = ["ID number", "Email address"]
    people, tables = {}, {unit: by_student(rows) for unit, rows in units.items()}
    for unit in units:
        header += [unit, f"{unit} feedback"]
        people.update({student: row.person for student, row in tables[unit].items()})
    lines = []
    for student, person in sorted(people.items()):
        found = [tables[unit].get(student) for unit in units]
        cells = [cell for one in found for cell in (_total(one), _comment(one))]
        known = given.get(student, student)
        address = "@" in known  # the import takes addresses for ids where a roster of Moodle's has no ID numbers
        email = person.email or (known if address else "")
        lines.append(["" if address else safe(known), safe(email), *cells])
    return Export(write([header, *lines]), _open(units), [])


def _moodle_worksheet(units: Mapping[str, Sequence[Row]], roster: Roster) -> Export:
    if len(units) != 1:
        raise ValueError("A grading worksheet of Moodle belongs to one assignment: name one unit with --unit.")
    grade, most = roster.column("Grade"), roster.column("Maximum Grade")
    if grade is None:
        raise ValueError("The worksheet has no column Grade. Download it with Moodle set to English.")
    (rows,) = units.values()
    by_id, comments = by_student(rows), roster.column("Feedback comments")
    matched, lines, notes = _match(roster, roster.rows, units, MOODLE_IDS), [], []
    for row, student in zip(roster.rows, matched, strict=True):
        line, found = [safe(cell) for cell in row], by_id.get(student)
        if most is not None and found is not None and row[most].strip():
            _same_most("Maximum Grade", row[most], number(found.possible))
        line[grade] = _total(found)
        if comments is not None and found is not None and not row[comments].strip():  # a person's own words stay
            line[comments] = _comment(found)
        if found is not None and found.total is not None and found.total > found.possible:
            notes.append(
                f"{clean(student)}: {number(found.total)} is above the maximum; Moodle passes such a grade over."
            )
        lines.append(line)
    told, lost = _told(units, roster.rows, matched, roster)
    return Export(write([roster.header, *lines]), [*notes, *told], lost)


def _total(row: Row | None) -> str:
    return number(row.total) if row else ""


def _comment(row: Row | None) -> str:
    return safe(in_words(row)) if row else ""


def _is_person(roster: Roster, row: Sequence[str]) -> bool:
    """Not the row in which Canvas says how assignments are posted."""
    return any(row[i].strip() for i in (roster.column(name) for name in CANVAS_IDS) if i is not None)


def _canvas_column(roster: Roster, unit: str) -> int | None:
    """The assignment's column: named as the unit, `01_kv_cache`, or as its file, perhaps with Canvas' id behind it."""
    for i, title in enumerate(roster.header):
        if re.sub(r"\s*\(\d+\)\s*$", "", title).strip().casefold() in (unit.casefold(), f"{unit}.ipynb".casefold()):
            return i
    return None


def _same_most(where: str, theirs: str, ours: str) -> None:
    try:
        same = abs(float(theirs.replace(",", ".")) - float(ours)) < 1e-6
    except ValueError:
        return
    if not same:
        raise ValueError(
            f"{clean(where)} says {clean(theirs)} points, the unit has {ours}: the marks would mean something else there. "
            f"Set the assignment's points to {ours} and export the roster again."
        )


def _match(
    roster: Roster, rows: Sequence[Sequence[str]], units: Mapping[str, Sequence[Row]], ids: Sequence[str]
) -> list[str]:
    """The gradebook's student of each row of the roster, "" for none. Ids count, then email addresses; names never do.

    Raises ValueError when a student fits two rows.
    """
    people = {row.person.id: row.person for found in units.values() for row in found}
    folded = _unique([(p.email, p.id) for p in people.values() if p.email]) | _unique([(s, s) for s in people])
    columns = [i for name in ids if (i := roster.column(name)) is not None]
    found: list[str] = []
    taken: dict[str, int] = {}
    for place, row in enumerate(rows, start=1):
        keys = [key for i in columns if row[i].strip() for key in _keys(row[i])]
        exact = next((key for key in keys if key in people), "")
        student = exact or next((folded[key.casefold()] for key in keys if key.casefold() in folded), "")
        if student and student in taken:
            raise ValueError(
                f"{clean(student)} fits rows {taken[student]} and {place} of the roster: correct its ids, or take one out."
            )
        if student:
            taken[student] = place
        found.append(student)
    return _by_folder(found, rows, columns, people)


def _by_folder(
    found: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int], people: Collection[str]
) -> list[str]:
    """For rows that nobody fits yet: the student whose folder the import named after an id that can't be a folder's."""
    ids = [
        {folder_id(row[i]) for i in columns if row[i].strip()} & (set(people) - set(found)) if not student else set()
        for row, student in zip(rows, found, strict=True)
    ]
    counts = Counter(one for own in ids for one in own)
    clear = [min(own) if len(own) == 1 and counts[min(own)] == 1 else "" for own in ids]
    return [student or made for student, made in zip(found, clear, strict=True)]


def _keys(cell: str) -> list[str]:
    """An id as students may be named after it: as it is; Moodle's `Participant 17` is also 17."""
    participant = re.fullmatch(r"(?i:participant)\s*(\d+)", cell.strip())
    return [cell.strip(), *([participant[1]] if participant else [])]


def _unique(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """{key in small letters: student}, without keys that several have."""
    counts = Counter(key.casefold() for key, _ in pairs)
    return {key.casefold(): student for key, student in pairs if counts[key.casefold()] == 1}


def _told(
    units: Mapping[str, Sequence[Row]], rows: Sequence[Sequence[str]], matched: Sequence[str], roster: Roster
) -> tuple[list[str], list[str]]:
    """Notes on whom the roster has and the gradebook lacks and on open totals; marks that have no row there."""
    notes = []
    unknown = [
        clean(next((cell for cell in row if cell.strip()), "?"), 60)
        for row, s in zip(rows, matched, strict=True)
        if not s
    ]
    if unknown:
        notes.append(f"{len(unknown)} in the roster, not in the gradebook; their cells are empty: {_some(unknown)}")
    with_marks = {row.person.id for found in units.values() for row in found if row.standing is not None}
    missing = sorted(with_marks - set(matched))
    lost = (
        [f"{len(missing)} with marks have no row in the roster: {_some([clean(s) for s in missing])}"]
        if missing
        else []
    )
    return [*notes, *_open(units)], lost


def _open(units: Mapping[str, Sequence[Row]]) -> list[str]:
    notes = []
    for unit, found in units.items():
        waiting = [clean(row.person.id) for row in found if row.standing is not None and row.total is None]
        if waiting:
            notes.append(f"{unit}: {len(waiting)} incomplete, their totals are left empty: {_some(waiting)}")
        damaged = [clean(row.person.id) for row in found if row.state == UNREADABLE]
        if damaged:
            notes.append(f"{unit}: {len(damaged)} unreadable, 0 points: {_some(damaged)}")
    return notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
