"""`python -m kvgrade build [--check] [UNIT…]`, `solved UNIT -o FILE`, `prove [UNIT…]`, `doctor`."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from . import build
from .units import UnitError, find_units


def main(argv: list[str] | None = None) -> int:
    """Run a command; the exit code is 0 (done, no drift), 1 (drift, or a unit that can't be built) or 2 (usage)."""
    parser = argparse.ArgumentParser(prog="python -m kvgrade", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="build notebooks/ and data/exercises.json from grading/units/")
    builder.add_argument("unit", nargs="*", help="name or number of a unit; all of them when none is given")
    builder.add_argument("--check", action="store_true", help="write nothing, exit 1 when a built file differs")
    solved = commands.add_parser("solved", help="write a unit's notebook with its solutions in place")
    solved.add_argument("unit", help="name or number of a unit")
    solved.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    prover = commands.add_parser("prove", help="run the known answers against checks and cases; print the matrix")
    prover.add_argument("unit", nargs="*", help="name or number of a unit; all of them when none is given")
    commands.add_parser("doctor", help="say whether answers can be isolated on this machine")
    args = parser.parse_args(argv)
    if args.command == "doctor":
        return doctor()
    try:
        units = find_units([args.unit] if args.command == "solved" else args.unit)
    except ValueError as error:
        parser.error(str(error))
    try:
        if args.command == "prove":
            from . import prove  # numpy and torch, which the builder does without

            return prove.main(args.unit)
        if args.command == "solved":
            args.output.parent.mkdir(parents=True, exist_ok=True)
            args.output.write_text(build.solved_notebook(units[0]), encoding="utf-8", newline="\n")
        elif args.check:
            found = build.drift(units if args.unit else None)
            if found:
                print("\n".join([*found, "Build again with: python -m kvgrade build"]), file=sys.stderr)
                return 1
        else:
            build.write(units)
    except (UnitError, RuntimeError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def doctor() -> int:
    """Print whether the jail works here, and what to do where it does not."""
    from . import jail

    for name in ("kvlab", "nbgrader", "torch"):
        if importlib.util.find_spec(name) is None:
            print(f"environment: {name} is not installed for {sys.executable}: run `make instructor` once, then")
            print("  source .venv/bin/activate, in the course's root folder")
            return 1
    why = jail.unavailable()
    print(f"jail: {why}" if why else "jail: ok, answers are isolated on this machine")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
