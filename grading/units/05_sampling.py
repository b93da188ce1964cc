# %% [markdown]
# # 05 · Sampling: from logits to the next token
#
# {{colab badge}}
#
# *About 180 minutes · 4 cards · 7 exercises, 14 points, and one written question, 3 points*
#
# A language model does not choose words. It gives every token of its vocabulary a number, and a small program makes one token out of these numbers.
# All the sliders that people turn, temperature, top-p and the rest, belong to that program. This notebook takes it apart, on the live numbers of a small trained model.
#
# When you have worked through it you can
#
# - say what each stage between logits and token does, write it, and find the mistakes that leave the text plausible;
# - compute what a temperature does to two tokens, and find the printed tables that cannot be right;
# - write beam search, and say what it is better at than greedy decoding, and what not;
# - measure whether a text repeats itself, and say what a penalty and a bias change: odds, not probabilities.
#
# You need: notebook 01 (what a forward pass and a cache are), PyTorch as far as indexing and softmax. No GPU, no network.

# %%
# {{colab bootstrap}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
import itertools
import math
import time
from dataclasses import replace

import numpy as np
import torch

import kvlab
from kvlab import beams, check, claims, faults, generate, glossary, plots, profiling, quiz, sampling, validate, widgets
from kvlab.engine import Engine, Request, StepClock
from kvlab.primer import corpus, dataset
from kvlab.sampling import SamplingSettings
from kvlab.sampling.measures import chi_square, chi_square_limit, probability_with_bias, token_probability

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more
validate.seed(SEED)
live = kvlab.load(MODEL, DEVICE)
exact = kvlab.load(MODEL, "cpu", torch.float64)  # for questions of equality: in float64, ties do not flip by rounding
tokenizer = live.tokenizer
print(profiling.describe_device(live.device))
print(f"{MODEL}: a vocabulary of {live.config.vocab_size:,} tokens")


@torch.no_grad()
def logits_after(text):
    """The ids of a text, and the logits of the token after it, (vocab,), in float64."""
    ids = tokenizer.encode(text)
    return ids, exact(torch.tensor(ids), last_only=True)[-1]


def piece(token):
    """A token as text, in quotes, so that its space can be seen."""
    return repr(tokenizer.decode([int(token)], special=True))


# %% [markdown]
# ## Card 14 · The pipeline: logits, temperature, filters, draw
#
# The last layer gives each token of the vocabulary a score, its **logit**. **Softmax** turns scores into probabilities: e to each score, divided by the sum. Then a token is drawn, which is called **sampling**.
# Between the two stand stages that can be switched on. Each takes logits and returns logits:
#
# - **temperature** divides all logits by a number;
# - **top-k** keeps the *k* largest; **top-p** keeps the most likely tokens that together reach the probability *p*; **min-p** keeps each token whose probability is at least min-p times the largest;
# - a **repetition penalty** and a **logit bias** move single tokens (card 17).
#
# A removed token gets the logit minus infinity. Softmax then gives it 0 and shares the rest out anew.
# The cell below runs all of it on the live logits of this model and says what each stage left. **Entropy** says how uncertain a distribution is, in **nats**: 0 when one token has everything; e to the entropy is the number of equally likely tokens that would be as uncertain.

# %%
PROMPT = "mom washed the"
ids, logits = logits_after(PROMPT)
settings = SamplingSettings(temperature=0.8, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.2)


def how_many():
    left = int((sampling.next_token_probs(logits, settings, ids, len(ids)) > 0).sum())
    return "fewer than 10" if left < 10 else "10 to 40" if left <= 40 else "more than 40"


quiz.predict(
    f"The text is {PROMPT!r}, the settings T = 0.8, top-k 40, top-p 0.9, min-p 0.05, repetition penalty 1.2. How many of the {len(logits):,} tokens can come next?",
    options=["fewer than 10", "10 to 40", "more than 40"],
    answer=how_many,
    reveal="Top-k only caps the number. Where a model is rather sure, few tokens reach 0.9 together, and top-p decides. The table below says what each stage left.",
)

# %%
print(f"after {PROMPT!r}\n\n{'stage':20}{'left':>6}{'entropy':>9}   most likely")
left_before = len(logits)
for stage, after in sampling.stages(logits, settings, ids, len(ids)):
    probs = after.softmax(-1)
    left = int((after > -math.inf).sum())
    best = ", ".join(f"{piece(token)} {probs[token]:.3f}" for token in probs.topk(3).indices)
    print(f"{stage:20}{left:>6}{sampling.entropy(probs):>9.3f}   {best}")
    assert left <= left_before and abs(float(probs.sum()) - 1) < 1e-9, "nothing comes back, and the rest sums to 1"
    left_before = left
final = sampling.next_token_probs(logits, settings, ids, len(ids))
assert int((final > 0).sum()) == left and torch.equal(final, probs)

# %% [markdown]
# (The penalty changed nothing that can be seen here: the words of the prompt are unlikely to come next anyway.)
#
# Now the rule that is told wrong most often, on an example from the published guide whose topics this course follows.
# Four tokens, cat, dog, mouse and bird, have the logits 8.41, 6.23, 5.87 and 4.12. They are said to have the probabilities 0.62, 0.18, 0.09 and 0.04; the rest of the vocabulary shares 0.07.

# %%
quiz.predict(
    "Top-p with p = 0.9: how many tokens stay?",
    options=["three: their sum is 0.89, the last one below 0.9", "four: with the fourth the sum is 0.93"],
    answer="four: with the fourth the sum is 0.93",
    reveal="The set has to reach p, so the token that carries the sum across p belongs to it. By the other rule the set would hold less than was asked for, and for p = 0.5 nothing at all: the first token alone exceeds it.",
)

# %%
four = [0.62, 0.18, 0.09, 0.04]
shown = [*four, 0.03, 0.02]
with_tail = torch.tensor([*shown, *[0.02 / 48] * 48], dtype=torch.float64)
kept = int((sampling.top_p_filter(with_tail.log(), 0.9) > -math.inf).sum())
sums = np.cumsum(four)
print("running sums:", sums.round(2).tolist(), "-> tokens kept:", kept)
assert kept == 4 == int((sums < 0.9).sum()) + 1
assert int((sums <= 0.9).sum()) == 3 and int((sums <= 0.5).sum()) == 0, (
    "keeping while the sum is at most p: too few, or none"
)

guide_logits = torch.tensor([8.41, 6.23, 5.87, 4.12], dtype=torch.float64)
ratio = math.exp(6.23 - 8.41)
print(
    f"\ncat and dog, logits 8.41 and 6.23, said to be 0.62 and 0.18: ratio {0.18 / 0.62:.3f}. The logits say e^(6.23 - 8.41) = {ratio:.3f}"
)
assert abs(float(guide_logits.softmax(-1)[1] / guide_logits.softmax(-1)[0]) - ratio) < 1e-12
print("0 as a temperature, divided as it stands:", (guide_logits / 0).softmax(-1).tolist())
print("0 as a case of its own:", sampling.temperature_probs(guide_logits, 0).tolist())
assert (guide_logits / 0).softmax(-1).isnan().all() and sampling.temperature_probs(guide_logits, 0)[0] == 1

figure = plots.cumulative(shown, 0.9, ["cat", "dog", "mouse", "bird", "fifth", "sixth"], "Top-p with p = 0.9")
bars = figure.axes[0].patches
bars[0].set_label("kept")
bars[-1].set_label("cut")
figure.axes[0].legend(loc="center right")
for place, total in enumerate(np.cumsum(shown)):
    below = place and total < 0.9  # beside the line at 0.9 and the first bar, not on them
    offset = (0, -14 if below else 6)
    figure.axes[0].annotate(f"{total:.2f}", (place, total), offset, textcoords="offset points", ha="center")
figure

# %% [markdown]
# *The figure: bars for the six most likely tokens and their running sum: 0.62, 0.80, 0.89, 0.93, 0.96, 0.98 (for the two behind bird we took 0.03 and 0.02). The sum crosses the line at 0.9 with the fourth bar, which is coloured like the three before it; later ones are grey.*
#
# Two more things are in the printout. A ratio of two probabilities is e to the difference of their logits, whatever else the vocabulary holds: so at T = 1, 0.62 and 0.18 cannot come from 8.41 and 6.23, and no tail repairs that. (Another temperature changes ratios, but none gives this row: dog, mouse and bird against cat would need T = 1.76, 1.32 and 1.57.)
# And temperature 0 is not a division: infinity minus infinity is not a number. It is a case of its own: programs take the largest logit (**greedy**). Small temperatures come near it, except that tied tokens share.
#
# **Does the order of the stages matter?** Here is the same setting, T = 2, top-p 0.9 and min-p 0.1, in the orders of four libraries.

# %%
hot = SamplingSettings(temperature=2.0, top_p=0.9, min_p=0.1)
survivors = {}
for library, order in sampling.ORDERS.items():
    probs = sampling.next_token_probs(logits, replace(hot, order=library))
    survivors[library] = int((probs > 0).sum())
    print(f"{library:13} {' -> '.join(order):40} {survivors[library]:>4} tokens left")
