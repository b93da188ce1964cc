"""`python -m kvgrade doctor`: whether answers can be isolated on this machine, and what to do where they can't."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="say whether answers can be isolated on this machine")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    for name in ("kvlab", "nbgrader", "torch"):
        if importlib.util.find_spec(name) is None:
            print(f"environment: {name} is not installed for {sys.executable}: run `make instructor` once, then")
            print("  source .venv/bin/activate, in the course's root folder")
            return 1
    from .. import jail

    why = jail.unavailable()
    print(f"jail: {why}" if why else "jail: ok, answers are isolated on this machine")
    return 1 if why else 0
