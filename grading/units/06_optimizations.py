# %% [markdown]
# # 06 · Optimizations: drafts, few bits, tiles
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/kvlab-course/kvlab/blob/main/notebooks/06_optimizations.ipynb)

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

# %% [markdown]
# ## Card 18 · Speculative decoding

# %% [markdown]
# ### Exercise: `verify_draft`
#
# *25 minutes · difficulty 3 of 5 · 3 points*
#
# The test that makes speculation lossless: which tokens of a draft stay, and what the next token is drawn from.
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.


# %% exercise="verify_draft" minutes=25 difficulty=3 closed=["kvlab.speculative.verify_draft"]
# exercise: verify_draft
def verify_draft(
    draft_tokens: list[int], draft_probs: torch.Tensor, target_probs: torch.Tensor, uniforms: list[float]
) -> tuple[int, torch.Tensor]:
    """Accept or reject the K tokens of a draft. Returns (n_accepted, next_probs).

    draft_tokens: K token ids, each drawn from its row of draft_probs; a list or a LongTensor. K may be 0.
    draft_probs: (K, V), q. Row i is what the draft model gave at the place of token i; q of a drafted token is above 0.
    target_probs: (K + 1, V), p. Row i is what the target model gives there, row K what it gives after the whole draft.
    uniforms: K numbers from [0, 1), a list or a tensor.
    Token i is accepted when uniforms[i] < min(1, p / q), with p and q of that token in row i.
    The first rejection ends the draft: later tokens do not count, whatever their numbers are.
    n_accepted: int, the tokens before the first rejection. next_probs: (V,), what the next token is drawn from:
    after a rejection in row i it is max(0, p - q) of that row, scaled to sum to 1; with no rejection it is row K of p.
    ValueError: draft_probs has not K rows or target_probs not K + 1, their widths differ, there are not K uniforms,
    or a token is none of 0 to V - 1. The inputs stay as they are.
    You may not call here: kvlab.speculative.verify_draft.
    """
    ### BEGIN SOLUTION
    tokens, draws = (torch.as_tensor(values).tolist() for values in (draft_tokens, uniforms))
    n_rows, width = draft_probs.shape
    if not len(tokens) == len(draws) == n_rows:
        raise ValueError(f"{len(tokens)} tokens, {len(draws)} uniforms and {n_rows} draft rows do not fit together")
    if tuple(target_probs.shape) != (n_rows + 1, width):
        raise ValueError(f"the target needs {n_rows + 1} rows of {width}, got {tuple(target_probs.shape)}")
    if not all(0 <= token < width for token in tokens):
        raise ValueError(f"a token id lies between 0 and {width - 1}, got {tokens}")
    for row, (token, draw) in enumerate(zip(tokens, draws, strict=True)):
        if draw >= target_probs[row, token] / draft_probs[row, token]:
            left_over = (target_probs[row] - draft_probs[row]).clamp(min=0)
            return row, left_over / left_over.sum()
    return len(tokens), target_probs[-1]
    ### END SOLUTION


# %% [markdown] hints="verify_draft"
# 1. A loop over the K tokens is enough. It ends in one of two ways: at the first token that is rejected, or after the last one.
# 2. For a token the target likes at least as much as the draft did, p / q is 1 or more, so every number below 1 accepts it. Otherwise it is accepted in a share p / q of all cases.
# 3. A rejected token was offered too often by the draft. What is missing is where p is larger than q: take the difference of the two rows, put 0 where it is negative, and divide by what is left in all.


# %% check="verify_draft" points=3
drafted = torch.tensor([[0.5, 0.25, 0.125, 0.125], [0.25, 0.25, 0.25, 0.25], [0.125, 0.5, 0.25, 0.125]])
target = torch.tensor(
    [[0.25, 0.5, 0.25, 0.0], [0.5, 0.25, 0.125, 0.125], [0.25, 0.125, 0.125, 0.5], [0.125, 0.125, 0.25, 0.5]]
)
# tokens 0, 1, 2 have p / q = 0.25 / 0.5, 0.25 / 0.25 and 0.125 / 0.25: a half, one, a half

