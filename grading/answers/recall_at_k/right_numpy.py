"""Right: numpy's unique and isin; a numpy float."""

import numpy as np


def recall_at_k(ranked, relevant, k):
    if not len(ranked) == len(relevant) > 0:
        raise ValueError("queries")
    if k <= 0 or min(len(wanted) for wanted in relevant) == 0:
        raise ValueError("k, or nothing relevant")
    return np.mean(
        [np.isin(np.unique(wanted), found[:k]).mean() for found, wanted in zip(ranked, relevant, strict=True)]
    )
