"""Text to token ids and back, with the bytes of every token: the primer's byte-level BPE or a checkpoint's own."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers

from kvlab.chat import Message, TextSettings, render

PROBE = "a b\n\u00e9\u20ac"  # comes back whole only where every byte has a token


@cache
def byte_alphabet() -> dict[str, int]:
    """The printable stand-in character of each byte in a byte-level vocabulary (Radford et al., 2019, GPT-2).

    Printable Latin-1 bytes stand for themselves; the 68 others are moved, in order, to code points from 256 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(moved)}


class Tokenizer:
    """A byte-level tokenizer: any text can be encoded, and a character may be spread over several tokens.

    `settings` is what stands beside it (begin and end tokens, chat template); without it both go by their usual names.
    `model_vocab_size` is the vocabulary of its model, where that is larger: the ids beyond the tokenizer's own then
    count as special tokens, which have a name but no text. Raises ValueError for a tokenizer of another kind.
    """

    def __init__(
        self, inner: tokenizers.Tokenizer, model_vocab_size: int = 0, settings: TextSettings | None = None
    ) -> None:
        check_byte_level(inner)
        self._inner = inner
        added = inner.get_added_tokens_decoder()
        unused = [i for i in range(inner.get_vocab_size(), model_vocab_size) if inner.id_to_token(i) is None]
        self._added = {i: token.content for i, token in added.items() if not token.special}
        self._special = {i: token.content for i, token in added.items() if token.special}
        by_name = {name: i for i, name in self._special.items()}
        self._special |= {i: f"<|unused {i}|>" for i in unused}
        self.bos_id = _first(by_name, ("<|bos|>", "<|begin_of_text|>", "<s>", "<|im_start|>", "<|endoftext|>"))
        self.eos_id = _first(by_name, ("<|eos|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<|endoftext|>"))
        if settings is not None:
            self.eos_id = by_name.get(settings.eos or "", self.eos_id)
            self.bos_id = _bos_in_front(inner, by_name, settings)
        self.special_ids = by_name
        self.settings = settings

    @classmethod
    def from_file(cls, path: Path, model_vocab_size: int = 0) -> "Tokenizer":
        """Read a `tokenizer.json`. Raises ValueError with the path when the file is missing, damaged or foreign."""
        try:
            inner = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
        except FileNotFoundError:
            raise ValueError(f"there is no tokenizer at {path}: restore the file from the repository") from None
        except Exception as error:  # the library raises bare Exception for a damaged file
            raise ValueError(f"the tokenizer {path} is damaged ({error}): restore it from the repository") from error
        try:
            return cls(inner, model_vocab_size, TextSettings.beside(path))
        except ValueError as error:
            raise ValueError(f"the tokenizer {path} cannot be used: {error}") from error

    def save(self, path: Path) -> None:
        path.write_text(self._inner.to_str(pretty=False) + "\n", "utf-8")

    @property
    def vocab_size(self) -> int:
        return self._inner.get_vocab_size()

    def encode(self, text: str, bos: bool = True) -> list[int]:
        """Ids of a text, with the begin-of-text token in front unless `bos` is False.

        The name of a special token in the text becomes that token, as in other libraries.
        """
        check_text(text)
        ids = self._inner.encode(text, add_special_tokens=False).ids
        return [self.bos_id, *ids] if bos and self.bos_id is not None else ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without a begin-of-text token."""
        for text in texts:
            check_text(text)
        return [e.ids for e in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    def chat_text(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """A chat as the text that this model was trained to see; encode it with `bos=False`. See `kvlab.chat.render`."""
        return render(self.settings, messages, add_generation_prompt)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token. A special token counts as its name."""
        name = self._special.get(token) or self._added.get(token)
        if name is not None:
            return name.encode()
        name = self._inner.id_to_token(token) if 0 <= token < 2**32 else None  # the library counts in 32 bits
        if name is None:
            raise ValueError(f"token id {token} is outside the vocabulary of {self.vocab_size}")
        alphabet = byte_alphabet()
        return bytes(alphabet[character] for character in name)

    def text_bytes(self, token: int) -> bytes:
        """The bytes that one token adds to a text: those of `token_bytes`, and none for a special token."""
        return b"" if token in self._special else self.token_bytes(token)

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Text of the ids; broken bytes show as U+FFFD. Special tokens are left out unless `special`."""
        read = self.token_bytes if special else self.text_bytes
        return b"".join(read(i) for i in as_ids(ids)).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One printable string per token, special tokens included, for labels in tables and figures."""
        return [self.token_bytes(i).decode("utf-8", "replace") for i in as_ids(ids)]


def as_ids(ids: Any) -> list[int]:
    """A flat list of token ids as ints; a 1-D tensor or array will do. ValueError for anything else, 1.7 and "1" too."""
    wrong = ValueError(f"token ids must be a flat list of whole numbers, got {ids!r:.60}")
    if isinstance(ids, str | bytes | bytearray | Mapping) or getattr(ids, "ndim", 1) != 1:
        raise wrong
    try:
        return [operator.index(i) for i in ids]
    except TypeError:
        raise wrong from None


def check_text(text: Any) -> None:
    """ValueError unless this is a text that UTF-8 can hold."""
    if not isinstance(text, str):
        raise ValueError(f"a text must be a string, got {text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text holds half a character (a lone surrogate) at position {error.start}") from None


def check_byte_level(inner: tokenizers.Tokenizer) -> None:
    """ValueError unless every entry of the vocabulary stands for bytes, and a text comes back from them."""
    alphabet = byte_alphabet()
    foreign = set("".join(inner.get_vocab(with_added_tokens=False))) - alphabet.keys()
    if foreign:
        raise ValueError(
            f"only byte-level tokenizers can be read here, and this vocabulary holds {min(foreign)!r}, "
            f"which stands for no byte"
        )
    names = "".join(inner.encode(PROBE, add_special_tokens=False).tokens)
    back = bytes(alphabet.get(character, 0) for character in names)
    if back.removeprefix(b" ") != PROBE.encode():  # some put a space in front of every text
        raise ValueError(f"only byte-level tokenizers can be read here, and this one turns {PROBE!r} into {names!r}")


def _bos_in_front(inner: tokenizers.Tokenizer, by_name: dict[str, int], settings: TextSettings) -> int | None:
    """The token that begins every text, or None: some models have a token of that name but never put it in front."""
    bos = by_name.get(settings.bos or "")
    adds = settings.adds_bos
    if adds is None:  # an older file leaves it to the tokenizer itself
        adds = inner.encode("", add_special_tokens=True).ids[:1] == [bos]
    return bos if adds else None


def _first(by_name: dict[str, int], names: Sequence[str]) -> int | None:
    return next((by_name[name] for name in names if name in by_name), None)
