"""Wrong: decodes each token by itself."""
# mistake: each token alone

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    out = []
    for token in token_bytes:
        out.append(token.decode("utf-8", "replace"))
    out.append(decoder.decode(b"", True))
    return out
