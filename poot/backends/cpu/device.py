"""The CPU as a device: native kernels, host memory, and recordings that run as one native call."""

from __future__ import annotations

import ctypes
import functools
import platform
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from poot.backends.cpu import language as _language  # registers the native language
from poot.backends.cpu.allocator import Allocator, Block
from poot.backends.cpu.control import Argument, Decision, flatten
from poot.backends.cpu.direct import DirectCall, DirectLaunch
from poot.backends.cpu.jit import LoadedObject, compile_object, host, load_object
from poot.backends.cpu.launches import Control, Launch, LaunchList
from poot.backends.cpu.pool import Pool, default_threads
from poot.backends.cpu.work import group_work, is_quick, is_steady, plan_chunks
from poot.backends.device import (
    Buffer,
    BufferView,
    CallLayout,
    ControlledStep,
    CopySpec,
    HostArray,
    LaunchSpec,
    RecordedStep,
    Recording,
    launch_arguments,
)
from poot.backends.host import data_address
from poot.backends.toolchain import CompiledKernel
from poot.dtypes import DType
from poot.errors import DeviceUnavailableError
from poot.target import Target

assert _language

_COPY_BLOCK: Final = 1 << 16
_COPY_IR: Final = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @poot_copy(ptr %args, i64 %begin, i64 %end) {{
  %target = load ptr, ptr %args
  %source.at = getelementptr i64, ptr %args, i64 1
  %source = load ptr, ptr %source.at
  %size.at = getelementptr i64, ptr %args, i64 2
  %size = load i64, ptr %size.at
  %first = mul i64 %begin, {_COPY_BLOCK}
  %past = mul i64 %end, {_COPY_BLOCK}
  %short = icmp ult i64 %size, %past
  %last = select i1 %short, i64 %size, i64 %past
  %count = sub i64 %last, %first
  %to = getelementptr i8, ptr %target, i64 %first
  %from = getelementptr i8, ptr %source, i64 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  ret void
}}
"""


_copies: list[LoadedObject] = []


@functools.cache
def _copy_object() -> LoadedObject:
    code = load_object(compile_object(_COPY_IR, what="copies"), ["poot_copy"])
    _copies.append(code)  # of several threads that come here first each gets its own, and recordings keep addresses
    return code


@dataclass(frozen=True, slots=True, eq=False)
class HostMemory:
    """A buffer over an array that somebody else owns."""

    array: HostArray
    address: int
    nbytes: int

    @property
    def read_only(self) -> bool:
        """Whether it is memory of the caller's that nobody may write."""
        return not self.array.flags.writeable


@dataclass(frozen=True, slots=True, eq=False)
class NativeKernel:
    """A compiled kernel in executable memory, with what one work-group of it has to do."""

    compiled: CompiledKernel
    code: LoadedObject
    function: int
    work: int
    steady: bool


@dataclass(slots=True, eq=False)
class NativeRecording:
    """Launches in native memory; `patches` gives, per rebindable position, words to set and byte offsets to add."""

    launches: LaunchList
    patches: tuple[tuple[tuple[int, int], ...], ...]
    keep: tuple[object, ...] = field(repr=False)


