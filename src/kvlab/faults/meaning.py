"""Embeddings and search."""

from typing import Any

from kvlab.faults.plant import Fault


def _padding_pooled(right: Any) -> Any:
    return lambda hidden, mask: right(hidden, (mask == mask))


def _dot_for_cosine(right: Any) -> Any:
    return lambda vectors: vectors


def _rows_for_hidden_states(right: Any) -> Any:
    def every_layer(model: Any, ids: Any) -> Any:
        for _ in right(model, ids):
            yield model.model.embed_tokens(ids)

    return every_layer


FAULTS = (
    Fault(
        "padding_pooled",
        "a text's mean counts the padding behind it too",
        "kvlab.embeddings.pool:mean_pool",
        _padding_pooled,
    ),
    Fault(
        "dot_for_cosine",
        "search by the product of vectors whose lengths differ",
        "kvlab.embeddings.search:unit",
        _dot_for_cosine,
    ),
    Fault(
        "rows_for_hidden_states",
        "at every layer a token is its row of the table, as if no text stood around it",
        "kvlab.embeddings.decoder:every_layer",
        _rows_for_hidden_states,
    ),
)
