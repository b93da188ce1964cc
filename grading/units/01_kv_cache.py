# %% [markdown]
# # 01 · The KV cache: what it is, and why it is exact
#
# {{colab badge}}
#
# *About 130 minutes · 4 cards · 4 exercises, 12 points, and one written question, 3 points*
#
# A language model writes one **token** (a piece of text: a word, part of a word, a mark) at a time.
# To write the next one it needs something about every token before it.
# This notebook shows what that something is, why it can be stored, what storing it saves, and what it costs.
#
# When you have worked through it you can
#
# - count the work of generating text with and without a cache, and say which part of it shrinks;
# - build a KV cache, with the shapes and the errors of a real one;
# - explain why the **causal mask** makes the cache exact, and show it with numbers;
# - compute how many bytes a cache takes for any published model, and when it outgrows the weights.
#
# You need: Python and numpy, matrix products, and an idea of what attention does. No GPU, no network.
#
# Everything runs on the **primer**: a small model (2.5 million parameters) that this course trained on text it made itself, simple stories and
# first-reader pages such as *mom washed the frame*. It is small enough for a laptop and real enough that a broken cache shows in its text.

# %%
# {{colab bootstrap}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
import math

import numpy as np
import torch

import kvlab
from kvlab import arithmetic, attention, check, claims, glossary, plots, profiling, quiz, scratch, validate, widgets
from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.generate import decode_step, generate_cached, generate_naive, prefill

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more, and its clocks wobble less
validate.seed(SEED)
model = kvlab.load(MODEL, DEVICE)
exact = kvlab.load(MODEL, "cpu", torch.float64)  # for questions of equality: in float64, ties do not flip by rounding
n_params = sum(p.numel() for p in model.parameters())
short = FAST or (n_params > 20_000_000 and model.device.type == "cpu")  # fewer tokens, so that no cell takes minutes
PROMPT = "Once there was a brave boy named Felix."
print(profiling.describe_device(model.device))
print(
    f"{MODEL}: {n_params:,} parameters, {model.config.n_layers} layers, "
    f"in each of them {model.config.n_heads} query heads and {model.config.n_kv_heads} KV heads (card 2 says what these are)"
)

# %% [markdown]
# ## Card 1 · Why generation without a cache is slow
#
# The model is a function from a sequence of tokens to scores for the next token, one score for each token that it knows. These scores are called **logits**.
# Generating is a loop: call the function, choose a token, append it, call again. Here the choice is always the token with the highest logit, which is called **greedy**.
#
# The **naive loop** hands the *whole* sequence to the model each time. To produce the first token after a prompt of *p* tokens it pushes *p* positions through every layer,
# for the second *p + 1*, for the third *p + 2*. Nearly all of that was computed in the step before.
#
# The **cached loop** does the prompt once, which is called **prefill**. After that each step pushes a single position, the newest token, which is called **decode**.
# What it needs of the earlier positions, their keys and values, it has kept: that is the **KV cache**.

# %%
quiz.predict(
    "A prompt of 1 token, 200 new tokens. The naive loop pushes 20100 positions through the layers. How many does the cached loop push?",
    options=["200", "201", "20100 / 2"],
    answer=lambda: str(arithmetic.positions_processed(1, 200, cached=True)),
    reveal="One for the prompt, and one for each of the first 199 new tokens. The 200th token is chosen and never fed back, so its position is never computed.",
)

# %%
n_new = 40 if short else 120
naive = generate_naive(exact, PROMPT, n_new)
cached = generate_cached(exact, PROMPT, n_new)
prompt_len = len(cached.prompt_ids)

print(PROMPT + cached.text[:160], "...")
print(f"\nprompt {prompt_len} tokens, {n_new} new tokens")
print(
    f"positions pushed through the layers: naive {naive.positions_processed:,}, cached {cached.positions_processed:,}, "
    f"{naive.positions_processed / cached.positions_processed:.1f} times fewer"
)
assert cached.tokens == naive.tokens, "a cache must not change a single token"
assert naive.positions_processed == arithmetic.positions_processed(prompt_len, n_new, cached=False)
assert cached.positions_processed == arithmetic.positions_processed(prompt_len, n_new, cached=True)

# Tokens can agree by luck. The logits behind them, after every step, cannot.
whole = cached.prompt_ids + cached.tokens
expected = exact(torch.tensor(whole))  # one pass over everything, no cache
held = PreallocatedCache(exact.config, len(whole), dtype=exact.dtype)
stepwise = [prefill(exact, cached.prompt_ids, held), *(decode_step(exact, token, held) for token in cached.tokens)]
gap = float((torch.stack(stepwise) - expected[prompt_len - 1 :]).abs().max())
print(f"largest difference between cached and uncached logits, over all steps: {gap:.1e}")
assert gap < 1e-9

# %% [markdown]
# The tokens are the same, all of them, and the logits differ by the rounding of 64-bit numbers. A cache is not an approximation; card 3 shows why.
# (In 16-bit numbers the two loops round differently. Two logits that are nearly equal can then change places, with any cache that is right.)
#
# Now the clock. Three loops make the same tokens: the naive one; one whose cache grows by **concatenation**, so that each step copies all of it; and one with a
# **preallocated** cache that is written in place. Below the clock stands what was counted: **MACs**, multiply–accumulate operations.

# %%
quiz.predict(
    "From 64 to 512 new tokens is 8 times as many. By how much does the time of the cached loop grow, roughly?",
    options=["8 times", "64 times", "512 times"],
    answer="8 times",
    reveal="One position per token, each at nearly the same price. The naive loop grows faster than that, since its steps get longer. "
    "On a small model a step has a fixed price (starting some hundred small operations), so at short lengths the naive loop looks better than its MACs say.",
)

# %%
lengths = [16, 32, 64] if short else [16, 64, 128, 256, 512]
start = model.tokenizer.encode("mom")


def run_naive(n):
    generate_naive(model, start, n, ignore_eos=True)


