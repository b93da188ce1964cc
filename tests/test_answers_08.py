"""Known answers of unit 08 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

import codecs
from itertools import pairwise
from pathlib import Path

import pytest

from known_answers import KnownAnswers, key
from kvgrade.cases import Case, call, load

EXERCISES = (
    "rms_norm",
    "swiglu",
    "apply_rope",
    "transformer_block",
    "stream_text",
    "predict_latency",
    "max_concurrent",
)
KNOWN = KnownAnswers("08_end_to_end", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "rms_norm/wrong_absolute_values": "each row is divided by its own root mean square",
    "rms_norm/wrong_centred": "the mean of a row is not taken away",
    "rms_norm/wrong_changes_x": "rms_norm must not change its inputs",
    "rms_norm/wrong_eps_fixed": "eps is an argument: use the one that is given",
    "rms_norm/wrong_eps_outside": "a small row: eps = 1e-5 is added to the mean, under the root",
    "rms_norm/wrong_first_axis": "each row is divided by its own root mean square",
    "rms_norm/wrong_no_eps": "a small row: eps = 1e-5 is added to the mean, under the root",
    "rms_norm/wrong_no_root": "the mean of the squares is 9, its root 3: divide by 3",
    "rms_norm/wrong_one_mean": "each row is divided by its own root mean square",
    "rms_norm/wrong_one_more": "the mean of the squares is 9, its root 3: divide by 3",
    "rms_norm/wrong_one_weight_passes": "rows of 4 need 4 weights, not 1 for all",
    "rms_norm/wrong_other_default": "a small row: eps = 1e-5 is added to the mean, under the root",
    "rms_norm/wrong_sum": "the mean of the squares is 9, its root 3: divide by 3",
    "rms_norm/wrong_weights_first": "after the division each entry is multiplied with its weight",
    "rms_norm/wrong_weights_forgotten": "after the division each entry is multiplied with its weight",
    "swiglu/wrong_added": "20 times 40 times 3: gate and up are multiplied",
    "swiglu/wrong_changes_x": "swiglu must not change its inputs",
    "swiglu/wrong_down_unchecked": "5 features need a w_down with 5 rows",
    "swiglu/wrong_gelu": "silu(1) is 1 / (1 + 1/e), about 0.73",
    "swiglu/wrong_no_silu": "silu(-20) is nearly 0: the gate is closed",
    "swiglu/wrong_relu": "silu(1) is 1 / (1 + 1/e), about 0.73",
    "swiglu/wrong_runtime_error": "rows of 4 need matrices with 4 rows",
    "swiglu/wrong_sigmoid": "20 times 40 times 3: gate and up are multiplied",
    "swiglu/wrong_silu_of_the_product": "silu(-20) is nearly 0: the gate is closed",
    "swiglu/wrong_silu_twice": "silu(1) is 1 / (1 + 1/e), about 0.73",
    "swiglu/wrong_swapped": "silu is applied to x @ w_gate, not to x @ w_up",
    "swiglu/wrong_transposed": "square matrices: used as they are, not transposed",
    "apply_rope/wrong_backwards": "(1, 0) is turned by 1 radian at position 1, to (cos 1, sin 1)",
    "apply_rope/wrong_changes_x": "apply_rope must not change its inputs",
    "apply_rope/wrong_exponent_half": "pair 1 is turned by 100 * 10000**(-2/4)",
    "apply_rope/wrong_exponent_to_one": "pair 1 is turned by 100 * 10000**(-2/4)",
    "apply_rope/wrong_from_the_first": "the angle comes from positions, not from the number of the row",
    "apply_rope/wrong_neighbours": "pair 0 is entry 0 and entry 2 (half-split)",
    "apply_rope/wrong_no_minus": "(0, 1) becomes (-sin 1, cos 1) at position 1",
    "apply_rope/wrong_odd_cut": "7 entries cannot be paired",
    "apply_rope/wrong_odd_runtime_error": "7 entries cannot be paired",
    "apply_rope/wrong_one_frequency": "pair 1 is turned by 100 * 10000**(-2/4)",
    "apply_rope/wrong_one_position": "3 rows, 1 position for all",
    "apply_rope/wrong_reversed": "pair 0 is entry 0 and entry 2 (half-split)",
    "apply_rope/wrong_rows_counted": "the angle comes from positions, not from the number of the row",
    "apply_rope/wrong_theta_fixed": "theta is an argument",
    "transformer_block/wrong_cache_ignored": "after a step the pair holds the past and then the new position",
    "transformer_block/wrong_changes_x": "transformer_block must not change x and the weights",
    "transformer_block/wrong_counts_new_rows": "the returned k is turned by RoPE",
    "transformer_block/wrong_gate_and_up": "y is x + swiglu(rms_norm(x, mlp_norm))",
    "transformer_block/wrong_heads_reshaped": "(2, 2, 5, 4), heads before positions",
    "transformer_block/wrong_heads_tiled": "query heads 0 and 1 read KV head 0, heads 2 and 3 read KV head 1",
    "transformer_block/wrong_key_error": "weights without mlp_norm",
    "transformer_block/wrong_mask_not_moved": "one new position after 4 cached ones",
    "transformer_block/wrong_neighbours": "the returned k is turned by RoPE",
    "transformer_block/wrong_new_first": "after a step the pair holds the past and then the new position",
    "transformer_block/wrong_new_ones_only": "after a step the pair holds the past and then the new position",
    "transformer_block/wrong_no_first_residual": "y is x + swiglu(rms_norm(x, mlp_norm))",
    "transformer_block/wrong_no_mask": "sees itself alone",
    "transformer_block/wrong_no_rope": "the returned k is turned by RoPE",
    "transformer_block/wrong_old_turned_again": "after a step the pair holds the past and then the new position",
    "transformer_block/wrong_one_norm": "y is x + swiglu(rms_norm(x, mlp_norm))",
    "transformer_block/wrong_one_position": "5 rows, 1 position for all",
    "transformer_block/wrong_q_not_turned": "q is turned too, by the same positions",
    "transformer_block/wrong_scaled_by_model_width": "d being the head width",
    "transformer_block/wrong_second_from_x": "h is x + v @ wo, with v from rms_norm(x, attn_norm)",
    "transformer_block/wrong_small_eps": "a small x: rms_norm has eps = 1e-5, under the root",
    "transformer_block/wrong_uneven_heads": "4 heads cannot share 3 KV heads evenly",
    "transformer_block/wrong_unscaled": "d being the head width",
    "transformer_block/wrong_v_turned": "the returned v, (B, n_kv_heads, n, d), is not turned",
    "stream_text/wrong_broken_lost": "the stream ends inside é: the last string holds the mark",
    "stream_text/wrong_cut_ones_lost": "it comes with the token that completes it",
    "stream_text/wrong_each_token_alone": "it comes with the token that completes it",
    "stream_text/wrong_empty_left_out": "it comes with the token that completes it",
    "stream_text/wrong_empty_tokens": "an empty token has its string too",
    "stream_text/wrong_end_lost": "the stream ends inside é: the last string holds the mark",
    "stream_text/wrong_marks_early": "it comes with the token that completes it",
    "stream_text/wrong_no_end": "one string more stands for the end",
    "stream_text/wrong_strict": "the last string holds the mark",
    "stream_text/wrong_whole_tokens_wait": "the token ends inside é: its a is complete and does not wait",
    "predict_latency/wrong_all_pairs": "a query sees itself and what comes before",
    "predict_latency/wrong_batch_computes_once": "batch 3: three times the FLOPs",
    "predict_latency/wrong_batch_unchecked": "no sequence in the batch",
    "predict_latency/wrong_context_one_short": "tpot is the one decode pass",
    "predict_latency/wrong_context_stands_still": "60 new tokens: tpot is the mean of 59 growing passes",
    "predict_latency/wrong_counts_of_zero": "no prompt",
    "predict_latency/wrong_divided_by_all": "tpot is the one decode pass",
    "predict_latency/wrong_itself_not_counted": "for its one pair",
    "predict_latency/wrong_keys_only": "2000 bytes of weights and 160 of K and V, 1e4 a second",
    "predict_latency/wrong_kv_heads_compute": "2 KV heads: the FLOPs are those of 4 query heads still",
    "predict_latency/wrong_last_pass": "60 new tokens: tpot is the mean of 59 growing passes",
    "predict_latency/wrong_no_attention": "for its one pair",
    "predict_latency/wrong_one_cache": "batch 3: three caches, but the weights are read once",
    "predict_latency/wrong_one_pass_too_many": "one new token comes from the prefill",
    "predict_latency/wrong_query_heads_cached": "2 KV heads: the cache has half the bytes of 4",
    "predict_latency/wrong_scores_only": "for its one pair",
    "predict_latency/wrong_tpot_zero": "one new token comes from the prefill",
    "predict_latency/wrong_two_bytes": "half a byte per value, in the weights and in the cache",
    "predict_latency/wrong_weights_per_sequence": "batch 3: three caches, but the weights are read once",
    "max_concurrent/wrong_exact_fit_lost": "three fit exactly, so three fit",
    "max_concurrent/wrong_keys_only": "10000 bytes of weights, 4800 for each sequence",
    "max_concurrent/wrong_nearest": "one byte is missing for the third: rounded down",
    "max_concurrent/wrong_negative": "the weights alone do not fit: 0, not a negative number",
    "max_concurrent/wrong_no_reserve": "a reserve of one byte takes the place of the fifth",
    "max_concurrent/wrong_no_weights": "10000 bytes of weights, 4800 for each sequence",
    "max_concurrent/wrong_not_rounded": "10000 bytes of weights, 4800 for each sequence",
    "max_concurrent/wrong_one_layer": "10000 bytes of weights, 4800 for each sequence",
    "max_concurrent/wrong_parameters": "10000 bytes of weights, 4800 for each sequence",
    "max_concurrent/wrong_query_heads": "2 KV heads: the cache has KV heads, not query heads",
    "max_concurrent/wrong_reserve_added": "the reserve is kept free once",
    "max_concurrent/wrong_reserve_unchecked": "a negative reserve",
    "max_concurrent/wrong_rounded_up": "10000 bytes of weights, 4800 for each sequence",
    "max_concurrent/wrong_two_bytes": "half a byte per value, in the weights and in the cache",
    "max_concurrent/wrong_zero_division": "a sequence of no tokens",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {
    "stream_text/wrong_strict": "your code stopped with: UnicodeDecodeError",
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
    "kvlab.scratch.rms_norm": "rms_norm",
    "torch.nn.functional.rms_norm": "rms_norm",
    "torch.rms_norm": "rms_norm",
    "torch.nn.RMSNorm": "rms_norm",
    "kvlab.model.Mlp": "swiglu",
    "kvlab.scratch.rope": "apply_rope",
    "kvlab.model.Block": "transformer_block",
    "torch.nn.functional.scaled_dot_product_attention": "transformer_block",
    "kvlab.streaming.TextStream": "stream_text",
    "kvlab.arithmetic.generation_seconds": "predict_latency",
    "kvlab.arithmetic.sequences_that_fit": "max_concurrent",
}


@pytest.mark.parametrize("name", WHOLE_JOB)
def test_functions_that_do_the_whole_job_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.refuses(WHOLE_JOB[name], name, monkeypatch)


# --- stream_text: where the mark of a broken byte stands is open -----------------------------------------------------

TEXTS = ("mom washed", "é€🙂 ж", "a\u0301\u200d🙂\ufffd!")
BROKEN = (
    b"\xff",
    b"a\xc3",
    b"\xe2\x82a",
    b"\xf0\x9f\xc3\xa9",
    b"\xed\xa0\x80b",
    b"\xc0\xaf\xf4\x90\x80\x80",
    b"\xe0\x80\x80",
)


@pytest.mark.parametrize("data", [*(text.encode() for text in TEXTS), *BROKEN])
def test_the_oracle_agrees_with_the_standard_library_wherever_a_text_is_cut(data: bytes) -> None:
    exercise = load("08_end_to_end")["stream_text"]
    for n in range(1 << (len(data) - 1) if len(data) < 9 else 200):
        edges = [0, *(i for i in range(1, len(data)) if n >> (i - 1) & 1 or (n * i) % 7 == 1), len(data)]
        tokens = [data[a:b] for a, b in pairwise(edges)]
        case = Case(call("stream_text", tokens))
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        library = [*map(decoder.decode, tokens), decoder.decode(b"", True)]
        oracle = [{"value": exercise.names["stream_text"](tokens)}]
        assert "".join(oracle[0]["value"]) == data.decode("utf-8", "replace")
        assert exercise.compare(case, [{"value": library}], oracle), tokens


def test_a_mark_may_stand_elsewhere_but_a_character_may_not() -> None:
    exercise = load("08_end_to_end")["stream_text"]
    case = Case(call("stream_text", [b"a\xff", b"b"]))
    for strings, right in (
        (["a\ufffd", "b", ""], True),
        (["a", "\ufffdb", ""], True),
        (["", "a\ufffdb", ""], False),
        (["a", "b", "\ufffd"], False),  # joined in another order
        (["a\ufffd", "b"], False),
        (["a\ufffd\ufffd", "b", ""], False),
        ([97, "b", ""], False),
    ):
        assert exercise.compare(case, [{"value": strings}], [{"value": ["a\ufffd", "b", ""]}]) is right
