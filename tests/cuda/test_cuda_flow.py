"""Control flow, shared and private arrays, collectives, atomics and grids, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from poot.backends.device import DeviceBackend
from poot.dtypes import ALL, NUMBERS, DType, bf16, bool_, f16, f32, f64, i32, i64, u32, u64
from poot.errors import KernelCheckError
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.ir import Kernel
from tests.cuda.support import agree, on_device
from tests.random_kernels import RandomKernel
from tests.unit.native_fuzz import Generator


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_kernels_of_work_groups(cuda_ptx: DeviceBackend, first: int) -> None:
    for seed in range(first, first + 25):
        generator = Generator(seed)
        kernel = generator.kernel()
        try:
            check(kernel)
        except KernelCheckError:
            continue
        pairs = zip(generator.threads or (), kernel.threads or (), strict=True)
        threads = [count for count, baked in pairs if baked is None]
        given = generator.arguments()
        agree(cuda_ptx, kernel, given, generator.groups, threads=threads, raw=True, what=f"seed {seed}")


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(cuda: DeviceBackend, seed: int) -> None:
    random = RandomKernel(seed, racy=False)
    agree(cuda, random.kernel, random.values(), random.groups, threads=random.bound, what=f"seed {seed}")


def collectives(size: tuple[int, int, int], dtype: DType, groups: int) -> tuple[Kernel, dict[str, np.ndarray]]:
    count = size[0] * size[1] * size[2]
    n = count * groups
    k = KernelBuilder("collectives", workgroup=size)
    local, step = k.i(0), 1
    for axis in range(3):
        local = k.op("add", local, k.op("mul", k.index("local", axis), k.i(step)))
        step *= size[axis]
    i = k.let(k.op("add", k.op("mul", k.index("group", 0), k.i(count)), local))
    rng = np.random.default_rng(count)
    if dtype is bool_:
        given = {"x": rng.random(n) < 0.02}
        names = ("any", "all")
    else:
        whole = rng.integers(0, 9, n)
        given = {"x": whole.astype(dtype.dtype) if dtype.is_integer else (whole / 4).astype(dtype.dtype)}
        names = ("sum", "max", "min", "scan")
    value = k.let(k.load(k.buffer("x", dtype, "read", (n,)), (i,)))
    for name in names:
        result = k.collective(name, value)  # type: ignore[arg-type]
        out = k.buffer(f"out_{name}", dtype, "write", (n,))
        k.store(out, (i,), result)
        given[out] = np.zeros(n, dtype.dtype)
    return k.finish(), given


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 1, 1), (32, 1, 1), (48, 1, 1), (100, 1, 1), (8, 4, 8), (1000, 1, 1)])
def test_collectives(cuda: DeviceBackend, size: tuple[int, int, int]) -> None:
    for dtype in (bool_, i32, f32):
        kernel, given = collectives(size, dtype, 3)
        agree(cuda, kernel, given, (3, 1, 1), what=f"{size} {dtype}")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_collectives_of_dtypes(cuda: DeviceBackend, dtype: DType) -> None:
    kernel, given = collectives((96, 1, 1), dtype, 2)
    agree(cuda, kernel, given, (2, 1, 1), what=str(dtype))


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
def test_extremes_of_groups_with_nan(cuda: DeviceBackend, dtype: DType) -> None:
    k = KernelBuilder("nan", workgroup=(64, 1, 1))
    i = k.let(k.op("add", k.op("mul", k.index("group", 0), k.i(64)), k.index("local", 0)))
    value = k.let(k.load(k.buffer("x", dtype, "read", (192,)), (i,)))
    x = np.linspace(-3, 3, 192).astype(dtype.dtype)
    x[70] = np.nan
    x[128:] = np.where(np.arange(64) % 2, -0.0, 0.0)
    given = {"x": x}
    for name in ("max", "min"):
        out = k.buffer(f"out_{name}", dtype, "write", (192,))
        k.store(out, (i,), k.collective(name, value))  # type: ignore[arg-type]
        given[out] = np.zeros(192, dtype.dtype)
    agree(cuda, k.finish(), given, (3, 1, 1), what=str(dtype))


def test_collective_in_a_loop(cuda: DeviceBackend) -> None:
    k = KernelBuilder("rows", workgroup=(64, 1, 1))
    x, y = k.buffer("x", f32, "read", (7, 128)), k.buffer("y", f32, "write", (7,))
    total = k.let(k.const(0.0, f32), "total")
    with k.for_(k.i(0), k.i(128), 64, hint="k0") as k0:
        part = k.load(x, (k.index("group", 0), k.op("add", k0, k.index("local", 0))))
        k.assign(total, k.op("add", total, k.collective("sum", part)))
    with k.if_(k.op("eq", k.index("local", 0), k.i(0))):
        k.store(y, (k.index("group", 0),), total)
    values = {"x": (np.arange(7 * 128).reshape(7, 128) % 16 / 4).astype(np.float32), "y": np.zeros(7, np.float32)}
    agree(cuda, k.finish(), values, (7, 1, 1))


@pytest.mark.parametrize("dtype", [i32, u32, i64, u64, f32, f64], ids=str)
def test_atomics(cuda: DeviceBackend, dtype: DType) -> None:
    n = 1000
    k = KernelBuilder("atomics", workgroup=(128, 1, 1), threads=(n, 1, 1))
    i = k.index("thread", 0)
    value = k.let(k.load(k.buffer("x", dtype, "read", (n,)), (i,)))
    cell = k.op("rem", i, k.i(5))
    names = ["add"] if dtype.is_float else ["add", "min", "max", "and", "or", "xor"]
    rng = np.random.default_rng(5)
    given = {"x": rng.integers(0, 100, n).astype(dtype.dtype)}
    own, old = k.buffer("own", dtype, "readwrite", (n,)), k.buffer("before", dtype, "write", (n,))
    for name in names:
        bins = k.buffer(f"bins_{name}", dtype, "readwrite", (5,))
        k.atomic(name, bins, (cell,), value)  # type: ignore[arg-type]
        given[bins] = np.full(5, 77, dtype.dtype)
    k.store(old, (i,), k.atomic("exchange", own, (i,), value))
    given["own"], given["before"] = np.arange(n).astype(dtype.dtype), np.zeros(n, dtype.dtype)
    agree(cuda, k.finish(), given, (8, 1, 1), what=str(dtype))


@pytest.mark.parametrize("dtype", [i32, u64], ids=str)
def test_compare_exchange(cuda: DeviceBackend, dtype: DType) -> None:
    n = 256
    k = KernelBuilder("swap", workgroup=(128, 1, 1), threads=(n, 1, 1))
    i = k.index("thread", 0)
    own = k.buffer("own", dtype, "readwrite", (n,))
    old = k.atomic("compare_exchange", own, (i,), k.const(9, dtype), compare=k.const(4, dtype))
    k.store(k.buffer("before", dtype, "write", (n,)), (i,), old)
    values = {"own": (np.arange(n) % 6).astype(dtype.dtype), "before": np.zeros(n, dtype.dtype)}
    agree(cuda, k.finish(), values, (2, 1, 1), what=str(dtype))


def test_shared_transpose(cuda: DeviceBackend) -> None:
    """Triton cannot express it, so both devices take the PTX."""
    k = KernelBuilder("transpose", workgroup=(16, 16, 1))
    x, y = k.buffer("x", f32, "read", (64, 48)), k.buffer("y", f32, "write", (48, 64))
    tile = k.alloc("tile", f32, (16, 17), "shared")
    lx, ly, gx, gy = (k.index(kind, axis) for kind in ("local", "group") for axis in (0, 1))
    k.store(
        tile,
        (ly, lx),
        k.load(x, (k.op("add", k.op("mul", gy, k.i(16)), ly), k.op("add", k.op("mul", gx, k.i(16)), lx))),
    )
    k.barrier()
    k.store(
        y,
        (k.op("add", k.op("mul", gx, k.i(16)), ly), k.op("add", k.op("mul", gy, k.i(16)), lx)),
        k.load(tile, (lx, ly)),
    )
    values = {"x": np.arange(64 * 48, dtype=np.float32).reshape(64, 48), "y": np.zeros((48, 64), np.float32)}
    assert agree(cuda, k.finish(), values, (3, 4, 1)).compiled.language == "ptx"


def test_dynamic_shared_memory(cuda_ptx: DeviceBackend) -> None:
    k = KernelBuilder("large", workgroup=(256, 1, 1))
    a = k.alloc("a", f32, (20000,), "shared")
    b = k.alloc("b", i32, (256,), "shared")
    i = k.index("local", 0)
    k.store(b, (i,), k.cast(i, i32))
    with k.for_(i, k.i(20000), 256) as j:
        k.store(a, (j,), k.cast(j, f32))
    k.barrier()
    k.store(k.buffer("y", f32, "write", (256,)), (i,), k.load(a, (k.op("sub", k.i(19999), i),)))
    k.store(k.buffer("z", i32, "write", (256,)), (i,), k.load(b, (k.op("sub", k.i(255), i),)))
    agree(cuda_ptx, k.finish(), {"y": np.zeros(256, np.float32), "z": np.zeros(256, np.int32)}, (1, 1, 1))


def test_global_memory_across_a_barrier(cuda_ptx: DeviceBackend) -> None:
    k = KernelBuilder("neighbours", workgroup=(256, 1, 1))
    x = k.buffer("x", i32, "readwrite", (256,))
    i = k.index("local", 0)
    k.store(x, (i,), k.cast(i, i32))
    k.barrier()
    other = k.let(k.load(x, (k.op("sub", k.i(255), i),)))
    k.barrier()
    k.store(x, (i,), other)
    agree(cuda_ptx, k.finish(), {"x": np.zeros(256, np.int32)}, (1, 1, 1))


@pytest.mark.parametrize("index", [i32, i64], ids=str)
@pytest.mark.parametrize("groups", [(1, 70000, 1), (2, 3, 66000), (1, 65536, 2), (3, 5, 7)])
def test_folded_grids(cuda: DeviceBackend, groups: tuple[int, int, int], index: DType) -> None:
    k = KernelBuilder("folded", workgroup=(1, 1, 1), index_dtype=index)
    gx, gy, gz = groups
    y = k.buffer("y", i32, "readwrite", (gz, gy, gx))
    place = tuple(k.index("group", axis) for axis in (2, 1, 0))
    total = k.op("add", k.op("mul", place[0], k.i(3)), k.op("add", place[1], place[2]))
    k.store(y, place, k.op("add", k.load(y, place), k.cast(total, i32)))
    agree(cuda, k.finish(), {"y": np.ones((gz, gy, gx), np.int32)}, groups, what=f"{groups}")


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_strides_at_run_time(cuda: DeviceBackend, dtype: DType) -> None:
    k = KernelBuilder("strided", workgroup=(32, 2, 1), threads=(None, None, 1))
    x = k.buffer("x", dtype, "read", (None, None), (None, None))
    y = k.buffer("y", dtype, "write", (None, None), (None, 1))
    row, column = k.index("thread", 1), k.index("thread", 0)
    k.store(y, (row, column), k.load(x, (row, column), checked=True), checked=True)
    values = {"x": np.arange(7 * 45).reshape(7, 45).astype(dtype.dtype), "y": np.zeros((7, 45), dtype.dtype)}
    agree(cuda, k.finish(), values, (2, 4, 1), threads=(45, 7), what=str(dtype))


def test_replays(cuda: DeviceBackend) -> None:
    k = KernelBuilder("count", workgroup=(64, 1, 1), threads=(100, 1, 1))
    x, i = k.buffer("x", i32, "readwrite", (100,)), k.index("thread", 0)
    k.store(x, (i,), k.op("add", k.load(x, (i,)), k.const(1, i32)))
    outcome = on_device(cuda, k.finish(), {"x": np.zeros(100, np.int32)}, (2, 1, 1), launches=5)
    assert (outcome.values["x"] == 5).all()
