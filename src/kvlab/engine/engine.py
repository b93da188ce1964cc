"""A small real serving engine: requests in, tokens out, many at once over one paged cache.

    engine = Engine(model, n_blocks=256, block_size=16, policy="chunked")
    engine.run([Request("a", ids, max_new=20), Request("b", other, arrival=0.5)])

A step plans (`scheduler`), copies shared blocks that are about to be written, runs the model once (`runner`), and
chooses a token for every request whose last position was among the work. Until all tokens are chosen, a step changes
nothing that it cannot take back. A request whose token cannot be chosen ends alone: its state is FAILED, and its
`error` says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from kvlab.engine.blocks import BlockManager
from kvlab.engine.clock import Clock, RealClock
from kvlab.engine.pool import PagedPool
from kvlab.engine.request import Request, State
from kvlab.engine.runner import Row, run
from kvlab.engine.scheduler import Plan, Scheduler, Work, in_flight
from kvlab.generate import Generation, check_settings, choose, prompt_ids
from kvlab.model import Llama
from kvlab.validate import amount, whole


@dataclass(frozen=True)
class Token:
    """One token of one request, as it comes out. `finished`: it was the last one."""

    request: str
    token: int
    finished: bool


@dataclass(frozen=True)
class StepLog:
    """What one step did. `work`: (request id, first position, tokens, padding). Blocks are counted after the step.

    failed: ids of the requests that ended in this step because no token could be chosen for them.
    """

    start: float
    end: float
    work: tuple[tuple[str, int, int, bool], ...]
    blocks_used: int
    blocks_free: int
    blocks_shared: int
    positions_held: int
    positions_reserved: int
    failed: tuple[str, ...] = ()

    @property
    def n_tokens(self) -> int:
        return sum(n for _, _, n, _ in self.work)

    @property
    def n_padding(self) -> int:
        return sum(n for _, _, n, padding in self.work if padding)


class _Chosen(NamedTuple):
    """A token, and the request's generator after the draw."""

    token: int
    generator: torch.Generator


