"""`python -m kvgrade export`: marks as CSV, or as a file that Canvas or Moodle takes back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("export", help="write marks as CSV, or for Canvas or Moodle")
    parser.add_argument("--unit", action="append", default=[], metavar="05", help="name or number; may be repeated")
    parser.add_argument("--format", choices=("csv", "canvas", "moodle"), default="csv", help="default: csv")
    parser.add_argument("--to", default="", metavar="FILE", help="default: marks.csv in the class folder; - for stdout")
    parser.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="what Canvas exported (needed), or Moodle's worksheet or grade export",
    )
    parser.add_argument("--bom", action="store_true", help="begin with a byte order mark, which Excel wants for UTF-8")
    parser.add_argument("--course", type=Path, metavar="DIR", help="the folder of the class")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from .. import export, export_lms, results, standing
    from ..course import Course

    if args.format == "csv" and args.roster:
        raise ValueError("--roster belongs to --format canvas or moodle; plain CSV has the students of the gradebook.")
    if args.format == "canvas" and not args.roster:
        raise ValueError(
            "Canvas finds students by its own ids: export its gradebook, and name that file: --roster FILE."
        )
    course = Course.find(args.course)
    units = {unit: export.rows(course, unit) for unit in standing.chosen(course, args.unit)}
    if args.format == "csv":
        made = export_lms.Export(export.as_csv([row for rows in units.values() for row in rows]), [], [])
    else:
        roster = export_lms.read_roster(args.roster) if args.roster else None
        made = (
            export_lms.moodle(units, roster)
            if args.format == "moodle" or roster is None
            else export_lms.canvas(units, roster)
        )
    data = made.text.encode("utf-8-sig" if args.bom else "utf-8", "replace")
    if args.to == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        names = {"csv": "marks.csv", "canvas": "marks-canvas.csv", "moodle": "marks-moodle.csv"}
        target = Path(args.to) if args.to else course.root / names[args.format]
        target.parent.mkdir(parents=True, exist_ok=True)
        results.write_atomic(target, data)
        print(f"{target}: {', '.join(units)}")
    for note in (*made.notes, *made.lost):
        print(note, file=sys.stderr)
    return 1 if made.lost else 0
