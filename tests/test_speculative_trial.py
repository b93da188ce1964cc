"""The distribution of speculative decoding: exactly plain decoding's, and not with any of the planted wrong rules."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from kvlab import faults
from kvlab.sampling import SamplingSettings
from kvlab.speculative import chi_square, plain_probs, speculative_counts, speculative_probs, tiny_pair, verify_draft

PROMPT, LENGTH, K, N = [0, 1], 3, 2, 200_000
PLAIN = SamplingSettings()
FILTERED = SamplingSettings(temperature=0.9, top_k=3, top_p=0.97, min_p=0.01)
PENALISED = SamplingSettings(repetition_penalty=1.3, frequency_penalty=0.3, presence_penalty=-0.2, logit_bias={2: 0.5})
SETTINGS = {"plain": PLAIN, "filtered": FILTERED, "penalised": PENALISED}
REJECTED, LIKELY = 1e-9, 1e-4  # p-values on either side of a wide gap
PAIR = tiny_pair()


def naive_probs(settings: SamplingSettings) -> np.ndarray:
    """Plain decoding by its definition, one text after another, each pushed through the model anew."""
    from kvlab.sampling import next_token_probs

    flat = []
    for text in np.ndindex(*[4] * LENGTH):
        chance, context = 1.0, list(PROMPT)
        for token in text:
            logits = PAIR[0](torch.tensor(context))[-1]
            chance *= float(next_token_probs(logits, settings, context, len(PROMPT))[token])
            context.append(token)
        flat.append(chance)
    return np.array(flat)


@pytest.mark.parametrize("name", SETTINGS)
def test_plain_probs_are_those_of_plain_decoding(name: str) -> None:
    probs = plain_probs(PAIR[0], PROMPT, LENGTH, SETTINGS[name])
    assert probs.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(probs, naive_probs(SETTINGS[name]), atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_exact_distribution_is_the_plain_one(name: str, k: int) -> None:
    exact = speculative_probs(*PAIR, PROMPT, LENGTH, k, SETTINGS[name])
    np.testing.assert_allclose(exact, plain_probs(PAIR[0], PROMPT, LENGTH, SETTINGS[name]), atol=1e-11)


@pytest.mark.parametrize("name", SETTINGS)
def test_two_hundred_thousand_continuations_follow_the_target(name: str) -> None:
    counts = speculative_counts(*PAIR, PROMPT, LENGTH, K, N, SETTINGS[name], seed=1)
    assert counts.sum() == N
    found = chi_square(counts, plain_probs(PAIR[0], PROMPT, LENGTH, SETTINGS[name]))
    assert found.degrees >= 5
    assert found.p_value > LIKELY


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_ten_million_longer_continuations_follow_it_too(name: str, seed: int) -> None:
    pair = tiny_pair(4, seed=20 + 2 * seed)
    counts = speculative_counts(*pair, [3, 0, 2], 5, 3, 10_000_000, SETTINGS[name], seed=seed)
    assert chi_square(counts, plain_probs(pair[0], [3, 0, 2], 5, SETTINGS[name])).p_value > LIKELY


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("resampled_from_target", "plain"),
        ("resampled_from_target", "filtered"),
        ("draft_probs_unfiltered", "filtered"),
        ("bonus_from_draft", "plain"),
        ("bonus_from_draft", "filtered"),
        ("target_cache_kept", "plain"),
        ("target_cache_kept", "filtered"),
    ],
)
def test_every_wrong_rule_is_rejected(fault: str, name: str) -> None:
    right = plain_probs(PAIR[0], PROMPT, LENGTH, SETTINGS[name])
    with nullcontext() if getattr(planted(fault), "planted_fault", None) else faults.plant(fault):
        counts = speculative_counts(*PAIR, PROMPT, LENGTH, K, N, SETTINGS[name])
    assert chi_square(counts, right).p_value < REJECTED


def planted(fault: str) -> object:
    import importlib

    module, _, attribute = faults.FAULTS[fault].target.partition(":")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("bonus", [True, False])
@pytest.mark.parametrize("draft_settings", [None, PLAIN, SamplingSettings(temperature=0)])
def test_no_bonus_token_and_other_filters_on_the_draft_change_nothing(
    bonus: bool, draft_settings: SamplingSettings | None
) -> None:
    """They cost speed: fewer tokens in a round, or fewer that stay."""
    options = {"settings": FILTERED, "draft_settings": draft_settings, "bonus": bonus}
    right = plain_probs(PAIR[0], PROMPT, LENGTH, FILTERED)
    np.testing.assert_allclose(speculative_probs(*PAIR, PROMPT, LENGTH, K, **options), right, atol=1e-11)
    counts = speculative_counts(*PAIR, PROMPT, LENGTH, K, N, **options, seed=2)
    assert chi_square(counts, right).p_value > LIKELY


def test_a_rule_of_ones_own_can_be_tried() -> None:
    """The threshold of any rule is found by asking it; here one that accepts a draft token whenever p >= q."""

    def deterministic(tokens, q, p, uniforms):  # type: ignore[no-untyped-def]
        always = [0.0 if p[i, t] >= q[i, t] else 1.0 for i, t in enumerate(tokens)]
        return verify_draft(tokens, q, p, always)

    right = plain_probs(PAIR[0], PROMPT, LENGTH)
    own = speculative_counts(*PAIR, PROMPT, LENGTH, K, N, verify=lambda *a: verify_draft(*a))
    assert chi_square(own, right).p_value > LIKELY
    assert chi_square(speculative_counts(*PAIR, PROMPT, LENGTH, K, N, verify=deterministic), right).p_value < REJECTED


def test_chi_square_by_hand() -> None:
    found = chi_square([60, 40], [0.5, 0.5])  # (10² + 10²) / 50
    assert found.statistic == pytest.approx(4)
    assert found.degrees == 1
    assert found.p_value == pytest.approx(0.04550026, rel=1e-5)


def test_rare_cells_are_taken_together_and_impossible_ones_reject() -> None:
    assert chi_square([50, 45, 3, 2], [0.5, 0.45, 0.02, 0.03]).degrees == 2
    assert chi_square([50, 47, 2, 1], [0.5, 0.48, 0.01, 0.01]).degrees == 1  # the rare pair needs a third
    assert chi_square([99, 1], [1.0, 0.0]) == (float("inf"), 1, 0.0)
    with pytest.raises(ValueError, match="of one size"):
        chi_square([1, 2], [1.0])


def test_p_values_are_spread_evenly_when_the_rule_is_right() -> None:
    """A test that never rejects would prove nothing: of 60 seeds a few lie below 0.1, most do not."""
    right = plain_probs(PAIR[0], PROMPT, 2)
    values = [chi_square(speculative_counts(*PAIR, PROMPT, 2, 1, N, seed=s), right).p_value for s in range(60)]
    assert 1 <= sum(v < 0.1 for v in values) <= 15
    assert 18 <= sum(v < 0.5 for v in values) <= 42


def test_refusals() -> None:
    with pytest.raises(ValueError, match="the draft has 5 tokens and the target 4"):
        speculative_probs(PAIR[0], tiny_pair(5)[1], PROMPT, 2, 1)
    with pytest.raises(ValueError, match="too many to count"):
        plain_probs(PAIR[0], PROMPT, 20)
    with pytest.raises(ValueError, match="prompt is empty"):
        plain_probs(PAIR[0], [], 2)
    with pytest.raises(ValueError, match="k must be at least 1"):
        speculative_probs(*PAIR, PROMPT, 2, 0)
