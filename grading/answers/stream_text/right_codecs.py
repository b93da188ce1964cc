"""Right: the incremental decoder of the standard library."""

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = []
    for token in token_bytes:
        out.append(decoder.decode(token))
    out.append(decoder.decode(b"", True))
    return out
