"""A loaded program over one table of views: its steps as recordings, and the decisions between them.

A device that decides branches and loops by itself gets the whole program as one recording.  For others, runs of
launches and copies become one recording each, made when first reached and replayed from then on, and the host decides
between them.  A loop of known length is enqueued without waiting for anything: its turns stand in one recording, as
many as are reasonable, and a small kernel counts them.  The condition of another loop has to be read; where further
turns would change nothing, several go by before the next look.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poot.backends.device import (
    BranchSpec,
    BufferView,
    ControlledStep,
    Controlling,
    CopySpec,
    LaunchSpec,
    LoopSpec,
    RecordedStep,
    Recording,
)
from poot.backends.toolchain import compile_kernel
from poot.dtypes import i32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Kernel
from poot.plan.program import Branch, Copy, Launch, Loop, Step

if TYPE_CHECKING:
    from poot.backends.executable import Executable

#: Launches and copies of one recording that turns of a loop may fill.
_MOST_UNROLLED = 256
#: Turns between two looks at a condition: a share of those that have run, so that few are in vain, and at most this.
_MOST_UNSEEN = 64
#: Turns of one recording of a loop whose condition is looked at now and then.
_TOGETHER = 8

_Place = tuple[int, int]


@dataclass(slots=True)
class _Segment:
    """What is enqueued between two decisions of the host."""

    steps: tuple[ControlledStep, ...]
    recording: Recording | None = None

    @property
    def plain(self) -> tuple[RecordedStep, ...] | None:
        """The steps, where no branch or loop is among them."""
        plain = tuple(step for step in self.steps if not isinstance(step, (BranchSpec, LoopSpec)))
        return plain if len(plain) == len(self.steps) else None


@dataclass(slots=True)
class _Branch:
    predicate: _Place
    blocks: tuple[list[_Node], list[_Node]]


@dataclass(slots=True)
class _Repeat:
    count: int
    body: list[_Node]


@dataclass(slots=True)
class _While:
    """`test` makes the first value of the predicate, `turn` runs the body and makes the next one.

    `together` are several turns, where turns past the last change nothing and they fit one recording.
    """

    test: list[_Node]
    predicate: _Place
    turn: list[_Node]
    settles: bool
    together: _Segment | None


_Node = _Segment | _Branch | _Repeat | _While


class Run:
    """An executable over one table of views, fixed or rebindable; holds the recordings."""

    def __init__(
        self,
        executable: Executable,
        views: Sequence[BufferView | None],
        last: Sequence[RecordedStep] = (),
    ) -> None:
        self.executable = executable
        self.views = list(views)
        self.rebindable = tuple(position for position, view in enumerate(views) if view is None)
        self.records = 0
        self.replays = 0
        steps = (*_Specs(executable).of(executable.program.steps), *last)
        self._nodes = _nodes(executable, steps)

    def forget(self) -> None:
        """Let go of the memory and of the recordings, which a device may need to free; it does not run again."""
        self.views.clear()
        self._nodes.clear()

    def run(self, bindings: Sequence[BufferView] = ()) -> None:
        """Run every step once; `bindings` fill the rebindable positions in order."""
        self._run(self._nodes, bindings)

    def _run(self, nodes: list[_Node], bindings: Sequence[BufferView]) -> None:
        for node in nodes:
            match node:
                case _Segment():
                    self._segment(node, bindings)
                case _Branch():
                    self._run(node.blocks[self._read(node.predicate, bindings)], bindings)
                case _Repeat():
                    for _ in range(node.count):
                        self._run(node.body, bindings)
                case _While():
                    self._while(node, bindings)

    def only_recording(self) -> Recording | None:
        """The recording of a program that is one segment, once made; None for others."""
        nodes = self._nodes
        return nodes[0].recording if len(nodes) == 1 and isinstance(nodes[0], _Segment) else None

    def _segment(self, node: _Segment, bindings: Sequence[BufferView]) -> None:
        device = self.executable.device
        if node.recording is not None:
            device.replay(node.recording, bindings)
            self.replays += 1
            return
        fault = self.executable.positions.fault if self.executable.may_fault else -1
        if node.plain is None:
            assert isinstance(device, Controlling)
            node.recording = device.record_control(node.steps, self.views, self.rebindable, bindings, fault)
        else:
            node.recording = device.record(node.plain, self.views, self.rebindable, bindings, fault)
        self.records += 1

    def _while(self, node: _While, bindings: Sequence[BufferView]) -> None:
        self._run(node.test, bindings)
        if not node.settles:
            while self._read(node.predicate, bindings):
                self._run(node.turn, bindings)
            return
        done = 0
        while True:
            left = min(1 + done // 4, _MOST_UNSEEN)
            done += left
            while node.together is not None and left >= _TOGETHER:
                self._segment(node.together, bindings)
                left -= _TOGETHER
            for _ in range(left):
                self._run(node.turn, bindings)
            if not self._read(node.predicate, bindings):
                return

    def _read(self, place: _Place, bindings: Sequence[BufferView]) -> bool:
        """A bool of the device's memory."""
        position, offset = place
        view = self.views[position]
        if view is None:
            view = bindings[self.rebindable.index(position)]
        out = np.empty(1, np.bool_)
        self.executable.device.read(BufferView(view.buffer, view.offset + offset), out)
        return bool(out[0])


# --- from the steps of a program to those of a recording --------------------------------------------------------------


