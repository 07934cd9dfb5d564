"""`x.at[key]`: changed copies of an array."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from poot.dtypes import bool_, i32, i64, u8
from poot.errors import ArgumentError, DTypeError, FeatureError
from poot.trace.array import Array, ArrayLike, IndexMode
from poot.trace.dispatch import active, bind1, joined, lift
from poot.trace.graph import Literal
from poot.trace.ops import elementwise, indexing, logic, manipulation
from poot.trace.ops.axes import choice
from poot.trace.ops.creation import asarray, full
from poot.trace.ops.indexkey import Entry, Mask, Position, Positions, Span, arrays_of, on_axes, parse
from poot.trace.ops.maps import refuse_bool
from poot.trace.ops.promotion import cast
from poot.trace.ops.results import of_its_own
from poot.trace.places import together
from poot.trace.source import user_location


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to change elements: from the old and new ones, by a scatter, and by a scatter of bools as u8."""

    combine: Callable[[Array, Array], Array]
    scatter: str
    bools: str | None


SET = Kind(lambda old, new: new, "scatter", "scatter")
ADD = Kind(elementwise.add, "scatter_add", "scatter_max")
SUBTRACT = Kind(elementwise.subtract, "scatter_add", None)
MULTIPLY = Kind(elementwise.multiply, "scatter_mul", "scatter_min")
MINIMUM = Kind(elementwise.minimum, "scatter_min", "scatter_min")
MAXIMUM = Kind(elementwise.maximum, "scatter_max", "scatter_max")
# What several values for one element do together: divide by, or raise to, their product.
DIVIDE = Kind(elementwise.divide, "", None)
POWER = Kind(elementwise.pow, "", None)
_METHODS = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max", "get")
_APPLY = "write `x.at[i].set(f(x[i]))`; where i names an element twice, f is applied to it once."


@dataclass(frozen=True, slots=True)
class At:
    """`x.at`, to be indexed as x itself is."""

    array: Array

    def __getitem__(self, key: Any) -> AtIndex:
        return AtIndex(self.array, key)


