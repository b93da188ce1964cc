"""`kvgrade grade` on a class that was hurt: odd names, damaged files, a lost or locked gradebook, a full disk."""

import csv
import dataclasses
import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graded_class
from graded_class import EXERCISES, QUESTION, UNIT
from kvgrade import changes, feedback_page_files, gradebook, merge, plan, report, results, standing
from kvgrade.__main__ import main
from kvgrade.course import Course, CourseError
from kvgrade.job import Options
from kvgrade.results import Result


@pytest.fixture
def course(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The graded class, to be hurt."""
    shutil.copytree(graded_class.once(tmp_path_factory), tmp_path / "class")
    return Course.find(tmp_path / "class")


@pytest.fixture
def merged(course: Course) -> Course:
    """The same after a merge of ours, so that autograded/ is there too."""
    merge.merge(course, UNIT, standing_results(course))
    return course


def standing_results(course: Course) -> dict[str, Result]:
    return results.merged(course.results(UNIT))


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def remarked(result: Result, points: float, answer: str | None = None, submission: str = "") -> Result:
    """A result with other points for KVCache, perhaps from another answer and file."""
    marks = {**result.marks, "KVCache": dataclasses.replace(result.marks["KVCache"], points=points)}
    answers = result.answers if answer is None else {**result.answers, "KVCache": answer}
    new = {"key": f"{points:g}".replace(".", "") * 8, "submission": submission or result.submission}
    return dataclasses.replace(result, marks=marks, answers=answers, **new)


# A result file


def _without(field: str) -> Callable[[dict[str, Any]], object]:
    return lambda c: c.pop(field)


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "points a text": lambda c: c["marks"]["KVCache"].update(points="4"),
    "points NaN": lambda c: c["marks"]["KVCache"].update(points=float("nan")),
    "points endless": lambda c: c["marks"]["KVCache"].update(points=float("inf")),
    "points below 0": lambda c: c["marks"]["KVCache"].update(points=-1),
    "points above the most": lambda c: c["marks"]["KVCache"].update(points=100),
    "points true": lambda c: c["marks"]["KVCache"].update(points=True),
    "possible nothing": lambda c: c["marks"]["KVCache"].update(possible=None),
    "text nothing": lambda c: c["marks"]["KVCache"].update(text=None),
    "groups nothing": lambda c: c["marks"]["KVCache"].update(groups=None),
    "group a text": lambda c: c["marks"]["KVCache"].update(groups=["right"]),
    "right a text": lambda c: c["marks"]["KVCache"]["groups"][0].update(right="no"),
    "seen a list": lambda c: c["marks"]["KVCache"]["groups"][0].update(seen=[]),
    "mark a number": lambda c: c["marks"].update(KVCache=4),
    "marks a list": lambda c: c.update(marks=[]),
    "facts a text": lambda c: c.update(facts="none"),
    "fact a number": lambda c: c.update(facts=[1]),
    "answers a list": lambda c: c.update(answers=[]),
    "answer nothing": lambda c: c["answers"].update(KVCache=None),
    "isolated a text": lambda c: c.update(isolated="yes"),
    "measured a text": lambda c: c.update(measured={"seconds": "long"}),
    "no facts": _without("facts"),
    "a field more": lambda c: c.update(more=1),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_result_counts_as_absent(course: Course, damage: str) -> None:
    one = standing_results(course)["anna"]
    place = results.path(course.results(UNIT), one.key)
    whole = json.loads(place.read_bytes())
    assert results.load(course.results(UNIT), one.key) == one
    DAMAGE[damage](whole)
    place.write_text(json.dumps(whole))
    assert results.load(course.results(UNIT), one.key) is None


def test_a_folder_in_the_place_of_a_result_is_named(course: Course) -> None:
    one = standing_results(course)["anna"]
    place = results.path(course.results(UNIT), one.key)
    place.unlink()
    place.mkdir()
    with pytest.raises(RuntimeError, match=f"{one.key}.json is a folder where a result belongs: move it away"):
        results.load(course.results(UNIT), one.key)


# Names


@pytest.mark.parametrize("name", [b"caf\xe9", b"a\x1b[31mb"], ids=["not UTF-8", "control characters"])
def test_a_folder_whose_name_is_no_students_is_left_out(
    course: Course, name: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = Path(os.fsdecode(os.fsencode(course.root / "submitted") + b"/" + name))
    shutil.copytree(course.root / "submitted" / "carl", odd)
    made = plan.make(course, UNIT, Options(), say=print)
    told = capsys.readouterr().out
    assert set(made.files) == set(graded_class.HAND_INS) and len(made.left_out) == 1
    assert f"The folder {made.left_out[0]} is left out" in told and "Rename it" in told
    assert all(c.isprintable() or c == "\n" for c in told)
    merge.merge(course, UNIT, standing_results(course))
    feedback_page_files.write(course, UNIT)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_rest_is_graded_and_the_command_fails(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    odd = Path(os.fsdecode(os.fsencode(course.root / "submitted") + b"/caf\xe9"))
    shutil.copytree(course.root / "submitted" / "carl", odd)
    words = ["grade", "--course", str(course.root), "--unsafe-no-sandbox", "--jobs", "1"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert "The folder caf? is left out" in said.err and "5 graded" in said.out
    assert "automatic points, of 12" in said.out and "  could not be read: dora\n" in said.out
    assert "waiting for a person: 1 written answer (" in said.out
    assert f"next: `python -m kvgrade feedback --unit {UNIT}`" in said.out
    assert set(results.merged_keys(course.results(UNIT))) == set(graded_class.HAND_INS)


# What stands in the gradebook


@pytest.mark.parametrize("how", ["lost", "empty"])
def test_a_lost_gradebook_stops_the_merge(merged: Course, how: str) -> None:
    file = merged.root / "gradebook.db"
    file.unlink()
    if how == "empty":
        file.touch()
    graded = standing_results(merged)
    with pytest.raises(CourseError, match=r"no longer holds 5 hand-ins that were merged.*delete .*merged\.json"):
        merge.merge(merged, UNIT, graded)
    (merged.results(UNIT) / results.MERGED).unlink()
    assert merge.merge(merged, UNIT, graded).written == sorted(graded)


BROKEN = [b"", b"{", b"[]", b'{"anna": 3}', b'{"anna": "../../seeds"}', b"\xff"]


@pytest.mark.parametrize("data", BROKEN)
def test_a_damaged_list_of_what_stands_is_made_again(merged: Course, data: bytes) -> None:
    place = merged.results(UNIT) / results.MERGED
    before, graded, told = place.read_bytes(), standing_results(merged), []
    place.write_bytes(data)
    with pytest.raises(RuntimeError, match=f"{place} is damaged: restore your copy .* --unit {UNIT}"):
        feedback_page_files.write(merged, UNIT)
    with pytest.raises(RuntimeError, match=f"{place} is damaged"):
        merge.merge(merged, UNIT, {"anna": graded["anna"]})
    assert place.read_bytes() == data
    with gradebook.opened(merged) as book:
        graded_class.by_hand(book, "bob", "check-KVCache", 1.0)
    done = merge.merge(merged, UNIT, graded, say=told.append)
    assert done.written == [] and done.changes == [] and len(told) == 1 and str(place) in told[0]
    assert place.read_bytes() == before
    assert standing.standings(merged, UNIT)["bob"].to_confirm == []


@pytest.mark.parametrize("data", [b"{", b"3", b"[1]", b'[{"student": "anna"}]', b"\xff"])
def test_a_damaged_note_of_a_merge_is_set_aside(merged: Course, data: bytes) -> None:
    place, told = merged.results(UNIT) / changes.MERGING, []
    place.write_bytes(data)
    graded = standing_results(merged)
    wanted = graded | {"bob": remarked(graded["bob"], 3.0)}
    results.save(merged.results(UNIT), wanted["bob"])
    done = merge.merge(merged, UNIT, wanted, say=told.append)
    assert [c.student for c in done.changes] == ["bob"]
    assert len(told) == 1 and told[0].startswith(f"{place} was damaged")
    assert not place.exists() and place.with_suffix(".damaged").read_bytes() == data


def test_what_a_killed_merge_had_half_written_goes_with_the_next(merged: Course) -> None:
    folder = merged.results(UNIT)
    halves = [folder / ".merging.json.abc.part", folder / ".changes.csv.abc.part"]
    for half in halves:
        half.write_bytes(b"[")
    merge.merge(merged, UNIT, standing_results(merged), say=lambda _: None)
    assert not any(half.exists() for half in halves)


# Commands that read the gradebook


@pytest.mark.parametrize("read", [feedback_page_files.write, report.collect, standing.standings])
@pytest.mark.parametrize("how", ["damaged", "locked"])
def test_a_gradebook_that_can_not_be_read_is_told_in_a_sentence(course: Course, read: Any, how: str) -> None:
    file = course.root / "gradebook.db"
    if how == "damaged":
        file.write_bytes(b"this is no database, and long enough to be looked at as one" * 40)
        with pytest.raises(RuntimeError, match=f"{file} is damaged .*restore your copy"):
            read(course, UNIT)
        return
    other = sqlite3.connect(file)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(RuntimeError, match="is formgrader or another program writing to it"):
            read(course, UNIT)
    finally:
        other.close()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"cells": 3}', b'{"cells": [1]}', b"\xff"])
def test_a_damaged_release_is_named(course: Course, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    place = course.root / "release" / UNIT / f"{UNIT}.ipynb"
    place.write_bytes(data)
    for command in (["grade", "--unsafe-no-sandbox"], ["feedback"], ["report"]):
        assert main([*command, "--unit", "01", "--course", str(course.root)]) == 1
        assert f"{place} is damaged" in capsys.readouterr().err


def test_a_full_disk_is_told_with_the_file(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    one = standing_results(course)["anna"]
    before = content(course.root)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"disk is full, .*{one.key}.json could not .*free some space, then run it again"):
        results.save(course.results(UNIT), one)
    assert content(course.root) == before


# A dry run


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("graded", [True, False], ids=["graded before", "a new class"])
def test_a_dry_run_writes_nothing_but_results(course: Course, graded: bool, capsys: pytest.CaptureFixture[str]) -> None:
    if not graded:
        shutil.rmtree(course.root / "results")
        (course.root / "gradebook.db").unlink()
    folder = course.root / "submitted" / "emil" / UNIT
    (folder / f"{UNIT}.ipynb").rename(folder / "my copy.ipynb")
    (folder / "link").symlink_to("/etc/passwd")
    before = content(course.root)
    words = ["grade", "--course", str(course.root), "--unsafe-no-sandbox", "--jobs", "1"]
    assert main([*words, "--dry-run", "--student", "emil", "dora"]) == 0
    said = capsys.readouterr()
    assert "2 graded" in said.out and "2 would be written" in said.out
    after = content(course.root)
    new = set(after) - set(before)
    assert {name: after[name] for name in before} == before
    assert len(new) == (2 if graded else 0) and all(name.startswith(f"results/{UNIT}/") for name in new)


# Which notebook counts


def test_who_has_no_notebook_that_counts_is_named(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    for student in ("anna", "bob", "carl", "emil"):
        shutil.rmtree(course.root / "submitted" / student)
    command = ["grade", "--course", str(course.root), "--unsafe-no-sandbox", "--jobs", "1"]
    assert main(command) == 0, "an unreadable file is graded: it has 0"
    assert "not graded" not in capsys.readouterr().out
    folder = course.root / "submitted" / "gina" / UNIT
    folder.mkdir(parents=True)
    for name in ("one.ipynb", "two.ipynb"):
        (folder / name).write_bytes(graded_class.HAND_INS["bob"])
    for more in ([], ["--dry-run"]):
        assert main([*command, *more]) == 1
        said = capsys.readouterr()
        assert "\n  not graded: gina\n" in said.out and "  could not be read: dora\n" in said.out
        assert f"gina of {UNIT} is not graded: there are 2 notebooks" in said.err


@pytest.mark.parametrize("name", [f"{UNIT}.ipynb", "hw (1).ipynb"])
def test_a_clean_copy_beside_the_hand_in_does_not_count(course: Course, name: str) -> None:
    folder = course.root / "submitted" / "bob" / UNIT
    mine = (folder / f"{UNIT}.ipynb").rename(folder / name)
    copy = mine.with_name(f"{mine.stem}.repaired.ipynb")
    copy.write_bytes(graded_class.HAND_INS["anna"])
    aside = course.root.parent / "aside"
    aside.mkdir()
    for where in (dataclasses.replace(course, aside=aside), course):
        made = plan.make(where, UNIT, Options(), ["bob"], say=print)
        assert made.without == () and made.job("bob").hand_in == graded_class.HAND_INS["bob"]
    copy.rename(folder / "x.repaired.ipynb")
    for path in folder.iterdir():
        if path.name != "x.repaired.ipynb":
            path.unlink()
    made = plan.make(course, UNIT, Options(), ["bob"], say=print)
    assert made.job("bob").hand_in == graded_class.HAND_INS["anna"], "alone it is the hand-in"


# Marks that change


def test_a_mark_by_hand_is_looked_at_again_only_where_something_changed(merged: Course) -> None:
    graded = standing_results(merged)
    for points, answer, again in ((4.0, None, False), (4.0, "# another\n", True), (2.0, None, True)):
        with gradebook.opened(merged) as book:
            graded_class.by_hand(book, "anna", "check-KVCache", 3.0)
            graded_class.by_hand(book, "anna", f"answer-{QUESTION}", 2.5)
        start = standing_results(merged)
        text = {name: f"{points} {answer}" for name in ("text",)}
        new = remarked(graded["anna"], points, answer)
        marks = {n: dataclasses.replace(m, **text) for n, m in new.marks.items()}
        new = dataclasses.replace(new, key=f"{abs(hash((points, answer))):x}", marks=marks)
        results.save(merged.results(UNIT), new)
        merge.merge(merged, UNIT, start | {"anna": new})
        assert standing.standings(merged, UNIT)["anna"].to_confirm == (["KVCache"] if again else [])
        results.save(merged.results(UNIT), graded["anna"])
        merge.merge(merged, UNIT, standing_results(merged) | {"anna": graded["anna"]})


def test_a_new_file_is_no_regrade(merged: Course) -> None:
    graded = standing_results(merged)
    bob, emil = remarked(graded["bob"], 3.0), remarked(graded["emil"], 1.0, submission="e" * 64)
    for one in (bob, emil):
        results.save(merged.results(UNIT), one)
    done = merge.merge(merged, UNIT, graded | {"bob": bob, "emil": emil})
    assert [(c.student, c.exercise, c.after) for c in done.changes] == [("bob", "KVCache", 3.0)]
    assert [(c.student, c.exercise, c.after) for c in done.again] == [("emil", "KVCache", 1.0)]
    place = merged.results(UNIT) / changes.CHANGES
    listed = place.read_bytes()
    assert [row[0] for row in csv.reader(listed.decode().splitlines())] == ["student", "bob"]
    later = remarked(graded["emil"], 0.0, submission="f" * 64)
    results.save(merged.results(UNIT), later)
    assert not merge.merge(merged, UNIT, standing_results(merged) | {"emil": later}).changes
    assert place.read_bytes() == listed, "the list of the last regrade stays"


def test_the_list_of_changes_is_no_formula(tmp_path: Path) -> None:
    changes.done(tmp_path, [changes.Change("=HYPERLINK(1)", "KVCache", 0.0, 4.0, "@mistake", "-")])
    (_, row) = csv.reader((tmp_path / changes.CHANGES).read_text().splitlines())
    assert row == ["'=HYPERLINK(1)", "KVCache", "0", "4", "'@mistake", "-"]


def test_an_exercise_that_was_not_graded_is_not_0(course: Course) -> None:
    one = standing_results(course)["anna"]
    part = dataclasses.replace(one, key="a" * 64, marks={"KVCache": one.marks["KVCache"]})
    with gradebook.opened(course) as book:
        book.remove_student("anna")
    (course.results(UNIT) / results.MERGED).write_text("{}")
    results.save(course.results(UNIT), part)
    merge.merge(course, UNIT, {"anna": part}, only=True)
    stands = standing.standings(course, UNIT)["anna"]
    assert stands.ungraded == [name for name in EXERCISES if name != "KVCache"]
    assert set(stands.unmarked) == {*stands.ungraded, QUESTION}
    feedback_page_files.write(course, UNIT, ["anna"])
    page = (course.root / "feedback" / "anna" / UNIT / f"{UNIT}.html").read_text()
    assert page.count("· not graded yet</h2>") == 3 and page.count("not graded yet</td>") == 3
    assert "an exercise is not graded yet, a written answer is not marked yet" in page
    assert b"1 have an exercise that was not graded yet" in report.page([report.collect(course, UNIT)])
