"""The copies of kvlab for jails: what a killed grader leaves is removed, and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT

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
