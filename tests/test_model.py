"""The decoder against transformers' LlamaForCausalLM at tiny random sizes, and its refusals."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers import require
from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.generate import decode_step, generate_cached, prefill
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
    for config in (CONFIG, replace(CONFIG, rope_scaling=SCALING, rope_theta=5e5, tied=False)):
        assert ModelConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize("hf", [{"model_type": "gpt2"}, {"model_type": "llama", "attention_bias": True}])
def test_foreign_checkpoints_are_refused(hf: dict) -> None:
    with pytest.raises(ValueError, match=r"gpt2|attention_bias"):
        ModelConfig.from_hf(hf)


# --- caches that do not fit, and passes that fail --------------------------------------------------------------------


def caches_that_do_not_fit() -> dict[str, tuple[str, GrowingCache | PreallocatedCache]]:
    def prepared(dtype: torch.dtype = torch.float64, batch: int = 1, **changes: int) -> PreallocatedCache:
        return PreallocatedCache(replace(CONFIG, **changes), batch=batch, dtype=dtype)

    def growing(**changes: int) -> GrowingCache:
        return GrowingCache(replace(CONFIG, **changes))

    return {
        "more layers": ("n_layers is 3, here 2", prepared(n_layers=3)),
        "fewer layers": ("n_layers is 1, here 2", prepared(n_layers=1)),
        "more layers, growing": ("n_layers is 3, here 2", growing(n_layers=3)),
        "fewer layers, growing": ("n_layers is 1, here 2", growing(n_layers=1)),
        "one KV head": ("n_kv_heads is 1, here 2", prepared(n_kv_heads=1)),
        "KV heads, growing": ("n_kv_heads is 4, here 2", growing(n_kv_heads=4)),
        "wide heads": ("d_head is 8, here 6", prepared(d_head=8)),
        "float32": (r"dtype is torch\.float32, here torch\.float64", prepared(torch.float32)),
        "two sequences": ("batch is 2, here 1", prepared(batch=2)),
        "another device": ("device is meta, here cpu", PreallocatedCache(CONFIG, dtype=torch.float64, device="meta")),
    }


@pytest.mark.parametrize("name", caches_that_do_not_fit())
def test_a_cache_of_another_model_is_refused(name: str) -> None:
    model = random_model(CONFIG, "cpu", torch.float64)
    message, cache = caches_that_do_not_fit()[name]
    with pytest.raises(ValueError, match=f"does not fit the model: its {message}"):
        model(torch.tensor([1, 2]), cache)
    with pytest.raises(ValueError, match=f"does not fit the model: its {message}"):
        generate_cached(model, [1, 2], 4, cache=cache)
    with pytest.raises(ValueError, match=f"does not fit the model: its {message}"):
        prefill(model, [1, 2], cache)
    assert (cache.length, cache.nbytes) == (0, 0)


@torch.no_grad()
def test_a_batch_is_served_by_a_cache_of_that_batch() -> None:
    model = random_model(CONFIG, "cpu", torch.float64)
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    for cache in (PreallocatedCache(CONFIG, batch=2, dtype=torch.float64), GrowingCache(CONFIG, batch=2)):
        parts = torch.cat([model(ids[:, :2], cache), model(ids[:, 2:], cache)], dim=1)
        torch.testing.assert_close(parts, model(ids))
        with pytest.raises(ValueError, match="batch is 2, here 1"):
            model(ids[:1], cache)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("where", ["layer", "head"])
@pytest.mark.parametrize("held", [0, 5])
@pytest.mark.parametrize("kind", [GrowingCache, PreallocatedCache])
@torch.no_grad()
def test_an_interrupted_pass_leaves_the_cache_as_it_was(  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch, kind, held: int, where: str, error: type[BaseException]
) -> None:
    """Layer 0 (or both) has stored its K and V when the pass ends; done again, it must give the right logits."""
    model = random_model(CONFIG, "cpu", torch.float64)
    ids = torch.arange(1, 8)
    cache = kind(CONFIG) if kind is GrowingCache else kind(CONFIG, dtype=torch.float64)
    if held:
        model(ids[:held], cache)
    nbytes = cache.nbytes

    def interrupted(*_: object) -> None:
        raise error("stop")

    with monkeypatch.context() as patch, pytest.raises(error, match="stop"):
        patch.setattr(model.model.layers[1].mlp if where == "layer" else model.lm_head, "forward", interrupted)
        model(ids[held:], cache)
    assert (cache.length, cache.nbytes) == (held, nbytes)
    torch.testing.assert_close(model(ids[held:], cache), model(ids)[held:])


def test_decode_step_names_a_bad_id_before_it_reaches_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU the embedding would end in a device-side assert, after which the process can use it no more."""
    model = random_model(CONFIG, "cpu")
    cache = PreallocatedCache(CONFIG)
    monkeypatch.setattr(type(model), "forward", lambda *_, **__: pytest.fail("the id was sent to the device"))
    for token in (40, -1):
        with pytest.raises(ValueError, match=f"token id {token} is outside the vocabulary of 40"):
            decode_step(model, token, cache)


# --- configurations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["gelu", "relu", "gelu_pytorch_tanh", None])
def test_another_activation_is_refused(act: str | None) -> None:
    with pytest.raises(ValueError, match="hidden_act"):
        ModelConfig.from_hf(CONFIG.to_hf() | {"hidden_act": act})


def test_both_names_of_the_activation_are_known() -> None:
    for act in ("silu", "swish"):
        assert ModelConfig.from_hf(CONFIG.to_hf() | {"hidden_act": act}) == CONFIG
    assert ModelConfig.from_hf({k: v for k, v in CONFIG.to_hf().items() if k != "hidden_act"}) == CONFIG


NEEDED = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"]


@pytest.mark.parametrize("key", NEEDED)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(ValueError, match=f"lacks '{key}'"):
        ModelConfig.from_hf({k: v for k, v in CONFIG.to_hf().items() if k != key})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": "16"}, "hidden_size must be a whole number"),
        ({"hidden_size": [16]}, "hidden_size must be a whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads must be at least 1"),
        ({"rms_norm_eps": None}, "rms_norm_eps must be a number"),
        ({"rope_parameters": [1]}, "rope_parameters must be an object"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "lacks 'factor'"),
        ({"rope_parameters": {**SCALING, "factor": "8"}}, "factor must be a number"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "big"}}, "rope_theta must be a number"),
    ],
)
def test_values_of_a_wrong_kind_are_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_hf(CONFIG.to_hf() | change)
