"""The engine in a thread of its own: jobs go in from anywhere, events come out as they happen."""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from kvlab.engine import Engine, Request, State, Token
from kvlab.model import Llama
from kvlab.providers.ledger import Ledger
from kvlab.providers.visit import Counts, Visit
from kvlab.sampling import SamplingSettings
from kvlab.streaming import TextStream


@dataclass(frozen=True)
class Started:
    """The first token is there, and so is what the prompt has cost."""

    counts: Counts


@dataclass(frozen=True)
class Text:
    """Text that has become certain, and how many tokens the answer has so far."""

    text: str
    n_output: int


@dataclass(frozen=True)
class Done:
    """The end. `reason`: "eos", "length" or "stop"; `stop`: the stop string that was found."""

    reason: str
    stop: str | None
    n_output: int


@dataclass(frozen=True)
class Failed:
    """The request could not be served. Nothing follows."""

    error: Exception


Event = Started | Text | Done | Failed


@dataclass
class Job:
    """One request. `send` is called from the worker's thread and must not block. prefill_only: compute, say nothing."""

    id: str
    visit: Visit
    send: Callable[[Event], None]
    provider: str = ""
    model: str = ""
    max_new: int = 64
    settings: SamplingSettings = field(default_factory=lambda: SamplingSettings(temperature=0))
    stop: tuple[str, ...] = ()
    prefill_only: bool = False


@dataclass(frozen=True)
class RequestStats:
    """What one request has cost the engine, beside what its usage says. Seconds of the real clock.

    prompt: its tokens. from_cache: those that came from cached blocks. computed: prompt positions pushed through the
    model. read, written: tokens as billed. ttft: from arrival to the first token; nan if there was none.
    """

    id: str
    provider: str
    model: str
    prompt: int
    from_cache: int
    computed: int
    read: int
    written: int
    output: int
    ttft: float
    seconds: float
    ended: str

    def as_json(self) -> dict[str, Any]:
        """Plain values, None for nan."""
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(self).items()}


@dataclass
class _Live:
    job: Job
    request: Request
    text: TextStream
    data: bytearray = field(default_factory=bytearray)
    shown: int = 0
    counts: Counts | None = None


class Worker:
    """Runs an engine and its ledger. Start it once, stop it once; stopping fails what is still in flight."""

    def __init__(self, model: Llama, engine: Engine, keep: int = 1000) -> None:
        if model.tokenizer is None:
            raise ValueError("this model has no tokenizer, so it can't answer texts: choose one that has")
        self.tokenizer = model.tokenizer
        self.engine = engine
        self.ledger = Ledger()
        self.stats: deque[RequestStats] = deque(maxlen=keep)
        self.steps = 0
        self._live: dict[str, _Live] = {}
        self._inbox: queue.SimpleQueue[Job | str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kvlab-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the step that is running."""
        self._inbox.put(None)
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Hand a job in; everything else comes through its `send`."""
        self._inbox.put(job)

    def cancel(self, job_id: str) -> None:
        """Stop a job and free its blocks. Nothing happens when it is over already."""
        self._inbox.put(job_id)

    @property
    def in_flight(self) -> int:
        return len(self._live)

    def _run(self) -> None:
        while self._take_in():
            if not self._live:
                continue
            try:
                tokens = self.engine.step()
            except Exception as error:  # whatever it is, the server must live on
                for live in list(self._live.values()):
                    self._end(live, Failed(error), "failed")
                continue
            self.steps += 1
            self.engine.log.clear()
            for token in tokens:
                self._pass_on(self._live[token.request], token)
            for live in [live for live in self._live.values() if live.request.state is State.FAILED]:
                self._end(live, Failed(RuntimeError(f"no token could be chosen ({live.request.error})")), "failed")

    def _take_in(self) -> bool:
        """Read the inbox, waiting when there is nothing to compute. False at the end."""
        wait = not self._live
        while True:
            try:
                item = self._inbox.get(block=wait)
            except queue.Empty:
                return True
            wait = False
            if item is None:
                for live in list(self._live.values()):
                    self._end(live, Failed(RuntimeError("the server is stopping")), "stopped")
                return False
            if isinstance(item, Job):
                self._begin(item)
            elif item in self._live:
                self._end(self._live[item], None, "cancelled")

    def _begin(self, job: Job) -> None:
        limit = job.visit.admit(self.ledger)
        request = Request(
            job.id,
            job.visit.tokens,
            max_new=job.max_new,
            settings=job.settings,
            arrival=self.engine.clock.now(),
            cache_salt=job.visit.salt,
            cache_limit=limit,
        )
        try:
            live = _Live(job, request, TextStream(job.stop))
            self.engine.submit(request)
        except ValueError as error:
            _send(job, Failed(error))
            return
        self._live[job.id] = live

    def _pass_on(self, live: _Live, token: Token) -> None:
        job, request = live.job, live.request
        if live.counts is None:
            live.counts = job.visit.settle(self.ledger, request.from_cache, self.engine.blocks.block_size)
            self.ledger.forget_expired(getattr(job.visit, "start", -math.inf))
            if not _send(job, Started(live.counts)):
                self._end(live, None, "cancelled")
                return
        if job.prefill_only:
            self._end(live, Done("length", None, 0), "length")
            return
        data = self.tokenizer.text_bytes(token.token)
        live.data += data
        text = live.text.push(data)
        if token.finished and not live.text.stopped:
            text += live.text.finish()
        live.shown += len(text)
        if not _send(job, Text(text, len(request.output))):
            self._end(live, None, "cancelled")
        elif live.text.stopped:
            whole = live.data.decode("utf-8", "replace")
            found = next((stop for stop in job.stop if whole.startswith(stop, live.shown)), None)
            self._end(live, Done("stop", found, len(request.output)), "stop")
        elif token.finished:
            reason = "eos" if token.token == self.tokenizer.eos_id else "length"
            self._end(live, Done(reason, None, len(request.output)), reason)

    def _end(self, live: _Live, event: Event | None, how: str) -> None:
        """Give back everything that a request holds, keep its figures, then tell."""
        request, counts = live.request, live.counts or Counts()
        if request.state in (State.WAITING, State.RUNNING):
            self.engine.cancel(request.id)
        del self._live[request.id], self.engine.requests[request.id]
        now = self.engine.clock.now()
        prompt = len(request.prompt)
        self.stats.append(
            RequestStats(
                request.id,
                live.job.provider,
                live.job.model,
                prompt,
                request.from_cache,
                max(0, request.positions - max(0, len(request.output) - 1)),
                counts.read,
                counts.written_5m + counts.written_1h,
                0 if live.job.prefill_only else len(request.output),
                request.ttft,
                now - request.arrival,
                how,
            )
        )
        if event is not None:
            _send(live.job, event)


def _send(job: Job, event: Event) -> bool:
    """False when nobody listens any more."""
    try:
        job.send(event)
    except RuntimeError:  # the client's event loop is closed
        return False
    return True
