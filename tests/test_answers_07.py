"""Known answers of unit 07 against the checks that learners get: right ones pass, wrong ones get their own diagnosis."""

from pathlib import Path

import numpy as np
import pytest
import torch

from known_answers import KnownAnswers, key
from kvgrade.cases import draw, load, run_here
from kvgrade.verdict import agrees

EXERCISES = ("mean_pool", "cosine_top_k", "last_token_pool", "recall_at_k")
KNOWN = KnownAnswers("07_embeddings", EXERCISES)
CLOSED = {
    "mean_pool": "kvlab.embeddings.pool.mean_pool",
    "cosine_top_k": "kvlab.embeddings.search.cosine_top_k",
    "last_token_pool": "kvlab.embeddings.pool.last_token_pool",
    "recall_at_k": "kvlab.embeddings.search.recall_at_k",
}

# What the panel has to say about each wrong answer: words of the `why` that fits its mistake.
DIAGNOSES = {
    "mean_pool/wrong_all_empty": "one row without any token is enough",
    "mean_pool/wrong_divided_by_n": "the sum of these two, divided by 2",
    "mean_pool/wrong_empty_is_nan": "have no mean",
    "mean_pool/wrong_empty_is_zero": "have no mean",
    "mean_pool/wrong_first_mask": "a mask and a length of its own",
    "mean_pool/wrong_hidden_changed": "must not change its inputs",
    "mean_pool/wrong_index_by_numbers": "whole numbers 0 and 1",
    "mean_pool/wrong_longest": "a mask and a length of its own",
    "mean_pool/wrong_mask_ignored": "2 of 5 places are tokens",
    "mean_pool/wrong_mean_length": "a mask and a length of its own",
    "mean_pool/wrong_not_divided": "the mean over the tokens",
    "mean_pool/wrong_shapes_broadcast": "the mask has 4 places",
    "mean_pool/wrong_tokens_first": "padding on the left",
    "mean_pool/wrong_tokens_last": "2 of 5 places are tokens",
    "mean_pool/wrong_turned_round": "whole numbers 0 and 1",
    "mean_pool/wrong_whole_batch": "that token's vector",
    "cosine_top_k/wrong_absolute": "with a negative score",
    "cosine_top_k/wrong_document_length": "the length of a document must not matter",
    "cosine_top_k/wrong_documents_changed": "must not change its inputs",
    "cosine_top_k/wrong_dot_products": "the length of a document must not matter",
    "cosine_top_k/wrong_k_of_zero": "k = 0 asks for nothing",
    "cosine_top_k/wrong_k_sliced": "there are no 4 best of 3",
    "cosine_top_k/wrong_nan": "a document of zeros scores 0",
    "cosine_top_k/wrong_order_of_rows": "best first",
    "cosine_top_k/wrong_ordered_by_size": "the opposite direction",
    "cosine_top_k/wrong_query_length": "the length of the query too",
    "cosine_top_k/wrong_runtime_error": "k = 0 asks for nothing",
    "cosine_top_k/wrong_widths_broadcast": "a query of width 2",
    "cosine_top_k/wrong_widths_left_to_torch": "a query of width 2",
    "cosine_top_k/wrong_worst_first": "best first",
    "cosine_top_k/wrong_zero_query": "a query of zeros scores 0",
    "cosine_top_k/wrong_zeros_last": "a document of zeros scores 0",
    "last_token_pool/wrong_all_empty": "one row without any token is enough",
    "last_token_pool/wrong_count": "its number of tokens does not tell where",
    "last_token_pool/wrong_empty_is_first": "have no last one",
    "last_token_pool/wrong_empty_is_last": "have no last one",
    "last_token_pool/wrong_end_of_the_row": "not at the end of the row",
    "last_token_pool/wrong_first_row_for_all": "a mask and a length of its own",
    "last_token_pool/wrong_first_token": "the vector at the last place",
    "last_token_pool/wrong_hidden_changed": "must not change its inputs",
    "last_token_pool/wrong_index_by_numbers": "whole numbers 0 and 1",
    "last_token_pool/wrong_index_error": "have no last one",
    "last_token_pool/wrong_longest_for_all": "a mask and a length of its own",
    "last_token_pool/wrong_mean": "the vector at the last place",
    "last_token_pool/wrong_one_side": "padded on its own side",
    "last_token_pool/wrong_shapes_unchecked": "the mask has 4 places",
    "last_token_pool/wrong_too_far": "the last token is at place 1",
    "recall_at_k/wrong_at_most_k": "divide by 4 all the same",
    "recall_at_k/wrong_found_twice": "found twice counts once",
    "recall_at_k/wrong_hit_or_miss": "a half",
    "recall_at_k/wrong_k_ignored": "the first 2 do not hold it",
    "recall_at_k/wrong_k_of_zero": "the first 0 results",
    "recall_at_k/wrong_k_unchecked": "the first 0 results",
    "recall_at_k/wrong_lists_changed": "the lists stay as they are",
    "recall_at_k/wrong_lists_unchecked": "without a query",
    "recall_at_k/wrong_no_queries": "without a query",
    "recall_at_k/wrong_nothing_divides": "nothing is relevant to the second query",
    "recall_at_k/wrong_nothing_is_zero": "nothing is relevant to the second query",
    "recall_at_k/wrong_nothing_skipped": "nothing is relevant to the second query",
    "recall_at_k/wrong_one_less": "the first 3 hold it",
    "recall_at_k/wrong_one_more": "the first 2 do not hold it",
    "recall_at_k/wrong_one_sum": "each query counts alike",
    "recall_at_k/wrong_precision": "1 of 1",
    "recall_at_k/wrong_sum": "the mean over the queries",
    "recall_at_k/wrong_written_twice": "written down twice counts once",
    "recall_at_k/wrong_zip": "two rankings, one list of relevant ids",
}
# An error where none is due: the panel quotes it instead of two values.
STOPPED = {"mean_pool/wrong_turned_round": "your code stopped with: RuntimeError"}


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
    KNOWN.refuses(exercise, CLOSED[exercise], monkeypatch)


