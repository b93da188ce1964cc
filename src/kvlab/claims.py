"""What people say about the KV cache against what this course computes: the register in `data/claims.json`.

A row is *computed* (it names a kvlab function and its arguments, and a test recomputes it), *measured* (it names the
kvlab module that shows it by running it) or *cited* (it names a source and the day it was read). Rows with `key` are
the few of a card that everybody should read; `show` puts them first and folds the others.
"""

import importlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvlab.arithmetic import format_bytes
from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.show import Table

GUIDE = (
    'The guide is a published text, "LLM Internals: KV Cache & Generation", whose topics and order this course follows.'
)
MEANINGS = {
    "holds": "true as it is said",
    "holds only if": "true under the condition in Why",
    "wrong": "false",
    "outdated": "true once, false on the day that the source was read",
    "vague": "cannot be tested as it is said",
}
VERDICTS = tuple(MEANINGS)
_LEGEND = "Verdicts: " + " · ".join(f"{word}: {meaning}" for word, meaning in MEANINGS.items())
SPEAKERS = {
    "guide": "the guide",
    "lesson": "a published lesson on the KV cache",
    "script": "a published KV-cache script in numpy",
}
TOLERANCE = 2e-3  # relative; printed values have three to four digits

Row = Mapping[str, Any]

_FIELDS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "card": (int,),
    "said_by": (str,),
    "claim": (str,),
    "guide": (str, int, float),
    "ours": (str, int, float),
    "unit": (str,),
    "verdict": (str,),
    "note": (str,),
    "source": (str,),
    "date": (str,),
    "compute": (dict,),
    "measured_by": (str,),
    "tolerance": (int, float),
    "key": (bool,),
}
_QUANTITY = re.compile(r"growth |probability of |sum of |attention's share |recall at ")
_TIMES = re.compile(r"^x(?! n\^)\b")
_REQUIRED = ("id", "card", "said_by", "claim", "guide", "ours", "unit", "verdict", "note", "source")
_COMPUTE_KEYS = {"fn", "args", "attr", "scale", "over"}


def rows(card: int | None = None) -> list[Row]:
    """The register's rows, of one card or all, in the register's order. Raises ValueError for an unknown card."""
    table = _register()
    if card is None:
        return list(table)
    found = [row for row in table if row["card"] == card]
    if not found:
        cards = sorted({row["card"] for row in table})
        raise ValueError(f"the register has no claims of card {card}: it has cards {', '.join(map(str, cards))}")
    return found


def row(claim_id: str) -> Row:
    """One row by id, for example `04.07`. Raises ValueError for an unknown id."""
    for candidate in _register():
        if candidate["id"] == claim_id:
            return candidate
    raise ValueError(f"the register has no claim '{claim_id}'; kvlab.claims.rows() lists them")


def evaluate(claim: Row | str) -> float | None:
    """Our value, computed anew. None for a row that is measured or cited."""
    chosen = row(claim) if isinstance(claim, str) else claim
    compute = chosen.get("compute")
    return None if compute is None else _call(compute)


def agrees(claim: Row | str) -> bool:
    """Whether the value in the register is the computed one, within the row's relative tolerance.

    Raises ValueError for a row that nothing computes.
    """
    chosen = row(claim) if isinstance(claim, str) else claim
    value = evaluate(chosen)
    if value is None:
        raise ValueError(
            f"claim {chosen['id']} has no 'compute': it is measured or cited, so there is nothing to compare"
        )
    return math.isclose(value, chosen["ours"], rel_tol=chosen.get("tolerance", TOLERANCE))


def beyond_hardware(table: Iterable[Row] | None = None) -> list[Row]:
    """The rows whose figure no hardware of that kind can reach; of the register, where no table is given.

    A row that holds such a bound says so at the end of its unit: in "ms, lower bound" a smaller figure is impossible, in
    "tokens/s, upper bound" a larger one. The bound is computed anew where the row says how.
    """
    found = []
    for claim in rows() if table is None else table:
        kind = re.search(r", (lower|upper) bound$", claim["unit"])
        if kind is None or isinstance(claim["guide"], str):
            continue
        computed = evaluate(claim)
        bound = claim["ours"] if computed is None else computed
        if claim["guide"] < bound if kind[1] == "lower" else claim["guide"] > bound:
            found.append(claim)
    return found


