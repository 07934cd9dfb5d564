"""What no program can beat on the same machine: the bytes of a row moved, or its arithmetic done, and nothing else.

Measured like any candidate, in turn with the others, since a shared machine's memory is fast and slow by turns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import poot
from benchmarks.cpu.row import THREADS, Row, Run

#: Independent chains of multiply-adds hide the latency of one; their elements stay in the caches.
CHAINS, STEPS, ELEMENTS = 4, 60, 1 << 16
FLOPS_PER_CALL = 2 * CHAINS * STEPS * ELEMENTS


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS)


def _shared(work: Callable[..., object], *arrays: np.ndarray) -> Run:
    """`work` on an even share of the arrays in each thread."""
    shares = [np.array_split(array, THREADS) for array in arrays]

    def run() -> None:
        for _ in _threads().map(work, *shares):
            pass

    return run


def moving(nbytes: int, reads: int, writes: int) -> Run:
    """Pass bytes in `reads` arrays and out of `writes`: 1 and 0, 1 and 1, or 2 and 1."""
    arrays = [np.ones(nbytes // 4 // (reads + writes), np.float32) for _ in range(reads + writes)]
    if not writes:
        return _shared(np.dot, arrays[0], arrays[0])
    if reads == 1:
        return _shared(np.copyto, *reversed(arrays))
    return _shared(lambda a, b, out: np.add(a, b, out=out), *arrays)


def _multiply_adds(x: poot.Array) -> poot.Array:
    sums = [x + float(chain) for chain in range(CHAINS)]
    for step in range(STEPS):
        sums = [total * x + (0.5 + step) for total in sums]
    return functools.reduce(lambda a, b: a + b, sums)


def computing(flops: int) -> Run:
    """As many multiply-adds in registers, in groups of `FLOPS_PER_CALL`; fewer are timed in whole groups too."""
    x = np.linspace(-0.5, 0.5, ELEMENTS, dtype=np.float32)
    call = poot.trace(_multiply_adds)
    return lambda: [call(x) for _ in range(max(1, round(flops / FLOPS_PER_CALL)))] and None


def floor(row: Row) -> Run | None:
    """The floor of a row, or None for one that counts neither bytes nor arithmetic."""
    if row.flops:
        return computing(row.flops)
    return moving(row.nbytes, *row.streams) if row.nbytes else None
