"""Lowerings of MAP primitives that are more than one row of the scalar table."""

from __future__ import annotations

import math

from poot.dtypes import BY_NAME, DType, f32, f64, i32, u32, u64
from poot.kernel.build import KernelBuilder
from poot.kernel.expand.value import Value
from poot.kernel.ir import Expr


def recip(k: KernelBuilder, a: Expr) -> Expr:
    """1 / a, correctly rounded."""
    return k.op("div", k.const(1, a.dtype), a)


def rsqrt(k: KernelBuilder, a: Expr) -> Expr:
    """1 / sqrt(a), each rounded."""
    return k.op("div", k.const(1, a.dtype), k.op("sqrt", a))


def is_finite(k: KernelBuilder, a: Expr) -> Expr:
    """By the exponent's bits, since compilers of shading languages may assume that there is no NaN."""
    bits, layout = _bits(Value(k, a).cast(_wide(a.dtype)))
    exponent = layout.exponent_mask << layout.mantissa
    return (bits & exponent).ne(exponent).expr


def power(k: KernelBuilder, a: Expr, b: Expr) -> Expr:
    """Floats by the row `pow`; integers by squaring, with 1, -1 or 0 for a negative exponent."""
    if a.dtype.is_float:
        return k.op("pow", a, b)
    base, exponent = Value(k, a).let("base"), Value(k, b).let("exponent")
    factor, result = base.variable("factor"), base.const(1).variable("power")
    rest = exponent.cast(BY_NAME[f"u{b.dtype.bits}"]).variable("rest")
    with k.while_(rest.ne(0).expr):
        with (rest & 1).ne(0).if_():
            result.assign(result * factor)
        factor.assign(factor * factor)
        rest.assign(rest >> 1)
    if a.dtype.kind == "uint":
        return result.expr
    alternating = (exponent & 1).ne(0).select(base, 1)
    unit = (base.eq(1) | base.eq(-1)).select(alternating, 0)
    return (exponent < 0).select(unit, result).expr


# --- exact division with remainder of floats ------------------------------------------------------------------------


class _Layout:
    """The fields of f32 or f64; `chunk` is by how many bits a mantissa can be shifted within the unsigned dtype."""

    __slots__ = ("bits", "chunk", "exponent_mask", "mantissa", "unsigned")

    def __init__(self, dtype: DType) -> None:
        self.bits = dtype.bits
        self.unsigned = u64 if dtype.bits == 64 else u32
        self.mantissa = 52 if dtype.bits == 64 else 23
        self.exponent_mask = 0x7FF if dtype.bits == 64 else 0xFF
        self.chunk = self.bits - self.mantissa - 1

    @property
    def hidden(self) -> int:
        return 1 << self.mantissa


def _wide(dtype: DType) -> DType:
    return f64 if dtype.bits == 64 else f32


def _bits(x: Value) -> tuple[Value, _Layout]:
    """The bits of an f32 or f64 without its sign."""
    layout = _Layout(x.dtype)
    return (x.bits(layout.unsigned) & ((1 << (layout.bits - 1)) - 1)).let("bits"), layout


def _split(bits: Value, layout: _Layout) -> tuple[Value, Value]:
    """Exponent (as i32, 1 for subnormals) and mantissa with its hidden bit: bits stand for mantissa * 2**exponent."""
    field = (bits >> layout.mantissa).let("field")
    fraction = bits & (layout.hidden - 1)
    subnormal = field.eq(0)
    exponent = subnormal.select(field.const(1), field).cast(i32)
    return exponent.let("exponent"), subnormal.select(fraction, fraction | layout.hidden).let("mantissa")


def _remainder_of_magnitudes(a: Value, b: Value) -> Value:
    """fmod(|a|, |b|), exactly, by long division of the mantissas; NaN where it is undefined."""
    (a_bits, layout), (b_bits, _) = _bits(a), _bits(b)
    infinity = layout.exponent_mask << layout.mantissa
    defined = ((a_bits < infinity) & (b_bits <= infinity) & b_bits.ne(0)).let("defined")
    (a_exponent, a_mantissa), (b_exponent, b_mantissa) = _split(a_bits, layout), _split(b_bits, layout)
    divide = (defined & (a_bits >= b_bits)).let("divide")
    rest = (a_mantissa.op("rem", b_mantissa)).variable("rest")
    steps = divide.select(a_exponent - b_exponent, 0).variable("steps")
    with a.k.while_((steps > 0).expr):
        count = steps.op("min", layout.chunk).let("count")
        rest.assign((rest << count.cast(layout.unsigned)).op("rem", b_mantissa))
        steps.assign(steps - count)
    # Back to a float: shift the mantissa up until its hidden bit is set or the exponent has reached that of subnormals.
    room = rest.op("clz").cast(i32) - (layout.bits - 1 - layout.mantissa)
    shift = room.op("min", b_exponent - 1).let("shift")
    exponent = (b_exponent - 1 - shift).cast(layout.unsigned) << layout.mantissa
    found = (exponent + (rest << shift.cast(layout.unsigned))).let("found")
    found = rest.eq(0).select(found.const(0), found)
    magnitude = divide.select(found, a_bits).bits(a.dtype)
    return defined.select(magnitude, math.nan).let("magnitude")


def _signs_differ(a: Value, b: Value) -> Value:
    layout = _Layout(a.dtype)
    return ((a.bits(layout.unsigned) ^ b.bits(layout.unsigned)) >> (layout.bits - 1)).ne(0).let("differ")


def _copysign(magnitude: Value, sign: Value) -> Value:
    """A number without sign, with that of another."""
    layout = _Layout(sign.dtype)
    bit = sign.bits(layout.unsigned) & (1 << (layout.bits - 1))
    return (magnitude.bits(layout.unsigned) | bit).bits(sign.dtype)


def rem(k: KernelBuilder, a: Expr, b: Expr) -> Expr:
    """Integers by the row `rem`; floats as Python's %, rounded once."""
    if not a.dtype.is_float:
        return k.op("rem", a, b)
    x, y = (Value(k, operand).cast(_wide(operand.dtype)).let("operand") for operand in (a, b))
    magnitude = _remainder_of_magnitudes(x, y)
    complement = (_signs_differ(x, y) & magnitude.ne(0)).select(y.op("abs") - magnitude, magnitude)
    return _copysign(complement, y).cast(a.dtype).expr


def floor_div(k: KernelBuilder, a: Expr, b: Expr) -> Expr:
    """Integers by the row `floor_div`; floats as Python's //."""
    if not a.dtype.is_float:
        return k.op("floor_div", a, b)
    x, y = (Value(k, operand).cast(_wide(operand.dtype)).let("operand") for operand in (a, b))
    magnitude = _remainder_of_magnitudes(x, y)
    whole = ((x.op("abs") - magnitude) / y.op("abs")).op("round").let("whole")
    down = magnitude.ne(0).select(whole + 1, whole)
    quotient = _signs_differ(x, y).select(-down, whole)
    return y.eq(0).select(x / y, quotient).cast(a.dtype).expr
