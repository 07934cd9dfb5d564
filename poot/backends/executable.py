"""A program loaded on a device: its kernels, and its steps as recordings that the host strings together.

Runs of launches and copies become one recording each, made when first reached and replayed from then on; branches and
loops are decided by the host between them.  Jit-style calls and engine entries share this module: the former rebind
their inputs, outputs and arena at each call, the latter fix every buffer.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from poot.backends.device import Buffer, BufferView, CopySpec, DeviceBackend, LaunchSpec, Loaded, Recording
from poot.backends.faults import FaultCheck, may_fault
from poot.backends.toolchain import CompiledKernel, compile_kernel
from poot.errors import LimitError
from poot.kernel.ir import FAULT_WORDS, Kernel
from poot.plan.program import Branch, Copy, Launch, Loop, Program, Role, Slot, Step


@dataclass(slots=True)
class _Segment:
    """Launches and copies between two decisions of the host."""

    steps: tuple[LaunchSpec | CopySpec, ...]
    recording: Recording | None = None


@dataclass(slots=True)
class _Branch:
    predicate: int
    blocks: tuple[list[_Node], list[_Node]]


@dataclass(slots=True)
class _Loop:
    condition: list[_Node]
    body: list[_Node]
    step: Loop


_Node = _Segment | _Branch | _Loop


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
        self.kernels: tuple[Loaded, ...] = tuple(
            device.load(_compiled(kernel, program, device)) for kernel in program.kernels
        )
        self.may_fault = may_fault(loaded.compiled for loaded in self.kernels)
        slots = program.storage.slots
        self.positions = Positions()
        for index, slot in enumerate(slots):
            if slot.role != "scratch":
                self.positions.bound[index] = len(self.positions.bound)
        self.lock = threading.RLock()
        _executables.add(self)

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


def _compiled(kernel: Kernel, program: Program, device: DeviceBackend) -> CompiledKernel:
    """A kernel of a program, within the program's limit of artifact bytes."""
    compiled = compile_kernel(kernel, device.target, contract=program.contract)
    size = len(compiled.artifact) if isinstance(compiled.artifact, (bytes, str)) else 0
    if size > program.max_artifact_bytes:
        raise LimitError(resource="max_artifact_bytes", attempted=size, limit=program.max_artifact_bytes)
    return compiled


_executables: weakref.WeakSet[Executable] = weakref.WeakSet()


