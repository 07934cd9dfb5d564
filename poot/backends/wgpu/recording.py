"""Launches prepared for wgpu: pipelines, words of parameters, and bind groups that are kept by the buffers they bind.

Buffers are bound from their start, and the number of a view's first element goes with the parameters, so that views at
any offset use the same bind group.  Only buffers that are longer than one binding may be are bound from further on.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from poot.backends.device import BufferView, LaunchSpec, launch_arguments
from poot.backends.toolchain import CompiledKernel
from poot.backends.wgpu.adapter import wgpu
from poot.dtypes import DType, bool_
from poot.errors import CompileError, DeviceError, LaunchError
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel, Slot
from poot.kernel.render.threads_text import ThreadsSource
from poot.kernel.render.wgsl_parameters import FIXED_WORDS, parameter_words

BLOCK_WORDS = 64
"""Parameters of a launch start at multiples of 256 bytes, as bindings of storage buffers have to."""

COPY_LANES = 256

#: A pipeline, its bind group, and the counts of a launch.
Command: TypeAlias = tuple[Any, Any, tuple[int, int, int]]

_BIND_GROUPS = 16
_BINDING_ALIGN = 256


#: How wgpu says of a call that its device is gone: there is no class for it.
_LOSS = re.compile(r"device (is |was )?lost|device_?lost", re.IGNORECASE)


def is_loss(error: BaseException) -> bool:
    """Whether an error of wgpu says that the device has stopped working for good."""
    return _LOSS.search(str(error)) is not None


#: What ends a device besides its own end: wgpu names the call alone, and makes no difference between the errors.
_CAUSES = {
    "In wgpuDeviceCreateComputePipeline": "its driver could not make this kernel, and wgpu gives a device up for that",
    "Not enough memory": "wgpu gives a device up that has no memory for what passes through; smaller arrays may help",
}


def why_lost(error: BaseException) -> str:
    """What wgpu says of the error that ended a device, and what that means."""
    said = str(error).rstrip(".")
    return "; ".join([said, *(cause for sign, cause in _CAUSES.items() if sign in said)])


@dataclass(slots=True, eq=False, weakref_slot=True)
class WgpuBuffer:
    """Device memory; `size` bytes are really there, `nbytes` were asked for."""

    memory: Any
    serial: int
    nbytes: int
    size: int
    freed: bool = False


@dataclass(slots=True, eq=False)
class Pipeline:
    """A pipeline with its bind group layout, and whether the driver has been given a launch of it."""

    made: Any
    layout: Any
    launched: bool = False


class WgpuKernel:
    """A kernel as a pipeline, and as one that may write to all buffers, for launches that read what they write."""

    def __init__(self, device: Any, compiled: CompiledKernel) -> None:
        source = compiled.artifact
        assert isinstance(source, ThreadsSource)
        self.compiled = compiled
        self.faults = bool(compiled.sites)
        self.words = parameter_words(compiled.kernel, faults=self.faults)
        self.param_words = len(FIXED_WORDS) + sum(words for _, words in self.words)
        self._device = device
        self._source = source
        self._pipelines: dict[bool, Pipeline] = {}
        self.pipeline(writable=False)

    def pipeline(self, *, writable: bool) -> Pipeline:
        """The pipeline; with `writable`, every buffer is bound for writing."""
        if writable not in self._pipelines:
            try:
                self._pipelines[writable] = self._make(writable)
            except (wgpu.GPUError, RuntimeError) as error:
                if is_loss(error):
                    raise
                raise self._refused(str(error)) from error
        return self._pipelines[writable]

    def _make(self, writable: bool) -> Pipeline:
        text = self._source.text
        if writable:
            head, params, rest = text.partition("params: Params;")
            text = head + params + rest.replace("var<storage, read> ", "var<storage, read_write> ")
        kinds = [
            "storage" if writable or b.access != "read" else "read-only-storage" for b in self.compiled.kernel.buffers
        ]
        kinds = ["read-only-storage", *kinds, *(["storage"] if self.faults else [])]
        entries = [
            {"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
            for number, kind in enumerate(kinds)
        ]
        layout = self._device.create_bind_group_layout(entries=entries)
        pipeline = self._device.create_compute_pipeline(
            layout=self._device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={
                "module": self._device.create_shader_module(code=text),
                "entry_point": self._source.entry,
            },
        )
        return Pipeline(pipeline, layout)

    def _refused(self, log: str) -> CompileError:
        """The compiler's message, with the line of the user's that the text it names came from."""
        line = log.partition("wgsl:")[2].partition(":")[0]
        where = self._source.location(int(line)) if line.isdigit() else None
        kernel = self.compiled.kernel
        return CompileError(
            what=f"kernel {kernel.name}", target=self.compiled.target, message=log.strip(), where=where or kernel.where
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """A buffer of a launch: its position in the table of views, a byte offset, the size of an element, its word."""

    position: int
    offset: int
    itemsize: int
    word: int


class Parameters:
    """The words of a recording's parameters, and the buffer that holds them on the device.

    Words change one at a time, and what is being done may fail between two of them: those that the device does not have
    yet stay marked until it has them.
    """

    def __init__(self, device: Any, words: Any) -> None:
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST
        self.words = words
        self.memory = device.create_buffer(size=words.nbytes, usage=usage)
        self._stale = True

    def set(self, word: int, value: int) -> None:
        """Give a word a value."""
        if self.words[word] != value:
            self._stale = True
            self.words[word] = value

    def upload(self, queue: Any) -> None:
        """See to it that the device has every word, in order with launches."""
        if self._stale:
            queue.write_buffer(self.memory, 0, self.words)
            self._stale = False


class Dispatch:
    """One launch of a recording; `block` is where its words start in those of the recording."""

    def __init__(self, kernel: WgpuKernel, launch: LaunchSpec, block: int, fault: int, limit: int) -> None:
        self.kernel = kernel
        self.block = block
        self.blocks = -(-kernel.param_words // BLOCK_WORDS)
        self.counts = fold(launch.groups, limit)
        self.places: list[_Place] = []
        self.values: list[tuple[int, int]] = []  # word, value
        self._groups: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        folded = self.counts != launch.groups
        for word, value in enumerate((0, int(folded), *launch.groups)):
            self.values.append((block + word, value))
        given = {slot: (value, offset) for slot, value, offset in launch_arguments(launch)}
        word = block + len(FIXED_WORDS)
        for slot, count in kernel.words:
            value, offset = given[slot]
            if slot.kind in ("buffer", "fault"):
                position = fault if slot.kind == "fault" else int(value)
                self.places.append(_Place(position, offset, slot.dtype.itemsize, word))
            else:
                self.values += [(word + n, part) for n, part in enumerate(_words(value, slot, count))]
            word += count

    def bind(self, device: Any, table: Sequence[BufferView], params: Parameters, limit: int) -> tuple[Pipeline, Any]:
        """The pipeline and bind group for a table of views, whose first elements' numbers go to the parameters."""
        key: list[tuple[int, int]] = []
        for place in self.places:
            view = table[place.position]
            buffer: Any = view.buffer
            byte = view.offset + place.offset
            start = 0 if buffer.size <= limit else byte // _BINDING_ALIGN * _BINDING_ALIGN
            first, rest = divmod(byte - start, place.itemsize)
            if rest:
                raise _misplaced(self.kernel.compiled, byte, place.itemsize)
            params.set(place.word, first)
            key.append((buffer.serial, start))
        found = self._groups.pop(tuple(key), None)
        if found is None:
            buffers = [table[place.position].buffer for place in self.places]
            found = self._make_group(device, buffers, key, params.memory, limit)
        self._groups[tuple(key)] = found  # now the one that was used last
        if len(self._groups) > _BIND_GROUPS:
            self._groups.popitem(last=False)
        return found

    def _make_group(
        self, device: Any, buffers: list[Any], key: list[tuple[int, int]], params: Any, limit: int
    ) -> tuple[Pipeline, Any]:
        accesses = [buffer.access != "read" for buffer in self.kernel.compiled.kernel.buffers]
        accesses += [True] * self.kernel.faults
        written = {buffer.serial for buffer, writes in zip(buffers, accesses, strict=True) if writes}
        both = any(buffer.serial in written for buffer, writes in zip(buffers, accesses, strict=True) if not writes)
        pipeline = self.kernel.pipeline(writable=both)
        resources = [{"buffer": params, "offset": 4 * self.block, "size": _align(4 * self.kernel.param_words, 16)}]
        for buffer, (_, start) in zip(buffers, key, strict=True):
            resources.append({"buffer": buffer.memory, "offset": start, "size": min(buffer.size - start, limit)})
        entries = [{"binding": number, "resource": resource} for number, resource in enumerate(resources)]
        return pipeline, device.create_bind_group(layout=pipeline.layout, entries=entries)


