"""Finding and opening models: the primer models are there, and anything wrong is a sentence."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from kvlab.loading import load, random_model
from kvlab.paths import data_dir

NAMES = ["primer", "primer-draft", "primer-mha"]


@pytest.mark.parametrize("name", NAMES)
def test_primer_models_load(name: str) -> None:
    model = load(name, "cpu")
    assert model.tokenizer.vocab_size == model.config.vocab_size
    assert model.config.max_len == 8192
    assert model.dtype == torch.float32
    assert not any(p.requires_grad for p in model.parameters())


def test_importing_kvlab_imports_no_torch() -> None:
    code = (
        "import sys, kvlab, kvlab.cli.main, kvlab.claims, kvlab.arithmetic, kvlab.check, kvlab.quiz;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'matplotlib', 'ipywidgets')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_lazy_names_are_there_and_others_are_not() -> None:
    import kvlab

    assert kvlab.load is load
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        kvlab.lod  # noqa: B018


def test_unknown_model_lists_the_known() -> None:
    with pytest.raises(ValueError, match="no model 'gpt-5': use one of primer, primer-draft, primer-mha"):
        load("gpt-5")


def test_half_precision_on_request() -> None:
    model = load("primer-draft", "cpu", torch.bfloat16)
    assert model.dtype == model(torch.tensor([1, 2])).dtype == torch.bfloat16


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(data_dir() / "primer" / "draft", tmp_path / "draft")
    return tmp_path / "draft"


def test_a_folder_without_tokenizer_loads(folder: Path) -> None:
    assert load(folder, "cpu").tokenizer is None


def test_missing_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"no config\.json"):
        load(folder)


def test_damaged_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        load(folder)


def test_missing_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="no weights"):
        load(folder)


@pytest.mark.parametrize("keep", [0, 7, 5000])
def test_damaged_weights(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match="damaged"):
        load(folder)


def test_weights_that_lack_a_tensor(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"lack 'model\.norm\.weight'"):
        load(folder)


def test_weights_with_a_foreign_tensor(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors") | {"extra": torch.zeros(1)}
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match="hold 'extra'"):
        load(folder)


def test_weights_of_another_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text()) | {"intermediate_size": 100}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"has shape .* asks for"):
        load(folder)


def test_damaged_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer .* is damaged"):
        load(folder)


def test_random_model_of_a_published_shape() -> None:
    config = random_model("smollm2-135m", "cpu", torch.bfloat16).config
    assert (config.n_layers, config.n_heads, config.n_kv_heads, config.d_model) == (30, 9, 3, 576)


def test_random_model_of_an_unknown_shape() -> None:
    with pytest.raises((ValueError, KeyError), match="llama-9"):
        random_model("llama-9")
