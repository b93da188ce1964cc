# %% [markdown]
# # 06 · Optimizations: drafts, few bits, tiles
#
# {{colab badge}}
#
# *About 180 minutes, of which 120 are for the exercises · 3 cards · 5 exercises, 14 points, and one written question, 3 points*
#
# Three ways to make a trained model faster or smaller. Of each, one thing is often told wrong.
# Speculative decoding does not change what is drawn, and sometimes it costs time. A model in 4 bits weighs more than half a byte per weight.
# Tiled attention is exact; what it saves is memory: the work still grows with the square of the length.
#
# When you have worked through it you can
#
# - write the test that decides about draft tokens, and prove by counting that the result follows the large model;
# - compute when a draft pays, and say when to switch it off;
# - round weights and a cache to 8 and 4 bits, pack them, and say what they weigh, scales included;
# - write attention whose score matrix never exists as a whole, and count what it does make.
#
# You need: notebooks 01 and 02 (cache, prefill and decode, memory-bound) and 05 (sampling). No GPU, no network.

# %%
# {{colab bootstrap}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
import math
from itertools import islice

import numpy as np
import torch

import kvlab
from kvlab import (
    arithmetic,
    check,
    checkpoints,
    claims,
    faults,
    generate,
    glossary,
    kv_rounding,
    plots,
    profiling,
    quantize,
    quiz,
    speculative,
    validate,
    widgets,
)
from kvlab.attention import causal_attention
from kvlab.cache import PreallocatedCache
from kvlab.primer import corpus
from kvlab.primer.measure import PROMPTS
from kvlab.quantised_cache import QuantisedCache
from kvlab.sampling import SamplingSettings
from kvlab.tiled import largest_intermediate
from kvlab.tiled import online_softmax_attention as tiled_attention

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more, and its clocks wobble less
validate.seed(SEED)
live, live_draft = kvlab.load(MODEL, DEVICE), kvlab.load("primer-draft", DEVICE)
exact, exact_draft = (kvlab.load(name, "cpu", torch.float64) for name in (MODEL, "primer-draft"))
tokenizer = live.tokenizer
print(profiling.describe_device(live.device))
for title, loaded in ((MODEL, live), ("primer-draft", live_draft)):
    print(f"{title}: {loaded.config.n_layers} layers, {sum(w.numel() for w in loaded.parameters()):,} weights")

# %% [markdown]
# ## Card 18 · Speculative decoding
#
# A decode step reads all weights from memory and computes one token with them. Notebook 02 called that **memory-bound**: the processor waits for the weights. In the same time it could compute several tokens, if only it knew which.
#
# **Speculative decoding** guesses them. A **draft model**, much smaller, proposes *K* tokens, each drawn from its own distribution *q*. The large model, the **target**, reads all of them in *one* pass, as in a small prefill. That gives its distribution *p* at the place of each draft token.
# Then a rule decides, token by token: a draft token stays with probability min(1, *p* / *q*). The first that does not stay ends the **round**, and the next token is drawn from what *q* offered too seldom: max(0, *p* - *q*), scaled to sum to 1.
# (Leviathan et al., 2023, arXiv 2211.17192; Chen et al., 2023, arXiv 2302.01318.)

# %%
quiz.predict(
    "A draft of five tokens, and all five stay. How many tokens has this one pass of the target given?",
    options=["5", "6"],
    answer="6",
    reveal="The pass gives a distribution after the fifth token too, so a sixth token comes for nothing. And when the first token is rejected, the round still gives one: the corrected one. From 1 to K + 1, never 0.",
)

# %% [markdown]
# So *p* has *K* + 1 rows, one more than *q*. When all draft tokens stay, its last row gives the **bonus token**.

# %%
for p, q in ((0.71, 0.7), (0.83, 0.8), (0.04, 0.6)):
    stays = min(1.0, p / q)
    row_p, row_q = torch.tensor([[p, 1 - p], [0.5, 0.5]]), torch.tensor([[q, 1 - q]])
    kept = [speculative.verify_draft([0], row_q, row_p, [u / 1000])[0] for u in range(1000)]
    print(f"draft {q:.2f}, target {p:.2f}: the token stays in {sum(kept) / 10:.1f} % of the cases")
    assert abs(sum(kept) / 1000 - stays) <= 0.002

p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.5, 0.3])
accepted = torch.minimum(p, q)  # drawn from q, and kept with min(1, p / q): q x min(1, p / q)
_, instead = speculative.verify_draft([1], q[None], torch.stack([p, p]), [0.999])
print(f"\nkept draft tokens: {[round(x, 3) for x in accepted.tolist()]}, in all {float(accepted.sum()):.1f}")
print(f"after a rejection, a share of {1 - float(accepted.sum()):.1f}: {[round(x, 3) for x in instead.tolist()]}")
both = accepted + (1 - accepted.sum()) * instead
print(f"together: {[round(x, 3) for x in both.tolist()]}, the target: {[round(x, 3) for x in p.tolist()]}")
assert torch.allclose(both, p), "kept tokens and corrected ones together follow the target"
from_p = accepted + (1 - accepted.sum()) * p
print(f"drawn from p after a rejection: {[round(x, 3) for x in from_p.tolist()]}, which is not the target")
assert not torch.allclose(from_p, p, atol=0.01)

# %% [markdown]
# So a token whose *p* is 0.04 where the draft said 0.6 is not always rejected: it stays in one case of fifteen. And a rejection needs no further pass of the target: the distribution of the corrected token comes from the row that is there already.
#
# The proof is one line: for each token, min(*p*, *q*) + max(0, *p* - *q*) = *p*, whatever *q* is. The first part is kept. The second sums to the share of rejections, so the scaled distribution times that share is the second part itself. The line "together" shows it for three tokens, and the last line shows a rule that breaks it.
# Speculation is **lossless**: the distribution of the text is unchanged, and at temperature 0 the text itself.
# Both models must have the same vocabulary, and you need the probabilities of both, so a pair of closed models behind an API does not work.
#
# ### Temperature 0: the same tokens
#
# At temperature 0 both distributions are 1 for one token, so a draft token stays exactly when it is the target's own choice. Here are five drafts: a small model; the target's own first layers (**early exit**); a table of what followed which three tokens (an *n-gram table*); look-up of the last words in the text so far; and a model of noise.

