"""Activation functions and softmax.  f16 and bf16 are computed in f32 and rounded once; integers give f32."""

from __future__ import annotations

import math
from typing import Literal

from poot.errors import ArgumentError
from poot.trace.array import Array, ArrayLike, Axis
from poot.trace.ops import elementwise, logic, manipulation, reductions
from poot.trace.ops.axes import many_axes, one_axis
from poot.trace.ops.maps import narrowed, widened
from poot.trace.source import user_location


def relu(x: ArrayLike, /) -> Array:
    """max(x, 0); NaN stays NaN."""
    return elementwise.maximum(x, 0)


def sigmoid(x: ArrayLike, /) -> Array:
    """1 / (1 + exp(-x))."""
    wide, dtype = widened(x, "sigmoid")
    return narrowed(1 / (1 + elementwise.exp(-wide)), dtype)


def silu(x: ArrayLike, /) -> Array:
    """The sigmoid linear unit, x * sigmoid(x), also called swish."""
    wide, dtype = widened(x, "silu")
    return narrowed(wide / (1 + elementwise.exp(-wide)), dtype)


def gelu(x: ArrayLike, /, approximate: bool | Literal["none", "tanh"] = False) -> Array:
    """The Gaussian error linear unit (Hendrycks and Gimpel, arXiv:1606.08415): x * Φ(x), Φ the normal distribution.

    `approximate="tanh"` (or True) takes x / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))) instead of the error function.
    """
    if approximate not in (False, True, "none", "tanh"):
        raise ArgumentError(
            what="gelu: approximate", actual=approximate, expected='False or "tanh"', where=user_location()
        )
    wide, dtype = widened(x, "gelu")
    if approximate in (True, "tanh"):
        inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * (wide * wide * wide))
        result = 0.5 * wide * (1 + elementwise.tanh(inner))
    else:
        result = 0.5 * wide * (1 + elementwise.erf(wide * math.sqrt(0.5)))
    return narrowed(result, dtype)


def softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """exp(x) over its sum along `axis`, the maximum subtracted first.  NaN where all of a row is -inf."""
    wide, dtype = widened(x, "softmax")
    place = one_axis(axis, wide.ndim, "softmax")
    if wide.size == 0:
        return narrowed(wide, dtype)
    powers = elementwise.exp(wide - reductions.max(wide, place, keepdims=True))
    return narrowed(powers / reductions.sum(powers, place, keepdims=True), dtype)


def log_softmax(x: ArrayLike, /, axis: int = -1) -> Array:
    """The logarithm of softmax, without its loss of accuracy."""
    wide, dtype = widened(x, "log_softmax")
    place = one_axis(axis, wide.ndim, "log_softmax")
    if wide.size == 0:
        return narrowed(wide, dtype)
    below = wide - reductions.max(wide, place, keepdims=True)
    total = reductions.sum(elementwise.exp(below), place, keepdims=True)
    return narrowed(below - elementwise.log(total), dtype)


def logsumexp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """The logarithm of the sum of exp(x); -inf where every x is; ShapeError of no elements."""
    wide, dtype = widened(x, "logsumexp")
    top = reductions.max(wide, axis, keepdims=True)
    top = logic.where(logic.isfinite(top), top, 0)
    total = elementwise.log(reductions.sum(elementwise.exp(wide - top), axis, keepdims=True)) + top
    if not keepdims:
        total = manipulation.squeeze(total, many_axes(axis, total.ndim, "logsumexp"))
    return narrowed(total, dtype)
