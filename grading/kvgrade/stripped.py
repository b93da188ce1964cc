"""The `kvlab` that answers may import in the jail: everything but the modules that hold what a unit closes.

Those modules are sent as text with each exercise, with stubs in place of what that exercise closes: a function that is
closed in one exercise is open in its neighbour, and the source of a closed one is nowhere in the jail.
"""

from __future__ import annotations

import ast
import importlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import kvlab

_STUB = '''{head}
{indent}    """Closed in this exercise."""
{indent}    from kvlab.check.closed import refuse

{indent}    refuse("{name}")
'''


def build(folder: Path, closed: Iterable[str]) -> None:
    """Copy `kvlab` into `folder`, without the modules in which the `closed` names are defined."""
    source = Path(kvlab.__file__).parent
    shutil.copytree(source, folder / "kvlab", ignore=shutil.ignore_patterns("__pycache__", "data"))
    for module in {_definition(name)[0] for name in closed if ours(name)}:
        (folder / _path(module)).unlink()
    (folder / "kvlab" / "data").mkdir()


def modules(unit_closed: Iterable[str], closed: Sequence[str]) -> dict[str, str]:
    """The text of each module that `build` left out, with stubs for the names that one exercise closes."""
    texts = {}
    for module in sorted({_definition(name)[0] for name in unit_closed if ours(name)}):
        text = _source(module)
        for name in closed:
            if ours(name) and _definition(name)[0] == module:
                text = _stubbed(text, _definition(name)[1], name)
        texts[module] = text
    return texts


def ours(name: str) -> bool:
    """Whether a dotted name is kvlab's: others are closed in the process, since they are not ours to leave out."""
    return name.startswith("kvlab.")


def _definition(name: str) -> tuple[str, str]:
    """(module, qualified name) where a dotted name is defined. Raises ValueError when it is nothing of the kind."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        if callable(found) and found.__qualname__.isidentifier():
            return found.__module__, found.__qualname__
        break
    raise ValueError(f"{name} is no function or class at the top of a module: correct the `closed` list")


def _path(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


def _source(module: str) -> str:
    path = Path(kvlab.__file__).parents[1] / _path(module)
    if not path.exists():
        raise ValueError(f"{module} is a package: put what is closed into a module of its own")
    return path.read_text(encoding="utf-8")


def _stubbed(text: str, definition: str, name: str) -> str:
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == definition:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            if isinstance(node, ast.ClassDef):
                head, indent = f"class {definition}:\n    def __init__(self, *args, **kwargs):", "    "
            else:
                head, indent = f"def {definition}(*args, **kwargs):", ""
            lines[first : node.end_lineno] = [_STUB.format(head=head, indent=indent, name=name)]
            return "".join(lines)
    raise ValueError(f"{definition} is not defined at the top of its module: {name} cannot be closed")


def data_folder() -> Path:
    """The course's data, which learners have too."""
    from kvlab import paths

    return paths.data_dir()
