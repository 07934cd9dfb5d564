"""Shapes and the places of elements: reshape, permute, join, split, pad."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence

from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array, ArrayLike, Axis
from poot.trace.dispatch import Operand, bind1, joined, lift
from poot.trace.ops import axes as _axes
from poot.trace.ops.promotion import broadcast, broadcast_shapes, cast, common_dtype, dtype_of, shape_of, strong
from poot.trace.source import user_location


def reshape(x: ArrayLike, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Array:
    """The same elements in row-major order in another shape; one extent may be -1, which is worked out."""
    operand = strong(x)
    own = operand.shape
    size = math.prod(own)
    wanted = _axes.static_ints(shape, "reshape: shape")
    known = math.prod(extent for extent in wanted if extent != -1)
    if wanted.count(-1) == 1 and known and size % known == 0:
        wanted = tuple(size // known if extent == -1 else extent for extent in wanted)
    if builtins.any(extent < 0 for extent in wanted) or math.prod(wanted) != size:
        raise ShapeError(
            what=f"reshape of {own}", actual=wanted, expected=f"a shape of {size} elements", where=user_location()
        )
    return lift(operand) if wanted == own else bind1("reshape", (operand,), shape=wanted)


def permute_dims(x: ArrayLike, /, axes: Sequence[int]) -> Array:
    """The axes in another order: axis i of the result is axis `axes[i]` of x."""
    operand = strong(x)
    order = _axes.permutation(axes, len(operand.shape), "permute_dims")
    if order == tuple(range(len(order))):
        return lift(operand)
    return bind1("transpose", (operand,), perm=order)


def transpose(x: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order; reversed where none is given."""
    return permute_dims(x, tuple(reversed(range(len(shape_of(x))))) if axes is None else axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes swapped; ShapeError below two axes."""
    if len(shape_of(x)) < 2:
        raise ShapeError(
            what="matrix_transpose", actual=shape_of(x), expected="at least two axes", where=user_location()
        )
    return swapaxes(x, -1, -2)


def swapaxes(x: ArrayLike, axis1: int, axis2: int, /) -> Array:
    """Two axes interchanged.  ArgumentError for an axis that x has not."""
    rank = len(shape_of(x))
    first, second = _axes.one_axis(axis1, rank, "swapaxes"), _axes.one_axis(axis2, rank, "swapaxes")
    order = list(range(rank))
    order[first], order[second] = second, first
    return permute_dims(x, order)


def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int], /) -> Array:
    """Axes `source` moved to the places `destination`, the others kept in order.

    ArgumentError for an axis that x has not, or one named twice.
    """
    rank = len(shape_of(x))
    sources, targets = _axes.many_axes(source, rank, "moveaxis"), _axes.many_axes(destination, rank, "moveaxis")
    if len(sources) != len(targets):
        raise ArgumentError(
            what="moveaxis: destination", actual=destination, expected=f"{len(sources)} axes", where=user_location()
        )
    order = [axis for axis in range(rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute_dims(x, order)


def expand_dims(x: ArrayLike, /, axis: int | Sequence[int] = 0) -> Array:
    """Axes of extent 1 inserted, at the places `axis` of the result."""
    shape = list(shape_of(x))
    places = _axes.static_ints(axis, "expand_dims: axis")
    for place in sorted(_axes.many_axes(places, len(shape) + len(places), "expand_dims")):
        shape.insert(place, 1)
    return reshape(x, shape)


def squeeze(x: ArrayLike, /, axis: Axis = None) -> Array:
    """Axes of extent 1 taken out: those named, or all of them; ShapeError if a named one has another extent."""
    shape = shape_of(x)
    if axis is None:
        return reshape(x, [extent for extent in shape if extent != 1])
    gone = _axes.many_axes(axis, len(shape), "squeeze")
    if builtins.any(shape[place] != 1 for place in gone):
        raise ShapeError(what="squeeze", actual=shape, expected=f"extent 1 at {axis}", where=user_location())
    return reshape(x, [extent for place, extent in enumerate(shape) if place not in gone])


def broadcast_to(x: ArrayLike, /, shape: int | Sequence[int]) -> Array:
    """The array repeated along new axes in front and axes of extent 1; ShapeError where that does not give `shape`."""
    operand = strong(x)
    wanted = _axes.shape_argument(shape, "broadcast_to: shape")
    if broadcast_shapes([operand.shape, wanted], "broadcast_to") != wanted:
        raise ShapeError(
            what="broadcast_to", actual=operand.shape, expected=f"a shape that fits {wanted}", where=user_location()
        )
    return lift(broadcast(operand, wanted))


def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """Every array broadcast to their common shape."""
    shape = broadcast_shapes([shape_of(x) for x in arrays], "broadcast_arrays")
    with joined(*arrays):
        return [broadcast_to(x, shape) for x in arrays]


def concat(arrays: Sequence[ArrayLike], /, axis: int | None = 0) -> Array:
    """Arrays joined along an axis that they have; with None, all of them flattened first."""
    arrays = _axes.operands(arrays, "concat")
    if len(arrays) == 0:
        raise ArgumentError(what="concat", actual=(), expected="at least one array", where=user_location())
    if axis is None:
        with joined(*arrays):
            arrays, axis = [reshape(x, (-1,)) for x in arrays], 0
    dtype = common_dtype(*arrays, what="concat")
    operands = [cast(x, dtype) for x in arrays]
    first = operands[0].shape
    place = _axes.one_axis(axis, len(first), "concat")
    for operand in operands:
        if len(operand.shape) != len(first) or _without(operand.shape, place) != _without(first, place):
            raise ShapeError(
                what="concat", actual=operand.shape, expected=f"{first} but for axis {place}", where=user_location()
            )
    return lift(operands[0]) if len(operands) == 1 else bind1("concat", operands, axis=place)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def stack(arrays: Sequence[ArrayLike], /, axis: int = 0) -> Array:
    """Arrays of one shape joined along a new axis."""
    arrays = _axes.operands(arrays, "stack")
    if len(arrays) == 0:
        raise ArgumentError(what="stack", actual=(), expected="at least one array", where=user_location())
    first = shape_of(arrays[0])
    for x in arrays:
        if shape_of(x) != first:
            raise ShapeError(what="stack", actual=shape_of(x), expected=first, where=user_location())
    dtype = common_dtype(*arrays, what="stack")
    place = _axes.one_axis(axis, len(first) + 1, "stack")
    shape = (*first[:place], 1, *first[place:])
    with joined(*arrays):
        return concat([bind1("reshape", (cast(x, dtype),), shape=shape) for x in arrays], axis=place)


def split(x: ArrayLike, sections: int | Sequence[int], /, axis: int = 0) -> list[Array]:
    """The array cut along an axis into equal `sections`, or before each of the positions given."""
    operand = strong(x)
    place = _axes.one_axis(axis, len(operand.shape), "split")
    extent = operand.shape[place]
    if isinstance(sections, Sequence):
        cuts = [0, *(_axes.static_int(cut, "split") for cut in sections), extent]
    else:
        count = _axes.static_int(sections, "split: sections")
        if count < 1 or extent % count:
            raise ArgumentError(
                what="split: sections", actual=count, expected=f"a divisor of {extent}", where=user_location()
            )
        cuts = [extent // count * part for part in range(count + 1)]
    spans = [slice(low, high).indices(extent) for low, high in itertools.pairwise(cuts)]
    return [cut_axis(operand, place, low, builtins.max(low, high)) for low, high, _ in spans]


def unstack(x: ArrayLike, /, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along an axis, that axis taken out."""
    operand = strong(x)
    place = _axes.one_axis(axis, len(operand.shape), "unstack")
    shape = _without(operand.shape, place)
    return tuple(reshape(cut_axis(operand, place, item, item + 1), shape) for item in range(operand.shape[place]))


def cut_axis(x: Operand, axis: int, start: int, limit: int, step: int = 1) -> Array:
    """x[start:limit:step] along one axis, for positions within it."""
    rank = len(x.shape)
    if (start, limit, step) == (0, x.shape[axis], 1):
        return lift(x)
    starts = tuple(start if place == axis else 0 for place in range(rank))
    limits = tuple(limit if place == axis else x.shape[place] for place in range(rank))
    steps = tuple(step if place == axis else 1 for place in range(rank))
    return bind1("slice", (x,), start=starts, limit=limits, step=steps)


def flip(x: ArrayLike, /, axis: Axis = None) -> Array:
    """The elements in reverse order along the axes; along all of them for None."""
    operand = strong(x)
    places = _axes.sorted_axes(axis, len(operand.shape), "flip")
    return bind1("reverse", (operand,), axes=places) if places else lift(operand)


def roll(x: ArrayLike, /, shift: int | Sequence[int], axis: Axis = None) -> Array:
    """The elements moved by `shift` places along the axes, those at the end coming round; flattened for None."""
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), shape_of(x))
    result = lift(strong(x))
    places = tuple(_axes.one_axis(item, result.ndim, "roll") for item in _axes.static_ints(axis, "roll: axis"))
    shifts = _axes.static_ints(shift, "roll: shift")
    shifts = shifts * len(places) if len(shifts) == 1 else shifts
    if len(shifts) != len(places):
        raise ArgumentError(what="roll: shift", actual=shift, expected=f"{len(places)} ints", where=user_location())
    for place, distance in zip(places, shifts, strict=True):
        extent = result.shape[place]
        cut = -distance % extent if extent else 0
        if cut:
            parts = [cut_axis(result, place, cut, extent), cut_axis(result, place, 0, cut)]
            result = concat(parts, axis=place)
    return result


