"""The interpreter as a device: kernel IR run in NumPy, one launch after another, on host memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poot.backends.device import (
    Buffer,
    BufferView,
    CopySpec,
    HostArray,
    LaunchSpec,
    RecordedStep,
    Recording,
    launch_arguments,
)
from poot.backends.toolchain import CompiledKernel
from poot.errors import AllocationError, DeviceUnavailableError
from poot.kernel.interpret.launch import BOUND_SLOTS, Interpreter
from poot.kernel.interpret.launch import BufferView as Elements
from poot.kernel.ir import FAULT_WORDS
from poot.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class HostBuffer:
    """Host memory as bytes."""

    memory: HostArray

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def address(self) -> int:
        """Where the memory begins."""
        return self.memory.ctypes.data

    @property
    def read_only(self) -> bool:
        """Whether it is memory of the caller's that nobody may write."""
        return not self.memory.flags.writeable


@dataclass(frozen=True, slots=True)
class InterpretedKernel:
    """A kernel translated for the interpreter."""

    compiled: CompiledKernel
    interpreter: Interpreter


@dataclass(frozen=True, slots=True)
class HostRecording:
    """The arguments of `record`, kept."""

    steps: tuple[RecordedStep, ...]
    views: tuple[BufferView | None, ...]
    rebindable: tuple[int, ...]
    fault: int


class InterpretDevice:
    """Runs prepared kernels through `poot.kernel.interpret`."""

    def __init__(self) -> None:
        self.name = "interpret"
        self.target = Target.parse("interpret")

    def allocate(self, nbytes: int) -> HostBuffer:
        try:
            return HostBuffer(np.empty(nbytes, np.uint8))
        except MemoryError as error:
            raise AllocationError(nbytes=nbytes, device=self.name, message=str(error)) from error

    def free(self, buffer: Buffer) -> None:
        """Host memory goes with its last reference."""

    def write(self, view: BufferView, array: HostArray) -> None:
        _bytes(view, array.nbytes)[...] = array.reshape(-1).view(np.uint8)

    def read(self, view: BufferView, out: HostArray) -> None:
        out.reshape(-1).view(np.uint8)[...] = _bytes(view, out.nbytes)

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        _bytes(target, nbytes)[...] = _bytes(source, nbytes)

    def host_view(self, view: BufferView, nbytes: int) -> HostArray:
        return _bytes(view, nbytes)

    def import_host(self, array: HostArray) -> HostBuffer:
        return HostBuffer(array.reshape(-1).view(np.uint8))

    def synchronize(self) -> None:
        """Launches have run when `replay` returns."""

    def load(self, compiled: CompiledKernel) -> InterpretedKernel:
        return InterpretedKernel(compiled, Interpreter(compiled.kernel))

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> HostRecording:
        recording = HostRecording(tuple(steps), tuple(views), tuple(rebindable), fault)
        self.replay(recording, bindings)
        return recording

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        assert isinstance(recording, HostRecording)
        views = list(recording.views)
        for position, view in zip(recording.rebindable, bindings, strict=True):
            views[position] = view
        for step in recording.steps:
            if isinstance(step, CopySpec):
                source = _moved(_at(views, step.source), step.source_offset)
                self.copy(source, _moved(_at(views, step.target), step.target_offset), step.nbytes)
            else:
                self._launch(step, views, recording.fault)

    def _launch(self, launch: LaunchSpec, views: Sequence[BufferView | None], fault: int) -> None:
        arguments: list[object] = []
        for slot, value, offset in launch_arguments(launch):
            if slot.kind == "buffer":
                arguments.append(_elements(_moved(_at(views, int(value)), offset), slot.dtype.dtype))
            elif slot.kind in BOUND_SLOTS:
                arguments.append(value)
        record = None if fault < 0 else _bytes(_at(views, fault), 4 * FAULT_WORDS).view(np.int32)
        loaded = launch.loaded
        assert isinstance(loaded, InterpretedKernel)
        loaded.interpreter.run(arguments, groups=launch.groups, fault=record, launch=launch.number)

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        times: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.replay(recording, bindings)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def _bytes(view: BufferView, nbytes: int) -> HostArray:
    assert isinstance(view.buffer, HostBuffer)
    return view.buffer.memory[view.offset : view.offset + nbytes]


def _elements(view: BufferView, dtype: np.dtype[Any]) -> Elements:
    """The whole buffer as elements that a view's first one is among; strides may lead to those before it."""
    first, start = divmod(view.offset, dtype.itemsize)
    size = view.buffer.nbytes - start
    return Elements(_bytes(BufferView(view.buffer, start), size - size % dtype.itemsize).view(dtype), first)


def _moved(view: BufferView, offset: int) -> BufferView:
    return BufferView(view.buffer, view.offset + offset)


def _at(views: Sequence[BufferView | None], position: int) -> BufferView:
    view = views[position]
    assert view is not None
    return view


def make_device(ordinal: int) -> InterpretDevice:
    """The interpreter; there is one."""
    if ordinal:
        raise DeviceUnavailableError(device=f"interpret:{ordinal}", message="there is one interpreter")
    return InterpretDevice()


def hardware() -> list[str]:
    """What the interpreter runs on."""
    return [f"NumPy {np.__version__}"]
