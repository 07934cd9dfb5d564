"""A program loaded on a device: its kernels, where its slots stand, and jit-style calls of it.

Jit-style calls rebind inputs, outputs and arena at each call; engine entries, which fix every buffer, share the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poot import forks
from poot.backends.device import (
    Addressed,
    Buffer,
    BufferView,
    CallLayout,
    DeviceBackend,
    DirectCall,
    Loaded,
)
from poot.backends.faults import FaultCheck, Faults, OwningCheck, may_fault
from poot.backends.progress import working
from poot.backends.prologue import Prologue
from poot.backends.run import Run
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.errors import CompileError, LimitError, SourceLocation
from poot.kernel.ir import FAULT_WORDS
from poot.plan.program import Launch, Program, Role, Slot


@dataclass(slots=True)
class Positions:
    """Where things stand in a recording's table of views: bound slots first, then the arena, then the fault record."""

    bound: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def arena(self) -> int:
        return len(self.bound)

    @property
    def fault(self) -> int:
        return len(self.bound) + 1

    @property
    def count(self) -> int:
        return len(self.bound) + 2


class Executable:
    """A program loaded on a device: its kernels, and where each slot stands in a table of views."""

    def __init__(self, program: Program, device: DeviceBackend) -> None:
        self.program = program
        self.device = device
        self.kernels: tuple[Loaded, ...] = tuple(_load_all(program, device))
        self.may_fault = may_fault(loaded.compiled for loaded in self.kernels)
        self.prologue = Prologue(program, device, self.kernels) if program.prologue else None
        slots = program.storage.slots
        self.positions = Positions()
        for index, slot in enumerate(slots):
            if slot.role != "scratch":
                self.positions.bound[index] = len(self.positions.bound)
        self.lock = forks.lock()
        #: Kernels that number the turns of loops which the host enqueues: that for the first turn, and for others.
        self.count_kernels: dict[bool, Loaded] = {}

    def bound_slots(self) -> tuple[Slot, ...]:
        """The slots that a run binds, in the order of their positions."""
        return tuple(self.program.storage.slots[index] for index in self.positions.bound)

    def locate(self, slot: int, element: int = 0) -> tuple[int, int]:
        """The position and byte offset of an element of a slot."""
        plan = self.program.storage.slots[slot]
        offset = element * plan.spec.dtype.itemsize
        if plan.role == "scratch":
            return self.positions.arena, plan.offset + offset
        return self.positions.bound[slot], offset


def _load_all(program: Program, device: DeviceBackend) -> list[Loaded]:
    found: list[Loaded] = []
    with working("compiling", len(program.kernels), "kernels") as work:
        for number in range(len(program.kernels)):
            found.append(_loaded(number, program, device))
            work.advance()
    return found


def _loaded(number: int, program: Program, device: DeviceBackend) -> Loaded:
    """A kernel of a program on the device; errors name the equation and line of the first launch of it."""
    try:
        return device.load(_compiled(number, program, device))
    except CompileError as error:
        raise error.at(_first_launch(number, program)[1]) from None


def _first_launch(number: int, program: Program) -> tuple[str, SourceLocation | None]:
    """What the first launch of a kernel is for, and its line."""
    launches = (*program.launches, *(step for step in program.prologue if isinstance(step, Launch)))
    launch = next((launch for launch in launches if launch.kernel == number), None)
    if launch is None or not launch.equations:
        return "a copy", None if launch is None else launch.where
    equation = max(launch.equations)
    return f"equation {equation} ({program.planned.equations[equation].primitive})", launch.where


def _compiled(number: int, program: Program, device: DeviceBackend) -> CompiledKernel:
    """A kernel of a program, within the program's limit of artifact bytes."""
    kernel = program.kernels[number]
    compiled = compile_kernel(kernel, device.target, contract=program.contract)
    artifact: object = getattr(compiled.artifact, "image", compiled.artifact)  # of GPUs, with what a launch needs
    size = len(artifact) if isinstance(artifact, (bytes, str)) else 0
    if size > program.max_artifact_bytes:
        what, where = _first_launch(number, program)
        raise LimitError(
            resource="max_artifact_bytes",
            attempted=size,
            limit=program.max_artifact_bytes,
            by=f"in the kernel {kernel.name} of {what}",
            where=where,
        )
    return compiled


_CLEAR = np.zeros(FAULT_WORDS, np.int32)


def _no_direct_call(addresses: list[int]) -> tuple[list[Any], Any]:
    raise AssertionError("asked for before `make_direct`")


