"""Elementwise arithmetic and functions of floats, under the array API's names and NumPy's.

Operands are arrays of any dtype and broadcastable shapes, or numbers; the result has the promoted dtype
(`docs/dtypes.md`) and the broadcast shape.  Functions that are not closed over the integers (exp,
sqrt, divide …) take integers as f32.
"""

from __future__ import annotations

import builtins

import numpy as np

from poot.errors import ArgumentError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import Operand, bind1, lift
from poot.trace.ops.axes import static_int
from poot.trace.ops.maps import binary, float_map, narrowed, number_map, refuse_bool, widened
from poot.trace.ops.promotion import cast, common_dtype, common_float, dtype_of, harmonise
from poot.trace.source import user_location

# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 + x2.  Integers wrap; of two bools, their disjunction.

    The operands promote and broadcast together.
    """
    return binary("add", x1, x2, "add", bools="or")


def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 - x2.  Integers wrap; DTypeError for two bools.  The operands promote and broadcast together."""
    return binary("sub", x1, x2, "subtract")


def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * x2.  Integers wrap; of two bools, their conjunction.

    The operands promote and broadcast together.
    """
    return binary("mul", x1, x2, "multiply", bools="and")


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2 in floats; integers give f32.  The operands promote and broadcast together."""
    return bind1("div", harmonise((x1, x2), common_float(x1, x2, what="divide"), "divide"))


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient rounded down.  An integer divided by zero gives 0.

    The operands promote and broadcast together.
    """
    return binary("floor_div", x1, x2, "floor_divide")


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What `floor_divide` leaves, with the sign of x2.  An integer divided by zero leaves 0.

    The operands promote and broadcast together.
    """
    return binary("rem", x1, x2, "remainder")


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """(floor_divide(x1, x2), remainder(x1, x2)).  Of the operands' common dtype and shape."""
    return floor_divide(x1, x2), remainder(x1, x2)


def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2.

    A Python int from 1 to 16 as the exponent multiplies repeatedly, which is exact for integers and small powers.
    ArgumentError for an integer to a negative Python int.
    """
    dtype = common_dtype(x1, x2, what="pow")
    if isinstance(x2, int) and not isinstance(x2, bool) and isinstance(x1, (Array, np.ndarray)):
        if x2 < 0 and not dtype.is_float:
            raise ArgumentError(
                what="exponent of integers", actual=x2, expected="a non-negative int", where=user_location()
            )
        if 1 <= x2 <= 16:
            return _repeated(cast(x1, dtype), x2)
    return binary("pow", x1, x2, "pow")


def _repeated(x: Operand, exponent: int) -> Array:
    """A positive static power, by squaring."""
    result: Operand | None = None
    while True:
        if exponent & 1:
            result = x if result is None else bind1("mul", (result, x))
        exponent >>= 1
        if not exponent:
            return lift(result) if result is not None else lift(x)
        x = bind1("mul", (x, x))


def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of x1 and x2; NaN where one is NaN; +0.0 counts as larger than -0.0.

    The operands promote and broadcast together; of bools they are `or` and `and`.
    """
    return binary("max", x1, x2, "maximum", bools="or")


def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of x1 and x2; NaN where one is NaN; -0.0 counts as smaller than +0.0.

    The operands promote and broadcast together; of bools they are `or` and `and`.
    """
    return binary("min", x1, x2, "minimum", bools="and")


def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Every element limited to [min, max]; either may be None.  NaN stays NaN.  Where min > max the result is max."""
    result: ArrayLike = x
    if min is not None:
        result = maximum(result, min)
    if max is not None:
        result = minimum(result, max)
    return positive(result)


def negative(x: ArrayLike, /) -> Array:
    """The number with its sign changed, -x.  Integers wrap.  In x's dtype; DTypeError for bools."""
    return number_map("neg", x, "negative")


def positive(x: ArrayLike, /) -> Array:
    """The operand itself, as an array.  Of the same dtype and shape."""
    return lift(cast(x, dtype_of(x)))