@dataclass(frozen=True)
class ClaimTable:
    """The rows that matter, and the rest folded behind them. `every` is the call that prints the rest as text too."""

    key: Table
    rest: Table | None = None
    every: str = ""

    def __str__(self) -> str:
        return self.to_text()

    def to_html(self) -> str:
        if self.rest is None:
            return self.key.to_html()
        return self.key.to_html().removesuffix("</details>") + self.rest.to_html() + "</details>"

    def to_text(self) -> str:
        text = self.key.to_text()
        return text if self.rest is None else f"{text}\n\n{self.rest.title}: {self.every} shows them."

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.to_text(), "text/html": self.to_html()}


def show(card: int | None = None, ids: Iterable[str] | None = None, every: bool = False) -> ClaimTable:
    """A folded table for the end of a cell: what is said, what we computed, the verdict, why, and the source.

    Of a card it shows the key rows and folds the others once more; `every` shows all in one table, as `ids` does.
    """
    chosen = [row(claim_id) for claim_id in ids] if ids is not None else rows(card)
    where = f"card {card}" if card is not None and ids is None else f"{len(chosen)} claims"
    key = [claim for claim in chosen if claim.get("key")]
    if every or ids is not None or not key or len(key) == len(chosen):
        return ClaimTable(_table(f"What is said and what we computed ({where})", chosen, GUIDE, _LEGEND))
    rest = [claim for claim in chosen if not claim.get("key")]
    call = f"claims.show({f'card={card}, ' if card is not None else ''}every=True)"
    title = f"What is said and what we computed ({where}: the {len(key)} that matter most)"
    return ClaimTable(_table(title, key, GUIDE, _LEGEND), _table(f"{len(rest)} more claims", rest), call)


def _table(title: str, chosen: list[Row], *notes: str) -> Table:
    return Table(
        title=title,
        header=("claim", "as it is said", "what we computed", "verdict", "why", "source"),
        rows=tuple(_cells(claim) for claim in chosen),
        folded=True,
        notes=notes,
    )


def validate(table: Iterable[Row]) -> None:
    """Raises ValueError that names the row and the field when a row does not follow the schema."""
    seen: set[str] = set()
    for number, claim in enumerate(table, start=1):
        where = f"claim {claim.get('id', f'number {number}')}"
        _validate_fields(where, claim)
        if claim["id"] in seen:
            raise ValueError(f"{where} appears twice")
        seen.add(claim["id"])
        _validate_origin(where, claim)


def _validate_fields(where: str, claim: Row) -> None:
    for name in _REQUIRED:
        if name not in claim:
            raise ValueError(f"{where} lacks '{name}'")
    for name, value in claim.items():
        if name not in _FIELDS:
            raise ValueError(f"{where} has an unknown field '{name}'; known: {', '.join(_FIELDS)}")
        if not isinstance(value, _FIELDS[name]) or (isinstance(value, bool) and name != "key"):
            kinds = " or ".join(kind.__name__ for kind in _FIELDS[name])
            raise ValueError(f"{where}: '{name}' must be {kinds}, got {value!r}")
    if not re.fullmatch(r"(\d\d|S\d{3})\.\d\d", claim["id"]):
        raise ValueError(f"{where}: an id looks like '04.07' or 'S004.07'")
    if not 0 <= claim["card"] <= 24:
        raise ValueError(f"{where}: the guide has cards 1 to 24, and 0 stands for the guide as a whole")
    if claim["verdict"] not in VERDICTS:
        raise ValueError(f"{where}: a verdict is one of {', '.join(VERDICTS)}, got '{claim['verdict']}'")
    if claim["said_by"] not in SPEAKERS:
        raise ValueError(f"{where}: said_by is one of {', '.join(SPEAKERS)}, got '{claim['said_by']}'")
    for name in ("claim", "note", "source"):
        if not claim[name].strip():
            raise ValueError(f"{where}: '{name}' is empty")
    if "date" in claim and not re.fullmatch(r"\d{4}-\d\d-\d\d", claim["date"]):
        raise ValueError(f"{where}: a date looks like 2026-11-30, got '{claim['date']}'")


