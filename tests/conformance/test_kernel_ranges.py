"""Ranges whose step only a launch knows, on every device: grid-stride loops, barriers, the ends of dtypes, faults."""

from __future__ import annotations

import numpy as np
import pytest

from poot.api.devices import Device
from poot.api.kernels import Kernel, kernel
from poot.backends.cuda import nvptx
from poot.backends.cuda.triton import compile_triton
from poot.dtypes import f32, i32, i64
from poot.errors import KernelCheckError, KernelError, KernelFault
from poot.kernel.language import (
    In,
    InOut,
    Out,
    barrier,
    group_size,
    group_sum,
    local_index,
    num_groups,
    shared,
    thread_index,
)
from poot.kernel.pipeline import prepare
from poot.kernel.render import ptx, triton


@kernel(workgroup=8)
def grid_stride(x: In[f32], y: Out[f32]):
    for i in range(thread_index(), len(x), group_size() * num_groups()):
        y[i] = x[i] * 2


@kernel(workgroup=8)
def in_turns(x: In[i32], y: Out[i32], width: int):
    total, block = 0, shared(i32, 8)
    for first in range(0, len(x), width):
        block[local_index()] = x[first + local_index()]
        barrier()
        total += block[7 - local_index()] + group_sum(x[first])
        barrier()
    y[thread_index()] = total


@kernel
def counted(y: InOut[i32], start: int, stop: int, step: int):
    for k in range(start, stop, step):
        y[0] += 1
        y[1] = k


@kernel
def counted_far(y: InOut[i64], start: i64, stop: i64, step: i64):
    for k in range(start, stop, step):
        y[0] += 1
        y[1] = k


@pytest.mark.parametrize("groups", [1, 3, 9])
def test_grid_stride_loop(device: Device, groups: int) -> None:
    x = np.arange(67, dtype=np.float32)
    y = np.zeros_like(x)
    grid_stride(x, y, groups=groups, device=device)
    np.testing.assert_array_equal(y, x * 2)


def test_a_loop_of_uniform_turns_has_barriers(device: Device) -> None:
    x = np.arange(24, dtype=np.int32)
    y = np.zeros(8, np.int32)
    in_turns(x, y, 8, groups=1, device=device)
    blocks = x.reshape(3, 8)
    np.testing.assert_array_equal(y, blocks[:, ::-1].sum(0) + 8 * blocks[:, 0].sum())


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        *((2**31 - 10, 2**31 - 1, 7), (2**31 - 10, 2**31 - 1, 2**31 - 1), (-(2**31), 2**31 - 1, 2**31 - 1)),
        *((-(2**31), 2**31 - 1, 2**29), (5, 5, 3), (6, 5, 3), (2**31 - 1, -(2**31), 1), (-3, 4, 1), (0, 1, 9)),
    ],
)
def test_a_counter_never_wraps(device: Device, start: int, stop: int, step: int) -> None:
    y = np.zeros(2, np.int32)
    counted(y, start, stop, step, threads=1, device=device)
    turns = range(start, stop, step)
    assert y.tolist() == [len(turns), turns[-1] if turns else 0]


def test_a_wide_counter_never_wraps(device: Device) -> None:
    y = np.zeros(2, np.int64)
    if i64 not in device.backend.target.dtypes:
        with pytest.raises(KernelError, match="i64"):
            counted_far(y, 0, 1, 1, threads=1, device=device)
        return
    counted_far(y, -(2**63), 2**63 - 1, 2**62, threads=1, device=device)
    assert y.tolist() == [4, 2**62]


@pytest.mark.parametrize("step", [0, -1, -(2**31)])
def test_a_step_that_is_not_positive_is_a_fault(device: Device, step: int) -> None:
    y = np.zeros(2, np.int32)
    with pytest.raises(KernelFault, match="the step `step` of a range is positive"):
        counted(y, 0, 10, step, threads=1, device=device)
    assert y.tolist() == [0, 0]
    counted(y, 0, 10, 4, threads=1, device=device)
    assert y.tolist() == [3, 8]


@kernel(workgroup=8)
def waits_in_turns_of_its_own(y: Out[i32], n: int):
    for k in range(thread_index(), n, group_size() * num_groups()):
        barrier()
        y[k] = k


def test_a_barrier_in_a_loop_whose_turns_differ_is_refused(device: Device) -> None:
    with pytest.raises(KernelCheckError, match="barrier where threads of a work-group may have gone different ways"):
        waits_in_turns_of_its_own(np.zeros(9, np.int32), 9, groups=1, device=device)


@pytest.mark.parametrize("made", [grid_stride, in_turns, counted, counted_far], ids=lambda made: made.name)
def test_they_compile_for_nvidia_gpus(made: Kernel) -> None:
    kernel = prepare(made.ir)
    image, _ = nvptx.assemble(nvptx.compile_ptx(ptx.render(kernel).text, "sm_90"), "sm_90")
    assert image[:4] == b"\x7fELF"
    if made is not in_turns:  # Triton has no shared arrays
        code = compile_triton(triton.render(kernel), "sm_90", what=made.name)
        assert code.image[:4] == b"\x7fELF"