class _Specs:
    """The steps of a program, placed in the table of views; launches are numbered in program order."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self._launches = 0

    def of(self, steps: Sequence[Step]) -> tuple[ControlledStep, ...]:
        found: list[ControlledStep] = []
        for step in steps:
            match step:
                case Launch():
                    found.append(self._launch(step))
                case Copy():
                    found += self._copy(step)
                case Branch():
                    first, second = step.blocks
                    found.append(BranchSpec(self._executable.locate(step.predicate), (self.of(first), self.of(second))))
                case Loop():
                    found.append(self._loop(step))
        return tuple(found)

    def _launch(self, step: Launch) -> LaunchSpec:
        number = self._launches
        self._launches += 1
        loaded = self._executable.kernels[step.kernel]
        buffers = tuple(self._executable.locate(binding.slot, binding.offset) for binding in step.bindings)
        return LaunchSpec(loaded, buffers, step.groups, (), number)

    def _copy(self, step: Copy) -> list[CopySpec]:
        nbytes = self._executable.program.storage.slots[step.source].nbytes
        if nbytes == 0:
            return []
        source, source_offset = self._executable.locate(step.source)
        target, target_offset = self._executable.locate(step.target)
        return [CopySpec(source, target, nbytes, source_offset, target_offset)]

    def _loop(self, step: Loop) -> LoopSpec:
        locate = self._executable.locate
        condition = self.of(step.condition)
        return LoopSpec(
            condition,
            locate(step.predicate) if step.trip_count < 0 else None,
            self.of(step.body),
            step.trip_count,
            locate(step.counter) if step.counter >= 0 else None,
            step.settles,
        )


# --- what the host decides --------------------------------------------------------------------------------------------


def _nodes(executable: Executable, steps: Sequence[ControlledStep]) -> list[_Node]:
    """Segments as long as possible, and the decisions between them."""
    if isinstance(executable.device, Controlling):
        return [_Segment(tuple(steps))] if steps else []
    nodes: list[_Node] = []
    pending: list[RecordedStep] = []

    def close() -> None:
        if pending:
            nodes.append(_Segment(tuple(pending)))
            pending.clear()

    for step in steps:
        match step:
            case BranchSpec():
                close()
                first, second = (_nodes(executable, block) for block in step.blocks)
                nodes.append(_Branch(step.predicate, (first, second)))
            case LoopSpec() if step.trip_count < 0:
                close()
                nodes.append(_while(executable, step))
            case LoopSpec():
                before, count, turn, after = _counted(executable, step)
                pending += before
                if count:
                    close()
                    nodes.append(_Repeat(count, turn))
                pending += after
            case _:
                pending.append(step)
    close()
    return nodes


def _flat(nodes: Sequence[_Node]) -> tuple[RecordedStep, ...] | None:
    """The steps of nodes among which the host has nothing to decide."""
    if not nodes:
        return ()
    return nodes[0].plain if len(nodes) == 1 and isinstance(nodes[0], _Segment) else None


def _counted(executable: Executable, step: LoopSpec) -> tuple[list[RecordedStep], int, list[_Node], list[RecordedStep]]:
    """A loop of known length: what comes first, how often some turns are repeated, these, and those left over."""
    before: list[RecordedStep] = []
    body = step.body
    if step.counter is not None and step.trip_count:
        before.append(_count(executable, step.counter, first=True))
        body = (*body, _count(executable, step.counter, first=False))
    turn = _nodes(executable, body)
    flat = _flat(turn)
    if flat is None:
        return before, step.trip_count, turn, []
    together = min(max(1, _MOST_UNROLLED // max(len(flat), 1)), step.trip_count)
    if together == step.trip_count:
        return before, 0, [], [*flat] * together
    return before, step.trip_count // together, [_Segment(flat * together)], [*flat] * (step.trip_count % together)


def _while(executable: Executable, step: LoopSpec) -> _While:
    assert step.predicate is not None
    before: tuple[RecordedStep, ...] = ()
    body = step.body
    if step.counter is not None:
        before = (_count(executable, step.counter, first=True),)
        body = (*body, _count(executable, step.counter, first=False))
    turn = _nodes(executable, (*body, *step.condition))
    flat = _flat(turn) if step.settles else None
    short = flat is not None and len(flat) * _TOGETHER <= _MOST_UNROLLED
    together = _Segment(flat * _TOGETHER) if flat is not None and short else None
    return _While(_nodes(executable, (*before, *step.condition)), step.predicate, turn, step.settles, together)


def _count(executable: Executable, counter: _Place, *, first: bool) -> LaunchSpec:
    """A launch that sets a counter to 0, or adds 1 to it."""
    device = executable.device
    loaded = executable.count_kernels.get(first)
    if loaded is None:
        loaded = executable.count_kernels[first] = device.load(
            compile_kernel(_count_kernel(first=first), device.target)
        )
    return LaunchSpec(loaded, (counter,), (1, 1, 1))


@functools.cache
def _count_kernel(*, first: bool) -> Kernel:
    k = KernelBuilder("first_turn" if first else "next_turn", workgroup=(1, 1, 1), threads=(1, 1, 1))
    counter = k.buffer("turn", i32, "write" if first else "readwrite", (1,))
    zero = k.i(0)
    k.store(counter, (zero,), k.const(0, i32) if first else k.op("add", k.load(counter, (zero,)), k.const(1, i32)))
    return k.finish()
