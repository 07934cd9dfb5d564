"""Comparisons, logic, bits and choice: elementwise, as `elementwise` says."""

from __future__ import annotations

import math

from poot.dtypes import DType, DTypeLike, bool_, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from poot.errors import DTypeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import bind1, joined, lift
from poot.trace.graph import Literal
from poot.trace.ops.axes import flag
from poot.trace.ops.maps import bits, compare, float_map, logical, truth
from poot.trace.ops.namespace import DEPENDENT, refuse
from poot.trace.ops.promotion import cast, common_dtype, common_float, dtype_argument, dtype_of, shape_of, spread
from poot.trace.source import user_location

#: The signed integer of a width.
SIGNED: dict[int, DType] = {8: i8, 16: i16, 32: i32, 64: i64}
UNSIGNED: dict[int, DType] = {8: u8, 16: u16, 32: u32, 64: u64}

# --- tests and comparisons --------------------------------------------------------------------------------------------


def isfinite(x: ArrayLike, /) -> Array:
    """True where x is neither infinite nor NaN.  Bools of x's shape; of integers and bools too."""
    return float_map("is_finite", x)


def isnan(x: ArrayLike, /) -> Array:
    """True where x is NaN.  Bools of x's shape; of integers and bools too."""
    return not_equal(x, x)


def isinf(x: ArrayLike, /) -> Array:
    """True where x is an infinity.  Bools of x's shape; of integers and bools too."""
    return logical_and(logical_not(isfinite(x)), equal(x, x))


def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 == x2; NaN equals nothing.  Bools, of any numbers that promote and broadcast together."""
    return compare("eq", x1, x2, "equal")


def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 != x2.  Bools, of any numbers that promote and broadcast together."""
    return compare("ne", x1, x2, "not_equal")


def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 < x2.  Bools, of any numbers that promote and broadcast together."""
    return compare("lt", x1, x2, "less")


def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 <= x2.  Bools, of any numbers that promote and broadcast together."""
    return compare("le", x1, x2, "less_equal")


def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 > x2.  Bools, of any numbers that promote and broadcast together."""
    return compare("gt", x1, x2, "greater")


def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where x1 >= x2.  Bools, of any numbers that promote and broadcast together."""
    return compare("ge", x1, x2, "greater_equal")


# --- logic and bits ---------------------------------------------------------------------------------------------------


def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where both are not zero.  Bools, of operands of any dtypes that broadcast together."""
    return logical("and", x1, x2, "logical_and")


def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where one or both are not zero.  Bools, of operands of any dtypes that broadcast together."""
    return logical("or", x1, x2, "logical_or")


def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """True where one, and one only, is not zero.  Bools, of operands of any dtypes that broadcast together."""
    return logical("xor", x1, x2, "logical_xor")


def logical_not(x: ArrayLike, /) -> Array:
    """True where x is zero.  Bools of x's shape, of any dtype."""
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


def bitwise_left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The integers x1 with their bits moved x2 places up; 0 for a count of the width or more, or below zero."""
    return _shift("shift_left", x1, x2, "bitwise_left_shift")


def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The integers x1 with their bits moved x2 places down, the sign kept; all sign for a count past the width."""
    return _shift("shift_right", x1, x2, "bitwise_right_shift")