# %%
texts = islice(corpus.documents(777), 100 if FAST else 300)
table = speculative.NGramTable.from_documents(map(tokenizer.encode, texts), 4, exact.config.vocab_size)
drafts = {
    "small model": exact_draft,
    "4-gram table": speculative.NGramDraft(table),
    "prompt look-up": speculative.PromptLookup(3),
    "noise": kvlab.random_model(exact_draft.config, "cpu", torch.float64, seed=SEED),
}
half = exact.config.n_layers // 2
if half:
    drafts[f"first {half} of {exact.config.n_layers} layers"] = speculative.EarlyExit(exact, half)
n_new, asked = (8, PROMPTS[:1]) if FAST else (24, PROMPTS[:2])
plain = [generate.generate_cached(exact, prompt, n_new, ignore_eos=True).tokens for prompt in asked]
lengths = {"1": 1, "4": 4, "1 to 8, by success": speculative.AdaptiveK(4, 1, 8)}
print(f"{len(asked)} prompts x {n_new} tokens, float64; plain decoding needs {n_new} passes each\n")
print(f"{'draft':22}{'K':>20}{'passes of the target':>23}{'same tokens':>13}")
for name, draft in drafts.items():
    for label, k in lengths.items():
        runs = [speculative.speculative_generate(exact, draft, prompt, n_new, k, ignore_eos=True) for prompt in asked]
        same = [run.tokens for run in runs] == plain
        passes = " ".join(str(run.target_passes) for run in runs)
        print(f"{name:22}{label:>20}{passes:>23}{'yes' if same else 'NO':>13}")
        assert same, "the same tokens, whatever the draft and its length"
        assert all(run.accepted + run.rounds == n_new for run in runs), "each round: what stayed, and one more"

# %% [markdown]
# A pass more than plain decoding is the worst that happens to the *number* of passes: even the noise gives one token a round, and the prefill is a pass of its own that gives no token. (The course's own tests do this over 200 prompts.)
# The third *K* is **adaptive**: two more after a round in which all stayed, one less after any other.
#
# ### Temperature 1: the same distribution
#
# Drawn texts can't be compared word by word. They must be counted. A target and a draft with a vocabulary of four tokens give 64 texts of three tokens; the target's exact probability of each is known.
# 200,000 speculative runs are counted and compared by **chi-square** (notebook 05): the **p-value** is the chance of so large a chi-square, or a larger one, if the counts did come from that distribution. Below one in a million we reject it.
#
# Four wrong rules are counted too. `resampled_from_target`: after a rejection the token is drawn from *p*. `draft_probs_unfiltered`: tokens are drawn with filters, but the rule is told *q* without them. `bonus_from_draft`: the bonus token comes from the draft's row. `target_cache_kept`: the target's cache keeps the keys and values of rejected tokens.

# %%
pair, start, length, n_runs = speculative.tiny_pair(), [0, 1], 3, 200_000
free, filtered = SamplingSettings(), SamplingSettings(temperature=0.9, top_k=3, top_p=0.97)


def tested(settings, **changes):
    """The chi-square test of 200,000 continuations against the exact probabilities of plain decoding."""
    right = speculative.plain_probs(pair[0], start, length, settings)
    counts = speculative.speculative_counts(*pair, start, length, 2, n_runs, settings, seed=SEED, **changes)
    assert counts.sum() == n_runs
    return speculative.chi_square(counts, right)


print(f"{n_runs:,} continuations each\n{'':54}{'chi-square':>11}{'degrees':>9}{'p-value':>10}")
honest = {
    "the rule": (free, {}),
    "the rule, with top-k and top-p on both": (filtered, {}),
    "no bonus token": (free, {"bonus": False}),
    "filters on the target alone": (filtered, {"draft_settings": free}),
}
for name, (settings, changes) in honest.items():
    found = tested(settings, **changes)
    print(f"{name:54}{found.statistic:>11.1f}{found.degrees:>9}{found.p_value:>10.2g}")
    assert found.p_value > 1e-6, "equality is not rejected"
print()
wrong = {
    "resampled_from_target": free,
    "draft_probs_unfiltered": filtered,
    "bonus_from_draft": free,
    "target_cache_kept": free,
}
for name, settings in wrong.items():
    with faults.plant(name):
        found = tested(settings)
    print(f"wrong: {name:47}{found.statistic:>11.1f}{found.degrees:>9}{found.p_value:>10.2g}")
    assert found.p_value < 1e-6, "a wrong rule is rejected"

# %% [markdown]
# Without the bonus token, or with a draft that draws from another distribution than the target allows, the text is still right; only speed is lost. What must hold is that the rule is told the *q* that the token was really drawn from.
#
# ### Break it

# %%
quiz.predict(
    "After a rejection the next token is drawn from p itself. Which test notices?",
    options=["the tokens at temperature 0", "the counts at temperature 1", "both"],
    answer="the counts at temperature 1",
    reveal="At temperature 0 the target's row has one token, and it is not the rejected one, so p and the corrected distribution are the same. A test at temperature 0 alone passes this mistake, and the text reads well.",
)

# %%
widgets.break_draft(exact, exact_draft, fault="bonus_from_draft")

# %% [markdown]
# *The figure: the share of each of the 12 likeliest continuations, exact for plain decoding and counted for speculation, on a logarithmic axis. With this fault the second one falls from 5 % to none (a share of 0 lies below the axis); with no fault the two lines lie on each other.*
#
# For the test at temperature 0 the draft is half of the target's layers, so tokens do get rejected, and it hands over its rows (1 for one token), so that the rule decides. `kvlab` itself takes a short cut at temperature 0: it compares tokens and needs no rule. The text is drawn with the small model as the draft.

# %%
for fault in widgets.DRAFT_FAULTS:
    result = widgets.run_draft_fault(exact, exact_draft, fault, n_new=12 if FAST else 32)
    red = [name for name, passes in result["checks"].items() if not passes]
    print(f"{fault:23} red: {'; '.join(red) or 'none'}")
    print(f"    {'nothing is planted' if fault == 'none' else faults.FAULTS[fault].summary}")
    print(f"    text: {result['text']!r}")
    print(f"    text at T = 0, acceptance {result['acceptance']:.2f}: {result['greedy_text']!r}")
    assert bool(red) == (fault != "none")

