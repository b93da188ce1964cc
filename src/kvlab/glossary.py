"""The words of this course, from `data/glossary.json`: each explained in one or two plain sentences."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.show import Table

UNITS = tuple(f"{number:02}" for number in range(1, 9))


def terms() -> list[str]:
    """All terms, in alphabetical order, upper and lower case alike."""
    return sorted(_entries(), key=str.lower)


def explain(term: str) -> str:
    """The explanation of one term; case and a plural s don't matter. Raises ValueError with near matches."""
    return _entries()[_find(term)]


def show(words: Iterable[str] | None = None) -> Table:
    """A small table of the given terms, in the given order; of all terms without an argument."""
    chosen = terms() if words is None else [_find(word) for word in words]
    return Table("Glossary", ("term", "in plain words"), tuple((term, explain(term)) for term in chosen), width=76)


def vocabulary() -> Table:
    """The terms whose entry names a unit, each with the notebook in which it is at work."""
    rows = tuple((e["term"], e["text"], e["unit"]) for e in _file() if "unit" in e)
    return Table("Vocabulary", ("term", "in plain words", "notebook"), rows, folded=True, width=76)


def validate(entries: Iterable[Mapping[str, Any]]) -> None:
    """Raises ValueError when an entry has other fields than `term`, `text` and perhaps `unit`, or a term twice.

    An empty text is refused too, and a unit that is not "01" to "08".
    """
    seen: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        if set(entry) - {"unit"} != {"term", "text"}:
            raise ValueError(
                f"glossary entry {number} must have exactly 'term', 'text' and perhaps 'unit', got {sorted(entry)}"
            )
        if entry.get("unit", "01") not in UNITS:
            raise ValueError(
                f"glossary entry {number}: 'unit' must be one of {', '.join(UNITS)}, got {entry['unit']!r}"
            )
        if not entry["term"].strip() or not entry["text"].strip():
            raise ValueError(f"glossary entry {number} has an empty term or text")
        if entry["term"].lower() in seen:
            raise ValueError(f"the glossary explains '{entry['term']}' twice")
        seen.add(entry["term"].lower())


def _find(word: str) -> str:
    wanted = word.strip().lower()
    by_lower = {term.lower(): term for term in _entries()}
    for form in (wanted, wanted.removesuffix("s"), wanted + "s"):
        if form in by_lower:
            return by_lower[form]
    near = [term for low, term in sorted(by_lower.items()) if wanted and (wanted in low or low in wanted)]
    hint = f"did you mean {', '.join(near)}?" if near else "kvlab.glossary.terms() lists them"
    raise ValueError(f"the glossary does not explain '{word}': {hint}")


@cache
def _file() -> tuple[Mapping[str, str], ...]:
    path = data_dir() / "glossary.json"
    entries = read_json(path, dict).get("terms")
    if not isinstance(entries, list):
        raise ValueError(f"{path} is damaged (it has no list of terms): restore it from the repository")
    validate(entries)
    return tuple(entries)


def _entries() -> dict[str, str]:
    return {entry["term"]: entry["text"] for entry in _file()}
