"""The rows of the scalar operation table that are written in native ones.

Narrow floats are not named here: `expand_kernel` computes every operation on f16 and bf16 in f32 and rounds once.
"""

from __future__ import annotations

from collections.abc import Callable

from poot.dtypes import FLOATS, NUMBERS, DType, u32, u64
from poot.kernel.expand import (
    division,
    elementary,
    error_function,
    exponential,
    hyperbolic,
    integer,
    inverse,
    power,
    trigonometric,
)
from poot.kernel.expand.value import Value, expansion
from poot.kernel.ops import Result, ScalarOp, extend, register


def _row(
    function: Callable[..., Value],
    doc: str,
    dtypes: tuple[DType, ...] = FLOATS,
    *,
    arity: int = 1,
    result: Result = "same",
    name: str = "",
) -> None:
    register(ScalarOp(name or function.__name__, arity, dtypes, doc, result, expand=expansion(function)))


_row(elementary.recip, "1 / a, correctly rounded")
_row(elementary.rsqrt, "1 / sqrt(a); -inf at -0, NaN below zero")
_row(elementary.sign, "-1, 0 or 1; zeros and NaN stay", NUMBERS)
_row(elementary.copysign, "|a| with the sign of b", arity=2)
_row(elementary.is_finite, "neither infinite nor NaN", result="bool")
_row(elementary.is_inf, "infinite", result="bool")
_row(elementary.is_nan, "NaN", result="bool")
_row(exponential.exp, "e to the power a")
_row(exponential.exp2, "2 to the power a")
_row(exponential.expm1, "e to the power a, less 1")
_row(exponential.log, "the natural logarithm; -inf at zeros, NaN below")
_row(exponential.log2, "the binary logarithm; -inf at zeros, NaN below")
_row(exponential.log1p, "the natural logarithm of 1 + a; -inf at -1, NaN below")
_row(
    power.power,
    "a to the power b, as C99 has it; integers wrap, b < 0 gives 0 but for a of 1 and -1",
    NUMBERS,
    arity=2,
    name="pow",
)
_row(trigonometric.sin, "the sine of an angle in radians; NaN for infinities")
_row(trigonometric.cos, "the cosine of an angle in radians; NaN for infinities")
_row(trigonometric.tan, "the tangent of an angle in radians; NaN for infinities")
_row(inverse.asin, "the angle in [-pi/2, pi/2] whose sine is a; NaN past 1")
_row(inverse.acos, "the angle in [0, pi] whose cosine is a; NaN past 1")
_row(inverse.atan, "the angle in [-pi/2, pi/2] whose tangent is a")
_row(inverse.atan2, "the angle of the point (b, a)", arity=2)
_row(inverse.sinh, "the hyperbolic sine")
_row(inverse.cosh, "the hyperbolic cosine")
_row(hyperbolic.tanh, "the hyperbolic tangent")
_row(inverse.asinh, "the inverse hyperbolic sine")
_row(inverse.acosh, "the inverse hyperbolic cosine; NaN below 1")
_row(inverse.atanh, "the inverse hyperbolic tangent; infinite at 1, NaN past it")
_row(error_function.erf, "the error function")
_row(integer.mulhi, "the upper half of the product", (u32, u64), arity=2)

extend(
    "floor_div", FLOATS, expansion(division.floor_div), "floor of a / b; on integers 0 where b is 0, on floats a / b"
)
extend(
    "rem", FLOATS, expansion(division.rem), "a - b * floor_div(a, b), exact; 0 where b is 0 on integers, NaN on floats"
)