assert survivors["transformers"] >= survivors["llama.cpp"], "a flatter distribution needs more tokens to reach p"
if MODEL == "primer":
    assert len(set(survivors.values())) > 1, "the same numbers, another set of tokens"

# %% [markdown]
# The same words in a settings file mean different sets of tokens. Where the temperature comes last, it changes how often a token is drawn, never which ones can be.
# (transformers 5.24.0, `generation/utils.py`: `_get_logits_processor`; vLLM, `v1/sample/sampler.py` at commit 3e34265; llama.cpp, `common/common.h` at commit 001d906; mlx-lm, `sample_utils.py` at commit 037c9b3. Other stages that these libraries have are off by default.)
#
# And the draw itself: does a token with probability 0.2 come in a fifth of the cases? **Chi-square** adds up the squared differences between counted and expected, each divided by the expected. When the counts fit, it is about as large as its *degrees of freedom*, the number of different tokens minus one (rare ones are put together). One honest sample in a million exceeds the limit that is printed.

# %%
n_draws = 20_000 if FAST else 200_000
setups = {
    "as the model gives it": SamplingSettings(),
    "T = 0.7, top-k 20": SamplingSettings(temperature=0.7, top_k=20),
    "T = 1.5, top-p 0.8": SamplingSettings(temperature=1.5, top_p=0.8),
    "min-p 0.1, penalty 1.3": SamplingSettings(min_p=0.1, repetition_penalty=1.3),
}
print(f"{n_draws:,} draws after {PROMPT!r}\n")
for number, (name, setup) in enumerate(setups.items()):
    theory = sampling.next_token_probs(logits, setup, ids, len(ids))
    drawn = sampling.draw(theory, n_draws, torch.Generator().manual_seed(SEED + number))
    counts = torch.bincount(drawn, minlength=len(theory))
    found, degrees = chi_square(counts.tolist(), theory.tolist())
    limit = chi_square_limit(degrees)
    top = int(theory.argmax())
    print(
        f"{name:24} {piece(top):10} expected {theory[top]:.4f}, drawn {counts[top] / n_draws:.4f}   "
        f"chi-square {found:7.1f} of {degrees} degrees, limit {limit:.0f}"
    )
    assert found < limit, "one honest sample in a million would exceed it"

theory = sampling.next_token_probs(logits, setups["T = 1.5, top-p 0.8"], ids, len(ids))
with faults.plant("crossing_token_dropped"):
    wrong = sampling.next_token_probs(logits, setups["T = 1.5, top-p 0.8"], ids, len(ids))
counts = torch.bincount(sampling.draw(wrong, n_draws, torch.Generator().manual_seed(SEED)), minlength=len(theory))
found, degrees = chi_square(counts.tolist(), theory.tolist())
print(
    f"\nwith the crossing token dropped: chi-square {found:,.0f} of {degrees} degrees, limit {chi_square_limit(degrees):.0f}"
)
assert found > chi_square_limit(degrees)

# %% [markdown]
# ### The sampling lab
#
# Now with your own text and your own settings. Type a prompt, move the sliders, switch the order of the stages, draw many times over the theory.
# Tick *Predict first* and the result stays hidden after each change until you have said how many tokens are left. *Continue* writes a few texts with the settings as they are.

# %%
widgets.sampling_lab(live, PROMPT, temperature=1.3, top_p=0.8, draws=10_000)

# %% [markdown]
# *The figure: two bars for each of the twelve likeliest tokens, grey before the stages and blue after them, with an orange mark where 10,000 draws fell. A token that was cut names the stage that cut it. Below it a table: what each stage left and cut, and the entropy.*
#
# Try: which top-p leaves as many tokens as top-k 5? Does the answer hold for the prompt "It began to rain. Rosa wanted to"? How many tokens are left at a temperature of 3 with a min-p of 0.2?
#
# ### Break the pipeline
#
# These stages are a few lines each, and their mistakes leave a text that reads well. Predict first.

# %%
quiz.predict(
    "The repetition penalty divides every logit of the text so far by 1.2, negative ones too (which raises them). One text of 30 tokens is written with and one without this mistake, with the same seed, T = 0.8, top-k 6 and top-p 0.9. What is sure to show the mistake?",
    options=[
        "The text: it falls into a loop",
        "The text: nonsense from the first token on",
        "A test of the rule: no logit of the text so far may rise",
    ],
    answer="A test of the rule: no logit of the text so far may rise",
    reveal="Tokens with a negative logit are unlikely, and filters cut most of them. Below the two texts are even equal; another model, setting or seed may give two different ones, and both read well. The test of the rule sees the mistake at once.",
)

# %%
widgets.break_sampling(live, fault="crossing_token_dropped")

# %% [markdown]
# *The figure: for each new token, how far the distribution is from the right one (half the summed difference, 0 to 1). With the crossing token dropped it is above zero at 8 of the 30 places and reaches 0.36; without a fault it is zero everywhere.*
#
# All of them, side by side:

# %%
texts = {}
for fault in widgets.SAMPLING_FAULTS:
    result = widgets.run_sampling_fault(exact, fault, n_new=12 if FAST else 30)
    texts[fault] = result["text_wrong"]
    red = [name for name, passes in result["checks"].items() if not passes]
    print(f"{fault:23} red: {'; '.join(red) or 'none'}   largest distance {result['max_distance']:.3f}")
    print(f"    {'nothing is planted' if fault == 'none' else faults.FAULTS[fault].summary}")
    print(f"    {result['text_wrong'][:100]!r}")
    if MODEL == "primer":
        assert len(red) == (fault != "none"), "each mistake has a check that sees it, and only that one"
if MODEL == "primer":
    assert texts["penalty_without_sign"] == texts["none"], "the lesson: a mistake that does not show in the text"

# %% [markdown]
# Read the texts alone and you would accept them all. So test stages by their rule (does the nucleus reach p?) and draws by counts.

# %% [markdown]
# ### Exercise: `top_k_filter`
#
# *10 minutes · difficulty 1 of 5 · 2 points*
#
# The simplest filter: a fixed number of tokens stays. What a filter removes gets the logit minus infinity, so that softmax gives it probability 0 and shares the rest out anew.
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.
# The docstring names functions that do the whole job: while your answer is checked, calling one of them is an error.


