"""`kvgrade import`: every platform's naming, several versions, rosters, late hand-ins; nothing is overwritten or guessed."""

import csv
import json
import os
import time
from pathlib import Path

import pytest

from class_files import OTHER, RELEASED, UNIT, course, hand_in, lay, notebook, standing, zipped
from kvgrade import handin
from kvgrade.__main__ import main
from kvgrade.gradebook import connect
from kvgrade.intake.stored import stored

CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section,Unit 1 (7)\n    Points Possible,,,,,12\n"
CANVAS += '"Lovelace, Ada",501,s1,ada,A,\n"Hopper, Grace",502,s2,grace,A,\n"Student, Test",999,,,A,\n'
MOODLE = 'Identifier,"Full name","ID number","Email address",Status,"Last modified (submission)"\n'
MOODLE += 'Participant 11,"Ada Lovelace",s1,ada@x.org,Submitted,"Monday, 2 March 2026, 2:14 PM"\n'
MOODLE += 'Participant 12,"Grace Hopper",s2,grace@x.org,Submitted,-\n'
OWN = "id;name;email;canvas_id\nada;Ada Lovelace;ada@x.org;501\ngrace;Grace Brewster Hopper;gh@x.org;502\n"


@pytest.fixture
def klass(tmp_path: Path) -> Path:
    return course(tmp_path / "class")


def take(klass: Path, files: dict[str, bytes] | Path, *options: str, when=None, roster: str = "") -> int:
    """Import a zip of files, or a folder; the exit code."""
    source = files if isinstance(files, Path) else klass.parent / "in.zip"
    if not isinstance(files, Path):
        source.write_bytes(zipped(files, when))
    if roster:
        (klass.parent / "roster.csv").write_text(roster, encoding="utf-8-sig")
        options = (*options, "--roster", str(klass.parent / "roster.csv"))
    return main(["import", str(source), "--course", str(klass), *options])


