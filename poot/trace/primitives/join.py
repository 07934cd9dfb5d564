"""VIEW primitives that put arrays together: concat, pad, iota."""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.dtypes import NUMBERS, ArraySpec
from poot.errors import ArgumentError, ShapeError
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import Example, OracleCall, PullContext
from poot.trace.primitives.indexing import all_of, offset
from poot.trace.primitives.view import view

Array = np.ndarray[Any, Any]
Index = tuple[Expr, ...]


# --- concat ---------------------------------------------------------------------------------------------------------


def _concat_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.parameters("concat", params, "axis")
    rules.no_regions("concat", regions)
    if not specs:
        raise ArgumentError(what="concat: number of operands", actual=0, expected="at least 1")
    rules.same_dtypes("concat", specs)
    first = specs[0].shape
    axis = rules.axis("concat", params, len(first))
    for number, spec in enumerate(specs, 1):
        if spec.rank != len(first) or any(
            mine != theirs and place != axis for place, (mine, theirs) in enumerate(zip(spec.shape, first, strict=True))
        ):
            raise ShapeError(
                what=f"concat: operand {number}", actual=spec.shape, expected=f"{first} but for axis {axis}"
            )
    total = sum(spec.shape[axis] for spec in specs)
    return (ArraySpec(specs[0].dtype, (*first[:axis], total, *first[axis + 1 :])),)


def _concat(call: OracleCall, *parts: Array) -> Array:
    return np.concatenate(parts, rules.integer("concat", call.params, "axis"))


def _concat_read(context: PullContext, index: Index) -> Expr:
    k, axis = context.k, rules.integer("concat", context.params, "axis")
    parts: list[tuple[int, int, int]] = []
    start = 0
    for number, spec in enumerate(context.inputs):
        if spec.shape[axis]:
            parts.append((number, start, start + spec.shape[axis]))
            start = parts[-1][2]

    def read(number: int, start: int) -> Expr:
        shifted = offset(k, index[axis], -start)
        return context.readers[number]([shifted if place == axis else i for place, i in enumerate(index)])

    if len(parts) == 1:
        return read(parts[0][0], 0)
    result = k.let(k.const(0, context.outputs[0].dtype), "joined")
    for number, low, high in parts:
        above = [] if low == 0 else [k.op("ge", index[axis], k.i(low))]
        below = [] if high == start else [k.op("lt", index[axis], k.i(high))]
        with k.if_(all_of(k, [*above, *below])):
            k.assign(result, read(number, low))
    return result


view(
    "concat",
    "the operands joined along `axis`, on which alone their extents may differ",
    _concat_type,
    _concat,
    _concat_read,
    [
        Example(shapes, Params(axis=axis))
        for shapes, axis in (
            (((3,),), 0),
            (((3,), (4,)), 0),
            (((0,), (4,), (0,), (2,), (1,)), 0),
            (((3, 5), (3, 1)), 1),
            (((2, 0, 3), (2, 0, 4)), 2),
            (((4, 1, 9), (4, 2, 9), (4, 1, 9)), 1),
            (((0, 2), (0, 2)), 0),
        )
    ],
)


# --- pad ------------------------------------------------------------------------------------------------------------


def _span(extent: int, interior: int) -> int:
    return (extent - 1) * (interior + 1) + 1 if extent else 0


def _pad_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("pad", specs, 2)
    rules.parameters("pad", params, "low", "high", "interior")
    rules.no_regions("pad", regions)
    rules.same_dtypes("pad", specs)
    operand, fill = specs
    if fill.shape:
        raise ShapeError(what="pad: operand 2", actual=fill.shape, expected="()")
    low, high = (rules.integers("pad", params, key, operand.rank, least=None) for key in ("low", "high"))
    interior = rules.integers("pad", params, "interior", operand.rank)
    shape = tuple(
        before + _span(extent, between) + after
        for before, after, between, extent in zip(low, high, interior, operand.shape, strict=True)
    )
    if any(extent < 0 for extent in shape):
        raise ArgumentError(what="pad: low and high", actual=(low, high), expected=f"no more cut than {operand.shape}")
    return (ArraySpec(operand.dtype, shape),)


