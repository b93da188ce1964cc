"""Texts that come from a hand-in and go into logs, terminals and web pages."""


def clean(text: str, most: int = 300) -> str:
    """One line of printable characters, cut short; half characters, which no file can hold, become question marks."""
    text = text[:most].replace("\n", " ").encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() else "?" for c in text)
