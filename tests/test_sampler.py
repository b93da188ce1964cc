"""Settings, the order of the stages, and the draw: against transformers, by hand, and by chi-square."""

import dataclasses
import math

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from kvlab import sampling
from kvlab.sampling import SamplingSettings, filters, next_token_probs, sample, stages

DTYPES = [torch.float32, torch.float64]
FOUR = torch.tensor([0.62, 0.18, 0.09, 0.04, 0.03, 0.02, 0.02], dtype=torch.float64).log()


def random_logits(seed: int) -> torch.Tensor:
    return torch.randn(50, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3


def test_the_whole_pipeline_agrees_with_transformers() -> None:
    logits, context = random_logits(2), [1, 2, 3, 2]
    processors = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(1.2),
            TemperatureLogitsWarper(1.4),
            TopKLogitsWarper(20),
            TopPLogitsWarper(0.9),
            MinPLogitsWarper(0.02),
        ]
    )
    theirs = processors(torch.tensor([context]), logits[None].clone())[0].softmax(-1)
    chosen = SamplingSettings(temperature=1.4, top_k=20, top_p=0.9, min_p=0.02, repetition_penalty=1.2)
    ours = next_token_probs(logits, chosen, context)
    torch.testing.assert_close(ours, theirs)
    assert 1 < len([p for p in ours.tolist() if p > 0]) < 20


