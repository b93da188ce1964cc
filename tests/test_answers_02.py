"""Known answers of unit 02 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

from pathlib import Path

import pytest

from known_answers import KnownAnswers, key

EXERCISES = ("latency_metrics", "roofline_seconds", "chunked_prefill", "plan_step")
KNOWN = KnownAnswers("02_prefill_decode", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "latency_metrics/wrong_backwards_passes": "the second token is earlier than the first",
    "latency_metrics/wrong_divides_by_no_gap": "tpot is 0 and tps inf",
    "latency_metrics/wrong_e2e_on_the_clock": "from the request to the last token",
    "latency_metrics/wrong_e2e_one_gap_too_many": "one gap for each of the other three tokens",
    "latency_metrics/wrong_e2e_without_ttft": "from the request to the last token",
    "latency_metrics/wrong_early_token_passes": "before its request",
    "latency_metrics/wrong_empty_is_nan": "nothing to measure",
    "latency_metrics/wrong_ends_compared": "each pair, not only at both ends",
    "latency_metrics/wrong_equal_times_refused": "equal times are allowed",
    "latency_metrics/wrong_first_wait_in_tpot": "the wait for the first token is none of them",
    "latency_metrics/wrong_gaps_counted_as_tokens": "the mean of the three gaps",
    "latency_metrics/wrong_last_gap_only": "the mean of the three gaps",
    "latency_metrics/wrong_median": "the mean of the three gaps",
    "latency_metrics/wrong_one_token_is_zero": "one token has no gap",
    "latency_metrics/wrong_tps_counts_the_first": "the inverse of tpot",
    "latency_metrics/wrong_tps_over_the_request": "without the wait for the first one",
    "latency_metrics/wrong_ttft_on_the_clock": "begins at the request, not at 0",
    "roofline_seconds/wrong_arithmetic_only": "the traffic decides",
    "roofline_seconds/wrong_bandwidth_unchecked": "a bandwidth of 0",
    "roofline_seconds/wrong_milliseconds": "the arithmetic decides",
    "roofline_seconds/wrong_negative_passes": "peak_flops below 0",
    "roofline_seconds/wrong_no_errors": "a peak_flops of 0",
    "roofline_seconds/wrong_peak_unchecked": "a peak_flops of 0",
    "roofline_seconds/wrong_product_checked": "two negatives hide each other",
    "roofline_seconds/wrong_rates_swapped": "the arithmetic decides",
    "roofline_seconds/wrong_smaller": "the arithmetic decides",
    "roofline_seconds/wrong_sum": "the arithmetic decides",
    "roofline_seconds/wrong_traffic_only": "the arithmetic decides",
    "roofline_seconds/wrong_work_compared": "not operations with bytes",
    "roofline_seconds/wrong_zero_passes": "a peak_flops of 0",
    "chunked_prefill/wrong_chunk_size_unchecked": "a negative chunk_size",
    "chunked_prefill/wrong_empty_call": "no empty one at the end",
    "chunked_prefill/wrong_first_row": "the last row of the last call",
    "chunked_prefill/wrong_ids_changed": "must not change ids",
    "chunked_prefill/wrong_last_token_again": "once and in order",
    "chunked_prefill/wrong_last_token_apart": "take 3 calls",
    "chunked_prefill/wrong_no_ids": "there is no last token",
    "chunked_prefill/wrong_number_of_chunks": "chunk_size is a size, not their number",
    "chunked_prefill/wrong_one_call": "no call gets more than chunk_size",
    "chunked_prefill/wrong_overlap": "once and in order",
    "chunked_prefill/wrong_padded": "and nothing else",
    "chunked_prefill/wrong_prefix_again": "once and in order",
    "chunked_prefill/wrong_reverse": "once and in order",
    "chunked_prefill/wrong_short_chunk_dropped": "holds each token of ids",
    "chunked_prefill/wrong_token_by_token": "take 3 calls",
    "chunked_prefill/wrong_too_long": "no call gets more than chunk_size",
    "plan_step/wrong_all_or_nothing": "it neither waits",
    "plan_step/wrong_decode_not_charged": "come out of the same budget",
    "plan_step/wrong_decoding_not_counted": "max_seqs counts both kinds together",
    "plan_step/wrong_decoding_over_budget": "more decoding requests than tokens",
    "plan_step/wrong_decoding_over_max_seqs": "more decoding requests than max_seqs",
    "plan_step/wrong_each_cut_by_itself": "the last one is cut to what is left",
    "plan_step/wrong_latest_first": "in order of arrival",
    "plan_step/wrong_lists_consumed": "must not change the list",
    "plan_step/wrong_negative_budget": "a negative token_budget",
    "plan_step/wrong_negative_max_seqs": "a negative max_seqs",
    "plan_step/wrong_negative_passes": "a negative max_seqs",
    "plan_step/wrong_not_cut": "nor goes over the budget",
    "plan_step/wrong_one_prompt": "room for all",
    "plan_step/wrong_passed_over": "cut to what is left",
    "plan_step/wrong_prefill_first": "decoding requests come first",
    "plan_step/wrong_prefill_not_counted": "max_seqs counts both kinds together",
    "plan_step/wrong_shared_out": "in order of arrival",
    "plan_step/wrong_shortest_first": "the first to arrive takes the whole budget",
    "plan_step/wrong_zero_entries": "who gets nothing has no entry",
    "plan_step/wrong_zero_refused": "an empty plan, no error",
}
# An error where none is due, or one that Python raises by itself: the panel quotes it.
STOPPED = {
    "latency_metrics/wrong_divides_by_no_gap": "your code stopped with: ZeroDivisionError",
    "latency_metrics/wrong_equal_times_refused": "your code stopped with: ValueError",
    "chunked_prefill/wrong_chunk_size_unchecked": "came: UnboundLocalError",
    "chunked_prefill/wrong_no_ids": "came: UnboundLocalError",
    "plan_step/wrong_zero_refused": "your code stopped with: ValueError",
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


def test_the_function_that_does_the_whole_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.refuses("roofline_seconds", "kvlab.arithmetic.roofline_seconds", monkeypatch)


@pytest.mark.parametrize(
    "result", ['{"ttft_s": 0.5, "tpot_s": 0.1, "tps": 10.0, "e2e_s": 0.6}', "(0.5, 0.1, 10.0, 0.6)"]
)
def test_a_result_without_the_four_keys_is_told_so(result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = f"def latency_metrics(requested_at, token_times):\n    return {result}"
    with pytest.raises(AssertionError, match="the rule: the result is a dict with the keys ttft, tpot, tps and e2e"):
        KNOWN.run("latency_metrics", answer, monkeypatch)


def test_an_answer_that_calls_the_model_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = """def chunked_prefill(model, ids, chunk_size, cache):
    if len(ids) == 0 or chunk_size < 0:
        raise ValueError("no ids, or a negative chunk_size")
    begin = 0
    while begin < len(ids):
        logits = model(ids[begin : begin + chunk_size], cache)
        begin += chunk_size
    return logits[-1]
"""
    with pytest.raises(AssertionError, match="called 100 times"):
        KNOWN.run("chunked_prefill", endless, monkeypatch)
