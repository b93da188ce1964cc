"""Beam search on a real model with a paged cache: beams share what they have in common, and nothing is computed twice.

The rule is that of `kvlab.sampling.beam_search`. What differs is the work: that function is asked for the next log
probabilities of a whole list of tokens, and without a cache this means a pass over all of them. Here the prompt is
computed once; a beam that goes on in two ways is forked, which copies no key and no value; a beam that is dropped gives
its blocks back; and one pass takes the newest token of all beams together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from kvlab.engine.blocks import BlockManager
from kvlab.engine.pool import PagedPool
from kvlab.engine.runner import Row, run
from kvlab.generate import prompt_ids
from kvlab.model import Llama
from kvlab.sampling.beam import Beam, best, extend
from kvlab.validate import whole

BLOCK_SIZE = 16


class Kept(NamedTuple):
    """A beam as it stood after one step: its newest token, its score so far, which beam of the step before it goes on
    from (None after the first step), and whether it has ended."""

    token: int
    score: float
    parent: int | None
    ended: bool


@dataclass
class BeamSearch:
    """What a search found, best first, and what it cost. `steps` holds the kept beams after each step, for a tree."""

    prompt_ids: list[int]
    beams: list[tuple[list[int], float]] = field(default_factory=list)
    steps: list[list[Kept]] = field(default_factory=list)
    positions_processed: int = 0
    passes: int = 0
    most_blocks: int = 0  # in use at once, shared ones counted once
    most_blocks_unshared: int = 0  # the same beams, each with blocks of its own

    def new_tokens(self, rank: int = 0) -> list[int]:
        """The tokens that the beam of this rank has added to the prompt."""
        return self.beams[rank][0][len(self.prompt_ids) :]


def beam_search(
    model: Llama,
    prompt: str | Sequence[int],
    n_beams: int = 4,
    max_new: int = 32,
    eos: int | None = None,
    block_size: int = BLOCK_SIZE,
) -> BeamSearch:
    """Search for continuations with a high total log probability: arguments and rule as in `kvlab.sampling.beam_search`.

    prompt: a text or a list of ids. eos: the id that ends a beam; None takes the tokenizer's, -1 lets none end.
    Raises ValueError for an empty or too long prompt, n_beams < 1, max_new < 0, a block size below 1, and an
    eos that is no id.
    """
    n_beams, max_new = whole("n_beams", n_beams, least=1), whole("max_new", max_new)
    ids = prompt_ids(model, prompt, max_new)
    if eos is not None and eos != -1:
        eos = whole("eos", eos)
    if eos is None and model.tokenizer is not None:
        eos = model.tokenizer.eos_id
    found = BeamSearch(ids, [(ids, 0.0)])
    if max_new:
        _Search(model, found, n_beams, max_new, eos, block_size).run()
    return found


class _Search:
    """The beams of one search and their cache. A beam's sequence in the block manager is named by a number."""

    def __init__(
        self, model: Llama, found: BeamSearch, n_beams: int, max_new: int, eos: int | None, block_size: int
    ) -> None:
        size = whole("block_size", block_size, least=1)
        n_blocks = -(-len(found.prompt_ids) // size) + n_beams * (-(-max_new // size) + 1)
        self.model, self.found = model, found
        self.n_beams, self.max_new, self.eos = n_beams, max_new, eos
        self.manager = BlockManager(n_blocks, size, prefix_caching=False)
        self.pool = PagedPool(model.layout(), n_blocks, size)
        self.names = 0
        self.held: list[int] = []  # sequences with blocks

    def run(self) -> None:
        found = self.found
        root = self._new_name()
        self.manager.start(root, found.prompt_ids)
        log_probs = self._push([(root, found.prompt_ids, 0)])
        beams, sequences = [Beam(list(found.prompt_ids), 0.0, False)], [root]
        for step in range(self.max_new):
            candidates: list[tuple[Beam, int]] = []  # with the beam that it goes on from
            rows = iter(log_probs)
            for parent, beam in enumerate(beams):
                options = [beam] if beam.ended else extend(beam, next(rows), self.n_beams, self.eos)
                candidates += [(option, parent) for option in options]
            if not candidates:
                raise ValueError("the model gives every token probability 0, so no beam can go on")
            beams = best([beam for beam, _ in candidates], self.n_beams)
            parent_of = {id(beam): parent for beam, parent in candidates}
            parents = [parent_of[id(beam)] for beam in beams]
            found.steps.append(
                [
                    Kept(beam.tokens[-1], beam.score, parent if step else None, beam.ended)
                    for beam, parent in zip(beams, parents, strict=True)
                ]
            )
            if step == self.max_new - 1 or all(beam.ended for beam in beams):
                break  # the last tokens are never fed back
            sequences = self._fork([sequences[parent] for parent in parents], [beam.ended for beam in beams])
            live = [(name, beam) for name, beam in zip(sequences, beams, strict=True) if not beam.ended]
            log_probs = self._push([(name, beam.tokens[-1:], len(beam.tokens) - 1) for name, beam in live])
        found.beams = [(beam.tokens, beam.score) for beam in beams]

    def _fork(self, parents: list[int], ended: list[bool]) -> list[int]:
        """A sequence for each kept beam; those that nobody goes on from give their blocks back. Ended ones need none."""
        children = [self._new_name() for _ in parents]
        for parent, child, done in zip(parents, children, ended, strict=True):
            if not done:
                self.manager.fork(parent, child)
        for parent in self.held:
            self.manager.free(parent)
        return children

    def _push(self, new: list[tuple[int, list[int], int]]) -> torch.Tensor:
        """One pass over the new tokens of all beams: [(sequence, tokens, first position)] -> log probabilities (n, V)."""
        for name, tokens, _ in new:
            self.pool.copy_blocks(self.manager.reserve(name, len(tokens)))
        self.held = [name for name, _, _ in new]
        tables = {name: self.manager.block_table(name) for name in self.held}
        found = self.found
        found.passes += 1
        found.positions_processed += sum(len(tokens) for _, tokens, _ in new)
        found.most_blocks = max(found.most_blocks, self.manager.n_used)
        found.most_blocks_unshared = max(found.most_blocks_unshared, sum(map(len, tables.values())))
        rows = [Row(tokens, start, tables[name]) for name, tokens, start in new]
        return run(self.model, self.pool, rows).log_softmax(-1)

    def _new_name(self) -> int:
        self.names += 1
        return self.names
