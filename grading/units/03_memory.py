# %% [markdown]
# # 03 · Memory: shared heads, pages, windows
#
# {{colab badge}}
#
# *About 165 minutes · 3 cards · 5 exercises, 14 points, and one written question, 3 points*
#
# Notebook 01 ended with a number that grows: K and V of every position, in every layer, for every KV head, for every request.
# This notebook shows three ways to make it smaller or to waste less of it. One stores fewer heads, one hands out the memory in pages, one stops looking back.
# Each has a price, and the price is measured here, not only the gain.
#
# When you have worked through it you can
#
# - write attention in which several query heads share one KV head, and say what sharing does to a model that was not trained for it;
# - keep the books of a paged cache: block tables, sharing, copy-on-write;
# - say how much memory pages waste, and how much reserving the longest text wastes;
# - build the mask and the ring of a sliding window, and tell what it forgets from what a mean loss shows of it.
#
# You need: notebook 01, and PyTorch as far as indexing, broadcasting and softmax. No GPU, no network.
# On a GPU the same cells should run there (nobody has tried yet); the models are so small that this would change little.

# %%
# {{colab bootstrap}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
import math
from dataclasses import replace
from itertools import islice

import numpy as np
import torch

import kvlab
from kvlab import (
    arithmetic,
    attention,
    check,
    claims,
    faults,
    glossary,
    plots,
    profiling,
    published,
    quiz,
    validate,
    widgets,
)
from kvlab.cache import PreallocatedCache
from kvlab.engine import BlockManager, Engine, PagedPool, Request, StepClock
from kvlab.engine.runner import Row
from kvlab.engine.runner import run as run_rows
from kvlab.generate import generate_cached
from kvlab.model import Llama
from kvlab.primer import corpus, dataset, measure
from kvlab.ring import RingCache

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more, and its clocks wobble less
validate.seed(SEED)
model = kvlab.load(MODEL, DEVICE)
exact = kvlab.load(MODEL, "cpu", torch.float64)  # for questions of equality: in float64, ties do not flip by rounding
tokenizer = model.tokenizer
print(profiling.describe_device(model.device))
print(
    f"{MODEL}: {model.config.n_layers} layers, in each of them {model.config.n_heads} query heads "
    f"and {model.config.n_kv_heads} KV heads of width {model.config.d_head}"
)

# %% [markdown]
# ## Card 8 · MHA, GQA, MQA: heads that share a cache
#
# In **multi-head attention** (MHA) each query head has a KV head of its own. The cache holds K and V of all of them, and a decode step reads all of them.
# In **grouped-query attention** (GQA) neighbouring query heads read the same KV head: 32 query heads on 8 KV heads are 8 groups of 4. In **multi-query attention** (MQA) all query heads read one.
# The queries stay as many as they were. What shrinks, compared with MHA, is the cache, by the number of query heads in a group, and so do the two projections that fill it.
#
# How does one get such a model? Most are trained that way from the start. A trained MHA model can also be converted
# (Ainslie and others, 2023, arXiv 2305.13245): average the K projections of each group, do the same for V, then go on training for a while, which is called **uptraining**. The averaging is called **head pooling**.
# Below, one small MHA model of this course is pooled: 8 KV heads to 4, 2 and 1.
#
# What that does to the model is measured by its **loss**: minus the natural logarithm of the probability that it gave to the token that came, in **nats**. The mean over a text says how well the model predicts it.
# To guess among 1,536 tokens, all alike, costs ln 1536 = 7.3 nats each.

# %%
quiz.predict(
    "8 KV heads are averaged down to 1, with no training afterwards. What happens to the mean loss on text it has not seen? (Guessing costs 7.3 nats.)",
    options=["It stays nearly as it was", "It rises by about a tenth", "It comes near that of guessing"],
    answer="It comes near that of guessing",
    reveal="The heads learned different things, and their average is none of them. Papers report a small loss of quality after uptraining, or for models trained with shared heads. Right after pooling the model is broken.",
)

# %%
mha = kvlab.load("primer-mha", model.device)


def pool_heads(source, n_kv_heads):
    """The same model with fewer KV heads: K and V projections of each group of heads are averaged."""
    pooled = Llama(replace(source.config, n_kv_heads=n_kv_heads)).to(source.device)
    weights = source.state_dict()
    for name, weight in weights.items():
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            heads = weight.unflatten(0, (n_kv_heads, -1, source.config.d_head))  # (KV heads, group, d_head, d_model)
            weights[name] = heads.mean(1).flatten(0, 1)
    pooled.load_state_dict(weights)
    return pooled


def packed(seed, n_documents, width):
    """Rows of tokens, documents one after the other; another seed gives other documents."""
    texts = islice(corpus.documents(seed), n_documents)
    rows = dataset.pack(dataset.encode(tokenizer, texts), width, 0)
    return torch.from_numpy(rows.astype(np.int64)).to(model.device)


def mean_loss(of, rows, window=None):
    """Mean loss in nats per token; with a window (that is for card 10), each position sees only that many."""
    inputs, targets = rows[:, :-1].clamp(min=0), rows[:, 1:]
    ring = None if window is None else RingCache(of.config, window, len(rows), of.dtype, of.device)
    logits = of(inputs, ring).flatten(0, 1)
    return torch.nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=dataset.IGNORED)


