"""Known answers of unit 06 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

from pathlib import Path

import pytest

from known_answers import KnownAnswers, key
from kvgrade.cases import draw, load, run_here
from kvgrade.verdict import agrees

EXERCISES = ("verify_draft", "expected_tokens", "quantize_rows", "pack_int4", "online_softmax_attention")
KNOWN = KnownAnswers("06_optimizations", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "verify_draft/wrong_absolute_difference": "after a rejection: max(0, p - q)",
    "verify_draft/wrong_always_last_row": "after a rejection: max(0, p - q)",
    "verify_draft/wrong_bonus_from_draft": "the last row of the target, as it is",
    "verify_draft/wrong_bonus_one_early": "the last row of the target, as it is",
    "verify_draft/wrong_changes_target": "must not change the probabilities",
    "verify_draft/wrong_equal_accepted": "0.5 is not below 0.5",
    "verify_draft/wrong_goes_on": "the first rejection ends the draft",
    "verify_draft/wrong_negative_ids": "a negative id is no token",
    "verify_draft/wrong_next_row": "after a rejection: max(0, p - q)",
    "verify_draft/wrong_no_chance": "each number is below p / q",
    "verify_draft/wrong_no_draft_refused": "no draft at all (K = 0) is allowed",
    "verify_draft/wrong_not_divided": "each number is below p / q",
    "verify_draft/wrong_not_scaled": "after a rejection: max(0, p - q)",
    "verify_draft/wrong_q_minus_p": "after a rejection: max(0, p - q)",
    "verify_draft/wrong_ratio_swapped": "the third token is rejected",
    "verify_draft/wrong_rejected_token_counted": "the two before it stay",
    "verify_draft/wrong_rows_unchecked": "1 token needs 2 target rows, not 1",
    "verify_draft/wrong_samples_from_p": "after a rejection: max(0, p - q)",
    "verify_draft/wrong_uniforms_unchecked": "2 tokens need 2 numbers, not 1",
    "expected_tokens/wrong_above_one_passes": "an acceptance above 1",
    "expected_tokens/wrong_all_or_nothing": "a third if both are",
    "expected_tokens/wrong_below_zero_passes": "an acceptance below 0",
    "expected_tokens/wrong_bonus_forgotten": "2 tokens in half of the rounds",
    "expected_tokens/wrong_divides_by_zero": "all k tokens and the bonus token",
    "expected_tokens/wrong_draft_tokens_only": "2 tokens in half of the rounds",
    "expected_tokens/wrong_endless": "2 tokens in half of the rounds",
    "expected_tokens/wrong_endless_cut": "2 tokens in half of the rounds",
    "expected_tokens/wrong_negative_k": "a draft of -1 tokens",
    "expected_tokens/wrong_no_draft_is_nothing": "a plain decoding step, 1 token",
    "expected_tokens/wrong_no_draft_refused": "a plain decoding step, 1 token",
    "expected_tokens/wrong_no_end": "a third if both are",
    "expected_tokens/wrong_one_term_too_many": "2 tokens in half of the rounds",
    "expected_tokens/wrong_rounded": "2 tokens in half of the rounds",
    "quantize_rows/wrong_always_127": "4 bits: the scale",
    "quantize_rows/wrong_bits_unchecked": "1 bit leaves 0",
    "quantize_rows/wrong_changes_w": "must not change w",
    "quantize_rows/wrong_columns": "every code times the scale of its row",
    "quantize_rows/wrong_cut_off": "do not cut off",
    "quantize_rows/wrong_divides_back": "every code times the scale of its row",
    "quantize_rows/wrong_floats": "have the dtype int8",
    "quantize_rows/wrong_floor": "round to the nearest",
    "quantize_rows/wrong_index_error": "there are no rows",
    "quantize_rows/wrong_int64": "have the dtype int8",
    "quantize_rows/wrong_inverse": "the largest ABSOLUTE value by 127",
    "quantize_rows/wrong_kept_axis": "scales (rows,)",
    "quantize_rows/wrong_one_code_more": "the largest ABSOLUTE value by 127",
    "quantize_rows/wrong_one_scale": "each row has its own",
    "quantize_rows/wrong_scales_unchecked": "2 rows need 2 scales, not 3",
    "quantize_rows/wrong_sign_ignored": "the largest ABSOLUTE value by 127",
    "quantize_rows/wrong_whole_weights": "every code times the scale of its row",
    "quantize_rows/wrong_zeros_divided": "a finite scale, not inf and not nan",
    "pack_int4/wrong_changes_codes": "must not change the codes",
    "pack_int4/wrong_codes_unchecked": "8 does not fit",
    "pack_int4/wrong_edge_of_signs": "are negative codes: take 16 away",
    "pack_int4/wrong_halves_of_the_list": "neighbours share a byte",
    "pack_int4/wrong_high_first": "the first code in the low half",
    "pack_int4/wrong_low_codes_pass": "-9 does not fit",
    "pack_int4/wrong_minus_eight_refused": "-8 is stored as 8",
    "pack_int4/wrong_n_unchecked": "one byte holds 2 codes, not 3",
    "pack_int4/wrong_odd_end_dropped": "the last byte holds 7 in its low half",
    "pack_int4/wrong_packs_int8": "the bytes have the dtype uint8",
    "pack_int4/wrong_padded_in_front": "the last byte holds 7 in its low half",
    "pack_int4/wrong_padded_with_last": "the last byte holds 7 in its low half",
    "pack_int4/wrong_padding_unpacked": "the padding is no code",
    "pack_int4/wrong_shifted": "1 + 16 * 2",
    "pack_int4/wrong_sign_and_size": "-2 is stored as 14",
    "pack_int4/wrong_signs_lost": "are negative codes: take 16 away",
    "pack_int4/wrong_spills_over": "-8 is stored as 8 and -1 as 15",
    "pack_int4/wrong_unpacks_high_first": "the low half of each byte comes first",
    "pack_int4/wrong_unpacks_int64": "the unpacked codes have the dtype int8",
    "online_softmax_attention/wrong_changes_q": "must not change its inputs",
    "online_softmax_attention/wrong_diagonal_left_out": "the mean of ALL values up to its own",
    "online_softmax_attention/wrong_diagonal_not_masked": "no query sees a later key",
    "online_softmax_attention/wrong_first_head": "each head gets its own value",
    "online_softmax_attention/wrong_hidden_by_zero": "no query sees a later key",
    "online_softmax_attention/wrong_largest_from_zero": "begins at minus infinity, not at 0",
    "online_softmax_attention/wrong_largest_of_last_tile": "keep the largest of ALL tiles so far",
    "online_softmax_attention/wrong_negative_tiles": "a negative block_size",
    "online_softmax_attention/wrong_no_largest": "exp(4000) overflows",
    "online_softmax_attention/wrong_no_mask": "no query sees a later key",
    "online_softmax_attention/wrong_nothing_scaled_down": "multiply the sum AND the mixed values",
    "online_softmax_attention/wrong_own_tile_only": "the mean of ALL values up to its own",
    "online_softmax_attention/wrong_scaled_by_d": "divided by sqrt(d)",
    "online_softmax_attention/wrong_short_tile_dropped": "the last tile is shorter",
    "online_softmax_attention/wrong_softmax_per_tile": "the mean of ALL values up to its own",
    "online_softmax_attention/wrong_sum_not_scaled_down": "multiply the sum AND the mixed values",
    "online_softmax_attention/wrong_unscaled": "divided by sqrt(d)",
    "online_softmax_attention/wrong_values_not_scaled_down": "multiply the sum AND the mixed values",
    "online_softmax_attention/wrong_values_unchecked": "8 keys, 7 values",
    "online_softmax_attention/wrong_whole_mask": "no n x n tensor may be made",
    "online_softmax_attention/wrong_whole_matrix": "no n x n tensor may be made",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {
    "verify_draft/wrong_no_draft_refused": "your code stopped with: ValueError",
    "expected_tokens/wrong_divides_by_zero": "your code stopped with: ZeroDivisionError",
    "expected_tokens/wrong_no_draft_refused": "your code stopped with: ValueError",
    "quantize_rows/wrong_columns": "your code stopped with: RuntimeError",
    "pack_int4/wrong_minus_eight_refused": "your code stopped with: ValueError",
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
    "kvlab.speculative.verify_draft": "verify_draft",
    "kvlab.speculative.expected_tokens": "expected_tokens",
    "kvlab.quantize.quantize_rows": "quantize_rows",
    "kvlab.quantize.pack_int4": "pack_int4",
    "kvlab.attention.causal_attention": "online_softmax_attention",
    "kvlab.tiled.online_softmax_attention": "online_softmax_attention",
    "torch.nn.functional.scaled_dot_product_attention": "online_softmax_attention",
}


@pytest.mark.parametrize("name", WHOLE_JOB)
def test_functions_that_do_the_whole_job_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.refuses(WHOLE_JOB[name], name, monkeypatch)


# --- what is open: a code near a half, and the scale of a row of zeros -----------------------------------------------


def outcomes_of(exercise, case, codes, scales):
    """The outcomes of the oracle with other codes and scales in place of its own."""
    wanted = run_here(case, exercise.names)
    return [{"value": (codes, scales)}, *wanted[1:]]


def test_a_code_near_a_half_may_be_either_neighbour_and_no_other_code_may() -> None:
    exercise = load("06_optimizations")["quantize_rows"]
    case = draw(exercise, 1)["eight bits"][0]
    weights = case.steps[0]["args"][0]
    wanted = run_here(case, exercise.names)
    codes, scales = wanted[0]["value"]
    place = (0, int(abs(weights[0]).argmin()))
    for offset, right in ((0.4995, True), (0.5005, True), (0.4, False)):
        weights[place] = (codes[place] + offset) * scales[0]
        oracle = run_here(case, exercise.names)
        other = codes.copy()
        other[place] += 1 if oracle[0]["value"][0][place] == codes[place] else 0
        assert agrees(exercise, case, outcomes_of(exercise, case, other, scales), oracle) is right


@pytest.mark.parametrize("scale", [0.0, 1.0, 123.0, float("inf"), float("nan")])
def test_a_row_of_zeros_may_have_any_finite_scale(scale: float) -> None:
    exercise = load("06_optimizations")["quantize_rows"]
    case = draw(exercise, 1)["rows of zeros"][0]
    wanted = run_here(case, exercise.names)
    codes, scales = wanted[0]["value"]
    other = scales.copy()
    other[1] = scale
    right = scale < float("inf")
    assert agrees(exercise, case, outcomes_of(exercise, case, codes, other), wanted) is right
    other[0] *= 1.01
    assert not agrees(exercise, case, outcomes_of(exercise, case, codes, other), wanted)
