"""Run one submission in a jail: send cases in, read outcomes out, and never wait longer than is allowed.

Everything that comes out of the jail is hostile: lengths, forms and times are checked here. What the learner's process
does to itself costs the case that was running, at most the exercise, never another exercise: a fresh child, or a fresh
jail, takes the next one.
"""

from __future__ import annotations

import contextlib
import os
import select
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import jail, stripped
from .cases import OBSERVE, Case, Exercise, Outcome, World
from .inside import confine, steps, wire

INSIDE = Path(__file__).parent / "inside"
INSIDE_AT = "/grader/kvgrade/inside"
START_SECONDS = 60.0  # for the jail and its imports, on a busy machine
CELL_SECONDS = 30.0  # for the answer cell itself, imports included
OVERTIME = "the time for this exercise was used up"
MOST_LOST = 3  # cases without an answer; then the rest of the exercise is not run
MOST_CALLBACKS = 20_000  # in one case


class Endless(Exception):
    """The time of a case is over."""


class EndlessCell(Endless):
    """The answer cell itself did not come to an end: no case can be run."""


class Gone(Exception):
    """The learner's process, or its jail, is not there any more. The text says how it ended."""


@dataclass
class Times:
    """Where the seconds of one submission went."""

    start: float = 0.0
    cells: float = 0.0
    cases: float = 0.0


@dataclass(frozen=True)
class Answered:
    """What one exercise gave: for each group the outcomes of its cases, or a sentence for a case that gave none."""

    groups: dict[str, list[list[Outcome] | str]]
    cell_error: dict[str, Any] | None = None
    defined: bool = True
    facts: list[str] = field(default_factory=list)


class Session:
    """One submission. Use as a context manager; `run` may be called once for each exercise.

    unit_closed: all names that any exercise of the unit closes. seconds: wall clock for one exercise.
    with_torch: import torch ahead of all answers; without it an answer that uses torch imports it by itself.
    Raises RuntimeError when the host can't isolate answers and `isolated` asks for it.
    """

    def __init__(
        self,
        unit_closed: Sequence[str],
        isolated: bool = True,
        limits: confine.Limits | None = None,
        seconds: float = 75.0,
        tree: Path | None = None,
        case_seconds: float | None = None,
        with_torch: bool = True,
    ) -> None:
        if isolated and (why := jail.unavailable()):
            raise RuntimeError(f"Answers can't be isolated here: {why}")
        self.unit_closed = list(unit_closed)
        self.isolated = isolated
        self.limits = limits or confine.Limits()
        self.seconds = seconds
        self.until = 0.0
        self.case_seconds = case_seconds
        self.with_torch = with_torch
        self.times = Times()
        self._stack = contextlib.ExitStack()
        self._tree = tree
        self._worker: _Worker | None = None

    def __enter__(self) -> Session:
        if self._tree is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kvgrade-"))
            self._tree = Path(folder)
            self._tree.chmod(0o755)  # as root the jail runs as another user
            stripped.build(self._tree, self.unit_closed)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._stack.close()

    def run(self, exercise: Exercise, cell: str, cases: Mapping[str, Sequence[Case]]) -> Answered:
        """Execute an answer cell and run the cases of every group on it."""
        groups: dict[str, list[list[Outcome] | str]] = {}
        cell_error: dict[str, Any] | None = None
        lost, facts = 0, []
        self.until = time.monotonic() + self.seconds
        for group in exercise.groups:
            given: list[list[Outcome] | str] = []
            failed = False
            for case in cases[group.name]:
                if failed or lost >= MOST_LOST:  # the group is lost already, or the answer keeps ending its process
                    given.append(
                        "an earlier case of this kind was not answered" if failed else "the answer was stopped"
                    )
                    continue
                try:
                    outcomes, error = self._case(exercise, cell, case)
                    cell_error = error if error is not None else cell_error
                    given.append(outcomes)
                except Endless as problem:
                    self._stop()
                    given.append(str(problem))
                    lost += MOST_LOST if isinstance(problem, EndlessCell) else 0
                except (Gone, wire.WireError, ValueError, TypeError, KeyError, AttributeError) as problem:
                    self._stop()
                    given.append(str(problem) if isinstance(problem, Gone) else "the answer broke the protocol")
                if isinstance(given[-1], str):
                    failed, lost = True, lost + 1
                    facts.append(f"{exercise.name}: {given[-1]}")
            groups[group.name] = given
        self._let_go()
        return Answered(groups, cell_error, _defined(exercise, groups), facts)

    def _case(self, exercise: Exercise, cell: str, case: Case) -> tuple[list[Outcome], dict[str, Any] | None]:
        try:
            error = self._ready(exercise, cell, case.extra_memory)
        except EndlessCell:
            raise
        except Endless:
            raise Endless(OVERTIME) from None
        assert self._worker
        limit = self.case_seconds or exercise.seconds
        began = time.monotonic()
        world = case.world() if case.world else None
        try:
            message = {"steps": [_sent(step) for step in case.steps]}
            reply = self._worker.ask(message, self._deadline(limit), world)
        except Endless:
            why = f"no answer within {limit:g} s: is there a loop without an end?"
            raise Endless(why if time.monotonic() < self.until else OVERTIME) from None
        finally:
            self.times.cases += time.monotonic() - began
        outcomes = _outcomes(reply, len(case.steps))
        for number, step in enumerate(case.steps):
            if step["do"] == "observe":  # what the grader saw, not what the jail says
                outcomes[number] = {"value": steps.plain(world.observe()) if world else None}
        if case.extra_memory:
            self._let_go()  # the next case has the usual memory again
        return outcomes, error

    def _ready(self, exercise: Exercise, cell: str, extra_memory: int | None) -> dict[str, Any] | None:
        """A child that has executed the cell. Returns the error that the cell stopped with, if any."""
        if self._deadline(1.0) <= time.monotonic():
            raise Endless
        if self._worker is None:
            began = time.monotonic()
            assert self._tree
            self._worker = _Worker(self._tree, self.limits, self.isolated, self.with_torch, began + START_SECONDS)
            self.times.start += time.monotonic() - began
            self.until += time.monotonic() - began  # a slow start is not the learner's
        if self._worker.serves == exercise.name:
            return None
        began = time.monotonic()
        job = {
            "cell": cell,
            "closed": [name for name in exercise.closed if not stripped.ours(name)],
            "modules": stripped.modules(self.unit_closed, exercise.closed),
            "limits": asdict(self.limits),
            "extra_memory": extra_memory,
        }
        try:
            return self._worker.begin(exercise.name, job, self._deadline(CELL_SECONDS))
        except Endless:
            raise EndlessCell("the answer cell itself does not come to an end") from None
        finally:
            self.times.cells += time.monotonic() - began

    def _let_go(self) -> None:
        """End the child, by force if it will not go."""
        if self._worker:
            try:
                self._worker.end(self._deadline(5.0))
            except (Endless, Gone, wire.WireError):
                self._stop()

    def _deadline(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self.until)

    def _stop(self) -> None:
        if self._worker:
            self._worker.stop()
            self._worker = None


