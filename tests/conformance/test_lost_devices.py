"""Devices that stop working for good: a typed error, no array that pretends, and a fresh device at the next request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import poot
from poot import StepInputs, WeightStore, f32
from poot.api.devices import Device
from poot.backends import device as registry
from poot.errors import CompileError, DeviceError, DeviceLostError

X = np.arange(6, dtype=np.float32)

add_one = poot.trace(lambda x: x + 1.0)


@poot.kernel
def doubled(a: poot.In[f32], b: poot.Out[f32]):
    i = poot.thread_index()
    if i < len(b):
        b[i] = a[i] * 2.0


Fail = Callable[[pytest.MonkeyPatch, Device], None]


def destroyed(patch: pytest.MonkeyPatch, device: Device) -> None:
    """The device behind wgpu goes, as when a driver is taken out."""
    backend: Any = device.backend
    backend._device.destroy()


def vanished(patch: pytest.MonkeyPatch, device: Device) -> None:
    """A submission finds the GPU gone, with the words of wgpu."""
    from poot.backends.wgpu.adapter import wgpu

    class Queue:
        def __getattr__(self, name: str) -> Any:
            def gone(*_: Any) -> None:
                raise wgpu.GPUError("Validation Error\n\nCaused by:\n  In wgpuQueueSubmit\n    Parent device is lost")

            return gone

    patch.setattr(device.backend, "_queue", Queue())


def _status(code: str | int) -> Any:
    import pyopencl as cl

    number = code if isinstance(code, int) else getattr(cl.status_code, code)
    return cl.RuntimeError(cl._cl._ErrorRecord("", number, "clEnqueueNDRangeKernel"))  # type: ignore[attr-defined]


def invalid(code: str | int) -> Fail:
    """Every call of OpenCL's ends with a status that says so."""

    def fail(patch: pytest.MonkeyPatch, device: Device) -> None:
        from poot.backends.opencl.platform import cl

        def gone(*_: Any, **__: Any) -> None:
            raise _status(code)

        for name in ("enqueue_nd_range_kernel", "enqueue_copy", "enqueue_marker", "Buffer"):
            patch.setattr(cl, name, gone)

    return fail


LOSSES = {
    "wgpu-destroyed": ("wgpu", destroyed),
    "wgpu-vanished": ("wgpu", vanished),
    "opencl-context": ("opencl", invalid("INVALID_CONTEXT")),
    "opencl-resources": ("opencl", invalid("OUT_OF_RESOURCES")),
    "opencl-nvidia": ("opencl", invalid(-9999)),
}


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """For what is mended within the test."""
    monkeypatch.setattr(registry, "_devices", {})  # devices of the test's own, which it may break
    return monkeypatch


