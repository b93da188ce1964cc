"""Known answers of unit 03 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

import sys
from pathlib import Path

import pytest

from helpers import ROOT
from known_answers import KnownAnswers, key
from kvgrade.cases import draw, load, run_here
from kvgrade.verdict import agrees

EXERCISES = ("grouped_query_attention", "BlockAllocator", "paged_gather", "sliding_window_mask", "ring_positions")
KNOWN = KnownAnswers("03_memory", EXERCISES)

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "grouped_query_attention/wrong_changes_q": "must not change its inputs",
    "grouped_query_attention/wrong_first_sequence": "each sequence of the batch reads its own",
    "grouped_query_attention/wrong_heads_in_another_order": "neighbours share",
    "grouped_query_attention/wrong_heads_tiled": "neighbours share",
    "grouped_query_attention/wrong_keys_tiled": "from the same KV head as its values",
    "grouped_query_attention/wrong_masked_after_softmax": "must add up to 1: mask first",
    "grouped_query_attention/wrong_masked_with_zero": "0 is a score like any other",
    "grouped_query_attention/wrong_no_mask": "no query may see a later key",
    "grouped_query_attention/wrong_scaled_by_width": "divided by sqrt(d)",
    "grouped_query_attention/wrong_softmax_over_queries": "softmax over the keys",
    "grouped_query_attention/wrong_too_many_queries": "5 queries, only 4 positions",
    "grouped_query_attention/wrong_top_left_mask": "bottom right",
    "grouped_query_attention/wrong_uneven_heads_clipped": "cannot share 2 KV heads evenly",
    "grouped_query_attention/wrong_uneven_heads_unchecked": "cannot share 2 KV heads evenly",
    "grouped_query_attention/wrong_unscaled": "divided by sqrt(d)",
    "grouped_query_attention/wrong_values_tiled": "neighbours share",
    "BlockAllocator/wrong_all_blocks_copied": "the copy of that block, of no other",
    "BlockAllocator/wrong_block_taken_early": "no block is taken early",
    "BlockAllocator/wrong_count_not_lowered": "no second copy",
    "BlockAllocator/wrong_counted_first": "a failed append starts no sequence",
    "BlockAllocator/wrong_fork_copies_the_last": "takes no block",
    "BlockAllocator/wrong_fork_overwrites": "fork onto a name that exists",
    "BlockAllocator/wrong_fork_unknown_parent": "fork from an unknown name",
    "BlockAllocator/wrong_free_unknown": "it cannot be freed twice",
    "BlockAllocator/wrong_full_blocks_copied": "nothing is written into it, so it is not copied",
    "BlockAllocator/wrong_ids_from_one": "the ids of 3 blocks are 0, 1 and 2",
    "BlockAllocator/wrong_key_error": "a freed name is unknown: block_table raises ValueError",
    "BlockAllocator/wrong_last_block_unused": "the last one too",
    "BlockAllocator/wrong_let_go_first": "a failed copy lets go of nothing",
    "BlockAllocator/wrong_name_kept": "a freed name is unknown",
    "BlockAllocator/wrong_named_first": "a failed append starts no sequence",
    "BlockAllocator/wrong_negative_sizes": "a negative number of blocks",
    "BlockAllocator/wrong_no_copy": "takes one free block: the copy",
    "BlockAllocator/wrong_one_table": "the other keeps the block",
    "BlockAllocator/wrong_others_get_the_copy": "the appender gets the copy",
    "BlockAllocator/wrong_shared_blocks_freed": "the block that c holds too is not free",
    "BlockAllocator/wrong_shared_blocks_lost": "the last owner lets go",
    "BlockAllocator/wrong_value_error_when_full": "raises MemoryError",
    "paged_gather/wrong_all_ids_checked": "is not looked at",
    "paged_gather/wrong_clears_pool": "must not change the pool",
    "paged_gather/wrong_index_error": "the ids of 7 blocks are 0 to 6",
    "paged_gather/wrong_last_block_dropped": "only partly filled",
    "paged_gather/wrong_last_block_whole": "its other rows are not the sequence's",
    "paged_gather/wrong_last_of_the_table": "the first blocks count",
    "paged_gather/wrong_lists_only": "may be a LongTensor",
    "paged_gather/wrong_longer_tables_refused": "may be longer than needed",
    "paged_gather/wrong_negative_ids_pass": "a negative id is no block",
    "paged_gather/wrong_negative_lengths_pass": "a negative length",
    "paged_gather/wrong_nothing_refused": "length 0: no rows",
    "paged_gather/wrong_rows_before_blocks": "inside a block the rows in order",
    "paged_gather/wrong_short_tables_pass": "hold 6 tokens, not 7",
    "paged_gather/wrong_table_ignored": "the table says which block",
    "paged_gather/wrong_table_sorted": "in the order of the table",
    "paged_gather/wrong_whole_table": "its other rows are not the sequence's",
    "sliding_window_mask/wrong_blocks": "the 2 before it, in every row",
    "sliding_window_mask/wrong_both_sides": "what is left is the causal mask",
    "sliding_window_mask/wrong_empty_window": "a window of 0",
    "sliding_window_mask/wrong_first_positions": "the 2 before it, in every row",
    "sliding_window_mask/wrong_hidden_is_true": "True = may attend",
    "sliding_window_mask/wrong_lower_edge_not_shifted": "both edges of the band",
    "sliding_window_mask/wrong_no_lower_edge": "the 2 before it, in every row",
    "sliding_window_mask/wrong_one_less": "the 2 before it, in every row",
    "sliding_window_mask/wrong_one_more": "the 2 before it, in every row",
    "sliding_window_mask/wrong_one_window": "the 2 before it, in every row",
    "sliding_window_mask/wrong_sees_later": "what is left is the causal mask",
    "sliding_window_mask/wrong_too_many_queries": "are not the last of 3 positions",
    "sliding_window_mask/wrong_top_left": "bottom right",
    "sliding_window_mask/wrong_windows_unchecked": "a window of 0",
    "ring_positions/wrong_by_age": "the order is that of the slots",
    "ring_positions/wrong_empty_by_formula": "that is -1",
    "ring_positions/wrong_empty_is_zero": "that is -1",
    "ring_positions/wrong_empty_left_out": "every slot is empty",
    "ring_positions/wrong_negative_lengths": "a negative length",
    "ring_positions/wrong_never_overwritten": "overwrites position 0",
    "ring_positions/wrong_one_round": "again and again",
    "ring_positions/wrong_one_slot_further": "position p is in slot p",
    "ring_positions/wrong_one_too_far": "position p is in slot p",
    "ring_positions/wrong_slots_lost": "position 4 overwrites position 0 in slot 0",
    "ring_positions/wrong_windows_of_zero": "a window of 0 raises ValueError",
    "ring_positions/wrong_zero_division": "a window of 0 raises ValueError",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {
    "BlockAllocator/wrong_last_block_unused": "your code stopped with: MemoryError",
    "paged_gather/wrong_all_ids_checked": "your code stopped with: ValueError",
    "paged_gather/wrong_lists_only": "your code stopped with: AttributeError",
    "paged_gather/wrong_longer_tables_refused": "your code stopped with: ValueError",
    "paged_gather/wrong_nothing_refused": "your code stopped with: ValueError",
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


WHOLE_JOB = (
    "kvlab.attention.attend",
    "kvlab.attention.stacked_attention",
    "kvlab.attention.grouped_query_attention",
    "torch.nn.functional.scaled_dot_product_attention",
)


@pytest.mark.parametrize("name", WHOLE_JOB)
def test_functions_that_do_the_whole_job_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN.refuses("grouped_query_attention", name, monkeypatch)


# --- block ids are open: what is compared is who shares what ---------------------------------------------------------


@pytest.fixture(scope="module")
def allocators():
    exercise = load("03_memory")["BlockAllocator"]
    return exercise, sys.modules["cases.block_pools"]


def test_any_order_of_block_ids_is_right(allocators) -> None:
    """The allocator that the mistakes are made of is right without a fault, for every order of ids and many seeds."""
    exercise, pools = allocators
    for names in pools.ways(""):
        for seed in range(10):
            for cases in draw(exercise, seed).values():
                for case in cases:
                    assert agrees(exercise, case, run_here(case, names), run_here(case, exercise.names))


@pytest.mark.parametrize(
    "wrong",
    [
        [0, 0],  # one id twice
        [0, 3],  # not an id of 3 blocks
        [-1, 0],
        [1, 0],  # the first block has changed its id
        [0],
        [0, 1, 2],
        [0.5, 1],
        [0, float("inf")],
        [[0, 1]],
        "01",
        None,
        {0: 1},
    ],
)
def test_a_table_that_is_none_is_wrong(allocators, wrong) -> None:
    exercise, _ = allocators
    steps = [{"do": "call", "name": "BlockAllocator", "args": (3, 1)}]
    look = {"do": "method", "on": 0, "name": "block_table", "args": ("a",)}
    grow = {"do": "method", "on": 0, "name": "append", "args": ("a",)}
    case = type("Script", (), {"steps": (*steps, grow, look, grow, look)})
    want = [{"value": value} for value in (None, None, [0], None, [0, 1])]
    have = [{"value": value} for value in (None, None, [0], None, wrong)]
    assert exercise.compare(case, want, want)
    assert not exercise.compare(case, have, want)


def test_blocks_held_at_the_same_time_need_different_ids(allocators) -> None:
    exercise, _ = allocators
    one = "class BlockAllocator(Base):\n    def block_table(self, seq):\n        return [0] * len(super().block_table(seq))"
    right = (ROOT / "grading" / "answers" / "BlockAllocator" / "right_counts.py").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(right.replace("class BlockAllocator", "class Base") + "\n" + one, names)
    several = draw(exercise, 1)["several sequences"]
    assert not any(agrees(exercise, case, run_here(case, names), run_here(case, exercise.names)) for case in several)
