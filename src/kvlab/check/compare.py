"""Compare a learner's result with the expected one, and say in words where they part.

Arrays, tensors of any library with `detach`, numpy and Python scalars and nested lists all count as numbers of some
shape; types don't matter, shapes and values do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_SHOWN = 8  # values in a message; more would be a wall of numbers


@dataclass(frozen=True)
class Difference:
    """What was expected, what came, and, if it helps, where."""

    expected: str
    actual: str
    where: str = ""


def difference(actual: Any, expected: Any, rtol: float | None = None, atol: float = 0.0) -> Difference | None:
    """None when they agree. Exact when `rtol` is None, else |actual - expected| <= atol + rtol·|expected|."""
    return _compare(actual, expected, rtol, atol, "")


def to_array(value: Any) -> np.ndarray | None:
    """The value as a numpy array of numbers or booleans, or None when it is none (text, ragged lists, objects)."""
    if hasattr(value, "detach"):  # a torch tensor; numpy has no bfloat16, and float32 holds it exactly
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if isinstance(value, bool | int | float | complex | np.generic | np.ndarray):
        out = np.asarray(value)
        if out.dtype.kind in "biufc":
            return out
        return out if out.dtype == object and all(isinstance(item, int) for item in out.flat) else None
    if isinstance(value, list | tuple | range):
        parts = [to_array(item) for item in value]
        if any(part is None for part in parts):
            return None
        arrays = [part for part in parts if part is not None]
        if len({part.shape for part in arrays}) > 1:
            return None
        return np.stack(arrays) if arrays else np.zeros(0)
    return None


def describe(value: Any) -> str:
    """A value in a message: short, and without type names where the value says it all."""
    array = to_array(value)
    if array is None:
        text = repr(value)
        return text if len(text) <= 200 else text[:197] + "..."
    if array.size <= _SHOWN:
        return _plain(array)
    flat = ", ".join(_plain(item) for item in array.reshape(-1)[:4])
    return f"shape {shape_text(array)}, values {flat}, …"


def shape_text(array: np.ndarray) -> str:
    """A shape as a reader writes it: (2, 3), or "a single number"."""
    return str(tuple(array.shape)) if array.ndim else "a single number"


def _compare(actual: Any, expected: Any, rtol: float | None, atol: float, path: str) -> Difference | None:
    if actual is None and expected is not None:
        return Difference(describe(expected), "None: is a `return` missing?", path)
    want = to_array(expected)
    if want is not None:
        have = to_array(actual)
        if have is None:
            return _not_numbers(actual, want, path)
        return _numbers(have, want, rtol, atol, path)
    if isinstance(expected, Mapping):
        return _mappings(actual, expected, rtol, atol, path)
    if isinstance(expected, list | tuple):
        return _sequences(actual, expected, rtol, atol, path)
    same = type(actual) is type(expected) or isinstance(actual, type(expected))
    return None if same and actual == expected else Difference(describe(expected), describe(actual), path)


def _not_numbers(actual: Any, want: np.ndarray, path: str) -> Difference:
    if isinstance(actual, list | tuple):
        return Difference(f"numbers of shape {shape_text(want)}", f"{describe(actual)}, not one block of numbers", path)
    return Difference(_numbers_text(want), f"{describe(actual)} (of type {type(actual).__name__})", path)


def _numbers_text(want: np.ndarray) -> str:
    return _plain(want) if want.size <= _SHOWN else f"numbers of shape {shape_text(want)}"


def _numbers(have: np.ndarray, want: np.ndarray, rtol: float | None, atol: float, path: str) -> Difference | None:
    if have.shape != want.shape:
        came = f"shape {shape_text(have)}: {describe(have)}" if have.size <= _SHOWN else describe(have)
        return Difference(f"shape {shape_text(want)}", came, path)
    ok = _equal(have, want) if rtol is None else _close(have, want, rtol, atol)
    if ok.all():
        return None
    index = tuple(int(i) for i in np.argwhere(~ok)[0]) if want.ndim else ()
    if want.size <= _SHOWN:
        return Difference(_plain(want), _plain(have), path + _index_text(index))
    wrong = int((~ok).sum())
    where = f"{path}{_index_text(index)}, the first of {wrong} values out of {want.size} that differ"
    return Difference(_plain(want[index]), _plain(have[index]), where)


def _equal(have: np.ndarray, want: np.ndarray) -> np.ndarray:
    equal = np.asarray(have == want)
    if have.dtype.kind in "fc" and want.dtype.kind in "fc":
        equal = equal | (np.isnan(have) & np.isnan(want))
    return equal


def _close(have: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    complex_ = "c" in (have.dtype.kind, want.dtype.kind)
    a, b = (x.astype(np.complex128 if complex_ else np.float64) for x in (have, want))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= atol + rtol * np.abs(b)
    near &= np.isfinite(b) & np.isfinite(a)  # an infinite expected value would make any finite one "near"
    return near | (a == b) | (np.isnan(a) & np.isnan(b))


def _mappings(
    actual: Any, expected: Mapping[Any, Any], rtol: float | None, atol: float, path: str
) -> Difference | None:
    if not isinstance(actual, Mapping):
        return Difference(f"a dict with keys {list(expected)}", describe(actual), path)
    if set(actual) != set(expected):
        return Difference(f"keys {list(expected)}", f"keys {list(actual)}", path)
    for key, value in expected.items():
        found = _compare(actual[key], value, rtol, atol, f"{path}[{key!r}]")
        if found:
            return found
    return None


def _sequences(actual: Any, expected: Any, rtol: float | None, atol: float, path: str) -> Difference | None:
    if not isinstance(actual, list | tuple) and not hasattr(actual, "tolist"):
        return Difference(describe(expected), describe(actual), path)
    if len(actual) != len(expected):
        return Difference(f"{len(expected)} items: {describe(expected)}", f"{len(actual)}: {describe(actual)}", path)
    for i, value in enumerate(expected):
        found = _compare(actual[i], value, rtol, atol, f"{path}[{i}]")
        if found:
            return found
    return None


def _index_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _plain(array: Any) -> str:
    """Numbers as text: 0.1 and not np.float32(0.1), six digits where there are more."""

    def text(item: Any) -> str:
        if isinstance(item, list):
            return "[" + ", ".join(text(x) for x in item) + "]"
        return f"{item:.6g}" if isinstance(item, float) and not item.is_integer() else str(item)

    return text(np.asarray(array).tolist())
