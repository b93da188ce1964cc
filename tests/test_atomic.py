"""`kvlab.atomic`: the old bytes or all of the new ones, whatever happens; nothing else is left or changed."""

import os
import stat
from pathlib import Path

import pytest

from kvlab.atomic import write_atomic


def test_bytes_and_rights_are_those_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for data, mode in ((b"one", 0o600), (b"", 0o644), (bytes(range(256)) * 999, 0o640)):
        write_atomic(path, data, mode)
        assert path.read_bytes() == data and stat.S_IMODE(path.stat().st_mode) == mode
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_failure_at_any_step_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_the_bytes_are_on_the_disk_before_the_name_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: (done.append(f"fsync {os.fstat(handle).st_size}"), fsync(handle))[1]
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), replace(a, b))[1])
    write_atomic(tmp_path / "a", b"12345")
    assert done == ["fsync 5", "replace"]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "link"
    other.write_bytes(b"mine")
    link.symlink_to(other)
    write_atomic(link, b"new")
    assert other.read_bytes() == b"mine" and link.read_bytes() == b"new" and not link.is_symlink()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "no" / "a", b"x")
