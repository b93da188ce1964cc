"""`kvgrade import`: ids of rosters that are no folders' names, times and their zone, damaged files, classes with a roster."""

import csv
import json
import re
from pathlib import Path

import pytest

from class_files import UNIT, course, hand_in, standing, zipped
from kvgrade.__main__ import main
from kvgrade.export import Row, safe
from kvgrade.export_lms import moodle, read_roster
from kvgrade.gradebook import connect
from kvgrade.intake.place import put
from kvgrade.roster_file import SAFE, folder_id
from kvgrade.standing import Person, Standing

MOODLE = 'Identifier,"Full name","ID number","Email address","Last modified (submission)"\n'
MOODLE += 'Participant 11,"Ada Lovelace",ada,ada@x.org,"Monday, 2 March 2026, 2:14 PM"\n'


@pytest.fixture
def klass(tmp_path: Path) -> Path:
    return course(tmp_path / "class")


def take(klass: Path, files: dict[str, bytes], *options: str, roster: str = "", when: tuple = (2026, 3, 2, 10, 0, 0)):
    """Import a zip of files; the exit code."""
    source = klass.parent / "in.zip"
    source.write_bytes(zipped(files, dict.fromkeys(files, when)))
    if roster:
        (klass.parent / "roster.csv").write_text(roster, encoding="utf-8")
        options = (*options, "--roster", str(klass.parent / "roster.csv"))
    return main(["import", str(source), "--course", str(klass), *options])


def stamp(klass: Path, student: str) -> str:
    path = klass / "submitted" / student / UNIT / "timestamp.txt"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("ada", "ada"),
        ("Ada.L@x.org", "Ada.L@x.org"),
        ("o'brien", "o_brien"),
        ("o'brien@x.org", "o_brien@x.org"),
        ("a+b", "a_b"),
        ("José", "Jose"),
        ("Ян", "u42fu43d"),
        ("../x", "x"),
        (".", ""),
        ("///", ""),
    ],
)
def test_ids_become_folder_names(given: str, wanted: str) -> None:
    assert folder_id(given) == wanted


def test_long_ids_stay_apart() -> None:
    one, two = folder_id("x" * 90 + "1"), folder_id("x" * 90 + "2")
    assert one != two and SAFE.fullmatch(one) and SAFE.fullmatch(two)


