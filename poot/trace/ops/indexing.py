"""Reading by index: `x[…]`, take and the like.

Static ints and slices become slices, reversals and reshapes in a trace; on concrete arrays, where a program is kept for
the next call, ints and the bounds of slices are inputs of it.  Integer arrays become gathers.  Negative indices count
from the end.  What an out-of-range element of an integer array does is `mode`: "fault", the default, raises IndexFault
when the result is read; "clip" takes the nearest element, "wrap" the index modulo the extent, "fill" gives `fill_value`
(by default NaN, the least integer, the greatest unsigned one, or True).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from poot.dtypes import DType, bool_, i32
from poot.errors import ArgumentError, ConcretizationError, DTypeError, ShapeError
from poot.trace.array import Array, ArrayLike, IndexMode, NumpyArray
from poot.trace.dispatch import Operand, active, bind1, joined, lift
from poot.trace.graph import Literal
from poot.trace.ops import logic, manipulation
from poot.trace.ops.axes import choice, one_axis
from poot.trace.ops.creation import asarray
from poot.trace.ops.indexkey import (
    Entry,
    Mask,
    NewAxis,
    Position,
    Positions,
    Span,
    arrays_of,
    on_axes,
    parse,
    static_indices,
)
from poot.trace.ops.promotion import (
    broadcast_shapes,
    cast,
    common_dtype,
    dtype_of,
    literal,
    position_dtype,
    shape_of,
    strong,
)
from poot.trace.ops.results import of_its_own
from poot.trace.places import together
from poot.trace.source import user_location
from poot.trace.tracer import Tracer


@of_its_own
def getitem(x: ArrayLike, key: Any, mode: IndexMode = "fault", fill_value: float | None = None) -> Array:
    """`x[key]` with NumPy's rules: ints, slices, None, `...`, integer arrays, and masks whose values are known."""
    operand = strong(x)
    together(("the array", "an index"), operand, *arrays_of(key))
    with joined(operand):
        entries = parse(key, operand.shape)
        positions = [entry for entry in entries if isinstance(entry, Positions)]
        if active() is None and not positions:
            operand, entries = _picked(operand, entries)
        part = cut(operand, on_axes(entries))
        if positions:
            return _look_up(part, entries, positions, mode, fill_value)
        shape = result_shape(entries)
        return part if part.shape == shape else bind1("reshape", (part,), shape=shape)


def result_shape(entries: Sequence[Entry]) -> tuple[int, ...]:
    """The extents of the spans and new axes."""
    shape: list[int] = []
    for entry in entries:
        if isinstance(entry, NewAxis):
            shape.append(1)
        elif isinstance(entry, Span):
            shape.append(entry.count)
    return tuple(shape)


# --- spans and positions ----------------------------------------------------------------------------------------------


def cut(x: Operand, entries: Sequence[Entry]) -> Array:
    """The spans and positions of x, every axis kept: a position leaves extent 1, an array leaves the axis whole."""
    spans = [as_span(entry, extent) for entry, extent in zip(entries, x.shape, strict=True)]
    starts, steps = tuple(lowest(span) for span in spans), tuple(abs(span.step) for span in spans)
    limits = tuple(
        low + step * (span.count - 1) + 1 if span.count else low
        for low, step, span in zip(starts, steps, spans, strict=True)
    )
    result = lift(x)
    if active() is None:
        sizes = tuple(limit - start for start, limit in zip(starts, limits, strict=True))
        result = window(result, starts, sizes)
        starts, limits = (0,) * len(sizes), sizes
    if limits != result.shape or any(starts) or any(step > 1 for step in steps):
        result = bind1("slice", (result,), start=starts, limit=limits, step=steps)
    backwards = reversed_axes(spans)
    return bind1("reverse", (result,), axes=backwards) if backwards else result