def _after_fork() -> None:
    for executable in list(_executables):
        executable.lock = threading.RLock()  # whichever thread held it is not in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Run:
    """An executable over one table of views, fixed or rebindable; holds the recordings."""

    def __init__(
        self,
        executable: Executable,
        views: Sequence[BufferView | None],
        last: Sequence[LaunchSpec | CopySpec] = (),
    ) -> None:
        self.executable = executable
        self.views = list(views)
        self.rebindable = tuple(position for position, view in enumerate(views) if view is None)
        self.records = 0
        self.replays = 0
        self._launches = 0
        self._counter = 0
        self._nodes = self._build(executable.program.steps, tuple(last))

    # --- from steps to nodes ---

    def _build(self, steps: tuple[Step, ...], last: tuple[LaunchSpec | CopySpec, ...] = ()) -> list[_Node]:
        nodes: list[_Node] = []
        pending: list[LaunchSpec | CopySpec] = []

        def close() -> None:
            if pending:
                nodes.append(_Segment(tuple(pending)))
                pending.clear()

        for step in steps:
            match step:
                case Launch():
                    pending.append(self._launch(step))
                case Copy():
                    pending += self._copy(step)
                case Branch():
                    close()
                    first, second = step.blocks
                    nodes.append(_Branch(step.predicate, (self._build(first), self._build(second))))
                case Loop():
                    close()
                    nodes.append(_Loop(self._build(step.condition), self._build(step.body), step))
        pending += last
        close()
        return nodes

    def _launch(self, step: Launch) -> LaunchSpec:
        number = self._launches
        self._launches += 1
        loaded = self.executable.kernels[step.kernel]
        buffers = tuple(self.executable.locate(binding.slot, binding.offset) for binding in step.bindings)
        return LaunchSpec(loaded, buffers, step.groups, (), number)

    def _copy(self, step: Copy) -> list[LaunchSpec | CopySpec]:
        """Copies of whole slots; slots inside the arena are not at the start of their position, hence the views."""
        nbytes = self.executable.program.storage.slots[step.source].nbytes
        if nbytes == 0:
            return []
        source, source_offset = self.executable.locate(step.source)
        target, target_offset = self.executable.locate(step.target)
        return [CopySpec(source, target, nbytes, source_offset, target_offset)]

    # --- running ---

    def run(self, bindings: Sequence[BufferView] = ()) -> None:
        """Run every step once; `bindings` fill the rebindable positions in order."""
        self._run(self._nodes, bindings)

    def _run(self, nodes: list[_Node], bindings: Sequence[BufferView]) -> None:
        for node in nodes:
            match node:
                case _Segment():
                    self._segment(node, bindings)
                case _Branch():
                    taken = bool(self._read(node.predicate, bindings))
                    self._run(node.blocks[int(taken)], bindings)
                case _Loop():
                    self._loop(node, bindings)

    def only_recording(self) -> Recording | None:
        """The recording of a program that is one segment, once made; None for others."""
        nodes = self._nodes
        return nodes[0].recording if len(nodes) == 1 and isinstance(nodes[0], _Segment) else None

    def _segment(self, node: _Segment, bindings: Sequence[BufferView]) -> None:
        device = self.executable.device
        if node.recording is None:
            fault = self.executable.positions.fault if self.executable.may_fault else -1
            node.recording = device.record(node.steps, self.views, self.rebindable, bindings, fault)
            self.records += 1
        else:
            device.replay(node.recording, bindings)
            self.replays += 1

    def _loop(self, node: _Loop, bindings: Sequence[BufferView]) -> None:
        turn = 0
        while node.step.trip_count < 0 or turn < node.step.trip_count:
            if node.step.counter >= 0:
                view = self._view(node.step.counter, bindings)
                self.executable.device.write(view, np.array(turn, np.int32))
            if node.step.trip_count < 0:
                self._run(node.condition, bindings)
                if not self._read(node.step.predicate, bindings):
                    return
            self._run(node.body, bindings)
            turn += 1

    def _view(self, slot: int, bindings: Sequence[BufferView]) -> BufferView:
        position, offset = self.executable.locate(slot)
        view = self.views[position]
        if view is None:
            view = bindings[self.rebindable.index(position)]
        return BufferView(view.buffer, view.offset + offset)

    def _read(self, slot: int, bindings: Sequence[BufferView]) -> Any:
        spec = self.executable.program.storage.slots[slot].spec
        out = np.empty(spec.shape, spec.dtype.dtype)
        self.executable.device.read(self._view(slot, bindings), out)
        return out[()]


class AddressDevice(Protocol):
    """A device whose buffers are plain host addresses."""

    def allocate(self, nbytes: int) -> Any:
        """A buffer with an `address`."""
        ...

    def free(self, buffer: Any) -> None:
        """Give it back."""
        ...

    def replay_addresses(self, recording: Any, addresses: Sequence[int]) -> None:
        """`replay` with an address for each rebindable position."""
        ...


