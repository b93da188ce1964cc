"""Wrong: no string for the end."""
# mistake: nothing for the end

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = []
    for token in token_bytes:
        out.append(decoder.decode(token))
    return out
