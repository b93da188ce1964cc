"""The shape of a Llama-style decoder: what every kernel, cache and loader agrees on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


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
        for name in ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff", "max_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads must be a multiple of n_kv_heads so that each KV head serves equally many query heads, "
                f"got {self.n_heads} and {self.n_kv_heads}"
            )
        if self.d_head % 2:
            raise ValueError(f"d_head must be even, because RoPE turns pairs of numbers, got {self.d_head}")
        kind = (self.rope_scaling or {}).get("rope_type", "llama3")
        if kind != "llama3":
            raise ValueError(f"rope scaling of type '{kind}' is not supported; known: none, llama3")

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
        n_heads = int(hf["num_attention_heads"])
        # transformers 5 writes theta and scaling into one `rope_parameters` entry; older files have two
        rope = dict(hf.get("rope_parameters") or hf.get("rope_scaling") or {})
        theta = float(rope.pop("rope_theta", hf.get("rope_theta") or 10_000.0))
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            rope["rope_type"] = kind
        return cls(
            vocab_size=int(hf["vocab_size"]),
            d_model=int(hf["hidden_size"]),
            n_layers=int(hf["num_hidden_layers"]),
            n_heads=n_heads,
            n_kv_heads=int(hf.get("num_key_value_heads") or n_heads),
            d_head=int(hf.get("head_dim") or hf["hidden_size"] // n_heads),
            d_ff=int(hf["intermediate_size"]),
            max_len=int(hf.get("max_position_embeddings", 2048)),
            rope_theta=theta,
            rope_scaling=None if kind == "default" else rope,
            norm_eps=float(hf.get("rms_norm_eps", 1e-6)),
            tied=bool(hf.get("tie_word_embeddings", False)),
        )

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
