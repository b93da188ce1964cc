"""`kvgrade export`: totals and penalties are nbgrader's own; Canvas and Moodle get what they take; nothing is a silent 0."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

from graded_class import NAMES, POINTS, QUESTION, UNIT
from kvgrade import export, export_lms, standing
from kvgrade.__main__ import main
from kvgrade.course import Course, CourseError

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,01_kv_cache (4711),Essay (12),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,15.00,10,(read only)
"Berg, Anna",101,s1,anna,Group A,,7,50
"=cmd()|x, Bob",102,s2,bob@example.org,Group A,3,8,50
"Nobody, Nora",103,s3,nora,Group B,9,8,50
"Öst, Emil",104,emil,unknown,Group B,,8,50
"""
MOODLE = """Identifier,Full name,ID number,Email address,Status,Grade,Maximum Grade,Grade can be changed,Last modified (submission),Last modified (grade),Feedback comments
Participant 11,Anna Berg,,anna@example.org,Submitted,,15.00,Yes,-,-,
Participant 12,Bob,BOB,,Submitted,,15.00,Yes,-,-,
Participant 13,Carl,,CARL@example.org,Submitted,,15.00,Yes,-,-,see me
Participant 14,-Dora,dora,,Submitted,,15.00,Yes,-,-,
"""


def table(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def nbgraders(course: Course) -> dict[str, dict[str, str]]:
    """What nbgrader's own exporter says, by student."""
    target = course.root / "nbgrader.csv"
    with Gradebook(course.db_url, course.directory.course_id) as book:
        plugin = CsvExportPlugin()
        plugin.to = str(target)
        plugin.export(book)
    return {row["student_id"]: row for row in table(target.read_text(encoding="utf-8"))}


def test_totals_and_penalties_are_those_of_nbgrader(course: Course) -> None:
    ours = {row["student"]: row for row in table(export.as_csv(export.rows(course, UNIT)))}
    theirs = nbgraders(course)
    assert set(ours) == set(theirs) == set(NAMES)
    for student, row in ours.items():
        wanted = theirs[student]
        assert float(row["max"]) == float(wanted["max_score"]) == sum(POINTS.values())
        if row["state"] == "no hand-in":
            assert wanted["timestamp"] == row["submitted"] == row["total"] == row["automatic"] == ""
            continue
        assert float(row["late_penalty"]) == float(wanted["late_submission_penalty"])
        raw = sum(float(row[name]) for name in ("automatic", "manual", "extra_credit"))
        assert raw == pytest.approx(float(wanted["raw_score"]))
        assert row["submitted"] == wanted["timestamp"] + " UTC"
        if row["state"].startswith("incomplete"):
            assert row["total"] == ""
        else:
            assert float(row["total"]) == pytest.approx(float(wanted["score"]))
            assert raw == pytest.approx(sum(float(row[name]) for name in POINTS))


def test_states_say_what_is_missing(course: Course) -> None:
    rows = {row.person.id: row for row in export.rows(course, UNIT)}
    assert {student: row.state for student, row in rows.items()} == {
        "anna": "complete",
        "bob": "incomplete: 1 written answer not marked",
        "carl": "complete",
        "dora": "unreadable",
        "emil": "complete",
        "zoe": "no hand-in",
    }
    assert rows["bob"].total is None and rows["carl"].total == 0 and rows["emil"].total == 3.5
    (course.root / "submitted" / "yan" / UNIT).mkdir(parents=True)
    assert export.rows(course, UNIT)[-2].state == "handed in, not graded yet"
    with Gradebook(course.db_url, course.directory.course_id) as book:
        book.find_grade("check-cached_attention", UNIT, UNIT, "emil").needs_manual_grade = True
        book.db.commit()
    row = next(row for row in export.rows(course, UNIT) if row.person.id == "emil")
    assert row.total == 3.5 and row.state == "complete; 1 mark by hand to be confirmed after a regrade"


def test_a_penalty_never_makes_a_total_negative(course: Course) -> None:
    with Gradebook(course.db_url, course.directory.course_id) as book:
        book.find_submission_notebook(UNIT, UNIT, "emil").late_submission_penalty = 99.0
        book.db.commit()
    row = next(row for row in export.rows(course, UNIT) if row.person.id == "emil")
    assert row.total == 0 == float(nbgraders(course)["emil"]["score"])


def test_the_table_has_a_column_for_each_exercise(course: Course) -> None:
    rows = table(export.as_csv(export.rows(course, UNIT)))
    assert list(rows[0])[6:11] == list(POINTS)
    by_id = {row["student"]: row for row in rows}
    assert [by_id["anna"][name] for name in POINTS] == ["2", "4.5", "4", "2", "2.5"]
    assert by_id["bob"][QUESTION] == "" and by_id["carl"][QUESTION] == "0"
    assert by_id["bob"]["last_name"] == "'=HYPERLINK(1)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("=1+1", "'=1+1"),
        ("+49 123", "'+49 123"),
        ("-x", "'-x"),
        ("-", "-"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-12.5", "-12.5"),
        ("+3", "+3"),
        ("a=1", "a=1"),
        ("two\r\nlines\x00", "two lines"),
        ("", ""),
    ],
)
def test_no_text_of_others_becomes_a_formula(text: str, wanted: str) -> None:
    assert export.safe(text) == wanted


