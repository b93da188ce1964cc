# %% [markdown]
# # 02 · Prefill and decode: two phases, one budget
#
# {{colab badge}}
#
# *About 150 minutes · 3 cards · 4 exercises, 13 points, and one written question, 3 points*
#
# Notebook 01 ended with a loop of two parts: **prefill**, which reads the prompt, and **decode**, which writes one token at a time.
# They use the same weights and the same code, and yet they wait for different things. A server has to run both at once, for many people.
# This notebook measures the two phases, and then lets you run the part of a server that decides who computes what in the next step: the **scheduler**.
#
# When you have worked through it you can
#
# - read **TTFT**, **TPOT**, **TPS** and **E2E** off the times of a request, and say which of them belongs to whom;
# - put a piece of work on a **roofline** and tell whether it waits for arithmetic or for memory;
# - prefill a prompt in pieces, and say what that does to its own text, to the other requests, and what it costs;
# - plan the steps of a small server, and explain what **continuous batching** gains over static batching, and from what.
#
# You need: notebook 01, or its recap. No GPU, no network.
#
# The requests here are served by `kvlab.engine`, a small but real serving engine: it runs the model on many requests in one step and keeps a log of what it did.

# %%
# {{colab bootstrap}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0

# %%
import contextlib
import math
import statistics

import numpy as np
import torch

import kvlab
from kvlab import arithmetic, check, claims, faults, glossary, plots, profiling, published, quiz, validate, widgets
from kvlab.cache import PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.engine import POLICIES, Engine, Request, StepClock
from kvlab.engine.trace import TraceSettings, heavy_tailed, summarise
from kvlab.generate import prefill
from kvlab.loading import random_model

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more, and its clocks wobble less
validate.seed(SEED)
primer = kvlab.load(MODEL, DEVICE)
exact = kvlab.load(MODEL, "cpu", torch.float64)  # for questions of equality: in float64, ties do not flip by rounding
PROMPT = "Once there was a brave boy named Felix."
print(profiling.describe_device(primer.device))

# %% [markdown]
# ## Card 5 · Prefill and decode
#
# A pass of the model over one token reads every weight once, uses it for one multiplication and one addition, and is done with it.
# A pass over 500 tokens reads every weight once too, and uses it 500 times. That is the whole difference between the two phases:
#
# - **Prefill** has many tokens in one pass. It is limited by arithmetic, as soon as there are enough of them. One says it is **compute-bound**.
# - **Decode** has one token per request in a pass, since the next one is not known yet. It is limited by how fast the weights, and the cache, can be read: it is **memory-bound**.
#
# What a user notices of it has four names:
#
# | name | what it is |
# |---|---|
# | **TTFT**, time to first token | from the request to the first token: the wait in the queue, the prefill, the first choice |
# | **TPOT**, time per output token | the mean gap between tokens after the first |
# | **TPS**, tokens per second | 1 / TPOT for one request. For a server as a whole: all tokens of all requests per second, its **throughput** |
# | **E2E**, end to end | from the request to the last token |
#
# The first token comes out of the prefill. So *n* tokens have *n* − 1 gaps, and E2E = TTFT + (n − 1) · TPOT.

# %%
quiz.predict(
    "One request gets its tokens with a TPOT of 10 ms. The server now decodes 8 requests in each step, still at about 10 ms a step. What does the server deliver per second?",
    options=["100 tokens", "800 tokens", "12.5 tokens"],
    answer="800 tokens",
    reveal="Each request still gets 100 tokens per second, its own 1 / TPOT. The server delivers eight times that. Say which of the two you mean by TPS.",
)

# %%
n_new = 16 if FAST else 48
prompt = primer.tokenizer.encode(PROMPT * 12)
engine = Engine(primer, policy="continuous", token_budget=2048, prefix_caching=False)
engine.run([Request("warm-up", prompt, 4, ignore_eos=True)])
alone = Request("alone", prompt, n_new, arrival=engine.clock.now(), ignore_eos=True)
engine.run([alone])
steps = [step.n_tokens for step in engine.log if step.work[0][0] == "alone"]
print(f"a prompt of {len(prompt)} tokens, {n_new} new ones; tokens in each step: {steps[:4]} ...")
print(f"TTFT {1000 * alone.ttft:.1f} ms · TPOT {1000 * alone.tpot:.1f} ms · E2E {1000 * alone.e2e:.0f} ms")
print(
    f"TPS of this request {1 / alone.tpot:.0f} · prefill: {len(prompt) / alone.ttft:,.0f} tokens per second, since all are computed in one pass"
)
assert steps == [len(prompt)] + [1] * (n_new - 1)  # one step reads the prompt, and the first token comes out of it
assert math.isclose(alone.e2e, alone.ttft + (n_new - 1) * alone.tpot)

engine = Engine(primer, policy="continuous", token_budget=2048, prefix_caching=False)
eight = engine.run([Request(str(i), prompt, n_new, ignore_eos=True) for i in range(8)])
summary = summarise(engine)
print(
    f"\n8 requests at once: TPS of one of them {1 / statistics.median(r.tpot for r in eight):.0f}, of the engine as a whole {summary.tokens_per_second:.0f}"
)
first, *later = [1000 * (step.end - step.start) for step in engine.log]
print(
    f"a step of 1 token {1000 * alone.tpot:.0f} ms, of 8 {statistics.median(later):.0f} ms; the first, with 8 prompts, {first:.0f} ms"
)
assert len(engine.log) == n_new and {step.n_tokens for step in engine.log[1:]} == {8}
assert all(request.output == eight[0].output for request in eight)

# %% [markdown]
# Eight times the tokens in the same number of steps: the weights are read once per step, for all eight. It is not the same *time*, though.
# On a CPU a step of 8 takes longer than one of 1, and the rate of the engine also counts the first step, which reads all eight prompts. So the gain is less than eight.
#
# **Where is the limit?** Divide the operations of a pass by the bytes it moves: that is its **arithmetic intensity**, in operations per byte.
# Divide what a machine can compute per second at most, its *peak*, by what it can read per second, its **bandwidth**: that is its **ridge point**. Work below the ridge point waits for memory, work above it for arithmetic.
# The larger of the two times, operations / peak and bytes / bandwidth, is a lower bound for the time of the pass. This picture is called the **roofline**.
#
# First by arithmetic alone, for Llama-3 8B in 16-bit numbers on an A100 (data sheet: 312 · 10¹² operations and 2,039 · 10⁹ bytes per second). A MAC, one multiply-accumulate, is two operations.

# %%
quiz.predict(
    "A prompt of 2000 tokens instead of 4. By how much does the lower bound of the prefill time grow (Llama-3 8B, A100)?",
    options=["about 13 times", "about 500 times", "about 250,000 times"],
    answer=lambda: (
        f"about {arithmetic.pass_seconds('llama-3-8b', 'a100-80gb', 2000) / arithmetic.pass_seconds('llama-3-8b', 'a100-80gb', 4):.0f} times"
    ),
    reveal="With 4 tokens the bound is the reading of the weights, 7.36 ms, the same as for 1 token. With 2000 it is arithmetic, 92.84 ms, and 92.84 / 7.36 = 12.6. The work alone grows by about 509. 250,000 is the square of 500: only attention grows like that, and it is a small part of the work at this length.",
)

