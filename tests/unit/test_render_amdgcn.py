"""The AMDGCN renderer: golden LLVM text, every operation compiled, and lanes that meet as the interpreter says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poot.api import library
from poot.backends.hip.amdgpu import compile_amdgpu
from poot.backends.toolchain import compile_kernel
from poot.dtypes import ALL, DType, bool_, f16, f32, f64, i8, i32, i64, u8
from poot.errors import CompileError, KernelCheckError, Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.ir import Collective, Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.render.amdgcn import render
from poot.target import Target
from tests.amd_waves import Waves
from tests.device_runs import assert_same, copied, interpret
from tests.unit.gpu_kernels import CASES
from tests.unit.gpu_matrix import matrix
from tests.unit.native_fuzz import Generator

HIP = Target.parse("hip:gfx942")
AMDGCN = replace(HIP, languages=("amdgcn",))


def assembly(kernel: Kernel, *, contract: bool = False) -> str:
    return compile_amdgpu(render(kernel, contract=contract).text, "gfx942")[0]


# --- text and machine code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tile_transpose", "scan", "checked_gather"])
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"amdgcn/{name}.ll", render(CASES[name].make()).text)


@pytest.mark.parametrize("name", [name for name in CASES if name != "large_shared"])
def test_golden_kernels_compile(name: str) -> None:
    assert dict(compile_kernel(CASES[name].make(), AMDGCN).resources)["spills"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_operation_compiles(dtype: DType) -> None:
    """Correctly rounded, and no flush of subnormals: what docs/numerics.md asks for."""
    text = assembly(matrix(dtype))
    assert ".amdhsa_float_denorm_mode_32 3" in text and ".amdhsa_float_denorm_mode_16_64 3" in text
    assert "s_swappc" not in text, "nothing is called"
    if dtype is f32:
        for instruction in ("v_div_fixup_f32", "v_rndne_f32", "v_min_f32", "v_max_f32"):
            assert instruction in text


def test_contraction_is_asked_for() -> None:
    kernel = CASES["saxpy"].make()
    assert not re.search("v_(pk_)?fma", assembly(kernel))
    assert re.search("v_(pk_)?fma", assembly(kernel, contract=True))


def test_barriers_wait_for_shared_memory() -> None:
    text = assembly(CASES["tile_transpose"].make())
    assert re.search(r"ds_write_b32 .*\n\ts_waitcnt lgkmcnt\(0\)\n\ts_barrier\n\tds_read_b32", text)


def test_random_kernels_compile(cases: Callable[[int, int], int]) -> None:
    for seed in range(cases(10, 1000)):
        kernel = Generator(seed).kernel()
        try:
            check(kernel)
        except KernelCheckError:
            continue
        compile_amdgpu(render(kernel).text, "gfx942")


def test_boolean_parameters_are_bytes() -> None:
    k = KernelBuilder("flag", workgroup=(32, 1, 1), threads=(32, 1, 1))
    flag = k.scalar("flag", bool_)
    k.store(k.buffer("y", bool_, "write", (32,)), (k.index("thread", 0),), flag)
    assert "i8 %arg.flag" in render(prepare(k.finish())).text


# --- what is refused ------------------------------------------------------------------------------------------------


def test_foreign_functions_are_refused() -> None:
    for name in ("llvm.nvvm.read.ptx.sreg.tid.x", "llvm.sin.f32", "sinf"):
        with pytest.raises(CompileError, match=rf"{re.escape(name)}, which AMDGCN may not use"):
            compile_amdgpu(f"declare float @{name}(float)\n", "gfx942")


def test_errors_carry_the_compilers_message() -> None:
    with pytest.raises(CompileError, match="expected top-level entity"):
        compile_amdgpu("nonsense", "gfx942", what="kernel k")
    with pytest.raises(CompileError, match="kernel k did not compile for hip:gfx942"):
        compile_amdgpu('target triple = "amdgcn-amd-amdhsa"\n', "gfx942", what="kernel k")


def test_old_code_generators_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poot.backends.hip.amdgpu.version", lambda: "3.6.0")
    with pytest.raises(Unsupported, match=r"it needs Triton 3\.7, and 3\.6\.0 is installed"):
        compile_amdgpu(render(CASES["saxpy"].make()).text, "gfx942")


def test_too_much_shared_memory_is_refused() -> None:
    """Arrays begin at multiples of 16 bytes, which the check of a kernel's limits does not count."""
    k = KernelBuilder("full", workgroup=(8, 1, 1))
    x, i = k.buffer("x", u8, "readwrite", (8,)), k.index("local", 0)
    arrays = [k.alloc(name, u8, (length,), "shared") for name, length in (("a", 32761), ("b", 32761), ("c", 14))]
    value = k.let(k.load(x, (i,)))
    for array in arrays:
        k.store(array, (i,), value)
    k.barrier()
    back = k.let(k.op("sub", k.i(7), i))
    k.store(x, (i,), k.op("add", *(k.load(array, (back,)) for array in arrays[:2])))
    k.store(x, (i,), k.op("add", k.load(x, (i,)), k.load(arrays[2], (back,))))
    with pytest.raises(CompileError, match="65550 bytes of shared memory, where the limit is 65536"):
        compile_kernel(k.finish(), AMDGCN)


