"""Wrong: the last string is always empty."""
# mistake: the end lost

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = []
    for token in token_bytes:
        out.append(decoder.decode(token))
    out.append("")
    return out
