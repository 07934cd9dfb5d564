"""Sliding windows: what convolutions and poolings share.

Every window is a view.  Position d * k + s * o of an axis of extent n is found without arithmetic on indices: an axis
laid out again and again and cut into rows of n + d begins its row k at element d * k, of which every s-th is taken.
The planner resolves the movement into one affine index, so that nothing is copied and the number of equations does not
depend on the size of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array
from poot.trace.dispatch import bind1
from poot.trace.graph import Literal
from poot.trace.ops import manipulation
from poot.trace.ops.axes import static_int, static_ints
from poot.trace.source import user_location

Pairs = tuple[tuple[int, int], ...]


def windows(x: Array, axis: int, size: int, count: int, stride: int = 1, dilation: int = 1) -> Array:
    """`count` windows along an axis, which becomes two: places in the window, and windows.

    Element (k, o) is element dilation * k + stride * o, which the caller knows to be within the axis.
    """
    extent = x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if size > 1:
        row = extent + dilation
        copies = -(-size * row // extent)
        spread = manipulation.broadcast_to(
            manipulation.reshape(x, (*before, 1, extent, *after)), (*before, copies, extent, *after)
        )
        x = manipulation.reshape(spread, (*before, copies * extent, *after))
        x = manipulation.cut_axis(x, axis, 0, size * row)
        extent = row
    x = manipulation.reshape(x, (*before, size, extent, *after))
    return manipulation.cut_axis(x, axis + 1, 0, stride * (count - 1) + 1, stride)


# --- geometry ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Geometry:
    """Windows over the last axes: everything is one number an axis; `padding` is elements before and after."""

    extents: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: Pairs
    counts: tuple[int, ...]

    def padded(self, x: Array, value: float | int) -> Array:
        """The array with its last axes padded, as far as windows reach."""
        rank = len(self.sizes)
        low = (*(0,) * (x.ndim - rank), *(pair[0] for pair in self.padding))
        high = (*(0,) * (x.ndim - rank), *(self._missing(axis) for axis in range(rank)))
        if not any(low) and not any(high):
            return x
        return bind1("pad", (x, Literal(value, x.dtype)), low=low, high=high, interior=(0,) * x.ndim)

    def _missing(self, axis: int) -> int:
        """How many elements the last window needs past the axis."""
        reach = self.dilations[axis] * (self.sizes[axis] - 1) + self.strides[axis] * (self.counts[axis] - 1) + 1
        return max(0, reach - self.extents[axis] - self.padding[axis][0])

    def over(self, x: Array) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
        """The windows of a padded array, its axes of places in a window, and its axes of windows."""
        lead = x.ndim - len(self.sizes)
        for number, (size, count) in enumerate(zip(self.sizes, self.counts, strict=True)):
            x = windows(x, lead + 2 * number, size, count, self.strides[number], self.dilations[number])
        inner = tuple(range(lead, x.ndim, 2))
        return x, inner, tuple(axis + 1 for axis in inner)


def geometry(
    what: str,
    extents: Sequence[int],
    sizes: Sequence[int],
    stride: int | Sequence[int],
    padding: str | int | Sequence[Any],
    dilation: int | Sequence[int],
    *,
    ceil: bool = False,
) -> Geometry:
    """Where windows lie; ShapeError if they do not fit, ArgumentError for other wrong numbers.

    `padding` is "valid", "same" (as many windows as strides fit, the odd element after), "same_lower" (it goes before),
    an int, one int an axis, or one pair an axis.  `ceil` adds a last window that only begins inside the padded axis.
    """
    rank = len(sizes)
    strides, dilations = per_axis(f"{what}: stride", stride, rank), per_axis(f"{what}: dilation", dilation, rank)
    spans = [by * (size - 1) + 1 for by, size in zip(dilations, sizes, strict=True)]
    pairs = _pairs(what, padding, extents, spans, strides)
    counts: list[int] = []
    for extent, span, step, (low, high) in zip(extents, spans, strides, pairs, strict=True):
        room = low + extent + high - span
        if room < 0 or extent == 0:
            raise ShapeError(
                what=what,
                actual=tuple(extents),
                expected=f"windows {tuple(spans)} to fit, with padding {pairs}",
                where=user_location(),
            )
        count = room // step + 1
        if ceil and room % step and count * step < low + extent:  # it begins inside
            count += 1
        counts.append(count)
    return Geometry(tuple(extents), tuple(sizes), strides, dilations, pairs, tuple(counts))


def per_axis(what: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """One int an axis, or one for all."""
    found = static_ints(value, what)
    found = found * rank if len(found) == 1 else found
    if len(found) != rank or any(item < least for item in found):
        raise ArgumentError(
            what=what, actual=value, expected=f"an int or {rank} ints, at least {least}", where=user_location()
        )
    return found


def _pairs(what: str, padding: Any, extents: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> Pairs:
    if isinstance(padding, str):
        if padding not in ("valid", "same", "same_lower"):
            raise ArgumentError(
                what=f"{what}: padding",
                actual=padding,
                expected='"valid", "same", "same_lower", ints or pairs of them',
                where=user_location(),
            )
        if padding == "valid":
            return ((0, 0),) * len(spans)
        totals = [
            max(0, (-(-extent // step) - 1) * step + span - extent)
            for extent, span, step in zip(extents, spans, strides, strict=True)
        ]
        less = [(total // 2, total - total // 2) for total in totals]
        return tuple(less) if padding == "same" else tuple((high, low) for low, high in less)
    rank = len(spans)
    items: list[Any] = list(padding) if isinstance(padding, (list, tuple)) else [padding] * rank  # pyright: ignore[reportUnknownArgumentType]
    found = [static_ints(item, f"{what}: padding") for item in items]
    pairs = tuple((item[0], item[-1]) for item in found if len(item) in (1, 2))
    if len(pairs) != rank or len(pairs) != len(found) or any(width < 0 for pair in pairs for width in pair):
        raise ArgumentError(
            what=f"{what}: padding",
            actual=padding,
            expected=f"an int, {rank} ints, or {rank} pairs of them, at least 0",
            where=user_location(),
        )
    return pairs


def images(what: str, x: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The spatial extents of [batch, channels, ...]."""
    if len(x) != rank + 2:
        raise ShapeError(what=f"{what}: x", actual=x, expected=f"[batch, channels, {rank} more]", where=user_location())
    return x[2:]


def positive(what: str, value: Any) -> int:
    """An int of at least 1."""
    found = static_int(value, what)
    if found < 1:
        raise ArgumentError(what=what, actual=found, expected="at least 1", where=user_location())
    return found
