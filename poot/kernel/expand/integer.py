"""The high word of an unsigned product."""

from __future__ import annotations

from poot.kernel.expand.value import Value


def mulhi(a: Value, b: Value) -> Value:
    """The upper half of a times b, for u32 and u64, from products of half words that do not overflow."""
    half = a.dtype.bits // 2
    mask = (1 << half) - 1
    a_low, a_high = (a & mask).let("a_low"), (a >> half).let("a_high")
    b_low, b_high = (b & mask).let("b_low"), (b >> half).let("b_high")
    cross = (a_low * b_high).let("cross")
    middle = ((a_low * b_low) >> half) + (cross & mask) + a_high * b_low
    return a_high * b_high + (cross >> half) + (middle >> half)
