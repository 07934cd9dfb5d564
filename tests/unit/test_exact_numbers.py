"""Functions at the edges of dtypes: differences, spans and orders that do not fit the dtype itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import bf16, f16, f32, f64
from poot.trace import ops
from tests.unit.ops_support import check, run

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_compared_exactly(dtype: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([high, high, low, low, high, 5], dtype)
    b = np.array([high, high - 1, low, low + 1, low, 4], dtype)
    for tolerance, expected in ((0, [1, 0, 1, 0, 0, 0]), (1, [1, 1, 1, 1, 0, 1]), (-1, [0] * 6), (1e30, [1] * 6)):
        found = run(lambda x, y, atol=tolerance: ops.isclose(x, y, rtol=0, atol=atol), a, b)
        assert found.tolist() == [bool(item) for item in expected]
    assert not run(lambda x, y: ops.allclose(x, y, rtol=0, atol=0), a, b)
    assert run(lambda x: ops.isclose(x, 5, rtol=0, atol=0), a).tolist() == (a == 5).tolist()


def test_a_relative_tolerance_of_integers() -> None:
    a, b = np.array([100, 101, 110, 111, -110], np.int32), np.array([100, 100, 100, 100, -100], np.int32)
    assert run(lambda x, y: ops.isclose(x, y, rtol=0.1, atol=0), a, b).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace_over_the_whole_range(dtype: Any, endpoint: bool) -> None:
    low, high = np.array([dtype.min, 0, 1], dtype.dtype), np.array([dtype.max, dtype.max, 2], dtype.dtype)
    found = run(lambda a, b: ops.linspace(a, b, 7, endpoint=endpoint), low, high)
    assert found.dtype == dtype.dtype
    assert np.isfinite(found.astype(np.float64)).all()
    exact = np.linspace(low.astype(np.longdouble), high.astype(np.longdouble), 7, endpoint=endpoint)
    size = np.maximum(abs(low.astype(np.longdouble)), abs(high.astype(np.longdouble)))
    assert (
        abs(found.astype(np.longdouble) - exact)
        <= float(np.finfo(found.dtype).eps if dtype is not bf16 else 2**-7) * size
    ).all()


def test_arange_over_the_whole_range() -> None:
    assert ops.arange(-3e38, 3.3e38, 3e38).tolist() == np.float32([-3e38, 0, 3e38]).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_searchsorted_puts_nan_last(side: Any, dtype: Any) -> None:
    for row in ([1, 2, np.nan], [np.nan, np.nan], [1, 2, np.inf], [-np.inf, 1, np.inf, np.nan, np.nan], []):
        values = np.array([np.nan, -np.inf, 0, 1, 2, 3, np.inf], dtype)
        found = run(lambda x, y: ops.searchsorted(x, y, side=side), np.array(row, dtype), values)
        assert found.tolist() == np.searchsorted(np.array(row, dtype), values, side=side).tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_fmod_of_the_least_integer(dtype: Any) -> None:
    least = np.iinfo(dtype).min
    a, b = (
        np.array([least, least, 127, 5, -5, least, 7], dtype),
        np.array([3, -3, least, least, least, least, 0], dtype),
    )
    with np.errstate(divide="ignore"):
        check(ops.fmod, np.fmod(a, b), a, b)


def test_nextafter_from_infinity() -> None:
    a, b = np.float32([np.inf, -np.inf, np.inf, np.nan]), np.float32([-np.inf, np.inf, np.inf, 1])
    check(ops.nextafter, np.nextafter, a, b)
