"""`python -m kvgrade feedback`: one page per hand-in, to be given back to its owner."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "feedback", help="write feedback/<student>/<unit>/<unit>.html from what stands in the gradebook"
    )
    parser.add_argument("--unit", action="append", default=[], metavar="05", help="name or number; may be repeated")
    parser.add_argument("--student", nargs="+", default=[], metavar="ID", help="only these students")
    parser.add_argument("--course", type=Path, metavar="DIR", help="the folder of the class")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from .. import feedback_page_files, standing
    from ..course import Course

    course = Course.find(args.course)
    pages = 0
    for unit in standing.chosen(course, args.unit):
        written = feedback_page_files.write(course, unit, args.student)
        pages += written.pages
        print(f"{unit}: {written.pages} pages, {written.changed} of them new or changed")
        for note in written.notes:
            print(f"  {note}")
    if pages:
        print(f"They are in {course.root / course.directory.feedback_directory}, one folder per student.")
    return 0 if pages else 1
