"""Sorts of rows longer than those that are sorted by counting: a loop over the stages of a network, on every device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import poot
from poot import f32, ops
from poot.plan.program import Loop

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

TRACE: Any = poot.trace


def keys(dtype: Any, *shape: int) -> Any:
    """Few different keys, so that ties are common, with NaN and both zeros among floats."""
    rng = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 9, shape).astype(dtype)
    return rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.25, 7.0]), shape).astype(dtype)


def same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        unsigned = f"u{one.dtype.itemsize}"
        np.testing.assert_array_equal(one.view(unsigned), other.view(unsigned))


def everything(x: Any) -> Any:
    return ops.sort(x), ops.argsort(x, descending=True), *ops.top_k(x, 5)


@pytest.mark.parametrize("count", [65, 129, 300])
def test_lengths(count: int, device_name: str) -> None:
    """Networks of even and odd numbers of stages, for powers of two and others."""
    x = keys(np.float32, 2, count)
    same(TRACE(everything, device=device_name)(x), TRACE(everything).evaluate(x))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.int32, np.bool_], ids=str)
def test_dtypes(dtype: Any, device_name: str) -> None:
    x = keys(dtype, 3, 70)
    same(TRACE(everything, device=device_name)(x), TRACE(everything).evaluate(x))


def test_along_other_axes_and_in_loops(device_name: str) -> None:
    def run(x: Any) -> Any:
        turns = ops.scan(lambda c, _: (ops.sort(c * -1.0, axis=0), c[0]), x, length=2)
        return ops.sort(x, axis=0), *turns

    x = np.random.default_rng(0).integers(-9, 9, (90, 3)).astype(np.float32)
    same(TRACE(run, device=device_name)(x), TRACE(run).evaluate(x))


@pytest.mark.parametrize("count", [100, 1000, 1 << 20])
def test_few_kernels(count: int) -> None:
    """One kernel for all stages of the network, however many there are."""
    for function in (ops.sort, ops.argsort, lambda x: ops.top_k(x, 3)):
        program = TRACE(function).program(f32[count], device="cpu")
        assert len(program.kernels) <= 10
        (loop,) = [step for step in program.steps if isinstance(step, Loop)]
        assert len(loop.body) == 3
