"""`kvlab reset`: the release comes back, the learner's version is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers import code_cell, write_notebook
from kvlab.cli import workspace
from kvlab.cli.main import main

NAME = "01_kv_cache.ipynb"
STUB = "# exercise: kv_cache_bytes\nraise NotImplementedError"


def mark(name: str, **flags: bool) -> dict[str, Any]:
    return {"grade_id": name, "solution": False, "grade": False, "schema_version": 3, **flags}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A released notebook with two exercises, and a learner's copy with work in both."""
    cells = [
        code_cell("a", "import numpy"),
        code_cell("b", STUB, nbgrader=mark("kv_cache_bytes", solution=True)),
        code_cell("c", "check", nbgrader=mark("check-kv_cache_bytes", grade=True)),
        code_cell("d", "# exercise: attention\npass", nbgrader=mark("attention", solution=True)),
    ]
    write_notebook(tmp_path / "notebooks" / NAME, cells)
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(tmp_path / "notebooks"))
    folder = tmp_path / "work"
    assert main(["lab", "--prepare-only", "--dir", str(folder)]) == 0
    cells[1]["source"] = "# exercise: kv_cache_bytes\nmine"
    cells[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    cells[3]["source"] = "# exercise: attention\nmine too"
    write_notebook(folder / NAME, cells)
    return folder


def sources(path: Path) -> list[str]:
    return [cell["source"] for cell in json.loads(path.read_text())["cells"]]


def backups(work: Path) -> list[Path]:
    return sorted(work.glob("01_kv_cache.*.bak.ipynb"))


@pytest.mark.parametrize("unit", ["1", "01", "01_kv_cache", "01_kv_cache.ipynb"])
def test_a_whole_notebook(work: Path, unit: str) -> None:
    mine = (work / NAME).read_bytes()
    assert main(["reset", unit, "--dir", str(work)]) == 0
    assert (work / NAME).read_bytes() == (work.parent / "notebooks" / NAME).read_bytes()
    (copy,) = backups(work)
    assert copy.read_bytes() == mine


def test_two_resets_in_one_second_keep_two_copies(work: Path) -> None:
    main(["reset", "1", "attention", "--dir", str(work)])
    main(["reset", "1", "--dir", str(work)])
    assert len(backups(work)) == 2


def test_nothing_to_do_makes_no_copy(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["reset", "1", "--dir", str(work)])
    assert main(["reset", "1", "--dir", str(work)]) == 0
    assert "already as released" in capsys.readouterr().out
    assert len(backups(work)) == 1


def test_one_answer_cell_only(work: Path) -> None:
    assert main(["reset", "1", "kv_cache_bytes", "--dir", str(work)]) == 0
    assert sources(work / NAME) == ["import numpy", STUB, "check", "# exercise: attention\nmine too"]
    assert json.loads((work / NAME).read_text())["cells"][1]["outputs"] == []
    assert sources(backups(work)[0])[1] == "# exercise: kv_cache_bytes\nmine"


@pytest.mark.parametrize(
    "cell",
    [
        code_cell("b", "# exercise: kv_cache_bytes\nmine"),
        code_cell("b", "mine, without the marker", nbgrader=mark("kv_cache_bytes", solution=True)),
    ],
    ids=["metadata lost", "marker lost"],
)
def test_the_answer_cell_is_found_by_marker_or_by_id(work: Path, cell: dict[str, Any]) -> None:
    write_notebook(work / NAME, [code_cell("a", "x"), cell])
    assert main(["reset", "1", "kv_cache_bytes", "--dir", str(work)]) == 0
    assert sources(work / NAME) == ["x", STUB]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["9"], "There is no unit '9'. Units: 01_kv_cache"),
        (["kv"], "There is no unit 'kv'"),
        (["1", "nonsense"], "has no exercise 'nonsense'. Exercises: kv_cache_bytes, attention."),
        (["1", "check-kv_cache_bytes"], "has no exercise"),
    ],
)
def test_unknown_names_are_a_sentence_and_change_nothing(
    work: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    mine = (work / NAME).read_bytes()
    assert main(["reset", *arguments, "--dir", str(work)]) == 2
    assert message in capsys.readouterr().err
    assert (work / NAME).read_bytes() == mine
    assert backups(work) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": [1]}', ""])
def test_one_exercise_of_a_damaged_notebook_is_a_sentence(
    work: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (work / NAME).write_text(text)
    assert main(["reset", "1", "attention", "--dir", str(work)]) == 2
    assert "not a readable notebook" in capsys.readouterr().err
    assert (work / NAME).read_text() == text
    assert main(["reset", "1", "--dir", str(work)]) == 0
    assert backups(work)[0].read_text() == text


def test_an_exercise_whose_cell_is_gone_is_a_sentence(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_notebook(work / NAME, [code_cell("a", "x")])
    assert main(["reset", "1", "attention", "--dir", str(work)]) == 2
    assert "no longer has an answer cell of attention" in capsys.readouterr().err


def test_a_linked_notebook_stays_a_link(work: Path) -> None:
    real = work.parent / "real.ipynb"
    (work / NAME).rename(real)
    (work / NAME).symlink_to(real)
    assert main(["reset", "1", "--dir", str(work)]) == 0
    assert (work / NAME).is_symlink()
    assert real.read_bytes() == (work.parent / "notebooks" / NAME).read_bytes()


def test_an_unreadable_record_stops_before_anything_is_changed(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, mine = work / ".kvlab" / "manifest.json", (work / NAME).read_bytes()
    record.unlink()
    record.mkdir()
    assert main(["reset", "1", "--dir", str(work)]) == 2
    assert "Cannot read the record" in capsys.readouterr().err
    assert (work / NAME).read_bytes() == mine and backups(work) == []
    assert main(["reset", "1", "attention", "--dir", str(work)]) == 0, "one answer needs no record"


def test_the_release_is_never_reset(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reset", "1", "--dir", str(work.parent / "notebooks")]) == 2
    assert "holds the released notebooks" in capsys.readouterr().err


def test_the_same_folder_is_meant_by_reset_doctor_progress_and_check(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder that `kvlab lab` made, that folder is meant, and a unit's name is enough."""
    monkeypatch.chdir(work)
    monkeypatch.setattr(workspace, "work_dir", lambda: work / "not this one")
    for name in ("1", "01", "01_kv_cache"):
        main(["check", name])
        assert capsys.readouterr().out.startswith(f"{NAME}: unit 01_kv_cache\n")
    main(["progress"])
    assert str(work) in capsys.readouterr().out
    main(["doctor"])
    assert f"{work} can be written to" in capsys.readouterr().out
    assert main(["reset", "01"]) == 0 and len(backups(work)) == 1
    monkeypatch.chdir(work.parent)
    assert main(["check", "01"]) == 2 and "not this one" in capsys.readouterr().err
    assert main(["check", "nothing"]) == 2 and "There is no file nothing" in capsys.readouterr().err