with check.exercise("verify_draft") as t:
    before = drafted.clone(), target.clone()
    verify_draft([0, 1, 2], drafted, target, [0.4, 0.9, 0.6])
    t.unchanged(before, (drafted, target), "verify_draft must not change the probabilities it gets")
    n, probs = verify_draft([0, 1, 2], drafted, target, [0.4, 0.9, 0.4])
    t.equal(n, 3, "0.4 < 0.5, 0.9 < 1 and 0.4 < 0.5: each number is below p / q, so all three tokens are accepted")
    t.close(probs, target[3], "all accepted: the next token comes from the last row of the target, as it is")
    n, probs = verify_draft([0, 1, 2], drafted, target, [0.4, 0.9, 0.6])
    t.equal(n, 2, "the third token is rejected, as 0.6 is above 0.5; the two before it stay")
    t.close(
        probs,
        [0.25, 0, 0, 0.75],
        "after a rejection: max(0, p - q) of the row of that token, which is [1/8, 0, 0, 3/8], scaled to sum to 1",
    )
    n, probs = verify_draft([0, 1, 2], drafted, target, [0.6, 0.1, 0.1])
    t.equal(n, 0, "the first rejection ends the draft: the two tokens after it would pass, and count no more")
    t.close(probs, [0, 2 / 3, 1 / 3, 0], "the next token comes from the row of the first rejected token, here row 0")
    n, probs = verify_draft([1], drafted[:1], target[:2], [0.99])
    t.equal(n, 1, "p is above q: the token is accepted whatever its number is")
    t.close(probs, target[1], "one token, accepted: the row after it is the last one, row 1")
    t.equal(
        verify_draft([0], drafted[:1], target[:2], [0.5])[0], 0, "0.5 is not below 0.5: the number must be below p / q"
    )
    t.equal(verify_draft([3], drafted[:1], target[:2], [0.0])[0], 0, "p = 0: such a token is rejected even with 0")
    sure = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    n, probs = verify_draft([1], sure, target[1:3], [0.3])
    t.equal(n, 0, "a draft that was sure (q = 1): the token is accepted in a share p of all cases, here 0.25")
    t.close(probs, [2 / 3, 0, 1 / 6, 1 / 6], "a draft that was sure: what is left of the target is every other token")
    n, probs = verify_draft(torch.tensor([1, 0]), drafted[:2], target[:3], torch.tensor([0.7, 0.7]))
    t.equal(n, 2, "tokens and numbers may be tensors too")
    n, probs = verify_draft([], torch.zeros(0, 4), target[:1], [])
    t.equal(n, 0, "no draft at all (K = 0) is allowed: nothing is accepted")
    t.close(probs, target[0], "no draft: the next token comes from the one row of the target")
    t.raises(
        ValueError, lambda: verify_draft([0], drafted[:1], target[:1], [0.1]), "1 token needs 2 target rows, not 1"
    )
    t.raises(
        ValueError, lambda: verify_draft([0], drafted[:1], target[:3], [0.1]), "1 token needs 2 target rows, not 3"
    )
    t.raises(ValueError, lambda: verify_draft([0], drafted[:2], target[:2], [0.1]), "1 token needs 1 draft row, not 2")
    t.raises(ValueError, lambda: verify_draft([0, 1], drafted[:2], target[:3], [0.1]), "2 tokens need 2 numbers, not 1")
    t.raises(
        ValueError, lambda: verify_draft([0], drafted[:1, :3], target[:2], [0.1]), "3 and 4 columns: two vocabularies"
    )
    t.raises(ValueError, lambda: verify_draft([4], drafted[:1], target[:2], [0.1]), "the ids of 4 tokens are 0 to 3")
    t.raises(ValueError, lambda: verify_draft([-1], drafted[:1], target[:2], [0.1]), "a negative id is no token")

# %% [markdown]
# ### Exercise: `expected_tokens`
#
# *10 minutes · difficulty 2 of 5 · 2 points*
#
# How many tokens does one round give? Only this cell is collected.


