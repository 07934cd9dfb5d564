"""NumPy's functions that the array API lacks, as compositions of those that it has."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import NoReturn

from poot.dtypes import f32
from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array, ArrayLike, Axis
from poot.trace.dispatch import is_traced, joined, lift
from poot.trace.ops import creation, elementwise, linalg, logic, manipulation, ordering, reductions
from poot.trace.ops.axes import flag, many_axes, one_axis, operands, shape_argument, static_int
from poot.trace.ops.einsum import einsum as sum_of_products
from poot.trace.ops.namespace import DEPENDENT, refuse
from poot.trace.ops.promotion import cast, common_float, dtype_of, shape_of, strong
from poot.trace.source import user_location

# --- shapes -----------------------------------------------------------------------------------------------------------


def ravel(x: ArrayLike, /) -> Array:
    """The elements in row-major order along one axis."""
    return manipulation.reshape(x, (-1,))


def copy(x: ArrayLike, /) -> Array:
    """The same elements in memory of their own; a value inside a trace is itself."""
    array = lift(strong(x))
    return array if is_traced(array) else creation.asarray(array, copy=True)


def atleast_1d(*xs: ArrayLike) -> Array | tuple[Array, ...]:
    """The arrays, those without axes with one of extent 1; one array alone, several as a tuple."""
    found = tuple(_with_axes(x, 1) for x in xs)
    return found[0] if len(found) == 1 else found


def atleast_2d(*xs: ArrayLike) -> Array | tuple[Array, ...]:
    """The arrays with axes of extent 1 in front, up to two axes; one array alone, several as a tuple."""
    found = tuple(_with_axes(x, 2) for x in xs)
    return found[0] if len(found) == 1 else found


def _with_axes(x: ArrayLike, rank: int) -> Array:
    shape = shape_of(x)
    return manipulation.reshape(x, (*(1,) * (rank - len(shape)), *shape))


def vstack(xs: Sequence[ArrayLike], /) -> Array:
    """The arrays below each other, along the first axis; those of one axis count as rows."""
    return manipulation.concat([_with_axes(x, 2) for x in operands(xs, "vstack")], axis=0)


def hstack(xs: Sequence[ArrayLike], /) -> Array:
    """The arrays beside each other, along the second axis, or the only one."""
    rows = [_with_axes(x, 1) for x in operands(xs, "hstack")]
    return manipulation.concat(rows, axis=1 if rows and rows[0].ndim > 1 else 0)


def column_stack(xs: Sequence[ArrayLike], /) -> Array:
    """The arrays beside each other, along the second axis; those of one axis count as columns."""
    xs = operands(xs, "column_stack")
    return manipulation.concat(
        [_with_axes(x, 1)[:, None] if len(shape_of(x)) < 2 else lift(strong(x)) for x in xs], axis=1
    )


def fliplr(x: ArrayLike, /) -> Array:
    """The elements with the second axis backwards; ArgumentError below two axes."""
    return manipulation.flip(x, axis=one_axis(1, len(shape_of(x)), "fliplr"))


def flipud(x: ArrayLike, /) -> Array:
    """The elements with the first axis backwards; ArgumentError of none."""
    return manipulation.flip(x, axis=one_axis(0, len(shape_of(x)), "flipud"))


def diag(x: ArrayLike, /, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix [n + |k|, n + |k|] whose k-th diagonal is an array of one axis."""
    array = lift(strong(x))
    if array.ndim == 2:
        return linalg.diagonal(array, offset=k)
    if array.ndim != 1:
        raise ShapeError(what="diag", actual=array.shape, expected="one axis or two", where=user_location())
    k = static_int(k, "diag: k")
    shape_argument(array.size + builtins.abs(k), "diag")
    extent = array.size + builtins.abs(k)
    with joined(array):
        rows, columns = creation.iota((extent, extent), 0), creation.iota((extent, extent), 1)
        along = manipulation.pad(array, (builtins.max(k, 0), builtins.max(-k, 0)))  # by column
        return logic.where(columns - rows == k, along[None, :], creation.zeros((), dtype=array.dtype))


