"""Named faults: small, real mistakes that can be planted in a kernel to see which check notices.

    with faults.plant("position_off_by_one"):
        ...

Nothing is faulty unless planted, and the kernels hold no switches: planting swaps one function for a wrong one,
wherever kvlab has imported it, and swaps it back. `make mutate` plants each in turn and lists the tests that notice.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One mistake. `target` is "module:attribute" or "module:Class.method"; `wrong` makes the wrong one from the right."""

    name: str
    summary: str
    target: str
    wrong: Callable[[Any], Any]


@contextmanager
def plant(name: str) -> Iterator[Fault]:
    """Plant a fault for the length of the block.

    Raises ValueError for an unknown name, and where a fault is planted already: ended in the wrong order, the two
    would leave one behind.
    """
    if name not in FAULTS:
        raise ValueError(f"there is no fault '{name}': choose one of {', '.join(FAULTS)}")
    fault = FAULTS[name]
    module_name, _, path = fault.target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    right = getattr(owner, attribute)
    if planted := getattr(right, "planted_fault", None):
        raise ValueError(f"'{name}' cannot be planted where '{planted}' is planted already: end that block first")
    wrong = wraps(right)(fault.wrong(right))
    wrong.planted_fault = name  # type: ignore[attr-defined]
    if parents:
        setattr(owner, attribute, wrong)
    else:
        _swap(right, wrong)
    try:
        yield fault
    finally:
        if parents:
            setattr(owner, attribute, right)
        else:
            _swap(wrong, right)


def _swap(old: Any, new: Any) -> None:
    """Replace a function in every kvlab module that holds it, so that `from kvlab.x import y` is covered too."""
    for name, module in list(sys.modules.items()):
        if name == "kvlab" or name.startswith("kvlab."):
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)


def _position_off_by_one(right: Any) -> Any:
    def first_position(cache: Any) -> int:
        start = right(cache)
        return start + 1 if start else 0

    return first_position


def _top_left_mask(right: Any) -> Any:
    def causal_mask(n_q: int, n_k: int, device: Any = None) -> Any:
        import torch

        return torch.ones(n_q, n_k, dtype=torch.bool, device=device).tril()

    return causal_mask


def _last_prompt_token_twice(right: Any) -> Any:
    def prefill(model: Any, ids: Any, cache: Any) -> Any:
        right(model, ids, cache)
        return right(model, ids[-1:], cache)

    return prefill


def _stale_cache(right: Any) -> Any:
    def update(self: Any, layer: int, k: Any, v: Any) -> Any:
        held = self._lengths[layer]
        if held and k.shape[2] == 1:
            return self.view(layer)
        return right(self, layer, k, v)

    return update


def _values_not_appended(right: Any) -> Any:
    def update(self: Any, layer: int, k: Any, v: Any) -> Any:
        if self._lengths[layer] and k.shape[2] == 1:
            v = self._v[layer, :, :, self._lengths[layer] - 1].unsqueeze(2).clone()
        return right(self, layer, k, v)

    return update


def _truncate_keeps_all(right: Any) -> Any:
    def truncate(self: Any, length: int) -> None:
        return None

    return truncate


def _truncate_one_layer(right: Any) -> Any:
    def truncate(self: Any, length: int) -> None:
        self._lengths[-1] = min(self._lengths[-1], length)

    return truncate