def _picked(x: Operand, entries: list[Entry]) -> tuple[Operand, list[Entry]]:
    """A concrete array at its static positions, and the entries of the other axes.

    Positions are an input of the computation, so that one program serves them all.
    """
    kept = on_axes(entries)
    axes = tuple(axis for axis, entry in enumerate(kept) if isinstance(entry, Position))
    if not axes:
        return x, entries
    dtype = position_dtype(x.shape).dtype
    index = np.array([entry.index for entry in kept if isinstance(entry, Position)], dtype)
    found = bind1("gather", (x, index), axes=axes, mode="clip")  # `parse` has checked them
    return found, [entry for entry in entries if not isinstance(entry, Position)]


def window(x: Array, starts: Sequence[int], sizes: tuple[int, ...]) -> Array:
    """A part of a concrete array, where its starts are an input of the computation, too."""
    if sizes == x.shape:
        return x
    if 0 in sizes:
        return bind1("slice", (x,), start=(0,) * len(sizes), limit=sizes, step=(1,) * len(sizes))
    return bind1("dynamic_slice", (x, *start_operands(x, starts, sizes)), sizes=sizes)


def start_operands(x: Array, starts: Sequence[int], sizes: Sequence[int]) -> list[Operand]:
    """Where a part of x begins: constants in a trace, and inputs outside but on axes that the part has whole."""
    fixed, dtype = active() is not None, position_dtype(x.shape)
    return [
        Literal(start, dtype) if fixed or size == extent else np.asarray(start, dtype.dtype)
        for start, size, extent in zip(starts, sizes, x.shape, strict=True)
    ]


def as_span(entry: Entry, extent: int) -> Span:
    """What an entry cuts from an axis before arrays are looked up."""
    if isinstance(entry, Span):
        return entry
    if isinstance(entry, Mask):
        raise _unknown_mask(entry.array)
    return Span(entry.index, 1, 1) if isinstance(entry, Position) else Span(0, extent, 1)


def lowest(span: Span) -> int:
    """The least position of a span; 0 of an empty one."""
    if not span.count:
        return 0
    return span.first if span.step > 0 else span.first + span.step * (span.count - 1)


def reversed_axes(spans: Sequence[Span]) -> tuple[int, ...]:
    """The axes along which spans run backwards."""
    return tuple(axis for axis, span in enumerate(spans) if span.step < 0 and span.count > 1)


def _unknown_mask(mask: Array | NumpyArray) -> ConcretizationError:
    assert isinstance(mask, Tracer), mask  # of others the values are known
    return ConcretizationError(
        what=mask.label,
        function=mask.builder.name,
        use="a bool index, whose result has as many elements as the mask has true ones",
        where=user_location(),
        remedy="use `ops.where(mask, x, other)` or `x.at[mask].set(v)`, which keep the shape, or "
        "`x[ops.argsort(~mask)[:n]]` for n elements, those of the mask first; masks that are captured arrays or static "
        "arguments are known, and work.",
    )


# --- arrays of positions ----------------------------------------------------------------------------------------------


def _look_up(
    part: Array, entries: Sequence[Entry], positions: list[Positions], mode: IndexMode, fill_value: float | None
) -> Array:
    kept = on_axes(entries)
    axes = tuple(axis for axis, entry in enumerate(kept) if isinstance(entry, Positions))
    indices = index_operand(positions, tuple(part.shape[axis] for axis in axes), mode)
    found = gather(part, indices, axes, mode, fill_value)
    shape, rest = indices.shape[:-1], result_shape(entries)
    found = manipulation.reshape(found, (*shape, *rest))
    return manipulation.permute_dims(found, positions_order(entries, len(shape), len(rest)))


def positions_order(entries: Sequence[Entry], rank: int, rest: int) -> list[int]:
    """The permutation from (axes of index arrays, other axes) to the axes that NumPy gives.

    Those of arrays stand where the arrays and ints stood, or in front where something stood between them.
    """
    places = [place for place, entry in enumerate(entries) if isinstance(entry, (Position, Positions))]
    together = places[-1] - places[0] == len(places) - 1
    first = len(result_shape(entries[: places[0]])) if together else 0
    order = list(range(rank, rank + rest))
    order[first:first] = range(rank)
    return order


