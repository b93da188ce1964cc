"""`kvgrade feedback --zip`: what Moodle's and Canvas' own rules find in the zip. Neither platform itself was asked.

The rules are written down here as their sources have them: Moodle's mod/assign/feedback/file/importziplib.php, Canvas'
app/models/abstract_assignment.rb (`infer_comment_context_from_filename`).
"""

import dataclasses
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path, PurePosixPath

import mistune
import nbformat
import pytest

import graded_class
from class_files import zipped
from graded_class import UNIT
from kvgrade import feedback_page_files, pages, results
from kvgrade.__main__ import main
from kvgrade.course import Course
from kvgrade.intake.give_back import pack
from kvgrade.intake.known import sources
from kvgrade.intake.page_notebook import as_notebook

NUMBERS = {"anna": 11, "bob": 12, "carl": 13, "dora": 14, "emil": 15}
PAGE = pages.page("t", "<h1>Unit</h1>\n<p>words</p>")
ROSTER = "id,name\n" + "".join(f"{name},{name.title()} Of_Class\n" for name in NUMBERS)


def moodle_finds(path: str, participants: set[int]) -> tuple[int, str] | None:
    """Moodle's reading of a path in the zip: (participant, path of the feedback file), None for a file it passes over."""
    if PurePosixPath(path).name.startswith((".", "~")):
        return None
    parts = path.split("/")
    while parts:
        pieces = parts.pop(0).split("_", 4)
        if len(pieces) < 4 or not pieces[1].isdigit() or int(pieces[1]) not in participants:
            continue
        if (pieces[2], pieces[3]) == ("assignsubmission", "file"):
            return int(pieces[1]), "/".join([*pieces[4:], *parts]).lstrip("/")
    return None


