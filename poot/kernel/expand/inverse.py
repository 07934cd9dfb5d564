"""Inverse trigonometric functions, and the hyperbolic functions beside tanh with their inverses.

Arguments are folded onto the range of one minimax polynomial: asin by the half angle, atan by the quotient of the
lesser by the greater coordinate; sinh and cosh are e^a/2 and its reciprocal, taken so that e^a itself never overflows.
"""

from __future__ import annotations

import math

from poot.dtypes import DType, f32, f64
from poot.kernel.expand import coefficients as c
from poot.kernel.expand.exponential import EXPONENTIAL, log, log1p, reduced
from poot.kernel.expand.formats import format_of, magnitude_bits, scaled, sign_bits, with_sign_bits
from poot.kernel.expand.value import Value, polynomial

#: pi, and what its rounding to the format leaves.
PI: dict[DType, tuple[float, ...]] = {f32: c.PI_PARTS_F32, f64: c.PI_PARTS_F64}
ATAN: dict[DType, tuple[float, ...]] = {f32: c.ATAN_F32, f64: c.ATAN_F64}
ASIN: dict[DType, tuple[float, ...]] = {f32: c.ASIN_F32, f64: c.ASIN_F64}
SINH: dict[DType, tuple[float, ...]] = {f32: c.SINH_F32, f64: c.SINH_F64}

LN2 = 0.6931471805599453


def magnitude_of(x: Value) -> Value:
    """Return |x|, by clearing the sign bit."""
    return magnitude_bits(x).bits(x.dtype).let("magnitude")


def odd(x: Value, coefficients: tuple[float, ...]) -> Value:
    """An odd function near 0: x + x^3 P(x^2)."""
    z = (x * x).let("z")
    return polynomial(z, coefficients) * (z * x) + x


# --- inverse trigonometric functions --------------------------------------------------------------------------------


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), by octants; signed zeros and infinities as C99's annex F has them."""
    pi, rest = PI[x.dtype]
    a, b = magnitude_of(y), magnitude_of(x)
    steep = (a > b).let("steep")
    ratio = steep.select(b, a) / steep.select(a, b)
    # 0/0 and inf/inf are the angles of the axis and of the diagonal.
    ratio = a.eq(b).select(a.eq(0.0).select(a.const(0.0), 1.0), ratio).let("ratio")
    angle = odd(ratio, ATAN[x.dtype])
    angle = steep.select(pi / 2 - (angle - rest / 2), angle).let("angle")
    angle = sign_bits(x).ne(0).select(pi - (angle - rest), angle)
    form = format_of(x.dtype)
    undefined = (a.bits(form.unsigned) > form.infinity) | (b.bits(form.unsigned) > form.infinity)
    return undefined.select_const(math.nan, with_sign_bits(angle, sign_bits(y)))


def atan(x: Value) -> Value:
    """The angle of the point (1, x)."""
    return atan2(x, x.const(1.0))


def half_angle(a: Value) -> tuple[Value, Value]:
    """Whether a > 1/2, and asin of a where it is not, of sqrt((1 - a)/2) where it is; NaN for a > 1."""
    large = (a > 0.5).let("large")
    t = large.select((0.5 - 0.5 * a).op("sqrt"), a).let("t")
    return large, odd(t, ASIN[a.dtype]).let("angle")


def asin(x: Value) -> Value:
    """The angle within [-pi/2, pi/2] whose sine is x; NaN past 1."""
    pi, rest = PI[x.dtype]
    large, angle = half_angle(magnitude_of(x))
    magnitude = large.select(pi / 2 - (angle + angle - rest / 2), angle)
    return with_sign_bits(magnitude_bits(magnitude.let("asin")).bits(x.dtype), sign_bits(x))


def acos(x: Value) -> Value:
    """The angle within [0, pi] whose cosine is x; NaN past 1."""
    pi, rest = PI[x.dtype]
    large, angle = half_angle(magnitude_of(x))
    negative = sign_bits(x).ne(0).let("negative")
    double = (angle + angle).let("double")
    far = negative.select(pi - (double - rest), double)
    near = pi / 2 + (negative.select(angle, -angle) + rest / 2)
    return large.select(far, near)


# --- hyperbolic functions -------------------------------------------------------------------------------------------


def half_exponential(a: Value) -> Value:
    """Return e^a / 2, which overflows where cosh does."""
    data = EXPONENTIAL[a.dtype]
    n, r = reduced((a > data.high + 1.0).select_const(data.high + 1.0, a).let("a"), data.ln2)
    p = polynomial(r, data.exp) * (r * r) + r + 1.0
    return scaled(p.let("p"), n - 1.0).let("half_exponential")


def sinh(x: Value) -> Value:
    """The hyperbolic sine: a polynomial up to 1, then h - 1/(4 h) with h = e^|x| / 2."""
    a = magnitude_of(x)
    h = half_exponential(a)
    value = (a <= 1.0).select(odd(a, SINH[x.dtype]), h - 0.25 / h)
    return with_sign_bits(value, sign_bits(x))


def cosh(x: Value) -> Value:
    """The hyperbolic cosine, h + 1/(4 h) with h = e^|x| / 2."""
    h = half_exponential(magnitude_of(x))
    return h + 0.25 / h


def asinh(x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))) of the magnitude a, and log(a) + log(2) where a^2 would overflow."""
    a = magnitude_of(x)
    large = (a > 2.0 ** (format_of(x.dtype).mantissa + 4)).let("large")
    bounded = large.select_const(1.0, a).let("bounded")
    square = (bounded * bounded).let("square")
    near = log1p((bounded + square / (1.0 + (1.0 + square).op("sqrt"))).let("argument"))
    far = log(large.select(a, 1.0).let("far")) + LN2
    return with_sign_bits(large.select(far, near), sign_bits(x))


def acosh(x: Value) -> Value:
    """log1p(t + sqrt(2 t + t^2)) with t = x - 1, and log(x) + log(2) for large x; NaN below 1."""
    large = (x > 2.0 ** (format_of(x.dtype).mantissa + 4)).let("large")
    t = (large.select_const(1.0, x) - 1.0).let("t")
    near = log1p((t + (t + t + t * t).op("sqrt")).let("argument"))
    far = log(large.select(x, 1.0).let("far")) + LN2
    return (x < 1.0).select_const(math.nan, large.select(far, near))


def atanh(x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2 of the magnitude a; infinite at 1, NaN past it."""
    a = magnitude_of(x)
    value = 0.5 * log1p(((a + a) / (1.0 - a)).let("argument"))
    value = (a > 1.0).select_const(math.nan, value)
    return with_sign_bits(magnitude_bits(value.let("atanh")).bits(x.dtype), sign_bits(x))