def run_cached(n, kind):
    generate_cached(model, start, n, cache=kind(model.config) if kind is GrowingCache else None, ignore_eos=True)


curves = {"naive": {}, "concatenating": {}, "preallocated": {}}
for n in lengths:
    loops = {
        "naive": lambda n=n: run_naive(n),
        "concatenating": lambda n=n: run_cached(n, GrowingCache),
        "preallocated": lambda n=n: run_cached(n, PreallocatedCache),
    }
    timed = profiling.interleave(loops, repeats=3 if n < 256 else 1, warmup=int(n == lengths[0]))
    for name, timing in timed.items():
        curves[name][n] = timing.median
    work = {
        name: arithmetic.generation_macs(model, len(start), n, name != "naive")["total"] for name in ("naive", "cached")
    }
    by_clock = timed["naive"].median / timed["preallocated"].median
    print(f"N = {n:3}: " + " · ".join(f"{name} {timing}" for name, timing in timed.items()))
    print(
        f"         MACs: naive {work['naive'] / 1e6:,.0f} million, cached {work['cached'] / 1e6:,.0f} million · "
        f"naive / cached: {by_clock:.1f} by the clock, {work['naive'] / work['cached']:.1f} in MACs"
    )
    assert work["naive"] > 3 * work["cached"]

plots.lines(
    {name: (list(points), list(points.values())) for name, points in curves.items()},
    xlabel="new tokens",
    ylabel="time (s)",
    title="Three loops, the same tokens",
    logx=True,
    logy=True,
)

# %% [markdown]
# *The figure: time against the number of new tokens, both axes logarithmic. The naive curve is the steepest and ends highest; the two cached ones lie close together.
# The two cached curves are as good as equal here: other costs of a step hide the copy. The copied bytes grow with the square of the length and with the batch; card 2 counts them.*
#
# The clock lags behind the MACs: each call has a fixed price, and many positions at once run more efficiently than one.
#
# Two laws stand behind the curves. The work has two parts. The **linear layers** are the matrix products with the model's weights: the **projections**, which make queries, keys and values
# and put the heads together again, and the feed-forward network (**FFN**). **Attention** compares queries with keys and mixes values. Over a whole generation of *n* tokens, with width *d*:
#
# | | linear layers | attention |
# |---|---|---|
# | naive | grows as n² · d² | grows as n³ · d |
# | cached | grows as n · d² | grows as n² · d |
#
# Why n³? In the naive loop call number *m* computes about m²/2 **attention scores** (how well a query matches a key), and 1² + 2² + … + n² is about n³/3.
#
# So the cached loop is not "linear": attention still reads everything that is stored, at every step. And the cache does not save attention only:
# most of what it saves is in the linear layers, which no longer see old positions. The next cell counts both, and puts a GPU of a data centre, NVIDIA's A100, next to it:
# at most 312 · 10¹² operations and 2,039 · 10⁹ bytes read per second. Work divided by these two gives the shortest time that it can take.

# %%
for name, is_cached in (("naive", False), ("cached", True)):
    print(
        f"{name:7} growth exponent of attention {arithmetic.attention_growth_exponent(2000, is_cached):.2f}, "
        f"of the linear layers {arithmetic.linear_growth_exponent(2000, is_cached):.2f}"
    )
saved = arithmetic.saved_macs("llama-3-8b", 1, 1000)
print(
    f"Llama-3 8B, 1000 tokens: {saved['linear_share']:.1%} of the saved MACs are linear layers (projections and FFN), not attention"
)
bound_200, bound_2000 = (arithmetic.cache_speedup_bound("llama-3-8b", "a100-80gb", 1, n) for n in (200, 2000))
print(
    f"naive over cached, ratio of the two lower bounds of the time (A100, arithmetic, not measured): "
    f"{bound_200:.2f} at 200 tokens, {bound_2000:.1f} at 2000"
)
assert saved["linear_share"] > 0.5
assert bound_200 < 1.1 < bound_2000

# %% [markdown]
# Look at the last line. Up to about 150 positions, by these bounds a pass over all of them takes an A100 no longer than a pass over one:
# both wait for the weights to be read. So recomputing a short text costs little extra time. The work is wasted from the start; the time is wasted later.

# %% [markdown]
# ### Exercise: `positions_processed`
#
# *10 minutes · difficulty 1 of 5 · 2 points*
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.
# The docstring names functions that do the whole job: while your answer is checked, calling one of them is an error.


# %% exercise="positions_processed" minutes=10 difficulty=1 closed=["kvlab.arithmetic.positions_processed"]
# exercise: positions_processed
def positions_processed(prompt_len: int, n_new: int, cached: bool) -> int:
    """Token positions pushed through the layers to produce n_new tokens after a prompt.

    prompt_len: tokens in the prompt, at least 1.   n_new: tokens to produce, at least 0.
    cached=False: each new token recomputes the whole sequence so far.
    cached=True: the prompt is computed once, then one position per token; the last token produced is not fed back.
    Returns an int; 0 when n_new is 0. prompt_len below 1 or a negative n_new raises ValueError.
    You may not call here: kvlab.arithmetic.positions_processed.
    """
    ### BEGIN SOLUTION
    if prompt_len < 1 or n_new < 0:
        raise ValueError(f"need prompt_len >= 1 and n_new >= 0, got {prompt_len} and {n_new}")
    if n_new == 0:
        return 0
    if cached:
        return prompt_len + n_new - 1
    return n_new * prompt_len + n_new * (n_new - 1) // 2
    ### END SOLUTION


# %% [markdown] hints="positions_processed"
# 1. Write down, for a prompt of 3 and 4 new tokens, how many positions each call of the model gets. Do it for both loops.
# 2. Naive: the calls get 3, 4, 5 and 6 positions. Cached: 3, 1, 1 and 1.
# 3. The number of calls is the number of new tokens. A loop that adds up is a full answer; a closed form is as good.

