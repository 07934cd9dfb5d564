"""`x.at[key]`: changed copies of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from poot.dtypes import i32
from poot.errors import ArgumentError, FeatureError
from poot.trace.array import Array, ArrayLike, IndexMode
from poot.trace.dispatch import bind1, joined, lift
from poot.trace.graph import Literal
from poot.trace.ops import elementwise, indexing, logic, manipulation
from poot.trace.ops.creation import full
from poot.trace.ops.indexkey import Entry, Mask, Positions, Span, on_axes, parse
from poot.trace.ops.promotion import cast
from poot.trace.source import user_location

#: Makes the new elements from the old ones and the values.
Combine = Callable[[Array, ArrayLike], Array]


@dataclass(frozen=True, slots=True)
class At:
    """`x.at`, to be indexed as x itself is."""

    array: Array

    def __getitem__(self, key: Any) -> AtIndex:
        return AtIndex(self.array, key)


@dataclass(frozen=True, slots=True)
class AtIndex:
    """`x.at[key]`.  Each method gives a new array and leaves x as it is.

    Values are broadcast to the indexed part and cast to x's dtype.  The key may be a mask over the leading axes; values
    then broadcast over the whole array.
    """

    array: Array
    key: Any

    def set(self, values: ArrayLike) -> Array:
        """The array with the part replaced by `values`."""
        return _update(self.array, self.key, values, lambda old, new: lift(cast(new, old.dtype)))

    def add(self, values: ArrayLike) -> Array:
        """The array with `values` added to the part."""
        return _update(self.array, self.key, values, elementwise.add)

    def subtract(self, values: ArrayLike) -> Array:
        """The array with `values` subtracted from the part."""
        return _update(self.array, self.key, values, elementwise.subtract)

    def multiply(self, values: ArrayLike) -> Array:
        """The array with the part multiplied by `values`."""
        return _update(self.array, self.key, values, elementwise.multiply)

    def min(self, values: ArrayLike) -> Array:
        """The array with the smaller of the part and `values`."""
        return _update(self.array, self.key, values, elementwise.minimum)

    def max(self, values: ArrayLike) -> Array:
        """The array with the larger of the part and `values`."""
        return _update(self.array, self.key, values, elementwise.maximum)

    def get(self, *, mode: IndexMode = "fault", fill_value: float | None = None) -> Array:
        """The part itself, with a choice of what out-of-range elements of integer arrays give."""
        return indexing.getitem(self.array, self.key, mode, fill_value)


def _update(x: Array, key: Any, values: ArrayLike, combine: Combine) -> Array:
    with joined(x, values):
        entries = parse(key, x.shape)
        if any(isinstance(entry, Mask) for entry in entries):
            return _masked(x, entries, values, combine)
        if any(isinstance(entry, Positions) for entry in entries):
            raise FeatureError(feature="update at an integer array", where=user_location())
        return _spanned(x, entries, values, combine)


def _masked(x: Array, entries: Sequence[Entry], values: ArrayLike, combine: Combine) -> Array:
    mask, *rest = on_axes(entries)
    if not isinstance(mask, Mask) or any(
        not isinstance(entry, Span) or (entry.count, entry.step) != (extent, 1)
        for entry, extent in zip(rest, x.shape[mask.rank :], strict=False)
    ):
        raise ArgumentError(
            what="x.at[mask]", actual="a mask with other indices", expected="a mask alone", where=user_location()
        )
    condition = manipulation.reshape(lift(mask.array), (*mask.array.shape, *(1,) * (x.ndim - mask.rank)))
    changed = manipulation.broadcast_to(_same_dtype(x, values, combine), x.shape)
    return logic.where(condition, changed, x)


def _spanned(x: Array, entries: Sequence[Entry], values: ArrayLike, combine: Combine) -> Array:
    kept = on_axes(entries)
    spans = [indexing.as_span(entry, extent) for entry, extent in zip(kept, x.shape, strict=True)]
    shape = indexing.result_shape(entries)
    part = manipulation.reshape(indexing.cut(x, kept), shape)
    changed = manipulation.broadcast_to(_same_dtype(part, values, combine), shape)
    changed = manipulation.reshape(changed, [span.count for span in spans])
    if backwards := indexing.reversed_axes(spans):
        changed = manipulation.flip(changed, axis=backwards)
    if changed.size == 0:
        return x
    lows = [indexing.lowest(span) for span in spans]
    if all(abs(span.step) == 1 or span.count == 1 for span in spans):
        if changed.shape == x.shape:
            return changed
        return bind1("dynamic_update_slice", (x, changed, *(Literal(low, i32) for low in lows)))
    inside, spaced = (_spaced(part, spans, lows, x.shape) for part in (full(changed.shape, True), changed))
    return logic.where(inside, spaced, x)


def _same_dtype(part: Array, values: ArrayLike, combine: Combine) -> Array:
    return combine(part, lift(cast(values, part.dtype)))


def _spaced(part: Array, spans: Sequence[Span], lows: Sequence[int], shape: tuple[int, ...]) -> Array:
    """The part at its places in an array of zeros of the whole shape."""
    gaps = tuple(abs(span.step) - 1 if span.count > 1 else 0 for span in spans)
    highs = tuple(
        extent - low - (gap + 1) * (span.count - 1) - 1
        for extent, low, gap, span in zip(shape, lows, gaps, spans, strict=True)
    )
    zero = Literal(False if part.dtype.kind == "bool" else 0.0 if part.dtype.is_float else 0, part.dtype)
    return bind1("pad", (part, zero), low=tuple(lows), high=highs, interior=gaps)
