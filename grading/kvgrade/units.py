"""Read an authored unit (`grading/units/NN_name.py`, jupytext's percent format) into cells with line numbers.

jupytext itself reads the same files in JupyterLab. This reader exists because it starts 2 s faster, keeps the line
of every cell for error messages, and refuses what it does not know. A test compares the two on every unit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""The repository: the folder that holds grading/, notebooks/ and data/."""

# The option that makes a cell more than prose or a demonstration, the type of cell it needs, and its other options.
ROLES: dict[str, tuple[str, frozenset[str]]] = {
    "exercise": ("code", frozenset({"minutes", "difficulty", "closed"})),
    "hints": ("markdown", frozenset()),
    "check": ("code", frozenset({"points"})),
    "manual": ("markdown", frozenset({"points"})),
}
COMMON_OPTIONS = frozenset({"tags"})

_MARKER = re.compile(r"# %%(?:\s|$)")
_HEADER = re.compile(r"# %%(?:\s+\[(?P<type>\w+)\])?(?P<options>.*)$")
_OPTION = re.compile(r'\s*(?P<key>[A-Za-z_]\w*)=(?P<value>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^\s"\[\]]+)(?=\s|$)')
_MAGIC = re.compile(r"# (%{1,2}[a-zA-Z]|!)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*$")


class UnitError(ValueError):
    """A unit that can't be built. The text names the file and the line."""

    def __init__(self, path: Path, line: int, what: str) -> None:
        super().__init__(f"{_short(path)}:{line}: {what}")


@dataclass(frozen=True)
class Cell:
    """One cell. `line` is where its `# %%` marker stands, from 1; `role` is None for prose and demonstrations."""

    cell_type: str
    source: str
    line: int
    options: dict[str, Any] = field(default_factory=dict)
    role: str | None = None

    @property
    def name(self) -> str | None:
        """The exercise or question that the cell belongs to."""
        return self.options[self.role] if self.role else None

    @property
    def tags(self) -> list[str]:
        return self.options.get("tags", [])


@dataclass(frozen=True)
class Unit:
    """An authored notebook."""

    name: str
    path: Path
    text: str
    cells: list[Cell]

    @property
    def graded(self) -> bool:
        """Whether it holds anything that earns points. One that does not is read, run and released, but no assignment."""
        return any(cell.role in ("exercise", "manual") for cell in self.cells)

    def with_role(self, role: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.role == role]

    def error(self, cell: Cell, what: str, offset: int = 0) -> UnitError:
        """An error at a line of a cell; offset 0 is the marker line, 1 the first line of its source."""
        return UnitError(self.path, cell.line + offset, what)


def find_units(wanted: list[str] | None = None, root: Path = ROOT) -> list[Path]:
    """The unit files in order; `wanted` picks some by name ("01_kv_cache") or number ("01", "1").

    Raises ValueError for a name that no unit has.
    """
    paths = sorted((root / "grading" / "units").glob("[0-9][0-9]_*.py"))
    if not wanted:
        return paths
    picked: set[Path] = set()
    for name in wanted:
        number = name.zfill(2)  # 1 is 01
        found = [path for path in paths if name in (path.stem, path.name, str(path)) or number == path.stem[:2]]
        if not found:
            raise ValueError(f"no unit {name!r}; the units are: {', '.join(p.stem for p in paths) or '(none)'}")
        picked.add(found[0])
    return sorted(picked)


def read_unit(path: Path) -> Unit:
    """Parse one unit file. Raises UnitError with the line of what it can't read."""
    text = path.read_text(encoding="utf-8")
    return Unit(name=path.stem, path=path, text=text, cells=list(_cells(path, text)))


def _cells(path: Path, text: str) -> Iterator[Cell]:
    lines = text.splitlines()
    start = _after_yaml_header(lines)
    marks = [i for i in range(start, len(lines)) if _MARKER.match(lines[i])]
    for i in range(start, marks[0] if marks else len(lines)):
        if lines[i].strip():
            raise UnitError(path, i + 1, "text before the first '# %%' line: jupytext would make it a cell of its own")
    for mark, end in zip(marks, [*marks[1:], len(lines)], strict=True):
        cell_type, options = _header(path, mark + 1, lines[mark])
        body = lines[mark + 1 : end]
        while body and not body[-1].strip():
            body.pop()
        source = _markdown(path, mark + 2, body) if cell_type == "markdown" else _code(body)
        yield Cell(cell_type, source, mark + 1, options, _role(path, mark + 1, cell_type, options))


def _after_yaml_header(lines: list[str]) -> int:
    """jupytext may put `# ---`, settings, `# ---` on top; that is no cell."""
    if lines and lines[0] == "# ---":
        for i, line in enumerate(lines[1:], start=1):
            if line == "# ---":
                return i + 1
    return 0


def _header(path: Path, line: int, text: str) -> tuple[str, dict[str, Any]]:
    match = _HEADER.match(text)
    cell_type = (match and match["type"]) or "code"
    if not match or cell_type not in ("code", "markdown"):
        raise UnitError(path, line, f"a cell is '# %%' or '# %% [markdown]', not {text!r}")
    options: dict[str, Any] = {}
    rest, at = match["options"].rstrip(), 0
    while at < len(rest):
        option = _OPTION.match(rest, at)
        if not option:
            raise UnitError(path, line, f"can't read {rest[at:].strip()!r}: options are key=value, value as in JSON")
        try:
            value = json.loads(option["value"])
        except ValueError:
            raise UnitError(path, line, f"{option['key']}={option['value']}: the value is not JSON") from None
        if option["key"] in options:
            raise UnitError(path, line, f"option {option['key']} is given twice")
        options[option["key"]] = value
        at = option.end()
    return cell_type, options


def _role(path: Path, line: int, cell_type: str, options: dict[str, Any]) -> str | None:
    roles = [key for key in options if key in ROLES]
    if len(roles) > 1:
        raise UnitError(path, line, f"a cell has one role, not {' and '.join(roles)}")
    role = roles[0] if roles else None
    allowed = COMMON_OPTIONS | (ROLES[role][1] | {role} if role else frozenset())
    for key in options:
        if key not in allowed:
            raise UnitError(path, line, f"unknown option {key!r} here; allowed: {', '.join(sorted(allowed))}")
    tags = options.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise UnitError(path, line, 'tags is a list of texts, such as tags=["parameters"]')
    if role:
        if cell_type != ROLES[role][0]:
            raise UnitError(path, line, f"a cell with {role}= is a {ROLES[role][0]} cell")
        name = options[role]
        if not isinstance(name, str) or not _NAME.match(name) or len(name) > 50:
            raise UnitError(path, line, f"{role}={name!r}: a name is letters, digits and _, at most 50 characters")
    return role


def _markdown(path: Path, line: int, body: list[str]) -> str:
    out = []
    for i, text in enumerate(body):
        if text.strip() and text != "#" and not text.startswith("# "):
            raise UnitError(path, line + i, "every line of a markdown cell starts with '# ' (an empty one is '#')")
        out.append(text[2:])
    while out and not out[-1].strip():
        out.pop()
    return "\n".join(out)


def _code(body: list[str]) -> str:
    """A magic or shell line is commented in the file (`# %matplotlib inline`) and bare in the notebook."""
    return "\n".join(line[2:] if _MAGIC.match(line) else line for line in body)


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)
