# %% [markdown]
# # 07 · Embeddings: one vector for a text
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/kvlab-course/kvlab/blob/main/notebooks/07_embeddings.ipynb)
#
# *2 cards · 4 exercises, 12 points*

# %%
# On Google Colab this cell fetches the course; anywhere else it does nothing.
import sys

if "google.colab" in sys.modules:
    import pathlib
    import subprocess

    if not pathlib.Path("kvlab-course").exists():
        address = "https://github.com/kvlab-course/kvlab"
        subprocess.run(["git", "clone", "-q", "--depth", "1", address, "kvlab-course"], check=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "-e", "kvlab-course", "jupyterquiz"], check=True
        )
    sys.path.insert(0, "kvlab-course/src")

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
import math

import numpy as np
import torch

from kvlab import check

print(f"numpy {np.__version__}, PyTorch {torch.__version__}")

# %% [markdown]
# ## Card 21 · Token rows and text vectors

# %% [markdown]
# ### Exercise: `mean_pool`
#
# *15 minutes · difficulty 2 of 5 · 3 points*
#
# A model gives a vector for each token; a search needs one for the whole text. The plainest way is the mean, of the real tokens only: texts in a batch have different lengths, and the shorter ones are filled up (**padded**).
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.
# The docstring names what does the whole job: while your answer is checked, calling it is an error.


