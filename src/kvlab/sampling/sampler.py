"""The whole way from logits to one token: settings, the stages in order, and the draw.

Bias and penalties come before temperature and filters in every library named here: logit bias, repetition, then
frequency and presence, here followed by the caller's own processors. After that the libraries differ, and the order
matters: with a temperature above 1, top-p keeps more tokens when it comes after the temperature than before it.

- transformers: temperature, top_k, top_p, min_p
  (5.24.0, `generation/utils.py`, method `_get_logits_processor`)
- vllm: temperature, min_p, top_k, top_p
  (`v1/sample/sampler.py`, docstring of `Sampler`, commit 3e34265)
- llama.cpp: top_k, top_p, min_p, temperature
  (`common/common.h`, `common_params_sampling.samplers`, 2026; other samplers stand between, off by default)
- mlx-lm: top_p, min_p, top_k, temperature
  (`mlx_lm/sample_utils.py`, `make_sampler`, commit 037c9b3; another sampler stands between, off by default)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kvlab.sampling import filters, penalties
from kvlab.sampling._checks import check_logits, real_number, whole_number

ORDERS: dict[str, tuple[str, ...]] = {
    "transformers": ("temperature", "top_k", "top_p", "min_p"),
    "vllm": ("temperature", "min_p", "top_k", "top_p"),
    "llama.cpp": ("top_k", "top_p", "min_p", "temperature"),
    "mlx-lm": ("top_p", "min_p", "top_k", "temperature"),
}

# A caller's own stage: gets the ids so far (prompt and answer) and logits (vocab,), returns logits (vocab,).
LogitsProcessor = Callable[[list[int], torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class SamplingSettings:
    """How the next token is chosen. The defaults sample from the model's own distribution, unchanged.

    temperature: 0 takes the most likely token (greedy), 1 leaves the distribution as it is.
    top_k: keep the k most likely tokens, None keeps all.
    top_p: keep the nucleus that reaches this probability, 1 keeps all.
    min_p: keep tokens with at least this share of the largest probability, 0 keeps all.
    repetition_penalty: above 1 makes tokens of prompt and answer less likely, 1 is off.
    frequency_penalty, presence_penalty: subtracted per occurrence and once, 0 is off; only the answer's tokens count.
    logit_bias: {token id: number to add}.
    seed: of the generator that `generator()` makes; None takes a different one each time.
    order: the order of temperature and filters: a key of ORDERS, or the four stage names in the order wanted.
    processors: functions (ids, logits) -> logits that run one after the other, after bias and penalties and before
        temperature and filters, as in transformers. Each gets a list and a tensor of its own; -inf forbids a token.
    A value outside its range raises ValueError here, not in the middle of an answer.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    seed: int | None = None
    order: str | tuple[str, ...] = "transformers"
    processors: tuple[LogitsProcessor, ...] = ()

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty"):
            self._keep(name, real_number(getattr(self, name), name))
        if self.temperature < 0:
            raise ValueError(f"temperature must be 0 (greedy) or positive, got {self.temperature}")
        if self.top_k is not None:
            self._keep("top_k", whole_number(self.top_k, "top_k (None keeps all tokens)", 1))
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1 (1 keeps all tokens), got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must lie between 0 and 1 (0 keeps all tokens), got {self.min_p}")
        if self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be above 0 (1 switches it off), got {self.repetition_penalty}")
        if not isinstance(self.logit_bias, Mapping):
            raise ValueError(f"logit_bias must be a dictionary {{token id: number}}, got {self.logit_bias!r:.60}")
        bias = {
            whole_number(token, "an id in logit_bias", 0): real_number(value, f"logit_bias[{token}]")
            for token, value in self.logit_bias.items()
        }
        self._keep("logit_bias", bias)  # our own copy: later changes to the caller's dict stay outside
        if self.seed is not None:
            self._keep("seed", whole_number(self.seed, "seed", 0))
            if self.seed >= 2**64:
                raise ValueError("seed must be below 2^64")
        if isinstance(self.order, list):
            self._keep("order", tuple(self.order))
        self.stage_order()
        one_text = isinstance(self.processors, str | bytes)  # an empty one would pass for "no processors"
        functions = isinstance(self.processors, Sequence) and all(callable(each) for each in self.processors)
        if one_text or not functions:
            raise ValueError(
                f"processors must be a list of functions (ids, logits) -> logits, got {self.processors!r:.60}"
            )
        self._keep("processors", tuple(self.processors))

    def _keep(self, name: str, value: Any) -> None:
        """Set a field of this frozen object, for `__post_init__` only: 3.0 as a seed is kept as 3."""
        object.__setattr__(self, name, value)

    def stage_order(self) -> tuple[str, ...]:
        """The four stage names in the order in which they run."""
        if isinstance(self.order, str):
            if self.order not in ORDERS:
                raise ValueError(f"unknown order {self.order!r}; choose from {', '.join(ORDERS)}")
            return ORDERS[self.order]
        names = ORDERS["transformers"]
        if not isinstance(self.order, tuple) or sorted(map(str, self.order)) != sorted(names):
            raise ValueError(f"order must name each of {', '.join(names)} once, got {self.order!r:.60}")
        return self.order

    def generator(self) -> torch.Generator:
        """A new CPU generator: seeded with `seed`, or with entropy from the system when seed is None."""
        generator = torch.Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed)
        return generator


