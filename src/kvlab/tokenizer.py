"""Text to token ids and back, with the bytes of every token: the primer's byte-level BPE or a checkpoint's own."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import tokenizers


@cache
def byte_alphabet() -> dict[str, int]:
    """The printable stand-in character of each byte in a byte-level vocabulary (Radford et al., 2019, GPT-2).

    Printable Latin-1 bytes stand for themselves; the 68 others are moved, in order, to code points from 256 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(moved)}


class Tokenizer:
    """A byte-level tokenizer: any text can be encoded, and a character may be spread over several tokens."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self._special = {i: t.content for i, t in inner.get_added_tokens_decoder().items() if t.special}
        by_name = {name: i for i, name in self._special.items()}
        self.bos_id = _first(by_name, ("<|bos|>", "<|begin_of_text|>", "<s>", "<|im_start|>", "<|endoftext|>"))
        self.eos_id = _first(by_name, ("<|eos|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<|endoftext|>"))
        self.special_ids = by_name

    @classmethod
    def from_file(cls, path: Path) -> "Tokenizer":
        """Read a `tokenizer.json`. Raises ValueError with the path when the file is missing or damaged."""
        try:
            return cls(tokenizers.Tokenizer.from_str(path.read_text("utf-8")))
        except FileNotFoundError:
            raise ValueError(f"there is no tokenizer at {path}: restore the file from the repository") from None
        except Exception as error:  # the library raises bare Exception for a damaged file
            raise ValueError(f"the tokenizer {path} is damaged ({error}): restore it from the repository") from error

    def save(self, path: Path) -> None:
        path.write_text(self._inner.to_str(pretty=False) + "\n", "utf-8")

    @property
    def vocab_size(self) -> int:
        return self._inner.get_vocab_size()

    def encode(self, text: str, bos: bool = True) -> list[int]:
        """Ids of a text, with the begin-of-text token in front unless `bos` is False."""
        ids = self._inner.encode(text, add_special_tokens=False).ids
        return [self.bos_id, *ids] if bos and self.bos_id is not None else ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without a begin-of-text token."""
        return [e.ids for e in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    def token_bytes(self, token: int) -> bytes:
        """The bytes that one token adds to the text. A special token counts as its name."""
        if token in self._special:
            return self._special[token].encode()
        name = self._inner.id_to_token(token)
        if name is None:
            raise ValueError(f"token id {token} is outside the vocabulary of {self.vocab_size}")
        alphabet = byte_alphabet()
        return bytes(alphabet[character] for character in name)

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Text of the ids; broken bytes show as U+FFFD. Special tokens are left out unless `special`."""
        kept = [i for i in map(int, ids) if special or i not in self._special]
        return b"".join(self.token_bytes(i) for i in kept).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One printable string per token, special tokens included, for labels in tables and figures."""
        return [self.token_bytes(int(i)).decode("utf-8", "replace") for i in ids]


def _first(by_name: dict[str, int], names: Sequence[str]) -> int | None:
    return next((by_name[name] for name in names if name in by_name), None)
