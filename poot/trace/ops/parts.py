"""Parts of arrays: their sizes are static, and where they begin may be traced."""

from __future__ import annotations

from collections.abc import Sequence

from poot.errors import ArgumentError, DTypeError
from poot.trace.array import Array, ArrayLike, python_number
from poot.trace.dispatch import Operand, bind1, joined
from poot.trace.ops.axes import operands, static_ints
from poot.trace.ops.promotion import cast, common_dtype, dtype_of, position_dtype, strong
from poot.trace.source import user_location


def dynamic_slice(x: ArrayLike, starts: Sequence[ArrayLike], sizes: Sequence[int], /) -> Array:
    """The part of x of static `sizes` that begins at `starts`, one 0-d integer an axis, which may be traced.

    Starts are moved so that the part lies inside x, as StableHLO specifies it; negative ones do not count from the end.
    """
    operand = strong(x)
    extents, starts = static_ints(sizes, "dynamic_slice: sizes"), operands(starts, "dynamic_slice: starts")
    with joined(operand, *starts):
        return bind1("dynamic_slice", (operand, *_starts(starts, operand.shape)), sizes=extents)


def dynamic_update_slice(x: ArrayLike, update: ArrayLike, starts: Sequence[ArrayLike], /) -> Array:
    """The array with the part that begins at `starts` replaced by `update`; starts are moved as in `dynamic_slice`.

    `update` is cast to the dtype of x and has as many axes; ShapeError where it is larger, DTypeError for starts that
    are no integers.
    """
    dtype = dtype_of(x)
    operand, starts = cast(x, dtype), operands(starts, "dynamic_update_slice: starts")
    with joined(operand, update, *starts):
        return bind1("dynamic_update_slice", (operand, cast(update, dtype), *_starts(starts, operand.shape)))


def _starts(starts: Sequence[ArrayLike], shape: tuple[int, ...]) -> tuple[Operand, ...]:
    if len(starts) != len(shape):
        raise ArgumentError(
            what="starts", actual=f"{len(starts)} of them", expected=f"{len(shape)}, one an axis", where=user_location()
        )
    if not starts:
        return ()
    inside = [_near(start, extent) for start, extent in zip(starts, shape, strict=True)]
    static = all(isinstance(start, int) for start in inside)
    dtype = position_dtype(shape) if static else common_dtype(*inside, what="starts")
    if not dtype.is_integer:
        raise DTypeError(what="starts", actual=dtype, expected="integers", where=user_location())
    return tuple(cast(start, dtype) for start in inside)


def _near(start: ArrayLike, extent: int) -> ArrayLike:
    """A start; one that is known no farther outside than it takes, so that any Python int will do."""
    number = python_number(start)
    return min(max(number, 0), extent) if isinstance(number, int) and not isinstance(number, bool) else start
