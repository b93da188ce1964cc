"""kvlab.fast against the readable model: equal in float64, within stated bounds in every other format.

For int8 and int4 there are two questions. Is the arithmetic right? The same rounded weights in the readable float64
model answer that. What does the rounding cost? The distributions of the trained primer model answer that.
"""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from helpers import require
from kvlab import quantize
from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.generate import generate_cached, prefill, stream
from kvlab.loading import load, random_model
from kvlab.model import Llama

require("numba")

from kvlab.fast import FastLlama  # noqa: E402 - needs numba
from kvlab.fast.kernels import wait_for_all  # noqa: E402
from kvlab.fast.team import Team  # noqa: E402

# d_ff is no multiple of 32, and 3 query heads share a KV head
CONFIG = ModelConfig(
    vocab_size=301, d_model=96, n_layers=3, n_heads=6, n_kv_heads=2, d_head=16, d_ff=108, max_len=320, tied=True
)
FORMATS = ("fp64", "fp32", "bf16", "int8", "int4")
# Largest distance of the logits, as a share of their own size (norm over norm), from the same weights in float64.
BOUNDS = {"fp64": 1e-13, "fp32": 1e-5, "bf16": 0.02, "int8": 0.02, "int4": 0.02}
IDS = torch.randint(0, 301, (40,), generator=torch.Generator().manual_seed(4))


