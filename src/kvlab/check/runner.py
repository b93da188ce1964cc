"""`check.exercise`: runs the lines of a check cell against the learner's answer and shows one panel."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr
from types import TracebackType
from typing import Any

import numpy as np

from kvlab import session
from kvlab.check import answer, diagnose
from kvlab.check.closed import ClosedError, closed, closed_text
from kvlab.check.compare import Difference, describe, difference, to_array
from kvlab.check.panel import Panel, State
from kvlab.jsonfile import read_json

_states: dict[str, State] = {}  # the last verdict of each exercise in this session


def last_state(name: str) -> State | None:
    """The verdict of the exercise's latest check in this session, or None when it has not run."""
    return _states.get(name)


def strict() -> bool:
    """Whether a failed check raises: where nbgrader runs the notebook, or with KVLAB_STRICT=1."""
    return bool(os.environ.get("NBGRADER_EXECUTION")) or os.environ.get("KVLAB_STRICT") == "1"


def exercise(name: str, closed: list[str] | None = None) -> Exercise:
    """Check an exercise: `with check.exercise("top_p_filter") as t: t.close(...)`.

    closed: dotted names of functions that may not be called meanwhile; None takes them from data/exercises.json.
    """
    caller = sys._getframe(1)
    names = _closed_names(name) if closed is None else closed
    return Exercise(name, names, caller.f_globals, caller.f_code.co_filename)


_STALE = (
    "This is about the version that ran last; the cell has changed or stopped with an error since. "
    "Run the answer cell again (if it shows an error, start there; it must define the name of the exercise), then this one."
)


class _Stop(Exception):
    """The first line of a check that failed; carries rows of the panel and the rule that the answer breaks."""

    def __init__(self, rows: list[tuple[str, str]], why: str) -> None:
        super().__init__(rows, why)
        self.rows = rows
        self.why = why


