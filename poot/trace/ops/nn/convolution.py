"""Convolutions, as products over views of windows.  Sums of f16 and bf16 accumulate in f32 and are rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal as Choice

from poot.dtypes import DTypeLike, f32
from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import bind1, joined, lift
from poot.trace.graph import Literal
from poot.trace.ops import manipulation, reductions
from poot.trace.ops.linalg import products
from poot.trace.ops.maps import refuse_bool
from poot.trace.ops.nn.windows import Geometry, geometry, images, per_axis, positive, windows
from poot.trace.ops.promotion import cast, common_dtype, dtype_argument, shape_of
from poot.trace.source import user_location

Ints = int | Sequence[int]
Padding = Choice["valid", "same", "same_lower"] | int | Sequence[int] | Sequence[Sequence[int]]


def conv(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    dtype: DTypeLike = None,
) -> Array:
    """Convolution over one axis or more, as neural networks mean it: the kernel is not reversed.

    Args:
        x: [batch, channels, *extents].
        w: Kernels, [out, channels / groups, *sizes]; their axes say over how many x is convolved.
        b: Offset, [out], or None.
        stride: Steps between windows: an int, or one an axis.
        padding: Zeros around x: an int, one an axis, one pair (before, after) an axis, "valid" for none, "same" for as
            many windows as strides fit (the odd zero after; "same_lower": before).
        dilation: Steps between the elements of a window.
        groups: Channels and kernels are cut into so many groups, and each kernel sees the channels of its own.
        dtype: Of the result; by default the promoted dtype of all operands.

    Returns:
        [batch, out, *windows], where windows = (extent + padding - dilation * (size - 1) - 1) // stride + 1.
    """
    rank = len(shape_of(w)) - 2
    return _conv("conv", rank, x, w, b, stride, padding, dilation, groups, dtype)


def conv1d(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    dtype: DTypeLike = None,
) -> Array:
    """`conv` of x [batch, channels, length] with w [out, channels / groups, size]."""
    return _conv("conv1d", 1, x, w, b, stride, padding, dilation, groups, dtype)


def conv2d(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    dtype: DTypeLike = None,
) -> Array:
    """`conv` of x [batch, channels, height, width] with w [out, channels / groups, rows, columns]."""
    return _conv("conv2d", 2, x, w, b, stride, padding, dilation, groups, dtype)


def conv3d(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    dtype: DTypeLike = None,
) -> Array:
    """`conv` of x [batch, channels, depth, height, width] with w [out, channels / groups, *sizes]."""
    return _conv("conv3d", 3, x, w, b, stride, padding, dilation, groups, dtype)


def _conv(
    what: str,
    rank: int,
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None,
    stride: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
    dtype: DTypeLike,
) -> Array:
    kernels = _kernels(what, w, rank)
    extents = images(what, shape_of(x), rank)
    parts = positive(f"{what}: groups", groups)
    channels, out = shape_of(x)[1], kernels[0]
    if out % parts:
        raise ArgumentError(what=f"{what}: groups", actual=parts, expected=f"a divisor of {out}", where=user_location())
    if channels != kernels[1] * parts:
        expected = f"(batch, {kernels[1] * parts}, …), for w {kernels} and {parts} groups"
        raise ShapeError(what=f"{what}: x", actual=shape_of(x), expected=expected, where=user_location())
    _check_offset(what, b, out)
    place = geometry(what, extents, kernels[2:], stride, padding, dilation)
    with joined(x, w, b):
        image, kernel, offset = _operands(what, x, w, b)
        return _offset(_correlate(image, kernel, place, parts, dtype), offset, rank)


def _kernels(what: str, w: ArrayLike, rank: int) -> tuple[int, ...]:
    shape = shape_of(w)
    if rank < 1 or len(shape) != rank + 2 or 0 in shape[2:]:
        expected = f"[out, channels, {'at least 1' if rank < 1 else rank} more], none empty"
        raise ShapeError(what=f"{what}: w", actual=shape, expected=expected, where=user_location())
    return shape


def _check_offset(what: str, b: ArrayLike | None, out: int) -> None:
    if b is not None and shape_of(b) != (out,):
        raise ShapeError(what=f"{what}: b", actual=shape_of(b), expected=(out,), where=user_location())


def _operands(what: str, x: ArrayLike, w: ArrayLike, b: ArrayLike | None) -> tuple[Array, Array, Array | None]:
    found = common_dtype(*(item for item in (x, w, b) if item is not None), what=what)
    refuse_bool(found, what)
    offset = None if b is None else lift(cast(b, found))
    return lift(cast(x, found)), lift(cast(w, found)), offset


def _offset(x: Array, b: Array | None, rank: int) -> Array:
    if b is None:
        return x
    return x + manipulation.reshape(lift(cast(b, x.dtype)), (-1, *(1,) * rank))


def _correlate(x: Array, w: Array, place: Geometry, groups: int, dtype: DTypeLike) -> Array:
    """Every kernel [out, channels, …] against every window of its group's channels."""
    batch, out, channels = x.shape[0], w.shape[0], w.shape[1]
    view, inner, _ = place.over(place.padded(x, 0.0 if x.dtype.is_float else 0))
    taps = tuple(range(2, w.ndim))
    if groups == 1:
        result = products(w, view, ((1, *taps), (1, *inner)), ((), ()), "conv", dtype)  # [out, batch, …]
        return manipulation.moveaxis(result, 0, 1)
    if channels == 1:
        return _depthwise(view, w, place, groups, inner, dtype)
    view = manipulation.reshape(view, (batch, groups, channels, *view.shape[2:]))
    kernel = manipulation.reshape(w, (groups, out // groups, channels, *w.shape[2:]))
    along = ((2, *(tap + 1 for tap in taps)), (2, *(axis + 1 for axis in inner)))
    result = products(kernel, view, along, ((0,), (1,)), "conv", dtype)  # [groups, out / groups, batch, …]
    result = manipulation.moveaxis(result, 2, 0)
    return manipulation.reshape(result, (batch, out, *place.counts))


def _depthwise(view: Array, w: Array, place: Geometry, groups: int, inner: tuple[int, ...], dtype: DTypeLike) -> Array:
    """One channel a group: nothing to contract but the window, which a sum of products does with less ado."""
    batch, out = view.shape[0], w.shape[0]
    result = w.dtype if dtype is None else dtype_argument(dtype)
    wide = max(w.dtype, result, key=lambda item: item.bits)
    wide = f32 if wide.is_float and wide.bits == 16 else wide
    taps = [extent for size in place.sizes for extent in (size, 1)]  # each axis of places before one of windows
    kernel = manipulation.reshape(lift(cast(w, wide)), (groups, out // groups, *taps))
    image = manipulation.expand_dims(lift(cast(view, wide)), 2)
    total = reductions.sum(image * kernel, tuple(axis + 1 for axis in inner), dtype=wide)
    return manipulation.reshape(lift(cast(total, result)), (batch, out, *place.counts))


# --- transposed -------------------------------------------------------------------------------------------------------


def conv_transpose(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: Ints = 1,
    padding: int | Sequence[int] | Sequence[Sequence[int]] = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    dtype: DTypeLike = None,
) -> Array:
    """The transpose of `conv` as a linear map: every element of x lays a kernel, scaled by it, into the result.

    Args:
        x: [batch, channels, *extents].
        w: Kernels, [channels, out / groups, *sizes].
        b: Offset, [out], or None.
        stride: Steps between the kernels laid: an int, or one an axis.
        padding: What is cut from the ends of each axis: an int, one an axis, or one pair an axis.
        output_padding: Zeros put after each axis.
        dilation, groups, dtype: As in `conv`.

    Returns:
        [batch, out, *], each extent (extent - 1) * stride + dilation * (size - 1) + 1 + output_padding - padding.
    """
    kernels = shape_of(w)
    rank = len(kernels) - 2
    _kernels("conv_transpose", w, rank)
    extents = images("conv_transpose", shape_of(x), rank)
    parts = positive("conv_transpose: groups", groups)
    if shape_of(x)[1] != kernels[0] or kernels[0] % parts:
        expected = f"(batch, {kernels[0]}, …), for w {kernels} and {parts} groups that divide it"
        raise ShapeError(what="conv_transpose: x", actual=shape_of(x), expected=expected, where=user_location())
    out = kernels[1] * parts
    _check_offset("conv_transpose", b, out)
    steps = per_axis("conv_transpose: stride", stride, rank)
    apart = per_axis("conv_transpose: dilation", dilation, rank)
    extra = per_axis("conv_transpose: output_padding", output_padding, rank, least=0)
    cut = geometry("conv_transpose", (1,) * rank, (1,) * rank, 1, padding, 1).padding
    spans = [by * (size - 1) for by, size in zip(apart, kernels[2:], strict=True)]
    low = [span - before for span, (before, _) in zip(spans, cut, strict=True)]
    high = [span - after + more for span, (_, after), more in zip(spans, cut, extra, strict=True)]
    spaced = [(extent - 1) * step + 1 for extent, step in zip(extents, steps, strict=True)]
    counts = [n + a + z - span for n, a, z, span in zip(spaced, low, high, spans, strict=True)]
    if min(counts) < 1 or 0 in extents:
        raise ShapeError(
            what="conv_transpose", actual=tuple(counts), expected="a result that is not empty", where=user_location()
        )
    with joined(x, w, b):
        image, kernel, offset = _operands("conv_transpose", x, w, b)
        zero = Literal(0.0 if image.dtype.is_float else 0, image.dtype)
        gaps = tuple(step - 1 for step in steps)
        image = bind1("pad", (image, zero), low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, *gaps))
        kernel = manipulation.flip(kernel, axis=tuple(range(2, rank + 2)))
        kernel = manipulation.reshape(kernel, (parts, kernels[0] // parts, *kernels[1:]))
        kernel = manipulation.reshape(manipulation.swapaxes(kernel, 1, 2), (out, kernels[0] // parts, *kernels[2:]))
        place = geometry("conv_transpose", image.shape[2:], kernels[2:], 1, 0, apart)
        return _offset(_correlate(image, kernel, place, parts, dtype), offset, rank)


# --- causal -----------------------------------------------------------------------------------------------------------


def causal_conv1d(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None, *, before: ArrayLike | None = None) -> Array:
    """A convolution of each channel with what came up to now: y[t] = Σ_j w[j] x[t - width + 1 + j] + b.

    The short convolution of state-space models (Gu and Dao, Mamba, arXiv:2312.00752).

    Args:
        x: [batch, channels, length].
        w: One kernel a channel, [channels, width].
        b: Offset, [channels], or None.
        before: The width - 1 elements before x, [batch, channels, width - 1]; zeros by default.  For the next part of a
            sequence these are the last width - 1 of (before, x).

    Returns:
        [batch, channels, length], in the promoted dtype; f16 and bf16 are summed in f32.
    """
    shape, kernel = shape_of(x), shape_of(w)
    if len(shape) != 3:
        raise ShapeError(
            what="causal_conv1d: x", actual=shape, expected="[batch, channels, length]", where=user_location()
        )
    if len(kernel) != 2 or kernel[0] != shape[1] or not kernel[1]:
        raise ShapeError(what="causal_conv1d: w", actual=kernel, expected=f"({shape[1]}, width)", where=user_location())
    _check_offset("causal_conv1d", b, shape[1])
    width = kernel[1]
    history = (*shape[:2], width - 1)
    if before is not None and shape_of(before) != history:
        raise ShapeError(what="causal_conv1d: before", actual=shape_of(before), expected=history, where=user_location())
    with joined(x, w, b, before):
        inputs, taps, offset = _operands("causal_conv1d", x, w, b)
        wide = f32 if inputs.dtype.is_float and inputs.dtype.bits == 16 else inputs.dtype
        if before is None:
            inputs = manipulation.pad(inputs, ((0, 0), (0, 0), (width - 1, 0)))
        else:
            inputs = manipulation.concat([lift(cast(before, inputs.dtype)), inputs], axis=2)
        if not math.prod(shape):
            return inputs[..., width - 1 :]
        view = windows(lift(cast(inputs, wide)), 2, width, shape[2])  # [batch, channels, width, length]
        total = reductions.sum(view * manipulation.expand_dims(lift(cast(taps, wide)), -1), 2, dtype=wide)
        return lift(cast(_offset(total, offset, 1), inputs.dtype))