@pytest.mark.parametrize("name", LOSSES)
def test_a_device_that_is_lost(name: str, patch: pytest.MonkeyPatch) -> None:
    backend, lose = LOSSES[name]
    device = poot.device(backend)
    traced = poot.trace(device=backend)(lambda x: x * 3.0)
    x = poot.asarray(X, device=device)
    y = traced(x)
    engine = poot.Engine(device)
    b = poot.Builder(poot.TraceLimits.STANDARD)
    total = b.state("total", f32[6]) + b.input("x", f32[6])
    graph = b.finish(total + b.constant("w", f32[6]), updates={"total": total})
    program = poot.compile(graph, device.target, poot.CompileOptions())
    exe = engine.load_weights(WeightStore.from_arrays({"w": X}))
    entry = engine.add_entry(exe, program)
    engine.step(exe, entry, StepInputs().push("x", X))
    first: Any = device.backend
    assert first.lost is None
    with contextlib.ExitStack() as mended:
        broken = mended.enter_context(pytest.MonkeyPatch.context())
        lose(broken, device)
        uses: list[Callable[[], object]] = [
            lambda: traced(x),
            lambda: y + 1.0,
            lambda: add_one(y),
            lambda: doubled(x, y, threads=6),
            lambda: np.asarray(y),
            lambda: y.to_device("cpu"),
            lambda: engine.step(exe, entry, StepInputs().push("x", X)),
            lambda: exe.state["total"],
            lambda: exe.state.reset(),
            lambda: engine.load_weights(WeightStore.from_arrays({"w": X})),
            y.block_until_ready,
        ]
        for use in uses:
            with pytest.raises(DeviceLostError, match=f"device {backend} was lost, and with it the contents") as caught:
                use()
            assert f'poot.device("{backend}")' in str(caught.value)
        assert first.lost is not None
    assert repr(y) == f"Array(lost with its device, shape=(6,), dtype=f32, device='{backend}')"
    for use in uses:  # the device does not come back to life, whatever its driver does
        with pytest.raises(DeviceLostError):
            use()
    assert device.backend is not first and poot.device(backend) == device
    z = poot.asarray(X, device=device)
    np.testing.assert_array_equal(np.asarray(traced(z)), X * 3)
    np.testing.assert_array_equal(np.asarray(traced(X)), X * 3)
    with device:
        np.testing.assert_array_equal(np.asarray(add_one(X)), X + 1)
    out = np.zeros(6, np.float32)
    doubled(z, out, threads=6)
    np.testing.assert_array_equal(out, X * 2)
    with pytest.raises(DeviceLostError):
        add_one(x)
    with pytest.raises(DeviceLostError):
        poot.trace(lambda a, b: a + b)(x, z)
    other = poot.Engine(device)
    exe = other.load_weights(WeightStore.from_arrays({"w": X}))
    step = other.step(exe, other.add_entry(exe, program), StepInputs().push("x", X))
    np.testing.assert_array_equal(step.read(), X + X)
    engine.unload(entry.exe)


