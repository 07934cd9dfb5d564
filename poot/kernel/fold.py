"""Constant folding and algebra on single operations, exact for wrapping integers and for IEEE floats.

Floats are folded by the rows' own rules, so that a folded constant has the bits that every device would compute;
results that are NaN are left alone, because their bits are not promised.  Identities of floats keep -0.0 and NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from poot.dtypes import DType, bool_
from poot.kernel.ir import Cast, Const, Expr, Load, Op, Var, is_const, operands
from poot.kernel.scalar import converter, evaluator

_INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "min", "max", "eq", "ne"})


def drops(expr: Expr) -> bool:
    """Whether an expression may vanish: it has no checked access, whose fault would vanish too."""
    if isinstance(expr, (Const, Var)):
        return True
    return not (isinstance(expr, Load) and expr.checked) and all(map(drops, operands(expr)))


@cache
def _rule(name: str, operand: DType, result: DType) -> Callable[..., Any]:
    return evaluator(name, operand, result)


@cache
def _conversion(source: DType, target: DType) -> Callable[..., Any]:
    return converter(source, target)


def constant(value: Any, dtype: DType, like: Expr) -> Const | None:
    """A NumPy result as a literal at the place of `like`; None for NaN."""
    plain = float(value) if dtype.is_float else bool(value) if dtype is bool_ else int(value)
    return None if plain != plain else Const(plain, dtype, like.where)


def fold_cast(cast: Cast) -> Expr:
    """A conversion, simplified; its operand already is."""
    arg, dtype = cast.arg, cast.dtype
    if arg.dtype is dtype:
        return arg
    if isinstance(arg, Const):
        with np.errstate(all="ignore"):
            return constant(_conversion(arg.dtype, dtype)(arg.dtype.dtype.type(arg.value)), dtype, cast) or cast
    if isinstance(arg, Cast) and arg.arg.dtype is dtype and _exact(dtype, arg.dtype):
        return arg.arg
    return cast


def _exact(narrow: DType, wide: DType) -> bool:
    """Whether every value of one dtype has its own value in the other."""
    if narrow is bool_:
        return True
    if narrow.is_float:
        return wide.is_float and wide.bits > narrow.bits
    if wide.is_integer:
        return wide.min <= narrow.min and narrow.max <= wide.max
    return wide.is_float and narrow.bits <= {16: 8, 32: 16, 64: 32}[wide.bits]


def fold_op(op: Op) -> Expr:
    """An operation, simplified; its operands already are."""
    if all(isinstance(arg, Const) for arg in op.args):
        return _evaluate(op) or op
    match op.args:
        case (a,):
            return _unary(op, a) or op
        case (Const(), b) if op.name in _COMMUTATIVE and not isinstance(b, Const):
            op = Op(op.name, (b, op.args[0]), op.dtype, op.where)
        case (condition, a, b):
            return _select(condition, a, b) or op
        case _:
            pass
    a, b = op.args
    found = _same(op, a, b) if a == b else None
    if found is None and b.dtype.is_float:
        found = _float(op, a, b)
    elif found is None:
        found = _boolean(op, a, b) if b.dtype is bool_ else _integer(op, a, b)
    return found or op


def _evaluate(op: Op) -> Const | None:
    values = [arg.dtype.dtype.type(arg.value) for arg in op.args if isinstance(arg, Const)]
    if op.name == "bitcast" and values[0] != values[0]:
        return None
    with np.errstate(all="ignore"):
        return constant(_rule(op.name, op.args[-1].dtype, op.dtype)(*values), op.dtype, op)


def _unary(op: Op, a: Expr) -> Expr | None:
    if op.name == "bitcast" and a.dtype is op.dtype:
        return a
    if not isinstance(a, Op):
        return None
    inner = a.args[0]
    match op.name, a.name:
        case ("neg", "neg") | ("not", "not"):
            return inner
        case "abs", ("neg" | "abs"):
            return Op("abs", (inner,), op.dtype, op.where)
        case "bitcast", "bitcast":
            return inner if inner.dtype is op.dtype else Op("bitcast", (inner,), op.dtype, op.where)
        case "not", _ if op.dtype is bool_ and a.name in _INVERSE:
            if inner.dtype.is_float and a.name not in ("eq", "ne"):
                return None
            return Op(_INVERSE[a.name], a.args, bool_, op.where)
        case _:
            return None


def _select(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    if isinstance(condition, Const):
        chosen, other = (a, b) if condition.value else (b, a)
        return chosen if drops(other) else None
    return a if a == b and drops(condition) else None


def _same(op: Op, a: Expr, b: Expr) -> Expr | None:
    """Both operands are one expression."""
    if not drops(b):
        return None
    match op.name:
        case "min" | "max" | "and" | "or":
            return a
        case "sub" | "xor" if a.dtype.is_integer:
            return Const(0, a.dtype, op.where)
        case "eq" | "le" | "ge" if not a.dtype.is_float:
            return Const(True, bool_, op.where)
        case "ne" | "lt" | "gt" if not a.dtype.is_float:
            return Const(False, bool_, op.where)
        case _:
            return None


def _float(op: Op, a: Expr, b: Expr) -> Expr | None:
    match op.name:
        case "add" if is_const(b, -0.0):
            return a
        case "sub" if is_const(b, 0.0):
            return a
        case "mul" | "div" if is_const(b, 1.0):
            return a
        case "div" if isinstance(b, Const) and _power_of_two(float(b.value), op.dtype):
            return Op("mul", (a, Const(1.0 / b.value, op.dtype, b.where)), op.dtype, op.where)
        case _:
            return None


def _power_of_two(value: float, dtype: DType) -> bool:
    """Whether a power of two has a reciprocal that is a normal number of the dtype."""
    if value == 0 or not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return False
    smallest = {"f16": 2.0**-14, "f64": 2.0**-1022}.get(dtype.name, 2.0**-126)
    return smallest <= abs(1.0 / value) <= dtype.max


def _boolean(op: Op, a: Expr, b: Expr) -> Expr | None:
    if not isinstance(b, Const):
        return None
    match op.name:
        case "and" | "or" | "min" | "max":
            neutral = op.name in ("and", "min")
            if b.value == neutral:
                return a
            return b if drops(a) else None
        case "xor" | "ne" | "eq":
            flips = b.value if op.name != "eq" else not b.value
            return fold_op(Op("not", (a,), bool_, op.where)) if flips else a
        case _:
            return None


def _integer(op: Op, a: Expr, b: Expr) -> Expr | None:
    if not isinstance(b, Const):
        if is_const(a, 0) and op.name in ("floor_div", "rem", "shift_left", "shift_right") and drops(b):
            return a
        return None
    value, dtype = int(b.value), b.dtype
    match op.name:
        case "add" | "sub" | "or" | "xor" | "shift_left" | "shift_right" if value == 0:
            return a
        case "mul" | "floor_div" if value == 1:
            return a
        case "mul" | "and" if value == 0:
            return b if drops(a) else None
        case "floor_div" | "rem" if value == 0:
            return Const(0, dtype, op.where) if drops(a) else None
        case "rem" if value == 1:
            return Const(0, dtype, op.where) if drops(a) else None
        case "and" if value == (-1 if dtype.min < 0 else dtype.max):
            return a
        case "add" | "sub" if isinstance(a, Op) and a.name in ("add", "sub") and isinstance(a.args[1], Const):
            inner = int(a.args[1].value) * (1 if a.name == "add" else -1)
            return _offset(a.args[0], inner + (value if op.name == "add" else -value), op)
        case "mul" if isinstance(a, Op) and a.name == "mul" and isinstance(a.args[1], Const):
            return fold_op(Op("mul", (a.args[0], wrapped(int(a.args[1].value) * value, b)), dtype, op.where))
        case _:
            return None


def _offset(base: Expr, by: int, op: Op) -> Expr:
    """`base` plus a number, written as a subtraction where the number is negative."""
    number = wrapped(by, op)
    value = int(number.value)
    if value < 0 and -value <= op.dtype.max:
        return Op("sub", (base, Const(-value, op.dtype, op.where)), op.dtype, op.where)
    return fold_op(Op("add", (base, number), op.dtype, op.where))


def wrapped(value: int, like: Expr) -> Const:
    """A number as its dtype holds it after wrapping."""
    dtype = like.dtype
    value %= 1 << dtype.bits
    return Const(value - (1 << dtype.bits) if value > dtype.max else value, dtype, like.where)
