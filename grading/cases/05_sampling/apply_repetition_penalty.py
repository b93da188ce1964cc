"""Held-out cases of apply_repetition_penalty. The oracle asks of each token whether the context has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.logit_draws import bad, distinct, softmax, tensor
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Rule = Callable[[float, float], float]  # (logit, penalty) -> logit
Times = Callable[[Sequence[int], int], int]  # (context, token) -> how often the rule is applied


def _by_sign(logit: float, penalty: float) -> float:
    return logit / penalty if logit > 0 else logit * penalty


def _once(context: Sequence[int], token: int) -> int:
    return int(token in context)


def _penalise(
    rule: Rule = _by_sign,
    times: Times = _once,
    of_tensor: Times | None = None,
    tensors: type[Exception] | None = None,
    empty: type[Exception] | None = None,
    zero: type[Exception] | None = ValueError,
    negative: type[Exception] | None = ValueError,
    below: type[Exception] | None = ValueError,
    beyond: type[Exception] | None = ValueError,
    result: Callable[[np.ndarray], Any] = lambda out: out,
    in_place: bool = False,
) -> dict[str, Any]:
    """tensors, empty: an error for a tensor or an empty context; zero, negative: for such a penalty; below, beyond: for
    such ids. None goes on: an id below 0 counts from the end, one beyond the vocabulary is passed over.
    """

    def penalised(values: np.ndarray, ids: Sequence[int], penalty: float, count: Times) -> np.ndarray:
        out = values.tolist()
        for token in range(len(out)):
            for _ in range(count(ids, token)):
                out[token] = rule(out[token], penalty) if penalty else (math.inf if out[token] > 0 else 0.0)
        return np.array(out)

    def apply_repetition_penalty(logits: torch.Tensor, context_ids: Any, penalty: float) -> Any:
        values, is_tensor = logits.double().numpy(), isinstance(context_ids, torch.Tensor)
        if penalty <= 0:
            bad(zero if penalty == 0 else negative, lambda: None)
        if is_tensor and tensors:
            raise tensors
        if len(context_ids) == 0 and empty:
            raise empty
        ids = [int(i) for i in context_ids]
        if any(i < 0 for i in ids):
            bad(below, lambda: None)
        if any(i >= len(values) for i in ids):
            bad(beyond, lambda: None)
        ids = [i + len(values) if i < 0 else i for i in ids]
        out = penalised(values, ids, penalty, of_tensor if of_tensor and is_tensor else times)
        if in_place:
            logits.copy_(torch.from_numpy(out))
        return result(out)

    return {"apply_repetition_penalty": apply_repetition_penalty}


def _case(values: Any, ids: Any, penalty: float) -> Case:
    return Case(call("apply_repetition_penalty", tensor(values), ids, float(penalty)))


def _logits(rng: Generator, n: int, positive: int) -> np.ndarray:
    """The first `positive` logits are above 0, the others below; none is near 0."""
    values = np.sort(np.abs(distinct(rng, n)) + 0.3)
    return np.where(np.arange(n) < positive, values, -values)


def _strength(rng: Generator) -> float:
    return float(rng.uniform(1.3, 2.5))


def _draw(rng: Generator, low: int, high: int, number: int) -> list[int]:
    return rng.choice(np.arange(low, high), number, replace=False).tolist()


def _positive(rng: Generator) -> list[Case]:
    cases = [_case(_logits(rng, n, n // 2), _draw(rng, 0, n // 2, 2), _strength(rng)) for n in (6, 9)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _negative(rng: Generator) -> list[Case]:
    return [_case(_logits(rng, n, 2), _draw(rng, 2, n, 1), _strength(rng)) for n in (5, 9)]


def _repeated(rng: Generator, as_tensor: bool) -> list[Case]:
    """Positive logits only, some tokens twice and more."""
    cases = []
    for n, times in ((6, 2), (9, 3)):
        ids = rng.permutation(np.repeat(_draw(rng, 0, n // 2, 2), [times, 1]))
        context = torch.from_numpy(ids) if as_tensor else ids.tolist()
        cases.append(_case(_logits(rng, n, n // 2), context, _strength(rng)))
    return cases


def _empty(rng: Generator) -> list[Case]:
    nothing = torch.zeros(0, dtype=torch.int64)
    return [_case(_logits(rng, 5, 2), ids, _strength(rng)) for ids in ([], nothing)]


def _favoured(rng: Generator) -> list[Case]:
    return [_case(_logits(rng, 7, 4), [*_draw(rng, 0, 4, 2), 5], rng.uniform(0.4, 0.8)) for _ in range(2)]


def _bad_penalty(rng: Generator) -> list[Case]:
    good = _empty(rng)[1].steps
    return [
        Case(*_case(_logits(rng, 5, 3), [1], number).steps, *good) for number in (0.0, -1.0, -float(rng.uniform(1, 3)))
    ]


def _bad_ids(rng: Generator) -> list[Case]:
    good = _empty(rng)[1].steps
    wrong: list[Any] = [[1, -1], torch.tensor([-int(rng.integers(2, 5))]), [5], torch.tensor([0, 7])]
    return [Case(*_case(_logits(rng, 5, 3), ids, _strength(rng)).steps, *good) for ids in wrong]


def _of_a_set_of_tensors(context: Sequence[int], token: int) -> int:
    """set(tensor) holds equal ids several times: tensors are different objects."""
    return list(context).count(token)


EXERCISE = Exercise(
    "apply_repetition_penalty",
    _penalise(),
    groups=[
        Group("positive logits", 0.25, "a positive logit of a context token is divided; inputs stay", _positive),
        Group("negative logits", 0.25, "a negative logit of a context token is multiplied", _negative),
        Group("repeated tokens", 0.25, "each token counts once", lambda rng: _repeated(rng, False)),
        Group(
            "a LongTensor",
            0.25,
            "the context may be a LongTensor; each token counts once",
            lambda r: _repeated(r, True),
        ),
        Group("empty context", 0.25, "without context no logit changes", _empty),
        Group(
            "penalty below 1", 0.25, "a penalty below 1 favours the tokens of the context, by the same rule", _favoured
        ),
        Group("penalty not above 0", 0.25, "a penalty of 0 or less raises ValueError", _bad_penalty),
        Group("ids outside", 0.25, "ids below 0, or not below V, raise ValueError", _bad_ids),
    ],
    mistakes=[
        Mistake(
            "always divided",
            "a negative logit has to be multiplied: dividing it makes the token more likely",
            _penalise(lambda logit, penalty: logit / penalty),
        ),
        Mistake(
            "always multiplied",
            "a positive logit has to be divided: multiplying it makes the token more likely",
            _penalise(lambda logit, penalty: logit * penalty),
        ),
        Mistake(
            "signs swapped",
            "positive logits are divided, negative ones multiplied, not the other way round",
            _penalise(lambda logit, penalty: logit * penalty if logit > 0 else logit / penalty),
        ),
        Mistake(
            "once per occurrence",
            "each token counts once, however often it occurs",
            [
                _penalise(times=lambda ids, token: list(ids).count(token)),
                _penalise(of_tensor=_of_a_set_of_tensors),
            ],
        ),
        Mistake(
            "subtracted",
            "the penalty divides or multiplies, it is not subtracted",
            [_penalise(lambda logit, penalty: logit - penalty), _penalise(lambda x, penalty: x - np.log(penalty))],
        ),
        Mistake(
            "all tokens",
            "tokens that the context does not have keep their logits",
            _penalise(times=lambda ids, token: 1),
        ),
        Mistake(
            "other tokens",
            "the tokens of the context are changed, the others stay",
            _penalise(times=lambda ids, token: int(token not in ids)),
        ),
        Mistake(
            "last token only",
            "all tokens of the context count, not only the newest",
            [
                _penalise(times=lambda ids, token: int(token == ids[-1]) if len(ids) else 0),
                _penalise(times=lambda ids, token: int(token == ids[0]) if len(ids) else 0),
            ],
        ),
        Mistake(
            "repeated tokens only",
            "a token that occurs once counts too",
            _penalise(times=lambda ids, token: int(list(ids).count(token) > 1)),
        ),
        Mistake(
            "lists only",
            "the context may be a LongTensor",
            [_penalise(tensors=error) for error in (TypeError, AttributeError, RuntimeError, ValueError)],
        ),
        Mistake(
            "empty context refused",
            "an empty context changes nothing and is no error",
            [_penalise(empty=error) for error in (IndexError, ValueError, RuntimeError, TypeError)],
        ),
        Mistake(
            "probabilities",
            "logits come back, not probabilities",
            _penalise(result=lambda out: softmax(out)),
        ),
        Mistake("input changed", "the logits passed in have to stay as they are", _penalise(in_place=True)),
        Mistake(
            "penalty unchecked",
            "a penalty of 0 or less has to raise ValueError",
            [
                _penalise(zero=zero, negative=negative)
                for zero in (None, ValueError, ZeroDivisionError)
                for negative in (None, ValueError)
                if zero is not ValueError or negative is not ValueError
            ],
        ),
        Mistake(
            "ids unchecked",
            "ids below 0, or not below V, have to raise ValueError: Python counts negative ones from the end",
            [
                _penalise(below=below, beyond=beyond)
                for below in (None, ValueError, IndexError)
                for beyond in (None, ValueError, IndexError, RuntimeError)
                if below is not ValueError or beyond is not ValueError
            ],
        ),
    ],
)
