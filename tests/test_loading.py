"""Finding and opening models: the primer models are there, and anything wrong is a sentence."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from kvlab import loading, validate
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


def test_a_wrong_parameter_says_where_to_write_a_right_one() -> None:
    """MODEL, DEVICE and SEED of a notebook."""
    where = "in the parameters cell write {}, run it and the cells below$"
    for name in ("gpt-5", "minilm"):
        with pytest.raises(ValueError, match=where.format('MODEL = "primer"')):
            load(name)
    with pytest.raises(ValueError, match="`kvlab models` lists them"):
        load("gpt-5")
    for device in ("gpu", "cuda:99", "meta"):
        with pytest.raises(ValueError, match=where.format('DEVICE = "auto"')):
            load("primer-draft", device)
    for seed in (-1, 2**32, 1.5, "0", True, None):
        with pytest.raises(ValueError, match=f"^SEED must be a whole number from 0 .*: {where.format('SEED = 0')}"):
            validate.seed(seed)
    assert (validate.seed(0), validate.seed(2**32 - 1)) == (0, 2**32 - 1)


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


# --- damage that parses, and arguments of a wrong kind ---------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        "null",
        '{"model_type": "llama"}',
        '{"model_type": "gpt2"}',
        '{"model_type": "llama", "num_attention_heads": "four"}',
        '{"model_type": "llama", "hidden_act": "gelu"}',
    ],
)
def test_a_config_of_a_wrong_shape_is_named_with_its_path(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"draft/config\.json (is damaged|cannot be used)"):
        load(folder)


def test_scaling_without_its_factors_is_named_with_the_path(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text()) | {"rope_parameters": {"rope_type": "llama3"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json cannot be used: .* lacks 'factor'"):
        load(folder)


def test_a_config_that_is_not_utf_8_is_named(folder: Path) -> None:
    (folder / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        load(folder)


@pytest.mark.parametrize("name", [None, ["x"], 3, {"a"}, "x" * 5000, "a\0b"])
def test_a_name_of_a_wrong_kind_is_no_model(name: object) -> None:
    with pytest.raises(ValueError, match="there is no model"):
        load(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", torch.int8, 32, torch.complex64])
def test_a_dtype_of_a_wrong_kind_is_named(dtype: object) -> None:
    with pytest.raises(ValueError, match=r"dtype must be one of torch\.float16"):
        load("primer-draft", "cpu", dtype)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dtype must be one of torch\.float16"):
        random_model("smollm2-135m", "cpu", dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", [None, 1.5, ["cpu"]])
def test_a_device_of_a_wrong_kind_is_named(device: object) -> None:
    with pytest.raises(ValueError, match="unknown device"):
        load("primer-draft", device)  # type: ignore[arg-type]


def test_a_random_model_larger_than_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is reserved: 13.5 GB in bfloat16, double in float32."""
    monkeypatch.setattr(loading, "initialise", lambda *_: pytest.fail("the model was made"))
    for dtype, free in ((torch.bfloat16, 13 * 10**9), (torch.float32, 26 * 10**9)):
        monkeypatch.setattr(loading, "available_memory", lambda free=free: free)
        monkeypatch.setattr(torch.nn.Module, "to_empty", lambda *_, **__: pytest.fail("memory was taken"))
        with pytest.raises(ValueError, match=r"weights take .* GB .* but .* are free"):
            random_model("llama-2-7b", "cpu", dtype)


def test_a_random_model_that_just_fits_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.config import ModelConfig

    config = ModelConfig(40, 16, 2, 4, 2, 6, 24, 32)
    needed = sum(p.numel() for p in random_model(config, "cpu").parameters()) * 4
    monkeypatch.setattr(loading, "available_memory", lambda: needed)
    random_model(config, "cpu")
    monkeypatch.setattr(loading, "available_memory", lambda: needed - 1)
    with pytest.raises(ValueError, match="are free"):
        random_model(config, "cpu")


def test_a_tokenizer_of_another_kind_is_refused_with_its_path(folder: Path) -> None:
    import tokenizers

    tokenizers.Tokenizer(tokenizers.models.BPE({"▁": 0}, [])).save(str(folder / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be used: only byte-level"):
        load(folder, "cpu")


def test_a_model_with_more_rows_than_the_tokenizer_has_tokens_generates(folder: Path) -> None:
    from kvlab.config import ModelConfig
    from kvlab.generate import generate_cached

    shutil.copy(data_dir() / "primer" / "tokenizer.json", folder / "tokenizer.json")
    known = load(folder, "cpu").tokenizer.vocab_size
    wide = random_model(ModelConfig(known + 500, 16, 1, 2, 1, 8, 16, 64), "cpu")
    loading.save(wide, folder)
    model = load(folder, "cpu")
    with torch.no_grad():  # every token but one beyond the tokenizer's becomes unlikely
        model.lm_head.weight.zero_()
    model.lm_head.register_forward_hook(lambda _, __, logits: logits.index_fill(-1, torch.tensor(known + 400), 9.0))
    run = generate_cached(model, "mom", 3)
    assert (run.tokens, run.text) == ([known + 400] * 3, "")
