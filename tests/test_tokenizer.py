"""Tokenizers: bytes of every token, tokens of no text, and those that are not byte-level."""

from pathlib import Path

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from kvlab.paths import data_dir
from kvlab.tokenizer import Tokenizer, as_ids, byte_alphabet

FILE = data_dir() / "primer" / "tokenizer.json"
PRIMER = Tokenizer.from_file(FILE)


def byte_level() -> tokenizers.Tokenizer:
    """A tokenizer with the 256 bytes and nothing else."""
    inner = tokenizers.Tokenizer(models.BPE({c: b for c, b in byte_alphabet().items()}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


@given(st.text(max_size=30).filter(lambda text: not any(name in text for name in PRIMER.special_ids)))
def test_any_text_comes_back(text: str) -> None:
    assert PRIMER.decode(PRIMER.encode(text)) == text
    assert Tokenizer(byte_level()).decode(Tokenizer(byte_level()).encode(text)) == text


def test_special_tokens_have_a_name_and_no_text() -> None:
    bos = PRIMER.bos_id
    assert (PRIMER.token_bytes(bos), PRIMER.text_bytes(bos)) == (b"<|bos|>", b"")
    assert PRIMER.decode([bos]) == ""
    assert PRIMER.decode([bos], special=True) == "<|bos|>"


def test_the_name_of_a_special_token_in_a_text_becomes_that_token() -> None:
    assert PRIMER.encode("a<|eos|>", bos=False)[-1] == PRIMER.eos_id


def test_an_added_token_that_is_not_special_is_text() -> None:
    inner = byte_level()
    inner.add_tokens([tokenizers.AddedToken("für €", special=False)])
    tokenizer = Tokenizer(inner)
    ids = tokenizer.encode("a für € b")
    assert 256 in ids
    assert tokenizer.decode(ids) == "a für € b"
    assert tokenizer.text_bytes(256) == "für €".encode()


def test_ids_of_a_larger_model_have_a_name_and_no_text() -> None:
    tokenizer = Tokenizer(byte_level(), 260)
    assert tokenizer.decode([65, 259, 66]) == Tokenizer(byte_level()).decode([65, 66])
    assert tokenizer.pieces([259]) == ["<|unused 259|>"]
    with pytest.raises(ValueError, match="260 is outside"):
        tokenizer.decode([260])


def foreign() -> dict[str, tokenizers.Tokenizer]:
    """Other kinds: SentencePiece's sign for a space, whole words, and bytes that are missing."""
    pieces = tokenizers.Tokenizer(models.BPE({"▁": 0, "a": 1}, []))
    words = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    few = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate("abĠĊ")}, []))
    few.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return {"pieces": pieces, "words": words, "few": few}


@pytest.mark.parametrize("name", foreign())
def test_other_kinds_are_refused_with_the_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only byte-level tokenizers"):
        Tokenizer(foreign()[name])
    foreign()[name].save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be used: only byte-level"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_a_space_in_front_of_every_text_is_no_other_kind() -> None:
    inner = byte_level()
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer = Tokenizer(inner)
    assert tokenizer.decode(tokenizer.encode("ab")) == " ab"


@pytest.mark.parametrize("token", [-1, 10**12, PRIMER.vocab_size])
def test_ids_outside_the_vocabulary_are_named(token: int) -> None:
    for read in (PRIMER.token_bytes, PRIMER.text_bytes, lambda i: PRIMER.decode([i]), lambda i: PRIMER.pieces([i])):
        with pytest.raises(ValueError, match=f"token id {token} is outside the vocabulary of {PRIMER.vocab_size}"):
            read(token)


@pytest.mark.parametrize("ids", [[1.7], ["1"], "12", b"12", [None], None, 3, {1: 2}, torch.ones(1, 1).long()])
def test_ids_are_a_flat_list_of_whole_numbers(ids: object) -> None:
    for read in (as_ids, PRIMER.decode, PRIMER.pieces):
        with pytest.raises(ValueError, match="flat list of whole numbers"):
            read(ids)  # type: ignore[operator]


def test_ids_may_be_a_tensor_or_a_generator() -> None:
    assert as_ids(torch.tensor([1, 2])) == as_ids(i for i in (1, 2)) == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"), [("ab\ud800", "surrogate.* at position 2"), (b"ab", "string"), (3, "string")]
)
def test_what_is_no_text_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PRIMER.encode(text)
    with pytest.raises(ValueError, match=message):
        PRIMER.encode_batch(["a", text])