# --- lanes, waves and blocks ----------------------------------------------------------------------------------------


def agree(kernel: Kernel, values: dict[str, Any], *, groups: tuple[int, int, int], **launch: Any) -> None:
    """Lane by lane, and in the interpreter."""
    mine, theirs = dict(copied(values)), dict(copied(values))
    fault = Waves(kernel).run(mine, groups=groups, **launch)
    launch.pop("folded", None)
    with np.errstate(all="ignore"):
        expected = interpret(kernel, theirs, groups=groups, **launch)
    for name, array in theirs.items():
        if isinstance(array, np.ndarray):
            assert_same(mine[name], array, name)
    assert bool(fault[0]) == bool(expected[0])


def collectives(dtype: DType, size: int, ops: tuple[str, ...], turns: int) -> Kernel:
    """Every collective on one dtype, again and again, so that shared memory is used anew."""
    k = KernelBuilder("meet", workgroup=(size, 1, 1))
    n = size * turns
    x, outs = k.buffer("x", dtype, "read", (n,)), {op: k.buffer(f"y_{op}", dtype, "write", (n,)) for op in ops}
    i = k.index("local", 0)
    with k.for_(k.i(0), k.i(turns)) as turn:
        at = k.let(k.op("add", k.op("mul", turn, k.i(size)), i))
        value = k.let(k.load(x, (at,)))
        for op in ops:
            k.store(outs[op], (at,), k.let(Collective(op, value, dtype)))  # type: ignore[arg-type]
    return k.finish()


SIZES = [1, 24, 64, 65, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 32, 48, 96, 128, 200))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [i32, i8, i64, f32, f64, f16, bool_], ids=str)
def test_collectives(dtype: DType, size: int) -> None:
    """Small whole numbers, so that every order of summation gives the same."""
    turns = 3
    ops = ("any", "all") if dtype is bool_ else ("sum", "max", "min", "scan")
    rng = np.random.default_rng(size)
    if dtype is bool_:
        rows = [np.zeros(size, bool), np.ones(size, bool), np.arange(size) != size - 1]
        x = np.concatenate(rows)
    else:
        x = rng.integers(-2, 3, turns * size).astype(dtype.dtype)
    values = {"x": x, **{f"y_{op}": np.zeros_like(x) for op in ops}}
    agree(collectives(dtype, size, ops, turns), values, groups=(1, 1, 1))


def test_folded_grids_are_unfolded() -> None:
    k = KernelBuilder("grid", workgroup=(4, 2, 1))
    y = k.buffer("y", i32, "readwrite", (3, 10, 8))
    z, row, column = (k.index("thread", axis) for axis in (2, 1, 0))
    number = k.op("add", k.op("mul", k.index("group", 1), k.i(10)), k.index("group", 2))
    k.store(y, (z, row, column), k.op("add", k.load(y, (z, row, column)), number))
    agree(k.finish(), {"y": np.ones((3, 10, 8), np.int32)}, groups=(2, 5, 3), folded=(2, 4, 4))


def test_random_kernels_lane_by_lane(cases: Callable[[int, int], int]) -> None:
    for seed in range(cases(15, 700)):
        made = Generator(seed)
        kernel = made.kernel()
        try:
            check(kernel)
        except KernelCheckError:
            continue
        given = zip(made.threads or (), kernel.threads or (), strict=True)
        threads = [count for count, baked in given if baked is None]
        agree(kernel, made.arguments(), groups=made.groups, threads=threads)


def test_tiles_lane_by_lane() -> None:
    rng = np.random.default_rng(0)
    transpose = library.transpose.specialise(HIP, T=f32).kernel
    x = rng.random((40, 70), np.float32)
    agree(transpose, {"x": x, "y": np.zeros((70, 40), np.float32)}, groups=(3, 2, 1))
    matmul = library.matmul.specialise(HIP, T=f32).kernel
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((70, 20), (20, 66)))
    agree(matmul, {"a": a, "b": b, "c": np.zeros((70, 66), np.float32)}, groups=(2, 2, 1))


def test_shared_counts_lane_by_lane() -> None:
    histogram = library.histogram.specialise(HIP).kernel
    x = np.random.default_rng(0).integers(0, 256, 3000).astype(np.uint8)
    agree(histogram, {"x": x, "counts": np.zeros(256, np.int32)}, groups=(2, 1, 1))


def test_bodies_lane_by_lane() -> None:
    rng = np.random.default_rng(0)
    position, mass = rng.random((200, 3), np.float32), rng.random(200, np.float32)
    values = {"position": position, "mass": mass, "out": np.zeros((200, 3), np.float32), "softening": 0.1}
    agree(library.accelerations.specialise(HIP).kernel, values, groups=(2, 1, 1))