STAGES: dict[str, Callable[[Any], object]] = {
    "polling has ended": lambda inner: inner._poller.stop(),
    "nothing polls": lambda inner: setattr(inner, "_poller", None),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_device_that_is_going(stage: str, patch: pytest.MonkeyPatch) -> None:
    """What wgpu raises while another thread destroys a device, a RuntimeError or AttributeError, is a loss."""
    device = poot.device("wgpu")
    backend: Any = device.backend
    x: Any = poot.asarray(X, device=device)
    inner = backend._device
    poller = inner._poller
    STAGES[stage](inner)
    try:
        for use in (lambda: np.asarray(x), lambda: np.asarray(x + 1.0), x.block_until_ready, backend.synchronize):
            with pytest.raises(DeviceLostError, match=r'poot.device\("wgpu"\) and calls open the device again'):
                use()
        np.testing.assert_array_equal(np.asarray(poot.asarray(X, device=device)), X)
    finally:
        inner._poller = poller
        inner.destroy()


@pytest.mark.parametrize("name", LOSSES)
def test_states_of_a_lost_device(name: str, patch: pytest.MonkeyPatch) -> None:
    """They cannot be set, so nothing advises to."""
    backend, lose = LOSSES[name]
    device = poot.device(backend)
    engine = poot.Engine(device)
    program = poot.trace(lambda s, x: (x, s + x)).program(f32[6], f32[6], states={"s": 1}, device=device)
    exe = engine.load_weights(WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, program)
    engine.step(exe, entry, StepInputs().push("x", X))
    uses: list[Callable[[], object]] = [
        lambda: engine.step(exe, entry, StepInputs().push("x", X)),
        lambda: exe.state.__setitem__("s", X),
        lambda: exe.state["s"],
        lambda: engine.step(exe, entry, StepInputs().push("x", X)),
        exe.state.reset,
        lambda: exe.state["s"],
    ]
    with pytest.MonkeyPatch.context() as broken:
        lose(broken, device)
        for use in uses:
            with pytest.raises(DeviceLostError, match="a new Engine loads the weights"):
                use()


@pytest.mark.parametrize(
    "call", ["Context", "CommandQueue", "Buffer", "Kernel", "enqueue_nd_range_kernel", "enqueue_copy"]
)
def test_errors_of_opencl_are_typed(call: str, patch: pytest.MonkeyPatch) -> None:
    from poot.backends.opencl.platform import cl

    def refused(*_: Any, **__: Any) -> None:
        raise _status("INVALID_VALUE")

    def copy() -> None:
        memory: Any = poot.asarray(X, device="opencl")
        memory.backend.copy(memory.buffer_view(), memory.buffer_view(), 4)

    uses: dict[str, Callable[[], object]] = {
        "Buffer": lambda: poot.device("opencl").backend.allocate(12345),
        "enqueue_copy": copy,
    }
    if call not in ("Context", "CommandQueue"):
        poot.device("opencl")
    patch.setattr(cl, call, refused)
    with pytest.raises(DeviceError, match="INVALID_VALUE"):
        uses.get(call, lambda: poot.trace(device="opencl")(lambda x: x * 6.0)(X))()


@pytest.mark.parametrize("call", ["create_bind_group", "create_compute_pipeline", "create_shader_module"])
def test_errors_of_wgpu_are_typed(call: str, patch: pytest.MonkeyPatch) -> None:
    """A device that answers is not lost by an error."""
    from poot.backends.wgpu.adapter import wgpu

    device = poot.device("wgpu")
    backend: Any = device.backend
    x = poot.asarray(X, device=device)

    def refused(*_: Any, **__: Any) -> None:
        raise wgpu.GPUValidationError("not so")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(backend._device, call, refused)
        with pytest.raises((DeviceError, CompileError), match="not so") as caught:
            poot.trace(lambda x: x * 6.5)(x)
        assert not isinstance(caught.value, DeviceLostError)
    assert backend.lost is None
    np.testing.assert_array_equal(np.asarray(poot.trace(lambda x: x * 6.5)(x)), X * np.float32(6.5))


def test_a_loss_within_an_allocation_or_a_load(patch: pytest.MonkeyPatch) -> None:
    """What is otherwise too little memory, or a kernel that does not build."""
    for use in (
        lambda backend: backend.allocate(1 << 20),
        lambda backend: poot.trace(device=backend.name)(lambda x: x - 7.25)(X),
    ):
        device = poot.device("wgpu")
        backend: Any = device.backend
        destroyed(patch, device)
        with pytest.raises(DeviceLostError):
            use(backend)
        assert backend.lost is not None


def test_a_request_that_is_too_much_loses_nothing(patch: pytest.MonkeyPatch) -> None:
    from poot.backends.opencl.platform import cl

    device = poot.device("opencl")
    x = poot.asarray(X, device=device)

    def gone(*_: Any) -> None:
        raise _status("OUT_OF_RESOURCES")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(cl, "enqueue_nd_range_kernel", gone)
        with pytest.raises(DeviceError, match="OUT_OF_RESOURCES") as caught:
            add_one(x)
        assert not isinstance(caught.value, DeviceLostError)
    np.testing.assert_array_equal(np.asarray(add_one(x)), X + 1)


def test_a_buffer_of_a_lost_device(patch: pytest.MonkeyPatch) -> None:
    device = poot.device("wgpu")
    compiled = doubled.compile(device.target, workgroup=64)
    buffers = [poot.KernelBuffer.read_only(X), poot.KernelBuffer.write(f32, 6)]
    context = poot.Context(device)
    context.dispatch("doubled", compiled, workgroup=64, threads=6, buffers=buffers)
    destroyed(patch, device)
    with pytest.raises(DeviceLostError):
        buffers[1].to_numpy()
    with pytest.raises(DeviceLostError):
        context.dispatch("doubled", compiled, workgroup=64, threads=6, buffers=buffers)
    fresh = [poot.KernelBuffer.read_only(X), poot.KernelBuffer.write(f32, 6)]
    context.dispatch("doubled", compiled, workgroup=64, threads=6, buffers=fresh)
    np.testing.assert_array_equal(fresh[1].to_numpy(), X * 2)