# %% exercise="expected_tokens" minutes=10 difficulty=2 closed=["kvlab.speculative.expected_tokens"]
# exercise: expected_tokens
def expected_tokens(acceptance: float, k: int) -> float:
    """Expected number of tokens that one round of speculation produces.

    A draft of k tokens. Each token that is looked at is accepted with probability `acceptance`, independently of the
    others; the first rejection ends the draft. The round then gives one token more: the corrected one after a
    rejection, or a bonus token after k accepted ones. So 1 is the least and k + 1 the most; acceptance 1 gives k + 1.
    Not rounded. An acceptance outside [0, 1], or k < 0, raises ValueError.
    You may not call here: kvlab.speculative.expected_tokens.
    """
    ### BEGIN SOLUTION
    if not 0 <= acceptance <= 1:
        raise ValueError(f"a probability of acceptance lies between 0 and 1, got {acceptance}")
    if k < 0:
        raise ValueError(f"a draft cannot have {k} tokens")
    return float(sum(acceptance**i for i in range(int(k) + 1)))
    ### END SOLUTION


# %% [markdown] hints="expected_tokens"
# 1. Do it by hand for k = 1: the round gives 2 tokens with probability a, else 1.
# 2. The expected number is the sum, over i, of the probability that the round gives more than i tokens. When does it give more than i?
# 3. It gives more than i tokens when the first i tokens of the draft were all accepted, for i from 0 to k. That is a finite geometric series; its short formula divides by 1 - a, so mind a = 1.


# %% check="expected_tokens" points=2
def by_outcomes(a, k):
    """Every way a round can end, with its probability."""
    rejected_at = [(a**i * (1 - a), i + 1) for i in range(k)]
    return sum(chance * tokens for chance, tokens in [*rejected_at, (a**k, k + 1)])


with check.exercise("expected_tokens") as t:
    t.close(expected_tokens(0.5, 1), 1.5, "k = 1: 2 tokens in half of the rounds, 1 in the others")
    t.close(expected_tokens(0.5, 2), 1.75, "k = 2: 1 token for sure, a second if one is accepted, a third if both are")
    t.close(expected_tokens(0.8, 4), by_outcomes(0.8, 4), "each way a round can end, times the tokens it gives")
    t.close(
        expected_tokens(0.3, 7), by_outcomes(0.3, 7), "a long draft with few accepted: close to 1 / (1 - a), below it"
    )
    t.close(expected_tokens(0.9, 12), by_outcomes(0.9, 12), "a long draft: no more than k + 1 tokens")
    t.close(expected_tokens(1, 5), 6, "acceptance 1: all k tokens and the bonus token, k + 1")
    t.close(expected_tokens(0, 5), 1, "acceptance 0: the corrected token is always there")
    t.close(expected_tokens(0.7, 0), 1, "k = 0: a plain decoding step, 1 token")
    t.raises(ValueError, lambda: expected_tokens(1.2, 3), "an acceptance above 1")
    t.raises(ValueError, lambda: expected_tokens(-0.1, 3), "an acceptance below 0")
    t.raises(ValueError, lambda: expected_tokens(0.5, -1), "a draft of -1 tokens")

# %% [markdown]
# ## Card 19 · Quantization

# %% [markdown]
# ### Exercise: `quantize_rows`
#
# *25 minutes · difficulty 3 of 5 · 3 points*
#
# Weights as small whole numbers, and back. Both functions belong into this one cell.


