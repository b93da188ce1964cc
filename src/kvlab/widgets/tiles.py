"""What attention has to hold at once: one score for every pair of positions, or one tile of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.arithmetic import format_bytes
from kvlab.show import Table
from kvlab.validate import whole
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "How large is the largest tensor of attention, for which length and tile?"
LENGTHS = tuple(2**power for power in range(7, 15))
BLOCKS = tuple(2**power for power in range(3, 12))


def tile_counts(n: int, block: int, d: int = 64, heads: int = 1, item: int = 4) -> dict[str, Any]:
    """What `kvlab.tiled.online_softmax_attention` makes for `n` positions in tiles of `block`, `item` bytes a number.

    Returns tiles (computed, those behind the causal mask left out), pairs (scores computed), causal (pairs that count),
    largest (bytes of its largest tensor: a tile or the result, whichever is more), full (bytes of all n x n scores) and
    steps: rescalings of the last row of tiles. Whole numbers of at least 1 are asked for.
    """
    n, block, d = whole("n", n, least=1), whole("block", block, least=1), whole("d", d, least=1)
    heads, item = whole("heads", heads, least=1), whole("item", item, least=1)
    size = min(block, n)
    rows = -(-n // size)
    last = n - (rows - 1) * size
    # Row r holds r + 1 tiles; all but the last row have `size` queries.
    above = size * size * rows * (rows - 1) // 2
    pairs = above + last * ((rows - 1) * size + last)
    return {
        "n": n,
        "block": block,
        "d": d,
        "tiles": rows * (rows + 1) // 2,
        "pairs": heads * pairs,
        "causal": heads * n * (n + 1) // 2,
        "largest": heads * max(size * size, n * d) * item,
        "full": heads * n * n * item,
        "steps": rows,
    }


def tiles_figure(values: dict[str, Any]) -> Figure:
    """The largest tensor over the length, both axes logarithmic: all scores, and the chosen tile."""
    lengths = sorted({*LENGTHS, values["n"]})
    found = [tile_counts(n, values["block"], values["d"]) for n in lengths]
    series = {
        "all n x n scores": (lengths, [one["full"] / 1e6 for one in found]),
        f"tiles of {values['block']:,}": (lengths, [one["largest"] / 1e6 for one in found]),
        f"chosen: n = {values['n']:,}": ([values["n"]], [values["largest"] / 1e6]),
    }
    title = f"One head of width {values['d']}, float32"
    return plots.lines(series, "positions n", "largest tensor (MB)", title, logx=True, logy=True)


def tiles_table(values: dict[str, Any]) -> Table:
    rows = (
        ("positions", f"{values['n']:,}"),
        ("tile", f"{values['block']:,} x {values['block']:,}"),
        ("tiles computed", f"{values['tiles']:,}"),
        ("scores computed", f"{values['pairs']:,}, of which {values['causal']:,} count"),
        ("largest tensor", format_bytes(values["largest"])),
        ("all n x n scores would take", format_bytes(values["full"])),
    )
    return Table("Attention in tiles", ("what", "value"), rows, width=44)


def tiles(n: int = 8192, block: int = 64, d: int = 64) -> Explorer:
    """Choose the number of positions and the side of a tile."""

    def compute(n: int, block: int) -> Result:
        values = tile_counts(n, block, d)
        alt = f"Largest tensor by length; {format_bytes(values['largest'])} for {n:,} positions in tiles of {block:,}."
        return Result(values, tiles_table(values), tiles_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        def choice(options: tuple[int, ...], value: int, name: str) -> Any:
            return ipywidgets.SelectionSlider(
                options=[(f"{one:,}", one) for one in sorted({*options, value})],
                value=value,
                description=name,
                continuous_update=False,
            )

        return {"n": choice(LENGTHS, n, "Positions"), "block": choice(BLOCKS, block, "Tile")}

    return Explorer(QUESTION, {"n": n, "block": block}, compute, build).show()
