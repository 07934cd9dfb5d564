"""What stands between the brackets of `x[…]`, made plain: one entry an axis, positions counted from 0.

Static ints and slices are resolved here, so that an int out of range raises IndexFault at once; integer arrays and
masks are left to `indexing` and `update`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from poot.dtypes import bool_, i32
from poot.errors import ArgumentError, ArgumentTypeError, IndexFault, ShapeError
from poot.foreign import number_kind, numbers
from poot.trace.array import Array, IndexMode, NumpyArray, is_array
from poot.trace.dispatch import active
from poot.trace.ops.creation import constant
from poot.trace.ops.promotion import dtype_of, position_dtype
from poot.trace.source import user_location
from poot.trace.tracer import Tracer, WeakNumber, WeakTracer


@dataclass(frozen=True, slots=True)
class Span:
    """Positions first, first + step … along one axis, `count` of them; step is not 0."""

    first: int
    count: int
    step: int


@dataclass(frozen=True, slots=True)
class Position:
    """One position; the axis goes."""

    index: int


@dataclass(frozen=True, slots=True)
class Positions:
    """An array of positions; unless `resolved`, negative ones still count from the end and any may be out of range."""

    array: Array | NumpyArray
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """A bool array over `rank` axes, whose values are not known while tracing, or do not matter."""

    array: Array | NumpyArray
    rank: int


@dataclass(frozen=True, slots=True)
class NewAxis:
    """`None`: an axis of extent 1."""


@dataclass(frozen=True, slots=True)
class Dots:
    """`...`: no axis itself, followed by the spans of the axes it stands for, but it separates arrays."""


Entry: TypeAlias = Span | Position | Positions | Mask | NewAxis | Dots


def on_axes(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that stand for axes of the array."""
    return [entry for entry in entries if not isinstance(entry, (NewAxis, Dots))]


@dataclass(frozen=True, slots=True)
class _Static:
    """A list between the brackets: its values can never change."""

    values: NumpyArray


def parse(key: Any, shape: tuple[int, ...], *, keep_mask: bool = False) -> list[Entry]:
    """The entries of a key for an array of `shape`, with `...` and missing axes written out.

    A mask whose values are known counts as the positions of its true elements; with `keep_mask` one that stands alone
    stays a Mask.
    Raises IndexFault for a static position out of range, ShapeError for too many entries or a mask that does not fit,
    ArgumentTypeError for what is no index, ConcretizationError for a traced slice bound.
    """
    items: list[Any] = list(cast("tuple[Any, ...]", key)) if isinstance(key, tuple) else [key]
    items = [_Static(_list_values(cast("list[Any]", item))) if isinstance(item, list) else item for item in items]
    keep_mask = keep_mask and len(items) == 1
    used = sum(_axes_of(item) for item in items)
    if used > len(shape):
        raise ShapeError(
            what="index",
            actual=shape,
            expected=f"an array of {used} or more axes, one for each index",
            where=user_location(),
        )
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError(what="index", actual="two `...`", expected="at most one", where=user_location())
    place = dots[0] + 1 if dots else len(items)
    items[place:place] = [slice(None)] * (len(shape) - used)
    entries: list[Entry] = []
    axis = 0
    for item in items:
        entries.extend(_entries(item, axis, shape, keep_mask))
        axis += _axes_of(item)
    return entries


def arrays_of(key: Any) -> list[Array]:
    """The arrays that stand in a key, bounds of slices and items of lists included."""
    items: list[Any] = list(cast("tuple[Any, ...]", key)) if isinstance(key, tuple) else [key]
    for item in list(items):
        if isinstance(item, slice):
            bounds = cast("slice[Any, Any, Any]", item)
            items += [bounds.start, bounds.stop, bounds.step]
        elif isinstance(item, list):
            items += cast("list[Any]", item)
    return [item for item in items if isinstance(item, Array)]


def _list_values(item: list[Any]) -> NumpyArray:
    try:
        values = numbers(item)
    except ValueError:
        values = np.asarray(None)
    if number_kind(values) not in "biu" and values.size:
        raise _no_index("a list of other things")
    return values


def static_indices(indices: Any, axis: int, extent: int, mode: IndexMode, *, from_end: bool = True) -> Any:
    """Python ints past 32 bits, alone or in lists, as positions that mean the same; anything else as it is.

    IndexFault for one out of range in the mode "fault".
    """
    if not _are_ints(indices):
        return indices
    try:
        values = np.array(indices, object)
    except ValueError:  # ragged lists, as `asarray` says
        return indices
    flat = [int(value) for value in values.flat]
    if all(i32.min <= value <= i32.max for value in flat):
        return indices
    found = [_meant(value, axis, extent, mode, -extent if from_end else 0) for value in flat]
    return np.array(found, position_dtype((extent,)).dtype).reshape(values.shape)


