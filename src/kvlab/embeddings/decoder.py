"""Vectors of texts from a decoder: rows of its token table, and its hidden states layer by layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from kvlab.embeddings.pool import last_token_pool, mean_pool
from kvlab.embeddings.search import cosines
from kvlab.model import Llama
from kvlab.tokenizer import Tokenizer
from kvlab.validate import whole

POOLINGS = ("last", "mean")
BATCH = 16  # texts in one pass


def token_rows(model: Llama, texts: Sequence[str]) -> torch.Tensor:
    """The mean of the rows that the token table holds for each text's tokens: (B, d_model).

    Nothing here knows the order of the tokens. The begin-of-text token is left out.
    """
    ids = _encode(model, texts, bos=False)
    with torch.no_grad():
        return torch.stack([model.model.embed_tokens(row.to(model.device)).mean(0) for row in ids])


def hidden_states(model: Llama, texts: Sequence[str], layer: int | None = None, pooling: str = "last") -> torch.Tensor:
    """One hidden state for each text, (B, d_model).

    `layer` i is the residual stream after block i; 0 is the token row itself. None is what the output head reads:
    the last layer after the final norm. `pooling` is "last" (the last token) or "mean".
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
    if layer is not None:
        layer = whole("layer", layer)
        if layer > model.config.n_layers:
            raise ValueError(f"layer must be at most {model.config.n_layers}, the number of blocks, got {layer}")
    ids = _encode(model, texts, bos=True)
    depth = model.config.n_layers if layer is None else layer
    pooled = []
    for start in range(0, len(ids), BATCH):
        batch, mask = _pad(ids[start : start + BATCH], model.device)
        (states,) = islice(every_layer(model, batch), depth, depth + 1)
        with torch.no_grad():
            states = model.model.norm(states) if layer is None else states
        pooled.append(last_token_pool(states, mask) if pooling == "last" else mean_pool(states, mask))
    return torch.cat(pooled)


def every_layer(model: Llama, ids: torch.Tensor) -> Iterator[torch.Tensor]:
    """The residual stream (B, n, d_model) of ids (B, n): before the first block, then after each one.

    Padding on the right changes nothing before it, because no token sees the ones that follow.
    """
    if ids.shape[1] > model.config.max_len:
        raise ValueError(f"a text of {ids.shape[1]} tokens exceeds the window of {model.config.max_len}: shorten it")
    cos, sin = model.cos[: ids.shape[1]], model.sin[: ids.shape[1]]
    with torch.no_grad():
        x = model.model.embed_tokens(ids)
    yield x
    for i, block in enumerate(model.model.layers):
        with torch.no_grad():
            x = block(x, cos, sin, None, i)
        yield x


@dataclass(frozen=True)
class WordStates:
    """One token in several texts. `row` is its row of the token table, (d_model,), the same in all of them;
    `states` its hidden states, (n_layers + 1, texts, d_model): before the first block, then after each."""

    token: str
    token_id: int
    row: torch.Tensor
    states: torch.Tensor

    def cosines(self, first: int = 0, second: int = 1) -> list[float]:
        """How near the token is to itself in two of the texts, layer by layer; 1.0 before the first block."""
        return [float(cosines(layer[first], layer[second : second + 1])) for layer in self.states]


def word_states(model: Llama, word: str, texts: Sequence[str]) -> WordStates:
    """Follow one word through the layers in several texts. Of a word of several tokens, its last token is taken.

    Raises ValueError when a text lacks the word, or when it is not the same token in all of them.
    """
    tokenizer, tokens, columns = _tokenizer(model), [], []
    for text, ids in zip(texts, _encode(model, texts, bos=True), strict=True):
        place = last_token_of(tokenizer, ids.tolist(), text, word)
        tokens.append(int(ids[place]))
        columns.append(torch.stack([x[0, place] for x in every_layer(model, ids[None].to(model.device))]))
    if len(set(tokens)) > 1:
        raise ValueError(
            f"'{word}' is not the same token in all texts (ids {', '.join(map(str, tokens))}): a space in front or a "
            f"capital letter makes another token, so write it alike"
        )
    row = model.model.embed_tokens.weight[tokens[0]]
    return WordStates(tokenizer.pieces(tokens[:1])[0], tokens[0], row, torch.stack(columns, dim=1))


def last_token_of(tokenizer: Tokenizer, ids: Sequence[int], text: str, word: str) -> int:
    """The position in `ids` of the last token of the first `word` in the text, counted in bytes."""
    begin = text.encode().find(word.encode()) if word else -1
    if begin < 0:
        raise ValueError(f"the text {text!r:.80} does not hold the word {word!r}")
    end, seen = begin + len(word.encode()), 0
    for position, token in enumerate(ids):
        seen += len(tokenizer.text_bytes(token))
        if seen >= end:
            return position
    raise ValueError(f"the tokens of {text!r:.80} do not spell it")


def _tokenizer(model: Llama) -> Tokenizer:
    if model.tokenizer is None:
        raise ValueError("this model has no tokenizer, so it cannot read texts: load one by name, such as 'primer'")
    return model.tokenizer


def _encode(model: Llama, texts: Sequence[str], bos: bool) -> list[torch.Tensor]:
    """Ids of each text; ValueError for a text without any token of its own."""
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError(f"texts must be a list of at least one string, got {texts!r:.60}")
    tokenizer = _tokenizer(model)
    rows = tokenizer.encode_batch(texts)
    for text, ids in zip(texts, rows, strict=True):
        if not ids:
            raise ValueError(f"a text must hold at least one token, got {text!r}")
    front = [tokenizer.bos_id] if bos and tokenizer.bos_id is not None else []
    return [torch.tensor(front + ids) for ids in rows]


def _pad(ids: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of unequal length as one batch, padded on the right: (B, n) ids and (B, n) bool."""
    batch = torch.nn.utils.rnn.pad_sequence(list(ids), batch_first=True).to(device)
    lengths = torch.tensor([len(row) for row in ids], device=device)
    return batch, torch.arange(batch.shape[1], device=device) < lengths[:, None]
