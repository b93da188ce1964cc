"""Seconds per honest hand-in of a unit, and the share of the jail, of imports, and of the answers themselves.

    python benchmarks/grading.py [--unit 01_kv_cache] [--rounds 10]

Both ways of starting are measured: numpy alone (when no answer names torch), and torch imported ahead.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from arguments import count

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grading"))

from kvgrade import cases, grade, prove


def right_answers(unit: str) -> dict[str, str]:
    """The first right answer of each exercise."""
    chosen = {}
    for name in cases.load(unit):
        sources = prove.known(name)
        chosen[name] = next(text for file, text in sources.items() if file.startswith("right_"))
    return chosen


def measure(unit: str, answers: dict[str, str], rounds: int, isolated: bool) -> list[grade.Report]:
    """Reports of equal hand-ins, after one that warms the disk cache."""
    reports = [grade.grade(unit, answers, seed=1, isolated=isolated) for _ in range(rounds + 1)]
    if any(report.points != reports[0].points for report in reports):
        raise RuntimeError("equal hand-ins got different marks")
    return reports[1:]


def row(label: str, reports: Sequence[grade.Report]) -> str:
    """Median and range of the whole, and medians of its parts."""

    def median(part: Callable[[grade.Report], float]) -> float:
        return statistics.median(part(report) for report in reports)

    total = [report.seconds for report in reports]
    whole = statistics.median(total)
    start, cells, answers = (median(lambda r, n=n: getattr(r.times, n)) for n in ("start", "cells", "cases"))
    rest = whole - start - cells - answers
    return (
        f"| {label} | {whole:.2f} ({min(total):.2f}-{max(total):.2f}) | {start:.2f} ({100 * start / whole:.0f} %) "
        f"| {cells:.2f} | {answers:.2f} | {rest:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unit", default="01_kv_cache")
    parser.add_argument("--rounds", type=count, default=10)
    args = parser.parse_args()
    plain = right_answers(args.unit)
    with_torch = {name: f"{text}\n# torch\n" for name, text in plain.items()}
    print("| way | seconds per hand-in, median (range) | start: jail and imports | cells | cases | grader |")
    print("|---|---|---|---|---|---|")
    print(row("jail, numpy", measure(args.unit, plain, args.rounds, True)))
    print(row("no jail, numpy", measure(args.unit, plain, args.rounds, False)))
    print(row("jail, torch", measure(args.unit, with_torch, args.rounds, True)))
    print(row("no jail, torch", measure(args.unit, with_torch, args.rounds, False)))


if __name__ == "__main__":
    main()
