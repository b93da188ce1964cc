"""Held-out cases of plan_step. The oracle is written apart from the unit's solution and from kvlab.

A plan is right when it has just the expected entries: one too many, a 0 included, is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, Outcome, call, unchanged
from kvgrade.verdict import same_value

Waiting = Sequence[tuple[str, int]]


Order = Callable[[list[str], Waiting], list[tuple[str, int]]]
Refuses = Callable[[int, int], bool]


def _decoding_first(decoding: list[str], prefilling: Waiting) -> list[tuple[str, int]]:
    return [*((name, 1) for name in decoding), *prefilling]


def _plan(
    order: Order = _decoding_first,
    charged: tuple[bool, bool] = (True, True),
    counted: tuple[bool, bool] = (True, True),
    own_places: bool = False,
    own_budget: bool = False,
    over_budget: bool = False,
    over_places: bool = False,
    too_large: str = "cut",
    zeros: bool = False,
    early_end: bool = True,
    share: bool = False,
    one_prompt: bool = False,
    all_or_none: bool = False,
    consumes: bool = False,
    refuses: Refuses = lambda s, b: s < 0 or b < 0,
) -> dict[str, Any]:
    """The plan, request by request, with the ways to get it wrong as arguments.

    Pairs are for (decoding, prefilling) requests. charged: their tokens come out of the budget. counted: they take one of
    the max_seqs places. own_places, own_budget: each kind has the whole limit for itself. over_budget, over_places:
    decoding requests get their token beyond the limit too. too_large: a prompt that does not fit is "cut", taken "whole",
    "skip"ped, or ends the plan ("stop"). share: prompts share the budget equally. all_or_none: decoding requests that do
    not all fit wait.
    """

    def plan_step(decoding: list[str], prefilling: list[Any], max_seqs: int, token_budget: int) -> dict[str, int]:
        if refuses(max_seqs, token_budget):
            raise ValueError
        plan: dict[str, int] = {}
        if early_end and (max_seqs <= 0 or token_budget <= 0):
            return plan
        is_prompt = dict.fromkeys(decoding, 0) | {name: 1 for name, _ in prefilling}
        wishes = order(list(decoding), [(name, todo) for name, todo in prefilling])
        if one_prompt:
            wishes = wishes[: len(decoding) + 1]
        if all_or_none and len(decoding) > min(max_seqs, token_budget):
            wishes = wishes[len(decoding) :]
        used, spent = [0, 0], [0, 0]
        each = max(1, (token_budget - len(decoding)) // max(1, len(prefilling)))
        for name, wish in wishes:
            kind = is_prompt[name]
            free = max_seqs - (used[kind] if own_places else sum(used))
            if counted[kind] and free <= 0 and (kind or not over_places):
                continue
            left = token_budget - (spent[kind] if own_budget else sum(spent))
            room = 1 if over_budget and not kind else min(left, each) if share and kind else left
            if room <= 0 and not zeros:
                continue
            if wish > room and kind and too_large == "skip":
                continue
            if wish > room and kind and too_large == "stop":
                break
            plan[name] = wish if too_large == "whole" else max(0, min(wish, room))
            used[kind] += counted[kind]
            spent[kind] += plan[name] * charged[kind]
        if consumes:
            decoding.clear()
            prefilling.clear()
        return plan

    return {"plan_step": plan_step}


def _sliced(refuses: Refuses) -> dict[str, Any]:
    """Slices of Python: [:-1] is all but the last."""

    def plan_step(decoding: list[str], prefilling: list[Any], max_seqs: int, token_budget: int) -> dict[str, int]:
        if refuses(max_seqs, token_budget):
            raise ValueError
        plan = dict.fromkeys(decoding[: min(max_seqs, token_budget)], 1)
        left = token_budget - len(plan)
        for name, todo in prefilling[: max_seqs - len(plan)]:
            if left > 0:
                plan[name] = min(todo, left)
                left -= plan[name]
        return plan

    return {"plan_step": plan_step}


def _unguarded(refuses: Refuses) -> list[dict[str, Any]]:
    """Ways to go on with a negative limit: nobody takes part, or what slices make of it."""
    return [_plan(refuses=refuses), _sliced(refuses)]


def _same_plan(case: Case, have: list[Outcome], want: list[Outcome]) -> bool:
    return len(have) == len(want) and all(_same(a, b) for a, b in zip(have, want, strict=True))


def _same(have: Outcome, want: Outcome) -> bool:
    if "raised" in want:
        error = have.get("raised")
        bases = error.get("mro") if isinstance(error, Mapping) else None
        return isinstance(bases, list) and "ValueError" in bases
    value, expected = have.get("value"), want["value"]
    if isinstance(expected, Mapping):
        return isinstance(value, Mapping) and value.keys() == expected.keys() and same_value(value, expected, 0.0, 0.0)
    return "value" in have and same_value(value, expected, 0.0, 0.0)


def _names(rng: Generator, n: int) -> list[str]:
    """Names without an order that could be taken for the order of arrival."""
    return [f"r{number}" for number in rng.choice(900, n, replace=False) + 100]


def _requests(rng: Generator, n_decoding: int, todo: Sequence[int]) -> tuple[list[str], list[tuple[str, int]]]:
    names = _names(rng, n_decoding + len(todo))
    return names[:n_decoding], list(zip(names[n_decoding:], todo, strict=True))


def _case(rng: Generator, n_decoding: int, todo: Sequence[int], max_seqs: int, budget: int) -> Case:
    decoding, prefilling = _requests(rng, n_decoding, [int(n) for n in todo])
    return Case(call("plan_step", decoding, prefilling, int(max_seqs), int(budget)))


def _some(rng: Generator, low: int, high: int, n: int) -> list[int]:
    return [int(x) for x in rng.integers(low, high, n)]


def _room_for_all(rng: Generator) -> list[Case]:
    cases = [_case(rng, d, _some(rng, 2, 60, p), 16, 512) for d, p in ((3, 0), (2, 1), (0, 1), (4, 1))]
    return [*cases, _case(rng, 0, [], 4, 8)]


def _exact_room(rng: Generator) -> list[Case]:
    """Just as many places and tokens as are asked for."""
    cases = []
    for d, p in ((2, 1), (3, 1), (4, 0)):
        todo = _some(rng, 2, 30, p)
        cases.append(_case(rng, d, todo, d + p, d + sum(todo)))
    return cases


def _several_prompts(rng: Generator) -> list[Case]:
    """Long before short and short before long, with room for all of the first and a part of the second."""
    cases = []
    for d in (0, 2):
        first, second, third = int(rng.integers(20, 30)), int(rng.integers(40, 60)), int(rng.integers(2, 6))
        cases.append(_case(rng, d, [first, second, third], 16, d + first + int(rng.integers(8, 15))))
    return cases


def _one_long_prompt(rng: Generator) -> list[Case]:
    return [_case(rng, d, [int(rng.integers(100, 200)), 3], 16, int(rng.integers(24, 60))) for d in (0, 1, 5)]


def _more_decoding_than_tokens(rng: Generator) -> list[Case]:
    return [_case(rng, d, [], 16, b) for d, b in ((5, 3), (9, 1))] + [_case(rng, 6, _some(rng, 4, 9, 1), 16, 4)]


def _more_decoding_than_places(rng: Generator) -> list[Case]:
    return [_case(rng, d, [], s, 64) for d, s in ((5, 3), (9, 1))] + [_case(rng, 6, _some(rng, 4, 9, 1), 4, 64)]


def _places_for_some_prompts(rng: Generator) -> list[Case]:
    return [_case(rng, d, _some(rng, 3, 12, p), s, 256) for d, p, s in ((2, 3, 4), (3, 2, 4), (0, 5, 2))]


def _inputs(rng: Generator) -> list[Case]:
    case = _case(rng, 2, _some(rng, 2, 9, 1), 8, 64)
    return [Case(*case.steps, unchanged(0))]


def _zero(rng: Generator) -> list[Case]:
    good = _case(rng, 2, [], 8, 64)
    return [Case(*_case(rng, 2, [5, 4], s, b).steps, *good.steps) for s, b in ((0, 16), (8, 0), (0, 0))]


def _negative(rng: Generator) -> list[Case]:
    good = _case(rng, 2, [], 8, 64)
    limits = ((-1, 16), (8, -1), (-int(rng.integers(2, 9)), 16), (8, -int(rng.integers(2, 9))), (-1, -1))
    return [Case(*_case(rng, 2, [5, 4], s, b).steps, *good.steps) for s, b in limits]


def _prefill_first(decoding: list[str], prefilling: Waiting) -> list[tuple[str, int]]:
    return [*prefilling, *((name, 1) for name in decoding)]


def _shortest_first(decoding: list[str], prefilling: Waiting) -> list[tuple[str, int]]:
    return [*((name, 1) for name in decoding), *sorted(prefilling, key=lambda pair: pair[1])]


def _latest_first(decoding: list[str], prefilling: Waiting) -> list[tuple[str, int]]:
    return [*((name, 1) for name in decoding), *prefilling[::-1]]


EXERCISE = Exercise(
    "plan_step",
    _plan(),
    groups=[
        Group("room for all", 0.5, "decoding requests get 1 token, the others all that they have to do", _room_for_all),
        Group("just enough room", 0.25, "limits may be reached, they may only not be exceeded", _exact_room),
        Group("one long prompt", 0.5, "a prompt that does not fit gets what is left of the budget", _one_long_prompt),
        Group("several prompts", 0.5, "in order of arrival; only the last one is cut", _several_prompts),
        Group("more decoding requests than tokens", 0.5, "the first ones, in order", _more_decoding_than_tokens),
        Group("more decoding requests than places", 0.5, "the first ones, in order", _more_decoding_than_places),
        Group("places for some prompts only", 0.5, "max_seqs counts both kinds together", _places_for_some_prompts),
        Group("inputs", 0.25, "the two lists have to stay as they are", _inputs),
        Group("limits of 0", 0.25, "a limit of 0 gives an empty plan", _zero),
        Group("negative limits", 0.25, "a negative limit raises ValueError", _negative),
    ],
    # A mistake also matches an answer that has more entries than it: those that let more take part come first.
    mistakes=[
        Mistake(
            "decode tokens not charged",
            "the tokens of decoding requests come out of the same budget",
            [_plan(charged=(False, True)), _plan(own_budget=True)],
        ),
        Mistake("prefill first", "decoding requests come first, so that nobody's text stops", _plan(_prefill_first)),
        Mistake(
            "decoding over the budget", "decoding requests get no more tokens than there are", _plan(over_budget=True)
        ),
        Mistake(
            "decoding requests not counted",
            "max_seqs counts both kinds together",
            [_plan(counted=(False, True)), _plan(own_places=True)],
        ),
        Mistake(
            "decoding over max_seqs", "decoding requests get no more places than there are", _plan(over_places=True)
        ),
        Mistake("prefill not counted", "max_seqs counts prefilling requests too", _plan(counted=(True, False))),
        Mistake("max_seqs ignored", "there may be at most max_seqs requests in a step", _plan(counted=(False, False))),
        Mistake("not cut", "a prompt that does not fit is cut to what is left of the budget", _plan(too_large="whole")),
        Mistake(
            "each prompt cut by itself",
            "what a prompt takes is no longer there for the next one",
            [_plan(charged=(True, False)), _plan(charged=(False, False))],
        ),
        Mistake("passed over", "who does not fit whole gets a part; nobody is passed over", _plan(too_large="skip")),
        Mistake("all or nothing", "who does not fit whole gets a part, not nothing", _plan(too_large="stop")),
        Mistake(
            "entries of 0", "who gets no token has no entry", [_plan(zeros=True), _plan(zeros=True, early_end=False)]
        ),
        Mistake("budget shared out", "in order of arrival: not an equal share for each", _plan(share=True)),
        Mistake("shortest first", "prompts go in order of arrival, not by length", _plan(_shortest_first)),
        Mistake("latest first", "prompts go in order of arrival, not the other way round", _plan(_latest_first)),
        Mistake("one prompt a step", "as many prompts as fit into the budget take part", _plan(one_prompt=True)),
        Mistake("decoding all or none", "when not all of them fit, the first ones go on", _plan(all_or_none=True)),
        Mistake("lists consumed", "take nothing out of the two lists: they stay as they are", _plan(consumes=True)),
        Mistake(
            "limits of 0 refused",
            "a limit of 0 is allowed: an empty plan",
            _plan(refuses=lambda s, b: s <= 0 or b <= 0),
        ),
        Mistake("negative limits pass", "a negative limit raises ValueError", _unguarded(lambda s, b: False)),
        Mistake("negative max_seqs passes", "a negative max_seqs raises ValueError", _unguarded(lambda s, b: b < 0)),
        Mistake("negative budget passes", "a negative token_budget raises ValueError", _unguarded(lambda s, b: s < 0)),
    ],
    compare=_same_plan,
)
