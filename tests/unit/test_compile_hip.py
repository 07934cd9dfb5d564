"""Kernels for AMD's GPUs, compiled through Triton's HIP target to code objects for gfx942; nothing here runs them.

One graph for every schedule that the planner has, and every kernel of the library: in Triton's language where that can
say them, else (shared arrays, barriers) as LLVM IR that enters Triton's HIP target behind its language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
from poot.kernel.check_target import shared_bytes
from poot.kernel.ir import Alloc, Collective, walk
from tests import code_objects

HIP = poot.Target.parse("hip:gfx942")
AMDGCN = replace(HIP, languages=("amdgcn",))

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
    "attention over many keys": (lambda q, k, v: ops.nn.attention(q, k, v), (f32[8, 8, 1024, 16],) * 3),
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
"""Kernels with shared arrays, which Triton's language does not have."""


def check(compiled: CompiledKernel) -> None:
    """A loader finds the kernel, with an argument for every slot, and what it uses is what was said of it."""
    code = compiled.artifact
    assert isinstance(code, CudaCode)
    assert ".amdgcn_target" in code.text and "gfx942" in code.text
    loaded = code_objects.read(code.image)
    assert loaded.arch == "gfx942"
    kernel, descriptor = loaded.kernel(compiled.entry), loaded.descriptors[compiled.entry]
    assert kernel[".symbol"] == f"{compiled.entry}.kd"
    assert descriptor.code == loaded.symbols[compiled.entry]
    assert kernel[".wavefront_size"] == 64 and kernel[".max_flat_workgroup_size"] == code.threads
    given = code_objects.arguments(kernel)
    assert len(given) == len(compiled.slots) + code.hidden
    assert kernel[".kernarg_segment_size"] == descriptor.arguments >= sum(size for _, size, _ in given)
    used = dict(compiled.resources)
    assert (used["vgprs"], used["sgprs"]) == (kernel[".vgpr_count"], kernel[".sgpr_count"])
    assert used["spills"] == kernel[".vgpr_spill_count"] + kernel[".sgpr_spill_count"]
    assert used["stack"] == kernel[".private_segment_fixed_size"] == descriptor.stack
    assert used["shared"] == descriptor.shared + code.shared
    if compiled.language == "amdgcn":
        check_amdgcn(compiled, code, kernel)


def check_amdgcn(compiled: CompiledKernel, code: CudaCode, kernel: dict[str, Any]) -> None:
    """Arguments lie one after the other as their dtypes are aligned, a block is as large as the work-group, and shared
    memory is the kernel's own and a word of 8 bytes a wave for collectives.
    """
    end = 0
    for slot, (offset, size, kind) in zip(compiled.slots, code_objects.arguments(kernel), strict=True):
        pointer = slot.kind in ("buffer", "fault")
        assert size == (8 if pointer else slot.dtype.itemsize)
        assert kind == ("global_buffer" if pointer else "by_value")
        assert offset == -(-end // size) * size
        end = offset + size
    threads = compiled.kernel.group_invocations
    assert code.threads == threads and kernel[".reqd_workgroup_size"] == [threads, 1, 1]
    nodes = walk(compiled.kernel.body)
    waves = -(-threads // 64)
    words = 8 * waves if waves > 1 and any(isinstance(node, Collective) for node in nodes) else 0
    arrays = tuple(node for node in nodes if isinstance(node, Alloc) and node.space == "shared")
    assert kernel[".group_segment_fixed_size"] == words + shared_bytes(replace(compiled.kernel, body=arrays))


def schedule(name: str) -> None:
    function, specs = SCHEDULES[name]
    program = poot.compile(poot.trace(function).graph(*specs), HIP, poot.CompileOptions())
    assert program.kernels
    for kernel in program.kernels:
        check(compile_kernel(kernel, HIP, contract=program.contract))
        check(compile_kernel(kernel, AMDGCN, contract=program.contract))


@pytest.mark.parametrize("name", QUICK)
def test_a_schedule_compiles(name: str) -> None:
    schedule(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in QUICK])
def test_every_schedule_compiles(name: str) -> None:
    schedule(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LIBRARY if name not in SHARED])
def test_the_library_compiles_in_tritons_language(name: str) -> None:
    compiled = getattr(library, name).compile(HIP, **LIBRARY[name])
    assert compiled.language == "triton"
    check(compiled)


@pytest.mark.parametrize("name", SHARED)
def test_what_tritons_language_cannot_say_is_amdgcn(name: str) -> None:
    kernel = getattr(library, name)
    with pytest.raises(Unsupported, match="Triton has none"):
        kernel.compile(replace(HIP, languages=("triton",)), **LIBRARY[name])
    compiled = kernel.compile(HIP, **LIBRARY[name])
    assert compiled.language == "amdgcn"
    check(compiled)


@pytest.mark.parametrize("name", LIBRARY)
def test_every_library_kernel_is_amdgcn_too(name: str) -> None:
    check(getattr(library, name).compile(AMDGCN, **LIBRARY[name]))


def test_the_library_is_all_here() -> None:
    assert set(LIBRARY) == set(kernels.__all__)


def test_there_is_no_such_device() -> None:
    assert "hip" not in backend_names()
    with pytest.raises(TargetError, match="known architectures are gfx90a, gfx942, gfx950"):
        poot.Target.parse("hip:gfx1")