# %% [markdown]
# Compare the two texts of each fault. `bonus_from_draft` doubles tokens in both: at temperature 0 the draft's last row is the token that was just kept.
# `target_cache_kept` spoils the text at temperature 0, where the poor draft is often rejected, and leaves the drawn one whole: in that text no token of the small model was rejected, so the fault never acted. A test whose draft is never rejected tests nothing.
# `resampled_from_target` and `draft_probs_unfiltered` show in neither text. The first needs a rejection at a temperature above 0, the second needs filters, and both then only change how often each word comes. The counts find them.
#
# One more fault, which is none: a draft that never cuts its own cache back. Its past is full of its rejected tokens, so it guesses worse, and the target corrects it. Compare the rounds. (The draft is half of the target's layers again.)


# %%
class StaleDraft(speculative.ModelDraft):
    """A draft that keeps everything it ever pushed, and adds the newest token of the text."""

    def begin(self, config, max_len):
        super().begin(config, self.model.config.max_len)

    def propose(self, context, *rest):
        remembered = [*self._held, context[-1]] if self._held else context
        return super().propose(remembered, *rest)


n_new = 24 if FAST else 60
short = speculative.EarlyExit(exact, half).model if half else exact_draft
right = generate.generate_cached(exact, PROMPTS[0], n_new, ignore_eos=True).tokens
for name, kind in (("clean", speculative.ModelDraft), ("stale", StaleDraft)):
    run = speculative.speculative_generate(exact, kind(short), PROMPTS[0], n_new, 4, ignore_eos=True)
    print(f"{name} draft cache: {run.rounds} rounds, acceptance {run.acceptance:.2f}, {n_new} tokens, T = 0")
    assert run.tokens == right, "lossless: what the draft believes does not matter"

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
# Your own rule, counted like the others (as long as the exercise is open, this cell says so and goes on):

# %%
try:
    found = tested(free, verify=verify_draft)
    verdict = "not rejected" if found.p_value > 1e-6 else "rejected: this is another distribution"
    print(f"{n_runs:,} continuations by your rule: chi-square {found.statistic:.1f} of {found.degrees}: {verdict}")
except NotImplementedError:
    print("verify_draft is not written yet")
except Exception as error:  # your code: whatever it does, the notebook goes on
    print(f"verify_draft stopped with {type(error).__name__}: {error}")

# %% [markdown]
# ### How many tokens a round gives
#
# Let *a* be the **acceptance**: the chance that a draft token stays, given that those before it stayed.

# %%
quiz.predict(
    "Acceptance 0.7 and five draft tokens: how many tokens does a round give on average?",
    options=["2.94", "3.5", "5"],
    answer=lambda: f"{speculative.expected_tokens(0.7, 5):.2f}",
    reveal="5 x 0.7 = 3.5 forgets that tokens behind the first rejection are lost, and that one token always comes. You find the right sum in the exercise.",
)

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
# ### What it wins, and when it loses
#
# Your function gives 1 + *a* + *a*² + ... + *a*^*K* tokens a round. A round costs *K* steps of the draft and one pass of the target over *K* + 1 tokens.
#
# With *c* = a draft step in target steps and *v* = that pass in target steps, the **speed-up** is tokens / (*K c* + *v*). Papers take *v* = 1. Here all three are measured, and the formula stands beside the clock. The last column, "needed a", is the acceptance from which on speculation pays at these costs; "none" means that not even *a* = 1 pays.

# %%
n_new, asked, repeats = (24, PROMPTS[:2], 1) if FAST else (120, PROMPTS, 2)
print("five tokens a round need an acceptance of", round(speculative.break_even(5, 0.8), 2))  # 5 x 0.8 + 1 = 5 steps
assert abs(speculative.expected_tokens(speculative.break_even(5, 0.8), 5) - 5) < 1e-6


def plain_run(target):
    """All prompts, greedy."""
    return [generate.generate_cached(target, prompt, n_new, ignore_eos=True) for prompt in asked]


def drafted_run(target, draft, k):
    return [speculative.speculative_generate(target, draft, prompt, n_new, k, ignore_eos=True) for prompt in asked]


def pushing(model, n, held=80):
    """A call that pushes n tokens into a cache of 80 positions."""
    cache = PreallocatedCache(model.config, held + n, dtype=model.dtype, device=model.device)
    ids = torch.arange(5, 5 + held + n, device=model.device)
    with torch.no_grad():
        model(ids[:held], cache)

    def push():
        with torch.no_grad():
            model(ids[held:], cache)
        cache.truncate(held)

    return push


def compare(target, setups):
    """Time plain decoding and each {name: (draft, the draft's model, K)} in turn; print the clock and the formula."""
    runs = {}

    def keep(name, call):
        return lambda: runs.update({name: call()})

    calls = {"plain": keep("plain", lambda: plain_run(target))}
    for name, (draft, _, k) in setups.items():
        calls[name] = keep(name, lambda draft=draft, k=k: drafted_run(target, draft, k))
    clock = profiling.interleave(calls, repeats, 0, target.device)
    print(f"{len(asked)} x {n_new} tokens, {repeats} runs in turn")
    for name, timing in clock.items():
        print(f"{name:34}{timing.median:.2f} s ({timing.best:.2f} to {timing.worst:.2f})")
    print()
    print(f"{'':34}{'a':>6}{'c':>7}{'v':>6}{'tokens/round':>14}{'formula':>9}{'clock':>8}{'needed a':>10}")
    gains = {}
    for name, (_, model, k) in setups.items():
        done = runs[name]
        steps = {"one": pushing(target, 1), "pass": pushing(target, k + 1), "draft": pushing(model, 1)}
        costs = profiling.interleave(steps, 10 if FAST else 30, 3, target.device)
        c, v = (costs[key].median / costs["one"].median for key in ("draft", "pass"))
        tried = sum(run.accepted + sum(kept < all_ for all_, kept in run.history) for run in done)
        a = sum(run.accepted for run in done) / tried
        tokens, rounds = sum(len(run.tokens) for run in done), sum(run.rounds for run in done)
        assert tokens == len(asked) * n_new == sum(run.accepted for run in done) + rounds
        gains[name] = clock["plain"].median / clock[name].median
        needed = speculative.break_even(k, c, v)
        print(
            f"{name:34}{a:>6.2f}{c:>7.2f}{v:>6.2f}{tokens / rounds:>14.2f}{speculative.speedup(a, k, c, v):>8.2f}x"
            f"{gains[name]:>7.2f}x{'none' if needed == math.inf else f'{needed:.2f}':>10}"
        )
    return gains


