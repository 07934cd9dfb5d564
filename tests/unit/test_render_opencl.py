"""The OpenCL C renderer: golden programs, built by the driver; refusals, names, and the lines that text came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from poot.backends.device import BufferView, LaunchSpec, open_device
from poot.backends.toolchain import compile_kernel
from poot.dtypes import f32, i64
from poot.errors import CompileError, DeviceError, DeviceUnavailableError, Unsupported
from poot.kernel.build import KernelBuilder
from poot.kernel.pipeline import prepare
from poot.kernel.render.opencl import kernel_arguments, render
from poot.target import Target
from tests.device_runs import agree
from tests.unit.gpu_kernels import CASES, Written
from tests.unit.threads_support import forked

TARGET = replace(Target.parse("opencl"), features=frozenset({"f64", "i64", "int64_atomics"}))


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"opencl/{name}.cl", render(CASES[name].make(), TARGET).text)


@pytest.mark.parametrize("name", CASES)
def test_golden_kernels_build(name: str) -> None:
    device = open_device("opencl")
    device.load(compile_kernel(CASES[name].make(), device.target))


def test_contraction_is_asked_for() -> None:
    kernel = CASES["saxpy"].make()
    assert "#pragma OPENCL FP_CONTRACT OFF" in render(kernel, TARGET).text
    assert "multiply_add_f32(" in render(kernel, TARGET, contract=True).text
    assert "multiply_add" not in render(kernel, TARGET).text


def test_the_arguments_of_a_kernel_that_can_fault() -> None:
    k = KernelBuilder("f", workgroup=(8, 1, 1), threads=(None, 1, 1))
    x, s = k.buffer("x", f32, "readwrite", (None,)), k.scalar("s", f32)
    k.store(x, (k.index("thread", 0),), s, checked=True)
    kernel = prepare(k.finish())
    kinds = [(slot.kind, what) for slot, what in kernel_arguments(kernel, faults=True)]
    first = [
        ("buffer", "pointer"),
        ("buffer", "offset"),
        ("extent", "number"),
        ("scalar", "number"),
        ("threads", "number"),
    ]
    assert kinds == [*first, ("launch", "number"), ("fault", "pointer"), ("fault", "offset")]
    assert [(slot.kind, what) for slot, what in kernel_arguments(kernel, faults=False)] == first


def test_a_target_without_wide_atomics_refuses_them() -> None:
    k = KernelBuilder("f", workgroup=(8, 1, 1))
    k.atomic("add", k.buffer("x", i64, "readwrite", (1,)), (k.i(0),), k.const(1, i64))
    with pytest.raises(Unsupported, match="atomic add on i64 is not supported by opencl: the device has no 64-bit"):
        render(prepare(k.finish()), Target.parse("opencl"))


def test_a_text_that_does_not_build_is_a_compile_error_and_the_device_goes_on() -> None:
    device = open_device("opencl")
    k = Written("broken", workgroup=(8, 1, 1), threads=(8, 1, 1))
    k.at("out[i] = 1.0")
    k.store(k.buffer("out", f32, "write", (8,)), (k.index("thread", 0),), k.const(1.0, f32))
    kernel = k.finish()
    compiled = compile_kernel(kernel, device.target)
    wrong = replace(compiled.artifact, text=compiled.artifact.text.replace("1.0f", "1.0f +* nothing"))
    with pytest.raises(CompileError, match=r"kernel broken did not compile for opencl.*: .*nothing"):
        device.load(replace(compiled, artifact=wrong))
    agree("opencl", kernel, {"out": np.zeros(8, np.float32)})


def test_host_memory_lives_as_long_as_the_work_that_uses_it() -> None:
    """A launch takes longer than its arguments' owners keep them: the first one of a kernel waits for the compiler."""
    device, n = open_device("opencl"), 1 << 16
    if device.import_host(np.zeros(1, np.float32)) is None:
        return
    for turn in range(3):
        k = KernelBuilder("doubles", workgroup=(64, 1, 1), threads=(n, 1, 1))
        x, y, i = k.buffer("x", f32, "read", (n,)), k.buffer("y", f32, "write", (n,)), k.index("thread", 0)
        k.store(y, (i,), k.op("mul", k.load(x, (i,)), k.const(2.0 + turn, f32)))
        loaded = device.load(compile_kernel(k.finish(), device.target))
        out = BufferView(device.allocate(4 * n))
        imported = device.import_host(np.full(n, 1.5, np.float32))
        assert imported is not None
        spec = LaunchSpec(loaded, ((0, 0), (1, 0)), (n // 64, 1, 1))
        device.record([spec], [None, out], (0,), [BufferView(imported)])
        del imported
        np.full(n, 7.0, np.float32)
        found = np.empty(n, np.float32)
        device.read(out, found)
        assert (found == 1.5 * (2.0 + turn)).all()


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceUnavailableError, match="device opencl:77 is not available: devices here, from 0 on: "):
        open_device("opencl:77")


def test_a_child_process_does_not_inherit_the_device() -> None:
    device = open_device("opencl")
    assert issubclass(DeviceError, Exception)
    assert "does not survive a fork" in forked(lambda: device.allocate(16))
