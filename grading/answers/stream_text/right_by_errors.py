"""Right: decodes strictly, again and again, and looks at the error."""


def stream_text(token_bytes):
    out, rest = [], b""
    for token in token_bytes:
        rest, text = rest + token, ""
        while rest:
            try:
                text, rest = text + rest.decode("utf-8"), b""
            except UnicodeDecodeError as error:
                text += rest[: error.start].decode("utf-8")
                if error.reason == "unexpected end of data":
                    rest = rest[error.start :]
                    break
                text, rest = text + "\N{REPLACEMENT CHARACTER}", rest[error.end :]
        out.append(text)
    return [*out, rest.decode("utf-8", "replace")]
