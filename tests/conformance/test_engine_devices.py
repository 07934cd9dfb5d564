"""What a failing device leaves of an engine, at every call where it can fail: the error, whole states, and no leak.

A life of an engine is run over and over, each time with one call of the device failing.  Whatever was being done is
done again, and has to succeed, or to say that state must be set; at the end all memory has been given back.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import Builder, Engine, StepInputs, TraceLimits, WeightMap, WeightStore, f32, i32, ops
from poot.api.devices import Device
from poot.backends import toolchain
from poot.errors import AllocationError, CompileError, DeviceError, IndexFault, StateLost
from tests.faulty_device import CALLS, Failure, FaultyDevice, InjectedError

N = 6
OPTIONS = poot.CompileOptions()
GOOD = np.array([1, 5], np.int32)
BAD = np.array([0, 6], np.int32)
W = np.arange(N, dtype=np.float32)


def graph(*, faults: bool) -> poot.Graph:
    """a <- a + 1 and b <- b + 2 together, and rows of the weights; what comes of weights alone is made once."""
    b = Builder(TraceLimits.STANDARD, name="faulting" if faults else "counting")
    w, index = b.constant("w", f32[N]), b.input("index", i32[2])
    first, second = b.state("a", f32[N]) + 1.0, b.state("b", f32[N]) + 2.0
    one = ops.sum(ops.exp(w * 0.0)) / N
    rows = w[index] * one if faults else w[:2] * one + index
    return b.finish((rows, first + second), updates={"a": first, "b": second})


class Life:
    """An engine from its weights to their unloading, as steps that may be tried again."""

    def __init__(self, device: FaultyDevice, file: Path, programs: tuple[poot.Program, poot.Program]) -> None:
        self.device = device
        self.engine = Engine(device)
        self.file = file
        self.programs = programs
        self.entries: list[Any] = []
        self.count = 0
        self.result: Any = None

    def steps(self) -> Iterator[Callable[[], None]]:
        yield self.load
        yield lambda: self.entries.append(self.engine.add_entry(self.exe, self.programs[0]))
        yield lambda: self.entries.append(self.engine.add_entry(self.exe, self.programs[1]))
        for number in (0, 0, 1, 1):
            yield lambda number=number: self.step(number)
            yield self.read
        yield self.fault
        yield self.states
        yield self.set
        yield lambda: self.step(1)
        yield self.read

    def load(self) -> None:
        store = WeightStore.from_safetensors(self.file)
        self.exe = self.engine.load_weights(store, WeightMap({"w": "w"}), self.programs)

    def step(self, number: int) -> None:
        try:
            self.result = number, self.engine.step(self.exe, self.entries[number], StepInputs().push("index", GOOD))
        except IndexFault:
            pytest.fail("a step faults that has no reason to")
        self.count += 1

    def read(self) -> None:
        number, result = self.result
        rows, total = result.read()
        assert rows.tolist() == ([1, 6] if number == 0 else [1, 5])
        assert total.tolist() == [3 * self.count] * N

    def fault(self) -> None:
        with pytest.raises(IndexFault):
            self.engine.step(self.exe, self.entries[1], StepInputs().push("index", BAD))

    def states(self) -> None:
        a, b = self.exe.state["a"], self.exe.state["b"]
        assert (b == 2 * a).all() and (a == a[0]).all()
        assert a[0] in (self.count, self.count + 1)
        self.count = int(a[0])

    def set(self) -> None:
        self.exe.state["b"] = np.full(N, 20, np.float32)
        self.exe.state["a"] = np.full(N, 10, np.float32)
        self.count = 10

    def again(self, step: Callable[[], None]) -> None:
        """After a failure states are whole or lost, no old result passes for a new one, and all goes on."""
        if self.entries:
            try:
                self.states()
            except StateLost as error:
                assert "failed while it was written" in str(error) and "exe.state.reset()" in str(error)
                with pytest.raises(StateLost):
                    self.engine.step(self.exe, self.entries[0], StepInputs().push("index", GOOD))
                self.set()
        if step == self.read and self.result[1]._version != self.entries[self.result[0]].version:
            return
        step()

    def end(self) -> None:
        self.engine.unload(self.exe)
        assert self.engine.stats.allocated_bytes == 0 and self.engine.stats.entries == 0
        assert not self.device.live and not self.device.imported


@pytest.fixture
def programs(device: Device) -> tuple[poot.Program, poot.Program]:
    return tuple(poot.compile(graph(faults=faults), device.target, OPTIONS) for faults in (False, True))  # type: ignore[return-value]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    header = json.dumps({"w": {"dtype": "F32", "shape": [N], "data_offsets": [0, W.nbytes]}}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + W.tobytes())
    return path


def live(device: Device, file: Path, programs: Any, failure: Failure | None) -> FaultyDevice:
    """Run a life; gives the device that it ran on."""
    faulty = FaultyDevice(device)
    life = Life(faulty, file, programs)
    faulty.arm(failure)
    for step in life.steps():
        try:
            step()
            assert failure is None or not faulty.take_fired(), "a failure was swallowed"
        except (InjectedError, KeyboardInterrupt):
            assert faulty.take_fired()
            life.again(step)
    life.end()
    return faulty


def fail(device: Device, file: Path, programs: Any, call: str, step: int) -> None:
    """Fail every `step`th of the calls of one kind, the last one always."""
    count = live(device, file, programs, None).calls[call]
    assert count or call in ("copy", "host_view", "import_host")
    for number in range(count - 1, -1, -step):
        for when in ("before", "after") if call not in ("allocate", "import_host") else ("before",):
            assert live(device, file, programs, Failure(call, number, when)).failed == 1
        if call in ("record", "replay") and not getattr(device.backend, "submits_whole", False):
            for launches in range(1, 8, step):
                assert live(device, file, programs, Failure(call, number, launches)).failed == 1


@pytest.mark.slow_on("opencl", "wgpu")
@pytest.mark.parametrize("call", CALLS)
def test_calls_that_fail(device: Device, file: Path, programs: Any, call: str) -> None:
    fail(device, file, programs, call, 7)


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_every_call_that_fails(device: Device, file: Path, programs: Any, call: str) -> None:
    fail(device, file, programs, call, 1)


def test_an_interrupted_step(device: Device, file: Path, programs: Any) -> None:
    """A Ctrl-C anywhere in a step, between two copies of its states above all."""
    whole = getattr(device.backend, "submits_whole", False)
    for when in ("before", "after") if whole else range(1, 8):
        assert live(device, file, programs, Failure("replay", 0, when, interrupt=True)).failed == 1


def test_a_step_after_one_that_could_not_be_completed(device: Device, file: Path, programs: Any) -> None:
    """What the failed step left half done has nothing to say once the states are set."""
    faulty = FaultyDevice(device)
    lost = 0
    whole = faulty.submits_whole
    places: Sequence[Any] = ("before", "after") if whole else range(8)
    for launches in places:
        for later in places:
            life = Life(faulty, file, programs)
            faulty.arm(None)
            life.load()
            life.entries.append(life.engine.add_entry(life.exe, programs[0]))
            life.step(0)
            faulty.arm(Failure("replay", 0, launches, then=None if whole else Failure("read", 0)))
            with pytest.raises(InjectedError):
                life.step(0)
            faulty.arm(None)
            try:
                life.states()
            except StateLost:
                lost += 1
            life.set()
            faulty.arm(Failure("replay", 0, later))
            with pytest.raises(InjectedError):
                life.step(0)
            life.states()
            life.step(0)
            life.read()
            life.end()
    assert lost or whole


def test_a_reset_that_fails(device: Device, file: Path, programs: Any) -> None:
    """No state keeps an old value where others are zeros: those that were not reached are lost."""
    faulty = FaultyDevice(device)
    life = Life(faulty, file, programs)
    life.load()
    life.entries.append(life.engine.add_entry(life.exe, programs[0]))
    life.set()
    for when in ("before", "after"):
        faulty.arm(Failure("write", 1, when))
        with pytest.raises(InjectedError):
            life.exe.state.reset()
        names = list(life.exe.state)
        assert life.exe.state[names[0]].tolist() == [0] * N
        with pytest.raises(StateLost, match="a reset failed while it was written"):
            life.exe.state[names[1]]
        with pytest.raises(StateLost):
            life.step(0)
        life.exe.state.reset()
        life.count = 0
        life.states()
        life.step(0)
        life.read()
        life.set()
    life.end()


def test_a_compiler_that_fails(device: Device, file: Path, programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the compiler's own, and nothing of the kernel is kept: the next attempt compiles it."""
    life = Life(FaultyDevice(device), file, programs)
    life.load()
    original = toolchain._compile

    def broken(*_: Any) -> Any:
        raise CompileError(what="kernel", target="here", message="injected")

    toolchain.clear_memory()
    monkeypatch.setattr(toolchain, "_compile", broken)
    with pytest.raises(CompileError, match="injected"):
        life.engine.add_entry(life.exe, programs[0])
    monkeypatch.setattr(toolchain, "_compile", original)
    life.entries.append(life.engine.add_entry(life.exe, programs[0]))
    life.step(0)
    life.read()
    life.end()


