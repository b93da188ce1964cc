"""Shapes of published models and GPUs: sources, counts, layouts, errors."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvlab import published
from kvlab.config import ModelConfig
from kvlab.paths import data_dir

PLAIN = [key for key, model in published.models().items() if model.family == "llama"]
TABLE = [entry["key"] for entry in json.loads((data_dir() / "models.json").read_text("utf-8"))["models"]]


def matrices(model: published.PublishedModel) -> int:
    """An independent count: every tensor of a plain Llama by shape, added up one by one."""
    d = model.d_model
    total = model.vocab_size * d + d
    if not model.tied:
        total += d * model.vocab_size
    for _ in range(model.n_layers):
        shapes = [
            (d, model.n_heads * model.d_head),
            (d, model.n_kv_heads * model.d_head),
            (d, model.n_kv_heads * model.d_head),
            (model.n_heads * model.d_head, d),
            (d, model.d_ff),
            (d, model.d_ff),
            (model.d_ff, d),
            (d, 1),
            (d, 1),
        ]
        total += sum(rows * columns for rows, columns in shapes)
    return total


@pytest.mark.parametrize("key", PLAIN)
def test_stated_parameters_of_plain_llamas_are_exact(key: str) -> None:
    model = published.model(key)
    assert matrices(model) == model.n_params == published.count_params(model)


def test_count_notices_another_shape() -> None:
    model = published.model("llama-3-8b")
    assert matrices(replace(model, d_ff=model.d_ff + 1)) != model.n_params
    assert matrices(replace(model, tied=True)) != model.n_params


@pytest.mark.parametrize(
    ("key", "count"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3.2-1b", 1_235_814_400),
    ],
)
def test_counts_known_from_elsewhere(key: str, count: int) -> None:
    assert published.model(key).n_params == count


def test_every_entry_names_its_source_and_day() -> None:
    for entry in [*(published.model(key) for key in TABLE), *published.gpus().values()]:
        assert len(entry.source) > 20, entry.key
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry.read), entry.key


def test_layouts_that_differ_from_hidden_over_heads() -> None:
    for key in ("qwen3-32b", "gemma-7b", "mistral-nemo-12b", "gpt-oss-120b"):
        model = published.model(key)
        assert model.d_head != model.d_model / model.n_heads, key


def test_kinds_of_layers() -> None:
    kinds = {key: {group.kind for group in published.model(key).layers} for key in TABLE}
    assert kinds["mistral-7b-v0.1"] == {"window"}
    assert kinds["gemma-2-9b"] == kinds["gpt-oss-20b"] == {"window", "full"}
    assert kinds["deepseek-v3"] == {"latent"}
    assert kinds["qwen3-next-80b"] == {"none", "full"}
    layers = published.model("gemma-3-27b").layers
    # five windowed layers and then a full one, 62 layers: layer 6, 12, ... 60 are full
    assert [group.layers for group in layers] == [62 - 62 // 6, 62 // 6]


def test_to_config_builds_a_model_config() -> None:
    config = ModelConfig(**published.model("llama-3.2-1b").to_config())
    assert (config.d_model, config.n_layers, config.n_kv_heads, config.tied) == (2048, 16, 8, True)
    assert config.rope_scaling is not None and config.rope_scaling["factor"] == 32.0
    assert ModelConfig(**published.model("mistral-nemo-12b").to_config()).d_head == 128


@pytest.mark.parametrize("key", ["deepseek-v2", "gemma-2-2b", "qwen2.5-7b", "gpt-3-175b", "mistral-7b-v0.1"])
def test_to_config_refuses_other_kinds_and_names_an_alternative(key: str) -> None:
    with pytest.raises(ValueError, match=r"llama-3\.2-1b"):
        published.model(key).to_config()


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="llama-3-8b"):
        published.model("gpt-4")
    with pytest.raises(ValueError, match="a100-80gb"):
        published.gpu("abacus")


def test_names_ignore_case() -> None:
    assert published.model("Llama-3-8B") is published.model("llama-3-8b")


def test_shape_of_accepts_name_model_config_and_dict() -> None:
    model = published.model("llama-3.2-1b")
    config = ModelConfig(**model.to_config())
    same = [published.shape_of(given) for given in (model, "llama-3.2-1b", config, model.to_config())]
    assert {shape.n_params for shape in same} == {model.n_params}
    with pytest.raises(ValueError, match="int"):
        published.shape_of(7)


def test_build_names_what_is_wrong() -> None:
    shape = {"n_layers": 4, "d_model": 8, "n_heads": 2, "d_ff": 16, "vocab_size": 10, "tied": True}
    assert published.build(shape).n_kv_heads == 2
    with pytest.raises(ValueError, match="colour"):
        published.build({**shape, "colour": 1})
    with pytest.raises(ValueError, match="needs d_ff"):
        published.build({k: v for k, v in shape.items() if k != "d_ff"})
    with pytest.raises(ValueError, match="cover 3 layers"):
        published.build({**shape, "layers": [{"layers": 3}]})
    with pytest.raises(ValueError, match="window"):
        published.build({**shape, "layers": [{"layers": 4, "kind": "window"}]})
    with pytest.raises(ValueError, match="layer kind"):
        published.build({**shape, "layers": [{"layers": 4, "kind": "round"}]})
    with pytest.raises(ValueError, match="evenly"):
        published.build({**shape, "n_kv_heads": 3})


def test_gpus_are_dense_and_decimal() -> None:
    a100, t4 = published.gpu("a100-80gb"), published.gpu("t4")
    assert (a100.peak_flops, a100.bandwidth, a100.memory_bytes) == (312e12, 2.039e12, 80e9)
    assert t4.dtype == "fp16" and t4.peak_flops < a100.peak_flops
    with pytest.raises(ValueError, match="bandwidth"):
        replace(a100, bandwidth=0)


@pytest.fixture
def copied_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the tables that may be damaged; what was read before is forgotten, before and after."""
    (tmp_path / "primer" / "target").mkdir(parents=True)
    for name in ("models.json", "gpus.json", "primer/target/config.json"):
        shutil.copy(data_dir() / name, tmp_path / name)
    monkeypatch.setattr(published, "data_dir", lambda: tmp_path)
    published.models.cache_clear()
    published.gpus.cache_clear()
    yield tmp_path
    published.models.cache_clear()
    published.gpus.cache_clear()


