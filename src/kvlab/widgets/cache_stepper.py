"""Step through prefill and decode and look at the real keys that the cache holds."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kvlab import arithmetic, plots
from kvlab.cache import PreallocatedCache
from kvlab.generate import decode_step, prefill, prompt_ids
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "What does the KV cache hold after each step, and what does a step add?"


@dataclass(frozen=True)
class StepperState:
    """One step: step 0 is the empty cache, step 1 prefill, every later one a decode step.

    held: ids of the tokens whose K and V the cache holds; processed: positions that this step computed.
    next_token: the greedy choice after this step, None before prefill.
    """

    step: int
    held: tuple[int, ...]
    processed: tuple[int, ...]
    next_token: int | None

    @property
    def length(self) -> int:
        return len(self.held)


@torch.no_grad()
def stepper_states(model: Llama, text: str, n_new: int = 12) -> tuple[list[StepperState], PreallocatedCache]:
    """Prefill `text`, then up to `n_new` greedy decode steps. Returns the states, and the cache after the last one.

    An end-of-text token ends the steps early, as it ends generation. ValueError for an empty text or one too long.
    """
    if not text.strip():
        raise ValueError("the text is empty: write at least one word")
    held = prompt_ids(model, text, n_new)
    cache = PreallocatedCache(model.config, len(held) + n_new, dtype=model.dtype, device=model.device)
    token = int(prefill(model, held, cache).argmax())
    states = [StepperState(0, (), (), None), StepperState(1, tuple(held), tuple(range(len(held))), token)]
    end = None if model.tokenizer is None else model.tokenizer.eos_id
    while len(states) < n_new + 2 and token != end:
        position = cache.length
        held = [*held, token]
        token = int(decode_step(model, token, cache).argmax())
        states.append(StepperState(len(states), tuple(held), (position,), token))
    return states, cache


def state_at(
    model: Llama, states: list[StepperState], cache: PreallocatedCache, step: int, layer: int = 0, head: int = 0
) -> dict[str, Any]:
    """What the cache held at `step`: a copy of the last cache is cut back to that length, nothing is computed again.

    Returns step, n_steps (the last step), length, shape of K, keys (length, d_head) of one KV head as numpy, their
    reach (the largest |number| of this head in any step), pieces, processed positions, next piece, nbytes of the cut
    cache and formula_bytes, the same from the shape alone.
    """
    config = model.config
    for name, value, size in (("step", step, len(states)), ("layer", layer, config.n_layers)):
        if not 0 <= value < size:
            raise ValueError(f"{name} must be between 0 and {size - 1}, got {value}")
    if not 0 <= head < config.n_kv_heads:
        raise ValueError(f"head must be between 0 and {config.n_kv_heads - 1}, got {head}")
    state = states[step]
    reach = float(cache.view(layer)[0][0, head].abs().max())
    cut = copy.deepcopy(cache)
    cut.truncate(state.length)
    keys, _ = cut.view(layer)
    return {
        "step": step,
        "n_steps": len(states) - 1,
        "layer": layer,
        "head": head,
        "length": cut.length,
        "shape": tuple(keys.shape),
        "keys": keys[0, head].float().cpu().numpy(),
        "reach": reach,
        "pieces": _pieces(model, state.held),
        "processed": list(state.processed),
        "next_piece": None if state.next_token is None else _pieces(model, (state.next_token,))[0],
        "nbytes": cut.nbytes,
        "formula_bytes": arithmetic.kv_bytes(config, state.length, 1, keys.element_size()),
    }


def stepper_figure(values: dict[str, Any]) -> Figure:
    """The keys of one KV head, one row per held position; the rows that this step added are named and marked off."""
    where = f"K of layer {values['layer']}, KV head {values['head']}, step {values['step']}"
    axes_names: dict[str, Any] = {"xlabel": "number within the head", "ylabel": "position and token"}
    if values["length"] == 0:
        nothing = np.zeros((1, values["shape"][-1]), dtype=bool)
        return plots.heatmap(nothing, ["nothing"], title=f"{where}: empty", **axes_names)
    new = set(values["processed"])
    labels = [plain(f"{i} {piece[:16]}{'  ← new' if i in new else ''}") for i, piece in enumerate(values["pieces"])]
    reach = values["reach"]  # one scale of colours for all steps
    figure = plots.heatmap(
        values["keys"], labels, title=where, value_label="value of K (no unit)", reach=reach, **axes_names
    )
    figure.axes[0].axhline(min(new) - 0.5, color="black", linestyle="--", linewidth=1)
    return figure


def stepper_table(values: dict[str, Any]) -> Table:
    kinds = ("empty cache", "prefill: the whole prompt at once")
    kind = kinds[values["step"]] if values["step"] < 2 else "decode: one token"
    new = values["processed"]
    positions = "none" if not new else str(new[0]) if len(new) == 1 else f"{new[0]} to {new[-1]}"
    following = "not known yet" if values["next_piece"] is None else repr(values["next_piece"])
    agrees = "equal" if values["nbytes"] == values["formula_bytes"] else "NOT equal"
    size = arithmetic.format_bytes(values["nbytes"])
    rows = (
        ("step", f"{values['step']} of {values['n_steps']} ({kind})"),
        ("K of one layer: (batch, n_kv_heads, length, d_head)", f"K: {values['shape']}"),
        ("which positions this step computed", positions),
        ("bytes held, K and V of all layers", size),
        ("bytes from the formula", f"{arithmetic.format_bytes(values['formula_bytes'])}: {agrees}"),
        ("next token", following),
    )
    return Table("The cache at this step", ("what", "value"), rows, width=52)


def cache_stepper(
    model: Llama, text: str = "mom washed the frame", layer: int = 0, head: int = 0, n_new: int = 12
) -> Explorer:
    """Show the keys of one layer and KV head, step by step, for a text of the learner's own."""
    last: dict[str, tuple[list[StepperState], PreallocatedCache]] = {}

    def compute(text: str, step: int, layer: int, head: int) -> Result:
        if text not in last:
            run = stepper_states(model, text, n_new)
            last.clear()
            last[text] = run
        states, cache = last[text]
        values = state_at(model, states, cache, min(step, len(states) - 1), layer, head)
        alt = f"Keys held at step {values['step']}: {values['length']} rows, one per position."
        return Result(values, stepper_table(values), stepper_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "text": ipywidgets.Text(value=text, description="Text", continuous_update=False, layout=wide),
            "step": ipywidgets.IntSlider(value=1, min=0, max=n_new + 1, description="Step", continuous_update=False),
            "layer": ipywidgets.Dropdown(options=range(model.config.n_layers), value=layer, description="Layer"),
            "head": ipywidgets.Dropdown(options=range(model.config.n_kv_heads), value=head, description="KV head"),
        }

    def adjust(controls: Controls, values: dict[str, Any]) -> None:
        controls["step"].max = values["n_steps"]  # a text that ends early has fewer steps

    settings = {"text": text, "step": 1, "layer": layer, "head": head}
    return Explorer(QUESTION, settings, compute, build, adjust=adjust).show()


def _pieces(model: Llama, ids: tuple[int, ...]) -> list[str]:
    assert model.tokenizer is not None  # prompt_ids has refused a text without one
    return model.tokenizer.pieces(ids)
