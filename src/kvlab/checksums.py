"""SHA-256 of every file in `data/`, recorded in `data/checksums.json` as {path: hex digest}.

`python -m kvlab.checksums` verifies; `python -m kvlab.checksums --write` records the present state.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

from kvlab.paths import data_dir

NAME = "checksums.json"


def sha256(path: Path) -> str:
    """Hex digest of a file, read in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def compute(folder: Path) -> dict[str, str]:
    """Digests of all files below `folder` but the record itself, hidden files and caches; keys are POSIX paths."""
    files = (path for path in folder.rglob("*") if path.is_file())
    relative = {path.relative_to(folder).as_posix(): path for path in files}
    return {
        name: sha256(path)
        for name, path in sorted(relative.items())
        if name != NAME and not any(part.startswith((".", "__pycache__")) for part in name.split("/"))
    }


def verify(folder: Path) -> list[str]:
    """One sentence per problem; an empty list means that every recorded file is there, unchanged, and none is extra.

    Raises FileNotFoundError without a record and ValueError when the record cannot be read.
    """
    record = folder / NAME
    if not record.is_file():
        raise FileNotFoundError(f"{record} is missing.")
    try:
        expected = json.loads(record.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{record} is not readable JSON: {error}.") from error
    if not isinstance(expected, dict):
        raise ValueError(f"{record} does not hold a table of path and digest.")
    problems = []
    actual = compute(folder)
    for name, digest in expected.items():
        if name not in actual:
            problems.append(f"{name} is missing.")
        elif actual[name] != digest:
            problems.append(f"{name} is not the recorded file (its SHA-256 differs).")
    problems += [f"{name} is not recorded." for name in actual if name not in expected]
    return problems


def write(folder: Path) -> int:
    """Record all files below `folder`; returns how many. The record is replaced in one step."""
    table = compute(folder)
    temporary = folder / (NAME + ".tmp")
    temporary.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, folder / NAME)
    return len(table)


def main(argv: list[str] | None = None) -> int:
    """Command line; exit code 1 when a file is missing, changed or unrecorded."""
    parser = argparse.ArgumentParser(prog="python -m kvlab.checksums", description="Check the files in data/.")
    parser.add_argument("--write", action="store_true", help="record the files as they are now")
    parser.add_argument("--dir", type=Path, default=None, help="another folder than data/")
    options = parser.parse_args(argv)
    folder = options.dir or data_dir()
    if options.write:
        print(f"{write(folder)} files recorded in {folder / NAME}")
        return 0
    try:
        problems = verify(folder)
    except (FileNotFoundError, ValueError) as error:
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{folder}: all files as recorded")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
