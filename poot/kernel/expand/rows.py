"""The rows of the scalar operation table that are written in native ones.

Narrow floats are not named here: `expand_kernel` computes every operation on f16 and bf16 in f32 and rounds once.
"""

from __future__ import annotations

from collections.abc import Callable

from poot.dtypes import FLOATS, NUMBERS, DType, u32, u64
from poot.kernel.expand import elementary, error_function, exponential, hyperbolic, integer, trigonometric
from poot.kernel.expand.value import Value, expansion
from poot.kernel.ops import Result, ScalarOp, register


def _row(
    function: Callable[..., Value],
    doc: str,
    dtypes: tuple[DType, ...] = FLOATS,
    *,
    arity: int = 1,
    result: Result = "same",
) -> None:
    register(ScalarOp(function.__name__, arity, dtypes, doc, result, expand=expansion(function)))


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
_row(hyperbolic.tanh, "the hyperbolic tangent")
_row(error_function.erf, "the error function")
_row(trigonometric.sin, "the sine of an angle in radians; NaN for infinities")
_row(trigonometric.cos, "the cosine of an angle in radians; NaN for infinities")
_row(integer.mulhi, "the upper half of the product", (u32, u64), arity=2)
