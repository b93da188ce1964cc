"""Train the primer models: `python -m kvlab.primer.train target` (also: draft, mha, tokenizer).

Runs on one CPU thread with fixed seeds. Two thirds of what is learnt late, that a name in a question is the name
in the story, appears only if training starts on short rows, one document each; a share of such rows stays to the end.
"""

import argparse
import json
import math
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

from kvlab.config import ModelConfig
from kvlab.loading import initialise, load, save
from kvlab.model import Llama
from kvlab.paths import data_dir
from kvlab.primer import dataset, words
from kvlab.tokenizer import Tokenizer

TOKENS_PER_STEP = 3072
SHAPE = ModelConfig(
    vocab_size=1536, d_model=160, n_layers=8, n_heads=4, n_kv_heads=2, d_head=40, d_ff=432, max_len=8192
)


@dataclass(frozen=True)
class Recipe:
    """One training run. `lr` is the peak rate; it falls linearly over the second half."""

    config: ModelConfig
    steps: int
    lr: float = 4e-3
    seed: int = 0
    short_first: float = 0.35  # share of steps on short rows before packed rows begin
    short_every: int = 8  # after that, every so many steps is one on short rows
    binding: bool = False  # the short rows are those in which names have to be told apart
    long_every: int = 0  # every so many steps is one on long needles; 0 is never


RECIPES = {
    "target": Recipe(SHAPE, steps=3400),
    # goes on from the target: long rows keep what it knows, the others teach it whose name is whose
    "target-finish": Recipe(SHAPE, steps=1000, lr=2.5e-3, seed=1, short_first=0.0, short_every=2, binding=True),
    "target-long": Recipe(
        SHAPE, steps=280, lr=1.5e-3, seed=2, short_first=0.0, short_every=4, binding=True, long_every=2
    ),
    "draft": Recipe(replace(SHAPE, d_model=96, n_layers=1, n_heads=4, n_kv_heads=2, d_head=24, d_ff=256), steps=2400),
    "mha": Recipe(replace(SHAPE, d_model=128, n_layers=4, n_heads=8, n_kv_heads=8, d_head=16, d_ff=352), steps=2200),
}


