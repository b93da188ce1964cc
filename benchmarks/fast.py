"""kvlab.fast against `transformers`, the readable model, and what the memory of this machine allows.

    python benchmarks/fast.py [--quick] [--json FILE]

Random weights in SmolLM2-135M's shape, so it needs no download. Everything that is compared runs in turn in one
process: short runs, medians with ranges, ratios run by run. docs/fast.md says what the rows mean.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from arguments import count, new_file
from decode import PROMPT, Spread, in_turn, primer, ran_on
from limits import bandwidth
from llamacpp import rivals
from rivals import Decoded, Stopwatch, decode_runs, transformers_twin
from rows import Row, report, rows_of
from tqdm import tqdm

from kvlab import profiling
from kvlab.cache import PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.fast import FastLlama, sampling
from kvlab.fast.weights import as_tensor
from kvlab.generate import decode_step, prefill
from kvlab.loading import random_model
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings, next_token_probs, sample

LLAMA_CPP = "llama.cpp bf16"
READABLE, GENERATE, STATIC = "readable", "transformers generate", "transformers generate, static cache"


@dataclass(frozen=True)
class Plan:
    """What is measured. `steps` counts the decode steps of one run, `rounds` the runs of each row."""

    shape: str | ModelConfig = "smollm2-135m"
    contexts: tuple[int, ...] = (128, 1024)
    prompts: tuple[int, ...] = (512, 2048)
    formats: tuple[str, ...] = ("fp32", "bf16", "int8", "int4")
    vocab: int = 128_256
    steps: int = 12
    rounds: int = 7
    stream_bytes: int = 2**28


FULL = Plan()
QUICK = Plan(contexts=(128,), prompts=(512,), rounds=3, steps=8)


# --- decode ----------------------------------------------------------------------------------------------------------


def step_seconds(run: Callable[[], Decoded]) -> Callable[[], float]:
    return lambda: 1 / run().tokens_per_s


def decoded(model: Any, cache: PreallocatedCache, ids: Sequence[int], steps: int) -> Decoded:
    """Greedy steps after a cache that holds all of `ids` but the last."""
    cache.truncate(len(ids) - 1)
    token, tokens, times = ids[-1], [], []
    for _ in range(steps + 1):
        token = int(decode_step(model, token, cache).argmax())
        tokens.append(token)
        times.append(time.perf_counter())
    return Decoded(tokens, times)


def decoded_static(twin: Any, ids: Sequence[int], steps: int) -> Decoded:
    """`generate` with its preallocated cache; the prompt is part of each call, but not of the times."""
    watch, prompt = Stopwatch(), torch.tensor([list(ids)])
    twin.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=steps + 1,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,
        streamer=watch,
    )
    return Decoded(watch.tokens, watch.times)


def measure_decode(
    plan: Plan, model: Llama, fast: Mapping[str, FastLlama], native: Mapping[str, Any], threads: int
) -> tuple[list[Row], dict[str, float]]:
    """Rows for each context, and the best read speeds seen, in bytes per second.

    The speed is measured before and after each context: the best of all is the one that other work disturbed least.
    """
    twin = transformers_twin(model)
    rates = bandwidth(plan.stream_bytes, threads)
    measured = []
    draw = torch.Generator().manual_seed(0)
    for context in plan.contexts:
        ids = torch.randint(2, model.config.vocab_size, (context,), generator=draw).tolist()
        given = decode_runs(model, twin, ids, plan.steps)
        runs = {READABLE: given["kvlab"], GENERATE: given[GENERATE]}
        runs[STATIC] = lambda ids=ids: decoded_static(twin, ids, plan.steps)  # type: ignore[misc]
        n_bytes = {}
        for name, one in fast.items():
            cache = one.new_cache(context + plan.steps)
            prefill(one, ids[:-1], cache)  # type: ignore[arg-type]
            runs[name] = lambda one=one, cache=cache, ids=ids: decoded(one, cache, ids, plan.steps)  # type: ignore[misc]
            n_bytes[name] = one.nbytes + cache.nbytes / cache.length * (context + plan.steps / 2)
        for name, one in native.items():
            one.prefill(ids[:-1])
            runs[name] = lambda one=one, ids=ids: one.decode(ids, plan.steps)  # type: ignore[misc]
        for run in runs.values():
            run()
        with tqdm(total=plan.rounds * len(runs), desc=f"decode {context}", file=sys.stderr) as bar:
            seconds = in_turn({name: step_seconds(run) for name, run in runs.items()}, plan.rounds, bar)
        measured.append((context, seconds, n_bytes))
        again = bandwidth(plan.stream_bytes, threads)
        rates = {name: max(rate, again[name]) for name, rate in rates.items()}
    rows = []
    for context, seconds, n_bytes in measured:
        best = min((GENERATE, STATIC), key=lambda name: Spread.of(seconds[name]).median)
        beside = dict.fromkeys([READABLE, "bf16"], best) | {"int8": "bf16", "int4": "bf16"}
        beside |= {f"llama.cpp {theirs}": ours for theirs, ours in (("bf16", "bf16"), ("q8_0", "int8"))}
        limits = {name: size / max(rates.values()) for name, size in n_bytes.items()}
        rows += rows_of(f"decode, context {context}", seconds, beside, limits)
    return rows, rates


# --- prefill ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def measure_prefill(plan: Plan, model: Llama, fast: FastLlama, native: Mapping[str, Any]) -> list[Row]:
    """Whole prompts in bf16; "matrix products" are the layers' products alone, which nothing can leave out."""
    twin = transformers_twin(model)
    rows = []
    draw = torch.Generator().manual_seed(1)
    for n in plan.prompts:
        ids = torch.randint(2, model.config.vocab_size, (n,), generator=draw)
        caches = {m: PreallocatedCache(model.config, n, dtype=torch.bfloat16) for m in (READABLE, "bf16")}

        def ours(one: Any, cache: PreallocatedCache, ids: torch.Tensor = ids) -> None:
            cache.truncate(0)
            one(ids, cache, last_only=True)

        runs: dict[str, Callable[[], Any]] = {
            GENERATE: lambda ids=ids: twin(ids[None], use_cache=True, logits_to_keep=1),
            READABLE: lambda caches=caches, ours=ours: ours(model, caches[READABLE]),
            "bf16": lambda caches=caches, ours=ours: ours(fast, caches["bf16"]),
            "matrix products": lambda n=n: products(fast, n),
        }
        if LLAMA_CPP in native:
            runs[LLAMA_CPP] = lambda ids=ids: native[LLAMA_CPP].prefill(ids.tolist())
        for run in runs.values():
            run()
        rounds = max(plan.rounds // 2, 2)
        with tqdm(total=rounds * len(runs), desc=f"prefill {n}", file=sys.stderr) as bar:
            timed = {name: lambda run=run: profiling.seconds_of(run) for name, run in runs.items()}
            seconds = in_turn(timed, rounds, bar)  # type: ignore[arg-type]
        beside = {READABLE: GENERATE, "bf16": GENERATE, "matrix products": "bf16", LLAMA_CPP: "bf16"}
        rows += rows_of(f"prefill {n}, bf16", seconds, beside)
    return rows


def products(fast: FastLlama, n: int) -> None:
    """Every matrix of every layer times n vectors."""
    w = fast.weights
    for matrix in (w.qkv, w.out, w.gate_up, w.down):
        x = torch.ones(n, matrix.codes.shape[2], dtype=fast.dtype)
        for layer in as_tensor(matrix.codes):
            F.linear(x, layer)


# --- samplers and the primer -----------------------------------------------------------------------------------------


def measure_sampling(plan: Plan) -> list[Row]:
    """Repetition penalty, temperature, top-k, top-p and the draw, after 1024 tokens; the second row without top-k."""
    from transformers import (
        LogitsProcessorList,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    draw = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(plan.vocab, generator=draw)
    context = torch.randint(0, plan.vocab, (1024,), generator=draw)
    listed = context.tolist()
    rows = []
    for top_k in (50, None):
        settings = SamplingSettings(temperature=0.8, top_k=top_k, top_p=0.95, repetition_penalty=1.1)
        top = [TopKLogitsWarper(top_k)] if top_k else []
        chain = LogitsProcessorList(
            [RepetitionPenaltyLogitsProcessor(1.1), TemperatureLogitsWarper(0.8), *top, TopPLogitsWarper(0.95)]
        )

        def theirs(chain: Any = chain) -> Any:
            return torch.multinomial(chain(context[None], logits[None].clone()).softmax(-1), 1)

        runs: dict[str, Callable[[], Any]] = {
            "transformers processors": theirs,
            READABLE: lambda s=settings: sample(next_token_probs(logits, s, listed)),
            "kvlab.fast.sampling": lambda s=settings: sampling.next_token(logits, s, listed),
        }
        for run in runs.values():
            run()
        with tqdm(total=3 * 3 * plan.rounds, desc="sampling", file=sys.stderr) as bar:
            timed = {name: lambda run=run: profiling.seconds_of(run) for name, run in runs.items()}
            seconds = in_turn(timed, 3 * plan.rounds, bar)  # type: ignore[arg-type]
        beside = {READABLE: "transformers processors", "kvlab.fast.sampling": "transformers processors"}
        rows += rows_of(f"sampling from {plan.vocab}, {'top-k, ' if top_k else ''}top-p, penalty", seconds, beside)
    return rows


def measure_primer(plan: Plan) -> list[Row]:
    """The trained primer model, float32, one sequence."""
    model, about = primer()
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(PROMPT)
    fast = FastLlama.from_model(model, "fp32")
    runs = {}
    for name, one in ((READABLE, model), ("fp32", fast)):
        cache = PreallocatedCache(model.config, len(ids) + 32)
        prefill(one, ids[:-1], cache)  # type: ignore[arg-type]
        runs[name] = step_seconds(lambda one=one, cache=cache: decoded(one, cache, ids, 31))  # type: ignore[misc]
        runs[name]()
    with tqdm(total=2 * plan.rounds, desc="primer", file=sys.stderr) as bar:
        seconds = in_turn(runs, plan.rounds, bar)
    return rows_of(f"decode, {about.partition(' ')[0]}", seconds, {"fp32": READABLE})


def main(argv: Sequence[str] | None = None, plan: Plan | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few points and runs: to see that it works, not to record")
    parser.add_argument("--threads", type=count, help="threads of everything; torch's number by default")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write every number to FILE")
    options = parser.parse_args(argv)
    if find_spec("transformers") is None:
        print("transformers is not installed: install the `dev` extra of this repository", file=sys.stderr)
        return 1
    plan = plan or (QUICK if options.quick else FULL)
    before = torch.get_num_threads()
    threads = options.threads or before
    torch.set_num_threads(threads)
    try:
        result = measure(plan, threads)
    finally:
        torch.set_num_threads(before)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def measure(plan: Plan, threads: int) -> dict[str, Any]:
    """Measure and print; the result holds every number."""
    load = [os.getloadavg()[0]]
    machine = ran_on() | {"numba": version("numba"), "threads": str(threads)}
    print(", ".join(f"{name} {value}" for name, value in machine.items()))

    model = random_model(plan.shape, "cpu", torch.bfloat16)
    fast = {name: FastLlama.from_model(model, name) for name in plan.formats}
    with TemporaryDirectory() as folder:
        native = rivals(model, Path(folder), threads, max(*plan.contexts, *plan.prompts) + plan.steps + 1)
        rows, rates = measure_decode(plan, model, fast, native, threads)
        rows += measure_prefill(plan, model, fast["bf16"], native)
    rows += measure_sampling(plan) + measure_primer(plan)
    load.append(os.getloadavg()[0])
    print("Read speed: " + ", ".join(f"{name} {rate / 1e9:.1f}" for name, rate in rates.items()) + " GB/s")
    print(f"Load average before and after: {load[0]:.1f}, {load[1]:.1f}\n\n{report(rows)}")
    return {"ran_on": machine, "load": load, "bandwidth_bytes_per_s": rates, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    sys.exit(main())
