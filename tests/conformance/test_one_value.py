"""A value has one rounding: it is the same wherever a program computes it, in another pass, kernel or sum.

So `x - max(x)` is never above 0, whatever x is made of, and a softmax that is spelled out stays finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.dtypes import DType, bf16, f16, f32, f64
from tests.attention_cases import stream_anything

Score = Callable[..., Any]

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

SCORES: Mapping[str, Score] = {
    "product": lambda a, b, q, k: a * b,
    "negative product": lambda a, b, q, k: -(a * b),
    "product of three": lambda a, b, q, k: a * b * a,
    "product and sum": lambda a, b, q, k: a * b + b,
    "sum of products": lambda a, b, q, k: a * b - b * b,
    "product of a sum": lambda a, b, q, k: (a * b + b) * 0.3,
    "square": lambda a, b, q, k: a * a,
    "quotient": lambda a, b, q, k: a / (1 + ops.abs(b)),
    "root": lambda a, b, q, k: ops.sqrt(ops.abs(a)) * b,
    "logarithm": lambda a, b, q, k: ops.log2(1 + ops.abs(a)) * 1000.3,
    "tanh": lambda a, b, q, k: ops.tanh(a * 1e-5) * b,
    "outer product": lambda a, b, q, k: a[:, :1] * b[:1],
    "selected": lambda a, b, q, k: ops.where(a > b, a * b, b * 0.7),
    "repeated": lambda a, b, q, k: ops.concat([a * b, b * b], axis=1)[:, : a.shape[1]],
    "transposed": lambda a, b, q, k: (a.T * b.T).T,
    "dots": lambda a, b, q, k: q @ k.T,
    "scaled dots": lambda a, b, q, k: q @ k.T * 0.3,
    "dots with a bias": lambda a, b, q, k: q @ k.T * 0.3 + a,
    "dots of one term": lambda a, b, q, k: q[:, :1] @ k[:, :1].T,
    "capped dots": lambda a, b, q, k: ops.tanh(q @ k.T * 1e-6) * 1000.3,
}


def operands(rows: int, columns: int, dtype: DType, seed: int) -> list[np.ndarray]:
    """Of magnitudes whose products are exact in no float of this width, and overflow the powers of their errors."""
    rng = np.random.default_rng(seed)
    size = 3.0 if dtype is f16 else 1e5
    shapes = ((rows, columns), (rows, columns), (rows, 5), (columns, 5))
    return [(rng.standard_normal(shape) * size).astype(dtype.dtype) for shape in shapes]


def softmax(s: Any, axis: int) -> Any:
    weights = ops.exp(s - ops.max(s, axis=axis, keepdims=True))
    return weights / ops.sum(weights, axis=axis, keepdims=True)


Use = tuple[Callable[[Any, int], Any], Callable[[np.ndarray, int], bool]]

#: What is computed of a value and an extreme of it, and what holds then.  One use a program: of several, it is stored.
USES: Mapping[str, Use] = {
    "below the greatest": (
        lambda s, axis: s - ops.max(s, axis=axis, keepdims=True),
        lambda found, axis: bool((found.max(axis) == 0).all()),
    ),
    "above the least": (
        lambda s, axis: s - ops.min(s, axis=axis, keepdims=True),
        lambda found, axis: bool((found.min(axis) == 0).all()),
    ),
    "below all": (lambda s, axis: s - ops.max(s), lambda found, axis: found.max() == 0),
    "the greatest": (
        lambda s, axis: s == ops.max(s, axis=axis, keepdims=True),
        lambda found, axis: bool(found.any(axis).all()),
    ),
    "both scaled": (
        lambda s, axis: s * 3.3 - ops.max(s, axis=axis, keepdims=True) * 3.3,
        lambda found, axis: bool((found.max(axis) == 0).all()),
    ),
    "one scaled down": (
        lambda s, axis: 0.7 * s + ops.max(s, axis=axis, keepdims=True) * -0.7,
        lambda found, axis: bool((found.max(axis) == 0).all()),
    ),
    "softmax, scaled late": (
        lambda s, axis: softmax(s * 3.3 - ops.max(s, axis=axis, keepdims=True) * 3.3, axis),
        lambda found, axis: bool(np.isfinite(found).all() and np.abs(found.sum(axis) - 1).max() < 2e-2),
    ),
    "softmax": (
        softmax,
        lambda found, axis: bool(np.isfinite(found).all() and np.abs(found.sum(axis) - 1).max() < 2e-2),
    ),
}


def check(score: Score, use: str, device: str, arrays: list[np.ndarray], axis: int) -> None:
    compute, holds = USES[use]
    result = poot.trace(device=device)(lambda a, b, q, k: compute(score(a, b, q, k), axis))(*arrays)
    found = np.asarray(result)
    assert holds(found if found.dtype == bool else found.astype(np.float64), axis), (use, arrays[0].dtype, axis)


@pytest.mark.parametrize("name", SCORES)
def test_nothing_is_above_its_maximum(name: str, device_name: str) -> None:
    check(SCORES[name], "below the greatest", device_name, operands(5, 70, f32, 0), 1)
    check(SCORES[name], "both scaled", device_name, operands(5, 7, f32, 0), 1)
    check(SCORES[name], "softmax", device_name, operands(7, 3, f32, 1), 0)


@pytest.mark.slow_on("interpret", "opencl", "wgpu")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", SCORES)
def test_nor_along_other_axes(name: str, use: str, device_name: str) -> None:
    check(SCORES[name], use, device_name, operands(7, 3, f32, 2), 0)
    check(SCORES[name], use, device_name, operands(2, 1100, f32, 3), 1)


@pytest.mark.parametrize("dtype", [f64, f16, bf16], ids=str)
def test_nor_in_another_dtype(dtype: DType, device_name: str) -> None:
    if dtype in poot.device(device_name).target.dtypes:
        for name in ("product", "product and sum", "scaled dots"):
            check(SCORES[name], "below the greatest", device_name, operands(7, 3, dtype, 4), 0)


def spelled_out(score: Score) -> Score:
    def attention(a: Any, b: Any, q: Any, k: Any, v: Any) -> Any:
        s = score(a, b, q, k)
        weights = ops.exp(s - ops.max(s, axis=-1, keepdims=True))
        return (weights @ v) / ops.sum(weights, axis=-1, keepdims=True)

    return attention


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", [name for name in SCORES if "dots" in name or "product" in name])
def test_attention_that_is_spelled_out_stays_finite(
    name: str, streamed: bool, fast_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        stream_anything(monkeypatch)
    arrays = operands(33, 70, f32, 3)
    values = np.random.default_rng(4).random((70, 6), np.float32)
    result = np.asarray(poot.trace(device=fast_device)(spelled_out(SCORES[name]))(*arrays, values))
    assert np.isfinite(result).all() and result.min() >= 0 and result.max() <= 1 + 1e-5
