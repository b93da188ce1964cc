"""The widgets of notebook 08 show what the plain functions return, and answer bad input with a sentence."""

import math

import numpy as np
import pytest

import kvlab
from kvlab import arithmetic, faults, generate, sampling, trace, widgets
from kvlab.model import Llama
from kvlab.trace.compare import LIMIT
from kvlab.widgets.trace_stepper import SETTINGS, stage_figure

PNG = b"\x89PNG"
TEXT = "mom washed the"


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu")


@pytest.fixture(scope="module")
def traced(primer: Llama) -> trace.Trace:
    return trace.trace_call(primer, TEXT, SETTINGS)


def step_of(traced: trace.Trace, name: str, phase: str = "prefill") -> int:
    return [(s.name, s.phase) for s in widgets.steps_of(traced)].index((name, phase))


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(
        np.array_equal(a[key], b[key], equal_nan=True) if isinstance(a[key], np.ndarray) else a[key] == b[key]
        for key in a
    )


def test_steps_are_those_of_one_block(traced: trace.Trace) -> None:
    for layer in (0, 7):
        steps = widgets.steps_of(traced, layer)
        assert {s.layer for s in steps} == {None, layer}
        assert [s.name for s in steps] == [s.name for s in widgets.steps_of(traced, 3)]
    assert steps[0].name == "bytes" and steps[-1].name == "token" and steps[-1].phase == "decode"


def test_a_step_shows_the_tensor_of_the_trace(primer: Llama, traced: trace.Trace) -> None:
    seen = widgets.stage_at(primer, traced, step_of(traced, "weights"), 3, 2)
    np.testing.assert_array_equal(seen["matrix"], traced.stage("weights", 3).tensor[2].numpy())
    assert seen["shape"] == (4, 4, 4) and seen["head"] == 2
    assert seen["rows"] == list(enumerate(seen["columns"])) == list(enumerate(primer.tokenizer.pieces(traced.ids)))
    seen = widgets.stage_at(primer, traced, step_of(traced, "keys held", "decode"), 3, 3)
    np.testing.assert_array_equal(seen["matrix"], traced.stage("keys held", 3, "decode").tensor[1].numpy())
    assert len(seen["rows"]) == 5 and seen["head"] == 1, "K has two heads: the last one stands for query head 3"
    seen = widgets.stage_at(primer, traced, step_of(traced, "q", "decode"), 3, 0)
    assert seen["rows"] == [(4, primer.tokenizer.pieces([traced.tokens[0]])[0])]


def test_the_likeliest_tokens_are_those_of_the_logits(primer: Llama, traced: trace.Trace) -> None:
    seen = widgets.stage_at(primer, traced, step_of(traced, "logits"))
    logits = generate.prefill(primer, traced.ids, kvlab.cache.PreallocatedCache(primer.config, 8))
    best = logits.topk(10)
    assert [piece for piece, _ in seen["best"]] == primer.tokenizer.pieces(best.indices.tolist())
    np.testing.assert_allclose([number for _, number in seen["best"]], best.values, atol=1e-3)
    scaled = widgets.stage_at(primer, traced, step_of(traced, "sampling: temperature"))
    assert [piece for piece, _ in scaled["best"]] == [piece for piece, _ in seen["best"]], "its largest number is 0"
    assert scaled["best"][0][1] == 0
    seen = widgets.stage_at(primer, traced, step_of(traced, "probabilities"))
    probs = sampling.next_token_probs(logits, SETTINGS, traced.ids, len(traced.ids))
    assert len(seen["best"]) == min(10, int((probs > 0).sum())) and math.isclose(
        seen["most"], float(probs.max()), abs_tol=1e-4
    )


def test_masked_scores_stay_blank(primer: Llama, traced: trace.Trace) -> None:
    seen = widgets.stage_at(primer, traced, step_of(traced, "scores"))
    assert np.isneginf(seen["matrix"]).sum() == 6 and math.isfinite(seen["least"])
    drawn = np.ma.filled(stage_figure(seen).axes[0].get_images()[0].get_array(), np.nan)
    assert np.isnan(drawn).sum() == 6 and np.array_equal(np.isnan(drawn), np.isneginf(seen["matrix"]))


def test_stepper_shows_what_the_plain_function_returns(primer: Llama, traced: trace.Trace) -> None:
    shown = widgets.trace_stepper(primer, TEXT)
    assert same(shown.values, widgets.stage_at(primer, traced, 0)) and "as UTF-8" in shown.table
    pictures = set()
    for name, phase in (
        ("ids", "prefill"),
        ("rows", "prefill"),
        ("scores", "prefill"),
        ("probabilities", "prefill"),
        ("token", "decode"),
    ):
        step = step_of(traced, name, phase)
        shown.controls["step"].value = step
        assert shown.message == "" and same(shown.values, widgets.stage_at(primer, traced, step))
        assert shown.picture[:4] == PNG and name in shown.table
        pictures.add(shown.picture)
    assert len(pictures) == 5 and repr(primer.tokenizer.pieces([traced.tokens[1]])[0]) in shown.table
    shown.controls["step"].value = step_of(traced, "q")
    shown.controls["layer"].value, shown.controls["head"].value = 5, 1
    assert same(shown.values, widgets.stage_at(primer, traced, step_of(traced, "q"), 5, 1))


def test_stepper_takes_own_text_and_answers_bad_text_with_a_sentence(primer: Llama) -> None:
    shown = widgets.trace_stepper(primer, TEXT, step=1)
    shown.controls["text"].value = "Costs $5 — рама 😀"
    assert shown.message == "" and shown.values["shape"] == (len(primer.tokenizer.encode("Costs $5 — рама 😀")),)
    good = shown.values
    shown.controls["text"].value = "a b " * 300
    assert "at most 256" in shown.message and shown.values is good