def _kv_heads_tiled(right: Any) -> Any:
    def group_queries(q: Any, n_kv_heads: int) -> Any:
        return q.unflatten(1, (q.shape[1] // n_kv_heads, n_kv_heads)).transpose(1, 2)

    return group_queries


def _unscaled_scores(right: Any) -> Any:
    return lambda q, k: q @ k.transpose(-1, -2)


def _rope_neighbours(right: Any) -> Any:
    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        import torch

        even, odd = x[..., ::2], x[..., 1::2]
        half = cos.shape[-1] // 2
        c, s = cos[..., :half], sin[..., :half]
        return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)

    return rotate


def _rope_unscaled(right: Any) -> Any:
    def rope_frequencies(config: Any) -> Any:
        from dataclasses import replace

        return right(replace(config, rope_scaling=None))

    return rope_frequencies


def _crossing_token_dropped(right: Any) -> Any:
    return lambda sorted_probs, p: max(1, right(sorted_probs, p) - 1)


def _top_k_one_short(right: Any) -> Any:
    return lambda logits, k: right(logits, max(1, k - 1))


def _penalty_without_sign(right: Any) -> Any:
    return lambda values, penalty: values / penalty


def _penalty_per_occurrence(right: Any) -> Any:
    def apply_repetition_penalty(logits: Any, context_ids: Any, penalty: float) -> Any:
        for token in [int(i) for i in context_ids]:
            logits = right(logits, [token], penalty)
        return logits

    return apply_repetition_penalty


def _half_characters(right: Any) -> Any:
    def push(self: Any, data: bytes) -> str:
        return self._release(data.decode("utf-8", "replace"))

    return push


def _stop_within_a_token(right: Any) -> Any:
    return lambda text, stop: 0


def _positions_one_more(right: Any) -> Any:
    def positions_processed(prompt_len: int, n_new: int, cached: bool) -> int:
        return right(prompt_len, n_new + 1, cached) if n_new else 0

    return positions_processed


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


def _query_heads_counted(right: Any) -> Any:
    def kv_bytes(model: Any, seq_len: int, batch: int = 1, bytes_per_value: float = 2) -> Any:
        from kvlab.published import shape_of

        shape = shape_of(model)
        return right(model, seq_len, batch, bytes_per_value) * (shape.n_heads // shape.n_kv_heads)

    return kv_bytes


def _batch_forgotten(right: Any) -> Any:
    def kv_cache_bytes(n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, b: float = 2) -> Any:
        return right(n_layers, n_kv_heads, d_head, seq_len, 1, b)

    return kv_cache_bytes


def _gib_for_gb(right: Any) -> Any:
    return lambda n_bytes: n_bytes / 2**30


def _check_blind(right: Any) -> Any:
    return lambda actual, expected, rtol=None, atol=0.0: None


def _claims_agree(right: Any) -> Any:
    return lambda claim: True


def _resampled_from_target(right: Any) -> Any:
    return lambda p, q: p


def _draft_probs_unfiltered(right: Any) -> Any:
    def draft_distribution(logits: Any, settings: Any, context: Any, n_prompt: int) -> Any:
        from kvlab.sampling import temperature_probs

        drawn_from, _ = right(logits, settings, context, n_prompt)
        return drawn_from, temperature_probs(logits, settings.temperature)

    return draft_distribution


def _bonus_from_draft(right: Any) -> Any:
    return lambda draft_probs, target_probs: draft_probs[-1] if len(draft_probs) else right(draft_probs, target_probs)


def _target_cache_kept(right: Any) -> Any:
    return lambda cache, length: None


def _draft_cache_stale(right: Any) -> Any:
    return lambda held, context: min(len(held), len(context) - 1)


def _running_max_not_rescaled(right: Any) -> Any:
    def rescaling(largest: Any, new_largest: Any) -> Any:
        import torch

        return torch.ones_like(new_largest)

    return rescaling


def _padding_pooled(right: Any) -> Any:
    return lambda hidden, mask: right(hidden, (mask == mask))


def _dot_for_cosine(right: Any) -> Any:
    return lambda vectors: vectors


def _rows_for_hidden_states(right: Any) -> Any:
    def every_layer(model: Any, ids: Any) -> Any:
        for _ in right(model, ids):
            yield model.model.embed_tokens(ids)

    return every_layer


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


def _residual_left_out(right: Any) -> Any:
    def forward(self: Any, x: Any, cos: Any, sin: Any, cache: Any, layer: int) -> Any:
        if layer != 1:
            return right(self, x, cos, sin, cache, layer)
        x = self.self_attn(self.input_layernorm(x), cos, sin, cache, layer)
        return x + self.mlp(self.post_attention_layernorm(x))

    return forward


def _final_norm_left_out(right: Any) -> Any:
    def run(self: Any, ids: Any, cache: Any, last_only: bool) -> Any:
        self.model.norm.forward = lambda x: x  # the module stays, so that hooks still see what passes
        try:
            return right(self, ids, cache, last_only)
        finally:
            del self.model.norm.forward

    return run


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "position_off_by_one",
            "while decoding, every token is given the position after its own",
            "kvlab.model:first_position",
            _position_off_by_one,
        ),
        Fault(
            "top_left_mask",
            "the causal triangle sits top left, so a chunk on a filled cache sees too little of it",
            "kvlab.attention:causal_mask",
            _top_left_mask,
        ),
        Fault(
            "last_prompt_token_twice",
            "after prefill the last prompt token is fed again",
            "kvlab.generate:prefill",
            _last_prompt_token_twice,
        ),
        Fault(
            "stale_cache",
            "a decode step does not append its K and V",
            "kvlab.cache:PreallocatedCache.update",
            _stale_cache,
        ),
        Fault(
            "values_not_appended",
            "a decode step stores its K but repeats the last V",
            "kvlab.cache:PreallocatedCache.update",
            _values_not_appended,
        ),
        Fault(
            "truncate_keeps_all",
            "a cache that is cut back keeps everything",
            "kvlab.cache:PreallocatedCache.truncate",
            _truncate_keeps_all,
        ),
        Fault(
            "truncate_one_layer",
            "only the last layer of a cache is cut back",
            "kvlab.cache:PreallocatedCache.truncate",
            _truncate_one_layer,
        ),
        Fault(
            "kv_heads_tiled",
            "query heads read the KV heads in turn instead of in groups",
            "kvlab.attention:group_queries",
            _kv_heads_tiled,
        ),
        Fault(
            "unscaled_scores",
            "scores are not divided by the root of the head width",
            "kvlab.attention:scores",
            _unscaled_scores,
        ),
        Fault(
            "rope_neighbours",
            "RoPE turns neighbouring numbers, not the two halves, as a pair",
            "kvlab.model:rotate",
            _rope_neighbours,
        ),
        Fault(
            "rope_unscaled",
            "the stretching of long RoPE waves (Llama 3.1) is left out",
            "kvlab.model:rope_frequencies",
            _rope_unscaled,
        ),
        Fault(
            "residual_left_out",
            "one block replaces its input by the attention's result instead of adding to it",
            "kvlab.model:Block.forward",
            _residual_left_out,
        ),
        Fault(
            "final_norm_left_out",
            "the head reads the last block's result without the final norm",
            "kvlab.model:Llama._run",
            _final_norm_left_out,
        ),
        Fault(
            "crossing_token_dropped",
            "top-p leaves out the token that crosses p",
            "kvlab.sampling.filters:nucleus_size",
            _crossing_token_dropped,
        ),
        Fault("top_k_one_short", "top-k keeps k - 1 tokens", "kvlab.sampling.filters:kth_largest", _top_k_one_short),
        Fault(
            "penalty_without_sign",
            "the repetition penalty divides negative logits too, which raises them",
            "kvlab.sampling.penalties:penalise_by_sign",
            _penalty_without_sign,
        ),
        Fault(
            "penalty_per_occurrence",
            "the repetition penalty counts a token as often as it occurs",
            "kvlab.sampling.penalties:apply_repetition_penalty",
            _penalty_per_occurrence,
        ),
        Fault(
            "half_characters",
            "a stream decodes the bytes of each token alone",
            "kvlab.streaming:TextStream.push",
            _half_characters,
        ),
        Fault(
            "stop_within_a_token",
            "a stop string that spans several tokens is shown in part",
            "kvlab.streaming:_overlap",
            _stop_within_a_token,
        ),
        Fault(
            "positions_one_more",
            "one decode step too many is counted",
            "kvlab.arithmetic.work:positions_processed",
            _positions_one_more,
        ),
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
            "query_heads_counted",
            "the cache is sized by query heads instead of KV heads",
            "kvlab.arithmetic.memory:kv_bytes",
            _query_heads_counted,
        ),
        Fault(
            "batch_forgotten",
            "the cache is sized for one sequence",
            "kvlab.arithmetic.memory:kv_cache_bytes",
            _batch_forgotten,
        ),
        Fault("gib_for_gb", "GB are computed as GiB", "kvlab.arithmetic.memory:gb", _gib_for_gb),
        Fault(
            "resampled_from_target",
            "after a rejection the next token is drawn from the target's row itself",
            "kvlab.speculative.rule:residual_probs",
            _resampled_from_target,
        ),
        Fault(
            "draft_probs_unfiltered",
            "draft tokens are drawn with filters, but the rule is told the probabilities without them",
            "kvlab.speculative.rule:draft_distribution",
            _draft_probs_unfiltered,
        ),
        Fault(
            "bonus_from_draft",
            "when all draft tokens stay, the next one is drawn from the draft's last row",
            "kvlab.speculative.rule:bonus_probs",
            _bonus_from_draft,
        ),
        Fault(
            "target_cache_kept",
            "the target keeps the keys and values of rejected draft tokens",
            "kvlab.speculative.loop:roll_back",
            _target_cache_kept,
        ),
        Fault(
            "draft_cache_stale",
            "the draft keeps the keys and values of its rejected tokens (this costs speed only)",
            "kvlab.speculative.drafts:common_prefix",
            _draft_cache_stale,
        ),
        Fault(
            "running_max_not_rescaled",
            "tiled attention does not scale its sums down when a tile brings a larger score",
            "kvlab.tiled:rescaling",
            _running_max_not_rescaled,
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
        Fault("check_blind", "a check accepts every answer", "kvlab.check.compare:difference", _check_blind),
        Fault("claims_agree", "every claim of the register counts as confirmed", "kvlab.claims:agrees", _claims_agree),
        Fault(
            "padding_pooled",
            "a text's mean counts the padding behind it too",
            "kvlab.embeddings.pool:mean_pool",
            _padding_pooled,
        ),
        Fault(
            "dot_for_cosine",
            "search by the product of vectors whose lengths differ",
            "kvlab.embeddings.search:unit",
            _dot_for_cosine,
        ),
        Fault(
            "rows_for_hidden_states",
            "at every layer a token is its row of the table, as if no text stood around it",
            "kvlab.embeddings.decoder:every_layer",
            _rows_for_hidden_states,
        ),
    )
}
