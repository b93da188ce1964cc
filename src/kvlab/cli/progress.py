"""`kvlab progress`: what is solved, tried and open in the learner's own notebooks."""

import argparse
from pathlib import Path
from typing import Any

from kvlab.cli.files import full_path
from kvlab.cli.workspace import default_folder


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("progress", help="say what is solved, tried and open in your notebooks")
    parser.add_argument(
        "--dir", type=Path, default=None, help="your folder (default: this one if it is such a folder, else work)"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from kvlab import progress

    folder = full_path(options.dir or default_folder())
    print(progress.as_table(progress.read(folder), folder))
    return 0
