"""A call has done with its NumPy arrays when it returns: what becomes of them later changes no result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poot
from poot.errors import LaunchError
from poot.kernel.language import InOut, thread_index

TRACE: Any = poot.trace
SIZES = (100, 100_000)


@pytest.mark.parametrize("size", SIZES)
def test_an_argument(size: int, device_name: str) -> None:
    f, x = TRACE(lambda x: x + 1, device=device_name), np.empty(size, np.float32)
    results: list[Any] = []
    for turn in range(6):
        x[:] = turn
        results.append(f(x))
    x[:] = 99
    for turn, result in enumerate(results):
        assert (np.asarray(result) == turn + 1).all()


@pytest.mark.parametrize("size", SIZES)
def test_captured_arrays_and_operands(size: int, device_name: str) -> None:
    held, x = np.ones(size, np.float32), np.ones(size, np.float32)
    p = poot.asarray(np.ones(size, np.float32), device=device_name)
    f = TRACE(lambda x: (x * held, x), device=device_name)
    f(x)
    found = [*f(x), p + x, f(p)[0]]
    held[:], x[:] = 7, 50
    for result, wanted in zip(found, (1, 1, 2, 1), strict=True):
        assert (np.asarray(result) == wanted).all()


@poot.kernel
def fill(c: InOut[poot.u8]):
    i = thread_index()
    if i < len(c):
        c[i] = 88


def test_memory_that_nobody_may_write(device_name: str) -> None:
    text = b"constant" * 4
    try:
        p = poot.asarray(np.frombuffer(text, np.uint8), copy=False, device=device_name)
    except poot.errors.ArgumentError:
        return  # a device with memory of its own
    with pytest.raises(LaunchError, match="read-only"):
        fill(p, threads=len(text))
    assert text == b"constant" * 4
