"""Run the check cells that learners get on known answers, and make answers that know nothing but these checks.

Only for answers of our own: they run in this process.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .cases import Exercise
from .inside import steps
from .units import Unit

_HARD_CODED = '''# exercise: {name}
import base64, json
from itertools import count

RECORD = json.loads(base64.b64decode("""{record}"""))

def _plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple, bytes)):
        return [_plain(item) for item in value]
    return value

def _kind(value):
    return type(value).__name__

def _made(result):
    if isinstance(result, dict) and "dtype" in result:
        return np.array(result["values"], dtype=result["dtype"]).reshape(result["shape"])
    return tuple(map(_made, result)) if isinstance(result, list) else result

'''
_FUNCTION = """def {name}(*args, **kwargs):
    for key, result in RECORD:
        if json.loads(key) == json.loads(json.dumps(_plain(["{name}", args, sorted(kwargs.items())]), default=_kind)):
            if result is None:
                raise ValueError("known from the check")
            return _made(result)
    return 0

"""
_CLASS = """class {name}:
    def __init__(self, *args):
        self.calls = count()

    def __getattr__(self, name):
        def method(*args):
            _, result = RECORD[next(self.calls) % len(RECORD)]
            if result is None:
                raise ValueError("known from the check")
            return _made(result)
        return method
"""


def check(unit: Unit, name: str, answer: str) -> str:
    """Run the check cell of an exercise on an answer. Returns "" when all is right, else the panel's text."""
    source = next(cell.source for cell in unit.with_role("check") if cell.name == name)
    return _run(source, answer)[0]


def hard_coded(unit: Unit, exercise: Exercise, right: str) -> str:
    """An answer that gives what the check cell wants and knows nothing else. Made by watching a right answer.

    A class made this way replays results in order; it cannot show memory that is shared, so a check may see through it.
    """
    source = next(cell.source for cell in unit.with_role("check") if cell.name == exercise.name)
    record: list[tuple[str, Any]] = []

    def watch(name: str, made: Any) -> Any:
        return _watched_class(made, record) if isinstance(made, type) else _watched(made, record, name)

    _run(source, right, watch, list(exercise.names))
    text = base64.b64encode(json.dumps(record).encode()).decode()
    bodies = [
        (_CLASS if isinstance(made, type) else _FUNCTION).replace("{name}", name)
        for name, made in exercise.names.items()
    ]
    return _HARD_CODED.replace("{record}", text).replace("{name}", exercise.name) + "".join(bodies)


def _run(check_source: str, answer: str, wrap: Any = None, wrapped: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    import torch

    from kvlab import check as checks

    names: dict[str, Any] = {"__name__": "__main__", "math": math, "np": np, "torch": torch, "check": checks}
    exec(compile(answer, steps.ANSWER_FILE, "exec"), names)
    for name in wrapped:
        names[name] = wrap(name, names[name])
    with _strict(), contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(check_source, "<check>", "exec"), names)
        except AssertionError as error:
            return str(error), names
    return "", names


@contextlib.contextmanager
def _strict() -> Iterator[None]:
    before = os.environ.get("KVLAB_STRICT")
    os.environ["KVLAB_STRICT"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KVLAB_STRICT"]
        else:
            os.environ["KVLAB_STRICT"] = before


def _watched(function: Any, record: list[tuple[str, Any]], name: str = "") -> Any:
    def watched(*args: Any, **kwargs: Any) -> Any:
        key = _json([name, args, sorted(kwargs.items())]).decode()
        try:
            result = function(*args, **kwargs)
        except ValueError:
            record.append((key, None))
            raise
        record.append((key, _told(result)))
        return result

    return watched


def _watched_class(kind: Any, record: list[tuple[str, Any]]) -> Any:
    class Watched:
        def __init__(self, *args: Any) -> None:
            self.made = kind(*args)

        def __getattr__(self, name: str) -> Any:
            return _watched(getattr(self.made, name), record)

    return Watched


def _told(value: Any) -> Any:
    """A result for the record: arrays with their dtype, tuples as lists; None is 0 here, as None stands for an error."""
    if value is None:
        return 0
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    if hasattr(value, "tolist"):
        dtype = str(value.dtype).removeprefix("torch.")
        return {"dtype": dtype, "shape": list(value.shape), "values": value.tolist()}
    return value


def _lists(value: Any) -> Any:
    """Arrays and tuples as lists; what a method without a result gives is not None here, which stands for an error."""
    if value is None:
        return 0
    if isinstance(value, list | tuple | bytes):
        return [_lists(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _json(value: Any) -> bytes:
    """The arguments of a call as a key; a function or another object counts by the name of its type."""
    return json.dumps(_lists(value), default=lambda item: type(item).__name__).encode()