# --- ties are open, and nothing else decides by a hair ---------------------------------------------------------------


@pytest.fixture(scope="module")
def search():
    return load("07_embeddings")["cosine_top_k"]


def test_scores_keep_away_from_each_other(search) -> None:
    """float32 and float64 give the same order: cosines in a case are apart by far more than the tolerance."""
    for seed in range(30):
        for group in draw(search, seed).values():
            for step in (step for case in group for step in case.steps if step["do"] == "call"):
                query, docs, _ = step["args"]
                if query.any() and len(query) == docs.shape[1]:
                    scores = torch.cosine_similarity(docs.double(), query.double()[None]).sort().values
                    assert len(scores) == 1 or float(scores.diff().min()) > 5e-3


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ([2, 0, 4], True),
        (np.array([4.0, 3.0, 2.0]), True),
        ([0, 0, 1], False),
        ([0, 1, 5], False),
        ([-1, 0, 1], False),
        ([0, 1], False),
        ([[0, 1, 2]], False),
        ([0.5, 1, 2], False),
        ("012", False),
        (None, False),
    ],
)
def test_a_query_of_zeros_leaves_the_order_open(search, rows, right: bool) -> None:
    case = draw(search, 1)["a query of zeros"][0]  # 3 of 5 documents
    want = run_here(case, search.names)
    assert agrees(search, case, [{"value": ([0.0, 0.0, 0.0], rows)}], want) is right
    assert not agrees(search, case, [{"value": ([0.0, np.nan, 0.0], rows)}], want)


@pytest.mark.parametrize("wrong", [None, 3, "ab", [], [1, 2, 3], {0: 1}, {"value": 1}])
def test_a_result_that_is_no_pair_is_wrong(search, wrong) -> None:
    for name in ("vectors of length 1", "a query of zeros"):
        case = draw(search, 1)[name][0]
        assert not agrees(search, case, [{"value": wrong}], run_here(case, search.names))


def test_a_pair_of_lists_or_one_array_is_a_result_too(search) -> None:
    case = draw(search, 1)["vectors of length 1"][0]
    want = run_here(case, search.names)
    scores, rows = (part.tolist() for part in want[0]["value"])
    assert agrees(search, case, [{"value": [scores, rows]}], want)
    assert agrees(search, case, [{"value": np.array([scores, rows])}], want)
    assert not agrees(search, case, [{"value": [rows, scores]}], want)


@pytest.mark.parametrize("name", ["mean_pool", "last_token_pool"])
def test_masks_have_no_holes(name: str) -> None:
    for seed in range(5):
        for group in draw(load("07_embeddings")[name], seed).values():
            for step in (step for case in group for step in case.steps if step["do"] == "call"):
                mask = step["args"][1].int()
                edges = torch.nn.functional.pad(mask, (1, 1)).diff(dim=1).abs().sum(1)
                assert set(edges.tolist()) <= {0, 2}
