"""Faults of launches, the interpreter's checks, and one thread as plain Python."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import numpy as np
import pytest

import poot
from poot.api.devices import Device
from poot.api.kernels import kernel
from poot.dtypes import f32, i32
from poot.errors import (
    KernelError,
    KernelFault,
    LaunchError,
)
from poot.kernel.language import (
    In,
    In2,
    InOut,
    Out,
    Out2,
    barrier,
    local_index,
    shared,
    thread_index,
)
from tests.unit.launch_kernels import A, B, C, add, ones, past, totals

T = TypeVar("T")


# --- faults ---------------------------------------------------------------------------------------------------------


def test_a_fault_names_kernel_line_index_and_extent(device: Device) -> None:
    memory = np.zeros(40, np.float32)
    x = memory[8:16]
    for by in (3, -2):
        with pytest.raises(KernelFault) as caught:
            past(x, by, threads=8, device=device)
        text = str(caught.value)
        index = "8" if by > 0 else "-[12]"
        assert re.search(
            rf"^kernel past: index {index} of x is outside axis 0 of extent 8\n  at .*launch_kernels", text
        )
        assert "x[i + by] = 1" in text and "^^^^" in text
        assert "launched at" in caught.value.__notes__[0]
        assert memory[:8].sum() == memory[16:].sum() == 0
    past(x, 0, threads=8, device=device)
    assert x.sum() == 8


def test_a_fault_of_a_poot_array_is_told_when_it_is_read(device: Device) -> None:
    x = poot.asarray(np.zeros(8, np.float32), device=device)
    past(x, 1, threads=8)
    with pytest.raises(KernelFault, match="index 8 of x"):
        past(x, 0, threads=8)  # a faulted array is no operand
    with pytest.raises(KernelFault, match="index 8 of x"):
        np.asarray(x)
    with pytest.raises(KernelFault, match="index 8 of x"):
        x.block_until_ready()


def test_the_line_of_a_fault_is_that_of_the_newest_function() -> None:
    """Two kernels that mean the same share their compiled form, but not their lines."""

    @kernel(name="same")
    def one(y: Out[f32]):
        y[7] = 1

    @kernel(name="same")
    def two(y: Out[f32]):
        #
        y[7] = 1

    lines = []
    for made in (one, two):
        with pytest.raises(KernelFault) as caught:
            made(np.zeros(1, np.float32), threads=1, device="cpu")
        assert caught.value.where is not None
        lines.append((caught.value.where.line, caught.value.where.function.split(".")[-1]))
    assert lines[0][1] == "one" and lines[1][1] == "two" and lines[1][0] - lines[0][0] == 5


def test_assertions(device: Device) -> None:
    @kernel
    def positive(x: In[f32], y: Out[f32]):
        i = thread_index()
        assert x[i] > 0, "x is positive"
        y[i] = 1

    y = np.zeros(3, np.float32)
    with pytest.raises(KernelFault, match="kernel positive: assertion failed: x is positive"):
        positive(np.array([1, -1, 1], np.float32), y, threads=3, device=device)
    assert y.sum() == 3  # the thread goes on


# --- the interpreter ------------------------------------------------------------------------------------------------


def test_interpret_finds_races() -> None:
    @kernel(workgroup=8)
    def no_barrier(y: InOut[f32]):
        own = shared(f32, 8)
        i = local_index()
        own[i] = y[i]
        y[i] = own[7 - i]

    @kernel
    def everybody(y: Out[i32]):
        y[0] = thread_index()

    @kernel(workgroup=8)
    def unset(y: Out[f32]):
        own = shared(f32, 8)
        barrier()
        y[local_index()] = own[0]

    for made in (no_barrier, unset):
        with pytest.raises(KernelError):
            made.interpret(np.zeros(8, np.float32), groups=1)
    with pytest.raises(KernelError):
        everybody.interpret(np.zeros(8, np.int32), threads=8)
    with pytest.raises(KernelFault, match="index 8 of x"):
        past.interpret(np.zeros(8, np.float32), 1, threads=8)


def test_interpret_works_in_place() -> None:
    c = poot.asarray(np.zeros(8, np.float32), device="cpu")
    add.interpret(A, B, c, threads=8)
    assert (np.asarray(c) == 2).all()
    y = np.zeros(16, np.float32)
    add.interpret(A, B, y[::-2], threads=8)
    assert y[1::2].sum() == 16


def test_one_thread_as_plain_python(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    @kernel(workgroup=(2, 2))
    def shown(x: In2[T], y: Out2[T], a: float):
        i, j = thread_index("x"), thread_index("y")
        y[j, i] = x[j, i] + T(1)

    x, y = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32)
    shown.interpret(x, y, 1.5, threads=(4, 4), thread=6)
    assert y[1, 2] == 1 and y.sum() == 1
    shown.interpret(x, y, 1.5, threads=(4, 4), thread=(3, 3))
    assert y[3, 3] == 1 and not seen
    with pytest.raises(LaunchError, match=r"thread=16 is outside the \(4, 4, 1\) threads"):
        shown.interpret(x, y, 1.5, threads=(4, 4), thread=16)
    with pytest.raises(IndexError, match="index 8 is out of range for axis 0 of `x`, whose extent is 8"):
        past.interpret(np.zeros(8, np.float32), 1, threads=8, thread=7)
    with pytest.raises(KernelError, match="group_sum needs the other threads"):
        totals.interpret(ones(64), C, groups=1, thread=0)
    with pytest.raises(KernelError, match="thread_index means something only inside a kernel"):
        thread_index()
