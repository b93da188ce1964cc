"""Wrong: passes over empty tokens."""
# mistake: empty tokens passed over

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = []
    for token in token_bytes:
        if token:
            out.append(decoder.decode(token))
    out.append(decoder.decode(b"", True))
    return out
