"""`kvlab reset UNIT [EXERCISE]`: gives back a released notebook, or one answer cell of it, and keeps a copy."""

import argparse
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from kvlab.cli import units
from kvlab.cli.errors import CommandError
from kvlab.cli.files import cell_source, digest, full_path, parse_notebook, read_release, write_atomic
from kvlab.cli.workspace import default_folder, load_manifest

MARKER = re.compile(r"\s*#\s*exercise:\s*([A-Za-z0-9_.-]+)\s*$")
Cell = dict[str, Any]


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("reset", help="get a released notebook, or one answer cell, back (keeps a copy)")
    parser.add_argument("unit", help="a unit: 1, 01 or 01_kv_cache")
    parser.add_argument("exercise", nargs="?", help="only the answer cell of this exercise")
    parser.add_argument(
        "--dir", type=Path, default=None, help="your folder (default: this one if it is such a folder, else work)"
    )
    parser.set_defaults(execute=execute)


def exercise_name(cell: Cell) -> str | None:
    """The exercise whose answer this cell holds: by its first line `# exercise: NAME`, else by nbgrader's grade id."""
    lines = cell_source(cell).splitlines()
    match = MARKER.match(lines[0]) if lines else None
    return match.group(1) if match else grade_id(cell)


def grade_id(cell: Cell) -> str | None:
    """nbgrader's id of an answer cell; None for every other cell."""
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(mark, dict) and mark.get("solution") and isinstance(mark.get("grade_id"), str):
        return str(mark["grade_id"])
    return None


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    unit = units.find(options.unit)
    release = read_release(units.released()[unit])
    folder = full_path(options.dir or default_folder())
    path = folder / f"{unit}.ipynb"
    try:
        units.refuse_release(folder, "--dir")
        current = path.read_bytes() if path.exists() else None
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror or error}.") from error
    if options.exercise is None:
        new, done = release, f"{path.name} is the released notebook again."
    else:
        new, count = _with_released_answer(path, current, release, options.exercise)
        cells = "cell" if count == 1 else f"{count} cells"
        done = f"{path.name}: the answer {cells} of {options.exercise} is as released again."
    if new == current:
        print(f"{path.name} is already as released. Nothing was changed.")
        return 0
    # An unreadable record stops the command here, before anything is changed.
    manifest, warning = load_manifest(folder) if options.exercise is None else (None, None)
    copy = _keep_copy(path, current) if current is not None else None
    write_atomic(path, new)
    if manifest is not None:
        manifest.copied[path.name] = digest(release)
        manifest.save()
    if warning:
        print(warning)
    print(done)
    if copy is not None:
        print(f"Your version was kept as {copy.name}. If the notebook is open, reload it from disk.")
    return 0


def _is_answer(cell: Cell, name: str, released_id: str | None) -> bool:
    # The learner may have lost the marker line or the metadata; one of the two is enough.
    return exercise_name(cell) == name or (released_id is not None and grade_id(cell) == released_id)


def _keep_copy(path: Path, data: bytes) -> Path:
    stamp = datetime.now().strftime("%Y-%m-%d_%H%M%S")
    copy, n = path.with_name(f"{path.stem}.{stamp}.bak.ipynb"), 1
    while copy.exists():
        n += 1
        copy = path.with_name(f"{path.stem}.{stamp}-{n}.bak.ipynb")
    write_atomic(copy, data)
    return copy


def _with_released_answer(path: Path, current: bytes | None, release: bytes, name: str) -> tuple[bytes, int]:
    """The learner's notebook with the answer cells of one exercise as released, and how many cells that were."""
    if current is None:
        raise CommandError(f"{path} does not exist. `kvlab reset {path.stem}` puts the released notebook there.")
    released = {exercise: cell for cell in parse_notebook(release)["cells"] if (exercise := exercise_name(cell))}
    if name not in released:
        known = ", ".join(released) or "none"
        raise CommandError(f"{path.stem} has no exercise '{name}'. Exercises: {known}.")
    whole = f"`kvlab reset {path.stem}` gives the whole notebook back and keeps a copy"
    try:
        notebook = parse_notebook(current)
    except ValueError as error:
        raise CommandError(f"{path} is not a readable notebook: {error}. {whole}.") from error
    cells: list[Cell] = [cell for cell in notebook["cells"] if _is_answer(cell, name, grade_id(released[name]))]
    if not cells:
        raise CommandError(f"{path.name} no longer has an answer cell of {name}. {whole}.")
    for cell in cells:
        cell["source"] = released[name]["source"]
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if all(cell == before for cell, before in zip(notebook["cells"], parse_notebook(current)["cells"], strict=True)):
        return current, len(cells)
    return text.encode(), len(cells)
