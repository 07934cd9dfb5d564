"""A wgpu adapter as a device: one command buffer and one submission a replay."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import itertools
import statistics
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poot.backends.device import Buffer, BufferView, CopySpec, HostArray, LaunchSpec, RecordedStep, Recording
from poot.backends.inherited import Inherited, require_process
from poot.backends.loss import require_alive
from poot.backends.progress import working
from poot.backends.spares import Spares, reclaim, size_class
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.backends.wgpu.adapter import adapter, adapters, open_adapter, wgpu
from poot.backends.wgpu.probe import float_features
from poot.backends.wgpu.recording import (
    BLOCK_WORDS,
    COPY_LANES,
    Command,
    Dispatch,
    Parameters,
    Pipeline,
    WgpuBuffer,
    WgpuKernel,
    copy_kernel,
    encoded,
    is_loss,
    why_lost,
)
from poot.backends.wgpu.transfers import guard, read_memory, submit, write_memory
from poot.dtypes import DType, u8, u32
from poot.errors import AllocationError, DeviceError, DeviceLostError, DeviceUnavailableError, PootError
from poot.kernel.ir import FAULT_WORDS
from poot.kernel.render.threads_text import ThreadsSource
from poot.target import Target

_SPARE_BYTES = 1 << 30
_KERNELS = 1024
_USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """A copy by words where everything is aligned to them, else by bytes."""

    words: Dispatch | None
    bytes: Dispatch

    def choose(self, table: Sequence[BufferView]) -> Dispatch:
        if self.words is None or any(table[place.position].offset % 4 for place in self.words.places):
            return self.bytes
        return self.words


@dataclass(slots=True, eq=False, weakref_slot=True)
class WgpuRecording:
    """Prepared launches and their parameters.

    `commands` are what the last replay encoded, pipeline, bind group and counts of each, for the views of `bound`.
    """

    steps: tuple[Dispatch | _Copy, ...]
    views: tuple[BufferView | None, ...]
    rebindable: tuple[int, ...]
    params: Parameters
    bound: tuple[tuple[int, int], ...] | None = None
    commands: tuple[Command, ...] = ()


class WgpuDevice:
    """One adapter."""

    submits_whole = True  # a replay is one submission

    def __init__(self, name: str, ordinal: int) -> None:
        self.name = name
        self.lost: str | None = None
        self.forked = False
        chosen = adapter(ordinal)
        self._device, self.target = _opened(name, chosen)
        #: Whether the driver compiles a pipeline when it is first launched, as those that run on the CPU do.
        self._compiles_late = chosen.info["adapter_type"] == "CPU"
        self._queue = self._device.queue
        self._limits = dict(self.target.limits)
        self._largest = self._device.limits["max-buffer-size"]
        self._spares: Spares[tuple[Any, int]] = Spares(_SPARE_BYTES)
        self._serials = itertools.count(1)
        self._memories: dict[int, object] = {}
        self._kernels: OrderedDict[str, WgpuKernel] = OrderedDict()
        self._lock = threading.RLock()
        self._freed: deque[WgpuBuffer] = deque()
        self._staged = 0
        self._inherited = Inherited(self)
        self._no_fault = BufferView(self.allocate(4 * FAULT_WORDS))

    @contextlib.contextmanager
    def _using(self, what: str) -> Iterator[None]:
        """Hold the device; errors of wgpu become DeviceErrors."""
        require_process(self)
        try:
            with self._lock:
                require_alive(self)
                try:
                    yield
                except Exception as error:
                    self._explain(what, error)
                    raise
        finally:
            self._reclaim()

    def _explain(self, what: str, error: Exception) -> None:
        """DeviceLostError for an error of a device that is gone, DeviceError for any other of wgpu's.

        While a device is going, wgpu may fail anywhere, with any exception: the device itself is asked.
        """
        cause = error.__cause__ if isinstance(error, PootError) else error
        if cause is None or isinstance(error, DeviceLostError):
            return
        if is_loss(cause) or not self._answers():
            self._lose(f"{what}: {why_lost(cause)}")
            raise DeviceLostError(device=self.name, message=self.lost) from cause
        if isinstance(error, (wgpu.GPUError, wgpu.GPUPipelineError, RuntimeError)) and cause is error:
            raise DeviceError(device=self.name, message=f"{what}: {error}") from error

    def _answers(self) -> bool:
        """Whether the device still gives what it holds."""
        try:
            self._fetch(_buffer(self._no_fault), 0, 4)
        except MemoryError:  # that of the host, or wgpu's
            return True
        except Exception:
            return False
        return True

    def _lose(self, message: str) -> None:
        """Nothing works from here on: let go of what nobody else holds."""
        self.lost = message
        self._freed.clear()
        self._spares.clear()
        self._kernels.clear()

    # --- memory ---

    def allocate(self, nbytes: int) -> WgpuBuffer:
        size = size_class(nbytes)
        with self._using("allocation"):
            kept = self._spares.take(size)
            if kept is not None:
                return self._given(WgpuBuffer(kept[0], kept[1], nbytes, size))
            if size > self._largest:
                message = f"the largest buffer has {self._largest} bytes"
                raise AllocationError(nbytes=nbytes, device=self.name, message=message)
            try:
                memory = self._device.create_buffer(size=size, usage=_USAGE)
            except (wgpu.GPUOutOfMemoryError, wgpu.GPUValidationError) as error:
                if is_loss(error):
                    raise
                raise AllocationError(nbytes=nbytes, device=self.name, message=str(error)) from error
            return self._given(WgpuBuffer(memory, next(self._serials), nbytes, size))

    def _given(self, buffer: WgpuBuffer) -> WgpuBuffer:
        """Know of a buffer until it is freed, or collected.

        In a cycle of garbage the finalisers of all objects run, so that an array's gives memory back which wgpu's own
        has released, or will.  Weak references are told before any of them, and such memory is not used again.
        """
        self._inherited.note(buffer)
        known, serial = self._memories, buffer.serial
        known[serial] = weakref.ref(buffer, lambda _: known.pop(serial, None))
        return buffer

    def free(self, buffer: Buffer) -> None:
        assert isinstance(buffer, WgpuBuffer)
        if self.forked or self.lost is not None:
            return
        if self._memories.pop(buffer.serial, None) is not None:
            buffer.freed = True
            self._freed.append(buffer)
            self._reclaim()

    def _reclaim(self) -> None:
        reclaim(self._freed, self._lock, self._take_in)

    def _take_in(self, buffer: WgpuBuffer) -> None:
        for memory, _ in self._spares.give(buffer.size, (buffer.memory, buffer.serial)):
            with contextlib.suppress(Exception):  # of a device that is going: the next call says so
                memory.destroy()

    def write(self, view: BufferView, array: HostArray) -> None:
        if not array.nbytes:
            return
        with self._using("write"):
            buffer = _buffer(view)
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            start, end = view.offset, view.offset + data.nbytes
            low, high = start // 4 * 4, -(-end // 4) * 4
            if (low, high) != (start, end):
                data = self._whole_words(buffer, data, start, low, high)
            self._staged = write_memory(self._device, self._queue, buffer.memory, low, data, self._staged)

    def _whole_words(self, buffer: WgpuBuffer, data: HostArray, start: int, low: int, high: int) -> HostArray:
        """The bytes with those that share a word with the first and last of them."""
        end = start + data.nbytes
        words = np.zeros(high - low, np.uint8)
        if low != start:
            words[:4] = self._fetch(buffer, low, low + 4)
        if high != end and end < buffer.nbytes:
            words[-4:] = self._fetch(buffer, high - 4, high)
        words[start - low : end - low] = data
        return words

    def read(self, view: BufferView, out: HostArray) -> None:
        if not out.nbytes:
            return
        with self._using("read"):
            start, end = view.offset, view.offset + out.nbytes
            low = start // 4 * 4
            found = self._fetch(_buffer(view), low, -(-end // 4) * 4)
            out.reshape(-1).view(np.uint8)[...] = found[start - low : end - low]

    def _fetch(self, buffer: WgpuBuffer, low: int, high: int) -> HostArray:
        """Bytes of a buffer once the work on it is done; bounds are multiples of 4."""
        return read_memory(self._device, self._queue, buffer.memory, low, high - low)

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        self.record([CopySpec(0, 1, nbytes)], [source, target], (), ())

    def host_view(self, view: BufferView, nbytes: int) -> None:
        """The host cannot address the memory."""

    def import_host(self, array: HostArray) -> None:
        """The device cannot address the host's memory."""

    def synchronize(self) -> None:
        with self._using("synchronize"):
            self._fetch(_buffer(self._no_fault), 0, 4)

    # --- kernels ---

    def load(self, compiled: CompiledKernel) -> WgpuKernel:
        source = compiled.artifact
        assert isinstance(source, ThreadsSource)
        with self._using(f"load of kernel {compiled.kernel.name}"):
            kernel = self._kernels.pop(source.text, None)
            if kernel is None or kernel.compiled is not compiled:
                kernel = WgpuKernel(self._device, compiled)
                self._inherited.note(kernel)
            self._kernels[source.text] = kernel  # now the one that was used last
            if len(self._kernels) > _KERNELS:
                self._kernels.popitem(last=False)
            return kernel

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> WgpuRecording:
        table = [*views, self._no_fault]
        position = len(views) if fault < 0 else fault
        with self._using("record"):
            prepared: list[Dispatch | _Copy] = []
            blocks = 0
            for step in steps:
                if isinstance(step, CopySpec):
                    made = self._prepare_copy(step, table, blocks)
                    blocks += 2
                elif 0 in step.groups:
                    continue
                else:
                    made = self._prepare(step, position, blocks)
                    blocks += made.blocks
                prepared.append(made)
            words = np.zeros(max(blocks, 1) * BLOCK_WORDS, np.uint32)
            for step in prepared:
                for dispatch in (step,) if isinstance(step, Dispatch) else (step.words, step.bytes):
                    for word, value in () if dispatch is None else dispatch.values:
                        words[word] = value
            params = Parameters(self._device, words)
            recording = WgpuRecording(tuple(prepared), tuple(table), tuple(rebindable), params)
            self._inherited.note(recording)
        self.replay(recording, bindings)
        return recording

    def _prepare(self, launch: LaunchSpec, fault: int, block: int) -> Dispatch:
        kernel = launch.loaded
        assert isinstance(kernel, WgpuKernel)
        return Dispatch(kernel, launch, block * BLOCK_WORDS, fault, self._limits["dispatch"])

    def _prepare_copy(self, step: CopySpec, table: Sequence[BufferView | None], block: int) -> _Copy:
        numbers = (step.nbytes, step.source_offset, step.target_offset)
        aligned = not any(number % 4 for number in numbers)
        words = self._copy_launch(u32, step, block) if aligned else None
        return _Copy(words, self._copy_launch(u8, step, block + 1))

    def _copy_launch(self, dtype: DType, step: CopySpec, block: int) -> Dispatch:
        count = step.nbytes // dtype.itemsize
        kernel = self.load(compile_kernel(copy_kernel(dtype), self.target))
        buffers = ((step.source, step.source_offset), (step.target, step.target_offset))
        groups = (-(-count // COPY_LANES), 1, 1)
        return self._prepare(LaunchSpec(kernel, buffers, groups, (count, count, count)), -1, block)

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        assert isinstance(recording, WgpuRecording)
        if not recording.steps:
            return
        with self._using("launch"):
            self._bind(recording, bindings)
            submit(self._device, self._queue, encoded(self._device, recording.commands))

    def _bind(self, recording: WgpuRecording, bindings: Sequence[BufferView]) -> None:
        """Make the commands and parameters for some bindings, unless the last ones were the same."""
        bound = tuple([(_buffer(view).serial, view.offset) for view in bindings])
        if bound == recording.bound:
            return
        recording.bound = None
        table: list[Any] = list(recording.views)
        for position, view in zip(recording.rebindable, bindings, strict=True):
            table[position] = view
        limit = self._limits["binding_bytes"]
        commands: list[Command] = []
        fresh: dict[int, tuple[Pipeline, Any]] = {}
        for step in recording.steps:
            dispatch = step if isinstance(step, Dispatch) else step.choose(table)
            pipeline, group = dispatch.bind(self._device, table, recording.params, limit)
            commands.append((pipeline.made, group, dispatch.counts))
            if self._compiles_late and not pipeline.launched:
                fresh[id(pipeline)] = pipeline, group
        if fresh:
            self._start(list(fresh.values()))
            self._bind(recording, bindings)  # a signal's handler may have bound others meanwhile
            return
        recording.params.upload(self._queue)
        recording.commands, recording.bound = tuple(commands), bound

    def _start(self, fresh: Sequence[tuple[Pipeline, Any]]) -> None:
        """Have the driver compile: a launch of no work-groups does, and whatever ends this, no step has run."""
        with working("starting", len(fresh), "kernels") as work:
            for pipeline, group in fresh:
                submit(self._device, self._queue, encoded(self._device, [(pipeline.made, group, (0, 0, 0))]))
                self._fetch(_buffer(self._no_fault), 0, 4)
                pipeline.launched = True
                work.advance()

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        times: list[float] = []
        self.synchronize()
        for _ in range(repeats):
            start = time.perf_counter()
            self.replay(recording, bindings)
            self.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def _buffer(view: BufferView) -> WgpuBuffer:
    assert isinstance(view.buffer, WgpuBuffer)
    return view.buffer


def make_device(ordinal: int) -> WgpuDevice:
    """The device of that number; DeviceUnavailableError says what is missing."""
    return WgpuDevice(f"wgpu:{ordinal}" if ordinal else "wgpu", ordinal)


def _opened(name: str, chosen: Any) -> tuple[Any, Target]:
    """An adapter's device and target; DeviceUnavailableError for whatever wgpu raises."""
    try:
        device, target = open_adapter(chosen)
        guard(device)
        return device, replace(target, features=target.features | float_features(device, target.dtypes))
    except Exception as error:
        raise DeviceUnavailableError(device=name, message=str(error)) from error


def hardware() -> list[str]:
    """Each adapter with its kind, the interface that it is reached by, and its driver."""
    found = [each.info for each in adapters()]
    return [f"{i['device']} ({i['adapter_type']}, {i['backend_type']}, driver {i['description']})" for i in found]
