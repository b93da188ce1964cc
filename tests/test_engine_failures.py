"""What goes wrong for one request, or before an engine is made, harms nothing else."""

import pytest
import torch

from kvlab import room
from kvlab.engine import POLICIES, Engine, PagedPool, Request, State, StepClock
from kvlab.generate import generate_cached
from kvlab.sampling import SamplingSettings
from test_engine import MODEL, alone, engine, make_model


def after(n_tokens, error):
    """Settings whose processor lets so many tokens of an answer to [9, 8] pass, then raises `error`."""

    def processor(ids, logits):
        if len(ids) == 2 + n_tokens:
            raise error
        return logits

    return SamplingSettings(temperature=0, processors=[processor])


@pytest.mark.parametrize("n_tokens", [0, 2])
@pytest.mark.parametrize("first", ["good", "bad"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_without_a_next_token_ends_alone(policy, first, n_tokens):
    served = engine(policy)
    error = KeyError("no such word")
    good = [Request("good", [1, 2, 3], 3), Request("short", [5, 6], 1), Request("late", [4], 6, arrival=3)]
    bad = Request("bad", [9, 8], 6, after(n_tokens, error))
    for request in [*good, bad] if first == "good" else [bad, *good]:
        served.submit(request)
    tokens = []
    for _ in range(60):
        tokens += served.step() or [served._wait()]
        served.blocks.check()
        if served.idle:
            break
    assert served.idle and served.blocks.n_used == 0
    assert bad.state is State.FAILED and bad.error is error and bad.output == alone([9, 8], 6)[:n_tokens]
    assert [step.failed for step in served.log if step.failed] == [("bad",)]
    for request in good:
        assert request.state is State.FINISHED and request.error is None
        assert request.output == alone(request.prompt, request.max_new)
    for request in served.requests.values():
        came_out = [token for token in tokens if token and token.request == request.id]
        assert [token.token for token in came_out] == request.output
        assert [token.finished for token in came_out].count(True) == (request is not bad)
    with pytest.raises(ValueError, match="in flight"):
        served.cancel("bad")
    again = Request("again", [9, 8], 6)
    served.run([again])
    assert again.output == alone([9, 8], 6)


def test_settings_that_leave_no_token_do_not_stop_the_engine():
    """The plain case: a penalty so small that float32 makes inf of it."""
    model = make_model().float()
    model.reset_rope(torch.float32)
    served = Engine(model, 40, 4, clock=StepClock())
    bad = Request("bad", [1, 2], 5, SamplingSettings(repetition_penalty=1e-40, seed=1))
    good = Request("good", [3], 3)
    assert served.run([bad, good]) == [bad, good]
    assert bad.state is State.FAILED and "logits" in str(bad.error)
    assert good.state is State.FINISHED and len(good.output) == 3


def test_a_failed_request_registers_nothing_of_its_last_step():
    served = engine("chunked", block_size=2)
    served.run([Request("bad", [9, 8], 3, after(0, KeyError()))])
    assert served.blocks.n_cached == 0
    served.run([Request("good", [9, 8], 3)])
    assert served.blocks.n_cached == 2


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n_blocks", [6, 12, 40])
def test_nan_in_one_request_reaches_no_other(policy, n_blocks):
    """Token 7 makes NaN of its K and V. Blocks are reused, and short block tables are filled up: both must not leak."""
    model = make_model()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone(), requires_grad=False)
    with torch.no_grad():
        model.model.embed_tokens.weight[7] = torch.nan
    without_7 = SamplingSettings(temperature=0, logit_bias={7: -100})
    served = Engine(model, n_blocks, 4, policy, max_seqs=4, token_budget=8, clock=StepClock())
    bad = [Request("a", [7] * 9, 5, without_7), Request("c", [3, 4, 7], 5, without_7, arrival=3)]
    good = [
        Request("b", [1, 2, 3, 4, 5, 6], 12, without_7),
        Request("d", [9], 12, without_7, arrival=6),
        Request("e", [9, 8], 12, without_7, arrival=8),
    ]
    served.run([*bad, *good])
    assert all(request.state is State.FAILED for request in bad)
    for request in good:
        wanted = generate_cached(model, request.prompt, 12, without_7, ignore_eos=True).tokens
        assert request.state is State.FINISHED and request.output == wanted


def test_breaking_off_while_tokens_are_chosen_takes_the_step_back():
    """Also the draws of those who had their token already: the same answer comes out afterwards."""
    hot = SamplingSettings(temperature=1.0, seed=5)
    stops = [KeyboardInterrupt()]

    def processor(ids, logits):
        if len(ids) == 4 and stops:
            raise stops.pop()
        return logits

    served = engine("chunked")
    first = Request("first", [1, 2], 6, hot)
    served.submit(first)
    served.submit(Request("breaks", [3, 4], 6, SamplingSettings(temperature=0, processors=[processor])))
    with pytest.raises(KeyboardInterrupt):
        served.run()
    assert len(first.output) == 2 and served.blocks.n_used == 0 and first.state is State.WAITING
    served.run()
    assert first.output == alone([1, 2], 6, hot)
    assert served.requests["breaks"].output == alone([3, 4], 6)


def test_run_leaves_nothing_queued_when_it_is_broken_off(monkeypatch):
    served = engine("chunked", max_seqs=2)
    made = [Request("done", [1], 1), Request("long", [2], 9), Request("waiting", [3], 9)]
    true_choose, calls = served.step.__globals__["choose"], []

    def choose(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return true_choose(*args)

    with monkeypatch.context() as patch:
        patch.setitem(served.step.__globals__, "choose", choose)
        with pytest.raises(KeyboardInterrupt):
            served.run(made)
    assert [request.state for request in made] == [State.FINISHED, State.CANCELLED, State.CANCELLED]
    assert served.idle and served.blocks.n_used == 0
    served.blocks.check()


@pytest.mark.parametrize("error", [TypeError, KeyboardInterrupt])
def test_run_takes_none_whatever_goes_wrong_while_they_are_submitted(error, monkeypatch):
    served = engine("chunked")
    served.submit(Request("before", [5], 2))
    good = Request("good", [1, 2], 3)

    def fail(*_):
        raise error

    bad = Request("bad", [3], 3)
    with monkeypatch.context() as patch:
        patch.setattr(SamplingSettings, "generator", lambda self: fail() if self is bad.settings else torch.Generator())
        with pytest.raises(error):
            served.run([good, bad])
    assert set(served.requests) == {"before"} and [r.id for r in served.scheduler.waiting] == ["before"]
    served.run([good])
    assert good.output == alone([1, 2], 3)


@pytest.mark.parametrize("sizes", [(10**8, 16), (10**12, 16), (256, 10**12), (10**18, 10**18)])
def test_a_pool_larger_than_the_memory_is_refused_before_it_is_made(sizes):
    with pytest.raises(ValueError, match="are free: choose fewer") as info:
        Engine(MODEL, *sizes)
    assert "\n" not in str(info.value)


def test_the_free_memory_decides(monkeypatch):
    needed = PagedPool(MODEL.layout(), 30, 4).nbytes
    monkeypatch.setattr(room, "available_memory", lambda: needed)
    PagedPool(MODEL.layout(), 30, 4)
    monkeypatch.setattr(room, "available_memory", lambda: needed - 1)
    with pytest.raises(ValueError, match="a pool of 30 blocks of 4 positions would take"):
        PagedPool(MODEL.layout(), 30, 4)
    PagedPool(MODEL.layout()._replace(device=torch.device("meta")), 10**6, 4)  # no memory at all


class NotReadable:
    """A model with the readable one's calls and without its layers, as the fast ones are."""

    layout, config, tokenizer = MODEL.layout, MODEL.config, None


@pytest.mark.parametrize("model", [NotReadable(), None, "primer"])
def test_another_kind_of_model_is_refused_when_the_engine_is_made(model):
    with pytest.raises(ValueError, match=r"the engine serves a model of kvlab.load"):
        Engine(model)


def test_a_clock_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"clock must be a RealClock\(\) or a StepClock\(\)"):
        Engine(MODEL, clock=5)