setups = {"small model, K = 4": (live_draft, live_draft, 4)}
if live.config.n_layers > 4:
    early = speculative.EarlyExit(live, 2)
    setups["first 2 layers, K = 6"] = (early, early.model, 6)
gains = compare(live, setups)

# %% [markdown]
# In our runs (full length, one thread) the small model won by a factor of 2.2 to 2.5, and the first two layers lost: 0.4 to 0.6 times as fast as plain decoding. Your clock may differ; the formula uses your machine's costs.
# Formula and clock need not agree to the digit: each step was timed alone, with its weights still at hand, the program around the steps is left out, and other programs disturb both. A *v* below 1 is such noise: a pass over several tokens is no cheaper than one over one.
# Early exit fails here for two reasons that you can read off. Nobody trained these layers to predict by themselves, so few of their tokens stay. And two wide layers cost about twice as much as the small model's one. Systems that use early exit train for it (LayerSkip, Elhoushi et al., 2024, arXiv 2404.16710: up to 2.16 times as fast).
#
# The same pair loses as well when the *target* gets faster. `kvlab.fast` holds a compiled decode step (it needs the package numba). It computes one token several times as fast, but a pass over five tokens goes through other code, and *v* is no longer near 1.

# %%
try:
    from kvlab.fast import FastLlama
except ModuleNotFoundError as error:
    FastLlama = None
    print(f"left out: {error}")
if FastLlama is not None:
    cpu = [kvlab.load(name, "cpu") for name in (MODEL, "primer-draft")]
    fast, fast_draft = (FastLlama.from_model(model, "fp32", threads=1) for model in cpu)
    for model in (fast, fast_draft):
        generate.generate_cached(model, PROMPTS[0], 3, ignore_eos=True)  # compiles now, not under the clock
    gains = compare(fast, {"compiled step, small model, K = 4": (fast_draft, fast_draft, 4)})

# %% [markdown]
# In our runs (full length, one thread) that was 0.55 to 0.75 times as fast as plain decoding, with *v* near 4. Read *v* and "needed a" of your run. Same models, same text, same acceptance: whether speculation pays is a question of costs.
#
# **When to switch it off.** On a server the answer changes with the load. Many requests in one batch share the reading of the weights, so a pass stops being memory-bound, and then *K* + 1 tokens cost *K* + 1 times as much. Here is the bound of notebook 02 for an 8B target and a 1B draft on an H100, 128 tokens of context.

# %%
batches = [2**power for power in range(11)]


def bound(batch, acceptance, k=4):
    """Speed-up by the formula, with the roofline's times of the three passes."""
    target, check_pass = (arithmetic.pass_seconds("llama-3-8b", "h100", n, 128, batch) for n in (1, k + 1))
    step = arithmetic.pass_seconds("llama-3.2-1b", "h100", 1, 128, batch)
    return speculative.speedup(acceptance, k, step / target, check_pass / target)


curves = {f"acceptance {a}": (batches, [bound(batch, a) for batch in batches]) for a in (0.8, 0.6)}
for name, (_, gain) in curves.items():
    first_loss = next((batch for batch, g in zip(batches, gain, strict=True) if g < 1), None)
    print(f"{name}: {gain[0]:.2f} times as fast for one request; slower than plain from batch {first_loss} on")
    assert gain[0] > 1.3 and gain[-1] < 1, "it pays for one request, and costs time in a large batch"
plots.lines(
    curves | {"plain decoding": (batches, [1.0] * len(batches))},
    "requests in a batch",
    "times as fast (bound)",
    "K = 4, Llama-3 8B with a 1B draft on an H100",
    logx=True,
)

# %% [markdown]
# *The figure: the bound of the speed-up against the batch size, for acceptance 0.8 and 0.6. Both curves are level up to 64 requests, fall steeply behind, and end below the line of plain decoding.*

# %%
widgets.draft_length(acceptance=0.8, cost_ratio=0.1, extra=0.05, k=4)

# %% [markdown]
# *The figure: over the draft length K, the expected tokens rise and flatten, and the speed-up rises, has its best place and falls. "Extra token" is what each further token adds to the verifying pass: 0 when memory-bound, 1 when compute-bound.*
#
# **Does a high temperature spoil it?** The chance that a token stays is the sum of min(*p*, *q*) over the vocabulary: how far the two distributions overlap. Here it is over the temperature, for the positions of a story.

# %%
ids = torch.tensor(tokenizer.encode(next(corpus.documents(41)))[: 60 if FAST else 200])
with torch.no_grad():
    of_target, of_draft = exact(ids), exact_draft(ids)
temperatures = (0.1, 0.3, 0.7, 1.0, 1.2, 1.5, 2.0, 4.0, 10.0, 100.0)
overlap = []
for temperature in temperatures:
    rows = zip((of_target / temperature).softmax(-1), (of_draft / temperature).softmax(-1), strict=True)
    overlap.append(float(np.mean([speculative.acceptance_rate(p, q) for p, q in rows])))
    print(f"T = {temperature:>5}: {overlap[-1]:.3f}")
assert overlap[-1] > 0.98, "two flat distributions are the same"
figure = plots.lines(
    {"acceptance": (temperatures, overlap)}, "temperature", "mean acceptance", "Draft and target at one T", logx=True
)
named = (0.1, 0.3, 1, 2, 4, 10, 100)
figure.axes[0].set_xticks(named, [f"{temperature:g}" for temperature in named])
figure

# %% [markdown]
# *The figure: mean acceptance over the temperature on a logarithmic axis. It rises from 0.79 at 0.1 to 0.94 at 1, falls to 0.74 at 4 and rises to 0.99 at 100.*
#
# Some say that drafts are mostly rejected above a temperature of 1.2. There is no such threshold. The acceptance falls where the tails of two different models come into play, and rises again to 1, since at very high temperatures both are flat.
#
# Nor is a low temperature always better. On a story that the model did not write, the pair agrees less at a low one: there only the best token counts, and at one place of four the two models' best tokens differ. On the target's own greedy text it is higher: see *a* of the small model in the table above. Leviathan's experiments found 0.75 on average at temperature 0 and 0.61 at 1. The pair and the text decide.

# %%
claims.show(card=18)