def test_numbers_are_written_plainly() -> None:
    assert [export.number(x) for x in (None, 0.0, -0.0, -1e-9, 2.5, 1 / 3, 1e6, 10.0)] == [
        "", "0", "0", "0", "2.5", "0.333333", "1000000", "10",
    ]  # fmt: skip


def for_lms(course: Course, form: str, roster: str, tmp_path: Path) -> export_lms.Export:
    path = tmp_path / "roster.csv"
    path.write_text(roster, encoding="utf-8")
    units = {UNIT: export.rows(course, UNIT)}
    read = export_lms.read_roster(path)
    return export_lms.canvas(units, read) if form == "canvas" else export_lms.moodle(units, read)


def test_canvas_gets_its_own_columns_back(course: Course, tmp_path: Path) -> None:
    made = for_lms(course, "canvas", CANVAS, tmp_path)
    rows = list(csv.reader(io.StringIO(made.text)))
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "01_kv_cache (4711)"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "15"]
    assert [(row[0], row[1], row[-1]) for row in rows[2:]] == [
        ("Berg, Anna", "101", "15"),
        ("'=cmd()|x, Bob", "102", ""),  # a written answer is not marked
        ("Nobody, Nora", "103", ""),
        ("Öst, Emil", "104", "3.5"),
    ]
    assert any("Nobody, Nora" in note for note in made.notes) and any("1 incomplete" in note for note in made.notes)
    assert f"{UNIT}: 1 unreadable, 0 points: dora" in made.notes
    assert made.lost == ["2 with marks have no row in the roster: carl, dora"]


def test_canvas_needs_a_column_or_makes_one(course: Course, tmp_path: Path) -> None:
    made = for_lms(course, "canvas", CANVAS.replace("01_kv_cache (4711)", "Homework (4711)"), tmp_path)
    assert next(csv.reader(io.StringIO(made.text)))[-1] == UNIT
    assert "offer to make a new assignment" in made.notes[0]
    with pytest.raises(ValueError, match="says 100 points, the unit has 15"):
        for_lms(course, "canvas", CANVAS.replace("15.00", "100"), tmp_path)
    with pytest.raises(ValueError, match="no export of Canvas' gradebook"):
        for_lms(course, "canvas", "name,id\nAnna,anna\n", tmp_path)


