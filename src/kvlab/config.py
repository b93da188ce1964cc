"""The shape of a Llama-style decoder: what every kernel, cache and loader agrees on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvlab.jsonfile import read_json
from kvlab.validate import amount, whole

SIZES = ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "max_len")
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one decoder.

    `d_head` is a field of its own: several published models do not use d_model / n_heads.
    `rope_scaling` is None or the `llama3` dictionary of a Hugging Face config (factor, low_freq_factor,
    high_freq_factor, original_max_position_embeddings).
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_ff: int
    max_len: int
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None
    norm_eps: float = 1e-5
    tied: bool = True

    def __post_init__(self) -> None:
        for name in SIZES:
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        for name in ("rope_theta", "norm_eps"):
            amount(name, getattr(self, name), positive=True)
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads must be a multiple of n_kv_heads so that each KV head serves equally many query heads, "
                f"got {self.n_heads} and {self.n_kv_heads}"
            )
        if self.d_head % 2:
            raise ValueError(f"d_head must be even, because RoPE turns pairs of numbers, got {self.d_head}")
        if self.rope_scaling is not None:
            check_rope_scaling(self.rope_scaling)

    @property
    def group_size(self) -> int:
        """Query heads that read one KV head."""
        return self.n_heads // self.n_kv_heads

    @classmethod
    def from_hf(cls, hf: Mapping[str, Any]) -> "ModelConfig":
        """Read a Hugging Face `config.json` of the Llama type. Raises ValueError when it is of another type."""
        if hf.get("model_type") != "llama":
            raise ValueError(f"only checkpoints of type 'llama' can be loaded, this one is '{hf.get('model_type')}'")
        for key in ("attention_bias", "mlp_bias"):
            if hf.get(key):
                raise ValueError(f"this checkpoint uses {key}, which the course's decoder does not have")
        if hf.get("hidden_act", "silu") not in ("silu", "swish"):  # two names of one function
            raise ValueError(
                f"this checkpoint's hidden_act is {hf['hidden_act']!r}, the course's decoder has silu only"
            )

        def size(key: str, default: int | None = None) -> int:
            value = default if hf.get(key) is None else hf[key]
            if value is None:
                raise ValueError(f"the configuration lacks '{key}'")
            return whole(key, value, least=1)

        n_heads = size("num_attention_heads")
        # transformers 5 writes theta and scaling into one `rope_parameters` entry; older files have two
        rope = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
        if not isinstance(rope, Mapping):
            raise ValueError(f"rope_parameters must be an object, got {rope!r:.60}")
        rope = dict(rope)
        theta = float(amount("rope_theta", rope.pop("rope_theta", None) or hf.get("rope_theta") or 10_000.0))
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            rope["rope_type"] = kind
        return cls(
            vocab_size=size("vocab_size"),
            d_model=size("hidden_size"),
            n_layers=size("num_hidden_layers"),
            n_heads=n_heads,
            n_kv_heads=size("num_key_value_heads", n_heads),
            d_head=size("head_dim", size("hidden_size") // n_heads),
            d_ff=size("intermediate_size"),
            max_len=size("max_position_embeddings", 2048),
            rope_theta=theta,
            rope_scaling=None if kind == "default" else rope,
            norm_eps=float(amount("rms_norm_eps", hf.get("rms_norm_eps", 1e-6))),
            tied=bool(hf.get("tie_word_embeddings", False)),
        )

    @classmethod
    def from_file(cls, path: Path) -> "ModelConfig":
        """Read a checkpoint's config.json. Raises ValueError with the path for whatever is wrong with it."""
        content = read_json(
            path, dict, "is this the folder of a model? If so, restore the file from where it came from"
        )
        try:
            return cls.from_hf(content)
        except ValueError as error:
            raise ValueError(f"{path} cannot be used: {error}") from error

    def to_hf(self) -> dict[str, Any]:
        """The same shape as a Hugging Face `config.json`, so that `transformers` can open what we save."""
        rope = dict(self.rope_scaling) if self.rope_scaling else {"rope_type": "default"}
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "vocab_size": self.vocab_size,
            "hidden_size": self.d_model,
            "num_hidden_layers": self.n_layers,
            "num_attention_heads": self.n_heads,
            "num_key_value_heads": self.n_kv_heads,
            "head_dim": self.d_head,
            "intermediate_size": self.d_ff,
            "max_position_embeddings": self.max_len,
            "rope_theta": self.rope_theta,
            "rope_parameters": {**rope, "rope_theta": self.rope_theta},
            "rms_norm_eps": self.norm_eps,
            "tie_word_embeddings": self.tied,
            "bos_token_id": 0,
            "eos_token_id": 1,
        }

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_rope_scaling(scaling: Mapping[str, Any]) -> None:
    """ValueError unless this is the `llama3` dictionary, with its four numbers."""
    if not isinstance(scaling, Mapping):
        raise ValueError(f"rope scaling must be a dictionary, got {scaling!r:.60}")
    kind = scaling.get("rope_type", "llama3")
    if kind != "llama3":
        raise ValueError(f"rope scaling of type '{kind}' is not supported; known: none, llama3")
    for name in LLAMA3:
        if name not in scaling:
            raise ValueError(f"rope scaling of type 'llama3' lacks '{name}'")
        amount(name, scaling[name], positive=True)
