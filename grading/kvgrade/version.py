"""What a mark depends on besides the hand-in: the grader's sources, the cases, kvlab, Python, numpy and torch.

A result says which version made it, and another version makes another one: nothing old is taken for new.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import kvlab

from .units import ROOT

NO_MARK = frozenset(
    {
        "__main__",
        "build",
        "changes",
        "cluster",
        "colab",
        "course",
        "export",
        "export_lms",
        "feedback_page",
        "feedback_page_files",
        "folders",
        "gradebook",
        "locks",
        "merge",
        "notebook",
        "pages",
        "plan",
        "pool",
        "progress",
        "preprocessors",
        "prove",
        "release",
        "report",
        "report_facts",
        "seeds",
        "standing",
        "stubs",
        "validate",
        "visible",
    }
)
"""Modules of kvgrade that no mark depends on, as the packages in NO_MARK_FOLDERS. A new module counts until it is here."""
NO_MARK_FOLDERS = ("cli", "intake")
DATA = ("exercises.json", "models.json", "gpus.json", "primer/target/config.json")
"""Files of data/ that cases and oracles read."""


@cache
def grader_version(unit: str) -> str:
    """SHA-256 over all that decides the marks of a unit, but the hand-in and the seed. Worked out once per process."""
    digest = hashlib.sha256()
    numbers = [f"python {sys.version_info.major}.{sys.version_info.minor}"]
    numbers += [f"{name} {version(name)}" for name in ("numpy", "torch")]
    digest.update("\n".join(numbers).encode())
    for name, path in _sources(unit):
        data = path.read_bytes()
        digest.update(f"\n{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def _sources(unit: str) -> Iterator[tuple[str, Path]]:
    """(name, file) of every source, sorted within its part."""
    yield from _below("kvgrade", Path(__file__).parent, deep=True)
    yield from _below("kvlab", Path(kvlab.__file__).parent, deep=True)
    cases = ROOT / "grading" / "cases"
    yield from _below("cases", cases, deep=False)
    yield from _below(f"cases/{unit}", cases / unit, deep=True)
    for name in DATA:
        yield f"data/{name}", ROOT / "data" / name


def _below(name: str, folder: Path, deep: bool) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py") if deep else folder.glob("*.py")):
        inner = path.relative_to(folder)
        ours = name == "kvgrade"
        if not (ours and (inner.parts[0] in NO_MARK_FOLDERS or (len(inner.parts) == 1 and path.stem in NO_MARK))):
            yield f"{name}/{inner.as_posix()}", path
