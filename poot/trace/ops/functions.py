"""Functions of floats that are compositions of primitives, with the domains and special values of C's.

f16 and bf16 are computed in f32 and rounded once; integers give f32.  Each is a few units in the last place of the
computed dtype from the exact value, over the whole range: intermediate results neither overflow nor cancel.
"""

from __future__ import annotations

import math

from poot.dtypes import DType
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import joined, lift
from poot.trace.ops import elementwise, logic
from poot.trace.ops.maps import narrowed, refuse_bool, widened
from poot.trace.ops.promotion import cast, common_dtype, common_float

_LN2 = math.log(2)
#: Beyond it x * x + 1 is x * x, and twice that does not overflow f32.
_LARGE = 1e9


def exp2(x: ArrayLike, /) -> Array:
    """Powers of two, 2 to the power x.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "exp2")
    return narrowed(elementwise.pow(2.0, wide), dtype)


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "log2")
    return narrowed(elementwise.log(wide) * (1 / _LN2), dtype)


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "log10")
    return narrowed(elementwise.log(wide) * (1 / math.log(10)), dtype)


def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, with the sign of x: a power, and one step of Newton's method for what the rounded 1/3 cost.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "cbrt")
    size = elementwise.abs(wide)
    plain = logic.logical_and(logic.isfinite(size), size > 0)
    safe = logic.where(plain, size, 1)
    root = elementwise.pow(safe, 1 / 3)
    root = root - (root - safe / (root * root)) * (1 / 3)
    return narrowed(copysign(logic.where(plain, root, size), wide), dtype)


def tan(x: ArrayLike, /) -> Array:
    """The tangent of x in radians.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "tan")
    return narrowed(elementwise.sin(wide) / elementwise.cos(wide), dtype)


def asin(x: ArrayLike, /) -> Array:
    """The angle whose sine is x; NaN outside [-1, 1].

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "asin")
    return narrowed(elementwise.atan2(wide, elementwise.sqrt((1 - wide) * (1 + wide))), dtype)


def acos(x: ArrayLike, /) -> Array:
    """The angle from 0 to π whose cosine is x; NaN outside [-1, 1].

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "acos")
    return narrowed(elementwise.atan2(elementwise.sqrt((1 - wide) * (1 + wide)), wide), dtype)


def atan(x: ArrayLike, /) -> Array:
    """The angle from -π/2 to π/2 whose tangent is x.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    return elementwise.atan2(x, 1.0)


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "sinh")
    size = elementwise.abs(wide)
    near = size < 20
    half = elementwise.exp(size * 0.5)
    small = elementwise.expm1(logic.where(near, size, 0))
    rising = logic.where(near, 0.5 * (small + small / (small + 1)), half * 0.5 * half)
    return narrowed(copysign(rising, wide), dtype)


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "cosh")
    half = elementwise.exp(elementwise.abs(wide) * 0.5)
    rising = half * 0.5 * half
    return narrowed(rising + 0.25 / rising, dtype)


def asinh(x: ArrayLike, /) -> Array:
    """The inverse of sinh.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "asinh")
    size = elementwise.abs(wide)
    small = logic.where(size < _LARGE, size, 0)
    square = small * small
    near = elementwise.log1p(small + square / (1 + elementwise.sqrt(square + 1)))
    return narrowed(copysign(logic.where(size < _LARGE, near, elementwise.log(size) + _LN2), wide), dtype)


def acosh(x: ArrayLike, /) -> Array:
    """The inverse of cosh; NaN below 1.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "acosh")
    above = wide - 1
    small = logic.where(wide < _LARGE, above, 0)
    near = elementwise.log1p(small + elementwise.sqrt(small * (small + 2)))
    result = logic.where(wide < _LARGE, near, elementwise.log(wide) + _LN2)
    return narrowed(logic.where(wide < 1, math.nan, result), dtype)


def atanh(x: ArrayLike, /) -> Array:
    """The inverse of tanh; infinite at -1 and 1, NaN beyond.

    Floats keep their dtype, integers and bools give f32.  f16 and bf16 are computed in f32.
    """
    wide, dtype = widened(x, "atanh")
    size = elementwise.abs(wide)
    return narrowed(copysign(0.5 * elementwise.log1p(2 * size / (1 - size)), wide), dtype)


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 with the sign of x2, which may be that of a zero or a NaN.

    The operands promote and broadcast together, to floats: integers and bools give f32.
    """
    a, b = _pair(x1, x2, common_float(x1, x2, what="copysign"))
    size = elementwise.abs(a)
    return logic.where(logic.signbit(b), -size, size)


def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The next number of the dtype after x1 in the direction of x2.

    The operands promote and broadcast together, to floats: integers and bools give f32.
    """
    a, b = _pair(x1, x2, common_float(x1, x2, what="nextafter"))
    signed = logic.SIGNED[a.dtype.bits]
    bits = logic.bitcast(a, signed)
    away = logic.equal(a < b, a > 0)  # the magnitude, and with it the bits, grow
    step = logic.bitcast(logic.where(away, bits + 1, bits - 1), a.dtype)
    least = copysign(logic.bitcast(bits * 0 + 1, a.dtype), b)
    moved = logic.where(a == 0, least, step)
    return logic.where(a == b, b, logic.where(logic.logical_or(logic.isnan(a), logic.isnan(b)), math.nan, moved))


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The square root of x1² + x2², without overflow on the way; infinite if either is.

    The operands promote and broadcast together, to floats: integers and bools give f32.
    """
    dtype = common_float(x1, x2, what="hypot")
    a, b = (elementwise.abs(widened(x, "hypot")[0]) for x in _pair(x1, x2, dtype))
    high, low = elementwise.maximum(a, b), elementwise.minimum(a, b)
    ratio = low / logic.where(high == 0, 1, high)
    length = high * elementwise.sqrt(1 + ratio * ratio)
    infinite = logic.logical_or(a == math.inf, b == math.inf)
    return narrowed(logic.where(infinite, math.inf, length), dtype)


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The logarithm of exp(x1) + exp(x2).

    The operands promote and broadcast together, to floats: integers and bools give f32.
    """
    dtype = common_float(x1, x2, what="logaddexp")
    a, b = (widened(x, "logaddexp")[0] for x in _pair(x1, x2, dtype))
    high = elementwise.maximum(a, b)
    total = high + elementwise.log1p(elementwise.exp(-elementwise.abs(a - b)))
    return narrowed(logic.where(logic.isfinite(high), total, high), dtype)


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What a division of x1 by x2 towards zero leaves, with the sign of x1, as C's; of integers by zero, 0."""
    dtype = common_dtype(x1, x2, what="fmod")
    refuse_bool(dtype, "fmod")
    a, b = _pair(x1, x2, dtype)
    if dtype.kind == "uint":
        return elementwise.remainder(a, b)
    if dtype.is_float:
        return copysign(elementwise.remainder(elementwise.abs(a), elementwise.abs(b)), a)
    left = elementwise.remainder(a, b)  # the size of the least integer is no integer
    return logic.where(logic.logical_and(left != 0, (a < 0) != (b < 0)), left - b, left)


def _pair(x1: ArrayLike, x2: ArrayLike, dtype: DType) -> tuple[Array, Array]:
    with joined(x1, x2):
        return lift(cast(x1, dtype)), lift(cast(x2, dtype))
