"""A row of int4 weights times a vector, written as vector instructions.

The compiler makes a poor loop of this one by itself: each group ends with a scale of its own, so it would sum up all
lanes of a vector once per group. Here every lane keeps its own float32 sum, and the lanes are added once per row.
The vectors are LLVM's generic ones; for a processor with shorter registers LLVM splits them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

I8, I16, I32, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()


def splat(kind: ir.Type, lanes: int, value: float) -> ir.Constant:
    """A vector with the same number in every lane."""
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def lanes_of(builder: Any, vector: Any, start: int, step: int, count: int) -> Any:
    """Every `step`-th lane from `start`."""
    mask = ir.Constant(ir.VectorType(I32, count), [start + step * i for i in range(count)])
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


def pair_products(b: Any, codes: Any, numbers: Any, n: int) -> Any:
    """int32 sums of neighbouring products of two int16 vectors: one instruction on most processors."""
    wide = ir.VectorType(I32, n)
    products = b.mul(b.sext(codes, wide), b.sext(numbers, wide))
    return b.add(lanes_of(b, products, 0, 2, n // 2), lanes_of(b, products, 1, 2, n // 2))


def row_kernel(n: int) -> Callable:
    """A function (bytes, even, odd, scales) -> float32 for groups of `n` bytes, 2 n weights."""

    def build(context: Any, b: Any, signature: Any, args: Any) -> Any:
        arrays = [context.make_array(kind)(context, b, arg) for kind, arg in zip(signature.args, args, strict=True)]
        packed, even, odd, scales = (array.data for array in arrays)
        groups = b.extract_value(arrays[3].shape, 0)
        index = groups.type

        def load(pointer: Any, kind: ir.Type, at: Any) -> Any:
            place = b.bitcast(b.gep(pointer, [at]), ir.VectorType(kind, n).as_pointer())
            return b.load(place, align=kind.width // 8)

        before, loop, after = b.block, b.append_basic_block("group"), b.append_basic_block("row_done")
        nothing = splat(F32, n // 2, 0.0)
        b.cbranch(b.icmp_signed(">", groups, ir.Constant(index, 0)), loop, after)

        b.position_at_end(loop)
        group, sums = b.phi(index), b.phi(nothing.type)
        at = b.mul(group, ir.Constant(index, n))
        shifted = b.xor(load(packed, I8, at), splat(I8, n, 0x88))  # codes -8 to 7 become 0 to 15; the 8 comes off below
        low = b.sext(b.sub(b.and_(shifted, splat(I8, n, 15)), splat(I8, n, 8)), ir.VectorType(I16, n))
        high = b.sext(b.sub(b.lshr(shifted, splat(I8, n, 4)), splat(I8, n, 8)), ir.VectorType(I16, n))
        whole = b.add(pair_products(b, low, load(even, I16, at), n), pair_products(b, high, load(odd, I16, at), n))
        scale = b.insert_element(ir.Constant(nothing.type, ir.Undefined), b.load(b.gep(scales, [group])), I32(0))
        scale = b.shuffle_vector(scale, scale, splat(I32, n // 2, 0))
        scaled = b.fmul(b.sitofp(whole, nothing.type), scale, flags=["contract"])
        more = b.fadd(sums, scaled, flags=["contract"])
        following = b.add(group, ir.Constant(index, 1))
        b.cbranch(b.icmp_signed("<", following, groups), loop, after)
        for phi, first, later in ((group, ir.Constant(index, 0), following), (sums, nothing, more)):
            phi.add_incoming(first, before)
            phi.add_incoming(later, loop)

        b.position_at_end(after)
        total = b.phi(nothing.type)
        total.add_incoming(nothing, before)
        total.add_incoming(more, loop)
        width = n // 2
        while width > 1:  # fold the upper half onto the lower
            total = b.fadd(lanes_of(b, total, 0, 1, width // 2), lanes_of(b, total, width // 2, 1, width // 2))
            width //= 2
        return b.extract_element(total, I32(0))

    @intrinsic
    def kernel(context: Any, packed: Any, even: Any, odd: Any, scales: Any) -> tuple[Any, Callable]:
        return types.float32(packed, even, odd, scales), build

    return kernel


row_of_64 = row_kernel(32)
row_of_32 = row_kernel(16)
