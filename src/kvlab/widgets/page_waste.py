"""How much of a reservation stays empty, by the size of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.show import Table
from kvlab.validate import amount, whole
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How large may a block be before the empty rest of the last one matters?"
N_REQUESTS = 256
SPREAD = 0.8  # standard deviation of the logarithm of a length
MOST_LOG2 = 11  # blocks of 1 to 2,048 positions


def empty_share(lengths: Sequence[int], block_size: int) -> float:
    """Share of the reserved positions that hold nothing when every sequence has whole blocks of its own.

    One block for the longest text is contiguous memory. No sequences, a length or a block size below 1: ValueError.
    """
    size = whole("block_size", block_size, least=1)
    used = [whole("a length", n, least=1) for n in lengths]
    if not used:
        raise ValueError("lengths is empty: there is nothing to reserve")
    return 1 - sum(used) / sum(-(-n // size) * size for n in used)


def draw_lengths(mean: float, longest: int, n: int = N_REQUESTS, seed: int = 0) -> list[int]:
    """Log-normal lengths with about this mean before they are cut at `longest`; equal arguments, equal lengths."""
    import numpy as np

    middle = np.log(amount("mean", mean, positive=True)) - SPREAD**2 / 2
    drawn = np.exp(np.random.default_rng(seed).normal(middle, SPREAD, whole("n", n, least=1)))
    return [int(length) for length in np.clip(drawn.round(), 1, whole("longest", longest, least=1))]


def waste_by_block(mean: float, block_size: int, seed: int = 0) -> dict[str, Any]:
    """Shares of empty positions for blocks of 1, 2, 4 ... 2,048 and of `block_size`, and the blocks that it takes."""
    lengths = draw_lengths(mean, 2**MOST_LOG2, seed=seed)
    sizes = sorted({2**power for power in range(MOST_LOG2 + 1)} | {whole("block_size", block_size, least=1)})
    return {
        "block_size": block_size,
        "mean": sum(lengths) / len(lengths),
        "shares": {size: empty_share(lengths, size) for size in sizes},
        "entries": sum(-(-n // block_size) for n in lengths) / len(lengths),
    }


def waste_figure(values: dict[str, Any]) -> Figure:
    """The curve over all block sizes, and a mark at the chosen one."""
    shares, chosen = values["shares"], values["block_size"]
    series = {
        "all block sizes": (list(shares), [100 * share for share in shares.values()]),
        f"chosen: {chosen}": ([chosen], [100 * shares[chosen]]),
    }
    title = f"{N_REQUESTS} requests, {values['mean']:.0f} tokens on average"
    return plots.lines(series, "positions per block", "empty positions (%)", title, logx=True)


def waste_table(values: dict[str, Any]) -> Table:
    rows = (
        (f"mean length as drawn, cut at {2**MOST_LOG2:,}", f"{values['mean']:.0f} tokens"),
        ("positions per block", f"{values['block_size']:,}"),
        ("empty positions", f"{values['shares'][values['block_size']]:.2%}"),
        ("empty if 2,048 are reserved for each", f"{values['shares'][2**MOST_LOG2]:.1%}"),
        ("entries in a block table, on average", f"{values['entries']:.1f}"),
    )
    return Table("Blocks and what they waste", ("what", "how much"), rows, width=40)


def page_waste(block_size: int = 16, mean: int = 480) -> Explorer:
    """Move the block size and the mean length, and see how much of the reserved memory stays empty."""

    def compute(block_size: float, mean: int) -> Result:
        values = waste_by_block(mean, round(block_size))
        share = values["shares"][values["block_size"]]
        alt = f"Empty share by block size; {share:.1%} for blocks of {values['block_size']}."
        return Result(values, waste_table(values), waste_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        return {
            "block_size": ipywidgets.SelectionSlider(
                options=[(f"{2**power:,}", 2**power) for power in range(MOST_LOG2 + 1)],
                value=block_size,
                description="Block",
                continuous_update=False,
            ),
            "mean": ipywidgets.IntSlider(
                value=mean,
                min=10,
                max=1000,
                description="Mean length",
                readout_format=",d",
                continuous_update=False,
            ),
        }

    return Explorer(QUESTION, {"block_size": block_size, "mean": mean}, compute, build).show()
