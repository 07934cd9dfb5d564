"""wgpu's device goes while threads wait for it, and what poot does that might end one."""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import poot
from poot.backends import device as registry
from poot.backends.device import BufferView
from poot.errors import DeviceLostError

X = np.arange(6, dtype=np.float32)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """For what is mended within the test."""
    monkeypatch.setattr(registry, "_devices", {})  # devices of the test's own, which it may break
    return monkeypatch


def test_a_device_that_goes_while_threads_wait(patch: pytest.MonkeyPatch) -> None:
    """What they wait for never comes; neither do they wait for it, nor for the one that holds the device."""
    device = poot.device("wgpu")
    backend: Any = device.backend
    x: Any = poot.asarray(X, device=device)
    y = x + 1.0
    uses: list[Callable[[], object]] = [
        lambda: np.asarray(x),
        lambda: np.asarray(y),
        y.block_until_ready,
        backend.synchronize,
        lambda: backend.write(BufferView(y.buffer_view().buffer, 1), np.zeros(2, np.uint8)),
    ]
    poller = backend._device._poller
    waits = threading.Event()
    polled = threading.Event()  # never set: it keeps the thread that polls from turning round and round

    def poll(_: bool) -> None:
        waits.set()
        polled.wait(0.001)

    poller._poll_func = poll
    errors: list[BaseException] = []

    def use(what: Callable[[], object]) -> None:
        try:
            what()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(what,), daemon=True) for what in uses]
    for thread in threads:
        thread.start()
    assert waits.wait(60)
    backend._device.destroy()
    for thread in threads:
        thread.join(60)
    assert [type(error) for error in errors] == [DeviceLostError] * len(uses), errors
    assert "it was destroyed" in str(errors[0])
    assert not poller.is_alive()
    np.testing.assert_array_equal(np.asarray(poot.asarray(X, device=device)), X)


@pytest.mark.parametrize("call", ["submit", "read_mapped"])
def test_a_device_is_destroyed_between_calls(call: str, patch: pytest.MonkeyPatch) -> None:
    """Not within those that end the process then."""
    from wgpu.backends.wgpu_native import _api

    device = poot.device("wgpu")
    x: Any = poot.asarray(X, device=device)
    inner = cast("Any", device.backend)._device
    poller = inner._poller
    ends = threading.Event()
    order: list[str] = []

    def destroy() -> None:
        stopped = poller.join

        def join(timeout: float | None = None) -> None:
            ends.set()
            stopped(timeout)

        poller.join = join
        inner.destroy()
        order.append("destroyed")

    other = threading.Thread(target=destroy, daemon=True)
    kind: Any = _api.GPUQueue if call == "submit" else _api.GPUBuffer
    whole = getattr(kind, call)

    def slow(*args: Any) -> Any:
        if other.ident is None:
            other.start()
            assert ends.wait(60)
            poller.join()  # after which nothing but this call keeps the other thread
            order.append(call)
        return whole(*args)

    with pytest.MonkeyPatch.context() as during:
        during.setattr(kind, call, slow)
        with contextlib.suppress(DeviceLostError):
            np.asarray(x)
    other.join(60)
    assert order == [call, "destroyed"]
    with pytest.raises(DeviceLostError):
        np.asarray(x)


def test_memory_freed_by_the_thread_that_polls(patch: pytest.MonkeyPatch) -> None:
    """Garbage may be collected there, while a read holds the device and waits for it."""
    device = poot.device("wgpu")
    backend: Any = device.backend
    x: Any = poot.asarray(X, device=device)
    held: list[Any] = [poot.asarray(X, device=device)]
    serial = held[0].buffer_view().buffer.serial
    poller = backend._device._poller
    poll = poller._poll_func

    def collecting(block: bool) -> None:
        held.clear()
        poll(block)

    poller._poll_func = collecting
    reader = threading.Thread(target=lambda: np.asarray(x), daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive() and not held
    assert backend.allocate(X.nbytes).serial == serial


def test_an_interrupt_while_a_read_waits(patch: pytest.MonkeyPatch) -> None:
    device = poot.device("wgpu")
    x: Any = poot.asarray(X, device=device)
    poller = cast("Any", device.backend)._device._poller
    poll = poller._poll_func

    def interrupting(_: bool) -> None:
        poller._poll_func = poll
        _thread.interrupt_main()

    poller._poll_func = interrupting
    with pytest.raises(KeyboardInterrupt):
        while True:
            np.asarray(x)
    np.testing.assert_array_equal(np.asarray(x), X)


def test_what_is_written_does_not_pile_up(patch: pytest.MonkeyPatch) -> None:
    """wgpu keeps a copy until the next submission, and a device without memory for it is lost."""
    from poot.backends.wgpu import transfers

    device = poot.device("wgpu")
    backend: Any = device.backend
    patch.setattr(transfers, "_STAGED_BYTES", 64)
    queue, written = backend._queue, [0]

    class Queue:
        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

        def write_buffer(self, memory: Any, low: int, data: Any) -> None:
            written[-1] += data.nbytes
            queue.write_buffer(memory, low, data)

        def submit(self, commands: Any) -> None:
            written.append(0)
            queue.submit(commands)

    patch.setattr(backend, "_queue", Queue())
    data = np.arange(1001, dtype=np.uint8)
    large = poot.asarray(data, device=device)
    small = [poot.asarray(data[n : n + 9], device=device) for n in range(100)]
    assert max(written) <= 64 + 12 and sum(written) >= 1001 + 900
    np.testing.assert_array_equal(np.asarray(large), data)
    for n, array in enumerate(small):
        np.testing.assert_array_equal(np.asarray(array), data[n : n + 9])


CAUSES = {
    "create_compute_pipeline": (
        "In wgpuDeviceCreateComputePipeline\n    Parent device is lost",
        r"load of kernel \w+: .*its driver could not make this kernel",
    ),
    "create_buffer": ("Not enough memory left", "smaller arrays may help"),
}


@pytest.mark.parametrize("call", CAUSES)
def test_what_ended_a_device(call: str, patch: pytest.MonkeyPatch) -> None:
    from poot.backends.wgpu.adapter import wgpu

    said, means = CAUSES[call]
    inner = cast("Any", poot.device("wgpu").backend)._device

    def fails(**_: Any) -> None:
        inner.destroy()
        raise wgpu.GPUValidationError(said)

    patch.setattr(inner, call, fails)
    with pytest.raises(DeviceLostError, match=f"(?s){means}") as caught:
        poot.trace(device="wgpu")(lambda x: x * 8.25)(X)
    assert said in str(caught.value) and f"at {__file__}:" in str(caught.value)
