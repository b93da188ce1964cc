"""The GGUF reader against files written byte by byte and by the `gguf` package; every damage is a sentence."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import tiny_gguf
from helpers import require
from kvlab import gguf, loading
from kvlab.models.convert import convert


def half(number: float) -> bytes:
    return struct.pack("<e", number)


def test_q4_1_is_scale_times_level_plus_smallest(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data, expected = b"", []
    for _ in range(6):  # two rows of three blocks
        scale, smallest = (np.float16(x) for x in rng.normal(size=2))
        levels = [int(level) for level in rng.integers(0, 16, 32)]
        data += half(scale) + half(smallest) + bytes(levels[i] + 16 * levels[i + 16] for i in range(16))
        expected += [np.float32(scale) * np.float32(level) + np.float32(smallest) for level in levels]
    file = gguf.open_gguf(tiny_gguf.write(tmp_path / "a.gguf", {"k": "v"}, {"w": ("Q4_1", (2, 96), data)}))
    found = file.read("w")
    assert (found.dtype, found.shape) == (np.float32, (2, 96))
    assert found.ravel().tolist() == [float(x) for x in expected]


def test_q8_0_is_scale_times_signed_byte(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data, expected = b"", []
    for _ in range(2):
        scale, levels = np.float16(rng.normal()), [int(level) for level in rng.integers(-128, 128, 32)]
        data += half(scale) + struct.pack("<32b", *levels)
        expected += [float(np.float32(scale) * np.float32(level)) for level in levels]
    file = gguf.open_gguf(tiny_gguf.write(tmp_path / "a.gguf", {}, {"w": ("Q8_0", (1, 64), data)}))
    assert file.read("w").ravel().tolist() == expected


def test_plain_types_and_several_tensors_each_in_its_place(tmp_path: Path) -> None:
    a, b = np.arange(7, dtype="<f4"), np.arange(12, dtype="<f2").reshape(3, 4) / 8
    tensors: Any = {"a": ("F32", (7,), a.tobytes()), "b": ("F16", (3, 4), b.tobytes())}
    file = gguf.open_gguf(tiny_gguf.write(tmp_path / "a.gguf", {}, tensors, version=2))
    assert file.read("a").tolist() == a.tolist()
    assert file.read("b").tolist() == b.tolist()
    with pytest.raises(ValueError, match="holds no tensor 'c'"):
        file.read("c")


def test_files_of_the_gguf_package_are_read_alike(tmp_path: Path) -> None:
    require("gguf")
    import gguf as theirs

    path = tmp_path / "theirs.gguf"
    writer = theirs.GGUFWriter(path, "llama")
    scalars: dict[str, tuple[str, Any]] = {
        "u8": ("uint8", 200),
        "i8": ("int8", -3),
        "u16": ("uint16", 60_000),
        "i16": ("int16", -30_000),
        "u32": ("uint32", 4_000_000_000),
        "i32": ("int32", -5),
        "u64": ("uint64", 2**63 + 1),
        "i64": ("int64", -(2**40)),
        "f32": ("float32", 0.5),
        "f64": ("float64", 0.1),
        "yes": ("bool", True),
        "text": ("string", "für €"),
    }
    for key, (kind, content) in scalars.items():
        getattr(writer, f"add_{kind}")(key, content)
    writer.add_array("words", ["a", "", "Ġb"])
    writer.add_array("numbers", [1, -2, 3])
    rng = np.random.default_rng(2)
    kinds = [theirs.GGMLQuantizationType[name] for name in ("Q4_1", "Q8_0", "F16", "F32")]
    for kind in kinds:
        weight = rng.normal(size=(5, 128)).astype(np.float32)
        writer.add_tensor(kind.name, theirs.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file, reader = gguf.open_gguf(path), theirs.GGUFReader(path)
    assert {key: file.metadata[key] for key in scalars} == {key: content for key, (_, content) in scalars.items()}
    assert (file.metadata["words"], file.metadata["numbers"]) == (["a", "", "Ġb"], [1, -2, 3])
    for tensor in reader.tensors:
        expected = theirs.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        found = file.read(tensor.name)
        assert found.shape == (5, 128)
        assert (found.view(np.uint32) == expected.view(np.uint32)).all(), tensor.name  # bit for bit


# --- bad files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "damaged: it ends"),
        (b"GGML" + bytes(40), "is not a GGUF file"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "GGUF version 50331648; only little-endian"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "damaged: it ends"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "damaged: it ends"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63), "damaged: it ends"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 5, 2**62), "damaged: it ends"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "unknown type 9"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77), "unknown type 77"),
        (b"GGUF" + struct.pack("<IQQQ1s", 3, 0, 1, 1, b"\xff"), "not UTF-8"),
    ],
)
def test_a_bad_header_is_a_sentence(tmp_path: Path, start: bytes, message: str) -> None:
    (tmp_path / "a.gguf").write_bytes(start)
    with pytest.raises(ValueError, match=message):
        gguf.open_gguf(tmp_path / "a.gguf")


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (("Q6_K", (1, 256), bytes(210)), r"'w' in .*a\.gguf is stored as Q6_K; only F32, F16, Q4_1, Q8_0 can be read"),
        ((99, (1, 32), bytes(20)), "is stored as number 99"),
        (("Q4_1", (2, 33), bytes(60)), r"of type Q4_1 has shape \(2, 33\)"),
        (("F32", (0, 4), b""), r"has shape \(0, 4\)"),
        (("F32", (2**40, 2**40), bytes(8)), "lies beyond its end"),
        (("F32", (1, 1, 1, 1, 1), bytes(4)), "has 5 dimensions"),
        (("F32", (3,), bytes(8)), "lies beyond its end"),
    ],
)
def test_a_bad_tensor_is_a_sentence(tmp_path: Path, tensor: Any, message: str) -> None:
    path = tiny_gguf.write(tmp_path / "a.gguf", {}, {"w": tensor})
    with pytest.raises(ValueError, match=message):
        gguf.open_gguf(path)


def test_a_bad_alignment_is_a_sentence(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "a.gguf", {"general.alignment": 0}, {})
    with pytest.raises(ValueError, match="an alignment of 0"):
        gguf.open_gguf(path)


SMALL = {"general.name": "x", "list": ["a", "b"], "n": 3, "f": 0.5}
TENSORS: Any = {"w": ("Q4_1", (1, 32), bytes(range(20))), "b": ("F32", (4,), bytes(16))}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_cut_and_no_changed_byte_ends_in_another_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = tiny_gguf.write(tmp_path / "a.gguf", SMALL, TENSORS).read_bytes()
    if data.draw(st.booleans()):
        (tmp_path / "b.gguf").write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        with pytest.raises(ValueError, match=r"damaged|not a GGUF"):
            gguf.open_gguf(tmp_path / "b.gguf")
        return
    place, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
    (tmp_path / "b.gguf").write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
    try:
        file = gguf.open_gguf(tmp_path / "b.gguf")
    except ValueError:
        return
    for name in file.tensors:
        assert file.read(name).dtype == np.float32


# --- conversion ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    convert(tiny_gguf.llama(tmp_path / "tiny.gguf"), tmp_path / "model")
    return tmp_path / "model"


def test_the_weights_come_back_in_hugging_faces_order(folder: Path) -> None:
    found, expected = load_file(folder / "model.safetensors"), tiny_gguf.weights()
    assert found.keys() == expected.keys()
    for name in found:
        assert found[name].dtype == np.float16
        assert (found[name] == expected[name]).all(), name


def test_the_folder_is_a_model_that_loads(folder: Path) -> None:
    model = loading.load(folder, "cpu")
    assert model.config == tiny_gguf.CONFIG
    tokenizer = model.tokenizer
    assert tokenizer is not None
    assert (tokenizer.bos_id, tokenizer.eos_id) == (None, 2)  # add_bos_token is false
    text = "mom abc the 1212 é<|im_end|>"
    assert tokenizer.pieces(tokenizer.encode(text))[:8] == ["mom", " ", "abc", " the", " ", "1", "2", "1"]
    assert tokenizer.decode(tokenizer.encode(text), special=True) == text


def test_transformers_reads_the_same_model_from_the_gguf_file_and_from_the_folder(folder: Path) -> None:
    for name in ("transformers", "gguf", "accelerate"):
        require(name)
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    ids = torch.arange(3, 60)
    ours = loading.load(folder, "cpu")
    theirs = AutoModelForCausalLM.from_pretrained(folder.parent, gguf_file="tiny.gguf", dtype=torch.float32)
    converted = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = ours(ids)
        assert (logits - theirs(ids[None]).logits[0]).abs().max() < 1e-4
        assert (logits - converted(ids[None]).logits[0]).abs().max() < 1e-4
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert ours.tokenizer is not None
    text = "mom abc the 1212 é<|im_end|>"
    assert tokenizer(text)["input_ids"] == ours.tokenizer.encode(text)


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({"general.architecture": "gemma3"}, {}, "type 'gemma3'; only 'llama'"),
        ({"general.architecture": None}, {}, "lacks 'general.architecture'"),
        ({"llama.block_count": tiny_gguf.U32(3)}, {}, r"lacks the tensor 'blk\.2\.attn_norm\.weight'"),
        ({"llama.block_count": tiny_gguf.U32(2**32 - 1)}, {}, r"lacks the tensor 'blk\.2\.attn_norm\.weight'"),
        ({"llama.block_count": tiny_gguf.U32(1)}, {}, r"holds 'blk\.1\.\w+\.weight', which"),
        ({"llama.block_count": "two"}, {}, r"lacks 'llama\.block_count', or it is of another type"),
        ({"llama.attention.head_count": tiny_gguf.U32(0)}, {}, "0 heads do not divide"),
        ({"llama.attention.head_count": tiny_gguf.U32(8)}, {}, "its metadata asks for"),
        ({"llama.attention.head_count_kv": tiny_gguf.U32(3)}, {}, "multiple of n_kv_heads"),
        (
            {"llama.feed_forward_length": tiny_gguf.U32(32)},
            {},
            r"has shape \(96, 64\), its metadata asks for \(32, 64\)",
        ),
        ({"tokenizer.ggml.pre": "llama-bpe"}, {}, "tokenizer of kind .gpt2/llama-bpe."),
        ({"tokenizer.ggml.merges": ["a zz"]}, {}, "merges and tokens do not fit"),
        ({"tokenizer.ggml.merges": ["a"]}, {}, "merges and tokens do not fit"),
        ({"tokenizer.ggml.token_type": [1]}, {}, "270 tokens but 1 token types"),
        ({"tokenizer.ggml.eos_token_id": tiny_gguf.U32(9999)}, {}, "eos_token_id is 9999, but there are 270"),
        ({"tokenizer.chat_template": 3}, {}, "tokenizer.chat_template"),
        ({}, {"output_norm.weight": None}, r"lacks the tensor 'output_norm\.weight'"),
        ({}, {"extra.weight": ("F32", (1,), bytes(4))}, r"holds 'extra\.weight', which"),
        ({}, {"output_norm.weight": ("F32", (64,), np.full(64, np.nan, "<f4").tobytes())}, "no numbers or too large"),
        ({}, {"output_norm.weight": ("F32", (64,), np.full(64, 1e6, "<f4").tobytes())}, "no numbers or too large"),
    ],
)
def test_a_file_that_is_no_such_model_is_a_sentence(
    tmp_path: Path, metadata: dict[str, Any], tensors: dict[str, Any], message: str
) -> None:
    all_metadata = {k: v for k, v in (tiny_gguf.llama_metadata() | metadata).items() if v is not None}
    all_tensors = {k: v for k, v in (tiny_gguf.llama_tensors() | tensors).items() if v is not None}
    path = tiny_gguf.write(tmp_path / "a.gguf", all_metadata, all_tensors)
    (tmp_path / "model").mkdir()
    with pytest.raises(ValueError, match=message):
        convert(path, tmp_path / "model")
    assert not list((tmp_path / "model").iterdir())


@pytest.mark.parametrize("storage", ["Q6_K", "Q4_1"])
def test_a_message_shows_little_of_an_endless_name(tmp_path: Path, storage: str) -> None:
    """A damaged file may hold a name of millions of characters, with line breaks and escape codes."""
    name = "\x1b[31m\n" + "x" * 3_000_000
    tensor: Any = (storage, (1, 256) if storage == "Q6_K" else (1, 33), bytes(210))
    path = tiny_gguf.write(tmp_path / "a.gguf", {}, {name: tensor})
    with pytest.raises(ValueError) as caught:
        gguf.open_gguf(path)
    assert len(str(caught.value)) < 300 and str(caught.value).isprintable()
    kind = tiny_gguf.llama_metadata() | {"general.architecture": name}
    with pytest.raises(ValueError, match="is a model of type") as caught:
        convert(tiny_gguf.write(tmp_path / "b.gguf", kind, tiny_gguf.llama_tensors()), tmp_path)
    assert len(str(caught.value)) < 300 and str(caught.value).isprintable()


def test_sizes_that_make_no_model_are_told_with_the_file(tmp_path: Path) -> None:
    metadata = tiny_gguf.llama_metadata() | {"llama.attention.layer_norm_rms_epsilon": float("nan")}
    path = tiny_gguf.write(tmp_path / "a.gguf", metadata, tiny_gguf.llama_tensors())
    with pytest.raises(ValueError, match=r"a\.gguf is damaged: .*eps"):
        convert(path, tmp_path)
