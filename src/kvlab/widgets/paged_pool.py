"""A paged pool step by step: who holds which block, drawn from the block manager's own books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvlab import plots
from kvlab.engine import BlockManager
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Who holds which block, when is one shared, copied, kept for later, or taken away?"
N_BLOCKS = 10
PROMPT = tuple(range(10))  # tokens are numbers here: only equality counts
SEQUENCES = ("A", "B", "C", "D")

# (what happens, in words; what is done; to whom; with what)
SCRIPT: tuple[tuple[str, str, str, Any], ...] = (
    ("nothing is stored yet", "", "", None),
    ("A: a prompt of 10 tokens is computed", "prompt", "A", PROMPT),
    ("B is forked from A: it shares all blocks, none is taken", "fork", "B", "A"),
    ("B gets one more token", "write", "B", (50,)),
    ("A gets 8 more tokens", "write", "A", tuple(range(60, 68))),
    ("A ends: full blocks are kept for later, a partly filled one is forgotten", "free", "A", None),
    ("B ends too", "free", "B", None),
    ("C: its prompt begins as A's did, so kept blocks are used again", "prompt", "C", (*PROMPT, 70, 71)),
    ("D: a prompt of 25 other tokens is computed", "prompt", "D", tuple(range(100, 125))),
)


def pool_states(block_size: int = 4, n_blocks: int = N_BLOCKS) -> list[dict[str, Any]]:
    """Play the script on a BlockManager. One state per step, read from its books:

    event; tables {sequence: its blocks}; held {sequence: its tokens}; found (positions that a prefix hit saved);
    copies [(from, to)]; kept (unused blocks whose content can still be found); evicted (kept before, taken now);
    empty; shared. A pool that is too small raises OutOfBlocks.
    """
    manager = BlockManager(n_blocks, block_size)
    tokens: dict[str, list[int]] = {}
    states: list[dict[str, Any]] = []
    kept_before: set[int] = set()
    for event, action, seq, data in SCRIPT:
        copies: list[tuple[int, int]] = []
        found = 0
        if action == "prompt":
            found = manager.start(seq, data)
            tokens[seq] = list(data[:found])
        elif action == "fork":
            manager.fork(data, seq)
            tokens[seq] = list(tokens[data])
        elif action == "free":
            manager.free(seq)
            del tokens[seq]
        if action in ("prompt", "write"):
            copies = manager.reserve(seq, len(data) - found)
            tokens[seq] += data[found:]
            manager.commit(seq, tokens[seq])
        manager.check()
        tables = {name: manager.block_table(name) for name in tokens}
        used = {block for table in tables.values() for block in table}
        kept = set(manager.cached_blocks)
        states.append(
            {
                "event": event,
                "block_size": block_size,
                "n_blocks": n_blocks,
                "tables": tables,
                "held": {name: len(held) for name, held in tokens.items()},
                "found": found,
                "copies": copies,
                "kept": sorted(kept),
                "evicted": sorted(kept_before - kept - _taken_up(manager, seq, found)),
                "empty": sorted(set(range(n_blocks)) - used - kept),
                "shared": sorted(b for b in used if sum(b in table for table in tables.values()) > 1),
            }
        )
        kept_before = kept
    return states


def _taken_up(manager: BlockManager, seq: str, found: int) -> set[int]:
    """Blocks that a new sequence uses again with what they hold."""
    return set(manager.block_table(seq)[: found // manager.block_size]) if found else set()


def pool_matrix(state: dict[str, Any]) -> np.ndarray:
    """Bool: one row per sequence, then kept and empty; one column per block."""
    matrix = np.zeros((len(SEQUENCES) + 2, state["n_blocks"]), dtype=bool)
    rows = [*(state["tables"].get(name, []) for name in SEQUENCES), state["kept"], state["empty"]]
    for row, blocks in zip(matrix, rows, strict=True):
        row[blocks] = True
    return matrix


def pool_figure(state: dict[str, Any]) -> Figure:
    """The blocks of each sequence; the number in a cell is how many of its positions are filled."""
    labels = [*SEQUENCES, "kept", "empty"]
    figure = plots.heatmap(
        pool_matrix(state),
        labels,
        list(range(state["n_blocks"])),
        state["event"],
        xlabel="block of the pool",
        ylabel="held by",
    )
    for row, name in enumerate(SEQUENCES):
        for place, block in enumerate(state["tables"].get(name, [])):
            filled = min(state["block_size"], state["held"][name] - place * state["block_size"])
            figure.axes[0].text(block, row, str(filled), ha="center", va="center", color="white")
    return figure


def pool_table(state: dict[str, Any]) -> Table:
    def listed(blocks: Any) -> str:
        return ", ".join(str(block) for block in blocks) or "none"

    rows = [(f"block table of {name}", listed(table)) for name, table in state["tables"].items()]
    rows += [
        ("shared by several", listed(state["shared"])),
        ("copied on write (from -> to)", listed(f"{a} -> {b}" for a, b in state["copies"])),
        ("positions found in kept or used blocks", str(state["found"])),
        ("kept for later", listed(state["kept"])),
        ("kept before, now taken away", listed(state["evicted"])),
        ("empty", listed(state["empty"])),
    ]
    return Table(state["event"], ("what", "blocks"), tuple(rows), width=44)


def paged_pool(step: int = 3, block_size: int = 4) -> Explorer:
    """Go through the script with a slider; choose the size of a block."""

    def compute(step: int, block_size: int) -> Result:
        state = pool_states(block_size)[step]
        alt = f"{state['event']}. Shared blocks: {len(state['shared'])}, empty: {len(state['empty'])}."
        return Result(state, pool_table(state), pool_figure(state), alt)

    def build() -> Controls:
        import ipywidgets

        return {
            "step": ipywidgets.IntSlider(
                value=step, min=0, max=len(SCRIPT) - 1, description="Step", continuous_update=False
            ),
            "block_size": ipywidgets.Dropdown(options=(4, 5, 8), value=block_size, description="Block"),
        }

    return Explorer(QUESTION, {"step": step, "block_size": block_size}, compute, build).show()
