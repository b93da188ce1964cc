"""`kvlab check FILE_OR_UNIT [--repair [-o OUT]]`: what a hand-in holds, what it lacks, and a clean copy of it."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from kvlab.cli import units
from kvlab.cli.errors import CommandError
from kvlab.cli.files import read_release, write_atomic
from kvlab.cli.workspace import default_folder
from kvlab.handin import answers
from kvlab.handin.repair import repaired
from kvlab.handin.report import Exercise, Released, Report, inspect


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("check", help="see what the grader will find in your notebook, before you hand it in")
    arguments(parser, "a notebook, under any name; or a unit (1, 01 or 01_kv_cache) of your folder")
    parser.set_defaults(execute=execute)


def arguments(parser: argparse.ArgumentParser, file: str = "a notebook, under any name") -> None:
    """The arguments of this command; `python -m kvgrade check` has the same."""
    parser.add_argument("file", type=Path, help=file)
    parser.add_argument("--repair", action="store_true", help="write a clean copy with the same answers beside it")
    parser.add_argument("-o", "--output", type=Path, help="where --repair writes (default: NAME.repaired.ipynb)")


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    released = {unit: json.loads(read_release(path)) for unit, path in units.released().items()}
    return check(named(options.file), released, options.repair, options.output)


def named(file: Path) -> Path:
    """The file that is meant: this one; when it isn't there, and its name is that of a unit, the unit's in your folder."""
    if file.exists() or len(file.parts) != 1:
        return file
    try:
        return default_folder() / f"{units.find(file.name)}.ipynb"
    except CommandError:
        return file


def check(file: Path, released: Released, repair: bool = False, output: Path | None = None) -> int:
    """Print what a file holds and write its clean copy. Returns 0 when it will be graded as its owner expects, else 1.

    Raises CommandError when there is no such file or the copy can't be written.
    """
    if not file.exists():
        raise CommandError(f"There is no file {file}. Name the notebook that you want to hand in.")
    if output is not None and not repair:
        raise CommandError("-o says where the clean copy goes: ask for one with --repair.")
    try:
        data = answers.read(file)
        report = inspect(data, released)
    except answers.Unreadable as error:
        data, report = b"", Report(unreadable=str(error))
    print("\n".join(_clean(line) for line in lines(report, file.name)))
    if repair:
        if report.unreadable:
            raise CommandError(f"{file.name} can't be repaired: no answer can be read in it.")
        print(_clean(_write(file, repaired(data, released[report.unit]), output)))
    return 0 if report.fine else 1


def lines(report: Report, name: str) -> list[str]:
    """A report as lines of text."""
    if report.unreadable:
        return [f"{name}: {report.unreadable}"]
    width = max((len(item.name) for item in report.exercises), default=0)
    out = [f"{name}: unit {report.unit}"]
    for item in report.exercises:
        out.append(f"  {item.name:<{width}}  {item.state}")
        out += [f"      {text}" for text in _sentences(item)]
    out += [f"Look at this: {text}." for text in report.trouble]
    out += [f"Good to know: {text}." for text in report.notes]
    asked = sum(bool(item.trouble) for item in report.exercises)
    if asked:
        out.append(f"{asked} of {len(report.exercises)} need a look (marked with !).")
    elif not report.exercises:
        out.append("Nothing in this unit is graded.")
    elif not any(item.state == "answered" for item in report.exercises):
        out.append("Nothing is answered in this file yet: is it the one that you want to hand in?")
    elif report.fine:
        out.append("It will be graded as it stands.")
    return out


def _sentences(item: Exercise) -> list[str]:
    return [f"! {text}." for text in item.trouble] + [f"- {text}." for text in item.notes]


def _write(file: Path, data: bytes, output: Path | None) -> str:
    target = output or file.with_name(f"{file.name.removesuffix('.ipynb')}.repaired.ipynb")
    if os.path.lexists(target):
        if os.path.samefile(target, file):
            raise CommandError("The clean copy can't take the place of its original. Choose another name with -o.")
        if target.read_bytes() != data:
            raise CommandError(f"{target} is there already. Move it away, or choose another name with -o.")
        return f"{target} holds the clean copy already."
    write_atomic(target, data)
    return f"The clean copy is {target}: the released notebook with your answers. Other cells of yours are not in it."


def _clean(line: str) -> str:
    """A line without signs that a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in line[:500])
