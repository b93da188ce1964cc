"""How fast this course's decoder is: against `transformers`, against the memory limit, and against having no cache.

    python benchmarks/decode.py [--quick] [--json FILE]

Everything that is compared runs in turn in one process, on the same weights, in the same dtype and with the same
threads. README.md beside this file says how to read the tables.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch
from arguments import new_file
from rivals import KVLAB, Decoded, decode_runs, transformers_twin
from tqdm import tqdm

from kvlab import arithmetic, profiling
from kvlab.cache import GrowingCache
from kvlab.config import ModelConfig
from kvlab.generate import generate_cached, generate_naive
from kvlab.loading import load, random_model
from kvlab.machine import cpu_name
from kvlab.model import Llama
from kvlab.paths import data_dir

NAIVE, GROWING, PREALLOCATED = "naive", "concatenating", "preallocated"
PROMPT = "Once there was a brave boy named Felix. Felix had a silver puppet."


@dataclass(frozen=True)
class Plan:
    """What is measured. `steps` counts the decode steps of one run, `rounds` the runs of each row."""

    shape: str | ModelConfig = "smollm2-135m"
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    threads: tuple[int, ...] = (1, 2)
    contexts: tuple[int, ...] = (128, 1024)
    steps: int = 12
    rounds: int = 11
    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    prompt_len: int = 16
    repeats: int = 3


FULL = Plan()
QUICK = Plan(threads=(1,), contexts=(128,), steps=8, rounds=3, lengths=(16, 64), repeats=2)


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest of several runs."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int) -> str:
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


@dataclass(frozen=True)
class DecodeRow:
    """One system at one point. `ratio` is kvlab's speed over this one's, run by run; above 1 kvlab is faster."""

    dtype: str
    threads: int
    context: int
    system: str
    tokens_per_s: Spread
    ratio: Spread
    limit_tokens_per_s: float
    limit_share: float
    same_tokens: bool


@dataclass(frozen=True)
class CacheRow:
    """One way of generating `n_new` tokens. `ratio` is its time over the preallocated cache's, run by run."""

    n_new: int
    system: str
    seconds: Spread
    ratio: Spread


def in_turn(runs: Mapping[str, Callable[[], Any]], rounds: int, bar: tqdm) -> dict[str, list[Any]]:
    """The results of every run, `rounds` times, in turn. Each round starts with another run, so that none always
    goes first; what slows the machine for a while then slows all of them."""
    names = list(runs)
    results: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(runs[name]())
            bar.update()
    return results


# --- (A) against transformers and the memory limit -------------------------------------------------------------------


def measure_decode(plan: Plan) -> tuple[list[DecodeRow], dict[int, float]]:
    """Rows of part A, and the best bandwidth seen with each number of threads in byte/s."""
    bandwidth = dict.fromkeys(plan.threads, 0.0)
    measured: list[tuple[torch.dtype, int, int, dict[str, list[Decoded]]]] = []
    total = len(plan.dtypes) * len(plan.threads) * len(plan.contexts) * plan.rounds * 3
    with tqdm(total=total, desc="decode", file=sys.stderr) as bar:
        for dtype in plan.dtypes:
            model = random_model(plan.shape, "cpu", dtype)
            twin = transformers_twin(model)
            draw = torch.Generator().manual_seed(0)
            for threads in plan.threads:
                torch.set_num_threads(threads)
                for context in plan.contexts:
                    # Before every point, not once: the best of all is the limit least disturbed by other work.
                    bandwidth[threads] = max(bandwidth[threads], profiling.read_bandwidth("cpu").best)
                    ids = torch.randint(2, model.config.vocab_size, (context,), generator=draw).tolist()
                    runs = decode_runs(model, twin, ids, plan.steps)
                    for run in runs.values():  # the first calls set things up
                        run()
                    measured.append((dtype, threads, context, in_turn(runs, plan.rounds, bar)))
    config = model.config
    rows = [row for point in measured for row in decode_rows(config, bandwidth[point[1]], plan.steps, *point)]
    return rows, bandwidth


