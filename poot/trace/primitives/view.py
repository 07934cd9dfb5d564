"""VIEW primitives of one operand: every result element is a copy of one operand element, bits and all.

The lowering of each is the index of the operand element as a function of the index of the result element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from poot.dtypes import ArraySpec
from poot.errors import ArgumentError, ShapeError
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import Example, OracleCall, OracleRule, Primitive, Pull, PullContext, TypeRule, register
from poot.trace.primitives.indexing import affine, regroup

Array = np.ndarray[Any, Any]
Index = tuple[Expr, ...]


def view(
    name: str,
    doc: str,
    type_rule: TypeRule,
    oracle: OracleRule,
    body: Callable[[PullContext, Index], Expr],
    examples: Sequence[Example],
) -> None:
    """Register a VIEW: `body` gives the one result element at an index."""
    register(
        Primitive(
            name,
            "view",
            doc,
            type_rule,
            oracle,
            Pull(lambda context, index: (body(context, index),), movement=True),
            examples=tuple(examples),
            stored=True,
        )
    )


# --- broadcast ------------------------------------------------------------------------------------------------------


def _broadcast_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("broadcast", specs, 1)
    rules.parameters("broadcast", params, "shape", "dims")
    rules.no_regions("broadcast", regions)
    shape = rules.integers("broadcast", params, "shape")
    dims = rules.axes("broadcast", params, len(shape), "dims")
    (operand,) = specs
    if len(dims) != operand.rank:
        raise ArgumentError(what="broadcast: dims", actual=dims, expected=f"{operand.rank} axes, one an operand axis")
    for axis, dim in enumerate(dims):
        if operand.shape[axis] not in (1, shape[dim]):
            raise ShapeError(
                what="broadcast", actual=operand.shape, expected=f"extent 1 or {shape[dim]} on axis {axis}"
            )
    return (ArraySpec(operand.dtype, shape),)


def _broadcast(call: OracleCall, x: Array) -> Array:
    shape = [1] * call.outputs[0].rank
    for axis, dim in enumerate(rules.integers("broadcast", call.params, "dims")):
        shape[dim] = x.shape[axis]
    return np.broadcast_to(x.reshape(shape), call.outputs[0].shape)


def _broadcast_read(context: PullContext, index: Index) -> Expr:
    dims = rules.integers("broadcast", context.params, "dims")
    extents = context.inputs[0].shape
    zero = context.k.i(0)
    return context.readers[0]([zero if extents[axis] == 1 else index[dim] for axis, dim in enumerate(dims)])


view(
    "broadcast",
    "the operand repeated: operand axis i becomes axis dims[i] of `shape`, with its extent or from extent 1",
    _broadcast_type,
    _broadcast,
    _broadcast_read,
    [
        Example(((),), Params(shape=(3, 2), dims=())),
        Example(((),), Params(shape=(), dims=())),
        Example(((5,),), Params(shape=(3, 5), dims=(1,))),
        Example(((3,),), Params(shape=(3, 7), dims=(0,))),
        Example(((1, 4),), Params(shape=(2, 3, 4), dims=(1, 2))),
        Example(((1,),), Params(shape=(0,), dims=(0,))),
        Example(((2, 1, 9),), Params(shape=(2, 5, 9), dims=(0, 1, 2))),
    ],
)


# --- reshape --------------------------------------------------------------------------------------------------------


def _reshape_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("reshape", specs, 1)
    rules.parameters("reshape", params, "shape")
    rules.no_regions("reshape", regions)
    shape = rules.integers("reshape", params, "shape")
    if math.prod(shape) != specs[0].size:
        raise ShapeError(what="reshape", actual=shape, expected=f"{specs[0].size} elements, as {specs[0].shape} has")
    return (ArraySpec(specs[0].dtype, shape),)


def _reshape(call: OracleCall, x: Array) -> Array:
    return x.reshape(call.outputs[0].shape)


view(
    "reshape",
    "the same elements in row-major order in another `shape`",
    _reshape_type,
    _reshape,
    lambda context, index: context.readers[0](
        regroup(context.k, index, context.outputs[0].shape, context.inputs[0].shape)
    ),
    [
        Example((before,), Params(shape=after))
        for before, after in (
            ((), (1, 1)),
            ((1,), ()),
            ((6,), (2, 3)),
            ((4, 6), (2, 12)),
            ((2, 3, 4), (3, 8)),
            ((1, 5, 1), (5,)),
            ((0, 3), (7, 0)),
            ((12, 5), (3, 2, 2, 5)),
        )
    ],
)


# --- transpose ------------------------------------------------------------------------------------------------------


def _transpose_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("transpose", specs, 1)
    rules.parameters("transpose", params, "perm")
    rules.no_regions("transpose", regions)
    perm = rules.integers("transpose", params, "perm", specs[0].rank)
    if sorted(perm) != list(range(specs[0].rank)):
        raise ArgumentError(what="transpose: perm", actual=perm, expected=f"every axis below {specs[0].rank} once")
    return (ArraySpec(specs[0].dtype, tuple(specs[0].shape[axis] for axis in perm)),)


def _transpose(call: OracleCall, x: Array) -> Array:
    return x.transpose(rules.integers("transpose", call.params, "perm"))


def _transpose_read(context: PullContext, index: Index) -> Expr:
    perm = rules.integers("transpose", context.params, "perm")
    return context.readers[0]([index[perm.index(axis)] for axis in range(len(perm))])


view(
    "transpose",
    "the axes in another order: axis i of the result is axis perm[i] of the operand",
    _transpose_type,
    _transpose,
    _transpose_read,
    [
        Example((shape,), Params(perm=perm))
        for shape, perm in (((), ()), ((5,), (0,)), ((3, 5), (1, 0)), ((2, 0, 3), (2, 0, 1)), ((4, 1, 9), (1, 2, 0)))
    ],
)


# --- slice and reverse ------------------------------------------------------------------------------------------------


def _slice_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("slice", specs, 1)
    rules.parameters("slice", params, "start", "limit", "step")
    rules.no_regions("slice", regions)
    (operand,) = specs
    start = rules.integers("slice", params, "start", operand.rank)
    limit = rules.integers("slice", params, "limit", operand.rank)
    step = rules.integers("slice", params, "step", operand.rank, least=1)
    for low, high, extent in zip(start, limit, operand.shape, strict=True):
        if not low <= high <= extent:
            raise ArgumentError(
                what="slice: start and limit", actual=(start, limit), expected=f"start <= limit <= {operand.shape}"
            )
    shape = tuple(-(-(high - low) // by) for low, high, by in zip(start, limit, step, strict=True))
    return (ArraySpec(operand.dtype, shape),)


def _slice(call: OracleCall, x: Array) -> Array:
    start, limit, step = (rules.integers("slice", call.params, key) for key in ("start", "limit", "step"))
    return x[tuple(slice(low, high, by) for low, high, by in zip(start, limit, step, strict=True))]


def _slice_read(context: PullContext, index: Index) -> Expr:
    start, step = (rules.integers("slice", context.params, key) for key in ("start", "step"))
    return context.readers[0]([affine(context.k, i, by, low) for i, by, low in zip(index, step, start, strict=True)])


view(
    "slice",
    "the elements from `start` up to, not including, `limit` in steps of `step`, one int an axis each",
    _slice_type,
    _slice,
    _slice_read,
    [
        Example((shape,), Params(start=start, limit=limit, step=step))
        for shape, start, limit, step in (
            ((), (), (), ()),
            ((7,), (2,), (7,), (1,)),
            ((7,), (1,), (7,), (3,)),
            ((7,), (3,), (3,), (1,)),
            ((3, 5), (1, 0), (3, 4), (1, 2)),
            ((4, 1, 9), (0, 0, 8), (4, 1, 9), (2, 1, 5)),
            ((2, 0, 3), (1, 0, 0), (2, 0, 2), (1, 1, 1)),
        )
    ],
)


def _reverse_type(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("reverse", specs, 1)
    rules.parameters("reverse", params, "axes")
    rules.no_regions("reverse", regions)
    rules.axes("reverse", params, specs[0].rank)
    return (specs[0],)


def _reverse(call: OracleCall, x: Array) -> Array:
    return np.flip(x, rules.integers("reverse", call.params, "axes"))


def _reverse_read(context: PullContext, index: Index) -> Expr:
    axes, shape, k = rules.integers("reverse", context.params, "axes"), context.inputs[0].shape, context.k
    return context.readers[0](
        [k.op("sub", k.i(shape[axis] - 1), i) if axis in axes else i for axis, i in enumerate(index)]
    )


view(
    "reverse",
    "the elements in opposite order along `axes`",
    _reverse_type,
    _reverse,
    _reverse_read,
    [
        Example((shape,), Params(axes=axes))
        for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)), ((2, 0, 3), (0,)), ((4, 1, 9), (1, 2)))
    ],
)
