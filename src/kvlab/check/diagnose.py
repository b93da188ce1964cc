"""Turn an exception in the learner's code into a panel that names the learner's own line."""

from __future__ import annotations

import ast
import builtins
import difflib
import linecache
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from kvlab import next_step, session
from kvlab.check import source
from kvlab.check.panel import Panel, State
from kvlab.handin.names import GIVEN, look

Rows = list[tuple[str, str]]

# Code that is not the learner's: this package, the standard library, installed packages.
_OTHERS = tuple({*sysconfig.get_paths().values(), sys.prefix, str(Path(__file__).parents[1])})


def panel(name: str, error: BaseException, check_file: str) -> Panel:
    """The panel for an exception that ended a check. `check_file` is the file name of the check cell's code."""
    line = learner_line(error.__traceback__, check_file)
    if is_stub(error):
        if line is not None and _begun(line):
            return Panel(name, State.WRONG, [("", f"`{line.name}` is still open (line {line.lineno} of your cell)")])
        return Panel(name, State.NOT_ATTEMPTED, [("", "Write your answer in its cell, run that cell, then this one.")])
    if lacks_a_name(error) and line is None:
        what = f"{getattr(error, 'name', None) or 'A name'} is not defined here."
        todo = "Run the answer cell first (and the cells above it, after a restart). If it shows an error, start there."
        return Panel(name, State.NOT_ATTEMPTED, [("", f"{what} {todo}")])
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    first = "the check could not use your result" if line is None else "your code stopped with"
    rows = [(first, told), *where(error, check_file), *ran(error.__traceback__, check_file)]
    of_the_task = not (lacks_a_name(error) or isinstance(error, ImportError) or next_step.is_out_of_memory(error))
    if of_the_task and (rule := _rule(error.__traceback__, check_file)):
        rows.append(("the rule", rule))
    if mistake := _mistake(error, line is not None):
        rows.append(("likely mistake", mistake))
    return Panel(name, State.WRONG, rows)


def _rule(trace: TracebackType | None, check_file: str) -> str:
    line = source.line_number(trace, check_file)
    return source.rule(check_file, line) if line else ""


def _mistake(error: BaseException, in_answer: bool) -> str:
    """What the error itself gives away, "" when it is nothing. `in_answer`: it was raised in the learner's code."""
    if isinstance(error, TypeError) and (hidden := _hidden_method(error.__traceback__)):
        return f"an attribute hides your method `{hidden}`: give the attribute another name"
    if isinstance(error, UnboundLocalError) and in_answer:
        found = re.search(r"'(\w+)'", str(error))
        name = f"`{found[1]}`" if found else "a variable"
        todo = "give it a first one before this line (or the loop, or branch, that sets it never ran)"
        return f"{name} has no value yet: {todo}"
    if lacks_a_name(error) and in_answer:
        return _missing_name(error)
    if next_step.is_out_of_memory(error):
        return next_step.MEMORY.rstrip(".")
    return "" if in_answer else "the result is not what the docstring asks for"


def _missing_name(error: BaseException) -> str:
    """Why the answer lacks a name: Python spells it otherwise, a slip, another cell, or nobody brings it."""
    name = getattr(error, "name", None) or ""
    if name in next_step.CONSTANTS:
        return f"Python writes `{next_step.CONSTANTS[name]}`"
    near = difflib.get_close_matches(name, _names_near(error.__traceback__), 1, cutoff=0.8)
    near = near or difflib.get_close_matches(name, [*GIVEN, *dir(builtins)], 1, cutoff=0.85)  # `helper` is not `help`
    if near and name not in next_step.MODULES:
        return f"a typo, did you mean `{near[0]}`?"
    ran = session.cells()
    if name in next_step.given_elsewhere(ran, session.notebook(ran)):
        return "the answer leans on another cell; all that it needs goes into its own cell"
    return f"`{name}` is neither defined nor imported in this cell"


def _names_near(trace: TracebackType | None) -> list[str]:
    """The names that a line can use where the error was raised: its variables and those of its cell."""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    if not frames:
        return []
    file = frames[-1].f_code.co_filename
    inside = [frame for frame in frames if frame.f_code.co_filename == file]
    local = [name for frame in reversed(inside) for name in (*frame.f_locals, *frame.f_code.co_varnames)]
    return [*dict.fromkeys([*local, *look("".join(linecache.getlines(file))).defines])]


def _begun(line: traceback.FrameSummary) -> bool:
    """Whether some function in the answer's cell is written already, beside the one whose stub was called.

    In a released cell every function is a stub.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(line.filename)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    functions = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef)]
    return any("raise NotImplementedError" not in ast.unparse(function) for function in functions)


def _hidden_method(trace: TracebackType | None) -> str:
    """The method in the line that failed whose object has an attribute of the same name, which can't be called."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    known = {**frame.f_globals, **frame.f_locals}
    for name, method in re.findall(r"(\w+)\.(\w+)\(", linecache.getline(frame.f_code.co_filename, trace.tb_lineno)):
        found = known.get(name)
        if callable(getattr(type(found), method, None)) and method in getattr(found, "__dict__", {}):
            return method
    return ""


def lacks_a_name(error: BaseException) -> bool:
    """Whether a name is defined nowhere. A variable of the function that is still empty is another mistake."""
    return isinstance(error, NameError) and not isinstance(error, UnboundLocalError)


def is_stub(error: BaseException) -> bool:
    """Whether this is the stub's `raise NotImplementedError`, and not torch saying that it lacks an operation."""
    if not isinstance(error, NotImplementedError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return not frames or not frames[-1].line or "NotImplementedError" in frames[-1].line


def where(error: BaseException, check_file: str) -> Rows:
    """A row with the learner's line that the error came from. Empty if it came from none."""
    line = learner_line(error.__traceback__, check_file)
    return [("where", f"line {line.lineno} of your cell, in {line.name}: {line.line}")] if line else []


def ran(trace: TracebackType | None, check_file: str) -> Rows:
    """A row with the line of the check cell that was running. Empty if its text isn't known."""
    line = source.line_number(trace, check_file)
    text = source.statement_text(check_file, line) if line else ""
    return [("the check ran", f"{text} (line {line})")] if text else []


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
