# pyright: basic
"""An NVIDIA GPU as a device: memory from CuPy's pool, work on the current stream, recordings as CUDA graphs.

A recording with fixed views is one graph; one that is rebound at each replay keeps prepared argument arrays, patches
the pointers that change, and launches kernel after kernel.  Everything is enqueued on the calling thread's current CuPy
stream, so that it keeps its order with the framework's own work.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from poot.backends.cuda import language as _language  # registers the languages
from poot.backends.cuda.code import CudaCode
from poot.backends.cuda.launches import Launch, LoadedKernel, fold, scratch_bytes, word
from poot.backends.device import (
    Buffer,
    BufferView,
    CopySpec,
    HostArray,
    RecordedStep,
    Recording,
    launch_arguments,
)
from poot.backends.toolchain import CompiledKernel
from poot.errors import AllocationError, CompileError, DeviceError, DeviceUnavailableError
from poot.target import Language, Target

assert _language

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_SHARED = 48 << 10
_HOST_MEMORY = 1  # cudaMemoryTypeHost


@dataclass(frozen=True, slots=True, eq=False)
class CudaMemory:
    """A span of the GPU's memory; the pool takes it back when the last reference to `memory` goes."""

    address: int
    nbytes: int
    memory: Any = field(repr=False)


@dataclass(slots=True, eq=False)
class CudaRecording:
    """A graph, or launches and copies with `patches`: per rebindable position, (step, word, byte offset)."""

    steps: tuple[Launch | list[int], ...]
    patches: tuple[tuple[tuple[int, int, int], ...], ...]
    graph: Any
    keep: tuple[object, ...] = field(repr=False)


class _Bound(threading.local):
    """Whether the calling thread has the GPU's context."""

    here = False


class _Here:
    """A block of calls to CUDA; as a class it costs a call half of what a generator does."""

    __slots__ = ("_before", "_device", "_what")

    def __init__(self, device: CudaDevice, what: str) -> None:
        self._device = device
        self._what = what
        self._before = -1

    def __enter__(self) -> Any:
        device = self._device
        device.require_process()
        cuda = device.cupy.cuda
        try:
            self._before = cuda.runtime.getDevice()
            if self._before != device.ordinal or not device.bound.here:
                cuda.runtime.setDevice(device.ordinal)
            if not device.bound.here:
                cuda.runtime.free(0)  # makes the context, which driver calls of this thread need
                device.bound.here = True
            return cuda.get_current_stream()
        except cuda.runtime.CUDARuntimeError as error:
            raise self._error(error) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        device = self._device
        cuda = device.cupy.cuda
        if self._before != device.ordinal:
            cuda.runtime.setDevice(self._before)
        if isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)):
            raise self._error(error) from error

    def _error(self, error: object) -> DeviceError:
        return DeviceError(device=self._device.name, message=f"{self._what}: {error}")