def diagonal(x: ArrayLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """NumPy's diagonal: of the first two axes, or those given, as a last axis."""
    rank = len(shape_of(x))
    axes = one_axis(axis1, rank, "diagonal: axis1"), one_axis(axis2, rank, "diagonal: axis2")
    return linalg.diagonal(manipulation.moveaxis(x, axes, (-2, -1)), offset=offset)


def trace(x: ArrayLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """NumPy's trace: the sum of the diagonal of the first two axes, or those given."""
    return reductions.sum(diagonal(x, offset, axis1, axis2), -1)


def diff(
    x: ArrayLike,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """NumPy's diff, whose options may come by position, and whose ends may be numbers."""
    with joined(*(part for part in (x, prepend, append) if part is not None)):
        ends = [None if end is None else _end(end, lift(strong(x)), axis) for end in (prepend, append)]
        return ordering.diff(x, axis=axis, n=n, prepend=ends[0], append=ends[1])


def _end(end: ArrayLike, x: Array, axis: int) -> ArrayLike:
    """What is joined to an end of x: of a number, one along the axis."""
    if shape_of(end):
        return end
    place = one_axis(axis, x.ndim, "diff")
    return manipulation.broadcast_to(end, (*x.shape[:place], 1, *x.shape[place + 1 :]))


def clip(
    x: ArrayLike,
    /,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    *,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """NumPy's clip, whose bounds have two names each."""
    for old, new, name in ((a_min, min, "min"), (a_max, max, "max")):
        if old is not None and new is not None:
            raise ArgumentError(
                what=f"np.clip: {name}", actual=f"a_{name} and {name}", expected="one of the two", where=user_location()
            )
    return elementwise.clip(x, a_min if min is None else min, a_max if max is None else max)


def cross(
    x1: ArrayLike, x2: ArrayLike, /, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """NumPy's vector product, each operand along an axis of its own; of three elements."""
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    with joined(x1, x2):
        first, second = (manipulation.moveaxis(x, place, -1) for x, place in zip((x1, x2), axes, strict=False))
        return manipulation.moveaxis(linalg.cross(first, second), -1, axes[2])


def einsum(subscripts: str, /, *operands: ArrayLike, optimize: object = False) -> Array:
    """NumPy's einsum; `optimize` changes the order of the products alone, which is from left to right here."""
    return sum_of_products(subscripts, *operands)


def nonzero() -> NoReturn:
    """The array method of that name: FeatureError."""
    raise refuse("x.nonzero()", DEPENDENT)


# --- numbers ----------------------------------------------------------------------------------------------------------


def radians(x: ArrayLike, /) -> Array:
    """The angles x, in degrees, in radians.  Floats keep their dtype, integers and bools give f32."""
    return _scaled(x, math.pi / 180)


def degrees(x: ArrayLike, /) -> Array:
    """The angles x, in radians, in degrees.  Floats keep their dtype, integers and bools give f32."""
    return _scaled(x, 180 / math.pi)


def _scaled(x: ArrayLike, factor: float) -> Array:
    return elementwise.multiply(lift(cast(x, common_float(x, what="angles"))), factor)


def ptp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The greatest element less the least, along axes."""
    with joined(x):
        greatest, least = (f(x, axis=axis, keepdims=keepdims) for f in (reductions.max, reductions.min))
        return greatest - least


def median(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The middle element in order along axes, or the mean of the two in the middle; NaN where there is a NaN."""
    dtype = common_float(x, what="median")
    array = lift(cast(x, dtype))
    axes = many_axes(axis, array.ndim, "median")
    rest = [extent for place, extent in enumerate(array.shape) if place not in axes]
    last = manipulation.moveaxis(array, axes, tuple(range(-len(axes), 0))) if axes else array
    row = manipulation.reshape(last, (*rest, math.prod(array.shape[place] for place in axes)))
    count = row.shape[-1]
    if count == 0:
        raise ShapeError(what="median", actual=array.shape, expected="at least one element", where=user_location())
    ordered = ordering.sort(row, axis=-1)
    middle = reductions.mean(ordered[..., (count - 1) // 2 : count // 2 + 1], axis=-1)
    found = logic.where(logic.isnan(ordered[..., -1]), math.nan, middle)
    kept = [1 if place in axes else extent for place, extent in enumerate(array.shape)]
    return manipulation.reshape(found, kept) if flag(keepdims, "keepdims") else found


def average(x: ArrayLike, /, axis: Axis = None, weights: ArrayLike | None = None, *, keepdims: bool = False) -> Array:
    """The mean along axes, or sum(x * weights) / sum(weights); weights have x's shape, or that of one axis."""
    if weights is None:
        return reductions.mean(x, axis=axis, keepdims=keepdims)
    shape, given = shape_of(x), shape_of(weights)
    if given != shape:
        axes = many_axes(axis, len(shape), "average")
        if len(axes) != 1 or given != (shape[axes[0]],):
            raise ShapeError(
                what="average: weights",
                actual=given,
                expected=f"{shape}, or the extent of one axis",
                where=user_location(),
            )
        weights = manipulation.reshape(weights, [extent if p in axes else 1 for p, extent in enumerate(shape)])
    with joined(x, weights):
        dtype = common_float(x, weights, what="average")
        values, heavy = lift(cast(x, dtype)), manipulation.broadcast_to(lift(cast(weights, dtype)), shape)
        total = reductions.sum(heavy, axis=axis, keepdims=keepdims)
        return reductions.sum(values * heavy, axis=axis, keepdims=keepdims) / total


def nansum(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The sum along axes of the elements that are not NaN."""
    return reductions.sum(_without_nan(x), axis=axis, keepdims=keepdims)


def nanmean(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The mean along axes of the elements that are not NaN; NaN where there are none."""
    if not dtype_of(x, "nanmean").is_float:
        return reductions.mean(x, axis=axis, keepdims=keepdims)
    with joined(x):
        wide = lift(cast(x, f32)) if dtype_of(x).bits == 16 else lift(strong(x))
        total = nansum(wide, axis=axis, keepdims=keepdims)
        count = reductions.count_nonzero(logic.logical_not(logic.isnan(wide)), axis=axis, keepdims=keepdims)
        return lift(cast(total / lift(cast(count, wide.dtype)), dtype_of(x)))


def _without_nan(x: ArrayLike) -> ArrayLike:
    return logic.where(logic.isnan(x), 0, x) if dtype_of(x, "nansum").is_float else x
