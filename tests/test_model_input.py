"""Odd input to models, their folder and their clocks: one clear ValueError each, and nothing computed from it."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kvlab
from helpers import require
from kvlab import chat, models, paths, profiling, quantize
from kvlab.config import ModelConfig
from kvlab.fast import GraphLlama
from kvlab.generate import generate_cached
from kvlab.loading import random_model

CONFIG = ModelConfig(vocab_size=61, d_model=32, n_layers=2, n_heads=4, n_kv_heads=2, d_head=8, d_ff=48, max_len=96)


def tiny() -> Any:
    return random_model(CONFIG, "cpu", torch.float64, 0)


def classes() -> list[Any]:
    require("numba")
    from kvlab.fast import FastLlama

    return [lambda m: m, GraphLlama.from_model, lambda m: FastLlama.from_model(m, "fp64", 1)]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("ids", [[1.7], [True], [1.0, 2.0]])
def test_ids_that_are_no_whole_numbers(which: int, ids: list) -> None:
    model = classes()[which](tiny())
    with pytest.raises(ValueError, match="whole numbers"):
        model(torch.tensor(ids))
    with pytest.raises(ValueError, match="whole numbers"):
        model(torch.tensor([1, 2], dtype=torch.uint8))


def test_threads_share_a_graph_model_one_at_a_time() -> None:
    model = tiny()
    fast: Any = GraphLlama.from_model(model)
    wanted = [generate_cached(model, [i, i + 1], 30).tokens for i in range(4)]
    found: dict[int, list] = {}

    def work(i: int) -> None:
        found[i] = [generate_cached(fast, [i, i + 1], 30).tokens for _ in range(4)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [tokens] * 4 for i, tokens in enumerate(wanted)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_in_the_middle_of_a_step_can_go_on() -> None:
    """The child has a copy of a lock that another thread held, and nobody to give it back."""
    require("numba")
    from kvlab.fast import FastLlama

    fast = FastLlama.from_model(tiny(), "fp64", 1)
    fast(torch.tensor([1]))
    with fast._lock:
        child = os.fork()
        if child == 0:
            fast(torch.tensor([1]))
            os._exit(7)
    tries = 150
    while tries and os.waitpid(child, os.WNOHANG) == (0, 0):
        threading.Event().wait(0.1)
        tries -= 1
    if not tries:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert tries, "the child waited for a lock that nobody holds"


@pytest.mark.parametrize("threads", [1.5, True, "2", 0, 100_000])
def test_threads_of_the_fast_model(threads: Any) -> None:
    require("numba")
    from kvlab.fast import FastLlama

    with pytest.raises(ValueError, match="threads"):
        FastLlama.from_model(tiny(), "fp32", threads)


@pytest.mark.parametrize("device", ["banana", "meta", None, 5])
def test_clocks_refuse_a_device_that_is_not_here(device: Any) -> None:
    for use in (lambda: profiling.measure(lambda: None, device=device), lambda: profiling.peak_memory(device)):
        with pytest.raises(ValueError, match=r"device|cuda"):
            use()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU here, so its name is no mistake")
def test_clocks_say_that_there_is_no_gpu() -> None:
    for use in (lambda: profiling.seconds_of(lambda: None, "cuda"), lambda: profiling.peak_memory("cuda")):
        with pytest.raises(ValueError, match="CUDA"):
            use()


def test_a_chat_may_come_from_a_generator() -> None:
    settings = chat.TextSettings(chat_template="{% for m in messages %}{{ m.role }}:{{ m.content }} {% endfor %}")
    one = {"role": "user", "content": "hi"}
    generator: Any = (m for m in [one])
    assert chat.render(settings, generator) == chat.render(settings, [one]) == "user:hi "
    nothing: Any = 5
    with pytest.raises(ValueError, match="must be a list"):
        chat.render(settings, nothing)


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ messages + 1 }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"]
)
def test_a_template_that_fails_is_one_sentence(template: str) -> None:
    with pytest.raises(ValueError, match="template fails"):
        chat.render(chat.TextSettings(chat_template=template), [{"role": "user", "content": "hi"}])


def test_a_template_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"chat_template\.jinja cannot be read"):
        chat.TextSettings.beside(tmp_path / "tokenizer.json")


def test_numbers_beyond_float32_are_not_quantised() -> None:
    with pytest.raises(ValueError, match="float32"):
        quantize.quantize_rows(np.array([[1e308, -1.7e308]]))
    group: Any = 64.0
    with pytest.raises(ValueError, match="group"):
        quantize.quantize_groups(np.ones((2, 64)), group)


def test_a_linked_model_is_unlinked_and_its_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "cache"))
    place = models.folder("minilm")
    place.parent.mkdir(parents=True)
    place.symlink_to(shared)
    models.remove("minilm")
    assert shared.is_dir() and list(place.parent.iterdir()) == []


def test_a_cache_folder_of_nobody_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_CACHE", "~no-such-user-here/x")
    with pytest.raises(FileNotFoundError, match="KVLAB_CACHE"):
        paths.cache_dir()


def test_an_encoder_is_not_offered_as_a_generator() -> None:
    with pytest.raises(ValueError, match=r"MiniLM\.load"):
        kvlab.load("minilm")
    with pytest.raises(ValueError, match="there is no model 'nope'") as caught:
        kvlab.load("nope")
    assert "minilm" not in str(caught.value)


def test_sixteen_bit_weights_get_scales_that_are_wide_enough() -> None:
    weights = (np.array([[190, 100, -50]]) * 2.0**-24).astype(np.float16)
    codes, scales = quantize.quantize_rows(weights)
    assert codes.tolist() == [[127, 67, -33]]
    assert np.abs(codes * scales[:, None] - weights.astype(np.float64)).max() <= 0.51 * scales[0]
