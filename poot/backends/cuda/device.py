# pyright: basic
"""An NVIDIA GPU as a device: memory from CuPy's pool, work on the current stream, recordings as CUDA graphs.

A recording with fixed views is one graph; one that is rebound at each replay keeps its launches in native memory,
patches the pointers that change, and enqueues all of them in one call.  Everything is enqueued on the calling thread's
current CuPy stream, so that it keeps its order with the framework's own work.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from poot.backends.cuda import language as _language  # registers the languages
from poot.backends.cuda.code import CudaCode
from poot.backends.cuda.direct import DirectCall
from poot.backends.cuda.driver import STREAM_WORD, Driver, open_driver
from poot.backends.cuda.hardware import hardware as hardware
from poot.backends.cuda.hardware import nvidia_driver
from poot.backends.cuda.interop import Interop
from poot.backends.cuda.launches import LoadedKernel, StepList
from poot.backends.cuda.memory import RECORD_BYTES, CudaMemory, FaultRecord, Reserve, address_of
from poot.backends.cuda.recording import CudaRecording, lay_out
from poot.backends.device import (
    Buffer,
    BufferView,
    CallLayout,
    HostArray,
    RecordedStep,
    Recording,
)
from poot.backends.inherited import ask_driver, driver_absent, require_process
from poot.backends.packages import mend_import
from poot.backends.toolchain import CompiledKernel
from poot.errors import AllocationError, CompileError, DeviceError, DeviceLostError, DeviceUnavailableError
from poot.target import Language, Target

assert _language

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_SHARED = 48 << 10
_HOST_MEMORY = 1  # cudaMemoryTypeHost
#: Results after which the process can do nothing more on the GPU: uncorrectable memory errors, faults of a kernel
#: (addresses, instructions, stack, assertions, time), a context that is gone.
_STICKY = frozenset({214, 700, 702, 709, 710, *range(714, 720)})
#: From this many steps on a recording with fixed views is a graph; fewer are put on the stream as quickly one by one.
_GRAPH_STEPS = 4


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
        if device.forked:
            require_process(device)
        cuda = device.cupy.cuda
        try:
            self._before = cuda.runtime.getDevice()
            if self._before != device.ordinal or not device.bound.here:
                cuda.runtime.setDevice(device.ordinal)
            if not device.bound.here:
                cuda.runtime.free(0)  # makes the context, which driver calls of this thread need
                device.context = device.driver.current_context()
                device.bound.here = True
            return cuda.get_current_stream()
        except cuda.runtime.CUDARuntimeError as error:
            raise self._error(error) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        device = self._device
        cuda = device.cupy.cuda
        try:
            if self._before != device.ordinal:
                cuda.runtime.setDevice(self._before)
        except cuda.runtime.CUDARuntimeError as failure:
            raise self._error(failure) from (error or failure)
        if isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)):
            raise self._error(error) from error

    def _error(self, error: object) -> DeviceError:
        return self._device.failed(self._what, error)


class CudaDevice:
    """One GPU.  `with_language` gives the same GPU with another order of languages."""

    launches_whole = True  # what has been enqueued runs

    def __init__(self, ordinal: int, cupy: Any, target: Target, driver: Driver, twin: CudaDevice | None = None) -> None:
        self.name = f"cuda:{ordinal}" if ordinal else "cuda"
        self.ordinal = ordinal
        self.target = target
        self.cupy = cupy
        self.driver = driver
        self.context = 0
        self.bound = _Bound()
        self.reserve = twin.reserve if twin else Reserve(cupy)
        #: What devices that use one another's memory have in common.
        self.space: object = self.reserve
        self.sharing = Interop(self)
        self.forked = False
        #: The current stream of the calling thread, on this GPU.
        self.current_stream: Callable[[], Any] = functools.partial(cupy.cuda.get_current_stream, ordinal)
        _opened.add(self)

    def with_language(self, language: Language) -> CudaDevice:
        """This GPU, compiling for `language` where it can."""
        languages = (language, *(other for other in self.target.languages if other != language))
        return CudaDevice(self.ordinal, self.cupy, replace(self.target, languages=languages), self.driver, self)

    # --- context and errors ---

    def here(self, what: str) -> _Here:
        """This GPU current, with CUDA's errors as DeviceErrors; gives the current stream."""
        return _Here(self, what)

    def refuse(self, what: str, result: int) -> NoReturn:
        """DeviceError for a result of the driver that is not success."""
        error = self.cupy.cuda.driver.CUDADriverError(result)
        raise self.failed(what, error) from error

    def failed(self, what: str, error: object) -> DeviceError:
        """The error for one of CUDA's."""
        message = f"{what}: {error}"
        if getattr(error, "status", None) not in _STICKY:
            return DeviceError(device=self.name, message=message)
        remedy = "start the process anew: CUDA does nothing more in one that has seen this error."
        return DeviceLostError(device=self.name, message=message, remedy=remedy)

    # --- memory ---

    def allocate(self, nbytes: int) -> CudaMemory:
        try:
            with self.here("allocation") as stream:
                return self.reserve.take(stream, nbytes)
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise AllocationError(nbytes=nbytes, device=self.name, message=str(error)) from error

    def clear_records(self) -> FaultRecord:
        """A cleared fault record for work on the current stream, and more of them in the reserve."""
        try:
            with self.here("clearing fault records") as stream:
                return self.reserve.clear_records(stream)
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise AllocationError(nbytes=RECORD_BYTES, device=self.name, message=str(error)) from error

    def free(self, buffer: Buffer) -> None:
        """Memory is used again in the order of its stream, once nothing refers to it."""

    def write(self, view: BufferView, array: HostArray) -> None:
        if not array.nbytes:
            return
        runtime = self.cupy.cuda.runtime
        with self.here("copy to the device") as stream:
            runtime.memcpyAsync(
                address_of(view), array.ctypes.data, array.nbytes, runtime.memcpyHostToDevice, stream.ptr
            )
            # CUDA has read pageable memory when the call returns, but not memory that is pinned.
            if runtime.pointerGetAttributes(array.ctypes.data).type == _HOST_MEMORY:
                stream.synchronize()

    def read(self, view: BufferView, out: HostArray) -> None:
        if not out.nbytes:
            return
        runtime = self.cupy.cuda.runtime
        with self.here("copy from the device") as stream:
            runtime.memcpyAsync(out.ctypes.data, address_of(view), out.nbytes, runtime.memcpyDeviceToHost, stream.ptr)
            stream.synchronize()

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        if nbytes:
            with self.here("copy") as stream:
                self._copy(address_of(source), address_of(target), nbytes, stream.ptr)

    def _copy(self, source: int, target: int, nbytes: int, stream: int) -> None:
        runtime = self.cupy.cuda.runtime
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream)

    def host_view(self, view: BufferView, nbytes: int) -> HostArray | None:
        return None

    def import_host(self, array: HostArray) -> CudaMemory | None:
        return None

    def synchronize(self) -> None:
        with self.here("waiting for the device") as stream:
            stream.synchronize()

    # --- kernels ---

    def load(self, compiled: CompiledKernel) -> LoadedKernel:
        code = compiled.artifact
        assert isinstance(code, CudaCode)
        try:
            with self.here("loading a kernel"):
                module = self.cupy.cuda.function.Module()
                module.load(code.image)
                function = module.get_function(code.entry)
                if code.shared > _STATIC_SHARED:
                    self.cupy.cuda.driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, code.shared)
        except DeviceLostError:
            raise
        except DeviceError as error:
            what = f"kernel {compiled.kernel.name}"
            raise CompileError(what=what, target=self.target, message=error.summary) from error
        return LoadedKernel(compiled, code, module, function)

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> CudaRecording:
        with self.here("recording") as stream:
            recording = lay_out(self, stream, steps, views, rebindable, fault)
            if len(recording.steps) >= _GRAPH_STEPS and not any(recording.patches):
                recording.graph = self._graph(recording)
        self.replay(recording, bindings)
        return recording

    def _graph(self, recording: CudaRecording) -> Any:
        """The steps captured on a stream of their own: the default stream cannot be."""
        stream = self.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                self._enqueue(recording.list, stream)
            except BaseException:
                with contextlib.suppress(Exception):  # the capture is void, and its own error says less
                    stream.end_capture()
                raise
            return stream.end_capture()

    def _enqueue(self, steps: StepList, stream: Any) -> None:
        steps.words[STREAM_WORD] = stream.ptr
        result = self.driver.enqueue(steps.call)
        if result:
            self.refuse("launch", result)

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        assert isinstance(recording, CudaRecording)
        with self.here("launch") as stream:
            self._replay(recording, bindings, stream)

    def _replay(self, recording: CudaRecording, bindings: Sequence[BufferView], stream: Any) -> None:
        if recording.graph is not None:
            recording.graph.launch(stream)
            return
        steps = recording.list
        for view, patches in zip(bindings, recording.patches, strict=True):
            address = address_of(view)
            for slot, offset in patches:
                steps.words[slot] = address + offset
        self._enqueue(steps, stream)

    def direct_call(self, recording: Recording, layout: CallLayout) -> DirectCall:
        assert isinstance(recording, CudaRecording)
        with self.here("preparing a call"):
            return DirectCall(self, recording, layout)

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        times: list[float] = []
        assert isinstance(recording, CudaRecording)
        with self.here("timing") as stream:
            event = self.cupy.cuda.Event
            for _ in range(repeats):
                start, end = event(), event()
                start.record(stream)
                self._replay(recording, bindings, stream)
                end.record(stream)
                end.synchronize()
                times.append(self.cupy.cuda.get_elapsed_time(start, end) / 1000)
        return statistics.median(times)


