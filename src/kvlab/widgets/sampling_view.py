"""What the sampling lab shows: the next token's distribution before and after the stages, as data and as SVG.

SVG is a few kilobytes of text that is made in a millisecond; a figure drawn anew by matplotlib takes a hundred times as
long, which a slider would show.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import torch

from kvlab.plots import MUTED, PALETTE
from kvlab.sampling import SamplingSettings, draw, entropy, next_token_probs, stages
from kvlab.show import Table
from kvlab.validate import whole
from kvlab.widgets.words import counted

N_SHOWN = 12
WIDTH, ROW, LEFT, BAR = 720, 30, 130, 430  # pixels: the whole picture, one token, where bars begin, the longest bar


def lab_view(
    logits: torch.Tensor,
    settings: SamplingSettings,
    context_ids: Sequence[int] = (),
    labels: Sequence[str] | None = None,
    n_draws: int = 0,
    n_shown: int = N_SHOWN,
) -> dict[str, Any]:
    """The distribution (vocab,) before and after the stages, token by token and stage by stage.

    labels: one text for each token of the vocabulary, None numbers them. n_draws: how many tokens to draw with the
    settings' seed (0 when it is None).
    Returns tokens (the n_shown likeliest ids, before or after), labels, before, after (probabilities), cut_by (the
    stage that removed the token, "" if it is left), drawn (counts) of these tokens; of the whole vocabulary
    entropy_before, entropy_after, left, n_draws and stages: [{name, left, cut, mass, entropy}], where mass is the
    probability, just before the stage, of what it cut.
    """
    steps = stages(logits, settings, context_ids, len(context_ids))
    before, after = logits.softmax(-1), next_token_probs(logits, settings, context_ids, len(context_ids))
    n_draws, shown = whole("n_draws", n_draws), whole("n_shown", n_shown, least=1)
    ranked = torch.maximum(before, after).topk(min(shown, len(logits))).indices
    tokens = sorted(ranked.tolist(), key=lambda token: -float(before[token]))
    cut_by = dict.fromkeys(tokens, "")
    rows = []
    for (_, earlier), (name, later) in zip([steps[0], *steps], steps, strict=False):
        gone = (later == -torch.inf) & (earlier > -torch.inf)
        cut_by |= {token: name for token in tokens if bool(gone[token])}
        rows.append(
            {
                "name": name,
                "left": int((later > -torch.inf).sum()),
                "cut": int(gone.sum()),
                "mass": float(earlier.softmax(-1)[gone].sum()),
                "entropy": entropy(later.softmax(-1)),
            }
        )
    drawn = [0] * len(logits)
    if n_draws:
        generator = torch.Generator().manual_seed(settings.seed or 0)
        drawn = torch.bincount(draw(after, n_draws, generator), minlength=len(logits)).tolist()
    return {
        "tokens": tokens,
        "labels": [str(token) if labels is None else labels[token] for token in tokens],
        "before": before[tokens].tolist(),
        "after": after[tokens].tolist(),
        "cut_by": [cut_by[token] for token in tokens],
        "drawn": [drawn[token] for token in tokens],
        "n_draws": n_draws,
        "entropy_before": rows[0]["entropy"],
        "entropy_after": entropy(after),
        "left": int((after > 0).sum()),
        "stages": rows,
    }


def bars_svg(view: dict[str, Any], hidden: bool = False) -> str:
    """Two bars for each token, before and after, with a mark where the draws are. `hidden` leaves out what is after.

    All bars share one scale from 0 to 1 of the longest, and numbers stand beside them, so nothing is told by colour alone.
    """
    longest = max([*view["before"], *([] if hidden else view["after"])]) or 1.0
    height = ROW * len(view["tokens"]) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" style="max-width:100%">',
        f"<title>{html.escape(alt_text(view, hidden))}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LEFT, 14, "before: grey, above" + ("" if hidden else " · after: blue, below") + _draw_note(view, hidden)),
    ]
    for place in range(len(view["tokens"])):
        top = 24 + ROW * place
        before, after = view["before"][place], view["after"][place]
        parts.append(_text(LEFT - 8, top + 16, view["labels"][place], anchor="end"))
        parts.append(_bar(top + 2, before / longest, MUTED))
        parts.append(_text(LEFT + BAR * before / longest + 6, top + 12, f"{before:.3f}", size=10))
        if hidden:
            continue
        parts.append(_bar(top + 14, after / longest, PALETTE[0]))
        stage, end = view["cut_by"][place], after / longest
        note = f"cut by {stage}" if stage else f"{after:.3f}"
        if view["n_draws"] and not stage:
            share = view["drawn"][place] / view["n_draws"]
            note, mark = f"{note} · drawn {share:.3f}", min(share / longest, 1.0)
            end = max(end, mark)
            x = LEFT + BAR * mark
            parts.append(f'<rect x="{x - 1:.1f}" y="{top + 14}" width="3" height="12" fill="{PALETTE[1]}"/>')
        parts.append(_text(LEFT + BAR * end + 6, top + 24, note, size=10))
    return "".join([*parts, "</svg>"])


def stage_table(view: dict[str, Any]) -> Table:
    """One row for each stage that is switched on: tokens left and cut, the probability that was cut, entropy."""
    rows = tuple(
        (row["name"], f"{row['left']:,}", f"{row['cut']:,}", f"{row['mass']:.3f}", f"{row['entropy']:.3f}")
        for row in view["stages"]
    )
    return Table("What each stage did", ("stage", "tokens left", "cut", "probability cut", "entropy (nats)"), rows)


def token_table(view: dict[str, Any]) -> Table:
    """The bars as text."""
    rows = tuple(
        (label, f"{before:.3f}", f"cut by {stage}" if stage else f"{after:.3f}", str(drawn) if view["n_draws"] else "-")
        for label, before, after, stage, drawn in zip(
            view["labels"], view["before"], view["after"], view["cut_by"], view["drawn"], strict=True
        )
    )
    return Table("The likeliest tokens", ("token", "before", "after", "drawn"), rows)


def alt_text(view: dict[str, Any], hidden: bool = False) -> str:
    """The picture in words."""
    likeliest = f"{view['labels'][0]} {view['before'][0]:.3f}"
    if hidden:
        return f"Probabilities of the {len(view['tokens'])} likeliest tokens before the stages; first {likeliest}."
    return (
        f"Probabilities of {len(view['tokens'])} tokens before and after the stages; before, first {likeliest}; "
        f"after, {counted(view['left'], 'token')} left."
    )


def _draw_note(view: dict[str, Any], hidden: bool) -> str:
    return f" · {view['n_draws']:,} draws: the orange marks" if view["n_draws"] and not hidden else ""


def _bar(top: float, share: float, colour: str) -> str:
    return f'<rect x="{LEFT}" y="{top}" width="{BAR * share:.1f}" height="10" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    safe = html.escape(text)
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="#000000">{safe}</text>'
