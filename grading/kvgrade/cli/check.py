"""`python -m kvgrade check FILE [--repair [-o OUT]]`: what a hand-in lacks; the same as `kvlab check` for learners."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kvlab.cli.check import arguments


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("check", help="say what a hand-in holds and lacks; --repair writes a clean copy")
    arguments(parser)
    parser.add_argument("--course", type=Path, metavar="DIR", help="folder of the class (default: here, else grading/)")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    from kvlab.cli.check import check
    from kvlab.cli.errors import CommandError

    from ..intake.released import released_notebooks

    try:
        return check(args.file, released_notebooks(args.course), args.repair, args.output)
    except CommandError as error:
        raise RuntimeError(str(error)) from None
