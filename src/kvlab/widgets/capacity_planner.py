"""What a model does on a GPU at best: time to the first token, time per token, memory, and how many at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kvlab import arithmetic, plots, published
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How fast can this model answer on this GPU at best, and how many requests fit at once?"
MODELS = ("llama-3.2-1b", "llama-3.2-3b", "llama-2-7b", "llama-3-8b", "llama-3.1-8b", "llama-3-70b", "llama-3.1-70b")
BITS = (16, 8, 4)
RESERVE = 0.1  # share of the card that a server leaves free, as vLLM does (gpu_memory_utilization 0.9)
MOST_TOKENS_LOG2, MOST_BATCH_LOG2 = 17, 10


def capacity_plan(
    model: Any, gpu: str, prompt_len: int, n_new: int, batch: int = 1, bits: int = 16, reserve: float = RESERVE
) -> dict[str, Any]:
    """Times at best and memory of `batch` equal requests; weights and KV at `bits` each, arithmetic at 16.

    The times are the estimates of `predict_latency`, which counts all parameters: a little above the exact bound.

    Returns ttft, tpot, e2e (seconds), tokens_per_second (of all requests while they decode; nan for one new token),
    prefill_limit and decode_limit ("memory" or "arithmetic", of the last step), weight_bytes, kv_bytes (at the end),
    memory_bytes (of the card), usable_bytes (without the reserve), max_concurrent, fits and beyond_max_len.
    ValueError for counts below 1, other widths, and models that `kvlab.arithmetic.capacity_shape` refuses.
    """
    if bits not in BITS:
        raise ValueError(f"bits must be one of {', '.join(map(str, BITS))}, got {bits}")
    if not 0 <= reserve < 1:
        raise ValueError(f"reserve is a share from 0 to below 1, got {reserve}")
    shape, card = arithmetic.capacity_shape(model, bits / 8), published.gpu(gpu)
    times = arithmetic.predict_latency(shape, card, prompt_len, n_new, batch)
    longest = published.shape_of(model).max_len
    held = prompt_len + n_new - 1  # the last token is never fed back
    weights = shape["n_params"] * bits / 8
    cache = arithmetic.kv_bytes(model, held, batch, bits / 8)
    usable = card.memory_bytes * (1 - reserve)
    most = arithmetic.max_concurrent(shape, card, held, card.memory_bytes * reserve)
    return {
        "model": shape["name"],
        "gpu": card.name,
        "prompt_len": prompt_len,
        "n_new": n_new,
        "batch": batch,
        "bits": bits,
        **times,
        "tokens_per_second": batch / times["tpot"],
        "prefill_limit": _limit(shape, card, prompt_len, 0, batch),
        "decode_limit": _limit(shape, card, 1, held - 1, batch) if n_new > 1 else "",
        "weight_bytes": weights,
        "kv_bytes": cache,
        "memory_bytes": card.memory_bytes,
        "usable_bytes": usable,
        "max_concurrent": most,
        "fits": batch <= most,
        "beyond_max_len": held > longest,
        "max_len": longest,
    }


def _limit(shape: dict[str, Any], card: published.GPU, new: int, past: int, batch: int) -> str:
    """What a pass waits for: the larger of its two times, counted as `predict_latency` counts."""
    pairs = arithmetic.causal_pairs(new, past)
    attention = 4 * shape["n_layers"] * shape["n_heads"] * shape["d_head"] * pairs
    flops = batch * (2 * shape["n_params"] * new + attention)
    sizes = (shape["n_layers"], shape["n_kv_heads"], shape["d_head"], new + past, batch, shape["bytes_per_value"])
    moved = shape["n_params"] * shape["bytes_per_value"] + arithmetic.kv_cache_bytes(*sizes)
    return "arithmetic" if flops / card.peak_flops > moved / card.bandwidth else "memory"


def plan_figure(values: dict[str, Any]) -> Figure:
    """Weights, cache and their sum in GB, with the card's usable memory as a line."""
    weights, cache = arithmetic.gb(values["weight_bytes"]), arithmetic.gb(values["kv_bytes"])
    names = {"weights": weights, f"KV cache, batch {values['batch']}": cache, "together": weights + cache}
    fits = "fits" if values["fits"] else "does NOT fit"
    title = f"{values['model']} on {values['gpu']}: {fits}"
    limit = (arithmetic.gb(values["usable_bytes"]), "memory of the GPU without the reserve")
    return plots.bars(names, "what is in memory", "size (GB)", title, limit=limit)