def _shift(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    dtype = common_dtype(x1, x2, what=name)
    if not dtype.is_integer:
        raise DTypeError(what=name, actual=dtype, expected="integers", where=user_location())
    return bits(primitive, x1, x2, name)


def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits of each integer are set, in its dtype."""
    return _integer_map("popcount", x, "bitwise_count")


def count_leading_zeros(x: ArrayLike, /) -> Array:
    """How many bits of each integer stand before the first that is set, in its dtype; the width for 0."""
    return _integer_map("clz", x, "count_leading_zeros")


def _integer_map(primitive: str, x: ArrayLike, name: str) -> Array:
    dtype = dtype_of(x, name)
    if not dtype.is_integer:
        raise DTypeError(what=name, actual=dtype, expected="integers", where=user_location())
    return bind1(primitive, (cast(x, dtype),))


def bitcast(x: ArrayLike, dtype: DTypeLike, /) -> Array:
    """The bits of x as another dtype of the same width."""
    source, target = dtype_of(x, "bitcast"), dtype_argument(dtype)
    if source is bool_ or target is bool_ or source.bits != target.bits:
        raise DTypeError(
            what="bitcast",
            actual=target,
            expected=f"a number of {source.bits} bits, as {source}",
            where=user_location(),
        )
    return bind1("bitcast", (cast(x, source),), dtype=target)


def signbit(x: ArrayLike, /) -> Array:
    """True where x is negative, -0.0 and NaN with its sign set included.  Bools of x's shape."""
    dtype = dtype_of(x, "signbit")
    return less(bitcast(x, SIGNED[dtype.bits]) if dtype.is_float else x, 0)


def isclose(
    x1: ArrayLike, x2: ArrayLike, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> Array:
    """True where |x1 - x2| <= atol + rtol * |x2|, or both are one infinity, or, if `equal_nan`, both are NaN.

    The difference of integers is exact; the right side is computed in f32 for them, in f64 for those of 64 bits.
    """
    kind, equal_nan = common_dtype(x1, x2, what="isclose"), flag(equal_nan, "equal_nan")
    for tolerance, name in ((rtol, "rtol"), (atol, "atol")):
        dtype_of(tolerance, f"isclose: {name}")  # which refuses what is no number
    if kind.is_integer:
        return _close_integers(x1, x2, kind, rtol, atol)
    dtype = common_float(x1, x2, what="isclose")
    with joined(x1, x2):
        a, b = (lift(cast(x, dtype)) for x in (x1, x2))
        near = logical_and(abs(a - b) <= atol + rtol * abs(b), isfinite(b))
        same = logical_or(near, a == b)
        return logical_or(same, logical_and(isnan(a), isnan(b))) if equal_nan else same


def _close_integers(x1: ArrayLike, x2: ArrayLike, dtype: DType, rtol: float, atol: float) -> Array:
    unsigned = UNSIGNED[dtype.bits]
    with joined(x1, x2):
        a, b = (lift(cast(x, dtype)) for x in (x1, x2))
        apart = lift(cast(where(a > b, a - b, b - a), unsigned))  # modulo 2^w, which holds it
        allowed = atol + rtol * abs(lift(cast(b, f64 if dtype.bits == 64 else f32)))
        # A cast truncates and stays within the range, so a tolerance past every difference allows all of them.
        return logical_and(apart <= lift(cast(allowed, unsigned)), allowed >= 0)


def allclose(
    x1: ArrayLike, x2: ArrayLike, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> Array:
    """One bool: whether all elements are close, as `isclose` says."""
    near = isclose(x1, x2, rtol, atol, equal_nan=equal_nan)
    return bind1("reduce_all", (near,), axes=tuple(range(near.ndim)))


def array_equal(x1: ArrayLike, x2: ArrayLike, /, equal_nan: bool = False) -> Array:
    """One bool: whether shapes and all elements are equal; nothing is broadcast."""
    common_dtype(x1, x2, what="array_equal")
    with joined(x1, x2):
        if shape_of(x1) != shape_of(x2):
            return lift(Literal(False, bool_))
        same = equal(x1, x2)
        if flag(equal_nan, "equal_nan"):
            same = logical_or(same, logical_and(isnan(x1), isnan(x2)))
        return bind1("reduce_all", (same,), axes=tuple(range(same.ndim)))


def nan_to_num(x: ArrayLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """The elements with NaN replaced, and infinities replaced by the largest finite numbers or those given."""
    dtype = dtype_of(x, "nan_to_num")
    array = lift(cast(x, dtype))
    if not dtype.is_float:
        return array
    array = where(isnan(array), nan, array)
    array = where(array == math.inf, dtype.max if posinf is None else posinf, array)
    return where(array == -math.inf, dtype.min if neginf is None else neginf, array)


# --- choice -----------------------------------------------------------------------------------------------------------


def where(condition: ArrayLike, x1: ArrayLike | None = None, x2: ArrayLike | None = None, /) -> Array:
    """x1 where `condition` is true (not zero), x2 elsewhere, in the dtype that both promote to; the three broadcast.

    NumPy's form of the condition alone, which finds positions, refuses: their number depends on values.
    """
    if x1 is None or x2 is None:
        raise refuse("ops.where(condition) without values", DEPENDENT)
    dtype = common_dtype(x1, x2, what="where")
    return bind1("select", spread((truth(condition), cast(x1, dtype), cast(x2, dtype)), "where"))
