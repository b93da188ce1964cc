"""The `kvlab` that answers may import in the jail: with stubs in place of what the exercise closes.

What is closed in one exercise is open in its neighbour, so each has a copy of its own, and a jail of its own: the
source of a closed function is nowhere in it.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import kvlab

_NAME = "kvgrade-tree-"  # then the number of the process that made it
_STUB = '''{head}
{indent}    """Closed in this exercise."""
{indent}    from kvlab.check.closed import refuse

{indent}    refuse("{name}")
'''


def _build(folder: Path, closed: Sequence[str]) -> None:
    """Put `kvlab` into `folder`, with stubs for the `closed` names that are its own.

    Only the first copy is one: the others are links to its files, and new files for what has stubs.
    """
    if closed:
        shutil.copytree(tree(()) / "kvlab", folder / "kvlab", copy_function=os.link)
    else:
        ignored = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(Path(kvlab.__file__).parent, folder / "kvlab", ignore=ignored)
        (folder / "kvlab" / "data").mkdir()
    for name in closed:
        if ours(name):
            module, definition = _definition(name)
            path = folder / _path(module)
            if not path.exists():
                raise ValueError(f"{module} is a package: put what is closed into a module of its own")
            own = path.with_suffix(".own")  # the other copies keep theirs
            shutil.copy(path, own)
            own.write_text(_stubbed(path.read_text(encoding="utf-8"), definition, name), encoding="utf-8")
            own.replace(path)


@cache
def _shared(closed: tuple[str, ...]) -> tempfile.TemporaryDirectory[str]:
    import fcntl  # here, because Windows lacks it and must still be able to say why nothing is isolated there

    _remove_left()
    folder = tempfile.TemporaryDirectory(prefix=f"{_NAME}{os.getpid()}-")
    # Held until this process, and all that it forks, have ended; the process's number says the same, but another
    # container that shares the folder counts its own.
    fcntl.flock(os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)
    Path(folder.name).chmod(0o755)  # as root the jail runs as another user
    _build(Path(folder.name), closed)
    return folder


@cache
def _remove_left() -> None:
    """Remove the folders of this user's graders that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_NAME}*-*"):
        number = path.name.removeprefix(_NAME).partition("-")[0]
        with contextlib.suppress(OSError):  # it is another's, or gone already
            if number.isdecimal() and not Path(f"/proc/{number}").exists():
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder if it is this user's own and nobody holds it. Raises OSError when it is not."""
    import fcntl

    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def tree(closed: Sequence[str]) -> Path:
    """The folder with the copy for a list of closed names: made once per process, gone when it ends."""
    return Path(_shared(tuple(closed)).name)


def ours(name: str) -> bool:
    """Whether a dotted name is kvlab's: others are closed in the process, since they are not ours to leave out."""
    return name.startswith("kvlab.")


def _definition(name: str) -> tuple[str, str]:
    """(module, name) of the function or class that a dotted name stands for. Raises ValueError when there is none.

    It is looked for in the sources: importing them would bring torch, which takes longer than grading a hand-in.
    """
    module, _, last = name.rpartition(".")
    found = _defined(module, last)
    if found is None:
        raise ValueError(f"{name} is no function or class at the top of a module: correct the `closed` list")
    return found


def _defined(module: str, name: str) -> tuple[str, str] | None:
    """Where `name` of a module of kvlab is defined: there, or in one that it imports it from."""
    source = Path(kvlab.__file__).parents[1]
    path = next((p for p in (source / _path(module), source / _path(f"{module}.__init__")) if p.is_file()), None)
    for node in ast.parse(path.read_bytes()).body if path else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return module, name
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _defined(node.module, alias.name)
    return None


def _path(module: str) -> Path:
    return Path(*module.split(".")).with_suffix(".py")


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