# %% check="positions_processed" points=2
with check.exercise("positions_processed") as t:
    t.equal(positions_processed(1, 200, False), sum(range(1, 201)), "the naive calls get 1, 2, ..., 200 positions")
    t.equal(positions_processed(1, 200, True), 200, "the last token is chosen but never fed back")
    t.equal(positions_processed(5, 3, False), 5 + 6 + 7, "the first call gets the prompt alone, without any new token")
    t.equal(positions_processed(5, 1, True), 5, "the first new token comes out of prefill, with no decode step")
    t.equal(positions_processed(5, 3, True), 5 + 1 + 1, "the prompt is computed once, then each call gets one position")
    t.equal(positions_processed(7, 0, False), 0, "nothing to produce: nothing to compute")
    t.equal(positions_processed(7, 0, True), 0, "nothing to produce: nothing to compute, not even the prompt")
    t.raises(ValueError, lambda: positions_processed(0, 3, True), "there must be at least one prompt token")
    t.raises(ValueError, lambda: positions_processed(0, 3, False), "at least one prompt token, without a cache too")
    t.raises(ValueError, lambda: positions_processed(3, -1, False), "a negative number of tokens makes no sense")
    t.raises(ValueError, lambda: positions_processed(3, -1, True), "a negative number of tokens, with a cache too")

# %% [markdown]
# What is said about this elsewhere, next to what we computed. Look at it after your own result.

# %%
claims.show(card=1)

# %% [markdown]
# ## Card 2 · What is in the cache
#
# For each layer the cache holds two tensors, **K** (keys) and **V** (values), each of shape
#
# `(batch, n_kv_heads, length, d_head)`
#
# - *per layer*, since each layer makes its own keys and values;
# - *per KV head*, not per query head. In **grouped-query attention** (GQA) several query heads read one KV head;
# - *length* grows by one with every token that is fed;
# - *d_head* is the **head width**: how many numbers a key or a value of one head has.
#
# K also carries its position: before it is stored, each key is turned by an angle that grows with its position (**RoPE**). The same token elsewhere has another key.
#
# There is no third tensor for the queries. A **query** asks "what do I need?" for the position being computed. It is used in its own step and then dropped; the next step makes its own.
# Keys and values are asked again at every later step.

# %%
quiz.predict(
    f"This model has {model.config.n_heads} query heads and {model.config.n_kv_heads} KV heads. How many heads has K in its cache?",
    options=sorted({model.config.n_kv_heads, model.config.n_heads, model.config.n_heads + 2 * model.config.n_kv_heads}),
    answer=str(model.config.n_kv_heads),
    reveal="As many as there are KV heads. A cache sized by query heads would be larger by the number of query heads that share one.",
)

# %%
ids = model.tokenizer.encode(PROMPT)
cache = PreallocatedCache(model.config, 64, dtype=model.dtype, device=model.device)
logits = prefill(model, ids, cache)
print(f"after prefill of {len(ids)} tokens: K of layer 0 {tuple(cache.view(0)[0].shape)}, {cache.nbytes:,} bytes")
for _ in range(3):
    token = int(logits.argmax())
    logits = decode_step(model, token, cache)
    print(
        f"fed {model.tokenizer.pieces([token])[0]!r:8}: K of layer 0 {tuple(cache.view(0)[0].shape)}, {cache.nbytes:,} bytes"
    )
c = model.config
by_formula = arithmetic.kv_cache_bytes(c.n_layers, c.n_kv_heads, c.d_head, cache.length, bytes_per_value=4)
print(f"by the formula, float32: {by_formula:,} bytes; reserved for 64 positions: {cache.reserved_bytes:,}")
assert cache.nbytes == by_formula
weights = arithmetic.weight_bytes(c, 4)
per_position = arithmetic.kv_bytes_per_token(c, 4)
print(
    f"weights, float32: {weights:,} bytes; one position of cache: {per_position:,}; equal at {weights / per_position:,.0f} positions"
)

# %% [markdown]
# The stepper below shows the cache of the real model. Type your own text, move the step slider with the mouse or the arrow keys, go back: a step back only cuts rows off.
# The first row, `<|bos|>`, is a token that marks the beginning of every text; so a text of four words has five rows.

# %%
widgets.cache_stepper(model, text="mom washed the frame")

# %% [markdown]
# *The figure: K of one KV head as a heat map, one row per position, one column per number of the head. After prefill it has a row for every token of the text,
# each decode step adds one row at the bottom, and no row that is there ever changes.*
#
# **Append by copying, or into reserved room?** A tensor cannot grow. Concatenation builds a new one, a row longer, and copies everything held so far, so over *n* steps it moves 1 + 2 + … + n rows.
# A preallocated cache writes each row once and pays with reserved room. Real servers reserve small pages; that is notebook 03.

# %%
per_token = arithmetic.kv_bytes_per_token("llama-3-8b")
n = 4096
copied = arithmetic.concat_bytes_copied(n, per_token)
print(f"Llama-3 8B, fp16: {per_token:,} bytes per token")
print(
    f"{n} appends write {arithmetic.format_bytes(n * per_token)} in place and {arithmetic.format_bytes(copied)} by concatenation, {copied / (n * per_token):,.0f} times as much"
)

# %% [markdown]
# ### Exercise: `KVCache`
#
# *30 minutes · difficulty 3 of 5 · 4 points*
#
# A preallocated cache for one sequence, in numpy. Only this cell is collected.


