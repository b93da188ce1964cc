"""`python -m kvgrade build [--check] [UNIT…]` and `solved UNIT -o FILE`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .. import build
from ..units import find_units


def add_parser(commands: Any) -> None:
    builder = commands.add_parser("build", help="build notebooks/ and data/exercises.json from grading/units/")
    builder.add_argument("unit", nargs="*", help="name or number of a unit; all of them when none is given")
    builder.add_argument("--check", action="store_true", help="write nothing, exit 1 when a built file differs")
    builder.set_defaults(execute=execute)
    solved = commands.add_parser("solved", help="write a unit's notebook with its solutions in place")
    solved.add_argument("unit", help="name or number of a unit")
    solved.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    solved.set_defaults(execute=write_solved)


def execute(args: argparse.Namespace) -> int:
    units = find_units(args.unit)
    if not args.check:
        build.write(units)
        print(f"built: {', '.join(unit.stem for unit in units)} (grading/source/, notebooks/ and data/ are up to date)")
        return 0
    found = build.drift(units if args.unit else None)
    if found:
        print("\n".join([*found, "Build again with: python -m kvgrade build"]), file=sys.stderr)
    return 1 if found else 0


def write_solved(args: argparse.Namespace) -> int:
    text = build.solved_notebook(find_units([args.unit])[0])
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text, encoding="utf-8", newline="\n")
    return 0
