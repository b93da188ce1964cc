"""Block allocators for the cases of BlockAllocator: the oracle, how an answer is compared with it, and a faulty one.

Which free block is handed out is open. So the oracle gives each block that it hands out a number of its own, never used
twice, and `agree` asks whether the answer's ids stand for these numbers: the same id for a block as long as it is held,
different ids for blocks that are held at the same time. Mistakes use real ids, in the orders of `ORDERS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvgrade.cases import Case, Outcome, Step
from kvgrade.verdict import same_value
from kvlab.check.compare import to_array


class Oracle:
    """Keeps no counts: who holds a block is read off the tables."""

    def __init__(self, n_blocks: int, block_size: int) -> None:
        if n_blocks < 0 or block_size < 0:
            raise ValueError
        self.n_blocks, self.size = n_blocks, block_size
        self.numbers = itertools.count()
        self.rows: dict[str, list[int]] = {}  # for each token of a sequence its block

    def row(self, seq: str) -> list[int]:
        if seq not in self.rows:
            raise ValueError
        return self.rows[seq]

    def held(self) -> set[int]:
        return {block for row in self.rows.values() for block in row}

    def new(self) -> int:
        if len(self.held()) == self.n_blocks:
            raise MemoryError
        return next(self.numbers)

    def append(self, seq: str) -> None:
        row = self.rows.get(seq, [])
        inside = len(row) % self.size
        if inside == 0:
            block = self.new()
        else:
            block = row[-1]
            if any(block in other for name, other in self.rows.items() if name != seq):
                block = self.new()
                row = [*row[:-inside], *[block] * inside]
        self.rows[seq] = [*row, block]

    def fork(self, parent: str, child: str) -> None:
        row = self.row(parent)
        if child in self.rows:
            raise ValueError
        self.rows[child] = row

    def free(self, seq: str) -> None:
        self.row(seq)
        del self.rows[seq]

    def block_table(self, seq: str) -> list[int]:
        return self.row(seq)[:: self.size]

    def length(self, seq: str) -> int:
        return len(self.row(seq))

    @property
    def n_free(self) -> int:
        return self.n_blocks - len(self.held())


def agree(case: Case, have: Sequence[Outcome], want: Sequence[Outcome]) -> bool:
    """Whether an answer's outcomes are the oracle's, up to the choice of ids. `want` comes from `Oracle`."""
    spans: dict[int, tuple[int, int, int]] = {}  # the oracle's number: (id, first time seen, last time seen)
    time = 0  # looks between two changes are at the same time
    for step, mine, right in zip(case.steps, have, want, strict=True):
        time += step.get("name") in ("append", "fork", "free")
        if step.get("name") != "block_table" or "raised" in right:
            if not _step_agrees(step, mine, right):
                return False
            continue
        ids = _ids(mine.get("value"), case.steps[step["on"]]["args"][0])
        if len(ids) != len(right["value"]):
            return False
        for number, block in zip(right["value"], ids, strict=True):
            known, first, _ = spans.get(number, (block, time, time))
            if known != block:
                return False
            spans[number] = (block, first, time)
    return not any(a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2] for a, b in itertools.combinations(spans.values(), 2))


def _step_agrees(step: Step, have: Outcome, want: Outcome) -> bool:
    if "raised" in want:
        error = have.get("raised")
        bases = error.get("mro") if isinstance(error, dict) else None
        return isinstance(bases, list) and want["raised"]["type"] in bases
    return "value" in have and same_value(have["value"], want["value"], 0.0, 0.0)  # what append returns is open


def _ids(value: Any, n_blocks: int) -> list[int]:
    """A block table as a list of ids; [] when it is no list of distinct ids of this pool."""
    array = to_array(value)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)):
        return []
    ids = [int(block) for block in array]
    fine = ids == array.tolist() and len(set(ids)) == len(ids) and all(0 <= block < n_blocks for block in ids)
    return ids if fine else []


ORDERS: dict[str, tuple[bool, Callable[[list[int]], int]]] = {
    "first": (False, lambda unused: 0),
    "last": (False, lambda unused: -1),
    "last of a list turned round": (True, lambda unused: -1),
    "smallest": (False, lambda unused: unused.index(min(unused))),
}
"""Usual ways to choose a free block: whether the list starts from its end, and the place of the next one in it."""


def ways(*faults: str) -> list[dict[str, Any]]:
    """Each fault as names of an answer, once for each order of ids."""
    return [
        {"BlockAllocator": type("Faulty", (Faulty,), {"fault": fault, "order": order})}
        for fault in faults
        for order in ORDERS
    ]


class Faulty:
    """A count for each block; wrong in one way, that of `fault`. Right when it has none."""

    fault = ""
    order = "first"

    def __init__(self, n_blocks: int, block_size: int) -> None:
        if min(n_blocks, block_size) < 0 and self.fault != "negative sizes pass":
            raise ValueError
        self.size = block_size
        first = int(self.fault == "ids from 1")
        backwards, self.choose = ORDERS[self.order]
        self.unused = list(range(first, n_blocks + first))[:: -1 if backwards else 1]
        self.owners = dict.fromkeys(self.unused, 0)
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def check(self, seq: str) -> None:
        if seq not in self.tables:
            raise KeyError if self.fault == "KeyError" else ValueError

    def take(self) -> int:
        if len(self.unused) <= int(self.fault == "last block never used"):
            raise ValueError if self.fault == "ValueError" else MemoryError
        block = self.unused.pop(self.choose(self.unused))
        self.owners[block] = 1
        return block

    def drop(self, block: int) -> None:
        self.owners[block] -= 1
        if self.owners[block] == 0:
            self.unused.append(block)

    def append(self, seq: str) -> None:
        if self.fault == "unknown names refused":
            self.check(seq)
        table, held = self.tables.get(seq, []), self.lengths.get(seq, 0)
        if self.fault in ("named first", "counted first"):
            self.tables[seq] = table
            self.lengths[seq] = held + int(self.fault == "counted first")
        if held % self.size == 0 if self.fault != "block taken early" else not table:
            if self.fault == "full blocks copied" and table and self.owners[table[-1]] > 1:
                self.copy(seq, table)
            table.append(self.take())
        elif self.owners[table[-1]] > 1 and self.fault not in ("no copy", "counts not used"):
            self.copy(seq, table)
        if self.fault == "block taken early" and (held + 1) % self.size == 0:
            table.append(self.take())
        self.tables[seq], self.lengths[seq] = table, held + 1

    def copy(self, seq: str, table: list[int]) -> None:
        """Copy the last block on write."""
        old = table[-1]
        if self.fault == "let go first":
            self.owners[old] -= 1
        block = self.take()
        if self.fault == "the others get the copy":
            others = [other for name, other in self.tables.items() if name != seq and old in other]
            for other in others:
                other[-1] = block
            self.owners[block], self.owners[old] = len(others), 1
            return
        if self.fault not in ("let go first", "count not lowered"):
            self.owners[old] -= 1
        table[-1] = block
        if self.fault == "all blocks copied":
            for i, shared in enumerate(table[:-1]):
                if self.owners[shared] > 1:
                    table[i] = self.take()
                    self.drop(shared)

    def fork(self, parent: str, child: str) -> None:
        if self.fault != "unknown parent" or child in self.tables:
            self.check(parent)
        if child in self.tables and self.fault == "fork frees":
            self.free(child)
        elif child in self.tables and self.fault != "fork overwrites":
            raise ValueError
        table = self.tables.get(parent, [])
        own = {"fork copies": 0, "fork copies the last block": len(table) - 1}.get(self.fault, len(table))
        if self.fault == "fork copies the last block" and self.lengths[parent] % self.size == 0:
            own = len(table)  # a full block is shared
        child_table = table if self.fault == "one table for both" else table[:own] + [self.take() for _ in table[own:]]
        for block in table[:own]:
            self.owners[block] += 1
        self.tables[child] = child_table
        self.lengths[child] = 0 if self.fault == "length not forked" else self.lengths.get(parent, 0)

    def free(self, seq: str) -> None:
        if self.fault == "unknown names freed" and seq not in self.tables:
            return
        self.check(seq)
        for block in self.tables[seq]:
            if self.fault in ("shared blocks freed", "counts not used"):
                self.unused.append(block)
            elif self.fault != "shared blocks lost" or self.owners[block] == 1:
                self.drop(block)
        if self.fault == "name kept":
            self.tables[seq], self.lengths[seq] = [], 0
        elif self.fault == "table kept":
            return
        else:
            del self.tables[seq], self.lengths[seq]

    def block_table(self, seq: str) -> list[int]:
        if self.fault == "unknown names are empty" and seq not in self.tables:
            return []
        self.check(seq)
        return self.tables[seq]

    def length(self, seq: str) -> int:
        if self.fault == "unknown names are empty" and seq not in self.tables:
            return 0
        self.check(seq)
        return self.lengths[seq]

    @property
    def n_free(self) -> int:
        return len(self.unused)
