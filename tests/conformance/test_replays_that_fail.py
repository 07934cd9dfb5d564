"""A replay that fails while its bindings are being set leaves nothing of them to the replays after it."""

from __future__ import annotations

import importlib
import random
from typing import Any

import numpy as np
import pytest

from poot import f32
from poot.api.devices import Device
from poot.backends.device import BufferView, LaunchSpec
from poot.backends.toolchain import compile_kernel
from poot.errors import DeviceError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel

N = 16
#: Views of the one buffer that all launches read: its elements from a multiple of N on.
PLACES = 5
DATA = np.arange(PLACES * N, dtype=np.float32)


def plus_one() -> Kernel:
    k = KernelBuilder("plus_one", workgroup=(N, 1, 1), threads=(N, 1, 1))
    source, target = k.buffer("source", f32, "read", (N,)), k.buffer("target", f32, "write", (N,))
    index = k.index("thread", 0)
    k.store(target, (index,), k.op("add", k.load(source, (index,)), k.const(1.0, f32)))
    return k.finish()


class Fragile:
    """Passes calls on, and fails at one of them."""

    def __init__(self, inner: Any, error: type[Exception]) -> None:
        self.inner, self.error = inner, error
        self.left = -1

    def arm(self, number: int) -> None:
        """Fail at the call of that number from here on."""
        self.left = number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            raise self.error("injected")
        return self.inner(*args, **kwargs)


def fragile_calls(device: Device, patch: pytest.MonkeyPatch) -> list[Fragile]:
    """The driver's calls, as far as they can be replaced, that a replay makes."""
    backend: Any = device.backend
    if device.name == "wgpu":
        error: Any = importlib.import_module("wgpu").GPUError
        owners: list[tuple[Any, str]] = [
            (backend._device, "create_bind_group"),
            (backend._device, "create_command_encoder"),
            (backend._queue, "write_buffer"),
            (backend._queue, "submit"),
        ]
    elif device.name == "opencl":
        error = DeviceError
        owners = [(importlib.import_module(type(backend).__module__), "set_buffer")]
    else:
        return []
    made: list[Fragile] = []
    for owner, name in owners:
        make = error if error is not DeviceError else _device_error
        made.append(Fragile(getattr(owner, name), make))
        patch.setattr(owner, name, made[-1])
    return made


def _device_error(message: str) -> DeviceError:
    return DeviceError(device="opencl", message=message)


def test_a_replay_that_fails_midway(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    backend = device.backend
    loaded = backend.load(compile_kernel(plus_one(), device.target))
    source = backend.allocate(DATA.nbytes)
    backend.write(BufferView(source), DATA)
    targets = [backend.allocate(4 * N) for _ in range(3)]
    fixed = [BufferView(target) for target in targets]
    steps = [LaunchSpec(loaded, ((3 + n, 0), (n, 0)), (1, 1, 1), (), n) for n in range(3)]

    def views(places: list[int]) -> list[BufferView]:
        return [BufferView(source, 4 * N * place) for place in places]

    recording = backend.record(steps, [*fixed, None, None, None], (3, 4, 5), views([0, 0, 0]))
    calls = fragile_calls(device, monkeypatch)
    failed = 0
    for _ in range(60):
        places = [chance.randrange(PLACES) for _ in range(3)]
        if calls and chance.random() < 0.5:
            chance.choice(calls).arm(chance.randrange(3))
            try:
                backend.replay(recording, views(places))
            except DeviceError:
                failed += 1
            for call in calls:
                call.arm(-1)
            if chance.random() < 0.5:
                places = [chance.randrange(PLACES), *places[1:]]
        backend.replay(recording, views(places))
        for target, place in zip(fixed, places, strict=True):
            out = np.empty(N, np.float32)
            backend.read(target, out)
            np.testing.assert_array_equal(out, DATA[place * N : (place + 1) * N] + 1)
    assert failed or not calls


def test_a_view_that_starts_within_an_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused on wgpu after the parameters of the launches before it have been set."""
    import poot

    backend: Any = poot.device("wgpu").backend
    loaded = backend.load(compile_kernel(plus_one(), backend.target))
    source = backend.allocate(DATA.nbytes)
    backend.write(BufferView(source), DATA)
    fixed = [BufferView(backend.allocate(4 * N)) for _ in range(2)]
    steps = [LaunchSpec(loaded, ((2 + n, 0), (n, 0)), (1, 1, 1), (), n) for n in range(2)]
    start, moved = BufferView(source), BufferView(source, 4 * N)
    recording = backend.record(steps, [*fixed, None, None], (2, 3), [start, start])
    with pytest.raises(poot.errors.LaunchError, match="starts at byte 2"):
        backend.replay(recording, [moved, BufferView(source, 2)])
    backend.replay(recording, [moved, start])
    for view, wanted in zip(fixed, (DATA[N : 2 * N], DATA[:N]), strict=True):
        out = np.empty(N, np.float32)
        backend.read(view, out)
        np.testing.assert_array_equal(out, wanted + 1)