def decode_rows(
    config: ModelConfig,
    bandwidth: float,
    steps: int,
    dtype: torch.dtype,
    threads: int,
    context: int,
    results: Mapping[str, list[Decoded]],
) -> list[DecodeRow]:
    # A step reads every weight once and the K and V held so far, on average half way through the run.
    n_bytes = arithmetic.pass_bytes(config, context + steps // 2, 1, dtype.itemsize)
    limit = bandwidth / n_bytes
    ours = results[KVLAB]
    rows = []
    for system, runs in results.items():
        speed = Spread.of([run.tokens_per_s for run in runs])
        ratio = Spread.of([a.tokens_per_s / b.tokens_per_s for a, b in zip(ours, runs, strict=True)])
        same = all(run.tokens == ours[0].tokens for run in runs)
        name = str(dtype).removeprefix("torch.")
        rows.append(DecodeRow(name, threads, context, system, speed, ratio, limit, speed.median / limit, same))
    return rows


# --- (B) no cache, a growing one, a preallocated one -----------------------------------------------------------------


def primer() -> tuple[Llama, str]:
    """The trained primer model and a word about it; its draft where the target's files are missing."""
    if (data_dir() / "primer" / "target" / "model.safetensors").exists():
        return load("primer", "cpu"), "primer"
    return load("primer-draft", "cpu"), "primer-draft (data/primer/target is missing, so the small draft stands in)"


def measure_caches(plan: Plan, model: Llama) -> list[CacheRow]:
    """Rows of part B, in fp32 with the most threads of the plan."""
    torch.set_num_threads(max(plan.threads))
    assert model.tokenizer is not None
    ids = (model.tokenizer.encode(PROMPT) * plan.prompt_len)[: plan.prompt_len]
    model.tokenizer = None  # without one, no end-of-text token can stop a run early
    rows = []
    with tqdm(total=3 * len(plan.lengths) * plan.repeats, desc="caches", file=sys.stderr) as bar:
        for n_new in plan.lengths:
            runs = cache_runs(model, ids, n_new)
            for run in cache_runs(model, ids, 2).values():
                run()
            seconds = in_turn(runs, plan.repeats, bar)
            for system, times in seconds.items():
                ratio = [a / b for a, b in zip(times, seconds[PREALLOCATED], strict=True)]
                rows.append(CacheRow(n_new, system, Spread.of(times), Spread.of(ratio)))
    return rows


def cache_runs(model: Llama, ids: list[int], n_new: int) -> dict[str, Callable[[], float]]:
    return {
        NAIVE: lambda: profiling.seconds_of(lambda: generate_naive(model, ids, n_new)),
        GROWING: lambda: profiling.seconds_of(
            lambda: generate_cached(model, ids, n_new, cache=GrowingCache(model.config))
        ),
        PREALLOCATED: lambda: profiling.seconds_of(lambda: generate_cached(model, ids, n_new)),
    }


# --- tables ----------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)


def decode_table(rows: Sequence[DecodeRow]) -> str:
    header = ("dtype", "threads", "context", "system", "tokens/s", "kvlab faster by", "share of limit", "same tokens")
    body = [
        (
            row.dtype,
            str(row.threads),
            str(row.context),
            row.system,
            row.tokens_per_s.text(1),
            "-" if row.system == KVLAB else "× " + row.ratio.text(2),
            f"{row.limit_share:.0%} of {row.limit_tokens_per_s:.0f}",
            "yes" if row.same_tokens else "no",
        )
        for row in rows
    ]
    return table(header, body)


def cache_table(rows: Sequence[CacheRow]) -> str:
    body = [
        (
            str(row.n_new),
            row.system,
            row.seconds.text(3),
            "-" if row.system == PREALLOCATED else "× " + row.ratio.text(2),
        )
        for row in rows
    ]
    return table(("new tokens", "system", "seconds", "time over preallocated"), body)


def ran_on() -> dict[str, str]:
    return {
        "date": date.today().isoformat(),
        "cpu": cpu_name(),
        "cores": str(torch.multiprocessing.cpu_count()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }


def main(argv: Sequence[str] | None = None, plan: Plan | None = None) -> int:
    """Measure and print. `plan` replaces the sizes that the options choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few points and runs: to see that it works, not to record")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write every number to FILE")
    options = parser.parse_args(argv)
    if find_spec("transformers") is None:
        print("transformers is not installed: install the `dev` extra of this repository", file=sys.stderr)
        return 1
    plan = plan or (QUICK if options.quick else FULL)
    machine = ran_on()
    print(", ".join(f"{name} {value}" for name, value in machine.items()))

    before = torch.get_num_threads()
    try:
        decode, bandwidth = measure_decode(plan)
        shape = plan.shape if isinstance(plan.shape, str) else "custom"
        print(f"\nDecode, one sequence, random weights in the shape of {shape}; {plan.steps} steps, {plan.rounds} runs")
        print("Best bandwidth: " + ", ".join(f"{b / 1e9:.1f} GB/s with {t} thread(s)" for t, b in bandwidth.items()))
        print(f"\n{decode_table(decode)}")

        model, about = primer()
        caches = measure_caches(plan, model)
        print(f"\nGeneration by the model {about}: prompt of {plan.prompt_len}, float32, ", end="")
        print(f"{max(plan.threads)} thread(s), {plan.repeats} runs\n\n{cache_table(caches)}")
    finally:
        torch.set_num_threads(before)
    if options.json:
        result = {
            "ran_on": machine,
            "bandwidth_bytes_per_s": bandwidth,
            "decode": [asdict(row) for row in decode],
            "cache_model": about,
            "caches": [asdict(row) for row in caches],
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
