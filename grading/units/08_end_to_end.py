# %% [markdown]
# # 08 · One call from end to end
#
# {{colab badge}}
#
# *About 230 minutes, of which 135 are for the exercises · 2 cards · 7 exercises, 14 points, and one written question, 3 points*
#
# The notebooks before this one took a language model apart: its cache, its memory, its sampling, its vectors. This one puts the parts together twice.
# First as tensors: one call, from the bytes of a text to its first two new tokens, with every array in between, written out step by step and compared with the model.
# Then as seconds and bytes: what such a call costs at least, for a model and a GPU of your choice, and which published figures are possible at all.
#
# When you have worked through it you can
#
# - say what each stage of a call computes, from what, and what shape it has in the primer and in Llama-3 8B;
# - write a block of a Llama with its cache: norm, rotary positions, shared heads, SwiGLU, two sums;
# - turn a stream of tokens back into text without broken characters;
# - predict the time to the first token, the time per token and the number of requests that fit, and tell an impossible figure from a slow server.
#
# You need: notebook 01; notebooks 02, 03 and 05 help. No GPU, no network.
# Tokenizers of other models are shown from a record where they are not installed. `kvlab models add smollm2` brings a larger model; then the trace runs on it too.

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
from kvlab import (
    arithmetic,
    check,
    claims,
    glossary,
    measured,
    models,
    plots,
    profiling,
    published,
    quiz,
    real_tokenizers,
    sampling,
    trace,
    validate,
    widgets,
)
from kvlab.cache import PreallocatedCache
from kvlab.generate import decode_step, prefill
from kvlab.sampling import measures
from kvlab.streaming import TextStream
from kvlab.trace.call import rotated

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more, and its clocks wobble less
torch.manual_seed(validate.seed(SEED))
model = kvlab.load(MODEL, DEVICE)
tokenizer = model.tokenizer
print(profiling.describe_device(model.device))
print(
    f"{MODEL}: {model.config.n_layers} blocks, vectors of {model.config.d_model} numbers; PyTorch {torch.__version__}"
)

# %% [markdown]
# ## Card 23 · From a text to its next token
#
# A model computes with numbers, so a text takes a long way. One call, in order:
#
# 1. The text becomes **bytes** (UTF-8: one for an English letter, two for a Russian one, four for most emoji).
# 2. The **tokenizer** joins bytes to **tokens**. Each has a number, its id.
# 3. Each id picks a **row** of the model's table (notebook 07). These rows are the start of the **residual stream**: the vector of each position that every block reads and adds to.
# 4. Every **layer**, also called a block, does two things. It lets positions look at earlier ones (**attention**), and it works on each position alone (**SwiGLU**, a feed-forward network). Before each of them a copy of the stream is brought to one size (**RMSNorm**); after each of them the result is added to the stream.
# 5. A last norm, and the **output head** gives a **logit** to every token of the vocabulary.
# 6. Sampling (notebook 05) chooses one. Its row is the input of the next pass, a **decode** step, which reads keys and values of all earlier positions from the cache.
#
# We begin at step 2.

# %%
ENGLISH, RUSSIAN = real_tokenizers.PAIRS[1]
quiz.predict(
    f"'{RUSSIAN}' is Russian for '{ENGLISH}' and has {len(RUSSIAN)} characters. In Llama 3's tokenizer the English sentence is 8 tokens. How many is the Russian one?",
    options=["8", "12", "23", "55"],
    answer=lambda: str(len(real_tokenizers.split("llama-3", RUSSIAN).ids)),
    reveal="One more with the begin token that the model gets. A guide counts 7. SmolLM2 has 23, and 55 would be one for each byte. The tokenizer was made from a collection of texts with far more English in it, so English words got tokens of their own.",
)

# %%
print(f"{'':22}{'tokens':>17}{'per character':>20}   the Russian sentence, token by token")
print(f"{'':22}{'English':>9}{'Russian':>8}{'English':>11}{'Russian':>9}")
names = [name for name in real_tokenizers.KNOWN if not (FAST and name == "tekken")]  # its package takes seconds to load
russian = {}
for name, (english, cut) in zip(names, real_tokenizers.side_by_side([ENGLISH, RUSSIAN], names), strict=True):
    title = real_tokenizers.KNOWN[name].title
    shown = "single bytes, nearly all of them" if name == "primer" else "|".join(cut.labels)
    counts = (
        f"{len(english.ids):>9}{len(cut.ids):>8}{english.tokens_per_character:>11.2f}{cut.tokens_per_character:>9.2f}"
    )
    print(f"{title:22}{counts}   {shown}")
    russian[title] = len(cut.ids) / len(english.ids)
    assert b"".join(cut.pieces).decode() == RUSSIAN, "the bytes of the tokens, joined, are the text"
    assert len(cut.ids) > len(english.ids)
assert len(real_tokenizers.split("llama-3", RUSSIAN).ids) == 12

plots.bars(russian, "tokenizer", "Russian / English tokens", "The same sentence, two languages")

# %% [markdown]
# *The figure: tokens of the Russian sentence divided by tokens of the English one, one bar for each tokenizer. o200k is lowest with 1.25, Llama 3, DeepSeek and Tekken have 1.5, cl100k 1.75, SmolLM2 nearly 3, the primer more than 5.*
#
# More tokens mean more passes, more cache and a larger bill for the same sentence. Which language pays depends on what the tokenizer was made from: the primer has seen English only, so a Russian letter falls apart into its two bytes. `<D0>` in the table is such a byte, written as a hexadecimal number.
#
# Nothing is ever unknown to these tokenizers, because every byte is a token. Here a few texts as bytes and as tokens, then the seven ids that the guide gives for the Russian sentence.

# %%
for text in ("Продолжи", *real_tokenizers.SIGNS):
    cut = real_tokenizers.split("llama-3", text)
    spelled = " ".join(f"{character} U+{ord(character):04X}" for character in text)
    print(
        f"{len(text)} characters, {len(text.encode())} bytes, {len(cut.ids)} tokens of Llama 3: {'|'.join(cut.labels)}"
    )
    print(f"    {spelled if len(text) < 8 and text.isprintable() else ', '.join(f'U+{ord(c):04X}' for c in text)}")
    assert b"".join(cut.pieces) == text.encode()
accents = [real_tokenizers.split("llama-3", text) for text in real_tokenizers.SIGNS[1:]]
assert accents[0].ids != accents[1].ids, "two ways to write the same word, two lists of tokens"

print("\nids of the guide for this sentence, and what they are in Llama 3")
ids = (3643, 70878, 50078, 86392, 42341, 261, 100342)
known = [real_tokenizers.piece("llama-3", token) for token in ids]
for token, data in zip(ids, known, strict=True):
    print(f"{token:<8}  {data.decode('utf-8', 'replace')!r}")
real = real_tokenizers.split("llama-3", RUSSIAN)
print(f"\nthe sentence itself: {list(real.ids)}")
assert b"".join(known) != RUSSIAN.encode() and not set(ids) & set(real.ids)
assert all(real_tokenizers.split(name, RUSSIAN).ids != ids for name in names)

# %% [markdown]
# The seven numbers are ids of Llama 3, but of *swer*, *SetName* and *Italic*, and no tokenizer of the table gives them for this sentence. Nor is the last word one token: *раму* is ` рам` and `у`. So every shape that the guide builds on "7 tokens" is right in its form and wrong in its first number.
#
# The two lines with *café* look alike on the screen. One has *é* as one character, the other *e* and an accent that goes on the letter before. They are different bytes, so different tokens, and a cache that looks for a common beginning finds none past *ca*.
#
# ### Every tensor of a call
#
# `kvlab.trace` writes the whole call out in plain steps, from the weights, without any module of the model. It keeps every tensor. Letters: *n* positions of this pass, *m* positions held after it, *D* the width, *H* query heads, *G* KV heads, *d* numbers per head, *F* the width of SwiGLU, *V* the vocabulary.
# In the formulas *x* is the residual stream, *h* what the norm before made of it, *g* the weights of that norm, *E* the table of token rows, and *q₁*, *q₂* are the two halves of a query (*k₁*, *k₂* of a key). In the decode step the one id is the token that was just drawn.
#
# SwiGLU computes two lists of *F* numbers from each row. *up* holds features; *gate* decides for each of them how much passes. It goes through *silu(a)* = *a* · sigmoid(*a*), which is nearly *a* for large numbers and nearly 0 for very negative ones; then the two are multiplied.

# %%
SETTINGS = sampling.SamplingSettings(temperature=0.7, top_p=0.9, seed=SEED)
call = trace.trace_call(model, "mom washed the", SETTINGS)
print(f"ids {list(call.ids)}: {tokenizer.pieces(call.ids)}")
print(f"the two new tokens: {tokenizer.pieces(call.tokens)}")
assert call.stage("rows").shape == (len(call.ids), model.config.d_model)
assert call.stage("keys held", 0, "decode").shape[1] == len(call.ids) + 1, (
    "the decode step adds one position to the cache"
)
call.table(layer=0)

# %% [markdown]
# That the steps are plain proves nothing: they could be plainly wrong. So the same call goes through the real model, with its modules, its cache and its fused attention (one call that never stores the scores). Hooks, functions that PyTorch calls whenever a part has run, catch what each part gets and gives, and every tensor is compared.

# %%
found = trace.check(call, model)
print(
    f"{len(found.differences)} tensors, largest difference {found.largest:.1e}, as a share of the tensor {found.relative:.1e}"
)
assert found.ok

wide = kvlab.load(MODEL, "cpu", dtype=torch.float64)
exact = trace.check(trace.trace_call(wide, "mom washed the", SETTINGS), wide)
print(f"the same in float64: largest difference {exact.largest:.1e}")
assert exact.ok and exact.largest < 1e-10

if not FAST and models.is_here("smollm2"):
    larger = kvlab.load("smollm2", "cpu")
    other = trace.trace_call(larger, "mom washed the frame", SETTINGS)
    compared = trace.check(other, larger)
    assert compared.ok
    print(f"SmolLM2, {len(compared.differences)} tensors: as a share {compared.relative:.1e}; it goes on with", end=" ")
    print(larger.tokenizer.pieces(other.tokens))
    del larger, other, compared
found.table()