def pad(
    x: ArrayLike,
    pad_width: int | Sequence[int] | Sequence[Sequence[int]],
    /,
    constant_values: ArrayLike = 0,
) -> Array:
    """The array with `pad_width` elements of one value before and after each axis.

    `pad_width` is an int for every side, (before, after) for every axis, or one such pair an axis.  `constant_values`
    is a number or 0-d array and is cast to x's dtype.
    """
    operand = strong(x)
    pairs = _pad_pairs(pad_width, len(operand.shape))
    if builtins.any(width < 0 for pair in pairs for width in pair):
        raise ArgumentError(what="pad_width", actual=pad_width, expected="non-negative widths", where=user_location())
    if shape_of(constant_values) != ():
        raise ShapeError(what="constant_values", actual=shape_of(constant_values), expected="()", where=user_location())
    low, high = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    if not builtins.any(low + high):
        return lift(operand)
    value = cast(constant_values, dtype_of(x))
    return bind1("pad", (operand, value), low=low, high=high, interior=(0,) * len(pairs))


def _pad_pairs(widths: int | Sequence[int] | Sequence[Sequence[int]], rank: int) -> list[tuple[int, int]]:
    if not isinstance(widths, Sequence):
        width = _axes.static_int(widths, "pad_width")
        return [(width, width)] * rank
    found = [_axes.static_ints(item, "pad_width") for item in widths]
    if found and all(len(item) == 1 for item in found):  # (before, after), or (width,)
        found = [tuple(item[0] for item in found)] * rank
    pairs = [(item[0], item[-1]) for item in found if len(item) in (1, 2)]
    if len(pairs) == 1:
        pairs *= rank
    if len(pairs) != rank or len(pairs) < len(found):
        raise ArgumentError(
            what="pad_width", actual=widths, expected=f"an int, a pair, or {rank} pairs", where=user_location()
        )
    return pairs


def repeat(x: ArrayLike, repeats: int, /, axis: int | None = None) -> Array:
    """Every element `repeats` times in a row along an axis; of the flattened array for None."""
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    operand = strong(x)
    place = _axes.one_axis(axis, len(operand.shape), "repeat")
    count = _axes.size_argument(repeats, "repeat: repeats")
    shape = operand.shape
    wide = broadcast_to(expand_dims(lift(operand), axis=place + 1), (*shape[: place + 1], count, *shape[place + 1 :]))
    return reshape(wide, (*shape[:place], shape[place] * count, *shape[place + 1 :]))


def tile(x: ArrayLike, repetitions: int | Sequence[int], /) -> Array:
    """The array laid out `repetitions` times along each axis, the last of them first."""
    counts = _axes.shape_argument(repetitions, "repetitions")
    shape = shape_of(x)
    rank = builtins.max(len(shape), len(counts))
    shape, counts = (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(counts)) + counts
    apart = reshape(x, [extent for pair in shape for extent in (1, pair)])
    wide = broadcast_to(apart, [extent for pair in zip(counts, shape, strict=True) for extent in pair])
    return reshape(wide, [count * extent for count, extent in zip(counts, shape, strict=True)])
