"""NumPy's functions and array methods beyond the array API, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import ArgumentError, ArgumentTypeError, ConcretizationError, DTypeError, FeatureError, ShapeError

X = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
WITH_NAN = X.copy()
WITH_NAN[1, 2] = np.nan
WEIGHTS = np.arange(1, 6, dtype=np.float32)

SHAPES: list[Callable[[Any], Any]] = [
    np.ravel,
    np.copy,
    np.fliplr,
    np.flipud,
    np.diagonal,
    np.trace,
    lambda a: np.trace(a.reshape(2, 2, 5)),
    lambda a: np.diagonal(a.reshape(2, 2, 5), 1, 2, 0),
    lambda a: np.vstack([a, a]),
    lambda a: np.vstack([a[0], a[1]]),
    lambda a: np.hstack([a, a]),
    lambda a: np.hstack([a[0], a[1]]),
    lambda a: np.column_stack([a[0], a[1]]),
    lambda a: np.atleast_1d(a.sum()),
    lambda a: np.atleast_2d(a[0]),
    lambda a: np.atleast_2d(a, a[0])[1],
    np.diag,
    lambda a: np.diag(a, -1),
    lambda a: np.diag(a[0]),
    lambda a: np.diag(a[0], 2),
    lambda a: np.diag(a[0], -1),
    lambda a: a.copy(),
    lambda a: a.diagonal(1),
    lambda a: a.trace(offset=-1),
    lambda a: a.view(np.int32),
    lambda a: np.diff(a, 2),
    lambda a: np.diff(a, 1, 0),
    lambda a: np.diff(a, prepend=np.float32(0), append=a[:, :1]),
    lambda a: np.diff(a, axis=0, append=np.float32(5)),
    lambda a: np.clip(a, a_min=-0.5, a_max=0.5),
    lambda a: np.clip(a, None, 0.5),
    lambda a: np.clip(a, min=-0.5, max=0.5),
    lambda a: np.cross(a[:, :3], a[:, 2:]),
    lambda a: np.cross(a[:3], a[1:, ::-1], axis=0),
    lambda a: np.cross(a[:3].T, a[1:], axisb=0, axisc=0),
]
NUMBERS: list[Callable[[Any], Any]] = [
    np.median,
    lambda a: np.median(a, axis=0),
    lambda a: np.median(a, axis=1, keepdims=True),
    lambda a: np.median(a, axis=(0, 1)),
    np.average,
    lambda a: np.average(a, axis=1, weights=WEIGHTS),
    lambda a: np.average(a, weights=X * X),
    np.ptp,
    lambda a: np.ptp(a, axis=1),
    np.nansum,
    lambda a: np.nansum(a, axis=0),
    np.nanmean,
    lambda a: np.nanmean(a, axis=1),
    np.deg2rad,
    np.radians,
    np.rad2deg,
    np.degrees,
]


@pytest.mark.parametrize("function", SHAPES + NUMBERS)
@pytest.mark.parametrize("x", [X, WITH_NAN])
def test_the_same_as_numpy(function: Callable[[Any], Any], x: Any) -> None:
    expected = np.asarray(function(x))
    found = np.asarray(function(poot.asarray(x)))
    traced = poot.trace(lambda a: function(a)).evaluate(x)
    for actual in (found, np.asarray(traced)):
        assert actual.shape == expected.shape
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimize", [False, True, "greedy", "optimal"])
def test_the_order_of_products_is_ignored(optimize: Any) -> None:
    found = np.einsum("ij,kj,kl->il", poot.asarray(X), X, X, optimize=optimize)
    np.testing.assert_allclose(np.asarray(found), X @ X.T @ X, rtol=1e-5, atol=1e-5)


def test_a_bound_of_clip_has_one_name() -> None:
    with pytest.raises(ArgumentError, match="a_max and max"):
        np.clip(poot.asarray(X), 0, 1, max=2)


def test_integers_have_float_medians_and_means() -> None:
    x = poot.asarray([3, 1, 2, 10])
    assert float(ops.median(x)) == 2.5
    assert ops.median(x).dtype is poot.f32
    assert float(ops.nanmean(x)) == 4.0
    assert int(ops.nansum(x)) == 16
    with pytest.raises(ShapeError, match="median"):
        ops.median(x[:0])
    with pytest.raises(ShapeError, match="average: weights"):
        ops.average(poot.asarray(X), weights=WEIGHTS[:2])


def test_methods_that_order() -> None:
    p = poot.asarray(X)
    assert np.array_equal(np.asarray(p.sort()), np.sort(X))
    assert np.array_equal(np.asarray(p), X)
    found = p[0].sort().searchsorted(p[1], side="right")
    assert np.array_equal(np.asarray(found), np.searchsorted(np.sort(X[0]), X[1], "right"))


def test_bytes_copies_and_bits() -> None:
    p = poot.asarray(X)
    assert p.tobytes() == X.tobytes()
    assert p.copy() is not p
    row = p[0]
    assert all(f(row) is not row for f in (ops.ravel, ops.atleast_1d, ops.flipud, ops.copy))
    assert np.array_equal(np.asarray(p.view(poot.u32)), X.view(np.uint32))
    with pytest.raises(DTypeError, match="a number of 32 bits, as f32"):
        p.view(np.float64)
    with pytest.raises(ConcretizationError, match="bytes"):
        poot.trace(lambda a: a.tobytes())(X)


def test_sequences_are_compared_as_arrays() -> None:
    assert bool(np.array_equal(poot.asarray([1, 2]), [1, 2]))
    assert not bool(np.array_equal(poot.asarray([1, 2]), [1, 3]))
    with pytest.raises(ArgumentTypeError, match="array_equal: list given"):
        ops.array_equal(poot.asarray([1, 2]), [1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [lambda p: p.nonzero(), lambda p: np.where(p > 0), lambda p: ops.where(p > 0)])
def test_positions_are_refused_by_name(call: Callable[[Any], Any]) -> None:
    with pytest.raises(FeatureError, match="the shape of its result depends on values"):
        call(poot.asarray(X))


def test_options_of_ufuncs_name_what_to_write() -> None:
    p = poot.asarray(X)
    with pytest.raises(ArgumentTypeError, match="astype"):
        np.add(p, 1, dtype=np.float64)
    with pytest.raises(ArgumentTypeError, match=r"ops\.where"):
        np.add(p, 1, where=X > 0)


# --- methods of ufuncs ------------------------------------------------------------------------------------------------

METHODS: list[Callable[[Any], Any]] = [
    lambda a: np.add.outer(a, a[0]),
    lambda a: np.multiply.outer(a[0], WEIGHTS),
    lambda a: np.maximum.outer(WEIGHTS, a),
    lambda a: np.less.outer(a, a[1]),
    lambda a: np.add.outer(a.sum(), a[0]),
    np.add.accumulate,
    lambda a: np.add.accumulate(a, 1),
    lambda a: np.multiply.accumulate(a, axis=-1),
    lambda a: np.maximum.accumulate(a, axis=1),
    np.minimum.accumulate,
    np.multiply.reduce,
    lambda a: np.multiply.reduce(a, 1),
    lambda a: np.add.reduce(a, axis=(0, 1)),
    lambda a: np.add.reduce(a, None, keepdims=True),
    lambda a: np.maximum.reduce(a, axis=1),
    lambda a: np.logical_and.reduce(a > 0, keepdims=True),
    lambda a: np.logical_or.reduce(a > 1, 1),
]


@pytest.mark.parametrize("function", METHODS)
def test_methods_of_ufuncs(function: Callable[[Any], Any]) -> None:
    expected = np.asarray(function(X))
    for actual in (np.asarray(function(poot.asarray(X))), np.asarray(poot.trace(lambda a: function(a)).evaluate(X))):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_numbers_stay_weak_in_outer() -> None:
    np.testing.assert_array_equal(np.asarray(np.subtract.outer(3, poot.asarray(X))), 3 - X)
    x = poot.asarray(np.arange(3, dtype=np.int8))
    assert np.add.outer(x, 2).dtype is np.add.outer(2, x).dtype is poot.i8
    with pytest.raises(poot.errors.OverflowArgumentError):
        np.add.outer(x, 300)


@pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda p: np.add.at(p, [0], 1), "write `x = x.at[i].add(v)`"),
        (lambda p: np.maximum.at(p, [0], 1), "write `x = x.at[i].max(v)`"),
        (lambda p: np.exp.at(p, [0]), "write `x = x.at[i].set(ops.exp(x[i]))`"),
        (lambda p: np.hypot.at(p, [0], 1), "write `x = x.at[i].set(ops.hypot(x[i], v))`"),
        (lambda p: np.add.reduceat(p, [0]), "ops.zeros(n).at[part].add(x)"),
        (lambda p: np.subtract.reduce(p), "reduce is there for np.add, np.multiply,"),
        (lambda p: np.logical_or.accumulate(p), "accumulate is there for np.add, np.multiply,"),
        (lambda p: np.add.reduce(p, initial=3), "expected array operands alone"),
        (lambda p: np.add.accumulate(p, dtype=np.float64), "astype"),
    ],
)
def test_other_methods_of_ufuncs_are_refused_by_name(call: Callable[[Any], Any], remedy: str) -> None:
    for use in (lambda: call(poot.asarray(X)), lambda: poot.trace(lambda x: call(x))(X)):
        with pytest.raises(ArgumentTypeError, match=r"np\.\w+\.\w+: ") as caught:
            use()
        assert remedy in str(caught.value)
