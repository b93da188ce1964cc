"""Types of command-line arguments that all benchmarks share: argparse turns a ValueError of theirs into its usual message."""

import argparse
from pathlib import Path


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def new_file(text: str) -> Path:
    """A file that can be written: found out before minutes are spent on measuring."""
    path = Path(text)
    try:
        path.open("a").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write {text!r}: {error.strerror}") from error
    return path
