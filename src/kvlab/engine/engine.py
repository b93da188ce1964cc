"""A small real serving engine: requests in, tokens out, many at once over one paged cache.

    engine = Engine(model, n_blocks=256, block_size=16, policy="chunked")
    engine.run([Request("a", ids, max_new=20), Request("b", other, arrival=0.5)])

A step plans (`scheduler`), copies shared blocks that are about to be written, runs the model once (`runner`), and
chooses a token for every request whose last position was among the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from kvlab.engine.blocks import BlockManager
from kvlab.engine.clock import Clock, RealClock
from kvlab.engine.pool import PagedPool
from kvlab.engine.request import Request, State
from kvlab.engine.runner import Row, run
from kvlab.engine.scheduler import Plan, Scheduler, Work
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
    """What one step did. `work`: (request id, first position, tokens, padding). Blocks are counted after the step."""

    start: float
    end: float
    work: tuple[tuple[str, int, int, bool], ...]
    blocks_used: int
    blocks_free: int
    blocks_shared: int
    positions_held: int
    positions_reserved: int

    @property
    def n_tokens(self) -> int:
        return sum(n for _, _, n, _ in self.work)

    @property
    def n_padding(self) -> int:
        return sum(n for _, _, n, padding in self.work if padding)


class Engine:
    """Serves one model. Sizes below 1, and an unknown policy, raise ValueError."""

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
        self.model = model
        self.blocks = BlockManager(n_blocks, block_size, prefix_caching)
        self.scheduler = Scheduler(self.blocks, policy, max_seqs, token_budget)
        self.pool = PagedPool(model.layout(), n_blocks, block_size)
        self.clock: Clock = RealClock() if clock is None else clock
        self.requests: dict[str, Request] = {}
        self.log: list[StepLog] = []

    def submit(self, request: Request) -> None:
        """Take a request in. Raises ValueError, and takes nothing, for one that can never be served."""
        if request.id in self.requests:
            raise ValueError(f"there is a request {request.id!r} already: every request needs an id of its own")
        whole("max_new", request.max_new, least=1)
        amount("arrival", request.arrival)
        if request.cache_limit is not None:
            whole("cache_limit", request.cache_limit)
        if request.state is not State.WAITING or request.output:
            raise ValueError(f"request {request.id!r} was used before: make a new one")
        request.prompt = prompt_ids(self.model, request.prompt, request.max_new)
        check_settings(self.model, request.settings)
        needed = self.blocks.blocks_for(len(request.prompt) + request.max_new - 1)
        if needed > self.blocks.n_blocks:
            raise ValueError(
                f"request {request.id!r} may need {needed} blocks, and the pool has {self.blocks.n_blocks}: "
                f"shorten it, or make a larger pool"
            )
        request.generator = request.settings.generator()
        request.turn = len(self.requests)
        self.requests[request.id] = request
        self.scheduler.add(request)

    def cancel(self, request_id: str) -> None:
        """Stop a request and free its blocks. Raises ValueError for one that is unknown or over."""
        request = self.requests.get(request_id)
        if request is None or request.state not in (State.WAITING, State.RUNNING):
            raise ValueError(f"there is no request {request_id!r} in flight")
        self.scheduler.drop(request)
        request.state = State.CANCELLED

    @property
    def idle(self) -> bool:
        return not self.scheduler.waiting and not self.scheduler.running

    def step(self) -> list[Token]:
        """Compute once for whoever is due. Returns the tokens that came out.

        A step that fails gives all of its requests back to the queue with nothing computed, and raises.
        """
        start = self.clock.now()
        plan = self._plan(start)
        if not plan.work:
            return []
        try:
            self.pool.copy_blocks(plan.copies)
            logits = run(self.model, self.pool, [self._row(item) for item in plan.work])
            logits = logits.cpu()
        except BaseException:
            self._give_back(plan)
            raise
        self.clock.worked(plan.n_tokens)
        out = []
        for item, row in zip(plan.work, logits, strict=True):
            if item.padding:
                continue
            request = item.request
            request.computed += item.n_tokens
            request.positions += item.n_tokens
            request.started = start if request.started != request.started else request.started
            self.blocks.commit(request.id, request.tokens[: request.computed])
            if request.computed == request.length:
                out.append(self._choose(request, row))
        self._record(plan, start)
        for token in out:
            if token.finished:
                request = self.requests[token.request]
                self.scheduler.finish(request)
                request.state = State.FINISHED
        return out

    def run(self, requests: Iterable[Request] = ()) -> list[Request]:
        """Submit requests, or none of them when one is refused, and serve until all are done. Returns them."""
        requests = list(requests)
        taken: list[Request] = []
        try:
            for request in requests:
                self.submit(request)
                taken.append(request)
        except ValueError:
            for request in taken:
                self.cancel(request.id)
                del self.requests[request.id]
                request.state = State.WAITING
            raise
        while not self.idle:
            if not self.step():
                self._wait()
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

    def _choose(self, request: Request, logits: torch.Tensor) -> Token:
        assert request.generator is not None
        context = Generation(list(request.prompt))
        token = choose(logits, request.settings, request.tokens, context, request.generator)
        request.output.append(token)
        request.token_times.append(self.clock.now())
        tokenizer = self.model.tokenizer
        ended = tokenizer is not None and token == tokenizer.eos_id and not request.ignore_eos
        return Token(request.id, token, ended or len(request.output) == request.max_new)

    def _give_back(self, plan: Plan) -> None:
        for request in {id(item.request): item.request for item in plan.work if not item.padding}.values():
            self.scheduler.drop(request)
            request.computed = 0
            request.state = State.WAITING
            self.scheduler.add(request)

    def _record(self, plan: Plan, start: float) -> None:
        held = sum(request.computed for request in self.scheduler.running)
        reserved = self.blocks.n_used * self.blocks.block_size
        work = tuple((item.request.id, item.start, item.n_tokens, item.padding) for item in plan.work)
        counts = (self.blocks.n_used, self.blocks.n_free, self.blocks.n_shared)
        self.log.append(StepLog(start, self.clock.now(), work, *counts, held, reserved))
