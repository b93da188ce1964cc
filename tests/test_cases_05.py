"""The held-out cases of unit 05: any seed will do, the oracles agree with others' code, and open choices stay open."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from helpers import ROOT
from known_answers import key
from kvgrade.cases import Case, call, draw, load, run_here
from kvgrade.verdict import agrees

ANSWERS = ROOT / "grading" / "answers"
RIGHT = [path for name in load("05_sampling") for path in sorted((ANSWERS / name).glob("right_*.py"))]


@pytest.fixture(scope="module")
def exercises() -> dict[str, Any]:
    return load("05_sampling")


@pytest.mark.parametrize("path", RIGHT, ids=key)
@pytest.mark.parametrize("seed", [2, 3])
def test_right_answers_get_full_marks_with_any_seed(exercises, path: Path, seed: int) -> None:
    exercise = exercises[path.parent.name]
    names: dict[str, Any] = {}
    exec(path.read_text(encoding="utf-8"), names)
    for cases in draw(exercise, seed).values():
        for case in cases:
            assert agrees(exercise, case, run_here(case, names), run_here(case, exercise.names))


def by_transformers(name: str, logits: torch.Tensor, value: float) -> torch.Tensor:
    """transformers' processor for the three filters: written by others, ties of top-k and the crossing token included."""
    made = {"top_k_filter": TopKLogitsWarper, "top_p_filter": TopPLogitsWarper, "min_p_filter": MinPLogitsWarper}[name]
    return made(value)(torch.zeros(1, 1, dtype=torch.long), logits[None].clone())[0]


@pytest.mark.parametrize("name", ["top_k_filter", "top_p_filter", "min_p_filter"])
@pytest.mark.parametrize("seed", range(3))
def test_the_oracles_agree_with_transformers(exercises, name: str, seed: int) -> None:
    """On every case with one call. A vocabulary of one and p = 1 included; bad values are ours alone."""
    exercise, compared = exercises[name], 0
    for cases in draw(exercise, seed).values():
        for case in cases:
            if len([step for step in case.steps if step["do"] == "call"]) == 1:
                logits, value = case.steps[0]["args"]
                theirs = by_transformers(name, logits, value)
                if value == 1 and name == "top_p_filter":
                    theirs = logits  # transformers leaves its processor out then
                have = [{"value": theirs.numpy()}, *({"value": True} for _ in case.steps[1:])]
                assert agrees(exercise, case, have, run_here(case, exercise.names))
                compared += 1
    assert compared >= 10


# --- which of the tied tokens stay at the edge of the nucleus is open -------------------------------------------------


TIED = torch.tensor([0.5, 1.5, 0.5, 0.5])  # p = 0.65 needs the first and one or two of the others
P = 0.65


def answered(values: Any) -> list[dict[str, Any]]:
    return [{"value": values}]


@pytest.mark.parametrize("chosen", [(0, 1), (1, 2), (1, 3)])
def test_any_of_the_tied_tokens_is_right(exercises, chosen: tuple[int, ...]) -> None:
    exercise, case = exercises["top_p_filter"], Case(call("top_p_filter", TIED, P))
    values = [float(TIED[i]) if i in chosen else -math.inf for i in range(4)]
    assert agrees(exercise, case, answered(values), run_here(case, exercise.names))
    assert agrees(exercise, case, answered(np.array(values)), run_here(case, exercise.names))


INF = -math.inf
NOT_A_NUCLEUS: list[Any] = [
    [0.5, 1.5, 0.5, INF],
    [0.5, INF, 0.5, INF],
    [INF, 1.5, INF, INF],
    [1.5, 0.5, INF, INF],  # the right numbers in the wrong places
    [0.5, 1.5, INF],
    [0.5, 1.5],
    [0.6, 1.5, INF, INF],
    [0.5, 1.5, 0.0, 0.0],
    [0.5, 1.5, math.nan, INF],
    [[0.5, 1.5, INF, INF]],
    "0.5",
    None,
    {0: 0.5},
    [[0.5], 1.5],
    1.5,
]


@pytest.mark.parametrize("wrong", NOT_A_NUCLEUS, ids=str)
def test_what_is_no_nucleus_is_wrong(exercises, wrong: Any) -> None:
    exercise, case = exercises["top_p_filter"], Case(call("top_p_filter", TIED, P))
    assert not agrees(exercise, case, answered(wrong), run_here(case, exercise.names))


def test_errors_and_results_are_told_apart(exercises) -> None:
    exercise, case = exercises["top_p_filter"], Case(call("top_p_filter", TIED, 1.5))
    raised = {"raised": {"type": "MyError", "mro": ["ValueError", "Exception"]}}
    assert agrees(exercise, case, [raised], run_here(case, exercise.names))
    assert not agrees(exercise, case, answered(TIED.tolist()), run_here(case, exercise.names))
    assert not agrees(exercise, case, [{"raised": None}], run_here(case, exercise.names))
    assert not agrees(exercise, case, [{"closed": "kvlab.sampling.top_p_filter"}], run_here(case, exercise.names))


# --- the search that the mistakes are made of, against every text there is -------------------------------------------


def model_class(exercises: dict[str, Any]) -> Any:
    """The model that the cases of beam_search use; loading them has imported its module."""
    assert "beam_search" in exercises
    return sys.modules["cases.beam_searches"].Model


def test_a_wide_search_finds_all_texts_in_order(exercises) -> None:
    """With as many beams as texts nothing is cut, so the result is the list of all texts by total log probability."""
    start, max_new, eos = [1, 2], 3, 5
    for seed in range(3):
        ask = model_class(exercises)(seed, len(start), eos=1.0).next_log_probs
        found = exercises["beam_search"].names["beam_search"](ask, start, 6**max_new, max_new, eos)
        texts = {tuple(start): 0.0}
        for _ in range(max_new):
            longer = {}
            for text, score in texts.items():
                if text[-1] == eos:
                    longer[text] = score
                    continue
                for token, value in enumerate(ask(list(text)).tolist()):
                    longer[(*text, token)] = score + value
            texts = longer
        wanted = sorted(texts.items(), key=lambda item: -item[1])
        assert [tuple(text) for text, _ in found] == [text for text, _ in wanted]
        assert [score for _, score in found] == pytest.approx([score for _, score in wanted])


@pytest.mark.parametrize("tokens", [None, "12", [0.5], [[1, 2]], [-1], [6], 3, {1: 2}, [10**30], [None]])
def test_the_model_refuses_what_is_no_list_of_ids(exercises, tokens: Any) -> None:
    with pytest.raises(ValueError, match="the list of ids so far"):
        model_class(exercises)(0, 1).next_log_probs(tokens)
