# pyright: basic
"""From a recording's steps to native memory: which words hold the addresses of which views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poot.backends.cuda.launches import Launch, LoadedKernel, Move, StepList, fold, scratch_bytes, word
from poot.backends.cuda.memory import address_of
from poot.backends.device import BufferView, CopySpec, LaunchSpec, RecordedStep, launch_arguments

if TYPE_CHECKING:
    from poot.backends.cuda.device import CudaDevice

#: Where an address goes: (step, argument of the step, byte offset to add).
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Global memory that a launch wants for itself: its address goes to argument `index` of `step`."""

    step: int
    index: int
    nbytes: int
    align: int


@dataclass(slots=True, eq=False)
class CudaRecording:
    """Steps and the places of each rebindable position; a graph of them where they are many and nothing is rebound."""

    steps: tuple[Launch | Move, ...]
    places: dict[int, tuple[Place, ...]]
    scratch: tuple[Scratch, ...]
    list: StepList
    patches: tuple[tuple[tuple[int, int], ...], ...]
    graph: Any
    keep: tuple[object, ...] = field(repr=False)


def lay_out(
    device: CudaDevice,
    stream: Any,
    steps: Sequence[RecordedStep],
    views: Sequence[BufferView | None],
    rebindable: Sequence[int],
    fault: int,
) -> CudaRecording:
    """Steps in native memory over a table of views; launches of nothing are left out.

    The calling thread has the device's context, and `stream` is its current one.
    """
    places: dict[int, list[Place]] = {position: [] for position in (*range(len(views)), *rebindable)}
    prepared: list[Launch | Move] = []
    for step in steps:
        made, found = _copy(step) if isinstance(step, CopySpec) else _launch(step, fault)
        if isinstance(made, Move) or 0 not in made.grid:
            for index, position, offset in found:
                places[position].append((len(prepared), index, offset))
            prepared.append(made)
    laid = StepList(prepared, device.driver.table, device.context)
    keep: list[object] = []
    for position, view in enumerate(views):
        if view is not None:
            keep.append(view)
            for step, index, offset in places[position]:
                laid.words[laid.argument(step, index)] = address_of(view) + offset
    scratch = tuple(_scratches(prepared))
    for item in scratch:
        memory = device.reserve.take(stream, item.nbytes)
        laid.words[laid.argument(item.step, item.index)] = -(-memory.address // item.align) * item.align
        keep.append(memory)
    kept = {position: tuple(places[position]) for position in rebindable}
    patches = tuple(
        tuple((laid.argument(step, index), offset) for step, index, offset in kept[position]) for position in rebindable
    )
    return CudaRecording(tuple(prepared), kept, scratch, laid, patches, None, tuple(keep))


def _copy(step: CopySpec) -> tuple[Move, list[Place]]:
    return Move(0, 0, step.nbytes), [(0, step.target, step.target_offset), (1, step.source, step.source_offset)]


def _launch(step: LaunchSpec, fault: int) -> tuple[Launch, list[Place]]:
    """A launch, and which of its arguments are addresses: (argument, position of the table, byte offset)."""
    kernel = step.loaded
    assert isinstance(kernel, LoadedKernel)
    words: list[int] = []
    found: list[Place] = []
    for slot, value, offset in launch_arguments(step):
        if slot.kind == "buffer":
            found.append((len(words), int(value), offset))
            words.append(0)
        elif slot.kind == "fault":
            if fault >= 0:
                found.append((len(words), fault, 0))
            words.append(0)
        else:
            words.append(word(value, slot.dtype))
    grid = fold(step.groups, kernel.compiled.kernel.name)
    scratch = scratch_bytes(kernel, grid) if kernel.code.hidden else 0
    return Launch(kernel, grid, (*words, *[0] * kernel.code.hidden), scratch), found


def _scratches(steps: Sequence[Launch | Move]) -> Iterator[Scratch]:
    for number, step in enumerate(steps):
        if isinstance(step, Launch) and step.scratch:
            code = step.kernel.code
            align = code.scratch_align
            yield Scratch(number, len(step.arguments) - code.hidden, step.scratch + align, align)
