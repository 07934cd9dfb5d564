"""pow: 2^(y log2|x|) with log2|x| in two words, and repeated squaring for integers.

The logarithm of the mantissa m is a series in s = (m - 1) / (m + 1), as in Cody and Waite's POW.  Each number that has
to be better than the format is kept in two words, the first cut by a mask on its bits to half the format's length:
products of such halves are exact, so contraction changes nothing, and a compiler cannot see through the mask to
reassociate the sums (T. J. Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971, splits by
arithmetic instead).  About 10 bits more than the format's are right, which an exponent of up to 10 bits uses up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from poot.dtypes import DType, bool_, f32, f64
from poot.kernel.expand import coefficients as c
from poot.kernel.expand.exponential import decomposed
from poot.kernel.expand.formats import format_of, magnitude_bits, scaled, sign_bits
from poot.kernel.expand.value import Value, polynomial


@dataclass(frozen=True, slots=True)
class Power:
    """What pow needs of a format: bits to cut, 2/ln 2, a third of it and ln 2 in two words, coefficients, two bounds.

    An exponent y of `great` or more gives 0, 1 or infinity for every x, and so does a product past `past`.
    """

    cut: int
    k: tuple[float, ...]
    k3: tuple[float, ...]
    log2: tuple[float, ...]
    ln2: tuple[float, ...]
    exp2: tuple[float, ...]
    great: float
    past: float


POWER: dict[DType, Power] = {
    f32: Power(12, c.POW_K_F32, c.POW_K3_F32, c.POW_LOG2_F32, c.POW_LN2_F32, c.POW_EXP2_F32, 2.0**40, 200.0),
    f64: Power(27, c.POW_K_F64, c.POW_K3_F64, c.POW_LOG2_F64, c.POW_LN2_F64, c.POW_EXP2_F64, 2.0**80, 1200.0),
}


def power(x: Value, y: Value) -> Value:
    """Return x to the power y, by dtype."""
    return float_power(x, y) if x.dtype.is_float else integer_power(x, y)


def cut(x: Value, hint: str) -> Value:
    """The upper half of x's mantissa, as a float."""
    form = format_of(x.dtype)
    mask = (1 << form.bits) - (1 << POWER[x.dtype].cut)
    return (x.bits(form.unsigned) & mask).bits(x.dtype).let(hint)


def mantissa_logarithm(m: Value) -> tuple[Value, Value]:
    """log2(m) in two words, for sqrt(1/2) <= m <= sqrt(2).

    s = s_high + s_low from a division whose remainder is exact; then s W, where W is the series
    2/ln 2 (1 + s^2/3) + s^4 Q(s^2), its first two terms in two words.
    """
    data = POWER[m.dtype]
    f = (m - 1.0).let("f")
    below = (f + 2.0).let("below")
    below_high = cut(below, "below_high")
    below_low = f - (below_high - 2.0)
    s_high = cut(f / below, "s_high")
    s_low = ((f - s_high * below_high - s_high * below_low) / below).let("s_low")

    square = (s_high * s_high).let("square")
    square_low = (s_low * (s_high + s_high + s_low)).let("square_low")
    z = (square + square_low).let("z")
    square_high = cut(square, "square_high")
    square_rest = square - square_high + square_low
    third = (square_high * data.k3[0]).let("third")
    rest = polynomial(z, data.log2) * (z * z) + (square_high * data.k3[1] + square_rest * (data.k3[0] + data.k3[1]))
    rest = (rest + data.k[1]).let("rest")
    w_high = cut(third + data.k[0], "w_high")
    w_low = (data.k[0] - w_high + third + rest).let("w_low")
    return (s_high * w_high).let("log_high"), (s_high * w_low + s_low * (w_high + w_low)).let("log_low")


def logarithm(x: Value) -> tuple[Value, Value]:
    """log2(x) in two words, the first of half length, for positive finite x."""
    e, m = decomposed(x)
    log_high, log_low = mantissa_logarithm(m.let("m"))
    high = cut(e + log_high, "high")
    return high, (e - high + log_high + log_low).let("low")