def plan_table(values: dict[str, Any]) -> Table:
    one = values["n_new"] == 1
    tpot = "only one new token" if one else f"{_ms(values['tpot'])} (waits for {values['decode_limit']})"
    rows = (
        (
            "time to the first token (TTFT), at best about",
            f"{_ms(values['ttft'])} (waits for {values['prefill_limit']})",
        ),
        ("time per further token (TPOT), at best about", tpot),
        ("whole answer (E2E), at best about", _ms(values["e2e"])),
        (
            "tokens/s of all requests while they decode, at best about",
            "" if one else f"{values['tokens_per_second']:,.0f}",
        ),
        (f"weights at {values['bits']} bits", arithmetic.format_bytes(values["weight_bytes"])),
        ("KV cache of all requests at the end", arithmetic.format_bytes(values["kv_bytes"])),
        ("memory of the GPU without the reserve", arithmetic.format_bytes(values["usable_bytes"])),
        ("requests of this length that fit at once", f"{values['max_concurrent']:,}"),
    )
    notes = [
        "Estimates of the bound, all parameters counted: a little above the exact one. Real servers are mostly slower:"
        " kvlab.measured.table()."
    ]
    if values["bits"] < BITS[0]:
        notes.append(
            f"{values['bits']} bits for every weight and for the KV cache; the peak stays that of 16-bit arithmetic."
            " Real files of that kind are larger: scales, and often a token table and head at 16 bits."
        )
    if not values["fits"]:
        notes.append(f"A batch of {values['batch']:,} does not fit, so these times cannot be reached on one such GPU.")
    if values["beyond_max_len"]:
        notes.append(f"The text is longer than the model's window of {values['max_len']:,} tokens.")
    title = (
        f"{values['model']} on {values['gpu']}: {counted(values['prompt_len'], 'token')} in, {values['n_new']:,} out"
    )
    return Table(title, ("what", "value"), rows, notes=tuple(notes), width=48)


def capacity_planner(
    model: str = "llama-3-8b", gpu: str = "a100-80gb", prompt_len: int = 1024, n_new: int = 256, batch: int = 1
) -> Explorer:
    """Plan a model on a GPU. Settings as in `capacity_plan`."""

    def compute(model: str, gpu: str, prompt_len: float, n_new: float, batch: float, bits: int) -> Result:
        values = capacity_plan(model, gpu, round(prompt_len), round(n_new), round(batch), bits)
        together = arithmetic.gb(values["weight_bytes"] + values["kv_bytes"])
        alt = f"Weights and cache take {together:.4g} of {arithmetic.gb(values['usable_bytes']):.4g} GB."
        return Result(values, plan_table(values), plan_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        def slider(value: int, most: int, name: str) -> Any:
            return ipywidgets.FloatLogSlider(
                value=value,
                base=2,
                min=0,
                max=max(most, math.ceil(math.log2(value))),
                step=1,
                readout_format=",.0f",
                description=name,
                continuous_update=False,
            )

        models = [(published.model(key).name, key) for key in dict.fromkeys((*MODELS, model))]
        gpus = [(card.name, key) for key, card in published.gpus().items()]
        return {
            "model": ipywidgets.Dropdown(options=models, value=model, description="Model"),
            "gpu": ipywidgets.Dropdown(options=gpus, value=gpu, description="GPU"),
            "prompt_len": slider(prompt_len, MOST_TOKENS_LOG2, "Prompt"),
            "n_new": slider(n_new, MOST_TOKENS_LOG2, "New tokens"),
            "batch": slider(batch, MOST_BATCH_LOG2, "Requests"),
            "bits": ipywidgets.Dropdown(options=BITS, value=16, description="Bits"),
        }

    settings = {"model": model, "gpu": gpu, "prompt_len": prompt_len, "n_new": n_new, "batch": batch, "bits": 16}
    return Explorer(QUESTION, settings, compute, build).show()


def _ms(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:,.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