# %% exercise="top_k_filter" minutes=10 difficulty=1 closed=["kvlab.sampling.top_k_filter"]
# exercise: top_k_filter
def top_k_filter(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Keep the k largest logits, remove the other tokens.

    logits: float, (V,), V >= 1, all finite. They stay as they are.
    Returns float (V,): a token that stays keeps its logit and its place, a removed one gets minus infinity.
    Tokens tied with the k-th largest all stay, so there can be more than k of them. k >= V keeps all tokens.
    k < 1 raises ValueError.
    You may not call here: kvlab.sampling.top_k_filter.
    """
    ### BEGIN SOLUTION
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    smallest_kept = logits.sort(descending=True).values[min(k, len(logits)) - 1]
    return torch.where(logits >= smallest_kept, logits, -math.inf)
    ### END SOLUTION


# %% [markdown] hints="top_k_filter"
# 1. Sort a short list of logits from large to small and point at the k-th. Which tokens stay, said with that one number?
# 2. All that are not below it stay: so ties stay together, and nothing has to be put back into order. Counting from 0, the k-th is number k - 1.
# 3. A k beyond the vocabulary is the vocabulary's size. Write the result into a new tensor. And what does your code do with a k of 0?

# %% check="top_k_filter" points=2
removed = -math.inf
five = torch.tensor([1.5, -0.5, 3.0, 0.25, 2.0])

with check.exercise("top_k_filter") as t:
    before = five.clone()
    top_k_filter(five, 2)
    t.unchanged(before, five, "top_k_filter must not change the logits that it gets")
    t.close(
        top_k_filter(five, 5),
        five,
        "k = V keeps all tokens, the smallest too, each with its own logit in its own place",
    )
    t.close(
        top_k_filter(five, 2),
        [removed, removed, 3.0, removed, 2.0],
        "k = 2: the two largest stay in their places, every other token gets minus infinity",
    )
    t.close(top_k_filter(five, 1), [removed, removed, 3.0, removed, removed], "k = 1: only the largest stays")
    t.close(top_k_filter(five, 4), [1.5, removed, 3.0, 0.25, 2.0], "k = 4 of 5: only the smallest goes")
    t.close(
        top_k_filter(torch.tensor([3.0, 1.0, 0.0, 1.0, 1.0]), 2),
        [3.0, 1.0, removed, 1.0, 1.0],
        "three tokens are tied with the 2nd largest: all of them stay",
    )
    t.close(
        top_k_filter(torch.tensor([2.0, 0.5, 2.0, 1.0]), 2),
        [2.0, removed, 2.0, removed],
        "k counts tokens, not different values: the two largest of these four are equal",
    )
    t.close(top_k_filter(five, 9), five, "k is larger than the vocabulary: all tokens stay, and that is no error")
    t.close(top_k_filter(torch.tensor([-1.25]), 1), [-1.25], "a vocabulary of one token: it stays")
    t.raises(ValueError, lambda: top_k_filter(five, 0), "k = 0 would remove every token")
    t.raises(
        ValueError, lambda: top_k_filter(five, -2), "a negative k is no number of tokens; slices count it from the end"
    )

# %% [markdown]
# ### Exercise: `top_p_filter`
#
# *20 minutes · difficulty 3 of 5 · 3 points*
#
# How many tokens are plausible differs from step to step. This filter lets probability decide: it keeps the most likely tokens until together they reach *p*. That set is called the **nucleus**. Only this cell is collected.


# %% exercise="top_p_filter" minutes=20 difficulty=3 closed=["kvlab.sampling.top_p_filter", "kvlab.fast.sampling.nucleus"]
# exercise: top_p_filter
def top_p_filter(logits: torch.Tensor, p: float) -> torch.Tensor:
    """Keep the smallest set of most likely tokens whose probabilities sum to at least p, remove the others.

    logits: float, (V,), V >= 1, all finite. They stay as they are. The probabilities are their softmax.
    Returns float (V,): a token that stays keeps its logit and its place, a removed one gets minus infinity.
    Tokens come in by falling probability. The token with which the sum reaches p belongs to the set, so at least one
    token always stays. Of tokens tied at the edge only as many stay as are needed, any of them.
    p = 1 keeps all tokens, also those too unlikely to move the sum in floating point.
    p outside (0, 1] raises ValueError: 0 and below, and above 1.
    You may not call here: kvlab.sampling.top_p_filter, kvlab.fast.sampling.nucleus.
    """
    ### BEGIN SOLUTION
    if not 0 < p <= 1:
        raise ValueError(f"p must be above 0 and at most 1, got {p}")
    falling, order = logits.double().softmax(-1).sort(descending=True)
    reached_before = falling.cumsum(-1) - falling  # the sum without the token itself
    stays = torch.empty(len(logits), dtype=torch.bool)
    stays[order] = (reached_before < p) | (p == 1)
    return torch.where(stays, logits, -math.inf)
    ### END SOLUTION


# %% [markdown] hints="top_p_filter"
# 1. Take the probabilities 0.5, 0.3, 0.15, 0.05 and p = 0.9. Add them up from the largest. With which token does the sum reach 0.9?
# 2. A token stays when the sum of those before it, without itself, is still below p. For the first token that sum is 0.
# 3. Sort, decide in sorted order, then carry the decision back to the places in the vocabulary: `sort` also returns where each value came from. With p = 1, rounding can let the sum reach 1 too early.

# %% check="top_p_filter" points=3
removed = -math.inf
shares = torch.tensor([0.05, 0.5, 0.15, 0.3])
four = shares.log() + 1.5  # the same probabilities: softmax does not see a constant
tied = torch.tensor([0.2, 0.4, 0.2, 0.2]).log()
tail = torch.tensor([-12.0, 9.0, -11.0, -14.0])


def only(*kept):
    """The logits of `four` at these ids, minus infinity elsewhere."""
    return [float(four[i]) if i in kept else removed for i in range(4)]


with check.exercise("top_p_filter") as t:
    before = four.clone()
    top_p_filter(four, 0.7)
    t.unchanged(before, four, "top_p_filter must not change the logits that it gets")
    t.close(top_p_filter(four, 1.0), four, "p = 1 keeps all tokens, with their own logits in their own places")
    t.close(
        top_p_filter(four, 0.2),
        only(1),
        "the most likely token reaches 0.2 alone: it stays in its place, every other token gets minus infinity",
    )
    t.close(
        top_p_filter(four, 0.7),
        only(1, 3),
        "0.5 is short of 0.7; 0.3 crosses it, and the token that crosses p belongs to the set",
    )
    t.close(
        top_p_filter(four, 0.9), only(1, 3, 2), "0.5 + 0.3 is short of 0.9; with 0.15 the sum reaches it: three tokens"
    )
    t.close(
        torch.as_tensor(top_p_filter(tied, 0.5)).sort(descending=True).values,  # sorted: which of the tied ones is open
        [math.log(0.4), math.log(0.2), removed, removed],
        "three tokens of 0.2 are tied at the edge; one of them is enough for 0.5, so one stays",
    )
    t.close(
        top_p_filter(tail, 1.0),
        tail,
        "p = 1 keeps all tokens, also those that are too unlikely to move the sum in floating point",
    )
    t.close(top_p_filter(torch.tensor([-1.25]), 0.4), [-1.25], "a vocabulary of one token: it stays")
    t.raises(
        ValueError, lambda: top_p_filter(four, 0.0), "p = 0 raises ValueError: any set reaches it, the empty one too"
    )
    t.raises(ValueError, lambda: top_p_filter(four, -0.3), "a negative p raises ValueError")
    t.raises(ValueError, lambda: top_p_filter(four, 1.2), "no set of tokens reaches a p above 1")

# %% [markdown]
# ### Exercise: `min_p_filter`
#
# *10 minutes · difficulty 2 of 5 · 1 point*
#
# Here the limit follows the most likely token: where the model is sure, few tokens come near it; where it is not, many do. Only this cell is collected.


# %% exercise="min_p_filter" minutes=10 difficulty=2 closed=["kvlab.sampling.min_p_filter", "kvlab.fast.sampling.likely"]
# exercise: min_p_filter
def min_p_filter(logits: torch.Tensor, min_p: float) -> torch.Tensor:
    """Keep tokens whose probability is at least min_p times the largest probability, remove the others.

    logits: float, (V,), V >= 1, all finite. They stay as they are. The probabilities are their softmax.
    Returns float (V,): a token that stays keeps its logit and its place, a removed one gets minus infinity.
    min_p = 0 keeps all tokens, min_p = 1 keeps the most likely one and all that are tied with it.
    min_p outside [0, 1] raises ValueError.
    You may not call here: kvlab.sampling.min_p_filter, kvlab.fast.sampling.likely.
    """
    ### BEGIN SOLUTION
    if not 0 <= min_p <= 1:
        raise ValueError(f"min_p must lie between 0 and 1, got {min_p}")
    share_of_largest = torch.exp(logits - logits.max())  # the sum under both probabilities cancels
    return torch.where(share_of_largest >= min_p, logits, -math.inf)
    ### END SOLUTION


# %% [markdown] hints="min_p_filter"
# 1. Probabilities 0.4, 0.3, 0.2, 0.1 and min_p = 0.6: the limit is 0.24. Which tokens stay?
# 2. min_p itself is not the limit; it is a share of the largest probability. "At least" keeps a token that is exactly as likely as the limit.
# 3. With min_p = 1 every tied maximum has to stay. If you work with logarithms: what is the logarithm of a min_p of 0?

# %% check="min_p_filter" points=1
removed = -math.inf
shares = torch.tensor([0.06, 0.4, 0.2, 0.3, 0.04])
five = shares.log() + 1.5  # the same probabilities: softmax does not see a constant
twice = torch.tensor([0.5, 2.0, -1.0, 2.0])

with check.exercise("min_p_filter") as t:
    before = five.clone()
    min_p_filter(five, 0.6)
    t.unchanged(before, five, "min_p_filter must not change the logits that it gets")
    t.close(min_p_filter(five, 0.0), five, "min_p = 0 keeps all tokens, with their own logits in their own places")
    t.close(
        min_p_filter(five, 0.25),
        [removed, float(five[1]), float(five[2]), float(five[3]), removed],
        "the limit is 0.25 of the largest probability, 0.4: tokens of at least 0.1 stay",
    )
    t.close(
        min_p_filter(five, 0.6),
        [removed, float(five[1]), removed, float(five[3]), removed],
        "the limit is 0.6 of 0.4: tokens of at least 0.24 stay",
    )
    t.close(
        min_p_filter(twice, 1.0),
        [removed, 2.0, removed, 2.0],
        "min_p = 1: the most likely tokens stay, all that are tied, since each is as likely as the largest",
    )
    t.close(min_p_filter(torch.tensor([-1.25]), 0.5), [-1.25], "a vocabulary of one token: it stays")
    t.raises(ValueError, lambda: min_p_filter(five, -0.1), "a min_p below 0 raises ValueError")
    t.raises(ValueError, lambda: min_p_filter(five, 1.1), "a min_p above 1 would remove every token")

# %%
claims.show(card=14)

# %% [markdown]
# ## Card 15 · Temperature
#
# The formula is older than language models. In a gas, a state of energy *E* has a probability in proportion to e to the power −*E* / *T* (Boltzmann). Put the logit in the place of −*E* and you have softmax with a temperature.
# Cold: the system sits in its best state. Hot: all states are alike. What lies between is measured by the entropy.

# %%
quiz.predict(
    "Logits 8.41 and 6.23: at T = 1 the first token is about 8.8 times as likely as the second. How many times at T = 0.5?",
    options=["4.4 times", "17.7 times", "78.3 times"],
    answer=lambda: f"{token_probability([8.41, 6.23], 0, 0.5) / token_probability([8.41, 6.23], 1, 0.5):.1f} times",
    reveal="Halving the temperature doubles the difference of the logits, so the ratio is squared. A temperature acts on ratios as a power, not as a factor.",
)

# %% [markdown]
# The guide prints probabilities of its four tokens at several temperatures. Softmax needs nothing but the logits, so we can check each row.

# %%
printed = [
    (1.0, [0.62, 0.18, 0.09, 0.04], "card 14"),
    (0.3, [0.993, 0.004, 0.002, 0.001], "card 15"),
    (1.0, [0.617, 0.083, 0.058, 0.011], "card 15"),
    (2.0, [0.342, 0.189, 0.158, 0.071], "card 15"),
]
print(f"logits {guide_logits.tolist()}\n\n{'T':>4}  {'as printed':34}{'sum':>7}   computed{'':27}second : first")
for temperature, row, where in printed:
    ours = sampling.temperature_probs(guide_logits, temperature)
    said, right = row[1] / row[0], float(ours[1] / ours[0])
    print(
        f"{temperature:>4}  {'  '.join(f'{p:.3f}' for p in row):34}{sum(row):>7.3f}   "
        f"{'  '.join(f'{p:.4f}' for p in ours.tolist()):35}{said:.4f}, right {right:.4f}   ({where})"
    )
    assert abs(float(ours.sum()) - 1) < 1e-12
    assert abs(right - math.exp((6.23 - 8.41) / temperature)) < 1e-12, (
        "the ratio depends on the difference and on T alone"
    )
    assert abs(said / right - 1) > 0.1, "no tail of other tokens can make this row right"
assert abs(sum(printed[2][1]) - 0.769) < 1e-9

# %% [markdown]
# None of the four rows can come from these logits. The guide also calls its row for T = 1 a distribution; it sums to 0.769 (and the row for T = 2 to 0.760).
# A missing tail could explain the sums, but not the ratios in the last column. Below the curve of the entropy, for these four tokens and for live distributions of the model.

# %%
temperatures = [0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0]
curves = {"the four logits": guide_logits}
for text in (PROMPT, "Grandma asked Nick to go to the", "It began to rain. Rosa wanted to"):
    curves[f"after {text!r}"] = logits_after(text)[1]
series = {}
for name, values in curves.items():
    entropies = [sampling.entropy_at(values, t) for t in temperatures]
    assert all(a < b for a, b in itertools.pairwise(entropies)), "hotter is more uncertain, always"
    assert entropies[-1] < math.log(len(values)), "and never more so than all tokens alike"
    series[name] = temperatures, entropies
    print(
        f"{name:42} entropy {entropies[2]:.3f} at T = 0.3, {entropies[5]:.3f} at 1, {entropies[7]:.3f} at 2; most {math.log(len(values)):.3f}"
    )
assert sampling.temperature_probs(guide_logits, 1e9).allclose(torch.full((4,), 0.25, dtype=torch.float64))
assert abs(sampling.entropy_at(guide_logits, 1.0) - claims.row("15.09")["ours"]) < 1e-5

plots.lines(series, "temperature", "entropy (nats)", "Entropy against temperature", logx=True)

# %% [markdown]
# *The figure: four curves of entropy against temperature from 0.1 to 10. All rise. That of the four logits flattens below ln 4; the others go on rising towards ln of the vocabulary, some from near zero.*
#
# No temperature is special: no curve has a step anywhere. What a temperature does depends on where the logits were.

# %% [markdown]
# ### Exercise: `temperature_probs`
#
# *10 minutes · difficulty 2 of 5 · 2 points*
#
# Temperature divides the logits before softmax. Nothing is removed: low temperatures sharpen the distribution, high ones flatten it. Only this cell is collected.


# %% exercise="temperature_probs" minutes=10 difficulty=2 closed=["kvlab.sampling.temperature_probs", "kvlab.sampling.apply_temperature"]
# exercise: temperature_probs
def temperature_probs(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Probabilities of the tokens at a temperature: the softmax of logits / temperature.

    logits: float, (V,), V >= 1, all finite. They stay as they are.
    Returns float (V,), sum 1. Low temperatures must not overflow: those down to 0.004 are graded.
    temperature = 0 is greedy, by convention: probability 1 at the largest logit, at the first of them when several are
    tied, else 0.
    A negative temperature raises ValueError.
    You may not call here: kvlab.sampling.temperature_probs, kvlab.sampling.apply_temperature.
    """
    ### BEGIN SOLUTION
    if temperature < 0:
        raise ValueError(f"a temperature is 0 or above, got {temperature}")
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(), len(logits)).to(logits.dtype)
    return torch.softmax(logits / temperature, dim=-1)
    ### END SOLUTION


