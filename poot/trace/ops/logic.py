"""Comparisons, logic, bits and choice: elementwise, as `elementwise` says."""

from __future__ import annotations

from poot.errors import DTypeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import bind1
from poot.trace.ops.maps import bits, compare, float_map, logical, truth
from poot.trace.ops.promotion import cast, common_dtype, dtype_of, spread
from poot.trace.source import user_location

# --- tests and comparisons --------------------------------------------------------------------------------------------


def isfinite(x: ArrayLike, /) -> Array:
    """True where x is neither infinite nor NaN."""
    return float_map("is_finite", x)


def isnan(x: ArrayLike, /) -> Array:
    """True where x is NaN."""
    return not_equal(x, x)


def isinf(x: ArrayLike, /) -> Array:
    """True where x is an infinity."""
    return logical_and(logical_not(isfinite(x)), equal(x, x))


def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 == x2; NaN equals nothing."""
    return compare("eq", x1, x2, "equal")


def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 != x2."""
    return compare("ne", x1, x2, "not_equal")


def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 < x2."""
    return compare("lt", x1, x2, "less")


def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 <= x2."""
    return compare("le", x1, x2, "less_equal")


def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 > x2."""
    return compare("gt", x1, x2, "greater")


def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 >= x2."""
    return compare("ge", x1, x2, "greater_equal")


# --- logic and bits ---------------------------------------------------------------------------------------------------


def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where both are not zero."""
    return logical("and", x1, x2, "logical_and")


def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where one or both are not zero."""
    return logical("or", x1, x2, "logical_or")


def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where one, and one only, is not zero."""
    return logical("xor", x1, x2, "logical_xor")


def logical_not(x: ArrayLike, /) -> Array:
    """True where x is zero."""
    return bind1("not", (truth(x),))


def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits set in both; integers or bools."""
    return bits("and", x1, x2, "bitwise_and")


def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits set in one or both; integers or bools."""
    return bits("or", x1, x2, "bitwise_or")


def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits set in one only; integers or bools."""
    return bits("xor", x1, x2, "bitwise_xor")


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
