"""What a unit must be before it is built. Each refusal names the file and the line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .stubs import MarkerError, Region, clear, regions, signatures, undocumented
from .units import Cell, Unit, UnitError

FORBIDDEN_TAGS = {"raises-exception", "skip-execution"}  # each makes a failing or skipped cell look like a good one
# Words that other nbgrader steps act on; in a unit they could only be there by mistake.
FORBIDDEN_WORDS = ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS", "BEGIN MARK SCHEME", "END MARK SCHEME", "AUTOTEST")
LEAK_LENGTH = 12
N_HINTS = 3

_HINT = re.compile(r"(\d+)\. +(.*)")


def validate(unit: Unit, code_stub: str) -> None:
    """Raise UnitError for the first thing that is wrong with the unit."""
    for cell in unit.cells:
        _tags_and_words(unit, cell)
        if cell.cell_type == "code":
            _parse(unit, cell, cell.source)
    _parameters(unit)
    _names(unit)
    for cell in unit.with_role("exercise"):
        _exercise(unit, cell, code_stub)
    for cell in unit.with_role("hints"):
        hints(unit, cell)
    for cell in unit.with_role("check"):
        _points(unit, cell)
        _check(unit, cell)
    for cell in unit.with_role("manual"):
        _points(unit, cell)
        _manual(unit, cell)


def hints(unit: Unit, cell: Cell) -> list[str]:
    """The three hints of a hints cell, each as markdown."""
    found: list[list[str]] = []
    for offset, line in enumerate(cell.source.split("\n"), start=1):
        item = _HINT.match(line)
        if item:
            found.append([item[2]])
            if int(item[1]) != len(found):
                raise unit.error(cell, f"hint {item[1]} stands where hint {len(found)} is due", offset)
        elif found and (not line.strip() or line.startswith("  ")):
            found[-1].append(line[3:] if line.startswith("   ") else line.strip())
        elif line.strip():
            raise unit.error(cell, "hints are '1. …', '2. …', '3. …'; further lines of a hint are indented", offset)
    if len(found) != N_HINTS:
        raise unit.error(cell, f"exercise {cell.name} has {len(found)} hints; it needs {N_HINTS}")
    return ["\n".join(lines).strip() for lines in found]


def solution_lines(unit: Unit) -> Iterator[tuple[Cell, int, str]]:
    """Each line of a solution that is long enough to be told: (cell, offset in the cell, stripped text)."""
    for cell in unit.cells:
        if cell.role in ("exercise", "manual"):
            for region in regions(cell.source):
                for i, line in enumerate(region.lines, start=region.begin + 1):
                    text = line.strip().lstrip("# ")  # a comment's words count, its sign does not
                    if len(text) >= LEAK_LENGTH:
                        yield cell, i, text


def refuse_leaks(unit: Unit, released: list[str]) -> None:
    """Raise UnitError when a line of a solution stands in a released cell's source."""
    for cell, offset, line in solution_lines(unit):
        for source in released:
            if line in source:
                where = next(text for text in source.split("\n") if line in text).strip()
                what = f"this line of the solution also stands in the released notebook ({where!r}): reword one of them"
                raise unit.error(cell, what, offset)


def _tags_and_words(unit: Unit, cell: Cell) -> None:
    for tag in FORBIDDEN_TAGS.intersection(cell.tags):
        raise unit.error(cell, f"tag {tag!r} is not allowed: put a deliberate error into try/except")
    for offset, line in enumerate(cell.source.split("\n"), start=1):
        for word in FORBIDDEN_WORDS:
            if word in line:
                raise unit.error(cell, f"{word!r} means something to nbgrader; write it another way", offset)
    if cell.role not in ("exercise", "manual"):
        for region in _regions(unit, cell):
            raise unit.error(cell, "solution markers outside an exercise or manual cell", region.begin)


def _parse(unit: Unit, cell: Cell, source: str) -> ast.Module:
    plain = "\n".join("pass" if re.match(r"[%!]", line) else line for line in source.split("\n"))
    try:
        return ast.parse(plain)
    except SyntaxError as error:
        raise unit.error(cell, f"this code does not parse: {error.msg}", error.lineno or 1) from None