class _Worker:
    """A jail with its first process, and the pipes to it."""

    def __init__(self, tree: Path, limits: confine.Limits, isolated: bool, with_torch: bool, deadline: float) -> None:
        self.serves = ""
        there, self.data_out = os.pipe()
        self.data_in, back = os.pipe()
        mode = "jailed" if isolated else "open"
        argv = [jail.python(), "-I", f"{INSIDE_AT}/worker.py", str(there), str(back), mode, "/course"]
        argv.append("torch" if with_torch else "numpy")
        mounts = {INSIDE_AT: INSIDE, "/course": tree, "/course/kvlab/data": stripped.data_folder()}
        try:
            self.process = jail.start(argv, mounts, limits, isolated, pass_fds=(there, back))
        except BaseException:
            os.close(self.data_in)
            os.close(self.data_out)
            raise
        finally:
            os.close(there)
            os.close(back)
        assert self.process.stdin and self.process.stdout
        self.control_out, self.control_in = self.process.stdin.fileno(), self.process.stdout.fileno()
        for fd in (self.data_in, self.data_out, self.control_in, self.control_out):
            os.set_blocking(fd, False)
        try:
            self._receive(self.control_in, deadline)
        except (Endless, Gone, wire.WireError):
            self.stop()
            raise RuntimeError(
                "The grader's worker did not start: run `python -m kvgrade doctor` for the reason"
            ) from None

    def begin(self, name: str, job: Mapping[str, Any], deadline: float) -> dict[str, Any] | None:
        """Fork a child for an exercise. Returns the error of its answer cell, or None."""
        self.end(deadline)
        self._discard()
        self._send(self.control_out, job, deadline)
        self.serves = name
        reply = self._receive(self.data_in, deadline)
        error = reply["cell"]
        if error is not None and not isinstance(error, dict):
            raise wire.WireError("not a message")
        return error

    def ask(self, message: Any, deadline: float, world: World | None) -> Any:
        """Send a case and answer the callbacks that come before the outcomes."""
        self._send(self.data_out, message, deadline)
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
        jail.stop(self.process)
        self._close()

    def _close(self) -> None:
        os.close(self.data_in)
        os.close(self.data_out)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _send(self, fd: int, message: Any, deadline: float) -> None:
        data = memoryview(wire.pack(message))
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
        return f"the answer's process ended: {text}" if text else "the answer's process ended"

    def _discard(self) -> None:
        """Throw away what an earlier child left in the pipe."""
        while True:
            try:
                if not os.read(self.data_in, 1 << 16):
                    return
            except BlockingIOError:
                return


def _called(world: World | None, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a callback. Its arguments come from the learner's process and may be anything."""
    name, args, kwargs = request["call"], request.get("args"), request.get("kwargs")
    if world is None or name == OBSERVE or name not in world.functions:
        return {"raise": f"there is no function {name!r} here"}
    if not isinstance(args, tuple | list) or not isinstance(kwargs, dict):
        return {"raise": "arguments that cannot be read"}
    try:
        return {"return": world.functions[name](*args, **kwargs)}
    except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, AttributeError) as error:
        return {"raise": f"{type(error).__name__}: {error}"}


def _sent(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step as the jail gets it: what the grader's side saw is none of its business."""
    return {"do": "observe", "name": ""} if step["do"] == "observe" else step


def _outcomes(reply: Mapping[str, Any], count: int) -> list[Outcome]:
    outcomes = reply["outcomes"]
    if not isinstance(outcomes, list) or len(outcomes) != count or not all(isinstance(o, dict) for o in outcomes):
        raise wire.WireError("not a message")
    return list(outcomes)


def _defined(exercise: Exercise, groups: Mapping[str, Sequence[list[Outcome] | str]]) -> bool:
    """Whether the answer defined its name at all: a NameError of the script itself says no."""
    first = next((o for rows in groups.values() for o in rows if not isinstance(o, str)), None)
    if not first or "raised" not in first[0]:
        return True
    error = first[0]["raised"]
    return not (isinstance(error, dict) and error.get("type") == "NameError" and error.get("line") is None)
