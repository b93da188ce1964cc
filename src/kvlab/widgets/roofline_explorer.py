"""The roofline of a published model on a GPU: where prefill and decode land as prompt, batch and context change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlab import arithmetic, plots, published
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Does a pass wait for arithmetic or for memory, and what moves it across the ridge?"
MODELS = ("primer", "llama-3.2-1b", "llama-3-8b", "llama-3.1-8b", "llama-3-70b")
MOST_TOKENS_LOG2, MOST_BATCH_LOG2 = 15, 10
BYTES_EACH = 2


def roofline_passes(model: Any, gpu: str, prompt: int, batch: int, context: int) -> dict[str, Any]:
    """One prefill pass of `prompt` tokens and one decode step of `batch` sequences that hold `context` tokens then.

    16-bit values. For each of "prefill" and "decode": flops, bytes, intensity (operations per byte), seconds (the lower
    bound), flops_per_second at that bound, share_of_peak and limit ("memory" or "arithmetic"). Also ridge, peak,
    bandwidth, and fits: whether weights and caches of the decode step fit into the GPU's memory.
    ValueError for an unknown model or GPU, and sizes below 1.
    """
    card, shape = published.gpu(gpu), published.shape_of(model)
    for name, size in (("prompt", prompt), ("batch", batch), ("context", context)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    ridge = arithmetic.ridge_point(card)

    def one_pass(new: int, past: int, sequences: int) -> dict[str, Any]:
        flops = 2 * sequences * arithmetic.pass_macs(shape, new, past)["total"]
        moved = arithmetic.pass_bytes(shape, new + past, sequences, BYTES_EACH)
        seconds = arithmetic.pass_seconds(shape, card, new, past, sequences, BYTES_EACH)
        return {
            "flops": flops,
            "bytes": moved,
            "intensity": flops / moved,
            "seconds": seconds,
            "flops_per_second": flops / seconds,
            "share_of_peak": flops / seconds / card.peak_flops,
            "limit": "arithmetic" if flops / moved > ridge else "memory",
        }

    memory = arithmetic.weight_bytes(shape, BYTES_EACH) + arithmetic.kv_bytes(shape, context, batch, BYTES_EACH)
    return {
        "model": shape.name,
        "gpu": card.name,
        "prompt": prompt,
        "batch": batch,
        "context": context,
        "prefill": one_pass(prompt, 0, 1),
        "decode": one_pass(1, context - 1, batch),
        "ridge": ridge,
        "peak": card.peak_flops,
        "bandwidth": card.bandwidth,
        "memory": memory,
        "fits": memory <= card.memory_bytes,
    }


def roofline_figure(values: dict[str, Any]) -> Figure:
    """The roof and two points on it, both axes logarithmic."""
    at = [values[phase]["intensity"] for phase in ("prefill", "decode")]
    grid = sorted({min(0.25, *at), values["ridge"], max(10_000.0, *at)})
    roof = [min(values["peak"], values["bandwidth"] * x) / 1e12 for x in grid]
    names = {
        "prefill": f"prefill, {counted(values['prompt'], 'token')}",
        "decode": f"decode, batch {values['batch']:,}",
    }
    points = {
        name: ([values[phase]["intensity"]], [values[phase]["flops_per_second"] / 1e12])
        for phase, name in names.items()
    }
    figure = plots.lines(
        {f"roofline, ridge at {values['ridge']:.0f}": (grid, roof), **points},
        xlabel="arithmetic intensity (operations per byte)",
        ylabel="10¹² operations per second",
        title=f"{values['model']} on {values['gpu']}: bounds",
        logx=True,
        logy=True,
    )
    axes = figure.axes[0]
    axes.set_xticks([0.1, 1, 10, 100, 1000, 10_000], ["0.1", "1", "10", "100", "1,000", "10,000"])
    square = axes.get_lines()[1]  # large and hollow: seen also where decode lies on the same point
    square.set(markersize=11, markerfacecolor="none", markeredgewidth=2)
    axes.legend()  # again, with the new square
    return figure


def roofline_table(values: dict[str, Any]) -> Table:
    rows = []
    for phase in ("prefill", "decode"):
        found = values[phase]
        tokens = values["prompt"] if phase == "prefill" else values["batch"]
        rows.append(
            (
                phase,
                f"{tokens:,}",
                f"{found['intensity']:,.1f}",
                found["limit"],
                f"{1000 * found['seconds']:,.3g} ms",
                f"{found['share_of_peak']:.1%}",
                f"{tokens / found['seconds']:,.0f}",
            )
        )
    header = ("pass", "tokens", "operations per byte", "waits for", "bound of the time", "of peak", "tokens/s at most")
    room = "fits" if values["fits"] else "does NOT fit"
    note = f"decode: weights and {counted(values['batch'], 'cache')} of {counted(values['context'], 'token')} take "
    note += f"{arithmetic.format_bytes(values['memory'])}, which {room} into the memory of {values['gpu']}"
    return Table(f"{values['model']} on {values['gpu']}, 16 bits", header, tuple(rows), notes=(note,))


def roofline_explorer(
    model: str = "llama-3-8b", gpu: str = "a100-80gb", prompt: int = 512, batch: int = 16, context: int = 1024
) -> Explorer:
    """Move prefill and decode along a GPU's roofline. Settings as in `roofline_passes`."""

    def compute(model: str, gpu: str, prompt: float, batch: float, context: float) -> Result:
        values = roofline_passes(model, gpu, round(prompt), round(batch), round(context))
        where = [f"{phase} waits for {values[phase]['limit']}" for phase in ("prefill", "decode")]
        alt = f"Roofline with its ridge at {values['ridge']:.0f} operations per byte; {' and '.join(where)}."
        return Result(values, roofline_table(values), roofline_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        def slider(value: int, most: int, name: str) -> Any:
            return ipywidgets.FloatLogSlider(
                value=value,
                base=2,
                min=0,
                max=most,
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
            "prompt": slider(prompt, MOST_TOKENS_LOG2, "Prompt"),
            "batch": slider(batch, MOST_BATCH_LOG2, "Batch"),
            "context": slider(context, MOST_TOKENS_LOG2, "Context"),
        }

    settings = {"model": model, "gpu": gpu, "prompt": prompt, "batch": batch, "context": context}
    return Explorer(QUESTION, settings, compute, build).show()