def test_out_of_memory(device: Device) -> None:
    """More than the device or the machine has is an AllocationError with the size, and the next request is served."""
    with pytest.raises(AllocationError, match=r"could not allocate 4611686018427387904 bytes on"):
        device.backend.allocate(1 << 62)
    buffer = device.backend.allocate(64)
    device.backend.free(buffer)


# --- jit-style calls --------------------------------------------------------------------------------------------------


def test_calls_on_a_device_that_fails(device: Device) -> None:
    """A call that fails raises, gives all memory back, and the same call succeeds afterwards."""
    faulty = FaultyDevice(device)
    wrapped = Device(faulty)
    function = poot.trace(lambda x, i: (x[i] * 2.0, x + 1.0), device=wrapped)
    x = np.arange(5, dtype=np.float32)

    def call() -> None:
        first, second = function(x, GOOD[:1])
        assert np.asarray(first).tolist() == [2.0]
        assert np.asarray(second).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]

    call()
    faulty.arm(None)
    call()
    counts = dict(faulty.calls)
    held = len(faulty.live)
    for name, count in counts.items():
        for number in range(count):
            faulty.arm(Failure(name, number))
            with pytest.raises(DeviceError, match="injected"):
                call()
            assert faulty.take_fired()
            assert len(faulty.live) == held, (name, number)
            call()
    with pytest.raises(IndexError):
        np.asarray(function(x, BAD[1:])[0])
    call()
