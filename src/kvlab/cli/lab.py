"""`kvlab lab`: copies the notebooks into the learner's folder and opens JupyterLab there."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvlab.cli import units
from kvlab.cli.errors import CommandError
from kvlab.cli.files import full_path
from kvlab.cli.jupyter import environment, server_command, write_config, write_kernelspec
from kvlab.cli.ports import reserve_port
from kvlab.cli.workspace import PRIVATE, default_folder, prepare
from kvlab.paths import repo_root


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("lab", help="open the course in JupyterLab")
    parser.add_argument("--port", type=int, default=None, help="port to listen on (default: the first free from 8888)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open no browser")
    parser.add_argument(
        "--dir",
        type=Path,
        default=None,
        help="your folder, made if missing (default: this one if it is such a folder, else work)",
    )
    parser.add_argument("--prepare-only", action="store_true", help="copy the notebooks and stop")
    parser.add_argument(
        "--instructor", action="store_true", help="open the checkout itself, with the grading and authoring panels"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command; JupyterLab takes the place of this process where the system can do that."""
    work = full_path(options.dir or default_folder())
    root = _instructor_root() if options.instructor else work
    if not options.prepare_only:
        return _serve(options, root, work)
    if not options.instructor:
        _prepare(work)
    return 0


def _prepare(work: Path) -> None:
    for line in prepare(work):
        print(line)


def _serve(options: argparse.Namespace, root: Path, work: Path) -> int:
    # The port comes first: when it is taken, nothing is copied.
    with reserve_port(options.port) as port:
        began = any(work.glob("*.ipynb"))
        if not options.instructor:
            _prepare(work)
        # Whoever begins sees the first notebook; later JupyterLab comes back as it was left.
        first = None if options.instructor or began else f"{next(iter(units.released()))}.ipynb"
        private = work / PRIVATE / ("instructor" if options.instructor else "jupyter")
        write_config(private / "config", instructor=options.instructor)
        write_kernelspec(private / "data")
        print(f"Starting JupyterLab in {root} on port {port}. Ctrl-C twice stops it.", flush=True)
        command = server_command(root, port, browser=not options.no_browser, opened=first)
        if os.name == "posix":
            os.chdir(root)
            sys.stderr.flush()
            os.execve(command[0], command, environment(private))
        return subprocess.run(command, env=environment(private), cwd=root, check=False).returncode


def _instructor_root() -> Path:
    root = repo_root()
    if root is None or not (root / "grading").is_dir():
        raise CommandError("--instructor needs a checkout with its grading/ folder.")
    return root / "grading"
