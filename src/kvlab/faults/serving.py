"""The engine's blocks and the providers' prompt caches."""

from typing import Any

from kvlab.faults.plant import Fault


def _shared_block_written(right: Any) -> Any:
    def reserve(self: Any, seq: Any, n_tokens: int) -> Any:
        counts = self._references
        self._references = [min(count, 1) for count in counts]  # as if nobody shared anything
        try:
            return right(self, seq, n_tokens)
        finally:
            self._references = [max(a, b) for a, b in zip(counts, self._references, strict=True)]

    return reserve


def _block_not_copied(right: Any) -> Any:
    return lambda self, copies: None


def _shared_block_freed(right: Any) -> Any:
    def free(self: Any, seq: Any) -> None:
        table = self.block_table(seq)
        for block in table:
            self._references[block] = 1
        right(self, seq)
        for block in table:  # and they are the next to be handed out
            if block in self._empty:
                self._empty.remove(block)
                self._empty.appendleft(block)

    return free


def _prefix_forgotten(right: Any) -> Any:
    return lambda before, tokens: right(b"", tokens)


def _salt_forgotten(right: Any) -> Any:
    def start(self: Any, seq: Any, tokens: Any, salt: bytes = b"", at_most: int | None = None) -> int:
        return int(right(self, seq, tokens, b"", at_most))

    return start


def _usage_added_up(right: Any) -> Any:
    def merge_usage(events: Any) -> dict[str, Any]:
        reports = list(events)
        sums = {
            key: sum(report.get(key) or 0 for report in reports)
            for key, value in right(reports).items()
            if isinstance(value, int | float)
        }
        return right(reports) | sums

    return merge_usage


def _budget_ignored(right: Any) -> Any:
    def chunked(self: Any) -> Any:
        budget, self.token_budget = self.token_budget, 10**9
        try:
            return right(self)
        finally:
            self.token_budget = budget

    return chunked


def _reads_at_full_price(right: Any) -> Any:
    def request_cost(usage: Any, prices: Any) -> float:
        return right(usage, {**prices, "cache_read": prices["input"]})

    return request_cost


FAULTS = (
    Fault(
        "shared_block_written",
        "a shared, partly filled block is written without a copy",
        "kvlab.engine.blocks:BlockManager.reserve",
        _shared_block_written,
    ),
    Fault(
        "block_not_copied",
        "copy-on-write hands out a new block, but does not copy what the old one holds",
        "kvlab.engine.pool:PagedPool.copy_blocks",
        _block_not_copied,
    ),
    Fault(
        "shared_block_freed",
        "a sequence that ends gives its blocks back although others use them still",
        "kvlab.engine.blocks:BlockManager.free",
        _shared_block_freed,
    ),
    Fault(
        "prefix_forgotten",
        "a block of the prefix cache is looked up by its own tokens, not by those before it",
        "kvlab.engine.blocks:_digest",
        _prefix_forgotten,
    ),
    Fault(
        "salt_forgotten",
        "customers with different keys share the blocks of the prefix cache",
        "kvlab.engine.blocks:BlockManager.start",
        _salt_forgotten,
    ),
    Fault(
        "usage_added_up",
        "the usage reports of a streamed answer are added up, although each holds the total so far",
        "kvlab.providers.rules:merge_usage",
        _usage_added_up,
    ),
    Fault(
        "budget_ignored",
        "a step takes whole prompts, whatever its token budget says",
        "kvlab.engine.scheduler:Scheduler._chunked",
        _budget_ignored,
    ),
    Fault(
        "reads_at_full_price",
        "tokens read from the cache are billed like fresh ones",
        "kvlab.providers.prices:request_cost",
        _reads_at_full_price,
    ),
)
