"""Plant a mistake in a search by vectors: does the list of results show it, and which check notices."""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from kvlab import faults, plots
from kvlab.embeddings.decoder import hidden_states, word_states
from kvlab.embeddings.search import cosine_top_k
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.widgets.base import Controls, Explorer, Result, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "A search by vectors has a mistake: does the list of results show it, and which check fails?"
QUERY = "Mom washed the window."
SHELF = (
    "Grandma cleaned the window.",
    "Dad washed the car because it was dirty.",
    "Tom sat on the bank of the river.",
    "Anna put the coins in the bank.",
    "Felix lost his ball in the park and was sad, but then he found it.",
    "The cat slept.",
)
NONE = "none"
VECTOR_FAULTS = (NONE, "padding_pooled", "dot_for_cosine", "rows_for_hidden_states")
ATOL = 1e-3  # float32 rounding stays far below, a mistake far above

ALONE = "a text has the same vector alone and in a batch"
LENGTH = "longer vectors in the same directions have the same scores"
CONTEXT = "a word has other hidden states in another text"


def run_vector_fault(model: Llama, fault: str, query: str = QUERY) -> dict[str, Any]:
    """Search the shelf by the mean of hidden states, with a planted fault, and run three checks on it.

    fault: one of VECTOR_FAULTS; it ends with the call. Returns fault, ranking [(text, score)] best first, ranking_right
    (without the fault) and checks {name: passed}. An unknown fault or an empty query raises ValueError.
    """
    _known(fault)
    return _compare(model, fault, query, _search(model, query))


def _known(fault: str) -> None:
    if fault not in VECTOR_FAULTS:
        raise ValueError(f"there is no vector fault '{fault}': choose one of {', '.join(VECTOR_FAULTS)}")


def _compare(model: Llama, fault: str, query: str, right: list[tuple[str, float]]) -> dict[str, Any]:
    """What `run_vector_fault` returns, from the search without a mistake."""
    with nullcontext() if fault == NONE else faults.plant(fault):
        found = _search(model, query)
        batch = hidden_states(model, SHELF, pooling="mean")
        alone = torch.cat([hidden_states(model, [text], pooling="mean") for text in SHELF])
        scores, _ = cosine_top_k(batch[0], batch, len(SHELF))
        longer, _ = cosine_top_k(batch[0], 2 * batch, len(SHELF))
        bank = word_states(model, "bank", SHELF[2:4]).states
    largest = float(batch.abs().max())
    checks = {
        ALONE: float((batch - alone).abs().max()) <= ATOL * largest,
        LENGTH: float((scores - longer).abs().max()) <= ATOL,
        CONTEXT: all(float((layer[0] - layer[1]).abs().max()) > ATOL for layer in bank[1:]),
    }
    return {"fault": fault, "ranking": found, "ranking_right": list(right), "checks": checks}


def _search(model: Llama, query: str) -> list[tuple[str, float]]:
    if not query.strip():
        raise ValueError("the query is empty: write at least one word")
    shelf = hidden_states(model, SHELF, pooling="mean")
    scores, places = cosine_top_k(hidden_states(model, [query], pooling="mean")[0], shelf, len(SHELF))
    return [(SHELF[place], score) for place, score in zip(places.tolist(), scores.tolist(), strict=True)]


def vectors_figure(values: dict[str, Any]) -> Figure:
    """The scores of the shelf, best first. Bars carry the first words of their text."""
    bars = {plain(" ".join(text.split()[:2])): score for text, score in values["ranking"]}
    score = "product of the vectors (no unit)" if values["fault"] == "dot_for_cosine" else "cosine (no unit)"
    return plots.bars(bars, "passage, best first", score, f"fault: {values['fault']}")


def vectors_table(values: dict[str, Any]) -> Table:
    name = values["fault"]
    rows = [(f"check: {check}", "✓ passes" if good else "✗ FAILS") for check, good in values["checks"].items()]
    right = [text for text, _ in values["ranking_right"]]
    rows += [(f"result {place}", text) for place, (text, _) in enumerate(values["ranking"], 1)]
    same = [text for text, _ in values["ranking"]] == right
    rows.append(
        (
            "order of the results",
            "that of the right search" if same else f"changed; without the fault the first is: {right[0]}",
        )
    )
    summary = "no mistake planted" if name == NONE else faults.FAULTS[name].summary
    return Table(f"{name}: {summary}", ("what", "result"), tuple(rows), width=56)


def break_vectors(model: Llama, query: str = QUERY, fault: str = NONE) -> Explorer:
    """Choose a mistake, write a query, and see the results and the checks change. `fault` is the one to start with."""
    _known(fault)

    @lru_cache(maxsize=4)
    def right(query: str) -> list[tuple[str, float]]:  # it is the same whatever the fault
        return _search(model, query)

    def compute(fault: str, query: str) -> Result:
        values = _compare(model, fault, query, right(query))
        red = sum(not good for good in values["checks"].values())
        alt = f"Scores of {len(SHELF)} passages; first is: {values['ranking'][0][0]} Checks that fail: {red}."
        return Result(values, vectors_table(values), vectors_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        wide = ipywidgets.Layout(width="90%")
        return {
            "fault": ipywidgets.Dropdown(options=VECTOR_FAULTS, value=fault, description="Fault"),
            "query": ipywidgets.Text(value=query, description="Query", continuous_update=False, layout=wide),
        }

    return Explorer(QUESTION, {"fault": fault, "query": query}, compute, build).show()
