"""Beam search against every sequence there is, on vocabularies small enough to list them all."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from kvlab.sampling import beam_search

NextLogProbs = Callable[[list[int]], torch.Tensor]


def table_model(seed: int, vocab: int, sharpness: float = 1.5) -> NextLogProbs:
    """Log probabilities that depend on the whole context, the same each time it is asked."""

    def next_log_probs(tokens: list[int]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((seed, tuple(tokens))) % 2**31)
        return (torch.randn(vocab, generator=generator, dtype=torch.float64) * sharpness).log_softmax(-1)

    return next_log_probs


def score_of(model: NextLogProbs, start: list[int], new: tuple[int, ...]) -> float:
    return math.fsum(float(model([*start, *new[:i]])[token]) for i, token in enumerate(new))


def all_sequences(model: NextLogProbs, start: list[int], vocab: int, max_new: int, eos: int) -> list:
    """Every finished continuation: eos only at its end, or max_new tokens without one; best first."""
    found = []
    for length in range(1, max_new + 1):
        for new in itertools.product(range(vocab), repeat=length):
            if eos in new[:-1] or (length < max_new and new[-1] != eos):
                continue
            found.append(([*start, *new], score_of(model, start, new)))
    return sorted(found, key=lambda item: -item[1])


def slow_beam_search(
    model: NextLogProbs, start: list[int], n_beams: int, max_new: int, eos: int, vocab: int
) -> list[tuple[list[int], float]]:
    """The rule of the contract, said with full lists: extend by every token, sort everything, cut."""
    kept: list[tuple[int, ...]] = [()]
    for _ in range(max_new):
        pool = []
        for new in kept:
            pool += [new] if eos in new else [(*new, token) for token in range(vocab)]
        kept = sorted(pool, key=lambda new: -score_of(model, start, new))[:n_beams]
    return [([*start, *new], score_of(model, start, new)) for new in kept]


def assert_same(ours: list, expected: list) -> None:
    assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in expected]
    assert [score for _, score in ours] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("seed", range(6))
def test_wide_beams_find_the_best_of_all_sequences(seed: int) -> None:
    vocab, max_new, eos = 4, 4, 3
    model = table_model(seed, vocab)
    ours = beam_search(model, [0, 2], vocab**max_new, max_new, eos)
    assert_same(ours, all_sequences(model, [0, 2], vocab, max_new, eos))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_beams", [1, 2, 3])
def test_narrow_beams_follow_the_rule_step_by_step(seed: int, n_beams: int) -> None:
    model = table_model(seed, 5)
    assert_same(beam_search(model, [1], n_beams, 5, 4), slow_beam_search(model, [1], n_beams, 5, 4, 5))


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy(seed: int) -> None:
    model, tokens = table_model(seed, 6), [2]
    while len(tokens) < 8 and (len(tokens) == 1 or tokens[-1] != 5):
        tokens.append(int(model(tokens).argmax()))
    assert beam_search(model, [2], 1, 7, 5)[0][0] == tokens


def test_more_beams_can_lose_the_best_sequence() -> None:
    """Greedy finds A A (0.4 x 0.34 x 1 = 0.136); two beams keep both children of B and end with 0.0175."""
    a, b, c = 0, 1, 2
    tree = {
        (): {a: 0.40, b: 0.35, c: 0.25},
        (a,): {a: 0.34, b: 0.33, c: 0.33},
        (b,): {a: 0.50, b: 0.50},
        (c,): {a: 0.34, b: 0.33, c: 0.33},
    }

    def model(tokens: list[int]) -> torch.Tensor:
        new = tuple(tokens[1:])
        row = tree.get(new) or ({a: 1.0} if new[0] == a else {t: 0.1 for t in range(10)})
        return torch.tensor([row.get(t, 0.0) for t in range(10)], dtype=torch.float64).log()

    greedy, wide = (beam_search(model, [9], n, 3, None)[0] for n in (1, 2))
    assert math.exp(greedy[1]) == pytest.approx(0.136)
    assert math.exp(wide[1]) == pytest.approx(0.0175)


def test_ended_beams_keep_their_score_compete_and_stop_the_search() -> None:
    calls = []

    def model(tokens: list[int]) -> torch.Tensor:
        calls.append(list(tokens))
        return torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()

    result = beam_search(model, [0], 1, 50, eos=0)  # eos is the likeliest token at once
    assert result == [([0, 0], pytest.approx(math.log(0.5)))]
    assert calls == [[0]]
    # Two beams: [eos] at 0.5 stays on top for good, and is never extended.
    result = beam_search(model, [2], 2, 3, eos=0)
    assert result[0] == ([2, 0], pytest.approx(math.log(0.5)))
    assert result[1] == ([2, 1, 0], pytest.approx(math.log(0.15)))


def test_an_eos_in_the_prompt_does_not_end_a_beam() -> None:
    assert len(beam_search(table_model(0, 4), [3], 2, 3, eos=3)[0][0]) > 1


def test_nothing_to_add_gives_the_start_and_inputs_stay() -> None:
    start = [1, 2]
    assert beam_search(table_model(0, 4), start, 3, 0, 3) == [([1, 2], 0.0)]

    def spoiling(tokens: list[int]) -> torch.Tensor:
        log_probs = table_model(0, 4)(tokens)
        tokens.clear()  # the function gets a list of its own
        return log_probs

    assert beam_search(spoiling, start, 2, 3, 3) == beam_search(table_model(0, 4), start, 2, 3, 3)
    assert start == [1, 2]


def test_impossible_tokens_are_dropped() -> None:
    def model(tokens: list[int]) -> torch.Tensor:
        return torch.tensor([0.0, -math.inf, -math.inf])

    assert beam_search(model, [1], 5, 2, None) == [([1, 0, 0], 0.0)]
    with pytest.raises(ValueError, match="probability 0"):
        beam_search(lambda tokens: torch.full((3,), -math.inf), [1], 2, 2, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_beams": 0}, "n_beams must be at least 1"),
        ({"n_beams": 1.5}, "n_beams must be a whole number"),
        ({"max_new": -1}, "max_new must be at least 0"),
        ({"start": [0, -1]}, "start must be at least 0"),
        ({"eos": -1}, "eos must be at least 0"),
        ({"next_log_probs": lambda tokens: torch.zeros(2, 2)}, "next_log_probs must have shape"),
        ({"next_log_probs": lambda tokens: torch.full((3,), math.nan)}, "NaN"),
    ],
)
def test_bad_input_raises_a_sentence(change: dict, message: str) -> None:
    good = {"next_log_probs": table_model(0, 4), "start": [0], "n_beams": 2, "max_new": 2, "eos": 3}
    with pytest.raises(ValueError, match=message):
        beam_search(**{**good, **change})