def two_to(high: Value, low: Value) -> Value:
    """2^(high + low), for a low word that is small against the high one; overflows and underflows as it should.

    The result is 1 + r ln 2 + r^2 Q(r) with its first two terms in two words, so that it is rounded little more than
    once: powers that the format can hold come out exact.
    """
    data = POWER[high.dtype]
    past = data.past
    outside = (high.op("abs") > past).let("outside")
    limit = (high > 0.0).select(high.const(past), -past)
    high = outside.select(limit, high).let("high")
    low = outside.select_const(0.0, low).let("low")
    n = (high + low).op("round").let("n")
    rest = (high - n).let("rest")
    r = (rest + low).let("r")
    r_high = cut(r, "r_high")
    r_low = rest - r_high + low
    linear = (r_high * data.ln2[0]).let("linear")
    small = polynomial(r, data.exp2) * (r * r) + (r_high * data.ln2[1] + r_low * (data.ln2[0] + data.ln2[1]))
    p_high = cut(linear + 1.0, "p_high")
    return scaled((p_high + (1.0 - p_high + linear + small)).let("p"), n)


def magnitude_power(x: Value, y: Value) -> Value:
    """Return x^y for x > 0, and 0 or infinity where x is; NaN gives anything."""
    great = POWER[x.dtype].great
    log_high, log_low = logarithm(x)
    y = (y > great).select_const(great, y).let("y")
    y = (y < -great).select_const(-great, y).let("y")
    y_high = cut(y, "y_high")
    y_low = y - y_high
    low = y_high * log_low + y_low * (log_high + log_low)
    finite = two_to((y_high * log_high).let("product"), low.let("product_low"))
    infinite = x.eq(math.inf).let("infinite")
    limit = (y > 0.0).eq(infinite).select(x.const(math.inf), 0.0)
    return (infinite | x.eq(0.0)).select(limit, finite)


def float_power(x: Value, y: Value) -> Value:
    """The magnitude's power with the sign of an odd power, and the special cases of C99's annex F."""
    form = format_of(x.dtype)
    magnitude = magnitude_bits(x).let("magnitude")
    y_magnitude = magnitude_bits(y).let("y_magnitude")
    base = magnitude.bits(x.dtype).let("base")
    result = magnitude_power(base, y)

    half = (y * 0.5).let("half")
    whole = y.op("trunc").eq(y).let("whole")
    odd = whole & half.op("trunc").ne(half)
    negative = sign_bits(x).let("negative")
    result = (result.bits(form.unsigned) | odd.select(negative, 0)).bits(x.dtype)
    number = (magnitude - 1) < (form.infinity - 1)
    undefined = negative.ne(0) & number & ~whole
    undefined = undefined | (magnitude > form.infinity) | (y_magnitude > form.infinity)
    result = undefined.select_const(math.nan, result)
    return (y_magnitude.eq(0) | x.bits(form.unsigned).eq(form.one)).select_const(1.0, result)


def integer_power(x: Value, y: Value) -> Value:
    """Repeated squaring, wrapping; a negative exponent gives 0, but 1 or -1 for those bases."""
    base = x.variable("base")
    result = x.const(1).variable("power")
    if x.dtype.kind == "uint":
        exponent = y.variable("exponent")
    else:
        negative = (y < 0).let("negative")
        unit = x.eq(1) | x.eq(-1)
        base.assign((negative & ~unit).select_const(0, x))
        # The parity is all that matters for 1 and -1; 0 to the power 1 is the 0 of all other bases.
        exponent = negative.select(unit.select(y & 1, 1), y).variable("exponent")
    with Value(x.k, x.k.const(True, bool_)).loop():
        exponent.ne(0).stop_unless()
        result.assign((exponent & 1).ne(0).select(result * base, result))
        base.assign(base * base)
        exponent.assign(exponent >> 1)
    return result