class AddressCall:
    """A jit-style call on addresses: what `Call` does, for one recording that cannot fault."""

    def __init__(self, call: Call, device: AddressDevice, recording: Recording) -> None:
        self._device = device
        self._recording = recording
        self._executable = call.executable
        self._arguments = call.arguments
        self._outputs = tuple(zip(call.outputs, call.sizes, strict=True))
        self._arena = call.executable.program.storage.arena_bytes
        self._count = call.executable.positions.count

    @staticmethod
    def of(call: Call, run: Run) -> AddressCall | None:
        """The short form of a call that has run; None where there is none."""
        device = call.executable.device
        recording = run.only_recording()
        if call.executable.may_fault or recording is None or not hasattr(device, "replay_addresses"):
            return None
        return AddressCall(call, cast("AddressDevice", device), recording)

    def __call__(self, arguments: Sequence[int]) -> list[Buffer]:
        """Run on the addresses of the graph's constants, inputs and states; the fresh output buffers."""
        addresses = [0] * self._count
        for position, address in zip(self._arguments, arguments, strict=True):
            addresses[position] = address  # an unused argument writes position -1, the fault record's, which is unused
        made: list[Any] = []
        device = self._device
        arena = None
        try:
            for position, nbytes in self._outputs:
                buffer = device.allocate(nbytes)
                made.append(buffer)
                addresses[position] = buffer.address
            if self._arena:
                arena = device.allocate(self._arena)
                addresses[-2] = arena.address
            with self._executable.lock:
                device.replay_addresses(self._recording, addresses)
        except BaseException:
            for buffer in made:
                device.free(buffer)
            raise
        finally:
            if arena is not None:
                device.free(arena)
        return made


_CLEAR = np.zeros(FAULT_WORDS, np.int32)


class Call:
    """The jit-style form: everything is rebound at each call, and outputs are fresh buffers that the caller owns."""

    def __init__(self, program: Program, device: DeviceBackend) -> None:
        self.executable = Executable(program, device)
        self._run = Run(self.executable, [None] * self.executable.positions.count)
        slots = self.executable.bound_slots()
        self._short: AddressCall | None = None
        self.outputs = [index for index, slot in enumerate(slots) if slot.role == "output"]
        self.sizes = [slots[index].nbytes for index in self.outputs]
        self._order = [index for index, slot in enumerate(slots) if slot.role != "output"]
        arguments = {(slot.role, slot.name): index for index, slot in enumerate(slots) if slot.role != "output"}
        graph = program.graph

        def place(role: Role, name: str) -> int:
            return arguments.get((role, name), -1)

        self.arguments = [place("constant", variable.name) for variable in graph.constants]
        self.arguments += [place("input", variable.name) for variable in graph.inputs]
        self.arguments += [place("state", variable.name) for variable in graph.states]

    def __call__(self, arguments: Sequence[BufferView]) -> tuple[list[Buffer], FaultCheck | None]:
        """Run once.

        `arguments` are the graph's constants, inputs and states, in that order; the result is one fresh buffer an
        output slot in the order of positions (`output_buffers` maps them to the graph's outputs), and the fault check
        to make before the results are read.
        """
        device = self.executable.device
        program = self.executable.program
        with contextlib.ExitStack() as failed:
            bindings: list[Any] = [None] * self.executable.positions.count
            for position, view in zip(self.arguments, arguments, strict=True):
                if position >= 0:
                    bindings[position] = view
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
                with self.executable.lock:
                    self._run.run(bindings)
            finally:
                device.free(arena)
            failed.pop_all()
        return made, check

    def by_address(self) -> AddressCall | None:
        """The same call on plain addresses, once it has run: for one recording that cannot fault, on such devices."""
        if self._short is None:
            self._short = AddressCall.of(self, self._run)
        return self._short

    def _fault_record(self, bindings: list[Any], failed: contextlib.ExitStack) -> FaultCheck | None:
        if not self.executable.may_fault:
            bindings[-1] = bindings[-2]
            return None
        device = self.executable.device
        record = device.allocate(4 * FAULT_WORDS)
        failed.callback(device.free, record)
        bindings[-1] = BufferView(record)
        device.write(bindings[-1], _CLEAR)
        kernels = [loaded.compiled for loaded in self.executable.kernels]
        return FaultCheck(device, record, self.executable.program, kernels)

    @property
    def output_buffers(self) -> tuple[int, ...]:
        """For each output of the graph, which of the fresh buffers holds it."""
        place = {position: number for number, position in enumerate(self.outputs)}
        return tuple(place[self.executable.positions.bound[slot]] for slot in self.executable.program.outputs)
