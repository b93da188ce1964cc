"""How large a cache gets: published models, any length, batch and width, and other numbers of KV heads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvlab import arithmetic, plots, published
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How large is the KV cache next to the weights, and at what length does it overtake them?"
BITS = (16, 8, 4)
MOST_TOKENS_LOG2 = 20
MOST_BATCH = 256
PUBLISHED = 0  # in the menu of KV heads: a menu shows nothing as chosen when the value is None
WEIGHT_BYTES_EACH = 2  # weights stay at 16 bits whatever the cache does


def kv_sizes(model: Any, seq_len: int, batch: int = 1, bits: int = 16, n_kv_heads: int | None = None) -> dict[str, Any]:
    """Bytes of the cache at `bits` per cached value and of the weights at 16 bits, and where the two are equal.

    model: a name from `kvlab.published.models()`, or anything that `published.shape_of` takes.
    n_kv_heads: a number to try instead of the published one, for models whose layers all attend to everything. The
    weights stay as published. Returns kv_bytes, weight_bytes, both in GB (10^9) and GiB (2^30), state_bytes (of
    linear-attention layers), next_token_bytes, crossover_tokens (inf: never), max_len and beyond_max_len.
    ValueError for a width other than 16, 8 and 4 bits, or a number of KV heads that does not fit.
    """
    if bits not in BITS:
        raise ValueError(f"bits must be one of {', '.join(map(str, BITS))}, got {bits}")
    shape = published.shape_of(model)
    if n_kv_heads is not None:
        shape = _with_kv_heads(shape, n_kv_heads)
    width = bits // 8 if bits % 8 == 0 else bits / 8
    cache = arithmetic.kv_bytes(shape, seq_len, batch, width)
    weights = arithmetic.weight_bytes(shape, WEIGHT_BYTES_EACH)
    return {
        "model": shape.name,
        "seq_len": seq_len,
        "batch": batch,
        "bits": bits,
        "n_kv_heads": shape.n_kv_heads,
        "plain": _is_plain(shape),
        "kv_bytes": cache,
        "kv_gb": arithmetic.gb(cache),
        "kv_gib": arithmetic.gib(cache),
        "weight_bytes": weights,
        "weight_gb": arithmetic.gb(weights),
        "weight_gib": arithmetic.gib(weights),
        "state_bytes": arithmetic.state_bytes(shape, batch, width),
        "next_token_bytes": arithmetic.kv_bytes_per_token(shape, width, seq_len),
        "crossover_tokens": arithmetic.crossover_tokens(shape, batch, width, WEIGHT_BYTES_EACH),
        "max_len": shape.max_len,
        "beyond_max_len": seq_len > shape.max_len,
    }


def kv_head_options(model: Any) -> list[tuple[str, int | None]]:
    """Labels and numbers of KV heads to try: MHA, halves of it, MQA. Only "as published" where layers differ."""
    shape = published.shape_of(model)
    options: list[tuple[str, int | None]] = [("as published", None)]
    if not _is_plain(shape):
        return options
    for n in (d for d in range(shape.n_heads, 0, -1) if shape.n_heads % d == 0):
        kind = "MHA" if n == shape.n_heads else "MQA" if n == 1 else "GQA"
        options.append((f"{kind}, {n} KV head{'s' if n > 1 else ''}", n))
    return options


def sizes_figure(values: dict[str, Any]) -> Figure:
    """Two bars: cache and weights, in GB."""
    title = f"{values['model']}: {counted(values['seq_len'], 'token')}, batch {values['batch']}"
    if values["beyond_max_len"]:
        title += "\n(longer than its window)"
    heights = {f"KV cache, {values['bits']} bits": values["kv_gb"], "weights, 16 bits": values["weight_gb"]}
    return plots.bars(heights, "what is in memory", "size (GB)", title)


def sizes_table(values: dict[str, Any]) -> Table:
    tokens, window = values["crossover_tokens"], values["max_len"]
    if math.isinf(tokens):
        crossover = "never: the cache stops growing before that"
    else:
        crossover = f"{tokens:,.0f}{' (longer than its window)' if tokens > window else ''}"
    heads = f"{values['n_kv_heads']}" if values["plain"] else "differs by layer, or not kept as heads"
    length = f"{values['seq_len']:,}{' (longer than its window)' if values['beyond_max_len'] else ''}"
    rows = [
        ("tokens per sequence", length),
        ("longest text of the model (tokens)", f"{window:,}"),
        ("sequences (batch)", f"{values['batch']}"),
        ("KV heads", heads),
        (f"KV cache at {values['bits']} bits", f"{values['kv_gb']:,.4g} GB = {values['kv_gib']:,.4g} GiB"),
        ("weights at 16 bits", f"{values['weight_gb']:,.4g} GB = {values['weight_gib']:,.4g} GiB"),
        ("one more token, per sequence", arithmetic.format_bytes(values["next_token_bytes"])),
        ("cache = weights at (tokens per sequence)", crossover),
    ]
    if values["state_bytes"]:
        rows.append(("fixed state beside the cache", arithmetic.format_bytes(values["state_bytes"])))
    return Table(values["model"], ("what", "size"), tuple(rows), width=48)


def kv_calculator(model: str = "llama-3.1-8b", seq_len: int = 8192, batch: int = 1, bits: int = 16) -> Explorer:
    """Compare the cache with the weights of a published model. `model` is a key of `kvlab.published.models()`."""
    key = published.model(model).key

    def compute(model: str, seq_len: float, batch: int, bits: int, n_kv_heads: int) -> Result:
        values = kv_sizes(model, round(seq_len), batch, bits, n_kv_heads or None)
        alt = f"Bars: KV cache {values['kv_gb']:.4g} GB, weights {values['weight_gb']:.4g} GB."
        return Result(values, sizes_table(values), sizes_figure(values), alt)

    def heads(model: str) -> list[tuple[str, int]]:
        return [(label, n or PUBLISHED) for label, n in kv_head_options(model)]

    def build() -> Controls:
        import ipywidgets

        names = [(shape.name, name) for name, shape in published.models().items()]
        most = max(MOST_TOKENS_LOG2, math.ceil(math.log2(seq_len)) if seq_len > 0 else 0)
        return {
            "model": ipywidgets.Dropdown(options=names, value=key, description="Model"),
            "seq_len": ipywidgets.FloatLogSlider(
                value=seq_len,
                base=2,
                min=0,
                max=most,
                step=1,
                readout_format=",.0f",
                description="Tokens",
                continuous_update=False,
            ),
            "batch": ipywidgets.IntSlider(
                value=batch, min=1, max=max(batch, MOST_BATCH), description="Batch", continuous_update=False
            ),
            "bits": ipywidgets.Dropdown(options=BITS, value=bits, description="Bits"),
            "n_kv_heads": ipywidgets.Dropdown(options=heads(key), value=PUBLISHED, description="KV heads"),
        }

    def prepare(changed: str, controls: Controls) -> None:
        if changed == "model":  # each model has its own numbers to choose from
            controls["n_kv_heads"].options = heads(controls["model"].value)
            controls["n_kv_heads"].value = PUBLISHED

    settings = {"model": key, "seq_len": seq_len, "batch": batch, "bits": bits, "n_kv_heads": PUBLISHED}
    return Explorer(QUESTION, settings, compute, build, prepare=prepare).show()


def _is_plain(shape: published.PublishedModel) -> bool:
    return all(group.kind == "full" for group in shape.layers)


def _with_kv_heads(shape: published.PublishedModel, n_kv_heads: int) -> published.PublishedModel:
    if not _is_plain(shape):
        raise ValueError(f"{shape.name} has layers that do not all keep K and V of everything: leave n_kv_heads out")
    if n_kv_heads < 1 or shape.n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} KV heads can't be shared evenly by {shape.n_heads} query heads")
    groups = tuple(replace(group, n_kv_heads=n_kv_heads) for group in shape.layers)
    return replace(shape, n_kv_heads=n_kv_heads, layers=groups)
