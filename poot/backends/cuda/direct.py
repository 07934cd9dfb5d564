# pyright: basic
"""Jit-style calls on the GPU: a few words patched, and one foreign call that puts every launch on a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from poot.backends.cuda.driver import STREAM_WORD
from poot.backends.cuda.launches import StepList
from poot.backends.cuda.memory import CudaMemory, FaultRecord
from poot.backends.cuda.recording import CudaRecording
from poot.backends.device import CallLayout
from poot.backends.inherited import require_process
from poot.backends.spares import size_class

if TYPE_CHECKING:
    from poot.backends.cuda.device import CudaDevice


class DirectCall:
    """A recording whose views are all rebound; nothing waits, and results are for the current stream."""

    __slots__ = (
        "_device",
        "_enqueue",
        "_faults",
        "_idle",
        "_keep",
        "_outputs",
        "_patches",
        "_pattern",
        "_sizes",
        "_spare",
        "_stream",
    )

    def __init__(self, device: CudaDevice, recording: CudaRecording, layout: CallLayout) -> None:
        self._device = device
        self._stream: Callable[[], Any] = device.current_stream
        self._spare = device.reserve.spare
        self._enqueue = device.driver.enqueue
        self._keep = recording
        self._faults = layout.fault >= 0
        self._outputs = len(layout.outputs)
        positions = [*layout.arguments, *(position for position, _ in layout.outputs)]
        sizes = [(nbytes, 1) for _, nbytes in layout.outputs]
        places = [recording.places.get(position, ()) for position in positions]
        if layout.arena_bytes:
            places.append(recording.places[layout.arena])
            sizes.append((layout.arena_bytes, 1))
        for scratch in recording.scratch:
            places.append(((scratch.step, scratch.index, 0),))
            sizes.append((scratch.nbytes, scratch.align))
        if self._faults:
            places.append(recording.places[layout.fault])
        self._pattern = StepList(recording.steps, device.driver.table, device.context)
        #: Per fresh span: its size class, bytes, and what its address is a multiple of.
        self._sizes = tuple((size_class(nbytes), nbytes, align) for nbytes, align in sizes)
        #: (slot, number, byte offset): the number counts the arguments, then the spans, then the fault record.
        self._patches = tuple(
            (self._pattern.argument(step, index), number, offset)
            for number, group in enumerate(places)
            for step, index, offset in group
        )
        self._idle: list[StepList] = []

    def __call__(self, addresses: list[int]) -> tuple[list[CudaMemory], FaultRecord | None]:
        device = self._device
        if device.forked:
            require_process(device)
        stream = self._stream()
        number = stream.ptr
        spare = self._spare
        spans: list[CudaMemory] = []
        for size, nbytes, align in self._sizes:
            span = spare(stream, number, size, nbytes) or device.allocate(nbytes)
            spans.append(span)
            addresses.append(span.address if align == 1 else -(-span.address // align) * align)
        record = None
        if self._faults:
            record = device.reserve.record(number) or device.clear_records()
            addresses.append(record.address)
        try:
            steps = self._idle.pop()
        except IndexError:
            steps = self._pattern.copy()
        words = steps.words
        for slot, place, offset in self._patches:
            words[slot] = addresses[place] + offset
        words[STREAM_WORD] = number
        result = self._enqueue(steps.call)
        self._idle.append(steps)
        if result:
            device.refuse("launch", result)
        count = self._outputs
        return spans if count == len(spans) else spans[:count], record