class CudaDevice:
    """One GPU.  `with_language` gives the same GPU with another order of languages."""

    submits_whole = True  # the recording of an entry, whose views are all fixed, is one graph

    def __init__(self, ordinal: int, cupy: Any, target: Target) -> None:
        self.name = f"cuda:{ordinal}" if ordinal else "cuda"
        self.ordinal = ordinal
        self.target = target
        self.cupy = cupy
        self._driver = cupy.cuda.driver
        self.bound = _Bound()
        self._pid = os.getpid()

    def with_language(self, language: Language) -> CudaDevice:
        """This GPU, compiling for `language` where it can."""
        languages = (language, *(other for other in self.target.languages if other != language))
        return CudaDevice(self.ordinal, self.cupy, replace(self.target, languages=languages))

    # --- context and errors ---

    def _here(self, what: str) -> _Here:
        """This GPU current, with CUDA's errors as DeviceErrors; gives the current stream."""
        return _Here(self, what)

    def require_process(self) -> None:
        """DeviceError in a process that was forked from the one that opened the device."""
        if os.getpid() != self._pid:
            raise DeviceError(
                device=self.name,
                message="it was opened before a fork, and CUDA does not survive one",
                remedy="open it in the child process, or start that with the spawn method.",
            )

    # --- memory ---

    def allocate(self, nbytes: int) -> CudaMemory:
        try:
            with self._here("allocation"):
                memory = self.cupy.cuda.alloc(max(nbytes, 1))
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise AllocationError(nbytes=nbytes, device=self.name, message=str(error)) from error
        return CudaMemory(memory.ptr, nbytes, memory)

    def free(self, buffer: Buffer) -> None:
        """The pool reuses memory in the order of the stream, once nothing refers to it."""

    def write(self, view: BufferView, array: HostArray) -> None:
        if not array.nbytes:
            return
        runtime = self.cupy.cuda.runtime
        with self._here("copy to the device") as stream:
            runtime.memcpyAsync(_address(view), array.ctypes.data, array.nbytes, runtime.memcpyHostToDevice, stream.ptr)
            # CUDA has read pageable memory when the call returns, but not memory that is pinned.
            if runtime.pointerGetAttributes(array.ctypes.data).type == _HOST_MEMORY:
                stream.synchronize()

    def read(self, view: BufferView, out: HostArray) -> None:
        if not out.nbytes:
            return
        runtime = self.cupy.cuda.runtime
        with self._here("copy from the device") as stream:
            runtime.memcpyAsync(out.ctypes.data, _address(view), out.nbytes, runtime.memcpyDeviceToHost, stream.ptr)
            stream.synchronize()

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        if nbytes:
            with self._here("copy") as stream:
                self._copy(_address(source), _address(target), nbytes, stream.ptr)

    def _copy(self, source: int, target: int, nbytes: int, stream: int) -> None:
        runtime = self.cupy.cuda.runtime
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream)

    def host_view(self, view: BufferView, nbytes: int) -> HostArray | None:
        return None

    def import_host(self, array: HostArray) -> CudaMemory | None:
        return None

    def synchronize(self) -> None:
        with self._here("waiting for the device") as stream:
            stream.synchronize()

    # --- kernels ---

    def load(self, compiled: CompiledKernel) -> LoadedKernel:
        code = compiled.artifact
        assert isinstance(code, CudaCode)
        try:
            with self._here("loading a kernel"):
                module = self.cupy.cuda.function.Module()
                module.load(code.image)
                function = module.get_function(code.entry)
                if code.shared > _STATIC_SHARED:
                    self._driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, code.shared)
        except DeviceError as error:
            what = f"kernel {compiled.kernel.name}"
            raise CompileError(what=what, target=self.target, message=str(error)) from error
        return LoadedKernel(compiled, code, module, function)

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> CudaRecording:
        patches: dict[int, list[tuple[int, int, int]]] = {position: [] for position in rebindable}
        prepared: list[Launch | list[int]] = []
        with self._here("recording"):
            for step in steps:
                made, places = self._prepare(step, fault)
                if isinstance(made, Launch) and made.empty:
                    continue
                for place, position, offset in places:
                    view = views[position]
                    if view is None:
                        patches[position].append((len(prepared), place, offset))
                    else:
                        _patch(made, place, _address(view) + offset)
                prepared.append(made)
            table = tuple(tuple(patches[position]) for position in rebindable)
            keep = tuple(view for view in views if view is not None)
            recording = CudaRecording(tuple(prepared), table, None, keep)
            if not any(table) and prepared:
                recording.graph = self._graph(recording)
        self.replay(recording, bindings)
        return recording

    def _prepare(self, step: RecordedStep, fault: int) -> tuple[Launch | list[int], list[tuple[int, int, int]]]:
        """A step, and its words that are addresses: (word, position of the table, byte offset)."""
        if isinstance(step, CopySpec):
            return [0, 0, step.nbytes], [(0, step.source, step.source_offset), (1, step.target, step.target_offset)]
        kernel = step.loaded
        assert isinstance(kernel, LoadedKernel)
        words: list[int] = []
        places: list[tuple[int, int, int]] = []
        for slot, value, offset in launch_arguments(step):
            if slot.kind == "buffer":
                places.append((len(words), int(value), offset))
                words.append(0)
            elif slot.kind == "fault":
                if fault >= 0:
                    places.append((len(words), fault, 0))
                words.append(0)
            else:
                words.append(word(value, slot.dtype))
        grid = fold(step.groups, kernel.compiled.kernel.name)
        scratch = None
        hidden = [0] * kernel.code.hidden
        if kernel.code.scratch and hidden:
            scratch = self.cupy.cuda.alloc(scratch_bytes(kernel, grid) + kernel.code.scratch_align)
            hidden[0] = -(-scratch.ptr // kernel.code.scratch_align) * kernel.code.scratch_align
        return Launch(kernel, grid, np.array([*words, *hidden], np.uint64), scratch), places

    def _graph(self, recording: CudaRecording) -> Any:
        """The steps captured on a stream of their own: the default stream cannot be."""
        stream = self.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                self._enqueue(recording, stream.ptr)
            except BaseException:
                with contextlib.suppress(Exception):  # the capture is void, and its own error says less
                    stream.end_capture()
                raise
            return stream.end_capture()

    def _enqueue(self, recording: CudaRecording, stream: int) -> None:
        for step in recording.steps:
            if isinstance(step, Launch):
                step(self._driver, stream)
            else:
                source, target, nbytes = step
                self._copy(source, target, nbytes, stream)

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        assert isinstance(recording, CudaRecording)
        with self._here("launch") as stream:
            self._replay(recording, bindings, stream)

    def _replay(self, recording: CudaRecording, bindings: Sequence[BufferView], stream: Any) -> None:
        if recording.graph is not None:
            recording.graph.launch(stream)
            return
        steps = recording.steps
        for view, places in zip(bindings, recording.patches, strict=True):
            address = _address(view)
            for number, place, offset in places:
                _patch(steps[number], place, address + offset)
        self._enqueue(recording, stream.ptr)

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        times: list[float] = []
        assert isinstance(recording, CudaRecording)
        with self._here("timing") as stream:
            event = self.cupy.cuda.Event
            for _ in range(repeats):
                start, end = event(), event()
                start.record(stream)
                self._replay(recording, bindings, stream)
                end.record(stream)
                end.synchronize()
                times.append(self.cupy.cuda.get_elapsed_time(start, end) / 1000)
        return statistics.median(times)


def _patch(step: Launch | list[int], place: int, address: int) -> None:
    if isinstance(step, Launch):
        step.words[place] = address
    else:
        step[place] = address


def _address(view: BufferView) -> int:
    buffer = view.buffer
    assert isinstance(buffer, CudaMemory)
    return buffer.address + view.offset


# --- opening --------------------------------------------------------------------------------------------------------


def make_device(ordinal: int) -> CudaDevice:
    """The GPU of this number; DeviceUnavailableError says what is missing and which command would mend it."""
    name = f"cuda:{ordinal}" if ordinal else "cuda"
    try:
        import cupy  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise DeviceUnavailableError(
            device=name, message=f"CuPy cannot be imported ({error})", remedy="run `pip install 'poot[cuda]'`."
        ) from error
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise DeviceUnavailableError(
            device=name,
            message=f"the driver does not answer ({error})",
            remedy="run `nvidia-smi`; if it fails, install or update the NVIDIA driver.",
        ) from error
    if ordinal >= count:
        raise DeviceUnavailableError(
            device=name,
            message=f"there are {count} GPUs, numbered from 0",
            remedy="run `nvidia-smi -L` to list them; CUDA_VISIBLE_DEVICES may hide some.",
        )
    with cupy.cuda.Device(ordinal) as device:
        return CudaDevice(ordinal, cupy, queried_target(device.attributes, device.compute_capability))


def queried_target(attributes: Any, capability: str) -> Target:
    """The target of a GPU: the newest architecture that it runs, with the limits that it states."""
    known = [80, 86, 89, 90, 100, 120]
    number = int(capability)
    usable = [sm for sm in known if sm <= number and sm // 10 == number // 10]
    if not usable:
        raise DeviceUnavailableError(
            device="cuda",
            message=f"there is no code generator for compute capability {number / 10}",
            remedy="use a GPU of compute capability 8.0 to 12.x.",
        )
    limits = {
        "workgroup_invocations": int(attributes["MaxThreadsPerBlock"]),
        "workgroup_storage": int(attributes["MaxSharedMemoryPerBlockOptin"]),
    }
    return Target.parse(f"cuda:sm_{usable[-1]}").replace_limits(**limits)
