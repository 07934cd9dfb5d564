"""Normalisation.  f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

from poot.dtypes import DType, f32
from poot.errors import ArgumentError, ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, manipulation, reductions
from poot.trace.ops.axes import one_axis, scalar, static_int
from poot.trace.ops.maps import narrowed
from poot.trace.ops.promotion import cast, common_float, shape_of
from poot.trace.source import user_location

# --- over the last axis -----------------------------------------------------------------------------------------------


def layernorm(x: ArrayLike, w: ArrayLike | None = None, b: ArrayLike | None = None, eps: float = 1e-5) -> Array:
    """Layer normalisation (Ba, Kiros and Hinton, arXiv:1607.06450): (x - mean) / sqrt(variance + eps) * w + b.

    Args:
        x: [..., n]; mean and variance (divisor n) are those of the last axis.
        w: Scale, [n], or None for 1.
        b: Offset, [n], or None for 0.
        eps: Added to the variance.

    Returns:
        The shape of x, in the promoted dtype of x, w and b.
    """
    wide, dtype = _prepared(x, w, b, "layernorm", -1)
    return _scaled(_standardised(wide, -1, eps), w, b, dtype, -1)


def rmsnorm(x: ArrayLike, w: ArrayLike | None = None, eps: float = 1e-6) -> Array:
    """Root-mean-square normalisation (Zhang and Sennrich, arXiv:1910.07467): x / sqrt(mean(x²) + eps) * w.

    Args:
        x: [..., n].
        w: Scale, [n], or None for 1.
        eps: Added to the mean square.

    Returns:
        The shape of x, in the promoted dtype of x and w.
    """
    wide, dtype = _prepared(x, w, None, "rmsnorm", -1)
    square = reductions.mean(wide * wide, -1, keepdims=True)
    return _scaled(wide * elementwise.rsqrt(square + scalar(eps, "eps")), w, None, dtype, -1)


# --- over images ------------------------------------------------------------------------------------------------------


def batchnorm(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    w: ArrayLike | None = None,
    b: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: int = 1,
) -> Array:
    """Batch normalisation with given statistics (Ioffe and Szegedy, arXiv:1502.03167).

    (x - mean) / sqrt(variance + eps) * w + b.

    Args:
        x: [batch, channels, ...], or the channels along `axis`.
        mean, variance: [channels]: running statistics, or `ops.mean` and `ops.var` over the other axes.
        w: Scale, [channels], or None for 1.
        b: Offset, [channels], or None for 0.
        eps: Added to the variance.
        axis: Where the channels are.

    Returns:
        The shape of x, in the promoted dtype of x, w and b.
    """
    place = one_axis(axis, len(shape_of(x)), "batchnorm")
    channels = shape_of(x)[place : place + 1]
    for name, vector in (("mean", mean), ("variance", variance)):
        _check_vector("batchnorm", name, vector, channels, place)
    wide, dtype = _prepared(x, w, b, "batchnorm", place)
    with joined(x, mean, variance):
        centre, spread = (_along(lift(cast(v, wide.dtype)), wide.ndim, place) for v in (mean, variance))
        return _scaled((wide - centre) * elementwise.rsqrt(spread + scalar(eps, "eps")), w, b, dtype, place)


def groupnorm(
    x: ArrayLike, groups: int, w: ArrayLike | None = None, b: ArrayLike | None = None, eps: float = 1e-5
) -> Array:
    """Group normalisation (Wu and He, arXiv:1803.08494): as `layernorm`, over each group of channels of an example.

    Args:
        x: [batch, channels, ...].
        groups: How many groups the channels are cut into; a divisor of their number.
        w: Scale, [channels], or None for 1.
        b: Offset, [channels], or None for 0.
        eps: Added to the variance.

    Returns:
        The shape of x, in the promoted dtype of x, w and b.
    """
    shape, count = shape_of(x), static_int(groups, "groupnorm: groups")
    if len(shape) < 2:
        raise ShapeError(what="groupnorm: x", actual=shape, expected="[batch, channels, ...]", where=user_location())
    if count < 1 or shape[1] % count:
        raise ArgumentError(
            what="groupnorm: groups", actual=count, expected=f"a divisor of {shape[1]}", where=user_location()
        )
    wide, dtype = _prepared(x, w, b, "groupnorm", 1)
    each = wide.size // max(shape[0] * count, 1)
    rows = manipulation.reshape(wide, (shape[0], count, each))
    return _scaled(manipulation.reshape(_standardised(rows, -1, eps), shape), w, b, dtype, 1)


def instancenorm(x: ArrayLike, w: ArrayLike | None = None, b: ArrayLike | None = None, eps: float = 1e-5) -> Array:
    """Instance normalisation (Ulyanov et al., arXiv:1607.08022): as `layernorm`, over each channel of an example.

    Args:
        x: [batch, channels, ...].
        w: Scale, [channels], or None for 1.
        b: Offset, [channels], or None for 0.
        eps: Added to the variance.

    Returns:
        The shape of x, in the promoted dtype of x, w and b.
    """
    shape = shape_of(x)
    if len(shape) < 2:
        raise ShapeError(what="instancenorm: x", actual=shape, expected="[batch, channels, ...]", where=user_location())
    wide, dtype = _prepared(x, w, b, "instancenorm", 1)
    return _scaled(_standardised(wide, tuple(range(2, wide.ndim)), eps), w, b, dtype, 1)


# --- what they share --------------------------------------------------------------------------------------------------


def _standardised(x: Array, axis: int | tuple[int, ...], eps: float) -> Array:
    distance = x - reductions.mean(x, axis, keepdims=True)
    variance = reductions.mean(distance * distance, axis, keepdims=True)
    return distance * elementwise.rsqrt(variance + scalar(eps, "eps"))


def _prepared(x: ArrayLike, w: ArrayLike | None, b: ArrayLike | None, what: str, axis: int) -> tuple[Array, DType]:
    """The operand as floats of at least 32 bits, and the result's dtype; w and b are checked."""
    shape = shape_of(x)
    if not shape:
        raise ShapeError(what=f"{what}: x", actual=shape, expected="at least one axis", where=user_location())
    place = axis % len(shape)
    for name, vector in (("w", w), ("b", b)):
        if vector is not None:
            _check_vector(what, name, vector, shape[place : place + 1], axis)
    dtype = common_float(*(item for item in (x, w, b) if item is not None), what=what)
    return lift(cast(x, f32 if dtype.bits == 16 else dtype)), dtype


def _check_vector(what: str, name: str, vector: ArrayLike, expected: tuple[int, ...], axis: int) -> None:
    if shape_of(vector) != expected:
        of = "the last axis" if axis == -1 else f"axis {axis}"
        raise ShapeError(
            what=f"{what}: {name}",
            actual=shape_of(vector),
            expected=f"{expected}, {of} of x",
            where=user_location(),
        )


def _along(vector: Array, rank: int, axis: int) -> Array:
    """A vector that broadcasts along an axis."""
    after = rank - 1 - axis % rank
    return manipulation.reshape(vector, (-1, *(1,) * after)) if after else vector


def _scaled(x: Array, w: ArrayLike | None, b: ArrayLike | None, dtype: DType, axis: int) -> Array:
    if w is not None:
        x = x * _along(lift(cast(w, x.dtype)), x.ndim, axis)
    if b is not None:
        x = x + _along(lift(cast(b, x.dtype)), x.ndim, axis)
    return narrowed(x, dtype)
