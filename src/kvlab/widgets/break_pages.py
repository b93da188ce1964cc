"""Plant a mistake in the books of a paged cache: whose text changes, and which check notices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from kvlab import faults, plots
from kvlab.engine import BlockManager, PagedPool
from kvlab.engine.runner import Row, run
from kvlab.generate import as_tensor, prompt_ids
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.words import texts_beside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Two texts share pages, and the books have a mistake: whose text changes, and which check fails?"
PROMPT = "Once there was a shy girl named Vera. Vera had a"
NONE = "none"
PAGE_FAULTS = (NONE, "shared_block_written", "block_not_copied", "shared_block_freed")
BLOCK_SIZE = 8
ATOL = 1e-3  # float32 rounding stays far below, a mistake far above

PARENT = "the parent's logits are those of a run alone"
CHILD = "the child's logits are those of a run alone"
BOOKS = "every block has as many owners as its count says"


@torch.no_grad()
def run_pages_fault(model: Llama, fault: str, prompt: str = PROMPT, n_new: int = 12) -> dict[str, Any]:
    """One prompt goes on in two ways, greedy, the child with the second-best first token, over shared pages.

    Halfway the child ends, and a newcomer takes the blocks that are free then. Returns fault, texts {name: text},
    differences {name: largest |logit difference| to a run alone, step by step} and checks {name: passed}.
    """
    if fault not in PAGE_FAULTS:
        raise ValueError(f"there is no page fault '{fault}': choose one of {', '.join(PAGE_FAULTS)}")
    if not prompt.strip() or n_new < 2:
        raise ValueError("the prompt needs a word, and n_new must be at least 2")
    ids = prompt_ids(model, prompt, n_new)
    longest = -(-(len(ids) + n_new) // BLOCK_SIZE)
    manager = BlockManager(3 * longest, BLOCK_SIZE, prefix_caching=False)
    pool = PagedPool(model.layout(), 3 * longest, BLOCK_SIZE)
    written: dict[str, list[int]] = {"parent": [], "child": list(ids), "newcomer": []}
    differences: dict[str, list[float]] = {"parent": [], "child": []}

    def feed(name: str, tokens: list[int]) -> torch.Tensor:
        pool.copy_blocks(manager.reserve(name, len(tokens)))
        row = Row(tokens, len(written[name]), manager.block_table(name))
        written[name] += tokens
        return run(model, pool, [row])[0]

    with nullcontext() if fault == NONE else faults.plant(fault):
        manager.start("parent", [])
        best = feed("parent", ids).topk(2).indices.tolist()
        manager.fork("parent", "child")
        following = {"parent": best[0], "child": best[1]}
        for step in range(n_new):
            for name in list(following):
                logits = feed(name, [following[name]])
                alone = model(as_tensor(model, written[name]), last_only=True)[-1]
                differences[name].append(float((logits - alone).abs().max()))
                following[name] = int(logits.argmax())
            if step == n_new // 2:
                del following["child"]
                manager.free("child")
                manager.start("newcomer", [])
                feed("newcomer", ids[::-1])
    checks = {
        PARENT: max(differences["parent"]) <= ATOL,
        CHILD: max(differences["child"]) <= ATOL,
        BOOKS: _books_are_right(manager),
    }
    texts = {name: _text(model, written[name][len(ids) :]) for name in differences}
    return {"fault": fault, "texts": texts, "differences": differences, "checks": checks}


def pages_figure(values: dict[str, Any]) -> Figure:
    """How far the logits of both texts are off, step by step."""
    series = {name: (list(range(1, len(found) + 1)), found) for name, found in values["differences"].items()}
    figure = plots.lines(series, "new token", "largest |logit difference|", f"fault: {values['fault']}")
    figure.axes[0].set_ylim(0, max(1.0, 1.1 * max(max(found) for found in values["differences"].values())))
    return figure


def pages_table(values: dict[str, Any], right: Mapping[str, str]) -> Table:
    """Checks and texts; `right`: the texts without a fault, told where they differ."""
    name = values["fault"]
    rows = [(f"check: {check}", "✓ passes" if good else "✗ FAILS") for check, good in values["checks"].items()]
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    notes = texts_beside(values["texts"], right)
    return Table(f"{name}: {summary}", ("what", "result"), tuple(rows), notes=notes, width=56)


def break_pages(model: Llama, prompt: str = PROMPT, n_new: int = 12, fault: str = NONE) -> Explorer:
    """Choose a mistake and see the two texts, their logits and the checks change. `fault` is the one to start with."""

    @lru_cache(maxsize=4)
    def right(prompt: str) -> dict[str, str]:
        texts: dict[str, str] = run_pages_fault(model, NONE, prompt, n_new)["texts"]
        return texts

    def compute(fault: str, prompt: str) -> Result:
        values = run_pages_fault(model, fault, prompt, n_new)
        red = sum(not good for good in values["checks"].values())
        return Result(
            values,
            pages_table(values, {} if fault == NONE else right(prompt)),
            pages_figure(values),
            f"Logit differences of two texts; checks that fail: {red}.",
        )

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "fault": ipywidgets.Dropdown(options=PAGE_FAULTS, value=fault, description="Fault"),
            "prompt": ipywidgets.Text(value=prompt, description="Prompt", continuous_update=False, layout=wide),
        }

    return Explorer(QUESTION, {"fault": fault, "prompt": prompt}, compute, build).show()


def _books_are_right(manager: BlockManager) -> bool:
    try:
        manager.check()
    except AssertionError:
        return False
    return True


def _text(model: Llama, tokens: list[int]) -> str:
    assert model.tokenizer is not None  # prompt_ids has refused a text without one
    return model.tokenizer.decode(tokens)
