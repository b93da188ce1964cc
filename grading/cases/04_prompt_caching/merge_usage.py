"""Held-out cases of merge_usage. The oracle is written apart from the unit's solution and from kvlab.

Counts never fall from one event to the next, as the exercise says, so the last value is also the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, Outcome, call, unchanged
from kvgrade.verdict import same_value

Usage = dict[str, int | None]
Pick = Callable[[list[int | None]], int | None]
KEYS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "prompt_tokens",
    "completion_tokens",
)


def _last(values: list[int | None]) -> int | None:
    """Looks from the end for a value."""
    return next((value for value in reversed(values) if value is not None), None)


def _first(values: list[int | None]) -> int | None:
    return _last(values[::-1])


def _sum(values: list[int | None]) -> int | None:
    return sum(value or 0 for value in values)


def _fails(error: type[Exception]) -> Any:
    raise error


def _merge(
    pick: Pick = _last,
    keys: Callable[[list[Usage]], Sequence[str]] = lambda events: [key for event in events for key in event],
    drop: Callable[[int | None], bool] = lambda value: value is None,
    empty: Callable[[], Any] = dict,
    spoils: Callable[[list[Usage], Usage], Any] = lambda events, merged: None,
    pick_of: Callable[[str], Pick] | None = None,
) -> dict[str, Any]:
    """Key by key, with the ways to get it wrong as arguments. drop: which results leave their key out.

    spoils: what happens to the events at the end.
    """

    def merge_usage(events: list[Usage]) -> Any:
        if not events:
            return empty()
        merged: Usage = {}
        for key in dict.fromkeys(keys(events)):
            value = (pick_of(key) if pick_of else pick)([event[key] for event in events if key in event])
            if not drop(value):
                merged[key] = value
        spoils(events, merged)
        return merged

    return {"merge_usage": merge_usage}


def _agree(case: Case, have: Sequence[Outcome], want: Sequence[Outcome]) -> bool:
    """As usual, but where nothing came in nothing may come out."""
    return len(have) == len(want) and all(map(_step_agrees, have, want))


def _step_agrees(have: Outcome, want: Outcome) -> bool:
    if "value" not in have or "value" not in want:
        return False
    value, expected = have["value"], want["value"]
    return value == {} if expected == {} else same_value(value, expected, 0.0, 0.0)


def _pick_keys(rng: Generator, n: int) -> list[str]:
    return [KEYS[i] for i in rng.permutation(len(KEYS))[:n]]


def _growing(rng: Generator, n: int) -> list[int]:
    return [int(x) for x in rng.integers(3, 60, n).cumsum()]


def _events(rng: Generator, keys: Sequence[str], n: int) -> list[Usage]:
    """n events with the same keys; every count grows."""
    columns = {key: _growing(rng, n) for key in keys}
    return [{key: column[i] for key, column in columns.items()} for i in range(n)]


def _case(events: list[Usage]) -> Case:
    return Case(call("merge_usage", events))


def _one(rng: Generator) -> list[Case]:
    return [_case(_events(rng, _pick_keys(rng, n), 1)) for n in (1, 2, 4)]


def _several(rng: Generator) -> list[Case]:
    """With the tokens of the answer among the keys: who brings only those up to date has to be told apart."""
    others = [key for key in KEYS if key != "output_tokens"]
    cases = []
    for n, m in ((0, 2), (1, 3), (3, 3), (2, 20)):
        keys = ["output_tokens", *(others[i] for i in rng.permutation(len(others))[:n])]
        cases.append(_case(_events(rng, keys, m)))
    return cases


def _other_keys(rng: Generator) -> list[Case]:
    """Each key in one event only: some in the first, others later."""
    cases = []
    for _ in range(3):
        keys = _pick_keys(rng, 5)
        parts = keys[:2], keys[2:4], keys[4:]
        cases.append(_case([_events(rng, part, 1)[0] for part in parts]))
    return cases


def _nones(rng: Generator) -> list[Case]:
    """A value before None, and one after it; each key has one value."""
    cases = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        events: list[Usage] = [{}, {}, {}]
        for place, key in zip(order, _pick_keys(rng, 3), strict=True):
            for i, event in enumerate(events):
                event[key] = int(rng.integers(3, 90)) if i == place else None
        cases.append(_case(events))
    return cases


def _zeros(rng: Generator) -> list[Case]:
    """0 is all that some keys ever have."""
    cases = []
    for n in (1, 2):
        keys = _pick_keys(rng, 3)
        event: Usage = {keys[0]: 0, keys[1]: int(rng.integers(3, 90)), keys[2]: 0}
        cases.append(
            _case([dict(event) for _ in range(n)] if n == 1 else [event, {keys[0]: 0, keys[1]: event[keys[1]]}])
        )
    return cases


def _inputs(rng: Generator) -> list[Case]:
    keys = _pick_keys(rng, 4)
    cases = [_case([*_events(rng, keys[:2], 1), *_events(rng, keys[2:], 1)]) for _ in range(2)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _no_events(rng: Generator) -> list[Case]:
    return [Case(call("merge_usage", []), *_case(_events(rng, _pick_keys(rng, 2), 1)).steps)]


def _into_first(events: list[Usage], merged: Usage) -> None:
    events[0].update(merged)


EXERCISE = Exercise(
    "merge_usage",
    _merge(),
    groups=[
        Group("one event", 0.25, "all counts of the one event", _one),
        Group("counts that grow", 0.5, "counts are cumulative: the last one counts", _several),
        Group("keys that come once", 0.25, "a key counts in whichever event it stands", _other_keys),
        Group("None", 0.25, "None does not replace a count, a count replaces None", _nones),
        Group("zeros", 0.25, "0 is a value", _zeros),
        Group("inputs", 0.25, "the events have to stay as they are", _inputs),
        Group("no events", 0.25, "no events give {}", _no_events),
    ],
    mistakes=[
        Mistake(
            "added up",
            "each event holds the total up to then: adding them up counts tokens twice",
            [_merge(_sum), _merge(_sum, drop=lambda value: False)],
        ),
        Mistake("first value", "the last value counts, not the first one", _merge(_first)),
        Mistake(
            "first event wins",
            "the last value counts, also for a key that the first event has",
            [_merge(lambda values: values[0]), _merge(lambda values: values[0], drop=lambda value: False)],
        ),
        Mistake(
            "last event only",
            "a key that the last event does not have keeps its value",
            [
                _merge(lambda values: values[-1], keys=lambda events: list(events[-1]), drop=lambda value: False),
                _merge(lambda values: values[-1], keys=lambda events: list(events[-1])),
            ],
        ),
        Mistake(
            "keys of the last event",
            "a key that only an earlier event has belongs to it too",
            _merge(keys=lambda e: list(e[-1])),
        ),
        Mistake(
            "keys of the first event",
            "a key that comes later belongs to it too",
            _merge(keys=lambda events: list(events[0])),
        ),
        Mistake(
            "keys of all events",
            "a key belongs to the result also when only some events have it",
            _merge(keys=lambda events: [key for key in events[0] if all(key in event for event in events)]),
        ),
        Mistake(
            "output alone",
            "every key follows the same rule, not only the tokens of the answer",
            [
                _merge(pick_of=lambda key: _last if key == "output_tokens" else _first),
                _merge(pick_of=lambda key: _last if key in ("output_tokens", "completion_tokens") else _first),
            ],
        ),
        Mistake(
            "None replaces",
            "None says nothing: it does not replace a count",
            [
                _merge(lambda values: values[-1]),
                _merge(lambda values: values[-1], drop=lambda value: False),
                _merge(lambda values: values[-1] or 0),
            ],
        ),
        Mistake(
            "None kept",
            "a count replaces None",
            [_merge(lambda values: values[0] if values[0] is None else _last(values))],
        ),
        Mistake(
            "None refused",
            "None may stand for a count: skip it",
            [
                _merge(lambda values, error=error: _fails(error) if None in values else values[-1])
                for error in (TypeError, ValueError)
            ],
        ),
        Mistake(
            "zeros dropped",
            "0 is a count: test for None, not for truth",
            [_merge(drop=lambda value: not value), _merge(lambda values: _last([value or None for value in values]))],
        ),
        Mistake(
            "events changed",
            "the events stay as they are: collect in a dict of your own",
            [
                _merge(spoils=_into_first),
                _merge(spoils=lambda events, merged: events.clear()),
                _merge(spoils=lambda events, merged: events.pop(0)),
                _merge(spoils=lambda events, merged: events.pop()),
            ],
        ),
        Mistake(
            "no events",
            "no events give {}",
            [
                _merge(empty=lambda: None),
                _merge(empty=lambda: {"input_tokens": 0, "output_tokens": 0}),
                *(_merge(empty=lambda error=error: _fails(error)) for error in (IndexError, ValueError, TypeError)),
            ],
        ),
    ],
    compare=_agree,
)
