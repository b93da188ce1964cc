"""Build what the units give: source notebooks, released notebooks and the table of exercises, or check for drift.

A released notebook is kept under `build/kvgrade/` by the hash of everything it depends on, so that nbgrader (seconds to
import) runs only for units that changed. Drift is always judged on the bytes in `notebooks/`, never on dates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kvlab.atomic import write_atomic

from . import colab, release, stubs
from .notebook import dumps, source_notebook
from .units import ROOT, Unit, UnitError, find_units, read_unit
from .validate import refuse_leaks, validate

_TOOLS = ("nbgrader", "nbconvert", "nbformat")  # they write the released file
_IGNORED = {".ipynb_checkpoints", "__pycache__", ".DS_Store"}


@dataclass(frozen=True)
class Built:
    """What one unit gives."""

    unit: Unit
    source: str
    released: bytes
    exercises: dict[str, dict[str, Any]]


def build(units: list[Path], root: Path = ROOT) -> list[Built]:
    """Build units in memory; nothing is written but the cache. Raises UnitError or RuntimeError."""
    code_stub, text_stub = release.stubs(_config(root))
    read = [colab.filled(read_unit(path), root) for path in units]
    sources: dict[str, str] = {}
    for unit in read:
        validate(unit, code_stub)
        _validate_quiz(unit, root)
        sources[unit.name] = dumps(source_notebook(unit, code_stub, text_stub))
    keys = {name: _key(text, root) for name, text in sources.items()}
    released = {name: data for name, key in keys.items() if (data := _cached(root, key)) is not None}
    missing = {name: text for name, text in sources.items() if name not in released}
    if missing:
        fresh = release.generate(missing, _config(root))
        for name, data in fresh.items():
            _store(root, keys[name], data)
        released |= fresh
    for unit in read:
        cells = json.loads(released[unit.name])["cells"]
        refuse_leaks(unit, ["".join(cell["source"]) for cell in cells])
    return [Built(unit, sources[unit.name], released[unit.name], exercises(unit)) for unit in read]


def write(units: list[Path], root: Path = ROOT, say: Callable[[str], None] = print) -> None:
    """Build units and write what changed. All of it is built before anything is written."""
    _refuse_strangers(root)
    built = build(units, root)
    for item in built:
        name = item.unit.name
        if item.unit.graded:  # each folder in source/ is an assignment to nbgrader
            _write(root / "grading" / "source" / name / f"{name}.ipynb", item.source.encode(), root, lambda _: None)
        _write(root / "notebooks" / f"{name}.ipynb", item.released, root, say)
    _write(root / "data" / "exercises.json", _exercise_table(built, root), root, say)


def drift(units: list[Path] | None = None, root: Path = ROOT) -> list[str]:
    """One line for each built file that differs from what its unit gives. `units` None means all, strays included."""
    _refuse_strangers(root)
    every = find_units(root=root)
    built = build(every if units is None else units, root)
    found = []
    for item in built:
        path = root / "notebooks" / f"{item.unit.name}.ipynb"
        if not path.exists():
            found.append(f"notebooks/{path.name} is missing")
        elif (have := path.read_bytes()) != item.released:
            found.append(f"notebooks/{path.name} differs from its unit: {first_difference(have, item.released)}")
    if units is None:
        known = {path.stem for path in every}
        strays = sorted(p.name for p in (root / "notebooks").glob("*.ipynb") if p.stem not in known)
        found += [f"notebooks/{name} has no unit in grading/units" for name in strays]
    table = root / "data" / "exercises.json"
    if not table.exists() or table.read_bytes() != _exercise_table(built, root):
        found.append("data/exercises.json differs from the units")
    return found


def solved_notebook(path: Path, root: Path = ROOT) -> str:
    """The notebook of one unit with its solutions in place and the markers gone: it runs with KVLAB_STRICT=1."""
    code_stub, text_stub = release.stubs(_config(root))
    unit = colab.filled(read_unit(path), root)
    validate(unit, code_stub)
    notebook = source_notebook(unit, code_stub, text_stub)
    for cell in notebook["cells"]:
        cell["source"] = stubs.without_markers(cell["source"])
    return dumps(notebook)


def exercises(unit: Unit) -> dict[str, dict[str, Any]]:
    """What the rest of the course knows about a unit's exercises, by name."""
    points = {cell.name: cell.options["points"] for cell in unit.with_role("check")}
    return {
        str(cell.name): {
            "unit": unit.name,
            "points": points[cell.name],
            "minutes": cell.options["minutes"],
            "difficulty": cell.options["difficulty"],
            "closed": cell.options.get("closed", []),
        }
        for cell in unit.with_role("exercise")
    }


