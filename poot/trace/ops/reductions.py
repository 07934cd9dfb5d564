"""Reductions over axes.

`axis` is an int, a sequence of them, or None for all; `keepdims` keeps reduced axes with extent 1.  Sums of f16 and
bf16 accumulate in f32 and are rounded once.
"""

from __future__ import annotations

import builtins
import math

from poot.dtypes import DType, DTypeLike, bool_, f32, i32, u32
from poot.errors import ShapeError
from poot.trace.array import Array, ArrayLike, Axis
from poot.trace.dispatch import Operand, bind1, lift
from poot.trace.ops import elementwise
from poot.trace.ops.axes import flag, number, sorted_axes
from poot.trace.ops.maps import truth
from poot.trace.ops.promotion import cast, common_float, dtype_argument, dtype_of
from poot.trace.source import user_location


def _reduce(primitive: str, operand: Operand, axis: Axis, keepdims: bool) -> Array:
    axes = sorted_axes(axis, len(operand.shape), primitive.removeprefix("reduce_"))
    result = bind1(primitive, (operand,), axes=axes) if axes else lift(operand)
    if not flag(keepdims, "keepdims"):
        return result
    shape = tuple(1 if place in axes else extent for place, extent in enumerate(operand.shape))
    return result if shape == result.shape else bind1("reshape", (result,), shape=shape)


def sum_dtype(dtype: DType) -> DType:
    """Sums of integers of up to 32 bits and bools are i32 or u32, so that small ones do not wrap."""
    if dtype.bits >= 32 or dtype.is_float:
        return dtype
    return u32 if dtype.kind == "uint" else i32


def sum(x: ArrayLike, /, axis: Axis = None, *, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """The sum; 0 of no elements.  Integers below 32 bits and bools are summed as i32 or u32, or in `dtype`."""
    found = sum_dtype(dtype_of(x, "sum")) if dtype is None else dtype_argument(dtype)
    return _reduce("reduce_sum", cast(x, found), axis, keepdims)


def prod(x: ArrayLike, /, axis: Axis = None, *, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """The product; 1 of no elements.  Integers below 32 bits and bools are multiplied as i32 or u32, or in `dtype`."""
    found = sum_dtype(dtype_of(x, "prod")) if dtype is None else dtype_argument(dtype)
    return _reduce("reduce_prod", cast(x, found), axis, keepdims)


def max(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The largest element; NaN if there is one; ShapeError of no elements."""
    return _extreme("reduce_max", "reduce_any", x, axis, keepdims)


def min(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The smallest element; NaN if there is one; ShapeError of no elements."""
    return _extreme("reduce_min", "reduce_all", x, axis, keepdims)


def _extreme(primitive: str, bools: str, x: ArrayLike, axis: Axis, keepdims: bool) -> Array:
    name = primitive.removeprefix("reduce_")
    operand = cast(x, dtype_of(x, name))
    shape = operand.shape
    if builtins.any(shape[place] == 0 for place in sorted_axes(axis, len(shape), name)):
        raise ShapeError(what=name, actual=shape, expected="at least one element to reduce", where=user_location())
    return _reduce(bools if dtype_of(operand) is bool_ else primitive, operand, axis, keepdims)


def any(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """True where some element is not zero; False of no elements."""
    return _reduce("reduce_any", truth(x), axis, keepdims)


def all(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """True where every element is not zero; True of no elements."""
    return _reduce("reduce_all", truth(x), axis, keepdims)


def count_nonzero(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """How many elements are not zero, as i32; ShapeError where more are counted together than that holds."""
    true = lift(truth(x))
    axes = sorted_axes(axis, true.ndim, "count_nonzero")
    if math.prod(true.shape[place] for place in axes) > i32.max:
        raise ShapeError(
            what="count_nonzero", actual=true.shape, expected=f"at most {i32.max} elements counted together",
            where=user_location(), remedy="use `ops.sum(x != 0, dtype=i64)`.",
        )  # fmt: skip
    return sum(true, axis, keepdims=keepdims)


def mean(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The arithmetic mean, in floats (integers give f32); NaN of no elements.  f16 and bf16 are averaged in f32."""
    wide, dtype = _wide(x, "mean")
    return _as(_average(wide, axis, 0.0, keepdims), dtype)


def var(
    x: ArrayLike, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False, ddof: float | None = None
) -> Array:
    """The mean squared distance from the mean, the divisor being the count less `correction` (NumPy's `ddof`).

    Taken in two passes, so that a large mean costs no accuracy; f16 and bf16 in f32.
    """
    wide, dtype = _wide(x, "var")
    return _as(_variance(wide, axis, number(correction if ddof is None else ddof, "var: correction"), keepdims), dtype)


def std(
    x: ArrayLike, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False, ddof: float | None = None
) -> Array:
    """The standard deviation, the square root of `var`, along axes; in floats, integers and bools give f32."""
    wide, dtype = _wide(x, "std")
    squared = _variance(wide, axis, number(correction if ddof is None else ddof, "std: correction"), keepdims)
    return _as(elementwise.sqrt(squared), dtype)


def _wide(x: ArrayLike, what: str) -> tuple[Array, DType]:
    """The operand in the dtype in which averages are taken, f32 for the halves, and the dtype of the result."""
    dtype = common_float(x, what=what)
    return lift(cast(x, f32 if dtype.bits == 16 else dtype)), dtype


def _average(x: Array, axis: Axis, correction: float, keepdims: bool) -> Array:
    count = math.prod(x.shape[place] for place in sorted_axes(axis, x.ndim, "mean"))
    return elementwise.divide(sum(x, axis, keepdims=keepdims), float(builtins.max(count - correction, 0)))


def _variance(x: Array, axis: Axis, correction: float, keepdims: bool) -> Array:
    distance = x - _average(x, axis, 0.0, keepdims=True)
    return _average(distance * distance, axis, correction, keepdims)


def _as(x: Array, dtype: DType) -> Array:
    """The array in `dtype`."""
    return lift(cast(x, dtype))
