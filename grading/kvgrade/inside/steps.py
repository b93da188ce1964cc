"""Run a case: a short script of operations on the names that an answer defines. The jail runs it on the learner's
answer, the grader on its oracle; both give a list of outcomes, one per step.

A step is a dict with `do` and
    call       name, args, kwargs      call a function, or make an object of a class
    method     on, name, args, kwargs  call a method of the object that step number `on` made
    get        on, name                read an attribute of it
    shares     a, b                    whether two earlier results use the same memory; each is [step, index, index…]
    unchanged  of                      whether the arguments of an earlier call are what they were before it
    observe    name                    what the grader's side saw meanwhile; the jail leaves it to the grader

An outcome is {"value": …}, {"raised": {"type", "mro", "message", "line", "text"}}, {"closed": name} or
{"unreadable": why}. Results are copied as plain data at once: a later step may write into what an earlier one returned.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import wire

ANSWER_FILE = "<answer>"
_share, _array = np.shares_memory, np.ndarray  # bound before an answer can put others in their place
_MESSAGE = 300  # characters of an error's text

Outcome = dict[str, Any]


def run(
    names: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    callback: Callable[[str], Any] = lambda name: None,
    closed_calls: Callable[[], list[str]] = list,
    source: str = "",
    tensor: Callable[[np.ndarray], Any] | None = None,
) -> list[Outcome]:
    """The outcomes of a script. `callback` gives the function that stands for a `wire.Callback` among the arguments."""
    return _Script(names, steps, callback, closed_calls, source, tensor).outcomes()


def plain(value: Any, tensor: Callable[[np.ndarray], Any] | None = None) -> Any:
    """A copy of a value that holds plain data only; raises wire.WireError when it is too large."""
    data = wire.pack(value)
    header, _ = wire.sizes(data[: wire.HEAD.size])
    start = wire.HEAD.size + header
    return wire.unpack(data[wire.HEAD.size : start], data[start:], tensor)


def raised(error: BaseException, source: str) -> dict[str, Any]:
    """An exception as plain data: its class and bases, its text, and the learner's line that it came from."""
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == ANSWER_FILE:
            line = number
    if line is None and isinstance(error, SyntaxError):
        line = error.lineno
    lines = source.splitlines()
    text = lines[line - 1].strip() if line and line <= len(lines) else ""
    try:
        message = str(error)
    except Exception:  # an exception class of the learner's own may do anything
        message = ""
    bases = [base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins"]
    return {
        "type": type(error).__name__,
        "mro": bases,
        "message": message[:_MESSAGE],
        "line": line,
        "text": text[:_MESSAGE],
    }


class _Script:
    def __init__(
        self,
        names: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]],
        callback: Callable[[str], Any],
        closed_calls: Callable[[], list[str]],
        source: str,
        tensor: Callable[[np.ndarray], Any] | None,
    ) -> None:
        self.names, self.steps, self.callback = names, steps, callback
        self.closed_calls, self.source, self.tensor = closed_calls, source, tensor
        self.results: dict[int, Any] = {}
        self.arguments: dict[int, tuple[Any, bytes]] = {}
        self.watched = {step["of"] for step in steps if step["do"] == "unchanged"}

    def outcomes(self) -> list[Outcome]:
        return [self.outcome(number, step) for number, step in enumerate(self.steps)]

    def outcome(self, number: int, step: Mapping[str, Any]) -> Outcome:
        known = len(self.closed_calls())
        try:
            result = self.perform(number, step)
        except wire.WireError as error:
            return {"unreadable": str(error)}
        except BaseException as error:  # SystemExit and KeyboardInterrupt of an answer are results too
            calls = self.closed_calls()
            return {"closed": calls[known]} if len(calls) > known else {"raised": raised(error, self.source)}
        calls = self.closed_calls()
        if len(calls) > known:
            return {"closed": calls[known]}
        self.results[number] = result
        try:
            return {"value": plain(result)}
        except wire.WireError as error:
            return {"unreadable": str(error)}
        except BaseException as error:  # a result whose own code runs when it is looked at
            return {"unreadable": f"the result cannot be looked at: {type(error).__name__}"}

    def perform(self, number: int, step: Mapping[str, Any]) -> Any:
        do = step["do"]
        if do == "call":
            if step["name"] not in self.names:
                raise NameError(f"name {step['name']!r} is not defined")
            return self.invoke(number, self.names[step["name"]], step)
        if do == "method":
            return self.invoke(number, getattr(self.made(step["on"]), step["name"]), step)
        if do == "get":
            return getattr(self.made(step["on"]), step["name"])
        if do == "shares":
            return _share_memory(self.part(step["a"]), self.part(step["b"]))
        if do == "unchanged":
            if step["of"] not in self.arguments:
                raise LookupError("the call before was not made")
            arguments, before = self.arguments[step["of"]]
            return wire.pack(arguments) == before
        if do == "observe":
            return self.callback(step["name"])() if step["name"] else None  # nameless in the jail
        raise ValueError(f"unknown step {do!r}")

    def invoke(self, number: int, function: Any, step: Mapping[str, Any]) -> Any:
        args, kwargs = self.fill(step["args"]), self.fill(step["kwargs"])
        if number in self.watched:
            self.arguments[number] = ((args, kwargs), wire.pack((args, kwargs)))
        return function(*args, **kwargs)

    def fill(self, value: Any) -> Any:
        """Put functions in the place of callbacks."""
        if isinstance(value, wire.Callback):
            return self.callback(value.name)
        if type(value) in (list, tuple):
            return type(value)(self.fill(item) for item in value)
        if type(value) is dict:
            return {key: self.fill(item) for key, item in value.items()}
        return value

    def made(self, number: int) -> Any:
        if number not in self.results:
            raise LookupError("the object was not made: an earlier step failed")
        return self.results[number]

    def part(self, path: Sequence[int]) -> Any:
        value = self.made(path[0])
        for index in path[1:]:
            value = value[index]
        return value


def _share_memory(a: Any, b: Any) -> bool:
    arrays = [x.detach().numpy() if hasattr(x, "detach") else x for x in (a, b)]
    return all(isinstance(x, _array) for x in arrays) and bool(_share(*arrays))