# %% [markdown]
# ## Card 19 · Quantization
#
# **Quantization** stores a weight as a small whole number, its **code**, and one **scale** for a whole row or **group** of weights: weight ≈ code × scale. With 8 bits the codes go from -127 to 127, with 4 bits from -7 to 7.
# The scale is chosen so that the largest weight gets the largest code (*absmax*). The error of each weight is then at most half a scale.

# %%
quiz.predict(
    "Llama-3 70B has 70.6 billion weights. A 4-bit code is half a byte. What does a 4-bit checkpoint weigh, in the format of AWQ with groups of 128?",
    options=["35 GB", "40 GB", "53 GB"],
    answer="40 GB",
    reveal="Each group of 128 weights also has a 16-bit scale and a 4-bit zero point (the code that stands for 0, as these codes are not symmetric), and the tables of token rows and of the output head mostly stay in 16 bits. The next cell adds it up and compares with real files.",
)

# %%
print(f"{'':14}" + "".join(f"{name:>14}" for name in ("llama-3-8b", "llama-3-70b")) + "   (GB, all tensors)")
for scheme in ("fp32", "bf16", "int8-ideal", "int8-rows", "int4-ideal", "awq-int4"):
    sizes = [checkpoints.checkpoint_bytes(name, scheme) / 1e9 for name in ("llama-3-8b", "llama-3-70b")]
    print(f"{scheme:14}" + "".join(f"{size:>14.2f}" for size in sizes))
size = checkpoints.checkpoint_size("llama-3-70b", "awq-int4")
print(f"\n70B in awq-int4: codes {size.codes / 1e9:.2f} GB, scales and zero points {size.scales / 1e9:.2f} GB,")
print(f"tables and norms in 16 bits {size.wide / 1e9:.2f} GB; {size.bits_per_weight:.3f} bits for a quantised weight\n")
for real in checkpoints.published_checkpoints():
    computed = checkpoints.checkpoint_bytes(real.model, real.scheme)
    published, by_formula = (f"{size / 1e9:.{real.digits}g}" for size in (real.bytes, computed))
    print(f"{real.name}: {published} GB by the source, {by_formula} GB by the formula")
    assert abs(computed - real.bytes) / real.bytes < 0.5 * 10 ** (1 - real.digits) or computed == real.bytes

# %% [markdown]
# The formula meets the 70B checkpoint exactly: the bytes of all tensors, as its index says. It meets the file sizes of the 8B one to the three digits that the source gives. (Sources: `data/checkpoints.json`.) The smaller the model, the more the tables count: 8B in "4 bits" is 5.7 GB, not 4.
#
# ### The error
#
# One large weight, an **outlier**, spoils the precision of all weights that share its scale. That is why small groups have scales of their own. "Error" is here the root mean square of the errors, divided by the root mean square of the weights.

# %%
generator = torch.Generator().manual_seed(SEED)
row = torch.randn(1, 128, generator=generator)
row[0, 5] = 25.0
others = [i for i in range(128) if i != 5]
for bits in (8, 4):
    for name, grouped in (("one scale", row), ("a scale for each 32", row.view(-1, 32))):
        codes, scales = quantize.quantize_rows(grouped, bits)
        back = torch.from_numpy(quantize.dequantize_rows(codes, scales)).view(1, 128)
        error = (back - row)[0, others].square().mean().sqrt() / row[0, others].square().mean().sqrt()
        print(f"{bits} bits, {name:20} error of the other 127 weights: {float(error):7.2%}")
        assert bool(((back - row).abs() <= torch.from_numpy(scales).max() / 2 + 1e-6).all()), "at most half a scale"

matrix = live.model.layers[0].mlp.gate_proj.weight.detach().cpu()
n_rows, n_columns = matrix.shape
for bits, group in ((8, None), (4, None), (4, 16)):
    found = widgets.bit_errors(matrix, bits, group)
    codes, scales = quantize.quantize_rows(matrix.reshape(-1, group or n_columns), bits)
    held = quantize.pack_int4(codes.reshape(-1)).nbytes if bits == 4 else codes.nbytes
    print(
        f"a real matrix of {n_rows} x {n_columns}, {bits} bits, {found['group']} to a scale: error {found['error']:.2%}, "
        f"{found['nbytes']:,} bytes by the formula, {held + scales.nbytes:,} held"
    )
    assert held + scales.nbytes == found["nbytes"] == quantize.quantized_bytes(n_rows, n_columns, bits, group)

# %% [markdown]
# What does that do to the model? Every matrix of its blocks is rounded, and the loss on unseen stories is measured.

# %%
story = torch.tensor(kv_rounding.story_ids(live, 200 if FAST else 600))


@torch.no_grad()
def loss_in(bits, group=None):
    """Loss in nats per token with all matrices of the blocks rounded; bits None = as they are."""
    model = kvlab.load(MODEL, "cpu")
    for block in model.model.layers:
        for part in block.modules():
            if bits is not None and isinstance(part, torch.nn.Linear):
                shape = part.weight.shape
                codes = quantize.quantize_rows(part.weight.reshape(-1, group or shape[1]), bits)
                part.weight.copy_(torch.from_numpy(quantize.dequantize_rows(*codes)).view(shape))
    return float(torch.nn.functional.cross_entropy(model(story)[:-1], story[1:]))


before = loss_in(None)
losses = {}
print(f"unrounded: {before:.4f} nats per token on {len(story)} tokens")
for bits, group in ((8, None), (4, None), (4, 16), (3, 16), (2, 16)):
    losses[bits, group] = loss_in(bits, group)
    name = "a scale for each row" if group is None else f"a scale for each {group}"
    print(f"{bits} bits, {name:20} {losses[bits, group]:.4f}, a rise of {losses[bits, group] - before:+.4f}")
assert abs(losses[8, None] - before) < 0.01, "8 bits: next to nothing"
assert losses[2, 16] - before > 0.2 > losses[4, 16] - before, "2 bits: the model is broken"
errors = [widgets.bit_errors(matrix, 4, group)["error"] for group in (None, 16)]
assert errors[1] < errors[0], "small groups: a smaller error"