def _pad(call: OracleCall, x: Array, fill: Array) -> Array:
    low, interior = (rules.integers("pad", call.params, key, least=None) for key in ("low", "interior"))
    result = np.full(call.outputs[0].shape, fill, x.dtype)
    sources: list[Array] = []
    targets: list[Array] = []
    for axis, (before, between) in enumerate(zip(low, interior, strict=True)):
        source: Array = np.arange(x.shape[axis], dtype=np.int64)
        target: Array = before + source * (between + 1)
        kept: Array = (target >= 0) & (target < result.shape[axis])
        sources.append(source[kept])
        targets.append(target[kept])
    result[np.ix_(*targets)] = x[np.ix_(*sources)]
    return result


def _pad_read(context: PullContext, index: Index) -> Expr:
    k = context.k
    low, high, interior = (
        rules.integers("pad", context.params, key, least=None) for key in ("low", "high", "interior")
    )
    conditions: list[Expr] = []
    places: list[Expr] = []
    for i, before, after, between, extent in zip(index, low, high, interior, context.inputs[0].shape, strict=True):
        place = offset(k, i, -before)
        if between or before > 0 or after > 0:
            place = k.let(place, "place")
        if before > 0:
            conditions.append(k.op("ge", place, k.i(0)))
        if after > 0:
            conditions.append(k.op("lt", place, k.i(_span(extent, between))))
        if between:
            conditions.append(k.op("eq", k.op("rem", place, k.i(between + 1)), k.i(0)))
            place = k.op("floor_div", place, k.i(between + 1))
        places.append(place)
    if context.inputs[0].size == 0:
        return context.readers[1](())
    if not conditions:
        return context.readers[0](places)
    result = k.let(context.readers[1](()), "padded")
    with k.if_(all_of(k, conditions)):
        k.assign(result, context.readers[0](places))
    return result


view(
    "pad",
    "the operand with copies of the second, 0-d operand: low[i] before and high[i] after axis i (negative cuts off), "
    "and interior[i] between its elements",
    _pad_type,
    _pad,
    _pad_read,
    [
        Example((shape, ()), Params(low=low, high=high, interior=interior))
        for shape, low, high, interior in (
            ((), (), (), ()),
            ((7,), (2,), (3,), (0,)),
            ((7,), (-2,), (1,), (0,)),
            ((4,), (1,), (0,), (2,)),
            ((0,), (2,), (1,), (1,)),
            ((3, 5), (0, 1), (2, 0), (0, 0)),
            ((3, 5), (0, -1), (-1, 2), (1, 0)),
            ((4, 1, 9), (1, 0, 0), (0, 0, -9), (0, 3, 0)),
        )
    ],
)


# --- iota -----------------------------------------------------------------------------------------------------------


def _iota_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("iota", specs, 0)
    rules.parameters("iota", params, "dtype", "shape", "axis")
    rules.no_regions("iota", regions)
    shape = rules.integers("iota", params, "shape")
    rules.axis("iota", params, len(shape))
    return (ArraySpec(rules.dtype_param("iota", params, NUMBERS), shape),)


def _iota(call: OracleCall) -> Array:
    (result,), axis = call.outputs, rules.integer("iota", call.params, "axis")
    steps = np.arange(result.shape[axis], dtype=np.int64)
    steps = steps.astype(np.float64 if result.dtype.is_float else result.dtype.dtype)
    return np.broadcast_to(steps.reshape([-1 if place == axis else 1 for place in range(result.rank)]), result.shape)


def _iota_read(context: PullContext, index: Index) -> Expr:
    return context.k.cast(index[rules.integer("iota", context.params, "axis")], context.outputs[0].dtype)


view(
    "iota",
    "0, 1, 2 … along `axis` of an array of `shape`; integers wrap, floats are rounded",
    _iota_type,
    _iota,
    _iota_read,
    [
        Example((), Params(dtype=dtype, shape=shape, axis=axis))
        for dtype in NUMBERS
        for shape, axis in (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 0), 0), ((300,), 0))
    ],
)