_opened: weakref.WeakSet[CudaDevice] = weakref.WeakSet()


def _after_fork() -> None:
    for device in list(_opened):
        device.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- opening --------------------------------------------------------------------------------------------------------


def make_device(ordinal: int) -> CudaDevice:
    """The GPU of this number; DeviceUnavailableError says what is missing and which command would mend it."""
    name = f"cuda:{ordinal}" if ordinal else "cuda"
    try:
        import cupy  # pyright: ignore[reportMissingImports]
    except (ImportError, OSError) as error:
        driver = nvidia_driver()
        known = f"the NVIDIA driver is {driver}" if driver else "there is no NVIDIA driver"
        raise DeviceUnavailableError(
            device=name,
            message=f"CuPy cannot be imported ({error}); {known}",
            remedy=mend_import("cuda")
            if driver
            else f"{mend_import('cuda').rstrip('.') or 'do so'}, on a machine with an NVIDIA GPU and its driver.",
        ) from error
    ask_driver("cuda")
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        driver_absent("cuda")
        raise DeviceUnavailableError(
            device=name,
            message=f"the driver does not answer ({error}); it is {nvidia_driver() or 'not loaded'}",
            remedy="run `nvidia-smi`; if it fails, install or update the NVIDIA driver.",
        ) from error
    if not count:
        driver_absent("cuda")
    if ordinal >= count:
        raise DeviceUnavailableError(
            device=name,
            message=f"there are {count} GPUs, numbered from 0",
            remedy="run `nvidia-smi -L` to list them; CUDA_VISIBLE_DEVICES may hide some.",
        )
    with cupy.cuda.Device(ordinal) as device:
        target = queried_target(device.attributes, device.compute_capability)
        return CudaDevice(ordinal, cupy, target, open_driver())


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
