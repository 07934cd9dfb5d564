"""Rare blocks that a native kernel has several times become one function, and results stay the same to the bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, f64, ops
from poot.api.kernels import kernel
from poot.kernel.language import In, Out, thread_index
from poot.kernel.pipeline import prepare
from poot.kernel.render import llvm_lanes

TRACE: Any = poot.trace
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")
FUNCTIONS = {"sin": ops.sin, "cos": ops.cos, "tan": ops.tan}


@kernel
def turned(x: In[f32], y: Out[f32]):
    i = thread_index()
    if i < len(y):
        value = x[i]
        turn = 0
        while turn < 3 and value < 1e30:
            if value > 0.0:
                value = math.sin(value) * 1e9 + math.cos(value * 1e5)
            else:
                value = math.sin(value * 1e7) - 1.0
            turn += 1
        y[i] = value


def text_of(function: Any, *specs: Any) -> str:
    program = TRACE(function).program(*specs, device="cpu")
    (kernel,) = program.kernels
    return llvm_lanes.render(prepare(kernel, program.target)).text


def arguments(dtype: Any) -> Any:
    """Small and large arguments of either sign, with the least and greatest, infinities and NaN."""
    rng = np.random.default_rng(0)
    unsigned = f"u{np.dtype(dtype).itemsize}"
    patterns = rng.integers(0, np.iinfo(unsigned).max, 4000, unsigned, endpoint=True).view(dtype)
    info = np.finfo(dtype)
    special = np.array([0, -0.0, 1e-30, 3216, 3217, 1e6, 1e22, info.max, info.tiny, np.inf, -np.inf, np.nan], dtype)
    return np.concatenate([rng.standard_normal(997).astype(dtype) * 10, special, patterns])


def test_one_function_for_all_calls() -> None:
    chain = text_of(lambda x: ops.sin(ops.cos(ops.sin(x) * 2) + 1), f32[4096])
    assert chain.count("define internal fastcc") == 1
    assert chain.count("call fastcc") == 3
    assert "define internal fastcc" not in text_of(lambda x: ops.sin(x), f32[4096])


def test_dtypes_have_functions_of_their_own() -> None:
    def run(x: Any, y: Any) -> Any:
        return ops.sin(ops.sin(x)).astype(f64) + ops.cos(ops.cos(y))

    text = text_of(run, f32[4096], f64[4096])
    assert text.count("define internal fastcc") == 2
    assert text.count("call fastcc") == 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_results_are_the_same_to_the_bit(dtype: Any) -> None:
    x = arguments(dtype)

    def several(x: Any) -> Any:
        return tuple(function(x * factor) for function in FUNCTIONS.values() for factor in (1, 3))

    found = TRACE(several)(x)
    alone = [
        TRACE(lambda x, function=function, factor=factor: function(x * factor))(x)
        for function in FUNCTIONS.values()
        for factor in (1, 3)
    ]
    unsigned = f"u{np.dtype(dtype).itemsize}"
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(one).view(unsigned), np.asarray(other).view(unsigned))


def test_under_masks_and_in_loops() -> None:
    """Calls for some lanes only, and of values that change from turn to turn."""

    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(100) * 1e4, rng.standard_normal(57), [np.inf, 1e35, -1e35]])
    x = x.astype(np.float32)
    y = np.zeros_like(x)
    turned(x, y, threads=len(x))
    expected = np.zeros_like(x)
    turned.interpret(x, expected, threads=len(x))
    np.testing.assert_array_equal(y.view("u4"), expected.view("u4"))


def test_blocks_of_uniform_values_stay_where_they_are() -> None:
    """A number that all lanes share takes no lane's path; the element beside it does."""
    x, a = arguments(np.float32), np.float32(1e8)

    def run(x: Any, a: Any) -> Any:
        return ops.sin(x + ops.sin(a)) + ops.cos(a * 2) * ops.sin(x)

    found = np.asarray(TRACE(run)(x, a))
    np.testing.assert_allclose(found, np.asarray(TRACE(run).evaluate(x, a)), rtol=0, atol=1e-4)