def index_operand(positions: Sequence[Positions], extents: Sequence[int], mode: IndexMode) -> Array:
    """The indices of a gather or scatter: arrays broadcast together and stacked on a last axis."""
    resolved = [_resolved(entry, extent, mode) for entry, extent in zip(positions, extents, strict=True)]
    shape = broadcast_shapes([array.shape for array in resolved], "index arrays")
    dtype = common_dtype(*resolved, what="index arrays")
    if not dtype.is_integer:
        raise DTypeError(what="index arrays", actual="i64 and u64", expected="one of them", where=user_location())
    columns = [
        manipulation.reshape(manipulation.broadcast_to(lift(cast(array, dtype)), shape), (*shape, 1))
        for array in resolved
    ]
    return manipulation.concat(columns, axis=-1)


def _resolved(entry: Positions, extent: int, mode: IndexMode) -> Array:
    """Positions counted from 0, in a dtype that holds the extent."""
    index = lift(entry.array)
    counted = not entry.resolved and mode != "wrap" and index.dtype.kind == "int"
    if index.dtype.bits < 32 or (counted and extent > index.dtype.max):
        index = lift(cast(index, position_dtype((extent,)) if counted else i32))
    if not counted:
        return index
    return logic.where((index < 0) & (index >= -extent), index + extent, index)


def gather(x: Operand, indices: Operand, axes: tuple[int, ...], mode: IndexMode, fill_value: float | None) -> Array:
    """Windows of x at `indices` on `axes`, the position axes first."""
    return _gather(x, indices, axes, 0, mode, fill_value)


def _gather(
    x: Operand, indices: Operand, axes: tuple[int, ...], batch: int, mode: IndexMode, fill_value: float | None
) -> Array:
    dtype = dtype_of(x)
    checked_mode(mode)
    known = active() is not None and not isinstance(fill_value, Array)  # else it is an input of the computation
    if mode == "fill" and fill_value is not None and not known and all(x.shape[axis] for axis in axes):
        fill = cast(fill_value, dtype) if isinstance(fill_value, Array) else literal(fill_value, dtype)
        return _filled(x, lift(indices), axes, batch, fill)
    params: dict[str, Any] = {"axes": axes, "mode": mode}
    if batch:
        params["batch"] = batch
    if mode == "fill":
        params["fill"] = _fill(dtype) if fill_value is None else literal(fill_value, dtype).value
    elif fill_value is not None:
        raise ArgumentError(what="fill_value", actual=fill_value, expected='None but with mode="fill"')
    return bind1("gather", (x, indices), **params)


def _filled(x: Operand, indices: Array, axes: tuple[int, ...], batch: int, fill: Operand) -> Array:
    """What "fill" gives, for a 0-d operand as the fill value."""
    found = _gather(x, indices, axes, batch, "clip", None)
    most = int(indices.dtype.max)
    last = np.array([min(x.shape[axis] - 1, most) for axis in axes], indices.dtype.dtype)
    within = logic.logical_and(indices >= 0, indices <= last)
    within = bind1("reduce_all", (within,), axes=(within.ndim - 1,))
    within = manipulation.reshape(within, (*within.shape, *(1,) * (found.ndim - within.ndim)))
    return bind1("select", (manipulation.broadcast_to(within, found.shape), found, fill))


def _fill(dtype: DType) -> bool | int | float:
    """What "fill" gives unless told: NaN, the least integer, the greatest unsigned one, or True."""
    if dtype is bool_:
        return True
    if dtype.is_float:
        return float("nan")
    return int(dtype.min if dtype.kind == "int" else dtype.max)