# %% [markdown] hints="temperature_probs"
# 1. Write down the formula for softmax and put logits / temperature in the place of the logits.
# 2. Dividing by 0 gives infinities, and their softmax is not a number: temperature 0 needs a case of its own. Which of several equal maxima does `argmax` give?
# 3. exp(1000) overflows. Softmax does not change when the same number is subtracted from every logit: subtract the largest first, or use a softmax that does so.

# %% check="temperature_probs" points=2
four = torch.tensor([2.0, 0.5, -1.0, 1.0])


def softened(temperature):
    """Each probability as 1 / (sum of the odds against it), in float64."""
    values = four.tolist()
    return [1 / sum(math.exp((other - mine) / temperature) for other in values) for mine in values]


with check.exercise("temperature_probs") as t:
    before = four.clone()
    temperature_probs(four, 2.0)
    t.unchanged(before, four, "temperature_probs must not change the logits that it gets")
    t.close(temperature_probs(four, 1.0), softened(1.0), "temperature 1 is the softmax of the logits as they are")
    t.close(temperature_probs(four, 2.0), softened(2.0), "temperature 2: logits / 2, which flattens the distribution")
    t.close(
        temperature_probs(four, 0.4), softened(0.4), "temperature 0.4: logits / 0.4, which sharpens the distribution"
    )
    t.close(
        temperature_probs(four, 0.0),
        [1.0, 0.0, 0.0, 0.0],
        "temperature 0 is greedy: probability 1 for the largest logit, 0 for all others; dividing by 0 is no way there",
    )
    t.close(
        temperature_probs(torch.tensor([1.0, 3.0, 2.0, 3.0]), 0),
        [0.0, 1.0, 0.0, 0.0],
        "temperature 0 and two equal maxima: the first one gets everything, they do not share",
    )
    t.close(
        temperature_probs(torch.tensor([8.0, 7.99, -8.0]), 0.005),
        [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2)), 0.0],
        "a small temperature makes large numbers: subtract the maximum before exp, or it overflows",
    )
    t.close(temperature_probs(torch.tensor([-1.25]), 0.7), [1.0], "a vocabulary of one token: its probability is 1")
    t.raises(ValueError, lambda: temperature_probs(four, -0.5), "a negative temperature would turn the order around")

# %%
claims.show(card=15)

# %% [markdown]
# ## Card 16 · Greedy, beam search, sampling
#
# The probability of a text is the product of the probabilities of its tokens, each after all before it. As logarithms they add up: the **log probability** of a text, 0 or below.
#
# - **Greedy** takes the likeliest token each time. The likeliest text may begin with another one.
# - **Beam search** keeps the *B* likeliest texts so far, its beams, and goes on with all of them. A beam that has written the **end token** is not extended any more, but still competes for its place.
# - **Sampling** does not look for a likely text at all. It draws.

# %%
quiz.predict(
    "Beam search with two beams against greedy decoding, which is one beam. Can the text that two beams find be less likely than the greedy one?",
    options=["No, never", "Yes, it happens"],
    answer="Yes, it happens",
    reveal="Both places can go to texts that look better for a moment. The greedy text falls out, and nothing brings it back. A cell further down counts how often beams find a likelier text here.",
)

# %%
A, B, C = 0, 1, 2
tree = {
    (): {A: 0.40, B: 0.35, C: 0.25},
    (A,): {A: 0.34, B: 0.33, C: 0.33},
    (B,): {A: 0.50, B: 0.50},
    (C,): {A: 0.34, B: 0.33, C: 0.33},
}


def small_model(tokens):
    """Log probabilities of 10 tokens: after A the third token is certain, after B and C all ten are alike."""
    new = tuple(tokens[1:])
    row = tree.get(new) or ({A: 1.0} if new[0] == A else dict.fromkeys(range(10), 0.1))
    return torch.tensor([row.get(token, 0.0) for token in range(10)], dtype=torch.float64).log()


for n_beams in (1, 2, 3):
    tokens, score = sampling.beam_search(small_model, [9], n_beams, 3, None)[0]
    print(
        f"{n_beams} beam(s): {' '.join('ABC'[t] if t < 3 else str(t) for t in tokens[1:])}   probability {math.exp(score):.4f}"
    )
    assert abs(math.exp(score) - {1: 0.136, 2: 0.0175, 3: 0.136}[n_beams]) < 1e-9

# %% [markdown]
# After the first step, two beams hold A (0.40) and B (0.35). After the second the two children of B have 0.175 each, those of A at most 0.136: A is gone. Then B leads nowhere (the third token, 8, is one of ten equal ones). The search began with token 9, which only marks the start.
#
# Now the real model, and the price. Beam search asks for the next log probabilities of several texts that begin alike. With a **paged cache** (notebook 03) the beams share the blocks of what they have in common. A beam that goes on in two ways is forked, one that is dropped gives its blocks back, and one pass takes the newest tokens of all.

# %%
long_start = "Once there was a shy girl named Vera. It was a sunny day. The birds sang in the trees. Vera had a"
n_new = 8 if FAST else 16


