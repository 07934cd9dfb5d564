"""Convolutions against a reference that lays every kernel on every place, in float64."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poot.dtypes import i32
from poot.errors import ArgumentError, DTypeError, ShapeError
from poot.trace.ops import nn
from tests.unit.ops_support import build, check, run

RNG = np.random.default_rng(4)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def conv(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The definition; padding as pairs."""
    rank = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *padding])
    out, channels = w.shape[:2]
    counts = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    result = np.zeros((x.shape[0], out, *counts))
    for b, o in np.ndindex(x.shape[0], out):
        first = o // (out // groups) * channels
        for place in np.ndindex(*counts):
            cut = tuple(
                slice(p * s, p * s + d * (k - 1) + 1, d)
                for p, s, d, k in zip(place, stride, dilation, w.shape[2:], strict=True)
            )
            result[(b, o, *place)] = (x[(b, slice(first, first + channels), *cut)] * w[o]).sum()
    assert rank == len(stride)
    return result


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), (4, 3, 3), {}),
    ((2, 3, 8), (4, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 2, 9), (2, 2, 4), {"stride": (3,), "dilation": 2}),
    ((2, 3, 6, 5), (4, 3, 3, 2), {}),
    ((2, 3, 6, 5), (4, 3, 1, 1), {"stride": 2}),
    ((2, 3, 6, 5), (4, 3, 3, 3), {"padding": 1}),
    ((1, 3, 6, 7), (4, 3, 3, 3), {"padding": ((0, 2), (1, 0)), "stride": (2, 1)}),
    ((1, 3, 9, 8), (2, 3, 3, 2), {"dilation": (2, 3), "padding": (1, 2)}),
    ((2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    ((2, 4, 5, 6), (4, 1, 3, 3), {"groups": 4, "stride": 2, "padding": 1}),
    ((1, 4, 5, 6), (8, 1, 2, 3), {"groups": 4}),
    ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": 1}),
    ((1, 2, 3, 3), (2, 2, 3, 3), {}),
    ((0, 2, 4, 4), (2, 2, 3, 3), {}),
    ((1, 0, 4, 4), (2, 0, 3, 3), {}),
]


def meaning(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The options with one number or pair an axis."""
    rank = len(w) - 2

    def each(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, tuple) else (value,) * rank

    pairs = tuple(p if isinstance(p, tuple) else (p, p) for p in each(options.get("padding", 0)))
    return {
        "stride": each(options.get("stride", 1)),
        "dilation": each(options.get("dilation", 1)),
        "padding": pairs,
        "groups": options.get("groups", 1),
    }


@pytest.mark.parametrize("number", range(len(CASES)))
def test_conv(number: int) -> None:
    shape, kernel, options = CASES[number]
    x, w, b = normal(*shape), normal(*kernel), normal(kernel[0])
    expected = conv(x, w, **meaning(shape, kernel, options))
    check(lambda x, w: nn.conv(x, w, **options), expected.astype(np.float32), x, w, rtol=1e-5, atol=1e-5)
    offset = b.reshape(-1, *(1,) * (len(kernel) - 2)).astype(np.float64)
    check(lambda x, w, b: nn.conv(x, w, b, **options), (expected + offset).astype(np.float32), x, w, b, atol=1e-5)


def test_random_geometries() -> None:
    for _ in range(30):
        k, s, d, low, high = (int(RNG.integers(a, z)) for a, z in ((1, 5), (1, 4), (1, 4), (0, 4), (0, 4)))
        extent = int(RNG.integers(max(1, d * (k - 1) + 1 - low - high), d * (k - 1) + 12))
        x, w = normal(1, 2, extent), normal(2, 2, k)
        expected = conv(x, w, (s,), ((low, high),), (d,), 1).astype(np.float32)
        options: dict[str, Any] = {"stride": s, "padding": ((low, high),), "dilation": d}
        check(lambda x, w, o=options: nn.conv1d(x, w, **o), expected, x, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("stride", "size", "dilation"), list(itertools.product((1, 2, 3), (1, 2, 4), (1, 2))))
def test_same_padding_has_as_many_windows_as_strides_fit(stride: int, size: int, dilation: int) -> None:
    for extent in (5, 6, 9):
        total = max(0, (-(-extent // stride) - 1) * stride + dilation * (size - 1) + 1 - extent)
        x, w = normal(1, 1, extent), normal(1, 1, size)
        for name, low in (("same", total // 2), ("same_lower", total - total // 2)):
            expected = conv(x, w, (stride,), ((low, total - low),), (dilation,), 1).astype(np.float32)
            assert expected.shape[-1] == -(-extent // stride)
            check(
                lambda x, w, p=name: nn.conv1d(x, w, stride=stride, dilation=dilation, padding=p),
                expected,
                x,
                w,
                rtol=1e-5,
                atol=1e-5,
            )


def test_the_number_of_equations_does_not_depend_on_the_kernel() -> None:
    small, large = (build(nn.conv2d, normal(1, 2, 12, 12), normal(2, 2, k, k)) for k in (2, 9))
    assert len(small.equations) == len(large.equations)
    assert [equation.primitive for equation in large.equations].count("dot_general") == 1


def test_dtypes() -> None:
    x, w = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((1, 8, 5, 5), (2, 8, 3, 3)))
    exact = conv(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    check(lambda x, w: nn.conv2d(x, w, dtype=i32), exact.astype(np.int32), x, w)
    check(nn.conv2d, exact.astype(np.int64).astype(np.int8), x, w)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        ones = np.ones((1, 4096, 1), dtype), np.ones((1, 4096, 1), dtype)
        assert run(nn.conv1d, *ones) == 4096
    halves = normal(1, 3, 6).astype(np.float16), normal(2, 3, 3).astype(np.float16)
    expected = conv(*halves, (1,), ((0, 0),), (1,), 1).astype(np.float16)
    check(nn.conv1d, expected, *halves, rtol=1e-3, atol=1e-3)


def test_depthwise_dtypes() -> None:
    x, w = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((1, 3, 5), (6, 1, 3)))
    exact = conv(x, w, (1,), ((0, 0),), (1,), 3)
    check(lambda x, w: nn.conv1d(x, w, groups=3, dtype=i32), exact.astype(np.int32), x, w)
    check(lambda x, w: nn.conv1d(x, w, groups=3), exact.astype(np.int64).astype(np.int8), x, w)
    ones = np.ones((1, 2, 4096), np.float16), np.ones((2, 1, 4096), np.float16)
    assert (run(lambda x, w: nn.conv1d(x, w, groups=2), *ones) == 4096).all()


# --- transposed -------------------------------------------------------------------------------------------------------


def transposed(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int, output_padding: Any) -> Any:
    """Every element lays its kernel into the result."""
    sizes = w.shape[2:]
    whole = [
        (n - 1) * s + d * (k - 1) + 1 + o
        for n, s, d, k, o in zip(x.shape[2:], stride, dilation, sizes, output_padding, strict=True)
    ]
    out, channels = w.shape[1], x.shape[1]
    result = np.zeros((x.shape[0], out * groups, *whole))
    for b, c in np.ndindex(x.shape[0], channels):
        first = c // (channels // groups) * out
        for place in np.ndindex(*x.shape[2:]):
            cut = tuple(
                slice(p * s, p * s + d * (k - 1) + 1, d)
                for p, s, d, k in zip(place, stride, dilation, sizes, strict=True)
            )
            result[(b, slice(first, first + out), *cut)] += float(x[(b, c, *place)]) * w[c]
    cut = tuple(slice(low, extent - high) for extent, (low, high) in zip(whole, padding, strict=True))
    return result[(..., *cut)]


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 4), (3, 2, 3), {}),
    ((1, 3, 4), (3, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((1, 3, 4, 3), (3, 2, 3, 2), {"stride": (2, 3), "padding": ((0, 1), (1, 0))}),
    ((1, 4, 3, 3), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
    ((1, 4, 3, 3), (4, 3, 2, 2), {"groups": 2, "dilation": 2}),
    ((2, 2, 3, 3), (2, 2, 1, 1), {"stride": 2}),
    ((1, 2, 4), (2, 2, 2), {"padding": 2}),
]


@pytest.mark.parametrize("number", range(len(TRANSPOSED)))
def test_conv_transpose(number: int) -> None:
    shape, kernel, options = TRANSPOSED[number]
    x, w = normal(*shape), normal(*kernel)
    rank = len(kernel) - 2
    extra = options.get("output_padding", 0)
    expected = transposed(x, w, **meaning(shape, kernel, options), output_padding=(extra,) * rank)
    check(lambda x, w: nn.conv_transpose(x, w, **options), expected.astype(np.float32), x, w, rtol=1e-5, atol=1e-5)


def test_conv_transpose_is_the_transpose_of_conv() -> None:
    x, y, w = normal(1, 3, 9), normal(1, 4, 4), normal(4, 3, 3)
    forward = run(lambda x, w: nn.conv1d(x, w, stride=2, padding=0), x, w)
    backward = run(lambda y, w: nn.conv_transpose(y, w, stride=2), y, w)
    np.testing.assert_allclose((forward * y).sum(), (x * backward).sum(), rtol=1e-4)


# --- causal -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 4])
def test_causal_conv1d(width: int) -> None:
    x, w, b = normal(2, 3, 6), normal(3, width), normal(3)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (width - 1, 0)))
    expected = sum(w[:, j, None] * padded[..., j : j + 6] for j in range(width))
    check(nn.causal_conv1d, expected.astype(np.float32), x, w, rtol=1e-5, atol=1e-5)
    check(nn.causal_conv1d, (expected + b[:, None]).astype(np.float32), x, w, b, rtol=1e-5, atol=1e-5)
    half = x.astype(np.float16)
    assert run(nn.causal_conv1d, half, w.astype(np.float16)).dtype == np.float16


def test_causal_conv1d_continues_a_sequence() -> None:
    x, w = normal(1, 2, 9), normal(2, 4)
    whole = run(nn.causal_conv1d, x, w)
    later = run(lambda x, w, s: nn.causal_conv1d(x, w, before=s), x[..., 5:], w, x[..., 2:5])
    np.testing.assert_allclose(later, whole[..., 5:], rtol=1e-6)
    one = run(lambda x, w, s: nn.causal_conv1d(x, w, before=s), x[..., 8:], w, x[..., 5:8])
    np.testing.assert_allclose(one, whole[..., 8:], rtol=1e-6)
    assert run(nn.causal_conv1d, x[..., :0], w).shape == (1, 2, 0)


# --- refusals ---------------------------------------------------------------------------------------------------------

X, W = normal(1, 4, 6, 6), normal(4, 4, 3, 3)
REFUSALS: list[tuple[type[Exception], str, Any]] = [
    (
        ShapeError,
        r"conv2d: w: shape \(4, 4, 3\), expected \[out, channels, 2 more\]",
        lambda: (nn.conv2d, X, W[..., 0]),
    ),
    (ShapeError, r"conv2d: x: shape \(4, 6, 6\)", lambda: (nn.conv2d, X[0], W)),
    (ShapeError, r"conv: x: shape \(1, 4, 6, 6\), expected \(batch, 3, …\)", lambda: (nn.conv, X, W[:, :3])),
    (ShapeError, r"conv: b: shape \(3,\), expected \(4,\)", lambda: (nn.conv, X, W, W[0, 0, 0])),
    (ShapeError, r"conv: shape \(2, 6\), expected windows \(3, 3\) to fit", lambda: (nn.conv, X[:, :, :2], W)),
    (ArgumentError, "conv: groups: 3", lambda: (lambda x, w: nn.conv(x, w, groups=3), X, W)),
    (ArgumentError, "conv: stride: 0", lambda: (lambda x, w: nn.conv(x, w, stride=0), X, W)),
    (ArgumentError, "conv: padding: -1", lambda: (lambda x, w: nn.conv(x, w, padding=-1), X, W)),
    (ArgumentError, "conv: padding: 'full'", lambda: (lambda x, w: nn.conv(x, w, padding="full"), X, W)),
    (ArgumentError, "conv: dilation", lambda: (lambda x, w: nn.conv(x, w, dilation=(1, 1, 1)), X, W)),
    (DTypeError, "conv: dtype bool", lambda: (nn.conv, X > 0, W > 0)),
    (ShapeError, "conv_transpose: x", lambda: (nn.conv_transpose, X[:, :3], W)),
    (ShapeError, "conv_transpose: shape", lambda: (lambda x, w: nn.conv_transpose(x, w, padding=9), X, W)),
    (ShapeError, "causal_conv1d: x", lambda: (nn.causal_conv1d, X, W)),
    (
        ShapeError,
        r"causal_conv1d: w: shape \(3, 3\), expected \(6, width\)",
        lambda: (nn.causal_conv1d, X[0], W[0, :3, 0]),
    ),
    (
        ShapeError,
        r"causal_conv1d: before: shape \(1, 6, 6\), expected \(4, 6, 2\)",
        lambda: (lambda x, w, b: nn.causal_conv1d(x, w, before=b), X[0], np.ones((6, 3), np.float32), X[0, :1]),
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    error, message, make = REFUSALS[number]
    function, *arrays = make()
    with pytest.raises(error, match=message) as caught:
        build(function, *arrays)
    assert caught.value.where is not None  # type: ignore[attr-defined]
