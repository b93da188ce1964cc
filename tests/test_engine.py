"""The engine gives every request exactly what it would get alone, under every policy, and counts what it did."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.config import ModelConfig
from kvlab.engine import POLICIES, Engine, Request, State, StepClock, paged_gather
from kvlab.engine.pool import decode_bias, paged_decode_attention
from kvlab.generate import generate_cached
from kvlab.loading import initialise
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings

CONFIG = ModelConfig(50, 16, 2, 4, 2, 4, 32, 128)


def make_model() -> Llama:
    torch.manual_seed(3)
    model = Llama(CONFIG)
    initialise(model)
    model = model.double().eval()
    model.reset_rope(torch.float64)
    return model


MODEL = make_model()


def alone(prompt, max_new, settings_=None):
    settings_ = settings_ or SamplingSettings(temperature=0)
    return generate_cached(MODEL, list(prompt), max_new, settings_, ignore_eos=True).tokens


def engine(policy, n_blocks=40, block_size=4, **options):
    return Engine(
        MODEL, n_blocks, block_size, policy, clock=StepClock(), **{"max_seqs": 4, "token_budget": 16} | options
    )


requests = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 12), st.floats(0, 20), st.integers(0, 2)), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(requests, st.sampled_from(POLICIES), st.integers(11, 40), st.integers(4, 9), st.integers(1, 4), st.booleans())
def test_every_policy_gives_the_tokens_of_the_single_request(trace, policy, n_blocks, budget, max_seqs, caching):
    served = engine(policy, n_blocks, 4, token_budget=budget, max_seqs=max_seqs, prefix_caching=caching)
    made = [
        Request(str(i), [(3 * j + family) % 50 for j in range(n)], new, arrival=at)
        for i, (n, new, at, family) in enumerate(trace)
    ]
    for request in made:
        served.submit(request)
    steps = 0
    while not served.idle:
        if not served.step():
            served._wait()
        steps += 1
        served.blocks.check()
        assert steps < 3000, "nobody starves"
        if served.log:
            last = served.log[-1]
            assert len(last.work) <= max_seqs
            if policy == "chunked":
                assert last.n_tokens <= budget
    for request in made:
        assert request.state is State.FINISHED
        assert request.output == alone(request.prompt, request.max_new), (policy, request.preemptions)
        assert len(request.token_times) == len(request.output)
        assert all(gap > 0 for gap in request.gaps) and request.ttft > 0
    assert served.blocks.n_used == 0


def test_sampling_is_that_of_the_single_request():
    hot = SamplingSettings(temperature=1.0, top_p=0.9, repetition_penalty=1.2, seed=5)
    made = [Request(str(i), range(3, 9 + i), 10, hot) for i in range(5)]
    engine("chunked", token_budget=7).run(made)
    for request in made:
        assert request.output == alone(request.prompt, 10, hot)


def test_preemption_recomputes_and_changes_nothing():
    made = [Request(str(i), [i + 1] * 10, 12) for i in range(3)]
    served = engine("chunked", n_blocks=11)
    served.run(made)
    assert sum(request.preemptions for request in made) > 0
    assert made[0].preemptions == 0, "who came first goes on"
    for request in made:
        assert request.output == alone(request.prompt, 12)
        assert request.positions + request.from_cache >= 10 + 12 - 1


def test_who_comes_back_into_the_queue_keeps_his_place_among_equal_arrivals():
    made = [Request(str(i), [i + 1] * 10, 12) for i in range(5)]
    served = engine("chunked", n_blocks=11, max_seqs=3)
    served.run(made)
    assert sum(request.preemptions for request in made) > 0
    ends = [request.token_times[-1] for request in made]
    assert ends == sorted(ends)


def test_a_prefix_hit_saves_its_positions():
    shared = list(range(36))
    first, second = Request("a", [*shared, 40], 2), Request("b", [*shared, 41, 42, 43, 44], 2, arrival=5)
    engine("chunked", token_budget=64).run([first, second])
    assert first.from_cache == 0 and second.from_cache == 36
    assert second.positions == 4 + 1
    assert second.output == alone(second.prompt, 2)


def test_static_batches_wait_for_the_longest_and_pad():
    made = [Request("short", [1, 2], 2), Request("long", [3, 4], 9), Request("late", [5], 2)]
    served = engine("static", max_seqs=2)
    served.run(made)
    assert made[2].started >= made[1].token_times[-1]
    assert sum(step.n_padding for step in served.log) == 9 - 2
    both = engine("continuous", max_seqs=2)
    again = [Request("short", [1, 2], 2), Request("long", [3, 4], 9), Request("late", [5], 2)]
    both.run(again)
    assert again[2].started < again[1].token_times[-1]
    assert sum(step.n_padding for step in both.log) == 0
    assert len(both.log) < len(served.log)


def test_a_long_prompt_stalls_the_others_unless_it_is_cut():
    def worst_gap(policy):
        served = Engine(MODEL, 40, 4, policy, max_seqs=4, token_budget=8, clock=StepClock(0.0, 1.0))
        talking = Request("talking", [1, 2], 20)
        served.run([talking, Request("long", [3] * 60, 2, arrival=4)])
        return max(talking.gaps)

    # The prompt of 60, then a step in which both decode.
    assert worst_gap("continuous") == 60 + 2 and worst_gap("chunked") <= 8


def test_cancelling_frees_everything_and_registers_nothing_unwritten():
    for policy in POLICIES:
        served = engine(policy, token_budget=8)
        served.submit(Request("a", list(range(30)), 10))
        served.submit(Request("b", list(range(30)), 10))
        served.step()
        served.cancel("a")
        served.blocks.check()
        with pytest.raises(ValueError, match="no request 'a' in flight"):
            served.cancel("a")
        with pytest.raises(ValueError, match="no request 'nobody'"):
            served.cancel("nobody")
        served.run()
        assert served.requests["b"].output == alone(range(30), 10)
        assert served.requests["a"].state is State.CANCELLED
        assert served.blocks.n_used == 0


def test_a_step_that_fails_can_be_repeated(monkeypatch):
    served = engine("chunked")
    made = [Request("a", [1, 2, 3], 5), Request("b", [4] * 20, 5)]
    for request in made:
        served.submit(request)
    served.step()
    calls = {"left": 1}
    true_run = served.step.__globals__["run"]

    def failing(*args):
        if calls["left"]:
            calls["left"] -= 1
            raise KeyboardInterrupt
        return true_run(*args)

    monkeypatch.setitem(served.step.__globals__, "run", failing)
    with pytest.raises(KeyboardInterrupt):
        served.step()
    served.blocks.check()
    served.run()
    for request in made:
        assert request.output == alone(request.prompt, 5)


def test_a_request_serves_one_engine_only():
    request = Request("a", [1], 3)
    engine("chunked").submit(request)
    with pytest.raises(ValueError, match="used before"):
        engine("chunked").submit(request)


@pytest.mark.parametrize("policy", POLICIES)
def test_whole_numbers_may_be_floats(policy):
    request = Request("a", [1, 2, 3, 4, 5], 3.0, cache_limit=4.0)
    engine(policy).run([request])
    assert request.output == alone([1, 2, 3, 4, 5], 3)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("x", "the engine takes Request"),
        (Request(["x"], [1], 3), "text as its id"),
        (Request("x", [1], 3, cache_salt="x"), "cache_salt must be bytes"),
        (Request("x", [1], 3, cache_salt=5), "cache_salt must be bytes"),
        (Request("x", [], 3), "prompt is empty"),
        (Request("x", [1], 0), "max_new must be at least 1"),
        (Request("x", [1] * 120, 20), "exceed the window"),
        (Request("x", [1] * 30, 20), "may need 13 blocks, and the pool has 10"),
        (Request("x", [50], 3), "outside the vocabulary"),
        (Request("x", [1], 3, arrival=-1.0), "arrival"),
        (Request("x", [1], 3, arrival=math.nan), "arrival"),
        (Request("x", [1], 3, cache_limit=-1), "cache_limit"),
        (Request("a", [1], 3), "there is a request 'a' already"),
        (Request("x", [1], 3, SamplingSettings(logit_bias={99: 1.0})), "logit_bias"),
    ],
)
def test_what_can_never_be_served_is_refused_and_the_rest_goes_on(request_, message):
    served = engine("chunked", n_blocks=10)
    served.submit(Request("a", [1, 2], 3))
    with pytest.raises(ValueError, match=message):
        served.run([Request("fine", [3], 2), request_])
    assert set(served.requests) == {"a"}
    served.run()
    assert served.requests["a"].output == alone([1, 2], 3)
    assert served.blocks.n_used == 0


def test_cancel_takes_ids_only():
    with pytest.raises(ValueError, match="no request"):
        engine("chunked").cancel([1])


@pytest.mark.parametrize(
    "options",
    [{"policy": "fifo"}, {"n_blocks": 0}, {"block_size": 0}, {"max_seqs": 0}, {"token_budget": 0}, {"token_budget": 3}],
)
def test_bad_sizes_are_refused(options):
    with pytest.raises(ValueError):
        Engine(MODEL, **{"policy": "chunked", "max_seqs": 4} | options)


def test_paged_attention_reads_through_the_table():
    torch.manual_seed(0)
    pool_k, pool_v = torch.randn(2, 9, 4, 2, 8, dtype=torch.float64)
    q = torch.randn(3, 6, 8, dtype=torch.float64)
    tables = torch.tensor([[3, 1, 7], [8, 0, 0], [2, 5, 0]])
    lengths = torch.tensor([10, 1, 8])
    out = paged_decode_attention(q, pool_k, pool_v, tables, decode_bias(lengths, 12, q.dtype))
    for s in range(3):
        k, v = (paged_gather(pool, tables[s], int(lengths[s])) for pool in (pool_k, pool_v))
        for h in range(6):
            weights = (k[:, h // 3] @ q[s, h] / math.sqrt(8)).softmax(0)
            torch.testing.assert_close(out[s, h], weights @ v[:, h // 3])


def test_paged_gather_refuses_what_is_not_there():
    pool = torch.arange(24.0).reshape(3, 4, 1, 2)
    assert paged_gather(pool, [2, 0], 5).shape == (5, 1, 2)
    assert paged_gather(pool, [], 0).shape == (0, 1, 2)
    for table, length in (([0], 5), ([3], 1), ([-1], 1), ([0], -1)):
        with pytest.raises(ValueError):
            paged_gather(pool, table, length)
