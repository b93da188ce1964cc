"""Turn an exception in the learner's code into a panel that names the learner's own line."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from kvlab.check.panel import Panel, State

Rows = list[tuple[str, str]]

# Code that is not the learner's: this package, the standard library, installed packages.
_OTHERS = tuple({*sysconfig.get_paths().values(), sys.prefix, str(Path(__file__).parents[1])})


def panel(name: str, error: BaseException, check_file: str) -> Panel:
    """The panel for an exception that ended a check. `check_file` is the file name of the check cell's code."""
    if is_stub(error):
        return Panel(name, State.NOT_ATTEMPTED, [("", "Write your answer in its cell, run that cell, then this one.")])
    line = learner_line(error.__traceback__, check_file)
    if isinstance(error, NameError) and line is None:
        what = f"{getattr(error, 'name', None) or 'A name'} is not defined here."
        todo = "Run the answer cell first (and the cells above it, after a restart). If it shows an error, start there."
        return Panel(name, State.NOT_ATTEMPTED, [("", f"{what} {todo}")])
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if line is None:
        rows = [("the check could not use your result", told), *where(error, check_file)]
        return Panel(name, State.WRONG, [*rows, ("likely mistake", "the result is not what the docstring asks for")])
    rows = [("your code stopped with", told), *where(error, check_file)]
    if isinstance(error, NameError):
        rows.append(("likely mistake", "the answer leans on another cell; all that it needs goes into its own cell"))
    return Panel(name, State.WRONG, rows)


def is_stub(error: BaseException) -> bool:
    """Whether this is the stub's `raise NotImplementedError`, and not torch saying that it lacks an operation."""
    if not isinstance(error, NotImplementedError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return not frames or not frames[-1].line or "NotImplementedError" in frames[-1].line


def where(error: BaseException, check_file: str) -> Rows:
    """A row with the line that the error came from: the learner's, else the check cell's. Empty if neither is known."""
    line = learner_line(error.__traceback__, check_file)
    if line:
        return [("where", f"line {line.lineno} of your cell, in {line.name}: {line.line}")]
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == check_file]
    return [("where", f"line {own[-1].lineno} of the check: {own[-1].line}")] if own else []


def learner_line(trace: TracebackType | None, check_file: str) -> traceback.FrameSummary | None:
    """The innermost line of the learner's code: of the answer cell (known by its first line), else of another cell."""
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename != check_file]
    for frame in reversed(frames):
        if re.match(r"# exercise: ", linecache.getline(frame.filename, 1)):
            return frame
    for frame in reversed(frames):
        if not frame.filename.startswith(_OTHERS) and not frame.filename.startswith("<frozen"):
            return frame
    return None
