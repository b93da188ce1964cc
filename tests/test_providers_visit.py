"""The cache's book and the engine's new doors: salts, limits, and what is said when blocks have been evicted."""

import pytest

from kvlab.engine import BlockManager, Engine, Request
from kvlab.providers.ledger import Ledger, namespace
from kvlab.providers.visit import BreakpointVisit, PrefixVisit
from provider_server import tiny

PROMPT = list(range(40))


def filled(salt: bytes) -> BlockManager:
    manager = BlockManager(32, 4)
    manager.start("first", PROMPT, salt)
    manager.reserve("first", len(PROMPT))
    manager.commit("first", PROMPT)
    manager.free("first")
    return manager


def test_blocks_are_found_under_their_own_salt_only():
    manager = filled(b"one")
    assert manager.start("same", PROMPT, b"one") == 36  # one token is left to compute
    assert manager.start("other", PROMPT, b"two") == 0
    assert manager.start("none", PROMPT) == 0
    manager.fork("same", "child")
    manager.reserve("child", 8)
    manager.commit("child", [*PROMPT[:36], 7, 7, 7, 7])
    assert manager.start("after a fork", [*PROMPT[:36], 7, 7, 7, 7, 8], b"one") == 40
    manager.check()


def test_no_more_is_taken_than_allowed():
    manager = filled(b"")
    for seq, (at_most, saved) in enumerate([(None, 36), (0, 0), (3, 0), (4, 4), (21, 20), (1000, 36)]):
        assert manager.start(seq, PROMPT, at_most=at_most) == saved
        manager.check()
    with pytest.raises(ValueError):
        manager.start("negative", PROMPT, at_most=-1)
    assert "negative" not in manager


def test_the_engine_gives_the_same_answer_with_any_limit():
    engine = Engine(tiny(), n_blocks=64, block_size=4)
    answers = []
    for name, salt, limit in (("a", b"x", None), ("b", b"x", None), ("c", b"x", 9), ("d", b"x", 0), ("e", b"y", None)):
        request = Request(name, PROMPT, max_new=6, cache_salt=salt, cache_limit=limit)
        engine.run([request])
        answers.append((request.from_cache, request.output))
    assert [saved for saved, _ in answers] == [0, 36, 8, 0, 0]
    assert all(output == answers[0][1] for _, output in answers)


def visit(start: float = 0.0, ttls=("5m", None, "5m"), minimum: int = 4) -> BreakpointVisit:
    segments = [list(range(16)), list(range(8)), list(range(24))]
    return BreakpointVisit(namespace("a", "key", "model"), segments, ttls, [1, 2], minimum, start)


def test_what_the_engine_has_evicted_is_not_billed_as_read():
    ledger = Ledger()
    first = visit()
    assert first.admit(ledger) == 0
    assert first.settle(ledger, 0, 4).written_5m == 48
    for from_cache, read in ((48, 48), (47, 16), (16, 16), (12, 0)):
        again = visit()
        assert again.admit(ledger) == 48
        counts = again.settle(ledger, from_cache, 4)
        assert (counts.read, counts.total) == (read, 50)


def test_nobody_reads_what_is_still_being_written():
    """Two at once: both pay for the whole prompt. The third one reads."""
    ledger = Ledger()
    one, two = visit(), visit()
    assert one.admit(ledger) == two.admit(ledger) == 0
    assert one.settle(ledger, 0, 4).written_5m == two.settle(ledger, 0, 4).written_5m == 48
    assert visit().admit(ledger) == 48


def test_a_read_refreshes_and_the_book_forgets():
    ledger = Ledger()
    visit(0.0).settle(ledger, 0, 4)
    later = visit(299.9)
    later.admit(ledger)
    later.settle(ledger, 48, 4)
    assert visit(599.8).admit(ledger) == 48 and visit(599.9).admit(ledger) == 0
    ledger.forget_expired(599.8)
    assert len(ledger) == 2
    ledger.forget_expired(599.9)
    assert len(ledger) == 0


def test_openai_steps_survive_an_eviction_in_part():
    ledger = Ledger()
    tokens = [i % 97 for i in range(2000)]

    def again(start: float) -> PrefixVisit:
        return PrefixVisit(namespace("o", "key", "model"), tokens, 600.0, start)

    again(0.0).settle(ledger, 0, 16)
    shorter = again(1.0)
    assert shorter.admit(ledger) == 1920
    assert shorter.settle(ledger, 1200, 16).read == 1152
    assert again(601.0).admit(ledger) == 0
