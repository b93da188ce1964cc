"""Known answers of unit 05 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

from pathlib import Path

import pytest

from known_answers import KnownAnswers, key
from kvgrade import stripped
from kvgrade.cases import load

EXERCISES = (
    "top_k_filter",
    "top_p_filter",
    "min_p_filter",
    "temperature_probs",
    "beam_search",
    "apply_repetition_penalty",
    "apply_logit_bias",
)
KNOWN = KnownAnswers("05_sampling", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "top_k_filter/wrong_different_values": "not different values",
    "top_k_filter/wrong_in_place": "must not change the logits",
    "top_k_filter/wrong_k_beyond": "larger than the vocabulary",
    "top_k_filter/wrong_k_unchecked": "k = 0 would remove every token",
    "top_k_filter/wrong_kth_removed": "k = V keeps all tokens, the smallest too",
    "top_k_filter/wrong_large_negative": "every other token gets minus infinity",
    "top_k_filter/wrong_one_too_few": "k = V keeps all tokens, the smallest too",
    "top_k_filter/wrong_one_too_many": "the two largest stay",
    "top_k_filter/wrong_probabilities": "each with its own logit",
    "top_k_filter/wrong_short": "the two largest stay in their places",
    "top_k_filter/wrong_smallest": "the two largest stay",
    "top_k_filter/wrong_ties_cut": "tied with the 2nd largest",
    "top_k_filter/wrong_zero": "every other token gets minus infinity",
    "top_k_filter/wrong_zero_keeps_all": "k = 0 would remove every token",
    "top_p_filter/wrong_above_passes": "no set of tokens reaches a p above 1",
    "top_p_filter/wrong_crossing_dropped": "the token that crosses p belongs to the set",
    "top_p_filter/wrong_crossing_dropped_first_too": "reaches 0.2 alone",
    "top_p_filter/wrong_each_token": "reaches 0.2 alone",
    "top_p_filter/wrong_in_place": "must not change the logits",
    "top_p_filter/wrong_logits_summed": "0.5 is short of 0.7",
    "top_p_filter/wrong_not_sorted": "the most likely token reaches 0.2 alone",
    "top_p_filter/wrong_one_too_many": "every other token gets minus infinity",
    "top_p_filter/wrong_places": "it stays in its place",
    "top_p_filter/wrong_probabilities": "with their own logits",
    "top_p_filter/wrong_range_unchecked": "p = 0 raises ValueError",
    "top_p_filter/wrong_tail_at_one": "too unlikely to move the sum",
    "top_p_filter/wrong_ties_kept": "one of them is enough",
    "top_p_filter/wrong_unlikely_first": "the most likely token reaches 0.2 alone",
    "top_p_filter/wrong_zero": "every other token gets minus infinity",
    "top_p_filter/wrong_zero_passes": "p = 0 raises ValueError",
    "min_p_filter/wrong_above_passes": "a min_p above 1",
    "min_p_filter/wrong_below_passes": "a min_p below 0",
    "min_p_filter/wrong_first_maximum": "all that are tied",
    "min_p_filter/wrong_in_place": "must not change the logits",
    "min_p_filter/wrong_limit_removed": "each is as likely as the largest",
    "min_p_filter/wrong_logits_compared": "min_p = 0 keeps all tokens",
    "min_p_filter/wrong_not_scaled": "0.25 of the largest probability",
    "min_p_filter/wrong_one_minus": "min_p = 0 keeps all tokens",
    "min_p_filter/wrong_probabilities": "with their own logits",
    "min_p_filter/wrong_range_unchecked": "a min_p below 0",
    "min_p_filter/wrong_share_of_mean": "0.25 of the largest probability",
    "min_p_filter/wrong_zero": "tokens of at least 0.1 stay",
    "min_p_filter/wrong_zero_refused": "min_p = 0 keeps all tokens",
    "temperature_probs/wrong_all_ties": "the first one gets everything",
    "temperature_probs/wrong_divided_by_zero": "dividing by 0 is no way there",
    "temperature_probs/wrong_ignored": "which flattens the distribution",
    "temperature_probs/wrong_in_place": "must not change the logits",
    "temperature_probs/wrong_last_tie": "the first one gets everything",
    "temperature_probs/wrong_multiplied": "logits / 2, which flattens",
    "temperature_probs/wrong_negative_is_greedy": "a negative temperature",
    "temperature_probs/wrong_negative_passes": "a negative temperature",
    "temperature_probs/wrong_no_softmax": "the softmax of the logits",
    "temperature_probs/wrong_overflow": "subtract the maximum before exp",
    "temperature_probs/wrong_probabilities_divided": "logits / 2",
    "temperature_probs/wrong_ties_share": "they do not share",
    "temperature_probs/wrong_zero_refused": "temperature 0 is greedy",
    "beam_search/wrong_asks_on": "the model is not called any more",
    "beam_search/wrong_best_beam_only": "the extensions of all beams compete",
    "beam_search/wrong_best_only": "the three most likely tokens",
    "beam_search/wrong_by_length": "no score is divided by length",
    "beam_search/wrong_each_beam_greedy": "the three best of all extensions",
    "beam_search/wrong_ended_aside": "an ended beam has to compete",
    "beam_search/wrong_ended_lost": "an ended beam keeps its eos",
    "beam_search/wrong_eos_anywhere": "an eos inside the start ends nothing",
    "beam_search/wrong_eos_ignored": "an ended beam keeps its eos",
    "beam_search/wrong_eos_left_out": "an ended beam keeps its eos",
    "beam_search/wrong_greedy": "the three most likely tokens",
    "beam_search/wrong_max_new_unchecked": "a negative max_new",
    "beam_search/wrong_mean": "its score adds up the new tokens",
    "beam_search/wrong_n_beams_unchecked": "n_beams = 0",
    "beam_search/wrong_newest_score": "its score adds up the new tokens",
    "beam_search/wrong_newest_token_only": "the start and its most likely next token",
    "beam_search/wrong_padded": "an ended beam keeps its eos",
    "beam_search/wrong_sizes_unchecked": "n_beams = 0",
    "beam_search/wrong_start_changed": "must not change the start",
    "beam_search/wrong_start_left_out": "the start alone",
    "beam_search/wrong_stops_at_first": "the other goes on",
    "beam_search/wrong_worst_first": "best first",
    "apply_repetition_penalty/wrong_always_divided": "a negative logit is multiplied",
    "apply_repetition_penalty/wrong_always_multiplied": "are divided by 4",
    "apply_repetition_penalty/wrong_empty": "an empty context",
    "apply_repetition_penalty/wrong_ids_unchecked": "a negative id is no token",
    "apply_repetition_penalty/wrong_in_place": "must not change the logits",
    "apply_repetition_penalty/wrong_lists_only": "may be a LongTensor",
    "apply_repetition_penalty/wrong_negative_ids": "a negative id is no token",
    "apply_repetition_penalty/wrong_penalty_unchecked": "a penalty of 0",
    "apply_repetition_penalty/wrong_per_occurrence": "each counts once",
    "apply_repetition_penalty/wrong_set_of_tensors": "a LongTensor as context",
    "apply_repetition_penalty/wrong_signs_swapped": "are divided by 4",
    "apply_repetition_penalty/wrong_subtracted": "are divided by 4",
    "apply_repetition_penalty/wrong_zero_penalty": "a penalty of 0",
    "apply_logit_bias/wrong_cut": "nothing is cut off at 100",
    "apply_logit_bias/wrong_exponential": "token 1 gets 2.5 more",
    "apply_logit_bias/wrong_ids_unchecked": "a negative id is no token",
    "apply_logit_bias/wrong_in_place": "must not change the logits",
    "apply_logit_bias/wrong_minus_infinity": "-100 is not minus infinity",
    "apply_logit_bias/wrong_multiplied": "token 1 gets 2.5 more",
    "apply_logit_bias/wrong_one_only": "two tokens, each with a number",
    "apply_logit_bias/wrong_probabilities": "no logit changes",
    "apply_logit_bias/wrong_replaced": "token 1 gets 2.5 more",
    "apply_logit_bias/wrong_sorted_ids": "two tokens, each with a number",
    "apply_logit_bias/wrong_subtracted": "token 1 gets 2.5 more",
    "apply_logit_bias/wrong_unknown_passed_over": "the ids of 4 tokens",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {
    "top_k_filter/wrong_k_beyond": "your code stopped with: RuntimeError",
    "min_p_filter/wrong_zero_refused": "your code stopped with: ValueError",
    "temperature_probs/wrong_zero_refused": "your code stopped with: ValueError",
    "apply_repetition_penalty/wrong_empty": "your code stopped with: IndexError",
    "apply_repetition_penalty/wrong_lists_only": "your code stopped with: AttributeError",
}


def test_each_exercise_has_enough_known_answers() -> None:
    KNOWN.enough(DIAGNOSES)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solution_passes(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.run(exercise, KNOWN.solutions[exercise], monkeypatch)


@pytest.mark.parametrize("path", KNOWN.right, ids=key)
def test_right_answers_pass(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.run_file(path, monkeypatch)


@pytest.mark.parametrize("path", KNOWN.wrong, ids=key)
def test_wrong_answers_get_their_diagnosis(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.gets(path, DIAGNOSES[key(path)], STOPPED.get(key(path), ""), monkeypatch)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_unsolved_stub_is_not_attempted(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.is_not_attempted(exercise, monkeypatch)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_function_of_kvlab_is_refused(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.refuses(exercise, f"kvlab.sampling.{exercise}", monkeypatch)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_what_is_closed_can_be_left_out_of_the_jail(exercise: str) -> None:
    """Each closed name is a function of a module of its own, and its stub stands in the copy that the jail gets."""
    for name in load("05_sampling")[exercise].closed:
        _, function = name.rsplit(".", 1)
        texts = [path.read_text(encoding="utf-8") for path in stripped.tree([name]).rglob("*.py")]
        assert sum(f'refuse("{name}")' in text for text in texts) == 1, function
