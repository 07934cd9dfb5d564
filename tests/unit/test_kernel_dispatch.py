"""Grids past a device's limit, and the low-level context."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import poot
from poot.api.context import Context, KernelBuffer
from poot.api.devices import Device
from poot.api.kernels import Kernel, kernel
from poot.backends.device import open_device
from poot.dtypes import bf16, f16, f32, i8, i32, i64, u8
from poot.errors import (
    ArgumentTypeError,
    DeviceMismatchError,
    KernelFault,
    LaunchError,
    PootError,
)
from poot.kernel.grid import fold_sizes, folded
from poot.kernel.language import (
    Out,
    Out2,
    group_index,
    local_index,
    num_groups,
    thread_index,
)
from tests.unit.launch_kernels import add, ones, past, scaled, totals

T = TypeVar("T")


# --- grids past a limit ---------------------------------------------------------------------------------------------


@kernel(workgroup=(4, 2))
def places(y: Out2[i32], count: Out[i32]):
    i, j = thread_index("x"), thread_index("y")
    y[j, i] = group_index("x") + 100 * group_index("y") + 10_000 * (local_index("x") + 4 * local_index("y"))
    if i == 0 and j == 0:
        count[0] = num_groups("x")
        count[1] = num_groups("y")


class Narrow:
    """A device like another, with a shorter limit on its grids."""

    def __init__(self, inner: Any, limit: int) -> None:
        self._inner = inner
        self.target = inner.target.replace_limits(grid=limit)
        self.name = "narrow"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("limit", [2, 3, 7, 100])
def test_long_grids_are_folded(device_name: str, limit: int) -> None:
    narrow = Device(Narrow(open_device(device_name), limit))  # type: ignore[arg-type]
    y, count = np.zeros((5, 19), np.int32), np.zeros(2, np.int32)
    if limit == 2:
        with pytest.raises(LaunchError, match="past what narrow can launch"):
            places(y, count, threads=(19, 5), device=narrow)
        return
    places(y, count, threads=(19, 5), device=narrow)
    i, j = np.arange(19), np.arange(5)[:, None]
    np.testing.assert_array_equal(y, i // 4 + 100 * (j // 2) + 10_000 * (i % 4 + 4 * (j % 2)))
    assert count.tolist() == [5, 3]


def test_folded_work_groups(device_name: str) -> None:
    narrow = Device(Narrow(open_device(device_name), 3))  # type: ignore[arg-type]
    x, y = np.arange(640, dtype=np.float32), np.zeros(10, np.float32)
    totals(x, y, groups=10, device=narrow)
    np.testing.assert_array_equal(y, x.reshape(10, 64).sum(1))


def test_fold_sizes() -> None:
    assert fold_sizes((5, 1, 1), 5) is None
    assert fold_sizes((70_000, 1, 1), 65_535) == (65_535, 2, 1)
    assert fold_sizes((100, 100, 1), 50) == (50, 50, 4)
    assert [param.name for param in folded(add.ir).params[3:]] == [
        *("grid_x", "grid_y", "grid_z", "threads_x", "threads_y", "threads_z")
    ]


# --- the low level --------------------------------------------------------------------------------------------------


def test_dispatch(device: Device) -> None:
    ctx, n = Context(device), 1000
    a, b = np.arange(n, dtype=np.float32), ones(n)
    buffers = [KernelBuffer.read_only(a), KernelBuffer.read_only(b), KernelBuffer.write(f32, n)]
    compiled = add.compile(device.target, workgroup=(64, 1, 1))
    ctx.dispatch("add", compiled, workgroup=(64, 1, 1), threads=(n, 1, 1), buffers=buffers)
    np.testing.assert_array_equal(buffers[2].to_numpy(), a + b)
    assert repr(buffers[2]) == "KernelBuffer(write, f32[1000])"
    compiled = scaled.compile(device.target, workgroup=32, T=f32)
    ctx.dispatch(
        "scaled",
        compiled,
        workgroup=32,
        threads=n,
        buffers=buffers[::2],
        scalars={"factor": 2, "n": 1, "up": True},
    )
    np.testing.assert_array_equal(buffers[2].to_numpy(), 2 * a + 1)
    assert KernelBuffer.write(i8, (2, 3)).to_numpy().shape == (2, 3)


def test_dispatch_in_groups_and_its_faults(device: Device) -> None:
    ctx = Context(device)
    x, y = KernelBuffer.read_only(ones(128)), KernelBuffer.write(f32, 2)
    ctx.dispatch("totals", totals.compile(device.target), workgroup=64, groups=2, buffers=[x, y])
    assert y.to_numpy().tolist() == [64, 64]
    z = KernelBuffer.read_write(np.zeros(8, np.float32))
    compiled = past.compile(device.target, workgroup=8)
    ctx.dispatch("past", compiled, workgroup=8, threads=8, buffers=[z], scalars={"by": 1})
    with pytest.raises(KernelFault, match="index 8 of x"):
        z.to_numpy()


def test_what_dispatch_refuses() -> None:
    device = poot.device("cpu")
    ctx, compiled = Context(device), add.compile(device.target, workgroup=64)
    one, two, out = KernelBuffer.read_only(ones(8)), KernelBuffer.read_only(ones(8)), KernelBuffer.write(f32, 8)

    def refused(text: str, name: str = "add", what: Any = compiled, **changes: Any) -> None:
        given: dict[str, Any] = {"workgroup": 64, "threads": 8, "buffers": [one, two, out]}
        with pytest.raises(LaunchError, match=text):
            ctx.dispatch(name, what, **{**given, **changes})

    refused("kernel sub: the compiled kernel is add", name="sub")
    refused("compiled for interpret, the context is cpu", what=add.compile("interpret"))
    refused(r"workgroup=\(32, 1, 1\), compiled for \(64, 1, 1\)", workgroup=32)
    refused("a Kernel is given, where a compiled kernel is needed\n.*\n.*\n.*\n  Remedy: compile the kernel", what=add)
    refused("a NoneType is given, where a compiled kernel is needed", what=None)
    refused("buffers= is a NoneType, no list\n.*\n.*\n.*\n  Remedy: pass a list of .* for a, b, c", buffers=None)
    refused("buffers= is a KernelBuffer, no list", buffers=one)
    refused("scalars= is a list, no dict", scalars=[1])
    refused("2 buffers given, 3 expected", buffers=[one, out])
    refused("`b` is a ndarray, no KernelBuffer", buffers=[one, ones(8), out])
    refused(r"`c` is i32\[8\], compiled for f32 of rank 1", buffers=[one, two, KernelBuffer.write(i32, 8)])
    refused("`c` is written, and its buffer is read-only", buffers=[one, two, KernelBuffer.read_only(ones(8))])
    refused("the output `c` shares memory with `a`", buffers=[out, two, out])
    refused("give exactly one of threads= and groups=", groups=1)
    refused("threads=-3", threads=-3)
    refused("it has no scalar parameter `n`", scalars={"n": 1})
    refused("no scalar `by` is given", name="past", what=past.compile("cpu", workgroup=64), buffers=[out])
    refused(
        r"threads=\(8, 1, 1\) are no multiples of the work-group",
        name="totals",
        what=totals.compile("cpu"),
        buffers=[one, out],
    )
    ctx.dispatch("add", compiled, workgroup=64, threads=8, buffers=[one, two, out])
    with pytest.raises(
        DeviceMismatchError, match=r"of `.*` on cpu, the context on interpret(.|\n)*use a Context of its device"
    ):
        Context("interpret").dispatch(
            "add", add.compile("interpret", workgroup=64), workgroup=64, threads=8, buffers=[one, two, out]
        )
    with pytest.raises(PootError):
        KernelBuffer.read_only(np.array(["a"]))


@pytest.mark.parametrize("target", ["cpu", "interpret", "opencl", "wgpu", "cuda:sm_90"])
def test_compiling_needs_no_device(target: str, tmp_path: Path) -> None:
    """In a process of its own, where nothing has opened a device before."""
    code = f"""
        import sys
        import poot
        from poot.kernel.language import In, Out, thread_index

        @poot.kernel(workgroup=32)
        def twice(x: In[poot.f32], y: Out[poot.f32]):
            i = thread_index()
            y[i] = x[i] * 2

        compiled = twice.compile(poot.Target.parse({target!r}))
        assert "twice" in compiled.entry, compiled.entry
        assert not {{"wgpu", "pyopencl", "cupy"}} & set(sys.modules)
    """
    path = tmp_path / "twice.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    subprocess.run([sys.executable, str(path)], check=True, timeout=600)


def test_types_of_names() -> None:
    assert isinstance(add, Kernel)
    assert [bf16, f16, i64, u8] and ArgumentTypeError
