"""`python -m kvgrade doctor`: whether answers can be isolated on this machine, and what to do where they can't."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from typing import Any

MAGICS = "from IPython.core.inputtransformer2 import TransformerManager"  # as `inside/answer.py` for a cell with magics
MOST_SECONDS = 60.0  # for a jail and this import in it, on a busy machine


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
    if why:
        return 1
    if said := _magics():
        print(
            f"magics: answers with lines such as %timeit would lose their marks: IPython is not there in the jail ({said})."
        )
        print(
            f"  The jail sees the packages below {sys.prefix}: install them there, in a virtual environment of their own"
        )
    return 1 if said else 0


def _magics() -> str:
    """Why IPython can't be imported in a jail, where it takes the magics out of answers; "" when it can."""
    from .. import jail
    from ..worker import try_one

    try:
        return try_one(time.monotonic() + MOST_SECONDS, MAGICS)
    except jail.NoJail as problem:
        return str(problem)
