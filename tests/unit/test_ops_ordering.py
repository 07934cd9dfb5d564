"""Sorting, positions, running sums and updates at integer arrays, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import bf16, bool_, i8, i32, u8, u32
from poot.errors import ArgumentError, DTypeError, IndexFault
from poot.trace import ops
from tests.unit.ops_support import check, run, tracer

RNG = np.random.default_rng(0)
X = RNG.integers(0, 6, (3, 4, 5)).astype(np.float32)
S = np.float32([3, np.nan, -0.0, 1, 0.0, np.inf, 1, -np.inf])


def stable(x: Any, axis: int) -> Any:
    return np.argsort(x, axis, kind="stable").astype(np.int32)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_sort(axis: int) -> None:
    check(lambda x: ops.sort(x, axis), lambda x: np.sort(x, axis), X)
    check(lambda x: ops.argsort(x, axis), lambda x: stable(x, axis), X)
    check(lambda x: ops.argsort(x, axis, descending=True), lambda x: stable(-x, axis), X)
    check(lambda x: x.argsort(axis), lambda x: stable(x, axis), X.astype(np.int8))


def test_sort_of_special_values() -> None:
    check(lambda x: ops.argsort(x), np.int32([7, 2, 4, 3, 6, 0, 5, 1]), S)
    check(lambda x: ops.argsort(x, descending=True), np.int32([1, 5, 0, 3, 6, 2, 4, 7]), S)
    check(lambda x: ops.sort(x, None), lambda x: np.sort(x, None), X)
    check(ops.sort, np.sort, np.array([True, False, True]))


def test_top_k() -> None:
    values, places = run(lambda x: ops.top_k(x, 3), S)
    np.testing.assert_array_equal(values, np.float32([np.nan, np.inf, 3]))
    assert places.tolist() == [1, 5, 0]
    order = stable(-X, 1)[:, :2]
    check(lambda x: ops.top_k(x, 2, axis=1), (np.take_along_axis(X, order, 1), order), X)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9])
def test_searchsorted(side: Any, count: int) -> None:
    row = np.sort(RNG.integers(0, 5, count)).astype(np.float32)
    values = np.arange(-1, 7, dtype=np.float32).reshape(2, 4) - np.float32(0.5) * (np.arange(4) % 2).astype(np.float32)
    check(
        lambda r, v: ops.searchsorted(r, v, side=side),
        lambda r, v: np.searchsorted(r, v, side).astype(np.int32),
        row,
        values,
    )


def test_positions_of_extrema() -> None:
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            for name in ("argmax", "argmin"):
                check(
                    lambda x, n=name, a=axis, k=keepdims: getattr(ops, n)(x, a, keepdims=k),
                    lambda x, n=name, a=axis, k=keepdims: getattr(np, n)(x, a, keepdims=k).astype(np.int32),
                    X,
                )
    check(lambda x: [x.argmax(), x.argmin()], [np.int32(1), np.int32(1)], S)
    check(lambda x: x.argmax(0), np.int32([0, 0]), np.array([[True, False], [True, False]]))


def test_running_results() -> None:
    for axis in (0, 1, -1, None):
        check(
            lambda x, a=axis: [x.cumsum(a), x.cumprod(a)], lambda x, a=axis: [x.cumsum(a), x.cumprod(a)], X, rtol=1e-5
        )
    check(lambda x: [ops.cummax(x, 1), ops.cummin(x)], [np.maximum.accumulate(X, 1), np.minimum.accumulate(X, 2)], X)
    check(lambda x: x.cumsum(), lambda x: x.cumsum().astype(np.int32), np.full(300, 100, np.int8))
    check(lambda x: ops.cummax(x), np.array([False, True, True]), np.array([False, True, False]))
    check(
        lambda x: ops.cumulative_sum(x, axis=1, include_initial=True),
        lambda x: np.cumulative_sum(x, axis=1, include_initial=True),
        X,
    )
    check(ops.cumulative_prod, np.cumulative_prod, X[0, 0])
    assert [tracer(d[3]).cumsum().dtype for d in (bool_, i8, u8, u32, bf16)] == [i32, i32, u32, u32, bf16]


def test_diff() -> None:
    for n in (0, 1, 2, 7):
        check(lambda x, n=n: ops.diff(x, n=n), lambda x, n=n: np.diff(x, n), X)
    check(lambda x: ops.diff(x, axis=0), lambda x: np.diff(x, axis=0), X > 2)


# --- updates at integer arrays ----------------------------------------------------------------------------------------

INDICES = np.int32([[0, 2], [-1, 2]])
KEYS: list[Any] = [
    lambda i: (slice(None), i),
    lambda i: (i % 3,),
    lambda i: (i % 3, i),
    lambda i: (0, slice(None), i),
    lambda i: (0, ..., i),
    lambda i: (slice(None), i, slice(1, 4)),
    lambda i: (slice(None, None, -2), i, slice(None, None, 2)),
    lambda i: (None, 1, i, None),
    lambda i: (slice(2, 1), i),
]
UFUNCS = {"set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "min": np.minimum}


@pytest.mark.parametrize("number", range(len(KEYS)))
@pytest.mark.parametrize("name", UFUNCS)
def test_writing_at_integer_arrays(number: int, name: str) -> None:
    key, ufunc = KEYS[number], UFUNCS[name]
    part = X[key(INDICES)]
    values = np.arange(part.size, dtype=np.float32).reshape(part.shape) % 7

    def expected(x: Any, i: Any, v: Any) -> Any:
        result = x.copy()
        if ufunc is None:
            result[key(i)] = v
        else:
            ufunc.at(result, key(i), v)
        return result

    check(lambda x, i, v: getattr(x.at[key(i)], name)(v), expected, X, INDICES, values)
    check(lambda x, i: getattr(x.at[key(i)], name)(2), lambda x, i: expected(x, i, np.float32(2)), X, INDICES)


def test_writing_at_static_lists() -> None:
    check(lambda x: x.at[[0, -1]].set(0), lambda x: x * np.float32([0, 1, 0])[:, None, None], X)
    check(lambda x: x.at[[True, False, True]].set(0), lambda x: x * np.float32([0, 1, 0])[:, None, None], X)


def test_the_last_of_several_values_stays() -> None:
    x, i = np.zeros(2, np.float32), np.int32([0, 0, 0])
    check(lambda x, i: x.at[i].set([5, 6, 7]), np.float32([7, 0]), x, i)
    check(lambda x, i: x.at[i].add(1), np.float32([3, 0]), x, i)


def test_modes_of_updates() -> None:
    x, i = np.zeros(3, np.float32), np.int32([-4, -1, 3, 1])
    check(lambda x, i: x.at[i].set(1, mode="drop"), np.float32([0, 1, 1]), x, i)
    check(lambda x, i: x.at[i].add(1, mode="clip"), np.float32([1, 1, 2]), x, i)
    check(lambda x, i: x.at[i].add(1, mode="wrap"), np.float32([1, 1, 2]), x, i)
    with pytest.raises(IndexFault):
        run(lambda x, i: x.at[i].set(1), x, i)


def test_updates_of_bools() -> None:
    x, i = np.array([True, False, False]), np.int32([0, 1, 1])
    check(lambda x, i: x.at[i].set(False), np.array([False] * 3), x, i)
    check(lambda x, i: x.at[i].add(True), np.array([True, True, False]), x, i)
    check(lambda x, i: x.at[i].multiply(False), np.array([False] * 3), x, i)
    check(lambda x, i: x.at[i].max(True), np.array([True, True, False]), x, i)
    with pytest.raises(DTypeError):
        tracer(bool_[3]).at[[0]].subtract(True)


def test_diff_any_number_of_times() -> None:
    with pytest.raises(ArgumentError, match="diff: n: -1 is not valid, expected 0 or more"):
        run(lambda x: ops.diff(x, n=-1), X)
    check(lambda x: ops.diff(x, n=2**40), np.zeros((3, 4, 0), np.float32), X)
