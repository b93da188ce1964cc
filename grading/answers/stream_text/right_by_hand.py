"""Right: finds by hand the beginning of a character at the end."""


def waiting(data):
    """How many bytes at the end may be the beginning of a character."""
    for n in range(1, min(3, len(data)) + 1):
        tail = data[-n:]
        if tail[0] >= 0xC0:
            return n if n < 2 + (tail[0] >= 0xE0) + (tail[0] >= 0xF0) and begins(tail) else 0
        if tail[0] < 0x80:
            return 0
    return 0


def begins(tail):
    try:
        tail.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start == 0
    return False


def stream_text(token_bytes):
    out, rest = [], b""
    for token in token_bytes:
        rest += token
        keep = waiting(rest)
        out.append(rest[: len(rest) - keep].decode("utf-8", "replace"))
        rest = rest[len(rest) - keep :]
    return [*out, rest.decode("utf-8", "replace")]
