"""Wrong: shows marks that a later token takes back."""
# mistake: marks shown early

import codecs


def stream_text(token_bytes):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    data, shown = b"", 0
    out = []
    for token in token_bytes:
        data += token
        text = data.decode("utf-8", "replace")
        out.append(text[shown:])
        shown = len(text)
    out.append("")
    return out
