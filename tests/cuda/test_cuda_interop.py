"""torch, CuPy and JAX on one GPU with poot: pointers, streams, read-only marks, lifetimes, and several GPUs."""

from __future__ import annotations

import gc
import importlib
import threading
from typing import Any

import numpy as np
import pytest

import poot
from poot import ops
from poot.backends.device import DeviceBackend
from poot.errors import DeviceMismatchError
from tests.declared_skips import NO_CUDA_JAX, NO_CUDA_TORCH, ONE_GPU

X = np.arange(4096, dtype=np.float32).reshape(64, 64)


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        pytest.skip(NO_CUDA_TORCH)
    if not torch.cuda.is_available():
        pytest.skip(NO_CUDA_TORCH)
    return torch


def _cupy() -> Any:
    return importlib.import_module("cupy")


def _jax() -> Any:
    try:
        jax = importlib.import_module("jax")
        if any(device.platform == "gpu" for device in jax.devices()):
            return jax
    except (ImportError, RuntimeError):
        pass
    pytest.skip(NO_CUDA_JAX)


class Torch:
    def __init__(self) -> None:
        self.library = _torch()

    def put(self, array: np.ndarray) -> Any:
        return self.library.from_numpy(array).cuda()

    def pointer(self, array: Any) -> int:
        return array.data_ptr()

    def take(self, array: Any) -> Any:
        return self.library.from_dlpack(array)

    def host(self, array: Any) -> np.ndarray:
        return array.cpu().numpy()


class CuPy(Torch):
    def __init__(self) -> None:
        self.library = _cupy()

    def put(self, array: np.ndarray) -> Any:
        return self.library.asarray(array)

    def pointer(self, array: Any) -> int:
        return array.data.ptr

    def host(self, array: Any) -> np.ndarray:
        return self.library.asnumpy(array)


class Jax(Torch):
    def __init__(self) -> None:
        self.library = _jax()

    def put(self, array: np.ndarray) -> Any:
        return self.library.device_put(array)

    def pointer(self, array: Any) -> int:
        return array.unsafe_buffer_pointer()

    def take(self, array: Any) -> Any:
        return self.library.dlpack.from_dlpack(array)

    def host(self, array: Any) -> np.ndarray:
        return np.asarray(array)


LIBRARIES = {"torch": Torch, "cupy": CuPy, "jax": Jax}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Torch:
    return LIBRARIES[request.param]()


def test_in_and_out_of_a_traced_function_without_a_copy(cuda: DeviceBackend, library: Torch) -> None:
    x = library.put(X)
    shared = poot.asarray(x, copy=False)
    assert shared.address == library.pointer(x)  # type: ignore[attr-defined]
    f = poot.trace(lambda x, y: ops.tanh(x) + y, device=poot.device(cuda.name, language=cuda.target.languages[0]))  # type: ignore[call-overload]
    for _ in range(3):
        y = f(x, shared)
        back = library.take(y)
        assert library.pointer(back) == y.address
        np.testing.assert_allclose(library.host(back), np.tanh(X) + X, rtol=2e-6)
    del y
    gc.collect()
    for _ in range(5):
        f(x, x)
    np.testing.assert_allclose(library.host(back), np.tanh(X) + X, rtol=2e-6)
    del shared, x
    gc.collect()


def test_capsules_of_both_ages(cuda: DeviceBackend, library: Torch) -> None:
    y = poot.asarray(X, device="cuda")
    assert library.pointer(library.take(y)) == y.address  # type: ignore[attr-defined]
    again = ops.from_dlpack(library.take(y))
    assert again.address == y.address  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.asarray(again), X)


def test_interfaces_of_cupy() -> None:
    cupy = _cupy()
    y = poot.trace(lambda x: x + 1.0)(cupy.asarray(X))
    seen = cupy.asarray(y)
    assert seen.data.ptr == y.address
    np.testing.assert_array_equal(cupy.asnumpy(seen), X + 1)
    strided = cupy.asarray(X)[:, ::2]
    np.testing.assert_array_equal(np.asarray(poot.trace(lambda x: x * 2.0)(strided)), X[:, ::2] * 2)
    np.testing.assert_array_equal(np.asarray(poot.asarray(strided.T)), X[:, ::2].T)


