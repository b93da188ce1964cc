"""`kvlab progress`: what is solved, tried and open in the learner's own notebooks."""

import argparse
from pathlib import Path
from typing import Any

from kvlab.cli.files import full_path


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("progress", help="say what is solved, tried and open in your notebooks")
    parser.add_argument("--dir", type=Path, default=None, help="your folder (default: work)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from kvlab import progress

    folder = full_path(options.dir) if options.dir else progress.default_folder()
    print(progress.as_table(progress.read(folder), folder))
    return 0