def stages(
    logits: torch.Tensor, settings: SamplingSettings, context_ids: Sequence[int] | torch.Tensor = (), n_prompt: int = 0
) -> list[tuple[str, torch.Tensor]]:
    """Every stage of the pipeline and the logits (vocab,) after it: [("logits", ...), ("logit_bias", ...), ...].

    context_ids: prompt and answer so far. The first `n_prompt` of them are the prompt: the repetition penalty counts
        it (as transformers and vLLM do), the frequency and presence penalties don't (as OpenAI and vLLM don't).
    Stages that are switched off are left out, so that what is shown is what happened.
    """
    check_logits(logits)
    answer_ids = context_ids[whole_number(n_prompt, "n_prompt", 0) :]
    steps = [("logits", logits)]
    if settings.logit_bias:
        steps.append(("logit_bias", penalties.apply_logit_bias(steps[-1][1], settings.logit_bias)))
    if settings.repetition_penalty != 1:
        changed = penalties.apply_repetition_penalty(steps[-1][1], context_ids, settings.repetition_penalty)
        steps.append(("repetition_penalty", changed))
    if settings.frequency_penalty != 0 or settings.presence_penalty != 0:
        changed = penalties.apply_frequency_presence_penalty(
            steps[-1][1], answer_ids, settings.frequency_penalty, settings.presence_penalty
        )
        steps.append(("frequency_presence_penalty", changed))
    for number, processor in enumerate(settings.processors, start=1):
        steps.append(
            (
                "processor" if number == 1 else f"processor {number}",
                _run_processor(processor, steps[-1][1], context_ids),
            )
        )
    for name in settings.stage_order():
        changed_by_stage = _run_stage(name, steps[-1][1], settings)
        if changed_by_stage is not None:
            steps.append((name, changed_by_stage))
    return steps


def _run_processor(
    processor: LogitsProcessor, logits: torch.Tensor, context_ids: Sequence[int] | torch.Tensor
) -> torch.Tensor:
    """What a caller's function makes of the logits; anything but logits of the same shape raises ValueError."""
    changed = processor([int(token) for token in context_ids], logits.clone())
    name = getattr(processor, "__name__", type(processor).__name__)
    if not isinstance(changed, torch.Tensor) or changed.shape != logits.shape or not changed.is_floating_point():
        got = tuple(changed.shape) if isinstance(changed, torch.Tensor) else type(changed).__name__
        raise ValueError(f"the processor {name} must return float logits of shape {tuple(logits.shape)}, got {got}")
    if bool(changed.isnan().any()):
        raise ValueError(f"the processor {name} returned NaN")
    return changed.to(logits)


def _run_stage(name: str, logits: torch.Tensor, settings: SamplingSettings) -> torch.Tensor | None:
    """The logits after the stage `name`, or None where the settings switch it off."""
    if name == "temperature" and settings.temperature != 1:
        return filters.apply_temperature(logits, settings.temperature)
    if name == "top_k" and settings.top_k is not None:
        return filters.top_k_filter(logits, settings.top_k)
    if name == "top_p" and settings.top_p != 1:
        return filters.top_p_filter(logits, settings.top_p)
    if name == "min_p" and settings.min_p != 0:
        return filters.min_p_filter(logits, settings.min_p)
    return None


def next_token_probs(
    logits: torch.Tensor, settings: SamplingSettings, context_ids: Sequence[int] | torch.Tensor = (), n_prompt: int = 0
) -> torch.Tensor:
    """Probabilities (vocab,) from which the next token is drawn, in the dtype of `logits`; arguments as in `stages`.

    Logits that hold NaN, or nothing above -inf, raise ValueError.
    """
    probs = filters.temperature_probs(stages(logits, settings, context_ids, n_prompt)[-1][1], 1.0)
    if not bool(torch.isfinite(probs).all()):
        raise ValueError("the logits hold NaN or inf, or every token is removed, so there is nothing to sample from")
    return probs


def sample(probs: torch.Tensor, generator: torch.Generator | None = None) -> int:
    """Draw one token id from probabilities (vocab,), which need not sum to exactly 1.

    The tokens lie side by side on a line, each as long as its probability; a random point falls on one of them.
    A token of probability 0 has no length and is never drawn. One random number per draw, so a seeded CPU generator
    gives the same tokens on every device. generator None uses torch's global one. NaN, negative numbers, or a sum
    of 0 raise ValueError.
    """
    ends = _ends(probs)
    device = "cpu" if generator is None else generator.device
    point = float(torch.rand((), generator=generator, dtype=torch.float64, device=device)) * float(ends[-1])
    return int(torch.searchsorted(ends, point, right=True))


def draw(probs: torch.Tensor, n: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """`n` independent draws at once, by the rule of `sample`: a LongTensor (n,) of token ids, on the CPU."""
    ends, n = _ends(probs), whole_number(n, "n", 0)
    device = "cpu" if generator is None else generator.device
    points = torch.rand(n, generator=generator, dtype=torch.float64, device=device).cpu() * ends[-1]
    return torch.searchsorted(ends, points, right=True)


def _ends(probs: torch.Tensor) -> torch.Tensor:
    """Where each token's stretch of the line ends, float64 (vocab,) on the CPU; ValueError for what is no distribution."""
    check_logits(probs, "probs")
    ends = probs.detach().to("cpu", torch.float64).cumsum(0)
    if not 0 < float(ends[-1]) < float("inf") or bool((probs < 0).any()):
        raise ValueError("probs must be non-negative and finite, with a sum above 0")
    return ends
