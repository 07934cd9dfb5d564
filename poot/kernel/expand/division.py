"""Float remainder and floor division, as Python and NumPy define them: the remainder takes the divisor's sign.

The remainder of the magnitudes is exact: long division of the mantissas, one bit of the quotient a turn.
"""

from __future__ import annotations

import math

from poot.dtypes import bool_
from poot.kernel.expand.formats import format_of, magnitude_bits, power_of_two, sign_bits, with_sign_bits
from poot.kernel.expand.value import Value


def exact_remainder(x: Value, y: Value) -> Value:
    """The remainder of x / y truncated, with the sign of x; NaN for a zero divisor and an infinite dividend."""
    form = format_of(x.dtype)
    a, b = magnitude_bits(x).let("a"), magnitude_bits(y).let("b")
    invalid = ((a >= form.infinity) | b.eq(0) | (b > form.infinity)).let("invalid")
    implicit = 1 << form.mantissa

    a_exponent, b_exponent = (a >> form.mantissa).let("a_exponent"), (b >> form.mantissa).let("b_exponent")
    rest = a_exponent.eq(0).select(a, (a & form.fraction) | implicit).variable("rest")
    # A subnormal divisor is brought to full length, so that one subtraction a turn is enough.
    subnormal = b_exponent.eq(0).let("subnormal")
    shift = (b.op("clz") - (form.bits - 1 - form.mantissa)).let("shift")
    divisor = subnormal.select(b << shift, (b & form.fraction) | implicit).let("divisor")
    lowest = subnormal.select((1 - shift).bits(form.signed), b_exponent.bits(form.signed)).let("lowest")
    highest = a_exponent.eq(0).select_const(1, a_exponent).bits(form.signed)
    below = (a < b).let("below")
    turns = (invalid | below).select((highest - lowest).const(0), highest - lowest).variable("turns")

    with Value(x.k, x.k.const(True, bool_)).loop():
        (turns > 0).stop_unless()
        rest.assign((rest >= divisor).select(rest - divisor, rest) << 1)
        turns.assign(turns - 1)
    whole = (rest >= divisor).select(rest - divisor, rest).cast(x.dtype)
    # The scale can be subnormal while the result is not less than the least subnormal: two exact steps.
    exponent = (lowest - (form.bias + form.mantissa)).let("exponent")
    half = (exponent >> 1).let("half")
    exact = whole * power_of_two(half, x.dtype) * power_of_two(exponent - half, x.dtype)
    magnitude = below.select(a.bits(x.dtype), exact)
    return invalid.select_const(math.nan, with_sign_bits(magnitude, sign_bits(x)))


def opposed(remainder: Value, y: Value) -> Value:
    """Whether a remainder is not 0 and has not the divisor's sign."""
    return remainder.ne(0.0) & sign_bits(remainder).ne(sign_bits(y))


def rem(x: Value, y: Value) -> Value:
    """The floored remainder; a zero remainder has the divisor's sign."""
    remainder = exact_remainder(x, y).let("remainder")
    zero = with_sign_bits(x.const(0.0), sign_bits(y))
    return opposed(remainder, y).select(remainder + y, remainder.eq(0.0).select(zero, remainder))


def floor_div(x: Value, y: Value) -> Value:
    """The floored quotient, of the exact remainder; x / y for a zero divisor."""
    remainder = exact_remainder(x, y).let("remainder")
    ratio = (x / y).let("ratio")
    quotient = ((x - remainder) / y).let("quotient")
    quotient = opposed(remainder, y).select(quotient - 1.0, quotient).let("quotient")
    floor = quotient.op("floor").let("floor")
    nearest = (quotient - floor > 0.5).select(floor + 1.0, floor)
    form = format_of(x.dtype)
    zero = with_sign_bits(x.const(0.0), sign_bits(ratio))
    result = (magnitude_bits(quotient).eq(0)).select(zero, nearest)
    return magnitude_bits(y).eq(0).select(ratio, (magnitude_bits(x) > form.infinity).select(x, result))