def _are_ints(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_are_ints, cast("Sequence[Any]", value)))
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _meant(index: int, axis: int, extent: int, mode: IndexMode, least: int) -> int:
    """A position in range where the mode gives one, else one just outside."""
    if least <= index < extent:
        return index
    if mode == "fault":
        raise IndexFault(what="index", index=index, axis=axis, extent=extent, where=user_location(), remedy="")
    if mode == "wrap" and extent:
        return index % extent
    return extent if index > 0 else least - 1


def _axes_of(item: object) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, _Static):
        return item.values.ndim if item.values.dtype.kind == "b" else 1
    if is_array(item) and dtype_of(item, "index") is bool_:
        return len(item.shape)
    return 1


def _entries(item: Any, axis: int, shape: tuple[int, ...], keep_mask: bool) -> list[Entry]:
    if item is None:
        return [NewAxis()]
    if item is Ellipsis:
        return [Dots()]
    if isinstance(item, slice):
        return [_span(cast("slice[Any, Any, Any]", item), shape[axis])]
    if isinstance(item, _Static):
        return _static_positions(item.values, axis, shape)
    if is_array(item):
        return _array_entries(item, axis, shape, keep_mask)
    if isinstance(item, (bool, np.bool_)):
        raise _no_index("a bool")
    try:
        index = operator.index(item)
    except TypeError:
        raise _no_index(type(item).__name__) from None
    return [Position(checked(index, axis, shape[axis]))]


def checked(index: int, axis: int, extent: int) -> int:
    """A static position counted from 0; IndexFault where it is out of range."""
    return _meant(index, axis, extent, "fault", -extent) % extent


def _span(item: slice[Any, Any, Any], extent: int) -> Span:
    for bound in (item.start, item.stop, item.step):
        traced = isinstance(bound, (Tracer, WeakTracer)) and not isinstance(bound, WeakNumber)
        if traced and bound.dtype.is_integer:
            raise bound.without_value("a bound of a slice")
    try:
        first, stop, step = item.indices(extent)
    except TypeError:
        raise ArgumentTypeError(
            what="slice", actual=repr(item), expected="ints or None as bounds", where=user_location()
        ) from None
    except ValueError:
        raise ArgumentError(what="step of a slice", actual=0, expected="another int", where=user_location()) from None
    count = len(range(first, stop, step))
    if count <= 1:  # any step leads there; the least fits every target
        step = 1 if step > 0 else -1
    return Span(first, count, step)


def _array_entries(item: Array | NumpyArray, axis: int, shape: tuple[int, ...], keep_mask: bool) -> list[Entry]:
    dtype = dtype_of(item, "index")
    if dtype.is_integer:
        return [Positions(item)]
    if dtype is not bool_:
        raise _no_index(f"an array of {dtype}")
    _check_mask(item.shape, axis, shape)
    if isinstance(item, Tracer) or keep_mask:
        return [Mask(item, len(item.shape))]
    if not item.shape:
        raise _no_index("a 0-d bool array")
    context = active()
    values = np.asarray(item) if context is None else context.read(item)
    return _mask_positions(values, read=True)


def _mask_positions(mask: NumpyArray, *, read: bool) -> list[Entry]:
    dtype = position_dtype(mask.shape).dtype
    return [Positions(constant(found.astype(dtype), read=read), resolved=True) for found in np.nonzero(mask)]


def _static_positions(values: NumpyArray, axis: int, shape: tuple[int, ...]) -> list[Entry]:
    if values.dtype.kind == "b":
        _check_mask(values.shape, axis, shape)
        return _mask_positions(values, read=False)
    flat = [checked(index, axis, shape[axis]) for index in values.reshape(-1).tolist()]
    places = np.array(flat, position_dtype(shape).dtype).reshape(values.shape)
    return [Positions(constant(places), resolved=True)]


def _check_mask(mask: tuple[int, ...], axis: int, shape: tuple[int, ...]) -> None:
    expected = shape[axis : axis + len(mask)]
    if mask != expected:
        raise ShapeError(
            what="bool index", actual=mask, expected=f"{expected}, the axes that it covers", where=user_location()
        )


def _no_index(actual: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        what="index",
        actual=actual,
        expected="ints, slices, None, `...`, or arrays of integers or bools",
        where=user_location(),
    )
