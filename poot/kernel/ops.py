"""The scalar operations of the kernel IR: one row each, with its type rule, meaning in NumPy, and expansion.

`native` rows are what every renderer spells; the others carry an `expand` rule that writes them in native ones, so that
every target computes the same thing.  Meaning is fixed here and in docs/numerics.md:

- integers wrap; `floor_div` and `rem` floor, and give 0 for a zero divisor;
- shifts by the width or more give 0, or the sign for arithmetic right shifts; counts are read as unsigned;
- `min` and `max` return NaN if an operand is NaN, and order -0.0 before +0.0;
- comparisons with NaN are false, but for `ne`;
- f16 and bf16 operands are widened to f32, computed, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from poot.dtypes import ALL, FLOATS, INTEGERS, NUMBERS, DType, bool_, i8, i16, i32, i64
from poot.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from poot.kernel.ir import Expr

Result = Literal["same", "bool", "bitcast"]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """A row of the table.

    `dtypes` are what the operands may have; all operands share one dtype, except that a `select`'s first is a bool.
    `result` says the result's dtype.  `evaluate` gives the meaning of a native row on NumPy arrays of f32, f64,
    integers or bools.  `expand(b, *args)` writes other rows in terms of rows above; it may emit statements through the
    builder.
    """

    name: str
    arity: int
    dtypes: tuple[DType, ...]
    doc: str
    result: Result = "same"
    evaluate: Callable[..., Array] | None = None
    expand: Callable[..., Expr] | None = None
    expand_dtypes: tuple[DType, ...] = ()

    @property
    def native(self) -> bool:
        """Whether renderers spell the row, for some dtypes at least."""
        return self.expand is None or bool(self.expand_dtypes)

    def expands(self, dtype: DType) -> bool:
        """Whether operands of `dtype` go through the expansion."""
        return self.expand is not None and (not self.expand_dtypes or dtype in self.expand_dtypes)


_TABLE: dict[str, ScalarOp] = {}


def register(op: ScalarOp) -> ScalarOp:
    """Add a row; ArgumentError if the name is taken."""
    if op.name in _TABLE:
        raise ArgumentError(what="scalar operation", actual=op.name, expected="a new name")
    _TABLE[op.name] = op
    return op


def extend(name: str, dtypes: tuple[DType, ...], expand: Callable[..., Expr], doc: str) -> ScalarOp:
    """Let a native row take further dtypes, through an expansion; ArgumentError if it takes one of them already."""
    row = lookup(name)
    if row.expand is not None or set(row.dtypes) & set(dtypes):
        raise ArgumentError(what=f"dtypes added to {name}", actual=dtypes, expected="dtypes that it does not take")
    _TABLE[name] = replace(row, dtypes=row.dtypes + dtypes, doc=doc, expand=expand, expand_dtypes=dtypes)
    return _TABLE[name]


def lookup(name: str) -> ScalarOp:
    """The row called `name`; ArgumentError if there is none."""
    if name not in _TABLE:
        raise ArgumentError(what="scalar operation", actual=name, expected="one of " + ", ".join(_TABLE))
    return _TABLE[name]


def table() -> tuple[ScalarOp, ...]:
    """Every row, in the order of registration."""
    return tuple(_TABLE.values())


def result_dtype(name: str, args: Sequence[DType]) -> DType:
    """The dtype of an operation's result; DTypeError where the operands do not fit ("bitcast" states its own)."""
    op = lookup(name)
    if len(args) != op.arity:
        raise ArgumentError(what=f"{name}: number of operands", actual=len(args), expected=str(op.arity))
    values = list(args)
    if name == "select" and values.pop(0) is not bool_:
        raise DTypeError(what="select condition", actual=args[0], expected="bool")
    first = values[0]
    for value in values:
        if value is not first:
            raise DTypeError(what=f"operands of {name}", actual=value, expected=first)
    if first not in op.dtypes:
        raise DTypeError(
            what=f"operand of {name}", actual=first, expected="one of " + ", ".join(d.name for d in op.dtypes)
        )
    return bool_ if op.result == "bool" else first


# --- native rows ----------------------------------------------------------------------------------------------------

SIGNED = (i8, i16, i32, i64)


def _floor_div(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), np.floor_divide(a, safe))


def _rem(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), np.remainder(a, safe))


def _shift_left(a: Array, count: Array) -> Array:
    width = a.dtype.itemsize * 8
    outside = (count < 0) | (count >= width)
    return np.where(outside, np.zeros_like(a), np.left_shift(a, np.where(outside, np.zeros_like(count), count)))


