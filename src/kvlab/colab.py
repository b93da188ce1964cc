"""Make a Google Colab machine ready for the notebooks: install what is missing, and change nothing that is there.

The first cell of each notebook fetches the course and calls `prepare`. Colab has imported numpy and its own ipywidgets
before that cell runs, and a package that is exchanged under a running kernel breaks it; so pip gets every installed
version as a constraint. The course itself is not installed: the cell puts its folder on the path.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.paths import repo_root

if TYPE_CHECKING:
    from packaging.requirements import Requirement

NEEDED = (
    "ipywidgets",
    "jinja2",
    "jupyterquiz",
    "matplotlib",
    "numpy",
    "psutil",
    "safetensors",
    "tokenizers",
    "torch",
    "tqdm",
)
"""The dependencies that notebooks import. JupyterLab, nbgrader and papermill have no use on Colab."""

PART_OF_COLAB = ("ipywidgets", "numpy", "torch")
"""Never installed here: Colab comes with them, fitted to its front end and its GPU."""


def prepare(*extras: str) -> None:
    """Install the packages that are missing, and print one sentence for each thing that is not as it should be.

    extras: names from pyproject.toml's optional dependencies ("api") that the notebook needs beside the usual ones.
    A second call finds everything in place and does nothing. Raises ValueError outside a clone of the course.
    """
    root = repo_root()
    if root is None:
        raise ValueError("prepare works in a clone of the course; an installed course needs no preparation")
    wanted = requirements(root / "pyproject.toml", extras)
    before = installed()
    missing = [item for item in wanted if normal(item.name) not in before]
    for sentence in complaints(wanted, before):
        print(sentence)
    names = [str(item) for item in missing if normal(item.name) not in PART_OF_COLAB]
    if names and not _install(names, before):
        print(f"Could not install {', '.join(names)}: check the network, then run this cell again.")
    _let_commands_find_the_course(root / "src")


def requirements(pyproject: Path, extras: Iterable[str] = ()) -> list[Requirement]:
    """What the notebooks need, with the versions that pyproject.toml asks for. Raises ValueError for an unknown extra."""
    from packaging.requirements import Requirement

    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    for extra in extras:
        if extra not in optional:
            raise ValueError(f"there is no extra {extra!r}; there are: {', '.join(optional)}")
    usual = [item for item in map(Requirement, project["dependencies"]) if item.name in NEEDED]
    return usual + [Requirement(text) for extra in extras for text in optional[extra]]


def installed() -> dict[str, str]:
    """The version of every installed package by its normal name. The first on the path counts, as for an import."""
    found: dict[str, str] = {}
    for item in metadata.distributions():
        name = item.metadata["Name"]
        if name:  # a broken leftover of an installation has none
            found.setdefault(normal(name), item.version)
    return found


def complaints(wanted: Iterable[Requirement], have: Mapping[str, str]) -> list[str]:
    """One sentence for each package that is too old, or missing where only Colab can bring it."""
    found = []
    for item in wanted:
        version = have.get(normal(item.name))
        if version is None and normal(item.name) in PART_OF_COLAB:
            found.append(
                f"{item.name} is missing, which Colab brings itself: choose Runtime → Disconnect and delete runtime."
            )
        elif version is not None and not item.specifier.contains(version, prereleases=True):
            found.append(
                f"{item.name} {version} is here and the course asks for {item}: it stays, and a cell may fail."
            )
    return found


def constraints(have: Mapping[str, str]) -> str:
    """Lines for `pip install --constraint` that hold every package at its version."""
    from packaging.version import InvalidVersion, Version

    lines = []
    for name, version in sorted(have.items()):
        try:
            Version(version)
        except InvalidVersion:  # pip refuses such a line, and cannot upgrade to it either
            continue
        lines.append(f"{name}=={version}\n")
    return "".join(lines)


def normal(name: str) -> str:
    """A package's name as pip compares it (PEP 503)."""
    return name.lower().replace("_", "-").replace(".", "-")


def _install(names: list[str], have: Mapping[str, str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "constraints.txt"
        held.write_text(constraints(have), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, "--constraint", str(held), *names], capture_output=True, check=False)
    importlib.invalidate_caches()
    return done.returncode == 0


def _let_commands_find_the_course(source: Path) -> None:
    """Let `!python -m kvlab …` in a cell find the package; a second call adds nothing."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(source) not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), *folders]))