def abs(x: ArrayLike, /) -> Array:
    """The absolute value; of the least integer, itself.  In x's dtype; DTypeError for bools."""
    return number_map("abs", x, "abs")


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 as x is below, at or above zero; NaN stays NaN.  In x's dtype; DTypeError for bools."""
    return number_map("sign", x, "sign")


def square(x: ArrayLike, /) -> Array:
    """The square, x * x.  In x's dtype; integers wrap."""
    return multiply(x, x)


# --- functions of floats ----------------------------------------------------------------------------------------------


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below zero.  Floats keep their dtype, integers and bools give f32."""
    return float_map("sqrt", x)


def rsqrt(x: ArrayLike, /) -> Array:
    """The reciprocal of the square root, 1 / sqrt(x).  Floats keep their dtype, integers and bools give f32."""
    return float_map("rsqrt", x)


def reciprocal(x: ArrayLike, /) -> Array:
    """The reciprocal, 1 / x; an infinity of zero.  Floats keep their dtype, integers and bools give f32."""
    return float_map("recip", x)


def exp(x: ArrayLike, /) -> Array:
    """The exponential function, e to the power x.  Floats keep their dtype, integers and bools give f32."""
    return float_map("exp", x)


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; -inf at zero and NaN below it.

    Floats keep their dtype, integers and bools give f32.
    """
    return float_map("log", x)


def sin(x: ArrayLike, /) -> Array:
    """The sine of x in radians.  Floats keep their dtype, integers and bools give f32."""
    return float_map("sin", x)


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x in radians.  Floats keep their dtype, integers and bools give f32."""
    return float_map("cos", x)


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.  Floats keep their dtype, integers and bools give f32."""
    return float_map("tanh", x)


def erf(x: ArrayLike, /) -> Array:
    """The error function.  Floats keep their dtype, integers and bools give f32."""
    return float_map("erf", x)


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, accurate near zero.  Floats keep their dtype, integers and bools give f32."""
    return float_map("expm1", x)


def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), accurate near zero.  Floats keep their dtype, integers and bools give f32."""
    return float_map("log1p", x)


def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle in radians, from -π to π, of the point with abscissa x2 and ordinate x1.

    The operands promote and broadcast together; integers and bools give f32.
    """
    return bind1("atan2", harmonise((x1, x2), common_float(x1, x2, what="atan2"), "atan2"))


def ceil(x: ArrayLike, /) -> Array:
    """The smallest integer not below x, in x's dtype; integers as they are."""
    return float_map("ceil", x) if dtype_of(x).is_float else _integers(x, "ceil")


def trunc(x: ArrayLike, /) -> Array:
    """The number x without its fraction, in its dtype; integers as they are."""
    return float_map("trunc", x) if dtype_of(x).is_float else _integers(x, "trunc")


def round(x: ArrayLike, /, decimals: int = 0) -> Array:
    """The nearest integer, the even one of two, in x's dtype; with `decimals`, the nearest multiple of 10^-decimals."""
    places = static_int(decimals, "round: decimals")
    if not dtype_of(x).is_float:
        if places < 0:
            raise ArgumentError(
                what="round: decimals", actual=places, expected="at least 0 for integers", where=user_location()
            )
        return _integers(x, "round")
    if places == 0:
        return float_map("round", x)
    wide, dtype = widened(x, "round")
    most = 38 if wide.dtype.bits == 32 else 308  # the powers of ten that the dtype holds
    if not -most <= places <= most:
        expected = f"{-most} to {most} for {wide.dtype}"
        raise ArgumentError(what="round: decimals", actual=places, expected=expected, where=user_location())
    factor = 10.0 ** builtins.abs(places)
    if places < 0:
        return narrowed(float_map("round", wide / factor) * factor, dtype)
    scaled = float_map("round", wide * factor)
    finite = float_map("is_finite", scaled)  # what is too large to be scaled has no digits behind the point
    return narrowed(bind1("select", (finite, scaled / factor, wide)), dtype)


def floor(x: ArrayLike, /) -> Array:
    """The largest integer not above x, in x's dtype; integers as they are."""
    return float_map("floor", x) if dtype_of(x).is_float else _integers(x, "floor")


def _integers(x: ArrayLike, name: str) -> Array:
    refuse_bool(dtype_of(x), name)
    return positive(x)
