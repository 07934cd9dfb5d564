"""Integer division that floors and never traps: a zero divisor gives 0, and the least integer over -1 wraps.

Vectors of up to 32 bits divide in floating point, which x86 does several lanes at a time, where integer division goes
one lane at a time: a quotient of two integers with a relative error of 2^-53 cannot cross an integer, since a quotient
that is no integer is at least 1/|b| away from one.  (For 8 and 16 bits the same holds of 2^-24 and f32.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from poot.dtypes import DType
from poot.kernel.render.llvm_emit import Emitter, Value, boolean, every


def divide(
    e: Emitter, name: str, dtype: DType, t: str, args: Sequence[Value], operands: Sequence[str], *, vector: bool
) -> str:
    """`floor_div` or `rem` of two operands of the LLVM type `t`."""
    a, b = operands
    divisor = args[1].constant
    if divisor is not None:
        return _by_constant(e, name, dtype, t, args[0], a, divisor)
    if vector and dtype.bits <= 32:
        quotient = _in_floats(e, dtype, t, a, b)
    elif dtype.kind == "uint":
        quotient = _unsigned(e, t, a, b)
    else:
        quotient = _signed(e, t, a, b)
    if name == "floor_div":
        return quotient
    # With a quotient of 0 for a zero divisor the remainder would be a, but 0 is wanted.
    product = e.emit(f"mul {t} {quotient}, {b}")
    rest = e.emit(f"sub {t} {a}, {product}")
    return _select(e, t, _compare(e, "eq", t, b, 0), every(t, 0), rest)


def _by_constant(e: Emitter, name: str, dtype: DType, t: str, arg: Value, a: str, divisor: int) -> str:
    """LLVM turns division by a constant into multiplications; powers of two are shifts and masks here."""
    signed = dtype.kind == "int"
    if divisor == 0:
        return every(t, 0)
    if divisor > 0 and divisor & (divisor - 1) == 0:
        if name == "rem":
            return e.emit(f"and {t} {a}, {every(t, divisor - 1)}")
        return e.emit(f"{'ashr' if signed else 'lshr'} {t} {a}, {every(t, round(log2(divisor)))}")
    divisors = every(t, divisor)
    if not signed or (divisor > 0 and arg.low is not None and arg.low >= 0):
        return e.emit(f"{'udiv' if name == 'floor_div' else 'urem'} {t} {a}, {divisors}")
    if divisor == -1:
        return every(t, 0) if name == "rem" else e.emit(f"sub {t} {every(t, 0)}, {a}")
    if name == "rem":
        rest = e.emit(f"srem {t} {a}, {divisors}")
        past = _compare(e, "slt" if divisor > 0 else "sgt", t, rest, 0)
        return _select(e, t, past, e.emit(f"add {t} {rest}, {divisors}"), rest)
    quotient = e.emit(f"sdiv {t} {a}, {divisors}")
    product = e.emit(f"mul nsw {t} {quotient}, {divisors}")
    past = e.emit(f"icmp {'sgt' if divisor > 0 else 'slt'} {t} {product}, {a}")
    return _select(e, t, past, e.emit(f"sub {t} {quotient}, {every(t, 1)}"), quotient)


def _in_floats(e: Emitter, dtype: DType, t: str, a: str, b: str) -> str:
    """The floored quotient, 0 for a zero divisor, in f64 (f32 for operands of up to 16 bits)."""
    signed = dtype.kind == "int"
    number = t[: t.index("x") + 2] + ("double" if dtype.bits == 32 else "float") + ">"
    zero = _compare(e, "eq", t, b, 0)
    minus = _compare(e, "eq", t, b, -1) if signed else ""
    safe = _select(e, t, zero, every(t, 1), b)
    # Over -1 the quotient may be one past the greatest integer, so it is taken as a negation instead.
    safe = _select(e, t, minus, every(t, 1), safe) if signed else safe
    to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    left, right = (e.emit(f"{to} {t} {x} to {number}") for x in (a, safe))
    quotient = e.emit(f"fdiv {number} {left}, {right}")
    floored = e.intrinsic("floor", number, quotient)
    quotient = e.emit(f"{back} {number} {floored} to {t}")
    if signed:
        quotient = _select(e, t, minus, e.emit(f"sub {t} {every(t, 0)}, {a}"), quotient)
    return _select(e, t, zero, every(t, 0), quotient)


def _unsigned(e: Emitter, t: str, a: str, b: str) -> str:
    zero = _compare(e, "eq", t, b, 0)
    safe = _select(e, t, zero, every(t, 1), b)
    return _select(e, t, zero, every(t, 0), e.emit(f"udiv {t} {a}, {safe}"))


def _signed(e: Emitter, t: str, a: str, b: str) -> str:
    zero, minus = _compare(e, "eq", t, b, 0), _compare(e, "eq", t, b, -1)
    safe = _select(e, t, minus, every(t, 1), _select(e, t, zero, every(t, 1), b))
    quotient = e.emit(f"sdiv {t} {a}, {safe}")
    product = e.emit(f"mul {t} {quotient}, {safe}")
    rest = e.emit(f"sub {t} {a}, {product}")
    opposed = _compare(e, "slt", t, e.emit(f"xor {t} {rest}, {safe}"), 0)
    below = e.emit(f"and {boolean(t)} {_compare(e, 'ne', t, rest, 0)}, {opposed}")
    quotient = _select(e, t, below, e.emit(f"sub {t} {quotient}, {every(t, 1)}"), quotient)
    quotient = _select(e, t, minus, e.emit(f"sub {t} {every(t, 0)}, {a}"), quotient)
    return _select(e, t, zero, every(t, 0), quotient)


# --- spelling -------------------------------------------------------------------------------------------------------


def _compare(e: Emitter, predicate: str, t: str, a: str, value: int) -> str:
    return e.emit(f"icmp {predicate} {t} {a}, {every(t, value)}")


def _select(e: Emitter, t: str, condition: str, a: str, b: str) -> str:
    return e.emit(f"select {boolean(t)} {condition}, {t} {a}, {t} {b}")
