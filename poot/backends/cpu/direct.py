"""Launches on host memory that is named by address: prepared once, patched and run within microseconds.

Each run works in native memory of its own, taken from a list of idle ones, so that any number of threads may launch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from poot.backends.cpu.allocator import Allocator, Block
from poot.backends.cpu.launches import Launch, LaunchList
from poot.backends.device import CallLayout
from poot.dtypes import DType
from poot.kernel.ir import FAULT_WORDS, Slot

_CODES = {"bool": "<?", "f32": "<f", "f64": "<d", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q"}
_INTEGER = struct.Struct("<Q")


def word_of(dtype: DType) -> Callable[[Any], int]:
    """How a scalar becomes the bits of an 8-byte slot."""
    if dtype.kind == "uint":
        return int
    code = _CODES.get(dtype.name)
    if code is None:  # f16 and bf16
        scalar = dtype.dtype.type
        return lambda value: int.from_bytes(scalar(value).tobytes(), "little")
    form = struct.Struct(code)
    padding = bytes(8 - form.size)
    return lambda value: _INTEGER.unpack(form.pack(value) + padding)[0]


@dataclass(slots=True, eq=False)
class _Lane:
    """Native memory for one run at a time, with a fault record of its own."""

    launches: LaunchList
    words: memoryview[int]
    record: npt.NDArray[np.int32]
    flag: memoryview[int]


class DirectLaunch:
    """One kernel on one grid; buffers and the numbers of scalar parameters come with each run."""

    __slots__ = ("_buffers", "_idle", "_launch", "_numbers", "_run")

    def __init__(self, launch: Launch, slots: Sequence[Slot], run: Callable[[LaunchList], None]) -> None:
        self._launch = launch
        self._run = run
        self._idle: list[_Lane] = []
        first = LaunchList([launch])
        self._buffers = tuple(first.slot(0, i) for i, slot in enumerate(slots) if slot.kind == "buffer")
        self._numbers = tuple(
            (first.slot(0, i), word_of(slot.dtype)) for i, slot in enumerate(slots) if slot.kind == "scalar"
        )
        self._idle.append(self._lane(first))

    def _lane(self, launches: LaunchList) -> _Lane:
        record = np.zeros(FAULT_WORDS, np.int32)
        launches.set_argument(0, len(self._launch.arguments) - 1, record.ctypes.data)
        return _Lane(launches, launches.words, record, record.data)

    def run(self, addresses: Sequence[int], numbers: Sequence[int | float] = ()) -> npt.NDArray[np.int32] | None:
        """Launch and wait; the fault record if something failed.

        `addresses` are those of the buffers' first elements, `numbers` the scalars that fit their dtypes, both in the
        order of parameters.
        """
        try:
            lane = self._idle.pop()
        except IndexError:
            lane = self._lane(LaunchList([self._launch]))
        words = lane.words
        for slot, address in zip(self._buffers, addresses, strict=True):
            words[slot] = address
        if numbers:
            for (slot, word), number in zip(self._numbers, numbers, strict=True):
                words[slot] = word(number)
        self._run(lane.launches)
        fault = None
        if lane.flag[0]:
            fault = lane.record.copy()
            lane.record[:] = 0
        self._idle.append(lane)
        return fault


class DirectCall:
    """A recording whose views are all rebound: runs on addresses, into blocks of its own, from any thread."""

    __slots__ = ("_allocator", "_arena", "_idle", "_keep", "_outputs", "_patches", "_pattern", "_record", "_run")

    def __init__(
        self,
        keep: object,
        launches: LaunchList,
        patches: Sequence[Sequence[tuple[int, int]]],
        layout: CallLayout,
        allocator: Allocator,
        run: Callable[[LaunchList], None],
    ) -> None:
        self._keep = keep
        self._run = run
        self._allocator = allocator
        self._outputs = tuple(nbytes for _, nbytes in layout.outputs)
        self._arena = layout.arena_bytes
        positions = [*layout.arguments, *(position for position, _ in layout.outputs), layout.arena]
        #: (word, number, byte offset): the number counts the arguments, the outputs and the arena.
        self._patches = tuple(
            (word, number, offset)
            for number, position in enumerate(positions)
            if position >= 0
            for word, offset in patches[position]
        )
        self._record = tuple(word for word, _ in patches[layout.fault]) if layout.fault >= 0 else ()
        self._pattern = launches.copy()
        self._idle: list[_Lane] = []

    def _lane(self) -> _Lane:
        launches = self._pattern.copy()
        record = np.zeros(FAULT_WORDS, np.int32)
        for word in self._record:
            launches.words[word] = record.ctypes.data
        return _Lane(launches, launches.words, record, record.data)

    def __call__(self, addresses: list[int]) -> tuple[list[Block], Block | None]:
        """Run on the addresses of the arguments, and wait.

        A fresh block for each output, in the order of the layout, and the fault record if something failed.  The list
        of addresses is used up.
        """
        try:
            lane = self._idle.pop()
        except IndexError:
            lane = self._lane()
        allocate = self._allocator.allocate
        blocks: list[Block] = []
        for nbytes in self._outputs:
            block = allocate(nbytes)
            blocks.append(block)
            addresses.append(block.address)
        arena = None
        if self._arena:
            arena = allocate(self._arena)
            addresses.append(arena.address)
        words = lane.words
        for word, number, offset in self._patches:
            words[word] = addresses[number] + offset
        self._run(lane.launches)
        del arena  # it lives until here
        failed = self._fault(lane) if lane.flag[0] else None
        self._idle.append(lane)
        return blocks, failed

    def _fault(self, lane: _Lane) -> Block:
        """Move the fault record out of a lane."""
        block = self._allocator.allocate(lane.record.nbytes)
        block.view(np.int32, FAULT_WORDS)[:] = lane.record
        lane.record[:] = 0
        return block
