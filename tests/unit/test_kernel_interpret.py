"""The interpreter: grids, strided and other memory, groups and their collectives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.dtypes import DType, bf16, bool_, f16, f32, i32, i64, u8
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.interpret import BufferView, bind, run
from poot.kernel.interpret import launch as launching
from poot.kernel.ir import Expr, Kernel
from tests.kernel_reference import run_reference

Array = np.ndarray[Any, Any]


def launch(kernel: Kernel, values: dict[str, Any], groups: tuple[int, int, int], **fields: Any) -> None:
    check(kernel)
    run(kernel, bind(kernel, values, threads=fields.pop("threads", ())), groups=groups, **fields)


# --- grids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000, 1 << 16])
@pytest.mark.parametrize("grid", [(1, 1, 1), (100, 1, 1), (13, 5, 1), (9, 3, 4), (1, 1, 6), (1, 20, 3)])
def test_every_thread_runs_once(monkeypatch: pytest.MonkeyPatch, chunk: int, grid: tuple[int, int, int]) -> None:
    monkeypatch.setattr(launching, "CHUNK", chunk)
    x, y, z = grid
    k = KernelBuilder("grid", workgroup=(4, 2, 1), threads=(x, None, z))
    out = k.buffer("out", i32, "readwrite", (z, y, x, 3))
    thread = [k.index("thread", axis) for axis in (2, 1, 0)]
    for kind in ("thread", "local", "group"):
        number = k.index(kind, 1)  # type: ignore[arg-type]
        for axis, scale in ((0, 100), (2, 10000)):
            number = k.op("add", number, k.op("mul", k.index(kind, axis), k.i(scale)))  # type: ignore[arg-type]
        place = [*thread, k.i(["thread", "local", "group"].index(kind))]
        k.store(out, place, k.op("add", k.load(out, place), k.op("add", number, k.i(1))))
    result = np.zeros((z, y, x, 3), np.int32)
    launch(k.finish(), {"out": result}, (-(-x // 4), -(-y // 2), z), threads=[y])
    tz, ty, tx = np.indices((z, y, x))
    np.testing.assert_array_equal(result[..., 0], 1 + ty + 100 * tx + 10000 * tz)
    np.testing.assert_array_equal(result[..., 1], 1 + ty % 2 + 100 * (tx % 4))
    np.testing.assert_array_equal(result[..., 2], 1 + ty // 2 + 100 * (tx // 4) + 10000 * tz)


@pytest.mark.parametrize("chunk", [1, 30, 1 << 16])
def test_groups_that_act_together(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Every launch number, with the lanes of a group in linear order."""
    monkeypatch.setattr(launching, "CHUNK", chunk)
    size, groups = (3, 2, 2), (2, 3, 2)
    k = KernelBuilder("groups", workgroup=size)
    out = k.buffer("out", i32, "write", (4, 6, 6, 4))
    thread = [k.index("thread", axis) for axis in (2, 1, 0)]
    linear = k.op("add", k.index("local", 0), k.op("mul", k.index("local", 1), k.i(3)))
    linear = k.op("add", linear, k.op("mul", k.index("local", 2), k.i(6)))
    group = k.op("add", k.index("group", 0), k.op("mul", k.index("group", 1), k.i(10)))
    group = k.op("add", group, k.op("mul", k.index("group", 2), k.i(100)))
    k.store(out, [*thread, k.i(0)], k.collective("scan", linear))
    k.store(out, [*thread, k.i(1)], k.collective("sum", group))
    k.store(out, [*thread, k.i(2)], k.collective("max", k.index("thread", 0)))
    k.store(out, [*thread, k.i(3)], k.collective("scan", k.i(1)))
    result = np.zeros((4, 6, 6, 4), np.int32)
    kernel = k.finish()
    launch(kernel, {"out": result}, groups)
    expected = np.zeros_like(result)
    run_reference(kernel, {"out": expected}, groups, (6, 6, 4))
    np.testing.assert_array_equal(result, expected)


