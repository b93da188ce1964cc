"""One call written out: from a text to its first two tokens, every tensor on the way kept and named.

This is a second decoder beside `kvlab.model`, in plain steps from the weights: it calls no module, no fused kernel and
no cache of the course. So that both agree (`kvlab.trace.check`) says something about both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kvlab import sampling
from kvlab.config import ModelConfig
from kvlab.generate import GREEDY, check_settings, prompt_ids
from kvlab.model import Llama
from kvlab.show import Table
from kvlab.trace.kinds import BY_NAME, PHASES, PREFILL, Kind, choice_kind
from kvlab.validate import shown, whole

MOST_TOKENS = 256  # every score of every head is kept
Past = list[tuple[torch.Tensor, torch.Tensor]]  # per block: keys (turned) and values, each (G, positions, d)


@dataclass(frozen=True)
class Stage:
    """One tensor of the call. `layer` is the block's number, None outside the blocks; `phase` "prefill" or "decode"."""

    name: str
    phase: str
    layer: int | None
    tensor: torch.Tensor = field(repr=False)
    formula: str
    explanation: str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def label(self) -> str:
        """For example "prefill, block 3, scores"."""
        return ", ".join([self.phase, *([] if self.layer is None else [f"block {self.layer}"]), self.name])


@dataclass(frozen=True)
class Trace:
    """The stages of one call in order: prefill up to the first token, then one decode step up to the second."""

    text: str | None
    ids: tuple[int, ...]
    tokens: tuple[int, int]
    settings: sampling.SamplingSettings
    stages: tuple[Stage, ...] = field(repr=False)

    def stage(self, name: str, layer: int | None = None, phase: str = PREFILL) -> Stage:
        """One stage by name. ValueError for a name, block or phase that this trace does not have."""
        found = [s for s in self.stages if (s.name, s.layer, s.phase) == (name, layer, phase)]
        if found:
            return found[0]
        if phase not in PHASES:
            raise ValueError(f"phase must be one of {', '.join(PHASES)}, got {phase!r:.40}")
        layers = sorted({s.layer for s in self.stages if s.name == name and s.layer is not None})
        if layers:
            raise ValueError(f"the stage '{name}' is one of a block: layer must be from 0 to {layers[-1]}, got {layer}")
        names = dict.fromkeys(s.name for s in self.stages if s.phase == phase)
        raise ValueError(f"there is no stage '{name}' with layer {layer} in {phase}: choose one of {', '.join(names)}")

    def table(self, layer: int = 0) -> Table:
        """All stages of both phases with shape and formula; of the blocks, one. ValueError for a block it lacks."""
        layer, last = whole("layer", layer), max(s.layer for s in self.stages if s.layer is not None)
        if layer > last:
            raise ValueError(f"layer must be from 0 to {last}, got {shown(layer)}")
        rows = [
            (s.phase, "" if s.layer is None else str(s.layer), s.name, str(s.shape), s.formula)
            for s in self.stages
            if s.layer in (None, layer)
        ]
        return Table(
            f"One call, stage by stage (block {layer})", ("phase", "block", "stage", "shape", "formula"), tuple(rows)
        )


@torch.no_grad()
def trace_call(model: Llama, text_or_ids: str | Sequence[int], settings: sampling.SamplingSettings = GREEDY) -> Trace:
    """Trace a whole call: the prompt's pass, the choice of the first token, one decode step, the second token.

    ValueError for an empty prompt, one above 256 tokens, ids outside the vocabulary, or settings that do not fit.
    """
    ids = prompt_ids(model, text_or_ids, 2)
    if len(ids) > MOST_TOKENS:
        raise ValueError(f"a trace keeps every tensor, so it takes at most {MOST_TOKENS} tokens, got {len(ids)}")
    check_settings(model, settings)
    text = text_or_ids if isinstance(text_or_ids, str) else None
    stages: list[Stage] = []
    past: Past = []
    generator = settings.generator()
    tokens: list[int] = []
    for phase in PHASES:

        def keep(name: str, tensor: torch.Tensor, layer: int | None = None, phase: str = phase) -> torch.Tensor:
            kind = BY_NAME[name] if name in BY_NAME else choice_kind(name)
            stages.append(_stage(kind, phase, layer, tensor))
            return tensor

        new = [*ids, *tokens][-1 if tokens else 0 :]
        if text and not tokens:
            keep("bytes", torch.tensor(list(text.encode()), dtype=torch.uint8))
        logits, past = one_pass(model, new, past, keep)
        tokens.append(_choose(logits, settings, [*ids, *tokens], len(ids), generator, keep))
    return Trace(text, tuple(ids), (tokens[0], tokens[1]), settings, tuple(stages))


def _stage(kind: Kind, phase: str, layer: int | None, tensor: torch.Tensor) -> Stage:
    return Stage(kind.name, phase, layer, tensor, kind.formula, kind.explanation)


