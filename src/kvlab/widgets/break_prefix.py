"""Plant a mistake in the prefix cache: which request gets another text's keys and values, and which check notices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from kvlab import faults, plots
from kvlab.engine import BlockManager, PagedPool
from kvlab.engine.runner import Row, run
from kvlab.generate import as_tensor
from kvlab.model import Llama
from kvlab.providers.rules import cached_prefix_length
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.words import texts_beside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "Four requests share a prefix cache that has a mistake: who gets blocks of another text, and who notices?"
NONE = "none"
PREFIX_FAULTS = (NONE, "prefix_forgotten", "salt_forgotten")
BLOCK_SIZE = 16
ATOL = 1e-3  # float32 rounding stays far below, a mistake far above

RULES = "It was a cold day in the village. The stories of this book are told one after the other. "
FOX = (
    "Once there was a small fox named Lena. Lena had a yellow drum. She loved the yellow drum very much. "
    "One day Lena went to the river with her drum. The birds sang in the trees. It was a warm morning. "
)
GOAT = (
    "Once there was an old goat named Boris. Boris had a green bell. He loved the green bell very much. "
    "One day Boris went to the market with his bell. Dad fixed the chair. They ate honey for lunch. "
)
FIRST, AGAIN, TURNED, STRANGER = "first", "another question", "documents turned", "another key"

EQUAL = "every answer's logits are those of a run without a cache"
RULE = "each request takes from the cache what the rule allows"


@torch.no_grad()
def run_prefix_fault(model: Llama, fault: str, n_new: int = 8) -> dict[str, Any]:
    """Four requests one after the other, greedy: a miss, a hit, two documents in another order, another customer's key.

    Returns fault, texts {request: its answer}, differences {request: largest |logit difference| to a run alone},
    taken {request: tokens from the cache}, allowed {request: those of the rule} and checks {name: passed}.
    """
    if fault not in PREFIX_FAULTS:
        raise ValueError(f"there is no prefix fault '{fault}': choose one of {', '.join(PREFIX_FAULTS)}")
    if n_new < 1:
        raise ValueError(f"n_new must be at least 1, got {n_new}")
    requests = _requests(model)
    n_blocks = sum(-(-(len(prompt) + n_new) // BLOCK_SIZE) for prompt, _ in requests.values())
    manager, pool = BlockManager(n_blocks, BLOCK_SIZE), PagedPool(model.layout(), n_blocks, BLOCK_SIZE)
    texts, differences, taken, allowed = {}, {}, {}, {}
    stored: list[tuple[bytes, list[int]]] = []
    with nullcontext() if fault == NONE else faults.plant(fault):
        for name, (prompt, salt) in requests.items():
            found = manager.start(name, prompt, salt)
            lengths = (cached_prefix_length(old, prompt, BLOCK_SIZE) for key, old in stored if key == salt)
            taken[name], allowed[name] = found, max(lengths, default=0)
            written, new, logits = list(prompt[:found]), list(prompt[found:]), []
            for _ in range(n_new):
                pool.copy_blocks(manager.reserve(name, len(new)))
                logits.append(run(model, pool, [Row(new, len(written), manager.block_table(name))])[0])
                written += new
                manager.commit(name, written)
                new = [int(logits[-1].argmax())]
            alone = model(as_tensor(model, written))[len(prompt) - 1 :]  # all steps in one pass, without a cache
            texts[name] = _text(model, [*written[len(prompt) :], *new])
            differences[name] = float((torch.stack(logits) - alone).abs().max())
            stored.append((salt, list(prompt)))
            manager.free(name)
    checks = {EQUAL: max(differences.values()) <= ATOL, RULE: taken == allowed}
    return {
        "fault": fault,
        "texts": texts,
        "differences": differences,
        "taken": taken,
        "allowed": allowed,
        "checks": checks,
    }


def prefix_figure(values: dict[str, Any]) -> Figure:
    """One bar per request: how far its logits are off."""
    title = f"fault: {values['fault']}"
    figure = plots.bars(values["differences"], "request", "largest |logit difference|", title)
    figure.axes[0].set_ylim(0, max(1.0, 1.15 * max(values["differences"].values())))
    return figure


def prefix_table(values: dict[str, Any], right: Mapping[str, str]) -> Table:
    """Checks, tokens from the cache, and answers; `right`: the answers without a fault, told where they differ."""
    name = values["fault"]
    rows = [(f"check: {check}", "✓ passes" if good else "✗ FAILS") for check, good in values["checks"].items()]
    rows += [
        (f"{request}: tokens from the cache", f"{found} (the rule: {values['allowed'][request]})")
        for request, found in values["taken"].items()
    ]
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    notes = texts_beside(values["texts"], right)
    return Table(f"{name}: {summary}", ("what", "result"), tuple(rows), notes=notes, width=60)


def break_prefix(model: Llama, fault: str = NONE) -> Explorer:
    """Choose a mistake and see what each request takes from the cache, its logits and the checks change."""

    @cache
    def right() -> dict[str, str]:
        texts: dict[str, str] = run_prefix_fault(model, NONE)["texts"]
        return texts

    def compute(fault: str) -> Result:
        values = run_prefix_fault(model, fault)
        red = sum(not good for good in values["checks"].values())
        alt = f"Logit differences of four requests; checks that fail: {red}."
        return Result(values, prefix_table(values, {} if fault == NONE else right()), prefix_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        return {"fault": ipywidgets.Dropdown(options=PREFIX_FAULTS, value=fault, description="Fault")}

    return Explorer(QUESTION, {"fault": fault}, compute, build).show()


def _requests(model: Llama) -> dict[str, tuple[list[int], bytes]]:
    """Prompt and salt of each request. Rules and documents fill whole blocks, so that a swapped document can be found."""
    if model.tokenizer is None:
        raise ValueError("this model has no tokenizer: choose one that has")
    encode = model.tokenizer.encode
    rules = _whole_blocks(encode(RULES))
    fox, goat = (_whole_blocks(encode(text, bos=False)) for text in (FOX, GOAT))
    who, bell = (encode(text, bos=False) for text in ("Who had the drum?", "Who had the bell?"))
    return {
        FIRST: ([*rules, *fox, *goat, *who], b"one"),
        AGAIN: ([*rules, *fox, *goat, *bell], b"one"),
        TURNED: ([*rules, *goat, *fox, *who], b"one"),
        STRANGER: ([*rules, *fox, *goat, *who], b"two"),
    }


def _whole_blocks(tokens: list[int]) -> list[int]:
    return tokens[: len(tokens) // BLOCK_SIZE * BLOCK_SIZE]


def _text(model: Llama, tokens: list[int]) -> str:
    assert model.tokenizer is not None  # _requests has refused a model without one
    return model.tokenizer.decode(tokens)