def _parameters(unit: Unit) -> None:
    cells = [cell for cell in unit.cells if "parameters" in cell.tags]
    if len(cells) != 1 or cells[0].cell_type != "code":
        raise UnitError(unit.path, cells[1].line if len(cells) > 1 else 1, 'need exactly one cell tags=["parameters"]')
    for node in _parse(unit, cells[0], cells[0].source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        try:
            if not isinstance(target, ast.Name):
                raise ValueError
            ast.literal_eval(node.value)  # type: ignore[attr-defined]
        except ValueError:
            what = "the parameters cell holds NAME = literal only: papermill overrides it from outside"
            raise unit.error(cells[0], what, node.lineno) from None


def _names(unit: Unit) -> None:
    """Names are unique, and hints and check come after their exercise and before the next one."""
    seen: dict[tuple[str, str], int] = {}
    current: str | None = None
    for cell in unit.cells:
        if not cell.role or not cell.name:
            continue
        answer = "exercise" if cell.role == "manual" else cell.role  # both are answers: one name, one answer cell
        if (answer, cell.name) in seen:
            raise unit.error(cell, f"name {cell.name!r} is taken by the cell in line {seen[answer, cell.name]}")
        seen[answer, cell.name] = cell.line
        if cell.role == "exercise":
            current = cell.name
        elif cell.role in ("hints", "check") and cell.name != current:
            raise unit.error(cell, f"{cell.role} of {cell.name!r} must follow its exercise cell, before the next one")
    for cell in unit.with_role("exercise"):
        for role in ("hints", "check"):
            if (role, str(cell.name)) not in seen:
                raise unit.error(cell, f"exercise {cell.name!r} has no {role} cell")


def _exercise(unit: Unit, cell: Cell, code_stub: str) -> None:
    name = str(cell.name)
    if cell.source.split("\n", 1)[0] != f"# exercise: {name}":
        raise unit.error(cell, f"the first line of the answer cell is '# exercise: {name}'", 1)
    minutes, difficulty = cell.options.get("minutes"), cell.options.get("difficulty")
    if type(minutes) is not int or minutes < 1:
        raise unit.error(cell, "needs minutes=N, a whole number of at least 1")
    if type(difficulty) is not int or not 1 <= difficulty <= 5:
        raise unit.error(cell, "needs difficulty=N, from 1 to 5")
    found = _regions(unit, cell)
    if not found:
        raise unit.error(cell, "has no '### BEGIN SOLUTION' … '### END SOLUTION': nbgrader would clear the whole cell")
    solved = _parse(unit, cell, cell.source)
    stub = clear(cell.source, code_stub)
    released = _parse(unit, cell, stub)
    before, after = signatures(solved), signatures(released)
    if not any(text.startswith(("def ", "class ", "@")) for text in before.values()):
        raise unit.error(cell, "defines no function or class")
    for defined, text in before.items():
        if after.get(defined) != text:
            what = f"the stub must still define {defined} ({text}): move the markers inside its body"
            raise unit.error(cell, what, found[0].begin)
    for undone, line in undocumented(released):
        raise unit.error(cell, f"{undone} has no docstring outside the markers: it is the specification", line)
    _one_region_per_function(unit, cell, solved, found)
    closed = cell.options.get("closed", [])
    if not isinstance(closed, list) or not all(isinstance(item, str) and "." in item for item in closed):
        raise unit.error(cell, 'closed is a list of dotted names, such as closed=["kvlab.sampling.top_p_filter"]')
    for item in closed:
        if item not in stub:
            raise unit.error(cell, f"{item} is closed, so the docstring has to say so, with this dotted name")


def _one_region_per_function(unit: Unit, cell: Cell, solved: ast.Module, found: list[Region]) -> None:
    spans = [
        (node.lineno, node.end_lineno or node.lineno, node.name)
        for node in ast.walk(solved)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    taken: set[str] = set()
    for region in found:
        around = [span for span in spans if span[0] < region.begin <= span[1] + 1]
        if not around:
            raise unit.error(cell, "a solution region stands inside a function or method", region.begin)
        # `lineno` is unique among definitions, unlike the name: two classes may share a method's name.
        key = str(max(around)[0])
        if key in taken:
            raise unit.error(cell, f"a second solution region in {max(around)[2]}: one per function", region.begin)
        taken.add(key)


def _check(unit: Unit, cell: Cell) -> None:
    body = _parse(unit, cell, cell.source).body
    last = body[-1] if body else None
    calls = [ast.unparse(item.context_expr) for item in last.items] if isinstance(last, ast.With) else []
    if len(calls) != 1 or calls[0] != f"check.exercise({cell.name!r})":
        raise unit.error(cell, f'must end with one block: with check.exercise("{cell.name}") as t:')


def _manual(unit: Unit, cell: Cell) -> None:
    found = _regions(unit, cell)
    if len(found) != 1:
        raise unit.error(cell, "a manual question has exactly one pair of markers, around the model answer")
    if found[0].begin == 1 or not "".join(cell.source.split("\n")[: found[0].begin - 1]).strip():
        raise unit.error(cell, "the question comes before the markers")


def _points(unit: Unit, cell: Cell) -> None:
    points = cell.options.get("points")
    if type(points) is not int or points < 1:
        raise unit.error(cell, "needs points=N, a whole number of at least 1")


def _regions(unit: Unit, cell: Cell) -> list[Region]:
    try:
        return regions(cell.source)
    except MarkerError as error:
        raise unit.error(cell, str(error), error.line) from None
