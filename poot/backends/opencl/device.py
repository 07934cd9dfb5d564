"""OpenCL devices: programs in OpenCL C 1.2, prepared kernels with their arguments set, one in-order queue.

On CPU devices buffers lie over host memory, which NumPy shares without a copy.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import statistics
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from poot import forks
from poot.backends.device import (
    Buffer,
    BufferView,
    CopySpec,
    HostArray,
    RecordedStep,
    Recording,
)
from poot.backends.inherited import Inherited, require_process
from poot.backends.loss import require_alive
from poot.backends.opencl.arguments import launched_groups
from poot.backends.opencl.platform import cl, devices, is_loss, is_suspect, target
from poot.backends.opencl.recording import (
    ClBuffer,
    ClKernel,
    ClProgram,
    ClRecording,
    Launch,
    aligned,
    buffer_of,
    prepared_launch,
    set_buffer,
    view_at,
)
from poot.backends.progress import Work, working
from poot.backends.spares import Spares, reclaim, size_class
from poot.backends.toolchain import CompiledKernel
from poot.errors import AllocationError, CompileError, DeviceError, DeviceLostError, DeviceUnavailableError
from poot.kernel.ir import FAULT_WORDS
from poot.kernel.render.threads_text import ThreadsSource

_SPARE_BYTES = 1 << 30
_PROGRAMS = 512
_MOST_HELD = 4096
_NOTHING_NEW = contextlib.nullcontext()


class OpenCLDevice:
    """One OpenCL device."""

    launches_whole = True  # what has been enqueued runs

    def __init__(self, name: str, device: Any) -> None:
        self.name = name
        self._device = device
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context, device)
        self._on_host = bool(device.type & cl.device_type.CPU)
        self._spares: Spares[tuple[Any, HostArray | None]] = Spares(_SPARE_BYTES)
        self._programs: OrderedDict[str, ClProgram] = OrderedDict()
        self._lock = threading.RLock()
        self._freed: deque[ClBuffer] = deque()
        self._inherited = Inherited(self)
        self.lost: str | None = None
        self.forked = False
        self._enqueued = self._done = 0  # how often something was, and how much of that has run
        #: What the rest uses: host memory below a buffer would go with the last reference to it.
        self._held: list[object] = []
        self.target = target(device)
        self._options = ["-cl-std=CL1.2"]
        if self.target.has("correct_division"):
            self._options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        self._no_fault = BufferView(self.allocate(4 * FAULT_WORDS))
        _devices.add(self)

    @contextlib.contextmanager
    def _using(self, what: str) -> Iterator[None]:
        """Hold the device; errors of OpenCL become DeviceErrors."""
        require_process(self)
        try:
            with self._lock:
                require_alive(self)
                try:
                    yield
                except cl.Error as error:
                    if is_loss(error) or (is_suspect(error) and not self._answers()):
                        self._lose(f"{what}: {error}")
                        raise DeviceLostError(device=self.name, message=self.lost) from error
                    raise DeviceError(device=self.name, message=f"{what}: {error}") from error
        finally:
            self._reclaim()

    def pause(self) -> None:
        """Let nothing begin on the device from here on, and nothing run on it."""
        self._lock.acquire()
        if self.lost is None:
            with contextlib.suppress(cl.Error):  # whoever uses the device next is told
                self._finish()

    def resume(self) -> None:
        """Undo `pause`."""
        self._lock.release()

    def _lose(self, message: str) -> None:
        """Nothing works from here on: let go of what nobody else holds."""
        self.lost = message
        self._freed.clear()
        self._spares.clear()
        self._programs.clear()
        self._held.clear()

    def _answers(self) -> bool:
        """Whether the device still does what it is asked."""
        try:
            cl.enqueue_marker(self._queue).wait()
        except cl.Error:
            return False
        return True

    # --- memory ---

    def allocate(self, nbytes: int) -> ClBuffer:
        size = size_class(nbytes)
        with self._using("allocation"):
            self._reclaim()
            kept = self._spares.take(size)
            if kept is not None:
                return self._noted(ClBuffer(kept[0], nbytes, size, kept[1]))
            if size > self._device.max_mem_alloc_size:
                limit = self._device.max_mem_alloc_size
                raise AllocationError(nbytes=nbytes, device=self.name, message=f"the largest buffer has {limit} bytes")
            try:
                if not self._on_host:
                    memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
                    return self._noted(ClBuffer(memory, nbytes, size, None))
                host = aligned(size)
                return self._noted(ClBuffer(self._over(host, True), nbytes, size, host))
            except (cl.MemoryError, MemoryError) as error:
                if is_suspect(error) and not self._answers():
                    raise
                raise AllocationError(nbytes=nbytes, device=self.name, message=str(error)) from error

    def _noted(self, buffer: ClBuffer) -> ClBuffer:
        self._inherited.note(buffer)
        return buffer

    def _over(self, host: HostArray, writable: bool) -> Any:
        access = cl.mem_flags.READ_WRITE if writable else cl.mem_flags.READ_ONLY
        return cl.Buffer(self._context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=host)

    def free(self, buffer: Buffer) -> None:
        assert isinstance(buffer, ClBuffer)
        if self.forked or self.lost is not None:
            return
        self._freed.append(buffer)
        self._reclaim()

    def _reclaim(self) -> None:
        reclaim(self._freed, self._lock, self._take_in)

    def _take_in(self, buffer: ClBuffer) -> None:
        if buffer.size and not buffer.shared and not buffer.freed:
            buffer.freed = True
            self._spares.give(buffer.size, (buffer.memory, buffer.host))

    def write(self, view: BufferView, array: HostArray) -> None:
        if array.nbytes:
            with self._using("write"):
                memory = self._memory(view, array.nbytes)
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                if memory is not None:
                    memory[...] = data
                else:
                    cl.enqueue_copy(self._queue, buffer_of(view).memory, data, dst_offset=view.offset, is_blocking=True)

    def read(self, view: BufferView, out: HostArray) -> None:
        if out.nbytes:
            with self._using("read"):
                memory = self._memory(view, out.nbytes)
                data = out.reshape(-1).view(np.uint8)
                if memory is not None:
                    data[...] = memory
                else:
                    cl.enqueue_copy(self._queue, data, buffer_of(view).memory, src_offset=view.offset, is_blocking=True)

    def _memory(self, view: BufferView, nbytes: int) -> HostArray | None:
        """Host memory of a buffer once the work on it is done."""
        host = buffer_of(view).host
        if host is None:
            return None
        self._finish()
        return host[view.offset : view.offset + nbytes]

    def copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        with self._using("copy"):
            self._enqueue_copy(source, target, nbytes)

    def _enqueue_copy(self, source: BufferView, target: BufferView, nbytes: int) -> None:
        if nbytes:
            cl.enqueue_copy(
                self._queue,
                buffer_of(target).memory,
                buffer_of(source).memory,
                byte_count=nbytes,
                src_offset=source.offset,
                dst_offset=target.offset,
            )
            self._hold(source, target)

    def _hold(self, *used: object) -> None:
        """Keep what has been enqueued until it has run."""
        self._held.append(used)
        self._enqueued += 1
        if len(self._held) > _MOST_HELD:
            self._finish()

    def host_view(self, view: BufferView, nbytes: int) -> HostArray | None:
        with self._using("read"):
            memory = self._memory(view, nbytes)
            if memory is not None:
                buffer_of(view).shared = True
            return memory

    def import_host(self, array: HostArray) -> ClBuffer | None:
        if not self._on_host or not array.nbytes or array.ctypes.data % array.itemsize:
            return None
        with self._using("allocation"):
            flat = array.reshape(-1).view(np.uint8)
            return self._noted(ClBuffer(self._over(flat, bool(flat.flags.writeable)), flat.nbytes, 0, flat, True))

    def synchronize(self) -> None:
        with self._using("synchronize"):
            self._finish()

    def _finish(self) -> None:
        if (number := self._enqueued) != self._done:
            self._queue.finish()
            ran = number - self._done  # less than 1 where a handler of a signal has waited for more since
            if ran > 0:
                self._done = number
                del self._held[:ran]

    # --- kernels ---

    def load(self, compiled: CompiledKernel) -> ClKernel:
        source = compiled.artifact
        assert isinstance(source, ThreadsSource)
        with self._using("load"):
            program = self._programs.pop(source.text, None) or self._build(compiled, source)
            self._programs[source.text] = program  # now the one that was used last
            if len(self._programs) > _PROGRAMS:
                self._programs.popitem(last=False)
            kernel = ClKernel(compiled, program)
            self._inherited.note(kernel)
            return kernel

    def _build(self, compiled: CompiledKernel, source: ThreadsSource) -> ClProgram:
        # The wrapper cl.Program.build warns of every compiler that has something to say; this is the call below it.
        program = cl._cl._Program(self._context, source.text)  # pyright: ignore[reportPrivateImportUsage]
        try:
            program._build(options=" ".join(self._options).encode(), devices=[self._device])
        except cl.Error as error:
            if is_loss(error) or (is_suspect(error) and not self._answers()):
                raise
            log = "\n".join(text for _, text in program._get_build_logs() if text).strip()
            raise CompileError(
                what=f"kernel {compiled.kernel.name}",
                target=self.target,
                message=log or str(error),
                where=compiled.kernel.where,
            ) from error
        return ClProgram(cl.Program(program))

    def record(
        self,
        steps: Sequence[RecordedStep],
        views: Sequence[BufferView | None],
        rebindable: Sequence[int],
        bindings: Sequence[BufferView],
        fault: int = -1,
    ) -> ClRecording:
        with self._using("record"):
            prepared = [
                step if isinstance(step, CopySpec) else prepared_launch(step, views, rebindable, fault, self._no_fault)
                for step in steps
                if isinstance(step, CopySpec) or 0 not in launched_groups(step)
            ]
        recording = ClRecording(tuple(prepared), tuple(views), tuple(rebindable))
        self._inherited.note(recording)
        fresh = {id(step.program) for step in prepared if isinstance(step, Launch) and not step.program.has_run}
        with self._using("launch"), working("starting", len(fresh), "kernels") if fresh else _NOTHING_NEW as work:
            self._replay(recording, bindings, work)
        return recording

    def replay(self, recording: Recording, bindings: Sequence[BufferView]) -> None:
        with self._using("launch"):
            self._replay(recording, bindings)

    def _replay(self, recording: Recording, bindings: Sequence[BufferView], work: Work | None = None) -> None:
        """Enqueue every step; kernels that have not run yet are waited for, one by one, and counted."""
        assert isinstance(recording, ClRecording)
        self._hold(recording, tuple(bindings))
        for step in recording.steps:
            if isinstance(step, CopySpec):
                source = view_at(recording, bindings, step.source, step.source_offset)
                target = view_at(recording, bindings, step.target, step.target_offset)
                self._enqueue_copy(source, target, step.nbytes)
                continue
            for patch in step.patches:
                set_buffer(step.kernel, patch.argument, bindings[patch.binding], patch.offset, patch.itemsize)
            launched = cl.enqueue_nd_range_kernel(self._queue, step.kernel, step.total, step.local)
            if work is not None and not step.program.has_run:
                launched.wait()
                step.program.has_run = True
                work.advance()
        self._hold(recording, tuple(bindings))  # again: a finalizer may have waited for what there was
        self._queue.flush()

    def elapsed(self, recording: Recording, bindings: Sequence[BufferView], repeats: int) -> float:
        times: list[float] = []
        with self._using("measure"):
            self._finish()
            for _ in range(repeats):
                start = time.perf_counter()
                self._replay(recording, bindings)
                self._finish()
                times.append(time.perf_counter() - start)
        return statistics.median(times)


#: A fork waits for what is enqueued: PoCL loads kernels in threads of its own, and where one is at it, the child
#: could never load a library.
_devices: weakref.WeakSet[OpenCLDevice] = weakref.WeakSet()
_paused: list[OpenCLDevice] = []


def _pause() -> None:
    _paused.extend(device for device in _devices if not device.forked)
    for device in _paused:
        device.pause()


def _resume() -> None:
    while _paused:
        _paused.pop().resume()


forks.awaited(forks.QUEUES, _pause, _resume)


def make_device(ordinal: int) -> OpenCLDevice:
    """The device of that number; DeviceUnavailableError says what is missing."""
    try:
        found = devices()
        if ordinal >= len(found):
            names = ", ".join(f"{device.name} ({platform.name})" for platform, device in found) or "none"
            raise DeviceUnavailableError(device=f"opencl:{ordinal}", message=f"devices here, from 0 on: {names}")
        return OpenCLDevice(f"opencl:{ordinal}" if ordinal else "opencl", found[ordinal][1])
    except cl.Error as error:
        raise DeviceUnavailableError(device=f"opencl:{ordinal}", message=str(error)) from error


def hardware() -> list[str]:
    """Each device with its platform and the version of its driver."""
    return [f"{device.name} ({platform.name}, driver {device.driver_version})" for platform, device in devices()]