class _Slow:
    """Work that keeps a stream busy for milliseconds, before it writes what it should."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.a = torch.randn(4096, 4096, device="cuda")

    def fill(self, target: Any, value: float) -> None:
        for _ in range(20):
            self.a = (self.a @ self.a).clamp(-1, 1)
        target.fill_(value)


def test_torch_streams_are_waited_for(cuda: DeviceBackend) -> None:
    torch = _torch()
    slow, f = _Slow(torch), poot.trace(lambda x: x + 1.0)
    x = torch.zeros(1 << 20, device="cuda")
    f(x)
    torch.cuda.synchronize()
    for number in range(1, 6):
        with torch.cuda.stream(torch.cuda.Stream()):
            slow.fill(x, float(number))
            y = f(x)
            back = torch.from_dlpack(y)
            assert back.sum().item() == (number + 1) * (1 << 20)
        del y, back


def test_cupy_streams_are_waited_for(cuda: DeviceBackend) -> None:
    torch, cupy = _torch(), _cupy()
    slow, f = _Slow(torch), poot.trace(lambda x: x + 1.0)
    x = torch.zeros(1 << 20, device="cuda")
    f(x)
    torch.cuda.synchronize()
    for number in range(1, 6):
        slow.fill(x, float(number))
        with cupy.cuda.Stream(non_blocking=True):
            y = f(x)
        assert torch.from_dlpack(y).sum().item() == (number + 1) * (1 << 20)


def test_memory_is_not_used_again_before_its_reader_is_done(cuda: DeviceBackend) -> None:
    torch = _torch()
    slow, f = _Slow(torch), poot.trace(lambda x: x + 1.0)
    x = torch.zeros(4096, device="cuda")
    f(x)
    out = torch.empty(4096, device="cuda")
    torch.cuda.synchronize()
    for _ in range(5):
        y = f(x)
        with torch.cuda.stream(torch.cuda.Stream()):
            back = torch.from_dlpack(y)
            slow.fill(out, 0.0)
            out.copy_(back)
        del y, back
        for _ in range(50):
            f(x + 7.0)
        torch.cuda.synchronize()
        assert out.unique().tolist() == [1.0]


def test_kernels_write_into_torch(cuda: DeviceBackend) -> None:
    torch = _torch()

    @poot.kernel
    def double(x: poot.InOut[poot.f32]) -> None:
        i = poot.thread_index()
        if i < len(x):
            x[i] = x[i] * 2.0

    slow = _Slow(torch)
    x = torch.zeros(1 << 16, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        slow.fill(x, 3.0)
        double(x, threads=1 << 16)
        assert x.unique().tolist() == [6.0]


def test_bfloat16_of_torch(cuda: DeviceBackend) -> None:
    torch = _torch()
    x = torch.arange(64, device="cuda").to(torch.bfloat16)
    y = poot.trace(lambda x: x * x)(x)
    assert y.dtype is poot.bf16
    assert torch.equal(torch.from_dlpack(y), x * x)


def test_devices_do_not_mix(cuda: DeviceBackend) -> None:
    torch = _torch()
    x = torch.ones(8, device="cuda")
    with pytest.raises(DeviceMismatchError, match=r"argument 'x' on cuda; argument 'y' on cpu\n"):
        poot.trace(lambda x, y: x + y)(x, poot.asarray(np.ones(8, np.float32), device="cpu"))
    y = poot.trace(lambda x, y: x + y)(x, np.ones(8, np.float32))
    assert y.device == "cuda" and np.asarray(y).tolist() == [2.0] * 8


def test_several_gpus() -> None:
    if _cupy().cuda.runtime.getDeviceCount() < 2:
        pytest.skip(ONE_GPU)
    torch = _torch()
    f = poot.trace(lambda x, y: x + y)
    arrays = [poot.asarray(X, device=f"cuda:{number}") for number in range(2)]
    assert [array.device for array in arrays] == ["cuda", "cuda:1"]
    with pytest.raises(DeviceMismatchError, match=r"on cuda; .* on cuda:1\n"):
        f(*arrays)
    for number, x in enumerate(arrays):
        tensor = torch.from_numpy(X).to(f"cuda:{number}")
        for _ in range(3):
            y = f(x, tensor)
            assert y.device == x.device
            np.testing.assert_array_equal(np.asarray(y), X + X)
            back = torch.from_dlpack(y)
            assert back.device.index == number and back.data_ptr() == y.address
    np.testing.assert_array_equal(np.asarray(arrays[1].to_device("cuda") + arrays[0]), X + X)
    assert torch.cuda.current_device() == 0


def test_calls_from_new_threads(cuda: DeviceBackend) -> None:
    f = poot.trace(lambda x: x + 1.0)
    x = poot.asarray(X, device="cuda")
    for _ in range(2):
        f(x)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.extend(np.asarray(f(x)) for _ in range(50))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 400
    for array in found:
        np.testing.assert_array_equal(array, X + 1)


def test_calls_while_another_gpu_is_current() -> None:
    cupy = _cupy()
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip(ONE_GPU)
    f = poot.trace(lambda x: x + 1.0)
    arrays = [poot.asarray(X, device=f"cuda:{number}") for number in range(2)]
    for current in (0, 1, 0):
        with cupy.cuda.Device(current):
            for x in arrays:
                for _ in range(3):
                    np.testing.assert_array_equal(np.asarray(f(x)), X + 1)
            assert cupy.cuda.runtime.getDevice() == current
