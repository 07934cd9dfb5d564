"""The PTX renderer: golden LLVM text, and every operation and kind of flow assembled for sm_80 and sm_90."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from poot.backends.cuda import nvptx
from poot.dtypes import ALL, DType, bool_, f32, i16, i32, u64
from poot.errors import CompileError, KernelCheckError
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.render.ptx import folds, render
from tests.unit.gpu_kernels import CASES
from tests.unit.gpu_matrix import matrix
from tests.unit.native_fuzz import Generator

ARCHES = ("sm_80", "sm_90")


def assembled(kernel: Kernel, arch: str, *, contract: bool = False) -> tuple[str, dict[str, int]]:
    source = render(kernel, contract=contract)
    ptx = nvptx.compile_ptx(source.text, arch)
    assert f".entry {source.symbol}(" in ptx
    image, used = nvptx.assemble(ptx, arch)
    assert image[:4] == b"\x7fELF"
    return ptx, dict(used)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"ptx/{name}.ll", render(CASES[name].make()).text)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("name", CASES)
def test_golden_kernels_assemble(name: str, arch: str) -> None:
    _, used = assembled(CASES[name].make(), arch)
    assert used["spills"] == 0


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_operation_assembles(dtype: DType, arch: str) -> None:
    """Correctly rounded, and no flush of subnormals: what docs/numerics.md asks for."""
    ptx, _ = assembled(matrix(dtype), arch)
    assert not re.search(r"\.approx|\.full|\.ftz", ptx)
    if dtype is f32:
        for instruction in ("div.rn.f32", "sqrt.rn.f32", "min.NaN.f32", "max.NaN.f32", "cvt.rni.f32.f32"):
            assert instruction in ptx
        assert not re.search(r"\b(mul|add|sub)\.f32", ptx), "the assembler may fuse what has no rounding"


def test_contraction_is_asked_for() -> None:
    kernel = CASES["saxpy"].make()
    assert "fma.rn.f32" not in assembled(kernel, "sm_90")[0]
    assert "fma.rn.f32" in assembled(kernel, "sm_90", contract=True)[0]


def test_wide_accesses() -> None:
    """Neighbouring elements of an aligned buffer are one access."""
    k = KernelBuilder("four", workgroup=(64, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", f32, "read", (64, 4), align=16), k.buffer("y", f32, "write", (64, 4), align=16)
    i = k.index("thread", 0)
    values = [k.let(k.load(x, (i, k.i(j)))) for j in range(4)]
    for j, value in enumerate(values):
        k.store(y, (i, k.i(j)), value)
    ptx, _ = assembled(prepare(k.finish()), "sm_90")
    assert "ld.global.nc.v4.b32" in ptx and "st.global.v4.b32" in ptx


@pytest.mark.parametrize("name", ["neg", "abs"])
def test_the_least_i16_wraps(name: str) -> None:
    """Not as the assembler's own operation, whose result it takes for one that fits."""
    k = KernelBuilder("least", workgroup=(64, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", i16, "read", (64,)), k.buffer("y", bool_, "write", (64,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("lt", k.op(name, k.load(x, (i,))), k.load(x, (k.i(0),))))
    ptx, _ = assembled(prepare(k.finish()), "sm_90")
    assert "not.b16" in ptx and not re.search(r"(neg|abs)\.s16", ptx)


@pytest.mark.parametrize("name", ["shift_left", "shift_right"])
def test_a_wide_shift_looks_at_all_of_its_count(name: str) -> None:
    k = KernelBuilder("wide", workgroup=(64, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", u64, "read", (64,)), k.buffer("y", u64, "write", (64,))
    i = k.index("thread", 0)
    k.store(y, (i,), k.op(name, k.const(1, u64), k.load(x, (i,))))
    ptx, _ = assembled(prepare(k.finish()), "sm_90")
    assert re.search(r"(min|setp\.\w+)\.u64\s+%\w+, %\w+, (64|63);", ptx), ptx


def test_a_fault_keeps_the_warp_together() -> None:
    """Where shuffles follow, the threads that met a fault wait for the one that writes it down."""
    for together in (False, True):
        k = KernelBuilder("meeting", workgroup=(32, 1, 1), threads=(64, 1, 1))
        x, y = k.buffer("x", f32, "read", (None,)), k.buffer("y", f32, "write", (64,))
        i = k.index("thread", 0)
        value = k.let(k.load(x, (i,), checked=True))
        k.store(y, (i,), k.collective("sum", value) if together else value)
        ptx, _ = assembled(prepare(k.finish()), "sm_90")
        assert ("bar.warp.sync" in ptx) == together


def test_random_kernels_assemble(cases: Callable[[int, int], int]) -> None:
    for seed in range(cases(30, 1000)):
        kernel = Generator(seed).kernel()
        try:
            check(kernel)
        except KernelCheckError:
            continue
        ptx = nvptx.compile_ptx(render(kernel).text, ARCHES[seed % 2])
        if seed % 5 == 0:
            nvptx.assemble(ptx, ARCHES[seed % 2])


def test_reads_do_not_move_across_barriers() -> None:
    """Another thread's writes to a buffer are seen behind a barrier, so its pointer is not said to be alone."""
    k = KernelBuilder("across", workgroup=(64, 1, 1))
    x, i = k.buffer("x", i32, "readwrite", (64,)), k.index("local", 0)
    before = k.let(k.load(x, (i,)))
    k.barrier()
    k.store(x, (k.op("sub", k.i(63), i),), k.op("add", before, k.i(1)))
    k.barrier()
    k.store(x, (i,), k.op("mul", k.load(x, (i,)), k.i(2)))
    ptx, _ = assembled(prepare(k.finish()), "sm_90")
    assert ptx.count("ld.global") == 2
    assert "noalias" not in render(prepare(k.finish())).text


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (None, True),
        ((100, 1, 1), False),
        ((None, 1, 1), False),
        ((1, None, 1), True),
        ((1, 65535, 1), False),
        ((1, 65536, 1), True),
    ],
)
def test_which_grids_may_be_folded(threads: tuple[int | None, int | None, int | None] | None, expected: bool) -> None:
    k = KernelBuilder("grid", workgroup=(1, 1, 1), threads=threads)
    k.store(k.buffer("y", i32, "write", (1,)), (k.i(0),), k.const(1, i32))
    assert folds(k.finish()) is expected


def test_foreign_intrinsics_are_refused() -> None:
    text = "declare float @llvm.sin.f32(float)\n"
    with pytest.raises(CompileError, match=r"llvm\.sin\.f32, which PTX may not use"):
        nvptx.compile_ptx(text, "sm_90")


def test_errors_carry_the_compilers_message() -> None:
    with pytest.raises(CompileError, match="expected top-level entity"):
        nvptx.compile_ptx("nonsense", "sm_90", what="kernel k")
    with pytest.raises(CompileError, match="kernel k did not compile for cuda:sm_90"):
        nvptx.assemble("nonsense", "sm_90", what="kernel k")


def test_boolean_parameters_are_bytes() -> None:
    k = KernelBuilder("flag", workgroup=(32, 1, 1), threads=(32, 1, 1))
    flag = k.scalar("flag", bool_)
    k.store(k.buffer("y", bool_, "write", (32,)), (k.index("thread", 0),), flag)
    ptx, _ = assembled(prepare(k.finish()), "sm_90")
    assert ".param .u8 poot_flag_param_0" in ptx
