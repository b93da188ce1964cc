"""The decoder against transformers' LlamaForCausalLM at tiny random sizes, and its refusals."""

from pathlib import Path

import pytest
import torch

from helpers import require
from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.loading import load, random_model, save

SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
BASE = {
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "max_position_embeddings": 64,
}
SHAPES = {
    "gqa": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "mha": {"num_attention_heads": 4, "num_key_value_heads": 4},
    "mqa": {"num_attention_heads": 4, "num_key_value_heads": 1},
    "untied": {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False},
    "llama-3.1 rope": {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rope_parameters": {**SCALING, "rope_theta": 500_000.0},
    },
    "wide heads": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10},
    "narrow heads": {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 4},
}


@pytest.fixture(scope="module", params=SHAPES)
def pair(request, tmp_path_factory):  # type: ignore[no-untyped-def]
    """(our model, the same checkpoint in transformers, its folder)."""
    require("transformers")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(**{"tie_word_embeddings": True, **BASE, **SHAPES[request.param]})
    theirs = LlamaForCausalLM(config).eval()
    for weight in theirs.parameters():  # larger than the library's start, so that a mistake shows
        weight.data.normal_(0, 0.3) if weight.dim() > 1 else weight.data.uniform_(0.5, 1.5)
    folder = tmp_path_factory.mktemp("checkpoint")
    theirs.save_pretrained(folder)
    return load(folder, "cpu"), theirs, folder


@torch.no_grad()
def test_logits_equal_transformers(pair) -> None:  # type: ignore[no-untyped-def]
    ours, theirs, _ = pair
    ids = torch.randint(0, 61, (2, 40), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours(ids), theirs(ids).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", [GrowingCache, PreallocatedCache])
@torch.no_grad()
def test_cached_logits_equal_transformers(pair, kind) -> None:  # type: ignore[no-untyped-def]
    ours, theirs, _ = pair
    ids = torch.randint(0, 61, (30,), generator=torch.Generator().manual_seed(2))
    cache = kind(ours.config)
    parts = [ours(ids[:20], cache), *(ours(ids[i : i + 1], cache) for i in range(20, 30))]
    torch.testing.assert_close(torch.cat(parts), theirs(ids[None]).logits[0], rtol=0, atol=1e-4)


@torch.no_grad()
def test_what_we_save_opens_in_transformers(pair, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from transformers import LlamaForCausalLM

    ours, _, _ = pair
    save(ours, tmp_path, torch.float32)
    again = LlamaForCausalLM.from_pretrained(tmp_path).eval()
    ids = torch.arange(25)
    torch.testing.assert_close(again(ids[None]).logits[0], ours(ids), rtol=0, atol=1e-4)


CONFIG = ModelConfig(vocab_size=40, d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, d_head=6, d_ff=24, max_len=12)


def test_one_row_and_a_batch_agree() -> None:
    model = random_model(CONFIG, "cpu", torch.float64)
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    torch.testing.assert_close(model(ids)[1], model(ids[1]))
    torch.testing.assert_close(model(ids, last_only=True), model(ids)[:, -1:])


def test_random_model_is_reproducible_and_seeds_differ() -> None:
    ids = torch.arange(5)
    same = [random_model(CONFIG, "cpu", seed=s)(ids) for s in (3, 3, 4)]
    assert torch.equal(same[0], same[1])
    assert not torch.allclose(same[0], same[2])


@pytest.mark.parametrize("bad", [[40], [1, -1], [1, 99, 2]])
def test_id_outside_the_vocabulary_is_named_and_the_cache_stays(bad: list[int]) -> None:
    model = random_model(CONFIG, "cpu")
    cache = PreallocatedCache(CONFIG)
    model(torch.tensor([1, 2]), cache)
    wrong = next(i for i in bad if not 0 <= i < 40)
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of 40"):
        model(torch.tensor(bad), cache)
    assert cache.length == 2


@pytest.mark.parametrize(("held", "new"), [(0, 13), (8, 5)])
def test_window_is_kept_and_the_cache_stays(held: int, new: int) -> None:
    model = random_model(CONFIG, "cpu")
    cache = PreallocatedCache(CONFIG)
    if held:
        model(torch.ones(held, dtype=torch.long), cache)
    with pytest.raises(ValueError, match="exceed the window of 12"):
        model(torch.ones(new, dtype=torch.long), cache)
    assert cache.length == held


@pytest.mark.parametrize("shape", [(0,), (1, 0), (1, 2, 3)])
def test_ids_of_a_wrong_shape_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        random_model(CONFIG, "cpu")(torch.ones(shape, dtype=torch.long))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_heads": 3}, "multiple of n_kv_heads"),
        ({"d_head": 5}, "must be even"),
        ({"n_layers": 0}, "n_layers must be at least 1"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
    ],
)
def test_impossible_shapes_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig(**(CONFIG.to_dict() | change))


def test_config_survives_the_round_trip() -> None:
    from dataclasses import replace

    for config in (CONFIG, replace(CONFIG, rope_scaling=SCALING, rope_theta=5e5, tied=False)):
        assert ModelConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize("hf", [{"model_type": "gpt2"}, {"model_type": "llama", "attention_bias": True}])
def test_foreign_checkpoints_are_refused(hf: dict) -> None:
    with pytest.raises(ValueError, match=r"gpt2|attention_bias"):
        ModelConfig.from_hf(hf)
