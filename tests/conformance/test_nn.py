"""`ops.nn` on every device against the oracle: compositions fuse in ways of their own, so each is compiled once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import poot
from poot import ops
from poot.trace.ops import nn
from tests.closeness import COMPOSED

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

RNG = np.random.default_rng(9)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def integers(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape).astype(np.int32)


Q, K, V, SINKS = normal(2, 4, 5, 8), normal(2, 2, 7, 8), normal(2, 2, 7, 8), normal(4)
BF16 = ml_dtypes.bfloat16
SCALING = nn.RopeYaRN(8.0, 64)
EXPERTS = normal(6, 7, 8), normal(6, 8, 7), normal(6, 7, 8)
KEY = np.uint32([1, 2])


def activations(x: Any) -> Any:
    names = "relu6 leaky_relu elu celu selu sigmoid log_sigmoid silu softplus softsign mish gelu hardsigmoid hardswish"
    return [getattr(nn, name)(x) for name in names.split()]


CASES: dict[str, tuple[Any, ...]] = {
    "activations": (activations, normal(33) * 5),
    "activations, bf16": (activations, normal(33, dtype=BF16)),
    "gated": (
        lambda a, b: (nn.swiglu(a, b), nn.geglu(a, b), nn.glu(a), nn.softcap(b, 3.0)),
        normal(3, 6),
        normal(3, 6),
    ),
    "attention": (lambda q, k, v: nn.attention(q, k, v, causal=True, window=3, softcap=5.0), Q, K, V),
    "attention, sinks": (
        lambda q, k, v, s, n: nn.attention(q, k, v, sinks=s, causal=True, offset=n),
        Q,
        K,
        V,
        SINKS,
        np.array(1, np.int32),
    ),
    "attention, bf16": (lambda q, k, v: nn.attention(q, k, v), *(x.astype(BF16) for x in (Q, K, V))),
    "rope": (lambda x, p: nn.rope(x, p, dims=6, scaling=SCALING), Q, integers(500, 5)),
    "rope, interleaved": (
        lambda x, p: nn.rope(x, p, interleaved=True, scaling=nn.RopeDynamicNTK(2.0, 64)),
        Q,
        integers(500, 5),
    ),
    "alibi": (lambda x: x + nn.alibi(12, 3, 5), normal(12, 3, 5)),
    "gating": (lambda x, b: nn.top_k_gating(x, 2, scoring="sigmoid", bias=b, groups=(4, 2)), normal(5, 8), normal(8)),
    "moe, dense": (
        lambda x, s, p, u, d, g: nn.moe(x, s, p, u, d, g),
        normal(5, 8),
        normal(5, 2),
        integers(6, 5, 2),
        *EXPERTS,
    ),
    "moe, gather": (
        lambda x, s, p, u, d, g: nn.moe(x, s, p, u, d, g),
        normal(1, 8),
        normal(1, 2),
        integers(6, 1, 2),
        *EXPERTS,
    ),
    "conv1d": (
        lambda x, w, b: nn.conv1d(x, w, b, stride=2, padding="same"),
        normal(2, 3, 17),
        normal(4, 3, 5),
        normal(4),
    ),
    "repeated keys": (lambda q, k: ops.matmul(q, ops.matrix_transpose(ops.repeat(k, 2, axis=1))), Q, K),
    "conv2d": (lambda x, w: nn.conv2d(x, w, padding=1, dilation=2), normal(2, 3, 9, 8), normal(4, 3, 3, 3)),
    "conv2d, wide": (lambda x, w: nn.conv2d(x, w, padding=1), normal(1, 16, 48, 48), normal(32, 16, 3, 3)),
    "conv2d, groups": (lambda x, w: nn.conv2d(x, w, groups=4, padding=1), normal(2, 4, 9, 8), normal(8, 1, 3, 3)),
    "conv2d, i8": (
        lambda x, w: nn.conv2d(x, w, dtype="i32"),
        normal(1, 3, 6, 6).astype(np.int8),
        normal(2, 3, 3, 3).astype(np.int8),
    ),
    "conv_transpose": (
        lambda x, w: nn.conv_transpose(x, w, stride=2, padding=1),
        normal(1, 3, 5, 4),
        normal(3, 2, 3, 3),
    ),
    "causal_conv1d": (lambda x, w, s: nn.causal_conv1d(x, w, before=s), normal(2, 3, 6), normal(3, 4), normal(2, 3, 3)),
    "max_pool": (lambda x: nn.max_pool(x, 3, stride=2, padding=1, ceil=True), normal(2, 3, 8, 7)),
    "avg_pool": (lambda x: nn.avg_pool(x, 3, stride=2, padding=1, ceil=True), normal(2, 3, 8, 7)),
    "cross_entropy": (
        lambda x, t, w: nn.cross_entropy(x, t, weights=w, ignore_index=2, label_smoothing=0.1),
        normal(6, 5),
        integers(5, 6),
        np.abs(normal(5)),
    ),
    "soft cross_entropy": (lambda x, t: nn.cross_entropy(x, t, reduction="none"), normal(6, 5), np.abs(normal(6, 5))),
    "norms": (
        lambda x, w: (nn.groupnorm(x, 2, w), nn.instancenorm(x, w), nn.batchnorm(x, w, w * w, w)),
        normal(2, 4, 5),
        normal(4),
    ),
    "one_hot": (lambda i: nn.one_hot(i, 5, axis=0, on=2, off=-1), integers(7, 4)),
    "greedy": (nn.greedy, normal(3, 50)),
    "sample": (
        lambda k, x, t: nn.sample(k, x, temperature=t, top_k=5, top_p=0.9, min_p=0.01),
        KEY,
        normal(8, 40),
        np.float32([0, 1, 2, 1, 0, 1, 3, 1]),
    ),
    "filters": (lambda x: (nn.keep_top_k(x, 3), nn.keep_top_p(x, 0.7), nn.keep_min_p(x, 0.1)), normal(4, 20)),
}


@pytest.mark.parametrize("name", CASES)
def test_devices_agree_with_the_oracle(name: str, device_name: str) -> None:
    function, *arrays = CASES[name]
    traced = poot.trace(function, device=device_name)
    expected, actual = traced.evaluate(*arrays), traced(*arrays)
    tolerance = COMPOSED["bfloat16" if any(array.dtype == BF16 for array in arrays) else "float32"]
    for one, other in zip(flat(actual), flat(expected), strict=True):
        found = np.asarray(one)
        assert found.dtype == other.dtype
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(found, other)
        else:
            wide = other.astype(np.float64)
            np.testing.assert_allclose(found.astype(np.float64), wide, rtol=tolerance, atol=tolerance)


def flat(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, (list, tuple)) else [tree]


def test_eager_arrays() -> None:
    """The same functions on concrete arrays, without a trace."""
    x, w = poot.asarray(normal(1, 2, 5, 5)), poot.asarray(normal(3, 2, 3, 3))
    np.testing.assert_allclose(
        np.asarray(ops.nn.conv2d(x, w)), poot.trace(nn.conv2d).evaluate(x, w), rtol=1e-5, atol=1e-5
    )
    assert np.asarray(ops.nn.alibi_slopes(8)).tolist() == [2.0**-i for i in range(1, 9)]
    assert ops.nn.rope_frequencies(8).shape == (4,)
    token = ops.nn.sample(ops.random.key(0), poot.asarray(normal(2, 9)), top_k=3)
    assert token.shape == (2,)