def take(
    x: ArrayLike,
    indices: ArrayLike | Sequence[int],
    /,
    axis: int | None = None,
    *,
    mode: IndexMode = "fault",
    fill_value: float | None = None,
) -> Array:
    """The elements of x at `indices` along an axis, or of the flattened array for None.

    The shape of `indices` replaces the axis.  Modes are those of `x[…]`; with "clip" a negative index is clipped to 0,
    as NumPy's take does it.
    """
    if axis is None:
        x, axis = manipulation.reshape(x, (-1,)), 0
    operand = strong(x)
    place = one_axis(axis, len(operand.shape), "take")
    indices = static_indices(indices, place, operand.shape[place], mode)
    with joined(operand, indices):
        index = _integers(asarray(indices), "take")
        column = manipulation.reshape(_from_end(index, operand.shape[place], mode), (*index.shape, 1))
        found = gather(operand, column, (place,), mode, fill_value)
        rank = index.ndim
        order = list(range(rank, rank + len(operand.shape) - 1))
        order[place:place] = range(rank)
        return manipulation.permute_dims(found, order)


def rows(x: ArrayLike, indices: ArrayLike, mode: IndexMode) -> Array:
    """`take` of the first axis, where negative indices are out of range."""
    operand = strong(x)
    one_axis(0, len(operand.shape), "take")
    checked_mode(mode)
    indices = static_indices(indices, 0, operand.shape[0], mode, from_end=False)
    with joined(operand, indices):
        index = _integers(asarray(indices), "take")
        return gather(operand, manipulation.reshape(index, (*index.shape, 1)), (0,), mode, None)


def take_along_axis(
    x: ArrayLike,
    indices: ArrayLike,
    /,
    axis: int = -1,
    *,
    mode: IndexMode = "fault",
    fill_value: float | None = None,
) -> Array:
    """The elements of x at one index each along an axis; the other axes of x and `indices` broadcast together."""
    checked_mode(mode)
    return along_axis(x, indices, axis, mode, fill_value, from_end=mode != "clip")


def along_axis(
    x: ArrayLike,
    indices: ArrayLike,
    axis: int,
    mode: IndexMode = "fault",
    fill_value: float | None = None,
    *,
    from_end: bool = False,
) -> Array:
    """`take_along_axis`, where negative indices are out of range unless they count `from_end`."""
    operand = strong(x)
    rank = len(operand.shape)
    place = one_axis(axis, rank, "take_along_axis")
    if len(shape_of(indices)) != rank:
        raise ShapeError(
            what="take_along_axis: indices", actual=shape_of(indices), expected=f"{rank} axes", where=user_location()
        )
    with joined(operand, indices):
        values = manipulation.moveaxis(lift(operand), place, -1)
        index = manipulation.moveaxis(_integers(asarray(indices), "take_along_axis"), place, -1)
        shared = broadcast_shapes([values.shape[:-1], index.shape[:-1]], "take_along_axis")
        values = manipulation.broadcast_to(values, (*shared, values.shape[-1]))
        if from_end:
            index = _resolved(Positions(index), values.shape[-1], mode)
        index = manipulation.broadcast_to(index, (*shared, index.shape[-1]))
        column = manipulation.expand_dims(index, -1)
        found = _gather(values, column, (rank - 1,), rank - 1, mode, fill_value)
        return manipulation.moveaxis(found, -1, place)


def _integers(index: Array, what: str) -> Array:
    if not index.dtype.is_integer:
        raise DTypeError(what=f"{what}: indices", actual=index.dtype, expected="integers", where=user_location())
    return index


def checked_mode(mode: object) -> None:
    """ArgumentError for what is no mode of reading."""
    choice(mode, "mode", "fault", "clip", "wrap", "fill")


def _from_end(index: Array, extent: int, mode: IndexMode) -> Array:
    checked_mode(mode)
    return index if mode == "clip" else _resolved(Positions(index), extent, mode)
