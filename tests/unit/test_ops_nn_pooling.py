"""Poolings against a reference that lists the elements of every window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.ops import nn
from tests.unit.ops_support import build, check, run

RNG = np.random.default_rng(5)


def pool(
    x: Any,
    sizes: Any,
    strides: Any,
    padding: Any,
    dilations: Any,
    *,
    ceil: bool = False,
    mean: bool = False,
    count_padding: bool = False,
) -> Any:
    extents = x.shape[2:]
    counts = []
    for n, k, s, (low, high), d in zip(extents, sizes, strides, padding, dilations, strict=True):
        room = n + low + high - d * (k - 1) - 1
        count = (math.ceil(room / s) if ceil else room // s) + 1
        if ceil and (count - 1) * s >= n + low:
            count -= 1
        counts.append(count)
    result = np.zeros((*x.shape[:2], *counts))
    for place in np.ndindex(*result.shape):
        values, size = [], 0
        for inner in np.ndindex(*sizes):
            at = [
                p * s - lo + i * d
                for p, s, (lo, _), i, d in zip(place[2:], strides, padding, inner, dilations, strict=True)
            ]
            if all(-lo <= a < n + hi for a, n, (lo, hi) in zip(at, extents, padding, strict=True)):
                size += 1
            if all(0 <= a < n for a, n in zip(at, extents, strict=True)):
                values.append(x[(*place[:2], *at)])
        if mean:
            result[place] = sum(map(float, values)) / (size if count_padding else len(values))
        else:
            result[place] = max(values)
    return result


CASES: list[tuple[tuple[int, ...], Any, dict[str, Any]]] = [
    ((2, 3, 8), 2, {}),
    ((2, 3, 9), 3, {"stride": 2, "padding": 1}),
    ((1, 2, 7), 3, {"stride": 2, "ceil": True}),
    ((1, 2, 7), 2, {"stride": 3, "ceil": True, "padding": 1}),
    ((1, 2, 8), 3, {"stride": 1, "dilation": 2, "padding": 1}),
    ((2, 3, 6, 7), (2, 3), {}),
    ((2, 3, 6, 7), 3, {"stride": (1, 2), "padding": ((1, 0), (0, 1))}),
    ((1, 2, 6, 7), (3, 2), {"stride": 2, "padding": 1, "ceil": True, "dilation": (1, 2)}),
    ((1, 2, 3, 4, 5), 2, {"stride": 1}),
    ((1, 1, 4, 4), 4, {}),
]


def meaning(x: tuple[int, ...], window: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    rank = len(x) - 2

    def each(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, tuple) else (value,) * rank

    pairs = tuple(p if isinstance(p, tuple) else (p, p) for p in each(options.get("padding", 0)))
    return each(window), each(options.get("stride", window)), pairs, each(options.get("dilation", 1))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_max_pool(number: int) -> None:
    shape, window, options = CASES[number]
    x = RNG.standard_normal(shape).astype(np.float32)
    expected = pool(x, *meaning(shape, window, options), ceil=options.get("ceil", False))
    check(lambda x: nn.max_pool(x, window, **options), expected.astype(np.float32), x)


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("count_padding", [False, True])
def test_avg_pool(number: int, count_padding: bool) -> None:
    shape, window, options = CASES[number]
    x = RNG.standard_normal(shape).astype(np.float32)
    expected = pool(
        x, *meaning(shape, window, options), ceil=options.get("ceil", False), mean=True, count_padding=count_padding
    )
    check(lambda x: nn.avg_pool(x, window, count_padding=count_padding, **options), expected.astype(np.float32), x)


def test_dtypes_and_specials() -> None:
    x = np.uint8([[[3, 250, 7, 9]]])
    check(lambda x: nn.max_pool(x, 2, stride=1, padding=1), np.uint8([[[3, 250, 250, 9, 9]]]), x)
    check(lambda x: nn.avg_pool(x, 2), np.float32([[[126.5, 8]]]), x)
    low = np.int8([[[-128, -100]]])
    check(lambda x: nn.max_pool(x, 2, stride=1, padding=1), np.int8([[[-128, -100, -100]]]), low)
    holes = np.float32([[[1, np.nan, 2, -np.inf, -np.inf]]])
    check(lambda x: nn.max_pool(x, 2, stride=1), np.float32([[[np.nan, np.nan, 2, -np.inf]]]), holes)
    large = np.full((1, 1, 4), 60000, np.float16)
    check(lambda x: nn.avg_pool(x, 4), np.full((1, 1, 1), 60000, np.float16), large)


def test_global_pools() -> None:
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    check(nn.global_max_pool, lambda x: x.max((2, 3), keepdims=True), x)
    check(nn.global_avg_pool, lambda x: x.mean((2, 3), keepdims=True, dtype=np.float64).astype(np.float32), x)


X = np.zeros((1, 2, 4, 4), np.float32)
REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (ShapeError, "max_pool: x", lambda x: nn.max_pool(x[0, 0, 0], 2)),
    (ArgumentError, r"max_pool: window: \(2, 2, 2\)", lambda x: nn.max_pool(x, (2, 2, 2))),
    (ShapeError, r"avg_pool: shape \(4, 4\), expected windows \(5, 5\) to fit", lambda x: nn.avg_pool(x, 5)),
    (DTypeError, "max_pool: dtype bool", lambda x: nn.max_pool(x > 0, 2)),
    (ShapeError, "global_avg_pool: x", lambda x: nn.global_avg_pool(x[0, 0])),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, function = REFUSALS[number]
    with pytest.raises(error, match=message) as caught:
        build(function, X)
    assert caught.value.where.file == __file__  # type: ignore[attr-defined]


def test_an_empty_batch() -> None:
    assert run(lambda x: nn.max_pool(x, 2), X[:0]).shape == (0, 2, 2, 2)
    assert run(lambda x: nn.avg_pool(x, 2), X[:, :0]).shape == (1, 0, 2, 2)
