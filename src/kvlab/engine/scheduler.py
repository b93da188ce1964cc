"""Which requests compute how many tokens in the next step. Three policies over one block manager.

- `static`: a batch is filled once; the next one starts when the longest answer of it is done. Rows that have finished
  stay as padding.
- `continuous`: a request joins and leaves at any step (Yu et al., 2022, Orca). A new prompt is computed whole, in a
  step of its own, so those who decode wait for it.
- `chunked`: as continuous, but a step has a budget of tokens. Decodes come first; what is left goes to pieces of
  prompts (Agrawal et al., 2024, Sarathi-Serve, arXiv 2403.02310).

When no block is left, the request that came last gives its blocks back and is computed again later (preemption by
recomputation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvlab.engine.blocks import BlockManager, OutOfBlocks
from kvlab.engine.request import Request, State
from kvlab.validate import whole

POLICIES = ("static", "continuous", "chunked")


@dataclass(frozen=True)
class Work:
    """`n_tokens` of one request, from position `start` on. `padding`: the row is computed and thrown away."""

    request: Request
    start: int
    n_tokens: int
    padding: bool = False


@dataclass
class Plan:
    """One step: the work, and the blocks to copy before it."""

    work: list[Work] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)

    @property
    def n_tokens(self) -> int:
        return sum(item.n_tokens for item in self.work)


class Scheduler:
    """max_seqs: requests in one step. token_budget: tokens in one step of `chunked`, and of prompts in `continuous`.

    A prompt longer than the budget has a step to itself under `continuous`, which cannot cut it.
    """

    def __init__(
        self, blocks: BlockManager, policy: str = "chunked", max_seqs: int = 16, token_budget: int = 256
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f"unknown policy {policy!r}; choose from {', '.join(POLICIES)}")
        self.blocks = blocks
        self.policy = policy
        self.max_seqs = whole("max_seqs", max_seqs, least=1)
        self.token_budget = whole("token_budget", token_budget, least=1)
        if policy == "chunked" and token_budget < max_seqs:
            raise ValueError(f"a token budget of {token_budget} cannot hold one token of each of {max_seqs} requests")
        self.waiting: list[Request] = []  # by arrival
        self.running: list[Request] = []  # by arrival
        self.finished_rows: list[Request] = []  # static only: rows that wait for the batch to end

    def add(self, request: Request) -> None:
        self.waiting.append(request)
        self.waiting.sort(key=lambda r: r.place)

    def plan(self) -> Plan:
        """The next step. May preempt; requests it takes up leave `waiting`. Empty when nothing can be done."""
        return {"static": self._static, "continuous": self._continuous, "chunked": self._chunked}[self.policy]()

    def finish(self, request: Request) -> None:
        """A running request is done: free what it holds. Under `static` its row stays until the batch ends."""
        self.running.remove(request)
        if self.policy == "static":
            self.finished_rows.append(request)
            if not self.running:
                for row in self.finished_rows:
                    self.blocks.free(row.id)
                self.finished_rows.clear()
        else:
            self.blocks.free(request.id)

    def drop(self, request: Request) -> None:
        """Forget a request that waits or runs, and free what it holds."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)
        if request.id in self.blocks:
            self.blocks.free(request.id)
        if self.policy == "static" and not self.running:
            for row in self.finished_rows:
                self.blocks.free(row.id)
            self.finished_rows.clear()

    # The policies

    def _static(self) -> Plan:
        plan = Plan()
        if not self.running:
            while self.waiting and len(self.running) < self.max_seqs:
                if not self._admit(self.waiting[0], plan, whole_answer=True):
                    break
            return plan
        plan.work += [Work(request, request.computed, request.remaining) for request in self.running]
        # A row that is over repeats its last computed position: the cost of padding, without a trace.
        plan.work += [Work(row, row.length - 2, 1, padding=True) for row in self.finished_rows]
        return plan

    def _continuous(self) -> Plan:
        plan = Plan()
        while self.waiting and len(self.running) < self.max_seqs:
            first = self.waiting[0]
            if plan.work and plan.n_tokens + first.remaining > self.token_budget:
                break
            if not self._admit(first, plan):
                break
        if plan.work:
            return plan
        for request in list(self.running):
            if request in self.running:  # an earlier one may have taken its blocks
                self._schedule(request, request.remaining, plan)
        return plan

    def _chunked(self) -> Plan:
        plan = Plan()
        for request in sorted(self.running, key=lambda r: not r.decoding):  # decodes first, each group by arrival
            if request in self.running:
                self._schedule(request, min(request.remaining, self.token_budget - plan.n_tokens), plan)
        while self.waiting and len(self.running) < self.max_seqs and plan.n_tokens < self.token_budget:
            if not self._admit(self.waiting[0], plan, at_most=self.token_budget - plan.n_tokens):
                break
        return plan

    def _admit(self, request: Request, plan: Plan, at_most: int | None = None, whole_answer: bool = False) -> bool:
        """Take up a waiting request, if there is room for it without taking blocks from others."""
        saved = self.blocks.start(request.id, request.tokens, request.cache_salt, request.cache_limit)
        request.computed = saved
        n_tokens = request.remaining if at_most is None else min(request.remaining, at_most)
        final = len(request.prompt) + request.max_new if whole_answer else request.length + 1
        needed = self.blocks.blocks_for(final - 1) - len(self.blocks.block_table(request.id))
        if needed > self.blocks.n_free:
            self.blocks.free(request.id)
            request.computed = 0
            return False
        if request.preemptions == 0:
            request.from_cache = saved
        # `static` takes the room for the longest possible answer at once; the last token is never fed back.
        room = final - 1 - saved if whole_answer else n_tokens
        plan.copies += self.blocks.reserve(request.id, room)
        plan.work.append(Work(request, saved, n_tokens))
        self.waiting.remove(request)
        self.running.append(request)
        self.running.sort(key=lambda r: r.place)
        request.state = State.RUNNING
        return True

    def _schedule(self, request: Request, n_tokens: int, plan: Plan) -> None:
        """Give a running request its tokens; others that came later lose their blocks when there are none left."""
        if n_tokens < 1:
            return
        while True:
            try:
                copies = self.blocks.reserve(request.id, n_tokens)
            except OutOfBlocks:
                victim = self._victim(plan)
                self._preempt(victim, plan)
                if victim is request:
                    return
            else:
                plan.copies += copies
                plan.work.append(Work(request, request.computed, n_tokens))
                return

    def _victim(self, plan: Plan) -> Request:
        """The running request that came last, of those without work in this step; else the one that came last."""
        scheduled = {id(item.request) for item in plan.work}
        free = [request for request in self.running if id(request) not in scheduled]
        return (free or self.running)[-1]

    def _preempt(self, request: Request, plan: Plan) -> None:
        self.blocks.free(request.id)
        self.running.remove(request)
        plan.work = [item for item in plan.work if item.request is not request]
        request.computed = 0
        request.preemptions += 1
        request.state = State.WAITING
        self.add(request)


def in_flight(requests: Iterable[Request]) -> list[Request]:
    """Requests that are neither finished nor cancelled."""
    return [r for r in requests if r.state in (State.WAITING, State.RUNNING)]