# %% exercise="mean_pool" minutes=15 difficulty=2 closed=["kvlab.embeddings.pool.mean_pool"]
# exercise: mean_pool
def mean_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One vector for each text of a batch: the mean of the vectors of its real tokens.

    hidden: (B, n, d), float.   mask: (B, n), bool or the numbers 0 and 1: True or 1 = a real token, else padding.
    The padding of a row stands on its left or on its right, in each row of a batch as it likes; there are no holes.
    What stands in hidden at padded places is any finite number and must not matter.
    Returns (B, d). A row of the mask without any token, or a mask that is not (B, n), raises ValueError.
    The inputs stay as they are.
    You may not call here: kvlab.embeddings.pool.mean_pool.
    """
    ### BEGIN SOLUTION
    if mask.shape != hidden.shape[:2]:
        raise ValueError(f"hidden {tuple(hidden.shape)} needs a mask of its first two sizes, got {tuple(mask.shape)}")
    weights = mask.to(hidden.dtype).unsqueeze(2)
    n_tokens = weights.sum(1)
    if not n_tokens.all():
        raise ValueError("a text without any token has no mean")
    return (hidden * weights).sum(1) / n_tokens
    ### END SOLUTION


# %% [markdown] hints="mean_pool"
# 1. Do it for one text on paper: which vectors are added up, and what is the sum divided by? Neither of the two is n.
# 2. Multiplying by 1 and 0 keeps and drops tokens. For that the mask needs one more axis, so that it broadcasts over d.
# 3. Make numbers of the mask first, so that bool and 0/1 work alike. The sum of a row of the mask is its number of tokens: look at it before you divide.


# %% check="mean_pool" points=3
def mean_by_loop(hidden, mask):
    """One text, one token at a time."""
    rows = []
    for vectors, real in zip(hidden.tolist(), mask.tolist(), strict=True):
        kept = [vector for vector, is_token in zip(vectors, real, strict=True) if is_token]
        rows.append([sum(column) / len(kept) for column in zip(*kept, strict=True)])
    return rows


with check.exercise("mean_pool") as t:
    rng = torch.Generator().manual_seed(21)
    hidden = torch.randn(3, 5, 4, generator=rng)
    everything = torch.ones(3, 5, dtype=torch.bool)
    right = torch.tensor([[True, True, False, False, False], [True] * 5, [True, True, True, True, False]])
    left = right.flip(1)
    both = torch.stack([right[0], left[2], left[0]])
    before = hidden.clone(), right.clone()
    mean_pool(hidden, right)
    t.unchanged(before, (hidden, right), "mean_pool must not change its inputs")
    t.close(
        mean_pool(hidden[:, :1], everything[:, :1]), hidden[:, 0], "texts of one token: the mean is that token's vector"
    )
    t.close(
        mean_pool(hidden, everything), mean_by_loop(hidden, everything), "no padding: the mean over the tokens, (B, d)"
    )
    t.close(
        mean_pool(hidden[:1], right[:1]),
        mean_by_loop(hidden[:1], right[:1]),
        "2 of 5 places are tokens: the sum of these two, divided by 2",
    )
    t.close(
        mean_pool(hidden[:1], left[:1]),
        mean_by_loop(hidden[:1], left[:1]),
        "padding on the left: the two tokens are the last two places",
    )
    t.close(mean_pool(hidden, right), mean_by_loop(hidden, right), "each text has a mask and a length of its own")
    t.close(mean_pool(hidden, both), mean_by_loop(hidden, both), "each row may be padded on its own side")
    t.close(
        mean_pool(hidden + 100.0 * (~right).unsqueeze(2), right),
        mean_by_loop(hidden, right),
        "what stands at padded places must not matter, large numbers neither",
    )
    t.close(
        mean_pool(hidden, right.long()), mean_by_loop(hidden, right), "a mask of whole numbers 0 and 1 is a mask too"
    )
    t.close(mean_pool(hidden, left.float()), mean_by_loop(hidden, left), "a mask of floats 0 and 1 is a mask too")
    none = torch.zeros(3, 5, dtype=torch.bool)
    t.raises(ValueError, lambda: mean_pool(hidden, none), "texts without any token have no mean")
    t.raises(
        ValueError,
        lambda: mean_pool(hidden, torch.stack([right[0], none[1], right[2]])),
        "one row without any token is enough: its text has no mean",
    )
    t.raises(ValueError, lambda: mean_pool(hidden, right[:, :4]), "the mask has 4 places, the texts have 5")
    t.raises(ValueError, lambda: mean_pool(hidden, right[:1]), "one row of mask, three texts: each needs its own")
    t.raises(ValueError, lambda: mean_pool(hidden, right[:, :1]), "the mask has 1 place, the texts have 5")

# %% [markdown]
# ### Exercise: `cosine_top_k`
#
# *20 minutes · difficulty 3 of 5 · 3 points*
#
# Search: which vectors point most nearly where the query points? The **cosine** of two vectors is their dot product divided by both lengths: 1 for the same direction, 0 for a right angle, −1 for opposite directions.


# %% exercise="cosine_top_k" minutes=20 difficulty=3 closed=["kvlab.embeddings.search.cosine_top_k"]
# exercise: cosine_top_k
def cosine_top_k(query: torch.Tensor, docs: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k documents whose vectors are nearest to the query by cosine.

    query: (d,).   docs: (N, d), one row for each document, N >= 1.   1 <= k <= N.
    Returns (scores, indices), each (k,), best first: the cosines, and the rows of docs that they belong to.
    A vector of zeros has no direction: its cosine with any other is 0, whether it is a document or the query.
    Documents with equal scores may come in any order.
    k outside of 1 to N, or a query of another width than the documents, raises ValueError. The inputs stay as they are.
    You may not call here: kvlab.embeddings.search.cosine_top_k.
    """
    ### BEGIN SOLUTION
    if query.shape != docs.shape[1:]:
        raise ValueError(f"a query {tuple(query.shape)} cannot be compared with documents {tuple(docs.shape)}")
    if not 1 <= k <= len(docs):
        raise ValueError(f"k must be from 1 to {len(docs)}, got {k}")
    lengths = docs.norm(dim=1) * query.norm()
    dots = docs @ query
    cosines = torch.where(lengths > 0, dots / lengths.clamp(min=1e-30), torch.zeros_like(dots))
    best = cosines.topk(k)
    return best.values, best.indices
    ### END SOLUTION


# %% [markdown] hints="cosine_top_k"
# 1. Before any search: write the cosine of the query with one document. Which two lengths does it divide by, and does leaving out one of them change the order?
# 2. One product of a matrix with a vector gives all N dot products. The lengths of the documents are one number a row.
# 3. A length of 0 must not be divided by: put something harmless in its place, the dot product is 0 anyway. Then sort, largest first, and keep k. Check k yourself: an error of another kind, or a list that is too short, is not a ValueError.


# %% check="cosine_top_k" points=3
def cosines_by_loop(query, docs):
    """One document at a time, by the definition."""
    q = query.tolist()
    return [sum(map(math.prod, zip(q, d, strict=True))) / math.hypot(*q) / math.hypot(*d) for d in docs.tolist()]


