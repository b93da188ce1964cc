"""`python -m kvgrade import SUBMISSIONS.zip|FOLDER [--unit 05] [--roster FILE]`: hand-ins as a platform gives them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "import",
        help="take hand-ins from a zip or folder of Moodle, Canvas, Colab or GitHub",
        description="Put hand-ins into submitted/, whatever their files are called. Says what was taken and what not; "
        "exit code 1 when something needs a person's eye.",
    )
    parser.add_argument("source", type=Path, metavar="SUBMISSIONS", help="a zip, a folder, or one notebook")
    parser.add_argument("--unit", help="take this unit only (default: every file goes to its own unit)")
    parser.add_argument(
        "--roster", type=Path, metavar="FILE", help="CSV with the students' ids, names, emails, numbers"
    )
    parser.add_argument(
        "--timestamps",
        choices=("auto", "files", "none"),
        default="auto",
        help="write timestamp.txt where the time of a hand-in is known (auto), from every file's own time, or never",
    )
    parser.add_argument("--course", type=Path, metavar="DIR", help="folder of the class (default: here, else grading/)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from ..course import Course
    from ..intake import outcome
    from ..intake.released import released_notebooks
    from ..intake.roster import Roster
    from ..intake.run import Order, run

    course = Course.find(args.course)
    unit = course.unit(args.unit) if args.unit else None
    roster = Roster.read(args.roster) if args.roster else None
    released = released_notebooks(course.root)
    rows = run(course, Order(args.source, unit, roster, args.timestamps, args.dry_run), released)
    print("\n".join(outcome.table(rows)))
    if roster is not None:
        arrived = {row.student for row in rows if row.student}
        silent = [student.id for student in roster.students if student.id not in arrived]
        if silent:
            print(f"no hand-in in here from {len(silent)} of {len(roster.students)}: {', '.join(sorted(silent))}")
    if args.timestamps == "auto" and not any(row.time for row in rows):
        print("When they were handed in is not known: no timestamp.txt. --timestamps files takes the files' own times.")
    if args.dry_run:
        print("Nothing was written: this was a dry run.")
    else:
        print(f"report: {outcome.save(course.root / 'imports', unit or 'all', rows)}")
    return int(any(row.state == outcome.LOOK for row in rows))