@torch.no_grad()
def ask(tokens):
    """Log probabilities of the next token, by a pass over all tokens."""
    asked.append(len(tokens))
    return exact(torch.tensor(tokens), last_only=True)[-1].log_softmax(-1)


print(f"{len(tokenizer.encode(long_start))} tokens of prompt, {n_new} new ones, float64\n")
print("        positions computed           blocks in use at once   seconds")
print("beams   no cache   with one   passes   shared    each alone   no cache   with one")
for n_beams in (1, 4, 8):
    asked, clock = [], time.perf_counter()
    plain = sampling.beam_search(ask, tokenizer.encode(long_start), n_beams, n_new, tokenizer.eos_id)
    without, clock = time.perf_counter() - clock, time.perf_counter()
    search = beams.beam_search(exact, long_start, n_beams, n_new)
    cached = time.perf_counter() - clock
    print(
        f"{n_beams:>5}{sum(asked):>11,}{search.positions_processed:>11}{search.passes:>9}{search.most_blocks:>9}"
        f"{search.most_blocks_unshared:>14}{without:>11.2f}{cached:>11.2f}"
    )
    assert [tokens for tokens, _ in search.beams] == [tokens for tokens, _ in plain], "the same beams"
    assert max(abs(a - b) for (_, a), (_, b) in zip(search.beams, plain, strict=True)) < 1e-9
    assert search.positions_processed <= len(search.prompt_ids) + n_beams * (n_new - 1) < sum(asked)
    assert search.most_blocks <= search.most_blocks_unshared

# %% [markdown]
# So is beam search with four beams four times as expensive? It computes about four times the positions of decoding, but in the same number of passes, and the prompt only once.
# Where a pass waits for the weights, as on a GPU with few texts, four beams take hardly longer than one: the bytes of a step of Llama-3 8B grow by 3 % at 1,024 tokens, even if the four share nothing. What grows in memory is the part of K and V that the beams do not share.
#
# The tree below shows who fell out when. Change the text and the number of beams.

# %%
widgets.beam_tree(live, PROMPT, n_beams=4, n_new=6)

# %% [markdown]
# *The figure: a tree from left to right, one column for each new token, the best beam on top. Each box has a token and the log probability so far; solid lines lead to the beams that are left at the end, dashed ones to beams that fall out.*
#
# Does it find likelier texts here? A few beginnings, the log probability of the best text that each number of beams finds; then a count over stories that the model was not trained on.

# %%
n_new = 24
best = {}
print(
    f"log probability of the {n_new} new tokens\n\n{'beginning':36}"
    + "".join(f"{f'{b} beam(s)':>11}" for b in (1, 2, 4, 8))
)
for text in (PROMPT, "The doctor") if FAST else (PROMPT, "Grandma asked Nick to go to the", "The doctor"):
    best[text] = [beams.beam_search(exact, text, b, n_new, eos=-1).beams[0][1] for b in (1, 2, 4, 8)]
    print(f"{text!r:36}" + "".join(f"{found:>11.2f}" for found in best[text]))
if MODEL == "primer":
    assert best[PROMPT][0] < best[PROMPT][2], "four beams find a likelier text"
    assert best["The doctor"][0] > best["The doctor"][3], (
        "and here eight beams find one that is less likely than greedy"
    )

stories = itertools.islice(corpus.documents(dataset.HELD_OUT_SEED + 1000 * SEED + 77), 8 if FAST else 24)
gains = []
for story in stories:
    text = " ".join(story.split()[:8])
    one, four = (beams.beam_search(exact, text, b, n_new, eos=-1).beams[0][1] for b in (1, 4))
    gains.append(four - one)
likelier, less = sum(gain > 1e-9 for gain in gains), sum(gain < -1e-9 for gain in gains)
print(
    f"\n{len(gains)} other beginnings, 4 beams against greedy: likelier {likelier}, "
    f"the same {len(gains) - likelier - less}, less likely {less}"
)

# %% [markdown]
# All cases occur: likelier, the same, and, with a real model as in the small example, less likely. In the count the beams mostly find the greedy text again; where they find another one, it is nearly always likelier.
#
# Now the three ways side by side: one beginning continued by greedy decoding, by beam search, and by drawing eight times. The score is the log probability per new token, by the model itself without temperature or filters.
# **Distinct-2** is the number of different pairs of neighbouring tokens divided by all pairs, over all texts together: 1 when no pair comes twice, near 1/8 when eight texts are alike.


# %%
def write(of, asked, n_new):
    """The new tokens of one text for each (beginning, settings), all texts in one batch."""
    engine = Engine(of, n_blocks=700, max_seqs=64, token_budget=1024, clock=StepClock())
    for number, (text, setup) in enumerate(asked):
        engine.submit(Request(str(number), tokenizer.encode(text), n_new, setup, ignore_eos=True))
    while not engine.idle:
        engine.step()
    return [run.output for run in engine.requests.values()]


@torch.no_grad()
def score(new):
    """Log probability per token of new tokens after the prompt."""
    rows = exact(torch.tensor([*ids, *new[:-1]])).log_softmax(-1)[-len(new) :]
    return float(rows[torch.arange(len(new)), new].mean())


n_texts = 8
setups = {
    "top-p 0.9": [SamplingSettings(top_p=0.9, seed=SEED + n) for n in range(n_texts)],
    "T = 1": [SamplingSettings(seed=SEED + n) for n in range(n_texts)],
    "T = 1.5": [SamplingSettings(temperature=1.5, seed=SEED + n) for n in range(n_texts)],
}
found = {"greedy": write(exact, [(PROMPT, generate.GREEDY)], n_new)}
found["beam search, 8 beams"] = [
    tokens[len(ids) :] for tokens, _ in beams.beam_search(exact, PROMPT, n_texts, n_new, eos=-1).beams
]
for name, several in setups.items():
    found[name] = write(exact, [(PROMPT, setup) for setup in several], n_new)
scores = {name: [score(new) for new in texts] for name, texts in found.items()}
variety = {name: sampling.distinct_n_of_all(texts, 2) for name, texts in found.items() if len(texts) > 1}
print(f"{'':22}{'texts':>6}{'log probability per token: best':>33}{'mean':>8}{'distinct-2 of all':>19}")
for name, texts in found.items():
    pairs = f"{variety[name]:.2f}" if name in variety else "-"  # one text cannot be compared with eight
    print(f"{name:22}{len(texts):>6}{max(scores[name]):>33.3f}{np.mean(scores[name]):>8.3f}{pairs:>19}")
print()
for name in ("greedy", "beam search, 8 beams", "T = 1"):
    for new in found[name][:2]:
        print(f"{name:22}{tokenizer.decode(new)!r}")
assert variety["beam search, 8 beams"] < variety["T = 1"], "the beams resemble each other"
assert max(scores["beam search, 8 beams"]) > np.mean(scores["T = 1"]), "likely text is what it looks for"
assert found["T = 1"] == write(exact, [(PROMPT, setup) for setup in setups["T = 1"]], n_new), "a seed repeats the draws"

# %% [markdown]
# Three aims, three results. Beam search finds likely texts, eight that resemble each other. Drawing gives eight different texts, each less likely than the best beam, most of them far less. One drawn text even beats greedy (−0.491 against −0.514 with this model), which shows how far greedy is from the likeliest text. Filters lie between. None is the best text: a likely text is not a good one, and card 17 measures what likely texts do when they get long.
# The draws are random, not unstable: the same **seed** gave the same eight texts again. On a server even greedy text can differ from run to run, because the batch changes the order of additions inside the model and two nearly equal logits swap.

# %% [markdown]
# ### Exercise: `beam_search`
#
# *35 minutes · difficulty 4 of 5 · 3 points*
#
# Greedy decoding takes the best token and forgets the rest. Beam search carries several sequences at once, and lets them compete after each token. Only this cell is collected.


# %% exercise="beam_search" minutes=35 difficulty=4 closed=["kvlab.sampling.beam_search"]
# exercise: beam_search
def beam_search(
    next_log_probs, start: list[int], n_beams: int, max_new: int, eos: int
) -> list[tuple[list[int], float]]:
    """Continuations of `start` with a high total log probability, found with n_beams sequences (beams) at a time.

    next_log_probs(tokens): takes the whole list of ids so far, `start` included, and returns the log probabilities of
    the next token, a 1-D float tensor. start: ids, not empty, not ending in eos. It stays as it is.
    There is one beam at first: `start`, with score 0. At each step every beam is extended by every token; a beam's score
    is the sum of the log probabilities of its new tokens. The n_beams best of all these extensions are kept, whichever
    beams they come from; where there are fewer, all are kept.
    A beam whose newest new token is eos has ended: it is not extended, it keeps its score, and it competes with the
    extensions of the others for the n_beams places. Scores are compared as they are, without a length penalty.
    In all graded cases the log probabilities are finite, and no two scores tie where it matters.
    Stops after max_new steps, and earlier when all kept beams have ended: then next_log_probs is not called any more.
    Returns [(tokens, score), ...] of the kept beams, best first; tokens begin with `start` and include an eos.
    max_new = 0 gives [(start, 0.0)]. An eos inside `start` ends nothing.
    n_beams < 1 or max_new < 0 raises ValueError.
    You may not call here: kvlab.sampling.beam_search.
    """
    ### BEGIN SOLUTION
    if n_beams < 1 or max_new < 0:
        raise ValueError(f"need n_beams >= 1 and max_new >= 0, got {n_beams} and {max_new}")
    beams = [(list(start), 0.0, False)]
    for _ in range(max_new):
        rivals = [beam for beam in beams if beam[2]]
        if len(rivals) == len(beams):
            break
        for tokens, score, ended in beams:
            if not ended:
                steps = next_log_probs(list(tokens)).tolist()
                rivals += [([*tokens, token], score + step, token == eos) for token, step in enumerate(steps)]
        beams = sorted(rivals, key=lambda beam: beam[1], reverse=True)[:n_beams]
    return [(tokens, score) for tokens, score, _ in beams]
    ### END SOLUTION