def test_an_empty_grid_does_nothing() -> None:
    k = KernelBuilder("none", workgroup=(8, 1, 1), threads=(None, 1, 1))
    out = k.buffer("out", i32, "write", (None,))
    k.store(out, (k.index("thread", 0),), k.i(1), checked=True)
    launch(k.finish(), {"out": np.zeros(0, np.int32)}, (1, 1, 1), threads=[0])
    launch(k.finish(), {"out": np.zeros(0, np.int32)}, (0, 1, 1), threads=[5])


def test_indices_of_64_bits() -> None:
    k = KernelBuilder("wide", workgroup=(8, 1, 1), threads=(20, 1, 1), index_dtype=i64)
    out = k.buffer("out", i64, "write", (20,))
    i = k.index("thread", 0)
    k.store(out, (i,), k.op("mul", i, k.const(2**40, i64)), checked=True)
    result = np.zeros(20, np.int64)
    launch(k.finish(), {"out": result}, (3, 1, 1))
    np.testing.assert_array_equal(result, np.arange(20) * 2**40)


def test_thread_arithmetic_wraps() -> None:
    k = KernelBuilder("wrap", workgroup=(8, 1, 1), threads=(64, 1, 1))
    out = k.buffer("out", i32, "write", (3, 64))
    i = k.index("thread", 0)
    k.store(out, (k.i(0), i), k.op("mul", i, k.i(2**27)))
    k.store(out, (k.i(1), i), k.cast(k.op("sub", i, k.i(3)), i32))
    k.store(out, (k.i(2), i), k.cast(k.cast(k.op("sub", k.i(3), i), u8), i32))
    result = np.zeros((3, 64), np.int32)
    launch(k.finish(), {"out": result}, (8, 1, 1))
    i64s = np.arange(64)
    np.testing.assert_array_equal(result[0], (i64s * 2**27).astype(np.int32))
    np.testing.assert_array_equal(result[1], i64s - 3)
    np.testing.assert_array_equal(result[2], (3 - i64s) % 256)


# --- memory ---------------------------------------------------------------------------------------------------------


def copy(rank: int, dtype: DType = f32) -> Kernel:
    k = KernelBuilder("copy", workgroup=(8, 1, 1), threads=(None, None, None))
    x = k.buffer("x", dtype, "read", (None,) * rank, (None,) * rank)
    y = k.buffer("y", dtype, "write", (None,) * rank, (None,) * rank)
    place = [k.index("thread", axis) for axis in reversed(range(rank))]
    k.store(y, place, k.load(x, place, checked=True), checked=True)
    return k.finish()


@pytest.mark.parametrize("dtype", [bool_, u8, f16, bf16, f32, i64], ids=str)
@pytest.mark.parametrize(
    "view",
    [lambda a: a, lambda a: a[::-1, 1::2], lambda a: a.T, lambda a: a[2:5, ::-3], lambda a: a[:, :1]],
    ids=["whole", "reversed", "transposed", "part", "column"],
)
def test_strided_arrays(dtype: DType, view: Callable[[Array], Array]) -> None:
    source = view(np.arange(70).reshape(7, 10).astype(dtype.dtype))
    target = view(np.zeros((7, 10), dtype.dtype))
    rows, columns = source.shape
    launch(copy(2, dtype), {"x": source, "y": target}, (10, 10, 1), threads=[columns, rows, 1])
    np.testing.assert_array_equal(target, source)


def test_scalars_are_arrays_of_rank_0() -> None:
    x, y = np.array(3.5, np.float32), np.array(0.0, np.float32)
    launch(copy(0), {"x": x, "y": y}, (1, 1, 1), threads=[1, 1, 1])
    assert y == 3.5


def test_a_buffer_may_start_inside_its_memory() -> None:
    memory = np.arange(20, dtype=np.float32)
    out = np.zeros(4, np.float32)
    kernel = copy(1)
    run(kernel, [BufferView(memory, 10), 4, -2, out, 4, 1, 4, 1, 1], groups=(1, 1, 1))
    np.testing.assert_array_equal(out, [10, 8, 6, 4])


