"""Build the course and grade classes: `python -m kvgrade COMMAND --help` says what each command does."""

from __future__ import annotations

import argparse
import importlib
import sys

from .texts import clean

COMMANDS = (
    "doctor",
    "build",
    "prove",
    "importing",
    "check",
    "grade",
    "worker",
    "feedback",
    "export",
    "report",
)
"""Modules of `kvgrade.cli`."""


def main(argv: list[str] | None = None) -> int:
    """Run a command; the exit code is 0 (done), 1 (it found something wrong, or failed with a reason) or 2 (usage)."""
    parser = argparse.ArgumentParser(prog="python -m kvgrade", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f".cli.{name}", __package__).add_parser(commands)
    args = parser.parse_args(argv)
    try:
        return int(args.execute(args))
    except (RuntimeError, ValueError, OSError) as error:  # what a command can't do, with the next step in its text
        print("\n".join(clean(line, 2000) for line in str(error).splitlines()), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
