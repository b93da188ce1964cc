"""Shapes of published models and speeds of GPUs, from `data/models.json` and `data/gpus.json`.

Every entry names its source and the day it was read. Nothing here imports torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.validate import amount, whole

T = TypeVar("T")
SIZES = ("n_layers", "d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "vocab_size", "max_len", "n_params")
KINDS = ("full", "window", "latent", "none")


@dataclass(frozen=True)
class LayerGroup:
    """`layers` layers that keep the same thing for each token.

    kind: `full` keeps K and V of every position; `window` of the last `window` positions only;
    `latent` one compressed row of kv_lora_rank + rope_dims values per position (MLA);
    `none` keeps nothing per token, only `state_values` numbers per layer and sequence (linear attention).
    """

    layers: int
    kind: str = "full"
    n_kv_heads: int = 0
    d_head: int = 0
    window: int | None = None
    kv_lora_rank: int = 0
    rope_dims: int = 0
    state_values: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a layer kind is one of {', '.join(KINDS)}, got '{self.kind}'")
        whole("the number of layers in a layer group", self.layers, least=1)
        for name in ("n_kv_heads", "d_head", "kv_lora_rank", "rope_dims", "state_values"):
            whole(name, getattr(self, name))
        if self.window is not None:
            whole("window", self.window)
        if self.kind in ("full", "window") and (self.n_kv_heads < 1 or self.d_head < 1):
            raise ValueError(f"a '{self.kind}' layer group needs n_kv_heads and d_head of at least 1")
        if (self.kind == "window") != (self.window is not None) or (self.window is not None and self.window < 1):
            raise ValueError(f"a window of at least 1 belongs to kind 'window' and to no other, got {self.window}")
        if self.kind == "latent" and self.kv_lora_rank < 1:
            raise ValueError("a 'latent' layer group needs kv_lora_rank of at least 1")

    @property
    def values_per_position(self) -> int:
        """Numbers that one layer keeps for one position."""
        if self.kind == "none":
            return 0
        if self.kind == "latent":
            return self.kv_lora_rank + self.rope_dims
        return 2 * self.n_kv_heads * self.d_head

    def positions_kept(self, seq_len: int) -> int:
        """Positions that one layer still holds after `seq_len` tokens."""
        if self.kind == "none":
            return 0
        return seq_len if self.window is None else min(seq_len, self.window)


@dataclass(frozen=True)
class PublishedModel:
    """Shape of one model. `n_params` is a count, unless `n_params_exact` is False (then a published round number).

    `family` is `llama` where the weights are those of a plain Llama (RMSNorm, RoPE, gated FFN, no biases).
    `ffn_matrices` is 3 for a gated FFN, 2 for the older kind; `moe` marks a mixture of experts.
    """

    key: str
    name: str
    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_ff: int
    vocab_size: int
    tied: bool
    max_len: int
    layers: tuple[LayerGroup, ...]
    n_params: int
    source: str
    read: str
    n_params_exact: bool = True
    family: str = "llama"
    ffn_matrices: int = 3
    moe: bool = False
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None
    norm_eps: float = 1e-5
    note: str = ""

    def __post_init__(self) -> None:
        for name in SIZES:
            whole(f"{self.key}: {name}", getattr(self, name), least=1)
        covered = sum(group.layers for group in self.layers)
        if covered != self.n_layers:
            raise ValueError(f"{self.key}: the layer groups cover {covered} layers, but the model has {self.n_layers}")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"{self.key}: {self.n_heads} query heads can't share {self.n_kv_heads} KV heads evenly")

    def to_config(self) -> dict[str, Any]:
        """Keyword arguments of `kvlab.config.ModelConfig`. Raises ValueError unless this is a plain Llama."""
        if self.family != "llama" or self.moe:
            raise ValueError(
                f"{self.name} is not a plain Llama, so this course's decoder can't take its shape: "
                f"{self.note or 'other layers'}. Use one of {', '.join(_plain_llamas())}"
            )
        if any(group.kind != "full" for group in self.layers):
            raise ValueError(
                f"{self.name} has layers that don't attend to everything, which this course's decoder does not build: "
                f"use one of {', '.join(_plain_llamas())}"
            )
        names = (
            "vocab_size d_model n_layers n_heads n_kv_heads d_head d_ff max_len rope_theta rope_scaling norm_eps tied"
        )
        return {name: getattr(self, name) for name in names.split()}


@dataclass(frozen=True)
class GPU:
    """Peak dense FLOP/s in `dtype` on the tensor cores, memory bandwidth in byte/s, memory in bytes, as advertised."""

    key: str
    name: str
    peak_flops: float
    bandwidth: float
    memory_bytes: float
    dtype: str
    source: str
    read: str
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("peak_flops", "bandwidth", "memory_bytes"):
            amount(f"{self.key}: {name}", getattr(self, name), positive=True)


def build(entry: Mapping[str, Any]) -> PublishedModel:
    """A PublishedModel from one entry of `data/models.json`.

    `layers` may be left out (all full) and a group inherits n_kv_heads and d_head. `key`, `name`, `source`, `read`,
    `max_len` and `n_params` may be missing in a shape made on the spot; n_params is then counted.
    Raises ValueError for unknown or missing fields.
    """
    known = {field.name for field in fields(PublishedModel)}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ValueError(f"a model shape has no field {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    needed = ("n_layers", "d_model", "n_heads", "d_ff", "vocab_size", "tied")
    missing = [name for name in needed if name not in entry]
    if missing:
        raise ValueError(f"a model shape needs {', '.join(missing)}")
    shape = {"key": "custom", "name": "a shape of your own", "source": "given", "read": "", "max_len": 2**31, **entry}
    for name in ("ffn_matrices", *SIZES):
        if name in shape:
            shape[name] = whole(name, shape[name], least=1)
    shape.setdefault("n_kv_heads", shape["n_heads"])
    shape.setdefault("d_head", shape["d_model"] // shape["n_heads"])
    shape["layers"] = tuple(_group(shape, group) for group in entry.get("layers") or [{"layers": shape["n_layers"]}])
    shape.setdefault("n_params", count_params(shape))
    return PublishedModel(**shape)


def _group(shape: Mapping[str, Any], group: Mapping[str, Any]) -> LayerGroup:
    if not isinstance(group, Mapping) or not {"layers"} <= set(group) <= {field.name for field in fields(LayerGroup)}:
        raise ValueError(f"a layer group needs 'layers' and takes only the fields of LayerGroup, got {group!r:.80}")
    inherited = {} if group.get("kind") in ("latent", "none") else {k: shape[k] for k in ("n_kv_heads", "d_head")}
    return LayerGroup(**{**inherited, **group})


def count_params(shape: "Mapping[str, Any] | PublishedModel") -> int:
    """Parameters of a plain Llama: embedding table, head if untied, blocks with two norms each, the last norm."""
    sizes = dict(shape) if isinstance(shape, Mapping) else {f.name: getattr(shape, f.name) for f in fields(shape)}
    d, q, kv = sizes["d_model"], sizes["n_heads"] * sizes["d_head"], sizes["n_kv_heads"] * sizes["d_head"]
    block = 2 * d * q + 2 * d * kv + sizes.get("ffn_matrices", 3) * d * sizes["d_ff"] + 2 * d
    return sizes["vocab_size"] * d * (1 if sizes["tied"] else 2) + sizes["n_layers"] * block + d


def shape_of(model: Any) -> PublishedModel:
    """The shape of a model given by name, as PublishedModel, as a mapping, or as a `kvlab.config.ModelConfig`."""
    if isinstance(model, PublishedModel):
        return model
    if isinstance(model, str):
        return _model(model)
    if isinstance(model, Mapping):
        return build(model)
    config = getattr(model, "config", model)
    names = "vocab_size d_model n_layers n_heads n_kv_heads d_head d_ff max_len rope_theta rope_scaling norm_eps tied"
    try:
        return build({name: getattr(config, name) for name in names.split()})
    except AttributeError:
        raise ValueError(
            f"can't read a model's shape from a {type(model).__name__}: give a name such as 'llama-3-8b', "
            f"a PublishedModel, a ModelConfig or a dict"
        ) from None


@cache
def models() -> dict[str, PublishedModel]:
    """All known shapes by key, the course's own primer model first where its files are present. Treat as read-only."""
    return _primer() | {m.key: m for m in _table(data_dir() / "models.json", "models", build)}


