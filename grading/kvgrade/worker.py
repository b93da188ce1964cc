"""A running jail and the pipes to it. Lengths, forms and times of what comes out are checked here."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import jail, stripped, told, warm
from .cases import OBSERVE, Outcome, World
from .inside import confine, wire
from .texts import clean

COURSE_AT = "/course"  # where an answer finds kvlab
MOST_BYTES = 64 << 20  # of results, from one jail
MOST_CALLBACKS = 20_000  # in one case
ERROR_TEXTS = ("type", "message", "text")


class Endless(Exception):
    """The time of a case is over."""


class EndlessCell(Endless):
    """The answer cell itself did not come to an end: no case can be run."""


class Gone(Exception):
    """The learner's process, or its jail, is not there any more. The text says how it ended."""


class Worker:
    """A jail with its first process, and the pipes to it."""

    def __init__(self, tree: Path, limits: confine.Limits, isolated: bool, with_torch: bool, deadline: float) -> None:
        self.serves = ""
        self.received = 0  # bytes, since the jail was started
        kind = "torch" if with_torch else "numpy"
        for last in (False, True):
            try:
                self._start(tree, limits, isolated, kind, deadline)
                return
            except Endless:
                raise jail.NoJail("it was not ready in time") from None
            except (OSError, Gone, wire.WireError) as problem:
                said = warm.ended(kind) if isolated else None  # the process that forks for all jails may have died
                if last or said is None:
                    raise jail.NoJail(said or str(problem)) from None

    def _start(self, tree: Path, limits: confine.Limits, isolated: bool, kind: str, deadline: float) -> None:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            control_there, self.control_out = _pipe(theirs, ours)
            data_there, self.data_out = _pipe(theirs, ours)
            self.control_in, control_back = _pipe(ours, theirs)
            self.data_in, data_back = _pipe(ours, theirs)
            pipes = [control_there, control_back, data_there, data_back]
            if isolated:
                mounts = {COURSE_AT: tree, f"{COURSE_AT}/kvlab/data": stripped.data_folder()}
                held = jail.hold(mounts, limits, deadline)
                theirs.callback(os.close, held.handle)
                self.process = held.process
                ours.callback(jail.stop, held.process)
                warm.enter(kind, held.handle, {**held.entry, "course": COURSE_AT}, pipes)
            else:
                argv = [jail.python(), "-I", "-B", str(warm.START), kind, "alone", *map(str, pipes), str(tree)]
                self.process = jail.start(argv, {}, limits, isolated=False, pass_fds=pipes)
                ours.callback(jail.stop, self.process)
            theirs.close()
            for fd in (self.data_in, self.data_out, self.control_in, self.control_out):
                os.set_blocking(fd, False)
            greeting = self._receive(self.control_in, deadline)
            if greeting != {"ready": True}:
                raise jail.NoJail(clean(str(greeting.get("refused"))) if isinstance(greeting, dict) else "no greeting")
            self._close = ours.pop_all()

    def begin(self, name: str, job: Mapping[str, Any], deadline: float) -> dict[str, Any] | None:
        """Fork a child for an exercise. Returns the error of its answer cell, or None."""
        self.end(deadline)
        self._discard()
        self._send(self.control_out, job, deadline)
        self.serves = name
        reply = self._receive(self.data_in, deadline)
        if not isinstance(reply, dict) or set(reply) != {"cell"}:
            raise wire.WireError("not a message")
        return None if reply["cell"] is None else _error(reply["cell"])

    def ask(self, message: bytes, deadline: float, world: World | None) -> Any:
        """Send a packed case and answer the callbacks that come before the outcomes."""
        self._write(self.data_out, message, deadline)
        for _ in range(MOST_CALLBACKS):
            reply = self._receive(self.data_in, deadline)
            if not isinstance(reply, dict):
                raise wire.WireError("not a message")
            if "call" not in reply:
                return reply
            self._send(self.data_out, _called(world, reply), deadline)
        raise Endless

    def end(self, deadline: float) -> None:
        """Let the child go, and wait until it is gone."""
        if not self.serves:
            return
        self.serves = ""
        with contextlib.suppress(Gone, BlockingIOError, BrokenPipeError):
            self._send(self.data_out, {"end": True}, deadline)
        self._receive(self.control_in, deadline)

    def stop(self) -> None:
        """End the jail, and close the pipes to it."""
        self._close.close()

    def _send(self, fd: int, message: Any, deadline: float) -> None:
        self._write(fd, wire.pack(message), deadline)

    def _write(self, fd: int, message: bytes, deadline: float) -> None:
        data = memoryview(message)
        while data:
            self._wait([], [fd], deadline)
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise Gone(self._how()) from None

    def _receive(self, fd: int, deadline: float) -> Any:
        header, body = wire.sizes(self._read(fd, wire.HEAD.size, deadline))
        self.received += header + body
        if self.received > MOST_BYTES:
            raise wire.WireError("the results are too large to be looked at")
        return wire.unpack(self._read(fd, header, deadline), self._read(fd, body, deadline))

    def _read(self, fd: int, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            watched = [fd] if fd == self.control_in else [fd, self.control_in]
            ready = self._wait(watched, [], deadline)
            if fd not in ready:  # the first process speaks only when its child has ended
                raise Gone(self._how())
            part = os.read(fd, min(size, 1 << 20))
            if not part:  # the whole jail is gone
                raise Gone("the answer ended the process that runs it")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _wait(self, reading: list[int], writing: list[int], deadline: float) -> list[int]:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Endless
        poll = select.poll()
        for fd in reading:
            poll.register(fd, select.POLLIN)
        for fd in writing:
            poll.register(fd, select.POLLOUT)
        ready = [fd for fd, _ in poll.poll(left * 1000)]
        if not ready:
            raise Endless
        return ready

    def _how(self) -> str:
        """What the first process says about the child's end."""
        self.serves = ""
        try:
            message = self._receive(self.control_in, time.monotonic() + 1.0)
            text = message.get("ended") if isinstance(message, dict) else None
        except (Endless, Gone, wire.WireError, RecursionError):
            text = None
        return told.ending(text)

    def _discard(self) -> None:
        """Throw away what an earlier child left in the pipe."""
        while True:
            try:
                if not os.read(self.data_in, 1 << 16):
                    return
            except BlockingIOError:
                return


def try_one(deadline: float, cell: str = "") -> str:
    """Start a jail as answers get it, and run an answer cell: its error in words, "" for none.

    Raises jail.NoJail with the reason when there is no jail, or the cell comes to no end.
    """
    try:
        worker = Worker(stripped.tree(()), confine.Limits(), isolated=True, with_torch=False, deadline=deadline)
        try:
            limits = asdict(confine.Limits())
            job: dict[str, Any] = {"cell": cell, "closed": [], "limits": limits, "extra_memory": None}
            error = worker.begin("nothing", job, deadline)
            return "" if error is None else f"{error['type']}: {error['message']}"
        finally:
            worker.stop()
    except (Endless, Gone, wire.WireError) as problem:
        raise jail.NoJail(str(problem) or f"{'this' if cell else 'an empty'} answer came to no end") from None


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed with the one who reads and the one who writes."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


def _called(world: World | None, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a callback. Its arguments come from the learner's process and may be anything."""
    name, args, kwargs = request["call"], request.get("args"), request.get("kwargs")
    if world is None or not isinstance(name, str) or name == OBSERVE or name not in world.functions:
        return {"raise": "there is no such function here"}
    if not isinstance(args, tuple | list) or not isinstance(kwargs, dict):
        return {"raise": "arguments that cannot be read"}
    try:
        return {"return": world.functions[name](*args, **kwargs)}
    except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, AttributeError) as error:
        return {"raise": f"{type(error).__name__}: {error}"}


def outcomes(reply: Any, count: int) -> list[Outcome]:
    """The outcomes of a case, each rebuilt from what it may hold. Raises WireError for anything else."""
    outcomes = reply.get("outcomes") if isinstance(reply, dict) else None
    if not isinstance(outcomes, list) or len(outcomes) != count:
        raise wire.WireError("not a message")
    return [_outcome(item) for item in outcomes]


def _outcome(item: Any) -> Outcome:
    if not isinstance(item, dict) or len(item) != 1:
        raise wire.WireError("not a message")
    ((kind, content),) = item.items()
    if kind == "value":
        return {"value": content}
    if kind == "raised":
        return {"raised": _error(content)}
    if kind in ("closed", "unreadable") and isinstance(content, str):
        return {kind: clean(content)}
    raise wire.WireError("not a message")


def _error(content: Any) -> dict[str, Any]:
    """An exception as the jail tells of it: texts cut and cleaned, nothing else let through."""
    if not isinstance(content, dict):
        raise wire.WireError("not a message")
    bases, line = content.get("mro"), content.get("line")
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise wire.WireError("not a message")
    texts = {key: clean(str(content[key])) if isinstance(content.get(key), str) else "" for key in ERROR_TEXTS}
    return {**texts, "mro": bases[:50], "line": line if type(line) is int and 0 < line < 100_000 else None}
