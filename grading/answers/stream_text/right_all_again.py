"""Right: decodes all bytes again after each token, without the piece at the end."""


def complete(data):
    """The text of these bytes without a character that is cut at the end."""
    for n in range(4):
        try:
            data[len(data) - n :].decode("utf-8")
        except UnicodeDecodeError as error:
            if n and error.start == 0 and "end of data" in error.reason:
                return data[: len(data) - n].decode("utf-8", "replace")
    return data.decode("utf-8", "replace")


def stream_text(token_bytes):
    out, shown = [], 0
    for n in range(1, len(token_bytes) + 1):
        text = complete(b"".join(token_bytes[:n]))
        out.append(text[shown:])
        shown = len(text)
    return [*out, b"".join(token_bytes).decode("utf-8", "replace")[shown:]]
