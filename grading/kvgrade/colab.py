"""What a notebook needs to open on Google Colab, built from the one address in pyproject.toml.

A unit writes `{{colab badge}}` where the badge stands, and `# {{colab bootstrap}}` as its first code cell, with the
names of the extras that it needs after a colon: `# {{colab bootstrap: api}}`.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

from .units import Unit

BADGE = "{{colab badge}}"
_BOOTSTRAP = re.compile(r"# \{\{colab bootstrap(?:: (?P<extras>[a-z]+(?:, [a-z]+)*))?\}\}")
_MARK = re.compile(r"\{\{colab[^}]*\}\}")

_CELL = """\
# On Google Colab this cell fetches the course; anywhere else it only looks whether the course is installed.
import importlib.util
import sys

if importlib.util.find_spec("kvlab") is None:
    if "google.colab" not in sys.modules:
        raise RuntimeError("this kernel has no kvlab: start with `make lab`, or choose the kernel of its .venv")
    import pathlib
    import shutil
    import subprocess

    course, half = pathlib.Path("kvlab-course").resolve(), pathlib.Path("kvlab-course.part")
    if not course.exists():
        shutil.rmtree(half, ignore_errors=True)  # of a try that was cut short
        address = "{address}"
        clone = ["git", "clone", "--quiet", "--depth", "1", address, str(half)]
        if subprocess.run(clone, capture_output=True).returncode:
            raise RuntimeError(f"{{address}} could not be fetched: check the network, then run this cell again")
        half.rename(course)
    sys.path.insert(0, str(course / "src"))

if "google.colab" in sys.modules:
    from kvlab import colab

    colab.prepare({extras})  # installs what Colab lacks and changes nothing that it has

from kvlab import next_step

next_step.explain_errors()  # below an error that another cell or the machine caused, a line says what to do"""


def filled(unit: Unit, root: Path) -> Unit:
    """The unit with its badge and its bootstrap cell in place. Raises UnitError for a mark that is written otherwise."""
    if not any(_MARK.search(cell.source) for cell in unit.cells):
        return unit
    address = repository(root)
    cells = []
    for cell in unit.cells:
        source = cell.source
        if cell.cell_type == "markdown":
            source = source.replace(BADGE, badge(address, unit.name))
        elif match := _BOOTSTRAP.fullmatch(source):
            source = bootstrap(address, *re.findall("[a-z]+", match["extras"] or ""))
        if left := _MARK.search(source):
            raise unit.error(cell, f"{left[0]} is no mark: see docs/colab.md", 1)
        cells.append(replace(cell, source=source))
    return replace(unit, cells=cells)


def repository(root: Path) -> str:
    """The address of the repository, as pyproject.toml has it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["kvlab"]["repository"])


def badge(address: str, unit: str) -> str:
    """A link in Markdown that opens a released notebook on Colab.

    Words, not Colab's picture of a badge: a picture would make each opened notebook call another host.
    """
    place = address.removeprefix("https://github.com/")
    link = f"https://colab.research.google.com/github/{place}/blob/main/notebooks/{unit}.ipynb"
    return f"[Open in Colab]({link})"


def bootstrap(address: str, *extras: str) -> str:
    """The source of the first code cell. `extras`: see `kvlab.colab.prepare`."""
    return _CELL.format(address=address, extras=", ".join(f'"{name}"' for name in extras))
