"""The hook for a caller's own stage: where it runs, what it gets, what it may return, and that every loop runs it."""

import math

import pytest
import torch

import kvlab
from kvlab import generate, sampling
from kvlab.fast.sampling import next_token
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings, next_token_probs, stages

PROMPT = "mom washed the"


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu", torch.float64)


def forbid(*tokens: int):  # type: ignore[no-untyped-def]
    def processor(ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        logits[list(tokens)] = -math.inf
        return logits

    return processor


def no_repeats(ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """No run of three tokens twice."""
    for i in range(len(ids) - 2):
        if ids[i : i + 2] == ids[-2:]:
            logits[ids[i + 2]] = -math.inf
    return logits


def test_processors_run_after_penalties_and_before_temperature_in_turn() -> None:
    seen = []

    def note(name: str):  # type: ignore[no-untyped-def]
        def processor(ids: list[int], logits: torch.Tensor) -> torch.Tensor:
            seen.append((name, ids, logits.tolist()))
            return logits + 1

        return processor

    logits = torch.tensor([2.0, -1.0, 0.5])
    settings = SamplingSettings(
        temperature=2.0, repetition_penalty=2.0, logit_bias={2: 1.0}, processors=[note("first"), note("second")]
    )
    names = [name for name, _ in stages(logits, settings, torch.tensor([0, 0]), 1)]
    assert names == ["logits", "logit_bias", "repetition_penalty", "processor", "processor 2", "temperature"]
    assert seen == [("first", [0, 0], [1.0, -1.0, 1.5]), ("second", [0, 0], [2.0, 0.0, 2.5])]


def test_a_processor_cannot_spoil_what_it_gets() -> None:
    def spoil(ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        ids.clear()
        return logits.zero_()

    logits, context = torch.tensor([2.0, -1.0, 0.5]), [1, 2]
    steps = stages(logits, SamplingSettings(processors=[spoil]), context)
    assert logits.tolist() == [2.0, -1.0, 0.5] == steps[0][1].tolist() and context == [1, 2]
    assert steps[1][1].tolist() == [0.0, 0.0, 0.0]


def test_a_forbidden_token_has_probability_0_and_the_rest_is_scaled() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)
    probs = next_token_probs(logits, SamplingSettings(processors=[forbid(0)]))
    assert probs[0] == 0 and float(probs[1]) == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (lambda ids, logits: None, "float logits of shape"),
        (lambda ids, logits: logits[:2], "float logits of shape"),
        (lambda ids, logits: logits.long(), "float logits of shape"),
        (lambda ids, logits: logits * math.nan, "returned NaN"),
        (lambda ids, logits: torch.full_like(logits, -math.inf), "every token is removed"),
    ],
)
def test_what_is_no_logits_is_refused(processor, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        next_token_probs(torch.tensor([2.0, 1.0, 0.0]), SamplingSettings(processors=[processor]))


@pytest.mark.parametrize("bad", [3, [3], forbid(1), "abc", "", b"", None])
def test_settings_refuse_what_is_no_list_of_functions(bad: object) -> None:
    with pytest.raises(ValueError, match="processors must be"):
        SamplingSettings(processors=bad)  # type: ignore[arg-type]


def test_settings_with_processors_stay_hashable_and_keep_a_tuple() -> None:
    processor = forbid(1)
    settings = SamplingSettings(processors=[processor])  # type: ignore[arg-type]
    assert settings.processors == (processor,) and hash(settings) == hash(SamplingSettings(processors=(processor,)))
    assert settings != SamplingSettings()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_both_loops_and_the_stream_run_them(primer: Llama, temperature: float) -> None:
    settings = SamplingSettings(temperature=temperature, seed=1, processors=(no_repeats,))
    runs = [
        loop(primer, PROMPT, 40, settings, ignore_eos=True)
        for loop in (generate.generate_naive, generate.generate_cached)
    ]
    assert runs[0].tokens == runs[1].tokens
    assert sampling.distinct_n(runs[0].prompt_ids + runs[0].tokens, 3) == 1
    free = generate.generate_cached(primer, PROMPT, 40, SamplingSettings(temperature, seed=1), ignore_eos=True)
    assert sampling.distinct_n(free.prompt_ids + free.tokens, 3) < 1, "without it there are repeats"
    streamed = [piece.token for piece in generate.stream(primer, PROMPT, 12, settings)]
    assert streamed == runs[0].tokens[: len(streamed)]


def test_the_fast_draw_runs_them_too() -> None:
    logits = torch.randn(600, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    banned = logits.topk(5).indices.tolist()
    settings = SamplingSettings(top_k=8, processors=(forbid(*banned),))
    generator, same = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    drawn = [next_token(logits, settings, [], 0, generator) for _ in range(50)]
    probs = next_token_probs(logits, settings)
    assert drawn == [sampling.sample(probs, same) for _ in range(50)] and not set(drawn) & set(banned)