# %% [markdown] hints="beam_search"
# 1. Play it on paper with 3 tokens and 2 beams: after the first step 2 beams, then 6 extensions, sorted, 2 kept. Both may come from the same beam.
# 2. For each beam keep its tokens, its score, and whether it has ended. In each step make one list of candidates: the ended beams as they are, and all extensions of the others. Sort it by score and cut it.
# 3. The model gets all tokens, not only the newest. Before each step, look whether a beam is left that has not ended. Make a new list for each extension: a list that two beams share is changed for both.

# %% check="beam_search" points=3
EOS = 4


class Reader:
    """Log probabilities of 5 tokens, made from all tokens so far. Notes what it was asked about."""

    def __init__(self, *rows):
        self.rows, self.asked = dict(rows), []

    def __call__(self, tokens):
        tokens = tuple(int(token) for token in tokens)
        assert len(self.asked) < 500, "the model was called 500 times: a loop without an end?"
        self.asked.append(tokens)
        if tokens in self.rows:  # written by hand: probabilities
            return torch.tensor(self.rows[tokens], dtype=torch.float64).log()
        values = np.random.default_rng([len(tokens), *tokens]).normal(size=5) * 1.5
        values[EOS] -= 30  # so that nothing ends by itself
        return torch.tensor(values).log_softmax(-1)


def total(model, tokens, n_start):
    """The log probabilities of all tokens after the first n_start, added up."""
    return math.fsum(float(model(tokens[:i])[tokens[i]]) for i in range(n_start, len(tokens)))


def one_by_one(n_beams, start, n_steps):
    """The rule with full lists: in each step every text that is one token longer, its total counted from scratch."""
    model, texts = Reader(), [start]
    for _ in range(n_steps):
        longer = [[*text, token] for text in texts for token in range(5)]
        longer.sort(key=lambda text: total(model, text, len(start)))
        texts = longer[::-1][:n_beams]
    return [(text, total(model, text, len(start))) for text in texts]


FIRST, A, B = ([0.45, 0.4, 0.1, 0.04, 0.01], [0.3, 0.25, 0.2, 0.2, 0.05], [0.02, 0.03, 0.9, 0.04, 0.01])
trap = ((3, 2), FIRST), ((3, 2, 0), A), ((3, 2, 1), B)  # the best first token leads to poor second ones
ends = ((3,), [0.5, 0.02, 0.03, 0.05, 0.4]), ((3, 0), [0.02, 0.7, 0.13, 0.14, 0.01])
falls = ((3,), [0.6, 0.05, 0.05, 0.05, 0.25]), ((3, 0), [0.02, 0.52, 0.44, 0.01, 0.01])
falls += ((3, 0, 1), [0.5, 0.1, 0.2, 0.15, 0.05]), ((3, 0, 2), [0.1, 0.45, 0.2, 0.2, 0.05])

with check.exercise("beam_search") as t:
    t.close(beam_search(Reader(), [3, 2], 2, 0, EOS), [([3, 2], 0.0)], "max_new = 0: the start alone, with score 0")
    t.close(
        beam_search(Reader(*trap), [3, 2], 1, 1, EOS),
        [([3, 2, 0], math.log(0.45))],
        "one beam, one step: the start and its most likely next token, with the log probability of that token",
    )
    t.close(
        beam_search(Reader(), [3, 1], 1, 4, EOS),
        one_by_one(1, [3, 1], 4),
        "one beam is greedy: the best token after all that is there, the start included; its score adds up the new tokens",
    )
    t.close(
        beam_search(Reader(*trap), [3, 2], 3, 1, EOS),
        [([3, 2, 0], math.log(0.45)), ([3, 2, 1], math.log(0.4)), ([3, 2, 2], math.log(0.1))],
        "one step: the three most likely tokens, best first",
    )
    t.close(
        beam_search(Reader(*trap), [3, 2], 2, 2, EOS),
        [([3, 2, 1, 2], math.log(0.4 * 0.9)), ([3, 2, 0, 0], math.log(0.45 * 0.3))],
        "the extensions of all beams compete by their total score, so the second best first token wins in the end",
    )
    t.close(
        beam_search(Reader(), [0, 2, 1], 3, 4, EOS),
        one_by_one(3, [0, 2, 1], 4),
        "three beams, four steps: after each step the three best of all extensions are kept",
    )
    t.close(
        beam_search(Reader(*ends), [3], 2, 2, EOS),
        [([3, EOS], math.log(0.4)), ([3, 0, 1], math.log(0.5 * 0.7))],
        "an ended beam keeps its eos, its score and, while that is good enough, its place; the other goes on; no score is divided by length",
    )
    t.close(
        beam_search(Reader(*falls), [3], 2, 3, EOS),
        [([3, 0, 1, 0], math.log(0.6 * 0.52 * 0.5)), ([3, 0, 2, 1], math.log(0.6 * 0.44 * 0.45))],
        "an ended beam has to compete: in step 2 both places go to extensions of one beam, the ended one falls out for good: [3, 4] is not in the result",
    )
    t.equal(len(beam_search(Reader(), [1], 9, 1, EOS)), 5, "9 beams, but only 5 extensions: all of them are kept")
    t.close(
        beam_search(Reader(*trap, ((EOS, 3), FIRST)), [EOS, 3], 1, 1, EOS),
        [([EOS, 3, 0], math.log(0.45))],
        "an eos inside the start ends nothing: only a new token does",
    )
    model = Reader(((3,), [0.1, 0.05, 0.05, 0.1, 0.7]))
    t.close(
        beam_search(model, [3], 1, 50, EOS), [([3, EOS], math.log(0.7))], "the only beam has ended: it stays as it is"
    )
    t.equal(
        sorted(set(model.asked)), [(3,)], "all kept beams have ended after one step: the model is not called any more"
    )
    start = [3, 2]
    beam_search(Reader(*trap), start, 1, 2, EOS)
    t.unchanged([3, 2], start, "beam_search must not change the start that it gets")
    t.raises(ValueError, lambda: beam_search(Reader(), [3], 0, 2, EOS), "n_beams = 0: nothing could be kept")
    t.raises(ValueError, lambda: beam_search(Reader(), [3], -1, 2, EOS), "a negative n_beams raises ValueError")
    t.raises(ValueError, lambda: beam_search(Reader(), [3], 2, -1, EOS), "a negative max_new raises ValueError")

# %%
claims.show(card=16)

# %% [markdown]
# ## Card 17 · Repetition penalty and logit bias
#
# Models repeat themselves. When, and what helps? We need a measure first: **distinct-4** of one text, the number of different runs of four tokens divided by all runs of four. A text that never repeats four tokens in a row has 1.

# %%
quiz.predict(
    "This model writes a long text at temperatures 0, 1 and 2. Where does it repeat itself most?",
    options=["at T = 0", "at T = 1", "at T = 2"],
    answer="at T = 0",
    reveal="A loop is likely text, and greedy decoding always takes the likeliest step into it. Chance breaks loops. (It also breaks the sentences.)",
)

# %%
start = "Once there was a shy girl named Vera. Vera had a"
beginnings = [start, "Grandma asked Nick to go to the", "One day Tom", "The doctor sang"][: 2 if FAST else 4]
n_new = 60 if FAST else 80
temperatures, penalties = [0.0, 0.5, 1.0, 1.5, 2.0], [1.0, 1.3]
grid = [(number, t, p) for number in range(len(beginnings)) for t in temperatures for p in penalties]
asked = [(beginnings[n], SamplingSettings(temperature=t, repetition_penalty=p, seed=SEED + n)) for n, t, p in grid]
runs = dict(zip(grid, write(live, asked, n_new), strict=True))


def repeats(temperature, penalty):
    """Distinct-4 of the texts at one setting, on average."""
    return float(np.mean([sampling.distinct_n(runs[n, temperature, penalty], 4) for n in range(len(beginnings))]))


searched = [beams.beam_search(live, text, 4, n_new, eos=-1).new_tokens() for text in beginnings]
beamed = float(np.mean([sampling.distinct_n(tokens, 4) for tokens in searched]))
print(f"distinct-4 of {n_new} new tokens, mean of {len(beginnings)} texts\n")
print(f"{'temperature':>22}" + "".join(f"{t:>8}" for t in temperatures))
for penalty in penalties:
    print(f"{f'penalty {penalty}':>22}" + "".join(f"{repeats(t, penalty):>8.3f}" for t in temperatures))
