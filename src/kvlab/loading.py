"""Find a model by name or folder and build it: the primer models, or a Hugging Face checkpoint of the Llama type."""

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from kvlab import models
from kvlab.arithmetic import format_bytes, weight_bytes
from kvlab.config import ModelConfig
from kvlab.machine import available_memory
from kvlab.model import Llama
from kvlab.models.hub import download, is_hub_name
from kvlab.paths import data_dir
from kvlab.tokenizer import Tokenizer
from kvlab.validate import where_to_write

PRIMER = {"primer": "target", "primer-draft": "draft", "primer-mha": "mha"}
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_IN_A_NOTEBOOK = "In a notebook: " + where_to_write('MODEL = "primer"')


def load(name: str | Path = "primer", device: str = "auto", dtype: torch.dtype | None = None) -> Llama:
    """A trained model, ready for inference: a primer model by name, one that `kvlab models add` brought, any folder with
    config.json and safetensors, or a checkpoint of the Hugging Face hub ("OWNER/NAME"; not tested against the hub).

    `model.tokenizer` is the one in the folder, or None. `dtype` defaults to float32.
    Raises ValueError, with what to do, for an unknown name or missing, damaged or foreign files.
    """
    kind = _dtype(dtype)
    folder = _find(name)
    config = ModelConfig.from_file(folder / "config.json")
    weights = _read_weights(folder)
    if config.tied:
        weights.pop("lm_head.weight", None)
        weights["lm_head.weight"] = weights.get("model.embed_tokens.weight", torch.empty(0))
    with torch.device("meta"):
        model = Llama(config)
    _check_weights(model, weights, folder)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    tokenizer = next((p for p in (folder / "tokenizer.json", folder.parent / "tokenizer.json") if p.exists()), None)
    if tokenizer is None and str(name) in PRIMER:
        raise ValueError(f"there is no tokenizer at {folder.parent / 'tokenizer.json'}: restore it from the repository")
    model.tokenizer = None if tokenizer is None else Tokenizer.from_file(tokenizer, config.vocab_size)
    target = _device(device)
    model.reset_rope(kind)
    return model.to(target, kind).eval().requires_grad_(False)


def random_model(
    shape: str | ModelConfig, device: str = "auto", dtype: torch.dtype | None = None, seed: int = 0
) -> Llama:
    """A model of a published shape (`"llama-3.2-1b"`) or of a given configuration, with random weights.

    It profiles like the real one and needs no download; its text is noise.
    Raises ValueError for an unknown shape, or one whose weights are larger than the free memory.
    """
    if isinstance(shape, str):
        from kvlab.published import model as published

        config = ModelConfig(**published(shape).to_config())
    else:
        config = shape
    target, kind = _device(device), _dtype(dtype)
    check_memory(config, target, kind)
    with torch.device("meta"):
        model = Llama(config)
    model = model.to(kind).to_empty(device=target)
    model.tie_weights()
    initialise(model, torch.Generator(target).manual_seed(seed))
    model.reset_rope(kind, target)
    return model.eval().requires_grad_(False)


def initialise(model: Llama, generator: torch.Generator | None = None) -> None:
    """Normal weights that keep the residual stream's size: 1/sqrt(fan-in), smaller where a block writes back."""
    depth = (2 * model.config.n_layers) ** -0.5
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.fill_(1.0)
            elif "embed_tokens" in name or "lm_head" in name:
                weight.normal_(0, 0.02, generator=generator)
            else:
                writes_back = "o_proj" in name or "down_proj" in name
                weight.normal_(0, weight.shape[1] ** -0.5 * (depth if writes_back else 1.0), generator=generator)


def save(model: Llama, folder: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write config.json and model.safetensors as `transformers` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    skip = {"lm_head.weight"} if model.config.tied else set()
    weights = {k: v.detach().to("cpu", dtype).contiguous() for k, v in model.state_dict().items() if k not in skip}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_hf() | {"dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def check_memory(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> None:
    """ValueError before a model is made that the machine cannot hold: filling memory stops everything else on it."""
    needed = weight_bytes(config, dtype.itemsize)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_memory()
    if needed > free:
        raise ValueError(
            f"the weights take {format_bytes(needed)} in {dtype}, but {format_bytes(free)} are free: "
            f"choose a smaller shape or dtype=torch.bfloat16"
        )


def _find(name: str | Path) -> Path:
    if isinstance(name, str) and name in PRIMER:
        return data_dir() / "primer" / PRIMER[name]
    if name == "minilm":
        raise ValueError(
            "minilm turns sentences into vectors and generates no text: use kvlab.embeddings.MiniLM.load(). "
            + _IN_A_NOTEBOOK
        )
    if isinstance(name, str) and name in models.ADDABLE:
        return models.path(name)
    if isinstance(name, str | Path) and os.path.isdir(name):  # Path.is_dir raises for a name that is too long
        return Path(name)
    if is_hub_name(name):
        return download(str(name))
    raise ValueError(
        f"there is no model '{name}': use one of {', '.join((*PRIMER, 'smollm2'))} (`kvlab models` lists them), "
        "or the path of a folder that holds config.json and model.safetensors. " + _IN_A_NOTEBOOK
    )


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"there are no weights (*.safetensors) in {folder}: restore them from where they came from")
    weights: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            weights |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"the weights {file} are damaged ({error}): restore them from where they came from"
            ) from error
    return weights


def _check_weights(model: Llama, weights: dict[str, torch.Tensor], folder: Path) -> None:
    expected = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    for name, shape in expected.items():
        if name not in weights:
            raise ValueError(f"the weights in {folder} lack '{name}': the file does not belong to its config.json")
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"'{name}' in {folder} has shape {tuple(weights[name].shape)}, but config.json asks for {shape}"
            )
    for name in set(weights) - set(expected):
        if not name.endswith("rotary_emb.inv_freq"):
            raise ValueError(f"the weights in {folder} hold '{name}', which this decoder does not have")
        del weights[name]


def _dtype(dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(str, DTYPES))}, or None for float32; got {dtype!r}")
    return dtype or torch.float32


def _device(device: str) -> torch.device:
    from kvlab.profiling import pick_device

    return pick_device(device)
