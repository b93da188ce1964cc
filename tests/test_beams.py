"""Beam search with a paged cache: the same beams as without one, for less work."""

import pytest
import torch

import kvlab
from kvlab import beams, faults, generate, sampling
from kvlab.engine import BlockManager
from kvlab.model import Llama

PROMPTS = ("Grandma asked Nick to go to the", "Once there was a shy girl named Vera. Vera had a", "The")


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu", torch.float64)


@torch.no_grad()
def uncached(model: Llama, ids: list[int], n_beams: int, max_new: int, eos: int) -> list[tuple[list[int], float]]:
    """The readable function, with a pass over the whole text for each question."""
    ask = lambda tokens: model(torch.tensor(tokens))[-1].log_softmax(-1)  # noqa: E731
    return sampling.beam_search(ask, ids, n_beams, max_new, eos)


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("n_beams", [1, 2, 5])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_cached_beams_are_the_uncached_ones(primer: Llama, prompt: str, n_beams: int, block_size: int) -> None:
    found = beams.beam_search(primer, prompt, n_beams, 10, block_size=block_size)
    expected = uncached(primer, found.prompt_ids, n_beams, 10, primer.tokenizer.eos_id)
    assert [tokens for tokens, _ in found.beams] == [tokens for tokens, _ in expected]
    assert [score for _, score in found.beams] == pytest.approx([score for _, score in expected], abs=1e-9)


def test_beams_that_end_keep_their_place_and_cost_nothing_more(primer: Llama) -> None:
    """With the full stop as the end, beams end at different steps."""
    (stop,) = primer.tokenizer.encode(".", bos=False)
    found = beams.beam_search(primer, "The doctor sang", 4, 14, eos=stop)
    assert found.beams == [
        (tokens, pytest.approx(score, abs=1e-9)) for tokens, score in uncached(primer, found.prompt_ids, 4, 14, stop)
    ]
    ended = [sum(kept.ended for kept in step) for step in found.steps]
    assert any(0 < n < 4 for n in ended), "some have ended while others go on"
    live = [sum(not kept.ended for kept in step) for step in found.steps[: found.passes - 1]]
    assert found.positions_processed == len(found.prompt_ids) + sum(live)


def test_one_beam_is_greedy(primer: Llama) -> None:
    found = beams.beam_search(primer, PROMPTS[1], 1, 12)
    assert found.new_tokens() == generate.generate_naive(primer, PROMPTS[1], 12).tokens


def test_work_and_blocks_are_counted(primer: Llama) -> None:
    found = beams.beam_search(primer, PROMPTS[1], 4, 8, eos=-1, block_size=4)
    n = len(found.prompt_ids)
    assert found.passes == 8 and found.positions_processed == n + 4 * 7
    assert n // 4 + 4 <= found.most_blocks < found.most_blocks_unshared == 4 * -(-(n + 7) // 4)


def test_the_steps_lead_back_from_each_beam_to_the_prompt(primer: Llama) -> None:
    found = beams.beam_search(primer, PROMPTS[0], 3, 6, eos=-1)
    for rank, (tokens, score) in enumerate(found.beams):
        place: int | None = rank
        back = []
        for step in reversed(found.steps):
            assert place is not None
            back.append(step[place].token)
            place = step[place].parent
        assert [*found.prompt_ids, *reversed(back)] == tokens and found.steps[-1][rank].score == score
        assert place is None


def test_no_block_is_lost(primer: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[BlockManager] = []

    class Watched(BlockManager):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            made.append(self)

        def reserve(self, seq: object, n_tokens: int) -> list[tuple[int, int]]:
            self.check()
            return super().reserve(seq, n_tokens)

    monkeypatch.setattr(beams, "BlockManager", Watched)
    found = beams.beam_search(primer, PROMPTS[0], 4, 9, eos=-1, block_size=2)
    made[0].check()
    assert made[0].n_used <= found.most_blocks


def test_a_shared_block_that_is_written_without_a_copy_changes_the_beams(primer: Llama) -> None:
    right = beams.beam_search(primer, PROMPTS[0], 4, 10)
    with faults.plant("block_not_copied"):
        wrong = beams.beam_search(primer, PROMPTS[0], 4, 10)
    assert wrong.beams != right.beams


def test_nothing_to_add_gives_the_prompt(primer: Llama) -> None:
    found = beams.beam_search(primer, PROMPTS[0], 4, 0)
    assert found.beams == [(found.prompt_ids, 0.0)] and found.steps == [] and found.passes == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_beams": 0}, "n_beams"),
        ({"max_new": -1}, "max_new"),
        ({"block_size": 0}, "block_size"),
        ({"eos": 2.5}, "eos"),
        ({"eos": "a"}, "eos"),
        ({"eos": -5}, "eos"),
        ({"prompt": []}, "the prompt is empty"),
        ({"prompt": [1] * 9000}, "window"),
    ],
)
def test_bad_input_raises_a_sentence(primer: Llama, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        beams.beam_search(**{"model": primer, "prompt": PROMPTS[0], **change})
