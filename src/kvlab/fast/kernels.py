"""The inner loops, compiled by numba: one row times one vector for each number format, and a few helpers.

The compiler (LLVM) turns a loop over a row into vector instructions only when every step is plain: no 64-bit
intermediate, which numba's promotion rules would give (int32 * int32 is int64), and sums that may be reordered.
So the small steps are written as LLVM instructions of exactly the width that is meant.
All of it is generic code: nothing here asks for a certain processor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic, overload

from kvlab.fast.int4 import row_of_32, row_of_64

I8, I16, I32, I64, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()

# Sums may be reordered and fused. NaN and inf keep their meaning: the sampler must see them.
FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}
SOURCES = [p.stat() for p in sorted(Path(__file__).parent.glob("*.py"))]
STAMP = (max(s.st_mtime for s in SOURCES), sum(s.st_size for s in SOURCES))


def compiled(function: Callable) -> Any:
    """`function` compiled by numba for each set of argument types, and kept on disk for the next process.

    numba takes what it kept as stale when the function's own file has changed. These functions call each other across
    files, so here a change in any file of the package counts.
    """
    dispatcher: Any = njit(function, nogil=True, fastmath=FAST, error_model="numpy")
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # no folder that can be written: each process compiles for itself
        return dispatcher
    dispatcher._cache._cache_file._source_stamp = STAMP
    return dispatcher


# --- single instructions ---------------------------------------------------------------------------------------------


@intrinsic
def from_bf16(context: Any, bits: Any) -> tuple[Any, Callable]:
    """float32 from the bits of a bfloat16: the same number with sixteen more zero bits."""

    def build(_: Any, b: Any, __: Any, args: Any) -> Any:
        return b.bitcast(b.shl(b.zext(args[0], I32), ir.Constant(I32, 16)), F32)

    return types.float32(types.uint16), build


@intrinsic
def to_bf16(context: Any, value: Any) -> tuple[Any, Callable]:
    """The bits of the nearest bfloat16, ties to even."""

    def build(_: Any, b: Any, __: Any, args: Any) -> Any:
        bits = b.bitcast(args[0], I32)
        last = b.and_(b.lshr(bits, ir.Constant(I32, 16)), ir.Constant(I32, 1))
        return b.trunc(b.lshr(b.add(bits, b.add(last, ir.Constant(I32, 0x7FFF))), ir.Constant(I32, 16)), I16)

    return types.uint16(types.float32), build


@intrinsic
def power_of_two(context: Any, exponent: Any) -> tuple[Any, Callable]:
    """2^exponent for a whole float32 from -126 to 127."""

    def build(_: Any, b: Any, __: Any, args: Any) -> Any:
        biased = b.add(b.fptosi(args[0], I32), ir.Constant(I32, 127))
        return b.bitcast(b.shl(biased, ir.Constant(I32, 23)), F32)

    return types.float32(types.float32), build


@intrinsic
def add_product(context: Any, total: Any, code: Any, x: Any) -> tuple[Any, Callable]:
    """total + code * x in int32, of int8 and int16."""

    def build(_: Any, b: Any, __: Any, args: Any) -> Any:
        return b.add(args[0], b.mul(b.sext(args[1], I32), b.sext(args[2], I32)))

    return types.int32(types.int32, types.int8, types.int16), build


@intrinsic
def atomic_add(context: Any, counter: Any, value: Any) -> tuple[Any, Callable]:
    """Add to counter[0], an int64 that threads share."""

    def build(ctx: Any, b: Any, signature: Any, args: Any) -> Any:
        data = ctx.make_array(signature.args[0])(ctx, b, args[0]).data
        b.atomic_rmw("add", data, args[1], "seq_cst")
        return ctx.get_dummy_value()

    return types.void(counter, types.int64), build


@intrinsic
def atomic_load(context: Any, counter: Any) -> tuple[Any, Callable]:
    """Read counter[0], an int64 that threads share."""

    def build(ctx: Any, b: Any, signature: Any, args: Any) -> Any:
        data = ctx.make_array(signature.args[0])(ctx, b, args[0]).data
        return b.load_atomic(data, "seq_cst", 8)

    return types.int64(counter), build


@intrinsic
def give_way(context: Any) -> tuple[Any, Callable]:
    """Let another thread of the machine run: the one that is waited for may need this core."""

    def build(_: Any, b: Any, __: Any, ___: Any) -> Any:
        if sys.platform != "win32":  # Windows has no sched_yield; waiting there only spins
            function = ir.FunctionType(I32, [])
            module = b.module
            symbol = module.globals.get("sched_yield") or ir.Function(module, function, "sched_yield")
            b.call(symbol, [])
        return ir.Constant(I32, 0)

    return types.int32(), build


@compiled
def wait_for_all(counter, goal):  # type: ignore[no-untyped-def]
    """A barrier: count this thread in, then wait until the counter reaches `goal`."""
    atomic_add(counter, 1)
    spins = 0
    while atomic_load(counter) < goal:
        spins += 1
        if spins % 2000 == 0:
            give_way()


# --- by number format ------------------------------------------------------------------------------------------------
# `widen`, `narrow`, `exp`, `ready` and `dot` are one name for several loops; numba picks by the type of an argument.


def widen(value: Any) -> Any:
    """The number that is stored, ready to compute with."""


@overload(widen, inline="always")
def _widen(value):  # type: ignore[no-untyped-def]
    if value == types.uint16:
        return lambda value: from_bf16(value)
    return lambda value: value


def store(array: Any, i: int, value: Any) -> None:
    """array[i] = value, rounded to what the array holds."""


@overload(store, inline="always")
def _store(array, i, value):  # type: ignore[no-untyped-def]
    if array.dtype == types.uint16:

        def as_bf16(array, i, value):  # type: ignore[no-untyped-def]
            array[i] = to_bf16(np.float32(value))

        return as_bf16

    def as_it_is(array, i, value):  # type: ignore[no-untyped-def]
        array[i] = value

    return as_it_is


def exp(x: Any) -> Any:
    """e^x."""


@overload(exp)
def _exp(x):  # type: ignore[no-untyped-def]
    if x == types.float64:
        return lambda x: np.exp(x)

    def in_float32(x):  # type: ignore[no-untyped-def]
        # 2^whole * 2^rest with |rest| <= 1/2; a polynomial, so that a loop of it becomes vector code (error 2e-7)
        t = min(max(x * np.float32(1.4426950408889634), np.float32(-126)), np.float32(126))
        n = np.floor(t + np.float32(0.5))
        r = (t - n) * np.float32(0.6931471805599453)
        p = np.float32(1 / 720) * r + np.float32(1 / 120)
        p = p * r + np.float32(1 / 24)
        p = p * r + np.float32(1 / 6)
        p = p * r + np.float32(0.5)
        p = (p * r + np.float32(1)) * r + np.float32(1)
        return p * power_of_two(n)

    return in_float32


def ready(codes: Any, x: Any, whole: Any) -> Any:
    """Prepare a vector for `dot` with rows of `codes`; the result is a factor that `dot` needs.

    For int8 and int4 the vector becomes int16 too: products of integers are what processors do fastest, and their sum
    is exact. The largest entry becomes the largest number with which no sum can pass 2^31.
    """


@overload(ready)
def _ready(codes, x, whole):  # type: ignore[no-untyped-def]
    if codes.dtype not in (types.int8, types.uint8):
        return lambda codes, x, whole: x.dtype.type(1)
    if codes.dtype == types.int8:

        def for_int8(codes, x, whole):  # type: ignore[no-untyped-def]
            n = codes.shape[1]
            scale = largest(x) / np.float32(min(32767, (2**31 - 1) // (127 * n)))
            inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
            for i in range(n):
                whole[i] = np.int16(np.rint(x[i] * inverse))
            return scale

        return for_int8

    def for_int4(codes, x, whole):  # type: ignore[no-untyped-def]
        # even entries first, then the odd ones: a byte holds one code of each. Rows may be padded with codes of 0.
        half, pairs = codes.shape[1], len(x) // 2
        scale = largest(x) / np.float32(32767)
        inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
        whole[: 2 * half] = 0
        for i in range(pairs):
            whole[i] = np.int16(np.rint(x[2 * i] * inverse))
            whole[half + i] = np.int16(np.rint(x[2 * i + 1] * inverse))
        if len(x) % 2:
            whole[pairs] = np.int16(np.rint(x[2 * pairs] * inverse))
        return scale

    return for_int4


@compiled
def largest(x):  # type: ignore[no-untyped-def]
    """The largest magnitude of a vector; NaN where it holds one."""
    best = x.dtype.type(0)
    for i in range(len(x)):
        size = abs(x[i])
        best = size if not size <= best else best
    return best


def dot(codes: Any, scales: Any, row: int, x: Any, whole: Any, factor: Any) -> Any:
    """Row `row` of a matrix times the vector that `ready` prepared."""


@overload(dot)
def _dot(codes, scales, row, x, whole, factor):  # type: ignore[no-untyped-def]
    if codes.dtype == types.int8:

        def int8(codes, scales, row, x, whole, factor):  # type: ignore[no-untyped-def]
            total = np.int32(0)
            for i in range(codes.shape[1]):
                total = add_product(total, codes[row, i], whole[i])
            return np.float32(total) * (scales[row, 0] * factor)

        return int8
    if codes.dtype == types.uint8:

        def int4(codes, scales, row, x, whole, factor):  # type: ignore[no-untyped-def]
            half, groups = codes.shape[1], scales.shape[1]
            even, odd = whole[:half], whole[half : 2 * half]
            if half == 32 * groups:
                return factor * row_of_64(codes[row], even, odd, scales[row])
            return factor * row_of_32(codes[row], even, odd, scales[row])

        return int4

    def floating(codes, scales, row, x, whole, factor):  # type: ignore[no-untyped-def]
        total = x.dtype.type(0)
        for i in range(codes.shape[1]):
            total += widen(codes[row, i]) * x[i]
        return total

    return floating