# %% exercise="KVCache" minutes=30 difficulty=3 closed=["kvlab.cache.PreallocatedCache", "kvlab.cache.GrowingCache"]
# exercise: KVCache
class KVCache:
    """K and V of one sequence, room for max_len positions in every layer, reserved at once.

    Layers fill up one after the other, so for a moment they have different lengths.
    Every error is a ValueError and leaves the cache as it was.
    A layer that does not exist, negative ones too, raises ValueError in every method that takes one.
    You may not call here: kvlab.cache.PreallocatedCache, kvlab.cache.GrowingCache.
    """

    def __init__(self, n_layers: int, n_kv_heads: int, max_len: int, d_head: int) -> None:
        """Reserve room. The dtype is yours to choose (float32 or float64)."""
        ### BEGIN SOLUTION
        self._k = np.zeros((n_layers, n_kv_heads, max_len, d_head))
        self._v = np.zeros_like(self._k)
        self._lengths = [0] * n_layers
        ### END SOLUTION

    def append(self, layer: int, k: np.ndarray, v: np.ndarray) -> None:
        """Store n new positions of one layer; k and v have shape (n_kv_heads, n, d_head).

        A wrong shape, k and v of different shapes, or too little room raises ValueError.
        """
        ### BEGIN SOLUTION
        if not 0 <= layer < len(self._lengths):
            raise ValueError(f"there is no layer {layer}: layers are 0 to {len(self._lengths) - 1}")
        n_kv_heads, max_len, d_head = self._k.shape[1:]
        k, v = np.asarray(k), np.asarray(v)
        if k.ndim != 3 or k.shape != v.shape or k.shape[::2] != (n_kv_heads, d_head):
            raise ValueError(f"k and v must be ({n_kv_heads}, n, {d_head}), got {k.shape} and {v.shape}")
        first = self._lengths[layer]
        last = first + k.shape[1]
        if last > max_len:
            raise ValueError(f"{first} of {max_len} positions are taken, {k.shape[1]} more do not fit")
        self._k[layer, :, first:last] = k
        self._v[layer, :, first:last] = v
        self._lengths[layer] = last
        ### END SOLUTION

    def view(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        """(k, v) of one layer, the filled part: (n_kv_heads, length, d_head) each, without a copy.

        Views of the same layer share memory, also before and after an append.
        """
        ### BEGIN SOLUTION
        if not 0 <= layer < len(self._lengths):
            raise ValueError(f"there is no layer {layer}: layers are 0 to {len(self._lengths) - 1}")
        filled = self._lengths[layer]
        return self._k[layer, :, :filled], self._v[layer, :, :filled]
        ### END SOLUTION

    def length(self, layer: int) -> int:
        """Positions held by one layer."""
        ### BEGIN SOLUTION
        if not 0 <= layer < len(self._lengths):
            raise ValueError(f"there is no layer {layer}: layers are 0 to {len(self._lengths) - 1}")
        return self._lengths[layer]
        ### END SOLUTION

    def truncate(self, length: int) -> None:
        """Cut every layer to min(its length, length): what comes later is forgotten.

        A negative length, or one larger than the length of every layer, raises ValueError.
        """
        ### BEGIN SOLUTION
        if length < 0 or length > max(self._lengths):
            raise ValueError(f"can keep between 0 and {max(self._lengths)} positions, not {length}")
        self._lengths = [min(held, length) for held in self._lengths]
        ### END SOLUTION


# %% [markdown] hints="KVCache"
# 1. Reserve one array for K and one for V with an axis for the layers, and remember one length per layer. Nothing else is state.
# 2. In `append`, check everything first, the room too, and write only when all of it is fine. Then a failed call cannot leave half a write behind.
# 3. A slice of a numpy array is a view: it shares memory. Fancy indexing and `concatenate` copy. `truncate` only changes lengths.

# %% check="KVCache" points=4
with check.exercise("KVCache") as t:
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=(2, n, 4)) for n in (3, 1, 2)]
    everything = np.concatenate(rows, axis=1)
    kv = KVCache(2, 2, 6, 4)
    t.equal([kv.length(0), kv.length(1)], [0, 0], "a new cache is empty")
    kv.append(0, rows[0], -rows[0])
    t.equal([kv.length(0), kv.length(1)], [3, 0], "each layer has a length of its own")
    first_k, first_v = kv.view(0)
    kv.append(0, rows[1], -rows[1])
    k, v = kv.view(0)
    t.shares_memory(first_k, k, "view must return a slice of the reserved room, not a copy")
    t.shares_memory(first_v, v, "view must return a slice of the reserved room for v too, not a copy")
    t.close(k, everything[:, :4], "view returns the filled part, in the order of the appends")
    t.close(v, -everything[:, :4], "v is stored beside k, not instead of it")
    t.raises(
        ValueError, lambda: kv.append(0, np.ones((2, 3, 4)), np.ones((2, 3, 4))), "4 + 3 positions do not fit into 6"
    )
    t.close(kv.view(0)[0], everything[:, :4], "a failed append must leave the cache as it was")
    kv.append(0, rows[2], -rows[2])
    t.close(kv.view(0)[0], everything, "the last free position can be used")
    t.raises(
        ValueError,
        lambda: kv.append(0, rows[1], rows[1]),
        "the cache is full: numpy broadcasts one row into an empty slice and says nothing, so compare lengths yourself",
    )
    t.equal(kv.length(0), 6, "a failed append must leave the length as it was")
    kv.append(1, rows[0], rows[0])
    kv.truncate(4)
    t.equal([kv.length(0), kv.length(1)], [4, 3], "truncate cuts every layer to min(its length, length)")
    kv.append(0, rows[1] + 9, rows[1])
    t.close(kv.view(0)[0][:, 4:], rows[1] + 9, "after truncate the next append goes where the cut was")
    t.raises(ValueError, lambda: kv.truncate(6), "6 is larger than every layer's length")
    t.raises(ValueError, lambda: kv.truncate(-1), "a negative length is no length")
    t.raises(ValueError, lambda: kv.view(-1), "negative layers are not layers: numpy would take the last one")
    t.raises(ValueError, lambda: kv.length(-1), "negative layers are not layers, for length too")
    t.raises(ValueError, lambda: kv.append(-1, rows[1], rows[1]), "negative layers are not layers, for append too")
    t.raises(ValueError, lambda: kv.append(2, rows[1], rows[1]), "layer 2 of 2 does not exist: they are 0 and 1")
    kv.truncate(0)
    one_head = np.ones((1, 1, 4))
    t.raises(ValueError, lambda: kv.append(0, one_head, one_head), "one head would be broadcast to both")
    t.raises(ValueError, lambda: kv.append(0, rows[1], one_head), "v too: one head would be broadcast to both")
    t.raises(ValueError, lambda: kv.append(0, rows[2], rows[1]), "k and v must have the same shape: v has one row here")
    t.equal(kv.length(0), 0, "a failed append must leave the length as it was")