def canvas_finds(path: str, files: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """Canvas' reading: (student's number or code, name under which the file is shown).

    files: {number of a handed-in file: (its owner, its name)}.
    """
    pieces = [piece for piece in PurePosixPath(path).name.split("_") if piece != "LATE"]
    if pieces[0] == "anon":
        owner, number = "anon_" + pieces[1], pieces[2]
    else:
        numbers = [piece for piece in pieces if re.fullmatch(r"\d+", piece)][:2]
        owner, number = numbers if len(numbers) == 2 else ("", "")
    if pieces[-1].startswith("link") or number not in files or files[number][0] != owner:
        return None
    return owner, files[number][1]


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def import_from(course: Course, names: dict[str, str], *options: str) -> int:
    """Import the class's own hand-ins under a platform's names, with a roster, as if then graded; the exit code."""
    source, roster = course.root.parent / "in.zip", course.root.parent / "roster.csv"
    source.write_bytes(zipped({path: graded_class.HAND_INS[student] for student, path in names.items()}))
    roster.write_text(ROSTER, encoding="utf-8")
    command = ["import", str(source), "--unit", "01", "--roster", str(roster), "--course", str(course.root)]
    code = main([*command, *options])
    files = {student: folder / f"{UNIT}.ipynb" for student, folder in course.submitted(UNIT).items()}
    found = results.merged(course.results(UNIT))  # an import keeps a file in another form: it has another checksum
    sums = {student: hashlib.sha256(path.read_bytes()).hexdigest() for student, path in files.items()}
    graded_class.stands(course, {s: dataclasses.replace(one, submission=sums[s]) for s, one in found.items()})
    return code


@pytest.mark.parametrize("form", ["{}_{}_assignsubmission_file_/hw (1).ipynb", "{}_{}_assignsubmission_file/a/b.ipynb",
                                  "{}_{}_assignsubmission_file_hw_2.ipynb"])  # fmt: skip
def test_moodle_finds_every_page_by_the_names_of_its_own_download(
    course: Course, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import_from(course, {s: form.format(f"{s.title()} Of_Class".replace("_", " "), n) for s, n in NUMBERS.items()})
    assert main(["feedback", "--unit", "01", "--zip", "moodle", "--course", str(course.root)]) == 0
    target = course.root / f"feedback-moodle-{UNIT}.zip"
    assert f"{target}: 5 pages, to be uploaded to Moodle" in capsys.readouterr().out
    found = {moodle_finds(path, set(NUMBERS.values())): data for path, data in unzipped(target.read_bytes()).items()}
    folder = course.root / "feedback"
    wanted = {(n, f"{UNIT}.html"): (folder / s / UNIT / f"{UNIT}.html").read_bytes() for s, n in NUMBERS.items()}
    assert found == wanted
    before = target.read_bytes()
    assert main(["feedback", "--unit", "01", "--zip", "moodle", "--course", str(course.root)]) == 0
    assert target.read_bytes() == before


def test_canvas_finds_every_page_and_shows_a_notebook(course: Course) -> None:
    names = {s: f"ofclass{s}_{n}_{n}00_01_kv_cache-1.ipynb" for s, n in NUMBERS.items()}
    names["bob"] = "ofclassbob_LATE_12_1200_hand in.ipynb"
    import_from(course, names)
    assert main(["feedback", "--unit", "01", "--zip", "canvas", "--course", str(course.root)]) == 0
    files = {f"{n}00": (str(n), names[s].split("00_", 1)[1]) for s, n in NUMBERS.items()}
    found = unzipped((course.root / f"feedback-canvas-{UNIT}.zip").read_bytes())
    assert set(found) == set(names.values()), "the download's own names"
    assert {canvas_finds(path, files) for path in found} == set(files.values())
    for student, path in names.items():
        book = nbformat.reads(found[path].decode(), 4)
        nbformat.validate(book)
        assert f"Feedback for <code>{student}</code>" in book.cells[0].source and "This is feedback" in str(book)


def test_who_is_not_in_the_zip_is_named(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["feedback", "--unit", "01", "--zip", "moodle", "--course", str(course.root)]
    target = course.root / f"feedback-moodle-{UNIT}.zip"
    target.write_bytes(b"of an earlier run")
    assert main(command) == 1 and not target.exists()
    assert "5 not in the zip, where their hand-in came from is not known: import the download again: anna, bob" in (
        capsys.readouterr().out
    )
    import_from(course, {"anna": "Anna Of Class_11_assignsubmission_file_/a.ipynb", "bob": "bob/01.ipynb"})
    target.write_bytes(b"of the class")
    some = target.with_name(f"feedback-moodle-{UNIT}-some.zip")
    assert main([*command, "--student", "anna"]) == 0 and len(unzipped(some.read_bytes())) == 1
    assert target.read_bytes() == b"of the class", "one student's zip leaves that of the class"
    capsys.readouterr()
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "1 not in the zip, their hand-in came under no name of a download from Moodle: bob" in said
    assert "3 not in the zip, where their hand-in came from is not known" in said
    (course.root / "imports" / f"files-{UNIT}.json").write_text("[]")
    assert main(command) == 1 and "is damaged: delete it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("platform", "path", "why"),
    [
        ("moodle", "Team_assignsubmission_file_/a.ipynb", "under no name of a download from Moodle"),
        ("moodle", "ada_71_700_a.ipynb", "under no name of a download from Moodle"),
        ("canvas", "Ada_7_assignsubmission_file_/a.ipynb", "under no name of a download from Canvas"),
        ("canvas", "ada_71_700_work.zip/a.ipynb", "handed in no .ipynb file"),
        ("canvas", "ada_71_700_a.ipynb.txt", "handed in no .ipynb file"),
        ("canvas", "ada_71_700_my_link.ipynb", "for that of a link"),
        ("canvas", "ada_7_71_700_a.ipynb", "Canvas would read other numbers"),
        ("canvas", "anon_71_700_a.ipynb", "Canvas would read other numbers"),
        ("canvas", "ada_71_700_a\\b.ipynb", "has a backslash or other characters"),
        ("canvas", "ada_71_700_a\x7f.ipynb", "has a backslash or other characters"),
        ("canvas", f"ada_71_700_{'a' * 300}.ipynb", "has a backslash or other characters"),
    ],
)
def test_paths_that_no_platform_would_find_again(platform: str, path: str, why: str) -> None:
    packed = pack(platform, UNIT, {"ada": PAGE}, {"ada": path})
    assert (packed.data, packed.students) == (b"", []) and why in packed.left[0] and packed.left[0].endswith(": ada")


@pytest.mark.parametrize("path", ["anon_Ab12C_700_a.ipynb", "LATE_anon_Ab12C_700_a.ipynb", "x/anon_Ab12C_700_a.ipynb"])
def test_canvas_finds_those_without_a_name(path: str) -> None:
    (name,) = unzipped(pack("canvas", UNIT, {"ada": PAGE}, {"ada": path}).data)
    assert canvas_finds(name, {"700": ("anon_Ab12C", "a.ipynb")}) == ("anon_Ab12C", "a.ipynb")


@pytest.mark.parametrize("given", ["a_b", "x:y", "Ян Ø", "\x1b[2J", "a" * 200, "Participant"])
def test_no_name_keeps_moodle_from_finding_the_number(given: str) -> None:
    path = f"{given}_11_assignsubmission_file_/a.ipynb"
    (name,) = unzipped(pack("moodle", UNIT, {"ada": PAGE}, {"ada": path}).data)
    assert moodle_finds(name, {11}) == (11, f"{UNIT}.html") and name.isprintable() and len(name) < 200


def test_two_students_with_one_number_get_nothing() -> None:
    paths = {"ada": "Ada_11_assignsubmission_file_/a.ipynb", "bea": "Bea_11_assignsubmission_file_/a.ipynb"}
    paths["cem"] = "Cem_12_assignsubmission_file_/a.ipynb"
    packed = pack("moodle", UNIT, dict.fromkeys(paths, PAGE), paths)
    why = "ada and bea have one number in the download from Moodle, and only one of them can be its owner"
    assert packed.students == ["cem"] and packed.left == [f"2 not in the zip, {why}: ada, bea"]
    packed = pack("moodle", UNIT, {"ada": PAGE}, paths)
    assert packed.students == [] and packed.left == [f"1 not in the zip, {why}: ada"], (
        "also where one alone is asked for"
    )
    packed = pack("canvas", UNIT, dict.fromkeys("ab", PAGE), {"a": "ada_71_700_a.ipynb", "b": "ada_71_800_a.ipynb"})
    assert packed.students == [] and "a and b have one number" in packed.left[0], "Canvas' number is a person's"


@pytest.mark.parametrize("student", [[], ["--student", "anna"]])
def test_a_page_about_an_older_file_is_named(
    course: Course, student: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    import_from(course, {s: f"{s}_{n}_assignsubmission_file_/a.ipynb" for s, n in NUMBERS.items()})
    command = ["feedback", "--unit", "01", *student, "--course", str(course.root)]
    assert main([*command, "--zip", "moodle"]) == 0
    (course.root / "submitted" / "anna" / UNIT / f"{UNIT}.ipynb").write_bytes(b"{}")
    capsys.readouterr()
    assert main([*command, "--zip", "moodle"]) == 1
    assert "1 handed in again since it was graded, the page is about the older file: anna" in capsys.readouterr().out
    assert main(command) == 0


def test_the_last_import_says_where_a_hand_in_came_from(course: Course) -> None:
    first = {s: f"{s.title()} Of Class_{n}_assignsubmission_file_/a.ipynb" for s, n in NUMBERS.items()}
    import_from(course, first, "--dry-run")
    assert sources(course.root / "imports", UNIT) == {}
    assert import_from(course, first) == 1, "dora's file is damaged: a person should look"
    assert sources(course.root / "imports", UNIT) == first
    (course.root / "imports" / f"files-{UNIT}.json").unlink()
    import_from(course, first)
    assert sources(course.root / "imports", UNIT) == first, "the download again brings it back, with no hand-in changed"
    import_from(course, {"bob": "ofclassbob_12_1200_a.ipynb"})
    assert sources(course.root / "imports", UNIT) == {**first, "bob": "ofclassbob_12_1200_a.ipynb"}
    assert sources(course.root / "imports", "03_memory") == {}


def test_a_notebook_shows_the_page_and_reads_no_marks_in_it(course: Course) -> None:
    feedback_page_files.write(course, UNIT)
    hard = (
        '<p>$x$ \\(y\\) *no* `mark`</p>\n\n\n    # no code &lt;b&gt;\n\n<p class="said">one\n\ntwo $</p>\n\n- no list'
    )
    files = [path.read_bytes() for path in sorted(Path(course.root, "feedback").glob("*/*/*.html"))]
    for page in [*files, pages.page("t", hard)]:
        source = "".join(json.loads(as_notebook(page))["cells"][0]["source"])
        assert not {"$", "\\"} & set(source) and "\n\n" not in source, "nothing for a formula; one block"
        shown = str(mistune.create_markdown(escape=False)(source))
        assert shown.strip() == source.strip(), "Markdown leaves the block as it is"
        plain = re.sub(
            r"<br>|<[^>]*>", " ", shown.replace("<span>&#36;</span>", "$").replace("<span>&#92;</span>", "\\")
        )
        for word in re.sub(r"<[^>]*>", " ", pages.body(page)).split():
            assert word in plain, word
