"""What every MAP primitive means, one Python number at a time, apart from the oracle's rules.

Integers are Python's, wrapped at the end; floats are exact fractions or mpmath numbers of 140 bits, rounded once.
`REFERENCES[name](dtype, *numbers)` gives a bool, an int, or a float of `dtype`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath

from poot.dtypes import DType, bool_
from tests.exact_floats import mp_fraction, round_fraction

Number = Any
NAN = math.nan


def wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def unsigned(value: int, dtype: DType) -> int:
    return value & ((1 << dtype.bits) - 1)


def negative(x: float) -> bool:
    return math.copysign(1.0, x) < 0


def _finite(*numbers: float) -> bool:
    return all(map(math.isfinite, numbers))


# --- one operand ------------------------------------------------------------------------------------------------------


def _neg(dtype: DType, a: Number) -> Number:
    return -a if dtype.is_float else wrap(-a, dtype)


def _abs(dtype: DType, a: Number) -> Number:
    return math.fabs(a) if dtype.is_float else wrap(abs(a), dtype)


def _sign(dtype: DType, a: Number) -> Number:
    if dtype.is_float:
        return a if a == 0 or math.isnan(a) else math.copysign(1.0, a)
    return (a > 0) - (a < 0)


def _sqrt(dtype: DType, a: float) -> float:
    if not a > 0 or math.isinf(a):
        return a if a == 0 or a > 0 else NAN
    return round_fraction(mp_fraction(mpmath.sqrt(a)), dtype)


def _rsqrt(dtype: DType, a: float) -> float:
    if a == 0:
        return math.copysign(math.inf, a)
    if not a > 0:
        return NAN
    return 0.0 if math.isinf(a) else round_fraction(mp_fraction(1 / mpmath.sqrt(a)), dtype)


def _recip(dtype: DType, a: float) -> float:
    if a == 0:
        return math.copysign(math.inf, a)
    return math.copysign(0.0, a) if math.isinf(a) else NAN if math.isnan(a) else round_fraction(1 / Fraction(a), dtype)


def _transcendental(function: Callable[[Any], Any], limits: dict[float, float], odd: bool) -> Callable[..., float]:
    """A function by mpmath; `limits` are its values at infinities and where mpmath would need huge exponents."""

    def evaluate(dtype: DType, a: float) -> float:
        if math.isnan(a):
            return NAN
        if a in limits:
            return limits[a]
        if odd and a == 0:
            return a
        return round_fraction(mp_fraction(function(mpmath.mpf(a))), dtype)

    return evaluate


def _exponential(lowest: float) -> Callable[..., float]:
    def evaluate(dtype: DType, a: float) -> float:
        if math.isnan(a):
            return NAN
        if a > 1e5:
            return math.inf
        if a < -1e5:
            return lowest
        if lowest == -1.0:
            return a if a == 0 else round_fraction(mp_fraction(mpmath.expm1(a)), dtype)
        return round_fraction(mp_fraction(mpmath.exp(a)), dtype)

    return evaluate


def _log(shift: int) -> Callable[..., float]:
    def evaluate(dtype: DType, a: float) -> float:
        if math.isnan(a) or a < -shift:
            return NAN
        if a == -shift:
            return -math.inf
        if math.isinf(a) or (shift and a == 0):
            return a
        found = mpmath.log1p(a) if shift else mpmath.log(a)
        return round_fraction(mp_fraction(found), dtype)

    return evaluate


def _rounding(function: Callable[[Fraction], int]) -> Callable[..., float]:
    def evaluate(dtype: DType, a: float) -> float:
        if not math.isfinite(a) or a == 0:
            return a
        return math.copysign(float(function(Fraction(a))), a)

    return evaluate


def _not(dtype: DType, a: Number) -> Number:
    return not a if dtype is bool_ else wrap(~a, dtype)


# --- two operands -----------------------------------------------------------------------------------------------------


def _add(dtype: DType, a: Number, b: Number) -> Number:
    if not dtype.is_float:
        return wrap(a + b, dtype)
    if not _finite(a, b):
        return a + b
    both = negative(a) and negative(b)
    return round_fraction(Fraction(a) + Fraction(b), dtype, negative_zero=both and a == 0 and b == 0)


def _sub(dtype: DType, a: Number, b: Number) -> Number:
    return _add(dtype, a, -b) if dtype.is_float else wrap(a - b, dtype)


def _mul(dtype: DType, a: Number, b: Number) -> Number:
    if not dtype.is_float:
        return wrap(a * b, dtype)
    if not _finite(a, b):
        return a * b
    return round_fraction(Fraction(a) * Fraction(b), dtype, negative_zero=negative(a) != negative(b))


def _div(dtype: DType, a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return NAN
    sign = -1.0 if negative(a) != negative(b) else 1.0
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if math.isinf(b):
        return sign * 0.0
    return round_fraction(Fraction(a) / Fraction(b), dtype, negative_zero=sign < 0)


def _floor_div(dtype: DType, a: Number, b: Number) -> Number:
    if not dtype.is_float:
        return 0 if b == 0 else wrap(a // b, dtype)
    if b == 0 or math.isnan(a) or math.isnan(b):
        return _div(dtype, a, b)
    if math.isinf(a):
        return NAN
    if math.isinf(b):
        return (
            -1.0
            if a != 0 and negative(a) != negative(b)
            else math.copysign(0.0, -1 if negative(a) != negative(b) else 1)
        )
    quotient = Fraction(a) / Fraction(b)
    return round_fraction(Fraction(math.floor(quotient)), dtype, negative_zero=negative(a) != negative(b))


def _rem(dtype: DType, a: Number, b: Number) -> Number:
    if not dtype.is_float:
        return 0 if b == 0 else wrap(a % b, dtype)
    if math.isnan(a) or math.isnan(b) or b == 0 or math.isinf(a):
        return NAN
    if math.isinf(b):
        return math.copysign(0.0, b) if a == 0 else a if negative(a) == negative(b) else b
    rest = Fraction(a) % Fraction(b)
    return round_fraction(rest, dtype, negative_zero=negative(b))


def _extreme(greater: bool) -> Callable[..., Number]:
    def evaluate(dtype: DType, a: Number, b: Number) -> Number:
        if dtype.is_float:
            if math.isnan(a) or math.isnan(b):
                return NAN
            if a == b == 0:
                return a if negative(a) != greater else b
        return (a if a > b else b) if greater else (a if a < b else b)

    return evaluate


def _pow(dtype: DType, a: Number, b: Number) -> Number:
    if not dtype.is_float:
        if b >= 0:
            return wrap(pow(a, b, 1 << dtype.bits), dtype)
        return 1 if a == 1 else 0 if a != -1 else -1 if b % 2 else 1
    if b == 0 or a == 1:
        return 1.0
    if math.isnan(a) or math.isnan(b):
        return NAN
    odd = math.isfinite(b) and b == math.floor(b) and int(b) % 2 == 1
    sign = -1.0 if odd and negative(a) else 1.0
    if math.isinf(b):
        return 1.0 if abs(a) == 1 else math.inf if (abs(a) > 1) == (b > 0) else 0.0
    if a == 0 or math.isinf(a):
        return sign * (math.inf if (a == 0) == (b < 0) else 0.0)
    if a < 0 and b != math.floor(b):
        return NAN
    exponent = mpmath.log(abs(a), 2) * b
    if abs(exponent) > 5000:
        return sign * (math.inf if exponent > 0 else 0.0)
    return sign * round_fraction(mp_fraction(mpmath.power(abs(mpmath.mpf(a)), mpmath.mpf(b))), dtype)


def _atan2(dtype: DType, a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return NAN
    if a == 0 and not negative(b):
        return a
    if math.isinf(b) and b > 0 and not math.isinf(a):
        return math.copysign(0.0, a)
    # Whole quarters and eighths of a turn, from the signs alone.
    if math.isinf(a):
        turn = mpmath.pi / 2 if not math.isinf(b) else mpmath.pi / 4 if b > 0 else 3 * mpmath.pi / 4
    elif a == 0 or math.isinf(b):
        turn = +mpmath.pi
    else:
        turn = abs(mpmath.atan2(a, b))
    return math.copysign(round_fraction(mp_fraction(+turn), dtype), a)


def _shift_left(dtype: DType, a: int, b: int) -> int:
    count = unsigned(b, dtype)
    return 0 if count >= dtype.bits else wrap(a << count, dtype)


def _shift_right(dtype: DType, a: int, b: int) -> int:
    return a >> min(unsigned(b, dtype), dtype.bits)


REFERENCES: dict[str, Callable[..., Number]] = {
    "kernel_call": lambda dtype, a: _add(dtype, a, a),  # the kernel of its example doubles
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "recip": _recip,
    "exp": _exponential(0.0),
    "expm1": _exponential(-1.0),
    "log": _log(0),
    "log1p": _log(1),
    "sin": _transcendental(mpmath.sin, {math.inf: NAN, -math.inf: NAN}, odd=True),
    "cos": _transcendental(mpmath.cos, {math.inf: NAN, -math.inf: NAN}, odd=False),
    "tanh": _transcendental(
        lambda a: mpmath.tanh(min(max(a, -1000), 1000)), {math.inf: 1.0, -math.inf: -1.0}, odd=True
    ),
    "erf": _transcendental(lambda a: mpmath.erf(min(max(a, -1000), 1000)), {math.inf: 1.0, -math.inf: -1.0}, odd=True),
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "round": _rounding(round),
    "trunc": _rounding(math.trunc),
    "is_finite": lambda dtype, a: _finite(a),
    "not": _not,
    "popcount": lambda dtype, a: unsigned(a, dtype).bit_count(),
    "clz": lambda dtype, a: dtype.bits - unsigned(a, dtype).bit_length(),
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "floor_div": _floor_div,
    "rem": _rem,
    "max": _extreme(greater=True),
    "min": _extreme(greater=False),
    "pow": _pow,
    "atan2": _atan2,
    "eq": lambda dtype, a, b: a == b,
    "ne": lambda dtype, a, b: a != b,
    "lt": lambda dtype, a, b: a < b,
    "le": lambda dtype, a, b: a <= b,
    "gt": lambda dtype, a, b: a > b,
    "ge": lambda dtype, a, b: a >= b,
    "and": lambda dtype, a, b: a & b,
    "or": lambda dtype, a, b: a | b,
    "xor": lambda dtype, a, b: a ^ b,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}


def cast(source: DType, target: DType, a: Number) -> Number:
    """A number of one dtype in another."""
    if target is bool_:
        return a != 0
    if target.is_float:
        if source.is_float and (not math.isfinite(a) or a == 0):
            return a
        return round_fraction(Fraction(a), target)
    if not source.is_float:
        return wrap(int(a), target)
    if math.isnan(a):
        return 0
    low, high = int(target.min), int(target.max)
    return high if a == math.inf else low if a == -math.inf else min(max(math.trunc(Fraction(a)), low), high)