def test_an_odd_id_is_taken_and_comes_back_in_the_export(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roster = "id,name,email\no'brien,Pat O'Brien,p@x.org\nЯн,Ян Новак,j@x.org\neve,Eve,e@x.org\n"
    files = {"Pat O'Brien/hw.ipynb": hand_in("p"), "Ян Новак/hw.ipynb": hand_in("j"), "eve/hw.ipynb": hand_in("e")}
    assert take(klass, files, roster=roster) == 0
    assert standing(klass) == {"o_brien": "p", "u42fu43d": "j", "eve": "e"}
    assert "o'brien of the roster is o_brien from here on" in capsys.readouterr().out
    ids = json.loads((klass / "imports" / "roster-ids.json").read_text(encoding="utf-8"))
    assert ids == {"eve": "eve", "o_brien": "o'brien", "u42fu43d": "Ян"}
    path = klass.parent / "moodle.csv"
    path.write_text("ID number,Email address\no'brien,\nЯн,\neve,\n", encoding="utf-8")
    rows = [Row(UNIT, Person(one), "complete", 15, float(i)) for i, one in enumerate(standing(klass), start=1)]
    made = moodle({UNIT: rows}, read_roster(path))
    marks = {row["ID number"]: row[UNIT] for row in csv.DictReader(made.text.splitlines())}
    assert marks == {"o'brien": "2", "Ян": "3", "eve": "1"}


def test_ids_that_would_be_one_folder_cost_only_themselves(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roster = "id,name\na+b,Ann Bee\na'b,Al Boo\nc_d,Cy Dee\nc'd,Cal Doe\neve,Eve Fay\n"
    names = ("Ann Bee", "Al Boo", "Cy Dee", "Cal Doe", "Eve Fay")
    assert take(klass, {f"{name}/x.ipynb": hand_in(name) for name in names}, roster=roster) == 1
    assert standing(klass) == {"c_d": "Cy Dee", "eve": "Eve Fay"}, "a name that needed no change keeps its folder"
    assert "correct these rows" in capsys.readouterr().err
    path = klass.parent / "moodle.csv"
    path.write_text("ID number\nc_d\nc'd\na+b\na'b\n", encoding="utf-8")
    rows = [Row(UNIT, Person(one), "complete", 15, 7.0, Standing(one)) for one in ("a_b", "c_d")]
    made = moodle({UNIT: rows}, read_roster(path))
    assert [row[UNIT] for row in csv.DictReader(made.text.splitlines())] == ["7", "", "", ""]
    assert made.lost == ["1 with marks have no row in the roster: a_b"]


def test_times_of_files_reach_hand_ins_that_stand_there(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"ada/hw.ipynb": hand_in("a")}
    take(klass, files, "--timestamps", "none")
    assert stamp(klass, "ada") == ""
    take(klass, files, "--timestamps", "files", "--dry-run")
    assert stamp(klass, "ada") == "", "a dry run"
    take(klass, files, "--timestamps", "files")
    first = stamp(klass, "ada")
    assert first.startswith("2026-03-02") and "timestamp.txt is written" in capsys.readouterr().out
    take(klass, files, when=(2026, 5, 1, 10, 0, 0))
    assert stamp(klass, "ada") == first, "the same file again is not a later hand-in"
    take(klass, files, "--timestamps", "files", when=(2026, 5, 1, 10, 0, 0))
    assert stamp(klass, "ada").startswith("2026-05-01")


def test_lateness_that_is_told_is_the_one_that_is_written(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with connect(f"sqlite:///{klass / 'gradebook.db'}") as book:
        book.add_assignment(UNIT, duedate="2026-03-10 12:00:00 UTC")
    take(klass, {"ada/hw.ipynb": hand_in("a")})
    capsys.readouterr()
    take(klass, {"ada/hw.ipynb": hand_in("a")}, when=(2026, 4, 1, 0, 0, 0))
    assert "h late" not in capsys.readouterr().out and stamp(klass, "ada").startswith("2026-03-02")


def test_a_link_for_a_timestamp_is_not_written_through(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    folder = tmp_path / "ada" / UNIT
    put(folder, b"x", None)
    (tmp_path / "other").write_text("mine")
    (folder / "timestamp.txt").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="is a link"):
        put(folder, b"x", datetime(2026, 1, 1, tzinfo=UTC), restamp=True)
    assert (tmp_path / "other").read_text() == "mine"


@pytest.mark.parametrize(
    ("zone", "wanted"),
    [("Europe/Berlin", "2026-03-02 13:14:00 UTC"), ("America/New_York", "2026-03-02 19:14:00 UTC")],
)
def test_the_worksheets_times_have_a_zone(
    klass: Path, zone: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"Ada Lovelace_11_assignsubmission_file_/hw.ipynb": hand_in("a")}
    take(klass, files, "--unit", "1", "--timezone", "UTC", roster=MOODLE)
    assert stamp(klass, "ada") == "2026-03-02 14:14:00 UTC"
    take(klass, files, "--unit", "1", "--timezone", zone, roster=MOODLE)
    assert stamp(klass, "ada") == wanted, "a wrong zone can be put right"
    assert f"times are read in {zone}" in capsys.readouterr().out
    take(klass, files, "--unit", "1", roster=MOODLE)
    assert "this machine's time zone" in capsys.readouterr().out
    assert take(klass, files, "--timezone", "Berlin") == 1 and "no time zone" in capsys.readouterr().err


def test_times_that_need_a_unit_are_not_dropped_in_silence(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take(klass, {"Ada Lovelace_11_assignsubmission_file_/hw.ipynb": hand_in("a")}, roster=MOODLE)
    assert "name the unit with --unit" in capsys.readouterr().out and stamp(klass, "ada") == ""


@pytest.mark.parametrize("month", [1, 3, 5])
def test_a_damaged_file_displaces_no_readable_one(klass: Path, month: int, capsys: pytest.CaptureFixture[str]) -> None:
    take(klass, {"ada/hw.ipynb": hand_in("a")})
    assert take(klass, {"ada/hw.ipynb": hand_in("b")[:-20]}, when=(2026, month, 2, 10, 0, 0)) == 1
    assert standing(klass) == {"ada": "a"} and not list(klass.rglob("earlier-*"))
    assert "the readable hand-in that stands there stays" in capsys.readouterr().out
    take(klass, {"bob/hw.ipynb": hand_in("b")[:-20]})
    assert "ask its owner for the file again" in capsys.readouterr().out
    assert take(klass, {"bob/hw.ipynb": hand_in("b")}, when=(2026, 1, 1, 0, 0, 0)) == 0
    assert standing(klass) == {"ada": "a", "bob": "b"}, "a readable one displaces a damaged one, whatever their times"


def test_a_class_with_a_roster_gets_no_second_ids(klass: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roster = "id,name\ns1,Ada Lovelace\ns2,Grace Hopper\n"
    take(klass, {"Ada Lovelace/hw.ipynb": hand_in("a")}, roster=roster)
    files = {"Grace Hopper/hw.ipynb": hand_in("g"), "S2/hw.ipynb": hand_in("s")}
    assert take(klass, files) == 1
    assert standing(klass) == {"s1": "a", "s2": "s"}
    assert "ids from a roster" in capsys.readouterr().out
    assert take(klass, files, "--new-ids") == 0
    assert "Grace_Hopper" in standing(klass)


def test_without_an_earlier_roster_nothing_is_asked(klass: Path) -> None:
    assert take(klass, {"ada/hw.ipynb": hand_in("a")}) == take(klass, {"bob/hw.ipynb": hand_in("b")}) == 0
    (klass / "imports" / "roster-ids.json").write_text("[")
    assert take(klass, {"eve/hw.ipynb": hand_in("e")}) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ID number,Email address,ID number\na,b,c\n", "2 columns `id number`"),
        ('ID number,name\na,"open\nb,c\n', "a quote is not closed"),
    ],
)
def test_export_and_import_refuse_the_same_rosters(klass: Path, text: str, why: str) -> None:
    path = klass.parent / "roster.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(why)):
        read_roster(path)
    assert take(klass, {"a/x.ipynb": hand_in("a")}, roster=text) == 1 and standing(klass) == {}


def test_windows_code_is_read_by_both(klass: Path) -> None:
    path = klass.parent / "roster.csv"
    path.write_bytes("ID number;Email address;Full name\r\nmüller;m@x.org;Jörg Müller\r\n".encode("cp1252"))
    take(klass, {"Jörg Müller/x.ipynb": hand_in("m")}, "--roster", str(path))
    assert standing(klass) == {"muller": "m"}
    made = moodle({UNIT: [Row(UNIT, Person("muller"), "complete", 15, 9.0)]}, read_roster(path))
    assert made.text.splitlines()[1].startswith("müller,m@x.org,9")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\x1b[31mb", "a?[31mb"),
        ("a\x07", "a?"),
        ("a\u202eb", "a?b"),
        ("Zoë \u0646\u200c", "Zoë \u0646\u200c"),
        ("a\udc80", "a?"),
    ],
)
def test_nothing_that_steers_a_terminal_is_exported(text: str, wanted: str) -> None:
    assert safe(text) == wanted


def test_addresses_as_ids_are_addresses_for_moodle() -> None:
    rows = [Row(UNIT, Person(one), "complete", 15, 9.0) for one in ("ada@x.org", "bob")]
    rows.append(Row(UNIT, Person("nunez@x.org"), "complete", 15, 9.0))
    made = moodle({UNIT: rows}, None, {"nunez@x.org": "núñez@x.org"})
    found = [(row["ID number"], row["Email address"]) for row in csv.DictReader(made.text.splitlines())]
    assert found == [("", "ada@x.org"), ("bob", ""), ("", "núñez@x.org")]