def batches(corpus: dataset.Corpus, recipe: Recipe) -> Any:
    """(inputs, targets) of every step, (rows, width) each, in a fixed order."""
    rng = np.random.default_rng(recipe.seed)
    rows = {
        "packed": corpus.packed,
        "short": corpus.binding if recipe.binding else corpus.short,
        "long": corpus.long,
    }
    sources = {kind: _shuffled(rows[kind], rng) for kind in rows}
    for step in range(recipe.steps):
        kind = "packed"
        if step < recipe.short_first * recipe.steps or step % recipe.short_every == 0:
            kind = "short"
        elif recipe.long_every and step % recipe.long_every == 1:
            kind = "long"
        width = rows[kind].shape[1] - 1
        part = np.stack([next(sources[kind]) for _ in range(TOKENS_PER_STEP // width)])
        batch = torch.from_numpy(part.astype(np.int64))
        yield batch[:, :-1].clamp(min=0), batch[:, 1:]


def _shuffled(rows: dataset.Rows, rng: np.random.Generator) -> Any:
    while True:
        for i in rng.permutation(len(rows)):
            yield rows[i]


def optimisers(model: Llama, lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks (Jordan et al., 2024), AdamW for the embedding and the norms."""
    blocks = {n: p for n, p in model.named_parameters() if p.dim() == 2 and "embed_tokens" not in n}
    rest = [p for n, p in model.named_parameters() if n not in blocks]
    return [
        torch.optim.Muon(list(blocks.values()), lr=lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def loss_of(
    model: Llama, inputs: torch.Tensor, targets: torch.Tensor, where: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean cross-entropy in nats over the targets, or over those where `where` is True."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(inputs)
    kept = targets != dataset.IGNORED if where is None else where
    return F.cross_entropy(logits.float()[kept], targets[kept])


@torch.no_grad()
def evaluate(model: Llama, held_out: dataset.Rows, names: set[int], rows: int = 96) -> dict[str, float]:
    """Loss and perplexity on held-out rows, and the loss on names that the same document has named before."""
    data = torch.from_numpy(held_out[:rows].astype(np.int64))
    inputs, targets = data[:, :-1].clamp(min=0), data[:, 1:]
    again = repeated_names(data, names)
    total = count = named = n_named = 0.0
    for part in range(0, len(data), 16):
        s = slice(part, part + 16)
        n, m = int((targets[s] != dataset.IGNORED).sum()), int(again[s].sum())
        total, count = total + n * float(loss_of(model, inputs[s], targets[s])), count + n
        named, n_named = named + m * float(loss_of(model, inputs[s], targets[s], again[s])), n_named + m
    return {"loss": total / count, "perplexity": math.exp(total / count), "repeated_name_loss": named / n_named}


def repeated_names(rows: torch.Tensor, names: set[int]) -> torch.Tensor:
    """Bool (n, width - 1): the target is a name that stands earlier in the same document."""
    mask = torch.zeros(rows.shape[0], rows.shape[1] - 1, dtype=torch.bool)
    for i, row in enumerate(rows.tolist()):
        seen: set[int] = set()
        for j, token in enumerate(row[1:]):
            if row[j] == dataset.BOS:
                seen = set()
            mask[i, j] = token in seen
            if token in names:
                seen.add(token)
    return mask


def name_ids(tokenizer: Tokenizer) -> set[int]:
    """Ids of the names that are one token."""
    encoded = tokenizer.encode_batch([f" {n}" for n in words.BOYS + words.GIRLS + words.PET_NAMES])
    return {ids[0] for ids in encoded if len(ids) == 1}


def train(
    recipe: Recipe, corpus: dataset.Corpus, tokenizer: Tokenizer, every: int = 200, start_from: Llama | None = None
) -> tuple[Llama, dict[str, Any]]:
    """Run a recipe from scratch, or go on from a model. Returns the model and a record: curve, figures, seconds."""
    torch.manual_seed(recipe.seed)
    model = Llama(recipe.config)
    if start_from is None:
        initialise(model, torch.Generator().manual_seed(recipe.seed))
    else:
        model.load_state_dict(start_from.state_dict())
    opts, names, curve = optimisers(model, recipe.lr), name_ids(tokenizer), []
    start, paused, smooth = time.perf_counter(), 0.0, float("nan")
    progress = tqdm(batches(corpus, recipe), total=recipe.steps, unit="step", mininterval=10)
    for step, (inputs, targets) in enumerate(progress, 1):
        fraction = step / recipe.steps
        rate = recipe.lr * min(1, step / 40) * min(1, max(0.02, 2 * (1 - fraction)))
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = rate
        loss = loss_of(model, inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        smooth = loss.item() if step == 1 else 0.95 * smooth + 0.05 * loss.item()
        if step % every == 0 or step == recipe.steps:
            pause = time.perf_counter()
            curve.append(
                {"step": step, "train_loss": round(smooth, 4)} | _rounded(evaluate(model, corpus.held_out, names))
            )
            paused += time.perf_counter() - pause
            tqdm.write(json.dumps(curve[-1]))
    seconds = time.perf_counter() - start - paused
    record = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": recipe.steps,
        "tokens": recipe.steps * TOKENS_PER_STEP,
        "seed": recipe.seed,
        "lr": recipe.lr,
        "minutes": round(seconds / 60, 1),
        "tokens_per_second": round(recipe.steps * TOKENS_PER_STEP / seconds),
        "corpus_sha256": corpus.sha256,
        "torch": torch.__version__,
        "final": curve[-1],
        "curve": curve,
    }
    return model, record


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {k: round(v, 4) for k, v in figures.items()}


def _commit() -> str:
    """The commit of these scripts, or 'unknown' outside a git checkout."""
    here = Path(__file__).parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tokenizer", *RECIPES])
    parser.add_argument("--steps", type=int, help="fewer steps than the recipe, to try it out")
    parser.add_argument("--out", type=Path, default=data_dir() / "primer", help="folder that receives the model")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    commit = _commit()  # before the run: the checkout may move on while it trains
    if args.what == "tokenizer":
        args.out.mkdir(parents=True, exist_ok=True)
        dataset.train_tokenizer().save(args.out / "tokenizer.json")
        return
    tokenizer = Tokenizer.from_file(args.out / "tokenizer.json")
    recipe = RECIPES[args.what]
    if args.steps:
        recipe = replace(recipe, steps=args.steps)
    folder = args.out / args.what.split("-")[0]
    earlier = folder / "training.json"
    finish = "-" in args.what  # such a recipe goes on from what an earlier one has saved
    model, record = train(
        recipe, dataset.build(tokenizer), tokenizer, start_from=load(folder, "cpu") if finish else None
    )
    stages = json.loads(earlier.read_text())["stages"] if finish else []
    save(model, folder)
    stages.append({"recipe": args.what, "commit": commit, **record})
    (folder / "training.json").write_text(json.dumps({"stages": stages}, indent=1) + "\n")


if __name__ == "__main__":
    main()
