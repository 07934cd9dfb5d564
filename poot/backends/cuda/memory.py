# pyright: basic
"""The GPU's memory: from CuPy's pool, with small spans kept for the next use on the same stream.

A span belongs to the stream that it was asked for on.  It is handed out again for work on that stream alone, which runs
after everything that used it before; whoever uses it on another stream makes that stream's owner wait (`interop.py`
does, for other libraries).
"""

from __future__ import annotations

from typing import Any

from poot.backends.device import BufferView
from poot.backends.spares import size_class
from poot.kernel.ir import FAULT_WORDS

#: Spans up to this many bytes are kept.
LARGEST = 1 << 20
#: Bytes, and spans, that are kept of one size class for one stream.
_KEPT_BYTES = 1 << 20
_KEPT_SPANS = 32
_MOST_BINS = 256
RECORD_BYTES = 4 * FAULT_WORDS
#: Fault records that are cleared together: a call then pays a small part of what one clearing costs.
_RECORDS = 64


class _Bin:
    """Free spans of one size class for one stream, which it keeps alive so that its number stays its own."""

    __slots__ = ("depth", "spans", "stream")

    def __init__(self, stream: Any, size: int) -> None:
        self.stream = stream
        self.depth = min(max(_KEPT_BYTES // size, 1), _KEPT_SPANS)
        self.spans: list[Any] = []


class CudaMemory:
    """A span of the GPU's memory; it is free again when the last reference goes."""

    __slots__ = ("_bin", "_memory", "address", "nbytes", "stream")

    def __init__(self, memory: Any, nbytes: int, stream: Any, home: _Bin | None) -> None:
        self.address: int = memory.ptr
        self.nbytes = nbytes
        self.stream = stream
        self._memory = memory
        self._bin = home

    def __del__(self) -> None:
        home = self._bin
        if home is not None and len(home.spans) < home.depth:
            home.spans.append(self._memory)


class FaultRecord:
    """One of several records in a span of the GPU's memory."""

    __slots__ = ("_memory", "address")

    nbytes = RECORD_BYTES

    def __init__(self, memory: Any, address: int) -> None:
        self.address = address
        self._memory = memory


def address_of(view: BufferView) -> int:
    """Where a view begins in the GPU's memory."""
    buffer: Any = view.buffer
    return buffer.address + view.offset


class Reserve:
    """Hands out spans; any thread may ask."""

    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda
        self._bins: dict[tuple[int, int], _Bin] = {}
        #: By a stream's number, fault records that its work finds cleared; each serves one call.
        self._records: dict[int, _Bin] = {}

    def spare(self, stream: Any, number: int, size: int, nbytes: int) -> CudaMemory | None:
        """A kept span of a size class, for a stream and its number; None where there is none."""
        home = self._bins.get((number, size))
        if home is None:
            return None
        try:
            return CudaMemory(home.spans.pop(), nbytes, stream, home)
        except IndexError:
            return None

    def take(self, stream: Any, nbytes: int) -> CudaMemory:
        """A span for the current stream, on the current device; CuPy's OutOfMemoryError where nothing is left."""
        size, home = size_class(nbytes), None
        if size <= LARGEST:
            found = self.spare(stream, stream.ptr, size, nbytes)
            if found is not None:
                return found
            home = self._bin(stream, size)
        else:
            size = nbytes
        return CudaMemory(self._alloc(size), nbytes, stream, home)

    def _alloc(self, nbytes: int) -> Any:
        try:
            return self._cuda.alloc(nbytes)
        except self._cuda.memory.OutOfMemoryError:
            self.clear()
            return self._cuda.alloc(nbytes)

    def record(self, number: int) -> FaultRecord | None:
        """A cleared fault record for work on the stream of a number; None where none is left."""
        home = self._records.get(number)
        try:
            return None if home is None else home.spans.pop()
        except IndexError:
            return None

    def clear_records(self, stream: Any) -> FaultRecord:
        """One of several more, for the current stream on the current device."""
        memory = self._alloc(_RECORDS * RECORD_BYTES)
        self._cuda.runtime.memsetAsync(memory.ptr, 0, _RECORDS * RECORD_BYTES, stream.ptr)
        home = self._records.get(stream.ptr)
        if home is None:
            if len(self._records) >= _MOST_BINS:
                self._records.clear()
            home = self._records[stream.ptr] = _Bin(stream, RECORD_BYTES)
        first, *others = (FaultRecord(memory, memory.ptr + RECORD_BYTES * number) for number in range(_RECORDS))
        home.spans += others
        return first

    def _bin(self, stream: Any, size: int) -> _Bin:
        key = stream.ptr, size
        home = self._bins.get(key)
        if home is None:
            if len(self._bins) >= _MOST_BINS:
                self._bins.clear()
            home = self._bins[key] = _Bin(stream, size)
        return home

    def clear(self) -> None:
        """Give every kept span back to CuPy."""
        for home in [*self._bins.values(), *self._records.values()]:
            home.spans.clear()