def test_moodles_worksheet_comes_back_filled_in(course: Course, tmp_path: Path) -> None:
    made = for_lms(course, "moodle", MOODLE, tmp_path)
    assert made.text.split("\r\n")[0] == MOODLE.split("\n")[0]
    rows = table(made.text)
    assert [(row["Identifier"], row["Grade"]) for row in rows] == [
        ("Participant 11", "15"),
        ("Participant 12", ""),
        ("Participant 13", "0"),
        ("Participant 14", "0"),
    ]
    assert {row["Last modified (grade)"] for row in rows} == {"-"}, "Moodle looks at it"
    comments = [row["Feedback comments"] for row in rows]
    assert "KVCache 4.5" in comments[0] and comments[1] == "" and comments[2] == "see me"
    assert "could not be read" in comments[3] and rows[3]["Full name"] == "'-Dora"
    assert made.lost == ["1 with marks have no row in the roster: emil"]
    with pytest.raises(ValueError, match="Maximum Grade says 100"):
        for_lms(course, "moodle", MOODLE.replace("15.00", "100"), tmp_path)
    units = {UNIT: export.rows(course, UNIT), "02_prefill_decode": []}
    with pytest.raises(ValueError, match="name one unit"):
        export_lms.moodle(units, export_lms.read_roster(tmp_path / "roster.csv"))


def test_moodles_grade_import(course: Course, tmp_path: Path) -> None:
    plain = table(export_lms.moodle({UNIT: export.rows(course, UNIT)}, None).text)
    assert [row["ID number"] for row in plain] == sorted(NAMES)
    assert {row["ID number"]: row[UNIT] for row in plain} == {
        "anna": "15", "bob": "", "carl": "0", "dora": "0", "emil": "3.5", "zoe": "",
    }  # fmt: skip
    assert "late −1.5" in next(row[f"{UNIT} feedback"] for row in plain if row["ID number"] == "emil")
    roster = "\ufeffFirst name;ID number;Email address;x\nAnna;;anna@example.org;1\nX;zoe;;2\n"
    made = for_lms(course, "moodle", roster, tmp_path)
    assert made.text.split("\r\n")[0] == f"ID number,Email address,{UNIT},{UNIT} feedback"
    assert [row[UNIT] for row in table(made.text)] == ["15", ""]


def test_a_student_in_two_rows_is_refused(course: Course, tmp_path: Path) -> None:
    twice = CANVAS + '"Berg, Another",105,anna,other,Group A,,7,50\n'
    with pytest.raises(ValueError, match="anna fits rows 1 and 5"):
        for_lms(course, "canvas", twice, tmp_path)


def test_ids_that_differ_in_case_only_are_not_mixed_up(tmp_path: Path) -> None:
    people = [standing.Person(student, email="one@example.org") for student in ("Ann", "ann", "Bo")]
    rows = [export.Row(UNIT, person, "complete", 15, float(i), None) for i, person in enumerate(people, start=1)]
    path = tmp_path / "roster.csv"
    path.write_text("ID number,Email address\nann,\nANN,\nbo,\n,one@example.org\n", encoding="utf-8")
    made = export_lms.moodle({UNIT: rows}, export_lms.read_roster(path))
    assert [row[UNIT] for row in table(made.text)] == ["2", "", "3", ""], "exact, unclear, clear, unclear"


@pytest.mark.parametrize("data", [b"", b"\x00\x01", b"Gr\x81\x8de,ID\n", b'a,b\n"open,1\n'])
def test_a_roster_that_is_none_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"can't be read as CSV|is empty or no CSV"):
        export_lms.read_roster(path)