print(f"{'beam search, 4 beams':>22}{beamed:>8.3f}\n")
for temperature in (0.0, 2.0):
    print(f"T = {temperature}: {tokenizer.decode(runs[0, temperature, 1.0])[:180]!r}")
assert repeats(0.0, 1.0) < repeats(2.0, 1.0) and beamed < repeats(2.0, 1.0)
assert repeats(0.0, 1.0) < repeats(0.0, 1.3), "the penalty breaks the loop without any heat"

plots.lines(
    {f"penalty {p}": (temperatures, [repeats(t, p) for t in temperatures]) for p in penalties},
    "temperature",
    "distinct-4 (share of different runs of 4 tokens)",
    "Repetition is a matter of low temperatures",
)

# %% [markdown]
# *The figure: distinct-4 against the temperature from 0 to 2, without a penalty and with one of 1.3. Without, the curve is lowest at 0 and high from 0.5 on, where it wobbles, as the texts are few; with the penalty it is near 1 everywhere.*
#
# The guide warns of repetition at high temperatures. That has it the wrong way round. Beam search, which looks for likely text, repeats itself about as much as greedy decoding.
# (This model learned from stories and riddles that repeat by themselves. So even a sound text may fall short of 1 without a penalty.)
#
# **What the penalty does.** A token of the text so far gets its logit divided by the penalty when it is positive, multiplied when it is negative. Whether a logit is positive depends on where 0 is, and softmax does not care where 0 is. So this happens:

# %%
for shift in (0.0, 5.0, -10.0):
    moved = guide_logits + shift
    plain, punished = moved.softmax(-1), sampling.apply_repetition_penalty(moved, [0], 1.3).softmax(-1)
    print(f"all logits {shift:+5.1f}: cat {plain[0]:.4f}, with a penalty of 1.3 on cat {punished[0]:.4f}")
    assert plain.allclose(guide_logits.softmax(-1)), "softmax does not see the shift"
shifted = sampling.apply_repetition_penalty(guide_logits + 5, [0], 1.3).softmax(-1)[0]
assert abs(float(sampling.apply_repetition_penalty(guide_logits, [0], 1.3).softmax(-1)[0]) - 0.4112) < 1e-4
assert abs(float(shifted) - 0.4112) > 0.05, "the penalty does"

# %% [markdown]
# A penalty of 1.3 is therefore no fixed strength. It depends on where the zero of the logits lies, which softmax ignores.
#
# **What the bias does.** A number *b* added to a logit multiplies the **odds** of its token, probability divided by one minus probability, by e to the power *b*. Ten gives a factor of 22,026, on the odds.

# %%
print(f"{'probability':>12}{'with +10':>12}{'x probability':>16}{'x odds':>12}")
for p in (1e-6, 0.0001, 0.01, 0.5, 0.9):
    after = probability_with_bias(p, 10)
    odds = (after / (1 - after)) / (p / (1 - p))
    print(f"{p:>12}{after:>12.6f}{after / p:>16,.1f}{odds:>12,.0f}")
    assert abs(odds / math.exp(10) - 1) < 1e-6, "the odds grow by the same factor everywhere"
token = int(logits.softmax(-1).topk(3).indices[2])
p, after = float(logits.softmax(-1)[token]), float(sampling.apply_logit_bias(logits, {token: 10}).softmax(-1)[token])
print(f"\nlive, after {PROMPT!r}: {piece(token)} from {p:.4f} to {after:.6f}")
assert abs(after - probability_with_bias(p, 10)) < 1e-9

pair = logits.softmax(-1).topk(2).indices.tolist()
forced = sampling.apply_logit_bias(logits, dict.fromkeys(pair, 100.0)).softmax(-1)
print(f"+100 on two tokens forces a choice between them: {', '.join(f'{piece(t)} {forced[t]:.4f}' for t in pair)}")
assert float(forced[pair].sum()) > 1 - 1e-9
assert abs(float(forced[pair[0]] / forced[pair[1]]) / math.exp(float(logits[pair[0]] - logits[pair[1]])) - 1) < 1e-9

word = " frame"
vocabulary = {tokenizer.text_bytes(t) for t in range(live.config.vocab_size)}


def ways(text):
    """In how many ways the vocabulary can write these bytes."""
    counted = [1] + [0] * len(text)
    for end in range(1, len(text) + 1):
        counted[end] = sum(counted[begin] for begin in range(end) if text[begin:end] in vocabulary)
    return counted[-1]


print(
    f"{word!r} is token {tokenizer.encode(word, bos=False)}; the vocabulary can write it in {ways(word.encode())} ways"
)
assert ways(word.encode()) > 1, "a ban on one id leaves the others"

# %% [markdown]
# Look at the first and the last row of the table: a factor of about 22,000 and one of 1.1, for the same bias. Where a token has 0.01, ten more on its logit make it nearly certain.
# A choice forced by a bias keeps the ratio that the model gave the two tokens. A ban by bias stops one id; a word has others, with a capital, without the space, or in pieces.
#
# **Your own stage.** Whatever the settings lack, a **logits processor** can do: a function that gets the ids so far and the logits, and returns logits. Grammars that allow only valid JSON work like this. The one below forbids to repeat a run of four tokens.


# %%
def no_repeated_four(ids, logits):
    """Forbid each token that would complete a run of four tokens which is there already."""
    last = ids[-3:]
    for i in range(len(ids) - 3):
        if ids[i : i + 3] == last:
            logits[ids[i + 3]] = -math.inf
    return logits


free = generate.generate_cached(live, PROMPT, n_new, ignore_eos=True)  # a beginning that greedy decoding loops on
bound = SamplingSettings(temperature=0, processors=[no_repeated_four])
held = generate.generate_cached(live, PROMPT, n_new, bound, ignore_eos=True)
for name, run in (("greedy", free), ("with the processor", held)):
    print(f"{name:20} distinct-4 {sampling.distinct_n(run.prompt_ids + run.tokens, 4):.3f}   {run.text[-90:]!r}")
assert sampling.distinct_n(held.prompt_ids + held.tokens, 4) == 1
if MODEL == "primer":
    assert sampling.distinct_n(free.prompt_ids + free.tokens, 4) < 0.7, "greedy loops here"

# %% [markdown]
# **Where to stop.** A **stop string** ends the answer when the model writes it. Text comes in tokens, and a stop string may lie across several: whoever streams must hold back what could be its beginning.

# %%
told = generate.generate_cached(live, start, n_new, ignore_eos=True).text
stop = next(told[i : i + 9] for i in range(20, len(told)) if told[i] == " ")  # something that the model will write
pieces = list(generate.stream(live, start, n_new, stop=[stop]))
print(f"stop string {stop!r}\n\n{'token':14} text that can be shown")
for step in pieces[-6:]:
    print(f"{piece(step.token):14} {step.text!r}")
text = "".join(step.text for step in pieces)
assert text == told[: told.index(stop)] and len(pieces) < n_new, "all before the stop string, and nothing of it"
with faults.plant("stop_within_a_token"):
    careless = "".join(step.text for step in generate.stream(live, start, n_new, stop=[stop]))
print(f"\nheld back: it ends with {text[-24:]!r}\nnot held:  then comes   {careless[len(text) :][:40]!r}")
assert careless != text and careless.startswith(text), "looked for in each piece alone, it slips through in part"

# %% [markdown]
# ### Exercise: `apply_repetition_penalty`
#
# *15 minutes · difficulty 2 of 5 · 2 points*
#
# The penalty makes tokens less likely that the text already has. Only this cell is collected.


# %% exercise="apply_repetition_penalty" minutes=15 difficulty=2 closed=["kvlab.sampling.apply_repetition_penalty"]
# exercise: apply_repetition_penalty
def apply_repetition_penalty(
    logits: torch.Tensor, context_ids: list[int] | torch.Tensor, penalty: float
) -> torch.Tensor:
    """Lower the logits of the tokens that occur in the context.

    logits: float, (V,), V >= 1, all finite.   context_ids: a list of ints or a 1-D LongTensor, may be empty.
    Both stay as they are. Returns float (V,).
    A token of the context has its logit divided by penalty when it is positive, multiplied by it when it is negative;
    0 stays 0. Each token counts once, however often it occurs. All other logits stay.
    penalty is above 0: 1 changes nothing, below 1 it favours the tokens of the context. 0 and below raise ValueError.
    Ids below 0, or not below V, raise ValueError.
    You may not call here: kvlab.sampling.apply_repetition_penalty.
    """
    ### BEGIN SOLUTION
    if penalty <= 0:
        raise ValueError(f"the penalty must be above 0, got {penalty}")
    seen = torch.as_tensor(context_ids, dtype=torch.long).unique()
    if ((seen < 0) | (seen >= len(logits))).any():
        raise ValueError(f"ids run from 0 to {len(logits) - 1}")
    weighed = logits.clone()
    weighed[seen] = torch.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty)
    return weighed
    ### END SOLUTION