# %%
SHAPE, CARD = "llama-3-8b", "a100-80gb"
gpu, ridge = published.gpu(CARD), arithmetic.ridge_point(CARD)
points = {"prefill": {}, "decode": {}}  # tokens in the pass -> (operations per byte, bound in seconds, operations)
for n in (1, 4, 16, 64, 256, 2000):
    ops = 2 * arithmetic.pass_macs(SHAPE, n)["total"]
    points["prefill"][n] = (ops / arithmetic.pass_bytes(SHAPE, n), arithmetic.pass_seconds(SHAPE, CARD, n), ops)
for batch in (1, 4, 16, 64, 256):
    ops = 2 * batch * arithmetic.pass_macs(SHAPE, 1, 999)["total"]
    bound = arithmetic.pass_seconds(SHAPE, CARD, 1, 999, batch)
    points["decode"][batch] = (ops / arithmetic.pass_bytes(SHAPE, 1000, batch), bound, ops)
print(f"{gpu.name}: ridge point {ridge:.0f} operations per byte\n")
print("phase    tokens in the pass   operations per byte   bound, ms   part of the peak if it is met   waits for")
for phase, found in points.items():
    for n, (intensity, bound, ops) in found.items():
        share = ops / bound / gpu.peak_flops
        limit = "arithmetic" if intensity > ridge else "memory"
        print(f"{phase:9}{n:>18}{intensity:>22.1f}{1000 * bound:>12.2f}{share:>32.1%}   {limit}")
assert points["decode"][1][0] < 1.1, "one token: about one operation per byte"
assert points["decode"][256][0] < ridge < points["prefill"][256][0]
grid = [0.5, ridge, 2000]
figure = plots.lines(
    {
        "roofline": (grid, [min(gpu.peak_flops, gpu.bandwidth * x) / 1e12 for x in grid]),
        **{
            f"{phase}, at its bound": ([p[0] for p in found.values()], [p[2] / p[1] / 1e12 for p in found.values()])
            for phase, found in points.items()
        },
    },
    xlabel="arithmetic intensity (operations per byte)",
    ylabel="10¹² operations per second",
    title="Llama-3 8B on an A100: bounds, not measurements",
    logx=True,
    logy=True,
)
for points_only in figure.axes[0].lines[1:]:
    points_only.set_linestyle("none")  # a line between two bounds would leave the roof
figure.axes[0].lines[1].set(markersize=11, markerfacecolor="none", markeredgewidth=2)  # seen also under a diamond
figure.axes[0].legend()
figure

# %% [markdown]
# *The figure: both axes logarithmic, one mark for each row of the table, all on the roofline. It rises with the bandwidth up to the ridge point at 153 and is flat after it. Prefill climbs it with the length of the prompt and reaches the flat part.
# Decode climbs it with the batch, more slowly, and at 256 sequences of 1000 tokens it has still not reached the ridge.*
#
# Compare the first two columns of prefill. With 16-bit numbers a weight is 2 bytes and gives 2 operations for each token, so a pass of *n* tokens does about *n* operations per byte.
# **So the ridge point can be read as a number of tokens**: a pass of fewer than about 153 waits for the weights. (In float32 a weight is 4 bytes, and a token gives half an operation per byte.)
#
# Why does decode lag behind? All sequences share the weights, but each has a cache of its own to read. Weights gain from the batch; the cache does not.

# %%
weights_read = arithmetic.read_bytes_per_pass(SHAPE)
for batch, context in ((1, 4096), (32, 4096), (256, 1000)):
    cache_read = arithmetic.kv_bytes(SHAPE, context, batch)
    share = cache_read / (weights_read + cache_read)
    print(f"decode, {batch:3} sequences of {context} tokens: {share:6.1%} of the bytes are cache, the rest weights")
even = weights_read / arithmetic.kv_bytes_per_token(SHAPE)
print(f"the cache is half of the traffic at {even:,.0f} cached tokens, summed over the batch")
assert arithmetic.kv_bytes(SHAPE, 4096) < 0.05 * weights_read
for n in (2000, 16_384, 131_072):
    macs = arithmetic.pass_macs(SHAPE, n)
    print(f"attention in the work of a prefill of {n:>7,} tokens: {macs['attention'] / macs['total']:.1%}")

# %% [markdown]
# The explorer answers: *what does a pass wait for?* Its sliders move in powers of two. Between which two batches does decode cross the ridge with a context of 1 token? Then set the context to 4096 and try again.

# %%
widgets.roofline_explorer("llama-3-8b", "a100-80gb", prompt=512, batch=16, context=1024)

# %% [markdown]
# *The figure: the roof of the chosen GPU with one point for the prefill and one for the decode step, both on the roof, since these are bounds. Longer prompts and larger batches move to the right; a longer context moves decode to the left.
# With a context of 1 decode crosses it between 128 and 256, at 154. With a context of 4096 it does not reach the ridge, at any batch: each new sequence brings its own cache to read.*
#
# Now measured, on your machine. The roof is measured too: a large matrix product for the peak, the best of four streaming kernels for the bandwidth.
# The model has random weights, since a clock does not care what they say. On a GPU the cell runs the shapes of a 1B and, where memory allows, an 8B model on prompts up to 16,384 tokens;
# **on a CPU the same cell runs a small shape** (19 million parameters; fewer with `FAST`) on short prompts. A decode step at batch *b* is *b* requests in one step of the engine. On an idle engine the time of the prefill step is the TTFT, the time of a decode step is the TPOT, and E2E follows from the two.
#
# No figures of a GPU come with the course, because none have been taken: the GPU part of this cell has not run on a GPU yet. Its steps are tested on a CPU with stand-ins, running out of memory included.