class CpuDevice:
    """The embedded default device."""

    def __init__(self) -> None:
        self.name = "cpu"
        self.target = Target.parse(f"cpu:{platform.machine().lower().replace('amd64', 'x86_64')}")
        self.allocator = Allocator()
        self.pool = Pool()

    # --- memory ---

    def allocate(self, nbytes: int) -> Block:
        return self.allocator.allocate(nbytes)

    def free(self, buffer: Buffer) -> None:
        if isinstance(buffer, Block):
            self.allocator.free(buffer)

    def write(self, view: BufferView, array: HostArray) -> None:
        if array.nbytes:
            ctypes.memmove(_address(view), array.ctypes.data, array.nbytes)

    def read(self, view: BufferView, out: HostArray) -> None:
        if out.nbytes:
            ctypes.memmove(out.ctypes.data, _address(view), out.nbytes)

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        if nbytes:
            ctypes.memmove(_address(target), _address(source), nbytes)

    def host_view(self, view: BufferView, nbytes: int) -> HostArray:
        if isinstance(view.buffer, HostMemory):
            memory = view.buffer.array.reshape(-1).view(np.uint8)
            return memory[view.offset : view.offset + nbytes]
        assert isinstance(view.buffer, Block)
        return view.buffer.view(np.uint8, nbytes, view.offset)

    def import_host(self, array: HostArray) -> HostMemory:
        return HostMemory(array, data_address(array), array.nbytes)

    def synchronize(self) -> None:
        """Launches have run when `replay` returns."""

    # --- kernels ---

    def load(self, compiled: CompiledKernel) -> NativeKernel:
        code = load_object(compiled.artifact, [compiled.entry], what=f"kernel {compiled.kernel.name}")
        kernel = compiled.kernel
        return NativeKernel(compiled, code, code.address(compiled.entry), group_work(kernel), is_steady(kernel))

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> NativeRecording:
        return self.record_control(steps, views, rebindable, bindings, fault)

    def record_control(
        self,
        steps: Sequence[ControlledStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> NativeRecording:
        patches: dict[int, list[tuple[int, int]]] = {position: [] for position in rebindable}
        places: list[tuple[int, int, int, int]] = []  # launch, argument, position, offset
        launches: list[Launch | Control] = []
        kernels: list[object] = []
        for number, step in enumerate(flatten(steps)):
            arguments = step.arguments if isinstance(step, Decision) else self._arguments(step, fault)
            places += [
                (number, index, item[0], item[1]) for index, item in enumerate(arguments) if isinstance(item, tuple)
            ]
            plain = tuple(0 if isinstance(item, tuple) else item for item in arguments)
            launches.append(step.control(plain) if isinstance(step, Decision) else self._launch(step, plain))
            if isinstance(step, LaunchSpec):
                kernels.append(step.loaded)
        memory = LaunchList(launches)
        for number, index, position, offset in places:
            view = views[position]
            if view is None:
                patches[position].append((memory.slot(number, index), offset))
            else:
                memory.set_argument(number, index, _address(view) + offset)
        fixed = tuple(view for view in views if view is not None)
        recording = NativeRecording(memory, tuple(tuple(patches[p]) for p in rebindable), (kernels, fixed))
        self.replay(recording, bindings)
        return recording

    def _arguments(self, step: RecordedStep, fault: int) -> Sequence[Argument]:
        """The slots of a launch: words, or a position of the table with a byte offset."""
        if isinstance(step, CopySpec):
            return [(step.target, step.target_offset), (step.source, step.source_offset), step.nbytes]
        arguments: list[Argument] = []
        for slot, value, offset in launch_arguments(step):
            if slot.kind == "buffer":
                arguments.append((int(value), offset))
            elif slot.kind == "fault":
                arguments.append(0 if fault < 0 else (fault, 0))
            else:
                arguments.append(_word(value, slot.dtype))
        return arguments

    def _launch(self, step: RecordedStep, arguments: tuple[int, ...]) -> Launch:
        if isinstance(step, CopySpec):
            code = _copy_object()
            blocks = -(-step.nbytes // _COPY_BLOCK)
            return Launch(code.address("poot_copy"), arguments, blocks, 4, inline=blocks < 16, quick=True)
        kernel = step.loaded
        assert isinstance(kernel, NativeKernel)
        groups = step.groups[0] * step.groups[1] * step.groups[2]
        grain, inline = plan_chunks(kernel.work, groups, self.pool.threads)
        quick = kernel.steady and is_quick(kernel.work, groups)
        return Launch(kernel.function, arguments, groups, grain, inline, quick)

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        assert isinstance(recording, NativeRecording)
        words = recording.launches.words
        for view, places in zip(bindings, recording.patches, strict=True):
            address = _address(view)
            for word, offset in places:
                words[word] = address + offset
        self.pool.call(recording.launches)

    # --- single launches on the host's own memory ---

    def address(self, view: BufferView) -> int:
        return _address(view)

    def direct(self, step: LaunchSpec) -> DirectLaunch:
        plain = tuple(0 if isinstance(item, tuple) else item for item in self._arguments(step, -1))
        return DirectLaunch(self._launch(step, plain), step.loaded.compiled.slots, self.pool.call)

    def direct_call(self, recording: Recording, layout: CallLayout) -> DirectCall:
        assert isinstance(recording, NativeRecording)
        return DirectCall(recording, recording.launches, recording.patches, layout, self.allocator, self.pool.call)

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        times: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.replay(recording, bindings)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def _address(view: BufferView) -> int:
    buffer = view.buffer
    assert isinstance(buffer, (Block, HostMemory))
    return buffer.address + view.offset


def _word(value: int | float, dtype: DType) -> int:
    """The bits of a scalar as an 8-byte slot holds them."""
    if dtype.is_float:
        data = np.asarray(value, dtype.dtype).tobytes()
        return int.from_bytes(data.ljust(8, b"\0"), "little")
    return struct.unpack("<Q", struct.pack("<q", int(value)))[0] if value < 0 else int(value)


def make_device(ordinal: int) -> CpuDevice:
    """The host's CPU; there is one."""
    if ordinal:
        raise DeviceUnavailableError(device=f"cpu:{ordinal}", message="there is one cpu device")
    return CpuDevice()


def hardware() -> list[str]:
    """The processor as LLVM knows it, and the threads of a pool."""
    return [f"{host().name}, {host().vector_bits}-bit vectors, {default_threads()} threads"]
