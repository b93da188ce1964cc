"""What the committed primer models can do: `python benchmarks/primer.py [--write]` prints it, or records it in data/."""

import json
import sys
from dataclasses import replace
from typing import Any

import torch

from kvlab.cache import PreallocatedCache
from kvlab.generate import decode_step, prefill
from kvlab.loading import load
from kvlab.paths import data_dir
from kvlab.primer import dataset, measure, train
from kvlab.profiling import interleave


def main() -> None:
    torch.set_num_threads(1)
    models = {name: load(name, "cpu") for name in ("primer", "primer-draft", "primer-mha")}
    target, draft = models["primer"], models["primer-draft"]
    tokenizer = target.tokenizer
    assert tokenizer is not None
    figures: dict[str, Any] = {
        "perplexity": {n: round(measure.held_out_perplexity(m, tokenizer, 400), 4) for n, m in models.items()},
        "repeated_name_loss": {n: round(measure.repeated_name_loss(m, tokenizer), 3) for n, m in models.items()},
        "draft": {k: round(v, 3) for k, v in measure.draft_acceptance(target, draft).items()},
    }
    for task, make in (("animal", measure.animal_needle), ("secret", measure.secret_needle)):
        bands = {f"{b[0]}-{b[1]}": measure.needles(make, tokenizer, b, 500) for b in measure.BANDS}
        figures[f"recall_{task}"] = {b: round(measure.recall(target, asked), 3) for b, asked in bands.items()}
    steps = {}
    for name in ("primer", "primer-draft"):
        cache = PreallocatedCache(models[name].config, 256)
        prefill(models[name], list(range(4, 104)), cache)

        def step(model: Any = models[name], held: PreallocatedCache = cache) -> None:
            decode_step(model, 5, held)
            held.truncate(100)

        steps[name] = step
    timed = interleave(steps, repeats=200, warmup=20)
    figures["draft_step_over_target_step"] = round(timed["primer-draft"].median / timed["primer"].median, 3)
    small = dataset.build(tokenizer, n_documents=1500, n_needles=300, n_held_out=60)
    _, record = train.train(replace(train.RECIPES["draft"], steps=40), small, tokenizer, every=40)
    figures["short_run_loss"] = record["final"]["loss"]
    text = json.dumps(figures, indent=1)
    print(text)
    if "--write" in sys.argv:
        (data_dir() / "primer" / "figures.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
