"""`python -m kvgrade prove [UNIT…]`: known right and wrong answers against checks and cases."""

from __future__ import annotations

import argparse
from typing import Any

from ..units import find_units


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("prove", help="run the known answers against checks and cases; print the matrix")
    parser.add_argument("unit", nargs="*", help="name or number of a unit; all of them when none is given")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    find_units(args.unit)  # refuses a unit that is not there
    from .. import prove  # numpy and torch, which the builder does without

    return prove.main(args.unit)
