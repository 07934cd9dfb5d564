"""Elementwise operations and promotion, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import ALL, INTEGERS, DType, bf16, bool_, concrete, f16, f32, f64, i8, i32, promote, u8
from poot.trace import ops
from tests.unit.ops_support import check, primitives, run, tracer
from tools import promotion_table

A = np.float32([-2.5, -1, -0.0, 0.0, 0.5, 3, np.inf, -np.inf, np.nan])
B = np.float32([2, -1, 0.0, -0.0, 4, np.nan, 1, -np.inf, 2])
I = np.int32([-7, -1, 0, 5, 2**31 - 1])
J = np.int32([2, -3, 4, -5, 1])

UNARY = ["negative", "positive", "abs", "square", "sqrt", "exp", "log", "sin", "cos", "tanh", "floor", "isfinite"]
UNARY += ["isnan", "isinf", "reciprocal", "logical_not"]
BINARY = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "equal", "not_equal", "less"]
BINARY += ["less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check(getattr(ops, name), getattr(np, name), A)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    check(getattr(ops, name), getattr(np, name), A, B)
    check(getattr(ops, name), getattr(np, name), A[:6].reshape(2, 3), B[:2, None])


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum"])
def test_integers(name: str) -> None:
    check(getattr(ops, name), getattr(np, name), I, J)


@pytest.mark.parametrize("name", ["exp", "sqrt", "divide", "isfinite"])
def test_integers_become_f32(name: str) -> None:
    arguments = (np.int32([0, 5]), np.int32([4, -3]))[: 2 if name == "divide" else 1]
    check(getattr(ops, name), lambda *xs: getattr(np, name)(*(x.astype(np.float32) for x in xs)), *arguments)


def test_erf_and_rsqrt() -> None:
    check(ops.erf, np.float32([0.5204999, -0.8427008, 0]), np.float32([0.5, -1, 0]))
    check(ops.rsqrt, np.float32([0.5, 2]), np.float32([4, 0.25]))


def test_powers() -> None:
    x = np.float32([-2, 0.5, 3])
    for exponent in (1, 2, 3, 5, 16):
        check(lambda x, n=exponent: x**n, lambda x, n=exponent: x**n, x)
        check(lambda x, n=exponent: x**n, lambda x, n=exponent: x**n, J)
    assert primitives(lambda x: x**2, x) == ["mul"]
    assert primitives(lambda x: x**7, x) == ["mul"] * 4
    assert primitives(lambda x: x**17, x) == ["pow"]
    check(lambda x: (x**0, x**-2, 2**x, abs(x) ** 0.5), lambda x: (x**0, x**-2, 2**x, abs(x) ** 0.5), x)
    check(lambda x, y: ops.pow(x, y), lambda x, y: x**y, np.int32([2, 3, -2]), np.int32([5, 0, 3]))


def test_clip_and_where() -> None:
    check(lambda x: ops.clip(x, -1, 1), lambda x: np.clip(x, -1, 1), A)
    check(lambda x: ops.clip(x, max=0.5), lambda x: np.minimum(x, np.float32(0.5)), A)
    check(lambda x: ops.clip(x), lambda x: x, A)
    check(lambda x, y: ops.where(x > 0, x, y), lambda x, y: np.where(x > 0, x, y), A, B)
    check(lambda x: ops.where(x, x, 0), lambda x: np.where(x != 0, x, np.float32(0)), A)
    check(lambda c, x: ops.where(c, x, -1), lambda c, x: np.where(c, x, np.int32(-1)), I[:, None] > 0, J)
    check(lambda x: ops.where(True, x, 0), lambda x: x, A)


def test_logic_takes_any_dtype() -> None:
    check(ops.logical_and, lambda x, y: (x != 0) & (y != 0), A, B)
    check(lambda x: ops.logical_or(x, False), lambda x: x != 0, I)
    check(ops.bitwise_invert, np.invert, np.uint8([0, 255]))


def test_the_documented_table_is_fresh() -> None:
    page = promotion_table.PAGE.read_text("utf-8")
    assert promotion_table.START + promotion_table.table() + promotion_table.END in page


# --- promotion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ALL)
@pytest.mark.parametrize("second", ALL)
def test_pairs_promote_by_the_lattice(first: DType, second: DType) -> None:
    x = tracer(first[2])
    y = x.builder.input("y", second[2])
    expected = concrete(promote([first, second]))
    assert ops.add(x, y).dtype is expected
    assert ops.where(True, x, y).dtype is expected
    assert (x == y).dtype is bool_
    assert (x / y).dtype is (expected if expected.is_float else f32)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (bool_, True, bool_),
        (bool_, 1, i32),
        (bool_, 1.0, f32),
        (u8, 1, u8),
        (i8, True, i8),
        (i8, 1.0, f32),
        (i32, np.int64(1), i32),
        (i32, np.float64(1), f32),
        (i32, np.bool_(True), i32),
        (bf16, 1.0, bf16),
        (f16, np.float64(1), f16),
        (f16, 1, f16),
        (f16, np.float32(1), f32),
        (i8, np.int32(1), i32),
        (f32, np.float16(1), f32),
        (f64, 1.0, f64),
    ],
)
def test_numbers_are_weak_and_numpys_other_scalars_are_not(dtype: DType, number: Any, expected: DType) -> None:
    x = tracer(dtype[2])
    assert ops.add(x, number).dtype is expected
    assert ops.add(number, x).dtype is expected


def test_zero_dimensional_arrays_are_strong() -> None:
    check(lambda x, y: x + y, lambda x, y: x + y, np.float16([1]), np.array(2, np.float32))
    check(lambda x, y: y < x, lambda x, y: y < x, np.float16([1]), np.array(2, np.float64))


@pytest.mark.parametrize("number", [np.float64(2), np.int64(2)])
def test_comparing_a_numpy_scalar_leaves_it_weak(number: Any) -> None:
    for compare in (lambda x: number < x, lambda x: number == x, lambda x: x < number):
        assert primitives(compare, np.float16([1, 2])) == [primitives(compare, np.float16([1, 2]))[0]]
    check(lambda x: number < x, lambda x: x > 2, np.float16([1, 2, 3]))


def test_a_scalars_value_is_rounded_once() -> None:
    x = np.zeros(1, bf16.dtype)
    assert run(lambda x: x + 1.00390625001, x).astype(np.float32)[0] == np.float32(1.0078125)
    assert run(lambda x: x + np.float32(16777217), np.zeros(1, np.float32))[0] == 16777216


@pytest.mark.parametrize("dtype", INTEGERS)
def test_comparisons_of_integers(dtype: DType) -> None:
    x = np.array([0, 1, dtype.max], dtype.dtype)
    check(lambda x: [x > 0, x == int(dtype.max)], lambda x: [x > 0, x == dtype.max], x)