def _validate_origin(where: str, claim: Row) -> None:
    if "compute" in claim and "measured_by" in claim:
        raise ValueError(f"{where} has both 'compute' and 'measured_by': keep the one that shows it")
    if "compute" in claim:
        if isinstance(claim["ours"], str):
            raise ValueError(f"{where} is computed, so 'ours' must be a number, got '{claim['ours']}'")
        _validate_compute(where, claim["compute"])
    elif "measured_by" in claim:
        if not re.fullmatch(r"kvlab(\.\w+)+", claim["measured_by"]):
            raise ValueError(f"{where}: measured_by names something in kvlab, got '{claim['measured_by']}'")
    elif "date" not in claim:
        raise ValueError(f"{where} is neither computed nor measured, so it needs the 'date' its source was read")


def _validate_compute(where: str, compute: Row) -> None:
    unknown = sorted(set(compute) - _COMPUTE_KEYS)
    if unknown:
        raise ValueError(
            f"{where}: 'compute' has unknown keys {', '.join(unknown)}; known: {', '.join(sorted(_COMPUTE_KEYS))}"
        )
    if not isinstance(compute.get("fn"), str) or not re.fullmatch(r"kvlab(\.\w+)+\.\w+", compute["fn"]):
        raise ValueError(f"{where}: compute needs 'fn', the dotted name of a kvlab function, got {compute.get('fn')!r}")
    if not isinstance(compute.get("args"), Mapping):
        raise ValueError(f"{where}: compute needs 'args', an object of keyword arguments")
    nested = [value for value in compute["args"].values() if isinstance(value, Mapping) and "fn" in value]
    for inner in [*nested, *([compute["over"]] if "over" in compute else [])]:
        _validate_compute(where, inner)


def _call(compute: Row) -> Any:
    """Run `fn(**args)`, take `attr` of the result, multiply by `scale`, divide by the call `over`.

    All but `fn` and `args` may be missing. An argument may itself be a call.
    """
    module, _, name = compute["fn"].rpartition(".")
    arguments = {
        key: _call(value) if isinstance(value, Mapping) and "fn" in value else value
        for key, value in compute["args"].items()
    }
    result = getattr(importlib.import_module(module), name)(**arguments)
    if "attr" in compute:
        attr = compute["attr"]
        result = result[attr] if isinstance(result, Mapping) else getattr(result, attr)
    result = result * compute["scale"] if "scale" in compute else result
    return result / _call(compute["over"]) if "over" in compute else result


def _cells(claim: Row) -> tuple[str, ...]:
    said = f"{claim['claim']} ({SPEAKERS[claim['said_by']]})"
    dated = f"{claim['source']}, read {claim['date']}" if "date" in claim else claim["source"]
    ours = _value(claim["ours"], claim["unit"])
    if "measured_by" in claim:
        ours += " (measured: run the cell, your numbers may differ)"
    elif "compute" not in claim:
        ours += " (from the source)"
    return (said, _value(claim["guide"], claim["unit"]), ours, claim["verdict"], claim["note"], dated)


def _value(value: str | int | float, unit: str) -> str:
    """A number as people read it: what it is a number of comes after it, the name of a quantity before it."""
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return f"{value:,.0f} bytes, {format_bytes(value)}" if value >= 1000 else f"{value} bytes"
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    if _QUANTITY.match(unit):
        power = f" (n^{number})" if unit.startswith("growth exponent") else ""
        return f"{unit}: {number}{power}"
    return f"{number} {_TIMES.sub('times', unit)}".strip()


@cache
def _register() -> tuple[Row, ...]:
    path = data_dir() / "claims.json"
    table = read_json(path, dict).get("claims")
    if not isinstance(table, list):
        raise ValueError(f"{path} is damaged (it has no list of claims): restore it from the repository")
    validate(table)
    return tuple(table)