with check.exercise("cosine_top_k") as t:
    query = torch.tensor([1.0, 0.0, 0.0])
    # unit vectors with cosines 0.6, 1, 0.28 to the query; one more that points away, with cosine -0.8
    docs = torch.tensor([[0.6, 0.8, 0.0], [1.0, 0.0, 0.0], [0.28, 0.96, 0.0]])
    more = torch.cat([docs[:2], torch.tensor([[-0.8, 0.0, 0.6]]), docs[2:]])
    before = query.clone(), docs.clone()
    cosine_top_k(query, docs, 2)
    t.unchanged(before, (query, docs), "cosine_top_k must not change its inputs")
    t.close(cosine_top_k(query, docs, 2)[0], [1.0, 0.6], "scores come first: the two largest cosines, best first")
    t.equal(
        cosine_top_k(query, docs, 2)[1], [1, 0], "indices come second: the rows of docs, in the order of their scores"
    )
    t.equal(cosine_top_k(query, docs, 1)[1], [1], "k = 1: the best one, still as a list of one")
    t.equal(cosine_top_k(query, docs, 3)[1], [1, 0, 2], "k = N: all rows, best first")
    t.close(
        cosine_top_k(query, more, 4)[0],
        [1.0, 0.6, 0.28, -0.8],
        "the opposite direction comes last, with a negative score",
    )
    t.equal(
        cosine_top_k(query, more, 2)[1],
        [1, 0],
        "the opposite direction is no near one: the order is by the score, with its sign",
    )
    longer = docs * torch.tensor([10.0, 0.1, 3.0])[:, None]
    t.equal(
        cosine_top_k(query, longer, 3)[1], [1, 0, 2], "the length of a document must not matter, only its direction"
    )
    t.close(cosine_top_k(query, longer, 3)[0], [1.0, 0.6, 0.28], "divide by the length of each document")
    t.close(cosine_top_k(4 * query, docs, 3)[0], [1.0, 0.6, 0.28], "divide by the length of the query too")
    wide = torch.randn(9, 6, generator=torch.Generator().manual_seed(23))
    t.close(
        cosine_top_k(wide[0], wide[1:], 5)[0],
        sorted(cosines_by_loop(wide[0], wide[1:]), reverse=True)[:5],
        "any vectors: the dot product, divided by both lengths",
    )
    empty = torch.tensor([[-0.8, 0.6, 0.0], [0.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    t.close(cosine_top_k(query, empty, 3)[0], [0.6, 0.0, -0.8], "a document of zeros scores 0, not nan")
    t.equal(cosine_top_k(query, empty, 2)[1], [2, 1], "a document of zeros comes before those that point away")
    t.close(
        cosine_top_k(0 * query, docs, 3)[0], [0.0, 0.0, 0.0], "a query of zeros scores 0 with every document, not nan"
    )
    t.equal(
        len(set(np.asarray(cosine_top_k(0 * query, docs, 3)[1]).tolist())),
        3,
        "equal scores may come in any order, but each document once",
    )
    t.raises(ValueError, lambda: cosine_top_k(query, docs, 0), "k = 0 asks for nothing")
    t.raises(ValueError, lambda: cosine_top_k(query, docs, -1), "a negative k makes no sense")
    t.raises(ValueError, lambda: cosine_top_k(query, docs, 4), "there are no 4 best of 3")
    t.raises(ValueError, lambda: cosine_top_k(query[:2], docs, 2), "a query of width 2, documents of width 3")
    t.raises(ValueError, lambda: cosine_top_k(query[:1], docs, 2), "a query of width 1, documents of width 3")

# %% [markdown]
# ## Card 22 · Hidden states of a language model as text vectors

# %% [markdown]
# ### Exercise: `last_token_pool`
#
# *15 minutes · difficulty 2 of 5 · 3 points*
#
# In a causal model only the last token has seen the whole text. So its vector is the one to take, wherever the padding stands.


# %% exercise="last_token_pool" minutes=15 difficulty=2 closed=["kvlab.embeddings.pool.last_token_pool"]
# exercise: last_token_pool
def last_token_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One vector for each text of a batch: that of its last real token.

    hidden: (B, n, d), float.   mask: (B, n), bool or the numbers 0 and 1: True or 1 = a real token, else padding.
    The padding of a row stands on its left or on its right, in each row of a batch as it likes; there are no holes.
    Returns (B, d). A row of the mask without any token, or a mask that is not (B, n), raises ValueError.
    The inputs stay as they are.
    You may not call here: kvlab.embeddings.pool.last_token_pool.
    """
    ### BEGIN SOLUTION
    if mask.shape != hidden.shape[:2]:
        raise ValueError(f"a mask {tuple(mask.shape)} does not belong to hidden states {tuple(hidden.shape)}")
    real = mask.bool()
    if not real.any(1).all():
        raise ValueError("each text needs a token")
    places = torch.arange(1, real.shape[1] + 1)
    last = (real * places).argmax(1)  # the largest place that holds a token
    return hidden[torch.arange(len(hidden)), last]
    ### END SOLUTION


# %% [markdown] hints="last_token_pool"
# 1. Write down the masks of a text of 3 tokens in 5 places, padded left and padded right. At which place is the last token in each? Neither the number of tokens nor the end of the row tells it for both.
# 2. Number the places 0, 1, 2 and so on. The last token is the largest number among those where the mask is 1.
# 3. A product of the mask with the numbers 1 to n is largest there. Then pick one place from each row: a row index and a place index together. A row of zeros has no largest place: refuse it before.


# %% check="last_token_pool" points=3
def last_by_loop(hidden, mask):
    """One text at a time, from the end."""
    rows = []
    for vectors, real in zip(hidden.tolist(), mask.tolist(), strict=True):
        place = len(real) - 1
        while not real[place]:
            place -= 1
        rows.append(vectors[place])
    return rows


with check.exercise("last_token_pool") as t:
    rng = torch.Generator().manual_seed(22)
    hidden = torch.randn(3, 5, 4, generator=rng)
    everything = torch.ones(3, 5, dtype=torch.bool)
    right = torch.tensor([[True, True, False, False, False], [True] * 5, [True, True, True, True, False]])
    left = right.flip(1)
    both = torch.stack([right[0], left[2], left[0]])
    before = hidden.clone(), right.clone()
    last_token_pool(hidden, right)
    t.unchanged(before, (hidden, right), "last_token_pool must not change its inputs")
    t.close(
        last_token_pool(hidden, everything),
        hidden[:, 4],
        "no padding: the vector at the last place of each row, (B, d)",
    )
    t.close(
        last_token_pool(hidden[:1], right[:1]),
        hidden[:1, 1],
        "2 tokens, then padding: the last token is at place 1, not at the end of the row",
    )
    t.close(
        last_token_pool(hidden[:1], left[:1]),
        hidden[:1, 4],
        "padding on the left: the last token is at the end of the row, its number of tokens does not tell where",
    )
    t.close(last_token_pool(hidden, right), last_by_loop(hidden, right), "each text has a mask and a length of its own")
    t.close(last_token_pool(hidden, both), last_by_loop(hidden, both), "each row may be padded on its own side")
    t.close(
        last_token_pool(hidden, right.long()),
        last_by_loop(hidden, right),
        "a mask of whole numbers 0 and 1 is a mask too",
    )
    t.close(
        last_token_pool(hidden, right.float()), last_by_loop(hidden, right), "a mask of floats 0 and 1 is a mask too"
    )
    none = torch.zeros(3, 5, dtype=torch.bool)
    t.raises(ValueError, lambda: last_token_pool(hidden, none), "texts without any token have no last one")
    t.raises(
        ValueError,
        lambda: last_token_pool(hidden, torch.stack([right[0], none[1], right[2]])),
        "one row without any token is enough: its text has no last one",
    )
    t.raises(ValueError, lambda: last_token_pool(hidden, right[:, :4]), "the mask has 4 places, the texts have 5")
    t.raises(ValueError, lambda: last_token_pool(hidden, right[:1]), "one row of mask, three texts: each needs its own")

# %% [markdown]
# ### Exercise: `recall_at_k`
#
# *15 minutes · difficulty 2 of 5 · 3 points*
#
# Which vectors find more? For each query somebody has written down which documents answer it (the **relevant** ones). **Recall at k** is the share of them that the first k results hold.


# %% exercise="recall_at_k" minutes=15 difficulty=2 closed=["kvlab.embeddings.search.recall_at_k"]
# exercise: recall_at_k
def recall_at_k(ranked: list[list[int]], relevant: list[list[int]], k: int) -> float:
    """The share of the relevant documents that is among the first k results, averaged over the queries.

    ranked: for each query the ids of what was found, best first; a list may be shorter than k, or empty.
    relevant: for each query the ids of the documents that answer it, in any order.
    For each query: how many different relevant ids stand in the first k, divided by how many different relevant ids there
    are. An id that stands in a list twice counts once. The result is the mean of these shares: each query counts alike.
    ValueError: no queries, lists of unequal lengths, a query with nothing relevant, k < 1. The lists stay as they are.
    You may not call here: kvlab.embeddings.search.recall_at_k.
    """
    ### BEGIN SOLUTION
    if not ranked or len(ranked) != len(relevant):
        raise ValueError(
            f"need as many rankings as lists of relevant ids, and one at least: {len(ranked)}, {len(relevant)}"
        )
    if k < 1:
        raise ValueError(f"the first {k} results hold nothing")
    if not all(relevant):
        raise ValueError("each query needs at least one relevant id")
    shares = [
        len(set(found[:k]) & set(wanted)) / len(set(wanted)) for found, wanted in zip(ranked, relevant, strict=True)
    ]
    return sum(shares) / len(shares)
    ### END SOLUTION


# %% [markdown] hints="recall_at_k"
# 1. One query, relevant ids 4 and 7, found 7, 1, 9, 4, 2. What is recall at 1, at 3, at 5? The denominator is the same each time.
# 2. Cut the ranking to its first k, make sets of both lists, look at what they have in common. Sets also take care of ids that stand there twice.
# 3. A share for each query first, then the mean of the shares; one sum over everything would give queries with many relevant ids more weight. Four kinds of input are refused: check them before you start.

# %% check="recall_at_k" points=3
with check.exercise("recall_at_k") as t:
    ranked = [[7, 1, 9, 4, 2], [3, 8, 5, 6, 1]]
    relevant = [[4, 7], [5, 2, 9, 8]]
    before = [list(ids) for ids in ranked], [list(ids) for ids in relevant]
    recall_at_k(ranked, relevant, 3)
    t.unchanged(before, (ranked, relevant), "the lists stay as they are")
    t.close(
        recall_at_k([[7, 1, 9, 4, 2]], [[9]], 3), 1.0, "the one relevant id is third: the first 3 hold it, so 1 of 1"
    )
    t.close(recall_at_k([[7, 1, 9, 4, 2]], [[9]], 2), 0.0, "the one relevant id is third: the first 2 do not hold it")
    t.close(
        recall_at_k([[7, 1, 9, 4, 2]], [[4, 7]], 3), 0.5, "one of the two relevant ids is among the first 3: a half"
    )
    t.close(
        recall_at_k([[7, 1, 9, 4, 2]], [[4, 7]], 5),
        1.0,
        "both are among the first 5: divide by the number of relevant ids, not by k",
    )
    t.close(
        recall_at_k([[3, 8, 5, 6, 1]], [[5, 2, 9, 8]], 2),
        0.25,
        "4 ids are relevant, so 2 results can't hold more than a half: divide by 4 all the same",
    )
    t.close(recall_at_k([[7, 1], [3, 8]], [[7], [2]], 2), 0.5, "two queries, one found: the mean over the queries")
    t.close(
        recall_at_k(ranked, relevant, 3),
        (1 / 2 + 2 / 4) / 2,
        "1 of 2 and 2 of 4: a share for each query, then their mean",
    )
    t.close(
        recall_at_k(ranked, [[7], [5, 2, 9, 4]], 3),
        (1 + 1 / 4) / 2,
        "each query counts alike, also when one has more relevant ids: the mean of 1 and 1/4, not 2 of 5",
    )
    t.close(recall_at_k([[7, 1], []], [[1, 5], [3]], 10), 0.25, "lists shorter than k, even empty ones, are allowed")
    t.close(recall_at_k([[7, 7, 1, 4]], [[7, 4]], 3), 0.5, "an id that was found twice counts once")
    t.close(recall_at_k([[7, 1, 2, 4]], [[7, 7, 4]], 3), 0.5, "an id that is written down twice counts once")
    t.raises(ValueError, lambda: recall_at_k([], [], 3), "without a query there is no mean")
    t.raises(ValueError, lambda: recall_at_k([[7, 1], [3, 8]], [[7]], 2), "two rankings, one list of relevant ids")
    t.raises(ValueError, lambda: recall_at_k([[7, 1]], [[7], [3]], 2), "one ranking, two lists of relevant ids")
    t.raises(ValueError, lambda: recall_at_k([[7, 1], [3, 8]], [[7], []], 2), "nothing is relevant to the second query")
    t.raises(ValueError, lambda: recall_at_k([[7, 1]], [[7]], 0), "the first 0 results hold nothing")
    t.raises(
        ValueError, lambda: recall_at_k([[7, 1]], [[7]], -1), "a negative k makes no sense: slices count from the end"
    )
