"""Parses the command line and calls one of the command modules.

Exit codes: 0 all right, 1 something that was checked or run failed, 2 the command could not be carried out as asked.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import kvlab
from kvlab.cli import check, doctor, lab, measure, models, progress, reset, run, serve
from kvlab.cli.errors import CommandError

COMMANDS = (lab, check, progress, reset, doctor, run, models, serve, measure)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each command module adds its own part and its `execute` function."""
    parser = argparse.ArgumentParser(
        prog="kvlab", description="LLM internals: KV cache and generation. An interactive Jupyter course."
    )
    parser.add_argument("--version", action="version", version=f"kvlab {kvlab.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_parser(commands)
    return parser


def os_sentence(error: OSError) -> str:
    """A refusal of the system as a sentence. Our own errors of this kind have no number and are sentences already."""
    if error.errno is None:
        return str(error)
    where = f"Cannot use {error.filename}" if error.filename is not None else "The system refused"
    return f"{where}: {error.strerror}. Check its name, its rights and the free space, or choose another place."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; `argv` without the program's name. Returns the exit code."""
    options = build_parser().parse_args(argv)
    try:
        return int(options.execute(options))
    except BrokenPipeError:
        # The reader of our output has gone (`kvlab doctor | head -1`). Nothing is left to flush at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except CommandError as error:
        print(f"kvlab {options.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"kvlab {options.command}: {os_sentence(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nkvlab {options.command}: stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
