"""Work that arithmetic bounds: matrix products and attention, float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import poot
from benchmarks.cpu.peers import with_jax, with_onnxruntime, with_torch
from benchmarks.cpu.row import Row, Run
from poot import ops

LINEAR = (2048, 1024, 4096)
HEADS, LENGTH, DEPTH = 8, 1024, 64
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "nn": lambda x, y: x @ y,
    "nt": lambda x, y: x @ y.T,
    "tn": lambda x, y: x.T @ y,
    "tt": lambda x, y: x.T @ y.T,
}


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _matmul(m: int, k: int, n: int, layout: str) -> dict[str, Run]:
    """[m, k] times [k, n]; `layout` says for each operand whether it is stored as it is (n) or transposed (t)."""
    a = _normal(m, k) if layout[0] == "n" else _normal(k, m).T
    b = _normal(k, n, seed=1) if layout[1] == "n" else _normal(n, k, seed=1).T
    stored_a, stored_b = (array if array.flags.c_contiguous else array.T for array in (a, b))
    product, stored = PRODUCTS[layout], [stored_a, stored_b]
    ours = poot.trace(product)
    transposes = {"transA": int(layout[0] == "t"), "transB": int(layout[1] == "t")}
    return {
        "poot": lambda: np.asarray(ours(*stored)),
        "NumPy": lambda: a @ b,
        **with_jax(lambda _, jnp: product, stored),
        **with_torch(lambda t: product, stored, compiled=False),
        **with_onnxruntime(lambda m: m("Gemm", "a", "b", **transposes), {"a": stored_a, "b": stored_b}),
    }


def _batched() -> dict[str, Run]:
    a, b = _normal(12, 257, 65), _normal(12, 65, 129, seed=1)
    ours = poot.trace(lambda x, y: x @ y)
    return {
        "poot": lambda: np.asarray(ours(a, b)),
        "NumPy": lambda: a @ b,
        **with_jax(lambda _, jnp: lambda x, y: x @ y, [a, b]),
        **with_torch(lambda t: lambda x, y: x @ y, [a, b], compiled=False),
    }


def _linear() -> dict[str, Run]:
    m, k, n = LINEAR
    x, w, b = _normal(m, k), _normal(k, n, seed=1) / np.float32(32), _normal(n, seed=2)
    ours = poot.trace(lambda x, w, b: ops.nn.gelu(x @ w + b, approximate=True))

    def numpy() -> np.ndarray:
        h = x @ w + b
        return np.float32(0.5) * h * (1 + np.tanh(np.float32(0.7978845608) * (h + np.float32(0.044715) * h * h * h)))

    def torch(t: Any) -> Any:
        return lambda x, w, b: t.nn.functional.gelu(t.addmm(b, x, w), approximate="tanh")

    return {
        "poot": lambda: np.asarray(ours(x, w, b)),
        "NumPy": numpy,
        **with_jax(lambda jax, _: lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=True), [x, w, b]),
        **with_torch(torch, [x, w, b], compiled=True),
        **with_onnxruntime(lambda m: m("Gelu", m("Gemm", "x", "w", "b"), approximate="tanh"), {"x": x, "w": w, "b": b}),
    }


def _attention() -> dict[str, Run]:
    q, k, v = (_normal(HEADS, LENGTH, DEPTH, seed=seed) for seed in range(3))
    scale = DEPTH**-0.5

    def ours(q: poot.Array, k: poot.Array, v: poot.Array) -> poot.Array:
        i = ops.arange(LENGTH)
        scores = ops.where(i[:, None] >= i[None, :], q @ k.mT * scale, -float("inf"))
        return ops.nn.softmax(scores) @ v

    def numpy() -> np.ndarray:
        scores = np.where(np.tri(LENGTH, dtype=bool), q @ k.swapaxes(1, 2) * np.float32(scale), np.float32(-np.inf))
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    def jax(module: Any, jnp: Any) -> Any:
        def run(q, k, v):
            scores = jnp.where(jnp.tri(LENGTH, dtype=bool), q @ k.swapaxes(1, 2) * scale, -jnp.inf)
            return module.nn.softmax(scores) @ v

        return run

    def torch(t: Any) -> Any:
        return lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[
            0
        ]

    traced = poot.trace(ours)
    return {
        "poot": lambda: np.asarray(traced(q, k, v)),
        "NumPy": numpy,
        **with_jax(jax, [q, k, v]),
        **with_torch(torch, [q, k, v], compiled=False),
    }


def rows() -> list[Row]:
    """The rows that arithmetic bounds."""
    sizes = [
        (1024, 1024, 1024, "nn"),
        (2048, 2048, 2048, "nn"),
        (1000, 999, 1001, "nn"),
        (17, 4096, 300, "nn"),
        (2047, 2047, 2047, "nn"),
        (1024, 1024, 1024, "nt"),
        (1024, 1024, 1024, "tn"),
        (1024, 1024, 1024, "tt"),
    ]
    products = [
        Row(
            f"matmul_{m}x{k}x{n}{'' if layout == 'nn' else '_' + layout}",
            f"[{m}, {k}] @ [{k}, {n}]" + ("" if layout == "nn" else f", stored {layout}"),
            functools.partial(_matmul, m, k, n, layout),
            flops=2 * m * k * n,
        )
        for m, k, n, layout in sizes
    ]
    m, k, n = LINEAR
    return [
        *products,
        Row("matmul_batched", "12 of [257, 65] @ [65, 129]", _batched, flops=2 * 12 * 257 * 65 * 129),
        Row("linear", f"gelu([{m}, {k}] @ [{k}, {n}] + bias)", _linear, flops=2 * m * k * n),
        Row(
            "attention",
            f"causal attention in plain operations, {HEADS} heads, {LENGTH}x{DEPTH}",
            _attention,
            flops=2 * HEADS * LENGTH * LENGTH * DEPTH,
        ),
    ]
