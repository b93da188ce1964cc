"""Wrong: leaves empty strings out."""
# mistake: empty strings left out

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = []
    for token in token_bytes:
        text = decoder.decode(token)
        if text:
            out.append(text)
    out.append(decoder.decode(b"", True))
    return out
