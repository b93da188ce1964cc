"""Text streams: whole characters, no part of a stop string, nothing lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.streaming import TextStream


def run(parts: list[bytes], stop: list[str]) -> tuple[list[str], bool]:
    stream = TextStream(stop)
    shown = [stream.push(p) for p in parts]
    return [*shown, stream.finish()], stream.stopped


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


@given(data=st.one_of(st.binary(max_size=30), st.text(max_size=15).map(str.encode)), sizes=st.lists(st.integers(0, 4)))
def test_pieces_join_to_the_decoded_bytes(data: bytes, sizes: list[int]) -> None:
    pieces, _ = run(split(data, sizes), [])
    assert "".join(pieces) == data.decode("utf-8", "replace")


@given(text=st.text("абab€ ", max_size=20), sizes=st.lists(st.integers(0, 3)))
def test_no_piece_holds_a_broken_character(text: str, sizes: list[int]) -> None:
    pieces, _ = run(split(text.encode(), sizes), [])
    assert all("\ufffd" not in piece for piece in pieces)


@given(text=st.text("ab.", max_size=20), stop=st.text("ab.", min_size=1, max_size=4), sizes=st.lists(st.integers(0, 3)))
def test_one_stop_string_cuts_at_its_first_place(text: str, stop: str, sizes: list[int]) -> None:
    pieces, stopped = run(split(text.encode(), sizes), [stop])
    assert stopped is (stop in text)
    assert "".join(pieces) == text.split(stop)[0]


@given(text=st.text("ab.", max_size=20), stop=st.text("ab.", min_size=1, max_size=4))
def test_what_is_shown_is_never_taken_back(text: str, stop: str) -> None:
    stream, shown = TextStream([stop]), ""
    for character in text:
        shown += stream.push(character.encode())
        assert (text.split(stop)[0] + stop).startswith(shown)
        assert stop not in shown


def test_a_character_comes_with_the_token_that_completes_it() -> None:
    pieces, _ = run([b"m", "ы".encode()[:1], "ы".encode()[1:] + b"l"], [])
    assert pieces == ["m", "", "ыl", ""]


def test_a_broken_end_is_shown_at_the_end() -> None:
    assert run([b"a", "ы".encode()[:1]], [])[0] == ["a", "", "\ufffd"]


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    assert run([b"one <", b"|", b"e", b" two"], ["<|end|>"])[0] == ["one ", "", "", "<|e two", ""]


def test_nothing_is_shown_after_the_stop() -> None:
    stream = TextStream(["ab"])
    assert [stream.push(b"xa"), stream.push(b"by"), stream.push(b"z"), stream.finish()] == ["x", "", "", ""]


@pytest.mark.parametrize("stop", ["ab", b"ab", [""], [1], None, 5, {"a": 1}])
def test_stop_must_be_a_list_of_strings(stop) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="non-empty strings"):
        TextStream(stop)
