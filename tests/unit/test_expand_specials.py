"""Special cases of the scalar expansions, exact to the sign of zero: C99's annex F, and NumPy for division."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from poot.dtypes import DType, f32, f64, i8, i32, i64, u8, u16, u32, u64
from tests.unit.expand_support import Array, run

INF, NAN = math.inf, math.nan
FORMATS = pytest.mark.parametrize("dtype", [f32, f64], ids=str)

UNARY: dict[str, list[tuple[float, float]]] = {
    "recip": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN), (2.0, 0.5)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (-1.0, NAN), (NAN, NAN), (4.0, 0.5)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (1e4, INF), (-1e4, 0.0)],
    "exp2": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (INF, INF),
        (-INF, 0.0),
        (NAN, NAN),
        (1e4, INF),
        (-1e4, 0.0),
        (3.0, 8.0),
        (-140.0, 2.0**-140),
    ],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN), (1e4, INF), (-1e4, -1.0), (1e-40, 1e-40)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (-1e-40, NAN), (NAN, NAN)],
    "log2": [
        (1.0, 0.0),
        (0.0, -INF),
        (-0.0, -INF),
        (INF, INF),
        (-1.0, NAN),
        (NAN, NAN),
        (8.0, 3.0),
        (2.0**-140, -140.0),
    ],
    "log1p": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (-1.0, -INF),
        (INF, INF),
        (-INF, NAN),
        (-1.5, NAN),
        (NAN, NAN),
        (-1e-40, -1e-40),
    ],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-40, 1e-40), (-1e-40, -1e-40)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-40, 1.0)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (-1e-40, -1e-40)],
    "asin": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (1.5, NAN),
        (-1.5, NAN),
        (INF, NAN),
        (NAN, NAN),
        (1.0, math.pi / 2),
        (-1.0, -math.pi / 2),
    ],
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN), (NAN, NAN), (0.0, math.pi / 2), (-1.0, math.pi)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN), (-1e-40, -1e-40)],
    "sinh": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, INF),
        (-INF, -INF),
        (NAN, NAN),
        (1e4, INF),
        (-1e4, -INF),
        (-1e-40, -1e-40),
    ],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN), (-1e4, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (50.0, 1.0), (-1e-40, -1e-40)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-1e-40, -1e-40)],
    "acosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-INF, NAN), (NAN, NAN)],
    "atanh": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (1.0, INF),
        (-1.0, -INF),
        (1.5, NAN),
        (-1.5, NAN),
        (INF, NAN),
        (NAN, NAN),
        (-1e-40, -1e-40),
    ],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (7.0, 1.0), (-7.0, -1.0)],
    "sign": [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1.0), (-3.0, -1.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
}
CLASSES: dict[str, Sequence[float]] = {
    "is_finite": (0.0, -0.0, 1e-40, 1.0, -3e38),
    "is_inf": (INF, -INF),
    "is_nan": (NAN,),
}


def same(result: Array, expected: Array) -> Array:
    """Equal to the sign of zero, any NaN like any other."""
    both = np.isnan(result) & np.isnan(expected)
    return both | ((result == expected) & (np.signbit(result) == np.signbit(expected)))


@FORMATS
@pytest.mark.parametrize("name", UNARY)
def test_special_cases(name: str, dtype: DType) -> None:
    arguments, expected = np.array(UNARY[name]).T.astype(dtype.dtype)
    result = run(name, arguments, dtype=dtype)
    wrong = ~same(result, expected)
    assert not wrong.any(), [*zip(arguments[wrong], result[wrong], expected[wrong], strict=True)]


@FORMATS
def test_classes_are_told_by_bits(dtype: DType) -> None:
    arguments = np.array([argument for values in CLASSES.values() for argument in values], dtype.dtype)
    for name, members in CLASSES.items():
        found = run(name, arguments, dtype=dtype)
        assert found.dtype == np.bool_
        assert np.array_equal(found, [any(a is m for m in members) for v in CLASSES.values() for a in v]), name


@FORMATS
def test_copysign(dtype: DType) -> None:
    values = np.array([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN], dtype.dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    assert np.array_equal(np.signbit(run("copysign", x, y, dtype=dtype)), np.signbit(y))
    assert same(run("copysign", x, y, dtype=dtype), np.copysign(x, y)).all()


@FORMATS
def test_atan2_on_axes_and_diagonals(dtype: DType) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN], dtype.dtype)
    y, x = (a.ravel() for a in np.meshgrid(values, values))
    result = run("atan2", y, x, dtype=dtype)
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(dtype.dtype)
    assert np.array_equal(
        np.signbit(result), np.signbit(expected) & ~np.isnan(expected) | np.signbit(result) & np.isnan(result)
    )
    assert np.allclose(result, expected, rtol=np.finfo(dtype.dtype).eps * 2, atol=0, equal_nan=True)


# --- powers ---------------------------------------------------------------------------------------------------------

EXPONENTS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    1.5,
    -2.5,
    1e-40,
    -1e-40,
    1e30,
    -1e30,
    INF,
    -INF,
    NAN,
)
BASES = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 4.0, 1e-40, -1e-40, INF, -INF, NAN)


def c99_pow(x: float, y: float) -> float:
    """What C99 says of pow, through Python's (which follows it, and raises where C returns infinity or NaN)."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INF if x < 0 and y % 2 == 1 else INF
    except ValueError:
        if x == 0:
            return math.copysign(INF, x) if y % 2 == 1 else INF
        return NAN


