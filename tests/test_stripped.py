"""The copies of kvlab for jails: each is closed as its exercise says; what a killed grader leaves is removed."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from kvgrade import stripped

TREE = "from kvgrade import stripped; print(stripped.tree(()), flush=True); import sys; sys.stdin.read(1)"


def start(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has made a copy in `folder`, and the copy."""
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "grading"), str(ROOT / "src")]),
    }
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", TREE], env=environment, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str], number: int = 0) -> None:
    if number:
        process.send_signal(number)
    process.communicate()


def test_only_what_a_killed_grader_left_is_removed(tmp_path: Path) -> None:
    killed, left = start(tmp_path)
    end(killed, signal.SIGKILL)
    alive, held = start(tmp_path)
    assert not left.exists() and (held / "kvlab" / "__init__.py").exists()

    gone = killed.pid
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / f"kvgrade-tree-{gone}-link"
    link.symlink_to(elsewhere)
    others = [tmp_path / name for name in ("kvgrade-tree-x-y", f"kvgrade-{gone}", f"kvgrade-tree-{gone}-file")]
    for path in others:
        path.mkdir() if not path.name.endswith("file") else path.touch()
    # A grader of another container: no process of that number here, but somebody holds the folder.
    held_elsewhere = held.rename(tmp_path / f"kvgrade-tree-{gone}-held")
    another, mine = start(tmp_path)
    assert held_elsewhere.is_dir() and mine.is_dir() and elsewhere.is_dir() and link.is_symlink()
    assert all(path.exists() for path in others)
    end(alive, signal.SIGKILL)
    end(another)
    assert not mine.exists()  # who ends in peace cleans up
    last, _ = start(tmp_path)
    assert not held_elsewhere.exists()
    end(last)


def test_a_folder_of_another_user_stays(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    killed, left = start(tmp_path)
    end(killed, signal.SIGKILL)
    os.chown(left, 12345, 12345)
    process, _ = start(tmp_path)
    assert left.is_dir()
    end(process)


CLOSED = sorted(
    name
    for row in json.loads((ROOT / "data" / "exercises.json").read_text(encoding="utf-8")).values()
    for name in row["closed"]
    if stripped.ours(name)
)


def test_what_is_closed_in_one_copy_is_open_in_the_others() -> None:
    """The copies share the files that are equal in them."""
    source = ROOT / "src" / "kvlab"
    closed = {name: stripped.tree((name,)) for name in CLOSED[::8]}
    for name, tree in closed.items():
        differ = [
            p for p in source.rglob("*.py") if p.read_bytes() != (tree / "kvlab" / p.relative_to(source)).read_bytes()
        ]
        assert len(differ) == 1, name
        stub = tree / "kvlab" / differ[0].relative_to(source)
        assert (
            f'refuse("{name}")' in stub.read_text(encoding="utf-8") and stub.stat().st_mode == differ[0].stat().st_mode
        )
    whole = stripped.tree(())
    assert all(p.read_bytes() == (whole / "kvlab" / p.relative_to(source)).read_bytes() for p in source.rglob("*.py"))
    assert not list(closed[CLOSED[0]].rglob("*.own"))


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_name_is_found_where_python_finds_it(name: str) -> None:
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    assert stripped._definition(name) == (found.__module__, found.__qualname__)


@pytest.mark.parametrize(
    "name", ["kvlab.nothing", "kvlab.nothing.at_all", "kvlab.arithmetic.math", "kvlab.arithmetic.kv"]
)
def test_what_is_no_definition_can_not_be_closed(name: str) -> None:
    with pytest.raises(ValueError, match="is no function or class at the top of a module"):
        stripped._definition(name)
