"""Elementwise functions, under the array API's names and NumPy's.

Operands are arrays of any dtype and broadcastable shapes, or numbers; the result has the promoted dtype
(`docs/dtypes.md`) and the broadcast shape.  Functions that are not closed over the integers (exp,
sqrt, divide …) take integers as f32.
"""

from __future__ import annotations

import numpy as np

from poot.dtypes import DType, bool_
from poot.errors import ArgumentError, DTypeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import Operand, bind1, lift
from poot.trace.ops.promotion import cast, common_dtype, common_float, dtype_of, harmonise, literal, spread
from poot.trace.source import user_location


def _float_map(primitive: str, x: ArrayLike) -> Array:
    return bind1(primitive, (cast(x, common_float(x, what=primitive)),))


def _number_map(primitive: str, x: ArrayLike, name: str) -> Array:
    dtype = dtype_of(x, name)
    _refuse_bool(dtype, name)
    return bind1(primitive, (cast(x, dtype),))


def _binary(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str, *, bools: str | None = None) -> Array:
    dtype = common_dtype(x1, x2, what=name)
    if dtype is bool_:
        if bools is None:
            _refuse_bool(dtype, name)
        else:
            primitive = bools
    return bind1(primitive, harmonise((x1, x2), dtype, name))


def _compare(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    return bind1(primitive, harmonise((x1, x2), common_dtype(x1, x2, what=name), name))


def _bits(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    dtype = common_dtype(x1, x2, what=name)
    if dtype.is_float:
        raise DTypeError(what=name, actual=dtype, expected="integers or bools", where=user_location())
    return bind1(primitive, harmonise((x1, x2), dtype, name))


def _logical(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    return bind1(primitive, spread((truth(x1), truth(x2)), name))


def _refuse_bool(dtype: DType, name: str) -> None:
    if dtype is bool_:
        raise DTypeError(
            what=name,
            actual=dtype,
            expected="numbers",
            where=user_location(),
            remedy="cast the bools with i32(x) first.",
        )


def truth(x: ArrayLike) -> Operand:
    """Bools: true where it is not zero; NaN is true."""
    dtype = dtype_of(x)
    operand = cast(x, dtype)
    if dtype is bool_:
        return operand
    return bind1("ne", spread((operand, literal(0, dtype)), "truth value"))


# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 + x2.  Integers wrap; of two bools, their disjunction."""
    return _binary("add", x1, x2, "add", bools="or")


def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 - x2.  Integers wrap; DTypeError for two bools."""
    return _binary("sub", x1, x2, "subtract")


def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * x2.  Integers wrap; of two bools, their conjunction."""
    return _binary("mul", x1, x2, "multiply", bools="and")


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 / x2 in floats; integers give f32."""
    return bind1("div", harmonise((x1, x2), common_float(x1, x2, what="divide"), "divide"))


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient rounded down.  An integer divided by zero gives 0."""
    return _binary("floor_div", x1, x2, "floor_divide")


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """What `floor_divide` leaves, with the sign of x2.  An integer divided by zero leaves 0."""
    return _binary("rem", x1, x2, "remainder")


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """(floor_divide(x1, x2), remainder(x1, x2))."""
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
    return _binary("pow", x1, x2, "pow")


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
    """The larger of x1 and x2; NaN where one is NaN; +0.0 counts as larger than -0.0."""
    return _binary("max", x1, x2, "maximum", bools="or")


def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of x1 and x2; NaN where one is NaN; -0.0 counts as smaller than +0.0."""
    return _binary("min", x1, x2, "minimum", bools="and")


def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Every element limited to [min, max]; either may be None.  NaN stays NaN.  Where min > max the result is max."""
    result: ArrayLike = x
    if min is not None:
        result = maximum(result, min)
    if max is not None:
        result = minimum(result, max)
    return positive(result)


def negative(x: ArrayLike, /) -> Array:
    """-x.  Integers wrap."""
    return _number_map("neg", x, "negative")


def positive(x: ArrayLike, /) -> Array:
    """The operand itself, as an array."""
    return lift(cast(x, dtype_of(x)))


def abs(x: ArrayLike, /) -> Array:
    """The absolute value; of the least integer, itself."""
    return _number_map("abs", x, "abs")


def square(x: ArrayLike, /) -> Array:
    """The square, x * x."""
    return multiply(x, x)


# --- functions of floats ----------------------------------------------------------------------------------------------


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below zero."""
    return _float_map("sqrt", x)


def rsqrt(x: ArrayLike, /) -> Array:
    """1 / sqrt(x)."""
    return _float_map("rsqrt", x)


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x."""
    return _float_map("recip", x)


def exp(x: ArrayLike, /) -> Array:
    """E to the power x."""
    return _float_map("exp", x)


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; -inf at zero and NaN below it."""
    return _float_map("log", x)


def sin(x: ArrayLike, /) -> Array:
    """The sine of x in radians."""
    return _float_map("sin", x)


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x in radians."""
    return _float_map("cos", x)


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return _float_map("tanh", x)


def erf(x: ArrayLike, /) -> Array:
    """The error function."""
    return _float_map("erf", x)


def floor(x: ArrayLike, /) -> Array:
    """The largest integer not above x, in x's dtype; integers as they are."""
    return _float_map("floor", x) if dtype_of(x).is_float else _integers(x, "floor")


def _integers(x: ArrayLike, name: str) -> Array:
    _refuse_bool(dtype_of(x), name)
    return positive(x)


# --- tests and comparisons --------------------------------------------------------------------------------------------


def isfinite(x: ArrayLike, /) -> Array:
    """True where x is neither infinite nor NaN."""
    return _float_map("is_finite", x)


def isnan(x: ArrayLike, /) -> Array:
    """True where x is NaN."""
    return not_equal(x, x)


def isinf(x: ArrayLike, /) -> Array:
    """True where x is an infinity."""
    return logical_and(logical_not(isfinite(x)), equal(x, x))


def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 == x2; NaN equals nothing."""
    return _compare("eq", x1, x2, "equal")


def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 != x2."""
    return _compare("ne", x1, x2, "not_equal")


def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 < x2."""
    return _compare("lt", x1, x2, "less")


def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 <= x2."""
    return _compare("le", x1, x2, "less_equal")


def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 > x2."""
    return _compare("gt", x1, x2, "greater")


def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 >= x2."""
    return _compare("ge", x1, x2, "greater_equal")


# --- logic and bits ---------------------------------------------------------------------------------------------------


def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where both are not zero."""
    return _logical("and", x1, x2, "logical_and")


def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where one or both are not zero."""
    return _logical("or", x1, x2, "logical_or")


def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where one, and one only, is not zero."""
    return _logical("xor", x1, x2, "logical_xor")


def logical_not(x: ArrayLike, /) -> Array:
    """True where x is zero."""
    return bind1("not", (truth(x),))


def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits set in both; integers or bools."""
    return _bits("and", x1, x2, "bitwise_and")


def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits set in one or both; integers or bools."""
    return _bits("or", x1, x2, "bitwise_or")


def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits set in one only; integers or bools."""
    return _bits("xor", x1, x2, "bitwise_xor")


def bitwise_invert(x: ArrayLike, /) -> Array:
    """Every bit flipped; integers or bools."""
    dtype = dtype_of(x, "bitwise_invert")
    if dtype.is_float:
        raise DTypeError(what="bitwise_invert", actual=dtype, expected="integers or bools", where=user_location())
    return bind1("not", (cast(x, dtype),))


# --- choice -----------------------------------------------------------------------------------------------------------


def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 where `condition` is true (not zero), x2 elsewhere; the three broadcast together."""
    dtype = common_dtype(x1, x2, what="where")
    return bind1("select", spread((truth(condition), cast(x1, dtype), cast(x2, dtype)), "where"))
