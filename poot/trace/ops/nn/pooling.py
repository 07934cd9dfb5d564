"""Poolings: the greatest or the mean element of each window."""

from __future__ import annotations

import math

from poot.dtypes import f32, i32
from poot.errors import ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, manipulation, reductions
from poot.trace.ops.creation import iota
from poot.trace.ops.maps import narrowed, refuse_bool, widened
from poot.trace.ops.nn.convolution import Ints, Padding
from poot.trace.ops.nn.windows import Geometry, geometry, images, per_axis
from poot.trace.ops.promotion import cast, dtype_of, shape_of
from poot.trace.source import user_location


def max_pool(
    x: ArrayLike,
    window: Ints,
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil: bool = False,
) -> Array:
    """The greatest element of each window; NaN where it has one.

    Args:
        x: [batch, channels, *extents], of any number dtype, which the result keeps.
        window: The window's size along each of the last axes; an int for all of them.
        stride: Steps between windows; by default the window's size.
        padding: As in `conv`; padding is never the greatest, unless a window has nothing else (-inf, or the least
            integer).
        dilation: Steps between the elements of a window.
        ceil: Keep a last window that begins inside x or the padding before it, and ends past its end.
    """
    dtype = dtype_of(x, "max_pool")
    refuse_bool(dtype, "max_pool")
    place = _geometry("max_pool", x, window, stride, padding, dilation, ceil)
    with joined(x):
        least = -math.inf if dtype.is_float else int(dtype.min)
        view, inner, _ = place.over(place.padded(lift(cast(x, dtype)), least))
        return reductions.max(view, inner)


def avg_pool(
    x: ArrayLike,
    window: Ints,
    *,
    stride: Ints | None = None,
    padding: Padding = 0,
    dilation: Ints = 1,
    ceil: bool = False,
    count_padding: bool = False,
) -> Array:
    """The mean of each window, in floats; f16 and bf16 are averaged in f32.

    Arguments are those of `max_pool`.  Zeros of the padding count as elements where `count_padding` says so; what
    `ceil` adds past the padding never does.
    """
    place = _geometry("avg_pool", x, window, stride, padding, dilation, ceil)
    with joined(x):
        wide, dtype = widened(x, "avg_pool")
        view, inner, _ = place.over(place.padded(wide, 0.0))
        total = reductions.sum(view, inner)
        for axis in range(len(place.sizes)):
            total = _divided(total, place, axis, count_padding)
        return narrowed(total, dtype)


def _divided(total: Array, place: Geometry, axis: int, count_padding: bool) -> Array:
    """Sums over the number of elements that windows have along one axis."""
    low, high = place.padding[axis]
    first, last = (-low, place.extents[axis] + high) if count_padding else (0, place.extents[axis])
    size, by, stride, count = place.sizes[axis], place.dilations[axis], place.strides[axis], place.counts[axis]
    start, end = -low, stride * (count - 1) - low
    if first <= start and end + by * (size - 1) < last:  # no window reaches beyond
        return total / float(size)
    begins = iota((count,), 0, i32) * stride - low

    def before(limit: int) -> Array:
        """How many elements of each window lie before a position."""
        return elementwise.clip((limit - begins + (by - 1)) // by, 0, size)

    inside = lift(cast(before(last) - before(first), f32))
    # A window of padding alone has no mean: 0 over 1.
    inside = elementwise.maximum(inside, 1)
    after = (1,) * (len(place.sizes) - axis - 1)
    return total / lift(cast(manipulation.reshape(inside, (count, *after)), total.dtype))


def _geometry(
    what: str, x: ArrayLike, window: Ints, stride: Ints | None, padding: Padding, dilation: Ints, ceil: bool
) -> Geometry:
    rank = len(shape_of(x)) - 2
    if rank < 1:
        raise ShapeError(
            what=f"{what}: x", actual=shape_of(x), expected="[batch, channels, *extents]", where=user_location()
        )
    sizes = per_axis(f"{what}: window", window, rank)
    extents = images(what, shape_of(x), rank)
    return geometry(what, extents, sizes, sizes if stride is None else stride, padding, dilation, ceil=ceil)


def global_max_pool(x: ArrayLike, /) -> Array:
    """The greatest element of each channel: [batch, channels, *extents] to [batch, channels, 1, …]."""
    return reductions.max(x, _all("global_max_pool", x), keepdims=True)


def global_avg_pool(x: ArrayLike, /) -> Array:
    """The mean of each channel: [batch, channels, *extents] to [batch, channels, 1, …]."""
    return reductions.mean(x, _all("global_avg_pool", x), keepdims=True)


def _all(what: str, x: ArrayLike) -> tuple[int, ...]:
    rank = len(shape_of(x))
    if rank < 3:
        raise ShapeError(
            what=f"{what}: x", actual=shape_of(x), expected="[batch, channels, *extents]", where=user_location()
        )
    return tuple(range(2, rank))
