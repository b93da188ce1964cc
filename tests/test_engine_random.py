"""Random runs of the engine: requests that share beginnings, small pools, cancellations, failures, every policy.

After every step all invariants hold; at the end each request has exactly the tokens that it gets alone (greedy,
float64). 500 runs in the long form (KVLAB_FULL=1), 40 of them in the short one.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch

from kvlab.cache import PreallocatedCache
from kvlab.engine import POLICIES, Engine, Request, State, StepClock
from kvlab.generate import generate_cached
from kvlab.sampling import SamplingSettings
from test_engine import MODEL

VOCAB = MODEL.config.vocab_size


@cache
def alone(prompt: tuple[int, ...], max_new: int) -> list[int]:
    return generate_cached(MODEL, list(prompt), max_new, SamplingSettings(temperature=0), ignore_eos=True).tokens


def draw(rng: np.random.Generator) -> tuple[Engine, list[Request]]:
    """An engine and its requests. Two families of beginnings, so that prefixes are hit; salts and limits now and then."""
    policy = POLICIES[rng.integers(3)]
    max_seqs, block_size = int(rng.integers(1, 7)), int(rng.integers(1, 9))
    longest = 48
    blocks = -(-longest // block_size) + int(rng.integers(0, 12))
    budget = max_seqs + int(rng.integers(0, 20))
    engine = Engine(
        MODEL, blocks, block_size, policy, max_seqs, budget, prefix_caching=bool(rng.integers(5)), clock=StepClock()
    )
    beginnings = [rng.integers(0, VOCAB, 24).tolist() for _ in range(2)]
    requests = []
    for i in range(int(rng.integers(2, 9))):
        prompt = [*beginnings[rng.integers(2)][: rng.integers(0, 25)], *rng.integers(0, VOCAB, rng.integers(1, 9))]
        prompt = [int(token) for token in prompt]
        requests.append(
            Request(
                str(i),
                prompt,
                int(rng.integers(1, min(16, longest - len(prompt) + 1) + 1)),
                arrival=float(rng.choice([0.0, rng.uniform(0, 25)])),
                cache_salt=b"other" if rng.random() < 0.1 else b"",
                cache_limit=int(rng.integers(0, 20)) if rng.random() < 0.1 else None,
            )
        )
    return engine, requests


def check_state(engine: Engine) -> None:
    """What must hold between any two steps."""
    blocks, running = engine.blocks, engine.scheduler.running
    blocks.check()
    assert blocks.n_used + blocks.n_free == blocks.n_blocks
    assert len(running) <= engine.scheduler.max_seqs
    assert running == sorted(running, key=lambda request: request.place)
    holding = {*running, *engine.scheduler.finished_rows}
    for request in engine.requests.values():
        assert (request.id in blocks) == (request in holding), "blocks belong to those who run, and to nobody else"
        if request in running:
            assert request.state is State.RUNNING
            assert request.computed <= blocks.reserved(request.id) <= request.length + request.max_new
        elif request.state is State.WAITING:
            assert request.computed == 0
    if engine.log:
        step = engine.log[-1]
        named = [name for name, *_ in step.work]
        assert len(set(named)) == len(named) <= engine.scheduler.max_seqs
        if engine.scheduler.policy == "chunked":
            assert step.n_tokens <= engine.scheduler.token_budget
        if engine.scheduler.policy != "static":
            assert step.n_padding == 0


def check_values(engine: Engine) -> None:
    """The pool holds, for every running request, the K that a cache of its own would hold."""
    for request in engine.scheduler.running:
        if not request.computed:
            continue
        own = PreallocatedCache(MODEL.config, dtype=MODEL.dtype)
        with torch.no_grad():
            MODEL(torch.tensor(request.tokens[: request.computed]), own)
        table = torch.tensor(engine.blocks.block_table(request.id))
        for layer in range(MODEL.config.n_layers):
            k, v = engine.pool.gather(layer, table, request.computed)
            want_k, want_v = own.view(layer)
            torch.testing.assert_close(k.transpose(0, 1), want_k[0])
            torch.testing.assert_close(v.transpose(0, 1), want_v[0])


def serve(seed: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """One random run with all checks. Returns how often each thing happened."""
    rng = np.random.default_rng(seed)
    engine, requests = draw(rng)
    true_run = Engine.step.__globals__["run"]

    def run(*args: object) -> torch.Tensor:
        if rng.random() < 0.02:
            raise KeyboardInterrupt
        return true_run(*args)

    monkeypatch.setitem(Engine.step.__globals__, "run", run)
    for request in requests:
        engine.submit(request)
    seen: Counter[str] = Counter(runs=1)
    order: dict[str, int] = {}
    for step in range(4000):
        if engine.idle:
            break
        if rng.random() < 0.03:
            flying = [r for r in requests if r.state in (State.WAITING, State.RUNNING)]
            victim = flying[rng.integers(len(flying))]
            engine.cancel(victim.id)
            seen["cancelled while " + ("running" if victim.computed else "waiting")] += 1
            check_state(engine)
            continue
        try:
            if not engine.step() and not engine.scheduler.running and engine.scheduler.waiting:
                engine.clock.wait_until(engine.scheduler.waiting[0].arrival)
        except KeyboardInterrupt:
            seen["failed steps"] += 1
        check_state(engine)
        if step % 10 == 5:
            check_values(engine)
        for request in requests:
            if request.started == request.started:
                order.setdefault(request.id, step)
    assert engine.idle, "nobody starves"
    for request in requests:
        want = alone(tuple(request.prompt), request.max_new)
        if request.state is State.CANCELLED:
            assert request.output == want[: len(request.output)]
        else:
            assert request.state is State.FINISHED and request.output == want, (seed, request)
            assert request.ttft > 0 and all(gap > 0 for gap in request.gaps)
    # Who came earlier started no later.
    served = sorted((r for r in requests if r.id in order), key=lambda request: request.place)
    assert [order[r.id] for r in served] == sorted(order[r.id] for r in served)
    assert engine.blocks.n_used == 0 and engine.blocks.n_shared == 0
    seen["preemptions"] += sum(request.preemptions for request in requests)
    seen["prefix hits"] += sum(request.from_cache > 0 for request in requests)
    seen[engine.scheduler.policy] += 1
    return seen


EVENTS = ("preemptions", "prefix hits", "failed steps", "cancelled while running", "cancelled while waiting", *POLICIES)


def serve_many(seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        with monkeypatch.context() as patch:
            total += serve(seed, patch)
    print(dict(total))
    assert all(total[event] for event in EVENTS), f"a run that never met one of these proves little: {total}"
    return total


def test_random_runs_keep_every_invariant_and_every_token(monkeypatch):
    assert serve_many(range(40), monkeypatch)["runs"] == 40


@pytest.mark.full
def test_random_runs_in_the_long_form(monkeypatch):
    assert serve_many(range(500), monkeypatch)["runs"] == 500
