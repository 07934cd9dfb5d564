"""What a call costs: a small addition, and a chain of a hundred small operations."""

from __future__ import annotations

from typing import Any

import numpy as np

import poot
from benchmarks.cpu.peers import with_jax, with_numba, with_torch
from benchmarks.cpu.row import Row, Run

N = 1024
STEPS = 50


def _add() -> dict[str, Run]:
    x, y = np.arange(N, dtype=np.float32), np.ones(N, np.float32)
    ours = poot.trace(lambda x, y: x + y)

    def numba(module: Any) -> Any:
        @module.njit
        def run(x, y):
            out = np.empty_like(x)
            for i in range(x.size):
                out[i] = x[i] + y[i]
            return out

        return run

    return {
        "poot": lambda: ours(x, y),
        "NumPy": lambda: x + y,
        **with_jax(lambda _, jnp: lambda x, y: x + y, [x, y]),
        **with_numba(numba, [x, y]),
        **with_torch(lambda t: lambda x, y: x + y, [x, y], compiled=True),
    }


def chain(x: Any) -> Any:
    """STEPS products and as many sums, one after the other."""
    for i in range(STEPS):
        x = x * (1 + i / 1000) + 0.25
    return x


def _chain() -> dict[str, Run]:
    x = np.arange(N, dtype=np.float32)
    ours = poot.trace(chain)
    launches = len(ours.program(poot.f32[N], device="cpu").launches)
    if launches != 1:
        raise ValueError(f"the chain became {launches} kernels; it should be one")
    return {
        "poot": lambda: ours(x),
        "NumPy": lambda: chain(x),
        **with_jax(lambda _, jnp: chain, [x]),
        **with_torch(lambda t: chain, [x], compiled=True),
    }


def rows() -> list[Row]:
    """The rows that the cost of a call bounds."""
    return [
        Row("call", f"x + y, {N} elements", _add),
        Row("chain", f"{2 * STEPS} elementwise operations on {N} elements, one kernel", _chain),
    ]
