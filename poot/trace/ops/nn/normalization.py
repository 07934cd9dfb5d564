"""Normalisation over the last axis.  f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

from poot.dtypes import DType, f32
from poot.errors import ShapeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import lift
from poot.trace.ops import elementwise, reductions
from poot.trace.ops.maps import narrowed
from poot.trace.ops.promotion import cast, common_float, shape_of
from poot.trace.source import user_location


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
    wide, dtype = _prepared(x, w, b, "layernorm")
    distance = wide - reductions.mean(wide, -1, keepdims=True)
    variance = reductions.mean(distance * distance, -1, keepdims=True)
    return _scaled(distance * elementwise.rsqrt(variance + eps), w, b, dtype)


def rmsnorm(x: ArrayLike, w: ArrayLike | None = None, eps: float = 1e-6) -> Array:
    """Root-mean-square normalisation (Zhang and Sennrich, arXiv:1910.07467): x / sqrt(mean(x²) + eps) * w.

    Args:
        x: [..., n].
        w: Scale, [n], or None for 1.
        eps: Added to the mean square.

    Returns:
        The shape of x, in the promoted dtype of x and w.
    """
    wide, dtype = _prepared(x, w, None, "rmsnorm")
    square = reductions.mean(wide * wide, -1, keepdims=True)
    return _scaled(wide * elementwise.rsqrt(square + eps), w, None, dtype)


def _prepared(x: ArrayLike, w: ArrayLike | None, b: ArrayLike | None, what: str) -> tuple[Array, DType]:
    shape = shape_of(x)
    if not shape:
        raise ShapeError(what=f"{what}: x", actual=shape, expected="at least one axis", where=user_location())
    for name, vector in (("w", w), ("b", b)):
        if vector is not None and shape_of(vector) != shape[-1:]:
            raise ShapeError(
                what=f"{what}: {name}",
                actual=shape_of(vector),
                expected=f"{shape[-1:]}, the last axis of x",
                where=user_location(),
            )
    dtype = common_float(*(item for item in (x, w, b) if item is not None), what=what)
    return lift(cast(x, f32 if dtype.bits == 16 else dtype)), dtype


def _scaled(x: Array, w: ArrayLike | None, b: ArrayLike | None, dtype: DType) -> Array:
    if w is not None:
        x = x * lift(cast(w, x.dtype))
    if b is not None:
        x = x + lift(cast(b, x.dtype))
    return narrowed(x, dtype)