def test_rosters_in_other_forms(tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    for text, encoding in (("a;b\n1;2\n\n;\n", "utf-8-sig"), ("a\tb\n1\t2\n", "utf-16")):
        path.write_text(text, encoding=encoding)
        roster = export_lms.read_roster(path)
        assert (roster.header, roster.rows) == (["a", "b"], [["1", "2"]])


def test_the_command(course: Course, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = ["export", "--course", str(course.root)]
    assert main(base) == 0
    data = (course.root / "marks.csv").read_bytes()
    assert data.startswith(b"unit,student") and main([*base, "--unit", "01", "--bom"]) == 0
    assert (course.root / "marks.csv").read_bytes() == b"\xef\xbb\xbf" + data
    assert main([*base, "--format", "canvas"]) == 1
    assert "export its gradebook" in capsys.readouterr().err
    roster = tmp_path / "canvas.csv"
    roster.write_text(CANVAS, encoding="utf-8")
    assert main([*base, "--format", "canvas", "--roster", str(roster), "--to", str(tmp_path / "out.csv")]) == 1
    assert "2 with marks have no row in the roster" in capsys.readouterr().err
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("Student,ID")
    assert main([*base, "--unit", "02"]) == 1
    assert "02_prefill_decode is not released here" in capsys.readouterr().err
    command = [sys.executable, "-m", "kvgrade", "export", "--course", str(course.root), "--to", "-"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == data


def test_names_of_a_roster_reach_the_table(course: Course, tmp_path: Path) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(
        'id,name,email\ndora,"Ost, Dora",e@x.org\nemil,Em,other@x.org\no\'hara,Sue,s@x.org\n', encoding="cp1252"
    )
    base = ["export", "--course", str(course.root)]
    before = {row.person.id: row.person for row in export.rows(course, UNIT)}
    assert main([*base, "--roster", str(roster)]) == 0
    rows = {row["student"]: row for row in table((course.root / "marks.csv").read_text(encoding="utf-8"))}
    assert (rows["dora"]["last_name"], rows["dora"]["first_name"], rows["dora"]["email"]) == ("", "Dora", "e@x.org")
    assert rows["emil"]["email"] == before["emil"].email, "what the gradebook has stays"
    assert (rows["o_hara"]["last_name"], rows["o_hara"]["state"]) == ("Sue", "no hand-in")
    assert set(rows) == {*before, "o_hara"}


def test_moodles_two_files_do_not_replace_each_other(course: Course, tmp_path: Path) -> None:
    """A worksheet is one assignment's, however the unit was chosen; the table for the gradebook has another name."""
    worksheet = tmp_path / "worksheet.csv"
    worksheet.write_text(MOODLE, encoding="utf-8")
    base = ["export", "--course", str(course.root), "--format", "moodle"]
    of_unit, of_class = course.root / f"marks-moodle-{UNIT}.csv", course.root / "marks-moodle.csv"
    main([*base, "--roster", str(worksheet)])
    first = of_unit.read_bytes()
    assert first.startswith(b"Identifier,") and not of_class.exists()
    assert main([*base, "--unit", "1"]) == 0
    assert of_unit.read_bytes() == first and of_class.read_bytes().startswith(b"ID number,")


def test_without_a_gradebook_none_is_made(course: Course) -> None:
    (course.root / "gradebook.db").unlink()
    with pytest.raises(CourseError, match="no gradebook"):
        export.rows(course, UNIT)
    assert not (course.root / "gradebook.db").exists()


@pytest.mark.parametrize("way", ["another", "a link", "a link set aside", "readable again"])
def test_marks_of_an_older_file_are_told(course: Course, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", "--course", str(course.root)]
    assert main(command) == 0 and "handed in again" not in capsys.readouterr().err
    who = "dora" if way == "readable again" else "anna"
    hand_in = course.root / "submitted" / who / UNIT / f"{UNIT}.ipynb"
    hand_in.unlink()
    assert main(command) == 0, "who took a file away has handed in nothing"
    if way == "a link":
        hand_in.symlink_to("/etc/passwd")
    elif way == "a link set aside":  # as `grade` does
        hand_in.with_name(f"{UNIT}.ipynb.1.set-aside").symlink_to("/etc/passwd")
    else:
        hand_in.write_bytes(b"{}")
    assert main(command) == 1
    line = f"{UNIT}: 1 handed in again since it was graded, the marks are about the older file: {who} (run `"
    assert line in capsys.readouterr().err
    assert main([*command, "--format", "moodle"]) == 1 and line in capsys.readouterr().err