# %%
claims.show(card=2)

# %% [markdown]
# ## Card 3 · The causal mask is the proof
#
# Why may we keep K and V of a position for good? Not because its token "has already been generated". The reason is the **causal mask**: position *i* may look at positions up to *i*, never beyond.
# So nothing that is computed at position *i*, in any layer, depends on a later token. Append as many tokens as you like; K and V of position *i* stay what they were.
#
# Take the mask away and the argument falls: in layer 0 the key of a token depends on that token alone, but from layer 1 on it depends on everything that the position looked at.

# %%
quiz.predict(
    "We append one token to a sequence, without a causal mask. In which layers do the keys of the earlier positions change?",
    options=["in none", "in all layers", "in all but layer 0"],
    answer="in all but layer 0",
    reveal="Layer 0 makes its keys from the token alone, so they stay. Its output mixes all positions, and layer 1 makes its keys from that.",
)

# %%
toy = scratch.random_decoder(n_layers=4, seed=SEED)  # about a hundred lines of numpy, made to be read: kvlab/scratch.py
sequence = [3, 17, 42, 8, 21, 5]
with_mask = scratch.key_drift(toy, sequence, mask=True)
without_mask = scratch.key_drift(toy, sequence, mask=False)
print("largest change of an earlier key when one token is appended")
for layer, (masked, unmasked) in enumerate(zip(with_mask, without_mask, strict=True)):
    print(f"  layer {layer}: with the mask {masked:.1e}, without it {unmasked:.3f}")
assert max(with_mask) < 1e-12, "only rounding in float64"
assert without_mask[0] < 1e-12 < 0.01 < min(without_mask[1:])

# %% [markdown]
# With the mask, what is left is nothing, or the rounding of float64 (numpy may add in another order when there is one row more). Without it the keys move by a visible amount: a cache would be **stale**.
#
# Two more questions. Does the trained model behave like the toy? And what would a cache do to the *answer* of a model without a mask?

# %%
ids = exact.tokenizer.encode(PROMPT)
shorter, longer = (PreallocatedCache(exact.config, len(ids), dtype=exact.dtype) for _ in range(2))
prefill(exact, ids[:-1], shorter)
prefill(exact, ids, longer)
drift = max(
    float((after[:, :, : len(ids) - 1] - before).abs().max())
    for layer in range(exact.config.n_layers)
    for before, after in zip(shorter.view(layer), longer.view(layer), strict=True)
)
print(
    f"{MODEL}: largest change of an earlier K or V, all {exact.config.n_layers} layers, when one token is appended: {drift:.1e}"
)
assert drift < 1e-9

for masked in (True, False):
    stored = scratch.empty_cache(toy)
    for token in sequence:  # one token at a time, as a cache sees them
        from_cache = scratch.run_layers(toy, [token], stored, masked)[-1]
    recomputed = scratch.forward(toy, sequence, masked)[0][-1]
    off = np.abs(from_cache - recomputed).max()
    print(f"toy {'with' if masked else 'without'} the mask: logits from the cache and recomputed differ by {off:.1e}")
    assert (off < 1e-9) == masked

# %% [markdown]
# So a cache gives a model without a mask other answers than its own. That is why encoders, which read in both directions, are not run with one.
#
# In decode the mask seems to be gone: one query, and every stored key is allowed. It is not gone, it has become a property of the data: *a cache holds only the past*.
# When several new positions arrive at once on a filled cache (a chunk), the mask is back, and its triangle must sit at the **bottom right**.

# %%
print(attention.causal_mask(3, 5).int())
plots.heatmap(
    attention.attention_weights(torch.ones(3, 4), torch.ones(5, 4), attention.causal_mask(3, 5)).numpy(),
    row_labels=["query 2", "query 3", "query 4"],
    col_labels=[f"key {i}" for i in range(5)],
    title="3 new queries, 5 keys",
    xlabel="keys: 2 cached, 3 new",
    ylabel="new positions",
    value_label="attention weight",
)

# %% [markdown]
# *The figure: attention weights of three new queries over five keys, all attention scores equal; the colours start at 0. Query 2 spreads over keys 0 to 2, query 3 over keys 0 to 3, query 4 over all five.
# Had the triangle sat at the top left, query 2 would have seen key 0 only.*

# %% [markdown]
# ### Exercise: `cached_attention`
#
# *25 minutes · difficulty 3 of 5 · 4 points*
#
# Attention of the newest positions over everything that is cached. Only this cell is collected.
# Here every query head has a KV head of its own; notebook 03 lets several share one.


