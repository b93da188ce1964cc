"""Wrong: broken bytes raise."""
# mistake: broken bytes refused

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    out = []
    for token in token_bytes:
        out.append(decoder.decode(token))
    out.append(decoder.decode(b"", True))
    return out
