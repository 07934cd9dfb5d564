"""exp, exp2, expm1 and the logarithms.

exp and its kin reduce by Cody and Waite's method (W. J. Cody, W. Waite, "Software Manual for the Elementary Functions",
1980): x = n ln 2 + r with |r| <= ln(2)/2, ln 2 in two parts, the first of so few bits that its product with n is exact
(so that contraction to fma changes nothing), and a minimax polynomial for exp(r).  The logarithms take out the power
of two that leaves 1 + f within sqrt(2) of 1, which makes f exact, and use a minimax polynomial for log(1 + f).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from poot.dtypes import DType, f32, f64
from poot.kernel.expand import coefficients as c
from poot.kernel.expand.formats import format_of, integer_bits, power_of_two, scaled
from poot.kernel.expand.value import Value, polynomial

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Exponential:
    """What exp needs of a format: bounds past which the result is 0 or infinity, ln 2 in parts, coefficients."""

    low: float
    high: float
    expm1_low: float
    ln2: tuple[float, ...]
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    exp2: tuple[float, ...]


EXPONENTIAL: dict[DType, Exponential] = {
    f32: Exponential(-104.0, 89.0, -18.0, c.LN2_F32, c.EXP_F32, c.EXPM1_F32, c.EXP2_F32),
    f64: Exponential(-746.0, 710.0, -38.0, c.LN2_F64, c.EXP_F64, c.EXPM1_F64, c.EXP2_F64),
}


def clamped(x: Value, low: float, high: float) -> Value:
    """Clamp x to [low, high], NaN kept."""
    x = (x > high).select_const(high, x).let("x")
    return (x < low).select_const(low, x).let("x")


def reduced(x: Value, ln2: tuple[float, ...]) -> tuple[Value, Value]:
    """The whole n nearest x / ln 2, and r = x - n ln 2."""
    n = (x * LOG2_E).op("round").let("n")
    return n, (x - n * ln2[0] - n * ln2[1]).let("r")


def exp(x: Value) -> Value:
    """2^n exp(r); the bounds of the clamp already give 0 and infinity."""
    data = EXPONENTIAL[x.dtype]
    n, r = reduced(clamped(x, data.low, data.high), data.ln2)
    p = polynomial(r, data.exp) * (r * r) + r + 1.0
    return scaled(p.let("p"), n)


def exp2(x: Value) -> Value:
    """2^n 2^r with r = x - n, which is exact."""
    data, form = EXPONENTIAL[x.dtype], format_of(x.dtype)
    x = clamped(x, float(-form.bias - form.mantissa - 1), float(form.bias + 2))
    n = x.op("round").let("n")
    r = (x - n).let("r")
    return scaled((polynomial(r, data.exp2) * r + 1.0).let("p"), n)


def expm1(x: Value) -> Value:
    """2 (2^(n-1) expm1(r) + (2^(n-1) - 1/2)), with the rounding error of r put back; x itself near 0."""
    data = EXPONENTIAL[x.dtype]
    argument = x
    x = clamped(x, data.expm1_low, data.high)
    n = (x * LOG2_E).op("round").let("n")
    high = (x - n * data.ln2[0]).let("high")
    low = (n * data.ln2[1]).let("low")
    r = (high - low).let("r")
    error = high - r - low
    q = polynomial(r, data.expm1) * (r * r) + error + r
    s = power_of_two(integer_bits(n - 1.0), x.dtype).let("s")
    result = (s * q + (s - 0.5)) * 2.0
    tiny = argument.op("abs") < 2.0 ** -(format_of(x.dtype).mantissa + 2)
    return tiny.select(argument, result)


# --- logarithms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Logarithm:
    """What the logarithms need of a format: sqrt(1/2) as bits, coefficients, ln 2 in parts."""

    root_half: int
    log: tuple[float, ...]
    log2: tuple[float, ...]
    ln2: tuple[float, ...]


LOGARITHM: dict[DType, Logarithm] = {
    f32: Logarithm(0x3F3504F3, c.LOG_F32, c.LOG2_F32, c.LN2_F32),
    f64: Logarithm(0x3FE6A09E667F3BCD, c.LOG_F64, c.LOG2_F64, c.LN2_F64),
}


def decomposed(x: Value) -> tuple[Value, Value]:
    """Whole e and m within [sqrt(1/2), sqrt(2)) with x = m 2^e, for positive finite x."""
    form, root_half = format_of(x.dtype), LOGARITHM[x.dtype].root_half
    small = (x < form.least_normal).let("small")
    lifted = small.select(x * 2.0**form.mantissa, x)
    bits = (lifted.bits(form.signed) - root_half).let("bits")
    e = (bits >> form.mantissa).cast(form.dtype) + small.select(x.const(-form.mantissa), 0.0)
    m = ((bits & form.fraction) + root_half).bits(form.dtype)
    return e.let("e"), m


def special_log(x: Value, result: Value) -> Value:
    """The result for positive finite x, and the limits elsewhere: -inf at 0, NaN below, x at inf and NaN.

    Positive and finite is tested on the bits, and either side of `x > 0` suits NaN.
    """
    form = format_of(x.dtype)
    positive = (x > 0.0).select(x, math.nan)
    special = x.eq(0.0).select_const(-math.inf, positive)
    return (x.bits(form.unsigned) - 1 < form.infinity - 1).select(result, special)


def log(x: Value) -> Value:
    """The natural logarithm, e ln 2 + log(1 + f)."""
    e, m = decomposed(x)
    return special_log(x, natural(e, (m - 1.0).let("f")))


def natural(e: Value, f: Value) -> Value:
    """Return e ln 2 + log(1 + f), for a whole e and sqrt(1/2) <= 1 + f <= sqrt(2)."""
    data = LOGARITHM[f.dtype]
    p = f * f * (f * polynomial(f, data.log) - 0.5) + e * data.ln2[1]
    return e * data.ln2[0] + (p + f)


def log2(x: Value) -> Value:
    """The binary logarithm, e + log2(1 + f); exact at powers of two."""
    e, m = decomposed(x)
    f = (m - 1.0).let("f")
    return special_log(x, e + (polynomial(f, LOGARITHM[x.dtype].log2) * f + f))


def log1p(x: Value) -> Value:
    """The logarithm of 1 + x, whose exponent e gives f = x 2^-e + (2^-e - 1) with one rounding, none where e is 0.

    Where x is so large that 2^-e is subnormal, f comes from the rounded 1 + x; small x stay themselves.
    """
    form = format_of(x.dtype)
    total = (1.0 + x).let("total")
    large = total > 2.0 ** (form.bias - 7)
    e, m = decomposed(total)
    shrink = power_of_two(integer_bits(-e), x.dtype).let("shrink")
    f = large.select(m - 1.0, x * shrink + (shrink - 1.0))
    result = special_log(total, natural(e, f.let("f")))
    return (x.op("abs") < 2.0 ** -(form.mantissa + 2)).select(x, result)
