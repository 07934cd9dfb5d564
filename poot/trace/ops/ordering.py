"""Sorting, positions of extrema, and running sums.

Order is that of values, zeros of either sign being equal and NaN after every number.
"""

from __future__ import annotations

from typing import Literal as Choice

from poot.dtypes import DTypeLike, bool_, i32, u8
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import Operand, bind, bind1, joined, lift
from poot.trace.ops import elementwise, indexing, logic, manipulation, reductions
from poot.trace.ops.axes import choice, flag, one_axis, static_int
from poot.trace.ops.creation import full, iota
from poot.trace.ops.promotion import cast, common_dtype, dtype_argument, dtype_of, shape_of, strong
from poot.trace.source import user_location


def _along(x: ArrayLike, axis: int | None, what: str) -> tuple[Operand, int]:
    """The operand and its axis counted from 0; flattened for None."""
    if axis is None:
        x, axis = manipulation.reshape(x, (-1,)), 0
    operand = strong(x)
    return operand, one_axis(axis, len(operand.shape), what)


# --- order ------------------------------------------------------------------------------------------------------------


def sort(x: ArrayLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The elements in ascending order along an axis, or flattened for None; NaN last, or first where descending.

    The order is stable whatever `stable` says.
    """
    operand, place = _along(x, axis, "sort")
    return bind1("sort", (operand,), axis=place, descending=flag(descending, "descending"))


def argsort(x: ArrayLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The positions (i32) that sort x along an axis, or flattened for None; of equal elements the first comes first."""
    operand, place = _along(x, axis, "argsort")
    with joined(operand):
        positions = iota(operand.shape, place)
        return bind("sort", (operand, positions), axis=place, descending=flag(descending, "descending"))[1]


def top_k(x: ArrayLike, k: int, /, axis: int = -1) -> tuple[Array, Array]:
    """The k largest elements along an axis in descending order, and their positions (i32).

    NaN counts as largest; of equal elements the first comes first.
    """
    operand, place = _along(x, axis, "top_k")
    count, extent = static_int(k, "top_k: k"), operand.shape[place]
    if not 0 <= count <= extent:
        raise ArgumentError(what="top_k: k", actual=count, expected=f"0 to {extent}", where=user_location())
    values, positions = bind("top_k", (manipulation.moveaxis(lift(operand), place, -1),), k=count)
    return manipulation.moveaxis(values, -1, place), manipulation.moveaxis(positions, -1, place)


def searchsorted(
    x1: ArrayLike, x2: ArrayLike, /, *, side: Choice["left", "right"] = "left", sorter: ArrayLike | None = None
) -> Array:
    """Where each element of x2 would stand in the ascending x1, [n]: before its equals, or after them (i32).

    `sorter` holds the positions that bring x1 into ascending order.  A binary search of log2(n) steps.
    """
    if sorter is not None:
        x1 = indexing.take(x1, sorter)
    choice(side, "searchsorted: side", "left", "right")
    if len(shape_of(x1)) != 1:
        raise ShapeError(what="searchsorted: x1", actual=shape_of(x1), expected="one axis", where=user_location())
    if shape_of(x1)[0] > i32.max:
        expected, remedy = f"at most {i32.max} elements: positions are i32", "split the axis into several."
        raise ShapeError(
            what="searchsorted: x1", actual=shape_of(x1), expected=expected, where=user_location(), remedy=remedy
        )
    dtype = common_dtype(x1, x2, what="searchsorted")
    with joined(x1, x2):
        row, values = lift(cast(x1, dtype)), lift(cast(x2, dtype))
        low = full(values.shape, 0, dtype=i32)
        high = full(values.shape, row.size, dtype=i32)
        last = logic.isnan(values)
        for _ in range(row.size.bit_length()):
            middle = low + (high - low) // 2  # low + high may be past i32
            found = indexing.take(row, middle, mode="clip")
            before = found < values if side == "left" else found <= values
            if dtype.is_float:  # NaN stands after every number, and equals itself
                before = logic.logical_or(before, logic.logical_and(last, found == found) if side == "left" else last)
            before = logic.logical_and(before, middle < high)
            low, high = logic.where(before, middle + 1, low), logic.where(before, high, middle)
        return low


# --- positions of extrema ---------------------------------------------------------------------------------------------


def argmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The position (i32) of the first largest element along an axis, or flattened for None, or of the first NaN."""
    return _position("argmax", x, axis, keepdims)


def argmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The position (i32) of the first smallest element along an axis, or flattened for None, or of the first NaN."""
    return _position("argmin", x, axis, keepdims)


def _position(primitive: str, x: ArrayLike, axis: int | None, keepdims: bool) -> Array:
    operand, place = _along(x, axis, primitive)
    if operand.shape[place] == 0:
        raise ShapeError(
            what=primitive, actual=shape_of(x), expected="at least one element to choose", where=user_location()
        )
    result = bind1(primitive, (operand,), axis=place, dtype=i32)
    if not flag(keepdims, "keepdims"):
        return result
    shape = (1,) * len(shape_of(x)) if axis is None else (*operand.shape[:place], 1, *operand.shape[place + 1 :])
    return manipulation.reshape(result, shape)


# --- running results --------------------------------------------------------------------------------------------------


def cumsum(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """The sums of all elements up to each along an axis, or flattened for None; dtypes are those of `sum`."""
    return _running("cumsum", x, axis, dtype)


def cumprod(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """The products of all elements up to each along an axis, or flattened for None; dtypes are those of `prod`."""
    return _running("cumprod", x, axis, dtype)


def cummax(x: ArrayLike, /, axis: int = -1) -> Array:
    """The largest of all elements up to each along an axis; NaN from the first NaN on."""
    return _extreme("cummax", x, axis)


def cummin(x: ArrayLike, /, axis: int = -1) -> Array:
    """The smallest of all elements up to each along an axis; NaN from the first NaN on."""
    return _extreme("cummin", x, axis)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The array API's cumsum: the axis may be left out of 1-d arrays only; `include_initial` puts a 0 first."""
    return _standard("cumsum", x, axis, dtype, 0 if flag(include_initial, "include_initial") else None)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The array API's cumprod: the axis may be left out of 1-d arrays only; `include_initial` puts a 1 first."""
    return _standard("cumprod", x, axis, dtype, 1 if flag(include_initial, "include_initial") else None)


def _running(primitive: str, x: ArrayLike, axis: int | None, dtype: DTypeLike) -> Array:
    operand, place = _along(x, axis, primitive)
    found = reductions.sum_dtype(dtype_of(operand)) if dtype is None else dtype_argument(dtype)
    if found is bool_:
        raise DTypeError(what=primitive, actual=found, expected="a number dtype", where=user_location())
    return bind1(primitive, (cast(operand, found),), axis=place, reverse=False)


def _extreme(primitive: str, x: ArrayLike, axis: int) -> Array:
    operand, place = _along(x, axis, primitive)
    if dtype_of(operand) is not bool_:
        return bind1(primitive, (operand,), axis=place, reverse=False)
    return lift(cast(bind1(primitive, (cast(operand, u8),), axis=place, reverse=False), bool_))


def _standard(primitive: str, x: ArrayLike, axis: int | None, dtype: DTypeLike, initial: int | None) -> Array:
    shape = shape_of(x)
    if axis is None and len(shape) != 1:
        raise ShapeError(
            what=f"cumulative_{primitive.removeprefix('cum')}: x without axis=", actual=shape, expected="one axis",
            where=user_location(),
        )  # fmt: skip
    place = one_axis(0 if axis is None else axis, len(shape), primitive)
    result = _running(primitive, x, place, dtype)
    if initial is None:
        return result
    with joined(result):
        first = full((*shape[:place], 1, *shape[place + 1 :]), initial, dtype=result.dtype)
        return manipulation.concat([first, result], axis=place)


def diff(
    x: ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, taken n times; `prepend` and `append` are joined to x first."""
    with joined(x, *(part for part in (prepend, append) if part is not None)):
        result = lift(strong(x))
        place = one_axis(axis, result.ndim, "diff")
        parts = [prepend, result, append]
        if prepend is not None or append is not None:
            result = manipulation.concat([part for part in parts if part is not None], axis=place)
    times = static_int(n, "diff: n")
    if times < 0:
        raise ArgumentError(what="diff: n", actual=times, expected="0 or more", where=user_location())
    for _ in range(times):
        if not result.shape[place]:
            break  # as it stays, however often
        extent = result.shape[place]
        later = manipulation.cut_axis(result, place, min(1, extent), extent)
        earlier = manipulation.cut_axis(result, place, 0, max(extent - 1, 0))
        different = logic.not_equal if result.dtype is bool_ else elementwise.subtract
        result = different(later, earlier)
    return result