# %% [markdown]
# On so few tokens a change below about 0.04 can be chance, also one below 0: the standard error of these differences is 0.01 to 0.04 for 3 and 4 bits. The only clear loss here is that of 2 bits. The gain of small groups shows in the error of the weights, not here.
# They are not free either: with a 32-bit scale for each 16 weights, "4 bits" are 6. That is why real files take groups of 128 and 16-bit scales.
#
# This is plain rounding. Methods for 4 bits and below (GPTQ, arXiv 2210.17323; AWQ, arXiv 2306.00978) look at data while they round, and lose less. What a large model loses has to be measured on it; the primer says nothing about 70B.

# %%
widgets.bits(matrix, bits=4, groups=tuple(g for g in (16, 32, 80) if n_columns % g == 0))

# %% [markdown]
# *The figure: the error of the matrix against the bits, on a logarithmic axis: about half as large with each further bit. A mark shows the chosen number of bits.*

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
# ### Two codes in a byte
#
# Memory is read in bytes, so two codes of 4 bits share one. A program that wants to use them must take them apart again, for every weight, in every step. Four bits hold -8 to 7; the symmetric scale of this card never gives -8, but other formats use it.

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
# ### Are fewer bits faster?
#
# A decode step waits for the weights, so half the bytes could take half the time. But only if a **kernel** (the inner loop that does the work) reads the codes as they are.

# %%
quiz.predict(
    "A matrix in 8 bits is turned back into floats each time, then multiplied. Compared with keeping the floats, that is",
    options=["faster", "slower"],
    answer="slower",
    reveal="Without a kernel that reads codes, a program first makes floats again. It reads a quarter of the bytes, then writes all the floats and reads them again. The memory is saved, the time is not. So ask which kernel runs before you expect a gain.",
)

# %%
wide = torch.randn(2048, 2048, generator=generator)
vector = torch.randn(2048, generator=generator)
codes, scales = (torch.from_numpy(part) for part in quantize.quantize_rows(wide, 8))
clock = profiling.interleave(
    {
        "float32, torch's kernel": lambda: wide @ vector,
        "int8 made floats again, then torch": lambda: (codes.float() * scales[:, None]) @ vector,
    },
    repeats=15,
)
for name, timing in clock.items():
    print(f"{name:36} {1000 * timing.median:.2f} ms ({1000 * timing.best:.2f} to {1000 * timing.worst:.2f})")
gap = (codes.float() * scales[:, None]) @ vector - wide @ vector
assert float(gap.norm() / (wide @ vector).norm()) < 0.02

if FastLlama is None:
    print("\nkvlab.fast is not there (it needs numba), so no kernel that reads codes runs here")
else:
    print(
        f"\n{'format':8}{'kernel: kvlab.fast, by numba, reads':36}{'weights (MB)':>13}{'ms per token':>14}{'loss':>9}"
    )
    kernels = {"fp32": "float32", "int8": "int8 codes, a scale per row", "int4": "int4 codes, a scale per group"}
    packed_sizes = []
    for form, kernel in kernels.items():
        model = FastLlama.from_model(kvlab.load(MODEL, "cpu"), form, threads=1)
        generate.generate_cached(model, PROMPTS[0], 3, ignore_eos=True)
        timing = profiling.measure(pushing(model, 1), repeats=30, warmup=3)
        with torch.no_grad():
            loss = float(torch.nn.functional.cross_entropy(model(story)[:-1].float(), story[1:]))
        packed_sizes.append(model.nbytes)
        print(f"{form:8}{kernel:36}{model.nbytes / 1e6:>13.2f}{1000 * timing.median:>14.3f}{loss:>9.3f}")
    assert packed_sizes == sorted(packed_sizes, reverse=True)

# %% [markdown]
# The primer's weights fit into the processor's cache, so they are not what its steps wait for, and fewer bits gain it nothing; taking the codes apart costs a little. For models that stream from memory, `docs/fast.md` has the measured table. Bits save memory for certain, and time only where memory is what you wait for and a kernel reads the codes.
#
# ### The cache in few bits
#
# K and V can be rounded too. V gets a scale per token. For K there are two ways: a scale for each token's row of a head (**per token**), or for each **channel**, one of the *d* places in that row, over a group of neighbouring tokens (**per channel**). KIVI (arXiv 2402.02750) found per channel much better.
#
# Two columns compare the next-token distributions with and without rounding. The **divergence** (Kullback-Leibler) is the mean of the sum of *p* log(*p* / *q*) over the vocabulary, with *p* unrounded and *q* rounded: 0 when they are equal. "Same best token" is the share of places at which both have the same likeliest token.

# %%
study = kv_rounding.study(kvlab.load(MODEL, "cpu"), kv_rounding.story_ids(live, 256 if FAST else 1024), MODEL)
recorded = kv_rounding.recorded()
other = recorded["studies"]["smollm2"]


def report(name, found):
    print(f"{name}, {found.n_tokens} tokens, loss {found.loss:.3f}; a scale for {found.group} numbers in both ways")
    print(f"    {'':20}{'error of K':>12}{'divergence (nats)':>19}{'rise of the loss':>18}{'same best token':>17}")
    for row in found.rows:
        kind = f"{row.bits} bits, K per {row.keys}"
        print(f"    {kind:20}{row.key_error:>12.2%}{row.kl:>19.5f}{row.loss_rise:>+18.4f}{row.same_best:>17.1%}")
    print(f"    largest channel of K over the median one: {np.median(found.spread):.1f} (median over the heads)\n")


report(f"{MODEL}, measured now", study)
report(f"smollm2 (135 million weights), RECORDED {recorded['read']} with torch {recorded['torch']}", other)
assert all(
    found.row(4, kind).kl > 20 * found.row(8, kind).kl for found in (study, other) for kind in ("token", "channel")
)
assert other.row(4, "token").kl > 3 * other.row(4, "channel").kl, "SmolLM2: per channel is much better"
if MODEL == "primer":
    assert 0.5 < study.row(4, "token").kl / study.row(4, "channel").kl < 2, "the primer: no great difference"
    assert np.median(other.spread) > 3 * np.median(study.spread)

# %% [markdown]
# The two models disagree, and the last line of each table says why. In SmolLM2 a few channels of K are many times larger than the others, for all tokens. Per token, such a channel sets the scale of every row, and the other channels get few codes. Per channel it has a scale of its own. The primer's channels are nearly equal, so it can't show the effect.
# A result on a small model can be right and still not carry over.
#
# (SmolLM2's figures were recorded. `kvlab models add smollm2` brings the model; `kv_rounding.study(kvlab.load("smollm2"), ids)` measures it.)
#
# Does the error grow along a text? The divergence in each eighth of the same story, and what the cache weighs:

