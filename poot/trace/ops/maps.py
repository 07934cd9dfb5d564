"""How operands become those of an elementwise primitive: what the functions of `elementwise` and `logic` share."""

from __future__ import annotations

from poot.dtypes import DType, bool_, f32
from poot.errors import DTypeError
from poot.trace.array import Array, ArrayLike
from poot.trace.dispatch import Operand, bind1, lift
from poot.trace.ops.promotion import cast, common_dtype, common_float, dtype_of, harmonise, literal, spread
from poot.trace.source import user_location


def float_map(primitive: str, x: ArrayLike) -> Array:
    """A primitive of one float; integers and bools become f32."""
    return bind1(primitive, (cast(x, common_float(x, what=primitive)),))


def number_map(primitive: str, x: ArrayLike, name: str) -> Array:
    """A primitive of one number; DTypeError for bools."""
    dtype = dtype_of(x, name)
    refuse_bool(dtype, name)
    return bind1(primitive, (cast(x, dtype),))


def binary(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str, *, bools: str | None = None) -> Array:
    """A primitive of two operands of one dtype; of bools it is `bools`, or a DTypeError."""
    dtype = common_dtype(x1, x2, what=name)
    if dtype is bool_:
        if bools is None:
            refuse_bool(dtype, name)
        else:
            primitive = bools
    return bind1(primitive, harmonise((x1, x2), dtype, name))


def compare(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    """A comparison of two operands of one dtype."""
    return bind1(primitive, harmonise((x1, x2), common_dtype(x1, x2, what=name), name))


def bits(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    """A primitive of two operands of bits; DTypeError for floats."""
    dtype = common_dtype(x1, x2, what=name)
    if dtype.is_float:
        raise DTypeError(what=name, actual=dtype, expected="integers or bools", where=user_location())
    return bind1(primitive, harmonise((x1, x2), dtype, name))


def logical(primitive: str, x1: ArrayLike, x2: ArrayLike, name: str) -> Array:
    """A primitive of two truth values."""
    return bind1(primitive, spread((truth(x1), truth(x2)), name))


def refuse_bool(dtype: DType, name: str) -> None:
    """DTypeError for bools."""
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


def widened(x: ArrayLike, what: str) -> tuple[Array, DType]:
    """The operand as floats of at least 32 bits, and the dtype that a result takes."""
    dtype = common_float(x, what=what)
    return lift(cast(x, f32 if dtype.bits == 16 else dtype)), dtype


def narrowed(x: Array, dtype: DType) -> Array:
    """A result rounded to a result's dtype."""
    return lift(cast(x, dtype))
