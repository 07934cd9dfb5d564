"""The native renderer on work-groups: atomics, collectives, shared arrays, barriers."""

import numpy as np
import pytest

from poot.dtypes import DType, bool_, f32, i32, i64, u32
from poot.kernel.build import KernelBuilder
from tests.unit.native_kernels import check_record, run, zeros


@pytest.mark.parametrize("shared", [False, True])
def test_atomics(shared: bool) -> None:
    n = 100
    for dtype in (i32, u32, i64, f32):
        for op in ("add", "min", "max", "and", "or", "xor", "exchange"):
            if dtype is f32 and op not in ("add", "exchange"):
                continue
            k = KernelBuilder("atomics", workgroup=(n, 1, 1))
            x, out = k.buffer("x", dtype, "read", (n,)), k.buffer("out", dtype, "readwrite", (4,))
            old = k.buffer("old", dtype, "write", (n,))
            i = k.index("local", 0)
            at = k.op("rem", i, k.i(4))
            target = out
            if shared:
                target = k.alloc("cells", dtype, (4,), "shared")
                with k.if_(k.op("lt", i, k.i(4))):
                    k.store(target, (i,), k.load(out, (i,)))
                k.barrier()
            k.store(old, (i,), k.atomic(op, target, (at,), k.load(x, (i,))))
            if shared:
                k.barrier()
                with k.if_(k.op("lt", i, k.i(4))):
                    k.store(out, (i,), k.load(target, (i,)))
            values = (np.arange(n) % 13 + 1).astype(dtype.dtype)
            cells, olds = np.full(4, 7, dtype.dtype), np.zeros(n, dtype.dtype)
            run(k.finish(), values, cells, olds, groups=(1,))
            expected, before = np.full(4, 7, dtype.dtype), np.zeros(n, dtype.dtype)
            rule = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or}
            rule |= {"xor": np.bitwise_xor, "exchange": lambda a, b: b}
            for lane in range(n):
                before[lane] = expected[lane % 4]
                expected[lane % 4] = rule[op](expected[lane % 4], values[lane])
            np.testing.assert_array_equal(cells, expected)
            np.testing.assert_array_equal(olds, before)


def test_compare_and_exchange() -> None:
    n = 50
    k = KernelBuilder("swap", workgroup=(32, 1, 1), threads=(n, 1, 1))
    lock, old = k.buffer("lock", i32, "readwrite", (1,)), k.buffer("old", i32, "write", (n,))
    i = k.index("thread", 0)
    k.store(old, (i,), k.atomic("compare_exchange", lock, (k.i(0),), k.op("add", i, k.i(5)), compare=k.i(0)))
    cells, olds = np.zeros(1, np.int32), np.zeros(n, np.int32)
    run(k.finish(), cells, olds)
    assert cells[0] == 5
    np.testing.assert_array_equal(olds, [0] + [5] * (n - 1))


def test_checked_atomics() -> None:
    n = 40
    k = KernelBuilder("histogram", workgroup=(32, 1, 1), threads=(n, 1, 1))
    x, out = k.buffer("x", i32, "read", (n,)), k.buffer("out", i32, "readwrite", (4,))
    k.atomic("add", out, (k.load(x, (k.index("thread", 0),)),), k.i(1), checked=True)
    values = (np.arange(n) % 6).astype(np.int32)
    cells = np.zeros(4, np.int32)
    compiled = run(k.finish(), values, cells)
    np.testing.assert_array_equal(cells, np.bincount(values, minlength=6)[:4])
    check_record(compiled, site=0, axis=0, index=4, extent=4)


@pytest.mark.parametrize("size", [1, 5, 48, 64, 100, 1000])
@pytest.mark.parametrize("dtype", [i32, u32, f32])
def test_collectives(size: int, dtype: DType) -> None:
    k = KernelBuilder("collectives", workgroup=(size, 1, 1))
    x, i = k.buffer("x", dtype, "read", (3, size)), k.index("local", 0)
    row = k.index("group", 0)
    value = k.let(k.load(x, (row, i)))
    for op in ("sum", "max", "min", "scan"):
        k.store(k.buffer(op, dtype, "write", (3, size)), (row, i), k.collective(op, value))
    for op in ("any", "all"):
        truth = k.collective(op, k.op("lt", value, k.const(1, dtype)))
        k.store(k.buffer(op, bool_, "write", (3, size)), (row, i), truth)
    values = np.stack([np.arange(size) % 7, np.zeros(size), np.arange(size) % 5 + 1]).astype(dtype.dtype)
    outputs = [zeros(dtype, 3, size) for _ in range(4)] + [zeros(bool_, 3, size) for _ in range(2)]
    run(k.finish(), values, *outputs, groups=(3,))
    spread = np.ones((1, size), dtype.dtype)
    wanted = [rule(axis=1, keepdims=True) * spread for rule in (values.sum, values.max, values.min)]
    wanted += [values.cumsum(axis=1), (values < 1).any(1, keepdims=True) | (spread > 1)]
    wanted.append((values < 1).all(1, keepdims=True) | (spread > 1))
    for actual, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))


def test_extremes_of_nan_and_zeros_across_lanes() -> None:
    size = 100
    k = KernelBuilder("extremes", workgroup=(size, 1, 1))
    x, i = k.buffer("x", f32, "read", (4, size)), k.index("local", 0)
    row = k.index("group", 0)
    value = k.let(k.load(x, (row, i)))
    for op in ("max", "min", "sum"):
        k.store(k.buffer(op, f32, "write", (4, size)), (row, i), k.collective(op, value))
    values = np.zeros((4, size), np.float32)
    values[0, 37] = -0.0
    values[1, 61] = np.nan
    values[2] = -0.0
    values[3] = -np.inf
    high, low, total = (zeros(f32, 4, size) for _ in range(3))
    run(k.finish(), values, high, low, total, groups=(4,))
    assert not np.signbit(high[0]).any() and np.signbit(low[0]).all()
    assert np.isnan(high[1]).all() and np.isnan(low[1]).all()
    assert np.signbit(high[2]).all() and np.signbit(low[2]).all() and np.signbit(total[2]).all()
    assert (high[3] == -np.inf).all() and (low[3] == -np.inf).all()