class Engine:
    """Serves one model, the readable one: it reads the layers and keeps K and V itself.

    Another kind of model, sizes below 1 or larger than the memory, and an unknown policy raise ValueError.
    """

    def __init__(
        self,
        model: Llama,
        n_blocks: int = 256,
        block_size: int = 16,
        policy: str = "chunked",
        max_seqs: int = 16,
        token_budget: int = 256,
        prefix_caching: bool = True,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(model, Llama):
            raise ValueError(f"the engine serves a model of kvlab.load(...), got {type(model).__name__}")
        if clock is not None and not isinstance(clock, Clock):
            raise ValueError(f"clock must be a RealClock() or a StepClock(), got {clock!r:.60}")
        self.model = model
        self.pool = PagedPool(model.layout(), n_blocks, block_size)
        self.blocks = BlockManager(n_blocks, block_size, prefix_caching)
        self.scheduler = Scheduler(self.blocks, policy, max_seqs, token_budget)
        self.clock: Clock = RealClock() if clock is None else clock
        self.requests: dict[str, Request] = {}
        self.log: list[StepLog] = []

    def submit(self, request: Request) -> None:
        """Take a request in. Raises ValueError, and takes nothing, for one that can never be served."""
        if not isinstance(request, Request) or not isinstance(request.id, str):
            raise ValueError(f"the engine takes Request(...) with a text as its id, got {request!r:.60}")
        if request.id in self.requests:
            raise ValueError(f"there is a request {request.id!r:.60} already: every request needs an id of its own")
        if request.state is not State.WAITING or request.output or request.generator is not None:
            raise ValueError(f"request {request.id!r:.60} was used before: make a new one")
        max_new = whole("max_new", request.max_new, least=1)
        amount("arrival", request.arrival)
        limit = None if request.cache_limit is None else whole("cache_limit", request.cache_limit)
        if not isinstance(request.cache_salt, bytes):
            raise ValueError(f'cache_salt must be bytes, such as b"tenant 1", got {request.cache_salt!r:.60}')
        prompt = prompt_ids(self.model, request.prompt, max_new)
        check_settings(self.model, request.settings)
        needed = self.blocks.blocks_for(len(prompt) + max_new - 1)
        if needed > self.blocks.n_blocks:
            raise ValueError(
                f"request {request.id!r:.60} may need {needed} blocks, and the pool has {self.blocks.n_blocks}: "
                f"shorten it, or make a larger pool"
            )
        request.prompt, request.max_new, request.cache_limit = prompt, max_new, limit
        request.generator = request.settings.generator()
        request.turn = len(self.requests)
        self.requests[request.id] = request
        self.scheduler.add(request)

    def cancel(self, request_id: str) -> None:
        """Stop a request and free its blocks. Raises ValueError for one that is unknown or over."""
        request = self.requests.get(request_id) if isinstance(request_id, str) else None
        if request is None or request.state not in (State.WAITING, State.RUNNING):
            raise ValueError(f"there is no request {request_id!r:.60} in flight")
        self._end(request, State.CANCELLED)

    @property
    def idle(self) -> bool:
        return not self.scheduler.waiting and not self.scheduler.running

    def step(self) -> list[Token]:
        """Compute once for whoever is due. Returns the tokens that came out.

        A step that fails gives all of its requests back to the queue with nothing computed, and raises. A request whose
        token cannot be chosen ends as FAILED, without harm to the others.
        """
        start = self.clock.now()
        plan = self._plan(start)
        if not plan.work:
            return []
        try:
            self.pool.copy_blocks(plan.copies)
            logits = run(self.model, self.pool, [self._row(item) for item in plan.work])
            choices = [self._choose(item, row) for item, row in zip(plan.work, logits.cpu(), strict=True)]
        except BaseException:
            self._give_back(plan)
            raise
        self.clock.worked(plan.n_tokens)
        out: list[Token] = []
        failed: list[Request] = []
        for item, choice in zip(plan.work, choices, strict=True):
            if item.padding:
                continue
            request = item.request
            request.computed += item.n_tokens
            request.positions += item.n_tokens
            request.started = start if request.started != request.started else request.started
            if isinstance(choice, Exception):  # what it has written stays unknown to the prefix cache
                request.error = choice
                failed.append(request)
                continue
            self.blocks.commit(request.id, request.tokens[: request.computed])
            if choice is not None:
                out.append(self._append(request, choice))
        self._record(plan, start, failed)
        for request in failed:
            self._end(request, State.FAILED)
        for token in out:
            if token.finished:
                request = self.requests[token.request]
                self.scheduler.finish(request)
                request.state = State.FINISHED
        return out

    def run(self, requests: Iterable[Request] = ()) -> list[Request]:
        """Submit requests, or none of them when one is refused, and serve until all are done. Returns them.

        Where serving itself is broken off (Ctrl-C, say), those of `requests` that are not done are cancelled.
        """
        requests = list(requests)
        known = set(self.requests)
        try:
            for request in requests:
                self.submit(request)
        except BaseException:
            for name in self.requests.keys() - known:
                request = self.requests.pop(name)
                self.scheduler.drop(request)
                request.generator = None  # as if it had never been here
            raise
        try:
            while not self.idle:
                if not self.step():
                    self._wait()
        except BaseException:
            for request in in_flight(requests):
                self._end(request, State.CANCELLED)
            raise
        return requests

    def _plan(self, now: float) -> Plan:
        """Plan with those who have arrived; the others stay out of sight."""
        later = [request for request in self.scheduler.waiting if request.arrival > now]
        self.scheduler.waiting = [request for request in self.scheduler.waiting if request.arrival <= now]
        try:
            return self.scheduler.plan()
        finally:
            self.scheduler.waiting += later
            self.scheduler.waiting.sort(key=lambda request: request.place)

    def _wait(self) -> None:
        """Nothing came out: let time pass if everybody is still on the way."""
        if not self.scheduler.running and self.scheduler.waiting:
            self.clock.wait_until(self.scheduler.waiting[0].arrival)

    def _row(self, item: Work) -> Row:
        tokens = item.request.tokens[item.start : item.start + item.n_tokens]
        return Row(tokens, item.start, self.blocks.block_table(item.request.id))

    def _choose(self, item: Work, logits: torch.Tensor) -> _Chosen | Exception | None:
        """The next token of a request, or what stands in its way. None when none is due. Changes nothing."""
        request = item.request
        if item.padding or item.start + item.n_tokens < request.length:
            return None
        assert request.generator is not None
        generator = request.generator.clone_state()
        context = Generation(list(request.prompt))
        try:
            return _Chosen(choose(logits, request.settings, request.tokens, context, generator), generator)
        except Exception as error:  # a caller's own processor may raise anything
            return error

    def _append(self, request: Request, chosen: _Chosen) -> Token:
        token, request.generator = chosen
        request.output.append(token)
        request.token_times.append(self.clock.now())
        tokenizer = self.model.tokenizer
        ended = tokenizer is not None and token == tokenizer.eos_id and not request.ignore_eos
        return Token(request.id, token, ended or len(request.output) >= request.max_new)

    def _end(self, request: Request, state: State) -> None:
        """Before its last token: free what it holds."""
        self.scheduler.drop(request)
        request.state = state

    def _give_back(self, plan: Plan) -> None:
        for request in {id(item.request): item.request for item in plan.work if not item.padding}.values():
            self._end(request, State.WAITING)
            request.computed = 0
            self.scheduler.add(request)

    def _record(self, plan: Plan, start: float, failed: list[Request]) -> None:
        held = sum(request.computed for request in self.scheduler.running)
        reserved = self.blocks.n_used * self.blocks.block_size
        work = tuple((item.request.id, item.start, item.n_tokens, item.padding) for item in plan.work)
        counts = (self.blocks.n_used, self.blocks.n_free, self.blocks.n_shared)
        names = tuple(request.id for request in failed)
        self.log.append(StepLog(start, self.clock.now(), work, *counts, held, reserved, names))
