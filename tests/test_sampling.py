"""Temperature, filters and penalties: against transformers, naive loops, and their own definitions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from kvlab import sampling
from kvlab.sampling import SamplingSettings, next_token_probs

DTYPES = [torch.float32, torch.float64]
FOUR = torch.tensor([0.62, 0.18, 0.09, 0.04, 0.03, 0.02, 0.02], dtype=torch.float64).log()


def random_logits(seed: int, n: int = 50, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) * 3


def kept(filtered: torch.Tensor) -> list[int]:
    """Ids that a filter left, in order."""
    return [i for i, value in enumerate(filtered.tolist()) if value > -math.inf]


def by_transformers(processor, logits, context=()):  # type: ignore[no-untyped-def]
    return processor(torch.tensor([list(context)], dtype=torch.long), logits[None].clone())[0]


# Floats with few digits, so that equal values (ties) are common.
logit_lists = st.lists(st.integers(-40, 40).map(lambda i: i / 8), min_size=1, max_size=12)


# --- against transformers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
def test_filters_agree_with_transformers(seed: int, dtype: torch.dtype) -> None:
    logits = random_logits(seed, dtype=dtype)
    pairs = [
        *((sampling.top_k_filter(logits, k), TopKLogitsWarper(k)) for k in (1, 2, 7, 50, 80)),
        *((sampling.top_p_filter(logits, p), TopPLogitsWarper(p)) for p in (0.05, 0.5, 0.9, 0.99)),
        *((sampling.min_p_filter(logits, p), MinPLogitsWarper(p)) for p in (0.0, 0.05, 0.3, 1.0)),
    ]
    for ours, processor in pairs:
        assert ours.dtype == dtype
        assert torch.equal(ours, by_transformers(processor, logits))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("temperature", [0.1, 0.7, 1.0, 2.5])
def test_temperature_agrees_with_transformers(temperature: float, dtype: torch.dtype) -> None:
    logits = random_logits(0, dtype=dtype)
    theirs = by_transformers(TemperatureLogitsWarper(temperature), logits).softmax(-1)
    ours = sampling.temperature_probs(logits, temperature)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.3])
def test_repetition_penalty_agrees_with_transformers(penalty: float, dtype: torch.dtype) -> None:
    logits, context = random_logits(1, dtype=dtype), [3, 3, 3, 7, 40, 7]
    theirs = by_transformers(RepetitionPenaltyLogitsProcessor(penalty), logits, context)
    for ids in (context, torch.tensor(context)):
        torch.testing.assert_close(sampling.apply_repetition_penalty(logits, ids, penalty), theirs)


# --- temperature -----------------------------------------------------------------------------------------------------


def test_temperature_zero_is_one_hot_at_the_first_maximum() -> None:
    probs = sampling.temperature_probs(torch.tensor([1.0, 5.0, 5.0, 2.0]), 0)
    assert probs.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tiny_temperature_approaches_greedy_and_a_huge_one_uniform(dtype: torch.dtype) -> None:
    logits = torch.tensor([300.0, 299.0, -500.0], dtype=dtype)
    assert sampling.temperature_probs(logits, 1e-60).tolist() == [1, 0, 0]
    torch.testing.assert_close(sampling.temperature_probs(logits, 1e12), torch.full((3,), 1 / 3, dtype=dtype))


@given(logit_lists, st.floats(0.05, 20), st.floats(1.01, 3))
@settings(max_examples=60, deadline=None)
def test_temperature_gives_a_distribution_that_flattens(values: list[float], low: float, factor: float) -> None:
    logits = torch.tensor(values, dtype=torch.float64)
    cool, warm = (sampling.temperature_probs(logits, t) for t in (low, low * factor))
    assert float(cool.sum()) == pytest.approx(1) and float(warm.sum()) == pytest.approx(1)
    assert float(warm.max()) <= float(cool.max()) + 1e-12
    order = sorted(range(len(values)), key=values.__getitem__)
    assert cool[order].diff().ge(-1e-12).all()  # a larger logit never gets a smaller probability


# --- filters ---------------------------------------------------------------------------------------------------------


@given(logit_lists, st.integers(1, 15))
@settings(max_examples=80, deadline=None)
def test_top_k_keeps_the_k_largest_and_all_ties(values: list[float], k: int) -> None:
    filtered = sampling.top_k_filter(torch.tensor(values), k)
    kth = sorted(values, reverse=True)[min(k, len(values)) - 1]
    assert kept(filtered) == [i for i, value in enumerate(values) if value >= kth]
    assert all(filtered[i] == values[i] for i in kept(filtered))


def test_top_k_edges() -> None:
    logits = random_logits(3)
    assert kept(sampling.top_k_filter(logits, 1)) == [int(logits.argmax())]
    assert torch.equal(sampling.top_k_filter(logits, 50), logits)
    assert torch.equal(sampling.top_k_filter(logits, 51), logits)
    assert kept(sampling.top_k_filter(torch.tensor([1.0, 2.0, 2.0, 2.0]), 2)) == [1, 2, 3]


def test_top_p_keeps_the_token_that_crosses_p() -> None:
    assert kept(sampling.top_p_filter(FOUR, 0.9)) == [0, 1, 2, 3]  # 0.62 + 0.18 + 0.09 = 0.89 is not yet 0.9
    assert kept(sampling.top_p_filter(FOUR, 0.5)) == [0]
    assert kept(sampling.top_p_filter(FOUR, 1e-9)) == [0]


@pytest.mark.parametrize("dtype", DTYPES)
@given(values=logit_lists, p=st.floats(0.01, 0.999))
@settings(max_examples=80, deadline=None)
def test_top_p_keeps_a_smallest_set_that_reaches_p(dtype: torch.dtype, values: list[float], p: float) -> None:
    logits = torch.tensor(values, dtype=dtype)
    chosen = kept(sampling.top_p_filter(logits, p))
    weights = [math.exp(value) for value in values]
    probs = [weight / math.fsum(weights) for weight in weights]
    assert math.fsum(probs[i] for i in chosen) >= p - 1e-6
    # smallest: without its least likely member the set falls short, and nobody outside is likelier than a member
    least = min(chosen, key=lambda i: probs[i])
    assert math.fsum(probs[i] for i in chosen if i != least) < p + 1e-6
    outside = [probs[i] for i in range(len(values)) if i not in chosen]
    assert max(outside, default=0.0) <= probs[least] + 1e-12


def test_top_p_takes_only_as_many_tied_tokens_as_it_needs() -> None:
    assert len(kept(sampling.top_p_filter(torch.zeros(10), 0.35))) == 4


def test_top_p_one_keeps_tokens_that_are_too_small_to_count() -> None:
    logits = torch.tensor([0.0, -1000.0, -2000.0])
    assert torch.equal(sampling.top_p_filter(logits, 1), logits)
    assert kept(sampling.top_p_filter(logits, 0.999)) == [0]


def test_min_p_edges() -> None:
    logits = torch.tensor([2.0, 2.0, 1.0, -50.0])
    assert kept(sampling.min_p_filter(logits, 1)) == [0, 1]
    assert kept(sampling.min_p_filter(logits, 0)) == [0, 1, 2, 3]
    assert kept(sampling.min_p_filter(logits, 0.3)) == [0, 1, 2]  # exp(-1) = 0.37 of the largest


@given(logit_lists, st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_min_p_keeps_by_ratio_to_the_largest(values: list[float], min_p: float) -> None:
    chosen = set(kept(sampling.min_p_filter(torch.tensor(values, dtype=torch.float64), min_p)))
    for i, value in enumerate(values):
        ratio = math.exp(value - max(values))
        if abs(ratio - min_p) > 1e-9:
            assert (i in chosen) == (ratio > min_p)


@given(st.permutations(range(9)), st.sampled_from(["top_k", "top_p", "min_p"]))
@settings(max_examples=40, deadline=None)
def test_filters_do_not_depend_on_the_order_of_the_vocabulary(order: list[int], name: str) -> None:
    logits = random_logits(5, n=9)
    apply = {
        "top_k": lambda x: sampling.top_k_filter(x, 4),
        "top_p": lambda x: sampling.top_p_filter(x, 0.8),
        "min_p": lambda x: sampling.min_p_filter(x, 0.05),
    }[name]
    assert torch.equal(apply(logits[order]), apply(logits)[order])
    assert 1 <= len(kept(apply(logits))) < 9


# --- penalties and bias ----------------------------------------------------------------------------------------------


def test_repetition_penalty_by_hand() -> None:
    logits = torch.tensor([2.0, -2.0, 1.0, -1.0, 0.0])
    assert sampling.apply_repetition_penalty(logits, [0, 1, 0, 0, 4], 2.0).tolist() == [1.0, -4.0, 1.0, -1.0, 0.0]
    assert torch.equal(sampling.apply_repetition_penalty(logits, [], 2.0), logits)
    assert torch.equal(sampling.apply_repetition_penalty(logits, torch.tensor([], dtype=torch.long), 2.0), logits)


def test_repetition_penalty_changes_with_a_constant_that_softmax_ignores() -> None:
    logits = torch.tensor([2.0, 1.0, -1.0])
    plain, shifted = (sampling.apply_repetition_penalty(x, [0, 2], 1.5).softmax(-1) for x in (logits, logits + 5))
    assert float((plain - shifted).abs().max()) > 0.1


@given(st.lists(st.integers(0, 5), max_size=12), st.floats(-2, 2), st.floats(-2, 2))
@settings(max_examples=60, deadline=None)
def test_frequency_and_presence_penalty_count_as_openai_defines(ids: list[int], freq: float, pres: float) -> None:
    logits = random_logits(6, n=6)
    ours = sampling.apply_frequency_presence_penalty(logits, ids, freq, pres)
    expected = [v - ids.count(j) * freq - (pres if j in ids else 0.0) for j, v in enumerate(logits.tolist())]
    assert ours.tolist() == pytest.approx(expected)


def test_logit_bias_is_added_as_it_is() -> None:
    logits = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    biased = sampling.apply_logit_bias(logits, {0: 5, 2: -100.0})
    assert biased.tolist() == [6.0, 2.0, -97.0]
    assert 0 < float(biased.softmax(-1)[2]) < 1e-40  # practically impossible, not exactly


# --- what all of them promise ----------------------------------------------------------------------------------------

CALLS = {
    "temperature": lambda x: sampling.temperature_probs(x, 0.7),
    "greedy": lambda x: sampling.temperature_probs(x, 0),
    "apply_temperature": lambda x: sampling.apply_temperature(x, 0.7),
    "top_k": lambda x: sampling.top_k_filter(x, 2),
    "top_p": lambda x: sampling.top_p_filter(x, 0.6),
    "top_p_all": lambda x: sampling.top_p_filter(x, 1),
    "min_p": lambda x: sampling.min_p_filter(x, 0.5),
    "repetition": lambda x: sampling.apply_repetition_penalty(x, [0, 1], 1.3),
    "frequency": lambda x: sampling.apply_frequency_presence_penalty(x, [0, 1], 0.3, 0.2),
    "bias": lambda x: sampling.apply_logit_bias(x, {0: 3.0}),
    "pipeline": lambda x: next_token_probs(x, SamplingSettings(temperature=0.5, top_k=3, top_p=0.9, min_p=0.1), [0]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
def test_inputs_stay_unchanged_and_dtype_and_shape_are_kept(name: str, dtype: torch.dtype) -> None:
    logits = random_logits(7, n=8, dtype=dtype)
    before = logits.clone()
    result = CALLS[name](logits)
    assert torch.equal(logits, before)
    assert result.shape == logits.shape and result.dtype == dtype


@pytest.mark.parametrize("name", CALLS)
def test_logits_of_the_wrong_shape_or_type_raise(name: str) -> None:
    for bad in (torch.zeros(2, 3), torch.zeros(0), torch.zeros(4, dtype=torch.long)):
        with pytest.raises(ValueError, match="logits must"):
            CALLS[name](bad)
    with pytest.raises(TypeError, match="torch tensor"):
        CALLS[name]([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: sampling.temperature_probs(x, -0.1), "temperature must be 0"),
        (lambda x: sampling.temperature_probs(x, math.nan), "temperature must be finite"),
        (lambda x: sampling.temperature_probs(x, "1"), "temperature must be a number"),
        (lambda x: sampling.top_k_filter(x, 0), "k must be at least 1"),
        (lambda x: sampling.top_k_filter(x, 1.5), "k must be a whole number"),
        (lambda x: sampling.top_k_filter(x, None), "k must be a whole number"),
        (lambda x: sampling.top_p_filter(x, 0), "p must be above 0"),
        (lambda x: sampling.top_p_filter(x, 1.01), "p must be above 0"),
        (lambda x: sampling.min_p_filter(x, -0.01), "min_p must lie"),
        (lambda x: sampling.min_p_filter(x, 1.01), "min_p must lie"),
        (lambda x: sampling.apply_repetition_penalty(x, [0], 0), "penalty must be above 0"),
        (lambda x: sampling.apply_repetition_penalty(x, [-1], 1.2), "at least 0"),
        (lambda x: sampling.apply_repetition_penalty(x, torch.tensor([-1]), 1.2), "outside the vocabulary"),
        (lambda x: sampling.apply_repetition_penalty(x, [4], 1.2), "outside the vocabulary"),
        (lambda x: sampling.apply_repetition_penalty(x, torch.tensor([[0]]), 1.2), "flat list or 1-D"),
        (lambda x: sampling.apply_frequency_presence_penalty(x, [9], 1.0), "outside the vocabulary"),
        (lambda x: sampling.apply_frequency_presence_penalty(x, [0], math.inf), "frequency_penalty must be finite"),
        (lambda x: sampling.apply_logit_bias(x, {4: 1.0}), "bias names id 4"),
        (lambda x: sampling.apply_logit_bias(x, {-1: 1.0}), "at least 0"),
        (lambda x: next_token_probs(x, SamplingSettings(), [], n_prompt=-1), "n_prompt must be at least 0"),
        (lambda x: next_token_probs(x * math.nan, SamplingSettings()), "nothing to sample"),
        (lambda x: next_token_probs(x - math.inf, SamplingSettings()), "nothing to sample"),
    ],
)
def test_bad_values_raise_a_sentence(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call(torch.tensor([1.0, 2.0, 3.0, 4.0]))


def test_whole_floats_and_scalar_tensors_count_as_numbers() -> None:
    logits = random_logits(8, n=6)
    assert torch.equal(sampling.top_k_filter(logits, 2.0), sampling.top_k_filter(logits, torch.tensor(2)))
    assert torch.equal(sampling.top_p_filter(logits, torch.tensor(0.5)), sampling.top_p_filter(logits, 0.5))
