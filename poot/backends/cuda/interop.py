# pyright: basic
"""Memory shared with other libraries on the same GPU: DLPack and `__cuda_array_interface__`, in the order of streams.

Coming in, the producer makes our stream wait for what it has enqueued; its memory is given back only once our work on
it is done, which an event tells, so its library may use it again on any stream.  (Where it works on our stream, the
order of that is enough.)  Going out, the consumer's stream waits for ours; when the consumer lets go, our stream waits
for what the consumer had enqueued by then, before the memory is used again.  The host waits for nothing.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from poot import dlpack
from poot.backends import capsules
from poot.backends.cuda import torch_tensors
from poot.backends.cuda.memory import CudaMemory
from poot.backends.device import Buffer, BufferView
from poot.dtypes import ArraySpec, as_dtype, bf16
from poot.errors import ArgumentError, ExchangeError, PootError
from poot.foreign import check_said, refuse

if TYPE_CHECKING:
    from poot.backends.cuda.device import CudaDevice

#: What kernels may rely on for the address of an array.
_ALIGNED = 16
#: The number of the default stream in both protocols; CUDA's own is 0 as well.
_DEFAULT = 1
_NO_ORDER = -1


class BorrowedMemory:
    """Memory of another library, in use until the last reference goes."""

    __slots__ = ("_home", "_lent", "_producer", "address", "nbytes", "read_only", "stream")

    def __init__(self, home: Interop, lent: dlpack.Lent, nbytes: int, stream: Any, producer: int | None) -> None:
        self.address = lent.address
        self.nbytes = nbytes
        self.read_only = lent.read_only
        self.stream = stream
        self._home = home
        self._lent = lent
        self._producer = producer

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing():
            self._home.give_back(self._lent, self.stream, self._producer)


class Exported(capsules.Owner):
    """Keeps a buffer for a consumer on another stream, and orders its next use behind the consumer's work."""

    __slots__ = ("_buffer", "_home", "_stream")

    def __init__(self, home: Interop, buffer: Any, stream: int | None) -> None:
        super().__init__()
        self._home = home
        self._buffer = buffer
        self._stream = stream

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing() and self._stream is not None:
            with contextlib.suppress(Exception):  # the consumer's stream may be gone, and its work with it
                self._home.order(self._stream, self._buffer.stream.ptr)


