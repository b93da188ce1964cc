"""Known answers of unit 04 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from known_answers import KnownAnswers, key
from kvgrade.cases import draw, load, run_here
from kvgrade.verdict import agrees

EXERCISES = ("cached_prefix_length", "request_cost", "break_even_requests", "openai_cached_tokens", "merge_usage")
KNOWN = KnownAnswers("04_prompt_caching", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "cached_prefix_length/wrong_all_or_nothing": "then both lists go on in different ways",
    "cached_prefix_length/wrong_blocks_unchecked": "a block of 0 tokens",
    "cached_prefix_length/wrong_counts_all_matches": "after the first difference does not count",
    "cached_prefix_length/wrong_cut_after_rounding": "the last block is not reused",
    "cached_prefix_length/wrong_empty_prompt": "no negative number",
    "cached_prefix_length/wrong_goes_on_after_a_block": "after the first difference does not count",
    "cached_prefix_length/wrong_last_stored_token": "all that is stored is reused",
    "cached_prefix_length/wrong_lists_changed": "both lists stay as they are",
    "cached_prefix_length/wrong_negative_blocks": "a block of -2 tokens",
    "cached_prefix_length/wrong_no_token_left": "one has to be computed",
    "cached_prefix_length/wrong_not_rounded": "rounded down to whole blocks",
    "cached_prefix_length/wrong_number_of_blocks": "the result is a number of tokens",
    "cached_prefix_length/wrong_one_less_always": "all 4 are reused",
    "cached_prefix_length/wrong_rounded_to_nearest": "rounded down",
    "cached_prefix_length/wrong_rounded_up": "rounded down to whole blocks",
    "request_cost/wrong_input_besides": "cost cache_write, and change nothing else",
    "request_cost/wrong_key_error": "a key that is missing counts 0",
    "request_cost/wrong_negative_passes": "a negative input_tokens makes no sense",
    "request_cost/wrong_none": "None counts 0",
    "request_cost/wrong_other_keys_billed": "other keys of usage are ignored",
    "request_cost/wrong_other_keys_refused": "other keys of usage are ignored",
    "request_cost/wrong_output_as_input": "a price of their own: output",
    "request_cost/wrong_output_unchecked": "a negative output_tokens makes no sense",
    "request_cost/wrong_per_thousand": "per million tokens",
    "request_cost/wrong_read_and_write_swapped": "cost cache_write",
    "request_cost/wrong_reads_as_input": "cost cache_read",
    "request_cost/wrong_reads_free": "cost cache_read",
    "request_cost/wrong_reads_subtracted": "cost cache_read, and change nothing else",
    "request_cost/wrong_rounded_to_cents": "the result is not rounded",
    "request_cost/wrong_sum_checked": "whatever the other counts are",
    "request_cost/wrong_usage_filled": "nothing is filled in",
    "request_cost/wrong_writes_as_input": "cost cache_write",
    "request_cost/wrong_writes_free": "cost cache_write",
    "break_even_requests/wrong_at_least_two": "from the first request on",
    "break_even_requests/wrong_below_one": "1 is the smallest number",
    "break_even_requests/wrong_dear_reads_refused": "a dear read changes nothing",
    "break_even_requests/wrong_division_by_zero": "it never pays",
    "break_even_requests/wrong_first_reads_too": "The first one writes only",
    "break_even_requests/wrong_gives_up": "it takes long, but it pays in the end",
    "break_even_requests/wrong_infinity": "it never pays",
    "break_even_requests/wrong_one_more": "1.25 + 0.1 with a cache, 2 without",
    "break_even_requests/wrong_one_read": "Each later request reads",
    "break_even_requests/wrong_read_of_one": "wins nothing back",
    "break_even_requests/wrong_reads_counted": "The one that writes counts too",
    "break_even_requests/wrong_reads_free": "each later one reads",
    "break_even_requests/wrong_two": "2.1 with a cache, 2 without, so not yet",
    "openai_cached_tokens/wrong_above_the_minimum": "just the minimum is enough",
    "openai_cached_tokens/wrong_fixed_minimum": "1000 + 2 * 128",
    "openai_cached_tokens/wrong_fixed_step": "the step is an argument",
    "openai_cached_tokens/wrong_from_zero": "count from the minimum, not from 0",
    "openai_cached_tokens/wrong_minimum_alone": "two whole steps: all of it counts",
    "openai_cached_tokens/wrong_negative_minimum": "a negative minimum",
    "openai_cached_tokens/wrong_negative_prefix": "a negative prefix",
    "openai_cached_tokens/wrong_never_zero": "nothing is cached",
    "openai_cached_tokens/wrong_no_errors": "a negative prefix",
    "openai_cached_tokens/wrong_no_minimum": "one token below the minimum",
    "openai_cached_tokens/wrong_not_rounded": "no whole step: rounded down",
    "openai_cached_tokens/wrong_one_token_left": "just the minimum is enough",
    "openai_cached_tokens/wrong_rounded": "no whole step: rounded down",
    "openai_cached_tokens/wrong_rounded_up": "no whole step: rounded down",
    "openai_cached_tokens/wrong_step_checked_late": "below the minimum too",
    "openai_cached_tokens/wrong_step_unchecked": "a step of 0 leads nowhere",
    "openai_cached_tokens/wrong_steps_alone": "just the minimum is enough",
    "merge_usage/wrong_added_up": "nothing is added up",
    "merge_usage/wrong_events_consumed": "the list and its dicts stay as they are",
    "merge_usage/wrong_first_event_filled": "the list and its dicts stay as they are",
    "merge_usage/wrong_first_value": "the last value counts",
    "merge_usage/wrong_keys_of_the_first": "one that comes later is added",
    "merge_usage/wrong_keys_of_the_last": "a key that only the first report has is kept",
    "merge_usage/wrong_last_event": "a key that only the first report has is kept",
    "merge_usage/wrong_no_events": "no events: an empty dict",
    "merge_usage/wrong_none_is_zero": "it does not replace a count",
    "merge_usage/wrong_none_refused": "None says nothing",
    "merge_usage/wrong_none_replaces": "it does not replace a count",
    "merge_usage/wrong_output_alone": "the same for every key",
    "merge_usage/wrong_zeros_dropped": "0 is a count",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {
    "request_cost/wrong_key_error": "your code stopped with: KeyError",
    "request_cost/wrong_none": "your code stopped with: TypeError",
    "request_cost/wrong_other_keys_refused": "your code stopped with: KeyError",
    "break_even_requests/wrong_dear_reads_refused": "your code stopped with: ValueError",
    "break_even_requests/wrong_gives_up": "your code stopped with: ValueError",
    "merge_usage/wrong_no_events": "your code stopped with: IndexError",
    "merge_usage/wrong_none_refused": "your code stopped with: TypeError",
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
def test_the_course_function_of_the_same_job_is_refused(exercise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "prices" if exercise == "request_cost" else "rules"
    KNOWN.refuses(exercise, f"kvlab.providers.{module}.{exercise}", monkeypatch)


# --- what the contract leaves open never decides ---------------------------------------------------------------------


def drawn(exercise: str, seeds: range):
    """The arguments of every call in the cases of an exercise."""
    for seed in seeds:
        for group in draw(load("04_prompt_caching")[exercise], seed).values():
            yield from (step["args"] for case in group for step in case.steps if step["do"] == "call")


def test_no_case_of_break_even_is_near_a_tie() -> None:
    """A tie: caching and no caching cost the same at some whole number of requests."""
    for write, read in drawn("break_even_requests", range(50)):
        w, r = Fraction(str(write)), Fraction(str(read))
        assert abs(w - 1) > Fraction(1, 1000)
        if w > 1 > r:
            at = (w - r) / (1 - r)
            assert abs(at - round(at)) > Fraction(1, 1000), (write, read)


def test_counts_of_merge_usage_never_fall() -> None:
    for (events,) in drawn("merge_usage", range(50)):
        for name in {name for event in events for name in event}:
            counts = [event[name] for event in events if event.get(name) is not None]
            assert counts and counts == sorted(counts)


@pytest.mark.parametrize("fill", [None, "left out"])
def test_a_key_that_never_has_a_value_is_open(fill: str | None) -> None:
    exercise = load("04_prompt_caching")["merge_usage"]
    case = draw(exercise, 1)["one event"][0]
    want = run_here(case, exercise.names)
    value = dict(want[0]["value"])
    if fill is None:
        value["audio_tokens"] = None
    assert agrees(exercise, case, [{"value": value}], want)


def test_nothing_may_come_out_where_no_event_came_in() -> None:
    exercise = load("04_prompt_caching")["merge_usage"]
    (case,) = draw(exercise, 1)["no events"]
    want = run_here(case, exercise.names)
    assert agrees(exercise, case, want, want)
    assert not agrees(exercise, case, [{"value": {"output_tokens": 0}}, want[1]], want)
    assert not agrees(exercise, case, [{"value": None}, want[1]], want)
    assert not agrees(exercise, case, [{"raised": {"type": "IndexError", "mro": ["IndexError"]}}, want[1]], want)


def test_amounts_are_whole_cents_where_rounding_should_not_matter() -> None:
    """Else an answer that only rounds would fail every group, and its diagnosis would say little."""
    exercise = load("04_prompt_caching")["request_cost"]
    for seed in range(20):
        for name, group in draw(exercise, seed).items():
            amounts = [out["value"] for case in group for out in run_here(case, exercise.names)[:1] if "value" in out]
            whole = [np.isclose(100 * amount, round(100 * amount), rtol=0, atol=1e-9) for amount in amounts]
            assert not any(whole) if name == "small requests" else all(whole)
