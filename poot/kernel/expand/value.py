"""Expressions with operators, so that an expansion reads like the mathematics it computes.

A `Value` is an expression and the builder that its locals go to.  Arithmetic on it makes nested expressions; `let`
binds one to a local, which is needed wherever a value is used more than once.  Python numbers become constants of the
other operand's dtype.  Comparisons give Values of bools; equality is the method `eq`, since `==` compares handles.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from poot.dtypes import DType, bool_
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Const, Expr, If, Var


class Value:
    """An expression of one builder."""

    __slots__ = ("expr", "k")

    def __init__(self, k: KernelBuilder, expr: Expr) -> None:
        self.k = k
        self.expr = expr

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    # --- making values ---

    def const(self, value: bool | int | float) -> Value:
        """A constant of this value's dtype."""
        return Value(self.k, self.k.const(value, self.dtype))

    def lift(self, other: Value | bool | int | float) -> Value:
        return other if isinstance(other, Value) else self.const(other)

    def let(self, hint: str) -> Value:
        """The value bound to a local; constants and locals stay as they are."""
        return self if isinstance(self.expr, (Const, Var)) else self.variable(hint)

    def variable(self, hint: str) -> Value:
        """A new local that starts with this value, for `assign`."""
        return Value(self.k, self.k.let(self.expr, hint))

    def assign(self, value: Value | bool | int | float) -> None:
        """Give the local that this value names a new value."""
        assert isinstance(self.expr, Var)
        self.k.assign(self.expr, self.lift(value).expr)

    def op(self, name: str, *others: Value | bool | int | float) -> Value:
        """A row of the table with this value as its first operand."""
        return Value(self.k, self.k.op(name, self.expr, *(self.lift(other).expr for other in others)))

    def bits(self, dtype: DType) -> Value:
        """The same bits as another dtype."""
        return Value(self.k, self.k.bitcast(self.expr, dtype))

    def cast(self, dtype: DType) -> Value:
        return Value(self.k, self.k.cast(self.expr, dtype))

    # --- arithmetic ---

    def __add__(self, other: Value | int | float) -> Value:
        return self.op("add", other)

    def __radd__(self, other: int | float) -> Value:
        return self.lift(other).op("add", self)

    def __sub__(self, other: Value | int | float) -> Value:
        return self.op("sub", other)

    def __rsub__(self, other: int | float) -> Value:
        return self.lift(other).op("sub", self)

    def __mul__(self, other: Value | int | float) -> Value:
        return self.op("mul", other)

    def __rmul__(self, other: int | float) -> Value:
        return self.lift(other).op("mul", self)

    def __truediv__(self, other: Value | int | float) -> Value:
        return self.op("div", other)

    def __rtruediv__(self, other: int | float) -> Value:
        return self.lift(other).op("div", self)

    def __neg__(self) -> Value:
        return self.op("neg")

    def __and__(self, other: Value | bool | int) -> Value:
        return self.op("and", other)

    def __or__(self, other: Value | bool | int) -> Value:
        return self.op("or", other)

    def __xor__(self, other: Value | bool | int) -> Value:
        return self.op("xor", other)

    def __invert__(self) -> Value:
        return self.op("not")

    def __lshift__(self, count: Value | int) -> Value:
        return self.op("shift_left", count)

    def __rshift__(self, count: Value | int) -> Value:
        return self.op("shift_right", count)

    # --- comparisons ---

    def __lt__(self, other: Value | int | float) -> Value:
        return self.op("lt", other)

    def __le__(self, other: Value | int | float) -> Value:
        return self.op("le", other)

    def __gt__(self, other: Value | int | float) -> Value:
        return self.op("gt", other)

    def __ge__(self, other: Value | int | float) -> Value:
        return self.op("ge", other)

    def eq(self, other: Value | int | float) -> Value:
        return self.op("eq", other)

    def ne(self, other: Value | int | float) -> Value:
        return self.op("ne", other)

    # --- choice and flow ---

    def select(self, then: Value, orelse: Value | bool | int | float) -> Value:
        """`then` where this bool holds, else `orelse`; both are evaluated."""
        return Value(self.k, self.k.op("select", self.expr, then.expr, then.lift(orelse).expr))

    def select_const(self, then: bool | int | float, orelse: Value) -> Value:
        """As `select`, with a constant first."""
        return self.select(orelse.const(then), orelse)

    @contextmanager
    def if_(self) -> Generator[None]:
        """Statements that run where this bool holds."""
        with self.k.if_(self.expr):
            yield

    @contextmanager
    def loop(self) -> Generator[None]:
        """Statements that run until `stop_unless` leaves them."""
        with self.k.while_(self.k.const(True, bool_)):
            yield

    def stop_unless(self) -> None:
        """Leave the innermost loop where this bool does not hold."""
        with self.k.block() as leave:
            self.k.break_()
        self.k.emit(If((~self).expr, tuple(leave), (), self.k.where))


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c[0] + c[1] x + c[2] x^2 + … by Horner's rule, with separate products and sums."""
    result = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def expansion(function: Callable[..., Value]) -> Callable[..., Expr]:
    """A function of Values as the `expand` rule of a row: a function of the builder and its operands."""

    def expand(k: KernelBuilder, *args: Expr) -> Expr:
        return function(*(Value(k, arg) for arg in args)).expr

    return expand
