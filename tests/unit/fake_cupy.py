"""A CuPy of host memory, in which a launch runs the interpreter: the CUDA device's own code, with no GPU.

It keeps CUDA's rules where the device might break them: work is captured only between begin and end, the default
stream cannot be captured, arguments are read at the launch, and grids and blocks have limits.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poot.backends.cuda.driver import Driver
from poot.backends.toolchain import CompiledKernel
from poot.kernel.interpret.launch import BOUND_SLOTS, Interpreter
from poot.kernel.ir import FAULT_WORDS


class CUDARuntimeError(RuntimeError):
    """What the runtime raises, with its number."""

    def __init__(self, message: str, status: int = 999) -> None:
        super().__init__(message)
        self.status = status


_RESULTS = {200: "CUDA_ERROR_INVALID_IMAGE", 201: "CUDA_ERROR_INVALID_CONTEXT", 719: "CUDA_ERROR_LAUNCH_FAILED"}


class CUDADriverError(RuntimeError):
    """What the driver raises, by its number."""

    def __init__(self, result: int) -> None:
        super().__init__(_RESULTS.get(result, f"CUDA error {result}"))
        self.status = result


class OutOfMemoryError(MemoryError):
    """What the pool raises."""


_CONTEXT = 0xC0DE


class Memory:
    """Host memory that stands for the GPU's."""

    def __init__(self, nbytes: int) -> None:
        self.array = np.full(nbytes + 256, 0xA5, np.uint8)
        self.ptr = -(-self.array.ctypes.data // 256) * 256


class Stream:
    """A stream whose work runs at once, or is kept while it is captured."""

    def __init__(self, owner: Fake, number: int) -> None:
        self.owner = owner
        self.ptr = number
        self.captured: list[Callable[[], None]] | None = None

    def __enter__(self) -> Stream:
        self.owner.current.append(self)
        return self

    def __exit__(self, *details: object) -> None:
        self.owner.current.pop()

    def synchronize(self) -> None:
        assert self.captured is None, "a stream that is being captured cannot be waited for"

    def begin_capture(self) -> None:
        if self.ptr == 0:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        self.captured = []

    def end_capture(self) -> Graph:
        captured, self.captured = self.captured, None
        assert captured is not None
        self.owner.counts["graphs"] += 1
        return Graph(self.owner, captured)

    def run(self, work: Callable[[], None]) -> None:
        if self.captured is not None:
            self.captured.append(work)
        else:
            work()


class Graph:
    """Captured work."""

    def __init__(self, owner: Fake, work: list[Callable[[], None]]) -> None:
        self.owner = owner
        self.work = work

    def launch(self, stream: Stream) -> None:
        self.owner.counts["graph launches"] += 1
        for work in self.work:
            work()


class Event:
    """A moment on a stream; everything has run by then."""

    _numbers = itertools.count(1)

    def __init__(self, *, disable_timing: bool = False) -> None:
        self.ptr = next(Event._numbers)
        self.done = True

    def record(self, stream: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


class MemoryPointer:
    """A place in memory, which it keeps alive."""

    def __init__(self, memory: Any, offset: int) -> None:
        self.memory = memory
        self.ptr = memory.ptr + offset

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self, offset)


class UnownedMemory:
    """Memory of others."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        self.ptr, self.owner = ptr, owner


class NdArray:
    """A strided array, as far as copying it goes."""

    def __init__(self, shape: tuple[int, ...], dtype: str, memptr: Any, strides: tuple[int, ...]) -> None:
        self.data = memptr
        first = _memory(memptr.ptr, np.dtype(dtype).itemsize).view(dtype)
        self.array = np.lib.stride_tricks.as_strided(first, shape, strides)

    def copy(self, order: str) -> Any:
        memory = Memory(self.array.nbytes)
        ctypes.memmove(memory.ptr, np.ascontiguousarray(self.array).ctypes.data, self.array.nbytes)
        return types.SimpleNamespace(data=memory)


class Module:
    """Finds kernels by their images, which the test announces."""

    def __init__(self, owner: Fake) -> None:
        self.owner = owner

    def load(self, image: bytes) -> None:
        if image not in self.owner.kernels:
            raise CUDADriverError(200)
        self.image = image

    def get_function(self, name: str) -> types.SimpleNamespace:
        compiled = self.owner.kernels[self.image]
        assert name == compiled.entry
        number = len(self.owner.functions) + 1000
        self.owner.functions[number] = compiled
        return types.SimpleNamespace(ptr=number)


class Fake:
    """The module `cupy`, as far as the CUDA device uses it; `kernels` maps images to what was compiled."""

    def __init__(self) -> None:
        self.kernels: dict[bytes, CompiledKernel] = {}
        self.functions: dict[int, CompiledKernel] = {}
        self.counts = {"graphs": 0, "graph launches": 0, "launches": 0}
        self.shared: dict[int, int] = {}
        self.fail_after = -1
        self.count = 1
        self.problems: list[BaseException] = []
        self.contexts = [_CONTEXT]
        self.driver = self._driver()
        self._streams = 100
        self._spans: dict[int, int] = {}
        self.current = [Stream(self, 0)]
        #: Streams that were made to wait: (stream, the stream that it waited for).
        self.waits: list[tuple[int, int]] = []
        self._recorded: dict[int, int] = {}
        self.selected = 0
        self.ndarray = NdArray
        runtime = types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            memcpyAsync=self._memcpy,
            memsetAsync=self._memset,
            pointerGetAttributes=lambda address: types.SimpleNamespace(type=0, device=0),
            getDevice=lambda: self.selected,
            setDevice=self._select,
            eventRecord=lambda event, stream: self._recorded.update({event: stream}),
            streamWaitEvent=lambda stream, event: self.waits.append((stream, self._recorded[event])),
            free=lambda address: None,
            getDeviceCount=lambda: self.count,
        )
        driver = types.SimpleNamespace(
            CUDADriverError=CUDADriverError,
            funcSetAttribute=lambda function, what, value: self.shared.update({function: value}),
        )
        self.cuda = types.SimpleNamespace(
            runtime=runtime,
            driver=driver,
            alloc=self._alloc,
            memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            function=types.SimpleNamespace(Module=lambda: Module(self)),
            Stream=self._stream,
            Event=Event,
            UnownedMemory=UnownedMemory,
            MemoryPointer=MemoryPointer,
            Device=self.Device,
            get_current_stream=lambda ordinal=0: self.current[-1],
            get_elapsed_time=lambda start, end: 1.0,
        )

    def _select(self, ordinal: int) -> None:
        self.selected = ordinal

    def stream(self) -> Stream:
        """A new stream, to use in `with`."""
        return self._stream(non_blocking=True)

    def Device(self, ordinal: int) -> contextlib.AbstractContextManager[Any]:
        attributes = {"MaxThreadsPerBlock": 1024, "MaxSharedMemoryPerBlockOptin": 232448}
        return contextlib.nullcontext(types.SimpleNamespace(attributes=attributes, compute_capability="90"))

    def _stream(self, *, non_blocking: bool) -> Stream:
        self._streams += 1
        return Stream(self, self._streams)

    def _by_number(self, number: int) -> Stream:
        return next((stream for stream in self.current if stream.ptr == number), self.current[0])

    def _alloc(self, nbytes: int) -> MemoryPointer:
        if nbytes > 1 << 32:
            raise OutOfMemoryError(f"out of memory allocating {nbytes} bytes")
        memory = Memory(nbytes)
        self._spans[memory.ptr] = nbytes
        return MemoryPointer(memory, 0)

    def _memcpy(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        self._by_number(stream).run(lambda: ctypes.memmove(target, source, nbytes) and None)

    # --- the driver, whose functions native code calls ---

    def _driver(self) -> Driver:
        word, number = ctypes.c_uint64, ctypes.c_uint32
        self._functions = {
            "cuLaunchKernel": self._function(self._launch, word, *[number] * 7, word, word, word),
            "cuMemcpyDtoDAsync_v2": self._function(self._copy, word, word, word, word),
            "cuCtxGetCurrent": self._function(self._current, word),
            "cuCtxPushCurrent_v2": self._function(self._push, word),
            "cuCtxPopCurrent_v2": self._function(self._pop, word),
        }
        addresses = {name: ctypes.cast(made, ctypes.c_void_p).value or 0 for name, made in self._functions.items()}
        return Driver(addresses, self)

    def _function(self, body: Callable[..., int | None], *kinds: Any) -> Any:
        def guarded(*given: int) -> int:
            try:
                return body(*given) or 0
            except BaseException as error:  # it cannot pass through native code
                self.problems.append(error)
                return 999

        return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(guarded)

    def _current(self, place: int) -> None:
        ctypes.c_uint64.from_address(place).value = self.contexts[-1]

    def _push(self, context: int) -> None:
        assert context == _CONTEXT
        self.contexts.append(context)

    def _pop(self, place: int) -> None:
        ctypes.c_uint64.from_address(place).value = self.contexts.pop()

    def _copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._memcpy(target, source, nbytes, 3, stream)

    def _memset(self, target: int, value: int, nbytes: int, stream: int) -> None:
        self._by_number(stream).run(lambda: ctypes.memset(target, value, nbytes) and None)

    def _launch(self, function: int, *rest: int) -> int | None:
        gx, gy, gz, bx, by, bz, shared, stream, arguments, extra = rest
        assert self.contexts[-1] == _CONTEXT
        assert 0 < gx < 1 << 31 and 0 < gy <= 65535 and 0 < gz <= 65535, (gx, gy, gz)
        assert 0 < bx <= 1024 and (by, bz, extra) == (1, 1, 0)
        assert shared <= max(48 << 10, self.shared.get(function, 0))
        if self.fail_after == self.counts["launches"]:
            return 719
        self.counts["launches"] += 1
        compiled = self.functions[function]
        addresses = (ctypes.c_uint64 * len(compiled.slots)).from_address(arguments)
        words = [ctypes.c_uint64.from_address(address).value for address in addresses]
        self._by_number(stream).run(lambda: self._run(compiled, words))
        return None

    def _buffer(self, address: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """What is left of an allocation from an address on."""
        start = max(start for start in self._spans if start <= address)
        left = start + self._spans[start] - address
        return _memory(address, left - left % dtype.itemsize).view(dtype)

    def _run(self, compiled: CompiledKernel, words: list[int]) -> None:
        values: list[object] = []
        groups = [1, 1, 1]
        record, number = None, 0
        for slot, word in zip(compiled.slots, words, strict=True):
            dtype = slot.dtype.dtype
            value = np.array([word], np.uint64).view(np.uint8)[: dtype.itemsize].view(dtype)[0]
            match slot.kind:
                case "buffer":
                    values.append(self._buffer(word, dtype))
                case "num_groups":
                    groups[slot.axis] = int(value)
                case "launch":
                    number = int(value)
                case "fault":
                    record = _memory(word, 4 * FAULT_WORDS).view(np.int32) if word else None
                case _:
                    assert slot.kind in BOUND_SLOTS
                    values.append(value)
        Interpreter(compiled.kernel).run(values, groups=(groups[0], groups[1], groups[2]), fault=record, launch=number)


def _memory(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def installed(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A fake that is the process's CuPy as long as a test runs."""
    made = Fake()

    def replace(owner: Any, name: str, value: Any) -> None:
        if isinstance(owner, dict):
            monkeypatch.setitem(owner, name, value)
        else:
            monkeypatch.setattr(owner, name, value)

    install(made, replace)
    return made


def install(fake: Fake, replace: Callable[[Any, str, Any], None]) -> None:
    """Make a fake the process's CuPy: `replace(owner, name, value)` sets an attribute or an item."""
    from poot.backends import device as registry
    from poot.backends.cuda import device as module

    load = module.CudaDevice.load

    def known(self: module.CudaDevice, compiled: Any) -> Any:
        fake.kernels[compiled.artifact.image] = compiled
        return load(self, compiled)

    replace(sys.modules, "cupy", fake)
    replace(module, "open_driver", lambda: fake.driver)
    replace(module.CudaDevice, "load", known)
    others = {name: made for name, made in registry._devices.items() if not name.startswith("cuda")}
    replace(registry, "_devices", others)
