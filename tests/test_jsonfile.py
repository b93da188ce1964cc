"""Reading JSON: the content, or one sentence with the path."""

from pathlib import Path

import pytest

from kvlab.jsonfile import read_json


def test_what_is_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": "ä"}', "utf-8")
    (tmp_path / "b.json").write_text("[1]")
    assert read_json(tmp_path / "a.json", dict) == {"a": "ä"}
    assert read_json(tmp_path / "b.json", list) == [1]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b'"text"', b'{"a": "\xff"}', b"[" * 100_000, b'{"a": ' + b"9" * 10_000 + b"}"],
)
def test_damage_is_said_with_the_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json is damaged \(.*\): restore it from the backup") as caught:
        read_json(path, dict, "restore it from the backup")
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no a\.json in .*: restore it from the repository"):
        read_json(tmp_path / "a.json", dict)
    (tmp_path / "a.json").mkdir()
    with pytest.raises(ValueError, match=r"a\.json cannot be read \(Is a directory\)"):
        read_json(tmp_path / "a.json", dict)
