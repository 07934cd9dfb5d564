"""Operations of a few steps: reciprocals, signs and classes of floats.

Classes are told by bits: compilers that assume no NaN fold `x != x`.
"""

from __future__ import annotations

from poot.kernel.expand.formats import format_of, magnitude_bits, sign_bits, with_sign_bits
from poot.kernel.expand.value import Value


def recip(x: Value) -> Value:
    """1 / x, rounded once."""
    return 1.0 / x


def rsqrt(x: Value) -> Value:
    """Two correctly rounded steps: within 1 ULP; rsqrt(-0) is -inf."""
    return 1.0 / x.op("sqrt")


def sign(x: Value) -> Value:
    """-1, 0 or 1; zeros keep their sign and NaN stays."""
    if x.dtype.is_float:
        bits = magnitude_bits(x).let("bits")
        number = bits - 1 < format_of(x.dtype).infinity
        return number.select(with_sign_bits(x.const(1.0), sign_bits(x)), x)
    # Not by two selections: NVIDIA's compiler for Vulkan breaks down on some divisions by what those give.
    least = x if x.dtype.kind == "uint" else x.op("max", x.const(-1))
    return least.op("min", x.const(1))


def copysign(x: Value, y: Value) -> Value:
    """|x| with the sign bit of y."""
    return with_sign_bits(magnitude_bits(x).bits(x.dtype), sign_bits(y))


def is_finite(x: Value) -> Value:
    """Whether x is a number."""
    return magnitude_bits(x) < format_of(x.dtype).infinity


def is_inf(x: Value) -> Value:
    """Whether x is infinite."""
    return magnitude_bits(x).eq(format_of(x.dtype).infinity)


def is_nan(x: Value) -> Value:
    """Whether x is NaN."""
    return magnitude_bits(x) > format_of(x.dtype).infinity