def make(config: ModelConfig = CONFIG, seed: int = 0) -> Llama:
    model = random_model(config, "cpu", torch.float64, seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # norms that are all 1 would hide a norm that is left out
                weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
    return model


def rounded(weight: torch.Tensor, name: str, format_: str) -> torch.Tensor:
    """The weights that `format_` can hold, in float64."""
    if weight.dim() == 1 or format_ == "fp64":
        return weight
    if format_ in ("fp32", "bf16"):
        return weight.to(torch.float32 if format_ == "fp32" else torch.bfloat16).double()
    if format_ == "int8" or "lm_head" in name or "embed" in name:
        return torch.from_numpy(quantize.dequantize_rows(*quantize.quantize_rows(weight))).double()
    columns = weight.shape[1]
    group = 64 if columns % 64 == 0 else 32
    filled = torch.nn.functional.pad(weight, (0, -columns % group))
    dense = quantize.dequantize_groups(quantize.quantize_groups(filled, group))
    return torch.from_numpy(dense[:, :columns]).double()


def reference(format_: str) -> Llama:
    model = make()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(rounded(weight, name, format_))
    return model


def step_by_step(fast: FastLlama, ids: torch.Tensor, cache: PreallocatedCache) -> torch.Tensor:
    return torch.cat([fast(ids[i : i + 1], cache) for i in range(len(ids))]).double()


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.fixture(scope="module")
def model() -> Llama:
    return make()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("format_", FORMATS)
def test_logits_are_those_of_the_same_weights(model: Llama, format_: str, threads: int) -> None:
    fast = FastLlama.from_model(model, format_, threads)
    wanted = reference(format_)(IDS)
    cache = fast.new_cache(len(IDS))
    assert distance(step_by_step(fast, IDS, cache), wanted) < BOUNDS[format_]
    assert cache.length == len(IDS)
    assert distance(fast(IDS).double(), wanted) < BOUNDS[format_]
    assert fast(IDS, last_only=True).shape == (1, 301)


@pytest.mark.parametrize("threads", [1, 2])
def test_float64_gives_the_readable_tokens(model: Llama, threads: int) -> None:
    fast = FastLlama.from_model(model, "fp64", threads)
    for start in range(3):
        prompt = IDS[start : start + 9].tolist()
        assert generate_cached(fast, prompt, 120).tokens == generate_cached(model, prompt, 120).tokens  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("length", [63, 64, 130, 257])
def test_long_prompts_in_one_or_two_parts(model: Llama, threads: int, length: int) -> None:
    """Across the tile of the attention and the length from which threads share a prompt."""
    ids = torch.randint(0, 301, (length,), generator=torch.Generator().manual_seed(length))
    fast, wanted = FastLlama.from_model(model, "fp64", threads), model(ids)
    assert distance(fast(ids), wanted) < 1e-13
    cache = fast.new_cache()
    parts = [fast(part, cache) for part in (ids[:5], ids[5:6], ids[6:])]
    assert distance(torch.cat(parts), wanted) < 1e-13
    readable = PreallocatedCache(model.config, dtype=torch.float64)
    model(ids, readable)
    for layer in range(3):
        for mine, theirs in zip(cache.view(layer), readable.view(layer), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_other_shapes() -> None:
    """Untied, one KV head for each query head, Llama 3's stretched RoPE."""
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    readable = make(replace(CONFIG, n_kv_heads=6, tied=False, rope_scaling=scaling))
    for format_ in ("fp64", "int4"):
        fast = FastLlama.from_model(readable, format_, 2)
        cache = fast.new_cache()
        assert distance(step_by_step(fast, IDS, cache), readable(IDS)) < (1e-13 if format_ == "fp64" else 0.4)


def test_a_readable_cache_goes_on_where_the_readable_model_left(model: Llama) -> None:
    cache = PreallocatedCache(model.config, 64, dtype=torch.float64)
    model(IDS[:20], cache)
    fast = FastLlama.from_model(model, "fp64", 2)
    assert distance(step_by_step(fast, IDS[20:], cache), model(IDS)[20:]) < 1e-13


# Bounds on the trained model, mean over the positions of KL(float64 || format): 10 times what was measured.
@pytest.mark.parametrize(("format_", "bound"), [("fp32", 1e-9), ("bf16", 1e-3), ("int8", 3e-3), ("int4", 0.4)])
def test_rounding_costs_little_on_the_trained_model(format_: str, bound: float) -> None:
    readable = load("primer", "cpu", torch.float64)
    assert readable.tokenizer is not None
    ids = torch.tensor(readable.tokenizer.encode("Once there was a brave boy named Felix. Felix had a silver puppet."))
    wanted = readable(ids).log_softmax(-1)
    fast = FastLlama.from_model(readable, format_)
    for logits in (fast(ids).double(), step_by_step(fast, ids, fast.new_cache())):
        kl = (wanted.exp() * (wanted - logits.log_softmax(-1))).sum(-1)
        assert 0 <= kl.mean() < bound


def test_streams_take_turns(model: Llama) -> None:
    """All state is in the cache: two answers that are written at once do not mix."""
    fast: Any = FastLlama.from_model(model, "fp64", 2)
    prompts = [IDS[:5].tolist(), IDS[5:12].tolist()]
    alone = [generate_cached(fast, p, 12).tokens for p in prompts]
    pairs = list(zip(*(stream(fast, p, 12) for p in prompts), strict=True))
    assert [[pair[i].token for pair in pairs] for i in (0, 1)] == alone


def test_callers_in_two_threads_wait_for_each_other(model: Llama) -> None:
    fast: Any = FastLlama.from_model(model, "fp64", 2)
    prompts = [IDS[:5].tolist(), IDS[5:12].tolist()]
    alone = [generate_cached(fast, p, 40).tokens for p in prompts]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda p: generate_cached(fast, p, 40).tokens, prompts))
    assert together == alone


def test_logits_survive_the_next_step(model: Llama) -> None:
    fast = FastLlama.from_model(model, "fp32")
    cache = fast.new_cache()
    first = fast(IDS[:1], cache)
    before = first.clone()
    fast(IDS[1:2], cache)
    assert torch.equal(first, before)


