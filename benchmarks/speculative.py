"""What speculative decoding wins or loses on ordinary text, beside the formula with the costs measured here.

    python benchmarks/speculative.py [--quick] [--rounds 5] [--targets readable fast] [--json FILE]

The primer answers six prompts with 120 tokens each, greedily. Every way of drafting takes turns with plain decoding in
one process, on one thread. README.md beside this file says how to read the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import torch
from arguments import count, new_file
from decode import Spread, in_turn, ran_on, table
from tqdm import tqdm

from kvlab import profiling, speculative
from kvlab.cache import PreallocatedCache
from kvlab.generate import generate_cached
from kvlab.loading import load
from kvlab.model import Llama
from kvlab.primer import corpus
from kvlab.primer.measure import PROMPTS

PLAIN = "plain"
TABLE_SEED, TABLE_DOCUMENTS, GRAM = 777, 3_000, 4  # not a seed that the models were trained on


@dataclass(frozen=True)
class Plan:
    prompts: tuple[str, ...] = PROMPTS
    n_new: int = 120
    lengths: tuple[int, ...] = (1, 2, 4, 6, 8)
    rounds: int = 5
    targets: tuple[str, ...] = ("readable", "fast")
    documents: int = TABLE_DOCUMENTS


QUICK = Plan(PROMPTS[:2], 24, (2, 4), 1, documents=200)


@dataclass(frozen=True)
class Row:
    """One way of drafting. `gain` is plain decoding's time over this one's, run by run; `formula` what it should be.

    cost_ratio: a draft step in target steps. verify_cost: the target's pass over k + 1 tokens in target steps.
    break_even: the acceptance above which it pays at these costs; `same_text` counts prompts with plain's tokens.
    """

    target: str
    draft: str
    k: str
    seconds: Spread
    gain: Spread
    acceptance: float
    tokens_per_round: float
    cost_ratio: float | None
    verify_cost: float | None
    formula: float | None
    break_even: float | None
    same_text: int


def measure(plan: Plan, name: str, target: Any, drafts: dict[str, Any]) -> list[Row]:
    """Rows of one target: plain decoding, and every draft with every K."""
    lengths: list[int | speculative.AdaptiveK] = [
        *plan.lengths,
        speculative.AdaptiveK(min(4, max(plan.lengths)), 1, max(plan.lengths)),
    ]
    expected = [generate_cached(target, prompt, plan.n_new, ignore_eos=True).tokens for prompt in plan.prompts]
    runs: dict[str, Callable[[], Any]] = {PLAIN: lambda: plain(target, plan)}
    for draft_name, draft in drafts.items():
        for k in lengths:
            runs[f"{draft_name}/{shown(k)}"] = lambda d=draft, k=k: speculate(target, d, k, plan)
    for run in runs.values():  # the first calls set things up
        run()
    with tqdm(total=plan.rounds * len(runs), desc=name, file=sys.stderr) as bar:
        results = in_turn(runs, plan.rounds, bar)
    step, verify = target_costs(target, max(plan.lengths))
    rows = []
    for draft_name, draft in drafts.items():
        for k in lengths:
            found = results[f"{draft_name}/{shown(k)}"]
            rows.append(row_of(name, draft_name, draft, k, results[PLAIN], found, expected, step, verify))
    base = Spread.of(results[PLAIN])
    same = len(plan.prompts)
    return [Row(name, PLAIN, "-", base, Spread(1, 1, 1), 0, 1, None, None, None, None, same), *rows]


def row_of(
    name: str,
    draft_name: str,
    draft: Any,
    k: int | speculative.AdaptiveK,
    base: Sequence[float],
    found: Sequence[list[speculative.Speculation]],
    expected: Sequence[list[int]],
    step: float,
    verify: dict[int, float],
) -> Row:
    first = found[0]  # greedy: every round of the benchmark drafts and accepts the same
    tokens, rounds = sum(len(run.tokens) for run in first), sum(run.rounds for run in first)
    together = speculative.Speculation([], history=[pair for run in first for pair in run.history])
    seconds = [sum(run.seconds for run in runs) for runs in found]
    cost = verify_cost = formula = pays = None
    if isinstance(k, int) and together.drafted > 0.9 * k * rounds:  # the formula takes k tokens in every round
        spent = min(sum(run.draft_seconds for run in runs) for runs in found)
        cost = spent / together.drafted / step
        verify_cost = verify[k]
        formula = speculative.speedup(together.acceptance, k, cost, verify_cost)
        pays = speculative.break_even(k, cost, verify_cost)
    return Row(
        name,
        draft_name,
        shown(k),
        Spread.of(seconds),
        Spread.of([a / b for a, b in zip(base, seconds, strict=True)]),
        together.acceptance,
        tokens / rounds,
        cost,
        verify_cost,
        formula,
        pays,
        sum(run.tokens == right for run, right in zip(first, expected, strict=True)),
    )


def plain(target: Any, plan: Plan) -> float:
    return sum(generate_cached(target, prompt, plan.n_new, ignore_eos=True).seconds for prompt in plan.prompts)


def speculate(target: Any, draft: Any, k: int | speculative.AdaptiveK, plan: Plan) -> list[speculative.Speculation]:
    return [
        speculative.speculative_generate(target, draft, prompt, plan.n_new, k, ignore_eos=True)
        for prompt in plan.prompts
    ]


def target_costs(target: Any, most: int) -> tuple[float, dict[int, float]]:
    """Seconds of a decode step at 80 held tokens, and a pass over k + 1 tokens in steps, for k up to `most`."""
    cache = PreallocatedCache(target.config, 160, dtype=target.dtype)
    with torch.no_grad():
        target(torch.arange(4, 84), cache)

    def push(n: int) -> Callable[[], None]:
        ids = torch.arange(5, 5 + n)

        def run() -> None:
            with torch.no_grad():
                target(ids, cache)
            cache.truncate(80)

        return run

    timed = profiling.interleave({str(n): push(n) for n in range(1, most + 2)}, repeats=40, warmup=5)
    step = timed["1"].median
    return step, {k: timed[str(k + 1)].median / step for k in range(1, most + 1)}


def drafts_of(name: str, target: Llama, draft: Llama, n_gram: speculative.NGramTable) -> tuple[Any, dict[str, Any]]:
    """The target as it runs under `name`, and its drafts."""
    free = {"4-gram table": speculative.NGramDraft(n_gram), "prompt look-up": speculative.PromptLookup(3)}
    if name == "readable":
        early = {f"first {n} layers": speculative.EarlyExit(target, n) for n in (2, 4)}
        return target, {"primer-draft": speculative.ModelDraft(draft), **free, **early}
    from kvlab.fast import FastLlama

    fast, helper = (FastLlama.from_model(model, "fp32", threads=1) for model in (target, draft))
    return fast, {"primer-draft": speculative.ModelDraft(helper), **free}


def shown(k: int | speculative.AdaptiveK) -> str:
    return str(k) if isinstance(k, int) else f"1 to {k.most}"


def report(rows: Sequence[Row]) -> str:
    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    body = [
        (
            row.target,
            row.draft,
            row.k,
            f"× {row.gain.text(2)}",
            cell(row.formula, ".2f"),
            cell(row.acceptance if row.draft != PLAIN else None, ".2f"),
            cell(row.break_even, ".2f"),
            f"{row.tokens_per_round:.2f}",
            cell(row.cost_ratio, ".3f"),
            cell(row.verify_cost, ".2f"),
            str(row.same_text),
        )
        for row in rows
    ]
    head = ("target", "draft", "K", "as fast as plain", "formula", "acceptance", "break-even", "tokens/round")
    return table((*head, "draft step", "verify pass", "same text"), body)


def main(argv: Sequence[str] | None = None, plan: Plan | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few prompts and runs: to see that it works")
    parser.add_argument("--rounds", type=count, help="runs of each row")
    parser.add_argument("--targets", nargs="+", choices=Plan().targets)
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write every number to FILE")
    options = parser.parse_args(argv)
    plan = plan or (QUICK if options.quick else Plan())
    plan = replace(plan, rounds=options.rounds or plan.rounds, targets=tuple(options.targets or plan.targets))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        target, draft = load("primer", "cpu"), load("primer-draft", "cpu")
        tokenizer = target.tokenizer
        assert tokenizer is not None
        texts = islice(corpus.documents(TABLE_SEED), plan.documents)
        n_gram = speculative.NGramTable.from_documents(map(tokenizer.encode, texts), GRAM, target.config.vocab_size)
        rows = [row for name in plan.targets for row in measure(plan, name, *drafts_of(name, target, draft, n_gram))]
    finally:
        torch.set_num_threads(before)
    machine = ran_on()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(
        f"\n{len(plan.prompts)} prompts x {plan.n_new} tokens, greedy, one thread, {plan.rounds} runs\n\n{report(rows)}"
    )
    if options.json:
        options.json.write_text(json.dumps({"ran_on": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