# %% [markdown]
# Why two columns of differences? In float32 the residual stream holds numbers of several hundred, and there two neighbouring numbers are already 3 · 10⁻⁵ apart. So the limit of 3 · 10⁻⁵ (3e-05 in the table) is for the difference as a share of the tensor's largest number. In float64 the difference itself is below 10⁻¹⁰: the steps are the same, only the rounding differs.
#
# Now walk through it. The widget opens at the attention weights of block 0; go back to step 0 and follow the call from there. Block, head and text are yours to choose.

# %%
widgets.trace_stepper(model, "mom washed the", step=14)

# %% [markdown]
# *The figure: the tensor of the chosen step. A matrix is a heat map with one row for each position; logits and probabilities are bars of the ten likeliest tokens; a masked score stays blank; in *weights* the same pairs hold 0 and look like any small number.*
#
# Places to stop at: *scores*, where the upper triangle is blank; *weights*, where the first row has a single 1; *residual 2* of the last block beside *rows*, to see how large the numbers have grown; *keys held* in the decode step, which has one row more than before.
#
# ### One head, in words
#
# Every text on transformers has its own words for what a head does. Here they are on the last position of one head of the trace, with the numbers beside them.

# %%
d, HEAD = model.config.d_head, 0
scores, shares, values = (call.stage(name, 0).tensor for name in ("scores", "weights", "values held"))
row, last = shares[HEAD, -1], scores[HEAD, -1]
pieces = tokenizer.pieces(call.ids)
print("attention map, last row:", ", ".join(f"{p!r} {float(w):.3f}" for p, w in zip(pieces, row, strict=True)))
blend = row @ values[0]
assert abs(float(row.sum()) - 1) < 1e-5 and torch.allclose(blend, call.stage("mix", 0).tensor[-1, :d], atol=1e-4)

a, b = torch.randn(2, 20_000, d, generator=torch.Generator().manual_seed(SEED))
dots = (a * b).sum(-1)
print(f"random queries and keys of {d} numbers: variance of their dot products {float(dots.var()):.1f}", end=", ")
print(f"divided by the root of {d}: {float((dots / math.sqrt(d)).var()):.2f}")
assert abs(float(dots.var()) / d - 1) < 0.1

print("the same scores times 1, 10, 1,000: largest weight, and how fast it grows with its score")
slopes = []
for factor in (1, 10, 1000):
    weight = float(torch.softmax(last.double() * factor, -1).max())
    slopes.append(weight * (1 - weight))
    print(f"  x {factor:<5}largest weight {weight:.6f}, slope {slopes[-1]:.1e}")
assert slopes[-1] < 1e-3, "saturated: the slope is gone"

# %% [markdown]
# - The *score matrix* holds the dot product of each query with each key. The *scale*, 1/√*d*, divides by the root of the *key axis*, the number of entries in a key: without it the *variance* of the scores would grow with that number.
# - *Negative infinity* stands where the mask forbids, so softmax gives exactly 0. The result is the *attention map*; each row is a *soft alignment*: several positions take part, each with a share.
# - When one score is far above the others, softmax is *saturating*: the row becomes *one-hot*, a *hard pointer* to one position. Its slope is then nearly 0, so training, which follows the *gradient* (one slope for each parameter), learns little there. That is what the scale is for.
# - The *weighted sum* of the values is the head's result. The *output projection* mixes all heads back into the width of the stream. A layer whose heads mostly fetch something from earlier in the text is sometimes called a *retrieval layer*.
# - RoPE is this model's *positional encoding*. Older models added numbers for the position to the token rows. RMSNorm is its *layer norm*; the older form also subtracts the mean of the *vector*.
#
# ### The same call in a large model

# %%
tiny, large = trace.shapes_of("primer", 4), trace.shapes_of("llama-3-8b", 4)
widest = {n: max(trace.shapes_of("llama-3-8b", n), key=lambda s: math.prod(s.shape)).name for n in (4, 1024)}
quiz.predict(
    "Llama-3 8B reads a prompt of 4 tokens; the head runs for the last position only. Which tensor that the pass computes holds the most numbers?",
    options=["scores, of all heads", "gate, the inner width of SwiGLU", "logits"],
    answer=lambda: next(
        o for o in ("scores, of all heads", "gate, the inner width of SwiGLU", "logits") if o.startswith(widest[4])
    ),
    reveal=f"128,256 logits stand against 4 x 14,336 numbers in gate and 32 x 4 x 4 scores. With 1,024 tokens it is {widest[1024]}: 32 x 1,024 x 1,024. Scores grow with the square of the length, the logits of one position do not grow. (With logits for every position, as many libraries give them by default, logits would win there too: 1,024 x 128,256.)",
)

# %%
assert widest == {4: "logits", 1024: "scores"}
assert [stage.axes for stage in tiny] == [stage.axes for stage in large], "the same stages on the same axes"
inner = next(stage for stage in large if stage.name == "gate")
print(f"one block of Llama-3 8B: gate reads {arithmetic.format_bytes(inner.weight_bytes)} for any length")
weights = sum(stage.weight_bytes * stage.times for stage in large)
print(f"weights that a pass reads: {arithmetic.format_bytes(weights)}, for 4 tokens as for 4,000")
trace.shapes_table(["primer", "llama-3-8b"], 4)

# %% [markdown]
# Axis by axis the two are the same: a large model is the small one with larger numbers for the letters. Nothing in the table is new in Llama-3 8B, and the trace that was checked on the primer is the path that its tensors take too.
#
# ### What the mask and RoPE do to scores
#
# One query and one key, put at positions 9 and 4, then at 60 and 55, then at 60 and 4: RoPE turns each by its own position.

# %%
generator = torch.Generator().manual_seed(SEED)
query, key = torch.randn(2, 1, 1, model.config.d_head, generator=generator, dtype=torch.float64)


def turned_to(x: torch.Tensor, position: int) -> torch.Tensor:
    half = x.shape[-1] // 2
    angles = torch.tensor(
        [[position * model.config.rope_theta ** (-i / half) for i in range(half)]], dtype=torch.float64
    )
    return rotated(x, angles.cos(), angles.sin())


dots = {(m, n): float((turned_to(query, m) * turned_to(key, n)).sum()) for m, n in ((9, 4), (60, 55), (60, 4))}
for (m, n), dot in dots.items():
    print(f"query at {m:2}, key at {n:2}, distance {m - n:2}: query · key = {dot:.6f}")
assert math.isclose(dots[9, 4], dots[60, 55], rel_tol=1e-9) and not math.isclose(dots[9, 4], dots[60, 4], rel_tol=1e-3)

scores = call.stage("scores", 0).tensor
n = len(call.ids)
print(f"scores of block 0: {int(torch.isfinite(scores[0]).sum())} of {n * n} pairs are left by the mask")
assert int(torch.isfinite(scores[0]).sum()) == n * (n + 1) // 2

# %% [markdown]
# The score depends on what is in query and key; of the two positions only the distance counts. That is why a key may be turned once, when it goes into the cache, and never again.
#
# ### From logits to a token
#
# The guide ends its example with five logits, a temperature of 0.7 and probabilities. Divide, take the softmax, and compare.

# %%
LOGITS, PRINTED = [9.21, 7.84, 6.91, 5.43, 4.12], [0.71, 0.12, 0.05, 0.02, 0.01]
probs = [measures.token_probability(LOGITS, token, 0.7) for token in range(5)]
print("logit   / 0.7   softmax of the five   with the first at 0.71   printed")
for logit, prob, said in zip(LOGITS, probs, PRINTED, strict=True):
    print(f"{logit:5.2f}  {logit / 0.7:6.2f}   {prob:19.4f}   {0.71 * prob / probs[0]:22.4f}   {said:7.2f}")
kept = measures.tokens_in_nucleus(probs, 0.9)
print(f"top-p 0.9 keeps {kept}: {probs[0]:.3f} alone is below 0.9, and the token that crosses p belongs to the set")
assert kept == 2 and abs(probs[1] / probs[0] - PRINTED[1] / PRINTED[0]) > 0.02

# %% [markdown]
# The division is right. The probabilities are not: whatever the rest of the vocabulary takes, the ratio of two tokens is fixed by their logits, and 0.12 / 0.71 is not that ratio. A rule that stops *before* the sum passes 0.9 would keep one token here; notebook 05 has the exercise.
#
# ### Break it
#
# The guide multiplies the last block's output with the head. The norm between them is missing.

# %%
quiz.predict(
    "Leave out the last norm and always take the likeliest token. What happens to the text that the model writes?",
    options=[
        "Nothing: a norm changes the size, and the largest logit stays the largest",
        "It becomes noise",
        "It goes another way, and still reads like a text",
    ],
    answer="It goes another way, and still reads like a text",
    reveal="RMSNorm is more than a size: it multiplies every column with a weight of its own, so it turns the vector too. The order of the logits changes, a little. Here, with one small model and one prompt, the text stays fluent, and nothing but a comparison shows the mistake. With a temperature it would matter more: without the division the logits are so far apart that one token takes everything.",
)

# %%
widgets.break_trace(model, fault="final_norm_left_out")

# %% [markdown]
# *The figure: for each stage the largest difference between trace and model over all blocks and both passes, as a share of the stage, on a logarithmic axis, with the limit of 3 · 10⁻⁵ as a line. A ring marks the stage that is apart first in the order of the call; the table names it with its block. Stages to the left of the ring lie above the line when later blocks, or the decode step, are wrong there. A difference of exactly 0 is drawn at 10⁻⁹, where the axis ends; a tensor of another shape, which cannot be compared, at 10³.*
#
# The mistakes: `final_norm_left_out` leaves out the norm before the head; `residual_left_out` replaces the input of one block by what attention brings instead of adding to it; `position_off_by_one` gives each new token, while decoding, the position after its own; `rope_neighbours` turns neighbouring numbers as a pair, not the two halves; `stale_cache` does not append K and V of a decode step.
# This run takes the likeliest token, so it has no top-p stage, and two tensors fewer are compared than above (top-p once for each of the two tokens).
#
# All of them, one after the other:

# %%
print(f"{'planted in the model':22}{'tensors apart':>14}   {'first apart':32} text equal?")
for fault in widgets.TRACE_FAULTS:
    seen = widgets.run_trace_fault(model, fault, n_new=12 if FAST else 30)
    first = seen["first_wrong"] or "none"
    equal = seen["text_right"] == seen["text_wrong"]
    print(f"{fault:22}{seen['n_wrong']:>7} of {seen['n_stages']}   {first:32} {'yes' if equal else 'no'}")
    print(f"{'':22}{seen['text_wrong'][:60]!r}")
    no_such_block = fault == "residual_left_out" and model.config.n_layers == 1  # it is planted in the second block
    assert (fault == "none" or no_such_block) == (seen["first_wrong"] is None)

# %% [markdown]
# The first stage that is apart names the place of the mistake; all later ones follow from it. Look at `position_off_by_one`: nearly half of the tensors are wrong and the text of the primer is the same, word for word. (Among the new tokens all distances are right; to the prompt they are one too large.) Text is a poor test of a model's code. Compare tensors.
#
# ### Build a block
#
# Four exercises: three parts, then the block that needs them all.

# %% [markdown]
# ### Exercise: `rms_norm`
#
# *10 minutes · difficulty 1 of 5 · 1 point*
#
# The first thing that every block does with its input.
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.