def uptrain(of, rows, steps, batch=8, rate=2e-3):
    """A few steps of AdamW, the learning rate falling to 0."""
    optimizer = torch.optim.AdamW(of.requires_grad_(True).parameters(), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimizer.zero_grad()
        mean_loss(of, rows[step * batch : (step + 1) * batch]).backward()
        optimizer.step()
    return of.requires_grad_(False)


# %%
steps = 3 if FAST else 16
unseen = packed(dataset.HELD_OUT_SEED, 10 if FAST else 40, 257)
train_seed = dataset.HELD_OUT_SEED + 100 + SEED
training = packed(train_seed, 10 * steps + 40, 129)
assert len(training) >= 8 * steps
length = 512
print(
    f"{length} tokens in float32; loss in nats per token on unseen text; uptraining: {steps} steps of 8 x 128 tokens\n"
)
print(f"{'KV heads':>9}{'kind':>6}{'cache':>14}{'loss, pooled':>14}{'after uptraining':>18}{'of the rise undone':>20}")
found, undone, opening = {}, {}, tokenizer.encode("Once there was a brave boy named")
for n_kv_heads in (8, 4, 2, 1):
    pooled = pool_heads(mha, n_kv_heads)
    cache = PreallocatedCache(pooled.config, length, dtype=pooled.dtype, device=pooled.device)
    with torch.no_grad():
        pooled(torch.arange(length, device=pooled.device) % 1000, cache, last_only=True)
        before = float(mean_loss(pooled, unseen))
    says = tokenizer.decode(generate_cached(pooled, opening, 12).tokens)  # before any uptraining
    trained = uptrain(pooled, training, steps) if n_kv_heads < mha.config.n_kv_heads else pooled
    with torch.no_grad():
        after = float(mean_loss(trained, unseen))
    found[n_kv_heads] = cache.nbytes, before, after
    kind = {mha.config.n_heads: "MHA", 1: "MQA"}.get(n_kv_heads, "GQA")
    undone[n_kv_heads] = (before - after) / (before - found[8][1]) if n_kv_heads < 8 else math.nan
    part = f"{undone[n_kv_heads]:.0%}" if n_kv_heads < 8 else ""
    print(f"{n_kv_heads:>9}{kind:>6}{cache.nbytes:>12,} B{before:>14.2f}{after:>18.2f}{part:>20}   pooled: {says!r}")
    assert cache.nbytes == arithmetic.kv_bytes(pooled.config, length, bytes_per_value=4)
print(f"guessing among {mha.config.vocab_size:,} tokens: {math.log(mha.config.vocab_size):.2f}")
assert all(found[n][0] * 8 // n == found[8][0] for n in found), "the cache shrinks by the size of the group, exactly"
with torch.no_grad():
    assert abs(found[8][1] - float(mean_loss(mha, unseen))) < 1e-6, "groups of one: nothing was averaged"
assert all(before > 3 * found[8][1] for n, (_, before, _) in found.items() if n < 8)
assert all(after < before for n, (_, before, after) in found.items() if n < 8)
if SEED == 0 and not FAST:
    assert undone[4] > undone[2] > undone[1], "the fewer KV heads, the longer the way back"

# %% [markdown]
# Read the two loss columns apart. The first is the model right after the averaging, before uptraining: its cache is smaller and its text falls apart (the last column shows how it goes on with "Once there was a brave boy named"). The loss need not even rise evenly from 4 heads to 1.
# The second is after very few steps of uptraining. A good part of the rise is gone again, and the fewer KV heads, the smaller that part after the same number of steps. (The row of 8 was not trained further.)
# The rest of the rise stays: these steps see 16 · 8 · 128 tokens, about 16,000. Ainslie and others trained on for 5 % of the steps of the original training; the average score of their model, T5 XXL, over several tasks was then
# 47.2 for MHA, 47.1 for GQA with 8 KV heads and 46.6 for MQA.
#
# Why do it at all? A decode step reads the whole cache, so fewer bytes are less time, where reading is what takes the time. The next cell times attention alone: one query for each of 32 heads, over a long cache.

# %%
n_heads, width, n_keys = 32, 64, 1024 if FAST else 4096
rng = torch.Generator().manual_seed(SEED)
query = torch.randn(1, n_heads, 1, width, generator=rng).to(model.device)
kept = {}
for n_kv_heads in (32, 8, 1):
    pair = torch.randn(2, 1, n_kv_heads, n_keys, width, generator=rng).to(model.device)
    kept[f"{n_kv_heads} KV head{'s' if n_kv_heads > 1 else ''}"] = pair[0], pair[1]
calls = {name: lambda k=k, v=v: attention.attend(query, k, v) for name, (k, v) in kept.items()}
timed = profiling.interleave(calls, repeats=5, device=model.device)
speed = profiling.read_bandwidth(model.device).best
for name, (k, v) in kept.items():
    size, taken = k.nbytes + v.nbytes, timed[name]
    shown = f"{1e3 * taken.median:7.2f} ms (range {1e3 * taken.best:.2f} to {1e3 * taken.worst:.2f}, n = {taken.n})"
    print(f"{name:12} {size:>12,} bytes {shown:40}   read from main memory: at least {1e3 * size / speed:.2f} ms")
sizes = [k.nbytes for k, _ in kept.values()]
assert sizes[0] == 4 * sizes[1] == 32 * sizes[2]

# %% [markdown]
# The bytes fall exactly by the size of the group. The time falls too, but not by the same factor, and its range can be wide: how close it comes to the limit depends on the program that computes attention, on a CPU above all. The queries stay as many as they were, and so does their arithmetic.
# The limit counts reading from main memory. K and V of few heads may fit into the processor's own small memory, which is faster, so for them it is no bound.

# %% [markdown]
# ### Exercise: `grouped_query_attention`
#
# *25 minutes · difficulty 3 of 5 · 4 points*
#
# Notebook 01 gave every query head a KV head of its own. Here several share one, and there is a batch.
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.
# The docstring names functions that do the whole job: while your answer is checked, calling one of them is an error.


# %% exercise="grouped_query_attention" minutes=25 difficulty=3 closed=["kvlab.attention.grouped_query_attention", "kvlab.attention.stacked_attention", "kvlab.attention.attend", "kvlab.attention.causal_attention", "kvlab.attention.cached_attention", "kvlab.attention.attention_weights", "kvlab.scratch.attention", "torch.nn.functional.scaled_dot_product_attention", "kvlab.attention.sliding_window_attention", "kvlab.engine.pool.paged_chunk_attention"]
# exercise: grouped_query_attention
def grouped_query_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention in which neighbouring query heads share one KV head.

    q: (B, H_q, n_q, d), the queries of the LAST n_q of the n_k positions.   k, v: (B, H_kv, n_k, d).
    Query head h reads KV head h // (H_q / H_kv), its keys and its values. Scores are scaled by 1/sqrt(d).
    Query i is position n_k - n_q + i and sees that position and those before it.
    Returns (B, H_q, n_q, d), float, query heads in the order of q. The inputs stay as they are.
    H_q that is no multiple of H_kv, or n_q > n_k, raises ValueError.
    You may not call here: kvlab.attention.grouped_query_attention, kvlab.attention.stacked_attention,
    kvlab.attention.attend, kvlab.attention.causal_attention, kvlab.attention.cached_attention,
    kvlab.attention.attention_weights, kvlab.scratch.attention, torch.nn.functional.scaled_dot_product_attention,
    kvlab.attention.sliding_window_attention, kvlab.engine.pool.paged_chunk_attention.
    """
    ### BEGIN SOLUTION
    n_heads, n_q, width = q.shape[1:]
    n_kv_heads, n_k = k.shape[1:3]
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads} KV heads evenly")
    if n_q > n_k:
        raise ValueError(f"{n_q} queries cannot be the last of {n_k} positions")
    groups = q.unflatten(1, (n_kv_heads, -1))  # (B, H_kv, H_q / H_kv, n_q, d): no key is copied
    dots = groups @ k.unsqueeze(2).mT / math.sqrt(width)
    later = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
    weights = dots.masked_fill(later, -math.inf).softmax(-1)
    return (weights @ v.unsqueeze(2)).flatten(1, 2)
    ### END SOLUTION


# %% [markdown] hints="grouped_query_attention"
# 1. Write down, for 6 query heads and 2 KV heads, which KV head each query head reads. Heads 0, 1 and 2 share one.
# 2. Two ways lead there: repeat each KV head so that there are as many as query heads (each one several times in a row, not the whole list several times),
#    or give q one more axis, (B, H_kv, H_q / H_kv, n_q, d), and let k and v broadcast over it.
# 3. The rest is causal attention as in notebook 01: divide by the root of d, hide with minus infinity what comes later than position n_k - n_q + i, softmax over the keys, sum the values.


# %% check="grouped_query_attention" points=4
def shared_by_loop(q, k, v):
    """One sequence, one query head, one query, one key at a time."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    out = np.zeros(q.shape)
    n_q, n_k = q.shape[2], k.shape[2]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            kv_head = h * k.shape[1] // q.shape[1]
            for i in range(n_q):
                seen = n_k - n_q + i + 1
                weights = [math.exp(q[b, h, i] @ k[b, kv_head, j] / math.sqrt(q.shape[3])) for j in range(seen)]
                for j, weight in enumerate(weights):
                    out[b, h, i] += weight / sum(weights) * v[b, kv_head, j]
    return out


with check.exercise("grouped_query_attention") as t:
    rng = torch.Generator().manual_seed(1)
    q = torch.randn(2, 6, 5, 8, generator=rng)
    k, v = torch.randn(2, 2, 5, 8, generator=rng), torch.randn(2, 2, 5, 8, generator=rng)
    before = q.clone(), k.clone(), v.clone()
    grouped_query_attention(q, k, v)
    t.unchanged(before, (q, k, v), "grouped_query_attention must not change its inputs")
    t.close(
        grouped_query_attention(q[:1, :2, :1], k[:1, :, :1], v[:1, :, :1]),
        v[:1, :, :1],
        "one position, a KV head for each query head: softmax of one score is 1, so each head gets its own value",
    )
    t.close(
        grouped_query_attention(q[:1, :, :1], k[:1, :, :1], v[:1, :, :1]),
        v[:1, [0, 0, 0, 1, 1, 1], :1],
        "6 query heads, 2 KV heads: heads 0, 1, 2 read KV head 0, heads 3, 4, 5 read KV head 1 (neighbours share)",
    )
    t.close(
        grouped_query_attention(q[:, :2, :1], k[:, :, :1], v[:, :, :1]),
        v[:, :, :1],
        "each sequence of the batch reads its own keys and values",
    )
    t.close(
        grouped_query_attention(q, k, torch.ones(2, 2, 5, 8)),
        np.ones((2, 6, 5, 8)),
        "the weights of each query must add up to 1: mask first (minus infinity, not 0), then softmax over the keys",
    )
    t.close(
        np.asarray(grouped_query_attention(q[:, :2], k, v))[:, :, -1],
        shared_by_loop(q[:, :2], k, v)[:, :, -1],
        "the last query sees every key, its own too, and dot products are divided by sqrt(d)",
    )
    t.close(
        grouped_query_attention(q[:, :2], k, v),
        shared_by_loop(q[:, :2], k, v),
        "no query may see a later key: its score must be minus infinity before softmax (0 is a score like any other)",
    )
    t.close(
        grouped_query_attention(q[:, :2, -3:], k, v),
        shared_by_loop(q[:, :2, -3:], k, v),
        "3 queries on 5 keys: query i is position n_k - n_q + i, so the triangle sits bottom right",
    )
    t.close(
        grouped_query_attention(q, k, v),
        shared_by_loop(q, k, v),
        "the keys of a query head come from the same KV head as its values, and the heads stay in the order of q",
    )
    t.close(
        grouped_query_attention(q[:, :, -1:], k, v),
        shared_by_loop(q[:, :, -1:], k, v),
        "decode: one query for each of the heads, and it sees every key",
    )
    t.close(
        grouped_query_attention(q[:, :3], k[:, :1], v[:, :1]),
        shared_by_loop(q[:, :3], k[:, :1], v[:, :1]),
        "MQA: one KV head, and all query heads read it",
    )
    t.raises(
        ValueError, lambda: grouped_query_attention(q[:, :5], k, v), "5 query heads cannot share 2 KV heads evenly"
    )
    t.raises(ValueError, lambda: grouped_query_attention(q[:, :1], k, v), "1 query head cannot share 2 KV heads")
    t.raises(ValueError, lambda: grouped_query_attention(q, k[:, :, :4], v[:, :, :4]), "5 queries, only 4 positions")

# %%
claims.show(card=8)

# %% [markdown]
# ## Card 9 · Paged cache: blocks, sharing, copy-on-write
#
# A server does not know how long an answer will be. If it reserves the longest possible text for each request, most of the room stays empty.
# A **paged cache** (Kwon and others, 2023, arXiv 2309.06180, PagedAttention) reserves as operating systems do. The memory is cut into **blocks**, also called pages, of a few positions each, 16 for example.
# A request takes a block when it needs one. Its **block table** lists its blocks in the order of its tokens; where they lie in memory does not matter.
#
# Two things follow.
#
# - Only the last block of a request can be partly empty.
# - Requests with the same beginning can share the blocks of it. A count per block says how many use it.
#
# Sharing needs one rule. A full block is never written again, so it can be shared without care. A shared block that is only partly full must not be written by two: who wants to write first gets a copy. This is **copy-on-write**.

# %%
quiz.predict(
    "64 requests, 480 tokens on average, blocks of 16. Which share of the reserved positions is empty? (Reserving 2,048 for each leaves 77 % empty.)",
    options=["about 1.5 %", "about 16 %", "about 50 %"],
    answer="about 1.5 %",
    reveal="On average half of the last block is empty, 7.5 positions, and nothing else: 7.5 of about 488. The waste does not depend on the longest text at all.",
)

# %%
longest, n_requests = 2048, 64
drawn = np.exp(np.random.default_rng(SEED).normal(math.log(350), 0.8, n_requests))
lengths = [int(n) for n in np.clip(drawn.round(), 1, longest)]
print(
    f"{n_requests} requests, log-normal lengths (median 350, spread 0.8, cut at {longest}): "
    f"mean {np.mean(lengths):.0f}, median {np.median(lengths):.0f}, longest {max(lengths)} tokens\n"
)


def reserve_all(block_size):
    """A block manager that holds all requests."""
    manager = BlockManager(n_requests * longest // block_size, block_size)
    for number, n_tokens in enumerate(lengths):
        manager.start(number, [])
        manager.reserve(number, n_tokens)
    return manager


wasted = {}
for block_size in (1, 4, 16, 64, 256, 1024, longest):
    manager = reserve_all(block_size)
    manager.check()  # every block has as many owners as its count says
    wasted[block_size] = 1 - sum(lengths) / (manager.n_used * block_size)
    note = "  <- one block holds the longest text: contiguous memory, as without pages" if block_size == longest else ""
    print(
        f"block of {block_size:>4}: {manager.n_used:>6} blocks in use, {wasted[block_size]:6.1%} of their positions empty{note}"
    )
if SEED == 0:
    assert np.mean(lengths) >= 400 and wasted[16] < 0.04 and wasted[longest] > 0.5
assert wasted[16] == widgets.empty_share(lengths, 16)
assert wasted[1] == 0 and wasted[16] < wasted[longest] == 1 - np.mean(lengths) / longest

plots.lines(
    {"reserved and empty": (list(wasted), [100 * share for share in wasted.values()])},
    xlabel="positions per block",
    ylabel="empty positions (%)",
    title="What a reservation wastes, by block size",
    logx=True,
)

# %% [markdown]
# *The figure: the share of reserved positions that are empty against the block size, from 1 to 2,048. It stays near zero up to blocks of 16 and then rises steeply, to about three quarters for blocks that hold the longest text.*
#
# Why not blocks of 1, then? Each block needs an entry in a table, and reading memory in tiny pieces is slow. The paper measured attention itself as 20 to 26 % slower with pages than without. Paging costs time and pays with room, and room is what batches are made of.
#
# Now the engine of this course serves five requests with the same long beginning, once with its **prefix cache** and once without. A full block is known by what it and all blocks before it hold. The first request comes alone; the others come a step later.

# %%
system = tokenizer.encode("Grandma asked Nick to go to the market. " * 6)
questions = (
    "mom washed the",
    "Rosa had an old goat named",
    "The doctor sang",
    "It began to rain.",
    "Tom opened the",
)


def serve(prefix_caching):
    engine = Engine(exact, n_blocks=80, block_size=16, prefix_caching=prefix_caching, clock=StepClock())
    for number, text in enumerate(questions):
        prompt = system + tokenizer.encode(" " + text, bos=False)
        engine.submit(Request(f"r{number}", prompt, 12, arrival=float(number > 0), ignore_eos=True))
    while not engine.idle:
        engine.step()
    return engine


apart, shared = serve(False), serve(True)
print(f"the common beginning: {len(system)} tokens, {len(system) // 16} full blocks of 16\n")
print(f"{'request':>8}{'prompt':>8}{'positions computed':>20}{'with sharing':>14}{'saved':>7}")
for name, alone in apart.requests.items():
    other = shared.requests[name]
    print(f"{name:>8}{len(alone.prompt):>8}{alone.positions:>20}{other.positions:>14}{other.from_cache:>7}")
    assert other.output == alone.output, "sharing changes no token"
    assert alone.positions - other.positions == other.from_cache
    assert other.from_cache == (0 if name == "r0" else len(system) // 16 * 16), "full blocks only"
for name, engine in (("apart", apart), ("shared", shared)):
    most = max(step.blocks_used for step in engine.log)
    held = arithmetic.format_bytes(most * 16 * engine.pool.bytes_per_position)
    print(
        f"{name:6} at most {most} blocks in use at once, {held}; shared by several: {max(s.blocks_shared for s in engine.log)}"
    )
    engine.blocks.check()
assert max(s.blocks_shared for s in shared.log) == len(system) // 16
assert max(s.blocks_shared for s in apart.log) == 0

# %% [markdown]
# A prompt of 59 tokens and 12 new ones are 59 + 12 − 1 = 70 positions: the last token is never fed. (The model runs in float64 here; in 16 bits the blocks would take a quarter of the bytes.)
#
# Not all of the beginning is saved. The last, partly filled block of it is computed by each request for itself: a prefix cache knows full blocks only.
#
# Copy-on-write shows when one text goes on in several ways, as in **beam search** or when several answers are drawn for one question. Below, one prompt is computed once and forked into three, and each goes on with another token.
#
# - The *block manager* keeps the books. `start` makes a sequence known, `reserve` gives it room for more tokens and says which blocks have to be copied first, `fork` makes a child with its parent's blocks.
# - The *pool* is the memory, K and V of all blocks. `copy_blocks` makes the copies that the manager asked for.
# - `run_rows` runs the model on several `Row`s in one pass. A row has its new tokens, the position of the first of them, and a block table.

# %%
ids = tokenizer.encode("Once there was a shy girl named Vera. Vera had a")
manager, pool = BlockManager(8, 8), PagedPool(exact.layout(), 8, 8)
manager.start("a", ids)
manager.reserve("a", len(ids))
ways = run_rows(exact, pool, [Row(ids, 0, manager.block_table("a"))])[-1].topk(3).indices.tolist()
for child in ("b", "c"):
    manager.fork("a", child)
print(
    f"{len(ids)} tokens, blocks of 8. After two forks: {manager.n_used} blocks in use, {manager.n_shared} of them shared"
)
assert manager.n_used == manager.n_shared == len(manager.block_table("a"))

rows = []
for name, token in zip("abc", ways, strict=True):
    copies = manager.reserve(name, 1)  # room for one more token
    pool.copy_blocks(copies)
    rows.append(Row([token], len(ids), manager.block_table(name)))
    what = (
        f"block {copies[0][0]} is copied to {copies[0][1]}" if copies else "nobody shares the last block now: no copy"
    )
    print(f"{name} goes on with {tokenizer.decode([token])!r:9} {what:42} table {manager.block_table(name)}")
logits = run_rows(exact, pool, rows)
for token, paged in zip(ways, logits, strict=True):
    assert float((paged - exact(torch.tensor([*ids, token]))[-1]).abs().max()) < 1e-9, "as computed alone"
assert manager.n_used == len(manager.block_table("a")) + 2 and manager.n_shared == len(ids) // 8
manager.check()

# %% [markdown]
# Three texts, one prompt in memory. Two copies of one block were made, not three: the last one that still held the block kept it.
# The logits of each equal those of a run of its own. (If the prompt had filled its last block, nothing would have been copied: each would simply have taken a new block.)

# %% [markdown]
# The widget below goes through the life of a small pool in steps 0 to 8, drawn from the books of the block manager itself. A block that nobody uses any more is not emptied at once. It is *kept*, in case the same beginning comes again.
# Follow block 0 of A. It is shared with B. A ends: it is left to B. B ends: it is kept. C begins as A did: it is found again.
# In the last step the empty blocks do not suffice, so blocks that were kept are taken: their content is **evicted**. Choose another block size and see which steps change.

# %%
widgets.paged_pool(step=3, block_size=4)

# %% [markdown]
# *The figure: one row for each sequence, one for kept and one for empty blocks; one column per block of the pool, dark where the row's owner holds it, with the number of filled positions.
# At step 3 A and B share blocks 0 and 1; B's third block, 3, is its copy of A's block 2 with one more token.*

# %%
widgets.page_waste(block_size=16, mean=480)

# %% [markdown]
# *The figure: the empty share against the block size, with a mark at the chosen one. Pull the mean down: short requests make every block size worse, since half a block is then a larger part of the whole.*
#
# ### Break the books
#
# What happens when sharing goes wrong? A parent and its child share a prompt and go on with different words. (Halfway the child ends, and a newcomer takes the blocks that are free then. That matters for the last fault only.) Predict first.

# %%
quiz.predict(
    "Copy-on-write is switched off. The parent writes its next token into the shared, partly filled block; then the child writes its own into the same place. What becomes of the parent's text?",
    options=["It raises an error", "It is unchanged", "Words of the child turn up in it"],
    answer="Words of the child turn up in it",
    reveal="The child's key and value stand where the parent's were, and the parent reads them as its own: the words of another answer to the same prompt. Nothing is raised, and the owner counts look right. (With the last fault below they can be the words of another user.)",
)

# %%
widgets.break_pages(model, fault="shared_block_written")

# %% [markdown]
# *The figure: for each new token, how far the logits of the parent and of the child are from those of a run alone. With this fault the child's stay at zero and the parent's leave it with the second token, by up to about 11.*
#
# All of them, side by side:

# %%
for fault in widgets.PAGE_FAULTS:
    result = widgets.run_pages_fault(exact, fault)
    red = [name for name, passes in result["checks"].items() if not passes]
    print(f"{fault:22} red: {'; '.join(red) or 'none'}")
    print(f"    {'nothing is planted' if fault == 'none' else faults.FAULTS[fault].summary}")
    print(f"    parent: {result['texts']['parent']!r}")
    assert bool(red) == (fault != "none")

# %% [markdown]
# With the last fault the text stays right, and the parent's logits are wrong for the last token only, by 0.25. The count of owners was wrong from the moment at which the block was given back. So test both: logits against a run alone, and after every operation that each block has as many owners as its count says.

# %% [markdown]
# ### Exercise: `BlockAllocator`
#
# *35 minutes · difficulty 4 of 5 · 4 points*
#
# The book-keeping of a paged cache: which blocks belong to whom. It holds no keys and no values. Only this cell is collected.


# %% exercise="BlockAllocator" minutes=35 difficulty=4 closed=["kvlab.engine.BlockManager"]
# exercise: BlockAllocator
class BlockAllocator:
    """Hands out n_blocks blocks, each with room for block_size tokens, to sequences that are known by name (a string).

    A sequence is known from its first token until it is freed. It holds only as many blocks as its tokens need.
    Block ids are distinct ints, 0 to n_blocks - 1; which of the free ones is handed out is yours to choose.
    Several sequences may share a block. It is free again when the last of them lets go.
    An unknown name raises ValueError everywhere but in append. Errors change nothing.
    You may not call here: kvlab.engine.BlockManager.
    """

    def __init__(self, n_blocks: int, block_size: int) -> None:
        """All blocks are free. A negative n_blocks or block_size raises ValueError; nobody asks for a block_size of 0."""
        ### BEGIN SOLUTION
        if n_blocks < 0 or block_size < 0:
            raise ValueError(f"sizes cannot be negative, got {n_blocks} and {block_size}")
        self._block_size = block_size
        self._unused = list(range(n_blocks))
        self._owners = [0] * n_blocks
        self._tables: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}
        ### END SOLUTION

    def append(self, seq: str) -> None:
        """Reserve room for one more token of seq; an unknown name starts a new sequence with one token.

        The token goes into the last block while that has room. If the last block is full, shared or not, a new one is taken.
        If it has room but is shared, it is copied on write: seq gets a free block in its place, the others keep the old one.
        MemoryError when a block is needed and none is free; a new sequence is then still unknown.
        """
        ### BEGIN SOLUTION
        table, held = self._tables.get(seq, []), self._lengths.get(seq, 0)
        has_room = held % self._block_size > 0
        if not has_room or self._owners[table[-1]] > 1:
            if not self._unused:
                raise MemoryError(f"all blocks are taken: no room for token {held} of {seq!r}")
            block = self._unused.pop()
            self._owners[block] = 1
            if has_room:
                self._owners[table[-1]] -= 1
                table[-1] = block
            else:
                table.append(block)
        self._tables[seq], self._lengths[seq] = table, held + 1
        ### END SOLUTION

    def fork(self, parent: str, child: str) -> None:
        """Start child as a copy of parent: the same length, the same blocks, no block taken.

        ValueError when parent is unknown or child exists.
        """
        ### BEGIN SOLUTION
        self._check(parent)
        if child in self._tables:
            raise ValueError(f"there is a sequence {child!r} already")
        self._tables[child], self._lengths[child] = list(self._tables[parent]), self._lengths[parent]
        for block in self._tables[child]:
            self._owners[block] += 1
        ### END SOLUTION

    def free(self, seq: str) -> None:
        """Forget seq. Blocks that no other sequence holds are free again."""
        ### BEGIN SOLUTION
        self._check(seq)
        del self._lengths[seq]
        for block in self._tables.pop(seq):
            self._owners[block] -= 1
            if not self._owners[block]:
                self._unused.append(block)
        ### END SOLUTION

    def block_table(self, seq: str) -> list[int]:
        """The ids of seq's blocks, in the order of its tokens. Nobody changes the list: it may be your own or a copy."""
        ### BEGIN SOLUTION
        self._check(seq)
        return list(self._tables[seq])
        ### END SOLUTION

    def length(self, seq: str) -> int:
        """Tokens of seq."""
        ### BEGIN SOLUTION
        self._check(seq)
        return self._lengths[seq]
        ### END SOLUTION

    @property
    def n_free(self) -> int:
        """How many blocks are free."""
        ### BEGIN SOLUTION
        return len(self._unused)

    def _check(self, seq: str) -> None:
        if seq not in self._tables:
            raise ValueError(f"there is no sequence {seq!r}")
        ### END SOLUTION


# %% [markdown] hints="BlockAllocator"
# 1. Four things are state: the free ids, how many sequences hold each block, and for each name a table of ids and a length. Nothing else.
# 2. In `append` there are three cases, by the last block: it is full (or there is none), it has room and is mine alone, it has room and is shared. Two of them need a free block; ask for it before you change anything.
# 3. A block becomes free when its count reaches 0, never earlier. `free` lowers the counts of a whole table, copy-on-write that of one block, and `fork` raises them all; the child needs a table of its own, not the parent's list.


# %% check="BlockAllocator" points=4
def ids(pool, *names):
    """Block tables as plain lists."""
    return [[int(block) for block in pool.block_table(name)] for name in names]


def grow(pool, name, tokens):
    for _ in range(tokens):
        pool.append(name)


with check.exercise("BlockAllocator") as t:
    pool = BlockAllocator(6, 4)
    t.equal(pool.n_free, 6, "a new pool is all free; n_free is a property: it is read without ()")
    grow(pool, "a", 4)
    t.equal(pool.length("a"), 4, "each append is one more token, the first one too")
    t.equal([len(pool.block_table("a")), pool.n_free], [1, 5], "4 tokens fill one block of 4; no block is taken early")
    grow(pool, "a", 2)
    t.equal([pool.length("a"), len(pool.block_table("a")), pool.n_free], [6, 2, 4], "token 5 needs a second block")
    grow(pool, "b", 3)
    (a, b) = ids(pool, "a", "b")
    t.equal(len({*a, *b}), 3, "sequences that were not forked share no block, and ids are distinct")
    t.true({*a, *b} <= {0, 1, 2, 3, 4, 5}, "the ids of 6 blocks are 0 to 5")
    pool.fork("a", "c")
    t.equal([pool.n_free, pool.length("c")], [3, 6], "fork copies the length and takes no block")
    t.equal(ids(pool, "a", "c"), [a, a], "fork: the child shares all blocks of its parent")
    pool.append("c")
    t.equal(
        pool.n_free,
        2,
        "an append into a shared block that has room takes one free block: the copy of that block, of no other",
    )
    t.equal(ids(pool, "a"), [a], "copy-on-write: the appender gets the copy, the other keeps the block")
    (c,) = ids(pool, "c")
    t.equal(
        [len(c), c[0], c[1] in {*a, *b}], [2, a[0], False], "only the last block is copied; the full one stays shared"
    )
    t.equal([pool.length("a"), pool.length("c")], [6, 7], "after a fork each sequence has a length of its own")
    pool.append("a")
    t.equal([ids(pool, "a"), pool.n_free], [[a], 2], "nobody else holds the last block any more: no second copy")
    pool.free("a")
    t.equal(pool.n_free, 3, "free gives back what was a's alone; the block that c holds too is not free")
    t.equal(ids(pool, "b", "c"), [b, c], "free changes no other sequence")
    pool.free("c")
    t.equal(pool.n_free, 5, "the last owner lets go: the shared block is free again")
    t.raises(ValueError, lambda: pool.block_table("a"), "a freed name is unknown: block_table raises ValueError")
    t.raises(ValueError, lambda: pool.length("a"), "a freed name is unknown: length raises ValueError")
    t.raises(ValueError, lambda: pool.free("a"), "a freed name is unknown: it cannot be freed twice")
    t.raises(ValueError, lambda: pool.fork("a", "d"), "fork from an unknown name raises ValueError")
    t.raises(ValueError, lambda: pool.length("d"), "a failed fork starts no sequence")
    grow(pool, "a", 2)
    t.raises(ValueError, lambda: pool.fork("a", "b"), "fork onto a name that exists raises ValueError")
    t.equal([ids(pool, "b"), pool.length("b")], [[b], 3], "a failed fork leaves the sequence that was there as it was")

    pool = BlockAllocator(3, 2)
    grow(pool, "a", 2)
    pool.fork("a", "c")
    full = ids(pool, "a")[0]
    pool.append("a")
    t.equal(pool.n_free, 1, "the shared block is full: nothing is written into it, so it is not copied; one new block")
    t.equal([ids(pool, "c"), ids(pool, "a")[0][:1]], [[full], full], "a full block stays shared; c's table is its own")
    grow(pool, "c", 1)
    t.equal(pool.n_free, 0, "every block can be used, the last one too")
    tables = ids(pool, "a", "c")
    t.equal(sorted({*tables[0], *tables[1]}), [0, 1, 2], "the ids of 3 blocks are 0, 1 and 2")
    t.raises(MemoryError, lambda: pool.append("x"), "out of blocks: a new sequence raises MemoryError")
    t.raises(ValueError, lambda: pool.length("x"), "a failed append starts no sequence")
    grow(pool, "a", 1)
    t.raises(MemoryError, lambda: pool.append("a"), "the last block is full and none is free: MemoryError")
    t.equal([pool.length("a"), ids(pool, "a", "c")], [4, tables], "a failed append changes nothing")
    pool.fork("c", "d")
    t.raises(MemoryError, lambda: pool.append("d"), "the copy needs a free block too: MemoryError, nothing is written")
    t.equal(
        [ids(pool, "d"), pool.length("d")], [tables[1:], 3], "a failed copy changes nothing: d still shares c's blocks"
    )
    pool.free("c")
    t.equal(pool.n_free, 0, "a failed copy lets go of nothing: d still holds what c held")
    t.raises(ValueError, lambda: BlockAllocator(-1, 4), "a negative number of blocks makes no sense")
    t.raises(ValueError, lambda: BlockAllocator(4, -1), "a negative block size makes no sense")

# %% [markdown]
# ### Exercise: `paged_gather`
#
# *15 minutes · difficulty 2 of 5 · 2 points*
#
# From the pool back to one sequence in order. Only this cell is collected.


# %% exercise="paged_gather" minutes=15 difficulty=2 closed=["kvlab.engine.paged_gather", "kvlab.engine.PagedPool"]
# exercise: paged_gather
def paged_gather(pool: torch.Tensor, block_table: list[int] | torch.Tensor, length: int) -> torch.Tensor:
    """The rows of one sequence, in order, out of a pool of blocks.

    pool: (n_blocks, block_size, H, d).   block_table: ids of the sequence's blocks, a list or a LongTensor.
    Token i lies in block block_table[i // block_size], row i % block_size. Returns (length, H, d); length 0 gives (0, H, d).
    The table may be longer than needed; what stands behind the blocks that length needs is not looked at.
    A table too short for length, a negative length, and a block id that is needed and not in 0 ... n_blocks - 1 raise
    ValueError. The inputs stay as they are; the result may share memory with the pool.
    You may not call here: kvlab.engine.paged_gather, kvlab.engine.PagedPool.
    """
    ### BEGIN SOLUTION
    n_blocks, block_size = pool.shape[:2]
    needed = -(-length // block_size)
    if length < 0 or needed > len(block_table):
        raise ValueError(f"{len(block_table)} blocks of {block_size} cannot hold {length} tokens")
    used = torch.as_tensor(block_table, dtype=torch.long)[:needed]
    if ((used < 0) | (used >= n_blocks)).any():
        raise ValueError(f"block ids are 0 to {n_blocks - 1}, got {used.tolist()}")
    return pool[used].flatten(0, 1)[:length]
    ### END SOLUTION


# %% [markdown] hints="paged_gather"
# 1. Take 7 tokens in blocks of 3 and the table [5, 0, 2]. Write down where each token lies.
# 2. How many blocks does a length need? Divide and round up. Check that number against the table, and the ids against the pool: a negative id would be counted from the end.
# 3. Indexing the pool with a list of ids gives (blocks, block_size, H, d). Merge the first two axes, then cut at length.

# %% check="paged_gather" points=2
with check.exercise("paged_gather") as t:
    rng = torch.Generator().manual_seed(2)
    pool = torch.randn(7, 3, 2, 4, generator=rng)
    before = pool.clone()
    paged_gather(pool, [5, 0, 2], 9)
    t.unchanged(before, pool, "paged_gather must not change the pool")
    t.close(
        paged_gather(pool, [5], 3),
        torch.stack([pool[5, 0], pool[5, 1], pool[5, 2]]),
        "the table says which block: here block 5 of the pool, its rows in order",
    )
    t.close(
        paged_gather(pool, [5, 0, 2], 9),
        torch.stack([pool[block, row] for block in (5, 0, 2) for row in range(3)]),
        "blocks come in the order of the table, whatever their ids, and inside a block the rows in order",
    )
    t.close(
        paged_gather(pool, [5, 0, 2], 7),
        torch.stack([pool[5, 0], pool[5, 1], pool[5, 2], pool[0, 0], pool[0, 1], pool[0, 2], pool[2, 0]]),
        "7 tokens: the last block is only partly filled, and its other rows are not the sequence's",
    )
    t.close(
        paged_gather(pool, [4, 1, 6, 3], 4),
        torch.stack([pool[4, 0], pool[4, 1], pool[4, 2], pool[1, 0]]),
        "the table may be longer than needed: the first blocks count",
    )
    t.close(
        paged_gather(pool, [4, 1, 99, -1], 4),
        torch.stack([pool[4, 0], pool[4, 1], pool[4, 2], pool[1, 0]]),
        "what stands behind the needed blocks is not looked at: 99 and -1 are no blocks, and nobody asks for them",
    )
    t.close(
        paged_gather(pool, torch.tensor([6, 2]), 5),
        torch.stack([pool[6, 0], pool[6, 1], pool[6, 2], pool[2, 0], pool[2, 1]]),
        "the table may be a LongTensor",
    )
    t.close(
        paged_gather(pool[:, :2], [3, 1], 3),
        torch.stack([pool[3, 0], pool[3, 1], pool[1, 0]]),
        "the block size is the pool's, here 2",
    )
    t.equal(np.asarray(paged_gather(pool, [1], 0)).size, 0, "length 0: no rows, shape (0, H, d)")
    t.equal(np.asarray(paged_gather(pool, [], 0)).size, 0, "length 0 needs no block: the table may be empty")
    t.raises(ValueError, lambda: paged_gather(pool, [5, 0], 7), "2 blocks of 3 hold 6 tokens, not 7")
    t.raises(ValueError, lambda: paged_gather(pool, [], 1), "one token needs one block")
    t.raises(ValueError, lambda: paged_gather(pool, [5], -1), "a negative length makes no sense")
    t.raises(
        ValueError, lambda: paged_gather(pool, [5, -1], 6), "a negative id is no block: indexing counts it from the end"
    )
    t.raises(ValueError, lambda: paged_gather(pool, [5, 7], 6), "the ids of 7 blocks are 0 to 6: raise ValueError")

# %%
claims.show(card=9)

# %% [markdown]
# ## Card 10 · Sliding window: what is forgotten
#
# The third way is to stop looking back. With a **window** of *W*, a position sees itself and the *W* − 1 positions before it. (Also called sliding-window attention; Beltagy and others, 2020, Longformer; Mistral 7B v0.1 used it with *W* = 4,096 in all its layers.)
# What no later position may see need not be kept, so the cache is a **ring**: *W* slots, position *p* in slot *p* mod *W*, written over position *p* − *W*. With *W* = 4 position 9 goes into slot 1, over position 5. Its memory is constant.
#
# Is a token outside the window lost? Not at once. With *W* = 4, position 9 of layer 1 has seen positions 6 to 9. Position 12 of layer 2 reads what layer 1 made of positions 9 to 12, so it can know something of position 6. Each layer reaches *W* − 1 positions further, so *L* layers reach *L* · (*W* − 1) positions back at most.
# That is how far information *can* travel. Whether it does is another question. Two measures answer it below: **perplexity**, which is e to the power of the mean loss, and questions about a name.

# %%
quiz.predict(
    "An animal is named in the first sentence, more than 256 tokens back. The window is 256, and perplexity over all tokens rises by less than 1 %. How often does this model still find the name?",
    options=["nearly always", "about half of the time", "nearly never"],
    answer="nearly never",
    reveal="In none of 10 questions, below. Most tokens are predicted from what stands near them, so a mean over all of them hardly notices. The few tokens that need the far past are wrong, and those are the ones a user asked about.",
)

# %%
config, window = exact.config, 4
reach = config.n_layers * (window - 1)
n = reach + 12
first = torch.randint(3, config.vocab_size, (n,), generator=torch.Generator().manual_seed(SEED))
second = first.clone()
second[0] = (int(first[0]) + 1) % config.vocab_size  # another first token, nothing else
with torch.no_grad():
    gap = exact(first, RingCache(config, window, dtype=exact.dtype))
    gap = (gap - exact(second, RingCache(config, window, dtype=exact.dtype))).abs().amax(-1)
print(f"window {window}, {config.n_layers} layers: reach {config.n_layers} x {window - 1} = {reach} positions")
for position in (0, window - 1, window, reach, reach + 1, n - 1):
    print(f"position {position:>2}: largest change of a logit when token 0 is another one: {float(gap[position]):.1e}")
assert float(gap[reach]) > 0 and float(gap[reach + 1 :].max()) == 0, "to the reach, and not one position further"

# %% [markdown]
# The change passes through the layers as far as the reach, weaker and weaker, and ends there exactly. With 32 layers and *W* = 4,096 the reach is 32 · 4,095 = 131,040 positions.
#
# Now memory. The ring grows to *W* positions and stays there, and what it gives is the same as attention over everything with a window mask.

# %%
window, n_steps = 32, 45 if FAST else 150
# any text will do; the question that this one ends with is used further down
text = measure.needles(measure.animal_needle, tokenizer, (256, 384), 1, seed=SEED + 11)[0].ids[:n_steps]
ring, full = (
    RingCache(config, window, dtype=exact.dtype),
    PreallocatedCache(config, n_steps, dtype=exact.dtype),
)
sizes = {"full cache": [], f"ring, W = {window}": []}
steps = []
with torch.no_grad():
    for token in text:
        step = torch.tensor([token])
        exact(step, full)
        steps.append(exact(step, ring)[0])
        for held, cache in zip(sizes.values(), (full, ring), strict=True):
            held.append(cache.nbytes / 1000)
    at_once = exact(
        torch.tensor(text), RingCache(config, window, dtype=exact.dtype)
    )  # all positions in one pass, masked
assert float((torch.stack(steps) - at_once).abs().max()) < 1e-9, "the ring, step by step, equals the mask in one pass"
per_position = arithmetic.kv_bytes_per_token(config, 8)
assert ring.nbytes == window * per_position and full.nbytes == n_steps * per_position
assert sorted(ring.positions()) == list(range(n_steps - window, n_steps))
print(f"after {n_steps} tokens slots 0 to 7 of the ring hold positions {ring.positions()[:8]}")
for name in ("mistral-7b-v0.1", "gemma-3-27b"):
    shape = published.model(name)
    without = replace(shape, layers=tuple(replace(group, kind="full", window=None) for group in shape.layers))
    small, large = (arithmetic.format_bytes(arithmetic.kv_bytes(of, shape.max_len)) for of in (shape, without))
    print(f"{shape.name}, {shape.max_len:,} tokens in 16 bits: {small} with its windows, {large} without (arithmetic)")

every = 4 if FAST else 10  # some points must lie behind the window
plots.lines(
    {name: (list(range(1, n_steps + 1))[::every], held[::every]) for name, held in sizes.items()},
    xlabel="tokens fed",
    ylabel="bytes held (kB, float64)",
    title="A ring stops growing",
)

# %% [markdown]
# *The figure: bytes held against tokens fed. Both lines rise together to 32 tokens; then the ring stays level and the full cache goes on rising.*
#
# And the price. The model was trained with full attention; here it runs with windows of several lengths. On one side the mean loss on unseen text, on the other the share of questions
# *What was the name of the fox? The name of the fox was …* that it answers right, by how many tokens back the name stands.
# There are 10 questions for each number, so one answer is 10 %, and 32 names to choose from: guessing would find 3 %.

# %%
bands = ((32, 64), (64, 128), (128, 192), (256, 384))
asked = {
    band: measure.needles(measure.animal_needle, tokenizer, band, 3 if FAST else 10, seed=SEED + 11) for band in bands
}
texts = packed(dataset.HELD_OUT_SEED, 10 if FAST else 40, 513)
windows = (None, 256, 128) if FAST else (None, 256, 128, 64, 32)


@torch.no_grad()
def recalled(needles, window):
    """Share of the needles whose answer is the most likely next token."""
    right = 0
    for needle in needles:
        ring = None if window is None else RingCache(model.config, window, 1, model.dtype, model.device)
        ids = torch.tensor(needle.ids, device=model.device)
        right += int(model(ids, ring, last_only=True)[-1].argmax()) == needle.answer
    return right / len(needles)


print(f"{'':13}{'perplexity':>12}{'':>9}   recall of the name, by its distance in tokens")
print(f"{'window':>13}{'':>12}{'':>9}   " + "".join(f"{low}-{high}".rjust(10) for low, high in bands))
perplexity, recall = {}, {}
for window in windows:
    with torch.no_grad():
        perplexity[window] = math.exp(float(mean_loss(model, texts, window)))
    recall[window] = {band: recalled(asked[band], window) for band in bands}
    more = f"{perplexity[window] / perplexity[None] - 1:+.1%}"
    shares = "".join(f"{share:.0%}".rjust(10) for share in recall[window].values())
    print(f"{'full' if window is None else window:>13}{perplexity[window]:>12.3f}{more:>9}   {shares}")
if MODEL == "primer":
    assert all(share == 1 for share in recall[None].values()), "with all of the past it always answers right"
    assert recall[256][64, 128] == 1 and recall[256][256, 384] <= 0.25, "inside the window yes, outside no"
    assert perplexity[256] < 1.02 * perplexity[None], "and perplexity hardly shows it"

# %% [markdown]
# With *W* = 256 perplexity rises by less than 1 %, while the answers fall from always right to nearly never once the name has left the window. Shorter windows do the same at their own length.
# A few numbers outside a window are 10 or 30 %. Ten questions cannot tell luck from memory: with 100 other questions, seven such places of the table gave 1 to 6 %.
# The reach of the primer, 8 layers of 255 positions, is far longer than any of these texts. That does not help a model that was never trained to carry facts that way.
# A model trained with windows learns to carry some. Many models mix: most layers with a window, some with all of the past, as Gemma 3 does (five of six layers have a window).

# %%
widgets.window_mask(n_tokens=12, n_new=12, window=4, n_layers=model.config.n_layers)

# %% [markdown]
# *The figure: a band along the diagonal. Each row is a query and has at most four dark cells, its own position and the three before it. Set the slider `New` to 1 and only the last row is left: that is a decode step.*

# %% [markdown]
# ### Exercise: `sliding_window_mask`
#
# *15 minutes · difficulty 2 of 5 · 2 points*
#
# Who may look at whom when each position looks back only so far. Only this cell is collected.


# %% exercise="sliding_window_mask" minutes=15 difficulty=2 closed=["kvlab.attention.sliding_window_mask"]
# exercise: sliding_window_mask
def sliding_window_mask(n_q: int, n_k: int, window: int) -> torch.Tensor:
    """Which keys each query may see, causal and no further back than a window.

    Queries are the LAST n_q of n_k positions, 1 <= n_q: row i is position n_k - n_q + i, column j is position j.
    A position sees itself and the window - 1 positions before it: at most `window` of them, none that is later.
    Returns bool (n_q, n_k), True = may attend. n_q > n_k or window < 1 raises ValueError.
    You may not call here: kvlab.attention.sliding_window_mask.
    """
    ### BEGIN SOLUTION
    if n_q > n_k:
        raise ValueError(f"{n_q} queries cannot be the last of {n_k} positions")
    if window < 1:
        raise ValueError(f"a window holds at least the position itself, got {window}")
    age = torch.arange(n_k - n_q, n_k)[:, None] - torch.arange(n_k)
    return (age >= 0) & (age < window)
    ### END SOLUTION


# %% [markdown] hints="sliding_window_mask"
# 1. Draw it for n_q = n_k = 5 and a window of 3: a band along the diagonal. How many Trues has each row?
# 2. Let age be the position of the query minus that of the key. Which ages are allowed, from which to which?
# 3. The position of row i is n_k - n_q + i. Subtract a row of key positions from a column of query positions: broadcasting makes the table of ages.

# %% check="sliding_window_mask" points=2
with check.exercise("sliding_window_mask") as t:
    t.equal(
        sliding_window_mask(3, 3, 5),
        [[True, False, False], [True, True, False], [True, True, True]],
        "the window is longer than the sequence: what is left is the causal mask, True = may attend",
    )
    t.equal(
        sliding_window_mask(5, 5, 3),
        [[j in (i - 2, i - 1, i) for j in range(5)] for i in range(5)],
        "a window of 3 is the position itself and the 2 before it, in every row",
    )
    t.equal(
        sliding_window_mask(3, 3, 1), np.eye(3, dtype=bool), "a window of 1: each position sees itself, nothing else"
    )
    t.equal(
        sliding_window_mask(2, 5, 9),
        [[True, True, True, True, False], [True, True, True, True, True]],
        "2 queries on 5 keys: row i is position n_k - n_q + i, so the triangle sits bottom right",
    )
    t.equal(
        sliding_window_mask(2, 5, 3),
        [[False, True, True, True, False], [False, False, True, True, True]],
        "2 queries on 5 keys, window 3: both edges of the band are shifted by n_k - n_q",
    )
    t.equal(
        sliding_window_mask(1, 6, 4),
        [[False, False, True, True, True, True]],
        "decode: the newest position sees the last 4 keys, its own included",
    )
    t.raises(ValueError, lambda: sliding_window_mask(4, 3, 2), "4 queries are not the last of 3 positions")
    t.raises(ValueError, lambda: sliding_window_mask(3, 3, 0), "a window of 0 would hide the position from itself")
    t.raises(ValueError, lambda: sliding_window_mask(3, 3, -2), "a negative window makes no sense")

# %% [markdown]
# ### Exercise: `ring_positions`
#
# *15 minutes · difficulty 2 of 5 · 2 points*
#
# A cache for a window needs only as many slots as the window: it is a ring. Only this cell is collected.


# %% exercise="ring_positions" minutes=15 difficulty=2 closed=["kvlab.ring.ring_positions", "kvlab.ring.RingCache"]
# exercise: ring_positions
def ring_positions(length: int, window: int) -> list[int]:
    """What a ring of `window` slots holds after `length` tokens: for each slot the absolute position, -1 when empty.

    Positions are 0, 1, ..., length - 1, stored in this order: position p goes into slot p % window, over what is there.
    Returns `window` ints, slot 0 first. A negative length or a window below 1 raises ValueError.
    You may not call here: kvlab.ring.ring_positions, kvlab.ring.RingCache.
    """
    ### BEGIN SOLUTION
    if length < 0 or window < 1:
        raise ValueError(f"need length >= 0 and window >= 1, got {length} and {window}")
    slots = [-1] * window
    for position in range(length):
        slots[position % window] = position
    return slots
    ### END SOLUTION


# %% [markdown] hints="ring_positions"
# 1. Take a window of 4 and store positions 0, 1, 2 and so on, one at a time. Write down all four slots after each.
# 2. The list is in the order of the slots, not of age: after 6 tokens the newest position stands in slot 1.
# 3. A loop that stores every position is a full answer. A closed form: which is the largest position below length that leaves slot as its remainder?

# %% check="ring_positions" points=2
with check.exercise("ring_positions") as t:
    t.equal(ring_positions(4, 4), [0, 1, 2, 3], "the ring is just full: position p is in slot p, the first one is 0")
    t.equal(ring_positions(0, 3), [-1, -1, -1], "nothing stored: every slot is empty, and that is -1 (0 is a position)")
    t.equal(ring_positions(2, 5), [0, 1, -1, -1, -1], "2 of 5 slots are filled; there is one entry for each slot")
    t.equal(
        ring_positions(5, 4), [4, 1, 2, 3], "position 4 overwrites position 0 in slot 0; the order is that of the slots"
    )
    t.equal(ring_positions(6, 4), [4, 5, 2, 3], "the oldest position is not in slot 0: slot p % window holds p")
    t.equal(
        ring_positions(11, 4), [8, 9, 10, 7], "the ring goes round again and again: the newest 4 positions are held"
    )
    t.equal(ring_positions(12, 4), [8, 9, 10, 11], "three full rounds: slot 0 holds 8, not 12, which is not stored yet")
    t.equal(ring_positions(7, 1), [6], "a ring of one slot holds the newest position")
    t.raises(ValueError, lambda: ring_positions(-1, 4), "a negative length makes no sense")
    t.raises(ValueError, lambda: ring_positions(3, 0), "a ring needs a slot: a window of 0 raises ValueError")
    t.raises(ValueError, lambda: ring_positions(3, -2), "a ring needs a slot: a negative window raises ValueError")
    t.raises(ValueError, lambda: ring_positions(0, 0), "a ring needs a slot, even for nothing")

# %%
claims.show(card=10)

# %% [markdown] manual="which_memory_trick" points=3
# ### In your own words
#
# **Question.** A team serves chats: one system prompt of 1,000 tokens for all, then 50 to 4,000 tokens per chat, and users often ask about what they wrote at the start. GPU memory runs out at 20 chats.
# Someone proposes (a) a sliding window of 1,024 in all layers, switched on in the model they have; (b) averaging its KV heads down to a quarter; (c) a paged cache with sharing, in place of reserving 5,000 positions for each chat.
# Which would you do first, and what does each of the other two cost or need? Three to six sentences, with the reason for each.
#
# ### BEGIN SOLUTION
# First (c): it changes no result, the reservation is mostly empty because most chats are short, and the full blocks of the system prompt are stored once; only the partly filled last blocks stay private (1 point).
# (a) makes the cache constant, but the start of long chats leaves the window, and a model trained with full attention then mostly loses those facts although its mean loss hardly rises; just the questions named here fail, so it needs a model trained for it or layers with full attention (1 point).
# (b) divides the cache by four, but a pooled model is broken until it has been uptrained, and some quality may be lost even then, so it needs training and a test of quality (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("03_memory")

# %%
glossary.show(
    [
        "MHA",
        "GQA",
        "MQA",
        "KV head",
        "head pooling",
        "uptraining",
        "paged cache",
        "block",
        "block table",
        "copy-on-write",
        "prefix cache",
        "beam search",
        "window",
        "ring",
        "loss",
        "nat",
        "perplexity",
    ]
)

# %% [markdown]
# ## Recap
#
# - Shared KV heads divide the cache, compared with MHA, by the number of query heads in a group. The model must be trained, or trained on, with them: pooled heads alone are useless.
# - Pages of 16 positions waste a few per cent; reserving the longest text wastes most of the memory.
# - Full blocks of a common beginning are stored and computed once. A shared block that is partly full is copied by whoever writes to it.
# - A window makes the cache a ring of constant size. Information can still travel *L* · (*W* − 1) positions; a model that was not trained for it does not make use of that.
# - A mean loss hides what a window forgets. Test recall by distance.
#
# **Where this lives in real engines** (transformers 5.24.0; vLLM: `block_pool.py` at commit c59cb79, `single_type_kv_cache_manager.py` at commit 129ab7c; read on 30 November 2026)
#
# | part | transformers | vLLM |
# |---|---|---|
# | shared KV heads | `models/llama/modeling_llama.py`: `repeat_kv` (copies KV heads for the plain kernel) | |
# | blocks, counts, eviction | | `v1/core/block_pool.py`: `BlockPool` (`touch`, `free_blocks`, a queue of free blocks in the order of eviction) |
# | the window | `masking_utils.py`: `sliding_window_overlay`; `cache_utils.py`: `DynamicSlidingWindowLayer` | `v1/core/single_type_kv_cache_manager.py`: `SlidingWindowManager` (gives blocks outside the window back) |
#
# **Next:** notebook 04 takes the shared beginning to the providers: prompt caching, its rules and its bill.
