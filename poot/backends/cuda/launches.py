# pyright: basic
"""Launches and copies laid out once in native memory, and patched in place between runs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poot.backends.cuda.code import CudaCode
from poot.backends.cuda.driver import CONTEXT_WORD, COPY, COUNT_WORD, HEAD, STEP, TABLE_WORD
from poot.backends.toolchain import CompiledKernel
from poot.dtypes import DType
from poot.errors import LaunchError

#: Blocks that a grid may have along x, and along y and z.
GRID_X = (1 << 31) - 1
GRID_YZ = 65535

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedKernel:
    """A kernel in a device's memory; `module` keeps `function` alive."""

    compiled: CompiledKernel
    code: CudaCode
    module: Any
    function: Any


def fold(groups: Triple, what: str) -> Triple:
    """A grid that CUDA takes, with as many blocks or a few more: y and z are folded together where they are too long.

    Kernels undo it (see `render/ptx.py`); LaunchError where even that does not fit.
    """
    x, y, z = groups
    if y > GRID_YZ or z > GRID_YZ:
        y, z = min(y * z, GRID_YZ), math.ceil(y * z / GRID_YZ)
    if x > GRID_X or z > GRID_YZ:
        message = f"{groups} work-groups are more than a grid can have"
        raise LaunchError(kernel=what, message=message, remedy="launch fewer, of more threads each.")
    return x, y, z


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One launch: the words of its arguments, eight bytes each; the kernel's hidden pointers follow its parameters.

    `scratch` is the bytes of global memory that it wants, 0 for none; the first hidden pointer is where they are.
    """

    kernel: LoadedKernel
    grid: Triple
    arguments: tuple[int, ...]
    scratch: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A copy of `nbytes` on the device."""

    target: int
    source: int
    nbytes: int


class StepList:
    """Steps laid out in native memory, which `Driver.enqueue(list.call)` puts on a stream, as often as wanted.

    `words` is the memory itself: the stream goes into `words[STREAM_WORD]`, and a pointer into `words[slot]` with a
    slot of `argument`.  While a list is being enqueued nothing in it may change, so threads each take a `copy`.
    """

    __slots__ = ("_kinds", "_memory", "_starts", "call", "words")

    def __init__(self, steps: Sequence[Launch | Move], table: int, context: int) -> None:
        at = HEAD + STEP * len(steps)
        starts: list[int] = []
        for step in steps:
            starts.append(at)
            at += 2 * len(step.arguments) if isinstance(step, Launch) else 0
        self._starts = tuple(starts)
        self._kinds = tuple(len(step.arguments) if isinstance(step, Launch) else -1 for step in steps)
        self._place(array("Q", bytes(8 * at)))
        self.words[TABLE_WORD], self.words[CONTEXT_WORD], self.words[COUNT_WORD] = table, context, len(steps)
        for number, step in enumerate(steps):
            first = HEAD + STEP * number
            if isinstance(step, Launch):
                code = step.kernel.code
                fields = step.kernel.function.ptr, *step.grid, code.threads, code.shared
                for slot, argument in enumerate(step.arguments, starts[number]):
                    self.words[slot] = argument
            else:
                fields = COPY, step.target, step.source, step.nbytes
            for slot, field in enumerate(fields, first):
                self.words[slot] = field
        self._link()

    def _place(self, memory: array[int]) -> None:
        self._memory = memory
        # The view fixes the array's size, and with it the address.
        self.words: memoryview[int] = memoryview(memory)
        self.call: int = memory.buffer_info()[0]

    def _link(self) -> None:
        """Where each argument lies: CUDA takes an array of addresses, which follows the arguments themselves."""
        for number, (start, count) in enumerate(zip(self._starts, self._kinds, strict=True)):
            if count >= 0:
                self.words[HEAD + STEP * number + 6] = self.call + 8 * (start + count)
                for argument in range(count):
                    self.words[start + count + argument] = self.call + 8 * (start + argument)

    def argument(self, step: int, index: int) -> int:
        """The slot of argument `index` of a launch, of the target (0) or the source (1) of a copy."""
        return self._starts[step] + index if self._kinds[step] >= 0 else HEAD + STEP * step + 1 + index

    def copy(self) -> StepList:
        """The same steps, with their arguments as they are now, in memory of their own."""
        other = StepList.__new__(StepList)
        other._starts, other._kinds = self._starts, self._kinds
        other._place(self._memory[:])
        other._link()
        return other


def word(value: int | float, dtype: DType) -> int:
    """The bits of a scalar, lowest first, in eight bytes."""
    data = np.asarray(value, dtype.dtype).tobytes()
    return int.from_bytes(data.ljust(8, b"\0"), "little")


def scratch_bytes(kernel: LoadedKernel, grid: Triple) -> int:
    """Global memory that a launch wants for itself."""
    return kernel.code.scratch * math.prod(grid)
