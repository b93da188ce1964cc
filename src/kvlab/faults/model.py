"""The model, its attention and its cache."""

from typing import Any

from kvlab.faults.plant import Fault


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


def _window_one_more(right: Any) -> Any:
    def sliding_window_mask(n_q: int, n_k: int, window: int, device: Any = None) -> Any:
        return right(n_q, n_k, window + 1, device)

    return sliding_window_mask


FAULTS = (
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
        "window_one_more",
        "a position sees one more than its window",
        "kvlab.attention:sliding_window_mask",
        _window_one_more,
    ),
)
