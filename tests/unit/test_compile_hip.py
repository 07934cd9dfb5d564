"""Kernels for AMD's GPUs, compiled through Triton's HIP target to code objects for gfx942; nothing here runs them.

One graph for every schedule that the planner has, and every kernel of the library but those with shared arrays, which
Triton does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import poot
from poot import bf16, f16, f32, i32, ops
from poot.api import library
from poot.backends.cuda.code import CudaCode
from poot.backends.device import backend_names
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.errors import TargetError, Unsupported
from poot.kernel import library as kernels
from poot.kernel.ir import Alloc, walk

HIP = poot.Target.parse("hip:gfx942")
AMDGPU = 224  # EM_AMDGPU, the machine in the header of an ELF file

SCHEDULES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a thread an element": (lambda x, y: ops.tanh(x) * y, (f32[1000], f32[1000])),
    "a transposed tile": (lambda x: x.T * 2.0, (f32[300, 200],)),
    "a thread a row": (lambda x: ops.sum(x, axis=1), (f32[4000, 8],)),
    "a group a row": (lambda x: ops.nn.softmax(x, axis=-1), (f32[64, 1000],)),
    "a row in two stages": (lambda x: ops.sum(x), (f32[1 << 22],)),
    "argmax": (lambda x: ops.argmax(x, axis=1), (f32[3, 1000],)),
    "a contraction": (lambda x, y: x @ y, (f32[64, 128], f32[128, 96])),
    "a contraction with panels and an epilogue": (lambda x, y: ops.nn.gelu(x @ y), (bf16[512, 512], bf16[512, 512])),
    "a matrix and a vector": (lambda x, y: x @ y, (f32[1, 4096], f32[4096, 512])),
    "attention": (lambda q, k, v: ops.nn.attention(q, k, v), (f16[1, 4, 128, 64],) * 3),
    "convolution": (lambda x, w: ops.nn.conv2d(x, w), (f32[1, 3, 16, 16], f32[4, 3, 3, 3])),
    "gather": (lambda x, i: x[i], (f32[100], i32[7])),
    "scatter": (lambda x, i: x.at[i].add(1.0), (f32[100], i32[7])),
    "a scan": (lambda x: ops.cumulative_sum(x, axis=1), (f32[3, 1000],)),
    "a sort": (lambda x: ops.sort(x), (f32[3, 16],)),
    "random bits": (lambda: ops.random.normal(ops.random.key(0), (100,)), ()),
}
QUICK = ("a thread an element",)

LIBRARY: dict[str, dict[str, Any]] = {
    "add": {"T": f32},
    "saxpy": {},
    "mandelbrot": {},
    "game_of_life": {},
    "softmax": {"T": bf16},
    "rmsnorm": {"T": f16},
    "argmax": {"T": f32},
    "gemv": {"T": bf16},
    "reduce": {"T": f32, "op": "max"},
    "scan": {"T": f32},
    "scan_blocks": {"T": f32},
    "add_before": {"T": f32},
    "convolution": {"T": f32},
    "bitonic_step": {"T": f32},
    "transpose": {"T": f32},
    "matmul": {"T": f32},
    "histogram": {},
    "accelerations": {},
}
SHARED = ("transpose", "matmul", "histogram", "accelerations")
"""Kernels with shared arrays."""


def check(compiled: CompiledKernel) -> None:
    assert compiled.language == "triton"
    code = compiled.artifact
    assert isinstance(code, CudaCode)
    assert code.image[:4] == b"\x7fELF" and int.from_bytes(code.image[18:20], "little") == AMDGPU
    assert code.threads % 64 == 0
    assert ".amdgcn_target" in code.text and "gfx942" in code.text


def schedule(name: str) -> None:
    function, specs = SCHEDULES[name]
    program = poot.compile(poot.trace(function).graph(*specs), HIP, poot.CompileOptions())
    assert program.kernels
    for kernel in program.kernels:
        check(compile_kernel(kernel, HIP, contract=program.contract))


@pytest.mark.parametrize("name", QUICK)
def test_a_schedule_compiles(name: str) -> None:
    schedule(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in QUICK])
def test_every_schedule_compiles(name: str) -> None:
    schedule(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LIBRARY if name not in SHARED])
def test_every_library_kernel_compiles(name: str) -> None:
    check(getattr(library, name).compile(HIP, **LIBRARY[name]))


def test_the_library_is_all_here() -> None:
    assert set(LIBRARY) == set(kernels.__all__)


@pytest.mark.parametrize("name", SHARED)
def test_shared_arrays_are_refused(name: str) -> None:
    kernel = getattr(library, name)
    body = kernel.specialise(HIP, **LIBRARY[name]).kernel.body
    assert any(isinstance(node, Alloc) and node.space == "shared" for node in walk(body))
    with pytest.raises(Unsupported, match="Triton has none"):
        kernel.compile(HIP, **LIBRARY[name])


def test_there_is_no_such_device() -> None:
    assert "hip" not in backend_names()
    with pytest.raises(TargetError, match="known architectures are gfx90a, gfx942, gfx950"):
        poot.Target.parse("hip:gfx1")
