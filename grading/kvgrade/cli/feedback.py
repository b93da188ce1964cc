"""`python -m kvgrade feedback`: one page per hand-in, to be given back to its owner."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..course import Course


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "feedback", help="write feedback/<student>/<unit>/<unit>.html from what stands in the gradebook"
    )
    parser.add_argument("--unit", action="append", default=[], metavar="05", help="name or number; may be repeated")
    parser.add_argument("--student", nargs="+", default=[], metavar="ID", help="only these students")
    parser.add_argument(
        "--zip",
        choices=("moodle", "canvas"),
        help="also write a zip for each unit, which this platform takes back: its names are those of the download that "
        "was imported",
    )
    parser.add_argument("--course", type=Path, metavar="DIR", help="the folder of the class")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from .. import feedback_page_files, standing
    from ..course import Course

    course = Course.find(args.course)
    pages, whole = 0, True
    for unit in standing.chosen(course, args.unit):
        written = feedback_page_files.write(course, unit, args.student)
        pages += written.pages
        print(f"{unit}: {written.pages} pages, {written.changed} of them new or changed")
        for note in written.notes:
            print(f"  {note}")
        if args.zip and written.pages:
            whole &= _zip(course, unit, args.zip, written.files, bool(args.student)) and not written.newer
    if pages:
        print(f"They are in {course.root / course.directory.feedback_directory}, one folder per student.")
    return 0 if pages and whole else 1


def _zip(course: Course, unit: str, platform: str, files: Mapping[str, Path], some: bool) -> bool:
    """Write the zip of a unit; whether everyone with a page is in it. One of an earlier run is replaced, or removed.

    some: only some students were named; then the zip of the whole class stays.
    """
    from .. import results
    from ..intake import give_back
    from ..intake.known import sources

    pages = {student: path.read_bytes() for student, path in files.items()}
    packed = give_back.pack(platform, unit, pages, sources(course.root / "imports", unit))
    target = course.root / f"feedback-{platform}-{unit}{'-some' if some else ''}.zip"
    if packed.students:
        results.write_atomic(target, packed.data)
        print(f"  {target}: {len(packed.students)} pages, to be uploaded to {give_back.PLATFORMS[platform]}")
    else:
        target.unlink(missing_ok=True)
    for line in packed.left:
        print(f"  {line}")
    return not packed.left
