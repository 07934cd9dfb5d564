"""Creation, manipulation, reductions and indexing, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.dtypes import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u32
from poot.errors import IndexFault
from poot.trace import ops
from poot.trace.dispatch import tracing
from tests.unit.ops_support import check, primitives, run, tracer

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
N = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


TWO, THREE = np.int32([0, 1]), np.int32([0, 1, 2])


def made(function: Any) -> Any:
    """What a function makes without operands, inside a trace."""

    def inside(x: Any) -> Any:
        with tracing(x.builder):
            return function()

    return run(inside, np.zeros((), np.float32))


# --- creation ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: ops.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (lambda: ops.zeros(3, i32), np.zeros(3, np.int32)),
        (lambda: ops.ones((2,), dtype=bool_), np.ones(2, np.bool_)),
        (lambda: ops.full((2, 2), 7), np.full((2, 2), 7, np.int32)),
        (lambda: ops.full((2, 2), 7, dtype="f16"), np.full((2, 2), 7, np.float16)),
        (lambda: ops.full((), True), np.array(True)),
        (lambda: ops.empty((0, 2)), np.zeros((0, 2), np.float32)),
        (lambda: ops.arange(4), np.arange(4, dtype=np.int32)),
        (lambda: ops.arange(2, 9, 3), np.arange(2, 9, 3, dtype=np.int32)),
        (lambda: ops.arange(5, 0, -2), np.arange(5, 0, -2, dtype=np.int32)),
        (lambda: ops.arange(5, 0, -2, dtype=u8), np.arange(5, 0, -2, dtype=np.uint8)),
        (lambda: ops.arange(0), np.arange(0, dtype=np.int32)),
        (lambda: ops.arange(3, 1), np.arange(0, dtype=np.int32)),
        (lambda: ops.arange(0.0, 1.0, 0.25), np.float32([0, 0.25, 0.5, 0.75])),
        (lambda: ops.arange(3, dtype=f32), np.float32([0, 1, 2])),
        (lambda: ops.arange(3, dtype=f16), np.float16([0, 1, 2])),
        (lambda: ops.arange(2**33, 2**33 + 2, dtype=i64), np.int64([2**33, 2**33 + 1])),
        (lambda: ops.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (lambda: ops.linspace(-1.0, 2, 4, endpoint=False), np.linspace(-1, 2, 4, False, dtype=np.float32)),
        (lambda: ops.linspace(3, 4, 1), np.float32([3])),
        (lambda: ops.linspace(3, 4, 0), np.zeros(0, np.float32)),
        (lambda: ops.linspace(0, 1, 3, dtype=f64), np.linspace(0, 1, 3)),
        (lambda: ops.eye(3), np.eye(3, dtype=np.float32)),
        (lambda: ops.eye(2, 4, k=1, dtype=i32), np.eye(2, 4, 1, dtype=np.int32)),
        (lambda: ops.asarray(2), np.array(2, np.int32)),
        (lambda: ops.asarray(True), np.array(True)),
        (lambda: ops.asarray(2.7, dtype=i32), np.array(2, np.int32)),
        (lambda: ops.asarray([[1, 2], [3, 4]]), np.int32([[1, 2], [3, 4]])),
        (lambda: ops.asarray([1, 2.5, True]), np.float32([1, 2.5, 1])),
        (lambda: ops.asarray([5, 9, 1]), np.int32([5, 9, 1])),
        (lambda: ops.asarray([0, 3, 6, 9]), np.int32([0, 3, 6, 9])),
        (lambda: ops.asarray([-0.0, 0.0]), np.float32([-0.0, 0.0])),
        (lambda: ops.asarray([]), np.zeros(0, np.float32)),
        (lambda: ops.asarray([[], []]), np.zeros((2, 0), np.float32)),
        (lambda: ops.asarray([np.float16(1), np.float16(2)]), np.float16([1, 2])),
        (lambda: ops.asarray([1, 2], dtype=f16), np.float16([1, 2])),
        (lambda: ops.asarray(np.float32(3)), np.array(3, np.float32)),
        (lambda: ops.asarray([ops.ones((2,)), ops.zeros((2,))]), np.float32([[1, 1], [0, 0]])),
        (lambda: ops.meshgrid(ops.arange(2), ops.arange(3)), np.meshgrid(TWO, THREE)),
        (lambda: ops.meshgrid(ops.arange(2), ops.arange(3), indexing="ij"), np.meshgrid(TWO, THREE, indexing="ij")),
    ],
)  # fmt: skip
def test_creation(make: Any, expected: Any) -> None:
    found = made(make)
    for one, other in zip(*((x if isinstance(x, (list, tuple)) else [x]) for x in (found, expected)), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other)) if other.dtype.kind == "f" else None


def test_like() -> None:
    check(lambda x: [ops.zeros_like(x), ops.ones_like(x, i32)], lambda x: [x * 0, np.ones_like(x, np.int32)], X)
    check(lambda x: ops.full_like(x, 3), lambda x: np.full_like(x, 3), X)
    check(lambda x: [ops.tril(x), ops.triu(x, k=1)], lambda x: [np.tril(x), np.triu(x, 1)], X)
    check(lambda x: ops.full((2, 3), x), lambda x: np.full((2, 3), x), np.array(2, np.int16))


def test_astype() -> None:
    x = np.float32([-1.7, 0, 2.5, 300])
    check(lambda x: ops.astype(x, i32), lambda x: x.astype(np.int32), x)
    check(lambda x: ops.astype(x, u8), np.uint8([0, 0, 2, 255]), x)
    check(lambda x: ops.astype(x, bool_), lambda x: x != 0, x)
    check(lambda x: ops.astype(x, bf16), lambda x: x.astype(bf16.dtype), x)
    assert primitives(lambda x: ops.astype(x, f32), x) == []


# --- manipulation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: ops.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
        (lambda x: ops.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
        (lambda x: ops.permute_dims(x, (-1, 0, 1)), lambda x: x.transpose(2, 0, 1)),
        (lambda x: ops.transpose(x), lambda x: x.T),
        (lambda x: ops.matrix_transpose(x), lambda x: x.transpose(0, 2, 1)),
        (lambda x: ops.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, -1)),
        (lambda x: ops.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
        (lambda x: ops.moveaxis(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0))),
        (lambda x: ops.expand_dims(x, axis=1), lambda x: np.expand_dims(x, 1)),
        (lambda x: ops.expand_dims(x, axis=(0, -1)), lambda x: np.expand_dims(x, (0, -1))),
        (lambda x: ops.squeeze(x[:1, :, None]), lambda x: np.squeeze(x[:1, :, None])),
        (lambda x: ops.squeeze(x[:1, :, None], axis=(0, 2)), lambda x: np.squeeze(x[:1, :, None], (0, 2))),
        (lambda x: ops.broadcast_to(x[:, :1], (5, 2, 3, 4)), lambda x: np.broadcast_to(x[:, :1], (5, 2, 3, 4))),
        (lambda x: ops.broadcast_arrays(x, x[0, 0]), lambda x: list(np.broadcast_arrays(x, x[0, 0]))),
        (lambda x: ops.concat([x, x[:, :1]], axis=1), lambda x: np.concatenate([x, x[:, :1]], 1)),
        (lambda x: ops.concat([x, x[0]], axis=None), lambda x: np.concatenate([x, x[0]], None)),
        (lambda x: ops.concat([x, i32(x)]), lambda x: np.concatenate([x, x])),
        (lambda x: ops.stack([x, x + 1], axis=-1), lambda x: np.stack([x, x + 1], -1)),
        (lambda x: ops.stack([x[0, 0, 0], 1.0, 2]), lambda x: np.float32([x[0, 0, 0], 1, 2])),
        (lambda x: ops.split(x, 2, axis=-1), lambda x: np.split(x, 2, -1)),
        (lambda x: ops.split(x, (1, 1, 2), axis=2), lambda x: np.split(x, (1, 1, 2), 2)),
        (lambda x: ops.unstack(x, axis=1), lambda x: tuple(x[:, i] for i in range(3))),
        (lambda x: ops.flip(x), lambda x: np.flip(x)),
        (lambda x: ops.flip(x, axis=(0, 2)), lambda x: np.flip(x, (0, 2))),
        (lambda x: ops.roll(x, 1), lambda x: np.roll(x, 1)),
        (lambda x: ops.roll(x, (-1, 2), axis=(0, 2)), lambda x: np.roll(x, (-1, 2), (0, 2))),
        (lambda x: ops.roll(x, 5, axis=1), lambda x: np.roll(x, 5, 1)),
        (lambda x: ops.pad(x, 1), lambda x: np.pad(x, 1)),
        (lambda x: ops.pad(x, (1, 2), 5), lambda x: np.pad(x, (1, 2), constant_values=5)),
        (lambda x: ops.pad(x, ((0, 0), (1, 0), (0, 2))), lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)))),
        (lambda x: ops.pad(x, 0), lambda x: x),
        (lambda x: ops.repeat(x, 2), lambda x: np.repeat(x, 2)),
        (lambda x: ops.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, 1)),
        (lambda x: ops.repeat(x, 0, axis=0), lambda x: np.repeat(x, 0, 0)),
        (lambda x: ops.tile(x, 2), lambda x: np.tile(x, 2)),
        (lambda x: ops.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        (lambda x: ops.tile(x, (2, 1, 1, 1)), lambda x: np.tile(x, (2, 1, 1, 1))),
    ],
)
def test_manipulation(function: Any, expected: Any) -> None:
    check(function, expected, X)


# --- reductions -------------------------------------------------------------------------------------------------------

AXES: list[Any] = [None, 0, -1, (0, 2), ()]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    function = getattr(ops, name)
    expected = getattr(np, name)
    check(
        lambda x: function(x, axis=axis, keepdims=keepdims),
        lambda x: expected(x, axis=axis, keepdims=keepdims),
        N,
        rtol=1e-5,
    )


def test_truth_reductions() -> None:
    x = np.array([[0, 0], [1, 0], [1, 1]], np.int32)
    check(lambda x: [ops.any(x), ops.any(x, 1), ops.all(x, 0)], lambda x: [np.any(x), np.any(x, 1), np.all(x, 0)], x)
    check(lambda x: ops.count_nonzero(x, axis=1), lambda x: np.count_nonzero(x, 1).astype(np.int32), x)
    check(lambda x: [ops.max(x), ops.min(x, 1)], lambda x: [x.max(), x.min(1)], x > 0)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(bool_, i32), (i8, i32), (i16, i32), (i32, i32), (u8, u32), (u32, u32), (i64, i64), (f16, f16), (bf16, bf16)],
)
def test_dtypes_of_sums(dtype: Any, expected: Any) -> None:
    x = tracer(dtype[3])
    assert ops.sum(x).dtype is expected
    assert ops.prod(x).dtype is expected
    assert ops.mean(x).dtype is (expected if expected.is_float else f32)
    assert ops.sum(x, dtype=f32).dtype is f32


def test_small_integers_do_not_wrap_in_sums() -> None:
    x = np.full(1000, 127, np.int8)
    check(
        lambda x: [x.sum(), x.mean(), x.prod(axis=0)], [np.int32(127000), np.float32(127), None], x
    ) if False else None
    assert run(ops.sum, x) == 127000
    assert run(ops.mean, x) == 127


def test_halves_are_averaged_in_f32() -> None:
    x = np.full(4096, 300, np.float16)
    assert run(ops.mean, x) == 300
    assert run(ops.var, x) == 0
    assert run(ops.std, np.float16([60000, -60000])) == 60000


def test_variance_keeps_accuracy_far_from_zero() -> None:
    x = (1e4 + np.arange(8)).astype(np.float32)
    assert run(ops.var, x) == pytest.approx(5.25, rel=1e-6)
    check(lambda x: ops.var(x, correction=1), lambda x: x.var(ddof=1), x)


def test_reductions_of_nothing() -> None:
    x = np.zeros((0, 2), np.float32)
    check(lambda x: [ops.sum(x, 0), ops.prod(x, 0)], [np.zeros(2, "f4"), np.ones(2, "f4")], x)
    check(lambda x: [ops.any(x), ops.all(x)], [np.array(False), np.array(True)], x)
    check(lambda x: ops.max(x, axis=1), lambda x: x.max(axis=1), x)
    assert np.isnan(run(ops.mean, x))


# --- indexing ---------------------------------------------------------------------------------------------------------

KEYS: list[Any] = [
    0,
    -1,
    (1, 2),
    (0, -1, 3),
    slice(None),
    slice(1, None),
    (slice(None), slice(0, 2), slice(None, None, 2)),
    (..., 0),
    (0, ...),
    (..., slice(None, None, -1)),
    (slice(None, None, -1), slice(2, 0, -1), slice(3, None, -2)),
    (slice(5, 1), 0),
    (slice(0, 0), slice(2, 2)),
    None,
    (None, 0, None, ..., None),
    (),
    ...,
    (np.int64(1), np.int32(-1)),
]
ARRAY_KEYS: list[Any] = [
    [1, 0, 1],
    (slice(None), [0, -1]),
    (slice(None), [[0], [2]], [1, 3]),
    ([0, 1], slice(None), [1, 3]),
    (0, slice(None), [1, 3]),
    ([0, 1], 2),
    ([0, 1], [1, 2], [0, -1]),
    (slice(None, None, -1), [2, 0], slice(1, 3)),
    (None, [1, 0], ..., None),
    ([1], None, [2]),
    [],
    [True, False],
    (slice(None), [True, False, True], slice(0, 2)),
    [[True, False, True], [False, False, True]],
]


@pytest.mark.parametrize("key", KEYS + ARRAY_KEYS)
def test_reading_by_static_keys(key: Any) -> None:
    def expected(x: Any) -> Any:
        return x[[] if key == [] else key] if key != [] else x[np.zeros(0, np.int32)]

    check(lambda x: x[key], expected, X)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["set", "add", "multiply", "min", "max", "subtract"])
def test_writing_by_static_keys(key: Any, name: str) -> None:
    number = np.float32(2.5)
    combine: Any = {
        "set": lambda old, new: new,
        "add": np.add,
        "multiply": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "subtract": np.subtract,
    }[name]

    def expected(x: Any) -> Any:
        result = x.copy()
        result[key] = combine(result[key], number)
        return result

    check(lambda x: getattr(x.at[key], name)(2.5), expected, X)


def test_writing_arrays() -> None:
    def expected(x: Any, y: Any) -> Any:
        result = x.copy()
        result[:, ::-2, 1:3] = y
        return result

    check(lambda x, y: x.at[:, ::-2, 1:3].set(y), expected, X, np.float32([[1, 2], [3, 4]]))
    check(lambda x: x.at[0].set(x[1]), lambda x: np.stack([x[1], x[1]]), X)
    check(lambda x: x.at[0, 1].get(), lambda x: x[0, 1], X)


def test_writing_by_mask() -> None:
    check(lambda x: x.at[x > 5].set(0), lambda x: np.where(x > 5, np.float32(0), x), X)
    check(lambda x: x.at[x[:, :, 0] > 5].add(1), lambda x: np.where(x[:, :, :1] > 5, x + 1, x), X)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint32])
def test_reading_by_traced_arrays(dtype: Any) -> None:
    i = np.array([[0, 2], [1, 1]], dtype)
    check(lambda x, i: x[:, i], lambda x, i: x[:, i], X, i)
    check(lambda x, i: x[i % 2, i], lambda x, i: x[i % 2, i], X, i)
    check(lambda x, i: x[0, :, i], lambda x, i: x[0, :, i], X, i)
    check(lambda x, i: x[i[0, 1] - 1, ..., i[1]], lambda x, i: x[i[0, 1] - 1, ..., i[1]], X, i)
    if np.issubdtype(dtype, np.signedinteger):
        check(lambda x, i: x[:, -i], lambda x, i: x[:, -i], X, i)


def test_take() -> None:
    i = np.int32([[0, 2], [-1, 1]])
    for axis in (None, 1, -2):
        check(lambda x, i, a=axis: ops.take(x, i, axis=a), lambda x, i, a=axis: np.take(x, i, axis=a), X, i)
    check(lambda x: ops.take(x, 2, axis=1), lambda x: np.take(x, 2, axis=1), X)
    check(lambda x: ops.take(x, [0, 2], axis=1), lambda x: np.take(x, [0, 2], axis=1), X)
    order = np.argsort(-N, axis=1).astype(np.int32)
    check(lambda x, i: ops.take_along_axis(x, i, axis=1), lambda x, i: np.take_along_axis(x, i, 1), N, order)
    check(
        lambda x, i: ops.take_along_axis(x, i, axis=0), lambda x, i: np.take_along_axis(x, i, 0), N, order[:1, :1] % 3
    )


def test_out_of_range_modes() -> None:
    x, i = np.float32([10, 20, 30]), np.int32([-4, -1, 2, 3])
    for mode in ("clip", "wrap"):
        check(lambda x, i, m=mode: ops.take(x, i, mode=m), lambda x, i, m=mode: np.take(x, i, mode=m), x, i)
    check(lambda x, i: x.at[i].get(mode="clip"), np.float32([10, 30, 30, 30]), x, i)
    check(lambda x, i: ops.take(x, i, mode="fill"), np.float32([np.nan, 30, 30, np.nan]), x, i)
    check(lambda x, i: ops.take(x, i, mode="fill", fill_value=7), np.float32([7, 30, 30, 7]), x, i)
    check(lambda x, i: ops.take(i32(x), i, mode="fill"), np.int32([-(2**31), 30, 30, -(2**31)]), x, i)
    with pytest.raises(IndexFault, match="out of range for axis 0 of extent 3"):
        run(lambda x, i: x[i], x, i)


def test_dynamic_slices() -> None:
    n = np.array(2, np.int32)
    check(lambda x, n: ops.dynamic_slice(x, (0, n, 1), (2, 1, 3)), lambda x, n: x[:, 2:3, 1:4], X, n)
    check(lambda x, n: ops.dynamic_slice(x, (n, n, -1), (1, 2, 3)), lambda x, n: x[1:, 1:3, 0:3], X, n)

    def expected(x: Any, n: Any) -> Any:
        result = x.copy()
        result[1:, 2:3, :2] = 5
        return result

    check(lambda x, n: ops.dynamic_update_slice(x, ops.full((1, 1, 2), n * 0 + 5), (1, n, 0)), expected, X, n)
