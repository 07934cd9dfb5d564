"""Index arithmetic that lowerings share: small expressions, with nothing left in them that constants decide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from poot.dtypes import DType, i32, i64
from poot.kernel.build import KernelBuilder
from poot.kernel.faults import INDEX_FAULT
from poot.kernel.ir import TRUE, Expr


def offset(k: KernelBuilder, index: Expr, by: int) -> Expr:
    """Index + by."""
    return index if by == 0 else k.op("add", index, k.i(by))


def affine(k: KernelBuilder, index: Expr, factor: int, by: int) -> Expr:
    """Index * factor + by."""
    return offset(k, index if factor == 1 else k.op("mul", index, k.i(factor)), by)


def all_of(k: KernelBuilder, conditions: Sequence[Expr]) -> Expr:
    """Whether all conditions hold."""
    if not conditions:
        return TRUE
    result = conditions[0]
    for condition in conditions[1:]:
        result = k.op("and", result, condition)
    return result


def regroup(k: KernelBuilder, index: Sequence[Expr], shape: Sequence[int], target: Sequence[int]) -> list[Expr]:
    """The index in an array of shape `target` of the element at `index` of one of `shape`, in row-major order.

    Axes that the two shapes share need no division: both shapes are cut into the smallest groups of equal size.
    """
    if 0 in shape:
        return [k.i(0)] * len(target)
    result: list[Expr] = [k.i(0)] * len(target)
    for sources, targets in _groups(shape, target):
        linear = _linear(k, [(index[axis], shape[axis]) for axis in sources])
        rest = linear
        if len(targets) > 1:
            rest = k.let(linear, "linear")
        for axis in reversed(targets[1:]):
            result[axis] = k.op("rem", rest, k.i(target[axis]))
            rest = k.let(k.op("floor_div", rest, k.i(target[axis])), "rest")
        result[targets[0]] = rest
    return result


def _groups(shape: Sequence[int], target: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Axes other than of extent 1, in groups of equal size."""
    sources = [axis for axis, extent in enumerate(shape) if extent != 1]
    targets = [axis for axis, extent in enumerate(target) if extent != 1]
    while sources:
        ours, theirs = [sources.pop(0)], [targets.pop(0)]
        while True:
            a, b = math.prod(shape[axis] for axis in ours), math.prod(target[axis] for axis in theirs)
            if a == b:
                break
            if a < b:
                ours.append(sources.pop(0))
            else:
                theirs.append(targets.pop(0))
        yield ours, theirs


def _linear(k: KernelBuilder, parts: Sequence[tuple[Expr, int]]) -> Expr:
    result = parts[0][0]
    for index, extent in parts[1:]:
        result = k.op("add", k.op("mul", result, k.i(extent)), index)
    return result


def fits(dtype: DType, index_dtype: DType) -> bool:
    """Whether every value of an integer dtype is one of the index dtype."""
    return index_dtype.min <= dtype.min and dtype.max <= index_dtype.max


def clamped(k: KernelBuilder, value: Expr, low: int, high: int) -> Expr:
    """An integer of any dtype, limited to low … high, as an index; the limits are values of the index dtype."""
    if fits(value.dtype, k.index_dtype):
        value = k.cast(value, k.index_dtype)
    dtype = value.dtype
    if high < dtype.max:
        value = k.op("min", value, k.const(high, dtype))
    if low > dtype.min:
        value = k.op("max", value, k.const(low, dtype))
    return k.cast(value, k.index_dtype)


def wrapped(k: KernelBuilder, value: Expr, extent: int) -> Expr:
    """An integer of any dtype modulo a positive extent, as an index."""
    if fits(value.dtype, k.index_dtype):
        value = k.cast(value, k.index_dtype)
    return k.cast(k.op("rem", value, k.const(extent, value.dtype)), k.index_dtype)


def check_index(k: KernelBuilder, name: str, raw: Expr, axis: int, extent: int) -> None:
    """Record a fault with the index itself where one of any integer dtype is not in 0 … extent - 1.

    The record keeps the index's bits: an unsigned one of its width, which whoever reads it knows.
    """
    index = raw
    if raw.dtype.bits < 32 or (raw.dtype.bits < 64 and extent > i32.max):
        index = k.cast(raw, i32 if extent <= i32.max else i64)
    elif raw.dtype.kind == "uint":
        index = k.bitcast(raw, i32 if raw.dtype.bits == 32 else i64)
    message = f"{name}: {INDEX_FAULT}"
    k.assertion(all_of(k, within(k, raw, extent)), message, index=index, axis=axis, extent=extent)


def within(k: KernelBuilder, value: Expr, extent: int) -> list[Expr]:
    """The conditions under which an integer of any dtype lies in 0 … extent - 1."""
    conditions: list[Expr] = []
    if value.dtype.min < 0:
        conditions.append(k.op("ge", value, k.const(0, value.dtype)))
    if extent <= value.dtype.max:
        conditions.append(k.op("lt", value, k.const(extent, value.dtype)))
    return conditions
