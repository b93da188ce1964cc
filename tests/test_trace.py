"""The trace of a call: it matches the model, its shapes fit any Llama, and a fault in the model shows at its stage."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import kvlab
from kvlab import arithmetic, faults, published, trace
from kvlab.generate import generate_cached
from kvlab.loading import random_model
from kvlab.model import Llama, rope_frequencies
from kvlab.sampling import SamplingSettings
from kvlab.trace.call import rms_norm, rope_angles, rotated
from real_models import require_model

TEXT = "mom washed the frame — раму"
SAMPLED = SamplingSettings(temperature=0.7, top_k=40, top_p=0.9, repetition_penalty=1.2, logit_bias={5: 1.0}, seed=3)


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu")


@pytest.fixture(scope="module")
def traced(primer: Llama) -> trace.Trace:
    return trace.trace_call(primer, TEXT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["primer", "smollm2"])
def test_every_tensor_is_the_models(name: str, dtype: torch.dtype) -> None:
    if name != "primer":
        require_model(name)
    model = kvlab.load(name, "cpu", dtype)
    own = trace.trace_call(model, TEXT)
    found = trace.check(own, model)
    assert len(found.differences) == len(own.stages) > 38 * model.config.n_layers
    assert found.ok and found.first_wrong is None
    assert found.relative <= (1e-5 if name == "primer" or dtype == torch.float64 else 3e-5)
    if dtype == torch.float64:
        assert found.largest <= 1e-9, found.by_stage()
        assert list(own.tokens) == generate_cached(model, TEXT, 2, ignore_eos=True).tokens
    assert "All" in found.table().notes[0] and "✗" not in found.table().to_text()


def test_sampling_stages_and_tokens_are_those_of_generation() -> None:
    model = kvlab.load("primer", "cpu", torch.float64)
    own = trace.trace_call(model, TEXT, SAMPLED)
    assert list(own.tokens) == generate_cached(model, TEXT, 2, SAMPLED, ignore_eos=True).tokens
    assert trace.check(own, model).ok
    names = [
        s.name.removeprefix("sampling: ") for s in own.stages if s.name.startswith("sampling") and s.phase == "decode"
    ]
    assert names == ["logit_bias", "repetition_penalty", "temperature", "top_k", "top_p"]
    other = trace.trace_call(model, TEXT, replace(SAMPLED, seed=None))
    assert trace.check(other, model).ok, "a token drawn without a seed must not count as wrong"


def test_stretched_rope_and_untied_head_are_traced_too() -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = replace(
        kvlab.load("primer", "cpu").config,
        n_layers=2,
        max_len=512,
        tied=False,
        rope_theta=500_000.0,
        rope_scaling={**scaling, "original_max_position_embeddings": 64},
    )
    torch.testing.assert_close(rope_angles(config, torch.tensor([0, 7]))[1], 7 * rope_frequencies(config))
    model = random_model(config, "cpu", torch.float64)
    assert trace.check(trace.trace_call(model, [3, 1, 4, 1, 5]), model).largest <= 1e-9


def test_plain_steps_by_hand() -> None:
    x = torch.tensor([[3.0, 4.0]])
    torch.testing.assert_close(
        rms_norm(x, torch.tensor([1.0, 2.0]), 0.0), torch.tensor([[3 / 12.5**0.5, 8 / 12.5**0.5]])
    )
    quarter = torch.tensor([[torch.pi / 2, 0.0]])
    turned = rotated(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), quarter.cos(), quarter.sin())
    torch.testing.assert_close(turned, torch.tensor([[[-3.0, 2.0, 1.0, 4.0]]]))


def test_a_trace_says_what_it_holds(primer: Llama, traced: trace.Trace) -> None:
    assert bytes(traced.stage("bytes").tensor.tolist()).decode() == TEXT
    n = len(traced.ids)
    assert traced.stage("ids").tensor.tolist() == list(traced.ids) == primer.tokenizer.encode(TEXT)
    weights = traced.stage("weights", 3).tensor
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, n))
    assert float(weights.triu(1).abs().max()) == 0
    step = traced.stage("keys held", 7, "decode")
    assert step.shape == (2, n + 1, 40)
    torch.testing.assert_close(step.tensor[:, :n], traced.stage("keys held", 7).tensor)
    assert traced.stage("ids", phase="decode").tensor.tolist() == [traced.tokens[0]]
    assert step.label == "decode, block 7, keys held"
    assert all(stage.formula and stage.explanation for stage in traced.stages)
    assert len({s.name for s in traced.stages}) < len(traced.table().rows) < len(traced.stages)
    last = max(s.layer for s in traced.stages if s.layer is not None)
    assert len(traced.table(last).rows) == len(traced.table().rows)
    for layer in (last + 1, 99, -1, 1.5, "1", True, None):
        with pytest.raises(ValueError, match="layer must be"):
            traced.table(layer)


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        ("residual_left_out", "prefill, block 1, residual 1"),
        ("final_norm_left_out", "prefill, final norm"),
        ("rope_neighbours", "prefill, block 0, q rotated"),
        ("unscaled_scores", "prefill, block 0, scores"),
        ("position_off_by_one", "decode, rope cos"),
        ("kv_heads_tiled", "prefill, block 0, scores"),
        ("stale_cache", "decode, block 0, k rotated"),
        ("values_not_appended", "decode, block 0, values held"),
    ],
)
def test_a_fault_shows_first_at_its_own_stage(primer: Llama, traced: trace.Trace, fault: str, where: str) -> None:
    with faults.plant(fault):
        wrong = trace.check(traced, primer)
    assert not wrong.ok and wrong.first_wrong is not None
    assert wrong.first_wrong.stage.label == where and where in wrong.table().notes[0]
    assert trace.check(traced, primer).ok, "the fault and the hooks must end"


def test_checking_leaves_no_hook(primer: Llama, traced: trace.Trace) -> None:
    trace.check(traced, primer)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in primer.modules())


def test_another_models_trace_is_not_taken_for_its_own(traced: trace.Trace) -> None:
    found = trace.check(traced, kvlab.load("primer-mha", "cpu"))
    assert not found.ok


@pytest.mark.parametrize("text", ["", " ", "e\u0301 😀 🇪🇺", "<|eos|>"])
def test_odd_texts_are_traced_too(primer: Llama, text: str) -> None:
    own = trace.trace_call(primer, text)
    assert own.text == text and trace.check(own, primer).ok


@pytest.mark.parametrize(
    ("bad", "message"),
    [([], "empty"), ([1536], "outside"), ("a b c d " * 200, "at most 256"), ([1.5], "whole numbers")],
)
def test_bad_prompts_are_refused(primer: Llama, bad: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace.trace_call(primer, bad)


def test_unknown_stages_are_refused(traced: trace.Trace) -> None:
    for arguments, message in (
        (("scores",), "one of a block: layer must be from 0 to 7"),
        (("scores", 8), "from 0 to 7"),
        (("score", 0), "no stage 'score'"),
        (("logits", None, "later"), "phase must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            traced.stage(*arguments)


@pytest.mark.parametrize("phase", trace.PHASES)
def test_shapes_are_those_of_the_trace(primer: Llama, traced: trace.Trace, phase: str) -> None:
    own = [(s.name, s.shape) for s in traced.stages if s.layer in (None, 5) and s.phase == phase]
    own = [(name, shape) for name, shape in own if name != "bytes" and not name.startswith("sampling")]
    assert [(s.name, s.shape) for s in trace.shapes_of(primer.config, len(traced.ids), phase)] == own
    assert [s.shape for s in trace.shapes_of("primer", len(traced.ids), phase)] == [shape for _, shape in own]


@pytest.mark.parametrize("name", ["primer", "llama-3-8b", "llama-3.2-1b", "llama-2-7b"])
@pytest.mark.parametrize(("phase", "new", "past"), [("prefill", 100, 0), ("decode", 1, 100)])
def test_flops_and_bytes_add_up(name: str, phase: str, new: int, past: int) -> None:
    stages = trace.shapes_of(name, 100, phase)
    assert sum(s.flops * s.times for s in stages) == 2 * arithmetic.pass_macs(name, new, past)["total"]
    assert published.model(name).n_params_exact
    assert sum(s.weight_bytes * s.times for s in stages) == arithmetic.read_bytes_per_pass(name)
    held = sum(s.bytes * s.times for s in stages if s.name in ("keys held", "values held"))
    assert held == arithmetic.kv_bytes(name, 100 if phase == "prefill" else 101)


def test_shapes_of_llama_3_by_hand() -> None:
    stages = {s.name: s for s in trace.shapes_of("llama-3-8b", 13)}
    assert (
        stages["rows"].shape == (13, 4096) and stages["q"].shape == (32, 13, 128) and stages["k"].shape == (8, 13, 128)
    )
    assert (
        stages["scores"].shape == (32, 13, 13)
        and stages["gate"].shape == (13, 14336)
        and stages["logits"].shape == (128256,)
    )
    assert stages["scores"].times == 32 and stages["logits"].times == 1
    assert stages["scores"].flops == 2 * 32 * 128 * 13 * 14 // 2
    assert stages["down"].weight_bytes == 2 * 14336 * 4096 and stages["down"].flops == 2 * 13 * 14336 * 4096
    assert stages["logits"].flops == 2 * 4096 * 128256, "the head runs on the last position alone"
    side = trace.shapes_table(["primer", "llama-3-8b"], 13)
    assert [(row[3], row[6]) for row in side.rows if row[0] == "rows"] == [("13 × 160", "13 × 4096")]


@pytest.mark.parametrize(
    ("model", "n", "phase", "message"),
    [
        ("gemma-2-9b", 10, "prefill", "not a plain Llama"),
        ("deepseek-v3", 10, "prefill", "not a plain Llama"),
        ("llama-3-8b", 0, "prefill", "at least 1"),
        ("llama-3-8b", 8193, "prefill", "window"),
        ("llama-3-8b", 8192, "decode", "window"),
        ("llama-3-8b", 10, "middle", "phase"),
    ],
)
def test_shapes_refuse(model: str, n: int, phase: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace.shapes_of(model, n, phase)


def test_two_processors_are_two_stages() -> None:
    """With one name for both, the first would be compared with the second."""

    def raise_some(ids: Any, logits: torch.Tensor) -> torch.Tensor:
        return torch.cat([logits[:50] + 3, logits[50:]])

    def forbid_even(ids: Any, logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill(0, torch.arange(0, len(logits), 2), -torch.inf)

    model = kvlab.load("primer", "cpu")
    settings = SamplingSettings(temperature=0, processors=(raise_some, forbid_even))
    found = trace.check(trace.trace_call(model, "Hi", settings), model)
    assert found.ok, found.first_wrong