def rows(klass: Path) -> list[dict[str, str]]:
    """The newest report."""
    newest = max((klass / "imports").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return list(csv.DictReader(newest.open(encoding="utf-8", newline="")))


SCHEMES = {
    "moodle folders": {
        "Ada Lovelace_11_assignsubmission_file_/hw.ipynb": "a",
        "Grace Hopper_12_assignsubmission_file/Untitled (3).ipynb": "g",
    },
    "moodle flat": {
        "Ada Lovelace_11_assignsubmission_file_hw.ipynb": "a",
        "Grace Hopper_12_assignsubmission_file_01_kv_cache.ipynb": "g",
    },
    "canvas": {
        "lovelaceada_501_9001_01_kv_cache-1.ipynb": "a",
        "hoppergrace_LATE_502_9002_Untitled.ipynb": "g",
    },
    "classroom": {"Ada Lovelace - 01_kv_cache.ipynb": "a", "Copy of Grace Hopper - 01_kv_cache.ipynb": "g"},
    "folders": {"all/Ada Lovelace/hw.ipynb": "a", "all/Grace Hopper/deep/er/hw (1).ipynb": "g"},
    "nested zips": {
        "Ada Lovelace_11_assignsubmission_file_/x.zip": "zip a",
        "Grace Hopper_12_assignsubmission_file_/01.ipynb.txt": "g",
    },
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("roster", ["", CANVAS, MOODLE, OWN])
def test_every_scheme_with_every_roster(klass: Path, scheme: str, roster: str) -> None:
    files = {
        name: zipped({"deep/hw.ipynb": hand_in("a")}) if text == "zip a" else hand_in(text)
        for name, text in SCHEMES[scheme].items()
    }
    junk = {"__MACOSX/._hw.ipynb": b"\0", ".DS_Store": b"\0", "Ada Lovelace_11_assignsubmission_onlinetext/x.html": b""}
    take(klass, {**files, **junk}, "--unit", "01", roster=roster)
    ids = {"": None, CANVAS: ["ada", "grace"], MOODLE: ["s1", "s2"], OWN: ["ada", "grace"]}[roster]
    ids = ids or (["501", "502"] if scheme == "canvas" else ["Ada_Lovelace", "Grace_Hopper"])
    assert standing(klass) == dict(zip(ids, "ag", strict=True)), rows(klass)


@pytest.mark.parametrize(
    "names",
    [
        ["submitted/ada/01_kv_cache/01_kv_cache.ipynb", "submitted/grace/01_kv_cache/hw.ipynb"],
        ["kv-submissions/kv-ada/hw.ipynb", "kv-submissions/kv-grace/src/hw.ipynb"],
        ["ada.ipynb", "grace_01_kv_cache (2).ipynb"],
        ["01_kv_cache_ada.ipynb", "Copy of 01-kv-cache grace.ipynb"],
        ["hw1_ada_attempt_2026-03-01-10-00-00_hw.ipynb", "hw1_grace_attempt_2026-03-01-10-00-00_x.ipynb"],
        ["ada.zip/", "grace/hw.json"],
    ],
)
def test_ids_in_paths(klass: Path, names: list[str]) -> None:
    files = dict(zip(names, (hand_in("a"), hand_in("g")), strict=True))
    if "ada.zip/" in files:
        files["ada.zip"] = zipped({"hw.ipynb": files.pop("ada.zip/")})
    assert take(klass, files) == 0
    assert standing(klass) == {"ada": "a", "grace": "g"}, rows(klass)


def test_a_folder_and_one_notebook(klass: Path, tmp_path: Path) -> None:
    folder = lay(tmp_path / "in", {"ada/hw.ipynb": hand_in("a"), "grace/.ipynb_checkpoints/hw.ipynb": hand_in("old")})
    (folder / "grace" / "link.ipynb").symlink_to(folder / "ada" / "hw.ipynb")
    assert take(klass, folder) == 1  # grace's link needs an eye
    assert standing(klass) == {"ada": "a"}
    assert take(klass, lay(tmp_path / "one", {"bob.ipynb": hand_in("b")}) / "bob.ipynb") == 0
    assert standing(klass) == {"ada": "a", "bob": "b"}


def test_each_file_goes_to_its_own_unit(klass: Path) -> None:
    files = {"ada/01_kv_cache.ipynb": hand_in("m", OTHER), "ada/x.ipynb": hand_in("a")}
    assert take(klass, files) == 0
    assert standing(klass) == {"ada": "a"}
    assert (klass / "submitted" / "ada" / OTHER / f"{OTHER}.ipynb").is_file()


def test_another_unit_is_reported(klass: Path) -> None:
    assert take(klass, {"ada/01_kv_cache.ipynb": hand_in("m", OTHER)}, "--unit", "01") == 1
    assert standing(klass) == {}
    assert [(row["state"], row["words"]) for row in rows(klass)] == [("look", f"this is unit {OTHER}")]
    files = {"ada/01_kv_cache.ipynb": hand_in("m", OTHER), "ada/x.ipynb": hand_in("a"), "ada/notes.txt": b"hi"}
    assert take(klass, files, "--unit", "01") == 0, "who has handed in the right one needs no eye"
    assert sorted(row["state"] for row in rows(klass)) == ["not taken", "not taken", "taken"]


def test_what_is_no_hand_in_needs_an_eye(klass: Path) -> None:
    other = json.dumps({"nbformat": 4, "metadata": {}, "cells": []}).encode()
    assert take(klass, {"ada/answers.py": b"x = 1", "bob/mine.ipynb": other}) == 1
    assert {(row["student"], row["state"]) for row in rows(klass)} == {("ada", "look"), ("bob", "look")}
    assert standing(klass) == {}


def test_the_newest_counts(klass: Path) -> None:
    files = {"ada/hw.ipynb": hand_in("new"), "ada/old.ipynb": hand_in("old"), "bob/hw.ipynb": hand_in("b")}
    when = {"ada/hw.ipynb": (2026, 3, 9, 0, 0, 0), "ada/old.ipynb": (2026, 3, 8, 0, 0, 0)}
    assert take(klass, files, when=when) == 0
    assert standing(klass) == {"ada": "new", "bob": "b"}
    assert (klass / "submitted/ada" / UNIT / "timestamp.txt").read_text().endswith(" UTC")


def test_canvas_numbers_go_before_times(klass: Path) -> None:
    files = {"x_501_9001_hw.ipynb": hand_in("old"), "x_501_9002_hw-1.ipynb": hand_in("new")}
    when = {"x_501_9001_hw.ipynb": (2026, 4, 1, 0, 0, 0)}
    take(klass, files, when=when)
    assert standing(klass) == {"501": "new"}


def test_copies_of_one_age(klass: Path) -> None:
    when = dict.fromkeys(["ada/a.ipynb", "ada/b.ipynb", "bob/a.ipynb", "bob/b.ipynb"], (2026, 3, 1, 0, 0, 0))
    files = {
        "ada/a.ipynb": hand_in(""),
        "ada/b.ipynb": hand_in("a"),
        "bob/a.ipynb": hand_in("1"),
        "bob/b.ipynb": hand_in("2"),
    }
    assert take(klass, files, when=when) == 1
    assert standing(klass) == {"ada": "a"}, "an edited file beats an untouched one; two edited ones are nobody's guess"
    assert {row["state"] for row in rows(klass) if row["student"] == "bob"} == {"look"}


def test_a_newer_untouched_or_damaged_file_needs_an_eye(klass: Path) -> None:
    files = {"ada/1.ipynb": hand_in("a"), "ada/2.ipynb": hand_in(""), "bob/1.ipynb": hand_in("b"), "bob/2.ipynb": b"{"}
    assert take(klass, files, "--unit", "01") == 1
    assert standing(klass) == {"ada": "", "bob": "b"}
    assert sum(row["state"] == "look" for row in rows(klass)) == 2


def test_a_damaged_file_is_kept_as_it_is(klass: Path) -> None:
    cut = hand_in("a")[:-20]
    assert take(klass, {"ada/hw.ipynb": cut, "bob/x.ipynb": b"<html>", "bob2/y.ipynb": hand_in("m", OTHER)[:-9]}) == 1
    assert (klass / "submitted/ada" / UNIT / f"{UNIT}.ipynb").read_bytes() == cut, "its bytes tell the unit"
    assert (klass / "submitted/bob2" / OTHER / f"{OTHER}.ipynb").exists()
    assert not (klass / "submitted/bob").exists()
    take(klass, {"bob/x.ipynb": b"<html>"}, "--unit", "01")
    assert (klass / "submitted/bob" / UNIT / f"{UNIT}.ipynb").read_bytes() == b"<html>"


def test_nothing_is_overwritten(klass: Path) -> None:
    folder = klass / "submitted/ada" / UNIT
    take(klass, {"ada/hw.ipynb": hand_in("one")})
    first = (folder / f"{UNIT}.ipynb").read_bytes()
    assert take(klass, {"ada/renamed.ipynb": hand_in("one")}) == 0
    assert [row["state"] for row in rows(klass)] == ["unchanged"]
    assert not list(folder.glob("earlier*"))
    (folder / "by hand.ipynb").write_bytes(b"x")
    when = {"ada/hw.ipynb": (2026, 4, 1, 0, 0, 0)}
    assert take(klass, {"ada/hw.ipynb": hand_in("two")}, when=when) == 0
    assert standing(klass) == {"ada": "two"}
    assert (folder / "earlier-1.set-aside").read_bytes() == first
    assert (folder / "by hand.ipynb.set-aside").read_bytes() == b"x"
    assert "earlier-1.set-aside" in rows(klass)[0]["words"]
    assert take(klass, {"ada/hw.ipynb": hand_in("one")}) == 0, "an older zip, imported once more"
    assert standing(klass) == {"ada": "two"} and rows(klass)[0]["state"] == "not taken"
    when = {"ada/hw.ipynb": (2026, 5, 1, 0, 0, 0)}
    take(klass, {"ada/hw.ipynb": hand_in("three")}, when=when)
    assert sorted(path.name for path in folder.glob("earlier-?.set-aside")) == [
        "earlier-1.set-aside",
        "earlier-2.set-aside",
    ]


def test_a_dry_run_writes_nothing(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(klass.rglob("*"))
    assert take(klass, {"ada/hw.ipynb": hand_in("a")}, "--dry-run") == 0
    assert sorted(klass.rglob("*")) == before
    assert "1 taken" in capsys.readouterr().out


def test_a_link_in_the_class_is_not_followed(klass: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (klass / "submitted").mkdir()
    (klass / "submitted" / "ada").symlink_to(tmp_path / "elsewhere")
    assert take(klass, {"ada/hw.ipynb": hand_in("a"), "bob/hw.ipynb": hand_in("b")}) == 1
    assert standing(klass)["bob"] == "b" and not list((tmp_path / "elsewhere").iterdir())


def test_times_of_a_download_are_no_hand_in_times(klass: Path) -> None:
    files = {f"{name}/hw.ipynb": hand_in(name) for name in ("ada", "bob", "eve")}
    when = {name: (2026, 3, 1, 10, minute, 0) for minute, name in enumerate(files)}
    take(klass, files, when=when)
    stamps = klass.glob("submitted/*/*/timestamp.txt")
    assert not list(stamps)
    take(klass, {"gus/hw.ipynb": hand_in("g"), **files}, "--timestamps", "none")
    assert not list(klass.glob("submitted/*/*/timestamp.txt"))
    take(klass, {"x_501_9001_hw.ipynb": hand_in("c")}, "--timestamps", "files")
    assert [path.parts[-3] for path in klass.glob("submitted/*/*/timestamp.txt")] == ["501"]


def test_late_by_the_gradebook(klass: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    with connect(f"sqlite:///{klass / 'gradebook.db'}") as book:
        book.add_assignment(UNIT, duedate="2026-03-02 12:00:00 UTC")
    take(klass, {"ada/hw.ipynb": hand_in("a")}, when={"ada/hw.ipynb": (2026, 3, 2, 14, 30, 0)})
    assert rows(klass)[0]["words"] == "1.5 h late" and rows(klass)[0]["time"] == "2026-03-02 13:30:00 UTC"
    take(
        klass,
        {"Ada Lovelace_11_assignsubmission_file_/hw.ipynb": hand_in("a")},
        "--unit",
        "01",
        roster=MOODLE,
    )
    assert "1.2 h late" in rows(klass)[0]["words"], "the worksheet says when: 2:14 PM in Berlin is 13:14 UTC"
    monkeypatch.undo()
    time.tzset()


def test_nbgrader_reads_our_timestamps(klass: Path) -> None:
    from nbgrader.utils import parse_utc

    take(klass, {"ada/hw.ipynb": hand_in("a")})
    text = (klass / "submitted/ada" / UNIT / "timestamp.txt").read_text()
    assert parse_utc(text).strftime("%Y-%m-%d %H:%M:%S UTC") == text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Ada Hopper_99_assignsubmission_file_/x.ipynb", "nobody"),
        ("Ada Lovelace_12_assignsubmission_file_/x.ipynb", "different students"),
        ("Lovelace/x.ipynb", "nobody"),
        ("hw.ipynb", "nobody"),
    ],
)
def test_who_is_not_known_is_not_guessed(klass: Path, name: str, why: str) -> None:
    assert take(klass, {name: hand_in("a")}, "--unit", "01", roster=MOODLE) == 1
    assert standing(klass) == {} and why in rows(klass)[0]["words"]


def test_two_of_one_name(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roster = "id,name\nada1,Ada Lovelace\nada2,Ada Lovelace\nbob,Bob\n"
    assert take(klass, {"Ada Lovelace/x.ipynb": hand_in("a"), "ada2/x.ipynb": hand_in("b")}, roster=roster) == 1
    assert standing(klass) == {"ada2": "b"}
    assert "it may be of ada1 or ada2" in rows(klass)[0]["words"]
    assert "no hand-in in here from 2 of 3: ada1, bob" in capsys.readouterr().out
    pair = {f"Ada Lovelace_{n}_assignsubmission_file_/x.ipynb": hand_in("a") for n in (11, 12)}
    assert take(klass, pair) == 1, "without a roster too"
    assert "Ada_Lovelace" not in standing(klass)


def test_a_folder_of_several_students(klass: Path) -> None:
    """Without a roster nobody can say whether `eve` and `gus` are students or drafts of one."""
    files = {"A/eve.ipynb": hand_in("e"), "A/gus.ipynb": hand_in("g"), "ada/hw.ipynb": hand_in("a"), "B/hw.ipynb": b"{"}
    assert take(klass, files) == 1
    assert standing(klass) == {"ada": "a"}
    assert "several students" in rows(klass)[0]["words"]
    take(klass, files, roster="id\neve\ngus\nada\n")
    assert standing(klass) == {"ada": "a", "eve": "e", "gus": "g"}
    drafts = {f"{name}/{file}.ipynb": hand_in(file) for name in ("bob", "zoe") for file in ("analysis", "trial")}
    assert take(klass, drafts, "--new-ids") == 0, "names that stand in several folders are nobody's"


def test_blind_marking(klass: Path) -> None:
    files = {f"Participant_{n}_assignsubmission_file_/x.ipynb": hand_in(str(n)) for n in (11, 12)}
    assert take(klass, files) == 0
    assert standing(klass) == {"Participant_11": "11", "Participant_12": "12"}
    take(klass, {"anon_x7Gh2_88_hw.ipynb": hand_in("c"), "LATE_anon_x7Gh3_89_hw.ipynb": hand_in("d")})
    assert {"anon_x7Gh2", "anon_x7Gh3"} < standing(klass).keys()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name\nAda\n", "column `id`"),
        ("id,name\n///,Ada\n", "folder's name"),
        ("id,name,id\nada,Ada,a2\n", "2 columns `id`"),
        ('id,name\nada,"Ada\nbob,Bob\n', "a quote is not closed"),
        ("id\nada\nADA\n", "twice"),
        ("id,name\n", "names no student"),
        ("id,name\nada,Ada\n,Bob\n", "column `id`"),
    ],
)
def test_a_roster_that_can_not_be_used(klass: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert take(klass, {"ada/x.ipynb": hand_in("a")}, roster=text) == 1
    assert why in capsys.readouterr().err and standing(klass) == {}


def test_rosters_of_excel(klass: Path, tmp_path: Path) -> None:
    for code, mark in (("utf-16", "\t"), ("cp1252", ";"), ("utf-8-sig", ",")):
        path = tmp_path / "r.csv"
        path.write_bytes(f"id{mark}first name{mark}last name\r\nj1{mark}Jörg{mark}Müller\r\n".encode(code))
        assert take(klass, {"Muller, Jorg/x.ipynb": hand_in(code)}, "--roster", str(path), "--timestamps", "none") == 0
        assert standing(klass) == {"j1": code}


def test_personal_data_and_outputs_are_not_kept(klass: Path) -> None:
    book = notebook("mine")
    person = {"displayName": "Ada Lovelace", "userId": "0123456789", "photoUrl": "https://photos/x.jpg"}
    book["metadata"] |= {"colab": {"provenance": [person]}, "widgets": {"state": person}}
    for cell in book["cells"]:
        cell["metadata"]["executionInfo"] = {"user": person}
        cell["attachments"] = {"x": person}
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "Ada Lovelace"}]
    take(klass, {"a1/hw.ipynb": json.dumps(book).encode()})
    kept = (klass / "submitted/a1" / UNIT / f"{UNIT}.ipynb").read_text("utf-8")
    assert not any(word in kept for word in ("Lovelace", "0123456789", "photos", "executionInfo"))
    assert set(json.loads(kept)["metadata"]) == {"kernelspec", "kvlab", "language_info"}
    assert standing(klass) == {"a1": "mine"}


def test_the_kept_form_is_a_valid_notebook_and_stays_as_it_is() -> None:
    import nbformat

    kept = stored(hand_in("mine"))
    nbformat.validate(nbformat.reads(kept.decode(), as_version=4))
    assert stored(kept) == kept
    assert handin.collect(kept, RELEASED[UNIT]) == handin.collect(hand_in("mine"), RELEASED[UNIT])


def test_the_report_is_the_same_again_and_safe_in_a_spreadsheet(klass: Path) -> None:
    files = {"=cmd()/hw.ipynb": hand_in("a"), "bo\x1bb/x.ipynb": hand_in("b"), "ada/x.ipynb": hand_in("c")}
    for _ in range(2):
        take(klass, files, "--dry-run")
        take(klass, files)
    take(klass, files)
    texts = [(klass / "imports" / f"all-{n}.csv").read_text() for n in (2, 3)]
    assert texts[0] == texts[1] and "\x1b" not in texts[0] and "\n=" not in texts[0] and ",=" not in texts[0]


def test_what_is_not_there(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(klass / "no.zip"), "--course", str(klass)]) == 1
    assert main(["import", str(klass), "--course", str(klass / "nowhere")]) == 1
    assert main(["import", str(klass), "--course", str(klass), "--unit", "77"]) == 1
    err = capsys.readouterr().err
    assert "There is no file or folder" in err and "no course folder" in err and "no unit '77'" in err
    assert not os.path.exists(klass / "imports")
