"""Solution regions of a cell: find them, take them out, and compare what a cell defines with and without them.

nbgrader's ClearSolutions makes the released stub; `clear` does the same here (a test compares the two), so that a unit
can be checked before nbgrader runs.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

BEGIN = "BEGIN SOLUTION"
END = "END SOLUTION"
_BEGIN_LINE = f"### {BEGIN}"
_END_LINE = f"### {END}"


class MarkerError(ValueError):
    """The markers are unbalanced. `line` counts from 1 in the cell's source."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True)
class Region:
    """A solution region: source lines between the two markers, and the line of BEGIN, from 1."""

    begin: int
    lines: tuple[str, ...]


def regions(source: str) -> list[Region]:
    """The solution regions of a cell in order. Raises MarkerError when they nest, overlap or don't close."""
    found: list[Region] = []
    begin: int | None = None
    lines = source.split("\n")
    for number, line in enumerate(lines, start=1):
        if BEGIN in line:
            if line.strip() != _BEGIN_LINE:
                raise MarkerError(number, f"write the marker as {_BEGIN_LINE!r}, alone on its line")
            if begin is not None:
                raise MarkerError(number, f"a second {_BEGIN_LINE!r} before {_END_LINE!r}")
            begin = number
        elif END in line:
            if line.strip() != _END_LINE:
                raise MarkerError(number, f"write the marker as {_END_LINE!r}, alone on its line")
            if begin is None:
                raise MarkerError(number, f"{_END_LINE!r} without {_BEGIN_LINE!r}")
            found.append(Region(begin, tuple(lines[begin : number - 1])))
            begin = None
    if begin is not None:
        raise MarkerError(begin, f"{_BEGIN_LINE!r} without {_END_LINE!r}")
    return found


def clear(source: str, stub: str) -> str:
    """The source with each region replaced by the stub, indented as its BEGIN line."""
    out: list[str] = []
    inside = False
    for line in source.split("\n"):
        if BEGIN in line:
            inside = True
            indent = re.match(r"\s*", line)
            out += [(indent.group(0) if indent else "") + text for text in stub.split("\n")]
        elif END in line:
            inside = False
        elif not inside:
            out.append(line)
    return "\n".join(out)


def without_markers(source: str) -> str:
    """The source as the solved cell reads: marker lines gone, solutions kept."""
    return "\n".join(line for line in source.split("\n") if BEGIN not in line and END not in line)


def signatures(tree: ast.Module) -> dict[str, str]:
    """What a cell defines at its top level and in its classes, by dotted name: a signature as text.

    Names that start with one underscore are left out: they are the author's helpers. `__init__` and its like count.
    """
    out: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            out[node.name] = _signature(node)
        elif isinstance(node, ast.ClassDef):
            out[node.name] = "class " + ", ".join(ast.unparse(base) for base in node.bases)
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    out[f"{node.name}.{item.name}"] = _signature(item)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    out[target.id] = "a value"
    return {name: text for name, text in out.items() if not _private(name.rsplit(".", 1)[-1])}


def undocumented(tree: ast.Module) -> list[tuple[str, int]]:
    """Public functions and classes at the top level without a docstring, with their lines."""
    return [
        (node.name, node.lineno)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not _private(node.name)
        and not ast.get_docstring(node)
    ]


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = "".join(f"@{ast.unparse(item)} " for item in node.decorator_list)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{decorators}def {node.name}({ast.unparse(node.args)}){returns}"


def _private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
