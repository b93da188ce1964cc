"""Web pages that need nothing but themselves: no scripts, no fonts, no pictures from elsewhere, dark where asked for."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

# Text and lines stand out from what is behind them by at least 4.5 : 1 and 3 : 1 (WCAG 2.1, 1.4.3 and 1.4.11).
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #555; --paper: #fff; --line: #767676; --band: #f2f2f2;
  --good: #0b6b32; --bad: #a8200d; --bar: #0b62a8; --link: #0b4f8a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --soft: #b5b5b5; --paper: #16181b; --line: #8c8c8c;
  --band: #24272b; --good: #6fd496; --bad: #ff9d8c; --bar: #6db3ee; --link: #8cc4f5; } }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; }
a { color: var(--link); }
code { font-family: ui-monospace, monospace; font-size: .95em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; min-width: min(24rem, 100%); }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.soft { color: var(--soft); }
.notice { border-left: .3rem solid var(--bad); background: var(--band); padding: .5rem .8rem; margin: .8rem 0; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; border-left: .3rem solid var(--line); padding-left: .8rem; }
details { margin: .5rem 0; } summary { cursor: pointer; }
.beside { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .bar { fill: var(--bar); } svg .axis { stroke: var(--line); }
@media print { details > * { display: block; } }
"""


def page(title: str, body: str) -> bytes:
    """A whole page. `title` is plain text, `body` HTML."""
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n"
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n'.encode()


def body(html: bytes) -> str:
    """The `body` of a page that `page` made."""
    return html.decode().partition("<main>\n")[2].rpartition("\n</main>")[0]


def text(words: str) -> str:
    """Plain text for a page: escaped, without control characters, half characters and signs that turn text around."""
    words = words.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return html.escape("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in words))


def code(name: str) -> str:
    """A name in code's type."""
    return f"<code>{text(name)}</code>"


def number(value: float) -> str:
    """A number as people write it, three decimals at most, as points come in eighths: 3, 2.5, 14.625, 0.333."""
    shown = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if shown in ("", "-0") else shown


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table whose first column names its rows. Cells are HTML; `numbers` are the columns to align to the right."""
    kind = ['class="number"' if i in numbers else "" for i in range(len(header))]
    head = "".join(_cell("th", f'scope="col" {kind[i]}', name) for i, name in enumerate(header))
    body = "".join(
        "<tr>"
        + "".join(
            _cell("th" if i == 0 else "td", ('scope="row" ' if i == 0 else "") + kind[i], cell)
            for i, cell in enumerate(row)
        )
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="wide" role="region" aria-label="{text(caption)}" tabindex="0">'
        f"<table><caption>{text(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )


def _cell(tag: str, attributes: str, content: str) -> str:
    attributes = attributes.strip()
    return f"<{tag}{' ' if attributes else ''}{attributes}>{content}</{tag}>"


def bars(title: str, labels: Sequence[str], counts: Sequence[int], x_label: str, y_label: str) -> str:
    """Counts as upright bars, an inline SVG of at most 34 rem. The same numbers belong into a table beside it."""
    if not labels or len(labels) != len(counts):
        raise ValueError("bars need one count for each label, and at least one")
    left, top, wide, high = 46, 10, 400, 150
    ticks = _ticks(max(counts))
    step, most = wide / len(labels), ticks[-1]
    every = math.ceil(len(labels) / 12)
    parts = [
        f'<svg viewBox="0 0 {left + wide + 10} {top + high + 46}" width="{left + wide + 10}" role="img" aria-label="{text(title)}">'
    ]
    for tick in ticks:
        y = top + high * (1 - tick / most)
        parts.append(
            f'<line class="axis" x1="{left - 4}" x2="{left}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{left - 7}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>'
        )
    for i, (label, count) in enumerate(zip(labels, counts, strict=True)):
        x, bar = left + i * step, high * count / most
        parts.append(
            f'<rect class="bar" x="{x + step * 0.12:.1f}" y="{top + high - bar:.1f}" width="{step * 0.76:.1f}" height="{bar:.1f}"/>'
        )
        if i % every == 0:
            parts.append(
                f'<text x="{x + step / 2:.1f}" y="{top + high + 16}" text-anchor="middle">{text(label)}</text>'
            )
    parts.append(
        f'<path class="axis" fill="none" d="M{left} {top}V{top + high}H{left + wide}"/>'
        f'<text x="{left + wide / 2}" y="{top + high + 38}" text-anchor="middle">{text(x_label)}</text>'
        f'<text transform="translate(12 {top + high / 2}) rotate(-90)" text-anchor="middle">{text(y_label)}</text></svg>'
    )
    return "".join(parts)


def _ticks(most: int) -> list[int]:
    """Whole numbers from 0 to at least `most`, at most six of them, in steps of 1, 2 or 5 times a power of ten."""
    size = next(
        step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if step * 5 >= max(most, 1)
    )
    return list(range(0, size * math.ceil(max(most, 1) / size) + 1, size))
