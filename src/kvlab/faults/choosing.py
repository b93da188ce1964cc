"""Choosing tokens and showing text."""

from typing import Any

from kvlab.faults.plant import Fault


def _crossing_token_dropped(right: Any) -> Any:
    return lambda sorted_probs, p: max(1, right(sorted_probs, p) - 1)


def _top_k_one_short(right: Any) -> Any:
    return lambda logits, k: right(logits, max(1, k - 1))


def _penalty_without_sign(right: Any) -> Any:
    return lambda values, penalty: values / penalty


def _penalty_per_occurrence(right: Any) -> Any:
    def apply_repetition_penalty(logits: Any, context_ids: Any, penalty: float) -> Any:
        for token in [int(i) for i in context_ids]:
            logits = right(logits, [token], penalty)
        return logits

    return apply_repetition_penalty


def _half_characters(right: Any) -> Any:
    def push(self: Any, data: bytes) -> str:
        return self._release(data.decode("utf-8", "replace"))

    return push


def _stop_within_a_token(right: Any) -> Any:
    return lambda text, stop: 0


def _temperature_multiplied(right: Any) -> Any:
    def apply_temperature(logits: Any, temperature: float) -> Any:
        return right(logits, 1 / temperature if temperature else temperature)

    return apply_temperature


def _newest_score_only(right: Any) -> Any:
    def extend(beam: Any, log_probs: Any, n_beams: int, eos: Any) -> Any:
        return right(beam._replace(score=0.0), log_probs, n_beams, eos)

    return extend


FAULTS = (
    Fault(
        "crossing_token_dropped",
        "top-p leaves out the token that crosses p",
        "kvlab.sampling.filters:nucleus_size",
        _crossing_token_dropped,
    ),
    Fault("top_k_one_short", "top-k keeps k - 1 tokens", "kvlab.sampling.filters:kth_largest", _top_k_one_short),
    Fault(
        "penalty_without_sign",
        "the repetition penalty divides negative logits too, which raises them",
        "kvlab.sampling.penalties:penalise_by_sign",
        _penalty_without_sign,
    ),
    Fault(
        "penalty_per_occurrence",
        "the repetition penalty counts a token as often as it occurs",
        "kvlab.sampling.penalties:apply_repetition_penalty",
        _penalty_per_occurrence,
    ),
    Fault(
        "half_characters",
        "a stream decodes the bytes of each token alone",
        "kvlab.streaming:TextStream.push",
        _half_characters,
    ),
    Fault(
        "stop_within_a_token",
        "a stop string that spans several tokens is shown in part",
        "kvlab.streaming:_overlap",
        _stop_within_a_token,
    ),
    Fault(
        "temperature_multiplied",
        "logits are multiplied by the temperature, so that heat makes the model surer",
        "kvlab.sampling.filters:apply_temperature",
        _temperature_multiplied,
    ),
    Fault(
        "newest_score_only",
        "a beam is judged by its newest token alone",
        "kvlab.sampling.beam:extend",
        _newest_score_only,
    ),
)
