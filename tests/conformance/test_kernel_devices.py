# size: the same kernels on every device, case after case: their table and their checks are read together
"""Kernels on every device, against the interpreter: flow, faults, atomics, work-groups, narrow elements, views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poot.backends.device import BufferView, CopySpec, LaunchSpec, open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import ALL, INTEGERS, DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import AtomicOp, CollectiveOp, Expr, Kernel
from tests.device_runs import agree, assert_same, launch, supported

RNG = np.random.default_rng(7)


def numbers(dtype: DType, *shape: int) -> np.ndarray:
    """Small numbers of a dtype: sums of them are exact."""
    if dtype is bool_:
        return RNG.integers(0, 2, shape).astype(np.bool_)
    low = -8 if dtype.kind in ("int", "float") else 0
    return RNG.integers(low, 9, shape).astype(dtype.dtype)


# --- loops ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_loops_end_at_the_edges_of_their_dtype(device_name: str, dtype: DType) -> None:
    if not supported(device_name, dtype):
        return
    low, high = int(dtype.min), int(dtype.max)
    bounds = np.array(
        [
            (low, low + 5),
            (high - 7, high),
            (high - 1, high),
            (high, high),
            (low, low),
            (3, 1),
            (low + 1, low),
            (0, 9),
            (high, high - 9),
            (low + 6, low),
        ],
        dtype.dtype,
    )
    n = len(bounds)
    k = KernelBuilder("loops", workgroup=(16, 1, 1), threads=(n, 1, 1))
    a = k.buffer("a", dtype, "read", (n, 2))
    out = k.buffer("out", dtype, "write", (n, 8))
    i = k.index("thread", 0)
    start, stop = (k.let(k.load(a, (i, k.i(side))), "bound") for side in (0, 1))
    steps = [1, 2, 3, 5] + ([-1, -2, -3, -5] if dtype.kind == "int" else [])
    for column, step in enumerate(steps):
        total = k.let(k.const(0, dtype), "total")
        turns = k.let(k.i(0), "turns")
        with k.for_(start, stop, step) as var:
            k.assign(total, k.op("xor", k.op("mul", total, k.const(3, dtype)), var))
            k.assign(turns, k.op("add", turns, k.i(1)))
            with k.if_(k.op("gt", turns, k.i(20))):
                k.break_()
        k.store(out, (i, k.i(column)), total)
    agree(device_name, k.finish(), {"a": bounds, "out": np.zeros((n, 8), dtype.dtype)})


def test_a_while_condition_that_loads_is_evaluated_anew(device_name: str) -> None:
    k = KernelBuilder("chase", workgroup=(8, 1, 1), threads=(8, 1, 1))
    a, out = k.buffer("next", i32, "read", (None,)), k.buffer("out", i32, "write", (8,))
    i = k.let(k.index("thread", 0), "i")
    at = k.let(i, "at")
    steps = k.let(k.i(0), "steps")
    with k.while_(k.op("ge", k.load(a, (at,), checked=True), k.i(0))):
        k.assign(at, k.load(a, (at,)))
        k.assign(steps, k.op("add", steps, k.i(1)))
        with k.if_(k.op("eq", at, k.i(2))):
            k.continue_()
    k.store(out, (i,), steps)
    links = np.array([1, 2, 3, -1, 0, 4, 5, 6], np.int32)
    agree(device_name, k.finish(), {"next": links, "out": np.zeros(8, np.int32)})


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index_dtype", [i32, i64], ids=str)
@pytest.mark.parametrize("bad", [-1, 5, 1000, -(2**31), 2**31 - 1])
def test_the_first_fault_is_recorded(device_name: str, index_dtype: DType, bad: int) -> None:
    if not supported(device_name, index_dtype):
        return
    k = KernelBuilder("f", workgroup=(1, 1, 1), threads=(1, 1, 1), index_dtype=index_dtype)
    x = k.buffer("x", f32, "readwrite", (5, None))
    count = k.buffer("count", i32, "readwrite", (2,))
    s = k.scalar("s", i32)
    index = k.cast(s, index_dtype)
    value = k.let(k.load(x, (k.i(1), index), checked=True))
    k.store(x, (k.i(0), k.i(0)), k.op("add", value, k.const(1.0, f32)), checked=True)
    k.store(x, (index, k.i(2)), k.const(9.0, f32), checked=True)
    k.atomic("add", count, (index,), k.const(3, i32), checked=True)
    k.assertion(k.op("eq", s, k.const(1, i32)), "one")
    agree(device_name, k.finish(), {"x": numbers(f32, 5, 4), "count": np.zeros(2, np.int32), "s": bad})


def test_assertions_and_the_rest_goes_on(device_name: str) -> None:
    k = KernelBuilder("f", workgroup=(32, 1, 1), threads=(40, 1, 1))
    out = k.buffer("out", i32, "write", (40,))
    i = k.index("thread", 0)
    k.assertion(k.op("ne", i, k.i(37)), "not 37")
    k.store(out, (i,), i)
    agree(device_name, k.finish(), {"out": np.zeros(40, np.int32)})


# --- atomics --------------------------------------------------------------------------------------------------------


def has_atomics(device_name: str, dtype: DType) -> bool:
    target = open_device(device_name).target
    return dtype in target.dtypes and (
        dtype.bits < 64 or target.backend not in ("opencl", "wgpu") or target.has("int64_atomics")
    )


@pytest.mark.parametrize("space", ["buffer", "shared"])
@pytest.mark.parametrize("dtype", [i32, u32, i64, u64, f32, f64], ids=str)
def test_atomics_in_any_order(device_name: str, dtype: DType, space: str) -> None:
    """Eight bins an operation, in a buffer or in a shared array of each work-group."""
    if not has_atomics(device_name, dtype):
        return
    updates: list[AtomicOp] = ["add"] if dtype.is_float else ["add", "min", "max", "and", "or", "xor"]
    n, rows = 128, 2 * len(updates)
    k = KernelBuilder("atomics", workgroup=(32, 1, 1), threads=(n, 1, 1))
    x, out = k.buffer("x", dtype, "read", (n,)), k.buffer("out", dtype, "readwrite", (n // 32, rows, 4))
    i, group = k.let(k.index("thread", 0), "i"), k.index("group", 0)
    local = k.let(k.index("local", 0), "local")
    row, column = k.op("floor_div", k.op("rem", local, k.i(8)), k.i(4)), k.op("rem", local, k.i(4))
    value = k.let(k.load(x, (i,)), "value")
    bins = k.alloc("bins", dtype, (rows, 4), "shared") if space == "shared" else ""
    if bins:
        with k.for_(k.op("floor_div", local, k.i(4)), k.i(rows), 8) as start:
            k.store(bins, (start, column), k.load(out, (group, start, column)))
        k.barrier()
    for number, op in enumerate(updates):
        place = k.op("add", row, k.i(2 * number)), column
        if bins:
            k.atomic(op, bins, place, value)
        else:
            k.atomic(op, out, (group, *place), value)
    if bins:
        k.barrier()
        with k.for_(k.op("floor_div", local, k.i(4)), k.i(rows), 8) as start:
            k.store(out, (group, start, column), k.load(bins, (start, column)))
    agree(device_name, k.finish(), {"x": numbers(dtype, n), "out": numbers(dtype, n // 32, rows, 4)})


@pytest.mark.parametrize("dtype", [i32, u32, i64, u64, f32, f64], ids=str)
def test_exchange_hands_every_value_on(device_name: str, dtype: DType) -> None:
    if not has_atomics(device_name, dtype):
        return
    n = 64
    k = KernelBuilder("exchange", workgroup=(16, 1, 1), threads=(n, 1, 1))
    cell, out = k.buffer("cell", dtype, "readwrite", (1,)), k.buffer("out", dtype, "write", (n,))
    i = k.index("thread", 0)
    k.store(out, (i,), k.atomic("exchange", cell, (k.i(0),), k.cast(i, dtype)))
    values: dict[str, Any] = {"cell": np.full(1, n, dtype.dtype), "out": np.zeros(n, dtype.dtype)}
    launch(open_device(device_name), k.finish(), values, groups=(4, 1, 1))
    assert sorted([*values["out"].tolist(), *values["cell"].tolist()]) == list(range(n + 1))


@pytest.mark.parametrize("dtype", [i32, u32, i64, u64], ids=str)
def test_compare_and_swap_counts(device_name: str, dtype: DType) -> None:
    """Each thread adds one by compare-and-swap; none is lost."""
    if not has_atomics(device_name, dtype):
        return
    n = 96
    k = KernelBuilder("swap", workgroup=(32, 1, 1), threads=(n, 1, 1))
    cell = k.buffer("cell", dtype, "readwrite", (2,))
    seen = k.let(k.const(5, dtype), "seen")
    again = k.let(k.const(True, bool_), "again")
    with k.while_(again):
        new = k.op("add", seen, k.const(1, dtype))
        found = k.atomic("compare_exchange", cell, (k.i(1),), new, compare=seen, checked=True)
        k.assign(again, k.op("ne", found, seen))
        k.assign(seen, found)
    values: dict[str, Any] = {"cell": np.full(2, 5, dtype.dtype)}
    launch(open_device(device_name), k.finish(), values, groups=(3, 1, 1))
    assert values["cell"].tolist() == [5, 5 + n]


# --- work-groups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workgroup", [(1, 1, 1), (7, 1, 1), (5, 3, 2), (128, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_collectives(device_name: str, dtype: DType, workgroup: tuple[int, int, int]) -> None:
    """Every collective of a dtype, each also of what the one before gave."""
    if not supported(device_name, dtype):
        return
    size = workgroup[0] * workgroup[1] * workgroup[2]
    collectives: list[CollectiveOp] = ["any", "all"] if dtype is bool_ else ["max", "min", "sum", "scan"]
    k = KernelBuilder("collectives", workgroup=workgroup)
    x, out = k.buffer("x", dtype, "read", (3 * size,)), k.buffer("out", dtype, "write", (8, 3 * size))
    plane = k.op("add", k.op("mul", k.index("local", 2), k.i(workgroup[1])), k.index("local", 1))
    local = k.op("add", k.op("mul", plane, k.i(workgroup[0])), k.index("local", 0))
    i = k.let(k.op("add", k.op("mul", k.index("group", 0), k.i(size)), local), "i")
    value = k.load(x, (i,))
    for number, op in enumerate(collectives):
        k.store(out, (k.i(2 * number), i), k.collective(op, value))
        last = k.collective(op, k.collective("max" if dtype is not bool_ else "any", value))
        k.store(out, (k.i(2 * number + 1), i), last)
    x_values = numbers(dtype, 3 * size)
    if dtype is bool_:
        x_values = np.repeat([True, False, True], size)
        x_values[size - 1] = False
    agree(device_name, k.finish(), {"x": x_values, "out": np.zeros((8, 3 * size), dtype.dtype)}, groups=(3, 1, 1))


def test_a_collective_of_nan_and_signed_zeros(device_name: str) -> None:
    rows = np.array([[0.0, -0.0, 1.0, np.nan], [-0.0, 0.0, -0.0, -0.0], [np.inf, -np.inf, 2.0, 3.0]], np.float32)
    k = KernelBuilder("extremes", workgroup=(4, 1, 1))
    x, out = k.buffer("x", f32, "read", (3, 4)), k.buffer("out", f32, "write", (3, 2))
    row = k.index("group", 0)
    for column, op in enumerate(("max", "min")):
        k.store(out, (row, k.i(column)), k.collective(op, k.load(x, (row, k.index("local", 0)))))
    agree(device_name, k.finish(), {"x": rows, "out": np.zeros((3, 2), np.float32)}, groups=(3, 1, 1))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_tiles_in_shared_memory(device_name: str, dtype: DType) -> None:
    """A transpose through a shared tile, and a private array that is indexed by a variable."""
    if not supported(device_name, dtype):
        return
    k = KernelBuilder("transpose", workgroup=(8, 4, 1))
    x, out = k.buffer("x", dtype, "read", (16, 24)), k.buffer("out", dtype, "write", (24, 16))
    tile, mine = k.alloc("tile", dtype, (8, 8), "shared"), k.alloc("mine", dtype, (2,), "private")
    lx, ly = k.index("local", 0), k.index("local", 1)
    left, top = (k.let(k.op("mul", k.index("group", axis), k.i(8)), "corner") for axis in (0, 1))
    with k.for_(k.i(0), k.i(2)) as half:
        y = k.op("add", ly, k.op("mul", half, k.i(4)))
        k.store(tile, (y, lx), k.load(x, (k.op("add", top, y), k.op("add", left, lx))))
    k.barrier()
    with k.for_(k.i(0), k.i(2)) as half:
        k.store(mine, (half,), k.load(tile, (lx, k.op("add", ly, k.op("mul", half, k.i(4))))))
    with k.for_(k.i(0), k.i(2)) as half:
        y = k.op("add", ly, k.op("mul", half, k.i(4)))
        k.store(out, (k.op("add", left, y), k.op("add", top, lx)), k.load(mine, (half,)))
    values: dict[str, Any] = {"x": numbers(dtype, 16, 24), "out": np.zeros((24, 16), dtype.dtype)}
    result = agree(device_name, k.finish(), values, groups=(3, 2, 1))
    assert_same(result["out"], values["x"].T, "transpose")


def test_a_loop_around_barriers(device_name: str) -> None:
    """Each turn every thread reads what another wrote the turn before."""
    k = KernelBuilder("rounds", workgroup=(16, 1, 1))
    x, turns = k.buffer("x", i32, "readwrite", (32,)), k.scalar("turns", i32)
    cells = k.alloc("cells", i32, (16,), "shared")
    local = k.let(k.index("local", 0), "local")
    i = k.let(k.op("add", k.op("mul", k.index("group", 0), k.i(16)), local), "i")
    k.store(cells, (local,), k.load(x, (i,)))
    k.barrier()
    with k.for_(k.i(0), turns) as turn:
        other = k.op("rem", k.op("add", local, k.op("add", turn, k.i(1))), k.i(16))
        value = k.let(k.load(cells, (other,)), "value")
        k.barrier()
        k.store(cells, (local,), k.op("add", value, local))
        k.barrier()
    k.store(x, (i,), k.load(cells, (local,)))
    agree(device_name, k.finish(), {"x": numbers(i32, 32), "turns": 5}, groups=(2, 1, 1))


# --- elements, views and strides ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 63, 257])
@pytest.mark.parametrize("dtype", [bool_, i8, u8, i16, u16, f16, bf16], ids=str)
def test_narrow_elements_are_written_side_by_side(device_name: str, dtype: DType, count: int) -> None:
    """Each of several threads writes its part of a word, at odd places; `launch` checks the bytes beside them."""
    k = KernelBuilder("narrow", workgroup=(32, 1, 1), threads=(count, 1, 1))
    x, out = k.buffer("x", dtype, "read", (count,)), k.buffer("out", dtype, "readwrite", (count,))
    i = k.let(k.index("thread", 0), "i")
    old = k.let(k.load(out, (i,)), "old")
    k.store(out, (i,), k.op("select", k.op("eq", k.op("rem", i, k.i(3)), k.i(1)), old, k.load(x, (i,))))
    agree(device_name, k.finish(), {"x": numbers(dtype, count), "out": numbers(dtype, count)})


@pytest.mark.parametrize("dtype", [f32, f16, u8, i64], ids=str)
def test_strides_of_every_sign(device_name: str, dtype: DType) -> None:
    if not supported(device_name, dtype):
        return
    k = KernelBuilder("strided", workgroup=(4, 4, 1), threads=(None, None, 1))
    x = k.buffer("x", dtype, "read", (None, None), (None, None))
    out = k.buffer("out", dtype, "write", (None, None), (None, None))
    place = (k.index("thread", 1), k.index("thread", 0))
    k.store(out, place, k.load(x, place, checked=True), checked=True)
    kernel = k.finish()
    for view in (lambda a: a[::-1, ::2], lambda a: a[1:, ::-1][:, :4], lambda a: a.T[:4, :4]):
        source, target = view(numbers(dtype, 6, 9)), view(np.zeros((6, 9), dtype.dtype))
        agree(device_name, kernel, {"x": source, "out": target}, threads=source.shape[::-1])
    wide = np.broadcast_to(numbers(dtype, 5), (3, 5))
    agree(device_name, kernel, {"x": wide, "out": np.zeros((3, 5), dtype.dtype)}, threads=(5, 3))


@pytest.mark.parametrize("dtype", [f32, u8], ids=str)
def test_empty_arrays_and_empty_grids(device_name: str, dtype: DType) -> None:
    k = KernelBuilder("empty", workgroup=(8, 1, 1), threads=(None, 1, 1))
    x, out = k.buffer("x", dtype, "read", (None,)), k.buffer("out", dtype, "write", (None,))
    i = k.index("thread", 0)
    k.store(out, (i,), k.load(x, (i,), checked=True), checked=True)
    kernel, empty = k.finish(), np.zeros(0, dtype.dtype)
    agree(device_name, kernel, {"x": empty, "out": empty.copy()}, threads=(0,), groups=(0, 1, 1))
    agree(device_name, kernel, {"x": empty, "out": empty.copy()}, threads=(0,), groups=(1, 1, 1))
    agree(device_name, kernel, {"x": empty, "out": numbers(dtype, 3)}, threads=(1,))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_scalars(device_name: str, dtype: DType) -> None:
    if not supported(device_name, dtype):
        return
    k = KernelBuilder("scalars", workgroup=(4, 1, 1), threads=(4, 1, 1))
    s, t, out = k.scalar("s", dtype), k.scalar("t", dtype), k.buffer("out", dtype, "write", (4,))
    i = k.index("thread", 0)
    k.store(out, (i,), k.op("select", k.op("lt", i, k.i(2)), s, t))
    edge = {"bool": (True, False), "float": (-1.5, float("inf"))}.get(dtype.kind) or (int(dtype.min), int(dtype.max))
    agree(device_name, k.finish(), {"s": edge[0], "t": edge[1], "out": np.zeros(4, dtype.dtype)})


def test_names_of_the_languages_own(device_name: str) -> None:
    """Locals and buffers called as keywords, types and built-in functions of the languages that kernels become."""
    k = KernelBuilder("kernel", workgroup=(4, 1, 1), threads=(4, 1, 1))
    x, out = k.buffer("global", f32, "read", (4,)), k.buffer("min", f32, "write", (4,))
    total: Expr = k.load(x, (k.index("thread", 0),))
    for name in (
        "half",
        "float",
        "var",
        "fn",
        "params",
        "select",
        "max",
        "zero",
        "fence_f32",
        "lane",
        "main",
        "ünï",
        "_",
    ):
        total = k.op("max", k.op("add", k.let(total, name), k.const(1.0, f32)), k.const(-2.0, f32))
    k.store(out, (k.index("thread", 0),), k.op("abs", total))
    agree(device_name, k.finish(), {"global": numbers(f32, 4), "min": np.zeros(4, np.float32)})


@pytest.mark.parametrize("name", ["at", "element", "value", "word", "seen", "swap", "compare", "first", "bits", "lane"])
def test_buffers_called_as_the_locals_of_helper_functions(device_name: str, name: str) -> None:
    k = KernelBuilder("f", workgroup=(8, 1, 1), threads=(8, 1, 1))
    narrow, count = k.buffer(name, u8, "readwrite", (8,)), k.buffer(f"{name}_2", f32, "readwrite", (1,))
    i = k.index("thread", 0)
    k.store(narrow, (i,), k.op("add", k.load(narrow, (i,)), k.const(1, u8)))
    k.atomic("add", count, (k.i(0),), k.const(1.0, f32))
    values = {name: numbers(u8, 8), f"{name}_2": np.zeros(1, np.float32)}
    agree(device_name, k.finish(), values)


@pytest.mark.parametrize(
    "name", ["launch", "fault", "folded", "num_groups_x", "record_fault", "fault_first", "wide_low"]
)
def test_parameters_called_as_what_comes_with_a_launch(device_name: str, name: str) -> None:
    def made(called: str) -> Kernel:
        k = KernelBuilder("f", workgroup=(4, 1, 1), threads=(4, 1, 1))
        names = (name if kind == called else kind for kind in ("narrow", "wide", "array"))
        narrow, wide, array = (
            k.scalar(next(names), i32),
            k.scalar(next(names), i64),
            k.buffer(next(names), i64, "read", (4,)),
        )
        out, i = k.buffer("out", i64, "write", (4,)), k.index("thread", 0)
        total = k.op("add", k.op("add", k.cast(narrow, i64), wide), k.load(array, (i,), checked=True))
        k.store(out, (i,), total, checked=True)
        return k.finish()

    for called in ("narrow", "wide", "array"):
        values: dict[str, Any] = {"narrow": 3, "wide": 1 << 40, "array": numbers(i64, 4), "out": np.zeros(4, np.int64)}
        values = {name if kind == called else kind: value for kind, value in values.items()}
        agree(device_name, made(called), values)


@pytest.mark.parametrize("groups", [(70_000, 1, 1), (3, 66_000, 1), (1, 2, 65_537)], ids=str)
def test_grids_past_a_limit_of_65535(device_name: str, groups: tuple[int, int, int]) -> None:
    if device_name == "interpret":
        groups = (7, 3, 2)
    total = groups[0] * groups[1] * groups[2]
    k = KernelBuilder("grid", workgroup=(1, 1, 1))
    out = k.buffer("out", i32, "readwrite", (None,))
    x, y, z = (k.index("group", axis) for axis in range(3))
    counts = [k.index("num_groups", axis) for axis in range(3)]
    place = k.op("add", k.op("mul", k.op("add", k.op("mul", z, counts[1]), y), counts[0]), x)
    k.store(out, (place,), k.op("add", k.load(out, (place,)), k.op("add", place, k.i(1))))
    values: dict[str, Any] = {"out": np.zeros(total, np.int32)}
    launch(open_device(device_name), k.finish(), values, groups=groups)
    assert_same(values["out"], np.arange(1, total + 1, dtype=np.int32), "grid")


# --- recordings -----------------------------------------------------------------------------------------------------


def increments(dtype: DType) -> Kernel:
    """`out[i] = x[i] + 1`."""
    k = KernelBuilder("increments", workgroup=(32, 1, 1), threads=(None, 1, 1))
    x, out = k.buffer("x", dtype, "read", (None,)), k.buffer("out", dtype, "write", (None,))
    i = k.index("thread", 0)
    k.store(out, (i,), k.op("add", k.load(x, (i,)), k.const(1, dtype)))
    return k.finish()


@pytest.mark.parametrize("dtype", [i32, u8], ids=str)
def test_replays_with_other_views(device_name: str, dtype: DType) -> None:
    """A recording over an arena, with its first buffer rebound: to other buffers, and to other places in one."""
    device, n, item = open_device(device_name), 24, dtype.itemsize
    loaded = device.load(compile_kernel(increments(dtype), device.target))
    arena = device.allocate(4 * n * item)
    inputs = [numbers(dtype, 3 * n) for _ in range(2)]
    buffers = [device.allocate(array.nbytes) for array in inputs]
    for buffer, array in zip(buffers, inputs, strict=True):
        device.write(BufferView(buffer), array)
    sizes = (n, n, n)
    steps = [
        LaunchSpec(loaded, ((0, 0), (1, n * item)), (1, 1, 1), sizes),
        LaunchSpec(loaded, ((1, n * item), (1, 2 * n * item)), (1, 1, 1), sizes),
        CopySpec(1, 1, n * item, 2 * n * item, 3 * n * item),
        CopySpec(1, 0, n * item, 3 * n * item, 0),
    ]
    recording = None
    for number, first in [(0, 0), (0, 0), (1, 0), (1, n), (0, 5), (1, 2 * n), (0, 0)]:
        binding = [BufferView(buffers[number], first * item)]
        if recording is None:
            recording = device.record(steps, [None, BufferView(arena)], (0,), binding)
        else:
            device.replay(recording, binding)
        inputs[number][first : first + n] += dtype.dtype.type(2)
        for buffer, array in zip(buffers, inputs, strict=True):
            found = np.empty_like(array)
            device.read(BufferView(buffer), found)
            assert_same(found, array, f"buffer {number} from {first}")


@pytest.mark.parametrize(
    ("start", "target", "count"), [(0, 0, 16), (4, 8, 12), (1, 2, 7), (3, 0, 5), (0, 1, 1), (2, 3, 0)]
)
def test_copies_reads_and_writes_at_any_byte(device_name: str, start: int, target: int, count: int) -> None:
    device = open_device(device_name)
    source, goal = (np.arange(k, k + 23, dtype=np.uint8) for k in (0, 100))
    a, b = device.allocate(23), device.allocate(23)
    device.write(BufferView(a), source)
    device.write(BufferView(b), goal)
    device.copy(BufferView(a, start), BufferView(b, target), count)
    goal[target : target + count] = source[start : start + count]
    found = np.empty(23, np.uint8)
    device.read(BufferView(b), found)
    assert_same(found, goal, "copied")
    device.write(BufferView(b, start), source[target : target + count])
    goal[start : start + count] = source[target : target + count]
    part = np.empty(count, np.uint8)
    device.read(BufferView(b, start), part)
    assert_same(part, goal[start : start + count], "part")
    device.read(BufferView(b), found)
    assert_same(found, goal, "written")


def test_memory_that_is_freed_is_used_again_in_order(device_name: str) -> None:
    """Launches already enqueued still see what they were given, though their buffers have new owners."""
    device, n = open_device(device_name), 1000
    loaded = device.load(compile_kernel(increments(i32), device.target))
    results = []
    for turn in range(20):
        x, out = device.allocate(4 * n), device.allocate(4 * n)
        device.write(BufferView(x), np.full(n, turn, np.int32))
        spec = LaunchSpec(loaded, ((0, 0), (1, 0)), (-(-n // 32), 1, 1), (n, n, n))
        device.record([spec], [BufferView(x), BufferView(out)], (), ())
        device.free(x)
        results.append(out)
    for turn, out in enumerate(results):
        found = np.empty(n, np.int32)
        device.read(BufferView(out), found)
        assert (found == turn + 1).all()
        device.free(out)