def first_difference(have: bytes, want: bytes) -> str:
    """Where two notebooks part, in words: the first cell that differs, else the metadata, else the byte."""
    try:
        old, new = json.loads(have), json.loads(want)
        old_cells, new_cells = list(old["cells"]), list(new["cells"])
        for i, (a, b) in enumerate(zip(old_cells, new_cells, strict=False), start=1):
            if a != b:
                return f"cell {i} ({_which(a, b)}), {_how(a, b)}"
        if len(old_cells) != len(new_cells):
            return f"it has {len(old_cells)} cells, the unit gives {len(new_cells)}"
        if old != new:
            return "its notebook metadata"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"it is not a readable notebook ({error})"
    at = next((i for i, (a, b) in enumerate(zip(have, want, strict=False)) if a != b), min(len(have), len(want)))
    return f"same cells, but written differently from byte {at} on"


def _which(have: dict[str, Any], want: dict[str, Any]) -> str:
    for cell in (want, have):
        if "nbgrader" in cell["metadata"]:
            return str(cell["metadata"]["nbgrader"]["grade_id"])
    return f"id {want['id']}"


def _how(have: dict[str, Any], want: dict[str, Any]) -> str:
    a, b = ("".join(cell["source"]).split("\n") for cell in (have, want))
    if a == b:
        return "not in its source but in: " + ", ".join(k for k in sorted({*have, *want}) if have.get(k) != want.get(k))
    line = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    shown = [repr(text[line]) if line < len(text) else "nothing" for text in (a, b)]
    return f"line {line + 1}: it has {shown[0]}, the unit gives {shown[1]}"


def _exercise_table(built: list[Built], root: Path) -> bytes:
    """data/exercises.json: the built units' rows, and the other units' as they stand in the file."""
    path = root / "data" / "exercises.json"
    rows: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    units = {p.stem for p in find_units(root=root)} - {item.unit.name for item in built}
    rows = {name: row for name, row in rows.items() if row["unit"] in units}
    for item in built:
        for name, row in item.exercises.items():
            if name in rows:
                raise UnitError(item.unit.path, 1, f"exercise {name!r} exists in unit {rows[name]['unit']} too")
            rows[name] = row
    ordered = dict(sorted(rows.items(), key=lambda pair: pair[1]["unit"]))  # stable: a unit's own order is kept
    return (json.dumps(ordered, indent=1, ensure_ascii=False) + "\n").encode()


def _validate_quiz(unit: Unit, root: Path) -> None:
    path = root / "data" / "quizzes" / f"{unit.name}.json"
    if path.exists():
        from kvlab import quiz

        try:
            quiz.read(path)
        except ValueError as error:
            raise UnitError(path, 1, str(error)) from None


def _refuse_strangers(root: Path) -> None:
    """nbgrader copies whatever lies in a source folder into the release, so nothing but our notebook may."""
    folder = root / "grading" / "source"
    for path in sorted(folder.rglob("*")):
        if _IGNORED.isdisjoint(path.relative_to(folder).parts) and path.is_file():
            name = path.parent.name
            if path != folder / name / f"{name}.ipynb" or not (root / "grading" / "units" / f"{name}.py").exists():
                where = path.relative_to(root)
                raise RuntimeError(f"{where} is not from a unit; nbgrader would release it to learners: move it away")


def _config(root: Path) -> Path:
    return root / "grading" / "nbgrader_config.py"


def _key(source: str, root: Path) -> str:
    """Hash of all that a released notebook depends on: the source notebook, the settings, this package, the tools."""
    digest = hashlib.sha256(source.encode())
    for path in [_config(root), *sorted(Path(__file__).parent.glob("*.py"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for tool in _TOOLS:
        digest.update(f"{tool} {_version(tool)}\n".encode())
    return digest.hexdigest()


def _version(tool: str) -> str:
    try:
        return version(tool)
    except PackageNotFoundError:
        raise RuntimeError(f"{tool} is not installed; the builder needs it (make instructor)") from None


def _cached(root: Path, key: str) -> bytes | None:
    """A kept release, or None. Its own hash stands in front, so a damaged file counts as absent."""
    try:
        digest, _, data = (root / "build" / "kvgrade" / key).read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest().encode() == digest else None


def _store(root: Path, key: str, data: bytes) -> None:
    try:
        _replace(root / "build" / "kvgrade" / key, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    except OSError:
        return  # a cache that can't be written only costs time


def _write(path: Path, data: bytes, root: Path, say: Callable[[str], None]) -> None:
    if not path.exists() or path.read_bytes() != data:
        _replace(path, data)
        say(f"wrote {path.relative_to(root)}")


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data, 0o644)