def gathered(body: Callable[[KernelBuilder, Expr, Expr], None], n: int = 40) -> Array:
    """Run a body that has thread i and its entry of a permutation; returns `out`."""
    k = KernelBuilder("gather", workgroup=(8, 1, 1), threads=(n, 1, 1))
    k.buffer("p", i32, "read", (n,))
    k.buffer("x", f32, "read", (n,))
    k.buffer("out", f32, "readwrite", (n,))
    i = k.index("thread", 0)
    body(k, i, k.let(k.load("p", (i,)), "at"))
    permutation = np.random.default_rng(0).permutation(n).astype(np.int32)
    out = np.full(n, -1, np.float32)
    values = {"p": permutation, "x": np.arange(n, dtype=np.float32), "out": out}
    launch(k.finish(), values, (-(-n // 8), 1, 1))
    return np.stack([out, permutation])


def test_gather_and_scatter() -> None:
    out, permutation = gathered(lambda k, i, at: k.store("out", (i,), k.load("x", (at,))))
    np.testing.assert_array_equal(out, permutation)
    out, permutation = gathered(lambda k, i, at: k.store("out", (at,), k.cast(i, f32)))
    np.testing.assert_array_equal(out[permutation.astype(int)], np.arange(40))


def test_masked_stores_leave_the_rest() -> None:
    def body(k: KernelBuilder, i: Expr, at: Expr) -> None:
        with k.if_(k.op("lt", at, k.i(10))):
            k.store("out", (i,), k.cast(at, f32))

    out, permutation = gathered(body)
    np.testing.assert_array_equal(out, np.where(permutation < 10, permutation, -1))


def test_the_last_lane_wins_a_shared_element() -> None:
    def body(k: KernelBuilder, i: Expr, at: Expr) -> None:
        k.store("out", (k.i(3),), k.cast(i, f32))
        with k.if_(k.op("lt", i, k.i(7))):
            k.store("out", (k.i(4),), k.cast(i, f32))
        k.store("out", (k.op("floor_div", i, k.i(20)),), k.cast(i, f32))

    out, _ = gathered(body)
    assert out[[0, 1, 3, 4]].tolist() == [19, 39, 39, 6]


def test_private_arrays() -> None:
    k = KernelBuilder("private", workgroup=(8, 1, 1), threads=(20, 1, 1))
    out = k.buffer("out", i32, "write", (20, 3))
    tile = k.alloc("tile", i32, (3, 4), "private")
    i = k.index("thread", 0)
    with k.for_(k.i(0), k.i(3)) as r, k.for_(k.i(0), k.i(4)) as c:
        k.store(tile, (r, c), k.op("add", k.op("mul", r, i), c))
    k.store(tile, (k.i(2), k.op("rem", i, k.i(4))), k.i(-5))
    for r in range(3):
        k.store(out, (i, k.i(r)), k.load(tile, (k.i(r), k.op("rem", i, k.i(4)))))
    result = np.zeros((20, 3), np.int32)
    kernel = k.finish()
    launch(kernel, {"out": result}, (3, 1, 1))
    expected = np.zeros_like(result)
    run_reference(kernel, {"out": expected}, (3, 1, 1), (20, 1, 1))
    np.testing.assert_array_equal(result, expected)
    assert result[7].tolist() == [3, 10, -5]


def transpose(size: int = 4) -> Kernel:
    """A transpose of 12 x 8 through tiles in shared memory."""
    k = KernelBuilder("transpose", workgroup=(size, size, 1))
    x = k.buffer("x", f32, "read", (12, 8))
    y = k.buffer("y", f32, "write", (8, 12))
    tile = k.alloc("tile", f32, (size, size), "shared")
    lx, ly = k.index("local", 0), k.index("local", 1)
    gx, gy = (k.op("mul", k.index("group", axis), k.i(size)) for axis in (0, 1))
    k.store(tile, (ly, lx), k.load(x, (k.op("add", gy, ly), k.op("add", gx, lx))))
    k.barrier()
    k.store(y, (k.op("add", gx, ly), k.op("add", gy, lx)), k.load(tile, (lx, ly)))
    return k.finish()


def test_shared_memory() -> None:
    x = np.random.default_rng(1).random((12, 8), np.float32)
    y = np.zeros((8, 12), np.float32)
    launch(transpose(), {"x": x, "y": y}, (2, 3, 1))
    np.testing.assert_array_equal(y, x.T)


# --- collectives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 8, 33])
def test_reductions_of_a_group(size: int) -> None:
    groups = 3
    k = KernelBuilder("reduce", workgroup=(size, 1, 1))
    x = k.buffer("x", f32, "read", (groups * size,))
    n = k.buffer("n", i32, "read", (groups * size,))
    out = k.buffer("out", f32, "write", (groups, 3))
    integers = k.buffer("integers", i32, "write", (groups * size, 3))
    i, g = k.index("thread", 0), k.index("group", 0)
    a, b = k.let(k.load(x, (i,))), k.let(k.load(n, (i,)))
    for at, op in enumerate(("sum", "max", "min")):
        k.store(out, (g, k.i(at)), k.collective(op, a))  # type: ignore[arg-type]
    for at, (op, value) in enumerate((("sum", b), ("scan", b))):
        k.store(integers, (i, k.i(at)), k.collective(op, value))  # type: ignore[arg-type]
    some = k.collective("any", k.op("gt", b, k.i(90)))
    every = k.collective("all", k.op("gt", b, k.i(10)))
    k.store(integers, (i, k.i(2)), k.op("add", k.cast(some, i32), k.op("mul", k.cast(every, i32), k.i(2))))
    rng = np.random.default_rng(size)
    xs = (rng.integers(-50, 50, groups * size) / 8).astype(np.float32)
    ns = rng.integers(0, 100, groups * size).astype(np.int32)
    reduced, found = np.zeros((groups, 3), np.float32), np.zeros((groups * size, 3), np.int32)
    launch(k.finish(), {"x": xs, "n": ns, "out": reduced, "integers": found}, (groups, 1, 1))
    rows, counts = xs.reshape(groups, size), ns.reshape(groups, size)
    np.testing.assert_array_equal(reduced, np.stack([rows.sum(1), rows.max(1), rows.min(1)], 1))
    np.testing.assert_array_equal(found[:, 0].reshape(groups, size), np.repeat(counts.sum(1)[:, None], size, 1))
    np.testing.assert_array_equal(found[:, 1].reshape(groups, size), counts.cumsum(1))
    flags = (counts > 90).any(1) + 2 * (counts > 10).all(1)
    np.testing.assert_array_equal(found[:, 2].reshape(groups, size), np.repeat(flags[:, None], size, 1))


def test_reductions_keep_nan_and_signed_zeros() -> None:
    k = KernelBuilder("zeros", workgroup=(4, 1, 1))
    x = k.buffer("x", f32, "read", (3, 4))
    out = k.buffer("out", f32, "write", (3, 2))
    g = k.index("group", 0)
    value = k.let(k.load(x, (g, k.index("local", 0))))
    k.store(out, (g, k.i(0)), k.collective("max", value))
    k.store(out, (g, k.i(1)), k.collective("min", value))
    xs = np.array([[-0.0, 0.0, -0.0, -0.0], [1, math.nan, 3, 4], [math.inf, -math.inf, 0, 1]], np.float32)
    result = np.zeros((3, 2), np.float32)
    launch(k.finish(), {"x": xs, "out": result}, (3, 1, 1))
    assert np.signbit(result[0]).tolist() == [False, True]
    assert np.isnan(result[1]).all()
    assert result[2].tolist() == [math.inf, -math.inf]


def test_a_collective_that_only_some_groups_reach() -> None:
    k = KernelBuilder("some", workgroup=(4, 1, 1))
    out = k.buffer("out", i32, "readwrite", (3, 4))
    g, lane = k.index("group", 0), k.index("local", 0)
    with k.if_(k.op("eq", g, k.i(1))):
        k.return_()
    with k.for_(k.i(0), g):
        k.store(out, (g, lane), k.op("add", k.collective("sum", lane), k.load(out, (g, lane))))
    result = np.zeros((3, 4), np.int32)
    launch(k.finish(), {"out": result}, (3, 1, 1))
    assert result.tolist() == [[0] * 4, [0] * 4, [12] * 4]
