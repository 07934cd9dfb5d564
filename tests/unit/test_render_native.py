"""The native renderer on kernels written for it: grids, accesses, faults, atomics, groups."""

import numpy as np
import pytest

from poot.dtypes import ALL, DType, bf16, bool_, f16, f32, i32, i64
from poot.errors import ArgumentError, Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.kernel.render.llvm_lanes import render
from tests.unit.native_kernels import Compiled, check_record, run, zeros

SIZES = [1, 2, 15, 16, 17, 31, 33, 64, 100, 1000]


def scale(n: int, threads: int | None, workgroup: int = 64) -> Kernel:
    k = KernelBuilder("scale", workgroup=(workgroup, 1, 1), threads=(threads, 1, 1))
    x, y = k.buffer("x", f32, "read", (n,)), k.buffer("y", f32, "write", (n,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("mul", k.load(x, (i,)), k.const(2.0, f32)))
    return k.finish()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("baked", [True, False])
def test_every_thread_runs_once_and_none_past_the_end(n: int, baked: bool) -> None:
    x, y = np.arange(n, dtype=np.float32), np.zeros(n + 70, np.float32)
    for workgroup in (1, 7, 16, 64, 256):
        compiled = Compiled(scale(n, n if baked else None, workgroup))
        y[:] = 0
        groups = -(-n // workgroup)
        compiled(x, y, threads=(n,), split=[groups // 3, groups // 2])
        np.testing.assert_array_equal(y[:n], 2 * x)
        assert not y[n:].any()


def test_no_groups_no_work() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    compiled = Compiled(scale(4, 4))
    slots, _ = compiled.prepare(x, y, threads=(4,))
    compiled._call(slots.ctypes.data, 1, 1)
    assert not y.any()


@pytest.mark.parametrize("workgroup", [(8, 4, 2), (3, 5, 2), (1, 1, 1), (1, 16, 1), (64, 1, 1)])
@pytest.mark.parametrize("index", [i32, i64])
def test_three_axes(workgroup: tuple[int, int, int], index: DType) -> None:
    shape = (5, 9, 21)
    for local in (False, True):
        k = KernelBuilder("axes", workgroup=workgroup, threads=(21, 9, 5), index_dtype=index)
        out = k.buffer("out", index, "write", shape)
        x, y, z = (k.index("thread", a) for a in range(3))
        numbers = [k.index(kind, a) for kind in ("group", "local") for a in range(3)] if local else [x, y, z]
        value: object = k.i(0)
        for number in numbers:
            value = k.op("add", k.op("mul", value, k.i(32)), number)  # type: ignore[arg-type]
        k.store(out, (z, y, x), value)  # type: ignore[arg-type]
        actual = zeros(index, *shape)
        run(k.finish(), actual)
        places = np.indices(shape)[::-1]
        parts = list(places)
        if local:
            parts = [p // w for p, w in zip(places, workgroup, strict=True)]
            parts += [p % w for p, w in zip(places, workgroup, strict=True)]
        expected = np.zeros(shape, np.int64)
        for part in parts:
            expected = expected * 32 + part
        np.testing.assert_array_equal(actual, expected.astype(index.dtype))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_copies_of_every_dtype(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    for n in (3, 100):
        k = KernelBuilder("copy", workgroup=(32, 1, 1), threads=(n, 1, 1))
        x, i = k.buffer("x", dtype, "read", (n,)), k.index("thread", 0)
        last = k.op("sub", k.i(n - 1), i)
        k.store(k.buffer("same", dtype, "write", (n,)), (i,), k.load(x, (i,)))
        k.store(k.buffer("back", dtype, "write", (n,)), (i,), k.load(x, (last,)))
        k.store(k.buffer("away", dtype, "write", (n,)), (last,), k.load(x, (i,)))
        k.store(k.buffer("one", dtype, "write", (n,)), (i,), k.load(x, (k.i(n // 2),)))
        k.store(k.buffer("even", dtype, "write", (2 * n,)), (k.op("mul", i, k.i(2)),), k.load(x, (i,)))
        values = rng.integers(0, 2 if dtype is bool_ else 100, n).astype(dtype.dtype)
        out = [zeros(dtype, n) for _ in range(4)] + [zeros(dtype, 2 * n)]
        run(k.finish(), values, *out)
        wanted = [values, values[::-1], values[::-1], np.full(n, values[n // 2])]
        for actual, expected in zip(out, wanted, strict=False):
            assert actual.tobytes() == np.ascontiguousarray(expected).tobytes()
        assert out[4][::2].tobytes() == values.tobytes()
        assert not np.ascontiguousarray(out[4][1::2]).view(np.uint8).any()


@pytest.mark.parametrize("step", [2, 3, 4, 5, -2])
def test_elements_apart(step: int) -> None:
    for n in (9, 40, 64):
        for dtype in (f32, i64, bf16, bool_):
            k = KernelBuilder("apart", workgroup=(32, 1, 1), threads=(n, 1, 1))
            x, y = k.buffer("x", dtype, "read", (n * abs(step),)), k.buffer("y", dtype, "write", (n,))
            at = k.op("mul", k.index("thread", 0), k.i(step))
            at = k.op("add", at, k.i(1 if step > 0 else -step * n - 1))
            z = k.buffer("z", dtype, "write", (n * abs(step),))
            k.store(y, (k.index("thread", 0),), k.load(x, (at,)))
            k.store(z, (at,), k.load(x, (at,)))
            values = np.random.default_rng(0).integers(0, 2 if dtype is bool_ else 99, n * abs(step))
            values = values.astype(dtype.dtype)
            actual, spread = zeros(dtype, n), zeros(dtype, n * abs(step))
            run(k.finish(), values, actual, spread)
            places = slice(1 if step > 0 else None, None, step)
            np.testing.assert_array_equal(actual, values[places][:n])
            expected = np.zeros_like(spread)
            expected[places] = values[places]
            np.testing.assert_array_equal(spread, expected)


def test_strides_known_and_not() -> None:
    base = np.arange(12 * 20, dtype=np.float32).reshape(12, 20)
    for view in (base[::2, ::3], base.T[::1, ::-1], base[:, 3:9]):
        rows, columns = view.shape
        for baked in (True, False):
            shape = (rows, columns) if baked else (None, None)
            strides = tuple(s // 4 for s in view.strides) if baked else (None, None)
            k = KernelBuilder("strided", workgroup=(16, 1, 1), threads=(columns, rows, 1))
            x = k.buffer("x", f32, "read", shape, strides)
            y = k.buffer("y", f32, "write", (rows, columns))
            j, i = k.index("thread", 0), k.index("thread", 1)
            k.store(y, (i, j), k.load(x, (i, j)))
            actual = zeros(f32, rows, columns)
            run(k.finish(), view, actual)
            np.testing.assert_array_equal(actual, view)


def faulty(n: int, *, store: bool, shift: int, index: DType = i32) -> Kernel:
    k = KernelBuilder("faulty", workgroup=(32, 1, 1), threads=(n, 1, 1), index_dtype=index)
    x, y = k.buffer("x", f32, "read", (None,)), k.buffer("y", f32, "write", (None,))
    i = k.index("thread", 0)
    far = k.op("add", i, k.i(shift))
    if store:
        k.store(y, (far,), k.load(x, (i,)), checked=True)
    else:
        k.store(y, (i,), k.op("add", k.load(x, (far,), checked=True), k.const(1.0, f32)))
    return k.finish()


@pytest.mark.parametrize("n", [1, 40, 96])
@pytest.mark.parametrize("shift", [-3, 5, 1 << 29])
@pytest.mark.parametrize("index", [i32, i64])
def test_checked_accesses(n: int, shift: int, index: DType) -> None:
    x = np.arange(1, n + 1, dtype=np.float32)
    places = np.arange(n) + shift
    inside = (places >= 0) & (places < n)
    compiled = Compiled(faulty(n, store=False, shift=shift, index=index))
    y = np.zeros(n, np.float32)
    compiled(x, y)
    np.testing.assert_array_equal(y, np.where(inside, x[np.clip(places, 0, n - 1)], 0) + 1)
    first = int(places[~inside][0]) if shift > 0 else int(places[0])
    check_record(compiled, site=0, axis=0, index=first, extent=n)
    guard = np.zeros(n + 200, np.float32)
    middle = guard[100 : 100 + n]
    compiled = Compiled(faulty(n, store=True, shift=shift, index=index))
    compiled(x, middle)
    expected = np.zeros(n + 200, np.float32)
    expected[100 + places[inside]] = x[inside]
    np.testing.assert_array_equal(guard, expected)
    check_record(compiled, site=0, axis=0, index=first, extent=n)


def test_the_first_axis_that_fails_is_recorded() -> None:
    k = KernelBuilder("axes", workgroup=(16, 1, 1), threads=(20, 1, 1))
    x = k.buffer("x", f32, "read", (4, 5, 6))
    y = k.buffer("y", f32, "write", (20,))
    i = k.index("thread", 0)
    where = (k.op("rem", i, k.i(4)), k.op("sub", i, k.i(15)), k.i(7))
    k.store(y, (i,), k.load(x, where, checked=True))
    compiled = run(k.finish(), zeros(f32, 4, 5, 6), zeros(f32, 20))
    check_record(compiled, site=0, axis=1, index=-15, extent=5)


def test_the_first_fault_is_kept() -> None:
    compiled = Compiled(faulty(8, store=False, shift=5))
    slots, groups = compiled.prepare(np.ones(8, np.float32), np.zeros(8, np.float32))
    compiled.fault[:] = np.arange(1, 9)
    compiled._call(slots.ctypes.data, 0, groups)
    assert compiled.fault.tolist() == list(range(1, 9))


def test_assertions() -> None:
    k = KernelBuilder("asserting", workgroup=(32, 1, 1), threads=(50, 1, 1))
    x, y = k.buffer("x", i32, "read", (50,)), k.buffer("y", i32, "write", (50,))
    i = k.index("thread", 0)
    value = k.let(k.load(x, (i,)))
    k.assertion(k.op("lt", k.load(x, (k.i(0),)), k.i(100)), "the first is small")
    k.assertion(k.op("ge", value, k.i(0)), "not negative")
    k.store(y, (i,), value)
    kernel = k.finish()
    x_values, y_values = np.arange(50, dtype=np.int32), np.zeros(50, np.int32)
    compiled = run(kernel, x_values, y_values)
    assert not compiled.fault.any()
    x_values[40] = -1
    compiled(x_values, y_values)
    check_record(compiled, site=1, axis=0, index=0, extent=0)
    np.testing.assert_array_equal(y_values, x_values)
    x_values[0] = 100
    compiled(x_values, y_values)
    check_record(compiled, site=0, axis=0, index=0, extent=0)


def test_private_arrays() -> None:
    n = 37
    k = KernelBuilder("private", workgroup=(16, 1, 1), threads=(n, 1, 1))
    x, y = k.buffer("x", i32, "read", (n, 8)), k.buffer("y", i32, "write", (n, 8))
    cells = k.alloc("cells", i32, (8,), "private")
    i = k.index("thread", 0)
    with k.for_(k.i(0), k.i(8)) as j:
        k.store(cells, (j,), k.load(x, (i, j)))
    with k.for_(k.i(0), k.i(8)) as j:
        turned = k.op("and", k.op("add", j, i), k.i(7))
        k.store(y, (i, j), k.load(cells, (turned,)))
    values = np.random.default_rng(0).integers(0, 99, (n, 8), np.int32)
    actual = zeros(i32, n, 8)
    run(k.finish(), values, actual)
    order = (np.arange(8) + np.arange(n)[:, None]) % 8
    np.testing.assert_array_equal(actual, np.take_along_axis(values, order, 1))


def test_counting_near_the_end_of_the_dtype() -> None:
    n = 20
    for step, start, stop in ((3, 2**31 - 10, 2**31 - 1), (-3, -(2**31) + 9, -(2**31)), (1 << 30, 0, 2**31 - 1)):
        for varying in (False, True):
            k = KernelBuilder("count", workgroup=(16, 1, 1), threads=(n, 1, 1))
            ends, y = k.buffer("ends", i32, "read", (n,)), k.buffer("y", i32, "write", (n,))
            i = k.index("thread", 0)
            count = k.let(k.i(0), "count")
            end = k.load(ends, (i if varying else k.i(0),))
            with k.for_(k.i(start), end, step):
                k.assign(count, k.op("add", count, k.i(1)))
            k.store(y, (i,), count)
            actual = zeros(i32, n)
            run(k.finish(), np.full(n, stop, np.int32), actual)
            assert (actual == len(range(start, stop, step))).all()


def test_scalars_of_every_dtype() -> None:
    k = KernelBuilder("scalars", workgroup=(16, 1, 1), threads=(3, 1, 1))
    i, values, outputs = k.index("thread", 0), [], []
    for dtype in ALL:
        scalar = k.scalar(f"s_{dtype}", dtype)
        k.store(k.buffer(f"y_{dtype}", dtype, "write", (3,)), (i,), scalar)
        values.append(dtype.dtype.type(1 if dtype is bool_ else 5))
        outputs.append(zeros(dtype, 3))
    mixed = [part for pair in zip(values, outputs, strict=True) for part in pair]
    run(k.finish(), *mixed)
    for value, output in zip(values, outputs, strict=True):
        assert (output == value).all()


def test_contraction_is_allowed_only_on_request() -> None:
    k = KernelBuilder("fma", workgroup=(16, 1, 1), threads=(16, 1, 1))
    x, y = k.buffer("x", f32, "read", (16,)), k.buffer("y", f32, "write", (16,))
    i = k.index("thread", 0)
    value = k.let(k.load(x, (i,)))
    k.store(y, (i,), k.op("sub", k.op("mul", value, value), k.const(1.0, f32)))
    kernel = k.finish()
    values = np.full(16, 1 + 2.0**-12, np.float32)
    strict, fused = zeros(f32, 16), zeros(f32, 16)
    Compiled(kernel)(values, strict)
    Compiled(kernel, contract=True)(values, fused)
    np.testing.assert_array_equal(strict, values * values - np.float32(1))
    exact = (values.astype(np.float64) ** 2 - 1).astype(np.float32)
    assert "fmuladd" not in render(kernel).text and "contract" not in render(kernel, contract=True).text
    assert np.array_equal(fused, exact) or np.array_equal(fused, strict)  # a CPU without fused operations


def test_a_product_with_a_name_is_rounded() -> None:
    k = KernelBuilder("fma", workgroup=(16, 1, 1), threads=(16, 1, 1))
    x, y = k.buffer("x", f32, "read", (16,)), k.buffer("y", f32, "write", (16,))
    i = k.index("thread", 0)
    value = k.let(k.load(x, (i,)))
    k.store(y, (i,), k.op("sub", k.let(k.op("mul", value, value)), k.const(1.0, f32)))
    values, actual = np.full(16, 1 + 2.0**-12, np.float32), zeros(f32, 16)
    Compiled(k.finish(), contract=True)(values, actual)
    np.testing.assert_array_equal(actual, values * values - np.float32(1))


def test_arrays_past_the_stack_are_refused() -> None:
    k = KernelBuilder("large", workgroup=(16, 1, 1))
    k.alloc("cells", f32, (1 << 19,), "shared")
    with pytest.raises(Unsupported, match="2097152 bytes of shared and private arrays"):
        render(k.finish())


def test_lanes_are_of_the_lengths_that_work() -> None:
    with pytest.raises(ArgumentError, match="vector_lanes"):
        render(scale(10, 10), vector_lanes=8)


def test_half_precision_passes_through() -> None:
    n = 50
    for dtype in (f16, bf16):
        k = KernelBuilder("half", workgroup=(16, 1, 1), threads=(n, 1, 1))
        x, y = k.buffer("x", dtype, "read", (n,)), k.buffer("y", dtype, "write", (n,))
        i = k.index("thread", 0)
        k.store(y, (i,), k.cast(k.op("mul", k.cast(k.load(x, (i,)), f32), k.const(0.3, f32)), dtype))
        values = np.linspace(-3, 3, n).astype(dtype.dtype)
        actual = zeros(dtype, n)
        run(k.finish(), values, actual)
        expected = (values.astype(np.float32) * np.float32(0.3)).astype(dtype.dtype)
        assert actual.tobytes() == expected.tobytes()
