"""Read a GGUF file, llama.cpp's format of one model in one file: its metadata, and its tensors as float32.

Only the storage types that the course meets are read: F32, F16, Q8_0 and Q4_1. Everything in the file is checked
against its length before it is used, so a damaged file ends in a ValueError and not in a crash or full memory.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

MAGIC = b"GGUF"
VERSIONS = (2, 3)
BLOCK = 32  # weights that share one scale in the quantised types
MAX_DIMS = 4
STRING, ARRAY = 8, 9
# Type numbers of metadata values, with struct's letter for each. Text and arrays are read by hand.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Names of other storage types, for the sentence that refuses them.
OTHERS = {2: "Q4_0", 6: "Q5_0", 7: "Q5_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 30: "BF16"}


def _f32(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<f4").astype(np.float32)


def _f16(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<f2").astype(np.float32)


def _q8_0(data: bytes) -> np.ndarray:
    """Blocks of 32: a scale, then 32 signed bytes. A weight is scale * byte."""
    blocks = np.frombuffer(data, [("scale", "<f2"), ("levels", "i1", BLOCK)])
    return (blocks["scale"].astype(np.float32)[:, None] * blocks["levels"].astype(np.float32)).ravel()


def _q4_1(data: bytes) -> np.ndarray:
    """Blocks of 32: a scale, the smallest weight, then 16 bytes. A weight is scale * level + smallest, level 0 to 15.

    The low halves of the 16 bytes are the levels of the first 16 weights, the high halves those of the others.
    """
    blocks = np.frombuffer(data, [("scale", "<f2"), ("smallest", "<f2"), ("pairs", "u1", BLOCK // 2)])
    levels = np.concatenate([blocks["pairs"] & 15, blocks["pairs"] >> 4], axis=1).astype(np.float32)
    return (
        blocks["scale"].astype(np.float32)[:, None] * levels + blocks["smallest"].astype(np.float32)[:, None]
    ).ravel()


@dataclass(frozen=True)
class Storage:
    """How a storage type keeps weights: `size` bytes for every `block` weights of a row."""

    name: str
    block: int
    size: int
    decode: Callable[[bytes], np.ndarray]


STORAGE = {
    0: Storage("F32", 1, 4, _f32),
    1: Storage("F16", 1, 2, _f16),
    3: Storage("Q4_1", BLOCK, 20, _q4_1),
    8: Storage("Q8_0", BLOCK, 34, _q8_0),
}


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor is. `shape` is in numpy's order, rows first; the file keeps it the other way round."""

    shape: tuple[int, ...]
    storage: Storage
    start: int
    size: int


@dataclass(frozen=True)
class Gguf:
    """An opened file: `metadata` by key, `tensors` by name."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo] = field(repr=False)

    def read(self, name: str) -> np.ndarray:
        """One tensor as float32. Raises ValueError when the file has no such tensor."""
        if name not in self.tensors:
            raise ValueError(f"{self.path} holds no tensor {name!r:.60}")
        info = self.tensors[name]
        with self.path.open("rb") as file:
            file.seek(info.start)
            data = file.read(info.size)
        if len(data) != info.size:
            raise ValueError(f"{self.path} was cut short while it was read")
        return info.storage.decode(data).reshape(info.shape)


def open_gguf(path: Path) -> Gguf:
    """Read the header of a GGUF file. Raises ValueError for another format, damage, or a type that can't be read."""
    with path.open("rb") as file:
        return _Header(path, file).parse()


class _Header:
    """Reads the part before the tensors, never beyond the end of the file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file = path, file
        self.length = path.stat().st_size

    def parse(self) -> Gguf:
        if self.take(4) != MAGIC:
            raise ValueError(f"{self.path} is not a GGUF file: it does not begin with the letters GGUF")
        version = self.scalar("I")
        if version not in VERSIONS:
            raise ValueError(f"{self.path} is GGUF version {version}; only little-endian versions 2 and 3 can be read")
        n_tensors, n_values = self.scalar("Q"), self.scalar("Q")
        metadata: dict[str, Any] = {}
        for _ in range(n_values):
            key = self.text()
            if key in metadata:
                raise self.damaged(f"the key {key!r:.60} occurs twice")
            metadata[key] = self.value(self.scalar("I"))
        entries = [self.tensor_entry() for _ in range(n_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            raise self.damaged(f"an alignment of {alignment!r:.40}")
        base = -(-self.file.tell() // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for name, shape, storage, offset in entries:
            if name in tensors:
                raise self.damaged(f"the tensor {name!r:.60} occurs twice")
            tensors[name] = self.locate(name, shape, storage, base + offset)
        return Gguf(self.path, metadata, tensors)

    def tensor_entry(self) -> tuple[str, tuple[int, ...], Storage, int]:
        name = self.text()
        n_dims = self.scalar("I")
        if not 1 <= n_dims <= MAX_DIMS:
            raise self.damaged(f"the tensor {name!r:.60} has {n_dims} dimensions")
        shape = tuple(self.scalar("Q") for _ in range(n_dims))[::-1]
        number = self.scalar("I")
        if number not in STORAGE:
            known = ", ".join(storage.name for storage in STORAGE.values())
            kind = OTHERS.get(number, f"number {number}")
            raise ValueError(f"the tensor {name!r:.60} in {self.path} is stored as {kind}; only {known} can be read")
        return name, shape, STORAGE[number], self.scalar("Q")

    def locate(self, name: str, shape: tuple[int, ...], storage: Storage, start: int) -> TensorInfo:
        if 0 in shape or shape[-1] % storage.block:
            raise self.damaged(f"the tensor {name!r:.60} of type {storage.name} has shape {shape}")
        size = math.prod(shape) // storage.block * storage.size
        if start + size > self.length:
            raise self.damaged(f"the tensor {name!r:.60} lies beyond its end, so it was cut short")
        return TensorInfo(shape, storage, start, size)

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.scalar(self.letter(kind))
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind == STRING:
            return [self.text() for _ in range(count)]  # a count too large meets the file's end
        letter = self.letter(kind)
        data = self.take(count * struct.calcsize("<" + letter))
        return list(struct.unpack(f"<{count}{letter}", data))

    def letter(self, kind: int) -> str:
        if kind not in SCALARS:
            raise self.damaged(f"a value of unknown type {kind}")
        return SCALARS[kind]

    def scalar(self, letter: str) -> Any:
        (value,) = struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter)))
        return value

    def text(self) -> str:
        try:
            return self.take(self.scalar("Q")).decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged("a text that is not UTF-8") from None

    def take(self, count: int) -> bytes:
        if count > self.length - self.file.tell():  # before reading: a damaged count may be astronomic
            raise self.damaged("it ends in the middle of its header")
        return self.file.read(count)

    def damaged(self, what: str) -> ValueError:
        return ValueError(f"{self.path} is damaged: {what}")
