"""kvlab.fast.GraphLlama on a CPU, where its steps run one by one. Recording them needs a GPU and is untested."""

import pytest
import torch

from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.fast import GraphLlama
from kvlab.fast.graph import STRETCH
from kvlab.generate import generate_cached
from kvlab.loading import random_model
from kvlab.model import Llama

CONFIG = ModelConfig(
    vocab_size=301, d_model=96, n_layers=3, n_heads=6, n_kv_heads=2, d_head=16, d_ff=108, max_len=320, tied=True
)
IDS = torch.randint(0, 301, (STRETCH + 40,), generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def model() -> Llama:
    made = random_model(CONFIG, "cpu", torch.float64, 0)
    with torch.no_grad():
        for i, weight in enumerate(w for w in made.parameters() if w.dim() == 1):  # norms of 1 would hide a lost norm
            weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(i))
    return made


@pytest.mark.parametrize("parts", [(104,), (1,) * 104, (40, 1, 1, 62)], ids=["at once", "one by one", "mixed"])
def test_logits_are_the_readable_ones(model: Llama, parts: tuple[int, ...]) -> None:
    """Across the length where a step attends to a longer stretch of the cache."""
    fast = GraphLlama.from_model(model)
    cache = fast.new_cache(len(IDS))
    logits = torch.cat([fast(part, cache) for part in IDS.split(list(parts))])
    torch.testing.assert_close(logits, model(IDS), rtol=0, atol=1e-12)
    assert cache.length == len(IDS)
    readable = PreallocatedCache(CONFIG, len(IDS), dtype=torch.float64)
    model(IDS, readable)
    for mine, theirs in zip(cache.view(2), readable.view(2), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_tokens_are_the_readable_ones(model: Llama) -> None:
    prompt = IDS[:9].tolist()
    fast = GraphLlama.from_model(model)
    assert generate_cached(fast, prompt, 120).tokens == generate_cached(model, prompt, 120).tokens  # type: ignore[arg-type]
    assert fast(IDS[None, :5], last_only=True).shape == (1, 1, 301)


def test_what_lies_behind_the_end_of_the_cache_is_not_seen(model: Llama) -> None:
    fast = GraphLlama.from_model(model)
    cache = fast.new_cache(200)
    fast(IDS, cache)
    for room in cache.storage:
        room[:, :, :, 50:] = 1e6
    cache.truncate(50)
    torch.testing.assert_close(fast(IDS[50:51], cache)[0], model(IDS[:51])[-1], rtol=0, atol=1e-12)


def test_bad_input_changes_nothing(model: Llama) -> None:
    fast = GraphLlama.from_model(model)
    cache = fast.new_cache(8)
    fast(IDS[:6], cache)
    for ids, said in (
        (IDS[:3], "exceed the window of 8"),
        (torch.tensor([301]), "301"),
        (torch.tensor([-1, 2]), "-1"),
        (torch.zeros(0, dtype=torch.long), "at least one token"),
        (torch.zeros(2, 3, dtype=torch.long), r"\(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=said):
            fast(ids, cache)
    with pytest.raises(ValueError, match="GrowingCache"):
        fast(IDS[:2], GrowingCache(CONFIG))
    with pytest.raises(ValueError, match="window of 320"):
        fast(torch.zeros(321, dtype=torch.long))
    assert cache.length == 6
    with pytest.raises(ValueError, match="from 0 to 8"):
        cache.set_length(9)
