"""Held-out cases of BlockAllocator. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from typing import Any

from numpy.random import Generator

from cases.block_pools import Oracle, agree, ways
from kvgrade.cases import Case, Exercise, Group, Mistake, call, get, method


class Script:
    """Steps on one allocator, written as one would use it."""

    def __init__(self, n_blocks: int, block_size: int) -> None:
        self.steps = [call("BlockAllocator", n_blocks, block_size)]

    def do(self, name: str, *args: Any) -> Script:
        self.steps.append(method(0, name, *args))
        return self

    def grow(self, seq: str, tokens: int) -> Script:
        for _ in range(tokens):
            self.do("append", seq)
        return self

    def look(self, *names: str) -> Script:
        for name in names:
            self.do("length", name).do("block_table", name)
        self.steps.append(get(0, "n_free"))
        return self

    @property
    def case(self) -> Case:
        return Case(*self.steps)


def _sizes(rng: Generator, count: int) -> list[tuple[int, int, int]]:
    """(block size, whole blocks, tokens in one more block that is not full)."""
    sizes = [int(size) for size in rng.integers(3, 7, count)]
    return [(size, int(rng.integers(1, 4)), int(rng.integers(1, size - 1))) for size in sizes]


def _one(rng: Generator) -> list[Case]:
    cases = []
    for size, blocks, rest in _sizes(rng, 2):
        script = Script(blocks + 2, size).look()
        for tokens in (1, size - 1, size * (blocks - 1), 1, rest):
            script.grow("a", tokens).look("a")
        cases.append(script.case)
    return [*cases, Script(3, 1).grow("a", 1).look("a").grow("a", 1).look("a").case]


def _several(rng: Generator) -> list[Case]:
    cases = []
    for size, blocks, rest in _sizes(rng, 2):
        script = Script(9, size)
        for tokens in (rest, size):
            script.grow("a", tokens).grow("b", 1).grow("c", tokens + 1).look("a", "b", "c")
        script.do("free", "b").look("a", "c").grow("d", size * blocks).look("a", "c", "d")
        cases.append(script.do("free", "a").grow("b", rest + 1).look("b", "c", "d").case)
    return cases


def _fork(rng: Generator) -> list[Case]:
    cases = []
    for size, blocks, rest in _sizes(rng, 2):
        script = Script(8, size).grow("a", size * blocks + rest).do("fork", "a", "b").look("a", "b")
        cases.append(script.do("fork", "b", "c").do("fork", "a", "d").look("a", "b", "c", "d").case)
    return [*cases, Script(4, 2).grow("a", 4).do("fork", "a", "b").look("a", "b").case]


def _copy(rng: Generator) -> list[Case]:
    cases = []
    for (size, _, rest), (first, second) in zip(_sizes(rng, 2), (("a", "b"), ("b", "a")), strict=True):
        script = Script(12, size).grow("a", size * 2 + rest).do("fork", "a", "b").look("a", "b")
        script.grow(first, 1).look("a", "b").grow(second, 1).look("a", "b")
        cases.append(script.grow(first, size).grow(second, size).look("a", "b").case)
    script = Script(12, size).grow("a", size + rest).do("fork", "a", "b").do("fork", "a", "c")
    for name in ("b", "a", "c"):
        script.grow(name, 1).look("a", "b", "c")
    return [*cases, script.case]


def _full(rng: Generator) -> list[Case]:
    cases = []
    for size, blocks, _ in [*_sizes(rng, 1), (1, 2, 0)]:
        script = Script(12, size).grow("a", size * blocks).do("fork", "a", "b").look("a", "b")
        cases.append(script.grow("b", 1).look("a", "b").grow("a", 1).look("a", "b").grow("b", 1).look("a", "b").case)
    return cases


def _free_shared(rng: Generator) -> list[Case]:
    cases = []
    for (size, blocks, rest), (gone, left) in zip(_sizes(rng, 2), (("a", "b"), ("b", "a")), strict=True):
        script = Script(9, size).grow("a", size * blocks + rest).do("fork", "a", "b").do("fork", "b", "c")
        script.do("free", gone).look(left, "c").grow("x", size + 1).look(left, "c", "x")
        script.do("free", "c").look(left, "x").do("free", left).look("x").grow("y", size).look("x", "y")
        cases.append(script.do("free", "x").do("free", "y").look().case)
    return cases


def _out(rng: Generator) -> list[Case]:
    cases = []
    for size, blocks, rest in _sizes(rng, 1):
        script = Script(blocks, size).grow("a", size * blocks).look("a").grow("a", 1).look("a")
        script.grow("x", 1).do("length", "x").do("block_table", "x").look("a")
        cases.append(script.do("free", "a").look().grow("x", 1).look("x").case)
        script = Script(blocks + 1, size).grow("a", size * blocks + rest).do("fork", "a", "b").look("a", "b")
        script.grow("b", 1).look("a", "b").grow("a", 1).look("a", "b")
        cases.append(script.do("free", "a").look("b").grow("b", 1).look("b").do("free", "b").look().case)
    return cases


def _names(rng: Generator) -> list[Case]:
    size = int(rng.integers(2, 6))
    cases = [Script(4, size).grow("a", size).do(*bad).look("a").grow("a", 1).look("a").case for bad in _BAD]
    cases += [Script(4, size).grow("a", 1).do("fork", "x", "y").do(name, "y").look("a").case for name in _READERS]
    freed = [
        Script(4, size).grow("a", 1).grow("b", 1).do("free", "a").do(name, "a").look("b").case for name in _READERS
    ]
    again = Script(4, size).grow("a", size + 1).do("free", "a").do("free", "a").look().grow("a", 1).look("a").case
    taken = Script(4, size).grow("a", 1).grow("b", 2).do("fork", "a", "b").look("a", "b")
    own = Script(4, size).grow("a", 1).do("fork", "a", "a").look("a")
    sizes = [Case(call("BlockAllocator", *bad), *Script(1, 1).steps) for bad in ((-1, 2), (3, -2))]
    return [*cases, *freed, again, taken.do("free", "b").look("a").case, own.case, *sizes]


_READERS = ("length", "block_table", "free")
_BAD = (("length", "x"), ("block_table", "x"), ("free", "x"), ("fork", "x", "y"))

EXERCISE = Exercise(
    "BlockAllocator",
    {"BlockAllocator": Oracle},
    groups=[
        Group("one sequence", 0.5, "a block is taken when a token needs it, not before; ids are distinct", _one),
        Group("several sequences", 0.5, "each name has blocks and a length of its own; free gives them back", _several),
        Group("fork", 0.5, "the child has the parent's length and blocks, and no block is taken", _fork),
        Group("copy on write", 0.5, "an append into a shared block with room: the appender gets a copy", _copy),
        Group("full blocks", 0.5, "a full shared block stays shared; the next token takes a new block", _full),
        Group("freeing what is shared", 0.5, "a block is free when the last sequence lets go of it", _free_shared),
        Group("out of blocks", 0.5, "MemoryError when no block is free, and nothing changed", _out),
        Group("names", 0.5, "unknown names, and forking onto a known one, raise ValueError", _names),
    ],
    mistakes=[
        Mistake(
            "no copy", "an append into a shared block with room writes for all: it has to be copied", ways("no copy")
        ),
        Mistake(
            "the others get the copy",
            "the appender gets the copy; the others keep the block that they have",
            ways("the others get the copy"),
        ),
        Mistake(
            "count not lowered",
            "after a copy the old block has one owner less; the last owner writes in place",
            ways("count not lowered"),
        ),
        Mistake("full blocks copied", "a full block is only read: it is never copied", ways("full blocks copied")),
        Mistake(
            "all blocks copied", "only the last block is copied; the full ones stay shared", ways("all blocks copied")
        ),
        Mistake("fork copies", "fork shares blocks; it takes none", ways("fork copies", "fork copies the last block")),
        Mistake(
            "one table for both",
            "the child needs a table of its own, not the parent's list",
            ways("one table for both"),
        ),
        Mistake("length not forked", "the child has the parent's length", ways("length not forked")),
        Mistake(
            "shared blocks freed",
            "free gives back blocks that another sequence holds: count the owners",
            ways("shared blocks freed", "counts not used"),
        ),
        Mistake("shared blocks lost", "free has to lower the count of shared blocks too", ways("shared blocks lost")),
        Mistake("name kept", "a freed name is unknown again", ways("name kept", "table kept")),
        Mistake("block taken early", "a block is taken when a token needs it, not before", ways("block taken early")),
        Mistake("last block never used", "every block can be used, the last one too", ways("last block never used")),
        Mistake(
            "changed before it failed",
            "a failed append changes nothing: take the block first",
            ways("named first", "counted first", "let go first"),
        ),
        Mistake("ValueError when full", "out of blocks is a MemoryError", ways("ValueError")),
        Mistake(
            "fork onto a known name",
            "forking onto a known name raises ValueError",
            ways("fork overwrites", "fork frees"),
        ),
        Mistake(
            "unknown names pass",
            "an unknown name raises ValueError, everywhere but in append",
            ways("unknown parent", "unknown names freed", "unknown names are empty"),
        ),
        Mistake("KeyError", "an unknown name raises ValueError, not KeyError", ways("KeyError")),
        Mistake(
            "unknown names refused",
            "append starts a sequence when it does not know the name",
            ways("unknown names refused"),
        ),
        Mistake("ids from 1", "the ids of n blocks are 0 to n - 1", ways("ids from 1")),
        Mistake("negative sizes pass", "negative sizes raise ValueError", ways("negative sizes pass")),
    ],
    compare=agree,
)
