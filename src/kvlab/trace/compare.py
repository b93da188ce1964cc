"""A trace against the model itself: hooks catch what the real modules get and give, stage by stage."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from kvlab import attention, sampling
from kvlab.cache import PreallocatedCache
from kvlab.generate import decode_step, prefill
from kvlab.model import Llama, rotate
from kvlab.show import Table
from kvlab.trace.call import Stage, Trace
from kvlab.trace.kinds import PHASES, PREFILL

LIMIT = 3e-5  # float32: sums in another order, with two threads, put a stage of 30 blocks 1.01e-5 apart
Caught = dict[tuple[str, int | None], torch.Tensor]  # by stage name and block


@dataclass(frozen=True)
class Difference:
    """How far a stage is from the model: the largest |difference|, and that divided by the largest |number| if above 1.

    The limit holds for the second: a residual stream holds numbers in the hundreds, where neighbouring float32 numbers
    are more than 1e-5 apart. In float64 the first stays below it too. Both are inf where the shapes differ or the model
    has no such tensor.
    """

    stage: Stage
    largest: float
    relative: float

    @property
    def ok(self) -> bool:
        return self.relative <= LIMIT


@dataclass(frozen=True)
class Check:
    """All differences in the order of the call."""

    differences: tuple[Difference, ...]

    @property
    def largest(self) -> float:
        return max(d.largest for d in self.differences)

    @property
    def relative(self) -> float:
        return max(d.relative for d in self.differences)

    @property
    def ok(self) -> bool:
        return all(d.ok for d in self.differences)

    @property
    def first_wrong(self) -> Difference | None:
        """The stage at which trace and model part: all later ones follow from it."""
        return next((d for d in self.differences if not d.ok), None)

    def by_stage(self) -> dict[str, float]:
        """The largest |difference| of each stage, over all blocks and both phases."""
        found: dict[str, float] = {}
        for d in self.differences:
            found[d.stage.name] = max(found.get(d.stage.name, 0.0), d.largest)
        return found

    def table(self) -> Table:
        """One row per stage: its largest differences over all blocks, and whether all stay within the limit."""
        rows = []
        for name, largest in self.by_stage().items():
            own = [d for d in self.differences if d.stage.name == name]
            size = max(d.relative for d in own)
            rows.append((name, str(len(own)), f"{largest:.1e}", f"{size:.1e}", "✓" if all(d.ok for d in own) else "✗"))
        wrong = self.first_wrong
        note = f"All {len(self.differences)} tensors agree." if wrong is None else f"First apart: {wrong.stage.label}."
        header = ("stage", "tensors", "largest difference", "of its size", f"within {LIMIT:g}")
        return Table("The trace against the model", header, tuple(rows), notes=(note,))


@torch.no_grad()
def check(trace: Trace, model: Llama) -> Check:
    """Run the model itself on the trace's prompt, then on its first token with the cache, and compare every tensor.

    Most come from hooks on the model's modules, keys and values from its cache. Scores and weights, which the model's
    fused kernel never stores, are computed from its own q and k by `kvlab.attention`. A token that was drawn without a
    seed cannot be drawn again and counts as equal.
    """
    generator = trace.settings.generator()
    cache = PreallocatedCache(model.config, len(trace.ids) + 2, dtype=model.dtype, device=model.device)
    caught: dict[str, Caught] = {}
    for phase in PHASES:
        held = cache.length
        with catching(model) as found:
            logits = (
                prefill(model, trace.ids, cache) if phase == PREFILL else decode_step(model, trace.tokens[0], cache)
            )
        found["ids", None] = _ids(trace, model, phase)
        if trace.text is not None and model.tokenizer is not None:
            start = 0 if model.tokenizer.bos_id is None else 1
            spelled = b"".join(model.tokenizer.token_bytes(i) for i in trace.ids[start:])
            found["bytes", None] = torch.tensor(list(spelled), dtype=torch.uint8)
        _add_attention(model, cache, held, found)
        _add_choice(trace, phase, logits, generator, found)
        caught[phase] = found
    return Check(
        tuple(_difference(stage, caught[stage.phase].get((stage.name, stage.layer))) for stage in trace.stages)
    )


@contextmanager
def catching(model: Llama) -> Iterator[Caught]:
    """What the modules get and give during the passes inside the block, batch axis taken off; the hooks end with it."""
    found: Caught = {}
    hooks: list[Any] = []

    def gives(module: nn.Module, name: str, layer: int | None = None) -> None:
        def hook(_: Any, __: Any, result: torch.Tensor) -> None:
            found[name, layer] = result[0].clone()

        hooks.append(module.register_forward_hook(hook))

    def gets(module: nn.Module, name: str, layer: int | None = None) -> None:
        def hook(_: Any, given: tuple[torch.Tensor, ...]) -> None:
            found[name, layer] = given[0][0].clone()

        hooks.append(module.register_forward_pre_hook(hook))

    def turns(_: Any, given: tuple[Any, ...]) -> None:
        half = model.config.d_head // 2
        found["rope cos", None], found["rope sin", None] = given[1][:, :half], given[2][:, :half]

    gives(model.model.embed_tokens, "rows")
    blocks: Any = model.model.layers
    for layer, block in enumerate(blocks):
        attn, mlp = block.self_attn, block.mlp
        hooks.append(attn.register_forward_pre_hook(turns))
        gives(block.input_layernorm, "norm 1", layer)
        for name in "qkv":
            gives(getattr(attn, f"{name}_proj"), name, layer)
        gets(attn.o_proj, "mix", layer)
        gives(attn.o_proj, "attention out", layer)
        gets(block.post_attention_layernorm, "residual 1", layer)
        gives(block.post_attention_layernorm, "norm 2", layer)
        gives(mlp.gate_proj, "gate", layer)
        gives(mlp.up_proj, "up", layer)
        gets(mlp.down_proj, "gated", layer)
        gives(mlp.down_proj, "down", layer)
        gives(block, "residual 2", layer)
    gives(model.model.norm, "final norm")
    gives(model.lm_head, "logits")
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _add_attention(model: Llama, cache: PreallocatedCache, held: int, found: Caught) -> None:
    """Heads, turned queries and keys, what the cache holds, scores and weights of every block."""
    found["logits", None] = found["logits", None][-1]
    cos, sin = (found[f"rope {name}", None].repeat(1, 2) for name in ("cos", "sin"))
    blocks: Any = model.model.layers
    for layer, block in enumerate(blocks):
        q, k, v = (block.self_attn.heads(found[name, layer].unsqueeze(0)) for name in "qkv")
        turned = rotate(q, cos, sin)
        keys, values = cache.view(layer)
        grouped = attention.group_queries(turned, model.config.n_kv_heads)
        mask = attention.causal_mask(q.shape[2], keys.shape[2], keys.device)
        scores = attention.scores(grouped, keys.unsqueeze(2)).masked_fill(~mask, -torch.inf)
        weights = attention.attention_weights(grouped, keys.unsqueeze(2), mask)
        for name, tensor in (
            ("q", q),
            ("k", k),
            ("v", v),
            ("q rotated", turned),
            ("k rotated", keys[:, :, held:]),
            ("keys held", keys),
            ("values held", values),
        ):
            found[name, layer] = tensor[0].clone()
        found["scores", layer], found["weights", layer] = scores[0].flatten(0, 1), weights[0].flatten(0, 1)


def _add_choice(trace: Trace, phase: str, logits: torch.Tensor, generator: torch.Generator, found: Caught) -> None:
    """The sampling stages on the model's own logits, and the token that they lead to."""
    step = PHASES.index(phase)
    context = [*trace.ids, *trace.tokens[:step]]
    for name, left in sampling.stages(logits, trace.settings, context, len(trace.ids))[1:]:
        found[f"sampling: {name}", None] = left
    probs = sampling.next_token_probs(logits, trace.settings, context, len(trace.ids))
    again = trace.settings.temperature == 0 or trace.settings.seed is not None
    found["probabilities", None] = probs
    found["token", None] = torch.tensor(sampling.sample(probs, generator) if again else trace.tokens[step])


def _ids(trace: Trace, model: Llama, phase: str) -> torch.Tensor:
    if phase != PREFILL:
        return torch.tensor([trace.tokens[0]])
    if trace.text is None or model.tokenizer is None:
        return torch.tensor(trace.ids)
    return torch.tensor(model.tokenizer.encode(trace.text))


def _difference(stage: Stage, real: torch.Tensor | None) -> Difference:
    own = stage.tensor.cpu().double()
    if real is None or real.shape != own.shape:
        return Difference(stage, math.inf, math.inf)
    real = real.cpu().double()
    apart = torch.where(own == real, 0.0, (own - real).abs())  # equal covers -inf in both
    largest = float(apart.max())
    size = float(real[real.isfinite()].abs().max()) if bool(real.isfinite().any()) else 1.0
    return Difference(stage, largest, largest / max(1.0, size))