def test_nan_is_not_hidden(model: Llama) -> None:
    broken = make()
    with torch.no_grad():
        broken.model.embed_tokens.weight[7] = torch.nan
    assert FastLlama.from_model(broken, "bf16")(torch.tensor([7]), None).isnan().any()
    for format_ in ("int8", "int4"):
        with pytest.raises(ValueError, match="NaN or inf"):
            FastLlama.from_model(broken, format_)


def test_bytes_fall_with_the_format(model: Llama) -> None:
    sizes = {name: FastLlama.from_model(model, name).nbytes for name in FORMATS}
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    n = sum(w.numel() for w in model.parameters() if w.dim() == 2)
    assert sizes["bf16"] == pytest.approx(2 * n, rel=0.02)
    assert sizes["int4"] < 0.75 * n


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: FastLlama.from_model(m, "fp8"), "dtype must be one of fp64"),
        (lambda m: FastLlama.from_model(m, threads=0), "at least 1"),
        (lambda m: FastLlama.from_model(m)(torch.tensor([301])), "outside the vocabulary"),
        (lambda m: FastLlama.from_model(m)(torch.tensor([1, -1])), "outside the vocabulary"),
        (lambda m: FastLlama.from_model(m)(torch.empty(0, dtype=torch.long)), "at least one token"),
        (lambda m: FastLlama.from_model(m)(torch.zeros(2, 3, dtype=torch.long)), "at least one token"),
        (lambda m: FastLlama.from_model(m)(torch.zeros(321, dtype=torch.long)), "window of 320"),
        (lambda m: FastLlama.from_model(m)(IDS, PreallocatedCache(CONFIG, 39)), "window of 39"),
        (lambda m: FastLlama.from_model(m)(IDS, GrowingCache(CONFIG)), "PreallocatedCache"),
        (lambda m: FastLlama.from_model(m, "bf16")(IDS, PreallocatedCache(CONFIG)), "dtype"),
    ],
)
def test_bad_input_is_named(model: Llama, call: Callable[[Llama], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(model)


def test_a_pass_that_fails_leaves_the_cache_alone(model: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    fast = FastLlama.from_model(model, "fp64", 2)
    cache = fast.new_cache()
    prefill(fast, IDS[:10].tolist(), cache)  # type: ignore[arg-type]
    long = torch.cat([IDS, IDS])
    for number in (0, 1):  # in the calling thread, then in the other one, which must not leave the first waiting

        def fail(self: Any, t: int, number: int = number) -> None:
            if t == number:
                raise MemoryError
            wait_for_all(fast.team.counter, 2)

        with monkeypatch.context() as patch:
            patch.setattr("kvlab.fast.prefill.Pass.share", fail)
            with pytest.raises(MemoryError):
                fast(long, cache)
        assert cache.length == 10
        assert torch.get_num_threads() == before
    assert distance(fast(IDS[10:], cache), model(IDS)[10:]) < 1e-13


def test_a_forked_process_gets_its_own_threads() -> None:
    team = Team(2, np.zeros(1, np.int64))
    seen: list[int] = []
    team.run(seen.append)
    team._pid = -1  # what a child finds: the number of another process
    team.run(seen.append)
    assert sorted(seen) == [0, 0, 1, 1]


def test_threads_end_with_the_team() -> None:
    team = Team(3, np.zeros(1, np.int64))
    team.run(lambda t: None)
    workers = team._threads
    assert [worker.is_alive() for worker in workers] == [True, True]
    del team
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "sorted({'torch', 'numba'} & set(sys.modules))"
    assert python(f"import sys, kvlab, kvlab.fast; print({heavy})").strip() == "[]"
    assert python(f"import sys, kvlab.fast.sampling; print({heavy})").strip() == "['torch']"


def test_without_numba_one_sentence_says_what_to_install() -> None:
    code = "import sys; sys.modules['numba'] = None\ntry:\n    from kvlab.fast import FastLlama\nexcept ImportError as e:\n    print(e)"
    assert python(code).strip() == "kvlab.fast needs numba, which is not installed: pip install 'kvlab[fast]'"
