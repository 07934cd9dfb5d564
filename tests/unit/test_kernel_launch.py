"""Launching: arguments and grids checked before anything runs, outputs, faults, caches, the low-level context."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest

import poot
from poot.api.context import Context, KernelBuffer
from poot.api.devices import Device
from poot.api.kernels import Kernel, kernel
from poot.backends.device import open_device
from poot.dtypes import bf16, bool_, f16, f32, f64, i8, i32, i64, u8
from poot.errors import (
    ArgumentTypeError,
    DeviceMismatchError,
    KernelError,
    KernelFault,
    LaunchError,
    PootError,
    Unsupported,
)
from poot.kernel.grid import fold_sizes, folded
from poot.kernel.language import (
    Const,
    In,
    In2,
    InOut,
    Out,
    Out2,
    Out3,
    barrier,
    group_index,
    group_sum,
    local_index,
    num_groups,
    shared,
    thread_index,
)

T = TypeVar("T")
S = TypeVar("S", f32, f64)


@kernel
def add(a: In[f32], b: In[f32], c: Out[f32]):
    i = thread_index()
    if i < len(c):
        c[i] = a[i] + b[i]


@kernel
def scaled(x: In[T], y: Out[T], factor: T, n: int = 1, up: bool = False):
    i = thread_index()
    if i < len(y):
        y[i] = x[i] * factor + T(n) if up else x[i] * factor


@kernel(workgroup=64)
def totals(x: In[f32], y: Out[f32]):
    total = group_sum(x[thread_index()])
    if local_index() == 0:
        y[group_index()] = total


@kernel
def past(x: InOut[f32], by: int):
    i = thread_index()
    x[i + by] = 1


@kernel
def constant(y: Out[f32], n: Const[int], kind: Const[Callable[..., Any]] = abs):
    y[0] = n * 2


@kernel
def constrained(x: In[S], y: Out[S]):
    y[0] = x[0]


def ones(n: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(n, dtype)


# --- what is refused ------------------------------------------------------------------------------------------------

A, B, C = ones(8), ones(8), ones(8)
READ_ONLY = ones(8)
READ_ONLY.flags.writeable = False
ODD = np.zeros(40, np.uint8)[1:33].view(np.float32)
STEPS = np.zeros(8, np.dtype([("a", np.uint8), ("b", np.float32)]))["b"]

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: add(A, B, C),
        (
            "neither threads= nor groups= is given\n…\n"
            "  Remedy: give one: threads=n starts n threads, groups=n whole work-groups."
        ),
    ),
    (
        lambda: add(A, B, C, threads=8, groups=8),
        (
            "both threads= and groups= are given\n…\n"
            "  Remedy: give one: threads=n starts n threads, groups=n whole work-groups."
        ),
    ),
    (
        lambda: add(A, B, C, threads=-1),
        "threads=-1\n…\n  Remedy: give one to three integers that are not negative, x first.",
    ),
    (
        lambda: add(A, B, C, threads=(1, 2, 3, 4)),
        "threads=(1, 2, 3, 4)\n…\n  Remedy: give one to three integers that are not negative, x first.",
    ),
    (
        lambda: add(A, B, C, threads=2.5),
        "threads=2.5\n…\n  Remedy: give one to three integers that are not negative, x first.",
    ),
    (
        lambda: add(A, B, C, threads=8, workgroup=0),
        "workgroup=0\n…\n  Remedy: give one to three positive integers, x first.",
    ),
    (
        lambda: add(A, B, C, groups=1),
        (
            "groups= without a work-group\n…\n"
            "  Remedy: state one: @poot.kernel(workgroup=256), or workgroup= at the launch."
        ),
    ),
    (lambda: add(A, B, threads=8), "no value is given for `c`\n…\n  Remedy: pass every argument."),
    (lambda: add(A, B, C, A, threads=8), "4 arguments given, 3 expected\n…\n  Remedy: give a, b, c."),
    (lambda: add(A, B, c=C, d=C, threads=8), "it has no parameter `d`\n…\n  Remedy: its parameters are a, b, c."),
    (lambda: add(A, B, C, a=C, threads=8), "`a` is given twice\n…\n  Remedy: give it once."),
    (
        lambda: add(A, B, ones(8, np.float64), threads=8),
        (
            "`c` is f64, where Out[f32] needs f32\n…\n"
            "  Remedy: convert it: c.astype(np.dtype(f32)); nothing is cast silently."
        ),
    ),
    (
        lambda: add(A, ones(8, "U3"), C, threads=8),
        "`b` has the dtype <U3\n…\n  Remedy: convert it to one of poot's dtypes.",
    ),
    (
        lambda: add(A, ones(8, ">f4"), C, threads=8),
        "`b` is stored in the other byte order\n…\n  Remedy: convert it with .astype(…).",
    ),
    (
        lambda: add(A.reshape(2, 4), B, C, threads=8),
        (
            "`a` has rank 2 and the shape (2, 4), where In[f32] needs rank 1\n"
            "…\n  Remedy: reshape it, or declare In2[f32]."
        ),
    ),
    (
        lambda: add(A.sum(), B, C, threads=8),
        "`a` has rank 0 and the shape (), where In[f32] needs rank 1\n…\n  Remedy: reshape it: a.reshape(1).",
    ),
    (
        lambda: add([1.0], B, C, threads=8),
        "`a` is a list, where In[f32] needs an array\n…\n  Remedy: make it an array: np.array(…, np.float32).",
    ),
    (
        lambda: add(A, B, READ_ONLY, threads=8),
        "the output `c` is read-only\n…\n  Remedy: pass an array that can be written.",
    ),
    (
        lambda: add(A, C, C, threads=8),
        (
            "the output `c` shares memory with `b`\n…\n"
            "  Remedy: write to another array, or pass one array as a single InOut."
        ),
    ),
    (
        lambda: add(A[:7], C[1:], C[:7], threads=8),
        (
            "the output `c` shares memory with `b`\n…\n"
            "  Remedy: write to another array, or pass one array as a single InOut."
        ),
    ),
    (
        lambda: add(ODD, B, C, threads=8),
        "`a` does not lie at multiples of its 4 bytes\n…\n  Remedy: copy it: np.array(x).",
    ),
    (
        lambda: add(STEPS, B, C, threads=8),
        "`a` does not lie at multiples of its 4 bytes\n…\n  Remedy: copy it: np.array(x).",
    ),
    (
        lambda: scaled(A, ones(8, np.float64), 1, threads=8),
        "`y` is f64, where Out[T] needs f32\n…\n  Remedy: every T of one launch is one dtype: convert with .astype(…).",
    ),
    (
        lambda: scaled(A, B, "2", threads=8),
        (
            "`factor` is '2', a str, where a scalar of f32 is needed\n…\n"
            "  Remedy: pass a Python or NumPy number of that kind."
        ),
    ),
    (
        lambda: scaled(A, B, 1e300, threads=8),
        "`factor` is 1e+300, which does not fit f32\n…\n  Remedy: declare a wider dtype.",
    ),
    (
        lambda: scaled(A, B, 1, n=2.0, threads=8),
        (
            "`n` is 2.0, a float, where a scalar of i32 is needed\n…\n"
            "  Remedy: convert it with int(…); nothing is rounded silently."
        ),
    ),
    (
        lambda: scaled(A, B, 1, n=1 << 40, threads=8),
        (
            "`n` is 1099511627776, which does not fit i32\n…\n"
            "  Remedy: i32 holds -2147483648 to 2147483647; declare a wider dtype."
        ),
    ),
    (
        lambda: scaled(A, B, 1, up=1, threads=8),
        "`up` is 1, a int, where a scalar of bool is needed\n…\n  Remedy: pass a Python or NumPy number of that kind.",
    ),
    (
        lambda: constrained(ones(1, np.float16), ones(1, np.float16), threads=1),
        "`x` is f16, and S is one of f32, f64\n…\n  Remedy: convert it.",
    ),
    (lambda: constant(C, 2.5, threads=1), "`n` is 2.5, where Const[int] needs a int\n…\n  Remedy: pass a int."),
    (
        lambda: constant(C, 2, kind=[], threads=1),
        "`kind` is [], where Const[Callable] needs a Callable\n…\n  Remedy: pass a Callable.",
    ),
    (
        lambda: totals(ones(100), C, threads=100),
        (
            "100 threads on axis x are no multiple of the work-group's 64, but the "
            "kernel has barriers, collectives or shared arrays\n…\n"
            "  Remedy: launch whole work-groups: groups=2 on that axis, or threads=128."
        ),
    ),
]


def told(error: PootError) -> str:
    """The message with the place, which is this file's, as "…"."""
    lines = str(error).split("\n")
    places = [line for line in lines if line.startswith("  at ")]
    assert len(places) == 1 and __file__ in places[0]
    return "\n".join("…" if line.startswith("  at ") else line for line in lines if not line.startswith("    "))