def model(name: str) -> PublishedModel:
    """One model by key, for example `llama-3-8b`. Raises ValueError that lists the keys."""
    return _model(name)


def _model(name: str) -> PublishedModel:
    try:
        return models()[name.lower()]
    except KeyError:
        raise ValueError(f"there is no model '{name}' in the table: use one of {', '.join(models())}") from None


@cache
def gpus() -> dict[str, GPU]:
    """All GPUs of the table by key. Treat as read-only."""
    return {g.key: g for g in _table(data_dir() / "gpus.json", "gpus", lambda entry: GPU(**entry))}


def gpu(name: str) -> GPU:
    """One GPU by key, for example `a100-80gb`. Raises ValueError that lists the keys."""
    try:
        return gpus()[name.lower()]
    except KeyError:
        raise ValueError(f"there is no GPU '{name}' in the table: use one of {', '.join(gpus())}") from None


def _plain_llamas() -> list[str]:
    table = models().values()
    return [m.key for m in table if m.family == "llama" and not m.moe and all(g.kind == "full" for g in m.layers)]


def _primer() -> dict[str, PublishedModel]:
    """The trained primer target, read from its own config.json so that no number is kept twice."""
    path = data_dir() / "primer" / "target" / "config.json"
    if not path.exists():
        return {}
    from kvlab.config import ModelConfig

    config = ModelConfig.from_file(path)
    shape = build(
        {
            **{f.name: getattr(config, f.name) for f in fields(config)},
            "key": "primer",
            "name": "primer (this course)",
            "source": "data/primer/target/config.json",
        }
    )
    return {"primer": shape}


def _table(path: Path, name: str, make: Callable[[dict[str, Any]], T]) -> list[T]:
    """The entries `name` of a table file, each made into an object; ValueError with the path for a damaged file."""
    content = read_json(path, dict)
    try:
        return [make({"read": content["read"], **entry}) for entry in content[name]]
    except (KeyError, TypeError, ValueError) as error:  # a field is missing, of another type, or out of range
        raise ValueError(f"{path} is damaged ({error}): restore it from the repository") from error
