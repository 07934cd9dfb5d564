"""Arrays that other libraries share with the CUDA device, over a CuPy of host memory: streams and lifetimes."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import poot
from poot import dlpack, ops
from poot.api.array import DeviceArray
from poot.backends import capsules
from poot.backends.device import open_device
from poot.dtypes import ALL, ArraySpec, DType, as_dtype, bf16, f32, f64
from poot.errors import (
    ArgumentError,
    DeviceError,
    DeviceMismatchError,
    DTypeError,
    ExchangeError,
    IndexFault,
    LaunchError,
    ShapeError,
    UnsupportedDTypeError,
)
from tests.lives import Life, N
from tests.unit.fake_cupy import Fake, installed

CUDA = (2, 0)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    made = installed(monkeypatch)
    yield made
    assert not made.problems


class Tensor:
    """Another library's array on the GPU, with the protocol's older or newer capsules."""

    def __init__(self, array: np.ndarray, *, versioned: bool = True, read_only: bool = False, shift: int = 0) -> None:
        self.memory = sys.modules["cupy"].cuda.alloc(array.nbytes + 64)
        self.address = self.memory.ptr + shift
        ctypes.memmove(self.address, np.ascontiguousarray(array).ctypes.data, array.nbytes)
        self.spec = ArraySpec(as_dtype(array.dtype), array.shape)
        self.versioned, self.read_only = versioned, read_only
        self.streams: list[int] = []
        self.held: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA

    def __dlpack__(self, *, stream: int, max_version: Any = None) -> Any:
        if max_version is not None and not self.versioned:
            raise TypeError("max_version")
        self.streams.append(stream)
        owner = Holder(self)
        return capsules.make(self.address, self.spec, CUDA, owner, versioned=self.versioned, read_only=self.read_only)

    def numpy(self) -> np.ndarray:
        raw = (ctypes.c_uint8 * self.spec.nbytes).from_address(self.address)
        return np.ctypeslib.as_array(raw).view(self.spec.dtype.dtype).reshape(self.spec.shape).copy()


class Holder(capsules.Owner):
    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor = tensor
        tensor.held.append(1)

    def __del__(self) -> None:
        self.tensor.held.pop()


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("versioned", [True, False])
def test_arguments_come_in_without_a_copy(fake: Fake, versioned: bool) -> None:
    seen: list[int] = []
    x = Tensor(X, versioned=versioned)
    shared = poot.asarray(x, copy=False)
    assert isinstance(shared, DeviceArray) and shared.device == "cuda"
    assert shared.address == x.address and shared.spec == x.spec and x.held
    seen.append(shared.address)
    f = poot.trace(lambda x, y: x + y)
    for _ in range(3):
        result = f(x, shared)
        assert isinstance(result, DeviceArray) and result.device == "cuda"
        np.testing.assert_array_equal(result.numpy(), X + X)
    del shared
    assert not x.held
    assert set(x.streams) == {1}
    np.testing.assert_array_equal(np.asarray(poot.trace(lambda t: t["a"] * 2.0)({"a": x})), X * 2)
    assert not x.held


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_goes_both_ways(fake: Fake, dtype: DType) -> None:
    x = Tensor(np.arange(5).astype(dtype.dtype))
    shared = poot.asarray(x, copy=False)
    assert shared.dtype is dtype
    np.testing.assert_array_equal(shared.numpy(), x.numpy())
    lent = dlpack.take(shared.__dlpack__(stream=1, max_version=(1, 0)), "x")
    assert (lent.address, lent.dtype, lent.shape, lent.device, lent.read_only) == (x.address, dtype, (5,), CUDA, True)
    lent.release()


def test_producers_are_told_our_stream_and_wait_for_nobody(fake: Fake) -> None:
    x = Tensor(X)
    with fake.stream() as stream:
        poot.trace(lambda x: x + 1.0)(x)
    assert set(x.streams) == {stream.ptr}


def test_borrowed_memory_is_given_back_when_our_work_is_done(fake: Fake) -> None:
    x = Tensor(X)
    shared = poot.asarray(x, copy=False)
    late = fake.cuda.Event
    pending: list[Any] = []

    def event(**options: Any) -> Any:
        made = late(**options)
        made.done = False
        pending.append(made)
        return made

    fake.cuda.Event = event
    del shared
    assert x.held
    fake.cuda.Event = late
    pending[-1].done = True
    other = poot.asarray(Tensor(X), copy=False)
    assert not x.held
    del other


def test_a_library_that_works_on_our_stream_gets_its_memory_back_at_once(fake: Fake) -> None:
    def event(**options: Any) -> Any:
        raise AssertionError("there is nothing to wait for")

    fake.cuda.Event = event
    x = type("Local", (Tensor,), {"__module__": "cupy"})(X)
    f = poot.trace(lambda x: x + 1.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), X + 1)
        assert not x.held


def test_results_go_out_without_a_copy(fake: Fake) -> None:
    y = poot.trace(lambda x: x + 1.0)(Tensor(X))
    assert y.__dlpack_device__() == CUDA
    lent = dlpack.take(y.__dlpack__(stream=1, max_version=(1, 0)), "y")
    assert lent.address == y.address and lent.read_only and not fake.waits
    older = dlpack.take(y.__dlpack__(), "y")
    assert older.address == y.address
    older.release()
    address = y.address
    del y
    gc.collect()
    again = poot.trace(lambda x: x + 1.0)(Tensor(X))
    assert again.address != address, "memory that a consumer holds was used again"
    lent.release()
    del again


def test_streams_wait_for_each_other(fake: Fake) -> None:
    with fake.stream() as ours:
        y = poot.trace(lambda x: x + 1.0)(Tensor(X))
    lent = dlpack.take(y.__dlpack__(stream=77, max_version=(1, 0)), "y")
    assert (77, ours.ptr) in fake.waits
    fake.waits.clear()
    del y
    gc.collect()
    assert not fake.waits
    lent.release()
    assert fake.waits == [(ours.ptr, 77)], "the consumer's work comes before the next use of the memory"
    fake.waits.clear()
    y = poot.asarray(X, device="cuda")
    y.__dlpack__(stream=-1)
    assert not fake.waits
    with pytest.raises(BufferError, match="ambiguous"):
        y.__dlpack__(stream=0)


def test_copies_may_be_written(fake: Fake) -> None:
    y = poot.asarray(X, device="cuda")
    lent = dlpack.take(y.__dlpack__(stream=1, max_version=(1, 0), copy=True), "y")
    assert lent.address != y.address and not lent.read_only
    ctypes.memset(lent.address, 0, X.nbytes)
    np.testing.assert_array_equal(y.numpy(), X)
    lent.release()
    host = np.from_dlpack(_On(y, (1, 0)))
    np.testing.assert_array_equal(host, X)
    with pytest.raises(BufferError, match="not exported"):
        y.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="not exported"):
        y.__dlpack__(dl_device=(2, 1))


class _On:
    """Asks for an array on a device."""

    def __init__(self, array: Any, device: tuple[int, int]) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**{**options, "dl_device": self.device})


def test_cuda_array_interface(fake: Fake) -> None:
    with fake.stream() as ours:
        y = poot.trace(lambda x: x + 1.0)(Tensor(X))
    facts = y.__cuda_array_interface__
    assert facts == {
        "shape": (3, 4),
        "typestr": "<f4",
        "data": (y.address, True),
        "strides": None,
        "version": 3,
        "stream": ours.ptr,
    }
    assert not hasattr(poot.asarray(np.ones(3, bf16.dtype), device="cuda"), "__cuda_array_interface__")
    assert not hasattr(poot.asarray(X, device="cpu"), "__cuda_array_interface__")
    other = _Interface(facts)
    shared = poot.asarray(other, copy=False)
    assert isinstance(shared, DeviceArray) and shared.address == y.address
    assert (0, ours.ptr) in fake.waits
    facts["strides"] = (4, 16)
    facts["shape"] = (4, 3)
    np.testing.assert_array_equal(np.asarray(poot.asarray(_Interface(facts))), X.T + 1)
    facts["mask"] = other
    with pytest.raises(ArgumentError, match="mask"):
        poot.asarray(_Interface(facts))


ODD_FACTS: list[tuple[str, Any]] = [
    *(("typestr", value) for value in (None, "zz", 3, "<c8", "<M8[s]")),
    *(("shape", value) for value in (None, 3, ("a",), (1.5,), (-1, 4))),
    *(("strides", value) for value in (3, ("a", "b"), (4,), (3, 1))),
    *(("data", value) for value in (lambda at: (at,), lambda at: (at, False)[:1])),
    *(("stream", value) for value in ("a", 1.5)),
]


@pytest.mark.parametrize("case", range(len(ODD_FACTS)))
def test_odd_facts_are_refused_by_type(case: int, fake: Fake) -> None:
    x = poot.asarray(X, device="cuda")
    key, value = ODD_FACTS[case]
    facts = {**x.__cuda_array_interface__, key: value(x.address) if callable(value) else value}
    for use in (poot.asarray, lambda x: poot.trace(lambda x: x + 1)(x)):
        with pytest.raises((ExchangeError, ArgumentError, UnsupportedDTypeError)):
            use(_Interface(facts))


class _Interface:
    def __init__(self, facts: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = dict(facts)


def test_arrays_that_do_not_fit_are_copied_on_the_gpu(fake: Fake) -> None:
    x = Tensor(X, shift=4)
    for taken in (poot.asarray(x), ops.from_dlpack(x), poot.trace(lambda x: ops.reshape(x, (12,)))(x)):
        assert isinstance(taken, DeviceArray) and taken.address != x.address and taken.address % 16 == 0
        np.testing.assert_array_equal(taken.numpy().reshape(3, 4), X)
    for error, take in ((ArgumentError, poot.asarray), (ArgumentError, ops.asarray), (ExchangeError, ops.from_dlpack)):
        with pytest.raises(error, match="copy"):
            take(x, copy=False)
    assert not x.held


def test_from_dlpack_and_asarray(fake: Fake) -> None:
    x = Tensor(X)
    shared = ops.from_dlpack(x)
    assert isinstance(shared, DeviceArray) and shared.address == x.address
    copied = ops.from_dlpack(x, copy=True)
    assert isinstance(copied, DeviceArray) and copied.address != x.address
    np.testing.assert_array_equal(copied.numpy(), X)
    assert poot.asarray(x).dtype is f32 and poot.asarray(x, "f64").dtype is f64
    assert poot.asarray(x, device="cpu").device == "cpu"
    with pytest.raises(ArgumentError, match="copy"):
        poot.asarray(x, device="cpu", copy=False)
    with pytest.raises(ArgumentError, match="copy"):
        poot.asarray(x, "f64", copy=False)
    duplicate = poot.asarray(shared, copy=True)
    assert isinstance(duplicate, DeviceArray) and duplicate.address != x.address


def test_faults_are_raised_before_an_array_goes_out(fake: Fake) -> None:
    f = poot.trace(lambda x, i: x[i])
    for _ in range(2):
        y = f(Tensor(X), poot.asarray(np.array([0, 7], np.int32), device="cuda"))
        with pytest.raises(IndexError, match="7"):
            y.__dlpack__(stream=1)
        with pytest.raises(IndexError, match="7"):
            y.__cuda_array_interface__
    good = f(Tensor(X), poot.asarray(np.array([0, 2], np.int32), device="cuda"))
    np.testing.assert_array_equal(good.numpy(), X[[0, 2]])


def test_kernels_write_into_other_libraries_arrays(fake: Fake) -> None:
    @poot.kernel
    def double(x: poot.InOut[f32]) -> None:
        i = poot.thread_index()
        if i < len(x):
            x[i] = x[i] * 2.0

    x = Tensor(np.arange(8, dtype=np.float32))
    double(x, threads=8)
    np.testing.assert_array_equal(x.numpy(), np.arange(8) * 2)
    for made in (Tensor(np.ones(8, np.float32), read_only=True), Tensor(np.ones(8, np.float32), versioned=False)):
        with pytest.raises(LaunchError, match="read-only"):
            double(made, threads=8)


def test_one_gpu_in_two_languages_shares_its_memory(fake: Fake) -> None:
    ptx = poot.device("cuda", language="ptx")
    x = poot.asarray(X, device="cuda")
    f = poot.trace(device=ptx)(lambda x: x + 1.0)
    calls = fake.counts["launches"]
    np.testing.assert_array_equal(np.asarray(f(x)), X + 1)
    assert fake.counts["launches"] == calls + 1
    seen = x.to_device(ptx)
    assert seen.address == x.address and seen.backend is ptx.backend
    np.testing.assert_array_equal(np.asarray(seen + x), X + X)


def test_several_gpus(fake: Fake) -> None:
    fake.count = 2
    second = poot.device("cuda:1")
    assert second.name == "cuda:1" and open_device("cuda:1") is second.backend
    x, y = poot.asarray(X, device="cuda:0"), poot.asarray(X, device=second)
    assert (x.device, y.device) == ("cuda", "cuda:1") and y.__dlpack_device__() == (2, 1)
    for call in (lambda: poot.trace(lambda x, y: x + y)(x, y), lambda: x + y):
        with pytest.raises(DeviceMismatchError, match=r"on cuda; .* on cuda:1\n"):
            call()
    np.testing.assert_array_equal(np.asarray(y + y), X + X)
    assert fake.selected == 0, "the thread's own GPU is current again"
    assert y.to_device("cuda").device == "cuda"
    with pytest.raises(DeviceError, match="there are 2 GPUs"):
        poot.device("cuda:2")


def test_each_call_has_a_fault_record_of_its_own(fake: Fake) -> None:
    """Records are cleared many at a time, for one stream, and each is used once."""
    gather = poot.trace(lambda x, i: x[i], device="cuda")
    x = poot.asarray(X, device="cuda")
    places = [poot.asarray(np.array([0, 99 if number % 37 == 5 else 2]), device="cuda") for number in range(150)]
    results = [gather(x, place) for place in places[:75]]
    with fake.stream():
        results += [gather(x, place) for place in places[75:]]
    for number, result in enumerate(results):
        if number % 37 == 5:
            with pytest.raises(IndexFault, match="index 99"):
                result.numpy()
        else:
            np.testing.assert_array_equal(result.numpy(), X[[0, 2]])
    open_device("cuda").reserve.clear()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(gather(x, places[0]).numpy(), X[[0, 2]])


def test_steps_take_arrays_that_are_on_the_gpu(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the host, and wherever a step or a state takes elements."""
    life = Life(poot.device("cuda"))
    x = np.arange(N, dtype=np.float32)
    tensor, ours = Tensor(x), poot.asarray(x, device="cuda")
    life.step(ours)
    host: list[str] = []
    with monkeypatch.context() as patched:
        for name in ("read", "write"):
            patched.setattr(life.engine.device, name, lambda *args, name=name: host.append(name))
        for array in (tensor, ours):
            result = life.step(array)
            life.exe.state["total"] = array
    assert not host
    np.testing.assert_array_equal(result.read(), 2 * x + 7)
    np.testing.assert_array_equal(life.exe.state["total"], x)
    assert not tensor.held and tensor.streams
    for wrong, error in ((x.astype(np.int32), DTypeError), (x[1:], ShapeError)):
        with pytest.raises(error, match="input 'x'"):
            life.step(Tensor(wrong))
    tensor.__dlpack_device__ = lambda: (2, 1)
    with pytest.raises(DeviceMismatchError, match=r"input 'x' on GPU 1, the engine on cuda"):
        life.step(tensor)
    with pytest.raises(ExchangeError, match="input 'x'"):
        Life(poot.device("cpu")).step(tensor)
