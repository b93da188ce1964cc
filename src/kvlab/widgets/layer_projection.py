"""One word in many sentences, layer by layer: its hidden states, drawn in two dimensions."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from kvlab import plots
from kvlab.embeddings.decoder import word_states
from kvlab.embeddings.search import unit
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.validate import whole
from kvlab.widgets.base import Controls, Explorer, Result, plain
from kvlab.widgets.start import start_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Do hidden states of one word lie apart when its sense differs, and from which layer on?"
WORD = "bank"
SENSES = {
    "river": (
        "Tom sat on the bank.",
        "Mom caught a fish from the bank.",
        "Felix saw a frog on the bank.",
        "Anna found a wet stone on the bank.",
        "Leo slept on the bank.",
        "Dad pulled the boat up to the bank.",
    ),
    "money": (
        "Tom put the coins in the bank.",
        "Mom kept the gold in the bank.",
        "Felix took money from the bank.",
        "Anna put the money in the bank.",
        "Leo kept his coins in the bank.",
        "Dad took the gold to the bank.",
    ),
}
OWN = "Mom saw a green frog near the bank."


def principal_axes(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The two directions in which points (N, d) spread most: mean (d,), axes (2, d), each axis's share of the variance.

    Principal component analysis (Pearson, 1901) by the singular values of the points less their mean, in float64.
    The sign of an axis is free: here the first point has no negative coordinate. Without any spread the shares are 0.
    """
    if points.dim() != 2 or min(points.shape) < 2:
        raise ValueError(f"points must be (N, d) with at least two of each, got {tuple(points.shape)}")
    mean = points.double().mean(0)
    centred = points.double() - mean
    _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
    signs = torch.where(axes[:2] @ centred[0] < 0, -1.0, 1.0)
    variance = spread**2
    share = variance[:2] / variance.sum() if bool(variance.sum() > 0) else torch.zeros(2, dtype=torch.float64)
    return mean, axes[:2] * signs[:, None], share


def layer_view(model: Llama, layer: int, own: str = "") -> dict[str, Any]:
    """Where the hidden states of the word lie after `layer` blocks (0: its token row), by sense.

    `own`: a sentence more with the word in it; it is drawn, but does not turn the axes. Returns layer, points {sense:
    (x list, y list)}, share (of the variance, two), same and across (mean cosine of two sentences of one sense, and of
    different ones), neighbours (sentences whose nearest other one has their sense) and nearest (to `own`, or None).
    Raises ValueError for a layer that the model lacks, and for a sentence without the word as the same token.
    """
    layer = whole("layer", layer)
    if layer > model.config.n_layers:
        raise ValueError(f"layer must be at most {model.config.n_layers}, the number of blocks, got {layer}")
    return _view(_all_layers(model, own), layer)


def _texts() -> list[str]:
    return [text for sense in SENSES.values() for text in sense]


def _all_layers(model: Llama, own: str) -> torch.Tensor:
    """The word's hidden states in all sentences: (n_layers + 1, sentences, d_model)."""
    return word_states(model, WORD, _texts() + ([own] if own.strip() else [])).states.cpu()


def _view(all_layers: torch.Tensor, layer: int) -> dict[str, Any]:
    """What `layer_view` returns, from all layers."""
    states, texts = all_layers[layer], _texts()
    senses = [sense for sense, given in SENSES.items() for _ in given]
    extra = len(states) > len(texts)
    known = states[: len(texts)]
    mean, axes, share = principal_axes(known)
    places = (states.double() - mean) @ axes.T
    points = {
        sense: tuple(places[[i for i, s in enumerate(senses) if s == sense]].T.tolist())
        for sense in dict.fromkeys(senses)
    }
    if extra:
        points["yours"] = tuple(places[len(texts) :].T.tolist())
    cosine = unit(known) @ unit(known).T
    alike = torch.tensor([[a == b for b in senses] for a in senses])
    others = ~torch.eye(len(texts), dtype=torch.bool)
    nearest = cosine.masked_fill(~others, -2.0).argmax(1).tolist()
    return {
        "layer": layer,
        "points": points,
        "share": share.tolist(),
        "same": float(cosine[alike & others].mean()),
        "across": float(cosine[~alike].mean()),
        "neighbours": sum(senses[i] == senses[j] for i, j in enumerate(nearest)),
        "nearest": texts[int((unit(known) @ unit(states[-1])).argmax())] if extra and layer else None,
    }


def projection_figure(view: dict[str, Any]) -> Figure:
    """One point for each sentence; the shape tells the sense."""
    first, second = (f"{share:.0%} of the spread" for share in view["share"])
    where = "token row, before the first block" if view["layer"] == 0 else f"after block {view['layer']}"
    figure = plots.lines(view["points"], f"first axis ({first})", f"second axis ({second})", f"{WORD!r}: {where}")
    for line in figure.axes[0].lines:
        line.set_linestyle("none")
        line.set_markersize(9)
    figure.axes[0].legend()  # anew, without the lines
    if view["layer"] == 0:
        figure.axes[0].set(xlim=(-1, 1), ylim=(-1, 1))
    return figure


def projection_table(view: dict[str, Any]) -> Table:
    total = sum(len(given) for given in SENSES.values())
    nearest = "none: all points are the same" if view["layer"] == 0 else str(view["nearest"] or "no sentence given")
    rows = (
        ("mean cosine, same sense", f"{view['same']:.3f}"),
        ("mean cosine, different senses", f"{view['across']:.3f}"),
        (
            "nearest neighbour has the same sense",
            "all are equal" if view["layer"] == 0 else f"{view['neighbours']} of {total}",
        ),
        ("your sentence is nearest to", plain(nearest)),
    )
    return Table(f"Layer {view['layer']}", ("what", "value"), rows, width=48)


def layer_projection(model: Llama, layer: int | None = None, own: str = OWN) -> Explorer:
    """Move the layer and write a sentence with the word. It starts after the last block."""
    last = model.config.n_layers
    start = last if layer is None else start_value("layer", layer, 0, last)

    @lru_cache(maxsize=8)
    def all_layers(own: str) -> torch.Tensor:  # one pass gives them all: moving the layer needs no other
        return _all_layers(model, own)

    def compute(layer: int, own: str) -> Result:
        view = _view(all_layers(own), layer)
        alt = (
            f"Points of {len(view['points'])} kinds after {view['layer']} blocks; mean cosine {view['same']:.2f} "
            f"within a sense, {view['across']:.2f} between senses."
        )
        return Result(view, projection_table(view), projection_figure(view), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "layer": ipywidgets.IntSlider(
                value=start, min=0, max=model.config.n_layers, description="Layer", continuous_update=False
            ),
            "own": ipywidgets.Text(value=own, description="Yours", continuous_update=False, layout=wide),
        }

    return Explorer(QUESTION, {"layer": start, "own": own}, compute, build).show()
