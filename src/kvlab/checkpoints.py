"""What a checkpoint weighs: low-bit codes, the scales that go with them, and the parts that stay wide.

"int4 is half a byte per weight" leaves out three things: a scale (and a zero point) for every group of weights, the
embedding table and output head, which most tools keep in 16 bits, and the norms. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.published import PublishedModel, shape_of
from kvlab.validate import amount, whole


@dataclass(frozen=True)
class Scheme:
    """How weights are stored.

    bits: of a code in the matrices of the blocks. group: inputs of one output that share a scale, None = all of
    them. scale_bits, zero_bits: of each scale and zero point, 0 = there is none. wide_bits: of embedding table,
    output head and norms. tables_wide: False = embedding table and head are quantised like the rest.
    """

    name: str
    bits: float
    group: int | None = None
    scale_bits: int = 0
    zero_bits: int = 0
    wide_bits: int = 16
    tables_wide: bool = True

    def __post_init__(self) -> None:
        amount("bits", self.bits, positive=True)
        if self.group is not None:
            whole("group", self.group, least=1)
        for name in ("scale_bits", "zero_bits", "wide_bits"):
            whole(name, getattr(self, name))


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("fp32", 32, wide_bits=32),
        Scheme("bf16", 16),
        Scheme("int8-rows", 8, None, scale_bits=16),
        # AutoAWQ's "GEMM" files: codes in int32, an fp16 scale and a 4-bit zero point for every 128 inputs of an output
        Scheme("awq-int4", 4, 128, scale_bits=16, zero_bits=4),
        # what people quote: every parameter at this width, and no scales
        Scheme("int8-ideal", 8, wide_bits=8),
        Scheme("int4-ideal", 4, wide_bits=4),
    )
}


@dataclass(frozen=True)
class CheckpointSize:
    """Bytes of the parts of a checkpoint."""

    codes: float
    scales: float  # zero points included
    wide: float  # embedding table, head and norms, as far as they are not quantised
    bits_per_weight: float  # of a quantised weight, its share of the scales included

    @property
    def total(self) -> float:
        return self.codes + self.scales + self.wide


@dataclass(frozen=True)
class PublishedCheckpoint:
    """A real checkpoint: shape and scheme by name, and its bytes, to as many digits as the source gives."""

    name: str
    model: str
    scheme: str
    bytes: int
    digits: int
    source: str
    read: str


def checkpoint_bytes(model: Any, scheme: str | Scheme) -> float:
    """Bytes of all tensors of a checkpoint, scales and unquantised parts included. Arguments as `checkpoint_size`."""
    return checkpoint_size(model, scheme).total


def checkpoint_size(model: Any, scheme: str | Scheme) -> CheckpointSize:
    """The parts of a checkpoint of `model` (a name, PublishedModel, ModelConfig or dict) stored by `scheme`.

    scheme: a key of SCHEMES or a Scheme. Only for plain Llamas, whose matrices are known; others raise ValueError.
    """
    rule, shape = _scheme(scheme), shape_of(model)
    if shape.family != "llama" or shape.moe:
        raise ValueError(f"{shape.name} is not a plain Llama, so its matrices are not known here: choose another model")
    matrices = _matrices(shape)
    tables = [(shape.d_model, shape.vocab_size)] * (1 if shape.tied else 2)
    norms = (2 * shape.n_layers + 1) * shape.d_model
    quantised = matrices if rule.tables_wide else matrices + tables
    weights = sum(inputs * outputs for inputs, outputs in quantised)
    groups = sum(outputs * (1 if rule.group is None else -(-inputs // rule.group)) for inputs, outputs in quantised)
    wide = norms + (sum(a * b for a, b in tables) if rule.tables_wide else 0)
    scales = groups * (rule.scale_bits + rule.zero_bits) / 8
    codes = weights * rule.bits / 8
    return CheckpointSize(codes, scales, wide * rule.wide_bits / 8, 8 * (codes + scales) / weights)


@cache
def published_checkpoints() -> tuple[PublishedCheckpoint, ...]:
    """Real int4 checkpoints from `data/checkpoints.json`, each with its source."""
    path = data_dir() / "checkpoints.json"
    content = read_json(path, dict)
    try:
        return tuple(PublishedCheckpoint(read=content["read"], **entry) for entry in content["checkpoints"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}): restore it from the repository") from error


def _matrices(shape: PublishedModel) -> list[tuple[int, int]]:
    """(inputs, outputs) of every matrix of the blocks."""
    d, q, kv = shape.d_model, shape.n_heads * shape.d_head, shape.n_kv_heads * shape.d_head
    up = [(d, shape.d_ff)] * (shape.ffn_matrices - 1)
    return [(d, q), (d, kv), (d, kv), (q, d), *up, (shape.d_ff, d)] * shape.n_layers


def _scheme(scheme: str | Scheme) -> Scheme:
    if isinstance(scheme, Scheme):
        return scheme
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        raise ValueError(f"there is no scheme {scheme!r:.60}: use one of {', '.join(SCHEMES)}, or a Scheme")
    return SCHEMES[scheme]
