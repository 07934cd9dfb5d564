"""Branches and loops as decisions within one list of launches, which the native runtime takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from poot.backends.cpu.launches import Control
from poot.backends.cpu.runtime_ir import Operation
from poot.backends.device import BranchSpec, ControlledStep, LoopSpec, RecordedStep

_ENDLESS: Final = 1 << 62

#: An argument: a word, or a position of the table of views with a byte offset.
Argument = int | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Decision:
    """A `Control` whose arguments may be places in the table of views."""

    operation: Operation
    target: int
    arguments: tuple[Argument, ...] = ()
    limit: int = 0

    def control(self, arguments: tuple[int, ...]) -> Control:
        return Control(self.operation, self.target, arguments, self.limit)


@dataclass(slots=True)
class _Flat:
    items: list[RecordedStep | Decision] = field(default_factory=list[RecordedStep | Decision])

    def later(self) -> int:
        """Room for a decision whose target is not known yet; its index."""
        self.items.append(Decision(Operation.JUMP, 0))
        return len(self.items) - 1

    def add(self, steps: Iterable[ControlledStep]) -> None:
        for step in steps:
            match step:
                case BranchSpec():
                    self._branch(step)
                case LoopSpec():
                    self._loop(step)
                case _:
                    self.items.append(step)

    def _branch(self, step: BranchSpec) -> None:
        when_false, when_true = step.blocks
        test = self.later()
        self.add(when_true)
        skip = self.later()
        self.items[test] = Decision(Operation.TEST, len(self.items), (step.predicate,))
        self.add(when_false)
        self.items[skip] = Decision(Operation.JUMP, len(self.items))

    def _loop(self, step: LoopSpec) -> None:
        """A loop always starts with a decision: no run goes back to index 0, which would mean that it is over."""
        if step.trip_count == 0:
            return
        start = self.later()
        test = -1
        if step.trip_count < 0:
            self.add(step.condition)
            test = self.later()
        self.add(step.body)
        turn = len(self.items)
        self.items[start] = Decision(Operation.START, turn)
        limit = _ENDLESS if step.trip_count < 0 else step.trip_count
        self.items.append(Decision(Operation.TURN, start + 1, (step.counter or 0, 0), limit))
        if test >= 0:
            assert step.predicate is not None
            self.items[test] = Decision(Operation.TEST, turn + 1, (step.predicate,))


def flatten(steps: Sequence[ControlledStep]) -> list[RecordedStep | Decision]:
    """The same steps in one list, in which decisions name indices."""
    flat = _Flat()
    flat.add(steps)
    return flat.items
