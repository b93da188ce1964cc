"""A report on a class for its instructor: how the exercises went, what was hard, what was seen, what is still to do.

Facts are told as facts. Nothing here compares the answers of students with each other.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import pages, report_facts, results, standing
from .course import Course
from .pages import code, number, table, text
from .results import Mark, Result
from .standing import Place, Standing
from .verdict import NOT_ATTEMPTED

MOST_BARS = 14
MOST_ROWS = 200  # of the changes after a regrade
MOST_DIAGNOSES = 8
MOST_NAMES = 12  # told in a line
_FORMGRADER = "<code>make instructor</code>, then Nbgrader → Formgrader → Manual Grading"


@dataclass(frozen=True)
class Unit:
    """All that a report needs of a unit. `results` and `stands` by student; `changes` as the file's rows."""

    name: str
    title: str
    places: Sequence[Place]
    results: Mapping[str, Result]
    stands: Mapping[str, Standing]
    handed_in: Sequence[str]
    changes: Sequence[Sequence[str]]

    @property
    def readable(self) -> list[str]:
        """Students whose file could be read and stands in the gradebook."""
        return [s for s, result in self.results.items() if not result.unreadable and s in self.stands]


def collect(course: Course, unit: str) -> Unit:
    """What is known of a unit. Raises CourseError where it is not released, or there is no gradebook."""
    return Unit(
        unit,
        standing.heading(unit),
        standing.places(course, unit),
        results.merged(course.results(unit)),
        standing.standings(course, unit),
        list(course.submitted(unit)),
        _changes(course.results(unit) / "changes.csv"),
    )


def page(units: Sequence[Unit]) -> bytes:
    """The report on some units. Raises ValueError for none."""
    if not units:
        raise ValueError("a report needs at least one unit")
    names = "".join(f'<li><a href="#unit-{text(unit.name)}">{text(unit.title)}</a></li>' for unit in units)
    parts = ["<h1>How the class did</h1>"]
    if len(units) > 1:
        parts.append(f"<ul>{names}</ul>")
    parts.append(
        '<p class="soft">Students stand here by their ids. What was seen is told as it was seen; it changed no mark, and '
        "it has harmless causes as well as others.</p>"
    )
    return pages.page("How the class did", "\n".join([*parts, *map(_unit, units)]))


def _unit(unit: Unit) -> str:
    parts = [f'<h2 id="unit-{text(unit.name)}">{text(unit.title)}</h2>', _numbers(unit)]
    if unit.readable:
        parts.append(_overview(unit))
        parts += [_exercise(unit, place) for place in unit.places if not place.written]
        parts += [_question(unit, place) for place in unit.places if place.written]
    parts += [
        report_facts.section(unit.results, [place.name for place in unit.places]),
        report_facts.times(unit.results),
        _regrade(unit),
    ]
    return "\n".join(part for part in parts if part)


def _numbers(unit: Unit) -> str:
    unreadable = [student for student, result in unit.results.items() if result.unreadable]
    waiting = [student for student in unit.handed_in if student not in unit.results]
    late = [student for student, stands in unit.stands.items() if stands.late > 0]
    open_ones = [student for student, stands in unit.stands.items() if set(stands.unmarked) - set(stands.ungraded)]
    ungraded = [student for student, stands in unit.stands.items() if stands.ungraded]
    again = [student for student, stands in unit.stands.items() if stands.to_confirm]
    lines = [
        f"{len({*unit.handed_in, *unit.results})} hand-ins, {len(unit.readable)} of them read and graded.",
        _who(unreadable, "could not be read"),
        _who(waiting, "not graded yet: run <code>python -m kvgrade grade</code>"),
        _who(ungraded, "have an exercise that was not graded yet: run <code>python -m kvgrade grade</code>"),
        _who(late, "came late"),
        _who(open_ones, f"have a written answer that is not marked ({_FORMGRADER})"),
        _who(again, f"have a mark by hand to be confirmed after a regrade ({_FORMGRADER})"),
    ]
    totals = [unit.stands[s].total for s in unit.readable if not unit.stands[s].unmarked]
    if totals:
        most = number(sum(place.possible for place in unit.places))
        lines.append(
            f"Complete totals of those that could be read: {len(totals)}, mean {number(round(statistics.fmean(totals), 2))}, "
            f"median {number(statistics.median(totals))} of {most} points."
        )
    return "<ul>" + "".join(f"<li>{line}</li>" for line in lines if line) + "</ul>"


def _who(students: Sequence[str], what: str) -> str:
    """How many, and who; a long list opens on a click. `what` is HTML."""
    names = ", ".join(map(code, students))
    if len(students) > MOST_NAMES:
        short = re.split(r" \(|:", what)[0]
        return f"{len(students)} {what}.<details><summary>Who: {short}</summary>{names}</details>"
    return f"{len(students)} {what}: {names}." if students else ""


def _overview(unit: Unit) -> str:
    rows = []
    for place in unit.places:
        points = _points(unit, place)
        full = sum(p >= place.possible - 1e-9 for p in points)
        mean = number(round(statistics.fmean(points), 2)) if points else "–"
        rows.append([code(place.name), str(len(points)), mean, number(place.possible), _share(full, len(points))])
    header = ["exercise", "marked", "mean", "out of", "full marks"]
    return table(f"{unit.title}: all exercises, of hand-ins that could be read", header, rows, (1, 2, 3, 4))


