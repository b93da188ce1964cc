"""One text in several tokenizers, and one token's bytes: from the tokenizer itself, or from the course's record."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from kvlab import __version__, models
from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.real_tokenizers.readers import KNOWN, entry, how_to_add, is_here, reader
from kvlab.tokenizer import check_text
from kvlab.validate import whole


@dataclass(frozen=True)
class Split:
    """A text as one tokenizer cuts it. `recorded`: read from the course's record, as the tokenizer is not here."""

    tokenizer: str
    text: str
    ids: tuple[int, ...]
    pieces: tuple[bytes, ...]
    recorded: bool

    @property
    def tokens_per_character(self) -> float:
        """Characters are code points: an emoji may be made of several."""
        return len(self.ids) / len(self.text)

    @property
    def labels(self) -> list[str]:
        """The pieces to be shown: part of a character as its bytes, <D0>, and a sign without ink by number, <U+200D>."""
        return [_label(piece) for piece in self.pieces]


def _label(piece: bytes) -> str:
    """Bytes that are no whole character decode to lone surrogates from U+DC80 on, one for each byte."""

    def shown(character: str) -> str:
        number = ord(character)
        if 0xDC80 <= number <= 0xDCFF:
            return f"<{number - 0xDC00:02X}>"
        plain = character.isprintable() and not unicodedata.combining(character)
        return character if plain else f"<U+{number:04X}>"

    return "".join(map(shown, piece.decode("utf-8", "surrogateescape")))


def split(name: str, text: str) -> Split:
    """Cut a text with one tokenizer, or show its record where the tokenizer is missing.

    Raises ValueError for an unknown tokenizer, for what is no text or an empty one, and for a text that is not
    recorded when the tokenizer is not on this machine.
    """
    known = entry(name)
    check_text(text)
    if not text:
        raise ValueError("the text is empty: give at least one character")
    if is_here(name):
        ids = reader(name).encode(text)
        return Split(name, text, tuple(ids), tuple(map(reader(name).piece, ids)), recorded=False)
    cut = _record(name)["texts"].get(text)
    if cut is None:
        raise ValueError(
            f"{known.title} is not on this machine and {text!r:.60} is not recorded: run `{how_to_add(known)}`"
        )
    return Split(name, text, tuple(cut["ids"]), tuple(map(bytes.fromhex, cut["bytes"])), recorded=True)


def side_by_side(texts: Sequence[str], names: Sequence[str] = tuple(KNOWN)) -> list[list[Split]]:
    """Each text in each tokenizer: one list per tokenizer, in the order of the names."""
    if isinstance(texts, str) or isinstance(names, str):
        raise ValueError("texts and names must be lists of strings")
    return [[split(name, text) for text in texts] for name in names]


def piece(name: str, token: int) -> bytes:
    """The bytes of one token id. Raises ValueError for an id outside the vocabulary, and as `split` does."""
    known, token = entry(name), whole("a token id", token)
    if token >= (size := vocab_size(name)):
        raise ValueError(f"token id {token} is outside the vocabulary of {known.title}, {size} tokens")
    if is_here(name):
        return reader(name).piece(token)
    data = _record(name)["tokens"].get(str(token))
    if data is None:
        raise ValueError(
            f"{known.title} is not on this machine and its token {token} is not recorded: run `{how_to_add(known)}`"
        )
    return bytes.fromhex(data)


def vocab_size(name: str) -> int:
    """How many tokens there are, special ones included where the package lists them."""
    return reader(name).vocab_size if is_here(name) else int(_record(name)["vocab_size"])


def source(name: str) -> str:
    """The package and version that a shown split comes from, with the date where it is recorded."""
    if is_here(name):
        known = entry(name)
        if known.module is None:
            return f"{known.package}=={__version__}"
        return (
            models.ADDABLE[name].requirement if name in models.ADDABLE else f"{known.package}=={version(known.package)}"
        )
    return f"{_record(name)['from']}, recorded {_file()['recorded']}"


@cache
def _file() -> dict[str, Any]:
    return read_json(data_dir() / "tokenizers.json", dict)


def _record(name: str) -> dict[str, Any]:
    return _file()["tokenizers"][name]