# %% [markdown] hints="apply_repetition_penalty"
# 1. Divide -3 by a penalty of 2. Has the token become less likely?
# 2. Collect the different ids first, whatever the kind of context, then change each logit once. A `set` of tensors holds equal ids several times: turn the context into plain ints before.
# 3. Python and torch count negative ids from the end and say nothing. Look at all ids before you change a copy of the logits.

# %% check="apply_repetition_penalty" points=2
five = torch.tensor([2.0, -1.0, 0.5, -3.0, 0.0])

with check.exercise("apply_repetition_penalty") as t:
    before = five.clone()
    apply_repetition_penalty(five, [0, 3], 2.0)
    t.unchanged(before, five, "apply_repetition_penalty must not change the logits that it gets")
    t.close(apply_repetition_penalty(five, [], 1.5), five, "an empty context: no logit changes")
    t.close(
        apply_repetition_penalty(five, torch.tensor([], dtype=torch.long), 1.5),
        five,
        "the context may be a LongTensor, here an empty one",
    )
    t.close(
        apply_repetition_penalty(five, [0, 2], 4.0),
        [0.5, -1.0, 0.125, -3.0, 0.0],
        "the positive logits of tokens 0 and 2 are divided by 4, those of other tokens stay",
    )
    t.close(
        apply_repetition_penalty(five, [3, 4], 1.5),
        [2.0, -1.0, 0.5, -4.5, 0.0],
        "a negative logit is multiplied: dividing -3 by 1.5 would make the token more likely. 0 stays 0",
    )
    t.close(
        apply_repetition_penalty(five, [0, 1, 0, 0, 1], 2.0),
        [1.0, -2.0, 0.5, -3.0, 0.0],
        "tokens 0 and 1 occur several times, and each counts once",
    )
    t.close(
        apply_repetition_penalty(five, torch.tensor([3, 0, 3]), 2.0),
        [1.0, -1.0, 0.5, -6.0, 0.0],
        "a LongTensor as context: the same rule, each token once",
    )
    context = torch.tensor([3, 0, 3])
    apply_repetition_penalty(five, context, 2.0)
    t.unchanged(torch.tensor([3, 0, 3]), context, "apply_repetition_penalty must not change the context")
    t.close(
        apply_repetition_penalty(five, [0, 3], 0.5),
        [4.0, -1.0, 0.5, -1.5, 0.0],
        "a penalty below 1 is allowed, and favours the tokens of the context",
    )
    t.raises(ValueError, lambda: apply_repetition_penalty(five, [0], 0.0), "a penalty of 0 raises ValueError")
    t.raises(ValueError, lambda: apply_repetition_penalty(five, [1], -1.5), "a negative penalty raises ValueError")
    t.raises(ValueError, lambda: apply_repetition_penalty(five, [0, -1], 2.0), "a negative id is no token")
    t.raises(ValueError, lambda: apply_repetition_penalty(five, [5], 2.0), "the ids of 5 tokens are 0 to 4")

# %% [markdown]
# ### Exercise: `apply_logit_bias`
#
# *10 minutes · difficulty 1 of 5 · 1 point*
#
# The bias is the caller's wish: a number added to the logits of chosen tokens. Only this cell is collected.


# %% exercise="apply_logit_bias" minutes=10 difficulty=1 closed=["kvlab.sampling.apply_logit_bias"]
# exercise: apply_logit_bias
def apply_logit_bias(logits: torch.Tensor, bias: dict[int, float]) -> torch.Tensor:
    """Add a number to the logits of chosen tokens.

    logits: float, (V,), V >= 1, all finite.   bias: token id -> number to add, may be empty. Both stay as they are.
    Returns float (V,). Every number is added as it is, large ones too: -100 makes a token practically impossible, and
    its logit is then 100 lower, not minus infinity. Tokens that are not named keep their logit.
    Ids below 0, or not below V, raise ValueError.
    You may not call here: kvlab.sampling.apply_logit_bias.
    """
    ### BEGIN SOLUTION
    shift = torch.zeros_like(logits)
    for token, number in bias.items():
        if token not in range(len(logits)):
            raise ValueError(f"there is no token {token}: ids run from 0 to {len(logits) - 1}")
        shift[token] = number
    return logits + shift
    ### END SOLUTION


# %% [markdown] hints="apply_logit_bias"
# 1. The bias is a dict: go through its pairs of id and number.
# 2. Work on a copy. The number is added to what is there, it does not replace it, and no number is special.
# 3. Negative ids count from the end in Python and torch: refuse them yourself, before anything else happens to them.

# %% check="apply_logit_bias" points=1
four = torch.tensor([2.0, -1.0, 0.5, -3.0])

with check.exercise("apply_logit_bias") as t:
    before, wish = four.clone(), {1: 2.5}
    apply_logit_bias(four, wish)
    t.unchanged(before, four, "apply_logit_bias must not change the logits that it gets")
    t.unchanged({1: 2.5}, wish, "apply_logit_bias must not change the dict that it gets")
    t.close(apply_logit_bias(four, {}), four, "no bias: no logit changes")
    t.close(
        apply_logit_bias(four, {1: 2.5}), [2.0, 1.5, 0.5, -3.0], "token 1 gets 2.5 more; the others keep their logit"
    )
    t.close(
        apply_logit_bias(four, {3: 4.0, 0: -1.5}), [0.5, -1.0, 0.5, 1.0], "two tokens, each with a number of its own"
    )
    t.close(
        apply_logit_bias(four, {2: -100.0, 0: 150.0}),
        [152.0, -1.0, -99.5, -3.0],
        "large numbers are added like small ones: -100 is not minus infinity, and nothing is cut off at 100",
    )
    t.raises(ValueError, lambda: apply_logit_bias(four, {0: 1.0, -1: 2.0}), "a negative id is no token")
    t.raises(ValueError, lambda: apply_logit_bias(four, {4: 2.0}), "the ids of 4 tokens are 0 to 3")

# %%
claims.show(card=17)

# %% [markdown] manual="which_setting" points=3
# ### In your own words
#
# **Question.** A team lets a model write product descriptions. It uses T = 0, a repetition penalty of 1.0 and no filter. The texts end in loops. Someone proposes (a) T = 1.8 without filters; (b) beam search with 8 beams; (c) T = 0.8 with top-p 0.9.
# Which would you try first, and why not the other two? Someone else wants to raise a brand name with a logit bias of +10, "so that it comes ten times as often". What will happen? Four to seven sentences, each with its reason.
#
# ### BEGIN SOLUTION
# First (c): loops are likely text, chance leaves them, and top-p keeps the tail of unlikely tokens out, so the text stays sound (1 point).
# (a) breaks loops too, but without a filter a flat distribution draws from the whole vocabulary and sentences fall apart; (b) looks for the likeliest text, which is what loops already, so it repeats as much, at several times the work (1 point).
# The bias multiplies the odds by e to the power 10, about 22,000: where the name has a probability of 0.01 it becomes 0.9955, so it comes nearly everywhere; factor 10 in probability needs a small bias whose size depends on where the probability is, and a name is several tokens with several spellings (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("05_sampling")

# %%
glossary.show(
    [
        "logits",
        "softmax",
        "distribution",
        "sampling",
        "greedy",
        "temperature",
        "entropy",
        "nat",
        "top-k",
        "top-p",
        "nucleus",
        "min-p",
        "chi-square",
        "seed",
        "log probability",
        "beam search",
        "end token",
        "distinct-n",
        "repetition penalty",
        "logit bias",
        "odds",
        "logits processor",
        "stop string",
        "paged cache",
    ]
)

# %% [markdown]
# ## Recap
#
# - A stage takes logits and returns logits; minus infinity removes a token. What is left is scaled to sum to 1, then one token is drawn.
# - Top-p keeps the token that crosses p. Several mistakes in these few lines leave a plausible text; counts against theory find them.
# - A ratio of two probabilities is e to the power (difference of the logits / temperature). With that one rule you can check any printed table.
# - The order of the stages differs between libraries, and the same settings then keep other tokens.
# - Beam search finds likely text, mostly, with no guarantee; its beams resemble each other, and with a paged cache they share their past.
# - Repetition belongs to low temperatures and to the search for likely text. A penalty depends on where the logits' zero is; a bias multiplies odds.
#
# **Where this lives in real engines** (transformers 5.24.0; vLLM at commit 3e34265; llama.cpp at commit 001d906; mlx-lm at commit 037c9b3; read on 30 November 2026)
#
# | part | where |
# |---|---|
# | temperature, filters, penalties as classes | transformers, `generation/logits_process.py`: `TemperatureLogitsWarper`, `TopKLogitsWarper`, `TopPLogitsWarper`, `MinPLogitsWarper`, `RepetitionPenaltyLogitsProcessor` |
# | the order of the stages | transformers, `generation/utils.py`: `_get_logits_processor`; vLLM, `v1/sample/sampler.py`: `Sampler`; llama.cpp, `common/common.h`: `common_params_sampling`; mlx-lm, `sample_utils.py`: `make_sampler` |
# | penalties over a whole batch | vLLM, `v1/sample/ops/penalties.py`: `apply_all_penalties` |
#
# **Next:** notebook 06 makes drawing faster without changing what is drawn: speculative decoding. It also stores numbers in fewer bits and computes attention in tiles.