@pytest.mark.parametrize("tile", [(16, 16), (32, 8), (8, 8), (5, 3), (32, 32)])
def test_transpose_through_shared_memory(tile: tuple[int, int]) -> None:
    width, height = tile
    side = max(tile)
    rows, columns = 3 * side, 2 * side
    k = KernelBuilder("transpose", workgroup=(width, height, 1))
    x, y = k.buffer("x", f32, "read", (rows, columns)), k.buffer("y", f32, "write", (columns, rows))
    cells = k.alloc("cells", f32, (side, side + 1), "shared")
    lx, ly = k.index("local", 0), k.index("local", 1)
    left, top = k.op("mul", k.index("group", 0), k.i(side)), k.op("mul", k.index("group", 1), k.i(side))

    def each(use: object) -> None:
        with k.for_(ly, k.i(side), height) as i, k.for_(lx, k.i(side), width) as j:
            use(i, j)  # type: ignore[operator]

    each(lambda i, j: k.store(cells, (i, j), k.load(x, (k.op("add", top, i), k.op("add", left, j)))))
    k.barrier()
    each(lambda i, j: k.store(y, (k.op("add", left, i), k.op("add", top, j)), k.load(cells, (j, i))))
    values = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    actual = zeros(f32, columns, rows)
    run(k.finish(), values, actual, groups=(2, 3))
    np.testing.assert_array_equal(actual, values.T)


def test_tiled_matmul_with_barriers_in_a_loop() -> None:
    tile, m, n, depth = 16, 32, 48, 64
    k = KernelBuilder("matmul", workgroup=(tile, tile, 1))
    a, b = k.buffer("a", f32, "read", (m, depth)), k.buffer("b", f32, "read", (depth, n))
    c = k.buffer("c", f32, "write", (m, n))
    left, right = k.alloc("left", f32, (tile, tile), "shared"), k.alloc("right", f32, (tile, tile), "shared")
    lx, ly, x, y = k.index("local", 0), k.index("local", 1), k.index("thread", 0), k.index("thread", 1)
    total = k.let(k.const(0.0, f32), "total")
    with k.for_(k.i(0), k.i(depth), tile) as start:
        k.store(left, (ly, lx), k.load(a, (y, k.op("add", start, lx))))
        k.store(right, (ly, lx), k.load(b, (k.op("add", start, ly), x)))
        k.barrier()
        with k.for_(k.i(0), k.i(tile)) as step:
            k.assign(total, k.op("add", total, k.op("mul", k.load(left, (ly, step)), k.load(right, (step, lx)))))
        k.barrier()
    k.store(c, (y, x), total)
    rng = np.random.default_rng(0)
    values = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, depth), (depth, n))]
    actual = zeros(f32, m, n)
    run(k.finish(), *values, actual, groups=(n // tile, m // tile))
    np.testing.assert_array_equal(actual, values[0] @ values[1])


@pytest.mark.parametrize("size", [16, 64, 100])
def test_groups_at_the_end_of_the_grid(size: int) -> None:
    n = 2 * size + 7
    k = KernelBuilder("partial", workgroup=(size, 1, 1), threads=(None, 1, 1))
    x, y = k.buffer("x", i32, "read", (n,)), k.buffer("y", i32, "write", (n,))
    i = k.index("thread", 0)
    total = k.collective("sum", k.load(x, (i,)))
    before = k.collective("scan", k.i(1))
    k.store(y, (i,), k.op("add", total, before))
    values, actual = np.arange(n, dtype=np.int32), np.zeros(n + 200, np.int32)
    run(k.finish(), values, actual, threads=(n,))
    pieces = [values[start : start + size] for start in range(0, n, size)]
    expected = np.concatenate([piece.sum() + 1 + np.arange(len(piece)) for piece in pieces])
    np.testing.assert_array_equal(actual[:n], expected)
    assert not actual[n:].any()


def test_exits_that_outlive_a_cut() -> None:
    """Threads that leave a turn, or the kernel, in one part between barriers take no part in what follows."""
    for size in (64, 200):
        k = KernelBuilder("exits", workgroup=(size, 1, 1))
        y = k.buffer("y", i32, "readwrite", (size,))
        cells = k.alloc("cells", i32, (size,), "shared")
        i = k.index("local", 0)
        with k.for_(k.i(0), k.i(4)) as turn:
            k.store(cells, (i,), turn)
            k.barrier()
            other = k.let(k.load(cells, (k.op("sub", k.i(size - 1), i),)), "other")
            with k.if_(k.op("lt", k.index("group", 0), k.i(5))):
                k.barrier()
                with k.if_(k.op("eq", k.op("rem", i, k.i(4)), other)):
                    k.continue_()
            k.store(y, (i,), k.op("add", k.load(y, (i,)), k.i(1)))
        with k.if_(k.op("gt", k.index("num_groups", 0), k.i(0))), k.if_(k.op("lt", i, k.i(70))):
            k.return_()
        k.store(y, (i,), k.op("add", k.load(y, (i,)), k.i(100)))
        actual = zeros(i32, size)
        run(k.finish(), actual, groups=(1,))
        np.testing.assert_array_equal(actual, 3 + 100 * (np.arange(size) >= 70))
