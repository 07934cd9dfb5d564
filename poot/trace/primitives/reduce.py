"""REDUCE primitives: the elements along `axes` combined into one; the result has the other axes.

Float sums and products of f16 and bf16 accumulate in f32 on devices; a sum starts from +0, so that no elements, or
-0.0 alone, give +0.0.  No elements give the identity: 0, 1, the least or greatest value, False, True.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from poot.dtypes import NUMBERS, ArraySpec, DType, bool_, f32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Expr
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import EXACT, Example, Numerics, OracleCall, Primitive, Reduction, TypeRule, register

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]


def _type_rule(name: str, dtypes: tuple[DType, ...]) -> TypeRule:
    def rule(specs: tuple[ArraySpec, ...], params: Params, regions: tuple[Graph, ...]) -> tuple[ArraySpec, ...]:
        rules.arity(name, specs, 1)
        rules.parameters(name, params, "axes")
        rules.no_regions(name, regions)
        rules.admit(name, specs[0], dtypes)
        axes = rules.axes(name, params, specs[0].rank)
        shape = tuple(extent for axis, extent in enumerate(specs[0].shape) if axis not in axes)
        return (ArraySpec(specs[0].dtype, shape),)

    return rule


def accumulator(dtype: DType) -> DType:
    """The dtype of a running sum: f32 for f16 and bf16."""
    return f32 if dtype.is_float and dtype.bits == 16 else dtype


def _terms(specs: tuple[ArraySpec, ...], params: Params) -> int:
    return math.prod(specs[0].shape[axis] for axis in rules.integers("reduce", params, "axes"))


_EXAMPLES = tuple(
    Example((shape,), Params(axes=axes))
    for shape, axes in (
        ((), ()),
        ((1,), (0,)),
        ((0,), (0,)),
        ((7,), (0,)),
        ((7,), ()),
        ((3, 5), (0,)),
        ((3, 5), (1,)),
        ((3, 5), (0, 1)),
        ((2, 0, 3), (1,)),
        ((2, 0, 3), (0, 2)),
        ((4, 1, 9), (0, 2)),
        ((130,), (0,)),
        ((3, 70), (1,)),
    )
)


def _reduce(
    name: str,
    dtypes: tuple[DType, ...],
    oracle: Callable[[Array, Axes], Array],
    combine: str,
    identity: Callable[[DType], bool | int | float],
    collective: Literal["sum", "max", "min", "any", "all"] | None,
    doc: str,
    numerics: Numerics = EXACT,
) -> None:
    def evaluate(call: OracleCall, x: Array) -> Array:
        return np.asarray(oracle(x, rules.integers(name, call.params, "axes")))

    def join(k: KernelBuilder, a: Expr, b: Expr) -> Expr:
        return k.op(combine, a, b)

    lowering = Reduction(join, identity, collective, accumulator)
    register(Primitive(name, "reduce", doc, _type_rule(name, dtypes), evaluate, lowering, dtypes, numerics, _EXAMPLES))


def _sum(x: Array, axes: Axes) -> Array:
    total = np.add.reduce(x, axis=axes, dtype=x.dtype)
    return total + 0.0 if x.dtype.kind == "f" else total


def _least(dtype: DType) -> int | float:
    return -math.inf if dtype.is_float else dtype.min


def _greatest(dtype: DType) -> int | float:
    return math.inf if dtype.is_float else dtype.max


def _max(x: Array, axes: Axes) -> Array:
    if x.dtype.kind != "f":
        return np.maximum.reduce(x, axis=axes, initial=np.iinfo(x.dtype).min)
    found = np.maximum.reduce(x, axis=axes, initial=-math.inf)
    positive = np.logical_or.reduce((x == 0) & ~np.signbit(x), axis=axes)
    return np.where(found == 0, np.where(positive, 0.0, -0.0), found)


def _min(x: Array, axes: Axes) -> Array:
    if x.dtype.kind != "f":
        return np.minimum.reduce(x, axis=axes, initial=np.iinfo(x.dtype).max)
    found = np.minimum.reduce(x, axis=axes, initial=math.inf)
    negative = np.logical_or.reduce((x == 0) & np.signbit(x), axis=axes)
    return np.where(found == 0, np.where(negative, -0.0, 0.0), found)


_SUM = Numerics(exact=False, depth=_terms)

_reduce("reduce_sum", NUMBERS, _sum, "add", lambda dtype: 0, "sum", "the sum; integers wrap in their own dtype", _SUM)
_reduce(
    "reduce_prod",
    NUMBERS,
    lambda x, axes: np.multiply.reduce(x, axis=axes, dtype=x.dtype),
    "mul",
    lambda dtype: 1,
    None,
    "the product; integers wrap in their own dtype",
    _SUM,
)
_reduce("reduce_max", NUMBERS, _max, "max", _least, "max", "the greatest; NaN if any is; -0.0 is below +0.0")
_reduce("reduce_min", NUMBERS, _min, "min", _greatest, "min", "the least; NaN if any is; -0.0 is below +0.0")
_reduce(
    "reduce_any",
    (bool_,),
    lambda x, axes: np.logical_or.reduce(x, axis=axes),
    "or",
    lambda dtype: False,
    "any",
    "whether any element is true",
)
_reduce(
    "reduce_all",
    (bool_,),
    lambda x, axes: np.logical_and.reduce(x, axis=axes),
    "and",
    lambda dtype: True,
    "all",
    "whether every element is true",
)
