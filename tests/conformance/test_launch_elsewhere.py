"""Launches with arrays of several devices, and with memory that NumPy sees: as traced calls, and as the pages say."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import poot
from poot import f32, i32
from poot.api.devices import Device
from poot.errors import DeviceMismatchError, EngineError, KernelFault, LaunchError

X = np.arange(6, dtype=np.float32)


@poot.kernel
def mixed(a: poot.In[f32], b: poot.InOut[f32], c: poot.Out[f32]):
    i = poot.thread_index()
    b[i] = b[i] + a[i]
    c[i] = a[i] * 2.0


@poot.kernel
def picked(a: poot.In[f32], at: poot.In[i32], c: poot.Out[f32]):
    i = poot.thread_index()
    c[i] = a[at[i]]


def other_of(device: Device) -> str:
    return "cpu" if device.name == "interpret" else "interpret"


@pytest.mark.parametrize("homes", ["aaa", "aab", "aba", "abb", "baa", "bab", "bba", "bbb", "nab", "ban", "bnb"])
def test_a_stated_device_takes_arrays_from_anywhere(device: Device, homes: str) -> None:
    places: dict[str, Any] = {"a": device, "b": other_of(device)}

    def made(number: int) -> Any:
        home = homes[number]
        return X + number if home == "n" else poot.asarray(X + number, device=places[home])

    for _ in range(2):
        a, b, c = (made(number) for number in range(3))
        mixed(a, b, c, threads=6, device=device)
        np.testing.assert_array_equal(np.asarray(a), X)
        np.testing.assert_array_equal(np.asarray(b), X + X + 1)
        np.testing.assert_array_equal(np.asarray(c), X * 2)
        for home, array in zip(homes, (a, b, c), strict=True):
            assert home == "n" or array.device == poot.device(places[home]).name
    traced = poot.trace(lambda a, b, c: (b + a, a * 2.0 + 0.0 * c), device=device)
    first, second = traced(*(made(number) for number in range(3)))
    assert first.device == second.device == device.name
    np.testing.assert_array_equal(np.asarray(first), X + X + 1)


def test_without_one_they_must_agree(device: Device) -> None:
    here, there = poot.asarray(X, device=device), poot.asarray(X, device=other_of(device))
    out = np.zeros(6, np.float32)
    for call in (
        lambda: mixed(here, there, out, threads=6),
        lambda: here + there,
        lambda: poot.trace(lambda a, b: a + b)(here, there),
    ):
        with pytest.raises(DeviceMismatchError, match="arguments live on different devices"):
            call()
    with poot.device("cpu"):
        mixed(here, poot.asarray(X, device=device), out, threads=6)
    np.testing.assert_array_equal(out, X * 2)


def test_values_on_a_stated_device(device: Device) -> None:
    there = poot.asarray(X, device=other_of(device))
    c = picked(there, np.array([5, 0], np.int32), f32[2], threads=2, device=device)
    assert c.device == device.name and np.asarray(c).tolist() == [5, 0]


def test_faults_and_refusals_elsewhere(device: Device) -> None:
    far = other_of(device)
    a, out = poot.asarray(X, device=far), poot.asarray(np.full(2, 9, np.float32), device=far)
    with pytest.raises(KernelFault, match="kernel picked"):
        picked(a, np.array([0, 6], np.int32), out, threads=2, device=device)
    assert np.asarray(out)[0] in (0, 9)
    with pytest.raises(LaunchError, match="the output `c` shares memory with `a`"):
        mixed(a, poot.asarray(X, device=device), a, threads=6, device=device)
    np.testing.assert_array_equal(np.asarray(a), X)
    fixed = X.copy()
    fixed.flags.writeable = False
    lent = poot.asarray(fixed, device=far, copy=False)
    with pytest.raises(LaunchError, match="the output `c` is read-only"):
        mixed(a, poot.asarray(X, device=device), lent, threads=6, device=device)
    poot.trace(lambda x: x + 1.0, donate="x")(a)
    with pytest.raises(EngineError, match="donated"):
        mixed(a, poot.asarray(X, device=device), out, threads=6, device=device)


# --- memory that NumPy sees ---------------------------------------------------------------------------------------


#: Devices whose memory is not the host's.
APART = ("wgpu", "cuda")


def shared(device: Device, array: np.ndarray) -> Any:
    """An array of poot over NumPy's memory, where the device shares it."""
    try:
        return poot.asarray(array, device=device, copy=False)
    except poot.errors.ArgumentError:
        assert device.name in APART
        return None


