"""`kvlab models`: lists the models on this machine. `kvlab models add NAME` adds one that ships inside a package."""

import argparse
import json
import math
import signal
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab import models
from kvlab.cli.errors import CommandError
from kvlab.paths import data_dir


@dataclass(frozen=True)
class PresentModel:
    """A model whose weights are here. `parameters` counts numbers, `size` is bytes on disk (safetensors file)."""

    name: str
    parameters: int
    size: int
    licence: str
    source: str


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("models", help="list the models that are here; add or remove one")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    names = ", ".join(models.ADDABLE)
    add = actions.add_parser("add", help="download a model, check it and put it into the user's cache")
    add.add_argument("name", metavar="NAME", help=f"one of {names}")
    remove = actions.add_parser("remove", help="delete a model that was added")
    remove.add_argument("name", metavar="NAME", help=f"one of {names}")
    parser.set_defaults(execute=execute)


def parameter_count(path: Path, advice: str = "`kvlab doctor` tells which files to bring back.") -> int:
    """How many numbers a safetensors file holds, from its header alone. Raises ValueError when it is damaged."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise ValueError("the header is longer than the file")
            header = json.loads(file.read(length))
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        end = max((entry["data_offsets"][1] for entry in tensors), default=0)
        if 8 + length + end != path.stat().st_size:
            raise ValueError("the file is cut short")
        return sum(math.prod(entry["shape"]) for entry in tensors)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}. {advice}") from error


def primer() -> list[PresentModel]:
    """The course's own models, by name. Raises ValueError when weights are damaged."""
    found = []
    for weights in sorted((data_dir() / "primer").glob("*/*.safetensors")):
        name = "primer" if weights.parent.name == "target" else f"primer-{weights.parent.name}"
        source = f"trained by this project ({weights.parent.relative_to(data_dir()).as_posix()})"
        found.append(PresentModel(name, parameter_count(weights), weights.stat().st_size, "MIT", source))
    return sorted(found, key=lambda model: model.name)


def added() -> list[PresentModel]:
    """The models that were added, in the list's order. Raises ValueError when weights are damaged."""
    found = []
    for model in models.ADDABLE.values():
        if models.is_here(model.name):
            weights = models.path(model.name) / "model.safetensors"
            advice = f"Run `kvlab models remove {model.name}`, then add it again."
            if not weights.is_file():
                raise ValueError(f"{weights} is missing. {advice}")
            count, source = parameter_count(weights, advice), f"{model.requirement} ({weights.parent})"
            found.append(PresentModel(model.name, count, weights.stat().st_size, model.licence, source))
    return found


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        if options.action == "add":
            return _add(options.name)
        if options.action == "remove":
            return _remove(options.name)
        return _list()
    except ValueError as error:
        raise CommandError(f"{str(error).removesuffix('.')}.") from error


def _list() -> int:
    own = primer()
    if not own:
        raise CommandError(f"There are no models in {data_dir()}. `kvlab doctor` tells what is missing.")
    here = own + added()
    print(f"{'name':<16} {'parameters':>12} {'size':>9}  {'licence':<10} source")
    for model in here:
        size = f"{model.size / 1e6:.1f} MB"
        print(f"{model.name:<16} {model.parameters:>12,} {size:>9}  {model.licence:<10} {model.source}")
    missing = [model for model in models.ADDABLE.values() if not models.is_here(model.name)]
    if missing:
        print("\nCan be added with `kvlab models add NAME`:")
    for entry in missing:
        size = f"{entry.size / 1e6:.1f} MB"
        detail = f"{entry.title}; downloads {entry.download / 1e6:.0f} MB"
        print(f"{entry.name:<16} {entry.parameters:>12,} {size:>9}  {entry.licence:<10} {detail}")
    print(f"\nLoad one in a notebook with kvlab.load({own[0].name!r}).")
    return 0


def _course_names() -> list[str]:
    return [model.name for model in primer()]


def _add(name: str) -> int:
    if name not in models.ADDABLE:
        own = _course_names()
        if name in own:
            print(f"{name} is part of the course and already here.")
            return 0
        can = f"Can be added: {', '.join(models.ADDABLE)}."
        raise CommandError(f"There is no model '{name}'. Here: {', '.join(own) or 'none'}. {can}")
    # A plain end (`timeout`) becomes an exception, so that nothing half-made is left and pip is ended too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    start, before = time.monotonic(), models.is_here(name)
    place = models.add(name, lambda text: print(text, flush=True))
    if not before:
        print(f"{name} is in {place} ({time.monotonic() - start:.0f} seconds).")
    return 0


def _remove(name: str) -> int:
    if name not in models.ADDABLE and name in _course_names():
        raise CommandError(f"{name} is part of the course; only models that were added can be removed.")
    print(f"Removed {models.remove(name)}.")
    return 0