def encoded(device: Any, commands: Sequence[Command]) -> Any:
    """The command buffer of some launches."""
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    last = None
    for pipeline, group, counts in commands:
        if pipeline is not last:
            work.set_pipeline(pipeline)
            last = pipeline
        work.set_bind_group(0, group)
        work.dispatch_workgroups(*counts)
    work.end()
    return encoder.finish()


def fold(groups: tuple[int, int, int], limit: int) -> tuple[int, int, int]:
    """The shape of a dispatch of at least as many work-groups, none of its counts past the limit."""
    if max(groups) <= limit:
        return groups
    total = groups[0] * groups[1] * groups[2]
    if total > min(limit**3, 2**32 - 1):
        raise DeviceError(device="wgpu", message=f"{total} work-groups are more than one launch can have")
    rows = -(-total // limit)
    x = -(-total // rows) if rows <= limit else limit
    planes = -(-rows // limit)
    return x, -(-rows // planes), planes


def _align(value: int, to: int) -> int:
    return -(-value // to) * to


def _words(value: int | float, slot: Slot, count: int) -> list[int]:
    """The words of a number; integers narrower than a word are extended, the 16-bit floats are their bits."""
    dtype = slot.dtype
    if dtype is bool_:
        return [int(bool(value))]
    if dtype.is_float:
        bits = int.from_bytes(np.asarray(value, dtype.dtype).tobytes(), "little")
    else:
        bits = int(dtype.dtype.type(value)) & (2**64 - 1)
    return [(bits >> (32 * n)) & 0xFFFFFFFF for n in range(count)]


def _misplaced(compiled: CompiledKernel, byte: int, itemsize: int) -> LaunchError:
    return LaunchError(
        kernel=compiled.kernel.name,
        message=f"a view starts at byte {byte}, which is no multiple of its elements' {itemsize} bytes",
        where=compiled.kernel.where,
        remedy="pass a copy of the array, which starts where its memory does.",
    )


def copy_kernel(dtype: DType) -> Kernel:
    """`target[i] = source[i]`."""
    k = KernelBuilder(f"copy_{dtype.name}", workgroup=(COPY_LANES, 1, 1), threads=(None, 1, 1))
    source = k.buffer("source", dtype, "read", (None,))
    target = k.buffer("target", dtype, "write", (None,))
    index = k.index("thread", 0)
    k.store(target, (index,), k.load(source, (index,)))
    return k.finish()
