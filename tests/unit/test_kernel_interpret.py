"""The interpreter: chunks, strides, groups, collectives, atomics, faults, and what a launch refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.dtypes import DType, bf16, bool_, f16, f32, i32, i64, u8, u32
from poot.errors import KernelFault, LaunchError, SourceLocation
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.faults import fault_error, new_record
from poot.kernel.interpret import BufferView, Interpreter, bind, run
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


# --- atomics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor", "exchange"])
@pytest.mark.parametrize("seen", [False, True])
def test_atomics_run_in_the_order_of_threads(op: str, seen: bool) -> None:
    n = 50
    k = KernelBuilder("atomic", workgroup=(8, 1, 1), threads=(n, 1, 1))
    total = k.buffer("total", u32, "readwrite", (4,))
    out = k.buffer("out", u32, "readwrite", (n,))
    i = k.index("thread", 0)
    value = k.bitcast(k.op("mul", k.op("add", i, k.i(3)), k.i(77777777)), u32)
    old = k.atomic(op, total, (k.op("rem", k.op("mul", i, i), k.i(4)),), value, checked=True)  # type: ignore[arg-type]
    if seen:
        k.store(out, (i,), old)
    kernel = k.finish()

    def values() -> dict[str, Array]:
        return {"total": np.array([5, 2**31, 9, 2**32 - 1], np.uint32), "out": np.zeros(n, np.uint32)}

    result, expected = values(), values()
    launch(kernel, result, (7, 1, 1))
    run_reference(kernel, expected, (7, 1, 1), (n, 1, 1))
    for name, array in result.items():
        np.testing.assert_array_equal(array, expected[name])


def test_compare_exchange_lets_one_thread_through() -> None:
    k = KernelBuilder("lock", workgroup=(8, 1, 1), threads=(40, 1, 1))
    lock = k.buffer("lock", i32, "readwrite", ())
    out = k.buffer("out", i32, "write", (40,))
    i = k.index("thread", 0)
    with k.if_(k.op("ge", i, k.i(5))):
        k.store(out, (i,), k.atomic("compare_exchange", lock, (), i, compare=k.i(-1)))
    held, result = np.array(-1, np.int32), np.zeros(40, np.int32)
    launch(k.finish(), {"lock": held, "out": result}, (5, 1, 1))
    assert held == 5
    assert result.tolist() == [0] * 5 + [-1] + [5] * 34


def test_a_histogram_of_floats() -> None:
    k = KernelBuilder("sum", workgroup=(8, 1, 1), threads=(1000, 1, 1))
    total = k.buffer("total", f32, "readwrite", (3,))
    i = k.index("thread", 0)
    k.atomic("add", total, (k.op("rem", i, k.i(3)),), k.cast(i, f32))
    sums = np.zeros(3, np.float32)
    launch(k.finish(), {"total": sums}, (125, 1, 1))
    assert sums.tolist() == [sum(range(start, 1000, 3)) for start in range(3)]


# --- flow -----------------------------------------------------------------------------------------------------------


def test_nested_flow_with_exits() -> None:
    n = 60
    k = KernelBuilder("flow", workgroup=(8, 1, 1), threads=(n, 1, 1))
    out = k.buffer("out", i32, "write", (n, 2))
    i = k.index("thread", 0)
    total = k.let(k.i(0), "total")
    with k.for_(k.op("rem", i, k.i(4)), k.op("floor_div", i, k.i(3)), 2) as a:
        with k.if_(k.op("eq", k.op("rem", a, k.i(5)), k.i(3))):
            k.continue_()
        with k.while_(k.op("lt", total, k.op("mul", a, i))):
            k.assign(total, k.op("add", total, k.op("add", a, k.i(1))))
            with k.if_(k.op("gt", total, k.i(90))):
                k.break_()
            with k.if_(k.op("eq", k.op("rem", k.op("add", total, i), k.i(37)), k.i(0))):
                k.store(out, (i, k.i(1)), k.i(7))
                k.return_()
    with k.for_(k.i(3), k.op("neg", k.op("rem", i, k.i(3))), -1) as down:
        k.assign(total, k.op("sub", total, down))
    k.store(out, (i, k.i(0)), total)
    kernel = k.finish()
    result, expected = np.zeros((n, 2), np.int32), np.zeros((n, 2), np.int32)
    launch(kernel, {"out": result}, (8, 1, 1))
    run_reference(kernel, {"out": expected}, (8, 1, 1), (n, 1, 1))
    np.testing.assert_array_equal(result, expected)
    assert 0 < (result[:, 1] == 7).sum() < n


def test_loops_to_the_ends_of_their_dtype() -> None:
    k = KernelBuilder("ends", workgroup=(8, 1, 1), threads=(8, 1, 1))
    out = k.buffer("out", i32, "readwrite", (8,))
    i = k.index("thread", 0)
    high, low = k.i(2**31 - 1), k.i(-(2**31))
    for start, stop, step in [(k.op("sub", high, i), high, 3), (low, high, 2**31 - 1), (k.op("add", low, i), low, -1)]:
        with k.for_(start, stop, step):
            k.store(out, (i,), k.op("add", k.load(out, (i,)), k.i(1)))
    with k.for_(k.const(250, u8), k.const(255, u8), 2):
        k.store(out, (i,), k.op("add", k.load(out, (i,)), k.i(100)))
    kernel = k.finish()
    result, expected = np.zeros(8, np.int32), np.zeros(8, np.int32)
    launch(kernel, {"out": result}, (1, 1, 1))
    run_reference(kernel, {"out": expected}, (1, 1, 1), (8, 1, 1))
    np.testing.assert_array_equal(result, expected)
    assert result[7] == 3 + 3 + 7 + 300


def test_half_floats_compute_in_f32_and_round_once() -> None:
    for dtype in (f16, bf16):
        k = KernelBuilder("half", workgroup=(8, 1, 1), threads=(64, 1, 1))
        x = k.buffer("x", dtype, "read", (64,))
        y = k.buffer("y", dtype, "write", (2, 64))
        i = k.index("thread", 0)
        a, b = k.load(x, (i,)), k.load(x, (k.op("sub", k.i(63), i),))
        k.store(y, (k.i(0), i), k.op("mul", a, b))
        k.store(y, (k.i(1), i), k.op("max", k.op("neg", a), b))
        values = np.random.default_rng(3).standard_normal(64).astype(dtype.dtype)
        result = np.zeros((2, 64), dtype.dtype)
        launch(k.finish(), {"x": values, "y": result}, (8, 1, 1))
        wide = values.astype(np.float32)
        np.testing.assert_array_equal(result[0], (wide * wide[::-1]).astype(dtype.dtype))
        np.testing.assert_array_equal(result[1], np.maximum(-wide, wide[::-1]).astype(dtype.dtype))


@pytest.mark.parametrize("dtype", [f16, bf16, bool_, u8], ids=str)
def test_locals_of_narrow_dtypes_change_under_a_mask(dtype: DType) -> None:
    k = KernelBuilder("narrow", workgroup=(8, 1, 1), threads=(16, 1, 1))
    x = k.buffer("x", dtype, "read", (16,))
    y = k.buffer("y", dtype, "write", (16,))
    i = k.index("thread", 0)
    chosen = k.let(k.load(x, (k.i(3),)), "chosen")
    with k.if_(k.op("lt", i, k.i(5))):
        k.assign(chosen, k.const(1, dtype))
    with k.if_(k.op("gt", i, k.i(11))):
        k.assign(chosen, k.load(x, (i,)))
    k.store(y, (i,), k.op("select", k.op("eq", i, k.i(7)), k.const(0, dtype), chosen))
    values = (np.arange(16) % 5).astype(dtype.dtype)
    result = np.zeros(16, dtype.dtype)
    launch(k.finish(), {"x": values, "y": result}, (2, 1, 1))
    expected = np.array([1] * 5 + [3] * 7 + [2, 3, 4, 0]).astype(dtype.dtype)
    expected[7] = 0
    np.testing.assert_array_equal(result, expected)


# --- faults ---------------------------------------------------------------------------------------------------------


def faulty() -> Kernel:
    k = KernelBuilder("faulty", workgroup=(8, 1, 1), threads=(20, 1, 1))
    x = k.buffer("x", i32, "read", (None, 4))
    y = k.buffer("y", i32, "readwrite", (20,))
    i = k.index("thread", 0)
    k.where = SourceLocation("faulty.py", 2)
    value = k.let(k.load(x, (i, k.op("sub", i, k.i(2))), checked=True), "value")
    k.where = SourceLocation("faulty.py", 3)
    k.store(y, (k.op("add", i, k.i(15)),), k.op("add", value, k.i(100)), checked=True)
    k.where = SourceLocation("faulty.py", 4)
    k.assertion(k.op("lt", i, k.i(19)), "few threads")
    return k.finish()


def test_a_failed_check_yields_0_stores_nothing_and_goes_on() -> None:
    x, y, record = np.arange(16, dtype=np.int32).reshape(4, 4), np.full(20, -1, np.int32), new_record()
    launch(faulty(), {"x": x, "y": y}, (3, 1, 1), fault=record, launch=7)
    assert y.tolist() == [-1] * 15 + [100, 100, 108, 113, 100]
    assert record.tolist() == [1, 7, 0, 1, -2, -1, 4, 0]
    assert str(fault_error(faulty(), record)) == (
        "kernel faulty: index -2 of x is outside axis 1 of extent 4\n  at faulty.py:2\n"
        "  Remedy: guard the access, or launch fewer threads."
    )


def test_the_first_fault_is_kept() -> None:
    x, y, record = np.zeros((4, 4), np.int32), np.zeros(20, np.int32), new_record()
    record[0] = 1
    launch(faulty(), {"x": x, "y": y}, (3, 1, 1), fault=record)
    assert record.tolist() == [1] + [0] * 7


def test_without_a_record_faults_raise() -> None:
    with pytest.raises(KernelFault, match=r"index -2 of x is outside axis 1 of extent 4"):
        launch(faulty(), {"x": np.zeros((4, 4), np.int32), "y": np.zeros(20, np.int32)}, (3, 1, 1))


def test_assertions() -> None:
    k = KernelBuilder("asserts", workgroup=(8, 1, 1), threads=(None, 1, 1))
    out = k.buffer("out", i32, "write", (None,))
    i = k.index("thread", 0)
    k.where = SourceLocation("asserts.py", 9)
    with k.if_(k.op("gt", i, k.i(2))):
        k.assertion(k.op("lt", i, k.i(5)), "i < 5")
    k.store(out, (i,), k.i(1))
    kernel, out, record = k.finish(), np.zeros(6, np.int32), new_record()
    launch(kernel, {"out": out[:5]}, (1, 1, 1), threads=[5], fault=record)
    assert not record.any()
    launch(kernel, {"out": out}, (1, 1, 1), threads=[6], fault=record)
    assert out.all()
    assert str(fault_error(kernel, record)) == "kernel asserts: assertion failed: i < 5\n  at asserts.py:9"


def test_large_indices_are_kept_whole() -> None:
    k = KernelBuilder("wide", workgroup=(8, 1, 1), index_dtype=i64)
    x = k.buffer("x", u8, "write", (None,))
    k.store(x, (k.const(2**40 + 5, i64),), k.const(1, u8), checked=True)
    kernel, record = k.finish(), new_record()
    launch(kernel, {"x": np.zeros(3, np.uint8)}, (1, 1, 1), fault=record)
    assert "index 1099511627781 of x is outside axis 0 of extent 3" in str(fault_error(kernel, record))


def test_an_unchecked_access_outside_its_memory_is_no_silent_error() -> None:
    k = KernelBuilder("loose", workgroup=(8, 1, 1), threads=(9, 1, 1))
    x = k.buffer("x", i32, "readwrite", (8,))
    i = k.index("thread", 0)
    with k.if_(k.op("ne", k.op("rem", i, k.i(3)), k.i(1))):
        k.store(x, (i,), k.load(x, (k.i(0),)))
    with pytest.raises(KernelFault, match="an unchecked access of `x` is outside its memory"):
        launch(k.finish(), {"x": np.zeros(8, np.int32)}, (2, 1, 1))


def test_inactive_lanes_touch_nothing() -> None:
    def body(k: KernelBuilder, i: Expr, at: Expr) -> None:
        with k.if_(k.op("lt", i, k.i(20))):
            twice = k.op("mul", i, k.i(2))
            k.store("out", (twice,), k.load("x", (k.op("mul", at, k.op("sub", k.i(0), k.i(0))),)))
            k.store("out", (twice,), k.load("x", (twice,)))

    out, _ = gathered(body)
    np.testing.assert_array_equal(out[::2], np.arange(0, 40, 2))
    assert (out[1::2] == -1).all()


# --- launches -------------------------------------------------------------------------------------------------------


def refused(kernel: Kernel, arguments: list[object], groups: tuple[int, int, int] = (1, 1, 1)) -> str:
    with pytest.raises(LaunchError) as caught:
        run(kernel, arguments, groups=groups)
    return str(caught.value)


def test_arguments_that_do_not_fit() -> None:
    kernel = copy(1)
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    assert refused(kernel, [x]) == "kernel copy: 1 arguments given, 9 expected"
    assert (
        refused(kernel, [x.astype(np.int32), 4, 1, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` is int32(4,), expected flat contiguous f32"
    )
    assert (
        refused(kernel, [x.reshape(2, 2), 4, 1, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` is float32(2, 2), expected flat contiguous f32"
    )
    assert (
        refused(kernel, [x, 4, 2, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` has 4 elements of memory, fewer than its extents (4,) and strides (2,) reach"
    )
    assert (
        refused(kernel, [x, -1, 1, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` has extents (-1,) and strides (1,), which i32 indices cannot hold"
    )
    assert (
        refused(kernel, [x, 1, 2**31, y, 4, 1, 4, 1, 1])
        == "kernel copy: `x` has extents (1,) and strides (2147483648,), which i32 indices cannot hold"
    )
    y.flags.writeable = False
    assert (
        refused(kernel, [x, 4, 1, y, 4, 1, 4, 1, 1]) == "kernel copy: `y` is read-only memory, and the kernel writes it"
    )


def test_strides_of_part_elements() -> None:
    records = np.zeros(4, np.dtype([("a", np.int8), ("b", np.float32)]))
    with pytest.raises(LaunchError, match=r"`x` has strides \(5,\) that are no multiples of its 4 bytes"):
        bind(copy(1), {"x": records["b"], "y": np.zeros(4, np.float32)}, threads=[4, 1, 1])


def test_partial_groups_cannot_meet() -> None:
    k = KernelBuilder("meet", workgroup=(8, 1, 1), threads=(None, 1, 1))
    k.barrier()
    kernel = k.finish()
    assert refused(kernel, [12], (2, 1, 1)) == "kernel meet: 12 threads on axis 0 are no multiple of the work-group's 8"
    run(kernel, [16], groups=(2, 1, 1))


def test_a_grid_past_the_index_dtype() -> None:
    k = KernelBuilder("far", workgroup=(1024, 1, 1))
    assert refused(k.finish(), [], (2**22, 1, 1)) == "kernel far: 4294967296 threads on axis 0 are more than i32 counts"


def test_one_interpreter_runs_many_times() -> None:
    interpreter = Interpreter(copy(1))
    for n in (3, 8, 0, 5):
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        interpreter.run(bind(interpreter.kernel, {"x": x, "y": y}, threads=[n, 1, 1]), groups=(1, 1, 1))
        np.testing.assert_array_equal(x, y)


def test_what_no_turn_changes_is_evaluated_once_and_right() -> None:
    """Index arithmetic moves out of the loops that leave it alone, and out of no other."""
    n = 12
    k = KernelBuilder("hoist", workgroup=(4, 1, 1), threads=(n, 1, 1))
    out = k.buffer("out", i32, "readwrite", (n, 400))
    i = k.index("thread", 0)
    base = k.let(k.op("mul", i, k.i(3)), "base")
    moving = k.let(k.i(1), "moving")
    with k.for_(k.i(0), k.i(4), hint="a") as a:
        with k.for_(k.i(0), k.op("rem", i, k.i(5)), hint="b") as b:
            fixed = k.op("add", k.op("mul", base, k.i(2)), k.i(1))
            outer = k.op("sub", k.op("mul", a, k.i(7)), base)
            inner = k.op("add", k.op("mul", b, k.i(5)), k.op("mul", moving, k.i(3)))
            place = k.op("rem", k.op("add", k.op("add", fixed, outer), inner), k.i(400))
            k.store(out, (i, place), k.op("add", k.load(out, (i, place)), outer))
            k.assign(moving, k.op("add", moving, k.op("mul", a, k.i(2))))
        with k.while_(k.op("lt", moving, k.op("mul", a, k.i(9)))):
            k.assign(moving, k.op("add", moving, k.op("add", k.op("mul", i, k.i(2)), k.i(1))))
    kernel = k.finish()
    result, expected = np.zeros((n, 400), np.int32), np.zeros((n, 400), np.int32)
    launch(kernel, {"out": result}, (3, 1, 1))
    run_reference(kernel, {"out": expected}, (3, 1, 1), (n, 1, 1))
    np.testing.assert_array_equal(result, expected)
