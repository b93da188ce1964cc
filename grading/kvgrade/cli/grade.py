"""`python -m kvgrade grade`: grade a class and write the gradebook. Killed and started again, it goes on."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..course import Course
from ..texts import clean

MOST = 10  # students that are named in a line

if TYPE_CHECKING:
    from ..changes import Change
    from ..job import Job
    from ..merge import Merged
    from ..plan import Plan
    from ..pool import Fault
    from ..results import Result


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "grade",
        help="grade the hand-ins of a class and write the gradebook",
        description="Grade what has no result yet, then write all results into the gradebook. It may be ended at any "
        "time: the next run goes on. A hand-in, a case or a grader that changed is graded again.",
    )
    parser.add_argument("--course", type=Path, metavar="DIR", help="the class; default: this folder, else grading/")
    parser.add_argument("--unit", action="append", default=[], metavar="UNIT", help="name or number; may be repeated")
    parser.add_argument("--student", nargs="+", default=[], metavar="ID", help="only these students")
    parser.add_argument("--exercise", nargs="+", default=[], metavar="NAME", help="only these; others keep their marks")
    parser.add_argument("--jobs", type=int, metavar="N", help="hand-ins at a time; default: the number of cores")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="grade on the workers of a dask scheduler (tcp://…)")
    for name in ("ca-file", "cert", "key"):
        parser.add_argument(
            f"--tls-{name}", metavar="FILE", help="TLS for the scheduler, as dask's option of that name"
        )
    parser.add_argument("--shard", metavar="I/N", help="grade part I of N, and leave the gradebook as it is")
    parser.add_argument("--results-only", action="store_true", help="write result files, but no gradebook")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list what would change; writes at most result files, and those only where the unit was graded before",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="wall clock for one exercise; default 75")
    parser.add_argument("--case-seconds", type=float, metavar="S", help="wall clock for one case, in place of its own")
    parser.add_argument("--unsafe-no-sandbox", action="store_true", help="run answers with your own rights: not safe")
    parser.add_argument("--verbose", action="store_true", help="a line for every student, with what was noted")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    try:
        return _run(args)
    except KeyboardInterrupt:
        print("\nStopped. What is graded is kept: run the same command again to go on.", file=sys.stderr)
        return 130


def _run(args: argparse.Namespace) -> int:
    from .. import gradebook, jail, plan
    from ..locks import held

    course = Course.find(args.course)
    shard = plan.read_shard(args.shard) if args.shard else None
    for name, value in (("--jobs", args.jobs), ("--seconds", args.seconds), ("--case-seconds", args.case_seconds)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} {value} is not possible: it must be more than 0")
    options = _options(args, course)
    if options.isolated and not args.scheduler and (why := jail.unavailable()):
        raise RuntimeError(f"Answers can't be isolated here: {why}")
    units = plan.units(course, args.unit, args.student, args.exercise)
    lock = f".grade-{shard[0]}-of-{shard[1]}.lock" if shard else ".grade.lock"
    with ExitStack() as stack:
        if args.dry_run:
            course = stack.enter_context(gradebook.set_apart(course))
        stack.enter_context(
            held(course.locks / lock, "grades this part of the class" if shard else "grades this class")
        )
        plans = [plan.make(course, unit, options, args.student, args.exercise, shard, _tell) for unit in units]
        return _grade(args, course, plans, merging=not (shard or args.results_only))


def _options(args: argparse.Namespace, course: Course) -> Any:
    """The limits: those of the command, else of nbgrader_config.py, else the usual ones."""
    from ..job import Options

    own = course.settings.get("GradeInJail", {})
    seconds = args.seconds or float(own.get("seconds", Options.seconds))
    return Options(not args.unsafe_no_sandbox, seconds, args.case_seconds or own.get("case_seconds") or None)


def _grade(args: argparse.Namespace, course: Course, plans: list[Plan], merging: bool) -> int:
    from .. import results
    from ..progress import Progress

    began = time.monotonic()
    keys: dict[str, dict[str, str]] = {plan.unit: {} for plan in plans}
    todo: dict[str, tuple[Plan, str]] = {}
    for plan in plans:
        for student in plan.files:
            key = keys[plan.unit][student] = plan.job(student).key
            if results.load(course.results(plan.unit), key) is None:
                todo.setdefault(key, (plan, student))
    faults: dict[str, str] = {}
    ahead = threading.Thread(target=_import_ahead, daemon=True)
    if todo:
        if merging and not args.scheduler:
            from .. import pool  # noqa: F401 - two threads must not import what they share

            ahead.start()
        with Progress(len(todo), "graded") as progress, ExitStack() as stack:
            for job, outcome in _outcomes(args, stack, todo):
                progress.step()
                if isinstance(outcome, results.Result):
                    results.save(course.results(job.unit), outcome)
                else:
                    faults[job.key] = outcome.why
    if ahead.is_alive():
        ahead.join()  # else this thread could see modules that are half imported
    code = int(any(plan.left_out or plan.without for plan in plans))
    for plan in plans:
        found: dict[str, Result] = {}
        for student, key in keys[plan.unit].items():
            result = results.load(course.results(plan.unit), key)
            if result is not None:
                found[student] = result
            else:
                code = 1
                why = faults.get(key, "the file changed while it was graded; run this again")
                print(f"{clean(student)} of {plan.unit} could not be graded: {clean(why)}", file=sys.stderr)
        fresh = sum(key in todo for student, key in keys[plan.unit].items() if student in found)
        merged = _merge(args, course, plan, found) if merging else None
        _summary(args, plan, found, fresh, merged)
    print(f"{time.monotonic() - began:.1f} s")
    return code


def _import_ahead() -> None:
    """Import what the merger needs, which takes seconds, while other processes grade."""
    with suppress(Exception):  # the merger imports it again, and says what is wrong
        import nbgrader.converters  # noqa: F401


def _outcomes(
    args: argparse.Namespace, stack: ExitStack, todo: dict[str, tuple[Plan, str]]
) -> Iterator[tuple[Job, Result | Fault]]:
    jobs = (plan.job(student) for plan, student in todo.values())
    if args.scheduler:
        from .. import cluster

        security = cluster.security(args.tls_ca_file, args.tls_cert, args.tls_key)
        units = dict.fromkeys(plan.unit for plan, _ in todo.values())
        isolated = not args.unsafe_no_sandbox
        yield from stack.enter_context(cluster.Cluster(args.scheduler, units, isolated, security, _tell)).run(jobs)
    else:
        from ..pool import Pool

        size = min(args.jobs or len(os.sched_getaffinity(0)), len(todo))
        yield from stack.enter_context(Pool(size)).run(jobs)


def _merge(args: argparse.Namespace, course: Course, plan: Plan, found: dict[str, Result]) -> Merged | None:
    if not found:
        return None
    from ..merge import CHANGES, merge

    done = merge(course, plan.unit, found, only=bool(plan.exercises), dry_run=args.dry_run, say=_tell)
    verb = "would change" if args.dry_run else "changed"
    _list(f"{plan.unit}: {_many(len(done.changes), 'mark')} {verb}:", done.changes)
    if done.changes and not args.dry_run:
        print(f"  written to {course.results(plan.unit) / CHANGES}")
    who = len({change.student for change in done.again})
    _list(f"{plan.unit}: {who} handed in again, {_many(len(done.again), 'mark')} {verb}:", done.again)
    return done


def _list(title: str, changes: list[Change]) -> None:
    for change in changes:
        if change is changes[0]:
            print(title)
        mistakes = f"  ({change.diagnosis_before or '-'} → {change.diagnosis_after or '-'})"
        print(f"  {clean(change.student)}  {change.exercise}  {change.before:g} → {change.after:g}{mistakes}")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _summary(args: argparse.Namespace, plan: Plan, found: dict[str, Result], fresh: int, merged: Merged | None) -> None:
    if args.verbose:
        for student, result in found.items():
            print(f"  {clean(student)}: {result.points:g} points")
            for fact in [result.unreadable] * bool(result.unreadable) + result.facts:
                print(f"    {clean(fact)}")
    noted = [student for student, result in found.items() if result.facts]
    unreadable = [student for student, result in found.items() if result.unreadable]
    facts = sum(len(result.facts) for result in found.values())
    parts = [
        f"{fresh} graded",
        f"{len(found) - fresh} had a result",
        f"{len(unreadable)} unreadable",
        f"{_many(facts, 'fact')} noted",
    ]
    if found:
        most = max(sum(mark.possible for mark in result.marks.values()) for result in found.values())
        mean = sum(result.points for result in found.values()) / len(found)
        parts.append(f"mean {mean:.2f} automatic points, of {most:g}")
    if merged:
        verb = "would be written" if args.dry_run else "written"
        updated = f", {len(merged.updated)} with another time or late penalty" if merged.updated else ""
        as_before = len(merged.standing) - len(merged.updated)
        parts.append(f"gradebook: {len(merged.written)} {verb}{updated}, {as_before} as before")
    print(f"{plan.unit}: {', '.join(parts)}")
    failed = [student for student in plan.files if student not in found]
    for students, what in (
        (sorted([*plan.without, *failed]), "not graded"),
        (unreadable, "could not be read"),
        (noted, "noted in the files of"),
    ):
        if students:
            print(f"  {what}: {', '.join(map(clean, students[:MOST]))}{_more(students)}")
    if merged and not args.dry_run:
        _next(plan.unit, merged)


def _more(students: list[str]) -> str:
    return f" and {len(students) - MOST} more" if len(students) > MOST else ""


def _next(unit: str, merged: Merged) -> None:
    """What an instructor does next."""
    where = "`make instructor`, then Nbgrader → Formgrader → Manual Grading"
    if merged.waiting:
        print(f"  waiting for a person: {_many(merged.waiting, 'written answer')} ({where})")
    if merged.confirm:
        print(f"  to be looked at again, since the regrade changed something: {merged.confirm} by hand ({where})")
    print(f"  next: `python -m kvgrade feedback --unit {unit}`")


def _tell(text: str) -> None:
    print(clean(text), file=sys.stderr)
