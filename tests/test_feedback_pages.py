"""`kvgrade feedback`: what a learner gets back. Well-formed, escaped, without held-out inputs, the same bytes each time."""

import dataclasses
import itertools
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import graded_class
from graded_class import QUESTION, SEED, UNIT
from hostile.model import EXERCISES
from kvgrade import cases, feedback_page, feedback_page_files, pages, results, standing
from kvgrade.__main__ import main
from kvgrade.course import Course, CourseError

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Tags that are opened and closed in order, attributes, and the text; fails where they do not fit."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html.decode())
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r" (?=[.,;)])", "", " ".join(" ".join(self.words).split()))


def offline(html: bytes) -> Page:
    """The page, after the checks that hold for each of ours: structure, headings, nothing from elsewhere, no script."""
    page = Page(html)
    names = [tag for tag, _ in page.tags]
    assert html.startswith(b'<!DOCTYPE html>\n<html lang="en">') and names.count("h1") == names.count("main") == 1
    levels = [int(tag[1]) for tag in names if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit()]
    assert levels[0] == 1 and all(b <= a + 1 for a, b in itertools.pairwise(levels)), "a heading is left out"
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(names)
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert str(attributes.get("href", "#")).startswith("#")
    assert b"url(" not in html and b"@import" not in html and b"prefers-color-scheme: dark" in html
    tables = [a for tag, a in page.tags if tag == "th"]
    assert all(a.get("scope") in ("col", "row") for a in tables) and names.count("caption") == names.count("table")
    return page


def path(course: Course, student: str) -> Path:
    return course.root / "feedback" / student / UNIT / f"{UNIT}.html"


def read(course: Course, student: str) -> Page:
    return offline(path(course, student).read_bytes())


def change(course: Course, student: str, **fields: object) -> None:
    """Another result for a student, standing in the gradebook."""
    found = results.merged(course.results(UNIT))
    key = "f" * 64
    graded_class.stands(course, {**found, student: dataclasses.replace(found[student], key=key, **fields)})


def test_pages_say_what_earned_points_and_what_did_not(course: Course) -> None:
    written = feedback_page_files.write(course, UNIT)
    assert (written.pages, written.changed, written.notes) == (5, 5, [])
    anna, bob, carl, dora, emil = (read(course, student).text for student in ("anna", "bob", "carl", "dora", "emil"))
    assert "Total: 15 of 15 points." in anna and "Extra credit: 0.5 points" in anna and "2.5 of 3 points" in anna
    assert "not right" not in anna and "A hint" not in anna and "but <b>why</b>?" in anna
    assert "Likely mistake (decode, prefill, chunk): the scores are not divided by sqrt(d)." in bob
    assert "not marked yet" in bob and "Total: 7 of 15 points so far" in bob
    for name in EXERCISES:
        assert f"A hint for {name}" in bob
    assert carl.count("No answer: the cell is as it was handed out, or no longer there.") == len(EXERCISES)
    assert "There is no answer" in carl and "not marked yet" not in carl
    assert "Your file could not be read" in dora and "What to do:" in dora and "can't be read as JSON" in dora
    assert "Taken off since it came late: 1.5 points. The hand-in came 1.25 days after the due date." in emil
    assert "A person changed this from 0 to 1 points." in emil and "Total: 3.5 of 15 points." in emil
    assert not path(course, "zoe").exists(), "no page without a hand-in"


def test_a_hint_is_the_first_of_the_unit(course: Course) -> None:
    hints = feedback_page.first_hints(UNIT)
    assert set(hints) == set(EXERCISES)
    feedback_page_files.write(course, UNIT, ["bob"])
    assert hints["positions_processed"] in read(course, "bob").text
    assert feedback_page.first_hints("77_gone") == {}


def test_what_learners_and_graders_write_is_escaped(course: Course) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x00\ud800"
    found = results.merged(course.results(UNIT))["bob"]
    group = dataclasses.replace(found.marks["KVCache"].groups[0], name=bad, why=bad, seen=bad, right=False)
    mark = dataclasses.replace(found.marks["KVCache"], groups=[group], note=bad)
    change(course, "bob", marks={**found.marks, "KVCache": mark}, facts=[bad, f"KVCache: {bad}"], isolated=False)
    feedback_page_files.write(course, UNIT)
    page = read(course, "bob")
    assert page.text.count("<script>alert(1)</script><img src=x onerror=alert(2)>") >= 5
    assert "NOT ISOLATED" in page.text and "\u202e" not in page.text
    change(course, "bob", unreadable=bad)
    feedback_page_files.write(course, UNIT)
    assert "<script>" in read(course, "bob").text


def reprs(value: object) -> list[str]:
    """How an input may look on a page, where it is long enough to be told from other text."""
    if isinstance(value, np.ndarray):
        return [text for x in value.ravel()[:200].tolist() for text in (repr(x), f"{x:.4f}")]
    if hasattr(value, "numpy"):
        return reprs(value.numpy())
    if isinstance(value, list | tuple):
        return [repr(value), *(text for item in value for text in reprs(item))]
    return [repr(value)]


