"""Constant folding and algebra: exact for wrapping integers, and for floats with signed zeros and NaN."""

from __future__ import annotations

import math

from poot.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32
from poot.kernel.fold import fold_cast, fold_op
from poot.kernel.ir import Cast, Const, Expr, Load, Op, Var
from poot.kernel.text import dump_expr


def folded(name: str, *args: Expr, dtype: DType | None = None) -> str:
    return dump_expr(fold_op(Op(name, args, dtype or args[-1].dtype)), i32)


I, J, U, F, B = Var("i", i32), Var("j", i32), Var("u", u32), Var("f", f32), Var("b", bool_)


def c(value: float, dtype: DType = i32) -> Const:
    return Const(value if dtype is not f32 else float(value), dtype)


def test_integer_identities() -> None:
    assert folded("add", I, c(0)) == "i"
    assert folded("add", c(3), I) == "i + 3"
    assert folded("add", Op("add", (I, c(3)), i32), c(4)) == "i + 7"
    assert folded("sub", Op("add", (I, c(3)), i32), c(4)) == "i - 1"
    assert folded("add", Op("sub", (I, c(3)), i32), c(3)) == "i"
    assert folded("add", Op("add", (I, c(2**31 - 1)), i32), c(1)) == "i + -2147483648"
    assert folded("mul", Op("mul", (I, c(2**16)), i32), c(2**16)) == "0"
    assert folded("mul", I, c(1)) == "i"
    assert folded("mul", I, c(0)) == "0"
    assert folded("sub", I, I) == "0"
    assert folded("xor", I, I) == "0"
    assert folded("min", I, I) == "i"
    assert folded("floor_div", I, c(1)) == "i"
    assert folded("floor_div", I, c(0)) == "0"
    assert folded("rem", I, c(1)) == "0"
    assert folded("floor_div", c(0), I) == "0"
    assert folded("and", I, c(-1)) == "i"
    assert folded("and", U, Const(2**32 - 1, u32)) == "u"
    assert folded("or", I, c(0)) == "i"
    assert folded("shift_left", I, c(0)) == "i"
    assert folded("neg", Op("neg", (I,), i32)) == "i"
    assert folded("abs", Op("neg", (I,), i32)) == "abs(i)"
    assert folded("lt", I, I, dtype=bool_) == "False"
    assert folded("le", I, I, dtype=bool_) == "True"


def test_constants_wrap_as_they_would() -> None:
    low = -(2**31)
    assert folded("add", c(2**31 - 1), c(1)) == str(low)
    assert folded("floor_div", c(low), c(-1)) == str(low)
    assert folded("rem", c(low), c(-1)) == "0"
    assert folded("floor_div", c(-7), c(2)) == "-4"
    assert folded("rem", c(7), c(-3)) == "-2"
    assert folded("shift_left", c(1), c(32)) == "0"
    assert folded("shift_right", c(-5), c(99)) == "-1"
    assert folded("neg", Const(1, u8)) == "u8(255)"
    assert folded("mul", Const(100, i8), Const(3, i8)) == "i8(44)"


def test_float_identities_keep_signed_zeros_and_nan() -> None:
    assert folded("add", F, c(-0.0, f32)) == "f"
    assert folded("add", F, c(0.0, f32)) == "f + f32(0.0)"
    assert folded("sub", F, c(0.0, f32)) == "f"
    assert folded("sub", F, c(-0.0, f32)) == "f - f32(-0.0)"
    assert folded("mul", F, c(1.0, f32)) == "f"
    assert folded("mul", F, c(0.0, f32)) == "f * f32(0.0)"
    assert folded("sub", F, F) == "f - f"
    assert folded("div", F, F) == "f / f"
    assert folded("eq", F, F, dtype=bool_) == "f == f"
    assert folded("max", F, F) == "f"
    assert folded("div", F, c(4.0, f32)) == "f * f32(0.25)"
    assert folded("div", F, c(3.0, f32)) == "f / f32(3.0)"
    assert folded("div", F, c(2.0**-127, f32)) == "f * f32(1.7014118346046923e+38)"
    assert folded("div", F, c(2.0**127, f32)) == "f / f32(1.7014118346046923e+38)"
    assert folded("div", c(0.0, f32), c(0.0, f32)) == "f32(0.0) / f32(0.0)"
    assert folded("div", c(1.0, f32), c(3.0, f32)) == "f32(0.3333333432674408)"
    assert folded("mul", c(-0.0, f32), c(2.0, f32)) == "f32(-0.0)"
    assert folded("add", c(math.inf, f32), c(1.0, f32)) == "f32(inf)"
    half = Const(1 + 2**-10, f16)
    assert folded("mul", half, half) == "f16(1.001953125)"


def test_conditions() -> None:
    assert folded("and", B, c(True, bool_)) == "b"
    assert folded("and", B, c(False, bool_)) == "False"
    assert folded("or", c(False, bool_), B) == "b"
    assert folded("eq", B, c(False, bool_)) == "~b"
    less = Op("lt", (I, J), bool_)
    assert folded("not", less) == "i >= j"
    assert folded("not", Op("not", (B,), bool_)) == "b"
    assert folded("not", Op("lt", (F, F), bool_)) == "~(f < f)"
    assert folded("not", Op("eq", (F, F), bool_), dtype=bool_) == "f != f"
    assert folded("select", c(True, bool_), I, J) == "i"
    assert folded("select", B, I, I) == "i"


def test_an_operand_that_may_fault_stays() -> None:
    fault = Load("x", (I,), i32, True)
    assert folded("mul", fault, c(0)) == "checked(x)[i] * 0"
    assert folded("sub", fault, fault) == "checked(x)[i] - checked(x)[i]"
    assert folded("select", c(True, bool_), I, fault) == "select(True, i, checked(x)[i])"
    assert folded("mul", Load("x", (I,), i32, False), c(0)) == "0"


def test_casts() -> None:
    def cast(expr: Expr, dtype: DType) -> str:
        return dump_expr(fold_cast(Cast(expr, dtype)), i32)

    assert cast(I, i32) == "i"
    assert cast(c(300), u8) == "u8(44)"
    assert cast(Const(-1.5, f32), u8) == "u8(0)"
    assert cast(Const(1e300, f64), f32) == "f32(inf)"
    assert cast(Const(math.nan, f32), f16) == "cast(f32(nan:7ff8000000000000), f16)"
    assert cast(Cast(I, i64), i32) == "i"
    assert cast(Cast(I, f32), i32) == "cast(cast(i, f32), i32)"
    assert cast(Cast(I, f64), i32) == "i"
    assert cast(Cast(Var("h", bf16), f32), bf16) == "h"
    assert cast(Cast(F, bf16), f32) == "cast(cast(f, bf16), f32)"
    assert cast(Cast(B, i32), bool_) == "b"
