"""How good the scalar operations are: the greatest error of each, in units in the last place (ULP) of the exact result.

The bounds hold with and without contraction of products and sums, on targets whose division and square root are
correctly rounded; special cases and signed zeros are exact.  docs/numerics.md shows this table, the tests and
tools/check_ulp.py hold the expansions to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from poot.dtypes import DType, bf16, f16, f32, f64

#: Greatest errors on f32 and f64.  0.5 is correctly rounded; 0 is exact.
ULP: Mapping[str, float] = {
    **dict.fromkeys(("neg", "abs", "sign", "copysign", "floor", "ceil", "trunc", "round", "min", "max"), 0.0),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "sqrt", "recip"), 0.5),
    **dict.fromkeys(("log", "pow"), 1.0),
    **dict.fromkeys(("exp", "exp2", "expm1", "log2", "log1p", "sin", "cos", "erf"), 2.0),
    **dict.fromkeys(("sinh", "cosh", "tanh", "acos", "atan", "atan2", "rsqrt", "floor_div"), 2.0),
    **dict.fromkeys(("tan", "asin", "asinh", "acosh", "atanh"), 3.0),
}

#: Operations on f16 and bf16 are rounded once from f32, whose errors of at most 3 ULP add little to the half ULP.
_NARROW: Mapping[DType, float] = {f16: 0.5 + 3 * 2.0**-13, bf16: 0.5 + 3 * 2.0**-16}


def bound(name: str, dtype: DType) -> float:
    """The greatest error of an operation on a float dtype, in ULP of it; KeyError for operations not in the table."""
    exact = ULP[name]
    if dtype is f32 or dtype is f64 or exact <= 0.5:
        return exact
    return _NARROW[dtype]