# --- settings and the pipeline ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1},
        {"temperature": math.inf},
        {"top_k": 0},
        {"top_k": 2.5},
        {"top_p": 0},
        {"top_p": 1.1},
        {"min_p": -0.1},
        {"min_p": 2},
        {"repetition_penalty": 0},
        {"frequency_penalty": math.nan},
        {"presence_penalty": "0.5"},
        {"logit_bias": {-1: 1.0}},
        {"logit_bias": {0: math.nan}},
        {"seed": -1},
        {"order": "mlx"},
        {"order": ("temperature", "top_k", "top_p")},
        {"order": 5},
        {"order": None},
        {"order": ("temperature", "top_k", "top_p", 3)},
        {"order": {"temperature", "top_k", "top_p", "min_p"}},
        {"seed": 2**64},
        {"seed": 10**400},
        {"seed": 1.5},
        {"logit_bias": None},
        {"logit_bias": [1]},
    ],
)
def test_settings_refuse_bad_values_at_once(bad: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        SamplingSettings(**bad)


def test_settings_are_frozen_and_keep_their_own_bias() -> None:
    bias = {0: 1.0}
    chosen = SamplingSettings(logit_bias=bias)
    bias[0] = 99.0
    assert chosen.logit_bias == {0: 1.0}
    with pytest.raises(dataclasses.FrozenInstanceError):
        chosen.temperature = 2.0  # type: ignore[misc]
    assert dataclasses.replace(chosen, temperature=0.5).logit_bias == {0: 1.0}
    assert hash(chosen) == hash(SamplingSettings(logit_bias={0: 1.0}))


def test_settings_are_kept_as_the_numbers_they_are_used_as() -> None:
    """Nothing that passes here may fail later, in the generator or in a filter."""
    chosen = SamplingSettings(seed=3.0, top_k=2.0, order=list(sampling.ORDERS["vllm"]))  # type: ignore[arg-type]
    assert (type(chosen.seed), type(chosen.top_k)) == (int, int)
    assert chosen == SamplingSettings(seed=3, top_k=2, order=sampling.ORDERS["vllm"])
    assert hash(chosen) == hash(SamplingSettings(seed=3, top_k=2, order=sampling.ORDERS["vllm"]))
    assert torch.equal(
        torch.rand(3, generator=chosen.generator()), torch.rand(3, generator=torch.Generator().manual_seed(3))
    )
    SamplingSettings(seed=2**64 - 1).generator()


def test_default_settings_leave_the_distribution_alone() -> None:
    logits = random_logits(9)
    torch.testing.assert_close(next_token_probs(logits, SamplingSettings(), [1, 2]), logits.softmax(-1))
    assert [name for name, _ in stages(logits, SamplingSettings())] == ["logits"]


@pytest.mark.parametrize("order", list(sampling.ORDERS))
def test_stages_run_in_the_order_of_the_library(order: str) -> None:
    chosen = SamplingSettings(2.0, 5, 0.7, 0.1, 1.1, 0.2, 0.1, {0: 1.0}, order=order)
    names = [name for name, _ in stages(random_logits(10), chosen, [1, 2])]
    assert names[:4] == ["logits", "logit_bias", "repetition_penalty", "frequency_presence_penalty"]
    assert tuple(names[4:]) == sampling.ORDERS[order]


def test_the_order_changes_what_top_p_keeps() -> None:
    sizes = {}
    for order in ("transformers", "llama.cpp"):
        probs = next_token_probs(FOUR, SamplingSettings(temperature=2.0, top_p=0.75, order=order))
        sizes[order] = int((probs > 0).sum())
    assert sizes == {"transformers": 4, "llama.cpp": 2}


@pytest.mark.parametrize("order", list(sampling.ORDERS))
def test_temperature_zero_is_greedy_in_every_order_and_after_bias(order: str) -> None:
    logits = torch.tensor([1.0, 3.0, 2.0])
    chosen = SamplingSettings(temperature=0, top_k=2, top_p=0.9, min_p=0.1, logit_bias={2: 5.0}, order=order)
    assert next_token_probs(logits, chosen).tolist() == [0, 0, 1]


def test_prompt_counts_for_repetition_but_not_for_frequency() -> None:
    logits = torch.tensor([2.0, 2.0, 2.0])
    steps = dict(stages(logits, SamplingSettings(repetition_penalty=2.0, presence_penalty=0.5), [0, 1], n_prompt=1))
    assert steps["repetition_penalty"].tolist() == [1.0, 1.0, 2.0]
    assert steps["frequency_presence_penalty"].tolist() == [1.0, 0.5, 2.0]


def test_the_pipeline_looks_functions_up_in_their_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted faults replace a module's attribute; the pipeline has to feel it, at both depths."""
    chosen = SamplingSettings(top_p=0.9)
    whole = int((next_token_probs(FOUR, chosen) > 0).sum())
    with monkeypatch.context() as patch:
        patch.setattr(filters, "nucleus_size", lambda probs, p: max(int((probs.cumsum(0) < p).sum()), 1))
        assert int((next_token_probs(FOUR, chosen) > 0).sum()) == whole - 1
    with monkeypatch.context() as patch:
        patch.setattr(filters, "top_p_filter", lambda logits, p: logits)
        assert int((next_token_probs(FOUR, chosen) > 0).sum()) == 7


# --- the draw --------------------------------------------------------------------------------------------------------


def test_draws_follow_the_probabilities() -> None:
    """Chi-square with a fixed seed: 5 degrees of freedom, 99.9 % of honest samples stay below 20.5."""
    probs = torch.tensor([0.4, 0.0, 0.25, 0.2, 0.1, 0.04, 0.01])
    n, generator = 20_000, SamplingSettings(seed=1).generator()
    counts = [0] * 7
    for _ in range(n):
        counts[sample(probs, generator)] += 1
    assert counts[1] == 0
    chi_square = sum((c - n * p) ** 2 / (n * p) for c, p in zip(counts, probs.tolist(), strict=True) if p > 0)
    assert chi_square < 20.5


def test_a_seed_repeats_and_no_seed_does_not() -> None:
    probs = torch.full((1000,), 1e-3)

    def draws(settings: SamplingSettings) -> list[int]:
        generator = settings.generator()
        return [sample(probs, generator) for _ in range(8)]

    assert draws(SamplingSettings(seed=3)) == draws(SamplingSettings(seed=3)) != draws(SamplingSettings(seed=4))
    assert draws(SamplingSettings()) != draws(SamplingSettings())


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
def test_only_possible_tokens_are_drawn_and_the_sum_need_not_be_one(dtype: torch.dtype) -> None:
    probs = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0], dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    assert {sample(probs, generator) for _ in range(200)} == {1, 3}


def test_an_extreme_random_number_still_gives_a_possible_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for point, expected in ((0.0, 1), (math.nextafter(1.0, 0.0), 2)):
        monkeypatch.setattr(torch, "rand", lambda *_, value=point, **__: torch.tensor(value, dtype=torch.float64))
        assert sample(torch.tensor([0.0, 0.1, 0.7, 0.0])) == expected


@pytest.mark.parametrize("bad", [[0.5, -0.1], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_sample_refuses_what_is_no_distribution(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="probs must"):
        sample(torch.tensor(bad))
