"""Composed functions of floats, rounding and bits, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import bf16, f16, f32, i8, i32, i64, u32
from poot.errors import ArgumentError, DTypeError, FeatureError
from poot.trace import ops
from tests.unit.ops_support import check, run, tracer

RNG = np.random.default_rng(0)
WIDE = np.concatenate(
    [
        RNG.standard_normal(300) * 3,
        RNG.uniform(-1, 1, 200),
        np.geomspace(1e-30, 1e30, 200),
        -np.geomspace(1e-30, 1e30, 200),
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 88.9, -88.9, 19.99, 20.01],
    ]
).astype(np.float32)

#: Units in the last place of f32 within which each lies of the exact value.
FUNCTIONS = {
    "exp2": 2,
    "log2": 4,
    "log10": 4,
    "tan": 6,
    "arcsin": 5,
    "arccos": 5,
    "arctan": 4,
    "sinh": 8,
    "cosh": 8,
    "arcsinh": 6,
    "arccosh": 6,
    "arctanh": 6,
    "expm1": 2,
    "log1p": 2,
    "ceil": 0,
    "trunc": 0,
    "rint": 0,
    "sign": 0,
    "floor": 0,
}


def assert_ulps(actual: Any, expected: Any, ulps: float) -> None:
    """Within some units in the last place of f32, with equal signs of zero, infinities and NaN."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(rounded))
        finite = np.isfinite(rounded) & np.isfinite(actual)
        np.testing.assert_array_equal(actual[~finite & ~np.isnan(actual)], rounded[~finite & ~np.isnan(actual)])
        error = np.abs(actual[finite].astype(np.float64) - expected[finite])
        unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(np.float32).tiny)).astype(np.float64)
        worst = (error / unit).max()
    assert worst <= max(ulps, 0.5), worst
    zero = (rounded == 0) & (actual == 0)
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(WIDE.astype(np.float64))
    if name == "sign":
        expected = np.where(WIDE == 0, WIDE, expected)  # zeros keep their sign, which NumPy drops
    if name == "tan":
        keep = np.abs(WIDE) < 1e5
        assert_ulps(run(ops.tan, WIDE[keep]), expected[keep], FUNCTIONS[name])
    else:
        assert_ulps(run(getattr(ops, name), WIDE), expected, FUNCTIONS[name])


PAIRS = {"hypot": 4, "logaddexp": 4, "copysign": 0, "fmod": 0, "arctan2": 3}


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two(name: str) -> None:
    a, b = RNG.permutation(WIDE), RNG.permutation(WIDE)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a.astype(np.float64), b.astype(np.float64))
    ulps = PAIRS[name]
    if name == "logaddexp":
        keep = ~(np.abs(expected) < 0.1)  # near zero the sum of the two terms cancels
        assert_ulps(run(ops.logaddexp, a, b)[keep], expected[keep], ulps)
    else:
        assert_ulps(run(getattr(ops, name), a, b), expected, ulps)


def test_halves_are_rounded_once() -> None:
    x = np.linspace(-3, 3, 50).astype(np.float16)
    for name in ("sinh", "arctan", "exp2"):
        expected = getattr(np, name)(x.astype(np.float64)).astype(np.float16)
        check(getattr(ops, name), expected, x, rtol=1e-3)
    assert ops.cosh(tracer(bf16[2])).dtype is bf16
    assert ops.hypot(tracer(i32[2]), 1).dtype is f32


def test_rounding() -> None:
    x = np.float32([0.5, 1.5, -2.5, 2.675, -0.2, 1234.5])
    check(lambda x: [round(x), x.round(2), x.round(-2)], lambda x: [np.round(x), x.round(2), x.round(-2)], x)
    check(lambda x: [ops.round(x), ops.ceil(x), ops.trunc(x)], lambda x: [x, x, x], np.int32([3, -4]))
    with pytest.raises(ArgumentError, match="round: decimals: -1 is not valid, expected at least 0 for integers"):
        ops.round(tracer(i32[2]), -1)


def test_rounding_of_numbers_that_are_too_large_to_be_scaled() -> None:
    x = np.array([3e38, -3e38, 1e37, np.inf, -np.inf, np.nan, -0.0, 1234.5], np.float32)
    for decimals in (2, 38):
        check(
            lambda x, d=decimals: ops.round(x, d),
            lambda x, d=decimals: x.astype(np.float64).round(d).astype(np.float32),
            x,
        )