def test_a_kernel_writes_into_a_numpy_array(device: Device) -> None:
    """An array that poot shares with NumPy is written when the launch returns, and read before it."""
    for size in (8, 1 << 16):
        host, source = np.zeros(size, np.float32), np.ones(size, np.float32)
        out, a = shared(device, host), shared(device, source)
        if out is None:
            return
        for turn in range(1, 6):
            source[:] = turn
            mixed(a, poot.asarray(np.zeros(size, np.float32), device=device), out, threads=size)
            source[:] = -1
            assert (host == 2 * turn).all()
            b = poot.asarray(np.zeros(size, np.float32), device=device)
            source[:] = turn
            mixed(a, b, poot.asarray(np.zeros(size, np.float32), device=device), threads=size)
            source[:] = -1
            assert (np.asarray(b) == turn).all()


def test_calls_read_a_shared_array_before_they_return(device: Device) -> None:
    source = np.ones(1 << 16, np.float32)
    a = shared(device, source)
    if a is None:
        return
    traced = poot.trace(lambda x: x * 2.0 + 1.0)
    for turn in range(1, 8):
        source[:] = turn
        first, second = traced(a), a + 1.0
        source[:] = -1
        assert (np.asarray(first) == 2 * turn + 1).all() and (np.asarray(second) == turn + 1).all()


def test_a_captured_array_that_is_shared_is_read_anew(device: Device) -> None:
    """What is made of captured arrays once is not made once of what NumPy may change."""
    w = np.ones((4, 4), np.float32)
    held = shared(device, w)
    if held is None:
        return
    traced = poot.trace(lambda x: x @ (held * 2.0).T, device=device)
    x = np.eye(4, dtype=np.float32)
    for turn in range(1, 4):
        w[:] = turn
        np.testing.assert_array_equal(np.asarray(traced(x)), np.full((4, 4), 2 * turn, np.float32))


def test_views_after_a_launch(device: Device) -> None:
    """On devices that work in the host's memory a view shows what kernels write later; elsewhere it is a copy."""
    out = poot.asarray(np.zeros(6, np.float32), device=device)
    view = np.asarray(out)
    assert not view.flags.writeable
    mixed(poot.asarray(X, device=device), poot.asarray(X, device=device), out, threads=6)
    np.testing.assert_array_equal(view, np.zeros(6) if device.name in APART else X * 2)
    np.testing.assert_array_equal(np.asarray(out), X * 2)
    kept = np.array(view)
    del out
    gc.collect()
    for _ in range(4):
        poot.asarray(X - 7.0, device=device)
    np.testing.assert_array_equal(view, kept)


@poot.kernel
def backwards(a: poot.In[f32], b: poot.InOut[f32]):
    i = poot.thread_index()
    b[i] = a[len(a) - 1 - i] + 1.0


def test_arrays_over_one_memory_of_the_host_are_one(device: Device) -> None:
    """However many arrays of poot were made over it: an output that another argument reads is refused."""
    host = np.zeros(12, np.float32)
    first, second = (shared(device, part) for part in (host[:8], host[4:]))
    if first is None:
        return
    again, behind = shared(device, host[:8]), shared(device, host[8:])
    for source, out in ((first, again), (first, second), (second, first), (behind, second)):
        with pytest.raises(LaunchError, match="the output `b` shares memory with `a`"):
            backwards(source, out, threads=4, device=device)
    assert not host.any()
    backwards(first, behind, threads=4, device=device)
    backwards(behind, first, threads=4, device=device)
    np.testing.assert_array_equal(np.asarray(first), [2, 2, 2, 2, 0, 0, 0, 0])