@dataclass(frozen=True, slots=True)
class AtIndex:
    """`x.at[key]`.  Each method gives a new array and leaves x as it is.

    Values are broadcast to the indexed part and cast to x's dtype.  The key may be a mask over the leading axes; where
    it is traced, values broadcast over the whole array.  Where an integer array names an element several times, `set`
    keeps the last value and the others combine them all: `divide` divides by the product of its values, and `power`
    raises to it.  `mode` says what an out-of-range element of an integer array
    does: "fault" raises IndexFault when the result is read, "clip" and "wrap" move it into range, "drop" leaves its
    value out.
    """

    array: Array
    key: Any

    def set(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with the part replaced by `values`."""
        return _update(self.array, self.key, values, SET, mode)

    def add(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with `values` added to the part."""
        return _update(self.array, self.key, values, ADD, mode)

    def subtract(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with `values` subtracted from the part."""
        return _update(self.array, self.key, values, SUBTRACT, mode)

    def multiply(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with the part multiplied by `values`."""
        return _update(self.array, self.key, values, MULTIPLY, mode)

    def divide(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with the part divided by `values`; DTypeError but for floats."""
        if not self.array.dtype.is_float:
            raise DTypeError(
                what="x.at[…].divide", actual=self.array.dtype, expected="floats", where=user_location(),
                remedy="cast x first, or write `x.at[i].set(x[i] // v)`.",
            )  # fmt: skip
        return _update(self.array, self.key, values, DIVIDE, mode)

    def power(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with the part raised to the power of `values`; DTypeError for bools."""
        refuse_bool(self.array.dtype, "x.at[…].power")
        return _update(self.array, self.key, values, POWER, mode)

    def __getattr__(self, name: str) -> NoReturn:
        near = [each for each in _METHODS if each.startswith(name)] or difflib.get_close_matches(name, _METHODS, n=1)
        listed = f"x.at[…] has {', '.join(_METHODS)}."
        remedy = _APPLY if name == "apply" else f"did you mean x.at[…].{near[0]}?" if near else listed
        raise FeatureError(feature=f"method x.at[…].{name}", where=user_location(), remedy=remedy)

    def min(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with the smaller of the part and `values`."""
        return _update(self.array, self.key, values, MINIMUM, mode)

    def max(self, values: ArrayLike | Sequence[Any], *, mode: IndexMode = "fault") -> Array:
        """The array with the larger of the part and `values`."""
        return _update(self.array, self.key, values, MAXIMUM, mode)

    def get(self, *, mode: IndexMode = "fault", fill_value: float | None = None) -> Array:
        """The part itself; `mode` may be "fill" here, and not "drop"."""
        indexing.checked_mode(mode)
        return indexing.getitem(self.array, self.key, mode, fill_value)


@of_its_own
def _update(x: Array, key: Any, values: ArrayLike | Sequence[Any], kind: Kind, mode: IndexMode) -> Array:
    choice(mode, "mode", "fault", "clip", "wrap", "drop")
    together(("the array", "the values", "an index"), x, values, *arrays_of(key))
    with joined(x, values):
        new = lift(cast(asarray(values) if isinstance(values, Sequence) else values, x.dtype))
        entries = parse(key, x.shape, keep_mask=not new.shape)
        if any(isinstance(entry, Mask) for entry in entries):
            return _masked(x, entries, new, kind)
        entries = _all_arrays(entries)
        kept = on_axes(entries)
        spans = [indexing.as_span(entry, extent) for entry, extent in zip(kept, x.shape, strict=True)]
        if any(isinstance(entry, Positions) for entry in entries):
            return _write(x, spans, _scattered(indexing.cut(x, kept), entries, new, kind, mode))
        shape = indexing.result_shape(entries)
        changed = new if kind is SET else kind.combine(manipulation.reshape(indexing.cut(x, kept), shape), new)
        part = manipulation.reshape(manipulation.broadcast_to(changed, shape), [span.count for span in spans])
        return _write(x, spans, part)


def _masked(x: Array, entries: Sequence[Entry], new: Array, kind: Kind) -> Array:
    mask, *rest = on_axes(entries)
    if not isinstance(mask, Mask) or any(
        not isinstance(entry, Span) or (entry.count, entry.step) != (extent, 1)
        for entry, extent in zip(rest, x.shape[mask.rank :], strict=False)
    ):
        raise ArgumentError(
            what="x.at[mask]", actual="a mask with other indices", expected="a mask alone", where=user_location()
        )
    condition = manipulation.reshape(lift(mask.array), (*mask.array.shape, *(1,) * (x.ndim - mask.rank)))
    changed = manipulation.broadcast_to(kind.combine(x, new), x.shape)
    return logic.where(condition, changed, x)


def _all_arrays(entries: Sequence[Entry]) -> list[Entry]:
    """The entries with ints beside integer arrays as arrays too, so that one scatter does what is asked for."""
    first = next((entry for entry in entries if isinstance(entry, Positions)), None)
    if first is None:
        return list(entries)
    dtypes = (lift(first.array).dtype, i32, i64)

    def array(entry: Position) -> Positions:
        dtype = next(dtype for dtype in dtypes if entry.index <= dtype.max)
        return Positions(full((), entry.index, dtype=dtype), resolved=True)

    return [array(entry) if isinstance(entry, Position) else entry for entry in entries]


# --- integer arrays ---------------------------------------------------------------------------------------------------


def _scattered(part: Array, entries: Sequence[Entry], new: Array, kind: Kind, mode: IndexMode) -> Array:
    """The part with its elements at integer arrays changed."""
    kept = on_axes(entries)
    axes = tuple(axis for axis, entry in enumerate(kept) if isinstance(entry, Positions))
    positions = [entry for entry in kept if isinstance(entry, Positions)]
    indices = indexing.index_operand(positions, [part.shape[axis] for axis in axes], mode)
    shape, rest = indices.shape[:-1], indexing.result_shape(entries)
    order = indexing.positions_order(entries, len(shape), len(rest))
    whole = (*shape, *rest)
    updates = manipulation.broadcast_to(new, tuple(whole[axis] for axis in order))
    updates = manipulation.permute_dims(updates, [order.index(axis) for axis in range(len(order))])
    window = tuple(extent for axis, extent in enumerate(part.shape) if axis not in axes)
    updates = manipulation.reshape(updates, (*shape, *window))
    if kind in (DIVIDE, POWER):
        factors = bind1("scatter_mul", (full(part.shape, 1, dtype=part.dtype), indices, updates), axes=axes, mode=mode)
        there = full(updates.shape, True)
        changed = bind1("scatter", (full(part.shape, False), indices, there), axes=axes, mode=mode)
        return logic.where(changed, kind.combine(part, factors), part)
    if part.dtype is not bool_ or kind is SET:
        updates = elementwise.negative(updates) if kind is SUBTRACT else updates
        return bind1(kind.scatter, (part, indices, updates), axes=axes, mode=mode)
    if kind.bools is None:
        raise DTypeError(what="x.at[…].subtract", actual=bool_, expected="numbers", where=user_location())
    operands = lift(cast(part, u8)), indices, lift(cast(updates, u8))
    return lift(cast(bind1(kind.bools, operands, axes=axes, mode=mode), bool_))


# --- spans ------------------------------------------------------------------------------------------------------------


def _write(x: Array, spans: Sequence[Span], part: Array) -> Array:
    """The array with its elements at spans replaced by a part that has all of its axes."""
    if part.size == 0:
        return x
    lows = [indexing.lowest(span) for span in spans]
    sizes = tuple(abs(span.step) * (span.count - 1) + 1 for span in spans)
    if active() is None and sizes not in (part.shape, x.shape):
        inner = [Span(span.first - low, span.count, span.step) for span, low in zip(spans, lows, strict=True)]
        whole = [Span(low, size, 1) for low, size in zip(lows, sizes, strict=True)]
        return _write(x, whole, _write(indexing.window(x, lows, sizes), inner, part))
    if backwards := indexing.reversed_axes(spans):
        part = manipulation.flip(part, axis=backwards)
    if sizes == part.shape:
        if part.shape == x.shape:
            return part
        return bind1("dynamic_update_slice", (x, part, *indexing.start_operands(x, lows, sizes)))
    inside, spaced = (_spaced(item, spans, lows, x.shape) for item in (full(part.shape, True), part))
    return logic.where(inside, spaced, x)


def _spaced(part: Array, spans: Sequence[Span], lows: Sequence[int], shape: tuple[int, ...]) -> Array:
    """The part at its places in an array of zeros of the whole shape."""
    gaps = tuple(abs(span.step) - 1 if span.count > 1 else 0 for span in spans)
    highs = tuple(
        extent - low - (gap + 1) * (span.count - 1) - 1
        for extent, low, gap, span in zip(shape, lows, gaps, spans, strict=True)
    )
    zero = Literal(False if part.dtype.kind == "bool" else 0.0 if part.dtype.is_float else 0, part.dtype)
    return bind1("pad", (part, zero), low=tuple(lows), high=highs, interior=gaps)
