"""A sliding window as a mask, and the ring that holds what the mask still shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.attention import sliding_window_mask
from kvlab.ring import ring_positions
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Which positions may each query see, and what does the ring hold after the last one?"
MOST_TOKENS = 24
MOST_LAYERS = 48


def window_view(n_tokens: int, n_new: int, window: int, n_layers: int) -> dict[str, Any]:
    """The mask of the last n_new of n_tokens positions, the ring's slots after them, and the reach of n_layers.

    More new tokens than tokens, or a window below 1, raise ValueError.
    """
    return {
        "mask": sliding_window_mask(n_new, n_tokens, window).tolist(),
        "first_query": n_tokens - n_new,
        "window": window,
        "slots": ring_positions(n_tokens, window),
        "forgotten": max(0, n_tokens - window),
        "n_layers": n_layers,
        "reach": n_layers * (window - 1),
    }


def window_figure(view: dict[str, Any]) -> Figure:
    """The mask: one row per query, one column per key, dark where the query may look."""
    queries = [view["first_query"] + row for row in range(len(view["mask"]))]
    keys = list(range(len(view["mask"][0])))
    title = f"window of {view['window']}"
    return plots.heatmap(view["mask"], queries, keys, title, xlabel="key (position)", ylabel="query (position)")


def window_table(view: dict[str, Any]) -> Table:
    slots = ", ".join("-" if position < 0 else str(position) for position in view["slots"])
    rows = (
        ("keys that the last query sees", str(sum(view["mask"][-1]))),
        ("ring, slot 0 first", slots),
        ("positions written over", str(view["forgotten"])),
        (f"reach of {view['n_layers']} layers", f"{view['reach']} positions back"),
    )
    return Table(f"Window of {view['window']}", ("what", "value"), rows, width=48)


def window_mask(n_tokens: int = 12, n_new: int = 12, window: int = 4, n_layers: int = 8) -> Explorer:
    """Move the window, the number of tokens and how many of them are new: all for prefill, one for decode."""

    def compute(n_tokens: int, n_new: int, window: int, n_layers: int) -> Result:
        view = window_view(n_tokens, n_new, window, n_layers)
        alt = f"Mask of {n_new} queries and {n_tokens} keys; the last query sees {sum(view['mask'][-1])} keys."
        return Result(view, window_table(view), window_figure(view), alt)

    def build() -> Controls:
        import ipywidgets

        def slider(value: int, name: str, most: int) -> Any:
            return ipywidgets.IntSlider(value=value, min=1, max=most, description=name, continuous_update=False)

        return {
            "n_tokens": slider(n_tokens, "Tokens", MOST_TOKENS),
            "n_new": slider(n_new, "New", MOST_TOKENS),
            "window": slider(window, "Window", MOST_TOKENS),
            "n_layers": slider(n_layers, "Layers", MOST_LAYERS),
        }

    def prepare(changed: str, controls: Controls) -> None:
        """There are no more new tokens than tokens: the slider that was moved takes the other along."""
        if controls["n_new"].value > controls["n_tokens"].value:
            other = "n_tokens" if changed == "n_new" else "n_new"
            controls[other].value = controls[changed].value

    settings = {"n_tokens": n_tokens, "n_new": n_new, "window": window, "n_layers": n_layers}
    return Explorer(QUESTION, settings, compute, build, prepare=prepare).show()
