"""What a device of OpenCL has made: buffers, kernels, and launches prepared with their arguments set."""
# pyright: basic

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poot.backends.device import BufferView, CopySpec, HostArray, LaunchSpec, launch_arguments
from poot.backends.opencl.arguments import launched_groups, scalar_argument
from poot.backends.opencl.platform import cl
from poot.backends.toolchain import CompiledKernel
from poot.kernel.render.opencl import kernel_arguments

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


@dataclass(slots=True, eq=False)
class ClProgram:
    """A program built for the device, and whether a kernel of it has run: drivers may compile as late as that."""

    built: Any
    has_run: bool = False


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ClKernel:
    """A kernel built for the device."""

    compiled: CompiledKernel
    program: ClProgram


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

    program: ClProgram
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


def prepared_launch(
    launch: LaunchSpec,
    views: Sequence[BufferView | None],
    rebindable: Sequence[int],
    fault: int,
    no_fault: BufferView,
) -> Launch:
    """A launch with every argument set but those that are bound anew; `fault` is -1 where the record is `no_fault`."""
    loaded = launch.loaded
    assert isinstance(loaded, ClKernel)
    compiled = loaded.compiled
    kernel = cl.Kernel(loaded.program.built, compiled.entry)
    values = {slot: (value, offset) for slot, value, offset in launch_arguments(launch)}
    patches: list[Patch] = []
    for number, (slot, what) in enumerate(kernel_arguments(compiled.kernel, faults=bool(compiled.sites))):
        value, offset = values[slot]
        if slot.kind not in ("buffer", "fault"):
            kernel.set_arg(number, scalar_argument(value, slot.dtype))
        elif what == "pointer":
            position = fault if slot.kind == "fault" else int(value)
            view = no_fault if position < 0 else views[position]
            if view is None:
                patches.append(Patch(number, rebindable.index(position), offset, slot.dtype.itemsize))
            else:
                set_buffer(kernel, number, view, offset, slot.dtype.itemsize)
    local = compiled.kernel.workgroup
    x, y, z = (count * size for count, size in zip(launched_groups(launch), local, strict=True))
    return Launch(loaded.program, kernel, (x, y, z), local, tuple(patches))


def view_at(recording: ClRecording, bindings: Sequence[BufferView], position: int, offset: int) -> BufferView:
    """The view at a position of a recording's table, from a byte offset on."""
    view = recording.views[position]
    if view is None:
        view = bindings[recording.rebindable.index(position)]
    return BufferView(view.buffer, view.offset + offset)
