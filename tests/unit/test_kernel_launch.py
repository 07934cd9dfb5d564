"""Launching: arguments, strided and borrowed arrays, grids, threads, caches."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest

import poot
from poot.api.devices import Device
from poot.api.kernels import kernel
from poot.dtypes import bool_, f32, i8, i32, i64
from poot.errors import (
    DeviceMismatchError,
    KernelFault,
    LaunchError,
    PootError,
)
from poot.kernel.language import (
    In,
    In2,
    In4,
    InOut,
    Out,
    Out2,
    Out3,
    Out4,
    thread_index,
)
from tests.unit.launch_kernels import READ_ONLY, A, B, add, constant, ones, past, scaled, totals

T = TypeVar("T")


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


@kernel
def copied(x: In4[T], y: Out4[T]):
    a, b, c, d = x.shape
    i = thread_index()
    if i < a * b * c * d:
        y[i // (d * c * b), i // (d * c) % b, i // d % c, i % d] = x[
            i // (d * c * b), i // (d * c) % b, i // d % c, i % d
        ]


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.int64])
def test_arrays_have_more_axes_than_grids(device: Device, dtype: Any) -> None:
    x = np.arange(360).reshape(3, 4, 5, 6).astype(dtype)[::-1, :, ::2, 1:]
    y = np.zeros(x.shape, dtype)[:, ::-1]
    copied(x, y, threads=x.size, device=device)
    np.testing.assert_array_equal(y, x)


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
    far = poot.asarray(np.zeros(8, np.float32), device=other)
    with pytest.raises(DeviceMismatchError, match="arguments live on different devices"):
        add(a, b, far, threads=8)


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


def test_arrays_past_32_bits(device: Device) -> None:
    if device.name not in ("cpu", "interpret"):
        return  # others would copy the array, which is no memory here

    @kernel
    def last(x: In[i8], y: Out[i32], at: InOut[i64]):
        i = thread_index()
        n = len(x) - 1 - i
        count = 0
        count += n
        y[i] = i32(x[n]) + i
        at[i] = i64(count)

    x = np.broadcast_to(np.full(1, 7, np.int8), (1 << 31) + 5)
    y, at = np.zeros(3, np.int32), np.zeros(3, np.int64)
    if device.name == "cpu":
        last(x, y, at, threads=3, device=device)
    else:
        last.interpret(x, y, at, threads=3)
    assert y.tolist() == [7, 8, 9]
    assert at.tolist() == [(1 << 31) + 4 - i for i in range(3)]
    with pytest.raises(KernelFault, match=r"index 2147483653 of x is outside axis 0 of extent 2147483653"):
        beyond(x, y, threads=1, device="cpu")


@kernel
def beyond(x: In[i8], y: Out[i32]):
    y[0] = i32(x[len(x)])
