"""An encoder of our own for all-MiniLM-L6-v2: BERT (Devlin et al., 2019, arXiv 1810.04805) with mean pooling.

Beside the decoder of this course: attention looks both ways, positions are learned rows that are added, each block
normalises after the sum, and one text becomes one vector. Parameters carry the names of the checkpoint.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from kvlab import models
from kvlab.embeddings.pool import mean_pool
from kvlab.embeddings.search import unit
from kvlab.jsonfile import read_json
from kvlab.tokenizer import check_text
from kvlab.validate import whole

MAX_TOKENS = 256  # what sentence-transformers cuts a text to
UNUSED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")


def _linear(n_in: int, n_out: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, device="meta")


def _norm(width: int, eps: float) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps, device="meta")


def _rows(count: int, width: int) -> nn.Embedding:
    return nn.Embedding.from_pretrained(torch.empty(count, width, device="meta"), freeze=False)


class Heads(nn.Module):
    """Queries, keys and values, with biases."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = _linear(width, width), _linear(width, width), _linear(width, width)


class Output(nn.Module):
    """Project, add what went around, normalise."""

    def __init__(self, n_in: int, width: int, eps: float) -> None:
        super().__init__()
        self.dense = _linear(n_in, width)
        self.LayerNorm = _norm(width, eps)

    def forward(self, x: torch.Tensor, around: torch.Tensor) -> torch.Tensor:
        return self.LayerNorm(self.dense(x) + around)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, eps: float) -> None:
        super().__init__()
        self.n_heads = heads
        self.self = Heads(width)
        self.output = Output(width, width, eps)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """x: (B, n, width); mask: (B, 1, 1, n) bool, True for the tokens that may be seen."""
        parts = (part(x) for part in (self.self.query, self.self.key, self.self.value))
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.output(mixed.transpose(1, 2).flatten(2), x)


class Layer(nn.Module):
    """One block: attention, then a feed-forward net with GELU."""

    def __init__(self, width: int, heads: int, d_ff: int, eps: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, eps)
        self.intermediate = nn.ModuleDict({"dense": _linear(width, d_ff)})
        self.output = Output(d_ff, width, eps)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention(x, mask)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    """A token's row, plus its position's, plus that of the first text, which is the only one here; then a norm."""

    def __init__(self, config: Mapping[str, Any], eps: float) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.word_embeddings = _rows(config["vocab_size"], width)
        self.position_embeddings = _rows(config["max_position_embeddings"], width)
        self.token_type_embeddings = _rows(config["type_vocab_size"], width)
        self.LayerNorm = _norm(width, eps)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.word_embeddings(ids) + self.position_embeddings(positions) + self.token_type_embeddings.weight[0]
        return self.LayerNorm(x)


class Encoder(nn.Module):
    def __init__(self, layers: Iterable[Layer]) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)


class MiniLM(nn.Module):
    """Texts in, vectors of 384 numbers and length 1 out: `MiniLM.load().encode(["a text", "another"])`."""

    def __init__(self, config: Mapping[str, Any], tokenizer: tokenizers.Tokenizer) -> None:
        super().__init__()
        eps = float(config["layer_norm_eps"])
        shape = config["hidden_size"], config["num_attention_heads"], config["intermediate_size"], eps
        self.embeddings = Embeddings(config, eps)
        self.encoder = Encoder(Layer(*shape) for _ in range(config["num_hidden_layers"]))
        self.tokenizer = tokenizer
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.enable_padding()

    @classmethod
    def load(cls, folder: Path | None = None) -> "MiniLM":
        """The model that `kvlab models add minilm` brought, or that of another folder of the same layout.

        Raises ValueError, with the command to run, when it is not there, and for damaged files.
        """
        folder = models.path("minilm") if folder is None else folder
        try:
            config = read_json(folder / "config.json", dict, "restore it")
            tokenizer = tokenizers.Tokenizer.from_str((folder / "tokenizer.json").read_text("utf-8"))
            weights = load_file(folder / "model.safetensors")
            if (kind := (config["model_type"], config["hidden_act"])) != ("bert", "gelu"):
                raise ValueError(f"its type is {kind[0]} with {kind[1]}, not bert with gelu")
            model = cls(config, tokenizer)
            model.load_state_dict({k: w for k, w in weights.items() if k not in UNUSED}, assign=True)
        except Exception as error:  # the tokenizers library raises bare Exception
            reason = " ".join(str(error).split())
            raise ValueError(
                f"the encoder in {folder} is damaged or of another kind ({reason:.200}): run `kvlab models remove "
                f"minilm`, then `kvlab models add minilm`"
            ) from error
        return model.eval().requires_grad_(False)

    def ids(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """WordPiece ids with [CLS] and [SEP], padded on the right: (B, n) ids and (B, n) mask of 0 and 1."""
        if isinstance(texts, str) or len(texts) == 0:
            raise ValueError(f"texts must be a list of at least one string, got {texts!r:.60}")
        for text in texts:
            check_text(text)
        encoded = self.tokenizer.encode_batch(list(texts))
        return torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded])

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Hidden states of the last layer: (B, n) and (B, n) -> (B, n, 384). Each token sees all others."""
        x, seen = self.embeddings(ids), mask.bool()[:, None, None, :]
        for layer in self.encoder.layer:
            x = layer(x, seen)
        return x

    def encode(self, texts: Sequence[str], batch: int = 32) -> torch.Tensor:
        """One vector of length 1 for each text: (B, 384). A text is cut after 256 tokens."""
        batch, pooled = whole("batch", batch, least=1), []
        for start in range(0, len(texts), batch) or [0]:  # without any text `ids` says so
            ids, mask = self.ids(texts[start : start + batch])
            with torch.no_grad():
                pooled.append(mean_pool(self(ids, mask), mask))
        return unit(torch.cat(pooled))
