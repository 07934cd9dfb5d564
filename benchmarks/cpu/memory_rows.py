"""Work that memory bounds: elementwise functions, rows, and a matrix times a vector of 16-bit weights."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

import poot
from benchmarks.cpu.peers import with_jax, with_numba, with_onnxruntime, with_torch
from benchmarks.cpu.row import Row, Run
from poot import ops

N = 16 * 1024 * 1024
ROWS, COLUMNS = 4096, 4096
EPS = 1e-6


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _pointwise() -> dict[str, Run]:
    x = _normal(N)
    ours = poot.trace(lambda x: ops.tanh(x) * 1.5 + ops.exp(-x * x) * 0.5)

    def numba(module: Any) -> Any:
        @module.njit(parallel=True)
        def run(x):
            out = np.empty_like(x)
            for i in module.prange(x.size):
                out[i] = math.tanh(x[i]) * np.float32(1.5) + math.exp(-x[i] * x[i]) * np.float32(0.5)
            return out

        return run

    return {
        "poot": lambda: np.asarray(ours(x)),
        "NumPy": lambda: np.tanh(x) * np.float32(1.5) + np.exp(-x * x) * np.float32(0.5),
        **with_jax(lambda _, jnp: lambda x: jnp.tanh(x) * 1.5 + jnp.exp(-x * x) * 0.5, [x]),
        **with_numba(numba, [x]),
        **with_torch(lambda t: lambda x: t.tanh(x) * 1.5 + t.exp(-x * x) * 0.5, [x], compiled=True),
    }


def _softmax() -> dict[str, Run]:
    x = _normal(ROWS, COLUMNS)
    ours = poot.trace(lambda x: ops.nn.softmax(x))

    def numpy() -> np.ndarray:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def numba(module: Any) -> Any:
        @module.njit(parallel=True, fastmath=True)
        def run(x):
            out = np.empty_like(x)
            for i in module.prange(x.shape[0]):
                top = x[i, 0]
                for j in range(x.shape[1]):
                    top = max(top, x[i, j])
                total = np.float32(0)
                for j in range(x.shape[1]):
                    out[i, j] = math.exp(x[i, j] - top)
                    total += out[i, j]
                for j in range(x.shape[1]):
                    out[i, j] /= total
            return out

        return run

    return {
        "poot": lambda: np.asarray(ours(x)),
        "NumPy": numpy,
        **with_jax(lambda jax, _: lambda x: jax.nn.softmax(x), [x]),
        **with_numba(numba, [x]),
        **with_torch(lambda t: lambda x: t.softmax(x, -1), [x], compiled=True),
        **with_onnxruntime(lambda m: m("Softmax", "x"), {"x": x}),
    }


def _rmsnorm() -> dict[str, Run]:
    x, w = _normal(ROWS, COLUMNS), _normal(COLUMNS, seed=1)
    ours = poot.trace(lambda x, w: ops.nn.rmsnorm(x, w, eps=EPS))

    def numba(module: Any) -> Any:
        @module.njit(parallel=True, fastmath=True)
        def run(x, w):
            out = np.empty_like(x)
            for i in module.prange(x.shape[0]):
                total = np.float32(0)
                for j in range(x.shape[1]):
                    total += x[i, j] * x[i, j]
                scale = np.float32(1) / np.sqrt(total / np.float32(x.shape[1]) + np.float32(EPS))
                for j in range(x.shape[1]):
                    out[i, j] = x[i, j] * scale * w[j]
            return out

        return run

    return {
        "poot": lambda: np.asarray(ours(x, w)),
        "NumPy": lambda: x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(EPS)) * w,
        **with_jax(
            lambda jax, jnp: lambda x, w: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + EPS) * w,
            [x, w],
        ),
        **with_numba(numba, [x, w]),
        **with_torch(lambda t: lambda x, w: t.nn.functional.rms_norm(x, (COLUMNS,), w, EPS), [x, w], compiled=True),
    }


def _layernorm() -> dict[str, Run]:
    x, r = _normal(ROWS, COLUMNS), _normal(ROWS, COLUMNS, seed=1)
    w, b = _normal(COLUMNS, seed=2), _normal(COLUMNS, seed=3)
    ours = poot.trace(lambda x, r, w, b: ops.nn.gelu(ops.nn.layernorm(x + r, w, b, eps=EPS)))

    def jax(module: Any, jnp: Any) -> Any:
        def run(x, r, w, b):
            x = x + r
            x = x - x.mean(1, keepdims=True)
            x = x * module.lax.rsqrt((x * x).mean(1, keepdims=True) + EPS) * w + b
            return module.nn.gelu(x, approximate=False)

        return run

    def torch(t: Any) -> Any:
        norm, gelu = t.nn.functional.layer_norm, t.nn.functional.gelu
        return lambda x, r, w, b: gelu(norm(x + r, (COLUMNS,), w, b, EPS))

    return {
        "poot": lambda: np.asarray(ours(x, r, w, b)),
        **with_jax(jax, [x, r, w, b]),
        **with_torch(torch, [x, r, w, b], compiled=True),
        **with_onnxruntime(
            lambda m: m("Gelu", m("LayerNormalization", m("Add", "x", "r"), "w", "b", axis=-1, epsilon=EPS)),
            {"x": x, "r": r, "w": w, "b": b},
        ),
    }


def _gemv(transposed: bool) -> dict[str, Run]:
    out, inner = 4096, 14336
    shape = (inner, out) if transposed else (out, inner)
    w = (_normal(*shape) / 64).astype(ml_dtypes.bfloat16)
    x = _normal(inner, seed=1).astype(ml_dtypes.bfloat16)
    ours = poot.trace((lambda w, x: x @ w) if transposed else (lambda w, x: w @ x))

    return {
        "poot": lambda: np.asarray(ours(w, x)),
        **with_jax(lambda _, jnp: (lambda w, x: x @ w) if transposed else (lambda w, x: w @ x), [w, x]),
        **with_torch(lambda t: (lambda w, x: x @ w) if transposed else (lambda w, x: w @ x), [w, x], compiled=False),
    }


def rows() -> list[Row]:
    """The rows that memory bounds."""
    matrix, weights = ROWS * COLUMNS * 4, 4096 * 14336 * 2
    return [
        Row("pointwise", "tanh(x)*1.5 + exp(-x*x)*0.5, 16M elements", _pointwise, nbytes=N * 8),
        Row("softmax", "softmax of each row, 4096x4096", _softmax, nbytes=2 * matrix),
        Row("rmsnorm", "rmsnorm of each row, 4096x4096", _rmsnorm, nbytes=2 * matrix),
        Row("layernorm", "gelu(layernorm(x + residual)), 4096x4096", _layernorm, nbytes=3 * matrix, streams=(2, 1)),
        Row("gemv", "bf16 w[4096, 14336] @ x", lambda: _gemv(False), tolerance=2e-2, nbytes=weights, streams=(1, 0)),
        Row("gemv_t", "bf16 x @ w[14336, 4096]", lambda: _gemv(True), tolerance=2e-2, nbytes=weights, streams=(1, 0)),
    ]
