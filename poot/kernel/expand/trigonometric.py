"""sin, cos and tan: reduction to |r| <= pi/4, then minimax polynomials.

Up to 2^11 quarter turns the reduction is Cody and Waite's: pi/2 in four parts, the first three so short that their
products with the number of quarter turns are exact.  Beyond, it multiplies the argument's integer mantissa with the
bits of 2/pi that matter (M. Payne, R. Hanek, "Radian Reduction for Trigonometric Functions", SIGNUM Newsletter 18,
1983); that part stands in an If, so that lanes pay for it only where one of them has such an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from poot.dtypes import DType, f32, f64
from poot.kernel.expand import coefficients as c
from poot.kernel.expand.formats import format_of, integer_bits, magnitude_bits, power_of_two, sign_bits
from poot.kernel.expand.integer import mulhi
from poot.kernel.expand.value import Value, polynomial


@dataclass(frozen=True, slots=True)
class Trigonometric:
    """What a format needs: the greatest argument of the short reduction, pi/2 in parts, bits of 2/pi, coefficients."""

    limit: float
    pi_2: tuple[float, ...]
    two_over_pi: tuple[int, ...]
    sin: tuple[float, ...]
    cos: tuple[float, ...]
    tan: tuple[float, ...]


TRIGONOMETRIC: dict[DType, Trigonometric] = {
    f32: Trigonometric(3216.0, c.PI_2_F32, c.TWO_OVER_PI_F32, c.SIN_F32, c.COS_F32, c.TAN_F32),
    f64: Trigonometric(1647099.0, c.PI_2_F64, c.TWO_OVER_PI_F64, c.SIN_F64, c.COS_F64, c.TAN_F64),
}

#: pi/4 as a fraction of 64 bits.
PI_4_BITS = 0xC90FDAA22168C234


def reduced(x: Value) -> tuple[Value, Value]:
    """Reduce |x| to quarters pi/2 + r, |r| <= pi/4; the low two bits of `quarters` count.

    `r` is NaN for infinities and NaN.
    """
    data = TRIGONOMETRIC[x.dtype]
    bits = magnitude_bits(x).let("magnitude_bits")
    a = bits.bits(x.dtype).let("magnitude")
    n = (a * (2 / math.pi)).op("round").let("n")
    r = short_reduction(a, n, data.pi_2).variable("r")
    quarters = integer_bits(n).variable("quarters")
    with (a.const(data.limit).bits(bits.dtype) < bits).if_():
        exact, count = reduced_exactly(bits, x.dtype)
        r.assign(exact)
        quarters.assign(count)
    return r, quarters


def short_reduction(a: Value, n: Value, pi_2: tuple[float, ...]) -> Value:
    """Return a - n pi/2 rounded once: the first two steps are exact, the third's rounding error joins the fourth."""
    exact = (a - n * pi_2[0] - n * pi_2[1]).let("exact")
    third = (n * pi_2[2]).let("third")
    near = (exact - third).let("near")
    return near + (exact - near - third - n * pi_2[3])


def reduced_exactly(bits: Value, dtype: DType) -> tuple[Value, Value]:
    """As `reduced`, from the bits of a magnitude of at least 2^11, by Payne and Hanek's method.

    With x = M 2^(e - mantissa), the bits of 2/pi above weight 2^-(e - mantissa - 1) contribute whole turns alone;
    three words from there on, times M, leave the turn's fraction in the upper two words of the product's lower three.
    """
    form = format_of(dtype)
    width = form.bits
    exponent = (bits >> form.mantissa) - (form.bias + form.mantissa + 1 - (width - 1))
    start = exponent.let("start")
    words = window(start, TRIGONOMETRIC[dtype].two_over_pi, width)
    significand = ((bits & form.fraction) | (1 << form.mantissa)).let("significand")
    middle_low = (significand * words[1]).let("middle_low")
    middle = (middle_low + mulhi(significand, words[2])).let("middle")
    carry = (middle < middle_low).select(bits.const(1), 0)
    top = (significand * words[0] + mulhi(significand, words[1]) + carry).let("top")

    quarters = (top + (1 << (width - 3))) >> (width - 2)
    high = ((top << 2) | (middle >> (width - 2))).let("high")
    negative = (high >> (width - 1)).let("negative")
    flip = (bits.const(0) - negative).let("flip")
    high = (high ^ flip).let("high")
    zeros = high.op("clz").let("zeros")
    fraction = (high << zeros) | (((middle << 2) ^ flip) >> (width - zeros))
    turns = mulhi(fraction.let("fraction"), bits.const(PI_4_BITS >> (64 - width))).cast(dtype)
    scale = power_of_two(1 - width - zeros.bits(form.signed), dtype)
    r = ((turns * scale).bits(form.unsigned) ^ (negative << (width - 1))).bits(dtype)
    return (bits >= form.infinity).select_const(math.nan, r), quarters.bits(form.signed)


def window(start: Value, fraction: tuple[int, ...], width: int) -> list[Value]:
    """Three words of a constant bit string, from bit `start` on, with a word of zeros before it.

    Whole words are chosen by a shifter of one stage for each bit of the word's number, then bits within words.
    """
    words = [start.const(word) for word in (0, *fraction)]
    number, bit = (start >> (width.bit_length() - 1)).let("word"), (start & (width - 1)).let("bit")
    for stage in reversed(range((len(words) - 4).bit_length())):
        step = 1 << stage
        chosen = (number & step).ne(0).let("chosen")
        words = [
            chosen.select(words[place + step], word).let("window") if place + step < len(words) else word
            for place, word in enumerate(words[: 3 + step])
        ]
    return [((words[i] << bit) | (words[i + 1] >> (width - bit))).let("window") for i in range(3)]


def sine_and_cosine(r: Value, data: Trigonometric) -> tuple[Value, Value]:
    """sin(r) and cos(r) for |r| <= pi/4."""
    z = (r * r).let("z")
    sine = polynomial(z, data.sin) * (z * r) + r
    cosine = polynomial(z, data.cos) * (z * z) + (1.0 - 0.5 * z)
    return sine, cosine


def sin(x: Value) -> Value:
    """The sine, odd in its bits."""
    form = format_of(x.dtype)
    r, quarters = reduced(x)
    sine, cosine = sine_and_cosine(r, TRIGONOMETRIC[x.dtype])
    value = (quarters & 1).ne(0).select(cosine, sine)
    flip = (quarters << (form.bits - 2)).bits(form.unsigned) & form.sign
    return (value.bits(form.unsigned) ^ flip ^ sign_bits(x)).bits(x.dtype)


def cos(x: Value) -> Value:
    """The cosine."""
    form = format_of(x.dtype)
    r, quarters = reduced(x)
    sine, cosine = sine_and_cosine(r, TRIGONOMETRIC[x.dtype])
    value = (quarters & 1).ne(0).select(sine, cosine)
    flip = ((quarters + 1) << (form.bits - 2)).bits(form.unsigned) & form.sign
    return (value.bits(form.unsigned) ^ flip).bits(x.dtype)


def tan(x: Value) -> Value:
    """The tangent, odd in its bits: tan(r) after an even number of quarter turns, else -1 / tan(r)."""
    form = format_of(x.dtype)
    r, quarters = reduced(x)
    z = (r * r).let("z")
    near = (polynomial(z, TRIGONOMETRIC[x.dtype].tan) * (z * r) + r).let("near")
    value = (quarters & 1).ne(0).select(-1.0 / near, near)
    return (value.bits(form.unsigned) ^ sign_bits(x)).bits(x.dtype)
