"""The two float formats that expansions compute in, and steps on their bits that several expansions share."""

from __future__ import annotations

from dataclasses import dataclass

from poot.dtypes import DType, f32, f64, i32, i64, u32, u64
from poot.kernel.expand.value import Value


@dataclass(frozen=True, slots=True)
class Format:
    """IEEE binary32 or binary64, with the integers of its width.

    `mantissa` counts stored bits; `magic`, added to a whole n of |n| < 2^(mantissa - 1), leaves n in the low bits.
    """

    dtype: DType
    signed: DType
    unsigned: DType
    mantissa: int
    bias: int

    @property
    def bits(self) -> int:
        return self.dtype.bits

    @property
    def magic(self) -> float:
        return 1.5 * 2.0**self.mantissa

    @property
    def magic_bits(self) -> int:
        return ((self.bias + self.mantissa) << self.mantissa) | (1 << (self.mantissa - 1))

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.mantissa

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return (2 * self.bias + 1) << self.mantissa

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1)

    @property
    def fraction(self) -> int:
        """The mask of the stored mantissa."""
        return (1 << self.mantissa) - 1

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


BINARY32 = Format(f32, i32, u32, 23, 127)
BINARY64 = Format(f64, i64, u64, 52, 1023)


def format_of(dtype: DType) -> Format:
    """The format of f32 or f64."""
    return BINARY32 if dtype is f32 else BINARY64


def magnitude_bits(x: Value) -> Value:
    """The bits of |x| as an unsigned integer: they order as the magnitudes do, with NaN above infinity."""
    form = format_of(x.dtype)
    return x.bits(form.unsigned) & (form.sign - 1)


def sign_bits(x: Value) -> Value:
    """The sign bit of x, alone, as an unsigned integer."""
    form = format_of(x.dtype)
    return x.bits(form.unsigned) & form.sign


def with_sign_bits(magnitude: Value, sign: Value) -> Value:
    """A value whose sign bit is clear, given one."""
    return (magnitude.bits(sign.dtype) | sign).bits(magnitude.dtype)


def integer_bits(n: Value) -> Value:
    """A signed integer: the whole number n of |n| < 2^(mantissa - 1), plus a constant in the upper bits.

    It takes one sum and no conversion; a shift left by `mantissa` drops the constant.
    """
    form = format_of(n.dtype)
    return (n + form.magic).bits(form.signed)


def power_of_two(n: Value, dtype: DType) -> Value:
    """2^n for a signed integer n (or its `integer_bits`) with 1 - bias <= n <= bias."""
    form = format_of(dtype)
    return ((n << form.mantissa) + form.one).bits(dtype)


def scaled(p: Value, n: Value) -> Value:
    """Return p 2^n, for p near 1 and a whole n of |n| <= 2 bias - 2.

    The product is in two steps, so that subnormal results are rounded once and large ones become infinite.
    """
    form = format_of(p.dtype)
    whole = integer_bits(n).let("whole")
    half = (whole >> 1).let("half")
    return p * power_of_two(half, form.dtype) * power_of_two(whole - half, form.dtype)
