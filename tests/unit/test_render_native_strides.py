"""Runs of accesses that lie side by side in each lane: what counts as one, and that values are those of each alone."""

import numpy as np
import pytest

from poot.dtypes import DType, bf16, f32, f64, i8, i64
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from tests.unit.native_kernels import Compiled


def transposing(width: int, count: int, dtype: DType, *, stores: bool, step: int = 1) -> Kernel:
    """y[n, lane] = x[lane, n], or with `stores` y[lane, n] = x[n, lane], for n below `count`."""
    k = KernelBuilder("transposing", workgroup=(width, 1, 1))
    x = k.buffer("x", dtype, "read", (width * count * step,))
    y = k.buffer("y", dtype, "write", (width * count * step,))
    lane, base = k.index("local", 0), k.index("group", 0)
    places = [k.let(k.op("add", base, k.i(n * step))) for n in range(count)]
    near = [k.op("add", k.op("mul", lane, k.i(count * step)), place) for place in places]
    far = [k.op("add", k.op("mul", place, k.i(width)), lane) for place in places]
    read, written = (far, near) if stores else (near, far)
    values = [k.let(k.load(x, (index,))) for index in read]
    for index, value in zip(written, values, strict=True):
        k.store(y, (index,), value)
    return k.finish()


CASES = [(16, count, f32) for count in (4, 5, 7, 8, 12, 16, 23, 33)]
CASES += [(32, 12, f32), (64, 20, f32)] + [(32, 13, dtype) for dtype in (f64, bf16, i8, i64)]


@pytest.mark.parametrize("stores", [False, True], ids=["loads", "stores"])
@pytest.mark.parametrize(("width", "count", "dtype"), CASES, ids=str)
def test_transposed(width: int, count: int, dtype: DType, stores: bool) -> None:
    compiled = Compiled(transposing(width, count, dtype, stores=stores))
    shape = (count, width) if stores else (width, count)
    x = (np.arange(width * count) % 120).reshape(shape).astype(dtype.dtype)
    y = np.zeros(x.size, dtype.dtype)
    compiled(x.reshape(-1), y, groups=(1,))
    np.testing.assert_array_equal(y.reshape(shape[::-1]), x.T)
    apart = "masked.scatter" if stores else "masked.gather"
    assert compiled.source.text.count(f"@llvm.{apart}") == count % 4


@pytest.mark.parametrize("stores", [False, True])
def test_elements_two_apart_are_no_run(stores: bool) -> None:
    compiled = Compiled(transposing(16, 8, f32, stores=stores, step=2))
    assert compiled.source.text.count("masked.scatter" if stores else "masked.gather") == 8


def test_a_local_that_changes_is_no_part_of_an_index() -> None:
    """Two indices read alike, at different times."""
    k = KernelBuilder("changing", workgroup=(16, 1, 1))
    x, y = k.buffer("x", f32, "read", (16 * 64,)), k.buffer("y", f32, "write", (4, 16))
    lane = k.index("local", 0)
    moving = k.let(k.op("mul", lane, k.i(64)))
    indices = []
    for n in range(4):
        indices.append(k.let(k.op("add", moving, k.i(n))))
        k.assign(moving, k.op("add", moving, k.i(7)))
    values = [k.let(k.load(x, (index,))) for index in indices]
    for n, value in enumerate(values):
        k.store(y, (k.i(n), lane), value)
    compiled = Compiled(k.finish())
    x_values, result = np.arange(16 * 64, dtype=np.float32), np.zeros((4, 16), np.float32)
    compiled(x_values, result, groups=(1,))
    np.testing.assert_array_equal(result, [[64 * lane + 8 * n for lane in range(16)] for n in range(4)])


def test_an_index_of_an_earlier_turn_is_no_part_of_a_later_run() -> None:
    """A local declared under a condition keeps what it was in the turn that declared it last."""
    k = KernelBuilder("earlier", workgroup=(16, 1, 1))
    x, y = k.buffer("x", f32, "read", (16 * 64,)), k.buffer("y", f32, "write", (4, 16))
    lane = k.index("local", 0)
    with k.for_(k.i(0), k.i(3), hint="turn") as turn:
        shift = k.let(k.op("mul", turn, k.i(10)))
        base = k.let(k.op("add", k.op("mul", lane, k.i(64)), shift))
        values = [k.let(k.load(x, (k.op("add", base, k.i(n)),))) for n in range(4)]
        for n, value in enumerate(values):
            k.store(y, (k.i(n), lane), value)
    compiled = Compiled(k.finish())
    assert "masked.gather" not in compiled.source.text
    x_values, result = np.arange(16 * 64, dtype=np.float32), np.zeros((4, 16), np.float32)
    compiled(x_values, result, groups=(1,))
    np.testing.assert_array_equal(result, [[64 * lane + 20 + n for lane in range(16)] for n in range(4)])


def test_under_a_mask_each_access_is_its_own() -> None:
    k = KernelBuilder("masked", workgroup=(16, 1, 1))
    x, y = k.buffer("x", f32, "read", (10 * 8,)), k.buffer("y", f32, "write", (8, 16))
    lane = k.index("local", 0)
    with k.if_(k.op("lt", lane, k.i(10))):
        values = [k.let(k.load(x, (k.op("add", k.op("mul", lane, k.i(8)), k.i(n)),))) for n in range(8)]
        for n, value in enumerate(values):
            k.store(y, (k.i(n), lane), value)
    compiled = Compiled(k.finish())
    values_in, result = np.arange(80, dtype=np.float32), np.zeros((8, 16), np.float32)
    compiled(values_in, result, groups=(1,))
    np.testing.assert_array_equal(result[:, :10], values_in.reshape(10, 8).T)
    assert not result[:, 10:].any()