@pytest.mark.parametrize(("step", "layer"), [(-1, 0), (1000, 0), (0, 8), (0, -1)])
def test_steps_outside_are_refused(primer: Llama, traced: trace.Trace, step: int, layer: int) -> None:
    with pytest.raises(ValueError, match="must be from 0 to"):
        widgets.stage_at(primer, traced, step, layer)


def test_plan_by_hand() -> None:
    plan = widgets.capacity_plan("llama-3-8b", "a100-80gb", 1000, 25, 4)
    assert plan["weight_bytes"] == 2 * 8030261248 and plan["kv_bytes"] == 4 * 1024 * 131072
    assert plan["max_concurrent"] == int((72e9 - 2 * 8030261248) // (1024 * 131072)) and plan["fits"]
    times = arithmetic.predict_latency("llama-3-8b", "a100-80gb", 1000, 25, 4)
    assert {key: plan[key] for key in times} == times
    assert math.isclose(plan["tokens_per_second"], 4 / times["tpot"])
    assert (plan["prefill_limit"], plan["decode_limit"]) == ("arithmetic", "memory")


def test_plan_says_what_does_not_fit_and_what_is_too_long() -> None:
    large = widgets.capacity_plan("llama-3-70b", "a100-80gb", 9000, 1)
    assert large["max_concurrent"] == 0 and not large["fits"] and large["beyond_max_len"]
    assert math.isnan(large["tpot"]) and large["decode_limit"] == ""
    shown = widgets.capacity_planner("llama-3-70b", prompt_len=9000, n_new=1)
    assert "does not fit" in shown.table and "longer than" in shown.table and "only one new token" in shown.table
    four = widgets.capacity_plan("llama-3-70b", "a100-80gb", 1000, 10, bits=4)
    assert four["fits"] and four["weight_bytes"] == 70553706496 / 2


@pytest.mark.parametrize("batch", [1, 64, 1024])
def test_the_limit_is_the_side_that_sets_the_time(batch: int) -> None:
    plan = widgets.capacity_plan("llama-3-8b", "a100-80gb", 8, 2, batch)
    faster = dict(peak_flops=312e12, bandwidth=2.039e12 * 2, memory_bytes=80e9)
    shape = arithmetic.capacity_shape("llama-3-8b")
    eased = arithmetic.predict_latency(shape, faster, 8, 2, batch)
    for time, limit in (("ttft", "prefill_limit"), ("tpot", "decode_limit")):
        assert (eased[time] < plan[time]) == (plan[limit] == "memory")


def test_planner_shows_what_the_plain_function_returns() -> None:
    shown = widgets.capacity_planner()
    assert shown.values == widgets.capacity_plan("llama-3-8b", "a100-80gb", 1024, 256)
    first = shown.picture
    for name, value in (("gpu", "h100"), ("prompt_len", 4096.0), ("n_new", 2.0), ("batch", 32.0), ("bits", 8)):
        shown.controls[name].value = value
    assert shown.values == widgets.capacity_plan("llama-3-8b", "h100", 4096, 2, 32, 8)
    assert "8 bits for every weight and for the KV cache" in shown.table and "at least" not in shown.table
    assert shown.picture != first and shown.picture[:4] == PNG
    heights = [bar.get_height() for bar in shown.figure.axes[0].patches]
    np.testing.assert_allclose(
        heights, [8.03026, 4097 * 65536 * 32 / 1e9, 8.03026 + 4097 * 65536 * 32 / 1e9], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 5}, "bits"),
        ({"batch": 0}, "batch"),
        ({"model": "gemma-2-9b"}, "full attention"),
        ({"reserve": 1}, "reserve"),
    ],
)
def test_bad_plans_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.capacity_plan(**{"model": "llama-3-8b", "gpu": "l4", "prompt_len": 1, "n_new": 1, **changes})


def test_break_trace_names_the_stage_and_shows_both_texts(primer: Llama) -> None:
    shown = widgets.break_trace(primer, n_new=8)
    assert shown.values["first_wrong"] is None and shown.values["text_right"] == shown.values["text_wrong"]
    for name in widgets.TRACE_FAULTS[1:]:
        assert name in faults.FAULTS
    shown.controls["fault"].value = "final_norm_left_out"
    found = shown.values
    assert found == widgets.run_trace_fault(primer, "final_norm_left_out", n_new=8)
    assert found["first_wrong"] == "prefill, final norm" and found["text_right"] != found["text_wrong"]
    assert (
        found["text_wrong"] in shown.table and found["by_stage"]["residual 2"] <= 1e-5 < found["by_stage"]["final norm"]
    )
    line = shown.figure.axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), [max(1e-9, value) for value in found["by_stage"].values()])
    shown.controls["fault"].value = "residual_left_out"
    found = shown.values
    # later blocks put stages to the left of the first one above the line: the figure must name the first
    assert found["first_wrong"] == "prefill, block 1, residual 1" and found["by_stage"]["norm 1"] > LIMIT
    ring = next(line for line in shown.figure.axes[0].get_lines() if line.get_label() == "first apart")
    place = list(found["by_stage"]).index("residual 1")
    assert list(ring.get_xdata()) == [place] and list(ring.get_ydata()) == [found["by_stage"]["residual 1"]]
    assert "first apart" in [text.get_text() for text in shown.figure.axes[0].get_legend().get_texts()]
    shown.controls["fault"].value = "none"
    assert len(shown.figure.axes[0].get_lines()) == 2, "nothing is apart: no ring"
    assert trace.check(trace.trace_call(primer, TEXT), primer).ok, "the fault must end"
    with pytest.raises(ValueError, match="no fault 'gremlin'"):
        widgets.run_trace_fault(primer, "gremlin")
