"""From a stream of token bytes to text that can be shown: whole characters only, and nothing past a stop string."""

import codecs
from collections.abc import Iterable, Sequence


class TextStream:
    """Push the bytes of each token, get the text that has become certain.

    A character that is spread over several tokens comes with the token that completes it. Text that may be the
    beginning of a stop string is held back until it is clear whether it is one; a stop string itself is never shown.
    The stop string that is complete first counts; of several complete with one token, the one that begins first.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        listed = isinstance(stop, Sequence) and not isinstance(stop, str)
        if not listed or not all(isinstance(s, str) and s for s in stop):
            raise ValueError(f"stop must be a list of non-empty strings, got {stop!r}")
        self._stop = tuple(stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False

    def push(self, data: bytes) -> str:
        """Text that is certain after these bytes; "" once a stop string has been found."""
        return self._release(self._decoder.decode(data))

    def finish(self) -> str:
        """What is left when no more tokens come: held-back text, and U+FFFD for a broken character."""
        shown = self._release(self._decoder.decode(b"", final=True))
        if not self.stopped:
            shown, self._held = shown + self._held, ""
        return shown

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        self._held += text
        found = [i for s in self._stop if (i := self._held.find(s)) >= 0]
        if found:
            self.stopped = True
            shown, self._held = self._held[: min(found)], ""
            return shown
        keep = max((_overlap(self._held, s) for s in self._stop), default=0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)


def stream_text(token_bytes: Iterable[bytes]) -> list[str]:
    """One string per token, in order, and one for what is left at the end; joined they are the whole text.

    A character comes with the token that completes it. Bytes that are no UTF-8 show as U+FFFD, just as
    `b"".join(token_bytes).decode("utf-8", "replace")` shows them. ValueError for anything but bytes.
    """
    if isinstance(token_bytes, str | bytes | bytearray):
        raise ValueError(f"token_bytes must be a list with the bytes of each token, got {token_bytes!r:.60}")
    text, shown = TextStream(), []
    for data in token_bytes:
        if not isinstance(data, bytes | bytearray):
            raise ValueError(f"each token must be bytes, got {data!r:.60}")
        shown.append(text.push(bytes(data)))
    return [*shown, text.finish()]