DAMAGE = ["", "[]", "{}", "null", '{"read": "2026-01-01", "models": [1], "gpus": [1]}']
DAMAGE += ['{"read": "2026-01-01", "models": [{"key": "a"}], "gpus": [{"key": "a"}]}', '{"models": 3, "gpus": 3}']
DAMAGE += ['{"read": "2026-01-01", "models": {"key": "a"}, "gpus": {"key": "a"}}']


@pytest.mark.parametrize("content", DAMAGE)
@pytest.mark.parametrize("name", ["models", "gpus"])
def test_a_damaged_table_is_named_with_its_path(copied_data: Path, name: str, content: str) -> None:
    (copied_data / f"{name}.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{name}\.json is damaged \("):
        getattr(published, name)()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"model_type": "llama"}', b"\xff"])
def test_a_damaged_primer_is_named_with_its_path(copied_data: Path, content: bytes) -> None:
    (copied_data / "primer" / "target" / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"primer/target/config\.json (is damaged|cannot be used)"):
        published.models()


def test_the_copied_tables_are_whole(copied_data: Path) -> None:
    assert "primer" in published.models()
    assert "t4" in published.gpus()


@pytest.mark.parametrize("group", [3, {}, {"layers": 4, "colour": 1}, {"layers": "4"}, {"layers": 4, "d_head": 1.5}])
def test_a_wrong_layer_group_is_named(group: object) -> None:
    shape = {"n_layers": 4, "d_model": 8, "n_heads": 2, "d_ff": 16, "vocab_size": 10, "tied": True}
    with pytest.raises(ValueError, match=r"layer group|d_head must be"):
        published.build({**shape, "layers": [group]})
