"""Plain-data messages between the grader and the jail: a JSON header, then the raw bytes of arrays. No pickle.

What can travel: None, bool, int, float, str, bytes, list, tuple, dict, numpy arrays and scalars, torch tensors, and three
stand-ins: `Handle` (an object that only the grader holds), `Callback` (a function of the grader, called over the pipe)
and `Opaque` (something that can't travel; only its type's name does). Decoding builds nothing else, checks every
length before it allocates, and gives tensors back as numpy arrays unless a `tensor` function is passed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_HEADER = 8 << 20  # bytes
MAX_BODY = 16 << 20
MAX_VALUES = 200_000  # Python objects in one message
MAX_DEPTH = 30
MAX_TEXT = 100_000
MAX_KEYS = 1000  # of one dict: integers can be made to collide
MAX_AXES = 16
MAX_DIGITS = 4000
HEAD = struct.Struct(">II")
_KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
DTYPES = frozenset({"bool", "complex64", "complex128", *_KINDS})


class WireError(ValueError):
    """Bytes that are not a message, or a value too large for one."""


@dataclass(frozen=True)
class Handle:
    """An object that stays in the grader; the learner's code can only pass it on."""

    number: int


@dataclass(frozen=True)
class Callback:
    """A function of the grader."""

    name: str


@dataclass(frozen=True)
class Opaque:
    """What stands in a result for an object that is no plain data."""

    type_name: str

    def __repr__(self) -> str:
        return f"an object of type {self.type_name}"


def pack(value: Any) -> bytes:
    """One message. Raises WireError when it is too large; objects that are no plain data become `Opaque`."""
    packer = _Packer()
    header = json.dumps(packer.tree(value, 0), separators=(",", ":")).encode()
    if len(header) > MAX_HEADER or packer.size > MAX_BODY:
        raise WireError("the result is too large to be looked at")
    return b"".join([HEAD.pack(len(header), packer.size), header, *packer.parts])


def sizes(head: bytes) -> tuple[int, int]:
    """(header bytes, body bytes) that follow an 8-byte head. Raises WireError when they are beyond the limits."""
    header, body = HEAD.unpack(head)
    if header > MAX_HEADER or body > MAX_BODY:
        raise WireError("a message is larger than any may be")
    return header, body


def unpack(header: bytes, body: bytes, tensor: Callable[[np.ndarray], Any] | None = None) -> Any:
    """The value of a message. Raises WireError for anything that `pack` does not write."""
    try:
        tree = json.loads(header)
        return _Unpacker(body, tensor).value(tree, 0)
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError, AttributeError) as error:
        raise WireError(f"not a message: {type(error).__name__}") from None


class _Packer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.count = 0

    def tree(self, value: Any, depth: int) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or depth > MAX_DEPTH:
            raise WireError("the result holds too many values, or is nested too deeply")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            if len(value) > MAX_TEXT:
                raise WireError("the result is a text of more than 100,000 characters")
            return {"s": str(value)}
        if isinstance(value, bytes):
            if len(value) > MAX_TEXT:
                raise WireError("the result is a bytes object of more than 100,000 bytes")
            return {"b": value.decode("latin-1")}
        if isinstance(value, float) and not isinstance(value, np.generic):
            return float(value)
        if isinstance(value, int):
            if value.bit_length() > MAX_DIGITS * 3:
                raise WireError("the result is an integer of thousands of digits")
            return int(value)
        if isinstance(value, Handle):
            return {"h": value.number}
        if isinstance(value, Callback):
            return {"c": value.name}
        if isinstance(value, Opaque):
            return {"o": value.type_name[:100]}
        if isinstance(value, np.ndarray | np.generic):
            return self.array(np.asarray(value), "np", depth)
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
            return self.array(_tensor_array(value), "torch", depth)
        if isinstance(value, tuple):
            return {"t": [self.tree(item, depth + 1) for item in value]}
        if isinstance(value, list | range):
            return {"l": [self.tree(item, depth + 1) for item in value]}
        if isinstance(value, Mapping):
            if len(value) > MAX_KEYS:
                raise WireError("the result is a dict of more than 1,000 keys")
            return {"d": [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in value.items()]}
        return {"o": type(value).__name__[:100]}

    def array(self, array: np.ndarray, kind: str, depth: int) -> Any:
        if array.nbytes + self.size > MAX_BODY:  # before any copy: a stride trick can claim more than there is
            raise WireError("the result is too large to be looked at")
        if array.dtype == object:  # Python integers too large for int64, for example
            if array.ndim == 0:
                return {"o": type(array.item()).__name__[:100]}
            return self.tree(array.tolist(), depth + 1)
        if array.dtype.kind in "fc" and array.dtype.name not in DTYPES:  # long doubles
            array = array.astype(np.float64 if array.dtype.kind == "f" else np.complex128)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if array.dtype.name not in DTYPES:
            return {"o": f"array of {array.dtype.name}"[:100]}
        data = array.tobytes()
        entry = {"a": [self.size, len(data), array.dtype.name, list(array.shape), kind]}
        self.parts.append(data)
        self.size += len(data)
        return entry


def _tensor_array(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # numpy has none; float32 holds it exactly
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


class _Unpacker:
    def __init__(self, body: bytes, tensor: Callable[[np.ndarray], Any] | None) -> None:
        self.body = body
        self.tensor = tensor
        self.count = 0
        self.consumed = 0  # bytes of the body: no two arrays may claim the same ones

    def value(self, tree: Any, depth: int) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or depth > MAX_DEPTH + 1:
            raise WireError("a message holds too many values")
        if tree is None or isinstance(tree, bool | int | float):
            return tree
        if not isinstance(tree, dict) or len(tree) != 1:
            raise WireError("not a message: an unknown form")
        ((tag, item),) = tree.items()
        if tag == "s" and isinstance(item, str) and len(item) <= MAX_TEXT:
            return item
        if tag == "b" and isinstance(item, str) and len(item) <= MAX_TEXT:
            return item.encode("latin-1")
        if tag == "l":
            return [self.value(part, depth + 1) for part in _list(item)]
        if tag == "t":
            return tuple(self.value(part, depth + 1) for part in _list(item))
        if tag == "d":
            if len(_list(item)) > MAX_KEYS:
                raise WireError("a message holds a dict of too many keys")
            return {self.value(k, depth + 1): self.value(v, depth + 1) for k, v in item}
        if tag == "a":
            return self.array(*_list(item))
        if tag == "h" and type(item) is int:
            return Handle(item)
        if tag == "c" and isinstance(item, str):
            return Callback(item)
        if tag == "o" and isinstance(item, str) and len(item) <= MAX_TEXT:
            return Opaque(item)
        raise WireError("not a message: an unknown form")

    def array(self, start: int, length: int, dtype: str, shape: list[int], kind: str) -> Any:
        if dtype not in DTYPES or not isinstance(shape, list) or len(shape) > MAX_AXES:
            raise WireError("not a message: an unknown array")
        if not all(type(n) is int and 0 <= n <= MAX_BODY for n in (start, length, *shape)):
            raise WireError("not a message: an unknown array")
        size = np.dtype(dtype).itemsize
        for n in shape:  # Python integers: no overflow
            size *= n
        if size != length or start != self.consumed or start + length > len(self.body):
            raise WireError("not a message: an array of the wrong length")
        self.consumed += length
        array = np.frombuffer(self.body[start : start + length], dtype=dtype).reshape(shape).copy()
        return self.tensor(array) if kind == "torch" and self.tensor else array


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WireError("not a message: a list is missing")
    return value