@pytest.mark.parametrize(("launch", "text"), REFUSED)
def test_refusals(launch: Callable[[], Any], text: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch()
    assert re.sub(r"^kernel \w+: ", "", told(caught.value)) == text
    assert (A == 1).all() and (C == 1).all()


def test_more_than_the_target_can() -> None:
    @kernel(workgroup=512)
    def big(y: Out[f32]):
        own = shared(f32, 100_000)
        own[local_index()] = 1
        barrier()
        y[0] = own[0]

    with pytest.raises(Unsupported, match=r"512 threads in a work-group is not supported by wgpu"):
        big.compile("wgpu")
    with pytest.raises(Unsupported, match="kernel scaled: dtype f64 is not supported by wgpu"):
        scaled.compile("wgpu", T=f64)
    with pytest.raises(Unsupported, match="4096 threads in a work-group is not supported by cpu"):
        totals(ones(4096), C, groups=1, workgroup=4096, device="cpu")


# --- what is accepted -----------------------------------------------------------------------------------------------


def test_arguments_by_name_and_defaults(device: Device) -> None:
    y = np.zeros(4, np.float32)
    scaled(y=y, x=ones(4), factor=np.float64(2), n=np.int8(3), up=np.True_, threads=4, device=device)
    assert (y == 5).all()
    scaled(ones(4), y, np.asarray(3.0), threads=np.int64(4), device=device)
    assert (y == 3).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int64, np.float64])
