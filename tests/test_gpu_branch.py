"""What notebook 02 does on a GPU, run on a CPU with stand-ins: data types, shapes, and memory that runs out.

No test here needs a GPU, and none proves that one works: see docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import torch

from helpers import ROOT
from kvlab import arithmetic, plots, profiling
from kvlab.config import ModelConfig
from kvlab.engine import Engine, Request
from kvlab.loading import random_model

TINY = ModelConfig(400, 16, 2, 4, 2, 4, 32, 20_000)


class SmallGPU(Engine):
    """An engine on a device where long prompts and large batches do not fit."""

    longest, widest = 600, 4

    def run(self, requests: Any = ()) -> list[Request]:
        requests = list(requests)
        if max(len(request.prompt) for request in requests) > self.longest or len(requests) > self.widest:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        for request in requests:  # a vocabulary of 400 will do
            request.prompt = [token % 400 for token in request.prompt]
        return super().run(requests)


class FakeTorch:
    """torch with a GPU of the given compute capability, whose tensors lie on the CPU."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.emptied = 0
        self.cuda = SimpleNamespace(get_device_capability=lambda device: capability, empty_cache=self._empty)

    def _empty(self) -> None:
        self.emptied += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def ones(rows: int, columns: int, dtype: torch.dtype, device: object) -> torch.Tensor:
        assert rows == columns == 4096, "the size of the product on a GPU"
        return torch.ones(2, 2)


def cell() -> str:
    notebook = nbformat.read(ROOT / "notebooks" / "02_prefill_decode.ipynb", as_version=4)
    (found,) = [c.source for c in notebook.cells if c.cell_type == "code" and "def sweep(" in c.source]
    return found


def run_cell(load: Callable[..., Any], capability: tuple[int, int] = (8, 0), fast: bool = False) -> tuple[Any, str]:
    """Run the cell as if the primer lay on a GPU. Returns its variables and what it printed."""
    names: dict[str, Any] = {
        "torch": FakeTorch(capability),
        "math": math,
        "plots": plots,
        "arithmetic": arithmetic,
        "Engine": SmallGPU,
        "Request": Request,
        "ModelConfig": ModelConfig,
        "random_model": load,
        "FAST": fast,
        "primer": SimpleNamespace(device=SimpleNamespace(type="cuda")),
        "profiling": SimpleNamespace(
            Timing=profiling.Timing,
            measure=lambda fn, repeats, device: profiling.Timing.of([1e-3]),
            read_bandwidth=lambda device: SimpleNamespace(best=1e12),
            peak_memory=lambda device: 10**9,
        ),
    }
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(cell(), "cell", "exec"), names)
    return names, printed.getvalue()


def tiny(shape: str, device: str, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    return random_model(TINY, "cpu", torch.float32)


def test_running_out_of_memory_shortens_each_sweep_and_says_so():
    names, text = run_cell(tiny)
    for name in ("llama-3.2-1b", "llama-3-8b"):
        assert [row[:2] for row in names["measured"][name]] == [
            ("prefill", 128),
            ("prefill", 512),
            ("decode", 1),
            ("decode", 4),
        ]
    assert text.count("out of memory: the prefill sweep ends before 2048, larger sizes are left out") == 2
    assert text.count("out of memory: the decode sweep ends before 16, larger sizes are left out") == 2
    assert names["torch"].emptied == 2, "what the first shape held is given back before the second one"
    assert names["figure"] is not None and "no GPU here" not in text


@pytest.mark.parametrize(
    ("capability", "dtype"), [((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)]
)
def test_the_data_type_is_one_that_the_gpu_is_fast_in(capability, dtype):
    asked = []

    def load(shape: str, device: str, kind: torch.dtype) -> Any:
        asked.append((shape, kind))
        return tiny(shape, device, kind)

    run_cell(load, capability, fast=True)
    assert asked == [("llama-3.2-1b", dtype)]


@pytest.mark.parametrize(
    "error", [ValueError("the weights take 16.06 GB"), torch.OutOfMemoryError("CUDA out of memory")]
)
def test_a_model_whose_weights_do_not_fit_is_left_out(error):
    def load(shape: str, device: str, dtype: torch.dtype) -> Any:
        if shape == "llama-3-8b":
            raise error
        return tiny(shape, device, dtype)

    names, text = run_cell(load)
    assert list(names["measured"]) == ["llama-3.2-1b"]
    assert f"llama-3-8b is left out: {error}" in text


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def load(shape: str, device: str, dtype: torch.dtype) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal"):
        run_cell(load)


def test_the_notebook_and_the_documents_say_that_there_are_no_figures():
    notebook = (ROOT / "notebooks" / "02_prefill_decode.ipynb").read_text(encoding="utf-8")
    assert "No figures of a GPU come with the course" in notebook
    assert "untested on a GPU" in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert not (ROOT / "data" / "profiles").exists(), "with figures, these sentences must go"
