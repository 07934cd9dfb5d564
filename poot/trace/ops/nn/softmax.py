"""Softmax and its relatives.  f16 and bf16 are computed in f32 and rounded once; integers give f32."""

from __future__ import annotations

from poot.trace.array import Array, ArrayLike, Axis
from poot.trace.ops import elementwise, logic, manipulation, reductions
from poot.trace.ops.axes import flag, many_axes, one_axis
from poot.trace.ops.maps import narrowed, widened


def softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """exp(x) over its sum along `axis`, the maximum subtracted first.  NaN where all of a row is -inf."""
    wide, dtype = widened(x, "softmax")
    place = one_axis(axis, wide.ndim, "softmax")
    if wide.size == 0:
        return narrowed(wide, dtype)
    powers = elementwise.exp(wide - reductions.max(wide, place, keepdims=True))
    return narrowed(powers / reductions.sum(powers, place, keepdims=True), dtype)


def log_softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """The logarithm of softmax along an axis, without its loss of accuracy.

    Floats keep their dtype, integers and bools give f32.
    """
    wide, dtype = widened(x, "log_softmax")
    place = one_axis(axis, wide.ndim, "log_softmax")
    if wide.size == 0:
        return narrowed(wide, dtype)
    below = wide - reductions.max(wide, place, keepdims=True)
    total = reductions.sum(elementwise.exp(below), place, keepdims=True)
    return narrowed(below - elementwise.log(total), dtype)


def logsumexp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The logarithm of the sum of exp(x); -inf where every x is, or of no elements."""
    wide, dtype = widened(x, "logsumexp")
    if not wide.size:  # a maximum needs an element; the logarithm of an empty sum is -inf
        return narrowed(elementwise.log(reductions.sum(wide, axis, keepdims=keepdims)), dtype)
    top = reductions.max(wide, axis, keepdims=True)
    top = logic.where(logic.isfinite(top), top, 0)
    total = elementwise.log(reductions.sum(elementwise.exp(wide - top), axis, keepdims=True)) + top
    if not flag(keepdims, "keepdims"):
        total = manipulation.squeeze(total, many_axes(axis, total.ndim, "logsumexp"))
    return narrowed(total, dtype)
