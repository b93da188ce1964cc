"""Held-out cases of verify_draft. The oracle is written apart from the unit's solution and from kvlab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from cases.draft_draws import WIDTH, at_the_edge, draft, row, step, sure
from kvgrade.cases import Case, Exercise, Group, Mistake, call, unchanged

Row = np.ndarray


def _accepts(u: float, p: float, q: float) -> bool:
    return u * q < p  # q > 0


def _left_over(p: Row, q: Row) -> Row:
    left = np.where(p > q, p - q, 0.0)
    return left / left.sum()


def _first(flags: Sequence[bool]) -> int:
    return next((i for i, flag in enumerate(flags) if not flag), len(flags))


def _verify(
    accepts: Callable[[float, float, float], bool] = _accepts,
    count: Callable[[Sequence[bool]], int] = _first,
    source: Callable[[Sequence[bool]], int] = _first,
    after: Callable[[Row, Row], Row] = _left_over,
    target_row: Callable[[int], int] = lambda i: i,
    bonus: Callable[[Row, Row], Row] = lambda q, p: p[-1],
    unchecked: str = "",
    error: type[Exception] | None = None,
    least: int = 0,
    changes: bool = False,
) -> dict[str, Any]:
    """The rule with the ways to get it wrong as arguments.

    count, source: from what was accepted, token by token, to n_accepted and to the row that next_probs comes from.
    target_row: which row of p meets a row of q. bonus: next_probs when nothing was rejected.
    unchecked: words for what is let through, as far as it goes; error: what is raised for it instead.
    """

    def verify_draft(draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Any) -> Any:
        tokens, us = np.asarray(draft_tokens).tolist(), np.asarray(uniforms).tolist()
        q, p = draft_probs.double().numpy(), target_probs.double().numpy()
        k = len(tokens)
        bad = {
            "draft": len(q) != k,
            "target": len(p) != k + 1,
            "uniforms": len(us) != k,
            "width": q.shape[1] != p.shape[1],
            "ids": any(not 0 <= t < q.shape[1] for t in tokens),
        }
        if k < least or any(bad[what] for what in bad if what not in unchecked):
            raise ValueError
        if any(bad.values()) and error:
            raise error
        flags = [True] * k  # a token without a number is not rejected
        for i, (token, u) in enumerate(zip(tokens, us, strict=False)):
            flags[i] = accepts(u, p[i, token % q.shape[1]], q[i, token % q.shape[1]])
        i = source(flags)
        found = after(p[target_row(i)], q[i]) if i < len(flags) else bonus(q, p)
        if changes and i < len(flags):
            target_probs[i] -= draft_probs[i]
        return count(flags), found

    return {"verify_draft": verify_draft}


def _accepted(rng: Generator, kind: str) -> list[Case]:
    return [draft(rng, *[kind] * k, tensors=k == 3) for k in (1, 3, 5)]


def _at_once(rng: Generator) -> list[Case]:
    return [Case(*draft(rng, "rejected").steps, unchanged(0)) for _ in range(3)]


def _later(rng: Generator) -> list[Case]:
    return [
        draft(rng, "liked", "rejected", "liked"),
        draft(rng, "rejected", "liked", "liked", "liked", tensors=True),
        draft(rng, "liked", "chance", "rejected", "liked", "rejected", "liked"),
        draft(rng, "chance", "liked", "rejected"),
    ]


def _edges(rng: Generator) -> list[Case]:
    """A number that equals p / q, and a token of the draft that the target never says, with the number 0."""
    return [at_the_edge(rng, *three) for three in ((0.5, 0.25, 0.5), (0.25, 0.0, 0.0), (0.5, 0.375, 0.75))]


def _none(rng: Generator) -> list[Case]:
    return [Case(step([], row(rng), tensors)) for tensors in (False, True)]


def _sure(rng: Generator) -> list[Case]:
    return [sure(rng, before) for before in (0, 2)]


def _refused(rng: Generator) -> list[Case]:
    """Two tokens that would both be accepted, with something that does not fit."""
    good = draft(rng, "liked").steps
    args = draft(rng, "liked", "liked").steps[0]["args"]
    tokens, q, p, us = args
    bad = [
        (tokens, q, p[:2], us),
        (tokens, q, torch.cat([p, p[:1]]), us),
        (tokens, torch.cat([q, q[:1]]), p, us),
        (tokens, q, p, us[:1]),
        (tokens, q, p, [*us, 0.5]),
        (tokens, torch.nn.functional.pad(q, (0, 1)), p, us),
        ([tokens[0], WIDTH], q, p, us),
        ([tokens[0] - WIDTH, tokens[1]], q, p, us),
    ]
    return [Case(call("verify_draft", *one), *good) for one in bad]


EXERCISE = Exercise(
    "verify_draft",
    _verify(),
    groups=[
        Group(
            "all liked",
            0.5,
            "p above q accepts the token; with no rejection next_probs is the last row of p",
            lambda rng: _accepted(rng, "liked"),
        ),
        Group(
            "accepted by chance",
            0.5,
            "a token with p below q is accepted when its number is below p / q",
            lambda rng: _accepted(rng, "chance"),
        ),
        Group("rejected at once", 0.5, "after a rejection next_probs is max(0, p - q), scaled to sum to 1", _at_once),
        Group("rejected later", 0.5, "the first rejection ends the draft, and its row gives next_probs", _later),
        Group("edges", 0.25, "a number equal to p / q rejects, and so does p = 0 whatever the number", _edges),
        Group("no draft", 0.25, "K = 0: nothing is accepted, and next_probs is the one row of p", _none),
        Group("sure drafts", 0.25, "q = 1 for the drafted token: it is accepted when its number is below p", _sure),
        Group("refused", 0.25, "wrong numbers of rows or uniforms, other widths and unknown ids raise", _refused),
    ],
    mistakes=[
        Mistake(
            "samples from p",
            "after a rejection p itself would give the rejected tokens too often: use max(0, p - q), scaled",
            _verify(after=lambda p, q: p),
        ),
        Mistake(
            "not scaled",
            "max(0, p - q) does not sum to 1: divide it by its sum",
            _verify(after=lambda p, q: np.maximum(p - q, 0)),
        ),
        Mistake(
            "absolute difference",
            "where q is above p nothing is left over: 0, not q - p",
            _verify(after=lambda p, q: abs(p - q) / abs(p - q).sum()),
        ),
        Mistake(
            "q minus p",
            "what is left over is where p is above q: max(0, p - q)",
            _verify(after=lambda p, q: _left_over(q, p)),
        ),
        Mistake(
            "rejected token struck out",
            "not only the rejected token loses: every token has max(0, p - q) left over",
            _verify(after=lambda p, q: np.where(p - q == (p - q).min(), 0, p) / (p.sum() - p[(p - q).argmin()])),
        ),
        Mistake("ratio swapped", "a token is accepted with p / q, not q / p", _verify(lambda u, p, q: u * p < q)),
        Mistake("not divided by q", "the number is compared with p / q, not with p", _verify(lambda u, p, q: u < p)),
        Mistake(
            "no chance",
            "a token with p below q is accepted by chance: compare its number with p / q",
            _verify(lambda u, p, q: p >= q),
        ),
        Mistake(
            "above instead of below",
            "a number BELOW p / q accepts",
            _verify(lambda u, p, q: p >= q or u * q > p),
        ),
        Mistake(
            "equal accepted",
            "a number that equals p / q rejects: below, not at most",
            _verify(lambda u, p, q: u * q <= p),
        ),
        Mistake(
            "goes on",
            "the first rejection ends the draft: later tokens followed a token that is gone",
            [
                _verify(count=sum),
                _verify(count=sum, source=sum),
                _verify(count=lambda flags: max((i + 1 for i, flag in enumerate(flags) if flag), default=0)),
            ],
        ),
        Mistake(
            "rejected token counted",
            "n_accepted counts the tokens before the first rejection, without it",
            _verify(count=lambda flags: min(_first(flags) + 1, len(flags))),
        ),
        Mistake(
            "the next row of p",
            "p and q of the rejected token stand in the same row",
            _verify(target_row=lambda i: i + 1),
        ),
        Mistake(
            "first row for all",
            "next_probs comes from the row of the rejected token, not from row 0",
            _verify(source=lambda flags: 0 if _first(flags) < len(flags) else len(flags)),
        ),
        Mistake(
            "always the last row",
            "after a rejection the last row is out of place: it follows tokens that were not accepted",
            _verify(source=len),
        ),
        Mistake(
            "bonus from the draft",
            "with no rejection the next token comes from the target's last row, not from the draft's",
            _verify(bonus=lambda q, p: q[-1] if len(q) else p[-1]),
        ),
        Mistake(
            "bonus one row early",
            "with no rejection the next token comes from row K of p, the one after the last drafted token",
            _verify(bonus=lambda q, p: p[-2] if len(q) else p[-1]),
        ),
        Mistake(
            "bonus less the draft",
            "nothing is taken away from the last row: no token was drafted there",
            _verify(bonus=lambda q, p: _left_over(p[-1], q[-1]) if len(q) else p[-1]),
        ),
        Mistake("no draft refused", "K = 0 is allowed", _verify(least=1)),
        Mistake("inputs changed", "target_probs was changed in place", _verify(changes=True)),
        Mistake(
            "row counts unchecked",
            "draft_probs has K rows and target_probs K + 1: other numbers raise ValueError",
            [_verify(unchecked=words) for words in ("target draft", "target", "draft")],
        ),
        Mistake("uniforms unchecked", "K tokens need K uniforms: else ValueError", _verify(unchecked="uniforms")),
        Mistake(
            "ids unchecked",
            "a token id lies between 0 and V - 1, else ValueError: indexing counts negative ids from the end",
            [_verify(unchecked="ids"), _verify(unchecked="ids", error=IndexError)],
        ),
    ],
)
