"""Held-out cases of top_p_filter. Which of several tied tokens stay at the edge is open: `agree` compares without that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.logit_draws import bad, distinct, keeping, softmax, tensor
from kvgrade.cases import Case, Exercise, Group, Mistake, Outcome, call, unchanged
from kvgrade.verdict import same_value
from kvlab.check.compare import to_array

EDGE = 2e-3  # no running sum of a case lies closer to its p
Keeps = Callable[[np.ndarray, float], Any]  # (logits, p) -> which tokens stay


def _nucleus(probs: Sequence[float], p: float) -> list[int]:
    """Ids taken one by one, the most likely first, until they reach p."""
    left, taken = list(range(len(probs))), []
    while left and (p == 1 or math.fsum(probs[i] for i in taken) < p):
        taken.append(max(left, key=lambda i: probs[i]))
        left.remove(taken[-1])
    return taken


def _ids(choose: Callable[[np.ndarray, float], Sequence[int]]) -> Keeps:
    """From a function of the probabilities that lists the ids that stay."""
    return lambda values, p: np.isin(np.arange(len(values)), choose(softmax(values), p))


RIGHT = _ids(_nucleus)


def _filter(
    keeps: Keeps = RIGHT,
    removed: float = -math.inf,
    result: Callable[[np.ndarray], Any] = lambda out: out,
    below: type[Exception] | None = ValueError,
    above: type[Exception] | None = ValueError,
    out_of_range: Keeps = lambda values, p: np.ones(len(values), dtype=bool),
    in_place: bool = False,
) -> dict[str, Any]:
    """below, above: the error for p <= 0 and p > 1, None goes on with `out_of_range`."""

    def top_p_filter(logits: torch.Tensor, p: float) -> Any:
        if not 0 < p <= 1:
            return bad(below if p <= 0 else above, lambda: keeping(logits, lambda values: out_of_range(values, p)))
        out = keeping(logits, lambda values: keeps(values, p), removed)
        if in_place:
            logits.copy_(torch.from_numpy(out))
        return result(out)

    return {"top_p_filter": top_p_filter}


def agree(case: Case, have: Sequence[Outcome], want: Sequence[Outcome]) -> bool:
    """Whether two runs come to the same, whichever of equal logits stay: among these, results count as a sorted list."""
    return all(_step_agrees(step, a, b) for step, a, b in zip(case.steps, have, want, strict=True))


def _step_agrees(step: dict[str, Any], have: Outcome, want: Outcome) -> bool:
    if "raised" in want:
        error = have.get("raised")
        return isinstance(error, dict) and want["raised"]["type"] in [*(error.get("mro") or ()), error.get("type")]
    if "value" not in have or "value" not in want:
        return False
    if step["do"] != "call":
        return have["value"] == want["value"]
    values, results = step["args"][0].double().numpy(), [to_array(o["value"]) for o in (have, want)]
    if any(r is None or r.shape != values.shape or r.dtype.kind not in "biuf" for r in results):
        return same_value(have["value"], want["value"], 1e-3, 1e-4)
    a, b = (np.array(sorted(zip(values, r.astype(float), strict=True)))[:, 1] for r in results if r is not None)
    return same_value(a, b, 1e-3, 1e-4)


def _short_of(probs: np.ndarray, p: float) -> list[int]:
    """Without the token that crosses p; with p = 1, all."""
    taken = _nucleus(probs.tolist(), p)
    return taken if p == 1 else taken[:-1]


def _one_more(probs: np.ndarray, p: float) -> list[int]:
    order = np.argsort(-probs, kind="stable").tolist()
    return order[: len(_nucleus(probs.tolist(), p)) + 1]


def _with_ties(probs: np.ndarray, p: float) -> list[int]:
    edge = min(probs[i] for i in _nucleus(probs.tolist(), p))
    return [i for i, prob in enumerate(probs) if prob >= edge * (1 - 1e-9)]


def _unlikely_first(probs: np.ndarray, p: float) -> list[int]:
    return _nucleus((1 - probs).tolist(), p) if p == 1 else _in_turn(probs, np.argsort(probs, kind="stable"), p)


def _in_turn(probs: np.ndarray, order: np.ndarray, p: float) -> list[int]:
    """Tokens in the given order until they reach p."""
    before = np.cumsum(probs[order]) - probs[order]
    return order[(before < p) | (p == 1)].tolist()


def _in_single(values: np.ndarray, p: float) -> np.ndarray:
    """Everything in float32, p = 1 included: the sum reaches 1 before the tail."""
    falling, order = torch.softmax(tensor(values), -1).sort(descending=True)
    kept = torch.zeros(len(values), dtype=torch.bool)
    kept[order] = falling.cumsum(-1) - falling < p
    return kept.numpy()


def _ranks(probs: np.ndarray, p: float) -> list[int]:
    """The decision in sorted order, not carried back: the first places stay, whoever sits there."""
    return list(range(len(_nucleus(probs.tolist(), p))))


def _case(values: Any, p: float) -> Case:
    return Case(call("top_p_filter", tensor(values), float(p)))


def _drawn(rng: Generator, n: int) -> Case:
    """A p between two running sums, so that between 2 and n - 1 tokens stay."""
    while True:
        values = distinct(rng, n)
        sums = np.cumsum(np.sort(softmax(values))[::-1])
        number = int(rng.integers(1, n - 1))
        low, high = sums[number - 1], sums[number]
        if high - low > 2 * EDGE:
            return _case(values, low + (high - low) * rng.uniform(0.4, 0.6))


def _inside(rng: Generator) -> list[Case]:
    return [_drawn(rng, n) for n in (5, 6, 8, 12, 20, 40)]


def _only_one(rng: Generator) -> list[Case]:
    """p below the largest probability."""
    cases = []
    for n in (4, 9):
        values = distinct(rng, n)
        cases.append(_case(values, softmax(values).max() * rng.uniform(0.3, 0.8)))
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _ties(rng: Generator) -> list[Case]:
    """Three or four tokens tied, of which some are enough; all sums stay clear of p."""
    cases = []
    for above, tied, needed in ((1, 3, 1), (2, 4, 2), (0, 4, 3), (1, 3, 2)):
        values = np.concatenate([1.5 + 0.5 * np.arange(above), np.full(tied, 0.5), [-1.0, -1.5]])
        probs = np.sort(softmax(values))[::-1]
        p = probs[:above].sum() + (needed - rng.uniform(0.4, 0.6)) * probs[above]
        cases.append(_case(rng.permutation(values + rng.normal()), p))
    return cases


def _all(rng: Generator) -> list[Case]:
    """p = 1: one case whose tail moves no sum in float32."""
    tail = np.concatenate([[9.0 + rng.uniform()], -11 - rng.uniform(0, 3, 5)])
    return [_case(distinct(rng, 6), 1.0), _case(rng.permutation(tail), 1.0)]


def _single(rng: Generator) -> list[Case]:
    return [_case(rng.normal(size=1), rng.uniform(0.2, 0.9))]


def _refused(rng: Generator, above: bool) -> list[Case]:
    numbers = [1 + rng.uniform(0.05, 0.9), 40.0] if above else [0.0, -rng.uniform(0.1, 0.9), -3.0]
    return [Case(*_case(distinct(rng, 5), p).steps, *_single(rng)[0].steps) for p in numbers]


def _outside() -> list[dict[str, Any]]:
    """Ways to go on with such a p: all stay, none, or the most likely."""
    rows: list[Keeps] = [
        lambda values, p: np.full(len(values), p > 1),
        lambda values, p: np.ones(len(values), dtype=bool),
        lambda values, p: (values == values.max()) | (p > 1),
        lambda values, p: np.zeros(len(values), dtype=bool),
    ]
    errors = (None, ValueError, IndexError, RuntimeError)
    pairs = [(below, above) for below in errors for above in errors if (below, above) != (ValueError, ValueError)]
    return [_filter(below=below, above=above, out_of_range=row) for below, above in pairs for row in rows]


EXERCISE = Exercise(
    "top_p_filter",
    _filter(),
    compare=agree,
    groups=[
        Group("inside", 1.0, "the smallest set of most likely tokens that reaches p stays in its places", _inside),
        Group(
            "one token", 0.5, "where the most likely token reaches p it stays alone; inputs stay unchanged", _only_one
        ),
        Group("ties", 0.5, "of tokens tied at the edge only as many stay as are needed", _ties),
        Group("p = 1", 0.25, "p = 1 keeps all tokens", _all),
        Group("a vocabulary of one", 0.25, "the only token stays", _single),
        Group("p of 0 or less", 0.25, "p = 0 and a negative p raise ValueError", lambda rng: _refused(rng, False)),
        Group("p above 1", 0.25, "a p above 1 raises ValueError", lambda rng: _refused(rng, True)),
    ],
    mistakes=[
        Mistake(
            "crossing token dropped",
            "the token that crosses p belongs to the set: without it the sum is short of p",
            [
                _filter(_ids(lambda probs, p: _short_of(probs, p) or [int(probs.argmax())])),
                _filter(_ids(_short_of)),
                _filter(_ids(lambda probs, p: _short_of(probs, p) if len(probs) > 1 else [0])),
            ],
        ),
        Mistake("one too many", "the set ends with the token that crosses p", _filter(_ids(_one_more))),
        Mistake(
            "ties kept",
            "of tokens tied at the edge only as many stay as are needed, not all",
            _filter(_ids(_with_ties)),
        ),
        Mistake(
            "tail lost at p = 1",
            "p = 1 keeps all tokens: in floating point the sum reaches 1 before the unlikely ones",
            _filter(_in_single),
        ),
        Mistake(
            "unlikely tokens first",
            "the set is filled from the most likely token down",
            _filter(_ids(_unlikely_first)),
        ),
        Mistake(
            "not sorted",
            "tokens come in by falling probability, not in the order of their ids",
            _filter(_ids(lambda probs, p: _in_turn(probs, np.arange(len(probs)), p))),
        ),
        Mistake(
            "places not restored",
            "the decision is made in sorted order and has to be carried back to the vocabulary",
            _filter(_ids(_ranks)),
        ),
        Mistake(
            "p as a limit for one token",
            "p is compared with the sum, not with single probabilities",
            [
                _filter(lambda values, p: (softmax(values) >= p) | (p == 1)),
                _filter(lambda values, p: (softmax(values) >= 1 - p) | (p == 1)),
                _filter(lambda values, p: (softmax(values) >= p * softmax(values).max()) | (p == 1)),
            ],
        ),
        Mistake(
            "logits summed",
            "probabilities are summed, not logits",
            _filter(lambda values, p: np.isin(np.arange(len(values)), _in_turn(values, np.argsort(-values), p))),
        ),
        Mistake(
            "removed is a number",
            "a removed token gets minus infinity: any number leaves it a probability",
            [_filter(removed=number) for number in (0.0, -1e4, -1e9, -1e10, float(np.finfo(np.float32).min))],
        ),
        Mistake(
            "probabilities",
            "a filter returns logits, not probabilities",
            [_filter(result=lambda out: softmax(out)), _filter(result=lambda out: np.log(softmax(out) + 1e-300))],
        ),
        Mistake("input changed", "the logits passed in have to stay as they are", _filter(in_place=True)),
        Mistake("p outside passes", "a p of 0 or less, or above 1, has to raise ValueError", _outside()),
    ],
)
