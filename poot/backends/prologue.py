"""The prologue of a program on its device: how each kept slot is made of constants, and the launches that fill them.

Kept slots outlive a step.  Whoever runs the program holds their buffers, and fills them anew when a constant's contents
change; a recipe's key tells which of them other programs have made already.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from poot.backends.device import Buffer, BufferView, CopySpec, DeviceBackend, LaunchSpec, Loaded, RecordedStep
from poot.kernel.text import kernel_hash
from poot.plan.program import Copy, Launch, Program


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a kept slot is made: equal keys stand for equal launches on the `sources`, slots of constants, in order."""

    slot: int
    key: str
    sources: tuple[int, ...]


#: A recipe's key, and what tells the memory of its sources from all other.
KeptKey: TypeAlias = tuple[str, tuple[int, ...]]


@dataclass(slots=True)
class Kept:
    """A filled kept slot that several entries may share; it is freed with the last."""

    key: KeptKey
    buffer: Buffer
    nbytes: int
    users: int = 0


class Prologue:
    """The prologue of a loaded program."""

    def __init__(self, program: Program, device: DeviceBackend, kernels: Sequence[Loaded]) -> None:
        self._program = program
        self._device = device
        self._kernels = kernels
        #: The steps that write a slot, by slot.
        self._makers: dict[int, list[int]] = {}
        for number, step in enumerate(program.prologue):
            for slot in self._written(step):
                self._makers.setdefault(slot, []).append(number)
        hashes: dict[int, str] = {}
        self.recipes = tuple(self._recipe(slot, hashes) for slot in program.storage.kept)

    def _written(self, step: Launch | Copy) -> list[int]:
        if isinstance(step, Copy):
            return [step.target]
        buffers = self._program.kernels[step.kernel].buffers
        pairs = zip(step.bindings, buffers, strict=True)
        return [binding.slot for binding, param in pairs if param.access != "read"]

    @staticmethod
    def _touched(step: Launch | Copy) -> list[int]:
        return [step.source, step.target] if isinstance(step, Copy) else [each.slot for each in step.bindings]

    def _needed(self, wanted: Sequence[int], filled: Mapping[int, object]) -> list[int]:
        """The steps that make the wanted slots, in order; what is filled already is not made again."""
        steps: set[int] = set()
        pending = list(wanted)
        while pending:
            for number in self._makers.get(pending.pop(), ()):
                if number not in steps:
                    steps.add(number)
                    pending += [slot for slot in self._touched(self._program.prologue[number]) if slot not in filled]
        return sorted(steps)

    def _recipe(self, slot: int, hashes: dict[int, str]) -> Recipe:
        program = self._program
        numbers: dict[int, int] = {}
        digest = hashlib.sha256(f"{program.target.fingerprint} {program.contract}".encode())
        sources: list[int] = []
        for number in self._needed([slot], {}):
            step = program.prologue[number]
            if isinstance(step, Launch):
                if step.kernel not in hashes:
                    hashes[step.kernel] = kernel_hash(program.kernels[step.kernel])
                digest.update(f"{hashes[step.kernel]} {step.groups} {[b.offset for b in step.bindings]}".encode())
            for each in self._touched(step):
                if each not in numbers and program.storage.slots[each].role in ("constant", "input"):
                    sources.append(each)
                digest.update(f" {numbers.setdefault(each, len(numbers))} {program.storage.slots[each].spec}".encode())
        digest.update(f" {numbers[slot]}".encode())
        return Recipe(slot, digest.hexdigest(), tuple(sources))

    # --- running ---

    def fill(self, wanted: Mapping[int, Buffer], views: Mapping[int, BufferView]) -> None:
        """Fill the kept slots in `wanted`; `views` are those of the constants, and of kept slots that are filled."""
        device, storage = self._device, self._program.storage
        steps = [self._program.prologue[number] for number in self._needed(list(wanted), views)]
        with contextlib.ExitStack() as finally_free:

            def temporary(nbytes: int) -> BufferView:
                buffer = device.allocate(nbytes)
                finally_free.callback(device.free, buffer)
                return BufferView(buffer)

            arena = temporary(storage.prologue_bytes)
            table: list[BufferView] = []
            places: dict[int, int] = {}
            for step in steps:
                written = self._written(step)
                for slot in self._touched(step):
                    if slot in places:
                        continue
                    plan = storage.slots[slot]
                    places[slot] = len(table)
                    if plan.role == "scratch":
                        table.append(BufferView(arena.buffer, arena.offset + plan.offset))
                    elif slot in wanted:
                        table.append(BufferView(wanted[slot]))
                    else:  # one that is filled already stays as it is, since others may be reading it
                        table.append(temporary(plan.nbytes) if slot in written else views[slot])
            device.record(list(self._specs(steps, places)), table, (), ())
            device.synchronize()

    def _specs(self, steps: Sequence[Launch | Copy], places: Mapping[int, int]) -> Iterator[RecordedStep]:
        slots = self._program.storage.slots
        for step in steps:
            if isinstance(step, Copy):
                if slots[step.source].nbytes:
                    yield CopySpec(places[step.source], places[step.target], slots[step.source].nbytes)
                continue
            buffers = tuple((places[b.slot], b.offset * slots[b.slot].spec.dtype.itemsize) for b in step.bindings)
            yield LaunchSpec(self._kernels[step.kernel], buffers, step.groups)