def _shift_right(a: Array, count: Array) -> Array:
    width = a.dtype.itemsize * 8
    outside = (count < 0) | (count >= width)
    return (
        np.right_shift(a, np.where(outside, np.full_like(count, width - 1), count))
        if a.dtype.kind == "i"
        else np.where(outside, np.zeros_like(a), np.right_shift(a, np.where(outside, np.zeros_like(count), count)))
    )


def _clz(a: Array) -> Array:
    width = a.dtype.itemsize * 8
    bits = a.view(f"u{a.dtype.itemsize}")
    count = np.full(a.shape, width, np.int64)
    for position in range(width):
        count = np.where((bits >> bits.dtype.type(position)) & bits.dtype.type(1) == 1, width - 1 - position, count)
    return count.astype(a.dtype)


def _ordered(greater: bool) -> Callable[[Array, Array], Array]:
    def choose(a: Array, b: Array) -> Array:
        picked = np.maximum(a, b) if greater else np.minimum(a, b)
        if a.dtype.kind != "f" or not np.any(picked == 0):
            return picked
        zero = np.logical_and(a == 0, b == 0)
        negative = np.signbit(a) & np.signbit(b) if greater else np.signbit(a) | np.signbit(b)
        return np.where(zero, np.where(negative, -np.zeros_like(a), np.zeros_like(a)), picked)

    return choose


def _popcount(a: Array) -> Array:
    return np.bitwise_count(a.view(f"u{a.dtype.itemsize}")).astype(a.dtype)


def _select(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def _same_bits(a: Array) -> Array:
    return a


def _native(
    name: str, arity: int, dtypes: tuple[DType, ...], evaluate: Callable[..., Any], doc: str, result: Result = "same"
) -> None:
    register(ScalarOp(name, arity, dtypes, doc, result, evaluate))


_BITS = (bool_, *INTEGERS)

_native("neg", 1, NUMBERS, np.negative, "-a; wraps on integers")
_native("abs", 1, NUMBERS, np.abs, "|a|; the least integer stays")
_native("sqrt", 1, FLOATS, np.sqrt, "square root, correctly rounded; NaN below zero")
_native("floor", 1, FLOATS, np.floor, "the greatest integer not above a")
_native("ceil", 1, FLOATS, np.ceil, "the least integer not below a")
_native("trunc", 1, FLOATS, np.trunc, "a without its fraction")
_native("round", 1, FLOATS, np.rint, "the nearest integer, ties to even")
_native("not", 1, _BITS, np.invert, "bitwise complement; logical on bools")
_native("popcount", 1, INTEGERS, _popcount, "set bits")
_native("clz", 1, INTEGERS, _clz, "leading zero bits; the width for 0")
_native("add", 2, NUMBERS, np.add, "a + b")
_native("sub", 2, NUMBERS, np.subtract, "a - b")
_native("mul", 2, NUMBERS, np.multiply, "a * b")
_native("div", 2, FLOATS, np.divide, "a / b, correctly rounded")
_native("floor_div", 2, INTEGERS, _floor_div, "floor of a / b; 0 where b is 0")
_native("rem", 2, INTEGERS, _rem, "a - b * floor_div(a, b); 0 where b is 0")
_native("min", 2, (bool_, *NUMBERS), _ordered(greater=False), "the lesser; NaN if either is")
_native("max", 2, (bool_, *NUMBERS), _ordered(greater=True), "the greater; NaN if either is")
_native("and", 2, _BITS, np.bitwise_and, "bitwise and")
_native("or", 2, _BITS, np.bitwise_or, "bitwise or")
_native("xor", 2, _BITS, np.bitwise_xor, "bitwise exclusive or")
_native("shift_left", 2, INTEGERS, _shift_left, "a << b; 0 past the width")
_native("shift_right", 2, INTEGERS, _shift_right, "a >> b; arithmetic on signed integers")
_native("eq", 2, ALL, np.equal, "a == b", "bool")
_native("ne", 2, ALL, np.not_equal, "a != b; true for NaN", "bool")
_native("lt", 2, ALL, np.less, "a < b", "bool")
_native("le", 2, ALL, np.less_equal, "a <= b", "bool")
_native("gt", 2, ALL, np.greater, "a > b", "bool")
_native("ge", 2, ALL, np.greater_equal, "a >= b", "bool")
_native("select", 3, ALL, _select, "a where the condition holds, else b; both are evaluated")
_native("bitcast", 1, ALL, _same_bits, "the same bits as another dtype of the same width", "bitcast")
