"""Prove the grader of a unit: its known answers against the check cells and against the cases, and what must hold.

A right answer passes the check and gets full marks. A wrong one fails the check, passes at least half of the groups
(two blunders per exercise may fail more), and gets its own diagnosis and no other's: the file says which, in a line
`# mistake: NAME`. An answer hard-coded to the check gets less than 30 %. The slowest right case has 20 times its time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cases, session, verdict, visible
from .units import ROOT, find_units, read_unit

MOST_BLUNDERS = 2
HARD_CODED_LIMIT = 0.3
TIME_MARGIN = 20
_MISTAKE = re.compile(r"^# mistake: (.+)$", re.M)


@dataclass(frozen=True)
class Row:
    """One known answer: what its check said, and its verdict."""

    exercise: str
    answer: str
    panel: str
    verdict: verdict.ExerciseVerdict
    expected: str
    slowest: float

    @property
    def groups(self) -> int:
        return sum(group.right for group in self.verdict.groups)


def run(unit: str, seed: int = 1, isolated: bool = True, root: Path = ROOT) -> list[Row]:
    """The rows of a unit. The answers to one exercise share a jail, a fresh process each."""
    exercises = cases.load(unit, root)
    authored = read_unit(find_units([unit], root)[0])
    rows = []
    with session.Session(isolated) as running:
        for exercise in exercises.values():
            drawn = cases.draw(exercise, seed)
            sources = known(exercise.name, root)
            right = next((text for name, text in sources.items() if name.startswith("right_")), None)
            if right is None:
                raise ValueError(f"grading/answers/{exercise.name}/ has no right_*.py: the proof begins with one")
            sources["hard_coded"] = visible.hard_coded(authored, exercise, right)
            for name, source in sources.items():
                began = running.times.cases
                answered = running.run(exercise, source, drawn)
                count = sum(len(group) for group in drawn.values())
                spent = (running.times.cases - began) / count
                mistake = _MISTAKE.search(source)
                rows.append(
                    Row(
                        exercise.name,
                        name,
                        visible.check(authored, exercise.name, source),
                        verdict.judge(exercise, drawn, answered.groups),
                        mistake[1].strip() if mistake else "",
                        spent,
                    )
                )
    return rows


def known(exercise: str, root: Path = ROOT) -> dict[str, str]:
    """The known answers of an exercise, right ones first."""
    paths = sorted((root / "grading" / "answers" / exercise).glob("*.py"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def problems(rows: Sequence[Row], exercises: dict[str, cases.Exercise]) -> list[str]:
    """One sentence for everything that does not hold."""
    found = []
    for name, exercise in exercises.items():
        mine = [row for row in rows if row.exercise == name]
        right = [row for row in mine if row.answer.startswith("right_")]
        wrong = [row for row in mine if row.answer.startswith("wrong_")]
        if len(right) < 3 or len(wrong) < 5:
            found.append(f"{name}: {len(right)} right and {len(wrong)} wrong answers; 3 and 5 are needed")
        for row in right:
            if row.panel or row.verdict.points < row.verdict.possible:
                why = row.panel or f"{row.verdict.points:g} of {row.verdict.possible:g}, {row.verdict.diagnoses}"
                found.append(f"{name}/{row.answer} is right, but: {why}")
            if row.slowest * TIME_MARGIN > exercise.seconds:
                found.append(f"{name}/{row.answer}: a case takes {row.slowest:.2f} s of {exercise.seconds:g} s")
        for row in wrong:
            if not row.panel:
                found.append(f"{name}/{row.answer} passes the check cell")
            if row.verdict.points >= row.verdict.possible:
                found.append(f"{name}/{row.answer} gets full points: no case notices it")
            elif row.verdict.diagnoses != [row.expected]:
                found.append(f"{name}/{row.answer}: diagnosed as {row.verdict.diagnoses}, not {row.expected!r}")
        blunders = [row.answer for row in wrong if 2 * row.groups < len(row.verdict.groups)]
        if len(blunders) > MOST_BLUNDERS:
            found.append(f"{name}: {', '.join(blunders)} fail most groups; {MOST_BLUNDERS} may")
        for row in mine:
            if row.answer == "hard_coded":
                if row.panel and not _sees_more_than_results(exercise):
                    found.append(f"{name}: the hard-coded answer does not even pass the check: {row.panel}")
                if row.verdict.points >= HARD_CODED_LIMIT * row.verdict.possible:
                    found.append(f"{name}: an answer hard-coded to the check gets {row.verdict.points:g} points")
    return found


def _sees_more_than_results(exercise: cases.Exercise) -> bool:
    """Whether its check looks at what no recorded result brings about: shared memory, or what a model was called with."""
    drawn = cases.draw(exercise, 1).values()
    return isinstance(exercise.names[exercise.name], type) or any(case.world for group in drawn for case in group)


def table(rows: Sequence[Row]) -> str:
    """The matrix answer × diagnosis, and what each answer gets."""
    lines = []
    for name in dict.fromkeys(row.exercise for row in rows):
        mine = [row for row in rows if row.exercise == name]
        found = list(dict.fromkeys(d for row in mine if row.answer.startswith("wrong_") for d in row.verdict.diagnoses))
        lines += [f"{name}: diagnoses", *(f"  {number:2} {mistake}" for number, mistake in enumerate(found, 1))]
        width = max(len(row.answer) for row in mine)
        head = " ".join(f"{number:2}" for number in range(1, len(found) + 1))
        lines.append(f"  {'answer':{width}}  check  groups  points  {head}")
        for row in mine:
            marks = " ".join(" x" if mistake in row.verdict.diagnoses else " ." for mistake in found)
            groups = f"{row.groups}/{len(row.verdict.groups)}"
            check = "wrong" if row.panel else "right"
            lines.append(f"  {row.answer:{width}}  {check}  {groups:>6}  {row.verdict.points:6.2f}  {marks}")
        lines.append("")
    return "\n".join(lines)


def main(units: Sequence[str]) -> int:
    """`python -m kvgrade prove`: print the matrix of each unit, exit 1 when something does not hold."""
    wrong = 0
    for path in find_units(list(units)):
        if not read_unit(path).graded:
            print(f"{path.stem}: no exercises, nothing to prove.\n")
            continue
        began = time.perf_counter()
        rows = run(path.stem)
        found = problems(rows, cases.load(path.stem))
        print(f"{path.stem}\n\n{table(rows)}")
        print(f"{len(rows)} answers in {time.perf_counter() - began:.1f} s")
        print("\n".join(found) if found else "Everything holds.")
        wrong += len(found)
    return 1 if wrong else 0