class Exercise:
    """A running check. It stops at the first line that fails: one message at a time."""

    def __init__(self, name: str, closed_names: list[str], namespace: dict[str, Any], filename: str) -> None:
        self.name = name
        self.state: State | None = None
        self._closed_names = closed_names
        self._namespace = namespace
        self._filename = filename
        self._passed = 0
        self._called: list[str] = []
        self._errors = io.StringIO()
        self._stack = ExitStack()

    def __enter__(self) -> Exercise:
        with ExitStack() as stack:
            # nbgrader gives 0 marks to a cell that writes to stderr, so a warning must not reach it.
            stack.enter_context(redirect_stderr(self._errors))
            stack.enter_context(warnings.catch_warnings())
            self._called = stack.enter_context(closed(self._closed_names, self._namespace))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._stack.close()
        if self._errors.getvalue():
            print(self._errors.getvalue(), end="")
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            return False
        if error is None and not self._called and not self._passed:
            raise ValueError(f"The check of {self.name} has no lines: nothing was compared.")
        found = self._verdict(error)
        panel = self._about_the_cell(found)
        self.state = _states[self.name] = panel.state
        panel.show(answer.record(found, self._namespace.get(self.name)))
        if panel.state is not State.RIGHT and strict():
            raise AssertionError(panel.text) from None
        return True

    def equal(self, actual: Any, expected: Any, why: str) -> None:
        """The same shape and exactly the same values; 2.0 equals 2 and True equals 1."""
        self._compare(difference(actual, expected), why)

    def close(self, actual: Any, expected: Any, why: str, rtol: float = 1e-3, atol: float = 1e-4) -> None:
        """The same shape, and every value within atol + rtol·|expected|. Infinities must match; nan matches nan."""
        self._compare(difference(actual, expected, rtol, atol), why)

    def true(self, condition: Any, why: str) -> None:
        """The condition holds. It is one truth value, not several."""
        array = to_array(condition)
        if array is not None and array.size != 1:
            self._fail([("expected", "one truth value"), ("came", describe(condition))], why)
        if not (condition if array is None else array.item()):
            self._fail([("expected", "true"), ("came", describe(condition))], why)
        self._passed += 1

    def raises(self, error: type[Exception], call: Callable[[], Any], why: str) -> None:
        """`call()` raises this error."""
        wanted = error.__name__
        try:
            result = call()
        except ClosedError:
            raise
        except error:
            self._passed += 1
            return
        except Exception as other:
            if diagnose.is_stub(other) or diagnose.lacks_a_name(other):
                raise
            came = ("came", f"{type(other).__name__}: {other}")
            self._fail([("expected", f"a {wanted}"), came, *diagnose.where(other, self._filename)], why)
        else:
            self._fail([("expected", f"a {wanted}"), ("came", f"no error; the result was {describe(result)}")], why)

    def unchanged(self, before: Any, after: Any, why: str) -> None:
        """An input has the values it had; take `before` as a copy, ahead of the call."""
        found = difference(after, before)
        if found:
            rows = _rows(Difference(f"the input unchanged: {found.expected}", found.actual, found.where))
            self._fail(rows, why)
        self._passed += 1

    def shares_memory(self, a: Any, b: Any, why: str) -> None:
        """Two arrays or tensors use the same memory: no copy was made."""
        arrays = [to_array(x) if hasattr(x, "detach") or isinstance(x, np.ndarray) else None for x in (a, b)]
        if any(x is None for x in arrays):
            came = " and ".join(type(x).__name__ for x in (a, b))
            self._fail([("expected", "two arrays or tensors"), ("came", came)], why)
        if not np.shares_memory(arrays[0], arrays[1]):
            self._fail([("expected", "the same memory, seen twice"), ("came", "two separate copies")], why)
        self._passed += 1

    def _compare(self, found: Difference | None, why: str) -> None:
        if found:
            self._fail(_rows(found), why)
        self._passed += 1

    def _fail(self, rows: list[tuple[str, str]], why: str) -> None:
        raise _Stop(rows, why) from None

    def _verdict(self, error: BaseException | None) -> Panel:
        if self._called:
            rows = [("", closed_text(self._called[0]))]
            if isinstance(error, ClosedError):
                rows += diagnose.where(error, self._filename)
            return Panel(self.name, State.WRONG, rows)
        if error is None:
            return Panel(self.name, State.RIGHT)
        if isinstance(error, _Stop):
            ran = diagnose.ran(error.__traceback__, self._filename)
            return Panel(self.name, State.WRONG, [*ran, *error.rows, ("the rule", error.why)])
        return diagnose.panel(self.name, error, self._filename)

    def _about_the_cell(self, found: Panel) -> Panel:
        """The verdict with what the answer's cell makes of it: it was replaced by a newer one, or it needs another one."""
        source = answer.cell_of(self._namespace.get(self.name))
        if source is None:
            return found
        if answer.superseded(self.name, source, session.cells()):
            state = State.WRONG if found.state is State.WRONG else State.STALE
            return Panel(self.name, state, [("", _STALE), *(found.rows if state is State.WRONG else [])])
        if found.state is State.RIGHT and (names := answer.borrowed(source, self._namespace)):
            shown = " and ".join(f"`{name}`" for name in names)
            them = "it" if len(names) == 1 else "them"
            text = f"right here, but it uses {shown} from another cell; only this cell is graded: move {them} in"
            return Panel(self.name, State.RIGHT, [("", text)])
        return found


def _rows(found: Difference) -> list[tuple[str, str]]:
    rows = [("expected", found.expected), ("came", found.actual)]
    return [*rows, ("first difference", f"at {found.where}")] if found.where else rows


def _closed_names(name: str) -> list[str]:
    from kvlab import paths

    path = paths.data_dir() / "exercises.json"
    if not path.exists():
        return []
    row = read_json(path, dict).get(name, {})
    return row.get("closed", []) if isinstance(row, dict) else []
