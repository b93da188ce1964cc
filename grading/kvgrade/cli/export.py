"""`python -m kvgrade export`: marks as CSV, or as a file that Canvas or Moodle takes back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..standing import Person


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("export", help="write marks as CSV, or for Canvas or Moodle")
    parser.add_argument("--unit", action="append", default=[], metavar="05", help="name or number; may be repeated")
    parser.add_argument("--format", choices=("csv", "canvas", "moodle"), default="csv", help="default: csv")
    parser.add_argument("--to", default="", metavar="FILE", help="default: marks.csv in the class folder; - for stdout")
    parser.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="what Canvas exported (needed), or Moodle's worksheet or grade export; for csv: names and addresses",
    )
    parser.add_argument("--bom", action="store_true", help="begin with a byte order mark, which Excel wants for UTF-8")
    parser.add_argument("--course", type=Path, metavar="DIR", help="the folder of the class")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from .. import export, export_lms, feedback_page_files, results, standing
    from ..course import Course
    from ..intake.known import known_ids

    if args.format == "canvas" and not args.roster:
        raise ValueError(
            "Canvas finds students by its own ids: export its gradebook, and name that file: --roster FILE."
        )
    course = Course.find(args.course)
    units = {unit: export.rows(course, unit) for unit in standing.chosen(course, args.unit)}
    marked = {unit: {row.person.id for row in rows if row.standing} for unit, rows in units.items()}
    worksheet = False
    if args.format == "csv":
        if args.roster:
            names = _names(args.roster)
            units = {unit: export.named(rows, names) for unit, rows in units.items()}
        made = export_lms.Export(export.as_csv([row for rows in units.values() for row in rows]), [], [])
    else:
        roster = export_lms.read_roster(args.roster) if args.roster else None
        worksheet = args.format == "moodle" and roster is not None and roster.column("Identifier") is not None
        made = (
            export_lms.moodle(units, roster, known_ids(course.root / "imports"))
            if args.format == "moodle" or roster is None
            else export_lms.canvas(units, roster)
        )
    data = made.text.encode("utf-8-sig" if args.bom else "utf-8", "replace")
    if args.to == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        target = Path(args.to) if args.to else course.root / _name(args.format, list(units), worksheet)
        target.parent.mkdir(parents=True, exist_ok=True)
        results.write_atomic(target, data)
        print(f"{target}: {', '.join(units)}")
    old = [
        f"{unit}: {line}" for unit, who in marked.items() for line in feedback_page_files.old_marks(course, unit, who)
    ]
    for note in (*made.notes, *made.lost, *old):
        print(note, file=sys.stderr)
    return 1 if made.lost or old else 0


def _name(form: str, units: list[str], worksheet: bool) -> str:
    """The file's name where none is given. A worksheet of Moodle is one assignment's: none is to replace another."""
    if worksheet:
        return f"marks-moodle-{units[0]}.csv"
    return {"csv": "marks.csv", "canvas": "marks-canvas.csv", "moodle": "marks-moodle.csv"}[form]


def _names(path: Path) -> dict[str, Person]:
    """The students of a roster by id, as the import names them."""
    from ..intake.roster import Roster
    from ..standing import Person

    students = [student for student in Roster.read(path).students if not student.refused]
    return {student.id: Person(student.id, student.name[1], student.name[0], student.email) for student in students}