# %%
cpu_model = kvlab.load(MODEL, "cpu")
ids = torch.tensor(kv_rounding.story_ids(cpu_model, 256 if FAST else 1024))
places = len(ids) // 8
with torch.no_grad():
    sure = cpu_model(ids).double().log_softmax(-1)
print(f"{'':9}{'bytes held':>12}   divergence (nats) in each {places} tokens")
drift = {}
for bits in (8, 4):
    held = QuantisedCache(cpu_model.config, bits, "channel", 32, len(ids))
    with torch.no_grad():
        rounded = cpu_model(ids, held).double().log_softmax(-1)
    drift[bits] = (sure.exp() * (sure - rounded)).sum(-1).view(8, -1).mean(1).tolist()
    formula = arithmetic.quantised_kv_bytes(cpu_model.config, len(ids), 1, bits, "channel", 32, 4)
    assert held.nbytes == formula, "what is held is what the formula says"
    print(f"{bits} bits   {held.nbytes:>12,}   " + " ".join(f"{value:.5f}" for value in drift[bits]))
print(f"float32  {arithmetic.kv_bytes(cpu_model.config, len(ids), 1, 4):>12,}\n")
assert all(few > many for few, many in zip(drift[4], drift[8], strict=True)), "4 bits: larger everywhere"
for bits in (8, 4):
    plain_size = arithmetic.kv_bytes("llama-3-70b", 8192)
    less = plain_size / arithmetic.quantised_kv_bytes("llama-3-70b", 8192, 1, bits, "token")
    print(f"Llama-3 70B, 8,192 tokens: {bits} bits with scales are {less:.2f} times smaller than 16 bits")
    assert less < 16 / bits

# %% [markdown]
# With 1,024 tokens of the primer the later parts diverge more than the early ones, unevenly: some places hang on one key far back, others do not. At 8 bits all of it is too small to matter here.

# %%
claims.show(card=19)

# %% [markdown]
# ## Card 20 · Tiled attention
#
# Plain attention makes a **score matrix** of *n* × *n* numbers for each head, then a second one after softmax. **Tiled attention** (FlashAttention, Dao et al., 2022, arXiv 2205.14135) never makes them. It takes a block of queries and lets one **tile** of scores after the other go by.
#
# But softmax divides by the sum over the *whole* row, and it needs the row's largest score so that exp does not overflow. Both can be kept up to date (**online softmax**, Milakov and Gimelshein, 2018, arXiv 1805.02867): keep the largest score so far, *m*, the sum of exp(score - *m*), and the same sum weighted with the values. When a larger score comes, multiply both sums by exp(old *m* - new *m*).

# %%
quiz.predict(
    "8,192 positions, 16-bit numbers: how large is the score matrix of ONE head?",
    options=["134 MB", "512 MB", "4.3 GB"],
    answer=lambda: f"{arithmetic.format_bytes(8192**2 * 2).split(' ')[0].split('.')[0]} MB",
    reveal="8,192 x 8,192 x 2 bytes. 512 MiB (537 MB) would be four heads of it. All 32 heads of a layer come to 4.3 GB.",
)

# %%
scores, values = torch.tensor([0.5, 2.0, 1.0, 4.0, 3.0, 4.5]), torch.arange(6.0)
m, total, mixed = -math.inf, 0.0, 0.0
print("tile of scores      largest m   old sums times   sum of exp   sum with values")
for tile in range(0, 6, 2):
    part = scores[tile : tile + 2]
    higher = max(m, float(part.max()))
    shrink = math.exp(m - higher)
    weights = (part - higher).exp()
    total = total * shrink + float(weights.sum())
    mixed = mixed * shrink + float(weights @ values[tile : tile + 2])
    m = higher
    print(f"{part.tolist()!s:20}{m:>9.1f}{shrink:>17.4f}{total:>13.4f}{mixed:>18.4f}")
print(f"\nat the end {mixed / total:.6f}; softmax over all six at once {float(scores.softmax(0) @ values):.6f}")
assert abs(mixed / total - float(scores.softmax(0) @ values)) < 1e-6

# %% [markdown]
# Now the count. `largest_intermediate` watches every operation of torch and notes the largest tensor that any of them makes. Inputs are of order one, in float32; one head of width 64.

# %%
block, width = 256, 64
sdpa = torch.nn.functional.scaled_dot_product_attention
print(f"{'n':>6}{'plain':>22}{'tiles of 256':>22}{'one fused operation':>22}{'difference':>12}")
lengths, plain_sizes, tiled_sizes = (512, 1024, 2048) if FAST else (512, 1024, 2048, 4096, 8192), [], []
for n in lengths:
    q, k, v = torch.randn(3, 1, n, width, generator=generator)
    tiled = largest_intermediate(tiled_attention, q, k, v, block)
    fused = largest_intermediate(sdpa, q[None], k[None], v[None], is_causal=True)
    gap = float((tiled.result - fused.result[0]).abs().max())
    if n <= 2048:
        plain_made = largest_intermediate(causal_attention, q, k, v)
        plain_sizes.append(plain_made.nbytes)
        assert plain_made.nbytes == 4 * n * n
        assert float((plain_made.result - tiled.result).abs().max()) < 1e-5
        shown = f"{plain_made.nbytes / 1e6:.2f} MB"
    else:
        plain_sizes.append(4 * n * n)
        shown = f"({4 * n * n / 1e6:.2f} MB)"
    tiled_sizes.append(tiled.nbytes)
    print(f"{n:>6}{shown:>22}{tiled.nbytes / 1e6:>19.2f} MB{fused.nbytes / 1e6:>19.2f} MB{gap:>12.1e}")
    assert gap < 1e-5, "the same result, up to rounding"
    assert tiled.elements <= max(block**2, n * width), "a tile or the result, nothing larger"
print("in parentheses: computed, not made")
plots.lines(
    {
        "plain: n x n scores": (lengths, [size / 1e6 for size in plain_sizes]),
        "tiles of 256": (lengths, [size / 1e6 for size in tiled_sizes]),
    },
    "positions n",
    "largest tensor (MB)",
    "One head, float32",
    logx=True,
    logy=True,
)

