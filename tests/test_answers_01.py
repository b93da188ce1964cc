"""Known answers of unit 01 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

from pathlib import Path

import pytest

from known_answers import KnownAnswers, key

EXERCISES = ("positions_processed", "KVCache", "cached_attention", "kv_cache_bytes")
KNOWN = KnownAnswers("01_kv_cache", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "positions_processed/wrong_cached_multiplies": "then each call gets one position",
    "positions_processed/wrong_cached_takes_the_larger": "then each call gets one position",
    "positions_processed/wrong_checks_with_cache_only": "without a cache too",
    "positions_processed/wrong_checks_without_cache_only": "at least one prompt token",
    "positions_processed/wrong_final_length_each_step": "the naive calls get 1, 2, ..., 200",
    "positions_processed/wrong_last_token_fed_back": "the last token is chosen but never fed back",
    "positions_processed/wrong_naive_from_one_more": "the naive calls get 1, 2, ..., 200",
    "positions_processed/wrong_negative_n_new": "a negative number of tokens",
    "positions_processed/wrong_no_errors": "at least one prompt token",
    "positions_processed/wrong_nothing_still_costs": "nothing to produce",
    "positions_processed/wrong_prefill_forgotten": "the first new token comes out of prefill",
    "KVCache/wrong_append_after_truncate": "after truncate the next append goes where the cut was",
    "KVCache/wrong_append_concatenates": "not a copy",
    "KVCache/wrong_append_negative_layer": "for append too",
    "KVCache/wrong_broadcasts_heads": "one head would be broadcast",
    "KVCache/wrong_failed_append_counts": "must leave the length as it was",
    "KVCache/wrong_index_error": "layer 2 of 2 does not exist",
    "KVCache/wrong_k_for_v": "v is stored beside k",
    "KVCache/wrong_length_is_an_attribute": "an attribute hides your method `length`",
    "KVCache/wrong_length_negative_layer": "for length too",
    "KVCache/wrong_negative_layers": "numpy would take the last one",
    "KVCache/wrong_no_room_check": "numpy broadcasts one row into an empty slice",
    "KVCache/wrong_one_position_unused": "the last free position can be used",
    "KVCache/wrong_truncate_ignores_too_long": "larger than every layer's length",
    "KVCache/wrong_truncate_negative": "a negative length is no length",
    "KVCache/wrong_truncate_sets_length": "min(its length, length)",
    "KVCache/wrong_truncates_one_layer": "truncate cuts every layer",
    "KVCache/wrong_v_buffer_replaced": "for v too",
    "KVCache/wrong_v_copied": "for v too",
    "KVCache/wrong_v_rows_unchecked": "k and v must have the same shape",
    "KVCache/wrong_v_unchecked": "v too: one head",
    "KVCache/wrong_view_copies": "not a copy",
    "KVCache/wrong_writes_before_checking": "a failed append must leave the cache",
    "cached_attention/wrong_changes_q": "must not change its inputs",
    "cached_attention/wrong_hides_itself": "its own too",
    "cached_attention/wrong_masked_after_softmax": "must add up to 1: mask first",
    "cached_attention/wrong_masked_with_a_thousand": "not a large number",
    "cached_attention/wrong_masked_with_zero": "0 is a score like any other",
    "cached_attention/wrong_maximum_before_mask": "the maximum over visible keys",
    "cached_attention/wrong_no_mask": "no query may see a later key",
    "cached_attention/wrong_no_softmax": "after softmax its only weight is 1",
    "cached_attention/wrong_overflows": "exp of that overflows",
    "cached_attention/wrong_scaled_by_root_8": "d is the head width of this q",
    "cached_attention/wrong_scaled_by_width": "sqrt(d)",
    "cached_attention/wrong_softmax_over_everything": "softmax over the keys",
    "cached_attention/wrong_softmax_over_queries": "softmax over the keys",
    "cached_attention/wrong_too_many_queries": "are not the last of 4 positions",
    "cached_attention/wrong_top_left_mask": "bottom right",
    "cached_attention/wrong_unscaled": "sqrt(d)",
    "kv_cache_bytes/wrong_always_fp16": "bytes_per_value is a factor",
    "kv_cache_bytes/wrong_batch_forgotten": "each sequence of the batch",
    "kv_cache_bytes/wrong_checks_the_product": "two negatives",
    "kv_cache_bytes/wrong_keys_only": "both K and V",
    "kv_cache_bytes/wrong_layers_forgotten": "in every layer",
    "kv_cache_bytes/wrong_negative_batch": "a negative batch",
    "kv_cache_bytes/wrong_negative_bytes_per_value": "negative bytes_per_value",
    "kv_cache_bytes/wrong_negative_width": "a negative head width",
    "kv_cache_bytes/wrong_one_position_more": "both K and V, in every layer",
    "kv_cache_bytes/wrong_rounded": "do not round",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {
    "KVCache/wrong_append_after_truncate": "your code stopped with: ValueError",
    "KVCache/wrong_length_is_an_attribute": "the check could not use your result: TypeError",
    "KVCache/wrong_one_position_unused": "your code stopped with: ValueError",
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


WHOLE_JOB = {
    "kvlab.attention.attend": "cached_attention",
    "kvlab.attention.stacked_attention": "cached_attention",
    "kvlab.attention.grouped_query_attention": "cached_attention",
    "kvlab.scratch.attention": "cached_attention",
    "kvlab.arithmetic.kv_bytes": "kv_cache_bytes",
}


@pytest.mark.parametrize("name", WHOLE_JOB)
def test_functions_that_do_the_whole_job_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.refuses(WHOLE_JOB[name], name, monkeypatch)
