"""Put a hand-in where nbgrader looks for it. What stood there before is kept beside it, and nbgrader ignores that."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ..folders import SET_ASIDE
from ..results import write_atomic

STAMP = "timestamp.txt"
_FORM = "%Y-%m-%d %H:%M:%S UTC"  # as nbgrader's exchange writes it, without fractions


@dataclass(frozen=True)
class Placed:
    """What was done: `taken`, `unchanged` (it stood there already) or `older` (than what stands there).

    kept: names of what was moved aside. time: what timestamp.txt says now. restamped: it says so since this call, beside
    a hand-in that is unchanged.
    """

    state: str
    kept: list[str] = field(default_factory=list)
    time: datetime | None = None
    restamped: bool = False


def put(
    folder: Path,
    data: bytes,
    time: datetime | None,
    dry_run: bool = False,
    restamp: bool = False,
    replaces_newer: bool = False,
) -> Placed:
    """Write `data` as the hand-in in `submitted/<student>/<unit>`, with nbgrader's timestamp when the time is known.

    A hand-in that stands there already gets a timestamp if it has none; `restamp` also corrects the one it has.
    `replaces_newer`: what stands there counts less, whenever it came. A killed call leaves the old hand-in or the new one, and every older one. Raises ValueError when a link or a file
    stands where a folder must.
    """
    for place in (folder.parent, folder):
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
            raise ValueError(f"{place} is a link or no folder: move it away")
    target, stamp = folder / f"{folder.name}.ipynb", folder / STAMP
    old = target.read_bytes() if target.is_file() and not target.is_symlink() else None
    old_time = _read_stamp(stamp)
    if old == data:
        newly = time is not None and time != old_time and (restamp or not os.path.lexists(stamp))
        if newly and time and not dry_run:
            _stamp(stamp, time)
        return Placed("unchanged", time=time if newly else old_time, restamped=newly)
    if old is not None and time and old_time and time < old_time and not replaces_newer:
        return Placed("older", time=old_time)
    n = _number(folder)
    aside = [] if old is None else [(target, f"earlier-{n}{SET_ASIDE}")]
    if stamp.is_file() and not stamp.is_symlink():
        aside.append((stamp, f"earlier-{n}-timestamp{SET_ASIDE}"))
    others = _others(folder, target)
    names = [name for _, name in aside[:1]] + [f"{path.name}{SET_ASIDE}" for path in others]
    placed = Placed("taken", names, time)
    if dry_run:
        return placed
    folder.mkdir(parents=True, exist_ok=True)
    for path, name in aside:
        write_atomic(folder / name, path.read_bytes())
    for path in others:
        path.rename(_free(path))
    if time:
        _stamp(stamp, time)
    else:
        stamp.unlink(missing_ok=True)
    _write(target, data)
    return placed


def standing(folder: Path) -> Path | None:
    """The hand-in that stands in `submitted/<student>/<unit>`, if it is a file of its own."""
    path = folder / f"{folder.name}.ipynb"
    return path if path.is_file() and not path.is_symlink() else None


def _stamp(path: Path, time: datetime) -> None:
    """Write nbgrader's timestamp. A link or a folder in its place raises ValueError: nothing is written through it."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise ValueError(f"{path} is a link or no file: move it away")
    _write(path, time.astimezone(UTC).strftime(_FORM).encode())


def _write(path: Path, data: bytes) -> None:
    write_atomic(path, data, 0o644)


def _number(folder: Path) -> int:
    """The next free number of what is kept."""
    form = re.compile(rf"earlier-(\d{{1,9}})(-timestamp)?{re.escape(SET_ASIDE)}")
    names = os.listdir(folder) if folder.is_dir() else []
    return 1 + max((int(match[1]) for name in names if (match := form.fullmatch(name))), default=0)


def _others(folder: Path, target: Path) -> list[Path]:
    """Notebooks of other names, and the grader's note about them: left there, they would be taken for the hand-in."""
    if not folder.is_dir():
        return []
    odd = [target] if os.path.lexists(target) and (target.is_symlink() or not target.is_file()) else []
    notebooks = [path for path in sorted(folder.glob("*.ipynb")) if path != target]
    note = folder / f"copied-from{SET_ASIDE}"
    return [*odd, *notebooks, *([note] if os.path.lexists(note) else [])]


def _free(path: Path) -> Path:
    base = path.name.removesuffix(SET_ASIDE)[:80]
    for number in range(10_000):
        target = path.with_name(f"{base}{f'-{number}' if number else ''}{SET_ASIDE}")
        if not os.path.lexists(target) and target != path:
            return target
    raise ValueError(f"{path.parent} holds ten thousand files of one name: tidy it up")


def _read_stamp(path: Path) -> datetime | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    for form in (_FORM, _FORM.replace(" UTC", ".%f UTC")):  # nbgrader's own has fractions of a second
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
