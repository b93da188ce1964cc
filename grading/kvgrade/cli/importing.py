"""`python -m kvgrade import SUBMISSIONS.zip|FOLDER [--unit 05] [--roster FILE]`: hand-ins as a platform gives them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..texts import clean

if TYPE_CHECKING:
    from ..course import Course
    from ..intake.outcome import Row
    from ..intake.roster import Roster


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
    parser.add_argument(
        "--timezone",
        metavar="ZONE",
        help="of times that come without one, such as Europe/Berlin: in Moodle's worksheet, in Blackboard's names "
        "(default: this machine's)",
    )
    parser.add_argument(
        "--new-ids", action="store_true", help="without --roster: also ids that the class's rosters do not have"
    )
    parser.add_argument("--course", type=Path, metavar="DIR", help="folder of the class (default: here, else grading/)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from ..course import Course
    from ..intake import known, outcome
    from ..intake.released import released_notebooks
    from ..intake.roster import Roster
    from ..intake.run import Order, run

    course = Course.find(args.course)
    unit = course.unit(args.unit) if args.unit else None
    zone = _zone(args.timezone)
    roster = Roster.read(args.roster, zone) if args.roster else None
    released = released_notebooks(course.root)
    imports = course.root / "imports"
    given = known.known_ids(imports)
    only = None if roster or args.new_ids or not given else frozenset(given) | _here(course)
    for name in released:
        known.sources(imports, name)  # a damaged list is told before anything is taken
    rows = run(course, Order(args.source, unit, roster, args.timestamps, args.dry_run, zone, only), released)
    report = None
    if not args.dry_run:  # before the first print, which fails where nobody reads on: `import … | head`
        if roster is not None:
            known.remember(imports, roster)
        known.remember_sources(imports, rows)
        report = outcome.save(imports, unit or "all", rows)
    print("\n".join(outcome.table(rows)))
    if only is not None:
        print(
            "This class has its ids from a roster, and this import has none: only ids that are known were taken. Name "
            "it with --roster; --new-ids also takes other ids."
        )
    if roster is not None:
        _about_roster(roster, args, unit, rows)
    elif args.timestamps == "auto" and not any(row.time for row in rows):
        print(_NO_TIMES)
    print(f"report: {report}" if report else "Nothing was written: this was a dry run.")
    return int(any(row.state == outcome.LOOK for row in rows))


_NO_TIMES = (
    "When they were handed in is not known: no timestamp.txt. --timestamps files takes the files' own times; in a download "
    "of Canvas or Moodle those are of the download."
)


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"There is no time zone {clean(name)!r} here: name one such as Europe/Berlin or UTC."
        ) from None


def _here(course: Course) -> set[str]:
    """The ids that have a folder in submitted/."""
    base = course.root / course.directory.submitted_directory
    return {path.name for path in base.iterdir() if path.is_dir()} if base.is_dir() else set()


def _about_roster(roster: Roster, args: argparse.Namespace, unit: str | None, rows: Sequence[Row]) -> None:
    """Say what the roster has that a person should know: rows that can't be used, times, who did not hand in."""
    for why in sorted({student.refused for student in roster.students if student.refused}):
        print(f"{args.roster}: {clean(why)}", file=sys.stderr)
    arrived = {row.student for row in rows if row.student}
    silent = [student.id for student in roster.students if not student.refused and student.id not in arrived]
    if silent:
        print(f"no hand-in in here from {len(silent)} of {len(roster.students)}: {', '.join(sorted(silent))}")
    if args.timestamps == "none":
        return
    if roster.has_times and unit is None:
        print("The roster says when hand-ins came, for one assignment, and was not asked: name the unit with --unit.")
    elif roster.has_times:
        here = datetime.now().astimezone().tzname()
        zone = args.timezone or f"this machine's time zone ({here}); --timezone names another"
        print(f"The roster's times are read in {zone}.")
    elif args.timestamps == "auto" and not any(row.time for row in rows):
        print(_NO_TIMES)
