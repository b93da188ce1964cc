"""Seconds per honest hand-in, `kvgrade grade` beside plain `nbgrader autograde` of the same class, interleaved.

    python benchmarks/classes.py [--students 12] [--rounds 3]      # the comparison
    python benchmarks/classes.py --whole 500 [--jobs 2]            # one large class, from hand-ins to gradebook

Plain nbgrader grades a notebook without demonstrations, with asserts and hidden tests in its check cells (the course of
tests/hostile/conventional.py). Both grade the same answers to unit 01, once in numpy alone, once with torch in every
answer. Each time is that of a whole command, its own start included, in a fresh copy of the course.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from arguments import count

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grading"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hostile import conventional, tricks
from hostile.course import Course
from hostile.model import EXERCISES, MAIN, UNIT, Material, dump, filled, place
from kvgrade.units import ROOT


def hand_ins(material: Material, students: int, with_torch: bool) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Honest hand-ins in the styles of the known right answers; no two files are equal, so none is graded once for two."""
    styles = {name: sorted((ROOT / "grading" / "answers" / name).glob("right_*.py")) for name in EXERCISES}
    for number in range(students):
        name = f"student-{number:03}"
        answers = {}
        for place_, exercise in enumerate(EXERCISES):
            choices = styles[exercise]
            text = choices[(number + place_) % len(choices)].read_text(encoding="utf-8")
            answers[exercise] = f"{'import torch' if with_torch else ''}\n{text}\n# by {name}\n"
        yield name, {MAIN: dump(filled(material, answers))}


def ours(folder: Path, students: int, with_torch: bool) -> Path:
    """Our course with a class that has handed in."""
    course = Course(folder)
    course.build()
    for name, files in hand_ins(tricks.material(ROOT), students, with_torch):
        place(files, course.submitted(name))
    return folder


def plain(folder: Path, students: int, with_torch: bool) -> Path:
    """The conventional course with the same class."""
    course = conventional.Course(folder, ROOT, with_torch=with_torch)
    course.build()
    material = course.material(tricks.material(ROOT))
    for name, files in hand_ins(material, students, with_torch):
        place(files, folder / "submitted" / name / UNIT)
    return folder


def seconds(template: Path, run: Callable[[Path], subprocess.CompletedProcess[str]]) -> float:
    """Wall clock of a command in a fresh copy of a course."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "course")
        shutil.copytree(template, folder)
        began = time.perf_counter()
        done = run(folder)
        took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{done.args}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return took


def autograde(folder: Path) -> subprocess.CompletedProcess[str]:
    return conventional.Course(folder, ROOT).nbgrader("autograde", UNIT)


def grade(*options: str) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        return Course(folder).kvgrade("grade", "--unit", UNIT, *options)

    return run


def compare(students: int, rounds: int) -> None:
    print("| class | way | seconds per hand-in, median (range) | plain nbgrader / this, median (range) |")
    print("|---|---|---|---|")
    for kind, with_torch in (("numpy", False), ("torch", True)):
        with tempfile.TemporaryDirectory() as scratch:
            theirs = plain(Path(scratch, "plain"), students, with_torch)
            mine = ours(Path(scratch, "ours"), students, with_torch)
            ways: dict[str, tuple[Path, Callable[[Path], subprocess.CompletedProcess[str]]]] = {
                "plain nbgrader autograde": (theirs, autograde),
                "grading alone, one job": (mine, grade("--results-only", "--jobs", "1")),
                "grading alone, two jobs": (mine, grade("--results-only", "--jobs", "2")),
                "with the gradebook, one job": (mine, grade("--jobs", "1")),
                "with the gradebook, two jobs": (mine, grade("--jobs", "2")),
            }
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, (template, run) in ways.items():
                    taken[name].append(seconds(template, run) / students)
        reference = taken["plain nbgrader autograde"]
        for name, values in taken.items():
            ratios = [a / b for a, b in zip(reference, values, strict=True)]
            print(f"| {kind} | {name} | {_spread(values)} | {_spread(ratios)} |", flush=True)


def whole(students: int, jobs: int) -> None:
    """One large class in numpy: results first, then the merge alone."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = ours(Path(scratch, "ours"), students, with_torch=False)
        for name, options in (
            (f"grading {students} with {jobs} jobs", ("--results-only", "--jobs", str(jobs))),
            (f"merging {students} results", ()),
        ):
            began = time.perf_counter()
            done = grade(*options)(folder)
            if done.returncode:
                raise RuntimeError(done.stderr[-3000:])
            print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=count, default=12)
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--whole", type=count, help="grade one class of this size instead")
    parser.add_argument("--jobs", type=count, default=2, help="for --whole")
    args = parser.parse_args()
    if args.whole:
        whole(args.whole, args.jobs)
    else:
        compare(args.students, args.rounds)


if __name__ == "__main__":
    main()