def _points(unit: Unit, place: Place) -> list[float]:
    """The points of one exercise or question that stand in the gradebook, of readable hand-ins that are marked."""
    scores = (unit.stands[student].scores.get(place.name) for student in unit.readable)
    return [s.counts for s in scores if s is not None and (s.auto is not None or s.by_hand is not None)]


def _exercise(unit: Unit, place: Place) -> str:
    marks = {s: unit.results[s].marks[place.name] for s in unit.readable if place.name in unit.results[s].marks}
    return (
        f"<h3>{code(place.name)}</h3>" + _distribution(unit, place) + _diagnoses(place, marks) + _groups(place, marks)
    )


def _question(unit: Unit, place: Place) -> str:
    scores = [(s, unit.stands[s].scores.get(place.name)) for s in unit.readable]
    todo = [s for s, score in scores if score is not None and score.auto is None and score.by_hand is None]
    told = f"<div>{_who(todo, 'not marked yet')}</div>" if todo else "<p>All answers are marked.</p>"
    return f"<h3>{code(place.name)} (written)</h3>{told}" + _distribution(unit, place)


def _distribution(unit: Unit, place: Place) -> str:
    points = _points(unit, place)
    if not points:
        return ""
    labels, counts = _bins(points, place.possible)
    chart = pages.bars(f"Points for {place.name}: how many hand-ins", labels, counts, "points", "hand-ins")
    rows = [
        [label, str(count), _share(count, len(points))] for label, count in zip(labels, counts, strict=True) if count
    ]
    beside = table(f"Points for {place.name}", ["points", "hand-ins", "share"], rows, (1, 2))
    return f'<div class="beside">{chart}{beside}</div>'


def _bins(points: Sequence[float], possible: float) -> tuple[list[str], list[int]]:
    """Each value that occurs, 0 and the most; where these are too many, ten steps of equal width."""
    values = sorted({0.0, possible, *(round(p, 6) for p in points)})
    if len(values) <= MOST_BARS:
        found = Counter(round(p, 6) for p in points)
        return [number(value) for value in values], [found[value] for value in values]
    low, high = values[0], values[-1]
    width = (high - low) / 10
    indices = Counter(min(9, int((p - low) / width)) for p in points)
    return [f"{number(low + i * width)}–{number(low + (i + 1) * width)}" for i in range(10)], [
        indices[i] for i in range(10)
    ]


def _diagnoses(place: Place, marks: Mapping[str, Mark]) -> str:
    """The commonest mistakes: in how many hand-ins each was seen, in whatever number of groups."""
    found: Counter[tuple[str, str]] = Counter()
    for mark in marks.values():
        found.update({_mistake(mark, i) for i, group in enumerate(mark.groups) if not group.right})
    rows = [
        [text(name), text(why), str(count), _share(count, len(marks))]
        for (name, why), count in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MOST_DIAGNOSES]
    ]
    if not rows:
        return "<p>Nobody had anything wrong here.</p>"
    header = ["mistake", "what its owner reads", "hand-ins", "share"]
    return table(f"Commonest diagnoses of {place.name}", header, rows, (2, 3))


def _mistake(mark: Mark, place: int) -> tuple[str, str]:
    """(name, sentence) of what is wrong in a group."""
    group = mark.groups[place]
    if group.mistake == NOT_ATTEMPTED:
        untouched = mark.note.startswith("no answer")
        return ("not attempted" if untouched else "no case could be run"), ("" if untouched else mark.note)
    if not group.mistake:
        return "none of the known mistakes", "The rule that each kind of case tests; which kinds, says the next table."
    return group.mistake, group.why


def _groups(place: Place, marks: Mapping[str, Mark]) -> str:
    tried = [mark for mark in marks.values() if not all(group.mistake == NOT_ATTEMPTED for group in mark.groups)]
    wrong = Counter(group.name for mark in tried for group in mark.groups if not group.right)
    rows = [
        [text(name), str(count), _share(count, len(tried))]
        for name, count in sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
    ]
    caption = f"Kinds of case of {place.name} most often wrong, of {len(tried)} that were attempted"
    return table(caption, ["kind of case", "wrong", "share"], rows, (1, 2)) if rows else ""


def _regrade(unit: Unit) -> str:
    if len(unit.changes) < 2:
        return ""
    header, *rows = [[text(cell) for cell in row] for row in unit.changes]
    more = f"<p>{len(rows) - MOST_ROWS} more stand in <code>changes.csv</code>.</p>" if len(rows) > MOST_ROWS else ""
    caption = f"{unit.title}: marks that the last regrade changed"
    return f"<h3>The last regrade</h3>{table(caption, header, rows[:MOST_ROWS])}{more}"


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.0f} %" if of else "–"


def _changes(path: Path) -> list[list[str]]:
    """The rows of changes.csv, all as long as its header; none where there is no such file."""
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (FileNotFoundError, UnicodeDecodeError, csv.Error):
        return []
    return [[*row, *[""] * len(rows[0])][: len(rows[0])] for row in rows if row]
