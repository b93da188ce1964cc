"""Held-out cases of paged_gather. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from kvgrade.cases import Case, Exercise, Group, Mistake, Outcome, call, unchanged
from kvgrade.verdict import same_value

Rows = list[np.ndarray]
Place = Callable[[int, int, int], tuple[int, int]]


def _gather(
    order: Callable[[list[int], int], list[int]] = lambda table, n: table,
    place: Place = lambda i, size, n: (i // size, i % size),
    cut: Callable[[int, int], int] = lambda n, size: n,
    wrap: bool = False,
    too_large: type[Exception] | None = ValueError,
    short: bool = True,
    exact: bool = False,
    checked: Callable[[list[int], int], list[int]] = lambda table, n: table[:n],
    least: int = 0,
    empty: Callable[[tuple[int, ...]], Any] = lambda shape: np.zeros((0, *shape)),
    lists_only: type[Exception] | None = None,
    changes: bool = False,
    heads_first: bool = False,
) -> dict[str, Any]:
    """Row by row. `order`: the blocks of a table of which n are needed; `place`: (block, row) of token i; `cut`: how many rows come back.

    `checked`: the ids that are compared with the pool. The rest says what is not refused: ids from the end, ids too large, tables too short, a length below `least`.
    """

    def paged_gather(pool: Any, block_table: Any, length: int) -> Any:
        n_blocks, size = pool.shape[:2]
        if lists_only and not isinstance(block_table, list):
            raise lists_only
        table = [int(block) for block in block_table]
        needed = -(-length // size)
        if length < least or (short and needed > len(table)) or (exact and needed < len(table)):
            raise ValueError
        for block in checked(table, max(needed, 0)):
            if block >= n_blocks and too_large:
                raise too_large
            if block < 0 and not wrap:
                raise ValueError
        used = order(table, max(needed, 0))
        rows = pool.numpy()
        found: Rows = []
        for i in range(min(cut(length, size), len(used) * size)):
            block, row = place(i, size, needed)
            found.append(rows[used[block] % n_blocks, row])
        out = np.stack(found) if found else empty(pool.shape[2:])
        if changes and used:
            pool[used[0]] = 0.0
        return np.swapaxes(out, 0, 1) if heads_first and found else out

    return {"paged_gather": paged_gather}


def _all(table: list[int], n: int) -> list[int]:
    return table


def _last(table: list[int], n: int) -> list[int]:
    return table[len(table) - n :]


def _agree(case: Case, have: Sequence[Outcome], want: Sequence[Outcome]) -> bool:
    """As usual, but no rows may come as an empty list: a nested list has no place for the other sizes."""
    return all(map(_step_agrees, have, want))


def _step_agrees(have: Outcome, want: Outcome) -> bool:
    if "raised" in want:
        error = have.get("raised")
        bases = error.get("mro") if isinstance(error, dict) else None
        return isinstance(bases, list) and want["raised"]["type"] in bases
    if "value" not in have:
        return False
    value = want["value"]
    nothing = isinstance(value, np.ndarray) and not value.size and isinstance(have["value"], list | tuple)
    return not have["value"] if nothing else same_value(have["value"], value, 1e-3, 1e-4)


def _case(
    rng: Generator,
    size: int,
    length: int,
    spare: int = 0,
    tensor: bool = False,
    table: list[int] | None = None,
    n_blocks: int = 9,
) -> Case:
    """A pool of small blocks and a table in no order. `spare`: blocks of the table beyond those needed."""
    pool = torch.from_numpy(rng.normal(size=(n_blocks, size, 2, 3)).astype(np.float32))
    ids: Any = (
        [int(block) for block in rng.permutation(n_blocks)[: -(-length // size) + spare]] if table is None else table
    )
    if ids == sorted(ids):  # a table in rising order would hide what ignores it
        ids = ids[::-1]
    if len(ids) == 1 and not ids[0]:
        ids = [n_blocks - 1]
    return Case(call("paged_gather", pool, torch.tensor(ids, dtype=torch.long) if tensor else ids, int(length)))


def _one_block(rng: Generator) -> list[Case]:
    cases = [_case(rng, size, size) for size in (1, 2, 5)]
    return [Case(*case.steps, unchanged(0)) for case in cases]


def _whole_blocks(rng: Generator) -> list[Case]:
    return [_case(rng, size, size * n) for size, n in zip(rng.integers(2, 6, 4), (2, 3, 5, 8), strict=True)]


def _partly(rng: Generator) -> list[Case]:
    return [_case(rng, size, size * n + rng.integers(1, size)) for size, n in ((3, 1), (4, 2), (2, 4), (5, 0))]


def _longer(rng: Generator) -> list[Case]:
    unused = _case(rng, 3, 4, table=[4, 1, -1, -2])  # ids behind the needed ones may be anything
    return [unused, *(_case(rng, size, size * n, spare) for size, n, spare in ((3, 1, 2), (2, 3, 1), (4, 2, 4)))]


def _tensors(rng: Generator) -> list[Case]:
    return [_case(rng, int(size), int(size), tensor=True) for size in rng.integers(2, 6, 3)]


def _nothing(rng: Generator) -> list[Case]:
    return [_case(rng, size, 0, spare) for size, spare in ((3, 0), (2, 0), (4, 0))]


def _too_short(rng: Generator) -> list[Case]:
    good = _case(rng, 2, 2).steps
    return [
        Case(*_case(rng, size, length, spare).steps, *good)
        for size, length, spare in ((3, 7, -1), (2, 8, -2), (4, 1, -1), (1, 3, -1))
    ]


def _bad(rng: Generator) -> list[Case]:
    good = _case(rng, 2, 2).steps
    bad = [_case(rng, 3, 6, table=[4, wrong]) for wrong in (-1, -9, 9, 40)]
    bad += [_case(rng, 2, -1, table=[5, 3]), _case(rng, 3, -4, table=[7, 2])]
    return [Case(*case.steps, *good) for case in bad]


EXERCISE = Exercise(
    "paged_gather",
    _gather(),
    groups=[
        Group("one block", 0.25, "the table says which block of the pool; the pool stays as it is", _one_block),
        Group("whole blocks", 0.25, "blocks in the order of the table, rows in order inside each", _whole_blocks),
        Group("last block partly filled", 0.25, "only `length` rows belong to the sequence", _partly),
        Group("longer tables", 0.25, "a table may be longer than needed: the first blocks count", _longer),
        Group("tables as tensors", 0.25, "the table may be a LongTensor", _tensors),
        Group("no tokens", 0.25, "length 0 gives (0, H, d)", _nothing),
        Group("tables too short", 0.25, "a table too short for the length raises ValueError", _too_short),
        Group("bad ids and lengths", 0.25, "an id that is no block and a negative length raise ValueError", _bad),
    ],
    mistakes=[
        Mistake(
            "table ignored",
            "the blocks lie anywhere in the pool: the table says where",
            _gather(lambda table, n: list(range(len(table)))),
        ),
        Mistake(
            "table sorted",
            "blocks come in the order of the table, not of their ids",
            [_gather(lambda table, n: sorted(table[:n])), _gather(lambda table, n: sorted(table))],
        ),
        Mistake(
            "table backwards",
            "blocks come in the order of the table, the first one first",
            [_gather(lambda table, n: table[:n][::-1]), _gather(lambda table, n: table[::-1])],
        ),
        Mistake(
            "last block whole",
            "cut at length: the rest of the last block is not the sequence's",
            _gather(cut=lambda n, size: -(-n // size) * size),
        ),
        Mistake(
            "last block dropped",
            "a last block that is partly filled belongs to the sequence",
            _gather(cut=lambda n, size: n // size * size),
        ),
        Mistake(
            "whole table",
            "only the blocks that length needs count, and of them `length` rows",
            [_gather(cut=lambda n, size: 10**6), _gather(_all, cut=lambda n, size: 10**6, checked=_all)],
        ),
        Mistake(
            "rows before blocks",
            "token i lies in block i // block_size, row i % block_size",
            _gather(place=lambda i, size, n: (i % n, i // n)),
        ),
        Mistake(
            "the end of the table",
            "of a longer table the first blocks count, not the last",
            [_gather(_last), _gather(_last, checked=_last)],
        ),
        Mistake("longer tables refused", "a table may be longer than needed", _gather(exact=True)),
        Mistake(
            "all ids checked",
            "what stands behind the blocks that length needs is not looked at, not even for its ids",
            _gather(checked=_all),
        ),
        Mistake(
            "lists only",
            "the table may be a LongTensor",
            [_gather(lists_only=error) for error in (TypeError, RuntimeError, AttributeError)],
        ),
        Mistake("heads first", "the result is (length, H, d)", _gather(heads_first=True)),
        Mistake(
            "shape of nothing",
            "length 0 gives (0, H, d): no rows, the other sizes stay",
            [_gather(empty=lambda shape: np.zeros(0)), _gather(empty=lambda shape: np.zeros((0, shape[0])))],
        ),
        Mistake("nothing refused", "length 0 is valid and gives (0, H, d)", _gather(least=1)),
        Mistake("pool changed", "the pool was changed in place", _gather(changes=True)),
        Mistake("short tables pass", "a table too short for the length has to raise ValueError", _gather(short=False)),
        Mistake(
            "negative ids pass",
            "a negative id has to raise ValueError: indexing counts it from the end",
            _gather(wrap=True),
        ),
        Mistake(
            "IndexError",
            "an id that is no block raises ValueError, not IndexError",
            [_gather(too_large=IndexError), _gather(too_large=IndexError, wrap=True)],
        ),
        Mistake("large ids pass", "an id beyond the last block has to raise ValueError", _gather(too_large=None)),
        Mistake(
            "negative lengths pass",
            "a negative length has to raise ValueError",
            [_gather(least=-1000), _gather(least=-1000, cut=lambda n, size: n if n >= 0 else 2 * size + n)],
        ),
    ],
    compare=_agree,
)