class Interop:
    """Sharing on one GPU."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        #: Memory whose owner waits for our work: (event that follows it, the memory).
        self._waiting: deque[tuple[Any, dlpack.Lent]] = deque()

    # --- streams ---

    def order(self, first: int, second: int) -> None:
        """Make the stream `second` wait for what has been enqueued on `first`."""
        first, second = (0 if number == _DEFAULT else number for number in (first, second))
        if first == second:
            return
        with self._device.here("ordering streams"):
            event = self._event(first)
            self._device.cupy.cuda.runtime.streamWaitEvent(second, event.ptr)

    def _event(self, stream: int) -> Any:
        cuda = self._device.cupy.cuda
        event = cuda.Event(disable_timing=True)
        cuda.runtime.eventRecord(event.ptr, stream)
        return event

    # --- coming in ---

    def owner(self, address: int) -> int:
        """The number of the GPU that an address belongs to."""
        with self._device.here("looking for memory"):
            return int(self._device.cupy.cuda.runtime.pointerGetAttributes(address).device)

    def borrow(self, value: Any, what: str, *, copy: bool | None = None) -> tuple[Buffer, ArraySpec]:
        """Another library's array on this GPU, in place where it is contiguous and aligned, else copied on the GPU.

        ArgumentError where copy=False forbids that.
        """
        with self._device.here("sharing an array") as stream:
            self._collect()
            producer = _current_stream(value, stream)
            lent = torch_tensors.lent(value)
            if lent is not None:
                self.order(producer or 0, stream.ptr)
            elif hasattr(value, "__dlpack__"):
                lent = self._by_dlpack(value, what, stream)
            else:
                lent = self._by_interface(value, what)
            spec = ArraySpec(lent.dtype, lent.shape)
            memory = BorrowedMemory(self, lent, spec.nbytes, stream, producer)
            if not spec.size or (lent.address % _ALIGNED == 0 and _is_contiguous(lent)):
                return memory, spec
            if copy is False:
                expected = f"True or None: it is not contiguous, or not at a multiple of {_ALIGNED} bytes"
                raise ArgumentError(what=f"{what}: copy", actual=False, expected=expected)
            return self._compact(memory, lent, spec, stream), spec

    def _by_dlpack(self, value: Any, what: str, stream: Any) -> dlpack.Lent:
        number = stream.ptr or _DEFAULT
        check_said(value, what)
        try:
            try:
                capsule = value.__dlpack__(stream=number, max_version=dlpack.VERSION)
            except TypeError:  # from before DLPack 1.0
                capsule = value.__dlpack__(stream=number)
        except Exception as error:  # whatever the other library raises
            refuse(value, what, error)
        return dlpack.take(capsule, what)

    def _by_interface(self, value: Any, what: str) -> dlpack.Lent:
        """An array that has `__cuda_array_interface__` alone, which must stay as it is while we use it.

        ExchangeError where that does not hold what it should.
        """
        try:
            return self._read(value.__cuda_array_interface__, value, what)
        except PootError:
            raise
        except Exception as error:  # whatever the other library raises, or its facts are
            message = f"its __cuda_array_interface__ is not what it should be: {type(error).__name__}: {error}"
            remedy = "pass a copy that the library makes, or its elements as a NumPy array."
            raise ExchangeError(what=what, message=message, remedy=remedy) from error

    def _read(self, facts: Any, value: Any, what: str) -> dlpack.Lent:
        if facts.get("mask") is not None:
            raise ArgumentError(what=what, actual="a masked array", expected="an array without a mask")
        dtype = as_dtype(np.dtype(str(facts["typestr"])), what)  # of None NumPy makes float64
        shape = tuple(map(operator.index, facts["shape"]))
        strides = facts.get("strides")
        if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
            raise ArgumentError(what=what, actual=(shape, strides), expected="extents, and as many strides")
        if strides is None:
            strides = dlpack.contiguous(shape)
        elif any(stride % dtype.itemsize for stride in strides):
            raise ArgumentError(what=what, actual=f"strides of {strides} bytes", expected="whole elements")
        else:
            strides = tuple(stride // dtype.itemsize for stride in strides)
        if facts.get("stream") is not None:
            self.order(operator.index(facts["stream"]), self._device.current_stream().ptr)
        address, read_only = operator.index(facts["data"][0] or 0), bool(facts["data"][1])
        place = dlpack.CUDA, self._device.ordinal
        return dlpack.Lent(address, dtype, shape, strides, place, read_only, lambda value=value: None)

    def _compact(self, memory: BorrowedMemory, lent: dlpack.Lent, spec: ArraySpec, stream: Any) -> CudaMemory:
        cupy = self._device.cupy
        size = spec.dtype.itemsize
        whole = cupy.cuda.UnownedMemory(lent.address, max(spec.nbytes, 1), memory, self._device.ordinal)
        strides = tuple(stride * size for stride in lent.strides)
        view = cupy.ndarray(spec.shape, f"u{size}", cupy.cuda.MemoryPointer(whole, 0), strides)
        copied = view.copy(order="C")
        return CudaMemory(copied.data, spec.nbytes, stream, None)

    def give_back(self, lent: dlpack.Lent, stream: Any, producer: int | None) -> None:
        """Release memory once what has been enqueued on `stream` and on the current stream is done.

        The producer's stream, where it is known, waits for that too: kernels may have written to the memory.
        """
        try:
            if producer is not None and self._device.current_stream().ptr == stream.ptr == producer:
                lent.release()  # in the order of the one stream, as after an operation of the library's own
                return
            with self._device.here("returning memory") as current:
                if current.ptr != stream.ptr:
                    self.order(current.ptr, stream.ptr)
                if producer is not None:
                    self.order(stream.ptr, producer)
                self._waiting.append((self._event(stream.ptr), lent))
                self._collect()
        except PootError:  # a context that is lost has no work left
            lent.release()

    def _collect(self) -> None:
        """Release what the GPU is done with; it comes to that in the order of the events, more or less."""
        while self._waiting:
            try:
                event, lent = self._waiting.popleft()
            except IndexError:
                return
            if not event.done:
                self._waiting.appendleft((event, lent))
                return
            lent.release()

    # --- going out ---

    def device(self) -> tuple[int, int]:
        """DLPack's kind and number of this GPU."""
        return dlpack.CUDA, self._device.ordinal

    def export(self, view: BufferView, spec: ArraySpec, stream: int | None, *, versioned: bool, copy: bool) -> Any:
        """A DLPack capsule for a consumer's stream, as DLPack numbers them: None is the default one, -1 asks for none.

        Unless it is a copy it is marked read-only, where the consumer knows of that.
        """
        if stream == 0:
            message = "0 is ambiguous in DLPack: 1 is the default one, 2 that of each thread"
            raise ExchangeError(what="stream", message=message, remedy="pass 1 or 2.")
        buffer: Any = view.buffer
        if copy:
            buffer = self._device.allocate(spec.nbytes)
            self._device.copy(view, BufferView(buffer), spec.nbytes)
            view = BufferView(buffer)
        wanted = None if stream == _NO_ORDER else _DEFAULT if stream is None else stream
        if wanted is not None:
            self.order(buffer.stream.ptr, wanted)
            current = self._device.current_stream().ptr
            if current != buffer.stream.ptr:
                self.order(current, wanted)
        owner = Exported(self, buffer, wanted)
        address = buffer.address + view.offset
        return capsules.make(address, spec, self.device(), owner, versioned=versioned, read_only=not copy, copied=copy)

    def interface(self, view: BufferView, spec: ArraySpec) -> dict[str, Any]:
        """`__cuda_array_interface__`, version 3; the consumer orders itself behind `stream`."""
        if spec.dtype is bf16:
            raise AttributeError("__cuda_array_interface__ has no bfloat16; DLPack has")
        buffer: Any = view.buffer
        return {
            "shape": spec.shape,
            "typestr": spec.dtype.dtype.str,
            "data": (buffer.address + view.offset if spec.size else 0, True),
            "strides": None,
            "version": 3,
            "stream": buffer.stream.ptr or _DEFAULT,
        }


def _current_stream(value: Any, ours: Any) -> int | None:
    """The stream that the producer of an array works on just now; None where its library has no such thing."""
    match type(value).__module__.partition(".")[0]:
        case "torch":
            return torch_tensors.current_stream(value)
        case "cupy":
            return ours.ptr
        case _:
            return None


def _is_contiguous(lent: dlpack.Lent) -> bool:
    expected = dlpack.contiguous(lent.shape)
    if lent.strides == expected:
        return True
    triples = zip(lent.shape, lent.strides, expected, strict=True)
    return all(extent == 1 or stride == wanted for extent, stride, wanted in triples)
