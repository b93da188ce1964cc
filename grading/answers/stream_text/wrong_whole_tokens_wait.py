"""Wrong: a token waits until everything can be decoded."""
# mistake: whole tokens wait


def stream_text(token_bytes):
    waiting = b""
    out = []
    for token in token_bytes:
        waiting += token
        try:
            out.append(waiting.decode())
            waiting = b""
        except UnicodeDecodeError:
            out.append("")
    out.append(waiting.decode("utf-8", "replace"))
    return out
