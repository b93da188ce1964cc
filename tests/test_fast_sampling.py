"""kvlab.fast.sampling gives the readable sampler's numbers, ties and errors included."""

import itertools

import pytest
import torch

from kvlab.fast import sampling as fast
from kvlab.sampling import ORDERS, SamplingSettings, next_token_probs, sample

VOCAB = 3000
DRAW = torch.Generator().manual_seed(5)
SMOOTH = torch.randn(VOCAB, generator=DRAW) * 4
TIED = (torch.randn(VOCAB, generator=DRAW) * 8).round() / 4  # hundreds of equal logits
CONTEXT = torch.randint(0, VOCAB, (200,), generator=DRAW)


def settings() -> list[SamplingSettings]:
    grid = itertools.product((0.0, 0.5, 1.0, 1.3), (None, 1, 50, 300), (1.0, 0.9, 0.3), (0.0, 0.1), ORDERS)
    penalties = itertools.cycle([{}, {"repetition_penalty": 1.2}, {"frequency_penalty": 0.5, "logit_bias": {3: 9.0}}])
    return [
        SamplingSettings(temperature=t, top_k=k, top_p=p, min_p=m, order=order, **more)
        for (t, k, p, m, order), more in zip(grid, penalties, strict=False)
    ]


@pytest.mark.parametrize("logits", [SMOOTH, TIED, SMOOTH.to(torch.bfloat16)], ids=["smooth", "tied", "bfloat16"])
def test_every_setting_gives_the_readable_distribution(logits: torch.Tensor) -> None:
    for one in settings():
        wanted = next_token_probs(logits, one, CONTEXT, 50)
        found = fast.candidates(logits, one, CONTEXT.tolist(), 50)
        dense = torch.zeros_like(wanted)
        dense[found.ids] = found.probs
        assert torch.equal(dense > 0, wanted > 0), one
        torch.testing.assert_close(dense, wanted, rtol=1e-2 if logits.dtype == torch.bfloat16 else 1e-6, atol=0)


def test_the_same_seed_draws_the_same_tokens() -> None:
    one = SamplingSettings(temperature=0.8, top_k=50, top_p=0.95, repetition_penalty=1.1, seed=3)
    a, b = one.generator(), one.generator()
    drawn = [fast.next_token(SMOOTH, one, CONTEXT, 0, a) for _ in range(50)]
    assert drawn == [sample(next_token_probs(SMOOTH, one, CONTEXT), b) for _ in range(50)]
    assert len(set(drawn)) > 3


def test_the_short_way_is_taken_where_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> torch.Tensor:
        raise AssertionError("the whole vocabulary was sorted")

    monkeypatch.setattr(fast, "next_token_probs", never)
    fast.candidates(SMOOTH, SamplingSettings(top_k=50, top_p=0.9))
    fast.candidates(SMOOTH, SamplingSettings(top_p=0.3))
    with pytest.raises(AssertionError, match="whole vocabulary"):
        fast.candidates(torch.zeros(VOCAB), SamplingSettings(top_k=50))  # all tied: all stay


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_inf_are_found(bad: float) -> None:
    logits = SMOOTH.clone()
    logits[7] = bad
    with pytest.raises(ValueError, match="NaN or inf"):
        fast.candidates(logits, SamplingSettings(top_k=50))


@pytest.mark.parametrize("ids", [[VOCAB], [-1], [0.5]])
def test_bad_context_is_refused(ids: list) -> None:
    with pytest.raises(ValueError, match="context_ids"):
        fast.candidates(SMOOTH, SamplingSettings(top_k=5, repetition_penalty=1.2), ids)


def test_bad_logits_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        fast.candidates(SMOOTH[None], SamplingSettings(top_k=5))