def one_pass(model: Llama, ids: list[int], past: Past, keep: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, Past]:
    """Logits (V,) after the last of `ids`, which follow what `past` holds, and what is held then."""
    config, weights = model.config, model.state_dict()
    start = past[0][0].shape[1] if past else 0
    tokens = keep("ids", torch.tensor(ids, device=model.device))
    x = keep("rows", weights["model.embed_tokens.weight"][tokens])
    angles = rope_angles(config, torch.arange(start, start + len(ids)))
    turn = (keep("rope cos", angles.cos().to(x)), keep("rope sin", angles.sin().to(x)))
    held: Past = []
    for layer in range(config.n_layers):
        prefix = f"model.layers.{layer}."
        own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
        before = past[layer] if past else None
        x, after = one_block(x, own, config, turn, before, lambda name, t, layer=layer: keep(name, t, layer))
        held.append(after)
    last = keep("final norm", rms_norm(x[-1:], weights["model.norm.weight"], config.norm_eps))
    return keep("logits", (last @ weights["lm_head.weight"].T)[0]), held


def one_block(
    x: torch.Tensor,
    weights: dict[str, torch.Tensor],
    config: ModelConfig,
    turn: tuple[torch.Tensor, torch.Tensor],
    past: tuple[torch.Tensor, torch.Tensor] | None,
    keep: Callable[..., torch.Tensor],
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """One block: x (n, D) -> x (n, D), and the keys and values (G, m, d) held after it."""

    def linear(h: torch.Tensor, name: str) -> torch.Tensor:
        return h @ weights[f"{name}_proj.weight"].T  # a checkpoint keeps its matrices as (d_out, d_in)

    def heads(h: torch.Tensor) -> torch.Tensor:
        return h.view(len(h), -1, config.d_head).transpose(0, 1)  # (n, heads · d) -> (heads, n, d)

    h = keep("norm 1", rms_norm(x, weights["input_layernorm.weight"], config.norm_eps))
    q = keep("q", heads(linear(h, "self_attn.q")))
    k = keep("k", heads(linear(h, "self_attn.k")))
    v = keep("v", heads(linear(h, "self_attn.v")))
    q, k = keep("q rotated", rotated(q, *turn)), keep("k rotated", rotated(k, *turn))
    if past is not None:
        k, v = torch.cat([past[0], k], dim=1), torch.cat([past[1], v], dim=1)
    keep("keys held", k)
    keep("values held", v)

    n, m = q.shape[1], k.shape[1]
    shared = config.n_heads // config.n_kv_heads  # query heads that read one KV head
    later = torch.arange(m, device=x.device)[None, :] > torch.arange(m - n, m, device=x.device)[:, None]
    scores = q @ k.repeat_interleave(shared, dim=0).transpose(1, 2) / math.sqrt(config.d_head)
    scores = keep("scores", scores.masked_fill(later, -math.inf))
    weight = keep("weights", softmax(scores))
    mix = keep("mix", (weight @ v.repeat_interleave(shared, dim=0)).transpose(0, 1).flatten(1))
    x = keep("residual 1", x + keep("attention out", linear(mix, "self_attn.o")))

    h = keep("norm 2", rms_norm(x, weights["post_attention_layernorm.weight"], config.norm_eps))
    gate, up = keep("gate", linear(h, "mlp.gate")), keep("up", linear(h, "mlp.up"))
    gated = keep("gated", gate / (1 + torch.exp(-gate)) * up)
    return keep("residual 2", x + keep("down", linear(gated, "mlp.down"))), (k, v)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Each row of x (n, D) to root mean square 1, then times weight (D,) (Zhang and Sennrich, 2019, arXiv 1910.07467)."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Over the last axis; a row needs one number above -inf."""
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    return exponentials / exponentials.sum(-1, keepdim=True)


def rope_angles(config: ModelConfig, positions: torch.Tensor) -> torch.Tensor:
    """Angles (n, d/2) in float64: position times theta^(-2i/d), long waves stretched where the model says so.

    The stretch is that of Llama 3.1 (transformers 5.24, `modeling_rope_utils.py`, `_compute_llama3_parameters`).
    """
    found = []
    for i in range(config.d_head // 2):
        frequency = config.rope_theta ** (-2 * i / config.d_head)
        found.append(frequency if config.rope_scaling is None else _stretched(frequency, config.rope_scaling))
    return positions.double()[:, None] * torch.tensor(found, dtype=torch.float64)


def _stretched(frequency: float, scaling: Any) -> float:
    period, longest = 2 * math.pi / frequency, scaling["original_max_position_embeddings"]
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    if period < longest / high:
        return frequency
    if period > longest / low:
        return frequency / factor
    share = (longest / period - low) / (high - low)
    return (1 - share) * frequency / factor + share * frequency


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn each pair (i, i + d/2) of x (heads, n, d) by the angles whose cos and sin, (n, d/2), are given."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _choose(
    logits: torch.Tensor,
    settings: sampling.SamplingSettings,
    context: list[int],
    n_prompt: int,
    generator: torch.Generator,
    keep: Callable[..., torch.Tensor],
) -> int:
    """From logits to a token, by the course's own sampling stages: the trace shows them, it does not write them anew."""
    left = logits
    for name, left in sampling.stages(logits, settings, context, n_prompt)[1:]:
        keep(name, left)
    # float64, as the sampler: a draw near an edge must not depend on the width of the softmax
    probs = keep("probabilities", softmax(left.cpu().double()).to(left))
    token = sampling.sample(probs, generator)
    keep("token", torch.tensor(token))
    return token