LEAKY = {
    "positions_processed": "def positions_processed(*a):\n    raise ValueError(f'no way: {a}')",
    "kv_cache_bytes": "def kv_cache_bytes(*a, **k):\n    raise KeyError(repr((a, k)))",
    "KVCache": "class KVCache:\n    def __init__(self, *a):\n        assert False, a",
    "cached_attention": "def cached_attention(q, k, v):\n    raise RuntimeError(f'{q.ravel()} {k.shape}')",
}


def test_no_held_out_input_is_told(course: Course) -> None:
    change(course, "carl", **_fields(graded_class.result("carl", graded_class.hand_in(LEAKY))))
    feedback_page_files.write(course, UNIT)
    shown = {student: read(course, student).text for student in ("bob", "carl", "emil")}
    assert "ValueError (line 3 of the answer cell: raise ValueError(" in shown["carl"]
    for name, exercise in cases.load(UNIT).items():
        for case in (case for group in cases.draw(exercise, SEED).values() for case in group):
            for step in case.steps:
                values = [*step.get("args", ()), *dict(step.get("kwargs", {})).values()]
                told = {text for value in [tuple(values), *values] for text in reprs(value) if len(text) >= 5}
                for text in (text for text in told if any(c.isdigit() for c in text)):
                    for student, page in shown.items():
                        assert text not in page, f"{student} reads {text}, an input of {name}"


def _fields(result: results.Result) -> dict[str, object]:
    return {name: getattr(result, name) for name in ("marks", "facts", "answers", "unreadable")}


def test_the_same_bytes_again_and_no_file_touched(course: Course) -> None:
    feedback_page_files.write(course, UNIT)
    files = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in course.root.glob("feedback/*/*/*")}
    assert feedback_page_files.write(course, UNIT).changed == 0
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in course.root.glob("feedback/*/*/*")} == files
    assert {p.stat().st_mode & 0o777 for p in files} == {0o644}
    change(course, "bob", facts=["seen"])
    assert feedback_page_files.write(course, UNIT).changed == 1


def test_what_the_exchange_needs_lies_beside_the_page(course: Course) -> None:
    for student, name in (("anna", "timestamp.txt"), ("anna", "submission_secret.txt"), ("bob", "timestamp.txt")):
        (course.root / "submitted" / student / UNIT / name).write_text(f"{student} {name}")
    (course.root / "submitted" / "carl" / UNIT / "timestamp.txt").symlink_to("/etc/passwd")
    feedback_page_files.write(course, UNIT)
    assert {p.name for p in path(course, "anna").parent.iterdir()} == {
        f"{UNIT}.html", "timestamp.txt", "submission_secret.txt",
    }  # fmt: skip
    assert path(course, "bob").with_name("timestamp.txt").read_text() == "bob timestamp.txt"
    assert [p.name for p in path(course, "carl").parent.iterdir()] == [f"{UNIT}.html"]
    folder = course.root / "submitted" / "anna" / UNIT
    (folder / f"{UNIT}.ipynb").write_bytes(b"{}")
    (folder / "submission_secret.txt").write_text("of a newer hand-in")
    (course.root / "submitted" / "yan" / UNIT).mkdir(parents=True)
    notes = feedback_page_files.write(course, UNIT).notes
    assert path(course, "anna").with_name("submission_secret.txt").read_text() == "anna submission_secret.txt"
    assert "1 not graded yet, no page: yan" in notes[0] and "about the older file: anna" in notes[1]


def test_the_command_and_its_refusals(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["feedback", "--course", str(course.root)]
    assert main([*base, "--unit", "01", "--student", "bob"]) == 0
    assert [p.parent.parent.name for p in course.root.glob("feedback/*/*/*.html")] == ["bob"]
    assert main([*base, "--unit", "01", "--student", "zoe\x1b[2J"]) == 1
    assert "zoe?[2J has no graded hand-in" in capsys.readouterr().err
    shutil.rmtree(course.root / "results")
    assert main(base) == 1
    assert "5 not graded yet, no page" in capsys.readouterr().out
    shutil.rmtree(course.root / "submitted")
    with pytest.raises(CourseError, match="no hand-ins"):
        standing.chosen(course, [])


@pytest.mark.browser
def test_axe_finds_nothing_serious(course: Course) -> None:
    feedback_page_files.write(course, UNIT)
    found = [path(course, student) for student in ("anna", "bob", "dora", "emil")]
    assert graded_class.axe(found) == []


def test_tables_and_bars_need_something_to_show() -> None:
    with pytest.raises(ValueError, match="one count"):
        pages.bars("t", ["a"], [], "x", "y")
    assert pages.bars("t", ["a<b", "2"], [0, 0], "x", "y").count("<rect") == 2
    assert [pages.number(x) for x in (0.0, -0.0001, 2.5, 3.0, 1 / 3, 100.0)] == ["0", "0", "2.5", "3", "0.333", "100"]
    assert [pages.number(x) for x in (13.125, 14.625, 0.875, 2.0)] == ["13.125", "14.625", "0.875", "2"], "eighths"


def test_questions_are_written_ones() -> None:
    assert json.loads((graded_class.ROOT / "data" / "exercises.json").read_text()).get(QUESTION) is None