def test_scalars_of_every_dtype(device: Device, dtype: Any) -> None:
    y = np.zeros(4, dtype)
    scaled(ones(4, dtype), y, 3, threads=4, device=device)
    assert (y == 3).all()


def test_bools_and_empty_arrays(device: Device) -> None:
    @kernel
    def invert(x: In[bool_], y: Out[bool_]):
        i = thread_index()
        y[i] = not x[i]

    y = np.zeros(3, np.bool_)
    invert(np.array([True, False, True]), y, threads=3, device=device)
    assert y.tolist() == [False, True, False]
    invert(np.zeros(0, np.bool_), np.zeros(0, np.bool_), threads=0, device=device)
    add(ones(0), ones(0), ones(0), threads=0, device=device)
    add(ones(0), ones(0), np.zeros(0, np.float32), threads=5, device=device)


def test_surplus_lanes_never_run(device: Device) -> None:
    x = np.zeros(300, np.float32)
    past(x, 0, threads=257, device=device)
    assert x.sum() == 257


def test_unwritten_elements_keep_their_contents(device: Device) -> None:
    @kernel
    def first(y: Out[f32]):
        y[0] = 1

    y = np.full(5, 9, np.float32)
    first(y, threads=1, device=device)
    assert y.tolist() == [1, 9, 9, 9, 9]


def test_grids_of_three_axes(device: Device) -> None:
    @kernel
    def number(y: Out3[i32]):
        i, j, k = thread_index("x"), thread_index("y"), thread_index("z")
        y[k, j, i] = i + 10 * j + 100 * k

    y = np.zeros((3, 4, 5), np.int32)
    number(y, threads=(5, 4, 3), device=device)
    wanted = np.arange(5) + 10 * np.arange(4)[:, None] + 100 * np.arange(3)[:, None, None]
    np.testing.assert_array_equal(y, wanted)
    y[:] = 0
    number(y, threads=[5, 4, 3], workgroup=(2, 2, 2), device=device)
    np.testing.assert_array_equal(y, wanted)


def test_strided_arrays_are_used_in_place(device: Device) -> None:
    @kernel
    def copy2(x: In2[f32], y: Out2[f32]):
        i, j = thread_index("x"), thread_index("y")
        if i < x.shape[1] and j < x.shape[0]:
            y[j, i] = x[j, i]

    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    for view in (base.T, base[::-1, ::-2], base[1:4, 2:3], base[::2], np.broadcast_to(base[0], (3, 8))):
        target = np.zeros((2 * view.shape[0], 3 * view.shape[1]), np.float32)
        copy2(view, target[::2, ::-3], threads=view.shape[::-1], device=device)
        np.testing.assert_array_equal(target[::2, ::-3], view)
        assert np.count_nonzero(target) == np.count_nonzero(view)


def test_interleaved_arrays_do_not_overlap() -> None:
    x = np.zeros(16, np.float32)
    add(x[::2], x[::2], x[1::2], threads=8, device="cpu")
    with pytest.raises(LaunchError, match="shares memory"):
        add(x[::2], x[::2], x[::4], threads=4, device="cpu")


def test_alignment_may_differ_from_call_to_call() -> None:
    whole = np.zeros(64, np.float32)
    for start in (0, 1, 0, 3):
        add(ones(20), ones(20), whole[start : start + 20], threads=20, device="cpu")
        assert (whole[start : start + 20] == 2).all()