# %% [markdown]
# *The figure: the largest tensor over the number of positions, both axes logarithmic. The plain line rises four times with each doubling, the tiled one is level while a tile is the largest tensor, then doubles with n: that is the result itself.*
#
# Three things to take with you.
#
# - **The result is exact, and not identical.** The sums run in another order, so the last digits differ: see the last column. It is no approximation.
# - **Memory is linear in n, work is not.** Every score that counts is still computed, n² / 2 of them. The masked half can be left out, but the work still grows with n². It is faster on a GPU because scores stay in the small fast memory of the chip and never travel.
# - torch's fused operation shows its result only: what happens inside one compiled operation is not seen from outside, which is the point of fusing it.

# %%
widgets.tiles(n=8192, block=64, d=64)

# %% [markdown]
# *The figure: the largest tensor over the number of positions for all scores and for the chosen tile, with a mark at the chosen n. Both sliders count positions: Tile is the side of a tile. Small tiles do not help further once the result is the largest tensor.*
#
# ### Break it
#
# The most common mistake is to forget the multiplication of the old sums.

# %%
quiz.predict(
    "The old sums are not scaled down when a larger score comes. What comes out?",
    options=["numbers far outside those of V", "weighted means of V with wrong weights", "an error"],
    answer="weighted means of V with wrong weights",
    reveal="Both sums are wrong in the same way, so their quotient is still a weighted mean of the values: every number looks reasonable. Keys of early tiles get too much weight.",
)

# %%
q, k, v = torch.randn(3, 1, 300, 16, generator=generator)
right = tiled_attention(q, k, v, 32)
with faults.plant("running_max_not_rescaled"):
    wrong_result = tiled_attention(q, k, v, 32)
    one_tile = tiled_attention(q, k, v, 512)
print(f"largest difference with tiles of 32: {float((wrong_result - right).abs().max()):.3f}")
print(f"largest difference with one tile: {float((one_tile - right).abs().max()):.1e}")
assert float((wrong_result - right).abs().max()) > 0.05, "tiles of 32: a test with several tiles notices"
assert float((one_tile - right).abs().max()) < 1e-5, "one tile: nothing to scale, so a test with one tile does not"
assert bool((wrong_result.amax((1, 2)) <= v.amax((1, 2))).all()), "still within the range of the values"
try:
    tiled_attention(q, k, v, 32, key_mask=torch.zeros(300, dtype=torch.bool))
except ValueError as error:
    print(f"\na query that may see no key at all: {error}")

# %% [markdown]
# ### Exercise: `online_softmax_attention`
#
# *40 minutes · difficulty 5 of 5 · 4 points*
#
# Attention whose score matrix never exists as a whole. With n = 8192 it gets **56 MiB** of memory beyond its inputs (a mask of n x n takes 64 MiB, even with one byte each) and **30 seconds**; a strip of block_size x n scores is allowed.
# Only this cell is collected.


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
    It is graded also with n = 8192, H = 1, d = 8 and block_size 64, with 56 MiB of memory beyond the inputs (a mask of
    n x n takes 64) and 30 seconds. A strip of block_size x n scores is allowed.
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

# %%
claims.show(card=20)

# %% [markdown] manual="which_optimization" points=3
# ### In your own words
#
# **Question.** A team serves a chat model of 8B in 16 bits on one GPU: at night one user at a time, at noon 300 at once. Three proposals: (a) speculative decoding with K = 8, always on, since "accepted tokens are free"; (b) 4-bit weights, since "the model then takes 4 GB and is four times as fast"; (c) no tiled attention, since "it is an approximation".
# Say of each what is right, what is wrong, and what you would measure or count before deciding. Three to six sentences.
#
# ### BEGIN SOLUTION
# (a) At night it can pay: the step is memory-bound, and the text follows the same distribution. At noon the batch is compute-bound, a pass over 9 tokens costs up to 9 times as much, so it is switched off or K made small; measure the acceptance, the cost of a draft step and of the verifying pass, and compare with the break-even (1 point).
# (b) A real 4-bit checkpoint of 8B is about 5.7 GB, with scales and with tables in 16 bits; it is faster only if a kernel reads the codes and the step is memory-bound, which it is not at noon; measure the quality on own data and the time per token, and ask which kernel runs (1 point).
# (c) Tiled attention is exact up to the rounding of another order of sums; compare with plain attention, and count the largest tensor: linear instead of quadratic in the length (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("06_optimizations")

# %%
glossary.show(
    [
        "speculative decoding",
        "draft model",
        "target",
        "round",
        "acceptance",
        "bonus token",
        "lossless",
        "early exit",
        "speed-up",
        "memory-bound",
        "compute-bound",
        "chi-square",
        "quantization",
        "code",
        "scale",
        "group",
        "outlier",
        "kernel",
        "channel",
        "score matrix",
        "tiled attention",
        "tile",
        "online softmax",
    ]
)

# %% [markdown]
# ## Recap
#
# - One pass of the target over K draft tokens gives K + 1 distributions, and a round gives 1 to K + 1 tokens.
# - Kept tokens, corrected ones and the bonus token together follow the target exactly. Temperature 0 tests too little; counts at temperature 1 find every wrong rule.
# - It pays when expected tokens exceed K c + v. Measure all three. A faster target, a slow draft or a large batch turn a gain into a loss.
# - 4 bits are 4.16 with their scales, and the tables stay wide: 39.8 GB for 70B. Fewer bits save memory for certain, time only with a kernel that reads them.
# - K per channel beats K per token where a few channels are large. Whether they are is a property of the model: measure it.
# - Tiled attention keeps a maximum and two sums. It is exact up to rounding; memory is linear, work stays quadratic.
#
# **Where this lives in a real engine** (transformers 5.24.0, read on 30 November 2026)
#
# | part | where |
# |---|---|
# | the rule | `generation/utils.py`: `_speculative_sampling`, called by `_assisted_decoding` |
# | drafts: a model, prompt look-up, early exit | `generation/candidate_generator.py`: `AssistedCandidateGenerator`, `PromptLookupCandidateGenerator`, `EarlyExitCandidateGenerator` |
# | a rounded cache | `cache_utils.py`: `QuantizedCache`, `QuantizedLayer` |
# | low-bit weights | `quantizers/`: `AwqQuantizer` in `quantizer_awq.py`, and others |
# | fused attention | `integrations/sdpa_attention.py`: `sdpa_attention_forward` |
#
# **Next:** notebook 07 turns from generating text to finding it: token rows, hidden states and text embeddings.
