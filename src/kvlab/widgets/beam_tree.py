"""The tree of a beam search: which texts were kept after each step, and which fell out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlab.beams import BeamSearch, beam_search
from kvlab.model import Llama
from kvlab.plots import MUTED, PALETTE
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Which texts does beam search keep after each step, and which fall out?"
PROMPT = "mom washed the"
MOST_BEAMS, MOST_STEPS = 6, 8


def tree_view(model: Llama, prompt: str, n_beams: int, n_new: int) -> dict[str, Any]:
    """The kept beams after each step of a search: steps [[{token, text, score, parent, ended, alive}]].

    parent is the place in the step before, None after the first step. alive: the beam leads to one of the final ones.
    Also the texts and scores of the final beams, best first. An empty prompt, or no beams, raise ValueError.
    """
    if not prompt.strip():
        raise ValueError("the prompt is empty: write at least one word")
    if model.tokenizer is None:
        raise ValueError("this model has no tokenizer, so it cannot take a text: load one that has")
    decode = model.tokenizer.decode
    found: BeamSearch = beam_search(model, prompt, n_beams, n_new)
    steps: list[list[dict[str, Any]]] = [
        [
            {
                "token": kept.token,
                "text": decode([kept.token], special=True),
                "score": kept.score,
                "parent": kept.parent,
                "ended": kept.ended,
                "alive": False,
            }
            for kept in step
        ]
        for step in found.steps
    ]
    alive = set(range(len(steps[-1]))) if steps else set()
    for step in reversed(steps):
        for place in alive:
            step[place]["alive"] = True
        alive = {step[place]["parent"] for place in alive}
    n_prompt = len(found.prompt_ids)
    return {
        "prompt": prompt,
        "steps": steps,
        "beams": [(decode(tokens[n_prompt:], special=True), score) for tokens, score in found.beams],
        "passes": found.passes,
        "positions": found.positions_processed,
    }


def tree_figure(view: dict[str, Any]) -> Figure:
    """One column for each step, best beam on top; lines lead to the beam that each one goes on from."""
    import matplotlib.pyplot as plt

    steps = view["steps"]
    widest = max(map(len, steps), default=1)
    size = max(4.6, 1.6 + 1.15 * len(steps)), max(2.3, 1.2 + 0.55 * widest)  # title and label need some room
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    plt.close(figure)
    for number, step in enumerate(steps, start=1):
        for place, kept in enumerate(step):
            begin = (number - 1, -(kept["parent"] or 0))
            style: dict[str, Any] = {"color": PALETTE[0], "lw": 2} if kept["alive"] else {"color": MUTED, "ls": "--"}
            axes.plot([begin[0], number], [begin[1], -place], zorder=1, **style)
            text = plain(kept["text"].strip() or repr(kept["text"]))
            box = {"boxstyle": "round", "fc": "#ffffff", "ec": style["color"]}
            axes.text(number, -place, f"{text}\n{kept['score']:.2f}", ha="center", va="center", fontsize=8, bbox=box)
    axes.text(0, 0, "prompt", ha="center", va="center", fontsize=8, bbox={"boxstyle": "round", "fc": "#ffffff"})
    axes.set(
        xlabel="new tokens",
        ylabel="beam, best on top",
        xlim=(-0.5, len(steps) + 0.5),
        ylim=(-widest + 0.4, 0.6),
        xticks=range(len(steps) + 1),
        yticks=range(1 - widest, 1),
        yticklabels=[str(place) for place in range(widest, 0, -1)],
    )
    axes.set_title("log probability so far; dashed: falls out later", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def tree_table(view: dict[str, Any]) -> Table:
    rows = tuple((str(rank), text, f"{score:.3f}") for rank, (text, score) in enumerate(view["beams"], start=1))
    notes = (f"after {view['prompt']!r}; {view['positions']} positions computed in {view['passes']} passes",)
    return Table("The beams that are left", ("place", "new text", "log probability"), rows, notes=notes, width=56)


def beam_tree(model: Llama, prompt: str = PROMPT, n_beams: int = 4, n_new: int = 6) -> Explorer:
    """Choose the text, how many beams are kept and how many tokens are added, and see the tree."""

    def compute(prompt: str, n_beams: int, n_new: int) -> Result:
        view = tree_view(model, prompt, n_beams, n_new)
        dead = sum(not kept["alive"] for step in view["steps"] for kept in step)
        alt = f"Tree of {len(view['steps'])} steps with up to {n_beams} beams; {dead} of the boxes lead nowhere."
        return Result(view, tree_table(view), tree_figure(view), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "prompt": ipywidgets.Text(value=prompt, description="Prompt", continuous_update=False, layout=wide),
            "n_beams": ipywidgets.IntSlider(
                value=n_beams, min=1, max=MOST_BEAMS, description="Beams", continuous_update=False
            ),
            "n_new": ipywidgets.IntSlider(
                value=n_new, min=1, max=MOST_STEPS, description="Tokens", continuous_update=False
            ),
        }

    return Explorer(QUESTION, {"prompt": prompt, "n_beams": n_beams, "n_new": n_new}, compute, build).show()
