"""Rows of a benchmark's table: times of one system, and how they compare with another's, run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from decode import Spread, table


@dataclass(frozen=True)
class Row:
    """One way of doing one piece of work. `ratio`: how many times as fast as `beside`, run by run."""

    work: str
    system: str
    seconds: Spread
    beside: str | None
    ratio: Spread | None
    limit_share: float | None = None


def rows_of(
    work: str,
    seconds: Mapping[str, Sequence[float]],
    beside: Mapping[str, str],
    limits: Mapping[str, float] | None = None,
) -> list[Row]:
    """Rows for each system; `beside` names the system to compare with, `limits` the least seconds possible."""
    rows = []
    for system, own in seconds.items():
        other = beside.get(system)
        ratio = None if other is None else Spread.of([b / a for a, b in zip(own, seconds[other], strict=True)])
        limit = (limits or {}).get(system)
        spread = Spread.of(own)
        rows.append(Row(work, system, spread, other, ratio, None if limit is None else limit / spread.median))
    return rows


def report(rows: Sequence[Row]) -> str:
    body = [
        (
            row.work,
            row.system,
            " to ".join(f"{1e3 * s:.3g}" for s in (row.seconds.low, row.seconds.high)),
            f"{1e3 * row.seconds.median:.3g}",
            "-" if row.ratio is None else f"× {row.ratio.text(2)} {row.beside}",
            "-" if row.limit_share is None else f"{row.limit_share:.0%}",
        )
        for row in rows
    ]
    return table(("work", "system", "ms, range", "ms, median", "as fast as", "of the limit"), body)
