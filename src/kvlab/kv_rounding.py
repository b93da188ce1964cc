"""What 8 or 4 bits do to a model's cache: the error of K, and how far the next-token probabilities move.

`data/kv_quantisation.json` holds the figures of SmolLM2, for those who have not installed it. To make them anew:
`python -m kvlab.kv_rounding smollm2 primer` prints the file.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from typing import Any

import torch

from kvlab.cache import PreallocatedCache
from kvlab.jsonfile import read_json
from kvlab.model import Llama
from kvlab.paths import data_dir
from kvlab.quantised_cache import QuantisedCache
from kvlab.validate import whole

KINDS = ((8, "token"), (8, "channel"), (4, "token"), (4, "channel"))
N_TOKENS = 1024


@dataclass(frozen=True)
class Rounding:
    """One way of storing the cache, and what it does.

    key_error: root mean square error of K over that of K itself. kl: Kullback-Leibler divergence of the next-token
    probabilities from those with the exact cache, mean over the positions, in nats. loss_rise: of the text, in nats per
    token. same_best: share of the positions with the same most likely token.
    """

    bits: int
    keys: str
    key_error: float
    kl: float
    loss_rise: float
    same_best: float


@dataclass(frozen=True)
class Study:
    """The four ways on one model and one text. spread: of each layer and KV head, see `channel_spread`."""

    model: str
    n_tokens: int
    group: int
    loss: float
    spread: tuple[float, ...]
    rows: tuple[Rounding, ...]

    def row(self, bits: int, keys: str) -> Rounding:
        return next(row for row in self.rows if (row.bits, row.keys) == (bits, keys))


def story_ids(model: Llama, n_tokens: int = N_TOKENS, seed: int = 31) -> list[int]:
    """The first `n_tokens` of some stories of the primer corpus (short English sentences), in the model's tokenizer."""
    from kvlab.primer import corpus

    size = whole("n_tokens", n_tokens, least=2)
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer, so it cannot read the stories: pass token ids of your own")
    text = "\n\n".join(islice(corpus.documents(seed), 20 + size // 20))
    return model.tokenizer.encode(text)[:size]


@torch.no_grad()
def channel_spread(k: torch.Tensor) -> torch.Tensor:
    """K (heads, n, d) -> (heads,): root mean square of its largest channel over that of its median channel."""
    if k.dim() != 3 or 0 in k.shape:
        raise ValueError(f"k must be (heads, positions, channels), none of them 0, got {tuple(k.shape)}")
    size = k.double().square().mean(1).sqrt()
    return size.amax(1) / size.median(1).values


@torch.no_grad()
def exact_keys(model: Llama, ids: Sequence[int]) -> list[torch.Tensor]:
    """K of each layer as the plain cache holds it, (n_kv_heads, n, d_head) each."""
    held = PreallocatedCache(model.config, len(ids), dtype=model.dtype, device=model.device)
    model(torch.tensor(ids, device=model.device), held, last_only=True)
    return [held.view(layer)[0][0] for layer in range(model.config.n_layers)]


@torch.no_grad()
def study(
    model: Llama, ids: Sequence[int], name: str = "", kinds: Iterable[tuple[int, str]] = KINDS, group: int | None = None
) -> Study:
    """Push `ids` in one pass through the exact cache and through each kind (bits, keys) of rounded one.

    group: tokens that share a scale in "channel"; d_head by default, so that both ways store equally many scales.
    """
    tokens = torch.tensor(ids, device=model.device)
    if len(tokens) < 2:
        raise ValueError(f"a text of at least 2 tokens is needed, got {len(tokens)}")
    size = model.config.d_head if group is None else group
    keys = exact_keys(model, ids)
    before = model(tokens).double().log_softmax(-1)
    loss = _loss(before, tokens)
    rows = []
    for bits, kind in kinds:
        held = QuantisedCache(model.config, bits, kind, size, len(ids), dtype=model.dtype, device=model.device)
        after = model(tokens, held).double().log_softmax(-1)
        squared, power = 0.0, 0.0
        stored = QuantisedCache(model.config, bits, kind, size, len(ids), dtype=model.dtype, device=model.device)
        for layer, k in enumerate(keys):
            rounded = stored.update(layer, k[None], torch.zeros_like(k[None]))[0][0]
            squared += float((rounded - k).double().square().sum())
            power += float(k.double().square().sum())
        rows.append(
            Rounding(
                bits,
                kind,
                (squared / power) ** 0.5,
                float((before.exp() * (before - after)).sum(-1).mean()),
                _loss(after, tokens) - loss,
                float((before.argmax(-1) == after.argmax(-1)).double().mean()),
            )
        )
    spread = torch.cat([channel_spread(k) for k in keys]).tolist()
    return Study(name, len(ids), size, loss, tuple(spread), tuple(rows))


@cache
def recorded() -> dict[str, Any]:
    """`data/kv_quantisation.json`: date, versions, text, and under "studies" a Study by model name."""
    path = data_dir() / "kv_quantisation.json"
    content = read_json(path, dict)
    try:
        studies = {
            entry["model"]: Study(
                **{
                    **entry,
                    "spread": tuple(entry["spread"]),
                    "rows": tuple(Rounding(**row) for row in entry["rows"]),
                }
            )
            for entry in content["studies"]
        }
        return {**content, "studies": studies}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): restore it from the repository") from error


def _loss(log_probs: torch.Tensor, tokens: torch.Tensor) -> float:
    """Mean loss in nats per token."""
    return -float(log_probs[:-1].gather(1, tokens[1:, None]).mean())


def record(names: Sequence[str]) -> dict[str, Any]:
    """What goes into the file: the study of each model, by name, with date and versions."""
    from kvlab.loading import load

    studies = []
    for name in names:
        model = load(name, "cpu")
        entry = asdict(study(model, story_ids(model), name))
        entry["spread"] = [round(value, 2) for value in entry["spread"]]
        entry["loss"] = round(entry["loss"], 5)
        entry["rows"] = [
            {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
            for row in entry["rows"]
        ]
        studies.append(entry)
    return {
        "about": "Caches in 8 and 4 bits, measured by kvlab.kv_rounding.study in float32 on a CPU.",
        "read": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "text": f"the first {N_TOKENS} tokens of primer stories, kvlab.kv_rounding.story_ids with its default seed",
        "studies": studies,
    }


if __name__ == "__main__":
    print(json.dumps(record(sys.argv[1:]), indent=1))