# %% exercise="quantize_rows" minutes=25 difficulty=3 closed=["kvlab.quantize.quantize_rows", "kvlab.quantize.dequantize_rows", "kvlab.quantize.quantize_groups", "kvlab.quantize.dequantize_groups"]
# exercise: quantize_rows
def quantize_rows(w: torch.Tensor, bits: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric absmax quantization of each row. Returns (codes, scales).

    w: (rows, columns), float. bits: 2 to 8, else ValueError. The largest code is top = 2**(bits - 1) - 1, so 127 for 8.
    scales: (rows,), float: the largest absolute value of the row divided by top.
    codes: (rows, columns), dtype int8 (a tensor or an array), from -top to top: w divided by the scale of its row,
    rounded to the nearest whole number; near a half, both neighbours are right.
    A row of zeros has codes 0, and any finite scale. w that has not two axes raises ValueError. w stays as it is.
    You may not call here: kvlab.quantize.quantize_rows, kvlab.quantize.dequantize_rows,
    kvlab.quantize.quantize_groups, kvlab.quantize.dequantize_groups.
    """
    ### BEGIN SOLUTION
    if not 2 <= bits <= 8:
        raise ValueError(f"bits must be from 2 to 8, got {bits}")
    if w.dim() != 2:
        raise ValueError(f"weights have two axes, got shape {tuple(w.shape)}")
    top = 2 ** (int(bits) - 1) - 1
    largest = w.abs().amax(1)
    scales = torch.where(largest > 0, largest / top, 1.0)
    rounded = (w / scales[:, None]).round().clamp(-top, top)
    return rounded.to(torch.int8), scales
    ### END SOLUTION


def dequantize_rows(q: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Weights (rows, columns), float, from int8 codes (rows, columns) and scales (rows,): code times scale of its row.

    Scales that are not (rows,) raise ValueError.
    """
    ### BEGIN SOLUTION
    if tuple(scales.shape) != tuple(q.shape[:1]):
        raise ValueError(f"{q.shape[0]} rows need as many scales, got {tuple(scales.shape)}")
    return q.to(scales.dtype) * scales.unsqueeze(-1)
    ### END SOLUTION


# %% [markdown] hints="quantize_rows"
# 1. With 8 bits the codes go from -127 to 127. Which scale turns the largest absolute value of a row into exactly 127? Do it by hand for the row 2.54, -1.27, 0.
# 2. The scales have one axis, the weights two. Give the scales a second axis of size 1 before you divide or multiply, else they are laid along the columns.
# 3. A row of zeros would divide 0 by 0: give it another scale, such as 1. Round first, and only then convert to int8: converting alone cuts off what is behind the point.


# %% check="quantize_rows" points=3
def one_by_one(w, bits):
    """Codes and scales of each row, one value after the other."""
    top = 2 ** (bits - 1) - 1
    found = [max(abs(x) for x in row) / top for row in w.tolist()]
    return [[round(x / scale) for x in row] for row, scale in zip(w.tolist(), found, strict=True)], found


with check.exercise("quantize_rows") as t:
    small = torch.tensor([[2.54, -1.0, 0.01], [0.5, 0.25, -1.0]])
    before = small.clone()
    codes, scales = quantize_rows(small)
    t.unchanged(before, small, "quantize_rows must not change w")
    t.close(
        scales,
        [0.02, 1 / 127],
        "scales (rows,): each row has its own, the largest ABSOLUTE value by 127",
        rtol=1e-5,
        atol=0,
    )
    t.equal(str(codes.dtype).removeprefix("torch."), "int8", "the codes have the dtype int8")
    row = torch.tensor([[-1.27, 0.404, -0.404, 0.296]])
    t.equal(
        quantize_rows(row)[0],
        [[-127, 40, -40, 30]],
        "0.296 / 0.01 is 29.6, so 30: round to the nearest, do not cut off; the sign stays",
    )
    w = torch.randn(3, 5, generator=torch.Generator().manual_seed(4))
    for bits in (8, 4, 3, 2):
        codes, scales = quantize_rows(w, bits)
        by_hand, by_hand_scales = one_by_one(w, bits)
        t.close(scales, by_hand_scales, f"{bits} bits: the scale is the largest by {2 ** (bits - 1) - 1}", 1e-5, 0)
        t.equal(codes, by_hand, f"{bits} bits: codes from {1 - 2 ** (bits - 1)} to {2 ** (bits - 1) - 1}, rounded")
    codes, scales = quantize_rows(torch.tensor([[0.0, 0.0], [1.0, -0.5]]), bits=4)
    t.equal(np.asarray(codes)[0], [0, 0], "a row of zeros has codes 0: do not divide 0 by 0")
    t.true(np.isfinite(np.asarray(scales)).all(), "a row of zeros has a finite scale, not inf and not nan")
    t.close(
        dequantize_rows(torch.tensor([[100, -50], [1, 2], [0, -7]], dtype=torch.int8), torch.tensor([0.01, 0.5, 2.0])),
        [[1, -0.5], [0.5, 1], [0, -14]],
        "dequantize_rows: every code times the scale of its row",
    )
    t.close(
        dequantize_rows(torch.tensor([[1, 2], [3, 4]], dtype=torch.int8), torch.tensor([0.5, 10.0])),
        [[0.5, 1], [30, 40]],
        "2 x 2: the first scale belongs to the first row, not to the first column",
    )
    t.close(
        dequantize_rows(torch.tensor([[100, -100]], dtype=torch.int8), torch.tensor([2.0])),
        [[200, -200]],
        "100 times 2 is 200, more than int8 holds: the weights are floats",
    )
    t.raises(ValueError, lambda: quantize_rows(w, 1), "1 bit leaves 0 as the only code")
    t.raises(ValueError, lambda: quantize_rows(w, 9), "9 bits do not fit into int8")
    t.raises(ValueError, lambda: quantize_rows(w[0]), "one axis: there are no rows")
    t.raises(
        ValueError,
        lambda: dequantize_rows(torch.ones(2, 3, dtype=torch.int8), torch.ones(3)),
        "2 rows need 2 scales, not 3",
    )
    t.raises(
        ValueError,
        lambda: dequantize_rows(torch.ones(2, 3, dtype=torch.int8), torch.ones(1)),
        "2 rows need 2 scales, not 1 for all",
    )

# %% [markdown]
# ### Exercise: `pack_int4`
#
# *20 minutes · difficulty 3 of 5 · 2 points*
#
# Two codes of four bits in one byte, and out again. Both functions belong into this one cell.


# %% exercise="pack_int4" minutes=20 difficulty=3 closed=["kvlab.quantize.pack_int4", "kvlab.quantize.unpack_int4", "kvlab.quantize.quantize_groups", "kvlab.quantize.dequantize_groups"]
# exercise: pack_int4
def pack_int4(codes: torch.Tensor) -> torch.Tensor:
    """Pack 1-D integer codes from -8 to 7, two to a byte.

    The first code of each pair goes into the low four bits, the second into the high four. A negative code c is
    stored as c + 16 (two's complement: -1 is 15, -8 is 8). An odd end is padded with the code 0; no codes give no bytes.
    Returns dtype uint8 (a tensor or an array), one byte for two codes. A code outside -8 to 7 raises ValueError.
    The codes stay as they are.
    You may not call here: kvlab.quantize.pack_int4, kvlab.quantize.unpack_int4,
    kvlab.quantize.quantize_groups, kvlab.quantize.dequantize_groups.
    """
    ### BEGIN SOLUTION
    if ((codes < -8) | (codes > 7)).any():
        raise ValueError("four bits hold -8 to 7, and a code lies outside")
    nibbles = torch.remainder(codes.to(torch.int64), 16)
    pairs = torch.nn.functional.pad(nibbles, (0, len(nibbles) % 2)).view(-1, 2)
    return (pairs[:, 0] + 16 * pairs[:, 1]).to(torch.uint8)
    ### END SOLUTION


def unpack_int4(packed: torch.Tensor, n: int) -> torch.Tensor:
    """The first n codes that pack_int4 put into these bytes (1-D, uint8), signs restored: dtype int8, shape (n,).

    n below 0, or more codes than the bytes hold, raises ValueError.
    """
    ### BEGIN SOLUTION
    if not 0 <= n <= 2 * len(packed):
        raise ValueError(f"{len(packed)} bytes hold no {n} codes")
    nibbles = torch.stack([packed % 16, packed // 16], dim=1).flatten()[: int(n)].to(torch.int8)
    return torch.where(nibbles > 7, nibbles - 16, nibbles)
    ### END SOLUTION


# %% [markdown] hints="pack_int4"
# 1. Write the codes 3 and -2 as four bits each, and the byte that holds both: -2 is 14, so the byte is 3 + 16 * 14.
# 2. Slices take every second code: `codes[0::2]` are the low halves, `codes[1::2]` the high ones. With an odd number of codes the second slice is shorter; add a 0 first.
# 3. The low half of a byte is what is left after division by 16, the high half is the quotient. A half from 8 to 15 stands for a negative code: take 16 away. In uint8 that would wrap around, so change the dtype before.


# %% check="pack_int4" points=2
def int8s(*values):
    return torch.tensor(values, dtype=torch.int8)


def uint8s(*values):
    return torch.tensor(values, dtype=torch.uint8)


with check.exercise("pack_int4") as t:
    codes = int8s(-3, 2, 4)
    pack_int4(codes)
    t.unchanged(int8s(-3, 2, 4), codes, "pack_int4 must not change the codes it gets")
    t.equal(pack_int4(int8s(1, 2)), [33], "1 and 2: the first code in the low half, 1 + 16 * 2")
    t.equal(pack_int4(int8s(1, 2, 3, 4)), [33, 67], "neighbours share a byte: 1 and 2, then 3 and 4")
    t.equal(str(pack_int4(int8s(1, 2)).dtype).removeprefix("torch."), "uint8", "the bytes have the dtype uint8")
    t.equal(pack_int4(int8s(3, -2)), [227], "-2 is stored as 14: 3 + 16 * 14")
    t.equal(pack_int4(int8s(-8, 7, -1, 0)), [120, 15], "-8 is stored as 8 and -1 as 15; both are codes")
    t.equal(
        pack_int4(int8s(5, 6, 7)), [101, 7], "an odd end: the last byte holds 7 in its low half and 0 in its high half"
    )
    t.equal(pack_int4(int8s(-3)), [13], "one code: one byte, its high half 0")
    t.equal(np.asarray(pack_int4(int8s())).size, 0, "no codes, no bytes")
    t.equal(unpack_int4(uint8s(33, 67), 4), [1, 2, 3, 4], "unpack_int4: the low half of each byte comes first")
    t.equal(unpack_int4(uint8s(227, 120), 4), [3, -2, -8, 7], "halves from 8 to 15 are negative codes: take 16 away")
    t.equal(
        str(unpack_int4(uint8s(227), 2).dtype).removeprefix("torch."), "int8", "the unpacked codes have the dtype int8"
    )
    t.equal(unpack_int4(uint8s(101, 7), 3), [5, 6, 7], "n = 3 of 4: the padding is no code")
    t.equal(np.asarray(unpack_int4(uint8s(101), 0)).size, 0, "n = 0: no codes")
    t.raises(ValueError, lambda: pack_int4(int8s(0, 8)), "8 does not fit into four bits with a sign")
    t.raises(ValueError, lambda: pack_int4(int8s(-9, 0)), "-9 does not fit into four bits with a sign")
    t.raises(ValueError, lambda: unpack_int4(uint8s(33), 3), "one byte holds 2 codes, not 3")
    t.raises(ValueError, lambda: unpack_int4(uint8s(33), -1), "a negative number of codes")

# %% [markdown]
# ## Card 20 · Tiled attention

# %% [markdown]
# ### Exercise: `online_softmax_attention`
#
# *40 minutes · difficulty 5 of 5 · 4 points*
#
# Attention whose score matrix never exists as a whole. Only this cell is collected.


# %% exercise="online_softmax_attention" minutes=40 difficulty=5 closed=["kvlab.attention.causal_attention", "kvlab.attention.cached_attention", "kvlab.attention.attention_weights", "kvlab.attention.grouped_query_attention", "kvlab.attention.stacked_attention", "kvlab.attention.attend", "kvlab.attention.sliding_window_attention", "kvlab.scratch.attention", "kvlab.engine.pool.paged_chunk_attention", "kvlab.tiled.online_softmax_attention", "torch.nn.functional.scaled_dot_product_attention"]
# exercise: online_softmax_attention
def online_softmax_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_size: int) -> torch.Tensor:
    """Causal attention, tile by tile: no tensor of n x n values is ever made, no mask of that size either.

    q, k, v: (H, n, d), float. Position i sees positions 0 to i of its own head; scores are scaled by 1/sqrt(d).
    Returns (H, n, d), float. block_size: positions in a tile, 1 or more; it need not divide n, and may exceed it.
    The result does not depend on it.
    For each query three things are kept while tile after tile of keys goes by: the largest score so far, the sum of
    exp(score - largest), and the sum of exp(score - largest) times value. When a larger score comes, both sums are
    multiplied by exp(old largest - new largest). At the end the second sum is divided by the first.
    Scores may be so large, of either sign, that exp of them overflows or is 0. The inputs stay as they are.
    A block_size below 1, or q, k and v of different shapes, raises ValueError.
    It is graded also with n = 8192, H = 1, d = 8 and block_size 64, where a mask of n x n does not fit into memory
    and a Python loop over all pairs takes too long.
    You may not call here: kvlab.attention.causal_attention, kvlab.attention.cached_attention,
    kvlab.attention.attention_weights, kvlab.attention.grouped_query_attention, kvlab.attention.stacked_attention,
    kvlab.attention.attend, kvlab.attention.sliding_window_attention, kvlab.scratch.attention,
    kvlab.engine.pool.paged_chunk_attention, kvlab.tiled.online_softmax_attention,
    torch.nn.functional.scaled_dot_product_attention.
    """
    ### BEGIN SOLUTION
    if block_size < 1:
        raise ValueError(f"a tile holds at least one position, got block_size {block_size}")
    if not q.shape == k.shape == v.shape:
        raise ValueError(f"shapes differ: {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    n, width = q.shape[1:]
    out = torch.empty_like(v)
    for first in range(0, n, block_size):
        rows = torch.arange(first, min(first + block_size, n))
        largest = q.new_full((len(q), len(rows), 1), -math.inf)
        total, mixed = torch.zeros_like(largest), torch.zeros_like(q[:, rows])
        for start in range(0, int(rows[-1]) + 1, block_size):
            columns = torch.arange(start, min(start + block_size, n))
            tile = q[:, rows] @ k[:, columns].mT / math.sqrt(width)
            tile = tile.masked_fill(columns > rows[:, None], -math.inf)  # has an effect on the last tile of a row only
            higher = torch.maximum(largest, tile.amax(-1, keepdim=True))
            shrink, weights = (largest - higher).exp(), (tile - higher).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            mixed = mixed * shrink + weights @ v[:, columns]
            largest = higher
        out[:, rows] = mixed / total
    return out
    ### END SOLUTION


# %% [markdown] hints="online_softmax_attention"
# 1. Begin with one query and a loop over its keys, one by one: keep the largest score m, the sum s and the vector a. Compare a / s with softmax over all scores at once. Only then put tiles in place of single keys.
# 2. Two loops: over tiles of queries, and inside over the tiles of keys up to the one that holds the last of these queries. Tiles further right hold later keys only and are left out. In the tile on the diagonal some keys are later than some queries: set these scores to minus infinity.
# 3. m begins at minus infinity. When a tile comes, take the new m first, multiply s AND a by exp(old m - new m), then add what the tile gives. exp(minus infinity) is 0, so the first tile needs no case of its own.


# %% check="online_softmax_attention" points=4
import tracemalloc

from torch.utils._python_dispatch import TorchDispatchMode


def in_one_go(q, k, v):
    """One query after the other, all its keys at once, in float64."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    out = np.zeros(q.shape)
    for h, i in np.ndindex(q.shape[:2]):
        dots = k[h, : i + 1] @ q[h, i] / math.sqrt(q.shape[2])
        weights = np.exp(dots - dots.max())
        out[h, i] = weights @ v[h, : i + 1] / weights.sum()
    return out


class LargestTensor(TorchDispatchMode):
    """Notes the largest tensor, in bytes, that any operation of torch gives."""

    nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.nbytes = max(self.nbytes, tensor.untyped_storage().nbytes())
        return result


def bytes_needed(call):
    """The largest tensor of torch, or a quarter of all arrays of numpy at one time, in bytes: whichever is more."""
    with LargestTensor() as torch_side:
        call()
    tracemalloc.start()
    try:
        call()
        return max(torch_side.nbytes, tracemalloc.get_traced_memory()[1] // 4)
    finally:
        tracemalloc.stop()


with check.exercise("online_softmax_attention") as t:
    rng = torch.Generator().manual_seed(2)
    q, k, v = torch.randn(3, 2, 8, 4, generator=rng)
    before = q.clone(), k.clone(), v.clone()
    online_softmax_attention(q, k, v, 4)
    t.unchanged(before, (q, k, v), "online_softmax_attention must not change its inputs")
    t.close(
        online_softmax_attention(q[:, :1], k[:, :1], v[:, :1], 1),
        v[:, :1],
        "one position: each head gets its own value, as softmax of one score is 1 (divide by the sum at the end)",
    )
    t.close(
        np.asarray(online_softmax_attention(q, k, v, 8))[:, -1],
        in_one_go(q, k, v)[:, -1],
        "one tile: the last query sees every key of its own head, and dot products are divided by sqrt(d)",
    )
    t.close(
        online_softmax_attention(q, k, v, 8),
        in_one_go(q, k, v),
        "one tile: no query sees a later key (minus infinity, before exp), and each sees itself",
    )
    rising = torch.arange(6.0).view(1, 6, 1)
    t.close(
        online_softmax_attention(torch.zeros(1, 6, 1), torch.zeros(1, 6, 1), rising, 2),
        rising / 2,
        "equal scores: the mean of ALL values up to its own, from earlier tiles and from the one it is in",
    )
    t.close(
        np.asarray(online_softmax_attention(torch.ones(1, 6, 1), rising, rising, 2))[:, -1],
        in_one_go(torch.ones(1, 6, 1), rising, rising)[:, -1],
        "every tile brings a larger score: multiply the sum AND the mixed values by exp(old largest - new largest)",
    )
    t.close(
        online_softmax_attention(torch.ones(1, 6, 1), -1000 * rising, 1 + rising, 2),
        np.ones((1, 6, 1)),
        "no later tile brings a larger score: keep the largest of ALL tiles so far, not that of the newest",
    )
    t.close(online_softmax_attention(q, k, v, 4), in_one_go(q, k, v), "two tiles of 4: the result is the same")
    t.close(online_softmax_attention(q, k, v, 1), in_one_go(q, k, v), "tiles of one position: the result is the same")
    t.close(
        online_softmax_attention(q, k, v, 3),
        in_one_go(q, k, v),
        "8 positions in tiles of 3: the last tile is shorter, and counts like the others",
    )
    t.close(online_softmax_attention(q, k, v, 20), in_one_go(q, k, v), "a tile may be larger than n")
    far = torch.tensor([[[4000.0], [3000.0], [5000.0], [1000.0]]])
    t.close(
        online_softmax_attention(torch.ones(1, 4, 1), far, v[:1, :4, :1], 2),
        v[:1, [0, 0, 2, 2], :1],
        "large scores: exp(4000) overflows, so subtract the largest score first",
    )
    t.close(
        online_softmax_attention(torch.ones(1, 4, 1), -far, v[:1, :4, :1], 2),
        v[:1, [0, 1, 1, 3], :1],
        "very negative scores: the largest score begins at minus infinity, not at 0",
    )
    n = 512
    t.true(
        bytes_needed(
            lambda: online_softmax_attention(torch.zeros(1, n, 1), torch.zeros(1, n, 1), torch.ones(1, n, 1), 8)
        )
        < n * n,
        "no n x n tensor may be made, no mask of that size either: in the held-out case it does not fit",
    )
    t.raises(ValueError, lambda: online_softmax_attention(q, k, v, 0), "a block_size of 0")
    t.raises(ValueError, lambda: online_softmax_attention(q, k, v, -2), "a negative block_size")
    t.raises(ValueError, lambda: online_softmax_attention(q, k[:, :7], v[:, :7], 4), "8 queries, 7 keys")
    t.raises(ValueError, lambda: online_softmax_attention(q, k, v[:, :7], 4), "8 keys, 7 values")
