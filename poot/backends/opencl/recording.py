"""What a device of OpenCL has made: buffers, kernels, and launches prepared with their arguments set."""
# pyright: basic

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poot.backends.device import BufferView, CopySpec, HostArray
from poot.backends.toolchain import CompiledKernel

_ALIGN = 64


@dataclass(slots=True, eq=False, weakref_slot=True)
class ClBuffer:
    """A buffer; `host` is the memory itself where the device works on host memory.

    `shared` says that the host has been given a view of the memory, which therefore is not used again for others.
    """

    memory: Any
    nbytes: int
    size: int
    host: HostArray | None = field(repr=False)
    shared: bool = False
    freed: bool = False

    @property
    def address(self) -> int:
        """Where the host addresses the memory; AttributeError where it does not."""
        if self.host is None:
            raise AttributeError("the host does not address this memory")
        return self.host.ctypes.data

    @property
    def read_only(self) -> bool:
        """Whether it is memory of the caller's that nobody may write."""
        return self.host is not None and not self.host.flags.writeable


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClKernel:
    """A kernel built for the device."""

    compiled: CompiledKernel
    program: Any


@dataclass(frozen=True, slots=True)
class Patch:
    """A buffer argument that is bound anew at each replay: argument number, binding number, byte offset, item size."""

    argument: int
    binding: int
    offset: int
    itemsize: int


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One launch: its work-items in all and in a work-group, and what is bound anew."""

    kernel: Any
    total: tuple[int, int, int]
    local: tuple[int, int, int]
    patches: tuple[Patch, ...]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClRecording:
    """Prepared launches and copies; `views` are kept, since OpenCL kernels do not keep the buffers that they use."""

    steps: tuple[Launch | CopySpec, ...]
    views: tuple[BufferView | None, ...]
    rebindable: tuple[int, ...]


def aligned(size: int) -> HostArray:
    """Host memory of `size` bytes that begins where every vector may."""
    memory = np.empty(size + _ALIGN, np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return memory[start : start + size]


def buffer_of(view: BufferView) -> ClBuffer:
    """The buffer of a view on such a device."""
    assert isinstance(view.buffer, ClBuffer)
    return view.buffer


def set_buffer(kernel: Any, argument: int, view: BufferView, offset: int, itemsize: int) -> None:
    """Set a pointer, and after it the number of the first element."""
    kernel.set_arg(argument, buffer_of(view).memory)
    kernel.set_arg(argument + 1, np.uint64((view.offset + offset) // itemsize))


def view_at(recording: ClRecording, bindings: Sequence[BufferView], position: int, offset: int) -> BufferView:
    """The view at a position of a recording's table, from a byte offset on."""
    view = recording.views[position]
    if view is None:
        view = bindings[recording.rebindable.index(position)]
    return BufferView(view.buffer, view.offset + offset)
