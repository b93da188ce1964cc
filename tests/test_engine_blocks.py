"""The block manager against what must always hold: no block lost, none shared by mistake, failures without a trace."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.engine import BlockManager, OutOfBlocks


def state(manager):
    tables = {seq: (manager.block_table(seq), manager.reserved(seq)) for seq in range(6) if seq in manager}
    return tables, manager.n_free, manager.n_shared


operations = st.lists(
    st.tuples(
        st.sampled_from(["start", "append", "fork", "free"]), st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(operations, st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_random_traces_keep_all_invariants(trace, n_blocks, block_size, caching):
    """Against a model of what each block holds: a sequence always reads its own tokens."""
    manager = BlockManager(n_blocks, block_size, caching)
    content = {block: [None] * block_size for block in range(n_blocks)}
    tokens: dict[int, list[int]] = {}
    for do, seq, other, n in trace:
        before = state(manager)
        try:
            if do == "start":
                prompt = [(7 * i + seq % 2) % 5 for i in range(n + 3)]
                saved = manager.start(seq, prompt)
                assert saved % block_size == 0 and saved < len(prompt)
                tokens[seq] = prompt[:saved]
                write(manager, content, tokens, seq, prompt[saved:])
            elif do == "append":
                write(manager, content, tokens, seq, [n % 3] * n)
            elif do == "fork":
                manager.fork(seq, other)
                tokens[other] = list(tokens[seq])
            else:
                manager.free(seq)
                del tokens[seq]
        except OutOfBlocks:
            if do == "start":  # nothing could be written: give the beginning back
                manager.free(seq)
                del tokens[seq]
            assert state(manager) == before
        except ValueError:
            assert state(manager) == before
        manager.check()
        assert manager.n_used + manager.n_free == n_blocks
        for name, want in tokens.items():
            table = manager.block_table(name)
            assert [content[table[i // block_size]][i % block_size] for i in range(len(want))] == want


def write(manager, content, tokens, seq, new):
    for source, target in manager.reserve(seq, len(new)):
        content[target] = list(content[source])
    table = manager.block_table(seq)
    for token in new:
        at = len(tokens[seq])
        content[table[at // manager.block_size]][at % manager.block_size] = token
        tokens[seq].append(token)
    manager.commit(seq, tokens[seq])


def test_a_prefix_is_found_again_also_after_its_owner_left():
    manager = BlockManager(8, 4)
    prompt = list(range(10))
    assert manager.start("a", prompt) == 0
    manager.reserve("a", 10)
    assert manager.start("early", prompt) == 0, "not written yet"
    manager.free("early")
    manager.commit("a", prompt)
    assert manager.start("b", prompt) == 8 and manager.n_shared == 2
    assert manager.block_table("b") == manager.block_table("a")[:2]
    manager.free("a")
    manager.free("b")
    assert manager.n_free == 8 and manager.n_cached == 2
    assert manager.start("c", [*prompt[:8], 99]) == 8
    assert manager.start("d", prompt[:8]) == 4, "one token is always left to compute"
    assert manager.start("e", [99, *prompt[1:]]) == 0


def test_the_least_recently_used_content_goes_first():
    manager = BlockManager(4, 2)
    held = []
    for seq, first in (("old", 0), ("new", 10)):
        manager.start(seq, [first, first + 1, first + 2])
        manager.reserve(seq, 3)
        manager.commit(seq, [first, first + 1, first + 2])
        held.append(manager.block_table(seq)[0])
        manager.free(seq)
    assert manager.n_cached == 2 and manager.cached_blocks == tuple(held), "the full block of each, the older one first"
    manager.start("big", [50] * 6)
    manager.reserve("big", 5)  # three blocks: two empty ones and the content of "old"
    assert manager.start("again new", [10, 11, 0]) == 2
    manager.free("again new")
    assert manager.start("again old", [0, 1, 0]) == 0


def test_copy_on_write_copies_a_shared_partial_block_and_no_full_one():
    manager = BlockManager(8, 4)
    manager.start("parent", range(6))
    manager.reserve("parent", 6)
    manager.commit("parent", list(range(6)))
    manager.fork("parent", "child")
    assert manager.n_used == 2 and manager.n_shared == 2
    last = manager.block_table("parent")[-1]
    ((source, target),) = manager.reserve("child", 1)
    assert source == last and manager.block_table("child") == [manager.block_table("parent")[0], target]
    assert manager.reserve("parent", 1) == [], "the other one keeps the block"
    manager.start("full", [7] * 5)
    manager.reserve("full", 4)
    manager.fork("full", "twin")
    assert manager.reserve("twin", 1) == [], "a full block is never written to"


def test_without_a_prefix_cache_nothing_is_found():
    manager = BlockManager(4, 2, prefix_caching=False)
    manager.start("a", [1, 2, 3])
    manager.reserve("a", 3)
    manager.commit("a", [1, 2, 3])
    assert manager.start("b", [1, 2, 3]) == 0
    manager.free("a")
    assert manager.n_cached == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.free("nobody"),
        lambda m: m.block_table("nobody"),
        lambda m: m.reserve("nobody", 1),
        lambda m: m.reserve("a", -1),
        lambda m: m.reserve("a", 1.5),
        lambda m: m.fork("nobody", "b"),
        lambda m: m.fork("a", "a"),
        lambda m: m.start("a", [1]),
        lambda m: m.commit("a", [1, 2, 3, 4, 5]),
        lambda m: BlockManager(0, 4),
        lambda m: BlockManager(4, 0),
    ],
)
def test_bad_calls_change_nothing(call):
    manager = BlockManager(2, 4)
    manager.start("a", [1, 2])
    manager.reserve("a", 2)
    with pytest.raises(ValueError):
        call(manager)
    manager.check()
    assert manager.reserved("a") == 2 and manager.n_free == 1
    with pytest.raises(OutOfBlocks, match="2 blocks are needed and 1 are free"):
        manager.reserve("a", 9)
    assert manager.reserved("a") == 2 and manager.n_free == 1


def test_more_blocks_than_the_memory_can_list_are_refused():
    with pytest.raises(ValueError, match=r"the lists of 1000000000000 blocks would take .* choose fewer blocks"):
        BlockManager(10**12, 16)