@FORMATS
def test_pow_special_cases(dtype: DType) -> None:
    x, y = (a.ravel() for a in np.meshgrid(np.array(BASES, dtype.dtype), np.array(EXPONENTS, dtype.dtype)))
    result = run("pow", x, y, dtype=dtype)
    with np.errstate(all="ignore"):
        expected = np.array([c99_pow(*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]).astype(dtype.dtype)
        near = np.abs(result - expected) <= np.spacing(np.abs(expected))
    ordinary = np.isin(np.abs(x), [2.0, 0.5, 4.0, 1e-40]) & np.isfinite(y)
    wrong = ~(same(result, expected) | (near & ordinary & (expected != 0)))
    assert not wrong.any(), [*zip(x[wrong], y[wrong], result[wrong], expected[wrong], strict=True)]


def test_the_parity_of_great_exponents() -> None:
    y = np.array([2.0**23 + 1, 2.0**24 - 1, 2.0**24, 2.0**24 + 2, 2.0**30, -(2.0**24) + 1], np.float32)
    assert run("pow", np.full_like(y, -1.0), y).tolist() == [-1.0, -1.0, 1.0, 1.0, 1.0, -1.0]


@pytest.mark.parametrize("dtype", [u8, u16, u32, u64, i8, i32, i64], ids=str)
def test_integer_pow(dtype: DType) -> None:
    signed = dtype.kind == "int"
    bases = [0, 1, 2, 3, 7, 10, dtype.max] + ([-1, -2, -3, dtype.min] if signed else [])
    exponents = [0, 1, 2, 3, 5, 8, 31, 64, 101] + ([-1, -2, -101, dtype.min] if signed else [])
    x, y = (a.ravel() for a in np.meshgrid(np.array(bases, dtype.dtype), np.array(exponents, dtype.dtype)))
    expected = [integer_pow(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    wrapped = np.array([value % 2**dtype.bits for value in expected], np.uint64).astype(dtype.dtype)
    assert np.array_equal(run("pow", x, y, dtype=dtype), wrapped)


def integer_pow(x: int, y: int) -> int:
    if y >= 0:
        return x**y
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


# --- division -------------------------------------------------------------------------------------------------------


def dividends(dtype: DType) -> list[tuple[Array, Array]]:
    random = np.random.default_rng(5)
    word = np.dtype(f"u{dtype.itemsize}")
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -1.5, INF, -INF, NAN, 0.1, 0.3, 7.0, 1e-40, -1e-40, 1e30, -1e30]
    corners = [a.ravel() for a in np.meshgrid(*[np.array(values, dtype.dtype)] * 2)]
    patterns = [random.integers(0, 2**dtype.bits, 4000, dtype=word).view(dtype.dtype) for _ in range(2)]
    subnormal = [random.integers(0, 2 ** (dtype.bits // 2 + 8), 2000).astype(word).view(dtype.dtype) for _ in range(2)]
    usual = [(random.normal(size=4000) * scale).astype(dtype.dtype) for scale in (100, 1)]
    whole = [random.integers(-50, 50, 4000).astype(dtype.dtype) for _ in range(2)]
    return [(a, b) for a, b in (corners, patterns, subnormal, usual, whole)]


@FORMATS
@pytest.mark.parametrize("name", ["rem", "floor_div"])
def test_float_division_is_numpys_bit_for_bit(name: str, dtype: DType) -> None:
    reference = {"rem": np.remainder, "floor_div": np.floor_divide}[name]
    for x, y in dividends(dtype):
        with np.errstate(all="ignore"):
            expected = reference(x, y)
        wrong = ~same(run(name, x, y, dtype=dtype), expected)
        assert not wrong.any(), [*zip(x[wrong], y[wrong], expected[wrong], strict=True)][:5]


@pytest.mark.parametrize("dtype", [u32, u64], ids=str)
def test_mulhi(dtype: DType) -> None:
    random = np.random.default_rng(6)
    a, b = (np.append(random.integers(0, dtype.max, 500, dtype=dtype.dtype), dtype.dtype.type(dtype.max)) for _ in "ab")
    expected = [int(p) * int(q) >> dtype.bits for p, q in zip(a, b, strict=True)]
    assert run("mulhi", a, b, dtype=dtype).tolist() == expected


def test_sign_of_integers() -> None:
    assert run("sign", np.array([-5, 0, 7], np.int32), dtype=i32).tolist() == [-1, 0, 1]
    assert run("sign", np.array([0, 7, 255], np.uint8), dtype=u8).tolist() == [0, 1, 1]
