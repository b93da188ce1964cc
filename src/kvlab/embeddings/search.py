"""Search by cosine, and how much of what is relevant a search finds."""

from collections.abc import Hashable, Sequence

import torch

from kvlab.validate import whole


def cosines(query: torch.Tensor, docs: torch.Tensor) -> torch.Tensor:
    """The cosine of a query (d,) with each document: (N, d) -> (N,). With a zero vector it counts as 0."""
    if query.dim() != 1 or docs.dim() != 2 or query.shape[0] != docs.shape[1]:
        raise ValueError(
            f"a query must be (d,) and documents (N, d) with the same d, "
            f"got {tuple(query.shape)} and {tuple(docs.shape)}"
        )
    if not (bool(torch.isfinite(query).all()) and bool(torch.isfinite(docs).all())):
        raise ValueError("a vector holds values that are no finite numbers, so it has no direction")
    double = torch.float64 in (query.dtype, docs.dtype)
    kind = torch.float64 if double else torch.float32  # half precision is too coarse for a sum of squares
    return unit(docs.to(kind)) @ unit(query.to(kind))


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors along the last axis, scaled to length 1; zero vectors stay zero.

    They are first divided by their largest value, so that no square is too small or too large for a float.
    """
    largest = vectors.abs().amax(-1, keepdim=True)
    scaled = vectors / torch.where(largest > 0, largest, torch.ones_like(largest))
    length = scaled.norm(dim=-1, keepdim=True)
    return scaled / torch.where(length > 0, length, torch.ones_like(length))


def cosine_top_k(query: torch.Tensor, docs: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k documents of the highest cosine: scores and indices, best first.

    query (d,), docs (N, d), 1 <= k <= N. A zero vector scores 0. Among equal scores the first document comes first.
    """
    k = whole("k", k, least=1)
    scores = cosines(query, docs)
    if k > len(scores):
        raise ValueError(f"k must be at most the number of documents, {len(scores)}, got {k}")
    indices = torch.argsort(scores, descending=True, stable=True)[:k]
    return scores[indices], indices


def recall_at_k(ranked: Sequence[Sequence[Hashable]], relevant: Sequence[Sequence[Hashable]], k: int) -> float:
    """The share of the relevant ids that stand among the first k, averaged over the queries.

    `ranked` and `relevant` hold a list of ids for each query. An id counts once, however often it is listed.
    Raises ValueError for no queries, lists of unequal length, a query with nothing relevant, and k below 1.
    """
    k = whole("k", k, least=1)
    if len(ranked) != len(relevant):
        raise ValueError(f"there are {len(ranked)} rankings, but relevant ids for {len(relevant)} queries")
    if len(ranked) == 0:
        raise ValueError("recall needs at least one query")
    total = 0.0
    for i, (ids, wanted) in enumerate(zip(ranked, relevant, strict=True)):
        if len(wanted) == 0:
            raise ValueError(f"query {i} has nothing relevant, so its recall is not defined")
        total += len(set(ids[:k]) & set(wanted)) / len(set(wanted))
    return total / len(ranked)