def test_bits() -> None:
    x = np.int32([1, -8, 2**31 - 1, 0])
    check(lambda x: [x << 3, x >> 1, 1 << x[:1], 64 >> x[:1]], lambda x: [x << 3, x >> 1, 1 << x[:1], 64 >> x[:1]], x)
    check(ops.bitwise_count, np.int32([1, 29, 31, 0]), x)
    check(ops.count_leading_zeros, np.int32([31, 0, 1, 32]), x)
    check(lambda x: ops.bitcast(x, f32), lambda x: x.view(np.float32), np.int32([0x3F800000, 0]))
    check(lambda x: ops.bitcast(x, u32), lambda x: x.view(np.uint32), np.float32([1, -0.0]))
    check(ops.signbit, np.signbit, np.float32([1, -1, 0.0, -0.0, -np.nan, np.inf]))
    check(ops.signbit, np.array([False, True]), np.int8([3, -3]))
    for call in (lambda x: ops.bitcast(x, i8), lambda x: x << 1, ops.bitwise_count):
        with pytest.raises(DTypeError):
            call(tracer(f32[2]))


def test_integer_fmod() -> None:
    a, b = np.int32([7, -7, 7, -7, 5]), np.int32([3, 3, -3, -3, 2])
    check(ops.fmod, np.fmod, a, b)
    check(ops.fmod, np.fmod, np.uint8([7, 200]), np.uint8([3, 9]))


def test_closeness() -> None:
    a = np.float32([1, 1, np.inf, np.inf, np.nan, 0, 1e-9])
    b = np.float32([1.000001, 1.1, np.inf, -np.inf, np.nan, 1e-9, 0])
    check(ops.isclose, np.isclose, a, b)
    check(lambda a, b: ops.isclose(a, b, 0.2, 0, equal_nan=True), lambda a, b: np.isclose(a, b, 0.2, 0, True), a, b)
    x = np.float32([1, np.nan, np.inf, -np.inf])
    check(ops.nan_to_num, np.nan_to_num, x)
    check(lambda x: ops.nan_to_num(x, 5, posinf=6), lambda x: np.nan_to_num(x, nan=5, posinf=6), x)
    check(ops.nan_to_num, lambda x: x, np.int32([1]))


def test_nextafter() -> None:
    a = np.float32([0, -0.0, 1, 1, -1, np.inf, 1e-45, np.nan, 2, 3.4e38])
    b = np.float32([1, -1, 2, 0, 1, 0, -1, 1, 2, np.inf])
    found = run(ops.nextafter, a, b)
    np.testing.assert_array_equal(found.view(np.int32)[:7], np.nextafter(a, b).view(np.int32)[:7])
    np.testing.assert_array_equal(found, np.nextafter(a, b))
    check(ops.nextafter, np.nextafter, a[2:5].astype(np.float16), b[2:5].astype(np.float16), rtol=0, atol=0)


def test_questions_about_dtypes() -> None:
    x = tracer(f32[2])
    assert (ops.result_type(x, f16, 1), ops.result_type(i8, 2.0), ops.result_type(1, 2)) == (f32, f32, i32)
    assert ops.result_type(np.int16(3), u32) is i64
    assert (ops.can_cast(i8, f32), ops.can_cast(f32, i8), ops.can_cast(x, "f64")) == (True, False, True)
    assert ops.isdtype(f32, "real floating")
    assert ops.isdtype(i8, ("bool", i8))
    assert not ops.isdtype(u32, "signed integer")
    info = ops.finfo(bf16)
    assert (info.bits, info.eps, info.dtype) == (16, 2.0**-7, bf16)
    assert ops.finfo(x).smallest_normal == float(np.finfo(np.float32).smallest_normal)
    assert (ops.iinfo("i8").min, ops.iinfo(u32).max) == (-128, 2**32 - 1)
    for call in (lambda: ops.finfo(i8), lambda: ops.iinfo(f32)):
        with pytest.raises(DTypeError):
            call()


def test_what_depends_on_values_is_refused_by_name() -> None:
    with pytest.raises(FeatureError, match="poot has no operation") as caught:
        ops.unique_values  # type: ignore[attr-defined]
    assert caught.value.remedy.startswith("the shape of its result depends on values")


def test_shapes_through_numpy() -> None:
    x = tracer(f32[2, 3])
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)
