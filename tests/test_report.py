"""`kvgrade report`: counts are right, facts stay facts, the page needs nothing but itself."""

import dataclasses
import re

import pytest

import graded_class
from graded_class import NAMES, POINTS, UNIT
from kvgrade import report, report_facts, results
from kvgrade.__main__ import main
from kvgrade.course import Course
from test_feedback_pages import offline


def copies(course: Course, n: int, **fields: object) -> None:
    """bob's result and row under other names, so that there is something to count."""
    unit = report.collect(course, UNIT)
    found = {f"bob{i}": dataclasses.replace(unit.results["bob"], key=f"{i:064}", **fields) for i in range(n)}
    graded_class.stands(course, {**results.merged(course.results(UNIT)), **found})


def test_the_page_counts_hand_ins_marks_and_what_is_to_do(course: Course) -> None:
    page = offline(report.page([report.collect(course, UNIT)])).text
    assert "5 hand-ins, 4 of them read and graded." in page and "1 could not be read: dora." in page
    assert "1 came late: emil." in page and "1 have a written answer that is not marked" in page and "bob" in page
    assert "Complete totals of those that could be read: 3, mean 6.17, median 3.5 of 15 points." in page
    assert re.search(r"KVCache 4 2\.75 4 50 %", page), "mean of 4.5, 2.5, 0 and 4; two have all points"
    assert "unscaled the scores are not divided by sqrt(d) 1 25 %" in page and "not attempted 2 50 %" in page
    assert "Kinds of case of KVCache most often wrong, of 3 that were attempted" in page
    assert "several layers 1 33 %" in page and "Nothing out of the ordinary." in page
    assert "Seconds per hand-in that could be read: median" in page
    assert not any(last in page for _, last, _ in NAMES.values() if len(last) > 3), "ids, no names"


def test_bars_and_table_show_the_same_counts(course: Course) -> None:
    html = report.page([report.collect(course, UNIT)]).decode()
    charts = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(charts) == len(POINTS)
    assert all(">points</text>" in chart and ">hand-ins</text>" in chart and "aria-label" in chart for chart in charts)
    heights = [float(h) for h in re.findall(r'class="bar"[^>]* height="([\d.]+)"', charts[0])]
    assert heights[0] == 2 * heights[1] == 2 * heights[2] > 0, "0 points twice, 1.25 and 2 once"


def test_many_values_share_bins() -> None:
    labels, counts = report._bins([i / 10 for i in range(41)], 4.0)
    assert len(labels) == 10 and sum(counts) == 41 and labels[0] == "0–0.4" and counts[-1] == 5
    labels, counts = report._bins([1.0, 1.0, 2.0], 2.0)
    assert (labels, counts) == (["0", "1", "2"], [0, 2, 1])


def test_facts_and_repairs_are_told_by_student(course: Course) -> None:
    facts = [
        "KVCache: 2 answer cells were found; the last edited one counts",
        "KVCache: no answer within 10 s",
        "the locked cell check-KVCache was changed",
        "<b>x</b>",
        "<b>x</b>",
    ]
    copies(course, 3, facts=facts)
    page = offline(report.page([report.collect(course, UNIT)])).text
    assert "12 facts on 3 hand-ins" in page and "bob1 KVCache no answer within 10 s" in page
    assert "several answer cells of one exercise; one was chosen 3" in page and "<b>x</b>" in page
    for word in ("cheat", "plagiar", "same answer", "identical", "suspicious", "copied from"):
        assert word not in page.lower()


def test_times_leave_out_what_was_not_run(course: Course) -> None:
    found = results.merged(course.results(UNIT))
    assert report_facts.seconds(found["dora"]) is None and report_facts.seconds(found["anna"]) is not None
    assert report_facts.seconds(dataclasses.replace(found["anna"], measured={"a": 1.0, "b": 2.0})) == 3.0
    assert report_facts.times({}) == ""


def test_the_last_regrade_is_shown_where_there_was_one(course: Course) -> None:
    path = course.results(UNIT) / "changes.csv"
    path.write_text("student,exercise,before,after\nbob,KVCache,2,<b>2.5\nshort\n", encoding="utf-8")
    page = offline(report.page([report.collect(course, UNIT)])).text
    assert "The last regrade" in page and "bob KVCache 2 <b>2.5" in page
    path.write_text("student,exercise,before,after\n", encoding="utf-8")
    assert "The last regrade" not in offline(report.page([report.collect(course, UNIT)])).text


def test_a_class_before_its_first_merge_has_a_page(course: Course) -> None:
    (course.results(UNIT) / results.MERGED).unlink()
    page = offline(report.page([report.collect(course, UNIT)])).text
    assert "5 hand-ins, 0 of them read and graded" in page and "5 not graded yet" in page


def test_a_long_list_of_students_is_folded(course: Course) -> None:
    unit = report.collect(course, UNIT)
    many = dataclasses.replace(unit, handed_in=[f"s{i:02}" for i in range(20)])
    html = report.page([many])
    offline(html)
    assert b"20 not graded yet: run <code>python -m kvgrade grade</code>.<details><summary>Who: not graded yet<" in html
    assert b"<code>s19</code></details>" in html


def test_the_command_writes_the_same_page_again(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["report", "--course", str(course.root)]
    assert main(base) == 0
    first = (course.root / "report.html").read_bytes()
    assert main([*base, "--to", str(course.root / "new" / "r.html"), "--unit", "01"]) == 0
    assert (course.root / "new" / "r.html").read_bytes() == first
    assert main([*base, "--unit", "02"]) == 1 and "not released here" in capsys.readouterr().err
    with pytest.raises(ValueError, match="at least one unit"):
        report.page([])


@pytest.mark.browser
def test_axe_finds_nothing_serious(course: Course) -> None:
    copies(course, 3, facts=["KVCache: no answer within 10 s"])
    assert main(["report", "--course", str(course.root)]) == 0
    assert graded_class.axe([course.root / "report.html"]) == []