def test_work_groups(device: Device) -> None:
    x, y = np.arange(256, dtype=np.float32), np.zeros(4, np.float32)
    totals(x, y, groups=4, device=device)
    wanted = x.reshape(4, 64).sum(1)
    np.testing.assert_array_equal(y, wanted)
    totals(x, y[:2], groups=2, workgroup=128, device=device)
    np.testing.assert_array_equal(y[:2], x.reshape(2, 128).sum(1))
    totals(x, y, threads=256, device=device)
    np.testing.assert_array_equal(y, wanted)


def test_arrays_of_poot(device: Device) -> None:
    a, b = poot.asarray(ones(8), device=device), poot.asarray(ones(8), device=device)
    c = poot.asarray(np.zeros(8, np.float32), device=device)
    add(a, b, c, threads=8)
    assert (np.asarray(c) == 2).all()
    add(a, ones(8), c, threads=8)
    add(c, c, a, threads=8)
    assert (np.asarray(a) == 4).all()
    with pytest.raises(LaunchError, match="the output `c` shares memory with `a`"):
        add(a, b, a, threads=8)
    other = "cpu" if device.name == "interpret" else "interpret"
    with pytest.raises(DeviceMismatchError, match=f"`a` of kernel add on {device.name}, the launch on {other}"):
        add(a, b, c, threads=8, device=other)


def test_read_only_memory_that_poot_borrows() -> None:
    borrowed = poot.asarray(READ_ONLY, device="cpu", copy=False)
    with pytest.raises(LaunchError, match="the output `c` is read-only"):
        add(A, B, borrowed, threads=8)
    assert READ_ONLY[0] == 1


def test_the_device_of_a_block_and_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    c = poot.asarray(np.zeros(8, np.float32), device="interpret")
    with poot.device("interpret"):
        add(A, B, c, threads=8)
    monkeypatch.setenv("POOT_DEVICE", "interpret")
    add(A, B, c, threads=8)
    monkeypatch.setenv("POOT_DEVICE", "nowhere")
    with pytest.raises(PootError, match="nowhere"):
        add(A, B, np.zeros(8, np.float32), threads=8)


def test_many_threads_launch_at_once() -> None:
    outputs = [np.zeros(1000, np.float32) for _ in range(8)]

    def work(number: int) -> None:
        for _ in range(50):
            add(np.full(1000, number, np.float32), ones(1000), outputs[number], threads=1000, device="cpu")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(output.tolist()) for output in outputs] == [{n + 1.0} for n in range(8)]


def test_constants(device: Device) -> None:
    y = np.zeros(1, np.float32)
    for n in (1, 2, True and 3, np.int64(4)):
        constant(y, n, threads=1, device=device)
        assert y[0] == 2 * n


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
            rf"^kernel past: index {index} of x is outside axis 0 of extent 8\n  at .*test_kernel_launch", text
        )
        assert "x[i + by] = 1" in text and "^^^^" in text
        assert "launched at" in caught.value.__notes__[0]
        assert memory[:8].sum() == memory[16:].sum() == 0
    past(x, 0, threads=8, device=device)
    assert x.sum() == 8


def test_a_fault_of_a_poot_array_is_told_when_it_is_read(device: Device) -> None:
    x = poot.asarray(np.zeros(8, np.float32), device=device)
    past(x, 1, threads=8)
    past(x, 0, threads=8)
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


# --- caches ---------------------------------------------------------------------------------------------------------


def test_a_second_launch_of_the_same_form_is_kept() -> None:
    made = kernel(add.definition)
    for shape in (8, 8, 9):
        made(ones(shape), ones(shape), ones(shape), threads=shape, device="cpu")
    assert len(made._runs) == 2


def test_runs_are_bounded() -> None:
    made = kernel(constant.definition)
    y = np.zeros(1, np.float32)
    for n in range(600):
        made._runs[n] = next(iter(made._runs.values())) if made._runs else None  # type: ignore[assignment]
    made(y, 3, threads=1, device="cpu")
    assert len(made._runs) == 1


def test_kernels_pickle_by_name() -> None:
    assert pickle.loads(pickle.dumps(add)) is add
    assert copy.deepcopy(add) is add


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
    refused("2 buffers given, 3 expected", buffers=[one, out])
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
    with pytest.raises(DeviceMismatchError, match="a KernelBuffer on cpu, the context on interpret"):
        Context("interpret").dispatch(
            "add", add.compile("interpret", workgroup=64), workgroup=64, threads=8, buffers=[one, two, out]
        )
    with pytest.raises(PootError):
        KernelBuffer.read_only(np.array(["a"]))


def test_types_of_names() -> None:
    assert isinstance(add, Kernel)
    assert [bf16, f16, i64, u8] and ArgumentTypeError