# %% exercise="rms_norm" minutes=10 difficulty=1 closed=["kvlab.scratch.rms_norm", "torch.nn.functional.rms_norm", "torch.rms_norm", "torch.nn.RMSNorm", "kvlab.trace.call.rms_norm"]
# exercise: rms_norm
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Divide each row by its root mean square, then multiply it with the weights.

    x: (..., D), float; each vector along the last axis is a row. weight: (D,), one for each entry.
    The root mean square of a row is the root of (mean of its squares + eps): eps stands under the root.
    No mean is taken away first (that would be LayerNorm). Returns (..., D), float. The inputs stay as they are.
    A weight that is not (D,) raises ValueError.
    You may not call here: kvlab.scratch.rms_norm, torch.nn.functional.rms_norm, torch.rms_norm, torch.nn.RMSNorm,
    kvlab.trace.call.rms_norm.
    """
    ### BEGIN SOLUTION
    if tuple(weight.shape) != (x.shape[-1],):
        raise ValueError(f"rows of {x.shape[-1]} need as many weights, got {tuple(weight.shape)}")
    mean_square = x.pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight
    ### END SOLUTION


# %% [markdown] hints="rms_norm"
# 1. Root mean square, read backwards: square every entry, take the mean, take the root.
# 2. The mean runs over the last axis alone. Keep that axis, with size 1, so that the division meets the right row.
# 3. eps is added to the mean, before the root. So a row of zeros gives zeros and not nan.


# %% check="rms_norm" points=1
def normed_by_loop(x, weight, eps):
    """Row by row, entry by entry."""
    rows = np.asarray(x, dtype=np.float64).reshape(-1, np.shape(x)[-1])
    out = [
        [float(w) * a / math.sqrt(sum(b * b for b in row) / len(row) + eps) for a, w in zip(row, weight, strict=True)]
        for row in rows
    ]
    return np.array(out).reshape(np.shape(x))


with check.exercise("rms_norm") as t:
    ones, weight = torch.ones(4), torch.tensor([0.5, 2.0, -1.0, 3.0])
    x = torch.tensor([[3.0, -3.0, 3.0, -3.0], [2.0, -1.0, 0.0, -1.0]])
    before = x.clone(), weight.clone()
    rms_norm(x, weight)
    t.unchanged(before, (x, weight), "rms_norm must not change its inputs")
    t.close(rms_norm(x[0], ones), [1, -1, 1, -1], "the mean of the squares is 9, its root 3: divide by 3")
    t.close(rms_norm(x, ones), normed_by_loop(x, ones, 1e-5), "each row is divided by its own root mean square")
    t.close(rms_norm(x[0], weight), [0.5, -2, -1, -3], "after the division each entry is multiplied with its weight")
    shifted = torch.tensor([5.0, 3.0, 4.0, 1.0])
    t.close(rms_norm(shifted, ones), normed_by_loop(shifted, ones, 1e-5), "the mean of a row is not taken away")
    deep = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [8.0, 0.0, 0.0, 0.0]], [[0.5, 0.5, -0.5, 0.5], [2.0, -2.0, 4.0, 0.0]]])
    t.close(rms_norm(deep, weight), normed_by_loop(deep, weight, 1e-5), "three axes: the mean runs over the last alone")
    t.close(
        rms_norm(shifted / 1000, ones),
        normed_by_loop(shifted / 1000, ones, 1e-5),
        "a small row: eps = 1e-5 is added to the mean, under the root",
    )
    t.close(rms_norm(x, ones, 0.5), normed_by_loop(x, ones, 0.5), "eps is an argument: use the one that is given")
    t.close(rms_norm(torch.zeros(4), ones), np.zeros(4), "a row of zeros stays zeros")
    t.raises(ValueError, lambda: rms_norm(x, torch.ones(3)), "rows of 4 need 4 weights, not 3")
    t.raises(ValueError, lambda: rms_norm(x, torch.ones(1)), "rows of 4 need 4 weights, not 1 for all")

# %% [markdown]
# ### Exercise: `swiglu`
#
# *10 minutes · difficulty 2 of 5 · 1 point*
#
# The feed-forward part of a block, which holds most of its weights. `torch.nn.functional.silu` may be used. Only this cell is collected.


# %% exercise="swiglu" minutes=10 difficulty=2 closed=["kvlab.model.Mlp"]
# exercise: swiglu
def swiglu(x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, w_down: torch.Tensor) -> torch.Tensor:
    """silu(x @ w_gate) times (x @ w_up), entry by entry, and the product @ w_down.

    x: (..., D). w_gate, w_up: (D, F). w_down: (F, D). All float; matrices are used as they are, not transposed.
    silu(a) = a * sigmoid(a) = a / (1 + exp(-a)). Returns (..., D), float. The inputs stay as they are.
    Shapes that do not fit together raise ValueError.
    You may not call here: kvlab.model.Mlp.
    """
    ### BEGIN SOLUTION
    width = x.shape[-1]
    if w_gate.shape != w_up.shape or w_gate.shape[0] != width or tuple(w_down.shape) != (w_gate.shape[1], width):
        raise ValueError(f"x {tuple(x.shape)} does not fit {[tuple(w.shape) for w in (w_gate, w_up, w_down)]}")
    opened = x @ w_gate
    opened = opened * opened.sigmoid()
    return (opened * (x @ w_up)) @ w_down
    ### END SOLUTION


# %% [markdown] hints="swiglu"
# 1. Three matrix products. Write down the shape after each of them: the width goes from D to F and back to D.
# 2. silu is applied to the gate alone. It lets large numbers through nearly as they are, and nearly closes for very negative ones.
# 3. The shapes are small enough to compare them one by one: w_gate and w_up alike, both with as many rows as x is wide, and w_down the other way round.


# %% check="swiglu" points=1
def gated_by_loop(x, w_gate, w_up, w_down):
    """Row by row and feature by feature, in float64."""
    x, w_gate, w_up, w_down = (np.asarray(a, dtype=np.float64) for a in (x, w_gate, w_up, w_down))
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        for f in range(w_gate.shape[1]):
            gate, up = x[place] @ w_gate[:, f], x[place] @ w_up[:, f]
            out[place] += gate / (1 + math.exp(-gate)) * up * w_down[f]
    return out


with check.exercise("swiglu") as t:
    rng = torch.Generator().manual_seed(3)
    x, w_gate, w_up = (torch.randn(*size, generator=rng) for size in ((2, 3, 4), (4, 5), (4, 5)))
    w_down = torch.randn(5, 4, generator=rng)
    given = x, w_gate, w_up, w_down
    before = [a.clone() for a in given]
    swiglu(*given)
    t.unchanged(before, given, "swiglu must not change its inputs")
    one = torch.ones(1, 1)
    t.close(swiglu(20 * one, one, 2 * one, 3 * one), [[2400]], "20 times 40 times 3: gate and up are multiplied")
    t.close(swiglu(-20 * one, one, one, one), [[0]], "silu(-20) is nearly 0: the gate is closed")
    t.close(swiglu(one, one, one, one), [[1 / (1 + math.exp(-1))]], "silu(1) is 1 / (1 + 1/e), about 0.73")
    t.close(swiglu(-one, one, one, one), [[1 / (1 + math.e)]], "silu(-1) is about -0.27, not 0, and up is -1 here")
    t.close(swiglu(one, -one, 2 * one, one), [[-2 / (1 + math.e)]], "silu is applied to x @ w_gate, not to x @ w_up")
    t.close(swiglu(*given), gated_by_loop(*given), "any number of axes before the last: every row for itself")
    square = x[..., :3], w_gate[:3, :3], w_up[1:, :3], w_down[:3, :3]
    t.close(swiglu(*square), gated_by_loop(*square), "square matrices: used as they are, not transposed")
    t.raises(ValueError, lambda: swiglu(x, w_gate[:3], w_up[:3], w_down), "rows of 4 need matrices with 4 rows")
    t.raises(ValueError, lambda: swiglu(x, w_gate, w_up[:, :1], w_down), "w_gate and w_up have one shape")
    t.raises(ValueError, lambda: swiglu(x, w_gate, w_up, w_down[:4]), "5 features need a w_down with 5 rows")
    t.raises(ValueError, lambda: swiglu(x, w_gate, w_up, w_down[:, :3]), "the result is as wide as x")

# %% [markdown]
# ### Exercise: `apply_rope`
#
# *20 minutes · difficulty 3 of 5 · 2 points*
#
# How a position gets into queries and keys. Only this cell is collected.


# %% exercise="apply_rope" minutes=20 difficulty=3 closed=["kvlab.model.rotate", "kvlab.scratch.rope", "kvlab.trace.call.rotated"]
# exercise: apply_rope
def apply_rope(x: torch.Tensor, positions: torch.Tensor, theta: float = 10000.0) -> torch.Tensor:
    """Rotary position embedding: turn pairs of entries by angles that grow with the position.

    x: (..., n, d), float; row r along the axis n is at position positions[r]. positions: (n,), a LongTensor.
    Entry i and entry i + d/2 are a pair, for i from 0 to d/2 - 1 (the half-split convention of Hugging Face's Llama).
    At position p pair i is turned by the angle p * theta**(-2 i / d), in radians:
    (a, b) becomes (a cos - b sin, b cos + a sin). Position 0 leaves a row as it is.
    Returns (..., n, d), float. The inputs stay as they are.
    An odd d, or positions that are not (n,), raises ValueError.
    You may not call here: kvlab.model.rotate, kvlab.scratch.rope, kvlab.trace.call.rotated.
    """
    ### BEGIN SOLUTION
    n, width = x.shape[-2:]
    if width % 2:
        raise ValueError(f"{width} entries cannot be paired")
    if tuple(positions.shape) != (n,):
        raise ValueError(f"{n} rows need as many positions, got {tuple(positions.shape)}")
    frequencies = theta ** (-torch.arange(0, width, 2) / width)
    turns = positions[:, None] * frequencies  # (n, d/2): the same for all axes before
    a, b = x[..., : width // 2], x[..., width // 2 :]
    return torch.cat([a * turns.cos() - b * turns.sin(), b * turns.cos() + a * turns.sin()], -1)
    ### END SOLUTION


# %% [markdown] hints="apply_rope"
# 1. With d = 2 there is one pair, and its angle is the position itself. Turn (1, 0) by hand at position 1: the result is (cos 1, sin 1).
# 2. Make a table of angles first, (n, d/2): positions down, pairs across. Its cosines and sines broadcast over all axes before.
# 3. Cut x into two halves along the last axis, a and b. Each half of the result needs both of them; then put the two halves together again, one after the other.


# %% check="apply_rope" points=2
def turned_by_loop(x, positions, theta=10000.0):
    """Pair by pair, as complex numbers."""
    x = np.asarray(x, dtype=np.float64)
    out, half = np.zeros(x.shape), x.shape[-1] // 2
    for place in np.ndindex(x.shape[:-1]):
        for i in range(half):
            angle = int(positions[place[-1]]) * theta ** (-i / half)
            pair = complex(x[place][i], x[place][i + half]) * complex(math.cos(angle), math.sin(angle))
            out[place][i], out[place][i + half] = pair.real, pair.imag
    return out


with check.exercise("apply_rope") as t:
    rng = torch.Generator().manual_seed(5)
    x, positions = torch.randn(3, 8, generator=rng), torch.tensor([4, 0, 7])
    before = x.clone(), positions.clone()
    apply_rope(x, positions)
    t.unchanged(before, (x, positions), "apply_rope must not change its inputs")
    t.close(apply_rope(x[:1], torch.tensor([0])), x[:1], "position 0: all angles are 0, the row stays as it is")
    t.close(
        apply_rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1])),
        [[1, 0], [math.cos(1), math.sin(1)]],
        "one pair at positions 0 and 1: (1, 0) is turned by 1 radian at position 1, to (cos 1, sin 1)",
    )
    t.close(
        apply_rope(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1])),
        [[0, 1], [-math.sin(1), math.cos(1)]],
        "the other entry of the pair: (0, 1) becomes (-sin 1, cos 1) at position 1",
    )
    t.close(
        apply_rope(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([5, 2])),
        [[math.cos(5), math.sin(5)], [math.cos(2), math.sin(2)]],
        "the angle comes from positions, not from the number of the row",
    )
    t.close(
        apply_rope(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.tensor([1])),
        [[math.cos(1), 0, math.sin(1), 0]],
        "d = 4: pair 0 is entry 0 and entry 2 (half-split), and it turns fastest: by the position itself",
    )
    t.close(
        apply_rope(torch.tensor([[0.0, 1.0, 0.0, 0.0]]), torch.tensor([100])),
        [[0, math.cos(1), 0, math.sin(1)]],
        "d = 4, position 100: pair 1 is turned by 100 * 10000**(-2/4), which is 1",
    )
    t.close(apply_rope(x, positions), turned_by_loop(x, positions), "d = 8: each pair has its own frequency")
    deep = torch.randn(2, 3, 4, 6, generator=rng)
    t.close(
        apply_rope(deep, torch.tensor([3, 4, 5, 6])),
        turned_by_loop(deep, [3, 4, 5, 6]),
        "four axes: positions go along the last but one, the same for every head and every sequence",
    )
    t.close(apply_rope(x, positions, 500.0), turned_by_loop(x, positions, 500.0), "theta is an argument")
    t.raises(ValueError, lambda: apply_rope(x[:, :7], positions), "7 entries cannot be paired")
    t.raises(ValueError, lambda: apply_rope(x, positions[:2]), "3 rows, 2 positions")
    t.raises(ValueError, lambda: apply_rope(x, positions[:1]), "3 rows, 1 position for all")

# %% [markdown]
# ### Exercise: `transformer_block`
#
# *40 minutes · difficulty 5 of 5 · 4 points*
#
# A whole block of a Llama, with its cache. Your three functions from above may be copied into this cell: only this cell is collected, and the exercises do not see each other. Library functions that the description does not close, such as `torch.nn.functional.rms_norm` and `silu`, may be used.


# %% exercise="transformer_block" minutes=40 difficulty=5 closed=["kvlab.model.Block", "torch.nn.functional.scaled_dot_product_attention", "kvlab.trace.call.one_block"]
# exercise: transformer_block
def transformer_block(
    x: torch.Tensor,
    weights: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """One block of a Llama-style decoder. Returns (y, (k, v)).

    x: (B, n, D), the new positions. positions: (n,), a LongTensor, where they stand in the sequence.
    weights, all used as `row @ matrix`: wq (D, n_heads * d), wk and wv (D, n_kv_heads * d), wo (n_heads * d, D),
    w_gate and w_up (D, F), w_down (F, D), and attn_norm and mlp_norm (D,). The head width d is that of wq: it need
    not be D / n_heads. Head h takes the columns h * d to (h + 1) * d. A missing name raises ValueError.
    First part: h = x + attention(rms_norm(x, attn_norm)) @ wo. Second part: y = h + swiglu(rms_norm(h, mlp_norm)).
    rms_norm has eps 1e-5. q and k are turned by RoPE (half-split, theta 10000), v is not. Scores are scaled by
    1/sqrt(d). Query head i reads KV head i // (n_heads / n_kv_heads).
    cache: None, or the pair that an earlier call returned, (B, n_kv_heads, n_past, d) each, its k turned already.
    A new position sees all n_past cached ones, itself, and the new ones before it.
    k, v: (B, n_kv_heads, n_past + n, d), past and new ones in this order. y: (B, n, D). The inputs stay as they are.
    n_heads that is no multiple of n_kv_heads, or positions that are not (n,), raises ValueError.
    You may not call here: kvlab.model.Block, torch.nn.functional.scaled_dot_product_attention,
    kvlab.trace.call.one_block.
    """
    ### BEGIN SOLUTION
    needed = ("attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "w_gate", "w_up", "w_down")
    if missing := [name for name in needed if name not in weights]:
        raise ValueError(f"weights lack {', '.join(missing)}")
    if n_heads % n_kv_heads or tuple(positions.shape) != (x.shape[1],):
        raise ValueError(f"{n_heads} on {n_kv_heads} heads, {x.shape[1]} rows at {tuple(positions.shape)} positions")

    def norm(rows, scale):
        return rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale

    def heads(rows, n):
        return rows.unflatten(-1, (n, -1)).transpose(1, 2)  # (B, heads, n, d)

    def turn(rows):
        half = rows.shape[-1] // 2
        angles = torch.outer(positions.to(rows.dtype), 1e4 ** -(torch.arange(half) / half)).repeat(1, 2)
        return rows * angles.cos() + torch.cat([-rows[..., half:], rows[..., :half]], -1) * angles.sin()

    normed = norm(x, weights["attn_norm"])
    q = turn(heads(normed @ weights["wq"], n_heads))
    k = turn(heads(normed @ weights["wk"], n_kv_heads))
    v = heads(normed @ weights["wv"], n_kv_heads)
    if cache is not None:
        k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    shared = n_heads // n_kv_heads
    dots = q @ k.repeat_interleave(shared, 1).mT * q.shape[-1] ** -0.5
    unseen = torch.ones(dots.shape[-2:], dtype=torch.bool).triu(k.shape[2] - x.shape[1] + 1)
    mixed = dots.masked_fill(unseen, -math.inf).softmax(-1) @ v.repeat_interleave(shared, 1)
    h = x + mixed.transpose(1, 2).flatten(2) @ weights["wo"]
    normed = norm(h, weights["mlp_norm"])
    gate = torch.nn.functional.silu(normed @ weights["w_gate"])
    return h + (gate * (normed @ weights["w_up"])) @ weights["w_down"], (k, v)
    ### END SOLUTION


# %% [markdown] hints="transformer_block"
# 1. Begin with one position and no cache: softmax of one score is 1, so attention gives v. Then norms, wv, wo, the two sums and swiglu are all there is.
# 2. `(normed @ wq).unflatten(-1, (n_heads, -1)).transpose(1, 2)` gives (B, heads, n, d). RoPE comes before the cache: only new keys are turned, old ones were.
# 3. With n_past cached and n new positions, new position i sees n_past + i + 1 keys: the triangle of the mask is moved by n_past. After attention the heads go back beside each other, transposed first, then flattened.


# %% check="transformer_block" points=4
def block_by_loop(x, weights, n_heads, n_kv_heads, positions, past=None):
    """One sequence, one position, one head, one key at a time, in float64. past: (keys, values) as lists by KV head."""
    w = {name: np.asarray(matrix, dtype=np.float64) for name, matrix in weights.items()}
    x = np.asarray(x, dtype=np.float64)
    d, group, out, all_k, all_v = w["wq"].shape[1] // n_heads, n_heads // n_kv_heads, np.zeros(x.shape), [], []

    def norm(row, weight):
        return row / math.sqrt((row * row).mean() + 1e-5) * weight

    def turn(row, position):
        pairs = (row[: d // 2] + 1j * row[d // 2 :]) * np.exp(1j * position * 1e4 ** (-np.arange(d // 2) * 2 / d))
        return np.concatenate([pairs.real, pairs.imag])

    for b in range(len(x)):
        keys = [[] if past is None else list(np.asarray(past[0], np.float64)[b, g]) for g in range(n_kv_heads)]
        values = [[] if past is None else list(np.asarray(past[1], np.float64)[b, g]) for g in range(n_kv_heads)]
        for i, position in enumerate(positions.tolist()):
            row = norm(x[b, i], w["attn_norm"])
            q, k, v = row @ w["wq"], row @ w["wk"], row @ w["wv"]
            for g in range(n_kv_heads):
                keys[g].append(turn(k[g * d : g * d + d], position))
                values[g].append(v[g * d : g * d + d])
            mixed = []
            for head in range(n_heads):
                query = turn(q[head * d : head * d + d], position)
                dots = np.exp([query @ key / math.sqrt(d) for key in keys[head // group]])
                mixed.append((dots / dots.sum()) @ np.array(values[head // group]))
            h = x[b, i] + np.concatenate(mixed) @ w["wo"]
            row = norm(h, w["mlp_norm"])
            gate = row @ w["w_gate"]
            out[b, i] = h + (gate / (1 + np.exp(-gate)) * (row @ w["w_up"])) @ w["w_down"]
        all_k.append(keys)
        all_v.append(values)
    return out, (np.array(all_k), np.array(all_v))


def random_weights(seed, width, n_heads, n_kv_heads, d, n_features):
    rng = torch.Generator().manual_seed(seed)
    sizes = {"wq": (width, n_heads * d), "wk": (width, n_kv_heads * d), "wv": (width, n_kv_heads * d)}
    sizes |= {"wo": (n_heads * d, width), "w_gate": (width, n_features), "w_up": (width, n_features)}
    found = {name: torch.randn(*size, generator=rng) * size[0] ** -0.5 for name, size in sizes.items()}
    found["w_down"] = torch.randn(n_features, width, generator=rng) * n_features**-0.5
    return found | {name: torch.rand(width, generator=rng) + 0.5 for name in ("attn_norm", "mlp_norm")}


with check.exercise("transformer_block") as t:
    parts = random_weights(1, 8, 4, 2, 4, 6)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(2)) * 2
    at = torch.arange(5)
    before = x.clone(), {name: matrix.clone() for name, matrix in parts.items()}
    transformer_block(x, parts, 4, 2, at)
    t.unchanged(before, (x, parts), "transformer_block must not change x and the weights")
    plain = random_weights(3, 8, 1, 1, 4, 6)
    still = plain | {"wo": torch.zeros(4, 8)}
    t.close(
        transformer_block(x[1:, :1], still, 1, 1, at[:1])[0],
        block_by_loop(x[1:, :1], still, 1, 1, at[:1])[0],
        "attention that adds nothing (wo = 0): y is x + swiglu(rms_norm(x, mlp_norm))",
    )
    t.close(
        transformer_block(x[:1, :1], plain, 1, 1, at[:1])[0],
        block_by_loop(x[:1, :1], plain, 1, 1, at[:1])[0],
        "one position: h is x + v @ wo, with v from rms_norm(x, attn_norm); the second part starts from h",
    )
    small = x[:1, :1] / 1000
    t.close(
        transformer_block(small, plain, 1, 1, at[:1])[1][1],
        block_by_loop(small, plain, 1, 1, at[:1])[1][1],
        "a small x: rms_norm has eps = 1e-5, under the root",
    )
    y, (k, v) = transformer_block(x[:1, :1], plain, 1, 1, torch.tensor([9]))
    _, (k_expected, v_expected) = block_by_loop(x[:1, :1], plain, 1, 1, torch.tensor([9]))
    t.close(v, v_expected, "the returned v, (B, n_kv_heads, n, d), is not turned")
    t.close(k, k_expected, "the returned k is turned by RoPE, half-split, by the position that was given")
    t.close(
        transformer_block(x[:1, :1], parts, 4, 2, at[:1])[0],
        block_by_loop(x[:1, :1], parts, 4, 2, at[:1])[0],
        "4 heads, 2 KV heads: query heads 0 and 1 read KV head 0, heads 2 and 3 read KV head 1",
    )
    y, (k, v) = transformer_block(x, parts, 4, 2, at)
    y_expected, (k_expected, v_expected) = block_by_loop(x, parts, 4, 2, at)
    t.close(k, k_expected, "k of 5 positions, 2 sequences: (2, 2, 5, 4), heads before positions")
    t.close(
        np.asarray(y)[:, 0],
        y_expected[:, 0],
        "the first of 5 positions sees itself alone: no position sees a later one",
    )
    zeros = torch.zeros(5, dtype=torch.long)
    t.close(
        transformer_block(x, parts, 4, 2, zeros)[0],
        block_by_loop(x, parts, 4, 2, zeros)[0],
        "5 rows all at position 0, so nothing is turned: scores are divided by sqrt(d), d being the head width",
    )
    t.close(y, y_expected, "5 positions: q is turned too, by the same positions as k")
    past = tuple(torch.as_tensor(a[:, :, :4], dtype=torch.float32) for a in (k_expected, v_expected))
    kept = tuple(a.clone() for a in past)
    y, (k, v) = transformer_block(x[:, 4:], parts, 4, 2, at[4:], past)
    t.unchanged(kept, past, "the cache that came in stays as it was: return a new pair")
    t.close(k, k_expected, "after a step the pair holds the past and then the new position; old k is not turned again")
    t.close(v, v_expected, "after a step the pair holds the values of the past and then the new one")
    t.close(y, y_expected[:, 4:], "one new position after 4 cached ones: the same y as without a cache")
    past = tuple(a[:, :, :2] for a in past)
    t.close(
        transformer_block(x[:, 2:], parts, 4, 2, at[2:], past)[0],
        y_expected[:, 2:],
        "3 new positions after 2 cached ones: new position i sees 2 + i + 1 keys",
    )
    wide = random_weights(4, 6, 2, 1, 8, 5)
    t.close(
        transformer_block(x[..., :6], wide, 2, 1, at)[0],
        block_by_loop(x[..., :6], wide, 2, 1, at)[0],
        "D = 6, two heads of width 8: the head width is that of wq",
    )
    t.raises(ValueError, lambda: transformer_block(x, parts, 4, 3, at), "4 heads cannot share 3 KV heads evenly")
    t.raises(ValueError, lambda: transformer_block(x, parts, 4, 2, at[:4]), "5 rows, 4 positions")
    t.raises(ValueError, lambda: transformer_block(x, parts, 4, 2, at[:1]), "5 rows, 1 position for all")
    for name in ("mlp_norm", "wk"):
        rest = {key: matrix for key, matrix in parts.items() if key != name}
        t.raises(ValueError, lambda rest=rest: transformer_block(x, rest, 4, 2, at), f"weights without {name}")

# %% [markdown]
# ### From tokens back to text
#
# A call ends as it began, with bytes: each new token is sent to the reader as soon as it is there. In GPT-4's tokenizer two tokens of the Russian sentence share one letter. What does a reader see if each token is decoded for itself?

# %%
gpt4 = real_tokenizers.split("cl100k", RUSSIAN)
alone = [piece.decode("utf-8", "replace") for piece in gpt4.pieces]
stream = TextStream()
shown = [stream.push(piece) for piece in gpt4.pieces] + [stream.finish()]
print("tokens           ", "|".join(gpt4.labels))
print("each for itself  ", "|".join(alone))
print("bytes that wait  ", "|".join(shown))
assert "\ufffd" in "".join(alone) and "".join(shown) == RUSSIAN

family = real_tokenizers.split("cl100k", real_tokenizers.SIGNS[0])
stream = TextStream()
visible = [stream.push(piece) for piece in family.pieces] + [stream.finish()]
print(f"\nan emoji of three persons, {len(family.pieces)} tokens: text after {sum(map(bool, visible))} of them")
assert "".join(visible) == family.text and "\ufffd" not in "".join(visible)

# %% [markdown]
# The emoji is five characters, three persons and two signs that join them; each is shown when its bytes are there, so a reader may see the persons one by one before they join.
#
# U+FFFD, drawn as a question mark in a diamond, stands where bytes are no whole character. The remedy is to keep the bytes of an incomplete character until the next token completes it, and no more than those.

# %% [markdown]
# ### Exercise: `stream_text`
#
# *20 minutes · difficulty 3 of 5 · 2 points*
#
# Tokens are bytes, and a character may be spread over several of them. Only this cell is collected.


# %% exercise="stream_text" minutes=20 difficulty=3 closed=["kvlab.streaming.TextStream", "kvlab.streaming.stream_text"]
# exercise: stream_text
def stream_text(token_bytes: list[bytes]) -> list[str]:
    """What can be shown after each token of a stream, and what is left at its end.

    token_bytes: the bytes of each token, in order; a token may be empty. Together they are UTF-8, or nearly.
    Returns one string for each token and one more, len(token_bytes) + 1 in all. The string of a token holds the
    characters that it completes: nothing is shown twice, and no character waits longer than it must. The last string
    holds the mark, U+FFFD, of a character that never became complete; else it is empty.
    Bytes that are no UTF-8 give U+FFFD as well; in which of the strings it stands is yours to choose.
    The strings joined are equal to b"".join(token_bytes).decode("utf-8", "replace"), always.
    You may not call here: kvlab.streaming.TextStream, kvlab.streaming.stream_text.
    """
    ### BEGIN SOLUTION
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return [decoder.decode(data) for data in token_bytes] + [decoder.decode(b"", final=True)]
    ### END SOLUTION


# %% [markdown] hints="stream_text"
# 1. A token may end in the middle of a character, so some bytes have to wait for the next token. Only those that belong to the incomplete character at the end wait, not the whole token.
# 2. Python's `codecs` module has a decoder that keeps such bytes by itself; look for *incremental*. By hand it works too: the first byte of a character says how many bytes it has.
# 3. At the end tell the decoder that nothing more comes (`final=True`), or decode what still waits with "replace". Try also bytes that can never be text, such as 0xFF.


# %% check="stream_text" points=2
def cut(text, *at):
    """The bytes of a text, cut at these places."""
    data = text.encode()
    return [data[a:b] for a, b in zip([0, *at], [*at, None], strict=True)]


with check.exercise("stream_text") as t:
    t.equal(
        stream_text([b"mom", b" washed"]),
        ["mom", " washed", ""],
        "plain letters: each token gives its own text, and one string more stands for the end",
    )
    t.equal(stream_text([]), [""], "no tokens: one string, empty, for what is left")
    t.equal(stream_text(["мама".encode(), b"!"]), ["мама", "!", ""], "whole characters of two bytes each")
    t.equal(
        stream_text(cut("é", 1)),
        ["", "é", ""],
        "é has two bytes: it comes with the token that completes it, and the token before gives an empty string",
    )
    t.equal(stream_text(cut("🙂", 1, 2, 3)), ["", "", "", "🙂", ""], "one byte to a token: three times nothing")
    t.equal(stream_text(cut("aéb", 2)), ["a", "éb", ""], "the token ends inside é: its a is complete and does not wait")
    t.equal(stream_text(cut("€🙂", 2, 4, 6)), ["", "€", "", "🙂", ""], "characters of three and of four bytes, cut")
    t.equal(
        stream_text(cut("e\u0301", 1)),
        ["e", "\u0301", ""],
        "a letter and an accent that goes on it are two characters: the letter does not wait",
    )
    t.equal(stream_text([b"a", b"", b"b"]), ["a", "", "b", ""], "an empty token has its string too")
    t.equal(stream_text(cut("aé", 2)[:1]), ["a", "\ufffd"], "the stream ends inside é: the last string holds the mark")
    for bad in ([b"a\xff", b"b"], [b"\xe2\x82", b"a"], [b"\x80", b"\x80"], [b"\xf0\x9f", "é".encode()]):
        t.equal(
            "".join(stream_text(bad)),
            b"".join(bad).decode("utf-8", "replace"),
            "bytes that are no text: the joined strings are what decoding all at once gives",
        )
        t.equal(len(stream_text(bad)), 3, "two tokens give three strings, whatever the bytes are")

# %%
claims.show(card=23)

# %% [markdown]
# ## Card 24 · What to expect of a model on a GPU
#
# Before anybody rents a GPU, four numbers should be on paper: seconds to the first token (**TTFT**), seconds for each further one (**TPOT**), gigabytes for weights and cache, and how many requests fit at once.
# Each has a bound that no software can beat:
#
# - a pass takes at least its operations divided by the **peak** of the GPU, and at least the bytes it reads divided by the **bandwidth**: the larger of the two (the roofline of notebook 02);
# - weights and caches must fit into the memory.
#
# A bound is not a forecast: the published figures below reach from a quarter to three quarters of it. But a figure on the wrong side of a bound is wrong, whoever printed it.

# %%
gpu, llama = published.gpu("a100-80gb"), published.model("llama-3-8b")
print(
    f"{gpu.name}: {gpu.peak_flops / 1e12:.0f} · 10¹² operations/s, {gpu.bandwidth / 1e9:,.0f} GB/s, {gpu.memory_bytes / 1e9:.0f} GB"
)
print(f"{llama.name}: {llama.n_params:,} parameters, {arithmetic.format_bytes(2 * llama.n_params)} with 16 bits each")
quiz.predict(
    f"A guide says: {llama.name} on one {gpu.name} reads a prompt of 1,024 tokens in 30 ms. Two operations for each parameter and token. Is that possible?",
    options=["Yes, with good software", "Yes, but only in a batch", "No, not on this GPU"],
    answer="No, not on this GPU",
    reveal="2 x 8.03 · 10⁹ x 1,024 operations at 312 · 10¹² a second are 53 ms. Counted more finely, without the token table and with the head for one position only, they are 47 ms. 30 ms would need half as much again as the peak.",
)

# %%
GUIDE_MS = {1024: 30, 4096: 120, 16384: 900}
print(f"{'tokens':>7}{'guide':>9}{'at least':>11}{'part of the peak that the guide needs':>40}")
for prompt_len, said in GUIDE_MS.items():
    bound = 1e3 * arithmetic.pass_seconds(llama, gpu, prompt_len)
    print(f"{prompt_len:>7,}{said:>6} ms{bound:>8.0f} ms{bound / said:>40.0%}")
    assert said < bound

growth = arithmetic.pass_macs(llama, 16384)["total"] / arithmetic.pass_macs(llama, 4096)["total"]
print(f"from 4,096 to 16,384 tokens the work grows {growth:.2f} times; the guide's times grow {900 / 120:.1f} times")
simple = arithmetic.predict_latency(llama, gpu, 1024, 256)
print(f"a simpler count, the one of the exercise below: about {1e3 * simple['ttft']:.1f} ms for 1,024 tokens")
assert simple["ttft"] > arithmetic.pass_seconds(llama, gpu, 1024)

lengths = [256 * 2**i for i in range(7)]
bounds = [1e3 * arithmetic.pass_seconds(llama, gpu, length) for length in lengths]
plots.lines(
    {"at least": (lengths, bounds), "the guide": (list(GUIDE_MS), list(GUIDE_MS.values()))},
    "tokens in the prompt",
    "time to the first token (ms)",
    "Llama-3 8B on an A100 80GB",
    logx=True,
    logy=True,
)

# %% [markdown]
# *The figure: time to the first token against the length of the prompt, both axes logarithmic. The guide's three points lie below the line of the bound, where nothing can be.*
#
# The simpler count multiplies by all parameters at every position, the token table and the head included; `pass_seconds` leaves the table out (a look-up costs nothing here) and runs the head at the last position only. So it says 53.6 ms where the finer one says 46.7: an estimate of the bound, up to 15 % above it for this model, and no bound itself, since a very good server could be faster. (For Llama-3 70B it is 3 % at most; for a small model with a large vocabulary more: 27 % for Llama 3.2 1B.) For a plan that is near enough, and it takes eight numbers, six of the model and two of the GPU. To call a figure impossible, take the finer count, as the tables here do.
#
# Attention grows with the square of the length, but up to 16,384 tokens it is the smaller part of the work: four times the tokens are not quite five times the work.
#
# ### Tokens per second
#
# Decoding reads all weights in each step, whatever the batch. So batching is nearly free while the caches are small beside the weights. When both weigh the same, a step takes twice as long; with 4,096 tokens each that is batch 28 here. The guide gives 80, 220 and 400 tokens/s for batches of 1, 8 and 32, and calls the last one saturated.

# %%
GUIDE_TPS = {1: 80, 8: 220, 32: 400}
print(f"{'batch':>5}{'guide':>8}{'at most':>10}{'part of the bandwidth':>24}    4,096 tokens each")
for batch, said in GUIDE_TPS.items():
    most = arithmetic.decode_tokens_per_second(llama, gpu, 4096, batch)
    print(f"{batch:>5}{said:>8}{most:>10,.0f}{said / most:>24.0%}")
    assert said < most
print()
for row in measured.rows():
    lengths = (
        f"{row.prompt_len:,} + {row.n_new:,} tokens" if row.has_lengths else "lengths not given: bound without caches"
    )
    print(
        f"published: {row.tokens_per_second:>5,.0f} of at most {row.bound:>6,.0f} tokens/s, batch {row.batch}, {published.gpu(row.gpu).name}, {lengths}"
    )
    assert row.share < 1
slow = next(row for row in measured.rows() if row.batch == 8)
assert slow.tokens_per_second > 2 * GUIDE_TPS[8] and slow.gpu == "a100-40gb"
longer = arithmetic.decode_tokens_per_second(llama, slow.gpu, 4096, 8)
print(f"batch 8 on that A100 40GB with 4,096 tokens each: at most {longer:,.0f} tokens/s instead of {slow.bound:,.0f}")
measured.table()

# %% [markdown]
# All three figures of the guide are possible, and 80 is plausible. The other two are low, a quarter and a fifth of the bound: somebody measured more than twice as much at batch 8, on a GPU with three quarters of the bandwidth. (With prompts of 1,024 tokens; at 4,096 the bound of that GPU is a sixth lower.) What is wrong is the word *saturated*: a fifth of the bandwidth is not saturation.
# Both tables use the finer count. Where lengths are not given, the bound is the one without caches, and the share is the least that it can be.
#
# Now the whole register: which figures of the guide exceed the hardware?

# %%
beyond = claims.beyond_hardware()
for row in beyond:
    print(f"{row['id']}  {row['claim']}: {row['guide']:,} against {claims.evaluate(row):,.4g} {row['unit']}")
assert {"24.01", "24.02", "24.03", "24.19"} <= {row["id"] for row in beyond}

# %% [markdown]
# ### Memory
#
# Quantising the weights to 4 bits makes room. How much? Real 4-bit files keep the token table and the head at 16 bits and store a scale and a zero point for each group of 128 weights.

# %%
linear = arithmetic.linear_macs_per_token(llama)  # one multiply-add for each weight of the blocks
kept_wide = llama.n_params - linear
int4 = linear * (4 + (16 + 4) / 128) / 8 + 2 * kept_wide
full = 2 * llama.n_params
print(
    f"half a byte for every parameter: {llama.n_params / 2e9:.2f} GB; with scales and a wide table: {int4 / 1e9:.2f} GB"
)
for name in ("a100-80gb", "rtx-4090"):
    device = published.gpu(name)
    room = 0.9 * device.memory_bytes
    each = arithmetic.kv_bytes(llama, 4096)
    before, after = (int((room - size) // each) for size in (full, int4))
    print(
        f"{device.name:28} requests of 4,096 tokens: {before:>4} with 16 bits, {after:>4} with 4 bits, {(room - int4) / (room - full):.2f} times the room"
    )
    assert before == arithmetic.max_concurrent(llama, device, 4096, 0.1 * device.memory_bytes)
assert abs(int4 / 1e9 - 5.73) < 0.01

# %% [markdown]
# The guide's "4 GB and twice the batch" is right on neither GPU. On a GPU of 80 GB the weights were a small part of the memory, so making them smaller gives a fifth more room. On 24 GB the same step nearly triples it.
#
# ### Plan your own
#
# Choose a model and a GPU, then lengths and batch. Before you look, write down what you expect for the time to the first token, the time per token and whether it fits.
#
# The times are those of the simpler count, so estimates of the bound. *Bits* means every weight and the KV cache; a real 4-bit file is larger, as you have just seen (5.73 GB, where the planner says 4.02), and the cache often stays at 16 bits. The peak stays that of 16-bit arithmetic: a GPU that multiplies numbers of 8 bits faster, as an H100 does, reads a prompt sooner.

# %%
widgets.capacity_planner()

# %% [markdown]
# *The figure: bars for weights, caches and both together in GB, with the memory of the GPU without its reserve as a dashed line.*
#
# The same without the widget. Change the first line and run the cell again:

# %%
CHOICE = {"model": "llama-3-70b", "gpu": "h100", "prompt_len": 2000, "n_new": 300, "batch": 8, "bits": 8}
plan = widgets.capacity_plan(**CHOICE)
print(
    f"{plan['model']} on one {plan['gpu']}, {CHOICE['batch']} requests of {CHOICE['prompt_len']:,} + {CHOICE['n_new']} tokens"
)
print(
    f"at best: first token after about {plan['ttft']:.2f} s with 16-bit arithmetic, then {1e3 * plan['tpot']:.1f} ms for each; all after {plan['e2e']:.1f} s"
)
together = arithmetic.gb(plan["weight_bytes"] + plan["kv_bytes"])
print(
    f"memory: {together:.0f} GB of {arithmetic.gb(plan['usable_bytes']):.0f} GB, so {plan['max_concurrent']} such requests fit at once"
)
assert plan["fits"] == (together <= arithmetic.gb(plan["usable_bytes"]))
fitting = [gpu.name for gpu in published.gpus().values() if widgets.capacity_plan(**{**CHOICE, "gpu": gpu.key})["fits"]]
print(f"single GPUs of the table on which it fits: {', '.join(fitting) or 'none'}")

# %% [markdown]
# ### A prediction, and a measurement
#
# Last, the estimate for this course's own model on the machine that you sit at, and the clock beside it. The peak is that of a large matrix product, the bandwidth that of the best of four streaming kernels (notebook 02).

# %%
side = 256 if FAST else 768
square = torch.randn(side, side, device=model.device)
product = profiling.measure(lambda: square @ square, repeats=5, device=model.device)
speed = {
    "peak_flops": 2 * side**3 / product.best,
    "bandwidth": profiling.read_bandwidth(model.device, 0.1 if FAST else 0.3).best,
    "memory_bytes": 1e9,
}
counts = {
    name: getattr(published.shape_of(model), name)
    for name in ("n_params", "n_layers", "n_heads", "n_kv_heads", "d_head")
}
PROMPT_LEN, N_NEW = 256, 32
bound = arithmetic.predict_latency({**counts, "bytes_per_value": 4}, speed, PROMPT_LEN, N_NEW)
prompt = torch.randint(model.config.vocab_size, (PROMPT_LEN,), generator=torch.Generator().manual_seed(SEED)).tolist()


def one_call(timed: list[float]) -> None:
    cache = PreallocatedCache(model.config, PROMPT_LEN + N_NEW, dtype=model.dtype, device=model.device)
    clock = profiling.seconds_of(lambda: prefill(model, prompt, cache), model.device)
    steps = profiling.seconds_of(lambda: [decode_step(model, 5, cache) for _ in range(N_NEW - 1)], model.device)
    timed += [clock, steps / (N_NEW - 1)]


rounds: list[list[float]] = [[] for _ in range(4)]  # the first one warms up
for timed in rounds:
    one_call(timed)
best = [min(column) for column in zip(*rounds[1:], strict=True)]
for name, least, seconds in zip(("ttft", "tpot"), (bound["ttft"], bound["tpot"]), best, strict=True):
    print(
        f"{name}: at best about {1e3 * least:6.2f} ms, measured {1e3 * seconds:6.2f} ms: {least / seconds:.0%} of that speed"
    )
assert math.isclose(bound["e2e"], bound["ttft"] + (N_NEW - 1) * bound["tpot"])

# %% [markdown]
# A small model stays far below that speed in decoding: its products are so short that the time goes into starting them, not into reading weights. (A model that fits into the processor's own cache could even be faster than this, because it is not read from memory.) A large model reads for so long that the starts matter less: the published figures above, all of models with 8 billion parameters, reach 64 and 73 % of the bound where the lengths are known.


# %% [markdown]
# ### Exercise: `predict_latency`
#
# *25 minutes · difficulty 4 of 5 · 3 points*
#
# How fast can a model be on a GPU, at best? Only this cell is collected.


# %% exercise="predict_latency" minutes=25 difficulty=4 closed=["kvlab.arithmetic.pass_seconds", "kvlab.arithmetic.generation_seconds", "kvlab.arithmetic.predict_latency"]
# exercise: predict_latency
def predict_latency(
    model: dict[str, float], gpu: dict[str, float], prompt_len: int, n_new: int, batch: int = 1
) -> dict[str, float]:
    """Estimate ttft, tpot and e2e at best, in seconds, from arithmetic and memory traffic, all parameters counted.

    model: n_params, n_layers, n_heads, n_kv_heads, d_head, bytes_per_value (of weights and cache; may be fractional).
    gpu: peak_flops (per second), bandwidth (bytes per second), memory_bytes (not needed here). Other keys are ignored.
    A pass takes the larger of FLOPs / peak_flops and bytes / bandwidth.
    FLOPs of a pass: batch * (2 * n_params for each token of it + 4 * n_layers * n_heads * d_head for each pair of a
    query and a key that it sees). Bytes of a pass: all weights once (n_params values), and for each sequence of the
    batch K and V of all tokens so far, those of this pass included (2 * n_layers * n_kv_heads * d_head values a token).
    Prefill: prompt_len tokens n, so n (n + 1) / 2 pairs. It gives the first new token. Then n_new - 1 decode passes of
    one token each: the first has n + 1 tokens so far, and as many pairs, the next n + 2, and so on.
    Returns ttft, the prefill; tpot, the mean of the decode passes, nan when there are none; e2e, all passes together.
    A prompt_len, n_new or batch below 1 raises ValueError.
    You may not call here: kvlab.arithmetic.pass_seconds, kvlab.arithmetic.generation_seconds,
    kvlab.arithmetic.predict_latency.
    """
    ### BEGIN SOLUTION
    if min(prompt_len, n_new, batch) < 1:
        raise ValueError(f"counts are at least 1, got prompt_len {prompt_len}, n_new {n_new}, batch {batch}")
    per_pair = 4 * model["n_layers"] * model["n_heads"] * model["d_head"]
    held_per_token = 2 * model["n_layers"] * model["n_kv_heads"] * model["d_head"]

    def seconds(tokens, pairs, so_far):
        flops = batch * (2 * model["n_params"] * tokens + per_pair * pairs)
        moved = (model["n_params"] + batch * held_per_token * so_far) * model["bytes_per_value"]
        return max(flops / gpu["peak_flops"], moved / gpu["bandwidth"])

    ttft = seconds(prompt_len, prompt_len * (prompt_len + 1) / 2, prompt_len)
    steps = [seconds(1, n, n) for n in range(prompt_len + 1, prompt_len + n_new)]
    return {"ttft": ttft, "tpot": sum(steps) / len(steps) if steps else math.nan, "e2e": ttft + sum(steps)}
    ### END SOLUTION


# %% [markdown] hints="predict_latency"
# 1. Write a small function for one pass: tokens in it, pairs, tokens so far; it gives seconds. Everything else calls it.
# 2. Queries have n_heads heads, the cache has n_kv_heads: FLOPs use the one, bytes the other. The batch multiplies all FLOPs, but of the bytes only the cache: the weights are read once for all sequences.
# 3. The decode passes grow: pass i of n_new - 1 has prompt_len + i tokens so far. Take the larger of the two times in each pass, then add up, not the other way round.


# %% check="predict_latency" points=3
def passes_one_by_one(model, gpu, prompt_len, n_new, batch):
    """Seconds of each pass, pairs counted one query at a time."""
    times, so_far = [], 0
    for tokens in [prompt_len] + [1] * (n_new - 1):
        pairs = 0
        for _ in range(tokens):
            so_far += 1
            pairs += so_far
        work = 2 * model["n_params"] * tokens + 4 * model["n_layers"] * model["n_heads"] * model["d_head"] * pairs
        cache = 2 * model["n_layers"] * model["n_kv_heads"] * model["d_head"] * model["bytes_per_value"] * so_far
        read = model["n_params"] * model["bytes_per_value"] + batch * cache
        times.append(max(batch * work / gpu["peak_flops"], read / gpu["bandwidth"]))
    return times


with check.exercise("predict_latency") as t:
    tiny = {"n_params": 1000, "n_layers": 2, "n_heads": 4, "n_kv_heads": 4, "d_head": 5, "bytes_per_value": 2}
    grouped = tiny | {"n_kv_heads": 2, "name": "other keys are ignored"}
    slow_memory = {"peak_flops": 1e15, "bandwidth": 1e4, "memory_bytes": 1e6}
    slow_arithmetic = {"peak_flops": 1e5, "bandwidth": 1e15, "memory_bytes": 1e6}
    given = dict(tiny), dict(slow_memory)
    exactly = {"rtol": 1e-6, "atol": 0}

    found = predict_latency(*given, 1, 1)
    t.unchanged((tiny, slow_memory), given, "predict_latency must not change what it gets")
    t.close(
        found["ttft"], (2000 + 160) / 1e4, "1 token: 2000 bytes of weights and 160 of K and V, 1e4 a second", **exactly
    )
    t.close(found["tpot"], math.nan, "one new token comes from the prefill: no decode pass, so tpot is nan")
    t.close(found["e2e"], found["ttft"], "one new token: the request ends with the prefill", **exactly)
    t.close(
        predict_latency(tiny, slow_arithmetic, 1, 1)["ttft"],
        (2000 + 160) / 1e5,
        "1 token: 2 FLOPs for each parameter and 4 * 2 * 4 * 5 for its one pair, 1e5 a second",
        **exactly,
    )
    t.close(
        predict_latency(tiny, slow_arithmetic, 10, 1)["ttft"],
        (20000 + 160 * 55) / 1e5,
        "a prompt of 10 tokens has 55 pairs: a query sees itself and what comes before",
        **exactly,
    )
    t.close(
        predict_latency(tiny, slow_memory, 10, 1)["ttft"],
        (2000 + 1600) / 1e4,
        "a prompt of 10 tokens: weights once, K and V of 10 tokens, the new ones included",
        **exactly,
    )
    t.close(
        predict_latency(grouped, slow_memory, 1, 1)["ttft"],
        (2000 + 80) / 1e4,
        "2 KV heads: the cache has half the bytes of 4",
        **exactly,
    )
    t.close(
        predict_latency(grouped, slow_arithmetic, 1, 1)["ttft"],
        (2000 + 160) / 1e5,
        "2 KV heads: the FLOPs are those of 4 query heads still",
        **exactly,
    )
    t.close(
        predict_latency(tiny | {"bytes_per_value": 0.5}, slow_memory, 1, 1)["ttft"],
        (500 + 40) / 1e4,
        "half a byte per value, in the weights and in the cache",
        **exactly,
    )
    t.close(
        predict_latency(tiny, slow_memory, 1, 1, 3)["ttft"],
        (2000 + 3 * 160) / 1e4,
        "batch 3: three caches, but the weights are read once",
        **exactly,
    )
    t.close(
        predict_latency(tiny, slow_arithmetic, 1, 1, batch=3)["ttft"],
        3 * (2000 + 160) / 1e5,
        "batch 3: three times the FLOPs",
        **exactly,
    )
    t.close(
        predict_latency(tiny, slow_memory, 10, 2)["tpot"],
        (2000 + 11 * 160) / 1e4,
        "two new tokens: tpot is the one decode pass, which has 11 tokens so far",
        **exactly,
    )
    both = {"peak_flops": 4e5, "bandwidth": 1.1e5, "memory_bytes": 1e6}
    times = passes_one_by_one(grouped, both, 30, 60, 2)
    found = predict_latency(grouped, both, 30, 60, 2)
    t.close(found["ttft"], times[0], "in each pass the larger of the two times counts", **exactly)
    t.close(found["tpot"], sum(times[1:]) / 59, "60 new tokens: tpot is the mean of 59 growing passes", **exactly)
    t.close(found["e2e"], sum(times), "e2e: the prefill and all decode passes", **exactly)
    t.raises(ValueError, lambda: predict_latency(tiny, both, 0, 5), "no prompt")
    t.raises(ValueError, lambda: predict_latency(tiny, both, 5, 0), "no new token")
    t.raises(ValueError, lambda: predict_latency(tiny, both, 5, 5, 0), "no sequence in the batch")
    t.raises(ValueError, lambda: predict_latency(tiny, both, -5, 5), "a negative prompt_len")

# %% [markdown]
# ### Exercise: `max_concurrent`
#
# *10 minutes · difficulty 2 of 5 · 1 point*
#
# How many requests fit on a GPU at one time? Only this cell is collected.


# %% exercise="max_concurrent" minutes=10 difficulty=2 closed=["kvlab.arithmetic.sequences_that_fit", "kvlab.arithmetic.max_concurrent"]
# exercise: max_concurrent
def max_concurrent(model: dict[str, float], gpu: dict[str, float], seq_len: int, reserve_bytes: float = 0) -> int:
    """How many sequences of seq_len tokens fit into a GPU's memory, beside the weights and a reserve.

    model: n_params, n_layers, n_heads, n_kv_heads, d_head, bytes_per_value (of weights and cache; may be fractional).
    gpu: memory_bytes, and others that are not needed here. Other keys are ignored.
    The weights take n_params values, a sequence K and V of seq_len tokens in all layers.
    Whole sequences only, so the result is rounded down; what fits exactly, fits. Never below 0.
    A seq_len below 1, or a negative reserve_bytes, raises ValueError.
    You may not call here: kvlab.arithmetic.sequences_that_fit, kvlab.arithmetic.max_concurrent.
    """
    ### BEGIN SOLUTION
    if seq_len < 1 or reserve_bytes < 0:
        raise ValueError(f"seq_len is at least 1 and reserve_bytes at least 0, got {seq_len} and {reserve_bytes}")
    values = 2 * model["n_layers"] * model["n_kv_heads"] * model["d_head"] * seq_len
    room = gpu["memory_bytes"] - reserve_bytes - model["n_params"] * model["bytes_per_value"]
    return max(0, int(room // (values * model["bytes_per_value"])))
    ### END SOLUTION


# %% [markdown] hints="max_concurrent"
# 1. Three things share the memory: weights, reserve, caches. The first two are there once.
# 2. One sequence takes K and V: 2 * layers * KV heads * head width values for each of its tokens.
# 3. Divide what is left by the size of one sequence and drop the fraction. If the weights alone are too large, what is left is negative: then the answer is 0.


# %% check="max_concurrent" points=1
with check.exercise("max_concurrent") as t:
    shape = {"n_params": 5000, "n_layers": 3, "n_heads": 8, "n_kv_heads": 8, "d_head": 5, "bytes_per_value": 2}
    grouped = shape | {"n_kv_heads": 2}  # a sequence of 10 tokens: 2 * 3 * 2 * 5 * 10 values of 2 bytes, 1200 bytes

    def card(n_bytes):
        return {"memory_bytes": n_bytes, "bandwidth": 1.0, "peak_flops": 1.0}

    t.equal(
        max_concurrent(shape, card(10000 + 4800 * 3 + 100), 10), 3, "10000 bytes of weights, 4800 for each sequence"
    )
    t.equal(max_concurrent(shape, card(10000 + 4800 * 3 - 1), 10), 2, "one byte is missing for the third: rounded down")
    t.equal(max_concurrent(shape, card(10000 + 4800 * 3), 10), 3, "three fit exactly, so three fit")
    t.equal(
        max_concurrent(grouped, card(10000 + 1200 * 5), 10), 5, "2 KV heads: the cache has KV heads, not query heads"
    )
    t.equal(max_concurrent(grouped, card(10000 + 1200 * 5 + 700), 10, 700), 5, "the reserve is kept free once")
    t.equal(
        max_concurrent(grouped, card(10000 + 1200 * 5), 10, 1), 4, "a reserve of one byte takes the place of the fifth"
    )
    t.equal(
        max_concurrent(grouped | {"bytes_per_value": 0.5}, card(2500 + 300 * 7), 10),
        7,
        "half a byte per value, in the weights and in the cache",
    )
    t.equal(max_concurrent(shape, card(9999), 10), 0, "the weights alone do not fit: 0, not a negative number")
    t.equal(max_concurrent(grouped, card(10000 + 1200), 10, 5000), 0, "the reserve is larger than what is left: 0")
    t.raises(ValueError, lambda: max_concurrent(shape, card(10**6), 0), "a sequence of no tokens")
    t.raises(ValueError, lambda: max_concurrent(shape, card(10**6), -3), "a negative seq_len")
    t.raises(ValueError, lambda: max_concurrent(shape, card(10**6), 10, -1), "a negative reserve")

# %%
claims.show(card=24)

# %% [markdown] manual="plan_a_service" points=3
# ### In your own words
#
# **Question.** A team wants to serve a 70-billion-parameter model (80 layers, 8 KV heads, head width 128, 16 bits) to 30 people who paste documents of 8,000 tokens. The plan says: "One GPU with 80 GB. A benchmark promises the first token after 0.3 seconds, and our own test with a short prompt printed fluent text, so the software is right."
# Judge the three statements: the memory, the promise, the test. Use figures where you can (for the one GPU: 312 · 10¹² operations/s). Three to six sentences.
#
# ### BEGIN SOLUTION
# Memory: 70 billion parameters are 140 GB in 16 bits, more than one GPU; and each request adds 2 x 80 x 8 x 128 x 2 bytes = 328 kB a token, 2.6 GB for 8,000 tokens, so 30 requests need another 79 GB (1 point).
# Promise: 2 x 70 · 10⁹ x 8,000 operations at 312 · 10¹² a second take at least 3.6 seconds on one such GPU, even if the model fitted, and attention comes on top, so 0.3 seconds are impossible there; ask for the length and the hardware of the benchmark (1 point).
# Test: fluent text does not show that the tensors are right: a wrong position or a missing norm changes them and the text still reads well, sometimes even stays the same; compare logits or every stage with a reference, with long prompts too (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("08_end_to_end")

# %%
glossary.show(
    [
        "byte",
        "token",
        "tokenizer",
        "token row",
        "residual stream",
        "layer",
        "RMSNorm",
        "RoPE",
        "attention",
        "SwiGLU",
        "output head",
        "logits",
        "decode",
        "TTFT",
        "TPOT",
        "peak",
        "bandwidth",
        "roofline",
    ]
)

# %% [markdown]
# More words, the whole vocabulary that lessons on transformers take for granted among them, and the notebook in which each one is at work:

# %%
glossary.vocabulary()

# %% [markdown]
# ## Recap
#
# - A text becomes bytes, bytes become tokens, and what a token is depends on the tokenizer: ids without it mean nothing, and other languages than English often cost more.
# - A block is two sums: what attention brings and what SwiGLU computes are added to the stream; a norm stands before each of them, and one more before the head.
# - RoPE turns queries and keys by their position, so of two positions only their distance counts in a score, and a key can be kept.
# - The trace of a call and the model agree in every tensor. The first stage that differs names a mistake; the text may not show it at all.
# - Bytes of an incomplete character wait; everything else can be shown at once.
# - A pass takes at least operations / peak and at least bytes / bandwidth. Figures beyond that are wrong, figures far below it are possible: slow software, small batches or short products. The quick estimate, all parameters counted, lies a little above the bound.
#
# **Where this lives in real engines** (transformers 5.24.0, `models/llama/modeling_llama.py`)
#
# | part | class or function |
# |---|---|
# | norm | `LlamaRMSNorm` |
# | angles, and turning by them | `LlamaRotaryEmbedding`, `apply_rotary_pos_emb` |
# | attention, shared KV heads | `LlamaAttention`, `repeat_kv` |
# | SwiGLU | `LlamaMLP` |
# | block, whole model, head | `LlamaDecoderLayer`, `LlamaModel` (with the last norm), `LlamaForCausalLM` |
#
# **Next:** this was the last notebook. You have written a cache, a scheduler's pages, samplers, a search and a block of a transformer; open the source of an engine such as vLLM now and look for them. `kvlab doctor` and the folder `src/kvlab` show how this course did it.
