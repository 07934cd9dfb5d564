"""CONTRACT primitives: dot_general, the sum of products over chosen axes of two operands."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from poot.dtypes import FLOATS, INTEGERS, NUMBERS, ArraySpec, DType, f16, f32, f64, i32
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import Contraction, Example, Numerics, OracleCall, Primitive, register

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]


def dimension_numbers(params: Params) -> tuple[Axes, Axes, Axes, Axes]:
    """Contracted axes of the left and right operand, then batch axes of the left and right."""
    contract, batch = (cast("tuple[Axes, Axes]", params[key]) for key in ("contract", "batch"))
    return (*contract, *batch)


def free_axes(rank: int, *taken: Axes) -> Axes:
    """The axes of an operand that are neither contracted nor batch axes."""
    return tuple(axis for axis in range(rank) if all(axis not in axes for axes in taken))


def _pairs(params: Params, key: str, left: ArraySpec, right: ArraySpec) -> tuple[Axes, Axes]:
    """A parameter that pairs axes of the operands: two tuples of as many axes, of equal extents."""
    value = params[key]
    if not (isinstance(value, tuple) and len(value) == 2):
        raise ArgumentTypeError(what=f"dot_general: {key}", actual=repr(value), expected="a pair of tuples of axes")
    ours, theirs = (rules.integers("dot_general", Params({key: side}), key) for side in value)
    for axes, spec in ((ours, left), (theirs, right)):
        if any(axis >= spec.rank for axis in axes) or len(set(axes)) != len(axes):
            raise ArgumentError(
                what=f"dot_general: {key}", actual=value, expected=f"distinct axes below {left.rank} and {right.rank}"
            )
    if len(ours) != len(theirs):
        raise ArgumentError(what=f"dot_general: {key}", actual=value, expected="as many axes of either operand")
    for a, b in zip(ours, theirs, strict=True):
        if left.shape[a] != right.shape[b]:
            raise ShapeError(
                what="dot_general: operand 2",
                actual=right.shape,
                expected=f"extent {left.shape[a]} on axis {b}, as axis {a} of operand 1 ({left.shape})",
            )
    return ours, theirs


def _dtypes(operand: DType, params: Params) -> DType:
    """The result's dtype, after the accumulator's has been checked against the operands'."""
    accumulate = params["accumulate"]
    if operand.is_float:
        wide = (f64,) if operand is f64 else (f32, f64)
        rules.dtype_param("dot_general", params, wide, "accumulate")
        return rules.dtype_param("dot_general", params, FLOATS)
    rules.dtype_param("dot_general", params, INTEGERS, "accumulate")
    if cast("DType", accumulate).bits < operand.bits:
        raise DTypeError(
            what="dot_general: accumulate",
            actual=accumulate,
            expected=f"an integer dtype of {operand.bits} bits or more",
        )
    return rules.dtype_param("dot_general", params, INTEGERS)


def _type_rule(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
    rules.arity("dot_general", specs, 2)
    rules.parameters("dot_general", params, "contract", "batch", "accumulate", "dtype")
    rules.no_regions("dot_general", regions)
    rules.admit("dot_general", specs[0], NUMBERS)
    rules.same_dtypes("dot_general", specs)
    left, right = specs
    left_contract, right_contract = _pairs(params, "contract", left, right)
    left_batch, right_batch = _pairs(params, "batch", left, right)
    if set(left_contract) & set(left_batch) or set(right_contract) & set(right_batch):
        raise ArgumentError(
            what="dot_general: batch", actual=params["batch"], expected="axes other than the contracted ones"
        )
    shape = (
        *(left.shape[axis] for axis in left_batch),
        *(left.shape[axis] for axis in free_axes(left.rank, left_contract, left_batch)),
        *(right.shape[axis] for axis in free_axes(right.rank, right_contract, right_batch)),
    )
    return (ArraySpec(_dtypes(left.dtype, params), shape),)


def _oracle(call: OracleCall, left: Array, right: Array) -> Array:
    left_contract, right_contract, left_batch, right_batch = dimension_numbers(call.params)
    left_free = free_axes(left.ndim, left_contract, left_batch)
    right_free = free_axes(right.ndim, right_contract, right_batch)
    accumulator = cast("DType", call.params["accumulate"]).dtype
    if left.dtype.kind != "f":
        left, right = left.astype(accumulator), right.astype(accumulator)
    batch = math.prod(left.shape[axis] for axis in left_batch)
    terms = math.prod(left.shape[axis] for axis in left_contract)
    rows = math.prod(left.shape[axis] for axis in left_free)
    columns = math.prod(right.shape[axis] for axis in right_free)
    a = left.transpose(*left_batch, *left_free, *left_contract).reshape(batch, rows, terms)
    b = right.transpose(*right_batch, *right_contract, *right_free).reshape(batch, terms, columns)
    product = np.matmul(a, b).reshape(call.outputs[0].shape)
    if product.dtype.kind != "f":
        return product.astype(call.outputs[0].dtype.dtype)
    # What passes the accumulator's range is infinite in a wider result too.
    infinite = np.abs(product) > float(np.finfo(accumulator).max)
    return cast("Array", np.where(infinite, np.copysign(np.inf, product), product + 0.0))


def _terms(specs: tuple[ArraySpec, ...], params: Params) -> int:
    return math.prod(specs[0].shape[axis] for axis in dimension_numbers(params)[0])


_LAYOUTS: tuple[tuple[tuple[Axes, Axes], tuple[Axes, Axes], tuple[Axes, Axes]], ...] = (
    # shapes, contract, batch
    (((7,), (7,)), ((0,), (0,)), ((), ())),
    (((), (3,)), ((), ()), ((), ())),
    (((3, 5), (5, 4)), ((1,), (0,)), ((), ())),
    (((3, 5), (4, 5)), ((1,), (1,)), ((), ())),
    (((5, 3), (5,)), ((0,), (0,)), ((), ())),
    (((2, 3, 5), (2, 5, 4)), ((2,), (1,)), ((0,), (0,))),
    (((3, 2, 5), (4, 5, 2)), ((2,), (1,)), ((1,), (2,))),
    (((2, 3, 4), (4, 3, 6)), ((1, 2), (1, 0)), ((), ())),
    (((3, 0), (0, 4)), ((1,), (0,)), ((), ())),
    (((0, 5), (5, 4)), ((1,), (0,)), ((), ())),
    (((17, 33), (33, 19)), ((1,), (0,)), ((), ())),
)


def _examples() -> tuple[Example, ...]:
    found: list[Example] = []
    for dtype in NUMBERS:
        wide = dtype if dtype.bits >= 32 else f32 if dtype.is_float else i32
        for shapes, contract, batch in _LAYOUTS:
            params = Params(contract=contract, batch=batch, accumulate=wide, dtype=wide if dtype.is_integer else dtype)
            found.append(Example(shapes, params, dtypes=(dtype, dtype)))
    halves = Params(contract=((1,), (0,)), batch=((), ()), accumulate=f32, dtype=f32)
    found.append(Example(((3, 5), (5, 4)), halves, dtypes=(f16, f16)))
    return tuple(found)


register(
    Primitive(
        "dot_general",
        "contract",
        "the sum of products over the axes that `contract` pairs, for each index of the axes that `batch` pairs; the "
        "result has batch, left free and right free axes; summed in `accumulate`, rounded or wrapped once to `dtype`",
        _type_rule,
        _oracle,
        Contraction(),
        NUMBERS,
        Numerics(exact=False, depth=_terms),
        _examples(),
    )
)