class Call:
    """The jit-style form: everything is rebound at each call, and outputs are fresh buffers that the caller owns."""

    def __init__(self, program: Program, device: DeviceBackend) -> None:
        self.executable = Executable(program, device)
        self._run = Run(self.executable, [None] * self.executable.positions.count)
        #: What a fault record that a run leaves is read with.
        self.faults = Faults(device, program, tuple(loaded.compiled for loaded in self.executable.kernels))
        slots = self.executable.bound_slots()
        self.run_direct: DirectCall = _no_direct_call
        #: Whether `make_direct` has made it.
        self.is_direct = False
        self.outputs = [index for index, slot in enumerate(slots) if slot.role == "output"]
        self.sizes = [slots[index].nbytes for index in self.outputs]
        order = {position: number for number, position in enumerate(self.outputs)}
        #: For each output of the graph, which of the fresh buffers holds it.
        self.output_buffers = tuple(order[self.executable.positions.bound[slot]] for slot in program.outputs)
        #: The positions of kept slots, in the order of the prologue's recipes.
        self.kept = [index for index, slot in enumerate(slots) if slot.role == "kept"]
        arguments = {(slot.role, slot.name): index for index, slot in enumerate(slots) if slot.name}
        graph = program.graph

        def place(role: Role, name: str) -> int:
            return arguments.get((role, name), -1)

        self.arguments = [place("constant", variable.name) for variable in graph.constants]
        self.arguments += [place("input", variable.name) for variable in graph.inputs]
        self.arguments += [place("state", variable.name) for variable in graph.states]
        bound = list(self.executable.positions.bound)
        #: The slot of each argument, -1 for one that nothing reads.
        self.argument_slots = [bound[position] if position >= 0 else -1 for position in self.arguments]

    def fill(self, wanted: Mapping[int, Buffer], filled: Mapping[int, Buffer], arguments: Sequence[BufferView]) -> None:
        """Fill kept slots, given by number: those in `wanted`, while those in `filled` are ready."""
        assert self.executable.prologue is not None
        views = {slot: view for slot, view in zip(self.argument_slots, arguments, strict=True) if slot >= 0}
        views |= {slot: BufferView(buffer) for slot, buffer in filled.items()}
        with self.executable.lock:
            self.executable.prologue.fill(wanted, views)

    def _filled(self, arguments: Sequence[BufferView], done: contextlib.ExitStack) -> Sequence[Buffer]:
        """Kept slots for this call alone."""
        wanted: dict[int, Buffer] = {}
        for slot in self.executable.program.storage.kept:
            wanted[slot] = self.executable.device.allocate(self.executable.program.storage.slots[slot].nbytes)
            done.callback(self.executable.device.free, wanted[slot])
        self.fill(wanted, {}, arguments)
        return list(wanted.values())

    def __call__(
        self, arguments: Sequence[BufferView], kept: Sequence[Buffer] | None = None
    ) -> tuple[list[Buffer], FaultCheck | None]:
        """Run once.

        `arguments` are the graph's constants, inputs and states, in that order; the result is one fresh buffer an
        output slot in the order of positions (`output_buffers` maps them to the graph's outputs), and the fault check
        to make before the results are read.  `kept` are the program's kept slots, filled from constants with the same
        contents; without them the prologue runs as well.
        """
        with contextlib.ExitStack() as done:
            if kept is None:
                kept = self._filled(arguments, done) if self.kept else ()
            return self._call(arguments, kept)

    def _call(self, arguments: Sequence[BufferView], kept: Sequence[Buffer]) -> tuple[list[Buffer], FaultCheck | None]:
        device = self.executable.device
        program = self.executable.program
        with contextlib.ExitStack() as failed:
            bindings: list[Any] = [None] * self.executable.positions.count
            for position, view in zip(self.arguments, arguments, strict=True):
                if position >= 0:
                    bindings[position] = view
            for position, buffer in zip(self.kept, kept, strict=True):
                bindings[position] = BufferView(buffer)
            made: list[Buffer] = []
            for position, nbytes in zip(self.outputs, self.sizes, strict=True):
                buffer = device.allocate(nbytes)
                failed.callback(device.free, buffer)
                made.append(buffer)
                bindings[position] = BufferView(buffer)
            arena = device.allocate(program.storage.arena_bytes)
            try:
                bindings[-2] = BufferView(arena)
                check = self._fault_record(bindings, failed)
                # In the middle of another call's run the recordings are that one's, so this one makes its own.
                run = Run(self.executable, [None] * len(bindings)) if forks.is_mine(self.executable.lock) else self._run
                with self.executable.lock:
                    run.run(bindings)
            finally:
                device.free(arena)
            failed.pop_all()
        return made, check

    def make_direct(self) -> bool:
        """Whether `run_direct` is the same call on plain addresses, kept slots after arguments: for one recording that
        is made already, on devices whose buffers have addresses.
        """
        device, positions = self.executable.device, self.executable.positions
        recording = self._run.only_recording()
        if recording is None or not isinstance(device, Addressed):
            return False
        if self.run_direct is _no_direct_call:
            layout = CallLayout(
                (*self.arguments, *self.kept),
                tuple(zip(self.outputs, self.sizes, strict=True)),
                positions.arena,
                self.executable.program.storage.arena_bytes,
                positions.fault if self.executable.may_fault else -1,
            )
            self.run_direct = device.direct_call(recording, layout)
            self.is_direct = True
        return True

    def _fault_record(self, bindings: list[Any], failed: contextlib.ExitStack) -> FaultCheck | None:
        if not self.executable.may_fault:
            bindings[-1] = bindings[-2]
            return None
        device = self.executable.device
        check = OwningCheck(self.faults, device.allocate(4 * FAULT_WORDS))
        failed.callback(check.discard)
        assert check.record is not None
        bindings[-1] = BufferView(check.record)
        device.write(bindings[-1], _CLEAR)
        return check
