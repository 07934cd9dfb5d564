"""The Triton renderer: golden source, compiled to cubins for sm_90 with no GPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from poot.backends.cuda.triton import compile_triton
from poot.dtypes import ALL, DType, f32, f64, i16, i32
from poot.errors import Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.kernel.pipeline import prepare
from poot.kernel.render.triton import render
from poot.kernel.render.triton_helpers import HELPERS, needed
from tests.random_kernels import RandomKernel
from tests.unit.gpu_kernels import CASES
from tests.unit.gpu_matrix import matrix

EXPRESSIBLE = [name for name, case in CASES.items() if case.triton]


def compiled(kernel: Kernel, *, contract: bool = False) -> tuple[str, dict[str, int]]:
    code = compile_triton(render(kernel, contract=contract), "sm_90", what=f"kernel {kernel.name}")
    assert code.image[:4] == b"\x7fELF" and code.hidden == 2
    return code.text, dict(code.resources)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"triton/{name}.py", render(CASES[name].make()).text)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_golden_kernels_compile(name: str) -> None:
    _, used = compiled(CASES[name].make())
    assert used["spills"] == 0 and used["registers"] > 0


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.triton])
def test_what_triton_lacks(name: str) -> None:
    with pytest.raises(Unsupported, match=r"Triton has n(one|o arrays of a thread)"):
        render(CASES[name].make())


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_operation_compiles(dtype: DType) -> None:
    """Correctly rounded, and no flush of subnormals: what docs/numerics.md asks for."""
    ptx, _ = compiled(matrix(dtype))
    assert not re.search(r"\.approx|\.full|\.ftz", ptx)
    if dtype is f32:
        for instruction in ("div.rn.f32", "sqrt.rn.f32", "min.NaN.f32", "max.NaN.f32"):
            assert instruction in ptx


@pytest.mark.parametrize("name", ["neg", "abs"])
def test_the_least_i16_wraps(name: str) -> None:
    """Its PTX is changed as the PTX renderer's is, and assembled anew, for the architecture that it names."""
    k = KernelBuilder("least", workgroup=(64, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", i16, "read", (64,)), k.buffer("y", i16, "write", (64,))
    i = k.index("thread", 0)
    wrapped = k.op(name, k.load(x, (i,)))
    k.store(y, (i,), k.op("max", wrapped, k.load(x, (k.i(0),))))
    ptx, used = compiled(prepare(k.finish()))
    assert "not.b16" in ptx and not re.search(r"(neg|abs)\.s16", ptx) and used["registers"] > 0


def test_the_negative_zero_is_given_as_bits() -> None:
    """Triton 3.6 takes a literal -0.0 for 0.0, wherever it stands."""
    k = KernelBuilder("zero", workgroup=(64, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", f32, "read", (64,)), k.buffer("y", f32, "write", (64,))
    i = k.index("thread", 0)
    product = k.op("mul", k.const(-0.0, f32), k.load(x, (i,)))
    k.store(y, (i,), k.op("sub", k.const(-0.0, f32), product))
    text = render(prepare(k.finish())).text
    assert "-0.0" not in text and text.count("tl.full((), -2147483648, tl.int32)") == 2


def test_wide_literals_are_typed() -> None:
    """Triton 3.6 compares with a plain number of Python in f32."""
    k = KernelBuilder("third", workgroup=(64, 1, 1), threads=(64, 1, 1))
    x, y = k.buffer("x", f64, "read", (64,)), k.buffer("y", f64, "write", (64,))
    i = k.index("thread", 0)
    value = k.load(x, (i,))
    near = k.op("lt", value, k.const(1 / 3, f64))
    k.store(y, (i,), k.op("select", near, k.op("mul", value, k.const(0.5, f64)), value))
    text = render(prepare(k.finish())).text
    assert "< tl.full((), 0.3333333333333333, tl.float64)" in text and "* 0.5" in text


def test_contraction_is_asked_for() -> None:
    kernel = CASES["saxpy"].make()
    assert "fma.rn.f32" not in compiled(kernel)[0]
    assert "fma.rn.f32" in compiled(kernel, contract=True)[0]


def test_wide_accesses() -> None:
    """Where a buffer is aligned and the end of the grid is a multiple of four, as planned kernels have them."""
    k = KernelBuilder("double", workgroup=(256, 1, 1), threads=(1000, 1, 1))
    x, y = k.buffer("x", f32, "read", (1000,), align=16), k.buffer("y", f32, "write", (1000,), align=16)
    i = k.index("thread", 0)
    k.store(y, (i,), k.op("add", k.load(x, (i,)), k.load(x, (i,))))
    ptx, _ = compiled(prepare(k.finish()))
    assert "ld.global.v4.b32" in ptx and "st.global.v4.b32" in ptx


def test_random_kernels_compile(cases: Callable[[int, int], int]) -> None:
    for seed in range(cases(3, 100)):
        compiled(prepare(RandomKernel(seed, racy=False).kernel))


def test_names_that_mean_something_else() -> None:
    k = KernelBuilder("tl", workgroup=(32, 1, 1), threads=(32, 1, 1))
    lanes, y = k.scalar("lanes", i32), k.buffer("range", i32, "write", (32,))
    active = k.let(k.op("add", lanes, k.cast(k.index("thread", 0), i32)), "active")
    k.store(y, (k.index("thread", 0),), active)
    source = render(prepare(k.finish()))
    assert "lanes_2 = tl.arange(0, 32)" in source.text and "tl.store(range_2" in source.text
    compiled(prepare(k.finish()))


def test_compare_exchange_of_some_lanes_is_unsupported() -> None:
    k = KernelBuilder("swap", workgroup=(32, 1, 1), threads=(20, 1, 1))
    x = k.buffer("x", i32, "readwrite", (20,))
    k.atomic("compare_exchange", x, (k.index("thread", 0),), k.i(1), compare=k.i(2))
    with pytest.raises(Unsupported, match="has no mask"):
        render(prepare(k.finish()))


def test_a_loop_that_no_lane_enters_ends() -> None:
    """Scalars keep their values where no lane is active, so a loop on them asks for an active lane too."""
    k = KernelBuilder("loops", workgroup=(32, 1, 1), threads=(32, 1, 1))
    y, n = k.buffer("y", f32, "write", (32,)), k.scalar("n", i32)
    with k.for_(k.i(0), n) as turn:
        with k.if_(k.op("gt", turn, k.i(2))):
            k.break_()
        count = k.let(k.i(0), "count")
        with k.while_(k.op("lt", count, turn)):
            k.assign(count, k.op("add", count, k.i(1)))
    k.store(y, (k.index("thread", 0),), k.const(1.0, f32))
    kernel = k.finish()
    assert re.search(r"going_?\d* = active_?\d* & ", render(kernel).text)
    compiled(kernel)


def test_helpers_bring_what_they_call() -> None:
    assert needed(["claim_first"]) == ["claim", "claim_first"]
    assert needed(["rem_signed", "sticky_signed"]) == ["floor_div_signed", "rem_signed", "sticky", "sticky_signed"]
    assert needed(HELPERS) == list(HELPERS)
