"""Storage: where values live while a program runs, and how scratch memory is reused over time.

`Cells` collects the buffers of a program while its steps are assembled; a step names them by number, which is the
number of the slot that each becomes.  `plan_storage` then places scratch slots in one arena: slots that are live at the
same time do not overlap; each is put, largest first, at the offset where it wastes least.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from poot.dtypes import ArraySpec
from poot.plan.program import Branch, Copy, Launch, Loop, Role, Slot, Step, Storage

#: Alignment of slots, in bytes: a cache line and the widest vector.
ALIGN = 64


@dataclass(slots=True)
class Cells:
    """The buffers of a program in the making."""

    slots: list[Slot] = field(default_factory=list[Slot])

    def new(self, role: Role, spec: ArraySpec, name: str = "") -> int:
        self.slots.append(Slot(role, spec, name))
        return len(self.slots) - 1


@dataclass(slots=True)
class _Life:
    slot: int
    size: int
    first: int
    last: int
    offset: int = -1


def plan_storage(
    slots: list[Slot], steps: tuple[Step, ...], last: frozenset[int] = frozenset(), prologue: tuple[Step, ...] = ()
) -> Storage:
    """Place the scratch slots; those in `last` are read after the last step.  The prologue has an arena of its own."""
    placed = list(slots)
    lives = _lives(slots, steps, last)
    before = _lives(slots, prologue, frozenset())
    arena, prologue_bytes = _place(lives), _place(before)
    for life in (*lives, *before):
        placed[life.slot] = replace(placed[life.slot], offset=life.offset)
    for number, slot in enumerate(placed):
        if slot.role == "scratch" and slot.offset < 0:
            placed[number] = replace(slot, offset=0)
    return Storage(tuple(placed), arena, _bound(lives), prologue_bytes)


def _lives(slots: list[Slot], steps: tuple[Step, ...], last: frozenset[int]) -> list[_Life]:
    spans = _Spans()
    spans.block(steps)
    for slot in last:
        spans.touch(slot, spans.clock)
    spans.widen()
    return [
        _Life(number, -(-slot.nbytes // ALIGN) * ALIGN, *spans.found[number])
        for number, slot in enumerate(slots)
        if slot.role == "scratch" and number in spans.found
    ]


@dataclass(slots=True)
class _Spans:
    """First and last time at which each slot is used.

    A slot used in a loop and before it lives until the loop ends; one made in a loop and used after it lives from the
    loop's begin on, since a turn may make a part of it alone.
    """

    clock: int = 0
    found: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    loops: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def touch(self, slot: int, time: int) -> None:
        first, last = self.found.get(slot, (time, time))
        self.found[slot] = min(first, time), max(last, time)

    def widen(self) -> None:
        """Let what leaves a loop live from its begin on; inner loops come before those around them."""
        for begin, end in self.loops:
            for slot, (first, last) in self.found.items():
                if begin < first <= end < last:
                    self.found[slot] = begin, last

    def block(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.clock += 1
            match step:
                case Launch():
                    for binding in step.bindings:
                        self.touch(binding.slot, self.clock)
                case Copy():
                    self.touch(step.source, self.clock)
                    self.touch(step.target, self.clock)
                case Branch():
                    self.touch(step.predicate, self.clock)
                    for block in step.blocks:
                        self.block(block)
                case Loop():
                    self._loop(step)

    def _loop(self, step: Loop) -> None:
        begin = self.clock
        inside = _Spans(begin)
        inside.block(step.condition)
        for slot in (step.predicate, step.counter):
            if slot >= 0:
                inside.touch(slot, begin)
        inside.block(step.body)
        self.clock = inside.clock + 1
        self.loops += [*inside.loops, (begin, self.clock)]
        for slot, (first, last) in inside.found.items():
            if slot in self.found or slot in (step.predicate, step.counter):
                self.touch(slot, begin)
                self.touch(slot, self.clock)
            else:
                self.touch(slot, first)
                self.touch(slot, last)


def _place(lives: list[_Life]) -> int:
    """Best fit, largest first: the smallest gap that holds a slot beside those live at the same time.  The total."""
    arena = 0
    placed: list[_Life] = []
    for life in sorted(lives, key=lambda life: (-life.size, life.first)):
        beside = sorted(
            (other for other in placed if other.first <= life.last and life.first <= other.last),
            key=lambda other: other.offset,
        )
        best, waste, end = -1, -1, 0
        for other in beside:
            gap = other.offset - end
            if gap >= life.size and (waste < 0 or gap - life.size < waste):
                best, waste = end, gap - life.size
            end = max(end, other.offset + other.size)
        life.offset = end if best < 0 else best
        arena = max(arena, life.offset + life.size)
        placed.append(life)
    return arena


def _bound(lives: list[_Life]) -> int:
    """The most bytes that are live at one time."""
    changes: dict[int, int] = {}
    for life in lives:
        changes[life.first] = changes.get(life.first, 0) + life.size
        changes[life.last + 1] = changes.get(life.last + 1, 0) - life.size
    live = most = 0
    for time in sorted(changes):
        live += changes[time]
        most = max(most, live)
    return most