# %%
def sweep(shape, lengths, batches, dtype):
    """Seconds of prefill steps by prompt length and of decode steps by batch, from the engine's own log."""
    sized = random_model(shape, str(primer.device), dtype)
    bytes_each, config, rows = sized.dtype.itemsize, sized.config, []

    def prefill(n):
        engine = Engine(sized, n // 16 + 2, 16, "continuous", max_seqs=1, token_budget=n, prefix_caching=False)
        engine.run([Request(str(i), list(range(1, n + 1)), 1, ignore_eos=True) for i in range(4)])
        assert [step.n_tokens for step in engine.log] == [n] * 4
        ops = 2 * arithmetic.pass_macs(config, n)["total"]
        return engine.log[1:], ops, arithmetic.pass_bytes(config, n, 1, bytes_each)  # the first step warms up

    def decode(batch):
        engine = Engine(
            sized, 2 * batch, 16, "continuous", max_seqs=batch, token_budget=16 * batch, prefix_caching=False
        )
        engine.run([Request(str(i), list(range(1, 17)), 6, ignore_eos=True) for i in range(batch)])
        assert [step.n_tokens for step in engine.log[1:]] == [batch] * 5
        ops = 2 * batch * arithmetic.pass_macs(config, 1, 18)["total"]
        return engine.log[1:], ops, arithmetic.pass_bytes(config, 19, batch, bytes_each)

    prompts = [n for n in lengths if n < config.max_len]
    for phase, run, sizes in (("prefill", prefill, prompts), ("decode", decode, batches)):
        for size in sizes:
            try:
                steps, ops, moved = run(size)
            except torch.OutOfMemoryError:
                print(f"out of memory: the {phase} sweep ends before {size}, larger sizes are left out")
                break
            rows.append((phase, size, profiling.Timing.of([step.end - step.start for step in steps]), ops, moved))
    return rows


on_gpu = primer.device.type == "cuda"
if on_gpu:
    kind = torch.bfloat16 if torch.cuda.get_device_capability(primer.device)[0] >= 8 else torch.float16
    shapes = {name: name for name in (["llama-3.2-1b"] if FAST else ["llama-3.2-1b", "llama-3-8b"])}
    lengths, batches = (128, 512, 2048, 8192, 16_384), (1, 4, 16, 64)
else:
    kind = torch.float32
    small = (2048, 256, 4, 4, 2, 64, 704, 2048) if FAST else (2048, 512, 6, 8, 4, 64, 1408, 2048)
    shapes = {"a small shape": ModelConfig(*small)}
    lengths, batches = ((1, 16, 128), (1, 16)) if FAST else ((1, 4, 16, 64, 256, 512), (1, 4, 16, 64))
    print("no GPU here: a small shape and short prompts")
side = 4096 if on_gpu else 1024
square = torch.ones(side, side, dtype=kind, device=primer.device)
product = profiling.measure(lambda: square @ square, repeats=5, device=primer.device)
peak = 2 * side**3 / product.best
bandwidth = profiling.read_bandwidth(primer.device).best
print(f"this machine: {peak / 1e9:,.0f} · 10⁹ operations/s, {bandwidth / 1e9:.1f} · 10⁹ bytes/s")
tokens = peak / bandwidth * kind.itemsize / 2  # a weight gives two operations for each token
print(
    f"              ridge point {peak / bandwidth:.1f} operations per byte: with {8 * kind.itemsize}-bit weights some {tokens:.0f} tokens"
)
measured = {}
for name, shape in shapes.items():
    if on_gpu:
        torch.cuda.empty_cache()  # what the shape before held
    try:
        measured[name] = sweep(shape, lengths, batches, kind)
    except (ValueError, torch.OutOfMemoryError) as error:  # the weights do not fit
        print(f"{name} is left out: {error}")
        continue
    print(
        f"\n{name}\nphase    tokens in the step   operations per byte   time of the step                               tokens/s   time / bound"
    )
    for phase, n, times, ops, moved in measured[name]:
        bound = arithmetic.roofline_seconds(ops, moved, peak, bandwidth)
        row = f"{phase:9}{n:>18}{ops / moved:>22.1f}   {times!s:45}"
        print(f"{row}{n / times.median:>10,.0f}{times.median / bound:>15.1f}")
    by_length = [ops / moved for phase, _, _, ops, moved in measured[name] if phase == "prefill"]
    assert by_length == sorted(by_length), "a longer prompt does more with each byte"
print(f"\nmemory at the highest point: {arithmetic.format_bytes(profiling.peak_memory(primer.device))}")
rows = next(iter(measured.values()))
left, right = min(r[3] / r[4] for r in rows), max(r[3] / r[4] for r in rows)
grid = sorted({left, min(max(peak / bandwidth, left), right), right})
figure = plots.lines(
    {
        "roofline, measured": (grid, [min(peak, bandwidth * x) / 1e9 for x in grid]),
        **{
            f"{phase}, measured": (
                [r[3] / r[4] for r in rows if r[0] == phase],
                [r[3] / r[2].median / 1e9 for r in rows if r[0] == phase],
            )
            for phase in ("prefill", "decode")
        },
    },
    xlabel="arithmetic intensity (operations per byte)",
    ylabel="10⁹ operations per second",
    title=f"Measured on this machine: {next(iter(measured))}",
    logx=True,
    logy=True,
)
ticks = [2.0**power for power in range(math.floor(math.log2(left)), math.ceil(math.log2(right)) + 1)]
figure.axes[0].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
figure

# %% [markdown]
# *The figure: the measured roof of your machine, and the measured steps below it. As more tokens share a step, points move right, and up until they reach the roof. Prefill and decode with the same number of tokens lie near each other
# (within a factor of 2 where this was written): what counts is how many tokens share the weights, not what the phase is called.*
#
# Read the last column as "how far from the best that this machine could do". A small model has a fixed price per step (starting some hundred small operations), so its steps of few tokens lie far above the bound.
# A value a little below 1, a point a little above the roof, is a wobble of the clock or of the measured roof; far below 1, the count would be wrong.

# %% [markdown]
# ### Exercise: `latency_metrics`
#
# *15 minutes · difficulty 2 of 5 · 3 points*
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.
# The docstring names what does the whole job: while your answer is checked, calling it is an error.


# %% exercise="latency_metrics" minutes=15 difficulty=2 closed=["kvlab.engine.request.Request"]
# exercise: latency_metrics
def latency_metrics(requested_at: float, token_times: list[float]) -> dict[str, float]:
    """How long one request took, from the moment of the request and the moment at which each token came.

    requested_at, token_times: seconds on the same clock, which may have started long before the request.
    Returns a dict with four numbers:
      "ttft"  seconds from the request to the first token
      "tpot"  seconds per token after the first: the mean gap between two tokens in a row; nan for one token
      "tps"   tokens per second while they come: 1 / tpot; nan for one token, inf when tpot is 0
      "e2e"   seconds from the request to the last token
    ValueError: no tokens, a token that is earlier than the one before it, a first token before the request.
    Equal times are allowed, also for the request and the first token.
    You may not call here: kvlab.engine.request.Request.
    """
    ### BEGIN SOLUTION
    if not token_times:
        raise ValueError("there is no token to measure")
    moments = [requested_at, *token_times]
    if moments != sorted(moments):
        raise ValueError(f"time runs backwards in {moments}")
    n_gaps = len(token_times) - 1
    tpot = (token_times[-1] - token_times[0]) / n_gaps if n_gaps else math.nan
    tps = math.inf if tpot == 0 else 1 / tpot  # 1 / nan is nan
    return {"ttft": token_times[0] - requested_at, "tpot": tpot, "tps": tps, "e2e": token_times[-1] - requested_at}
    ### END SOLUTION


# %% [markdown] hints="latency_metrics"
# 1. Draw a line with the request and four tokens on it. Mark the wait for the first token, and the gaps between the tokens. How many gaps are there?
# 2. The gaps add up to the last time minus the first. So their mean needs no list of gaps.
# 3. One token has no gap, and a mean gap of 0 can't be divided by: these two cases go first. For the errors, the request is one more moment in front of the tokens.

# %% check="latency_metrics" points=3
with check.exercise("latency_metrics") as t:
    result = latency_metrics(2.0, [2.5, 2.625])
    t.equal(
        [key for key in ("ttft", "tpot", "tps", "e2e") if key in result],
        ["ttft", "tpot", "tps", "e2e"],
        "the result is a dict with the keys ttft, tpot, tps and e2e",
    )
    # the request at 2.0; four tokens with gaps of 0.125, 0.5 and 0.125 between them
    t.close(
        latency_metrics(2.0, [2.5, 2.625, 3.125, 3.25])["ttft"],
        2.5 - 2.0,
        "the wait for the first token begins at the request, not at 0 on the clock",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        latency_metrics(2.0, [2.5, 2.625, 3.125, 3.25])["e2e"],
        3.25 - 2.0,
        "from the request to the last token: ttft and one gap for each of the other three tokens",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        latency_metrics(2.0, [2.5, 2.625, 3.125, 3.25])["tpot"],
        (0.125 + 0.5 + 0.125) / 3,
        "the mean of the three gaps; the wait for the first token is none of them",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        latency_metrics(2.0, [2.5, 2.625, 3.125, 3.25])["tps"],
        3 / (0.125 + 0.5 + 0.125),
        "the inverse of tpot: the speed while tokens come, without the wait for the first one",
        rtol=1e-6,
        atol=0,
    )
    t.close(latency_metrics(2.0, [2.5])["tpot"], math.nan, "one token has no gap, so there is no mean: nan")
    t.close(latency_metrics(2.0, [2.5])["tps"], math.nan, "one token has no speed: nan")
    t.close(latency_metrics(2.0, [2.5])["ttft"], 0.5, "one token has a ttft all the same", rtol=1e-6, atol=0)
    t.close(latency_metrics(2.0, [2.5])["e2e"], 0.5, "with one token e2e is ttft", rtol=1e-6, atol=0)
    t.close(
        latency_metrics(2.0, [2.5, 2.5, 2.5])["tpot"],
        0.0,
        "equal times are allowed: then tpot is 0 and tps inf",
        rtol=0,
        atol=0,
    )
    t.close(latency_metrics(2.0, [2.5, 2.5, 2.5])["tps"], math.inf, "no time between tokens: infinitely fast")
    t.close(latency_metrics(2.0, [2.0, 2.25])["ttft"], 0.0, "a token at the moment of the request is allowed", atol=0)
    t.raises(ValueError, lambda: latency_metrics(2.0, []), "without a token there is nothing to measure")
    t.raises(ValueError, lambda: latency_metrics(2.0, [2.5, 2.25]), "the second token is earlier than the first")
    t.raises(ValueError, lambda: latency_metrics(2.0, [2.5, 2.25, 3.0]), "look at each pair, not only at both ends")
    t.raises(ValueError, lambda: latency_metrics(2.0, [1.5, 2.5]), "no token can come before its request")

# %% [markdown]
# ### Exercise: `roofline_seconds`
#
# *10 minutes · difficulty 1 of 5 · 2 points*
#
# The bound that the tables above were made with. Only this cell is collected.


# %% exercise="roofline_seconds" minutes=10 difficulty=1 closed=["kvlab.arithmetic.roofline_seconds"]
# exercise: roofline_seconds
def roofline_seconds(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> float:
    """The shortest time that a piece of work can take, in seconds: arithmetic and memory traffic run side by side.

    flops: operations to do.   bytes_moved: bytes to read or write. Both are at least 0.
    peak_flops: operations per second.   bandwidth: bytes per second.
    Returns the larger of the two times. A peak_flops or bandwidth that is not positive raises ValueError.
    You may not call here: kvlab.arithmetic.roofline_seconds.
    """
    ### BEGIN SOLUTION
    if peak_flops <= 0 or bandwidth <= 0:
        raise ValueError(f"rates must be positive, got {peak_flops} and {bandwidth}")
    return max(flops / peak_flops, bytes_moved / bandwidth)
    ### END SOLUTION


# %% [markdown] hints="roofline_seconds"
# 1. How long would the arithmetic take if memory were infinitely fast? And the traffic, if arithmetic were free?
# 2. Work divided by its rate is a time. There are two of them.
# 3. Both go on at the same moment, so the slower one decides. Check the two rates before you divide.

# %% check="roofline_seconds" points=2
with check.exercise("roofline_seconds") as t:
    t.close(
        roofline_seconds(6e12, 2e9, peak_flops=3e14, bandwidth=2e12),
        0.02,  # 20 ms of arithmetic, 1 ms of traffic
        "much arithmetic per byte, as in prefill: the arithmetic decides",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        roofline_seconds(3e11, 1.6e10, peak_flops=3e14, bandwidth=2e12),
        0.008,  # 1 ms of arithmetic, 8 ms of traffic
        "few operations per byte, as in decode: the traffic decides. Compare times, not operations with bytes",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        roofline_seconds(0, 1e9, 3e14, 2e12), 5e-4, "no arithmetic: the traffic still takes time", rtol=1e-6, atol=0
    )
    t.close(roofline_seconds(3e12, 0, 3e14, 2e12), 0.01, "nothing to move: the arithmetic decides", rtol=1e-6, atol=0)
    t.close(roofline_seconds(0, 0, 3e14, 2e12), 0.0, "no work, no time", rtol=0, atol=0)
    t.raises(ValueError, lambda: roofline_seconds(1e9, 1e9, 0, 2e12), "a peak_flops of 0 is no rate")
    t.raises(ValueError, lambda: roofline_seconds(1e9, 1e9, 3e14, 0), "a bandwidth of 0 is no rate")
    t.raises(
        ValueError, lambda: roofline_seconds(1e9, 1e9, -3e14, 2e12), "peak_flops below 0 would give a negative time"
    )
    t.raises(
        ValueError, lambda: roofline_seconds(1e9, 1e9, 3e14, -2e12), "bandwidth below 0 would give a negative time"
    )
    t.raises(
        ValueError, lambda: roofline_seconds(1e9, 1e9, -3e14, -2e12), "check each rate: two negatives hide each other"
    )

# %%
claims.show(card=5)

# %% [markdown]
# ## Card 6 · Chunked prefill
#
# Three people are reading answers that are being written, a token per step. Then somebody sends a long document, and the scheduler computes its prompt in one piece. What that does to the three of them you will predict below.
#
# **Chunked prefill** gives each step a **token budget**. Requests that decode take their one token each first; what is left of the budget goes to a piece of the prompt. The decodes ride in the *same* step as the piece (Agrawal et al., 2024, Sarathi-Serve):
# it reads the weights anyway. Nobody takes turns.
#
# Is a prompt in pieces still the same prompt?

# %%
quiz.predict(
    "A prompt is prefilled in two pieces, the second on top of the cache of the first. How far are the logits after the last token from those of one pass (float64)?",
    options=[
        "below 1e-9: rounding",
        "about 0.01: the second piece sees a little less",
        "above 1: the first piece has not seen the second",
    ],
    answer="below 1e-9: rounding",
    reveal="For the reason of notebook 01: K and V of a position never depend on what comes later. So the first piece misses nothing, and the second sees all of the first in the cache.",
)

# %%
story = exact.tokenizer.encode(PROMPT + " Felix had a small boat and a red kite, and he went to the river.")
cut = len(story) // 2
pieces, whole = (PreallocatedCache(exact.config, len(story), dtype=exact.dtype) for _ in range(2))
prefill(exact, story[:cut], pieces)
gap = float((prefill(exact, story[cut:], pieces) - prefill(exact, story, whole)).abs().max())
print(f"{len(story)} tokens, in two pieces or in one: largest difference of the last logits {gap:.1e}")
assert gap < 1e-9 and pieces.length == whole.length

# %% [markdown]
# Now the four users, served by the engine. So that everybody sees the same figure, it runs on a **counted clock**: a step costs 1 unit, and each of its tokens 0.05.
# (What your machine takes is printed below; the stall shows there too, by another factor.) The word for the worst waits is **p99**: 99 of 100 gaps are at most this long.
#
# The engine calls a scheduler without chunks `continuous` (card 7 says why). It computes a prompt whole, in a step without decodes, even where the prompt is longer than the token budget. The other is called `chunked`.

# %%
quiz.predict(
    "Three requests decode when a prompt of 192 tokens arrives. What happens to the gaps between their tokens without chunking?",
    options=[
        "One gap of each is much longer",
        "All gaps get a little longer",
        "Nothing: only the first token of the new one is late",
    ],
    answer="One gap of each is much longer",
    reveal="This policy gives a prompt a step of its own, so the three get no token in it. The median gap says nothing of that, and p99 says it: with three stalls in some 120 gaps it lands on a stall.",
)

# %%
rng = np.random.default_rng(SEED)
short, long = ([int(t) for t in rng.integers(3, exact.config.vocab_size, n)] for n in (12, 192))


def four_users(policy, clock, budget=24):
    """Three who are reading, and a long prompt that arrives when the first tokens are out."""
    engine = Engine(exact, 64, 16, policy, max_seqs=4, token_budget=budget, prefix_caching=False, clock=clock)
    readers = [Request(f"reader {i}", short, 40, ignore_eos=True) for i in range(3)]
    for request in readers:
        engine.submit(request)
    while len(readers[0].output) < 10:
        engine.step()
    newcomer = Request("newcomer", long, 8, arrival=engine.clock.now(), ignore_eos=True)
    engine.run([newcomer])
    return engine, readers, newcomer


found = {policy: four_users(policy, StepClock(1.0, 0.05)) for policy in ("continuous", "chunked")}
for policy, (engine, readers, newcomer) in found.items():
    summary = summarise(engine)
    print(
        f"{policy:11} steps {summary.steps:3} · positions {summary.positions} · gap p50 {summary.gap_p50:.2f}, p99 {summary.gap_p99:.2f} · "
        f"TPOT of reader 0 {readers[0].tpot:.2f} · the newcomer's TTFT {newcomer.ttft:.1f} · in all {summary.seconds:.1f}   (units)"
    )
summaries = {policy: summarise(engine) for policy, (engine, _, _) in found.items()}
assert summaries["continuous"].positions == summaries["chunked"].positions, "the same work, cut otherwise"
assert summaries["continuous"].gap_p99 > 2 * summaries["chunked"].gap_p99
for ours, theirs in zip(*([*readers, newcomer] for _, readers, newcomer in found.values()), strict=True):
    assert ours.output == theirs.output, "a scheduler must not change a token"
print("on this machine's clock:")
for policy in found:
    runs = [summarise(four_users(policy, None)[0]) for _ in range(1 if FAST else 3)]
    print(
        f"{policy:11} gap p99 {profiling.Timing.of([r.gap_p99 for r in runs])}, in all {profiling.Timing.of([r.seconds for r in runs])}"
    )
plots.lines(
    {policy: (list(range(2, 2 + len(readers[0].gaps))), readers[0].gaps) for policy, (_, readers, _) in found.items()},
    xlabel="token of reader 0",
    ylabel="gap before it (units of the counted clock)",
    title="A long prompt arrives: one stall, or some slower steps",
)

# %% [markdown]
# *The figure: the gap before each token of one reader. Without chunks one gap is about ten times as long as the others. (The small bump at token 2 is the step that read the prompt of the third reader.) With chunks nine gaps in a row are twice as long, and none is longer.*
#
# TPOT hardly tells the two apart, 1.47 and 1.42 units: it is a mean. Only the longest gaps show the stall.
#
# The newcomer pays: its first token comes later, since the readers take part in each of its steps. What does the cutting itself cost? On the counted clock nothing (58.6 units in all, against 59.6): the pieces ride in steps that the readers need anyway, and a step costs 1 unit whatever it reads.
# Where each piece is a step more, it has a price: every piece reads the weights again, and reads what is cached of the earlier pieces. As long as a piece has enough tokens to be limited by arithmetic, the reading costs no time.

# %%
quiz.predict(
    "Llama-3 8B on an A100, a prompt of 2000 tokens in pieces of 64. By these bounds, how much longer does the prompt take than in one piece?",
    options=["not at all", "about 2.6 times", "about 31 times"],
    answer=lambda: (
        f"about {sum(arithmetic.pass_seconds('llama-3-8b', 'a100-80gb', min(64, 2000 - at), at) for at in range(0, 2000, 64)) / arithmetic.pass_seconds('llama-3-8b', 'a100-80gb', 2000):.1f} times"
    ),
    reveal="64 tokens are fewer than the 153 of the ridge point: each of the 32 pieces waits for the weights. Pieces of 256 do not.",
)

# %%
whole_ms = 1000 * arithmetic.pass_seconds(SHAPE, CARD, 2000)
decode_ms = 1000 * arithmetic.pass_seconds(SHAPE, CARD, 1, 999)
print(f"one piece: {whole_ms:.1f} ms, as long as {whole_ms / decode_ms:.1f} decode steps\n")
print("piece   pieces   longest step, ms   whole prompt, ms   against one piece")
cost = {}
for size in (32, 64, 128, 256, 512, 1024, 2000):
    bounds = [1000 * arithmetic.pass_seconds(SHAPE, CARD, min(size, 2000 - at), at) for at in range(0, 2000, size)]
    cost[size] = sum(bounds) / whole_ms
    print(f"{size:5}{len(bounds):>9}{max(bounds):>19.1f}{sum(bounds):>19.1f}{cost[size]:>19.2f}")
assert cost[64] > 2 and cost[256] < 1.05

# %% [markdown]
# So the budget is a trade: smaller pieces keep the gaps short, down to the ridge point. Below it a step gets no shorter, it takes as long as reading the weights (7.5 ms in the first three rows), and time is wasted.
# On an A100, 256 or 512 is a good place to start; on another machine the ridge point is elsewhere.
#
# ### Break it: the triangle in the other corner
#
# A piece of a prompt meets a cache that is filled already. Where the causal triangle sits then is easily got wrong. Does the text show it? Predict and run. Then set `FAULT` to `None`, or to another name, such as `"position_off_by_one"`, and run again. (The engine counts positions itself, so only the check with two pieces can see that one.)

# %%
quiz.predict(
    "The causal triangle sits top left instead of bottom right. Which requests get wrong text?",
    options=["All of them", "Those whose prompt is cut in pieces", "None"],
    answer="Those whose prompt is cut in pieces",
    reveal="On an empty cache the two corners make the same triangle, and a single token sees everything. Only several tokens on a filled cache meet the wrong corner.",
)

# %%
FAULT = "top_left_mask"
print(f"{FAULT}: {faults.FAULTS[FAULT].summary if FAULT else 'nothing is planted'}")
for planted in (None, FAULT):
    with faults.plant(planted) if planted else contextlib.nullcontext():
        cache = PreallocatedCache(exact.config, len(story) + 1, dtype=exact.dtype)
        prefill(exact, story[:cut], cache)
        seen = prefill(exact, story[cut:], cache)
        if planted is None:
            in_one = prefill(exact, story, PreallocatedCache(exact.config, len(story), dtype=exact.dtype))
        texts = {}
        for policy, budget in (("continuous", 64), ("chunked", 8)):
            engine = Engine(exact, 64, 16, policy, max_seqs=4, token_budget=budget, clock=StepClock())
            (request,) = engine.run([Request("a", story, 20)])
            texts[policy] = exact.tokenizer.decode(request.output)
    if planted is None:
        right = texts
        assert texts["continuous"] == texts["chunked"]
    off = float((seen - in_one).abs().max())
    for policy, text in texts.items():
        print(f"{planted or 'nothing planted':16} {policy:11} {text!r}")
    print(
        f"{'':16} logits after two pieces are {off:.1e} from those of one: the check is {'green' if off < 1e-9 else 'RED'}"
    )
if FAULT == "top_left_mask":
    assert off > 1e-3 and texts["continuous"] == right["continuous"]

# %% [markdown]
# With the prompt in one piece the text is right: every test that never cuts a prompt passes. Cut in pieces, the model no longer sees the story that it should go on with: it writes of a secret word that nobody mentioned. Its sentences are fluent all the same, and no error is raised.
# A scheduler that cuts only *long* prompts would show this to few users, and rarely.

# %% [markdown]
# ### Exercise: `chunked_prefill`
#
# *20 minutes · difficulty 3 of 5 · 4 points*
#
# A prompt in pieces, by your own loop. The check brings a small model of its own. Only this cell is collected.


# %% exercise="chunked_prefill" minutes=20 difficulty=3
# exercise: chunked_prefill
def chunked_prefill(model, ids: torch.Tensor, chunk_size: int, cache) -> torch.Tensor:
    """Prefill a prompt in pieces of at most chunk_size tokens. Everything ends up as after one call with all of ids.

    ids: the prompt, a 1-D LongTensor. It stays as it is.
    model(ids, cache): takes a 1-D LongTensor of new ids, appends them to the cache, which it changes in place, and
    returns their logits, (number of new ids, vocab). What cache already holds comes before the new ids.
    cache: an object that only the model can read. Hand it on. It may already hold the beginning of the text.
    Calls the model as often as needed and no more: n tokens take n / chunk_size calls, rounded up,
    and no call gets more than chunk_size tokens. How the tokens are shared out among these calls is up to you.
    Returns the logits of the last token of ids, (vocab,).
    ValueError: ids is empty, or chunk_size is below 1.
    """
    ### BEGIN SOLUTION
    if len(ids) == 0 or chunk_size < 1:
        raise ValueError(f"nothing to do with {len(ids)} ids in chunks of {chunk_size}")
    for begin in range(0, len(ids), chunk_size):
        logits = model(ids[begin : begin + chunk_size], cache)
    return logits[-1]
    ### END SOLUTION


# %% [markdown] hints="chunked_prefill"
# 1. Take 10 tokens and a chunk_size of 4. Which tokens does each call get? How many calls are that?
# 2. The cache remembers: a chunk holds new tokens only. The last chunk may be shorter, and slicing past the end of a tensor gives what is left.
# 3. Each call returns one row of logits for each of its tokens. Only one row of one call is asked for. For the errors: what does your loop do with no tokens, and with a negative step?


# %% check="chunked_prefill" points=4
class SmallModel:
    """A causal model of 13 tokens with one attention layer. It notes how many tokens each call gets."""

    def __init__(self):
        rng = np.random.default_rng(2)
        self.table, self.head = torch.tensor(rng.normal(size=(13, 8))), torch.tensor(rng.normal(size=(8, 13)) / 3)
        self.calls = []

    def __call__(self, ids, cache):
        assert ids.ndim == 1 and ids.dtype == torch.long, "the model takes a 1-D LongTensor"
        assert len(self.calls) < 100, "the model was called 100 times: a loop without an end?"
        self.calls.append(len(ids))
        cache.tokens.extend(ids.tolist())
        n = len(cache.tokens)
        x = self.table[cache.tokens] + torch.sin(torch.outer(torch.arange(n), torch.arange(1, 9)) / 5)
        scores = (x @ x.T / 3).masked_fill(torch.ones(n, n).triu(1) == 1, -math.inf)
        return ((x + scores.softmax(-1) @ x) @ self.head)[n - len(ids) :]


class SmallCache:
    """What SmallModel keeps of a text."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)


TEN_IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 12]

with check.exercise("chunked_prefill") as t:
    model, cache = SmallModel(), SmallCache()
    logits = chunked_prefill(model, torch.tensor(TEN_IDS), 4, cache)  # 10 tokens in chunks of 4
    t.equal(cache.tokens, TEN_IDS, "afterwards the cache holds each token of ids once and in order, and nothing else")
    t.true(max(model.calls) <= 4, "no call gets more than chunk_size = 4 tokens")
    t.equal(len(model.calls), 3, "10 tokens in chunks of 4 take 3 calls; chunk_size is a size, not their number")
    t.close(
        logits,
        SmallModel()(torch.tensor(TEN_IDS), SmallCache())[-1],
        "the logits of the last token, (vocab,): the last row of the last call, as after one call with all tokens",
    )

    model, cache = SmallModel(), SmallCache()
    logits = chunked_prefill(model, torch.tensor(TEN_IDS[:6]), 3, cache)  # two full chunks of 3
    t.equal(len(model.calls), 2, "6 tokens in chunks of 3 take 2 calls: no empty one at the end")
    t.equal(cache.tokens, TEN_IDS[:6], "full chunks only: each token once and in order here too")
    t.close(logits, SmallModel()(torch.tensor(TEN_IDS[:6]), SmallCache())[-1], "the last row of the last call")

    model, cache = SmallModel(), SmallCache()
    chunked_prefill(model, torch.tensor(TEN_IDS[:5]), 1, cache)
    t.equal(model.calls, [1, 1, 1, 1, 1], "chunk_size = 1 is one call for each token")

    model, cache = SmallModel(), SmallCache(7, 8, 0)
    logits = chunked_prefill(model, torch.tensor(TEN_IDS), 64, cache)
    t.equal(model.calls, [10], "fewer tokens than chunk_size: one call with just these, without padding")
    t.equal(cache.tokens, [7, 8, 0, *TEN_IDS], "what the cache held before stays in front")
    t.close(
        logits,
        SmallModel()(torch.tensor([7, 8, 0, *TEN_IDS]), SmallCache())[-1],
        "the cache held 3 tokens already: the prompt goes on where they end",
    )

    ids = torch.tensor(TEN_IDS)
    chunked_prefill(SmallModel(), ids, 4, SmallCache())
    t.unchanged(torch.tensor(TEN_IDS), ids, "your function must not change ids")
    t.raises(
        ValueError,
        lambda: chunked_prefill(SmallModel(), torch.tensor(TEN_IDS)[:0], 4, SmallCache()),
        "no ids: there is no last token",
    )
    t.raises(
        ValueError,
        lambda: chunked_prefill(SmallModel(), torch.tensor(TEN_IDS), -2, SmallCache()),
        "a negative chunk_size is no size: range makes no step, and slices count from the end",
    )
    t.raises(
        ValueError,
        lambda: chunked_prefill(SmallModel(), torch.tensor(TEN_IDS), 0, SmallCache()),
        "chunks of 0 tokens come to no end",
    )

# %%
claims.show(card=6)

# %% [markdown]
# ## Card 7 · Continuous and static batching
#
# A batch shares the weights, so a server wants many requests in each step. The question is when a request may join.
#
# - **Static batching** fills a batch once and runs it to the end. Answers have different lengths; a row whose answer is over stays in the batch as **padding**: it is computed and thrown away. Who waits outside waits for the longest answer.
# - **Continuous batching** decides anew before every step (Yu et al., 2022, Orca: iteration-level scheduling). A request that is over leaves at once, and the first in the queue takes its place, if there is a place and room in the cache.
#
# How much that gains depends on how different the answers are. A static batch of *N* takes as many steps as its longest answer has tokens; an average row is useful for the mean length only.
# So the gain is at most about (mean of the longest of *N*) / (mean length), and so much only while the queue does not run dry.

# %%
quiz.predict(
    "Batches of 8. The lengths of the answers are spread like an exponential distribution (many short, some long). How much longer than the mean is the longest of 8, on average?",
    options=["1.8 times", "2.7 times", "8 times"],
    answer=lambda: f"{sum(1 / k for k in range(1, 9)):.1f} times",
    reveal="1 + 1/2 + ... + 1/8 = 2.72. For lengths spread evenly between 0 and a maximum it is 2 · 8 / 9 = 1.78. With more spread, or larger batches, it is more: there is no one factor.",
)

# %%
rng = np.random.default_rng(SEED)
for name, draw, formula in (
    ("even (uniform)", rng.random, lambda n: 2 * n / (n + 1)),
    ("exponential", lambda size: rng.exponential(size=size), lambda n: sum(1 / k for k in range(1, n + 1))),
):
    for n in (8, 32):
        lengths = draw(size=(20_000, n))
        drawn = lengths.max(axis=1).mean() / lengths.mean()
        print(f"{name:15} batch of {n:2}: longest / mean {drawn:.2f} drawn, {formula(n):.2f} by formula")
        assert math.isclose(drawn, formula(n), rel_tol=0.05)

# %% [markdown]
# Now real requests: a trace whose prompts and answers have **heavy tails** (log-normal lengths: most are short, a few are very long), all waiting at the door, eight places in a step. The same requests under three policies:
# static, continuous (a new prompt is computed whole, in a step of its own) and chunked (continuous, with a token budget).

# %%
trace = TraceSettings(12 if FAST else 32, prompt_median=24, answer_median=16, prompt_max=128, answer_max=96, seed=SEED)
requests = heavy_tailed(trace, exact.config.vocab_size)
wanted = sorted(request.max_new for request in requests)
print(f"{len(requests)} requests; tokens of answer: median {wanted[len(wanted) // 2]}, longest {wanted[-1]}")
longest_of_8 = [max(request.max_new for request in requests[at : at + 8]) for at in range(0, len(requests), 8)]
of_places = sum(longest_of_8) / (sum(wanted) / 8)
print(
    f"longest answers of batches of 8: {' + '.join(map(str, longest_of_8))} = {sum(longest_of_8)}; {sum(wanted)} tokens in 8 places: {sum(wanted) / 8:.0f}; quotient {of_places:.2f}"
)
served, spans = {}, {policy: [] for policy in POLICIES}
for _ in range(1 if FAST else 3):  # taking turns, so that a slow moment meets all of them
    for policy in POLICIES:
        engine = Engine(exact, 300, 16, policy, max_seqs=8, token_budget=48, prefix_caching=False)
        engine.run(heavy_tailed(trace, exact.config.vocab_size))
        served[policy] = engine
        spans[policy].append(summarise(engine))
print("\npolicy      steps  positions  of them padding  useful pos.   tokens/s (range)      TTFT p50, s   gap p99, ms")
for policy, engine in served.items():
    counted, rates = spans[policy][-1], [run.tokens_per_second for run in spans[policy]]
    padding = sum(step.n_padding for step in engine.log)
    print(
        f"{policy:11}{counted.steps:>6}{counted.positions:>11}{padding:>17}{counted.utilisation:>13.0%}   "
        f"{statistics.median(rates):6.0f} ({min(rates):.0f} to {max(rates):.0f}){statistics.median(r.ttft_p50 for r in spans[policy]):>14.2f}{1000 * statistics.median(r.gap_p99 for r in spans[policy]):>14.0f}"
    )
answers = [[request.output for request in engine.requests.values()] for engine in served.values()]
assert answers[0] == answers[1] == answers[2], "a scheduler must not change a token"
assert len(served["static"].log) == sum(longest_of_8), "a static batch takes as long as its longest answer"
last = {policy: runs[-1] for policy, runs in spans.items()}
assert last["continuous"].steps < last["static"].steps and last["continuous"].positions < last["static"].positions
assert last["continuous"].utilisation == last["chunked"].utilisation == 1 > last["static"].utilisation
plots.lines(
    {
        policy: (
            list(range(1, len(engine.log) + 1)),
            [sum(not padding for *_, padding in step.work) for step in engine.log],
        )
        for policy, engine in served.items()
        if policy != "continuous"
    },
    xlabel="step of the engine",
    ylabel="requests that make progress",
    title="A static batch empties out; with chunks a free place is filled again",
)

# %% [markdown]
# *The figure: how many requests take a useful part in each step. Static batching falls from 8 towards 1 again and again, once per batch, and takes the most steps. With chunks it stays near 8 until the queue is empty; the last 60 steps or so serve one long answer alone.
# (Continuous batching without chunks is left out of the figure: it goes up and down between 8 and the few rows of a step that reads new prompts.)*
#
# The tokens are the same under all three. Look at some columns once more.
#
# - **Padding**: static batching computes it for nobody. "Useful pos." is the rest of the positions.
# - **Steps** (`SEED = 0`): 354 against 220 and 200 is a gain of 1.6 and 1.8, and the formula says 2.75. It assumes a queue that never ends; here the last steps serve one answer alone. And prompts take steps, or a part of them, too.
# - **Gaps**: of the two that never pad, continuous batching has the worse p99, since it computes a prompt whole: that was card 6. Static batching has the shortest gaps of all, since nobody joins. Those who wait pay for that: see its TTFT.
#
# ### Schedule it yourself
#
# The timeline is drawn from the engine's own log, on the counted clock. Ten requests arrive one after the other. Change the policy, the places in a step (`max_seqs`) and the token budget. Before you move a slider, say what will happen to the longest gap.

# %%
widgets.scheduler_timeline(exact, policy="chunked", max_seqs=4, token_budget=16)

# %% [markdown]
# *The figure: one row per request, time to the right. Blue bars (plain) read a prompt, orange bars (hatched) write one token each, grey bars are padding; a thin line is the wait. With `static` there is grey, and the rows come in groups.
# With `continuous` a long blue bar has a hole in every orange row above it. With `chunked` blue and orange share steps, and a smaller budget makes more, shorter steps.*

# %% [markdown]
# ### Exercise: `plan_step`
#
# *25 minutes · difficulty 3 of 5 · 4 points*
#
# One step of a scheduler with chunks: who takes part, with how many tokens. Only this cell is collected.


# %% exercise="plan_step" minutes=25 difficulty=3
# exercise: plan_step
def plan_step(
    decoding: list[str], prefilling: list[tuple[str, int]], max_seqs: int, token_budget: int
) -> dict[str, int]:
    """Which requests take part in the next step of the model, and with how many tokens each.

    decoding: ids of the requests that make text, in order. Each wants 1 token per step.
    prefilling: (id, prompt tokens still to do, at least 1) of the others, in the order in which they arrived.
    max_seqs: at most so many requests in one step, of both kinds together.
    token_budget: at most so many tokens in one step, of both kinds together.
    Decoding requests come first, in order. What is left of the budget goes to prefilling, in order: each gets all that it
    still has to do, and the last one, if it does not fit, as much as does.
    Returns {id: tokens}, without entries of 0 tokens. The order of its entries does not matter.
    A limit of 0 gives {}; a negative limit raises ValueError. The two lists stay as they are.
    """
    ### BEGIN SOLUTION
    if max_seqs < 0 or token_budget < 0:
        raise ValueError(f"limits cannot be negative, got {max_seqs} and {token_budget}")
    plan = dict.fromkeys(decoding[: min(max_seqs, token_budget)], 1)
    left = token_budget - len(plan)
    for name, still_to_do in prefilling[: max_seqs - len(plan)]:
        if left == 0:
            break
        plan[name] = min(still_to_do, left)
        left -= plan[name]
    return plan
    ### END SOLUTION


# %% [markdown] hints="plan_step"
# 1. Keep two numbers: how many tokens and how many places are left. Give to one request after the other, and stop when either is 0.
# 2. A decoding request costs one place and one token. A prefilling one costs one place and the smaller of what it needs and what is left.
# 3. Nobody is passed over: who does not fit whole gets a part, and the ones behind it wait. Check the limits first; build a new dict, and take nothing out of the two lists.

# %% check="plan_step" points=4
with check.exercise("plan_step") as t:
    t.equal(
        plan_step(["a", "b"], [("c", 5), ("d", 2)], max_seqs=8, token_budget=32),
        {"a": 1, "b": 1, "c": 5, "d": 2},
        "room for all: decoding requests get 1 token, prefilling ones all that they still have to do",
    )
    t.equal(
        plan_step([], [("d", 40)], max_seqs=8, token_budget=16),
        {"d": 16},
        "a prompt that does not fit is cut to what is left; it neither waits nor goes over the budget",
    )
    t.equal(
        plan_step(["a", "b", "c"], [("d", 40)], max_seqs=8, token_budget=16),
        {"a": 1, "b": 1, "c": 1, "d": 13},
        "decoding requests come first, and their 3 tokens come out of the same budget: 13 of 16 are left for the chunk",
    )
    t.equal(
        plan_step([], [("d", 5), ("e", 40)], max_seqs=8, token_budget=16),
        {"d": 5, "e": 11},
        "in order of arrival: the first gets all it needs, the last one is cut to what is left",
    )
    t.equal(
        plan_step([], [("d", 20), ("e", 3)], max_seqs=8, token_budget=16),
        {"d": 16},
        "the first to arrive takes the whole budget; who gets nothing has no entry",
    )
    t.equal(
        plan_step(["a", "b", "c", "d"], [("e", 4)], max_seqs=8, token_budget=3),
        {"a": 1, "b": 1, "c": 1},
        "more decoding requests than tokens: the first ones, in order, and no prefill",
    )
    t.equal(
        plan_step(["a", "b"], [("c", 4), ("d", 4)], max_seqs=3, token_budget=100),
        {"a": 1, "b": 1, "c": 4},
        "max_seqs counts both kinds together: one place is left for prefill",
    )
    t.equal(
        plan_step(["a", "b", "c"], [("d", 4)], max_seqs=2, token_budget=100),
        {"a": 1, "b": 1},
        "more decoding requests than max_seqs: the first ones, in order",
    )
    t.equal(plan_step([], [], max_seqs=4, token_budget=8), {}, "nobody is there: an empty plan")
    t.equal(plan_step(["a"], [("b", 3)], max_seqs=0, token_budget=8), {}, "max_seqs = 0: an empty plan, no error")
    t.equal(plan_step(["a"], [("b", 3)], max_seqs=8, token_budget=0), {}, "token_budget = 0: an empty plan, no error")
    waiting, writing = [("c", 4), ("d", 9)], ["a", "b"]
    plan_step(writing, waiting, max_seqs=4, token_budget=8)
    t.equal(writing, ["a", "b"], "your function must not change the list of decoding requests")
    t.equal(waiting, [("c", 4), ("d", 9)], "your function must not change the list of prefilling requests")
    t.raises(ValueError, lambda: plan_step(["a"], [("b", 3)], -1, 8), "a negative max_seqs makes no sense")
    t.raises(ValueError, lambda: plan_step(["a"], [("b", 3)], 8, -1), "a negative token_budget makes no sense")
    t.raises(ValueError, lambda: plan_step([], [], 8, -1), "a negative limit is an error even when nobody is there")

# %%
claims.show(card=7)

# %% [markdown] manual="choose_the_budget" points=3
# ### In your own words
#
# **Question.** A server decodes for 20 users on a GPU whose ridge point is 150 operations per byte, with 16-bit weights. Prompts of about 4000 tokens come in now and then. Somebody proposes a token budget of 40, so that "nobody ever waits", and somebody else proposes none, "since cutting costs time".
# Say what is wrong with each of the two, name a budget that you would start with, and give its reason. Then say what a smaller budget than yours does to the newcomer's TTFT, to the longest gap of the others and to throughput, above and below the ridge point. Four to seven sentences.
#
# ### BEGIN SOLUTION
# A budget of 40 leaves 20 tokens for the prompt next to the 20 decodes: the prompt takes 200 steps, each of 40 tokens, far below the ridge of about 150 tokens, so each waits for all the weights to be read; the prompt takes several times longer than it has to (1 point).
# Without a budget a prompt of 4000 tokens is one step some 25 times as long as a decode step, and all 20 users see their text stop for it: p99 of the gap is bad while the median looks fine (1 point).
# A budget somewhat above the ridge, 200 to 500 tokens: pieces are limited by arithmetic, so cutting costs little, and a step stays a small multiple of a decode step. With a smaller one the newcomer's TTFT gets worse (more steps, each shared with the decodes) and the longest gap of the others shorter, but only down to the ridge: below it a step takes as long as reading the weights, so the gap gets hardly shorter, and throughput falls (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("02_prefill_decode")

# %%
glossary.show(
    [
        "prefill",
        "decode",
        "TTFT",
        "TPOT",
        "TPS",
        "E2E",
        "throughput",
        "p99",
        "batch",
        "bandwidth",
        "arithmetic intensity",
        "ridge point",
        "roofline",
        "compute-bound",
        "memory-bound",
        "scheduler",
        "token budget",
        "chunked prefill",
        "static batching",
        "continuous batching",
        "padding",
        "heavy tail",
        "counted clock",
    ]
)

# %% [markdown]
# ## Recap
#
# - Prefill has many tokens in a pass, decode one per request. What limits a pass is how many tokens share the weights it reads, not what the phase is called.
# - TTFT includes the queue and the prefill; *n* tokens have *n* − 1 gaps; TPS of a request and throughput of a server are two numbers.
# - A roofline gives a lower bound: the larger of operations / peak and bytes / bandwidth. The ridge point says where the limit changes.
# - A batch makes the weights cheaper and the cache not: each sequence reads its own.
# - Chunked prefill computes the same numbers. It trades the newcomer's TTFT, and below the ridge point some throughput, for short gaps.
# - Continuous batching gains from answers of different lengths; how much depends on their spread and on the batch.
# - A scheduler must not change a token. Test that, with prompts that are cut.
#
# **Where this lives in real engines** (transformers 5.24.0; vLLM at commit 00024d3; read on 30 November 2026)
#
# | part | transformers | vLLM |
# |---|---|---|
# | who computes what in the next step | `generation/continuous_batching/scheduler.py`: `FIFOScheduler`, `PrefillFirstScheduler` | `v1/core/sched/scheduler.py`: `schedule` (running requests first, then waiting ones, out of one `token_budget`) |
#
# **Next:** notebook 03 looks at the memory behind all this: fewer KV heads, pages instead of one long row, and windows.
