"""`kvlab models`: lists the models on this machine. `kvlab models add NAME` adds one that ships inside a package."""

import argparse
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


# Models that `kvlab models add` can install: name to the function that does it.
ADDABLE: dict[str, Callable[[], None]] = {}


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("models", help="list the models that are here, or add one")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    add = actions.add_parser("add", help="add a model")
    add.add_argument("name", help="the model's name")
    parser.set_defaults(execute=execute)


def parameter_count(path: Path) -> int:
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
        raise ValueError(f"{path} is damaged: {error}. `kvlab doctor` tells which files to bring back.") from error


def present() -> list[PresentModel]:
    """The models that are here, the primer's first. Raises ValueError when weights are damaged."""
    found = []
    for weights in sorted((data_dir() / "primer").glob("*/*.safetensors")):
        name = "primer" if weights.parent.name == "target" else f"primer-{weights.parent.name}"
        source = f"trained by this project ({weights.parent.relative_to(data_dir()).as_posix()})"
        found.append(PresentModel(name, parameter_count(weights), weights.stat().st_size, "MIT", source))
    return sorted(found, key=lambda model: model.name)


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        models = present()
    except ValueError as error:
        raise CommandError(str(error)) from error
    if options.action == "add":
        return _add(options.name, [model.name for model in models])
    if not models:
        raise CommandError(f"There are no models in {data_dir()}. `kvlab doctor` tells what is missing.")
    print(f"{'name':<16} {'parameters':>12} {'size':>9}  {'licence':<10} source")
    for model in models:
        size = f"{model.size / 1e6:.1f} MB"
        print(f"{model.name:<16} {model.parameters:>12,} {size:>9}  {model.licence:<10} {model.source}")
    print(f"\nLoad one in a notebook with kvlab.load({models[0].name!r}).")
    return 0


def _add(name: str, here: list[str]) -> int:
    if name in here:
        print(f"{name} is already here.")
        return 0
    if name not in ADDABLE:
        can = f"Can be added: {', '.join(ADDABLE)}." if ADDABLE else "This release can add no others."
        raise CommandError(f"There is no model '{name}'. Here: {', '.join(here) or 'none'}. {can}")
    ADDABLE[name]()
    return 0
