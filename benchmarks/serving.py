"""One heavy-tailed trace under three policies, a prefix hit, and ragged requests beside transformers' padded batch.

    python benchmarks/serving.py [--requests 128] [--rounds 3] [--json FILE]

The policies take turns in one process, so that a slow minute meets all of them. The model is the primer's target.

The trace: log-normal lengths (the logarithm spreads by 1) with medians of 60 prompt and 40 answer tokens, cut at 400 and
200 as a server's max_tokens would. Requests come at 40 a second (Poisson), which is more than any policy can serve: the
queue is never empty, so tokens/s is capacity, and TTFT is mostly waiting. At most 16 run at once, so 128 requests are
eight batches; with few batches, the filling at the start and the draining at the end would weigh too much.
Static batching is spared what it often pays: its prompts are not padded to the longest, and its step ends when the
longest *answer of the batch* is done, not at the limit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from arguments import count, new_file
from decode import ran_on

import kvlab
from kvlab.engine import POLICIES, Engine, Request
from kvlab.engine.trace import Summary, TraceSettings, heavy_tailed, summarise
from kvlab.sampling import SamplingSettings

GREEDY = SamplingSettings(temperature=0)
MAX_SEQS = 16


def serve(model: Any, policy: str, trace: TraceSettings) -> Summary:
    """One run of the trace."""
    engine = Engine(model, n_blocks=700, block_size=16, policy=policy, max_seqs=MAX_SEQS, token_budget=64)
    engine.run(heavy_tailed(trace, model.config.vocab_size))
    return summarise(engine)


def prefix_hit(model: Any) -> dict[str, float]:
    """A prompt whose first nine tenths were seen before: positions computed, and seconds to the first token."""
    torch.manual_seed(0)
    shared = torch.randint(0, model.config.vocab_size, (432,)).tolist()
    engine = Engine(model, n_blocks=200, block_size=16, token_budget=512)
    cold = Request("cold", [*shared, *range(48)], 2, ignore_eos=True)
    engine.run([cold])
    warm = Request("warm", [*shared, *range(48, 96)], 2, arrival=engine.clock.now(), ignore_eos=True)
    engine.run([warm])
    computed = [request.positions - 1 for request in (cold, warm)]
    return {
        "cold_positions": computed[0],
        "warm_positions": computed[1],
        "cold_ttft": cold.ttft,
        "warm_ttft": warm.ttft,
    }


def ragged(model: Any, hf: Any) -> dict[str, float]:
    """16 prompts of very different lengths, 32 new tokens each: engine against a padded batch."""
    lengths = [int(8 * 1.27**i) for i in range(16)]  # 8 to about 290
    torch.manual_seed(1)
    prompts = [torch.randint(3, model.config.vocab_size, (n,)).tolist() for n in lengths]
    engine = Engine(model, n_blocks=700, block_size=16, policy="chunked", max_seqs=16, token_budget=2048)
    requests = [Request(str(i), ids, 32, GREEDY, ignore_eos=True) for i, ids in enumerate(prompts)]
    ours = timed(lambda: engine.run(requests))
    widest = max(lengths)
    ids = torch.tensor([[0] * (widest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (widest - len(p)) + [1] * len(p) for p in prompts])
    options = {"max_new_tokens": 32, "min_new_tokens": 32, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        theirs = timed(lambda: hf.generate(ids, attention_mask=mask, **options))
    return {"ours": ours, "transformers": theirs, "ratio": theirs / ours}


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def spread(values: list[float], digits: int = 1) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=count, default=128)
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--json", type=new_file)
    args = parser.parse_args()
    model = kvlab.load("primer")
    trace = TraceSettings(args.requests, rate=40.0, answer_median=40)
    serve(model, "chunked", TraceSettings(4))  # warm
    runs: dict[str, list[Summary]] = {policy: [] for policy in POLICIES}
    for round_ in range(args.rounds):
        for i in range(len(POLICIES)):
            policy = POLICIES[(i + round_) % len(POLICIES)]
            runs[policy].append(serve(model, policy, trace))
    print(
        "| policy | tokens/s | TTFT p50, s | TTFT p99, s | gap p50, ms | gap p99, ms | utilisation | KV waste | steps |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for policy, found in runs.items():
        cells = [
            spread([s.tokens_per_second for s in found], 0),
            spread([s.ttft_p50 for s in found], 2),
            spread([s.ttft_p99 for s in found], 2),
            spread([1000 * s.gap_p50 for s in found]),
            spread([1000 * s.gap_p99 for s in found]),
            f"{100 * found[0].utilisation:.0f} %",
            f"{100 * statistics.median(s.waste for s in found):.1f} %",
            str(found[0].steps),
        ]
        print(f"| {policy} | {' | '.join(cells)} |")
    pairs = {
        "continuous / static, tokens/s": [
            c.tokens_per_second / s.tokens_per_second for c, s in zip(runs["continuous"], runs["static"], strict=True)
        ],
        "continuous / chunked, p99 gap": [
            c.gap_p99 / k.gap_p99 for c, k in zip(runs["continuous"], runs["chunked"], strict=True)
        ],
        "chunked / continuous, tokens/s": [
            k.tokens_per_second / c.tokens_per_second for c, k in zip(runs["continuous"], runs["chunked"], strict=True)
        ],
    }
    for name, ratios in pairs.items():
        print(f"{name}: {spread(ratios, 2)}")
    hits = [prefix_hit(model) for _ in range(args.rounds)]
    first = hits[0]
    print(f"prefix hit: {first['cold_positions']} positions computed, then {first['warm_positions']}")
    print(f"prefix hit, TTFT cold / warm: {spread([h['cold_ttft'] / h['warm_ttft'] for h in hits], 2)}")
    from rivals import transformers_twin

    hf = transformers_twin(model)
    against = [ragged(model, hf) for _ in range(args.rounds)]
    print(f"16 ragged requests, transformers' padded batch / ours, seconds: {spread([a['ratio'] for a in against], 2)}")
    if args.json:
        record = {"machine": ran_on(), "runs": {p: [vars(s) for s in found] for p, found in runs.items()}}
        args.json.write_text(json.dumps({**record, "prefix": hits, "ragged": against}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