# %% exercise="cached_attention" minutes=25 difficulty=3 closed=["kvlab.attention.cached_attention", "kvlab.attention.causal_attention", "kvlab.attention.attention_weights", "kvlab.attention.grouped_query_attention", "kvlab.attention.stacked_attention", "kvlab.attention.attend", "kvlab.scratch.attention", "torch.nn.functional.scaled_dot_product_attention"]
# exercise: cached_attention
def cached_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention of the last n_q positions over n_k cached ones, the new ones included.

    q: (H, n_q, d), the queries of the LAST n_q of the n_k positions.   k, v: (H, n_k, d).
    Attention scores are scaled by 1/sqrt(d). Query i is position n_k - n_q + i and sees that position and those before it.
    Returns (H, n_q, d), float; the inputs stay as they are. n_q > n_k raises ValueError.
    You may not call here: kvlab.attention.cached_attention, kvlab.attention.causal_attention,
    kvlab.attention.attention_weights, kvlab.attention.grouped_query_attention, kvlab.attention.stacked_attention,
    kvlab.attention.attend, kvlab.scratch.attention, torch.nn.functional.scaled_dot_product_attention.
    """
    ### BEGIN SOLUTION
    n_q, n_k, width = q.shape[1], k.shape[1], q.shape[2]
    if n_q > n_k:
        raise ValueError(f"{n_q} queries cannot be the last of {n_k} positions")
    dots = q @ k.swapaxes(1, 2) / math.sqrt(width)
    visible = np.tril(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q)
    dots = np.where(visible, dots, -np.inf)
    weights = np.exp(dots - dots.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v
    ### END SOLUTION


# %% [markdown] hints="cached_attention"
# 1. Do it first for n_q = 1: every key is visible, so there is no mask at all. Attention scores, softmax over the keys, weighted sum of the values.
# 2. For n_q > 1 write down which keys each query may see when n_q = 2 and n_k = 5. The diagonal is shifted; by how much?
# 3. `np.tril` has an argument for the shift. Put minus infinity where a key is hidden, then subtract the row's largest score before `exp`.


# %% check="cached_attention" points=4
def attention_by_loop(q, k, v):
    """One head, one query, one key at a time."""
    n_heads, n_q, d = q.shape
    n_k = k.shape[1]
    out = np.zeros(q.shape)
    for h in range(n_heads):
        for i in range(n_q):
            last = n_k - n_q + i
            weights = [math.exp(q[h, i] @ k[h, j] / math.sqrt(d)) for j in range(last + 1)]
            for j, weight in enumerate(weights):
                out[h, i] += weight / sum(weights) * v[h, j]
    return out


with check.exercise("cached_attention") as t:
    rng = np.random.default_rng(2)
    q, k, v = rng.normal(size=(3, 6, 8)), rng.normal(size=(3, 6, 8)), rng.normal(size=(3, 6, 8))
    before = q.copy(), k.copy(), v.copy()
    cached_attention(q, k, v)
    t.unchanged(before, (q, k, v), "cached_attention must not change its inputs")
    t.close(
        cached_attention(q[:1, :1], k[:1, :1], v[:1, :1]),
        v[:1, :1],
        "one position alone sees itself: after softmax its only weight is 1, so the result is its value",
    )
    t.close(
        cached_attention(q, k, np.ones((3, 6, 8))),
        np.ones((3, 6, 8)),
        "the weights of each query must add up to 1: mask first (minus infinity, not 0), then softmax over the keys",
    )
    t.close(
        np.asarray(cached_attention(q, k, v))[:, -1],
        attention_by_loop(q, k, v)[:, -1],
        "the last query sees every key, its own too, and dot products are divided by sqrt(d)",
    )
    t.close(
        np.asarray(cached_attention(q[..., :5], k[..., :5], v[..., :5]))[:, -1],
        attention_by_loop(q[..., :5], k[..., :5], v[..., :5])[:, -1],
        "d is the head width of this q, here 5: dot products are divided by its root",
    )
    t.close(
        cached_attention(q, k, v),
        attention_by_loop(q, k, v),
        "no query may see a later key: its score must be minus infinity before softmax (0 is a score like any other)",
    )
    t.close(
        cached_attention(q[:, -2:], k, v),
        attention_by_loop(q[:, -2:], k, v),
        "2 queries on 6 keys: the triangle sits bottom right, shifted by n_k - n_q",
    )
    t.close(
        cached_attention(q[:, -1:], k, v),
        attention_by_loop(q[:, -1:], k, v),
        "one query, the newest position: it sees every key",
    )
    seventeen = np.full((3, 6, 8), 17.0)
    t.close(
        np.asarray(cached_attention(seventeen, seventeen, v))[:, -1],
        v.mean(axis=1),
        "all scores are about 800, and exp of that overflows: subtract the row's maximum first",
    )
    t.close(
        np.asarray(cached_attention(q * 3000, k, v))[:, 0],
        v[:, 0],
        "large scores: mask first, with minus infinity and not a large number; then take the maximum over visible keys",
    )
    t.raises(ValueError, lambda: cached_attention(q, k[:, :4], v[:, :4]), "6 queries are not the last of 4 positions")

# %%
claims.show(card=3)

# %% [markdown]
# ### Four ways to break a cache
#
# What happens when the cache is wrong? Mostly no error. The shapes still fit, and the text often still reads well. Predict first.

# %%
quiz.predict(
    "A decode step forgets to append its K and V, so the cache stays at the prompt. What does greedy text do (each step takes the token with the highest logit)?",
    options=["It raises an error", "It stays as it was", "It goes wrong, and nothing is raised"],
    answer="It goes wrong, and nothing is raised",
    reveal="Each step sees the prompt and its own token, nothing that was written in between. All shapes fit, so nothing is raised.",
)

# %%
from kvlab import faults

right = generate_cached(exact, PROMPT, 30)
print("right                      ", repr(right.text))

# 1. Nothing that is generated gets appended.
with faults.plant("stale_cache"):
    stale = generate_cached(exact, PROMPT, 30)
print("1 nothing appended         ", repr(stale.text))
assert stale.tokens != right.tokens

# 2. A cache that still holds another user's prompt.
question = " What is the secret word? The secret word is"
shared, own = (PreallocatedCache(exact.config, 128, dtype=exact.dtype) for _ in range(2))
prefill(exact, exact.tokenizer.encode("The secret word is tiger. Do not forget it."), shared)
leaked = prefill(exact, exact.tokenizer.encode(question, bos=False), shared)  # no <|bos|>: it is no new text
clean = prefill(exact, exact.tokenizer.encode(question), own)
print(
    "2 another sequence's cache ",
    repr(exact.tokenizer.decode([int(leaked.argmax())])),
    "<- from the other user's prompt",
)
print("  a cache of its own       ", repr(exact.tokenizer.decode([int(clean.argmax())])))
assert float((leaked - clean).abs().max()) > 0.1

# 3. Past the end: the cache is full. It refuses, and stays as it was.
full = PreallocatedCache(exact.config, len(ids), dtype=exact.dtype)
prefill(exact, ids, full)
try:
    decode_step(exact, right.tokens[0], full)
    refused = ""
except ValueError as error:
    refused = str(error)
print("3 past the end             ", refused)
assert refused and full.length == len(ids)

# 4. Queries kept as well: count what they would take, and how often they would be read.
extra = exact.config.n_heads / (2 * exact.config.n_kv_heads)
print(
    f"4 queries cached as well    the text is right, the cache {1 + extra:.1f} times as large; later steps read none of them"
)

# %% [markdown]
# The first gives wrong text. The second gives one user's words to another. The third must be an error, raised before anything is written; a server that expects it
# stops, drops old positions (notebook 03) or makes room elsewhere. The fourth is only waste: row *i* of the attention scores needs query *i* and no earlier one, so a stored query is never read again.
#
# Now break the model yourself. The first fault is chosen for you: every generated token gets the position after its own. Choose another one, predict which check fails and how much of the text changes, then look.

# %%
widgets.break_it(model, prompt=PROMPT, fault="position_off_by_one")

# %% [markdown]
# *The figure: after prefill and after each new token, the largest difference between the logits with and without the fault. It starts with a fault that changes the logits of every decode step, mostly by less than 1 and once by about 4,
# and leaves the text as it was. For `top_left_mask` it is empty: each single step is right, and only a chunk on a filled cache is wrong.*
#
# All of them, side by side. A chunk is several tokens fed at once to a cache that holds something already:

# %%
for fault in widgets.FAULT_CHOICES:
    found = widgets.run_fault(model, fault, PROMPT, 12 if short else 24)
    red = [name for name, passes in found["checks"].items() if not passes]
    text = (
        "text unchanged"
        if found["first_difference"] is None
        else f"text changes at new token {found['first_difference'] + 1}"
    )
    print(f"{fault:24} {text:31} red: {'; '.join(red) or 'none'}")
    print(f"    {'nothing is planted' if fault == 'none' else faults.FAULTS[fault].summary}")
    assert bool(red) == (fault != "none")

# %% [markdown]
# Every planted fault turns at least one check red, and several leave the text exactly as it was. That is the lesson: reading the output does not test a cache. Comparing its logits with those of the uncached loop does, after single steps and after a chunk on a filled cache.

# %% [markdown]
# ## Card 4 · How large it gets
#
# Count the numbers that one more token adds: K and V (2), in every layer, for every KV head, of the head's width. Times the bytes per number, the tokens, the sequences in the batch:
#
# `bytes = 2 × n_layers × n_kv_heads × d_head × seq_len × batch × bytes_per_value`
#
# Sharing KV heads divides the cache by the number of query heads that read one KV head: four for Llama-3.1 8B, eight for Llama-3 70B, which has 64 query heads and 8 KV heads.
# One KV head for all of them is **multi-query attention** (MQA), one for each is **multi-head attention** (MHA).
# A **window** layer keeps only the newest positions; a **latent** cache (MLA) stores one compressed row per layer from which all heads are rebuilt. Notebook 03 builds these.
#
# Two units are in use. **GB** is 10⁹ bytes, **GiB** is 2³⁰ bytes, 7.4 % more. Data sheets and prices say GB; memory tools often mean GiB. This course always says which.

# %%
quiz.predict(
    "Llama-3.1 8B in fp16, one sequence of 131,072 tokens. Which is larger, the cache or the weights?",
    options=["the cache", "the weights"],
    answer=lambda: "the cache" if arithmetic.kv_to_weights("llama-3.1-8b", 131_072) > 1 else "the weights",
    reveal="But only just: 17.18 GB against 16.06 GB. At half the length it is the other way round.",
)

# %%
for seq_len in (4_096, 32_768, 131_072):
    print(
        f"llama-3.1-8b   {seq_len:>7,} tokens: cache {arithmetic.format_bytes(arithmetic.kv_bytes('llama-3.1-8b', seq_len))}"
    )
print(f"llama-3.1-8b   weights, 2 bytes each: {arithmetic.format_bytes(arithmetic.weight_bytes('llama-3.1-8b'))}")
print(f"               cache = weights at {arithmetic.crossover_tokens('llama-3.1-8b'):,.0f} tokens\n")
assert arithmetic.kv_bytes("llama-3.1-8b", 131_072) == 16 * 2**30
print(f"{'model':18}{'how it stores K and V':34}{'bytes per token':>16}{'at 131,072 tokens':>24}")
for name, kind in (
    ("llama-2-7b", "32 KV heads (MHA)"),
    ("llama-3.1-8b", "8 KV heads (GQA)"),
    ("gpt-3-175b", "96 KV heads (MHA)"),
    ("deepseek-v3", "one latent row a layer (MLA)"),
    ("mistral-7b-v0.1", "all layers a window of 4096"),
    ("gemma-3-27b", "5 of 6 layers a window"),
):
    size = arithmetic.kv_bytes(name, 131_072)
    print(
        f"{name:18}{kind:34}{arithmetic.kv_bytes_per_token(name):>16,}{arithmetic.gb(size):>13.1f} GB{arithmetic.gib(size):>6.1f} GiB"
    )
print("(bytes per token: while no window is full. Arithmetic: not every model accepts so long a context)\n")
for kind, n_kv_heads in (("MHA", 32), ("GQA", 8), ("MQA", 1)):
    size = arithmetic.kv_cache_bytes(32, n_kv_heads, 128, 131_072)
    print(f"the 8B shape as {kind}, KV heads {n_kv_heads:2}: {arithmetic.format_bytes(size)}")

# %% [markdown]
# The calculator answers: *does it fit?*

# %%
widgets.kv_calculator("llama-3.1-8b", seq_len=8192, batch=1, bits=16)

# %% [markdown]
# *The figure: two bars, the cache and the weights of the chosen model, in GB. With more tokens or sequences the first bar grows; the second one only follows the model.*

# %% [markdown]
# ### Exercise: `kv_cache_bytes`
#
# *10 minutes · difficulty 1 of 5 · 2 points*


# %% exercise="kv_cache_bytes" minutes=10 difficulty=1 closed=["kvlab.arithmetic.kv_cache_bytes", "kvlab.arithmetic.kv_bytes"]
# exercise: kv_cache_bytes
def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: float = 2
) -> float:
    """Bytes of K and V for `batch` sequences of `seq_len` tokens each.

    bytes_per_value may be fractional: 0.5 stands for 4-bit numbers. The result is not rounded (int or float).
    A negative argument raises ValueError. Zero tokens take zero bytes.
    You may not call here: kvlab.arithmetic.kv_cache_bytes, kvlab.arithmetic.kv_bytes.
    """
    ### BEGIN SOLUTION
    factors = (n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value)
    if min(factors) < 0:
        raise ValueError(f"sizes cannot be negative, got {factors}")
    return 2 * math.prod(factors)
    ### END SOLUTION


# %% [markdown] hints="kv_cache_bytes"
# 1. Start with one token in one layer: how many numbers are stored for it?
# 2. K and V are two tensors of the same size. Everything else is a factor.
# 3. Multiply all six factors and the 2. Do not convert to int: 4-bit values make halves.

# %% check="kv_cache_bytes" points=2
with check.exercise("kv_cache_bytes") as t:
    stored = sum(
        1
        for _layer in range(3)
        for _tensor in "KV"
        for _head in range(2)
        for _token in range(5)
        for _number in range(4)
    )
    t.equal(kv_cache_bytes(3, 2, 4, 5), stored * 2, "both K and V, in every layer and KV head, two bytes each")
    t.equal(kv_cache_bytes(32, 8, 128, 131_072), 16 * 2**30, "Llama-3.1 8B at 131,072 tokens takes 16 GiB in fp16")
    t.equal(
        kv_cache_bytes(32, 8, 128, 4096, batch=3), 3 * 512 * 2**20, "each sequence of the batch has a cache of its own"
    )
    t.equal(kv_cache_bytes(3, 2, 4, 5, bytes_per_value=4), stored * 4, "bytes_per_value is a factor: 4 in float32")
    t.close(kv_cache_bytes(1, 1, 1, 3, 1, 0.25), 1.5, "do not round: bytes_per_value may be fractional")
    t.equal(kv_cache_bytes(4, 4, 4, 0), 0, "no tokens, no bytes")
    t.raises(ValueError, lambda: kv_cache_bytes(4, 4, 4, -1), "a negative length makes no sense")
    t.raises(ValueError, lambda: kv_cache_bytes(-4, -4, 4, 1), "two negatives would multiply to a positive: check each")
    t.raises(ValueError, lambda: kv_cache_bytes(4, 4, -4, 1), "a negative head width makes no sense")
    t.raises(ValueError, lambda: kv_cache_bytes(4, 4, 4, 1, batch=-1), "a negative batch makes no sense")
    t.raises(ValueError, lambda: kv_cache_bytes(4, 4, 4, 1, bytes_per_value=-2), "negative bytes_per_value: no sense")

# %%
claims.show(card=4)

# %% [markdown] manual="which_may_share" points=3
# ### In your own words
#
# **Question.** Two requests reach a server. Both begin with the same 500-token instruction; then they differ. May they share K and V of the first 500 positions? Would that still hold for a model
# whose instruction part is read *without* a causal mask, every instruction token seeing every other one and nothing after it? And when each request puts a three-token date, not always the same one, in front of the instruction? Give the reason each time, in three to six sentences.
#
# ### BEGIN SOLUTION
# Yes: with a causal mask K and V of position i depend on tokens 0 to i only, and those are equal (1 point).
# Also yes: inside the instruction everything sees everything, but nothing in it sees what differs later, so its K and V are still a function of the instruction alone; it could only not be extended token by token (1 point).
# No: every later position sees the date, so where the dates differ, K and V of the instruction differ from layer 1 on (and from requests without a date in K of layer 0 too, which RoPE turns by the position);
# only an equal prefix from position 0 can be shared, that is, between requests of the same date (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("01_kv_cache")

# %%
glossary.show(
    [
        "token",
        "naive loop",
        "cached loop",
        "logits",
        "greedy",
        "prefill",
        "decode",
        "KV cache",
        "preallocated",
        "query",
        "key",
        "value",
        "attention",
        "attention score",
        "causal mask",
        "linear layer",
        "projection",
        "FFN",
        "head width",
        "KV head",
        "MHA",
        "GQA",
        "MQA",
        "MLA",
        "window",
        "RoPE",
        "MAC",
        "GB",
        "GiB",
    ]
)

# %% [markdown]
# ## Recap
#
# - A generation is a loop of one-token steps. Without a cache each step repeats all earlier ones.
# - The cache keeps K and V per layer, KV head and position. Queries are used once and never stored.
# - It is exact because the causal mask makes K and V of a position independent of everything later.
# - It turns n² · d² into n · d² in the linear layers and n³ · d into n² · d in attention. It does not make attention free.
# - It takes `2 × layers × KV heads × head width × tokens × batch × bytes`, and it can outgrow the weights.
# - A broken cache is usually silent. Test it against the uncached loop.
#
# **Where this lives in real engines** (transformers 5.24.0; vLLM at commit 003df29; read on 30 November 2026. llama.cpp: paths on its main branch, function name not checked in its own source)
#
# | part | transformers | vLLM | llama.cpp |
# |---|---|---|---|
# | the cache | `cache_utils.py`: `DynamicCache` (concatenates), `StaticCache` (preallocated) | `v1/core/kv_cache_manager.py`: `KVCacheManager` (hands out pages) | `src/llama-kv-cache.cpp`: `llama_kv_cache` (cells in buffers reserved at the start) |
# | the loop | `generation/utils.py`: `_prefill`, `_sample` | `v1/engine/core.py`: `step` | `src/llama-context.cpp`: `llama_context::decode` |
#
# **Next:** notebook 02 takes the two phases apart: why prefill is limited by arithmetic and decode by memory, and what a scheduler makes of it.
