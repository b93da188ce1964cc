"""Arithmetic, and what checks the learner's work."""

from typing import Any

from kvlab.faults.plant import Fault


def _positions_one_more(right: Any) -> Any:
    def positions_processed(prompt_len: int, n_new: int, cached: bool) -> int:
        return right(prompt_len, n_new + 1, cached) if n_new else 0

    return positions_processed


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


def _roofline_added(right: Any) -> Any:
    def roofline_seconds(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
        return flops / peak_flops + bytes_moved / bandwidth

    return roofline_seconds


def _batch_for_one(right: Any) -> Any:
    def predict_latency(model: Any, gpu: Any, prompt_len: int, n_new: int, batch: int = 1) -> Any:
        return right(model, gpu, prompt_len, n_new, 1)

    return predict_latency


FAULTS = (
    Fault(
        "positions_one_more",
        "one decode step too many is counted",
        "kvlab.arithmetic.work:positions_processed",
        _positions_one_more,
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
    Fault("check_blind", "a check accepts every answer", "kvlab.check.compare:difference", _check_blind),
    Fault("claims_agree", "every claim of the register counts as confirmed", "kvlab.claims:agrees", _claims_agree),
    Fault(
        "roofline_added",
        "the times of computing and of moving are added, as if they could not overlap",
        "kvlab.arithmetic.roofline:roofline_seconds",
        _roofline_added,
    ),
    Fault(
        "batch_for_one",
        "the time of a batch is taken for that of one request",
        "kvlab.arithmetic.capacity:predict_latency",
        _batch_for_one,
    ),
)
