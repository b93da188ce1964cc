"""`python -m kvgrade report`: one page on how the class did."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("report", help="write a page on how the class did, for its instructor")
    parser.add_argument("--unit", action="append", default=[], metavar="05", help="name or number; may be repeated")
    parser.add_argument("--to", type=Path, metavar="FILE", help="default: report.html in the class folder")
    parser.add_argument("--course", type=Path, metavar="DIR", help="the folder of the class")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from .. import report, results, standing
    from ..course import Course

    course = Course.find(args.course)
    units = [report.collect(course, unit) for unit in standing.chosen(course, args.unit)]
    target = args.to or course.root / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    results.write_atomic(target, report.page(units))
    print(f"{target}: {', '.join(unit.name for unit in units)}")
    return 0
