"""Contractions by every schedule, on every device, bit for bit: small integers have exact sums in any order.

Shapes are chosen for what they are cut into: tiles with and without edges, bands of rows, panels of either operand,
slabs of K, dots; results are stored as they come or transposed, alone or with what follows.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import poot
from poot import ops
from poot.plan.compile import compile as plan
from poot.plan.limits import CompileOptions
from poot.target import Target
from poot.trace.builder import Builder
from poot.trace.evaluate import evaluate
from poot.trace.graph import Params
from poot.trace.limits import TraceLimits
from tests.plan_support import run_program

pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

BF16 = ml_dtypes.bfloat16
TRACE: Any = poot.trace
LAYOUTS = ("nn", "nt", "tn", "tt")


def operands(batch: tuple[int, ...], m: int, k: int, n: int, layout: str, dtype: Any) -> tuple[Any, ...]:
    """Both operands, one value a column, and one a result; the right operand has no batch."""
    rng = np.random.default_rng(m + k + n)
    shapes = (
        (*batch, *((k, m) if layout[0] == "t" else (m, k))),
        (n, k) if layout[1] == "t" else (k, n),
        (n,),
        (*batch, m, n),
    )
    return tuple(rng.integers(-2, 3, shape).astype(dtype) for shape in shapes)


def product(a: Any, b: Any, layout: str) -> Any:
    return (a.mT if layout[0] == "t" else a) @ (b.mT if layout[1] == "t" else b)


def exact(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def check(device: str, function: Any, *arrays: Any) -> None:
    """The device's results are those of float64, rounded to the dtype."""
    wide = TRACE(function).evaluate(*(array.astype(np.float64) for array in arrays))
    found = TRACE(function, device=device)(*arrays)
    for one, other in zip(flat(found), flat(wide), strict=True):
        dtype = np.asarray(one).dtype
        np.testing.assert_array_equal(exact(one), exact(np.asarray(other).astype(dtype)))


def flat(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, tuple) else [tree]


SMALL = [(1, 7, 5), (3, 33, 17), (5, 16, 96), (17, 40, 70), (65, 20, 33)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_layouts(shape: tuple[int, int, int], layout: str, device_name: str) -> None:
    a, b, bias, _ = operands((), *shape, layout, np.float32)
    check(device_name, lambda a, b, bias: product(a, b, layout) + bias, a, b, bias)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_stored_transposed_beside_others(layout: str, device_name: str) -> None:
    a, b, bias, other = operands((2,), 20, 24, 36, layout, np.float32)

    def run(a: Any, b: Any, bias: Any, other: Any) -> Any:
        y = product(a, b, layout)
        return y + bias, (y - other).mT

    check(device_name, run, a, b, bias, other)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.int32], ids=str)
@pytest.mark.parametrize("layout", ("nn", "nt"))
def test_dtypes(dtype: Any, layout: str, device_name: str) -> None:
    a, b, bias, _ = operands((), 18, 30, 40, layout, dtype)
    check(device_name, lambda a, b, bias: ops.maximum(product(a, b, layout) + bias, bias), a, b, bias)


def test_what_passes_the_accumulator_is_infinite() -> None:
    """Sums in f32 overflow as f32 does, whatever the result's dtype: by the oracle, and by a program."""
    builder = Builder(TraceLimits.STANDARD, name="f")
    x = builder.input("x", poot.f32[2, 3])
    params = Params(contract=((1,), (1,)), batch=((), ()), accumulate=poot.f32, dtype=poot.f64)
    graph = builder.finish(builder.emit("dot_general", [x, x], params)[0])
    array = np.array([[1, 2, 3], [2e30, 1, 0]], np.float32)
    expected = evaluate(graph, {"x": array}).output
    np.testing.assert_array_equal(expected, [[14, np.float32(2e30) + 2], [np.float32(2e30) + 2, np.inf]])
    found, _ = run_program(plan(graph, Target.parse("interpret"), CompileOptions()), {"x": array})
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(expected, np.float32))


# --- sizes that the CPU cuts up -------------------------------------------------------------------------------------

CUTS: dict[str, tuple[tuple[int, int, int], Any]] = {
    "panels of columns": ((40, 300, 100), np.float32),
    "panels past the last column and row": ((67, 300, 131), np.float32),
    "bands of rows": ((300, 520, 130), np.float32),
    "an uneven last band": ((333, 520, 100), np.float32),
    "panels of rows": ((70, 70, 260), np.float32),
    "f64": ((37, 300, 75), np.float64),
    "i8": ((37, 300, 75), np.int8),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CUTS)
def test_cuts(name: str, layout: str) -> None:
    shape, dtype = CUTS[name]
    a, b, bias, _ = operands((), *shape, layout, dtype)
    if dtype is np.int8:  # sums of 300 products stay within it
        a, b = np.sign(a), np.sign(b)
    check("cpu", lambda a, b, bias: product(a, b, layout) + bias, a, b, bias)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_share_panels(layout: str) -> None:
    a, b, bias, _ = operands((3,), 70, 300, 90, layout, np.float32)
    check("cpu", lambda a, b, bias: product(a, b, layout) + bias, a, b, bias)


SLABS = [(None, 1030, 512), (1, 257, 1000), (2, 130, 20000), (3, 260, 1000), (4, 257, 520)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.float64], ids=str)
@pytest.mark.parametrize(("rows", "k", "n"), SLABS)
def test_slabs_of_few_rows(rows: int | None, k: int, n: int, dtype: Any) -> None:
    a, b, bias, _ = operands((), rows or 1, k, n, "nn", dtype)
    x = a[0] if rows is None else a
    check("cpu", lambda x, b, bias: x @ b + bias, x, b, bias)


def test_slabs_are_two_kernels() -> None:
    program = TRACE(lambda x, b: x @ b).program(poot.f32[300], poot.f32[300, 520], device="cpu")
    assert [kernel.name for kernel in program.kernels] == ["dot_general_part", "dot_general_join"]


def test_slabs_with_a_batch() -> None:
    a, b = operands((), 1, 300, 520, "nn", np.float32)[:2]
    x, w = np.stack([a, 2 * a]), np.stack([b, b + 1])
    check("cpu", lambda x, w: (x @ w).mT, x, w)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int32], ids=str)
@pytest.mark.parametrize(("rows", "k", "n"), [(None, 64, 8), (1, 1000, 4096), (2, 131, 6), (3, 777, 13), (4, 64, 1)])
def test_dots_share_rows_between_columns(rows: int | None, k: int, n: int, dtype: Any, device_name: str) -> None:
    """Columns that are a multiple of what a work-group takes, and others; either operand may be the one of few rows."""
    rng = np.random.default_rng(k)
    x = rng.integers(-2, 3, k if rows is None else (rows, k)).astype(dtype)
    w = rng.integers(-2, 3, (n, k)).astype(dtype)
    check(device_name, lambda x, w: (x @ w.mT, w @ x.mT if x.ndim == 2 else w @ x), x, w)


def test_dots_with_a_batch(device_name: str) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((3, 2, 200), (3, 12, 200)))
    check(device_name, lambda x, w: ops.nn.relu(x @ w.mT + 1), x, w)
